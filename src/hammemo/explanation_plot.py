"""The figure of an explanation: one bar a label, stacked by site. It needs the ``plot`` extra.

Colours are Okabe and Ito's, which people with any colour vision tell apart; bars have white edges, so that neighbours
are told apart in print too. Parts above zero are stacked to the right of it, parts below zero to the left, so that the
score, marked by a diamond, is the length to the right minus the length to the left. A kernel with many sites gives the
most telling ones a colour each and the rest one together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from hammemo.explanations import Explanation

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#8C564B")
_PRIOR, _REST = "#999999", "#DDDDDD"
_LONGEST = 32  # characters of a label


def draw(explanation: Explanation, ax: Axes | None = None) -> Axes:
    """Draw an explanation on the axes, or on those of a new figure, and return them."""
    labels = [_shortened(repr(label)) for label in explanation.labels]
    ax = _new_axes(len(labels)) if ax is None else ax
    places = np.arange(len(labels))
    right, left = np.zeros(len(labels)), np.zeros(len(labels))
    for name, values, colour in _layers(explanation):
        starts = np.where(values >= 0, right, left)
        ax.barh(
            places, values, 0.62, starts, color=colour, edgecolor="white", linewidth=0.8, label=_shortened(name, 48)
        )
        right, left = right + np.maximum(values, 0), left + np.minimum(values, 0)
    _draw_scores(ax, explanation, places)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_yticks(places, labels)
    ax.invert_yaxis()  # the best label on top
    ax.set_xlabel("contribution to the score")
    ax.set_title(_title(explanation), loc="left", fontsize=10)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=True, axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
    return ax


def _new_axes(n_labels: int) -> Axes:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Figures need Matplotlib: pip install 'hammemo[plot]'") from error
    figure = Figure(figsize=(8.5, 1.6 + 0.45 * max(n_labels, 3)), layout="constrained")
    axes: Axes = figure.subplots()
    return axes


def _layers(explanation: Explanation) -> list[tuple[str, NDArray[np.float64], str]]:
    """Return name, values and colour of each part of the bars, in the order of the sites."""
    parts = explanation.contributions
    order = np.argsort(-np.abs(parts).sum(axis=1), kind="stable")
    most = len(COLOURS) if len(parts) <= len(COLOURS) else len(COLOURS) - 1
    shown, rest = np.sort(order[:most]), order[most:]
    layers = [("prior", explanation.base, _PRIOR)] if explanation.base.any() else []
    layers += [(explanation.site_name(k), parts[k], COLOURS[place]) for place, k in enumerate(shown.tolist())]
    if len(rest):
        layers.append((f"{len(rest)} other sites", parts[rest].sum(axis=0), _REST))
    return layers


def _draw_scores(ax: Axes, explanation: Explanation, places: NDArray[np.int64]) -> None:
    """Mark the scores, and as lines what the exact ones may be."""
    scores, name = explanation.scores, "score"
    low = high = scores
    if explanation.precision == "bounds" and explanation.score_bounds is not None:
        (low, high), name = explanation.score_bounds, "score, and bounds of the exact one"
    elif explanation.score_errors is not None:
        low, high = scores - 2 * explanation.score_errors, scores + 2 * explanation.score_errors
        name = "score ± two standard errors"
    ends = np.concatenate([low, high])
    ax.hlines(places, low, high, color="black", linewidth=1.4, zorder=3)
    ax.plot(ends, np.concatenate([places, places]), "|", color="black", markersize=7 if (low != high).any() else 0)
    ax.plot(scores, places, "D", color="black", markersize=5, markeredgecolor="white", zorder=4, label=name)


def _title(explanation: Explanation) -> str:
    lines = explanation.verdict().split("; ")[0] + "."
    if explanation.never_seen:
        lines += f"\nNever seen: {', '.join(map(repr, explanation.never_seen))}"
    return lines


def _shortened(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
