"""Shared weights from the labels that rows hold: the loss, its gradient and the weights of the dense fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo import NO_TOKEN, MemoryClassifier
from hammemo.kernels import PositionalHamming, SiteKernel, Suffixes
from hammemo.memories import Exact
from hammemo.tokens.contexts import Examples
from hammemo.votes import LogLinear, fitting, log_linear
from hammemo.votes.fitting import (
    CompiledFits,
    DenseFits,
    DenseLoss,
    LabelledContexts,
    build_tables,
    can_build_tables,
    compute_features,
)
from hammemo.votes.log_linear import label_shares
from hammemo.votes.sparse_fitting import make_shared_loss, read_touched_gains

SMOOTHING = (1.0, 10.0)
tables = st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=4, max_size=20)


def drawn(n: int, n_labels: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 12, (n, 3))
    return X, (X[:, 0] * 5 + rng.integers(0, 3, n)) % n_labels


@given(rows=tables, kernel=st.sampled_from([PositionalHamming(), Suffixes(2)]), left_out=st.booleans(), data=st.data())
def test_loss_and_gradient_are_those_of_all_labels(rows: Any, kernel: Any, left_out: bool, data: Any) -> None:
    table = np.array(rows)
    X, y = table[:, :3], table[:, 3]
    model = MemoryClassifier(kernel, Exact(), "sum").partial_fit(X, y, classes=[0, 1, 2, 3, 7])
    reader: Any = model.memory_.reader()
    examples = Examples.of(X, y)
    labels = reader.labels.find(examples.labels)[examples.label_ranks]
    prior, times = label_shares(reader.label_counts), examples.multiplicity
    n_features = reader.sites.n * len(SMOOTHING)
    weights = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=n_features, max_size=n_features)))
    start = np.full(n_features, 0.25)
    asked = LabelledContexts(examples.contexts, labels, prior, SMOOTHING, left_out)
    ratios = compute_features(reader, asked)
    expected, slope = DenseLoss(ratios, labels, times, prior, start, 3.0, False)(weights)
    touched = read_touched_gains(reader, asked, 2**20)
    loss, gradient = make_shared_loss(touched, times, prior, start=start, ridge=3.0)(weights)
    assert loss == pytest.approx(expected, rel=1e-4, abs=1e-5)
    np.testing.assert_allclose(gradient, slope, rtol=1e-3, atol=1e-4)


@given(
    rows=tables,
    kernel=st.sampled_from([PositionalHamming(), Suffixes(2), SiteKernel([(0, 2), (1,), (0, 1, 2)])]),
    n_labels=st.integers(2, 4),
    by_label=st.booleans(),
    left_out=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_loss_of_tables_is_that_of_arrays(
    rows: Any, kernel: Any, n_labels: int, by_label: bool, left_out: bool, seed: int
) -> None:
    table, rng = np.array(rows, object), np.random.default_rng(seed)
    table[rng.random(table.shape) < 0.1] = NO_TOKEN
    X, y = table[:, :3], rng.integers(0, n_labels, len(table))
    model = MemoryClassifier(kernel, Exact(), "sum", missing="empty")
    model.partial_fit(X, y, classes=list(range(n_labels)))
    reader: Any = model.memory_.reader()
    examples = Examples.of(X, y)
    labels = reader.labels.find(examples.labels)[examples.label_ranks]
    prior, times, amounts = label_shares(reader.label_counts), examples.multiplicity, (0.5, 2.0, 9.0)
    if not can_build_tables(reader, model.sites_, amounts):
        pytest.skip("the compiled loops are not here")
    asked = LabelledContexts(examples.contexts, labels, prior, amounts, left_out)
    ratios, made = compute_features(reader, asked), build_tables(reader, asked)
    start = np.full(ratios.shape[2], 0.25)
    problem = DenseLoss(ratios, labels, times, prior, start, 3.0, by_label)
    at, gradient, total = rng.normal(size=problem.layout.size), np.empty(problem.layout.size), float(times.sum())
    expected, slope = problem(at)
    loss = made.loss(np.log(prior), times / total, start, 3.0 / total, by_label, at, gradient)
    assert loss == pytest.approx(expected, rel=1e-4, abs=1e-5)
    np.testing.assert_allclose(gradient, slope, rtol=1e-3, atol=1e-4)
    fits = CompiledFits(made, times, prior, len(start)), DenseFits(ratios, labels, times, prior)
    ends = [fit.fit(start=start, ridge=3.0, per_label=by_label, steps=200) for fit in fits]
    there = [
        np.concatenate([end.shared, *([end.differences.T.ravel(), end.offsets] if by_label else [])]) for end in ends
    ]
    assert problem(there[0])[0] == pytest.approx(problem(there[1])[0], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("shared_ridge", [None, 4.0])
def test_the_weights_are_those_of_the_dense_fit(shared_ridge: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = drawn(400, 40)
    vote = LogLinear(per_label=False, shared_ridge=shared_ridge)
    dense = MemoryClassifier(Suffixes(2), Exact(), vote).fit(X, y)
    monkeypatch.setattr(log_linear, "MAX_FEATURES", 60_000)  # a few dense examples, or all touched labels
    sparse = MemoryClassifier(Suffixes(2), Exact(), vote).fit(X, y)
    assert 60_000 // (40 * 2 * len(vote.smoothing if isinstance(vote.smoothing, tuple) else (1,))) < 400
    np.testing.assert_allclose(sparse.vote_.site_weights_, dense.vote_.site_weights_, rtol=0.02, atol=0.01)
    assert (sparse.predict(X) == dense.predict(X)).mean() > 0.97
    assert fitting.MAX_FEATURES > 60_000


def test_as_many_examples_are_taken_as_have_room() -> None:
    X, y = drawn(600, 40)
    model = MemoryClassifier(Suffixes(2), Exact(), "sum").fit(X, y)
    reader: Any = model.memory_.reader()
    examples = Examples.of(X, y)
    labels = reader.labels.find(examples.labels)[examples.label_ranks]
    prior = label_shares(reader.label_counts)

    def taken(most: int) -> Any:
        return read_touched_gains(reader, LabelledContexts(examples.contexts, labels, prior, SMOOTHING, True), most)

    everything = taken(2**30)
    assert len(everything) == len(labels)
    some = taken(everything.gains.size // 3)
    assert 0 < len(some) < len(labels)
    assert some.gains.size <= everything.gains.size // 3
    np.testing.assert_array_equal(some.gains, everything.gains[: len(some.gains)])
    assert len(taken(1)) == 1
    np.testing.assert_array_equal(everything.columns[everything.own], labels)
