"""The page on the real-data evaluation, written by the command: the paper's tables and ours, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hammemo.paper.experiments import throughput
from hammemo.paper.experiments.measuring import Row, cells, table
from hammemo.paper.experiments.paper_report import deviation_lines, is_whole, panel_lines
from hammemo.paper.experiments.wikitext import MEASURES, VARIANTS

if TYPE_CHECKING:
    from collections.abc import Iterable


_TITLES = "top-1 | top-5 | macro-F1 | agreement"
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
    settings, protocol = results["settings"], results["protocol"]
    draws, codebooks, size = settings["draws"], settings["codebooks"], settings["sizes"][0]
    whole = is_whole(results)
    return "\n".join(
        [
            *(
                []
                if whole
                else [f"**A quick run: {size:,} training examples, {draws} draws. Not for conclusions.**", ""]
            ),
            "## The task",
            "",
            *_task(results["task"]),
            "",
            "## Results at h = 8",
            "",
            f"Figures are percentages, as mean ± standard deviation over {draws} draws of positions (for MeMo, of the "
            f"mean over {codebooks} codebooks, new ones in every draw)." + (_BRACKETS if whole else ""),
            "",
            *_comparison(_of_length(results["table"], 8, variants=False), "method", "{method}"),
            "",
            *_choices(results["draws"]),
            *(_apart(results["table"]) if whole else []),
            *_tie_rules(results["table"], whole=whole),
            "",
            *(_deviations(results, codebooks) if whole else []),
            "Figure 2 of the paper, from this run:",
            "",
            f"![Top-1 accuracy, agreement with the exact classifier, and queries per second]({figure})",
            "",
            *_other_lengths(results["table"]),
            "## Inference on this machine",
            "",
            f"Threads: {protocol['threads']}. As in the paper, times are medians of repeats after a warm-up: "
            f"{protocol['warm_up']} batches to warm up, {protocol['timed']} timed, {protocol['repeats']} repeats. In "
            "brackets are the paper's figures on an RTX 4060 Laptop GPU; the hardware differs, so speeds are not "
            "comparable. We have not measured a GPU: the CUDA path runs the same code through torch and is tested on "
            "torch's CPU device. The state of the sparse table is its canonical form, with its vocabulary; the SciPy "
            "product that is timed holds wider copies of it.",
            "",
            *throughput.table_lines(results["inference"], beside_paper=True),
            "",
            "Million queries per second by fused MeMo in batches of 512, on one core. The paper shows them in a "
            "figure, "
            "for an Intel Core i7-13700H:",
            "",
            *panel_lines(results["throughput"]),
            "",
            *_whole_vocabulary(results["full_vocabulary"]),
        ]
    )


def _whole_vocabulary(rows: list[Row]) -> Iterable[str]:
    yield "## The whole vocabulary"
    yield ""
    yield (
        f"Every token is a candidate. There are {rows[0]['examples']:,} training positions with h = 8, and "
        f"{rows[0]['queries']:,} test positions drawn from all eligible ones. Seconds are wall time on this machine; "
        "MeMo has one codebook."
    )
    yield ""
    yield from table(
        rows,
        "method | labels | agreement | top-1 | top-5 | state (MiB) | learn (s) | answer (s)",
        "{method} | {labels:,} | {agreement:.2f} | {top1:.2f} | {top5:.2f} | {state_mebibytes:.1f} | "
        "{learn_seconds:.2f} | {answer_seconds:.2f}",
    )
    yield ""


def _task(task: Row) -> Iterable[str]:
    yield (
        f"There are {task['types']:,} token types. The table counts positions with at least 16 preceding tokens on "
        "their line, and those"
    )
    yield "of them whose token is among the 64 most frequent training tokens without `<unk>`:"
    yield ""
    in_paper = {"train": "45.12 %", "valid": "", "test": "44.79 %"}
    rows = [{"split": split, "paper": in_paper[split], **row} for split, row in task["coverage"].items()]
    yield from table(
        rows,
        "split | eligible | with a candidate | share | in the paper",
        "{split} | {eligible:,} | {covered:,} | {percent:.2f} % | {paper}",
    )


def _of_length(rows: list[Row], h: int, *, variants: bool) -> list[Row]:
    """Return the rows of one context length: the paper's methods, or those under our tie rules."""
    return [row for row in rows if row["h"] == h and (row["method"] in VARIANTS) == variants]


