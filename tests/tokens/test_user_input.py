"""User input: it is converted and checked once, and what is learnt is a copy."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from hammemo import NO_TOKEN, MemoryClassifier, NotStoredError, Rolling
from hammemo.tokens.user_input import TOKEN_RULES, CheckedRows, contexts_of_length

if TYPE_CHECKING:
    from collections.abc import Callable

X = np.random.default_rng(0).integers(0, 9, (300, 4))
Y = X[:, 0] % 3
CONVERSIONS = ("token_array", "refuse_masked", "check_table", "fill_missing")


def _calls(action: Callable[[], object]) -> Counter[str]:
    """Return how often each function of hammemo is called."""
    found: Counter[str] = Counter()

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and str(frame.f_globals.get("__name__")).startswith("hammemo."):
            found[frame.f_code.co_name] += 1

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize(
    "action",
    [
        lambda: MemoryClassifier(numeric="none").fit(X, Y),
        lambda: MemoryClassifier(numeric="none").fit(X.tolist(), Y.tolist()),
        lambda: Rolling(MemoryClassifier(vote="sum", numeric="none"), last=100).fit(X, Y),
    ],
    ids=["array", "list", "window"],
)
def test_what_is_learnt_is_converted_and_checked_once(action: Callable[[], object]) -> None:
    calls = _calls(action)
    labels = 1 if calls["_as_known_type"] else 0  # labels that are no plain array are converted, too
    assert calls["check_table"] == calls["fill_missing"] == calls["label_array"] == calls["whole_multiplicity"] == 1
    assert calls["token_array"] == 1 + labels


def test_a_question_is_converted_and_checked_once() -> None:
    model = MemoryClassifier(numeric="none").fit(X, Y)
    for asked, times in ((X, 0), (X.tolist(), 0), ([list(map(str, X[0]))], 0), (X.astype(str), 1)):
        calls = _calls(lambda asked=asked: model.contexts(asked))  # type: ignore[misc]
        assert [calls[name] for name in CONVERSIONS] == [times] * len(CONVERSIONS)
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        model.predict([[2**70] * X.shape[1]])
    predictor = model.compile()
    for asked, times in ((X, 0), (X.astype(str), 1)):  # as by the model
        calls = _calls(lambda asked=asked: predictor.predict(asked))  # type: ignore[misc]
        assert calls["token_array"] == calls["check_table"] == times


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64, np.str_, object])
def test_rows_are_copies_that_no_caller_can_write_to(dtype: Any) -> None:
    given, labels, counts = X.astype(dtype), Y.copy(), np.ones(len(Y), np.int64)
    rows = CheckedRows.from_user(BaseEstimator(), TOKEN_RULES, None, given, labels, sample_weight=counts)
    assert not np.shares_memory(rows.tokens, given)
    assert not np.shares_memory(rows.labels, labels)
    assert not np.shares_memory(rows.counts, counts)


def test_a_window_forgets_what_it_learnt_although_the_caller_wrote_into_the_arrays() -> None:
    given, labels = X[:50].copy(), Y[:50].copy()
    window = Rolling(MemoryClassifier(vote="sum", numeric="none"), last=50).partial_fit(given, labels)
    given[:], labels[:] = -1, -1
    window.partial_fit(X[50:100], Y[50:100])
    assert window.estimator_.memory_.state_bytes() == (
        Rolling(MemoryClassifier(vote="sum", numeric="none"), last=50)
        .fit(X[50:100], Y[50:100])
        .estimator_.memory_.state_bytes()
    )


def test_questions_of_another_length_are_refused() -> None:
    model = MemoryClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.contexts(X[:, :3])
    with pytest.raises(ValueError, match="rows of 4 values; those of X have 3"):
        contexts_of_length(X[:, :3], 4, "refuse")


def test_errors_of_tables_name_the_column_and_the_row() -> None:
    X, y = pd.DataFrame({"job": ["a", "b"] * 30, "city": ["k"] * 60}), ["x", "y"] * 30
    clf, array = MemoryClassifier().fit(X, y), MemoryClassifier().fit(X.to_numpy(), y)
    odd = X.assign(city=[*["k"] * 59, ["list"]])
    for ask in (lambda: MemoryClassifier().fit(odd, y), lambda: clf.predict(odd), lambda: clf.partial_fit(odd, y)):
        with pytest.raises(TypeError, match=r"Column 'city', row 59: .* must be a string or a number"):
            ask()
    with pytest.raises(TypeError, match="Column 1, row 59: "):
        array.predict(odd.to_numpy())
    with pytest.raises(ValueError, match=r"Column 'job', row 3: .* is not a token"):
        MemoryClassifier(missing="refuse").fit(X.assign(job=[*"abc", None, *["d"] * 56]), y)
    with pytest.raises(ValueError, match="one label for each of its rows"):
        clf.partial_fit(X, y[:3])
    with pytest.raises(ValueError, match="rows of 2 values; this has 1"):
        array.learn_one(["a"], "x")
    with pytest.raises(NotStoredError, match=r"1 of 2 examples .* row 1 is the first"):
        clf.forget(pd.DataFrame({"job": ["a", "c"], "city": ["k", "k"]}), ["x", "x"])
    assert len(clf.forget(X[:2], y[:2]).classes_) == 2


@given(
    rows=st.lists(st.lists(st.sampled_from(["a", "", "1", 1, NO_TOKEN, -(2**62)]), min_size=2, max_size=2), min_size=1)
)
def test_lists_of_strings_and_integers_are_read_as_tables_are(rows: list[list[Any]]) -> None:
    model = MemoryClassifier(vote="sum").fit([["a", 1], ["1", 1], ["a", "1"]], ["x", "y", "z"])
    array = np.empty((len(rows), 2), object)
    array[:] = rows
    ours, theirs = model.contexts(rows), model.contexts(array)
    assert ours.vocabulary == theirs.vocabulary
    assert np.array_equal(ours.ranks, theirs.ranks)
    assert not _calls(lambda: model.contexts(rows)).keys() & {"_table", *CONVERSIONS}


def test_lists_that_are_no_tokens_are_refused_with_their_place() -> None:
    model = MemoryClassifier().fit([["a", "b"], ["b", "a"]], ["x", "y"])
    with pytest.raises(ValueError, match=r"Column 1, row 1: .* does not fit in 64 bits"):
        model.predict([["a", "b"], ["a", 2**70]])
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict([["a", "b", "c"]])
    assert model.predict([["a", None]]).tolist() == ["x"]
    framed = MemoryClassifier().fit(pd.DataFrame({"a": ["a", "b"], "b": ["b", "a"]}), ["x", "y"])
    with pytest.warns(UserWarning, match="valid feature names"):
        framed.predict([["a", "b"]])


@given(
    rows=st.lists(
        st.tuples(
            st.one_of(st.integers(-(2**54), 2**54), st.floats(), st.booleans(), st.none(), st.just(NO_TOKEN)),
            st.one_of(st.sampled_from(["a", "b", "<missing>"]), st.none(), st.integers(0, 2)),
        ).map(list),
        min_size=1,
    ),
    numbers_only=st.booleans(),
)
@pytest.mark.filterwarnings("ignore")
def test_lists_of_numbers_are_read_as_tables_are(rows: list[list[Any]], numbers_only: bool) -> None:
    learnt: list[list[Any]] = [[1, "a"], [0.5, "b"], [3, "a"]]
    used = slice(0, 1 if numbers_only else 2)
    model = MemoryClassifier().fit([row[used] for row in learnt], ["x", "y", "z"])
    asked = [row[used] for row in rows]
    array = np.empty((len(asked), len(asked[0])), object)
    array[:] = asked
    mine, theirs = model.contexts(asked), model.contexts(array)
    assert mine.vocabulary == theirs.vocabulary
    assert mine.ranks.tolist() == theirs.ranks.tolist()
