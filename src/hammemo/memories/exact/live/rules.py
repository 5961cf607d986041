r"""Compiled rules that live tables rank labels by: weighted sums over label counts, log-linear.

The compiled code (`src/native/live/ratio_leaders.hpp`) reads rows by bands of labels that have
nearly as many examples each, and says of each answer whether it is sure: whether it is that of
NumPy's arithmetic also where scores are nearly equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo import _native

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints

MAX_RULE_SITES: Final = 512
"""Sites up to which a rule is compiled, about 50 KB each; for more, all scores are made."""

_MAX_WEIGHT: Final = 1e9
"""Larger weights are not compiled."""


def has_rule(weights: Floats) -> bool:
    """Return whether there is a compiled rule with these weights, (S, J)."""
    return len(weights) <= MAX_RULE_SITES and bool((np.abs(weights) < _MAX_WEIGHT).all())


def log_linear_rule(
    smoothing: tuple[float, ...], weights: Floats, octaves: int
) -> _native.LiveRule:
    """Return the compiled rule for up to 2^octaves examples.

    Shapes
    ------
    weights : (S, J)
    """
    contiguous = np.ascontiguousarray(weights, np.float64)
    return _native.LiveRule.log_linear(np.array(smoothing), contiguous, octaves)


def mean_rule(weights: Floats, divisor: Floats, label_counts: Ints) -> _native.LiveRule | None:
    """Return the compiled rule of weighted sums over this divisor.

    There is one only where the divisor is one number times the examples of each label; else None.

    Shapes
    ------
    weights : (S,); divisor : (L,); label_counts : (L,)
    """
    if not len(divisor) or not (weights < _MAX_WEIGHT).all() or not (weights >= 0).all():
        return None
    # labels that are declared without examples are divided as if they had one
    factor = float(divisor[0]) / max(int(label_counts[0]), 1)
    if not 0 < factor < np.inf:
        return None
    if not np.array_equal(divisor, factor * np.maximum(label_counts, 1)):
        return None
    return _native.LiveRule.mean(np.ascontiguousarray(weights, np.float64), factor)
