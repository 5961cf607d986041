"""Small things that commands say and do, each of which was once missing or wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hammemo.cli.app import app
from hammemo.sources.formats import format_of

runner = CliRunner()

LOG = "case,event\n1,open\n2,open\n1,work\n1,close\n2,wait\n2,work\n2,close\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_plan_counts_the_examples_that_fit_learns() -> None:
    Path("log.csv").write_text(LOG * 3)
    shared = ["log.csv", "--h", "2", "--case", "case", "--event", "event"]
    found = set()
    for more in ([], ["--end", "END"], ["--short", "pad"], ["--end", "END", "--short", "pad"]):
        fitted = runner.invoke(app, ["fit", *shared, *more, "--memory", "exact", "--out", "m", "--json"])
        planned = runner.invoke(app, ["plan", *shared, *more, "--budget", "1 MiB", "--json"])
        assert planned.exit_code == 0, planned.stderr
        assert json.loads(planned.stdout)["n_examples"] == json.loads(fitted.stdout)["examples"]
        found.add(json.loads(planned.stdout)["n_examples"])
    assert len(found) == 4
    Path("t.csv").write_text("a,b\n1,2\n3,4\n")
    refused = runner.invoke(app, ["plan", "t.csv", "--label", "b", "--end", "END", "--budget", "1 MiB"])
    assert refused.exit_code == 2
    assert "--end is for sequences" in refused.stderr


@pytest.mark.parametrize("half", [rb"\ud800", rb"\uDC00 and more", b"\xed\xa0\x80"])
def test_half_of_a_surrogate_pair_is_refused_with_its_line(half: bytes) -> None:
    Path("rows.jsonl").write_bytes(b'{"x": "a", "y": "b"}\n{"x": "a", "y": "' + half + b'"}\n')
    result = runner.invoke(app, ["fit", "rows.jsonl", "--label", "y", "--out", "m"])
    assert result.exit_code == 1
    assert "rows.jsonl, line 2 holds '\\ud" in result.stderr
    assert "replace it" in result.stderr
    assert not Path("m").exists()


def test_whole_pairs_and_letters_beside_them_are_kept() -> None:
    Path("rows.jsonl").write_text('{"x": "a", "y": "\\ud83d\\ude00"}\n{"x": "b", "y": "힣"}\n', encoding="utf-8")
    assert runner.invoke(app, ["fit", "rows.jsonl", "--label", "y", "--out", "m"]).exit_code == 0
    assert runner.invoke(app, ["predict", "m", "rows.jsonl"]).stdout == "😀\n힣\n"


def test_inspect_shows_digests_and_hides_keys() -> None:
    Path("t.csv").write_text("a,b\n1,2\n3,4\n")
    Path("key").write_bytes(bytes(range(32)))
    for key in ([], ["--key-file", "key"]):
        fitted = runner.invoke(
            app, ["fit", "t.csv", "--label", "b", "--memory", "hashed", "--keep", "digests", *key, "--out", "m"]
        )
        assert fitted.exit_code == 0, fitted.stderr
        facts = json.loads(runner.invoke(app, ["inspect", "m", "--json"]).stdout)
        secret = "<secret>" if key else "None"
        assert facts["memory"] == f"Hashed(buckets=2048, key={secret}, reserved=1024)"
        assert (facts["digests"], facts["kept_rows"], facts["keeps_all"]) == (2, 0, False)
        assert facts["needs_key"] == bool(key)


def test_compressed_json_lines_are_known_by_their_name() -> None:
    assert format_of("a.jsonl.zst", "text") == "jsonl"
