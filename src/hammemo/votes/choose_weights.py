"""How a log-linear vote weighs automatically chosen sites, by the folds that chose the sites.

Each outer fold tries the weights that all labels share, which it has already, and weights of each
label with several ridges, each fitted from those of the one before; every time with several shares
of even probabilities. The option with the lowest loss on the held-out folds wins.

:class:`FoldTally` adds the folds up. Votes of trees (:mod:`hammemo.votes.tree_label_weights`) use
it, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo._arrays.blas import one_blas_thread
from hammemo._arrays.logarithms import log
from hammemo._arrays.threads import in_threads
from hammemo._progress import advance
from hammemo.kernels.selection import SMOOTHING, FoldTrial, Selection
from hammemo.kernels.selection.shared_weights import RIDGE
from hammemo.votes.fitting import SHARED_STEPS, CompiledFits, FittedWeights
from hammemo.votes.log_linear import LogLinear

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo._arrays.types import Bools, Floats, Ints

MAX_OWN_WEIGHT_LABELS: Final = 256
"""Labels up to which each may have weights of its own; with more, all share theirs."""

UNIFORM: Final = 0.002
"""The share of even probabilities where none was tried."""

_NEAR_BEST: Final = 0.0005
"""Nats up to which an option counts as good as the best one, so that single rows rarely decide."""

_RIDGES: Final = (100.0, 25.0, 5.0, 1.0)
"""Ridges of weights that each label has of its own, the strongest first."""

_UNIFORM_SHARES: Final = (0.0005, UNIFORM, 0.008)
"""Shares of even probabilities that are tried with every option: a factor of four apart."""

_MAX_NUMBERS: Final = 2**26
"""Rows times labels times features that the final weights are fitted to."""

_MIN_ROWS: Final = 500
"""Rows that the final weights are fitted to however many labels and features there are."""

_MAX_ROWS: Final = 50_000
"""Rows that the final weights are fitted to at most, however few labels there are."""

_STEPS: Final = 25
"""Steps of a fit of weights by label. It starts near its minimum: at the shared weights, or at
those of the next stronger ridge."""


@dataclass(frozen=True)
class WeightTrial:
    """One way to weigh sites, and its loss on the held-out folds."""

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
    """How good a model is on the folds that chose it; `print` shows it, and files hold it."""

    log_loss: float
    """The mean, in nats."""
    accuracy: float
    folds: int
    rows: int
    """How many rows were held out, over all folds."""

    @classmethod
    def from_trial(cls, trial: WeightTrial) -> HeldOut:
        """Return the figures of the best trial, to six decimals."""
        return cls(
            log_loss=round(trial.loss, 6),
            accuracy=round(trial.accuracy, 6),
            folds=trial.folds,
            rows=trial.rows,
        )


def make_untried_vote(n_labels: int) -> LogLinear:
    """Return the vote where nothing is tried: few examples, streams, or sites given by the user."""
    return LogLinear(per_label=n_labels <= MAX_OWN_WEIGHT_LABELS, uniform=UNIFORM)


@one_blas_thread
def choose_log_linear(
    selection: Selection, n_labels: int, n_sites: int
) -> tuple[LogLinear, list[WeightTrial]]:
    """Return the vote for the sites of a selection, and all that was tried, the best first."""
    tally = FoldTally(n_labels, _UNIFORM_SHARES)
    folds = in_threads(lambda trial: list(_try_options(trial)), selection.trials, advance)
    for results in folds:
        for result in results:
            tally.add(result)
    trials = tally.list_trials()
    best = trials[0]
    n_rows = max(_MIN_ROWS, _MAX_NUMBERS // (n_labels * n_sites * len(SMOOTHING)))
    vote = LogLinear(
        SMOOTHING,
        per_label=best.per_label,
        ridge=best.ridge,
        sample=min(_MAX_ROWS, n_rows),
        steps=_STEPS,
        shared_ridge=RIDGE,
        uniform=best.uniform,
    )
    return vote, trials


class WeightOption(NamedTuple):
    """A way to fit weights."""

    per_label: bool
    """Whether labels have weights of their own."""
    ridge: float


class FoldResult(NamedTuple):
    """What the weights of one option say of the rows of one fold that they were not fitted to."""

    option: WeightOption
    observed: Floats
    """The probability of each row's label: (m,)."""
    is_right: Bools
    """Whether the label is the answer: (m,)."""
    multiplicity: Ints
    """How often each row occurs: (m,)."""


