"""Numbers of copies in files add up to less than 2^53: sums over what is kept cannot wrap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hammemo import MemoryClassifier
from hammemo._arrays.checked import StoredArrays
from hammemo.stores.kept_rows import KeptRows
from hammemo.tokens.contexts import Examples, join_examples


@pytest.mark.parametrize("name", ["counts", "digest_counts"])
def test_copies_that_wrap_together_are_refused(name: str) -> None:
    n = 2**11 + 1  # so many times 2^53 - 1 wraps to less than 2^53
    keep = "digests" if name == "digest_counts" else "auto"
    clf = MemoryClassifier(keep=keep).fit([[i] for i in range(n)], np.arange(n) % 2)
    store: Any = clf.state.store
    arrays = dict(store.state())
    key = next(full for full in arrays if full.split(".")[-1] == name)
    empty = store.empty_copy()
    assert empty.restore(StoredArrays(dict(arrays))) is not None
    arrays[key] = np.full(n, 2**53 - 1, np.uint64)
    with pytest.raises(ValueError, match="add up to"):
        empty.restore(StoredArrays(arrays))


def test_documents_that_are_longer_together_than_any_memory_are_refused() -> None:
    clf = MemoryClassifier().fit_stream([["a", "b", "c", "d"] * 5] * 3, h=2)
    kept: Any = clf.state.store
    arrays = dict(kept.state())
    for name in ("lengths", "counts"):
        wrong = {**arrays, name: np.full(2**14 + 1, 2**40 - 1 if name == "lengths" else 2**52, np.uint64)}
        if name == "lengths":
            wrong["counts"] = np.ones(2**14 + 1, np.uint8)
        with pytest.raises(ValueError, match="add up to"):
            kept.empty_copy().restore(StoredArrays(wrong))


def test_the_mean_length_of_documents_with_many_copies() -> None:
    clf = MemoryClassifier().fit_stream([["a", "b", "c", "d"] * 500], h=2)
    kept: Any = clf.state.store
    held = replace(kept.base.held, counts=np.full(1, 2**53 - 1))
    many = replace(kept.base, held=held)
    assert many.facts(4).mean_length == kept.facts(4).mean_length > 1999


def test_batches_that_wrap_together_are_refused() -> None:
    one = Examples.of([["a"]], ["x"], [2**53 - 1])
    assert int(join_examples([one] * 255).multiplicity.sum()) == 255 * (2**53 - 1)
    with pytest.raises(ValueError, match="2\\^61 rows or more"):
        join_examples([one] * 257)


def test_kept_rows_hold_as_many_copies_as_a_model_may() -> None:
    kept = KeptRows.empty(h=1, seed=0)
    kept = kept.edit(Examples.of([["a"], ["b"]], ["x", "y"], [2**52, 2**52 - 1]), 1)
    assert int(kept.examples().multiplicity.sum()) == 2**53 - 1
    again = KeptRows.empty(h=1, seed=0).restore(StoredArrays(dict(kept.state())))
    assert int(again.examples().multiplicity.sum()) == 2**53 - 1
