r"""The weights of a log-linear vote whose sites are the cells of trees of labels.

A tree has chosen its cuts by labels, so rows that grew it believe it too much. Their weights would,
too. So each row is judged by the trees that it did not grow, and by the counts without itself. All
trees of a kind say the same kind of thing, so they share their weights: one for each kind of tree,
level and amount of smoothing. The weight that is fitted to the mean over the trees of a kind is
divided among all trees of the kind. Columns of names, and tuples of them, have weights of their
own, and so has the additive base, which says about each row what it says without the row's fold.

Where columns say nothing of the label, weights are noise and may be negative. All cells hold the
rows, so that negative weights turn the rows against their own labels. So weights are fitted again,
as numbers that are not negative, if they answer the rows that they were fitted to worse than the
most frequent label does.

The stages are plain functions:

1. :mod:`hammemo.votes.tree_label_rows`: the rows, and the counts of all cells;
2. :func:`~hammemo.votes.tree_label_features.compute_tree_features`: their features;
3. :func:`try_options`: the losses of the options of the vote on held-out folds;
4. :func:`fit_feature_weights`: the weights of the features;
5. :func:`spread_weights`: the weights of the sites.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy import sparse

from hammemo._arrays.blas import one_blas_thread
from hammemo._arrays.logarithms import log
from hammemo._arrays.threads import in_threads
from hammemo._progress import advance
from hammemo.features.cells.forest import KINDS, LEVELS
from hammemo.features.cells.tree_inputs import TreeInputs
from hammemo.votes.base import softmax
from hammemo.votes.choose_weights import (
    UNIFORM,
    FoldResult,
    FoldTally,
    WeightOption,
    WeightTrial,
)
from hammemo.votes.fitting import SHARED_STEPS, CompiledFits, FittedWeights
from hammemo.votes.log_linear import LogLinear, label_shares
from hammemo.votes.optimal_fits import NOT_FOUND, TRIAL_GRID, OptimalFits
from hammemo.votes.tree_label_features import SMOOTHING, compute_tree_features, count_features
from hammemo.votes.tree_label_rows import TreeRows, count_tree_rows, read_tree_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints
    from hammemo.features.cells import TreeCells
    from hammemo.kernels.sites import Sites
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.vocabulary import Vocabulary

_RIDGE: Final = 5.0
"""The ridge of the weights that all labels share."""

_OPTIONS: Final = (
    WeightOption(per_label=False, ridge=_RIDGE),
    WeightOption(per_label=True, ridge=5.0),
    WeightOption(per_label=True, ridge=25.0),
    WeightOption(per_label=True, ridge=100.0),
)
"""The options that are tried on folds."""

_UNIFORM_SHARES: Final = (0.0005, UNIFORM, 0.008)
"""Shares of even probabilities that are tried with every option: a factor of four apart."""

_TRIAL_STEPS: Final = 25
"""Enough to compare options, whose losses differ by more than what further steps change."""

_STEPS: Final = 400
"""Steps of the final fit at most: `_TOLERANCE` stops it before. They count where there are too many
weights for :mod:`hammemo.votes.optimal_fits`, which goes on to the minimum."""

_TOLERANCE: Final = 1e-8
"""The final weights hardly depend on where the fit stops. In a trial on 450 made-up rows
(``benchmarks/calm.py``), probabilities changed by less than 2e-4 with 5,000 steps to 1e-12, and by
4e-4 where the fit had stopped after 25 steps to 1e-6."""

_FOLDS: Final = 5
"""Folds into which the hashes of rows divide them."""

_TRIAL_NUMBERS: Final = 2**19
"""Rows times labels times features of one trial, from which on fewer folds are tried."""

_MAX_ROWS: Final = 2**15
"""Rows that weights are fitted to at most."""

_MAX_CHOICE_ROWS: Final = 2**13
"""Rows that options are tried on at most, those with the lowest hashes. On 100,000 flights, 60,000
others had a log-loss of .4277 with all rows here, 50,000 in `_MAX_ROWS` and a base whose pairs were
chosen by all; with these bounds, and 2^14 rows for the base, .4282; with half of each, .4295."""

_MIN_CHOICE_FOLDS: Final = 2
"""Folds that are tried at least where rows are more than `_MAX_CHOICE_ROWS`."""

_MIN_ROWS: Final = 500
"""Rows that weights are fitted to however many labels and features there are."""

_MAX_NUMBERS: Final = 2**25
"""Rows times labels times features that weights are fitted to, four bytes each."""

_MAX_ANSWERED_ROWS: Final = 1000
"""Rows that weights are tried on after they were fitted."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows that weights are fitted to, with their features."""

    rows: TreeRows
    features: NDArray[np.float32]
    """Shape (L, m, F)."""
    labels: Vocabulary

    def count_all(self, examples: Examples) -> bool:
        """Return whether examples, some or all of which these rows are, have the same counts."""
        return self.labels == examples.labels and np.array_equal(
            self.rows.label_counts, examples.label_counts()
        )

    def are_of(self, reader: Reader, vote: LogLinear) -> bool:
        """Return whether a reader would give the same, for a vote.

        All that the reader holds must be these rows.
        """
        has_same_labels = self.labels == reader.labels and np.array_equal(
            self.rows.label_counts, reader.label_counts
        )
        has_defaults = vote.amounts() == SMOOTHING and int(vote.sample) == _MAX_ROWS
        return has_same_labels and has_defaults


