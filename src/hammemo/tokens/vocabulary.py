"""What a token is, settled once for the whole library.

A token is an integer, a finite float or a string, and two tokens are the same when Python calls
them equal: ``3``, ``3.0``, ``np.int32(3)`` and ``True + 2`` are one token, ``"3"`` is another.
Missing values (None, NaN) are no tokens and are refused here; what takes their place in a table is
decided before (``hammemo.tokens.missing``).

A :class:`Vocabulary` is a set of distinct tokens in canonical order (integers, other floats,
strings; each ascending), so that a set of tokens has one form, in whichever order they came.
:func:`factorize` turns an array of tokens into their vocabulary and their ranks in it; everything
downstream works on ranks.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from hammemo._arrays.checked import StoredArrays, is_ascending
from hammemo._arrays.integers import find_sorted, narrow, object_array, pieces, replace_by_ranks
from hammemo._versions import Cached, cached_property

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Bools, Floats, Ints

Token: TypeAlias = int | float | str

NO_TOKEN: Final = -(2**63)
"""The value that marks a position without a token: it matches nothing and casts no vote.

It is the smallest 64-bit integer, so that integer arrays, float arrays and object arrays can all
hold it.
"""

_INT_LIMIT: Final = 2**63
_MAX_LISTED: Final = 64
"""Integers up to which an array is factorized as a list, which is faster for so few."""
_NO_INTS: Final = np.empty(0, np.int64)
_NO_FLOATS: Final = np.empty(0, np.float64)
_NO_STRINGS: Final = np.empty(0, object)
_TOKEN_TYPES: Final = {int, float, str, bool}
_MISSING_ADVICE: Final = (
    "Replace it by a token such as 'missing' if missing values should match each other, "
    "or by hammemo.NO_TOKEN if they should match nothing."
)


def as_token(value: Any) -> Token:
    """Return the canonical form of one token, or refuse it with the way out.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.vocabulary import as_token
    >>> as_token(3.0), as_token(np.int32(3)), as_token("3")
    (3, 3, '3')
    >>> as_token(None)
    Traceback (most recent call last):
        ...
    ValueError: None is not a token. Replace it by a token such as 'missing' if ...
    """
    if type(value) is str:  # most are, and single edits ask for every token
        return value
    if isinstance(value, str):
        return str.__str__(value)  # not str(value): an enumeration's member would give its name
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return _integer_token(int(value))
    if isinstance(value, (float, np.float32, np.float16)):
        return _float_token(float(value))
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        raise ValueError(f"{value} is not a token. {_MISSING_ADVICE}")
    raise TypeError(
        f"{reprlib.repr(value)} is of type {type(value).__name__}, and a value must be a string "
        "or a number: convert it, for example with str(), or leave it out."
    )


def _integer_token(value: int) -> int:
    if not -_INT_LIMIT <= value < _INT_LIMIT:
        raise ValueError(
            f"The integer token {value} does not fit in 64 bits. "
            "Use str() to make it a string token."
        )
    return value


def _float_token(value: float) -> Token:
    if value != value:
        raise ValueError(f"NaN is not a token. {_MISSING_ADVICE}")
    if value in (float("inf"), float("-inf")):
        raise ValueError(
            "inf is not a token: tokens are finite. Replace it by a string token such as 'inf'."
        )
    return int(value) if value.is_integer() and -_INT_LIMIT <= value < _INT_LIMIT else value


_MOST_RECENT_FINDS: Final = 9
"""Answers that `Vocabulary.find_again` keeps: models have fewer sites without a position."""


class Vocabulary(Cached):
    """An immutable set of distinct tokens in canonical order.

    Parameters
    ----------
    ints : ndarray of int64, ascending
    floats : ndarray of float64, ascending, none of them an integer
    strings : ndarray of object, str, ascending by code point

    Examples
    --------
    >>> from hammemo.tokens.vocabulary import Vocabulary
    >>> v = Vocabulary.of(["b", 3.0, "a", 0.5, 3])
    >>> list(v)
    [3, 0.5, 'a', 'b']
    >>> v.find(Vocabulary.of(["a", "z"])).tolist()
    [2, -1]
    """

    def __init__(
        self, ints: Ints | None = None, floats: Floats | None = None, strings: Array | None = None
    ) -> None:
        self.ints = _NO_INTS if ints is None else ints
        self.floats = _NO_FLOATS if floats is None else floats
        self.strings = _NO_STRINGS if strings is None else strings

    @classmethod
    def of(cls, tokens: Iterable[Any]) -> Vocabulary:
        """Return the vocabulary of any tokens, repeated or not, in any order."""
        return factorize(object_array(tokens))[0]

    def __getstate__(self) -> dict[str, Any]:
        # without the caches, which are computed again
        return {"ints": self.ints, "floats": self.floats, "strings": self.strings}

    def __len__(self) -> int:
        return len(self.ints) + len(self.floats) + len(self.strings)

    def __iter__(self) -> Iterator[Token]:
        return iter(self.tolist())

    def tolist(self) -> list[Token]:
        """Return the tokens in canonical order."""
        return [*self.ints.tolist(), *self.floats.tolist(), *self.strings.tolist()]

    def at(self, rank: int) -> Token:
        """Return the token of a rank, without a list of all of them."""
        for tokens in self._by_kind():
            if rank < len(tokens):
                token: Token = tokens[rank : rank + 1].tolist()[0]
                return token
            rank -= len(tokens)
        raise IndexError(rank)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and all(
            map(np.array_equal, self._by_kind(), other._by_kind())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [repr(token) for token, _ in zip(self, range(5), strict=False)]
        return f"Vocabulary({len(self)}: {', '.join(shown)}{', …' if len(self) > 5 else ''})"

    def find_again(self, other: Vocabulary) -> Ints:
        """Return what `find` returns; it is kept for the last few others that were asked for."""
        if other is self:
            return self.find(other)
        recent = self._recent_finds
        entry = recent.get(id(other))
        # The object that had this id may be gone, and another may have it now.
        if entry is None or entry[0] is not other:
            if len(recent) >= _MOST_RECENT_FINDS:
                recent.clear()
            entry = (other, self.find(other))
            recent[id(other)] = entry
        return entry[1]

    @cached_property
    def _recent_finds(self) -> dict[int, tuple[Vocabulary, Ints]]:
        """Others and their ranks here, by the id of the other: vocabularies have no hash."""
        return {}

    def find(self, other: Vocabulary) -> Ints:
        """Return the rank here of every token of `other`, -1 where it is not here."""
        if other is self:
            return np.arange(len(self))
        ints = find_sorted(self.ints, other.ints)
        if len(ints) == len(other):
            return ints
        floats = find_sorted(self.floats, other.floats)
        floats[floats >= 0] += len(self.ints)
        return np.concatenate([ints, floats, self.find_strings(other.strings)])

    def find_strings(self, strings: Sequence[str] | Array) -> Ints:
        """Return the rank here of each of some strings, in any order, -1 where it is not here."""
        rank = self._string_ranks.get
        return np.fromiter((rank(s, -1) for s in strings), np.int64, len(strings))

    def union(self, other: Vocabulary) -> Vocabulary:
        """Return the vocabulary that holds the tokens of both."""
        if not len(other):
            return self
        if not len(self):
            return other
        if len(self) < len(other):
            return other.union(self)
        return Vocabulary(
            ints=_join_ascending(self.ints, other.ints),
            floats=_join_ascending(self.floats, other.floats),
            strings=_join_ascending(self.strings, other.strings),
        )

    def keep(self, mask: Bools) -> Vocabulary:
        """Return the vocabulary of the tokens at which `mask` is true."""
        ints, floats, strings = np.split(mask, [len(self.ints), len(self.ints) + len(self.floats)])
        return Vocabulary(self.ints[ints], self.floats[floats], self.strings[strings])

    def ends(self) -> Vocabulary:
        """Return the first and the last token of each kind."""
        return Vocabulary(*map(_take_ends, self._by_kind()))

    def arrays(self) -> dict[str, Array]:
        """Return the canonical arrays: numbers, and strings as UTF-8 with lengths in bytes."""
        encoded = [s.encode("utf-8", "surrogatepass") for s in self.strings]
        return {
            "ints": self.ints,
            "floats": self.floats,
            "string_bytes": np.frombuffer(b"".join(encoded), np.uint8),
            "string_lengths": narrow(np.fromiter(map(len, encoded), np.int64, len(encoded))),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array] | StoredArrays) -> Vocabulary:
        """Return the vocabulary that `arrays` wrote; ValueError where arrays are not canonical.

        Examples
        --------
        >>> from hammemo.tokens.vocabulary import Vocabulary
        >>> Vocabulary.from_arrays(Vocabulary.of([2, 0.5, "é"]).arrays())
        Vocabulary(3: 2, 0.5, 'é')
        """
        stored = arrays if isinstance(arrays, StoredArrays) else StoredArrays(arrays)
        ints = stored.ascending("ints", "int64")
        floats = stored.ascending("floats", "float64")
        text = stored.take("string_bytes", "uint8", (None,))
        lengths = stored.whole_numbers("string_lengths", (None,), below=len(text) + 1)
        are_tokens = stored.trusted or all(
            _are_float_tokens(floats[piece]) for piece in pieces(len(floats))
        )
        if not are_tokens or (len(ints) and ints[0] == NO_TOKEN):
            raise ValueError("a vocabulary holds numbers that are not tokens")
        return cls(ints, floats, _decode_strings(text, lengths))

    @cached_property
    def as_arrays(self) -> dict[str, Array]:
        """All tokens as one array, by its type: a cache that the functions using it fill."""
        return {}

    @cached_property
    def _string_ranks(self) -> dict[str, int]:
        first = len(self.ints) + len(self.floats)
        return {s: rank for rank, s in enumerate(self.strings.tolist(), first)}

    def _by_kind(self) -> list[Array]:
        """Return the arrays of tokens, in canonical order."""
        return [self.ints, self.floats, self.strings]


def _take_ends(tokens: Array) -> Array:
    """Return the first and the last of some tokens; a single one once."""
    return np.concatenate([tokens[:1], tokens[1:][-1:]])


def _join_ascending(many: Array, few: Array) -> Array:
    """Return the union of ascending arrays, ascending; `many` itself where `few` adds nothing."""
    if not len(few):
        return many
    if 8 * len(few) > len(many):
        if many.dtype.kind == "O":
            return object_array(sorted({*many.tolist(), *few.tolist()}))
        # A stable sort of two ascending runs is a merge.
        merged: Array = np.sort(np.concatenate([many, few]), kind="stable")
        return np.asarray(merged[np.append(True, merged[1:] != merged[:-1])])
    places = np.searchsorted(many, few)
    is_new = many[np.minimum(places, len(many) - 1)] != few
    return np.insert(many, places[is_new], few[is_new]) if is_new.any() else many


def _are_float_tokens(floats: Floats) -> bool:
    """Return whether all are finite and none of them equals an integer token."""
    return bool((np.isfinite(floats) & ~_equal_integers(floats)).all())


def _equal_integers(numbers: Floats) -> Bools:
    """Return which numbers equal an integer of 64 bits."""
    is_in_range = (numbers >= -float(_INT_LIMIT)) & (numbers < float(_INT_LIMIT))
    # A damaged file may hold a signalling NaN. It is not whole either, and gives no warning.
    with np.errstate(invalid="ignore"):
        return np.asarray(is_in_range & (numbers == np.floor(numbers)))


def _decode_strings(text: NDArray[np.uint8], lengths: Array) -> Array:
    """Return strings that stand end to end as UTF-8; ValueError where they do not ascend."""
    if int(lengths.sum(dtype=np.uint64)) != len(text):
        raise ValueError("the lengths of the strings do not sum to the length of their text")
    encoded = text.tobytes()
    strings = []
    start = 0
    for length in lengths.tolist():
        strings.append(encoded[start : start + length].decode("utf-8", "surrogatepass"))
        start += length
    decoded = object_array(strings)
    if not is_ascending(decoded):
        raise ValueError("the strings of a vocabulary are not strictly ascending")
    return decoded


def factorize(values: Array) -> tuple[Vocabulary, Ints]:
    """Return the vocabulary of an array of tokens and, in the array's shape, the rank of each.

    `NO_TOKEN` is not part of the vocabulary; its rank is -1.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.vocabulary import NO_TOKEN, factorize
    >>> vocabulary, ranks = factorize(np.array([[7, 5], [NO_TOKEN, 7]]))
    >>> vocabulary
    Vocabulary(2: 5, 7)
    >>> ranks
    array([[ 1,  0],
           [-1,  1]])
    """
    check_token_dtype(values.dtype)
    flat = values.ravel()
    if flat.size == 0:
        vocabulary = Vocabulary()
        ranks = np.empty(0, np.int64)
    elif values.dtype.kind in "iub":
        vocabulary, ranks = factorize_integers(check_integers(flat))
    elif values.dtype.kind == "f":
        vocabulary, ranks = _factorize_floats(flat)
    elif values.ndim == 2 and len(values) > _MAX_LISTED:
        vocabulary, ranks = _factorize_table(values)
    else:
        vocabulary, ranks = _factorize_objects(flat)
    return vocabulary, ranks.reshape(values.shape)


def check_token_dtype(dtype: np.dtype[Any], where: str = "The array") -> None:
    """Refuse arrays whose values are no tokens, such as dates, bytes or long floats."""
    if dtype.kind not in "iubfOUT" or (dtype.kind == "f" and dtype.itemsize > 8):
        raise TypeError(
            f"{where} is of type {dtype}, and a value must be a string or a number: "
            "convert it, for example with astype(str)."
        )


def check_integers(values: Array) -> Array:
    """Return integer tokens in 32 or 64 bits, or refuse those that do not fit."""
    if values.dtype == np.int32:
        return values
    if values.dtype.kind == "u" and values.size and int(values.max()) >= _INT_LIMIT:
        _integer_token(int(values.max()))
    return values.astype(np.int64, copy=False)


def factorize_integers(flat: Array) -> tuple[Vocabulary, Ints]:
    """Return what `factorize` does, of a flat array of integers that were checked."""
    numbers = flat.astype(np.int64)  # a copy: another thread may write into the caller's array
    if len(numbers) == 1 and numbers[0] != NO_TOKEN:  # a single label: nothing to sort
        return Vocabulary(numbers), np.zeros(1, np.int64)
    if len(numbers) <= _MAX_LISTED:  # such as one context
        return _factorize_listed(numbers.tolist())
    lowest = int(numbers.min())
    if lowest == NO_TOKEN:  # it is below all tokens
        is_token = numbers != NO_TOKEN
        vocabulary = Vocabulary()
        ranks = np.full(len(numbers), -1, np.int64)
        if is_token.any():
            vocabulary, ranks[is_token] = factorize_integers(numbers[is_token])
        return vocabulary, ranks
    span = int(numbers.max()) - lowest + 1
    if span >= _INT_LIMIT:  # differences from the lowest one would overflow
        distinct, inverse = np.unique(numbers, return_inverse=True)
        return Vocabulary(distinct), inverse.astype(np.int64, copy=False)
    # Both steps work in the memory of `numbers`, which becomes the ranks.
    ranks = np.subtract(numbers, lowest, out=numbers)
    distinct = replace_by_ranks(ranks, span)
    return Vocabulary(distinct + lowest), ranks


def _factorize_listed(numbers: list[int]) -> tuple[Vocabulary, Ints]:
    """Return what `factorize` does, of few integers."""
    distinct = sorted(set(numbers))
    if distinct and distinct[0] == NO_TOKEN:
        del distinct[0]
    rank_of = {number: rank for rank, number in enumerate(distinct)}
    ranks = [rank_of.get(number, -1) for number in numbers]
    return Vocabulary(np.array(distinct, np.int64)), np.array(ranks, np.int64)


def _factorize_floats(flat: Array) -> tuple[Vocabulary, Ints]:
    """Return what `factorize` does, of a flat array of floats.

    Floats that equal an integer become integer tokens, which come before all other floats.
    """
    numbers = flat.astype(np.float64)  # a copy: another thread may write into the caller's array
    is_finite = np.isfinite(numbers)
    if not is_finite.all():
        _float_token(float(numbers[~is_finite][0]))  # raises the error
    is_integer = np.concatenate([_equal_integers(numbers[piece]) for piece in pieces(len(numbers))])
    if not is_integer.any():
        return _factorize_fractions(numbers)
    integers, integer_ranks = factorize(numbers[is_integer].astype(np.int64))
    fractions, fraction_ranks = _factorize_fractions(numbers[~is_integer])
    ranks = np.empty(len(numbers), np.int64)
    ranks[is_integer] = integer_ranks
    ranks[~is_integer] = len(integers) + fraction_ranks
    return Vocabulary(integers.ints, fractions.floats), ranks


def _factorize_fractions(numbers: Floats) -> tuple[Vocabulary, Ints]:
    """Return what `factorize` does, of floats none of which equals an integer.

    Sorted, a number that differs from the one before it is a new token, and its rank is the number
    of new tokens before it. `numpy.unique` does the same, but holds several more arrays as long as
    `numbers`: here only the order and the marks are.
    """
    order = np.argsort(numbers)
    is_new = np.empty(len(numbers), bool)
    before = np.nan  # differs from every number
    for piece in pieces(len(numbers)):
        ascending = numbers[order[piece]]
        is_new[piece] = np.diff(ascending, prepend=before) != 0
        before = ascending[-1]
    distinct = numbers[order[is_new]]
    ranks = np.empty(len(numbers), np.int64)
    n_before = 0
    for piece in pieces(len(numbers)):
        n_distinct = n_before + np.cumsum(is_new[piece])  # up to and including each number
        ranks[order[piece]] = n_distinct - 1
        n_before = int(n_distinct[-1])
    return Vocabulary(floats=distinct), ranks


def _factorize_table(table: Array) -> tuple[Vocabulary, Ints]:
    """Return what `factorize` does, of a table of objects, with flat ranks.

    Columns that hold only floats are factorized as arrays of floats, which is much faster than to
    look at objects one by one.
    """
    is_float = np.array([set(map(type, column.tolist())) == {float} for column in table.T])
    if is_float.all():
        return _factorize_floats(table.ravel())
    if not is_float.any():
        return _factorize_objects(table.ravel())
    floats, float_ranks = _factorize_floats(table[:, is_float].ravel())
    objects, object_ranks = _factorize_objects(table[:, ~is_float].ravel())
    vocabulary = floats.union(objects)
    ranks = np.empty(table.shape, np.int64)
    ranks[:, is_float] = _translate(float_ranks, floats, vocabulary).reshape(len(table), -1)
    ranks[:, ~is_float] = _translate(object_ranks, objects, vocabulary).reshape(len(table), -1)
    return vocabulary, ranks.ravel()


def _translate(ranks: Ints, before: Vocabulary, after: Vocabulary) -> Ints:
    """Return ranks in one vocabulary as ranks in another that has all its tokens."""
    new_ranks = np.append(after.find(before), -1)  # rank -1, no token, reads the last entry
    return np.asarray(new_ranks[ranks])


def _factorize_objects(flat: Array) -> tuple[Vocabulary, Ints]:
    """Return what `factorize` does, of a flat array of objects."""
    values = flat.tolist()
    for other_type in set(map(type, values)) - _TOKEN_TYPES:
        # Refuse a value that is no token here: below, it may equal one, as Decimal(1) equals 1.
        as_token(next(value for value in values if type(value) is other_type))
    tokens = [as_token(value) for value in dict.fromkeys(values)]
    ints = np.array([t for t in tokens if isinstance(t, int) and t != NO_TOKEN], np.int64)
    floats = np.array([t for t in tokens if isinstance(t, float)], np.float64)
    if (np.abs(floats) >= _INT_LIMIT).any():
        # An integer that does not fit in 64 bits may equal such a float: refuse it.
        for value in values:
            as_token(value)
    strings = object_array(sorted(t for t in tokens if isinstance(t, str)))
    vocabulary = Vocabulary(np.sort(ints), np.sort(floats), strings)
    rank_of: dict[Any, int] = {token: rank for rank, token in enumerate(vocabulary)}
    rank_of[NO_TOKEN] = -1
    return vocabulary, np.fromiter(map(rank_of.__getitem__, values), np.int64, len(values))
