"""Scores of few labels from tables of rows: to the bit those of the definition and of the plain twins."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, _native
from hammemo.features.cells.column_codes import ColumnCodes
from hammemo.kernels import SiteKernel
from hammemo.memories import Exact
from hammemo.memories.exact import reader as exact_reader
from hammemo.memories.exact import score_table
from hammemo.memories.exact.score_table import MAX_DENSE_LABELS, TreeRanker
from hammemo.tokens.column_kinds import NAMES, NUMBERS
from hammemo.votes import LogLinear
from twins import additive as plain_additive
from twins import codes as plain_codes
from twins import score_tables

if TYPE_CHECKING:
    from collections.abc import Callable

VOTES = [LogLinear(steps=2), LogLinear((1, 10), steps=2, per_label=False), LogLinear(steps=2, class_weight="balanced")]


def table(rng: np.random.Generator, n_labels: int = 3) -> tuple[Any, Any]:
    """Return rows of three names, and labels; some tokens are integers."""
    X = rng.integers(0, rng.integers(1, 9), (rng.integers(2, 60), 3)).astype(object)
    X[:, 1] = [f"t{token}" for token in X[:, 1]]
    return X, rng.integers(0, n_labels, len(X))


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), vote=st.sampled_from(VOTES), pays=st.booleans())
def test_scores_are_those_of_the_definition(seed: int, vote: LogLinear, pays: bool) -> None:
    rng = np.random.default_rng(seed)
    X, y = table(rng)
    kernel = SiteKernel([0, (0, 1), 2, (1, 2), (0, 1, 2)])
    model = MemoryClassifier(kernel, Exact(), vote).fit(X, y)
    asked = np.concatenate([X, table(rng)[0], [["never", 10**9, 0.5]]])
    with pytest.MonkeyPatch.context() as patch:
        ranker: Any = model.view().scorer.ranker
        patch.setattr(type(ranker), "spend_and_test", lambda *_: pays)
        scores = ranker.scores(model.contexts(asked))
        expected = ranker._rule.scores(model.memory_.reader().site_counts(model.contexts(asked)))
        assert np.array_equal(scores, expected)
        assert np.array_equal(score_tables.scores(ranker.whole(), model.contexts(asked), 5), expected)
        single = ranker._table.single()
        assert [single(row) for row in asked.tolist()] == expected.argmax(axis=1).tolist()
        assert single(["only one"]) == -1


def test_many_labels_keep_sparse_rows_and_an_empty_model_has_no_table() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 5, (400, 3)), rng.integers(0, MAX_DENSE_LABELS + 1, 400)
    model = MemoryClassifier("positional", Exact(), LogLinear(steps=2)).fit(X, y)
    assert len(model.classes_) > MAX_DENSE_LABELS
    ranker: Any = model.view().scorer.ranker
    expected = ranker._rule.scores(model.memory_.reader().site_counts(model.contexts(X)))
    np.testing.assert_allclose(ranker.scores(model.contexts(X)), expected, atol=1e-12)
    assert ranker.single() is None
    empty = MemoryClassifier("positional", Exact(), LogLinear()).open(3)
    with pytest.raises(ValueError, match="memory is empty"):
        empty.class_scores(X)


def rows_of_names(n_rows: int = 3000) -> tuple[Any, Any]:
    """Return rows of twenty names, and two labels that depend on three of them."""
    codes = np.random.default_rng(0).integers(0, 5, (n_rows, 20))
    return codes.astype(str).astype(object), (codes[:, 0] * codes[:, 1] + codes[:, 2]) % 2


def best_time(answer: Callable[[], Any], repeats: int = 40, calls: int = 100) -> float:
    """Return the processor time of a call, in the best of some loops."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            answer()
        times.append(time.process_time() - start)
    return min(times) / calls


def test_a_compiled_row_takes_no_longer_with_weights_that_labels_share() -> None:
    X, y = rows_of_names()
    row = X[5].tolist()
    times = {}
    for per_label in (True, False):
        predictor = MemoryClassifier(vote=LogLinear(per_label=per_label)).fit(X, y).compile()
        times[per_label] = best_time(partial(predictor, row))
    assert times[False] < 1.7 * times[True]  # from the top of the rows it is 2.5


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_labels=st.integers(1, 6), is_small=st.booleans())
def test_single_answers_with_shared_weights_are_those_of_the_live_model(
    seed: int, n_labels: int, is_small: bool
) -> None:
    rng = np.random.default_rng(seed)
    X, y = table(rng, n_labels)
    asked = [*X.tolist(), *table(rng)[0].tolist(), ["never", 10**9, 0.5]]
    model = MemoryClassifier(SiteKernel([0, (0, 1), 2]), Exact(), LogLinear((1, 10), steps=2, per_label=False))
    model.fit(X, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_reader, "MOST_SINGLE_VALUES", 2**24 if is_small else 0)
        predictor = model.compile()
        ranker: Any = predictor._scorer.ranker
        assert ("_table" in vars(ranker)) == is_small  # else a live table answers, and no dense rows are made
        assert [predictor(row) for row in asked] == model.predict(asked).tolist()


