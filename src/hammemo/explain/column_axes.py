"""The values of a column as the axis of a figure: its most frequent names, or ranges of its numbers and dates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
    from hammemo.tokens.vocabulary import Vocabulary

    Axis = tuple[tuple[str, ...], Ints, bool]
    """The values as they are shown, the value of each row, and whether they are in order."""

MOST_VALUES: Final = (20, 10)
"""The most names that are shown one by one: of one column, and of each column of a pair."""
MOST_RANGES: Final = (16, 8)
"""The most ranges of numbers, likewise."""


def column_place(columns: Columns, column: Any) -> int:
    """Return the place of a column that is given by its name, or by its place."""
    listed, h = columns.list_names() or [], columns.n
    if column in listed:
        return int(listed.index(column))
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool) and -h <= column < h:
        return int(column) % h
    known = ", ".join(map(repr, listed[:20])) if listed else f"the places 0 to {h - 1}"
    raise ValueError(f"There is no column {column!r}; the table has {known}.")


def find_places(columns: Columns, named: Sequence[Any]) -> list[int]:
    """Return the places of columns, which must differ."""
    places = [column_place(columns, column) for column in named]
    if len(set(places)) < len(places):
        raise ValueError(f"{named[0]!r} and {named[1]!r} are the same column: name two.")
    return places


def name_columns(columns: Columns, places: Sequence[int]) -> tuple[str, ...]:
    """Return what columns are called in a figure."""
    names = columns.names
    return tuple(f"column {place}" if names is None else str(names[place]) for place in places)


def contexts_of_places(
    columns: Columns, contexts: Contexts, places: list[int]
) -> tuple[Contexts, list[int]]:
    """Return contexts in which these columns have tokens of their own, and where: of packed rows, they alone."""
    if not columns.packed:
        return contexts, places
    values = unpack_rows(contexts, columns.n).of_columns(np.array(sorted(places)))
    tokens = np.where(np.isnan(values), float(NO_TOKEN), values)
    return Contexts(tokens), [sorted(places).index(place) for place in places]


def name_axis(tokens: Vocabulary, ranks: Ints, totals: Ints, most: int) -> Axis:
    """Return names, the most frequent first; whole numbers in their order where they are few."""
    listed = tokens.tolist()
    sums = np.bincount(ranks + 1, totals, len(listed) + 1).astype(
        np.int64
    )  # the first is for no token
    used = [rank for rank in np.flatnonzero(sums).tolist() if rank]
    are_numbers = len(used) <= most and not any(isinstance(listed[rank - 1], str) for rank in used)
    order = used if are_numbers else sorted(used, key=lambda rank: (-int(sums[rank]), rank))
    bins = np.full(len(listed) + 1, min(len(order), most), np.int64)
    bins[order[:most]] = np.arange(len(order[:most]))
    shown = [
        column_plot.MISSING if listed[rank - 1] == MISSING else str(listed[rank - 1])
        for rank in order[:most]
    ]
    if len(order) > most:
        shown.append(f"{len(order) - most:,} {column_plot.OTHERS}")
    if sums[0]:
        bins[0] = len(shown)
        shown.append(column_plot.MISSING)
    return tuple(shown), np.minimum(bins[ranks + 1], max(len(shown) - 1, 0)), are_numbers


def range_axis(kind: ColumnKind, tokens: Vocabulary, ranks: Ints, totals: Ints, most: int) -> Axis:
    """Return ranges of about as many rows each."""
    found = token_values(tokens)[ranks]
    cuts = quantile_cuts(found, totals, most - 1)
    bins = np.where(np.isnan(found), len(cuts) + 1, np.searchsorted(cuts, found, side="right"))
    return label_ranges(kind, cuts, bins)


def label_ranges(kind: ColumnKind, cuts: Floats, bins: Ints) -> Axis:
    """Return ranges as they are shown; a bin after the last one is for missing values."""
    shown = [range_text(kind, cuts, bin_) for bin_ in range(len(cuts) + 1)]
    return (*shown, *([column_plot.MISSING] if (bins > len(cuts)).any() else [])), bins, True
