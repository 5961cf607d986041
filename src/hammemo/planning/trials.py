r"""Memories tried out on data that does not exist yet.

A `HashedSample` is what each site of a kernel holds in some examples, as 64-bit hashes: all that a
hashed memory ever sees. A `Trial` is one growth of it (:mod:`hammemo.planning.growth`) to a larger
number of examples: the exact scores of the sample's own examples as queries, and for any hashed
memory, with the estimator's own seed and so its own collisions, what it would answer and prove.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import find_sorted
from hammemo._versions import cached_property
from hammemo.memories.hashed.layout import hash_buckets
from hammemo.memories.hashed.raw_rows import FRACTION_BITS, centre_rows
from hammemo.memories.hashed.reserved import site_groups, site_hashes, site_words
from hammemo.memories.reader import proven
from hammemo.planning.growth import GrownSite, SiteModel, SiteSample, estimate_features

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.random import Generator

    from hammemo._arrays.types import Array, Bools, Floats, Ints, Words
    from hammemo.kernels.sites import Sites
    from hammemo.tokens.contexts import Examples

SHARE_DRAWS: Final = 7
"""How often the labels' shares are drawn in a trial: they decide close calls, and a sample knows
them only roughly."""

_SCORE_NUMBERS: Final = 2**23
"""Numbers read to answer the queries of one trial."""

_SCREENING_STEP: Final = 4
"""One of so many queries is used to choose between memories; all are used for a prediction."""

_SCREENING: Final = slice(None, None, _SCREENING_STEP)


class FeatureCounts(NamedTuple):
    """Features, and how often each occurs."""

    words: Words
    """Their hashes, ascending."""
    counts: Ints


class ReadCounts(NamedTuple):
    """Counts of labels that queries read: (query, label, count), in order."""

    queries: Ints
    labels: Ints
    counts: Ints


class SiteReads(NamedTuple):
    """What queries read at a site."""

    features: Ints
    """The feature that each query reads, -1 for none."""
    own_counts: ReadCounts
    """The counts that grew from the query itself."""


class GrownHashes(NamedTuple):
    """The cells of a site, and the hashes of its features."""

    cells: GrownSite
    words: Words


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
        self.sites = sites
        self.seed = seed
        self.m = len(examples)
        self.n = max(n, self.m)
        self.groups = site_groups(sites)
        self.features_in_group = cache(self._estimate_features_in_group)
        self.labels = examples.label_ranks
        self.label_counts = np.bincount(self.labels, minlength=len(examples.labels))
        self.site_samples = [
            _sample_site(hashes, has_feature, self.labels)
            for hashes, has_feature in site_hashes(examples.contexts, sites, seed, None)
        ]

    @property
    def n_labels(self) -> int:
        """How many labels the sample has."""
        return len(self.label_counts)

    @cached_property
    def pooled(self) -> list[FeatureCounts]:
        """The features of all sites of each group together, and their counts."""
        counted = [FeatureCounts(site.words, site.counts) for site in self.site_samples]
        return _pool_groups(self.groups, counted)

    def _estimate_features_in_group(self, group: int, n: int) -> float:
        """Return how many distinct features n examples are expected to hold in a group of sites."""
        return estimate_features(self.pooled[group].counts, n / self.m)

    def features_at(self, k: int, n: int) -> float:
        """Return how many distinct features site k is expected to hold in n examples.

        Sites of one group draw from one vocabulary, so that all of them together say most: the
        pooled growth, times the share of it that this site has today.
        """
        site = self.site_samples[k]
        group = self.groups[k]
        counts = self.pooled[group].counts
        n_cells = len(site.features)
        if not n_cells:
            return 0.0
        today = estimate_features(counts, n_cells / counts.sum())
        later = estimate_features(counts, n_cells * n / self.m / counts.sum())
        n_features = len(site.words)
        highest = max(self.features_in_group(group, n), n_features)
        return float(np.clip(n_features * later / today, n_features, highest))

    def cells_at(self, k: int, n: int) -> int:
        """Return how many of n examples hold something at site k."""
        n_cells = len(self.site_samples[k].features)
        return max(round(n_cells * n / self.m), n_cells)


def _pool_groups(groups: Sequence[int], counted: list[FeatureCounts]) -> list[FeatureCounts]:
    """Return for each group of sites all features of its sites, and how often each occurs."""
    pools = []
    for group in range(max(groups) + 1):
        sites = [
            site for site, site_group in zip(counted, groups, strict=True) if site_group == group
        ]
        all_words = np.concatenate([site.words for site in sites])
        all_counts = np.concatenate([site.counts for site in sites])
        words, places = np.unique(all_words, return_inverse=True)
        pools.append(FeatureCounts(words, np.bincount(places, all_counts).astype(np.int64)))
    return pools


def _sample_site(hashes: Words, has_feature: Bools, labels: Ints) -> SiteSample:
    words, features = np.unique(hashes[has_feature], return_inverse=True)
    return SiteSample(
        examples=np.flatnonzero(has_feature),
        features=features,
        labels=labels[has_feature],
        words=words,
    )


class Grower:
    """Draws trials of one size; the models of the sites are fitted once."""

    def __init__(self, sample: HashedSample, n: int) -> None:
        self.sample = sample
        self.n = max(n, sample.m)
        shares = sample.label_counts / sample.m
        self._models = [
            SiteModel(site, shares, sample.cells_at(k, self.n), sample.features_at(k, self.n))
            for k, site in enumerate(sample.site_samples)
        ]
        self._vocabularies = [
            round(sample.features_in_group(group, self.n)) for group in range(len(sample.pooled))
        ]

    def draw(self, rng: Generator, weights: Floats, *, mean: bool) -> Trial:
        """Return one growth."""
        sample = self.sample
        label_totals = np.rint(sample.label_counts * (self.n / sample.m)).astype(np.int64)
        # The vocabulary of a group: hashes that no site of the sample has.
        new_words = []
        for n_words, pool in zip(self._vocabularies, sample.pooled, strict=True):
            n_new = max(n_words - len(pool.words), 0)
            new_words.append(rng.integers(0, 2**64, n_new, dtype=np.uint64))
        sites = []
        for k, (model, group) in enumerate(zip(self._models, sample.groups, strict=True)):
            is_complete = len(model.sample.features) == sample.m
            site_totals = label_totals if is_complete else None
            cells = model.grow(sample.cells_at(k, self.n), site_totals, rng)
            n_new = cells.n_features - len(model.sample.words)
            words = self._draw_words(k, n_new, new_words[group], rng)
            sites.append(GrownHashes(cells, np.concatenate([model.sample.words, words])))
        return Trial(sample, sites, label_totals=label_totals, weights=weights, rng=rng, mean=mean)

    def _draw_words(self, k: int, number: int, new_words: Words, rng: Generator) -> Words:
        """Return hashes of features that are new to site k.

        Features that other sites of its group hold come first, those that are frequent there before
        rare ones; then others of the group's vocabulary; then any.
        """
        sample = self.sample
        site = sample.site_samples[k]
        words, counts = sample.pooled[sample.groups[k]]
        is_elsewhere = find_sorted(site.words, words) < 0
        n_new_cells = sample.cells_at(k, self.n) - len(site.features)
        n_pooled_cells = max(counts.sum(), 1)
        expected = (counts[is_elsewhere] - 0.5) * n_new_cells / n_pooled_cells
        arrives = rng.random(len(expected)) < -np.expm1(-expected)
        by_count = np.argsort(-counts[is_elsewhere][arrives], kind="stable")
        from_sites = words[is_elsewhere][arrives][by_count][:number]
        from_group = rng.permutation(new_words)[: number - len(from_sites)]
        n_others = number - len(from_sites) - len(from_group)
        others = rng.integers(0, 2**64, n_others, dtype=np.uint64)
        return np.concatenate([from_sites, from_group, others])


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
        sites: list[GrownHashes],
        *,
        label_totals: Ints,
        weights: Floats,
        rng: Generator,
        mean: bool,
    ) -> None:
        self.sample = sample
        self.sites = sites
        self.weights = weights
        n_numbers = max(len(sites) * sample.n_labels, 1)
        n_queries = min(sample.m, max(1, _SCORE_NUMBERS // n_numbers))
        self.queries = np.sort(rng.permutation(sample.m)[:n_queries])
        self._reads = [self._draw_reads(k, rng) for k in range(len(sites))]
        self._screening_reads = [_screen_reads(reads) for reads in self._reads]
        self._divisor = self._make_divisors(label_totals) if mean else None
        self.try_hashed = cache(self._compute_outcome)

        # The exact answers: by the labels' shares of the sample, and by draws of these shares.
        self._share_factors: list[Floats] = []
        if self._divisor is None and sample.n > sample.m:
            self._share_factors = self._draw_share_factors(rng)
        scores = _divide(self._compute_exact_scores(), self._divisor)
        self.winners = scores.argmax(axis=1)
        self._other_winners = [(scores * factors).argmax(axis=1) for factors in self._share_factors]
        self.unambiguous = np.ones(len(scores), bool)
        if scores.shape[1] > 1:
            best_two = np.partition(scores, -2, axis=1)[:, -2:]
            self.unambiguous = best_two[:, 1] > best_two[:, 0]
        self._reserved_order = self._order_features()

    def _compute_outcome(self, buckets: int, reserved: int, *, certify: bool = False) -> Outcome:
        """Return what a hashed memory of this size would do; proofs only with `certify`.

        Without proofs a quarter of the queries is used, which is enough to choose between memories.
        """
        sample = self.sample
        queries = slice(None) if certify else _SCREENING
        reserved_words = [np.sort(words[:reserved]) for words in self._reserved_order]
        shape = (len(self.queries[queries]), sample.n_labels)
        scores = np.zeros(shape)
        low = np.zeros(shape)
        high = np.zeros(shape)
        largest = []
        for k, (cells, words) in enumerate(self.sites):
            group_words = reserved_words[sample.groups[k]]
            n_reserved = len(group_words)
            rows = find_hashed_rows(
                words,
                group_words,
                seed=sample.seed,
                site=sample.sites.positions[k],
                buckets=buckets,
            )
            counts = self._count_labels(rows[cells.features], cells.labels, n_reserved + buckets)
            largest_reserved = int(counts[:n_reserved].max(initial=0))
            largest_bucket = int(counts[n_reserved:].max(initial=0))
            largest.append((largest_reserved, largest_bucket))
            reads = self._reads[k] if certify else self._screening_reads[k]
            centred = centre_rows(counts, n_reserved) / 2**FRACTION_BITS
            self._add_reads(scores, centred, k, reads, rows=rows)
            if certify:  # a bucket holds at most its counts, and at least nothing
                self._add_reads(high, counts, k, reads, rows=rows)
                counts[n_reserved:] = 0
                self._add_reads(low, counts, k, reads, rows=rows, n_rows=n_reserved)

        scores = _divide(scores, self._divisor, queries)
        agreement = [self._compute_agreement(scores, self.winners[queries], queries)]
        if not certify:
            return Outcome(agreement, [], largest)
        low = _divide(low, self._divisor, queries)
        high = _divide(high, self._divisor, queries)
        certified = [float(proven(low, high, scores.argmax(axis=1)).mean())]
        for factors, winners in zip(self._share_factors, self._other_winners, strict=True):
            agreement.append(self._compute_agreement(scores * factors, winners, queries))
            answers = (scores[_SCREENING] * factors).argmax(axis=1)
            is_proven = proven(low[_SCREENING] * factors, high[_SCREENING] * factors, answers)
            certified.append(float(is_proven.mean()))
        return Outcome(agreement, certified, largest)

    def _compute_agreement(self, scores: Floats, winners: Ints, queries: slice) -> float:
        """Return the share of unambiguous queries with the exact answer; 1 if there are none."""
        is_same = (scores.argmax(axis=1) == winners)[self.unambiguous[queries]]
        return float(is_same.mean()) if len(is_same) else 1.0

    def _draw_share_factors(self, rng: Generator) -> list[Floats]:
        """Return factors of the labels' counts: their shares may differ from the sample's."""
        counts = np.maximum(self.sample.label_counts, 1e-3)
        return [rng.dirichlet(counts) * counts.sum() / counts for _ in range(SHARE_DRAWS)]

    def _count_labels(self, rows: Ints, labels: Ints, n_rows: int) -> Ints:
        n_labels = self.sample.n_labels
        counts = np.bincount(rows * n_labels + labels, minlength=n_rows * n_labels)
        return counts.reshape(n_rows, n_labels)

    def _add_reads(
        self,
        totals: Floats,
        table: Array,
        k: int,
        reads: SiteReads,
        *,
        rows: Ints,
        n_rows: int | None = None,
    ) -> None:
        """Add what each query reads at site k, without what grew from the query itself.

        With `n_rows` the table holds counts in its first rows only, and so do the queries' own.
        """
        features, own_counts = reads
        has_feature = features >= 0
        row = rows[features[has_feature]]
        if has_feature.all():
            totals += self.weights[k] * table[row]
        else:
            totals[has_feature] += self.weights[k] * table[row]
        queries, labels, counts = own_counts
        if n_rows is not None:
            is_inside = rows[features[queries]] < n_rows
            queries = queries[is_inside]
            labels = labels[is_inside]
            counts = counts[is_inside]
        totals[queries, labels] -= self.weights[k] * counts

    def _compute_exact_scores(self) -> Floats:
        totals = np.zeros((len(self.queries), self.sample.n_labels))
        for k, (cells, _) in enumerate(self.sites):
            shape = (cells.n_features, self.sample.n_labels)
            entries = (np.ones(len(cells.features)), (cells.features, cells.labels))
            counts = sparse.coo_array(entries, shape=shape).tocsr()
            features, own_counts = self._reads[k]
            has_feature = features >= 0
            totals[has_feature] += self.weights[k] * counts[features[has_feature]].toarray()
            own_weights = self.weights[k] * own_counts.counts
            totals[own_counts.queries, own_counts.labels] -= own_weights
        return totals

    def _draw_reads(self, k: int, rng: Generator) -> SiteReads:
        """Return what each query reads at site k, and what grew from it."""
        site = self.sample.site_samples[k]
        cells = self.sites[k].cells
        m = len(site.features)
        n_labels = self.sample.n_labels
        number_of_example = np.full(self.sample.m, -1)
        number_of_example[self.queries] = np.arange(len(self.queries))
        query_of_cell = number_of_example[site.examples]
        is_query = query_of_cell >= 0
        features = np.full(len(self.queries), -1)
        features[query_of_cell[is_query]] = site.features[is_query]

        # Without the query, a feature that only the query has is new: it reads what another new
        # feature has, which did not grow from it.
        is_alone = site.counts[site.features] == 1
        new_cells = np.flatnonzero(cells.features >= len(site.words))
        if len(new_cells):
            is_lone_query = is_query & is_alone
            drawn_cells = rng.choice(new_cells, int(is_lone_query.sum()))
            features[query_of_cell[is_lone_query]] = cells.features[drawn_cells]
            query_of_cell = np.where(is_alone, -1, query_of_cell)

        # The cells that were copied from the query's own cell, by label.
        is_from_sample = cells.roots < m
        query = query_of_cell[cells.roots[is_from_sample]]
        keys = (query * n_labels + cells.labels[is_from_sample])[query >= 0]
        distinct, counts = np.unique(keys, return_counts=True)
        return SiteReads(features, ReadCounts(distinct // n_labels, distinct % n_labels, counts))

    def _make_divisors(self, label_totals: Ints) -> Floats:
        """Return each label's examples, for each query without those that grew from it."""
        n_queries = len(self.queries)
        divisors = np.tile(label_totals.astype(np.float64), (n_queries, 1))
        growth = label_totals.sum() / self.sample.m
        divisors[np.arange(n_queries), self.sample.labels[self.queries]] -= growth
        return np.maximum(divisors, 1.0)

    def _order_features(self) -> list[Words]:
        """Return the features of each group, the most frequent ones first, equals by hash."""
        counted = [
            FeatureCounts(words, np.bincount(cells.features, minlength=cells.n_features))
            for cells, words in self.sites
        ]
        return [
            pool.words[np.lexsort((pool.words, -pool.counts))][: int((pool.counts > 0).sum())]
            for pool in _pool_groups(self.sample.groups, counted)
        ]


def find_hashed_rows(
    hashes: Words, reserved: Words, *, seed: int, site: tuple[int, ...], buckets: int
) -> Ints:
    """Return the row of a site's table that each feature reads; reserved ones are ascending.

    Nothing but its hash is known of a feature here: two with one hash are one.
    """
    places = find_sorted(reserved, hashes)
    bucket_numbers = hash_buckets(hashes, site_words(seed, site)[0], buckets)
    return np.where(places >= 0, places, len(reserved) + bucket_numbers)


def _screen_reads(reads: SiteReads) -> SiteReads:
    """Return what every fourth query reads."""
    queries, labels, counts = reads.own_counts
    is_screened = queries % _SCREENING_STEP == 0
    own_counts = ReadCounts(
        queries[is_screened] // _SCREENING_STEP, labels[is_screened], counts[is_screened]
    )
    return SiteReads(reads.features[_SCREENING], own_counts)


def _divide(scores: Floats, divisor: Floats | None, queries: slice = slice(None)) -> Floats:
    """Return scores divided by each label's examples, where a vote does that."""
    if divisor is None:
        return scores
    return scores / divisor[queries]
