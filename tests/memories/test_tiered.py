"""Two tiers answer as the exact classifier alone does, on anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier
from hammemo.kernels import PositionalHamming
from hammemo.memories import Exact, Hashed, Memory, Tiered
from hammemo.memories.reader import proven
from hammemo.tokens.contexts import Examples
from hammemo.tokens.stream_blocks import stream_blocks
from hammemo.tokens.vocabulary import Vocabulary
from memory_catalogue import KERNELS, batches, examples

pytestmark = pytest.mark.quick


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


@given(
    tokens=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    block=st.integers(4, 40),
    labels=st.sampled_from([None, (0, 1), (9,)]),
    settled=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_stream_is_learnt_as_its_examples_are(
    tokens: list[int], block: int, labels: tuple[int, ...] | None, settled: bool
) -> None:
    chosen = None if labels is None else Vocabulary.of(labels)
    fast, plain = (Tiered(Hashed(2, 2)).open(PositionalHamming().resolve(3), seed=5) for _ in range(2))
    if settled:
        for memory in (fast, plain):
            memory.reserve(Examples.of([[0, 1, 2]], ["x"]))
    blocks = list(stream_blocks(np.array(tokens), 3, block_tokens=block))
    fast.add_blocks(blocks, chosen)
    plain.apply_edit(lambda memory: Memory.update_from_blocks(memory, blocks, chosen))
    assert fast.state_bytes() == plain.state_bytes()


def test_a_table_in_segments_comes_with_its_sketch() -> None:
    clf = MemoryClassifier("positional", memory=Tiered(Hashed(4, 2)), vote="sum").fit(
        [["a", "b"], ["c", "d"]], ["x", "y"]
    )
    memory, other = (
        clf.memory_,
        MemoryClassifier("positional", memory=Hashed(5, 2), vote="sum").fit([["a", "b"]], ["x"]).memory_,
    )
    before = memory.state_bytes()
    for wrong in (None, other, memory):
        with pytest.raises(ValueError, match="needs a sketch of this layout"):
            memory.set_terms(memory.terms, wrong)
    with pytest.raises(ValueError, match="keeps nothing beside its table"):
        memory.exact_.set_terms(memory.terms, memory.sketch_)
    assert memory.state_bytes() == before
    empty = memory.empty_like()
    empty.set_terms(memory.terms, memory.companion)
    assert empty.segmented is None  # there is no folder
    assert empty.state_bytes() == before
    assert empty.with_empty_table().terms.n_entries == 0
    assert empty.with_empty_table().companion.state_bytes() == memory.sketch_.state_bytes()


def test_the_estimator_works_with_two_tiers() -> None:
    X, y = [["a", "b"]] * 5 + [["c", "d"]], ["x"] * 5 + ["y"]
    clf = MemoryClassifier("positional", memory=Tiered(Hashed(buckets=1, reserved=2)), vote="sum").fit(X, y)
    exact = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
    assert clf.certify(X).all()
    np.testing.assert_array_equal(clf.top_k(X, 2), exact.top_k(X, 2))
    np.testing.assert_array_equal(clf.compile().predict(X), exact.predict(X))
    assert clf.get_params()["memory__sketch__buckets"] == 1
    assert clf.compile().top_k(X[:0] or np.empty((0, 2), int), 1).shape == (0, 1)


@pytest.mark.parametrize("wrong", [Tiered(Exact()), Tiered(Hashed(), Hashed())])
def test_tiers_of_the_wrong_kind_are_refused(wrong: Tiered) -> None:
    with pytest.raises(TypeError, match=r"is not a (Hashed|Exact) memory"):
        MemoryClassifier("positional", memory=wrong, vote="sum").fit([[1]], [1])


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
    low, high = tables._bound_sums(tables.layout.rows(contexts), sites.weights)
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
