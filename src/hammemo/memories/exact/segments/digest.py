r"""The canonical bytes of a table in segments, without holding the table.

The canonical arrays run through the sites, and each site through its rows in the order of their
keys, so they can be made range by range. The header comes first and needs their types and shapes: a
first pass over the keys counts rows, entries and the beginnings of tuples, and finds the largest
numbers. Then each array takes a pass of its own.

A beginning of j tokens is in one range only, because ranges are cut by first tokens. So with
:math:`b_{p,j}` beginnings in the ranges before p, the keys of level j are those of the range's own
trie with :math:`b_{p,j-1} n` added.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.tensor_files import Spec
from hammemo._arrays.tuple_sets import TupleSet
from hammemo._versions import cached_property

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo._arrays.types import Array, Ints
    from hammemo.memories.exact.segments.entries import SiteRows
    from hammemo.memories.exact.sum import SignedSum
    from hammemo.tokens.vocabulary import Vocabulary


class SumState:
    """The canonical arrays of a table in segments: types and shapes first, then piece by piece.

    Parameters
    ----------
    stored : SignedSum
    labels : Vocabulary
        Which labels entries name by their ranks: observed and declared ones.
    """

    def __init__(self, stored: SignedSum, labels: Vocabulary) -> None:
        self._stored = stored
        self._columns = labels.find(stored.label_counts.labels)
        self._lengths = [len(site) for site in stored.sites.positions]
        self._used = np.zeros(max(len(stored.vocabulary), 1), bool)
        # by site: how many beginnings of j tokens there are; the last number is that of its rows
        self._beginnings = [np.zeros(length + 1, np.int64) for length in self._lengths]
        self._last = [np.zeros(length, np.int64) for length in self._lengths]
        self._n_entries = 0
        self._most_count = 0
        self._most_label = 0
        self._most_length = 0
        for k, rows in stored.all_rows():
            self._look_at(k, rows)

    def _look_at(self, k: int, rows: SiteRows) -> None:
        """Take down what the header needs of a range of rows of site k."""
        if not len(rows.tuples):
            return
        self._used[rows.tuples] = True
        new = np.ones(len(rows.tuples), bool)
        new[1:] = False
        for j in range(self._lengths[k]):
            new[1:] |= rows.tuples[1:, j] != rows.tuples[:-1, j]
            self._beginnings[k][j + 1] += int(new.sum())
        self._last[k] = rows.tuples[-1]
        self._n_entries += len(rows.counts)
        self._most_count = max(self._most_count, int(rows.counts.max()))
        self._most_label = max(self._most_label, int(self._columns[rows.labels].max()))
        self._most_length = max(self._most_length, int(rows.lengths.max()))

    @cached_property
    def _ranks(self) -> Ints:
        return np.cumsum(self._used) - 1

    @cached_property
    def _n(self) -> int:
        return max(int(self._used.sum()), 1)

    @cached_property
    def _vocabulary(self) -> dict[str, Array]:
        is_used = self._used[: len(self._stored.vocabulary)]
        vocabulary = self._stored.vocabulary.keep(is_used)
        return {f"vocabulary.{name}": array for name, array in vocabulary.arrays().items()}

    def specs(self) -> dict[str, Spec]:
        """Return the type and the shape of each array."""
        n_rows = sum(int(counts[-1]) for counts in self._beginnings)
        specs = {name: Spec(array.dtype, array.shape) for name, array in self._vocabulary.items()}
        specs["row_lengths"] = _spec(n_rows, self._most_length)
        specs["entry_labels"] = _spec(self._n_entries, self._most_label)
        specs["entry_counts"] = _spec(self._n_entries, self._most_count)
        for k, length in enumerate(self._lengths):
            for j in range(length):
                parents = int(self._beginnings[k][j]) if j else 1
                largest = (parents - 1) * self._n + int(self._ranks[self._last[k][j]])
                specs[f"rows.{k}.{j}"] = _spec(int(self._beginnings[k][j + 1]), largest)
        return specs

    def pieces(self, name: str) -> Iterator[Array]:
        """Yield the pieces of an array, one after the other."""
        if name in self._vocabulary:
            yield self._vocabulary[name]
        elif name.startswith("rows."):
            k, j = map(int, name.split(".")[1:])
            yield from self._levels(k, j)
        else:
            for _, rows in self._stored.all_rows():
                if name == "row_lengths":
                    yield rows.lengths
                elif name == "entry_labels":
                    yield self._columns[rows.labels]
                else:
                    yield rows.counts

    def _levels(self, k: int, j: int) -> Iterator[Array]:
        """Yield the keys of level j of site k, range by range."""
        parents = 0
        for first, stop in pairwise(self._stored.edges.tolist()):
            rows = self._stored.site_rows(k, first, stop)
            if not len(rows.tuples):
                continue
            levels = TupleSet.collect(self._ranks[rows.tuples], self._n)[0].levels
            yield levels[j] + parents * self._n
            parents += len(levels[j - 1]) if j else 0


def _spec(length: int, largest: int) -> Spec:
    """Return type and shape of an array of whole numbers, in the narrowest width."""
    dtype = np.min_scalar_type(largest) if length else np.dtype(np.uint8)
    return Spec(dtype, (length,))
