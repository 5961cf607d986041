r"""Memories tried out on data that does not exist yet.

A `HashedSample` is what each site of a kernel holds in some examples, as 64-bit hashes: all that a hashed memory ever
sees. A `Trial` is one growth of it (:mod:`hammemo.planning.growth`) to a larger number of examples: the exact
scores of the sample's own examples as queries, and for any hashed memory, with the estimator's own seed and so its own
collisions, what it would answer and prove.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import find_sorted
from hammemo._versions import cached_property
from hammemo.memories.hashed.layout import hash_buckets
from hammemo.memories.hashed.raw_rows import FRACTION_BITS, centre_rows
from hammemo.memories.hashed.reserved import site_groups, site_hashes, site_words
from hammemo.memories.reader import proven
from hammemo.planning.growth import GrownSite, SiteModel, SiteSample, expected_features

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.random import Generator

    from hammemo._arrays.types import Array, Bools, Floats, Ints, Words
    from hammemo.kernels.sites import Sites
    from hammemo.tokens.contexts import Examples

Reads: TypeAlias = "tuple[Ints, tuple[Ints, Ints, Ints]]"
"""The feature that each query reads at a site, -1 for none, and the (query, label, count) that grew from the query."""

Grown: TypeAlias = "list[tuple[GrownSite, Words]]"
"""The cells of each site, and the hashes of its features."""

SHARE_DRAWS = 7
"""How often the labels' shares, which decide close calls and which a sample says only so well, are drawn in a trial."""

_SCORE_NUMBERS = 2**23  # numbers read to answer the queries of one trial


class HashedSample:
    """Some examples as a hashed memory sees them, and what they say of `n` of their kind.

    Parameters
    ----------
    examples : Examples
        Each counts once.
    sites : Sites
    seed : int
        Of the estimator that is planned.
    n : int
        How many examples there will be.
    """

    def __init__(self, examples: Examples, sites: Sites, seed: int, n: int) -> None:
        self.sites, self.seed, self.m = sites, seed, len(examples)
        self.n = max(n, self.m)
        self.groups = site_groups(sites)
        self.features_in_group = cache(self._features_in_group)
        self.labels = examples.label_ranks
        self.label_counts = np.bincount(self.labels, minlength=len(examples.labels))
        found = site_hashes(examples.contexts, sites, seed, None)
        self.parts = [_site_sample(hashes, held, self.labels) for hashes, held in found]

    @property
    def n_labels(self) -> int:
        """How many labels the sample has."""
        return len(self.label_counts)

    @cached_property
    def pooled(self) -> list[tuple[Words, Ints]]:
        """The features of all sites of each group together, ascending, and their counts."""
        return _pooled(self.groups, [(part.words, part.counts) for part in self.parts])

    def _features_in_group(self, group: int, n: int) -> float:
        """Return how many distinct features all sites of a group together are expected to hold in n examples."""
        return expected_features(self.pooled[group][1], n / self.m)

    def features_at(self, k: int, n: int) -> float:
        """Return how many distinct features site k is expected to hold in n examples.

        Sites of one group draw from one vocabulary, so that what all of them hold says most: the pooled growth, times
        what this site has of it today.
        """
        part, counts = self.parts[k], self.pooled[self.groups[k]][1]
        cells = len(part.features)
        if not cells:
            return 0.0
        today = expected_features(counts, cells / counts.sum())
        later = expected_features(counts, cells * n / self.m / counts.sum())
        whole = self.features_in_group(self.groups[k], n)
        return float(
            np.clip(len(part.words) * later / today, len(part.words), max(whole, len(part.words)))
        )

    def cells_at(self, k: int, n: int) -> int:
        """Return how many of n examples hold something at site k."""
        return max(round(len(self.parts[k].features) * n / self.m), len(self.parts[k].features))


