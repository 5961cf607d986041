"""The page on the real-data evaluation, written by the command: the paper's tables and ours, side by side.

The report of all experiments of the paper: every table, figure and claim, and one line for each figure.

A line has the paper's figure, ours, the standard error of their difference and a verdict: figures *agree* if they are
at most three standard errors apart. An error is that of a single draw, as the paper's, against our mean over draws.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.paper.experiments import bounds, synthetic, throughput
from hammemo.paper.experiments.measuring import Row, cells, table
from hammemo.paper.experiments.wikitext import MEASURES, PAPER, VARIANTS, TaskSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TITLES: Final = dict(zip(MEASURES, ("top-1", "top-5", "macro-F1", "agreement"), strict=True))
PAPER_DEVIATIONS: Final = {128: (0.79, 6.07), 256: (1.27, 3.16), 512: (0.40, 1.89), 1024: (0.76, 4.55)}
"""The paper's standard deviations over five codebooks at h = 8, by d: of top-1 and of agreement."""

_HOLDS: Final = {True: "holds", False: "does not hold", None: "too few draws to say"}
_MEANINGS: Final = {
    "agrees": "equal to the paper's figure, or at most three standard errors from it",
    "differs": "not equal, or more than three standard errors away",
    "holds": "a claim or a bound holds",
    "does not hold": "a claim or a bound does not hold",
    "too few draws to say": "the draws of this run cannot decide the claim",
    "not run": "needs a GPU, and none was available",
    "other processor": "the paper's hardware is different",
    "quick run: not compared": "samples are smaller than the paper's",
}
_BELOW: Final = ("bound on ", "Table 1: ")
_FINE: Final = ("agrees", "holds")
_COLUMNS: Final = "in the paper | its figure | ours | standard error | verdict"


def is_whole(results: Row) -> bool:
    """Return whether an evaluation used the paper's sample sizes; a quick one is not compared with the paper."""
    return tuple(results["settings"]["sizes"]) == TaskSettings().sizes


def report(results: Mapping[str, Row], evaluation: str, seconds: Mapping[str, float], run: str) -> str:
    """Return the whole report, from all results and the sections of the real-data evaluation; `run` says what ran."""
    times = [{"command": f"`hammemo reproduce {name}`", "seconds": f"{took:.0f}"} for name, took in seconds.items()]
    found, bounded = lines(results), results["bounds"]["bounds"]
    counts = Counter(line["verdict"] for line in found)
    told = [name for name in _MEANINGS if counts[name] or name in ("differs", "does not hold")]
    meanings = [{"verdict": name, "lines": counts[name], "meaning": _MEANINGS[name]} for name in told]
    # Tables below have the figures of other lines, which have nothing to warn of.
    listed = [line for line in found if not (line["item"].startswith(_BELOW) and line["verdict"] in _FINE)]
    parts = [
        "# The paper, reproduced",
        f"These are the results of {run}; do not edit this page. The run took "
        f"{sum(seconds.values()) / 60:.0f} minutes of wall time:",
        _shown(times),
        "## Verdicts",
        f"There are {len(found)} figures, claims and bounds:",
        _shown(meanings),
        "In section 6.1 the standard error is that of our figure, or of the difference between two of ours. For a "
        "bound it is the error of the share that is allowed. The paper's figures on WikiText-2 come from one draw of "
        "positions, so the error is that of a single draw against our mean over draws. Table 1 and the bounds have "
        "tables of their own below: of these, only what differs or does not hold is listed here.",
        _shown(listed, _COLUMNS, "{item} | {paper} | {ours} | {error} | {verdict}"),
        "## Synthetic validation",
        "Figure 1 of the paper, from this run:",
        "![Context error, output error and recovery against the dimension](figures/synthetic.png)",
        *_about_draws(results["synthetic"]),
        "## Bounds",
        f"Each bound divided by the largest realised error, as a median over {bounded[0]['draws']:,} draws. A bound "
        f"may fail in {100 * bounded[0]['delta']:.0f} % of the draws; in brackets is in how many it does:",
        bounds.markdown(bounded).strip(),
        "## WikiText-2",
        re.sub(r"^#", "##", evaluation, flags=re.MULTILINE).strip(),
    ]
    return "\n\n".join(parts) + "\n"


