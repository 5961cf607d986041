"""weights = weigh(layout, memory, rows): the vote of a classifier, fitted to what is kept."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING

from sklearn.base import clone

from hammemo._progress import progress_bar
from hammemo.edits.refit import with_fitted_weights
from hammemo.features.cells import TreeCells
from hammemo.kernels import AutoSites
from hammemo.tasks.labels.choose import MIN_FITTED_EXAMPLES
from hammemo.tasks.labels.layout import LabelState, is_in_segments
from hammemo.tasks.labels.names import is_auto
from hammemo.tasks.labels.schedule import FIRST_BATCH
from hammemo.votes import LogLinear, Mixture, Vote
from hammemo.votes.tree_label_weights import fit_tree_weights

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels.sites import Sites
    from hammemo.memories.reader import Reader
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.contexts import Examples
    from hammemo.votes.tree_label_weights import WeightedRows


def weigh(
    settings: ModelSettings,
    state: LabelState,
    learned: Examples | None = None,
    precomputed: WeightedRows | None = None,
) -> Vote:
    """Return the vote fitted to what is kept, or to what was learned where nothing is; as it is if that is too little.

    `precomputed` are the rows that the vote was chosen by: if these are all, they are not read again.
    """
    kept = state.kept
    examples = learned
    if kept is not None:
        examples = kept.fitting_sample(state.vote) if len(kept) else None
    if examples is None or not _is_enough(settings, examples):
        return state.vote
    return fitted_vote(state, examples, precomputed)


def weigh_learned(
    settings: ModelSettings,
    state: LabelState,
    examples: Examples,
    *,
    is_first: bool,
    choose_again: bool,
) -> Vote:
    """Return the vote after a batch of rows: an automatic one is fitted to the first batch, if that is large."""
    del choose_again  # the first batch takes as long as it takes
    if is_first and is_auto(settings.vote) and examples.multiplicity.sum() >= FIRST_BATCH:
        return weigh(settings, state, examples)
    return state.vote


def unfitted(settings: ModelSettings, vote: Vote) -> Vote:
    """Return a vote of the same settings without weights."""
    return settings.with_class_weight(clone(vote))


def depends_on_rows(settings: ModelSettings, state: LabelState) -> bool:
    """Return whether a layout that was chosen, or weights that were fitted, depend on single rows."""
    is_chosen = state.layout.cells is not None or isinstance(settings.kernel, AutoSites)
    return is_chosen or bool(state.vote.state())


def with_weights(settings: ModelSettings, state: LabelState, stored: StoredArrays) -> LabelState:
    """Take weights that were fitted to another version of a model; ValueError if they are of another model."""
    vote = clone(state.vote)
    vote.restore(stored, state.layout.sites)
    stored.finish()
    return with_fitted_weights(settings, state.with_changes(vote=vote))


def fitted_vote(
    state: LabelState,
    examples: Examples,
    known: WeightedRows | None = None,
    *,
    leave_one_out: bool = True,
) -> Vote:
    """Return the vote fitted to examples; with `leave_one_out` each is left out of the counts that predict it."""
    vote, memory, cells = state.vote, state.memory, state.layout.cells
    if not vote.has_weights:
        return vote  # no reader is made
    vote = copy.copy(vote)
    examples = examples if cells is None else cells.learn(examples)
    if isinstance(cells, TreeCells) and isinstance(vote, LogLinear):
        _fit_trees(state, vote, cells, examples, known, leave_one_out=leave_one_out)
        return vote
    examples = examples if cells is None else cells.counted(examples)
    reader = memory.static_reader() if vote.keeps_cases else memory.reader()
    if is_in_segments(memory):
        reader = rows_to_fit(reader, vote, state.layout.sites, examples)
    with progress_bar("Fitting weights, stages"):
        vote.fit_to(
            reader, examples, state.layout.sites, seed=memory.seed, leave_one_out=leave_one_out
        )
    return vote


def rows_to_fit(reader: Reader, vote: Vote, sites: Sites, examples: Examples) -> Reader:
    """Return what weights are fitted with where a table lies in segments: the rows that these examples read.

    Continuation counts need the whole table.
    """
    if not isinstance(vote, Mixture):
        return reader.restrict(examples.contexts)
    return (
        reader
        if vote.components(sites).continued
        else reader.restrict(examples.contexts, times=True)
    )


def check_class_weight(state: LabelState) -> None:
    """Refuse a weight of an unknown label in what `fit` learns; after a deletion, a label may have no rows."""
    if isinstance(state.vote, LogLinear):
        state.vote.check_class_weight(state.memory.labels)


def _fit_trees(
    state: LabelState,
    vote: LogLinear,
    cells: TreeCells,
    examples: Examples,
    known: WeightedRows | None,
    *,
    leave_one_out: bool,
) -> None:
    """Fit the weights of trees: to rows that did not grow them."""
    if not leave_one_out:
        raise ValueError(
            "With trees, weights are fitted to stored rows: leave out leave_one_out=False."
        )
    if not vote.fits_weights:
        return
    kept, memory = state.rows, state.memory
    is_all = kept is not None and kept.holds_all and len(examples) == len(kept)
    reader = memory.static_reader()
    with progress_bar("Fitting weights, stages"):
        fit_tree_weights(
            vote,
            cells,
            sites=state.layout.sites,
            examples=examples,
            seed=memory.seed,
            reader=reader,
            rows_are_all=is_all,
            chosen_by=known,
        )


def _is_enough(settings: ModelSettings, examples: Examples) -> bool:
    """Return whether there are enough examples to fit an automatic vote to; any other is fitted to any number."""
    return not is_auto(settings.vote) or int(examples.multiplicity.sum()) >= MIN_FITTED_EXAMPLES


def warn_of_other_weights(mine: Vote, theirs: Vote) -> None:
    """Say that of two sets of fitted weights one is kept."""
    if mine.state() and theirs.state() and not mine.is_fitted_like(theirs):
        warnings.warn(
            "The two models have different fitted weights: the merged one has those of the left. Fit them to what "
            "both have learnt with refit(), or with fit_vote(X, y).",
            UserWarning,
            stacklevel=4,
        )
