r"""What is predicted of a memory that has learned nothing yet, from a sample of the data.

Every prediction is about the *full* data, n examples, from a sample of m of them:

- **state bytes**: computed where the shape is known (Hashed, Gaussian), extrapolated for the sparse
  exact table, whose entries grow with the data (:mod:`hammemo.planning.sizes`);
- **agreement** with the exact classifier on unambiguous queries, those whose exact winner is not
  tied, and the **certified** share: simulated. The sample is grown to n several times
  (:mod:`hammemo.planning.growth`) and the memory tried on each growth, with the hashes of the very
  seed that the estimator will have (:mod:`hammemo.planning.trials`);
- **queries per second**: timed during planning, on tables of that size.

**Intervals** of agreement add up five variances: of the queries (binomial); of the labels' shares,
which a sample knows only roughly and which decide close calls (drawn several times in each growth);
between growths; of the model (a share of the misses, set on other data than it is tested on); and,
where n is too large to be grown to, a share of the misses for every doubling that is left out.
"""

from __future__ import annotations

import time
import warnings
from math import log2, sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy import stats
from sklearn.base import clone

from hammemo._versions import cached_property
from hammemo.kernels import PositionalHamming, SiteKernel
from hammemo.memories import Exact, Gaussian, Hashed, Memory
from hammemo.planning.growth import estimate_distinct
from hammemo.planning.reports import Estimate, Option
from hammemo.planning.sizes import LargestCounts, Sizes
from hammemo.planning.trials import Grower, HashedSample, Outcome, Trial
from hammemo.tokens.contexts import Examples, token_array
from hammemo.tokens.labels import label_array
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array
    from hammemo.estimators.classifiers import MemoryClassifier

GROWTHS: Final = 4
"""How often the sample is grown."""

GROWN_CELLS: Final = 1_600_000
"""The most (example, site) cells of one growth; more examples than that are not grown to."""

MIN_SPREAD: Final = 0.0005
"""The least standard deviation of the model's error of a share."""

_COUNTED_CELLS: Final = 4_000_000
"""Cells up to which the sparse table is counted, if the sample is all the data there is."""

_FAR: Final = 100
"""How many times a sample its growth is extrapolated to without a note."""

_MISSES_SHARE: Final = 0.82
"""Growths have a few more misses than real data: by a trial on other data than
docs/planning.md's."""

_MODEL_SPREAD: Final = 0.08
"""Standard deviation of the model's error, as a share of the misses."""

_MISSES_DISCOUNT: Final = 3.0
"""Where misses are many, that share is smaller."""

_GROWTH_SPREAD: Final = 0.05
"""Standard deviation between growths before any is drawn, as a share of the misses."""

_PROOF_SPREAD: Final = 0.2
"""That of the model's error of the certified share, as a share of it or of the complement,
whichever is smaller."""

_UNGROWN_SPREAD: Final = 0.05
"""That for each doubling that was not grown to, as a share of the misses."""

_MAXIMUM_BIAS: Final = 0.6
"""Times the standard deviation of a count in the sample, by which the largest is too large."""

_MAX_D: Final = 512
"""Of Gaussian memories that are tried."""

_GAUSSIAN_ROWS: Final = 2500
"""Rows of the sample that a Gaussian memory is tried on: a fifth are queries."""

_TIMED_QUERIES: Final = 1000
"""Queries of which exact and Gaussian memories are timed."""

_TIMED_RUNS: Final = 5
"""How often a batch is timed."""

_RANDOM_STREAM: Final = 9
"""Follows the estimator's seed, so that a plan's draws are not those of the estimator."""


class PlanData(NamedTuple):
    """The data that a plan is made from."""

    X: Any
    y: Any
    n_examples: int | None
    """The total number of examples; None for those of X."""
    n_labels: int | None
    """The total number of labels; None if it is to be estimated."""
    max_sampled: int
    """The maximal number of examples used."""


