"""Columns as bytes: what trees of thresholds look at.

A number becomes the number of its step, 1 to 255, between at most 254 cuts; 0 stands for a missing value. So only the
order of the values matters, not their distances. A date has six such columns: the moment itself, year, month, day,
weekday and hour. A name becomes its rank among the frequent names of the column, plus one; 0 stands for all others.
Frequent names are stored as keyed hashes, so that names of forgotten rows cannot be read.
The difference of the steps of two numbers is one more number: boundaries that run across two columns take one cut.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._arrays.integers import distinct_numbers, narrow
from hammemo._versions import cached_property
from hammemo.tokens.column_kinds import ColumnKind, find_names
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.distinct import distinct_examples, example_words
from hammemo.tokens.hashing import NAME_BYTES, key_words, mix, name_hashes
from hammemo.tokens.vocabulary import Token, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Floats, Ints, Words
    from hammemo.tokens.column_kinds import ColumnKinds

MAX_CUTS: Final = 253
_DATE_PARTS: Final = ("", " year", " month", " day", " weekday", " hour")
_MAX_NAMES: Final = 254
LOWEST: Final = float(np.finfo(np.float64).min)
"""What stands for cuts below the first one."""
DIFFERENCE_CUTS: Final = np.array([d for d in range(-254, 255) if abs(d) < 64 or d % 3 == 0])
"""Cuts between differences of steps: every step near zero, every third one elsewhere."""
_BAND: Final = 0.05
_BAND_ROWS: Final = 2
"""A cut leaves half of the rows of its range below it, up to this share, and this many rows, more or fewer."""
_HASH_BAND: Final = 0.2
"""The band of cuts for hashes."""
_TOLD_APART: Final = 0.75
"""The share of distinct rows that hashes tell apart.

