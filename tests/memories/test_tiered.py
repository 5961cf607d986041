"""Two tiers answer as the exact classifier alone does, on anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import Exact, Hashed, MemoryClassifier, Tiered
from hammemo.memories.bounds import proven
from memory_catalogue import KERNELS, batches, examples


@pytest.mark.parametrize("sites", KERNELS, ids=["positions", "tuples"])
@given(stored=batches, asked=batches, buckets=st.integers(1, 4), reserved=st.integers(0, 4), mean=st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_answer_is_the_exact_one(
    sites: Any, stored: Any, asked: Any, buckets: int, reserved: int, mean: bool
) -> None:
    memory = Tiered(Hashed(buckets, reserved)).open(sites, seed=5)
    exact = Exact().open(sites)
    for learner in (memory, exact):
        learner.add(examples(stored))
    contexts = examples(asked).contexts
    divisor = np.maximum(memory.label_counts, 1) * sites.total_weight if mean else np.full(len(exact.labels), 2.0)
    expected = exact.reader().scores(contexts, sites.weights) / divisor
    for reader in (memory.reader(), memory.compile()):
        np.testing.assert_array_equal(
            reader.winners(contexts, sites.weights, divisor),
            expected.argmax(axis=1),
        )
        np.testing.assert_array_equal(
            reader.scores(contexts, sites.weights), exact.reader().scores(contexts, sites.weights)
        )


def test_the_estimator_works_with_two_tiers() -> None:
    X, y = [["a", "b"]] * 5 + [["c", "d"]], ["x"] * 5 + ["y"]
    clf = MemoryClassifier(memory=Tiered(Hashed(buckets=1, reserved=2)), vote="sum").fit(X, y)
    exact = MemoryClassifier(memory=Exact(), vote="sum").fit(X, y)
    assert clf.certify(X).all()
    np.testing.assert_array_equal(clf.top_k(X, 2), exact.top_k(X, 2))
    np.testing.assert_array_equal(clf.compile().predict(X), exact.predict(X))
    assert clf.get_params()["memory__sketch__buckets"] == 1
    assert clf.compile().top_k(X[:0] or np.empty((0, 2), int), 1).shape == (0, 1)


@pytest.mark.parametrize("wrong", [Tiered(Exact()), Tiered(Hashed(), Hashed())])
def test_tiers_of_the_wrong_kind_are_refused(wrong: Tiered) -> None:
    with pytest.raises(TypeError, match=r"is not a (Hashed|Exact) memory"):
        MemoryClassifier(memory=wrong, vote="sum").fit([[1]], [1])


@pytest.mark.parametrize("sites", KERNELS, ids=["positions", "tuples"])
@given(stored=batches, asked=batches, buckets=st.integers(1, 4), reserved=st.integers(0, 4), divided=st.booleans())
@settings(max_examples=60, deadline=None)
def test_compiled_certificates_are_those_of_the_bounds(
    sites: Any, stored: Any, asked: Any, buckets: int, reserved: int, divided: bool
) -> None:
    memory = Hashed(buckets, reserved).open(sites, seed=5)
    memory.add(examples(stored))
    contexts, tables = examples(asked).contexts, memory.compile()
    divisor = np.arange(1.0, len(memory.labels) + 1) if divided else np.ones(len(memory.labels))
    low, high = tables.plain_bounds(contexts, sites.weights)
    for way in ("row by row", "compiled"):
        assert (tables._bound_tables is not None) == (way == "compiled")
        np.testing.assert_array_equal(tables.bounds(contexts, sites.weights), (low, high))
        for column in range(len(memory.labels)):
            answers = np.full(len(contexts), column)
            np.testing.assert_array_equal(
                tables.proven(contexts, sites.weights, divisor, answers),
                proven(low / divisor, high / divisor, answers),
            )
        tables._tables_of_bounds(sites.weights, divisor)
