r"""How good a model is on held-out examples, compared with two simple models.

A `Split` says which examples are learnt and which are held out (:mod:`hammemo.evaluation.splits`).

**What is measured**, over all held-out examples: the share of right answers; the share whose label is among the
five best; the mean log-loss in nats; and the expected calibration error: over 15 bins of equal width of the highest
probability, the mean of \|its mean - share of right answers\|, weighted by the examples in the bin. With two labels the
area under the ROC curve is measured, the mean over the fits; with five labels or fewer the five best are not. With more
than a hundred labels also, as recommenders are judged: the share whose label is among the twenty best, and the mean of
one over its rank there, 0 where it is not among them. Lists are those of `top_k`, right answers those of `predict`. A
label that the training part does not have cannot be answered: it counts as wrong, and is left out of the log-loss.

**Beside it** stand other learners, if given, and two simple models: the most frequent label with the labels'
shares as probabilities, and naive Bayes from the same counts: single positions, each with weight 1, and one
pseudo-example per row of counts, spread as the labels are.

With more than `ALL_LABELS` labels, only the probabilities of the label and of the answer are computed, by a mixture.
Other learners then have no log-loss and no calibration error.

How good a model of numbers is on held-out rows, compared with the mean.

**What is measured**, over all held-out rows: the root of the mean squared error (RMSE); the mean absolute error (MAE);
R², one less the squared errors divided by those of the mean of the held-out targets; the pinball loss, the mean over
`LEVELS` of :math:`\max(t (y - q_t), (t - 1) (y - q_t))` for the quantile :math:`q_t`; and the share of targets inside
the interval of 80 %. The other learner predicts the mean and the quantiles of the targets that are learnt.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

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

    Told = Callable[[int, int], None] | None
    Peers = Mapping[str, Any] | None

BINS: Final = 15
SHORT_LIST: Final = 5
LONG_LIST: Final = 20
"""The two lengths of a list of answers that are judged."""
ALL_LABELS = 5000
"""Labels up to which the probabilities of all are made."""
LONG_LIST_LABELS: Final = 100
"""Labels above which the longer list is judged, too."""
MODEL: Final = "this model"
BAYES: Final = "naive Bayes"
MAJORITY: Final = "majority"
CONFUSION_LABELS: Final = 15
"""Labels of the confusion table, the most frequent ones; the others are one."""
OTHERS: Final = "others"

_CHUNK_NUMBERS: Final = 2**22
_MIN_PROBABILITY: Final = 2.0**-52
"""The least probability that a log-loss is taken of."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one learner to examples with known labels."""

    predicted: Array
    rank: Ints
    """Of the label among the twenty best, from 1; 0 where it is not among them."""
    probability: Floats
    """Of the label; NaN where that was not learnt, or where there are no probabilities."""
    highest: Floats
    """Of the answer; NaN where there are no probabilities."""
    right: Bools
    """Whether the answer is the label."""

    @classmethod
    def joined(cls, parts: Iterable[Answers]) -> Answers:
        """Return several, at least one, as one."""
        arrays: Any = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*map(np.concatenate, arrays))


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
    """What every evaluation tells."""

    split: str
    n_learnt: float
    """Examples that the model learns, the mean over the fits."""
    n_asked: int
    fit_seconds: float
    """The mean of the fits of the model."""
    measures: dict[str, Any]
    """The figures of each learner: `Measures` or `NumberMeasures`."""

    def _told(self, **more: Any) -> dict[str, Any]:
        """Return this, and more, as plain values."""
        learners = {name: dict(vars(measures)) for name, measures in self.measures.items()}
        counts = {"split": self.split, "learnt": self.n_learnt, "asked": self.n_asked, **more}
        return {**counts, "fit_seconds": self.fit_seconds, "learners": learners}


