"""``hammemo reproduce``: the paper's experiments, and ours."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from hammemo.cli import experiment_options as opt
from hammemo.cli.commands import Commands
from hammemo.cli.console import UsageError, console, one_line_errors, print_json, progress_bar

if TYPE_CHECKING:
    from hammemo.experiments.synthetic import Claim

reproduce = Commands(help="Regenerate the paper's experiments: tables, figures, numbers.")


@reproduce.command()
@one_line_errors()
def synthetic(
    out: Annotated[Path, opt.results_folder("results.json, results.csv, manifest.json and the figure")],
    quick: Annotated[
        bool, typer.Option("--quick", help="20 realisations, d up to 1024: seconds, for a first look.")
    ] = False,
    realisations: Annotated[
        int | None, typer.Option(min=2, help="Draws of the codes per point; the paper has 160.", show_default="160")
    ] = None,
    seed: opt.DataSeed = opt.SEED,
    jobs: opt.Jobs = opt.ALL_CORES,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if one of the paper's claims does not hold.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the claims as JSON.")] = False,
) -> None:
    """Validate the analysis on planted data: context error, output error, recovery (three panels)."""
    from hammemo.experiments import synthetic as experiment
    from hammemo.experiments.figures import require_matplotlib, synthetic_figure

    require_matplotlib()
    opt.check_quick(quick, "--realisations", realisations)
    folder = opt.Results(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, realisations or 160)
    with progress_bar("Drawing codes") as on_progress:
        points = experiment.run(settings, jobs, on_progress)
    results = experiment.summary(settings, points)
    folder.write(results, ["context_error", "output_error", "agreement"])
    synthetic_figure(results, out)
    _report_claims(experiment.claims(results), as_json=as_json)
    folder.say_written(*opt.RECORDS, "synthetic.png", "synthetic.svg")
    if check and any(claim.holds is not True for claim in experiment.claims(results)):
        raise typer.Exit(1)


@reproduce.command()
@one_line_errors()
def bounds(
    out: Annotated[Path, opt.results_folder("results.json, results.csv, manifest.json and bounds.md")],
    quick: Annotated[bool, typer.Option("--quick", help="A few draws only, for a first look.")] = False,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draws of the codes per data set.", show_default="2000")
    ] = None,
    seed: opt.DataSeed = opt.SEED,
    jobs: opt.Jobs = opt.ALL_CORES,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Hold every bound of the theory against independent draws: violations, and how loose it is."""
    from hammemo.experiments import bounds as experiment

    opt.check_quick(quick, "--draws", draws)
    folder = opt.Results(out)
    settings = experiment.Settings(seed, experiment.QUICK_DRAWS if quick else draws or 2000)
    with progress_bar("Drawing codes") as on_progress:
        rows = experiment.run(settings, jobs, on_progress)
    results = experiment.summary(settings, rows)
    page = experiment.markdown(rows)
    folder.write(results, ["bounds"], ("bounds.md", page))
    folder.say_written(*opt.RECORDS, "bounds.md")
    title = "Bound divided by the realised error, median over draws (violations in brackets):"
    opt.print_results(results, f"{title}\n\n{page}", as_json=as_json)


