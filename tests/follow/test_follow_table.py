"""A model file that follows a table of a real PostgreSQL: equal to a new fit, whatever happens to either."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.sql import Composed
from typer.testing import CliRunner

from followed_table import COLUMNS, FollowedTable, following
from hammemo import MemoryClassifier, MemoryRegressor, load, save
from hammemo.cli.app import app
from hammemo.follow import follower as following_module
from hammemo.follow.position import FollowError, Position
from hammemo.follow.source import FollowedSource
from hammemo.follow.targets import FileTarget
from hammemo.receipts import ReceiptFile, new_key_file, read_keys
from pace import wait_until
from places import ROOT
from postgres_server import needs_postgres, one_server, server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from postgres_server import Server

pytestmark = [needs_postgres, one_server]
_numbers = count()


@pytest.fixture(scope="module")
def logical() -> Iterator[Server]:
    with server("wal_level=logical", "max_slot_wal_keep_size=64MB", "fsync=off") as made:
        yield made


@pytest.fixture
def table(logical: Server, tmp_path: Path) -> Iterator[Callable[..., FollowedTable]]:
    made: list[FollowedTable] = []

    def make(**options: Any) -> FollowedTable:
        made.append(FollowedTable(logical.address, tmp_path, f"t{next(_numbers)}", **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_rows_come_change_and_go(table: Callable[..., FollowedTable]) -> None:
    one = table()
    one.create()
    assert one.events() == ["fitted"]
    assert one.events() == []
    one.fill(101, 104)
    one.sql(
        "delete from {} where id < 10",
        "update {} set calls = 99 where id > 90",
        "update {} set churned = null where id = 50",
    )
    [told] = one.once()
    assert (told["learnt"], told["forgotten"], told["transactions"]) == (4 + 10, 9 + 10 + 1, 4)
    assert told["held_bytes"] > 0
    assert one.is_equal()
    one.sql("update {} set churned = 'maybe' where id = 50")
    assert [facts["learnt"] for facts in one.once()] == [1]  # the label arrived
    assert one.is_equal()
    with pytest.raises(psycopg.errors.DivisionByZero):
        one.sql("begin; insert into {} values (999, 'z', 1, 1, 'x'); select 1 / 0")
    one.db.rollback()
    assert one.events() == []  # what was rolled back is not sent


def test_every_type_is_read_from_the_log_as_from_the_table(table: Callable[..., FollowedTable]) -> None:
    types = {
        "small": "smallint", "big": "bigint", "exact": "numeric(18,0)", "price": "numeric", "real": "real",
        "day": "date",
        "at": "timestamptz", "local": "timestamp", "ok": "boolean", "mood": "mood", "u": "uuid", "tags": "text[]",
        "doc": "jsonb", "pause": "interval", "raw": "bytea", "fixed": "char(4)",
    }  # fmt: skip
    one = table(columns=list(types), label="ok2")
    one.sql("drop type if exists mood", "create type mood as enum ('sad', 'glad')")
    one.sql("create table {} (id int, " + ", ".join(f"{k} {v}" for k, v in types.items()) + ", ok2 boolean)")
    one.sql("alter table {} replica identity full")
    assert one.events() == ["fitted"]
    insert = (
        "insert into {} select g, g, 9007199254740993 + g, g * 99999999999, g / 7.0, g / 3.0, date '2020-02-28' + g, "
        "timestamptz '2021-03-28 01:30:00.5+02' + g * interval '1 hour', "
        "timestamp '1999-12-31' + g * interval '1 second', "
        "g % 2 = 0, case when g % 3 = 0 then 'sad' else 'glad' end::mood, md5(g::text)::uuid, "
        "array['a,b', null, g::text], "
        "jsonb_build_object('k', g % 4), g * interval '90 minutes', decode(md5(g::text), 'hex'), 'ab', g % 3 = 0 "
        "from generate_series(1, 60) g"
    )
    one.sql(insert)
    one.sql(
        "insert into {} (id, price, real, day, at, ok2) values (100, 'NaN', 'Infinity', 'infinity', '-infinity', true)"
    )
    one.sql(
        "insert into {} (id, real, day, ok2) values (101, '-Infinity', '0044-03-15 BC', true), (102, 'NaN', null, null)"
    )
    [changed, _] = one.once()
    assert changed["learnt"] == 62
    assert one.is_equal()
    one.sql("update {} set price = price + 1", "delete from {} where id % 2 = 0", "delete from {} where id > 90")
    one.events()
    assert one.is_equal()
    fitted = one.fit()
    assert fitted is not None
    assert fitted.classes_.tolist() == [False, True]
    assert fitted.state.rows is not None
    assert 9007199254740994 in fitted.state.rows.examples().contexts.vocabulary.tolist()  # exact, unlike a float


def test_an_empty_table_one_label_and_a_truncate(table: Callable[..., FollowedTable]) -> None:
    one = table()
    one.create(rows=0)
    assert one.events() == ["fitted"]
    assert int(load(one.path).state.n_examples) == 0
    one.sql("insert into {} values (1, 'a', 1, 1, 'yes')")
    assert one.events() == ["changed", "refitted"]
    assert one.is_equal()
    one.sql("truncate {}")
    assert one.events() == ["checked"]
    assert one.is_equal()
    one.fill(1, 50)
    with following(one.follower()) as follower:  # a truncate between two looks at the table's files comes by the log
        follower.start()
        one.sql("truncate {}", "insert into {} values (1, 'a', 1, 1, 'yes')")
        follower._read(follower.source.flush())
        assert one.told[-1]["forgotten"] == 0  # 50 rows came and went within a batch
    assert one.is_equal()
    one.sql("delete from {}")
    one.events()
    assert one.is_equal()


def test_transactions_that_come_again_are_skipped(table: Callable[..., FollowedTable], monkeypatch: Any) -> None:
    one = table()
    one.create()
    one.once()
    monkeypatch.setattr("hammemo.follow.source.FollowedSource.advance", lambda *_: None)  # as if it was killed before
    for first in (101, 111, 121):
        one.fill(first, first + 9)
        one.sql(f"delete from {{}} where id = {first}")
        [told] = one.once()
        assert (told["transactions"], told["skipped"]) == (2, (first - 101) // 5)
    assert one.is_equal()
    assert one.once() == []


def test_the_first_fit_skips_what_its_snapshot_shows(table: Callable[..., FollowedTable], monkeypatch: Any) -> None:
    """Transactions commit between slot and snapshot, and while the table is read."""
    one = table()
    one.create()
    snapshot, rows = FollowedSource.snapshot, FollowedSource.rows
    with psycopg.connect(one.address) as other:
        other.execute(f"insert into {one.name} values (1001, 'open', 1, 1, 'yes')")  # runs while the snapshot is taken

        def with_writes(self: Any, timeout: float) -> Any:
            one.sql("insert into {} values (1002, 'before', 1, 1, 'yes')", "delete from {} where id = 1")
            return snapshot(self, timeout)

        def with_commits(self: Any, followed: Any) -> Any:
            other.commit()
            one.sql("insert into {} values (1003, 'after', 1, 1, 'yes')", "delete from {} where id = 1002")
            return rows(self, followed)

        with monkeypatch.context() as patched:
            patched.setattr("hammemo.follow.source.FollowedSource.create_slot", _create_slot_at_once)
            patched.setattr("hammemo.follow.source.FollowedSource.snapshot", with_writes)
            patched.setattr("hammemo.follow.source.FollowedSource.rows", with_commits)
            other_slot = one.follower().source.slot
            other.commit()
            one.db.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [other_slot])
            other.execute(f"insert into {one.name} values (1004, 'open', 1, 1, 'yes')")
            [fitted, changed] = one.once()
    assert fitted["rows"] == 100 + 1
    assert (changed["learnt"], changed["forgotten"]) == (2, 1)
    assert (changed["transactions"], changed["skipped"]) == (3, 2)
    assert one.is_equal()


def _create_slot_at_once(_: Any) -> None:
    """The slot is there."""


def test_a_large_transaction_is_applied_in_parts_and_stored_once(
    table: Callable[..., FollowedTable], monkeypatch: Any
) -> None:
    one = table(columns=["id", "plan"])
    one.create()
    one.once()
    monkeypatch.setattr(FileTarget, "batch_rows", 20)
    saves, stored = [], FileTarget._save

    def counting(self: FileTarget) -> None:
        saves.append(self.n_rows())
        stored(self)

    monkeypatch.setattr(FileTarget, "_save", counting)
    one.sql(
        "begin; delete from {} where id < 50; "
        "insert into {} select g, 'x', 1, 1, 'no' from generate_series(200, 400) g; commit"
    )
    one.once()
    assert saves[0] == 252
    assert one.is_equal()


def test_no_reader_of_the_file_sees_part_of_a_transaction(table: Callable[..., FollowedTable]) -> None:
    """Every transaction replaces all rows by as many of another label."""
    one = table(pause=0.01, refit_after=0.0)
    one.create(rows=30)
    one.sql("update {} set churned = 'l0'")
    one.once()
    stop, seen = threading.Event(), set()

    def ask() -> None:
        while not stop.is_set():
            model = load(one.path)
            seen.add((len(model.classes_), int(model.state.n_examples)))

    reader = threading.Thread(target=ask)
    reader.start()
    try:
        with following(one.follower()) as follower:
            follower.start()
            for i in range(12):
                one.sql(f"update {{}} set churned = 'l{i + 1}'")
                follower.step()
    finally:
        stop.set()
        reader.join()
    assert seen == {(1, 30)}


SILENT = {
    "ALTER … USING": (False, "alter table {} alter column calls type int using calls * 2"),
    "a column that is not followed": (False, "alter table {} add column more int default 3"),
    "DETACH": (True, "alter table {} detach partition {}_1"),
    "DROP": (True, "drop table {}_1"),
    "TRUNCATE of a partition": (True, "truncate {}_1"),
    "ATTACH": (
        True,
        "create table {}_3 (like {}); insert into {}_3 values (500, 'q', 1, 1, 'no'); "
        "alter table {}_3 add primary key (id); alter table {}_3 replica identity full; "
        "alter table {} attach partition {}_3 for values from (400) to (900)",
    ),
}


@pytest.mark.parametrize("what", SILENT)
def test_silent_changes_are_noticed_and_repaired(table: Callable[..., FollowedTable], what: str) -> None:
    in_parts, statement = SILENT[what]
    one = table(check_every=0.0)
    if in_parts:
        create_parts(one)
    else:
        one.create()
    one.once()
    one.sql(statement)
    told = one.once()
    assert "files, columns or partitions" in told[0]["reason"]
    assert one.is_equal()
    one.sql("delete from {} where id between 60 and 70")
    assert one.once()[0]["forgotten"] == 11
    assert one.is_equal()


def row(plan: str, calls: int, spend: float) -> pa.Table:
    return pa.table({"plan": [plan], "calls": [calls], "spend": [spend]})


def create_parts(one: FollowedTable) -> None:
    one.sql(
        "create table {} (id int primary key, plan text, calls int, spend float8, churned text) partition by range (id)"
    )
    for number, (first, last) in enumerate(((0, 40), (40, 400)), 1):
        one.sql(f"create table {{}}_{number} partition of {{}} for values from ({first}) to ({last})")
        one.sql(f"alter table {{}}_{number} replica identity full")
    one.fill(1, 100)


def test_a_partition_that_sends_only_keys_is_named_and_then_repaired(table: Callable[..., FollowedTable]) -> None:
    one = table()
    create_parts(one)
    one.once()
    one.sql(
        "create table {}_9 partition of {} for values from (400) to (900)",
        "insert into {} values (450, 'q', 1, 1, 'no')",
    )
    one.sql("update {} set calls = 5 where id = 450")  # the source's write does not fail
    with pytest.raises(FollowError, match=f"ALTER TABLE .*{one.name}_9 REPLICA IDENTITY FULL"):
        one.once()
    one.sql("alter table {}_9 replica identity full")
    assert one.once()[0]["event"] == "checked"
    assert one.is_equal()


def test_a_check_repairs_what_neither_log_nor_files_show(table: Callable[..., FollowedTable]) -> None:
    one = table(check_every=1e-9)
    one.create()
    one.once()
    target = FileTarget(one.path)
    gone = row("b", 1, 1.0), ["yes"]
    target.model.apply(learn=(row("z", 1, 1.0), ["no"]), forget=gone)
    target._save()
    told = [facts for facts in one.once() if facts["event"] == "checked"]
    assert (told[0]["forgotten"], told[0]["learnt"]) == (1, 1)
    assert one.is_equal()
    one.options = replace(one.options, check_every=0.0)
    target.reload()
    target.model.forget(*gone)
    target._save()
    assert one.once() == []
    one.sql("delete from {} where id = 1")  # this row is not in the model
    assert "does not hold a row" in one.once()[0]["reason"]
    assert one.is_equal()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("alter table {} rename column calls to rings", "Column 'calls' of .* does not exist"),
        ("alter table {} alter column calls type text", "another type"),
        ("alter table {} drop column calls", "Column 'calls'"),
        ("alter table {} replica identity default", "REPLICA IDENTITY FULL .* hammemo sync"),
    ],
)
def test_what_cannot_be_followed_stops_with_a_sentence(
    table: Callable[..., FollowedTable], statement: str, told: str
) -> None:
    one = table()
    one.create()
    one.once()
    before = one.path.read_bytes()
    with following(one.follower()) as follower:
        follower.start()
        one.sql(statement)
        with pytest.raises(FollowError, match=told):
            follower.step()
    with pytest.raises(FollowError, match=told):
        one.once()
    assert one.path.read_bytes() == before


PUBLICATIONS = {
    "for table {} (id, plan, calls, spend, churned)": "list of columns",
    "for table {} with (publish = 'insert')": "does not send all changes",
    "for all tables": "not for .* alone",
    "for tables in schema public": "not for .* alone",
    "for table {} where (id > 5) with (publish_via_partition_root = true)": "",
}


@pytest.mark.parametrize("how", PUBLICATIONS)
def test_dangerous_publications_are_refused(table: Callable[..., FollowedTable], how: str) -> None:
    one = table()
    one.create()
    one.sql(f"create publication {{}}_p {how}")
    try:
        if PUBLICATIONS[how]:
            with pytest.raises(FollowError, match=PUBLICATIONS[how]):
                one.once(publication=f"{one.name}_p")
            assert not one.path.exists()
        else:
            one.once(publication=f"{one.name}_p")
            assert load(one.path).state.n_examples == 95  # the publication's filter is that of the table, too
            one.options = replace(one.options, where="id > 7")
            with pytest.raises(FollowError, match="filter"):
                one.once(publication=f"{one.name}_p")
    finally:
        one.sql("drop publication {}_p")


def test_it_makes_no_publication_that_could_make_a_write_fail(table: Callable[..., FollowedTable]) -> None:
    one = table()
    one.sql("create table {} (id int, plan text, calls int, spend float8, churned text)")
    one.fill(1, 10)
    for identity in ("default", "nothing"):
        one.sql(f"alter table {{}} replica identity {identity}")
        with pytest.raises(FollowError, match="REPLICA IDENTITY FULL"):
            one.once()
        one.sql("update {} set calls = 1 where id = 1")
    with following(one.follower()) as follower:
        assert follower.source.one("select count(*) from pg_publication")[0] == 0
    parts = table(where="id > 5")
    create_parts(parts)
    with pytest.raises(FollowError, match="added later"):
        parts.once()
    no_key = table()
    no_key.sql("create table {} (id int, plan text, calls int, spend float8, churned text) partition by range (id)")
    with pytest.raises(FollowError, match="no primary key"):
        no_key.once()
    unlogged = table()
    unlogged.sql("create unlogged table {} (id int, churned text)")
    with pytest.raises(FollowError, match="not an ordinary table"):
        unlogged.once()
    heirs = table()
    heirs.create()
    heirs.sql("create table {}_heir () inherits ({})")
    with pytest.raises(FollowError, match="inherit"):
        heirs.once()


def test_a_condition_and_its_border(table: Callable[..., FollowedTable]) -> None:
    one = table(where="calls < 10")
    one.create()
    one.once()
    assert 0 < load(one.path).state.n_examples < 100
    one.sql(
        "update {} set calls = 50 where id < 20",
        "update {} set calls = 3 where id > 80",
        "delete from {} where id = 40",
    )
    one.once()
    assert one.is_equal()
    one.options = replace(one.options, where="calls < 11")
    with pytest.raises(FollowError, match="filter"):
        one.once()


def test_a_lost_slot_is_repaired(table: Callable[..., FollowedTable]) -> None:
    one = table()
    one.create()
    one.once()
    slot = Position.decode(str(load(one.path).position_)).slot
    one.sql(f"select pg_drop_replication_slot('{slot}')", "delete from {} where id < 20")
    one.fill(101, 105)
    [told] = one.once()
    assert (told["reason"], told["forgotten"], told["learnt"]) == ("the slot was lost", 19, 5)
    assert one.is_equal()
    one.sql("delete from {} where id = 20", f"select pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    [told] = one.once()
    assert (told["reason"], told["forgotten"]) == ("the slot is ahead of the model", 1)
    assert one.is_equal()
    for number in range(21, 29):  # 16 MB each, and 64 may be kept
        one.sql(f"delete from {{}} where id = {number}", "select pg_switch_wal()")
    one.sql("checkpoint")
    [told] = one.once()
    assert (told["reason"], told["forgotten"]) == ("the slot was lost", 8)
    assert one.is_equal()


def test_a_second_follower_is_refused(table: Callable[..., FollowedTable]) -> None:
    one = table()
    one.create()
    with following(one.follower()) as follower:
        follower.start()
        with pytest.raises(FollowError, match="Another follower"):
            one.once()
        with following(one.follower()) as other:
            assert other.status()["in_use"]
            with pytest.raises(FollowError, match="Another follower"):
                other.drop()
        follower.step()
    assert one.once() == []


def test_the_log_of_other_tables_is_let_go(table: Callable[..., FollowedTable], monkeypatch: Any) -> None:
    one = table()
    one.create()
    one.once()
    monkeypatch.setattr(following_module, "_IDLE_BYTES", 1000)
    one.sql("create table {}_other as select generate_series(1, 1000)")
    before = Position.decode(str(load(one.path).position_)).lsn
    with following(one.follower()) as follower:
        follower.run(once=True)
        assert follower.status()["behind_bytes"] < 1000
    assert Position.decode(str(load(one.path).position_)).lsn > before
    assert one.is_equal()
    one.sql("drop table {}_other")


def test_a_refit_follows_new_rows_and_deletions_with_a_receipt(
    table: Callable[..., FollowedTable], tmp_path: Path, monkeypatch: Any
) -> None:
    one = table(refit_after=0.0)
    one.create(rows=300)
    one.once()
    new_key_file(tmp_path / "keys")
    keys, receipts = read_keys(tmp_path / "keys"), ReceiptFile(tmp_path / "receipts")
    monkeypatch.setattr(one, "target", lambda: FileTarget(one.path, receipts, keys))
    one.fill(301, 320)
    assert one.events() == ["changed"]
    one.fill(321, 340)
    [_, refitted] = one.once()
    assert (refitted["event"], refitted["rows"], refitted["deleted"]) == ("refitted", 340, 0)
    assert 0.0 <= refitted["changed_labels"] <= 1.0
    assert not (tmp_path / "receipts").exists()
    one.sql("delete from {} where id < 6")
    [_, refitted] = one.once()
    [signed] = receipts.read()
    assert signed.verify()
    assert re.fullmatch(rf"follow public.{one.name} [0-9A-F]+/[0-9A-F]+: 5 rows", signed.receipt.request)
    assert signed.receipt.digest_after == refitted["digest"] == load(one.path).digest()
    fitted = one.fit()
    assert fitted is not None
    assert refitted["digest"] == fitted.digest()


def test_the_table_is_locked_before_the_snapshot_is_taken(
    table: Callable[..., FollowedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = table()
    one.create(rows=20)
    execute = psycopg.Connection.execute

    def execute_late(connection: Any, statement: Any, *values: Any, **options: Any) -> Any:
        if isinstance(statement, Composed) and statement.as_string().startswith("lock table"):
            # A snapshot from before this would see neither the old rows nor the new ones.
            execute(one.db, f"begin; truncate {one.name}")
            one.fill(1, 7)
            execute(one.db, "commit")
        return execute(connection, statement, *values, **options)

    with following(one.follower()) as follower:
        follower._open()
        monkeypatch.setattr(psycopg.Connection, "execute", execute_late)
        with follower.source.snapshot(60):
            rows = follower._columns.join(follower.source.rows(follower._columns))
    assert len(rows.labels) == 7


def test_a_model_that_does_not_keep_its_rows_is_refitted_to_the_table(table: Callable[..., FollowedTable]) -> None:
    one = table(refit_after=0.0)
    one.create(rows=300)
    with following(one.follower()) as follower:
        follower._open()
        rows = follower._columns.join(follower.source.rows(follower._columns))
    save(MemoryClassifier(keep="digests").fit(*rows[:2]), one.path)
    assert one.events() == ["checked"]  # a model that was fitted before begins to follow
    one.sql("delete from {} where id < 30")
    assert one.events() == ["changed", "checked", "refitted"]
    with following(one.follower()) as follower:
        follower._open()
        rows = follower._columns.join(follower.source.rows(follower._columns))
    assert load(one.path).digest() == MemoryClassifier(keep="digests").fit(*rows[:2]).digest()


def test_kills_lose_nothing_and_repeat_nothing(table: Callable[..., FollowedTable]) -> None:
    """Each kill comes after the follower has stored something, while rows are written."""
    one = table()
    one.create()
    one.once()
    command = [
        sys.executable, "-m", "hammemo", "follow", one.address, "--table", one.name, "--label", "churned", "--model",
        str(one.path), "--columns", ",".join(COLUMNS), "--json", "--refit-after", "1",
    ]  # fmt: skip
    for kill in range(3):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        stored = threading.Event()

        def read(process: subprocess.Popen[str] = process, stored: threading.Event = stored) -> None:
            assert process.stdout is not None
            for line in process.stdout:
                if json.loads(line)["event"] == "changed":
                    stored.set()

        reader = threading.Thread(target=read)
        reader.start()
        for i in range(10_000):
            number = 10_000 * (kill + 1) + i
            one.sql(f"insert into {{}} values ({number}, 'k{i % 3}', {i % 9}, 1, 'l{i % 2}')")
            one.sql(f"delete from {{}} where id = {number - 20}")
            if stored.is_set() and i % 7 == 6:
                break
            time.sleep(0.002)
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
        assert stored.is_set()
        assert wait_until(
            lambda: (
                not one.db.execute(
                    "select 1 from pg_stat_activity where application_name = 'hammemo follow'"
                ).fetchone()
            ),
            30,
        )
    one.once()
    assert one.is_equal()


def test_the_command(table: Callable[..., FollowedTable], tmp_path: Path) -> None:
    one, runner = table(), CliRunner()
    one.create()
    common = [
        one.address,
        "--table",
        one.name,
        "--label",
        "churned",
        "--model",
        str(one.path),
        "--columns",
        ",".join(COLUMNS),
    ]
    done = runner.invoke(app, ["follow", *common, "--once"])
    assert (done.exit_code, done.stdout) == (0, "Fitted to 100 rows.\n"), done.output
    shown = runner.invoke(app, ["follow", *common, "--status", "--json"])
    facts = json.loads(shown.stdout)
    assert (facts["rows"], facts["in_use"], facts["keeps_without_limit"]) == (100, False, False)
    assert facts["held_bytes"] >= facts["behind_bytes"]
    assert "100 rows" in runner.invoke(app, ["follow", *common, "--status"]).stdout
    rows = tmp_path / "rows.csv"
    rows.write_text("plan,calls,spend\na,3,1\n")
    assert runner.invoke(app, ["predict", str(one.path), str(rows)]).exit_code == 0
    dropped = runner.invoke(app, ["follow", *common, "--drop-slot"])
    assert "dropped" in dropped.stdout
    assert "there is none" in runner.invoke(app, ["follow", *common, "--drop-slot"]).stdout
    for wrong, told in (
        ([*common, "--subject", "id"], "--subject"),
        ([*common, "--receipt", str(tmp_path / "r")], "--keys"),
        ([*common, "--server", "http://127.0.0.1:1"], "one model"),
    ):
        refused = runner.invoke(app, ["follow", *wrong])
        assert (refused.exit_code, told in refused.stderr) == (2, True), refused.output


def test_a_model_of_numbers_follows(table: Callable[..., FollowedTable], tmp_path: Path) -> None:
    one = table(label="spend", columns=["plan", "calls"], is_target=True)
    one.create(rows=0)
    assert one.events() == ["fitted"]
    one.fill(1, 80)
    assert one.events() == ["changed", "refitted"]
    assert one.is_equal()
    one.sql("update {} set spend = 2.5 where id < 20", "delete from {} where id > 70", "update {} set spend = null "
            "where id = 50")  # fmt: skip
    [changed] = one.once()
    assert (changed["learnt"], changed["forgotten"]) == (19, 30)
    assert one.is_equal()
    rows = tmp_path / "rows.csv"
    rows.write_text("plan,calls\na,3\n")
    command = ["follow", one.address, "--table", one.name, "--columns", "plan,calls", "--model", str(one.path)]
    one.sql("delete from {} where id < 5")
    done = CliRunner().invoke(app, [*command, "--target", "spend", "--once", "--refit-after", "0"])
    assert "Refitted" in done.stdout, done.output
    assert "labels" not in done.stdout
    assert CliRunner().invoke(app, ["predict", str(one.path), str(rows), "--interval", "0.8"]).exit_code == 0
    for wrong, told in (
        (["--label", "spend"], "not what the model follows"),
        (["--target", "churned"], "holds no numbers"),
        ([], "--target COLUMN"),
    ):
        assert told in CliRunner().invoke(app, [*command, *wrong, "--once"]).stderr
    one.sql("insert into {} values (999, 'a', 1, 'NaN', 'x')")
    with pytest.raises(FollowError, match="the condition spend > '-Infinity'"):
        one.once()


def test_bounds_of_a_model_of_numbers(table: Callable[..., FollowedTable]) -> None:
    one = table(label="spend", columns=["plan", "calls"], is_target=True, bounds=(0, None))
    one.create(rows=0)
    assert one.events() == ["fitted"]
    one.fill(1, 80)
    assert "changed" in one.events()
    assert load(one.path).bounds == (0.0, None)
    assert one.is_equal()
    command = ["follow", one.address, "--table", one.name, "--columns", "plan,calls", "--model", str(one.path)]
    for bounds in ([], ["--bounds", "0,"]):
        done = CliRunner().invoke(app, [*command, "--target", "spend", *bounds, "--once"])
        assert done.exit_code == 0, done.output
    for options, code, words in (
        (["--target", "spend", "--bounds", "1,"], 1, "has bounds=(0.0, None), not (1.0, None)"),
        (["--target", "spend", "--bounds", "low"], 2, "--bounds low: give two numbers"),
        (["--label", "churned", "--bounds", "0,"], 2, "--bounds is for numbers"),
    ):
        refused = CliRunner().invoke(app, [*command, *options, "--once"])
        assert (refused.exit_code, words in refused.stderr) == (code, True), refused.output
    other = table(label="spend", columns=["plan", "calls"], is_target=True)
    other.create()
    first = ["follow", other.address, "--table", other.name, "--columns", "plan,calls", "--model", str(other.path)]
    done = CliRunner().invoke(app, [*first, "--target", "spend", "--bounds", "0,4", "--once"])
    assert done.exit_code == 0, done.output
    assert load(other.path).bounds == (0.0, 4.0)


def test_a_model_of_labels_does_not_follow_numbers_and_one_without_rows_is_fitted(
    table: Callable[..., FollowedTable],
) -> None:
    one = table(label="spend", columns=["plan", "calls"], is_target=True)
    one.create()
    save(MemoryClassifier().fit(pa.table({"plan": ["a"], "calls": [1]}), ["x"]), one.path)
    with pytest.raises(FollowError, match="predicts labels: use label="):
        one.once()
    save(MemoryRegressor(keep=False).fit(pa.table({"plan": ["a", "b"], "calls": [1, 2]}), [1.0, 2.0]), one.path)
    one.once()
    assert load(one.path).state.n_examples == 100


def test_passwords_are_in_no_process_list_message_or_model(
    table: Callable[..., FollowedTable], monkeypatch: Any
) -> None:
    one = table()
    one.create()
    for address in (
        "postgresql://me:hidden@127.0.0.1/x",
        "host=127.0.0.1 password=hidden",
        "postgresql:///x?password=hidden",
    ):
        refused = CliRunner().invoke(app, ["follow", address, "--table", "t", "--label", "y", "--model", str(one.path)])
        assert refused.exit_code == 1
        assert "PGPASSWORD" in refused.stderr
        assert "hidden" not in refused.output
    monkeypatch.setenv("PGPASSWORD", "hidden")
    one.once()
    assert b"hidden" not in one.path.read_bytes()
    assert "hidden" not in str(one.told)
    with pytest.raises(FollowError) as raised:
        FollowedTable.follower(_elsewhere(one)).run(once=True)
    assert "hidden" not in str(raised.value)


def _elsewhere(one: FollowedTable) -> Any:
    class Elsewhere(FollowedTable):
        def __init__(self) -> None:
            self.address, self.name, self.path = "postgresql://me@127.0.0.1:1/x", one.name, one.path
            self.options, self.told = one.options, []

    return Elsewhere()


def test_a_comparison_that_takes_too_long_is_told(table: Callable[..., FollowedTable], monkeypatch: Any) -> None:
    one = table(check_every=1e-9)
    one.create()
    one.once()

    def cancelled(*_: Any) -> None:
        raise psycopg.errors.QueryCanceled

    monkeypatch.setattr("hammemo.follow.source.FollowedSource.rows", cancelled)
    assert [facts["event"] for facts in one.once()] == ["check stopped"]


def test_a_connection_that_is_lost_is_opened_again(table: Callable[..., FollowedTable], monkeypatch: Any) -> None:
    one = table(pause=0.01)
    one.create()
    one.once()
    step, steps = following_module.Follower.step, count()

    class End(Exception):  # noqa: N818
        pass

    def stepped(self: Any) -> float:
        number = next(steps)
        if number == 1:
            one.fill(101, 110)
            pid = self.source.one("select pg_backend_pid()")[0]
            one.db.execute("select pg_terminate_backend(%s)", [pid])
        if number == 3:
            raise End
        return step(self)

    monkeypatch.setattr(following_module.Follower, "step", stepped)
    monkeypatch.setattr("hammemo.follow.follower.time.sleep", lambda _: None)
    with following(one.follower()) as follower, pytest.raises(End):
        follower.run()
    assert [facts["event"] for facts in one.told if facts["event"] != "warning"][-2:] == ["retry", "changed"]
    assert one.is_equal()


def test_the_least_rights_of_the_guide(table: Callable[..., FollowedTable]) -> None:
    guide = (ROOT / "docs" / "howto" / "follow-a-table.md").read_text(encoding="utf-8")
    one = table()
    one.create()
    statements = guide.partition("```sql\n")[2].partition("```")[0].replace("customers", one.name).split(";")
    one.sql(*(statement for statement in statements if statement.strip()))
    owner, one.address = one.address, one.address.replace("//postgres@", "//follower@")
    try:
        one.once(publication="churn")
        one.sql("delete from {} where id < 10")
        assert one.once(publication="churn")[0]["forgotten"] == 9
        with pytest.raises(FollowError, match="permission denied"):
            one.once()  # it may not create a publication
    finally:
        one.address = owner
        one.sql("drop publication churn", "drop owned by follower", "drop role follower")
    assert one.is_equal()
