"""Warnings of columns of names in a first table that are probably not meant as names.

A name equals another one or does not: nothing else of it is compared. Where that loses much, such
as the words of a text, one warning says so, with the column and what to do.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from hammemo.tokens.column_kinds import NAMES
from hammemo.tokens.missing import MISSING
from hammemo.tokens.table_columns import quote_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array
    from hammemo.tokens.column_kinds import ColumnKinds

_MANY_ROWS: Final = 50
"""In fewer rows names often differ, and nothing is known of later ones."""
_UNIQUE_SHARE: Final = 0.9
"""The share of different values from which on almost none will match later, as of whole numbers."""
_TEXT_SHARE: Final = 0.5
_TEXT_WORDS: Final = 5
"""Strings of so many words on average, half of which differ, are texts rather than names: the names
of products, for example, are texts."""


def warn_of_strings(
    columns: Sequence[Array], kinds: ColumnKinds, names: Sequence[Any] | None
) -> None:
    """Warn of the first column whose strings nearly all differ, or are texts."""
    for j, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        if kind is not NAMES or column.dtype.kind not in "OUT":
            continue
        what = _describe_strings(column)
        if what is not None:
            warnings.warn(
                f"{quote_column(j, names)} holds {what}; as names, almost none of them will match "
                "later. Leave the column out if these are ids. Of texts, make columns first, "
                "for example with TfidfVectorizer, or learn them with fit_stream.",
                UserWarning,
                stacklevel=2,
            )
            return


def _describe_strings(column: Array) -> str | None:
    """Return what the strings of a column are if they are no names; None otherwise."""
    strings = [value for value in column.tolist() if isinstance(value, str) and value != MISSING]
    if len(strings) < max(_MANY_ROWS, len(column) / 2):
        return None
    n_distinct = len(set(strings))
    if n_distinct >= _UNIQUE_SHARE * len(strings):
        return "strings that nearly all differ"
    if n_distinct < _TEXT_SHARE * len(strings):
        return None
    n_words = sum(len(text.split()) for text in strings)
    return "long texts" if n_words >= _TEXT_WORDS * len(strings) else None
