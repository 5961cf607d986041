"""``hammemo reproduce``: the paper's experiments, and ours."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hammemo.cli.commands import Commands
from hammemo.cli.console import UsageError, console, one_line_errors, prepare_folder, progress_bar, wikitext_task

if TYPE_CHECKING:
    from hammemo.experiments.synthetic import Claim

reproduce = Commands(help="Regenerate the paper's experiments: tables, figures, numbers.")


@reproduce.command()
@one_line_errors()
def synthetic(
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for results.json, results.csv, manifest.json and the figure.",
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="20 realisations, d up to 1024: seconds, for a first look.")
    ] = False,
    realisations: Annotated[
        int | None, typer.Option(min=2, help="Draws of the codes per point; the paper has 160.", show_default="160")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of data and codes.")] = 20270,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")] = os.cpu_count() or 1,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if one of the paper's claims does not hold.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the claims as JSON.")] = False,
) -> None:
    """Validate the analysis on planted data: context error, output error, recovery (three panels)."""
    from hammemo.experiments import synthetic as experiment
    from hammemo.experiments.figures import require_matplotlib, synthetic_figure
    from hammemo.experiments.records import write_records

    require_matplotlib()
    _check_quick(quick, "--realisations", realisations)
    prepare_folder(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, realisations or 160)
    started = time.perf_counter()
    with progress_bar("Drawing codes") as on_progress:
        points = experiment.run(settings, jobs, on_progress)
    results = experiment.summary(settings, points)
    tables = {name: results[name] for name in ("context_error", "output_error", "agreement")}
    write_records(out, results, tables, seconds=time.perf_counter() - started)
    synthetic_figure(results, out)
    _report_claims(experiment.claims(results), as_json=as_json)
    Console(stderr=True).print(
        f"Written to {out}: results.json, results.csv, manifest.json, synthetic.png, synthetic.svg"
    )
    if check and any(claim.holds is not True for claim in experiment.claims(results)):
        raise typer.Exit(1)


@reproduce.command()
@one_line_errors()
def bounds(
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for results.json, results.csv, manifest.json and bounds.md.",
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A few draws only, for a first look.")] = False,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draws of the codes per data set.", show_default="2000")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of data and codes.")] = 20270,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")] = os.cpu_count() or 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Hold every bound of the theory against independent draws: violations, and how loose it is."""
    from hammemo.experiments import bounds as experiment
    from hammemo.experiments.records import write_records

    _check_quick(quick, "--draws", draws)
    prepare_folder(out)
    settings = experiment.Settings(seed, experiment.QUICK_DRAWS if quick else draws or 2000)
    started = time.perf_counter()
    with progress_bar("Drawing codes") as on_progress:
        rows = experiment.run(settings, jobs, on_progress)
    results = experiment.summary(settings, rows)
    write_records(out, results, {"bounds": rows}, seconds=time.perf_counter() - started)
    (out / "bounds.md").write_text(experiment.markdown(rows), encoding="utf-8")
    Console(stderr=True).print(f"Written to {out}: results.json, results.csv, manifest.json, bounds.md")
    if as_json:
        typer.echo(json.dumps(results, indent=2))
        return
    typer.echo("Bound divided by the realised error, median over draws (violations in brackets):\n")
    typer.echo(experiment.markdown(rows))


