"""Which labels `top_k` may answer with: from a user's lists to a mask.

A list is either one list of labels for all queries, or one list per query. Other labels are passed
over: a shop's list of items in stock may hold items that were never bought. A long list that many
queries share is a `ListedLabels`, which is looked up among the labels of a model once.
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
"""Sets of labels for which a list keeps its columns: of the newest versions of some models."""


class ListedLabels:
    """A list of labels for many queries, which `top_k` takes as `exclude` or `allow`.

    A vocabulary of labels is the same object in all versions of a model between which no label came
    or went, so the columns of the labels are found once for all of them.

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
        ints = [number for number in numbers if isinstance(number, int)]
        floats = [number for number in numbers if isinstance(number, float)]
        self._strings = strings
        self._ints = np.sort(np.array(ints, np.int64))
        self._floats = np.sort(np.array(floats, np.float64))
        self._cache: deque[tuple[Vocabulary, Bools]] = deque(maxlen=_VERSIONS)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ints) + len(self._floats) + len(self._strings)

    def get_cached(self, labels: Vocabulary) -> Bools | None:
        """Return what `among` has computed for these labels, or None."""
        for cached_labels, flags in list(self._cache):
            if cached_labels is labels:
                return flags
        return None

    def among(self, labels: Vocabulary) -> Bools:
        """Return whether each label is listed; the array is shared, so it is not to be changed."""
        flags = self.get_cached(labels)
        if flags is None:
            with self._lock:  # others that ask for the same wait for it
                flags = self.get_cached(labels)
                if flags is None:
                    flags = self._find_among(labels)
                    flags.flags.writeable = False
                    self._cache.append((labels, flags))
        return flags

    def _find_among(self, labels: Vocabulary) -> Bools:
        """Return whether each label is listed; a vocabulary has integers, floats, then strings."""
        ints = find_sorted(self._ints, labels.ints) >= 0
        floats = find_sorted(self._floats, labels.floats) >= 0
        strings = np.fromiter(
            (label in self._strings for label in labels.strings), bool, len(labels.strings)
        )
        return np.concatenate([ints, floats, strings])


def label_mask(
    labels: Vocabulary, m: int, *, exclude: Any, allow: Any, list_seen: Callable[[], Lists]
) -> LabelMask:
    """Return which labels each of m queries may be answered with.

    `list_seen` returns the labels that the queries hold.
    """
    # Lists of single queries are columns of labels; a list for all queries becomes flags.
    if isinstance(exclude, str) and exclude == "seen":
        refused: Lists | None = list_seen()
    else:
        refused = _find_lists(labels, exclude, m, name="exclude", choices="'seen', a list")
    allowed = _find_lists(labels, allow, m, name="allow", choices="a list")
    is_open = np.ones(len(labels), bool)
    if allow is not None and allowed is None:
        is_open = _flag_list(labels, allow)
    if exclude is not None and refused is None:
        is_open = is_open & ~_flag_list(labels, exclude)

    # A mask has lists of one kind: those of refused labels are taken out of those of allowed ones.
    if allowed is not None and refused is not None:
        lists = [
            np.setdiff1d(allowed_columns, refused_columns)
            for allowed_columns, refused_columns in zip(allowed, refused, strict=True)
        ]
    else:
        lists = allowed or refused or []
    if allowed is None and not lists:
        no_columns = np.empty(0, np.int64)
        return LabelMask(is_open, np.zeros(m + 1, np.int64), no_columns, lists_allow=False)
    starts = np.concatenate([[0], np.cumsum([len(columns) for columns in lists])]).astype(np.int64)
    columns_of_all = np.concatenate([np.empty(0, np.int64), *lists])
    return LabelMask(is_open, starts, columns_of_all, lists_allow=allowed is not None)


def _find_lists(labels: Vocabulary, lists: Any, m: int, *, name: str, choices: str) -> Lists | None:
    """Return the columns of one list per query, or None for one list for all; refuse all else."""
    if lists is None or isinstance(lists, ListedLabels):
        return None
    if not _is_list(lists):
        raise ValueError(
            f"{name}={lists!r} is not known: use {choices} of labels, "
            "or one list of labels per query."
        )
    if isinstance(lists, (set, frozenset, dict)) or not _is_list(next(iter(lists), None)):
        return None
    lists_of_queries = list(lists)
    if len(lists_of_queries) != m or not all(map(_is_list, lists_of_queries)):
        raise ValueError(
            f"{name} has {len(lists_of_queries)} lists or labels for {m} queries: "
            "give one list per query, or one for all."
        )
    return columns_of(labels, lists_of_queries)


def _flag_list(labels: Vocabulary, one_list: Any) -> Bools:
    """Return whether each label is in one list for all queries."""
    if isinstance(one_list, ListedLabels):
        return one_list.among(labels)
    flags = np.zeros(len(labels) + 1, bool)  # -1 marks the last one
    flags[columns_of(labels, [one_list])[0]] = True
    return flags[:-1]


def _is_list(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, (str, bytes))


def columns_of(labels: Vocabulary, lists: Sequence[Any]) -> Lists:
    """Return the columns of the labels of each list, -1 for what is no label."""
    tokens: Any
    if len(lists) == 1 and isinstance(lists[0], np.ndarray):
        tokens = lists[0].ravel()
    else:
        tokens = list(chain.from_iterable(lists))
    if not len(tokens):
        return [np.empty(0, np.int64)] * len(lists)
    ends = np.cumsum([len(tokens_of_list) for tokens_of_list in lists])
    return np.split(_find_columns(labels, tokens), ends[:-1])


def _find_columns(labels: Vocabulary, tokens: Any) -> Ints:
    """Return the column of each token.

    Lists of strings, and of integers, need fewer checks than others.
    """
    types = set(map(type, tokens)) if isinstance(tokens, list) else set()
    if types == {str}:
        return labels.find_strings(tokens)
    array: Array | None = None
    if types == {int}:
        with suppress(OverflowError):
            array = np.array(tokens, np.int64)
    if array is None:
        array = token_array(tokens)
    if array.dtype.kind == "i":  # integers come first in a vocabulary
        return find_sorted(labels.ints, array)
    vocabulary, ranks = factorize(array)
    return np.asarray(np.append(labels.find(vocabulary), -1)[ranks])
