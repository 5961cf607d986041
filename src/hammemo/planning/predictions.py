r"""What is predicted of a memory that has learnt nothing yet, from a sample of the data.

Every prediction is about the *full* data, n examples, from a sample of m of them:

- **state bytes**: computed where the shape is known (Hashed, Gaussian), extrapolated for the sparse exact table, whose
  entries grow with the data (:mod:`hammemo.planning.predictions`);
- **agreement** with the exact classifier on unambiguous queries, those whose exact winner is not tied, and the
  **certified** share: simulated. The sample is grown to n several times (:mod:`hammemo.planning.growth`) and the
  memory tried on each growth, with the hashes of the very seed that the estimator will have
  (:mod:`hammemo.planning.trials`);
- **queries per second**: timed here and now, on tables of that size.

**Intervals** of agreement add up five variances: of the queries (binomial); of the labels' shares, which a sample says
only so well and which decide close calls (drawn several times in each growth); between growths; of the model (a
share of the misses, set on other data than it is tested on); and, where n is too large to be grown to, a share of the
misses for every doubling that is left out.

How many bytes the state of a memory will take: `memory_.nbytes`, from what a sample says of all the data.

Parts whose shape is known are computed: rows times labels times the width of a number, the narrowest one that holds the
largest count. What grows with the data (the sparse table's entries, rows and vocabulary) is extrapolated
(:func:`hammemo.planning.growth.expected_features`).
"""

from __future__ import annotations

import time
import warnings
from functools import cache
from math import log2, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from sklearn.base import clone

from hammemo._versions import cached_property
from hammemo.kernels import PositionalHamming
from hammemo.memories import Exact, Gaussian, Hashed, Memory
from hammemo.memories.hashed.reserved import most_frequent
from hammemo.memories.label_counts import LabelCounts
from hammemo.planning.growth import expected_distinct, expected_features
from hammemo.planning.reports import Estimate, Option
from hammemo.planning.trials import Grower, HashedSample, Outcome, Trial
from hammemo.tokens.contexts import Examples, token_array
from hammemo.tokens.labels import label_array
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array
    from hammemo.estimators.classifiers import MemoryClassifier


def width(largest: float) -> int:
    """Return the bytes of the narrowest unsigned integer that holds numbers up to `largest`.

    Examples
    --------
    >>> from hammemo.planning.predictions import width
    >>> width(255), width(256), width(2**33)
    (1, 2, 8)
    """
    return int(np.min_scalar_type(max(int(largest), 0)).itemsize)


