"""layout = choose(rows): what is compared, how numbers are cut, which memory and vote.

A table that is learnt whole can be looked at first (`choose`), of a stream the first block or what is kept
(`choose_by_stream`); of a first batch nothing is known (`choose_by_first_rows`); and a model that is to be merged with
another one takes what that one has chosen (`choose_like`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from sklearn.base import clone

from hammemo._progress import progress_bar
from hammemo.edits.task import LayoutPlan
from hammemo.features.cells import Cells, TreeCells, chosen_cells
from hammemo.features.wide.choose_columns import choose_narrowing, is_wide, refuse_many_names
from hammemo.kernels import AutoSites, PositionalHamming, SiteKernel
from hammemo.kernels.selection.auto_sites import MIN_EXAMPLES as MIN_EXAMPLES_TO_CHOOSE
from hammemo.memories.errors import LayoutError
from hammemo.tasks.labels.automatic import (
    chooses_sites,
    mixture_kernel,
    resolved_kernel,
    stream_kernel,
)
from hammemo.tasks.labels.layout import Choices, LabelState, Layout
from hammemo.tasks.labels.names import is_auto
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.votes import LogLinear, Mixture, Vote
from hammemo.votes.choose_weights import MAX_OWN_WEIGHT_LABELS, HeldOut, choose_log_linear
from hammemo.votes.tree_label_weights import choose_tree_vote

if TYPE_CHECKING:
    from hammemo.edits.task import RowBatch
    from hammemo.features.wide.narrowing import Narrowing
    from hammemo.memories import Memory
    from hammemo.stores.kept import Kept
    from hammemo.stores.kept_documents import StreamFacts
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.columns import Columns
    from hammemo.votes.tree_label_weights import WeightedRows

CHOICE_ROWS: Final = 2**17
"""Sites are chosen by the kept rows with the lowest hashes, at most this number of rows."""

MIN_FITTED_EXAMPLES: Final = MIN_EXAMPLES_TO_CHOOSE
"""Examples from which on an automatic vote is fitted; with fewer every site has weight 1, as in naive Bayes."""

PRUNED: Final = 0.003
"""Nats an example that an automatic mixture gives up, three thousandths of a perplexity, to read fewer rows."""


LabelPlan: TypeAlias = "LayoutPlan[Layout, Memory, Vote]"
"""`precomputed` are the rows that a vote for trees was chosen by, as :class:`WeightedRows`; None for other votes."""


def choice_rows(kept: KeptRows) -> Examples:
    """Return the kept rows that a layout is chosen by."""
    return kept.lowest(CHOICE_ROWS)


def is_sample_enough(kept: Kept) -> bool:
    """Return whether a layout may be chosen by a sample of the rows as by all of them."""
    return len(kept) >= CHOICE_ROWS


def held_out(state: LabelState) -> HeldOut | None:
    """Return how good a model was on the folds by which its layout was chosen.

    None where no folds were, and where `refit` could not measure it again because too few rows are kept.
    """
    kept = state.kept
    is_lost = kept is not None and not kept.holds_all and not is_sample_enough(kept)
    return None if state.pinned or not state.chosen_at or is_lost else state.layout.choices.held_out


def choose_by_sample(settings: ModelSettings, state: LabelState) -> LabelPlan | None:
    """Return the plan by kept rows, which are not all; None where they are too few, or say another layout.

    A memory that counts rows which are not kept stays under its layout, so only the reasons are new.
    """
    if state.rows is None or not is_sample_enough(state.rows):
        return None
    plan = choose(settings, state.columns, choice_rows(state.rows), state.rows.seed)
    mine, theirs = state.layout.cells, plan.layout.cells
    if (mine is None) != (theirs is None) or mine != theirs:
        return None
    if plan.layout.sites.positions != state.layout.sites.positions:
        return None
    return replace(plan, layout=state.layout._replace(choices=plan.layout.choices))


def keep_layout(state: LabelState) -> Layout:
    """Return the layout of a state with a note that too few rows or documents were kept to choose it again."""
    layout = state.layout
    how = "fit_stream(…)" if state.rows is None else "refit(rows=…)"
    why = f"{layout.choices.kernel}; choose again: {how}"
    return layout._replace(choices=replace(layout.choices, kernel=why, held_out=None))


def choose(
    settings: ModelSettings,
    columns: Columns,
    examples: Examples,
    seed: int,
    *,
    quickly: bool = False,
) -> LabelPlan:
    """Return the plan for a table that is learnt whole: sites, and how they are weighed, may be chosen from it.

    With `quickly`, one fold is held out, however few examples there are.
    """
    if settings.kernel_is_automatic:
        refuse_many_names(columns.kinds)
    chosen = _Chosen.begun(settings, len(examples.labels))
    if columns.has_ordered:
        grows = (
            isinstance(chosen.kernel, AutoSites)
            and isinstance(chosen.vote, LogLinear)
            and _is_enough(examples)
        )
        narrowing = _narrowing(settings, columns, examples, seed, with_scores=grows)
        examples = examples if narrowing is None else narrowing.learn(examples)
        cells = chosen_cells(
            columns.kinds,
            examples,
            seed,
            missing_is_cell=settings.missing != "empty",
            trees=grows,
            narrowing=narrowing,
        )
        chosen = replace(chosen, cells=cells)
        if isinstance(cells, TreeCells):
            chosen = _by_trees(settings, chosen, cells, examples, seed, quickly=quickly)
            return chosen.opened(settings, columns, seed)
        examples = cells.counted(examples)
    if not isinstance(chosen.kernel, AutoSites):
        return chosen.opened(settings, columns, seed)
    selection = chosen.kernel.choose(examples, seed, folds=1 if quickly else None)
    n_tuples = len(selection.tuples)
    choices = Choices(
        kernel=f"auto: single columns, because {selection.reason}"
        if selection.reason
        else f"auto: single columns and {n_tuples} tuples",
        losses=selection.losses,
        taken=selection.taken,
        folds=len(selection.trials),
    )
    vote = chosen.vote
    if is_auto(settings.vote) and selection.trials:
        n_sites = examples.contexts.h + n_tuples
        with progress_bar("Choosing the vote, folds"):
            vote, trials = choose_log_linear(selection, len(examples.labels), n_sites)
        choices = choices.with_trials(trials, _why(vote))
    chosen = replace(chosen, kernel=selection.kernel, vote=vote, choices=choices)
    return chosen.opened(settings, columns, seed)


def choose_by_first_rows(
    settings: ModelSettings, columns: Columns, batch: RowBatch | None, n_labels: int, seed: int
) -> LabelPlan:
    """Return the plan for what is learned in pieces: the first one cuts numbers, and nothing else can be chosen yet."""
    if settings.kernel_is_automatic:
        refuse_many_names(columns.kinds)
    chosen = _Chosen.begun(settings, n_labels)
    if columns.has_ordered and batch is not None:
        narrowing = _narrowing(settings, columns, batch.examples, seed, with_scores=False)
        first = batch.examples if narrowing is None else narrowing.learn(batch.examples)
        is_cell = settings.missing != "empty"
        cells = chosen_cells(
            columns.kinds, first, 0, missing_is_cell=is_cell, trees=False, narrowing=narrowing
        )
        chosen = replace(chosen, cells=cells)
    if isinstance(chosen.kernel, AutoSites):
        choices = Choices(kernel="auto: single columns, because it was learnt in pieces")
        chosen = replace(chosen, kernel=PositionalHamming(), choices=choices)
    return chosen.opened(settings, columns, seed)


def _narrowing(
    settings: ModelSettings,
    columns: Columns,
    examples: Examples,
    seed: int,
    *,
    with_scores: bool,
) -> Narrowing | None:
    """Return how the rows of a wide table become narrow; None for other tables, and where the kernel is given."""
    if not (columns.packed or (settings.kernel_is_automatic and is_wide(columns.kinds))):
        return None
    return choose_narrowing(columns, examples, seed, with_scores=with_scores)


def choose_by_stream(
    settings: ModelSettings, columns: Columns, facts: StreamFacts, seed: int
) -> LabelPlan:
    """Return the plan for a stream, by what its first block tells."""
    chosen = _Chosen.begun(settings, facts.n_labels)
    vote, kernel, choices = chosen.vote, chosen.kernel, chosen.choices
    if is_auto(settings.vote) and facts.has_many_labels and chooses_sites(chosen.memory, vote):
        vote = Mixture(prune=PRUNED, discount="auto" if facts.are_items else 0.0)
        choices = replace(
            choices,
            vote=f"auto: a mixture, because there are more than {MAX_OWN_WEIGHT_LABELS} labels",
        )
    if isinstance(kernel, AutoSites) and not is_auto(settings.kernel):
        kernel = PositionalHamming()
        choices = replace(choices, kernel="auto: positions, because it was learnt in pieces")
    elif isinstance(kernel, AutoSites) and isinstance(vote, Mixture):
        kernel = mixture_kernel(columns.n, items=facts.are_items)
        kinds = "histories of items" if facts.are_items else "text"
        choices = replace(choices, kernel=f"auto: for many labels and {kinds}")
    elif isinstance(kernel, AutoSites):
        kernel = stream_kernel(columns.n)
        choices = replace(choices, kernel="auto: positions, suffixes and skip pairs, for a stream")
    return replace(chosen, kernel=kernel, vote=vote, choices=choices).opened(
        settings, columns, seed
    )


def choose_like(
    settings: ModelSettings, columns: Columns, layout: LabelState, n_labels: int
) -> LabelPlan:
    """Return the plan of a model that can be merged with another one: given parts as given, else those of the other."""
    memory = clone(layout.memory) if settings.memory_is_auto else settings.new_memory()
    vote = (
        copy.deepcopy(layout.vote)
        if is_auto(settings.vote)
        else settings.vote_for(n_labels, memory)
    )
    if repr(layout.vote) == repr(vote):
        vote = copy.deepcopy(layout.vote)  # fitted weights, if it has any
    kernel = resolved_kernel(settings.kernel, memory, vote)
    if is_auto(settings.kernel) or isinstance(kernel, AutoSites):
        kernel = clone(layout.layout.kernel)
    given = "as in layout="
    chosen = _Chosen(kernel, memory, vote, Choices(given, given, given), layout.layout.cells)
    plan = chosen.opened(settings, columns, settings.seed(), given=True)
    memory = _shard_of(layout.memory, plan.memory)
    return replace(plan, memory=memory, seed=memory.seed)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The parts of a model before they are put together."""

    kernel: SiteKernel
    memory: Memory
    vote: Vote
    choices: Choices
    cells: Cells | None = None
    weighted: WeightedRows | None = None

    @classmethod
    def begun(cls, settings: ModelSettings, n_labels: int) -> _Chosen:
        """Return what the parameters say, with an automatic kernel still to be chosen."""
        memory = settings.new_memory()
        vote = settings.vote_for(n_labels, memory)
        choices = Choices(kernel="auto: positions") if is_auto(settings.kernel) else Choices()
        return cls(resolved_kernel(settings.kernel, memory, vote), memory, vote, choices)

    def opened(
        self, settings: ModelSettings, columns: Columns, seed: int, *, given: bool = False
    ) -> LabelPlan:
        """Return the plan of these parts, with reasons for what is automatic, unless all of it was given."""
        choices = self.choices
        if settings.memory_is_auto and not given:
            choices = replace(choices, memory="auto: exact counts")
        if is_auto(settings.vote) and choices.vote == "as given":
            choices = replace(choices, vote=f"auto: {_why(self.vote)}")
        kernel, vote = self.kernel.named(columns.names), settings.with_class_weight(self.vote)
        sites = kernel.resolve(columns.n if self.cells is None else self.cells.h)
        sites.check_size()
        vote.check_reads(sites)
        layout = Layout(kernel, sites, choices, self.cells)
        memory = self.memory.open(sites, seed)
        return LayoutPlan(layout, memory, vote, memory.seed, self.weighted)