@reproduce.command()
@one_line_errors()
def wikitext(
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for reproduction.md, results.json, results.csv and the figure.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder with wiki.train.tokens, .valid and .test.",
            show_default="the Hugging Face hub",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller sample, two draws, h = 8: two minutes.")] = False,
    draws: Annotated[int | None, typer.Option(min=2, help="Draws of positions.", show_default="5")] = None,
    seed: Annotated[int, typer.Option(help="Seed of draws and codes.")] = 20270,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")] = os.cpu_count() or 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Evaluate MeMo and its baselines on WikiText-2: table, three panels, inference, whole vocabulary."""
    from hammemo.experiments import throughput, vocabulary
    from hammemo.experiments import wikitext as experiment
    from hammemo.experiments.figures import require_matplotlib, wikitext_figure
    from hammemo.experiments.records import write_records
    from hammemo.experiments.report import reproduction

    require_matplotlib()
    _check_quick(quick, "--draws", draws)
    prepare_folder(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, draws or 5)
    started = time.perf_counter()
    task = wikitext_task(data)
    with progress_bar("Evaluating draws") as on_progress:
        results = experiment.summary(task, settings, experiment.run(task, settings, jobs, on_progress))
    sample = experiment.draw_sample(task, settings, 0)
    results["tie_rules"] = experiment.tie_rules(sample)
    protocol = throughput.Protocol(timed=10, repeats=1) if quick else throughput.Protocol()
    n_tokens, queries = len(task.vocabulary), sample.contexts["test"]
    svm = next(outcome["svm"] for outcome in results["draws"] if outcome["h"] == 8)
    methods = throughput.paper_methods(*sample.split("train", 8), n_tokens, svm)
    results["protocol"] = vars(protocol)
    results["inference"] = throughput.inference_table(methods, queries[:, -8:], "cpu", protocol)
    splits = {h: sample.split("train", h) for h in settings.context_lengths}
    results["throughput"] = throughput.throughput_panel(splits, queries, n_tokens, settings.dimensions, protocol)
    small: dict[str, Any] = {"dimensions": (256,), "n_train": 50_000, "n_test": 500} if quick else {}
    with progress_bar("Whole vocabulary") as on_progress:
        results["full_vocabulary"] = vocabulary.run(task, seed=seed, on_progress=on_progress, **small)
    tables = {name: results[name] for name in ("table", "inference", "throughput", "full_vocabulary")}
    write_records(out, results, tables, seconds=time.perf_counter() - started)
    wikitext_figure(results, out)
    page = reproduction(results)
    (out / "reproduction.md").write_text(page, encoding="utf-8")
    Console(stderr=True).print(f"Written to {out}: reproduction.md, results.json, results.csv, manifest.json, figures")
    typer.echo(json.dumps(results, indent=2) if as_json else page)


@reproduce.command()
@one_line_errors()
def hashed(
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for hashed.md, results.json, results.csv and the figures.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder with wiki.train.tokens, .valid and .test.",
            show_default="the Hugging Face hub",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes, examples and repetitions: seconds.")] = False,
    repetitions: Annotated[
        int | None, typer.Option(min=2, help="Draws of positions, each with its own seed.", show_default="5")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 20270,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")] = os.cpu_count() or 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Weigh the hashed memory on WikiText-2: fidelity and proofs against size, and as the examples grow."""
    from hammemo.experiments import fidelity as experiment
    from hammemo.experiments.figures import fidelity_figures, require_matplotlib
    from hammemo.experiments.records import write_records

    require_matplotlib()
    _check_quick(quick, "--repetitions", repetitions)
    prepare_folder(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, repetitions or 5)
    started = time.perf_counter()
    task = wikitext_task(data)
    with progress_bar("Comparing memories") as on_progress:
        results = experiment.summary(settings, experiment.run(task, settings, jobs, on_progress))
    tables = {name: results[name] for name in ("size", "growth")}
    write_records(out, results, tables, seconds=time.perf_counter() - started)
    fidelity_figures(results, out)
    page = experiment.markdown(results)
    (out / "hashed.md").write_text(page, encoding="utf-8")
    Console(stderr=True).print(
        f"Written to {out}: hashed.md, results.json, results.csv, manifest.json, hashed-size.*, hashed-growth.*"
    )
    typer.echo(json.dumps(results, indent=2) if as_json else page)


@reproduce.command()
@one_line_errors()
def votes(
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for votes.md, results.json, results.csv and manifest.json.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder with wiki.train.tokens, .valid and .test.",
            show_default="the Hugging Face hub",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer examples, two draws: a minute, a first look.")] = False,
    draws: Annotated[int | None, typer.Option(min=2, help="Draws of positions.", show_default="5")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 20270,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Weigh kernels of sites and log-linear votes on WikiText-2: accuracy, calibration, size, forgetting."""
    from hammemo.experiments import votes as experiment
    from hammemo.experiments.records import write_records

    _check_quick(quick, "--draws", draws)
    prepare_folder(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, draws or 5)
    started = time.perf_counter()
    task = wikitext_task(data)
    with progress_bar("Fitting") as on_progress:
        results = experiment.run(task, settings, on_progress)
    tables = {name: results[name] for name in ("table", "forgetting", "draws")}
    write_records(out, results, tables, seconds=time.perf_counter() - started)
    page = experiment.markdown(results)
    (out / "votes.md").write_text(page, encoding="utf-8")
    Console(stderr=True).print(f"Written to {out}: votes.md, results.json, results.csv, manifest.json")
    typer.echo(json.dumps(results, indent=2) if as_json else page)


@reproduce.command()
@one_line_errors()
def events(
    data: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder with helpdesk.csv and bpi_12_w.csv.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for events.md, results.json and the like.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Predict the next activity of two event logs under the published protocol, beside the LSTM's figures."""
    from hammemo.experiments import events as experiment
    from hammemo.experiments.records import write_records

    if out is not None:
        prepare_folder(out)
    started = time.perf_counter()
    try:
        results = experiment.run(data)
    except FileNotFoundError as error:
        raise UsageError(f"--data: {error}") from error
    page = experiment.markdown(results)
    if out is not None:
        write_records(out, results, {"table": results["table"]}, seconds=time.perf_counter() - started)
        (out / "events.md").write_text(page, encoding="utf-8")
        Console(stderr=True).print(f"Written to {out}: events.md, results.json, results.csv, manifest.json")
    typer.echo(json.dumps(results, indent=2) if as_json else page)


def _check_quick(quick: bool, name: str, number: int | None) -> None:
    if quick and number is not None:
        raise UsageError(f"{name} {number} does not go with --quick, which has a number of its own: leave out one.")


def _report_claims(claims: list[Claim], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([vars(claim) for claim in claims], indent=2))
        return
    table = Table("claim", "figures", "holds")
    for claim in claims:
        answer = {True: "yes", False: "[bold red]no[/]", None: "too few draws to say"}[claim.holds]
        table.add_row(claim.text, claim.figures, answer)
    console().print(table)
