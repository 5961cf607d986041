"""A store that follows CONTRIBUTING works in a model: rows whose hash is even are kept, all others are not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hammemo import FileError, MemoryClassifier, save
from hammemo.edits.editing import take_state
from hammemo.memories import NotStoredError
from hammemo.stores.kept import EVERYTHING, Kept, ModelStore
from hammemo.stores.kept_rows import KeptRows
from hammemo.tokens.distinct import example_words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.tokens.contexts import Examples
    from hammemo.votes import Vote


@dataclass(frozen=True, eq=False)
class EvenRows(Kept):
    """The rows with even hashes."""

    rows: KeptRows = field(default_factory=lambda: KeptRows.empty(2, 0))

    @property
    def holds_all(self) -> bool:
        return False

    @property
    def knows_all(self) -> bool:
        return False

    def __len__(self) -> int:
        return len(self.rows)

    def _even(self, examples: Examples) -> Examples:
        return examples.rows(np.flatnonzero(example_words(examples, self.seed) % np.uint64(2) == 0))

    def edit(self, examples: Examples, sign: int) -> EvenRows:
        return replace(self, rows=self.rows.edit(self._even(examples), sign))

    def plus(self, other: ModelStore, sign: int) -> EvenRows | None:
        rows = self.rows.plus(other.rows, sign) if isinstance(other, EvenRows) else None
        return None if rows is None else replace(self, rows=rows)

    def empty_copy(self) -> EvenRows:
        return replace(self, rows=self.rows.empty_copy())

    def batches(self) -> Iterator[Examples]:
        return self.rows.batches()

    def fitting_sample(self, vote: Vote) -> Examples:
        return self.rows.fitting_sample(vote)

    def state(self) -> dict[str, NDArray[Any]]:
        return self.rows.state()

    def restore(self, stored: StoredArrays) -> EvenRows:
        return replace(self, rows=self.rows.restore(stored))


RNG = np.random.default_rng(0)
X = RNG.integers(0, 6, (300, 2)).astype(str).tolist()
Y = RNG.integers(0, 2, 300).astype(str).tolist()


def learnt(rows: slice) -> MemoryClassifier:
    clf = MemoryClassifier("positional").open(2)
    take_state(clf, clf.state.with_changes(store=EvenRows(2, 0, 1000, EVERYTHING)))
    return clf.partial_fit(X[rows], Y[rows])


def contents(clf: MemoryClassifier) -> list[bytes]:
    assert isinstance(clf.state.store, EvenRows)
    return [array.tobytes() for array in clf.state.store.pack().values()]


def test_a_model_learns_forgets_merges_and_refits_with_it() -> None:
    whole, half = learnt(slice(0, 300)), learnt(slice(0, 150))
    assert 0 < len(whole.state.kept or ()) < len({(*x, y) for x, y in zip(X, Y, strict=True)})
    rest = whole.snapshot().forget(X[150:], Y[150:])
    assert contents(rest) == contents(half)
    assert contents(half + learnt(slice(150, 300))) == contents(whole)
    assert rest.refit("weights").predict_proba(X).tobytes() == half.refit("weights").predict_proba(X).tobytes()


def test_it_refuses_what_was_never_learnt() -> None:
    clf = learnt(slice(0, 300))
    before = contents(clf)
    with pytest.raises(NotStoredError):
        clf.forget([["new", "row"]], ["0"])
    assert contents(clf) == before


def test_a_file_cannot_hold_it(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="whose store is a EvenRows cannot be saved"):
        save(learnt(slice(0, 300)), tmp_path / "model")


def test_a_sketch_says_that_it_cannot_check_what_is_forgotten() -> None:
    clf = MemoryClassifier("positional", "hashed", "sum").open(2)
    take_state(clf, clf.state.with_changes(store=EvenRows(2, 0, 1000, EVERYTHING)))
    clf.partial_fit(X, Y)
    clf.forget(X[:1], Y[:1])
    with pytest.warns(UserWarning, match="cannot tell whether it had learnt them"):
        clf.certify(X[:1])
