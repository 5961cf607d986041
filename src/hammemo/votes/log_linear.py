r"""The log-linear vote: smoothed log-ratios of what each site says, with fitted weights.

With the rows of counts themselves, :math:`n_{k,c}` for what site k of the query holds and
:math:`n_k = \sum_c n_{k,c}`:

.. math:: S_c(q) = \log p_c + b_c
    + \sum_{k,j} w_{k,j,c} \log \frac{(n_{k,c} + a_j p_c) / (n_k + a_j)}{p_c},

where :math:`p_c` is the label's share of the examples. Each site contributes how much its label
distribution differs from the prior, and the weights, fitted on the stored counts
(:mod:`hammemo.votes.fitting`), say how far to trust it. ``softmax(S)`` are probabilities. In memory
nothing changes: the counts are those of the other votes, and the weights are not part of the state.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from hammemo._arrays.blas import one_blas_thread
from hammemo._arrays.checked import is_number
from hammemo._progress import advance
from hammemo.memories.exact import SparseCounts, with_free_rows
from hammemo.memories.row_rules import RowRule
from hammemo.tokens.distinct import distinct_examples
from hammemo.tokens.vocabulary import Token, Vocabulary, as_token
from hammemo.votes.base import Vote
from hammemo.votes.fitting import (
    MAX_FEATURES,
    SHARED_STEPS,
    CompiledFits,
    DenseFits,
    Fits,
    FittedWeights,
    LabelledContexts,
    build_tables,
    can_build_tables,
    compute_features,
)
from hammemo.votes.sparse_fitting import fit_shared_weights, read_touched_gains

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.memories.ranker import Ranker
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Examples

Self = TypeVar("Self", bound="LogLinear")

_SHOWN_LABELS = 5
"""Labels that an error lists."""


class LogLinear(Vote):
    """Weighted sum of smoothed log-ratios of each site's label distribution to the prior.

    It gives probabilities. `MemoryClassifier.fit` and `fit_stream` fit the weights to the stored
    counts, leaving each example out of its own rows, so no held-out split is needed;
    `MemoryClassifier.fit_vote` fits them again, or to examples of your choice. Until then, every
    site has weight 1, as in naive Bayes. `partial_fit`, `forget` and `merge` change counts but not
    fitted weights, and the sum of two models has the weights of the left one. If the examples have
    changed much, fit the weights again with `MemoryClassifier.refit`, which takes seconds and needs
    no data. The kernel's own weights are not used.

    Parameters
    ----------
    smoothing : float or sequence of float
        Number of pseudo-examples, distributed like the prior, that are added to every row. Several
        amounts give several log-ratios per site, and the fitted weights choose between them: small
        amounts suit rows with many counts, large ones rows with few.
    weights : sequence of float, optional
        One weight per site; if given, nothing is fitted.
    per_label : bool
        Whether each label has its own weights, in addition to the shared ones, and an offset.
    ridge : float
        Penalty on the differences between labels; above zero.
    sample : int
        The maximal number of distinct examples for fitting, those with the lowest hashes; fewer are
        used if features would take more than half a GiB.
    steps : int
        Steps of the optimisation.
    shared_ridge : float, optional
        If given, shared weights are fitted first, with this penalty on their distance to an average
        of the sites; then those of each label, with the penalty `ridge` on their distance to the
        shared ones. By default both are fitted at once.
    uniform : float
        The share of a uniform distribution in `predict_proba`, from 0 to below 1. It keeps the
        order of the labels, and no answer costs more than the logarithm of (the number of labels /
        this share).
    class_weight : "balanced", mapping from labels to weights or list of pairs, optional
        The weight of each label when probabilities are computed: the odds of a label are multiplied
        by its weight, 1 by default. The share `uniform` is mixed in after that. "balanced" weighs
        labels by one over their share of the examples, so that all are equally likely before
        anything is known. Counts stay whole numbers. Files hold a list of pairs, not a mapping.

    Attributes
    ----------
    site_weights_ : ndarray of shape (S, J)
        Fitted weights of each site and amount of smoothing, for all labels.
    label_weights_ : ndarray of shape (S * J, number of labels at that time)
        What is added to these for each label; a label added later has zeros.
    offsets_ : ndarray of shape (number of labels at that time,)
    labels_ : Vocabulary
    base_weights_ : ndarray of shape (1 + number of labels at that time,)
        For tables with numbers: the weight of the additive base for all labels, and what is added
        to it for each.

    Examples
    --------
    >>> from hammemo import MemoryClassifier, windows
    >>> from hammemo.kernels import Suffixes
    >>> from hammemo.memories import Exact
    >>> from hammemo.votes import LogLinear
    >>> text = "the cat sat on the mat and the dog sat on the cat and the cat ate the rat"
    >>> X, y = windows([(text + " on the mat").split()], h=3)
    >>> clf = MemoryClassifier(Suffixes(3), Exact(), vote=LogLinear()).fit(X, y)
    >>> clf.predict([["dog", "sat", "on"]]).tolist()
    ['the']
    >>> clf.predict_proba([["dog", "sat", "on"]]).shape
    (1, 9)
    """

    def __init__(  # noqa: PLR0917  users may pass these by position
        self,
        smoothing: float | Sequence[float] = (1.0, 10.0, 100.0),
        weights: Sequence[float] | None = None,
        per_label: bool = True,
        ridge: float = 5.0,
        sample: int = 50_000,
        steps: int = 50,
        shared_ridge: float | None = None,
        uniform: float = 0.0,
        class_weight: str | Mapping[Any, float] | Sequence[tuple[Any, float]] | None = None,
    ) -> None:
        self.smoothing = smoothing
        self.weights = weights
        self.per_label = per_label
        self.ridge = ridge
        self.sample = sample
        self.steps = steps
        self.shared_ridge = shared_ridge
        self.uniform = uniform
        self.class_weight = class_weight

    has_probabilities = True
    reads_free_sites = True
    needs_rows = True

    def with_class_weight(self, class_weight: Any) -> LogLinear:
        """Return this vote with class weights, checked."""
        vote = copy.copy(self)
        vote.class_weight = class_weight
        vote.read_class_weights()
        return vote

    @property
    def fits_weights(self) -> bool:
        """Whether weights come from examples: the user has given none."""
        return self.weights is None

    @property
    def uniform_share(self) -> float:
        """The share of even probabilities mixed in."""
        return float(self.uniform)

    # Answers

    def ranker(self, reader: Reader, sites: Sites) -> Ranker:
        """Return what ranks by the rule that the weights and the reader's labels make."""
        reader = with_free_rows(reader, sites)
        if self._has_label_weights or self.class_weight is not None:
            return reader.with_rule(self.rule(reader, sites))
        shared = self._read_shared_weights(sites.n)
        return reader.with_shared_weights(self.amounts(), shared, partial(self.rule, reader, sites))

    @property
    def _has_label_weights(self) -> bool:
        return hasattr(self, "labels_") and bool(self.per_label)

    def rule(self, reader: Reader, sites: Sites) -> RowRule:
        """Return the function of a row that the weights and the reader's labels make."""
        smoothing = self.amounts()
        prior = label_shares(reader.label_counts)
        base = np.log(prior) + self._compute_label_log_weights(reader.labels, prior)
        shared = self._read_shared_weights(sites.n)[:, :, None]
        if not self._has_label_weights:
            return RowRule(smoothing, shared, prior, base)
        weights = np.repeat(shared, len(prior), axis=2)
        offsets = np.zeros(len(prior))
        fitted_columns = self.labels_.find(reader.labels)
        is_fitted = fitted_columns >= 0  # labels that came after the fit have the shared weights
        columns = fitted_columns[is_fitted]
        differences = self.label_weights_[:, columns].reshape(sites.n, len(smoothing), -1)
        weights[:, :, is_fitted] += differences
        offsets[is_fitted] = self.offsets_[columns]
        return RowRule(smoothing, weights, prior, base + offsets)

    def base_weights(self, labels: Vocabulary) -> Floats | None:
        """Return the weight of an additive base for each of these labels; None without a base."""
        if not hasattr(self, "base_weights_"):
            return None
        columns = self.labels_.find(labels)
        shared = self.base_weights_[0]
        differences = self.base_weights_[1:]
        return np.asarray(shared + np.where(columns >= 0, differences[columns], 0.0))

    def _read_shared_weights(self, n_sites: int) -> Floats:
        """Return the weights of all labels: given, fitted, or 1 a site; shape (S, J)."""
        if self.weights is None and hasattr(self, "labels_"):
            return self.site_weights_
        n_amounts = len(self.amounts())
        if self.weights is None:
            return np.full((n_sites, n_amounts), 1.0 / n_amounts)
        values = np.asarray(self.weights, np.float64)
        if values.shape != (n_sites,) or not np.isfinite(values).all():
            raise ValueError(
                f"The kernel has {n_sites} sites, so it needs {n_sites} finite weights; "
                f"weights={self.weights!r}."
            )
        return np.repeat(values[:, None] / n_amounts, n_amounts, axis=1)

    # Weights of labels

    def _compute_label_log_weights(self, labels: Vocabulary, prior: Floats) -> Floats:
        """Return the logarithm of each label's weight."""
        if self.class_weight is None:
            return np.zeros(len(labels))
        weights = self.read_class_weights()
        if weights is None:
            return np.asarray(-np.log(len(labels) * prior))
        return np.asarray(np.log([weights.get(label, 1.0) for label in labels]), np.float64)

    def read_class_weights(self) -> dict[Token, float] | None:
        """Return the weight of each label that `class_weight` names, checked; None if balanced."""
        class_weight: Any = self.class_weight
        if isinstance(class_weight, str) and class_weight == "balanced":
            return None
        pairs = list(class_weight.items()) if isinstance(class_weight, Mapping) else class_weight
        are_pairs = isinstance(pairs, (list, tuple)) and all(
            isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs
        )
        if not are_pairs:
            raise ValueError(
                f"class_weight={class_weight!r} is not known: "
                "use 'balanced' or a weight for each label."
            )
        if not all(is_number(weight) and 0 < weight < np.inf for _, weight in pairs):
            raise ValueError(
                f"class_weight={class_weight!r}: weights are finite numbers above zero."
            )
        return {as_token(label): float(weight) for label, weight in pairs}

    def check_class_weight(self, labels: Vocabulary) -> None:
        """Refuse a class weight of a label that is none of these."""
        if self.class_weight is None:
            return
        weights = self.read_class_weights() or {}
        existing = set(labels)
        unknown = next((label for label in weights if label not in existing), None)
        if unknown is not None:
            listed = ", ".join(map(repr, labels.tolist()[:_SHOWN_LABELS]))
            if len(labels) > _SHOWN_LABELS:
                listed += ", …"
            raise ValueError(
                f"class_weight= names the label {unknown!r}, which is not in y: "
                f"its labels are {listed}. "
                "Use these labels, or declare others with classes=."
            )

    # Fitting

    @one_blas_thread
    def fit_to(
        self,
        reader: Reader,
        examples: Examples,
        sites: Sites,
        *,
        seed: int = 0,
        leave_one_out: bool = True,
    ) -> None:
        """Fit the weights to examples that the reader holds or, without leaving one out, to others.

        There are three forms of the same loss: touched labels alone where labels are many and share
        their weights, compiled tables of the rows of an exact memory, and arrays of features.
        """
        reader = with_free_rows(reader, sites)
        smoothing = self.amounts()
        self._check_numbers()
        self._read_shared_weights(sites.n)  # refuses weights that do not fit

        # How many examples there is room for, and so which form of the loss.
        n_features = sites.n * len(smoothing)
        max_rows = max(1, MAX_FEATURES // max(n_features * len(reader.labels), 1))
        sparse_reader = None
        if not self.per_label and max_rows < int(self.sample) and isinstance(reader, SparseCounts):
            sparse_reader = reader
            max_rows = int(self.sample)

        columns = reader.labels.find(examples.labels)[examples.label_ranks]
        sample = self._choose_sample(examples, columns, max_rows, seed)
        if self.weights is not None or not len(sample.rows) or len(reader.labels) < 2:
            reader.site_counts(examples.contexts[:0])  # refuses a reader without rows
            return  # there is nothing to fit, or nothing to fit it to
        prior = label_shares(reader.label_counts)
        labelled = LabelledContexts(
            contexts=examples.contexts[sample.rows],
            labels=columns[sample.rows],
            prior=prior,
            smoothing=smoothing,
            leave_one_out=leave_one_out,
        )
        if sparse_reader is not None:
            fitted = self._fit_touched(sparse_reader, labelled, sample.multiplicity)
        elif isinstance(reader, SparseCounts) and can_build_tables(reader, sites, smoothing):
            tables = build_tables(reader, labelled)
            fitted = self.fit_stages(CompiledFits(tables, sample.multiplicity, prior, n_features))
        else:
            ratios = compute_features(reader, labelled)
            fitted = self.fit_stages(DenseFits(ratios, labelled.labels, sample.multiplicity, prior))
        self.take_weights(fitted, reader.labels, sites.n)

    def fit_stages(self, fits: Fits) -> FittedWeights:
        """Return the weights of these log-ratios, in one stage or in two."""
        start = np.full(fits.n_features, 1.0 / fits.n_features)  # an average of the sites
        ridge = float(self.ridge)
        steps = int(self.steps)
        per_label = bool(self.per_label)
        if self.shared_ridge is None:
            return fits.fit(start=start, ridge=ridge, per_label=per_label, steps=steps)
        shared = fits.fit(
            start=start,
            ridge=float(self.shared_ridge),
            per_label=False,
            steps=max(SHARED_STEPS, steps),
        )
        advance(1, 1 + per_label)
        if not per_label:
            return shared
        return fits.fit(start=shared.shared, ridge=ridge, per_label=True, steps=steps)

    def _fit_touched(
        self, reader: SparseCounts, examples: LabelledContexts, multiplicity: Ints
    ) -> FittedWeights:
        """Return weights that all labels share, from the labels that rows hold."""
        touched = read_touched_gains(reader, examples, MAX_FEATURES)
        if self.shared_ridge is None:
            ridge = float(self.ridge)
            steps = int(self.steps)
        else:
            ridge = float(self.shared_ridge)
            steps = SHARED_STEPS
        n_features = touched.gains.shape[1]
        shared = fit_shared_weights(
            touched,
            multiplicity[: len(touched)],
            examples.prior,
            start=np.full(n_features, 1.0 / n_features),
            ridge=ridge,
            steps=steps,
        )
        return FittedWeights.from_shared(shared, len(examples.prior))

    def take_weights(
        self,
        fitted: FittedWeights,
        labels: Vocabulary,
        n_sites: int,
        of_base: Floats | None = None,
    ) -> None:
        """Take weights that were fitted for these labels, of sites and of an additive base."""
        if of_base is not None:
            self.base_weights_ = of_base
        self.site_weights_ = fitted.shared.reshape(n_sites, -1)
        self.label_weights_ = fitted.differences
        self.offsets_ = fitted.offsets
        self.labels_ = labels

    def _choose_sample(
        self, examples: Examples, columns: Ints, max_rows: int, seed: int
    ) -> _WeightSample:
        """Choose the examples to fit to.

        They are the distinct ones with the lowest hashes among those with a label of the memory, at
        most as many as there is room for: a function of the multiset of examples, so neither the
        order of rows nor their repetition matters.
        """
        rows, _, counts = distinct_examples(examples, seed)
        has_label = columns[rows] >= 0
        max_rows = min(int(self.sample), max_rows)
        return _WeightSample(rows[has_label][:max_rows], counts[has_label][:max_rows])

    def sample_size(self) -> int:
        """Return the most examples that weights are fitted to; 0 if there are weights already."""
        self._check_numbers()
        has_weights = self.weights is not None or hasattr(self, "labels_")
        return 0 if has_weights else int(self.sample)

    # Files

    def state(self) -> dict[str, Array]:
        """Return the fitted weights and the labels they are for; empty where nothing was fitted."""
        if not hasattr(self, "labels_"):
            return {}
        state = {f"labels.{name}": array for name, array in self.labels_.arrays().items()}
        state["site_weights"] = self.site_weights_
        state["label_weights"] = self.label_weights_
        state["offsets"] = self.offsets_
        if hasattr(self, "base_weights_"):
            state["base_weights"] = self.base_weights_
        return state

    def restore(self, stored: StoredArrays, sites: Sites) -> None:
        """Take the fitted weights from a file, checked: undo `state`."""
        n_amounts = len(self.amounts())
        self._check_numbers()
        self._read_shared_weights(sites.n)  # refuses weights that do not fit
        if "site_weights" not in stored:
            return
        labels = Vocabulary.from_arrays(stored.part("labels"))
        n_labels = len(labels)
        n_features = sites.n * n_amounts
        self.site_weights_ = stored.finite("site_weights", "float64", (sites.n, n_amounts))
        self.label_weights_ = stored.finite("label_weights", "float64", (n_features, n_labels))
        self.offsets_ = stored.finite("offsets", "float64", (n_labels,))
        if "base_weights" in stored:
            self.base_weights_ = stored.finite("base_weights", "float64", (1 + n_labels,))
        self.labels_ = labels

    # Checks

    def check_parameters(self) -> None:
        """Refuse parameters that are wrong for any sites."""
        self.amounts()
        self._check_numbers()

    def check_sites(self, sites: Sites) -> None:
        """Refuse given weights that are not one for each site."""
        self._read_shared_weights(sites.n)

    def amounts(self) -> tuple[float, ...]:
        """Return the amounts of smoothing, checked."""
        amounts = self.smoothing
        if not isinstance(amounts, (Sequence, np.ndarray)):
            amounts = (amounts,)
        are_positive = all(is_number(amount) and 0 < amount < 2.0**53 for amount in amounts)
        if not len(amounts) or not are_positive:
            raise ValueError(
                f"smoothing={self.smoothing!r} is a number above zero, "
                "or a list of them, such as (1, 10)."
            )
        return tuple(float(amount) for amount in amounts)

    def _check_numbers(self) -> None:
        if self.class_weight is not None:
            self.read_class_weights()
        ridges = {"ridge": self.ridge}
        if self.shared_ridge is not None:
            ridges["shared_ridge"] = self.shared_ridge
        for name, ridge in ridges.items():
            if not is_number(ridge) or not 0 < ridge < np.inf:
                raise ValueError(f"{name}={ridge!r} is a number above zero, for example 5.")
        if not is_number(self.uniform) or not 0 <= self.uniform < 1:
            raise ValueError(
                f"uniform={self.uniform!r} is a share from 0 to below 1, for example 0.002."
            )
        self.check_whole("sample", "steps")


class _WeightSample(NamedTuple):
    """Examples that weights are fitted to."""

    rows: Ints
    """Which of the examples they are."""
    multiplicity: Ints
    """How often each occurs."""


def label_shares(label_counts: Ints) -> Floats:
    """Return each label's share of the examples.

    Half an example is added to each label, so that a declared label without examples has a share.
    """
    counts = label_counts + 0.5
    return np.asarray(counts / counts.sum())
