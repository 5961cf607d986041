r"""The hashed memory: small tables of integer counts, and answers that can be proven.

At every site a feature (a token, or a tuple of tokens) has a row of label counts: one of its own if
it is *reserved*, or the row of the bucket it hashes to, which it shares. A collision only adds, so
a bucket's row is an upper bound on each of its features' counts. Labels have columns of their own:
there is no interference between them. The state is the tables and the reserved list; there is no
codebook and no vocabulary.

With B buckets and :math:`M_c` the sum of label c's column over them, a bucket's count has mean
:math:`N_c + (M_c - N_c)/B` over the hash, so

.. math:: \widehat N_c = \frac{B\,T_c - M_c}{B - 1}

is unbiased: subtracting one centring row a site undoes the collisions on average. Scores are
fixed-point numbers, in quarters of a count, so that sums are exact in any order and on any machine.

The layout (sites, seed, key, number of buckets, reserved features) is settled before the first
example: by `reserve`, or by the first `add`. States of one layout add, subtract and compare to the
byte. Forgetting examples does not change the layout: which features are reserved stays as it is.

The windows of a stream are counted by the compiled loops, in space that does not grow
(`StreamCounter`). The loops are told for every token which label's column it counts in as a target,
or -1. A table of all cells is filled and added to the memory when a new label appears or at the
end.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hammemo import _native
from hammemo._arrays.integers import narrow, sum_by_key
from hammemo._versions import cached_property
from hammemo.memories.base import Memory
from hammemo.memories.errors import NotStoredError, never_stored
from hammemo.memories.hashed.layout import (
    LoopContexts,
    RowLayout,
    TableCells,
    one_if_equal,
    per_group,
    per_site,
)
from hammemo.memories.hashed.readers import HashedTables
from hammemo.memories.hashed.reserved import (
    Reserved,
    most_frequent,
    read_reserved,
    reserve_nothing,
    site_groups,
)
from hammemo.memories.hashed.site_counts import SiteTable, Tables, read_table
from hammemo.memories.label_counts import LabelCounts
from hammemo.memories.secret_keys import SecretKey, check_secret, secret_digest
from hammemo.tokens.hashing import hash_numbers, number_key
from hammemo.tokens.vocabulary import Vocabulary, check_integers, factorize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.memories.hashed.raw_rows import PreviousTable
    from hammemo.tokens.contexts import Contexts, Examples
    from hammemo.tokens.stream_blocks import Block

_MAX_EXAMPLES = 2**31
"""Examples from which on a counter's 32-bit cells could overflow with the next block."""


def block_labels(block: Block) -> Vocabulary:
    """Return the distinct targets of a block."""
    return factorize(block.tokens[block.targets()])[0]


