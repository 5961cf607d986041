"""Automatic sites: the choice, what it is a function of, and its parts against their definitions."""

from __future__ import annotations

import time
from functools import cache
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from hammemo import NO_TOKEN, _native
from hammemo.kernels import AutoSites, PositionalHamming, SiteKernel
from hammemo.kernels.selection import growth as growth_module
from hammemo.kernels.selection import shared_weights
from hammemo.kernels.selection.copies import MAX_COPIES, Copies
from hammemo.kernels.selection.growth import Growth, count_path_rows
from hammemo.kernels.selection.score_tests import ScoreTests
from hammemo.kernels.selection.shared_weights import RIDGE, SharedWeights, compute_promises
from hammemo.kernels.selection.site_features import SMOOTHING, SiteRatios, make_features
from hammemo.memories import Exact
from hammemo.tokens.contexts import Examples
from hammemo.tokens.distinct import distinct_examples
from hammemo.votes.base import softmax
from hammemo.votes.choose_weights import choose_log_linear
from hammemo.votes.fitting import LabelledContexts, compute_features
from hammemo.votes.log_linear import label_shares
from twins import selection as plain_selection
from twins.selection import PlainFeatures, log_ratios, site_sums, sum_centred

LINES = {(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)}


@cache
def tic_tac_toe() -> tuple[list[Any], list[str]]:
    """Return all boards at the end of a game that x began, and whether x has won: UCI's 958 rows, made again."""
    boards: dict[str, str] = {}
    played: set[str] = set()

    def play(board: str, player: str) -> None:
        if board in played:
            return
        played.add(board)
        won = next((p for p in "xo" if any(all(board[i] == p for i in line) for line in LINES)), None)
        if won or "b" not in board:
            boards[board] = "positive" if won == "x" else "negative"
            return
        for i in range(9):
            if board[i] == "b":
                play(board[:i] + player + board[i + 1 :], "o" if player == "x" else "x")

    play("b" * 9, "x")
    return [list(board) for board in boards], list(boards.values())


def test_on_tic_tac_toe_it_finds_the_eight_lines_first() -> None:
    X, y = tic_tac_toe()
    assert len(X) == 958
    found = AutoSites().choose(Examples.of(X, y))
    assert set(found.tuples[:8]) == LINES
    assert found.losses[0] > 0.4 > 0.05 > found.losses[found.taken]
    assert found.kernel.resolve(9).positions == (*((j,) for j in range(9)), *found.tuples)


def pairs_matter(n: int, seed: int = 0, labels: int = 2) -> tuple[Any, Any]:
    X = np.random.default_rng(seed).integers(0, 3, (n, 5))
    return X, (X[:, 0] + X[:, 1]) % labels


def chosen(X: Any, y: Any, weight: Any = None, seed: int = 0) -> Any:
    found = AutoSites(budget=8).choose(Examples.of(X, y, weight), seed)
    return found.tuples, found.losses, found.taken


def test_the_order_of_the_rows_is_irrelevant() -> None:
    X, y = pairs_matter(300)
    order = np.random.default_rng(1).permutation(len(X))
    assert chosen(X, y) == chosen(X[order], y[order])


def test_a_weight_of_two_is_the_row_twice() -> None:
    X, y = pairs_matter(300)
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    assert chosen(X, y, weight) == chosen(np.repeat(X, weight, axis=0), np.repeat(y, weight))


def test_the_choice_depends_on_the_seed_and_on_nothing_else() -> None:
    X, y = pairs_matter(300)
    assert chosen(X, y) == chosen(X, y)
    assert chosen(X, y)[1] != chosen(X, y, seed=1)[1]
    names = np.array(["zero", "one", "two"])
    assert chosen(names[X], y)[0][0] == chosen(X, y)[0][0] == (0, 1)


def test_above_the_small_size_there_is_one_holdout() -> None:
    X, y = pairs_matter(9000)
    found = AutoSites(budget=4).choose(Examples.of(X, y))
    assert len(found.trials) == 1
    assert (0, 1) in found.tuples
    assert len(AutoSites(budget=4).choose(Examples.of(X[:8000], y[:8000])).trials) == 2


