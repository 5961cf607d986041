"""The two pages that the experiments write: the report of all, and the real-data evaluation.

The report has one line for every figure, claim and bound of the paper: the paper's figure, ours,
the standard error of their difference and a verdict. Figures *agree* if they are at most three
standard errors apart. An error is that of a single draw, as the paper's, against our mean over
draws. The evaluation shows the paper's tables and ours side by side.
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
PAPER_DEVIATIONS: Final = {
    128: (0.79, 6.07),
    256: (1.27, 3.16),
    512: (0.40, 1.89),
    1024: (0.76, 4.55),
}
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
    """Return whether an evaluation used the paper's sample sizes, and may be compared with it."""
    return tuple(results["settings"]["sizes"]) == TaskSettings().sizes


def report(
    results: Mapping[str, Row], evaluation: str, seconds: Mapping[str, float], run: str
) -> str:
    """Return the whole report.

    Parameters
    ----------
    results : mapping
        The results of all experiments, by name.
    evaluation : str
        The sections of the real-data evaluation.
    seconds : mapping
        How long each command took.
    run : str
        What ran, in words.
    """
    times = [
        {"command": f"`hammemo reproduce {name}`", "seconds": f"{duration:.0f}"}
        for name, duration in seconds.items()
    ]
    all_lines = lines(results)
    bound_rows = results["bounds"]["bounds"]
    counts = Counter(line["verdict"] for line in all_lines)
    meanings = [
        {"verdict": verdict, "lines": counts[verdict], "meaning": meaning}
        for verdict, meaning in _MEANINGS.items()
        if counts[verdict] or verdict in ("differs", "does not hold")
    ]
    # Tables below have the figures of other lines, which have nothing to warn of.
    listed = [
        line
        for line in all_lines
        if not (line["item"].startswith(_BELOW) and line["verdict"] in _FINE)
    ]
    sections = [
        "# The paper, reproduced",
        f"These are the results of {run}; do not edit this page. "
        f"The run took {sum(seconds.values()) / 60:.0f} minutes of wall time:",
        _format_table(times),
        "## Verdicts",
        f"There are {len(all_lines)} figures, claims and bounds:",
        _format_table(meanings),
        "In section 6.1 the standard error is that of our figure, or of the difference between "
        "two of ours. For a bound it is the error of the share that is allowed. The paper's "
        "figures on WikiText-2 come from one draw of positions, so the error is that of a single "
        "draw against our mean over draws. Table 1 and the bounds have tables of their own below: "
        "of these, only what differs or does not hold is listed here.",
        _format_table(listed, _COLUMNS, "{item} | {paper} | {ours} | {error} | {verdict}"),
        "## Synthetic validation",
        "Figure 1 of the paper, from this run:",
        "![Context error, output error and recovery against the dimension](figures/synthetic.png)",
        *_about_draws(results["synthetic"]),
        "## Bounds",
        "Each bound divided by the largest realised error, "
        f"as a median over {bound_rows[0]['draws']:,} draws. A bound may fail in "
        f"{100 * bound_rows[0]['delta']:.0f} % of the draws; in brackets is in how many it does:",
        bounds.markdown(bound_rows).strip(),
        "## WikiText-2",
        re.sub(r"^#", "##", evaluation, flags=re.MULTILINE).strip(),
    ]
    return "\n\n".join(sections) + "\n"


def _about_draws(results: Row) -> Iterator[str]:
    """Say what few draws cannot decide, and how far the slopes are from the paper's."""
    draws = results["settings"]["realisations"]
    if slopes := results["context_error_slopes"]:
        furthest = max(slopes, key=_slope_distance)
        yield (
            "The slopes of the context error should be -0.5. The one that is furthest from it, "
            f"in standard errors, is {furthest['slope']:.3f} at h = {furthest['h']}: "
            f"{_slope_distance(furthest):.1f} standard errors."
        )
    if draws < synthetic.ENOUGH_REALISATIONS:
        yield (
            f"With {draws} draws of the codes (the paper has 160), "
            "the intervals of the slopes are wide, a small difference of agreement can be chance, "
            "and the lower limit of an agreement stays below 0.985 even if all draws agree. "
            "`hammemo reproduce synthetic` with 2,000 realisations decides these claims; "
            "the page on theory in the documentation shows its figures."
        )


def _slope_distance(row: Row) -> float:
    """Return how many standard errors a slope is from the paper's."""
    return float(abs(row["slope"] + 0.5) / row["error"])


