r"""How good a model of numbers is on held-out rows, compared with the mean.

**What is measured**, over all held-out rows: the root of the mean squared error (RMSE); the mean absolute error (MAE);
R², one less the squared errors divided by those of the mean of the held-out targets; the pinball loss, the mean over
`LEVELS` of :math:`\max(t (y - q_t), (t - 1) (y - q_t))` for the quantile :math:`q_t`; and the share of targets inside
the interval of 80 %. The other learner predicts the mean and the quantiles of the targets that are learnt.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.evaluation.measures import MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from hammemo.evaluation.splits import Split, TableMaterial
    from hammemo.models.regressor import MemoryRegressor

LEVELS: Final = np.arange(1, 20) / 20
"""The quantiles that are judged; two of them are the ends of an interval."""
COVERAGE: Final = 0.8
MEAN: Final = "mean"


@dataclass(frozen=True)
class NumberMeasures:
    """The figures of one learner."""

    rmse: float
    mae: float
    r2: float | None
    """None where all held-out targets are equal."""
    pinball: float | None
    coverage: float | None
    """Of the interval of 80 %; None, as the pinball loss, where only one number is predicted."""

    @classmethod
    def of(
        cls, y: NDArray[np.float64], predicted: NDArray[np.float64], quantiles: NDArray[np.float64] | None = None
    ) -> NumberMeasures:
        """Return the figures of predictions and quantiles (m, `LEVELS`) of targets."""
        errors, spread = y - predicted, float(((y - y.mean()) ** 2).sum())
        left = None if quantiles is None else y[:, None] - quantiles
        return cls(
            rmse=float(np.sqrt((errors**2).mean())),
            mae=float(np.abs(errors).mean()),
            r2=1 - float((errors**2).sum()) / spread if spread > 0 else None,
            pinball=None if left is None else float(np.maximum(LEVELS * left, (LEVELS - 1) * left).mean()),
            coverage=None if quantiles is None else dict(_coverage(y, quantiles))[COVERAGE],
        )


@dataclass(frozen=True, eq=False)
class NumberEvaluation:
    """What `evaluate_numbers` found; ``to_dict`` is ready for JSON, ``plot`` draws predictions and coverage."""

    split: str
    n_learnt: float
    """Rows that the model learns, the mean over the fits."""
    fit_seconds: float
    """The mean of the fits of the model."""
    measures: dict[str, NumberMeasures]
    targets: NDArray[np.float64]
    predicted: NDArray[np.float64]
    """What the model predicts for each target."""
    coverage: list[tuple[float, float]]
    """For intervals of some shares, the share of targets inside."""
    peers: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """What other learners predict for each target."""

    @property
    def n_asked(self) -> int:
        """How many rows were held out."""
        return len(self.targets)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        return {
            "split": self.split,
            "learnt": self.n_learnt,
            "asked": self.n_asked,
            "fit_seconds": self.fit_seconds,
            "learners": {name: dict(vars(measures)) for name, measures in self.measures.items()},
            "coverage": [{"interval": level, "inside": share} for level, share in self.coverage],
        }

    def plot(self) -> Figure:
        """Return a figure of predictions against targets, and of coverage; it needs the ``plot`` extra."""
        from hammemo.evaluation import figure

        rmse = self.measures[MODEL].rmse
        return figure.draw_numbers(self.targets, self.predicted, self.coverage, rmse, self.peers)


def evaluate_numbers(
    model: MemoryRegressor,
    material: TableMaterial,
    split: Split,
    on_progress: Callable[[int, int], None] | None = None,
    peers: Mapping[str, Any] | None = None,
) -> NumberEvaluation:
    """Return how good copies of a model are, each fitted to a part of a split and tested on the rest.

    The parameters are those of `evaluate`.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import MemoryRegressor
    >>> from hammemo.evaluation.numbers import evaluate_numbers
    >>> from hammemo.evaluation.splits import TableMaterial, folds
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> rows = TableMaterial(X, X[:, 0] + X[:, 1], is_target=True)
    >>> found = evaluate_numbers(MemoryRegressor(), rows, folds(rows, 3)).measures
    >>> found["this model"].rmse < found["mean"].rmse / 5
    True
    """
    truths, seconds, sizes = [], [], []
    of_peers: dict[str, list[NDArray[np.float64]]] = {name: [] for name in peers or {}}
    answers: dict[str, list[tuple[NDArray[np.float64], NDArray[np.float64]]]] = {MODEL: [], MEAN: []}
    for number, (learnt, asked) in enumerate(split.parts):
        if on_progress is not None:
            on_progress(number, len(split.parts))
        (_, known), (X, y) = material.examples(learnt), material.examples(asked)
        started = time.perf_counter()
        fitted: MemoryRegressor = material.learnt_by(model, learnt)
        seconds.append(time.perf_counter() - started)
        answers[MODEL].append((fitted.predict(X), fitted.predict_quantiles(X, LEVELS)))
        of_mean = np.full(len(y), known.mean()), np.tile(np.quantile(known, LEVELS), (len(y), 1))
        answers[MEAN].append(of_mean)
        for name, learner in (peers or {}).items():
            of_peers[name].append(material.learnt_by(learner, learnt).predict(X))
        truths.append(np.asarray(y, np.float64))
        sizes.append(len(known))
    y = np.concatenate(truths)
    joined = {name: tuple(map(np.concatenate, zip(*parts, strict=True))) for name, parts in answers.items()}
    predicted, quantiles = joined[MODEL]
    beside = {name: np.concatenate(parts) for name, parts in of_peers.items()}
    return NumberEvaluation(
        split=split.title,
        n_learnt=float(np.mean(sizes)),
        fit_seconds=float(np.mean(seconds)),
        measures={
            MODEL: NumberMeasures.of(y, *joined[MODEL]),
            **{name: NumberMeasures.of(y, numbers) for name, numbers in beside.items()},
            MEAN: NumberMeasures.of(y, *joined[MEAN]),
        },
        targets=y,
        predicted=predicted,
        coverage=_coverage(y, quantiles),
        peers=beside,
    )


def _coverage(y: NDArray[np.float64], quantiles: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Return for each interval between two quantiles the share that it should hold, and the share that it holds."""
    pairs = [(first, len(LEVELS) - 1 - first) for first in range(len(LEVELS) // 2)][::-1]
    inside = [float(((quantiles[:, low] <= y) & (y <= quantiles[:, high])).mean()) for low, high in pairs]
    shares = [round(float(LEVELS[high] - LEVELS[low]), 6) for low, high in pairs]
    return list(zip(shares, inside, strict=True))
