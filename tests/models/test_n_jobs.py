"""`n_jobs=`: threads that never change a byte of the model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.base import clone

from hammemo import MemoryClassifier, load, save
from hammemo.features.cells import grow_forest
from hammemo.files.contents import file_bytes
from hammemo.votes import Mixture

if TYPE_CHECKING:
    from pathlib import Path

rng = np.random.default_rng(3)


def names(m: int, n_labels: int) -> tuple[Any, Any]:
    """Return a table in which pairs of columns say the label."""
    X = rng.integers(0, 6, (m, 6))
    y = (X[:, 0] * X[:, 2] + 3 * X[:, 4] + (rng.random(m) < 0.2)) % n_labels
    return X.astype(str), y


def mixed(m: int, n_labels: int) -> tuple[Any, Any]:
    """Return a table of names and numbers, which grows trees."""
    numbers = rng.normal(size=(m, 3)).round(2)
    X = np.empty((m, 5), object)
    X[:, :3], X[:, 3:] = numbers, rng.integers(0, 4, (m, 2)).astype(str)
    return X, np.digitize(numbers[:, 0] + 0.3 * numbers[:, 1], np.linspace(-1.5, 1.5, n_labels - 1))


TABLES = {
    "names, two folds": names(1500, 2),
    "names, one fold": names(9000, 3),
    "many labels": (names(600, 7)[0][:, :3], rng.integers(0, 300, 600)),
    "trees, two labels": mixed(2500, 2),
    "trees, many labels": mixed(1200, 12),
}


@pytest.mark.parametrize("table", TABLES)
def test_any_number_of_threads_gives_the_same_bytes(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[Any] = []
    submit = ThreadPoolExecutor.submit

    def counted(self: Any, *args: Any) -> Any:
        submitted.append(args)
        return submit(self, *args)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    X, y = TABLES[table]
    one = MemoryClassifier().fit(X, y)
    assert not submitted
    several = MemoryClassifier(n_jobs=3 if "many" in table else 2).fit(X, y)
    assert submitted
    assert several.digest() == one.digest()
    assert file_bytes(several) == file_bytes(one)


def test_one_thread_is_the_default() -> None:
    X, y = TABLES["trees, many labels"]
    assert file_bytes(MemoryClassifier(n_jobs=1).fit(X, y)) == file_bytes(MemoryClassifier().fit(X, y))


@pytest.mark.parametrize("make", [names, mixed])
def test_the_same_bytes_after_edits(make: Any) -> None:
    X, y = make(700, 3)
    models = [MemoryClassifier(n_jobs=n).partial_fit(X[:300], y[:300]) for n in (None, 2)]
    for model in models:
        model.partial_fit(X[300:], y[300:]).forget(X[:50], y[:50]).refit()
    assert file_bytes(models[0]) == file_bytes(models[1])
    assert file_bytes(models[0]) == file_bytes(MemoryClassifier(n_jobs=3).fit(X[50:], y[50:]))


@pytest.mark.quick
def test_streams_take_it() -> None:
    documents = rng.integers(0, 9, (30, 20)).astype(str).tolist()
    one, two = (MemoryClassifier(vote=Mixture(), n_jobs=n).fit_stream(documents, h=3) for n in (None, 2))
    assert one.digest() == two.digest()


@pytest.mark.quick
def test_it_is_a_parameter_but_not_in_files(tmp_path: Path) -> None:
    X, y = names(100, 2)
    clf = MemoryClassifier(n_jobs=2).fit(X, y)
    assert clone(clf).n_jobs == clf.get_params()["n_jobs"] == 2
    save(clf, tmp_path / "model")
    assert load(tmp_path / "model").n_jobs is None
    assert clf.digest() == load(tmp_path / "model").digest()
    assert clf.set_params(n_jobs=-1).refit().n_jobs == -1


@pytest.mark.quick
@pytest.mark.parametrize("n_jobs", [0, True, "2", 1.5])
def test_what_is_no_number_of_threads_is_refused(n_jobs: Any) -> None:
    X, y = names(100, 2)
    with pytest.raises(ValueError, match=r"n_jobs=.*-1 for all cores, or None for one"):
        MemoryClassifier(n_jobs=n_jobs).fit(X, y)


@pytest.mark.quick
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_error_in_a_thread_leaves_the_model_as_it_was(error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = mixed(300, 2)
    clf = MemoryClassifier(n_jobs=2).fit(X, y)
    before, drawn = clf.digest(), grow_forest.count_copies_in_bag

    def failing(words: Any, counts: Any, tree: int) -> Any:
        if tree == 5:
            raise error("in a thread")
        return drawn(words, counts, tree)

    monkeypatch.setattr(grow_forest, "count_copies_in_bag", failing)
    with pytest.raises(error, match="in a thread"):
        clf.fit(X[:200], y[:200])
    assert clf.digest() == before
    monkeypatch.undo()
    assert clf.fit(X, y).digest() == before
