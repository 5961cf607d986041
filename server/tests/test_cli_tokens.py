"""``hammemo tokens`` and the usage of ``hammemo serve``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

pytest.importorskip("msgspec")

from hammemo.cli.app import app
from hammemo_server.http.tokens import Tokens

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
