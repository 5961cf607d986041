r"""The weights of a log-linear vote whose sites are the cells of trees: one for each kind of tree, level and amount.

A tree has chosen its cuts by labels, so rows that grew it believe it too much. Their weights would, too. So each row
is judged by the trees that it did not grow, and by the counts without itself. All trees of a kind say the same kind of
thing, so they share their weights: with :math:`x_{i,t,m,j,c}` the log-ratio of label c in the cell of row i, tree t and
level m, the feature is its mean over the trees of a kind that row i did not grow, and the weight that is fitted to it
is divided among all trees of the kind. Columns of names, and tuples of them, have weights of their own, and so has the
additive base, which says about each row what it says without the row's fold.

Where columns say nothing of the label, weights are noise and may be negative. All cells hold the rows, so that negative
weights turn the rows against their own labels. Weights with which the rows that they were fitted to are answered worse
than by the most frequent label are fitted again, as numbers that are not negative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo import _native
from hammemo._arrays.blas import one_blas_thread
from hammemo._arrays.integers import row_pieces
from hammemo._arrays.logarithms import log, log1p
from hammemo._arrays.threads import in_threads, thread_pieces
from hammemo._progress import advance
from hammemo.features.cells.forest import KINDS, LEVELS, Forest, out_of_bag
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.vocabulary import Vocabulary
from hammemo.votes.base import softmax
from hammemo.votes.choose_weights import UNIFORM, FoldTally, WeightTrial
from hammemo.votes.fitting import SHARED_STEPS, FittedWeights, fits_to
from hammemo.votes.log_linear import LogLinear, shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Bools, Floats, Ints, Words
    from hammemo.features.cells import TreeCells
    from hammemo.kernels.sites import Site, Sites
    from hammemo.memories.reader import Reader

SMOOTHING: Final = (0.3, 3.0, 30.0)

_RIDGE: Final = 5.0
"""Of the weights that all labels share."""
_OPTIONS: Final = ((False, _RIDGE), (True, 5.0), (True, 25.0), (True, 100.0))
"""Whether labels have weights of their own, and the ridge."""
_UNIFORM_SHARES: Final = (0.0005, UNIFORM, 0.008)
_TRIED_STEPS: Final = 25
"""Enough to compare options, whose losses differ by more than what further steps change."""
_STEPS: Final = 400
_TOLERANCE: Final = 1e-8
"""Weights are fitted until they hardly depend on where the fit stops."""
_FOLDS: Final = 5
_TRIAL_NUMBERS: Final = 2**19
"""Rows times labels times features of one trial, from which on fewer folds are tried."""
_MAX_ROWS: Final = 50_000
_NUMBERS: Final = 2**25
_FEATURE_ROWS: Final = 500
"""Rows from which on a thread of its own pays."""
_ANSWERED_ROWS: Final = 1000
"""Rows that weights are tried on after they were fitted."""
_TABLE_COUNTS: Final = 2**24
"""Examples in a cell, multiplicities counted, up to which there are tables of logarithms."""


@dataclass(frozen=True, eq=False)
class TreeRows:
    """Rows that weights are fitted to, and what the cells that they lie in hold.

    Shapes
    ------
    leaves, is_out : (m, trees); labels, multiplicity, words : (m,); name_codes : (m, sites of names)
    """

    leaves: NDArray[np.int32]
    is_out: Bools
    name_codes: Ints
    labels: Ints
    multiplicity: Ints
    words: Words
    """The hashes of the rows."""
    tree_counts: Ints
    """Counts of the cells of all trees and levels: (cells, L)."""
    name_counts: list[Ints]
    """Counts of the cells of each site of names, a column or a tuple: (cells, L)."""
    label_counts: Ints
    base_ratios: Floats
    """What the additive base says of each label, fitted without the fold of the row: (m, L)."""
    answered_ratios: Floats
    """The same, fitted to all rows: what answers are made of."""

    def __getitem__(self, rows: Ints) -> TreeRows:
        names = (
            "leaves",
            "is_out",
            "name_codes",
            "labels",
            "multiplicity",
            "words",
            "base_ratios",
            "answered_ratios",
        )
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def rows_of(
    cells: TreeCells,
    examples: Examples,
    seed: int,
    reader: Reader | None = None,
    sample: int | None = None,
) -> TreeRows:
    """Return distinct examples, the lowest hashes first, with counts of all of them, or of all that a reader holds.

    Labels are those of the reader, or of the examples. With `sample` there are this many rows at most, each of which
    did not grow some tree of each kind.
    """
    coded = cells.codes.rows(examples.contexts)
    rows, words, counts = cells.codes.distinct(examples, seed, coded)
    labels = examples.label_ranks[rows]
    # Floats are exact here and below: the kept rows of a model are fewer than 2^53, copies counted.
    label_counts = np.bincount(labels, weights=counts, minlength=len(examples.labels)).astype(
        np.int64
    )
    if reader is not None:
        labels, label_counts = reader.labels.find(examples.labels)[labels], reader.label_counts
        known = labels >= 0
        rows, words, counts, labels = rows[known], words[known], counts[known], labels[known]
    is_out = out_of_bag(cells.forest, words, counts, cells.last_word)
    chosen = np.arange(len(rows))
    if sample is not None:
        by_kind = [is_out[:, kind :: len(KINDS)].any(axis=1) for kind in range(len(KINDS))]
        chosen = np.flatnonzero(np.logical_and.reduce(by_kind))[:sample]
    counted = (
        chosen if reader is not None else np.arange(len(rows))
    )  # a reader has counted all of them
    contexts, places = (
        examples.contexts[rows[counted]],
        chosen if reader is None else np.arange(len(chosen)),
    )
    coded = coded[rows[counted]]
    n_labels, columns = (
        len(label_counts),
        [_distinct_tuples(contexts.ranks, site) for site in cells.name_sites],
    )
    codes = (
        np.stack([ranks for _, ranks in columns], axis=1)
        if columns
        else np.empty((len(counted), 0), np.int64)
    )
    leaves = cells.forest.leaves(coded)
    if reader is None:
        tree_counts = cells.forest.counts(leaves, labels, counts, n_labels)
        name_counts = [
            _cell_counts(code, labels, counts, code.max(initial=0) + 1, n_labels)
            for code in codes.T
        ]
    else:
        tree_counts, name_counts = _read_counts(
            cells, contexts.vocabulary, [found for found, _ in columns], reader
        )
    known_labels = examples.labels if reader is None else reader.labels
    plain = cells.codes.plain(coded[places])
    return TreeRows(
        leaves[places],
        is_out[chosen],
        codes[places],
        labels[chosen],
        counts[chosen],
        words[chosen],
        tree_counts,
        name_counts,
        label_counts,
        cells.base.ratios_without_folds(*plain, words[chosen], known_labels),
        cells.base.ratios(*plain, known_labels),
    )


def _distinct_tuples(ranks: Ints, site: Site) -> tuple[Ints, Ints]:
    """Return the distinct tuples that rows hold at a site, in lexical order, and the place of each row's among them.

    Shapes
    ------
    ranks : (m, h); returned : (d, columns of the site), (m,)
    """
    codes, first = np.zeros(len(ranks), np.int64), np.arange(min(1, len(ranks)))
    for j in site:  # one column at a time, so that the numbers stay small
        own = ranks[:, j].astype(np.int64)
        _, first, codes = np.unique(
            codes * (own.max(initial=0) + 2) + own, return_index=True, return_inverse=True
        )
    return ranks[first][:, list(site)], codes


def _cell_counts(codes: Array, labels: Ints, counts: Ints, size: int, n_labels: int) -> Ints:
    """Return how often each label occurs in each cell: (size, L)."""
    sums = np.bincount(
        codes * np.int64(n_labels) + labels, weights=counts, minlength=size * n_labels
    )
    return sums.astype(np.int64).reshape(size, n_labels)


def _read_counts(
    cells: TreeCells, tokens: Vocabulary, names: list[Ints], reader: Reader
) -> tuple[Ints, list[Ints]]:
    """Return the counts of all cells that a reader holds: row r of the queries has the r-th cell of every site.

    The cells of the sites of names are tuples of tokens with these ranks: (cells, columns of the site).
    """
    sizes = cells.forest.cell_sizes
    of_names = [len(found) for found in names]
    h, n_levels = len(cells.kinds), len(LEVELS)
    vocabulary = tokens.union(Vocabulary(np.arange(int(sizes.max()))))
    ranks = np.full((max([int(sizes.max()), *of_names]), cells.h), -1, np.int64)
    moved = np.append(vocabulary.find(tokens), -1)
    for j, found in zip(cells.names, names, strict=False):
        ranks[: len(found), j] = moved[found[:, 0]]
    numbers = vocabulary.find(Vocabulary(np.arange(int(sizes.max()))))
    for level, of_level in enumerate(sizes):
        for tree, size in enumerate(of_level.tolist()):
            ranks[:size, h + tree * n_levels + level] = numbers[:size]
    place = {site: k for k, site in enumerate(reader.sites.positions)}
    counts = _site_counts(reader, vocabulary, ranks)
    of_trees = [
        counts[:size, place[h + tree * n_levels + level,]]
        for level, of_level in enumerate(sizes)
        for tree, size in enumerate(of_level.tolist())
    ]
    of_sites = [counts[:size, place[j,]] for j, size in zip(cells.names, of_names, strict=False)]
    for site, found in zip(cells.tuples, names[len(cells.names) :], strict=True):
        ranks = np.full((len(found), cells.h), -1, np.int64)
        ranks[:, list(site)] = moved[found]
        of_sites.append(_site_counts(reader, vocabulary, ranks)[:, place[site]])
    return np.concatenate(of_trees), of_sites


def _site_counts(reader: Reader, vocabulary: Vocabulary, ranks: Ints) -> Ints:
    """Return the counts that contexts with these ranks read at each site: (m, S, L)."""
    pieces = row_pieces(len(ranks), reader.sites.n * len(reader.labels))
    held = [reader.site_counts(Contexts.with_ranks(vocabulary, ranks[part])) for part in pieces]
    return np.concatenate(held).astype(np.int64)


def tree_features(
    cells: TreeCells, rows: TreeRows, smoothing: tuple[float, ...] = SMOOTHING
) -> NDArray[np.float32]:
    """Return the features of rows: of trees by kind, level and amount, of names by site and amount, and of the base.

    Shapes
    ------
    returned : (L, m, F)
    """
    n_labels, n_amounts = len(rows.label_counts), len(smoothing)
    of_trees = len(KINDS) * len(LEVELS) * n_amounts
    out = np.zeros(
        (n_labels, len(rows.labels), of_trees + n_amounts * len(rows.name_counts) + 1), np.float32
    )
    _write_tree_features(cells.forest, rows, smoothing, out)
    for k, (codes, held) in enumerate(zip(rows.name_codes.T, rows.name_counts, strict=True)):
        first = of_trees + n_amounts * k
        ratios = log_ratios(held[codes], rows.labels, rows.label_counts, smoothing)
        out[:, :, first : first + n_amounts] = ratios.transpose(1, 0, 2)
    out[:, :, -1] = rows.base_ratios.T
    return out


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows that weights are fitted to, with their features: shape (L, m, F)."""

    rows: TreeRows
    features: NDArray[np.float32]
    labels: Vocabulary

    def are_of(self, reader: Reader, vote: LogLinear) -> bool:
        """Return whether a reader would give the same, for a vote; all that it holds is these rows."""
        is_same = self.labels == reader.labels and np.array_equal(
            self.rows.label_counts, reader.label_counts
        )
        return is_same and vote.amounts() == SMOOTHING and int(vote.sample) == _MAX_ROWS


