"""Kinds: what each column of the input holds, so that another file is read as the model learnt it.

``"3"`` and ``3`` are two tokens, and a CSV file has only strings. So a column has a kind (s: strings, i: whole numbers,
m: something else or both), and values of another file are read the same way: in a column of whole numbers the text
``3`` is the number 3; in one of strings the number 3 is the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo.tokens.missing import MISSING
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from numpy.typing import NDArray


def merged_kinds(before: str, after: str) -> str:
    """Return what columns hold after two batches: m where they differ.

    Examples
    --------
    >>> from hammemo.sources.kinds import merged_kinds
    >>> merged_kinds("", "si"), merged_kinds("si", "ss")
    ('si', 'sm')
    """
    return "".join(a if a == b else "m" for a, b in zip(before, after, strict=True)) if before else after


def packed_kinds(kinds: str) -> str:
    """Return runs of letters as a letter and a number, so that a note of many columns stays short.

    Examples
    --------
    >>> from hammemo.sources.kinds import packed_kinds, unpacked_kinds
    >>> packed_kinds("ssssi"), unpacked_kinds("s4i")
    ('s4i', 'ssssi')
    """
    packed = re.sub(r"(.)\1+", lambda run: f"{run[1]}{len(run[0])}", kinds)
    return packed if len(packed) <= 1024 else ""


def unpacked_kinds(packed: str) -> str:
    """Return the letters that `packed_kinds` packed; nothing for a note that it did not write."""
    if not re.fullmatch(r"([sim]([0-9]{1,6})?)*", packed, re.ASCII):
        return ""
    return "".join(letter * int(number or 1) for letter, number in re.findall(r"([sim])([0-9]*)", packed))


def kind_of(values: NDArray[Any]) -> str:
    """Return whether values are all strings, all whole numbers, or neither; missing ones aside."""
    if values.dtype.kind in "iu":
        return "i"
    found = {type(value) for value in values.tolist() if value != NO_TOKEN and value != MISSING}
    return "s" if found == {str} else "i" if found == {int} else "m"


def as_kind(values: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return values as the model learnt them: texts as whole numbers or the other way round where that is possible."""
    if kind == "i" and values.dtype.kind == "O":
        return _narrowed([_number(value) for value in values.tolist()])
    if kind == "s" and kind_of(values) != "s":
        return object_array(
            str(value) if type(value) is int and value != NO_TOKEN else value for value in values.tolist()
        )
    return values


def _number(value: Any) -> Any:
    fits = isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value, re.ASCII)
    return int(value) if fits else value


def _narrowed(values: list[Any]) -> NDArray[Any]:
    return np.array(values, np.int64) if all(type(value) is int for value in values) else object_array(values)
