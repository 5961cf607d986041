r"""The mixture vote: P(c) is a weighted sum of the label distributions of the rows that a query reads.

.. math:: P(c) = \sum_k \lambda_k P_k(c), \qquad \lambda_k = \frac{\exp \theta_{k, b_k}}{\sum_l \exp \theta_{l, b_l}},

where :math:`P_k` is the share of label c in the row that site k reads, and the sum goes over the sites that have a row.
Counts are lowered by modified discounts, so that a label that occurred once by chance says less. The weights
:math:`\theta` depend on the site and on what the row is like (:mod:`hammemo.votes.mixture.gates`). They are
fitted by the likelihood of a sample of stored examples, **each left out with its whole document or case**: windows of
one document overlap, and an example that is left out alone still finds its neighbours. Only :math:`P_k` of the label
that came is needed for that, so fitting costs the same for ten labels and for ten million.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.blas import one_blas_thread
from hammemo._arrays.checked import is_number
from hammemo._versions import cached_property
from hammemo.kernels.free_sites import find_places
from hammemo.memories.exact import Entries
from hammemo.memories.ranker import Ranker, SiteScores
from hammemo.tokens.distinct import distinct_examples
from hammemo.votes.base import Vote
from hammemo.votes.log_linear import label_shares
from hammemo.votes.mixture.gates import (
    BUCKETS,
    PRIOR,
    Components,
    fit_gates,
    left_out,
    probabilities,
    row_buckets,
    row_odds,
)
from hammemo.votes.mixture.leading import LiveLeaders, live_leaders
from hammemo.votes.mixture.popularity import (
    LEAST,
    MOST_SCORES,
    STEPS,
    DiscountedRanker,
    chosen_power,
    popularity,
    whole_cases,
)
from hammemo.votes.mixture.reading import (
    MIN_KEPT,
    LabelTerms,
    LeftOutRows,
    RowsRead,
    length_buckets,
    lost_of,
    read_rows,
    rows_reader,
    static_tables,
)
from hammemo.votes.mixture.row_shares import RowShares

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.kernels.sites import Site, Sites
    from hammemo.memories.ranker import LabelMask
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Contexts, Examples
    from hammemo.votes.mixture.gates import Terms
    from hammemo.votes.mixture.reading import StaticTables


class Mixture(Vote):
    """A weighted sum of the label distributions of the rows that a query reads: for next items and next tokens.

    It needs exact counts, and also reads sites without a position (`Bag`, `Together`, `Copy`, `Recent`). `fit` and
    `fit_stream` fit the weights; until then all components have the same weight. After `forget_stream` and `refit`,
    weights and answers are those of a model that never saw the forgotten documents.

    Parameters
    ----------
    continuation : bool
        Whether to use how many different tokens came before a suffix and a label: better for language. It is derived
        from the table after each edit, which takes seconds if the table is large.
    ridge : float
        Penalty on the weights; above zero.
    sample : int
        The approximate number of examples for fitting: whole cases, those with the lowest hashes.
    steps : int
        The maximal number of optimisation steps.
    prune : float
        How much likelihood, in nats per example of that sample, may be lost by leaving out uninformative sites;
        answers are then faster. The counts of these sites are kept: `refit` decides again.
    discount : float or "auto"
        An exponent, at least 0 and below 1: `top_k` ranks labels by their probability over a power of their number of
        examples, so that popular ones come later (``hammemo.votes.mixture.popularity``). It is rounded to a
        multiple of 1/64. "auto": `fit` and `refit` choose it from kept documents; 0 where none is surely better.
        `predict` and `predict_proba` do not use it, so ``top_k(X, 1)`` may differ from ``predict(X)``.

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
    >>> clf = MemoryClassifier(Suffixes(2) + Copy(3), vote=Mixture()).fit_stream(sessions, h=3, short="pad")
    >>> clf.top_k([["lamp", "box", "lamp"], ["pen", "ink", "pen"]], k=1).tolist()
    [['cup'], ['ink']]
    """

    has_probabilities = True
    reads_free_sites = True
    needs_exact_rows = True
    keeps_cases = True

    def __init__(
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

    def ranker(self, reader: Reader, sites: Sites) -> Ranker:
        """Return what ranks by the mixture."""
        return MixtureRanker(
            rows_reader(reader), self.components(sites), *self._fitted(sites), self._power()
        )

    def probabilities(self, scores: Floats) -> Floats:
        """Return the scores, which are probabilities, divided by their sum: rounding is all that this mends."""
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def log_probabilities(self, scores: Floats) -> Floats:
        """Return the logarithms."""
        return np.log(self.probabilities(scores))

    def label_probabilities(self, reader: Reader, examples: Examples, sites: Sites) -> Floats:
        """Return the probability of the label of each example, without those of the other labels; 0 if it is none."""
        known = reader.labels.find(examples.labels)[examples.label_ranks] >= 0
        found = np.zeros(len(examples))
        if known.any():
            weights, discounts = self._fitted(sites)
            tables = static_tables(rows_reader(reader), self.components(sites))
            asked = examples.rows(np.flatnonzero(known))
            terms = LabelTerms(tables, discounts, asked, leave_out=False).all()
            found[known] = probabilities(terms, weights, len(asked))
        return found

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
        """Fit the weights to examples that the reader holds or, without leaving cases out, to others."""
        self._check_numbers()
        tables = static_tables(rows_reader(reader), self.components(sites))
        chosen, multiplicity = self._chosen(reader, examples, seed)
        if not len(chosen) or len(reader.labels) < 2:
            return
        self.discounts_ = tables.discounts()
        terms = LabelTerms(tables, self.discounts_, chosen, leave_out=leave_one_out).all()
        self.weights_ = self._pruned(terms, multiplicity, tables.components)
        if self.discount == "auto":
            can_choose = leave_one_out and not self.continuation
            self.discount_ = self._chosen_power(tables, chosen) / STEPS if can_choose else 0.0

    def _chosen_power(self, tables: StaticTables, examples: Examples) -> int:
        """Return the exponent of the discount, in steps, that ranks the labels of examples best."""
        counts, cases = tables.reader.label_counts, examples.cases
        places = whole_cases(
            np.arange(len(examples)) if cases is None else cases, MOST_SCORES // len(counts)
        )
        if len(places) < LEAST:
            return 0
        asked = LabelTerms(tables, self.discounts_, examples.rows(places), leave_out=True)
        ranker = MixtureRanker(tables.reader, tables.components, self.weights_, self.discounts_)
        rows, contexts = LeftOutRows(asked), asked.examples.contexts

        def scores(part: slice, left: Ints) -> Floats:
            return ranker.scores_from(contexts[part], rows.read(part), left)

        return chosen_power(scores, counts, asked.labels, asked.cases)

    def _power(self) -> int:
        """Return the exponent of the discount, in steps."""
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

    def _pruned(self, terms: Terms, multiplicity: Ints, components: Components) -> Floats:
        """Return the fitted weights; those of sites that say little are minus infinity."""
        numbers = components.n, float(self.ridge), int(self.steps)
        weights = fit_gates(terms, multiplicity, *numbers)
        gone = (
            left_out(terms, multiplicity, weights, components.groups, float(self.prune))
            if self.prune
            else None
        )
        if gone is not None and gone.any():
            weights = fit_gates(
                terms.only(~gone[terms.components]), multiplicity, *numbers, start=weights
            )
            weights[gone] = -np.inf
        return weights

    def _chosen(self, reader: Reader, examples: Examples, seed: int) -> tuple[Examples, Ints]:
        """Return the examples to fit to, and how often each counts: all of a kept sample, else distinct ones."""
        rows, counts = np.arange(len(examples)), examples.multiplicity
        if examples.cases is None:
            rows, _, counts = distinct_examples(examples, seed)
        known = (reader.labels.find(examples.labels)[examples.label_ranks] >= 0)[rows]
        rows, counts = rows[known], counts[known]
        if examples.cases is None:
            rows, counts = rows[: int(self.sample)], counts[: int(self.sample)]
        return examples.rows(rows), counts

    def sample_size(self) -> int:
        """Return the most examples that weights are fitted to; 0 where they are fitted already."""
        self._check_numbers()
        return 0 if hasattr(self, "weights_") else int(self.sample)

    def unread(self, sites: Sites) -> tuple[str, ...]:
        """Return the names of the sites that it leaves out, because they say little."""
        if not hasattr(self, "weights_"):
            return ()
        components = self.components(sites)
        gone = np.unique(components.groups[np.isneginf(self.weights_).all(axis=1)])
        return tuple(components.group_names[group] for group in gone)

    def check_parameters(self) -> None:
        """Refuse parameters that are wrong for any sites."""
        self._check_numbers()

    def state(self) -> dict[str, Array]:
        """Return the fitted weights; empty where nothing was fitted."""
        if not hasattr(self, "weights_"):
            return {}
        state: dict[str, Array] = {"weights": self.weights_, "discounts": self.discounts_}
        used = np.asarray(np.isfinite(self.weights_).all(axis=1))
        if not used.all():
            state |= {
                "weights": np.where(used[:, None], self.weights_, 0.0),
                "used": used.astype(np.uint8),
            }
        if self.discount == "auto" and self._power():
            state["power"] = np.array([self._power()], np.uint8)
        return state

    def restore(self, stored: StoredArrays, sites: Sites) -> None:
        """Take the fitted weights from a file, checked: undo `state`."""
        self._check_numbers()
        if "weights" not in stored:
            return
        components = self.components(sites)
        weights = stored.finite("weights", "float64", (components.n, BUCKETS))
        discounts = stored.finite("discounts", "float64", (components.n_tables, 4))
        if (
            np.abs(weights).max(initial=0) > _MAX_LOG_WEIGHT
            or not ((discounts >= 0) & (discounts < _LOST)).all()
        ):
            raise ValueError("weights or discounts of its mixture are impossible")
        if "used" in stored:
            used = stored.whole_numbers("used", (components.n,), below=2)
            if not used[PRIOR]:
                raise ValueError("its mixture has no prior")
            weights = np.where(used[:, None] > 0, weights, -np.inf)
        self.weights_, self.discounts_ = weights, discounts
        if "power" in stored:
            if self.discount != "auto":
                raise ValueError("its mixture has chosen a discount that is given")
            self.discount_ = int(stored.whole_numbers("power", (1,), below=STEPS)[0]) / STEPS

    def _fitted(self, sites: Sites) -> tuple[Floats, Floats]:
        """Return weights and discounts, fitted or even."""
        if hasattr(self, "weights_"):
            return self.weights_, self.discounts_
        components = self.components(sites)
        return np.zeros((components.n, BUCKETS)), np.zeros((components.n_tables, 4))

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
                f'discount={self.discount!r} is "auto", or a number from 0 to below 1, for example 0.125.'
            )
        self.check_whole("sample", "steps")


_MAX_LOG_WEIGHT = 500.0
"""Logarithms beyond it are no fitted weights, and their exponentials no numbers."""

_LOST = np.array([1e-300, 1.0, 2.0, 3.0])
"""An entry loses less than its count."""


class MixtureRanker(Ranker):
    """Ranks labels by the mixture, from all rows that a context reads.

    Parameters
    ----------
    reader : SparseCounts
    components : Components
    weights : ndarray of shape (components, 16)
    discounts : ndarray of shape (tables, 4)
    power : int
        The exponent of the discount of popular labels, in steps.
    """

    def __init__(
        self,
        reader: Any,
        components: Components,
        weights: Floats,
        discounts: Floats,
        power: int = 0,
    ) -> None:
        super().__init__(
            len(reader.labels), len(reader.labels) * (1 + len(components.sites.positions))
        )
        self._reader = reader
        self._components = components
        self._weights = weights
        self._discounts = discounts
        self._power = power

    @cached_property
    def _trust(self) -> Floats:
        return np.exp(self._weights)

    def scores(self, contexts: Contexts) -> Floats:
        """Return the probability of each label."""
        parts, totals, prior = self._read(contexts)
        return self._added_up(parts, totals) + prior

    def scores_from(self, contexts: Contexts, read: list[RowsRead], label_counts: Ints) -> Floats:
        """Return the probability of each label from rows that were read otherwise, and other numbers of examples.

        Shapes
        ------
        label_counts, returned : (m, L)
        """
        parts, totals = self._weighed_all(contexts, read)
        all_examples = label_counts.sum(axis=1) + 0.5 * self.n_labels
        prior = (self._trust[PRIOR, 0] / totals / all_examples)[:, None] * (label_counts + 0.5)
        return np.asarray(self._added_up(parts, totals) + prior)

    def _added_up(self, parts: list[RowShares], totals: Floats) -> Floats:
        scores = np.zeros((len(totals), self.n_labels))
        for part in parts:
            scores += part.added_up(totals, self.n_labels)
        return scores

    @cached_property
    def _leading(self) -> LiveLeaders | None:
        return live_leaders(self._reader, self._components, self._trust, self._discounts)

    @property
    def reads_rows(self) -> bool:
        """Whether the leading labels are found in live tables."""
        return self._leading is not None

    def winners(self, contexts: Contexts) -> Ints:
        """Return the column of the highest probability of each context, the first one among equals."""
        return (
            super().winners(contexts)
            if self._leading is None
            else self._leading.leaders(contexts, 1)[:, 0]
        )

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest probabilities, best first, equals in column order."""
        k = min(k, self.n_labels)
        return (
            super().leaders(contexts, k)
            if self._leading is None
            else self._leading.leaders(contexts, k)
        )

    @cached_property
    def _discounted(self) -> DiscountedRanker:
        return DiscountedRanker(self, popularity(self._reader.label_counts, self._power))

    def rank(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest probabilities over the popularity of the labels."""
        k = min(k, self.n_labels)
        if self._leading is None and self._power:
            return self._discounted.leaders(contexts, k)
        return (
            self.leaders(contexts, k)
            if self._leading is None
            else self._leading.leaders(contexts, k, self._power)
        )

    def leaders_by_mask(
        self, contexts: Contexts, k: int, mask: LabelMask, *, with_scores: bool = True
    ) -> tuple[Ints, Floats | None]:
        """Return the same among allowed labels, and what they are ranked by."""
        if self._leading is not None:
            k = min(k, self.n_labels)
            return self._leading.leaders_by_mask(
                contexts, k, mask, with_scores=with_scores, power=self._power
            )
        if self._power:
            return self._discounted.leaders_by_mask(contexts, k, mask, with_scores=with_scores)
        return super().leaders_by_mask(contexts, k, mask, with_scores=with_scores)

    def _read(self, contexts: Contexts) -> tuple[list[RowShares], Floats, Floats]:
        """Return what each context reads, the sum of all its trust, and what the prior adds: (m,), (m, L)."""
        read = read_rows(self._reader, self._components, self._discounts, contexts)
        parts, totals = self._weighed_all(contexts, read)
        return (
            parts,
            totals,
            np.outer(self._trust[PRIOR, 0] / totals, label_shares(self._reader.label_counts)),
        )

    def _weighed_all(
        self, contexts: Contexts, read: list[RowsRead]
    ) -> tuple[list[RowShares], Floats]:
        """Return what was read and what tokens say, with the trust of each, and the sum of all trust of a context."""
        parts = [*(self._weighed(part) for part in read), *self._tokens(contexts)]
        trust = sum(np.bincount(part.contexts, part.trust, len(contexts)) for part in parts)
        return parts, np.asarray(self._trust[PRIOR, 0] + trust)

    def _weighed(self, read: RowsRead) -> RowShares:
        """Return rows with their trust and the shares of their entries; those that say nothing have no trust."""
        totals, discounted = read.totals, lost_of(read.classes, read.lost)
        kept = totals - discounted
        active = (totals > 0) & (kept > MIN_KEPT)
        trust = self._trust[read.components, row_buckets(totals)] * row_odds(totals, discounted)
        trust, kept = np.where(active, trust, 0.0), np.where(active, kept, 1.0)
        return RowShares(
            read.contexts, read.components, trust, read.entries, read.lost, kept, read.distances
        )

    def _tokens(self, contexts: Contexts) -> list[RowShares]:
        """Return what says that the label is a token of the context."""
        parts = []
        columns = np.append(self._reader.labels.find(contexts.vocabulary), -1)
        for k, site in enumerate(self._components.sites.free):
            if site.kind == "copy":
                places = find_places(contexts.ranks, site.reach)
                held = columns[places.ranks] >= 0
                owners = places.contexts[held]
                components = self._components.free(k, places.distances[held])
                trust = self._trust[components, length_buckets(contexts.ranks, site.reach)[owners]]
                ones = np.ones(len(owners), np.int64)
                said = Entries(ones, columns[places.ranks[held]], ones)
                distances = places.distances[held]
                parts.append(
                    RowShares(
                        owners,
                        components,
                        trust,
                        said,
                        _no_loss(ones),
                        np.ones(len(ones)),
                        distances,
                    )
                )
            elif site.kind == "recent":
                last = columns[contexts.ranks[:, contexts.h - site.reach :]]
                owners, _ = np.nonzero(last >= 0)
                lengths = np.bincount(owners, minlength=len(last))
                components = np.full(len(last), self._components.free(k))
                trust = np.where(lengths > 0, self._trust[components, 0], 0.0)
                said = Entries(lengths, last[last >= 0], np.ones(len(owners), np.int64))
                kept = np.maximum(lengths, 1.0)
                parts.append(
                    RowShares(
                        np.arange(len(last)), components, trust, said, _no_loss(lengths), kept
                    )
                )
        return parts

    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
        """Return what each site, and each token of a site without a position, adds to the probability."""
        (parts, totals, prior), m = self._read(contexts), len(contexts)
        base = prior[:, columns]
        names = explained_parts(self._components)
        place = {name: number for number, name in enumerate(names)}
        values = np.zeros((m, len(names), len(columns)))
        where = np.full(self.n_labels, -1)
        where[columns] = np.arange(len(columns))
        for part in parts:
            entries = part.entries
            owners = np.repeat(np.arange(len(part.contexts)), entries.lengths)
            shown = where[entries.columns] >= 0
            said = (part.trust / totals[part.contexts])[owners[shown]] * part.values()[shown]
            for row, column, value in zip(
                owners[shown], where[entries.columns[shown]], said, strict=True
            ):
                name = self._name(part, int(row))
                target = (
                    base[part.contexts[row]]
                    if name is None
                    else values[part.contexts[row], place[name]]
                )
                target[column] += value
        return SiteScores(values, values, values, base=base, parts=tuple(names))

    def _name(self, part: RowShares, row: int) -> tuple[str, Site] | None:
        """Return what a row of a part is called; None for the prior."""
        component, components = int(part.components[row]), self._components
        positions, free = components.sites.positions, components.sites.free
        if component <= len(positions):
            return "", positions[component - 1]
        number = component - 1 - len(positions)
        if number < len(components.continued):  # shown with the suffix that it speaks of
            shorter = components.continued[number][1]
            return None if shorter < 0 else ("", positions[shorter])
        site = free[max(k for k in range(len(free)) if int(components.free(k)) <= component)]
        if part.distances is None:
            return site.name, ()
        return site.name, (components.sites.h - int(part.distances[row]),)


def _no_loss(rows: Ints) -> Floats:
    """Return the discounts of rows whose entries lose nothing."""
    return np.zeros((len(rows), 4))


def explained_parts(components: Components) -> list[tuple[str, Site]]:
    """Return the rows of an explanation: the sites, then the places of each site without a position, nearest first."""
    names: list[tuple[str, Site]] = [("", site) for site in components.sites.positions]
    for site in components.sites.free:
        places = (
            [()]
            if site.kind == "recent"
            else [(components.sites.h - d,) for d in range(1, site.reach + 1)]
        )
        names += [(site.name, place) for place in places]
    return names
