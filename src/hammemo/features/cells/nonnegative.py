"""The least squares whose solution is not negative, for few unknowns: the active set of Lawson and Hanson.

Sums are rounded once (`math.fsum`), so the result is the same on every processor and version of Python.
"""

from __future__ import annotations

from math import fsum, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats

_TOLERANCE: Final = 1e-9
"""Of the largest slope: a smaller one does not let a weight leave zero."""


def nonnegative_solution(gram: Floats, wanted: Floats) -> Floats:
    """Return the x >= 0 with the least x'Ax / 2 - b'x, for a positive definite matrix A.

    Shapes
    ------
    gram : (p, p); wanted : (p,); returned : (p,)

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.cells.nonnegative import nonnegative_solution
    >>> nonnegative_solution(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([4.0, -1.0]))
    array([2., 0.])
    """
    rows, aim = gram.tolist(), wanted.tolist()
    p = len(aim)
    found, free = [0.0] * p, list[int]()
    least = _TOLERANCE * max(map(abs, aim), default=0.0)
    for _ in range(10 * p):  # each round lets one weight leave zero; rounding could make it go in circles
        slopes = [aim[i] - fsum(a * x for a, x in zip(rows[i], found, strict=True)) for i in range(p)]
        best = max((i for i in range(p) if i not in free), key=lambda i: slopes[i], default=None)
        if best is None or slopes[best] <= least:
            break
        free = sorted([*free, best])
        while free:
            there = _solved([[rows[i][j] for j in free] for i in free], [aim[i] for i in free])
            held = [found[i] for i in free]
            steps = [x / (x - t) for x, t in zip(held, there, strict=True) if t <= 0]
            step = min([1.0, *steps])
            for i, x, t in zip(free, held, there, strict=True):
                found[i] = x + step * (t - x) if step < 1 else t
            if not steps:
                break
            stopped = {i for i, t in zip(free, there, strict=True) if t <= 0 and found[i] <= 0}
            stopped = stopped or {min(free, key=lambda i: found[i])}
            for i in stopped:
                found[i] = 0.0
            free = [i for i in free if i not in stopped]
    return np.array(found)


def _solved(matrix: list[list[float]], wanted: list[float]) -> list[float]:
    """Solve a positive definite system by its root."""
    n, root, x = len(wanted), list[list[float]](), list[float]()
    for i in range(n):
        row = list[float]()
        for j in range(i):
            row.append((matrix[i][j] - fsum(a * b for a, b in zip(row, root[j], strict=False))) / root[j][j])
        row.append(sqrt(max(matrix[i][i] - fsum(a * a for a in row), 1e-12 * matrix[i][i])))
        root.append(row)
        x.append((wanted[i] - fsum(a * b for a, b in zip(row, x, strict=False))) / row[i])
    for i in reversed(range(n)):
        x[i] = (x[i] - fsum(root[j][i] * x[j] for j in range(i + 1, n))) / root[i][i]
    return x