class Sizes:
    """The sizes of memories of `n` examples like those of a sample.

    Parameters
    ----------
    examples : Examples
    sample : HashedSample
    n_labels : int
        How many labels there will be.
    """

    def __init__(self, examples: Examples, sample: HashedSample, n_labels: int) -> None:
        self.examples, self.sample, self.n_labels = examples, sample, n_labels
        self.times = sample.n / sample.m
        self._reserved = cache(self._reserved_bytes)
        self._grown_site = cache(self._expected_at)

    @property
    def frame(self) -> int:
        """The labels and how many examples each has."""
        counts = LabelCounts(self.examples.labels, self.sample.label_counts)
        each = _token_bytes(self.examples.labels) + width(counts.counts.max() * self.times)
        return round(self.n_labels * each)

    def hashed(
        self, buckets: int, reserved: Sequence[int], largest: list[tuple[float, float]]
    ) -> Estimate:
        """Return the size of a hashed memory.

        Parameters
        ----------
        buckets : int
        reserved : sequence of int
            Reserved features of each group of sites.
        largest : list of pairs
            For each site the largest count expected in a reserved row and in a bucket.
        """
        low, value, high = (self._tables(buckets, reserved, largest, sign) for sign in (-1, 0, 1))
        rest = self._reserved(tuple(reserved)) + self.frame
        return Estimate(value + rest, low + rest, high + rest, "computed")

    def _reserved_bytes(self, numbers: tuple[int, ...]) -> int:
        """Return the bytes by which reserved features are known; one that the sample lacks is taken for a new token."""
        found = most_frequent(
            self.examples, self.sample.sites, seed=self.sample.seed, key=None, numbers=numbers
        )
        missing = sum(numbers) - sum(map(len, found.hashes))
        return sum(part.nbytes for part in found.arrays().values()) + missing * self.reserved_token

    @property
    def reserved_token(self) -> int:
        """The bytes of a token by which it is recognised: hash, kind, place and, where there are strings, a digest."""
        return 8 + 1 + 2 + 32 * bool(len(self.examples.contexts.vocabulary.strings))

    def _tables(
        self, buckets: int, reserved: Sequence[int], largest: list[tuple[float, float]], sign: int
    ) -> int:
        """Return the bytes of all tables where the largest counts are as expected (0), or off to one side."""
        total = 0
        for group, (own, shared) in zip(self.sample.groups, largest, strict=True):
            widths = [width(count * (1 + sign * self.spread(count))) for count in (own, shared)]
            total += self.n_labels * (reserved[group] * widths[0] + buckets * widths[1])
        return total

    def spread(self, count: float) -> float:
        """Return by which share the largest count may be off: what a count as small as the sample's may be off."""
        return 0.0 if self.times <= 1 else min(0.02 + 1.5 / sqrt(max(count / self.times, 1.0)), 0.9)

    def gaussian(self, d: int) -> int:
        """Return the size of a square Gaussian memory."""
        n_sites = len(self.sample.parts)
        return 8 * n_sites * max(1, round(d / n_sites)) * d + self.frame

    def exact(self, largest_count: float) -> Estimate:
        """Return the size of the sparse exact table.

        The interval is 5 % to either side of what it is with 15 % fewer and 15 % more tokens, whose numbers may then
        have another width. Far beyond the sample the expected size is too small: what is rarer than anything in the
        sample is not expected. So each doubling past twelve times the sample adds 20 % to the upper end, a figure set
        on a text with its words as labels and on Zipf streams.
        """
        contexts, positions = self.examples.contexts, self.sample.sites.positions
        used = contexts.ranks[:, sorted({r for site in positions for r in site})]
        counts = np.bincount(used[used >= 0], minlength=len(contexts.vocabulary))
        tokens = max(expected_features(counts[counts > 0], self.times), 1.0)
        low, value, high = (
            self._exact(largest_count, tokens * factor) for factor in (0.85, 1.0, 1.15)
        )
        beyond = max(0.0, log2(self.times / 12))
        return Estimate(
            round(value), round(0.95 * low), round((1.05 + 0.2 * beyond) * high), "extrapolated"
        )

    def _exact(self, largest_count: float, tokens: float) -> float:
        sample, n = self.sample, self.sample.n
        total = self.frame + _token_bytes(self.examples.contexts.vocabulary) * tokens
        for k, site in enumerate(sample.sites.positions):
            features, entries = self._grown_site(k)
            parents = 1.0
            for length in range(1, len(site) + 1):
                level = features if length == len(site) else self._prefixes(site[:length])
                total += level * width(parents * tokens)
                parents = level
            total += features * width(min(self.n_labels, n))
            total += entries * (width(self.n_labels - 1) + width(largest_count))
        return total

    def _expected_at(self, k: int) -> tuple[float, float]:
        """Return how many features, and how many pairs of feature and label, site k will hold."""
        features = self.sample.features_at(k, self.sample.n)
        entries = max(
            expected_distinct(self.sample.parts[k].entry_counts(self.sample.n_labels), self.times),
            features,
        )
        return features, min(entries, features * self.n_labels)

    def _prefixes(self, positions: tuple[int, ...]) -> float:
        """Return how many distinct beginnings of tuples there will be."""
        ranks = self.examples.contexts.ranks[:, list(positions)]
        held = ranks[(ranks >= 0).all(axis=1)]
        return expected_features(np.unique(held, axis=0, return_counts=True)[1], self.times)


