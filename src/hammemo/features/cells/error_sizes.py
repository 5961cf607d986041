r"""How large errors are: a size for each row, and quantiles of error / size for all rows.

Trees of the absolute errors of unseen rows give the size of a row's error. With the quantiles
:math:`q_p` of the errors divided by their sizes, an error is at most

.. math:: q_p \, \operatorname{size}(x)

with the probability p. Both are functions of the rows that the vote was fitted to, and stay as they
are until the vote is fitted again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.wide_sums import exact_sum
from hammemo._versions import cached_property
from hammemo.features.cells.finite_sample import take_quantiles
from hammemo.features.cells.forest import LEVELS, Forest
from hammemo.features.cells.grow_forest import (
    GROWING_ROWS,
    ForestRules,
    grow_forest,
    mark_out_of_bag,
)
from hammemo.features.cells.number_cells import NumberCells
from hammemo.features.cells.number_trees import (
    compute_leaf_values,
    compute_number_features,
    fit_feature_weights,
    make_leaf_sums,
    sum_weighted,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints, Words

SIZE_TREES: Final = ForestRules(of_a_kind=8, are_numbers=True, least=LEVELS[1] // 2, first=1000)
"""How trees of error sizes are grown. Sizes are noisier than targets, so that leaves are larger;
and their numbers, from 1000 on, are those of no other tree, so that bags differ."""

_RIDGE: Final = 1e-4
"""The ridge of the weights of these trees, as a share of the squared sizes."""

LEAST_SIZE: Final = 0.2
"""A size is at least this share of the mean size."""

_MOST_RATIOS: Final = 1001
"""Ratios that are stored, at most: evenly spaced ones of more rows, all of fewer."""

_LARGEST: Final = 2**31 - 1
"""Larger errors are cut off: trees take numbers of 31 bits."""


@dataclass(frozen=True, eq=False)
class ErrorSizes:
    """The size of the error of a row, and the quantiles of errors divided by their sizes.

    Parameters
    ----------
    mean : float
        The mean absolute error.
    ratios : ndarray of float64
        Errors divided by their sizes at evenly spaced levels from 0 to 1, ascending.
    forest : Forest
        Trees of absolute errors.
    leaves : ndarray of float64, shape (nodes,)
        What each leaf adds to the mean.
    """

    mean: float
    ratios: Floats
    forest: Forest
    leaves: Floats

    def sizes(self, codes: NDArray[np.uint8]) -> Floats:
        """Return the size of the error of each row."""
        return _add_mean(self.mean, self._leaf_sums(codes)[:, 0])

    @cached_property
    def _leaf_sums(self) -> Callable[[NDArray[np.uint8]], Floats]:
        return make_leaf_sums(self.forest, self.leaves[:, None])

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # without caches

    def quantiles(self, levels: Floats) -> Floats:
        """Return the quantiles of error / size at these levels, which hold for one more row.

        The ends may be infinite. Of more than 1,001 rows, 1,001 evenly spaced ratios take the place
        of all.
        """
        return take_quantiles(self.ratios, levels)

    def arrays(self) -> dict[str, Array]:
        """Return the sizes as arrays."""
        return {
            "mean": np.array([self.mean]),
            "ratios": self.ratios,
            "leaves": self.leaves,
            **{f"trees.{name}": array for name, array in self.forest.arrays().items()},
        }

    @classmethod
    def from_stored(cls, is_name: NDArray[np.uint8], stored: StoredArrays) -> ErrorSizes:
        """Return the sizes of a file, checked: undo `arrays`."""
        forest = Forest.from_stored(is_name, stored.part("trees"), SIZE_TREES.of_a_kind)
        mean = float(stored.finite("mean", "float64", (1,))[0])
        ratios = stored.finite("ratios", "float64", (None,))
        if mean < 1 or not 1 <= len(ratios) <= _MOST_RATIOS or (np.diff(ratios) < 0).any():
            raise ValueError("the sizes of its errors are impossible")
        leaves = stored.finite("leaves", "float64", (len(forest.column),))
        return cls(mean, ratios, forest, leaves)


def fit_error_sizes(
    codes: NDArray[np.uint8],
    is_name: NDArray[np.uint8],
    *,
    errors: Floats,
    counts: Ints,
    words: Words,
    seed: int,
) -> ErrorSizes:
    """Return the sizes for rows whose errors these are, in the order of their hashes.

    Parameters
    ----------
    is_name : ndarray of uint8, shape (columns,)
        Whether each column of bytes holds names.
    counts, words : ndarray
        How often each row occurs, and its hash.

    Shapes
    ------
    codes : (m, columns); errors, counts, words : (m,)
    """
    # Absolute errors as whole numbers, and what their mean leaves of them.
    sizes = np.minimum(np.rint(np.abs(errors)), _LARGEST).astype(np.int64)
    mean = exact_sum(sizes, counts) // max(int(counts.sum()), 1)  # 31 bits, and up to 2^40 rows
    residuals = sizes - mean

    # Trees of these, grown by the first rows.
    m = min(len(codes), GROWING_ROWS)
    growing_codes = np.ascontiguousarray(codes[:m].T)
    forest = grow_forest(
        codes=growing_codes,
        is_name=is_name,
        targets=residuals[:m],
        counts=counts[:m],
        words=words[:m],
        n_plain=len(growing_codes),
        seed=seed,
        rules=SIZE_TREES,
    )

    # Their weights, by all rows.
    leaves = forest.leaves(codes)
    cells = NumberCells.empty(forest).with_rows(forest, leaves, residuals, counts)
    last_word = int(words[m - 1])
    is_out = mark_out_of_bag(forest, words, counts, last_word, first=SIZE_TREES.first)
    features = compute_number_features(forest, leaves, is_out, cells=cells, numbers=residuals)
    weights = fit_feature_weights(features, residuals, counts, _RIDGE)

    # Errors of rows divided by the sizes that trees give them which they did not grow.
    least_mean = float(max(mean, 1))
    ratios = errors / _add_mean(least_mean, sum_weighted(features, weights))
    leaf_values = np.ascontiguousarray(compute_leaf_values(forest, cells, weights)[:, 0])
    return ErrorSizes(least_mean, _thin_ratios(ratios, counts), forest, leaf_values)


def _add_mean(mean: float, differences: Floats) -> Floats:
    return np.maximum(mean + differences, LEAST_SIZE * mean)


def _thin_ratios(ratios: Floats, counts: Ints) -> Floats:
    """Return ratios at evenly spaced levels, of rows that occur so often."""
    order = np.argsort(ratios, kind="stable")
    upto = np.cumsum(counts[order])
    total = int(counts.sum())
    n = min(total, _MOST_RATIOS)
    places = np.array([(i * (total - 1)) // max(n - 1, 1) for i in range(n)], np.int64)
    return ratios[order][np.searchsorted(upto, places, side="right")]