def _other_lengths(rows: list[Row]) -> Iterable[str]:
    lengths = [h for h in dict.fromkeys(row["h"] for row in rows) if h != 8]
    if lengths:
        yield from ("## Other context lengths", "", "The paper shows these results only in a figure.", "")
        shown = [row for h in lengths for row in _of_length(rows, h, variants=False)]
        yield from _comparison(shown, "h | method", "{h} | {method}")
        yield ""


def _comparison(rows: Iterable[Row], names: str, template: str) -> list[str]:
    shown = ({**row, **{name: _beside_paper(row, name) for name in MEASURES}} for row in rows)
    return table(shown, f"{names} | {_TITLES}", f"{template} | {_EACH}")


def _beside_paper(row: Row, name: str) -> str:
    ours = cells(f"{{{name}±:.2f}}", row)
    if f"{name}_paper" not in row:
        return ours
    apart = row[f"{name}_apart"]
    shown = f"({row[f'{name}_paper']:.2f}; {apart:+.1f})"
    return f"{ours} **{shown}**" if abs(apart) > 3 else f"{ours} {shown}"


def _choices(draws: list[Row]) -> Iterable[str]:
    neighbours = ", ".join(map(str, sorted({outcome["neighbours"] for outcome in draws})))
    machines = sorted({f"{o['svm']['alpha']:g}{' (averaged)' if o['svm']['average'] else ''}" for o in draws})
    shares: dict[int, list[float]] = {}
    for outcome in draws:
        shares.setdefault(outcome["h"], []).append(outcome["unambiguous"])
    unique = ", ".join(f"{sum(found) / len(found):.2f} % (h = {h})" for h, found in shares.items())
    yield f"Chosen on validation: k = {neighbours} (the paper: 25); for the SVM, alpha = {' or '.join(machines)}."
    yield f"The ideal winner is unique on {unique} of the queries, as means over draws (the paper: at least 99.34 %)."
    yield ""


def _apart(rows: list[Row]) -> Iterable[str]:
    titles = dict(zip(MEASURES, _TITLES.split(" | "), strict=True))
    far = [
        f"{row['method']} {titles[name]} ({row[f'{name}_apart']:+.1f})"
        for row in _of_length(rows, 8, variants=False)
        for name in MEASURES
        if abs(row.get(f"{name}_apart", 0)) > 3
    ]
    yield f"More than three standard errors apart: {'; '.join(far) or 'none'}."
    yield ""


def _deviations(results: Row, codebooks: int) -> Iterable[str]:
    yield from ("### Standard deviations over codebooks", "")
    yield f"The paper gives the standard deviations of top-1 and agreement over {codebooks} codebooks at h = 8. Ours"
    yield "are means over the draws; the error is that of a single draw against this mean."
    yield ""
    yield from deviation_lines(results)
    yield ""


def _tie_rules(rows: list[Row], *, whole: bool) -> Iterable[str]:
    yield "Two methods depend on rules that the paper does not state: how suffix back-off ranks labels that never"
    yield "followed the longest known suffix, and which label wins if neighbours' votes are equal. In the table above,"
    yield "the label that is more frequent overall wins." + (" That is close to the paper's figures." if whole else "")
    yield "The library's defaults, which look at shorter suffixes and at summed similarity, give:"
    yield ""
    yield from _comparison(_of_length(rows, 8, variants=True), "method", "{method}")
