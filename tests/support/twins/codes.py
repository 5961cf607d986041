"""Cuts of columns, and the bytes of rows: the twins of the loops in ``src/native/trees``."""

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
"""Rows by which the middle of a range is wider on each side, so that short ranges have one, too."""


def halve_ranges(column: CountedValues, most: int, least: int, band: float) -> Floats:
    """Return the cuts at their places, NaN elsewhere.

    A cut divides a range of distinct values, and the places for its cuts, in two. A range is
    divided if it has two values, `least` rows and a place.
    """
    distinct, upto = column
    ends = np.append(0, upto)
    cuts = np.full(most, np.nan)
    open_ranges = [
        (0, len(distinct), 0, most)
    ]  # values from low to high, places from first to last
    while open_ranges:
        low, high, first, last = open_ranges.pop()
        if high - low < 2 or ends[high] - ends[low] < least or first == last:
            continue
        below, above = _find_middle(upto, ends, low, high, band=band)
        cut = float(round_numbers(distinct[[below]], distinct[[above]])[0])
        middle = int(np.searchsorted(distinct, cut))
        # The place is the middle one, unless one side has fewer values than places: k values take
        # k - 1 cuts. Then the place is moved towards that side.
        most_left = first + (middle - low) - 1
        least_left = last - (high - middle)
        place = (first + last) // 2
        place = max(place, min(most_left, least_left))
        place = min(place, max(most_left, least_left))
        cuts[place] = cut
        open_ranges.append((low, middle, first, place))
        open_ranges.append((middle, high, place + 1, last))
    return cuts


def _find_middle(upto: Ints, ends: Ints, low: int, high: int, *, band: float) -> tuple[int, int]:
    """Return two places of values: a cut between them divides the rows of a range nearly evenly.

    Shapes
    ------
    upto : (d,), rows up to each value; ends : (d + 1,), a zero and then these
    """
    base = ends[low]
    n_rows = ends[high] - base
    band_start = max(int((0.5 - band) * n_rows) - _BAND_ROWS, 1)
    band_end = min(int((0.5 + band) * n_rows) + _BAND_ROWS, n_rows)
    first = int(np.searchsorted(upto, base + band_start))
    last = int(np.searchsorted(upto, base + band_end))
    if first == last and first > low:
        # one value fills the middle: the cut is on its side that divides the rows more evenly
        rows_before = ends[first] - base
        rows_after = ends[high] - ends[first + 1]
        if rows_before >= rows_after or first + 1 == high:
            first = first - 1
    return first, max(last, first + 1)


def code_rows(codes: ColumnCodes, values: Floats, names: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the bytes of rows, as `ColumnCodes.rows` does.

    Shapes
    ------
    values : (m, ordered columns); names : (m, columns of names); returned : (m, columns)
    """
    steps = [_find_steps(cuts, column) for cuts, column in zip(codes.cuts, values.T, strict=True)]
    columns = [*steps, *names.T]
    for first, second in codes.pairs.tolist():
        difference = steps[first].astype(np.int64) - steps[second].astype(np.int64)
        is_present = (steps[first] > 0) & (steps[second] > 0)
        step = 1 + np.searchsorted(DIFFERENCE_CUTS, difference, side="right")
        columns.append(np.where(is_present, step, 0).astype(np.uint8))
    by_column = np.array(columns, np.uint8).reshape(len(codes.is_name), len(values))
    return np.ascontiguousarray(by_column.T)


def _find_steps(cuts: Floats, values: Floats) -> NDArray[np.uint8]:
    """Return the step of each value, 0 where it is missing."""
    steps = 1 + np.searchsorted(cuts, values, side="right")
    return np.where(np.isnan(values), 0, steps).astype(np.uint8)
