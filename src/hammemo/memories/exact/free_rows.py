r"""Sites without a position as rows of counts, one for each free site, for votes that read one row a site.

A context reads several rows of a free site: one for each distinct token among its last places. Added up, with a
larger weight for nearer tokens, they are one row: with :math:`d_t` the distance of token t from the end,

.. math:: n_{k,c}(q) = \sum_{t} N_k(t, c) / d_t

for ``bag`` and ``together``; for ``copy`` label c has :math:`1 / d_c`, and for ``recent`` as many as there are of it
among the last places. The tables hold whole numbers: weights apply when they are read. In weighted sums a free site has
the weight 1; a log-linear vote fits weights to it as to every other site.

All labels are added up: there is no way yet to find the best ones from the top of such rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo.kernels.free_sites import Places, distinct_places
from hammemo.kernels.sites import FREE_KINDS, FreeSite, Sites
from hammemo.memories.exact.reader import SparseCounts
from hammemo.memories.reader import Reader
from hammemo.tokens.contexts import Contexts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.memories.exact.rows import Entries
    from hammemo.tokens.vocabulary import Vocabulary


class FreeRows(Reader):
    """A reader of exact counts that has one row more for each site without a position, after those of the sites.

    Parameters
    ----------
    reader : SparseCounts
    sites : Sites
    """

    has_rows = True
    is_exact = True

    def __init__(self, reader: SparseCounts, sites: Sites) -> None:
        super().__init__(reader.frame, reader.row_width * sites.n)
        self.sites = sites
        self._reader = reader

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over all sites of the counts, added in their order."""
        n_positions = len(self.sites.positions)
        scores = np.array(self._reader.scores(contexts, weights[:n_positions]))
        for k, weight in enumerate(weights[n_positions:].tolist()):
            scores += weight * self._free_rows(contexts, k)
        return scores

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row that each site of each context reads, zeros where it reads none: (m, S, L)."""
        free = [self._free_rows(contexts, k) for k in range(len(self.sites.free))]
        return np.concatenate([self._reader.site_counts(contexts), np.stack(free, axis=1)], axis=1)

    def own_counts(self, contexts: Contexts, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what an example has added to the count of its label in the row of each site.

        Shapes
        ------
        columns : (m,), the examples' labels; returned : (m, S)
        """
        own = np.ones((len(contexts), self.sites.n))
        tokens = self.labels.find(contexts.vocabulary)
        for k, site in enumerate(self.sites.free, len(self.sites.positions)):
            own[:, k] = 0.0
            if FREE_KINDS[site.kind]:
                places = distinct_places(contexts.ranks, site.reach)
                is_label = tokens[places.ranks] == columns[places.contexts]
                counted = 1.0 - is_label if site.kind == "together" else np.ones(len(is_label))
                own[:, k] = np.bincount(places.contexts, counted / places.distances, len(contexts))
        return own

    def _free_rows(self, contexts: Contexts, k: int) -> NDArray[np.float64]:
        """Return the rows of a free site: (m, L)."""
        site, (m, n) = self.sites.free[k], (len(contexts), len(self.labels))
        if site.kind == "recent":
            columns = np.append(self.labels.find(contexts.vocabulary), -1)  # rank -1 reads the last entry
            last = columns[contexts.ranks[:, contexts.h - site.reach :]]
            owners, _ = np.nonzero(last >= 0)
            return np.bincount(owners * n + last[last >= 0], minlength=m * n).reshape(m, n).astype(np.float64)
        if site.kind == "copy":
            places = distinct_places(contexts.ranks, site.reach)
            columns = self.labels.find(contexts.vocabulary)[places.ranks]
            held = columns >= 0
            cells, values = places.contexts[held] * n + columns[held], 1.0 / places.distances[held]
        else:
            number = sum(FREE_KINDS[other.kind] for other in self.sites.free[:k])
            places, entries = free_entries(self._reader, number, site, contexts)
            cells = np.repeat(places.contexts, entries.lengths) * n + entries.columns
            values = entries.counts / np.repeat(places.distances, entries.lengths)
        return np.asarray(np.bincount(cells, values, m * n).reshape(m, n), np.float64)


def with_free_rows(reader: Reader, sites: Sites) -> Reader:
    """Return what has a row for every site: the reader itself where none is without a position."""
    if not sites.free or isinstance(reader, FreeRows):
        return reader
    if not isinstance(reader, SparseCounts):
        raise TypeError(f"{type(reader).__name__} keeps no sites without a position: use memory='exact'.")
    return FreeRows(reader, sites)


def token_rows(reader: SparseCounts, number: int, site: FreeSite, contexts: Contexts) -> tuple[Places, Entries]:
    """Return the distinct tokens that contexts hold, and the row of each in one of the tables of free sites.

    The columns are those of that table's labels: some may be tokens that never were a label.
    """
    places = distinct_places(contexts.ranks, site.reach)
    one_token = Contexts.with_ranks(contexts.vocabulary, places.ranks[:, None])
    return places, reader.free[number].rows.entries(one_token)


def free_entries(reader: SparseCounts, number: int, site: FreeSite, contexts: Contexts) -> tuple[Places, Entries]:
    """Return the same with the columns of the reader's labels, without tokens that never were a label."""
    places, entries = token_rows(reader, number, site, contexts)
    return places, entries.in_columns(columns_in(reader.labels, reader.free[number].labels))


def columns_in(labels: Vocabulary, others: Vocabulary) -> NDArray[np.int64]:
    """Return where other labels are among labels, -1 for none; kept with the labels for the others asked for last."""
    if labels is others:
        return np.arange(len(labels))
    known: dict[int, tuple[Vocabulary, NDArray[np.int64]]] = vars(labels).setdefault("_columns_of", {})
    held = known.get(id(others))
    if held is None or held[0] is not others:
        if len(known) > 8:
            known.clear()
        held = known[id(others)] = (others, labels.find(others))
    return held[1]
