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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.blas import one_blas_thread
from hammemo._versions import cached_property
from hammemo.kernels.free_sites import distinct_places
from hammemo.memories.contributions import SiteScores
from hammemo.memories.ranker import Ranker
from hammemo.tokens.distinct import distinct_examples
from hammemo.votes.base import Vote
from hammemo.votes.log_linear import shares
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
from hammemo.votes.mixture.reading import (
    MIN_KEPT,
    LabelTerms,
    RowsRead,
    length_buckets,
    lost_of,
    read_rows,
    rows_reader,
    static_tables,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels.sites import Site, Sites
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Contexts, Examples
    from hammemo.votes.mixture.gates import Terms


class Mixture(Vote):
    """A weighted sum of the label distributions of the rows that a query reads: for next items and next tokens.

    It reads exact counts, sites without a position too (`Bag`, `Together`, `Copy`, `Recent`). `fit` and `fit_stream`
    fit the weights; until then all components have the same weight. After `forget_stream` and `refit`, weights and
    answers are those of a model that never saw what was forgotten.

    Parameters
    ----------
    continuation : bool
        Whether suffixes also tell how many different tokens came before them and a label: better for language. It is
        derived from the table, anew after each edit, which takes seconds where the table is large.
    ridge : float
        How strongly weights are kept small; above zero.
    sample : int
        About how many examples weights are fitted to: whole cases, those with the lowest hashes.
    steps : int
        The most steps of the optimisation.
    prune : float
        How much likelihood, in nats an example of that sample, may be given up by leaving out sites that say little;
        answers come sooner then. The counts of these sites are kept: `refit` decides anew.

    Attributes
    ----------
    weights_ : ndarray of shape (components, 16)
        Minus infinity for what is left out.
    discounts_ : ndarray of shape (tables, 4)

    Examples
    --------
    >>> from hammemo import Copy, MemoryClassifier, Mixture, Suffixes
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
    ) -> None:
        self.continuation = continuation
        self.ridge = ridge
        self.sample = sample
        self.steps = steps
        self.prune = prune

    def components(self, sites: Sites) -> Components:
        """Return the components for these sites."""
        return Components(sites, bool(self.continuation))

    def ranker(self, reader: Reader, sites: Sites) -> Ranker:
        """Return what ranks by the mixture."""
        return MixtureRanker(rows_reader(reader), self.components(sites), *self._fitted(sites))

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores, which are probabilities, divided by their sum: rounding is all that this mends."""
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def log_probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithms."""
        return np.log(self.probabilities(scores))

    def label_probabilities(self, reader: Reader, examples: Examples, sites: Sites) -> NDArray[np.float64]:
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
        self, reader: Reader, examples: Examples, sites: Sites, *, seed: int = 0, leave_one_out: bool = True
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

    def _pruned(self, terms: Terms, multiplicity: NDArray[np.int64], components: Components) -> NDArray[np.float64]:
        """Return the fitted weights; those of sites that say little are minus infinity."""
        numbers = components.n, float(self.ridge), int(self.steps)
        weights = fit_gates(terms, multiplicity, *numbers)
        gone = left_out(terms, multiplicity, weights, components.groups, float(self.prune)) if self.prune else None
        if gone is not None and gone.any():
            weights = fit_gates(terms.only(~gone[terms.components]), multiplicity, *numbers, start=weights)
            weights[gone] = -np.inf
        return weights

    def _chosen(self, reader: Reader, examples: Examples, seed: int) -> tuple[Examples, NDArray[np.int64]]:
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

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the fitted weights; empty where nothing was fitted."""
        if not hasattr(self, "weights_"):
            return {}
        state: dict[str, NDArray[Any]] = {"weights": self.weights_, "discounts": self.discounts_}
        used = np.asarray(np.isfinite(self.weights_).all(axis=1))
        if not used.all():
            state |= {"weights": np.where(used[:, None], self.weights_, 0.0), "used": used.astype(np.uint8)}
        return state

    def restore(self, stored: StoredArrays, sites: Sites) -> None:
        """Take the fitted weights from a file, checked: undo `state`."""
        self._check_numbers()
        if "weights" not in stored:
            return
        components = self.components(sites)
        weights = stored.finite("weights", "float64", (components.n, BUCKETS))
        discounts = stored.finite("discounts", "float64", (components.n_tables, 4))
        if np.abs(weights).max(initial=0) > _MAX_LOG_WEIGHT or not ((discounts >= 0) & (discounts < _LOST)).all():
            raise ValueError("weights or discounts of its mixture cannot be")
        if "used" in stored:
            used = stored.whole_numbers("used", (components.n,), below=2)
            if not used[PRIOR]:
                raise ValueError("its mixture has no prior")
            weights = np.where(used[:, None] > 0, weights, -np.inf)
        self.weights_, self.discounts_ = weights, discounts

    def _fitted(self, sites: Sites) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weights and discounts, fitted or even."""
        if hasattr(self, "weights_"):
            return self.weights_, self.discounts_
        components = self.components(sites)
        return np.zeros((components.n, BUCKETS)), np.zeros((components.n_tables, 4))

    def _check_numbers(self) -> None:
        number = isinstance(self.ridge, (int, float, np.integer, np.floating)) and not isinstance(self.ridge, bool)
        if not number or not 0 < self.ridge < np.inf:
            raise ValueError(f"ridge={self.ridge!r} is a number above zero, for example 1.")
        if not isinstance(self.prune, (int, float, np.integer, np.floating)) or not 0 <= self.prune < np.inf:
            raise ValueError(f"prune={self.prune!r} is a number of nats, zero or above, for example 0.003.")
        for name in ("sample", "steps"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}={value!r} is a whole number of at least 1.")


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
    """

    def __init__(
        self, reader: Any, components: Components, weights: NDArray[np.float64], discounts: NDArray[np.float64]
    ) -> None:
        super().__init__(len(reader.labels), len(reader.labels) * (1 + len(components.sites.positions)))
        self._reader = reader
        self._components = components
        self._weights = weights
        self._discounts = discounts

    @cached_property
    def _trust(self) -> NDArray[np.float64]:
        return np.exp(self._weights)

    def scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the probability of each label."""
        parts, totals, prior = self._read(contexts)
        m, n = len(contexts), self.n_labels
        scores = np.zeros(m * n)
        for part in parts:
            weights = np.repeat(part.trust / totals[part.contexts], part.lengths) * part.values
            cells = np.repeat(part.contexts, part.lengths) * n + part.columns
            scores += np.bincount(cells, weights, m * n)
        return scores.reshape(m, n) + prior

    @cached_property
    def _leading(self) -> LiveLeaders | None:
        return live_leaders(self._reader, self._components, self._trust, self._discounts)

    def winners(self, contexts: Contexts) -> NDArray[np.int64]:
        """Return the column of the highest probability of each context, the first one among equals."""
        return super().winners(contexts) if self._leading is None else self._leading.leaders(contexts, 1)[:, 0]

    def leaders(self, contexts: Contexts, k: int) -> NDArray[np.int64]:
        """Return the columns of the k highest probabilities, best first, equals in column order."""
        k = min(k, self.n_labels)
        return super().leaders(contexts, k) if self._leading is None else self._leading.leaders(contexts, k)

    def _read(self, contexts: Contexts) -> tuple[list[_RowShares], NDArray[np.float64], NDArray[np.float64]]:
        """Return what each context reads, the sum of all its trust, and what the prior adds: (m,), (m, L)."""
        read = read_rows(self._reader, self._components, self._discounts, contexts)
        parts = [*(self._weighed(part) for part in read), *self._tokens(contexts)]
        of_prior = self._trust[PRIOR, 0]
        totals = of_prior + sum(np.bincount(part.contexts, part.trust, len(contexts)) for part in parts)
        return parts, totals, np.outer(of_prior / totals, shares(self._reader.label_counts))

    def _weighed(self, read: RowsRead) -> _RowShares:
        """Return rows with their trust and the shares of their entries; those that say nothing have no trust."""
        entries, n_rows = read.entries, len(read.contexts)
        owners = np.repeat(np.arange(n_rows), entries.lengths)
        classes = np.minimum(entries.counts, 3)
        totals = np.bincount(owners, entries.counts, n_rows)
        discounted = lost_of(np.bincount(owners * 4 + classes, minlength=4 * n_rows).reshape(n_rows, 4), read.lost)
        kept = totals - discounted
        active = (totals > 0) & (kept > MIN_KEPT)
        trust = self._trust[read.components, row_buckets(totals.astype(np.int64))] * row_odds(totals, discounted)
        trust = np.where(active, trust, 0.0)
        gained = np.maximum(entries.counts - read.lost[owners, classes], 0.0)
        values = gained / np.where(active, kept, 1.0)[owners]
        return _RowShares(
            read.contexts, read.components, trust, entries.lengths, entries.columns, values, read.distances
        )

    def _tokens(self, contexts: Contexts) -> list[_RowShares]:
        """Return what says that the label is a token of the context."""
        parts = []
        columns = np.append(self._reader.labels.find(contexts.vocabulary), -1)
        for k, site in enumerate(self._components.sites.free):
            if site.kind == "copy":
                places = distinct_places(contexts.ranks, site.reach)
                held = columns[places.ranks] >= 0
                owners = places.contexts[held]
                components = self._components.free(k, places.distances[held])
                trust = self._trust[components, length_buckets(contexts.ranks, site.reach)[owners]]
                ones = np.ones(len(owners), np.int64)
                said, distances = columns[places.ranks[held]], places.distances[held]
                parts.append(_RowShares(owners, components, trust, ones, said, np.ones(len(owners)), distances))
            elif site.kind == "recent":
                last = columns[contexts.ranks[:, contexts.h - site.reach :]]
                owners, _ = np.nonzero(last >= 0)
                lengths = np.bincount(owners, minlength=len(last))
                components = np.full(len(last), self._components.free(k))
                trust = np.where(lengths > 0, self._trust[components, 0], 0.0)
                values = (1.0 / np.maximum(lengths, 1))[owners]
                parts.append(_RowShares(np.arange(len(last)), components, trust, lengths, last[last >= 0], values))
        return parts

    def site_scores(self, contexts: Contexts, columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site, and each token of a site without a position, adds to the probability."""
        (parts, totals, prior), m = self._read(contexts), len(contexts)
        base = prior[:, columns]
        names = explained_parts(self._components)
        place = {name: number for number, name in enumerate(names)}
        values = np.zeros((m, len(names), len(columns)))
        where = np.full(self.n_labels, -1)
        where[columns] = np.arange(len(columns))
        for part in parts:
            owners = np.repeat(np.arange(len(part.contexts)), part.lengths)
            shown = where[part.columns] >= 0
            said = (part.trust / totals[part.contexts])[owners[shown]] * part.values[shown]
            for row, column, value in zip(owners[shown], where[part.columns[shown]], said, strict=True):
                name = self._name(part, int(row))
                target = base[part.contexts[row]] if name is None else values[part.contexts[row], place[name]]
                target[column] += value
        return SiteScores(values, values, values, base=base, parts=tuple(names))

    def _name(self, part: _RowShares, row: int) -> tuple[str, Site] | None:
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


def explained_parts(components: Components) -> list[tuple[str, Site]]:
    """Return the rows of an explanation: the sites, then the places of each site without a position, nearest first."""
    names: list[tuple[str, Site]] = [("", site) for site in components.sites.positions]
    for site in components.sites.free:
        places = [()] if site.kind == "recent" else [(components.sites.h - d,) for d in range(1, site.reach + 1)]
        names += [(site.name, place) for place in places]
    return names


@dataclass(frozen=True, eq=False)
class _RowShares:
    """Rows with their trust, and the share of each of their entries.

    Shapes
    ------
    contexts, components, trust, lengths, distances : (r,); columns, values : (n,)
    """

    contexts: NDArray[np.int64]
    components: NDArray[np.int64]
    trust: NDArray[np.float64]
    lengths: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]
    distances: NDArray[np.int64] | None = None