Rows of one hash grow the same trees. Where they share their label, too, trees that they did not grow hold mostly rows
of other labels, and a vote that is fitted to what these trees say of them learns to contradict them.
"""
_MOST_HALVINGS: Final = 8
_SCORE_STEPS: Final = 200
"""Steps at most between the lowest and the highest linear score: there are 253 cuts, the others lie beyond."""
LEAST_ROWS: Final = 6
"""Rows of a range that trees divide."""


def token_values(vocabulary: Vocabulary) -> Floats:
    """Return tokens as numbers, NaN for strings and, at the end, where rank -1 reads it, for no token."""
    strings = np.full(len(vocabulary.strings) + 1, np.nan)
    return np.concatenate([vocabulary.ints.astype(np.float64), vocabulary.floats, strings])


def values_of(contexts: Contexts) -> Floats:
    """Return the tokens of contexts as numbers, NaN for strings and for no token: (m, h)."""
    vocabulary = contexts.vocabulary
    ranks = contexts.ranks
    if len(vocabulary) <= ranks.size:
        return np.asarray(token_values(vocabulary)[ranks])
    # a few tokens of many: not all are looked at
    values = np.full(ranks.shape, np.nan)
    n_ints = len(vocabulary.ints)
    is_int = (ranks >= 0) & (ranks < n_ints)
    is_float = (ranks >= n_ints) & (ranks < n_ints + len(vocabulary.floats))
    values[is_int] = vocabulary.ints[ranks[is_int]]
    values[is_float] = vocabulary.floats[ranks[is_float] - n_ints]
    return values


def split_ordered(kind: ColumnKind, values: Floats) -> list[Floats]:
    """Return the ordered columns that a column of numbers has: itself, or the parts of a date.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.cells.column_codes import split_ordered
    >>> from hammemo.tokens.column_kinds import ColumnKind
    >>> noon = np.datetime64("2026-11-16T12:00", "us").astype(np.int64)
    >>> [part.tolist() for part in split_ordered(ColumnKind.DATES, np.array([float(noon)]))][1:]
    [[2026.0], [11.0], [16.0], [0.0], [12.0]]
    """
    if kind is not ColumnKind.DATES:
        return [values]
    lacking = np.isnan(values)
    moments = np.where(lacking, 0, values).astype(np.int64).astype("datetime64[us]")
    days = moments.astype("datetime64[D]")
    months = moments.astype("datetime64[M]")
    parts = [
        moments.astype("datetime64[Y]").astype(np.int64) + 1970,
        months.astype(np.int64) % 12 + 1,
        (days - months.astype("datetime64[D]")).astype(np.int64) + 1,
        (days.astype(np.int64) + 3) % 7,  # 1970 began on a Thursday; Monday is 0
        (moments - days).astype("timedelta64[h]").astype(np.int64),
    ]
    return [values, *(np.where(lacking, np.nan, part.astype(np.float64)) for part in parts)]


def part_names(kind: ColumnKind) -> tuple[str, ...]:
    """Return what follows the name of a column in the names of its ordered columns."""
    return _DATE_PARTS if kind is ColumnKind.DATES else ("",)


def quantile_cuts(values: Floats, counts: Ints, most: int, least: int = 2, band: float = _BAND) -> Floats:
    """Return at most `most` cuts between values that occur so often: all where they are few, else near quantiles.

    A value lies behind a cut if it is not below it. Every cut separates two values that occur. Cuts halve the rows
    again and again, each at the roundest binary number near the median of its range, down to ranges with fewer than
    `least` rows. So a cut bounds the values around it but does not give them, and a row that comes or goes rarely moves
    a cut, and only cuts of ranges that it lies in.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.cells.column_codes import quantile_cuts
    >>> quantile_cuts(np.array([3.0, 1.0, 1.0, 8.9]), np.array([1, 1, 5, 1]), 9)
    array([2., 8.])
    >>> quantile_cuts(np.arange(1000.0), np.ones(1000, int), 3)
    array([256., 512., 768.])
    """
    return halve(CountedValues.from_rows(values, counts), most, least, band)[0]


def place_cuts(values: Floats, counts: Ints) -> Floats:
    """Return the cuts of a column of trees: as many for any column, so that a cut that comes or goes moves no other.

    Where rows are too few to be divided, the cuts repeat the one below them.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.cells.column_codes import place_cuts
    >>> cuts = place_cuts(np.array([1.0, 2.0, 3.0]), np.array([10, 10, 20]))
    >>> np.searchsorted(cuts, [1.0, 2.0, 3.0], side="right").tolist()
    [63, 126, 253]
    """
    return _place_counted(CountedValues.from_rows(values, counts))


def _place_counted(column: CountedValues) -> Floats:
    cuts, places = halve(column, MAX_CUTS, LEAST_ROWS, _BAND)
    return _repeat_cuts(cuts, places)


def _repeat_cuts(cuts: Floats, places: Array) -> Floats:
    """Return cuts with what repeats them: `MAX_CUTS` in all."""
    all_cuts = np.full(MAX_CUTS, LOWEST)
    all_cuts[places] = cuts
    return np.maximum.accumulate(all_cuts)


class CountedValues(NamedTuple):
    """The distinct values of a column, ascending, and how many rows have at most each of them."""

    distinct: Floats
    upto: Ints

    @classmethod
    def from_rows(cls, values: Floats, counts: Ints) -> CountedValues:
        """Return those of values that occur so often; missing ones are left out."""
        present = ~np.isnan(values)
        distinct, ranks = np.unique(values[present], return_inverse=True)
        # Floats are exact: counts add up to less than 2^53. `halved_cuts` takes sums below 2^60.
        weights = np.bincount(ranks, weights=counts[present], minlength=len(distinct)).astype(np.int64)
        return cls(distinct, np.cumsum(weights))


def halve(column: CountedValues, most: int, least: int, band: float) -> tuple[Floats, Ints]:
    """Return cuts as `quantile_cuts` does, and the place of each among `most`.

    Half of the rows have half of the places. A half with fewer values than places leaves the others to its sibling.
    """
    all_cuts = np.full(most, np.nan)
    _native.halved_cuts(
        values=column.distinct, upto=column.upto, least=least, band=band, band_rows=_BAND_ROWS, cuts=all_cuts
    )
    places = np.flatnonzero(~np.isnan(all_cuts))
    return all_cuts[places], places


def _step_middles(cuts: Floats) -> Floats:
    """Return NaN and then the middle of each step between cuts, some of which repeat others or lie below all values."""
    distinct = np.unique(cuts[cuts > LOWEST])
    if not len(distinct):
        return np.append(np.nan, np.zeros(len(cuts) + 1))
    widths = np.ones(2)
    if len(distinct) > 1:
        widths = np.diff(distinct)[[0, -1]]
    with np.errstate(over="ignore"):
        outer = np.clip(distinct[[0, -1]] + widths * [-0.5, 0.5], LOWEST, -LOWEST)
    middles = np.concatenate([outer[:1], 0.5 * distinct[:-1] + 0.5 * distinct[1:], outer[1:]])
    of_steps = middles[np.searchsorted(distinct, cuts, side="right")]
    return np.concatenate([[np.nan], middles[:1], of_steps])


@dataclass(frozen=True, eq=False)
class ColumnCodes:
    """How rows become bytes.

    Parameters
    ----------
    kinds : tuple of ColumnKind
        What each column of the table holds.
    cuts : sequence of ndarray of float64
        For each ordered column, a date having six, the cuts, ascending.
    names : sequence of ndarray of uint8, shape (n, NAME_BYTES)
        For each column of names, the hashes of its frequent names, ascending.
    name_key : bytes
        The key of these hashes.
    pairs : ndarray of int64, shape (D, 2)
        The ordered columns whose differences are columns too.
    hash_cuts : sequence of ndarray of float64
        For each ordered column, the few cuts by which rows are hashed.
    """

    kinds: ColumnKinds
    cuts: tuple[Floats, ...]
    names: tuple[NDArray[np.uint8], ...]
    name_key: bytes
    pairs: Ints
    hash_cuts: tuple[Floats, ...]

    @cached_property
    def name_places(self) -> list[int]:
        """The places of the columns of names in the table."""
        return find_names(self.kinds)

    @property
    def n_ordered(self) -> int:
        """How many ordered columns there are, differences not counted."""
        return len(self.cuts)

    @property
    def is_name(self) -> NDArray[np.uint8]:
        """Whether each column of bytes holds names: ordered ones come first, then names, then differences."""
        return np.repeat([0, 1, 0], [self.n_ordered, len(self.names), len(self.pairs)]).astype(np.uint8)

    def rows(self, contexts: Contexts) -> NDArray[np.uint8]:
        """Return the bytes of rows: shape (m, columns)."""
        named = self.name_places
        ranks = contexts.ranks[:, named]
        used = np.zeros(len(contexts.vocabulary) + 1, bool)  # rank -1 reads the last entry, here and below
        used[ranks] = True
        codes = np.zeros((len(used), len(named)), np.uint8)
        codes[:-1][used[:-1]] = self.name_codes(contexts.vocabulary.keep(used[:-1]))
        names = np.ascontiguousarray(codes[ranks, np.arange(len(named))])
        return self.encode(self.values(contexts), names)

    def encode(self, values: Floats, names: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the bytes of rows, of the values of ordered columns and the bytes of names.

        Shapes
        ------
        values : (m, ordered columns); names : (m, columns of names); returned : (m, columns)
        """
        row_bytes = np.empty((len(values), self.coder.n_columns), np.uint8)
        self.coder.write(values, names, row_bytes)
        return row_bytes

    def name_codes(self, names: Vocabulary) -> NDArray[np.uint8]:
        """Return the byte of each name in each column of names: shape (names, columns of names)."""
        hashes = name_hashes(names.tolist(), self.name_key)
        codes = [[code(name_hash, 0) for name_hash in hashes] for code in self._code_of_hash]
        return np.array(codes, np.uint8).reshape(len(self.names), len(hashes)).T

    def name_code(self, j: int, name: Token) -> int:
        """Return the byte of one name in the column of names j: for single rows."""
        return self._code_of_hash[j](name_hashes([name], self.name_key)[0], 0)

    @cached_property
    def _code_of_hash(self) -> list[Callable[[bytes, int], int]]:
        lookups: list[Callable[[bytes, int], int]] = []
        for hashes in self.names:
            codes = {name_hash.tobytes(): code for code, name_hash in enumerate(hashes, 1)}
            lookups.append(codes.get)
        return lookups

    def distinct(self, examples: Examples, seed: int, coded: NDArray[np.uint8] | None = None) -> DistinctCodes:
        """Return `distinct_examples` with steps in place of numbers, and hashes by few of the steps.

        `coded` are the bytes of the examples, where they are known already.

        So what is drawn by these hashes does not depend on where a number lies between two cuts, and rarely on a cut
        that moves.
        """
        contexts = examples.contexts
        named = self.name_places
        numbers = Vocabulary(np.arange(MAX_CUTS + 2))
        vocabulary = contexts.vocabulary.union(numbers)
        names = np.append(vocabulary.find(contexts.vocabulary), -1)[contexts.ranks[:, named]]
        places = vocabulary.find(numbers)

        def replace_numbers(steps: NDArray[np.uint8]) -> Examples:
            return replace(examples, contexts=Contexts.with_ranks(vocabulary, np.hstack([places[steps], names])))

        coded = self.rows(contexts) if coded is None else coded
        rows, _, counts = distinct_examples(replace_numbers(coded[:, : self.n_ordered]), seed)
        few = [_steps(*pair) for pair in zip(self.hash_cuts, self.values(contexts).T, strict=True)]
        steps = np.array(few, np.uint8).reshape(len(few), len(contexts)).T  # a table of names has none
        words = example_words(replace_numbers(steps), seed)[rows]
        order = np.argsort(words, kind="stable")
        return DistinctCodes(rows[order], words[order], counts[order])

    @cached_property
    def coder(self) -> _native.StepCoder:
        """Compiled code that makes the bytes."""
        return _native.StepCoder(
            cuts=np.concatenate([np.empty(0), *self.cuts]),
            cut_starts=np.cumsum([0, *map(len, self.cuts)]),
            n_names=len(self.names),
            pairs=np.ascontiguousarray(self.pairs, np.int64).reshape(-1, 2),
            pair_cuts=np.tile(DIFFERENCE_CUTS, len(self.pairs)),
            pair_starts=np.arange(len(self.pairs) + 1) * len(DIFFERENCE_CUTS),
        )

    def owners(self) -> list[tuple[int, ...]]:
        """Return, for each column of bytes, which columns of the table it is made of."""
        ordered = [j for j, kind in enumerate(self.kinds) if kind.is_ordered for _ in part_names(kind)]
        names = self.name_places
        of_pairs = [tuple(sorted({ordered[a], ordered[b]})) for a, b in self.pairs.tolist()]
        return [*((j,) for j in ordered), *((j,) for j in names), *of_pairs]

    def column_shares(self) -> Floats:
        """Return how much of each column of bytes belongs to each column of the table."""
        column_shares = np.zeros((len(self.is_name), len(self.kinds)))
        for shares, columns in zip(column_shares, self.owners(), strict=True):
            shares[list(columns)] = 1.0 / len(columns)
        return column_shares

    def plain(self, rows: NDArray[np.uint8]) -> tuple[Floats, NDArray[np.uint8]]:
        """Return what an additive base sees: for each ordered column the middle of the step, and the bytes of names.

        So a base, too, knows a number only by the two cuts around it.

        Shapes
        ------
        rows : (m, columns); returned : (m, ordered columns), (m, columns of names)
        """
        n = self.n_ordered
        values = np.empty((len(rows), n))
        for j, middles in enumerate(self.step_middles):
            values[:, j] = middles[rows[:, j]]
        return values, np.ascontiguousarray(rows[:, n : n + len(self.names)])

    @cached_property
    def step_middles(self) -> list[Floats]:
        """The middles of the steps of ordered columns, NaN for missing values; outer steps are as wide as the next."""
        return [_step_middles(cuts) for cuts in self.cuts]

    def plain_owners(self) -> tuple[int, ...]:
        """Return the column of the table that each ordered column and each column of names belongs to."""
        return tuple(owner for (owner, *_) in self.owners()[: self.n_ordered + len(self.names)])

    def values(self, contexts: Contexts) -> Floats:
        """Return the values of all ordered columns: (m, ordered columns)."""
        parts = [
            part
            for kind, values in zip(self.kinds, values_of(contexts).T, strict=True)
            if kind.is_ordered
            for part in split_ordered(kind, values)
        ]
        return np.ascontiguousarray(np.array(parts, np.float64).reshape(len(parts), len(contexts)).T)

    def with_even_cuts(self, n_scores: int, contexts: Contexts) -> ColumnCodes:
        """Return codes whose last ordered columns, linear scores, have evenly spaced cuts, some beyond those of rows.

        Quantiles would be coarse where rows are few: the steps of a score are what probabilities are made of.
        """
        if not n_scores or not len(contexts):
            return self
        scores = self.values(contexts)[:, -n_scores:]
        return replace(self, cuts=(*self.cuts[:-n_scores], *map(_even_cuts, scores.T)))

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # caches are made again


