r"""Where values lie between the levels of their columns: between two knots, or at a name.

A number x between the knots k and k + 1 has the *hats*

.. math:: 1 - r \text{ at level } k, \qquad r \text{ at level } k + 1, \qquad
          r = \frac{x - x_k}{x_{k+1} - x_k},

in whole numbers of 1/1024.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints

HAT: Final = 1024
"""Shares of levels are whole numbers of 1/1024."""


class LevelPlaces(NamedTuple):
    """Where the values of a column lie.

    Parameters
    ----------
    levels : ndarray of int64, shape (m,)
        The level at or below each value; -1 for a value that lies at none.
    rights : ndarray of int64, shape (m,)
        How far each value lies to the right of its level, in 1/1024 of the way to the next one.
    """

    levels: Ints
    rights: Ints


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
    name_levels : ndarray of uint8, shape (columns of names, 256)
        The level of each byte of a name.
    sizes : ndarray of int64
        How many levels each column has.
    reach : int
        How far lines go on behind the outer knots, in 1/1024 of the last range.
    """

    knots: Floats
    starts: Ints
    has_missing: NDArray[np.uint8]
    name_levels: NDArray[np.uint8]
    sizes: Ints
    reach: int

    def locate(self, values: Floats, names: NDArray[np.uint8]) -> list[LevelPlaces]:
        """Return where the values of each ordered column lie, then the names of each other column.

        Shapes
        ------
        values : (m, ordered columns); names : (m, columns of names)
        """
        places: list[LevelPlaces] = []
        column_knots: list[Floats] = []
        if len(self.starts) > 1:
            column_knots = np.split(self.knots, self.starts[1:-1])
        columns = zip(column_knots, self.has_missing, values.T, strict=True)
        for knots, has_missing, column in columns:
            places.append(self._locate_numbers(column, knots, has_missing=bool(has_missing)))
        for levels, codes in zip(self.name_levels, names.T, strict=True):
            places.append(
                LevelPlaces(levels[codes].astype(np.int64), np.zeros(len(codes), np.int64))
            )
        return places

    def _locate_numbers(self, values: Floats, knots: Floats, *, has_missing: bool) -> LevelPlaces:
        is_missing = np.isnan(values)
        levels = np.full(len(values), -1)
        rights = np.zeros(len(values), np.int64)
        if len(knots):
            levels = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(knots) - 2)
            # halves, because the range of two knots may be too large for a number
            low = 0.5 * knots[levels]
            width = 0.5 * knots[levels + 1] - low
            halves = 0.5 * np.where(is_missing, knots[0], values)
            with np.errstate(over="ignore"):
                shares = (halves - low) / np.where(width > 0, width, 1.0) * HAT
            shares = np.where(width > 0, shares, 0.0)
            rights = np.rint(np.clip(shares, -self.reach, HAT + self.reach)).astype(np.int64)
        missing_level = len(knots) if has_missing else -1
        return LevelPlaces(
            levels=np.where(is_missing, missing_level, levels),
            rights=np.where(is_missing, 0, rights),
        )
