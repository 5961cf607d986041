"""The figure of what columns are worth: a bar for each, the most valuable one on top.

It needs the ``plot`` extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo.explain.explanation_plot import COLOURS, new_axes, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats


def draw_bars(
    ax: Axes | None, names: Sequence[str], values: Floats, *, what: str, title: str
) -> Axes:
    """Draw bars in this order, on the axes or on those of a new figure; return the axes.

    `what` names the numbers.
    """
    if ax is None:
        ax = new_axes(7.5, 1.4 + 0.28 * max(len(names), 3))
    places = np.arange(len(names))
    ax.barh(places, values, color=COLOURS[0])
    ax.set_yticks(places, [shorten(name, 40) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_xlabel(what)
    ax.set_title(title, loc="left", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    return ax
