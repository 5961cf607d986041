"""Numbers for tokens and labels that never change, so that edits need not number a table again.

The first ones are the ranks in a vocabulary; what comes later gets the next number. A number once
given keeps its meaning for every version of the table, so all of them share one numbering, which
only grows. To add to it takes the lock of its table. What is no longer used goes when the table is
rebuilt.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._versions import cached_property
from hammemo.tokens.vocabulary import NO_TOKEN, Token, Vocabulary, as_token

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.types import Array, Bools, Ints

_MAX_DICT_TOKENS = 2**20
"""Tokens up to which a vocabulary has a dictionary; a larger one, which would take gigabytes, is
searched.
"""

_MAX_LOOPED_TOKENS = 64
"""Tokens up to which each is looked up in a dictionary."""


class _Ranks(dict[Any, int]):
    """The ranks of the first tokens; other tokens have the number that came later, or -1.

    For most tokens that is one look-up.
    """

    __slots__ = ("late",)

    def __init__(self, ranks: dict[Token, int], late: dict[Token, int]) -> None:
        super().__init__(ranks)
        self.late = late

    def __missing__(self, token: Any) -> int:
        number = self.late.get(token, -1)
        if number < 0:
            as_token(token)  # refuses what is not a token
        return number


class Numbers:
    """The number of each token.

    Examples
    --------
    >>> from hammemo.memories.exact.live.numbers import Numbers
    >>> from hammemo.tokens.vocabulary import Vocabulary
    >>> numbers = Numbers(Vocabulary.of(["a", "c"]))
    >>> numbers.get("c"), numbers.get("b"), numbers.give("b"), numbers.get("b")
    (1, -1, 2, 2)
    """

    def __init__(self, first: Vocabulary) -> None:
        self.first = first
        # edits of single rows ask several times, and a vocabulary adds up three lengths
        self._n_first = len(first)
        self._late: dict[Token, int] = {}
        self._late_tokens: list[Token] = []

    def __len__(self) -> int:
        return self._n_first + len(self._late_tokens)

    @cached_property
    def _ranks(self) -> _Ranks:
        return _Ranks({token: rank for rank, token in enumerate(self.first.tolist())}, self._late)

    @property
    def get(self) -> Callable[[Any], int]:
        """From a token to its number, -1 for none or for no token; it refuses other values."""
        return self._search if self._n_first > _MAX_DICT_TOKENS else self._ranks.__getitem__

    def _search(self, token: Any) -> int:
        number = self._late.get(token, -1)
        if number >= 0:
            return number
        token = as_token(token)
        return int(self.first.find(Vocabulary.of([token]))[0]) if token != NO_TOKEN else -1

    def give(self, token: Any) -> int:
        """Return the number of a token, a new one if it has none; -1 where there is no token."""
        number = self.get(token)
        token = as_token(token)
        if number >= 0 or token == NO_TOKEN:
            return number
        number = len(self)
        self._late_tokens.append(token)
        self._late[token] = number  # last: what is found here is found there
        return number

    def give_each(self, tokens: Sequence[Any]) -> list[int]:
        """Return the numbers of the tokens of one context, as `give` does."""
        get = self.get
        numbers = [get(token) for token in tokens]
        if -1 in numbers:
            numbers = [
                self.give(token) if n < 0 else n for n, token in zip(numbers, tokens, strict=True)
            ]
        return numbers

    def token(self, number: int) -> Token:
        """Return the token that has this number."""
        if number >= len(self.first):
            return self._late_tokens[number - len(self.first)]
        return self.first.at(number)

    def find(self, tokens: Vocabulary) -> Ints:
        """Return the number of each token, -1 where it has none."""
        ranks = self._ranks if len(tokens) <= _MAX_LOOPED_TOKENS else None
        if ranks is not None:  # one by one there is less to do than for an array
            late = self._late
            return np.array(
                [ranks.get(token, late.get(token, -1)) for token in tokens.tolist()], np.int64
            )
        numbers = self.first.find(tokens)
        if self._late:
            missing = np.flatnonzero(numbers < 0)
            if len(missing):
                listed = tokens.tolist()
                late = self._late
                numbers[missing] = [late.get(listed[place], -1) for place in missing.tolist()]
        return numbers

    def give_all(self, tokens: Vocabulary) -> Ints:
        """Return the number of each token, new ones for those that have none."""
        numbers = self.find(tokens)
        missing = np.flatnonzero(numbers < 0)
        if len(missing):
            listed = tokens.tolist()
            numbers[missing] = [self.give(listed[place]) for place in missing.tolist()]
        return numbers

    def select(self, is_marked: Bools) -> tuple[Vocabulary, Ints]:
        """Return the vocabulary of the tokens whose numbers are marked, and their numbers.

        Shapes
        ------
        is_marked : (at least as many as there are numbers,); returned numbers : (marked,), in the
        vocabulary's order
        """
        first = self.first.keep(is_marked[: len(self.first)])
        numbers = np.flatnonzero(is_marked[: len(self.first)])
        late = np.flatnonzero(is_marked[len(self.first) : len(self)])
        if not len(late):
            return first, numbers
        late_tokens = Vocabulary.of([self._late_tokens[place] for place in late.tolist()])
        vocabulary = first.union(late_tokens)
        # before which of the first ones each late token comes
        places = vocabulary.find(late_tokens) - np.arange(len(late_tokens))
        return vocabulary, np.insert(numbers, places, self.find(late_tokens))


class LabelNumbers(Numbers):
    """The number of each label, and which labels come next to it in canonical order."""

    def __init__(self, first: Vocabulary) -> None:
        super().__init__(first)
        self._in_order: list[tuple[int, Any, int]] = []  # the late ones: kind, label, number

    def neighbours(self, label: Token) -> tuple[int, int]:
        """Return the numbers of the labels before and after a new one, -1 for none."""
        place = rank_before(self.first, label)
        late = bisect_left(self._in_order, (*_order(label), -1))
        before = self._nearer(place - 1, late - 1, last=True)
        after = self._nearer(place, late, last=False)
        return before, after

    def _nearer(self, place: int, late: int, *, last: bool) -> int:
        """Return the number of the nearer of two labels: the one that comes last, or first.

        One is at `place` of the first labels, the other at `late` of those that came later; a place
        outside is no label's. -1 is for none.
        """
        has_first = 0 <= place < len(self.first)
        late_label = self._in_order[late] if 0 <= late < len(self._in_order) else None
        if late_label is None:
            return place if has_first else -1
        late_number = late_label[2]
        if not has_first:
            return late_number
        is_after = _order(self.first.at(place)) > late_label[:2]
        return place if is_after == last else late_number

    def insert(self, label: Token) -> int:
        """Give a label its number and its place in the order."""
        number = self.give(label)
        insort(self._in_order, (*_order(label), number))
        return number


def _order(token: Token) -> tuple[int, Any]:
    """Return the place of a token in canonical order: whole numbers, then others, then strings."""
    if isinstance(token, str):
        return 2, token
    if isinstance(token, float):
        return 1, token
    return 0, token


def rank_before(vocabulary: Vocabulary, token: Token) -> int:
    """Return how many tokens of a vocabulary come before this one in canonical order."""
    kind, value = _order(token)
    kinds: list[Array] = [vocabulary.ints, vocabulary.floats, vocabulary.strings]
    n_before = sum(len(tokens) for tokens in kinds[:kind])
    return n_before + int(np.searchsorted(kinds[kind], value))
