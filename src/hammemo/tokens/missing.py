"""Missing values of a table (None, NaN, NA, NaT), and what takes their place in a context.

Intervals and periods of pandas become their names here, too: `pd.cut` makes a column of intervals.

- "token": one token of their own, `MISSING`, so that missing values match each other: that a value
  is missing can tell something, as for learners that branch on it.
- "empty": no token (:data:`hammemo.NO_TOKEN`), which matches nothing and casts no vote.
- "refuse": nothing; they are refused where tokens are made of them.

`MISSING` is an ordinary string. A table that holds this very text says the same with it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hammemo._arrays.types import Array, Bools

MISSING: Final = "<missing>"
"""The token of a missing value."""

MISSING_RULES: Final = ("token", "empty", "refuse")

_PRESENT: Final = frozenset({str, int, bool})
"""The types of values that are never missing."""


def check_missing_rule(missing: Any) -> None:
    """Refuse a parameter that is none of the three."""
    if missing not in MISSING_RULES:
        raise ValueError(f"missing={missing!r} is not known: use 'token', 'empty' or 'refuse'.")


def is_missing(value: Any) -> bool:
    """Return whether a value stands for none.

    Examples
    --------
    >>> from hammemo.tokens.missing import is_missing
    >>> [is_missing(value) for value in (None, float("nan"), 0, "", "nan")]
    [True, True, False, False, False]
    """
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def fill_missing(array: Array, missing: str) -> Array:
    """Return an array with its missing values replaced, and itself where it has none.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.missing import fill_missing
    >>> fill_missing(np.array([["a", None]], object), "token").tolist()
    [['a', '<missing>']]
    >>> fill_missing(np.array([[1.0, 2.0]]), "token").tolist()
    [[1.0, 2.0]]
    """
    if array.dtype.kind in "mM" and np.isnat(array).all():  # a column of dates without any date
        array = np.full(array.shape, None, object)
    if array.dtype.kind == "O":
        values = array.ravel().tolist()
        value_types = set(map(type, values))
        if value_types <= _PRESENT:
            return array
        if any(map(_has_name, value_types)):
            values = [str(value) if _has_name(type(value)) else value for value in values]
            array = object_array(values).reshape(array.shape)
    if missing == "refuse" or array.dtype.kind not in "fOT":
        return array
    if array.dtype.kind == "f":
        lacking = np.isnan(array)
    else:
        flags = map(is_missing, array.ravel().tolist())
        lacking = np.fromiter(flags, bool, array.size).reshape(array.shape)
    if not lacking.any():
        return array
    replaced = array.astype(object)
    replaced[lacking] = _token(missing)
    return replaced


def fill_tokens(tokens: Iterable[Any], missing: str) -> list[Any]:
    """Return the tokens of one context with its missing values replaced."""
    values = list(tokens)
    if set(map(type, values)) <= _PRESENT:
        return values
    values = [str(value) if _has_name(type(value)) else value for value in values]
    if missing == "refuse":
        return values
    return [_token(missing) if is_missing(value) else value for value in values]


def _has_name(kind: type) -> bool:
    """Return whether values of this type are intervals or periods: their text is their name."""
    return kind.__name__ in ("Interval", "Period") and kind.__module__.split(".")[0] == "pandas"


def fill_column(values: Array, lacking: Bools, missing: str) -> Array:
    """Return a column with the values that it lacks replaced."""
    replaced = object_array(values.tolist())
    replaced[lacking] = _token(missing)
    return replaced


def _token(missing: str) -> Any:
    return MISSING if missing == "token" else NO_TOKEN
