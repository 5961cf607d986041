"""The twins of the compiled codes (``src/native/trees``): cuts of columns, and the bytes of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.round_numbers import round_numbers
from hammemo.features.cells.column_codes import DIFFERENCE_CUTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints
    from hammemo.features.cells.column_codes import ColumnCodes, CountedValues

_BAND_ROWS = 2


def halved_cuts(column: CountedValues, most: int, least: int, band: float) -> Floats:
    """Return the cuts at their places, NaN elsewhere."""
    distinct, upto = column
    ends, found = np.append(0, upto), np.full(most, np.nan)
    low, high, first, last = np.array([[0], [len(distinct)], [0], [most]])  # values, and places, of each range
    while len(low):
        divided = (high - low > 1) & (ends[high] - ends[low] >= least) & (last > first)
        low, high, first, last = low[divided], high[divided], first[divided], last[divided]
        cuts = round_numbers(*distinct[_middle_values(upto, ends, low, high, band)])
        middle = np.searchsorted(distinct, cuts)
        room = np.sort([first + (middle - low) - 1, last - (high - middle)], axis=0)
        place = np.clip((first + last) // 2, *room)
        found[place] = cuts
        low, high = np.append(low, middle), np.append(middle, high)
        first, last = np.append(first, place + 1), np.append(place, last)
    return found


def _middle_values(upto: Ints, ends: Ints, low: Ints, high: Ints, band: float) -> Ints:
    """Return, for ranges of distinct values, the two values between which a cut divides the rows nearly evenly.

    Shapes
    ------
    upto : (d,), rows up to each value; ends : (d + 1,), a zero and then these; low, high : (r,); returned : (2, r)
    """
    base, whole = ends[low], ends[high] - ends[low]
    first = np.searchsorted(upto, base + np.maximum(((0.5 - band) * whole).astype(np.int64) - _BAND_ROWS, 1))
    last = np.searchsorted(upto, base + np.minimum(((0.5 + band) * whole).astype(np.int64) + _BAND_ROWS, whole))
    before, behind = ends[first] - base, ends[high] - ends[first + 1]
    is_left = (first == last) & (first > low) & ((before >= behind) | (first + 1 == high))
    first = first - is_left  # one value fills the middle: the cut is on its side that divides the rows more evenly
    return np.stack([first, np.maximum(last, first + 1)])


def coded(codes: ColumnCodes, values: Floats, names: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the bytes of rows, as `ColumnCodes.coded` does.

    Shapes
    ------
    values : (m, ordered columns); names : (m, columns of names); returned : (m, columns)
    """
    steps = [_steps(cuts, column) for cuts, column in zip(codes.cuts, values.T, strict=True)]
    found = [*steps, *names.T]
    for first, second in codes.pairs.tolist():
        difference = steps[first].astype(np.int64) - steps[second].astype(np.int64)
        present = (steps[first] > 0) & (steps[second] > 0)
        step = 1 + np.searchsorted(DIFFERENCE_CUTS, difference, side="right")
        found.append(np.where(present, step, 0).astype(np.uint8))
    return np.ascontiguousarray(np.array(found, np.uint8).reshape(len(codes.is_name), len(values)).T)


def _steps(cuts: Floats, values: Floats) -> NDArray[np.uint8]:
    """Return the step of each value, 0 where it is missing."""
    return np.where(np.isnan(values), 0, 1 + np.searchsorted(cuts, values, side="right")).astype(np.uint8)
