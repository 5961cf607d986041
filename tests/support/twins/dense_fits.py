"""A fit of dense weights by SciPy: the twin of ``src/native/selection/dense_weights.cpp``.

Unlike the compiled fit, it can keep weights above zero.
"""

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
        self,
        *,
        start: Floats,
        ridge: float,
        per_label: bool,
        steps: int,
        warm: FittedWeights | None = None,
    ) -> FittedWeights:
        n_labels = len(self.prior)
        loss = DenseLoss(
            self.ratios,
            self.labels,
            self.multiplicity,
            self.prior,
            start=start,
            ridge=ridge,
            per_label=per_label,
        )
        layout = VectorLayout(len(start), n_labels, per_label)
        minimum = minimize(
            loss,
            layout.pack(start, warm),
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(lower_bounds(start, n_labels, per_label=per_label), np.inf),
            options={"maxiter": steps},
        )
        return layout.unpack(minimum.x)


def lower_bounds(start: Floats, n_labels: int, *, per_label: bool) -> Floats:
    """Return bounds of the vector with which no label has a negative weight.

    With weights of each label, the vector holds differences from common weights, and at its end
    intercepts, which may be negative.
    """
    if not per_label:
        return np.zeros(len(start))
    no_bound = np.full(n_labels, -np.inf)
    return np.concatenate([start, np.tile(-start, n_labels), no_bound])
