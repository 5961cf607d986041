r"""How good a model is on held-out examples, beside simple models and other learners.

A `Split` says which examples are learned and which are held out
(:mod:`hammemo.evaluation.splits`). `evaluate` measures a classifier, `evaluate_numbers` a
regressor.

**Of labels** is measured, over all held-out examples: the share of right answers; the share whose
label is among the five best; the mean log-loss in nats; and the expected calibration error: over 15
bins of equal width of the highest probability, the mean of \|its mean - share of right answers\|,
weighted by the examples in the bin. With two labels the area under the ROC curve is measured, the
mean over the fits; with five labels or fewer the five best are not. With more than a hundred labels
also, as recommenders are judged: the share whose label is among the twenty best, and the mean of
one over its rank there, 0 where it is not among them. Lists are those of `top_k`, right answers
those of `predict`. A label that the training part does not have cannot be answered: it counts as
wrong, and is left out of the log-loss.

Beside the model stand other learners, if there are any, and two simple models: the most frequent
label with the labels' shares as probabilities, and naive Bayes from the same counts: single
positions, each with weight 1, and one pseudo-example per row of counts, spread as the labels are.

With more than `ALL_LABELS` labels, only the probabilities of the label and of the answer are
computed, by a mixture. Other learners then have no log-loss and no calibration error.

**Of numbers** is measured, over all held-out rows: the root of the mean squared error (RMSE); the
mean absolute error (MAE); R², one less the squared errors divided by those of the mean of the
held-out targets; the pinball loss, the mean over `LEVELS` of
:math:`\max(t (y - q_t), (t - 1) (y - q_t))` for the quantile :math:`q_t`; and the share of targets
inside the interval of 80 %. The simple model predicts the mean and the quantiles of the targets
that are learned.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.kernels import PositionalHamming
from hammemo.memories import Exact
from hammemo.tokens.contexts import Examples
from hammemo.tokens.labels import label_array, most_frequent_labels
from hammemo.votes import LogLinear, Mixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from matplotlib.figure import Figure

    from hammemo._arrays.types import Array, Bools, Floats, Ints
    from hammemo.estimators.regressor import MemoryRegressor
    from hammemo.evaluation.splits import Material, Split, TableMaterial

    OnProgress = Callable[[int, int], None] | None
    Peers = Mapping[str, Any] | None

BINS: Final = 15
"""Of the highest probability, for the calibration error."""

SHORT_LIST: Final = 5
"""How many of the best answers are judged."""

LONG_LIST: Final = 20
"""As above, with more than `LONG_LIST_LABELS` labels."""

LONG_LIST_LABELS: Final = 100
"""Labels above which the longer list is judged, too."""

ALL_LABELS = 5000
"""Labels up to which the probabilities of all are computed."""

CONFUSION_LABELS: Final = 15
"""Labels of the confusion table, the most frequent ones; the others are one."""

LEVELS: Final = np.arange(1, 20) / 20
"""The quantiles that are judged; two of them are the ends of an interval."""

COVERAGE: Final = 0.8
"""The share of targets that the judged interval should hold."""

MODEL: Final = "this model"
BAYES: Final = "naive Bayes"
MAJORITY: Final = "majority"
MEAN: Final = "mean"
OTHERS: Final = "others"

_CHUNK_NUMBERS: Final = 2**22
"""Probabilities that are in memory at a time: 32 MiB."""

_MIN_PROBABILITY: Final = 2.0**-52
"""The least probability that a log-loss is taken of."""


class _Fit(NamedTuple):
    """A fitted copy of a model, and the part of a split that it learned and answers."""

    model: Any
    seconds: float
    learned: Ints
    held_out: Ints


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one learner to examples with known labels."""

    predicted: Array
    rank: Ints
    """Of the label among the twenty best, from 1; 0 where it is not among them."""
    probability: Floats
    """Of the label; NaN where that was not learned, or where there are no probabilities."""
    highest: Floats
    """Of the answer; NaN where there are no probabilities."""
    right: Bools
    """Whether the answer is the label."""

    @classmethod
    def join(cls, answers_by_fit: Iterable[Answers]) -> Answers:
        """Return several, at least one, as one."""
        columns = [vars(answers) for answers in answers_by_fit]
        return cls(
            **{name: np.concatenate([answers[name] for answers in columns]) for name in columns[0]}
        )