def _pooled(groups: Sequence[int], counted: list[tuple[Words, Ints]]) -> list[tuple[Words, Ints]]:
    """Return for each group of sites all features of its sites, ascending, and how often each occurs."""
    pools = []
    for group in range(max(groups) + 1):
        parts = [part for part, own in zip(counted, groups, strict=True) if own == group]
        words, place = np.unique(np.concatenate([words for words, _ in parts]), return_inverse=True)
        pools.append(
            (words, np.bincount(place, np.concatenate([n for _, n in parts])).astype(np.int64))
        )
    return pools


def _site_sample(hashes: Words, held: Bools, labels: Ints) -> SiteSample:
    words, features = np.unique(hashes[held], return_inverse=True)
    return SiteSample(np.flatnonzero(held), features, labels[held], words)


class Grower:
    """Draws trials of one size; what a sample says of it is fitted once."""

    def __init__(self, sample: HashedSample, n: int) -> None:
        self.sample = sample
        self.n = max(n, sample.m)
        shares = sample.label_counts / sample.m
        sizes = [
            (sample.cells_at(k, self.n), sample.features_at(k, self.n))
            for k in range(len(sample.parts))
        ]
        self._models = [
            SiteModel(part, shares, *size) for part, size in zip(sample.parts, sizes, strict=True)
        ]
        self._vocabularies = [
            round(sample.features_in_group(g, self.n)) for g in range(len(sample.pooled))
        ]

    def draw(self, rng: Generator, weights: Floats, *, mean: bool) -> Trial:
        """Return one growth."""
        sample = self.sample
        totals = np.rint(sample.label_counts * (self.n / sample.m)).astype(np.int64)
        unseen = [
            n - len(known) for n, (known, _) in zip(self._vocabularies, sample.pooled, strict=True)
        ]
        words = [rng.integers(0, 2**64, max(number, 0), dtype=np.uint64) for number in unseen]
        sites = []
        for k, (model, group) in enumerate(zip(self._models, sample.groups, strict=True)):
            complete = len(model.sample.features) == sample.m
            grown = model.grow(sample.cells_at(k, self.n), totals if complete else None, rng)
            new = grown.n_features - len(model.sample.words)
            sites.append(
                (
                    grown,
                    np.concatenate(
                        [model.sample.words, self._new_words(k, new, words[group], rng)]
                    ),
                )
            )
        return Trial(sample, sites, totals, weights, rng, mean=mean)

    def _new_words(self, k: int, number: int, unseen: Words, rng: Generator) -> Words:
        """Return hashes of features that are new to site k: those that other sites of its group hold, then others."""
        sample = self.sample
        words, counts = sample.pooled[sample.groups[k]]
        elsewhere = find_sorted(sample.parts[k].words, words) < 0
        cells, pooled_cells = (
            sample.cells_at(k, self.n) - len(sample.parts[k].features),
            counts.sum(),
        )
        expected = (counts[elsewhere] - 0.5) * cells / max(pooled_cells, 1)
        arrives = rng.random(len(expected)) < -np.expm1(-expected)
        order = np.argsort(-counts[elsewhere][arrives], kind="stable")
        known = words[elsewhere][arrives][order][:number]
        chosen = rng.permutation(unseen)[: number - len(known)]
        rest = rng.integers(0, 2**64, number - len(known) - len(chosen), dtype=np.uint64)
        return np.concatenate([known, chosen, rest])


@dataclass(frozen=True)
class Outcome:
    """What a hashed memory does in one trial."""

    agreement: list[float]
    """For each draw of the labels' shares; the first is the sample's."""
    certified: list[float]
    largest: list[tuple[int, int]]
    """For each site the largest count in a reserved row, and in a bucket."""