class StreamCounter:
    """Counts of every cell for a fixed set of labels; targets outside it are left out."""

    def __init__(self, layout: RowLayout, labels: Vocabulary) -> None:
        self.labels = labels
        self._layout = layout
        self._cells = layout.cells(max(len(labels), 1))
        self._totals = np.zeros(len(labels), np.int64)

    @property
    def is_full(self) -> bool:
        """Whether a cell could overflow soon."""
        return int(self._totals.sum()) > _MAX_EXAMPLES

    def knows(self, labels: Vocabulary) -> bool:
        """Return whether all of these labels are counted."""
        return labels is self.labels or bool((self.labels.find(labels) >= 0).all())

    def add(self, block: Block) -> None:
        """Count the windows of a block."""
        tokens = block.tokens
        if tokens.dtype.kind in "iub":
            tokens = check_integers(tokens)
        if tokens.dtype.kind == "i":
            source, columns = self._integers(tokens)
        else:
            source, columns = self._others(tokens)
        mask = np.full(len(columns), -1, np.int32)
        targets = block.targets()
        mask[targets] = columns[targets]
        self._layout.compiled.count_stream(
            tokens=source.tokens,
            hashes=source.hashes,
            places=source.places,
            columns=mask,
            cells=self._cells,
        )
        self._totals += np.bincount(mask[mask >= 0], minlength=len(self._totals))

    def label_counts(self) -> LabelCounts:
        """Return how many examples each label has; those with none are left out."""
        return LabelCounts(self.labels.keep(self._totals > 0), self._totals[self._totals > 0])

    def collect_cells(self) -> list[TableCells]:
        """Return for each site the cells that are not zero."""
        return self._layout.collect_cells(self._cells)

    def _integers(self, tokens: Array) -> tuple[LoopContexts, NDArray[np.int32]]:
        """Return integers as the loops take them, and the column of each, -1 for none."""
        members = np.empty(len(tokens), np.int32)
        tokens = np.ascontiguousarray(tokens)
        finder, columns = self._integer_labels
        finder.find(tokens, members)
        return LoopContexts(tokens, None, None), columns[members]

    @cached_property
    def _integer_labels(self) -> tuple[Any, NDArray[np.int32]]:
        """The integer labels as a set to look tokens up in, and the column of each member.

        The last column, for what is no member, is -1. There is no key, whatever the layout has: no
        two integers have one hash then, so that nothing is mistaken.
        """
        seed = self._layout.seed
        words = hash_numbers(self.labels.ints.view(np.uint64), seed)
        # integers come first in a vocabulary: the column is the rank among them
        order = np.argsort(words)
        finder = _native.Finder(words[order], number_key(seed), False)
        return finder, np.append(order, -1).astype(np.int32)

    def _others(self, tokens: Array) -> tuple[LoopContexts, NDArray[np.int32]]:
        """Return tokens as the loops take them, and the column of each, -1 for none."""
        vocabulary, ranks = factorize(tokens)
        columns = np.append(self.labels.find(vocabulary), -1).astype(np.int32)
        hashes, places = self._layout.vocabulary_source(vocabulary)
        return LoopContexts(ranks, hashes, places), columns[ranks]


Self = TypeVar("Self", bound="Hashed")

DENSE_ROW_LABELS = 4096
"""Labels up to which a dense row for every bucket is small."""


