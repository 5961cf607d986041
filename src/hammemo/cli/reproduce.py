"""``hammemo reproduce``: the paper's experiments, one by one or all of them."""

from __future__ import annotations

import json
import shutil
import time
from importlib.metadata import version
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from hammemo.cli import experiment_options as opt
from hammemo.cli.commands import Commands
from hammemo.cli.console import UsageError, console, one_line_errors, print_result, progress_bar
from hammemo.cli.options import flag, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo.paper.experiments.synthetic import Claim

reproduce = Commands(help="Reproduce the paper: tables, figures, claims. Times are for two cores.")


@reproduce.callback(invoke_without_command=True)
@one_line_errors()
def everything(
    context: typer.Context,
    run_all: Annotated[
        bool, flag("--all", "Run synthetic, bounds and wikitext, and write one report: 20 minutes.")
    ] = False,
    out: Annotated[
        Path | None, opt.results_folder("report.md, its figures, and all results (with --all)")
    ] = None,
    *,
    data: opt.WikiText = None,
    quick: Annotated[bool, flag("--quick", "Fewer draws, with --all: a few minutes.")] = False,
    jobs: opt.Jobs = opt.ALL_CORES,
) -> None:
    """Reproduce the paper: tables, figures, claims. Times are for two cores."""
    if context.invoked_subcommand is not None:
        if run_all or quick or out is not None or data is not None:
            raise UsageError("Options of a command come after its name, and --all has no command.")
        return
    if not run_all or out is None:
        raise UsageError(
            "Name one of the commands, or use --all --out FOLDER. Try 'hammemo reproduce --help'."
        )
    seconds = {}
    runs: dict[str, Callable[[Path], None]] = {
        "synthetic": lambda folder: synthetic(folder, quick=quick, jobs=jobs),
        "bounds": lambda folder: bounds(folder, quick=quick, jobs=jobs),
        "wikitext": lambda folder: wikitext(folder, data=data, quick=quick, jobs=jobs),
    }
    for name, run in runs.items():
        started = time.perf_counter()
        run(out / name)
        seconds[name] = time.perf_counter() - started
    processes = "1 process" if jobs == 1 else f"{jobs} processes"
    _write_report(
        out, seconds, f"`hammemo reproduce --all` (hammemo {version('hammemo')}, {processes})"
    )


def _write_report(out: Path, seconds: dict[str, float], run: str) -> None:
    """Write the report from what the commands have written to folders of their names."""
    from hammemo.paper.experiments.report import evaluation, report

    results = {}
    for name in seconds:
        text = (out / name / "results.json").read_text(encoding="utf-8")
        results[name] = json.loads(text)
    figures = out / "figures"
    figures.mkdir(exist_ok=True)
    for name in ("synthetic", "wikitext"):
        shutil.copyfile(out / name / f"{name}.png", figures / f"{name}.png")
    text = report(results, evaluation(results["wikitext"], "figures/wikitext.png"), seconds, run)
    (out / "report.md").write_text(text, encoding="utf-8")
    console().print(f"Written to {out}: report.md, figures, {', '.join(seconds)}")


@reproduce.command()
def synthetic(
    out: Annotated[
        Path, opt.results_folder("results.json, results.csv, manifest.json and the figure")
    ],
    *,
    quick: Annotated[
        bool, flag("--quick", "h = 8 and d up to 1024 only, 1,000 realisations: minutes.")
    ] = False,
    realisations: Annotated[
        int | None, option("N", "Draws of the codes per point; the paper has 160.", "160", min=2)
    ] = None,
    seed: opt.DataSeed = opt.SEED,
    jobs: opt.Jobs = opt.ALL_CORES,
    check: Annotated[
        bool, flag("--check", "Exit with 1 if one of the paper's claims does not hold.")
    ] = False,
    as_json: Annotated[bool, flag("--json", "Print the claims as JSON.")] = False,
) -> None:
    """Validate the analysis on planted data, three panels of figure 1: 5 minutes."""
    from hammemo.paper.experiments import synthetic as experiment
    from hammemo.paper.experiments.figures import require_matplotlib, synthetic_figure

    require_matplotlib()
    settings = opt.choose_settings(
        experiment.SyntheticSettings, seed, "--realisations", realisations, quick=quick
    )
    folder = opt.ResultsFolder(out)
    opt.say_expected(experiment.estimate_seconds(settings, jobs), jobs)
    with progress_bar("Drawing codes") as on_progress:
        points = experiment.run(settings, jobs, on_progress)
    results = experiment.summary(settings, points)
    synthetic_figure(results, out)
    claims = experiment.claims(results)
    print_result([vars(claim) for claim in claims], _make_table(claims), as_json=as_json)
    tables = ["context_error", "output_error", "agreement"]
    folder.write(results, tables, "synthetic.png", "synthetic.svg", pages={})
    if check and any(claim.holds is not True for claim in claims):
        raise typer.Exit(1)


