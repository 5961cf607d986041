"""Parts that break one promise each are caught, by a message that names the promise."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from contract_checks import BrokenPromiseError, check_kernel, check_memory, check_vote
from hammemo.kernels import PositionalHamming, Sites
from hammemo.memories import Exact, Gaussian, LabelCounts, NotStoredError, Ranker, SiteScores
from hammemo.memories.exact.reader import SparseCounts
from hammemo.memories.exact.sum import SignedSum
from hammemo.memories.exact.table import CountTable
from hammemo.votes import LogLinear, Sum, Vote

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hammemo.kernels import SiteKernel
    from hammemo.memories import Memory, Reader
    from hammemo.tokens.contexts import Contexts, Examples


# ---------------------------------------------------------------- memories


class DropsMultiplicity(Exact):
    def update(self, examples: Examples, sign: int) -> None:
        super().update(replace(examples, multiplicity=np.ones_like(examples.multiplicity)), sign)


class LiveReader(Exact):
    """Its reader changes with the memory."""

    def reader(self) -> Any:
        return SharedReader(self)


class SharedReader(SparseCounts):
    def __init__(self, memory: Exact) -> None:
        super().__init__(memory.terms, memory.declared, static=True)
        self._memory = memory

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return SparseCounts(self._memory.terms, self._memory.declared, static=True).scores(contexts, weights)


class InBulk(Exact):
    """Keeps tables only: what is stored is not made again for reading and for small edits."""

    def _takes_rows(self, n_examples: int) -> bool:
        return False

    def make_reader(self) -> SparseCounts:
        table = SignedSum.from_table(self.table())  # later edits do not reach it
        return SparseCounts(table, self.declared, static=True)


class HalfApplies(InBulk):
    """Takes examples back one label at a time, in place, and stops at the first that is not there."""

    def update(self, examples: Examples, sign: int) -> None:
        if sign > 0:
            super().update(examples, sign)
            return
        stored = vars(self.signed_sum)  # other versions share it
        for label in examples.labels:
            table = CountTable.from_examples(examples.only(type(examples.labels).of([label])), self.sites)
            changed = vars(self.signed_sum.edit_in_bulk(table, sign))
            stored.clear()
            stored.update(changed)


class ChangesInPlace(InBulk):
    """Changes what its attributes hold, in every edit."""

    def update(self, examples: Examples, sign: int) -> None:
        changed = self.signed_sum.edit_in_bulk(CountTable.from_examples(examples, self.sites), sign)
        vars(self.signed_sum).clear()
        vars(self.signed_sum).update(vars(changed))


class RefusesNothing(Exact):
    def update(self, examples: Examples, sign: int) -> None:
        try:
            super().update(examples, sign)
        except NotStoredError:
            self.clear()


class MergeForgetsLabels(Exact):
    """Takes over the counts of labels that it knows already."""

    def add_state(self, other: Any, sign: int) -> None:
        if sign < 0 or not len(self.count_labels().labels):
            super().add_state(other, sign)


class RemembersTheFirst(Exact):
    """Its state is not canonical: the first example that was learnt is a part of it."""

    _first: int = 0

    def update(self, examples: Examples, sign: int) -> None:
        if not len(self.count_labels().labels):
            tokens = [*examples.contexts.vocabulary, None]
            self._first = sum(map(ord, repr([tokens[rank] for rank in examples.contexts.ranks[0]])))
        super().update(examples, sign)

    def state_arrays(self) -> dict[str, NDArray[Any]]:
        return {**super().state_arrays(), "first": np.array([self._first % 256], np.uint8)}


class TightBounds(Exact):
    def make_reader(self) -> Any:
        return TightReader(self.signed_sum, self.declared, static=True)


class TightReader(SparseCounts):
    def bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        scores = self.scores(contexts, weights)
        return scores, scores - 1

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        terms = super().site_scores(contexts, weights, columns)
        return replace(terms, high=terms.values - 1 / len(weights))


class ClaimsRows(Gaussian):
    def make_reader(self) -> Any:
        reader = super().make_reader()
        reader.has_rows = True  # type: ignore[misc]
        return reader


class CopiesShare(Exact):
    def __deepcopy__(self, memo: Any) -> CopiesShare:
        return self


class IgnoresAnArray(Exact):
    """Has an array in its state that it does not remove."""

    def state_arrays(self) -> dict[str, NDArray[Any]]:
        return {**super().state_arrays(), "extra": np.zeros(1, np.uint8)}


class KeepsIdleLabels(Exact):
    def update(self, examples: Examples, sign: int) -> None:
        super().update(examples, sign)
        self.count_labels()

    def count_labels(self) -> LabelCounts:
        counts = super().count_labels()
        self.ever = getattr(self, "ever", counts.labels).union(counts.labels)
        totals = np.zeros(len(self.ever), np.int64)
        totals[self.ever.find(counts.labels)] = counts.counts
        return LabelCounts(self.ever, totals)


class MergesAnything(Exact):
    def layout(self) -> dict[str, Any]:
        return {"memory": type(self).__name__}


BROKEN_MEMORIES: list[tuple[Memory, str]] = [
    (DropsMultiplicity(), "an example with multiplicity n is stored as n examples"),
    (LiveReader(), "a reader answers after an edit of its memory exactly as before"),
    (HalfApplies(), "a removal that is refused changes nothing"),
    (ChangesInPlace(), "an edit replaces what it changes, and never changes what other versions hold"),
    (RefusesNothing(), "a removal that is refused changes nothing"),
    (MergeForgetsLabels(), "shards that are merged equal one memory that learned everything"),
    (RemembersTheFirst(), "the order in which examples are learned does not show in the state"),
    (TightBounds(), "bounds hold the exact counts between them"),
    (ClaimsRows(d=16), "has_bounds and has_rows say what a reader can do"),
    (CopiesShare(), "copies and pickles have the same state and answers, and are edited on their own"),
    (IgnoresAnArray(), "a restored state is the state, and goes on in the same way"),
    (KeepsIdleLabels(), "a label without examples is dropped unless it was declared"),
    (MergesAnything(), "memories of another layout are refused by the name of what differs"),
]


# ---------------------------------------------------------------- kernels


class RandomOrder(PositionalHamming):
    def resolve(self, h: int) -> Sites:
        sites = super().resolve(h)
        return Sites(h, tuple(random.sample(sites.positions, h)), sites.weights)


class GrowingWeights(PositionalHamming):
    """Its weights depend on how often it was asked."""

    calls = 0

    def resolve(self, h: int) -> Sites:
        self.calls += 1
        sites = super().resolve(h)
        return Sites(h, sites.positions, sites.weights * self.calls)


class NegativeWeights(PositionalHamming):
    def resolve(self, h: int) -> Sites:
        sites = super().resolve(h)
        return Sites(h, sites.positions, np.where(np.arange(h) == 0, -0.5, sites.weights))


class PromisesTooManySites(PositionalHamming):
    def least_sites(self, h: int) -> int:
        return 2 * h


class OwnFormula(PositionalHamming):
    """Its value for a pair is another one than that of its sites."""

    def __call__(self, s: Any, q: Any) -> float:
        return super().__call__(s, q) ** 2


class HiddenParameter(PositionalHamming):
    """A parameter that `get_params` does not know is lost in clones."""

    def reversed_(self) -> HiddenParameter:
        self.turned = True
        return self

    def resolve(self, h: int) -> Sites:
        sites = super().resolve(h)
        return Sites(h, sites.positions[::-1], sites.weights) if hasattr(self, "turned") else sites


BROKEN_KERNELS: list[tuple[SiteKernel, str]] = [
    (RandomOrder(), "resolve is a pure function"),
    (GrowingWeights(), "resolve is a pure function"),
    (NegativeWeights(), "sites are distinct tuples .* none negative"),
    (PromisesTooManySites(), "sites are distinct tuples"),
    (OwnFormula(), "values are those of the definition"),
    (HiddenParameter().reversed_(), "equal kernels have equal sites"),
]


# ---------------------------------------------------------------- votes


class Wrapped(Ranker):
    """Passes everything on; the classes below change one answer."""

    def __init__(self, inner: Ranker) -> None:
        super().__init__(inner.n_labels, inner.row_width)
        self.inner = inner

    def scores(self, contexts: Contexts) -> NDArray[Any]:
        return self.inner.scores(contexts)

    def site_scores(self, contexts: Contexts, columns: NDArray[np.int64]) -> SiteScores:
        return self.inner.site_scores(contexts, columns)


class LastAmongEquals(Wrapped):
    def winners(self, contexts: Contexts) -> NDArray[np.int64]:
        return np.asarray(self.n_labels - 1 - self.scores(contexts)[:, ::-1].argmax(axis=1))


class ForgetsTheBase(Wrapped):
    def site_scores(self, contexts: Contexts, columns: NDArray[np.int64]) -> SiteScores:
        return replace(super().site_scores(contexts, columns), base=None)


class ByRankInTheBatch(Wrapped):
    """Scores of a context depend on the others."""

    def scores(self, contexts: Contexts) -> NDArray[Any]:
        scores = super().scores(contexts)
        return np.asarray(scores + scores.sum(axis=0) * (len(scores) > 1))


class BrokenVote(Vote):
    def __init__(self, change: Callable[[Ranker], Ranker], inner: Vote) -> None:
        self.change = change
        self.inner = inner

    def ranker(self, reader: Reader, sites: Sites) -> Ranker:
        return self.change(self.inner.ranker(reader, sites))


class InfiniteDivisor(Sum):
    def divisor(self, reader: Reader, sites: Sites) -> float:
        return max(super().divisor(reader, sites), np.inf)


class RandomStart(LogLinear):
    def fit_to(self, *args: Any, **options: Any) -> None:
        super().fit_to(*args, **options)
        if hasattr(self, "offsets_"):
            self.offsets_ = self.offsets_ + np.random.default_rng().random(len(self.offsets_))


class ForgetsOffsets(LogLinear):
    def restore(self, stored: Any, sites: Sites) -> None:
        super().restore(stored, sites)
        if hasattr(self, "offsets_"):
            self.offsets_ = np.zeros_like(self.offsets_) + 0.125


class FitsAParameter(LogLinear):
    def fit_to(self, *args: Any, **options: Any) -> None:
        super().fit_to(*args, **options)
        self.ridge = self.ridge + 1


BROKEN_VOTES: list[tuple[Vote, str]] = [
    (BrokenVote(LastAmongEquals, Sum()), "winners and leaders are in the order of the scores"),
    (BrokenVote(ForgetsTheBase, LogLinear(weights=[1, 1, 1, 1])), "site_scores, added up with their base, are the"),
    (BrokenVote(ByRankInTheBatch, Sum()), "do not depend on the other contexts of a batch"),
    (InfiniteDivisor(), "the divisor of a weighted sum is positive and finite"),
    (RandomStart(sample=20, steps=2), "fitting twice gives the same"),
    (ForgetsOffsets(sample=20, steps=2), "what was fitted comes back from state by restore"),
    (FitsAParameter(sample=20, steps=2), "fitting changes neither a parameter nor the memory"),
]


def name(value: Any) -> str:
    return "" if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize(("memory", "promise"), BROKEN_MEMORIES, ids=name)
def test_a_broken_memory_is_caught(memory: Memory, promise: str) -> None:
    with pytest.raises(BrokenPromiseError, match=f"{type(memory).__name__}.* breaks a promise: .*({promise})"):
        check_memory(memory)


@pytest.mark.parametrize(("kernel", "promise"), BROKEN_KERNELS, ids=name)
def test_a_broken_kernel_is_caught(kernel: SiteKernel, promise: str) -> None:
    with pytest.raises(BrokenPromiseError, match=f"breaks a promise: .*({promise})"):
        check_kernel(kernel)


@pytest.mark.parametrize(("vote", "promise"), BROKEN_VOTES, ids=name)
def test_a_broken_vote_is_caught(vote: Vote, promise: str) -> None:
    with pytest.raises(BrokenPromiseError, match=f"breaks a promise: .*({promise})"):
        check_vote(vote)
