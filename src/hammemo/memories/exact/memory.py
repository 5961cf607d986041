r"""The exact memory: the count table itself, and with it the classifier that all sketches are measured against.

Learning in bulk appends the table of each batch to a short stack of tables of falling size and adds neighbours of
similar size, so that n batches cost O(n log n) and not O(n^2). What is taken back goes to a stack of its own, once the
counts it touches, and only those, have been found large enough; where that stack would pass half the size of the first,
the two become one. Reading adds up both, once for each version of the stacks. This changes nothing that can be seen:
the state is the difference, in canonical form.

Once much is asked, or a few examples are edited, the counts are kept in a live table instead
(:mod:`hammemo.memories.exact.live.live`), which is edited row by row; a large batch goes back to the stacks. To make a
live table costs as much as some tens of small streams in bulk, so a few of these are learnt in bulk first. Without the
compiled code everything is done by the stacks.

A table in parts (:mod:`hammemo.memories.exact.parted`), as a folder holds it, stays in its files; what is learnt and
taken back later lies in memory on top of them.

Each site without a position that has a table (:mod:`hammemo.kernels.free_sites`) is an exact memory of its own inside,
which counts derived examples.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from hammemo._arrays.native import native
from hammemo.kernels.free_sites import ONE_TOKEN, derived_examples, summed_pairs, tabled
from hammemo.memories.exact.in_parts import InParts
from hammemo.memories.exact.live.live import Live
from hammemo.memories.exact.live_reader import LiveCounts
from hammemo.memories.exact.parted import Parted
from hammemo.memories.exact.parted_reader import PartedCounts
from hammemo.memories.exact.readers import DenseCounts, SparseCounts
from hammemo.memories.exact.sparse_rows import free_frame
from hammemo.memories.exact.stacks import MOST_ROW_BY_ROW, Stacks, entries_of, live_for
from hammemo.memories.exact.table import CountTable
from hammemo.memories.label_counts import LabelCounts
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels.sites import FreeSite
    from hammemo.memories.base import Memory
    from hammemo.memories.exact.sparse_rows import ExactReader, RowsReader
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.streams import Block


_FEW: Final = 16
"""So many small streams, one after another, are learnt in bulk before the table is made live."""


class Exact(InParts):
    """Sparse counts of every (site, token, label): no error, and a size that grows with what was seen.

    It compiles to ``"sparse"`` (the default) or ``"dense"``: one 32-bit count for every position, token of the
    vocabulary and label, the layout of the paper's exact baseline.

    Examples
    --------
    >>> from hammemo import Exact, MemoryClassifier
    >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
    >>> clf = MemoryClassifier(memory=Exact(), vote="sum").fit(X, y)
    >>> clf.class_scores([["a", "c"]])
    array([[1.5, 0.5]])
    """

    keeps_free_sites = True
    _stored: Stacks | Live | Parted
    _free: tuple[Exact, ...] = ()
    """The tables of the sites without a position."""
    _small_streams: int = 0
    """How many small streams were learnt one after another."""

    def table(self) -> CountTable:
        """Return the counts of all that is stored."""
        return self._stored.total

    def hold(self, table: CountTable) -> None:
        """Store the examples that a table has counted, in place of all that is stored; it has no free sites."""
        if self.sites.free:
            raise ValueError("A table alone does not hold what sites without a position have counted.")
        self._edited(lambda memory: memory._replace(Stacks.of(table)))

    def hold_parts(self, stored: Parted, beside: Memory | None = None) -> None:
        """Store what a table in parts has counted, in place of all that is stored at sites with positions."""
        if beside is not None:
            raise ValueError(f"An exact memory keeps nothing beside its table, and {beside!r} was given.")
        self._edited(lambda memory: memory._replace(stored))

    def _replace(self, stored: Stacks | Parted) -> None:
        self._stored = stored

    @property
    def parted(self) -> Parted | None:
        """The table in parts, if it is one."""
        stored = self._stored
        return stored if isinstance(stored, Parted) else None

    def without_table(self) -> Exact:
        """Return a memory with an empty table; what sites without a position have counted stays."""
        version = self.snapshot()
        version._stored = Stacks.of(CountTable.empty(self.sites))
        return version

    def update(self, examples: Examples, sign: int) -> None:
        """Add examples, or take them back, or raise `NotStoredError` where a count would become negative."""
        self._change_free(lambda inner, site: inner.update(summed_pairs(derived_examples(examples, site)), sign))
        if isinstance(self._stored, Parted):
            self._stored = self._stored.changed(examples, sign)
            return
        live = self._live_for(len(examples))
        self._stored = (
            self._bulk().changed(CountTable.of(examples, self.sites), sign)
            if live is None
            else live.changed(examples, sign)
        )

    def update_one(self, tokens: Sequence[Any], label: Any, by: int) -> None:
        """Add one example `by` times or, below zero, take it back; in microseconds, whatever is stored."""
        if isinstance(self._stored, Parted) and self._stored.edits_one_by_one and not self._free:
            self._stored = self._stored.changed_by_one(tokens, label, by)
            return
        live = self._live_for(1)
        if live is None or self._free:
            super().update_one(tokens, label, by)
        else:
            self._stored = live.changed_by_one(tokens, label, by)

    def update_from_blocks(self, blocks: Iterable[Block], labels: Vocabulary | None = None) -> None:
        """Add the windows of a stream: in bulk, unless it is small beside a live table, or the next of many small."""
        sites = self.sites.without_head()
        for block in blocks:
            n = len(block.targets())
            self._small_streams = self._small_streams + 1 if n <= MOST_ROW_BY_ROW else 0
            is_edited = isinstance(self._stored, Live) or self._small_streams > _FEW
            if is_edited and self._live_for(n) is not None:
                super().update_from_blocks([block], labels)
                continue
            examples = block.examples(sites.h) if labels is None else block.examples(sites.h).only(labels)
            self._change_free(partial(_count_derived, examples))
            self._stored = self._changed_by(replace(CountTable.of(examples, sites), sites=self.sites), 1)

    def _change_free(self, change: Callable[[Exact, FreeSite], None]) -> None:
        """Change the tables of the sites without a position: each in a version of its own, which replaces the old."""
        changed = []
        for inner, site in zip(self._free, tabled(self.sites), strict=True):
            version = inner.snapshot()
            change(version, site)
            changed.append(version)
        self._free = tuple(changed)

    def _bulk(self) -> Stacks:
        """Return the tables in stacks; a table in parts is none."""
        stored = self._stored
        assert not isinstance(stored, Parted)
        return Stacks.of(stored) if isinstance(stored, Live) else stored

    def _changed_by(self, table: CountTable, sign: int) -> Stacks | Parted:
        """Return what is stored with one more table added or subtracted."""
        stored = self._stored
        return stored.changed_by(table, sign) if isinstance(stored, Parted) else self._bulk().changed(table, sign)

    def _live_for(self, n_examples: int) -> Live | None:
        """Return the live table in which so many examples are to be edited; None where bulk learning is faster."""
        stored = self._stored
        return None if isinstance(stored, Parted) else live_for(stored, n_examples)

    def reader(self) -> Reader:
        """Return what is stored now, for answering: a version that later edits do not change."""
        version = self._now()
        stored = version._stored
        if isinstance(stored, Stacks) and stored.made_live is not None:
            version._stored = stored.live  # the same counts, which are now kept once
        for inner in version._free:
            inner.reader()
        return super(Exact, version).reader()

    def make_reader(self) -> ExactReader:
        """Return what answers from the counts; from those of a mapped file, read from the disk as needed."""
        reader = self._make_reader()
        reader.free = tuple(cast("RowsReader", inner.reader()) for inner in self._free)
        return reader

    def static_reader(self) -> Reader:
        """Return a reader of the table as it is: no live table is made of one that was learnt in bulk."""
        version = self._now()
        stored = version._stored
        if not isinstance(stored, Stacks):
            return version.reader()
        reader = SparseCounts(partial(getattr, stored, "total"), version.frame(), on_disk=stored.on_disk)
        reader.free = tuple(cast("RowsReader", inner.static_reader()) for inner in version._free)
        return reader

    def _make_reader(self) -> SparseCounts | LiveCounts | PartedCounts:
        stored = self._stored
        if isinstance(stored, Parted):
            return PartedCounts(stored, self.sites, self.declared)
        if isinstance(stored, Stacks) and (stored.on_disk or native() is None):
            return SparseCounts(partial(getattr, stored, "total"), self.frame(), on_disk=stored.on_disk)
        return LiveCounts(stored, self.declared)

    def compile(
        self,
        form: str | None = None,
        vocabulary: Vocabulary | None = None,
        threads: int = 1,  # noqa: ARG002
    ) -> ExactReader:
        """Return the counts as a ``"sparse"`` or a ``"dense"`` table; the dense one has rows for `vocabulary`."""
        if form in (None, "sparse"):
            return self._now().make_reader()
        if self.sites.free:
            raise ValueError("A dense table has no sites without a position: compile to 'sparse'.")
        if form == "dense":
            return DenseCounts.of(self.table(), self.frame(), vocabulary)
        raise ValueError(f"form={form!r} is not known: Exact() compiles to 'sparse' or 'dense'.")

    def clear(self) -> None:
        """Hold nothing."""
        table = CountTable.empty(self.sites)
        self._stored = Stacks.of(table)
        self._free = tuple(Exact().open(ONE_TOKEN, self.seed) for _ in tabled(self.sites))

    def restore_arrays(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        """Take a state; one that is mapped from a file stays there, and a query reads what it touches."""
        table = CountTable.from_arrays(self.sites, all_labels, stored).without_idle_labels()
        self._stored = Stacks((table,), (), table.label_counts, on_disk=stored.trusted)
        self._restore_free(stored)

    def restore_around(
        self, all_labels: LabelCounts, stored: StoredArrays, opened: Callable[[LabelCounts, StoredArrays], Parted]
    ) -> None:
        """Take a state whose table lies in parts."""
        self._stored = opened(all_labels, stored)
        self._restore_free(stored)

    def _restore_free(self, stored: StoredArrays) -> None:
        parts = [stored.part(f"free.{k}") for k in range(len(tabled(self.sites)))]
        self._free = tuple(Exact()._restored_inside(part, self.seed) for part in parts)

    def _restored_inside(self, stored: StoredArrays, seed: int) -> Exact:
        """Return the table of a site without a position, which has labels of its own."""
        frame = free_frame(stored)
        self.sites, self.seed, self.declared = ONE_TOKEN, seed, Vocabulary()
        self.restore_arrays(LabelCounts(frame.labels, frame.label_counts), stored)
        return self

    def add_state(self, other: Exact, sign: int) -> None:
        """Add the counts of another exact memory, or subtract them."""
        theirs = dict(zip(tabled(self.sites), other._free, strict=True))
        self._change_free(lambda inner, site: inner.add_state(theirs[site], sign))
        stored, added = self._stored, other._stored
        if isinstance(added, Parted):
            whole = stored if isinstance(stored, Parted) else Parted.of(stored.total)
            self._stored = whole.plus(added, sign)
        else:
            self._stored = self._changed_by(other.table(), sign)

    @property
    def n_entries(self) -> int:
        """How many entries the tables have that are not added up yet: at least as many as there are counts."""
        stored = self._stored
        if isinstance(stored, Parted):
            return stored.n_entries
        return entries_of((stored.total,) if isinstance(stored, Live) else (*stored.added, *stored.removed))

    def observed(self) -> LabelCounts:
        """Return the labels that have examples, and how many: without adding up the stacks, or the rows."""
        return self._stored.label_counts

    def observed_labels(self) -> Vocabulary:
        """Return the labels that have examples: of a live table, or one in parts, without counting all."""
        stored = self._stored
        if isinstance(stored, Parted):
            return stored.labels
        return stored.label_set.labels if isinstance(stored, Live) else stored.label_counts.labels

    def state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the canonical arrays of the table, and those of the sites without a position."""
        return {**self.table().arrays_for(self.labels), **self.beside_arrays()}

    def beside_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the canonical arrays of the sites without a position."""
        named = [(f"free.{k}", inner.state()) for k, inner in enumerate(self._free)]
        return {f"{prefix}.{name}": array for prefix, arrays in named for name, array in arrays.items()}

    @property
    def nbytes(self) -> int:
        """Size of the canonical form in bytes, without the names; of a table in parts, of its rows and entries."""
        stored = self._stored
        if not isinstance(stored, Parted):
            return super().nbytes
        return stored.nbytes + sum(inner.nbytes for inner in self._free)


def _count_derived(examples: Examples, inner: Exact, site: FreeSite) -> None:
    """Add to the table of a site without a position, in bulk."""
    inner._stored = inner._bulk().changed(CountTable.of(derived_examples(examples, site), inner.sites), 1)