@reproduce.command()
def bounds(
    out: Annotated[
        Path, opt.results_folder("results.json, results.csv, manifest.json and bounds.md")
    ],
    *,
    quick: Annotated[bool, flag("--quick", "A few draws only, for a first look.")] = False,
    draws: Annotated[
        int | None, option("N", "Draws of the codes per data set.", "2000", min=1)
    ] = None,
    seed: opt.DataSeed = opt.SEED,
    jobs: opt.Jobs = opt.ALL_CORES,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Compare every bound with independent draws: 2 minutes."""
    from hammemo.paper.experiments import bounds as experiment

    settings = opt.choose_settings(experiment.BoundSettings, seed, "--draws", draws, quick=quick)
    folder = opt.ResultsFolder(out)
    opt.say_expected(experiment.estimate_seconds(settings, jobs), jobs)
    with progress_bar("Drawing codes") as on_progress:
        rows = experiment.run(settings, jobs, on_progress)
    results = experiment.summary(settings, rows)
    page = experiment.markdown(rows)
    folder.write(results, ["bounds"], pages={"bounds.md": page})
    title = "Bound divided by the realised error, median over draws (violations in brackets):"
    print_result(results, f"{title}\n\n{page}", as_json=as_json)


@reproduce.command()
def wikitext(
    out: Annotated[
        Path, opt.results_folder("reproduction.md, results.json, results.csv and the figure")
    ],
    *,
    data: opt.WikiText = None,
    quick: Annotated[
        bool, flag("--quick", "A smaller sample, two draws, h = 8: two minutes.")
    ] = False,
    draws: opt.Draws = None,
    seed: Annotated[int, option("N", "Seed of draws and codes.")] = opt.SEED,
    jobs: opt.Jobs = opt.ALL_CORES,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Evaluate MeMo and its baselines on WikiText-2: table 1, figure 2, inference: 15 minutes."""
    from hammemo.paper.experiments import throughput
    from hammemo.paper.experiments import wikitext as experiment
    from hammemo.paper.experiments.figures import require_matplotlib, wikitext_figure
    from hammemo.paper.experiments.report import reproduction

    require_matplotlib()
    settings = opt.choose_settings(experiment.TaskSettings, seed, "--draws", draws, quick=quick)
    folder = opt.ResultsFolder(out)
    task = opt.build_wikitext_task(data)
    opt.say_expected_by_probe("wikitext", quick=quick, share=(draws or 5) / 5, jobs=jobs)
    # Table 1: the evaluation of all draws.
    with progress_bar("Evaluating draws") as on_progress:
        draws_of_task = experiment.run(task, settings, jobs, on_progress)
        results = experiment.summary(task, settings, draws_of_task)
    # Table 2 and figure 2: how fast the methods answer.
    sample = experiment.draw_sample(task, settings, 0)
    protocol = throughput.Protocol()
    vocabulary_size: dict[str, Any] = {}
    if quick:
        protocol = throughput.Protocol(timed=10, repeats=1)
        vocabulary_size = {"dimensions": (256,), "n_train": 50_000, "n_test": 500}
    n_tokens = len(task.vocabulary)
    queries = sample.contexts["test"]
    svm = next(outcome["svm"] for outcome in results["draws"] if outcome["h"] == 8)
    X, y = sample.split("train", 8)
    methods = throughput.paper_methods(X, y, n_tokens, svm)
    results["protocol"] = vars(protocol)
    results["inference"] = throughput.inference_table(methods, queries[:, -8:], "cpu", protocol)
    splits = {h: sample.split("train", h) for h in settings.context_lengths}
    results["throughput"] = throughput.throughput_panel(
        splits, queries, n_tokens, settings.dimensions, protocol=protocol
    )
    # The accuracy on all tokens of the vocabulary.
    with progress_bar("Whole vocabulary") as on_progress:
        results["full_vocabulary"] = experiment.whole_vocabulary(
            task, seed=seed, on_progress=on_progress, **vocabulary_size
        )
    page = reproduction(results)
    wikitext_figure(results, out)
    tables = ["table", "inference", "throughput", "full_vocabulary"]
    folder.write(results, tables, "figures", pages={"reproduction.md": page})
    print_result(results, page, as_json=as_json)


@reproduce.command()
def inference(
    device: Annotated[str, option("NAME", "cpu (NumPy), torch-cpu or cuda.")] = "cpu",
    data: Annotated[
        Path | None, option("FOLDER", "Folder with WikiText-2.", "tokens drawn from a Zipf law")
    ] = None,
    threads: Annotated[int, option("N", "Threads on the processor.", min=1)] = 1,
    as_json: Annotated[bool, flag("--json", "Print the rows as JSON.")] = False,
) -> None:
    """Time the methods of table 2 at h = 8, on a processor or a GPU: 40 seconds."""
    from hammemo.paper.experiments import throughput

    if device not in throughput.DEVICES:
        raise UsageError(f"--device {device!r} is not known: use {', '.join(throughput.DEVICES)}.")
    task = None
    if data is not None:
        task = opt.build_wikitext_task(data)
    X, y, queries, n_tokens = throughput.paper_examples(task)
    opt.say_expected_by_probe("inference")
    methods = throughput.paper_methods(X, y, n_tokens, {"alpha": 1e-5, "average": True})
    protocol = throughput.Protocol(threads=threads)
    rows = throughput.inference_table(methods, queries, device, protocol)
    lines = throughput.table_lines(rows, beside_paper=device == "cuda")
    if device == "cuda":
        lines.append("\nIn brackets the paper's figures, on an RTX 4060 Laptop GPU.")
    print_result(rows, "\n".join(lines), as_json=as_json)


def _make_table(claims: list[Claim]) -> Table:
    """Return a table with the claims of the paper, and whether each holds."""
    answers = {True: "yes", False: "[bold red]no[/]", None: "too few draws to say"}
    table = Table("claim", "figures", "holds")
    for claim in claims:
        table.add_row(claim.text, claim.figures, answers[claim.holds])
    return table
