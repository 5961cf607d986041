"""Bounds of answers: counts, prices and shares have a range, which a sum of effects can leave.

Bounds say how a model of numbers answers, as its parameter `bounds`. They change nothing in layout,
memory or weights, so they can be set, changed and removed without a refit. A target outside of them
is refused where it would be learned.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats


class Bounds(NamedTuple):
    """What targets are at least, and at most.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.votes.bounds import Bounds
    >>> Bounds.from_parameter((0, None)).clip(np.array([-0.25, 3.5])).tolist()
    [0.0, 3.5]
    """

    low: float
    high: float

    @classmethod
    def from_parameter(cls, bounds: Any) -> Bounds:
        """Return the bounds that a parameter gives, or refuse it.

        None is no bound, in place of the pair or of one end.
        """
        if bounds is None:
            return UNBOUNDED
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise ValueError(
                f"bounds={bounds!r} is not a pair: use bounds=(low, high), "
                "with None for an end without a bound, such as (0, None)."
            )
        low, high = bounds
        for end in bounds:
            is_number = isinstance(end, Real) and not isinstance(end, (bool, np.bool_))
            if end is not None and (not is_number or math.isnan(end)):
                raise ValueError(f"bounds={bounds!r}: {end!r} is neither a number nor None.")
        lowest = -math.inf
        if low is not None:
            lowest = _as_float(low)
        highest = math.inf
        if high is not None:
            highest = _as_float(high)
        if not lowest < highest:
            raise ValueError(f"bounds={bounds!r}: the low end must be smaller than the high end.")
        return cls(lowest, highest)

    @property
    def parameter(self) -> tuple[float | None, float | None] | None:
        """The same as a parameter, in one form: floats, and None for no bound."""
        if self == UNBOUNDED:
            return None
        low = None if math.isinf(self.low) else self.low
        high = None if math.isinf(self.high) else self.high
        return low, high

    def clip(self, numbers: Floats) -> Floats:
        """Return numbers, those outside replaced by the nearest bound.

        Graphs do it in the same way, so the answers are the same to the bit.
        """
        raised = np.where(numbers < self.low, self.low, numbers)
        return np.where(self.high < raised, self.high, raised)

    def refuse_outside(self, targets: Floats, *, are_kept: bool = False) -> None:
        """Refuse targets that lie outside, and name the first.

        Parameters
        ----------
        targets : ndarray of float64, shape (m,)
        are_kept : bool
            Whether they are targets of kept rows, which the user has not passed in this call.
        """
        outside = (targets < self.low) | (targets > self.high)
        if not outside.any():
            return
        place = int(np.argmax(outside))
        side = "below" if targets[place] < self.low else "above"
        if are_kept:
            where = "of a row that the model holds"
            way_out = "Forget"
        else:
            where = f"in row {place}"
            way_out = "Leave out"
        raise ValueError(
            f"The target {targets[place]:.6g} {where} is {side} bounds={self.parameter}, "
            "and a model never answers outside of its bounds. "
            f"{way_out} this row, or set wider bounds with set_params(bounds=…)."
        )


UNBOUNDED: Final = Bounds(-math.inf, math.inf)


def _as_float(number: Any) -> float:
    """Return a bound as a float without a negative zero, which clipped answers would show."""
    try:
        return float(number) + 0.0
    except OverflowError:
        raise ValueError(f"bounds: {number} is larger than any target can be.") from None