class Trial:
    """One growth of a sample, and the exact classifier's answers to the sample's examples."""

    def __init__(
        self,
        sample: HashedSample,
        sites: Grown,
        label_totals: Ints,
        weights: Floats,
        rng: Generator,
        *,
        mean: bool,
    ) -> None:
        self.sample, self.sites, self.weights = sample, sites, weights
        n_queries = min(sample.m, max(1, _SCORE_NUMBERS // max(len(sites) * sample.n_labels, 1)))
        self.queries = np.sort(rng.permutation(sample.m)[:n_queries])
        self._asked = [self._asked_at(k, rng) for k in range(len(sites))]
        self._some_asked = [_every_fourth(read) for read in self._asked]
        self._divisor = self._divisors(label_totals) if mean else None
        self.hashed = cache(self._hashed)
        self._shares = (
            self._share_draws(rng) if self._divisor is None and sample.n > sample.m else []
        )
        scores = _divided(self._exact_scores(), self._divisor)
        self.winners = scores.argmax(axis=1)
        self._other_winners = [(scores * drawn).argmax(axis=1) for drawn in self._shares]
        best = (
            np.partition(scores, -2, axis=1)[:, -2:]
            if scores.shape[1] > 1
            else np.array([[0.0, 1.0]])
        )
        self.unambiguous = np.broadcast_to(best[:, 1] > best[:, 0], self.winners.shape)
        self._reserved_order = self._order()

    def _hashed(self, buckets: int, reserved: int, *, certify: bool = False) -> Outcome:
        """Return what a hashed memory of this size would do; what it proves, only if asked for.

        Without proofs a quarter of the queries is used, which is enough to choose between memories.
        """
        sample, asked = self.sample, slice(None) if certify else slice(None, None, 4)
        own = [np.sort(words[:reserved]) for words in self._reserved_order]
        scores, low, high = np.zeros((3, len(self.queries[asked]), sample.n_labels))
        largest = []
        for k, (grown, words) in enumerate(self.sites):
            n_own = len(own[sample.groups[k]])
            rows = hashed_rows(
                words, own[sample.groups[k]], sample.seed, sample.sites.positions[k], buckets
            )
            counts = self._table(rows[grown.features], grown.labels, n_own + buckets)
            largest.append((int(counts[:n_own].max(initial=0)), int(counts[n_own:].max(initial=0))))
            read = self._asked[k] if certify else self._some_asked[k]
            self._read(k, read, rows, centre_rows(counts, n_own) / 2**FRACTION_BITS, scores)
            if certify:
                self._read(k, read, rows, counts, high)
                counts[n_own:] = 0
                self._read(k, read, rows, counts, low, below=n_own)
        scores = _divided(scores, self._divisor, asked)
        agreement = [self._agreement(scores, self.winners[asked], asked)]
        if not certify:
            return Outcome(agreement, [], largest)
        low, high = (_divided(part, self._divisor, asked) for part in (low, high))
        certified = [float(proven(low, high, scores.argmax(axis=1)).mean())]
        for drawn, winners in zip(self._shares, self._other_winners, strict=True):
            agreement.append(self._agreement(scores * drawn, winners, asked))
            some = slice(None, None, 4)
            answers = (scores[some] * drawn).argmax(axis=1)
            certified.append(float(proven(low[some] * drawn, high[some] * drawn, answers).mean()))
        return Outcome(agreement, certified, largest)

    def _agreement(self, scores: Floats, winners: Ints, asked: slice) -> float:
        same = (scores.argmax(axis=1) == winners)[self.unambiguous[asked]]
        return float(same.mean()) if len(same) else 1.0

    def _share_draws(self, rng: Generator) -> list[Floats]:
        """Return factors by which the labels' shares, and with them all their counts, may differ from the sample's."""
        counts = np.maximum(self.sample.label_counts, 1e-3)
        return [rng.dirichlet(counts) * counts.sum() / counts for _ in range(SHARE_DRAWS)]

    def _table(self, rows: Ints, labels: Ints, n_rows: int) -> Ints:
        n_labels = self.sample.n_labels
        return np.bincount(rows * n_labels + labels, minlength=n_rows * n_labels).reshape(
            n_rows, n_labels
        )

    def _read(
        self,
        k: int,
        read: Reads,
        rows: Ints,
        table: Array,
        totals: Floats,
        below: int | None = None,
    ) -> None:
        """Add what each query reads at site k, without what grew from the query itself; `below`: in these rows only."""
        asked, (query, label, count) = read
        held = asked >= 0
        row = rows[asked[held]]
        if held.all():
            totals += self.weights[k] * table[row]
        else:
            totals[held] += self.weights[k] * table[row]
        if below is not None:
            kept = rows[asked[query]] < below
            query, label, count = query[kept], label[kept], count[kept]
        totals[query, label] -= self.weights[k] * count

    def _exact_scores(self) -> Floats:
        totals = np.zeros((len(self.queries), self.sample.n_labels))
        for k, (grown, _) in enumerate(self.sites):
            shape = (grown.n_features, self.sample.n_labels)
            cells = (np.ones(len(grown.features)), (grown.features, grown.labels))
            counts = sparse.coo_array(cells, shape=shape).tocsr()
            asked, (query, label, count) = self._asked[k]
            totals[asked >= 0] += self.weights[k] * counts[asked[asked >= 0]].toarray()
            totals[query, label] -= self.weights[k] * count
        return totals

    def _asked_at(self, k: int, rng: Generator) -> Reads:
        """Return what each query reads at site k, and what grew from it."""
        part, (grown, _) = self.sample.parts[k], self.sites[k]
        m, n_labels = len(part.features), self.sample.n_labels
        number = np.full(self.sample.m, -1)
        number[self.queries] = np.arange(len(self.queries))
        query_of_cell = number[part.examples]
        alone = part.counts[part.features] == 1
        asked = np.full(len(self.queries), -1)
        mine = query_of_cell >= 0
        asked[query_of_cell[mine]] = part.features[mine]
        new_cells = np.flatnonzero(grown.features >= len(part.words))
        if len(new_cells):
            asked[query_of_cell[mine & alone]] = grown.features[
                rng.choice(new_cells, int((mine & alone).sum()))
            ]
            query_of_cell = np.where(
                alone, -1, query_of_cell
            )  # what they read now did not grow from them
        from_sample = grown.roots < m
        query = query_of_cell[grown.roots[from_sample]]
        keys = (query * n_labels + grown.labels[from_sample])[query >= 0]
        distinct, counts = np.unique(keys, return_counts=True)
        return asked, (distinct // n_labels, distinct % n_labels, counts)

    def _divisors(self, label_totals: Ints) -> Floats:
        """Return each label's examples, for each query without those that grew from it."""
        sample = self.sample
        divisor = np.tile(label_totals.astype(np.float64), (len(self.queries), 1))
        divisor[np.arange(len(self.queries)), sample.labels[self.queries]] -= (
            label_totals.sum() / sample.m
        )
        return np.maximum(divisor, 1.0)

    def _order(self) -> list[Words]:
        """Return for each group of sites its features, the most frequent ones first, equals by hash."""
        counted = [
            (words, np.bincount(grown.features, minlength=grown.n_features))
            for grown, words in self.sites
        ]
        pools = _pooled(self.sample.groups, counted)
        return [
            words[np.lexsort((words, -totals))][: int((totals > 0).sum())]
            for words, totals in pools
        ]


def hashed_rows(hashes: Words, own: Words, seed: int, site: tuple[int, ...], buckets: int) -> Ints:
    """Return the row of a site's table that each feature reads; `own` are the reserved ones, ascending.

    A hash is all that is known of a feature here: two with one hash are one.
    """
    found = find_sorted(own, hashes)
    return np.where(
        found >= 0, found, len(own) + hash_buckets(hashes, site_words(seed, site)[0], buckets)
    )


def _every_fourth(read: Reads) -> Reads:
    asked, (query, label, count) = read
    kept = query % 4 == 0
    return asked[::4], (query[kept] // 4, label[kept], count[kept])


def _divided(scores: Floats, divisor: Floats | None, asked: slice = slice(None)) -> Floats:
    return scores if divisor is None else scores / divisor[asked]
