"""A ranker is made once for a version and a vote, and a vote of one's own keeps the fast way to the best labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hammemo import MemoryClassifier
from hammemo.kernels import PositionalHamming
from hammemo.memories import Exact, Hashed
from hammemo.memories.exact.live.live_rows import LiveRows
from hammemo.votes import LogLinear, Mean, Mixture, Sum, WeightedSum

pytestmark = pytest.mark.quick

X = np.random.default_rng(0).integers(0, 9, (300, 3))
y = np.random.default_rng(1).integers(0, 30, 300)


class Half(WeightedSum):
    """All labels share the divisor."""

    def divisor(self, reader: Any, sites: Any) -> float:
        return 2.0


class HalfEach(WeightedSum):
    """The same, one number for each label."""

    def divisor(self, reader: Any, sites: Any) -> Any:
        return np.full(len(reader.labels), 2.0)


def fitted(vote: Any, memory: Any = None) -> MemoryClassifier:
    return MemoryClassifier(PositionalHamming(), memory or Exact(), vote).fit(X, y).learn_one(X[0].tolist(), y[0])


@pytest.mark.parametrize("memory", [Exact(), Hashed(8, 4)], ids=repr)
@pytest.mark.parametrize("vote", ["sum", "mean", LogLinear(sample=50, steps=2)], ids=repr)
def test_a_ranker_is_made_once_for_a_version_and_a_vote(
    vote: Any, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clf = fitted(vote, memory)
    made: list[Any] = []
    right = type(clf.vote_).ranker

    def noted(*given: Any) -> Any:
        made.append(given)
        return right(*given)

    monkeypatch.setattr(type(clf.vote_), "ranker", noted)
    for _ in range(3):
        clf.predict(X[:5])
        clf.class_scores(X[:5])
    assert len(made) == 1
    clf.learn_one(X[1].tolist(), y[1])
    clf.predict(X[:5])
    clf.top_k(X[:5], 2)
    assert len(made) == 2


def test_a_vote_that_was_changed_is_asked_again() -> None:
    clf = fitted(LogLinear(weights=[1.0, 1.0, 1.0]))
    before = clf.class_scores(X[:5])
    clf.vote_.weights = [2.0, 0.0, 0.0]
    after = clf.class_scores(X[:5])
    assert not np.array_equal(before, after)
    np.testing.assert_array_equal(after, fitted(LogLinear(weights=[2.0, 0.0, 0.0])).class_scores(X[:5]))


def test_a_refit_replaces_the_ranker() -> None:
    clf = fitted(LogLinear(sample=100, steps=3))
    clf.predict(X[:5])
    clf.forget(X[100:], y[100:]).refit()
    rest = clf.empty_like().partial_fit(X[:100], y[:100]).learn_one(X[0].tolist(), y[0]).refit()
    np.testing.assert_array_equal(clf.class_scores(X[:9]), rest.class_scores(X[:9]))


def test_a_vote_of_ones_own_with_one_divisor_takes_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    right = LiveRows.leaders

    def noted(*given: Any) -> Any:
        found.append(right(*given))
        return found[-1]

    monkeypatch.setattr(LiveRows, "leaders", noted)
    answers = {}
    for vote in (Half(), HalfEach(), Sum(), Mean()):
        found.clear()
        clf = fitted(vote)
        answers[type(vote).__name__] = clf.predict(X), clf.top_k(X, 3)
        assert found
        assert all(columns is None for columns in found) == (type(vote) is HalfEach)
    for ours in answers["Half"], answers["HalfEach"]:
        for own, expected in zip(ours, answers["Sum"], strict=True):
            np.testing.assert_array_equal(own, expected)


def test_a_mixture_is_prepared_once_for_a_version() -> None:
    clf = MemoryClassifier(PositionalHamming(), Exact(), Mixture(sample=50, steps=2)).fit(X, y)
    assert clf.view().scorer.ranker is clf.view().scorer.ranker
    before = clf.view().scorer.ranker
    clf.learn_one(X[0].tolist(), 5)
    assert clf.view().scorer.ranker is not before
