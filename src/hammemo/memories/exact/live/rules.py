"""Rules that live tables rank by, compiled: weighted sums over what each label has, and log-linear ones.

The compiled code (`src/native/live/ratio_leaders.hpp`) reads rows by bands of labels that have nearly as many examples
each, and says of each answer whether it is sure: whether it is that of NumPy's arithmetic also where scores are nearly
equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.native import native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._native import LiveRule

MAX_RULE_SITES: Final = 512
"""Sites up to which a rule is compiled, about 50 KB each; for more, all scores are made."""
_MAX_WEIGHT: Final = 1e9


def has_rule(weights: NDArray[np.float64]) -> bool:
    """Return whether there is a compiled rule with these weights, (S, J)."""
    return len(weights) <= MAX_RULE_SITES and bool((np.abs(weights) < _MAX_WEIGHT).all())


def log_linear_rule(smoothing: tuple[float, ...], weights: NDArray[np.float64], octaves: int) -> LiveRule:
    """Return the compiled rule for up to 2^octaves examples.

    Shapes
    ------
    weights : (S, J)
    """
    compiled = native()
    assert compiled is not None
    return compiled.LiveRule.log_linear(np.array(smoothing), np.ascontiguousarray(weights, np.float64), octaves)


def mean_rule(
    weights: NDArray[np.float64], divisor: NDArray[np.float64], label_counts: NDArray[np.int64]
) -> LiveRule | None:
    """Return the compiled rule of weighted sums over this divisor, if it is one number times each label's examples.

    Shapes
    ------
    weights : (S,); divisor : (L,); label_counts : (L,)
    """
    compiled = native()
    if compiled is None or not len(divisor) or not (weights < _MAX_WEIGHT).all() or not (weights >= 0).all():
        return None
    total = float(divisor[0]) / max(int(label_counts[0]), 1)
    if not 0 < total < np.inf or not np.array_equal(divisor, total * np.maximum(label_counts, 1)):
        return None
    return compiled.LiveRule.mean(np.ascontiguousarray(weights, np.float64), total)
