"""Warnings of strings in frames, arrays and lists that are probably numbers or dates.

In Python a string is a name: the user has made it one, so it is not read as anything else. But near
numbers and dates are not alike as names, and models of them are much worse. So one warning names
the column, its values and the line that converts it.
"""

from __future__ import annotations

import json
import re
import warnings
from typing import TYPE_CHECKING, Any, Final

from hammemo.tokens.column_kinds import NAMES
from hammemo.tokens.column_values import is_number
from hammemo.tokens.date_formats import choose_format
from hammemo.tokens.missing import MISSING, is_missing
from hammemo.tokens.table_columns import array_values
from hammemo.tokens.text_evidence import NA_TEXTS, NUMBER, TextEvidence, quote_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array
    from hammemo.tokens.column_kinds import ColumnKinds

_FIRST_LOOK: Final = 200
"""Strings that are looked at first: most columns of names show it at once."""

_MANY_ROWS: Final = 50
"""Strings of a column, at least, for a warning that all of them are numbers."""

_MANY_TEXTS: Final = 20
_MANY_CODES: Final = 100
"""Different fractions, or different whole numbers, at least: fewer may be codes, such as days of a
month."""

_FEW_TEXTS: Final = 5
"""The same for fractions beside texts of missing values, which codes rarely have, and for dates."""

_MOST_NAMED: Final = 5
_NA: Final = frozenset(NA_TEXTS)


def warn_of_texts(columns: list[Array], kinds: ColumnKinds, names: Sequence[Any] | None) -> bool:
    """Warn once of columns of names whose values are numbers or dates as strings.

    Return whether there was a warning.

    Parameters
    ----------
    columns : list of ndarray
    kinds : tuple of ColumnKind
    names : sequence, optional
        Their names, if they have any.
    """
    advice = []
    places = []
    for place, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        if kind is not NAMES or column.dtype.kind not in "OU":
            continue
        words = _advise(array_values(column), _name_in_code(place, names))
        if words is not None:
            places.append(_name_in_words(place, names))
            advice.append(words)
    if not advice:
        return False
    warnings.warn(
        f"Column {places[0]} holds {advice[0]}{_list_others(places[1:])}",
        UserWarning,
        stacklevel=2,
    )
    return True


def _list_others(places: list[str]) -> str:
    """Return the sentence that names the other columns, the first few of them if they are many."""
    if not places:
        return ""
    n_unnamed = len(places) - _MOST_NAMED
    ending = f" and {n_unnamed:,} more" if n_unnamed > 0 else ""
    return f" Columns of the same sort: {', '.join(places[:_MOST_NAMED])}{ending}."


def _name_in_words(place: int, names: Sequence[Any] | None) -> str:
    return str(place) if names is None else repr(names[place])


def _name_in_code(place: int, names: Sequence[Any] | None) -> str:
    """Return a column as a line of Python writes it."""
    if names is None:
        return f"X[:, {place}]"
    name = names[place]
    shown = json.dumps(name, ensure_ascii=False) if isinstance(name, str) else repr(name)
    return f"df[{shown}]"


def _advise(values: list[Any], column: str) -> str | None:
    """Return what a column probably holds and how to convert it; None if its values are names."""
    texts = [value for value in values if isinstance(value, str) and value != MISSING]
    if not texts or TextEvidence.of_texts(texts[:_FIRST_LOOK], _NA).is_closed:
        return None
    others = [value for value in values if not isinstance(value, str) and not is_missing(value)]
    if not all(map(is_number, others)):
        return None
    evidence = TextEvidence.of_texts(texts, _NA)
    if evidence.is_closed or evidence.others:
        return None
    if evidence.n_dates and evidence.n_dates == evidence.n_values and not others:
        return _advise_dates(texts, evidence, column)
    if evidence.n_dates:
        return None
    return _advise_numbers(texts, others, evidence, column)


def _advise_numbers(
    texts: list[str], others: list[Any], evidence: TextEvidence, column: str
) -> str | None:
    """Return the advice for numbers that are strings, or stand beside texts of missing values."""
    numbers = {text for text in texts if text.strip() and text.strip() not in _NA}
    if evidence.missing:
        least = _MANY_TEXTS if all(text.strip().isdecimal() for text in numbers) else _FEW_TEXTS
        if not others and len(numbers) < least:
            return None
        as_strings = " as strings" if numbers else ""
        missing = quote_texts(text for text, _ in evidence.missing)
        return (
            f"numbers{as_strings} and {missing}, so it is read as names: "
            f'convert it with {column} = pd.to_numeric({column}, errors="coerce"), '
            "or say numeric='none' if names are meant."
        )
    if others or len(texts) < _MANY_ROWS:
        return None
    least = _MANY_CODES if all(text.isdecimal() for text in numbers) else _MANY_TEXTS
    if len(numbers) < least:
        return None
    return (
        "numbers as strings, which are read as names: convert it with astype(float), "
        "or say numeric='none' if names are meant."
    )


def _advise_dates(texts: list[str], evidence: TextEvidence, column: str) -> str | None:
    """Return the advice for a column of dates as strings."""
    dates = {text for text in texts if text.strip() and text.strip() not in _NA}
    if len(dates) < _FEW_TEXTS:
        return None
    shown = quote_texts(evidence.shown)
    chosen = choose_format(evidence.readings - {NUMBER})
    if chosen is not None:
        line = _convert_dates(column, chosen, evidence)
        return f"dates as strings, such as {shown}, so it is read as names: convert it with {line}."
    if not evidence.readings:
        return (
            f"dates as strings in more than one format, such as {shown}, so it is read as names: "
            "write all alike."
        )
    lines = " or ".join(
        _convert_dates(column, written, evidence) for written in sorted(evidence.readings)
    )
    return (
        f"dates as strings, such as {shown}, that do not say which number is the day or which "
        f"century is meant, so it is read as names: convert it with {lines}."
    )


def _convert_dates(column: str, written: str, evidence: TextEvidence) -> str:
    """Return the line of Python that makes dates of a column."""
    has_long_months = any(re.search("[A-Za-z]{4,}", text) for text in evidence.shown)
    written = written.replace("%b", "%B") if has_long_months else written
    coerce = ', errors="coerce"' if evidence.missing else ""
    return f'{column} = pd.to_datetime({column}, format="{written}"{coerce})'
