r"""Linear scores of wide rows: one for each label, or one that predicts a number.

Two labels have one score, that of the second one.

.. math:: f(x) = b + \sum_j w_j z_j(x)

Scaled numbers and coefficients are whole, so scores are, too: they do not depend on the
processor, nor on the rows that are scored together. There are coefficients fitted to all rows,
and *crossed* ones for each fold, fitted without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.wide.scaling import Scaling

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.tokens.packed_rows import NumberEntries

COEFFICIENT_BITS: Final = 18
"""Bits of coefficients. With 2 bits more for crossed sums, and 15 of differences of scaled
numbers, 2^18 products have a sum below 2^53."""
MOST_USED: Final = 2**18
"""The most columns of a linear function."""

_MOST_CONSTANT: Final = 2**52
"""The largest constant of a file, in its unit: sums with it are exact in float64."""

_MOST_EXPONENT: Final = 1000
"""The largest exponent of a unit in a file: 2^1000 is a number."""

_MOST_COLUMN_EXPONENT: Final = 1100
"""The largest exponent of a column in a file: that of the smallest number is -1074."""


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Linear functions of the columns of a wide table.

    Parameters
    ----------
    scaling : Scaling
        Of the q columns that are used.
    coefficients : ndarray of int32, shape (1 + FOLDS, q, outputs)
        Fitted to all rows, and without each fold.
    constants : ndarray of int64, shape (1 + FOLDS, outputs)
    exponent : int
        Whole-number scores are parts of 2^-exponent.
    """

    scaling: Scaling
    coefficients: Ints
    constants: Ints
    exponent: int

    @property
    def outputs(self) -> int:
        """How many scores there are."""
        return int(self.coefficients.shape[2])

    def scores(self, entries: NumberEntries) -> Floats:
        """Return the scores by all rows: (m, outputs)."""
        return self._scores(entries, 0)

    def scores_without_folds(self, entries: NumberEntries, folds: Ints) -> Floats:
        """Return the scores of rows in these folds, by the functions without their folds.

        Shapes
        ------
        folds : (m,); returned : (m, outputs)
        """
        scores = np.zeros((len(entries), self.outputs))
        for fold in range(FOLDS):
            places = np.flatnonzero(folds == fold)
            if len(places):
                scores[places] = self._scores(entries.take(places), 1 + fold)
        return scores

    def _scores(self, entries: NumberEntries, number: int) -> Floats:
        """Return the scores by one of the functions: 0 for all rows, then one for each fold."""
        coefficients = self.coefficients[number]
        zeros = self.scaling.of_zero.astype(np.int64) @ coefficients.astype(np.int64)
        differences = self.scaling.differences(entries) @ coefficients.astype(np.float64)
        return np.asarray(np.ldexp(differences + (zeros + self.constants[number]), -self.exponent))

    def shares(self, entries: NumberEntries) -> list[tuple[Ints, Floats]]:
        """Return, for each row, the columns that differ from their center, and what each adds.

        Shapes
        ------
        returned : for each row, (columns,), (columns, outputs)
        """
        coefficients = np.ldexp(self.coefficients[0].astype(np.float64), -self.exponent)
        of_zero = self.scaling.of_zero
        rows = self.scaling.differences(entries)
        shares = []
        for first, last in pairwise(rows.indptr.tolist()):
            scaled = of_zero.copy()
            scaled[rows.indices[first:last]] += rows.data[first:last]
            places = np.flatnonzero(scaled)
            columns = self.scaling.columns[places].astype(np.int64)
            shares.append((columns, scaled[places, None] * coefficients[places]))
        return shares

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        return {
            "columns": self.scaling.columns,
            "exponents": self.scaling.exponents,
            "centers": self.scaling.centers,
            "factors": self.scaling.factors,
            "coefficients": self.coefficients,
            "constants": self.constants,
        }

    @classmethod
    def from_stored(
        cls, exponent: Any, outputs: int, n_columns: int, stored: StoredArrays
    ) -> LinearScores:
        """Return the functions of a file for tables of so many columns, checked: undo `arrays`."""
        columns = stored.take("columns", "int32", (None,))
        q = len(columns)
        is_ascending = bool((np.diff(columns) > 0).all())
        is_in_table = q == 0 or 0 <= columns[0] <= columns[-1] < n_columns
        if q > MOST_USED or not is_ascending or not is_in_table:
            raise ValueError(
                "the columns of its linear scores are not ascending, or not in the table"
            )
        scaling = Scaling(
            columns,
            stored.take("exponents", "int16", (q,)),
            stored.finite("centers", "float64", (q,)),
            stored.finite("factors", "float64", (q,)),
        )
        coefficients = stored.take("coefficients", "int32", (1 + FOLDS, q, outputs))
        constants = stored.take("constants", "int64", (1 + FOLDS, outputs))
        if type(exponent) is not int or abs(exponent) > _MOST_EXPONENT:
            raise ValueError("the unit of its linear scores is impossible")
        for array, largest in ((coefficients, 2**COEFFICIENT_BITS), (constants, _MOST_CONSTANT)):
            if array.size and max(-int(array.min()), int(array.max())) > largest:
                raise ValueError("a coefficient of its linear scores is too large")
        sizes = np.abs(scaling.exponents.astype(int))
        if (np.abs(scaling.centers) > 1).any() or (sizes > _MOST_COLUMN_EXPONENT).any():
            raise ValueError("the units of its columns are impossible")
        return cls(scaling, coefficients, constants, exponent)
