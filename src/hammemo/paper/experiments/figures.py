"""The figures of the experiments, as PNG and SVG. They need the ``plot`` extra.

Colours are Okabe and Ito's, which people with any colour vision tell apart; markers and line styles
repeat what the colours say.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hammemo.paper.experiments.wikitext import PAPER

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hammemo.paper.experiments.measuring import Row

Style = tuple[str, str, str]
"""Colour, marker and line of a curve."""
BLUE = "#0072B2"
ORANGE = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
_STYLES = {4: (BLUE, "o", "-"), 8: (ORANGE, "s", "--"), 16: (GREEN, "^", "-.")}
_LABEL_STYLES = {"original": (ORANGE, "s", "--"), "merged": (PURPLE, "D", ":")}


def require_matplotlib() -> None:
    """Say what to install where Matplotlib is missing, before any work is done."""
    if find_spec("matplotlib") is None:
        raise SystemExit("Figures need Matplotlib: pip install 'hammemo[plot]'")


def synthetic_figure(results: Row, folder: Path) -> None:
    """Draw the three panels of the synthetic validation."""
    figure, (left, centre, right) = new_panels(3)
    for h in sorted({row["h"] for row in results["context_error"]}):
        rows = [row for row in results["context_error"] if row["h"] == h]
        _band(left, rows, _STYLES[h], f"h = {h}")
    left.set(title="Context sketch", ylabel="max |G - S| / M_max", yscale="log")
    for name, style in _LABEL_STYLES.items():
        rows = [row for row in results["output_error"] if row["labels"] == name]
        _band(centre, rows, style, f"{name} labels")
    centre.set(title="Output decoding of exact scores", ylabel="max |decoded - S|", yscale="log")
    for name, h, style, text in _agreement_curves(results):
        rows = [row for row in results["agreement"] if row["labels"] == name and row["h"] == h]
        _intervals(right, rows, style, text)
    right.set(
        title="Recovery by the complete model",
        ylabel="agreement with the ideal winner",
        ylim=(-0.03, 1.03),
    )
    _dimensions((left, centre, right), results["agreement"])
    number = results["settings"]["realisations"]
    figure.supxlabel(
        f"{number} realisations; bands: 10 to 90 %, bars: Wilson 95 % intervals", fontsize=8
    )
    save_figure(figure, folder / "synthetic")


def wikitext_figure(results: Row, folder: Path) -> None:
    """Draw the three panels of the real-data evaluation."""
    figure, (left, centre, right) = new_panels(3)
    lengths = sorted({row["h"] for row in results["table"]})
    _accuracy_bars(left, results["table"], lengths)
    for h in lengths:
        rows = [
            row for row in results["table"] if row["h"] == h and row["method"].startswith("MeMo")
        ]
        bands = []
        for row in rows:
            d = int(row["method"].rpartition("= ")[2])
            mean = row["agreement"]
            sd = row["agreement_codebook_sd"]
            bands.append({"d": d, "median": mean, "p10": mean - sd, "p90": mean + sd})
        _band(centre, bands, _STYLES[h], f"h = {h}")
        panel = [row for row in results["throughput"] if row["h"] == h]
        dimensions = [row["d"] for row in panel]
        rates = [row["mega_queries"] for row in panel]
        right.plot(dimensions, rates, **curve_style(_STYLES[h], f"h = {h}"))
    centre.set(title="MeMo against the exact classifier", ylabel="agreement (%)")
    right.set(
        title="MeMo on one core, batches of 512", ylabel="million queries per second", yscale="log"
    )
    _dimensions((centre, right), results["throughput"])
    settings = results["settings"]
    note = (
        f"{settings['draws']} draws of {settings['sizes'][0]:,} examples; bars: "
        "standard deviation over draws, "
    )
    note += f"bands: over {settings['codebooks']} codebooks; best MeMo: the best d at each h"
    figure.supxlabel(note, fontsize=8)
    save_figure(figure, folder / "wikitext")


def _accuracy_bars(axes: Axes, table: list[Row], lengths: list[int]) -> None:
    """Draw top-1 of the five baselines and of the best MeMo dimension as bars, grouped by h."""
    shades = ["#000000", "#999999", ORANGE, BLUE, PURPLE, GREEN]
    baselines = [name for name in PAPER if not name.startswith("MeMo")]
    width = 0.8 / (len(baselines) + 1)
    for i, name in enumerate([*baselines, "best MeMo"]):
        rows = [_best_row(table, name, h) for h in lengths]
        places = [j + (i - len(baselines) / 2) * width for j in range(len(lengths))]
        axes.bar(
            places,
            [row["top1"] for row in rows],
            width,
            yerr=[row["top1_sd"] for row in rows],
            color=shades[i],
            label=name,
            error_kw={"lw": 0.8},
        )
    axes.set_xticks(range(len(lengths)), [f"h = {h}" for h in lengths])
    axes.set(title="Top-1 accuracy", ylabel="percent", ylim=(0, 52))
    axes.legend(frameon=False, fontsize=7, ncols=2, loc="upper center")
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis="y", alpha=0.3)


def _best_row(table: list[Row], name: str, h: int) -> Row:
    rows = [row for row in table if row["h"] == h]
    if name == "best MeMo":
        memo_rows = [row for row in rows if row["method"].startswith("MeMo")]
        return max(memo_rows, key=lambda row: float(row["top1"]))
    return next(row for row in rows if row["method"] == name)


def _agreement_curves(results: Row) -> list[tuple[str, int, Style, str]]:
    lengths = sorted({row["h"] for row in results["agreement"]})
    curves = [("original", h, _STYLES[h], f"h = {h}") for h in lengths]
    merged = sorted({row["h"] for row in results["agreement"] if row["labels"] == "merged"})
    return curves + [
        ("merged", h, _LABEL_STYLES["merged"], f"h = {h}, merged labels") for h in merged
    ]


def new_panels(number: int) -> tuple[Figure, Any]:
    """Return a figure and its panels, side by side."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "hammemo"  # the same figure gives the same file
    figure = Figure(figsize=(4.2 * number, 3.6), layout="constrained")
    return figure, figure.subplots(1, number)


