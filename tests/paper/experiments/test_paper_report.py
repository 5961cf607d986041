"""The report of ``hammemo reproduce --all``: a line for every figure of the paper, and a verdict that can be wrong."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import hammemo
from hammemo.cli import reproduce as commands
from hammemo.cli.app import app
from hammemo.paper.experiments import throughput
from hammemo.paper.experiments.report import PAPER_DEVIATIONS, evaluation, lines, report, reproduction
from hammemo.paper.experiments.synthetic import describe_instances
from hammemo.paper.experiments.wikitext import MEASURES, PAPER, TaskSettings

if TYPE_CHECKING:
    from pathlib import Path


def results(
    top1: float = 16.35, deviation: float = 0.79, violations: int = 0, unique: float = 99.34, sum_top1: float = 22.30
) -> dict[str, Any]:
    """Return results with the paper's own figures, but for those that are given."""
    whole = TaskSettings()
    methods = {method: dict(zip(MEASURES, figures, strict=True)) for method, figures in PAPER.items()}
    for d, (first, agreement) in PAPER_DEVIATIONS.items():
        methods[f"MeMo, d = {d}"] |= {"top1_sd": first, "top5_sd": 0.0, "macro_f1_sd": 0.0, "agreement_sd": agreement}
    methods["MeMo, d = 128"]["top1_sd"] = deviation
    methods["sum prototype"]["top1"] = sum_top1
    draws = [
        {"draw": i, "h": h, "unambiguous": share, "neighbours": 25, "svm": {"alpha": 1e-5, "average": True}}
        | {"rows": methods}
        for h, share in ((8, 99.78), (4, unique))
        for i in range(2)
    ]
    table = [
        {"h": 8, "method": method, **dict(zip(MEASURES, figures, strict=True)), **{f"{m}_sd": 0.5 for m in MEASURES}}
        for method, figures in PAPER.items()
    ]
    next(row for row in table if row["method"] == "MeMo, d = 128")["top1"] = top1
    shares = {"eligible": 10, "covered": 5}
    inference = [
        {"method": name, "mebibytes": figures[0], "microseconds_1": 1.0, "mega_queries_256": 1.0}
        | {"mega_queries_1024": 2.0 if "fused" in name else 1.0}
        for name, figures in throughput.PAPER.items()
    ]
    vocabulary = {"method": "exact", "labels": 3, "agreement": 100.0, "top1": 1.0, "top5": 2.0, "state_mebibytes": 1.0}
    wikitext = {
        "settings": vars(whole) | {"draws": 2, "context_lengths": [8]},
        "task": {
            "types": 33278,
            "coverage": {
                split: {**shares, "percent": percent}
                for split, percent in (("train", 45.12), ("valid", 44.51), ("test", 44.79))
            },
        },
        "table": table,
        "draws": draws,
        "tie_rules": [],
        "protocol": vars(throughput.Protocol()),
        "inference": inference,
        "throughput": [{"h": 8, "d": 128, "mega_queries": 3.5}, {"h": 8, "d": 256, "mega_queries": 1.76}],
        "full_vocabulary": [
            {**vocabulary, "examples": 9, "queries": 3, "learn_seconds": 1.0, "answer_seconds": 1.0},
        ],
    }
    bound = {"data": "planted", "bound": "output", "source": "the output theorem", "delta": 0.1, "draws": 100}
    synthetic = {
        "settings": {"realisations": 1000},
        "planted": describe_instances(),
        "context_error_slopes": [{"h": 8, "slope": -0.49, "interval_99%": [-0.51, -0.48], "error": 0.005}],
        "output_error_ratios": [{"d": 512, "ratio": 1.98, "error": 0.02}],
        "agreement": [
            {"labels": labels, "h": 8, "d": d, "hits": hits, "realisations": 1000, "agreement": hits / 1000}
            | {"wilson_99%": [hits / 1000 - 0.005, hits / 1000 + 0.003]}
            for labels, d, hits in (("original", 512, 400), ("original", 4096, 995), ("merged", 512, 200))
        ],
    }
    bounds = {"bounds": [{**bound, "violations": violations, "looseness": 1.6, "perfect": 1.3, "expected": 1.2}]}
    return {"synthetic": synthetic, "bounds": bounds, "wikitext": wikitext}


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {line["item"]: line["verdict"] for line in lines(found)}


def test_the_paper_s_own_figures_agree_and_the_gpu_is_not_run() -> None:
    found = verdicts(results())
    table_1 = [verdict for item, verdict in found.items() if item.startswith("Table 1")]
    assert table_1 == ["agrees"] * (9 * 4 + 8)
    gpu = {item: verdict for item, verdict in found.items() if "GPU" in item}
    assert len(gpu) == len(throughput.PAPER)
    assert set(gpu.values()) == {"not run"}
    assert set(found.values()) == {"agrees", "holds", "not run", "other processor"}