def site_counts_of(
    cells: TreeCells, rows: TreeRows, sites: Sites
) -> Iterator[tuple[Site, Ints, Floats]]:
    """Yield each site, the counts that rows read there, and how much each row is to be scaled.

    Trees that a row did not grow stand for all trees of their kind; the others are scaled to nothing.
    """
    of_cells, kinds, h = cells.forest.cell_rows, cells.forest.kinds, len(cells.kinds)
    seen = np.stack(
        [rows.is_out[:, kinds == kind].sum(axis=1) for kind in range(len(KINDS))], axis=1
    )
    sizes = np.bincount(kinds, minlength=len(KINDS))
    of_names = cells.name_sites
    for site in sites.positions:
        if site[0] < h:
            place = of_names.index(site)
            yield (
                site,
                rows.name_counts[place][rows.name_codes[:, place]],
                np.ones(len(rows.labels)),
            )
            continue
        tree, level = divmod(site[0] - h, len(LEVELS))
        scale = sizes[kinds[tree]] / np.maximum(seen[:, kinds[tree]], 1) * rows.is_out[:, tree]
        yield site, rows.tree_counts[of_cells[level, rows.leaves[:, tree]]], scale


def log_ratios(
    counts: Ints, labels: Ints, label_counts: Ints, smoothing: tuple[float, ...]
) -> Floats:
    """Return the log-ratios of rows of counts, each without one count of its own label.

    Shapes
    ------
    counts : (m, L); labels : (m,); label_counts : (L,); returned : (m, L, J)
    """
    of_others, own = left_out_shares(label_counts)
    counts, places = counts.copy(), np.arange(len(labels))
    counts[places, labels] = np.maximum(counts[places, labels] - 1, 0)
    amounts, prior = np.array(smoothing), np.tile(of_others, (len(labels), 1))
    prior[places, labels] = own[labels]
    totals = log1p(counts.sum(axis=1)[:, None, None] / amounts)
    return np.asarray(log1p((counts / prior)[:, :, None] / amounts) - totals)


