"""Guides whose commands the doctests of the pages do not run: followed to the letter, without a fresh environment."""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

import walkthrough
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

GUIDES = ROOT / "docs" / "howto"


def test_the_list_of_guides_is_complete() -> None:
    there = {path.stem for path in GUIDES.glob("*.md")} - {"index"}
    index = (GUIDES / "index.md").read_text(encoding="utf-8")
    assert there == set(re.findall(r"^([a-z-]+)$", index.split("```")[1], re.MULTILINE))
    assert there == set(re.findall(r"\]\(([a-z-]+)\.md\)", index))


@pytest.mark.skipif(sys.platform == "win32", reason="the console blocks are for a POSIX shell")
@pytest.mark.parametrize(
    "guide",
    ["delete-a-customer", *(pytest.param(page, marks=pytest.mark.slow) for page in ("plan-a-cluster", "recommend"))],
)
def test_a_shell_prints_what_the_guide_says(guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("cryptography")
    commands = tmp_path / "commands"
    commands.mkdir()
    for name, call in {"hammemo": f'"{sys.executable}" -m hammemo', "python": f'"{sys.executable}"'}.items():
        command = commands / name
        command.write_text(f'#!/bin/sh\nexec {call} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=":")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    page = GUIDES / f"{guide}.md"
    assert walkthrough.walk(page.name, page.read_text(encoding="utf-8"), _run) == ""


def _run(command: str) -> tuple[int, str]:
    """Run a command of ours in this process, which has imported everything, and all others in a shell."""
    words = shlex.split(command.replace("\\\n", " "))
    if words[0] != "hammemo" or set("|<>;&") & set(command):
        return walkthrough.run_in_shell(command)
    from typer.testing import CliRunner

    from hammemo.cli.app import app

    ended = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    return ended.exit_code, ended.output


@pytest.fixture
def run_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs code which asks a server, in a new folder, and returns the lines that it prints."""
    pytest.importorskip("starlette")
    import running_servers as serving

    monkeypatch.chdir(tmp_path)

    def run(code: str, keys: Path | None = None) -> list[str]:
        with serving.in_thread(tmp_path / "models", keys=keys) as server:
            assert code.count("http://127.0.0.1:8080") == 1
            exec(code.replace("http://127.0.0.1:8080", server.url), {})
        return capsys.readouterr().out.splitlines()

    return run


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def told_by(code: str) -> list[str]:
    """Return what the comments say that is printed."""
    return re.findall(r"print\(.*\)  # (.*)$", code, re.MULTILINE)


def test_a_model_is_served_as_the_guide_says(run_served: Any) -> None:
    code = "\n".join(python_blocks((GUIDES / "serve.md").read_text(encoding="utf-8")))
    told = told_by(code)
    assert len(told) == 4
    assert [line for line in run_served(code) if line in told] == told


def test_clicks_are_served_as_the_guide_says(run_served: Any) -> None:
    pytest.importorskip("pandas")
    page, names = (GUIDES / "recommend.md").read_text(encoding="utf-8"), dict[str, Any]()
    for block in walkthrough.blocks(page):  # they write the model that is served
        assert block.kind == "console" or walkthrough.run_python("recommend.md", block, names) == ""
    (code,) = [block for block in python_blocks(page) if ">>>" not in block]
    assert run_served(code) == told_by(code)


def test_a_person_is_erased_from_a_server_as_the_guide_says(run_served: Any, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from typer.testing import CliRunner

    from hammemo.cli.app import app
    from hammemo.receipts import new_key_file

    page = (GUIDES / "delete-a-customer.md").read_text(encoding="utf-8")
    public = new_key_file(tmp_path / "keys").public_key
    (tmp_path / "operator.pub").write_text(public, encoding="utf-8")
    (code,) = [block for block in python_blocks(page) if ">>>" not in block]
    assert run_served(code, tmp_path / "keys") == told_by(code)
    (command,) = re.findall(r"`hammemo (verify orders.model .*?)`", page)
    found = CliRunner().invoke(app, command.split())
    assert found.exit_code == 0, found.output
    assert "Proven: a model that learns only these 102 rows is the same to the byte." in found.output
    assert "The receipt of request 2026-20 is signed, and is about this model." in found.output
