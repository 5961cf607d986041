"""``hammemo tokens`` and the usage of ``hammemo serve``."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

pytest.importorskip("msgspec")

from hammemo.cli.app import app
from hammemo_server.http.tokens import Tokens, read_entries, write_entries

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()


def test_a_token_is_made_listed_and_taken_back(tmp_path: Path) -> None:
    file = str(tmp_path / "tokens.json")
    made = runner.invoke(
        app, ["tokens", "add", file, "--tenant", "acme", "--role", "read", "--role", "learn", "--name", "shop"]
    )
    assert made.exit_code == 0
    token = made.stdout.strip()
    caller = Tokens(tmp_path / "tokens.json").caller(token)
    assert caller is not None
    assert (caller.tenant, caller.roles, caller.name) == ("acme", frozenset({"read", "learn"}), "shop")
    assert token[-20:] not in (tmp_path / "tokens.json").read_text(encoding="utf-8")
    other = runner.invoke(app, ["tokens", "add", file, "--role", "admin"]).stdout.strip()
    (first, second) = json.loads(runner.invoke(app, ["tokens", "list", file, "--json"]).stdout)
    assert first == {
        "id": token.split("_")[1], "name": "shop", "tenant": "acme", "roles": ["read", "learn"], "expires": None,
    }  # fmt: skip
    assert "acme" in runner.invoke(app, ["tokens", "list", file]).stdout
    assert runner.invoke(app, ["tokens", "remove", file, first["id"]]).exit_code == 0
    left = Tokens(tmp_path / "tokens.json")
    assert left.caller(token) is None
    assert left.caller(other) is not None
    assert second["tenant"] == "default"


def test_a_token_can_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tokens.json"
    short, lasting = (
        runner.invoke(app, ["tokens", "add", str(file), "--role", "read", *days]).stdout.strip()
        for days in (["--days", "2"], [])
    )
    listed = json.loads(runner.invoke(app, ["tokens", "list", str(file), "--json"]).stdout)
    assert datetime.fromisoformat(listed[0]["expires"]) - datetime.now(UTC) > timedelta(days=1.9)
    assert listed[1]["expires"] is None
    tokens, now = Tokens(file), time.time()
    for days, expected in ((1.9, [True, True]), (2.1, [False, True])):
        monkeypatch.setattr(time, "time", lambda days=days: now + days * 86_400)
        assert [tokens.caller(token) is not None for token in (short, lasting)] == expected


def test_a_file_is_changed_in_place(tmp_path: Path) -> None:
    """It keeps its owner and its mode, and a second name for it, such as a mount, shows the change."""
    file, other = tmp_path / "tokens.json", tmp_path / "mounted.json"
    for _ in range(2):
        runner.invoke(app, ["tokens", "add", str(file), "--role", "read"])
    file.chmod(0o640)
    other.hardlink_to(file)
    first, second = read_entries(file)
    assert runner.invoke(app, ["tokens", "remove", str(file), first.id]).exit_code == 0
    assert read_entries(other) == [second]
    assert file.stat().st_mode & 0o777 == 0o640
    assert {path.name for path in tmp_path.iterdir()} <= {file.name, other.name, f"{file.name}.lock"}


def test_what_a_crash_leaves_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut while the file is overwritten: a whole copy is beside it, and the message names it."""
    file = tmp_path / "tokens.json"
    runner.invoke(app, ["tokens", "add", str(file), "--role", "read"])
    (entry,) = read_entries(file)

    def cut(_: int) -> None:
        file.write_bytes(file.read_bytes()[:40])
        raise OSError("as if the power was cut")

    with monkeypatch.context() as patched:
        patched.setattr("hammemo_server.http.tokens.write_private", lambda path, parts: path.write_bytes(*parts))
        patched.setattr(os, "fsync", cut)
        with pytest.raises(OSError, match="as if"):
            write_entries(file, [entry])
    with pytest.raises(ValueError, match=r"tokens\.json\.new has all of it"):
        read_entries(file)
    (tmp_path / "tokens.json.new").replace(file)
    assert read_entries(file) == [entry]


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("tokens add {}/t.json --role king", 1, "roles"),
        ("tokens add {}/t.json --role read --tenant ../up", 1, "tenant"),
        ("tokens add {}/t.json", 2, "--role"),
        ("tokens list {}/none.json", 1, "none.json"),
        ("tokens remove {}/none.json abc", 1, "none.json"),
        ("serve {} --host 0.0.0.0", 2, "--token-file"),
        ("serve {} --behind-proxy", 2, "--token-file"),
        ("serve {} --tls-cert cert.pem", 2, "--tls-key"),
        ("serve {} --log-level loud", 2, "--log-level"),
        ("serve {} --replica --workers 2", 2, "--replica"),
        ("serve {} --log mysql://here", 1, "mysql"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, command: str, code: int, says: str) -> None:
    result = runner.invoke(app, command.format(tmp_path).split())
    assert result.exit_code == code
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.output


def test_a_token_that_is_not_there_cannot_be_taken_back(tmp_path: Path) -> None:
    file = str(tmp_path / "tokens.json")
    runner.invoke(app, ["tokens", "add", file, "--role", "read"])
    result = runner.invoke(app, ["tokens", "remove", file, "000000000000"])
    assert result.exit_code == 1
    assert "holds no token" in result.stderr
