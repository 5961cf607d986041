r"""Numbers of a wide table in the units of their columns, as whole numbers.

.. math:: z_{ij} = \operatorname{round}\bigl( 256 \, (v_{ij} - c_j) / s_j \bigr)

The spread s is the standard deviation of the column. The center c is the mean, or zero where most numbers of the column
are zero, so that a sparse column stays sparse; a constant that is fitted beside the columns makes up for it. Missing
numbers have z = 0. As whole numbers, sums of products are exact in float64 (`WHOLE_BITS`), whatever the order: matrix
products of BLAS give the same bytes on every processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints
    from hammemo.tokens.packed_rows import NumberEntries

UNIT: Final = 256
"""Parts of a standard deviation."""
WHOLE_BITS: Final = 14
"""Bits of the scaled numbers: up to 64 standard deviations. Products with numbers of 20 bits have 34, so 2^19 of them
have a sum below 2^53."""
_LARGEST: Final = float(2**WHOLE_BITS)
_SMALLEST_SPREAD: Final = 1e-12
"""Of the largest number of a column, below which the column counts as constant: what is left are errors of rounding."""
_DENSE_SHARE: Final = 1 / 8
"""The share of entries from which on an array is not larger than a few times the sparse matrix, and much faster."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """The units of some columns.

    Parameters
    ----------
    columns : ndarray of int32, shape (q,)
        Which columns, ascending.
    exponents : ndarray of int16, shape (q,)
        The largest number of each column is below 2^exponent; center and factor are those of numbers divided by this.
    centers, factors : ndarray of float64, shape (q,)
    """

    columns: Ints
    exponents: Ints
    centers: Floats
    factors: Floats

    @classmethod
    def from_rows(cls, entries: NumberEntries, counts: Ints) -> Scaling:
        """Return the units of all columns that are not constant, by rows that occur so often.

        Sums are added in the order of the rows, which the caller has sorted.
        """
        n_columns, columns = entries.n_columns, entries.columns
        sizes = np.zeros(n_columns)
        is_missing = np.isnan(entries.values)
        values = np.where(is_missing, 0.0, entries.values)
        np.maximum.at(sizes, columns, np.abs(values))
        exponents = np.frexp(sizes)[1]
        weights = np.repeat(counts, np.diff(entries.starts)).astype(np.float64)
        held = np.where(is_missing, 0.0, weights)
        reduced = np.ldexp(values, -exponents[columns])
        n_missing = np.bincount(columns, weights=weights * is_missing, minlength=n_columns)
        n_held = np.bincount(columns, weights=held, minlength=n_columns)
        n_present = counts.sum() - n_missing
        n_zero = n_present - n_held
        least = np.maximum(n_present, 1)
        means = np.bincount(columns, weights=held * reduced, minlength=n_columns) / least
        squares = np.bincount(columns, weights=held * (reduced - means[columns]) ** 2, minlength=n_columns)
        spreads = np.sqrt((squares + n_zero * means**2) / least)
        chosen = np.flatnonzero(spreads > _SMALLEST_SPREAD)
        centers = np.where(2 * n_zero > n_present, 0.0, means)
        return cls(chosen.astype(np.int32), exponents[chosen].astype(np.int16), centers[chosen], UNIT / spreads[chosen])

    @property
    def of_zero(self) -> Floats:
        """What zeros of each column become."""
        return self._whole(np.zeros(len(self.columns)), np.arange(len(self.columns)))

    def take(self, chosen: Ints) -> Scaling:
        """Return the units of some of the columns."""
        return Scaling(self.columns[chosen], self.exponents[chosen], self.centers[chosen], self.factors[chosen])

    def differences(self, entries: NumberEntries) -> sparse.csr_array:
        """Return what rows have in excess of `of_zero`: whole numbers, (m, q)."""
        place = np.full(entries.n_columns, -1, np.int64)
        place[self.columns] = np.arange(len(self.columns))
        at = place[entries.columns]
        is_used = at >= 0
        at = at[is_used]
        values = entries.values[is_used]
        whole = np.where(np.isnan(values), 0.0, self._whole(np.where(np.isnan(values), 0.0, values), at))
        ends = np.concatenate([[0], np.cumsum(is_used)])[entries.starts]
        shape = (len(entries), len(self.columns))
        return sparse.csr_array((whole - self.of_zero[at], at, ends), shape=shape)

    def matrix(self, entries: NumberEntries) -> Any:
        """Return rows in these units, (m, q): an array where that is not much larger than a sparse matrix."""
        found = self.differences(entries)
        of_zero = self.of_zero
        if not of_zero.any() and found.nnz < _DENSE_SHARE * found.shape[0] * max(found.shape[1], 1):
            return found
        return self._with_zeros(found, of_zero)

    def _with_zeros(self, found: sparse.csr_array, of_zero: Floats) -> Any:
        """Return differences with what zeros become: columns with a center are dense, since most rows have entries."""
        m, q = found.shape
        n_centered = int((of_zero != 0).sum())
        if found.nnz + m * n_centered < _DENSE_SHARE * m * q:
            places = np.flatnonzero(of_zero)
            constant = sparse.csr_array(
                (np.tile(of_zero[places], m), np.tile(places, m), np.arange(m + 1) * len(places)), shape=(m, q)
            )
            return sparse.csr_array(found + constant)
        dense = found.toarray()
        dense += of_zero
        return dense

    def _whole(self, values: Floats, at: Ints) -> Floats:
        """Return numbers of the columns at these places in units, as whole numbers."""
        scaled = (np.ldexp(values, -self.exponents[at].astype(np.int64)) - self.centers[at]) * self.factors[at]
        return np.asarray(np.clip(np.rint(scaled), -_LARGEST, _LARGEST) + 0.0)
