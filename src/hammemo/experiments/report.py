"""``docs/reproduction.md``, written by the command: the paper's tables and ours, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hammemo.experiments import throughput
from hammemo.experiments.wikitext import MEASURES, PAPER, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

_TITLES = {"top1": "top-1", "top5": "top-5", "macro_f1": "macro-F1", "agreement": "agreement"}


def reproduction(results: dict[str, Any]) -> str:
    """Return the whole page."""
    settings, protocol = results["settings"], results["protocol"]
    draws, codebooks, size = settings["draws"], settings["codebooks"], settings["sizes"][0]
    whole = tuple(settings["sizes"]) == Settings().sizes
    return "\n".join(
        [
            "# Reproduction of the paper's real-data evaluation",
            "",
            "Written by `hammemo reproduce wikitext`; do not edit. The numbers are in `results.json` beside it.",
            "",
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
            f"Percent. Ours: mean ± standard deviation over {draws} draws of positions (MeMo: of the mean over "
            f"{codebooks} codebooks, new ones in every draw). In brackets the paper's figure and how many standard "
            "errors of the difference of a single draw and our mean lie between them; those beyond three are in bold.",
            "",
            *_comparison([row for row in results["table"] if row["h"] == 8]),
            "",
            *_choices(results["draws"]),
            "",
            *(_apart(results["table"], results["tie_rules"]) if whole else []),
            "",
            "## Other context lengths",
            "",
            "The paper shows these in a figure only.",
            "",
            *_others([row for row in results["table"] if row["h"] != 8]),
            "",
            "## Inference on this machine",
            "",
            f"Threads: {protocol['threads']}. As in the paper, the median of repeats after a warm-up: "
            f"{protocol['warm_up']} batches to warm up, {protocol['timed']} timed, {protocol['repeats']} repeats. In "
            "brackets the paper's figures on an RTX 4060 Laptop GPU: other hardware, not a comparison of speed. Our "
            "GPU figures are still to be measured: the CUDA path runs the same code through torch and is tested on "
            "torch's CPU device. The sparse table's state is its canonical form, "
            "with its vocabulary; SciPy's product behind the timing holds wider copies of it.",
            "",
            *_inference(results["inference"]),
            "",
            "## The whole vocabulary",
            "",
            f"Every token is a candidate; h = 8, {results['full_vocabulary'][0]['examples']:,} training positions, "
            f"{results['full_vocabulary'][0]['queries']:,} test positions drawn from all eligible ones. Seconds are "
            "wall time on this machine; MeMo is one codebook.",
            "",
            *_vocabulary(results["full_vocabulary"]),
            "",
        ]
    )


def _task(task: dict[str, Any]) -> Iterable[str]:
    yield f"{task['types']:,} token types. Positions with at least 16 preceding tokens on their line, and those among"
    yield "them whose token is one of the 64 most frequent training tokens without `<unk>`:"
    yield ""
    yield "| split | eligible | with a candidate | share | in the paper |"
    yield "|---|---|---|---|---|"
    in_paper = {"train": "45.12 %", "valid": "", "test": "44.79 %"}
    for split, row in task["coverage"].items():
        shown = f"| {split} | {row['eligible']:,} | {row['covered']:,} | {row['percent']:.2f} % | {in_paper[split]} |"
        yield shown


def _comparison(rows: list[dict[str, Any]]) -> Iterable[str]:
    yield "| method | " + " | ".join(_TITLES[name] for name in MEASURES) + " |"
    yield "|---|" + "---|" * len(MEASURES)
    for row in rows:
        yield f"| {row['method']} | " + " | ".join(_cell(row, name) for name in MEASURES) + " |"


def _cell(row: dict[str, Any], name: str) -> str:
    ours = f"{row[name]:.2f} ± {row[f'{name}_sd']:.2f}"
    if f"{name}_paper" not in row:
        return ours
    apart = row[f"{name}_apart"]
    shown = f"({row[f'{name}_paper']:.2f}; {apart:+.1f})"
    return f"{ours} **{shown}**" if abs(apart) > 3 else f"{ours} {shown}"


def _choices(draws: list[dict[str, Any]]) -> Iterable[str]:
    neighbours = sorted({outcome["neighbours"] for outcome in draws})
    machines = sorted({f"alpha = {o['svm']['alpha']:g}, averaged: {o['svm']['average']}" for o in draws})
    unambiguous = min(outcome["unambiguous"] for outcome in draws)
    yield f"Chosen on validation: k = {', '.join(map(str, neighbours))} (the paper: 25); SVM {'; '.join(machines)}."
    yield f"The ideal winner is unique on at least {unambiguous:.2f} % of the test queries (the paper: 99.34 %)."


def _apart(table: list[dict[str, Any]], rules: list[dict[str, Any]]) -> Iterable[str]:
    far = [
        f"{row['method']} {_TITLES[name]} ({row[f'{name}_apart']:+.1f})"
        for row in table
        for name in MEASURES
        if abs(row.get(f"{name}_apart", 0)) > 3
    ]
    yield f"More than three standard errors apart: {'; '.join(far) or 'none'}."
    yield ""
    yield "Two methods depend on rules that the paper does not state: how suffix back-off ranks labels that never"
    yield "followed the longest known suffix, and which label wins among equal votes of the neighbours. The first draw"
    yield "under three rules each; the paper's figures are close to those of overall frequency:"
    yield ""
    yield "| method | rule | " + " | ".join(_TITLES[name] for name in MEASURES) + " |"
    yield "|---|---|" + "---|" * len(MEASURES)
    for row in rules:
        yield f"| {row['method']} | {row['rule']} | " + " | ".join(f"{row[name]:.2f}" for name in MEASURES) + " |"
    for method in dict.fromkeys(row["method"] for row in rules):
        yield f"| {method} | the paper | " + " | ".join(f"{figure:.2f}" for figure in PAPER[method]) + " |"


def _others(rows: list[dict[str, Any]]) -> Iterable[str]:
    yield "| h | method | " + " | ".join(_TITLES[name] for name in MEASURES) + " |"
    yield "|---|---|" + "---|" * len(MEASURES)
    for row in rows:
        yield f"| {row['h']} | {row['method']} | " + " | ".join(_cell(row, name) for name in MEASURES) + " |"


def _inference(rows: list[dict[str, Any]]) -> Iterable[str]:
    yield "| method | state (MiB) | B = 1 (µs) | B = 256 (Mq/s) | B = 1024 (Mq/s) |"
    yield "|---|---|---|---|---|"
    for row in rows:
        ours = (row["mebibytes"], row["microseconds_1"], row["mega_queries_256"], row["mega_queries_1024"])
        paper = throughput.PAPER.get(row["method"])
        cells = [
            f"{a:.2f}" if paper is None else f"{a:.2f} ({b:.2f})" for a, b in zip(ours, paper or ours, strict=True)
        ]
        yield f"| {row['method']} | " + " | ".join(cells) + " |"


def _vocabulary(rows: list[dict[str, Any]]) -> Iterable[str]:
    yield "| method | labels | agreement | top-1 | top-5 | state (MiB) | learn (s) | answer (s) |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        yield (
            f"| {row['method']} | {row['labels']:,} | {row['agreement']:.2f} | {row['top1']:.2f} | {row['top5']:.2f} | "
            f"{row['state_mebibytes']:.1f} | {row['learn_seconds']:.1f} | {row['answer_seconds']:.1f} |"
        )
