"""The figure of an evaluation: which labels are taken for which, and whether probabilities can be relied on.

It needs the ``plot`` extra. Left, a cell is the share of a label's examples that got an answer, so that every row adds
up to one. Right, a point is a bin of the highest probability: on the diagonal, answers with a probability of .8 are
right in 8 of 10 cases; the area of a point grows with the examples in its bin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hammemo.models.evaluation import Evaluation


def draw(found: Evaluation) -> Figure:
    """Return a new figure of confusion and, where there are probabilities, calibration."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Figures need Matplotlib: pip install 'hammemo[plot]'") from error
    n_panels = 2 if found.calibration else 1
    figure = Figure(figsize=(5.4 * n_panels, 4.8), layout="constrained")
    axes = figure.subplots(1, n_panels, squeeze=False)[0]
    _confusion(axes[0], found)
    if found.calibration:
        _calibration(axes[1], found)
    return figure


def _confusion(ax: Axes, found: Evaluation) -> None:
    counts = found.confusion
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(shares, cmap="cividis", vmin=0, vmax=1)
    names = [name if len(name) <= 16 else name[:15] + "…" for name in found.confusion_labels]
    ax.set_xticks(range(len(names)), names, rotation=90)
    ax.set_yticks(range(len(names)), names)
    if len(names) <= 10:
        for row, column in np.ndindex(*shares.shape):
            colour = "white" if shares[row, column] < 0.5 else "black"
            ax.text(column, row, f"{shares[row, column]:.2f}", ha="center", va="center", color=colour, fontsize=8)
    ax.set_xlabel("answer")
    ax.set_ylabel("label")
    ax.set_title(f"share of each label's {found.n_asked:,} examples", loc="left", fontsize=10)


def _calibration(ax: Axes, found: Evaluation) -> None:
    probability, right, asked = (
        np.array([one[name] for one in found.calibration]) for name in ("probability", "right", "asked")
    )
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    ax.scatter(probability, right, s=20 + 280 * asked / asked.max(), color="#0072B2", alpha=0.8, edgecolor="white")
    ax.set_xlim(0, 1.03)
    ax.set_ylim(0, 1.03)
    ax.set_xlabel("highest probability")
    ax.set_ylabel("share of right answers")
    error = next(iter(found.measures.values())).calibration_error
    ax.set_title(f"expected calibration error {error:.3f}", loc="left", fontsize=10)
    ax.grid(visible=True, alpha=0.3)
