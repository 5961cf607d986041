"""A path of growing sets of sites: single columns first, then the tuples that promise most, a few a round.

A round tests candidates by the score test against cross-fitted residuals, adds the best few, fits all weights again and
extends each new tuple by every column. A wide table's path looks only at the columns that promise most alone, because
the work of a fit grows with the cube of the number of columns. Candidates are all pairs, or the pairs of the best
columns where there are too many; all triples too where they are few. A candidate once tested keeps its promise until it
is tested again: each round tests the new ones and the best of the known ones.

:mod:`hammemo.kernels.selection.shared_weights` has the mathematics. Compiled code (``src/native/selection``) tests many
candidates against the same scores.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from heapq import nsmallest
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.logarithms import log
from hammemo._arrays.threads import in_threads, thread_pieces
from hammemo.kernels.selection.features import SMOOTHING, features_of
from hammemo.kernels.selection.shared_weights import SharedWeights, promises
from hammemo.tokens.hashing import mix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hammemo._arrays.types import Floats, Ints
    from hammemo.kernels.selection.features import Features, SiteRatios
    from hammemo.kernels.sites import Site

_PIECE_SITES = 4
"""Sites that a thread tests at a time at least."""

Sums = tuple["Floats", "Floats"]


class ScoreTests:
    """Tests sites on some of the training copies.

    Parameters
    ----------
    ratios : SiteRatios
    rows : ndarray of int64
        The training copies that are tested; all of them are counted.
    """

    def __init__(self, ratios: SiteRatios, rows: Ints) -> None:
        self._ratios, self._rows = ratios, rows

    def promises(self, sites: Sequence[Site], probabilities: Floats) -> Sums:
        """Return what each site promises to take off the loss, in nats, and the step that does so.

        Shapes
        ------
        probabilities : (rows, columns), as of `Features`; returned : (sites,), (sites, J)
        """
        return promises(*self.sums(sites, probabilities))

    def sums(self, sites: Sequence[Site], probabilities: Floats) -> Sums:
        """Return gradients and curvatures.

        Shapes
        ------
        probabilities : (rows, columns); returned : (sites, J), (sites, J, J)
        """
        order, arranged = _by_shared_columns(sites)
        columns = np.full((len(sites), max(map(len, sites), default=1)), -1, np.int32)
        for row, site in zip(columns, arranged, strict=True):
            row[: len(site)] = site
        n_amounts = len(SMOOTHING)
        gradients, curvatures = np.empty((len(sites), n_amounts)), np.empty((len(sites), n_amounts, n_amounts))
        rows, tested, scan = self._rows.astype(np.int32), np.ascontiguousarray(probabilities), self._ratios.scan
        in_threads(
            lambda part: scan.sums(
                sites=columns[part],
                rows=rows,
                probabilities=tested,
                gradients=gradients[part],
                curvatures=curvatures[part],
            ),
            thread_pieces(len(sites), _PIECE_SITES),
        )
        places = np.argsort(order)
        return gradients[places], curvatures[places]


def _by_shared_columns(sites: Sequence[Site]) -> tuple[Ints, list[Site]]:
    """Return sites in another order, and where each was: those that share all columns but the last follow one another.

    The examples are sorted once for these. Which column comes last depends on all sites, so sums do not depend on how
    the sites are divided among threads.
    """
    if all(len(site) <= 2 for site in sites):
        order = sorted(range(len(sites)), key=sites.__getitem__)
        return np.array(order, np.int64), [sites[k] for k in order]
    shared = Counter(rest for site in sites if len(site) > 2 for rest in combinations(site, len(site) - 1))

    def with_last(site: Site) -> Site:
        if len(site) <= 2:
            return site
        left = max(range(len(site)), key=lambda k: (shared[site[:k] + site[k + 1 :]], k))
        return (*site[:left], *site[left + 1 :], site[left])

    arranged = [with_last(site) for site in sites]
    order = sorted(range(len(sites)), key=arranged.__getitem__)
    return np.array(order, np.int64), [arranged[k] for k in order]


FOLDS: Final = 5
"""Inner folds, for cross-fitted scores."""

_NUMBERS: Final = 3 * 2**16
"""Rows times labels that a path looks at."""
_MIN_ROWS: Final = 1000
_FEATURE_NUMBERS: Final = 2**26
"""Rows times labels times features at most: the features of a path are held in memory, four bytes each."""
_FIT_WORK: Final = 2**34
"""Rows times labels times the square of the features at most: what one step of Newton's method costs."""
MAX_COLUMNS: Final = 192
"""Columns that a path looks at."""
_SCAN: Final = 2**27
"""Candidates times rows times labels times amounts of smoothing of one round."""
_MIN_CANDIDATES: Final = 100
_MAX_CANDIDATES: Final = 4000
_LEADERS: Final = 24
_TESTED_AGAIN: Final = 200
"""Known candidates that a round tests again at most."""
_TESTED_AT_ONCE: Final = 6
"""Leaders that are tested again together."""
_MIN_GAIN_NATS: Final = 0.5
"""Nats that a tuple must promise."""
_MIN_LOSS_SHARE: Final = 2e-4
"""The share of the loss that a round must gain, or one row's worth if that is more."""
_MAX_LOSS: Final = 27.6
"""Nats that a row costs at most where a round is judged."""
_UNIFORM: Final = 0.002
"""The share of even probabilities mixed into those of test rows, so that no row costs more than a few nats."""


