"""What `top_k` is told of labels that may be among its answers: from a user's lists to a mask.

A list is either one list of labels for all queries, or one list per query. Other labels are passed over: a
shop's list of items in stock may hold items that were never bought. A long list that many queries share is a
`ListedLabels`, which is looked up among the labels of a model once.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import find_sorted
from hammemo.memories.ranker import LabelMask
from hammemo.tokens.contexts import token_array
from hammemo.tokens.vocabulary import Vocabulary, as_token, factorize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hammemo._arrays.types import Array, Bools, Ints

    Lists = list[Ints]
    """The columns of labels, one array a query; -1 for what is no label."""

_VERSIONS: Final = 4
"""Sets of labels for which a list keeps its columns: those of the newest versions of some models."""


class ListedLabels:
    """A list of labels for many queries: `top_k` takes it as `exclude` or `allow`, with the answers of its items.

    A vocabulary of labels is the same object in all versions of a model between which no label came or went, so the
    columns of the labels are found once for all of them.

    Parameters
    ----------
    items : iterable of tokens
        Equal ones count once.

    Examples
    --------
    >>> from hammemo.tasks.labels.masking import ListedLabels
    >>> from hammemo.tokens.vocabulary import Vocabulary
    >>> in_stock = ListedLabels(["b", 3.0, 3, "never bought"])
    >>> len(in_stock), in_stock.among(Vocabulary.of([3, "a", "b"])).tolist()
    (3, [True, False, True])
    """

    def __init__(self, items: Iterable[Any]) -> None:
        numbers: set[int | float] = set()
        strings: set[str] = set()
        for item in items:  # one by one: other threads have their turns between two items
            token = as_token(item)
            if isinstance(token, str):
                strings.add(token)
            else:
                numbers.add(token)
        self._strings = strings
        self._ints = np.sort(
            np.array([number for number in numbers if isinstance(number, int)], np.int64)
        )
        self._floats = np.sort(
            np.array([number for number in numbers if isinstance(number, float)], np.float64)
        )
        self._found: deque[tuple[Vocabulary, Bools]] = deque(maxlen=_VERSIONS)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ints) + len(self._floats) + len(self._strings)

    def known(self, labels: Vocabulary) -> Bools | None:
        """Return what `among` has found for these labels, or None."""
        return next((flags for known, flags in list(self._found) if known is labels), None)

    def among(self, labels: Vocabulary) -> Bools:
        """Return whether each label is listed; the array is shared, so it is not to be changed."""
        flags = self.known(labels)
        if flags is None:
            with self._lock:  # others that ask for the same wait for it
                flags = self.known(labels)
                if flags is None:
                    flags = self._looked_up(labels)
                    flags.flags.writeable = False
                    self._found.append((labels, flags))
        return flags

    def _looked_up(self, labels: Vocabulary) -> Bools:
        ints, floats = (
            find_sorted(self._ints, labels.ints) >= 0,
            find_sorted(self._floats, labels.floats) >= 0,
        )
        strings = np.fromiter(
            (label in self._strings for label in labels.strings), bool, len(labels.strings)
        )
        return np.concatenate([ints, floats, strings])


def label_mask(
    labels: Vocabulary, m: int, exclude: Any, allow: Any, seen: Callable[[], Lists]
) -> LabelMask:
    """Return which labels each of m queries may be answered with; `seen` are the labels that the queries hold."""
    is_seen = isinstance(exclude, str) and exclude == "seen"
    refused = seen() if is_seen else _lists(labels, exclude, m, "exclude", "use 'seen', ")
    allowed = _lists(labels, allow, m, "allow", "use ")
    flags = [_flags(labels, allow)] if allow is not None and allowed is None else []
    flags += [~_flags(labels, exclude)] if exclude is not None and refused is None else []
    is_open = (
        np.logical_and.reduce(flags)
        if len(flags) > 1
        else flags[0]
        if flags
        else np.ones(len(labels), bool)
    )
    if allowed is not None and refused is not None:
        allowed = [np.setdiff1d(own, out) for own, out in zip(allowed, refused, strict=True)]
    if allowed is None and not refused:
        return LabelMask(
            is_open, np.zeros(m + 1, np.int64), np.empty(0, np.int64), lists_allow=False
        )
    lists = allowed if allowed is not None else refused or []
    starts = np.concatenate([[0], np.cumsum([len(columns) for columns in lists])]).astype(np.int64)
    listed = np.concatenate([np.empty(0, np.int64), *lists])
    return LabelMask(is_open, starts, listed, allowed is not None)


def _lists(labels: Vocabulary, given: Any, m: int, name: str, known: str) -> Lists | None:
    """Return the columns of one list per query, or None for one list for all; refuse all else."""
    if given is None or isinstance(given, ListedLabels):
        return None
    if not _is_list(given):
        raise ValueError(
            f"{name}={given!r} is not known: {known}a list of labels, or one list of labels per query."
        )
    if isinstance(given, (set, frozenset, dict)) or not _is_list(next(iter(given), None)):
        return None
    lists = list(given)
    if len(lists) != m or not all(map(_is_list, lists)):
        raise ValueError(
            f"{name} has {len(lists)} lists or labels for {m} queries: give one list per query, or one for all."
        )
    return columns_of(labels, lists)


def _flags(labels: Vocabulary, given: Any) -> Bools:
    """Return whether each label is in one list for all queries."""
    if isinstance(given, ListedLabels):
        return given.among(labels)
    found = np.zeros(len(labels) + 1, bool)  # -1 marks the last one
    found[columns_of(labels, [given])[0]] = True
    return found[:-1]


def _is_list(given: Any) -> bool:
    return hasattr(given, "__iter__") and not isinstance(given, (str, bytes))


def columns_of(labels: Vocabulary, lists: Sequence[Any]) -> Lists:
    """Return the columns of the labels of each list, -1 for what is no label."""
    one = lists[0] if len(lists) == 1 and isinstance(lists[0], np.ndarray) else None
    tokens = list(chain.from_iterable(lists)) if one is None else one.ravel()
    if not len(tokens):
        return [np.empty(0, np.int64)] * len(lists)
    return np.split(_columns(labels, tokens), np.cumsum([len(own) for own in lists])[:-1])


def _columns(labels: Vocabulary, tokens: Any) -> Ints:
    """Return the column of each token; lists of strings, and of integers, need fewer checks than others."""
    kinds = set(map(type, tokens)) if isinstance(tokens, list) else set()
    if kinds == {str}:
        return labels.find_strings(tokens)
    array: Array | None = None
    if kinds == {int}:
        with suppress(OverflowError):
            array = np.array(tokens, np.int64)
    array = token_array(tokens) if array is None else array
    if array.dtype.kind == "i":  # integers come first in a vocabulary
        return find_sorted(labels.ints, array)
    vocabulary, ranks = factorize(array)
    return np.asarray(np.append(labels.find(vocabulary), -1)[ranks])
