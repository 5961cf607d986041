r"""What answers queries from exact counts: the rows of a sum of tables, or a table with every cell.

.. math:: \texttt{scores}(q, w)_c = \sum_k w_k \, N_{k,c}(q_k)

Sums of whole numbers below 2^53 are exact in float64, so with whole-number weights the scores are
exact.

A site without a position is read as one row (`FreeRows`), for votes that read one row a site. Its
tables have several rows for a context, one for each distinct token among its last places. Added up,
with a larger weight for nearer tokens, they are one: with :math:`d_t` the distance of token t from
the end,

.. math:: n_{k,c}(q) = \sum_{t} N_k(t, c) / d_t

for ``bag`` and ``together``; for ``copy`` label c has :math:`1 / d_c`, and for ``recent`` as many
as there are of it among the last places. The tables hold whole numbers: weights apply when they are
read. In weighted sums a free site has the weight 1; a log-linear vote fits weights to it as to
every other site. All labels are added up: there is no way yet to find the best ones from the top of
such rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo._versions import cached_property
from hammemo.kernels.free_sites import ONE_TOKEN, Places, find_places
from hammemo.kernels.sites import FREE_KINDS, FreeSite, Sites, make_sparse_rows
from hammemo.memories.exact.live.live_rows import ENTRIES_A_CALL, ENTRIES_A_SITE, LiveRows
from hammemo.memories.exact.score_rows import Rows, SharedWeightRule, TableRows, apply_rule
from hammemo.memories.exact.score_table import (
    MAX_DENSE_LABELS,
    DenseRanker,
    RowValues,
    ScoreTable,
    TreeRanker,
    WholeTable,
    dense_values,
    sum_rows,
)
from hammemo.memories.exact.segments.file_rows import FileRows
from hammemo.memories.exact.sum import SignedSum
from hammemo.memories.exact.table import CountTable, holds_trees
from hammemo.memories.label_counts import Frame, LabelCounts
from hammemo.memories.ranker import CompileBudget
from hammemo.memories.reader import Compiled, Reader
from hammemo.memories.row_rules import RowRanker, RowRule
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from scipy import sparse

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.features.additive.label_base import BaseAnswers
    from hammemo.features.cells import Cells
    from hammemo.memories.exact.score_rows import Entries
    from hammemo.memories.ranker import Divisor, Ranker, SingleScores


MOST_SINGLE_VALUES: Final = 2**24
"""Numbers of dense rows that a predictor makes beside a live table: 128 MiB.

