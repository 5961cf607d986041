r"""Which memory, and how large: a plan from a sample of the data.

`plan` answers before anything is learnt: given a budget of bytes, which memory agrees best with the exact classifier;
or, given how often it must agree, which one is the smallest. Where the sparse exact table fits, it says so and picks
it.

Every prediction is about the *full* data, n examples, from a sample of m of them:

- **state bytes**: computed where the shape is known (Hashed, Gaussian), extrapolated for the sparse exact table, whose
  entries grow with the data (:mod:`hammemo.theory.planning.sizes`);
- **agreement** with the exact classifier on unambiguous queries, those whose exact winner is no tie, and the
  **certified** share: simulated. The sample is grown to n several times (:mod:`hammemo.theory.planning.growth`) and the
  memory tried on each growth, with the hashes of the very seed that the estimator will have
  (:mod:`hammemo.theory.planning.trials`);
- **queries per second**: timed here and now, on tables of that size.

**Intervals** of agreement add up five variances: of the queries (binomial); of the labels' shares, which a sample says
only so well and which decide close calls (drawn anew several times in each growth); between growths; of the model (a
share of the misses, set on other data than it is tested on); and, where n is too large to be grown to, a share of the
misses for every doubling that is left out.
"""

from __future__ import annotations

import re
import time
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from math import log2, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from sklearn.base import clone

from hammemo.kernels import PositionalHamming
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.models.classifiers import MemoryClassifier
from hammemo.theory.planning.growth import expected_distinct
from hammemo.theory.planning.reports import Estimate, Option, Plan, size_text
from hammemo.theory.planning.sizes import Size, Sizes, width
from hammemo.theory.planning.trials import Grower, Sample
from hammemo.tokens.contexts import Examples, token_array
from hammemo.tokens.labels import label_array
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hammemo.kernels import SiteKernel
    from hammemo.memories import Memory
    from hammemo.theory.planning.trials import Outcome, Trial

GROWTHS = 4
"""How often the sample is grown."""

GROWN_CELLS = 1_600_000
"""The most (example, site) cells of one growth; more examples than that are not grown to."""

_COUNTED_CELLS = 4_000_000  # up to here the sparse table of data that is all there is counted, not extrapolated
_FAR = 100  # how many times a sample its growth is extrapolated to without a word
_MISSES_KEPT = 0.82  # growths have a few more misses than real data: measured on data other than docs/planning.md's
_MODEL_SPREAD = 0.08  # standard deviation of the model's error, as a share of the misses
_MANY_MISSES = 3.0  # where misses are many, that share is smaller
_GROWTH_SPREAD = 0.05  # the same between growths, before any is seen
_LEAST_SPREAD = 0.0005
_PROOF_SPREAD = 0.2  # the same for the certified share, as a share of it or of the rest, whichever is smaller
_UNGROWN_SPREAD = 0.05  # for each doubling that was not grown to, as a share of the misses
_LARGEST_OF_MANY = 0.6  # times the standard deviation of a count in the sample, by which the largest is too large
_OWN_SHARES = (0.15, 0.25, 0.35, 0.45, 0.55, 0.67, 0.8)  # of a hashed memory's bytes, for rows of one's own
_NEARLY = 1.15  # times the misses of the best
_SMALLER = 1.25  # ratio of neighbouring sizes in the search for the smallest memory
_ROOM = 0.8  # of the misses that a goal allows, for one trial to look good enough: the rest is for its interval
_LARGEST_D = 512  # of Gaussian memories that are tried
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def plan(
    X: Any,
    y: ArrayLike,
    *,
    budget: int | str | None = None,
    agreement: float | None = None,
    kernel: SiteKernel | None = None,
    vote: str = "sum",
    n_examples: int | None = None,
    n_labels: int | None = None,
    sample: int = 10_000,
    random_state: int = 0,
    confidence: float = 0.9,
) -> Plan:
    """Return an unfitted estimator for a budget or for an agreement, and what is predicted of it.

    Parameters
    ----------
    X, y : array-like
        All of the data, or a random sample of it; then `n_examples` says how much there is.
    budget : int or str, optional
        The most bytes that the state (`memory_.nbytes`) may take: a number, or "500 kB", "2 MiB". Planned is the memory
        that agrees most often with the exact classifier.
    agreement : float, optional
        How often the memory must agree with the exact classifier on unambiguous queries, from 0 to 1. Planned is the
        smallest memory whose interval lies above. Give either this or `budget`.
    kernel : SiteKernel, optional
        Of the estimator.
    vote : {"sum", "mean"}
        Of the estimator. The sizes hold for a log-linear vote too; agreement is not predicted for it.
    random_state : int
        Of the estimator: predictions are for the hashes of this seed.
    n_examples : int, optional
        How many examples there are in all; by default those of X.
    n_labels : int, optional
        How many labels all the data have; by default those of X and y, and as many more as are expected.
    sample : int
        The most examples that are looked at, drawn at random.
    confidence : float
        Of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import plan
    >>> rng = np.random.default_rng(0)
    >>> X = rng.zipf(1.5, (400, 3)) % 50
    >>> y = X[:, 2] % 4
    >>> planned = plan(X, y, budget="100 kB")          # the exact table is small: nothing else is needed
    >>> planned.estimator
    MemoryClassifier(memory=Exact())
    >>> planned = plan(X, y, budget=1024, n_examples=100_000)
    >>> planned.chosen.state_bytes.value <= 1024, planned.chosen.agreement.low < 1
    (True, True)
    """
    started = time.perf_counter()
    ask = _checked(budget, agreement, vote, random_state, confidence)
    planner = _Planner(X, y, kernel, vote, n_examples, n_labels, sample, random_state, confidence)
    options = planner.for_budget(ask.budget) if ask.budget is not None else planner.for_agreement(ask.agreement or 0.0)
    options = [replace(option, queries_per_second=planner.speed(option.memory)) for option in options]
    chosen = next(option for option in options if option.chosen)
    return Plan(
        estimator=planner.estimator(chosen.memory),
        goal=ask.goal,
        n_examples=planner.n,
        n_sampled=len(planner.examples),
        n_labels=planner.n_labels,
        confidence=confidence,
        options=options,
        notes=planner.notes,
        seconds=time.perf_counter() - started,
    )


