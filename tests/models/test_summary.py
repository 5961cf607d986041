"""What `print` says of a model: what was chosen, and how good it is on the folds by which it was chosen."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hammemo import MemoryClassifier, load, save
from hammemo.edits.editing import take_state
from hammemo.files.contents import file_bytes
from hammemo.files.descriptions import parse_held_out
from hammemo.tasks.labels.choose import get_held_out

if TYPE_CHECKING:
    from pathlib import Path

rng = np.random.default_rng(3)
NAMES = rng.integers(0, 3, (400, 4))
NAME_LABELS = np.where(rng.random(400) < 0.8, (NAMES[:, 0] + NAMES[:, 2]) % 2, rng.integers(0, 2, 400))
NAMES = NAMES.astype(str)
NUMBERS = np.column_stack([rng.normal(size=(300, 2)), rng.integers(0, 3, 300)]).round(2)
NUMBER_LABELS = np.where(NUMBERS[:, 0] + NUMBERS[:, 1] > rng.normal(0, 0.7, 300), "yes", "no")
TABLES = {"names": (NAMES, NAME_LABELS), "numbers": (NUMBERS, NUMBER_LABELS)}


@pytest.mark.parametrize("table", TABLES)
def test_the_figure_is_that_of_rows_held_out(table: str) -> None:
    """It is near what fresh rows of the same source say, not what rows that were learnt do."""
    X, y = TABLES[table]
    clf = MemoryClassifier().fit(X, y)
    held_out = clf.choices_.held_out
    assert held_out is not None
    part = np.arange(len(y)) % 4 == 0
    asked = MemoryClassifier().fit(X[~part], y[~part])
    assert held_out.accuracy == pytest.approx(asked.score(X[part], y[part]), abs=0.1)
    assert 0 < held_out.rows <= len(y)
    first, second = clf.report().summary().splitlines()
    assert f"{len(y)} rows, {X.shape[1]} columns, 2 labels" in first
    assert f"accuracy {held_out.accuracy:.3f}, log-loss {held_out.log_loss:.3f} on {held_out.folds} folds" in second
    assert repr(clf) == "MemoryClassifier()"
    assert second in str(clf.report())


@pytest.mark.parametrize("table", TABLES)
def test_the_figure_is_stale_until_refit_and_goes_with_files_and_digests(table: str, tmp_path: Path) -> None:
    X, y = TABLES[table]
    clf, rest = MemoryClassifier().fit(X, y), MemoryClassifier().fit(X[30:], y[30:])
    save(clf, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.report().summary() == clf.report().summary()
    assert again.digest() == clf.digest()
    choices = MemoryClassifier().open(2).choices_
    take_state(again, again.state.with_changes(layout=again.state.layout._replace(choices=choices)))
    assert again.digest(parts=True)["layout"] != clf.digest(parts=True)["layout"]
    clf.forget(X[:30], y[:30])
    assert "stale, refit" in clf.report().summary()
    save(clf, tmp_path / "model")
    assert "stale, refit" in load(tmp_path / "model").report().summary()
    clf.refit()
    assert "stale" not in clf.report().summary()
    assert (clf.report().summary(), clf.digest(), file_bytes(clf)) == (
        rest.report().summary(),
        rest.digest(),
        file_bytes(rest),
    )


def test_rows_forgotten_and_as_many_learnt_are_stale() -> None:
    clf = MemoryClassifier().fit(NAMES, NAME_LABELS).forget(NAMES[:9], NAME_LABELS[:9])
    assert "stale" in clf.partial_fit(NAMES[9:18], NAME_LABELS[9:18], choose=False).report().summary()


def test_more_rows_are_said() -> None:
    clf = MemoryClassifier().fit(NAMES, NAME_LABELS).partial_fit(NAMES[:5], NAME_LABELS[:5])
    assert "when there were 400" in clf.report().summary()


def test_a_layout_that_was_given_has_no_figure() -> None:
    clf = MemoryClassifier().fit(NAMES, NAME_LABELS)
    shard, other = clf.empty_like(), MemoryClassifier().partial_fit(NAMES, NAME_LABELS, layout=clf)
    for model in (shard, other, MemoryClassifier().fit(NAMES[:20], NAME_LABELS[:20])):
        assert get_held_out(model.state) is None
        assert "not measured" in model.report().summary()
    assert "stale" not in clf.report().summary()


def test_what_has_nothing_to_say_says_so() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [
            MemoryClassifier(vote="sum").fit(NAMES, NAME_LABELS),
            MemoryClassifier().fit(NAMES, np.zeros(400, int)),
            MemoryClassifier().open(3),
            MemoryClassifier().fit_stream([list("abcab")] * 3, h=2),
        ]
    for model in models:
        assert len(model.report().summary().splitlines()) == 2
        assert "not measured" in model.report().summary()
    assert str(models[0]) == repr(models[0]) == "MemoryClassifier(vote='sum')"


@pytest.mark.parametrize(
    "entry",
    [
        {"log_loss": -1.0, "accuracy": 0.5, "folds": 2, "rows": 9},
        {"log_loss": 1.0, "accuracy": 1.5, "folds": 2, "rows": 9},
        {"log_loss": 1.0, "accuracy": 0.5, "folds": 0, "rows": 9},
        {"log_loss": 1.0, "accuracy": 0.5, "folds": True, "rows": 9},
        {"log_loss": 1.0, "accuracy": 0.5, "folds": 2},
        "good",
    ],
)
def test_forged_figures_are_refused(entry: Any) -> None:
    with pytest.raises(ValueError, match=r"it|entry|figures"):
        parse_held_out({"held_out": entry, "pinned": False, "chosen_at": 5})
    with pytest.raises(ValueError, match="no layout"):
        parse_held_out({"held_out": vars(_held_out()), "pinned": True, "chosen_at": 5})


def _held_out() -> Any:
    return MemoryClassifier().fit(NAMES[:100], NAME_LABELS[:100]).choices_.held_out


def test_the_report_counts_trees_and_columns_not_sites() -> None:
    X = np.column_stack([rng_numbers(120), NAMES[:120, 0]]).astype(object)
    X[:, 0] = X[:, 0].astype(float)
    text = str(MemoryClassifier().fit(X, NAME_LABELS[:120]).report())
    assert "kernel: 1 column of names, 72 trees with cells of 3 sizes; auto: " in text
    assert "kernel: 72 trees with cells of 3 sizes; auto: " in str(
        MemoryClassifier().fit(X[:, :1], NAME_LABELS[:120]).report()
    )


def rng_numbers(n: int) -> Any:
    return np.random.default_rng(1).normal(size=n).round(3)