@reproduce.command()
@one_line_errors()
def wikitext(
    out: Annotated[Path, opt.results_folder("reproduction.md, results.json, results.csv and the figure")],
    data: opt.WikiText = None,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller sample, two draws, h = 8: two minutes.")] = False,
    draws: opt.Draws = None,
    seed: Annotated[int, typer.Option(help="Seed of draws and codes.")] = opt.SEED,
    jobs: opt.Jobs = opt.ALL_CORES,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Evaluate MeMo and its baselines on WikiText-2: table, three panels, inference, whole vocabulary."""
    from hammemo.experiments import throughput, vocabulary
    from hammemo.experiments import wikitext as experiment
    from hammemo.experiments.figures import require_matplotlib, wikitext_figure
    from hammemo.experiments.report import reproduction

    require_matplotlib()
    opt.check_quick(quick, "--draws", draws)
    folder = opt.Results(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, draws or 5)
    task = opt.wikitext_task(data)
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
    page = reproduction(results)
    folder.write(results, ["table", "inference", "throughput", "full_vocabulary"], ("reproduction.md", page))
    wikitext_figure(results, out)
    folder.say_written("reproduction.md", *opt.RECORDS, "figures")
    opt.print_results(results, page, as_json=as_json)


@reproduce.command()
@one_line_errors()
def hashed(
    out: Annotated[Path, opt.results_folder("hashed.md, results.json, results.csv and the figures")],
    data: opt.WikiText = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes, examples and repetitions: seconds.")] = False,
    repetitions: Annotated[
        int | None, typer.Option(min=2, help="Draws of positions, each with its own seed.", show_default="5")
    ] = None,
    seed: opt.DrawSeed = opt.SEED,
    jobs: opt.Jobs = opt.ALL_CORES,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Weigh the hashed memory on WikiText-2: fidelity and proofs against size, and as the examples grow."""
    from hammemo.experiments import fidelity as experiment
    from hammemo.experiments.figures import fidelity_figures, require_matplotlib

    require_matplotlib()
    opt.check_quick(quick, "--repetitions", repetitions)
    folder = opt.Results(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, repetitions or 5)
    task = opt.wikitext_task(data)
    with progress_bar("Comparing memories") as on_progress:
        results = experiment.summary(settings, experiment.run(task, settings, jobs, on_progress))
    page = experiment.markdown(results)
    folder.write(results, ["size", "growth"], ("hashed.md", page))
    fidelity_figures(results, out)
    folder.say_written("hashed.md", *opt.RECORDS, "hashed-size.*", "hashed-growth.*")
    opt.print_results(results, page, as_json=as_json)


@reproduce.command()
@one_line_errors()
def votes(
    out: Annotated[Path, opt.results_folder("votes.md, results.json, results.csv and manifest.json")],
    data: opt.WikiText = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer examples, two draws: a minute, a first look.")] = False,
    draws: opt.Draws = None,
    seed: opt.DrawSeed = opt.SEED,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Weigh kernels of sites and log-linear votes on WikiText-2: accuracy, calibration, size, forgetting."""
    from hammemo.experiments import votes as experiment

    opt.check_quick(quick, "--draws", draws)
    folder = opt.Results(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, draws or 5)
    task = opt.wikitext_task(data)
    with progress_bar("Fitting") as on_progress:
        results = experiment.run(task, settings, on_progress)
    page = experiment.markdown(results)
    folder.write(results, ["table", "forgetting", "draws"], ("votes.md", page))
    folder.say_written("votes.md", *opt.RECORDS)
    opt.print_results(results, page, as_json=as_json)


@reproduce.command()
@one_line_errors()
def events(
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder with helpdesk.csv and bpi_12_w.csv.")],
    out: Annotated[Path | None, opt.results_folder("events.md, results.json and the like")] = None,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Predict the next activity of two event logs under the published protocol, beside the LSTM's figures."""
    from hammemo.experiments import events as experiment

    folder = None if out is None else opt.Results(out)
    try:
        results = experiment.run(data)
    except FileNotFoundError as error:
        raise UsageError(f"--data: {error}") from error
    page = experiment.markdown(results)
    if folder is not None:
        folder.write(results, ["table"], ("events.md", page))
        folder.say_written("events.md", *opt.RECORDS)
    opt.print_results(results, page, as_json=as_json)


@reproduce.command()
@one_line_errors()
def deletion(
    table: Annotated[str, typer.Option(metavar="NAME", help="One of the tables of hammemo.datasets.")] = "car",
    out: Annotated[Path | None, opt.results_folder("deletion.md, results.json and the like")] = None,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Delete 100 rows of a real table: quality and cost, beside LightGBM where it is installed. Needs no data."""
    from hammemo.datasets.loading import TABLES
    from hammemo.experiments import deletion as experiment

    if table not in TABLES:
        raise UsageError(f"--table {table!r} is not one of the tables: use {', '.join(TABLES)}.")
    folder = None if out is None else opt.Results(out)
    with progress_bar("Measuring") as on_progress:
        results = experiment.run(table, on_progress)
    page = experiment.markdown(results)
    if folder is not None:
        folder.write(results, ["table"], ("deletion.md", page))
        folder.say_written("deletion.md", *opt.RECORDS)
    opt.print_results(results, page, as_json=as_json)


@reproduce.command()
@one_line_errors()
def sessions(
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder with bol-train.tsv and the like.")],
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME", help="One of the sets; may be repeated.")
    ] = None,
    out: Annotated[Path | None, opt.results_folder("sessions.md, results.json and the like")] = None,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Predict the next click or purchase: two web shops and two sets of purchases, settings chosen on validation."""
    from hammemo.experiments.sessions.data import SETS
    from hammemo.experiments.sessions.ours import Ours
    from hammemo.experiments.sessions.running import run

    unknown = [name for name in sets or () if name not in SETS]
    if unknown:
        raise UsageError(f"--set {unknown[0]!r} is not one of the sets: use {', '.join(SETS)}.")
    folder = None if out is None else opt.Results(out)
    try:
        with progress_bar("Measuring") as on_progress:
            results, page = run(data, sets or SETS, [Ours], on_progress)
    except FileNotFoundError as error:
        raise UsageError(f"--data: {error}") from error
    if folder is not None:
        folder.write(results, ["table"], ("sessions.md", page))
        folder.say_written("sessions.md", *opt.RECORDS)
    opt.print_results(results, page, as_json=as_json)


@reproduce.command()
@one_line_errors()
def language(
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder with wiki.train.tokens and .test.")],
    most: Annotated[
        int | None, typer.Option(min=1, help="Ask the first so many targets only.", show_default="all")
    ] = None,
    out: Annotated[Path | None, opt.results_folder("language.md, results.json and the like")] = None,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Predict every token of WikiText-2's test out of the whole vocabulary: perplexity, with and without caches."""
    from hammemo.experiments import language as experiment

    folder = None if out is None else opt.Results(out)
    try:
        with progress_bar("Measuring") as on_progress:
            results = experiment.run(data, most=most, on_progress=on_progress)
    except FileNotFoundError as error:
        raise UsageError(f"--data: {error}") from error
    page = experiment.markdown(results)
    if folder is not None:
        folder.write(results, ["table"], ("language.md", page))
        folder.say_written("language.md", *opt.RECORDS)
    opt.print_results(results, page, as_json=as_json)


def _report_claims(claims: list[Claim], *, as_json: bool) -> None:
    if as_json:
        print_json([vars(claim) for claim in claims])
        return
    table = Table("claim", "figures", "holds")
    for claim in claims:
        answer = {True: "yes", False: "[bold red]no[/]", None: "too few draws to say"}[claim.holds]
        table.add_row(claim.text, claim.figures, answer)
    console().print(table)
