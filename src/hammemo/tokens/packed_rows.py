"""Wide tables of numbers: the numbers of a row are one token.

Its size follows from the nonzero numbers.

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

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy import sparse

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


class NumberEntries(NamedTuple):
    """The nonzero numbers of rows, row by row: a sparse matrix whose missing entries are NaN.

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

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def rows(self) -> Ints:
        """The row of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def take(self, chosen: Ints) -> NumberEntries:
        """Return some of the rows."""
        lengths = np.diff(self.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], lengths)
        return NumberEntries(starts, self.columns[places], self.values[places], self.n_columns)

    def of_columns(self, chosen: Ints) -> Floats:
        """Return the numbers of some columns, which ascend: (m, columns)."""
        found = np.zeros((len(self), len(chosen)))
        place = np.full(self.n_columns, -1, np.int32)
        place[chosen] = np.arange(len(chosen))
        at = place[self.columns]
        is_chosen = at >= 0
        found[self.rows[is_chosen], at[is_chosen]] = self.values[is_chosen]
        return found


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
        own = values[first:last]
        present = own != 0
        tokens.append(_pack(rows.indices[first:last][present], own[present], rows.shape[1]))
    return tokens


def _as_numbers(values: Array) -> Floats:
    """Return numbers in their canonical form: finite or NaN, with one NaN and one zero."""
    numbers = values.astype(np.float64)
    if values.dtype.kind == "i":
        numbers[values == NO_TOKEN] = np.nan
    numbers = np.clip(numbers, -_LARGEST, _LARGEST) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers


def _pack(places: Ints, values: Floats, n_columns: int) -> str:
    if (_PLACE_BYTES + _NUMBER_BYTES) * len(places) < _NUMBER_BYTES * n_columns:
        content = places.astype("<u4").tobytes() + values.astype("<f8").tobytes()
        return _SPARSE + content.decode("latin-1")
    whole = np.zeros(n_columns, "<f8")
    whole[places] = values
    return _DENSE + whole.tobytes().decode("latin-1")


def unpack_rows(contexts: Contexts, n_columns: int) -> NumberEntries:
    """Return the numbers of contexts of packed rows.

    ValueError where a token is not one of so many columns.

    A position without a token holds zeros.
    """
    vocabulary = contexts.vocabulary
    if len(vocabulary) > len(vocabulary.strings):
        raise ValueError("a row of a wide table is not packed")
    used = np.zeros(len(vocabulary) + 1, bool)  # rank -1 reads the last entry
    used[contexts.ranks[:, 0]] = True
    parts = [_unpack(token, n_columns) for token in vocabulary.strings[used[:-1]].tolist()]
    parts.append((np.empty(0, np.int32), np.empty(0)))
    entries = _joined(parts, n_columns)
    place = np.full(len(used), len(parts) - 1)
    place[:-1][used[:-1]] = np.arange(len(parts) - 1)
    return entries.take(place[contexts.ranks[:, 0]])


def _joined(parts: Iterable[tuple[NDArray[np.int32], Floats]], n_columns: int) -> NumberEntries:
    columns, values = zip(*parts, strict=True)
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
    n_entries, rest = divmod(len(content), _PLACE_BYTES + _NUMBER_BYTES)
    if token[:1] != _SPARSE or rest:
        raise wrong
    places = np.frombuffer(content, "<u4", n_entries).astype(np.int64)
    if n_entries and ((places[1:] <= places[:-1]).any() or places[-1] >= n_columns):
        raise wrong
    values = np.frombuffer(content, "<f8", n_entries, _PLACE_BYTES * n_entries).astype(np.float64)
    return places.astype(np.int32), values


def unpack_table(contexts: Contexts, n_columns: int) -> Floats:
    """Return contexts of packed rows as a table (m, columns).

    It is for few rows, and where all columns are needed.
    """
    entries = unpack_rows(contexts, n_columns)
    table = np.zeros((len(entries), n_columns))
    table[entries.rows, entries.columns] = entries.values
    return table
