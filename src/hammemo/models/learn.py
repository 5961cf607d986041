"""Edits of rows, from one state to the next: fit, learn, forget, and a choice when rows have doubled.

Each is a composition of `choose`, `count` and `weigh`. With a model that learns in pieces, nothing is chosen before
200 examples; from then on, everything is chosen again whenever their number has doubled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hammemo._arrays.integers import object_array
from hammemo.kernels.cells import Cells
from hammemo.memories import Ledgered, Memory
from hammemo.memories.errors import LayoutError, NotStoredError
from hammemo.memories.ledgered import not_held
from hammemo.models import choose
from hammemo.models.column_changes import decided_by_rows, decided_with, like_layout, waits_for, with_kinds
from hammemo.models.count import count, count_batch, empty_memory
from hammemo.models.explanations import one_context
from hammemo.models.kept import EVERYTHING
from hammemo.models.kept_rows import KeptRows, row_of
from hammemo.models.names import is_auto
from hammemo.models.state import EVERYTHING_FITTED, ModelState, Part
from hammemo.models.weigh import check_class_weight, weigh, with_forgotten
from hammemo.tokens.column_kinds import ColumnKinds
from hammemo.tokens.columns import KIND_WORDS, is_own_token, tokens_of
from hammemo.tokens.contexts import Examples, check_column_names
from hammemo.tokens.labels import classes_array, common_label_dtype, holds_label, label_array
from hammemo.tokens.missing import filled_tokens
from hammemo.tokens.vocabulary import Vocabulary, as_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hammemo.models.choose import Plan
    from hammemo.models.kept import Kept
    from hammemo.models.settings import Settings
    from hammemo.tokens.column_schema import Columns
    from hammemo.tokens.user_input import CheckedRows

CountAll = Callable[[Memory, Cells | None], Memory]
"""Returns an empty memory, which is given with the cells, with all rows."""


def fit(settings: Settings, before: ModelState | None, rows: CheckedRows, classes: Any) -> ModelState:
    """Learn rows that are all that there is, so that everything is chosen by them."""
    refuse_to_record(before)
    examples, declared, dtype = _labelled(rows, classes)
    state = fit_examples(settings, rows.columns, dtype, examples, settings.seed(), Vocabulary.of(declared))
    check_class_weight(state)
    return state.but(columns=replace(rows.columns, learnt=ColumnKinds.of(examples.contexts)))


def fit_examples(
    settings: Settings,
    columns: Columns,
    label_dtype: np.dtype[Any],
    examples: Examples,
    seed: int,
    declared: Vocabulary,
    kept: Kept | None = None,
    *,
    quickly: bool = False,
) -> ModelState:
    """Choose all that is automatic by examples, count them and fit the vote: what both `fit` and `refit` do.

    Everything is a function of the multiset of examples. `kept` are these rows, where they are kept already; with
    `quickly`, one fold is held out, however few there are.
    """
    room = settings.empty_store(examples.contexts.h, seed, settings.vote_for(len(examples.labels)))
    if room is None or type(room) is not type(kept) or room.most != kept.most:  # or `keep` was set since
        kept = None if room is None else room.changed(examples, 1)
    rows = kept if isinstance(kept, KeptRows) else None
    all_rows = rows.examples() if rows is not None and rows.holds_all else examples

    def count_all(memory: Memory, cells: Cells | None) -> Memory:
        count_batch(memory, cells, all_rows)
        return memory

    by = examples if rows is None else choose.choice_rows(rows)
    plan = choose.by_rows(settings, columns, by, seed, quickly=quickly)
    state = counted(settings, plan, columns, label_dtype, kept, declared, count_all)
    return weigh(settings, state, examples).but(refitted=EVERYTHING_FITTED)


def counted(
    settings: Settings,
    plan: Plan,
    columns: Columns,
    label_dtype: np.dtype[Any],
    kept: Kept | None,
    declared: Vocabulary,
    count_all: CountAll,
) -> ModelState:
    """Return the state of a plan with all rows counted, and these kept.

    The layout of the memory is a function of the kept rows too: they settle what is open in it.
    """
    memory = empty_memory(plan, kept)
    if len(declared):
        memory.declare_labels(declared)
    memory = count_all(memory, plan.layout.cells)
    state = started(settings, plan, columns, label_dtype)
    return state.with_memory(memory, store=kept, chosen_at=int(memory.label_counts.sum()))


def started(
    settings: Settings,
    plan: Plan,
    columns: Columns,
    label_dtype: np.dtype[Any],
    layout: ModelState | None = None,
    *,
    documents: bool = False,
) -> ModelState:
    """Return the state of a plan with nothing stored; `layout` is the model whose layout it has, if that was given."""
    parts, memory = (Part(plan.layout, plan.memory),), plan.memory
    store = settings.empty_store(columns.n, memory.seed, plan.vote, documents=documents)
    if layout is None:
        return ModelState(parts, plan.vote, columns, label_dtype, store)
    if layout.store is not None and type(layout.store) is type(store):
        store = layout.store.emptied()
    cutting, stale = layout.cutting, layout.stale
    return ModelState(parts, plan.vote, columns, label_dtype, store, cutting, pinned=True, stale=stale)


def like_given(settings: Settings, columns: Columns, layout: ModelState, n_labels: int) -> Plan:
    """Return the plan of a given layout; LayoutError where the columns are others."""
    check_names(columns, layout.columns)
    check_kinds(columns, layout.columns)
    return choose.like(settings, columns, layout, n_labels)


def learn(
    settings: Settings,
    before: ModelState | None,
    rows: CheckedRows,
    classes: Any,
    layout: ModelState | None = None,
    *,
    choose_again: bool = True,
) -> ModelState:
    """Learn a batch of rows; with `choose_again`, choose by all rows where they have doubled since the last choice."""
    state, examples = _with_batch(settings, before, rows, classes, layout, choose_again=choose_again)
    if choose_again:
        chosen = chosen_if_doubled(settings, state)
        if chosen is not state:
            return chosen
    is_fitted = before is None and layout is None and is_auto(settings.vote)
    if is_fitted and examples.multiplicity.sum() >= choose.FIRST_BATCH:
        return weigh(settings, state, examples)
    return state


def _with_batch(
    settings: Settings,
    before: ModelState | None,
    rows: CheckedRows,
    classes: Any,
    layout: ModelState | None,
    *,
    choose_again: bool,
) -> tuple[ModelState, Examples]:
    """Return the state with a batch counted and kept, and the batch as examples."""
    refuse_to_record(before)
    examples, declared, dtype = _labelled(rows, classes, before)
    if layout is not None and before is not None:
        raise ValueError("layout= is settled at the first call; this model has learnt already.")
    if before is None:
        columns, n_labels = rows.columns, len(examples.labels.union(Vocabulary.of(declared)))
        if layout is not None:
            columns, examples = like_layout(settings, columns, examples, layout.columns)
            plan = like_given(settings, columns, layout, n_labels)
        else:
            plan = choose.by_first_rows(settings, columns, n_labels, examples, settings.seed())
        state = started(settings, plan, columns, dtype, layout)
    else:
        state, kinds = before, None if before.cells is None else before.cells.kinds
        has_cells = before.columns.kinds == kinds
        may_cut = before.columns.kinds is not None and (choose_again or not has_cells) and not before.pinned
        if may_cut and before.holds_nothing:
            state = started_again(settings, before, examples)
    learnt = ColumnKinds.of(examples.contexts)
    columns = state.columns.also_learnt(learnt, first=state.holds_nothing)
    memory = state.memory.snapshot()
    if len(declared):
        memory.declare_labels(Vocabulary.of(declared))
    count_batch(memory, state.cells, examples)
    store = None if state.store is None else state.store.changed(examples, 1)
    return state.with_memory(memory, columns=columns, label_dtype=dtype, store=store), examples


def _labelled(
    rows: CheckedRows, classes: Any, before: ModelState | None = None
) -> tuple[Examples, NDArray[Any], np.dtype[Any]]:
    """Return rows as examples, the declared labels, and the type of all labels."""
    declared = rows.labels[:0] if classes is None else label_array(classes)
    dtype = common_label_dtype(rows.labels, declared, *([] if before is None else [label_ends(before)]))
    examples = rows.examples()
    if before is None and not len(examples) and not len(declared):
        raise ValueError("There is nothing to learn: every sample_weight is zero and no class was declared.")
    if before is None:
        check_column_names(() if rows.columns.names is None else rows.columns.names)
    return examples, declared, dtype


def label_ends(state: ModelState) -> NDArray[Any]:
    """Return a few labels that have the type of all, and their largest and smallest number."""
    return classes_array(state.memory.labels.ends(), state.label_dtype)


def started_again(settings: Settings, state: ModelState, examples: Examples) -> ModelState:
    """Return a state as for a first batch, with nothing stored; declared labels and the seed stay."""
    declared, seed = state.memory.declared, state.memory.seed
    n_labels = len(examples.labels.union(declared))
    plan = choose.by_first_rows(settings, state.columns, n_labels, examples, seed)
    again = started(settings, plan, state.columns, state.label_dtype)
    memory = again.memory.snapshot()
    memory.declare_labels(declared)
    return again.with_memory(memory, cutting=state.cutting, witness=state.witness)


def chosen_if_doubled(settings: Settings, state: ModelState) -> ModelState:
    """Choose again where twice as many examples are held as at the last choice."""
    if not (is_auto(settings.vote) or settings.kernel_is_automatic):
        return state
    if state.rows is None or not state.can_choose_by_rows or not has_doubled(state):
        return state
    columns, kept = decided_by_rows(settings, state.columns, state.rows)
    return _fit_kept(settings, state, columns, kept)


def has_doubled(state: ModelState, since: int = 0) -> bool:
    """Return whether enough examples are held to choose, and twice as many as at the last choice, or `since`."""
    return state.n_examples >= max(choose.FIRST_BATCH, 2 * state.chosen_at, 2 * since)


def _fit_kept(settings: Settings, state: ModelState, columns: Columns, kept: KeptRows) -> ModelState:
    """Choose quickly by all kept rows, and count them."""
    examples, declared = kept.examples(), state.memory.declared
    again = fit_examples(settings, columns, state.label_dtype, examples, kept.seed, declared, kept, quickly=True)
    return again.but(witness=state.witness)


def admit(settings: Settings, state: ModelState, X: Any, *, choose_again: bool = True) -> ModelState:
    """Let a table that is to be learnt decide kinds of columns, and count the rows as of these kinds."""
    columns = decided_with(settings, state, X, choose=choose_again)
    if columns is state.columns:
        return state
    if columns.letters == state.columns.letters:
        return state.but(columns=columns)
    return with_other_kinds(settings, state, columns, choose_again=choose_again)


def with_other_kinds(settings: Settings, state: ModelState, columns: Columns, *, choose_again: bool) -> ModelState:
    """Return a state whose columns are of other kinds, with the rows counted again."""
    if state.rows is None or not len(state.rows):
        return state.but(columns=columns)  # the first rows start over
    known = replace(state.columns, types=columns.types)
    columns, kept = with_kinds(settings, known, state.rows, columns.letters)
    if choose_again:
        return _fit_kept(settings, state, columns, kept)
    again = started_again(settings, state.but(columns=columns), kept.examples())
    memory = count(again.memory.snapshot(), again.cells, kept.batches())
    return again.with_memory(memory, store=kept)


def forget(settings: Settings, state: ModelState, examples: Examples) -> ModelState:
    """Remove examples: all of them, or `NotStoredError` is raised."""
    rows = ledger_rows(state)
    _refuse_lacking(rows, examples)
    memory = state.memory.snapshot()
    try:
        count_batch(memory, state.cells, examples, -1)
        store = None if state.store is None else state.store.changed(examples, -1)
    except NotStoredError:
        _refuse_lacking(state.rows if state.rows is not None and state.rows.holds_all else None, examples)
        raise
    state = with_checked_memory(state, memory, store)
    return with_forgotten(settings, state, examples) if len(examples) else state


def forget_kept(state: ModelState, kept: Kept) -> ModelState:
    """Remove rows or documents that another model keeps, or some of its own."""
    memory = count(state.memory.snapshot(), state.cells, kept.batches(), -1)
    return with_checked_memory(state, memory, None if state.store is None else state.store.plus(kept, -1))


def with_checked_memory(state: ModelState, memory: Memory, store: Kept | None) -> ModelState:
    """Take a memory that has forgotten rows; where all rows are kept, each is looked up there."""
    if state.store is not None and state.store.threshold == EVERYTHING:
        memory.forgot_unchecked = state.memory.forgot_unchecked
    return state.with_memory(memory, store=store)


def ledger_rows(state: ModelState) -> KeptRows | None:
    """Return the kept rows where they are the ledger of the memory."""
    memory = state.memory
    return state.rows if isinstance(memory, Ledgered) and not memory.has_ledger else None


def _refuse_lacking(rows: KeptRows | None, examples: Examples) -> None:
    lacking = [] if rows is None else rows.lacking(examples)
    if lacking:
        raise not_held(lacking, len(examples)) from None


def change_one(settings: Settings, state: ModelState, tokens: Sequence[Any], label: Any, by: int) -> ModelState:
    """Learn one example or, with -1, forget it: in microseconds."""
    names, n = state.columns.names, state.columns.n
    context = one_context(tokens, names, "learn_one" if by > 0 else "forget_one")
    if state.cutting is not None:
        (context,) = state.cutting.contexts([context], n)
    if by > 0 and waits_for(settings, state, context):
        state = admit(settings, state, [list(context)], choose_again=False)
    if state.columns.kinds is None:
        context = filled_tokens(context, settings.missing)
    if len(context) != n:
        raise ValueError(f"The model was fitted on rows of {n} values; this has {len(context)}.")
    dtype = state.label_dtype
    if by > 0 and not holds_label(dtype, label):
        dtype = common_label_dtype(label_array([label]), label_ends(state))
    if state.columns.kinds is not None:
        context = _one_row(settings, state.columns, state.columns.kinds, context)
    memory, rows = state.memory.snapshot(), state.rows
    row = () if rows is None else row_of(context, label)
    ledger = ledger_rows(state) if by < 0 else None
    if ledger is not None and ledger.times(row) + by < 0:
        raise not_held([0], 1)
    if state.cells is None:
        memory.update_one(context, label, by)
    else:
        memory.update_one_row(state.cells, context, label, by)
    store = state.store
    if rows is not None:
        store = rows.changed_one(row, by)
    elif store is not None:
        store = store.changed(Examples.of([context], [label]), by)
    if by > 0:
        return state.with_memory(memory, label_dtype=dtype, store=store)
    state = with_checked_memory(state, memory, store)
    return with_forgotten(settings, state, None if state.witness is None else Examples.of([context], [label]))


def _one_row(settings: Settings, columns: Columns, kinds: str, context: Sequence[Any]) -> list[Any]:
    """Return the tokens of one row with numbers."""
    if all(map(is_own_token, context, kinds)):
        return [as_token(value) for value in context]
    listed = [object_array([value]) for value in context]
    row: list[Any] = tokens_of(listed, kinds, settings.missing, columns.listed(), learning=True)[0].tolist()
    return [as_token(token) for token in row]


def refuse_to_record(state: ModelState | None) -> None:
    """Refuse an edit that learns or merges while a receipt is made of what is forgotten."""
    if state is not None and state.witness is not None:
        raise ValueError(
            "A receipt is being made, and it counts the rows that forget and forget_stream remove: learn and merge "
            "before or after the block. Nothing was changed."
        )


def check_names(mine: Columns, theirs: Columns) -> None:
    """Refuse a model whose columns have other names, or come in another order."""
    names, others = mine.listed(), theirs.listed()
    if names is None or others is None or len(names) != len(others) or names == others:
        return  # of their number, the layouts tell
    at = next(j for j, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1])
    same = " The columns are the same in another order." if set(names) == set(others) else ""
    raise LayoutError(
        f"Column {at} is {names[at]!r} here and {others[at]!r} there.{same} Give both tables the same columns in "
        "the same order."
    )


def check_kinds(mine: Columns, theirs: Columns) -> None:
    """Refuse a model whose columns are of other kinds."""
    if mine.kinds == theirs.kinds:
        return
    if mine.n != theirs.n:
        raise LayoutError(f"The tables have {mine.n} columns here and {theirs.n} there.")
    at = next(j for j, pair in enumerate(zip(mine.letters, theirs.letters, strict=True)) if len(set(pair)) > 1)
    raise LayoutError(
        f"Column {mine.shown(at)} holds {KIND_WORDS[mine.letters[at]]} here and {KIND_WORDS[theirs.letters[at]]} "
        "there: give both tables the same types, or both models the same numeric=[…]; empty_like() takes the kinds "
        "over."
    )