def _format_table(
    rows: Iterable[Mapping[str, Any]], names: str | None = None, template: str | None = None
) -> str:
    return "\n".join(table(rows, names, template))


def lines(results: Mapping[str, Row]) -> list[Row]:
    """Return a line for every claim, bound and figure of the paper."""
    return [
        *_synthetic_lines(results["synthetic"]),
        *_bound_lines(results["bounds"]["bounds"]),
        *_task_lines(results["wikitext"]),
        *_table_lines(results["wikitext"]),
        *_inference_lines(results),
    ]


def deviations(results: Row) -> list[Row]:
    """Return the standard deviations over codebooks at h = 8.

    Each row has the mean over draws, its error and the paper's figure.
    """
    rows = []
    for d in results["settings"]["dimensions"]:
        method = f"MeMo, d = {d}"
        outcomes = [
            outcome["rows"][method]
            for outcome in results["draws"]
            if outcome["h"] == 8 and method in outcome["rows"]
        ]
        if len(outcomes) < 2:
            continue
        for name, paper in zip(("top1", "agreement"), PAPER_DEVIATIONS[d], strict=True):
            over_draws = [outcome[f"{name}_sd"] for outcome in outcomes]
            sd = float(np.std(over_draws, ddof=1))
            rows.append(
                {
                    "d": d,
                    "measure": TITLES[name],
                    "ours": float(np.mean(over_draws)),
                    "paper": paper,
                    "error": _single_draw_error(sd, len(over_draws)),
                }
            )
    return rows


def _bound_lines(rows: list[Row]) -> Iterator[Row]:
    for row in rows:
        allowed = row["delta"]
        share = row["violations"] / row["draws"]
        error = math.sqrt(allowed * (1 - allowed) / row["draws"])
        yield _line(
            f"bound on {row['bound']} ({row['source']}), {row['data']}: "
            "share of draws that violate it",
            f"at most {allowed:g}",
            f"{share:g}",
            error=f"{error:.2g}",
            verdict="holds" if share <= allowed + 3 * error else "does not hold",
        )


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
        yield _line(
            f"section 6.1: {claim.text}",
            claim.paper,
            claim.figures,
            error=f"{claim.error:.2g}",
            verdict=_HOLDS[claim.holds],
        )
    original_rows = [row for row in results["agreement"] if row["labels"] == "original"]
    for h in sorted({row["h"] for row in results["agreement"]}):
        shares = [row["agreement"] for row in original_rows if row["h"] == h]
        yield _rising(f"section 6.1: agreement rises with d, h = {h}", "figure only", shares)


def _task_lines(results: Row) -> Iterator[Row]:
    task = results["task"]
    draws = results["draws"]
    yield _equal("section 6.2: token types", "33,278", f"{task['types']:,}")
    for split, paper in (("train", "45.12"), ("test", "44.79")):
        ours = f"{task['coverage'][split]['percent']:.2f}"
        yield _equal(f"section 6.2: share of {split} positions with a candidate (%)", paper, ours)
    if is_whole(results):
        neighbours = ", ".join(sorted({str(outcome["neighbours"]) for outcome in draws}))
        yield _equal("section 6.2: neighbours k, for every h", "25", neighbours)
        # The paper's "at least 99.34 %" is for the context length with the fewest.
        least: dict[int, float] = {}
        for outcome in draws:
            draw = outcome["draw"]
            least[draw] = min(outcome["unambiguous"], least.get(draw, 100.0))
        item = "section 6.2: queries with one ideal winner, least over h (%)"
        yield _over_draws(item, 99.34, [*least.values()])