def _about_draws(results: Row) -> Iterator[str]:
    """Say what few draws cannot decide, and how far the slopes are from the paper's."""
    draws = results["settings"]["realisations"]
    if slopes := results["context_error_slopes"]:
        far = max(slopes, key=lambda row: abs(row["slope"] + 0.5) / row["error"])
        apart = abs(far["slope"] + 0.5) / far["error"]
        yield (
            f"The slopes of the context error should be -0.5. The one that is furthest from it, in standard errors, is "
            f"{far['slope']:.3f} at h = {far['h']}: {apart:.1f} standard errors."
        )
    if draws < synthetic.ENOUGH_REALISATIONS:
        yield (
            f"With {draws} draws of the codes (the paper has 160), the intervals of the slopes are wide, a small "
            "difference of agreement can be chance, and the lower limit of an agreement stays below 0.985 even if all "
            "draws agree. `hammemo reproduce synthetic` with 2,000 realisations decides these claims; the page on "
            "theory in the documentation shows its figures."
        )


def _shown(rows: Iterable[Mapping[str, Any]], *columns: str) -> str:
    return "\n".join(table(rows, *columns))


def lines(results: Mapping[str, Row]) -> list[Row]:
    """Return a line for every claim, bound and figure of the paper."""
    found = [*_synthetic_lines(results["synthetic"])]
    for row in results["bounds"]["bounds"]:
        allowed, share = row["delta"], row["violations"] / row["draws"]
        error = math.sqrt(allowed * (1 - allowed) / row["draws"])
        verdict = "holds" if share <= allowed + 3 * error else "does not hold"
        item = f"bound on {row['bound']} ({row['source']}), {row['data']}: share of draws that violate it"
        found.append(_line(item, f"at most {allowed:g}", f"{share:g}", f"{error:.2g}", verdict))
    return [*found, *_task_lines(results["wikitext"]), *_table_lines(results["wikitext"]), *_inference_lines(results)]


def deviations(results: Row) -> list[Row]:
    """Return the standard deviations over codebooks at h = 8: the mean over draws, its error, the paper's figure."""
    found = []
    for d in results["settings"]["dimensions"]:
        for i, name in enumerate(("top1", "agreement")):
            method = f"MeMo, d = {d}"
            drawn = [o["rows"][method][f"{name}_sd"] for o in results["draws"] if o["h"] == 8 and method in o["rows"]]
            if len(drawn) < 2:
                continue
            row = {"d": d, "measure": TITLES[name], "ours": float(np.mean(drawn)), "paper": PAPER_DEVIATIONS[d][i]}
            found.append({**row, "error": _single_draw_error(float(np.std(drawn, ddof=1)), len(drawn))})
    return found


def _synthetic_lines(results: Row) -> Iterator[Row]:
    planted = results["planted"].values()
    for name, title, paper in (
        ("winner", "ideal score of the winner", "40 and 112"),
        ("margin", "margin", "16 and 16"),
        ("collision_energy", "collision energy", "37,888 and 150,784"),
    ):
        ours = " and ".join(f"{instance[name]:,.0f}" for instance in planted)
        yield _equal(f"section 6.1: {title}, original and merged", paper, ours)
    for claim in synthetic.claims(results):
        item, verdict = f"section 6.1: {claim.text}", _HOLDS[claim.holds]
        yield _line(item, claim.paper, claim.figures, f"{claim.error:.2g}", verdict)
    for h in sorted({row["h"] for row in results["agreement"]}):
        shares = [row["agreement"] for row in results["agreement"] if (row["labels"], row["h"]) == ("original", h)]
        yield _rising(f"section 6.1: agreement rises with d, h = {h}", "figure only", shares)


def _task_lines(results: Row) -> Iterator[Row]:
    task, draws = results["task"], results["draws"]
    yield _equal("section 6.2: token types", "33,278", f"{task['types']:,}")
    for split, paper in (("train", "45.12"), ("test", "44.79")):
        ours = f"{task['coverage'][split]['percent']:.2f}"
        yield _equal(f"section 6.2: share of {split} positions with a candidate (%)", paper, ours)
    if is_whole(results):
        chosen = ", ".join(sorted({str(outcome["neighbours"]) for outcome in draws}))
        yield _equal("section 6.2: neighbours k, for every h", "25", chosen)
        least: dict[int, float] = {}  # "at least 99.34 %": for the context length with the fewest
        for outcome in draws:
            least[outcome["draw"]] = min(outcome["unambiguous"], least.get(outcome["draw"], 100.0))
        yield _over_draws("section 6.2: queries with one ideal winner, least over h (%)", 99.34, [*least.values()])