def _by_trees(
    settings: ModelSettings,
    chosen: _Chosen,
    cells: TreeCells,
    examples: Examples,
    seed: int,
    *,
    quickly: bool,
) -> _Chosen:
    """Return the parts for a table whose rows have grown trees; tuples are chosen from its columns of names alone."""
    found = Choices()
    if len(cells.names) > 1 and isinstance(chosen.kernel, AutoSites):
        contexts = examples.contexts
        of_names = Contexts.with_ranks(
            contexts.vocabulary, np.ascontiguousarray(contexts.ranks[:, cells.names])
        )
        selection = chosen.kernel.choose(
            replace(examples, contexts=of_names), seed, folds=1 if quickly else None
        )
        tuples = tuple(tuple(cells.names[j] for j in site) for site in selection.tuples)
        cells = replace(cells, tuples=tuples)
        found = Choices(losses=selection.losses, taken=selection.taken, folds=len(selection.trials))
    tuples_too = f", {len(cells.tuples)} tuples of them" if cells.tuples else ""
    why = f"auto: names{tuples_too}, and {cells.forest.n_trees} trees of cuts, for a table with numbers"
    choices = replace(found, kernel=why)
    vote, weighted = chosen.vote, None
    if is_auto(settings.vote):
        with progress_bar("Choosing the vote, folds"):
            vote, trials, weighted = choose_tree_vote(cells, examples, seed)
        choices = choices.with_trials(trials, _why(vote))
    return replace(
        chosen,
        kernel=SiteKernel([site[0] if len(site) == 1 else site for site in cells.sites()]),
        vote=vote,
        choices=choices,
        cells=cells,
        weighted=weighted,
    )


def _is_enough(examples: Examples) -> bool:
    """Return whether there is something that trees can be grown by."""
    return (
        int(examples.multiplicity.sum()) >= MIN_FITTED_EXAMPLES
        and len(np.unique(examples.label_ranks)) > 1
    )


def _shard_of(fitted: Memory, memory: Memory) -> Memory:
    """Return an empty memory of the layout of a fitted one, if it is of the same kind as `memory`."""
    shard = fitted.empty_like()
    mine, theirs = memory.layout(), shard.layout()
    for name in ("memory", "h", "sites"):
        if mine[name] != theirs[name]:
            raise LayoutError(
                f"layout= is of another kind: {name} is {mine[name]!r} here and {theirs[name]!r} there."
            )
    return shard


def _why(vote: Vote) -> str:
    if not vote.has_weights:
        return "a sum, because the memory keeps no rows of counts"
    return (
        "weights for each label"
        if getattr(vote, "per_label", False)
        else "weights that all labels share"
    )
