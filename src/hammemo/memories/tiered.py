r"""Two tiers: a small table that proves most answers, and an exact one for the rest.

The hashed memory answers a query and its certificate (:mod:`hammemo.memories.bounds`) says whether that answer is
proven to be the exact classifier's. Where it is, the exact table is not touched; where it is not, the exact table is
asked. So every prediction is the exact classifier's, while nearly all of them come from a table that fits in a cache.
The exact table may be large and live in a memory-mapped file (``hammemo.load(path, verify=False)``).

The certificate is about the winner alone: scores and top-k lists come from the exact table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from hammemo._arrays.integers import row_pieces
from hammemo.memories.base import LabelCounts, Memory, leaders_by_scores
from hammemo.memories.exact.memory import Exact, SparseCounts
from hammemo.memories.hashed.memory import Hashed
from hammemo.memories.hashed.readers import HashedTables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.base import Frame, Reader
    from hammemo.memories.contributions import SiteScores
    from hammemo.memories.row_rules import RowRule, RuledReader
    from hammemo.tokens.contexts import Contexts, Examples
    from hammemo.tokens.vocabulary import Vocabulary


class Tiered(Memory):
    """A hashed memory in front of an exact one; every answer is the exact one's.

    Parameters
    ----------
    sketch : Hashed, optional
        The small table; `Hashed()` by default.
    exact : Exact, optional
        The table behind it; `Exact()` by default.

    Examples
    --------
    >>> from hammemo import Exact, Hashed, MemoryClassifier, Tiered
    >>> X, y = [["a", "b"]] * 5 + [["c", "d"]], ["x"] * 5 + ["y"]
    >>> clf = MemoryClassifier(memory=Tiered(Hashed(buckets=1, reserved=2))).fit(X, y)
    >>> clf.predict([["a", "b"], ["c", "d"]]).tolist()
    ['x', 'y']
    """

    sketch_: Hashed
    exact_: Exact

    def __init__(self, sketch: Hashed | None = None, exact: Exact | None = None) -> None:
        self.sketch = sketch
        self.exact = exact

    def add(self, examples: Examples) -> None:
        """Store examples in both tiers."""
        self.sketch_.add(examples)
        self.exact_.add(examples)

    def remove(self, examples: Examples) -> None:
        """Take examples back from both tiers, or raise `NotStoredError` and change neither."""
        self.exact_.remove(examples)  # what the exact table holds, the buckets hold too
        self.sketch_.remove(examples)

    def reserve(self, examples: Examples) -> None:
        """Settle the layout of the sketch, see `Hashed.reserve`."""
        self.sketch_.reserve(examples)

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the exact weighted counts."""
        return self.exact_.scores(contexts, weights)

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the exact rows of counts."""
        return self.exact_.site_counts(contexts)

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns, from the exact table."""
        return self.exact_.site_scores(contexts, weights, columns)

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1 or 0."""
        return self.exact_.seen(tokens)

    def with_rule(self, rule: RowRule) -> RuledReader:
        """Return what answers with the scores of this rule, from the exact table: a sketch cannot prove them."""
        return self.exact_.with_rule(rule)

    def bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact weighted counts are at least, and at most: here, the counts themselves."""
        return self.exact_.bounds(contexts, weights)

    def winners(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the exact winner of each context, from the sketch where it can prove it."""
        return tiered_winners(self.sketch_, self.exact_, contexts, weights, divisor)

    def leaders(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64], k: int
    ) -> NDArray[np.int64]:
        """Return the columns of the k highest exact scores of each context."""
        return leaders_by_scores(self.exact_, contexts, weights, divisor, k)

    def compile(self, form: str | None = None, vocabulary: Vocabulary | None = None) -> TieredTables:  # noqa: ARG002
        """Return both tiers compiled: ``"tiered"``; a vocabulary is not needed."""
        if form not in (None, "tiered"):
            raise ValueError(f"form={form!r} is not known: Tiered() compiles to 'tiered'.")
        return TieredTables(self.sketch_.compile(), self.exact_.sparse())

    def declare(self, labels: Vocabulary) -> None:
        """Keep these labels as candidates, with or without examples."""
        super().declare(labels)
        self.sketch_.declare(labels)
        self.exact_.declare(labels)

    def empty_like(self) -> Tiered:
        """Return a memory of the same layout with nothing stored."""
        fresh: Tiered = super().empty_like()
        fresh.sketch_, fresh.exact_ = self.sketch_.empty_like(), self.exact_.empty_like()
        return fresh

    def layout(self) -> dict[str, Any]:
        """Return what must agree for two states to be added, by name."""
        return {**self.sketch_.layout(), "memory": type(self).__name__}  # the exact tier has nothing of its own

    @property
    def row_width(self) -> int:
        """How many numbers one query needs while it is answered."""
        return self.sketch_.row_width

    def _open(self) -> None:
        self._check_tiers()
        self.sketch_ = clone(self.sketch or Hashed()).open(self.sites, self.seed, self.declared)
        self.exact_ = clone(self.exact or Exact()).open(self.sites, self.seed, self.declared)

    def _check_tiers(self) -> None:
        for name, tier, kind in (("sketch", self.sketch, Hashed), ("exact", self.exact, Exact)):
            if tier is not None and not isinstance(tier, kind):
                raise TypeError(f"{name}={tier!r} is not a {kind.__name__} memory: Tiered(Hashed(…), Exact()).")

    def _undecided(self) -> frozenset[str]:
        return self.sketch_._undecided()

    def _merge(self, other: Tiered, sign: int) -> None:
        for mine, theirs in ((self.exact_, other.exact_), (self.sketch_, other.sketch_)):
            mine._merge(theirs, sign)  # the exact one first: what it can subtract, the buckets can too

    def _restore(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        self._check_tiers()
        self.sketch_, self.exact_ = clone(self.sketch or Hashed()), clone(self.exact or Exact())
        for name, tier in (("sketch", self.sketch_), ("exact", self.exact_)):
            tier._restore_inside(self, all_labels, stored.part(name))

    def _observed(self) -> LabelCounts:
        return self.exact_._observed()

    def _state(self) -> dict[str, NDArray[Any]]:
        tiers = (("sketch", self.sketch_), ("exact", self.exact_))
        return {f"{name}.{part}": array for name, tier in tiers for part, array in tier._state().items()}


class TieredTables:
    """Both tiers, read-only."""

    def __init__(self, sketch: HashedTables, exact: SparseCounts) -> None:
        self.labels = exact.labels
        self.label_counts = exact.label_counts
        self.row_width = sketch.row_width
        self._sketch = sketch
        self._exact = exact

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the exact weighted counts."""
        return self._exact.scores(contexts, weights)

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the exact rows of counts."""
        return self._exact.site_counts(contexts)

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns, from the exact table."""
        return self._exact.site_scores(contexts, weights, columns)

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1 or 0."""
        return self._exact.seen(tokens)

    def bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact weighted counts are at least, and at most: here, the counts themselves."""
        return self._exact.bounds(contexts, weights)

    def with_rule(self, rule: RowRule) -> RuledReader:
        """Return what answers with the scores of this rule, from the exact table."""
        return self._exact.with_rule(rule)

    def winners(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the exact winner of each context, from the sketch where it can prove it."""
        return tiered_winners(self._sketch, self._exact, contexts, weights, divisor)

    def leaders(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64], k: int
    ) -> NDArray[np.int64]:
        """Return the columns of the k highest exact scores of each context."""
        return leaders_by_scores(self._exact, contexts, weights, divisor, k)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        tiers = (("sketch", self._sketch.tensors()), ("exact", self._exact.tensors()))
        return {f"{name}.{part}": array for name, arrays in tiers for part, array in arrays.items()}

    def stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what `restored` needs: the arrays and descriptions of both tiers."""
        (sketch, about_sketch), (exact, about_exact) = self._sketch.stored(), self._exact.stored()
        arrays = {f"sketch.{name}": array for name, array in sketch.items()}
        arrays |= {f"exact.{name}": array for name, array in exact.items()}
        return arrays, {"key": about_sketch["key"], "sketch": about_sketch, "exact": about_exact}

    @classmethod
    def restored(
        cls, frame: Frame, stored: StoredArrays, description: dict[str, Any], key: bytes | None = None
    ) -> TieredTables:
        """Return the compiled form with these arrays, checked: undo `stored`."""
        sketch, exact = description.get("sketch"), description.get("exact")
        if not isinstance(sketch, dict) or not isinstance(exact, dict) or sketch.get("key") != description.get("key"):
            raise ValueError("the tiers are not described")
        return cls(
            HashedTables.restored(frame, stored.part("sketch"), sketch, key),
            SparseCounts.restored(frame, stored.part("exact"), exact),
        )


def tiered_winners(
    sketch: Hashed | HashedTables,
    exact: Reader,
    contexts: Contexts,
    weights: NDArray[np.float64],
    divisor: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Return the exact winner of each context, asking the exact table only where the sketch has no proof."""
    answers = sketch.winners(contexts, weights, divisor)
    open_ones = np.flatnonzero(~sketch.proven(contexts, weights, divisor, answers))
    for part in row_pieces(len(open_ones), len(divisor)):
        rows = open_ones[part]
        answers[rows] = (exact.scores(contexts[rows], weights) / divisor).argmax(axis=1)
    return answers