def left_out_shares(label_counts: Ints) -> tuple[Floats, Floats]:
    """Return each label's share of the examples without one row: where it has another label, and where it has this one.

    A cell without the row holds one example less of the row's label. Beside shares of all examples this would always
    speak against that label, so that weights would turn negative; beside these shares it speaks for none.
    """
    total = max(int(label_counts.sum()) - 1, 0) + 0.5 * len(label_counts)
    of_others, own = label_counts + 0.5, np.maximum(label_counts - 1, 0) + 0.5
    return np.asarray(of_others / total), np.asarray(own / total)


def _write_tree_features(
    forest: Forest, rows: TreeRows, smoothing: tuple[float, ...], out: NDArray[np.float32]
) -> None:
    """Write the features of trees into the first places."""
    of_cells = forest.cell_rows
    if int(rows.tree_counts.sum(axis=1).max(initial=0)) > _TABLE_COUNTS:

        def ratios(held: Ints, labels: Array) -> Floats:
            return log_ratios(held, labels, rows.label_counts, smoothing)

        _write_means(
            rows.leaves,
            rows.is_out,
            of_cells,
            rows.tree_counts,
            rows.labels,
            forest.kinds,
            ratios,
            out,
        )
        return
    others, own, starts, totals = _logarithms(rows.tree_counts, rows.label_counts, smoothing)
    is_out, labels = rows.is_out.astype(np.uint8), rows.labels.astype(np.int32)
    kinds = forest.kinds.astype(np.int32)
    pieces = thread_pieces(len(labels), _FEATURE_ROWS, each=1)

    def written(part: slice) -> None:
        there = (
            out
            if len(pieces) == 1
            else np.zeros((len(out), part.stop - part.start, out.shape[2]), np.float32)
        )
        _native.tree_features(
            leaves=rows.leaves[part],
            is_out=is_out[part],
            cells=of_cells,
            counts=rows.tree_counts,
            labels=labels[part],
            kinds=kinds,
            n_kinds=len(KINDS),
            label_logs=others,
            own_logs=own,
            label_starts=starts,
            total_logs=totals,
            out=there,
        )
        if there is not out:
            out[:, part] = there  # rows of a label lie together, so a piece is no block of its own

    in_threads(written, pieces)


