"""Which memory, and how large: a plan from a sample of the data.

`plan` answers before anything is learned: given a budget of bytes, which memory agrees best with
the exact classifier; or, given how often it must agree, which one is the smallest. Where the sparse
exact table fits, it says so and picks it. This module has the search; what is predicted of each
memory on the way is in :mod:`hammemo.planning.predictions`.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.planning.predictions import MIN_SPREAD, PlanData, Predictions
from hammemo.planning.reports import Option, Plan, size_text
from hammemo.planning.sizes import LargestCounts, width
from hammemo.tasks.labels.names import KERNELS, VOTES, is_auto

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from hammemo.kernels import SiteKernel
    from hammemo.planning.reports import Estimate

_RESERVED_SHARES: Final = (0.15, 0.25, 0.35, 0.45, 0.55, 0.67, 0.8)
"""Shares of a hashed memory's bytes that are tried for reserved rows."""

_NEARLY: Final = 1.15
"""Times the misses of the best memory, with which another one is nearly as good."""

_SMALLER: Final = 1.25
"""The ratio of neighbouring sizes in the search for the smallest memory."""

_MOST_SIZES: Final = 200
"""Sizes in that search at most."""

_SIZES_TRIED: Final = 5
"""Sizes of which all growths are tried, from the first that looks large enough."""

_ROOM: Final = 0.8
"""The share of the misses that a goal allows, with which one trial looks good enough: the rest is
for its interval."""

_LARGEST_COUNT: Final = 2.0**15
"""A count in a bucket that takes two bytes, where nothing is known of counts yet."""

_UNITS: Final = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}


def plan(  # noqa: PLR0913  each is a question that only the user can answer
    X: Any,
    y: ArrayLike,
    *,
    budget: int | str | None = None,
    agreement: float | None = None,
    kernel: str | SiteKernel | None = None,
    vote: str = "sum",
    n_examples: int | None = None,
    n_labels: int | None = None,
    sample: int = 10_000,
    random_state: int = 0,
    confidence: float = 0.9,
) -> Plan:
    """Return an unfitted estimator for a budget or an agreement, with its predicted fidelity.

    Parameters
    ----------
    X, y : array-like
        All of the data, or a random sample; then pass the total number as `n_examples`.
    budget : int or str, optional
        The maximal size of the state (`memory_.nbytes`) in bytes: a number, or "500 kB", "2 MiB".
        The plan is the memory that agrees most often with the exact classifier.
    agreement : float, optional
        How often the memory must agree with the exact classifier on unambiguous queries, from 0 to
        1. The plan is the smallest memory whose interval lies above. Pass either this or `budget`.
    kernel : str or SiteKernel, optional
        The kernel of the estimator; "auto" means "positional".
    vote : {"sum", "mean", "auto"}
        The vote of the estimator; "auto" means "sum". The sizes hold for a log-linear vote, too;
        agreement is not predicted for it.
    random_state : int
        The seed of the estimator: predictions are for its hashes.
    n_examples : int, optional
        The total number of examples; by default those of X.
    n_labels : int, optional
        The total number of labels; by default those of X and y, and as many more as are expected.
    sample : int
        The maximal number of examples used, drawn at random.
    confidence : float
        The confidence level of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.planning import plan
    >>> rng = np.random.default_rng(0)
    >>> X = rng.zipf(1.5, (400, 3)) % 50
    >>> y = X[:, 2] % 4
    >>> planned = plan(X, y, budget="100 kB")          # the exact table is small enough
    >>> planned.estimator
    MemoryClassifier(kernel=None, memory=Exact(), vote='sum')
    >>> planned = plan(X, y, budget=1024, n_examples=100_000)
    >>> planned.chosen.state_bytes.value <= 1024, planned.chosen.agreement.low < 1
    (True, True)
    """
    started = time.perf_counter()
    resolved_kernel = None
    if kernel is not None:
        resolved_kernel = KERNELS.resolve("positional" if is_auto(kernel) else kernel)
    if is_auto(vote):
        vote = "sum"
    _check_goal(budget, agreement)
    _check_model(vote, random_state, confidence)
    model = MemoryClassifier(resolved_kernel, vote=vote, random_state=int(random_state))
    data = PlanData(X, y, n_examples=n_examples, n_labels=n_labels, max_sampled=sample)
    predictions = Predictions(data, model, confidence)
    search = _MemorySearch(predictions)
    if budget is not None:
        n_bytes = parse_bytes(budget)
        goal = f"At most {size_text(n_bytes)}"
        options = search.search_budget(n_bytes)
    else:
        share = agreement or 0.0
        goal = f"At least {100 * share:g} % agreement"
        options = search.search_agreement(share)
    options = [
        replace(option, queries_per_second=predictions.time_queries(option.memory))
        for option in options
    ]
    chosen = next(option for option in options if option.chosen)
    return Plan(
        estimator=predictions.make_estimator(chosen.memory),
        goal=goal,
        n_examples=predictions.n,
        n_sampled=len(predictions.examples),
        n_labels=predictions.n_labels,
        confidence=confidence,
        options=options,
        notes=predictions.notes,
        seconds=time.perf_counter() - started,
    )


