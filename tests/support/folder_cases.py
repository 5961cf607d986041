"""What models in segments are tried with: kernels, tokens of every kind, and random examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import NO_TOKEN
from hammemo.kernels import PositionalHamming, SiteKernel, Suffixes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo import MemoryClassifier

KERNELS = {
    "positions": PositionalHamming(),
    "suffixes": Suffixes(3),
    "wide": SiteKernel([(0, 1, 2), (0,), (1, 2)]),
}
TOKENS = [1, 2, 5, 2.5, "a", "b", "é", NO_TOKEN]


def rows(n: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return n contexts of three tokens, and their labels."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, 3), object)
    for i, ranks in enumerate(rng.integers(0, len(TOKENS), (n, 3))):
        X[i] = [TOKENS[rank] for rank in ranks]
    labels = np.array(["x", "y", "z", "w"], object)
    return X, labels[rng.integers(0, 4, n)]


def assert_same(segmented: MemoryClassifier, plain: MemoryClassifier) -> None:
    """Check that both models answer all questions the same."""
    assert segmented.memory_.segmented is not None
    assert plain.memory_.segmented is None
    assert segmented.memory_.state_digest() == plain.memory_.state_digest()
    assert segmented.memory_.state_bytes() == plain.memory_.state_bytes()
    for queries in (rows(5, 99)[0], rows(40, 99)[0]):
        np.testing.assert_array_equal(segmented.class_scores(queries), plain.class_scores(queries))
        for model in (segmented, segmented.compile()):
            assert model.predict(queries).tolist() == plain.predict(queries).tolist()
        assert np.array_equal(segmented.top_k(queries, 3), plain.top_k(queries, 3))
        assert segmented.certify(queries).all()
    assert str(segmented.explain(queries[0])) == str(plain.explain(queries[0]))
