"""The leading labels of a mixture from live tables: only labels in rows are added up, compiled.

Scores are those of `MixtureRanker` to the bit, so the answers are the same. What a question costs
depends on the rows that it reads and not on the number of labels; after an edit, nothing is done
whose cost depends on that number, unless a label has come or gone.

Each live table numbers its labels by itself. What a row of a site without a position says is
brought to the numbers of the table of the sites by an array that is extended as labels come
(`Shared.labels_in`).

Rows of more than `MOST_WHOLE` entries are not read whole but from their top, by the threshold
algorithm, as far as the answer needs it; see `src/native/live/mixture_threshold.hpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

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
"""The numbers of the kinds of free sites in compiled code; those with a table are alike."""

MOST_WHOLE: Final = 512
"""The most entries of a row that is read whole."""

PATIENCE: Final = 4
"""Eighths of the reads that whole rows take, after which the threshold algorithm is given up."""


class _Piece(NamedTuple):
    """Some contexts, for compiled code."""

    rows: slice
    """Which contexts they are."""
    ranks: Ints
    """The ranks of their tokens in the vocabulary: (m, h)."""
    numbers: Ints
    """The numbers of all tokens of the vocabulary: by table, then among the labels."""


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
        """Return the columns of the k highest scores of each context, best first.

        Equal scores are in column order.

        Shapes
        ------
        returned : (m, k)
        """
        columns = np.empty((len(contexts), k), np.int64)
        for piece in self._iterate_pieces(contexts, k):
            self._compiled.leaders(
                ranks=piece.ranks,
                numbers=piece.numbers,
                out=columns[piece.rows],
                power=power,
            )
        return columns

    def leaders_by_mask(
        self, contexts: Contexts, k: int, mask: LabelMask, *, with_scores: bool, power: int = 0
    ) -> tuple[Ints, Floats | None]:
        """Return the same among the labels that a mask allows, and their scores.

        Columns are -1 where fewer labels are allowed. Scores are probabilities, divided by the
        popularity of the labels with this power.
        """
        columns = np.empty((len(contexts), k), np.int64)
        scores = np.empty((len(contexts), k)) if with_scores else None
        is_open = None if mask.is_open.all() else mask.is_open.view(np.uint8)
        for piece in self._iterate_pieces(contexts, k):
            piece_scores = None if scores is None else scores[piece.rows]
            if mask.has_lists:
                lists = mask[piece.rows]
                self._compiled.leaders(
                    ranks=piece.ranks,
                    numbers=piece.numbers,
                    out=columns[piece.rows],
                    scores=piece_scores,
                    is_open=is_open,
                    starts=lists.starts,
                    listed=lists.listed,
                    lists_allow=lists.lists_allow,
                    power=power,
                )
            else:  # then nothing is made for every label
                self._compiled.leaders(
                    ranks=piece.ranks,
                    numbers=piece.numbers,
                    out=columns[piece.rows],
                    scores=piece_scores,
                    is_open=is_open,
                    power=power,
                )
        return columns, scores

    def _iterate_pieces(self, contexts: Contexts, k: int) -> Iterator[_Piece]:
        """Yield contexts piece by piece."""
        vocabulary = contexts.vocabulary
        numbers = [store.tokens.find(vocabulary) for store in self._stores]
        numbers.append(self._stores[0].labels.find(vocabulary))
        stacked = np.array(numbers, np.int64)
        for rows in row_pieces(len(contexts), max(k, contexts.h)):
            yield _Piece(rows, np.ascontiguousarray(contexts.ranks[rows]), stacked)


def find_live_leaders(
    reader: SparseCounts, components: Components, trust: Floats, discounts: Floats
) -> LiveLeaders | None:
    """Return what finds the leading labels, or None where all scores must be made.

    That is: from tables in files; with continuation counts, which are derived from a whole table;
    where a weight is too large for a float; and where a declared label has no example, for such a
    label has no number.
    """
    if components.continued or not len(reader.labels) or not np.isfinite(trust).all():
        return None
    table = reader.rows.live_table()
    free_tables = [free_reader.rows.live_table() for free_reader in reader.free]
    if table is None or reader.labels is not table.label_set.labels:
        return None
    live_free_tables = [free_table for free_table in free_tables if free_table is not None]
    if len(live_free_tables) < len(free_tables):
        return None
    free_sites = components.sites.free
    sites_with_table = components.sites.free_with_table
    sites_without_table = [site for site in free_sites if site not in sites_with_table]
    free_parts = [
        (_KINDS[site.kind], site.reach, int(components.free(free_sites.index(site))))
        for site in (*sites_with_table, *sites_without_table)
    ]
    mixture = _native.LiveMixture(
        sites=table.version,
        columns=table.label_set.columns[:-1],
        n_labels=len(table.label_set.labels),
        trust=trust,
        discounts=discounts,
        tables=[
            (free_table.version, *free_table.store.labels_in(table.store))
            for free_table in live_free_tables
        ],
        parts=np.array(free_parts, np.int64).reshape(-1, 3),
        most_whole=MOST_WHOLE,
        patience=PATIENCE,
    )
    return LiveLeaders(mixture, [table.store, *(free.store for free in live_free_tables)])
