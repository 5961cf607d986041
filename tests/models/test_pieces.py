"""Learning in pieces and merging, with everything automatic."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from hammemo import LayoutError, MemoryClassifier
from hammemo.kernels import AutoSites, PositionalHamming
from hammemo.memories import Exact
from hammemo.tasks.labels import size_warning
from hammemo.tasks.labels.schedule import FIRST_BATCH
from hammemo.votes import LogLinear


def table(n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, 5))
    return X.astype(str), np.where(rng.random(n) < 0.9, (X[:, 0] + X[:, 1]) % 3, rng.integers(0, 3, n))


@pytest.mark.parametrize("kernel", ["auto", AutoSites()])
def test_what_is_automatic_is_chosen_from_200_examples_on_and_when_they_have_doubled(kernel: Any) -> None:
    X, y = table(4 * FIRST_BATCH)
    clf = MemoryClassifier(kernel).partial_fit(X[:199], y[:199])
    assert isinstance(clf.kernel_, PositionalHamming)
    assert not hasattr(clf.vote_, "labels_")
    assert clf.partial_fit(X[199:200], y[199:200]).state.chosen_at == FIRST_BATCH
    assert (0, 1) in clf.sites_.positions
    late = MemoryClassifier(kernel).partial_fit(X, y, choose=False)
    assert isinstance(late.kernel_, PositionalHamming)
    assert late.refit().digest() == MemoryClassifier(kernel).fit(X, y).digest()


def test_the_choice_is_made_anew_when_examples_have_doubled() -> None:
    X, y = table(1000)
    clf, chosen = MemoryClassifier(), []
    for i in range(0, 1000, 100):
        clf.partial_fit(X[i : i + 100], y[i : i + 100])
        chosen.append(clf.state.chosen_at)
    assert chosen == [0, 200, 200, 400, 400, 400, 400, 800, 800, 800]
    assert "chosen at 800 of 1,000 rows" in str(clf.report())
    assert clf.forget_one(X[0], y[0]).learn_one(X[0], y[0]).state.chosen_at == 800
    assert clf.refit().digest() == MemoryClassifier().fit(X, y).digest()


def test_what_is_given_or_not_kept_is_not_chosen() -> None:
    X, y = table(400)
    layout = MemoryClassifier().fit(*table(300, 7))
    for clf in (
        MemoryClassifier("positional", vote=LogLinear()).partial_fit(X, y),
        MemoryClassifier(vote="sum").partial_fit(X, y),
        MemoryClassifier().partial_fit(X, y, layout=layout),
        layout.empty_like().partial_fit(X, y),
    ):
        assert clf.state.chosen_at == 0
    assert "pinned" in str(layout.empty_like().report())
    few = MemoryClassifier(keep=100).partial_fit(X, y)
    assert isinstance(few.kernel_, PositionalHamming)
    assert hasattr(few.vote_, "labels_")


def test_weights_that_were_not_fitted_are_one_a_site() -> None:
    X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
    even = MemoryClassifier("positional", Exact(), LogLinear()).partial_fit(X, y)
    ones = MemoryClassifier("positional", Exact(), LogLinear(weights=[1, 1])).partial_fit(X, y)
    assert even.class_scores(X) == pytest.approx(ones.class_scores(X))


def test_models_that_chose_differently_are_merged_by_their_rows() -> None:
    X, y = table(400)
    whole = MemoryClassifier().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the weights of the two differ
        pairs: list[tuple[Any, Any]] = [({}, {}), ({}, {"keep": False}), ({"keep": False}, {})]
        for left, right in pairs:
            a = MemoryClassifier(**left).fit(X[:300], y[:300])
            b = MemoryClassifier("positional", **right).fit(X[300:], y[300:])
            both = a + b
            assert both.memory_.label_counts.sum() == 400
            assert both.sites_.positions == (b if right else a).sites_.positions
            assert (both.state.store is None) == (left != right)
        both = MemoryClassifier().fit(X[:300], y[:300]).merge(MemoryClassifier().partial_fit(X[300:], y[300:]))
        assert both.refit().digest() == whole.digest()
        assert whole.unmerge(MemoryClassifier().partial_fit(X[300:], y[300:])).refit().digest() == (
            MemoryClassifier().fit(X[:300], y[:300]).digest()
        )


def test_other_sites_without_rows_are_refused_with_every_way_out() -> None:
    X, y = table(300)
    chosen = MemoryClassifier(keep=False).fit(X, y)
    positions = MemoryClassifier("positional", keep=False).fit(X, y)
    assert chosen.sites_.positions != positions.sites_.positions
    for name in ("merge", "unmerge"):
        with pytest.raises(LayoutError) as refused:
            getattr(chosen, name)(positions)
        for way in ("empty_like()", "layout=", "kernel=a.kernel_", "hammemo fit"):
            assert way in str(refused.value)
    pinned = [MemoryClassifier().fit(*table(300, seed)).empty_like().partial_fit(X, y) for seed in (0, 5)]
    if pinned[0].sites_.positions != pinned[1].sites_.positions:
        with pytest.raises(LayoutError):
            pinned[0].merge(pinned[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen.merge(MemoryClassifier(kernel=chosen.kernel_).fit(X, y))
    assert chosen.memory_.label_counts.sum() == 600


def test_other_weights_are_one_warning_that_says_what_to_do() -> None:
    a, b = (MemoryClassifier("positional").fit(*table(300, seed)) for seed in (0, 1))
    with pytest.warns(UserWarning, match="fit_vote") as told:
        both = a + b
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a + a.snapshot()
        a + a.empty_like()
        a + MemoryClassifier("positional", Exact(), LogLinear(weights=[1] * 5)).fit(*table(300))
        both.refit()
    assert both.memory_.label_counts.sum() == 600


def test_a_large_automatic_memory_is_one_warning_that_names_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_warning, "WARNING_BYTES", 1000)
    monkeypatch.setattr(size_warning, "_FIRST_LOOK", 500)
    stream = np.random.default_rng(0).integers(0, 50, 2000)
    documents = [stream[start : start + 100] for start in range(0, 2000, 100)]
    with pytest.warns(UserWarning, match="Hashed") as told:
        MemoryClassifier().fit_stream(documents, h=2)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MemoryClassifier(memory="exact").fit_stream(documents, h=2)
        MemoryClassifier().fit_stream(documents[:2], h=2)


def test_in_ten_pieces_it_is_as_good_as_naive_bayes() -> None:
    from sklearn.naive_bayes import CategoricalNB

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1000)
    X = np.where(rng.random((1000, 6)) < 0.5, rng.integers(0, 5, (1000, 6)), y[:, None])
    clf = MemoryClassifier()
    for batch in np.array_split(np.arange(600), 10):
        clf.partial_fit(X[batch].astype(str), y[batch])
    bayes = CategoricalNB().fit(X[:600], y[:600])
    assert clf.score(X[600:].astype(str), y[600:]) > bayes.score(X[600:], y[600:]) - 0.02