def _table_lines(results: Row) -> Iterator[Row]:
    if not is_whole(results):
        yield _line("Table 1 and its text", "", "", verdict="quick run: not compared")
        return
    rows = {row["method"]: row for row in results["table"] if row["h"] == 8}
    draws = results["settings"]["draws"]
    for method, figures in PAPER.items():
        for name, paper in zip(MEASURES, figures, strict=True):
            error = _single_draw_error(rows[method][f"{name}_sd"], draws)
            yield _compare(
                f"Table 1: {method}, {TITLES[name]} (%)", paper, rows[method][name], error
            )
    for row in deviations(results):
        item = f"Table 1: MeMo, d = {row['d']}, deviation of {row['measure']} over codebooks"
        yield _compare(item, row["paper"], row["ours"], row["error"])
    best = sorted(PAPER, key=lambda method: -float(rows[method]["top1"]))[:2]
    item = "section 6.2: the two highest top-1"
    yield _equal(item, "linear SVM, suffix backoff", ", ".join(best))
    gaps = [
        outcome["rows"]["sum prototype"]["top1"] - outcome["rows"]["MeMo, d = 1024"]["top1"]
        for outcome in results["draws"]
        if outcome["h"] == 8
    ]
    item = "section 6.2: MeMo, d = 1024, top-1 below the sum prototype (points)"
    yield _over_draws(item, 0.80, gaps)
    memo_rows = [row for row in results["table"] if row["method"].startswith("MeMo")]
    for h in results["settings"]["context_lengths"]:
        agreement = [row["agreement"] for row in memo_rows if row["h"] == h]
        in_paper = "47.22 to 72.79" if h == 8 else "figure only"
        yield _rising(f"section 6.2: agreement rises with d, h = {h} (%)", in_paper, agreement)


def _inference_lines(results: Mapping[str, Row]) -> Iterator[Row]:
    rows = {row["method"]: row for row in results["wikitext"]["inference"]}
    for method, (state, microseconds, rate_256, rate_1024) in throughput.PAPER.items():
        item = f"Table 2: {method}, state (MiB)"
        yield _equal(item, f"{state:.2f}", f"{rows[method]['mebibytes']:.2f}")
        paper = f"{microseconds:.2f} µs; {rate_256:.2f}, {rate_1024:.2f} Mq/s"
        yield _line(f"Table 2: {method}, times on a GPU", paper, "not run", verdict="not run")

    dense = rows["sum prototype, dense"]["mebibytes"]
    two_stage = rows["MeMo two-stage, d = 1024"]["mebibytes"]
    fused = rows["MeMo fused, d = 512"]["mebibytes"]
    item = "section 6.2: two-stage memory below the dense table's, d = 1024 (%)"
    yield _equal(item, "68", f"{100 - 100 * two_stage / dense:.0f}")
    item = "section 6.2: the dense table over the fused memory, d = 512"
    yield _equal(item, "7.9", f"{dense / fused:.1f}")

    fused_rate = rows["MeMo fused, d = 1024"]["mega_queries_1024"]
    two_stage_rate = rows["MeMo two-stage, d = 1024"]["mega_queries_1024"]
    yield _line(
        "section 6.2: fused is faster than two-stage, d = 1024",
        "16.37 against 3.21 Mq/s, on a GPU",
        f"{fused_rate:.2f} against {two_stage_rate:.2f} Mq/s",
        verdict=_HOLDS[fused_rate > two_stage_rate],
    )

    rates = [row["mega_queries"] for row in results["wikitext"]["throughput"]]
    yield _line(
        "Figure 2, right: queries per second on a CPU",
        "figure only",
        f"{min(rates):.2f} to {max(rates):.2f} Mq/s",
        verdict="other processor",
    )


def _single_draw_error(sd: float, draws: int) -> float:
    return sd * math.sqrt(1 + 1 / draws)


def _line(item: str, paper: str, ours: str, *, error: str = "", verdict: str = "") -> Row:
    return {"item": item, "paper": paper, "ours": ours, "error": error, "verdict": verdict}


def _equal(item: str, paper: str, ours: str) -> Row:
    verdict = "agrees" if paper == ours else "differs"
    return _line(item, paper, ours, error="exact", verdict=verdict)


def _rising(item: str, paper: str, shares: list[float]) -> Row:
    ours = ", ".join(f"{share:.2f}" for share in shares)
    return _line(item, paper, ours, verdict=_HOLDS[shares == sorted(shares)])


def _over_draws(item: str, paper: float, values: list[float]) -> Row:
    error = _single_draw_error(float(np.std(values, ddof=1)), len(values))
    return _compare(item, paper, float(np.mean(values)), error)


def _compare(item: str, paper: float, ours: float, error: float) -> Row:
    agrees = abs(ours - paper) <= max(3 * error, 0.005)  # the paper has two decimals
    return _line(
        item,
        f"{paper:.2f}",
        f"{ours:.2f}",
        error=f"{error:.2f}",
        verdict="agrees" if agrees else "differs",
    )