@dataclass(frozen=True)
class Measures:
    """The figures of one learner; None where its scores are not probabilities."""

    accuracy: float
    top_5: float | None
    """None where labels are five or fewer."""
    log_loss: float | None
    calibration_error: float | None
    accuracy_sd: float | None = None
    """Over the folds; None where there is one."""
    top_20: float | None = None
    """None where labels are a hundred or fewer."""
    reciprocal_rank_20: float | None = None
    """The mean of 1 / rank in the best twenty; None where labels are a hundred or fewer."""
    roc_auc: float | None = None
    """The area under the ROC curve, the mean over the fits; None where labels are not two."""


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What every evaluation has."""

    split: str
    n_learnt: float
    """Examples that the model learns, the mean over the fits."""
    n_asked: int
    """Examples that are held out."""
    fit_seconds: float
    """The mean of the fits of the model."""
    measures: dict[str, Any]
    """The figures of each learner: `Measures` or `NumberMeasures`."""

    def _list_values(self, **more_counts: int) -> dict[str, Any]:
        """Return this, and more counts, as plain values."""
        return {
            "split": self.split,
            "learnt": self.n_learnt,
            "asked": self.n_asked,
            **more_counts,
            "fit_seconds": self.fit_seconds,
            "learners": {name: dict(vars(figures)) for name, figures in self.measures.items()},
        }


@dataclass(frozen=True, eq=False)
class Evaluation(Evaluated):
    """The result of `evaluate`; ``to_dict`` is ready for JSON, ``plot`` draws it."""

    n_labels: int
    n_not_learnt: int
    """Asked examples with a label that the training part does not have."""
    confusion_labels: tuple[str, ...]
    confusion: Ints
    """Counts; a row is a label, a column an answer."""
    calibration: list[dict[str, float]]
    peer_calibration: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    """Of the other learners that are measured."""

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            **self._list_values(labels=self.n_labels, labels_not_learnt=self.n_not_learnt),
            "calibration": self.calibration,
            "confusion": {
                "labels": list(self.confusion_labels),
                "counts": self.confusion.tolist(),
            },
        }

    def plot(self) -> Figure:
        """Return a figure of confusion and calibration; it needs the ``plot`` extra."""
        from hammemo.evaluation import figure

        return figure.draw(self)


def evaluate(
    model: MemoryClassifier,
    material: Material,
    split: Split,
    on_progress: OnProgress = None,
    peers: Peers = None,
) -> Evaluation:
    """Return how good copies of a model are, each fitted to a part and tested on the rest.

    Parameters
    ----------
    model : MemoryClassifier
        Its parameters are used; what it may have learned is not.
    material : TableMaterial or DocumentMaterial
    split : Split
    on_progress : callable, optional
        Called with (fits done, fits).
    peers : mapping, optional
        Other learners by name, such as those of ``hammemo.evaluation.peers``.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.evaluation.measures import evaluate
    >>> from hammemo.evaluation.splits import TableMaterial, folds
    >>> X = np.random.default_rng(0).integers(0, 3, (300, 4))
    >>> rows = TableMaterial(X, (X[:, 0] == X[:, 1]).astype(int))
    >>> measures = evaluate(MemoryClassifier(), rows, folds(rows, 5)).measures
    >>> [round(measures[name].accuracy, 1) for name in ("this model", "naive Bayes", "majority")]
    [1.0, 0.7, 0.7]
    """
    peers = peers or {}
    parameters = model.get_params(deep=False)
    reading = {name: parameters[name] for name in ("missing", "numeric") if name in parameters}
    names = (MODEL, *peers, BAYES, MAJORITY)
    answers: dict[str, list[Answers]] = {name: [] for name in names}
    truths = []
    sizes = []
    seconds = []
    labels: set[Any] = set()
    for fit in _fit_parts(model, material, split, on_progress):
        _, learned_labels = material.examples(fit.learned)
        X, y = material.examples(fit.held_out)
        answers[MODEL].append(answer_all(fit.model, X, y))
        learners = {**peers, BAYES: naive_bayes(X.shape[1]).set_params(**reading)}
        for name, learner in learners.items():
            answers[name].append(answer_all(material.fit(learner, fit.learned), X, y))
        answers[MAJORITY].append(_answer_most_frequent(learned_labels, y))
        truths.append(y)
        sizes.append(len(learned_labels))
        seconds.append(fit.seconds)
        labels.update(learned_labels.tolist(), y.tolist())
    if not sum(map(len, truths)):
        raise ValueError(
            "There is nothing to ask: no example is in the part that was held out. Give more input."
        )
    y = np.concatenate([truth.astype(object) for truth in truths])
    n_labels = len(set(y.tolist()))
    confusion_labels, confusion = _count_confusion(y, Answers.join(answers[MODEL]).predicted)
    return Evaluation(
        split=split.title,
        n_learnt=float(np.mean(sizes)),
        n_asked=len(y),
        n_labels=n_labels,
        n_not_learnt=int(np.isnan(Answers.join(answers[MAJORITY]).probability).sum()),
        fit_seconds=float(np.mean(seconds)),
        measures={
            name: _measure(parts, n_labels, _measure_roc_auc(labels, truths, parts))
            for name, parts in answers.items()
        },
        confusion_labels=confusion_labels,
        confusion=confusion,
        calibration=_bin_answers(answers[MODEL]),
        peer_calibration={name: _bin_answers(answers[name]) for name in peers},
    )


def _fit_parts(
    model: Any, material: Material, split: Split, on_progress: OnProgress
) -> Iterator[_Fit]:
    """Yield a fitted copy of the model for each part of a split."""
    for number, (learned, held_out) in enumerate(split.parts):
        if on_progress is not None:
            on_progress(number, len(split.parts))
        started = time.perf_counter()
        fitted = material.fit(model, learned)
        yield _Fit(fitted, time.perf_counter() - started, learned, held_out)


def _measure_roc_auc(
    labels: set[Any], truths: list[Array], answers_by_fit: list[Answers]
) -> float | None:
    """Return the mean area under the ROC curve of the fits that answer two labels.

    It is None where labels are not two, or without probabilities.
    """
    if len(labels) != 2:
        return None
    positive = max(labels, key=str)  # which of the two does not matter
    areas = []
    for truth, answers in zip(truths, answers_by_fit, strict=True):
        is_positive = np.array([label == positive for label in truth.tolist()], bool)
        if np.isnan(answers.highest).any() or len(set(is_positive.tolist())) < 2:
            continue
        truth_probabilities = np.nan_to_num(answers.probability)  # NaN for labels not learned
        # rounded, so that equal probabilities stay equal after 1 - p
        positive_probabilities = np.where(
            is_positive, truth_probabilities, 1 - truth_probabilities
        ).round(12)
        areas.append(roc_auc_score(is_positive, positive_probabilities))
    if areas:
        return float(np.mean(areas))
    return None


def naive_bayes(h: int) -> MemoryClassifier:
    """Return naive Bayes on h positions.

    It adds log-ratios with weight 1 each, and one pseudo-example per row of counts.
    """
    vote = LogLinear(smoothing=1.0, weights=[1.0] * h)
    return MemoryClassifier(PositionalHamming(), Exact(), vote)


def answer_all(model: MemoryClassifier, X: Array, y: Array) -> Answers:
    """Return the answers of a model to contexts with known labels."""
    columns = {label: column for column, label in enumerate(model.classes_.tolist())}
    places = np.array([columns.get(label, -1) for label in y.tolist()], np.int64)
    truths = np.asarray(y, object)
    no_answers = Answers(
        predicted=np.empty(0, object),
        rank=np.empty(0, np.int64),
        probability=np.empty(0),
        highest=np.empty(0),
        right=np.empty(0, bool),
    )
    chunks = [no_answers]
    step = max(1, _CHUNK_NUMBERS // min(max(len(columns), 1), ALL_LABELS))
    for start in range(0, len(y), step):
        chunk = slice(start, start + step)
        chunks.append(_answer_chunk(model, X[chunk], truths[chunk], places[chunk]))
    return Answers.join(chunks)


def _answer_chunk(model: MemoryClassifier, X: Array, y: Array, places: Ints) -> Answers:
    """Return the answers to a few contexts.

    `places` has the column of each label, -1 where it was not learned.
    """
    is_label = model.top_k(X, LONG_LIST).astype(object) == y[:, None]
    predicted = model.predict(X).astype(object)
    probability, highest = _compute_probabilities(model, X, places)
    return Answers(
        predicted=predicted,
        rank=np.where(is_label.any(axis=1), 1 + is_label.argmax(axis=1), 0),
        probability=probability,
        highest=highest,
        right=np.asarray(predicted == y, bool),
    )


def _compute_probabilities(
    model: MemoryClassifier, X: Array, places: Ints
) -> tuple[Floats, Floats]:
    """Return the probability of each label and of each answer; NaN where the model has none."""
    is_learned = places >= 0
    has_many_labels = len(model.classes_) > ALL_LABELS
    if has_many_labels and isinstance(getattr(model, "vote_", None), Mixture):
        view = model.view()
        contexts = view.read(X)
        scorer = view.scorer
        ones = np.ones(len(X), np.int64)

        def compute(columns: Ints) -> Floats:
            examples = Examples(contexts, columns, scorer.labels, ones)
            return np.asarray(np.exp(-scorer.losses(examples)))

        of_labels = np.where(is_learned, compute(np.maximum(places, 0)), np.nan)
        return of_labels, compute(scorer.winners(contexts))
    if has_many_labels or not hasattr(model, "predict_proba"):
        nothing = np.full(len(X), np.nan)
        return nothing, nothing
    probabilities = model.predict_proba(X)
    of_labels = np.where(is_learned, probabilities[np.arange(len(X)), places], np.nan)
    return of_labels, probabilities.max(axis=1)


def _answer_most_frequent(learned_labels: Array, y: Array) -> Answers:
    """Return the answers of the majority: the most frequent label, its share as probability."""
    counts = Counter(label_array(learned_labels).tolist())
    best = sorted(counts, key=lambda label: (-counts[label], str(label)))[:LONG_LIST]
    ranks = {label: rank for rank, label in enumerate(best, 1)}
    shares = {label: count / len(learned_labels) for label, count in counts.items()}
    truths = y.tolist()
    return Answers(
        predicted=np.full(len(y), best[0], object),
        rank=np.array([ranks.get(label, 0) for label in truths], np.int64),
        probability=np.array([shares.get(label, np.nan) for label in truths], np.float64),
        highest=np.full(len(y), shares[best[0]]),
        right=np.array([label == best[0] for label in truths], bool),
    )


def _measure(answers_by_fit: list[Answers], n_labels: int, roc_auc: float | None) -> Measures:
    """Return the figures of one learner, from its answers in each fit."""
    all_answers = Answers.join(answers_by_fit)
    is_listed = all_answers.rank > 0
    top_5 = None
    if n_labels > SHORT_LIST:
        top_5 = float((is_listed & (all_answers.rank <= SHORT_LIST)).mean())
    top_20 = None
    reciprocal_rank_20 = None
    if n_labels > LONG_LIST_LABELS:
        top_20 = float(is_listed.mean())
        reciprocal_ranks = np.where(is_listed, 1 / np.maximum(all_answers.rank, 1), 0.0)
        reciprocal_rank_20 = float(reciprocal_ranks.mean())
    log_loss = None
    calibration_error = None
    if not np.isnan(all_answers.highest).any():
        calibration_error = expected_calibration_error(all_answers.highest, all_answers.right)
        of_learned = all_answers.probability[~np.isnan(all_answers.probability)]
        if len(of_learned):
            log_loss = float(-np.log(np.maximum(of_learned, _MIN_PROBABILITY)).mean())
    accuracies = [answers.right.mean() for answers in answers_by_fit if len(answers.right)]
    accuracy_sd = None
    if len(accuracies) > 1:
        accuracy_sd = float(np.std(accuracies, ddof=1))
    return Measures(
        accuracy=float(all_answers.right.mean()),
        top_5=top_5,
        log_loss=log_loss,
        calibration_error=calibration_error,
        accuracy_sd=accuracy_sd,
        top_20=top_20,
        reciprocal_rank_20=reciprocal_rank_20,
        roc_auc=roc_auc,
    )


def expected_calibration_error(probabilities: Floats, right: Bools, bins: int = BINS) -> float:
    """Return the mean distance between probabilities and shares of right answers, bin by bin.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.evaluation.measures import expected_calibration_error
    >>> right = np.array([True, True, True, False])
    >>> round(expected_calibration_error(np.array([0.9, 0.9, 0.9, 0.9]), right), 12)
    0.15
    """
    bin_of = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    # the sums of both, not the means, so that a bin weighs as much as it has answers
    gaps = np.bincount(bin_of, probabilities - right, bins)
    return float(np.abs(gaps).sum() / len(right))


def _bin_answers(answers_by_fit: list[Answers]) -> list[dict[str, float]]:
    """Return the mean probability and the share of right answers of every bin that has some."""
    all_answers = Answers.join(answers_by_fit)
    if np.isnan(all_answers.highest).any():
        return []
    bin_of = np.minimum((all_answers.highest * BINS).astype(np.int64), BINS - 1)
    bins = []
    for number in np.unique(bin_of):
        is_inside = bin_of == number
        bins.append(
            {
                "probability": float(all_answers.highest[is_inside].mean()),
                "right": float(all_answers.right[is_inside].mean()),
                "asked": int(is_inside.sum()),
            }
        )
    return bins


def _count_confusion(y: Array, predicted: Array) -> tuple[tuple[str, ...], Ints]:
    """Return the most frequent labels, and how often each was answered by each."""
    labels = most_frequent_labels(y, CONFUSION_LABELS)
    has_one_type = len({isinstance(label, str) for label in labels}) == 1
    if has_one_type:
        labels = sorted(labels)
    places = {label: number for number, label in enumerate(labels)}
    names = [str(label) for label in labels]
    if any(label not in places for label in {*y.tolist(), *predicted.tolist()}):
        names.append(OTHERS)
    counts = np.zeros((len(names), len(names)), np.int64)
    for truth, answer in zip(y.tolist(), predicted.tolist(), strict=True):
        counts[places.get(truth, len(labels)), places.get(answer, len(labels))] += 1
    return tuple(names), counts


# Numbers


@dataclass(frozen=True)
class NumberMeasures:
    """The figures of one learner."""

    rmse: float
    mae: float
    r2: float | None
    """None where all held-out targets are equal."""
    pinball: float | None
    coverage: float | None
    """Of the interval of 80 %; None, as the pinball loss, where only one number is predicted.

    The pinball loss is None, too, where quantiles are infinite, because very few rows were learned.
    """

    @classmethod
    def of(cls, y: Floats, predicted: Floats, quantiles: Floats | None = None) -> NumberMeasures:
        """Return the figures of predictions and quantiles (m, `LEVELS`) of targets."""
        errors = y - predicted
        spread = float(((y - y.mean()) ** 2).sum())
        pinball = None
        coverage = None
        if quantiles is not None:
            coverage = dict(_measure_coverage(y, quantiles))[COVERAGE]
            excess = y[:, None] - quantiles
            if np.isfinite(excess).all():
                pinball = _pinball_loss(excess)
        r2 = None
        if spread > 0:
            r2 = 1 - float((errors**2).sum()) / spread
        return cls(
            rmse=float(np.sqrt((errors**2).mean())),
            mae=float(np.abs(errors).mean()),
            r2=r2,
            pinball=pinball,
            coverage=coverage,
        )


def _pinball_loss(excess: Floats) -> float:
    """Return the mean pinball loss of targets less their quantiles, shape (m, `LEVELS`)."""
    return float(np.maximum(LEVELS * excess, (LEVELS - 1) * excess).mean())


@dataclass(frozen=True, eq=False)
class NumberEvaluation(Evaluated):
    """The result of `evaluate_numbers`; ``to_dict`` is ready for JSON, ``plot`` draws it."""

    targets: Floats
    predicted: Floats
    """What the model predicts for each target."""
    coverage: list[tuple[float, float]]
    """For intervals of some shares, the share of targets inside."""
    peers: dict[str, Floats] = field(default_factory=dict)
    """What other learners predict for each target."""

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        coverage = [{"interval": level, "inside": share} for level, share in self.coverage]
        return {**self._list_values(), "coverage": coverage}

    def plot(self) -> Figure:
        """Return a figure of predictions and of coverage; it needs the ``plot`` extra."""
        from hammemo.evaluation import figure

        return figure.draw_numbers(self, self.measures[MODEL].rmse)


def evaluate_numbers(
    model: MemoryRegressor,
    material: TableMaterial,
    split: Split,
    on_progress: OnProgress = None,
    peers: Peers = None,
) -> NumberEvaluation:
    """Return how good copies of a model are, each fitted to a part and tested on the rest.

    The parameters are those of `evaluate`.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import MemoryRegressor
    >>> from hammemo.evaluation.measures import evaluate_numbers
    >>> from hammemo.evaluation.splits import TableMaterial, folds
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> rows = TableMaterial(X, X[:, 0] + X[:, 1], is_target=True)
    >>> measures = evaluate_numbers(MemoryRegressor(), rows, folds(rows, 3)).measures
    >>> measures["this model"].rmse < measures["mean"].rmse / 5
    True
    """
    peers = peers or {}
    truths = []
    sizes = []
    seconds = []
    predictions: dict[str, list[Floats]] = {name: [] for name in (MODEL, *peers, MEAN)}
    quantiles: dict[str, list[Floats]] = {MODEL: [], MEAN: []}
    for fit in _fit_parts(model, material, split, on_progress):
        _, learned_targets = material.examples(fit.learned)
        X, y = material.examples(fit.held_out)
        predictions[MODEL].append(fit.model.predict(X))
        quantiles[MODEL].append(fit.model.predict_quantiles(X, LEVELS))
        predictions[MEAN].append(np.full(len(y), learned_targets.mean()))
        quantiles[MEAN].append(np.tile(np.quantile(learned_targets, LEVELS), (len(y), 1)))
        for name, learner in peers.items():
            predictions[name].append(material.fit(learner, fit.learned).predict(X))
        truths.append(np.asarray(y, np.float64))
        sizes.append(len(learned_targets))
        seconds.append(fit.seconds)
    y = np.concatenate(truths)
    all_predictions = {name: np.concatenate(of_fits) for name, of_fits in predictions.items()}
    all_quantiles = {name: np.concatenate(of_fits) for name, of_fits in quantiles.items()}
    return NumberEvaluation(
        split=split.title,
        n_learnt=float(np.mean(sizes)),
        n_asked=len(y),
        fit_seconds=float(np.mean(seconds)),
        measures={
            name: NumberMeasures.of(y, predicted, all_quantiles.get(name))
            for name, predicted in all_predictions.items()
        },
        targets=y,
        predicted=all_predictions[MODEL],
        coverage=_measure_coverage(y, all_quantiles[MODEL]),
        peers={name: all_predictions[name] for name in peers},
    )


def _measure_coverage(y: Floats, quantiles: Floats) -> list[tuple[float, float]]:
    """Return the share that each interval should hold, and the share that it holds.

    An interval is that between a quantile and the one as far from the other end; the narrowest
    comes first.
    """
    coverage = []
    for low in reversed(range(len(LEVELS) // 2)):
        high = len(LEVELS) - 1 - low
        share = round(float(LEVELS[high] - LEVELS[low]), 6)
        is_inside = (quantiles[:, low] <= y) & (y <= quantiles[:, high])
        coverage.append((share, float(is_inside.mean())))
    return coverage
