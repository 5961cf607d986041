r"""What the cells of trees say of labels, as features that weights are fitted to.

For a row i let :math:`n_{t,m,c}` be the count of label c in the row's cell of tree t at level m,
without the row itself. With the amount of smoothing :math:`a_j` and the shares :math:`p_c` of the
labels without the row, the log-ratio is

.. math:: x_{i,t,m,j,c} = \log \Bigl( 1 + \frac{n_{t,m,c}}{a_j \, p_c} \Bigr)
    - \log \Bigl( 1 + \frac{\sum_b n_{t,m,b}}{a_j} \Bigr).

All trees of a kind say the same kind of thing, so a feature is the mean of their log-ratios, over
the trees that the row did not grow. The features of a row stand in this order: those of trees by
kind, level and amount; those of the sites of names by site and amount; the additive base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._arrays.logarithms import log1p
from hammemo._arrays.threads import in_threads, thread_pieces
from hammemo.features.cells.forest import KINDS, LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.features.cells import TreeCells
    from hammemo.features.cells.forest import Forest
    from hammemo.kernels.sites import Site, Sites
    from hammemo.votes.tree_label_rows import TreeRows

SMOOTHING: Final = (0.3, 3.0, 30.0)
"""Amounts for cells of few rows, of tens and of hundreds: weights choose between them."""

_MIN_THREAD_ROWS: Final = 500
"""Rows from which on a thread of its own pays."""

_MAX_TABLE_COUNT: Final = 2**24
"""Examples in a cell, multiplicities counted, up to which logarithms are looked up in tables."""


def count_features(cells: TreeCells, n_amounts: int) -> int:
    """Return how many features trees and sites of names have, without the one of the base."""
    return n_amounts * (len(KINDS) * len(LEVELS) + len(cells.name_sites))


def compute_tree_features(
    cells: TreeCells, rows: TreeRows, smoothing: tuple[float, ...] = SMOOTHING
) -> NDArray[np.float32]:
    """Return the features of rows, in the order that the module's text names.

    Shapes
    ------
    returned : (L, m, F)
    """
    n_labels = len(rows.label_counts)
    n_amounts = len(smoothing)
    n_features = count_features(cells, n_amounts) + 1
    out = np.zeros((n_labels, len(rows.labels), n_features), np.float32)
    _write_tree_features(cells.forest, rows, smoothing, out)
    first = len(KINDS) * len(LEVELS) * n_amounts
    for codes, cell_counts in zip(rows.name_codes.T, rows.name_counts, strict=True):
        ratios = log_ratios(cell_counts[codes], rows.labels, rows.label_counts, smoothing)
        out[:, :, first : first + n_amounts] = ratios.transpose(1, 0, 2)
        first += n_amounts
    out[:, :, -1] = rows.base_ratios.T
    return out


class SiteCounts(NamedTuple):
    """What rows read at one site."""

    site: Site
    counts: Ints
    """The counts of labels: (m, L)."""
    scale: Floats
    """What the contribution of the site to each row is multiplied by: (m,)."""


def iterate_site_counts(cells: TreeCells, rows: TreeRows, sites: Sites) -> Iterator[SiteCounts]:
    """Yield what rows read at each site.

    Trees that a row did not grow stand for all trees of their kind; the others are scaled to 0.
    """
    cell_rows = cells.forest.cell_rows
    kinds = cells.forest.kinds
    n_columns = len(cells.kinds)
    trees_of_kind = np.bincount(kinds, minlength=len(KINDS))
    judges_of_kind = np.stack(
        [rows.is_out[:, kinds == kind].sum(axis=1) for kind in range(len(KINDS))], axis=1
    )
    for site in sites.positions:
        if site[0] < n_columns:
            place = cells.name_sites.index(site)
            counts = rows.name_counts[place][rows.name_codes[:, place]]
            yield SiteCounts(site, counts, np.ones(len(rows.labels)))
        else:
            tree, level = divmod(site[0] - n_columns, len(LEVELS))
            kind = kinds[tree]
            n_judges = np.maximum(judges_of_kind[:, kind], 1)
            scale = trees_of_kind[kind] / n_judges * rows.is_out[:, tree]
            counts = rows.tree_counts[cell_rows[level, rows.leaves[:, tree]]]
            yield SiteCounts(site, counts, scale)


def log_ratios(
    counts: Ints, labels: Ints, label_counts: Ints, smoothing: tuple[float, ...]
) -> Floats:
    """Return the log-ratios of rows of counts, each without one count of its own label.

    Shapes
    ------
    counts : (m, L); labels : (m,); label_counts : (L,); returned : (m, L, J)
    """
    shares = LeftOutShares.from_counts(label_counts)
    amounts = np.array(smoothing)
    rows = np.arange(len(labels))
    counts = counts.copy()
    counts[rows, labels] = np.maximum(counts[rows, labels] - 1, 0)
    prior = np.tile(shares.of_others, (len(labels), 1))
    prior[rows, labels] = shares.of_own[labels]
    totals = log1p(counts.sum(axis=1)[:, None, None] / amounts)
    return np.asarray(log1p((counts / prior)[:, :, None] / amounts) - totals)


class LeftOutShares(NamedTuple):
    """Each label's share of the examples without one row.

    A cell without the row holds one example less of the row's label. Beside shares of all examples
    this would always speak against that label, so that weights would turn negative; beside these
    shares it speaks for no label.
    """

    of_others: Floats
    """The shares of the labels that the row does not have: (L,)."""
    of_own: Floats
    """The share of each label if it is the row's: (L,)."""

    @classmethod
    def from_counts(cls, label_counts: Ints) -> LeftOutShares:
        """Return the shares, with half an example added to each label."""
        total = max(int(label_counts.sum()) - 1, 0) + 0.5 * len(label_counts)
        of_others = (label_counts + 0.5) / total
        of_own = (np.maximum(label_counts - 1, 0) + 0.5) / total
        return cls(np.asarray(of_others), np.asarray(of_own))