class ChosenTreeVote(NamedTuple):
    """A vote for trees, chosen on folds of the rows."""

    vote: LogLinear
    """Without fitted weights."""
    trials: list[WeightTrial]
    """All that was tried, the best first."""
    weighted_rows: WeightedRows
    """What :func:`fit_tree_weights` fits to, if the examples are all that a model learns."""


@one_blas_thread
def choose_tree_vote(cells: TreeCells, examples: Examples, every_row: TreeInputs) -> ChosenTreeVote:
    """Choose the vote for the trees that examples, whose distinct rows these are, grew."""
    n_rows = _count_rows_to_fit(cells, len(examples.labels), len(SMOOTHING), _MAX_ROWS)
    rows = count_tree_rows(cells, examples, every_row, sample=n_rows)
    weighted_rows = WeightedRows(rows, compute_tree_features(cells, rows), examples.labels)
    trials = try_options(weighted_rows)
    if trials:
        best = trials[0]
    else:
        best = WeightTrial(per_label=False, ridge=_RIDGE, uniform=UNIFORM, loss=0.0)
    vote = LogLinear(
        SMOOTHING,
        per_label=best.per_label,
        ridge=best.ridge,
        sample=_MAX_ROWS,
        steps=_STEPS,
        shared_ridge=_RIDGE,
        uniform=best.uniform,
    )
    return ChosenTreeVote(vote, trials, weighted_rows)


def try_options(weighted_rows: WeightedRows) -> list[WeightTrial]:
    """Return the losses of all options on held-out folds of the rows, the best first."""
    rows = weighted_rows.rows
    features = weighted_rows.features
    min_folds = 1
    if len(rows.labels) > _MAX_CHOICE_ROWS:
        rows = rows.take(np.arange(_MAX_CHOICE_ROWS))
        features = np.ascontiguousarray(features[:, :_MAX_CHOICE_ROWS])
        min_folds = _MIN_CHOICE_FOLDS
    prior = label_shares(rows.label_counts)
    fold_of_row = rows.words % np.uint64(_FOLDS)  # a row stays in its fold when others go
    n_affordable = _FOLDS * _TRIAL_NUMBERS // max(weighted_rows.features.size, 1)
    n_folds = int(np.clip(n_affordable, min_folds, _FOLDS))

    def try_fold(fold: int) -> list[FoldResult]:
        inside = np.flatnonzero(fold_of_row != fold)
        outside = np.flatnonzero(fold_of_row == fold)
        if not len(outside) or len(np.unique(rows.labels[inside])) < 2:
            return []
        weights_of_options = _fit_options(features, rows, inside, prior)
        results = []
        for option, weights in zip(_OPTIONS, weights_of_options, strict=True):
            scores = _compute_scores(features[:, outside], weights, prior)
            probabilities = softmax(scores)
            observed = probabilities[np.arange(len(outside)), rows.labels[outside]]
            result = FoldResult(
                option=option,
                observed=observed,
                is_right=observed >= probabilities.max(axis=1),
                multiplicity=rows.multiplicity[outside],
            )
            results.append(result)
        return results

    tally = FoldTally(len(rows.label_counts), _UNIFORM_SHARES)
    for results in in_threads(try_fold, range(n_folds), advance):
        for result in results:
            tally.add(result)
    return tally.list_trials()


