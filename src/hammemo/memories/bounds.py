r"""Proofs that a memory's answer is the exact classifier's.

A memory that knows, for every query and label, a lower and an upper bound on the exact weighted count,
:math:`\underline S_c \le S_c \le \overline S_c`, can prove some of its answers: label a is the exact winner if

.. math:: \underline S_a \ge \overline S_b \quad \text{for every rival } b,

with strict inequality for those b that would win a tie against a, the ones before it. For then
:math:`S_a \ge \underline S_a \ge \overline S_b \ge S_b`.

For the hashed memory, let R be the query's sites whose feature has a row of its own and T the others. A row of one's
own holds the exact counts; a bucket's row holds the counts of the feature and of whatever else fell there, so it is an
upper bound, and zero is a lower one. Hence :math:`\underline S_c = \sum_R w_k n_c` and
:math:`\overline S_c = \underline S_c + \sum_T w_k T_c`, and the condition reads: a's lead on the sites of R is at least
b's raw bucket counts on the sites of T. With whole-number weights nothing is rounded; with others the bounds keep a
margin for rounding. What has a row of its own is known by its identity, not by its hash alone
(:mod:`hammemo.memories.hashed.reserved`), so this holds for every input, unless someone finds a collision of
BLAKE2b-256.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def proven(low: NDArray[np.float64], high: NDArray[np.float64], answers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each query whether the column `answers` must be the exact winner.

    Shapes
    ------
    low, high : (m, L); answers : (m,); returned : (m,)

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.memories.bounds import proven
    >>> low, high = np.array([[3.0, 1.0], [3.0, 1.0], [1.0, 3.0]]), np.array([[3.0, 3.0], [3.0, 4.0], [3.0, 3.0]])
    >>> proven(low, high, np.array([0, 0, 1]))
    array([ True, False, False])
    """
    claim = low[np.arange(len(low)), answers][:, None]
    columns = np.arange(high.shape[1])
    answer = answers[:, None]
    beaten = (claim > high) | ((claim == high) & (columns > answer)) | (columns == answer)
    return np.asarray(beaten.all(axis=1))