def test_many_labels() -> None:
    X = np.random.default_rng(0).integers(0, 6, (900, 4))
    assert (0, 3) in AutoSites(budget=4).choose(Examples.of(X, X[:, 0] * 6 + X[:, 3])).tuples


@pytest.mark.parametrize(
    ("X", "y", "reason"),
    [
        (np.empty((0, 3), int), np.empty(0, int), "0 examples"),
        ([["a", "b"]], ["x"], "1 examples"),
        ([["a", "b"], ["c", "b"]] * 50, ["x"] * 100, "one label"),
        (np.arange(20_000).reshape(-1, 2), np.arange(10_000), "10,000 labels"),
    ],
)
def test_where_nothing_can_be_chosen_it_says_why(X: Any, y: Any, reason: str) -> None:
    found = AutoSites().choose(Examples.of(X, y))
    assert isinstance(found.kernel, PositionalHamming)
    assert reason in str(found.reason)


@pytest.mark.parametrize(
    "X",
    [
        [["a"], ["b"], ["a"]] * 40,  # one column
        [["a", "k", 1], ["b", "k", 1], ["c", "k", 1]] * 40,  # constant columns
        [["k", "k"]] * 120,  # nothing but constant columns
        [[NO_TOKEN, NO_TOKEN]] * 120,  # nothing at all
        [["a", NO_TOKEN, "b"], [NO_TOKEN, "c", "b"], ["a", "c", NO_TOKEN]] * 40,
    ],
)
def test_columns_that_say_nothing(X: Any) -> None:
    found = AutoSites().choose(Examples.of(X, ["x", "y", "x"] * 40))
    assert found.reason is None
    assert found.kernel.resolve(len(X[0])).positions[: len(X[0])] == tuple((j,) for j in range(len(X[0])))


def test_budget_and_order_are_kept_and_checked() -> None:
    X, y = pairs_matter(200)
    examples = Examples.of(X, y)
    assert not AutoSites(budget=0).choose(examples).tuples
    assert not AutoSites(order=1).choose(examples).tuples
    assert {len(site) for site in AutoSites(budget=3, order=2).choose(examples).tuples} <= {2}
    stopped = AutoSites(seconds=1e-9).choose(examples)
    assert len(stopped.losses) == 1
    for wrong, words in (({"budget": -1}, "at least 0"), ({"order": 0}, "at least 1"), ({"seconds": 0}, "above zero")):
        with pytest.raises(ValueError, match=words):
            AutoSites(**wrong).choose(examples)


def test_a_weight_of_a_billion_costs_no_more_than_the_copies_that_are_looked_at() -> None:
    X, y = pairs_matter(100)
    weight = np.full(len(X), 10**9)
    weight[0] = 1
    copies = Copies.from_examples(Examples.of(X, y, weight), seed=0)
    assert abs(len(copies) - MAX_COPIES) <= len(X)
    assert (0, 1) in AutoSites(budget=2).choose(Examples.of(X, y, weight)).tuples


def test_work_and_memory_are_bounded() -> None:
    for n_labels, n_features in product((2, 26, 256, 10**6), (10, 300, 3000, 30_000)):
        numbers = count_path_rows(10**7, n_labels, n_features) * n_labels
        assert numbers * n_features <= 2**26
        assert numbers * n_features**2 <= 2**34


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1), st.integers(1, 3)), min_size=1))
@settings(max_examples=50)
def test_distinct_examples_are_counted(rows: list[tuple[int, int, int, int]]) -> None:
    a = np.array(rows)
    chosen_rows, words, counts = distinct_examples(Examples.of(a[:, :2], a[:, 2], a[:, 3]), seed=3)
    expected: dict[tuple[int, ...], int] = {}
    for row in rows:
        expected[row[:3]] = expected.get(row[:3], 0) + row[3]
    assert {rows[i][:3]: int(n) for i, n in zip(chosen_rows, counts, strict=True)} == expected
    assert (np.diff(words.astype(object)) > 0).all()