A round figure, not the result of a trial: it bounds what a predictor takes beyond its table, and
tables of some million rows stay below it."""


class SparseCounts(Compiled):
    """Answers from one version of the sparse counts.

    A new version is made after every edit, so what takes time waits until it is needed.

    Parameters
    ----------
    stored : SignedSum
    declared : Vocabulary, optional
        Labels that are candidates also without examples.
    static : bool
        Whether the table is read as it is: no live table is made of it.
    """

    has_bounds = True
    has_rows = True
    is_exact = True

    free: tuple[SparseCounts, ...] = ()
    """The readers of the tables of sites without a position."""

    count_histogram: Ints | None = None
    """Of a reader of some rows of a table: how many entries of each site have the counts 0 to 4,
    and more, in all rows.

    Shapes: (S, 6)."""

    known_static_tables: Any = None
    """A cache of the mixture vote: tables for reading single entries."""

    def __init__(
        self, stored: SignedSum, declared: Vocabulary | None = None, *, static: bool = False
    ) -> None:
        self._stored = stored
        self.declared = Vocabulary() if declared is None else declared
        self.sites = stored.sites
        self._static = static or stored.on_disk

    def __getstate__(self) -> dict[str, Any]:
        stored = self.rows.stored
        return {
            "declared": self.declared,
            "sites": self.sites,
            "free": self.free,
            "count_histogram": self.count_histogram,
            "_stored": SignedSum.from_table(stored.total) if stored.is_live else stored,
            "_static": self._static,
        }

    @cached_property
    def labels(self) -> Vocabulary:  # type: ignore[override]
        """Observed and declared labels, in canonical order."""
        return self._stored.labels.union(self.declared)

    @cached_property
    def label_counts(self) -> Ints:  # type: ignore[override]
        """How many examples each label has."""
        return self._stored.label_counts.counts_for(self.labels)

    @property
    def row_width(self) -> int:  # type: ignore[override]
        """How many numbers one query needs where all scores are made."""
        return len(self.labels)

    @property
    def frame(self) -> Frame:  # type: ignore[override]
        """The sites, the labels and their counts."""
        return Frame(self.sites, self.labels, self.label_counts)

    @property
    def table(self) -> CountTable:
        """The canonical table, in memory."""
        return self.rows.stored.total

    @cached_property
    def rows(self) -> Rows:
        """The rows that contexts read."""
        if self._stored.in_folder:
            return FileRows(self._stored, self.labels)
        if self._static:
            return TableRows(self._stored, self.labels, by_batch=self._stored.on_disk)
        return LiveRows(self._stored, self.labels)

    def scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the weighted sum over sites of the counts, added in the order of the sites."""
        return self.rows.scores(contexts, weights)

    def site_counts(self, contexts: Contexts) -> Floats:
        """Return the row of counts that each site of each context reads, else zeros: (m, S, L)."""
        return self.rows.site_counts(contexts)

    def has_seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it where it is compared: 1 or 0."""
        return self.rows.has_seen(tokens).astype(np.int8)

    def winners(self, contexts: Contexts, weights: Floats, divisor: Divisor) -> Ints:
        """Return the column of the highest score over `divisor`, the first one among equals."""
        columns = self.rows.leaders(contexts, weights, divisor, 1) if len(self.labels) else None
        if columns is None:
            return super().winners(contexts, weights, divisor)
        return columns[:, 0]

    def leaders(self, contexts: Contexts, weights: Floats, divisor: Divisor, k: int) -> Ints:
        """Return the columns of the k highest scores over `divisor`, equals in column order."""
        k = min(k, len(self.labels))
        columns = self.rows.leaders(contexts, weights, divisor, k)
        if columns is None:
            return super().leaders(contexts, weights, divisor, k)
        return columns

    def single(self, weights: Floats, divisor: Divisor) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way to answer one context with these weights."""
        return self.rows.single(weights, divisor) if len(self.labels) else None

    def with_rule(self, rule: RowRule) -> Ranker:
        """Return what ranks labels by this function of the rows."""
        return RuleRanker(self.rows, lambda: rule)

    def with_shared_weights(
        self, smoothing: tuple[float, ...], weights: Floats, rule: Callable[[], RowRule]
    ) -> Ranker:
        """Return what ranks by a rule whose weights all labels share.

        Where it can, it answers from the top of the rows.
        """
        return RuleRanker(self.rows, rule, SharedWeightRule(smoothing, weights))

    def restrict(self, contexts: Contexts, *, times: bool = False) -> SparseCounts:
        """Return a reader, in memory, of the rows that these contexts read.

        It answers to them as this one does. With `times` it also says what a mixture must know of
        all rows (`count_histogram`): they are gone through once.
        """
        table = self.rows.table_of(contexts)
        if table is None:
            return self
        reader = SparseCounts(SignedSum.from_table(table), self.declared, static=True)
        reader.free = self.free
        if times:
            histogram = np.zeros((len(self.sites.positions), 6), np.int64)
            for site, rows in self._stored.all_rows():
                histogram[site] += np.bincount(np.minimum(rows.counts, 5), minlength=6)
            reader.count_histogram = histogram
        return reader

    def tensors(self) -> dict[str, Array]:
        """Return the canonical arrays that prediction needs: all but the vocabulary."""
        arrays = self.table.arrays_for(self.labels)
        return {name: array for name, array in arrays.items() if not name.startswith("vocabulary.")}

    def pack(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return what `from_packed` needs: the tables in canonical form, and no description."""
        arrays = self.table.arrays_for(self.labels)
        for k, reader in enumerate(self.free):
            tables, _ = reader.pack()
            free_arrays = {**reader.frame.arrays(), **tables}
            arrays |= {f"free.{k}.{name}": array for name, array in free_arrays.items()}
        return arrays, {}

    @classmethod
    def from_packed(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,  # noqa: ARG003
    ) -> SparseCounts:
        """Return the compiled form with these arrays, checked: undo `pack`."""
        _expect_no_description(description)
        all_labels = LabelCounts(frame.labels, frame.label_counts)
        table = CountTable.from_arrays(frame.sites, all_labels, stored)
        if not stored.trusted:
            table = table.without_idle_labels()
        declared = frame.labels.keep(frame.label_counts == 0)
        reader = cls(SignedSum.from_table(table, on_disk=stored.trusted), declared)
        stored_tables = [stored.part(f"free.{k}") for k in range(len(frame.sites.free_with_table))]
        reader.free = tuple(
            cls.from_packed(free_frame(stored_table), stored_table, {})
            for stored_table in stored_tables
        )
        return reader


class AppliedRule(NamedTuple):
    """What a rule says of rows: gains as sparse as the counts, and the losses of each row."""

    counts: sparse.csr_array
    gains: sparse.csr_array
    losses: Floats


class RuleRanker(RowRanker, DenseRanker):
    """A rule applied to rows: to all of a table once, or to those that each batch reads.

    With few labels rows are dense (:mod:`hammemo.memories.exact.score_table`). With many, entries
    have sparse gains, and a row one loss for each amount of smoothing. Where all labels share the
    weights, the best labels may be found without it, from the top of the rows of a live table; what
    is not sure then, because scores are nearly equal, is decided by the scores of all labels.

    Parameters
    ----------
    rows : Rows
    rule : callable
        Makes the rule.
    shared : SharedWeightRule, optional
        The same rule, where all labels share its weights.
    """

    def __init__(
        self, rows: Rows, rule: Callable[[], RowRule], shared: SharedWeightRule | None = None
    ) -> None:
        # one row a query: only its scores are dense
        super().__init__(rows.site_counts, rule, 1, len(rows.labels))
        self._rows = rows
        self._shared = shared
        self._applied: AppliedRule | None = None
        self._budget: CompileBudget | None = None
        self._has_paid = False
        self._of_cells: tuple[Cells, Ranker] | None = None

    def scores(self, contexts: Contexts) -> Floats:
        """Return the rule's score of each context and label."""
        if self.n_labels > MAX_DENSE_LABELS:
            return self._sparse_scores(contexts)
        if self.pays(len(contexts)):
            return self._table.scores(contexts)
        read = self.read_values(contexts)
        return sum_rows(read.rows, read.values, read.base)

    def pays(self, n_contexts: int) -> bool:
        """Return whether this many contexts more pay for the values of all rows.

        Each call counts its contexts as asked.
        """
        rows = self._rows.whole
        if self._has_paid or rows is None or not self.n_labels:
            return self._has_paid
        if self._budget is None:
            per_context = ENTRIES_A_SITE * len(rows.stored.sites.positions)
            self._budget = CompileBudget(ENTRIES_A_CALL, per_context)
        self._has_paid = self._budget.pays(n_contexts, rows.stored.n_entries)
        self._budget.spend(n_contexts)
        return self._has_paid

    def whole(self) -> WholeTable:
        """Return the values of all rows."""
        rows = self._rows.whole
        assert rows is not None
        table, counts, starts = rows.all_rows()
        return WholeTable(table, dense_values(self._rule, counts, starts), starts, self._rule.base)

    @cached_property
    def _table(self) -> ScoreTable:
        whole_table = self.whole()
        self._has_paid = True
        return ScoreTable(
            whole_table, whole_table.table.sites.h, len(whole_table.table.sites.positions)
        )

    def read_values(self, contexts: Contexts) -> RowValues:
        """Return the rows that contexts read, with their values."""
        rows, counts, starts = self._rows.read(contexts)
        return RowValues(rows, dense_values(self._rule, counts, starts), self._rule.base)

    def for_cells(self, cells: Cells, base: BaseAnswers | None) -> Ranker:
        """Return what ranks rows with numbers; `base` is the vote's.

        It is made once for the cells that were asked for last.
        """
        last = self._of_cells
        if last is not None and last[0] is cells:
            return last[1]
        ranker = super().for_cells(cells, base)
        if self.n_labels <= MAX_DENSE_LABELS and holds_trees(cells, self._rows.stored.sites):
            ranker = TreeRanker(self, cells, base)
        self._of_cells = (cells, ranker)
        return ranker

    def _sparse_scores(self, contexts: Contexts) -> Floats:
        """Return the scores of many labels: sparse gains, and a loss for each row."""
        rows, counts, starts = self._rows.for_rules().read(contexts)
        applied = self._applied
        if (
            applied is None or applied.counts is not counts
        ):  # that of a whole table is always the same
            gains, losses = apply_rule(self._rule, counts, starts)
            applied = self._applied = AppliedRule(counts, gains, losses)
        reads = make_sparse_rows(rows, np.ones(rows.shape[1]), counts.shape[0])
        scores = (reads @ applied.gains).toarray()
        if len(applied.losses):
            scores -= self._sum_losses(rows, applied.losses)
        return np.asarray(scores + self._rule.base)

    def _sum_losses(self, rows: Ints, losses: Floats) -> Floats:
        """Return the weighted losses of each context.

        It is one number where all labels have the same weights. Losses are added one by one, in the
        order of the sites, for every label alike. A product of dense matrices would add in an order
        of its own, other for some columns and sizes: it would break ties, and no other runtime
        could repeat it.

        Shapes
        ------
        rows : (m, S); losses : (r, J); returned : (m, L) or (m, 1)
        """
        read = np.where((rows >= 0)[:, :, None], losses[rows], 0.0)
        n_terms = read.shape[1] * read.shape[2]
        places = np.broadcast_to(np.arange(n_terms), (len(rows), n_terms))
        ordered = make_sparse_rows(places, np.ones(n_terms), n_terms)
        ordered.data = read.ravel()
        return np.asarray(ordered @ self._rule.weights.reshape(n_terms, -1))

    def winners(self, contexts: Contexts) -> Ints:
        """Return the column of the highest score of each context, the first one among equals."""
        columns = self._leading(contexts, 1)
        if columns is None:
            return super().winners(contexts)
        return columns[:, 0]

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest scores, best first, equals in column order."""
        columns = self._leading(contexts, min(k, self.n_labels))
        if columns is None:
            return super().leaders(contexts, k)
        return columns

    def _leading(self, contexts: Contexts, k: int) -> Ints | None:
        """Return the columns of the k best labels from the top of the rows, or None."""
        if self._shared is None:
            return None
        answers = self._rows.leaders_by_rule(contexts, self._shared, k)
        if answers is None:
            return None
        columns, sure = answers
        unsure = np.flatnonzero(~sure)
        if len(unsure):
            columns[unsure] = super().leaders(contexts[unsure], k)
        return columns

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way to answer one context.

        It is by dense rows where they are small, else from the top of the rows. Both give the label
        that has the highest score; dense rows take half the time or less.
        """
        if self._shared is None or self._dense_rows_are_small:
            return self._table.single() if self.can_be_dense else None
        from_top = self._rows.single_by_rule(self._shared)
        if from_top is None and self.can_be_dense:
            return self._table.single()
        return from_top

    @property
    def _dense_rows_are_small(self) -> bool:
        """Whether the values of all rows are small enough to be made for single answers only."""
        if not self.can_be_dense:
            return False
        rows = self._rows.whole
        assert rows is not None
        return rows.n_rows * self.n_labels <= MOST_SINGLE_VALUES

    def single_scores(self) -> SingleScores | None:
        """Return a fast way from one context to its scores."""
        return self._table.single_scores() if self.can_be_dense else None

    @property
    def can_be_dense(self) -> bool:
        """Whether labels are few, and the whole table is in memory."""
        return 0 < self.n_labels <= MAX_DENSE_LABELS and self._rows.whole is not None


class DenseCounts(Compiled):
    """The count table with every cell: 32 bits for each position, known token and label."""

    has_bounds = True
    has_rows = True
    is_exact = True

    def __init__(self, counts: NDArray[np.int32], vocabulary: Vocabulary, frame: Frame) -> None:
        super().__init__(frame, len(frame.labels))
        self.vocabulary = vocabulary
        self._counts = counts

    @classmethod
    def from_table(
        cls, table: CountTable, frame: Frame, vocabulary: Vocabulary | None
    ) -> DenseCounts:
        """Return the dense form of a table, with rows for `vocabulary`."""
        if any(len(site) > 1 for site in frame.sites.positions):
            raise ValueError(
                "A dense table needs sites of one position each: "
                "tuples of tokens have too many values. Use 'sparse'."
            )
        if len(table.entry_counts) and int(table.entry_counts.max()) > np.iinfo(np.int32).max:
            raise ValueError("A count exceeds 32 bits, the width of the dense table. Use 'sparse'.")
        tokens = table.vocabulary if vocabulary is None else vocabulary
        return cls(_dense(table, tokens, frame.labels), tokens, frame)

    def scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the weighted sum over sites of the counts."""
        ranks = contexts.ranks_in(self.vocabulary)
        totals = np.zeros((len(contexts), len(self.labels)))
        for k, (r,) in enumerate(self.sites.positions):
            has_token = ranks[:, r] >= 0
            totals[has_token] += weights[k] * self._counts[k, ranks[has_token, r]]
        return totals

    def site_counts(self, contexts: Contexts) -> Floats:
        """Return the row of counts that each site of each context reads, else zeros: (m, S, L)."""
        ranks = contexts.ranks_in(self.vocabulary)
        read = np.zeros((len(contexts), len(self.sites.positions), len(self.labels)))
        for k, (r,) in enumerate(self.sites.positions):
            has_token = ranks[:, r] >= 0
            read[has_token, k] = self._counts[k, ranks[has_token, r]]
        return read

    def has_seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1 or 0.

        Of a token that the table was not given a row for, nothing is known: -1.
        """
        rank = self.vocabulary.find(tokens)
        occurs = np.append(self._counts.any(axis=(0, 2)).astype(np.int8), np.int8(-1))
        return occurs[rank]

    def tensors(self) -> dict[str, Array]:
        """Return the arrays that prediction needs."""
        return {"counts": self._counts}

    def pack(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return what `from_packed` needs: the table and its vocabulary, and no description."""
        tokens = {f"vocabulary.{name}": array for name, array in self.vocabulary.arrays().items()}
        return {**self.tensors(), **tokens}, {}

    @classmethod
    def from_packed(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,  # noqa: ARG003
    ) -> DenseCounts:
        """Return the compiled form with these arrays, checked: undo `pack`."""
        _expect_no_description(description)
        vocabulary = Vocabulary.from_arrays(stored.part("vocabulary"))
        positions = frame.sites.positions
        shape = (len(positions), len(vocabulary), len(frame.labels))
        counts = stored.take("counts", "int32", shape)
        has_tuples = any(len(site) > 1 for site in positions)
        if has_tuples or (not stored.trusted and counts.size and int(counts.min()) < 0):
            raise ValueError("a dense table has sites of one position each, and no negative count")
        return cls(counts, vocabulary, frame)


def _dense(table: CountTable, vocabulary: Vocabulary, labels: Vocabulary) -> NDArray[np.int32]:
    """Return the counts of a table of single positions, (sites, tokens, labels)."""
    tokens = vocabulary.find(table.vocabulary)
    columns = labels.find(table.label_counts.labels)
    row_tokens = np.concatenate([tokens[rows.rows()[:, 0]] for rows in table.tuples])
    row_sites = np.repeat(np.arange(len(table.tuples)), [len(rows) for rows in table.tuples])
    entry_rows = table.entry_rows()
    has_place = row_tokens[entry_rows] >= 0
    rows = entry_rows[has_place]
    counts = np.zeros((len(table.tuples), len(vocabulary), len(labels)), np.int32)
    places = (row_sites[rows], row_tokens[rows], columns[table.entry_labels[has_place]])
    counts[places] = table.entry_counts[has_place]
    return counts


def free_frame(stored: StoredArrays) -> Frame:
    """Return the labels of the table of a site without a position, checked.

    They are its own, and each has an example.
    """
    frame = Frame.from_arrays(ONE_TOKEN, stored)
    if not frame.label_counts.all():
        raise ValueError("a label of a site without a position has no example")
    return frame


def _expect_no_description(description: dict[str, Any]) -> None:
    """Refuse a description of what needs none."""
    if description:
        raise ValueError(
            f"a count table needs no description, but {next(iter(description))!r} is there"
        )


class FreeRows(Reader):
    """A reader of exact counts with one row more for each site without a position.

    These rows come after those of the sites.

    Parameters
    ----------
    reader : SparseCounts
    sites : Sites
    """

    has_rows = True
    is_exact = True

    def __init__(self, reader: SparseCounts, sites: Sites) -> None:
        super().__init__(reader.frame, reader.row_width * sites.n)
        self.sites = sites
        self._reader = reader

    def scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the weighted sum over all sites of the counts, added in their order."""
        n_positions = len(self.sites.positions)
        scores = np.array(self._reader.scores(contexts, weights[:n_positions]))
        for k, weight in enumerate(weights[n_positions:].tolist()):
            scores += weight * self._free_rows(contexts, k)
        return scores

    def site_counts(self, contexts: Contexts) -> Floats:
        """Return the row that each site of each context reads, else zeros: (m, S, L)."""
        free = [self._free_rows(contexts, k) for k in range(len(self.sites.free))]
        return np.concatenate([self._reader.site_counts(contexts), np.stack(free, axis=1)], axis=1)

    def own_counts(self, contexts: Contexts, columns: Ints) -> Floats:
        """Return what an example has added to the count of its label in the row of each site.

        Shapes
        ------
        columns : (m,), the examples' labels; returned : (m, S)
        """
        counts = np.ones((len(contexts), self.sites.n))
        tokens = self.labels.find(contexts.vocabulary)
        for k, site in enumerate(self.sites.free, len(self.sites.positions)):
            counts[:, k] = 0.0
            if not FREE_KINDS[site.kind]:  # it reads no table, so nothing was added
                continue
            places = find_places(contexts.ranks, site.reach)
            if site.kind == "together":
                # a label is not counted together with itself
                added = 1.0 - (tokens[places.ranks] == columns[places.contexts])
            else:
                added = np.ones(len(places.ranks))
            counts[:, k] = np.bincount(places.contexts, added / places.distances, len(contexts))
        return counts

    def _free_rows(self, contexts: Contexts, k: int) -> Floats:
        """Return the rows of a free site: (m, L)."""
        site = self.sites.free[k]
        if site.kind == "recent":
            return self._recent_rows(contexts, site)
        m = len(contexts)
        n = len(self.labels)
        if site.kind == "copy":
            places = find_places(contexts.ranks, site.reach)
            columns = self.labels.find(contexts.vocabulary)[places.ranks]
            is_label = columns >= 0
            cells = places.contexts[is_label] * n + columns[is_label]
            values = 1.0 / places.distances[is_label]
        else:
            number = sum(FREE_KINDS[other.kind] for other in self.sites.free[:k])
            places, entries = free_entries(self._reader, number, site, contexts)
            cells = np.repeat(places.contexts, entries.lengths) * n + entries.columns
            values = entries.counts / np.repeat(places.distances, entries.lengths)
        return np.asarray(np.bincount(cells, values, m * n).reshape(m, n), np.float64)

    def _recent_rows(self, contexts: Contexts, site: FreeSite) -> Floats:
        """Return how often each label is among the last places of each context: (m, L)."""
        m = len(contexts)
        n = len(self.labels)
        columns = np.append(
            self.labels.find(contexts.vocabulary), -1
        )  # rank -1 reads the last entry
        last = columns[contexts.ranks[:, contexts.h - site.reach :]]
        rows, _ = np.nonzero(last >= 0)
        counts = np.bincount(rows * n + last[last >= 0], minlength=m * n)
        return counts.reshape(m, n).astype(np.float64)


def with_free_rows(reader: Reader, sites: Sites) -> Reader:
    """Return what has a row for every site: the reader itself where none is without a position."""
    if not sites.free or isinstance(reader, FreeRows):
        return reader
    if not isinstance(reader, SparseCounts):
        raise TypeError(
            f"{type(reader).__name__} keeps no sites without a position: use memory='exact'."
        )
    return FreeRows(reader, sites)


def token_rows(
    reader: SparseCounts, number: int, site: FreeSite, contexts: Contexts
) -> tuple[Places, Entries]:
    """Return the distinct tokens that contexts hold, and their rows for a free site.

    The columns are those of that table's labels: some may be tokens that never were a label.
    """
    places = find_places(contexts.ranks, site.reach)
    one_token = Contexts.with_ranks(contexts.vocabulary, places.ranks[:, None])
    return places, reader.free[number].rows.entries(one_token)


def free_entries(
    reader: SparseCounts, number: int, site: FreeSite, contexts: Contexts
) -> tuple[Places, Entries]:
    """Return what `token_rows` does, with the columns of the reader's labels.

    Tokens that never were a label are left out.
    """
    places, entries = token_rows(reader, number, site, contexts)
    return places, entries.in_columns(columns_in(reader.labels, reader.free[number].labels))


def columns_in(labels: Vocabulary, others: Vocabulary) -> Ints:
    """Return where other labels are among labels, -1 for none.

    The answer is kept with the labels, for the others that were asked for last.
    """
    if labels is others:
        return np.arange(len(labels))
    cache: dict[int, tuple[Vocabulary, Ints]] = vars(labels).setdefault("_columns_of", {})
    entry = cache.get(id(others))
    if entry is None or entry[0] is not others:  # an id may belong to a newer object
        if len(cache) > 8:
            cache.clear()
        entry = cache[id(others)] = (others, labels.find(others))
    return entry[1]
