"""Features of rows by their leaves: the twin of ``src/native/trees/tree_features.cpp``."""

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
    """Do what ``src/native/trees/tree_features.hpp`` says, to the bit."""
    assert n_kinds == len(KINDS)

    def compute_ratios(cell_counts: Ints, row_labels: Array) -> Floats:
        """Return the log-ratios of rows by the counts of their cells, without the rows themselves.

        Rows that grow no tree may be in no cell: they are taken out only where they are counted.
        """
        rows = np.arange(len(cell_counts))
        is_counted = cell_counts[rows, row_labels] > 0
        cell_counts[rows, row_labels] -= is_counted
        logs = label_logs[label_starts + cell_counts]
        label_counts = cell_counts[rows, row_labels]
        logs[rows, row_labels] = own_logs[label_starts[row_labels] + label_counts]
        row_totals = total_logs[cell_counts.sum(axis=1)]
        return np.asarray(logs - row_totals[:, None])

    write_means(
        leaves=leaves,
        is_out=is_out,
        cells=cells,
        counts=counts,
        labels=labels,
        kinds=kinds,
        compute_ratios=compute_ratios,
        out=out,
    )
