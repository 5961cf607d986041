r"""Random codes as pure functions: nothing is drawn in order, so nothing needs to be exchanged or stored.

The paper's Gaussian codes for token x, label c and projection W, with S sites of dimension :math:`d_h` and
:math:`p = S d_h`:

.. math:: u_x, z_c \sim \mathcal N(0, I_d / d), \qquad W_{ij} \sim \mathcal N(0, 1 / p).

Entry i of the code of a feature is the i-th number of a Philox stream whose key comes from (seed, family) and whose
counter comes from the feature, put through the inverse of the normal distribution function (NumPy does not promise that
its own normal streams stay the same). Any process that knows the seed has every code, also that of a token nobody has
seen yet. Codes are rounded to float32; only the projected codes W u are kept, never all of U.
"""

from __future__ import annotations

from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from hammemo.hashing import Feature, feature_words, key_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

_CHUNK_NUMBERS = 2**20


def standard_normals(key: tuple[int, int], words: Sequence[tuple[int, int, int]], size: int) -> NDArray[np.float64]:
    """Return rows of independent standard normal numbers; a row depends on nothing but the key and its words.

    Shapes
    ------
    words : n triples; returned : (n, size)

    Examples
    --------
    >>> from hammemo.codes import standard_normals
    >>> standard_normals((1, 2), [(3, 0, 0)], 3).round(6)
    array([[...]])
    """
    generator = np.random.Philox(key=np.array(key, np.uint64))
    state = generator.state
    raw = np.empty((len(words), size), np.uint64)
    for row, counter in zip(raw, words, strict=True):
        state["state"]["counter"] = np.array([0, *counter], np.uint64)
        generator.state = state  # far cheaper than a new generator, which would ask the system for entropy
        row[:] = generator.random_raw(size)
    uniform = ((raw >> np.uint64(11)) + 0.5) * 2.0**-53  # strictly between 0 and 1
    return np.asarray(ndtri(uniform), np.float64)


class GaussianCodes:
    """The paper's input codes, output codes and projection for one seed.

    Parameters
    ----------
    seed : int
    d : int
        Dimension of token and label codes.
    d_h : int
        Dimension of a projected token code.
    n_sites : int
        Blocks of a context's code; the paper's h.
    tied : bool
        Whether a label's output code is its input code as a token.

    Examples
    --------
    >>> from hammemo.codes import GaussianCodes
    >>> codes = GaussianCodes(seed=0, d=256, d_h=32, n_sites=8)
    >>> codes.inputs(["cat", 7]).shape, codes.projected(["cat", 7]).shape
    ((2, 256), (2, 32))
    >>> bool((codes.inputs(["cat"]) == GaussianCodes(0, 256, 32, 8).inputs(["cat"])).all())
    True
    """

    def __init__(self, seed: int, d: int, d_h: int, n_sites: int, tied: bool = False) -> None:
        self.seed = seed
        self.d = d
        self.d_h = d_h
        self.n_sites = n_sites
        self.tied = tied

    def inputs(self, features: Sequence[Feature]) -> NDArray[np.float32]:
        """Return the code u of each feature.

        Shapes
        ------
        features : n of them; returned : (n, d)
        """
        return self._family("input", features)

    def outputs(self, labels: Sequence[Feature]) -> NDArray[np.float32]:
        """Return the code z of each label.

        Shapes
        ------
        labels : L of them; returned : (L, d)
        """
        return self._family("input" if self.tied else "output", labels)

    @cached_property
    def projection(self) -> NDArray[np.float32]:
        """The projection W, of shape (d_h, d)."""
        key = key_words(self.seed, "projection")
        rows = [(i, 0, 0) for i in range(self.d_h)]
        return _scaled_normals(key, rows, self.d, np.sqrt(self.n_sites * self.d_h))

    def projected(self, features: Sequence[Feature]) -> NDArray[np.float32]:
        """Return W u of each feature, without ever holding more than a few thousand codes u.

        Shapes
        ------
        features : n of them; returned : (n, d_h)
        """
        result = np.empty((len(features), self.d_h), np.float32)
        projection = self.projection.T.astype(np.float64)
        step = max(1, _CHUNK_NUMBERS // self.d)
        for start in range(0, len(features), step):
            result[start : start + step] = self.inputs(features[start : start + step]) @ projection
        return result

    def _family(self, name: str, features: Sequence[Feature]) -> NDArray[np.float32]:
        words = [feature_words(feature) for feature in features]
        return _scaled_normals(key_words(self.seed, name), words, self.d, np.sqrt(self.d))


def _scaled_normals(
    key: tuple[int, int], words: Sequence[tuple[int, int, int]], size: int, divisor: float
) -> NDArray[np.float32]:
    """Return rows of normal numbers divided by `divisor`, in parts that bound the memory needed."""
    scaled = np.empty((len(words), size), np.float32)
    step = max(1, _CHUNK_NUMBERS // size)
    for start in range(0, len(words), step):
        scaled[start : start + step] = standard_normals(key, words[start : start + step], size) / divisor
    return scaled


class CodeCache:
    """Codes that were computed before, found by feature. Only a cache: dropping it changes no result.

    Parameters
    ----------
    compute : callable
        From a list of features to an array of one row each.
    width : int
        Length of a row.
    """

    def __init__(self, compute: Callable[[Sequence[Feature]], NDArray[np.float32]], width: int) -> None:
        self._compute = compute
        self._index: dict[Feature, int] = {}
        self._rows = np.empty((0, width), np.float32)

    @classmethod
    def holding(
        cls,
        features: Sequence[Feature],
        rows: NDArray[np.float32],
        compute: Callable[[Sequence[Feature]], NDArray[np.float32]],
    ) -> CodeCache:
        """Return a cache that holds these codes of distinct features already."""
        cache = cls(compute, rows.shape[1])
        cache._index, cache._rows = {feature: i for i, feature in enumerate(features)}, rows
        return cache

    def features(self) -> list[Feature]:
        """Return the features whose codes are held, in the order of `rows`."""
        return list(self._index)

    @property
    def rows(self) -> NDArray[np.float32]:
        """The codes that are held."""
        return self._rows[: len(self._index)]

    def get(self, features: Sequence[Feature], *, keep: bool = False) -> NDArray[np.float32]:
        """Return the codes of distinct features; those that are not held are computed and, if asked, kept.

        Shapes
        ------
        features : n of them; returned : (n, width)
        """
        index = np.fromiter(map(self._index.get, features, repeat(-1)), np.int64, len(features))
        held = index >= 0
        if held.all():
            return self._rows[index]
        missing = [feature for feature, known in zip(features, held, strict=True) if not known]
        codes = np.empty((len(features), self._rows.shape[1]), np.float32)
        codes[held] = self._rows[index[held]]
        codes[~held] = self._compute(missing)
        if keep:
            self._append(missing, codes[~held])
        return codes

    def _append(self, features: list[Feature], codes: NDArray[np.float32]) -> None:
        size = len(self._index)
        needed = size + len(features)
        if needed > len(self._rows):  # at least double, so that growing one by one stays linear
            larger = np.empty((max(needed, 2 * len(self._rows)), self._rows.shape[1]), np.float32)
            larger[:size] = self.rows
            self._rows = larger
        self._rows[size:needed] = codes
        self._index.update(zip(features, range(size, needed), strict=True))
