r"""One segment of a table on disk: rows of counts in key order, read where they lie.

A key is a site and the tokens that it compares. Tokens and labels are named by ranks in
vocabularies of the segment's own, so a segment says all that it means by itself. The tokens of a
row are packed into W words, as many to a word as fit: with n tokens in the vocabulary, :math:`((r_1
n + r_2) n + r_3) \dots`, which keeps their order. For site k there are

- ``rows.k``: a record (words, start) for each row, in the order of the words, and one more that
  says where the last row ends. A row's entries go from its start to the start of the next record;
- ``index.k``: the words of the first record of every *block*, so many records that a block and the
  one record after it have no more bytes than a page of memory;
- ``entries``: the rows of all sites one after the other, the labels of a row ascending
  (:mod:`hammemo.memories.exact.segments.entries`): label and count side by side, in the narrowest
  widths, or packed in bits. A start counts entries or, of packed rows, bytes.

Once the index is in memory, a row that is looked for takes one block of records, which lies on two
pages at most, and its entries, which lie in one range of bytes. `touch` is told of both before they
are read: who opened the file checks them there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.integers import narrow
from hammemo._versions import Cached, cached_property
from hammemo.memories.exact.segments.entries import SiteRows, entry_arrays, read_entries
from hammemo.memories.label_counts import LabelCounts
from hammemo.tokens.contexts import MAX_EXAMPLES
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Bools, Ints
    from hammemo._native import SegmentTable
    from hammemo.kernels.sites import Sites
    from hammemo.memories.exact.segments.entries import StoredEntries
    from hammemo.memories.exact.table import CountTable

PAGE: Final = 4096
"""Bytes of a page of memory, and of what is checked at once."""

_MAX_LOOPED_ROWS: Final = 32
"""Rows up to which each is looked for by itself, which is faster than all at once."""


class PageCheck(Protocol):
    """Checks the pages of a mapped file before they are read.

    It is called with the rows of an array that are read next: from `first` to before `stop`, for
    each of them.
    """

    data: NDArray[np.uint8]
    """The mapped file."""

    checked: Bools
    """Which of its pages need not be checked any more."""

    def __call__(self, array: Array, first: Ints, stop: Ints) -> None:
        """Check the pages that have these rows, or raise an error."""

    def check(self, first: Ints, stop: Ints) -> None:
        """Check the pages of these ranges, or raise an error."""


class Segment(Cached):
    """Rows of counts, cut out of a table by a range of keys, or a table of its own.

    Parameters
    ----------
    sites : Sites
    arrays : mapping from names to arrays
        As `segment_arrays` returns them, memory-mapped or not.
    touch : callable, optional
        See `PageCheck`.
    opener : callable, optional
        Opens the same segment again: how it is pickled.
    name : str
        What errors call it.
    """

    def __init__(
        self,
        sites: Sites,
        arrays: Mapping[str, Array],
        touch: PageCheck | None = None,
        opener: Callable[[], Segment] | None = None,
        name: str = "the segment",
    ) -> None:
        self.sites = sites
        self.name = name
        self._touch = touch
        self._opener = opener
        self.arrays = arrays
        stored = self._stored = StoredArrays(arrays)
        self._rows = []
        self._index = []
        self._plans = []
        names = Vocabulary.from_arrays(stored.part("vocabulary"))
        self.vocabulary = names
        self.labels = Vocabulary.from_arrays(stored.part("labels"))
        for k, site in enumerate(sites.positions):
            plan = Packing(len(names), len(site))
            rows = stored.take(f"rows.{k}", ("uint32", "uint64"), (None, plan.words + 1))
            if not len(rows) or (rows.dtype != np.uint64 and not plan.is_narrow):
                raise ValueError(f"the array rows.{k} has no end, or too narrow a type")
            n_blocks = -(-(len(rows) - 1) // _block(rows))
            index = stored.take(f"index.{k}", rows.dtype.name, (n_blocks, plan.words))
            self._rows.append(rows)
            self._index.append(index)
            self._plans.append(plan)
        self._entries = read_entries(stored, len(self.labels))

    def __reduce__(self) -> Any:
        if self._opener is None:
            return Segment, (self.sites, dict(self.arrays))
        return self._opener, ()

    def __deepcopy__(self, memo: Any) -> Segment:
        return self  # it never changes

    def n_rows(self, site: int) -> int:
        """Return how many rows a site has."""
        return len(self._rows[site]) - 1

    @property
    def n_entries(self) -> int:
        """How many entries there are."""
        return self._entries.n_entries

    @property
    def entry_bytes(self) -> Array:
        """The entries as they lie in the file; a span counts its items."""
        return self._entries.array

    @property
    def nbytes(self) -> int:
        """Bytes of rows and entries."""
        return self._entries.array.nbytes + sum(rows.nbytes for rows in self._rows)

    @property
    def label_counts(self) -> LabelCounts:
        """How many examples each label has.

        That is kept for a table, not for a range of one.
        """
        shape = (len(self.labels),)
        counts = self._stored.multiplicities("label_counts", shape, below=MAX_EXAMPLES)
        return LabelCounts(self.labels, counts.astype(np.int64))

    def prepare(
        self, table: SegmentTable, number: int, ranks: NDArray[np.int32], labels: NDArray[np.int32]
    ) -> None:
        """Let compiled code read the segment as the one of this number, with common ranks."""
        widths = [rows.shape[1] - 1 for rows in self._rows]
        index = [
            words.reshape(-1, width)
            for words, width in zip(self._memory_index, widths, strict=True)
        ]
        touch = self._touch
        file = None
        checked = None
        if touch is not None:
            file = touch.data[: len(touch.checked) * PAGE]
            checked = touch.checked.view(np.uint8)
        table.prepare(
            number=number,
            name=self.name,
            n_own=self._plans[0].n if self._plans else 2,
            records=self._rows,
            index=index,
            blocks=np.array([_block(rows) for rows in self._rows], np.uint64),
            entries=self.arrays["entries"],
            widths=np.array(self.arrays["entry_widths"]),
            ranks=ranks,
            labels=labels,
            file=file,
            checked=checked,
        )

    def check(self, first: Ints, stop: Ints) -> None:
        """Check pages of the file, or raise an error that names it."""
        if self._touch is not None:
            self._touch.check(first, stop)

    @property
    def most_words(self) -> int:
        """How many words the longest tuples are packed into."""
        return max((plan.words for plan in self._plans), default=1)

    @cached_property
    def _memory_index(self) -> list[Array]:
        """The index of each site, in memory: its pages are not looked for again."""
        for index in self._index:
            self._check_pages(index, np.zeros(1, np.int64), np.full(1, len(index)))
        return [np.array(index[:, 0] if index.shape[1] == 1 else index) for index in self._index]

    def ends(self) -> tuple[int, int] | None:
        """Return the least and the greatest rank of a first token; None where there is no row."""
        sites = [k for k in range(len(self._rows)) if self.n_rows(k)]
        if not sites:
            return None
        first = min(self._first_token(k, 0) for k in sites)
        last = max(self._first_token(k, self.n_rows(k) - 1) for k in sites)
        if not 0 <= first <= last < len(self.vocabulary):
            raise self._wrong("a row names a token that does not exist")
        return first, last

    def _first_token(self, site: int, row: int) -> int:
        return int(self._tuples(site, slice(row, row + 1))[0, 0])

    def first_tokens(self, site: int) -> tuple[Ints, Ints]:
        """Return the rank of each row's first token, and how many bytes its entries take."""
        rows = self._rows[site]
        self._check_pages(rows, np.zeros(1, np.int64), np.full(1, len(rows)))
        starts = rows[:, -1].astype(np.int64)
        self._check_spans(starts[:-1], starts[1:])
        tokens = self._plans[site].unpack(rows[:-1, :-1])[:, 0]
        return tokens, np.diff(starts) * self._entries.array.itemsize

    def find(self, site: int, tuples: Ints) -> Ints:
        """Return the row of each tuple of ranks, -1 where there is none.

        Shapes
        ------
        tuples : (m, l), -1 for a token that the segment does not have; returned : (m,)
        """
        rows = self._rows[site]
        plan = self._plans[site]
        found_rows = np.full(len(tuples), -1, np.int64)
        complete = np.flatnonzero((tuples >= 0).all(axis=1))
        if not len(complete) or len(rows) == 1:
            return found_rows
        words = plan.pack(tuples[complete], rows.dtype)
        place = self._place(site, words)
        is_there = place < len(rows) - 1
        is_there[is_there] = (rows[place[is_there], : plan.words] == words[is_there]).all(axis=1)
        found_rows[complete] = np.where(is_there, place, -1)
        return found_rows

    def _place(self, site: int, words: Array) -> Ints:
        """Return how many rows of a site come before each of these words."""
        rows = self._rows[site]
        index = self._memory_index[site]
        size = _block(rows)
        n_words = words.shape[1]
        if n_words == 1:
            block = np.searchsorted(index, words[:, 0], side="right") - 1
        else:
            none = np.zeros(len(words), np.int64)
            all_blocks = np.full(len(words), len(index))
            block = _bisect(index, words, none, all_blocks, right=True) - 1
        low = np.maximum(block, 0) * size
        high = np.minimum(low + size, len(rows) - 1)
        self._check_pages(rows, low, high + 1)
        if n_words == 1 and len(words) <= _MAX_LOOPED_ROWS:
            blocks = zip(low.tolist(), high.tolist(), words[:, 0], strict=True)
            return np.array(
                [a + int(np.searchsorted(rows[a:b, 0], word)) for a, b, word in blocks], np.int64
            )
        return _bisect(rows, words, low, high, right=False)

    def spans(self, site: int, rows: Ints) -> tuple[Ints, Ints]:
        """Return where the entries of rows start and stop, checked; nothing for row -1."""
        records = self._rows[site]
        if rows.max(initial=-1) < 0:
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        places = np.maximum(rows, 0)
        starts = records[places, -1].astype(np.int64)
        stops = records[places + 1, -1].astype(np.int64)
        stops[rows < 0] = starts[rows < 0]
        self._check_spans(starts, stops)
        return starts, stops

    def _check_spans(self, starts: Ints, stops: Ints) -> None:
        if ((starts < 0) | (stops < starts)).any() or self._entries.are_outside(starts, stops):
            raise self._wrong("a row lies outside its entries")

    def entries(self, starts: Ints, stops: Ints) -> StoredEntries:
        """Return the rows of these spans with their entries, one after the other."""
        has_entries = stops > starts
        self._check_pages(self._entries.array, starts[has_entries], stops[has_entries])
        try:
            return self._entries.read(starts, stops)
        except ValueError as error:
            raise self._wrong(str(error)) from None

    def counts_of(self, starts: Ints, stops: Ints, labels: Ints) -> Ints:
        """Return the count of one label in each span of entries, 0 where it is not there.

        Label -1 is none.
        """
        # each row is read once; an empty span may start where another row does
        span_keys = 2 * starts + (stops > starts)
        _, first, row = np.unique(span_keys, return_index=True, return_inverse=True)
        read = self.entries(starts[first], stops[first])
        n_labels = len(self.labels)
        keys = np.repeat(np.arange(len(first)), read.lengths) * n_labels + read.labels
        if (np.diff(keys) <= 0).any():
            raise self._wrong("the labels of a row do not ascend")
        keys_of_labels = row * n_labels + labels
        place = np.searchsorted(keys, keys_of_labels)
        is_there = (labels >= 0) & (np.append(keys, -1)[place] == keys_of_labels)
        return np.where(is_there, np.append(read.counts, 0)[place], 0)

    def counts_at(self, table: CountTable) -> Ints:
        """Return the count here of each entry of a table."""
        tokens = self.vocabulary.find(table.vocabulary)
        columns = self.labels.find(table.label_counts.labels)
        counts = np.empty(table.n_entries, np.int64)
        for site, (tuples, rows, entries) in enumerate(table.site_slices()):
            row_of_entry = np.repeat(np.arange(len(tuples)), table.row_lengths[rows])
            low, high = self.spans(site, self.find(site, tokens[tuples.rows()]))
            labels = columns[table.entry_labels[entries]]
            counts[entries] = self.counts_of(low[row_of_entry], high[row_of_entry], labels)
        return counts

    def rows_between(self, site: int, first: int, stop: int) -> SiteRows:
        """Return the rows of a site whose first token has a rank from `first` to before `stop`."""
        rows = self._rows[site]
        begin = self._edge(site, first)
        end = self._edge(site, stop)
        tuples = self._tuples(site, slice(begin, end))
        self._check_pages(rows, np.array([begin]), np.array([end + 1]))
        starts = rows[begin : end + 1, -1].astype(np.int64)
        self._check_spans(starts[:-1], starts[1:])
        n_tokens = max(len(self.vocabulary), 1)
        if (np.diff(tuples[:, 0]) < 0).any() or tuples.max(initial=0) >= n_tokens:
            raise self._wrong("its rows are not in the order of their keys")
        lengths, labels, counts = self.entries(starts[:-1], starts[1:])
        return SiteRows(tuples, lengths, labels, counts)

    def _edge(self, site: int, rank: int) -> int:
        """Return how many rows of a site begin with a token of a lower rank."""
        rows = self._rows[site]
        if rank <= 0 or len(rows) == 1:
            return 0
        if rank >= len(self.vocabulary):
            return len(rows) - 1
        plan = self._plans[site]
        lowest = np.zeros((1, plan.length), np.int64)
        lowest[0, 0] = rank
        return int(self._place(site, plan.pack(lowest, rows.dtype))[0])

    def _tuples(self, site: int, rows: slice) -> Ints:
        self._check_pages(self._rows[site], np.array([rows.start]), np.array([rows.stop]))
        return self._plans[site].unpack(self._rows[site][rows, :-1])

    def _wrong(self, reason: str) -> ValueError:
        return ValueError(f"{self.name} is damaged: {reason}. Use another copy of it.")

    def _check_pages(self, array: Array, first: Ints, stop: Ints) -> None:
        if self._touch is not None and len(first):
            self._touch(array, first, stop)


