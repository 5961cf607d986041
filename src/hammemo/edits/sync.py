"""Make a model equal to a table by its content: forget the rows that are gone, learn the new ones. No log is needed.

What a model holds and what a table holds are two multisets of rows, and `difference` is what one has more often than
the other. A model that keeps all its rows knows the content of both sides. One with digests of all rows
(:mod:`hammemo.stores.digest_store`) knows which rows of the table are new, and how many of its own are gone, but not
what these held. They cannot be subtracted then, so all rows of the table are counted again under the same layout. A
memory is a sum over rows, so this gives the same counts. A model that knows neither can only be fitted to the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo.edits.fit import fit, fit_again
from hammemo.edits.forget import forget, forget_everything
from hammemo.edits.learn import admit, learn
from hammemo.edits.refit import refit as refit_state
from hammemo.stores.digest_store import DigestStore
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.contexts import Examples, join_examples
from hammemo.tokens.distinct import distinct_order, example_words
from hammemo.tokens.missing import MISSING
from hammemo.tokens.orders import values_at
from hammemo.tokens.user_input import CheckedRows, join_rows
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.tokens.zones import aware_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array, Ints
    from hammemo.edits.settings import EditSettings
    from hammemo.edits.state import ModelState
    from hammemo.edits.task import L, M, ReadRows, V
    from hammemo.stores.kept import ModelStore
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tokens.columns import Columns

Table: TypeAlias = tuple[Any, Any, Any]
"""Rows X, their labels or targets y, and how often each occurs: sample_weight, or None."""


@dataclass(frozen=True, eq=False)
class Difference:
    """What a store holds and a table does not, and the other way around; copies count.

    Parameters
    ----------
    gone : Examples, optional
        The rows that the store holds more often. None where it knows them only by their digests.
    n_gone : int
        How many these are.
    places, times : ndarray of int64
        The rows of the table that it holds more often, each distinct row once, and how many times more.
    n_same : int
        How many rows both hold.
    """

    gone: Examples | None
    n_gone: int
    places: Ints
    times: Ints
    n_same: int

    @property
    def n_new(self) -> int:
        """How many rows the table has and the store has not."""
        return int(self.times.sum())


@dataclass(frozen=True, eq=False)
class Synced:
    """What `sync` did or, with ``dry_run=True``, would do.

    Parameters
    ----------
    forgotten, learnt, unchanged : int or None
        How many rows; copies count. None where the model did not know which rows it held.
    how : {"edited", "counted", "fitted"}
        "edited": the rows that differ were forgotten and learnt. "counted": the rows that are gone were known only by
        their digests, so all rows of the table were counted again under the same layout. "fitted": the model was
        fitted to the table.
    new : CheckedRows
        The rows to learn.
    gone : Examples, optional
        The rows to forget. None where the model does not store their content.
    """

    forgotten: int | None
    learnt: int | None
    unchanged: int | None
    how: str
    new: CheckedRows
    gone: Examples | None

    @property
    def is_equal(self) -> bool:
        """Whether the model held just the rows of the table."""
        return self.forgotten == 0 and self.learnt == 0

    def learnt_rows(self) -> tuple[Array, Array]:
        """Return the rows to learn and their labels, a row with n copies n times, as `partial_fit` takes them."""
        times = np.repeat(np.arange(len(self.new.counts)), self.new.counts)
        return _values(self.new.tokens[times], self.new.columns), self.new.labels[times]

    def forgotten_rows(self) -> tuple[Array, Array]:
        """Return the rows to forget and their labels, as `forget` takes them; ValueError where they are not stored."""
        if self.gone is None:
            raise ValueError(
                "The model does not store the content of the rows that are gone: it has digests of its rows, or "
                "nothing. Use keep='rows+digests' for a model that keeps rows."
            )
        gone = self.gone
        times = np.repeat(np.arange(len(gone)), gone.multiplicity)
        tokens = object_array([*gone.contexts.vocabulary.tolist(), NO_TOKEN])  # rank -1 reads the last entry
        labels = object_array(gone.labels.tolist())
        return _values(tokens[gone.contexts.ranks[times]], self.new.columns), labels[gone.label_ranks[times]]

    def __str__(self) -> str:
        if self.forgotten is None:
            return "Fitted to the table; the model did not know which rows it held."
        more = {
            "edited": "",
            "counted": " The model has only digests of the rows that are gone, so all rows were counted again.",
            "fitted": " The model was fitted to the table.",
        }[self.how]
        rows = "row" if self.forgotten == 1 else "rows"
        return f"{self.forgotten:,} {rows} forgotten, {self.learnt:,} learnt, {self.unchanged:,} unchanged.{more}"


def _values(tokens: Array, columns: Columns) -> Array:
    """Return tokens as a user gives them: None where a value is missing, and dates, with the zone of their column."""
    values = tokens.astype(object)
    for j, kind in enumerate(columns.kinds):
        column = values[:, j]
        lacking = np.fromiter((token in (NO_TOKEN, MISSING) for token in column.tolist()), bool, len(column))
        column[lacking] = None
        if kind is ColumnKind.DATES:
            column[~lacking] = _dates(column[~lacking].astype(np.int64), columns.zone_of(j))
        elif kind is ColumnKind.ORDERED_CATEGORIES:
            column[~lacking] = values_at(column[~lacking], columns.order_of(j))
    return values


def _dates(microseconds: Ints, zone: str | None) -> Array:
    """Return the times of a column as dates of Python."""
    if zone is None:
        return microseconds.astype("datetime64[us]").astype(object)
    return object_array(aware_time(moment, zone) for moment in microseconds.tolist())


def difference(store: ModelStore | None, rows: Examples) -> Difference | None:
    """Compare what a store holds with all rows of a table; None where the store does not know all its rows.

    Examples
    --------
    >>> from hammemo.edits.sync import difference
    >>> from hammemo.stores.kept_rows import KeptRows
    >>> from hammemo.tokens.contexts import Examples
    >>> kept = KeptRows.empty(h=1, seed=0).edit(Examples.of([["a"], ["a"], ["b"]], ["x", "x", "y"]), 1)
    >>> found = difference(kept, Examples.of([["b"], ["c"], ["a"]], ["y", "y", "x"]))
    >>> found.n_gone, found.n_new, found.n_same, found.places.tolist()
    (1, 1, 2, [1])
    """
    if store is None:
        return None
    kept = store.kept_rows
    if kept is not None and kept.holds_all:
        return _by_rows(kept, rows)
    return _by_digests(store, rows) if isinstance(store, DigestStore) else None


def _by_rows(kept: KeptRows, rows: Examples) -> Difference:
    held = kept.examples()
    both = join_examples([held, rows])
    words = np.concatenate([kept.base.words, example_words(rows, kept.seed)])
    order, firsts = distinct_order(both.contexts.ranks, both.label_ranks, words)
    times = np.concatenate([-held.multiplicity, rows.multiplicity])[order]
    sums = np.add.reduceat(times, firsts) if len(firsts) else times
    last = order[np.append(firsts[1:], len(order)) - 1][sums > 0]  # of equal rows, those of the table come last
    gone = both.rows(order[firsts[sums < 0]])
    gone = replace(gone, multiplicity=-sums[sums < 0]).with_used_labels()
    more = sums[sums > 0]
    n_same = int(rows.multiplicity.sum() - more.sum())
    return Difference(gone, int(gone.multiplicity.sum()), last - len(held), more, n_same)


def _by_digests(store: DigestStore, rows: Examples) -> Difference:
    places, words, times = store.distinct(rows)
    more = times - store.digests.times(words)
    n_same = int((times - more.clip(min=0)).sum())
    n_gone = store.digests.total - n_same
    gone = rows.rows(np.empty(0, np.int64)) if not n_gone else None
    return Difference(gone, n_gone, places[more > 0], more[more > 0], n_same)


def compare(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], batches: Sequence[Table], read: ReadRows
) -> tuple[ModelState[L, M, V], CheckedRows, Difference | None]:
    """Compare a fitted model with all rows of a table, in batches of (X, y, sample_weight) with at least one row.

    Return the state with its columns of the kinds that both decide, the rows as of these kinds, and the difference;
    that is None where the model does not know all its rows.
    """
    for X, _, _ in batches:
        state = admit(settings, state, X)
    rows = join_rows([read(X, y, state, weight) for X, y, weight in batches])
    if not rows.counts.all():
        rows = rows[rows.counts > 0]
    return state, rows, difference(state.store, rows.examples())


def sync(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V] | None,
    table: Table,
    read: ReadRows,
    *,
    refit: bool = False,
    dry_run: bool = False,
) -> tuple[ModelState[L, M, V] | None, Synced]:
    """Return the state that holds just the rows of a table, and what the difference was.

    The table is (X, y, sample_weight), and `read` checks such rows. With `refit`, the state is the one that a fit makes
    of the table; the seed, declared labels and a given layout stay. With `dry_run`, the state that is returned means
    nothing.
    """
    X, y, sample_weight = table
    if state is None:
        rows = read(X, y, None, sample_weight)
        after = None if dry_run else fit(settings, None, rows)
        return after, Synced(0, int(rows.counts.sum()), 0, "fitted", rows, None)
    _refuse_documents(state)
    if not len(y) or (sample_weight is not None and not np.any(sample_weight)):
        return _sync_with_nothing(settings, state, refit=refit and not dry_run)
    before = state
    state, rows, found = compare(settings, state, [table], read)
    if found is None and not refit:
        raise ValueError(
            "sync compares rows, and this model does not know all of its rows (keep=False, or more rows than it keeps "
            "and no digests): pass refit=True to fit it to the table, or fit it with keep='auto+digests' once."
        )
    fits = refit and not state.pinned
    synced = _synced(rows, found, is_fitted=fits)
    if dry_run:
        return state, synced
    if fits:
        again = read(X, y, None, sample_weight)
        return fit_again(settings, before, again, settings.task.reading.list_declared_targets(before)), synced
    if found is not None and found.gone is not None:
        after = state
        if len(found.gone):
            after = forget(settings, after, found.gone)
        if found.n_new:
            after = learn(settings, after, synced.new)
    else:
        after = learn(settings, forget_everything(settings, state), rows, choose_again=False)
    return refit_state(settings, after) if refit else after, synced


def _synced(rows: CheckedRows, found: Difference | None, *, is_fitted: bool) -> Synced:
    if found is None:
        return Synced(None, None, None, "fitted", rows, None)
    how = "fitted" if is_fitted else "edited" if found.gone is not None else "counted"
    new = replace(rows[found.places], counts=found.times)
    return Synced(found.n_gone, found.n_new, found.n_same, how, new, found.gone)


def _sync_with_nothing(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], *, refit: bool
) -> tuple[ModelState[L, M, V], Synced]:
    """Forget everything: the content of no row is needed."""
    kept, h = state.rows, state.columns.width
    gone = kept.examples() if kept is not None and kept.holds_all else None
    nothing = CheckedRows(np.empty((0, h), object), np.empty(0, object), np.empty(0, np.int64), state.columns)
    synced = Synced(state.n_examples, 0, 0, "edited", nothing, gone)
    after = forget_everything(settings, state)
    return refit_state(settings, after) if refit else after, synced


def _refuse_documents(state: ModelState[L, M, V]) -> None:
    if state.cutting is not None or state.documents is not None:
        raise ValueError(
            "sync compares the rows of a table, and this model learnt documents: use forget_stream and "
            "partial_fit_stream."
        )