def _token_bytes(vocabulary: Vocabulary) -> float:
    """Return how many bytes of a state one token or label takes on average."""
    return sum(array.nbytes for array in vocabulary.arrays().values()) / max(len(vocabulary), 1)


GROWTHS = 4
"""How often the sample is grown."""

GROWN_CELLS = 1_600_000
"""The most (example, site) cells of one growth; more examples than that are not grown to."""

_COUNTED_CELLS = (
    4_000_000  # up to here the sparse table of data that is all there is counted, not extrapolated
)
_FAR = 100  # how many times a sample its growth is extrapolated to without a word
_MISSES_KEPT = 0.82  # growths have a few more misses than real data: measured on data other than docs/planning.md's
_MODEL_SPREAD = 0.08  # standard deviation of the model's error, as a share of the misses
_MISSES_DISCOUNT = 3.0  # where misses are many, that share is smaller
_GROWTH_SPREAD = 0.05  # the same between growths, before any is seen
MIN_SPREAD = 0.0005
_PROOF_SPREAD = (
    0.2  # the same for the certified share, as a share of it or of the rest, whichever is smaller
)
_UNGROWN_SPREAD = 0.05  # for each doubling that was not grown to, as a share of the misses
_MAXIMUM_BIAS = (
    0.6  # times the standard deviation of a count in the sample, by which the largest is too large
)
_MAX_D = 512  # of Gaussian memories that are tried


