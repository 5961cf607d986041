r"""Ranks with ties counting half, their measures, and how sure a difference of learners is.

The standard error of a difference is that of a mean over *sessions*: the queries of one session
share most of their items, so they are no independent draws. With :math:`d_i` the difference at
query i, :math:`\bar d` its mean over m queries and S sessions,

.. math:: \mathrm{se}^2 = \frac{S}{S - 1} \, \frac{1}{m^2} \sum_s \Bigl( \sum_{i \in s} (d_i - \bar
d) \Bigr)^2,

which is the usual formula where every session has one query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .data import Kind

NAMES: dict[str, tuple[str, str]] = {
    "clicks": ("R@20", "MRR@20"),
    "purchases": ("HR@10", "NDCG@10"),
}
"""The two figures of each kind of data."""

CUT = {"clicks": 20, "purchases": 10}


def ranks(
    scores: NDArray[np.float64],
    targets: NDArray[np.int64],
    left_out: Sequence[Sequence[int]] | None = None,
) -> NDArray[np.float64]:
    """Return the rank of each target among all scores of its row, from 1; of equals half are above.

    Parameters
    ----------
    scores : ndarray
        May hold minus infinity, for what is never answered; not a number is refused.
    targets : ndarray
    left_out : sequence of sequences of int, optional
        For each row, columns that are not ranked. A target is ranked all the same.

    Shapes
    ------
    scores : (m, n); targets : (m,); returned : (m,)

    Examples
    --------
    >>> import numpy as np
    >>> from .measures import ranks
    >>> ranks(np.array([[3.0, 1.0, 1.0, 0.0]] * 2), np.array([0, 2])).tolist()
    [1.0, 2.5]
    """
    if np.isnan(scores).any():
        raise ValueError(
            "A score is not a number: every item needs one, minus infinity at the least."
        )
    target_scores = scores[np.arange(len(targets)), targets][:, None]
    above = scores > target_scores
    equal = scores == target_scores
    if left_out is not None:
        rows = np.repeat(np.arange(len(targets)), [len(items) for items in left_out])
        columns = np.array([item for items in left_out for item in items], np.int64)
        above[rows, columns] = equal[rows, columns] = False
        equal[np.arange(len(targets)), targets] = True
    return np.asarray(1 + above.sum(axis=1) + (equal.sum(axis=1) - 1) / 2, np.float64)


def gains(
    target_ranks: NDArray[np.float64], kind: Kind
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what each query adds to the two figures.

    They are 1 where the rank is high enough, and the gain of the measure.
    """
    inside = target_ranks <= CUT[kind]
    by_rank = 1 / target_ranks if kind == "clicks" else 1 / np.log2(target_ranks + 1)
    return inside.astype(np.float64), np.where(inside, by_rank, 0.0)


def difference(
    ours: NDArray[np.float64], others: NDArray[np.float64], sessions: NDArray[np.int64]
) -> tuple[float, float]:
    """Return the mean difference of two learners on the same queries, and its standard error.

    Shapes
    ------
    ours, theirs, sessions : (m,)
    """
    per_query = ours - others
    mean = float(per_query.mean())
    _, groups = np.unique(sessions, return_inverse=True)
    sums = np.bincount(groups, per_query - mean)
    n = len(sums)
    if n < 2:
        return mean, float("nan")
    return mean, float(np.sqrt(n / (n - 1) * (sums**2).sum()) / len(per_query))