def _logarithms(
    counts: Ints, label_counts: Ints, smoothing: tuple[float, ...]
) -> tuple[Floats, Floats, Ints, Floats]:
    """Return log(1 + n / (a p)) by label and count n, where each label's begin, and log(1 + n / a) by total.

    The first array is for rows of other labels, the second for rows of the label itself.
    """
    amounts, most = np.array(smoothing), counts.max(axis=0, initial=0)
    of_others, own = (
        np.concatenate(
            [
                log1p(np.arange(top + 1)[:, None] / p / amounts)
                for top, p in zip(most, prior, strict=True)
            ]
        )
        for prior in left_out_shares(label_counts)
    )
    starts = np.concatenate([[0], np.cumsum(most[:-1] + 1)]).astype(np.int64)
    totals = np.arange(int(counts.sum(axis=1).max(initial=0)) + 1)[:, None]
    return of_others, own, starts, log1p(totals / amounts)


def _write_means(
    leaves: NDArray[np.int32],
    is_out: Array,
    cells: NDArray[np.int32],
    counts: Ints,
    labels: Array,
    kinds: Array,
    ratios: Callable[[Ints, Array], Floats],
    out: NDArray[np.float32],
) -> None:
    """Write the mean of `ratios`, (m, L, J) of counts (m, L) and labels, over the trees that rows did not grow."""
    n_labels, m, n_levels, n_kinds = counts.shape[1], len(leaves), len(cells), len(KINDS)
    n_amounts = ratios(counts[:0], labels[:0]).shape[2]
    sums, seen = (
        np.zeros((m, n_kinds, n_levels, n_amounts, n_labels)),
        np.zeros((m, n_kinds), np.int64),
    )
    for tree, kind in enumerate(kinds.tolist()):
        rows = np.flatnonzero(is_out[:, tree])
        seen[rows, kind] += 1
        for level in range(n_levels):
            held = counts[cells[level, leaves[rows, tree]]]
            sums[rows, kind, level] += ratios(held, labels[rows]).transpose(0, 2, 1)
    means = sums / np.maximum(seen, 1)[:, :, None, None, None]
    out[:, :, : n_kinds * n_levels * n_amounts] = means.reshape(m, -1, n_labels).transpose(2, 0, 1)


