r"""The log-linear vote: smoothed log-ratios of what each site says, weighted by how far each can be trusted.

With the rows of counts themselves, :math:`n_{k,c}` for what site k of the query holds and :math:`n_k = \sum_c n_{k,c}`:

.. math:: S_c(q) = \log p_c + b_c + \sum_{k,j} w_{k,j,c} \log \frac{(n_{k,c} + a_j p_c) / (n_k + a_j)}{p_c},

where :math:`p_c` is the label's share of the examples. Each site contributes how much its label distribution differs
from the prior, and the weights, fitted on the stored counts (:mod:`hammemo.votes.fitting`), say how far to trust it.
``softmax(S)`` are probabilities. In memory nothing changes: the counts are those of the other votes, and the weights
are not part of the state.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

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
    DenseFits,
    Fits,
    FittedWeights,
    LabelledContexts,
    TableFits,
    can_be_tables,
    features,
    tables_of,
)
from hammemo.votes.sparse_fitting import TouchedGains, fit_shared_weights, touched_gains

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.memories.ranker import Ranker
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Examples

Self = TypeVar("Self", bound="LogLinear")


class LogLinear(Vote):
    """Weighted sum of smoothed log-ratios of each site's label distribution to the prior; gives probabilities.

    `MemoryClassifier.fit` and `fit_stream` fit the weights to the stored counts, leaving each example out of its own
    rows, so no held-out split is needed; `MemoryClassifier.fit_vote` fits them again, or to examples of your choice.
    Until then, every site has weight 1, as in naive Bayes. `partial_fit`, `forget` and `merge` change counts but not
    fitted weights, and the sum of two models has the weights of the left one. If the examples have changed much, fit
    the weights again with `MemoryClassifier.refit`, which takes seconds and needs no data. The kernel's own weights
    are not used.

    Parameters
    ----------
    smoothing : float or sequence of float
        Number of pseudo-examples, distributed like the prior, that are added to every row. Several amounts give several
        log-ratios per site, and the fitted weights choose between them: small amounts suit rows with many counts,
        large ones rows with few.
    weights : sequence of float, optional
        One weight per site; if given, nothing is fitted.
    per_label : bool
        Whether each label has its own weights, in addition to the shared ones, and an offset.
    ridge : float
        Penalty on the differences between labels; above zero.
    sample : int
        The maximal number of distinct examples for fitting, those with the lowest hashes; fewer are used if
        features would take more than half a GiB.
    steps : int
        Steps of the optimisation.
    shared_ridge : float, optional
        If given, shared weights are fitted first, with this penalty on their distance to an average of the sites; then
        those of each label, with the penalty `ridge` on their distance to the shared ones. By default both are fitted
        at once.
    uniform : float
        The share of a uniform distribution in `predict_proba`, from 0 to below 1. It keeps the order of the
        labels, and no answer costs more than the logarithm of (the number of labels / this share).
    class_weight : "balanced", mapping from labels to weights or list of pairs, optional
        The weight of each label when probabilities are computed: the odds of a label are multiplied by its weight, 1
        by default. The share `uniform` is mixed in after that. "balanced" weighs labels by one over their share of the
        examples, so that all are equally likely before anything is known. Counts stay whole numbers. Files hold a list
        of pairs, not a mapping.

    Attributes
    ----------
    site_weights_ : ndarray of shape (S, J)
        Fitted weights of each site and amount of smoothing, for all labels.
    label_weights_ : ndarray of shape (S * J, number of labels at that time)
        What is added to these for each label; a label added later has zeros.
    offsets_ : ndarray of shape (number of labels at that time,)
    labels_ : Vocabulary
    base_weights_ : ndarray of shape (1 + number of labels at that time,)
        For tables with numbers: the weight of the additive base for all labels, and what is added to it for each.

    Examples
    --------
    >>> from hammemo import MemoryClassifier, windows
    >>> from hammemo.kernels import Suffixes
    >>> from hammemo.memories import Exact
    >>> from hammemo.votes import LogLinear
    >>> text = "the cat sat on the mat and the dog sat on the cat and the cat ate the rat on the mat".split()
    >>> X, y = windows([text], h=3)
    >>> clf = MemoryClassifier(Suffixes(3), Exact(), vote=LogLinear()).fit(X, y)
    >>> clf.predict([["dog", "sat", "on"]]).tolist()
    ['the']
    >>> clf.predict_proba([["dog", "sat", "on"]]).shape
    (1, 9)
    """

    def __init__(
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

    def with_class_weight(self, class_weight: Any) -> LogLinear:
        """Return this vote with class weights, checked."""
        weighed = copy.copy(self)
        weighed.class_weight = class_weight
        weighed.named_class_weights()
        return weighed

    @property
    def fits_weights(self) -> bool:
        """Whether weights come from examples: they are not given."""
        return self.weights is None

    @property
    def uniform_share(self) -> float:
        """The share of even probabilities mixed in."""
        return float(self.uniform)

    def ranker(self, reader: Reader, sites: Sites) -> Ranker:
        """Return what ranks by the rule that the weights and the reader's labels make."""
        reader = with_free_rows(reader, sites)
        if self._has_label_weights or self.class_weight is not None:
            return reader.with_rule(self.rule(reader, sites))
        shared = self._shared(sites.n)
        return reader.with_shared_weights(self.amounts(), shared, partial(self.rule, reader, sites))

    @property
    def _has_label_weights(self) -> bool:
        return hasattr(self, "labels_") and bool(self.per_label)

    def rule(self, reader: Reader, sites: Sites) -> RowRule:
        """Return the function of a row that the weights and the reader's labels make."""
        n_sites, smoothing = sites.n, self.amounts()
        prior = shares(reader.label_counts)
        base = np.log(prior) + self._label_odds(reader.labels, prior)
        shared = self._shared(n_sites)[:, :, None]
        if not self._has_label_weights:
            return RowRule(smoothing, shared, prior, base)
        weights, offsets = np.repeat(shared, len(prior), axis=2), np.zeros(len(prior))
        place = self.labels_.find(reader.labels)
        known = place >= 0
        weights[:, :, known] += self.label_weights_[:, place[known]].reshape(
            n_sites, len(smoothing), -1
        )
        offsets[known] = self.offsets_[place[known]]
        return RowRule(smoothing, weights, prior, base + offsets)

    def base_weights(self, labels: Vocabulary) -> Floats | None:
        """Return the weight of an additive base for each of these labels; None where there is none."""
        if not hasattr(self, "base_weights_"):
            return None
        place = self.labels_.find(labels)
        shared, differences = self.base_weights_[0], self.base_weights_[1:]
        return np.asarray(shared + np.where(place >= 0, differences[place], 0.0))

    def _label_odds(self, labels: Vocabulary, prior: Floats) -> Floats:
        """Return the logarithm of each label's weight."""
        if self.class_weight is None:
            return np.zeros(len(labels))
        named = self.named_class_weights()
        if named is None:
            return np.asarray(-np.log(len(labels) * prior))
        return np.asarray(np.log([named.get(label, 1.0) for label in labels]), np.float64)

    def named_class_weights(self) -> dict[Token, float] | None:
        """Return the weight of each label that `class_weight` names, checked; None for "balanced"."""
        given: Any = self.class_weight
        if isinstance(given, str) and given == "balanced":
            return None
        pairs = list(given.items()) if isinstance(given, Mapping) else given
        if not isinstance(pairs, (list, tuple)) or not all(
            isinstance(p, (list, tuple)) and len(p) == 2 for p in pairs
        ):
            raise ValueError(
                f"class_weight={given!r} is not known: use 'balanced' or a weight for each label."
            )
        if not all(is_number(weight) and 0 < weight < np.inf for _, weight in pairs):
            raise ValueError(f"class_weight={given!r}: weights are finite numbers above zero.")
        return {as_token(label): float(weight) for label, weight in pairs}

    def check_class_weight(self, labels: Vocabulary) -> None:
        """Refuse a class weight of a label that is none of these."""
        named = {} if self.class_weight is None else self.named_class_weights() or {}
        known = set(labels)
        unknown = next((label for label in named if label not in known), None)
        if unknown is not None:
            shown = ", ".join(map(repr, labels.tolist()[:5])) + (", …" if len(labels) > 5 else "")
            raise ValueError(
                f"class_weight= names the label {unknown!r}, which is not in y: its labels are {shown}. Use these "
                "labels, or declare others with classes=."
            )

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
        """Fit the weights to examples that the reader holds or, without leaving one out, to others."""
        reader, smoothing = with_free_rows(reader, sites), self.amounts()
        self._check_numbers()
        self._shared(sites.n)  # refuses weights that do not fit
        columns = reader.labels.find(examples.labels)[examples.label_ranks]
        numbers = sites.n * len(reader.labels) * len(smoothing)  # of one example
        most = max(1, MAX_FEATURES // max(numbers, 1))
        sparse = (
            reader
            if not self.per_label and most < int(self.sample) and isinstance(reader, SparseCounts)
            else None
        )
        chosen, multiplicity = self._chosen(
            examples, columns, most if sparse is None else int(self.sample), seed
        )
        if self.weights is not None or not len(chosen) or len(reader.labels) < 2:
            reader.site_counts(examples.contexts[:0])  # refuses a reader without rows
            return  # there is nothing to fit, or nothing to fit it to
        prior = shares(reader.label_counts)
        rows = LabelledContexts(
            examples.contexts[chosen], columns[chosen], prior, smoothing, leave_one_out
        )
        if sparse is not None:
            touched = touched_gains(sparse, rows, MAX_FEATURES)
            fitted = self._fitted_sparse(touched, multiplicity[: len(touched)], prior)
        elif isinstance(reader, SparseCounts) and can_be_tables(reader, sites, smoothing):
            tables = tables_of(reader, rows)
            fitted = self.fitted(TableFits(tables, multiplicity, prior, sites.n * len(smoothing)))
        else:
            ratios = features(reader, rows)
            fitted = self.fitted(DenseFits(ratios, rows.labels, multiplicity, prior))
        self.take_fitted(fitted, reader.labels, sites.n)

    def take_fitted(
        self, fitted: FittedWeights, labels: Vocabulary, n_sites: int, of_base: Floats | None = None
    ) -> None:
        """Take weights that were fitted for these labels, of sites and of an additive base."""
        if of_base is not None:
            self.base_weights_ = of_base
        self.site_weights_ = fitted.shared.reshape(n_sites, -1)
        self.label_weights_, self.offsets_ = fitted.differences, fitted.offsets
        self.labels_ = labels

    def _fitted_sparse(
        self, touched: TouchedGains, multiplicity: Ints, prior: Floats
    ) -> FittedWeights:
        """Return weights that all labels share, from the labels that rows hold."""
        n_features = touched.gains.shape[1]
        start = np.full(n_features, 1.0 / n_features)
        two_stages = self.shared_ridge is not None
        ridge, steps = (
            (self.shared_ridge, SHARED_STEPS) if two_stages else (self.ridge, int(self.steps))
        )
        shared = fit_shared_weights(
            touched, multiplicity, prior, start=start, ridge=float(ridge or 0), steps=steps
        )
        nothing = np.zeros((n_features, len(prior)))
        return FittedWeights(shared, nothing, np.zeros(len(prior)))

    def fitted(self, fits: Fits) -> FittedWeights:
        """Return the weights of these log-ratios, in one stage or in two."""
        start = np.full(
            fits.n_features, 1.0 / fits.n_features
        )  # an average of the sites' log-distributions
        ridge, steps, per_label = float(self.ridge), int(self.steps), bool(self.per_label)
        if self.shared_ridge is None:
            return fits.fit(start=start, ridge=ridge, per_label=per_label, steps=steps)
        most = max(SHARED_STEPS, steps)
        shared = fits.fit(start=start, ridge=float(self.shared_ridge), per_label=False, steps=most)
        advance(1, 1 + per_label)
        return (
            fits.fit(start=shared.shared, ridge=ridge, per_label=True, steps=steps)
            if per_label
            else shared
        )

    def sample_size(self) -> int:
        """Return the most examples that weights are fitted to; 0 where they are given, or fitted already."""
        self._check_numbers()
        return 0 if self.weights is not None or hasattr(self, "labels_") else int(self.sample)

    def state(self) -> dict[str, Array]:
        """Return the fitted weights and the labels they are for; empty where nothing was fitted."""
        if not hasattr(self, "labels_"):
            return {}
        labels = {f"labels.{name}": array for name, array in self.labels_.arrays().items()}
        weights = {
            "site_weights": self.site_weights_,
            "label_weights": self.label_weights_,
            "offsets": self.offsets_,
        }
        of_base = {"base_weights": self.base_weights_} if hasattr(self, "base_weights_") else {}
        return {**labels, **weights, **of_base}

    def restore(self, stored: StoredArrays, sites: Sites) -> None:
        """Take the fitted weights from a file, checked: undo `state`."""
        n_features = sites.n, len(self.amounts())
        self._check_numbers()
        self._shared(sites.n)
        if "site_weights" not in stored:
            return
        labels = Vocabulary.from_arrays(stored.part("labels"))
        self.site_weights_ = stored.finite("site_weights", "float64", n_features)
        self.label_weights_ = stored.finite(
            "label_weights", "float64", (n_features[0] * n_features[1], len(labels))
        )
        self.offsets_ = stored.finite("offsets", "float64", (len(labels),))
        if "base_weights" in stored:
            self.base_weights_ = stored.finite("base_weights", "float64", (1 + len(labels),))
        self.labels_ = labels

    def check_parameters(self) -> None:
        """Refuse parameters that are wrong for any sites."""
        self.amounts()
        self._check_numbers()

    def check_sites(self, sites: Sites) -> None:
        """Refuse given weights that are not one for each site."""
        self._shared(sites.n)

    def _chosen(self, examples: Examples, columns: Ints, most: int, seed: int) -> tuple[Ints, Ints]:
        """Return which examples to fit to, and how often each occurs.

        They are the distinct ones with the lowest hashes of those with a label of the memory, at most as many as are to
        be held: a function of the multiset of examples, so neither the order of rows nor their repetition matters.
        """
        rows, _, counts = distinct_examples(examples, seed)
        known = columns[rows] >= 0
        most = min(int(self.sample), most)
        return rows[known][:most], counts[known][:most]

    def amounts(self) -> tuple[float, ...]:
        """Return the amounts of smoothing, checked."""
        amounts = (
            self.smoothing
            if isinstance(self.smoothing, (Sequence, np.ndarray))
            else (self.smoothing,)
        )
        if not len(amounts) or not all(
            is_number(amount) and 0 < amount < 2.0**53 for amount in amounts
        ):
            raise ValueError(
                f"smoothing={self.smoothing!r} is a number above zero, or a list of them, such as (1, 10)."
            )
        return tuple(float(amount) for amount in amounts)

    def _check_numbers(self) -> None:
        if self.class_weight is not None:
            self.named_class_weights()
        for name in ("ridge", "shared_ridge"):
            value = getattr(self, name)
            if (name == "ridge" or value is not None) and not (
                is_number(value) and 0 < value < np.inf
            ):
                raise ValueError(f"{name}={value!r} is a number above zero, for example 5.")
        if not is_number(self.uniform) or not 0 <= self.uniform < 1:
            raise ValueError(
                f"uniform={self.uniform!r} is a share from 0 to below 1, for example 0.002."
            )
        self.check_whole("sample", "steps")

    def _shared(self, n_sites: int) -> Floats:
        """Return the weights of all labels, given, fitted, or 1 a site; shape (S, J)."""
        if self.weights is None and hasattr(self, "labels_"):
            return self.site_weights_
        if self.weights is None:
            n_amounts = len(self.amounts())
            return np.full((n_sites, n_amounts), 1.0 / n_amounts)
        values = np.asarray(self.weights, np.float64)
        if values.shape != (n_sites,) or not np.isfinite(values).all():
            raise ValueError(
                f"The kernel has {n_sites} sites, so it needs {n_sites} finite weights; weights={self.weights!r}."
            )
        n_amounts = len(self.amounts())
        return np.repeat(values[:, None] / n_amounts, n_amounts, axis=1)


def shares(label_counts: Ints) -> Floats:
    """Return each label's share of the examples, half an example added to each: a declared label has a share too."""
    counts = label_counts + 0.5
    return np.asarray(counts / counts.sum())