def parse_bytes(budget: int | str) -> int:
    """Return a number of bytes from "2 MiB", "500 kB", "1e6" or a number.

    Examples
    --------
    >>> from hammemo.theory.planning.planner import parse_bytes
    >>> parse_bytes("2 MiB"), parse_bytes("500 kB"), parse_bytes(1000)
    (2097152, 500000, 1000)
    """
    text = str(budget).strip()
    found = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)\s*([a-z]*)", text, re.IGNORECASE)
    unit = _UNITS.get(found[2].lower()) if found else None
    try:
        number = float(found[1]) if found else 0.0
    except ValueError:
        number = 0.0
    if unit is None or number * unit < 1 or isinstance(budget, bool):
        raise ValueError(f"budget={budget!r} is no size: write bytes as a number, or for example '500 kB' or '2 MiB'.")
    return int(number * unit)


@dataclass(frozen=True)
class _Ask:
    budget: int | None
    agreement: float | None
    goal: str


def _checked(budget: Any, agreement: Any, vote: Any, random_state: Any, confidence: Any) -> _Ask:
    if (budget is None) == (agreement is None):
        raise ValueError("Give either budget= (bytes) or agreement= (a share from 0 to 1), and not both.")
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
        size = parse_bytes(budget)
        return _Ask(size, None, f"At most {size_text(size)}")
    if not isinstance(agreement, (int, float)) or not 0 <= agreement <= 1:
        raise ValueError(f"agreement={agreement!r}: give a share from 0 to 1, for example 0.99.")
    return _Ask(None, float(agreement), f"At least {100 * agreement:g} % agreement")


