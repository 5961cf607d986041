"""How large errors are: trees of the absolute errors of unseen rows give a size, quantiles of error / size the rest.

It is a function of the rows that the vote was fitted to, and stays as it is until the vote is fitted again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.wide_sums import exact_sum
from hammemo._versions import cached_property
from hammemo.features.cells.choose_cells import GROWING_ROWS
from hammemo.features.cells.finite_sample import take_quantiles
from hammemo.features.cells.forest import (
    LEVELS,
    Forest,
    ForestRules,
    forest_arrays,
    grown_forest,
    out_of_bag,
    restored_forest,
)
from hammemo.features.cells.number_trees import (
    NumberCells,
    fitted_weights,
    leaf_sums,
    leaf_values,
    number_features,
    weighted,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints, Words

SIZE_TREES: Final = ForestRules(of_a_kind=8, are_numbers=True, least=LEVELS[1] // 2, first=1000)
_RIDGE: Final = 1e-4
LEAST_SIZE: Final = 0.2
"""A size is at least this share of the mean size."""
_MOST_ERRORS: Final = 1001
"""Quantiles that are kept; of fewer rows, all errors."""
_LARGEST: Final = 2**31 - 1


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

    @classmethod
    def chosen(
        cls, codes: NDArray[np.uint8], is_name: NDArray[np.uint8], errors: Floats, counts: Ints, words: Words, seed: int
    ) -> ErrorSizes:
        """Return the sizes for rows whose errors these are, in the order of their hashes.

        Shapes
        ------
        codes : (m, columns); errors, counts, words : (m,)
        """
        whole = np.minimum(np.rint(np.abs(errors)), _LARGEST).astype(np.int64)
        mean = exact_sum(whole, counts) // max(int(counts.sum()), 1)  # 31 bits, and up to 2^40 rows
        left, m = whole - mean, min(len(codes), GROWING_ROWS)
        columns = np.ascontiguousarray(codes[:m].T)
        forest = grown_forest(columns, is_name, left[:m], counts[:m], words[:m], len(columns), seed, SIZE_TREES)
        leaves = forest.leaves(codes)
        cells = NumberCells.empty(forest).changed(forest, leaves, left, counts)
        is_out = out_of_bag(forest, words, counts, int(words[m - 1]), SIZE_TREES.first)
        features = number_features(forest, leaves, is_out, cells, left)
        weights = fitted_weights(features, left, counts, _RIDGE)
        sizes = _bounded(float(max(mean, 1)), weighted(features, weights))
        values = np.ascontiguousarray(leaf_values(forest, cells, weights)[:, 0])
        return cls(float(max(mean, 1)), _quantiles(errors / sizes, counts), forest, values)

    def sizes(self, codes: NDArray[np.uint8]) -> Floats:
        """Return the size of the error of each row."""
        return _bounded(self.mean, self._leaf_sums(codes)[:, 0])

    @cached_property
    def _leaf_sums(self) -> Callable[[NDArray[np.uint8]], Floats]:
        return leaf_sums(self.forest, self.leaves[:, None])

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # what is cached is made again

    def at(self, levels: Floats) -> Floats:
        """Return the quantiles of error / size at these levels, which hold for one more row; the ends may be infinite.

        Of more than 1,001 rows, 1,001 evenly spaced errors take the place of all.
        """
        return take_quantiles(self.ratios, levels)

    def arrays(self) -> dict[str, Array]:
        """Return it as arrays."""
        return {
            "mean": np.array([self.mean]),
            "ratios": self.ratios,
            "leaves": self.leaves,
            **{f"trees.{name}": array for name, array in forest_arrays(self.forest).items()},
        }

    @classmethod
    def restored(cls, is_name: NDArray[np.uint8], stored: StoredArrays) -> ErrorSizes:
        """Return the sizes of a file, checked: undo `arrays`."""
        forest = restored_forest(is_name, stored.part("trees"), SIZE_TREES)
        mean = float(stored.finite("mean", "float64", (1,))[0])
        ratios = stored.finite("ratios", "float64", (None,))
        if mean < 1 or not 1 <= len(ratios) <= _MOST_ERRORS or (np.diff(ratios) < 0).any():
            raise ValueError("the sizes of its errors are impossible")
        return cls(mean, ratios, forest, stored.finite("leaves", "float64", (len(forest.column),)))


def _bounded(mean: float, more: Floats) -> Floats:
    return np.maximum(mean + more, LEAST_SIZE * mean)


def _quantiles(values: Floats, counts: Ints) -> Floats:
    """Return values at evenly spaced levels, of rows that occur so often."""
    order = np.argsort(values, kind="stable")
    upto, total = np.cumsum(counts[order]), int(counts.sum())
    n = min(total, _MOST_ERRORS)
    places = np.array([(i * (total - 1)) // max(n - 1, 1) for i in range(n)], np.int64)
    return values[order][np.searchsorted(upto, places, side="right")]
