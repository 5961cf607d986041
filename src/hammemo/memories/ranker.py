r"""One score a label for any context, and the labels in the order of their scores.

A vote makes a ranker of a reader. A ranker with a faster way to the best labels than all scores
overrides `winners` and `leaders`; both give the order of the scores, equals in column order.

Beside it are what rankers and readers share:

- `CompileBudget` says when it pays to compile. How many queries come before the next edit is
  unknown. So they are answered the plain way until that has cost as much as compiling would, and by
  a compiled form then: never more than twice the cost of the better way.
- `SiteScores` has what each site contributes to the score of each label, and how far that may be
  from the exact contribution. The score of label c is a sum :math:`S_c = \beta_c + \sum_k s_{k,c}`
  over the sites k of a query. A memory that keeps exact counts knows every :math:`s_{k,c}`. One
  that keeps bounds on the counts knows an interval that holds the exact contribution for certain;
  intervals add up over sites. One with random codes knows a standard error, over the draw of the
  codes; errors of different sites are not independent, so that of the sum is given besides.
- `LabelMask` says which labels a question may be answered with. It has two parts, and a label must
  pass both: flags for all contexts alike, and one list of labels for each context, which are either
  left out or the only ones that are allowed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import numpy as np

from hammemo._arrays.integers import row_pieces
from hammemo._arrays.types import Array, Floats, Ints
from hammemo.tokens.labels import top_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.types import Bools
    from hammemo.features.additive.label_base import BaseAnswers
    from hammemo.features.cells import Cells, TreeCells
    from hammemo.tokens.contexts import Contexts


@dataclass(frozen=True, eq=False)
class LabelMask:
    """Which of L labels each of m contexts may be answered with.

    Parameters
    ----------
    is_open : ndarray of bool, shape (L,)
        Whether a label is allowed to all contexts.
    starts : ndarray of int64, shape (m + 1,)
        Where the list of each context begins, and the end.
    listed : ndarray of int64
        The columns of all lists; -1 is no label.
    lists_allow : bool
        Whether a context may be answered only with what its list names, or with all else.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.memories.ranker import LabelMask
    >>> mask = LabelMask(np.array([True, True, False]), np.array([0, 1, 1]), np.array([0]), False)
    >>> mask.find_allowed(slice(0, 2)).tolist()
    [[False, True, False], [True, True, False]]
    >>> mask.most_listed()
    1
    """

    is_open: Bools
    starts: Ints
    listed: Ints
    lists_allow: bool

    def __getitem__(self, rows: slice) -> LabelMask:
        """Return the mask of some contexts that follow each other."""
        starts = self.starts[rows.start : rows.stop + 1]
        listed = self.listed[starts[0] : starts[-1]]
        return LabelMask(self.is_open, starts - starts[0], listed, self.lists_allow)

    def find_allowed(self, rows: slice) -> Bools:
        """Return whether each of some contexts may be answered with each label: (contexts, L)."""
        starts = self.starts[rows.start : rows.stop + 1]
        listed = self.listed[starts[0] : starts[-1]]
        n_contexts = len(starts) - 1
        # one column more than labels: -1, which is no label, marks it
        by_list = np.full((n_contexts, len(self.is_open) + 1), not self.lists_allow)
        owners = np.repeat(np.arange(n_contexts), np.diff(starts))
        by_list[owners, listed] = self.lists_allow
        return np.asarray(by_list[:, :-1] & self.is_open)

    @property
    def has_lists(self) -> bool:
        """Whether a context has a list that changes what is allowed."""
        return self.lists_allow or len(self.listed) > 0

    def most_listed(self) -> int:
        """Return the length of the longest list."""
        return int(np.diff(self.starts).max(initial=0))

    def leaves_out_few(self, most: int) -> bool:
        """Return whether each context may be answered with all labels but at most this many."""
        return not self.lists_allow and self.most_listed() <= most and bool(self.is_open.all())

    def skip_listed(self, leaders: Ints, k: int) -> Ints:
        """Return the first k columns of each context that its list does not name.

        It is -1 where they are fewer.
        """
        columns = np.full((len(leaders), k), -1)
        lists = zip(leaders.tolist(), self.starts[:-1], self.starts[1:], strict=True)
        for row, (row_leaders, first, last) in zip(columns, lists, strict=True):
            listed = set(self.listed[first:last].tolist())
            kept = [column for column in row_leaders if column not in listed][:k]
            row[: len(kept)] = kept
        return columns


@dataclass(frozen=True, eq=False)
class SiteScores:
    """Contributions of S sites to K labels for m queries, and what is known of their error.

    Parameters
    ----------
    values : ndarray of shape (m, S, K)
        What each site adds to the score of each label.
    low, high : ndarray of shape (m, S, K), optional
        What the exact contribution is at least, and at most, for certain: equal where it is known.
    errors : ndarray of shape (m, S, K), optional
        Standard errors over the draw of random codes.
    total_errors : ndarray of shape (m, K), optional
        Standard errors of the sums over the sites.
    base : ndarray of shape (K,) or (m, K), optional
        The score where no site says anything; zero by default.
    parts : tuple of pairs (kind, positions), optional
        What each of the S rows stands for, where that is not the kernel's sites: the kind of a site
        without a position, empty for one with positions.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.memories.ranker import SiteScores
    >>> votes = SiteScores.exact(np.array([[[2.0, 0.0], [1.0, 3.0]]]))
    >>> votes.divide(np.array([1.0, 2.0])).totals()
    array([[3. , 1.5]])
    """

    values: Floats
    low: Floats | None = None
    high: Floats | None = None
    errors: Floats | None = None
    total_errors: Floats | None = None
    base: Floats | None = None
    parts: tuple[tuple[str, tuple[int, ...]], ...] | None = None

    def extend(
        self, values: Floats, base: Floats, parts: tuple[tuple[str, tuple[int, ...]], ...]
    ) -> SiteScores:
        """Return these contributions, of known parts, with further exact ones behind them.

        Shapes
        ------
        values : (m, more, K); base : (m, K)
        """
        assert self.parts is not None
        low = self.low
        if low is not None:
            low = np.concatenate([low, values], axis=1)
        high = self.high
        if high is not None:
            high = np.concatenate([high, values], axis=1)
        base_before = 0 if self.base is None else self.base
        return replace(
            self,
            values=np.concatenate([self.values, values], axis=1),
            low=low,
            high=high,
            base=base + base_before,
            parts=(*self.parts, *parts),
        )

    @classmethod
    def exact(cls, values: Floats, base: Floats | None = None) -> SiteScores:
        """Return contributions that are known: the bounds are the values themselves."""
        return cls(values, values, values, base=base)

    def totals(self) -> Floats:
        """Return the scores: the base and the sum over sites, shape (m, K)."""
        sums = self.values.sum(axis=1)
        if self.base is not None:
            sums = sums + self.base
        return np.asarray(sums)

    def divide(self, divisor: float | Floats) -> SiteScores:
        """Return the same for scores that are divided by a positive number, or by one a label."""
        names = ("values", "low", "high", "errors", "total_errors", "base")
        arrays = {name: getattr(self, name) for name in names}
        return replace(
            self, **{name: array / divisor for name, array in arrays.items() if array is not None}
        )


Divisor: TypeAlias = float | Floats
"""What weighted sums are divided by: one number, where all labels share it, or one a label, (L,).
"""


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
        How many numbers one context needs while its scores are made; batches are cut to bound their
        memory.
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
        """Return what each site adds to the scores of labels: the terms of `scores`.

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
        """Return the columns of the k highest scores, best first, equals in column order.

        Shapes
        ------
        contexts : m of them; returned : (m, min(k, number of labels))
        """

        def scores(rows: slice) -> Array:
            return self.scores(contexts[rows])

        return leading_columns(scores, len(contexts), self.row_width, min(k, self.n_labels))

    def rank(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k labels that `top_k` lists, best first.

        They are the leaders, unless a vote discounts some.

        Shapes
        ------
        contexts : m of them; returned : (m, min(k, number of labels))
        """
        return self.leaders(contexts, k)

    def leaders_by_mask(
        self, contexts: Contexts, k: int, mask: LabelMask, *, with_scores: bool = True
    ) -> tuple[Ints, Floats | None]:
        """Return what `rank` does among the labels that a mask allows, and their scores, if asked.

        Best first, equals in column order; -1 and NaN where fewer labels are allowed. Scores have
        the discount of the vote, if there is one.

        Shapes
        ------
        contexts : m of them; returned : (m, min(k, number of labels)), twice
        """
        width = min(k, self.n_labels)
        if not with_scores and mask.leaves_out_few(MAX_PASSED_OVER):
            return mask.skip_listed(self.leaders(contexts, k + mask.most_listed()), width), None
        columns = np.full((len(contexts), width), -1)
        leading_scores = np.full((len(contexts), width), np.nan)
        # a label that is allowed may have minus infinity: it comes before those that are not
        # allowed
        least = np.finfo(np.float64).min
        for piece in row_pieces(len(contexts), self.row_width):
            allowed = mask.find_allowed(piece)
            scores = self.scores(contexts[piece])
            best = top_columns(np.where(allowed, np.maximum(scores, least), -np.inf), width)
            is_allowed = np.take_along_axis(allowed, best, axis=1)
            columns[piece] = np.where(is_allowed, best, -1)
            best_scores = np.take_along_axis(scores, best, axis=1)
            leading_scores[piece] = np.where(is_allowed, best_scores, np.nan)
        return columns, leading_scores

    @property
    def reads_rows(self) -> bool:
        """Whether the leading labels come from rows, without a score for every label."""
        return False

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way to answer one context, or None.

        It is a function from a list of integers and strings to the winner's column, or -1: then ask
        `winners`.
        """
        return None

    def single_scores(self) -> SingleScores | None:
        """Return a fast way from one context to what `scores` returns, to the bit, or None."""
        return None

    def for_cells(self, cells: Cells, base: BaseAnswers | None) -> Ranker:
        """Return what ranks rows with numbers, by their cells and by an additive base."""
        if base is None:
            return CellRanker(self, cells)
        return AdditiveRanker(self, cells, base)


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
        return self._inner.scores(self._cells.find_cells(contexts))

    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
        """Return what each site of the cells adds to the scores of the labels in these columns."""
        return self._inner.site_scores(self._cells.find_cells(contexts), columns)

    def winners(self, contexts: Contexts) -> Ints:
        """Return the column of the highest score of each row, the first one among equals."""
        pieces = row_pieces(len(contexts), self._cells.h)
        columns = [self._inner.winners(self._cells.find_cells(contexts[piece])) for piece in pieces]
        return np.concatenate([np.empty(0, np.int64), *columns])

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest scores, best first, equals in column order."""
        return self._inner.leaders(self._cells.find_cells(contexts), k)

    def rank(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k labels that `top_k` lists for each row."""
        return self._inner.rank(self._cells.find_cells(contexts), k)

    def leaders_by_mask(
        self, contexts: Contexts, k: int, mask: LabelMask, *, with_scores: bool = True
    ) -> tuple[Ints, Floats | None]:
        """Return the same among the labels that a mask allows, and their scores."""
        return self._inner.leaders_by_mask(
            self._cells.find_cells(contexts), k, mask, with_scores=with_scores
        )


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
        scores: Floats = np.ascontiguousarray(super().scores(contexts), np.float64)
        if self.base is not None:
            self.base.add(self._cells.code_rows(contexts), scores)
        return scores

    winners = Ranker.winners
    leaders = Ranker.leaders
    rank = Ranker.rank
    leaders_by_mask = Ranker.leaders_by_mask

    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
        """Return what each site adds and, behind the sites, what the base adds for each column."""
        scores = super().site_scores(contexts, columns)
        if self.base is None:
            return scores
        cells = self._cells
        if scores.parts is None:
            scores = replace(scores, parts=tuple(("", site) for site in cells.sites()))
        by_column, constant = self.base.contributions(cells.code_rows(contexts), columns)
        column_parts = tuple(("", (j,)) for j in range(len(cells.kinds)))
        return scores.extend(by_column, constant, column_parts)


def is_one_number(divisor: Divisor) -> TypeGuard[float]:
    """Return whether all labels share a divisor: then sums are in the order of the scores."""
    return np.ndim(divisor) == 0


def single_answer(
    number: Callable[[Any], int],
    h: int,
    winner: Callable[[list[int]], int],
    column: Callable[[int], int],
) -> Callable[[Sequence[Any]], int]:
    """Return a way from the tokens of one context to the column of its best label.

    It returns -1 where `winners` has to be asked.

    Parameters
    ----------
    number : callable
        From a token to its number, -1 where it has none.
    h : int
        How many tokens a context has.
    winner : callable
        From numbers to that of the best label; -1 where no label has a count, -2 where it is not
        sure.
    column : callable
        From the number of a label to its column.
    """

    def answer(tokens: Sequence[Any]) -> int:
        if isinstance(tokens, str) or len(tokens) != h:
            return -1  # the way of batches says what is wrong
        label = winner(list(map(number, tokens)))
        if label >= 0:
            return column(label)
        return 0 if label == -1 else -1  # where no label has a count, the first one is best

    return answer


def best_columns(scores: Callable[[slice], Array], m: int, row_width: int) -> Ints:
    """Return the first column of the highest score of each of m contexts.

    Scores are made for some contexts at a time.
    """
    columns = [scores(piece).argmax(axis=1) for piece in row_pieces(m, row_width)]
    if not columns:
        return np.empty(0, np.int64)
    return np.concatenate(columns)


def leading_columns(scores: Callable[[slice], Array], m: int, row_width: int, k: int) -> Ints:
    """Return the columns of the k highest scores of each of m contexts, of at least k."""
    columns = [top_columns(scores(piece), k) for piece in row_pieces(m, row_width)]
    if not columns:
        return np.empty((0, k), np.int64)
    return np.concatenate(columns)


class CompileBudget:
    """What plain answers may cost before a compiled form pays.

    The unit is up to the caller: cells, or entries.

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
