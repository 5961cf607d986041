"""Where values lie between the levels of their columns: between two knots, or at a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Floats, Ints

HAT: Final = 1024
"""Shares of levels are whole numbers of 1/1024."""


class Levels(NamedTuple):
    """How the columns of a table become levels.

    Parameters
    ----------
    knots : ndarray of float64
        Those of all ordered columns.
    starts : ndarray of int64, shape (ordered columns + 1,)
        Where the knots of each ordered column start, and the end.
    has_missing : ndarray of uint8
        For each ordered column, whether missing values have a level.
    of_names : ndarray of uint8, shape (columns of names, 256)
        The level of each byte of a name.
    sizes : ndarray of int64
        How many levels each column has.
    reach : int
        How far lines go on behind the outer knots, in 1/1024 of the last range.
    """

    knots: Floats
    starts: Ints
    has_missing: NDArray[np.uint8]
    of_names: NDArray[np.uint8]
    sizes: Ints
    reach: int

    def places(self, values: Floats, names: NDArray[np.uint8]) -> list[tuple[Array, Array]]:
        """Return, for each column, the level of each row, -1 for none, and how far it lies to the right, in 1/1024."""
        found: list[tuple[Array, Array]] = []
        of_columns = np.split(self.knots, self.starts[1:-1]) if len(self.starts) > 1 else []
        for knots, has_missing, x in zip(of_columns, self.has_missing, values.T, strict=True):
            gone = np.isnan(x)
            level, right = np.full(len(x), -1), np.zeros(len(x), np.int64)
            if len(knots):
                level = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
                low, high = 0.5 * knots[level], 0.5 * knots[level + 1]
                width = high - low
                with np.errstate(over="ignore"):
                    share = (0.5 * np.where(gone, knots[0], x) - low) / np.where(width > 0, width, 1.0) * HAT
                share = np.where(width > 0, share, 0.0)
                right = np.rint(np.clip(share, -self.reach, HAT + self.reach)).astype(np.int64)
            found.append((np.where(gone, len(knots) if has_missing else -1, level), np.where(gone, 0, right)))
        for levels, codes in zip(self.of_names, names.T, strict=True):
            found.append((levels[codes].astype(np.int64), np.zeros(len(codes), np.int64)))
        return found
