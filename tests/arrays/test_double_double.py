"""Numbers with twice the digits, against fractions of whole numbers and against decimals."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo._arrays.double_double import DoubleDouble

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.quick

RELATIVE_ERROR = Fraction(1, 2**100)
"""What `votes/optimal_fits.py` takes an operation to be good to."""

numbers = st.floats(-1e30, 1e30).filter(lambda x: x == 0 or abs(x) > 1e-30)
shares = st.floats(-(2.0**-54), 2.0**-54).filter(lambda x: x == 0 or abs(x) > 1e-40)


def make(high: float, share: float) -> DoubleDouble:
    """Return a number with lower digits."""
    total = high + high * share
    return DoubleDouble(np.array([total]), np.array([high * share - (total - high)]))


def value(number: DoubleDouble, place: int = 0) -> Fraction:
    """Return the exact value of one number."""
    return Fraction(float(number.high[place])) + Fraction(float(number.low[place]))


def is_near(computed: Fraction, exact: Fraction, size: Fraction) -> bool:
    return abs(computed - exact) <= size * RELATIVE_ERROR


@settings(max_examples=200, deadline=None)
@given(numbers, shares, numbers, shares)
def test_operations_are_those_of_fractions(a: float, p: float, b: float, q: float) -> None:
    left, right = make(a, p), make(b, q)
    x, y = value(left), value(right)
    assert is_near(value(left + right), x + y, abs(x) + abs(y))
    assert is_near(value(left - right), x - y, abs(x) + abs(y))
    assert is_near(value(left * right), x * y, abs(x * y))
    if y:
        assert is_near(value(left / right), x / y, abs(x / y))
    assert value(left.scale(2.0**-7)) == x / 2**7
    assert value(-left) == -x


@settings(max_examples=100, deadline=None)
@given(st.floats(-600, 600), shares)
def test_exponentials_are_those_of_decimals(a: float, p: float) -> None:
    number = make(a, p)
    with localcontext() as context:
        context.prec = 80
        x = value(number)
        exact = Fraction((Decimal(x.numerator) / Decimal(x.denominator)).exp())
    assert is_near(value(number.exp()), exact, exact)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(numbers, shares), max_size=40))
def test_sums_are_those_of_fractions(pairs: list[tuple[float, float]]) -> None:
    parts = [make(high, share) for high, share in pairs]
    if not parts:
        total = DoubleDouble.from_doubles(np.zeros((0, 1))).sum()
    else:
        total = DoubleDouble(np.array([part.high for part in parts]), np.array([part.low for part in parts])).sum()
    exact = sum((value(part) for part in parts), Fraction(0))
    sizes = sum((abs(value(part)) for part in parts), Fraction(0))
    assert is_near(value(total), exact, sizes)


@pytest.mark.parametrize("operation", [lambda x: x.exp(), lambda x: x + x, lambda x: x * x])
def test_arrays_are_computed_number_by_number(
    operation: Callable[[DoubleDouble], DoubleDouble],
) -> None:
    values = np.linspace(-20, 20, 12).reshape(3, 4)
    whole = operation(DoubleDouble.from_doubles(values))
    for row in range(3):
        single = operation(DoubleDouble.from_doubles(values[row]))
        assert np.array_equal(whole.high[row], single.high)
        assert np.array_equal(whole.low[row], single.low)
