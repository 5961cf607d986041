"""The plain twin of ``src/native/trees/tree_features.cpp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo.features.cells.forest import KINDS
from hammemo.votes.tree_label_features import write_means

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Floats, Ints


def tree_features(
    leaves: NDArray[np.int32],
    is_out: NDArray[np.uint8],
    cells: NDArray[np.int32],
    counts: Ints,
    labels: NDArray[np.int32],
    kinds: NDArray[np.int32],
    n_kinds: int,
    label_logs: Floats,
    own_logs: Floats,
    label_starts: Ints,
    total_logs: Floats,
    out: NDArray[np.float32],
) -> None:
    """Do what the compiled `tree_features` does (``src/native/trees/tree_features.hpp``), to the bit."""
    assert n_kinds == len(KINDS)

    def ratios(held: Ints, own: Array) -> Floats:
        places = np.arange(len(held))
        held[places, own] -= held[places, own] > 0
        logs = label_logs[label_starts + held]
        logs[places, own] = own_logs[label_starts[own] + held[places, own]]
        return np.asarray(logs - total_logs[held.sum(axis=1)][:, None])

    write_means(
        leaves=leaves,
        is_out=is_out,
        cells=cells,
        counts=counts,
        labels=labels,
        kinds=kinds,
        compute_ratios=ratios,
        out=out,
    )
