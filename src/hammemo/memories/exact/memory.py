r"""The exact memory: the count table itself, the measure of all sketches.

What is stored is a sum of signed terms (:mod:`hammemo.memories.exact.sum`): tables in memory, a
live table, or the files of a folder. How it is kept changes nothing that can be seen: the state is
the sum, in canonical form.

To make a live table costs as much as some tens of small streams in bulk, so a few of these are
learned in bulk first. Without the compiled code everything is done in bulk.

Each site without a position that has a table (:mod:`hammemo.kernels.free_sites`) is an exact memory
of its own inside, which counts derived examples.

`InSegments` is what `Exact` and a memory around it have in common: one table of exact counts, which
may lie in the files of a folder, and perhaps more beside it, which is small and stays in memory.
The files hold the rows of the table; all else of the state is in the head of the folder. What
writes, reads or learns a folder asks for the table and for what is beside it, and need not know
which memory this is.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

import numpy as np

from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.integers import row_pieces
from hammemo._arrays.tensor_files import Spec, file_order, file_start
from hammemo.kernels.free_sites import ONE_TOKEN, derive_examples, sum_pairs
from hammemo.memories.base import Memory
from hammemo.memories.exact.reader import DenseCounts, SparseCounts, read_free_frame
from hammemo.memories.exact.segments.digest import SumState
from hammemo.memories.exact.sum import MAX_EXAMPLES_BY_ROW, MIN_TIMES_LARGER, SignedSum
from hammemo.memories.exact.table import CountTable, holds_trees, table_of_trees
from hammemo.memories.label_counts import LabelCounts
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hammemo._arrays.types import Array, Ints
    from hammemo.features.cells import Cells
    from hammemo.kernels.sites import FreeSite, Sites
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.stream_blocks import Block

Self = TypeVar("Self", bound="InSegments")

SMALL_STREAMS_IN_BULK: Final = 16
"""How many small streams, one after another, are learned in bulk before the table is made live."""


class InSegments(Memory):
    """Base class of memories whose exact table may lie in segments."""

    table_prefix: ClassVar[str] = ""
    """How the names of the arrays of the table begin in the state."""

    def table(self) -> CountTable:
        """Return the exact counts of all that is stored, in memory."""
        return self.now().terms.total

    @property
    def companion(self) -> Memory | None:
        """What is kept beside the table: a memory of the same examples, or None."""
        return None

    @abstractmethod
    def companion_arrays(self) -> dict[str, Array]:
        """Return the state beside the labels and the table, under the names that it has there."""

    @abstractmethod
    def set_terms(self, stored: SignedSum, companion: Memory | None = None) -> None:
        """Replace all that is stored by a table in segments and what is beside it."""

    @abstractmethod
    def with_empty_table(self: Self) -> Self:
        """Return a memory with an empty table, and all that is stored beside it."""

    @abstractmethod
    def restore_terms(
        self,
        all_labels: LabelCounts,
        stored: StoredArrays,
        open_terms: Callable[[LabelCounts, StoredArrays], SignedSum],
    ) -> None:
        """Take a state whose table lies in segments; `open_terms` as in `restore_in_segments`."""

    @property
    @abstractmethod
    def terms(self) -> SignedSum:
        """The table as a sum of terms."""

    @property
    def segmented(self) -> SignedSum | None:
        """The table as a sum of terms, if it lies in a folder."""
        terms = self.terms
        return terms if terms.in_folder else None

    def state_digest(self) -> str:
        """Return BLAKE2b-256 of `state_bytes`.

        `state_bytes` is one safetensors file. Of a table in segments it may be too large for the
        memory, so it is hashed piece by piece: first the header, which needs only types and shapes,
        and then the arrays in the order of the file.
        """
        version = self.now()
        if version.segmented is None:
            return super().state_digest()
        prefix = self.table_prefix
        head_arrays = head_state(version, {})
        table = SumState(version.segmented, version.labels)
        specs = {name: Spec(array.dtype, array.shape) for name, array in head_arrays.items()}
        for name, spec in table.specs().items():
            specs[f"{prefix}{name}"] = spec
        layout = json.dumps(version.layout())
        digest = hashlib.blake2b(file_start(specs, {"layout": layout}), digest_size=32)
        for name in file_order(specs):
            pieces: Iterable[Array]
            if name in head_arrays:
                pieces = [head_arrays[name]]
            else:
                pieces = table.pieces(name.removeprefix(prefix))
            for piece in pieces:
                digest.update(np.ascontiguousarray(piece, specs[name].dtype).data)
        return digest.hexdigest()


class Exact(InSegments):
    """Exact, sparse counts of every (site, token, label); the size grows with the distinct entries.

    It compiles to ``"sparse"`` (the default) or ``"dense"``: one 32-bit count for every position,
    token of the vocabulary and label, the layout of the paper's exact baseline.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.memories import Exact
    >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
    >>> clf = MemoryClassifier(memory=Exact(), vote="sum").fit(X, y)
    >>> clf.class_scores([["a", "c"]])
    array([[1.5, 0.5]])
    """

    keeps_free_sites = True
    signed_sum: SignedSum
    free_tables: tuple[Exact, ...] = ()
    """The tables of the sites without a position."""
    _small_streams: int = 0
    """How many small streams were learned one after another, with no larger one since. It is not
    part of the state: it only chooses the faster way, see `update_from_blocks`."""

    def set_terms(self, stored: SignedSum, companion: Memory | None = None) -> None:
        """Replace the table by one in segments.

        The sites without a position keep theirs: those tables are never in segments.
        """
        if companion is not None:
            raise ValueError(
                f"An exact memory keeps nothing beside its table, and {companion!r} was given."
            )
        self.apply_edit(lambda memory: setattr(memory, "signed_sum", stored))

    @property
    def terms(self) -> SignedSum:
        """The table as a sum of terms."""
        return self.signed_sum

    def with_empty_table(self) -> Exact:
        """Return a memory with an empty table; what sites without a position have counted stays."""
        version = self.snapshot()
        version.signed_sum = SignedSum.from_table(CountTable.empty(self.sites))
        return version

    def update(self, examples: Examples, sign: int) -> None:
        """Add examples or remove them; `NotStoredError` says that a count would be negative."""

        def update_free(inner: Exact, site: FreeSite) -> None:
            inner.update(sum_pairs(derive_examples(examples, site)), sign)

        self._change_free(update_free)
        if self._takes_rows(len(examples)):
            self.signed_sum = self.signed_sum.edit_rows(examples, sign)
        else:
            table = CountTable.from_examples(examples, self.sites)
            self.signed_sum = self.signed_sum.edit_in_bulk(table, sign)

    def update_cells(
        self, cells: Cells, examples: Examples, sign: int, *, tree_counts: Ints | None = None
    ) -> None:
        """Add rows with numbers, or remove them.

        Cells of trees are counted at the leaves, for all rows at once. A table of the leaves costs
        as much as the trees are large, though, which is too much for few rows: these are edited row
        by row.

        Parameters
        ----------
        cells : Cells
        examples : Examples
            The rows, whose cells are counted.
        sign : int
            1 or -1.
        tree_counts : ndarray of int64, optional
            The counts of the cells of trees, where the caller has counted them already.
        """
        if not holds_trees(cells, self.sites):
            super().update_cells(cells, examples, sign)
            return
        n = len(examples)
        is_few = self._takes_rows(n) or n <= self.signed_sum.n_examples // MIN_TIMES_LARGER
        if not is_few:
            table = table_of_trees(cells, examples, self.sites, tree_counts)
            self.signed_sum = self.signed_sum.edit_in_bulk(table, sign)
            return
        # in pieces that bound the memory needed: a row has many cells
        for piece in row_pieces(n, cells.h):
            rows = examples.rows(np.arange(n)[piece]).with_used_labels()
            self.signed_sum = self.signed_sum.edit_rows(cells.replace_rows(rows), sign)

    def _takes_rows(self, n_examples: int) -> bool:
        """Return whether this many examples are edited row by row."""
        return self.signed_sum.takes_rows(n_examples)

    def update_one(self, tokens: Sequence[Any], label: Any, by: int) -> None:
        """Add one example `by` times or, below zero, remove it: in microseconds."""
        if not self.free_tables:
            self.signed_sum = self.signed_sum.edit_one(tokens, label, by)
        else:
            super().update_one(tokens, label, by)

    def update_from_blocks(self, blocks: Iterable[Block], labels: Vocabulary | None = None) -> None:
        """Add the windows of a stream in bulk, or row by row where that is faster.

        It is where a block is small beside a live table. To make a table live costs as much as some
        tens of small streams in bulk, so that it pays only where many of these follow one another:
        they are counted across calls.
        """
        sites = self.sites.without_head()
        for block in blocks:
            n = len(block.targets())
            if n <= MAX_EXAMPLES_BY_ROW:
                self._small_streams += 1
            else:
                self._small_streams = 0
            if self._learns_windows_by_row(n):
                super().update_from_blocks([block], labels)
                continue
            examples = block.examples(sites.h)
            if labels is not None:
                examples = examples.only(labels)
            self._change_free(partial(_count_derived, examples))
            table = replace(CountTable.from_examples(examples, sites), sites=self.sites)
            self.signed_sum = self.signed_sum.edit_in_bulk(table, 1)

    def _learns_windows_by_row(self, n: int) -> bool:
        """Return whether n windows of a stream are learned row by row."""
        if self.signed_sum.in_folder or not self._takes_rows(n):
            return False
        return self.signed_sum.is_live or self._small_streams > SMALL_STREAMS_IN_BULK

    def _change_free(self, change: Callable[[Exact, FreeSite], None]) -> None:
        """Change the tables of free sites: each in a new version, which replaces the old."""
        changed = []
        for inner, site in zip(self.free_tables, self.sites.free_with_table, strict=True):
            version = inner.snapshot()
            change(version, site)
            changed.append(version)
        self.free_tables = tuple(changed)

    def reader(self) -> Reader:
        """Return what is stored now, for answering: a version that later edits do not change."""
        # `now` shares the attributes of this memory. So what follows is kept: the reader, and the
        # live table, if a reader has made one since, in place of the table that it was made of.
        version = self.now()
        version.signed_sum = version.signed_sum.keep_once()
        # The same for the tables of sites without a position: `make_reader`, which asks for their
        # readers, runs once for a version.
        for inner in version.free_tables:
            inner.reader()
        return super(Exact, version).reader()

    def make_reader(self) -> SparseCounts:
        """Return what answers from the counts; those of files are read from the disk as needed."""
        reader = SparseCounts(self.signed_sum, self.declared)
        reader.free = tuple(cast("SparseCounts", inner.reader()) for inner in self.free_tables)
        return reader

    def static_reader(self) -> Reader:
        """Return a reader of the table as it is, without making a live table of it."""
        version = self.now()
        if version.signed_sum.is_live or version.signed_sum.in_folder:
            return version.reader()
        reader = SparseCounts(version.signed_sum, version.declared, static=True)
        reader.free = tuple(
            cast("SparseCounts", inner.static_reader()) for inner in version.free_tables
        )
        return reader

    def compile(
        self,
        form: str | None = None,
        vocabulary: Vocabulary | None = None,
        threads: int = 1,  # noqa: ARG002
    ) -> SparseCounts | DenseCounts:
        """Return the counts as a ``"sparse"`` or a ``"dense"`` table.

        The dense one has rows for `vocabulary`.
        """
        if form in (None, "sparse"):
            return self.now().make_reader()
        if form != "dense":
            raise ValueError(
                f"form={form!r} is not known: Exact() compiles to 'sparse' or 'dense'."
            )
        if self.sites.free:
            raise ValueError("A dense table has no sites without a position: compile to 'sparse'.")
        return DenseCounts.from_table(self.table(), self.frame(), vocabulary)

    def clear(self) -> None:
        """Hold nothing."""
        self.signed_sum = SignedSum.from_table(CountTable.empty(self.sites))
        self.free_tables = tuple(
            Exact().open(ONE_TOKEN, self.seed) for _ in self.sites.free_with_table
        )

    def restore_arrays(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        """Take a state: labels with their counts, and the arrays that `state_arrays` returned.

        Trusted arrays are mapped from a file. They stay there, and are read when needed.
        """
        # Declared labels are among `all_labels`, and the table has only those with examples.
        table = CountTable.from_arrays(self.sites, all_labels, stored).without_idle_labels()
        self.signed_sum = SignedSum.from_table(table, on_disk=stored.trusted)
        self._restore_free(stored)

    def restore_terms(
        self,
        all_labels: LabelCounts,
        stored: StoredArrays,
        open_terms: Callable[[LabelCounts, StoredArrays], SignedSum],
    ) -> None:
        """Take a state whose table lies in segments."""
        self.signed_sum = open_terms(all_labels, stored)
        self._restore_free(stored)

    def _restore_free(self, stored: StoredArrays) -> None:
        """Take the tables of the sites without a position."""
        free_tables = []
        for k in range(len(self.sites.free_with_table)):
            inner = Exact()
            inner.restore_free_table(stored.part(f"free.{k}"), self.seed)
            free_tables.append(inner)
        self.free_tables = tuple(free_tables)

    def restore_free_table(self, stored: StoredArrays, seed: int) -> None:
        """Take the state of the table of a site without a position, which names its own labels."""
        frame = read_free_frame(stored)
        self.sites = ONE_TOKEN
        self.seed = seed
        self.declared = Vocabulary()
        self.restore_arrays(LabelCounts(frame.labels, frame.label_counts), stored)

    def add_state(self, other: Exact, sign: int) -> None:
        """Add the counts of another exact memory, or subtract them."""
        other_tables = dict(zip(self.sites.free_with_table, other.free_tables, strict=True))
        self._change_free(lambda inner, site: inner.add_state(other_tables[site], sign))
        self.signed_sum = self.signed_sum.plus(other.signed_sum, sign)

    def count_labels(self) -> LabelCounts:
        """Return the labels that have examples, and how many, without adding up the rows."""
        return self.signed_sum.label_counts

    def find_labels(self) -> Vocabulary:
        """Return the labels that have examples, without counting all where that is possible."""
        return self.signed_sum.labels

    def state_arrays(self) -> dict[str, Array]:
        """Return the canonical arrays of the table, and those of the sites without a position."""
        return {**self.table().arrays_for(self.labels), **self.companion_arrays()}

    def companion_arrays(self) -> dict[str, Array]:
        """Return the canonical arrays of the sites without a position."""
        return {
            f"free.{k}.{name}": array
            for k, inner in enumerate(self.free_tables)
            for name, array in inner.state().items()
        }

    @property
    def nbytes(self) -> int:
        """Size of the canonical form in bytes, without names; in a folder, of rows and entries."""
        stored = self.signed_sum
        if not stored.in_folder:
            return super().nbytes
        return stored.nbytes + sum(inner.nbytes for inner in self.free_tables)


def head_state(memory: InSegments, table: Mapping[str, Array]) -> dict[str, Array]:
    """Return the state with other arrays in place of the table: what a head holds."""
    version = memory.now()
    named = {f"{version.table_prefix}{name}": array for name, array in table.items()}
    return {**version.frame().arrays(), **version.companion_arrays(), **named}


def restore_in_segments(
    memory: InSegments,
    state: Mapping[str, Array],
    sites: Sites,
    *,
    seed: int,
    declared: Array,
    open_terms: Callable[[LabelCounts, StoredArrays], SignedSum],
) -> None:
    """Let a memory start with a table in segments and what `head_state` returned, checked.

    Parameters
    ----------
    memory : InSegments
    state : mapping from names to arrays
        The arrays of the head.
    sites, seed, declared
        As in `Memory.restore`.
    open_terms : callable
        From the labels with their counts, and the head's arrays of the table, to the table in
        segments.
    """

    def take(memory: InSegments, all_labels: LabelCounts, stored: StoredArrays) -> None:
        memory.restore_terms(all_labels, stored, open_terms)

    memory.restore_stored(StoredArrays(state), sites, seed, declared, restore_arrays=take)


def _count_derived(examples: Examples, inner: Exact, site: FreeSite) -> None:
    """Add to the table of a site without a position, in bulk."""
    table = CountTable.from_examples(derive_examples(examples, site), inner.sites)
    inner.signed_sum = inner.signed_sum.edit_in_bulk(table, 1)