def parse_bytes(budget: int | str) -> int:
    """Return a number of bytes from "2 MiB", "500 kB", "1e6" or a number.

    Examples
    --------
    >>> from hammemo.planning.planner import parse_bytes
    >>> parse_bytes("2 MiB"), parse_bytes("500 kB"), parse_bytes(1000)
    (2097152, 500000, 1000)
    """
    text = str(budget).strip()
    pattern = r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[0-9]+)?)\s*([a-z]*)"
    match = re.fullmatch(pattern, text, re.IGNORECASE)
    size = 0.0
    if match:
        size = float(match[1]) * _UNITS.get(match[2].lower(), 0)
    if size < 1 or isinstance(budget, bool):
        raise ValueError(
            f"budget={budget!r} is not a size: write bytes as a number, "
            "or for example '500 kB' or '2 MiB'."
        )
    return int(size)


def _check_goal(budget: Any, agreement: Any) -> None:
    if (budget is None) == (agreement is None):
        raise ValueError(
            "Give either budget= (bytes) or agreement= (a share from 0 to 1), and not both."
        )
    if budget is not None:
        parse_bytes(budget)
    elif not isinstance(agreement, (int, float)) or not 0 <= agreement <= 1:
        raise ValueError(f"agreement={agreement!r}: give a share from 0 to 1, for example 0.99.")


def _check_model(vote: Any, random_state: Any, confidence: Any) -> None:
    if isinstance(vote, str):
        VOTES.check(vote)
    if vote not in ("sum", "mean"):
        raise ValueError(
            f"vote={vote!r}: plans are made for vote='sum' and vote='mean' only. The sizes hold "
            "for every vote: plan with 'sum', then planned.estimator.set_params(vote=...)."
        )
    if not isinstance(random_state, (int, np.integer)) or isinstance(random_state, bool):
        raise ValueError(
            f"random_state={random_state!r} is a whole number: "
            "predictions are for the hashes of that seed."
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r} lies between 0 and 1, for example 0.9.")


class _HashedShape(NamedTuple):
    """The parameters of a hashed memory."""

    buckets: int
    reserved: int
    """Reserved rows of each site."""


class _ExpectedSize(NamedTuple):
    """What one growth says of the size of a hashed memory."""

    largest: list[LargestCounts]
    """For each site."""
    size: Estimate


