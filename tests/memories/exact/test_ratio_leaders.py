"""The best labels where a label's examples matter, too, against all scores: mean and log-linear votes."""

from __future__ import annotations

import threading
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from contract_checks.batches import examples
from hammemo import NotStoredError, _native, memories
from hammemo.kernels import PositionalHamming, SiteKernel, Suffixes
from hammemo.memories.exact.live.live_rows import LiveRows
from hammemo.memories.exact.live.rules import mean_rule
from hammemo.memories.exact.reader import RuleRanker, SparseCounts
from hammemo.memories.exact.sum import SignedSum
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.vocabulary import Vocabulary
from hammemo.votes import LogLinear, Mean, Vote

H = 3
KERNELS = [
    PositionalHamming(),
    Suffixes(3),
    SiteKernel([(0, 2), 1, (0, 1, 2)], weights=[2, 0.3, 0]),
    SiteKernel([0], weights=[1]),
]
WEIGHTS = [-1.0, -0.3, 0.0, 0.1, 0.5, 1.0, 3.0]


def oracle(memory: memories.Exact) -> SparseCounts:
    """Return the reader that makes all scores."""
    return SparseCounts(SignedSum.from_table(memory.table()), memory.declared, static=True)


def change(memory: memories.Exact, tokens: list[Any], label: Any, by: int) -> None:
    """Add one example this many times or, below zero, take it back."""
    memory.apply_edit(lambda private: private.update_one(tokens, label, by))


def log_linear(weights: list[list[float]], smoothing: list[float]) -> LogLinear:
    """Return a vote with these weights of sites and amounts of smoothing, as if they were fitted."""
    vote = LogLinear(smoothing, per_label=False)
    vote.site_weights_ = np.array(weights)
    vote.labels_ = None  # type: ignore[assignment]
    return vote


