"""The first picture of the README: how accurate ours is beside other learners, and what deleting rows costs.

    python benchmarks/first_picture.py [--figure docs/figures/first-picture.png]
    python benchmarks/first_picture.py --collect tables.jsonl mixed.jsonl deletion.jsonl

The first command draws ``docs/figures/first-picture.json``, which is committed. The second makes that file from what
``python -m benchmarks.tables``, ``python -m benchmarks.mixed`` and ``python benchmarks/deletion_curve.py`` wrote with
``--json``, and adds these commands and the commit. Of the tables only means over all sets are kept, for learners that
were run on all of them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deletion_curve import CURVES
from measures import JsonLines, options

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hammemo.paper.experiments.measuring import Row

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
RESULTS = FIGURES / "first-picture.json"
COMMANDS = (
    "python -m benchmarks.tables --data FOLDER --json tables.jsonl",
    "python -m benchmarks.mixed --data FOLDER --json mixed.jsonl",
    "python benchmarks/deletion_curve.py --json deletion.jsonl",
)
OURS, THEIRS = "#1f77b4", "#b0b7bf"


def means(rows: list[Row]) -> Row:
    """Return the mean accuracy and log-loss of each learner that was run on all sets, and how many sets there are."""
    sets = sorted({row["set"] for row in rows})
    found: Row = {"sets": len(sets), "learners": {}}
    for learner in dict.fromkeys(row["learner"] for row in rows):
        theirs = [row for row in rows if row["learner"] == learner]
        if sorted(row["set"] for row in theirs) == sets and all(row["log_loss"] is not None for row in theirs):
            pairs = np.array([(row["accuracy"], row["log_loss"]) for row in theirs])
            found["learners"][learner] = pairs.mean(axis=0).round(6).tolist()
    return found


def collected(tables: Path, mixed: Path, deletion: Path) -> dict[str, Any]:
    """Return what the picture shows, with the commands and the commit that it comes from."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    names = ("rows", *CURVES)
    return {
        "commands": COMMANDS,
        "commit": commit.stdout.strip(),
        "tables of names": means(JsonLines(tables).rows),
        "tables with numbers": means(JsonLines(mixed).rows),
        "deletion": [{name: row[name] for name in names} for row in JsonLines(deletion).rows],
    }


def draw_learners(axes: Axes, title: str, found: Row) -> None:
    """Draw mean log-losses as bars, the best on top, with mean accuracies beside them."""
    pairs = sorted(found["learners"].items(), key=lambda item: -item[1][1])
    names = ["hammemo" if name == "ours" else name.replace(", ", ",\n") for name, _ in pairs]
    losses = [loss for _, (_, loss) in pairs]
    axes.barh(names, losses, color=[OURS if name == "hammemo" else THEIRS for name in names])
    for place, (_, (accuracy, loss)) in enumerate(pairs):
        axes.text(loss, place, f" {loss:.3f} ({accuracy:.1%})", va="center", fontsize=8)
    axes.set_xlim(0, max(losses) * 1.75)
    axes.set_title(f"{found['sets']} {title}", fontsize=10)
    axes.set_xlabel("mean log-loss (accuracy)", fontsize=9)
    axes.tick_params(labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def draw_deletion(axes: Axes, rows: list[Row]) -> None:
    """Draw what deleting 100 rows costs by the size of the table; where rows are not kept, a refit reads them."""
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


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw the picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.1), width_ratios=(1, 1, 1.1))
    draw_learners(axes[0], "tables of names", found["tables of names"])
    draw_learners(axes[1], "tables with numbers", found["tables with numbers"])
    draw_deletion(axes[2], found["deletion"])
    figure.tight_layout()
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--collect", type=Path, nargs=3, metavar=("TABLES", "MIXED", "DELETION"))
    parser.add_argument("--figure", type=Path, default=FIGURES / "first-picture.png")
    given = parser.parse_args()
    if given.collect:
        RESULTS.write_text(json.dumps(collected(*given.collect), indent=1) + "\n", encoding="utf-8")
    draw(json.loads(RESULTS.read_text(encoding="utf-8")), given.figure)


if __name__ == "__main__":
    main()
