"""The leading labels of a mixture from live tables: only labels that rows hold are added up, in compiled code.

Scores are those of `MixtureRanker` to the bit, so the answers are the same. What a question costs depends on the rows
that it reads and not on the number of labels; after an edit nothing of that size is done, unless a label has come or
gone.

Each live table numbers its labels by itself. What a row of a site without a position says is brought to the numbers of
the table of the sites by an array that is extended as labels come (`Shared.labels_in`).

Rows of more than `MOST_WHOLE` entries are not read whole but from their top, by the threshold algorithm, as far as the
answer needs it; see `src/native/live/mixture_threshold.hpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo import _native
from hammemo._arrays.integers import row_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo._arrays.types import Floats, Ints
    from hammemo.memories.exact import Shared, SparseCounts
    from hammemo.memories.ranker import LabelMask
    from hammemo.tokens.contexts import Contexts
    from hammemo.votes.mixture.gates import Components

_KINDS: Final = {"bag": 0, "together": 0, "copy": 1, "recent": 2}
"""The numbers by which compiled code knows the kinds of free sites; those with a table are alike."""

MOST_WHOLE = 512
"""The most entries of a row that is read whole."""

PATIENCE = 4
"""Eighths of the reads that whole rows take, after which the threshold algorithm is given up."""


class LiveLeaders:
    """The leading labels of contexts, from live tables.

    Parameters
    ----------
    compiled : LiveMixture
    stores : list of Shared
        The numbers of tokens: of the table of the sites, then of the free sites' tables.
    """

    def __init__(self, compiled: _native.LiveMixture, stores: list[Shared]) -> None:
        self._compiled = compiled
        self._stores = stores

    def leaders(self, contexts: Contexts, k: int, power: int = 0) -> Ints:
        """Return the columns of the k highest scores of each context, best first, equals in column order.

        Shapes
        ------
        returned : (m, k)
        """
        columns = np.empty((len(contexts), k), np.int64)
        for part, ranks, numbers in self._pieces(contexts, k):
            self._compiled.leaders(ranks, numbers, columns[part], power=power)
        return columns

    def leaders_by_mask(
        self, contexts: Contexts, k: int, mask: LabelMask, *, with_scores: bool, power: int = 0
    ) -> tuple[Ints, Floats | None]:
        """Return the same among the labels that a mask allows, -1 where they are fewer, and their scores.

        Scores are probabilities, divided by the popularity of the labels with this power.
        """
        columns, scores = (
            np.empty((len(contexts), k), np.int64),
            np.empty((len(contexts), k)) if with_scores else None,
        )
        is_open = None if mask.is_open.all() else mask.is_open.view(np.uint8)
        for part, ranks, numbers in self._pieces(contexts, k):
            of_part = None if scores is None else scores[part]
            if mask.has_lists:
                lists = mask[part]
                self._compiled.leaders(
                    ranks=ranks,
                    numbers=numbers,
                    out=columns[part],
                    scores=of_part,
                    is_open=is_open,
                    starts=lists.starts,
                    listed=lists.listed,
                    lists_allow=lists.lists_allow,
                    power=power,
                )
            else:  # then nothing is made for every label
                self._compiled.leaders(
                    ranks=ranks,
                    numbers=numbers,
                    out=columns[part],
                    scores=of_part,
                    is_open=is_open,
                    power=power,
                )
        return columns, scores

    def _pieces(self, contexts: Contexts, k: int) -> Iterator[tuple[slice, Ints, Ints]]:
        """Yield contexts piece by piece: which, the ranks of their tokens, and the numbers of all tokens."""
        vocabulary = contexts.vocabulary
        numbers = [store.tokens.find(vocabulary) for store in self._stores]
        numbers.append(self._stores[0].labels.find(vocabulary))
        stacked = np.array(numbers, np.int64)
        for part in row_pieces(len(contexts), max(k, contexts.h)):
            yield part, np.ascontiguousarray(contexts.ranks[part]), stacked


def live_leaders(
    reader: SparseCounts, components: Components, trust: Floats, discounts: Floats
) -> LiveLeaders | None:
    """Return what finds the leading labels, or None where all scores must be made.

    That is: from tables in files, with continuation counts, which are derived from a whole table, and where a declared
    label has no example, for such a label has no number.
    """
    if components.continued or not len(reader.labels) or not np.isfinite(trust).all():
        return None
    live, *free = (one.rows.live_table() for one in (reader, *reader.free))
    if live is None or reader.labels is not live.label_set.labels:
        return None
    inner = [table for table in free if table is not None]
    if len(inner) < len(free):
        return None
    known, store, sites = live.label_set, live.store, components.sites
    without_table = [site for site in sites.free if site not in sites.free_with_table]
    parts = [
        (_KINDS[site.kind], site.reach, int(components.free(sites.free.index(site))))
        for site in (*sites.free_with_table, *without_table)
    ]
    mixture = _native.LiveMixture(
        sites=live.version,
        columns=known.columns[:-1],
        n_labels=len(known.labels),
        trust=trust,
        discounts=discounts,
        tables=[(table.version, *table.store.labels_in(store)) for table in inner],
        parts=np.array(parts, np.int64).reshape(-1, 3),
        most_whole=MOST_WHOLE,
        patience=PATIENCE,
    )
    return LiveLeaders(mixture, [store, *(table.store for table in inner)])
