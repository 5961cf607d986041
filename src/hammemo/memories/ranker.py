"""One score a label for any context, and the labels in the order of their scores.

A vote makes a ranker of a reader. A ranker with a faster way to the best labels than all scores overrides `winners` and
`leaders`; both give the order of the scores, equals in column order.

When it pays to compile: once plain answers have cost about as much.

How many queries come before the next edit is unknown. So they are answered the plain way until that has cost as much
as compiling would, and by a compiled form then: never more than twice the cost of the better way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import numpy as np

from hammemo._arrays.integers import row_pieces
from hammemo._arrays.types import Array, Floats, Ints
from hammemo.tokens.labels import top_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo.kernels.additive.label_base import BaseAnswers
    from hammemo.kernels.cells import Cells, TreeCells
    from hammemo.memories.contributions import SiteScores
    from hammemo.memories.label_mask import LabelMask
    from hammemo.tokens.contexts import Contexts

Divisor: TypeAlias = float | Floats
"""What weighted sums are divided by: one number, where all labels share it, or one a label, (L,)."""


SingleScores: TypeAlias = "Callable[[Sequence[Any]], Floats | None]"
"""From the tokens of one context to its scores, (1, L), or None: then ask `scores`."""


MAX_PASSED_OVER: Final = 64
"""Labels that a query leaves out, up to which they are passed over among the leaders of all."""


class Ranker(ABC):
    """What gives each context one score a label.

    Parameters
    ----------
    n_labels : int
    row_width : int
        How many numbers one context needs while its scores are made; batches are cut to bound their memory.
    """

    def __init__(self, n_labels: int, row_width: int) -> None:
        self.n_labels = n_labels
        self.row_width = row_width

    @abstractmethod
    def scores(self, contexts: Contexts) -> Array:
        """Return one score for each context and label.

        Shapes
        ------
        contexts : m of them; returned : (m, number of labels)
        """

    @abstractmethod
    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns: the terms of `scores`.

        Shapes
        ------
        contexts : m of them; columns : (K,); returned values : (m, S, K)
        """

    def winners(self, contexts: Contexts) -> Ints:
        """Return the column of the highest score of each context, the first one among equals.

        Shapes
        ------
        contexts : m of them; returned : (m,)
        """
        return best_columns(lambda part: self.scores(contexts[part]), len(contexts), self.row_width)

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest scores of each context, best first, equals in column order.

        Shapes
        ------
        contexts : m of them; returned : (m, min(k, number of labels))
        """
        width = min(k, self.n_labels)
        return leading_columns(lambda part: self.scores(contexts[part]), len(contexts), self.row_width, width)

    def ranked(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k labels that `top_k` lists, best first: the leaders, unless a vote discounts some.

        Shapes
        ------
        contexts : m of them; returned : (m, min(k, number of labels))
        """
        return self.leaders(contexts, k)

    def masked_leaders(
        self, contexts: Contexts, k: int, mask: LabelMask, *, with_scores: bool = True
    ) -> tuple[Ints, Floats | None]:
        """Return the same among the labels that a mask allows, and their scores, with the discount, if asked.

        Best first, equals in column order; -1 and NaN where fewer labels are allowed.

        Shapes
        ------
        contexts : m of them; returned : (m, min(k, number of labels)), twice
        """
        width = min(k, self.n_labels)
        if not with_scores and mask.leaves_out_few(MAX_PASSED_OVER):
            return mask.passed_over(self.leaders(contexts, k + mask.most_listed()), width), None
        columns, scores = np.full((len(contexts), width), -1), np.full((len(contexts), width), np.nan)
        for part in row_pieces(len(contexts), self.row_width):
            allowed, found = mask.allowed(part), self.scores(contexts[part])
            least = np.finfo(np.float64).min  # the score of a label that is allowed may be minus infinity
            best = top_columns(np.where(allowed, np.maximum(found, least), -np.inf), width)
            is_allowed = np.take_along_axis(allowed, best, axis=1)
            columns[part] = np.where(is_allowed, best, -1)
            scores[part] = np.where(is_allowed, np.take_along_axis(found, best, axis=1), np.nan)
        return columns, scores

    @property
    def reads_rows(self) -> bool:
        """Whether the leading labels come from the rows that a context reads, without a score for every label."""
        return False

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way to answer one context, or None.

        It is a function from a list of integers and strings to the winner's column, or -1: then ask `winners`.
        """
        return None

    def single_scores(self) -> SingleScores | None:
        """Return a fast way from one context to its scores, or None; to the bit those of `scores`."""
        return None

    def for_cells(self, cells: Cells, base: BaseAnswers | None) -> Ranker:
        """Return what ranks rows with numbers, by their cells and by an additive base."""
        return CellRanker(self, cells) if base is None else AdditiveRanker(self, cells, base)


class CellRanker(Ranker):
    """What ranks rows with numbers: their cells are contexts of another ranker.

    Parameters
    ----------
    inner : Ranker
        Takes contexts of cells.
    cells : Cells
    """

    def __init__(self, inner: Ranker, cells: Cells) -> None:
        super().__init__(inner.n_labels, max(inner.row_width, cells.h))
        self._inner = inner
        self._cells = cells

    def scores(self, contexts: Contexts) -> Array:
        """Return one score for each row and label."""
        return self._inner.scores(self._cells.of(contexts))

    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
        """Return what each site of the cells adds to the scores of the labels in these columns."""
        return self._inner.site_scores(self._cells.of(contexts), columns)

    def winners(self, contexts: Contexts) -> Ints:
        """Return the column of the highest score of each row, the first one among equals."""
        parts = row_pieces(len(contexts), self._cells.h)
        return np.concatenate(
            [np.empty(0, np.int64), *(self._inner.winners(self._cells.of(contexts[part])) for part in parts)]
        )

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest scores of each row, best first, equals in column order."""
        return self._inner.leaders(self._cells.of(contexts), k)

    def ranked(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k labels that `top_k` lists for each row."""
        return self._inner.ranked(self._cells.of(contexts), k)

    def masked_leaders(
        self, contexts: Contexts, k: int, mask: LabelMask, *, with_scores: bool = True
    ) -> tuple[Ints, Floats | None]:
        """Return the same among the labels that a mask allows, and their scores."""
        return self._inner.masked_leaders(self._cells.of(contexts), k, mask, with_scores=with_scores)


class AdditiveRanker(CellRanker):
    """What ranks rows by cells and, where there is one, by an additive base.

    Parameters
    ----------
    inner, cells
        As in `CellRanker`.
    base : BaseAnswers, optional
    """

    _cells: TreeCells

    def __init__(self, inner: Ranker, cells: Cells, base: BaseAnswers | None) -> None:
        super().__init__(inner, cells)
        self.base = base

    def scores(self, contexts: Contexts) -> Floats:
        """Return one score for each row and label."""
        found: Floats = np.ascontiguousarray(super().scores(contexts), np.float64)
        if self.base is not None:
            self.base.add(self._cells.codes.rows(contexts), found)
        return found

    winners = Ranker.winners
    leaders = Ranker.leaders
    ranked = Ranker.ranked
    masked_leaders = Ranker.masked_leaders

    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
        """Return what each site adds and, behind the sites, what the base adds for each column of the table."""
        found, cells = super().site_scores(contexts, columns), self._cells
        if self.base is None:
            return found
        added, rest = self.base.contributions(cells.codes.rows(contexts), columns)
        known = found if found.parts is not None else replace(found, parts=tuple(("", site) for site in cells.sites()))
        return known.extended(added, rest, tuple(("", (j,)) for j in range(len(cells.kinds))))


def is_one_number(divisor: Divisor) -> TypeGuard[float]:
    """Return whether all labels share a divisor: then the order of the sums is that of the scores."""
    return np.ndim(divisor) == 0


def single_answer(
    number: Callable[[Any], int], h: int, winner: Callable[[list[int]], int], column: Callable[[int], int]
) -> Callable[[Sequence[Any]], int]:
    """Return a function from the tokens of one context to the column of its best label, or -1: then ask `winners`.

    Parameters
    ----------
    number : callable
        From a token to its number, -1 where it has none.
    h : int
        How many tokens a context has.
    winner : callable
        From numbers to that of the best label; -1 where no label has a count, -2 where it is not sure.
    column : callable
        From the number of a label to its column.
    """

    def answer(tokens: Sequence[Any]) -> int:
        if isinstance(tokens, str) or len(tokens) != h:
            return -1  # what asks for the batch of it says what is wrong
        label = winner(list(map(number, tokens)))
        return column(label) if label >= 0 else (0 if label == -1 else -1)  # no label has a count: the first

    return answer


def best_columns(scores: Callable[[slice], Array], m: int, row_width: int) -> Ints:
    """Return the first column of the highest score of each of m contexts, whose scores are made some at a time."""
    found = [scores(part).argmax(axis=1) for part in row_pieces(m, row_width)]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def leading_columns(scores: Callable[[slice], Array], m: int, row_width: int, k: int) -> Ints:
    """Return the columns of the k highest scores of each of m contexts; there are at least k columns."""
    found = [top_columns(scores(part), k) for part in row_pieces(m, row_width)]
    return np.concatenate(found) if found else np.empty((0, k), np.int64)


class CompileBudget:
    """What plain answers may cost before a compiled form pays. The unit is up to the caller: cells, or entries.

    Two threads may overwrite each other's count: then a form is compiled a little later.

    Parameters
    ----------
    per_call, per_context : int
        What a call costs, and each of its contexts.

    Examples
    --------
    >>> from hammemo.memories.ranker import CompileBudget
    >>> budget = CompileBudget(per_call=10, per_context=1)
    >>> budget.pays(5, 20), budget.spend(5), budget.pays(5, 20)
    (False, None, True)
    """

    def __init__(self, per_call: int, per_context: int) -> None:
        self._per_call = per_call
        self._per_context = per_context
        self.spent = 0

    def _cost(self, n_contexts: int) -> int:
        return self._per_call + n_contexts * self._per_context

    def pays(self, n_contexts: int, price: float) -> bool:
        """Return whether a form of this price pays by now, this many contexts counted."""
        return self.spent + self._cost(n_contexts) > price

    def spend(self, n_contexts: int, more: int = 0) -> None:
        """Note that this many contexts were answered the plain way, at `more` cost than usual."""
        self.spent += self._cost(n_contexts) + more