@dataclass(frozen=True, eq=False)
class Evaluation(Evaluated):
    """What `evaluate` found; ``to_dict`` is ready for JSON, ``plot`` draws confusion and calibration."""

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
        confusion = {"labels": list(self.confusion_labels), "counts": self.confusion.tolist()}
        told = self._told(labels=self.n_labels, labels_not_learnt=self.n_not_learnt)
        return {**told, "calibration": self.calibration, "confusion": confusion}

    def plot(self) -> Figure:
        """Return a figure of confusion and calibration; it needs the ``plot`` extra."""
        from hammemo.evaluation import figure

        return figure.draw(self)


def evaluate(
    model: MemoryClassifier, material: Material, split: Split, on_progress: Told = None, peers: Peers = None
) -> Evaluation:
    """Return how good copies of a model are, each fitted to a part of a split and tested on the rest.

    Parameters
    ----------
    model : MemoryClassifier
        Its parameters are used; what it may have learnt is not.
    material : TableMaterial or DocumentMaterial
    split : Split
    on_progress : callable, optional
        Is told (fits done, fits).
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
    >>> found = evaluate(MemoryClassifier(), rows, folds(rows, 5)).measures
    >>> [round(found[name].accuracy, 1) for name in ("this model", "naive Bayes", "majority")]
    [1.0, 0.7, 0.7]
    """
    read = {name: value for name, value in model.get_params(deep=False).items() if name in ("missing", "numeric")}
    answers: dict[str, list[Answers]] = {name: [] for name in (MODEL, *(peers or {}), BAYES, MAJORITY)}
    truths, sizes, seconds = [], [], []
    labels: set[Any] = set()
    for fitted, taken, learnt, asked in _fits(model, material, split, on_progress):
        (_, known), (X, y) = material.examples(learnt), material.examples(asked)
        answers[MODEL].append(asked_of(fitted, X, y))
        for name, learner in {**(peers or {}), BAYES: naive_bayes(X.shape[1]).set_params(**read)}.items():
            answers[name].append(asked_of(material.learnt_by(learner, learnt), X, y))
        answers[MAJORITY].append(_most_frequent(known, y))
        truths.append(y)
        sizes.append(len(known))
        seconds.append(taken)
        labels.update(known.tolist(), y.tolist())
    if not sum(map(len, truths)):
        raise ValueError("There is nothing to ask: no example is in the part that was held out. Give more input.")
    y = np.concatenate([truth.astype(object) for truth in truths])
    n_labels = len(set(y.tolist()))
    measures = {name: _measures(parts, n_labels, _roc_auc(labels, truths, parts)) for name, parts in answers.items()}
    names, confusion = _confusion(y, Answers.joined(answers[MODEL]).predicted)
    return Evaluation(
        split=split.title,
        n_learnt=float(np.mean(sizes)),
        n_asked=len(y),
        n_labels=n_labels,
        n_not_learnt=int(np.isnan(Answers.joined(answers[MAJORITY]).probability).sum()),
        fit_seconds=float(np.mean(seconds)),
        measures=measures,
        confusion_labels=names,
        confusion=confusion,
        calibration=_calibration(answers[MODEL]),
        peer_calibration={name: _calibration(answers[name]) for name in peers or {}},
    )


def _fits(model: Any, material: Material, split: Split, on_progress: Told) -> Iterator[tuple[Any, float, Ints, Ints]]:
    """Yield for each part of a split a copy of the model that has learnt it, in how many seconds, and the part."""
    for number, (learnt, asked) in enumerate(split.parts):
        if on_progress is not None:
            on_progress(number, len(split.parts))
        started = time.perf_counter()
        fitted = material.learnt_by(model, learnt)
        yield fitted, time.perf_counter() - started, learnt, asked


