"""One edit that forgets and learns: applied once, durable, the same after a restart, and no answer from between."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier
from hammemo.cli.app import app
from hammemo.client import Client, ServerError
from hammemo.receipts.keys import new_key_file
from hammemo.tokens.column_letters import encode_letters
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import (
    Acknowledgement,
    Edit,
    ExampleRows,
    Malformed,
    NotStored,
    OpReused,
    QuotaReached,
    TooLarge,
    Unavailable,
)
from hammemo_server.http.tokens import new_token, write_entries
from hammemo_server.models.backups import back_up, restore
from hammemo_server.store.log import LogError
from postgres_server import postgres
from running_servers import in_thread
from service_hosts import await_erasure, done, hosts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hammemo_server.models.host import Host
    from hammemo_server.models.served import ServedModel

__all__ = ["hosts", "postgres"]

SETTINGS: dict[str, Any] = {"columns": 2, "seed": 1, "kernel": "positional", "vote": "sum"}
BY_PERSON = {**SETTINGS, "subjects": "required"}
PEOPLE = ("ann", "bob", "cid")
runner = CliRunner()


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    new_key_file(tmp_path / "keys.json")
    return tmp_path / "keys.json"


def some(*numbers: int, subjects: bool = False) -> ExampleRows:
    rows: list[Any] = [[f"a{i % 4}", f"b{i}"] for i in numbers]
    return ExampleRows(rows, [f"l{i % 2}" for i in numbers], [PEOPLE[i % 3] for i in numbers] if subjects else [])


def apply(op: str, learn: ExampleRows | None = None, gone: Any = None, position: str | None = None) -> Edit:
    learn = learn or ExampleRows([], [])
    return Edit(op, "apply", learn.rows, learn.labels, subjects=learn.subjects, gone=gone, position=position)


def held(model: ServedModel) -> Any:
    facts = model.describe(digest=True)
    return facts["digest"], facts["position"], facts["version"]


@pytest.mark.parametrize("subjects", [False, True])
def test_it_is_a_forget_and_a_learn_in_one_version(
    hosts: Callable[..., Host], keys: Path, tmp_path: Path, subjects: bool
) -> None:
    host = hosts(keys=keys)
    settings = BY_PERSON if subjects else SETTINGS

    def rows(*numbers: int) -> ExampleRows:
        return some(*numbers, subjects=subjects)

    model, twin = (host.create("t", name, settings) for name in ("m", "twin"))
    done(model, apply("1", rows(*range(6)), position="p1"))
    edit = apply("2", rows(6, 7, 8), rows(0, 1, 4), "p2")
    assert done(model, edit) == Acknowledgement(2, "applied")
    for kind, part in (("learn", rows(*range(6))), ("forget", rows(0, 1, 4)), ("learn", rows(6, 7, 8))):
        op, what = f"{kind} {part.rows}"[:20].replace(" ", ""), cast("Any", kind)
        done(twin, Edit(op, what, part.rows, part.labels, subjects=part.subjects))
    assert held(model)[0] == held(twin)[0]
    assert held(model)[1:] == ("p2", 2)
    assert done(model, edit) == Acknowledgement(2, "repeated")
    with pytest.raises(OpReused):
        done(model, msgspec.structs.replace(edit, gone=rows(2)))
    with pytest.raises(NotStored):  # although the row is learnt in the same edit
        done(model, apply("3", rows(9), rows(9), "p3"))
    with pytest.raises(NotStored):
        done(model, apply("3", rows(9), rows(0), "p3"))
    if subjects:
        stranger = ExampleRows(rows(2).rows, rows(2).labels, ["ann"])
        with pytest.raises(NotStored, match="subject"):
            done(model, apply("3", None, stranger))
    before = held(model)
    assert before[1:] == ("p2", 2)
    host.close()
    host = hosts(keys=keys)
    assert held(host.get("t", "m")) == before
    host.get("t", "m").snapshot()
    done(host.get("t", "m"), apply("4", position="p4"))  # the source went on without a change
    written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
    restore(host.store, written.path, keys=keys, to=("t", "again"))
    again = host.get("t", "again")
    assert held(again) == (before[0], "p4", 3)
    assert done(again, edit) == Acknowledgement(2, "repeated")
    assert [line.line.kind for line in again.audit()[1]][:2] == ["apply", "apply"]
    if subjects:
        done(again, Edit("e", "forget_subject", subjects=["ann"]))  # 0 is forgotten; 3 and 6 are ann's
        assert await_erasure(again, "e").receipt.rows == 2


@pytest.mark.parametrize("subjects", [False, True])
def test_everything_is_forgotten_and_other_rows_are_learnt(
    hosts: Callable[..., Host], keys: Path, subjects: bool
) -> None:
    host = hosts(keys=keys)
    settings = BY_PERSON if subjects else SETTINGS

    def rows(*numbers: int) -> ExampleRows:
        return some(*numbers, subjects=subjects)

    model, fresh = (host.create("t", name, settings) for name in ("m", "fresh"))
    done(model, apply("1", rows(*range(6))))
    edit = apply("2", rows(7, 8), "everything", "p2")
    assert done(model, edit) == Acknowledgement(2, "applied")
    assert done(model, edit) == Acknowledgement(2, "repeated")
    done(fresh, apply("1", rows(7, 8)))
    assert held(model)[0] == held(fresh)[0]
    host.close()
    host = hosts(keys=keys)
    model, fresh = host.get("t", "m"), host.get("t", "fresh")
    assert held(model) == (held(fresh)[0], "p2", 2)
    if subjects:
        done(model, Edit("e", "forget_subject", subjects=["bob"], refit=False))
        assert await_erasure(model, "e").receipt.rows == 1  # only the new one
    empty = apply("3", None, "everything")
    assert done(model, empty).status == "applied"
    assert done(model, empty).status == "repeated"
    assert model.describe()["examples"] == 0
    model.snapshot()
    with pytest.raises(NotStored):
        done(model, apply("4", None, rows(8)))
    done(model, apply("5", rows(8)))
    host.close()
    assert hosts(keys=keys).get("t", "m").describe()["examples"] == 1


@pytest.mark.parametrize("is_written", [False, True])
def test_an_edit_whose_commit_failed_is_applied_once(
    hosts: Callable[..., Host], monkeypatch: Any, is_written: bool
) -> None:
    model = hosts().create("t", "m", SETTINGS)
    done(model, apply("1", some(1, 2)))
    edit, append = apply("2", some(3), some(1), "p2"), model._log.append

    def failing(*given: Any) -> None:
        if is_written:
            append(*given)
        raise LogError("the answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(model._log, "append", failing)
        with pytest.raises(Unavailable):
            done(model, edit)
    assert done(model, edit) == Acknowledgement(2, "repeated" if is_written else "applied")
    assert (model.describe()["examples"], model.describe()["position"]) == (2, "p2")


def test_what_is_no_edit_is_refused(hosts: Callable[..., Host]) -> None:
    host = hosts(limits=Limits(rows=3, stored_examples=5))
    model = host.create("t", "m", SETTINGS)
    for edit, error in (
        (apply("x"), "nothing to do"),
        (apply("x", position=""), "position"),
        (apply("x", position="p" * 2_000), "position"),
        (apply("x", ExampleRows([["a", "b"]], [])), "learn: There are 1 rows"),
        (apply("x", some(1), ExampleRows([["a"]], ["x"])), "another number"),
        (apply("x", ExampleRows([["a"]], ["x"])), "2 tokens"),
        (apply("x", some(1), ExampleRows([["a", "b"]], ["x"], ["ann"])), "no subjects"),
    ):
        with pytest.raises(Malformed, match=error):
            done(model, edit)
    with pytest.raises(TooLarge):
        done(model, apply("x", some(1, 2, 3, 4)))
    done(model, apply("1", some(1, 2, 3)))
    with pytest.raises(QuotaReached):
        done(model, apply("2", some(4, 5, 6)))
    unopened = host.create("t", "unopened", {"seed": 1})
    with pytest.raises(Malformed, match="how many columns"):
        done(unopened, apply("1", position="p"))
    with pytest.raises(NotStored):
        done(unopened, apply("1", some(1), some(2)))
    assert done(unopened, apply("1", some(1), position="p")).version == 1


def test_no_answer_comes_from_the_moment_between(tmp_path: Path) -> None:
    """Each edit replaces all rows by as many of another label: every answer counts the rows of one label."""
    with in_thread(tmp_path) as server, Client(server.url) as client:
        client.create("m", **SETTINGS)
        rows = some(*range(20)).rows
        client.learn("m", rows, ["l0"] * 20)
        stop, seen = threading.Event(), set()

        def ask() -> None:
            while not stop.is_set():
                facts = client.describe("m")
                seen.add((tuple(facts["classes"]), facts["examples"]))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for i in range(30):
                client.apply("m", (rows, [f"l{i + 1}"] * 20), (rows, [f"l{i}"] * 20), position=str(i))
        finally:
            stop.set()
            asking.join()
        assert {(len(classes), n) for classes, n in seen} == {(1, 20)}
        assert client.describe("m")["position"] == "29"
        client.apply("m", (rows[:2], ["x", "y"]), "everything")
        assert client.describe("m")["examples"] == 2


def test_to_forget_needs_its_role(tmp_path: Path) -> None:
    token, entry = new_token("t", ("learn", "read", "admin"), "learner")
    write_entries(tmp_path / "tokens.json", [entry])
    with (
        in_thread(tmp_path / "models", tokens=tmp_path / "tokens.json") as server,
        Client(server.url, token, patience=5) as client,
    ):
        client.create("m", **SETTINGS)
        client.apply("m", (some(1).rows, ["x"]), position="p")
        for gone in ((some(1).rows, ["x"]), "everything"):
            with pytest.raises(ServerError, match="role forget") as refused:
                client.apply("m", None, gone)
            assert refused.value.status == 403
        assert client.describe("m")["examples"] == 1


@pytest.mark.parametrize("subjects", [False, True])
def test_dates_are_dates_in_a_model_made_here(hosts: Callable[..., Host], keys: Path, subjects: bool) -> None:
    host = hosts(keys=keys)
    whose = {"subjects": "required"} if subjects else {}
    settings = {"columns": ["shop", "when"], "dates": ["when"], "seed": 1, **whose}
    model = host.create("t", "m", settings)
    days = [f"2026-{1 + i % 12:02}-{1 + i % 28:02}" + ("T08:00:00" if i % 3 else "") for i in range(60)]
    rows: list[Any] = [[f"s{i % 3}", days[i]] for i in range(60)]
    labels: list[Any] = ["early" if i % 12 < 6 else "late" for i in range(60)]

    def part(first: int, last: int) -> ExampleRows:
        return ExampleRows(rows[first:last], labels[first:last], ["ann"] * (last - first) if subjects else [])

    done(model, Edit("0", "learn", [["s1", None]], ["late"], subjects=["ann"] if subjects else []))
    one = part(0, 1)
    done(model, Edit("1", "learn", one.rows, one.labels, subjects=one.subjects))
    done(model, apply("2", part(1, 60), part(0, 1)))
    done(model, apply("3", part(0, 1)))
    first = part(5, 6)
    done(model, Edit("4", "forget", first.rows, first.labels, subjects=first.subjects))
    done(model, Edit("5", "refit"))
    as_dates = [[shop, datetime.fromisoformat(day)] for shop, day in rows]
    table, wanted = [["s1", None], *as_dates[:5], *as_dates[6:]], ["late", *labels[:5], *labels[6:]]
    fitted = model.settings.model().fit(table, wanted)
    assert isinstance(fitted, MemoryClassifier)
    ours = model.state().model
    assert ours is not None
    assert encode_letters(ours.state.columns.kinds) == "sd"
    assert ours.state.columns.kinds == fitted.state.columns.kinds
    assert ours.digest(parts=True)["counts"] == fitted.digest(parts=True)["counts"]
    assert ours.digest(parts=True)["kept rows"] == fitted.digest(parts=True)["kept rows"]
    assert ours.predict(rows).tolist() == fitted.predict(as_dates).tolist()
    before = held(model)
    for value in ("soon", 7):
        with pytest.raises(Malformed, match=r"Row 0, column 1: .* is not a date"):
            done(model, apply("x", ExampleRows([["s1", value]], ["late"], ["ann"] if subjects else [])))
    host.close()
    assert held(hosts(keys=keys).get("t", "m")) == before


@pytest.mark.parametrize("dates", [["other"], [2], "when", [None]])
def test_dates_of_no_column_are_refused(hosts: Callable[..., Host], dates: Any) -> None:
    with pytest.raises(Malformed, match="dates"):
        hosts().create("t", "m", {"columns": ["shop", "when"], "dates": dates})


def test_the_command_sends_one_edit(tmp_path: Path) -> None:
    new, old = tmp_path / "new.csv", tmp_path / "old.csv"
    old.write_text("a,b,y\n" + "".join(f"a{i},b{i},l{i % 2}\n" for i in range(1_500)))
    new.write_text("a,b,y\n" + "".join(f"c{i},d{i},l{i % 2}\n" for i in range(1_200)))
    with in_thread(tmp_path / "models") as server, Client(server.url) as client:
        client.create("m", **{**SETTINGS, "columns": ["a", "b"]})
        send = ["send", server.url, "m"]
        assert runner.invoke(app, [*send, str(old), "--label", "y"]).exit_code == 0
        version = client.describe("m")["version"]
        asked = [*send, str(new), "--label", "y", "--forgetting", str(old), "--position", "0/1", "--id", "one"]
        for _ in range(2):
            shown = runner.invoke(app, asked)
            assert shown.exit_code == 0, shown.output
            assert f"2700 rows learnt or forgotten; the model has version {version + 1}." in shown.stdout.replace(
                ",", ""
            )
        facts = client.describe("m")
        assert (facts["examples"], facts["position"], facts["version"]) == (1_200, "0/1", version + 1)
        shown = runner.invoke(app, [*send, "--label", "y", "--everything"])
        assert shown.exit_code == 0, shown.output
        assert client.describe("m")["examples"] == 0
        for wrong, told in ((["--forget"], "--forgetting"), (["--forgetting", str(old)], "leave")):
            refused = runner.invoke(app, [*send, str(new), "--label", "y", "--everything", *wrong])
            assert (refused.exit_code, told in refused.stderr) == (2, True)
