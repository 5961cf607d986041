"""Columns as bytes: what trees of thresholds look at.

- A number becomes the number of its step, 1 to 254, between at most 253 cuts; 0 stands for a
  missing value. So only the order of the values matters, not their distances.
- A date has six such columns: the moment itself, year, month, day, weekday and hour.
- A name becomes its rank among the frequent names of the column, plus one; 0 stands for all others.
  Frequent names are stored as keyed hashes, so that names of forgotten rows cannot be read.
- The difference of the steps of two numbers is one more number: boundaries that run across two
  columns take one cut.
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

    from hammemo._arrays.checked import StoredArrays
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
"""A cut has half of the rows of its range below it, give or take `_BAND` of them and so many rows.

So it can lie at a round number, which single rows rarely move."""
_HASH_BAND: Final = 0.2
"""The band of cuts for hashes."""
_DISTINCT_SHARE: Final = 0.75
"""The share of distinct rows that have hashes of their own.

Rows with one hash grow the same trees. Where they share their label, too, trees that they did not
grow hold mostly rows of other labels, and a vote that is fitted to what these trees say of them
learns to contradict them.
"""
_MOST_HALVINGS: Final = 8
_SCORE_STEPS: Final = 200
"""Steps at most between the lowest and the highest linear score; the other cuts lie beyond them."""
LEAST_ROWS: Final = 6
"""Rows of a range that trees divide."""


def token_values(vocabulary: Vocabulary) -> Floats:
    """Return tokens as numbers, NaN for strings, and NaN for no token at the end (rank -1)."""
    strings = np.full(len(vocabulary.strings) + 1, np.nan)
    return np.concatenate([vocabulary.ints.astype(np.float64), vocabulary.floats, strings])


def values_of(contexts: Contexts) -> Floats:
    """Return the tokens of contexts as numbers, NaN for strings and for no token: (m, h)."""
    vocabulary = contexts.vocabulary
    ranks = contexts.ranks
    if len(vocabulary) <= ranks.size:
        return np.asarray(token_values(vocabulary)[ranks])
    # few positions and a large vocabulary: convert only the tokens that stand there
    values = np.full(ranks.shape, np.nan)
    n_ints = len(vocabulary.ints)
    is_int = (ranks >= 0) & (ranks < n_ints)
    is_float = (ranks >= n_ints) & (ranks < n_ints + len(vocabulary.floats))
    values[is_int] = vocabulary.ints[ranks[is_int]]
    values[is_float] = vocabulary.floats[ranks[is_float] - n_ints]
    return values


def split_ordered(kind: ColumnKind, values: Floats) -> list[Floats]:
    """Return the ordered columns of a column: itself or, of dates, also year, month, day and so on.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.cells.column_codes import split_ordered
    >>> from hammemo.tokens.column_kinds import ColumnKind
    >>> noon = np.datetime64("2026-11-16T12:00", "us").astype(np.int64)
    >>> columns = split_ordered(ColumnKind.DATES, np.array([float(noon)]))
    >>> [column.tolist() for column in columns][1:]
    [[2026.0], [11.0], [16.0], [0.0], [12.0]]
    """
    if kind is not ColumnKind.DATES:
        return [values]
    lacking = np.isnan(values)
    moments = np.where(lacking, 0, values).astype(np.int64).astype("datetime64[us]")
    days = moments.astype("datetime64[D]")
    months = moments.astype("datetime64[M]")
    fields = [
        moments.astype("datetime64[Y]").astype(np.int64) + 1970,
        months.astype(np.int64) % 12 + 1,
        (days - months.astype("datetime64[D]")).astype(np.int64) + 1,
        (days.astype(np.int64) + 3) % 7,  # 1970 began on a Thursday; Monday is 0
        (moments - days).astype("timedelta64[h]").astype(np.int64),
    ]
    return [values, *(np.where(lacking, np.nan, field.astype(np.float64)) for field in fields)]


def part_names(kind: ColumnKind) -> tuple[str, ...]:
    """Return what follows the name of a column in the names of its ordered columns."""
    return _DATE_PARTS if kind is ColumnKind.DATES else ("",)


def quantile_cuts(
    values: Floats, counts: Ints, n_cuts: int, least: int = 2, band: float = _BAND
) -> Floats:
    """Return at most `n_cuts` cuts between values: all where they are few, else near quantiles.

    A value lies behind a cut if it is not below it. Every cut separates two values that occur. Cuts
    halve the rows again and again, each at the roundest binary number near the median of its range,
    down to ranges with fewer than `least` rows. So a cut bounds the values around it but does not
    give them, and a row that comes or goes rarely moves a cut, and only cuts of ranges that it lies
    in.

    Parameters
    ----------
    values : ndarray of shape (m,)
    counts : ndarray of shape (m,)
        How often each value occurs.
    n_cuts, least : int
    band : float
        A cut has half of the rows of its range below it, give or take this share.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.cells.column_codes import quantile_cuts
    >>> quantile_cuts(np.array([3.0, 1.0, 1.0, 8.9]), np.array([1, 1, 5, 1]), 9)
    array([2., 8.])
    >>> quantile_cuts(np.arange(1000.0), np.ones(1000, int), 3)
    array([256., 512., 768.])
    """
    cuts, _ = halve(CountedValues.from_rows(values, counts), n_cuts, least, band)
    return cuts


def place_cuts(values: Floats, counts: Ints) -> Floats:
    """Return the cuts of a column of trees: `MAX_CUTS` for every column.

    So a cut that comes or goes moves no other. Where rows are too few to be divided, cuts repeat
    the one below them.

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
    """Return cuts at their places, and at every place between them the cut before: `MAX_CUTS`."""
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
        is_present = ~np.isnan(values)
        distinct, ranks = np.unique(values[is_present], return_inverse=True)
        # Floats are exact: counts add up to less than 2^53. `halved_cuts` takes sums below 2^60.
        totals = np.bincount(ranks, weights=counts[is_present], minlength=len(distinct))
        return cls(distinct, np.cumsum(totals.astype(np.int64)))