def _roc_auc(labels: set[Any], truths: list[Array], parts: list[Answers]) -> float | None:
    """Return the mean area under the ROC curve of fits whose answers have both of two labels; None for others."""
    if len(labels) != 2:
        return None
    last = max(labels, key=str)  # which of the two does not matter
    found = []
    for truth, part in zip(truths, parts, strict=True):
        is_last = np.array([label == last for label in truth.tolist()], bool)
        if np.isnan(part.highest).any() or len(set(is_last.tolist())) < 2:
            continue
        of_truth = np.nan_to_num(part.probability)  # a label that was not learnt has none
        of_last = np.where(is_last, of_truth, 1 - of_truth).round(12)  # equal ones stay so
        found.append(roc_auc_score(is_last, of_last))
    return float(np.mean(found)) if found else None


def naive_bayes(h: int) -> MemoryClassifier:
    """Return naive Bayes on h positions: log-ratios with weight 1 each, and one pseudo-example per row of counts."""
    return MemoryClassifier(PositionalHamming(), Exact(), LogLinear(smoothing=1.0, weights=[1.0] * h))


def asked_of(model: MemoryClassifier, X: Array, y: Array) -> Answers:
    """Return the answers of a model to contexts with known labels."""
    columns = {label: column for column, label in enumerate(model.classes_.tolist())}
    place = np.array([columns.get(label, -1) for label in y.tolist()], np.int64)
    step = max(1, _CHUNK_NUMBERS // min(max(len(columns), 1), ALL_LABELS))
    truths = np.asarray(y, object)
    parts = [_chunk(model, X[i : i + step], truths[i : i + step], place[i : i + step]) for i in range(0, len(y), step)]
    nothing = Answers(np.empty(0, object), np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, bool))
    return Answers.joined([nothing, *parts])


def _chunk(model: MemoryClassifier, X: Array, y: Array, place: Ints) -> Answers:
    """Return what a model says to a few contexts; `place` is the column of each label, -1 where it was not learnt."""
    listed = model.top_k(X, LONG_LIST).astype(object) == y[:, None]
    rank = np.where(listed.any(axis=1), 1 + listed.argmax(axis=1), 0)
    predicted = model.predict(X).astype(object)
    of_truth, highest = _probabilities(model, X, place)
    return Answers(predicted, rank, of_truth, highest, np.asarray(predicted == y, bool))


def _probabilities(model: MemoryClassifier, X: Array, place: Ints) -> tuple[Floats, Floats]:
    """Return the probability of each label and of each answer; NaN where the model cannot tell it."""
    nothing = np.full(len(X), np.nan)
    if len(model.classes_) > ALL_LABELS and isinstance(getattr(model, "vote_", None), Mixture):
        view = model.view()
        contexts, scorer = view.read(X), view.scorer
        ones = np.ones(len(X), np.int64)

        def of(columns: Ints) -> Floats:
            return np.asarray(np.exp(-scorer.losses(Examples(contexts, columns, scorer.labels, ones))))

        return np.where(place >= 0, of(np.maximum(place, 0)), np.nan), of(scorer.winners(contexts))
    if len(model.classes_) > ALL_LABELS or not hasattr(model, "predict_proba"):
        return nothing, nothing
    probabilities = model.predict_proba(X)
    of_truth = np.where(place >= 0, probabilities[np.arange(len(X)), place], np.nan)
    return of_truth, probabilities.max(axis=1)


def _most_frequent(learnt: Array, y: Array) -> Answers:
    """Return the answers of the label that is learnt most often, with the labels' shares as probabilities."""
    counts = Counter(label_array(learnt).tolist())
    best = sorted(counts, key=lambda label: (-counts[label], str(label)))[:LONG_LIST]
    ranks = {label: rank for rank, label in enumerate(best, 1)}
    shares = {label: count / len(learnt) for label, count in counts.items()}
    truths = y.tolist()
    predicted = np.full(len(y), best[0], object)
    return Answers(
        predicted,
        np.array([ranks.get(label, 0) for label in truths], np.int64),
        np.array([shares.get(label, np.nan) for label in truths], np.float64),
        np.full(len(y), shares[best[0]]),
        np.array([label == best[0] for label in truths], bool),
    )


