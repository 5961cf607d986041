"""Numbers with twice the digits of a double, as the sum of two doubles.

A value is ``high + low`` with ``|low|`` at most half a unit in the last place of ``high``: about
106 bits, 32 decimal digits. Every operation is a few additions and multiplications of NumPy, which
IEEE 754 rounds the same on every processor, so results have the same bytes everywhere. They are
slow, some twenty operations in place of one: for the few decisions that a double leaves open.

By hand, because NumPy's `longdouble` is a double on some platforms and has 64 bits on others, and
packages for many digits work number by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats

_SPLITTER: Final = 2.0**27 + 1
"""Veltkamp's constant: it splits a double into halves of 26 bits."""

_LN_2: Final = (0.6931471805599453, 2.3190468138462996e-17, 5.707708438416212e-34)
"""The natural logarithm of 2 as a sum of three doubles."""

_HALVINGS: Final = 8
"""The exponential is that of the number divided by 2^8, squared so often."""

_TERMS: Final = 12
"""Terms of the series of the exponential: below ln(2) / 2^9, the next is below 2^-128."""


@dataclass(frozen=True, eq=False)
class DoubleDouble:
    """Numbers of any shape, each the sum of two doubles."""

    high: Floats
    low: Floats

    @classmethod
    def from_doubles(cls, values: Any) -> DoubleDouble:
        """Return doubles as they are."""
        high = np.asarray(values, np.float64)
        return cls(high, np.zeros(high.shape))

    def __getitem__(self, places: Any) -> DoubleDouble:
        return DoubleDouble(self.high[places], self.low[places])

    def __neg__(self) -> DoubleDouble:
        return DoubleDouble(-self.high, -self.low)

    def __add__(self, other: DoubleDouble) -> DoubleDouble:
        high, low = _add_exactly(self.high, other.high)
        tail, rest = _add_exactly(self.low, other.low)
        high, low = _renormalize(high, low + tail)
        return DoubleDouble(*_renormalize(high, low + rest))

    def __sub__(self, other: DoubleDouble) -> DoubleDouble:
        return self + -other

    def __mul__(self, other: DoubleDouble) -> DoubleDouble:
        high, low = _multiply_exactly(self.high, other.high)
        low = low + (self.high * other.low + self.low * other.high)
        return DoubleDouble(*_renormalize(high, low))

    def __truediv__(self, other: DoubleDouble) -> DoubleDouble:
        quotient = DoubleDouble.from_doubles(self.high / other.high)
        # Two steps of long division, each of which adds the digits of a double.
        for _ in range(2):
            rest = self - quotient * other
            quotient = quotient + DoubleDouble.from_doubles(rest.high / other.high)
        return quotient

    def scale(self, power_of_two: float) -> DoubleDouble:
        """Return the numbers times a power of two, which is exact."""
        return DoubleDouble(self.high * power_of_two, self.low * power_of_two)

    def exp(self) -> DoubleDouble:
        """Return the exponentials of numbers between -700 and 700.

        Below -600 the lower digits are lost: they are smaller than any double.
        """
        doublings = np.rint(self.high / _LN_2[0])
        rest = self
        for part in _LN_2:
            product = DoubleDouble(*_multiply_exactly(doublings, np.full(doublings.shape, part)))
            rest = rest - product
        rest = rest.scale(2.0**-_HALVINGS)
        one = DoubleDouble.from_doubles(np.ones(doublings.shape))
        series = one
        for k in range(_TERMS, 1, -1):  # Horner: 1 + x/2 (1 + x/3 (1 + x/4 ...))
            divisor = DoubleDouble.from_doubles(np.full(doublings.shape, float(k)))
            series = one + series * rest / divisor
        # e^x - 1, because squaring 1 + y as it is would double its error each time.
        excess = series * rest
        for _ in range(_HALVINGS):
            excess = excess.scale(2.0) + excess * excess
        total = one + excess
        return DoubleDouble(
            np.ldexp(total.high, doublings.astype(np.int64)),
            np.ldexp(total.low, doublings.astype(np.int64)),
        )

    def sum(self) -> DoubleDouble:
        """Return the sum over the first axis, added up in pairs: in a fixed order."""
        values = self
        while len(values.high) > 1:
            half = len(values.high) // 2
            paired = values[:half] + values[half : 2 * half]
            if len(values.high) % 2:
                last = values[2 * half :]
                paired = DoubleDouble(
                    np.concatenate([paired.high, last.high]),
                    np.concatenate([paired.low, last.low]),
                )
            values = paired
        if not len(values.high):
            return DoubleDouble.from_doubles(np.zeros(values.high.shape[1:]))
        return values[0]


def _add_exactly(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded sum and its rounding error (Knuth)."""
    total = a + b
    part_of_b = total - a
    return total, (a - (total - part_of_b)) + (b - part_of_b)


def _renormalize(high: Floats, low: Floats) -> tuple[Floats, Floats]:
    """Return the rounded sum and its rounding error where `high` is the larger one (Dekker)."""
    total = high + low
    return total, low - (total - high)


def _multiply_exactly(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded product and its rounding error (Dekker); NumPy has no fused product."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _split(a: Floats) -> tuple[Floats, Floats]:
    """Return two halves of 26 bits, whose products with such halves are exact (Veltkamp)."""
    shifted = _SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high
