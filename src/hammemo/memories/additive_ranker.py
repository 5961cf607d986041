"""Scores of rows by their cells, plus the weighted ratios of the additive base of these cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.memories.ranker import Ranker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo.kernels.cells import TreeCells
    from hammemo.memories.contributions import SiteScores
    from hammemo.memories.ranker import SingleScores
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Vocabulary


class AdditiveRanker(Ranker):
    """What ranks rows by cells and an additive base.

    Parameters
    ----------
    inner : Ranker
        Takes rows and reads their cells.
    cells : TreeCells
    labels : Vocabulary
        The labels of the columns.
    weights : ndarray of shape (labels,)
        Of the base.
    """

    def __init__(self, inner: Ranker, cells: TreeCells, labels: Vocabulary, weights: NDArray[np.float64]) -> None:
        super().__init__(inner.n_labels, inner.row_width)
        self.inner = inner
        self._cells = cells
        self._labels = labels
        self.weights = weights

    def scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return one score for each row and label."""
        return self.inner.scores(contexts) + self.weights * self._cells.base_ratios(contexts, self._labels)

    def site_scores(self, contexts: Contexts, columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds and, behind the sites, what the base adds for each column of the table."""
        found, cells = self.inner.site_scores(contexts, columns), self._cells
        weights = self.weights[columns]
        added = weights * cells.base_contributions(contexts, self._labels)[:, :, columns]  # (columns, m, K)
        rest = weights * cells.base_ratios(contexts, self._labels)[:, columns] - added.sum(axis=0)
        added = added.transpose(1, 0, 2)
        bounds = {
            name: None if held is None else np.concatenate([held, added], axis=1)
            for name, held in (("low", found.low), ("high", found.high))
        }
        parts = (*(found.parts or ()), *(("", (j,)) for j in range(len(cells.kinds))))
        if found.parts is None:
            parts = (*(("", site) for site in cells.sites()), *parts)
        values = np.concatenate([found.values, added], axis=1)
        return replace(
            found, values=values, base=rest + (0 if found.base is None else found.base), parts=parts, **bounds
        )

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way from the tokens of one row to the column of its best label."""
        scores = self.single_scores()
        if scores is None:
            return None

        def best(tokens: Sequence[Any]) -> int:
            found = scores(tokens)
            return -1 if found is None else int(found.argmax())

        return best

    def single_scores(self) -> SingleScores | None:
        """Return a fast way from the tokens of one row to its scores."""
        of_cells = self.inner.single_scores()
        if of_cells is None:
            return None
        of_base = self._cells.single_base_ratios(self._labels)

        def scores(tokens: Sequence[Any]) -> NDArray[np.float64] | None:
            found = of_cells(tokens)
            return None if found is None else found + self.weights * of_base(tokens)

        return scores
