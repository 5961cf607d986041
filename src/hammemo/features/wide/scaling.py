r"""Numbers of a wide table in the units of their columns, as whole numbers.

.. math:: z_{ij} = \operatorname{round}\bigl( 256 \, (v_{ij} - c_j) / s_j \bigr)

The spread s is the standard deviation of the column. The center c is the mean, or zero where
most numbers of the column are zero, so that a sparse column stays sparse; a constant that is
fitted beside the columns makes up for it. Missing numbers have z = 0. As whole numbers, sums of
products are exact in float64 (`WHOLE_BITS`), whatever the order: matrix products of BLAS give
the same bytes on every processor.
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
"""Bits of the scaled numbers: up to 64 standard deviations. Products with numbers of 20 bits
have 34, so 2^19 of them have a sum below 2^53."""
_LARGEST: Final = float(2**WHOLE_BITS)
_SMALLEST_SPREAD: Final = 1e-12
"""Of the largest number of a column, below which the column counts as constant: what is left are
errors of rounding."""
_DENSE_SHARE: Final = 1 / 8
"""The share of entries from which on an array is not larger than a few times the sparse matrix,
and much faster."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """The units of some columns.

    Parameters
    ----------
    columns : ndarray of int32, shape (q,)
        Which columns, ascending.
    exponents : ndarray of int16, shape (q,)
        The largest number of each column is below 2^exponent; center and factor are those of
        numbers divided by this.
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
        # Numbers are divided by a power of two above the largest of their column, so that sums of
        # squares do not overflow.
        n_columns = entries.n_columns
        columns = entries.columns
        sizes = np.zeros(n_columns)
        is_missing = np.isnan(entries.values)
        values = np.where(is_missing, 0.0, entries.values)
        np.maximum.at(sizes, columns, np.abs(values))
        exponents = np.frexp(sizes)[1]
        reduced = np.ldexp(values, -exponents[columns])

        # How many rows have an entry of each column, a missing one, and none, which is a zero.
        weights = np.repeat(counts, np.diff(entries.starts)).astype(np.float64)
        present_weights = np.where(is_missing, 0.0, weights)
        n_missing = np.bincount(columns, weights=weights * is_missing, minlength=n_columns)
        n_entries = np.bincount(columns, weights=present_weights, minlength=n_columns)
        n_present = counts.sum() - n_missing
        n_zero = n_present - n_entries
        divisors = np.maximum(n_present, 1)

        # Means and standard deviations, the zeros counted.
        sums = np.bincount(columns, weights=present_weights * reduced, minlength=n_columns)
        means = sums / divisors
        deviations = present_weights * (reduced - means[columns]) ** 2
        squares = np.bincount(columns, weights=deviations, minlength=n_columns)
        spreads = np.sqrt((squares + n_zero * means**2) / divisors)
        chosen = np.flatnonzero(spreads > _SMALLEST_SPREAD)
        centers = np.where(2 * n_zero > n_present, 0.0, means)
        return cls(
            columns=chosen.astype(np.int32),
            exponents=exponents[chosen].astype(np.int16),
            centers=centers[chosen],
            factors=UNIT / spreads[chosen],
        )

    @property
    def of_zero(self) -> Floats:
        """What zeros of each column become."""
        return self._scale(np.zeros(len(self.columns)), np.arange(len(self.columns)))

    def take(self, chosen: Ints) -> Scaling:
        """Return the units of some of the columns."""
        return Scaling(
            columns=self.columns[chosen],
            exponents=self.exponents[chosen],
            centers=self.centers[chosen],
            factors=self.factors[chosen],
        )

    def differences(self, entries: NumberEntries) -> sparse.csr_array:
        """Return what rows have in excess of `of_zero`: whole numbers, (m, q)."""
        place_of_column = np.full(entries.n_columns, -1, np.int64)
        place_of_column[self.columns] = np.arange(len(self.columns))
        places = place_of_column[entries.columns]
        is_scaled = places >= 0
        places = places[is_scaled]
        values = entries.values[is_scaled]
        is_missing = np.isnan(values)
        scaled = self._scale(np.where(is_missing, 0.0, values), places)
        scaled = np.where(is_missing, 0.0, scaled)
        starts = np.concatenate([[0], np.cumsum(is_scaled)])[entries.starts]
        shape = (entries.n_rows, len(self.columns))
        return sparse.csr_array((scaled - self.of_zero[places], places, starts), shape=shape)

    def matrix(self, entries: NumberEntries) -> Any:
        """Return rows in these units, (m, q).

        It is an array where that is not much larger than a sparse matrix.
        """
        differences = self.differences(entries)
        of_zero = self.of_zero
        m, q = differences.shape
        if not of_zero.any() and differences.nnz < _DENSE_SHARE * m * max(q, 1):
            return differences
        return self._add_zeros(differences, of_zero)

    def _add_zeros(self, differences: sparse.csr_array, of_zero: Floats) -> Any:
        """Return differences with what zeros become added.

        Columns with a center become dense, since most rows have entries.
        """
        m, q = differences.shape
        places = np.flatnonzero(of_zero)
        n_centered = len(places)
        if differences.nnz + m * n_centered < _DENSE_SHARE * m * q:
            entries = (np.tile(of_zero[places], m), np.tile(places, m))
            starts = np.arange(m + 1) * n_centered
            constant = sparse.csr_array((*entries, starts), shape=(m, q))
            return sparse.csr_array(differences + constant)
        dense = differences.toarray()
        dense += of_zero
        return dense

    def _scale(self, values: Floats, places: Ints) -> Floats:
        """Return numbers of the columns at these places in units, as whole numbers."""
        reduced = np.ldexp(values, -self.exponents[places].astype(np.int64))
        scaled = (reduced - self.centers[places]) * self.factors[places]
        # zero is added so that no zero is negative
        return np.asarray(np.clip(np.rint(scaled), -_LARGEST, _LARGEST) + 0.0)