cells = st.sampled_from([0, 1, 2, NO_TOKEN])


@given(
    st.lists(st.tuples(cells, cells, cells, st.integers(0, 2)), min_size=2, max_size=40),
    st.sampled_from([[(0,), (1, 2)], [(0, 1, 2)], [(2,), (0, 2)]]),
)
@settings(max_examples=60)
def test_log_ratios_are_those_that_a_vote_reads_from_an_exact_memory(rows: list[Any], sites: list[Any]) -> None:
    a = np.array(rows)
    copies = Copies.from_examples(Examples.of(a[:, :3], a[:, 3]), seed=0)
    # the tokens behind the codes, to fill a memory with the copies in their order
    tokens = np.where(copies.codes >= 0, copies.codes, NO_TOKEN)
    examples = Examples.of(tokens, copies.labels)
    memory = Exact().open(SiteKernel(sites).resolve(3))
    memory.add(examples)
    reader, every = memory.reader(), np.arange(len(copies))
    prior = label_shares(reader.label_counts)
    expected = compute_features(
        reader, LabelledContexts(examples.contexts, examples.label_ranks, prior, SMOOTHING, True)
    )
    ratios = SiteRatios(copies, len(copies))
    ours = plain_selection.matrix(ratios, sites, every, leave_one_out=True)
    assert ours == pytest.approx(expected, abs=1e-5)
    partial = log_ratios(ratios, sites[0], every, leave_one_out=True).transpose(2, 1, 0)
    difference = partial - ours[:, :, : len(SMOOTHING)]  # one number a row, the same for all labels
    assert difference == pytest.approx(np.broadcast_to(difference[:1], difference.shape), abs=1e-5)


class Given(PlainFeatures):
    """Features that are given as they are, (F, m, L)."""

    def __init__(self, x: Any, labels: Any, prior: Any) -> None:
        self.site_ratios = [x[f : f + len(SMOOTHING)] for f in range(0, len(x), len(SMOOTHING))]
        self.rows, self.labels, self.base, self.n_columns = np.arange(len(labels)), labels, np.log(prior), len(prior)


def problem(seed: int, m: int = 60, n_labels: int = 3, n_features: int = 6) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_labels, m)
    x = rng.normal(size=(n_features, m, n_labels)).astype(np.float32)
    x[0, np.arange(m), labels] += 1
    return x, labels, np.full(n_labels, 1 / n_labels)


def loss(x: Any, labels: Any, prior: Any, w: Any, start: Any) -> float:
    scores = np.log(prior) + np.tensordot(w, x.astype(np.float64), 1)
    return float(-np.log(softmax(scores)[np.arange(len(labels)), labels]).sum() + RIDGE * ((w - start) ** 2).sum())


@pytest.mark.parametrize("seed", range(3))
def test_shared_weights_are_at_the_minimum(seed: int) -> None:
    x, labels, prior = problem(seed)
    given_features = Given(x, labels, prior)
    w, crossed = SharedWeights(given_features, [0, 12, 24, 36, 48, 60]).fit(np.zeros(6))
    even = np.full(6, 1 / 6)
    best = loss(x, labels, prior, w, even)
    for step in np.eye(6) * 0.02:
        assert best <= loss(x, labels, prior, w + step, even) + 1e-3
        assert best <= loss(x, labels, prior, w - step, even) + 1e-3
    held_out = given_features.softmax(crossed)[1].sum()
    assert held_out > best - RIDGE * ((w - even) ** 2).sum()


