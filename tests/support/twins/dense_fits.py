"""The plain twin of ``src/native/selection/dense_weights.cpp``: a fit by SciPy, whose weights may be bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import Bounds, minimize

from hammemo.votes.fitting import DenseFits, DenseLoss, FittedWeights, VectorLayout

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats


@dataclass(frozen=True, eq=False)
class BoundedFits(DenseFits):
    """Arrays of features, and no label gets a negative weight."""

    def fit(
        self, *, start: Floats, ridge: float, per_label: bool, steps: int, warm: FittedWeights | None = None
    ) -> FittedWeights:
        n_labels = len(self.prior)
        problem = DenseLoss(self.ratios, self.labels, self.multiplicity, self.prior, start, ridge, per_label)
        layout = VectorLayout(len(start), n_labels, per_label)
        first = layout.pack(start, warm)
        bounds = Bounds(lower_bounds(start, n_labels, per_label=per_label), np.inf)
        found = minimize(problem, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})
        return layout.unpack(found.x)


def lower_bounds(start: Floats, n_labels: int, *, per_label: bool) -> Floats:
    """Return bounds of the vector with which no label has a negative weight."""
    if not per_label:
        return np.zeros(len(start))
    return np.concatenate([start, np.tile(-start, n_labels), np.full(n_labels, -np.inf)])
