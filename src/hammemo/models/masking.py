"""What `top_k` is told of labels that may be among its answers: from a user's lists to a mask.

A list is either one list of labels for all queries, or one list a query. What is no label of the model is passed over:
a shop's list of items in stock may hold items that were never bought.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.integers import sorted_find
from hammemo.memories.label_mask import LabelMask
from hammemo.tokens.contexts import token_array
from hammemo.tokens.vocabulary import factorize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo.tokens.vocabulary import Vocabulary

    Lists = list[NDArray[np.int64]]
    """The columns of labels, one array a query; -1 for what is no label."""


def label_mask(labels: Vocabulary, m: int, exclude: Any, allow: Any, seen: Callable[[], Lists]) -> LabelMask:
    """Return which labels each of m queries may be answered with; `seen` are the labels that the queries hold."""
    is_open = np.ones(len(labels) + 1, bool)  # -1 marks the last one
    is_seen = isinstance(exclude, str) and exclude == "seen"
    refused = seen() if is_seen else _lists(labels, exclude, m, "exclude", "use 'seen', ")
    allowed = _lists(labels, allow, m, "allow", "use ")
    if allow is not None and allowed is None:
        is_open[:] = False
        is_open[columns_of(labels, [allow])[0]] = True
    if exclude is not None and refused is None:
        is_open[columns_of(labels, [exclude])[0]] = False
    if allowed is not None and refused is not None:
        allowed = [np.setdiff1d(own, out) for own, out in zip(allowed, refused, strict=True)]
    lists = allowed if allowed is not None else refused or [np.empty(0, np.int64)] * m
    starts = np.concatenate([[0], np.cumsum([len(columns) for columns in lists])]).astype(np.int64)
    listed = np.concatenate([np.empty(0, np.int64), *lists])
    return LabelMask(is_open[:-1], starts, listed, allowed is not None)


def _lists(labels: Vocabulary, given: Any, m: int, name: str, known: str) -> Lists | None:
    """Return the columns of one list a query, or None for one list for all; refuse all else."""
    if given is None:
        return None
    if not _is_list(given):
        raise ValueError(f"{name}={given!r} is not known: {known}a list of labels, or one list of labels a query.")
    if isinstance(given, (set, frozenset, dict)) or not _is_list(next(iter(given), None)):
        return None
    lists = list(given)
    if len(lists) != m or not all(map(_is_list, lists)):
        raise ValueError(
            f"{name} has {len(lists)} lists or labels for {m} queries: give one list a query, or one for all."
        )
    return columns_of(labels, lists)


def _is_list(given: Any) -> bool:
    return hasattr(given, "__iter__") and not isinstance(given, (str, bytes))


def columns_of(labels: Vocabulary, lists: Sequence[Any]) -> Lists:
    """Return the columns of the labels of each list, -1 for what is no label."""
    one = lists[0] if len(lists) == 1 and isinstance(lists[0], np.ndarray) else None
    tokens = list(chain.from_iterable(lists)) if one is None else one.ravel()
    if not len(tokens):
        return [np.empty(0, np.int64)] * len(lists)
    array = token_array(tokens)
    if array.dtype.kind == "i":  # integers come first in a vocabulary
        found = sorted_find(labels.ints, array)
    else:
        vocabulary, ranks = factorize(array)
        found = np.append(labels.find(vocabulary), -1)[ranks]
    return np.split(found, np.cumsum([len(own) for own in lists])[:-1])
