"""Refit: everything is chosen and fitted again by the rows that are left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hammemo.edits.column_changes import check_numeric, decided_by_rows, decided_by_tables, undecided
from hammemo.edits.fit import fit_batch, fit_stored, start
from hammemo.edits.state import EVERYTHING_FITTED, WEIGHTS_FITTED, ModelState
from hammemo.edits.task import L, M, RowBatch, V
from hammemo.stores.digest_store import Digests, DigestStore
from hammemo.tokens.contexts import join_examples
from hammemo.tokens.token_types import TokenTypes

if TYPE_CHECKING:
    from hammemo.edits.settings import EditSettings
    from hammemo.edits.task import ReadRows
    from hammemo.stores.kept import Kept, ModelStore
    from hammemo.stores.kept_rows import KeptRows


def refit(settings: EditSettings[L, M, V], state: ModelState[L, M, V], what: str = "all") -> ModelState[L, M, V]:
    """Choose all that is automatic by the kept rows and fit the vote to them; with "weights", fit it only."""
    kept = state.kept
    if kept is None:
        raise ValueError(
            "refit() needs the rows that a model keeps, and this one keeps none: its vote has nothing to fit, "
            "keep=False or keep='digests' was given, or a model without rows was merged. refit(rows=(X, y)) takes the "
            "rows; fit_vote(X, y) of a classifier fits weights to examples of your choice."
        )
    if what == "weights":
        again = weigh_anew(settings, state)
    elif not kept.holds_all:
        check_numeric(settings, state)
        again = _refit_to_sample(settings, state)
    elif state.pinned:
        check_numeric(settings, state)
        again = weigh_anew(settings, _count_again(state, kept))
    elif not len(kept):
        check_numeric(settings, state)
        again = weigh_anew(settings, _open_again(settings, state))
        again = again.with_changes(refitted=EVERYTHING_FITTED)
    elif state.documents is not None:
        again = state.task.documents.fit_documents(settings, state)
    else:
        assert state.store is not None
        columns, store = decided_by_rows(settings, state.columns, state.store)
        again = fit_stored(settings, state, columns, store)
    return again.with_changes(store=_store_as_set(settings, again), **state.carried)


def weigh_anew(settings: EditSettings[L, M, V], state: ModelState[L, M, V]) -> ModelState[L, M, V]:
    """Fit a vote of the same settings, without what was fitted before."""
    task = state.task
    state = state.with_changes(vote=task.weighing.clear_vote(settings, state.vote))
    state = state.with_changes(vote=task.weighing.weigh(settings, state), refitted=WEIGHTS_FITTED)
    return with_fitted_weights(settings, state)


def with_fitted_weights(settings: EditSettings[L, M, V], state: ModelState[L, M, V]) -> ModelState[L, M, V]:
    """Note that the weights depend on no forgotten row any more; a layout that was chosen by rows still may."""
    is_by_rows = state.task.schedule.layout_is_by_rows(settings, state) and not state.pinned
    return state.with_changes(stale=state.stale and is_by_rows)


def _store_as_set(settings: EditSettings[L, M, V], state: ModelState[L, M, V]) -> ModelStore | None:
    """Return what is stored as `keep` says now: rows and digests may go, and all rows make digests."""
    store = state.store
    if store is None or settings.keep is False:
        return None
    wanted = Digests.of(settings.keep)
    if wanted is None:
        return store.kept
    empty = DigestStore(store.h, store.seed, wanted.key)
    kept = None if wanted.rows is False else store.kept
    if empty.is_keyed_like(store):
        return store.with_kept(kept)  # type: ignore[no-any-return]
    return empty.plus(store, 1).with_kept(kept)


def _count_again(state: ModelState[L, M, V], kept: Kept) -> ModelState[L, M, V]:
    """Count all rows again under the same layout."""
    if state.documents is not None and len(kept):
        state = state.with_changes(cutting=state.documents.cutting)
    memory = state.task.counting.declare(state.task.counting.empty_memory(state), state.declared)
    state = state.with_changes(memory=memory)
    return state.with_changes(memory=state.task.counting.count(state, kept.batches()))


def _open_again(settings: EditSettings[L, M, V], state: ModelState[L, M, V]) -> ModelState[L, M, V]:
    """Return a model without rows: nothing in it depends on any."""
    task, declared = state.task, state.declared
    columns = undecided(settings, state.columns)
    assert state.store is not None
    batch = None
    if state.rows is not None:
        nothing = state.rows.examples()
        columns = replace(columns, token_types=TokenTypes.from_contexts(nothing.contexts))
        batch = RowBatch(nothing, columns, state.target_dtype, declared)
    plan = task.choosing.choose_by_first_rows(settings, columns, batch, len(declared), state.store.seed)
    again = start(settings, plan, columns, state.target_dtype)
    again = again.with_changes(memory=task.counting.declare(task.counting.empty_memory(again), declared))
    return again if state.rows is None else again.with_changes(store=state.store)


def _refit_to_sample(settings: EditSettings[L, M, V], state: ModelState[L, M, V]) -> ModelState[L, M, V]:
    """Choose by some of the rows, as `fit` of all of them did, and take the vote if the layout is the same."""
    task = state.task
    plan = None if state.pinned else task.choosing.choose_by_sample(settings, state)
    if plan is not None:
        state = state.with_changes(layout=plan.layout, vote=plan.vote, chosen_at=state.n_examples)
        vote = task.weighing.weigh(settings, state)
        return state.with_changes(vote=vote, refitted=EVERYTHING_FITTED, stale=False)
    if not state.pinned:
        state = state.with_changes(layout=task.choosing.keep_layout(state))
    return weigh_anew(settings, state)


def refit_to(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], rows: Any, read: ReadRows
) -> ModelState[L, M, V]:
    """Choose again, and count rows that are given: (X, y), or an iterable of such pairs."""
    kept = state.rows
    if kept is not None and state.task.choosing.is_sample_enough(kept):
        return _refit_to_stream_of_rows(settings, state, kept, _Batches(settings, rows, read, state))
    pairs = list(pairs_of(rows))  # they are needed for the choice, too
    columns = decided_by_tables(settings, state, [X for X, _ in pairs])
    state = state.with_changes(columns=columns)
    batches = _Batches(settings, pairs, read, state)
    examples = join_examples([batch.examples for batch in batches])
    batch = RowBatch(examples, columns, batches.target_dtype, state.declared)
    return fit_batch(settings, batch, state.seed).with_changes(**state.carried)


def _refit_to_stream_of_rows(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], kept: KeptRows, batches: _Batches
) -> ModelState[L, M, V]:
    """Choose by kept rows, and count rows that are given, one batch after the other."""
    check_numeric(settings, state)
    task = state.task
    plan = task.choosing.choose(settings, state.columns, task.choosing.choice_rows(kept), state.seed, quickly=False)
    again = start(settings, plan, state.columns, state.target_dtype)
    memory = task.counting.declare(task.counting.open_memory(plan, kept), state.declared)
    again = again.with_changes(memory=memory)
    batches.state = again
    for batch in batches:
        store = None if again.store is None else again.store.edit(batch.examples, 1)
        again = again.with_changes(memory=task.counting.count(again, [batch.examples]), store=store)
    if again.holds_nothing:
        raise ValueError("There is nothing to learn: no rows were given.")
    again = again.with_changes(target_dtype=batches.target_dtype, chosen_at=again.n_examples, **state.carried)
    return again.with_changes(vote=task.weighing.weigh(settings, again), refitted=EVERYTHING_FITTED)


class _Batches:
    """Rows that are given in pairs (X, y), read one pair after the other.

    Parameters
    ----------
    settings : EditSettings
    rows : (X, y) or iterable of pairs
    read : callable
    state : ModelState
        Whose columns the rows have.
    """

    def __init__(
        self, settings: EditSettings[Any, Any, Any], rows: Any, read: ReadRows, state: ModelState[Any, Any, Any]
    ) -> None:
        self.settings = settings
        self.rows = rows
        self.read = read
        self.state = state
        self.target_dtype = state.target_dtype
        """The type of all targets so far."""

    def __iter__(self) -> Iterator[RowBatch]:
        for X, y in pairs_of(self.rows):
            checked = self.read(X, y, self.state)
            like = self.state.with_changes(target_dtype=self.target_dtype)
            batch = self.state.task.reading.read_batch(self.settings, checked, None, like)
            self.target_dtype = batch.target_dtype
            yield batch


def pairs_of(rows: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (X, y), or each pair of an iterable."""
    wanted = "rows= takes (X, y), or an iterable of such pairs"
    if not isinstance(rows, Iterable):
        raise TypeError(f"{wanted}, not {rows!r}.")
    for pair in [rows] if isinstance(rows, tuple) and len(rows) == 2 else rows:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{wanted}; one of these is a {type(pair).__name__}, not a pair.")
        yield pair[0], pair[1]