@pytest.mark.parametrize("seed", range(3))
def test_a_promise_is_the_newton_step_of_the_loss(seed: int) -> None:
    x, labels, prior = problem(seed)
    observed = np.eye(3, dtype=np.float32)[labels]
    base = np.tile(np.log(prior), (len(labels), 1))
    gradient, curvature = sum_centred(x, softmax(base).astype(np.float32), labels)
    (gain,), (step,) = compute_promises(gradient[None].astype(float), curvature[None].astype(float))

    def value(w: Any) -> float:
        return loss(x, labels, prior, w, np.zeros(6))

    def slope(w: Any) -> Any:
        residuals = observed - softmax(base + np.tensordot(w, x.astype(np.float64), 1))
        return -np.tensordot(x.astype(np.float64), residuals, 2) + 2 * RIDGE * w

    assert check_grad(value, slope, np.zeros(6)) < 1e-3
    hessian = np.array([(slope(e) - slope(-e)) / 2e-4 for e in np.eye(6) * 1e-4])
    assert step == pytest.approx(np.linalg.solve(hessian, -slope(np.zeros(6))), abs=1e-3)
    assert gain == pytest.approx(-0.5 * slope(np.zeros(6)) @ step, rel=1e-3)


def clicks(n: int, positives: float, seed: int = 0) -> Any:
    """Return columns whose values follow Zipf's law, from 2 to 10,000 of them, and rare labels that depend on two."""
    rng = np.random.default_rng(seed)
    sizes = np.geomspace(2, 10_000, 8).astype(int)
    X = np.stack([np.minimum(rng.zipf(1.3, n), size) for size in sizes], axis=1)
    odds = np.log(positives / (1 - positives)) + 1.5 * ((X[:, 1] * 3 + X[:, 3]) % 2) - 0.75
    return X, (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)


def single_columns(X: Any, y: Any) -> tuple[Growth, Any, Any]:
    """Return a path with its first step taken, the weights of single columns, and their cross-fitted scores."""
    copies = Copies.from_examples(Examples.of(X, y), seed=0)
    growth = Growth(SiteRatios(copies, len(copies)), budget=0, order=1)
    growth._add([(j,) for j in growth.columns], [])
    return growth, *growth._weights.fit(np.full(len(SMOOTHING) * len(growth.columns), 1.0 / len(SMOOTHING)))


def curvatures_of(X: Any, y: Any) -> Any:
    """Return what the features of single columns have for curvature, fold by fold, at the weights of a fit."""
    growth, weights, _ = single_columns(X, y)
    probabilities, _ = growth.features.softmax(growth.features.scores(weights))
    return growth._weights._sum_folds(probabilities, len(weights))[1]


def assert_no_negative_eigenvalue(by_fold: Any) -> None:
    for curvature in [by_fold.sum(axis=0), *(by_fold.sum(axis=0) - fold for fold in by_fold)]:
        eigenvalues = np.linalg.eigvalsh(curvature)
        assert eigenvalues[0] >= -1e-5 * eigenvalues[-1]


@pytest.mark.parametrize(
    ("n", "positives"),
    [(60, 0.5), (400, 0.05), (5000, 0.002), (40_000, 0.02), pytest.param(10**6, 0.02, marks=pytest.mark.slow)],
)
def test_curvatures_have_no_negative_eigenvalue(n: int, positives: float) -> None:
    assert_no_negative_eigenvalue(curvatures_of(*clicks(n, positives)))


def test_curvatures_of_rare_labels_have_no_negative_eigenvalue() -> None:
    X, _ = clicks(30_000, 0.02)
    labels = np.minimum(np.random.default_rng(1).zipf(1.5, len(X)), 12)
    assert_no_negative_eigenvalue(curvatures_of(X, labels))


def test_of_all_pairs_the_true_one_promises_most() -> None:
    X, y = clicks(40_000, 0.02)
    growth, _, scores = single_columns(X, y)
    pairs = list(combinations(range(X.shape[1]), 2))
    gains = dict(
        zip(pairs, growth._candidates._tests.test(pairs, growth.features.softmax(scores)[0])[0].tolist(), strict=True)
    )
    others = [gain for pair, gain in gains.items() if pair != (1, 3)]
    assert gains[1, 3] > 2 * max(others)
    assert growth._mean_loss(scores) < 0.13  # nats; 0.116 is the entropy of the labels