class Hashed(Memory):
    """Counts in hashed buckets, with reserved rows for the most frequent features.

    Parameters
    ----------
    buckets : int or sequence of int
        Number of shared rows: one number for every site, or one per site.
    reserved : int or sequence of int
        How many features of a site, the most frequent ones, have a row of their own: for every
        site, or one number for each. Sites of one position share one list, as long as the largest
        number among them.
    key : bytes, optional
        A secret. Without it, an attacker who chooses tokens can make them collide; pass one for
        tokens of strangers.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.memories import Hashed
    >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
    >>> clf = MemoryClassifier(memory=Hashed(buckets=64, reserved=8), vote="sum").fit(X, y)
    >>> clf.class_scores([["a", "c"]]), clf.certify([["a", "c"]])
    (array([[1.5, 0.5]]), array([ True]))
    """

    key = SecretKey()
    secret = "key"

    _rows: RowLayout | None
    _tables: Tables
    _counts: LabelCounts
    previous_tables: PreviousTable | None = None

    has_exact_rows = False

    def __init__(
        self,
        buckets: int | Sequence[int] = 2048,
        reserved: int | Sequence[int] = 1024,
        key: bytes | None = None,
    ) -> None:
        self.buckets = buckets
        self.reserved = reserved
        self.key = key

    def reserve(self, examples: Examples) -> None:
        """Settle the layout: give the most frequent features of these examples rows of their own.

        All sites of one position share one list: the tokens that are most frequent at all of them
        together. Ties are broken by hash.
        """
        self.apply_edit(lambda memory: memory.reserve_rows(examples))

    def reserve_rows(self, examples: Examples) -> None:
        """Give the most frequent tokens of examples rows of their own."""
        if self._rows is not None:
            raise ValueError("The layout is already fixed: open() the memory again to start over.")
        reserved = most_frequent(
            examples, self.sites, seed=self.seed, key=self.key, numbers=self._reserved_numbers
        )
        self._settle(reserved)

    def update(self, examples: Examples, sign: int) -> None:
        """Add examples, or remove them; `NotStoredError` where a count would become negative.

        The first examples settle the layout if `reserve` has not.
        """
        if len(examples) == 1 and self._update_one(examples, sign):
            return
        if sign < 0:
            self._remove(examples)
        elif len(examples):  # else the layout stays open
            if self._rows is None:
                self.reserve_rows(examples)
            counts = self._counts.plus(LabelCounts(examples.labels, examples.label_counts()))
            self._give_more_columns(counts.labels)
            self._tables = self._tables.plus(self._count_cells(examples))
            self._counts = counts

    def _update_one(self, examples: Examples, sign: int) -> bool:
        """Do what `update` does for one example whose label stays; or return False."""
        rank = int(self._columns.find(examples.labels)[0])
        count = sign * int(examples.multiplicity[0])
        counts = self._counts.plus_at(rank, count) if rank >= 0 else None
        if counts is None or self._rows is None:  # a new label, or the last example of one
            return False
        rows: list[int] = self._rows.find_rows(examples.contexts)[0].tolist()
        column = int(self._tables.columns[rank])
        if sign < 0 and not self._tables.leaves(rows, column, -count, int(counts.counts[rank])):
            raise never_stored()
        self._tables = self._tables.plus_one(rows, column, count)
        self._counts = counts
        self.forgot_unchecked |= sign < 0
        return True

    def _remove(self, examples: Examples) -> None:
        """Remove examples, or refuse where a count would become negative."""
        counts = self._counts.plus(LabelCounts(examples.labels, examples.label_counts()), sign=-1)
        if not self._tables.sites:  # nothing is stored, and nothing is to be removed
            return
        cells = self._count_cells(examples)
        if not self._tables.covers(cells, self._list_examples_left(counts)):
            raise never_stored()
        negative = [TableCells(rows, columns, -totals) for rows, columns, totals in cells]
        self._tables = self._tables.plus(negative)
        self._give_columns(counts.labels)
        self._counts = counts
        self.forgot_unchecked |= len(examples) > 0

    def update_from_blocks(self, blocks: Iterable[Block], labels: Vocabulary | None = None) -> None:
        """Add the windows of a stream; the first block settles the layout if nothing else has."""
        counter: StreamCounter | None = None
        for block in blocks:
            if self._rows is None:
                self.reserve_rows(block.examples())
            assert self._rows is not None
            if self._rows.compiled is None:
                super().update_from_blocks([block], labels)
                continue
            new_labels = block_labels(block) if labels is None else labels
            if counter is None or counter.is_full or not counter.knows(new_labels):
                self._add_stream_counts(counter)
                if labels is None:
                    new_labels = self._columns.union(new_labels)
                counter = StreamCounter(self._rows, new_labels)
            counter.add(block)
        self._add_stream_counts(counter)

    def _add_stream_counts(self, counter: StreamCounter | None) -> None:
        """Add what a stream's counter holds."""
        if counter is None:
            return
        counts = self._counts.plus(counter.label_counts())
        self._give_more_columns(counts.labels)
        # A label without examples has no column: its rank is -1, and it has no cells either.
        columns = np.append(self._tables.columns, -1)[self._columns.find(counter.labels)]
        cells = [
            TableCells(rows, columns[labels], n) for rows, labels, n in counter.collect_cells()
        ]
        self._tables = self._tables.plus(cells)
        self._counts = counts

    def compile(
        self,
        form: str | None = None,
        vocabulary: Vocabulary | None = None,  # noqa: ARG002
        threads: int = 1,
    ) -> HashedTables:
        """Return the ``"table"`` of fixed-point rows; a vocabulary is not needed."""
        if form not in (None, "table"):
            raise ValueError(f"form={form!r} is not known: Hashed() compiles to 'table'.")
        return self._make_reader(threads)

    @property
    def is_compiled(self) -> bool:
        """Whether the layout is settled and compiled loops work, so that threads can share it."""
        return self._rows is not None and self._rows.compiled is not None

    def keeps_rows(self) -> bool:
        """Return whether its readers have rows of counts: the class says it, so none is made."""
        return HashedTables.has_rows

    def make_reader(self) -> HashedTables:
        """Return the tables as they are now."""
        return self._make_reader()

    def snapshot(self: Self) -> Self:
        """Return a memory of its own that holds this version, and can reuse its compiled table."""
        copy = super().snapshot()
        reader = self.known_reader
        if isinstance(reader, HashedTables):
            copy.previous_tables = reader.latest()
        return copy

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "previous_tables": None}  # computed again when needed

    def empty_like(self) -> Hashed:
        """Return a memory of the same layout, reserved features included, with nothing stored."""
        fresh: Hashed = super().empty_like()
        if self._rows is not None:
            fresh._settle(self._rows.reserved)
        return fresh

    def layout(self) -> dict[str, Any]:
        """Return what must agree for two states to be added; of a secret key, only a digest."""
        return {
            **super().layout(),
            "seed": self.seed,
            "key": secret_digest(self.key),
            "buckets": one_if_equal(self._bucket_numbers),
            "reserved": None if self._rows is None else self._rows.reserved.digest(),
        }

    def rows(self, contexts: Contexts) -> Ints:
        """Return the row of each site's table that each context reads, -1 for none.

        Reserved rows come first, then buckets.

        Shapes
        ------
        returned : (m, S)
        """
        if self._rows is None:
            raise ValueError("The layout is still open: store an example or call reserve() first.")
        return self._rows.rows(contexts)

    def clear(self) -> None:
        """Check the numbers and hold nothing; the layout is open where rows are to be reserved."""
        self.check_parameters(self.sites)
        self._rows = None
        self.previous_tables = None
        self._tables = _EMPTY
        self._counts = LabelCounts()
        if not any(self._reserved_numbers):  # nothing is left to choose
            self._settle(reserve_nothing(self.sites))

    def check_parameters(self, sites: Sites) -> None:
        """Refuse numbers and a key that cannot be those of a memory of these sites."""
        super().check_parameters(sites)
        _check_numbers("buckets", self.buckets, 1, len(sites.positions))
        _check_numbers("reserved", self.reserved, 0, len(sites.positions))
        check_secret(self.key)

    def _settle(self, reserved: Reserved) -> None:
        """Fix the layout, with these features in rows of their own and nothing stored."""
        self._rows = RowLayout(
            sites=self.sites,
            seed=self.seed,
            key=self.key,
            buckets=self.buckets,
            reserved=reserved,
        )
        sizes = enumerate(self._bucket_numbers)
        tables = tuple(SiteTable.empty(len(self._rows.own(k)), number) for k, number in sizes)
        self._tables = Tables(tables, _EMPTY.columns)

    def _count_cells(self, examples: Examples) -> list[TableCells]:
        """Return how often a batch counts in each cell, for each site: only cells that it touches.

        All labels of the batch must have a column.
        """
        if self._rows is None:
            return []
        label_columns = self._tables.columns[self._columns.find(examples.labels)]
        columns = label_columns[examples.label_ranks]
        # Compiled loops count in an array of all cells, which pays if the batch touches one in 8 or
        # so. Its counts have 32 bits.
        n_cells = self._rows.first_rows[-1] * self._tables.width
        touches_many = len(examples) * len(self._tables.sites) * 8 > n_cells
        fits = int(examples.multiplicity.sum()) < 2**32
        if touches_many and fits and self._rows.compiled is not None:
            return self._count_all_cells(self._rows, examples, columns)

        # Otherwise, number the cells row by row, and sum over equal numbers.
        width = max(self._tables.width, 1)
        rows = self._rows.find_rows(examples.contexts)
        cells = []
        for table, site_rows in zip(self._tables.sites, rows.T, strict=True):
            has_row = site_rows >= 0  # an example without a token at the site has none
            numbers = site_rows[has_row] * width + columns[has_row]
            numbers, totals = sum_by_key(
                numbers, examples.multiplicity[has_row], table.n_rows * width
            )
            cell_rows, cell_columns = np.divmod(numbers, width)
            cells.append(TableCells(cell_rows, cell_columns, totals))
        return cells

    def _count_all_cells(
        self, layout: RowLayout, examples: Examples, columns: Ints
    ) -> list[TableCells]:
        """Return what `_count_cells` does, by compiled loops over an array of all cells."""
        cells = layout.cells(self._tables.width)
        multiplicity = None
        if not (examples.multiplicity == 1).all():
            multiplicity = examples.multiplicity.astype(np.uint32)
        source = layout.source(examples.contexts)
        layout.compiled.count(
            tokens=source.tokens,
            hashes=source.hashes,
            places=source.places,
            columns=columns.astype(np.int32),
            multiplicity=multiplicity,
            cells=cells,
        )
        return layout.collect_cells(cells)

    def _list_examples_left(self, counts: LabelCounts) -> Ints:
        """Return the examples of each column's label in `counts`; none for spare columns."""
        examples_left = np.zeros(self._tables.width, np.int64)
        ranks = counts.labels.find(self._columns)
        label_counts = np.append(counts.counts, 0)  # rank -1, a label that is gone, reads the end
        examples_left[self._tables.columns] = label_counts[ranks]
        return examples_left

    @property
    def _bucket_numbers(self) -> tuple[int, ...]:
        return per_site(self.buckets, len(self.sites.positions))

    @property
    def _reserved_numbers(self) -> list[int]:
        """How many features each group of sites reserves."""
        numbers = per_site(self.reserved, len(self.sites.positions))
        return per_group(numbers, site_groups(self.sites))

    @property
    def _columns(self) -> Vocabulary:
        """The labels that have a column, in the order of `Tables.columns`."""
        return self._counts.labels

    def _give_more_columns(self, labels: Vocabulary) -> None:
        """Do what `_give_columns` does, and warn once where that takes much memory."""
        if len(labels) > DENSE_ROW_LABELS >= len(self._columns):
            warnings.warn(
                f"{len(labels)} labels need a column in every bucket. "
                f"Above {DENSE_ROW_LABELS} labels, memory=Exact() is usually smaller.",
                stacklevel=4,
            )
        self._give_columns(labels)

    def _give_columns(self, labels: Vocabulary) -> None:
        """Make `labels` those that have a column.

        Labels that had one keep it, and its counts. Labels that lose theirs have no counts left.
        The caller sets `_counts` afterwards: here they only say which labels have columns.
        """
        if labels is self._columns or labels == self._columns or not self._tables.sites:
            return
        self._tables = self._tables.place(self._columns.find(labels))
        self._counts = LabelCounts(labels, np.zeros(len(labels), np.int64))

    def list_undecided(self) -> frozenset[str]:
        """Return ``reserved`` while no example has settled which features are reserved."""
        return frozenset({"reserved"}) if self._rows is None else frozenset()

    def add_state(self, other: Hashed, sign: int) -> None:
        """Add the tables of another memory, or subtract them."""
        counts = self._counts.plus(other._counts, sign)
        if self._rows is None and other._rows is not None and sign > 0:
            self._settle(other._rows.reserved)
        if not self._tables.sites or not other._tables.sites:
            return  # one of the layouts is still open: nothing is stored there
        if sign > 0:
            self._give_more_columns(counts.labels)
        columns = self._tables.columns[self._columns.find(other._columns)]
        if sign < 0:
            examples_left = self._list_examples_left(counts)
            if not self._tables.covers_tables(other._tables, columns, examples_left):
                raise NotStoredError(
                    "The other memory is not part of this one: a count would become negative. "
                    "Nothing was changed."
                )
        self._tables = self._tables.merge(other._tables, columns, sign)
        self._give_columns(counts.labels)
        self._counts = counts
        self.forgot_unchecked |= sign < 0

    def restore_arrays(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        """Take the tables and the reserved features of a state."""
        self.clear()
        counts = all_labels.positive()
        if self._rows is None and "own.0" not in stored and not len(counts.labels):
            return  # the layout was still open
        reserved = read_reserved(
            stored, self.sites, seed=self.seed, key=self.key, most=self._reserved_numbers
        )
        tables = []
        for k, group in enumerate(site_groups(self.sites)):
            n_reserved = len(reserved.hashes[group])
            n_buckets = self._bucket_numbers[k]
            tables.append(read_table(stored, k, n_reserved, n_buckets, all_labels=all_labels))
        self._settle(reserved)
        self._tables = Tables(tuple(tables), np.arange(len(counts.labels)))
        self._counts = counts

    def count_labels(self) -> LabelCounts:
        """Return the labels that have examples, and how many."""
        return self._counts

    def site_totals(self) -> Ints:
        """Return how many examples of each label hold a token at each site: (S, L)."""
        if not self._tables.sites:
            return np.zeros((len(self.sites.positions), 0), np.int64)
        return self._tables.totals[:, self._tables.columns]

    def _make_reader(self, threads: int = 1) -> HashedTables:
        """Return a reader of the tables as they are now."""
        layout = self._rows
        if layout is None:  # nothing is stored: every layout answers the same
            layout = RowLayout(
                sites=self.sites,
                seed=self.seed,
                key=self.key,
                buckets=self.buckets,
                reserved=reserve_nothing(self.sites),
            )
        frame = self.frame()
        tables = self._tables
        if not tables.sites:
            sites = tuple(SiteTable.empty(0, number) for number in self._bucket_numbers)
            tables = Tables(sites, _EMPTY.columns)
        return HashedTables(
            layout=layout,
            tables=tables,
            source=self._source(frame.labels),
            frame=frame,
            threads=threads,
            previous=self.previous_tables,
        )

    def _source(self, labels: Vocabulary) -> Ints:
        """Return the column of each of these labels, -1 for those that have none."""
        if labels is self._columns:
            return self._tables.columns
        return np.append(self._tables.columns, -1)[self._columns.find(labels)]

    def state_arrays(self) -> dict[str, Array]:
        """Return the tables and the reserved features."""
        source = self._source(self.labels)
        state: dict[str, Array] = {}
        for k, table in enumerate(self._tables.sites):
            for name, array in (("own", table.own), ("shared", table.shared)):
                rows = np.zeros((len(array), len(source)), array.dtype)
                array.copy_to(rows, source)
                state[f"{name}.{k}"] = narrow(rows)
        if self._rows is not None:
            state |= self._rows.reserved.arrays()
        return state


_EMPTY = Tables((), np.empty(0, np.int64))


def _check_numbers(name: str, value: Any, least: int, n_sites: int) -> None:
    """Refuse what is neither a whole number nor one for each site."""
    numbers = [value] if isinstance(value, (int, np.integer)) else value
    if not isinstance(numbers, (Sequence, np.ndarray)) or isinstance(numbers, str):
        raise ValueError(
            f"{name}={value!r} is not a whole number of at least {least}, "
            "nor a list with one for each site."
        )
    if any(
        not isinstance(number, (int, np.integer)) or not least <= number < 2**31
        for number in numbers
    ):
        raise ValueError(
            f"{name}={value!r} is out of range: use whole numbers of at least {least}, "
            "below 2^31, one for each site."
        )
    if numbers is value and len(value) != n_sites:
        raise ValueError(
            f"{name}={value!r} has {len(value)} entries, but the kernel has {n_sites} sites: "
            "give one each."
        )