class Packing:
    """How tuples of l ranks below n are packed into words.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.memories.exact.segments.segment import Packing
    >>> packing = Packing(1000, 3)
    >>> words = packing.pack(np.array([[1, 2, 3]]), np.uint32)
    >>> words.tolist(), packing.unpack(words).tolist()
    ([[1002003]], [[1, 2, 3]])
    """

    def __init__(self, n: int, length: int) -> None:
        self.n = max(n, 2)
        self.length = length
        self.is_narrow = self.n**length <= 2**32
        fit = length
        while self.n**fit > 2**63:
            fit -= 1
        self.words = -(-length // fit)
        self._cuts = np.array_split(np.arange(length), self.words)

    def pack(self, tuples: Ints, dtype: Any) -> Array:
        """Return the words of each tuple: (m, W)."""
        words = np.empty((len(tuples), self.words), dtype)
        for w, columns in enumerate(self._cuts):
            word = tuples[:, columns[0]].astype(np.int64)
            for column in columns[1:]:
                word = word * self.n + tuples[:, column]
            words[:, w] = word
        return words

    def unpack(self, words: Array) -> Ints:
        """Return the tuples: (m, l)."""
        tuples = np.empty((len(words), self.length), np.int64)
        for w, columns in enumerate(self._cuts):
            word = words[:, w].astype(np.int64)
            for column in columns[:0:-1]:
                word, tuples[:, column] = np.divmod(word, self.n)
            tuples[:, columns[0]] = word
        return tuples


def segment_arrays(
    rows: Sequence[SiteRows],
    vocabulary: Vocabulary,
    labels: Vocabulary,
    *,
    packed: bool | None = False,
) -> dict[str, Array]:
    """Return the arrays of a segment with these rows of each site.

    Rows name tokens and labels by their ranks in `vocabulary` and `labels`.

    Entries are side by side or packed; with None whichever is smaller.
    """
    arrays = {f"vocabulary.{name}": array for name, array in vocabulary.arrays().items()}
    arrays |= {f"labels.{name}": array for name, array in labels.arrays().items()}
    entries, ends = entry_arrays(rows, packed=packed)
    first = 0
    for k, (site, stops) in enumerate(zip(rows, ends, strict=True)):
        plan = Packing(len(vocabulary), site.tuples.shape[1])
        dtype = np.uint32 if plan.is_narrow and len(entries["entries"]) < 2**32 else np.uint64
        records = np.empty((len(site.tuples) + 1, plan.words + 1), dtype)
        records[:-1, :-1] = plan.pack(site.tuples, dtype)
        records[-1, :-1] = np.iinfo(dtype).max
        records[0, -1] = first
        records[1:, -1] = stops
        first = int(records[-1, -1])
        arrays[f"rows.{k}"] = records
        arrays[f"index.{k}"] = np.ascontiguousarray(records[:-1][:: _block(records), :-1])
    return arrays | entries


def table_arrays(table: CountTable, *, packed: bool | None = False) -> dict[str, Array]:
    """Return the arrays of a segment that holds a whole table, with its label counts."""
    rows = list(table.site_rows())
    arrays = segment_arrays(rows, table.vocabulary, table.label_counts.labels, packed=packed)
    return {**arrays, "label_counts": narrow(table.label_counts.counts)}


def arrays_in_use(
    rows: Sequence[SiteRows], vocabulary: Vocabulary, labels: Vocabulary, *, packed: bool | None
) -> dict[str, Array]:
    """Return the arrays of a segment with these rows, and only the names that they use."""
    used_tokens = np.zeros(len(vocabulary), bool)
    used_labels = np.zeros(len(labels), bool)
    for site in rows:
        used_tokens[site.tuples] = True
        used_labels[site.labels] = True
    token_ranks = np.cumsum(used_tokens) - 1
    label_ranks = np.cumsum(used_labels) - 1
    return segment_arrays(
        [site.with_ranks(token_ranks, label_ranks) for site in rows],
        vocabulary.keep(used_tokens),
        labels.keep(used_labels),
        packed=packed,
    )


def _block(rows: Array) -> int:
    """Return how many records a block has: with the record after it, no more bytes than a page."""
    return max(PAGE // int(rows.itemsize * rows.shape[1]) - 1, 1)


def _bisect(records: Array, words: Array, low: Ints, high: Ints, *, right: bool) -> Ints:
    """Return the first place from `low` to `high` whose record is not before the words.

    With `right`, it is the first one whose record is after them.
    """
    low = low.copy()
    high = high.copy()
    while (open_ := np.flatnonzero(low < high)).size:
        middle = (low[open_] + high[open_]) // 2
        record_words = records[middle]
        open_words = words[open_]
        # whether the place is after the middle; the first word decides last
        is_before = np.full(len(open_), right)
        for w in range(words.shape[1] - 1, -1, -1):
            is_less = record_words[:, w] < open_words[:, w]
            is_equal = record_words[:, w] == open_words[:, w]
            is_before = is_less | (is_equal & is_before)
        low[open_] = np.where(is_before, middle + 1, low[open_])
        high[open_] = np.where(is_before, high[open_], middle)
    return low
