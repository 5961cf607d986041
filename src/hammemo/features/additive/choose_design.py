"""Which knots and names each column of an additive function has, chosen from rows.

Knots lie at round numbers near quantiles, so a row that comes or goes rarely moves one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.round_numbers import round_numbers
from hammemo.features.additive.design import (
    MAX_KNOTS,
    MAX_NAMES,
    AdditiveDesign,
    has_range,
)
from hammemo.features.additive.step_tables import BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints
    from hammemo.features.cells.column_codes import ColumnCodes

_MAX_COORDINATES: Final = 600
"""Coordinates of all columns together: a fit takes the cube of their number. So each column of a
wide table has fewer knots and names."""

_KNOT_ROWS: Final = 20_000
"""Rows whose quantiles are taken; those with the lowest hashes, which are a random sample."""

_BAND_ROWS: Final = 2
"""Rows on either side of a quantile, besides a tenth of those beyond it, among whose values a knot
may lie. So a row that comes or goes moves few knots."""

_LARGEST_SHARE: Final = 8
"""A single value counts as at most one eighth of the rows, so that it leaves knots to the
others."""

_KNOT_SHARES: Final = (
    (15, (1 / 128, 1 / 24, 1 / 12, 1 / 6, 1 / 4, 1 / 3, 5 / 12)),
    (11, (1 / 128, 1 / 24, 1 / 8, 1 / 4, 3 / 8)),
    (7, (1 / 128, 1 / 24, 1 / 4)),
    (2, (1 / 64,)),
)
"""By the most knots of a column, the shares of rows below its knots in the lower half; the upper
half mirrors them. A trial on rows left out chose these shares, and 15 as the most knots."""


def choose_design(
    codes: ColumnCodes, values: Floats, name_codes: NDArray[np.uint8], counts: Ints
) -> AdditiveDesign:
    """Return how columns become coordinates, chosen from distinct rows and their counts.

    The design has no pairs yet: a fit adds them.

    Shapes
    ------
    values : (m, ordered columns); name_codes : (m, columns of names); counts : (m,)
    """
    n_columns = values.shape[1] + name_codes.shape[1]
    max_of_a_column = max(2, _MAX_COORDINATES // max(n_columns, 1))
    max_column_knots = min(MAX_KNOTS, max_of_a_column)
    max_column_names = min(MAX_NAMES, max_of_a_column)
    knots = [
        choose_knots(column[:_KNOT_ROWS], counts[:_KNOT_ROWS], max_column_knots)
        for column in values.T
    ]
    return AdditiveDesign(
        knots=tuple(knots),
        has_missing=tuple(np.isnan(column).any() for column in values.T),
        names=tuple(_choose_names(column, counts, max_column_names) for column in name_codes.T),
        owners=codes.plain_owners(),
        pairs=np.empty((0, 2), np.int64),
    )


def choose_knots(values: Floats, counts: Ints, max_knots: int) -> Floats:
    """Return the distinct values where they are few, else round numbers near quantiles.

    More quantiles lie at the ends than in the middle (`_KNOT_SHARES`). A knot is the roundest
    binary number near its quantile; a value that fills this neighbourhood is a knot itself. A
    column without a range has no knots.
    """
    present = np.isfinite(values)
    distinct, ranks = np.unique(values[present], return_inverse=True)
    if len(distinct) <= max_knots:
        return distinct if has_range(distinct) else distinct[:0]

    # How many rows have at most each value. Sums of floats are exact: counts stay below 2^53.
    weights = np.bincount(ranks, weights=counts[present]).astype(np.int64)
    upto = np.cumsum(np.minimum(weights, max(1, int(weights.sum()) // _LARGEST_SHARE)))
    total = int(upto[-1])

    # The row at each quantile, at least `_BAND_ROWS` from the ends.
    below = np.array(next(shares for least, shares in _KNOT_SHARES if max_knots >= least))
    middle = [0.5] * (max_knots > 2)
    quantiles = np.maximum(total * np.concatenate([below, middle, 1 - below[::-1]]), 1 + _BAND_ROWS)
    quantiles = np.minimum(quantiles, total - _BAND_ROWS)

    # The first and the last value within a tenth of the rows beyond the quantile, and a round
    # number between them.
    band = 0.1 * np.minimum(quantiles, total - quantiles) + _BAND_ROWS
    first = np.searchsorted(upto, np.maximum(quantiles - band, 1).astype(np.int64))
    last = np.searchsorted(upto, np.minimum(quantiles + band, total).astype(np.int64))
    above = distinct[np.maximum(last, first + 1) % len(distinct)]
    rounded = round_numbers(distinct[first], above)
    knots = np.unique(np.where(first == last, distinct[first], rounded))
    return knots if has_range(knots) else distinct[[0, -1]]


def _choose_names(codes: NDArray[np.uint8], counts: Ints, max_names: int) -> NDArray[np.uint8]:
    """Return the most frequent bytes of names; ties are broken by the byte, which is a hash.

    Byte 0, which stands for all other names, is left out.
    """
    totals = np.bincount(codes, weights=counts, minlength=BYTES).astype(np.int64)
    totals[0] = 0
    order = np.lexsort((np.arange(BYTES), -totals))[:max_names]
    return order[totals[order] > 0].astype(np.uint8)
