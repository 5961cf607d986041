"""The report of all experiments of the paper: every table, figure and claim, and one line for each figure.

A line has the paper's figure, ours, the standard error of their difference and a verdict: figures *agree* if they are
at most three standard errors apart. An error is that of a single draw, as the paper's, against our mean over draws.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo.paper.experiments import bounds, synthetic, throughput
from hammemo.paper.experiments.measuring import table
from hammemo.paper.experiments.wikitext import MEASURES, PAPER, TaskSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hammemo.paper.experiments.measuring import Row

TITLES: Final = dict(zip(MEASURES, ("top-1", "top-5", "macro-F1", "agreement"), strict=True))
PAPER_DEVIATIONS: Final = {128: (0.79, 6.07), 256: (1.27, 3.16), 512: (0.40, 1.89), 1024: (0.76, 4.55)}
"""The paper's standard deviations over five codebooks at h = 8, by d: of top-1 and of agreement."""

_HOLDS: Final = {True: "holds", False: "does not hold", None: "too few draws to say"}
_COLUMNS: Final = "in the paper | its figure | ours | standard error | verdict"


def is_whole(results: Row) -> bool:
    """Return whether an evaluation used the paper's sample sizes; a quick one is not compared with the paper."""
    return tuple(results["settings"]["sizes"]) == TaskSettings().sizes


def report(results: Mapping[str, Row], page: str, seconds: Mapping[str, float], command: str) -> str:
    """Return the whole report, from the results of all three and the page of the real-data evaluation."""
    claims = synthetic.claims(results["synthetic"])
    times = [{"command": f"`hammemo reproduce {name}`", "seconds": f"{took:.0f}"} for name, took in seconds.items()]
    parts = [
        "# The paper, reproduced",
        f"`{command}` writes this page; do not edit it. It took {sum(seconds.values()) / 60:.0f} minutes of wall time:",
        *_shown(times),
        "## Every figure in one line",
        "Figures *agree* if they are at most three standard errors apart. The paper's figures come from one draw of "
        "positions, so an error is that of a single draw against our mean. No GPU was available: its table was not "
        "run.",
        *_shown(lines(results), _COLUMNS, "{item} | {paper} | {ours} | {error} | {verdict}"),
        "## Synthetic validation",
        "![Context error, output error and recovery against the dimension](figures/synthetic.png)",
        *_shown([{"claim": c.text, "figures": c.figures, "verdict": _HOLDS[c.holds]} for c in claims]),
        "## Bounds",
        "Each bound divided by the largest realised error, median over draws; in brackets, draws that violate it:",
        bounds.markdown(results["bounds"]["bounds"]).strip(),
        re.sub(r"^#", "##", page, flags=re.MULTILINE).strip(),
    ]
    return "\n\n".join(parts) + "\n"


def _shown(rows: list[Row], *columns: str) -> list[str]:
    return ["\n".join(table(rows, *columns))]


def lines(results: Mapping[str, Row]) -> list[Row]:
    """Return a line for every claim, bound and figure of the paper."""
    found = [
        _line(f"section 6.1: {claim.text}", "", claim.figures, verdict=_HOLDS[claim.holds])
        for claim in synthetic.claims(results["synthetic"])
    ]
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


def deviation_lines(results: Row) -> list[str]:
    """Return the table of standard deviations over codebooks, beside the paper's."""
    each = "{d} | {measure} | {paper:.2f} | {ours:.2f} | {error:.2f}"
    return table(deviations(results), "d | measure | in the paper | ours | standard error", each)


def panel_lines(rows: list[Row]) -> list[str]:
    """Return MeMo's million queries a second on one core, by h and d: the right panel of the figure."""
    by_length: dict[int, dict[str, str]] = {}
    for row in rows:
        by_length.setdefault(row["h"], {"h": str(row["h"])})[f"d = {row['d']}"] = f"{row['mega_queries']:.2f}"
    return table(by_length.values())


def _task_lines(results: Row) -> Iterator[Row]:
    task, draws = results["task"], [outcome for outcome in results["draws"] if outcome["h"] == 8]
    yield _equal("section 6.2: token types", "33,278", f"{task['types']:,}")
    for split, paper in (("train", "45.12"), ("test", "44.79")):
        ours = f"{task['coverage'][split]['percent']:.2f}"
        yield _equal(f"section 6.2: share of {split} positions with a candidate (%)", paper, ours)
    if is_whole(results):
        yield _equal("section 6.2: neighbours k", "25", ", ".join(sorted({str(o["neighbours"]) for o in draws})))
        shares = [outcome["unambiguous"] for outcome in draws]
        error = _single_draw_error(float(np.std(shares, ddof=1)), len(shares))
        yield _compared("section 6.2: queries with one ideal winner, h = 8 (%)", 99.34, float(np.mean(shares)), error)


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
    best = max(rows.values(), key=lambda row: float(row["top1"]))["method"]
    yield _equal("section 6.2: the highest top-1", "linear SVM", best)
    for h in results["settings"]["context_lengths"]:
        rising = [row["agreement"] for row in results["table"] if row["h"] == h and row["method"].startswith("MeMo")]
        ours = ", ".join(f"{share:.2f}" for share in rising)
        verdict = _HOLDS[rising == sorted(rising)]
        yield _line(f"section 6.2: agreement rises with d, h = {h}", "figure only", ours, verdict=verdict)


def _inference_lines(results: Mapping[str, Row]) -> Iterator[Row]:
    rows = {row["method"]: row for row in results["wikitext"]["inference"]}
    for method, (state, one, *batches) in throughput.PAPER.items():
        yield _equal(f"Table 2: {method}, state (MiB)", f"{state:.2f}", f"{rows[method]['mebibytes']:.2f}")
        paper = f"{one:.2f} µs; {batches[0]:.2f}, {batches[1]:.2f} Mq/s"
        yield _line(f"Table 2: {method}, times on a GPU", paper, "not run", verdict="not run")
    fast, slow = (rows[f"MeMo {form}, d = 1024"]["mega_queries_1024"] for form in ("fused", "two-stage"))
    ours = f"{fast:.2f} against {slow:.2f} Mq/s"
    yield _line("section 6.2: fused is faster than two-stage, d = 1024", "on a GPU", ours, verdict=_HOLDS[fast > slow])
    yield _line("Figure 2, right: queries a second on a CPU", "figure only", "see the table", verdict="other processor")


def _single_draw_error(sd: float, draws: int) -> float:
    return sd * math.sqrt(1 + 1 / draws)


def _line(item: str, paper: str, ours: str, error: str = "", verdict: str = "") -> Row:
    return {"item": item, "paper": paper, "ours": ours, "error": error, "verdict": verdict}


def _equal(item: str, paper: str, ours: str) -> Row:
    return _line(item, paper, ours, "exact", "agrees" if paper == ours else "differs")


def _compared(item: str, paper: float, ours: float, error: float) -> Row:
    agrees = abs(ours - paper) <= 3 * error
    return _line(item, f"{paper:.2f}", f"{ours:.2f}", f"{error:.2f}", "agrees" if agrees else "differs")
