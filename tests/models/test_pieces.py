"""Learning in pieces and merging, with everything automatic."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from hammemo import AutoSites, Exact, LayoutError, LogLinear, MemoryClassifier, PositionalHamming
from hammemo.models import growing
from hammemo.models.settling import FIRST_BATCH


def table(n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, 5))
    return X, np.where(rng.random(n) < 0.9, (X[:, 0] + X[:, 1]) % 3, rng.integers(0, 3, n))


@pytest.mark.parametrize("kernel", ["auto", AutoSites()])
def test_the_first_batch_takes_positions_and_fits_weights_if_it_is_large(kernel: Any) -> None:
    X, y = table(FIRST_BATCH)
    large = MemoryClassifier(kernel).partial_fit(X, y)
    assert isinstance(large.kernel_, PositionalHamming)
    assert hasattr(large.vote_, "labels_")
    small = MemoryClassifier(kernel).partial_fit(X[1:], y[1:])
    assert not hasattr(small.vote_, "labels_")
    before = large.vote_.state()["site_weights"].tolist()
    assert large.partial_fit(X, y).vote_.state()["site_weights"].tolist() == before
    given = MemoryClassifier(kernel, vote=LogLinear()).partial_fit(X, y)
    assert not hasattr(given.vote_, "labels_")


def test_weights_that_were_not_fitted_are_one_a_site() -> None:
    X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
    even = MemoryClassifier("positional", Exact(), LogLinear()).partial_fit(X, y)
    ones = MemoryClassifier("positional", Exact(), LogLinear(weights=[1, 1])).partial_fit(X, y)
    assert even.class_scores(X) == pytest.approx(ones.class_scores(X))


def test_other_sites_are_refused_with_every_way_out() -> None:
    X, y = table(300)
    chosen, positions = MemoryClassifier().fit(X, y), MemoryClassifier().partial_fit(X, y)
    assert chosen.sites_.positions != positions.sites_.positions
    with pytest.raises(LayoutError) as refused:
        chosen.merge(positions)
    for way in ("empty_like()", "layout=", "kernel=a.kernel_", "hammemo fit"):
        assert way in str(refused.value)
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
    monkeypatch.setattr(growing, "WARNING_BYTES", 1000)
    monkeypatch.setattr(growing, "_FIRST_LOOK", 500)
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
        clf.partial_fit(X[batch], y[batch])
    bayes = CategoricalNB().fit(X[:600], y[:600])
    assert clf.score(X[600:], y[600:]) > bayes.score(X[600:], y[600:]) - 0.02