def _measures(parts: list[Answers], n_labels: int, roc_auc: float | None) -> Measures:
    whole = Answers.joined(parts)
    rank, listed, many = whole.rank, whole.rank > 0, n_labels > LONG_LIST_LABELS
    shares = [part.right.mean() for part in parts if len(part.right)]
    known, told = whole.probability[~np.isnan(whole.probability)], not np.isnan(whole.highest).any()
    return Measures(
        accuracy=float(whole.right.mean()),
        top_5=float((listed & (rank <= SHORT_LIST)).mean()) if n_labels > SHORT_LIST else None,
        log_loss=float(-np.log(np.maximum(known, _MIN_PROBABILITY)).mean()) if told and len(known) else None,
        calibration_error=expected_calibration_error(whole.highest, whole.right) if told else None,
        accuracy_sd=float(np.std(shares, ddof=1)) if len(shares) > 1 else None,
        top_20=float(listed.mean()) if many else None,
        roc_auc=roc_auc,
        reciprocal_rank_20=float(np.where(listed, 1 / np.maximum(rank, 1), 0.0).mean()) if many else None,
    )


def expected_calibration_error(probabilities: Floats, right: Bools, bins: int = BINS) -> float:
    """Return the mean distance between the highest probability and the share of right answers, bin by bin.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.evaluation.measures import expected_calibration_error
    >>> expected_calibration_error(np.array([0.9, 0.9, 0.9, 0.9]), np.array([True, True, True, False])).__round__(12)
    0.15
    """
    place = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(place, probabilities - right, bins)
    return float(np.abs(gaps).sum() / len(right))


def _calibration(parts: list[Answers]) -> list[dict[str, float]]:
    """Return the mean probability and the share of right answers of every bin that has some."""
    whole = Answers.joined(parts)
    if np.isnan(whole.highest).any():
        return []
    place = np.minimum((whole.highest * BINS).astype(np.int64), BINS - 1)
    bins = [(whole.highest[place == number], whole.right[place == number]) for number in np.unique(place)]
    return [{"probability": float(p.mean()), "right": float(right.mean()), "asked": len(p)} for p, right in bins]


def _confusion(y: Array, predicted: Array) -> tuple[tuple[str, ...], Ints]:
    """Return the most frequent labels as they are shown, and how often each was answered by each."""
    shown = most_frequent_labels(y, CONFUSION_LABELS)
    shown = sorted(shown) if len({isinstance(label, str) for label in shown}) == 1 else shown
    places = {label: number for number, label in enumerate(shown)}
    names = [str(label) for label in shown]
    if any(label not in places for label in {*y.tolist(), *predicted.tolist()}):
        names.append(OTHERS)
    counts = np.zeros((len(names), len(names)), np.int64)
    for truth, answer in zip(y.tolist(), predicted.tolist(), strict=True):
        counts[places.get(truth, len(shown)), places.get(answer, len(shown))] += 1
    return tuple(names), counts


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
    """Of the interval of 80 %; None, as the pinball loss, where only one number is predicted.

    The pinball loss is None, too, where quantiles are infinite, because very few rows were learned.
    """

    @classmethod
    def of(cls, y: Floats, predicted: Floats, quantiles: Floats | None = None) -> NumberMeasures:
        """Return the figures of predictions and quantiles (m, `LEVELS`) of targets."""
        errors, spread = y - predicted, float(((y - y.mean()) ** 2).sum())
        left = None if quantiles is None else y[:, None] - quantiles
        return cls(
            rmse=float(np.sqrt((errors**2).mean())),
            mae=float(np.abs(errors).mean()),
            r2=1 - float((errors**2).sum()) / spread if spread > 0 else None,
            pinball=None if left is None or not np.isfinite(left).all() else _pinball_loss(left),
            coverage=None if quantiles is None else dict(_coverage(y, quantiles))[COVERAGE],
        )


def _pinball_loss(above: Floats) -> float:
    """Return the mean pinball loss; `above` is by how much targets exceed their quantiles, shape (m, `LEVELS`)."""
    return float(np.maximum(LEVELS * above, (LEVELS - 1) * above).mean())