class Predictions:
    """The sample, what it says, and what is predicted of each memory that is tried on it.

    Parameters
    ----------
    data : PlanData
    model : MemoryClassifier
        With the kernel, the vote and the seed of all memories.
    confidence : float
        The confidence level of the intervals.
    """

    def __init__(self, data: PlanData, model: MemoryClassifier, confidence: float) -> None:
        self.X = token_array(data.X)
        self.y = label_array(data.y)
        n_rows = len(self.X)
        if n_rows < 2 or n_rows != len(self.y):
            raise ValueError(
                "A plan needs two examples or more; "
                f"X has {n_rows} rows and y {len(self.y)} labels."
            )
        self.n = n_rows if data.n_examples is None else int(data.n_examples)
        if self.n < n_rows:
            raise ValueError(
                f"n_examples={data.n_examples} is the size of all the data, "
                f"but X alone has {n_rows} rows."
            )
        self.is_all = self.n == n_rows
        self.model = model
        self.confidence = confidence
        seed = model.random_state
        self.rng = np.random.default_rng([seed % 2**63, _RANDOM_STREAM])  # seeds may be negative
        self.sample_rows = self.rng.permutation(n_rows)[: max(int(data.max_sampled), 2)]
        self.examples = Examples.of(self.X[self.sample_rows], self.y[self.sample_rows])
        kernel: SiteKernel = PositionalHamming()  # what kernel=None stands for
        if isinstance(model.kernel, SiteKernel):
            kernel = model.kernel
        self.sites = kernel.resolve(self.examples.contexts.h)
        self.sample = HashedSample(self.examples, self.sites, seed, self.n)
        self.notes: list[str] = []
        self._gaussian_model: MemoryClassifier  # set by `try_gaussian`, timed by `time_queries`
        self.n_labels = self._estimate_labels(data.n_labels)
        self.sizes = Sizes(self.examples, self.sample, self.n_labels)

    def _estimate_labels(self, n_labels: int | None) -> int:
        """Return the number of labels of all the data: as the user says, counted, or estimated."""
        n_in_sample = self.sample.n_labels
        n_at_least = n_in_sample
        source = "the sample"
        if self.is_all:
            n_at_least = len(np.unique(self.y))
            source = "y"
        if n_labels is not None:
            if n_labels < n_at_least:
                raise ValueError(
                    f"n_labels={n_labels}, but {source} alone has {n_at_least} labels."
                )
            return int(n_labels)
        if self.is_all:
            return n_at_least
        times = self.n / self.sample.m
        expected = max(n_in_sample, round(estimate_distinct(self.sample.label_counts, times)))
        if expected > n_in_sample:
            self.notes.append(
                f"The sample has {n_in_sample:,} labels; {expected:,} are expected in all the data "
                "and planned for. n_labels= says what is known."
            )
        return expected

    def make_estimator(self, memory: Memory) -> MemoryClassifier:
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
            self.notes.append(
                f"Agreement was simulated with {self.grown_to:,} examples; "
                "intervals are wider for the rest."
            )
        grower = Grower(self.sample, self.grown_to)
        n_growths = GROWTHS if self.grown_to > self.sample.m else 1
        is_mean = self.model.vote == "mean"
        return [grower.draw(self.rng, self.sites.weights, mean=is_mean) for _ in range(n_growths)]

    # Memories

    @cached_property
    def exact(self) -> Option:
        """The sparse exact table."""
        certain = Estimate(1.0, 1.0, 1.0, "computed")
        n_cells = self.X.shape[0] * len(self.sites.positions)
        if self.is_all and n_cells <= _COUNTED_CELLS:
            size = self.make_estimator(Exact()).fit(self.X, self.y).memory_.nbytes
            return Option(Exact(), Estimate(size, size, size, "counted"), certain, certain)
        largest_count = max(
            int(site.entry_counts(self.sample.n_labels).max(initial=0))
            for site in self.sample.site_samples
        )
        if self.n > _FAR * self.sample.m:
            self.notes.append(
                f"The sample is less than 1/{_FAR} of the data: "
                "the size of the exact table is a guess, and too small."
            )
        size_estimate = self.sizes.measure_exact(largest_count * self.n / self.sample.m)
        return Option(Exact(), size_estimate, certain, certain)

    def reserve(self, number: int) -> list[int]:
        """Return how many features each group of sites reserves where `number` are requested."""
        return [
            min(number, round(self.sample.features_in_group(group, self.n)))
            for group in range(len(self.sample.pooled))
        ]

    def predict_hashed(self, buckets: int, reserved: int) -> Option:
        """Return what is predicted of one hashed memory, from all growths."""
        outcomes = [trial.try_hashed(buckets, reserved, certify=True) for trial in self.trials]
        first = self.trials[0]
        return Option(
            memory=Hashed(buckets, reserved),
            state_bytes=self.sizes.measure_hashed(
                buckets, self.reserve(reserved), self.estimate_largest_counts(outcomes)
            ),
            agreement=self._estimate_agreement(
                [outcome.agreement for outcome in outcomes], int(first.unambiguous.sum())
            ),
            certified=self._estimate_certified(
                [outcome.certified for outcome in outcomes], len(first.queries)
            ),
        )

    def estimate_largest_counts(self, outcomes: Sequence[Outcome]) -> list[LargestCounts]:
        """Return the largest counts of each site, the mean over growths.

        The largest count of a bucket is corrected. It is the largest of many similar sums, so that
        in a sample it is too large by chance: by about `_MAXIMUM_BIAS` standard deviations, each of
        them the root of the count in the sample. Reserved rows hold the few most frequent features,
        whose counts differ by more than chance.
        """
        times = self.n / self.grown_to
        means = np.mean([outcome.largest for outcome in outcomes], axis=0) * times
        reserved_counts, bucket_counts = means.T
        if self.n > self.sample.m:
            sample_counts = np.maximum(bucket_counts * self.sample.m / self.n, 1)
            bucket_counts = bucket_counts / (1 + _MAXIMUM_BIAS / np.sqrt(sample_counts))
        return [
            LargestCounts(float(reserved), float(bucket))
            for reserved, bucket in zip(reserved_counts, bucket_counts, strict=True)
        ]

    def _estimate_agreement(self, shares: Sequence[Sequence[float]], n_queries: int) -> Estimate:
        """Return the agreement, from that of each growth with each draw of the labels' shares."""
        values = np.array(shares)
        simulated = float(values.mean())
        misses = 1 - simulated
        share = simulated
        model_spread = 0.0
        if len(values) > 1:  # growths have a few more misses than real data
            share = 1 - _MISSES_SHARE * misses
            model_spread = _MODEL_SPREAD / (1 + _MISSES_DISCOUNT * misses) * misses
        return self._make_interval(
            share, values, n_queries, scale=misses, model_spread=model_spread
        )

    def _estimate_certified(self, shares: Sequence[Sequence[float]], n_queries: int) -> Estimate:
        """Return the certified share, from that of each growth with each draw."""
        values = np.array(shares)
        share = float(values.mean())
        smaller = min(share, 1 - share)
        model_spread = 0.0
        if len(values) > 1:
            model_spread = _PROOF_SPREAD * smaller
        return self._make_interval(
            share, values, n_queries, scale=smaller, model_spread=model_spread
        )

    def _make_interval(
        self,
        share: float,
        values: Array,
        n_queries: int,
        *,
        scale: float,
        model_spread: float,
    ) -> Estimate:
        """Return a share with its interval: the share plus and minus z standard deviations.

        The variance is the sum of the five variances of the module's text.

        Parameters
        ----------
        share : float
        values : ndarray of shape (growths, draws of the labels' shares)
        n_queries : int
        scale : float
            What the standard deviations between growths and beyond them are shares of: the misses,
            for agreement.
        model_spread : float
            The standard deviation of the model's error; `MIN_SPREAD` is added to it.
        """
        doublings_left_out = max(log2(self.n / self.grown_to), 0)
        variance = (
            _estimate_query_variance(share, n_queries)
            + _estimate_growth_variance(values, scale)
            + _estimate_draw_variance(values)
            + (model_spread + MIN_SPREAD) ** 2
            + (_UNGROWN_SPREAD * scale * doublings_left_out) ** 2
        )
        z = float(stats.norm.ppf(0.5 + self.confidence / 2))
        half_width = z * sqrt(variance)
        return Estimate(
            value=share,
            low=max(share - half_width, 0.0),
            high=min(share + half_width, 1.0),
            method="simulated",
        )

    def try_gaussian(self, size: int) -> Option:
        """Return a Gaussian memory of about this size, tried on the sample as it is."""
        d = self._choose_dimension(size)
        n_bytes = self.sizes.measure_gaussian(d)
        return Option(
            memory=Gaussian(d),
            state_bytes=Estimate(n_bytes, n_bytes, n_bytes, "computed"),
            agreement=self._measure_gaussian_agreement(d),
            certified=None,
        )

    def _choose_dimension(self, size: int) -> int:
        """Return the largest d, up to `_MAX_D`, whose Gaussian memory takes at most `size` bytes.

        It is 1 where none is so small.
        """
        # A memory has about d * d numbers of 8 bytes. Each site's share of them is rounded, so d
        # may turn out a little too large.
        n_numbers = max(size - self.sizes.frame, 8) / 8
        d = min(int(sqrt(n_numbers)), _MAX_D)
        while d > 1 and self.sizes.measure_gaussian(d) > size:
            d -= 1
        return d

    def _measure_gaussian_agreement(self, d: int) -> Estimate:
        """Return how often a Gaussian memory agrees with the exact table, both fitted to rows.

        A fifth of the rows are queries; those without a clear exact winner do not count.
        """
        rows = self.sample_rows[:_GAUSSIAN_ROWS]
        n_queries = len(rows) // 5
        queries = self.X[rows[:n_queries]]
        X = self.X[rows[n_queries:]]
        y = self.y[rows[n_queries:]]
        exact = self.make_estimator(Exact()).fit(X, y)
        self._gaussian_model = self.make_estimator(Gaussian(d)).fit(X, y)
        scores = np.sort(exact.class_scores(queries), axis=1)
        is_clear = np.ones(len(scores), bool)
        if scores.shape[1] > 1:
            is_clear = scores[:, -1] > scores[:, -2]
        is_same = (self._gaussian_model.predict(queries) == exact.predict(queries))[is_clear]
        if not len(is_same):
            return Estimate(0.5, 0.0, 1.0, "simulated")
        test = stats.binomtest(int(is_same.sum()), len(is_same))
        interval = test.proportion_ci(self.confidence, "wilson")
        return Estimate(
            value=float(is_same.mean()),
            low=float(interval.low),
            high=float(interval.high),
            method="simulated",
        )

    # Speed

    def time_queries(self, memory: Memory) -> Estimate:
        """Return how many queries a second a compiled model of this size answers, in one batch.

        A Gaussian memory is the one that `try_gaussian` tried last.
        """
        model, queries = self._make_timed_model(memory)
        predictor = model.compile().prepare()
        predictor.predict(queries)  # the first answer builds tables: it is not timed
        rates = []
        for _ in range(_TIMED_RUNS):
            started = time.perf_counter()
            predictor.predict(queries)
            rates.append(len(queries) / (time.perf_counter() - started))
        return Estimate(float(np.median(rates)), min(rates), max(rates), "timed")

    def _make_timed_model(self, memory: Memory) -> tuple[MemoryClassifier, Array]:
        """Return a model with a memory of the real size, and queries for it."""
        if isinstance(memory, Exact):
            queries, labels = self._make_grown_examples()
            # Each column has the features of one site: compare column by column.
            model = self.make_estimator(memory).set_params(kernel=None).fit(queries, labels)
            return model, queries[:_TIMED_QUERIES]
        queries = self.X[self.sample_rows]
        if isinstance(memory, Gaussian):
            return self._gaussian_model, queries[:_TIMED_QUERIES]
        # Each example counts so often that counts, and with them the widths of the table, are
        # those of all the data.
        times = np.full(len(queries), max(self.n // len(queries), 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the sizes in the report tell of many labels
            model = self.make_estimator(memory).fit(queries, self.y[self.sample_rows], times)
        return model, queries

    def _make_grown_examples(self) -> tuple[Array, Array]:
        """Return tokens and labels whose exact table is about as large as that of all the data.

        Tokens are the features of a growth, one column for each site. Sites are grown one by one,
        so a row is no real example: it has cell i of each site, whichever examples these are of.
        Its label is that of the cell at the site with the most cells.

        Shapes
        ------
        returned : (n, S), (n,)
        """
        sites = self.trials[0].sites
        longest = max((cells for cells, _ in sites), key=lambda cells: len(cells.features))
        n = min(len(longest.features), max(GROWN_CELLS // 4 // len(sites), self.sample.m))
        tokens = np.full((n, len(sites)), NO_TOKEN)
        for column, (cells, words) in zip(tokens.T, sites, strict=True):
            # Tokens are int64 and hashes uint64: without the lowest bit none becomes negative.
            features = words[cells.features[:n]] >> np.uint64(1)
            column[: len(features)] = features.astype(np.int64)
        return tokens, longest.labels[:n]


def _estimate_query_variance(share: float, n_queries: int) -> float:
    """Return the binomial variance of a share p of q queries, ``p (1 - p) / q``.

    A share of 0 or 1 is not certain either: ``p (1 - p)`` counts as at least ``1 / q``.
    """
    n_queries = max(n_queries, 1)
    return max(share * (1 - share), 1 / n_queries) / n_queries


def _estimate_growth_variance(values: Array, scale: float) -> float:
    """Return the variance between growths of a share, from its values (growths, draws).

    With g growths it is ``(1 + 1 / g) v``, the variance of one more growth about their mean. A few
    growths say little about v, so a prior variance u counts like `GROWTHS` = k of them:
    ``v = (sum of squared deviations + k u) / (g - 1 + k)``.
    """
    n_growths = len(values)
    if n_growths == 1:
        return 0.0
    prior = GROWTHS * (_GROWTH_SPREAD * scale) ** 2
    squares = values.mean(axis=1).var() * n_growths
    variance = (squares + prior) / (n_growths - 1 + GROWTHS)
    return float(variance * (1 + 1 / n_growths))


def _estimate_draw_variance(values: Array) -> float:
    """Return the variance between draws of the labels' shares, the mean over growths."""
    if values.shape[1] == 1:
        return 0.0
    return float(values.var(axis=1, ddof=1).mean())
