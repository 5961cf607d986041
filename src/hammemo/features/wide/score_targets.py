"""What linear scores are fitted to: labels or numbers, with their losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from hammemo import _native
from hammemo.features.additive.additive_base import NAT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints

_MOST_LOSS: Final = 13.0
"""Nats that a row left out costs, at most, where penalties are compared."""

_MOST_SCORE: Final = 1e4
"""Scores are cut off here, far below where whole numbers of 1/65536 nats leave 64 bits."""


class Slopes(NamedTuple):
    """The loss of rows, and its derivatives.

    Parameters
    ----------
    loss : float
    residuals : ndarray of float64, shape (m, outputs)
        The derivative of the loss by each score.
    shares : ndarray of float64, shape (m, outputs)
        The shares of labels; of numbers, the scores.
    """

    loss: float
    residuals: Floats
    shares: Floats


class Targets(Protocol):
    """What is fitted to, and its loss; rows are in the order of the fit."""

    @property
    def outputs(self) -> int:
        """How many scores a row has."""

    def slopes(self, scores: Floats, weights: Floats) -> Slopes:
        """Return the loss of rows with these weights, and its derivatives."""

    def curvature(self, slopes: Slopes, direction: Floats, weights: Floats) -> float:
        """Return the second derivative of the loss along a direction of scores: (m, outputs)."""

    def measure_left_out(self, scores: Floats, weights: Floats) -> float:
        """Return the loss of rows that were left out."""


@dataclass(frozen=True)
class LabelTargets:
    """Labels: of two, the score is that of the second one."""

    labels: NDArray[np.int32]
    outputs: int

    def slopes(self, scores: Floats, weights: Floats) -> Slopes:
        """Return the loss, its slopes and the shares of labels."""
        shares = np.empty(scores.shape)
        loss = _native.label_shares(
            scores=_round_to_nats(scores),
            labels=self.labels,
            weights=weights,
            most=np.inf,
            out=shares.reshape(-1),
        )
        return Slopes(loss, (shares - self._observed) * weights[:, None], shares)

    def curvature(self, slopes: Slopes, direction: Floats, weights: Floats) -> float:
        """Return the variance of the direction under the shares, summed over rows."""
        shares = slopes.shares
        if self.outputs == 1:
            return sum_in_order(shares * (1 - shares) * direction**2 * weights[:, None])
        mean = (shares * direction).sum(axis=1)
        return sum_in_order(((shares * direction**2).sum(axis=1) - mean**2) * weights)

    def measure_left_out(self, scores: Floats, weights: Floats) -> float:
        """Return the sum of the losses, none above a most."""
        return _native.label_shares(
            scores=_round_to_nats(scores),
            labels=self.labels,
            weights=weights,
            most=_MOST_LOSS,
            out=np.empty(scores.size),
        )

    @property
    def _observed(self) -> NDArray[np.bool_]:
        """Whether each row has the label of each score."""
        scored_labels = np.ones(1, int) if self.outputs == 1 else np.arange(self.outputs)
        return np.asarray(self.labels[:, None] == scored_labels)


@dataclass(frozen=True)
class NumberTargets:
    """Numbers of mean zero and spread one, and half of the squared error."""

    numbers: Floats
    outputs: int = 1

    def slopes(self, scores: Floats, weights: Floats) -> Slopes:
        """Return the loss and its slopes."""
        errors = scores[:, 0] - self.numbers
        loss = 0.5 * sum_in_order(weights * errors**2)
        return Slopes(loss, (weights * errors)[:, None], scores)

    def curvature(
        self,
        slopes: Slopes,  # noqa: ARG002  (the curvature is the same everywhere)
        direction: Floats,
        weights: Floats,
    ) -> float:
        """Return the sum of the squares of the direction."""
        return sum_in_order(weights * direction[:, 0] ** 2)

    def measure_left_out(self, scores: Floats, weights: Floats) -> float:
        """Return half of the squared error."""
        return self.slopes(scores, weights).loss


def sum_in_order(numbers: Floats) -> float:
    """Return the sum of all numbers, in one order."""
    return float(np.add.reduce(numbers.ravel()))


def _round_to_nats(scores: Floats) -> Ints:
    return np.rint(np.clip(scores, -_MOST_SCORE, _MOST_SCORE) * NAT).astype(np.int64)