def _fit_options(
    features: NDArray[np.float32], rows: TreeRows, inside: Ints, prior: Floats
) -> list[FittedWeights]:
    """Return the weights of each option: shared ones first, then those of each label from there."""
    minima = _fit_options_to_minima(features, rows, inside, prior)
    if minima is not None:
        return minima
    even = np.full(features.shape[2], 1.0 / features.shape[2])
    fits = CompiledFits.from_features(
        features,
        labels=rows.labels,
        multiplicity=rows.multiplicity,
        prior=prior,
        rows=inside,
    )
    shared = fits.fit(start=even, ridge=_RIDGE, per_label=False, steps=SHARED_STEPS)

    def fit_option(option: WeightOption) -> FittedWeights:
        if not option.per_label:
            return shared
        return fits.fit(start=shared.shared, ridge=option.ridge, per_label=True, steps=_TRIAL_STEPS)

    return in_threads(fit_option, _OPTIONS)


def _fit_options_to_minima(
    features: NDArray[np.float32], rows: TreeRows, inside: Ints, prior: Floats
) -> list[FittedWeights] | None:
    """Return the weights of each option at the minimum of its loss; None where it is not found."""
    n_features = features.shape[2]
    if not OptimalFits.has_few_weights(len(prior), n_features):
        return None  # before features are copied
    fits = OptimalFits(
        features=features[:, inside],
        labels=rows.labels[inside],
        multiplicity=rows.multiplicity[inside],
        prior=prior,
        grid=TRIAL_GRID,
    )
    if not fits.can_fit(_RIDGE):
        return None
    even = np.full(n_features, 1.0 / n_features)
    ridges = [option.ridge for option in _OPTIONS if option.per_label]
    try:
        shared = fits.fit(start=even, ridge=_RIDGE, per_label=False)
        return [shared, *fits.fit_ridges(start=shared.shared, ridges=ridges)]
    except NOT_FOUND:
        return None


def _compute_scores(features: NDArray[np.float32], weights: FittedWeights, prior: Floats) -> Floats:
    """Return the scores of rows: (m, L)."""
    by_label = weights.shared + weights.differences.T
    scores = np.zeros(features.shape[:2])
    for f in range(features.shape[2]):  # in this order; a matrix product has another
        scores += features[:, :, f] * by_label[:, f, None]
    return np.asarray(scores.T + log(prior) + weights.offsets)