@pytest.mark.parametrize(
    ("changed", "item", "verdict"),
    [
        ({"top1": 18.3}, "Table 1: MeMo, d = 128, top-1 (%)", "differs"),  # 0.5 * sqrt(1.5) * 3 = 1.84
        ({"top1": 18.1}, "Table 1: MeMo, d = 128, top-1 (%)", "agrees"),
        ({"deviation": 2.0}, "Table 1: MeMo, d = 128, deviation of top-1 over codebooks", "differs"),
        ({"unique": 99.2}, "section 6.2: queries with one ideal winner, least over h (%)", "differs"),
        ({"sum_top1": 22.4}, "section 6.2: MeMo, d = 1024, top-1 below the sum prototype (points)", "differs"),
        ({"violations": 20}, "bound on output (the output theorem), planted: share of draws that violate it", ""),
    ],
)
def test_a_figure_that_is_far_from_the_paper_s_is_told(changed: dict[str, Any], item: str, verdict: str) -> None:
    assert verdicts(results(**changed))[item] == (verdict or "does not hold")


def test_every_claim_has_the_paper_s_statement_and_an_error() -> None:
    found = [line for line in lines(results()) if line["item"].startswith("section 6.1")]
    assert len(found) == 3 + 4 + 1  # planted quantities, claims, agreement that rises
    assert all(line["paper"] and line["ours"] and line["verdict"] for line in found)
    errors = [line["error"] for line in found]
    assert errors == ["exact", "exact", "exact", "0.005", "0.02", "0.02", "0.0026", ""]


def test_the_report_counts_verdicts_and_says_what_few_draws_cannot() -> None:
    found = results(violations=20)
    page = report(found, "## The task\n\nnothing\n", dict.fromkeys(found, 600.0), "a command (hammemo 1)")
    assert "the results of a command (hammemo 1); do not edit this page. The run took 30 minutes" in page
    counts = {name: int(number) for name, number in re.findall(r"^\| ([a-z ]+) \| (\d+) \| ", page, re.MULTILINE)}
    assert counts["does not hold"] == 1
    assert counts["differs"] == 0
    assert sum(counts.values()) == len(lines(found))
    assert f"There are {len(lines(found))} figures" in page
    assert "share of draws that violate it | at most 0.1 | 0.2 |" in page  # what holds or agrees is in other tables
    assert "| Table 1: " not in page
    assert "-0.490 at h = 8: 2.0 standard errors" in page
    assert "\n## WikiText-2\n\n### The task\n" in page
    assert "cannot decide" not in page
    found["synthetic"]["settings"]["realisations"] = 160
    page = report(found, "", dict.fromkeys(found, 600.0), "")
    assert "| too few draws to say | 2 | the draws of this run cannot decide the claim |" in page
    assert "With 160 draws of the codes" in page


def test_a_quick_run_is_not_compared() -> None:
    found = results(top1=1.0)
    found["wikitext"]["settings"]["sizes"] = [20, 5, 5]
    assert verdicts(found)["Table 1 and its text"] == "quick run: not compared"
    assert "differs" not in verdicts(found).values()


def test_the_page_has_deviations_figure_and_panel() -> None:
    page = reproduction(results()["wikitext"])
    assert "| 1024 | agreement | 4.55 | 4.55 | 0.00 |" in page
    assert "(wikitext.png)" in page
    assert "| 8 | 3.50 | 1.76 |" in page


def test_all_runs_the_paper_s_commands_and_writes_one_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = results()

    def fake(name: str) -> Any:
        def run(folder: Path, *, jobs: int, **_: Any) -> None:
            assert jobs == 3
            folder.mkdir(parents=True)
            (folder / "results.json").write_text(json.dumps(found[name]))
            (folder / f"{name}.png").write_bytes(b"a figure")

        return run

    for name in found:
        monkeypatch.setattr(commands, name, fake(name))
    done = CliRunner().invoke(app, ["reproduce", "--all", "--jobs", "3", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["synthetic.png", "wikitext.png"]
    assert "(figures/synthetic.png)" in text
    assert "(figures/wikitext.png)" in text
    sections = evaluation(found["wikitext"], "figures/wikitext.png")
    seconds = dict.fromkeys(found, 0.0)
    run = f"`hammemo reproduce --all` (hammemo {hammemo.__version__}, 3 processes)"
    assert text == report(found, sections, seconds, run)


def test_help_lists_the_paper_s_commands_only() -> None:
    shown = CliRunner().invoke(app, ["reproduce", "--help"], env={"COLUMNS": "160"}).output
    for name in ("synthetic", "bounds", "wikitext", "inference"):
        assert any(f" {name} " in line and ("minutes" in line or "seconds" in line) for line in shown.splitlines())
    for name in ("hashed", "votes", "events", "deletion", "sessions", "language"):
        assert f" {name} " not in shown
        assert CliRunner().invoke(app, ["reproduce", name, "--help"]).exit_code == 2


@pytest.mark.parametrize("arguments", ["--all", "--quick", "--out r", "--quick bounds --out r", "--all synthetic"])
def test_options_without_all_or_with_a_command_are_refused(arguments: str) -> None:
    done = CliRunner().invoke(app, ["reproduce", *arguments.split()])
    assert done.exit_code == 2
    assert "--all" in done.output
