"""layout = choose(rows): what is compared, how numbers are cut, which memory and vote.

A table that is learned whole can be looked at first (`choose`), of a stream the first block or what
is kept (`choose_by_stream`); of a first batch nothing is known (`choose_by_first_rows`); and a
model that is to be merged with another one takes what that one has chosen (`choose_like`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from sklearn.base import clone

from hammemo._progress import progress_bar
from hammemo.edits.task import LayoutPlan
from hammemo.features.cells.choose_cells import (
    MAX_TREE_LABELS,
    GrownCells,
    choose_range_cells,
    grow_tree_cells,
)
from hammemo.features.wide.choose_columns import choose_narrowing, is_wide, refuse_many_names
from hammemo.kernels import AutoSites, PositionalHamming, SiteKernel
from hammemo.kernels.selection.auto_sites import MIN_EXAMPLES as MIN_EXAMPLES_TO_CHOOSE
from hammemo.memories.errors import LayoutError
from hammemo.tasks.labels.automatic import (
    chooses_sites,
    make_kernel,
    mixture_kernel,
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
    from hammemo.features.cells import Cells
    from hammemo.features.wide.narrowing import Narrowing
    from hammemo.kernels.selection.auto_sites import Selection
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
"""Examples from which on an automatic vote is fitted.

With fewer every site has weight 1, as in naive Bayes.
"""

PRUNED: Final = 0.003
"""Nats an example that an automatic mixture gives up, to read fewer rows.

It is three thousandths of a perplexity.
"""

LabelPlan: TypeAlias = "LayoutPlan[Layout, Memory, Vote]"
"""`precomputed` are the rows that a vote for trees was chosen by, as :class:`WeightedRows`.

