"""Which memory, and how large: a plan from a sample of the data.

`plan` answers before anything is learnt: given a budget of bytes, which memory agrees best with the exact classifier;
or, given how often it must agree, which one is the smallest. Where the sparse exact table fits, it says so and picks
it. Here is the search; what is predicted of each memory on the way is in :mod:`hammemo.planning.predictions`.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.planning.predictions import MIN_SPREAD, Predictions, width
from hammemo.planning.reports import Estimate, Option, Plan, size_text
from hammemo.tasks.labels.names import KERNELS, VOTES, is_auto

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from hammemo.kernels import SiteKernel

_OWN_SHARES = (
    0.15,
    0.25,
    0.35,
    0.45,
    0.55,
    0.67,
    0.8,
)  # of a hashed memory's bytes, for reserved rows
_NEARLY = 1.15  # times the misses of the best
_SMALLER = 1.25  # ratio of neighbouring sizes in the search for the smallest memory
_ROOM = 0.8  # of the misses that a goal allows, for one trial to look good enough: the rest is for its interval
_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}


def plan(
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
    """Return an unfitted estimator for a budget or for an agreement, with its predicted size and fidelity.

    Parameters
    ----------
    X, y : array-like
        All of the data, or a random sample; then pass the total number as `n_examples`.
    budget : int or str, optional
        The maximal size of the state (`memory_.nbytes`) in bytes: a number, or "500 kB", "2 MiB". The plan is the
        memory that agrees most often with the exact classifier.
    agreement : float, optional
        How often the memory must agree with the exact classifier on unambiguous queries, from 0 to 1. The plan is the
        smallest memory whose interval lies above. Pass either this or `budget`.
    kernel : str or SiteKernel, optional
        The kernel of the estimator; "auto" means "positional".
    vote : {"sum", "mean", "auto"}
        The vote of the estimator; "auto" means "sum". The sizes hold for a log-linear vote, too; agreement is not
        predicted for it.
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
    >>> planned = plan(X, y, budget="100 kB")          # the exact table is small: nothing else is needed
    >>> planned.estimator
    MemoryClassifier(kernel=None, memory=Exact(), vote='sum')
    >>> planned = plan(X, y, budget=1024, n_examples=100_000)
    >>> planned.chosen.state_bytes.value <= 1024, planned.chosen.agreement.low < 1
    (True, True)
    """
    started = time.perf_counter()
    compared = (
        None if kernel is None else KERNELS.resolve("positional" if is_auto(kernel) else kernel)
    )
    vote = "sum" if is_auto(vote) else vote
    goal = _checked(budget, agreement, vote, random_state, confidence)
    model = MemoryClassifier(compared, vote=vote, random_state=int(random_state))
    predicted = Predictions(X, y, model, n_examples, n_labels, sample, confidence)
    search = _MemorySearch(predicted)
    options = (
        search.for_agreement(agreement or 0.0)
        if budget is None
        else search.for_budget(parse_bytes(budget))
    )
    options = [
        replace(option, queries_per_second=predicted.speed(option.memory)) for option in options
    ]
    chosen = next(option for option in options if option.chosen)
    numbers = {
        "n_examples": predicted.n,
        "n_sampled": len(predicted.examples),
        "n_labels": predicted.n_labels,
    }
    return Plan(
        estimator=predicted.estimator(chosen.memory),
        goal=goal,
        **numbers,
        confidence=confidence,
        options=options,
        notes=predicted.notes,
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
    found = re.fullmatch(
        r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[0-9]+)?)\s*([a-z]*)", text, re.IGNORECASE
    )
    size = float(found[1]) * _UNITS.get(found[2].lower(), 0) if found else 0.0
    if size < 1 or isinstance(budget, bool):
        raise ValueError(
            f"budget={budget!r} is not a size: write bytes as a number, or for example '500 kB' or '2 MiB'."
        )
    return int(size)


def _checked(budget: Any, agreement: Any, vote: Any, random_state: Any, confidence: Any) -> str:
    if (budget is None) == (agreement is None):
        raise ValueError(
            "Give either budget= (bytes) or agreement= (a share from 0 to 1), and not both."
        )
    if isinstance(vote, str):
        VOTES.check(vote)
    if vote not in ("sum", "mean"):
        raise ValueError(
            f"vote={vote!r}: plans are made for vote='sum' and vote='mean' only. The sizes hold for every vote: plan "
            "with 'sum', then planned.estimator.set_params(vote=...)."
        )
    if not isinstance(random_state, (int, np.integer)) or isinstance(random_state, bool):
        raise ValueError(
            f"random_state={random_state!r} is a whole number: predictions are for the hashes of that seed."
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r} lies between 0 and 1, for example 0.9.")
    if budget is not None:
        return f"At most {size_text(parse_bytes(budget))}"
    if not isinstance(agreement, (int, float)) or not 0 <= agreement <= 1:
        raise ValueError(f"agreement={agreement!r}: give a share from 0 to 1, for example 0.99.")
    return f"At least {100 * agreement:g} % agreement"


class _MemorySearch:
    """The two questions that a plan answers, by trying memories of many sizes."""

    def __init__(self, predicted: Predictions) -> None:
        self.predicted = predicted

    # Hashed memories of a given size

    def fitted_to(self, size: int, own_share: float) -> tuple[int, int] | None:
        """Return buckets and reserved rows that take at most this many bytes, `own_share` of them in reserved rows."""
        largest = [(2.0**15, 1.0)] * len(self.predicted.sites.positions)
        for _ in range(4):
            found = self._split(size, own_share, largest)
            if found is None:
                return None
            expected, taken = self._counts_and_size(*found)
            if taken.high <= size:
                return found
            upper = [
                tuple(count * (1 + self.predicted.sizes.spread(count)) for count in pair)
                for pair in expected
            ]
            largest = [
                (own, max(shared, before))
                for (own, shared), (_, before) in zip(upper, largest, strict=True)
            ]
        return None

    def _split(
        self, size: int, own_share: float, largest: list[tuple[float, float]]
    ) -> tuple[int, int] | None:
        room = size - self.predicted.sizes.frame
        n_labels, pooled = self.predicted.n_labels, self.predicted.sample.pooled
        own = sum(
            n_labels * width(a) for a, _ in largest
        ) + self.predicted.sizes.reserved_token * len(pooled)
        shared = sum(n_labels * width(b) for _, b in largest)
        reserved = min(int(own_share * room / own), max(len(words) for words, _ in pooled))
        buckets = (room - reserved * own) // shared
        return None if buckets < 2 else (int(buckets), max(reserved, 0))

    def best_hashed(self, size: int) -> Option | None:
        """Return the hashed memory of at most this many bytes that agrees most often.

        One whose numbers are certainly of one width, so that its size is known, is taken if it is nearly as good.
        """
        splits = dict.fromkeys(
            found for share in _OWN_SHARES if (found := self.fitted_to(size, share))
        )
        if not splits:
            return None
        misses = {
            split: 1 - self.predicted.trials[0].hashed(*split).agreement[0] for split in splits
        }
        most = _NEARLY * min(misses.values()) + MIN_SPREAD
        good = [split for split in splits if misses[split] <= most]
        sizes = {split: self._counts_and_size(*split)[1] for split in good}
        sure = [split for split in good if sizes[split].low == sizes[split].high]
        return self.predicted.hashed(*min(sure or good, key=misses.__getitem__))

    def _counts_and_size(
        self, buckets: int, reserved: int
    ) -> tuple[list[tuple[float, float]], Estimate]:
        """Return the largest counts that one growth has at each site, and the size that follows."""
        predicted = self.predicted
        largest = predicted.largest_counts([predicted.trials[0].hashed(buckets, reserved)])
        return largest, predicted.sizes.hashed(buckets, predicted.reserved(reserved), largest)

    # The two questions

    def for_budget(self, budget: int) -> list[Option]:
        """Return the options under a budget, the chosen one first."""
        exact, text = self.predicted.exact, size_text(budget)
        size = exact.state_bytes
        if size.high <= budget:
            other = self.best_hashed(min(budget, int(size.value) // 2))
            exact = replace(
                exact, chosen=True, why=f"it fits in {text} and every answer is the exact one."
            )
            rest = (
                []
                if other is None
                else [replace(other, why="half the size of the exact table, for comparison.")]
            )
            return [exact, *rest]
        verdict = "may not fit" if size.low <= budget else "does not fit"
        exact = replace(exact, why=f"it {verdict} in {text}.")
        hashed, gaussian = self.best_hashed(budget), self._rival(budget)
        fitting = [option for option in (hashed, gaussian) if option is not None]
        if not fitting:
            none, wide = (
                [0] * len(self.predicted.sample.pooled),
                [(0.0, 2.0**15)] * len(self.predicted.sites.positions),
            )
            least = size_text(self.predicted.sizes.hashed(2, none, wide).value)
            raise ValueError(
                f"Nothing fits in {text}: a hashed memory of two buckets takes {least}. Give more bytes."
            )
        best = max(fitting, key=lambda option: option.agreement.value)
        reason = {
            True: f"it agrees most often of what fits in {text}.",
            False: "it fits, and agrees less often.",
        }
        told = [
            replace(option, chosen=option is best, why=reason[option is best]) for option in fitting
        ]
        return [*sorted(told, key=lambda option: not option.chosen), exact]

    def _rival(self, size: int) -> Option | None:
        return self.predicted.gaussian(size) if self.predicted.sizes.gaussian(1) <= size else None

    def for_agreement(self, target: float) -> list[Option]:
        """Return the options that reach an agreement, the chosen one first."""
        exact, text = self.predicted.exact, f"{100 * target:g} %"
        most = int(exact.state_bytes.value)
        least = (
            4 * len(self.predicted.sites.positions) * self.predicted.n_labels
            + self.predicted.sizes.frame
        )
        ladder = [
            most / _SMALLER ** (j + 1) for j in range(200) if most / _SMALLER ** (j + 1) > least
        ][::-1]
        start = bisect_left(ladder, True, key=lambda size: self._looks_enough(int(size), target))
        best: Option | None = None
        for size in ladder[start : start + 5]:
            best = self.best_hashed(int(size)) or best
            if best is not None and best.agreement.low >= target:
                why = f"the smallest one tried whose interval lies above {text}."
                exact = replace(exact, why="it reaches it too, and is larger.")
                return [replace(best, chosen=True, why=why), exact, *self._short_of(best, text)]
        rest = (
            [] if best is None else [replace(best, why=f"its interval does not lie above {text}.")]
        )
        why = (
            f"no hashed memory that is smaller is sure to reach {text}, and this one always agrees."
        )
        return [replace(exact, chosen=True, why=why), *rest]

    def _looks_enough(self, size: int, target: float) -> bool:
        found = self.fitted_to(size, 0.5)
        if found is None:
            return False
        return 1 - self.predicted.trials[0].hashed(*found).agreement[0] <= _ROOM * (1 - target)

    def _short_of(self, option: Option, text: str) -> list[Option]:
        rival = self._rival(int(option.state_bytes.value))
        return (
            []
            if rival is None
            else [replace(rival, why=f"of the same size; it is not sure to reach {text}.")]
        )
