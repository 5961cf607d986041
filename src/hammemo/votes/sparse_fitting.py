r"""Shared weights of a log-linear vote with many labels: only labels in the rows are visited.

With weights that all labels share, what a row's total takes from a score
(:mod:`hammemo.memories.row_rules`) is the same for every label, so the softmax does not see it.
What remains, the *gain* :math:`g_{i,f,c} = \log(1 + n_{i,f,c} / (a p_c))`, is zero for a label that
no row of the example holds. So with the touched labels :math:`T_i`,

.. math:: \log \sum_c e^{s_{i,c}} = \log \Bigl[ 1 - \sum_{c \in T_i} p_c
    + \sum_{c \in T_i} p_c \exp \sum_f w_f \, g_{i,f,c} \Bigr]:

the loss of :mod:`hammemo.votes.fitting`, exactly, at the cost of the touched labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import minimize

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints
    from hammemo.memories.exact import SparseCounts
    from hammemo.votes.fitting import LabelledContexts

_PIECE: Final = 256
"""Examples whose rows are read at a time."""


@dataclass(frozen=True, eq=False)
class TouchedGains:
    """The gains of the labels that the rows of each example hold, and of its own label.

    The touched labels of one example lie together, in ascending order.
    """

    gains: NDArray[np.float32]
    """The gain of each touched label at each feature: (n, F)."""
    columns: Ints
    """The touched labels: (n,)."""
    starts: Ints
    """Where the touched labels of each example begin: (m,)."""
    own: Ints
    """Where the own label of each example is among them: (m,)."""

    def __len__(self) -> int:
        return len(self.starts)

    def take_first(self, n: int) -> TouchedGains:
        """Return the gains of the first examples."""
        end = len(self.gains) if n >= len(self) else int(self.starts[n])
        return TouchedGains(self.gains[:end], self.columns[:end], self.starts[:n], self.own[:n])

    @classmethod
    def concatenate(cls, pieces: list[TouchedGains]) -> TouchedGains:
        """Return the gains of the examples of all pieces."""
        shifts = np.cumsum([0, *(len(piece.gains) for piece in pieces)])[:-1].tolist()
        return cls(
            gains=np.concatenate([piece.gains for piece in pieces]),
            columns=np.concatenate([piece.columns for piece in pieces]),
            starts=np.concatenate(
                [piece.starts + shift for piece, shift in zip(pieces, shifts, strict=True)]
            ),
            own=np.concatenate(
                [piece.own + shift for piece, shift in zip(pieces, shifts, strict=True)]
            ),
        )


def read_touched_gains(
    reader: SparseCounts, examples: LabelledContexts, max_numbers: int
) -> TouchedGains:
    """Return the gains of the first examples.

    They have at most `max_numbers` numbers together, but there is at least one example.
    """
    pieces: list[TouchedGains] = []
    n_numbers = 0
    for start in range(0, len(examples.labels), _PIECE):
        piece = _read_piece(reader, examples[start : start + _PIECE])
        n_features = piece.gains.shape[1]
        ends = n_numbers + n_features * np.append(piece.starts[1:], len(piece.gains))
        n_fitting = int(np.searchsorted(ends, max_numbers, side="right"))
        if n_fitting < len(piece):
            at_least = 0 if pieces else 1
            pieces.append(piece.take_first(max(n_fitting, at_least)))
            break
        pieces.append(piece)
        n_numbers = int(ends[-1])
    return TouchedGains.concatenate(pieces)


def _read_piece(reader: SparseCounts, examples: LabelledContexts) -> TouchedGains:
    labels = examples.labels
    n_examples = len(labels)
    n_labels = len(examples.prior)
    n_sites = reader.sites.n
    n_amounts = len(examples.smoothing)

    # The entries of all rows: of each the example, the site, the label and the count.
    entries = reader.rows.entries(examples.contexts)
    row = np.repeat(np.arange(len(entries.lengths)), entries.lengths)
    example = row // n_sites
    site = row % n_sites
    counts = entries.counts.astype(np.float64)
    if examples.leave_one_out:
        counts -= entries.columns == labels[example]

    # The touched labels are the distinct pairs of example and label, with each example's own.
    entry_pairs = example * n_labels + entries.columns
    own_pairs = np.arange(n_examples) * n_labels + labels
    pairs, places = np.unique(np.concatenate([entry_pairs, own_pairs]), return_inverse=True)
    entry_places = places[: len(entry_pairs)]

    gains = np.zeros((len(pairs), n_sites * n_amounts), np.float32)
    ratios = counts / examples.prior[entries.columns]
    for j, amount in enumerate(examples.smoothing):
        gains[entry_places, site * n_amounts + j] = np.log1p(ratios / amount)
    return TouchedGains(
        gains=gains,
        columns=pairs % n_labels,
        starts=np.searchsorted(pairs, np.arange(n_examples) * n_labels),
        own=places[len(entry_pairs) :],
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
    loss = make_shared_loss(touched, multiplicity, prior, start=start, ridge=ridge)
    result = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": steps})
    return np.asarray(result.x, np.float64)


def make_shared_loss(
    touched: TouchedGains, multiplicity: Ints, prior: Floats, *, start: Floats, ridge: float
) -> Callable[[Floats], tuple[float, Floats]]:
    """Return the loss and its gradient as a function of the weights."""
    shares = multiplicity / multiplicity.sum()
    strength = ridge / float(multiplicity.sum())
    n_touched = np.diff(np.append(touched.starts, len(touched.gains)))
    touched_prior = prior[touched.columns]
    untouched_prior = np.maximum(1.0 - np.add.reduceat(touched_prior, touched.starts), 0.0)
    log_prior = np.log(touched_prior)

    def compute_loss(weights: Floats) -> tuple[float, Floats]:
        scores = (touched.gains @ weights.astype(np.float32)).astype(np.float64) + log_prior
        # At least 0, because the exponent of the untouched labels is 0.
        highest = np.maximum(np.maximum.reduceat(scores, touched.starts), 0.0)
        odds = np.exp(scores - np.repeat(highest, n_touched))
        sums = np.add.reduceat(odds, touched.starts) + untouched_prior * np.exp(-highest)
        losses = np.log(sums) + highest - scores[touched.own]
        excess = odds * np.repeat(shares / sums, n_touched)  # probabilities, less the own label
        excess[touched.own] -= shares
        gradient = (excess.astype(np.float32) @ touched.gains).astype(np.float64)
        deviation = weights - start
        penalty = strength * float(deviation @ deviation)
        return float(shares @ losses) + penalty, gradient + 2 * strength * deviation

    return compute_loss
