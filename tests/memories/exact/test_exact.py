"""Three ways to the ideal scores: a linear scan, class prototypes, and the count table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings

from hammemo import NO_TOKEN, MemoryClassifier, NotStoredError
from hammemo.kernels import Bag, PositionalHamming, SiteKernel, SiteOneHot
from hammemo.memories import Exact
from hammemo.memories.exact.sum import MAX_EXAMPLES_BY_ROW, SignedSum
from hammemo.memories.exact.table import CountTable
from hammemo.tokens.contexts import Contexts, Examples
from memory_catalogue import KERNELS, POSITIONS, TUPLES, batches, examples

if TYPE_CHECKING:
    from hammemo.kernels.sites import Sites

pytestmark = pytest.mark.quick

Batch = list[tuple[list[Any], str, int]]


def scanned_scores(kernel: SiteKernel, stored: Batch, queries: list[list[Any]]) -> np.ndarray[Any, Any]:
    """Every stored example votes for its label with its similarity, one pair after the other."""
    labels = sorted({label for _, label, _ in stored})
    scores = np.zeros((len(queries), len(labels)))
    for i, query in enumerate(queries):
        for context, label, count in stored:
            scores[i, labels.index(label)] += count * kernel(context, query) * kernel.resolve(3).total_weight
    return scores / kernel.resolve(3).total_weight


def as_array(rows: list[list[Any]]) -> np.ndarray[Any, Any]:
    X = np.empty((len(rows), 3), object)
    for i, row in enumerate(rows):
        X[i] = row
    return X


@pytest.mark.parametrize(
    "kernel",
    [PositionalHamming(), SiteKernel([0, 2, (0, 2), (-3, -2, -1)], weights=[1, 2, 3, 4])],
    ids=["positions", "tuples"],
)
@given(stored=batches, asked=batches)
@settings(max_examples=150, deadline=None)
def test_scan_prototypes_and_counts_give_identical_scores(kernel: SiteKernel, stored: Batch, asked: Batch) -> None:
    X, Q = as_array([context for context, _, _ in stored]), as_array([context for context, _, _ in asked])
    y = np.array([label for _, label, _ in stored])
    counts = np.array([count for _, _, count in stored])
    clf = MemoryClassifier(kernel, Exact(), vote="sum", numeric="none").fit(X, y, sample_weight=counts)

    encoder = SiteOneHot(kernel, normalize=False).fit(X)
    weights = np.repeat(clf.sites_.weights, [len(tuples) for tuples in encoder.tuples_])
    prototypes = [(encoder.transform(X)[y == label].T @ counts[y == label]) * weights for label in clf.classes_]
    by_prototype = encoder.transform(Q) @ np.stack(prototypes, axis=1) / clf.sites_.total_weight

    scores = clf.class_scores(Q)
    np.testing.assert_array_equal(scores, by_prototype)
    # The scan multiplies each similarity back by its divisor, which rounds: whole numbers are compared.
    total = clf.sites_.total_weight
    np.testing.assert_array_equal(np.rint(scores * total), np.rint(scanned_scores(kernel, stored, Q.tolist()) * total))
    np.testing.assert_allclose(scores * total, np.rint(scores * total), atol=1e-9)


def test_unseen_and_empty_positions_cast_no_vote() -> None:
    clf = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(
        as_array([["a", NO_TOKEN, "c"]] * 3), ["x"] * 3
    )
    assert clf.class_scores(as_array([["a", NO_TOKEN, "z"], ["?", "?", "?"]])).ravel().tolist() == [1.0, 0.0]


def test_a_negative_count_is_refused_even_where_the_label_has_enough_examples() -> None:
    memory = Exact().open(POSITIONS)
    memory.add(examples([([0, 1, 2], "yes", 3)]))
    before = memory.state_bytes()
    with pytest.raises(NotStoredError, match="never stored"):
        memory.remove(examples([([7, 1, 2], "yes", 1)]))
    assert memory.state_bytes() == before


def test_forgotten_tokens_leave_no_trace_in_the_state() -> None:
    memory = Exact().open(TUPLES)
    memory.add(examples([(["a", "b", "secret"], "yes", 1), (["a", "b", "c"], "no", 1)]))
    assert b"secret" in memory.state_bytes()
    memory.remove(examples([(["a", "b", "secret"], "yes", 1)]))
    assert b"secret" not in memory.state_bytes()


def test_counts_take_the_narrowest_width_and_widen_before_they_overflow() -> None:
    memory = Exact().open(POSITIONS)
    for total, width in ((255, np.uint8), (256, np.uint16), (2**16, np.uint32), (2**32, np.uint64)):
        memory.add(examples([([0, 1, 2], "yes", total - int(memory.label_counts.sum()))]))
        assert memory.state()["entry_counts"].dtype == width
        assert memory.reader().scores(Contexts.of([[0, 1, 2]]), POSITIONS.weights).item() == 3 * total


def test_a_dense_table_needs_single_positions_and_32_bit_counts() -> None:
    tuples = Exact().open(TUPLES)
    with pytest.raises(ValueError, match="sites of one position"):
        tuples.compile("dense")
    with pytest.raises(ValueError, match="form='csr' is not known"):
        Exact().open(Bag(3).resolve(3)).compile("csr")
    large = Exact().open(POSITIONS)
    large.add(examples([([0, 1, 2], "yes", 2**31)]))
    with pytest.raises(ValueError, match="exceeds 32 bits"):
        large.compile("dense")


def stacks(memory: Exact) -> SignedSum:
    assert not memory.signed_sum.is_live
    return memory.signed_sum


@pytest.mark.long
@pytest.mark.parametrize("sites", KERNELS, ids=["positions", "tuples"])
def test_many_small_batches_keep_a_short_stack(sites: Sites) -> None:
    rng = np.random.default_rng(0)
    size = MAX_EXAMPLES_BY_ROW + 1
    X, y = rng.integers(0, 40, (120 * size, 3)), rng.integers(0, 5, 120 * size)
    memory, whole = Exact().open(sites), Exact().open(sites)
    for start in range(0, len(X), size):
        memory.add(Examples.of(X[start : start + size], y[start : start + size]))
        assert len(stacks(memory).added) <= 12
    whole.add(Examples.of(X, y))
    assert memory.label_counts.tolist() == whole.label_counts.tolist()
    assert len(stacks(memory).added) > 1  # asking for the labels has not added up the stack
    assert memory.state_bytes() == whole.state_bytes()


@pytest.mark.parametrize("sites", KERNELS, ids=["positions", "tuples"])
def test_many_small_removals_keep_short_stacks_and_the_state(sites: Sites) -> None:
    rng = np.random.default_rng(2)
    size = MAX_EXAMPLES_BY_ROW + 1
    X, y = rng.integers(0, 400, (200 * size, 3)), rng.integers(0, 5, 200 * size)
    memory, rest = Exact().open(sites), Exact().open(sites)
    memory.add(Examples.of(X, y))
    for start in range(0, 30 * size, size):
        memory.remove(Examples.of(X[start : start + size], y[start : start + size]))
        assert len(stacks(memory).added) + len(stacks(memory).removed) <= 12
    assert stacks(memory).removed  # a removal looks at the counts it touches, and does not add up the stacks
    rest.add(Examples.of(X[30 * size :], y[30 * size :]))
    with pytest.raises(NotStoredError):
        memory.remove(Examples.of(X[:1], y[:1] + 5))
    assert memory.state_bytes() == rest.state_bytes()


@given(held=batches, asked=batches)
def test_counts_at_are_those_of_the_difference(held: Any, asked: Any) -> None:
    table, other = CountTable.from_examples(examples(held), TUPLES), CountTable.from_examples(examples(asked), TUPLES)
    both = table.plus(other)
    assert (both.counts_at(other) == table.counts_at(other) + other.entry_counts).all()
    assert (table.counts_at(table) == table.entry_counts).all()
    assert (CountTable.empty(TUPLES).counts_at(other) == 0).all()


def test_the_table_of_a_large_batch_uses_the_sorted_path_too() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 2**40, (50, 3)), rng.integers(0, 2**40, 50)
    counts = rng.integers(1, 4, 50)
    weighted, repeated = Exact().open(POSITIONS), Exact().open(POSITIONS)
    weighted.add(Examples.of(X, y, counts))
    repeated.add(Examples.of(np.repeat(X, counts, axis=0), np.repeat(y, counts)))
    assert weighted.state_bytes() == repeated.state_bytes()
