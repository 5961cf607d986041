"""Whether each column held numbers or strings when it was learned, and what differs in a query.

``39`` and ``"39"`` are two tokens. A column that was learned as numbers and queried as strings
matches nothing, and the answer changes without an error. So a model notes the type of the tokens of
each column. A stream has one type for all its positions.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._versions import Cached, cached_property
from hammemo.tokens.column_kinds import NAMES, TokenType
from hammemo.tokens.missing import MISSING
from hammemo.tokens.table_columns import quote_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Token

_LOOKED_AT: Final = 8
"""Rows of a question that are looked at."""

# For single questions: to look up a member takes time in Python 3.11.
_NUMBERS, _STRINGS, _UNKNOWN = TokenType


@dataclass(frozen=True)
class TokenTypes(Cached):
    """The types of the tokens of columns.

    Parameters
    ----------
    types : tuple of TokenType
        One for each column, or one for all.

    Examples
    --------
    >>> from hammemo.tokens.contexts import Contexts
    >>> from hammemo.tokens.token_types import TokenTypes
    >>> contexts = Contexts.of([["a", 1, "a"], ["b", 2.5, 1]])
    >>> [token_type.name for token_type in TokenTypes.from_contexts(contexts).types]
    ['STRINGS', 'NUMBERS', 'UNKNOWN']
    """

    types: tuple[TokenType, ...]

    @classmethod
    def from_contexts(cls, contexts: Contexts, n_columns: int | None = None) -> TokenTypes:
        """Return the types of the columns of contexts, or with `n_columns` 1 that of all tokens."""
        return cls(_find_types(contexts, contexts.h if n_columns is None else n_columns))

    @classmethod
    def from_kinds(cls, kinds: ColumnKinds) -> TokenTypes:
        """Return what a model from a file knows: ordered columns are numbers, names may be both."""
        return cls(tuple(_UNKNOWN if kind is NAMES else _NUMBERS for kind in kinds))

    @cached_property
    def has_strings(self) -> bool:
        """Whether some columns held strings."""
        return _STRINGS in self.types

    def plus(self, other: TokenTypes | None) -> TokenTypes:
        """Return the types of what both hold."""
        if other is None or other.types == self.types:
            return self
        if len(other.types) != len(self.types):
            return TokenTypes((_UNKNOWN,) * len(self.types))
        pairs = zip(self.types, other.types, strict=True)
        return TokenTypes(tuple(left if left is right else _UNKNOWN for left, right in pairs))

    def differences(
        self,
        contexts: Contexts,
        names: Sequence[Any] | Array | None,
        kinds: ColumnKinds | None = None,
    ) -> dict[int, str]:
        """Return a sentence for each column that has another type in these contexts.

        Parameters
        ----------
        contexts : Contexts
            Those of a question. Missing values have no type.
        names : sequence, optional
            The names of the columns.
        kinds : tuple of ColumnKind, optional
            What the columns hold: in numbers and dates, strings count as missing.
        """
        if contexts.integers is not None and not self.has_strings:
            return {}  # most questions of integers: nothing is looked at
        tokens = contexts.vocabulary
        no_strings = not self.has_strings and not len(tokens.strings)
        no_numbers = _NUMBERS not in self.types and len(tokens.strings) == len(tokens)
        if no_strings or no_numbers or len(contexts) == 0 or contexts.h % len(self.types):
            return {}
        first_rows = contexts[:_LOOKED_AT]
        types = _find_types(first_rows, len(self.types))
        is_stream = names is None and len(self.types) < contexts.h
        sentences = {}
        for column, (before, after) in enumerate(zip(self.types, types, strict=True)):
            if before is after or _UNKNOWN in (before, after):
                continue
            where = "The stream" if is_stream else quote_column(column, names)
            learned = before.name.lower()
            why = "a number and a string are never equal, so nothing that was learned of it matches"
            if kinds is not None and len(kinds) == len(self.types) and kinds[column].is_ordered:
                learned = kinds[column].word
                why = "they count as missing"
            value = _first_value(first_rows, column, len(self.types), after)
            sentences[column] = (
                f"{where} held {learned} when it was learned, "
                f"and is queried with {after.name.lower()} such as {value!r}: {why}. "
                "Convert it to the type that it had."
            )
        return sentences


def warn_once(sentences: dict[int, str], warned: dict[int, object]) -> None:
    """Warn of columns that `warned` does not hold, and add them.

    If several threads ask at once, one of them warns.
    """
    for column, sentence in sentences.items():
        mark = object()
        # `setdefault` is one step for all threads, so only one of them gets its own mark back.
        if warned.setdefault(column, mark) is mark:
            warnings.warn(sentence, UserWarning, stacklevel=find_user_level())


def find_user_level() -> int:
    """Return the `stacklevel` for a warning of the caller that points to the user's line."""
    frame = inspect.currentframe()
    if frame is not None:
        frame = frame.f_back  # of the caller
    level = 1
    while frame is not None and frame.f_back is not None:
        if not frame.f_globals["__name__"].startswith("hammemo."):
            break
        frame = frame.f_back
        level += 1
    return level


def _first_value(contexts: Contexts, column: int, n_columns: int, kind: TokenType) -> Token:
    """Return the first number, or string, of a column."""
    vocabulary = contexts.vocabulary
    n_numbers = len(vocabulary.ints) + len(vocabulary.floats)
    ranks = contexts.ranks.reshape(-1, n_columns)[:, column]
    values = (
        vocabulary.at(int(rank))
        for rank in ranks
        if rank >= 0 and (rank < n_numbers) == (kind is _NUMBERS)
    )
    return next(value for value in values if value != MISSING)


def _find_types(contexts: Contexts, n_columns: int) -> tuple[TokenType, ...]:
    """Return the type of the tokens of each column, or of all positions if `n_columns` is 1."""
    if contexts.integers is not None:
        return (_NUMBERS,) * n_columns
    vocabulary = contexts.vocabulary
    ranks = contexts.ranks.reshape(-1, n_columns)
    n_numbers = len(vocabulary.ints) + len(vocabulary.floats)
    # rank -1, no token, reads the last entry of both
    is_number = np.append(np.arange(len(vocabulary)) < n_numbers, False)
    is_string = np.concatenate([np.zeros(n_numbers, bool), vocabulary.strings != MISSING, [False]])
    has_numbers: list[bool] = np.any(is_number[ranks], axis=0).tolist()
    has_strings: list[bool] = np.any(is_string[ranks], axis=0).tolist()
    return tuple(map(_find_type, has_numbers, has_strings))


def _find_type(has_numbers: bool, has_strings: bool) -> TokenType:
    """Return the type of a column that has numbers, strings, both or neither."""
    if has_numbers == has_strings:
        return _UNKNOWN
    return _NUMBERS if has_numbers else _STRINGS
