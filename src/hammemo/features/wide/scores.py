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
        Those of each fit. Fit 0 is to all rows, and fit 1 + k to the rows that are not in fold k.
    constants : ndarray of int64, shape (1 + FOLDS, outputs)
    exponent : int
        Whole-number scores are multiples of 2^-exponent.
    """

    scaling: Scaling
    coefficients: Ints
    constants: Ints
    exponent: int

    @property
    def outputs(self) -> int:
        """How many scores there are."""
        return int(self.coefficients.shape[2])

    def score_rows(self, entries: NumberEntries) -> Floats:
        """Return the scores of rows of a question, by the fit to all rows: (m, outputs)."""
        return self._score(entries, 0)

    def score_left_out(self, entries: NumberEntries, folds: Ints) -> Floats:
        """Return the scores of learned rows, each by the fit that left its fold out.

        Shapes
        ------
        folds : (m,); returned : (m, outputs)
        """
        scores = np.zeros((entries.n_rows, self.outputs))
        for fold in range(FOLDS):
            rows = np.flatnonzero(folds == fold)
            if len(rows):
                scores[rows] = self._score(entries.take_rows(rows), 1 + fold)
        return scores

    def _score(self, entries: NumberEntries, fit: int) -> Floats:
        """Return the scores by one of the fits: (m, outputs).

        Scaled numbers are those of a row of zeros plus `differences`, which are sparse. So a score
        is that of zeros, the same for all rows, plus that of the differences.
        """
        coefficients = self.coefficients[fit]
        score_of_zeros = self.scaling.of_zero.astype(np.int64) @ coefficients.astype(np.int64)
        score_of_zeros += self.constants[fit]
        differences = self.scaling.differences(entries) @ coefficients.astype(np.float64)
        return np.asarray(np.ldexp(differences + score_of_zeros, -self.exponent))

    def compute_contributions(self, entries: NumberEntries) -> list[tuple[Ints, Floats]]:
        """Return what each column adds to the scores of each row, by the fit to all rows.

        Columns whose scaled number is zero, and so is what they add, are left out.

        Shapes
        ------
        returned : for each row, the columns (c,) and what they add (c, outputs)
        """
        coefficients = np.ldexp(self.coefficients[0].astype(np.float64), -self.exponent)
        of_zero = self.scaling.of_zero
        differences = self.scaling.differences(entries)
        contributions = []
        for first, last in pairwise(differences.indptr.tolist()):
            scaled = of_zero.copy()
            scaled[differences.indices[first:last]] += differences.data[first:last]
            places = np.flatnonzero(scaled)
            columns = self.scaling.columns[places].astype(np.int64)
            contributions.append((columns, scaled[places, None] * coefficients[places]))
        return contributions

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
        cls, exponent: Any, stored: StoredArrays, *, outputs: int, n_columns: int
    ) -> LinearScores:
        """Return the functions of a file, checked: undo `arrays`.

        Parameters
        ----------
        exponent : int
            As the file says; it is checked, too.
        stored : StoredArrays
        outputs : int
            How many scores there are.
        n_columns : int
            How many columns the table has.
        """
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
        _check_sizes(coefficients, 2**COEFFICIENT_BITS)
        _check_sizes(constants, _MOST_CONSTANT)
        # Numbers are divided by 2^exponent before the center is subtracted: they are below 1.
        exponent_sizes = np.abs(scaling.exponents.astype(int))
        has_far_center = (np.abs(scaling.centers) > 1).any()
        if has_far_center or (exponent_sizes > _MOST_COLUMN_EXPONENT).any():
            raise ValueError("the units of its columns are impossible")
        return cls(scaling, coefficients, constants, exponent)


def _check_sizes(array: Ints, largest: int) -> None:
    """Refuse coefficients or constants above the largest size, with either sign."""
    if array.size and max(-int(array.min()), int(array.max())) > largest:
        raise ValueError("a coefficient of its linear scores is too large")
