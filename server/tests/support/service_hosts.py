"""Hosts of models, with a log of either kind; and edits, a commit that fails, and kill -9.

`hosts` is a fixture; the test module imports `postgres` beside it.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

import forked
from hammemo.receipts.receipt import SignedReceipt
from hammemo_server.models.host import Host
from hammemo_server.store.log import LogError
from hammemo_server.store.sqlite_log import SqliteLog
from pace import patience, wait_until
from postgres_server import Server, needs_postgres, one_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hammemo_server.edits.operations import Acknowledgement, Edit
    from hammemo_server.models.served import ServedModel


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[needs_postgres, one_server])])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Return a function that opens the same models again and again; all are closed in the end."""
    log = None
    if request.param == "postgres":
        server: Server = request.getfixturevalue("postgres")
        log = server.address
    opened_hosts: list[Host] = []

    def make(**options: Any) -> Host:
        host = Host(tmp_path / "models", log, **options)
        opened_hosts.append(host)
        return host

    first = make()
    for tenant in first.tenants():
        for name in first.names(tenant):
            first.delete(tenant, name)
    first.close()
    yield make
    for host in opened_hosts:
        host.close()


def done(model: ServedModel, edit: Edit) -> Acknowledgement:
    """Return the acknowledgement of an edit."""
    return model.edit(edit).result(patience(60))


def await_erasure(model: ServedModel, op: str) -> SignedReceipt:
    """Wait until a subject is erased, and return the receipt."""

    def is_erased() -> bool:
        erasure = model.erasure(op)
        return erasure is not None and erasure.state == "erased"

    assert wait_until(is_erased, 60)
    erasure = model.erasure(op)
    assert erasure is not None
    return SignedReceipt.decode(erasure.receipt)


def fail_next_commit(monkeypatch: pytest.MonkeyPatch, *, written: bool) -> None:
    """Let the next commit to a log in SQLite fail, before it is written or after that."""
    append = SqliteLog.append

    def append_and_fail(*arguments: Any) -> None:
        if written:
            append(*arguments)
        monkeypatch.undo()
        raise LogError("as if")

    monkeypatch.setattr(SqliteLog, "append", append_and_fail)


def run_until_killed(script: str, folder: Path) -> str:
    """Run a script that edits the models of a folder, `sys.argv[1]`, and then kills itself.

    Return what it prints.
    """
    ended = forked.run(script, folder)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
    return ended.stdout.strip()
