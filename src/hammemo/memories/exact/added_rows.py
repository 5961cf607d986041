"""Rows of several parts added up, and the arrays of the part that they make."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.integers import sum_by_key
from hammemo._arrays.tuple_sets import TupleSet
from hammemo.memories.errors import never_stored
from hammemo.memories.exact.part import SiteRows, part_arrays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo.tokens.vocabulary import Token, Vocabulary


def added_rows(held: Sequence[tuple[int, SiteRows]], length: int, n_tokens: int, n_labels: int) -> SiteRows:
    """Return the sum of rows of one site, each with its sign; refuse a count below zero.

    Parameters
    ----------
    held : sequence of (sign, SiteRows)
        With common ranks of tokens and labels.
    length : int
        How many tokens a tuple has.
    n_tokens, n_labels : int
        How many there are.
    """
    held = [(sign, rows) for sign, rows in held if len(rows.tuples)]
    if not held:
        none = np.empty(0, np.int64)
        return SiteRows(np.empty((0, length), np.int64), none, none, none)
    if len(held) == 1 and held[0][0] > 0:  # nothing to add: in the right order as it is
        return held[0][1]
    known, index = TupleSet.collect(np.concatenate([rows.tuples for _, rows in held]), n_tokens)
    n_entries, n_labels = sum(len(rows.counts) for _, rows in held), max(n_labels, 1)
    keys, counts = np.empty(n_entries, np.int64), np.empty(n_entries, np.int64)
    row, entry = 0, 0
    for sign, rows in held:
        here = slice(entry, entry + len(rows.counts))
        keys[here] = np.repeat(index[row : row + len(rows.tuples)], rows.lengths) * n_labels + rows.labels
        counts[here] = sign * rows.counts
        row, entry = row + len(rows.tuples), here.stop
    summed, totals = sum_by_key(keys, counts, len(known) * n_labels)
    if (totals < 0).any():
        raise never_stored()
    ranks, labels = np.divmod(summed, n_labels)
    lengths = np.bincount(ranks, minlength=len(known))
    return SiteRows(known.rows()[lengths > 0], lengths[lengths > 0], labels, totals)


def used_arrays(
    rows: Sequence[SiteRows], vocabulary: Vocabulary, labels: Vocabulary, *, packed: bool | None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a part with these rows of each site, with those tokens and labels only that they use."""
    tokens, names = np.zeros(len(vocabulary), bool), np.zeros(len(labels), bool)
    for site in rows:
        tokens[site.tuples] = True
        names[site.labels] = True
    token_ranks, label_ranks = np.cumsum(tokens) - 1, np.cumsum(names) - 1
    named = [SiteRows(token_ranks[r.tuples], r.lengths, label_ranks[r.labels], r.counts) for r in rows]
    return part_arrays(named, vocabulary.keep(tokens), labels.keep(names), packed=packed)


def rank_before(vocabulary: Vocabulary, token: Token) -> int:
    """Return how many tokens of a vocabulary come before this one in canonical order."""
    if isinstance(token, int):
        return int(np.searchsorted(vocabulary.ints, token))
    first = len(vocabulary.ints)
    if isinstance(token, float):
        return first + int(np.searchsorted(vocabulary.floats, token))
    return first + len(vocabulary.floats) + bisect_left(vocabulary.strings, token)
