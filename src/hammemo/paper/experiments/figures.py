"""The figures of the experiments, as PNG and SVG. They need the ``plot`` extra.

Colours are Okabe and Ito's, which people with any colour vision tell apart; markers and line styles
repeat what the colours say.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hammemo.paper.experiments.wikitext import PAPER

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hammemo.paper.experiments.measuring import Row


class CurveStyle(NamedTuple):
    """How a curve looks, as Matplotlib names these."""

    colour: str
    marker: str
    line: str


class _CurveRange(NamedTuple):
    """A curve over d, with a range around each of its points."""

    dimensions: list[int]
    middle: list[float]
    low: list[float]
    high: list[float]


BLUE: Final = "#0072B2"
ORANGE: Final = "#D55E00"
GREEN: Final = "#009E73"
PURPLE: Final = "#CC79A7"

_LENGTH_STYLES: Final = {
    4: CurveStyle(BLUE, "o", "-"),
    8: CurveStyle(ORANGE, "s", "--"),
    16: CurveStyle(GREEN, "^", "-."),
}
"""By h."""

_LABEL_STYLES: Final = {
    "original": CurveStyle(ORANGE, "s", "--"),
    "merged": CurveStyle(PURPLE, "D", ":"),
}

_MEMO_PREFIX: Final = "MeMo, d = "
"""How the names of methods that are MeMo begin; d follows."""


def require_matplotlib() -> None:
    """Say what to install where Matplotlib is missing, before any work is done."""
    if find_spec("matplotlib") is None:
        raise SystemExit("Figures need Matplotlib: pip install 'hammemo[plot]'")


def synthetic_figure(results: Row, folder: Path) -> None:
    """Draw the three panels of the synthetic validation."""
    figure, (left, centre, right) = new_panels(3)
    for h in sorted({row["h"] for row in results["context_error"]}):
        rows = [row for row in results["context_error"] if row["h"] == h]
        _draw_band(left, _read_quantiles(rows), _LENGTH_STYLES[h], f"h = {h}")
    left.set(title="Context sketch", ylabel="max |G - S| / M_max", yscale="log")
    for name, style in _LABEL_STYLES.items():
        rows = [row for row in results["output_error"] if row["labels"] == name]
        _draw_band(centre, _read_quantiles(rows), style, f"{name} labels")
    centre.set(title="Output decoding of exact scores", ylabel="max |decoded - S|", yscale="log")
    for name, h, style, text in _agreement_curves(results):
        rows = [row for row in results["agreement"] if row["labels"] == name and row["h"] == h]
        _draw_agreement(right, rows, style, text)
    right.set(
        title="Recovery by the complete model",
        ylabel="agreement with the ideal winner",
        ylim=(-0.03, 1.03),
    )
    _draw_dimensions((left, centre, right), results["agreement"])
    number = results["settings"]["realisations"]
    figure.supxlabel(
        f"{number} realisations; bands: 10 to 90 %, bars: Wilson 95 % intervals", fontsize=8
    )
    save_figure(figure, folder / "synthetic")


def wikitext_figure(results: Row, folder: Path) -> None:
    """Draw the three panels of the real-data evaluation."""
    figure, (left, centre, right) = new_panels(3)
    lengths = sorted({row["h"] for row in results["table"]})
    _draw_accuracy_bars(left, results["table"], lengths)
    for h in lengths:
        style = _LENGTH_STYLES[h]
        memo_rows = _select_memo_rows(results["table"], h)
        _draw_band(centre, _read_codebook_spread(memo_rows), style, f"h = {h}")
        speeds = [row for row in results["throughput"] if row["h"] == h]
        dimensions = [row["d"] for row in speeds]
        rates = [row["mega_queries"] for row in speeds]
        right.plot(dimensions, rates, **make_curve_options(style, f"h = {h}"))
    centre.set(title="MeMo against the exact classifier", ylabel="agreement (%)")
    right.set(
        title="MeMo on one core, batches of 512", ylabel="million queries per second", yscale="log"
    )
    _draw_dimensions((centre, right), results["throughput"])
    settings = results["settings"]
    note = (
        f"{settings['draws']} draws of {settings['sizes'][0]:,} examples; bars: "
        "standard deviation over draws, "
        f"bands: over {settings['codebooks']} codebooks; best MeMo: the best d at each h"
    )
    figure.supxlabel(note, fontsize=8)
    save_figure(figure, folder / "wikitext")


def _read_quantiles(rows: list[Row]) -> _CurveRange:
    """Return the median of each d, and the range from 10 to 90 %."""
    return _CurveRange(
        dimensions=[row["d"] for row in rows],
        middle=[row["median"] for row in rows],
        low=[row["p10"] for row in rows],
        high=[row["p90"] for row in rows],
    )


def _read_codebook_spread(memo_rows: list[Row]) -> _CurveRange:
    """Return the mean agreement of each d, and one standard deviation over codebooks around it."""
    means = [row["agreement"] for row in memo_rows]
    deviations = [row["agreement_codebook_sd"] for row in memo_rows]
    return _CurveRange(
        dimensions=[int(row["method"].removeprefix(_MEMO_PREFIX)) for row in memo_rows],
        middle=means,
        low=[mean - sd for mean, sd in zip(means, deviations, strict=True)],
        high=[mean + sd for mean, sd in zip(means, deviations, strict=True)],
    )


def _draw_accuracy_bars(axes: Axes, table: list[Row], lengths: list[int]) -> None:
    """Draw top-1 of the five baselines and of the best MeMo dimension as bars, grouped by h."""
    baselines = [name for name in PAPER if not name.startswith(_MEMO_PREFIX)]
    groups = {name: [_find_row(table, name, h) for h in lengths] for name in baselines}
    groups["best MeMo"] = [_find_best_memo_row(table, h) for h in lengths]
    shades = ["#000000", "#999999", ORANGE, BLUE, PURPLE, GREEN]
    width = 0.8 / len(groups)
    for i, (name, rows) in enumerate(groups.items()):
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


def _find_row(table: list[Row], method: str, h: int) -> Row:
    return next(row for row in table if row["h"] == h and row["method"] == method)


def _find_best_memo_row(table: list[Row], h: int) -> Row:
    """Return the row of the dimension whose top-1 is highest."""
    return max(_select_memo_rows(table, h), key=lambda row: float(row["top1"]))


def _select_memo_rows(table: list[Row], h: int) -> list[Row]:
    """Return the rows of MeMo with contexts of h tokens, one for each d."""
    return [row for row in table if row["h"] == h and row["method"].startswith(_MEMO_PREFIX)]


def _agreement_curves(results: Row) -> list[tuple[str, int, CurveStyle, str]]:
    """Return the labels, the h, the style and the text of each curve of the right panel."""
    lengths = sorted({row["h"] for row in results["agreement"]})
    curves = [("original", h, _LENGTH_STYLES[h], f"h = {h}") for h in lengths]
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


def _draw_dimensions(panels: tuple[Axes, ...], rows: list[Row]) -> None:
    """Give panels d as their x axis, with a tick for each d of the rows, a grid and a legend."""
    dimensions = sorted({row["d"] for row in rows})
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xticks(dimensions, [str(d) for d in dimensions])
        axes.set_xlabel("d")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend(frameon=False, fontsize=8)


def make_curve_options(style: CurveStyle, label: str) -> dict[str, Any]:
    """Return a style and the label in the legend as keywords of `plot` and `errorbar`."""
    return {
        "color": style.colour,
        "marker": style.marker,
        "linestyle": style.line,
        "markersize": 9 if style.marker == "*" else 4,  # a star of size 4 looks like a dot
        "label": label,
    }


def _draw_band(axes: Axes, band: _CurveRange, style: CurveStyle, label: str) -> None:
    axes.plot(band.dimensions, band.middle, **make_curve_options(style, label))
    axes.fill_between(band.dimensions, band.low, band.high, color=style.colour, alpha=0.15, lw=0)


def _draw_agreement(axes: Axes, rows: list[Row], style: CurveStyle, label: str) -> None:
    """Draw the agreement of each d, with its Wilson interval as an error bar."""
    dimensions = [row["d"] for row in rows]
    shares = [row["agreement"] for row in rows]
    # Matplotlib wants the lengths of error bars. Rounding may put an end on the wrong side of a
    # share of 0 or 1, and negative lengths are refused.
    below = []
    above = []
    for row in rows:
        low, high = row["wilson_95%"]
        below.append(max(row["agreement"] - low, 0.0))
        above.append(max(high - row["agreement"], 0.0))
    options = make_curve_options(style, label)
    axes.errorbar(dimensions, shares, yerr=[below, above], capsize=2, **options)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG and SVG."""
    figure.savefig(path.with_suffix(".png"), dpi=160)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
