"""Guides whose commands the doctests of the pages do not run: followed to the letter, without a fresh environment."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

import pytest

import walkthrough
from hammemo import MemoryClassifier, save
from hammemo.datasets import load_sessions
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

GUIDES = ROOT / "docs" / "howto"


def test_the_list_of_guides_is_complete() -> None:
    there = {path.stem for path in GUIDES.glob("*.md")} - {"index"}
    index = (GUIDES / "index.md").read_text(encoding="utf-8")
    assert there == set(re.findall(r"^([a-z-]+)$", index.split("```")[1], re.MULTILINE))
    assert there == set(re.findall(r"\]\(([a-z-]+)\.md\)", index))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the console blocks are for a POSIX shell")
@pytest.mark.parametrize("guide", ["plan-a-cluster", "recommend"])
def test_a_shell_prints_what_the_guide_says(guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
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
    assert walkthrough.walk(page.name, page.read_text(encoding="utf-8")) == ""


def test_a_model_is_served_as_the_guide_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fastapi")
    import running_servers as serving

    monkeypatch.chdir(tmp_path)
    page = (GUIDES / "serve.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    told = re.findall(r"print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert len(told) == 4
    with serving.in_thread(tmp_path / "models") as server:
        assert code.count("http://127.0.0.1:8080") == 1
        exec(code.replace("http://127.0.0.1:8080", server.url), {})
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line in told] == told


def test_clicks_are_served_as_the_guide_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fastapi")
    import running_servers as serving

    monkeypatch.chdir(tmp_path)
    page = (GUIDES / "recommend.md").read_text(encoding="utf-8")
    visits, _ = load_sessions()
    (tomorrow,) = re.findall(r"tomorrow = (.*)", page)
    shop = MemoryClassifier().fit_stream(visits, h=30, short="pad")
    save(shop.partial_fit_stream(ast.literal_eval(tomorrow), h=30, short="pad"), "shop.model")
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if ">>>" not in block]
    (told,) = re.findall(r"print\(.*\)  # (.*)$", code, re.MULTILINE)
    with serving.in_thread(tmp_path / "models") as server:
        assert code.count("http://127.0.0.1:8080") == 1
        exec(code.replace("http://127.0.0.1:8080", server.url), {})
    assert told in capsys.readouterr().out.splitlines()
