"""weights = weigh(layout, memory, rows): the vote of a classifier, fitted to what is kept."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING

from sklearn.base import clone

from hammemo._progress import progress_bar
from hammemo.edits.refit import note_fitted_weights
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
    """Return the vote fitted to what is kept, or to what was learned where nothing is kept.

    Where that is too little, the vote stays as it is. `precomputed` are the rows that the vote was
    chosen by: if these are all, they are not read again.
    """
    kept_examples = state.kept
    if kept_examples is None:
        examples = learned
    elif len(kept_examples):
        examples = kept_examples.fitting_sample(state.vote)
    else:
        examples = None
    if examples is None or not _is_enough(settings, examples):
        return state.vote
    return fit_vote(state, examples, precomputed)


def weigh_learned(
    settings: ModelSettings,
    state: LabelState,
    examples: Examples,
    *,
    is_first: bool,
    choose_again: bool,
) -> Vote:
    """Return the vote after a batch of rows.

    An automatic one is fitted to the first batch, if that is large.
    """
    del choose_again  # the first batch takes as long as it takes
    if is_first and is_auto(settings.vote) and examples.multiplicity.sum() >= FIRST_BATCH:
        return weigh(settings, state, examples)
    return state.vote


def clear_vote(settings: ModelSettings, vote: Vote) -> Vote:
    """Return a vote of the same settings without weights."""
    return settings.with_class_weight(clone(vote))


def depends_on_rows(settings: ModelSettings, state: LabelState) -> bool:
    """Return whether a chosen layout, or fitted weights, depend on single rows."""
    is_chosen = state.layout.cells is not None or isinstance(settings.kernel, AutoSites)
    return is_chosen or bool(state.vote.state())


def with_weights(settings: ModelSettings, state: LabelState, stored: StoredArrays) -> LabelState:
    """Take weights that were fitted to another version of a model.

    Raises
    ------
    ValueError
        If they are of another model.
    """
    vote = clone(state.vote)
    vote.restore(stored, state.layout.sites)
    stored.finish()
    return note_fitted_weights(settings, state.with_changes(vote=vote))


def fit_vote(
    state: LabelState,
    examples: Examples,
    precomputed: WeightedRows | None = None,
    *,
    leave_one_out: bool = True,
) -> Vote:
    """Return the vote fitted to examples.

    With `leave_one_out` each is left out of the counts that predict it.
    """
    if not state.vote.has_weights:
        return state.vote  # no reader is made
    vote = copy.copy(state.vote)
    memory = state.memory
    sites = state.layout.sites
    cells = state.layout.cells
    if cells is not None:
        examples = cells.learn(examples)
    if isinstance(cells, TreeCells) and isinstance(vote, LogLinear):
        if not leave_one_out:
            raise ValueError(
                "With trees, weights are fitted to stored rows: leave out leave_one_out=False."
            )
        _fit_trees(state, vote, cells, examples, precomputed=precomputed)
        return vote
    if cells is not None:
        examples = cells.replace_rows(examples)
    if vote.keeps_cases:
        reader = memory.static_reader()
    else:
        reader = memory.reader()
    if is_in_segments(memory):
        reader = restrict_reader(reader, vote, sites, examples)
    with progress_bar("Fitting weights, stages"):
        vote.fit_to(reader, examples, sites, seed=memory.seed, leave_one_out=leave_one_out)
    return vote


def restrict_reader(reader: Reader, vote: Vote, sites: Sites, examples: Examples) -> Reader:
    """Return the rows of a table in segments that examples read, which is what weights need.

    Continuation counts need the whole table.
    """
    if not isinstance(vote, Mixture):
        return reader.restrict(examples.contexts)
    if vote.components(sites).continued:
        return reader
    return reader.restrict(examples.contexts, with_histogram=True)


def check_fit(state: LabelState) -> None:
    """Refuse a weight of an unknown label in what `fit` learns.

    After a deletion, a label may have no rows: then weights are not checked.
    """
    if isinstance(state.vote, LogLinear):
        state.vote.check_class_weight(state.memory.labels)


def _fit_trees(
    state: LabelState,
    vote: LogLinear,
    cells: TreeCells,
    examples: Examples,
    *,
    precomputed: WeightedRows | None,
) -> None:
    """Fit the weights of trees: to rows that did not grow them."""
    if not vote.fits_weights:
        return
    kept_examples = state.rows
    is_all = (
        kept_examples is not None
        and kept_examples.holds_all
        and len(examples) == len(kept_examples)
    )
    with progress_bar("Fitting weights, stages"):
        fit_tree_weights(
            vote,
            cells,
            sites=state.layout.sites,
            examples=examples,
            seed=state.memory.seed,
            reader=state.memory.static_reader(),
            rows_are_all=is_all,
            chosen_by=precomputed,
        )


def _is_enough(settings: ModelSettings, examples: Examples) -> bool:
    """Return whether there are enough examples to fit an automatic vote to.

    Any other vote is fitted to any number.
    """
    return not is_auto(settings.vote) or int(examples.multiplicity.sum()) >= MIN_FITTED_EXAMPLES


def warn_of_other_weights(left: Vote, right: Vote) -> None:
    """Say that of two sets of fitted weights one is kept."""
    if left.state() and right.state() and not left.is_fitted_like(right):
        warnings.warn(
            "The two models have different fitted weights: the merged one has those of the left. "
            "Fit them to what both have learnt with refit(), or with fit_vote(X, y).",
            UserWarning,
            stacklevel=4,
        )
