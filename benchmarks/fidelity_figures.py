"""The two figures of ``fidelity``.

They show fidelity against the size of the state, and both as the stored examples grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hammemo.paper.experiments.figures import (
    BLUE,
    GREEN,
    ORANGE,
    CurveStyle,
    make_curve_options,
    new_panels,
    save_figure,
)

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

_MEMORY_STYLES = {  # by kind, and whether proofs are counted
    ("hashed", False): CurveStyle(BLUE, "o", "-"),
    ("hashed", True): CurveStyle(GREEN, "^", "--"),
    ("Gaussian", False): CurveStyle(ORANGE, "s", "-."),
    ("exact", False): CurveStyle("#000000", "*", "-"),
}
_NEARLY_ALL = 90
_GROWTH_TOP = 96


def fidelity_figures(results: dict[str, Any], folder: Path) -> None:
    """Draw fidelity against the size of the state, and both as the stored examples grow."""
    _size_figure(results, folder)
    _growth_figure(results, folder)


def _size_figure(results: dict[str, Any], folder: Path) -> None:
    figure, panels = new_panels(2)
    rows = _by_kind(results["size"])
    for axes in panels:
        for kind, measure, text in (
            ("hashed", "agreement", "hashed: agreement"),
            ("hashed", "certified", "hashed: certified"),
            ("exact", "agreement", "sparse exact table: both"),
            ("Gaussian", "agreement", "Gaussian: agreement"),
        ):
            _curve(axes, rows[kind], "state_mebibytes", measure, text=text)
        axes.set(
            xscale="log", xlabel="state (MiB)", ylabel="percent of test queries", xlim=(0.04, 70)
        )
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(visible=True, which="major", alpha=0.3)
    whole, top = panels
    for axes, kind, measure in (
        (whole, "hashed", "certified"),
        (whole, "Gaussian", "agreement"),
        (top, "hashed", "agreement"),
    ):
        for row in rows[kind]:
            if axes is top or row[measure] < _NEARLY_ALL:  # above that, the left panel has no room
                _name_point(axes, row, measure)
    whole.set(title=f"{rows['exact'][0]['examples']:,} stored examples", ylim=(0, 104))
    top.set(title=f"The same, above {_NEARLY_ALL} %", ylim=(_NEARLY_ALL, 100.4))
    whole.legend(frameon=False, fontsize=8, loc="lower right")
    figure.supxlabel(
        f"{_note(results)}; at the points of the hashed memory: reserved rows + buckets", fontsize=8
    )
    save_figure(figure, folder / "hashed-size")


def _growth_figure(results: dict[str, Any], folder: Path) -> None:
    figure, panels = new_panels(3)
    left, centre, right = panels
    rows = _by_kind(results["growth"])
    names = {kind: entries[0]["memory"] for kind, entries in rows.items()}
    numbers = [row["examples"] for row in rows["exact"]]
    # sizes are lines here, so they cross where the record says
    left.set(title="State", ylabel="MiB", yscale="log")
    left.set_yticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
    for kind in rows:
        _curve(left, rows[kind], "examples", "state_mebibytes", text=names[kind])
    for axes in (centre, right):
        for kind, measure in (
            ("hashed", "agreement"),
            ("hashed", "certified"),
            ("Gaussian", "agreement"),
        ):
            _curve(axes, rows[kind], "examples", measure, text=f"{names[kind]}: {measure}")
        axes.set(ylabel="percent of test queries")
    for axes in panels:
        axes.set(xscale="log", xlabel="stored examples")
        axes.set_xticks(numbers, [f"{n:,}" for n in numbers], fontsize=7.5)
        axes.minorticks_off()
        axes.grid(visible=True, which="major", alpha=0.3)
    _mark_crossing(left, results["crossing"])
    centre.set(title="Fidelity", ylim=(0, 104))
    right.set(title=f"The same, above {_GROWTH_TOP} %", ylim=(_GROWTH_TOP, 100.1))
    left.legend(framealpha=1, edgecolor="none", fontsize=8, loc="lower right")
    centre.legend(frameon=False, fontsize=8, loc="lower left")
    figure.supxlabel(_note(results), fontsize=8)
    save_figure(figure, folder / "hashed-growth")


def _by_kind(table: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {
        kind: [row for row in table if row["kind"] == kind]
        for kind in ("exact", "hashed", "Gaussian")
    }


def _note(results: dict[str, Any]) -> str:
    settings = results["settings"]
    return (
        f"WikiText-2, h = 8, 64 labels; {settings['repetitions']} draws and seeds, bars: "
        "standard deviation"
    )


def _curve(axes: Axes, rows: list[dict[str, Any]], place: str, measure: str, text: str) -> None:
    style = _MEMORY_STYLES[rows[0]["kind"], measure == "certified"]
    x, y = ([row[name] for row in rows] for name in (place, measure))
    axes.errorbar(
        x,
        y,
        yerr=[row[f"{measure}_sd"] or 0.0 for row in rows],
        capsize=2,
        **make_curve_options(style, text),
    )


def _name_point(axes: Axes, row: dict[str, Any], measure: str) -> None:
    """Write a memory's size to the lower right of its point, where a rising curve leaves room."""
    axes.annotate(
        row["memory"].partition(", ")[2],
        (row["state_mebibytes"], row[measure]),
        xytext=(5, -9),
        textcoords="offset points",
        fontsize=7,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.3},
    )


def _mark_crossing(axes: Axes, examples: int | None) -> None:
    if examples is None:
        return
    axes.axvline(examples, color="#666666", linestyle=":", lw=1)
    axes.annotate(
        f"exact table larger\nfrom {examples:,} on",
        (examples, 0.96),
        xycoords=("data", "axes fraction"),
        xytext=(-5, 0),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=8,
    )
