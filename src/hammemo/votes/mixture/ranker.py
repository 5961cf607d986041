"""Ranks labels by a mixture, from all rows that a context reads.

Scores of all labels are added up from the rows. The leading labels alone are found in compiled code
where the tables are live (:mod:`hammemo.votes.mixture.leading`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hammemo._versions import cached_property
from hammemo.kernels.free_sites import find_places
from hammemo.memories.exact import Entries
from hammemo.memories.ranker import Ranker, SiteScores
from hammemo.votes.log_linear import label_shares
from hammemo.votes.mixture.gates import PRIOR, row_buckets, row_odds
from hammemo.votes.mixture.label_terms import MIN_REMAINING, length_buckets, sum_discounts
from hammemo.votes.mixture.leading import find_live_leaders
from hammemo.votes.mixture.popularity import DiscountedRanker, popularity
from hammemo.votes.mixture.row_reads import read_rows
from hammemo.votes.mixture.row_shares import RowShares

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints
    from hammemo.kernels.sites import FreeSite, Site
    from hammemo.memories.exact import SparseCounts
    from hammemo.memories.ranker import LabelMask
    from hammemo.tokens.contexts import Contexts
    from hammemo.votes.mixture.gates import Components
    from hammemo.votes.mixture.leading import LiveLeaders
    from hammemo.votes.mixture.row_reads import RowsRead

SiteName = tuple[str, "Site"]
"""What a row of an explanation is called: the name of a free site, and positions."""


class WeighedRows(NamedTuple):
    """What contexts read, with the trust in each row."""

    rows: list[RowShares]
    """The rows of the sites, of continuations and free sites, then the tokens."""
    totals: Floats
    """The sum of all trust of each context: (m,)."""


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
        reader: SparseCounts,
        components: Components,
        weights: Floats,
        discounts: Floats,
        *,
        power: int = 0,
    ) -> None:
        n_labels = len(reader.labels)
        super().__init__(n_labels, n_labels * (1 + len(components.sites.positions)))
        self._reader = reader
        self._components = components
        self._weights = weights
        self._discounts = discounts
        self._power = power

    @cached_property
    def _trust(self) -> Floats:
        return np.exp(self._weights)

    # Scores of all labels

    def scores(self, contexts: Contexts) -> Floats:
        """Return the probability of each label."""
        weighed = self._read(contexts)
        return self._add_up(weighed) + self._score_prior(weighed.totals)

    def scores_from(
        self, contexts: Contexts, rows_read: list[RowsRead], label_counts: Ints
    ) -> Floats:
        """Return the probability of each label, from rows and label counts of each context.

        Shapes
        ------
        label_counts, returned : (m, L)
        """
        weighed = self._weigh(contexts, rows_read)
        n_examples = label_counts.sum(axis=1) + 0.5 * self.n_labels
        prior_trust = self._trust[PRIOR, 0] / weighed.totals
        prior = (prior_trust / n_examples)[:, None] * (label_counts + 0.5)
        return np.asarray(self._add_up(weighed) + prior)

    def _read(self, contexts: Contexts) -> WeighedRows:
        """Return what each context reads."""
        rows_read = read_rows(self._reader, self._components, self._discounts, contexts)
        return self._weigh(contexts, rows_read)

    def _weigh(self, contexts: Contexts, rows_read: list[RowsRead]) -> WeighedRows:
        """Return rows, and what tokens say, with the trust in each."""
        rows = [*map(self._weigh_rows, rows_read), *self._read_tokens(contexts)]
        trust = sum(np.bincount(piece.contexts, piece.trust, len(contexts)) for piece in rows)
        return WeighedRows(rows, np.asarray(self._trust[PRIOR, 0] + trust))

    def _weigh_rows(self, read: RowsRead) -> RowShares:
        """Return rows with their trust; those that say nothing have no trust."""
        totals = read.totals
        discounted = sum_discounts(read.classes, read.lost)
        remaining = totals - discounted
        is_active = (totals > 0) & (remaining > MIN_REMAINING)
        gates = self._trust[read.components, row_buckets(totals)]
        trust = gates * row_odds(totals, discounted)
        return RowShares(
            contexts=read.contexts,
            components=read.components,
            trust=np.where(is_active, trust, 0.0),
            entries=read.entries,
            lost=read.lost,
            remaining=np.where(is_active, remaining, 1.0),
            distances=read.distances,
        )

    def _read_tokens(self, contexts: Contexts) -> list[RowShares]:
        """Return what says that the label is a token of the context."""
        columns = np.append(self._reader.labels.find(contexts.vocabulary), -1)
        rows = []
        for k, site in enumerate(self._components.sites.free):
            if site.kind == "copy":
                rows.append(self._read_copies(k, site, contexts, columns))
            elif site.kind == "recent":
                rows.append(self._read_recent(k, site, contexts, columns))
        return rows

    def _read_copies(self, k: int, site: FreeSite, contexts: Contexts, columns: Ints) -> RowShares:
        """Return a row of one entry for each distinct token of a context that is a label."""
        places = find_places(contexts.ranks, site.reach)
        is_label = columns[places.ranks] >= 0
        owners = places.contexts[is_label]
        distances = places.distances[is_label]
        components = self._components.free(k, distances)
        ones = np.ones(len(owners), np.int64)
        return RowShares(
            contexts=owners,
            components=components,
            trust=self._trust[components, length_buckets(contexts.ranks, site.reach)[owners]],
            entries=Entries(ones, columns[places.ranks[is_label]], ones),
            lost=np.zeros((len(owners), 4)),
            remaining=np.ones(len(owners)),
            distances=distances,
        )

    def _read_recent(self, k: int, site: FreeSite, contexts: Contexts, columns: Ints) -> RowShares:
        """Return a row for each context, of its last tokens that are labels."""
        last_columns = columns[contexts.ranks[:, contexts.h - site.reach :]]
        m = len(last_columns)
        is_label = last_columns >= 0
        owners, _ = np.nonzero(is_label)
        lengths = np.bincount(owners, minlength=m)
        components = np.full(m, self._components.free(k))
        return RowShares(
            contexts=np.arange(m),
            components=components,
            trust=np.where(lengths > 0, self._trust[components, 0], 0.0),
            entries=Entries(lengths, last_columns[is_label], np.ones(len(owners), np.int64)),
            lost=np.zeros((m, 4)),
            remaining=np.maximum(lengths, 1.0),
        )

    def _add_up(self, weighed: WeighedRows) -> Floats:
        scores = np.zeros((len(weighed.totals), self.n_labels))
        for rows in weighed.rows:
            scores += rows.add_up(weighed.totals, self.n_labels)
        return scores

    def _score_prior(self, totals: Floats) -> Floats:
        """Return what the labels' own shares add to the scores: (m, L)."""
        return np.outer(self._trust[PRIOR, 0] / totals, label_shares(self._reader.label_counts))

    # The leading labels

    @cached_property
    def _leading(self) -> LiveLeaders | None:
        return find_live_leaders(self._reader, self._components, self._trust, self._discounts)

    @property
    def reads_rows(self) -> bool:
        """Whether the leading labels are found in live tables."""
        return self._leading is not None

    def winners(self, contexts: Contexts) -> Ints:
        """Return the column of the highest probability of each context, the first among equals."""
        if self._leading is None:
            return super().winners(contexts)
        return self._leading.leaders(contexts, 1)[:, 0]

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest probabilities, best first, equals in column order."""
        k = min(k, self.n_labels)
        if self._leading is None:
            return super().leaders(contexts, k)
        return self._leading.leaders(contexts, k)

    @cached_property
    def _discounted(self) -> DiscountedRanker:
        return DiscountedRanker(self, popularity(self._reader.label_counts, self._power))

    def rank(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest probabilities over the popularity of the labels."""
        k = min(k, self.n_labels)
        if self._leading is not None:
            return self._leading.leaders(contexts, k, self._power)
        if self._power:
            return self._discounted.leaders(contexts, k)
        return self.leaders(contexts, k)

    def leaders_by_mask(
        self, contexts: Contexts, k: int, mask: LabelMask, *, with_scores: bool = True
    ) -> tuple[Ints, Floats | None]:
        """Return the same among allowed labels, and what they are ranked by."""
        if self._leading is not None:
            return self._leading.leaders_by_mask(
                contexts, min(k, self.n_labels), mask, with_scores=with_scores, power=self._power
            )
        if self._power:
            return self._discounted.leaders_by_mask(contexts, k, mask, with_scores=with_scores)
        return super().leaders_by_mask(contexts, k, mask, with_scores=with_scores)

    # Explanations

    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
        """Return what each site, and each token of a free site, adds to the probability."""
        weighed = self._read(contexts)
        base = self._score_prior(weighed.totals)[:, columns]
        names = list_site_names(self._components)
        place_of_name = {name: number for number, name in enumerate(names)}
        values = np.zeros((len(contexts), len(names), len(columns)))
        place_of_column = np.full(self.n_labels, -1)
        place_of_column[columns] = np.arange(len(columns))
        for rows in weighed.rows:
            entries = rows.entries
            entry_rows = np.repeat(np.arange(len(rows.contexts)), entries.lengths)
            entry_places = place_of_column[entries.columns]
            is_shown = entry_places >= 0
            weights = rows.trust / weighed.totals[rows.contexts]
            added = weights[entry_rows[is_shown]] * rows.values()[is_shown]
            shown_entries = zip(
                entry_rows[is_shown].tolist(), entry_places[is_shown], added, strict=True
            )
            for row, place, value in shown_entries:
                context = rows.contexts[row]
                name = self._name_row(rows, row)
                if name is None:
                    base[context, place] += value
                else:
                    values[context, place_of_name[name], place] += value
        return SiteScores(values, values, values, base=base, parts=tuple(names))

    def _name_row(self, rows: RowShares, row: int) -> SiteName | None:
        """Return what a row is called; None for the prior."""
        component = int(rows.components[row])
        components = self._components
        positions = components.sites.positions
        if component <= len(positions):
            return "", positions[component - 1]
        number = component - 1 - len(positions)
        if number < len(components.continued):  # shown with the suffix that it speaks of
            _, shorter = components.continued[number]
            return None if shorter < 0 else ("", positions[shorter])
        free = components.sites.free
        site = free[max(k for k in range(len(free)) if int(components.free(k)) <= component)]
        if rows.distances is None:
            return site.name, ()
        return site.name, (components.sites.h - int(rows.distances[row]),)


def list_site_names(components: Components) -> list[SiteName]:
    """Return the rows of an explanation: the sites, then the places of each free site.

    The places of a free site begin with the nearest.
    """
    names: list[SiteName] = [("", site) for site in components.sites.positions]
    for site in components.sites.free:
        if site.kind == "recent":
            names.append((site.name, ()))
        else:
            h = components.sites.h
            names += [(site.name, (h - distance,)) for distance in range(1, site.reach + 1)]
    return names
