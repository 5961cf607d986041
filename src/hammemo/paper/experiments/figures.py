"""The figures of the experiments, as PNG and SVG. They need the ``plot`` extra.

Colours are Okabe and Ito's, which people with any colour vision tell apart; markers and line styles repeat what the
colours say.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hammemo.paper.experiments.wikitext import PAPER

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Style = tuple[str, str, str]
"""Colour, marker and line of a curve."""
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_STYLES = {4: (BLUE, "o", "-"), 8: (ORANGE, "s", "--"), 16: (GREEN, "^", "-.")}
_MEMORY_STYLES = {  # by kind, and whether proofs are counted
    ("hashed", False): (BLUE, "o", "-"),
    ("hashed", True): (GREEN, "^", "--"),
    ("Gaussian", False): (ORANGE, "s", "-."),
    ("exact", False): ("#000000", "*", "-"),
}
_NEARLY_ALL, _GROWTH_TOP = 90, 96
_LABEL_STYLES = {"original": (ORANGE, "s", "--"), "merged": (PURPLE, "D", ":")}


def require_matplotlib() -> None:
    """Say what to install where Matplotlib is missing, before any work is done."""
    if find_spec("matplotlib") is None:
        raise SystemExit("Figures need Matplotlib: pip install 'hammemo[plot]'")


def synthetic_figure(results: dict[str, Any], folder: Path) -> None:
    """Draw the three panels of the synthetic validation."""
    figure, (left, centre, right) = _panels(3)
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
    right.set(title="Recovery by the complete model", ylabel="agreement with the ideal winner", ylim=(-0.03, 1.03))
    _dimensions((left, centre, right), results["agreement"])
    number = results["settings"]["realisations"]
    figure.supxlabel(f"{number} realisations; bands: 10 to 90 %, bars: Wilson 95 % intervals", fontsize=8)
    _save(figure, folder / "synthetic")


def wikitext_figure(results: dict[str, Any], folder: Path) -> None:
    """Draw the three panels of the real-data evaluation."""
    figure, (left, centre, right) = _panels(3)
    lengths = sorted({row["h"] for row in results["table"]})
    _accuracy_bars(left, results["table"], lengths)
    for h in lengths:
        rows = [row for row in results["table"] if row["h"] == h and row["method"].startswith("MeMo")]
        bands = []
        for row in rows:
            mean, sd = row["agreement"], row["agreement_codebook_sd"]
            d = int(row["method"].rpartition("= ")[2])
            bands.append({"d": d, "median": mean, "p10": mean - sd, "p90": mean + sd})
        _band(centre, bands, _STYLES[h], f"h = {h}")
        panel = [row for row in results["throughput"] if row["h"] == h]
        right.plot(
            [row["d"] for row in panel], [row["mega_queries"] for row in panel], **_drawn(_STYLES[h], f"h = {h}")
        )
    centre.set(title="MeMo against the exact classifier", ylabel="agreement (%)")
    right.set(title="MeMo on one core, batches of 512", ylabel="million queries a second", yscale="log")
    _dimensions((centre, right), results["throughput"])
    settings = results["settings"]
    note = f"{settings['draws']} draws of {settings['sizes'][0]:,} examples; bars: standard deviation over draws, "
    figure.supxlabel(
        f"{note}bands: over {settings['codebooks']} codebooks; best MeMo: the best d at each h", fontsize=8
    )
    _save(figure, folder / "wikitext")


def fidelity_figures(results: dict[str, Any], folder: Path) -> None:
    """Draw fidelity against the size of the state, and sizes and fidelity as the stored examples grow."""
    _size_figure(results, folder)
    _growth_figure(results, folder)


def _size_figure(results: dict[str, Any], folder: Path) -> None:
    figure, panels = _panels(2)
    rows = _by_kind(results["size"])
    for axes in panels:
        for kind, measure, text in (
            ("hashed", "agreement", "hashed: agreement"),
            ("hashed", "certified", "hashed: certified"),
            ("exact", "agreement", "sparse exact table: both"),
            ("Gaussian", "agreement", "Gaussian: agreement"),
        ):
            _curve(axes, rows[kind], "state_mebibytes", measure, text)
        axes.set(xscale="log", xlabel="state (MiB)", ylabel="percent of test queries", xlim=(0.04, 70))
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
    figure.supxlabel(f"{_note(results)}; at the points of the hashed memory: reserved rows + buckets", fontsize=8)
    _save(figure, folder / "hashed-size")


def _growth_figure(results: dict[str, Any], folder: Path) -> None:
    figure, panels = _panels(3)
    left, centre, right = panels
    rows = _by_kind(results["growth"])
    names = {kind: entries[0]["memory"] for kind, entries in rows.items()}
    numbers = [row["examples"] for row in rows["exact"]]
    left.set(title="State", ylabel="MiB", yscale="log")  # sizes are lines here, so they cross where the record says
    left.set_yticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
    for kind in rows:
        _curve(left, rows[kind], "examples", "state_mebibytes", names[kind])
    for axes in (centre, right):
        for kind, measure in (("hashed", "agreement"), ("hashed", "certified"), ("Gaussian", "agreement")):
            _curve(axes, rows[kind], "examples", measure, f"{names[kind]}: {measure}")
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
    _save(figure, folder / "hashed-growth")


def _by_kind(table: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {kind: [row for row in table if row["kind"] == kind] for kind in ("exact", "hashed", "Gaussian")}


def _note(results: dict[str, Any]) -> str:
    settings = results["settings"]
    return f"WikiText-2, h = 8, 64 labels; {settings['repetitions']} draws and seeds, bars: standard deviation"


def _curve(axes: Axes, rows: list[dict[str, Any]], place: str, measure: str, text: str) -> None:
    style = _MEMORY_STYLES[rows[0]["kind"], measure == "certified"]
    x, y = ([row[name] for row in rows] for name in (place, measure))
    axes.errorbar(x, y, yerr=[row[f"{measure}_sd"] or 0.0 for row in rows], capsize=2, **_drawn(style, text))


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


def _accuracy_bars(axes: Axes, table: list[dict[str, Any]], lengths: list[int]) -> None:
    """Draw top-1 of the five baselines and of the best MeMo dimension, a group of bars for each h."""
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


def _best_row(table: list[dict[str, Any]], name: str, h: int) -> dict[str, Any]:
    if name == "best MeMo":
        return max((r for r in table if r["h"] == h and r["method"].startswith("MeMo")), key=lambda r: float(r["top1"]))
    return next(row for row in table if row["h"] == h and row["method"] == name)


def _agreement_curves(results: dict[str, Any]) -> list[tuple[str, int, Style, str]]:
    lengths = sorted({row["h"] for row in results["agreement"]})
    curves = [("original", h, _STYLES[h], f"h = {h}") for h in lengths]
    merged = sorted({row["h"] for row in results["agreement"] if row["labels"] == "merged"})
    return curves + [("merged", h, _LABEL_STYLES["merged"], f"h = {h}, merged labels") for h in merged]


def _panels(number: int) -> tuple[Figure, Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "hammemo"  # the same figure gives the same file
    figure = Figure(figsize=(4.2 * number, 3.6), layout="constrained")
    return figure, figure.subplots(1, number)


def _dimensions(panels: tuple[Axes, ...], rows: list[dict[str, Any]]) -> None:
    """Let panels have d as their x axis, a grid and a legend."""
    dimensions = sorted({row["d"] for row in rows})
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xticks(dimensions, [str(d) for d in dimensions])
        axes.set_xlabel("d")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend(frameon=False, fontsize=8)


def _drawn(style: Style, text: str) -> dict[str, Any]:
    """Return how a curve is drawn, for `plot` and `errorbar`."""
    colour, marker, line = style
    size = 9 if marker == "*" else 4
    return {"color": colour, "marker": marker, "linestyle": line, "markersize": size, "label": text}


def _band(axes: Axes, rows: list[dict[str, Any]], style: Style, text: str) -> None:
    d, middle, low, high = ([row[name] for row in rows] for name in ("d", "median", "p10", "p90"))
    axes.plot(d, middle, **_drawn(style, text))
    axes.fill_between(d, low, high, color=style[0], alpha=0.15, lw=0)


def _intervals(axes: Axes, rows: list[dict[str, Any]], style: Style, text: str) -> None:
    d, values, ends = ([row[name] for row in rows] for name in ("d", "agreement", "wilson_95%"))
    low = [max(value - end[0], 0.0) for value, end in zip(values, ends, strict=True)]
    high = [max(end[1] - value, 0.0) for value, end in zip(values, ends, strict=True)]
    axes.errorbar(d, values, yerr=[low, high], capsize=2, **_drawn(style, text))


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path.with_suffix(".png"), dpi=160)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