def _write_tree_features(
    forest: Forest, rows: TreeRows, smoothing: tuple[float, ...], out: NDArray[np.float32]
) -> None:
    """Write the features of trees into the first places of `out`."""
    highest_total = _find_highest_total(rows.tree_counts)
    if highest_total > _MAX_TABLE_COUNT:

        def compute_ratios(counts: Ints, labels: Array) -> Floats:
            return log_ratios(counts, labels, rows.label_counts, smoothing)

        write_means(
            leaves=rows.leaves,
            is_out=rows.is_out,
            cells=forest.cell_rows,
            counts=rows.tree_counts,
            labels=rows.labels,
            kinds=forest.kinds,
            compute_ratios=compute_ratios,
            out=out,
        )
        return
    tables = _LogTables.from_counts(
        rows.tree_counts, rows.label_counts, smoothing, highest_total=highest_total
    )
    cell_rows = forest.cell_rows
    is_out = rows.is_out.astype(np.uint8, order="C")
    labels = rows.labels.astype(np.int32)
    kinds = forest.kinds.astype(np.int32)
    pieces = thread_pieces(len(labels), _MIN_THREAD_ROWS, each=1)

    def write_piece(piece: slice) -> None:
        piece_out = out
        if len(pieces) > 1:  # the rows of a label lie together, so a piece is no block of `out`
            piece_out = np.zeros((len(out), piece.stop - piece.start, out.shape[2]), np.float32)
        _native.tree_features(
            leaves=rows.leaves[piece],
            is_out=is_out[piece],
            cells=cell_rows,
            counts=rows.tree_counts,
            labels=labels[piece],
            kinds=kinds,
            n_kinds=len(KINDS),
            label_logs=tables.label_logs,
            own_logs=tables.own_logs,
            label_starts=tables.label_starts,
            total_logs=tables.total_logs,
            out=piece_out,
        )
        if piece_out is not out:
            out[:, piece] = piece_out

    in_threads(write_piece, pieces)


def _find_highest_total(counts: Ints) -> int:
    """Return the most examples that a cell holds: counts are (cells, L)."""
    # With few labels, adding columns is several times as fast as adding up each row.
    totals = np.einsum("cl->c", counts)
    return int(totals.max(initial=0))


class _LogTables(NamedTuple):
    """Logarithms by count, for compiled code."""

    label_logs: Floats
    """log(1 + n / (a p)) of labels that a row does not have, by label, count n and amount."""
    own_logs: Floats
    """The same of the label that a row has."""
    label_starts: Ints
    """Where the logarithms of each label begin: (L,)."""
    total_logs: Floats
    """log(1 + n / a), by total n and amount."""

    @classmethod
    def from_counts(
        cls,
        counts: Ints,
        label_counts: Ints,
        smoothing: tuple[float, ...],
        *,
        highest_total: int,
    ) -> _LogTables:
        """Return tables up to the highest counts of cells: (cells, L)."""
        amounts = np.array(smoothing)
        highest = np.array([column.max(initial=0) for column in counts.T])

        def tabulate(shares: Floats) -> Floats:
            label_tables = [
                log1p(np.arange(top + 1)[:, None] / share / amounts)
                for top, share in zip(highest, shares, strict=True)
            ]
            return np.concatenate(label_tables)

        shares = LeftOutShares.from_counts(label_counts)
        return cls(
            label_logs=tabulate(shares.of_others),
            own_logs=tabulate(shares.of_own),
            label_starts=np.concatenate([[0], np.cumsum(highest[:-1] + 1)]).astype(np.int64),
            total_logs=log1p(np.arange(highest_total + 1)[:, None] / amounts),
        )


def write_means(
    *,
    leaves: NDArray[np.int32],
    is_out: Array,
    cells: NDArray[np.int32],
    counts: Ints,
    labels: Array,
    kinds: Array,
    compute_ratios: Callable[[Ints, Array], Floats],
    out: NDArray[np.float32],
) -> None:
    """Write the mean log-ratios over the trees that rows did not grow, by kind, level and amount.

    `compute_ratios` makes log-ratios (m, L, J) of counts (m, L) and labels (m,).
    """
    n_labels = counts.shape[1]
    n_rows = len(leaves)
    n_levels = len(cells)
    n_kinds = len(KINDS)
    n_amounts = compute_ratios(counts[:0], labels[:0]).shape[2]
    sums = np.zeros((n_rows, n_kinds, n_levels, n_amounts, n_labels))
    n_judges = np.zeros((n_rows, n_kinds), np.int64)
    for tree, kind in enumerate(kinds.tolist()):
        rows = np.flatnonzero(is_out[:, tree])
        n_judges[rows, kind] += 1
        for level in range(n_levels):
            cell_counts = counts[cells[level, leaves[rows, tree]]]
            sums[rows, kind, level] += compute_ratios(cell_counts, labels[rows]).transpose(0, 2, 1)
    means = sums / np.maximum(n_judges, 1)[:, :, None, None, None]
    n_features = n_kinds * n_levels * n_amounts
    out[:, :, :n_features] = means.reshape(n_rows, -1, n_labels).transpose(2, 0, 1)
