"""Which kind of tokens each column held when it was learnt, and a warning where it is asked with another one.

``39`` and ``"39"`` are two tokens. A column that was learnt as numbers and is asked as strings matches nothing, and the
answer changes without an error. So a model notes a letter for each column: n (numbers), s (strings) or ? (both, or only
missing values). A stream has one letter for all its positions.
"""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.tokens.columns import ColumnKind
from hammemo.tokens.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.tokens.contexts import Contexts

_LOOKED_AT: Final = 8
"""Rows of a question that are looked at."""

_NAMES: Final = {"n": "numbers", "s": "strings"}


class ColumnKinds:
    """The kinds of columns; each is warned of once, by whichever thread or version of a model asks first.

    Parameters
    ----------
    letters : str
        One for each column, or one for all.

    Examples
    --------
    >>> from hammemo.tokens.column_kinds import ColumnKinds
    >>> from hammemo.tokens.contexts import Contexts
    >>> ColumnKinds.of(Contexts.of([["a", 1, "a"], ["b", 2.5, 1]])).letters
    'sn?'
    """

    def __init__(self, letters: str) -> None:
        self.letters = letters
        self._warned: dict[int, object] = {}

    @classmethod
    def of(cls, contexts: Contexts, n_columns: int | None = None) -> ColumnKinds:
        """Return the kinds of the columns of contexts, or of all positions together where `n_columns` is one."""
        return cls(_letters(contexts, contexts.h if n_columns is None else n_columns))

    @classmethod
    def of_cells(cls, kinds: str) -> ColumnKinds:
        """Return what a model from a file knows: which columns are numbers or dates, but not what names are."""
        return cls("".join("?" if kind == ColumnKind.NAMES else "n" for kind in kinds))

    def plus(self, other: ColumnKinds | None) -> ColumnKinds:
        """Return the kinds of what both hold."""
        if other is None or other.letters == self.letters:
            return self
        if len(other.letters) != len(self.letters):
            return ColumnKinds("?" * len(self.letters))
        pairs = zip(self.letters, other.letters, strict=True)
        return ColumnKinds("".join(mine if mine == theirs else "?" for mine, theirs in pairs))

    def warn_of_others(self, contexts: Contexts, names: Sequence[Any] | None, kinds: str | None = None) -> None:
        """Warn of columns that hold another kind in these contexts, of each once; missing values are of no kind.

        `kinds` says which columns are numbers or dates in cells: what is none counts as missing there.
        """
        if contexts.integers is not None and "s" not in self.letters:
            return  # what most questions are: nothing is looked at
        tokens = contexts.vocabulary
        if ("s" not in self.letters and not len(tokens.strings)) or (
            "n" not in self.letters and len(tokens.strings) == len(tokens)
        ):
            return
        if len(contexts) == 0 or contexts.h % len(self.letters):
            return
        asked = _letters(contexts[:_LOOKED_AT], len(self.letters))
        if asked == self.letters:
            return
        for column, (learnt, now) in enumerate(zip(self.letters, asked, strict=True)):
            mark = object()
            if learnt == now or "?" in (learnt, now) or self._warned.setdefault(column, mark) is not mark:
                continue
            where = "The stream" if len(self.letters) < contexts.h else f"Column {column}"
            if names is not None:
                where = f"Column {names[column]!r}"
            held, asked_with = _NAMES[learnt], _NAMES[now]
            why = "39 and '39' are two tokens, so nothing that was learnt of it matches"
            if kinds is not None and len(kinds) == len(self.letters) and kinds[column] != ColumnKind.NAMES:
                held, asked_with, why = ColumnKind(kinds[column]).word, "something else", "it counts as missing"
            warnings.warn(
                f"{where} held {held} when it was learnt, and is asked with {asked_with}: {why}. "
                "Convert it to the type that it had.",
                UserWarning,
                stacklevel=_level_of_the_user(),
            )

    def __getstate__(self) -> dict[str, Any]:
        return {"letters": self.letters, "_warned": dict.fromkeys(tuple(self._warned))}


def _level_of_the_user() -> int:
    """Return how many calls above the caller this package was called: questions come in several ways."""
    here, level = inspect.currentframe(), 1
    frame = None if here is None else here.f_back
    while frame is not None and frame.f_back is not None and frame.f_globals["__name__"].startswith("hammemo."):
        frame, level = frame.f_back, level + 1
    return level


def _letters(contexts: Contexts, n_columns: int) -> str:
    if contexts.integers is not None:
        return "n" * n_columns
    vocabulary, ranks = contexts.vocabulary, contexts.ranks.reshape(-1, n_columns)
    n_numbers = len(vocabulary.ints) + len(vocabulary.floats)
    strings = np.append(np.arange(len(vocabulary)) >= n_numbers, False)  # rank -1, no token, reads the last entry
    numbers = np.append(np.arange(len(vocabulary)) < n_numbers, False)
    strings[:-1][n_numbers:] &= vocabulary.strings != MISSING
    found = [set(np.flatnonzero(np.any(kind[ranks], axis=0)).tolist()) for kind in (numbers, strings)]
    has = [(column in found[0], column in found[1]) for column in range(n_columns)]
    return "".join({(True, False): "n", (False, True): "s"}.get(pair, "?") for pair in has)
