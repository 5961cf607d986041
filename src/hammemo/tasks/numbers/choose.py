"""Edits of a model of numbers, from one state to the next: `choose`, `count` and `weigh`, and what is made of them.

As in the classifier, the layout is a function of the kept rows, the memory a sum over rows under it, and the vote a
function of the kept rows and the memory. A target is kept as the label of its row.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.wide_sums import exact_sum
from hammemo._progress import progress_bar
from hammemo.edits.column_changes import (
    decided_by_rows,
    decided_by_tables,
    decided_with,
    rows_of,
    undecided,
    waits_for,
    with_kinds,
)
from hammemo.edits.learn import refuse_to_record
from hammemo.edits.learn_one import one_row
from hammemo.edits.merge import as_kinds_of, store_with, with_same_kinds
from hammemo.edits.refit import pairs_of
from hammemo.edits.state import EVERYTHING_FITTED, WEIGHTS_FITTED
from hammemo.explain.explanations import one_context
from hammemo.kernels.additive import Gram, number_base
from hammemo.kernels.additive.fit_numbers import check_row_total
from hammemo.kernels.cells.choosing import GROWING_ROWS
from hammemo.kernels.cells.codes import ColumnCodes
from hammemo.kernels.cells.error_sizes import ErrorSizes
from hammemo.kernels.cells.forest import grown_forest
from hammemo.kernels.cells.number_trees import FITTED_ROWS, N_FEATURES
from hammemo.kernels.wide.choose import choose_narrowing, is_wide
from hammemo.memories.errors import LayoutError, never_stored, not_held
from hammemo.tasks.numbers.errors import ask_trees, find_out_of_bag
from hammemo.tasks.numbers.sums import (
    NUMBER_TREES,
    NumberLayout,
    NumberMemory,
    NumberRows,
    NumberState,
    NumberVote,
    TargetTooFarError,
    choose_exponent,
    targets_of,
    what_is_left,
    whole_targets,
)
from hammemo.tokens.contexts import Examples, check_column_names, joined_examples
from hammemo.tokens.token_types import TokenTypes
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.votes.number_answers import SeenRows
from hammemo.votes.number_weights import fit_weights, unseen_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.types import Floats
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tasks.labels.settings import NumberSettings
    from hammemo.tokens.column_schema import ColumnSchema
    from hammemo.tokens.user_input import CheckedRows

_LARGEST: Final = 2**31 - 1
"""What trees grow by has 31 bits."""
FIRST_ROWS: Final = 200
"""A choice by fewer rows is provisional: it is made again whenever rows have doubled, by `learn_one` too."""
_LEAST_SQUARES: Final = 2**40
"""A unit is too coarse where the squared distances of targets from their mean add up to less. When the unit was chosen,
they added up to 2^49 at least, because one target was 2^25 units away from the median: so it cannot happen at once."""
_COARSER_BITS: Final = 16
"""A unit that becomes so much coarser leaves fewer than 1,024 units to the targets that chose the former one."""
_MORE_ROWS: Final = 1.5
"""With so many times as many rows the vote is fitted again: weights make up for the shrinkage of small cells."""

NO_VOTE: Final = NumberVote(np.zeros((len(NUMBER_TREES), N_FEATURES)), np.array([1.0, 0.0]))


def fit(settings: NumberSettings, before: NumberState | None, rows: CheckedRows) -> NumberState:
    """Learn rows that are all that there is, so that everything is chosen by them."""
    refuse_to_record(before)
    settings.bounds.refuse_outside(rows.labels)
    examples = rows.examples()
    if not len(examples):
        raise ValueError("There is nothing to learn: every sample_weight is zero.")
    check_column_names(() if rows.columns.names is None else rows.columns.names)
    columns = replace(rows.columns, learnt=TokenTypes.of(examples.contexts))
    return _fit_examples(settings, columns, examples, settings.seed())


def _fit_examples(
    settings: NumberSettings, columns: ColumnSchema, examples: Examples, seed: int, kept: KeptRows | None = None
) -> NumberState:
    """Choose by examples, count them and fit the vote; `kept` are these rows, where they are kept already."""
    check_row_total(0, int(examples.multiplicity.sum()))
    settings.bounds.refuse_outside(targets_of(examples), are_kept=True)
    room = settings.empty_store(columns.width, seed)
    if kept is None or kept.most != room.most:
        kept = room.edit(examples, 1)
    if not len(kept):
        return _of_nothing(columns, seed, kept)

    def counted(layout: NumberLayout) -> NumberMemory:
        return NumberMemory.empty(layout).changed(layout, NumberRows.of(layout, examples, seed), 1)

    return fit_counted(settings, columns, kept, seed, counted, all_targets=targets_of(examples))


def fit_counted(
    settings: NumberSettings,
    columns: ColumnSchema,
    kept: KeptRows,
    seed: int,
    count: Callable[[NumberLayout], NumberMemory],
    all_targets: Floats | None = None,
) -> NumberState:
    """Choose by kept rows and fit the vote to them; where they are not all rows, `count` counts all under a layout.

    `all_targets` choose the unit where those of the kept rows are all equal.
    """
    layout, rows, gram = _chosen(columns, kept.examples(), seed)
    if all_targets is not None and not layout.has_unit:
        layout = layout.with_unit_for(all_targets)
    memory = NumberMemory.empty(layout).changed(layout, rows, 1, gram) if kept.holds_all else count(layout)
    vote = _weighed(layout, memory, rows, seed)
    store = None if settings.keep is False else kept
    state = NumberState(layout, memory, vote, columns, seed, store, chosen_at=memory.gram.n)
    return state.but(refitted=EVERYTHING_FITTED)


def _of_nothing(columns: ColumnSchema, seed: int, kept: KeptRows | None) -> NumberState:
    """Return a state without rows, whose layout depends on none: it is chosen by one row without values."""
    row = Examples.of(np.full((1, columns.width), NO_TOKEN), [0])
    layout, *_ = _chosen(columns, row, seed)
    state = NumberState(layout, NumberMemory.empty(layout), NO_VOTE, columns, seed, kept)
    return state.but(refitted=EVERYTHING_FITTED)


def _chosen(columns: ColumnSchema, examples: Examples, seed: int) -> tuple[NumberLayout, NumberRows, Gram]:
    """Return the layout that examples choose, the distinct rows of it in the order of hashes, and their matrix."""
    kinds = columns.letters
    narrowing = None
    n_scores = 0
    if columns.packed or is_wide(kinds):
        narrowing = choose_narrowing(columns, examples, seed, targets=targets_of(examples))
        examples = narrowing.learn(examples)
        kinds = narrowing.narrow_kinds
        n_scores = narrowing.n_scores
    no_pairs, of_examples = np.empty((0, 2), np.int64), (examples.contexts, examples.multiplicity)
    codes = ColumnCodes.chosen(kinds, *of_examples, no_pairs, seed).with_even_cuts(n_scores, examples.contexts)
    places, words, counts = codes.distinct(examples, seed)
    targets = targets_of(examples)[places]
    center = float(np.sort(targets)[len(targets) // 2])
    exponent = choose_exponent(float(np.abs(targets - center).max()))
    rows, whole = SeenRows(codes, examples.contexts[places]), whole_targets(targets, center, exponent)
    with progress_bar("Fitting the additive base"):
        base, gram = number_base(codes, rows.values, rows.names, whole, counts, words)
    mean = exact_sum(whole, counts) // int(counts.sum())
    left, m = what_is_left(base, mean, rows, whole, words), min(len(targets), GROWING_ROWS)
    seen, of_rows = (np.ascontiguousarray(rows.codes[:m].T), codes.is_name), (counts[:m], words[:m])
    forests = []
    for own, rules in zip(left, NUMBER_TREES, strict=True):
        with progress_bar("Growing trees"):
            grown_by = np.clip(own[:m], -_LARGEST, _LARGEST)
            forests.append(grown_forest(*seen, grown_by, *of_rows, len(codes.is_name), seed, rules))
    layout = NumberLayout(codes, center, exponent, base, mean, tuple(forests), int(words[m - 1]), narrowing)
    leaves = tuple(forest.leaves(rows.codes) for forest in forests)
    return layout, NumberRows(rows, whole, left, leaves, words, counts), gram


def _weighed(layout: NumberLayout, memory: NumberMemory, rows: NumberRows, seed: int) -> NumberVote:
    """Return the vote that is fitted to kept rows: each is judged by trees that it did not grow, without itself."""
    unseen = find_out_of_bag(layout, rows)
    chosen = unseen.places[:FITTED_ROWS]
    vote, errors = NO_VOTE, rows.left[0].astype(np.float64)
    with progress_bar("Fitting weights"):
        if len(chosen):
            asked = ask_trees(layout, memory, rows, unseen.take_first(len(chosen)))
            fitted = fit_weights(asked)
            errors = unseen_errors(asked, fitted)
            vote = NumberVote(fitted.weights, fitted.blend)
        else:  # too few rows: the base alone
            chosen = np.arange(len(rows.whole))
        seen = rows.rows.codes[chosen], layout.codes.is_name
        sizes = ErrorSizes.chosen(*seen, errors, rows.counts[chosen], rows.words[chosen], seed)
    return replace(vote, errors=sizes, rows=memory.gram.n)


def weigh(state: NumberState) -> NumberState:
    """Fit the vote to the kept rows."""
    if state.rows is None or not len(state.rows) or state.holds_nothing:
        return state
    rows = NumberRows.of(state.layout, state.rows.examples(), state.seed)
    return state.but(vote=_weighed(state.layout, state.memory, rows, state.seed), refitted=WEIGHTS_FITTED)


def learn(
    settings: NumberSettings, before: NumberState | None, rows: CheckedRows, *, choose_again: bool = True
) -> NumberState:
    """Learn a batch of rows; with `choose_again`, choose by all rows where they have doubled since the last choice."""
    if before is None:
        return fit(settings, None, rows)
    refuse_to_record(before)
    settings.bounds.refuse_outside(rows.labels)
    examples = rows.examples()
    if before.holds_nothing and len(examples) and not before.pinned:
        columns = replace(before.columns, learnt=TokenTypes.of(examples.contexts))
        return _fit_examples(settings, columns, examples, before.seed).but(**before.carried)
    columns = before.columns.also_learnt(TokenTypes.of(examples.contexts), first=before.holds_nothing)
    state = _learn_examples(settings, before.but(columns=columns), examples, choose_again=choose_again)
    if not choose_again or state.pinned:
        return state
    if state.can_choose and (state.n_examples >= 2 * state.chosen_at or _has_coarse_unit(state)):
        return _fit_kept(settings, state)
    return weigh(state).but(refitted=frozenset()) if state.n_examples >= _MORE_ROWS * state.vote.rows else state


def _learn_examples(
    settings: NumberSettings, state: NumberState, examples: Examples, *, choose_again: bool
) -> NumberState:
    """Count examples, with another unit where their targets need one.

    With `choose_again`, a model that keeps all its rows chooses everything again where a target does not fit. Else a
    layout without a unit takes the one of these targets, and a layout with a unit refuses them.
    """
    try:
        return _changed(state, examples, 1)
    except TargetTooFarError:
        if choose_again and state.can_choose:
            assert state.store is not None
            with_all = state.but(store=state.store.edit(examples, 1))
            if with_all.can_choose:
                return _with_coarser_unit(state, _fit_kept(settings, with_all), examples)
        if state.layout.has_unit:
            raise
    layout = state.layout.with_unit_for(targets_of(examples))
    return _changed(state.but(layout=layout), examples, 1)


def _count_examples(state: NumberState, examples: Examples) -> NumberState:
    """Return the state with examples in its memory, not among its kept rows."""
    layout = state.layout
    if not layout.has_unit:
        layout = layout.with_unit_for(targets_of(examples))
    rows = NumberRows.of(layout, examples, state.seed)
    return state.but(layout=layout, memory=state.memory.changed(layout, rows, 1))


def _with_coarser_unit(before: NumberState, after: NumberState, examples: Examples) -> NumberState:
    """Return the state after a choice that a far target has made, and warn where it leaves little of the others."""
    lost_bits = before.layout.exponent - after.layout.exponent
    if before.layout.has_unit and after.layout.has_unit and lost_bits > _COARSER_BITS:
        targets = targets_of(examples)
        worst = float(targets[np.argmax(np.abs(targets - before.layout.center))])
        warnings.warn(
            f"The target {worst:.6g} is more than {2**_COARSER_BITS:,} times as far from the other targets as any "
            f"before, and everything was chosen again: targets are now whole numbers of {after.layout.unit:.2g}, so "
            "that smaller differences are lost. If it is a mistake, forget this row and call refit().",
            UserWarning,
            stacklevel=2,
        )
    return after


def _has_coarse_unit(state: NumberState) -> bool:
    """Return whether the far targets by which the unit was chosen have gone, so that it rounds those that are left."""
    gram = state.memory.gram
    return state.layout.has_unit and gram.deviations < _LEAST_SQUARES * gram.n


def admit(settings: NumberSettings, state: NumberState, X: Any, *, choose_again: bool = True) -> NumberState:
    """Let a table that is to be learnt decide kinds of columns, and choose by the rows as of these kinds."""
    columns = decided_with(settings, state, X, choose=choose_again)
    return state if columns is state.columns else _of_columns(settings, state, columns)


def _of_columns(settings: NumberSettings, state: NumberState, columns: ColumnSchema) -> NumberState:
    """Return a state whose columns have other types, or are of other kinds: then all is chosen again."""
    if columns.letters == state.columns.letters or state.rows is None or not len(state.rows):
        return state.but(columns=columns)
    known = state.columns.with_types_of(columns)
    columns, store = with_kinds(settings, known, state.rows, columns.letters)
    again = _fit_examples(settings, columns, rows_of(store), state.seed, store.kept_rows)
    return again.but(**state.carried, refitted=frozenset())


def _changed(state: NumberState, examples: Examples, sign: int) -> NumberState:
    """Return the state with examples learned or, with sign -1, forgotten; TargetTooFarError where one has no room."""
    try:
        rows = NumberRows.of(state.layout, examples, state.seed)
    except TargetTooFarError:
        if sign > 0:
            raise
        raise never_stored() from None  # it did not fit in this unit
    memory = state.memory.changed(state.layout, rows, sign)
    store = None if state.store is None else state.store.edit(examples, sign)
    return state.but(memory=memory, store=store)


def forget(state: NumberState, examples: Examples) -> NumberState:
    """Remove examples: all of them, or `NotStoredError` is raised. Layout and vote stay until a refit."""
    lacking = state.rows.lacking(examples) if state.rows is not None and state.rows.holds_all else []
    if lacking:
        raise not_held(lacking, len(examples))
    return _with_forgotten(_changed(state, examples, -1), examples) if len(examples) else state


def _with_forgotten(state: NumberState, examples: Examples | None) -> NumberState:
    witness = state.witness
    if witness is not None and examples is not None:
        witness = witness.plus_examples(examples)
    return state.but(witness=witness, stale=True)


def change_one(settings: NumberSettings, state: NumberState, row: Sequence[Any], target: float, by: int) -> NumberState:
    """Learn one row or, with -1, forget it. Only a provisional choice, or a unit that does not fit, is made again."""
    call = "learn_one" if by > 0 else "forget_one"
    context = one_context(row, state.columns.names, call)
    if by > 0 and waits_for(settings, state, context):
        state = admit(settings, state, [list(context)], choose_again=False)
    _, examples = one_example(settings, state, row, target, call)
    if by < 0:
        return forget(state, examples)
    settings.bounds.refuse_outside(np.array([target]))
    state = _learn_examples(settings, state, examples, choose_again=True)
    is_provisional = state.chosen_at < FIRST_ROWS and state.n_examples >= 2 * state.chosen_at
    if state.can_choose and (is_provisional or _has_coarse_unit(state)):
        return _fit_kept(settings, state)
    return state


def one_example(
    settings: NumberSettings, state: NumberState, row: Sequence[Any], target: float, call: str
) -> tuple[list[Any], Examples]:
    """Return the values of one row, and the row as an example; `call` is how a refusal names the method."""
    context = one_context(row, state.columns.names, call)
    if len(context) != state.columns.n:
        raise ValueError(f"The model was fitted on rows of {state.columns.n} values; this has {len(context)}.")
    return context, Examples.of([one_row(settings, state.columns, state.columns.letters, context)], [target])


def refit(settings: NumberSettings, state: NumberState, what: str) -> NumberState:
    """Choose all by the kept rows, count them and fit the vote; with "weights", fit the vote only."""
    kept = state.rows
    if kept is None:
        raise ValueError(
            "refit() needs the rows that a model keeps, and this one keeps none: keep=False was given, or a model "
            "without rows was merged. refit(rows=(X, y)) takes the rows."
        )
    if what == "weights" or not kept.holds_all:
        return weigh_anew(state)
    if state.pinned:
        rows = NumberRows.of(state.layout, kept.examples(), state.seed)
        memory = NumberMemory.empty(state.layout).changed(state.layout, rows, 1)
        return weigh_anew(state.but(memory=memory))
    return _fit_kept(settings, state)


def weigh_anew(state: NumberState) -> NumberState:
    """Fit the vote to the kept rows, without what was fitted before; then only a chosen layout may be stale."""
    state = weigh(state.but(vote=NO_VOTE))
    return state.but(refitted=WEIGHTS_FITTED, stale=state.stale and not state.pinned)


def with_choice(settings: NumberSettings, state: NumberState, chosen: NumberState) -> NumberState:
    """Take layout and vote that another version of a model has chosen; under another layout count the kept rows."""
    if chosen.columns.n != state.columns.n or chosen.seed != state.seed:
        raise ValueError("the layout is of a model with other columns, or with another seed")
    if chosen.layout.digest == state.layout.digest:
        return state.but(vote=chosen.vote, stale=False)
    if state.rows is None or not state.can_choose:
        raise ValueError("only a model that keeps all its rows can take another layout")
    columns, store = with_kinds(settings, state.columns, state.rows, chosen.columns.letters)
    columns = columns.with_types_of(chosen.columns)
    try:
        rows = NumberRows.of(chosen.layout, rows_of(store), state.seed)
    except TargetTooFarError:  # such targets came since: the choice is outdated
        return _fit_kept(settings, state)
    memory = NumberMemory.empty(chosen.layout).changed(chosen.layout, rows, 1)
    return chosen.but(memory=memory, columns=columns, store=store, stale=False, **state.carried)


def _fit_kept(settings: NumberSettings, state: NumberState) -> NumberState:
    assert state.rows is not None
    columns, store = decided_by_rows(settings, state.columns, state.rows)
    examples = rows_of(store)
    if not len(examples):
        columns = undecided(settings, columns)
    return _fit_examples(settings, columns, examples, state.seed, store.kept_rows).but(**state.carried)


def refit_to(
    settings: NumberSettings, state: NumberState, rows: Any, read: Callable[[Any, Any, Any], CheckedRows]
) -> NumberState:
    """Choose again by rows that are given, (X, y) or an iterable of such pairs, and count them."""
    listed = list(pairs_of(rows))
    state = state.but(columns=decided_by_tables(settings, state, [X for X, _ in listed]))
    examples = joined_examples([read(X, y, state).examples() for X, y in listed])
    return _fit_examples(settings, state.columns, examples, state.seed).but(**state.carried)


def merge(settings: NumberSettings, state: NumberState, given: NumberState) -> NumberState:
    """Add all that another model has learnt; where the layouts differ, the rows of one are counted under the other."""
    state, other = with_same_kinds(settings, state, given, partial(_of_columns, settings))
    stale = state.stale or given.stale
    learnt = state.columns.learnt
    if learnt is not None:
        state = state.but(columns=replace(state.columns, learnt=learnt.plus(other.columns.learnt)))
    if state.layout.digest == other.layout.digest and state.seed == other.seed:
        return state.but(memory=state.memory.plus(other.memory, 1), store=store_with(state, other, 1), stale=stale)
    left, right = (state, other) if other.all_kept is not None else (other, state)
    may_change_layout = state.all_kept is not None and not state.pinned and state.seed == other.seed
    if right is other and may_change_layout and not state.layout.has_unit:
        left, right = other, state  # nothing was chosen where targets had no spread
    if right.all_kept is None or (state.pinned and other.pinned):
        raise LayoutError(
            "The two models have different layouts, and one of them must keep all its rows, so that these can be "
            "counted under the layout of the other: make the second model with empty_like() of the first."
        )
    merged = state.but(layout=left.layout, vote=left.vote, memory=left.memory, chosen_at=left.chosen_at)
    both = {"store": store_with(state, other, 1), "stale": stale, "pinned": state.pinned or other.pinned}
    try:
        for examples in right.all_kept.batches():
            merged = _count_examples(merged, examples)
    except TargetTooFarError:
        merged = merged.but(**both)
        if not merged.can_choose:
            raise
        return _fit_kept(settings, merged)
    return merged.but(**both)


def unmerge(settings: NumberSettings, state: NumberState, given: NumberState) -> NumberState:
    """Remove all that another model has learnt."""
    other = as_kinds_of(settings, state, given)
    if state.layout.digest == other.layout.digest and state.seed == other.seed:
        memory = state.memory.plus(other.memory, -1)
        state = state.but(memory=memory, store=store_with(state, other, -1))
    elif other.all_kept is None:
        raise LayoutError("The two models have different layouts, and the second one does not keep all its rows.")
    else:
        for examples in other.all_kept.batches():
            state = _changed(state, examples, -1)
    return state if other.holds_nothing else _with_forgotten(state, None)


def forget_everything(settings: NumberSettings, state: NumberState) -> NumberState:
    """Remove all that was learnt, as `forget` of all rows does."""
    if state.holds_nothing:
        return state
    store = None if state.store is None else settings.empty_store(state.store.h, state.seed)
    return _with_forgotten(state.but(memory=NumberMemory.empty(state.layout), store=store), None)


def emptied(state: NumberState) -> NumberState:
    """Return a state of the same layout with nothing stored, whose layout counts as given."""
    store = None if state.store is None else state.store.empty_copy()
    return state.but(memory=NumberMemory.empty(state.layout), store=store, pinned=True, chosen_at=0, position=None)
