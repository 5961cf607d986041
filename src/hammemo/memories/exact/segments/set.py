"""Segments with a common numbering of tokens and labels: what queries read rows from.

Queries name tokens and labels by their ranks among those of all segments. A row is looked for in the segments whose
first tokens may include its own, and added up over these. That is done by compiled code (``src/native/segments``), in
the mapped files themselves; it says which pages are not checked yet, and is called again when they are. For very long
tuples NumPy does the same (`_added`).
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
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Bools, Floats, Ints
    from hammemo._native import Extra
    from hammemo.kernels.sites import Sites
    from hammemo.memories.exact.segments.segment import Segment

_MAX_WORDS: Final = 64
"""Longer tuples are left to NumPy."""

_MAX_NAMES: Final = 2**31


class SignedSegment(NamedTuple):
    """A segment that is added or, with sign -1, subtracted; `about` is what the head of its folder says of it."""

    segment: Segment
    sign: int
    about: Any = None


class Columns(NamedTuple):
    """Where the labels of a set of segments go: the column of each, -1 for none, and how many columns there are.

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
        return tuple(View(self.vocabulary, self.labels, segment, sign) for segment, sign, _ in self.segments)

    @cached_property
    def _compiled(self) -> _native.SegmentTable | None:
        """What reads the segments, which are prepared when they are first needed; None where NumPy must."""
        most_words = max((segment.most_words for segment, *_ in self.segments), default=1)
        if max(len(self.vocabulary), len(self.labels)) >= _MAX_NAMES or most_words > _MAX_WORDS:
            return None
        ends = np.array([view.ends or (2**62, -1) for view in self._views], np.int64).reshape(-1, 2)
        firsts, lasts = np.ascontiguousarray(ends.T)
        signs = np.array([sign for _, sign, _ in self.segments], np.int64)
        return _native.SegmentTable(
            h=self.sites.h,
            positions=list(self.sites.positions),
            n_tokens=len(self.vocabulary),
            n_labels=len(self.labels),
            firsts=firsts,
            lasts=lasts,
            signs=signs,
        )

    @property
    def is_compiled(self) -> bool:
        """Whether `winners` and `sums` are there."""
        return self._compiled is not None

    def columns_in(self, labels: Vocabulary) -> Columns:
        """Return where the labels of the segments are among others."""
        found = labels.find(self.labels)
        same = len(found) == len(labels) and bool((found == np.arange(len(found))).all())
        return Columns(None if same else found.astype(np.int32), len(labels))

    def winners(self, ranks: Ints, weights: Floats, extras: list[Extra], columns: Columns, divisor: Floats) -> Ints:
        """Return the column of the highest weighted sum over `divisor` of each context, the first one among equals.

        Shapes
        ------
        ranks : (m, h), of tokens among those of the segments, -1 for none; weights : (S,); divisor : (1,) or (L,);
        returned : (m,)
        """
        table, out = self._compiled, np.empty(len(ranks), np.int64)
        assert table is not None
        self._until_complete(
            lambda: table.winners(
                tokens=ranks,
                weights=weights,
                extras=extras,
                columns=columns.map,
                n_columns=columns.n,
                divisor=divisor,
                out=out,
            )
        )
        return out

    def sums(self, ranks: Ints, weights: Floats, extras: list[Extra], columns: Columns) -> Floats:
        """Return the weighted sums over sites of the counts, added in the order of the sites: (m, L)."""
        table, out = self._compiled, np.empty((len(ranks), columns.n))
        assert table is not None
        self._until_complete(
            lambda: table.sums(tokens=ranks, weights=weights, extras=extras, columns=columns.map, out=out)
        )
        return out

    def counts(self, ranks: Ints, labels: Ints) -> Ints:
        """Return the count of one label in the row that each site of each context reads.

        Shapes
        ------
        ranks : (m, h); labels : (m,), ranks among those of the segments, -1 for none; returned : (m, S)
        """
        table, out = self._compiled, np.empty((len(ranks), len(self.sites.positions)), np.int64)
        assert table is not None
        self._until_complete(lambda: table.counts(ranks, labels, out))
        return out

    def site_rows(self, site: int, tuples: Ints, columns: Columns, extras: list[Extra] | None = None) -> SiteRows:
        """Return the rows of tuples of ranks, added up, columns ascending in each; a tuple without a row has length 0.

        `extras` are entries on top of the segments, of each tuple; only compiled code takes them.

        Shapes
        ------
        tuples : (r, l), -1 for a token that no segment has
        """
        table, extras = self._compiled, extras or []
        if table is None:
            assert not extras
            return self._added(site, tuples, columns)
        tuples = np.ascontiguousarray(tuples)
        read: Any = ()

        def ask() -> Ints:
            nonlocal read
            missing, *read = table.read(
                site=site, tuples=tuples, extras=extras, columns=columns.map, n_columns=columns.n
            )
            return missing

        self._until_complete(ask)
        return SiteRows(tuples, *read)

    def _until_complete(self, ask: Callable[[], Ints]) -> None:
        """Ask until nothing is missing: prepare segments, and check pages in the order of the files."""
        while len(missing := ask()):
            for number in np.unique(missing[:, 0]).tolist():
                _, first, stop = missing[missing[:, 0] == number].T
                if first.min() < 0:
                    self._prepare(number)
                else:
                    self.segments[number].segment.check(first, stop)

    def _prepare(self, number: int) -> None:
        table, view = self._compiled, self._views[number]
        assert table is not None
        labels = self.labels.find(view.segment.labels)
        view.segment.prepare(table, number, view.own_ranks, labels.astype(np.int32))

    def _added(self, site: int, tuples: Ints, columns: Columns) -> SiteRows:
        """Return what `site_rows` does: the definition, and what compiled code is tested against."""
        pieces = [_no_entries()]
        for view in self._views:
            ends = view.ends
            if ends is None:
                continue
            asked = np.flatnonzero((tuples[:, 0] >= ends[0]) & (tuples[:, 0] <= ends[1]))
            own = view.segment.find(site, view.own_ranks[tuples[asked]].astype(np.int64))
            asked, own = asked[own >= 0], own[own >= 0]
            order = np.argsort(own, kind="stable")  # in the order of the file
            starts, stops = view.segment.spans(site, own[order])
            lengths, labels, counts = view.segment.entries(starts, stops)
            pieces.append((np.repeat(asked[order], lengths), view.labels[labels], view.sign * counts))
        rows, names, counts = (np.concatenate(arrays).astype(np.int64) for arrays in zip(*pieces, strict=True))
        if columns.map is not None:
            names = columns.map[names].astype(np.int64)
            rows, names, counts = rows[names >= 0], names[names >= 0], counts[names >= 0]
        keys, counts = sum_by_key(rows * columns.n + names, counts, len(tuples) * columns.n)
        rows, names = np.divmod(keys[counts > 0], max(columns.n, 1))
        return SiteRows(tuples, np.bincount(rows, minlength=len(tuples)), names, counts[counts > 0])