def test_a_cross_fitted_step_that_raises_the_loss_is_shortened() -> None:
    x, labels, prior = problem(0)
    given_features = Given(x, labels, prior)
    fitter, even = SharedWeights(given_features, [0, 12, 24, 36, 48, 60]), np.full(6, 1 / 6)
    weights = fitter.fit(np.zeros(6))[0]

    def shortened(start: Any, step: Any) -> Any:
        losses = given_features.softmax(given_features.scores(start))[1]
        position = shared_weights._SearchPosition(start, losses, np.empty(0), np.empty(0))
        return fitter._score_after(step, position, even, 0)

    assert shortened(weights, np.full(6, 1e6)) == pytest.approx(given_features.scores(weights))  # refused
    step = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    start = weights - 0.3 * step
    moved = (shortened(start, step) - given_features.scores(start)) / given_features.scores(step)
    share = float(np.median(moved))
    assert 0 < share < 1
    assert loss(x[:, 12:], labels[12:], prior, start + share * step, even) <= loss(
        x[:, 12:], labels[12:], prior, start, even
    )


sites_of_three = st.sampled_from([[(0,), (1, 2)], [(0, 1, 2), (1,)], [(2,), (0, 2), (0, 1)], []])


@given(
    st.lists(st.tuples(cells, cells, cells, st.integers(0, 3)), min_size=2, max_size=60),
    st.integers(2, 4),
    sites_of_three,
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=150)
def test_the_compiled_scan_gives_the_sums_of_the_definition(rows: Any, n_labels: int, sites: Any, seed: int) -> None:
    a, rng = np.array(rows), np.random.default_rng(seed)
    examples = Examples.of(a[:, :3], a[:, 3] % n_labels)
    copies = Copies.from_examples(examples, seed=0)
    ratios = SiteRatios(copies, max(1, len(copies) * 3 // 4))
    if ratios.n_labels < 2:
        return
    tested = rng.permutation(ratios.n)[: max(1, ratios.n // 2)]
    probabilities = softmax(rng.normal(size=(len(tested), ratios.n_labels)) * 3)
    tests, as_columns = ScoreTests(ratios, tested), probabilities[:, 1:] if ratios.n_labels == 2 else probabilities
    gradients, curvatures = tests.sum_rows(sites, as_columns)
    for site, gradient, curvature in zip(sites, gradients, curvatures, strict=True):
        x = log_ratios(ratios, site, tested, leave_one_out=True).astype(np.float64)
        observed = np.eye(ratios.n_labels)[ratios.labels(tested)]
        centred = x - (x * probabilities).sum(axis=2, keepdims=True)
        assert gradient == pytest.approx(np.tensordot(x, observed - probabilities, 2), abs=1e-4)
        assert curvature == pytest.approx(np.einsum("fmc,emc,mc->fe", centred, centred, probabilities), abs=1e-3)
    by_numpy = site_sums(tests, sites, as_columns)
    assert gradients == pytest.approx(by_numpy[0], abs=1e-3)
    assert curvatures == pytest.approx(by_numpy[1], rel=1e-5, abs=1e-3)


def test_the_compiled_scan_numbers_cells_of_wide_sites() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10**6, (3000, 4)) // rng.integers(
        1, 10**6, (3000, 1)
    )  # few cells, and millions of possible ones
    copies = Copies.from_examples(Examples.of(X, X[:, 0] % 3), seed=0)
    ratios = SiteRatios(copies, len(copies))
    tests = ScoreTests(ratios, np.arange(ratios.n))
    probabilities = softmax(rng.normal(size=(ratios.n, 3)))
    sites = [(0, 1), (0, 1, 2), (0, 1, 2, 3)]
    for compiled, by_numpy in zip(
        tests.sum_rows(sites, probabilities), site_sums(tests, sites, probabilities), strict=True
    ):
        assert compiled == pytest.approx(by_numpy, rel=1e-3, abs=1e-2)


def test_without_compiled_loops_the_same_sites_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = tic_tac_toe()
    compiled = AutoSites(budget=2).choose(Examples.of(X, y))
    monkeypatch.setattr(growth_module, "make_features", plain_selection.make_features)
    monkeypatch.setattr(ScoreTests, "sum_rows", site_sums)
    monkeypatch.setattr(shared_weights, "_native", SimpleNamespace(solve_positive=lambda *_: False))
    by_numpy = AutoSites(budget=2).choose(Examples.of(X, y))
    assert set(compiled.tuples) == set(by_numpy.tuples) <= LINES


@given(
    st.lists(st.tuples(cells, cells, cells, st.integers(0, 3)), min_size=2, max_size=60),
    st.integers(2, 4),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=150)
def test_compiled_features_are_those_of_numpy(rows: Any, n_labels: int, leave_one_out: bool, seed: int) -> None:
    a, rng = np.array(rows), np.random.default_rng(seed)
    copies = Copies.from_examples(Examples.of(a[:, :3], a[:, 3] % n_labels), seed=0)
    ratios, sites = SiteRatios(copies, max(1, len(copies) * 3 // 4)), [(0,), (1, 2), (0, 1, 2)]
    if ratios.n_labels < 2:
        return
    chosen_rows = rng.permutation(ratios.n if leave_one_out else len(copies))
    compiled = make_features(ratios, chosen_rows, sites, leave_one_out=leave_one_out)
    plain = plain_selection.make_features(ratios, chosen_rows, sites, leave_one_out=leave_one_out)
    for n_features in (6, 9):  # of all sites, and of the first ones
        weights = rng.normal(size=n_features)
        scores = compiled.scores(weights)
        assert scores == pytest.approx(plain.scores(weights), abs=1e-4)
        for found, expected in zip(compiled.softmax(scores), plain.softmax(scores), strict=True):
            assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)
        probabilities, first = plain.softmax(scores)[0], len(chosen_rows) // 3
        assert compiled.select_own(probabilities) == pytest.approx(np.exp(-plain.softmax(scores)[1]), abs=1e-12)
        for found, expected in zip(
            compiled.sum_rows(probabilities, n_features, first=first, last=len(chosen_rows)),
            plain.sum_rows(probabilities, n_features, first=first, last=len(chosen_rows)),
            strict=True,
        ):
            assert found == pytest.approx(expected, abs=1e-2, rel=1e-3)
    by_label, offsets = rng.normal(size=(9, ratios.n_labels)), rng.normal(size=ratios.n_labels)
    expected, right = plain.predict_own_labels(by_label, offsets)
    observed, is_right = compiled.predict_own_labels(by_label, offsets)
    assert observed == pytest.approx(expected, abs=1e-4)
    for said in (is_right, right):
        assert said[expected > 0.501].all()
        assert not said[expected < 1 / ratios.n_labels - 0.001].any()


@given(
    st.lists(st.tuples(cells, cells, cells, st.integers(0, 3)), min_size=8, max_size=60),
    st.integers(2, 4),
    st.integers(0, 2**32 - 1),
)
def test_rows_that_are_sure_of_their_label_have_no_curvature(rows: Any, n_labels: int, seed: int) -> None:
    a, rng = np.array(rows), np.random.default_rng(seed)
    copies = Copies.from_examples(Examples.of(a[:, :3], a[:, 3] % n_labels), seed=0)
    ratios, sites = SiteRatios(copies, len(copies)), [(0,), (1, 2)]
    if ratios.n_labels < 2:
        return
    every = rng.permutation(len(copies))
    both = [
        plain_selection.make_features(ratios, every, sites, leave_one_out=True),
        make_features(ratios, every, sites, leave_one_out=True),
    ]
    labels, n_sure = ratios.labels(every), len(every) // 2
    doubts = np.where(np.arange(len(every)) < n_sure, rng.uniform(1e-5, 9e-4, len(every)), rng.uniform(0.2, 0.8))
    probabilities = np.tile(doubts[:, None] / (ratios.n_labels - 1), ratios.n_labels)
    probabilities[np.arange(len(every)), labels] = 1 - doubts
    as_columns = probabilities[:, 1:] if ratios.n_labels == 2 else probabilities
    for found in both:
        gradient, curvature = found.sum_rows(as_columns, 6, first=0, last=n_sure)
        assert not curvature.any()
        x = np.concatenate([log_ratios(ratios, site, every[:n_sure], leave_one_out=True) for site in sites]).astype(
            np.float64
        )
        residuals = np.eye(ratios.n_labels)[labels[:n_sure]] - probabilities[:n_sure]
        assert gradient == pytest.approx(np.tensordot(x, residuals, 2), abs=1e-4)  # a gradient has all rows
    for mine, theirs in zip(*(found.sum_rows(as_columns, 6, first=0, last=len(every)) for found in both), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-3, rel=1e-3)


def wide(n: int, n_columns: int) -> tuple[Any, Any]:
    """Return names without meaning, but for two columns far apart that give the label together."""
    X = np.random.default_rng(0).integers(0, 3, (n, n_columns))
    X[:, 3] = np.where(np.random.default_rng(1).random(n) < 0.3, X[:, 3], (X[:, 7] + X[:, -2]) % 2)
    return X, (X[:, 7] + X[:, -2]) % 2


def test_the_path_of_a_wide_table_looks_at_the_columns_that_promise_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth_module, "MAX_COLUMNS", 12)
    X, y = wide(300, 40)
    copies = Copies.from_examples(Examples.of(X, y), seed=0)
    growth = Growth(SiteRatios(copies, len(copies)), budget=4, order=2)
    assert len(growth.columns) == 12
    assert 3 in growth.columns
    assert len(growth.every_column) == 40
    found = AutoSites(budget=4).choose(Examples.of(X, y))
    for trial in found.trials:  # votes are tried with all columns
        assert {site for site in trial.sites if len(site) == 1} == {(j,) for j in range(40)}
        assert trial.weights is None
    assert choose_log_linear(found, 2, 40)[1][0].accuracy > 0.75
    narrow = AutoSites(budget=1).choose(Examples.of(X[:, :12], y))
    assert all(trial.weights is not None for trial in narrow.trials)


def test_a_fit_of_a_wide_table_has_no_more_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth_module, "MAX_COLUMNS", 12)
    fit, sizes = SharedWeights.fit, []

    def counted(self: Any, start: Any) -> Any:
        sizes.append(len(start))
        return fit(self, start)

    monkeypatch.setattr(SharedWeights, "fit", counted)
    for n_columns in (12, 40, 100):
        AutoSites(budget=2).choose(Examples.of(*wide(100, n_columns)))
    assert max(sizes) <= len(SMOOTHING) * (12 + 2)


@pytest.mark.slow
def test_500_columns_cost_at_most_4_times_as_much_as_200() -> None:
    def seconds(n_columns: int) -> float:
        examples = Examples.of(*wide(600, n_columns))
        start = time.process_time()
        choose_log_linear(AutoSites().choose(examples), 2, n_columns)
        return time.process_time() - start

    assert seconds(500) < 4 * seconds(200)  # 20 times as much where a path had all columns


@given(st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_the_compiled_solution_is_that_of_lapack(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(n, n // 2 + 1))
    a, b, x = half @ half.T, rng.normal(size=(3, n)), np.empty((3, n))
    assert _native.solve_positive(a, 0.5, b, x)
    assert x == pytest.approx(np.linalg.solve(a + 0.5 * np.eye(n), b.T).T, abs=1e-8, rel=1e-8)
    assert n == 0 or not _native.solve_positive(-np.eye(n), 0.5, b, x)


def test_a_copy_stays_in_its_inner_fold_when_others_go() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (120, 4)), rng.integers(0, 2, 120)

    def folds(rows: slice) -> dict[int, int]:
        copies = Copies.from_examples(Examples.of(X[rows], y[rows]), seed=0)
        growth = Growth(SiteRatios(copies, len(copies)), 4, 3)
        numbers = np.searchsorted(growth._weights._ends, np.arange(len(copies)), side="right") - 1
        return dict(zip(copies.hashes[growth._rows].tolist(), numbers.tolist(), strict=True))

    every, fewer = folds(slice(None)), folds(slice(1, None))
    assert {word: every[word] for word in fewer} == fewer
    assert len(set(fewer.values())) == growth_module.FOLDS
