"""A path of growing sets of sites: single columns first, then the tuples that promise most.

A round tests candidates by the score test against cross-fitted residuals, adds the best few, fits
all weights again and extends each new tuple by every column. A wide table's path looks only at the
columns that promise most alone, because the work of a fit grows with the cube of the number of
columns. Candidates are all pairs, or the pairs of the best columns where there are too many; all
triples too where they are few. A candidate once tested keeps its promise until it is tested again:
each round tests the new ones and the best of the others.

:mod:`hammemo.kernels.selection.shared_weights` has the mathematics.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.logarithms import log
from hammemo.kernels.selection.score_tests import ScoreTests
from hammemo.kernels.selection.shared_weights import SharedWeights
from hammemo.kernels.selection.site_features import SMOOTHING, make_features
from hammemo.tokens.hashing import mix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hammemo._arrays.types import Floats
    from hammemo.kernels.selection.site_features import Features, SiteRatios
    from hammemo.kernels.sites import Site

FOLDS: Final = 5
"""Inner folds, for cross-fitted scores."""

_NUMBERS: Final = 3 * 2**16
"""Rows times labels that a path looks at."""

_MIN_ROWS: Final = 1000
"""Rows that a path looks at, however many labels there are, unless its memory would be too
large."""

_FEATURE_NUMBERS: Final = 2**26
"""Rows times labels times features, at most: the features of a path are held in memory, four bytes
each."""

_FIT_WORK: Final = 2**34
"""Rows times labels times the square of the features, at most: what one step of Newton's method
costs."""

MAX_COLUMNS: Final = 192
"""Columns that a path looks at."""

_SCAN: Final = 2**27
"""Candidates times rows times labels times amounts of smoothing of one round."""

_MIN_CANDIDATES: Final = 100
"""Candidates that a round tests, at least."""

_MAX_CANDIDATES: Final = 4000
"""Candidates that a round tests, at most."""

_LEADERS: Final = 24
"""Candidates among which the winners of a round are chosen."""

_TESTED_AGAIN: Final = 200
"""Candidates of earlier rounds that a round tests again, at most."""

_TESTED_AT_ONCE: Final = 6
"""Leaders that are tested again together."""

_LEAST_WINNERS: Final = 2
"""Tuples that a round adds at most, while there are few sites."""

_MOST_WINNERS: Final = 8
"""Tuples that a round adds at most, however many sites there are."""

_SITES_OF_A_WINNER: Final = 4
"""Between these bounds, a round adds one tuple for each four sites of the path."""

_MIN_GAIN_NATS: Final = 0.5
"""Nats that a tuple must promise."""

_MIN_LOSS_SHARE: Final = 2e-4
"""The share of the loss that a round must gain, or one row's worth if that is more."""

_WORSE_ROUNDS: Final = 2
"""Rounds in a row that gain less before the path ends."""

_MAX_LOSS: Final = 27.6
"""Nats that a row costs, at most, where a round is judged."""

_UNIFORM: Final = 0.002
"""The share of even probabilities mixed into those of test rows, so that no row costs more than
a few nats."""


