"""The third step of the rule, weights = weigh(layout, memory, rows): the vote, fitted to what is kept."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from sklearn.base import clone

from hammemo._progress import progress_bar
from hammemo.edits.state import WEIGHTS_FITTED, ModelState, is_in_segments
from hammemo.kernels import AutoSites
from hammemo.kernels.cells import TreeCells
from hammemo.tasks.labels.choose import MIN_FITTED_EXAMPLES
from hammemo.tasks.labels.names import is_auto
from hammemo.votes import LogLinear, Mixture, Vote
from hammemo.votes.tree_weights import fit_tree_weights

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels.sites import Sites
    from hammemo.memories.reader import Reader
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.contexts import Examples
    from hammemo.votes.tree_weights import WeightedRows


def weigh(
    settings: ModelSettings, state: ModelState, learnt: Examples | None = None, known: WeightedRows | None = None
) -> ModelState:
    """Fit the vote to what is kept, or to what was learnt where nothing is kept; not at all if that is too few.

    `known` are the rows that the vote was chosen by: if these are all, they are not read again.
    """
    kept = state.kept
    examples = learnt if kept is None else kept.fitting_sample(state.vote) if len(kept) else None
    if examples is None or not _is_enough(settings, examples):
        return state
    return state.but(vote=fitted_vote(state, examples, known))


def weigh_anew(settings: ModelSettings, state: ModelState) -> ModelState:
    """Fit a vote of the same settings, without what was fitted before."""
    state = weigh(settings, state.but(vote=settings.with_class_weight(clone(state.vote))))
    return with_fitted_weights(settings, state.but(refitted=WEIGHTS_FITTED))


def with_fitted_weights(settings: ModelSettings, state: ModelState) -> ModelState:
    """Note that the weights depend on no forgotten row any more; a layout that was chosen by rows still may."""
    by_rows = state.cells is not None or settings.kernel_is_automatic
    return state.but(stale=state.stale and by_rows and not state.pinned)


def with_forgotten(settings: ModelSettings, state: ModelState, examples: Examples | None) -> ModelState:
    """Note that rows were forgotten; None where it is not known which."""
    witness = state.witness
    if witness is not None and examples is not None:
        witness = witness.plus_examples(examples)
    return state.but(witness=witness, stale=state.stale or depends_on_rows(settings, state))


def depends_on_rows(settings: ModelSettings, state: ModelState) -> bool:
    """Return whether a layout that was chosen, or weights that were fitted, depend on single rows."""
    return state.cells is not None or isinstance(settings.kernel, AutoSites) or bool(state.vote.state())


def with_weights(settings: ModelSettings, state: ModelState, stored: StoredArrays) -> ModelState:
    """Take weights that were fitted to another version of a model; ValueError if they are of another model."""
    vote = clone(state.vote)
    vote.restore(stored, state.sites)
    stored.finish()
    return with_fitted_weights(settings, state.but(vote=vote))


def fitted_vote(
    state: ModelState, examples: Examples, known: WeightedRows | None = None, *, leave_one_out: bool = True
) -> Vote:
    """Return the vote fitted to examples; with `leave_one_out` each is left out of the counts that predict it."""
    vote, memory, cells = state.vote, state.memory, state.cells
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
        reader = rows_to_fit(reader, vote, state.sites, examples)
    with progress_bar("Fitting weights, stages"):
        vote.fit_to(reader, examples, state.sites, seed=memory.seed, leave_one_out=leave_one_out)
    return vote


def rows_to_fit(reader: Reader, vote: Vote, sites: Sites, examples: Examples) -> Reader:
    """Return what weights are fitted with where a table lies in segments: the rows that these examples read.

    Continuation counts need the whole table.
    """
    if not isinstance(vote, Mixture):
        return reader.restrict(examples.contexts)
    return reader if vote.components(sites).continued else reader.restrict(examples.contexts, times=True)


def check_class_weight(state: ModelState) -> None:
    """Refuse a weight of an unknown label in what `fit` learns; after a deletion, a label may have no rows."""
    if isinstance(state.vote, LogLinear):
        state.vote.check_class_weight(state.memory.labels)


def _fit_trees(
    state: ModelState,
    vote: LogLinear,
    cells: TreeCells,
    examples: Examples,
    known: WeightedRows | None,
    *,
    leave_one_out: bool,
) -> None:
    """Fit the weights of trees: to rows that did not grow them."""
    if not leave_one_out:
        raise ValueError("With trees, weights are fitted to stored rows: leave out leave_one_out=False.")
    if not vote.fits_weights:
        return
    kept, memory = state.rows, state.memory
    is_all = kept is not None and kept.holds_all and len(examples) == len(kept)
    parts, reader = (vote, cells, state.sites), memory.static_reader()
    with progress_bar("Fitting weights, stages"):
        fit_tree_weights(*parts, examples, memory.seed, reader, rows_are_all=is_all, known=known)


def _is_enough(settings: ModelSettings, examples: Examples) -> bool:
    """Return whether there are enough examples to fit an automatic vote to; any other is fitted to any number."""
    return not is_auto(settings.vote) or int(examples.multiplicity.sum()) >= MIN_FITTED_EXAMPLES