def _table_lines(results: Row) -> Iterator[Row]:
    if not is_whole(results):
        yield _line("Table 1 and its text", "", "", verdict="quick run: not compared")
        return
    rows = {row["method"]: row for row in results["table"] if row["h"] == 8}
    draws = results["settings"]["draws"]
    for method, figures in PAPER.items():
        for name, paper in zip(MEASURES, figures, strict=True):
            error = _single_draw_error(rows[method][f"{name}_sd"], draws)
            yield _compared(f"Table 1: {method}, {TITLES[name]} (%)", paper, rows[method][name], error)
    for row in deviations(results):
        item = f"Table 1: MeMo, d = {row['d']}, deviation of {row['measure']} over codebooks"
        yield _compared(item, row["paper"], row["ours"], row["error"])
    best = sorted(PAPER, key=lambda method: -float(rows[method]["top1"]))[:2]
    yield _equal("section 6.2: the two highest top-1", "linear SVM, suffix backoff", ", ".join(best))
    methods = ("sum prototype", "MeMo, d = 1024")
    pairs = [[o["rows"][method]["top1"] for method in methods] for o in results["draws"] if o["h"] == 8]
    gaps = [exact - memo for exact, memo in pairs]
    yield _over_draws("section 6.2: MeMo, d = 1024, top-1 below the sum prototype (points)", 0.80, gaps)
    for h in results["settings"]["context_lengths"]:
        rising = [row["agreement"] for row in results["table"] if row["h"] == h and row["method"].startswith("MeMo")]
        shown = "47.22 to 72.79" if h == 8 else "figure only"
        yield _rising(f"section 6.2: agreement rises with d, h = {h} (%)", shown, rising)


def _inference_lines(results: Mapping[str, Row]) -> Iterator[Row]:
    rows = {row["method"]: row for row in results["wikitext"]["inference"]}
    for method, (state, one, *batches) in throughput.PAPER.items():
        yield _equal(f"Table 2: {method}, state (MiB)", f"{state:.2f}", f"{rows[method]['mebibytes']:.2f}")
        paper = f"{one:.2f} µs; {batches[0]:.2f}, {batches[1]:.2f} Mq/s"
        yield _line(f"Table 2: {method}, times on a GPU", paper, "not run", verdict="not run")
    compared = ("sum prototype, dense", "MeMo two-stage, d = 1024", "MeMo fused, d = 512")
    dense, memo, fused = (rows[method]["mebibytes"] for method in compared)
    below = f"{100 - 100 * memo / dense:.0f}"
    yield _equal("section 6.2: two-stage memory below the dense table's, d = 1024 (%)", "68", below)
    yield _equal("section 6.2: the dense table over the fused memory, d = 512", "7.9", f"{dense / fused:.1f}")
    fast, slow = (rows[f"MeMo {form}, d = 1024"]["mega_queries_1024"] for form in ("fused", "two-stage"))
    ours = f"{fast:.2f} against {slow:.2f} Mq/s"
    paper = "16.37 against 3.21 Mq/s, on a GPU"
    yield _line("section 6.2: fused is faster than two-stage, d = 1024", paper, ours, verdict=_HOLDS[fast > slow])
    panel = [row["mega_queries"] for row in results["wikitext"]["throughput"]]
    ours = f"{min(panel):.2f} to {max(panel):.2f} Mq/s"
    yield _line("Figure 2, right: queries per second on a CPU", "figure only", ours, verdict="other processor")


def _single_draw_error(sd: float, draws: int) -> float:
    return sd * math.sqrt(1 + 1 / draws)


def _line(item: str, paper: str, ours: str, error: str = "", verdict: str = "") -> Row:
    return {"item": item, "paper": paper, "ours": ours, "error": error, "verdict": verdict}


def _equal(item: str, paper: str, ours: str) -> Row:
    return _line(item, paper, ours, "exact", "agrees" if paper == ours else "differs")


def _rising(item: str, paper: str, shares: list[float]) -> Row:
    ours = ", ".join(f"{share:.2f}" for share in shares)
    return _line(item, paper, ours, verdict=_HOLDS[shares == sorted(shares)])