def assert_same(memory: memories.Exact, vote: Vote, queries: list[list[Any]]) -> int:
    """Compare the best labels, for every k; return how many answers of the compiled code were not sure."""
    ours, theirs = memory.reader(), oracle(memory)
    assert isinstance(ours, SparseCounts)
    assert isinstance(ours.rows, LiveRows)
    contexts, n_labels = Contexts.of(np.array(queries, object)), len(ours.labels)
    if not n_labels:
        return 0
    fast, plain = vote.ranker(ours, memory.sites), vote.ranker(theirs, memory.sites)
    np.testing.assert_array_equal(fast.winners(contexts), plain.winners(contexts))
    if isinstance(fast, RuleRanker):
        rule: Any = ours.rows._shared_rule(fast._shared)
    else:
        rule = mean_rule(memory.sites.weights, Mean().divisor(ours, memory.sites), ours.label_counts)
    assert rule is not None
    n_unsure = 0
    for k in {1, 2, 3, 10, n_labels // 8, n_labels} - {0}:
        if k > n_labels:
            continue
        expected = plain.leaders(contexts, k)
        np.testing.assert_array_equal(fast.leaders(contexts, k), expected)
        columns, sure = ours.rows._columns_by_rule(contexts, rule, k)
        np.testing.assert_array_equal(columns[sure], expected[sure])
        n_unsure += int((~sure).sum())
    single = fast.single()
    assert single is not None
    from_top = ours.rows.single_by_rule(fast._shared) if isinstance(fast, RuleRanker) and fast._shared else single
    for query, column in zip(queries, plain.winners(contexts).tolist(), strict=True):
        assert single(query) in (-1, column)
        assert from_top is None or from_top(query) in (-1, column)
    return n_unsure


tokens = st.sampled_from([0, 1, "a"])
rows = st.lists(tokens, min_size=H, max_size=H)
batches = st.lists(st.tuples(rows, st.integers(0, 12), st.sampled_from([1, 1, 2, 50])), min_size=1, max_size=25)


@st.composite
def votes(draw: st.DrawFn, n_sites: int) -> Vote:
    if draw(st.booleans()):
        return Mean()
    n_amounts = draw(st.integers(1, 3))
    smoothing = draw(st.lists(st.sampled_from([0.01, 1.0, 10.0, 100.0]), min_size=n_amounts, max_size=n_amounts))
    site = st.lists(st.sampled_from(WEIGHTS), min_size=n_amounts, max_size=n_amounts)
    return log_linear(draw(st.lists(site, min_size=n_sites, max_size=n_sites)), smoothing)


@pytest.mark.examples(10)
@pytest.mark.parametrize("kernel", KERNELS, ids=["positions", "suffixes", "tuples", "one"])
@settings(max_examples=30, deadline=None)
@given(data=st.data(), start=batches, edits=batches, queries=st.lists(rows, min_size=1, max_size=6))
def test_the_best_labels_of_every_history_are_those_of_all_scores(
    kernel: SiteKernel, data: st.DataObject, start: Any, edits: Any, queries: list[list[Any]]
) -> None:
    memory = memories.Exact().open(kernel.resolve(H))
    if data.draw(st.booleans(), "labels without examples"):
        memory.declare(Vocabulary.of([3, 40]))
    memory.add(examples(start))
    vote = data.draw(votes(len(memory.sites.positions)), "vote")
    queries = [*queries, ["unseen"] * H]
    assert_same(memory, vote, queries)
    for row, label, copies in edits:
        sign = data.draw(st.sampled_from([1, -1]), "sign")
        try:
            change(memory, row, label, sign * copies)
        except NotStoredError:
            continue
        assert_same(memory, vote, queries[:2])
    assert_same(memory, vote, queries)


def drawn(n: int, n_labels: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return examples whose labels are as unevenly frequent as words are."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, H)), np.minimum(rng.zipf(1.3, n), n_labels) - 1


@pytest.mark.parametrize("kernel", KERNELS, ids=["positions", "suffixes", "tuples", "one"])
def test_long_rows_are_read_by_bands_also_after_edits(kernel: SiteKernel) -> None:
    """Labels leave their bands and rows are indexed again, in many edits of few labels."""
    X, y = drawn(6000, 900, 0)
    memory = memories.Exact().open(kernel.resolve(H))
    memory.add(Examples.of(X[:5000], y[:5000]))
    n_sites = len(memory.sites.positions)
    linear = log_linear([[-0.1, 0.3, 0.6]] * n_sites, [1.0, 10.0, 100.0])
    queries = X[5000:5008].tolist()
    for i in range(600):
        if i % 3:
            change(memory, X[5000 + i].tolist(), int(y[5000 + i]) + (900 if i % 50 == 1 else 0), 1)
        else:
            change(memory, X[i].tolist(), int(y[i]), -1)
        if i % 20 == 0:
            for vote in (Mean(), linear):
                assert_same(memory, vote, queries)
    assert_same(memory, linear, X[:100].tolist())


def test_real_weights_leave_nearly_no_answer_to_all_scores() -> None:
    X, y = drawn(5000, 500, 1)
    memory = memories.Exact().open(PositionalHamming().resolve(H))
    memory.add(Examples.of(X, y))
    vote = log_linear([[-0.08, 0.01, 0.063], [-0.11, 0.057, 0.151], [-0.036, 0.296, 0.581]], [1.0, 10.0, 100.0])
    assert assert_same(memory, vote, X[:64].tolist()) == 0


def test_many_threads_read_two_versions_while_one_edits() -> None:
    """Indexes are made, shared and replaced by threads that read at the same time."""
    X, y = drawn(4000, 400, 2)
    memory = memories.Exact().open(PositionalHamming().resolve(H))
    memory.add(Examples.of(X, y))
    vote = log_linear([[0.2, 0.3]] * H, [1.0, 30.0])
    old, contexts = memory.reader(), Contexts.of(X[:20])
    expected = vote.ranker(oracle(memory), memory.sites).leaders(contexts, 5).tolist()
    stop, wrong = threading.Event(), []

    def ask() -> None:
        while not stop.is_set():
            if vote.ranker(old, memory.sites).leaders(contexts, 5).tolist() != expected:
                wrong.append("old")
            vote.ranker(memory.reader(), memory.sites).leaders(contexts, 5)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(500):  # rare labels: they leave their bands soon
        change(memory, X[i].tolist(), 380 + i % 60, 1)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert_same(memory, vote, X[:20].tolist())


def test_an_allocation_that_fails_leaves_all_as_it_was() -> None:
    X, y = drawn(3000, 300, 3)
    memory = memories.Exact().open(PositionalHamming().resolve(H))
    memory.add(Examples.of(X, y))
    vote, queries = log_linear([[0.2, 0.3]] * H, [1.0, 30.0]), X[:5].tolist()
    ranker, contexts = vote.ranker(memory.reader(), memory.sites), Contexts.of(X[:5])
    failed, answered = 0, False
    while not answered:  # until all allocations were tried
        _native.fail_allocation(failed)
        try:
            ranker.winners(contexts)
            answered = True
        except MemoryError:
            failed += 1
        finally:
            _native.fail_allocation(-1)
    assert failed > 1
    assert_same(memory, vote, queries)


def test_rules_refuse_what_is_not_one() -> None:
    rule: Any = _native.LiveRule
    for amounts, weights in (
        ([0.0], [[1.0]]),
        ([1.0], [[np.nan]]),
        ([1.0], [[np.inf]]),
        ([1.0], [[1.0, 2.0]]),
        ([], np.empty((1, 0))),
    ):
        with pytest.raises(ValueError, match=r"smoothing|weight"):
            rule.log_linear(np.array(amounts, float), np.array(weights, float), 10)
    for octaves in (0, 65):
        with pytest.raises(ValueError, match="octaves"):
            rule.log_linear(np.ones(1), np.ones((1, 1)), octaves)
    with pytest.raises(ValueError, match="negative"):
        rule.mean(np.array([-1.0]), 1.0)
    with pytest.raises(ValueError, match="divisor"):
        rule.mean(np.ones(1), 0.0)
    memory = memories.Exact().open(PositionalHamming().resolve(H))
    memory.add(examples([([0, 0, 0], "a", 5)]))
    version = memory.reader().rows.live.version  # type: ignore[attr-defined]
    one, flags = np.zeros((1, 1), np.int64), np.zeros(1, bool)
    with pytest.raises(ValueError, match="sites"):
        version.ratio_leaders(rule.mean(np.ones(2), 1.0), 1, np.zeros((1, H), np.int64), one, flags)
    with pytest.raises(ValueError, match="examples"):
        version.ratio_leaders(
            rule.log_linear(np.ones(1), np.ones((H, 1)), 1), 1, np.zeros((1, H), np.int64), one, flags
        )
