r"""Rows of whole numbers for every site, gathered, weighed, added and compared.

It is done by the compiled loops, or by NumPy.

With integer rows :math:`T_k`, weights :math:`w_k`, a base b, a divisor v and a step of
:math:`2^{-f}`, the score of label c is

.. math:: S_c(q) = 2^{-f} \Bigl( b_c + \sum_k w_k \, T_{k,c}[\mathrm{row}_k(q)] \Bigr),

and labels are ranked by :math:`S_c / v_c`. Sums of whole numbers are exact in any order and in any
width that does not overflow, so both ways give the same scores to the bit. With weights that are
not whole numbers the products are floats, multiplied once and added site by site in the same order
by both. The compiled loops are not used where a sum could overflow them, or for more than 2048
sites.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import _native
from hammemo.tokens.labels import top_columns
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Bools, Floats, Ints, Words
    from hammemo.memories.hashed.layout import RowLayout
    from hammemo.tokens.contexts import Contexts

_MAX_CACHED_STRINGS = 2**18
"""Strings whose hashes and places are kept for single queries."""


class NativeTable:
    """The rows of every site, as one table.

    Parameters
    ----------
    layout : RowLayout
        Which row each site of a context reads.
    rows : list of integer ndarrays of shape (rows of the site, L)
    weights : ndarray of shape (S,)
    step : float
        What one unit of a row is worth in a score.
    base : ndarray of shape (L,), optional
        The score where no site says anything, in steps.
    divisor : ndarray of shape (L,), optional
        What scores are divided by before they are compared.
    threads : int
        How many a large batch may use.
    """

    def __init__(
        self,
        layout: RowLayout,
        rows: list[Array],
        weights: Floats,
        step: float,
        *,
        base: Array | None = None,
        divisor: Floats | None = None,
        threads: int = 1,
    ) -> None:
        self._layout = layout
        self._weights = weights
        self._step = step
        self._base = base
        self._divisor = divisor
        self._threads = threads
        self._n_labels = rows[0].shape[1]
        self.loops = self._compile(rows)
        """The compiled table; None where NumPy answers."""
        needs_numpy = self.loops is None or base is not None
        self._rows = rows if needs_numpy else None
        self._string_bytes: dict[str, bytes] = {}
        """The hash and the place of strings that single queries asked for."""

    def replace_rows(
        self, rows: list[Ints], values: list[Ints], divisor: Floats | None
    ) -> NativeTable | None:
        """Return the table with other numbers in some rows of each site, and another divisor.

        None where a table of all rows has to be made: if this one is not compiled or has a base, if
        one has a divisor and the other has not, or if sums need another type.
        """
        if self.loops is None or self._base is not None:
            return None
        if (divisor is None) != (self._divisor is None):
            return None
        weighted = self._weigh(values)
        if weighted is None:
            return None
        starts = self._layout.first_rows[:-1]
        stacked = np.concatenate(
            [site_values + start for site_values, start in zip(rows, starts, strict=True)]
        )
        table = copy.copy(self)
        vars(table)["_divisor"] = divisor
        try:
            table.loops = self.loops.replaced(stacked, np.concatenate(weighted), divisor)
        except OverflowError:
            return None
        return table

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled loops answer."""
        return self.loops is not None

    def scores(self, contexts: Contexts) -> Floats:
        """Return the scores, not divided: shape (m, L)."""
        if self.loops is None:
            return self.plain_scores(contexts)
        out = np.empty((len(contexts), self._n_labels))
        self._run(self.loops.scores, contexts, out)
        missed = self._without_base(contexts)
        if len(missed):
            out[missed] = self.plain_scores(contexts[missed])
        return out

    def _run(self, loop: Callable[..., None], contexts: Contexts, out: Array) -> None:
        """Run a compiled loop over contexts."""
        source = self._layout.source(contexts)
        loop(
            tokens=source.tokens,
            hashes=source.hashes,
            places=source.places,
            out=out,
            threads=self._threads,
        )

    def winners(self, contexts: Contexts) -> Ints:
        """Return the column of the highest score of each context, the first one among equals."""
        if self.loops is None:
            return np.asarray(self._plain_divided(contexts).argmax(axis=1))
        out = np.empty(len(contexts), np.int32)
        self._run(self.loops.winners, contexts, out)
        missed = self._without_base(contexts)
        if len(missed):
            out[missed] = self._plain_divided(contexts[missed]).argmax(axis=1)
        return out.astype(np.int64)

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest scores, best first, equals in column order."""
        if self.loops is None:
            return top_columns(self._plain_divided(contexts), k)
        out = np.empty((len(contexts), min(k, self._n_labels)), np.int32)
        self._run(self.loops.leaders, contexts, out)
        missed = self._without_base(contexts)
        if len(missed):
            out[missed] = top_columns(self._plain_divided(contexts[missed]), k)
        return out.astype(np.int64)

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a way from one context of integers and strings to its winner.

        It returns -1 where `winners` has to be asked. None where the compiled loops do not answer.
        """
        if self.loops is None:
            return None
        one = self.loops.one
        string_bytes = self._string_bytes

        def winner(tokens: Sequence[Any]) -> int:
            column: int = one(tokens, string_bytes)
            if column < 0 and all(type(token) in (int, str) for token in tokens):
                # a string was not looked up yet
                self._look_up(tokens)
                column = one(tokens, string_bytes)
            return column

        if self._base is None:
            return winner
        first_site = self._layout.sites.positions[0]

        def winner_with_base(tokens: Sequence[Any]) -> int:
            column = winner(tokens)
            # the loops add the base with the first site, so it must hold a token
            return -1 if column >= 0 and any(tokens[r] == NO_TOKEN for r in first_site) else column

        return winner_with_base

    def _look_up(self, tokens: Sequence[Any]) -> None:
        """Keep the bytes of the strings among tokens."""
        if len(self._string_bytes) > _MAX_CACHED_STRINGS:
            self._string_bytes.clear()
        new = Vocabulary.of(
            token for token in tokens if type(token) is str and token not in self._string_bytes
        )
        hashes, places = self._layout.vocabulary_source(new)
        self._string_bytes.update(
            zip(new.strings.tolist(), token_bytes(hashes, places), strict=True)
        )

    def proves(self, upper: NativeTable, contexts: Contexts, answers: Ints) -> Bools:
        """Return whether the answers' scores here are above all rivals' in `upper`.

        Both tables are compiled.
        """
        out = np.empty(len(contexts), np.uint8)
        source = self._layout.source(contexts)
        self.loops.prove(
            upper=upper.loops,
            tokens=source.tokens,
            hashes=source.hashes,
            places=source.places,
            answers=answers.astype(np.int32),
            out=out,
            threads=self._threads,
        )
        return out.astype(bool)

    def plain_scores(self, contexts: Contexts) -> Floats:
        """Return the scores by NumPy alone: what the compiled loops are tested against."""
        assert self._rows is not None
        totals = np.zeros((len(contexts), self._n_labels))
        if self._base is not None:
            totals += self._base
        reads = zip(self._rows, self._layout.rows(contexts).T, self._weights, strict=True)
        for site_rows, row, weight in reads:
            has_row = row >= 0
            totals[has_row] += weight * site_rows[row[has_row]]
        return totals * self._step

    def _plain_divided(self, contexts: Contexts) -> Floats:
        scores = self.plain_scores(contexts)
        return scores if self._divisor is None else scores / self._divisor

    def _without_base(self, contexts: Contexts) -> Ints:
        """Return the contexts whose first site holds no token: the loops cannot add their base."""
        none = np.empty(0, np.int64)
        if self._base is None:
            return none
        first_site = list(self._layout.sites.positions[0])
        if contexts.integers is None:
            is_empty = contexts.ranks[:, first_site] == -1
        elif contexts.integers.dtype.itemsize < 8:
            return none  # narrow integers cannot hold the number that stands for no token
        else:
            is_empty = contexts.integers[:, first_site] == NO_TOKEN
        return np.flatnonzero(is_empty.any(axis=1))

    def _compile(self, rows: list[Array]) -> Any:
        """Return the compiled table, or None where the loops do not take it or would overflow."""
        if self._layout.compiled is None or not self._n_labels:
            return None
        weighted = self._weigh(rows)
        if weighted is None:
            return None
        if self._base is not None:
            weighted[0] = weighted[0] + self._base  # each context reads one row of the first site
        values = np.concatenate(weighted)
        try:
            return _native.Table(self._layout.compiled, values, self._divisor, self._step)
        except OverflowError:
            return None

    def _weigh(self, rows: list[Array]) -> list[Array] | None:
        """Return rows of each site times its weight, or None where a product could be too wide."""
        weights: Array = self._weights
        if whole(weights):
            pairs = zip(weights, rows, strict=True)
            if any(largest(site_values) * weight >= 2**31 for weight, site_values in pairs):
                return None  # before a product wraps around
            weights = weights.astype(np.int64)
        return [weight * site_values for weight, site_values in zip(weights, rows, strict=True)]


def whole(weights: Floats) -> bool:
    """Return whether all weights are whole numbers, and not too large for sums of whole numbers."""
    return bool((weights == np.floor(weights)).all() and weights.max() < 2**20)


def largest(values: Array) -> int:
    """Return the largest absolute value."""
    if not values.size:
        return 0
    return max(int(values.max()), -int(values.min()))


def token_bytes(hashes: Words, places: NDArray[np.int32]) -> list[bytes]:
    """Return for each token its hash and its place, as the compiled loops take them."""
    return [hash_.tobytes() + place.tobytes() for hash_, place in zip(hashes, places, strict=True)]
