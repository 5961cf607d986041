"""Parts that were written outside hammemo keep its contracts, work in a classifier, and are saved and loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from contract_checks import check_kernel, check_memory, check_vote
from hammemo import FileError, MemoryClassifier, Predictor, load, save
from hammemo.memories import Exact, NotStoredError
from hammemo.votes import Sum
from own_parts import EverySecond, Points, RootMean, SmoothedRatios, Tallied, TalliedRows

if TYPE_CHECKING:
    from pathlib import Path

OWN: list[type] = [EverySecond, Points, RootMean, SmoothedRatios, Tallied, TalliedRows]
VOTES = [RootMean(), SmoothedRatios(2.0), Points()]
X = [["a", "b", "c"], ["a", "b", "d"], ["e", "b", "c"], ["e", "f", "d"]] * 3
Y = ["x", "y", "x", "z"] * 3
QUERIES = [["a", "f", "d"], ["e", "b", "d"], ["new", "b", "c"]]


def model(vote: Any) -> MemoryClassifier:
    return MemoryClassifier(EverySecond(last=2), Tallied(), vote)


def test_the_memory_keeps_the_contract() -> None:
    check_memory(Tallied(), forms=["rows"], trials=6)


def test_the_kernel_keeps_the_contract() -> None:
    check_kernel(EverySecond(last=2.5))


@pytest.mark.parametrize("vote", VOTES, ids=repr)
def test_the_votes_keep_the_contract(vote: Any) -> None:
    check_vote(vote, trials=6)
    check_vote(vote, memories=[Tallied()], trials=3)


@pytest.mark.parametrize("vote", VOTES, ids=repr)
def test_a_model_of_own_parts_answers_as_one_with_the_exact_memory(vote: Any) -> None:
    clf, expected = model(vote).fit(X, Y), MemoryClassifier(EverySecond(last=2), Exact(), vote).fit(X, Y)
    np.testing.assert_allclose(clf.class_scores(QUERIES), expected.class_scores(QUERIES), rtol=1e-12)
    assert clf.predict(QUERIES).tolist() == expected.predict(QUERIES).tolist()
    assert clf.explain(QUERIES[0]).labels == expected.explain(QUERIES[0]).labels


@pytest.mark.parametrize("keep", ["auto", "rows+digests"])
def test_an_automatic_vote_reads_the_rows_of_an_own_memory(keep: str) -> None:
    clf = MemoryClassifier("positional", Tallied(), keep=keep)
    assert hasattr(clf, "predict_proba")
    expected = MemoryClassifier("positional", Exact()).fit(X, Y)
    assert repr(clf.fit(X, Y).vote_) == repr(expected.vote_)
    np.testing.assert_allclose(clf.predict_proba(QUERIES), expected.predict_proba(QUERIES), rtol=1e-9)


class Unread(TalliedRows):
    """A reader that shows no rows."""

    has_rows = False


class WithoutRows(Tallied):
    """A memory whose reader has no rows."""

    def make_reader(self) -> Unread:
        """Return what answers."""
        return Unread(self._counts, self.frame())


def test_an_automatic_vote_is_the_sum_where_an_own_memory_has_no_rows() -> None:
    clf = MemoryClassifier("positional", WithoutRows())
    assert not hasattr(clf, "predict_proba")
    assert isinstance(clf.fit(X, Y).vote_, Sum)


@pytest.mark.parametrize("vote", VOTES, ids=repr)
def test_it_forgets_and_merges(vote: Any) -> None:
    clf = model(vote).fit(X[:4], Y[:4])
    other = clf.empty_like().partial_fit(X[4:], Y[4:])
    whole = model(vote).fit(X, Y)
    assert (clf + other).memory_.state_bytes() == whole.memory_.state_bytes()
    assert whole.forget(X[4:], Y[4:]).memory_.state_bytes() == clf.memory_.state_bytes()
    with pytest.raises(NotStoredError, match="Nothing was changed"):
        clf.forget([["never", "was", "here"]], ["x"])


@pytest.mark.parametrize("vote", VOTES, ids=repr)
@pytest.mark.parametrize("compiled", [False, True], ids=["classifier", "predictor"])
def test_it_is_saved_and_loaded_by_those_who_trust_it(vote: Any, compiled: bool, tmp_path: Path) -> None:
    clf, path = model(vote).fit(X, Y), tmp_path / "model.safetensors"
    saved = clf.compile() if compiled else clf
    save(saved, path)
    with pytest.raises(FileError, match=r"own_parts.*trust=\["):
        load(path)
    again = load(path, trust=OWN)
    assert isinstance(again, Predictor) == compiled
    np.testing.assert_array_equal(again.class_scores(QUERIES), saved.class_scores(QUERIES))
    assert again.predict(QUERIES).tolist() == clf.predict(QUERIES).tolist()


def test_what_an_own_ranker_makes_of_exact_counts_is_exact() -> None:
    explained = MemoryClassifier(vote=Points()).fit([["a", "x"], ["b", "y"]], ["0", "1"]).explain(["a", "x"])
    assert explained.precision == "exact"
    assert "unknown" not in explained.verdict()
