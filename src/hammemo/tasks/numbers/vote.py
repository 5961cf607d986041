"""The vote of a regressor: how much its trees and parts say, and how large its errors are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.array_digest import array_digest
from hammemo.features.cells.error_sizes import ErrorSizes
from hammemo.features.cells.number_trees import N_FEATURES
from hammemo.tasks.numbers.layout import NUMBER_TREES

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats
    from hammemo.tasks.numbers.layout import NumberLayout


@dataclass(frozen=True, eq=False)
class NumberVote:
    """Weights and sizes of errors, fitted to rows that the trees did not see.

    Parameters
    ----------
    weights : ndarray of float64, shape (2, `N_FEATURES`)
        How much each kind of tree, level and amount says, for the trees of each part.
    blend : ndarray of float64, shape (2,)
        The weights of the parts.
    errors : ErrorSizes, optional
        None for a model without rows.
    rows : int
        How many rows there were when it was fitted.
    """

    weights: Floats
    blend: Floats
    errors: ErrorSizes | None = None
    rows: int = 0

    @property
    def fits_weights(self) -> bool:
        """Whether weights come from rows: always."""
        return True

    def is_fitted_like(self, other: NumberVote) -> bool:
        """Return whether both have the same weights and sizes of errors, to the bit."""
        return array_digest(self.state()) == array_digest(other.state())

    def state(self) -> dict[str, Array]:
        """Return the vote as arrays."""
        arrays: dict[str, Array] = {"weights": self.weights, "blend": self.blend}
        if self.errors is not None:
            for name, array in self.errors.arrays().items():
                arrays[f"errors.{name}"] = array
        return arrays

    @classmethod
    def from_stored(cls, layout: NumberLayout, rows: int, stored: StoredArrays) -> NumberVote:
        """Return the vote of a file, checked: undo `state`."""
        n_parts = len(NUMBER_TREES)
        weights = stored.finite("weights", "float64", (n_parts, N_FEATURES))
        blend = stored.finite("blend", "float64", (n_parts,))
        if (weights < 0).any() or (blend < 0).any():
            raise ValueError("a weight of its vote is negative")
        errors = None
        if rows:
            errors = ErrorSizes.from_stored(layout.codes.is_name, stored.part("errors"))
        return cls(weights, blend, errors, rows)


NO_VOTE: Final = NumberVote(np.zeros((len(NUMBER_TREES), N_FEATURES)), np.array([1.0, 0.0]))
"""A vote that was fitted to no row: it trusts the base alone."""
