"""What a model settles before its first example: its kernel, its memory and its vote, and why these.

A table that is learnt whole can be looked at first (`for_table`), of a stream the first block (`for_stream`); of a
first batch nothing is known (`for_pieces`); and a model that is to be merged with another one takes what that one has
settled (`like`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from hammemo._progress import progress_bar
from hammemo.kernels import AutoSites, PositionalHamming, SiteKernel
from hammemo.kernels.cells import chosen_cells
from hammemo.kernels.selection.auto_sites import MIN_EXAMPLES as MIN_EXAMPLES_TO_CHOOSE
from hammemo.models.automatic import (
    chooses_sites,
    mixture_kernel,
    resolved_kernel,
    resolved_vote,
    stream_kernel,
)
from hammemo.models.names import is_auto
from hammemo.votes import LogLinear, Mixture
from hammemo.votes.choosing import MAX_OWN_WEIGHT_LABELS, HeldOut, WeightTrial, chosen_log_linear
from hammemo.votes.tree_weights import chosen_tree_vote

if TYPE_CHECKING:
    from hammemo.kernels.cells import Cells
    from hammemo.memories import Memory
    from hammemo.models.automatic import StreamFacts
    from hammemo.tokens.contexts import Examples
    from hammemo.votes import Vote


MIN_FITTED_EXAMPLES: Final = MIN_EXAMPLES_TO_CHOOSE
"""Examples from which on an automatic vote is fitted; with fewer every site has weight 1, as in naive Bayes."""

FIRST_BATCH: Final = 200
"""The same for the first batch of examples that come in pieces: it is all that the weights are fitted to."""

PRUNED: Final = 0.003
"""Nats an example that an automatic mixture gives up, three thousandths of a perplexity, to read fewer rows."""


@dataclass(frozen=True)
class Choices:
    """Why the parts of a model are what they are: plain values, so that they can be copied and pickled."""

    kernel: str = "as given"
    memory: str = "as given"
    vote: str = "as given"
    losses: tuple[float, ...] = ()
    """The loss on folds left out after each round of choosing sites."""
    taken: int = 0
    """Which of these rounds was taken."""
    folds: int = 0
    trials: tuple[WeightTrial, ...] = ()
    """What was tried for the vote, the best first."""
    held_out: HeldOut | None = None
    """How good the best one is on the folds; None where nothing was tried."""

    def with_trials(self, trials: list[WeightTrial], vote: Vote) -> Choices:
        """Return the choices with the vote that is the best of some."""
        why = f"auto: {_why(vote)}, the best of {len(trials)} tried"
        held_out = HeldOut.of(trials[0]) if trials else None
        return replace(self, trials=tuple(trials), vote=why, held_out=held_out)


@dataclass(frozen=True, eq=False)
class Axes:
    """The parameters of a model, the memory made already."""

    kernel: Any
    memory: Memory
    vote: Any
    memory_is_auto: bool
    columns: str | None = None
    """The kinds of the columns, where some are numbers or dates."""
    missing_is_cell: bool = True

    def vote_for(self, n_labels: int) -> Vote:
        """Return the vote that these parameters mean."""
        return resolved_vote(self.vote, self.memory, n_labels)

    def reasons(self, choices: Choices, vote: Vote) -> Choices:
        """Return the choices with what is known of "auto" parts."""
        if self.memory_is_auto:
            choices = replace(choices, memory="auto: exact counts")
        if is_auto(self.vote) and choices.vote == "as given":
            choices = replace(choices, vote=f"auto: {_why(vote)}")
        return choices


@dataclass(frozen=True, eq=False)
class Settled:
    """The parts of a model that has learnt nothing yet."""

    kernel: SiteKernel
    memory: Memory
    vote: Vote
    choices: Choices
    cells: Cells | None = None
    """How rows with numbers become contexts; None for a table of names."""


def for_table(axes: Axes, examples: Examples, seed: int, *, quickly: bool = False) -> Settled:
    """Return the parts for a table that is learnt whole: sites, and how they are weighed, may be chosen from it.

    With `quickly`, one fold is held out, however few examples there are.
    """
    vote = axes.vote_for(len(examples.labels))
    kernel = resolved_kernel(axes.kernel, axes.memory, vote)
    cells = None
    if axes.columns is not None:
        grows = isinstance(kernel, AutoSites) and isinstance(vote, LogLinear) and _is_enough(examples)
        cells = chosen_cells(axes.columns, examples, seed, missing_is_cell=axes.missing_is_cell, trees=grows)
        if cells.forest is not None:
            return _for_trees(axes, cells, examples, vote, seed)
        examples = cells.counted(examples)
    if not isinstance(kernel, AutoSites):
        return Settled(kernel, axes.memory, vote, axes.reasons(_of_kernel(axes), vote), cells)
    selection = kernel.choose(examples, seed, folds=1 if quickly else None)
    chosen, n_tuples = selection.kernel, len(selection.tuples)
    choices = Choices(
        kernel=f"auto: single columns, because {selection.reason}"
        if selection.reason
        else f"auto: single columns and {n_tuples} tuples",
        losses=selection.losses,
        taken=selection.taken,
        folds=len(selection.trials),
    )
    if is_auto(axes.vote) and selection.trials:
        n_sites = examples.contexts.h + n_tuples
        with progress_bar("Choosing the vote, folds"):
            vote, trials = chosen_log_linear(selection, len(examples.labels), n_sites)
        choices = choices.with_trials(trials, vote)
    return Settled(chosen, axes.memory, vote, axes.reasons(choices, vote), cells)


def _for_trees(axes: Axes, cells: Cells, examples: Examples, vote: Vote, seed: int) -> Settled:
    """Return the parts for a table whose rows have grown trees."""
    assert cells.forest is not None
    choices = Choices(kernel=f"auto: names, and {cells.forest.n_trees} trees of cuts, for a table with numbers")
    if is_auto(axes.vote):
        with progress_bar("Choosing the vote, folds"):
            vote, trials = chosen_tree_vote(cells, examples, seed)
        choices = choices.with_trials(trials, vote)
    return Settled(SiteKernel(cells.sites()), axes.memory, vote, axes.reasons(choices, vote), cells)


def _is_enough(examples: Examples) -> bool:
    """Return whether there is something that trees can be grown by."""
    return int(examples.multiplicity.sum()) >= MIN_FITTED_EXAMPLES and len(np.unique(examples.label_ranks)) > 1


def for_pieces(axes: Axes, n_labels: int, first: Examples | None = None) -> Settled:
    """Return the parts for what is learnt in pieces: nothing can be chosen from examples that are still to come.

    The ranges of numbers come from the first piece.
    """
    vote = axes.vote_for(n_labels)
    cells = None
    if axes.columns is not None and first is not None:
        cells = chosen_cells(axes.columns, first, 0, missing_is_cell=axes.missing_is_cell, trees=False)
    kernel, choices = resolved_kernel(axes.kernel, axes.memory, vote), _of_kernel(axes)
    if isinstance(kernel, AutoSites):
        kernel = PositionalHamming()
        choices = Choices(kernel="auto: single columns, because it was learnt in pieces")
    return Settled(kernel, axes.memory, vote, axes.reasons(choices, vote), cells)


def for_stream(axes: Axes, h: int, facts: StreamFacts) -> Settled:
    """Return the parts for a stream, by what its first block tells."""
    vote = axes.vote_for(facts.n_labels)
    kernel, choices = resolved_kernel(axes.kernel, axes.memory, vote), _of_kernel(axes)
    if is_auto(axes.vote) and facts.has_many_labels and chooses_sites(axes.memory, vote):
        vote = Mixture(prune=PRUNED, discount="auto" if facts.are_items else 0.0)
        choices = replace(choices, vote=f"auto: a mixture, because there are more than {MAX_OWN_WEIGHT_LABELS} labels")
    if isinstance(kernel, AutoSites) and not is_auto(axes.kernel):
        kernel = PositionalHamming()
        choices = replace(choices, kernel="auto: positions, because it was learnt in pieces")
    elif isinstance(kernel, AutoSites) and isinstance(vote, Mixture):
        kernel = mixture_kernel(h, items=facts.are_items)
        kinds = "histories of items" if facts.are_items else "text"
        choices = replace(choices, kernel=f"auto: for many labels and {kinds}")
    elif isinstance(kernel, AutoSites):
        kernel = stream_kernel(h)
        choices = replace(choices, kernel="auto: positions, suffixes and skip pairs, for a stream")
    return Settled(kernel, axes.memory, vote, axes.reasons(choices, vote))


def like(axes: Axes, layout: Any, n_labels: int) -> Settled:
    """Return the parts of a model that can be merged with a fitted one: its own where they are given, else its."""
    check_is_fitted(layout)
    memory = clone(layout.memory_) if axes.memory_is_auto else axes.memory
    vote = copy.deepcopy(layout.vote_) if is_auto(axes.vote) else axes.vote_for(n_labels)
    if repr(layout.vote_) == repr(vote):
        vote = copy.deepcopy(layout.vote_)  # fitted weights, if it has any
    kernel = resolved_kernel(axes.kernel, memory, vote)
    if is_auto(axes.kernel) or isinstance(kernel, AutoSites):
        kernel = clone(layout.kernel_)
    given = "as in layout="
    return Settled(kernel, memory, vote, Choices(given, given, given), layout._cells)


def _of_kernel(axes: Axes) -> Choices:
    return Choices(kernel="auto: positions") if is_auto(axes.kernel) else Choices()


def _why(vote: Vote) -> str:
    if not vote.has_weights:
        return "a sum, because the memory keeps no rows of counts"
    return "weights for each label" if getattr(vote, "per_label", False) else "weights that all labels share"
