"""Segments with a common numbering of tokens and labels: what queries read rows from.

Queries name tokens and labels by their ranks among those of all segments. A row is looked for in
the segments whose first tokens may include its own, and added up over these. That is done by
compiled code (``src/native/segments``), in the mapped files themselves; it says which pages are not
checked yet, and is called again when they are. For very long tuples NumPy does the same
(`_add_in_numpy`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._arrays.integers import narrow, sum_by_key
from hammemo._versions import Cached, cached_property
from hammemo.memories.exact.segments.entries import SiteRows
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Bools, Floats, Ints
    from hammemo._native import Extra
    from hammemo.kernels.sites import Sites
    from hammemo.memories.exact.segments.segment import Segment

_MAX_WORDS: Final = 64
"""Longer tuples are left to NumPy."""

_MAX_NAMES: Final = 2**31
"""More tokens or labels than compiled code numbers with 32 bits are left to NumPy, too."""


class SignedSegment(NamedTuple):
    """A segment that is added or, with sign -1, subtracted.

    `about` is what the head of its folder says of it.
    """

    segment: Segment
    sign: int
    about: Any = None


class SegmentColumns(NamedTuple):
    """Where the labels of a set of segments go: the column of each, -1 for none, of n columns.

    Without a map each label has the column of its rank.
    """

    map: NDArray[np.int32] | None
    n: int


class SegmentSet(Cached):
    """Segments that are added up.

    Parameters
    ----------
    sites : Sites
    segments : sequence of SignedSegment
    """

    def __init__(self, sites: Sites, segments: Sequence[SignedSegment]) -> None:
        self.sites = sites
        self.segments = tuple(segments)

    def __getstate__(self) -> dict[str, Any]:
        return {"sites": self.sites, "segments": self.segments}  # all else is made again

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokens of all segments."""
        return _union(segment.vocabulary for segment, *_ in self.segments)

    @cached_property
    def labels(self) -> Vocabulary:
        """The labels of all segments."""
        return _union(segment.labels for segment, *_ in self.segments)

    @cached_property
    def _views(self) -> tuple[View, ...]:
        return tuple(
            View(self.vocabulary, self.labels, segment, sign) for segment, sign, _ in self.segments
        )

    @cached_property
    def _compiled(self) -> _native.SegmentTable | None:
        """What reads the segments, prepared when they are first needed; None where NumPy must."""
        most_words = max((segment.most_words for segment, *_ in self.segments), default=1)
        if max(len(self.vocabulary), len(self.labels)) >= _MAX_NAMES or most_words > _MAX_WORDS:
            return None
        # a segment without a row has no first token: its range is empty
        ends = np.array([view.ends or (2**62, -1) for view in self._views], np.int64).reshape(-1, 2)
        firsts, lasts = np.ascontiguousarray(ends.T)
        return _native.SegmentTable(
            h=self.sites.h,
            positions=list(self.sites.positions),
            n_tokens=len(self.vocabulary),
            n_labels=len(self.labels),
            firsts=firsts,
            lasts=lasts,
            signs=np.array([sign for _, sign, _ in self.segments], np.int64),
        )

    @property
    def is_compiled(self) -> bool:
        """Whether `winners` and `sums` are there."""
        return self._compiled is not None

    def columns_in(self, labels: Vocabulary) -> SegmentColumns:
        """Return where the labels of the segments are among others."""
        columns = labels.find(self.labels)
        if len(columns) == len(labels) and bool((columns == np.arange(len(columns))).all()):
            return SegmentColumns(None, len(labels))
        return SegmentColumns(columns.astype(np.int32), len(labels))

    def winners(
        self,
        ranks: Ints,
        weights: Floats,
        *,
        extras: list[Extra],
        columns: SegmentColumns,
        divisor: Floats,
    ) -> Ints:
        """Return the column of the highest weighted sum over `divisor` of each context.

        Among equals it is the first one.

        Shapes
        ------
        ranks : (m, h), of tokens among those of the segments, -1 for none; weights : (S,);
        divisor : (1,) or (L,); returned : (m,)
        """
        table = self._compiled
        out = np.empty(len(ranks), np.int64)
        assert table is not None

        def ask() -> Ints:
            return table.winners(
                tokens=ranks,
                weights=weights,
                extras=extras,
                columns=columns.map,
                n_columns=columns.n,
                divisor=divisor,
                out=out,
            )

        self._until_complete(ask)
        return out

    def sums(
        self, ranks: Ints, weights: Floats, extras: list[Extra], columns: SegmentColumns
    ) -> Floats:
        """Return the weighted sums over sites of the counts, in the order of the sites: (m, L)."""
        table = self._compiled
        out = np.empty((len(ranks), columns.n))
        assert table is not None

        def ask() -> Ints:
            return table.sums(
                tokens=ranks, weights=weights, extras=extras, columns=columns.map, out=out
            )

        self._until_complete(ask)
        return out

    def counts(self, ranks: Ints, labels: Ints) -> Ints:
        """Return the count of one label in the row that each site of each context reads.

        Shapes
        ------
        ranks : (m, h); labels : (m,), ranks among those of the segments, -1 for none;
        returned : (m, S)
        """
        table = self._compiled
        out = np.empty((len(ranks), len(self.sites.positions)), np.int64)
        assert table is not None
        self._until_complete(lambda: table.counts(ranks, labels, out))
        return out

    def site_rows(
        self, site: int, tuples: Ints, columns: SegmentColumns, extras: list[Extra] | None = None
    ) -> SiteRows:
        """Return the rows of tuples of ranks, added up, columns ascending in each.

        A tuple without a row has length 0. `extras` are entries on top of the segments, of each
        tuple; only compiled code takes them.

        Shapes
        ------
        tuples : (r, l), -1 for a token that no segment has
        """
        table = self._compiled
        extras = extras or []
        if table is None:
            assert not extras
            return self._add_in_numpy(site, tuples, columns)
        tuples = np.ascontiguousarray(tuples)
        rows: list[Ints] = []  # lengths, labels and counts of the last answer, which is complete

        def ask() -> Ints:
            nonlocal rows
            missing, *rows = table.read(
                site=site,
                tuples=tuples,
                extras=extras,
                columns=columns.map,
                n_columns=columns.n,
            )
            return missing

        self._until_complete(ask)
        lengths, labels, counts = rows
        return SiteRows(tuples, lengths, labels, counts)

    def _until_complete(self, ask: Callable[[], Ints]) -> None:
        """Ask until nothing is missing: prepare segments, and check pages in the files' order."""
        while len(missing := ask()):
            for number in np.unique(missing[:, 0]).tolist():
                _, first, stop = missing[missing[:, 0] == number].T
                if first.min() < 0:
                    self._prepare(number)
                else:
                    self.segments[number].segment.check(first, stop)

    def _prepare(self, number: int) -> None:
        """Let compiled code read one of the segments."""
        table = self._compiled
        view = self._views[number]
        assert table is not None
        labels = self.labels.find(view.segment.labels)
        view.segment.prepare(table, number, view.own_ranks, labels.astype(np.int32))

    def _add_in_numpy(self, site: int, tuples: Ints, columns: SegmentColumns) -> SiteRows:
        """Return what `site_rows` does: the definition that compiled code is tested against."""
        # the tuple, the label and the count of each entry, in the order of the segments
        none = np.empty(0, np.int64)
        rows: list[Array] = [none]
        labels: list[Array] = [none]
        counts: list[Array] = [none]
        for view in self._views:
            ends = view.ends
            if ends is None:
                continue
            inside = np.flatnonzero((tuples[:, 0] >= ends[0]) & (tuples[:, 0] <= ends[1]))
            segment_rows = view.segment.find(site, view.own_ranks[tuples[inside]].astype(np.int64))
            inside = inside[segment_rows >= 0]
            segment_rows = segment_rows[segment_rows >= 0]
            order = np.argsort(segment_rows, kind="stable")  # in the order of the file
            starts, stops = view.segment.spans(site, segment_rows[order])
            entries = view.segment.entries(starts, stops)
            rows.append(np.repeat(inside[order], entries.lengths))
            labels.append(view.labels[entries.labels])
            counts.append(view.sign * entries.counts)
        entry_rows = np.concatenate(rows).astype(np.int64)
        entry_columns = np.concatenate(labels).astype(np.int64)
        entry_counts = np.concatenate(counts).astype(np.int64)
        if columns.map is not None:
            entry_columns = columns.map[entry_columns].astype(np.int64)
            is_kept = entry_columns >= 0
            entry_rows = entry_rows[is_kept]
            entry_columns = entry_columns[is_kept]
            entry_counts = entry_counts[is_kept]
        keys = entry_rows * columns.n + entry_columns
        keys, sums = sum_by_key(keys, entry_counts, len(tuples) * columns.n)
        rows_of_sums, labels_of_sums = np.divmod(keys[sums > 0], max(columns.n, 1))
        lengths = np.bincount(rows_of_sums, minlength=len(tuples))
        return SiteRows(tuples, lengths, labels_of_sums, sums[sums > 0])