@one_blas_thread
def chosen_tree_vote(
    cells: TreeCells, examples: Examples, seed: int
) -> tuple[LogLinear, list[WeightTrial], WeightedRows]:
    """Return the vote for the trees that examples grew, all that was tried on folds of them, the best first, and rows.

    The rows are what `fit_tree_weights` fits the weights to, if the examples are all that a model learns.
    """
    rows = rows_of(
        cells,
        examples,
        seed,
        sample=_most_rows(cells, len(examples.labels), len(SMOOTHING), _MAX_ROWS),
    )
    n_labels = len(rows.label_counts)
    ratios, prior = tree_features(cells, rows), shares(rows.label_counts)
    tally = FoldTally(n_labels, _UNIFORM_SHARES)
    fold = rows.words % np.uint64(_FOLDS)  # a row stays in its fold when others go
    n_tried = int(np.clip(_FOLDS * _TRIAL_NUMBERS // max(ratios.size, 1), 1, _FOLDS))

    def tried(held_out: int) -> list[Any]:
        inside, outside = np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out)
        if not len(outside) or len(np.unique(rows.labels[inside])) < 2:
            return []
        found = []
        for option, weights in _tried(ratios, rows, inside, prior):
            probabilities = softmax(_linear(ratios[:, outside], weights, prior))
            observed = probabilities[np.arange(len(outside)), rows.labels[outside]]
            found.append(
                (
                    option,
                    observed,
                    observed >= probabilities.max(axis=1),
                    rows.multiplicity[outside],
                )
            )
        return found

    for of_fold in in_threads(tried, range(n_tried), advance):
        for one in of_fold:
            tally.add(*one)
    trials = tally.trials()
    best = trials[0] if trials else WeightTrial(False, _RIDGE, UNIFORM, 0.0)
    vote = LogLinear(
        SMOOTHING,
        per_label=best.per_label,
        ridge=best.ridge,
        sample=_MAX_ROWS,
        steps=_STEPS,
        shared_ridge=_RIDGE,
        uniform=best.uniform,
    )
    return vote, trials, WeightedRows(rows, ratios, examples.labels)


def _most_rows(cells: TreeCells, n_labels: int, n_amounts: int, sample: int) -> int:
    """Return to how many rows weights are fitted: to the sample, or to fewer where features would be too many."""
    n_features = n_amounts * (len(KINDS) * len(LEVELS) + len(cells.name_sites))
    return min(sample, max(500, _NUMBERS // (n_features * max(n_labels, 1))))


def _tried(
    ratios: NDArray[np.float32], rows: TreeRows, inside: Ints, prior: Floats
) -> list[tuple[tuple[bool, float], FittedWeights]]:
    """Return each option and its weights: shared ones first, then those of each label from there."""
    fits = fits_to(ratios, rows.labels, rows.multiplicity, prior, inside)
    even = np.full(fits.n_features, 1.0 / fits.n_features)
    shared = fits.fit(start=even, ridge=_RIDGE, per_label=False, steps=SHARED_STEPS)

    def fitted(option: tuple[bool, float]) -> tuple[tuple[bool, float], FittedWeights]:
        per_label, ridge = option
        found = (
            fits.fit(start=shared.shared, ridge=ridge, per_label=True, steps=_TRIED_STEPS)
            if per_label
            else shared
        )
        return option, found

    return in_threads(fitted, _OPTIONS)


def _linear(ratios: NDArray[np.float32], weights: FittedWeights, prior: Floats) -> Floats:
    by_label = weights.shared + weights.differences.T
    linear = np.zeros(ratios.shape[:2])
    for f in range(ratios.shape[2]):  # in this order, which that of a matrix product would not be
        linear += ratios[:, :, f] * by_label[:, f, None]
    return np.asarray(linear.T + log(prior) + weights.offsets)


@one_blas_thread
def fit_tree_weights(
    vote: LogLinear,
    cells: TreeCells,
    sites: Sites,
    examples: Examples,
    seed: int,
    reader: Reader,
    *,
    rows_are_all: bool,
    known: WeightedRows | None = None,
) -> None:
    """Fit the weights of a vote to examples, rows as they were given, that a reader holds.

    With `rows_are_all` the reader holds nothing else: its counts are not read where they are estimates. `known` are
    the rows that the vote was chosen by: if these are all, nothing is read again.
    """
    smoothing = vote.amounts()
    if known is not None and rows_are_all and known.are_of(reader, vote):
        rows, ratios = known.rows, known.features
    else:
        most = _most_rows(cells, len(reader.labels), len(smoothing), int(vote.sample))
        rows = rows_of(
            cells, examples, seed, None if rows_are_all and not reader.is_exact else reader, most
        )
        ratios = tree_features(cells, rows, smoothing)
    if len(reader.labels) < 2 or not len(rows.labels):
        return
    prior = shares(rows.label_counts)
    given = ratios, rows.labels, rows.multiplicity, prior
    fitted = vote.fitted(fits_to(*given, tolerance=_TOLERANCE))
    if _turns_rows_against_labels(
        cells, rows[np.arange(min(len(rows.labels), _ANSWERED_ROWS))], fitted, smoothing
    ):
        fitted = vote.fitted(fits_to(*given, is_bounded=True, tolerance=_TOLERANCE))
    spread = _spread(cells, sites, len(smoothing))
    of_sites = FittedWeights(
        spread @ fitted.shared[:-1], spread @ fitted.differences[:-1], fitted.offsets
    )
    of_base = np.append(fitted.shared[-1], fitted.differences[-1])
    vote.take_fitted(of_sites, reader.labels, sites.n, of_base)


def _turns_rows_against_labels(
    cells: TreeCells, rows: TreeRows, weights: FittedWeights, smoothing: tuple[float, ...]
) -> bool:
    """Return whether the answers for rows that all cells hold are right less often than the most frequent label is."""
    m, n_labels = rows.labels.shape[0], len(rows.label_counts)
    nothing = np.full(m, n_labels)  # of a label that no cell holds, none is left out
    held = replace(
        rows,
        is_out=np.ones_like(rows.is_out),
        labels=nothing,
        tree_counts=np.pad(rows.tree_counts, ((0, 0), (0, 1))),
        name_counts=[np.pad(counts, ((0, 0), (0, 1))) for counts in rows.name_counts],
        label_counts=np.append(rows.label_counts, 0),
        base_ratios=np.pad(rows.answered_ratios, ((0, 0), (0, 1))),
    )
    ratios = tree_features(cells, held, smoothing)[:n_labels]
    answers = _linear(ratios, weights, shares(rows.label_counts)).argmax(axis=1)
    counts = np.bincount(rows.labels, weights=rows.multiplicity)
    return bool(rows.multiplicity[answers == rows.labels].sum() < counts.max())


def _spread(cells: TreeCells, sites: Sites, n_amounts: int) -> sparse.csr_array:
    """Return the matrix that gives every site and amount its share of the weight that it has in common with others."""
    h, n_levels = len(cells.kinds), len(LEVELS)
    names = cells.name_sites
    kinds = cells.forest.kinds
    of_kind = np.bincount(kinds, minlength=len(KINDS))
    of_trees = len(KINDS) * n_levels * n_amounts
    columns, values = [], []
    for site in sites.positions:
        if site[0] < h:
            first, value = of_trees + n_amounts * names.index(site), 1.0
        else:
            tree, level = divmod(site[0] - h, n_levels)
            first, value = (
                (int(kinds[tree]) * n_levels + level) * n_amounts,
                1.0 / int(of_kind[kinds[tree]]),
            )
        columns += [first + j for j in range(n_amounts)]
        values += [value] * n_amounts
    shape = (len(columns), of_trees + n_amounts * len(names))
    return sparse.csr_array((values, (np.arange(len(columns)), columns)), shape=shape)
