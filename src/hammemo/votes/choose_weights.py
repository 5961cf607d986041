"""How a log-linear vote weighs automatically chosen sites: tried on the folds by which the sites were chosen.

Each outer fold tries the weights that all labels share, which it has already, and weights of each label with several
ridges, each from those of the one before; every time with several shares of even probabilities. The lowest loss on the
folds left out wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.blas import one_blas_thread
from hammemo._arrays.logarithms import log
from hammemo._arrays.threads import in_threads
from hammemo._progress import advance
from hammemo.kernels.selection import SMOOTHING, FoldTrial, Selection
from hammemo.kernels.selection.shared_weights import RIDGE
from hammemo.votes.fitting import SHARED_STEPS, Fits, FittedWeights, TableFits
from hammemo.votes.log_linear import LogLinear

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo.kernels.selection.features import Features
    from hammemo.kernels.sites import Site

MAX_OWN_WEIGHT_LABELS: Final = 256
"""Labels up to which each may have weights of its own; with more, all share theirs."""

UNIFORM: Final = 0.002
"""The share of even probabilities where none was tried."""

_AS_GOOD: Final = 0.0005
"""Nats up to which a way is as good as the best one, so that single rows rarely decide."""
_RIDGES: Final = (100.0, 25.0, 5.0, 1.0)
"""Ridges of weights that each label has of its own."""
_SHARES: Final = (0.0005, 0.002, 0.008)
_FINAL_NUMBERS: Final = 2**26
"""Rows times labels times features that the weights that are taken are fitted to."""
_MIN_ROWS: Final = 500
_MAX_ROWS: Final = 50_000
_STEPS: Final = 25


@dataclass(frozen=True)
class WeightTrial:
    """One way to weigh sites, and its loss on the folds left out."""

    per_label: bool
    ridge: float
    uniform: float
    loss: float
    accuracy: float = 0.0
    folds: int = 0
    rows: int = 0
    """How many rows were held out, over all folds."""


@dataclass(frozen=True)
class HeldOut:
    """How good a model is on the folds by which it was chosen: what `print` shows of it, and files hold."""

    log_loss: float
    """The mean, in nats."""
    accuracy: float
    folds: int
    rows: int
    """How many rows were held out, over all folds."""

    @classmethod
    def of(cls, trial: WeightTrial) -> HeldOut:
        """Return the figures of the trial that was taken, to six decimals."""
        return cls(round(trial.loss, 6), round(trial.accuracy, 6), trial.folds, trial.rows)


def plain_log_linear(n_labels: int) -> LogLinear:
    """Return the vote where nothing is tried: few examples, streams, or sites that were given."""
    return LogLinear(per_label=n_labels <= MAX_OWN_WEIGHT_LABELS, uniform=UNIFORM)


@one_blas_thread
def chosen_log_linear(
    selection: Selection, n_labels: int, n_sites: int
) -> tuple[LogLinear, list[WeightTrial]]:
    """Return the vote for the sites of a selection, and all that was tried, the best first."""
    tally = FoldTally(n_labels, _SHARES)
    for of_trial in in_threads(lambda trial: list(_observed(trial)), selection.trials, advance):
        for option, (observed, right) in of_trial:
            tally.add(option, observed, right, np.ones(len(right), np.int64))
    trials = tally.trials()
    best = trials[0]
    vote = LogLinear(
        SMOOTHING,
        per_label=best.per_label,
        ridge=best.ridge,
        sample=min(_MAX_ROWS, _rows_for(n_labels, n_sites)),
        steps=_STEPS,
        shared_ridge=RIDGE,
        uniform=best.uniform,
    )
    return vote, trials


class FoldTally:
    """Losses and right answers of ways to weigh sites, fold by fold.

    Parameters
    ----------
    n_labels : int
    uniform_shares : sequence of float
        The shares of even probabilities that are tried with each way; they change no answer.
    """

    def __init__(self, n_labels: int, uniform_shares: Sequence[float]) -> None:
        self._n_labels, self._shares = n_labels, uniform_shares
        self._losses: dict[tuple[bool, float, float], list[float]] = {}
        self._right: dict[tuple[bool, float], list[int]] = {}
        self._rows: dict[tuple[bool, float], list[int]] = {}

    def add(
        self, option: tuple[bool, float], observed: Floats, right: Bools, multiplicity: Ints
    ) -> None:
        """Add one fold: the probability of each held-out row's label, whether it was the answer, and how often."""
        self._right.setdefault(option, []).append(int(multiplicity[right].sum()))
        self._rows.setdefault(option, []).append(int(multiplicity.sum()))
        for share in self._shares:
            mixed = -log((1 - share) * observed + share / self._n_labels)
            self._losses.setdefault((*option, share), []).append(
                float((mixed * multiplicity).sum())
            )

    def trials(self) -> list[WeightTrial]:
        """Return all that was tried, the lowest mean loss first; but the simplest of those that are as good as that."""
        found = []
        for (per_label, ridge, share), losses in self._losses.items():
            option = per_label, ridge
            n, right = sum(self._rows[option]), sum(self._right[option])
            found.append(WeightTrial(*option, share, sum(losses) / n, right / n, len(losses), n))
        enough = min((trial.loss for trial in found), default=0.0) + _AS_GOOD
        return sorted(
            found,
            key=lambda one: (
                one.loss > enough,
                one.per_label,
                -one.ridge,
                one.uniform != UNIFORM,
                one.loss,
            ),
        )


def _rows_for(n_labels: int, n_sites: int) -> int:
    return max(_MIN_ROWS, _FINAL_NUMBERS // (n_labels * n_sites * len(SMOOTHING)))


def _observed(trial: FoldTrial) -> Iterator[tuple[tuple[bool, float], tuple[Floats, Bools]]]:
    """Yield each option and, with its weights, the probabilities of the test rows' labels, and which are answers."""
    n_labels, weights = len(trial.test.base), trial.weights
    fits, fitted = _fits(trial.features, trial.sites), None
    if weights is None:
        even = np.full(fits.n_features, 1.0 / fits.n_features)
        weights = fits.fit(start=even, ridge=RIDGE, per_label=False, steps=SHARED_STEPS).shared
    shared = FittedWeights(weights, np.zeros((len(weights), n_labels)), np.zeros(n_labels))
    yield (False, RIDGE), _of_test(trial, shared)
    if n_labels > MAX_OWN_WEIGHT_LABELS:
        return
    for ridge in _RIDGES:  # the strongest first: its weights are near the shared ones
        fitted = fits.fit(start=weights, ridge=ridge, per_label=True, steps=_STEPS, warm=fitted)
        yield (True, ridge), _of_test(trial, fitted)


def _fits(features: Features, sites: list[Site]) -> Fits:
    """Return the log-ratios of the rows inside that the budget allows."""
    every, prior = np.ones(len(features.rows), np.int64), features.ratios.prior
    return TableFits(features.tables, every, prior, len(sites) * len(SMOOTHING))


def _of_test(trial: FoldTrial, weights: FittedWeights) -> tuple[Floats, Bools]:
    by_label = weights.shared[:, None] + weights.differences
    return trial.test.observed_by_label(by_label, weights.offsets)