_EACH = " | ".join(f"{{{name}}}" for name in MEASURES)
_BRACKETS = (
    " In brackets are the paper's figure and its distance from our mean, in standard errors of the "
    "difference between "
    "a single draw and our mean; distances above three are in bold."
)


def reproduction(results: Row) -> str:
    """Return the page of ``hammemo reproduce wikitext``."""
    title = "# Reproduction of the paper's real-data evaluation"
    note = (
        "`hammemo reproduce wikitext` writes this page, and its numbers to `results.json`; "
        "do not edit it."
    )
    return f"{title}\n\n{note}\n\n{evaluation(results)}"


def evaluation(results: Row, figure: str = "wikitext.png") -> str:
    """Return the sections of the page; `figure` is where they find the three panels."""
    settings = results["settings"]
    protocol = results["protocol"]
    rows = results["table"]
    draws = settings["draws"]
    codebooks = settings["codebooks"]
    has_paper_sizes = is_whole(results)
    sections = []
    if not has_paper_sizes:
        sections.append(
            f"**A quick run: {settings['sizes'][0]:,} training examples, {draws} draws. "
            "Not for conclusions.**"
        )
    sections += [
        "## The task",
        *_task(results["task"]),
        "## Results at h = 8",
        f"Figures are percentages, as mean ± standard deviation over {draws} draws of positions "
        f"(for MeMo, of the mean over {codebooks} codebooks, new ones in every draw)."
        + (_BRACKETS if has_paper_sizes else ""),
        _comparison(_of_length(rows, 8, variants=False), "method", "{method}"),
        _choices(results["draws"]),
        *(_list_distant_figures(rows) if has_paper_sizes else ()),
        _tie_rules(is_compared=has_paper_sizes),
        _comparison(_of_length(rows, 8, variants=True), "method", "{method}"),
        *(_deviations(results, codebooks) if has_paper_sizes else ()),
        "Figure 2 of the paper, from this run:",
        f"![Top-1 accuracy, agreement with the exact classifier, and queries per second]({figure})",
        *_other_lengths(rows),
        "## Inference on this machine",
        f"Threads: {protocol['threads']}. As in the paper, "
        f"times are medians of repeats after a warm-up: {protocol['warm_up']} batches to warm up, "
        f"{protocol['timed']} timed, {protocol['repeats']} repeats. In brackets are the paper's "
        "figures on an RTX 4060 Laptop GPU; the hardware differs, so speeds are not comparable. "
        "We have not measured a GPU: the CUDA path runs the same code through torch and is tested "
        "on torch's CPU device. The state of the sparse table is its canonical form, "
        "with its vocabulary; the SciPy product that is timed holds wider copies of it.",
        "\n".join(throughput.table_lines(results["inference"], beside_paper=True)),
        "Million queries per second by fused MeMo in batches of 512, on one core. "
        "The paper shows them in a figure, for an Intel Core i7-13700H:",
        _panel(results["throughput"]),
        *_whole_vocabulary(results["full_vocabulary"]),
    ]
    return "\n\n".join(sections) + "\n"


def _whole_vocabulary(rows: list[Row]) -> Iterator[str]:
    yield "## The whole vocabulary"
    yield (
        f"Every token is a candidate. There are {rows[0]['examples']:,} training positions "
        f"with h = 8, and {rows[0]['queries']:,} test positions drawn from all eligible ones. "
        "Seconds are wall time on this machine; MeMo has one codebook."
    )
    yield _format_table(
        rows,
        "method | labels | agreement | top-1 | top-5 | state (MiB) | learn (s) | answer (s)",
        "{method} | {labels:,} | {agreement:.2f} | {top1:.2f} | {top5:.2f} | "
        "{state_mebibytes:.1f} | {learn_seconds:.2f} | {answer_seconds:.2f}",
    )


def _panel(rows: list[Row]) -> str:
    """Return MeMo's million queries a second on one core, by h and d: the figure's right panel."""
    by_length: dict[int, dict[str, str]] = {}
    for row in rows:
        line = by_length.setdefault(row["h"], {"h": str(row["h"])})
        line[f"d = {row['d']}"] = f"{row['mega_queries']:.2f}"
    return _format_table(by_length.values())


