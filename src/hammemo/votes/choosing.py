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
from hammemo.kernels.selection import SMOOTHING
from hammemo.kernels.selection.features import CompiledFeatures
from hammemo.kernels.selection.shared_weights import RIDGE
from hammemo.votes.fitting import DenseFits, FittedWeights, TableFits
from hammemo.votes.log_linear import LogLinear

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hammemo.kernels.selection import FoldTrial, Selection
    from hammemo.kernels.selection.features import Features
    from hammemo.kernels.sites import Site
    from hammemo.votes.fitting import Fits

MAX_OWN_WEIGHT_LABELS: Final = 256
"""Labels up to which each may have weights of its own; with more, all share theirs."""

UNIFORM: Final = 0.002
"""The share of even probabilities where none was tried."""

_RIDGES: Final = (100.0, 25.0, 5.0, 1.0)
"""Ridges of weights that each label has of its own."""
_SHARES: Final = (0.0005, 0.002, 0.008)
_TRIED_NUMBERS: Final = 2**25
"""Rows times labels times features that options are fitted to where there are no compiled tables."""
_FINAL_NUMBERS: Final = 2**26
"""The same for the weights that are taken."""
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


def plain_log_linear(n_labels: int) -> LogLinear:
    """Return the vote where nothing is tried: few examples, streams, or sites that were given."""
    return LogLinear(per_label=n_labels <= MAX_OWN_WEIGHT_LABELS, uniform=UNIFORM)


@one_blas_thread
def chosen_log_linear(selection: Selection, n_labels: int, n_sites: int) -> tuple[LogLinear, list[WeightTrial]]:
    """Return the vote for the sites of a selection, and all that was tried, the best first."""
    losses: dict[tuple[bool, float, float], list[NDArray[np.float64]]] = {}
    for trial in selection.trials:
        for (per_label, ridge), observed in _observed(trial):
            for share in _SHARES:
                mixed = -np.log((1 - share) * observed + share / n_labels)
                losses.setdefault((per_label, ridge, share), []).append(mixed)
    trials = [WeightTrial(*option, float(np.concatenate(parts).mean())) for option, parts in losses.items()]
    trials.sort(key=lambda trial: trial.loss)
    best = trials[0]
    vote = LogLinear(
        SMOOTHING,
        per_label=best.per_label,
        ridge=best.ridge,
        sample=min(_MAX_ROWS, _rows_for(_FINAL_NUMBERS, n_labels, n_sites)),
        steps=_STEPS,
        shared_ridge=RIDGE,
        uniform=best.uniform,
    )
    return vote, trials


def _rows_for(numbers: int, n_labels: int, n_sites: int) -> int:
    return max(_MIN_ROWS, numbers // (n_labels * n_sites * len(SMOOTHING)))


def _observed(trial: FoldTrial) -> Iterator[tuple[tuple[bool, float], NDArray[np.float64]]]:
    """Yield each option and the probabilities of the labels of the test rows with the weights that it gives."""
    features, test = trial.features, trial.test
    shared = FittedWeights(trial.weights, np.zeros((len(trial.weights), len(test.base))), np.zeros(len(test.base)))
    yield (False, RIDGE), _of_test(trial, shared)
    if len(test.base) > MAX_OWN_WEIGHT_LABELS:
        return
    fits, fitted = _fits(features, trial.sites), None
    for ridge in _RIDGES:  # the strongest first: its weights are near the shared ones
        fitted = fits.fit(start=trial.weights, ridge=ridge, per_label=True, steps=_STEPS, warm=fitted)
        yield (True, ridge), _of_test(trial, fitted)


def _fits(features: Features, sites: list[Site]) -> Fits:
    """Return the log-ratios of the rows inside that the budget allows."""
    every, prior = np.ones(len(features.rows), np.int64), features.ratios.prior
    if isinstance(features, CompiledFeatures):
        return TableFits(features.tables, every, prior, len(sites) * len(SMOOTHING))
    most = _rows_for(_TRIED_NUMBERS, len(prior), len(sites))
    rows = features.rows[:most]
    return DenseFits(
        features.ratios.matrix(sites, rows, leave_one_out=True), features.labels[:most], every[:most], prior
    )


def _of_test(trial: FoldTrial, weights: FittedWeights) -> NDArray[np.float64]:
    by_label = weights.shared[:, None] + weights.differences
    return trial.test.observed_by_label(trial.sites, by_label, weights.offsets)
