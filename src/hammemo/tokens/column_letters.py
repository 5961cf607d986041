"""Facts about columns as text, for files, notes and digests: one letter for each column.

Inside the program they are tuples of members of the enums of :mod:`hammemo.tokens.column_kinds`.
Only what is written out has letters, and only the functions here make and read them.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

Fact = TypeVar("Fact", bound=Enum)


def encode_letters(facts: Iterable[Enum]) -> str:
    """Return the letter of each fact.

    Examples
    --------
    >>> from hammemo.tokens.column_kinds import ColumnKind
    >>> from hammemo.tokens.column_letters import decode_letters, encode_letters
    >>> kinds = (ColumnKind.NAMES, ColumnKind.NUMBERS, ColumnKind.DATES)
    >>> encode_letters(kinds), decode_letters("snd", ColumnKind) == kinds
    ('snd', True)
    """
    return "".join([fact.value for fact in facts])


def decode_letters(letters: Any, alphabet: type[Fact]) -> tuple[Fact, ...]:
    """Return the facts that letters stand for; ValueError for letters that stand for none."""
    facts = {fact.value: fact for fact in alphabet}
    if not isinstance(letters, str) or not facts.keys() >= set(letters):
        raise ValueError("the kinds of its columns are not valid")
    return tuple(map(facts.__getitem__, letters))


def encode_runs(facts: Iterable[Enum]) -> str:
    """Return each letter with how often it follows itself, since tables may have many columns.

    Examples
    --------
    >>> from hammemo.tokens.column_kinds import ColumnType
    >>> from hammemo.tokens.column_letters import decode_runs, encode_runs
    >>> types = (ColumnType.UNTYPED,) * 3 + (ColumnType.TYPED,)
    >>> encode_runs(types), decode_runs("o3t1", 4, ColumnType) == types
    ('o3t1', True)
    """
    return re.sub(r"(.)\1*", lambda run: f"{run[1]}{len(run[0])}", encode_letters(facts))


def decode_runs(runs: str, n: int, alphabet: type[Fact]) -> tuple[Fact, ...]:
    """Return the facts about n columns that `encode_runs` wrote; ValueError where it did not."""
    pairs = re.findall(rf"([{encode_letters(alphabet)}])([1-9][0-9]{{0,9}})", runs, re.ASCII)
    # the length is checked first: a short text could ask for billions of columns
    if sum(int(times) for _, times in pairs) == n:
        facts = decode_letters("".join(letter * int(times) for letter, times in pairs), alphabet)
        if encode_runs(facts) == runs:
            return facts
    raise ValueError("the types of its columns are not valid")
