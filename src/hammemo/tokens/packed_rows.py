"""Wide tables of numbers: all numbers of a row are one token, short where most are zero.

A row of a table with thousands of columns is not thousands of tokens: most numbers of such tables
are zero, or occur once. So a table with more than `MOST_PLAIN_COLUMNS` columns, all of them
numbers, has contexts of one token, the *packed row*: a string with one character for each byte. It
begins with its form:

- ``"s"``: the places of the nonzero numbers, ascending (4 bytes each), and then these numbers (8
  bytes each);
- ``"d"``: all numbers (8 bytes each).

The shorter form is taken, the second one where both are equally long. So equal rows have equal
tokens, whether they came as a sparse matrix, an array or a data frame, and everything that holds
for tokens holds for packed rows: they are hashed, compared, kept, forgotten and saved. A missing
number is NaN, an infinite one the largest number that there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import ranges
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.tokens.contexts import Contexts

MOST_PLAIN_COLUMNS: Final = 500
"""Tables of numbers with more columns are packed.

Up to here trees look at all columns, in a few seconds, and see effects of any shape. The columns of
a packed table are chosen by lines, squares and products of two: waves, for example, are missed."""

MOST_COLUMNS: Final = 2**20
"""The most columns of a table; a place takes 4 bytes, and sums over columns stay exact."""

_SPARSE: Final = "s"
_DENSE: Final = "d"
_PLACE_BYTES: Final = 4
_NUMBER_BYTES: Final = 8
_LARGEST: Final = float(np.finfo(np.float64).max)
_ROWS_AT_ONCE: Final = 256


@dataclass(frozen=True, eq=False)
class NumberEntries:
    """The numbers of m rows that are not zero, row by row; missing ones are NaN.

    Parameters
    ----------
    starts : ndarray of int64, shape (m + 1,)
        Where the entries of each row start, and the end.
    columns : ndarray of int32
        The column of each entry, ascending in each row.
    values : ndarray of float64
    n_columns : int
    """

    starts: Ints
    columns: NDArray[np.int32]
    values: Floats
    n_columns: int

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.starts) - 1

    @property
    def rows(self) -> Ints:
        """The row of each entry."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.starts))

    def take_rows(self, rows: Ints) -> NumberEntries:
        """Return these rows, in this order; a row may occur several times."""
        lengths = np.diff(self.starts)[rows]
        entries = ranges(self.starts[rows], lengths)
        return NumberEntries(
            starts=np.concatenate([[0], np.cumsum(lengths)]),
            columns=self.columns[entries],
            values=self.values[entries],
            n_columns=self.n_columns,
        )

    def select_columns(self, columns: Ints) -> Floats:
        """Return some columns as an array, with its zeros: (m, columns)."""
        place_of_column = np.full(self.n_columns, -1, np.int32)
        place_of_column[columns] = np.arange(len(columns))
        places = place_of_column[self.columns]
        is_selected = places >= 0
        numbers = np.zeros((self.n_rows, len(columns)))
        numbers[self.rows[is_selected], places[is_selected]] = self.values[is_selected]
        return numbers


def pack_rows(X: Any) -> Array:
    """Return the packed rows of a sparse matrix or of an array of numbers: objects, shape (m, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from hammemo.tokens.packed_rows import pack_rows
    >>> X = np.array([[0.0, 2.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    >>> packed = pack_rows(X)
    >>> [token[0] for token in packed[:, 0]], bool((pack_rows(sparse.csr_array(X)) == packed).all())
    (['s', 'd'], True)
    """
    tokens = _pack_sparse(X) if sparse.issparse(X) else _pack_array(np.asarray(X))
    packed = np.empty((X.shape[0], 1), object)
    packed[:, 0] = tokens
    return packed


def _pack_array(X: Array) -> list[str]:
    tokens: list[str] = []
    for first in range(0, len(X), _ROWS_AT_ONCE):
        for row in _as_numbers(X[first : first + _ROWS_AT_ONCE]):
            places = np.flatnonzero(row)
            tokens.append(_pack(places, row[places], len(row)))
    return tokens


