"""The audit record: a line for every edit, in its transaction, chained, without content."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import apsw
import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hammemo.cli.app import app
from hammemo.client import Client
from hammemo.receipts.keys import new_key_file
from hammemo_server.edits.operations import Edit, NotStored, Unavailable
from hammemo_server.http.tokens import ROLES, new_token, write_entries
from hammemo_server.models.host import Host
from hammemo_server.models.served import ServedModel
from hammemo_server.models.waiting import Upkeep
from hammemo_server.store.audit import Line, Linked, Start, chain_lines, find_first_broken, is_cut
from postgres_server import postgres
from running_servers import in_thread
from service_hosts import await_erasure, fail_next_commit, hosts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["hosts", "postgres"]

runner = CliRunner()

lines = st.lists(
    st.builds(
        Line,
        st.floats(allow_nan=False),
        st.text(max_size=5),
        st.sampled_from(["learn", "forget"]),
        st.binary(max_size=4),
        st.integers(0, 9),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=6,
)


@given(lines, st.data())
def test_any_change_of_a_chain_shows(written: list[Line], data: st.DataObject) -> None:
    chain = chain_lines(Start(), written)
    assert find_first_broken(Start(), chain) is None
    at = data.draw(st.integers(0, len(chain) - 1))
    line = chain[at].line
    changed = data.draw(
        st.sampled_from(
            [
                msgspec.structs.replace(line, rows=line.rows + 1),
                msgspec.structs.replace(line, token=line.token + "x"),
                msgspec.structs.replace(line, receipt=b"r"),
            ]
        )
    )
    assert (
        find_first_broken(Start(), [*chain[:at], Linked(at + 1, changed, chain[at].link), *chain[at + 1 :]]) == at + 1
    )
    if at < len(chain) - 1:
        assert find_first_broken(Start(), [*chain[:at], *chain[at + 1 :]]) == at + 2
    rest = chain[at + 1 :]
    assert find_first_broken(Start(at + 1, chain[at].link), rest) is None


def send(host: Host, op: str, kind: Any, *tokens: str, name: str = "m") -> int:
    edit = Edit(op, kind, [list(tokens)], ["x"]) if tokens else Edit(op, kind)
    return host.get("t", name).edit(edit, "shop").result().version


def test_every_edit_has_a_line_and_no_content(hosts: Callable[..., Host]) -> None:
    host = hosts()
    host.create("t", "m", {"columns": 1})
    began = time.time()
    send(host, "order-4711", "learn", "secret-token")
    with pytest.raises(NotStored):
        send(host, "2", "forget", "never")
    send(host, "order-4711", "learn", "secret-token")  # repeated: it is no second edit
    send(host, "3", "forget", "secret-token")
    start, found = host.get("t", "m").audit()
    assert start == Start()
    assert find_first_broken(start, found) is None
    said = [
        (one.number, one.line.token, one.line.kind, one.line.rows, one.line.before, one.line.after) for one in found
    ]
    assert said == [(1, "shop", "learn", 1, 0, 1), (2, "shop", "forget", 1, 1, 2)]
    assert all(began - 1 <= one.line.at <= time.time() + 1 for one in found)
    shown = msgspec.msgpack.encode(found)
    assert b"4711" not in shown
    assert b"secret" not in shown
    assert found[0].line.op != found[1].line.op


def test_it_survives_and_goes_on_after_a_restart_and_is_read_by_replicas(hosts: Callable[..., Host]) -> None:
    host = hosts()
    host.create("t", "m", {"columns": 1})
    for i in range(5):
        send(host, str(i), "learn", "a")
    host.get("t", "m").snapshot()
    host.close()
    host = hosts()
    send(host, "5", "learn", "b")
    start, found = hosts(replica=True).get("t", "m").audit()
    assert find_first_broken(start, found) is None
    assert [one.line.after for one in found] == [1, 2, 3, 4, 5, 6]
    assert [one.number for one in host.get("t", "m").audit(after=2, limit=3)[1]] == [3, 4, 5]


def test_old_lines_leave_from_the_front_and_the_chain_stays(hosts: Callable[..., Host], monkeypatch: Any) -> None:
    host = hosts(upkeep=Upkeep(audit=3600.0))
    model = host.create("t", "m", {"columns": 1})
    now = time.time()
    monkeypatch.setattr("hammemo_server.store.base_log.time.time", lambda: now - 7200)
    for i in range(3):
        send(host, str(i), "learn", "a")
    monkeypatch.setattr("hammemo_server.store.base_log.time.time", lambda: now)
    send(host, "3", "learn", "a")
    model.snapshot()
    start, found = model.audit()
    assert (start.number, [one.number for one in found]) == (3, [4])
    assert find_first_broken(start, found) is None
    monkeypatch.setattr("hammemo_server.store.base_log.time.time", lambda: now + 7200)
    send(host, "4", "learn", "a")
    monkeypatch.setattr("hammemo_server.store.base_log.time.time", lambda: now + 20_000)
    model._log.forget_audit(3600)
    start, found = model.audit()
    assert (start.number, found) == (5, [])
    assert not is_cut(start, found, model.version, b"")
    send(host, "5", "learn", "a")
    start, found = model.audit()
    assert [one.number for one in found] == [6]
    assert find_first_broken(start, found) is None


def test_two_models_of_one_database_have_chains_of_their_own(hosts: Callable[..., Host]) -> None:
    host = hosts()
    for name in ("m", "n"):
        host.create("t", name, {"columns": 1})
        send(host, "1", "learn", "a", name=name)
    for name in ("m", "n"):
        start, found = host.get("t", name).audit()
        assert len(found) == 1
        assert find_first_broken(start, found) is None
    host.delete("t", "m")
    assert len(host.get("t", "n").audit()[1]) == 1


@pytest.mark.parametrize("written", [False, True])
def test_a_commit_that_fails_leaves_lines_of_what_was_written(
    written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Host(tmp_path) as host:
        model = host.create("t", "m", {"columns": 1})
        send(host, "1", "learn", "a")
        fail_next_commit(monkeypatch, written=written)
        with pytest.raises(Unavailable):
            send(host, "2", "learn", "b")
        send(host, "2", "learn", "b")
        start, found = model.audit()
        assert [one.line.after for one in found] == [1, 2]
        assert find_first_broken(start, found) is None


def test_over_http_it_has_the_name_of_the_token_and_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, entry = new_token("acme", ROLES, "shop")
    write_entries(tmp_path / "tokens.json", [entry])
    monkeypatch.setattr(ServedModel.audit, "__defaults__", (0, 2))  # two lines a page
    with in_thread(tmp_path / "models", tmp_path / "tokens.json") as server, Client(server.url, token) as client:
        client.create("m", columns=1)
        for i in range(5):
            client.learn("m", [["a"]], ["x"], op=f"op-{i}")
        found = list(client.audit("m"))
        assert [(line["number"], line["token"], line["after"]) for line in found] == [
            (i, "shop", i) for i in range(1, 6)
        ]
        assert [line["number"] for line in client.audit("m", after=3)] == [4, 5]
        for wrong in ("after=-1", "after=x", "before=1", "after=1&after=2", "after"):
            answer = httpx.get(f"{server.url}/v1/models/m/audit?{wrong}", headers={"authorization": f"Bearer {token}"})
            assert answer.status_code == 400


def test_the_command_lists_it_and_finds_a_changed_line(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.create("t", "m", {"columns": 1})
        for i in range(3):
            send(host, str(i), "learn", "a")
    shown = runner.invoke(app, ["audit", str(tmp_path), "--json"])
    assert shown.exit_code == 0
    (record,) = json.loads(shown.stdout)
    assert (record["tenant"], record["model"], record["broken"]) == ("t", "m", None)
    assert [line["rows"] for line in record["lines"]] == [1, 1, 1]
    assert "shop" in runner.invoke(app, ["audit", str(tmp_path)]).stdout
    db = apsw.Connection(str(tmp_path / "t" / "m" / "log.sqlite"))
    db.execute("update hammemo_audit set n_rows = 2 where number = 2")
    db.close()
    shown = runner.invoke(app, ["audit", str(tmp_path), "--json"])
    assert shown.exit_code == 1
    assert "line 2" in shown.stderr
    assert runner.invoke(app, ["audit", str(tmp_path), "--model", "other"]).exit_code == 2
    assert runner.invoke(app, ["audit", str(tmp_path / "nowhere")]).exit_code == 2


def test_the_command_notices_lines_that_are_missing_at_the_end(tmp_path: Path) -> None:
    """The last edits have no line, or the newest receipt has none."""
    keys, folder = tmp_path / "keys.json", tmp_path / "models"
    new_key_file(keys)
    with Host(folder, keys=keys) as host:
        for name, subjects in (("edits", []), ("erased", ["ann"])):
            model = host.create("t", name, {"columns": 1, **({"subjects": "required"} if subjects else {})})
            for i in range(3):
                model.edit(Edit(str(i), "learn", [["a"]], ["x"], subjects=subjects)).result(60)
        model.edit(Edit("e", "forget_subject", subjects=["ann"])).result(60)
        await_erasure(model, "e")
    shown = runner.invoke(app, ["audit", str(folder), "--json"])
    assert shown.exit_code == 0
    assert [record["cut"] for record in json.loads(shown.stdout)] == [False, False]
    for name, cut in (("edits", "kind = 'learn' and number > 1"), ("edits", "1"), ("erased", "kind = 'erased'")):
        db = apsw.Connection(str(folder / "t" / name / "log.sqlite"))
        db.execute(f"delete from hammemo_audit where {cut}")
        db.close()
        shown = runner.invoke(app, ["audit", str(folder), "--model", name])
        assert shown.exit_code == 1
        assert "missing at its end" in " ".join(shown.stderr.split())
