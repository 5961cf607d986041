"""The figure of an evaluation: which labels are taken for which, and whether probabilities can be relied on.

It needs the ``plot`` extra. Left, a cell is the share of a label's examples that got an answer, so that every row adds
up to one. Right, a point is a bin of the highest probability: on the diagonal, answers with a probability of .8 are
right in 8 of 10 cases. Beside a point stands how many answers are in its bin, and its area grows with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._lazy import needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hammemo._arrays.types import Ints

MOST_DOTS: Final = 2000
_COLOUR: Final = "#0072B2"
_PEER_COLOUR: Final = "#D55E00"
_OURS: Final = "this model"


def draw(found: Any) -> Figure:
    """Return a new figure of an `Evaluation`: confusion and, where there are probabilities, calibration."""
    figure, axes = _panels(2 if found.calibration else 1)
    _draw_confusion(axes[0], found.confusion, found.confusion_labels, found.n_asked)
    if found.calibration:
        _draw_calibration(axes[1], found.calibration, next(iter(found.measures.values())).calibration_error)
        for name, bins in found.peer_calibration.items():
            line = [one["probability"] for one in bins], [one["right"] for one in bins]
            axes[1].plot(*line, "s--", color=_PEER_COLOUR, linewidth=1, markersize=4, label=name, clip_on=False)
        if found.peer_calibration:
            axes[1].legend(loc="best")
    return figure


def draw_numbers(found: Any, rmse: float) -> Figure:
    """Return a new figure of a `NumberEvaluation`: predictions against targets, and the share of them in each interval.

    Of many targets, about `MOST_DOTS` are drawn, evenly spaced in the order of the targets.
    """
    figure, (left, right) = _panels(2)
    targets, predicted = found.targets, found.predicted
    shown = np.argsort(targets, kind="stable")[:: max(1, len(targets) // MOST_DOTS)]
    all_numbers = np.concatenate([targets, predicted, *found.peers.values()])
    ends = [float(all_numbers.min()), float(all_numbers.max())]
    left.plot(ends, ends, color="0.6", linewidth=1)
    dots: dict[str, Any] = {"s": 10, "alpha": 0.4, "linewidth": 0}
    left.scatter(predicted[shown], targets[shown], color=_COLOUR, label=_OURS, **dots)
    for name, others in found.peers.items():
        left.scatter(others[shown], targets[shown], color=_PEER_COLOUR, label=name, **dots)
    if found.peers:
        for handle in left.legend(loc="upper left").legend_handles:
            handle.set_alpha(1)
    left.set(xlabel="prediction", ylabel="target")
    left.set_title(f"{len(targets):,} held-out rows; RMSE {rmse:.4g}", loc="left", fontsize=10)
    right.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    # dots on the edge are not cut
    right.plot(*zip(*found.coverage, strict=True), "o-", color=_COLOUR, linewidth=1, markersize=5, clip_on=False)
    right.set(xlim=(0, 1), ylim=(0, 1))
    right.set(xlabel="share of targets that an interval should hold", ylabel="share that it holds")
    right.set_title("coverage of intervals", loc="left", fontsize=10)
    for ax in (left, right):
        ax.grid(visible=True, alpha=0.3)
    return figure


def _panels(number: int) -> tuple[Figure, Any]:
    with needed("Figures need Matplotlib: pip install 'hammemo[plot]'"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(5.4 * number, 4.8), layout="constrained")
    return figure, figure.subplots(1, number, squeeze=False)[0]


def _draw_confusion(ax: Axes, counts: Ints, labels: Sequence[str], n_asked: int) -> None:
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(shares, cmap="cividis", vmin=0, vmax=1)
    names = [name if len(name) <= 16 else name[:15] + "…" for name in labels]
    ax.set_xticks(range(len(names)), names, rotation=0 if sum(map(len, names)) < 40 else 90)
    ax.set_yticks(range(len(names)), [f"{name} ({n:,})" for name, n in zip(names, counts.sum(axis=1), strict=True)])
    if len(names) <= 10:
        for row, column in np.ndindex(*shares.shape):
            colour = "white" if shares[row, column] < 0.5 else "black"
            ax.text(column, row, f"{shares[row, column]:.2f}", ha="center", va="center", color=colour, fontsize=8)
    ax.set(xlabel="answer", ylabel="label (rows)")
    ax.set_title(f"share of each label's rows by answer; {n_asked:,} rows in all", loc="left", fontsize=10)


def _draw_calibration(ax: Axes, calibration: Sequence[dict[str, float]], error: float | None) -> None:
    names = ("probability", "right", "asked")
    probability, right, asked = (np.array([one[name] for one in calibration]) for name in names)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    ax.plot(probability, right, color=_COLOUR, linewidth=1)
    for x, y, n in zip(probability.tolist(), right.tolist(), asked.tolist(), strict=True):
        away = 1 if y > x else -1  # from the diagonal
        place: dict[str, Any] = {"xytext": (-9 * away, 5 * away), "textcoords": "offset points", "va": "center"}
        ax.annotate(f"{int(n):,}", (x, y), fontsize=7, color="0.2", ha="right" if away > 0 else "left", **place)
    sizes = 20 + 280 * asked / asked.max()
    dots: dict[str, Any] = {"color": _COLOUR, "alpha": 0.8, "edgecolor": "white", "zorder": 3, "label": _OURS}
    ax.scatter(probability, right, s=sizes, clip_on=False, **dots)  # dots on the edge are not cut
    ax.set(xlim=(0, 1.1), ylim=(0, 1.08))
    ax.set(xlabel="highest probability; beside each dot its answers", ylabel="share of right answers")
    ax.set_title(f"reliability; expected calibration error {error:.3f}", loc="left", fontsize=10)
    ax.grid(visible=True, alpha=0.3)
