"""What the remaining rows prove of a model: all memories, votes and kinds of columns, and random histories."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier
from hammemo.edits.editing import take_state
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.receipts import check_documents, check_rows
from hammemo.receipts.verifying import Check, Result


def names(n: int = 400, seed: int = 0) -> tuple[Any, Any]:
    X = np.random.default_rng(seed).integers(0, 3, (n, 4))
    return np.array([[f"v{value}" for value in row] for row in X], object), np.where(X[:, 0] == X[:, 1], "yes", "no")


def numbers(n: int = 300) -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, np.where(X[:, 0] + X[:, 1] > 0, 1, 0)


def mixed(n: int = 300) -> tuple[Any, Any]:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {
            "amount": rng.normal(size=n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "day": pandas.date_range("2026-01-01", periods=n),
        }
    )
    return table, np.where((table["amount"] > 0) == (table["colour"] == "red"), "yes", "no")


def documents(n: int = 80) -> list[list[str]]:
    rng = np.random.default_rng(0)
    return [[f"a{value}" for value in rng.integers(0, 6, rng.integers(4, 9))] for _ in range(n)]


MODELS: list[dict[str, Any]] = [
    {},
    {"kernel": "pairs"},
    {"memory": Hashed(64, reserved=4)},
    {"memory": Hashed(64, key=bytes(range(32)))},
    {"memory": "tiered"},
    {"keep": "auto+digests"},
    {"vote": "mixture"},
    {"random_state": None},
    {"random_state": np.random.RandomState(3)},
]


@pytest.mark.parametrize("params", MODELS, ids=lambda params: str(params).split(" at 0x")[0])
def test_a_refitted_model_is_proven_and_one_that_is_not_has_its_counts(params: dict[str, Any]) -> None:
    X, y = names()
    whole = MemoryClassifier(**params).fit(X, y)
    clf = whole.snapshot().forget(X[:40], y[:40])
    before = clf.digest()
    check = check_rows(clf, (X[40:], y[40:]))
    assert (check.result, check.rows) == (Result.COUNTS, 360)
    assert not check.same["weights"]
    assert check.same["counts"]
    assert check_rows(whole, (X[40:], y[40:])).result is Result.REFUTED
    assert check_rows(clf, (X[41:], y[41:])).result is Result.REFUTED
    assert clf.digest() == before
    clf.refit()
    check = check_rows(clf, [(X[40:100], y[40:100]), (X[100:], y[100:])])
    assert check.result is Result.PROVEN
    assert all(check.same.values())
    assert check_rows(clf, (X[39:], y[39:])).result is Result.REFUTED


@pytest.mark.parametrize("table", [numbers, mixed])
def test_numbers_dates_and_trees(table: Any) -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y).forget(X[:30], y[:30])
    assert check_rows(clf, (X[30:], y[30:])).result is Result.COUNTS
    assert check_rows(clf.refit(), (X[30:], y[30:])).result is Result.PROVEN
    assert check_rows(clf, (X[31:], y[31:])).result is Result.REFUTED


@pytest.mark.parametrize("memory", [Exact(), Gaussian(64, exact=True)], ids=str)
def test_a_model_with_nothing_to_fit_is_proven_at_once(memory: Any) -> None:
    X, y = names()
    clf = MemoryClassifier(memory=memory, vote="sum").fit(X, y).forget(X[:40], y[:40])
    assert clf.state.store is None
    assert check_rows(clf, (X[40:], y[40:])).result is Result.PROVEN


def test_rounding_is_not_called_another_row() -> None:
    X, y = names()
    clf = MemoryClassifier(memory=Gaussian(64)).fit(X, y).forget(X[:40], y[:40])
    with pytest.raises(ValueError, match="forgets to rounding"):
        check_rows(clf, (X[40:], y[40:]))


def test_beyond_the_budget_counts_are_proven_under_the_layout() -> None:
    X, y = (part[:70] for part in names())
    clf = MemoryClassifier(keep=20).fit(X, y).forget(X[:40], y[:40])
    assert clf.state.kept is not None
    assert not clf.state.kept.holds_all
    check = check_rows(clf.refit(), (X[40:], y[40:]))
    assert check.result is Result.COUNTS_UNDER_LAYOUT
    assert "under the given layout" in check.sentence
    assert check_rows(clf, (X[39:], y[39:])).result is Result.REFUTED
    assert check_rows(clf, (X[41:], y[41:])).result is Result.REFUTED


def test_beyond_the_budget_weights_that_are_not_refitted_are_told() -> None:
    X, y = names()
    clf = MemoryClassifier(keep=20).fit(X, y).forget(X[:40], y[:40])
    assert check_rows(clf, (X[40:], y[40:])).result is Result.COUNTS
    assert check_rows(clf.refit(), (X[40:], y[40:])).result is Result.PROVEN  # here the same threshold would be chosen


def test_a_forgotten_row_that_is_kept_is_found() -> None:
    """An operator who changes counts and weights but keeps the row in plain text is found out."""
    X, y = names()
    whole = MemoryClassifier().fit(X, y)
    fresh = whole.snapshot().forget(X[:1], y[:1]).refit()
    assert check_rows(fresh, (X[1:], y[1:])).result is Result.PROVEN
    take_state(fresh, fresh.state.with_changes(store=whole.state.store))
    check = check_rows(fresh, (X[1:], y[1:]))
    assert (check.result, check.same) == (
        Result.REFUTED,
        {"counts": True, "kept rows": False, "threshold": True},
    )


def test_a_given_layout_is_not_proven() -> None:
    X, y = names()
    shard = MemoryClassifier().fit(X, y).empty_like().partial_fit(X[40:], y[40:]).refit()
    check = check_rows(shard, (X[40:], y[40:]))
    assert (check.result, check.same["layout"]) == (Result.COUNTS, False)


def test_declared_labels_stay() -> None:
    X, y = names()
    clf = MemoryClassifier().fit(X, y, classes=["yes", "no", "maybe"]).forget(X[:40], y[:40]).refit()
    assert check_rows(clf, (X[40:], y[40:])).result is Result.PROVEN


@pytest.mark.parametrize("params", [{}, {"vote": "sum"}, {"keep": 20}], ids=str)
def test_nothing_remains(params: dict[str, Any]) -> None:
    X, y = names(60)
    clf = MemoryClassifier(**params).fit(X, y).forget(X, y)
    expected = Result.COUNTS if "keep" not in params else Result.COUNTS_UNDER_LAYOUT
    assert check_rows(clf, []).result is expected
    assert check_rows(clf, (X[:0], y[:0])).result is expected
    assert check_rows(clf, (X[:1], y[:1])).result is Result.REFUTED
    if clf.state.all_kept is not None:
        assert check_rows(clf.refit(), []).result is Result.PROVEN


@pytest.mark.parametrize("params", [{}, {"memory": Hashed(64, reserved=4)}, {"vote": "log-linear"}], ids=str)
@pytest.mark.parametrize("short", ["drop", "pad"])
def test_documents(params: dict[str, Any], short: Any) -> None:
    held = documents()
    clf = MemoryClassifier(**params).fit_stream(held, h=2, short=short).forget_stream(held[:3])
    assert check_documents(clf, held[3:]).result is Result.COUNTS
    assert check_documents(clf, held[4:]).result is Result.REFUTED
    assert check_documents(clf.refit(), iter(held[3:])).result is Result.PROVEN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = MemoryClassifier(keep=100, **params).fit_stream(held, h=2, short=short).forget_stream(held[:60]).refit()
    assert check_documents(few, held[60:]).result is Result.COUNTS_UNDER_LAYOUT


def test_documents_with_chosen_labels() -> None:
    held, chosen = documents(), ["a0", "a1"]
    clf = MemoryClassifier().fit_stream(held, h=2, classes=chosen).forget_stream(held[:3], classes=chosen).refit()
    assert check_documents(clf, held[3:], chosen).result is Result.PROVEN
    assert check_documents(clf, held[3:]).result is Result.REFUTED


def test_no_documents_remain() -> None:
    held = documents(5)
    clf = MemoryClassifier().fit_stream(held, h=2, short="pad").forget_stream(held).refit()
    assert check_documents(clf, []).result is Result.PROVEN


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_after_any_history_just_the_rows_that_are_left_are_accepted(data: st.DataObject) -> None:
    """Brute force decides: the multiset of rows that were learnt and not forgotten."""
    row = st.tuples(st.sampled_from("ab"), st.sampled_from("cd"), st.sampled_from("xy"))
    batch = st.lists(row, min_size=1, max_size=6)
    clf, left = MemoryClassifier(), Counter[tuple[str, str, str]]()

    def arrays(rows: Any) -> tuple[Any, Any]:
        listed = list(Counter(rows).elements())
        return np.array([list(one[:2]) for one in listed], object).reshape(-1, 2), np.array([one[2] for one in listed])

    for _ in range(data.draw(st.integers(1, 5))):
        new = data.draw(batch)
        clf.partial_fit(*arrays(new))
        left.update(new)
        gone = data.draw(st.lists(st.sampled_from(sorted(left.elements())), max_size=4))
        gone = list((Counter(gone) & left).elements())
        if gone and sum(left.values()) > len(gone):
            clf.forget(*arrays(gone))
            left -= Counter(gone)
        if data.draw(st.booleans()):
            clf.refit()
    others = Counter(data.draw(batch))
    expected = {Result.PROVEN, Result.COUNTS} if others == left else {Result.REFUTED}
    assert check_rows(clf, arrays(left)).result in {Result.PROVEN, Result.COUNTS}
    assert check_rows(clf, arrays(others)).result in expected
    assert check_rows(clf.refit(), arrays(left)).result is Result.PROVEN


def test_each_result_is_a_sentence() -> None:
    sentences = [Check(result, 1000, {"weights": False}).sentence for result in Result]
    assert len(set(sentences)) == 4
    assert all("1,000 rows" in sentence for sentence in sentences)
    assert "only this 1 row is" in Check(Result.PROVEN, 1, {}).sentence