def count_path_rows(n: int, n_labels: int, n_features: int) -> int:
    """Return how many of n rows a path looks at, so that its memory and its work stay bounded.

    Examples
    --------
    >>> from hammemo.kernels.selection.growth import count_path_rows
    >>> [count_path_rows(50_000, n_labels, 200) for n_labels in (2, 26, 30_000)]
    [50000, 7561, 11]
    """
    numbers = max(_NUMBERS, _MIN_ROWS * n_labels)
    bounded = min(numbers, _FEATURE_NUMBERS // n_features, _FIT_WORK // n_features**2)
    return min(n, bounded // n_labels)


@dataclass(frozen=True, eq=False)
class PathStep:
    """A set of sites on a path.

    Parameters
    ----------
    sites : list of tuple of int
        Single columns, then tuples in the order in which they were added.
    weights : ndarray of float64, shape (F,)
        Those that all labels share.
    losses : ndarray of float64, optional
        The log-loss of each test row; None where there are none.
    """

    sites: list[Site]
    weights: Floats
    losses: Floats | None


@dataclass(frozen=True, eq=False)
class FoldTrial:
    """An outer fold with the sites that were chosen on it: votes are tried on it.

    Parameters
    ----------
    features : Features
        Those of the rows inside, each left out of its own counts.
    test : Features
        Those of the rows outside.
    sites : list of tuple of int
        The sites of the first features.
    weights : ndarray of float64, optional
        Their weights, shared by all labels; None if the path left out some of the columns.
    """

    features: Features
    test: Features
    sites: list[Site]
    weights: Floats | None


class Growth:
    """One path.

    Parameters
    ----------
    ratios : SiteRatios
    budget : int
        The most tuples.
    order : int
        The most columns of a tuple.
    """

    def __init__(self, ratios: SiteRatios, budget: int, order: int) -> None:
        self.ratios = ratios
        self.budget = budget
        self.order = order
        sizes = ratios.copies.sizes
        self.every_column = [j for j in range(len(sizes)) if sizes[j] > 1] or [0]
        n_features = len(SMOOTHING) * (min(len(self.every_column), MAX_COLUMNS) + budget)
        self.m = max(1, count_path_rows(ratios.n, ratios.n_labels, n_features))

        # Rows lie fold by fold. A copy stays in its fold when others go.
        hashes = mix(ratios.copies.hashes[: self.m] + np.uint64(3))
        folds = hashes % np.uint64(FOLDS)
        self._rows = np.argsort(folds, kind="stable")
        ends = np.searchsorted(folds[self._rows], np.arange(FOLDS + 1)).tolist()

        self.features = make_features(ratios, self._rows, leave_one_out=True)
        self.test = make_features(ratios, ratios.test_rows, leave_one_out=False)
        self._weights = SharedWeights(self.features, ends)
        self._candidates = _Candidates(ScoreTests(ratios, self._rows))
        self.columns = sorted(self._best_columns(self.every_column, MAX_COLUMNS))

    def steps(self) -> Iterator[PathStep]:
        """Yield the sets of sites of the path, each larger than the one before."""
        # Single columns, with even weights.
        sites: list[Site] = []
        self._add([(j,) for j in self.columns], sites)
        even = np.full(len(SMOOTHING) * len(sites), 1.0 / len(SMOOTHING))
        weights, scores = self._weights.fit(even)
        best_loss = self._mean_loss(scores)
        n_worse = 0
        yield self._take_step(sites, weights)

        # Rounds of tuples, until the budget is spent or the loss falls no more.
        n_tested = self._count_candidates()
        pool = self._first_candidates(n_tested)
        while len(sites) - len(self.columns) < self.budget and pool:
            budget_left = self.budget - (len(sites) - len(self.columns))
            n_winners = max(_LEAST_WINNERS, min(_MOST_WINNERS, len(sites) // _SITES_OF_A_WINNER))
            self._candidates.judge_by(self.features.softmax(scores)[0])
            self._candidates.test(sorted(pool - self._candidates.promises.keys())[:n_tested])
            winners, steps = self._choose_winners(pool, scores, min(budget_left, n_winners))
            if not winners:
                return
            self._add(winners, sites)
            pool -= set(winners)
            weights, scores = self._weights.fit(np.concatenate([weights, *steps]))
            yield self._take_step(sites, weights)
            loss = self._mean_loss(scores)
            if loss < best_loss - max(1.0 / self.m, _MIN_LOSS_SHARE * best_loss):
                best_loss = loss
                n_worse = 0
            else:
                n_worse += 1
            if n_worse == _WORSE_ROUNDS:
                return
            pool |= self._extend(winners) - set(sites)

    def trial(self, step: PathStep) -> FoldTrial:
        """Return what votes are tried on: the step's sites, and the columns that the path left out.

        A path leaves out columns of a wide table only.
        """
        left_out = [(j,) for j in sorted(set(self.every_column) - set(self.columns))]
        if not left_out:
            return FoldTrial(self.features, self.test, step.sites, step.weights)
        sites = [*left_out, *step.sites]
        numbers_of_a_row = len(SMOOTHING) * len(sites) * self.ratios.n_labels
        n_rows = max(1, _FEATURE_NUMBERS // numbers_of_a_row)
        rows = np.sort(self._rows)[:n_rows]  # the first copies are a random sample
        test_rows = self.ratios.test_rows[:n_rows]
        return FoldTrial(
            features=make_features(self.ratios, rows, sites, leave_one_out=True),
            test=make_features(self.ratios, test_rows, sites, leave_one_out=False),
            sites=sites,
            weights=None,
        )

    def _add(self, new_sites: list[Site], sites: list[Site]) -> None:
        """Add sites to the features of the path and to the list of its sites."""
        for site in new_sites:
            self.features.add(site)
            if len(self.test.rows):
                self.test.add(site)
            sites.append(site)

    def _mean_loss(self, scores: Floats) -> float:
        """Return the mean loss of the training rows, by cross-fitted scores."""
        return float(np.minimum(self.features.softmax(scores)[1], _MAX_LOSS).mean())

    def _take_step(self, sites: list[Site], weights: Floats) -> PathStep:
        """Return the path as it is, with the losses of the test rows."""
        if not len(self.test.rows):
            return PathStep(list(sites), weights, None)
        probabilities, _ = self.test.softmax(self.test.scores(weights))
        own_probabilities = self.test.select_own(probabilities)
        losses = -log((1 - _UNIFORM) * own_probabilities + _UNIFORM / self.ratios.n_labels)
        return PathStep(list(sites), weights, losses)

    def _count_candidates(self) -> int:
        """Return how many candidates a round tests."""
        work = self.m * self.ratios.n_labels * len(SMOOTHING)
        return int(np.clip(_SCAN // work, _MIN_CANDIDATES, _MAX_CANDIDATES))

    def _first_candidates(self, n_tested: int) -> set[Site]:
        """Return pairs of columns, and triples where they are few."""
        if self.order < 2:
            return set()
        columns = self.columns
        candidates: set[Site] = set(combinations(columns, 2))
        if len(candidates) > n_tested:
            # about as many columns as have so many pairs
            best = self._best_columns(columns, int((2 * n_tested) ** 0.5) + 1)
            candidates = set(combinations(sorted(best), 2))
        if self.order > 2 and comb(len(columns), 3) + len(candidates) <= n_tested:
            candidates |= set(combinations(columns, 3))
        return candidates

    def _best_columns(self, columns: list[int], limit: int) -> list[int]:
        """Return the columns that promise most alone."""
        if len(columns) <= limit:
            return columns
        no_scores = np.zeros((self.m, self.features.n_columns))
        gains = self._candidates.measure_alone(columns, self.features.softmax(no_scores)[0])
        return sorted(columns, key=lambda j: (-gains[j], j))[:limit]

    def _choose_winners(
        self, pool: set[Site], scores: Floats, number: int
    ) -> tuple[list[Site], list[Floats]]:
        """Return the best candidates, at most `number`, and their steps.

        Each is judged with those before it added.
        """
        candidates = self._candidates
        leaders = candidates.find_leaders(pool)
        winners: list[Site] = []
        steps: list[Floats] = []
        while leaders and len(winners) < number:
            best = candidates.find_best(leaders)
            if candidates.promises[best] < _MIN_GAIN_NATS:
                break
            leaders.remove(best)
            winners.append(best)
            steps.append(candidates.steps[best])
            if len(winners) < number:
                added = make_features(self.ratios, self._rows, [best], leave_one_out=True)
                scores = scores + added.scores(steps[-1])
                candidates.judge_by(self.features.softmax(scores)[0])
        return winners, steps

    def _extend(self, sites: list[Site]) -> set[Site]:
        """Return the sites, each with one column more."""
        extended: set[Site] = set()
        for site in sites:
            if len(site) < self.order:
                extended |= {tuple(sorted((*site, j))) for j in self.columns if j not in site}
        return extended


class _Candidates:
    """What candidates promise, each by its last test.

    `promises` has the nats that each candidate promises to take off the loss. `steps` has, for
    those that were tested against the present scores, the step that does so.
    """

    def __init__(self, tests: ScoreTests) -> None:
        self._tests = tests
        self._probabilities = np.empty((0, 1))
        self.promises: dict[Site, float] = {}
        self.steps: dict[Site, Floats] = {}

    def judge_by(self, probabilities: Floats) -> None:
        """Test against these probabilities from now on."""
        self._probabilities = probabilities
        self.steps = {}

    def test(self, sites: list[Site]) -> None:
        """Give sites a promise, and the step that keeps it."""
        if sites:
            gains, steps = self._tests.test(sites, self._probabilities)
            self.promises.update(zip(sites, gains.tolist(), strict=True))
            self.steps.update(zip(sites, steps, strict=True))

    def measure_alone(self, columns: list[int], probabilities: Floats) -> dict[int, float]:
        """Return what single columns promise beside these probabilities."""
        gains, _ = self._tests.test([(j,) for j in columns], probabilities)
        return dict(zip(columns, gains, strict=True))

    def find_leaders(self, pool: set[Site]) -> list[Site]:
        """Return the best of the pool that are tested, the best first.

        Those that could be among them are tested first. The promise of a site mostly falls when
        others are added, so its last one is taken for the most that it can be.
        """
        waiting = [site for site in self._sort(pool) if site not in self.steps]
        leaders = nsmallest(_LEADERS, self.steps, self._order)
        for first in range(0, min(len(waiting), _TESTED_AGAIN), _LEADERS):
            is_full = len(leaders) == _LEADERS
            if is_full and self._order(leaders[-1]) < self._order(waiting[first]):
                break
            self.test(waiting[first : first + _LEADERS])
            leaders = nsmallest(_LEADERS, self.steps, self._order)
        return leaders

    def find_best(self, leaders: list[Site]) -> Site:
        """Return the leader that promises most; only those that could be it are tested."""
        while (ranked := self._sort(leaders))[0] not in self.steps:
            self.test([site for site in ranked[:_TESTED_AT_ONCE] if site not in self.steps])
        return ranked[0]

    def _sort(self, pool: Iterable[Site]) -> list[Site]:
        """Return the candidates that have a promise, the most promising first."""
        return sorted(self.promises.keys() & pool, key=self._order)

    def _order(self, site: Site) -> tuple[float, Site]:
        return -self.promises[site], site