def _over_draws(item: str, paper: float, drawn: list[float]) -> Row:
    error = _single_draw_error(float(np.std(drawn, ddof=1)), len(drawn))
    return _compared(item, paper, float(np.mean(drawn)), error)


def _compared(item: str, paper: float, ours: float, error: float) -> Row:
    agrees = abs(ours - paper) <= max(3 * error, 0.005)  # the paper has two decimals
    return _line(item, f"{paper:.2f}", f"{ours:.2f}", f"{error:.2f}", "agrees" if agrees else "differs")


_EACH = " | ".join(f"{{{name}}}" for name in MEASURES)
_BRACKETS = (
    " In brackets are the paper's figure and its distance from our mean, in standard errors of the difference between "
    "a single draw and our mean; distances above three are in bold."
)


def reproduction(results: Row) -> str:
    """Return the page of ``hammemo reproduce wikitext``."""
    title = "# Reproduction of the paper's real-data evaluation"
    note = "`hammemo reproduce wikitext` writes this page, and its numbers to `results.json`; do not edit it."
    return f"{title}\n\n{note}\n\n{evaluation(results)}"


def evaluation(results: Row, figure: str = "wikitext.png") -> str:
    """Return the sections of the page; `figure` is where they find the three panels."""
    settings, protocol, rows = results["settings"], results["protocol"], results["table"]
    draws, codebooks, size = settings["draws"], settings["codebooks"], settings["sizes"][0]
    whole = is_whole(results)
    warning = [] if whole else [f"**A quick run: {size:,} training examples, {draws} draws. Not for conclusions.**"]
    parts = [
        *warning,
        "## The task",
        *_task(results["task"]),
        "## Results at h = 8",
        f"Figures are percentages, as mean ± standard deviation over {draws} draws of positions (for MeMo, of the "
        f"mean over {codebooks} codebooks, new ones in every draw)." + (_BRACKETS if whole else ""),
        _comparison(_of_length(rows, 8, variants=False), "method", "{method}"),
        _choices(results["draws"]),
        *([_apart(rows)] if whole else []),
        _tie_rules(whole=whole),
        _comparison(_of_length(rows, 8, variants=True), "method", "{method}"),
        *(_deviations(results, codebooks) if whole else []),
        "Figure 2 of the paper, from this run:",
        f"![Top-1 accuracy, agreement with the exact classifier, and queries per second]({figure})",
        *_other_lengths(rows),
        "## Inference on this machine",
        f"Threads: {protocol['threads']}. As in the paper, times are medians of repeats after a warm-up: "
        f"{protocol['warm_up']} batches to warm up, {protocol['timed']} timed, {protocol['repeats']} repeats. In "
        "brackets are the paper's figures on an RTX 4060 Laptop GPU; the hardware differs, so speeds are not "
        "comparable. We have not measured a GPU: the CUDA path runs the same code through torch and is tested on "
        "torch's CPU device. The state of the sparse table is its canonical form, with its vocabulary; the SciPy "
        "product that is timed holds wider copies of it.",
        "\n".join(throughput.table_lines(results["inference"], beside_paper=True)),
        "Million queries per second by fused MeMo in batches of 512, on one core. The paper shows them in a figure, "
        "for an Intel Core i7-13700H:",
        _panel(results["throughput"]),
        *_whole_vocabulary(results["full_vocabulary"]),
    ]
    return "\n\n".join(parts) + "\n"


def _whole_vocabulary(rows: list[Row]) -> Iterator[str]:
    yield "## The whole vocabulary"
    yield (
        f"Every token is a candidate. There are {rows[0]['examples']:,} training positions with h = 8, and "
        f"{rows[0]['queries']:,} test positions drawn from all eligible ones. Seconds are wall time on this machine; "
        "MeMo has one codebook."
    )
    yield _shown(
        rows,
        "method | labels | agreement | top-1 | top-5 | state (MiB) | learn (s) | answer (s)",
        "{method} | {labels:,} | {agreement:.2f} | {top1:.2f} | {top5:.2f} | {state_mebibytes:.1f} | "
        "{learn_seconds:.2f} | {answer_seconds:.2f}",
    )