def mixed(seed: int, n: int = 90) -> tuple[pd.DataFrame, Any]:
    """Return a table of numbers, some missing, and names."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)).round(2), columns=["a", "b", "c"])
    X.loc[rng.random(n) < 0.1, "b"] = np.nan
    if seed % 3:
        X["town"] = rng.choice(["Ulm", "Bonn", "Trier"], n)
    return X, np.where(X["a"] - X["c"] + rng.normal(scale=0.3, size=n) > 0, "yes", "no")


@pytest.mark.examples(6)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_trees_answer_the_same_by_batch_by_leaf_by_row_and_by_the_plain_twin(seed: int) -> None:
    X, y = mixed(seed)
    model: Any = MemoryClassifier().fit(X, y)
    model.forget(X[:7], y[:7]).learn_one(X.iloc[0].tolist(), "maybe")
    asked = pd.concat([X, mixed(seed + 3)[0]], ignore_index=True)
    ranker: Any = model.view().scorer.ranker
    contexts = model.contexts(asked)
    assert isinstance(ranker, TreeRanker)
    assert ranker.base is not None
    scores, codes = ranker.scores(contexts), model.state.layout.cells.codes.rows(contexts)
    by_leaf = ranker._from_leaves(contexts, codes)
    rows, values, base = ranker._rules.read_values(model.state.layout.cells.find_cells(contexts))
    assert np.array_equal(by_leaf, score_table.sum_rows(rows, values, base, len(model.state.layout.cells.names)))
    rules: Any = ranker._rules
    definition = rules._rule.scores(model.memory_.reader().site_counts(model.state.layout.cells.find_cells(contexts)))
    np.testing.assert_allclose(by_leaf, definition, atol=1e-11)
    assert np.array_equal(model.predict(asked[:3]), model.predict(asked)[:3])
    compiled = model.compile()
    columns: Any = ranker.single()
    answers = model.predict(asked).tolist()
    given_rows = asked.astype(object).to_numpy().tolist()
    assert [compiled(row) for row in given_rows] == answers
    found = [columns(row) for row in given_rows]
    assert all(column == -1 or model.classes_[column] == label for column, label in zip(found, answers, strict=True))
    for row, expected in zip(given_rows[:5], model.predict_proba(asked), strict=False):
        assert np.array_equal(compiled.probabilities_of(row), expected)
    assert sum(column == -1 for column in found) == asked["b"].isna().sum()  # a missing value goes the long way
    plain = score_tables.from_leaves(ranker, contexts, codes)
    assert np.array_equal(plain, by_leaf)
    plain_additive.add_ratios(ranker.base, codes, plain)
    assert np.array_equal(plain, scores)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_compiled_steps_are_those_of_the_plain_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_ordered, n_names = int(rng.integers(1, 5)), int(rng.integers(0, 3))
    cuts = tuple(np.unique(rng.integers(-5, 6, rng.integers(0, 9)) / 2) for _ in range(n_ordered))
    pairs = rng.integers(0, n_ordered, (rng.integers(0, 4), 2))
    codes = ColumnCodes(
        (NUMBERS,) * n_ordered + (NAMES,) * n_names,
        cuts,
        (np.empty((0, 16), np.uint8),) * n_names,
        bytes(16),
        pairs,
        cuts,
    )
    values = rng.integers(-7, 8, (30, n_ordered)) / 2
    values[rng.random(values.shape) < 0.1] = np.nan
    values[rng.random(values.shape) < 0.05] = np.inf
    values[rng.random(values.shape) < 0.05] = -0.0
    names = rng.integers(0, 256, (30, n_names)).astype(np.uint8)
    assert np.array_equal(codes.encode(values, names), plain_codes.code_rows(codes, values, names))


def test_an_edit_does_not_pay_for_all_rows_and_many_questions_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5000, (20_000, 4))
    model = MemoryClassifier("positional", Exact(), LogLinear(steps=2)).fit(X, X[:, 0] % 2)
    made: list[int] = []

    def counted(rule: Any, counts: Any, starts: Any) -> Any:
        made.append(1)
        return score_table.dense_values(rule, counts, starts)

    monkeypatch.setattr(exact_reader, "dense_values", counted)
    model.learn_one(X[0], 1)
    first = model.predict_proba(X[:1])
    assert "_table" not in vars(model.view().scorer.ranker)
    many = model.predict_proba(X)
    assert "_table" in vars(model.view().scorer.ranker)
    n_made = len(made)
    assert np.array_equal(many[:1], first)
    model.predict_proba(X)
    assert len(made) == n_made


def score_arguments() -> dict[str, Any]:
    """Return what makes a table of two sites, of one token and of two, and three rows."""
    return {
        "h": 2,
        "site_starts": np.array([0, 1, 3]),
        "positions": np.array([0, 0, 1]),
        "row_starts": np.array([0, 2, 3]),
        "tuples": np.array([0, 1, 1, 1], np.int32),
        "values": np.arange(6.0).reshape(3, 2),
        "base": np.zeros(2),
        "seed": 1,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("h", 0),
        ("h", 2**40),
        ("site_starts", np.array([0, 1, 4])),
        ("site_starts", np.array([0, 4, 3])),
        ("site_starts", np.empty(0, np.int64)),
        ("positions", np.array([0, 0, 2])),
        ("positions", np.array([0, 0, -1])),
        ("row_starts", np.array([0, 2, 4])),
        ("row_starts", np.array([0, -1, 3])),
        ("row_starts", np.array([0, 3])),
        ("tuples", np.array([0, 1, 1], np.int32)),
        ("values", np.zeros((3, 3))),
        ("values", np.zeros((2, 2))),
        ("base", np.zeros(0)),
    ],
)
def test_wrong_arguments_are_refused(name: str, value: Any) -> None:
    right = _native.ScoreTable(**score_arguments())
    scores = np.empty((2, 2))
    right.scores(np.array([[1, 1], [-1, 2**31 - 1]], np.int32), scores)
    assert scores.tolist() == [[6.0, 8.0], [0.0, 0.0]]
    assert right.winner([1, 1]) == 1
    assert right.winner([2**62, -(2**62)]) == 0
    for tokens, out in ((np.zeros((2, 3), np.int32), scores), (np.zeros((3, 2), np.int32), scores)):
        with pytest.raises(ValueError, match="one "):
            right.scores(tokens, out)
    with pytest.raises(ValueError, match="one token"):
        right.winner([1])
    with pytest.raises((ValueError, TypeError)):
        _native.ScoreTable(**{**score_arguments(), name: value})


def test_wrong_trees_and_steps_are_refused() -> None:
    column, step, right = np.array([0, -1, -1], np.int32), np.array([3, 0, 0], np.uint8), np.array([2, 0, 0], np.int32)
    forest = _native.Forest(column, step, right, np.array([0, 3]), np.zeros(1, np.uint8))
    for rows in ([0, 0, 2], [0, -1, 0], [0, 0]):
        with pytest.raises(ValueError, match=r"row for each node|no values"):
            forest.with_scores(np.array(rows, np.int32), np.zeros((2, 2)))
    scored = forest.with_scores(np.array([9, 0, 1], np.int32), np.array([[1.0, 0.0], [0.0, 1.0]]))
    totals = np.zeros((2, 2))
    scored.add(np.array([[3], [4]], np.uint8), totals)
    assert totals.tolist() == [[1, 0], [0, 1]]
    for codes, out in ((np.zeros((2, 2), np.uint8), totals), (np.zeros((1, 1), np.uint8), totals)):
        with pytest.raises(ValueError, match="one "):
            scored.add(codes, out)
    good = (np.zeros(1), np.array([0, 1]), 1, np.zeros((1, 2), np.int64), np.zeros(1, np.int64), np.array([0, 1]))
    make: Any = _native.StepCoder
    coder = make(*good)
    with pytest.raises(ValueError, match="one value"):
        coder.write(np.zeros((1, 2)), np.zeros((1, 1), np.uint8), np.zeros((1, 3), np.uint8))
    wrong = [(1, np.array([0, 2])), (1, np.array([0])), (3, np.ones((1, 2), np.int64)), (5, np.array([1, 1]))]
    wrong += [(0, np.zeros(300)), (3, np.zeros((1, 3), np.int64))]
    for place, value in wrong:
        with pytest.raises(ValueError, match=r"cuts|pairs|column"):
            make(*good[:place], value, *good[place + 1 :])


def test_threads_that_ask_first_at_the_same_time_get_the_same_answers() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 50, (3000, 4)), rng.integers(0, 3, 3000)
    for _ in range(10):
        model = MemoryClassifier("positional", Exact(), LogLinear(weights=[1, 1, 1, 1])).fit(X, y)
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda _: model.predict_proba(X[:500]), range(6)))  # noqa: B023
        assert all(np.array_equal(answer, found[0]) for answer in found)
