"""Sites that say little are left out of a mixture: as a plain loop would choose them, and nothing else changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, load, save
from hammemo.kernels import Bag, Copy, Suffixes, Together
from hammemo.votes import Mixture
from hammemo.votes.mixture.gates import BUCKETS, PRIOR, Terms, compute_probabilities, find_prunable

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

KERNEL = Suffixes(3) + Bag(4) + Together(4) + Copy(4)


def random_terms(rng: np.random.Generator, m: int, groups: NDArray[np.int64]) -> Terms:
    """Return the prior for each example, and other components for some."""
    others = np.flatnonzero(groups >= 0)
    examples = np.concatenate([np.arange(m), rng.integers(0, m, 6 * m)])
    components = np.concatenate([np.full(m, PRIOR), rng.choice(others, 6 * m)])
    shares = np.concatenate([rng.uniform(0.01, 0.1, m), rng.random(6 * m) * rng.integers(0, 2, 6 * m)])
    return Terms(examples, components, rng.integers(0, BUCKETS, 7 * m), shares, rng.uniform(0.1, 10, 7 * m))


def plainly(
    terms: Terms, times: NDArray[np.int64], weights: NDArray[np.float64], groups: NDArray[np.int64], most: float
) -> set[int]:
    """Return the groups that are left out, with every likelihood made from its own terms."""

    def loss(kept: set[int]) -> float:
        part = terms.select(np.isin(groups[terms.components], [-1, *kept]))
        return float(-times @ np.log(compute_probabilities(part, weights, len(times))) / times.sum())

    kept = set(groups[groups >= 0].tolist())
    allowed = loss(kept) + most
    while kept:
        least = min(kept, key=lambda group: loss(kept - {group}))
        if loss(kept - {least}) > allowed:
            break
        kept.remove(least)
    return set(groups[groups >= 0].tolist()) - kept


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.001, 0.02, 0.1, 10.0]))
def test_what_is_left_out_is_what_a_plain_loop_leaves_out(seed: int, most: float) -> None:
    rng = np.random.default_rng(seed)
    groups = np.array([-1, 0, 1, 2, 2, 2, 3])
    m = int(rng.integers(3, 40))
    terms, times = random_terms(rng, m, groups), rng.integers(1, 4, m)
    weights = rng.normal(size=(len(groups), BUCKETS))
    gone = find_prunable(terms, times, weights, groups=groups, max_loss=most)
    assert not gone[PRIOR]
    assert set(groups[gone].tolist()) == plainly(terms, times, weights, groups, most)
    assert (gone == np.isin(groups, groups[gone])).all()  # all of a group, or nothing


def repeated(n: int = 400) -> list[list[int]]:
    """Return sessions in which the next item depends on the last one alone, and nothing comes back."""
    rng = np.random.default_rng(3)
    return [[int(start), int(start) + 1000, int(start) + 2000] for start in rng.integers(0, 60, n)]


def test_an_automatic_mixture_leaves_out_what_says_little() -> None:
    sessions = [[s * 10 + i for i in range(4)] for s in np.random.default_rng(0).integers(0, 80, 600).tolist()]
    clf = MemoryClassifier().fit_stream(sessions, 4, short="pad")
    assert isinstance(clf.vote_, Mixture)
    unread = clf.vote_.unread(clf.sites_)
    assert "copy of 4" in unread  # no item comes twice
    assert f"left out, because it says little: {', '.join(unread)}" in str(clf.report())
    whole = MemoryClassifier(clf.kernel_, vote=Mixture()).fit_stream(sessions, 4, short="pad")
    assert whole.vote_.unread(whole.sites_) == ()
    assert "left out" not in str(whole.report())
    X = [[*session[:3], session[2]] for session in sessions[:50]]
    assert (clf.predict(X) == whole.predict(X)).mean() > 0.9


def test_answers_are_the_same_whether_rows_are_read_or_not() -> None:
    clf = MemoryClassifier(KERNEL, vote=Mixture(prune=0.05)).fit_stream(repeated(), 4, short="pad")
    assert clf.vote_.unread(clf.sites_)
    rng = np.random.default_rng(1)
    X = rng.choice([*range(60), *range(1000, 1060), *range(2000, 2060)], (40, 4))
    scores = clf.class_scores(X)
    assert clf.predict(X).tolist() == clf.classes_[scores.argmax(axis=1)].tolist()
    assert np.allclose(clf.predict_proba(X).sum(axis=1), 1)
    assert clf.explain(X[0].tolist()) is not None


@pytest.mark.parametrize("prune", [0.0, 0.01])
def test_forgetting_and_refit_decide_anew(prune: float) -> None:
    sessions = repeated()
    once = [[item] * 4 for item in range(5_000, 5_100)]  # while these are there, copies say much
    vote = Mixture(prune=prune)
    clf = MemoryClassifier(KERNEL, vote=vote).fit_stream(sessions + once, 4, short="pad")
    assert "copy of 4" not in clf.vote_.unread(clf.sites_)
    clf.forget_stream(once, short="pad").refit()
    never = MemoryClassifier(KERNEL, vote=vote).fit_stream(sessions, 4, short="pad")
    assert clf.vote_.unread(clf.sites_) == never.vote_.unread(never.sites_)
    assert ("copy of 4" in clf.vote_.unread(clf.sites_)) == (prune > 0)
    assert clf.vote_.weights_.tobytes() == never.vote_.weights_.tobytes()
    assert clf.memory_.state_bytes() == never.memory_.state_bytes()


def test_files_hold_what_is_left_out(tmp_path: Path) -> None:
    clf = MemoryClassifier(KERNEL, vote=Mixture(prune=0.05)).fit_stream(repeated(), 4, short="pad")
    save(clf, tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.vote_.prune == 0.05
    assert again.vote_.weights_.tobytes() == clf.vote_.weights_.tobytes()
    assert np.isneginf(again.vote_.weights_).any()


@pytest.mark.parametrize("used", ["prior", "two", "short"])
def test_crafted_files_are_refused(used: str) -> None:
    from hammemo._arrays.checked import StoredArrays

    clf = MemoryClassifier(KERNEL, vote=Mixture(prune=0.05)).fit_stream(repeated(), 4, short="pad")
    state: dict[str, Any] = dict(clf.vote_.state())
    wrong = state["used"].copy()
    if used == "prior":
        wrong[PRIOR] = 0
    elif used == "two":
        wrong[1] = 2
    else:
        wrong = wrong[:-1]
    with pytest.raises(ValueError, match=r"prior|used"):
        Mixture().restore(StoredArrays({**state, "used": wrong}), clf.sites_)


@pytest.mark.parametrize("prune", [-1.0, float("nan"), float("inf"), "much"])
def test_wrong_numbers_are_refused(prune: Any) -> None:
    with pytest.raises(ValueError, match="prune="):
        MemoryClassifier(KERNEL, vote=Mixture(prune=prune)).fit_stream(repeated(), 4, short="pad")
