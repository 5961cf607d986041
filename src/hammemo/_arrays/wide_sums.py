r"""Exact sums of whole numbers that can pass 2^63: of two words where one is not enough.

An array of sums is *narrow*, int64 of shape (n,), or *wide*, uint64 of shape (2, n): all low words,
then all high words, in two's complement. A bound for the absolute values of the sums is stored with
them, and decides the form: `needs_words(bound)`. So the form is a function of what was summed, and
files of small sums stay as they were.

A narrow sum is below 2^62, so that one more number of 62 bits can be added or subtracted without a
second check; a wide one is below 2^126. NumPy has no words of 128 bits, so products are added by
compiled code (``src/native/sums``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo import _native

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints

NARROW_BITS: Final = 62
"""Narrow sums stay below two to this."""

WIDE_BITS: Final = 126
"""Wide sums stay below two to this."""

_WORD: Final = 2**64


def needs_words(bound: int) -> bool:
    """Return whether sums up to this bound need two words; OverflowError where two are not enough.

    Callers limit rows and numbers so that it is never raised: it is a guard, not a limit of a
    model.
    """
    if bound >> WIDE_BITS:
        raise OverflowError(
            f"a sum of whole numbers may have {bound.bit_length()} bits, and {WIDE_BITS} are exact"
        )
    return bool(bound >> NARROW_BITS)


def no_sums(n: int) -> Ints:
    """Return n narrow sums of nothing."""
    return np.zeros(n, np.int64)


def as_wide(sums: Array) -> Array:
    """Return sums with two words: always an array of its own."""
    if sums.ndim == 2:
        return sums.copy()
    return np.stack([sums, sums >> 63]).view(np.uint64)


def in_form(sums: Array, bound: int) -> Array:
    """Return sums in the form, narrow or wide, that belongs to a bound for their absolute values.

    The caller knows that no sum exceeds the bound: a wide array that becomes narrow loses its high
    words, which only repeat the sign then.
    """
    is_wide = sums.ndim == 2
    if needs_words(bound):
        return sums if is_wide else as_wide(sums)
    if not is_wide:
        return sums
    low_words: Ints = sums[0].view(np.int64)
    return low_words


def add_sums(left: Array, right: Array, *, sign: int, is_wide: bool) -> Array:
    """Return the sums of two arrays or, with sign -1, the differences.

    Parameters
    ----------
    left, right : ndarray
        Each narrow or wide; both narrow where the result is.
    sign : int
        1 or -1.
    is_wide : bool
        The form of the result: `needs_words` of a bound for it, which the caller knows.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.wide_sums import add_sums, exact_values
    >>> large = np.array([2**61])
    >>> exact_values(add_sums(large, 3 * large, sign=1, is_wide=True)) == [2**63]
    True
    """
    if not is_wide:
        if sign > 0:
            return left + right
        return left - right
    left_low, left_high = as_wide(left)
    right_low, right_high = as_wide(right)
    if sign > 0:
        low = left_low + right_low
        carry = (low < right_low).astype(np.uint64)  # where the low words wrapped
        high = left_high + right_high + carry
    else:
        low = left_low - right_low
        borrow = (left_low < right_low).astype(np.uint64)
        high = left_high - right_high - borrow
    return np.stack([low, high])


def exact_values(sums: Array) -> list[int]:
    """Return sums as Python's whole numbers."""
    if sums.ndim == 1:
        return [int(value) for value in sums.tolist()]
    low = sums[0].tolist()
    high = sums[1].view(np.int64).tolist()
    return [above * _WORD + below for above, below in zip(high, low, strict=True)]


def first_value(sums: Array) -> int:
    """Return the first sum as a whole number of Python."""
    return exact_values(sums[..., :1])[0]


def as_floats(sums: Array) -> Floats:
    """Return the double that is nearest to each sum."""
    if sums.ndim == 1:
        return sums.astype(np.float64)
    floats = np.empty(sums.shape[1])
    _native.round_sums(np.ascontiguousarray(sums), floats)
    return floats


