"""Numbers as people read them: no more digits than say something, and rarely exponents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hammemo._arrays.types import Floats

_DIGITS_OF_A_VALUE: Final = 6
"""The most digits of a value of a table."""

_LOWEST_PLAIN: Final = 1e-4
_HIGHEST_PLAIN: Final = 1e12
"""Between these sizes a number is written without an exponent."""


def show_value(value: float) -> str:
    """Return a value of a table, with at most six digits.

    Examples
    --------
    >>> from hammemo.explain.number_text import show_value
    >>> show_value(93.14700351459119), show_value(14.23), show_value(1234567.25), show_value(-0.0)
    ('93.147', '14.23', '1234567', '0.0')
    """
    exact = repr(value + 0.0)
    shorter = f"{value:.{_DIGITS_OF_A_VALUE}g}"
    if "e" in shorter and _LOWEST_PLAIN <= abs(value) < _HIGHEST_PLAIN:
        shorter = f"{value:.0f}"
    if len(exact) <= _DIGITS_OF_A_VALUE + 2:  # a sign and a point
        return exact
    return min(exact, shorter, key=len)


def show_number(value: float, digits: int = 4) -> str:
    """Return a number with so many digits that count, and commas between thousands.

    Examples
    --------
    >>> from hammemo.explain.number_text import show_number
    >>> show_number(160649.79), show_number(-0.32934), show_number(2e-9), show_number(float("inf"))
    ('160,600', '-0.3293', '2e-09', 'infinity')
    """
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    if value and not _LOWEST_PLAIN <= abs(value) < _HIGHEST_PLAIN:
        return f"{value:.{digits}g}"
    if abs(value) < 10**digits:
        return f"{value + 0.0:.{digits}g}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, places):,.0f}"


class NumberFormat:
    """The numbers of one table as text, all with the same decimals.

    They show three digits of the largest number, or as many as it has.

    Parameters
    ----------
    arrays : iterable of ndarrays or None
        All that the table shows, but for standard errors.
    """

    def __init__(self, arrays: Iterable[Floats | None]) -> None:
        numbers = np.concatenate([array.ravel() for array in arrays if array is not None])
        largest = float(np.abs(numbers).max(initial=0.0)) or 1.0
        max_decimals = max(0, 2 - math.floor(math.log10(largest)))
        if largest < 1000:
            max_decimals = max(1, max_decimals)
        rounded = numbers.round(max_decimals)
        # No zeros that all numbers would end with.
        self.decimals = next(
            n
            for n in range(max_decimals + 1)
            if n == max_decimals or (rounded.round(n) == rounded).all()
        )

    def one(self, value: float, sign: str = "") -> str:
        """Return one number as text; with ``"+"`` every number but zero has a sign."""
        rounded = round(value, self.decimals) + 0.0
        if not rounded:
            sign = ""
        return f"{rounded:{sign},.{self.decimals}f}"

    def __call__(
        self,
        values: Floats,
        bounds: tuple[Floats, Floats] | None = None,
        errors: Floats | None = None,
    ) -> list[str]:
        """Return each value as text with what is known of its error; one that is known has none."""
        texts = [self.one(value) for value in values.tolist()]
        if bounds is not None:
            lows = map(self.one, bounds[0].tolist())
            highs = map(self.one, bounds[1].tolist())
            return list(map(_add_bounds, texts, lows, highs))
        if errors is not None:
            return [
                f"{text} ± {self.one(error)}"
                for text, error in zip(texts, errors.tolist(), strict=True)
            ]
        return texts


def _add_bounds(text: str, low: str, high: str) -> str:
    """Return a number with its bounds, unless they are the number."""
    if low == text == high:
        return text
    return f"{text} [{low}, {high}]"


def is_float(value: Any) -> bool:
    """Return whether a value of a row is a fraction, which may have 17 digits."""
    return isinstance(value, (float, np.floating))
