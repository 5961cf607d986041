"""Refit: everything is chosen and fitted again by the rows that are left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hammemo.edits.column_changes import (
    check_numeric,
    decide_by_rows,
    decide_by_tables,
    reset_kinds,
)
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


def refit(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], what: str = "all"
) -> ModelState[L, M, V]:
    """Choose all that is automatic by the kept rows, and fit the vote to them.

    With "weights", only the vote is fitted.
    """
    kept_examples = state.kept
    if kept_examples is None:
        raise ValueError(
            "refit() needs the rows that a model keeps, and this one keeps none: its vote has "
            "nothing to fit, keep=False or keep='digests' was given, or a model without rows was "
            "merged. refit(rows=(X, y)) takes the rows; fit_vote(X, y) of a classifier fits "
            "weights to examples of your choice."
        )
    if what == "weights":
        after = weigh_anew(settings, state)
    elif not kept_examples.holds_all:
        check_numeric(settings, state)
        after = _refit_to_sample(settings, state)
    elif state.pinned:
        check_numeric(settings, state)
        after = weigh_anew(settings, _count_again(state, kept_examples))
    elif not len(kept_examples):
        check_numeric(settings, state)
        after = weigh_anew(settings, _open_again(settings, state, state.store))
        after = after.with_changes(refitted=EVERYTHING_FITTED)
    elif state.documents is not None:
        after = state.task.documents.fit_documents(settings, state)
    else:
        assert state.store is not None
        columns, store = decide_by_rows(settings, state.columns, state.store)
        after = fit_stored(settings, state, columns, store)
    return after.with_changes(store=_keep_as_set(settings, after.store), **state.carried)


def weigh_anew(settings: EditSettings[L, M, V], state: ModelState[L, M, V]) -> ModelState[L, M, V]:
    """Fit a vote of the same settings, without what was fitted before."""
    task = state.task
    state = state.with_changes(vote=task.weighing.clear_vote(settings, state.vote))
    state = state.with_changes(vote=task.weighing.weigh(settings, state), refitted=WEIGHTS_FITTED)
    return note_fitted_weights(settings, state)


def note_fitted_weights(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V]
) -> ModelState[L, M, V]:
    """Note that the weights depend on no forgotten row any more.

    A layout that was chosen by rows still may.
    """
    is_by_rows = state.task.schedule.layout_is_by_rows(settings, state) and not state.pinned
    return state.with_changes(stale=state.stale and is_by_rows)


def _keep_as_set(settings: EditSettings[L, M, V], store: ModelStore | None) -> ModelStore | None:
    """Return what is stored, as `keep` says now.

    Rows or digests may be dropped. Digests can be made where all rows are stored.
    """
    if store is None or settings.keep is False:
        return None
    digests = Digests.of(settings.keep)
    if digests is None:
        return store.kept
    kept_examples = None if digests.rows is False else store.kept
    empty = DigestStore(store.h, store.seed, digests.key)
    if empty.is_keyed_like(store):
        return store.with_kept(kept_examples)  # type: ignore[no-any-return]
    return empty.plus(store, 1).with_kept(kept_examples)


def _count_again(state: ModelState[L, M, V], kept_examples: Kept) -> ModelState[L, M, V]:
    """Count all rows again under the same layout."""
    if state.documents is not None and len(kept_examples):
        state = state.with_changes(cutting=state.documents.cutting)
    state = state.with_changes(memory=state.empty_memory())
    return state.with_changes(memory=state.task.counting.count(state, kept_examples.batches()))


def _open_again(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], store: ModelStore | None
) -> ModelState[L, M, V]:
    """Return a model without rows, as after `open`: nothing in it depends on any."""
    assert store is not None
    declared = state.declared
    columns = reset_kinds(settings, state.columns)
    batch = None
    if state.rows is not None:
        nothing = state.rows.examples()
        columns = replace(columns, token_types=TokenTypes.from_contexts(nothing.contexts))
        batch = RowBatch(nothing, columns, state.target_dtype, declared)
    task = state.task
    plan = task.choosing.choose_by_first_rows(
        settings, columns, batch, n_labels=len(declared), seed=store.seed
    )
    after = start(settings, plan, columns, state.target_dtype)
    memory = task.counting.declare(task.counting.empty_memory(after), declared)
    after = after.with_changes(memory=memory)
    if state.rows is None:  # a model of documents, which may learn rows next
        return after
    return after.with_changes(store=store)


def _refit_to_sample(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V]
) -> ModelState[L, M, V]:
    """Choose by a sample of the rows, as `fit` of all rows did.

    The vote is taken over if the layout that was chosen is that of the memory.
    """
    task = state.task
    plan = None
    if not state.pinned:
        plan = task.choosing.choose_by_sample(settings, state)
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
    """Choose again, and count rows from outside: (X, y), or an iterable of such pairs."""
    kept_rows = state.rows
    if kept_rows is not None and state.task.choosing.is_sample_enough(kept_rows):
        return _refit_to_passing_rows(
            settings, state, kept_rows, _Batches(settings, rows, read, state)
        )
    pairs = list(iterate_pairs(rows))  # they are needed for the choice, too
    columns = decide_by_tables(settings, state, [X for X, _ in pairs])
    batches = _Batches(settings, pairs, read, state.with_changes(columns=columns))
    examples = join_examples([batch.examples for batch in batches])
    batch = RowBatch(examples, columns, batches.target_dtype, state.declared)
    return fit_batch(settings, batch, state.seed).with_changes(**state.carried)


def _refit_to_passing_rows(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V],
    kept_rows: KeptRows,
    batches: _Batches,
) -> ModelState[L, M, V]:
    """Choose by the kept rows, and count rows from outside one batch after the other."""
    check_numeric(settings, state)
    task = state.task
    plan = task.choosing.choose(
        settings, state.columns, task.choosing.choice_rows(kept_rows), state.seed, quickly=False
    )
    after = start(settings, plan, state.columns, state.target_dtype)
    memory = task.counting.declare(task.counting.open_memory(plan, kept_rows), state.declared)
    after = after.with_changes(memory=memory)
    batches.state = after
    for batch in batches:
        memory = task.counting.count(after, [batch.examples])
        after = after.with_changes(memory=memory, store=after.edit_store(batch.examples, 1))
    if after.holds_nothing:
        raise ValueError("There is nothing to learn: no rows were given.")
    after = after.with_changes(
        target_dtype=batches.target_dtype, chosen_at=after.n_examples, **state.carried
    )
    vote = task.weighing.weigh(settings, after)
    return after.with_changes(vote=vote, refitted=EVERYTHING_FITTED)


class _Batches:
    """Pairs (X, y) of a user, read one after the other.

    Parameters
    ----------
    settings : EditSettings
    rows : (X, y) or iterable of pairs
    read : callable
    state : ModelState
        Whose columns the rows have.
    """

    def __init__(
        self,
        settings: EditSettings[Any, Any, Any],
        rows: Any,
        read: ReadRows,
        state: ModelState[Any, Any, Any],
    ) -> None:
        self.settings = settings
        self.rows = rows
        self.read = read
        self.state = state
        self.target_dtype = state.target_dtype
        """The type of all targets so far."""

    def __iter__(self) -> Iterator[RowBatch]:
        for X, y in iterate_pairs(self.rows):
            rows = self.read(X, y, self.state)
            before = self.state.with_changes(target_dtype=self.target_dtype)
            batch = self.state.task.reading.read_batch(self.settings, rows, None, before)
            self.target_dtype = batch.target_dtype
            yield batch


def iterate_pairs(rows: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (X, y), or each pair of an iterable."""
    rule = "rows= takes (X, y), or an iterable of such pairs"
    if not isinstance(rows, Iterable):
        raise TypeError(f"{rule}, not {rows!r}.")
    is_pair = isinstance(rows, tuple) and len(rows) == 2
    for pair in [rows] if is_pair else rows:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{rule}; one of these is a {type(pair).__name__}, not a pair.")
        yield pair[0], pair[1]
