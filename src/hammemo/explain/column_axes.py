"""The values of a column as the axis of a figure.

They are its most frequent names, or ranges of its numbers and dates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo.explain import column_plot
from hammemo.features.cells import quantile_cuts, range_text, token_values
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.missing import MISSING
from hammemo.tokens.packed_rows import unpack_rows
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Floats, Ints
    from hammemo.tokens.column_kinds import ColumnKind
    from hammemo.tokens.columns import Columns
    from hammemo.tokens.orders import Order
    from hammemo.tokens.vocabulary import Vocabulary

MOST_VALUES: Final = (20, 10)
"""The most names that are shown one by one: of one column, and of each column of a pair."""

MOST_RANGES: Final = (16, 8)
"""The most ranges of numbers, likewise."""

_MOST_LISTED: Final = 20
"""Columns that an error lists."""


class Axis(NamedTuple):
    """The axis of a column."""

    values: tuple[str, ...]
    """The values as they are shown."""
    bins: Ints
    """The value of each row, as its place among `values`: (m,)."""
    is_ordered: bool
    """Whether the values are in order."""


def find_places(columns: Columns, names_or_places: Sequence[Any]) -> list[int]:
    """Return the places of columns, which must differ."""
    places = [_find_place(columns, column) for column in names_or_places]
    if len(set(places)) < len(places):
        first = names_or_places[0]
        second = names_or_places[1]
        raise ValueError(f"{first!r} and {second!r} are the same column: name two.")
    return places


def _find_place(columns: Columns, column: Any) -> int:
    """Return the place of a column, by its name or by its place."""
    names = columns.list_names() or []
    h = columns.n
    if column in names:
        return int(names.index(column))
    is_whole = isinstance(column, (int, np.integer)) and not isinstance(column, bool)
    if is_whole and -h <= column < h:
        return int(column) % h
    if names:
        existing = ", ".join(map(repr, names[:_MOST_LISTED]))
    else:
        existing = f"the places 0 to {h - 1}"
    raise ValueError(f"There is no column {column!r}; the table has {existing}.")


def name_columns(columns: Columns, places: Sequence[int]) -> tuple[str, ...]:
    """Return what columns are called in a figure."""
    if columns.names is None:
        return tuple(f"column {place}" for place in places)
    return tuple(str(columns.names[place]) for place in places)


def contexts_of_places(
    columns: Columns, contexts: Contexts, places: list[int]
) -> tuple[Contexts, list[int]]:
    """Return contexts in which these columns have tokens of their own, and where they are there.

    Of packed rows, the contexts hold these columns alone.
    """
    if not columns.packed:
        return contexts, places
    ascending = sorted(places)
    values = unpack_rows(contexts, columns.n).select_columns(np.array(ascending))
    tokens = np.where(np.isnan(values), float(NO_TOKEN), values)
    return Contexts(tokens), [ascending.index(place) for place in places]


def name_axis(tokens: Vocabulary, ranks: Ints, totals: Ints, max_values: int) -> Axis:
    """Return the axis of names, the most frequent first; few whole numbers are in their order.

    Parameters
    ----------
    tokens : Vocabulary
    ranks, totals : ndarray of int64, shape (m,)
        The token of each row, -1 for none, and how often the row occurs.
    max_values : int
        The most names that are shown one by one.
    """
    names = tokens.tolist()
    slots = ranks + 1  # the first slot is for no token
    slot_totals = np.bincount(slots, totals, len(names) + 1).astype(np.int64)
    occurring = [slot for slot in np.flatnonzero(slot_totals).tolist() if slot]
    are_numbers = len(occurring) <= max_values and not any(
        isinstance(names[slot - 1], str) for slot in occurring
    )
    if are_numbers:
        order = occurring
    else:
        order = sorted(occurring, key=lambda slot: (-int(slot_totals[slot]), slot))

    values = [_show_name(names[slot - 1]) for slot in order[:max_values]]
    bin_of_slot = np.full(len(names) + 1, len(values), np.int64)
    bin_of_slot[order[:max_values]] = np.arange(len(values))
    if len(order) > max_values:
        values.append(f"{len(order) - max_values:,} {column_plot.OTHERS}")
    if slot_totals[0]:
        bin_of_slot[0] = len(values)
        values.append(column_plot.MISSING)
    bins = np.minimum(bin_of_slot[slots], max(len(values) - 1, 0))
    return Axis(tuple(values), bins, are_numbers)


def _show_name(name: Any) -> str:
    if name == MISSING:
        return column_plot.MISSING
    return str(name)


def range_axis(
    kind: ColumnKind,
    tokens: Vocabulary,
    ranks: Ints,
    *,
    totals: Ints,
    max_values: int,
    order: Order = (),
) -> Axis:
    """Return the axis of ranges with about as many rows each."""
    numbers = token_values(tokens)[ranks]
    cuts = quantile_cuts(numbers, totals, max_values - 1)
    bins = np.searchsorted(cuts, numbers, side="right")
    return label_ranges(kind, cuts, np.where(np.isnan(numbers), len(cuts) + 1, bins), order)


def label_ranges(kind: ColumnKind, cuts: Floats, bins: Ints, order: Order = ()) -> Axis:
    """Return ranges as they are shown; a bin after the last one is for missing values."""
    values = [range_text(kind, cuts, number, order) for number in range(len(cuts) + 1)]
    if (bins > len(cuts)).any():
        values.append(column_plot.MISSING)
    return Axis(tuple(values), bins, is_ordered=True)
