"""Make a model equal to a table: forget the rows that are gone, learn the new ones.

Rows are compared by their content, so no log is needed.

What a model holds and what a table holds are two multisets of rows, and `difference` is what one
has more often than the other. A model that keeps all its rows knows the content of both sides. One
with digests of all rows (:mod:`hammemo.stores.digest_store`) knows which rows of the table are new,
and how many of its own are gone, but not what these held. They cannot be subtracted then, so all
rows of the table are counted again under the same layout. A memory is a sum over rows, so this
gives the same counts. A model that knows neither can only be fitted to the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo.edits.fit import fit, fit_again
from hammemo.edits.forget import forget, forget_everything
from hammemo.edits.learn import admit, learn
from hammemo.edits.refit import refit as refit_state
from hammemo.edits.task import L, M, V
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
    from hammemo.edits.task import ReadRows
    from hammemo.stores.kept import ModelStore
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tokens.columns import Columns

Table: TypeAlias = tuple[Any, Any, Any]
"""Rows X, their labels or targets y, and how often each occurs: sample_weight, or None."""

_HOW_IN_WORDS: Final = {
    "edited": "",
    "counted": (
        " The model has only digests of the rows that are gone, so all rows were counted again."
    ),
    "fitted": " The model was fitted to the table.",
}
"""What `Synced.how` adds to its text."""


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
        The rows of the table that it holds more often, each distinct row once, and how many times
        more.
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
        "edited": the rows that differ were forgotten and learnt. "counted": the rows that are gone
        were known only by their digests, so all rows of the table were counted again under the same
        layout. "fitted": the model was fitted to the table.
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
        """Return the rows to learn and their labels, as `partial_fit` takes them.

        A row with n copies comes n times.
        """
        places = np.repeat(np.arange(len(self.new.counts)), self.new.counts)
        return _read_values(self.new.tokens[places], self.new.columns), self.new.labels[places]

    def forgotten_rows(self) -> tuple[Array, Array]:
        """Return the rows to forget and their labels, as `forget` takes them.

        ValueError is raised if they are not stored.
        """
        gone = self.gone
        if gone is None:
            raise ValueError(
                "The model does not store the content of the rows that are gone: it has digests of "
                "its rows, or nothing. Use keep='rows+digests' for a model that keeps rows."
            )
        places = np.repeat(np.arange(len(gone)), gone.multiplicity)
        # rank -1, no token, reads the last entry
        tokens = object_array([*gone.contexts.vocabulary.tolist(), NO_TOKEN])
        labels = object_array(gone.labels.tolist())
        values = _read_values(tokens[gone.contexts.ranks[places]], self.new.columns)
        return values, labels[gone.label_ranks[places]]

    def __str__(self) -> str:
        if self.forgotten is None:
            return "Fitted to the table; the model did not know which rows it held."
        rows = "row" if self.forgotten == 1 else "rows"
        return (
            f"{self.forgotten:,} {rows} forgotten, {self.learnt:,} learnt, "
            f"{self.unchanged:,} unchanged.{_HOW_IN_WORDS[self.how]}"
        )


def _read_values(tokens: Array, columns: Columns) -> Array:
    """Return tokens as a user gives them.

    A missing value is None, and a time is a date of Python, in the zone of its column.
    """
    values = tokens.astype(object)
    for j, kind in enumerate(columns.kinds):
        column = values[:, j]
        are_missing = (token in (NO_TOKEN, MISSING) for token in column.tolist())
        is_missing = np.fromiter(are_missing, bool, len(column))
        column[is_missing] = None
        if kind is ColumnKind.DATES:
            microseconds = column[~is_missing].astype(np.int64)
            column[~is_missing] = _read_dates(microseconds, columns.zone_of(j))
        elif kind is ColumnKind.ORDERED_CATEGORIES:
            column[~is_missing] = values_at(column[~is_missing], columns.order_of(j))
    return values


def _read_dates(microseconds: Ints, zone: str | None) -> Array:
    """Return the times of a column as dates of Python."""
    if zone is None:
        return microseconds.astype("datetime64[us]").astype(object)
    return object_array(aware_time(moment, zone) for moment in microseconds.tolist())


def difference(store: ModelStore | None, rows: Examples) -> Difference | None:
    """Compare what a store holds with all rows of a table.

    Return None if the store does not know all its rows.

    Examples
    --------
    >>> from hammemo.edits.sync import difference
    >>> from hammemo.stores.kept_rows import KeptRows
    >>> from hammemo.tokens.contexts import Examples
    >>> rows = Examples.of([["a"], ["a"], ["b"]], ["x", "x", "y"])
    >>> table = Examples.of([["b"], ["c"], ["a"]], ["y", "y", "x"])
    >>> between = difference(KeptRows.empty(h=1, seed=0).edit(rows, 1), table)
    >>> between.n_gone, between.n_new, between.n_same, between.places.tolist()
    (1, 1, 2, [1])
    """
    if store is None:
        return None
    kept_rows = store.kept_rows
    if kept_rows is not None and kept_rows.holds_all:
        return _compare_with_rows(kept_rows, rows)
    if isinstance(store, DigestStore):
        return _compare_with_digests(store, rows)
    return None


def _compare_with_rows(kept_rows: KeptRows, rows: Examples) -> Difference:
    # Sort both together, so that equal rows stand side by side, and count each distinct row: those
    # of the store with a minus sign.
    kept_examples = kept_rows.examples()
    all_examples = join_examples([kept_examples, rows])
    words = np.concatenate([kept_rows.base.words, example_words(rows, kept_rows.seed)])
    order, firsts = distinct_order(all_examples.contexts.ranks, all_examples.label_ranks, words)
    counts = np.concatenate([-kept_examples.multiplicity, rows.multiplicity])[order]
    sums = counts
    if len(firsts):  # reduceat refuses nothing
        sums = np.add.reduceat(counts, firsts)
    is_new = sums > 0
    is_gone = sums < 0
    gone = all_examples.rows(order[firsts[is_gone]])
    gone = replace(gone, multiplicity=-sums[is_gone]).with_used_labels()
    # Of equal rows, those of the table come last: their places follow those of the store.
    lasts = order[np.append(firsts[1:], len(order)) - 1]
    times = sums[is_new]
    return Difference(
        gone=gone,
        n_gone=int(gone.multiplicity.sum()),
        places=lasts[is_new] - len(kept_examples),
        times=times,
        n_same=int(rows.multiplicity.sum() - times.sum()),
    )


def _compare_with_digests(store: DigestStore, rows: Examples) -> Difference:
    places, words, times = store.distinct(rows)
    n_more = times - store.digests.times(words)
    n_same = int((times - n_more.clip(min=0)).sum())
    n_gone = store.digests.total - n_same
    is_new = n_more > 0
    return Difference(
        gone=None if n_gone else rows.rows(np.empty(0, np.int64)),
        n_gone=n_gone,
        places=places[is_new],
        times=n_more[is_new],
        n_same=n_same,
    )


class Comparison(NamedTuple, Generic[L, M, V]):
    """A fitted model beside all rows of a table."""

    state: ModelState[L, M, V]
    """The state, with its columns of the kinds that model and table decide together."""
    rows: CheckedRows
    """The rows of the table, as rows of these kinds."""
    difference: Difference | None
    """None where the model does not know all its rows."""


def compare(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V],
    batches: Sequence[Table],
    read: ReadRows,
) -> Comparison[L, M, V]:
    """Compare a fitted model with all rows of a table.

    They come in batches of (X, y, sample_weight) with at least one row.
    """
    for X, _, _ in batches:
        state = admit(settings, state, X)
    rows = join_rows([read(X, y, state, weight) for X, y, weight in batches])
    if not rows.counts.all():
        rows = rows[rows.counts > 0]
    return Comparison(state, rows, difference(state.store, rows.examples()))


def sync(
    settings: EditSettings[L, M, V],
    before: ModelState[L, M, V] | None,
    table: Table,
    read: ReadRows,
    *,
    refit: bool = False,
    dry_run: bool = False,
) -> tuple[ModelState[L, M, V] | None, Synced]:
    """Return the state that holds just the rows of a table, and what the difference was.

    Parameters
    ----------
    settings : EditSettings
    before : ModelState or None
        None for a model that has learned nothing: it is fitted to the table.
    table : (X, y, sample_weight)
    read : callable
        Checks such rows.
    refit : bool
        Whether the state is the one that a fit makes of the table; the seed, declared labels and a
        layout that was given stay.
    dry_run : bool
        Whether only the difference is needed; the state that is returned means nothing.
    """
    X, y, sample_weight = table
    if before is None:
        rows = read(X, y, None, sample_weight)
        synced = _describe_first_fit(rows)
        if dry_run:
            return None, synced
        return fit(settings, None, rows), synced
    _refuse_documents(before)
    if not len(y) or (sample_weight is not None and not np.any(sample_weight)):
        return _sync_with_nothing(settings, before, refit=refit and not dry_run)
    state, rows, between = compare(settings, before, [table], read)
    if between is None and not refit:
        raise ValueError(
            "sync compares rows, and this model does not know all of its rows (keep=False, or more "
            "rows than it keeps and no digests): pass refit=True to fit it to the table, or fit it "
            "with keep='auto+digests' once."
        )
    is_fitted = refit and not state.pinned
    synced = _describe_sync(rows, between, is_fitted=is_fitted)
    if dry_run:
        return state, synced
    if is_fitted:
        declared = settings.task.reading.list_declared_targets(before)
        first_rows = read(X, y, None, sample_weight)
        return fit_again(settings, before, first_rows, declared), synced
    if between is not None and between.gone is not None:
        after = _learn_difference(settings, state, synced.new, between.gone)
    else:
        after = learn(settings, forget_everything(settings, state), rows, choose_again=False)
    if refit:
        after = refit_state(settings, after)
    return after, synced


def _learn_difference(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], new: CheckedRows, gone: Examples
) -> ModelState[L, M, V]:
    """Forget the rows that are gone and learn the new ones."""
    if len(gone):
        state = forget(settings, state, gone)
    if len(new.counts):
        state = learn(settings, state, new)
    return state


def _describe_first_fit(rows: CheckedRows) -> Synced:
    return Synced(
        forgotten=0,
        learnt=int(rows.counts.sum()),
        unchanged=0,
        how="fitted",
        new=rows,
        gone=None,
    )


def _describe_sync(rows: CheckedRows, between: Difference | None, *, is_fitted: bool) -> Synced:
    if between is None:
        return Synced(
            forgotten=None, learnt=None, unchanged=None, how="fitted", new=rows, gone=None
        )
    if is_fitted:
        how = "fitted"
    elif between.gone is not None:
        how = "edited"
    else:
        how = "counted"
    return Synced(
        forgotten=between.n_gone,
        learnt=between.n_new,
        unchanged=between.n_same,
        how=how,
        new=replace(rows[between.places], counts=between.times),
        gone=between.gone,
    )


def _sync_with_nothing(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], *, refit: bool
) -> tuple[ModelState[L, M, V], Synced]:
    """Forget everything: the content of no row is needed."""
    gone = None
    if state.rows is not None and state.rows.holds_all:
        gone = state.rows.examples()
    nothing = CheckedRows(
        np.empty((0, state.columns.width), object),
        np.empty(0, object),
        np.empty(0, np.int64),
        state.columns,
    )
    synced = Synced(
        forgotten=state.n_examples,
        learnt=0,
        unchanged=0,
        how="edited",
        new=nothing,
        gone=gone,
    )
    after = forget_everything(settings, state)
    if refit:
        after = refit_state(settings, after)
    return after, synced


def _refuse_documents(state: ModelState[L, M, V]) -> None:
    if state.cutting is not None or state.documents is not None:
        raise ValueError(
            "sync compares the rows of a table, and this model learnt documents: use forget_stream "
            "and partial_fit_stream."
        )