class _TrialRank(NamedTuple):
    """What trials are sorted by, the first field first."""

    is_worse: bool
    has_own_weights: bool
    negative_ridge: float
    is_unusual: bool
    loss: float


class FoldTally:
    """Losses and right answers of options, fold by fold.

    Parameters
    ----------
    n_labels : int
    uniform_shares : sequence of float
        The shares of even probabilities that are tried with each option; they change no answer.
    """

    def __init__(self, n_labels: int, uniform_shares: Sequence[float]) -> None:
        self._n_labels = n_labels
        self._uniform_shares = uniform_shares
        self._losses: dict[tuple[WeightOption, float], list[float]] = {}
        self._n_right: dict[WeightOption, int] = {}
        self._n_rows: dict[WeightOption, int] = {}

    def add(self, result: FoldResult) -> None:
        """Add the result of one option on one fold."""
        option = result.option
        times = result.multiplicity
        self._n_right[option] = self._n_right.get(option, 0) + int(times[result.is_right].sum())
        self._n_rows[option] = self._n_rows.get(option, 0) + int(times.sum())
        for share in self._uniform_shares:
            losses = -log((1 - share) * result.observed + share / self._n_labels)
            fold_loss = float((losses * times).sum())
            self._losses.setdefault((option, share), []).append(fold_loss)

    def list_trials(self) -> list[WeightTrial]:
        """Return all that was tried, the lowest mean loss first.

        But among those that are nearly as good as the best, the simplest come first: shared
        weights, strong ridges, the usual share of even probabilities.
        """
        trials = []
        for (option, share), losses in self._losses.items():
            n_rows = self._n_rows[option]
            trial = WeightTrial(
                per_label=option.per_label,
                ridge=option.ridge,
                uniform=share,
                loss=sum(losses) / n_rows,
                accuracy=self._n_right[option] / n_rows,
                folds=len(losses),
                rows=n_rows,
            )
            trials.append(trial)
        good_enough = min((trial.loss for trial in trials), default=0.0) + _NEAR_BEST

        def rank(trial: WeightTrial) -> _TrialRank:
            return _TrialRank(
                is_worse=trial.loss > good_enough,
                has_own_weights=trial.per_label,
                negative_ridge=-trial.ridge,
                is_unusual=trial.uniform != UNIFORM,
                loss=trial.loss,
            )

        return sorted(trials, key=rank)


def _try_options(trial: FoldTrial) -> Iterator[FoldResult]:
    """Yield what the weights of each option say of the held-out rows of a fold."""
    n_labels = len(trial.test.base)
    fits = CompiledFits(
        tables=trial.features.tables,
        multiplicity=np.ones(len(trial.features.rows), np.int64),
        prior=trial.features.ratios.prior,
        n_features=len(trial.sites) * len(SMOOTHING),
    )
    start = trial.weights
    if start is None:
        even = np.full(fits.n_features, 1.0 / fits.n_features)
        start = fits.fit(start=even, ridge=RIDGE, per_label=False, steps=SHARED_STEPS).shared
    shared = FittedWeights.from_shared(start, n_labels)
    yield _judge_fold(trial, WeightOption(per_label=False, ridge=RIDGE), shared)
    if n_labels > MAX_OWN_WEIGHT_LABELS:
        return
    weights = None
    for ridge in _RIDGES:  # the strongest first: its weights are near the shared ones
        weights = fits.fit(start=start, ridge=ridge, per_label=True, steps=_STEPS, warm=weights)
        yield _judge_fold(trial, WeightOption(per_label=True, ridge=ridge), weights)


def _judge_fold(trial: FoldTrial, option: WeightOption, weights: FittedWeights) -> FoldResult:
    by_label = weights.shared[:, None] + weights.differences
    observed, is_right = trial.test.predict_own_labels(by_label, weights.offsets)
    return FoldResult(option, observed, is_right, np.ones(len(is_right), np.int64))