def _panel(rows: list[Row]) -> str:
    """Return MeMo's million queries a second on one core, by h and d: the right panel of the figure."""
    by_length: dict[int, dict[str, str]] = {}
    for row in rows:
        by_length.setdefault(row["h"], {"h": str(row["h"])})[f"d = {row['d']}"] = f"{row['mega_queries']:.2f}"
    return _shown(by_length.values())


def _task(task: Row) -> Iterator[str]:
    yield (
        f"There are {task['types']:,} token types. The table counts positions with at least 16 preceding tokens on "
        "their line, and those\nof them whose token is among the 64 most frequent training tokens without `<unk>`:"
    )
    in_paper = {"train": "45.12 %", "valid": "", "test": "44.79 %"}
    rows = [{"split": split, "paper": in_paper[split], **row} for split, row in task["coverage"].items()]
    names = "split | eligible | with a candidate | share | in the paper"
    yield _shown(rows, names, "{split} | {eligible:,} | {covered:,} | {percent:.2f} % | {paper}")


def _of_length(rows: list[Row], h: int, *, variants: bool) -> list[Row]:
    """Return the rows of one context length: the paper's methods, or those under our tie rules."""
    return [row for row in rows if row["h"] == h and (row["method"] in VARIANTS) == variants]


def _other_lengths(rows: list[Row]) -> Iterator[str]:
    lengths = [h for h in dict.fromkeys(row["h"] for row in rows) if h != 8]
    if lengths:
        yield "## Other context lengths"
        yield "The paper shows these results only in a figure."
        shown = [row for h in lengths for row in _of_length(rows, h, variants=False)]
        yield _comparison(shown, "h | method", "{h} | {method}")


def _comparison(rows: Iterable[Row], names: str, template: str) -> str:
    shown = ({**row, **{name: _beside_paper(row, name) for name in MEASURES}} for row in rows)
    return _shown(shown, " | ".join([names, *TITLES.values()]), f"{template} | {_EACH}")


def _beside_paper(row: Row, name: str) -> str:
    ours = cells(f"{{{name}±:.2f}}", row)
    if f"{name}_paper" not in row:
        return ours
    apart = row[f"{name}_apart"]
    shown = f"({row[f'{name}_paper']:.2f}; {apart:+.1f})"
    return f"{ours} **{shown}**" if abs(apart) > 3 else f"{ours} {shown}"


def _choices(draws: list[Row]) -> str:
    neighbours = ", ".join(map(str, sorted({outcome["neighbours"] for outcome in draws})))
    machines = sorted({f"{o['svm']['alpha']:g}{' (averaged)' if o['svm']['average'] else ''}" for o in draws})
    shares: dict[int, list[float]] = {}
    for outcome in draws:
        shares.setdefault(outcome["h"], []).append(outcome["unambiguous"])
    unique = ", ".join(f"{sum(found) / len(found):.2f} % (h = {h})" for h, found in shares.items())
    return (
        f"Chosen on validation: k = {neighbours} (the paper: 25); for the SVM, alpha = {' or '.join(machines)}.\n"
        f"The ideal winner is unique on {unique} of the queries, as means over draws (the paper: at least 99.34 %)."
    )


def _apart(rows: list[Row]) -> str:
    far = [
        f"{row['method']} {TITLES[name]} ({row[f'{name}_apart']:+.1f})"
        for row in _of_length(rows, 8, variants=False)
        for name in MEASURES
        if abs(row.get(f"{name}_apart", 0)) > 3
    ]
    return f"More than three standard errors apart: {'; '.join(far) or 'none'}."


def _deviations(results: Row, codebooks: int) -> Iterator[str]:
    yield "### Standard deviations over codebooks"
    yield (
        f"The paper gives the standard deviations of top-1 and agreement over {codebooks} codebooks at h = 8. Ours\n"
        "are means over the draws; the error is that of a single draw against this mean."
    )
    each = "{d} | {measure} | {paper:.2f} | {ours:.2f} | {error:.2f}"
    yield _shown(deviations(results), "d | measure | in the paper | ours | standard error", each)


def _tie_rules(*, whole: bool) -> str:
    close = " That is close to the paper's figures." if whole else ""
    return (
        "Two methods depend on rules that the paper does not state: how suffix back-off ranks labels that never\n"
        "followed the longest known suffix, and which label wins if neighbours' votes are equal. In the table above,\n"
        f"the label that is more frequent overall wins.{close}\n"
        "The library's defaults, which look at shorter suffixes and at summed similarity, give:"
    )