class View(Cached):
    """A segment as a table sees it: which ranks its tokens have there, and which labels.

    The maps are made when they are first needed, in the narrowest width: there is one for each
    segment.
    """

    def __init__(
        self, vocabulary: Vocabulary, labels: Vocabulary, segment: Segment, sign: int = 1
    ) -> None:
        self._vocabulary = vocabulary
        self._labels = labels
        self.segment = segment
        self.sign = sign

    @cached_property
    def tokens(self) -> Ints:
        """The common rank of each token of the segment."""
        return self._vocabulary.find(self.segment.vocabulary)

    @cached_property
    def ends(self) -> tuple[int, int] | None:
        """The common ranks of the least and greatest first token; None where there is no row."""
        ends = self.segment.ends()
        if ends is None:
            return None
        first, last = ends
        return int(self.tokens[first]), int(self.tokens[last])

    @cached_property
    def own_ranks(self) -> NDArray[np.int32]:
        """The segment's rank of each common token, -1 where it has none; the last is for -1."""
        return np.append(self.segment.vocabulary.find(self._vocabulary), -1).astype(np.int32)

    @cached_property
    def _label_ranks(self) -> tuple[Array, Bools | None]:
        """The common ranks of labels, and which of them are lost, if any."""
        ranks = self._labels.find(self.segment.labels)
        lost = ranks < 0
        return narrow(np.maximum(ranks, 0)), lost if lost.any() else None

    @property
    def labels(self) -> Array:
        """The common rank of each label of the segment; any for those that are `lost`."""
        return self._label_ranks[0]

    @property
    def lost(self) -> Bools | None:
        """Which labels of the segment have no example left; None if there are none.

        Their entries add up to nothing.
        """
        return self._label_ranks[1]

    def meets(self, first: int, stop: int) -> bool:
        """Return whether a row may begin with a token of a rank from `first` to before `stop`."""
        ends = self.ends
        return ends is not None and ends[0] < stop and ends[1] >= first

    def rows_between(self, site: int, first: int, stop: int) -> SiteRows:
        """Return rows of a site with common ranks, without labels that have no example left."""
        low, high = np.searchsorted(self.tokens, [first, stop]).tolist()
        rows = self.segment.rows_between(site, low, high)
        tuples = self.tokens[rows.tuples]
        labels = self.labels[rows.labels].astype(np.int64)
        if self.lost is None:
            return SiteRows(tuples, rows.lengths, labels, rows.counts)
        kept = ~self.lost[rows.labels]
        row_of_entry = np.repeat(np.arange(len(tuples)), rows.lengths)[kept]
        lengths = np.bincount(row_of_entry, minlength=len(tuples))
        return SiteRows(tuples[lengths > 0], lengths[lengths > 0], labels[kept], rows.counts[kept])


def _union(vocabularies: Iterable[Vocabulary]) -> Vocabulary:
    union = Vocabulary()
    for vocabulary in vocabularies:
        union = union.union(vocabulary)
    return union