def _count_rows_to_fit(cells: TreeCells, n_labels: int, n_amounts: int, sample: int) -> int:
    """Return how many rows weights are fitted to.

    They are the sample, or fewer rows where features would be too many.
    """
    n_features = count_features(cells, n_amounts)
    n_rows = max(_MIN_ROWS, _MAX_NUMBERS // (n_features * max(n_labels, 1)))
    return min(sample, n_rows)


@one_blas_thread
def fit_tree_weights(
    vote: LogLinear,
    cells: TreeCells,
    *,
    sites: Sites,
    examples: Examples,
    seed: int,
    reader: Reader,
    rows_are_all: bool,
    chosen_by: WeightedRows | None = None,
) -> None:
    """Fit the weights of a vote to examples that a reader holds.

    Parameters
    ----------
    vote : LogLinear
        Takes the weights.
    cells : TreeCells
    sites : Sites
    examples : Examples
        Rows as the user gave them.
    seed : int
    reader : Reader
    rows_are_all : bool
        Whether the reader holds nothing else: then estimates of counts are not read.
    chosen_by : WeightedRows, optional
        The rows by which the vote was chosen: if these are all, nothing is read again.
    """
    smoothing = vote.amounts()
    if chosen_by is not None and rows_are_all and chosen_by.are_of(reader, vote):
        weighted_rows = chosen_by
    else:
        n_rows = _count_rows_to_fit(cells, len(reader.labels), len(smoothing), int(vote.sample))
        if rows_are_all and not reader.is_exact:
            every_row = TreeInputs.from_examples(cells.codes, examples, seed)
            rows = count_tree_rows(cells, examples, every_row, sample=n_rows)
        else:
            rows = read_tree_rows(cells, examples, seed, reader, sample=n_rows)
        features = compute_tree_features(cells, rows, smoothing)
        weighted_rows = WeightedRows(rows, features, reader.labels)
    if len(reader.labels) < 2 or not len(weighted_rows.rows.labels):
        return
    fitted = fit_feature_weights(vote, cells, weighted_rows)
    weights = spread_weights(fitted, cells, sites, len(smoothing))
    vote.take_weights(weights.of_sites, reader.labels, sites.n, weights.of_base)


def fit_feature_weights(
    vote: LogLinear, cells: TreeCells, weighted_rows: WeightedRows
) -> FittedWeights:
    """Return the weights of the features of rows; the last feature is the additive base."""
    rows = weighted_rows.rows
    prior = label_shares(rows.label_counts)

    def fit(*, is_bounded: bool) -> FittedWeights:
        optimal = OptimalFits(
            features=weighted_rows.features,
            labels=rows.labels,
            multiplicity=rows.multiplicity,
            prior=prior,
        )
        if not is_bounded and optimal.can_fit(float(vote.ridge)):
            with suppress(*NOT_FOUND):
                return vote.fit_stages(optimal)
        fits = CompiledFits.from_features(
            weighted_rows.features,
            labels=rows.labels,
            multiplicity=rows.multiplicity,
            prior=prior,
            is_bounded=is_bounded,
            tolerance=_TOLERANCE,
        )
        return vote.fit_stages(fits)

    weights = fit(is_bounded=False)
    first_rows = rows.take(np.arange(min(len(rows.labels), _MAX_ANSWERED_ROWS)))
    if _turns_rows_against_labels(cells, first_rows, weights, vote.amounts()):
        weights = fit(is_bounded=True)
    return weights


def _turns_rows_against_labels(
    cells: TreeCells, rows: TreeRows, weights: FittedWeights, smoothing: tuple[float, ...]
) -> bool:
    """Return whether weights answer rows worse than the most frequent label does.

    Rows are answered as a model answers its own rows: by all trees and by all counts. Weights are
    fitted without each row's count and by other trees, so this takes another set of features.
    """
    n_labels = len(rows.label_counts)
    # Nothing is left out of the counts of a label that no cell holds: one more, which all rows get.
    rows_as_asked = replace(
        rows,
        is_out=np.ones_like(rows.is_out),
        labels=np.full(rows.leaves.shape[0], n_labels),
        tree_counts=np.pad(rows.tree_counts, ((0, 0), (0, 1))),
        name_counts=[np.pad(counts, ((0, 0), (0, 1))) for counts in rows.name_counts],
        label_counts=np.append(rows.label_counts, 0),
        base_ratios=np.pad(rows.answered_ratios, ((0, 0), (0, 1))),
    )
    features = compute_tree_features(cells, rows_as_asked, smoothing)[:n_labels]
    scores = _compute_scores(features, weights, label_shares(rows.label_counts))
    answers = scores.argmax(axis=1)
    n_right = rows.multiplicity[answers == rows.labels].sum()
    n_most_frequent = np.bincount(rows.labels, weights=rows.multiplicity).max()
    return bool(n_right < n_most_frequent)


class TreeVoteWeights(NamedTuple):
    """The weights of a log-linear vote with an additive base."""

    of_sites: FittedWeights
    """Of every site and amount of smoothing."""
    of_base: Floats
    """Of the base: the weight for all labels, and what is added for each: (1 + L,)."""


def spread_weights(
    fitted: FittedWeights, cells: TreeCells, sites: Sites, n_amounts: int
) -> TreeVoteWeights:
    """Divide the weights of features among the sites that share them."""
    shares = _make_spread_matrix(cells, sites, n_amounts)
    of_sites = FittedWeights(
        shared=shares @ fitted.shared[:-1],
        differences=shares @ fitted.differences[:-1],
        offsets=fitted.offsets,
    )
    return TreeVoteWeights(of_sites, np.append(fitted.shared[-1], fitted.differences[-1]))


def _make_spread_matrix(cells: TreeCells, sites: Sites, n_amounts: int) -> sparse.csr_array:
    """Return the matrix from the weights of features to those of sites and amounts.

    A tree gets its share of the weight of its kind. The matrix has one entry in each row.
    """
    n_columns = len(cells.kinds)
    n_levels = len(LEVELS)
    kinds = cells.forest.kinds
    trees_of_kind = np.bincount(kinds, minlength=len(KINDS))
    first_name_feature = len(KINDS) * n_levels * n_amounts
    columns: list[int] = []
    values: list[float] = []
    for site in sites.positions:
        if site[0] < n_columns:
            first = first_name_feature + n_amounts * cells.name_sites.index(site)
            value = 1.0
        else:
            tree, level = divmod(site[0] - n_columns, n_levels)
            first = (int(kinds[tree]) * n_levels + level) * n_amounts
            value = 1.0 / int(trees_of_kind[kinds[tree]])
        columns += range(first, first + n_amounts)
        values += [value] * n_amounts
    n_rows = len(columns)
    n_features = count_features(cells, n_amounts)
    entries = (values, (np.arange(n_rows), columns))
    return sparse.csr_array(entries, shape=(n_rows, n_features))
