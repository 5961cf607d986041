r"""Two tiers: a small table that proves most answers, and an exact one for the rest.

The hashed memory answers a query and its certificate (:mod:`hammemo.memories.reader`) says whether
that answer is proven to be the exact classifier's. Where it is, the exact table is not touched;
where it is not, the exact table answers. So every prediction is the exact classifier's, while
nearly all of them come from a table that fits in a cache. The exact table may be large and live in
a memory-mapped file (``hammemo.load(path, verify=False)``), or in segments in a folder
(``hammemo.save(model, folder, segments=N)``): then the sketch lies in the folder's head, is in
memory as a whole, and a query that it proves touches no page of any segment.

The certificate is about the winner alone: scores and top-k lists come from the exact table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from hammemo.memories.exact import Exact, InSegments, SignedSum, SparseCounts
from hammemo.memories.hashed import Hashed
from hammemo.memories.hashed.readers import HashedTables
from hammemo.memories.reader import Compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.memories.base import Memory
    from hammemo.memories.label_counts import Frame, LabelCounts
    from hammemo.memories.ranker import Divisor, Ranker
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.contexts import Contexts, Examples
    from hammemo.tokens.stream_blocks import Block
    from hammemo.tokens.vocabulary import Vocabulary


class Tiered(InSegments):
    """A hashed memory in front of an exact one; every answer is that of the exact memory.

    Parameters
    ----------
    sketch : Hashed, optional
        The small table; `Hashed()` by default.
    exact : Exact, optional
        The table behind it; `Exact()` by default.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.memories import Exact, Hashed, Tiered
    >>> X, y = [["a", "b"]] * 5 + [["c", "d"]], ["x"] * 5 + ["y"]
    >>> clf = MemoryClassifier(memory=Tiered(Hashed(buckets=1, reserved=2)), vote="sum").fit(X, y)
    >>> clf.predict([["a", "b"], ["c", "d"]]).tolist()
    ['x', 'y']
    """

    inner = ("sketch", "exact")
    table_prefix = "exact."

    sketch_: Hashed
    exact_: Exact

    has_exact_rows = False

    def __init__(self, sketch: Hashed | None = None, exact: Exact | None = None) -> None:
        self.sketch = sketch
        self.exact = exact

    def update(self, examples: Examples, sign: int) -> None:
        """Add examples to both tiers, or remove them; an error changes neither."""
        self._change(lambda tier: tier.update(examples, sign))

    def _change(self, change: Callable[[Any], None]) -> None:
        """Change both tiers, or none where one of them refuses."""
        exact = self.exact_.snapshot()
        sketch = self.sketch_.snapshot()
        change(exact)  # first: what the exact table holds, the buckets hold too
        change(sketch)
        self.exact_ = exact
        self.sketch_ = sketch

    def update_one(self, tokens: Sequence[Any], label: Any, by: int) -> None:
        """Add one example `by` times to both tiers or, below zero, remove it."""
        self._change(lambda tier: tier.update_one(tokens, label, by))

    def update_from_blocks(self, blocks: Iterable[Block], labels: Vocabulary | None = None) -> None:
        """Add the windows of a stream: to the exact tier in bulk, however small a block is."""
        exact = self.exact_.snapshot()
        sketch = self.sketch_.snapshot()
        for block in blocks:
            exact.update_from_blocks([block], labels)
            examples = block.examples()
            if labels is not None:
                examples = examples.only(labels)
            sketch.update(examples, 1)
        self.exact_ = exact
        self.sketch_ = sketch

    def reserve(self, examples: Examples) -> None:
        """Settle the layout of the sketch, see `Hashed.reserve`."""
        self.apply_edit(lambda memory: memory.reserve_rows(examples))

    def reserve_rows(self, examples: Examples) -> None:
        """Let the sketch give the most frequent tokens of examples rows of their own."""
        self.sketch_ = self.sketch_.snapshot()
        self.sketch_.reserve(examples)

    def keeps_rows(self) -> bool:
        """Return that its reader has rows of counts.

        The numbers of buckets may be those of many sites, so none is made to ask it.
        """
        return TieredTables.has_rows

    def make_reader(self) -> TieredTables:
        """Return the readers of both tiers as one."""
        return TieredTables(self.sketch_.make_reader(), self.exact_.make_reader())

    def compile(
        self,
        form: str | None = None,
        vocabulary: Vocabulary | None = None,  # noqa: ARG002
        threads: int = 1,
    ) -> TieredTables:
        """Return both tiers compiled: ``"tiered"``; a vocabulary is not needed."""
        if form not in (None, "tiered"):
            raise ValueError(f"form={form!r} is not known: Tiered() compiles to 'tiered'.")
        return TieredTables(self.sketch_.compile(threads=threads), self.exact_.make_reader())

    def declare_labels(self, labels: Vocabulary) -> None:
        """Keep these labels as candidates in both tiers."""
        super().declare_labels(labels)
        self._change(lambda tier: tier.declare_labels(labels))

    def empty_like(self) -> Tiered:
        """Return a memory of the same layout with nothing stored."""
        fresh: Tiered = super().empty_like()
        fresh.sketch_ = self.sketch_.empty_like()
        fresh.exact_ = self.exact_.empty_like()
        return fresh

    def layout(self) -> dict[str, Any]:
        """Return what must agree for two states to be added, by name."""
        # the exact tier has nothing of its own
        return {**self.sketch_.layout(), "memory": type(self).__name__}

    def clear(self) -> None:
        """Start two empty tiers."""
        self.sketch_, self.exact_ = self._clone_tiers()
        for tier in (self.sketch_, self.exact_):
            tier.open(self.sites, self.seed, self.declared)

    def check_parameters(self, sites: Sites) -> None:
        """Refuse tiers of other kinds, or with parameters that are wrong for these sites."""
        super().check_parameters(sites)
        for tier in self._clone_tiers():
            tier.check_parameters(sites)

    def _clone_tiers(self) -> tuple[Hashed, Exact]:
        """Return new memories with the parameters of the tiers, checked."""
        tiers = (("sketch", self.sketch, Hashed), ("exact", self.exact, Exact))
        for name, tier, kind in tiers:
            if tier is not None and not isinstance(tier, kind):
                raise TypeError(
                    f"{name}={tier!r} is not a {kind.__name__} memory: Tiered(Hashed(…), Exact())."
                )
        return clone(self.sketch or Hashed()), clone(self.exact or Exact())

    def list_undecided(self) -> frozenset[str]:
        """Return what the sketch has still to settle."""
        return self.sketch_.list_undecided()

    def add_state(self, other: Tiered, sign: int) -> None:
        """Add both tiers of another memory, or subtract them."""
        exact = self.exact_.snapshot()
        sketch = self.sketch_.snapshot()
        exact.add_state(other.exact_, sign)  # first: what it can subtract, the buckets can too
        sketch.add_state(other.sketch_, sign)
        self.exact_ = exact
        self.sketch_ = sketch

    def restore_arrays(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        """Take the state of both tiers, which must have counted the same examples."""
        self.sketch_, self.exact_ = self._clone_tiers()
        for name, tier in (("sketch", self.sketch_), ("exact", self.exact_)):
            tier.restore_inside(self, all_labels, stored.part(name))
        if not stored.trusted:  # it reads both tables
            self._check_counted(self.exact_.table().empties)

    @property
    def terms(self) -> SignedSum:
        """The table of the exact tier as a sum of terms."""
        return self.exact_.terms

    @property
    def companion(self) -> Hashed:
        """The sketch."""
        return self.sketch_

    def companion_arrays(self) -> dict[str, Array]:
        """Return the arrays of the sketch."""
        return {f"sketch.{name}": array for name, array in self.sketch_.state_arrays().items()}

    def set_terms(self, stored: SignedSum, companion: Memory | None = None) -> None:
        """Replace all that is stored by a table in segments and a sketch of the same examples."""
        if not isinstance(companion, Hashed) or companion.layout() != self.sketch_.layout():
            raise ValueError(
                f"A table in segments needs a sketch of this layout, and {companion!r} is not one."
            )
        sketch = companion.snapshot()

        def hold(memory: Tiered) -> None:
            sketch.declared = memory.declared
            memory.sketch_ = sketch
            memory.exact_ = memory.exact_.snapshot()
            memory.exact_.set_terms(stored)

        self.apply_edit(hold)

    def with_empty_table(self) -> Tiered:
        """Return a memory with this sketch and an empty exact tier.

        Only together with that table they agree.
        """
        version = self.snapshot()
        version.exact_ = self.exact_.with_empty_table()
        return version

    def restore_terms(
        self,
        all_labels: LabelCounts,
        stored: StoredArrays,
        open_terms: Callable[[LabelCounts, StoredArrays], SignedSum],
    ) -> None:
        """Take a table in segments and a sketch, which must have counted the same examples."""
        self.sketch_, self.exact_ = self._clone_tiers()
        self.sketch_.restore_inside(self, all_labels, stored.part("sketch"))
        self.exact_.open(self.sites, self.seed, self.declared)
        self.exact_.restore_terms(all_labels, stored.part("exact"), open_terms)
        self._check_counted(self.exact_.terms.empties)

    def _check_counted(self, empties: tuple[LabelCounts, ...]) -> None:
        """Refuse a sketch that has not counted the examples of the table.

        At each site it must have counted, of each label, those that hold a token there.
        """
        label_counts = self.count_labels()
        totals = zip(self.sketch_.site_totals(), empties, strict=True)
        for k, (counted, empty) in enumerate(totals):
            expected = label_counts.counts - empty.counts_for(label_counts.labels)
            if not np.array_equal(counted, expected):
                raise ValueError(
                    f"its sketch has not counted the examples of its table at site {k}"
                )

    def count_labels(self) -> LabelCounts:
        """Return the labels that have examples, and how many."""
        return self.exact_.count_labels()

    def state_arrays(self) -> dict[str, Array]:
        """Return the arrays of both tiers."""
        exact = {f"exact.{name}": array for name, array in self.exact_.state_arrays().items()}
        return {**self.companion_arrays(), **exact}

    @property
    def nbytes(self) -> int:
        """Size of the canonical form in bytes, without names; in a folder, of rows and entries."""
        version = self.now()
        if version.segmented is None:
            return super().nbytes
        sketch_bytes = sum(array.nbytes for array in version.companion_arrays().values())
        return version.exact_.nbytes + sketch_bytes


class TieredTables(Compiled):
    """Both tiers, read-only: the sketch where it can prove the winner, else the exact table."""

    has_bounds = True
    has_rows = True
    is_exact = True

    def __init__(self, sketch: HashedTables, exact: SparseCounts) -> None:
        super().__init__(exact.frame, sketch.row_width)
        self._sketch = sketch
        self._exact = exact

    def scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the exact weighted counts."""
        return self._exact.scores(contexts, weights)

    def site_counts(self, contexts: Contexts) -> Floats:
        """Return the exact rows of counts."""
        return self._exact.site_counts(contexts)

    def has_seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it where it is compared: 1 or 0."""
        return self._exact.has_seen(tokens)

    def with_rule(self, rule: RowRule) -> Ranker:
        """Return what ranks labels by this rule, from the exact table: a sketch proves none."""
        return self._exact.with_rule(rule)

    def with_shared_weights(
        self, smoothing: tuple[float, ...], weights: Floats, rule: Callable[[], RowRule]
    ) -> Ranker:
        """Return what ranks by a rule whose weights all labels share, from the exact table."""
        return self._exact.with_shared_weights(smoothing, weights, rule)

    def winners(self, contexts: Contexts, weights: Floats, divisor: Divisor) -> Ints:
        """Return the exact winner of each context.

        The exact table is read only where the sketch has no proof.
        """
        answers = self._sketch.winners(contexts, weights, divisor)
        unproven = np.flatnonzero(~self._sketch.proven(contexts, weights, divisor, answers))
        if len(unproven):
            answers[unproven] = self._exact.winners(contexts[unproven], weights, divisor)
        return answers

    def restrict(self, contexts: Contexts, *, with_histogram: bool = False) -> TieredTables:
        """Return a reader, in memory, that answers these contexts the same.

        See `SparseCounts.restrict`.
        """
        return TieredTables(
            self._sketch, self._exact.restrict(contexts, with_histogram=with_histogram)
        )

    def tensors(self) -> dict[str, Array]:
        """Return the arrays that prediction needs."""
        tiers = (("sketch", self._sketch.tensors()), ("exact", self._exact.tensors()))
        return {f"{tier}.{name}": array for tier, arrays in tiers for name, array in arrays.items()}

    def pack(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return what `from_packed` needs: the arrays and descriptions of both tiers."""
        sketch_arrays, about_sketch = self._sketch.pack()
        exact_arrays, about_exact = self._exact.pack()
        arrays = {f"sketch.{name}": array for name, array in sketch_arrays.items()}
        arrays |= {f"exact.{name}": array for name, array in exact_arrays.items()}
        return arrays, {"key": about_sketch["key"], "sketch": about_sketch, "exact": about_exact}

    @classmethod
    def from_packed(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,
    ) -> TieredTables:
        """Return the compiled form with these arrays, checked: undo `pack`."""
        about_sketch = description.get("sketch")
        about_exact = description.get("exact")
        if not isinstance(about_sketch, dict) or not isinstance(about_exact, dict):
            raise ValueError("the tiers are not described")
        if about_sketch.get("key") != description.get("key"):
            raise ValueError("the tiers are not described")
        return cls(
            HashedTables.from_packed(frame, stored.part("sketch"), about_sketch, key),
            SparseCounts.from_packed(frame, stored.part("exact"), about_exact),
        )
