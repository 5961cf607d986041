"""How a log-linear vote weighs automatically chosen sites: tried on the folds by which the sites were chosen.

Each outer fold tries weights that all labels share, and weights of each label with several ridges, every time with
several shares of even probabilities. The lowest loss on the folds left out wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.blas import one_blas_thread
from hammemo.kernels.selection import SMOOTHING
from hammemo.kernels.selection.shared_weights import RIDGE
from hammemo.votes.base import softmax
from hammemo.votes.fitting import SHARED_STEPS, fit_weights
from hammemo.votes.log_linear import LogLinear

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hammemo.kernels.selection import Selection
    from hammemo.kernels.selection.site_ratios import SiteRatios
    from hammemo.kernels.sites import Site
    from hammemo.votes.fitting import FittedWeights

MAX_OWN_WEIGHT_LABELS: Final = 256
"""Labels up to which each may have weights of its own; with more, all share theirs."""

UNIFORM: Final = 0.002
"""The share of even probabilities where none was tried."""

_OPTIONS: Final = ((False, RIDGE), (True, 1.0), (True, 5.0), (True, 25.0), (True, 100.0))
"""Whether labels have weights of their own, and the ridge."""
_SHARES: Final = (0.0005, 0.002, 0.008)
_TRIED_NUMBERS: Final = 2**25
"""Rows times labels times features that options are fitted to."""
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
    for ratios, sites in selection.trials:
        for (per_label, ridge), scores in _scores(ratios, sites):
            observed = softmax(scores)[np.arange(len(scores)), ratios.labels(ratios.test_rows)]
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


def _scores(ratios: SiteRatios, sites: list[Site]) -> Iterator[tuple[tuple[bool, float], NDArray[np.float64]]]:
    """Yield each option and the scores of the test rows with the weights that it gives."""
    test = ratios.matrix(sites, ratios.test_rows, leave_one_out=False)
    for option, weights in _weights(ratios, sites):
        by_label = (weights.shared + weights.differences.T).astype(np.float32)
        linear = np.matmul(test, by_label[:, :, None])[:, :, 0].T.astype(np.float64)
        yield option, linear + np.log(ratios.prior) + weights.offsets


def _weights(ratios: SiteRatios, sites: list[Site]) -> Iterator[tuple[tuple[bool, float], FittedWeights]]:
    """Yield each option and its weights: shared ones first, then those of each label from there."""
    _, rows, copies = np.unique(ratios.copies.words[: ratios.n], return_index=True, return_counts=True)
    most = _rows_for(_TRIED_NUMBERS, ratios.n_labels, len(sites))
    rows, copies = rows[:most], copies[:most]  # the distinct examples with the lowest hashes
    features, labels = ratios.matrix(sites, rows, leave_one_out=True), ratios.labels(rows)
    even = np.full(features.shape[2], 1.0 / features.shape[2])
    shared = fit_weights(
        features, labels, copies, ratios.prior, start=even, ridge=RIDGE, per_label=False, steps=SHARED_STEPS
    )
    for per_label, ridge in _OPTIONS:
        if not per_label:
            yield (per_label, ridge), shared
        elif ratios.n_labels <= MAX_OWN_WEIGHT_LABELS:
            fitted = fit_weights(
                features, labels, copies, ratios.prior, start=shared.shared, ridge=ridge, per_label=True, steps=_STEPS
            )
            yield (per_label, ridge), fitted