class Predictions:
    """The sample, what it says, and what is predicted of each memory that is tried on it.

    Parameters
    ----------
    X, y, n_examples, n_labels, sample, confidence
        As in `hammemo.planning.plan`.
    model : MemoryClassifier
        With the kernel, the vote and the seed of all memories.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        model: Any,
        n_examples: int | None,
        n_labels: int | None,
        sample: int,
        confidence: float,
    ) -> None:
        self.X, self.y = token_array(X), label_array(y)
        if len(self.X) < 2 or len(self.X) != len(self.y):
            raise ValueError(
                f"A plan needs two examples or more; X has {len(self.X)} rows and y {len(self.y)} labels."
            )
        self.n = len(self.X) if n_examples is None else int(n_examples)
        if self.n < len(self.X):
            raise ValueError(
                f"n_examples={n_examples} is the size of all the data, but X alone has {len(self.X)} rows."
            )
        self.is_all = self.n == len(self.X)
        self.model, self.confidence, seed = model, confidence, model.random_state
        self.rng = np.random.default_rng([seed % 2**63, 9])
        rows = self.rng.permutation(len(self.X))[: max(int(sample), 2)]
        self.examples = Examples.of(self.X[rows], self.y[rows])
        self.sampled = rows
        self.sites = (model.kernel or PositionalHamming()).resolve(self.examples.contexts.h)
        self.sample = HashedSample(self.examples, self.sites, seed, self.n)
        self.notes: list[str] = []
        self._sketch: MemoryClassifier  # the Gaussian memory that was tried
        self.n_labels = self._number_of_labels(n_labels)
        self.sizes = Sizes(self.examples, self.sample, self.n_labels)

    def _number_of_labels(self, given: int | None) -> int:
        seen = len(np.unique(self.y)) if self.is_all else self.sample.n_labels
        if given is not None:
            if given < seen:
                raise ValueError(f"n_labels={given}, but the sample alone has {seen} labels.")
            return int(given)
        if self.is_all:
            return seen
        expected = max(
            seen, round(expected_distinct(self.sample.label_counts, self.n / self.sample.m))
        )
        if expected > seen:
            self.notes.append(
                f"The sample has {seen:,} labels; {expected:,} are expected in all the data and planned for. "
                "n_labels= says what is known."
            )
        return expected

    def estimator(self, memory: Memory) -> MemoryClassifier:
        """Return an unfitted classifier with this memory."""
        estimator: MemoryClassifier = clone(self.model)
        return estimator.set_params(memory=clone(memory))

    # Growths

    @cached_property
    def grown_to(self) -> int:
        """How many examples the sample is grown to."""
        return max(self.sample.m, min(self.n, GROWN_CELLS // len(self.sites.positions)))

    @cached_property
    def trials(self) -> list[Trial]:
        """All growths; one where nothing is grown."""
        if self.grown_to < self.n:
            grown = f"Agreement was simulated with {self.grown_to:,} examples"
            self.notes.append(f"{grown}; intervals are wider for the rest.")
        grower, number = (
            Grower(self.sample, self.grown_to),
            GROWTHS if self.grown_to > self.sample.m else 1,
        )
        return [
            grower.draw(self.rng, self.sites.weights, mean=self.model.vote == "mean")
            for _ in range(number)
        ]

    # Memories

    @cached_property
    def exact(self) -> Option:
        """The sparse exact table."""
        certain = Estimate(1.0, 1.0, 1.0, "computed")
        if self.is_all and self.X.shape[0] * len(self.sites.positions) <= _COUNTED_CELLS:
            size = self.estimator(Exact()).fit(self.X, self.y).memory_.nbytes
            return Option(Exact(), Estimate(size, size, size, "counted"), certain, certain)
        largest = max(
            int(part.entry_counts(self.sample.n_labels).max(initial=0))
            for part in self.sample.parts
        )
        if self.n > _FAR * self.sample.m:
            far = f"The sample is less than 1/{_FAR} of the data"
            self.notes.append(f"{far}: the size of the exact table is a guess, and too small.")
        found = self.sizes.exact(largest * self.n / self.sample.m)
        return Option(Exact(), found, certain, certain)

    def reserved(self, number: int) -> list[int]:
        """Return how many features each group of sites reserves where `number` are requested."""
        groups = range(len(self.sample.pooled))
        return [
            min(number, round(self.sample.features_in_group(group, self.n))) for group in groups
        ]

    def hashed(self, buckets: int, reserved: int) -> Option:
        """Return what is predicted of one hashed memory, from all growths."""
        outcomes = [trial.hashed(buckets, reserved, certify=True) for trial in self.trials]
        size = self.sizes.hashed(buckets, self.reserved(reserved), self.largest_counts(outcomes))
        agreement = self._interval(
            [o.agreement for o in outcomes], int(self.trials[0].unambiguous.sum())
        )
        certified = self._interval(
            [o.certified for o in outcomes], len(self.trials[0].queries), proofs=True
        )
        return Option(Hashed(buckets, reserved), size, agreement, certified)

    def largest_counts(self, outcomes: Sequence[Outcome]) -> list[tuple[float, float]]:
        """Return the largest counts of each site; of many noisy counts the largest is too large, which is undone."""
        times = self.n / self.grown_to
        means = np.mean([outcome.largest for outcome in outcomes], axis=0) * times
        noise = _MAXIMUM_BIAS / np.sqrt(np.maximum(means[:, 1] * self.sample.m / self.n, 1))
        means[:, 1] /= 1 + (noise if self.n > self.sample.m else 0.0)
        return [(float(own), float(shared)) for own, shared in means]

    def _interval(
        self, shares: Sequence[Sequence[float]], n_queries: int, *, proofs: bool = False
    ) -> Estimate:
        """Return the prediction from the shares in each growth, one for each draw of the labels' shares."""
        values = np.array(shares)
        share, number = float(values.mean()), len(values)
        rest = min(share, 1 - share) if proofs else 1 - share
        grown = number > 1
        if grown and not proofs:
            share = 1 - _MISSES_KEPT * (1 - share)
        relative = _PROOF_SPREAD if proofs else _MODEL_SPREAD / (1 + _MISSES_DISCOUNT * rest)
        spread = relative * rest if grown else 0.0
        found = (
            values.mean(axis=1).var() * number + GROWTHS * (_GROWTH_SPREAD * rest) ** 2
        )  # few growths say little
        between = found / (number - 1 + GROWTHS) * (1 + 1 / number) if grown else 0.0
        within = values.var(axis=1, ddof=1).mean() if values.shape[1] > 1 else 0.0
        ungrown = _UNGROWN_SPREAD * rest * max(log2(self.n / self.grown_to), 0)
        asked = max(n_queries, 1)
        binomial = max(share * (1 - share), 1 / asked) / asked
        deviation = sqrt(binomial + between + within + (spread + MIN_SPREAD) ** 2 + ungrown**2)
        half = float(stats.norm.ppf(0.5 + self.confidence / 2)) * deviation
        return Estimate(share, max(share - half, 0.0), min(share + half, 1.0), "simulated")

    def gaussian(self, size: int) -> Option:
        """Return a Gaussian memory of about this size, tried on the sample as it is."""
        d = min(max(int(sqrt(max(size - self.sizes.frame, 8) / 8)), 1), _MAX_D)
        while d > 1 and self.sizes.gaussian(d) > size:
            d -= 1
        rows = self.sampled[:2500]
        learnt, asked = rows[len(rows) // 5 :], rows[: len(rows) // 5]
        exact = self.estimator(Exact()).fit(self.X[learnt], self.y[learnt])
        self._sketch = sketch = self.estimator(Gaussian(d)).fit(self.X[learnt], self.y[learnt])
        scores = np.sort(exact.class_scores(self.X[asked]), axis=1)
        clear = scores[:, -1] > scores[:, -2] if scores.shape[1] > 1 else np.ones(len(scores), bool)
        same = (sketch.predict(self.X[asked]) == exact.predict(self.X[asked]))[clear]
        agreement = Estimate(0.5, 0.0, 1.0, "simulated")  # where no query was clear
        if len(same):
            found = stats.binomtest(int(same.sum()), len(same)).proportion_ci(
                self.confidence, "wilson"
            )
            agreement = Estimate(
                float(same.mean()), float(found.low), float(found.high), "simulated"
            )
        taken = self.sizes.gaussian(d)
        return Option(Gaussian(d), Estimate(taken, taken, taken, "computed"), agreement, None)

    # Speed

    def speed(self, memory: Memory) -> Estimate:
        """Return how many queries a second a compiled model of this size answers here, in one batch."""
        X, y = self.X[self.sampled], self.y[self.sampled]
        if isinstance(memory, Exact):
            X, y = self._grown_examples()
            model = self.estimator(memory).set_params(kernel=None).fit(X, y)
        elif isinstance(memory, Gaussian):
            model = self._sketch
        else:  # each example so often that counts, and with them the widths of the table, are those of all the data
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of many labels the report tells by its sizes
                model = self.estimator(memory).fit(X, y, np.full(len(X), max(self.n // len(X), 1)))
        asked = X if isinstance(memory, Hashed) else X[:1000]
        predictor = model.compile().prepare()
        predictor.predict(asked)  # what the first answer waits for
        rates = []
        for _ in range(5):
            started = time.perf_counter()
            predictor.predict(asked)
            rates.append(len(asked) / (time.perf_counter() - started))
        return Estimate(float(np.median(rates)), min(rates), max(rates), "timed")

    def _grown_examples(self) -> tuple[Array, Array]:
        """Return a growth as examples whose tokens are features, for a table as large as the real one."""
        sites = [site for site, _ in self.trials[0].sites]
        longest = max(sites, key=lambda grown: len(grown.features))
        n = min(len(longest.features), max(GROWN_CELLS // 4 // len(sites), self.sample.m))
        tokens = np.full((n, len(sites)), NO_TOKEN)
        for column, (grown, words) in zip(tokens.T, self.trials[0].sites, strict=True):
            held = words[grown.features[:n]] >> np.uint64(1)
            column[: len(held)] = held.astype(np.int64)
        return tokens, longest.labels[:n]
