"""An additive function with its coefficients: what is said first about a row of a table.

Coefficients are whole numbers, so scores are, too: they do not depend on the processor or on the
rows that are scored together.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.array_digest import array_digest
from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.additive.design import AdditiveDesign
from hammemo.features.additive.levels import HAT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo import _native
    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints

NAT: Final = 65536
"""Scores of labels are whole numbers of 1/65536 nats."""

_MOST_OWNERS: Final = 2**13
"""Columns of a function in a file, at most: more than a fit ever makes."""


@dataclass(frozen=True, eq=False)
class AdditiveBase:
    """An additive function with its coefficients.

    Parameters
    ----------
    design : AdditiveDesign
    n_labels : int
        How many labels it gives scores to; 0 for a function that predicts numbers.
    coefficients : ndarray of int64, shape (p, outputs)
        Fitted to all rows. Two labels have one output, the score of the second one. Units: 1/65536
        nats for labels, the unit of the targets for numbers.
    crossed : ndarray of int64, shape (FOLDS, p, outputs)
        Fitted to the rows outside of each fold.
    penalties : ndarray of float64
        Of each group of coordinates.
    """

    design: AdditiveDesign
    n_labels: int
    coefficients: Ints
    crossed: Ints
    penalties: Floats

    def scores(self, values: Floats, name_codes: NDArray[np.uint8]) -> Ints:
        """Return whole-number scores of rows: (m, labels), or (m, 1) for numbers."""
        scores = score_rows(self.design.encode_rows(values, name_codes), self.coefficients)
        return with_all_labels(scores, self.n_labels)

    def scores_without_folds(
        self, values: Floats, name_codes: NDArray[np.uint8], folds: Ints
    ) -> Ints:
        """Return the scores of rows in these folds, by the coefficients without their folds."""
        scores = np.zeros((len(values), self.coefficients.shape[1]), np.int64)
        for fold, coefficients in enumerate(self.crossed):
            in_fold = np.flatnonzero(folds == fold)
            rows = self.design.encode_rows(values[in_fold], name_codes[in_fold])
            scores[in_fold] = score_rows(rows, coefficients)
        return with_all_labels(scores, self.n_labels)

    def contributions(self, rows: NDArray[np.uint8], middles: Sequence[Floats]) -> Floats:
        """Return what each column of the table adds to the scores of rows, given their bytes.

        What a pair adds is halved between its columns. With the constant, ``coefficients[0]``,
        contributions add up to the scores before these are rounded.

        Shapes
        ------
        returned : (columns, m, outputs)
        """
        owners = self.design.owners
        n_columns = max(owners, default=-1) + 1
        contributions = np.zeros((n_columns, len(rows), self.coefficients.shape[1]))
        tables = self.design.tabulate(self.coefficients, middles)
        for term in tables.iterate_terms(rows):
            for column in term.columns:
                contributions[owners[column]] += term.added / (HAT * len(term.columns))
        return contributions

    def describe(self) -> dict[str, Any]:
        """Return what is no array, ready for JSON."""
        return {
            "n_labels": self.n_labels,
            "owners": list(self.design.owners),
            "n_ordered": len(self.design.knots),
        }

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        return {
            **{f"design.{name}": array for name, array in self.design.arrays().items()},
            "coefficients": self.coefficients,
            "crossed": self.crossed,
            "penalties": self.penalties,
        }

    @classmethod
    def from_stored(cls, described: dict[str, Any], stored: StoredArrays) -> AdditiveBase:
        """Return the base of a file, checked: undo `describe` and `arrays`."""
        n_labels = described["n_labels"]
        owners = described["owners"]
        n_ordered = described["n_ordered"]
        if not isinstance(owners, list) or len(owners) > _MOST_OWNERS:
            raise ValueError("the columns of its additive base are not a list, or are too many")
        numbers = (n_labels, n_ordered, *owners)
        if any(type(number) is not int or not 0 <= number < 2**31 for number in numbers):
            raise ValueError("the sizes of its additive base are not whole numbers")
        if n_ordered > len(owners):
            raise ValueError("its additive base has more ordered columns than columns")
        design = AdditiveDesign.from_stored(owners, n_ordered, stored.part("design"))
        shape = (design.p, count_outputs(n_labels))
        coefficients = stored.take("coefficients", "int64", shape)
        crossed = stored.take("crossed", "int64", (FOLDS, *shape))
        largest = design.largest_coefficient(n_labels)
        for array in (coefficients, crossed):
            if array.size and max(-int(array.min()), int(array.max())) > largest:
                raise ValueError("a coefficient of its additive base is too large")
        penalties = stored.finite("penalties", "float64", (design.n_groups,))
        if (penalties <= 0).any():
            raise ValueError("a penalty of its additive base is not above zero")
        return cls(
            design=design,
            n_labels=n_labels,
            coefficients=coefficients,
            crossed=crossed,
            penalties=penalties,
        )

    def digest(self) -> str:
        """Return BLAKE2b-256 of all that the base is."""
        return array_digest(self.arrays(), json.dumps(self.describe(), sort_keys=True))


def count_outputs(n_labels: int) -> int:
    """Return how many scores are fitted: one for numbers, for one label and for two."""
    return n_labels if n_labels > 2 else 1


def with_all_labels(scores: Array, n_labels: int) -> Array:
    """Return scores with a column of zeros for the first of two labels."""
    n_missing = max(n_labels - scores.shape[-1], 0)
    zeros = np.zeros((*scores.shape[:-1], n_missing), scores.dtype)
    return np.concatenate([zeros, scores], axis=-1)


def score_rows(rows: _native.AdditiveRows, coefficients: Ints) -> Ints:
    """Return the sums over coordinates, rounded to whole numbers: shape (m, outputs)."""
    coefficients = np.ascontiguousarray(coefficients)
    out = np.empty((rows.n, coefficients.shape[1]), np.int64)
    rows.scores(coefficients, out.reshape(-1))
    return out


def round_coefficients(coefficients: Floats, unit: float, largest: int) -> Ints:
    """Return coefficients as whole numbers of this unit, with at most this absolute value."""
    return np.rint(np.clip(coefficients * unit, -largest, largest)).astype(np.int64)
