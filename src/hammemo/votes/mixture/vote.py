r"""The mixture vote: P(c) is a weighted sum of the label distributions of a query's rows.

.. math:: P(c) = \sum_k \lambda_k P_k(c),
    \qquad \lambda_k = \frac{\exp \theta_{k, b_k}}{\sum_l \exp \theta_{l, b_l}},

where :math:`P_k` is the share of label c in the row that site k reads, and the sum goes over the
sites that have a row. Counts are lowered by modified discounts, so that a label that occurred once
by chance says less. The weights :math:`\theta` depend on the site and on what the row is like
(:mod:`hammemo.votes.mixture.gates`). They are fitted by the likelihood of a sample of stored
examples, **each left out with its whole document or case**: windows of one document overlap, and an
example that is left out alone still finds its neighbours. Only :math:`P_k` of the observed label is
needed for that, so fitting costs the same for ten labels and for ten million.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo._arrays.blas import one_blas_thread
from hammemo._arrays.checked import is_number
from hammemo.tokens.distinct import distinct_examples
from hammemo.votes.base import Vote
from hammemo.votes.mixture.gates import (
    BUCKETS,
    PRIOR,
    Components,
    compute_probabilities,
    find_prunable,
    fit_gates,
)
from hammemo.votes.mixture.label_terms import LabelTerms
from hammemo.votes.mixture.popularity import (
    LEAST,
    MOST_SCORES,
    STEPS,
    choose_power,
    take_whole_cases,
)
from hammemo.votes.mixture.ranker import MixtureRanker
from hammemo.votes.mixture.row_reads import LeftOutRows
from hammemo.votes.mixture.static_tables import get_static_tables, require_rows

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.memories.ranker import Ranker
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Examples
    from hammemo.votes.mixture.gates import Terms
    from hammemo.votes.mixture.static_tables import StaticTables

_MAX_LOG_WEIGHT: Final = 500.0
"""Logarithms beyond it are no fitted weights, and their exponentials no numbers."""

_DISCOUNT_LIMITS: Final = np.array([1e-300, 1.0, 2.0, 3.0])
"""An entry loses less than its count: the limits of discounts of the counts 0, 1, 2, and 3."""


class MixtureWeights(NamedTuple):
    """What a mixture ranks with."""

    weights: Floats
    """The logarithms of the weights: (components, 16)."""
    discounts: Floats
    """What entries of counts 0, 1, 2, and 3 or more lose: (tables, 4)."""


class _FittingSample(NamedTuple):
    """Examples that weights are fitted to, and how often each counts."""

    examples: Examples
    multiplicity: Ints


class Mixture(Vote):
    """A weighted sum of the label distributions of the rows that a query reads.

    It is for next items and next tokens. It needs exact counts, and also reads sites without a
    position (`Bag`, `Together`, `Copy`, `Recent`). `fit` and `fit_stream` fit the weights; until
    then all components have the same weight. After `forget_stream` and `refit`, weights and answers
    are those of a model that never saw the forgotten documents.

    Parameters
    ----------
    continuation : bool
        Whether to use how many different tokens came before a suffix and a label: better for
        language. It is derived from the table after each edit, which takes seconds if the table is
        large.
    ridge : float
        Penalty on the weights; above zero.
    sample : int
        The approximate number of examples for fitting: whole cases, those with the lowest hashes.
    steps : int
        The maximal number of optimisation steps.
    prune : float
        How much likelihood, in nats per example of that sample, may be lost by leaving out
        uninformative sites; answers are then faster. The counts of these sites are kept: `refit`
        decides again.
    discount : float or "auto"
        An exponent, at least 0 and below 1: `top_k` ranks labels by their probability over a power
        of their number of examples, so that popular ones come later
        (``hammemo.votes.mixture.popularity``). It is rounded to a multiple of 1/64. "auto": `fit`
        and `refit` choose it from kept documents; 0 where none is surely better. `predict` and
        `predict_proba` do not use it, so ``top_k(X, 1)`` may differ from ``predict(X)``.

    Attributes
    ----------
    weights_ : ndarray of shape (components, 16)
        Minus infinity for components that are left out.
    discounts_ : ndarray of shape (tables, 4)
    discount_ : float
        The exponent that is used.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.kernels import Copy, Suffixes
    >>> from hammemo.votes import Mixture
    >>> sessions = [["tea", "cup", "tea"], ["pen", "ink", "pen"], ["cup", "tea", "cup"]] * 20
    >>> clf = MemoryClassifier(Suffixes(2) + Copy(3), vote=Mixture())
    >>> clf = clf.fit_stream(sessions, h=3, short="pad")
    >>> clf.top_k([["lamp", "box", "lamp"], ["pen", "ink", "pen"]], k=1).tolist()
    [['cup'], ['ink']]
    """

    has_probabilities = True
    reads_free_sites = True
    needs_exact_rows = True
    keeps_cases = True

    def __init__(  # noqa: PLR0917  users may pass these by position
        self,
        continuation: bool = False,
        ridge: float = 1.0,
        sample: int = 50_000,
        steps: int = 100,
        prune: float = 0.0,
        discount: float | str = 0.0,
    ) -> None:
        self.continuation = continuation
        self.ridge = ridge
        self.sample = sample
        self.steps = steps
        self.prune = prune
        self.discount = discount

    def components(self, sites: Sites) -> Components:
        """Return the components for these sites."""
        return Components(sites, bool(self.continuation))

    # Answers

    def ranker(self, reader: Reader, sites: Sites) -> Ranker:
        """Return what ranks by the mixture."""
        weights, discounts = self._read_weights(sites)
        components = self.components(sites)
        return MixtureRanker(
            require_rows(reader), components, weights, discounts, power=self._power
        )

    def probabilities(self, scores: Floats) -> Floats:
        """Return the scores, which are probabilities, divided by their sum: that mends rounding."""
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def log_probabilities(self, scores: Floats) -> Floats:
        """Return the logarithms."""
        return np.log(self.probabilities(scores))

    def label_probabilities(self, reader: Reader, examples: Examples, sites: Sites) -> Floats:
        """Return the probability of each example's label, without those of the other labels.

        It is 0 for what is no label.
        """
        columns = reader.labels.find(examples.labels)[examples.label_ranks]
        is_label = columns >= 0
        probabilities = np.zeros(len(examples))
        if is_label.any():
            weights, discounts = self._read_weights(sites)
            tables = get_static_tables(require_rows(reader), self.components(sites))
            labelled = examples.rows(np.flatnonzero(is_label))
            terms = LabelTerms(tables, discounts, labelled, leave_out=False).compute()
            probabilities[is_label] = compute_probabilities(terms, weights, len(labelled))
        return probabilities

    @property
    def _power(self) -> int:
        """The exponent of the discount, in steps."""
        return round(self.discount_ * STEPS)

    @property
    def discount_(self) -> float:
        """The exponent of the discount of popular labels that is used."""
        if self.discount == "auto":
            return float(vars(self).get("_chosen_discount", 0.0))
        return round(float(self.discount) * STEPS) / STEPS

    @discount_.setter
    def discount_(self, value: float) -> None:
        self._chosen_discount = value

    def _read_weights(self, sites: Sites) -> MixtureWeights:
        """Return weights and discounts: fitted, or even weights and no discounts."""
        if hasattr(self, "weights_"):
            return MixtureWeights(self.weights_, self.discounts_)
        components = self.components(sites)
        return MixtureWeights(np.zeros((components.n, BUCKETS)), np.zeros((components.n_tables, 4)))

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
        """Fit the weights to examples of the reader or, without leaving cases out, to others."""
        self._check_numbers()
        tables = get_static_tables(require_rows(reader), self.components(sites))
        sample, multiplicity = self._choose_sample(reader, examples, seed)
        if not len(sample) or len(reader.labels) < 2:
            return
        self.discounts_ = tables.discounts()
        terms = LabelTerms(tables, self.discounts_, sample, leave_out=leave_one_out).compute()
        self.weights_ = self._fit_weights(terms, multiplicity, tables.components)
        if self.discount == "auto":
            power = 0
            if leave_one_out and not self.continuation:
                power = self._choose_power(tables, sample)
            self.discount_ = power / STEPS

    def _choose_sample(self, reader: Reader, examples: Examples, seed: int) -> _FittingSample:
        """Choose the examples to fit to: all of a kept sample, otherwise distinct ones."""
        if examples.cases is None:
            rows, _, counts = distinct_examples(examples, seed)
        else:
            rows = np.arange(len(examples))
            counts = examples.multiplicity
        columns = reader.labels.find(examples.labels)[examples.label_ranks]
        has_label = columns[rows] >= 0
        rows = rows[has_label]
        counts = counts[has_label]
        if examples.cases is None:
            max_rows = int(self.sample)
            rows = rows[:max_rows]
            counts = counts[:max_rows]
        return _FittingSample(examples.rows(rows), counts)

    def _fit_weights(self, terms: Terms, multiplicity: Ints, components: Components) -> Floats:
        """Return the fitted weights; those of sites that say little are minus infinity."""
        ridge = float(self.ridge)
        steps = int(self.steps)
        weights = fit_gates(
            terms, multiplicity, n_components=components.n, ridge=ridge, steps=steps
        )
        if not self.prune:
            return weights
        is_pruned = find_prunable(
            terms, multiplicity, weights, groups=components.groups, max_loss=float(self.prune)
        )
        if is_pruned.any():
            weights = fit_gates(
                terms.select(~is_pruned[terms.components]),
                multiplicity,
                n_components=components.n,
                ridge=ridge,
                steps=steps,
                start=weights,
            )
            weights[is_pruned] = -np.inf
        return weights

    def _choose_power(self, tables: StaticTables, examples: Examples) -> int:
        """Return the exponent of the discount, in steps, that ranks the labels of examples best."""
        counts = tables.reader.label_counts
        cases = examples.cases
        if cases is None:
            cases = np.arange(len(examples))
        places = take_whole_cases(cases, MOST_SCORES // len(counts))
        if len(places) < LEAST:
            return 0
        terms = LabelTerms(tables, self.discounts_, examples.rows(places), leave_out=True)
        ranker = MixtureRanker(tables.reader, tables.components, self.weights_, self.discounts_)
        left_out_rows = LeftOutRows(terms)
        contexts = terms.examples.contexts

        def compute_scores(piece: slice, other_counts: Ints) -> Floats:
            return ranker.scores_from(contexts[piece], left_out_rows.read(piece), other_counts)

        return choose_power(compute_scores, counts, terms.labels, terms.cases)

    def sample_size(self) -> int:
        """Return the most examples that weights are fitted to; 0 where they are fitted already."""
        self._check_numbers()
        return 0 if hasattr(self, "weights_") else int(self.sample)

    def unread(self, sites: Sites) -> tuple[str, ...]:
        """Return the names of the sites that the vote leaves out, because they say little."""
        if not hasattr(self, "weights_"):
            return ()
        components = self.components(sites)
        is_pruned = np.isneginf(self.weights_).all(axis=1)
        names = components.group_names
        return tuple(names[group] for group in np.unique(components.groups[is_pruned]))

    # Files

    def state(self) -> dict[str, Array]:
        """Return the fitted weights; empty where nothing was fitted."""
        if not hasattr(self, "weights_"):
            return {}
        state: dict[str, Array] = {"weights": self.weights_, "discounts": self.discounts_}
        is_used = np.asarray(np.isfinite(self.weights_).all(axis=1))
        if not is_used.all():  # files hold finite numbers
            state["weights"] = np.where(is_used[:, None], self.weights_, 0.0)
            state["used"] = is_used.astype(np.uint8)
        if self.discount == "auto" and self._power:
            state["power"] = np.array([self._power], np.uint8)
        return state

    def restore(self, stored: StoredArrays, sites: Sites) -> None:
        """Take the fitted weights from a file, checked: undo `state`."""
        self._check_numbers()
        if "weights" not in stored:
            return
        components = self.components(sites)
        weights = stored.finite("weights", "float64", (components.n, BUCKETS))
        discounts = stored.finite("discounts", "float64", (components.n_tables, 4))
        are_possible = (
            np.abs(weights).max(initial=0) <= _MAX_LOG_WEIGHT
            and ((discounts >= 0) & (discounts < _DISCOUNT_LIMITS)).all()
        )
        if not are_possible:
            raise ValueError("weights or discounts of its mixture are impossible")
        if "used" in stored:
            is_used = stored.whole_numbers("used", (components.n,), below=2)
            if not is_used[PRIOR]:
                raise ValueError("its mixture has no prior")
            weights = np.where(is_used[:, None] > 0, weights, -np.inf)
        self.weights_ = weights
        self.discounts_ = discounts
        if "power" in stored:
            if self.discount != "auto":
                raise ValueError("its mixture has chosen a discount that is given")
            self.discount_ = int(stored.whole_numbers("power", (1,), below=STEPS)[0]) / STEPS

    # Checks

    def check_parameters(self) -> None:
        """Refuse parameters that are wrong for any sites."""
        self._check_numbers()

    def _check_numbers(self) -> None:
        if not is_number(self.ridge) or not 0 < self.ridge < np.inf:
            raise ValueError(f"ridge={self.ridge!r} is a number above zero, for example 1.")
        if not is_number(self.prune) or not 0 <= self.prune < np.inf:
            raise ValueError(
                f"prune={self.prune!r} is a number of nats, zero or above, for example 0.003."
            )
        if isinstance(self.discount, str):
            if self.discount != "auto":
                raise ValueError(
                    f'discount={self.discount!r} is not a number: use "auto", or one such as 0.125.'
                )
        elif not is_number(self.discount) or not 0 <= self.discount < (STEPS - 0.5) / STEPS:
            raise ValueError(
                f'discount={self.discount!r} is "auto", or a number from 0 to below 1, '
                "for example 0.125."
            )
        self.check_whole("sample", "steps")