class DistinctCodes(NamedTuple):
    """The distinct rows of examples, in the order of their hashes.

    Parameters
    ----------
    rows : ndarray of int64
        The place of one example for each distinct row.
    words : ndarray of uint64
        The hash of each distinct row, ascending.
    counts : ndarray of int64
        How often each distinct row occurs.
    """

    rows: Ints
    words: Words
    counts: Ints


def choose_codes(kinds: ColumnKinds, contexts: Contexts, counts: Ints, *, pairs: Ints, seed: int) -> ColumnCodes:
    """Return codes for rows that occur so often; `pairs` are of ordered columns."""
    key = struct.pack("<QQ", *key_words(seed, "names of trees"))
    n_bits = int(counts.sum()).bit_length()
    least = max(5, 2**n_bits // 1500)  # a power of two that few single rows change
    ordered: list[Floats] = []
    name_ranks: list[Ints] = []
    for kind, ranks, values in zip(kinds, contexts.ranks.T, values_of(contexts).T, strict=True):
        if kind.is_ordered:
            ordered += split_ordered(kind, values)
        else:
            name_ranks.append(ranks)
    counted = [CountedValues.from_rows(part, counts) for part in ordered]
    names = [_find_frequent(contexts.vocabulary, ranks, counts, least) for ranks in name_ranks]
    hash_cuts = _choose_hash_cuts(
        ordered,
        counted,
        name_ranks,
        first=max(2, -(-n_bits // max(len(ordered), 1))),
        enough=_TOLD_APART * _count_distinct(contexts.ranks.T),
    )
    return ColumnCodes(
        kinds=kinds,
        cuts=tuple(map(_place_counted, counted)),
        names=tuple(_hash_names(column_names, key) for column_names in names),
        name_key=key,
        pairs=pairs,
        hash_cuts=hash_cuts,
    )


def _even_cuts(scores: Floats) -> Floats:
    """Return cuts at multiples of a power of two, around the middle of some scores and beyond their ends."""
    low = float(scores.min())
    high = float(scores.max())
    exponent = int(np.frexp(max((high - low) / _SCORE_STEPS, 2.0**-40))[1])
    middle = round(float(np.ldexp(0.5 * low + 0.5 * high, -exponent)))
    return np.asarray(np.ldexp(np.arange(MAX_CUTS, dtype=np.float64) + (middle - MAX_CUTS // 2), exponent))


def _choose_hash_cuts(
    ordered: list[Floats],
    counted: list[CountedValues],
    name_ranks: list[Ints],
    *,
    first: int,
    enough: float,
) -> tuple[Floats, ...]:
    """Return the cuts of ordered columns for hashes: as few halvings, from `first` on, as tell enough rows apart.

    Shapes
    ------
    ordered : (m,) for each ordered column; name_ranks : (m,) for each column of names, the ranks
    """
    cuts: tuple[Floats, ...] = ()
    if not ordered:
        return cuts
    for halvings in range(first, max(first, _MOST_HALVINGS) + 1):
        most = min(MAX_CUTS, 2**halvings - 1)
        cuts = tuple(halve(column, most, LEAST_ROWS, _HASH_BAND)[0] for column in counted)
        if _count_distinct([*map(_steps, cuts, ordered), *name_ranks]) >= enough:
            break
    return cuts


def _count_distinct(columns: Iterable[Array]) -> int:
    """Return how many distinct rows some columns of whole numbers have, by their hashes."""
    words = np.zeros(1, np.uint64)
    for column in columns:
        words = mix(words ^ mix(column.astype(np.int64).view(np.uint64)))
    return len(distinct_numbers(words))


def _steps(cuts: Floats, values: Floats) -> NDArray[np.uint8]:
    """Return the step of each value, 0 where it is missing."""
    return np.where(np.isnan(values), 0, 1 + np.searchsorted(cuts, values, side="right")).astype(np.uint8)


def _find_frequent(vocabulary: Vocabulary, ranks: Ints, counts: Ints, least: int) -> Vocabulary:
    """Return the names that occur `least` times or more in a column; the most frequent ones where they are many."""
    is_name = ranks >= 0
    totals = np.bincount(ranks[is_name], weights=counts[is_name], minlength=len(vocabulary))
    totals = totals.astype(np.int64)
    frequent = totals >= least
    if frequent.sum() > _MAX_NAMES:
        order = np.lexsort((np.arange(len(totals)), -totals))  # ties by the order of the vocabulary
        frequent[order[_MAX_NAMES:]] = False
    return vocabulary.keep(frequent)


def _hash_names(names: Vocabulary, key: bytes) -> NDArray[np.uint8]:
    """Return the hashes of names, ascending, so that their order tells nothing either."""
    hashes = sorted(name_hashes(names.tolist(), key))
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, NAME_BYTES)


def code_arrays(codes: ColumnCodes) -> dict[str, Array]:
    """Return the arrays of codes, for files."""
    arrays: dict[str, Array] = {
        "cuts": np.concatenate([np.empty(0), *codes.cuts]),
        "cut_lengths": np.array([len(cut) for cut in codes.cuts], np.uint8),
        "hash_cuts": np.concatenate([np.empty(0), *codes.hash_cuts]),
        "hash_cut_lengths": np.array([len(cut) for cut in codes.hash_cuts], np.uint8),
        "pairs": narrow(codes.pairs),
    }
    arrays["name_key"] = np.frombuffer(codes.name_key, np.uint8)
    arrays["name_lengths"] = np.array([len(hashes) for hashes in codes.names], np.uint8)
    arrays["names"] = np.concatenate([np.empty((0, NAME_BYTES), np.uint8), *codes.names])
    return arrays


def split_names(flat: NDArray[np.uint8], lengths: Sequence[int]) -> tuple[NDArray[np.uint8], ...]:
    """Return the hashes of names by column, or refuse such as are not ascending, or too many."""
    if sum(lengths) != len(flat) or any(length > _MAX_NAMES for length in lengths):
        raise ValueError("the names of a column are not as many as declared, or more than a byte has room for")
    if not len(lengths):
        return ()
    names = tuple(np.split(flat, np.cumsum(lengths)[:-1]))
    for hashes in names:
        if any(first >= second for first, second in pairwise(map(bytes, hashes))):
            raise ValueError("the hashes of names are not ascending")
    return names


def split_cuts(flat: Array, lengths: Sequence[int]) -> tuple[Array, ...]:
    """Return cuts by column, or refuse such as are not finite and ascending, or too many."""
    if sum(lengths) != len(flat) or any(length > MAX_CUTS for length in lengths) or not np.isfinite(flat).all():
        raise ValueError("the cuts of a column are not as many as declared, or not finite")
    if not len(lengths):
        return ()
    columns = tuple(np.split(flat, np.cumsum(lengths)[:-1]))
    if any((np.diff(cuts) < 0).any() for cuts in columns):
        raise ValueError("the cuts of a column are not ascending")
    return columns