@dataclass(frozen=True, eq=False)
class NumberEvaluation(Evaluated):
    """What `evaluate_numbers` found; ``to_dict`` is ready for JSON, ``plot`` draws predictions and coverage."""

    targets: Floats
    predicted: Floats
    """What the model predicts for each target."""
    coverage: list[tuple[float, float]]
    """For intervals of some shares, the share of targets inside."""
    peers: dict[str, Floats] = field(default_factory=dict)
    """What other learners predict for each target."""

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        return {**self._told(), "coverage": [{"interval": level, "inside": share} for level, share in self.coverage]}

    def plot(self) -> Figure:
        """Return a figure of predictions against targets, and of coverage; it needs the ``plot`` extra."""
        from hammemo.evaluation import figure

        return figure.draw_numbers(self, self.measures[MODEL].rmse)


def evaluate_numbers(
    model: MemoryRegressor, material: TableMaterial, split: Split, on_progress: Told = None, peers: Peers = None
) -> NumberEvaluation:
    """Return how good copies of a model are, each fitted to a part of a split and tested on the rest.

    The parameters are those of `evaluate`.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import MemoryRegressor
    >>> from hammemo.evaluation.measures import evaluate_numbers
    >>> from hammemo.evaluation.splits import TableMaterial, folds
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> rows = TableMaterial(X, X[:, 0] + X[:, 1], is_target=True)
    >>> found = evaluate_numbers(MemoryRegressor(), rows, folds(rows, 3)).measures
    >>> found["this model"].rmse < found["mean"].rmse / 5
    True
    """
    truths, sizes, seconds = [], [], []
    beside: dict[str, list[Floats]] = {name: [] for name in peers or {}}
    answers: dict[str, list[tuple[Floats, Floats]]] = {MODEL: [], MEAN: []}
    for fitted, taken, learnt, asked in _fits(model, material, split, on_progress):
        (_, known), (X, y) = material.examples(learnt), material.examples(asked)
        answers[MODEL].append((fitted.predict(X), fitted.predict_quantiles(X, LEVELS)))
        of_mean = np.full(len(y), known.mean()), np.tile(np.quantile(known, LEVELS), (len(y), 1))
        answers[MEAN].append(of_mean)
        for name, learner in (peers or {}).items():
            beside[name].append(material.learnt_by(learner, learnt).predict(X))
        truths.append(np.asarray(y, np.float64))
        sizes.append(len(known))
        seconds.append(taken)
    y = np.concatenate(truths)
    of_peers = {name: np.concatenate(parts) for name, parts in beside.items()}
    joined = {name: tuple(map(np.concatenate, zip(*parts, strict=True))) for name, parts in answers.items()}
    predicted, quantiles = joined[MODEL]
    others = {name: NumberMeasures.of(y, numbers) for name, numbers in of_peers.items()}
    return NumberEvaluation(
        split=split.title,
        n_learnt=float(np.mean(sizes)),
        n_asked=len(y),
        fit_seconds=float(np.mean(seconds)),
        measures={MODEL: NumberMeasures.of(y, *joined[MODEL]), **others, MEAN: NumberMeasures.of(y, *joined[MEAN])},
        targets=y,
        predicted=predicted,
        coverage=_coverage(y, quantiles),
        peers=of_peers,
    )


def _coverage(y: Floats, quantiles: Floats) -> list[tuple[float, float]]:
    """Return for each interval between two quantiles the share that it should hold, and the share that it holds."""
    pairs = [(first, len(LEVELS) - 1 - first) for first in range(len(LEVELS) // 2)][::-1]
    inside = [float(((quantiles[:, low] <= y) & (y <= quantiles[:, high])).mean()) for low, high in pairs]
    shares = [round(float(LEVELS[high] - LEVELS[low]), 6) for low, high in pairs]
    return list(zip(shares, inside, strict=True))