It is None for other votes.
"""


def choice_rows(kept_examples: KeptRows) -> Examples:
    """Return the kept rows that a layout is chosen by."""
    return kept_examples.lowest(CHOICE_ROWS)


def is_sample_enough(kept_examples: Kept) -> bool:
    """Return whether a layout may be chosen by a sample of the rows as by all of them."""
    return len(kept_examples) >= CHOICE_ROWS


def get_held_out(state: LabelState) -> HeldOut | None:
    """Return how good a model was on the folds by which its layout was chosen.

    None where no folds were, and where `refit` could not measure it again because too few rows are
    kept.
    """
    if state.pinned or not state.chosen_at:
        return None
    kept_examples = state.kept
    if (
        kept_examples is not None
        and not kept_examples.holds_all
        and not is_sample_enough(kept_examples)
    ):
        return None
    return state.layout.choices.held_out


def choose_by_sample(settings: ModelSettings, state: LabelState) -> LabelPlan | None:
    """Return the plan by kept rows, which are not all.

    None where they are too few, or say another layout. A memory that counts rows which are not kept
    stays under its layout, so only the reasons are new.
    """
    if state.rows is None or not is_sample_enough(state.rows):
        return None
    plan = choose(settings, state.columns, choice_rows(state.rows), state.rows.seed)
    cells = state.layout.cells
    cells_of_sample = plan.layout.cells
    if (cells is None) != (cells_of_sample is None) or cells != cells_of_sample:
        return None
    if plan.layout.sites.positions != state.layout.sites.positions:
        return None
    return replace(plan, layout=state.layout._replace(choices=plan.layout.choices))


def keep_layout(state: LabelState) -> Layout:
    """Return the layout of a state, with a note that too few rows were kept to choose it again."""
    layout = state.layout
    command = "fit_stream(…)" if state.rows is None else "refit(rows=…)"
    why = f"{layout.choices.kernel}; choose again: {command}"
    return layout._replace(choices=replace(layout.choices, kernel=why, held_out=None))


def choose(
    settings: ModelSettings,
    columns: Columns,
    examples: Examples,
    seed: int,
    *,
    quickly: bool = False,
) -> LabelPlan:
    """Return the plan for a table that is learned whole.

    Sites, and how they are weighed, may be chosen from it. With `quickly`, one fold is held out,
    however few examples there are.
    """
    if settings.kernel_is_automatic:
        refuse_many_names(columns.kinds)
    draft = _LayoutDraft.from_settings(settings, len(examples.labels))
    if columns.has_ordered:
        chooses_weights = isinstance(draft.kernel, AutoSites) and isinstance(draft.vote, LogLinear)
        grows_trees = chooses_weights and _can_grow_trees(examples)
        narrowing = _choose_narrowing(
            settings, columns, examples, seed=seed, with_scores=grows_trees
        )
        if narrowing is not None:
            examples = narrowing.learn(examples)
        missing_is_cell = settings.missing != "empty"
        if grows_trees:
            grown = grow_tree_cells(
                columns.kinds,
                examples,
                seed,
                missing_is_cell=missing_is_cell,
                narrowing=narrowing,
            )
            draft = _choose_for_trees(settings, draft, grown, examples, seed=seed, quickly=quickly)
            return draft.open(settings, columns, seed)
        cells = choose_range_cells(
            columns.kinds, examples, missing_is_cell=missing_is_cell, narrowing=narrowing
        )
        draft = replace(draft, cells=cells)
        examples = cells.replace_rows(examples)
    if isinstance(draft.kernel, AutoSites):
        selection = draft.kernel.choose(examples, seed, folds=1 if quickly else None)
        draft = _take_selection(settings, draft, selection, examples)
    return draft.open(settings, columns, seed)


def choose_by_first_rows(
    settings: ModelSettings,
    columns: Columns,
    batch: RowBatch | None,
    n_labels: int,
    seed: int,
) -> LabelPlan:
    """Return the plan for what is learned in pieces.

    The first one cuts numbers, and nothing else can be chosen yet.
    """
    if settings.kernel_is_automatic:
        refuse_many_names(columns.kinds)
    draft = _LayoutDraft.from_settings(settings, n_labels)
    if columns.has_ordered and batch is not None:
        examples = batch.examples
        narrowing = _choose_narrowing(settings, columns, examples, seed=seed, with_scores=False)
        if narrowing is not None:
            examples = narrowing.learn(examples)
        cells = choose_range_cells(
            columns.kinds,
            examples,
            missing_is_cell=settings.missing != "empty",
            narrowing=narrowing,
        )
        draft = replace(draft, cells=cells)
    if isinstance(draft.kernel, AutoSites):
        choices = Choices(kernel="auto: single columns, because it was learnt in pieces")
        draft = replace(draft, kernel=PositionalHamming(), choices=choices)
    return draft.open(settings, columns, seed)


def choose_by_stream(
    settings: ModelSettings, columns: Columns, facts: StreamFacts, seed: int
) -> LabelPlan:
    """Return the plan for a stream, by what its first block tells."""
    draft = _LayoutDraft.from_settings(settings, facts.n_labels)
    vote = draft.vote
    kernel = draft.kernel
    choices = draft.choices
    if is_auto(settings.vote) and facts.has_many_labels and chooses_sites(draft.memory, vote):
        vote = Mixture(prune=PRUNED, discount="auto" if facts.are_items else 0.0)
        why = f"auto: a mixture, because there are more than {MAX_OWN_WEIGHT_LABELS} labels"
        choices = replace(choices, vote=why)
    if isinstance(kernel, AutoSites):
        if not is_auto(settings.kernel):
            kernel = PositionalHamming()
            why = "auto: positions, because it was learnt in pieces"
        elif isinstance(vote, Mixture):
            kernel = mixture_kernel(columns.n, items=facts.are_items)
            documents = "histories of items" if facts.are_items else "text"
            why = f"auto: for many labels and {documents}"
        else:
            kernel = stream_kernel(columns.n)
            why = "auto: positions, suffixes and skip pairs, for a stream"
        choices = replace(choices, kernel=why)
    draft = replace(draft, kernel=kernel, vote=vote, choices=choices)
    return draft.open(settings, columns, seed)


def choose_like(
    settings: ModelSettings, columns: Columns, layout: LabelState, n_labels: int
) -> LabelPlan:
    """Return the plan of a model that can be merged with another one.

    Given parts are as given, the others those of the other model.
    """
    if settings.memory_is_auto:
        memory = clone(layout.memory)
    else:
        memory = settings.new_memory()
    if is_auto(settings.vote):
        vote = copy.deepcopy(layout.vote)
    else:
        vote = settings.vote_for(n_labels, memory)
        if repr(layout.vote) == repr(vote):
            vote = copy.deepcopy(layout.vote)  # with fitted weights, if it has any
    kernel = make_kernel(settings.kernel, memory, vote)
    if is_auto(settings.kernel) or isinstance(kernel, AutoSites):
        kernel = clone(layout.layout.kernel)
    why = "as in layout="
    choices = Choices(kernel=why, memory=why, vote=why)
    draft = _LayoutDraft(kernel, memory, vote, choices, cells=layout.layout.cells)
    plan = draft.open(settings, columns, settings.seed(), is_given=True)
    memory = _make_shard(layout.memory, plan.memory)
    return replace(plan, memory=memory, seed=memory.seed)


@dataclass(frozen=True, eq=False)
class _LayoutDraft:
    """The parts of a model before they are put together."""

    kernel: SiteKernel
    memory: Memory
    vote: Vote
    choices: Choices
    cells: Cells | None = None
    weighted: WeightedRows | None = None
    """The rows that the vote was chosen by, where trees grow."""

    @classmethod
    def from_settings(cls, settings: ModelSettings, n_labels: int) -> _LayoutDraft:
        """Return what the parameters say, with an automatic kernel still to be chosen."""
        memory = settings.new_memory()
        vote = settings.vote_for(n_labels, memory)
        choices = Choices()
        if is_auto(settings.kernel):
            choices = Choices(kernel="auto: positions")
        return cls(make_kernel(settings.kernel, memory, vote), memory, vote, choices)

    def open(
        self, settings: ModelSettings, columns: Columns, seed: int, *, is_given: bool = False
    ) -> LabelPlan:
        """Return the plan of these parts.

        It has reasons for what is automatic, unless all of it was given.
        """
        choices = self.choices
        if settings.memory_is_auto and not is_given:
            choices = replace(choices, memory="auto: exact counts")
        if is_auto(settings.vote) and choices.vote == "as given":
            choices = replace(choices, vote=f"auto: {_explain_vote(self.vote)}")
        kernel = self.kernel.with_positions(columns.names)
        vote = settings.with_class_weight(self.vote)
        sites = kernel.resolve(columns.n if self.cells is None else self.cells.h)
        sites.check_size()
        vote.check_reads(sites)
        layout = Layout(kernel, sites, choices, self.cells)
        memory = self.memory.open(sites, seed)
        return LayoutPlan(layout, memory, vote, memory.seed, precomputed=self.weighted)


def _choose_narrowing(
    settings: ModelSettings,
    columns: Columns,
    examples: Examples,
    *,
    seed: int,
    with_scores: bool,
) -> Narrowing | None:
    """Return how the rows of a wide table become narrow.

    None for other tables, and where the kernel is given.
    """
    is_narrowed = settings.kernel_is_automatic and is_wide(columns.kinds)
    if not columns.packed and not is_narrowed:
        return None
    return choose_narrowing(columns, examples, seed, with_scores=with_scores)


def _take_selection(
    settings: ModelSettings, draft: _LayoutDraft, selection: Selection, examples: Examples
) -> _LayoutDraft:
    """Return the parts with the sites of a selection, and the vote that is best on its folds."""
    n_tuples = len(selection.tuples)
    why = f"auto: single columns and {n_tuples} tuples"
    if selection.reason:
        why = f"auto: single columns, because {selection.reason}"
    choices = Choices(
        kernel=why,
        losses=selection.losses,
        taken=selection.taken,
        folds=len(selection.trials),
    )
    vote = draft.vote
    if is_auto(settings.vote) and selection.trials:
        n_sites = examples.contexts.h + n_tuples
        with progress_bar("Choosing the vote, folds"):
            vote, trials = choose_log_linear(selection, len(examples.labels), n_sites)
        choices = choices.with_trials(trials, _explain_vote(vote))
    return replace(draft, kernel=selection.kernel, vote=vote, choices=choices)


def _choose_for_trees(
    settings: ModelSettings,
    draft: _LayoutDraft,
    grown: GrownCells,
    examples: Examples,
    *,
    seed: int,
    quickly: bool,
) -> _LayoutDraft:
    """Return the parts for a table whose rows have grown trees.

    Tuples are chosen from its columns of names alone.
    """
    cells = grown.cells
    choices = Choices()
    if len(cells.names) > 1 and isinstance(draft.kernel, AutoSites):
        contexts = examples.contexts
        ranks_of_names = np.ascontiguousarray(contexts.ranks[:, cells.names])
        names = Contexts.with_ranks(contexts.vocabulary, ranks_of_names)
        selection = draft.kernel.choose(
            replace(examples, contexts=names), seed, folds=1 if quickly else None
        )
        # A selection counts columns of names; the table has others between them.
        tuples = tuple(tuple(cells.names[j] for j in site) for site in selection.tuples)
        cells = replace(cells, tuples=tuples)
        choices = Choices(
            losses=selection.losses, taken=selection.taken, folds=len(selection.trials)
        )
    names_and_tuples = "names"
    if cells.tuples:
        names_and_tuples = f"names, {len(cells.tuples)} tuples of them"
    why = (
        f"auto: {names_and_tuples}, and {cells.forest.n_trees} trees of cuts, "
        "for a table with numbers"
    )
    choices = replace(choices, kernel=why)
    vote = draft.vote
    weighted = None
    if is_auto(settings.vote):
        with progress_bar("Choosing the vote, folds"):
            vote, trials, weighted = choose_tree_vote(cells, examples, grown.rows)
        choices = choices.with_trials(trials, _explain_vote(vote))
    sites = [site[0] if len(site) == 1 else site for site in cells.sites()]
    return replace(
        draft,
        kernel=SiteKernel(sites),
        vote=vote,
        choices=choices,
        cells=cells,
        weighted=weighted,
    )


def _can_grow_trees(examples: Examples) -> bool:
    """Return whether there is something that trees can be grown by: rows of several labels.

    Of very many labels trees say little, and they would take long.
    """
    if len(examples.labels) > MAX_TREE_LABELS:
        return False
    if int(examples.multiplicity.sum()) < MIN_FITTED_EXAMPLES:
        return False
    return len(np.unique(examples.label_ranks)) > 1


def _make_shard(fitted: Memory, memory: Memory) -> Memory:
    """Return an empty memory of the layout of a fitted one, if it is of the kind of `memory`."""
    shard = fitted.empty_like()
    layout = memory.layout()
    shard_layout = shard.layout()
    for name in ("memory", "h", "sites"):
        if layout[name] != shard_layout[name]:
            raise LayoutError(
                "layout= is of another kind: "
                f"{name} is {layout[name]!r} here and {shard_layout[name]!r} there."
            )
    return shard


def _explain_vote(vote: Vote) -> str:
    """Return why "auto" is this vote."""
    if not vote.has_weights:
        return "a sum, because the memory keeps no rows of counts"
    if getattr(vote, "per_label", False):
        return "weights for each label"
    return "weights that all labels share"