class _Planner:
    """The sample, what it says, and the memories tried on it."""

    def __init__(
        self,
        X: Any,
        y: Any,
        kernel: SiteKernel | None,
        vote: str,
        n_examples: int | None,
        n_labels: int | None,
        sample: int,
        random_state: int,
        confidence: float,
    ) -> None:
        self.X, self.y = token_array(X), label_array(y)
        if len(self.X) < 2 or len(self.X) != len(self.y):
            raise ValueError(f"A plan needs two examples or more; X has {len(self.X)} rows and y {len(self.y)} labels.")
        self.n = len(self.X) if n_examples is None else int(n_examples)
        if self.n < len(self.X):
            raise ValueError(
                f"n_examples={n_examples} is the size of all the data, but X alone has {len(self.X)} rows."
            )
        self.is_all = self.n == len(self.X)
        self.kernel, self.vote, self.seed, self.confidence = kernel, vote, int(random_state), confidence
        self.rng = np.random.default_rng([self.seed % 2**63, 9])
        rows = self.rng.permutation(len(self.X))[: max(int(sample), 2)]
        self.examples = Examples.of(self.X[rows], self.y[rows])
        self.sampled = rows
        self.sites = (kernel or PositionalHamming()).resolve(self.examples.contexts.h)
        self.sample = Sample(self.examples, self.sites, self.seed, self.n)
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
        expected = max(seen, round(expected_distinct(self.sample.label_counts, self.n / self.sample.m)))
        if expected > seen:
            self.notes.append(
                f"The sample has {seen:,} labels; {expected:,} are expected in all the data and planned for. "
                "n_labels= says what is known."
            )
        return expected

    def estimator(self, memory: Memory) -> MemoryClassifier:
        """Return an unfitted classifier with this memory."""
        kernel = None if self.kernel is None else clone(self.kernel)
        return MemoryClassifier(kernel, clone(memory), self.vote, self.seed)

    # Growths

    @cached_property
    def grown_to(self) -> int:
        """How many examples the sample is grown to."""
        return max(self.sample.m, min(self.n, GROWN_CELLS // len(self.sites.positions)))

    @cached_property
    def _grower(self) -> Grower:
        if self.grown_to < self.n:
            self.notes.append(
                f"Agreement was simulated with {self.grown_to:,} examples; intervals are wider for the rest."
            )
        return Grower(self.sample, self.grown_to)

    @cached_property
    def trials(self) -> list[Trial]:
        """All growths; one where nothing is grown."""
        number = GROWTHS if self.grown_to > self.sample.m else 1
        return [self._grower.draw(self.rng, self.sites.weights, mean=self.vote == "mean") for _ in range(number)]

    # Options

    @cached_property
    def exact(self) -> Option:
        """The sparse exact table."""
        certain = Estimate(1.0, 1.0, 1.0, "computed")
        if self.is_all and self.X.shape[0] * len(self.sites.positions) <= _COUNTED_CELLS:
            size = self.estimator(Exact()).fit(self.X, self.y).memory_.nbytes
            return Option(Exact(), Estimate(size, size, size, "counted"), certain, certain)
        largest = max(int(part.entry_counts(self.sample.n_labels).max(initial=0)) for part in self.sample.parts)
        if self.n > _FAR * self.sample.m:
            self.notes.append(
                f"The sample is less than 1/{_FAR} of the data: the size of the exact table is a guess, and too small."
            )
        found = self.sizes.exact(largest * self.n / self.sample.m)
        return Option(Exact(), _bytes(found, "extrapolated"), certain, certain)

    def reserved(self, number: int) -> list[int]:
        """Return how many features each group of sites reserves where `number` are asked for."""
        return [
            min(number, round(self.sample.features_in_group(group, self.n))) for group in range(len(self.sample.pooled))
        ]

    def hashed(self, buckets: int, reserved: int) -> Option:
        """Return what is predicted of one hashed memory, from all growths."""
        outcomes = [trial.hashed(buckets, reserved, certify=True) for trial in self.trials]
        size = self.sizes.hashed(buckets, self.reserved(reserved), self._largest(outcomes))
        agreement = self._interval([o.agreement for o in outcomes], int(self.trials[0].unambiguous.sum()))
        certified = self._interval([o.certified for o in outcomes], len(self.trials[0].queries), proofs=True)
        return Option(Hashed(buckets, reserved), _bytes(size, "computed"), agreement, certified)

    def _largest(self, outcomes: Sequence[Outcome]) -> list[tuple[float, float]]:
        """Return the largest counts of each site; of many noisy counts the largest is too large, which is undone."""
        times = self.n / self.grown_to
        means = np.mean([outcome.largest for outcome in outcomes], axis=0) * times
        noise = _LARGEST_OF_MANY / np.sqrt(np.maximum(means[:, 1] * self.sample.m / self.n, 1))
        means[:, 1] /= 1 + (noise if self.n > self.sample.m else 0.0)
        return [(float(own), float(shared)) for own, shared in means]

    def _interval(self, shares: Sequence[Sequence[float]], n_queries: int, *, proofs: bool = False) -> Estimate:
        """Return the prediction from the shares in each growth, one for each draw of the labels' shares."""
        values = np.array(shares)
        share, number = float(values.mean()), len(values)
        rest = min(share, 1 - share) if proofs else 1 - share
        grown = number > 1
        if grown and not proofs:
            share = 1 - _MISSES_KEPT * (1 - share)
        relative = _PROOF_SPREAD if proofs else _MODEL_SPREAD / (1 + _MANY_MISSES * rest)
        spread = relative * rest if grown else 0.0
        found = values.mean(axis=1).var() * number + GROWTHS * (_GROWTH_SPREAD * rest) ** 2  # few growths say little
        between = found / (number - 1 + GROWTHS) * (1 + 1 / number) if grown else 0.0
        within = values.var(axis=1, ddof=1).mean() if values.shape[1] > 1 else 0.0
        ungrown = _UNGROWN_SPREAD * rest * max(log2(self.n / self.grown_to), 0)
        asked = max(n_queries, 1)
        binomial = max(share * (1 - share), 1 / asked) / asked
        deviation = sqrt(binomial + between + within + (spread + _LEAST_SPREAD) ** 2 + ungrown**2)
        half = float(stats.norm.ppf(0.5 + self.confidence / 2)) * deviation
        return Estimate(share, max(share - half, 0.0), min(share + half, 1.0), "simulated")

    def gaussian(self, size: int) -> Option:
        """Return a Gaussian memory of about this size, tried on the sample as it is."""
        d = min(max(int(sqrt(max(size - self.sizes.frame, 8) / 8)), 1), _LARGEST_D)
        while d > 1 and self.sizes.gaussian(d) > size:
            d -= 1
        rows = self.sampled[:2500]
        learnt, asked = rows[len(rows) // 5 :], rows[: len(rows) // 5]
        exact, sketch = (
            self.estimator(memory).fit(self.X[learnt], self.y[learnt]) for memory in (Exact(), Gaussian(d))
        )
        self._sketch = sketch
        scores = np.sort(exact.class_scores(self.X[asked]), axis=1)
        clear = scores[:, -1] > scores[:, -2] if scores.shape[1] > 1 else np.ones(len(scores), bool)
        same = (sketch.predict(self.X[asked]) == exact.predict(self.X[asked]))[clear]
        agreement = Estimate(0.5, 0.0, 1.0, "simulated")  # where no query was clear
        if len(same):
            found = stats.binomtest(int(same.sum()), len(same)).proportion_ci(self.confidence, "wilson")
            agreement = Estimate(float(same.mean()), float(found.low), float(found.high), "simulated")
        taken = self.sizes.gaussian(d)
        return Option(Gaussian(d), Estimate(taken, taken, taken, "computed"), agreement, None)

    # Sizes of hashed memories

    def fitted_to(self, size: int, own_share: float) -> tuple[int, int] | None:
        """Return buckets and reserved rows that take at most so many bytes, `own_share` of them in reserved rows."""
        largest = [(2.0**15, 1.0)] * len(self.sites.positions)
        for _ in range(4):
            found = self._split(size, own_share, largest)
            if found is None:
                return None
            expected = self._largest([self.trials[0].hashed(*found)])
            if self.sizes.hashed(found[0], self.reserved(found[1]), expected).high <= size:
                return found
            upper = [tuple(count * (1 + self.sizes.spread(count)) for count in pair) for pair in expected]
            largest = [(own, max(shared, before)) for (own, shared), (_, before) in zip(upper, largest, strict=True)]
        return None

    def _split(self, size: int, own_share: float, largest: list[tuple[float, float]]) -> tuple[int, int] | None:
        room = size - self.sizes.frame
        own = sum(self.n_labels * width(a) for a, _ in largest) + 8 * len(self.sample.pooled)
        shared = sum(self.n_labels * width(b) for _, b in largest)
        reserved = min(int(own_share * room / own), max(len(words) for words, _ in self.sample.pooled))
        buckets = (room - reserved * own) // shared
        return None if buckets < 2 else (int(buckets), max(reserved, 0))

    def best_hashed(self, size: int) -> Option | None:
        """Return the hashed memory of at most so many bytes that agrees most often.

        One whose numbers are certainly of one width, so that its size is known, is taken if it is nearly as good.
        """
        splits = dict.fromkeys(found for share in _OWN_SHARES if (found := self.fitted_to(size, share)))
        if not splits:
            return None
        misses = {split: 1 - self.trials[0].hashed(*split).agreement[0] for split in splits}
        most = _NEARLY * min(misses.values()) + _LEAST_SPREAD
        good = [split for split in splits if misses[split] <= most]
        sure = [split for split in good if self._is_sure(*split)]
        return self.hashed(*min(sure or good, key=misses.__getitem__))

    def _is_sure(self, buckets: int, reserved: int) -> bool:
        found = self.sizes.hashed(
            buckets, self.reserved(reserved), self._largest([self.trials[0].hashed(buckets, reserved)])
        )
        return found.low == found.high

    # The two questions

    def for_budget(self, budget: int) -> list[Option]:
        """Return the options under a budget, the chosen one first."""
        exact, text = self.exact, size_text(budget)
        size = exact.state_bytes
        if size.high <= budget:
            other = self.best_hashed(min(budget, int(size.value) // 2))
            exact = replace(exact, chosen=True, why=f"it fits in {text} and every answer is the exact one.")
            rest = [] if other is None else [replace(other, why="half the size of the exact table, for comparison.")]
            return [exact, *rest]
        verdict = "may not fit" if size.low <= budget else "does not fit"
        exact = replace(exact, why=f"it {verdict} in {text}.")
        hashed, gaussian = self.best_hashed(budget), self._rival(budget)
        fitting = [option for option in (hashed, gaussian) if option is not None]
        if not fitting:
            none, wide = [0] * len(self.sample.pooled), [(0.0, 2.0**15)] * len(self.sites.positions)
            least = size_text(self.sizes.hashed(2, none, wide).value)
            raise ValueError(f"Nothing fits in {text}: a hashed memory of two buckets takes {least}. Give more bytes.")
        best = max(fitting, key=lambda option: option.agreement.value)
        reason = {True: f"it agrees most often of what fits in {text}.", False: "it fits, and agrees less often."}
        return sorted(
            [*(replace(o, chosen=o is best, why=reason[o is best]) for o in fitting), exact], key=lambda o: not o.chosen
        )

    def _rival(self, size: int) -> Option | None:
        return self.gaussian(size) if self.sizes.gaussian(1) <= size else None

    def for_agreement(self, target: float) -> list[Option]:
        """Return the options that reach an agreement, the chosen one first."""
        exact, text = self.exact, f"{100 * target:g} %"
        most = int(exact.state_bytes.value)
        least = 4 * len(self.sites.positions) * self.n_labels + self.sizes.frame
        ladder = [most / _SMALLER ** (j + 1) for j in range(200) if most / _SMALLER ** (j + 1) > least][::-1]
        start = _first(len(ladder), lambda j: self._looks_enough(int(ladder[j]), target))
        best: Option | None = None
        for size in ladder[start : start + 5]:
            best = self.best_hashed(int(size)) or best
            if best is not None and best.agreement.low >= target:
                why = f"the smallest one tried whose interval lies above {text}."
                exact = replace(exact, why="it reaches it too, and is larger.")
                return [replace(best, chosen=True, why=why), exact, *self._short_of(best, text)]
        rest = [] if best is None else [replace(best, why=f"its interval does not lie above {text}.")]
        why = f"no hashed memory that is smaller is sure to reach {text}, and this one always agrees."
        return [replace(exact, chosen=True, why=why), *rest]

    def _looks_enough(self, size: int, target: float) -> bool:
        found = self.fitted_to(size, 0.5)
        if found is None:
            return False
        return 1 - self.trials[0].hashed(*found).agreement[0] <= _ROOM * (1 - target)

    def _short_of(self, option: Option, text: str) -> list[Option]:
        rival = self._rival(int(option.state_bytes.value))
        if rival is None:
            return []
        return [replace(rival, why=f"of the same size; it is not sure to reach {text}.")]

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

    def _grown_examples(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a growth as examples whose tokens are features, for a table as large as the real one."""
        sites = [site for site, _ in self.trials[0].sites]
        longest = max(sites, key=lambda grown: len(grown.features))
        n = min(len(longest.features), max(GROWN_CELLS // 4 // len(sites), self.sample.m))
        tokens = np.full((n, len(sites)), NO_TOKEN)
        for column, (grown, words) in zip(tokens.T, self.trials[0].sites, strict=True):
            held = words[grown.features[:n]] >> np.uint64(1)
            column[: len(held)] = held.astype(np.int64)
        return tokens, longest.labels[:n]


def _first(number: int, holds: Callable[[int], bool]) -> int:
    """Return the first index at which something holds, by halving; `number` where it does not."""
    low, high = 0, number
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _bytes(size: Size, method: str) -> Estimate:
    return Estimate(size.value, size.low, size.high, method)
