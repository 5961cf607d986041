r"""Shared weights of a log-linear vote where labels are many: only those that the rows hold are gone through.

With weights that all labels share, what a row's total takes from a score (:mod:`hammemo.memories.row_rules`) is the
same for every label, so the softmax does not see it. What is left, :math:`g_{i,f,c} = \log(1 + n_{i,f,c} / (a p_c))`,
is zero for a label that no row of the example holds. So with the touched labels :math:`T_i`,

.. math:: \log \sum_c e^{s_{i,c}} = \log \Bigl[ 1 - \sum_{c \in T_i} p_c
    + \sum_{c \in T_i} p_c \exp \sum_f w_f \, g_{i,f,c} \Bigr]:

the loss of :mod:`hammemo.votes.fitting`, exactly, at the cost of the touched labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints
    from hammemo.memories.exact import SparseCounts
    from hammemo.votes.fitting import LabelledContexts

_PIECE = 256  # examples whose rows are read at a time


@dataclass(frozen=True, eq=False)
class TouchedGains:
    """The gains of the labels that the rows of each example hold, and of its own label.

    Shapes
    ------
    gains : (n, F); columns : (n,), labels; starts : (m,), where examples begin; own : (m,), where their own label is
    """

    gains: NDArray[np.float32]
    columns: Ints
    starts: Ints
    own: Ints

    def __len__(self) -> int:
        return len(self.starts)


def touched_gains(reader: SparseCounts, rows: LabelledContexts, most: int) -> TouchedGains:
    """Return the gains of the first examples, as many as have at most `most` numbers together, but at least one."""
    parts: list[TouchedGains] = []
    n_numbers = 0
    for start in range(0, len(rows.labels), _PIECE):
        made = _of_piece(reader, rows[start : start + _PIECE])
        width = made.gains.shape[1]
        ends = n_numbers + width * np.append(made.starts[1:], len(made.gains))
        kept = int(np.searchsorted(ends, most, side="right"))
        if kept < len(made):
            parts.append(_first(made, max(kept, 0 if parts else 1)))
            break
        parts.append(made)
        n_numbers = int(ends[-1])
    return _joined(parts)


def _of_piece(reader: SparseCounts, rows: LabelledContexts) -> TouchedGains:
    labels, prior, smoothing = rows.labels, rows.prior, rows.smoothing
    m, n_sites, n_amounts, n_labels = len(labels), reader.sites.n, len(smoothing), len(prior)
    entries = reader.rows.entries(rows.contexts)
    row = np.repeat(np.arange(len(entries.lengths)), entries.lengths)
    example, site = row // n_sites, row % n_sites
    counts = entries.counts.astype(np.float64)
    if rows.leave_one_out:
        counts -= entries.columns == labels[example]
    keys = example * n_labels + entries.columns
    pairs, place = np.unique(
        np.concatenate([keys, np.arange(m) * n_labels + labels]), return_inverse=True
    )
    columns = pairs % n_labels
    gains = np.zeros((len(pairs), n_sites * n_amounts), np.float32)
    ratios = counts / prior[entries.columns]
    for j, amount in enumerate(smoothing):
        gains[place[: len(keys)], site * n_amounts + j] = np.log1p(ratios / amount)
    return TouchedGains(
        gains, columns, np.searchsorted(pairs, np.arange(m) * n_labels), place[len(keys) :]
    )


def _first(touched: TouchedGains, n: int) -> TouchedGains:
    end = len(touched.gains) if n >= len(touched) else int(touched.starts[n])
    return TouchedGains(
        touched.gains[:end], touched.columns[:end], touched.starts[:n], touched.own[:n]
    )


def _joined(parts: list[TouchedGains]) -> TouchedGains:
    before = np.cumsum([0, *(len(part.gains) for part in parts)])[:-1].tolist()
    return TouchedGains(
        np.concatenate([part.gains for part in parts]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.starts + n for part, n in zip(parts, before, strict=True)]),
        np.concatenate([part.own + n for part, n in zip(parts, before, strict=True)]),
    )


def fit_shared_weights(
    touched: TouchedGains,
    multiplicity: Ints,
    prior: Floats,
    *,
    start: Floats,
    ridge: float,
    steps: int,
) -> Floats:
    """Return the weights that minimise the log-loss with the ridge towards `start`: (F,)."""
    loss = shared_loss(touched, multiplicity, prior, start, ridge)
    return np.asarray(
        minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": steps}).x, np.float64
    )


def shared_loss(
    touched: TouchedGains, multiplicity: Ints, prior: Floats, start: Floats, ridge: float
) -> Callable[[Floats], tuple[float, Floats]]:
    """Return the loss and its gradient as a function of the weights."""
    shares, strength = multiplicity / multiplicity.sum(), ridge / float(multiplicity.sum())
    lengths = np.diff(np.append(touched.starts, len(touched.gains)))
    own_prior = prior[touched.columns]
    rest = np.maximum(1.0 - np.add.reduceat(own_prior, touched.starts), 0.0)
    log_prior = np.log(own_prior)

    def loss(weights: Floats) -> tuple[float, Floats]:
        scores = (touched.gains @ weights.astype(np.float32)).astype(np.float64) + log_prior
        highest = np.maximum(
            np.maximum.reduceat(scores, touched.starts), 0.0
        )  # 0: that of the other labels is below
        raised = np.exp(scores - np.repeat(highest, lengths))
        sums = np.add.reduceat(raised, touched.starts) + rest * np.exp(-highest)
        losses = np.log(sums) + highest - scores[touched.own]
        excess = raised * np.repeat(
            shares / sums, lengths
        )  # probabilities, less the observed label
        excess[touched.own] -= shares
        gradient = (excess.astype(np.float32) @ touched.gains).astype(np.float64)
        away = weights - start
        return float(shares @ losses) + strength * float(
            away @ away
        ), gradient + 2 * strength * away

    return loss
