r"""The least squares whose solution is not negative, for few unknowns.

The active-set method of Lawson and Hanson [1]_: unknowns are *free*, or zero. The zero unknown
along which the objective falls most becomes free, and the free ones take the values of the least
squares without a bound. Where one of these is not positive, the step ends where the first
unknown reaches zero, and this unknown is zero again.

Sums are rounded once (`math.fsum`), so the result is the same on every processor and version of
Python.

.. [1] Lawson and Hanson (1974), Solving least squares problems, chapter 23.
"""

from __future__ import annotations

from math import fsum, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats

_TOLERANCE: Final = 1e-9
"""Of the largest slope: a smaller one does not let an unknown leave zero."""

_ROUNDS_OF_AN_UNKNOWN: Final = 10
"""Rounds for each unknown, at most. In each one leaves zero; rounding could make it go in
circles."""


def solve_nonnegative(gram: Floats, products: Floats) -> Floats:
    r"""Return the x with the least :math:`\frac12 x^\top A x - b^\top x`, where all x are >= 0.

    A, the Gram matrix, must be positive definite; b are the products of features and targets.

    Shapes
    ------
    gram : (p, p); products : (p,); returned : (p,)

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.cells.nonnegative import solve_nonnegative
    >>> solve_nonnegative(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([4.0, -1.0]))
    array([2., 0.])
    """
    rows = gram.tolist()
    aims = products.tolist()
    p = len(aims)
    x = [0.0] * p
    free: list[int] = []
    least_slope = _TOLERANCE * max(map(abs, aims), default=0.0)
    for _ in range(_ROUNDS_OF_AN_UNKNOWN * p):
        # Free the unknown along which the objective falls most.
        slopes = [aims[i] - _dot(rows[i], x) for i in range(p)]
        best = max((i for i in range(p) if i not in free), key=slopes.__getitem__, default=None)
        if best is None or slopes[best] <= least_slope:
            break
        free = sorted([*free, best])
        while free:
            goals = _solve([[rows[i][j] for j in free] for i in free], [aims[i] for i in free])
            goal_of = dict(zip(free, goals, strict=True))
            blocked = [i for i in free if goal_of[i] <= 0]

            # Go to the goals, or only until the first unknown reaches zero.
            length = min([1.0, *(x[i] / (x[i] - goal_of[i]) for i in blocked)])
            for i, goal in goal_of.items():
                if length < 1:
                    x[i] = x[i] + length * (goal - x[i])
                else:
                    x[i] = goal
            if not blocked:
                break

            # Unknowns that reached zero stay there; at least one, whatever rounding says.
            stopped = {i for i in blocked if x[i] <= 0} or {min(free, key=x.__getitem__)}
            for i in stopped:
                x[i] = 0.0
            free = [i for i in free if i not in stopped]
    return np.array(x)


def _solve(matrix: list[list[float]], aims: list[float]) -> list[float]:
    """Solve a positive definite system by its Cholesky root, row by row."""
    n = len(aims)
    root: list[list[float]] = []
    x: list[float] = []
    # The root, and what solves the system of the root.
    for i in range(n):
        row: list[float] = []
        for j in range(i):
            row.append((matrix[i][j] - _dot(row, root[j])) / root[j][j])
        # rounding may make a pivot zero or negative
        pivot = max(matrix[i][i] - _dot(row, row), 1e-12 * matrix[i][i])
        row.append(sqrt(pivot))
        root.append(row)
        x.append((aims[i] - _dot(row, x)) / row[i])
    # What solves the system of the transposed root.
    for i in reversed(range(n)):
        x[i] = (x[i] - fsum(root[j][i] * x[j] for j in range(i + 1, n))) / root[i][i]
    return x


def _dot(left: list[float], right: list[float]) -> float:
    """Return the sum of the products, as far as the shorter list goes."""
    return fsum(a * b for a, b in zip(left, right, strict=False))