def looked_at(n: int, n_labels: int, n_features: int) -> int:
    """Return how many of n rows a path looks at, so that its memory and its work stay bounded.

    Examples
    --------
    >>> from hammemo.kernels.selection.growth import looked_at
    >>> looked_at(50_000, 2, 200), looked_at(50_000, 26, 200), looked_at(50_000, 30_000, 200)
    (50000, 7561, 11)
    """
    numbers = max(_NUMBERS, _MIN_ROWS * n_labels)
    bounded = min(numbers, _FEATURE_NUMBERS // n_features, _FIT_WORK // n_features**2)
    return min(n, bounded // n_labels)


@dataclass(frozen=True, eq=False)
class PathStep:
    """A set of sites on a path."""

    sites: list[Site]
    """Single columns, then tuples in the order in which they were found."""
    weights: Floats
    """Those that all labels share."""
    losses: Floats | None
    """The log-loss of each test row; None where there are none."""


@dataclass(frozen=True, eq=False)
class FoldTrial:
    """An outer fold with what it took: votes are tried on it."""

    features: Features
    """Those of the rows inside, each left out of its own counts."""
    test: Features
    """Those of the rows outside."""
    sites: list[Site]
    """The sites of the first features."""
    weights: Floats | None
    """Their weights, shared by all labels; None if the path left out some of the columns."""


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
        self.ratios, self.budget, self.order = ratios, budget, order
        sizes = ratios.copies.sizes
        self.every_column = [j for j in range(len(sizes)) if sizes[j] > 1] or [0]
        most_features = len(SMOOTHING) * (min(len(self.every_column), MAX_COLUMNS) + budget)
        m = self.m = max(1, looked_at(ratios.n, ratios.n_labels, most_features))
        # a copy stays in its fold when others go
        folds = mix(ratios.copies.hashes[:m] + np.uint64(3)) % np.uint64(FOLDS)
        self._rows = np.argsort(folds, kind="stable")
        ends = np.searchsorted(folds[self._rows], np.arange(FOLDS + 1)).tolist()
        self.features = features_of(ratios, self._rows, leave_one_out=True)
        self.test = features_of(ratios, ratios.test_rows, leave_one_out=False)
        self._weights = SharedWeights(self.features, ends)
        self._tests = ScoreTests(ratios, self._rows)
        self.columns = sorted(self._best_columns(self.every_column, MAX_COLUMNS))
        self._known: dict[Site, float] = {}

    def steps(self) -> Iterator[PathStep]:
        """Yield the sets of sites of the path, each larger than the one before."""
        sites: list[Site] = []
        self._add([(j,) for j in self.columns], sites)
        weights = np.full(len(SMOOTHING) * len(sites), 1.0 / len(SMOOTHING))
        weights, scores = self._weights.fit(weights)
        best, worse = self._inner_loss(scores), 0
        yield self._step(sites, weights)
        most = self._most_candidates()
        pool = self._first_candidates(most)
        while len(sites) - len(self.columns) < self.budget and pool:
            left = self.budget - (len(sites) - len(self.columns))
            new, steps = self._winners(pool, scores, most, min(left, max(2, min(8, len(sites) // 4))))
            if not new:
                return
            self._add(new, sites)
            pool -= set(new)
            weights, scores = self._weights.fit(np.concatenate([weights, *steps]))
            yield self._step(sites, weights)
            loss = self._inner_loss(scores)
            if loss < best - max(1.0 / self.m, _MIN_LOSS_SHARE * best):
                best, worse = loss, 0
            else:
                worse += 1
            if worse == 2:
                return
            pool |= self._extended(new) - set(sites)

    def trial(self, step: PathStep) -> FoldTrial:
        """Return what votes are tried on: the step's sites, and the columns of a wide table that the path left out."""
        left_out = [(j,) for j in sorted(set(self.every_column) - set(self.columns))]
        if not left_out:
            return FoldTrial(self.features, self.test, step.sites, step.weights)
        sites = [*left_out, *step.sites]
        most = max(1, _FEATURE_NUMBERS // (len(SMOOTHING) * len(sites) * self.ratios.n_labels))
        rows = np.sort(self._rows)[:most]  # the first copies are a random sample
        return FoldTrial(
            features_of(self.ratios, rows, sites, leave_one_out=True),
            features_of(self.ratios, self.ratios.test_rows[:most], sites, leave_one_out=False),
            sites,
            None,
        )

    def _add(self, new: list[Site], sites: list[Site]) -> None:
        for site in new:
            self.features.add(site)
            if len(self.test.rows):
                self.test.add(site)
            sites.append(site)

    def _inner_loss(self, scores: Floats) -> float:
        return float(np.minimum(self.features.softmax(scores)[1], _MAX_LOSS).mean())

    def _step(self, sites: list[Site], weights: Floats) -> PathStep:
        if not len(self.test.rows):
            return PathStep(list(sites), weights, None)
        probabilities, _ = self.test.softmax(self.test.scores(weights))
        observed = self.test.observed(probabilities)
        losses = -log((1 - _UNIFORM) * observed + _UNIFORM / self.ratios.n_labels)
        return PathStep(list(sites), weights, losses)

    def _most_candidates(self) -> int:
        work = self.m * self.ratios.n_labels * len(SMOOTHING)
        return int(np.clip(_SCAN // work, _MIN_CANDIDATES, _MAX_CANDIDATES))

    def _first_candidates(self, most: int) -> set[Site]:
        """Return pairs, and triples where they are few: those that the budget of columns allows."""
        if self.order < 2:
            return set()
        columns = self.columns
        pairs: set[Site] = set(combinations(columns, 2))
        if len(pairs) > most:
            pairs = set(combinations(sorted(self._best_columns(columns, int((2 * most) ** 0.5) + 1)), 2))
        if self.order > 2 and comb(len(columns), 3) + len(pairs) <= most:
            pairs |= set(combinations(columns, 3))
        return pairs

    def _best_columns(self, columns: list[int], most: int) -> list[int]:
        """Return the columns that promise most alone."""
        if len(columns) <= most:
            return columns
        probabilities, _ = self.features.softmax(np.zeros((self.m, self.features.n_columns)))
        gains = dict(zip(columns, self._tests.promises([(j,) for j in columns], probabilities)[0], strict=True))
        return sorted(columns, key=lambda j: (-gains[j], j))[:most]

    def _winners(self, pool: set[Site], scores: Floats, most: int, number: int) -> tuple[list[Site], list[Floats]]:
        """Return the best candidates, at most `number`, each judged with those before it added; and their steps."""
        probabilities, _ = self.features.softmax(scores)
        tested: dict[Site, Floats] = {}
        self._test(sorted(pool - self._known.keys())[:most], probabilities, tested)  # the others: in the next round
        leaders = self._leaders([site for site in self._best(pool) if site not in tested], probabilities, tested)
        new: list[Site] = []
        steps: list[Floats] = []
        while leaders and len(new) < number:
            best = self._best_of(leaders, probabilities, tested)
            if self._known[best] < _MIN_GAIN_NATS:
                break
            leaders.remove(best)
            new.append(best)
            steps.append(tested[best])
            if len(new) < number:
                added = features_of(self.ratios, self._rows, new[-1:], leave_one_out=True)
                scores = scores + added.scores(steps[-1])
                probabilities, _ = self.features.softmax(scores)
                tested = {}
        return new, steps

    def _leaders(self, waiting: list[Site], probabilities: Floats, tested: dict[Site, Floats]) -> list[Site]:
        """Return the best of the tested sites, after those that could be among them were tested again, the best first.

        The promise of a site mostly falls when others are added, so it is taken for the most that it can be.
        """
        leaders = nsmallest(_LEADERS, tested, self._order)
        for first in range(0, min(len(waiting), _TESTED_AGAIN), _LEADERS):
            if len(leaders) == _LEADERS and self._order(leaders[-1]) < self._order(waiting[first]):
                break
            self._test(waiting[first : first + _LEADERS], probabilities, tested)
            leaders = nsmallest(_LEADERS, tested, self._order)
        return leaders

    def _best_of(self, leaders: list[Site], probabilities: Floats, tested: dict[Site, Floats]) -> Site:
        """Return the leader that promises most; only those that could be it are tested."""
        while (best := self._best(leaders))[0] not in tested:
            self._test([site for site in best[:_TESTED_AT_ONCE] if site not in tested], probabilities, tested)
        return best[0]

    def _test(self, sites: list[Site], probabilities: Floats, tested: dict[Site, Floats]) -> None:
        """Give sites a promise, and note the step that keeps it."""
        if sites:
            gains, steps = self._tests.promises(sites, probabilities)
            self._known.update(zip(sites, gains.tolist(), strict=True))
            tested.update(zip(sites, steps, strict=True))

    def _best(self, pool: Iterable[Site]) -> list[Site]:
        """Return the candidates that have a promise, the most promising first, by `_order`."""
        return sorted(self._known.keys() & pool, key=self._order)

    def _order(self, site: Site) -> tuple[float, Site]:
        return -self._known[site], site

    def _extended(self, new: list[Site]) -> set[Site]:
        short = [site for site in new if len(site) < self.order]
        return {tuple(sorted((*site, j))) for site in short for j in self.columns if j not in site}
