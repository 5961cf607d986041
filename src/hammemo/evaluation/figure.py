"""The figure of an evaluation: which labels are taken for which, and whether probabilities hold.

It needs the ``plot`` extra. For labels, a cell on the left is the share of a label's examples that
got an answer, so that every row adds up to one. A point on the right is a bin of the highest
probability: on the diagonal, answers with a probability of .8 are right in 8 of 10 cases. Beside a
point stands how many answers are in its bin, and its area grows with them. For numbers, targets
stand against predictions on the left, and the coverage of intervals on the right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._lazy import explain_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hammemo._arrays.types import Ints

MOST_DOTS: Final = 2000
"""Dots up to which a cloud of them is still to be read, and its file small."""

_COLOUR: Final = "#0072B2"
_PEER_COLOUR: Final = "#D55E00"
_OURS: Final = "this model"


def draw(evaluation: Any) -> Figure:
    """Return a new figure of an `Evaluation`: confusion and, with probabilities, calibration."""
    bins = evaluation.calibration
    figure, axes = _new_panels(2 if bins else 1)
    _draw_confusion(axes[0], evaluation.confusion, evaluation.confusion_labels, evaluation.n_asked)
    if bins:
        model_measures = next(iter(evaluation.measures.values()))
        _draw_calibration(axes[1], bins, model_measures.calibration_error)
        _draw_peer_calibration(axes[1], evaluation.peer_calibration)
    return figure


def draw_numbers(evaluation: Any, rmse: float) -> Figure:
    """Return a new figure of a `NumberEvaluation`: predictions and coverage."""
    figure, (left, right) = _new_panels(2)
    _draw_predictions(left, evaluation, rmse)
    _draw_coverage(right, evaluation.coverage)
    for ax in (left, right):
        ax.grid(visible=True, alpha=0.3)
    return figure


def _draw_predictions(ax: Axes, evaluation: Any, rmse: float) -> None:
    """Draw predictions against targets.

    Of many targets, about `MOST_DOTS` are drawn, evenly spaced in the order of the targets.
    """
    targets = evaluation.targets
    order = np.argsort(targets, kind="stable")
    drawn = order[:: max(1, len(targets) // MOST_DOTS)]
    all_numbers = np.concatenate([targets, evaluation.predicted, *evaluation.peers.values()])
    ends = [float(all_numbers.min()), float(all_numbers.max())]
    ax.plot(ends, ends, color="0.6", linewidth=1)
    dots: dict[str, Any] = {"s": 10, "alpha": 0.4, "linewidth": 0}
    ax.scatter(evaluation.predicted[drawn], targets[drawn], color=_COLOUR, label=_OURS, **dots)
    for name, predicted in evaluation.peers.items():
        ax.scatter(predicted[drawn], targets[drawn], color=_PEER_COLOUR, label=name, **dots)
    if evaluation.peers:
        legend: Any = ax.legend(loc="upper left")
        for handle in legend.legend_handles:
            handle.set_alpha(1)
    ax.set(xlabel="prediction", ylabel="target")
    ax.set_title(f"{len(targets):,} held-out rows; RMSE {rmse:.4g}", loc="left", fontsize=10)


def _draw_coverage(ax: Axes, coverage: Sequence[tuple[float, float]]) -> None:
    """Draw the share of targets in each interval against the share that it should hold."""
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    expected, inside = zip(*coverage, strict=True)
    # dots on the edge are not cut
    line: dict[str, Any] = {"linewidth": 1, "markersize": 5, "clip_on": False}
    ax.plot(expected, inside, "o-", color=_COLOUR, **line)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set(xlabel="share of targets that an interval should hold", ylabel="share that it holds")
    ax.set_title("coverage of intervals", loc="left", fontsize=10)


def _new_panels(number: int) -> tuple[Figure, Any]:
    with explain_missing("Figures need Matplotlib: pip install 'hammemo[plot]'"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(5.4 * number, 4.8), layout="constrained")
    return figure, figure.subplots(1, number, squeeze=False)[0]


def _draw_confusion(ax: Axes, counts: Ints, labels: Sequence[str], n_asked: int) -> None:
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(shares, cmap="cividis", vmin=0, vmax=1)
    names = [name if len(name) <= 16 else name[:15] + "…" for name in labels]
    ax.set_xticks(range(len(names)), names, rotation=0 if sum(map(len, names)) < 40 else 90)
    row_counts = zip(names, counts.sum(axis=1), strict=True)
    ax.set_yticks(range(len(names)), [f"{name} ({n:,})" for name, n in row_counts])
    if len(names) <= 10:  # otherwise cells have no room for numbers
        for row, column in np.ndindex(*shares.shape):
            share = shares[row, column]
            colour = "white" if share < 0.5 else "black"
            text: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
            ax.text(column, row, f"{share:.2f}", color=colour, **text)
    ax.set(xlabel="answer", ylabel="label (rows)")
    title = f"share of each label's rows by answer; {n_asked:,} rows in all"
    ax.set_title(title, loc="left", fontsize=10)


def _draw_calibration(ax: Axes, bins: Sequence[dict[str, float]], error: float | None) -> None:
    probabilities = np.array([each_bin["probability"] for each_bin in bins])
    shares = np.array([each_bin["right"] for each_bin in bins])
    counts = np.array([each_bin["asked"] for each_bin in bins])
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    ax.plot(probabilities, shares, color=_COLOUR, linewidth=1)
    for x, y, n in zip(probabilities.tolist(), shares.tolist(), counts.tolist(), strict=True):
        side = 1 if y > x else -1  # of the diagonal: the text stands away from it
        ax.annotate(
            f"{int(n):,}",
            (x, y),
            fontsize=7,
            color="0.2",
            ha="right" if side > 0 else "left",
            va="center",
            xytext=(-9 * side, 5 * side),
            textcoords="offset points",
        )
    ax.scatter(
        probabilities,
        shares,
        s=20 + 280 * counts / counts.max(),
        clip_on=False,  # dots on the edge are not cut
        color=_COLOUR,
        alpha=0.8,
        edgecolor="white",
        zorder=3,
        label=_OURS,
    )
    ax.set(xlim=(0, 1.1), ylim=(0, 1.08))
    xlabel = "highest probability; beside each dot its answers"
    ax.set(xlabel=xlabel, ylabel="share of right answers")
    ax.set_title(f"reliability; expected calibration error {error:.3f}", loc="left", fontsize=10)
    ax.grid(visible=True, alpha=0.3)


def _draw_peer_calibration(ax: Axes, calibration: dict[str, Sequence[dict[str, float]]]) -> None:
    line: dict[str, Any] = {"linewidth": 1, "markersize": 4, "clip_on": False}
    for name, bins in calibration.items():
        probabilities = [each_bin["probability"] for each_bin in bins]
        shares = [each_bin["right"] for each_bin in bins]
        ax.plot(probabilities, shares, "s--", color=_PEER_COLOUR, label=name, **line)
    if calibration:
        ax.legend(loc="best")