class View(Cached):
    """A segment as a table sees it: which ranks its tokens have there, and which labels.

    The maps are made when they are first needed, in the narrowest width: there is one for each segment.
    """

    def __init__(self, vocabulary: Vocabulary, labels: Vocabulary, segment: Segment, sign: int = 1) -> None:
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
        """The common ranks of the least and of the greatest first token; None where there is no row."""
        own = self.segment.ends()
        return None if own is None else (int(self.tokens[own[0]]), int(self.tokens[own[1]]))

    @cached_property
    def own_ranks(self) -> NDArray[np.int32]:
        """The segment's rank of each common token, -1 where it has none; the last entry is for -1."""
        return np.append(self.segment.vocabulary.find(self._vocabulary), -1).astype(np.int32)

    @cached_property
    def _found(self) -> tuple[Array, Bools | None]:
        ranks = self._labels.find(self.segment.labels)
        lost = ranks < 0
        return narrow(np.maximum(ranks, 0)), lost if lost.any() else None

    @property
    def labels(self) -> Array:
        """The common rank of each label of the segment; any for those that are `lost`."""
        return self._found[0]

    @property
    def lost(self) -> Bools | None:
        """Which labels of the segment have no example left, so that their entries add up to nothing; None if none."""
        return self._found[1]

    def meets(self, first: int, stop: int) -> bool:
        """Return whether a row may begin with a token of a rank from `first` to before `stop`."""
        ends = self.ends
        return ends is not None and ends[0] < stop and ends[1] >= first

    def rows_between(self, site: int, first: int, stop: int) -> SiteRows:
        """Return rows of a site with common ranks; labels that have no example left are left out."""
        low, high = np.searchsorted(self.tokens, [first, stop]).tolist()
        rows = self.segment.rows_between(site, low, high)
        tuples, labels = self.tokens[rows.tuples], self.labels[rows.labels].astype(np.int64)
        if self.lost is None:
            return SiteRows(tuples, rows.lengths, labels, rows.counts)
        kept = ~self.lost[rows.labels]
        row_of_entry = np.repeat(np.arange(len(tuples)), rows.lengths)[kept]
        lengths = np.bincount(row_of_entry, minlength=len(tuples))
        return SiteRows(tuples[lengths > 0], lengths[lengths > 0], labels[kept], rows.counts[kept])


def _union(names: Any) -> Vocabulary:
    whole = Vocabulary()
    for one in names:
        whole = whole.union(one)
    return whole


def _no_entries() -> tuple[Ints, Array, Ints]:
    none = np.empty(0, np.int64)
    return none, none, none
