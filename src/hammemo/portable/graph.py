r"""What a compiled predictor computes, as a graph of a few operations that every runtime has.

A score is a sum of rows. With the row :math:`r_k(q)` that site k of a query reads, tables
:math:`T_k`, weights :math:`w_k`, a base b, a step s and a divisor v,

.. math:: S_c(q) = \frac{s}{v_c} \Bigl( b_c + \sum_k w_k \, T_{k,c}[r_k(q)] \Bigr),

added site by site in that order, in float64: the numbers, and so the labels, are those of the
library to the bit. A log-linear vote on a sparse table adds all gains first, then subtracts all
losses, as the table itself does. Gaussian memories have products of matrices in float32 instead,
whose last bit depends on who multiplies.

The graph is written once, for any `Operations`. Tokens come as 64-bit integers: the tokens
themselves, or their places in a list (`Graph.tokens`). Hashing integers needs unsigned 64-bit
arithmetic: sums and products modulo 2^64 are those of signed integers, and a shift to the right is
followed by a mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np

from hammemo.tokens.missing import MISSING
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array, Ints
    from hammemo.tokens.contexts import Contexts

Constants: TypeAlias = dict[str, "Array"]

SIGN = -(2**63)
"""The word whose exclusive or turns the order of unsigned words into that of signed ones."""


class Operations(Protocol):
    """What a runtime offers beside the operators ``+ - * / @ ^ | & < >``.

    Operators take arrays of one shape, or an array and a number. Values have two more:
    ``table[index]`` are the entries, or the rows, with these numbers, ``matrix[:, j]`` is a column;
    and ``double()`` gives numbers as float64.

    Words are 64-bit integers: sums and products are modulo 2^64, and comparisons are those of
    signed integers. A whole number beside a word is a word.
    """

    def constant(self, name: str) -> Any:
        """Return a constant of the graph."""

    def shift(self, a: Any, bits: int) -> Any:
        """Return words shifted to the right, zeros coming in."""

    def equal(self, a: Any, b: Any) -> Any:
        """Return whether words are equal."""

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        """Return one or the other."""

    def search(self, ascending: Any, n: int, words: Any) -> Any:
        """Return for each word, or float, how many of n ascending ones are less, at most n - 1."""

    def join(self, matrices: Sequence[Any]) -> Any:
        """Return matrices side by side."""

    def stack(self, columns: Sequence[Any]) -> Any:
        """Return vectors as the columns of a matrix."""

    def pick(self, matrix: Any, columns: Any) -> Any:
        """Return the entries of each row that lie in these columns: (m, n), (m, k) → (m, k)."""


@dataclass(frozen=True, eq=False)
class Graph:
    """The scores of a predictor as a function of tokens.

    Parameters
    ----------
    h : int
        Tokens of a context.
    tokens : Vocabulary or None
        What the numbers that the graph reads stand for: their places in this list, from 0; others,
        such as -1, are tokens that it does not hold. None: the numbers are the tokens, and
        `NO_TOKEN` is none.
    constants : dict of arrays
    finder : Finder
        Which row each site reads.
    head : Head
        How rows become scores.
    classes : ndarray
        The labels, in the order of the scores.
    knows_all : bool
        Whether the graph knows every token that the memory tells from tokens that it never met.
    """

    h: int
    tokens: Vocabulary | None
    constants: Constants
    finder: Finder
    head: Head
    classes: Array
    knows_all: bool = False
    n_levels: ClassVar = 0
    """How many quantiles come after the scores: none."""

    def scores(self, ops: Operations, numbers: Any) -> Any:
        """Return one score a label for each row of numbers: (m, h) → (m, L)."""
        return self.head.scores(ops, self.finder.rows(ops, numbers))

    def numbers(self, contexts: Contexts) -> Ints:
        """Return contexts of tokens as the numbers that the graph takes: (m, h)."""
        if self.tokens is not None:
            return contexts.ranks_in(self.tokens)
        if contexts.integers is not None:
            return contexts.integers.astype(np.int64)
        tokens = contexts.vocabulary
        if len(tokens.ints) < len(tokens) and not self.knows_all:
            raise ValueError(_describe_what_is_no_integer(tokens))
        # integers are the first tokens of a vocabulary; one entry more, as rank -1 reads the last
        n_others = len(tokens) - len(tokens.ints)
        values = np.append(tokens.ints, np.full(n_others + 1, NO_TOKEN))
        return values[contexts.ranks]


def _describe_what_is_no_integer(tokens: Vocabulary) -> str:
    """Return why a graph that hashes integers cannot take these tokens, and what to do."""
    others = tokens.tolist()[len(tokens.ints) :]
    if others == [MISSING]:
        content = "missing values"
    else:
        content = f"{others[0]!r}"
    return (
        f"This graph reads integers, and X holds {content}: list the tokens that it shall know, "
        "to_torch(tokens=…) or to_onnx(path, tokens=…). A list also makes it know missing values."
    )


@dataclass(frozen=True)
class Search:
    """A map from words, or from floats, to numbers.

    It is two constants: ascending keys, and the number of each.
    """

    name: str
    size: int

    @classmethod
    def of(cls, name: str, keys: Array, values: Ints, constants: Constants) -> Search:
        """Return a map whose keys are all different, its constants added to the others."""
        if not len(keys):
            # one key for no number, so that a search always has something to look at
            keys = np.zeros(1, keys.dtype)
            values = np.full(1, -1)
        order = np.argsort(keys, kind="stable")
        constants[f"{name}.keys"] = keys[order]
        constants[f"{name}.values"] = values[order].astype(np.int64)
        return cls(name, len(keys))

    def find(self, ops: Operations, words: Any) -> Any:
        """Return the number of each word, -1 where it is no key."""
        keys = ops.constant(f"{self.name}.keys")
        place = ops.search(keys, self.size, words)
        value = ops.constant(f"{self.name}.values")[place]
        return ops.where(ops.equal(keys[place], words), value, -1)


@dataclass(frozen=True)
class ListedRows:
    """Sites of one position whose rows are the tokens of a list, in its order."""

    positions: tuple[int, ...]
    size: int
    search: Search | None = None
    """What finds the places of tokens, where the numbers are the tokens themselves."""

    def rows(self, ops: Operations, numbers: Any) -> list[Any]:
        """Return the place of each position's token; the list's length where it has none."""
        places = {
            position: _find_place(ops, numbers[:, position], self)
            for position in set(self.positions)
        }
        return [places[position] for position in self.positions]


def _find_place(ops: Operations, number: Any, listed: ListedRows | TupleRows) -> Any:
    """Return the place of each token in a list, or the size of the list where it is not there."""
    if listed.search is None:
        place = number
    else:
        place = listed.search.find(ops, number)
    return ops.where((place > -1) & (place < listed.size), place, listed.size)


@dataclass(frozen=True)
class TupleRows:
    """Sites whose rows are tuples of tokens: a trie each (:mod:`hammemo._arrays.tuple_sets`).

    Parameters
    ----------
    sites : tuple of tuples of int
        The positions of each site.
    sizes : tuple of int
        How many rows each site has.
    n : int
        How many tokens the tries number.
    size : int
        How many tokens the graph knows. The constant "ranks" has the tries' number of each, and -1
        after the last.
    levels : tuple of tuples of Search
        The levels of each trie below the first one, which is the constant "first.K": the row, or
        -1, of each token.
    search : Search or None
        Where the numbers are the tokens themselves: their places in the list.
    """

    sites: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    n: int
    size: int
    levels: tuple[tuple[Search, ...], ...]
    search: Search | None = None

    def rows(self, ops: Operations, numbers: Any) -> list[Any]:
        """Return the row that each site reads."""
        ranks = {
            position: ops.constant("ranks")[_find_place(ops, numbers[:, position], self)]
            for position in {position for site in self.sites for position in site}
        }
        return [
            self._row(ops, k, [ranks[position] for position in site])
            for k, site in enumerate(self.sites)
        ]

    def _row(self, ops: Operations, k: int, ranks: list[Any]) -> Any:
        row = ops.constant(f"first.{k}")[ranks[0]]  # the last entry is that of rank -1
        for search, rank in zip(self.levels[k], ranks[1:], strict=True):
            below = search.find(ops, row * self.n + rank)
            row = ops.where((row > -1) & (rank > -1), below, -1)
        return ops.where(row > -1, row, self.sizes[k])


@dataclass(frozen=True)
class HashedSite:
    """What finds the row of one site.

    Parameters
    ----------
    positions : tuple of int
    multiplier, start : int
        How tokens are hashed: the odd factor, and the seed of tuples.
    buckets : int
        How many rows are shared by all tokens that have no row of their own.
    n_reserved : int
        How many tokens, or tuples of them, have a row of their own; these rows come first.
    reserved : Search or None
        For tuples, from their hashes to these rows.
    compared : str or None
        The constants with the places of the tokens of reserved tuples, which tell apart tuples with
        the same hash.
    """

    positions: tuple[int, ...]
    multiplier: int
    start: int
    buckets: int
    n_reserved: int
    reserved: Search | None = None
    compared: str | None = None


class _HashedToken(NamedTuple):
    """A token of each row, as the nodes of a graph."""

    hash: Any
    place: Any
    """Its place among the reserved ones, -1 where it has none."""
    exists: Any
    """Whether there is a token."""


@dataclass(frozen=True)
class HashedRows:
    """The rows of a hashed memory (:mod:`hammemo.memories.hashed.layout`).

    Parameters
    ----------
    sites : tuple of HashedSite
    key : pair of int or None
        The words that integers are mixed with; None where tokens come as places in a list.
    places : Search or None
        From the hash of an integer to its place among the reserved tokens.
    size : int
        The length of the list; its constants are "token.hashes" and "token.places".
    """

    sites: tuple[HashedSite, ...]
    key: tuple[int, int] | None
    places: Search | None
    size: int = 0

    def rows(self, ops: Operations, numbers: Any) -> list[Any]:
        """Return the row that each site reads."""
        positions = {position for site in self.sites for position in site.positions}
        tokens = {position: self._token(ops, numbers[:, position]) for position in positions}
        return [
            self._row(ops, site, [tokens[position] for position in site.positions])
            for site in self.sites
        ]

    def _token(self, ops: Operations, number: Any) -> _HashedToken:
        """Return the token that a number stands for."""
        if self.key is None:
            exists = (number > -1) & (number < self.size)
            place = ops.where(exists, number, self.size)
            return _HashedToken(
                hash=ops.constant("token.hashes")[place],
                place=ops.constant("token.places")[place],
                exists=exists,
            )
        assert self.places is not None
        first, second = self.key
        word = mix(ops, number ^ first) ^ second
        return _HashedToken(
            hash=word,
            place=self.places.find(ops, word ^ SIGN),
            exists=number > NO_TOKEN,  # it is the least word
        )

    def _row(self, ops: Operations, site: HashedSite, tokens: list[_HashedToken]) -> Any:
        """Return the row of a site: that of its own tokens, a bucket, or the last one for none."""
        word = tokens[0].hash
        exists = tokens[0].exists
        if site.reserved is None:
            # the last entry is that of place -1
            reserved_row = ops.constant("single.rows")[tokens[0].place]
        else:
            word = mix(ops, word ^ site.start)
            for token in tokens[1:]:
                word = mix(ops, word ^ token.hash)
                exists = exists & token.exists
            reserved_row = self._find_reserved_row(ops, site, tokens, word)
        # the upper half of a product of 32-bit numbers spreads hashes over the buckets
        upper_bits = ops.shift((word | 1) * site.multiplier, 32)
        bucket = ops.shift(upper_bits * site.buckets, 32)
        row = ops.where(reserved_row > -1, reserved_row, bucket + site.n_reserved)
        return ops.where(exists, row, site.n_reserved + site.buckets)

    def _find_reserved_row(
        self, ops: Operations, site: HashedSite, tokens: list[_HashedToken], word: Any
    ) -> Any:
        """Return the row that a tuple with this hash has of its own; -1 where it has none."""
        assert site.reserved is not None
        row = site.reserved.find(ops, word ^ SIGN)
        if site.compared is not None:
            for j, token in enumerate(tokens):
                expected = ops.constant(f"{site.compared}.{j}")[row]
                row = ops.where(ops.equal(expected, token.place), row, -1)
        return row


@dataclass(frozen=True)
class RowSums:
    """Weighted sums of rows.

    The constants are "rows.K", "weight.K", "step" and, if there are any, "base" and "divisor".
    """

    weights: tuple[float, ...]
    step: float
    has_base: bool
    has_divisor: bool

    def scores(self, ops: Operations, rows: list[Any]) -> Any:
        """Return the base and the weighed rows, times the step, over the divisor."""
        terms = [ops.constant("base")] if self.has_base else []
        for k, (weight, row) in enumerate(zip(self.weights, rows, strict=True)):
            term = ops.constant(f"rows.{k}")[row].double()
            if weight != 1:
                term = term * ops.constant(f"weight.{k}")
            terms.append(term)
        total = reduce(add, terms)
        if self.step != 1:
            total = total * ops.constant("step")
        if self.has_divisor:
            return total / ops.constant("divisor")
        return total


@dataclass(frozen=True)
class RatioSums:
    """Sums of log-ratios in the order of a sparse table: gains, minus losses, plus the base.

    The constants are "gains.K" with a column for each label, "losses.K.J" and "weights.K.J", and
    "base".
    """

    n_sites: int
    n_amounts: int

    def scores(self, ops: Operations, rows: list[Any]) -> Any:
        """Return the scores."""
        gains = [ops.constant(f"gains.{k}")[row] for k, row in enumerate(rows)]
        losses = [
            ops.constant(f"losses.{k}.{j}")[row] * ops.constant(f"weights.{k}.{j}")
            for k, row in enumerate(rows)
            for j in range(self.n_amounts)
        ]
        return reduce(add, gains) - reduce(add, losses) + ops.constant("base")


@dataclass(frozen=True)
class CodeProducts:
    """The code of a context, one block per site, times one matrix or two.

    The constants are "codes", "scale.K" for each site, "matrix.J", and "divisor".
    """

    n_sites: int
    n_matrices: int

    def scores(self, ops: Operations, rows: list[Any]) -> Any:
        """Return the products."""
        codes = ops.constant("codes")
        total = ops.join([codes[row] * ops.constant(f"scale.{k}") for k, row in enumerate(rows)])
        for j in range(self.n_matrices):
            total = total @ ops.constant(f"matrix.{j}")
        return total.double() / ops.constant("divisor")


Finder: TypeAlias = ListedRows | TupleRows | HashedRows
"""What finds the row of each site of a query."""

Head: TypeAlias = RowSums | RatioSums | CodeProducts
"""What adds up rows to scores."""


def mix(ops: Operations, words: Any) -> Any:
    """Return what :func:`hammemo.tokens.hashing.mix` makes of words."""
    for bits, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ ops.shift(words, bits)) * as_signed(factor)
    return words ^ ops.shift(words, 31)


def as_signed(word: int) -> int:
    """Return an unsigned word as the signed integer with the same bits."""
    if word >= 2**63:
        return word - 2**64
    return word