def _dimensions(panels: tuple[Axes, ...], rows: list[Row]) -> None:
    """Let panels have d as their x axis, a grid and a legend."""
    dimensions = sorted({row["d"] for row in rows})
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xticks(dimensions, [str(d) for d in dimensions])
        axes.set_xlabel("d")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend(frameon=False, fontsize=8)


def curve_style(style: Style, text: str) -> Row:
    """Return how a curve is drawn, for `plot` and `errorbar`."""
    colour, marker, line = style
    size = 9 if marker == "*" else 4
    return {"color": colour, "marker": marker, "linestyle": line, "markersize": size, "label": text}


def _band(axes: Axes, rows: list[Row], style: Style, text: str) -> None:
    dimensions = [row["d"] for row in rows]
    axes.plot(dimensions, [row["median"] for row in rows], **curve_style(style, text))
    low = [row["p10"] for row in rows]
    high = [row["p90"] for row in rows]
    axes.fill_between(dimensions, low, high, color=style[0], alpha=0.15, lw=0)


def _intervals(axes: Axes, rows: list[Row], style: Style, text: str) -> None:
    dimensions = [row["d"] for row in rows]
    shares = [row["agreement"] for row in rows]
    below = []
    above = []
    for row in rows:
        low, high = row["wilson_95%"]
        below.append(max(row["agreement"] - low, 0.0))
        above.append(max(high - row["agreement"], 0.0))
    style_options = curve_style(style, text)
    axes.errorbar(dimensions, shares, yerr=[below, above], capsize=2, **style_options)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG and SVG."""
    figure.savefig(path.with_suffix(".png"), dpi=160)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