def _task(task: Row) -> Iterator[str]:
    yield (
        f"There are {task['types']:,} token types. The table counts positions with at least 16 "
        "preceding tokens on "
        "their line, and those\nof them whose token is among the 64 most frequent training tokens "
        "without `<unk>`:"
    )
    in_paper = {"train": "45.12 %", "valid": "", "test": "44.79 %"}
    rows = [
        {"split": split, "paper": in_paper[split], **coverage}
        for split, coverage in task["coverage"].items()
    ]
    names = "split | eligible | with a candidate | share | in the paper"
    template = "{split} | {eligible:,} | {covered:,} | {percent:.2f} % | {paper}"
    yield _format_table(rows, names, template)


def _of_length(rows: list[Row], h: int, *, variants: bool) -> list[Row]:
    """Return the rows of one context length: the paper's methods, or those under our tie rules."""
    return [row for row in rows if row["h"] == h and (row["method"] in VARIANTS) == variants]


def _other_lengths(rows: list[Row]) -> Iterator[str]:
    lengths = [h for h in dict.fromkeys(row["h"] for row in rows) if h != 8]
    if lengths:
        yield "## Other context lengths"
        yield "The paper shows these results only in a figure."
        other_rows = [row for h in lengths for row in _of_length(rows, h, variants=False)]
        yield _comparison(other_rows, "h | method", "{h} | {method}")


def _comparison(rows: Iterable[Row], names: str, template: str) -> str:
    texts = []
    for row in rows:
        measures = {name: _format_beside_paper(row, name) for name in MEASURES}
        texts.append({**row, **measures})
    return _format_table(texts, " | ".join([names, *TITLES.values()]), f"{template} | {_EACH}")


def _format_beside_paper(row: Row, name: str) -> str:
    """Return our figure and, in brackets, the paper's with their distance; a large one in bold."""
    ours = cells(f"{{{name}±:.2f}}", row)
    if f"{name}_paper" not in row:
        return ours
    distance = row[f"{name}_apart"]
    brackets = f"({row[f'{name}_paper']:.2f}; {distance:+.1f})"
    if abs(distance) > 3:
        brackets = f"**{brackets}**"
    return f"{ours} {brackets}"


def _choices(draws: list[Row]) -> str:
    """Say what was chosen on validation, and for how many queries the ideal winner is unique."""
    neighbours = ", ".join(map(str, sorted({outcome["neighbours"] for outcome in draws})))
    svms = " or ".join(sorted({_name_svm(outcome["svm"]) for outcome in draws}))
    shares: dict[int, list[float]] = {}
    for outcome in draws:
        shares.setdefault(outcome["h"], []).append(outcome["unambiguous"])
    unique = ", ".join(
        f"{sum(values) / len(values):.2f} % (h = {h})" for h, values in shares.items()
    )
    return (
        f"Chosen on validation: k = {neighbours} (the paper: 25); for the SVM, alpha = {svms}.\n"
        f"The ideal winner is unique on {unique} of the queries, as means over draws "
        "(the paper: at least 99.34 %)."
    )


def _name_svm(svm: Row) -> str:
    averaged = " (averaged)" if svm["average"] else ""
    return f"{svm['alpha']:g}{averaged}"


def _list_distant_figures(rows: list[Row]) -> Iterator[str]:
    """Say which figures are more than three standard errors from the paper's."""
    figures = [
        f"{row['method']} {TITLES[name]} ({row[f'{name}_apart']:+.1f})"
        for row in _of_length(rows, 8, variants=False)
        for name in MEASURES
        if abs(row.get(f"{name}_apart", 0)) > 3
    ]
    yield f"More than three standard errors apart: {'; '.join(figures) or 'none'}."


def _deviations(results: Row, codebooks: int) -> Iterator[str]:
    yield "### Standard deviations over codebooks"
    yield (
        f"The paper gives the standard deviations of top-1 and agreement over {codebooks} "
        "codebooks at h = 8. Ours\n"
        "are means over the draws; the error is that of a single draw against this mean."
    )
    names = "d | measure | in the paper | ours | standard error"
    template = "{d} | {measure} | {paper:.2f} | {ours:.2f} | {error:.2f}"
    yield _format_table(deviations(results), names, template)


def _tie_rules(*, is_compared: bool) -> str:
    close = " That is close to the paper's figures." if is_compared else ""
    return (
        "Two methods depend on rules that the paper does not state: how suffix back-off ranks "
        "labels that never\n"
        "followed the longest known suffix, and which label wins if neighbours' votes are equal. "
        "In the table above,\n"
        f"the label that is more frequent overall wins.{close}\n"
        "The library's defaults, which look at shorter suffixes and at summed similarity, give:"
    )
