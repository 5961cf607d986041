"""The first picture of the README.

It shows how accurate ours is beside other learners, and what deleting rows costs.

    python benchmarks/first_picture.py [--figure docs/figures/first-picture.png]

It draws figures of ``docs/figures/measured.json``, as ``python -m benchmarks.figures --write``
does: means over all tables, for learners that were run on all of them, and the times of
``benchmarks/deletion_curve.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from figures import MEASURED, read_runs
from measures import options

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from figures import Run
    from hammemo.paper.experiments.measuring import Row

PICTURE = MEASURED.parent / "first-picture.png"
MEANS = "mean accuracy / log-loss"
"""The unit of what is drawn of each learner."""
OURS = "#1f77b4"
THEIRS = "#b0b7bf"


def draw_learners(axes: Axes, title: str, run: Run) -> None:
    """Draw mean log-losses as bars, the best on top, with mean accuracies beside them."""
    points = {
        name: figure["value"] for name, figure in run["figures"].items() if figure["unit"] == MEANS
    }
    pairs = sorted(points.items(), key=lambda item: -item[1][1])
    names = ["hammemo" if name == "ours" else name.replace(", ", ",\n") for name, _ in pairs]
    losses = [loss for _, (_, loss) in pairs]
    axes.barh(names, losses, color=[OURS if name == "hammemo" else THEIRS for name in names])
    for place, (_, (accuracy, loss)) in enumerate(pairs):
        axes.text(loss, place, f" {loss:.3f} ({accuracy:.1%})", va="center", fontsize=8)
    axes.set_xlim(0, max(losses) * 1.75)
    axes.set_title(f"{run['figures']['sets']['value']} {title}", fontsize=10)
    axes.set_xlabel("mean log-loss (accuracy)", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def draw_deletion(axes: Axes, rows: list[Row]) -> None:
    """Draw what deleting 100 rows costs by the size of the table.

    Where rows are not kept, a refit reads them.
    """
    rows = [{**row, "forget_refit": row["forget_pass"] or row["forget_refit"]} for row in rows]
    titles = {
        "lightgbm": ("LightGBM, learnt again", THEIRS, "d--"),
        "forget_refit": ("hammemo: forget, refit", OURS, "o-"),
        "forget_weights": ("hammemo: features stay", OURS, "s:"),
    }
    for name, (title, color, style) in titles.items():
        points = np.array([(row["rows"], row[name]) for row in rows if row[name]])
        axes.loglog(*points.T, style, color=color, label=title)
    axes.set_title("Delete 100 rows", fontsize=10)
    axes.set_xlabel("rows of the table", fontsize=9)
    axes.set_ylabel("processor seconds", fontsize=9)
    axes.tick_params(labelsize=9)
    axes.set_ylim(top=40 * max(row["lightgbm"] for row in rows))  # room for the legend
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)


def draw(runs: dict[str, Run], path: Path) -> None:
    """Draw the picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.1), width_ratios=(1, 1, 1.1))
    draw_learners(axes[0], "tables of names", runs["names"])
    draw_learners(axes[1], "tables with numbers", runs["numbers"])
    draw_deletion(axes[2], runs["deletion"]["figures"]["rows"]["value"])
    figure.tight_layout()
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--figure", type=Path, default=PICTURE)
    draw(read_runs(), parser.parse_args().figure)


if __name__ == "__main__":
    main()