def halve(column: CountedValues, n_cuts: int, least: int, band: float) -> tuple[Floats, Ints]:
    """Return cuts as `quantile_cuts` does, and the place of each among `n_cuts`.

    Half of the rows have half of the places. A half with fewer values than places leaves the others
    to its sibling.
    """
    all_cuts = np.full(n_cuts, np.nan)
    _native.halved_cuts(
        values=column.distinct,
        upto=column.upto,
        least=least,
        band=band,
        band_rows=_BAND_ROWS,
        cuts=all_cuts,
    )
    places = np.flatnonzero(~np.isnan(all_cuts))
    return all_cuts[places], places


def _step_middles(cuts: Floats) -> Floats:
    """Return NaN, for missing values, and then the middle of each step between cuts.

    Cuts may repeat others or be `LOWEST`. The outer steps are as wide as their neighbors.
    """
    distinct = np.unique(cuts[cuts > LOWEST])
    if not len(distinct):
        return np.append(np.nan, np.zeros(len(cuts) + 1))
    widths = np.ones(2)
    if len(distinct) > 1:
        widths = np.diff(distinct)[[0, -1]]
    with np.errstate(over="ignore"):
        outer = np.clip(distinct[[0, -1]] + widths * [-0.5, 0.5], LOWEST, -LOWEST)
    middles = np.concatenate([outer[:1], 0.5 * distinct[:-1] + 0.5 * distinct[1:], outer[1:]])
    middles_behind_cuts = middles[np.searchsorted(distinct, cuts, side="right")]
    return np.concatenate([[np.nan], middles[:1], middles_behind_cuts])


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
        """Whether each column of bytes holds names, in the order: numbers, names, differences."""
        lengths = [self.n_ordered, len(self.names), len(self.pairs)]
        return np.repeat([0, 1, 0], lengths).astype(np.uint8)

    def rows(self, contexts: Contexts) -> NDArray[np.uint8]:
        """Return the bytes of rows: shape (m, columns)."""
        named = self.name_places
        ranks = contexts.ranks[:, named]
        marks = np.zeros(len(contexts.vocabulary) + 1, bool)
        marks[ranks] = True  # rank -1, no token, marks the last entry, and below reads a zero there
        is_name = marks[:-1]
        codes = np.zeros((len(marks), len(named)), np.uint8)
        codes[:-1][is_name] = self.name_codes(contexts.vocabulary.keep(is_name))
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

    def distinct(
        self, examples: Examples, seed: int, row_bytes: NDArray[np.uint8] | None = None
    ) -> DistinctCodes:
        """Return the distinct rows of examples, with steps in place of numbers.

        Their hashes take few of the steps. So a sample that is drawn by these hashes does not
        depend on where a number lies between two cuts, and rarely on a cut that moves. `row_bytes`
        are the bytes of the examples, where they are known already.
        """
        contexts = examples.contexts
        step_numbers = Vocabulary(np.arange(MAX_CUTS + 2))
        vocabulary = contexts.vocabulary.union(step_numbers)
        new_ranks = np.append(vocabulary.find(contexts.vocabulary), -1)
        name_ranks = new_ranks[contexts.ranks[:, self.name_places]]
        step_ranks = vocabulary.find(step_numbers)

        def replace_numbers(steps: NDArray[np.uint8]) -> Examples:
            ranks = np.hstack([step_ranks[steps], name_ranks])
            return replace(examples, contexts=Contexts.with_ranks(vocabulary, ranks))

        if row_bytes is None:
            row_bytes = self.rows(contexts)
        rows, _, counts = distinct_examples(replace_numbers(row_bytes[:, : self.n_ordered]), seed)
        columns = list(map(_find_steps, self.hash_cuts, self.values(contexts).T))
        # a table of names has no such columns, so its shape must be said
        few_steps = np.array(columns, np.uint8).reshape(len(columns), len(contexts)).T
        words = example_words(replace_numbers(few_steps), seed)[rows]
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
        ordered = [
            j for j, kind in enumerate(self.kinds) if kind.is_ordered for _ in part_names(kind)
        ]
        of_pairs = [tuple(sorted({ordered[a], ordered[b]})) for a, b in self.pairs.tolist()]
        return [*((j,) for j in ordered), *((j,) for j in self.name_places), *of_pairs]

    def column_shares(self) -> Floats:
        """Return how much of each column of bytes belongs to each column of the table."""
        column_shares = np.zeros((len(self.is_name), len(self.kinds)))
        for shares, columns in zip(column_shares, self.owners(), strict=True):
            shares[list(columns)] = 1.0 / len(columns)
        return column_shares

    def plain(self, rows: NDArray[np.uint8]) -> tuple[Floats, NDArray[np.uint8]]:
        """Return rows as an additive base sees them: the middles of steps, and the bytes of names.

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
        """The middles of the steps of each ordered column, at 0 NaN for missing values."""
        return [_step_middles(cuts) for cuts in self.cuts]

    def plain_owners(self) -> tuple[int, ...]:
        """Return the column of the table of each ordered column and of each column of names."""
        return tuple(owner for (owner, *_) in self.owners()[: self.n_ordered + len(self.names)])

    def values(self, contexts: Contexts) -> Floats:
        """Return the values of all ordered columns: (m, ordered columns)."""
        columns: list[Floats] = []
        for kind, values in zip(self.kinds, values_of(contexts).T, strict=True):
            if kind.is_ordered:
                columns += split_ordered(kind, values)
        table = np.array(columns, np.float64).reshape(len(columns), len(contexts))
        return np.ascontiguousarray(table.T)

    def with_even_cuts(self, n_scores: int, contexts: Contexts) -> ColumnCodes:
        """Return codes whose last ordered columns, linear scores, have evenly spaced cuts.

        Probabilities are made of the steps of a score, and quantiles would be coarse where rows are
        few. Some cuts lie beyond the scores of these rows, for those of others.
        """
        if not n_scores or not len(contexts):
            return self
        scores = self.values(contexts)[:, -n_scores:]
        return replace(self, cuts=(*self.cuts[:-n_scores], *map(_even_cuts, scores.T)))

    def __getstate__(self) -> dict[str, Any]:
        # without the caches, which are computed again
        return {item.name: getattr(self, item.name) for item in fields(self)}


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


def choose_codes(
    kinds: ColumnKinds, contexts: Contexts, counts: Ints, *, pairs: Ints, seed: int
) -> ColumnCodes:
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
    counted = [CountedValues.from_rows(values, counts) for values in ordered]
    names = [_find_frequent(contexts.vocabulary, ranks, counts, least) for ranks in name_ranks]
    hash_cuts = _choose_hash_cuts(
        ordered,
        counted,
        name_ranks,
        first=max(2, -(-n_bits // max(len(ordered), 1))),
        enough=_DISTINCT_SHARE * _count_distinct(contexts.ranks.T),
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
    """Return cuts at multiples of a power of two, from below all scores to above all."""
    low = float(scores.min())
    high = float(scores.max())
    _, exponent = np.frexp(max((high - low) / _SCORE_STEPS, 2.0**-40))
    middle = round(float(np.ldexp(0.5 * low + 0.5 * high, -int(exponent))))
    multiples = np.arange(MAX_CUTS, dtype=np.float64) + (middle - MAX_CUTS // 2)
    return np.asarray(np.ldexp(multiples, int(exponent)))


def _choose_hash_cuts(
    ordered: list[Floats],
    counted: list[CountedValues],
    name_ranks: list[Ints],
    *,
    first: int,
    enough: float,
) -> tuple[Floats, ...]:
    """Return the cuts of ordered columns for hashes: so few that enough rows have their own hash.

    Parameters
    ----------
    ordered : list of ndarray of shape (m,)
        The values of the ordered columns.
    counted : list of CountedValues
        The same, counted.
    name_ranks : list of ndarray of shape (m,)
        The ranks of the columns of names.
    first : int
        How often rows are halved at least.
    enough : float
        How many distinct rows are to have hashes of their own.
    """
    cuts: tuple[Floats, ...] = ()
    if not ordered:
        return cuts
    for halvings in range(first, max(first, _MOST_HALVINGS) + 1):
        n_cuts = min(MAX_CUTS, 2**halvings - 1)
        cuts = tuple(halve(column, n_cuts, LEAST_ROWS, _HASH_BAND)[0] for column in counted)
        if _count_distinct([*map(_find_steps, cuts, ordered), *name_ranks]) >= enough:
            break
    return cuts


def _count_distinct(columns: Iterable[Array]) -> int:
    """Return how many distinct rows some columns of whole numbers have, by their hashes."""
    words = np.zeros(1, np.uint64)
    for column in columns:
        words = mix(words ^ mix(column.astype(np.int64).view(np.uint64)))
    return len(distinct_numbers(words))


def _find_steps(cuts: Floats, values: Floats) -> NDArray[np.uint8]:
    """Return the step of each value, 0 where it is missing."""
    steps = 1 + np.searchsorted(cuts, values, side="right")
    return np.where(np.isnan(values), 0, steps).astype(np.uint8)


def _find_frequent(vocabulary: Vocabulary, ranks: Ints, counts: Ints, least: int) -> Vocabulary:
    """Return the names that occur `least` times or more in a column, at most `_MAX_NAMES`."""
    is_name = ranks >= 0
    totals = np.bincount(ranks[is_name], weights=counts[is_name], minlength=len(vocabulary))
    totals = totals.astype(np.int64)
    is_frequent = totals >= least
    if is_frequent.sum() > _MAX_NAMES:
        # the most frequent ones, and among equally frequent ones the first of the vocabulary
        order = np.lexsort((np.arange(len(totals)), -totals))
        is_frequent[order[_MAX_NAMES:]] = False
    return vocabulary.keep(is_frequent)


def _hash_names(names: Vocabulary, key: bytes) -> NDArray[np.uint8]:
    """Return the hashes of names, ascending, so that their order tells nothing either."""
    hashes = sorted(name_hashes(names.tolist(), key))
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, NAME_BYTES)


def code_arrays(codes: ColumnCodes) -> dict[str, Array]:
    """Return the arrays of codes, for files."""
    return {
        "cuts": np.concatenate([np.empty(0), *codes.cuts]),
        "cut_lengths": np.array([len(cuts) for cuts in codes.cuts], np.uint8),
        "hash_cuts": np.concatenate([np.empty(0), *codes.hash_cuts]),
        "hash_cut_lengths": np.array([len(cuts) for cuts in codes.hash_cuts], np.uint8),
        "pairs": narrow(codes.pairs),
        "name_key": np.frombuffer(codes.name_key, np.uint8),
        "name_lengths": np.array([len(hashes) for hashes in codes.names], np.uint8),
        "names": np.concatenate([np.empty((0, NAME_BYTES), np.uint8), *codes.names]),
    }


def restore_codes(kinds: ColumnKinds, stored: StoredArrays) -> ColumnCodes:
    """Return the codes of a file, checked: undo `code_arrays`."""
    n_ordered = sum(len(part_names(kind)) for kind in kinds if kind.is_ordered)
    cut_lengths = stored.take("cut_lengths", "uint8", (n_ordered,)).tolist()
    cuts = split_cuts(stored.take("cuts", "float64", (None,)), cut_lengths)
    hash_cut_lengths = stored.take("hash_cut_lengths", "uint8", (n_ordered,)).tolist()
    hash_cuts = split_cuts(stored.take("hash_cuts", "float64", (None,)), hash_cut_lengths)
    pairs = stored.whole_numbers("pairs", (None, 2), below=max(n_ordered, 1))
    name_lengths = stored.take("name_lengths", "uint8", (kinds.count(ColumnKind.NAMES),)).tolist()
    names = split_names(stored.take("names", "uint8", (None, NAME_BYTES)), name_lengths)
    return ColumnCodes(
        kinds=kinds,
        cuts=cuts,
        names=names,
        name_key=stored.take("name_key", "uint8", (NAME_BYTES,)).tobytes(),
        pairs=pairs.astype(np.int64),
        hash_cuts=hash_cuts,
    )


def split_names(flat: NDArray[np.uint8], lengths: Sequence[int]) -> tuple[NDArray[np.uint8], ...]:
    """Return the hashes of names by column; refuse hashes that do not ascend, or are too many."""
    if sum(lengths) != len(flat) or any(length > _MAX_NAMES for length in lengths):
        raise ValueError(
            "the names of a column are not as many as declared, or more than a byte has room for"
        )
    if not len(lengths):
        return ()
    names = tuple(np.split(flat, np.cumsum(lengths)[:-1]))
    for hashes in names:
        if any(first >= second for first, second in pairwise(map(bytes, hashes))):
            raise ValueError("the hashes of names are not ascending")
    return names


def split_cuts(flat: Array, lengths: Sequence[int]) -> tuple[Array, ...]:
    """Return cuts by column; refuse cuts that are not finite, do not ascend, or are too many."""
    is_as_declared = sum(lengths) == len(flat) and all(length <= MAX_CUTS for length in lengths)
    if not is_as_declared or not np.isfinite(flat).all():
        raise ValueError("the cuts of a column are not as many as declared, or not finite")
    if not len(lengths):
        return ()
    columns = tuple(np.split(flat, np.cumsum(lengths)[:-1]))
    if any((np.diff(cuts) < 0).any() for cuts in columns):
        raise ValueError("the cuts of a column are not ascending")
    return columns
