"""A served model that follows a table of a real PostgreSQL."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from followed_table import FollowedTable, following
from hammemo import MemoryClassifier
from hammemo.client import Client
from hammemo.follow.position import FollowError
from hammemo.follow.served import ServedTarget
from hammemo.receipts.keys import new_key_file
from postgres_server import needs_postgres, one_server, server
from running_servers import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from postgres_server import Server

pytestmark = [needs_postgres, one_server]


@pytest.fixture(scope="module")
def logical() -> Iterator[Server]:
    with server("wal_level=logical", "max_slot_wal_keep_size=64MB", "fsync=off") as made:
        yield made


class ServedTable(FollowedTable):
    """A table and a model on a server that follows it."""

    client: Client
    url: str
    receipts: Path | None = None

    def target(self) -> Any:
        return ServedTarget(self.client, self.url, self.name, self.receipts)

    def is_equal(self) -> bool:
        self.client.download(self.name, self.path)
        return super().is_equal()


@pytest.fixture
def served(logical: Server, tmp_path: Path) -> Iterator[ServedTable]:
    new_key_file(tmp_path / "keys")
    with in_thread(tmp_path / "models", keys=tmp_path / "keys") as running, Client(running.url, patience=5) as client:
        one = ServedTable(logical.address, tmp_path, "served", columns=["plan", "calls", "spend", "born"], pause=0.01)
        one.client, one.url, one.receipts = client, running.url, tmp_path / "receipts"
        one.sql("create table {} (id int primary key, plan text, calls int, spend float8, churned text, born date)")
        one.sql("alter table {} replica identity full")
        yield one
        one.close()


def test_rows_come_change_and_go(served: ServedTable) -> None:
    served.fill(1, 100)
    served.sql("update {} set born = date '2020-01-01' + id where id % 4 > 0")
    assert served.events() == ["fitted"]
    served.fill(101, 105)
    served.sql("delete from {} where id < 10", "update {} set calls = 99, born = born + 1 where id > 90")
    served.sql("update {} set churned = null where id = 50", "update {} set spend = 'NaN' where id = 51")
    [told] = served.once()
    assert told["learnt"] == 15 + 1  # rows that came and changed are learnt once
    assert served.is_equal()
    served.sql("update {} set churned = 'maybe' where id = 50")
    assert [facts["learnt"] for facts in served.once()] == [1]
    assert served.is_equal()
    served.sql("truncate {}")
    assert served.once()[0]["event"] == "checked"
    assert served.is_equal()


def test_a_model_of_numbers_follows(served: ServedTable) -> None:
    served.options = replace(served.options, label="spend", columns=["plan", "calls", "born"], is_target=True)
    served.fill(1, 60)
    assert served.events() == ["fitted"]
    served.fill(61, 65)
    served.sql("delete from {} where id < 10", "update {} set spend = 2.5 where id > 50")
    [told] = served.once()
    assert (told["learnt"], told["forgotten"]) == (15, 19)
    assert served.is_equal()
    served.options = replace(served.options, refit_after=0.0)
    served.sql("delete from {} where id = 20")
    assert served.events() == ["changed", "refitted"]
    assert served.is_equal()


def test_bounds_of_a_model_of_numbers(served: ServedTable) -> None:
    plain = replace(served.options, label="spend", columns=["plan", "calls", "born"], is_target=True)
    served.options = replace(plain, bounds=(0, None))
    served.fill(1, 60)
    assert served.events() == ["fitted"]
    assert served.client.describe("served")["bounds"] == [0.0, None]
    served.options = plain
    served.once()
    served.options = replace(plain, bounds=(0, 9))
    with pytest.raises(FollowError, match=r"has bounds=\[0.0, None\], not \(0.0, 9.0\)"):
        served.once()


def test_bounds_of_a_model_with_subjects(served: ServedTable) -> None:
    served.sql("alter table {} add person text")
    served.options = replace(
        served.options,
        label="spend",
        columns=["plan", "calls", "born"],
        subject="person",
        is_target=True,
        bounds=(0, None),
    )
    served.fill(1, 30)
    served.sql("update {} set person = 'p' || id")
    served.once()
    assert served.client.describe("served")["bounds"] == [0.0, None]


def test_a_silent_change_is_repaired_by_one_edit(served: ServedTable) -> None:
    served.fill(1, 100)
    served.sql("update {} set born = date '2020-01-01' + id where id % 4 > 0")
    served.once()
    version = served.client.describe("served")["version"]
    served.sql("alter table {} alter column calls type int using calls * 2")
    [told] = served.once()
    assert told["forgotten"] == told["learnt"] > 50
    assert served.client.describe("served")["version"] <= version + 2  # the difference, and perhaps the place
    assert served.is_equal()
    served.client.learn("served", [["z", 1, 1.0, "2020-02-02"]], ["no"])  # an edit that did not come from the table
    served.client.forget("served", [["b", 2, 1.0, "2020-01-02"]], ["yes"])
    served.sql("delete from {} where id = 1")
    assert "does not hold a row" in served.once()[0]["reason"]
    assert served.is_equal()


def test_a_refit_has_a_receipt(served: ServedTable) -> None:
    served.options = replace(served.options, refit_after=0.0)
    served.fill(1, 300)
    served.once()
    served.sql("delete from {} where id < 6")
    [_, refitted] = served.once()
    assert (refitted["event"], refitted["deleted"], refitted["rows"]) == ("refitted", 5, 295)
    assert served.receipts is not None
    receipt = json.loads(served.receipts.read_text())["receipt"]
    assert receipt["request"].startswith("follow_public.served_")
    assert receipt["request"].endswith(":_5_rows")
    fitted = served.fit()
    assert isinstance(fitted, MemoryClassifier)
    assert refitted["digest"] == fitted.digest()


def test_no_reader_of_the_server_sees_part_of_a_transaction(served: ServedTable) -> None:
    served.fill(1, 30)
    served.sql("update {} set churned = 'l0'")
    served.once()
    stop, seen = threading.Event(), set()

    def ask() -> None:
        while not stop.is_set():
            facts = served.client.describe("served")
            seen.add((len(facts["classes"]), facts["examples"]))

    reader = threading.Thread(target=ask)
    reader.start()
    try:
        with following(served.follower()) as follower:
            follower.start()
            for i in range(12):
                served.sql(f"update {{}} set churned = 'l{i + 1}'")
                follower.step()
    finally:
        stop.set()
        reader.join()
    assert seen == {(1, 30)}


def test_a_transaction_that_a_server_cannot_take_whole_is_named(served: ServedTable) -> None:
    served.fill(1, 20)
    served.once()
    before = served.client.describe("served")["version"]
    served.sql("insert into {} select g, 'p' || g, g, g, 'no', null from generate_series(100, 10300) g")
    with pytest.raises(FollowError, match=r"10,000 rows.*with a model file"):
        served.once()
    assert served.client.describe("served")["version"] == before


def test_rows_of_a_subject(served: ServedTable) -> None:
    served.sql("alter table {} add column person text", "update {} set person = 'p'")
    served.options = replace(served.options, subject="person", refit_after=0.0)
    served.fill(1, 60)
    served.sql("update {} set person = 'p' || id % 7, born = date '2020-01-01' + id")
    assert served.events() == ["fitted"]
    served.sql(
        "delete from {} where id < 10",
        "update {} set person = 'p1' where id > 50",
        "update {} set calls = 5 where id = 30",
    )
    assert served.events()[0] == "changed"
    facts = served.client.describe("served")
    assert facts["examples"] == 51
    done = served.client.forget_subject("served", "p1", refit=False)
    assert done.version > facts["version"]
    n = served.db.execute("select count(*) from served where person = 'p1'").fetchone()
    assert n is not None
    assert served.client.describe("served")["examples"] == 51 - n[0]
    served.sql("alter table {} add column more int")
    with pytest.raises(FollowError, match="which person a row belongs to"):
        served.once()
