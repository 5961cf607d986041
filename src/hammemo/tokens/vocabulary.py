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
"""Integers up to which an array is factorized as a list."""
_NO_INTS, _NO_FLOATS, _NO_STRINGS = (
    np.empty(0, np.int64),
    np.empty(0, np.float64),
    np.empty(0, object),
)
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
        return {
            "ints": self.ints,
            "floats": self.floats,
            "strings": self.strings,
        }  # caches are made again

    def __len__(self) -> int:
        return len(self.ints) + len(self.floats) + len(self.strings)

    def __iter__(self) -> Iterator[Token]:
        return iter(self.tolist())

    def tolist(self) -> list[Token]:
        """Return the tokens in canonical order."""
        return [*self.ints.tolist(), *self.floats.tolist(), *self.strings.tolist()]

    def at(self, rank: int) -> Token:
        """Return the token of a rank, without a list of all of them."""
        for part in self._parts():
            if rank < len(part):
                token: Token = part[rank : rank + 1].tolist()[0]
                return token
            rank -= len(part)
        raise IndexError(rank)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and all(
            np.array_equal(mine, theirs)
            for mine, theirs in zip(self._parts(), other._parts(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [repr(token) for token, _ in zip(self, range(5), strict=False)]
        return f"Vocabulary({len(self)}: {', '.join(shown)}{', …' if len(self) > 5 else ''})"

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
            *(
                _union(mine, theirs)
                for mine, theirs in zip(self._parts(), other._parts(), strict=True)
            )
        )

    def keep(self, mask: Bools) -> Vocabulary:
        """Return the vocabulary of the tokens at which `mask` is true."""
        ints, floats, strings = np.split(mask, [len(self.ints), len(self.ints) + len(self.floats)])
        return Vocabulary(self.ints[ints], self.floats[floats], self.strings[strings])

    def ends(self) -> Vocabulary:
        """Return the first and the last token of each kind."""
        return Vocabulary(*(np.concatenate([part[:1], part[1:][-1:]]) for part in self._parts()))

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
        """Return the vocabulary with these canonical arrays: undo `arrays`.

        ValueError where they are not canonical.

        Examples
        --------
        >>> from hammemo.tokens.vocabulary import Vocabulary
        >>> Vocabulary.from_arrays(Vocabulary.of([2, 0.5, "é"]).arrays())
        Vocabulary(3: 2, 0.5, 'é')
        """
        stored = arrays if isinstance(arrays, StoredArrays) else StoredArrays(arrays)
        ints, floats = stored.ascending("ints", "int64"), stored.ascending("floats", "float64")
        text = stored.take("string_bytes", "uint8", (None,))
        lengths = stored.whole_numbers("string_lengths", (None,), below=len(text) + 1)
        proper = stored.trusted or all(
            _are_float_tokens(floats[piece]) for piece in pieces(len(floats))
        )
        if not proper or (len(ints) and ints[0] == NO_TOKEN):
            raise ValueError("a vocabulary holds numbers that are not tokens")
        return cls(ints, floats, _stored_strings(text, lengths))

    @cached_property
    def as_arrays(self) -> dict[str, Array]:
        """All tokens as one array, by its type: a cache, filled by who needs them so."""
        return {}

    @cached_property
    def _string_ranks(self) -> dict[str, int]:
        first = len(self.ints) + len(self.floats)
        return {s: rank for rank, s in enumerate(self.strings.tolist(), first)}

    def _parts(self) -> tuple[Array, ...]:
        return self.ints, self.floats, self.strings


def _union(many: Array, few: Array) -> Array:
    """Return the union of ascending arrays: a few are put among many, others are sorted."""
    if not len(few):
        return many
    if 8 * len(few) > len(many):
        if many.dtype.kind == "O":
            return object_array(sorted({*many.tolist(), *few.tolist()}))
        merged: Array = np.sort(
            np.concatenate([many, few]), kind="stable"
        )  # of two ascending runs it is a merge
        return np.asarray(merged[np.append(True, merged[1:] != merged[:-1])])
    places = np.searchsorted(many, few)
    new = many[np.minimum(places, len(many) - 1)] != few
    return np.insert(many, places[new], few[new]) if new.any() else many


def _are_float_tokens(floats: Floats) -> bool:
    """Return whether all are finite and none of them equals an integer token."""
    return bool((np.isfinite(floats) & ~_whole(floats)).all())


def _whole(numbers: Floats) -> Bools:
    small = (numbers >= -float(_INT_LIMIT)) & (numbers < float(_INT_LIMIT))
    with np.errstate(
        invalid="ignore"
    ):  # a signalling NaN, as a damaged file may have, is not a whole number either
        return np.asarray(small & (numbers == np.floor(numbers)))


def _stored_strings(text: NDArray[np.uint8], lengths: Array) -> Array:
    if int(lengths.sum(dtype=np.uint64)) != len(text):
        raise ValueError("the lengths of the strings do not sum to the length of their text")
    whole, strings, start = text.tobytes(), [], 0
    for length in lengths.tolist():
        strings.append(whole[start : start + length].decode("utf-8", "surrogatepass"))
        start += length
    ordered = object_array(strings)
    if not is_ascending(ordered):
        raise ValueError("the strings of a vocabulary are not strictly ascending")
    return ordered


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
        vocabulary, ranks = Vocabulary(), np.empty(0, np.int64)
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
    if (
        len(numbers) <= _MAX_LISTED
    ):  # such as one context: as a list there is less to do than for an array
        return _factorize_listed(numbers.tolist())
    if int(numbers.min()) == NO_TOKEN:  # which is below all tokens
        present = numbers != NO_TOKEN
        ranks, vocabulary = np.full(len(numbers), -1, np.int64), Vocabulary()
        if present.any():
            vocabulary, ranks[present] = factorize_integers(numbers[present])
        return vocabulary, ranks
    low, span = int(numbers.min()), int(numbers.max()) - int(numbers.min()) + 1
    if span >= _INT_LIMIT:  # the differences would overflow
        distinct, inverse = np.unique(numbers, return_inverse=True)
        return Vocabulary(distinct), inverse.astype(np.int64, copy=False)
    numbers -= low
    return Vocabulary(replace_by_ranks(numbers, span) + low), numbers


def _factorize_listed(numbers: list[int]) -> tuple[Vocabulary, Ints]:
    distinct = sorted(set(numbers))
    if distinct and distinct[0] == NO_TOKEN:
        del distinct[0]
    ranks = {number: rank for rank, number in enumerate(distinct)}
    return Vocabulary(np.array(distinct, np.int64)), np.array(
        [ranks.get(n, -1) for n in numbers], np.int64
    )


def _factorize_floats(flat: Array) -> tuple[Vocabulary, Ints]:
    numbers = flat.astype(np.float64)  # a copy: another thread may write into the caller's array
    if not np.isfinite(numbers).all():
        _float_token(float(numbers[~np.isfinite(numbers)][0]))
    whole = np.concatenate([_whole(numbers[piece]) for piece in pieces(len(numbers))])
    if not whole.any():
        return _factorize_fractions(numbers)
    ranks = np.empty(len(numbers), np.int64)
    vocabulary, ranks[whole] = factorize(numbers[whole].astype(np.int64))
    of_fractions, inverse = _factorize_fractions(numbers[~whole])
    ranks[~whole] = inverse + len(vocabulary)
    return Vocabulary(vocabulary.ints, of_fractions.floats), ranks


def _factorize_fractions(numbers: Floats) -> tuple[Vocabulary, Ints]:
    """Return the same for numbers none of which is whole.

    It is `numpy.unique` with fewer arrays of their size.
    """
    order = np.argsort(numbers)
    is_first, last = np.empty(len(order), bool), np.nan
    for piece in pieces(len(order)):
        ascending = numbers[order[piece]]
        is_first[piece] = np.diff(ascending, prepend=last) != 0
        last = ascending[-1]
    floats, ranks, found = numbers[order[is_first]], np.empty(len(order), np.int64), 0
    for piece in pieces(len(order)):
        of_piece = found + np.cumsum(is_first[piece])
        ranks[order[piece]] = of_piece - 1
        found = int(of_piece[-1])
    return Vocabulary(np.empty(0, np.int64), floats), ranks


def _factorize_table(table: Array) -> tuple[Vocabulary, Ints]:
    """Return the same for a table with columns of floats beside others.

    Values of floats need no look one by one.
    """
    is_float = np.array([set(map(type, column.tolist())) == {float} for column in table.T])
    if not is_float.any() or is_float.all():
        return (_factorize_floats if is_float.any() else _factorize_objects)(table.ravel())
    numbers, of_numbers = _factorize_floats(table[:, is_float].ravel())
    others, of_others = _factorize_objects(table[:, ~is_float].ravel())
    whole, ranks = numbers.union(others), np.empty(table.shape, np.int64)
    for own, known, found in ((is_float, numbers, of_numbers), (~is_float, others, of_others)):
        ranks[:, own] = np.append(whole.find(known), -1)[found].reshape(len(table), -1)
    return whole, ranks.ravel()


def _factorize_objects(flat: Array) -> tuple[Vocabulary, Ints]:
    values = flat.tolist()
    for kind in (
        set(map(type, values)) - _TOKEN_TYPES
    ):  # refuse what is not a token, even if it equals one
        as_token(next(value for value in values if type(value) is kind))
    tokens = [as_token(value) for value in dict.fromkeys(values)]
    ints = np.array([t for t in tokens if isinstance(t, int) and t != NO_TOKEN], np.int64)
    floats = np.array([t for t in tokens if isinstance(t, float)], np.float64)
    if (
        np.abs(floats) >= _INT_LIMIT
    ).any():  # such a float may equal an integer that would be refused
        for value in values:
            as_token(value)
    strings = object_array(sorted(t for t in tokens if isinstance(t, str)))
    vocabulary = Vocabulary(np.sort(ints), np.sort(floats), strings)
    ranks: dict[Any, int] = {token: rank for rank, token in enumerate(vocabulary)}
    ranks[NO_TOKEN] = -1
    return vocabulary, np.fromiter(map(ranks.__getitem__, values), np.int64, len(values))
