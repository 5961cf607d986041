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
from hammemo.kernels.sites import FreeSite, Sites, make_sparse_rows
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
        """Return what a copy needs: no caches, and no live table, which a copy makes again."""
        stored = self.rows.stored  # not `_stored`: rows may have put a live sum in its place
        if stored.is_live:
            stored = SignedSum.from_table(stored.total)
        return {
            "declared": self.declared,
            "sites": self.sites,
            "free": self.free,
            "count_histogram": self.count_histogram,
            "_stored": stored,
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
        best = None
        if len(self.labels):
            best = self.rows.leaders(contexts, weights, divisor, 1)
        if best is None:  # rows of this kind do not find it without all scores
            return super().winners(contexts, weights, divisor)
        return best[:, 0]

    def leaders(self, contexts: Contexts, weights: Floats, divisor: Divisor, k: int) -> Ints:
        """Return the columns of the k highest scores over `divisor`, equals in column order."""
        k = min(k, len(self.labels))
        columns = self.rows.leaders(contexts, weights, divisor, k)
        if columns is None:  # rows of this kind do not find them without all scores
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

        The largest counts of a row tell the best labels then, and these weights are all that is
        needed for that. `rule` makes the rule itself, with a number for every label, for answers
        that need all scores.
        """
        return RuleRanker(self.rows, rule, SharedWeightRule(smoothing, weights))

    def restrict(self, contexts: Contexts, *, with_histogram: bool = False) -> SparseCounts:
        """Return a reader, in memory, of the rows that these contexts read.

        It answers to them as this one does. `with_histogram` adds what a mixture must know of all
        rows, `count_histogram`, for which they are gone through once. A reader whose rows are in
        memory already returns itself.
        """
        table = self.rows.table_of(contexts)
        if table is None:
            return self
        reader = SparseCounts(SignedSum.from_table(table), self.declared, static=True)
        reader.free = self.free
        if with_histogram:
            reader.count_histogram = self._make_count_histogram()
        return reader

    def _make_count_histogram(self) -> Ints:
        """Return how many entries of each site have the counts 0 to 4, and more: (S, 6)."""
        histogram = np.zeros((len(self.sites.positions), 6), np.int64)
        for site, rows in self._stored.all_rows():
            histogram[site] += np.bincount(np.minimum(rows.counts, 5), minlength=6)
        return histogram

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
        """Return the compiled form with these arrays, checked: undo `pack`.

        Arrays that are trusted stay on disk, and their content is not read here.
        """
        _expect_no_description(description)
        all_labels = LabelCounts(frame.labels, frame.label_counts)
        table = CountTable.from_arrays(frame.sites, all_labels, stored)
        if not stored.trusted:
            # The canonical table, which needs all entries, has the labels with examples only.
            table = table.without_idle_labels()
        labels_without_examples = frame.labels.keep(frame.label_counts == 0)
        reader = cls(
            SignedSum.from_table(table, on_disk=stored.trusted), declared=labels_without_examples
        )
        free_readers: list[SparseCounts] = []
        for k in range(len(frame.sites.free_with_table)):
            stored_table = stored.part(f"free.{k}")
            free_readers.append(cls.from_packed(read_free_frame(stored_table), stored_table, {}))
        reader.free = tuple(free_readers)
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
        # Of a query only the scores are dense, not the rows that its sites read: so it takes the
        # memory of one site.
        super().__init__(rows.site_counts, rule, n_sites=1, n_labels=len(rows.labels))
        self._rows = rows
        self._shared = shared
        self._applied: AppliedRule | None = None  # of the counts that were read last
        self._budget: CompileBudget | None = None  # made with the first question
        self._has_paid = False  # for the values of all rows
        self._ranker_of_cells: tuple[Cells, Ranker] | None = None

    def scores(self, contexts: Contexts) -> Floats:
        """Return the rule's score of each context and label."""
        if self.n_labels > MAX_DENSE_LABELS:
            return self._sparse_scores(contexts)
        if self.spend_and_test(len(contexts)):
            return self._table.scores(contexts)
        read = self.read_values(contexts)
        return sum_rows(read.rows, read.values, read.base)

    def spend_and_test(self, n_contexts: int) -> bool:
        """Count these contexts as asked; return whether the values of all rows pay by now.

        What has paid once pays for ever.
        """
        if self._has_paid:
            return True
        rows = self._rows.whole
        if rows is None or not self.n_labels:
            return False
        if self._budget is None:
            per_context = ENTRIES_A_SITE * len(rows.stored.sites.positions)
            self._budget = CompileBudget(ENTRIES_A_CALL, per_context)
        self._has_paid = self._budget.pays(n_contexts, price=rows.stored.n_entries)
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
        """The values of all rows, compiled."""
        whole_table = self.whole()
        sites = whole_table.table.sites
        # Single answers make it whatever it costs. Then batches read it, too.
        self._has_paid = True
        return ScoreTable(whole_table, h=sites.h, n_sites=len(sites.positions))

    def read_values(self, contexts: Contexts) -> RowValues:
        """Return the rows that contexts read, with their values."""
        rows, counts, starts = self._rows.read(contexts)
        return RowValues(rows, dense_values(self._rule, counts, starts), self._rule.base)

    def for_cells(self, cells: Cells, base: BaseAnswers | None) -> Ranker:
        """Return what ranks rows with numbers; `base` is the vote's.

        It is kept for the cells that were asked for last, which have the base of the same vote.
        """
        last = self._ranker_of_cells
        if last is not None:
            last_cells, last_ranker = last
            if last_cells is cells:
                return last_ranker
        # Leaves have a row of numbers each, which is dense.
        if self.n_labels <= MAX_DENSE_LABELS and holds_trees(cells, self._rows.stored.sites):
            ranker: Ranker = TreeRanker(self, cells, base)
        else:
            ranker = super().for_cells(cells, base)
        self._ranker_of_cells = (cells, ranker)
        return ranker

    def _sparse_scores(self, contexts: Contexts) -> Floats:
        """Return the scores of many labels: sparse gains, and a loss for each row."""
        rows, counts, starts = self._rows.for_rules().read(contexts)
        applied = self._apply_rule(counts, starts)
        reads = make_sparse_rows(rows, np.ones(rows.shape[1]), counts.shape[0])
        scores = (reads @ applied.gains).toarray()
        if len(applied.losses):
            scores -= self._sum_losses(rows, applied.losses)
        return np.asarray(scores + self._rule.base)

    def _apply_rule(self, counts: sparse.csr_array, starts: Ints) -> AppliedRule:
        """Return what the rule says of these rows of counts; a site's rows follow its start.

        It is kept for the counts that were read last: those of a whole table are always the same
        object, so the rule is applied to them once.
        """
        applied = self._applied
        if applied is None or applied.counts is not counts:
            gains, losses = apply_rule(self._rule, counts, starts)
            applied = AppliedRule(counts, gains, losses)
            self._applied = applied
        return applied

    def _sum_losses(self, rows: Ints, losses: Floats) -> Floats:
        """Return the weighted losses of each context, one number where all labels share weights.

        A sparse product adds term by term, here in the order of the sites; a dense one does not. It
        adds in an order of its own, which is another one for some columns and sizes: equal scores
        would differ in the last bit, and no other runtime could repeat them. So the losses are
        the entries of a sparse matrix, although none of its columns is empty.

        Shapes
        ------
        rows : (m, S); losses : (r, J); returned : (m, L) or (m, 1)
        """
        has_row = (rows >= 0)[:, :, None]
        losses_read = np.where(has_row, losses[rows], 0.0)  # (m, S, J)
        m, n_sites, n_amounts = losses_read.shape
        n_terms = n_sites * n_amounts
        all_columns = np.broadcast_to(np.arange(n_terms), (m, n_terms))
        terms = make_sparse_rows(all_columns, np.ones(n_terms), n_terms)
        terms.data = losses_read.ravel()
        return np.asarray(terms @ self._rule.weights.reshape(n_terms, -1))

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
        """Return a fast way to answer one context: the label that has the highest score."""
        # Dense rows take half the time of the top of the rows, or less.
        if self._has_small_table:
            return self._table.single()
        # The top of the rows tells the best label where all labels share the weights, and needs no
        # large table.
        if self._shared is not None:
            from_top = self._rows.single_by_rule(self._shared)
            if from_top is not None:
                return from_top
        # A large table is still faster than all scores of each context.
        if self.can_be_dense:
            return self._table.single()
        return None

    @property
    def _has_small_table(self) -> bool:
        """Whether there can be dense values of all rows, and they take little memory."""
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
        return cls(_make_dense_counts(table, tokens, frame.labels), tokens, frame)

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


def _make_dense_counts(
    table: CountTable, vocabulary: Vocabulary, labels: Vocabulary
) -> NDArray[np.int32]:
    """Return the counts of a table of single positions, (sites, tokens, labels).

    Rows of tokens that are not in the vocabulary are left out.
    """
    n_sites = len(table.tuples)
    new_ranks = vocabulary.find(table.vocabulary)
    new_columns = labels.find(table.label_counts.labels)

    # The site and the token of each row of the table, and then the row of each entry.
    row_sites = np.repeat(np.arange(n_sites), [len(tuples) for tuples in table.tuples])
    row_tokens = np.concatenate([new_ranks[tuples.rows()[:, 0]] for tuples in table.tuples])
    entry_rows = table.entry_rows()
    has_token = row_tokens[entry_rows] >= 0
    rows = entry_rows[has_token]
    columns = new_columns[table.entry_labels[has_token]]

    counts = np.zeros((n_sites, len(vocabulary), len(labels)), np.int32)
    counts[row_sites[rows], row_tokens[rows], columns] = table.entry_counts[has_token]
    return counts


def read_free_frame(stored: StoredArrays) -> Frame:
    """Return the labels of the table of a site without a position, and their counts, checked.

    Such a table has labels of its own, and each of them has an example.
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
        free_weights = weights[n_positions:].tolist()
        for site, weight in zip(self.sites.free, free_weights, strict=True):
            scores += weight * self._read_free_site(contexts, site)
        return scores

    def site_counts(self, contexts: Contexts) -> Floats:
        """Return the row that each site of each context reads, else zeros: (m, S, L)."""
        free = [self._read_free_site(contexts, site) for site in self.sites.free]
        return np.concatenate([self._reader.site_counts(contexts), np.stack(free, axis=1)], axis=1)

    def compute_example_counts(self, contexts: Contexts, columns: Ints) -> Floats:
        """Return what each example has added to the count of its label in the row of each site.

        That is one at a site with positions. At a free site with a table, each distinct token of
        the context has added one to a row, and the rows are added up by distance.

        Shapes
        ------
        columns : (m,), the examples' labels; returned : (m, S)
        """
        counts = np.ones((len(contexts), self.sites.n))
        n_positions = len(self.sites.positions)
        for column_of_site, site in enumerate(self.sites.free, start=n_positions):
            counts[:, column_of_site] = 0.0
            if site.has_table:
                counts[:, column_of_site] = self._sum_example_counts(contexts, columns, site)
        return counts

    def _sum_example_counts(self, contexts: Contexts, columns: Ints, site: FreeSite) -> Floats:
        """Return what each example has added to the summed row of a free site: (m,)."""
        places = find_places(contexts.ranks, site.reach)
        added = np.ones(len(places.ranks))
        if site.kind == "together":
            # a label is not counted together with itself
            token_columns = self.labels.find(contexts.vocabulary)
            added -= token_columns[places.ranks] == columns[places.contexts]
        sums = np.bincount(places.contexts, added / places.distances, len(contexts))
        return np.asarray(sums, np.float64)

    def _read_free_site(self, contexts: Contexts, site: FreeSite) -> Floats:
        """Return the rows of a free site: (m, L)."""
        if site.has_table:
            return self._read_table(contexts, site)
        if site.kind == "recent":
            return self._count_recent(contexts, site)
        return self._copy_tokens(contexts, site)

    def _read_table(self, contexts: Contexts, site: FreeSite) -> Floats:
        """Return the rows of the distinct last tokens of each context, added up: (m, L)."""
        m = len(contexts)
        n = len(self.labels)
        table_index = self.sites.free_with_table.index(site)
        places, entries = _read_label_rows(self._reader, site, contexts, table_index=table_index)
        cells = np.repeat(places.contexts, entries.lengths) * n + entries.columns
        values = entries.counts / np.repeat(places.distances, entries.lengths)
        return np.asarray(np.bincount(cells, values, m * n).reshape(m, n), np.float64)

    def _copy_tokens(self, contexts: Contexts, site: FreeSite) -> Floats:
        """Return 1 / distance for each label among the last places of each context: (m, L)."""
        m = len(contexts)
        n = len(self.labels)
        places = find_places(contexts.ranks, site.reach)
        columns = self.labels.find(contexts.vocabulary)[places.ranks]
        is_label = columns >= 0
        cells = places.contexts[is_label] * n + columns[is_label]
        values = 1.0 / places.distances[is_label]
        return np.asarray(np.bincount(cells, values, m * n).reshape(m, n), np.float64)

    def _count_recent(self, contexts: Contexts, site: FreeSite) -> Floats:
        """Return how often each label is among the last places of each context: (m, L)."""
        m = len(contexts)
        n = len(self.labels)
        token_columns = self.labels.find(contexts.vocabulary)
        columns_by_rank = np.append(token_columns, -1)  # an empty place has the rank -1
        columns = columns_by_rank[contexts.ranks[:, contexts.h - site.reach :]]
        is_label = columns >= 0
        rows, _ = np.nonzero(is_label)
        counts = np.bincount(rows * n + columns[is_label], minlength=m * n)
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


def read_token_rows(
    reader: SparseCounts, site: FreeSite, contexts: Contexts, *, table_index: int
) -> tuple[Places, Entries]:
    """Return the distinct last tokens of contexts, and the row of each in the table of a free site.

    The columns of entries are those of that table's labels, some of which may be tokens that never
    were a label of the model.

    Parameters
    ----------
    reader : SparseCounts
    site : FreeSite
        One with a table.
    contexts : Contexts
    table_index : int
        Which of the sites with a table it is.
    """
    places = find_places(contexts.ranks, site.reach)
    one_token_each = Contexts.with_ranks(contexts.vocabulary, places.ranks[:, None])
    return places, reader.free[table_index].rows.entries(one_token_each)


def _read_label_rows(
    reader: SparseCounts, site: FreeSite, contexts: Contexts, *, table_index: int
) -> tuple[Places, Entries]:
    """Return what `read_token_rows` does, with the columns of the reader's labels.

    Entries of tokens that never were a label are left out.
    """
    places, entries = read_token_rows(reader, site, contexts, table_index=table_index)
    columns = find_table_columns(reader, table_index)
    return places, entries.in_columns(columns)


def find_table_columns(reader: SparseCounts, table_index: int) -> Ints:
    """Return the column of each label of a free site's table among the reader's labels, else -1."""
    return reader.labels.find_again(reader.free[table_index].labels)