def _pack_sparse(X: Any) -> list[str]:
    rows = sparse.csr_array(X)
    if not rows.has_canonical_format:
        rows = rows.copy()  # the caller's matrix stays as it is
        rows.sum_duplicates()
    values = _as_numbers(rows.data)
    ends: list[int] = rows.indptr.tolist()
    tokens: list[str] = []
    for first, last in pairwise(ends):
        numbers = values[first:last]
        is_entry = numbers != 0  # a sparse matrix may hold zeros
        places = rows.indices[first:last][is_entry]
        tokens.append(_pack(places, numbers[is_entry], rows.shape[1]))
    return tokens


def _as_numbers(values: Array) -> Floats:
    """Return numbers in their canonical form: finite or NaN, and equal ones have equal bytes."""
    numbers = values.astype(np.float64)
    if values.dtype.kind == "i":
        numbers[values == NO_TOKEN] = np.nan  # how a table of integers marks a missing one
    numbers = np.clip(numbers, -_LARGEST, _LARGEST)
    numbers += 0.0  # -0.0 becomes 0.0
    numbers[np.isnan(numbers)] = np.nan  # NaNs may differ in their bits
    return numbers


def _pack(places: Ints, values: Floats, n_columns: int) -> str:
    """Return the packed row with these nonzero numbers."""
    if (_PLACE_BYTES + _NUMBER_BYTES) * len(places) < _NUMBER_BYTES * n_columns:
        content = places.astype("<u4").tobytes() + values.astype("<f8").tobytes()
        return _SPARSE + content.decode("latin-1")
    numbers = np.zeros(n_columns, "<f8")
    numbers[places] = values
    return _DENSE + numbers.tobytes().decode("latin-1")


def unpack_rows(contexts: Contexts, n_columns: int) -> NumberEntries:
    """Return the numbers of contexts of packed rows; zeros where a position has no token.

    ValueError where a token is not the row of a table with so many columns.
    """
    vocabulary = contexts.vocabulary
    has_numbers = len(vocabulary) > len(vocabulary.strings)
    if has_numbers:
        raise ValueError("a row of a wide table is not packed")
    ranks = contexts.ranks[:, 0]
    is_used = np.zeros(len(vocabulary) + 1, bool)
    is_used[ranks] = True  # rank -1, no token, marks the last entry
    is_used[-1] = False
    # Each token is unpacked once, however often it occurs. One more row, the last one, has no
    # entries: it stands for no token, and is what rank -1 reads.
    rows = [_unpack(token, n_columns) for token in vocabulary.strings[is_used[:-1]].tolist()]
    n_tokens = len(rows)
    rows.append((np.empty(0, np.int32), np.empty(0)))
    row_of_rank = np.full(len(is_used), n_tokens)
    row_of_rank[is_used] = np.arange(n_tokens)
    return _join_rows(rows, n_columns).take_rows(row_of_rank[ranks])


def _join_rows(rows: Iterable[tuple[NDArray[np.int32], Floats]], n_columns: int) -> NumberEntries:
    """Return rows, at least one, given the columns and the values of the entries of each."""
    columns, values = zip(*rows, strict=True)
    starts = np.cumsum([0, *map(len, values)])
    return NumberEntries(starts, np.concatenate(columns), np.concatenate(values), n_columns)


def _unpack(token: str, n_columns: int) -> tuple[NDArray[np.int32], Floats]:
    """Return the places and the values of the nonzero numbers of a packed row."""
    wrong = ValueError(f"a row of a wide table is not one of {n_columns:,} columns")
    try:
        content = token[1:].encode("latin-1")
    except UnicodeEncodeError:
        raise wrong from None
    if token[:1] == _DENSE and len(content) == _NUMBER_BYTES * n_columns:
        row = np.frombuffer(content, "<f8").astype(np.float64)
        places = np.flatnonzero(row).astype(np.int32)
        return places, row[places]
    n_entries, n_left = divmod(len(content), _PLACE_BYTES + _NUMBER_BYTES)
    if token[:1] != _SPARSE or n_left:
        raise wrong
    places = np.frombuffer(content, "<u4", n_entries).astype(np.int64)
    if n_entries and ((places[1:] <= places[:-1]).any() or places[-1] >= n_columns):
        raise wrong
    values = np.frombuffer(content, "<f8", n_entries, _PLACE_BYTES * n_entries).astype(np.float64)
    return places.astype(np.int32), values


def unpack_table(contexts: Contexts, n_columns: int) -> Floats:
    """Return contexts of packed rows as an array (m, n_columns).

    It holds all zeros, too, so pass few rows at a time.
    """
    return unpack_rows(contexts, n_columns).select_columns(np.arange(n_columns))