class _MemorySearch:
    """The two questions that a plan answers, by trying memories of many sizes."""

    def __init__(self, predictions: Predictions) -> None:
        self.predictions = predictions

    # Hashed memories of a given size

    def fit_to_size(self, size: int, reserved_share: float) -> _HashedShape | None:
        """Return the hashed memory that takes at most this many bytes, a share of them reserved.

        How many rows fit depends on the width of their numbers, and so on the largest counts, which
        depend on how many rows there are. So the shape is found in a few rounds: each takes the
        largest counts of the shape before, and no count of a bucket ever becomes smaller again.
        """
        largest = [LargestCounts(_LARGEST_COUNT, 1.0)] * len(self.predictions.sites.positions)
        for _ in range(4):
            shape = self._divide_bytes(size, reserved_share, largest)
            if shape is None:
                return None
            expected = self._estimate_size(shape)
            if expected.size.high <= size:
                return shape
            spread = self.predictions.sizes.spread
            largest = [
                LargestCounts(
                    reserved=counts.reserved * (1 + spread(counts.reserved)),
                    bucket=max(counts.bucket * (1 + spread(counts.bucket)), before.bucket),
                )
                for counts, before in zip(expected.largest, largest, strict=True)
            ]
        return None

    def _divide_bytes(
        self, size: int, reserved_share: float, largest: Sequence[LargestCounts]
    ) -> _HashedShape | None:
        """Return the memory of this size if counts are at most these; None if there is no room."""
        sizes = self.predictions.sizes
        n_labels = self.predictions.n_labels
        pooled = self.predictions.sample.pooled
        room = size - sizes.frame
        reserved_bytes = sum(n_labels * width(counts.reserved) for counts in largest)
        reserved_bytes += sizes.reserved_token * len(pooled)
        bucket_bytes = sum(n_labels * width(counts.bucket) for counts in largest)
        most_reserved = max(len(pool.words) for pool in pooled)
        reserved = min(int(reserved_share * room / reserved_bytes), most_reserved)
        buckets = (room - reserved * reserved_bytes) // bucket_bytes
        if buckets < 2:
            return None
        return _HashedShape(int(buckets), max(reserved, 0))

    def find_best_hashed(self, size: int) -> Option | None:
        """Return the hashed memory of at most this many bytes that agrees most often.

        One whose numbers are certainly of one width, so that its size is known, is taken if it is
        nearly as good.
        """
        shapes = [self.fit_to_size(size, share) for share in _RESERVED_SHARES]
        distinct = dict.fromkeys(shape for shape in shapes if shape is not None)
        if not distinct:
            return None
        misses = {shape: self._count_misses(shape) for shape in distinct}
        highest = _NEARLY * min(misses.values()) + MIN_SPREAD
        good = [shape for shape in distinct if misses[shape] <= highest]
        sizes = {shape: self._estimate_size(shape).size for shape in good}
        certain = [shape for shape in good if sizes[shape].low == sizes[shape].high]
        best = min(certain or good, key=misses.__getitem__)
        return self.predictions.predict_hashed(best.buckets, best.reserved)

    def _count_misses(self, shape: _HashedShape) -> float:
        """Return the share of unambiguous queries with another answer, in one growth."""
        outcome = self.predictions.trials[0].try_hashed(shape.buckets, shape.reserved)
        return 1 - outcome.agreement[0]

    def _estimate_size(self, shape: _HashedShape) -> _ExpectedSize:
        """Return the largest counts that one growth has at each site, and the size that follows."""
        predictions = self.predictions
        outcome = predictions.trials[0].try_hashed(shape.buckets, shape.reserved)
        largest = predictions.estimate_largest_counts([outcome])
        reserved = predictions.reserve(shape.reserved)
        return _ExpectedSize(
            largest, predictions.sizes.measure_hashed(shape.buckets, reserved, largest)
        )

    # The two questions

    def search_budget(self, budget: int) -> list[Option]:
        """Return the options under a budget, the chosen one first."""
        exact = self.predictions.exact
        text = size_text(budget)
        size = exact.state_bytes
        if size.high <= budget:
            why = f"it fits in {text} and every answer is the exact one."
            options = [replace(exact, chosen=True, why=why)]
            smaller = self.find_best_hashed(min(budget, int(size.value) // 2))
            if smaller is not None:
                why = "half the size of the exact table, for comparison."
                options.append(replace(smaller, why=why))
            return options
        verdict = "may not fit" if size.low <= budget else "does not fit"
        exact = replace(exact, why=f"it {verdict} in {text}.")
        candidates = [self.find_best_hashed(budget), self._try_gaussian(budget)]
        fitting = [option for option in candidates if option is not None]
        if not fitting:
            raise ValueError(
                f"Nothing fits in {text}: a hashed memory of two buckets takes "
                f"{size_text(self._measure_smallest())}. Give more bytes."
            )
        best = max(fitting, key=lambda option: option.agreement.value)
        others = [
            replace(option, why="it fits, and agrees less often.")
            for option in fitting
            if option is not best
        ]
        why = f"it agrees most often of what fits in {text}."
        return [replace(best, chosen=True, why=why), *others, exact]

    def _measure_smallest(self) -> float:
        """Return the bytes of a hashed memory of two buckets."""
        n_groups = len(self.predictions.sample.pooled)
        n_sites = len(self.predictions.sites.positions)
        largest = [LargestCounts(0.0, _LARGEST_COUNT)] * n_sites
        return self.predictions.sizes.measure_hashed(2, [0] * n_groups, largest).value

    def _try_gaussian(self, size: int) -> Option | None:
        if self.predictions.sizes.measure_gaussian(1) > size:
            return None
        return self.predictions.try_gaussian(size)

    def search_agreement(self, target: float) -> list[Option]:
        """Return the options that reach an agreement, the chosen one first.

        Sizes form a ladder below the exact table. Agreement grows with the size, so bisection by
        one growth finds the first size that looks large enough; from there on, a few sizes are
        tried on all growths.
        """
        exact = self.predictions.exact
        text = f"{100 * target:g} %"
        ladder = self._make_ladder(int(exact.state_bytes.value))
        start = bisect_left(ladder, True, key=lambda size: self._looks_enough(int(size), target))
        best: Option | None = None
        for size in ladder[start : start + _SIZES_TRIED]:
            best = self.find_best_hashed(int(size)) or best
            if best is not None and best.agreement.low >= target:
                why = f"the smallest one tried whose interval lies above {text}."
                options = [
                    replace(best, chosen=True, why=why),
                    replace(exact, why="it reaches it too, and is larger."),
                ]
                gaussian = self._try_gaussian(int(best.state_bytes.value))
                if gaussian is not None:
                    why = f"of the same size; it is not sure to reach {text}."
                    options.append(replace(gaussian, why=why))
                return options
        why = (
            f"no hashed memory that is smaller is sure to reach {text}, and this one always agrees."
        )
        options = [replace(exact, chosen=True, why=why)]
        if best is not None:
            options.append(replace(best, why=f"its interval does not lie above {text}."))
        return options

    def _make_ladder(self, highest: int) -> list[float]:
        """Return sizes below that of the exact table, ascending."""
        predictions = self.predictions
        n_numbers = len(predictions.sites.positions) * predictions.n_labels
        lowest = 4 * n_numbers + predictions.sizes.frame
        sizes = [highest / _SMALLER ** (j + 1) for j in range(_MOST_SIZES)]
        return [size for size in reversed(sizes) if size > lowest]

    def _looks_enough(self, size: int, target: float) -> bool:
        shape = self.fit_to_size(size, 0.5)
        if shape is None:
            return False
        return self._count_misses(shape) <= _ROOM * (1 - target)