def largest_size(sums: Array) -> int:
    """Return the largest absolute value; 0 for no sums.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.wide_sums import as_wide, largest_size
    >>> largest_size(np.array([3, -7])), largest_size(as_wide(np.array([3, -7])))
    (7, 7)
    """
    if not sums.size:
        return 0
    if sums.ndim == 1:
        return max(int(sums.max()), -int(sums.min()))
    high_words = sums[1].view(np.int64)
    largest = 0
    # A sum is high * 2^64 + low with 0 <= low < 2^64, so the smallest and the largest sum have the
    # smallest and the largest high word. Of the sums with one of these, low words decide.
    for high in (high_words.min(), high_words.max()):
        low_words = sums[0][high_words == high]
        for low in (low_words.min(), low_words.max()):
            largest = max(largest, abs(int(high) * _WORD + int(low)))
    return largest


def exact_sum(numbers: Ints, times: Ints) -> int:
    r"""Return the sum of numbers, each added some times, however large it is.

    A negative number of times subtracts. The caller sees to it that the absolute numbers of times
    add up to less than 2^61. A number is cut into pieces of b bits,

    .. math:: x = \sum_j 2^{bj} x_j, \qquad 0 \le x_j < 2^b,

    but for the highest piece, which has the sign. With b so small that the sum of one piece of all
    numbers stays below 2^62, the sums of pieces are exact in int64.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.wide_sums import exact_sum
    >>> exact_sum(np.array([2**62, -1]), np.array([2**40, 5])) == 2**102 - 5
    True
    """
    n_times = int(np.abs(times).sum())
    piece_bits = NARROW_BITS - n_times.bit_length()
    largest = largest_size(numbers)
    if not largest >> piece_bits:
        return int((numbers * times).sum())
    total = 0
    # one bit more for the sign, divided by the bits of a piece and rounded up
    n_pieces = -(-(largest.bit_length() + 1) // piece_bits)
    for j in range(n_pieces):
        piece = numbers >> (j * piece_bits)
        is_highest = j == n_pieces - 1
        if not is_highest:
            piece &= (1 << piece_bits) - 1
        total += int((piece * times).sum()) << (j * piece_bits)
    return total


def exact_square_sum(numbers: Ints, times: Ints) -> int:
    r"""Return the sum of the squares of numbers below 2^62, each added some times.

    A number is :math:`2^{31} h + l`, and its square

    .. math:: (2^{31} h + l)^2 = 2^{62} h^2 + 2^{32} h l + l^2.

    The three products of its halves have at most 62 bits.
    """
    high = numbers >> 31
    low = numbers & (2**31 - 1)
    total = exact_sum(high * high, times) << 62
    total += exact_sum(high * low, times) << 32
    total += exact_sum(low * low, times)
    return total


def words_of(number: int) -> list[int]:
    """Return a number of at most 128 bits as words for files, the low one first.

    One word is enough for a number below 2^64.
    """
    if number < _WORD:
        return [number]
    return [number % _WORD, number // _WORD]


def number_of(words: list[int]) -> int:
    """Return the number that `words_of` returns these words for, or refuse other words."""
    if len(words) not in (1, 2):
        raise ValueError(f"a number has {len(words)} words instead of 1 or 2")
    if len(words) == 2 and words[1] == 0:
        raise ValueError("a number is not in its narrowest form")
    return sum(word << (64 * place) for place, word in enumerate(words))


def take_sums(stored: StoredArrays, name: str, n: int, bound: int) -> Array:
    """Return n sums of a file in the form of their bound, or refuse larger ones."""
    is_wide = needs_words(bound)
    if is_wide:
        sums = stored.take(name, "uint64", (2, n))
    else:
        sums = stored.take(name, "int64", (n,))
    if largest_size(sums) > bound:
        raise ValueError(f"the array {name} holds sums that no rows have")
    return sums
