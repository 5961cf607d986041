"""A progress bar is shown on a terminal, after two seconds, one at a time."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from hammemo import MeMoClassifier, MemoryClassifier, _progress
from hammemo._progress import progress_bar
from hammemo.files.contents import file_bytes

pytest.importorskip("rich")


class Terminal:
    """Standard error as a terminal that remembers what was written."""

    closed = False

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


def looking(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return the terminal that standard error is from now on: no fixture, because pytest puts its own there after."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    return shown


def fitted() -> MemoryClassifier:
    X = np.random.default_rng(0).integers(0, 2, (200, 4))
    return MemoryClassifier(numeric="none").fit(X, X[:, 0] ^ X[:, 2])


def test_the_search_for_sites_tells_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = looking(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 1e9)
    fitted()
    assert terminal.text == ""
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    fitted()
    assert "Choosing sites" in terminal.text


def test_nothing_where_nobody_looks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    fitted()
    assert capsys.readouterr() == ("", "")


def test_nothing_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", None)
    with progress_bar("Working") as tell:
        tell(1, 2)


def test_one_bar_at_a_time_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = looking(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)

    def work() -> None:
        with progress_bar("outer") as outer:
            outer(1, 2)
            with progress_bar("inner") as inner:
                inner(1, 2)
            raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        work()
    assert "outer" in terminal.text
    assert "inner" not in terminal.text
    with progress_bar("after") as tell:
        tell(1, None)
    assert "after" in terminal.text


def phases(told: str) -> dict[str, str]:
    """Return what was said last of each phase before it was done."""
    lines = [line.partition(": ") for line in told.splitlines() if ": done in" not in line]
    return {title: text.rpartition(", ")[0] for title, _, text in lines}


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_phases_of_trees_and_of_streams_have_totals(
    n_jobs: int | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_progress, "LINE_SECONDS", 0.0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    clf = MemoryClassifier(verbose=1, n_jobs=n_jobs).fit(X, X[:, 0] > 0.5)
    wanted = {"Growing trees": "72 of 72", "Choosing the vote, folds": "5 of 5"}
    assert wanted.items() <= phases(capsys.readouterr().err).items()
    clf.forget(X[:3], X[:3, 0] > 0.5).refit()
    assert wanted.items() <= phases(capsys.readouterr().err).items()
    documents = [["a", "b", "c", "d"] * 4] * 9
    MemoryClassifier(verbose=1, vote="sum").fit_stream(documents, h=2)
    assert phases(capsys.readouterr().err)["Learning documents"] == "0 of 9"  # all are in one block
    MemoryClassifier(verbose=1, vote="sum").fit_stream(iter(documents), h=2)
    assert phases(capsys.readouterr().err)["Learning tokens"] == "0"
    loud = MeMoClassifier(16, verbose=1).fit_stream(documents, h=2)
    assert phases(capsys.readouterr().err)["Learning documents"] == "0 of 9"
    assert loud.digest() == MeMoClassifier(16).fit_stream(documents, h=2).digest()
    assert capsys.readouterr().err == ""


def test_without_rich_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = looking(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    blocked: Any = None
    monkeypatch.setitem(sys.modules, "rich.console", blocked)
    with progress_bar("Working") as tell:
        tell(1, 2)
    assert terminal.text == ""


def test_lines_where_there_is_no_terminal_and_the_model_is_verbose(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_progress, "LINE_SECONDS", 0.0)
    X = np.random.default_rng(0).integers(0, 2, (200, 4))
    quiet, loud = (
        MemoryClassifier(numeric="none").fit(X, X[:, 0] ^ X[:, 2]),
        MemoryClassifier(numeric="none", verbose=1),
    )
    assert capsys.readouterr().err == ""
    loud.fit(X, X[:, 0] ^ X[:, 2])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Choosing sites, rounds: ")
    assert any(line.startswith("Choosing the vote, folds: 2 of 2, ") for line in lines)
    assert any(line.startswith("Fitting weights, stages: done in ") for line in lines)
    assert file_bytes(loud) == file_bytes(quiet)
    assert loud.digest() == quiet.digest()
    with pytest.raises(ValueError, match="their shapes are"):
        loud.fit(X, X[:3, 0])
    with progress_bar("Later") as tell:
        tell(1, 2)
    assert "Later" not in capsys.readouterr().err
