"""Refits, from one state to the next: everything is chosen and fitted again by the rows that are left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.edits.column_changes import (
    check_numeric,
    decided_by_rows,
    decided_by_tables,
    rows_of,
    undecided,
    with_kinds,
)
from hammemo.edits.learn import fit_examples, label_ends, started
from hammemo.edits.state import EVERYTHING_FITTED, WEIGHTS_FITTED, ModelState
from hammemo.stores.digest_store import Digests, DigestStore
from hammemo.tasks.labels import choose
from hammemo.tasks.labels.automatic import counts_in_any_order
from hammemo.tasks.labels.count import count, count_batch, empty_memory
from hammemo.tasks.labels.weigh import weigh, weigh_anew
from hammemo.tokens.contexts import Examples, joined_examples
from hammemo.tokens.labels import common_label_dtype

if TYPE_CHECKING:
    from hammemo.stores.kept import Kept, ModelStore
    from hammemo.tasks.labels.choose import LayoutPlan
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.user_input import CheckedRows

ReadRows = Callable[[Any, Any, ModelState], "CheckedRows"]
"""Returns the rows (X, y) of a user, checked as rows of a state."""


def refit(settings: ModelSettings, state: ModelState, what: str) -> ModelState:
    """Choose all that is automatic by the kept rows and fit the vote to them; with "weights", fit it only."""
    kept = state.kept
    if kept is None:
        raise ValueError(
            "refit() needs the rows that a model keeps, and this one keeps none: its vote has nothing to fit, "
            "keep=False or keep='digests' was given, or a model without rows was merged. refit(rows=(X, y)) takes the "
            "rows; fit_vote(X, y) fits weights to examples of your choice."
        )
    if what == "weights":
        again = weigh_anew(settings, state)
    elif not kept.holds_all:
        check_numeric(settings, state)
        again = _chosen_by_sample(settings, state, kept)
    elif state.pinned or not len(kept):
        check_numeric(settings, state)
        again = weigh_anew(settings, _counted_again(settings, state, kept))
        again = again.but(refitted=WEIGHTS_FITTED if state.pinned else EVERYTHING_FITTED)
    elif state.documents is not None:
        again = fit_documents(settings, state)
    else:
        again = _fit_rows(settings, state)
    return again.but(store=_stored_as_set(settings, again), **state.carried)


def _stored_as_set(settings: ModelSettings, state: ModelState) -> ModelStore | None:
    """Return what is stored as `keep` says now: rows and digests may go, and all rows make digests."""
    store, wanted = state.store, Digests.of(settings.keep)
    if store is None or settings.keep is False:
        return None
    if wanted is None:
        return store.kept
    empty = DigestStore(store.h, store.seed, wanted.key)
    kept = None if wanted.rows is False else store.kept
    return store.with_kept(kept) if empty.is_keyed_like(store) else empty.plus(store, 1).with_kept(kept)


def _fit_rows(settings: ModelSettings, state: ModelState) -> ModelState:
    """Do what `fit` does with all kept rows."""
    assert state.store is not None
    columns, store = decided_by_rows(settings, state.columns, state.store)
    declared = state.memory.declared
    return fit_examples(settings, columns, state.label_dtype, rows_of(store), store.seed, declared, store)


def fit_documents(settings: ModelSettings, state: ModelState, *, is_counted: bool = False) -> ModelState:
    """Choose all that is automatic by documents, all of which are kept, count them and fit the vote.

    It is what both `fit_stream` and `refit` do. With `is_counted` the memory has learnt them in the order in which they
    came: it is taken as it is where neither its layout nor the order would change it.
    """
    before, store, kept = state.memory, state.store, state.documents
    assert store is not None
    assert kept is not None
    columns = replace(state.columns, types=None)  # the tokens of documents are names
    plan = choose.by_stream(settings, columns, kept.facts(len(before.labels)), kept.seed)
    again = started(settings, plan, columns, state.label_dtype, documents=True)
    is_alike = again.memory.layout() == before.layout() and np.array_equal(again.sites.weights, state.sites.weights)
    if is_counted and is_alike and counts_in_any_order(settings.new_memory()):
        memory = before
    else:
        memory = again.memory.snapshot()
        memory.declare_labels(before.declared)
        count(memory, None, kept.batches())
    room = again.store
    if room is None or not room.stores_like(store):  # `keep` was set since
        store = None if room is None else room.plus(store, 1)
    again = again.with_memory(memory, store=store, cutting=kept.cutting, chosen_at=int(memory.label_counts.sum()))
    return weigh(settings, again).but(refitted=EVERYTHING_FITTED, **state.carried)


def _counted_again(settings: ModelSettings, state: ModelState, kept: Kept) -> ModelState:
    """Make the counts again from all rows, under the same layout; with no rows, as `open` does."""
    declared = state.memory.declared
    if not len(kept) and not state.pinned:
        columns = undecided(settings, state.columns)
        nothing = None if state.rows is None else state.rows.examples()
        plan = choose.by_first_rows(settings, columns, len(declared), nothing, kept.seed)
        again = started(settings, plan, columns, state.label_dtype)
        state = again if state.rows is None else again.but(store=state.store)
    elif state.documents is not None and len(kept):
        state = state.but(cutting=state.documents.cutting)
    memory = state.memory.empty_like()
    memory.declare_labels(declared)
    return state.with_memory(count(memory, state.cells, kept.batches()))


def _chosen_by_sample(settings: ModelSettings, state: ModelState, kept: Kept) -> ModelState:
    """Choose by some of the rows, as `fit` of all of them did, and take the vote if the sites are the same."""
    if state.rows is not None and choose.is_sample_enough(kept) and not state.pinned:
        plan = choose.by_rows(settings, state.columns, choose.choice_rows(state.rows), kept.seed)
        if _is_same_layout(plan, state):
            layout = state.layout._replace(choices=plan.layout.choices)
            state = state.with_layout(layout, vote=plan.vote, chosen_at=state.n_examples)
            return weigh(settings, state).but(refitted=EVERYTHING_FITTED, stale=False)
    if not state.pinned:
        how = "fit_stream(…)" if state.rows is None else "refit(rows=…)"
        choices = state.layout.choices
        why = f"{choices.kernel}; choose again: {how}"
        layout = state.layout._replace(choices=replace(choices, kernel=why, held_out=None))
        state = state.with_layout(layout)
    return weigh_anew(settings, state)


def _is_same_layout(plan: LayoutPlan, state: ModelState) -> bool:
    mine, theirs = state.cells, plan.layout.cells
    if (mine is None) != (theirs is None) or (mine is not None and theirs is not None and mine != theirs):
        return False
    return plan.layout.sites.positions == state.sites.positions


def refit_to(settings: ModelSettings, state: ModelState, rows: Any, read: ReadRows) -> ModelState:
    """Choose again, and count rows that are given: (X, y), or an iterable of such pairs."""
    kept, seed, declared = state.rows, state.memory.seed, state.memory.declared
    dtypes = [state.label_dtype]

    def batches(pairs: Iterable[tuple[Any, Any]], like: ModelState) -> Iterator[Examples]:
        for X, y in pairs:
            checked = read(X, y, like)
            ends = label_ends(like.but(label_dtype=dtypes[0]))
            dtypes[0] = common_label_dtype(checked.labels, np.empty(0, dtypes[0]), ends)
            yield checked.examples()

    if kept is None or not choose.is_sample_enough(kept):
        listed = list(pairs_of(rows))  # they are needed for the choice, too
        state = state.but(columns=decided_by_tables(settings, state, [X for X, _ in listed]))
        examples = joined_examples(list(batches(listed, state)))
        again = fit_examples(settings, state.columns, dtypes[0], examples, seed, declared)
        return again.but(**state.carried)
    check_numeric(settings, state)
    plan = choose.by_rows(settings, state.columns, choose.choice_rows(kept), seed)
    again, memory = started(settings, plan, state.columns, state.label_dtype), empty_memory(plan, kept)
    store = again.store
    memory.declare_labels(declared)
    for examples in batches(pairs_of(rows), again):
        count_batch(memory, plan.layout.cells, examples)
        store = None if store is None else store.edit(examples, 1)
    if not memory.label_counts.any():
        raise ValueError("There is nothing to learn: no rows were given.")
    again = again.with_memory(
        memory, store=store, label_dtype=dtypes[0], chosen_at=int(memory.label_counts.sum()), **state.carried
    )
    return weigh(settings, again).but(refitted=EVERYTHING_FITTED)


def pairs_of(rows: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (X, y), or each pair of an iterable."""
    wanted = "rows= takes (X, y), or an iterable of such pairs"
    if not isinstance(rows, Iterable):
        raise TypeError(f"{wanted}, not {rows!r}.")
    for pair in [rows] if isinstance(rows, tuple) and len(rows) == 2 else rows:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{wanted}; one of these is a {type(pair).__name__}, not a pair.")
        yield pair[0], pair[1]


def with_choice(settings: ModelSettings, state: ModelState, chosen: ModelState) -> ModelState:
    """Take layout, vote and weights that another version of a model has chosen; count the kept rows again."""
    store, columns = state.store, state.columns
    if store is None or not state.can_choose:
        raise ValueError("only a model that keeps all its rows can take another layout")
    if chosen.columns.n != columns.n:
        raise ValueError("the layout is of a model with other columns")
    if state.rows is not None and chosen.columns.kinds != columns.kinds:
        columns, store = with_kinds(settings, columns, store, chosen.columns.letters)
    columns = columns.with_types_of(chosen.columns)  # as `refit` does
    memory = chosen.memory.empty_like()
    memory.declare_labels(state.memory.declared)
    assert store.kept is not None
    count(memory, chosen.cells, store.kept.batches())
    is_open = state.documents is not None and not len(store.kept)  # as after `open`
    after = settings.empty_store(store.h, store.seed, chosen.vote) if is_open else store
    taken = state.like_layout_of(chosen).with_memory(memory)
    return taken.but(columns=columns, store=after, cutting=chosen.cutting, stale=False)
