"""All commands of ``hammemo``.

Results go to standard output, everything else (progress, notes) to standard error, and a progress bar appears only on a
terminal. Exit codes: 0 success; 1 a claim that was to be checked does not hold, or the work failed; 2 wrong usage.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hammemo import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hammemo.classifiers import MemoryClassifier
    from hammemo.engines import GroupReport
    from hammemo.experiments.synthetic import Claim
    from hammemo.experiments.wikitext import Task

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="One-pass, editable, mergeable classification of categorical sequences.",
)
reproduce = typer.Typer(no_args_is_help=True, help="Regenerate the paper's experiments: tables, figures, numbers.")
bench = typer.Typer(no_args_is_help=True, help="Measure speed, side by side in one run.")
app.add_typer(reproduce, name="reproduce")
app.add_typer(bench, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that is told (done, total) and draws a bar, on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@app.command("fit")
def fit_files(
    source: Annotated[
        list[str],
        typer.Argument(help="Parquet or text files, folders, globs, or addresses such as s3://bucket/folder."),
    ],
    h: Annotated[int, typer.Option("--h", min=1, help="Tokens per context.")],
    out: Annotated[Path, typer.Option(help="The model file to write.")],
    tokens: Annotated[
        str, typer.Option(help="How texts become tokens: ids, words, characters, bytes, or a tokenizer.json.")
    ] = "ids",
    column: Annotated[str | None, typer.Option(help="The Parquet column with the documents.")] = None,
    classes_top: Annotated[
        int | None, typer.Option(min=1, help="Predict only so many tokens, the most frequent ones of a sample.")
    ] = None,
    classes_file: Annotated[Path | None, typer.Option(help="Predict only the tokens in this file, one a line.")] = None,
    memory: Annotated[str, typer.Option(help="hashed or exact.")] = "hashed",
    buckets: Annotated[int, typer.Option(min=1, help="Shared rows of a hashed memory, for each position.")] = 2048,
    reserved: Annotated[int, typer.Option(min=0, help="Tokens with rows of their own in a hashed memory.")] = 1024,
    engine: Annotated[str, typer.Option(help="local, threads, processes or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="How many.", show_default="all cores")] = None,
    address: Annotated[str | None, typer.Option(help="With Ray: the cluster.", show_default="this machine")] = None,
    resume: Annotated[
        str | None, typer.Option(help="A folder that remembers what is done; the same command repeats none of it.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Models with the same seed and layout can be merged.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was learnt as JSON.")] = False,
) -> None:
    """Learn to predict every token of large files from the h tokens before it, on many cores or machines."""
    from hammemo import Exact, Hashed, MemoryClassifier, save
    from hammemo.engines import fit
    from hammemo.sources import open_source

    memories = {"hashed": Hashed(buckets, reserved), "exact": Exact()}
    if memory not in memories:
        raise typer.BadParameter(f"{memory!r} is not known: use hashed or exact", param_hint="--memory")
    if classes_top is not None and classes_file is not None:
        raise typer.BadParameter("give this or --classes-top, not both", param_hint="--classes-file")
    reports: list[GroupReport] = []
    started = time.perf_counter()
    with _one_line_errors(), progress_bar("Learning") as on_progress:
        _check_writable(out)
        model = fit(
            MemoryClassifier(memory=memories[memory], random_state=seed),
            open_source(source, tokens=tokens, column=column),
            h,
            classes=classes_top if classes_file is None else _labels_in(classes_file, tokens),
            engine=engine,
            workers=workers,
            address=address,
            resume=resume,
            on_progress=on_progress,
            on_report=reports.append,
        )
        save(model, out)
    _report_learnt(model, reports, time.perf_counter() - started, out, as_json=as_json)


def _report_learnt(
    model: MemoryClassifier, reports: list[GroupReport], seconds: float, out: Path, *, as_json: bool
) -> None:
    learnt = {
        "tokens": sum(report.tokens for report in reports),
        "examples": int(model.memory_.label_counts.sum()),
        "labels": len(model.classes_),
        "groups": len(reports),
        "groups_resumed": sum(report.resumed for report in reports),
        "seconds": seconds,
        "peak_bytes": max(report.peak_bytes for report in reports),
        "fingerprint": model.memory_.fingerprint(),
        "out": str(out),
    }
    if as_json:
        typer.echo(json.dumps(learnt, indent=2))
        return
    typer.echo(
        f"{learnt['examples']:,} examples of {learnt['labels']:,} labels from {learnt['tokens']:,} tokens in "
        f"{seconds:.1f} s; at most {max(report.peak_bytes for report in reports) / 2**20:.0f} MiB a worker; "
        f"{learnt['groups_resumed']} of {len(reports)} groups were done already. Written to {out}"
    )


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Say what is wrong with files, parameters or extras in one line."""
    try:
        yield
    except (ValueError, TypeError, OSError, RuntimeError, ModuleNotFoundError) as error:
        Console(stderr=True, soft_wrap=True).print(f"Error: {' '.join(str(error).split())}", markup=False)
        raise typer.Exit(1) from error


def _check_writable(out: Path) -> None:
    """Refuse a file that cannot be written before any work is done; one that is there is not touched."""
    if out.is_dir() or not os.access(out if out.exists() else out.parent, os.W_OK):
        raise ValueError(f"--out {out} cannot be written: name a file in a folder that exists.")


def _labels_in(path: Path, tokens: str) -> list[Any]:
    """Return the labels in a file, one a line: whole numbers, unless the source's tokens are strings."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    return lines if tokens in ("words", "characters") else [int(line) for line in lines]


@reproduce.command()
def synthetic(
    out: Annotated[Path, typer.Option(help="Folder for results.json, results.csv, manifest.json and the figure.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="20 realisations, d up to 1024: seconds, for a first look.")
    ] = False,
    realisations: Annotated[int, typer.Option(min=2, help="Draws of the codes per point; the paper has 160.")] = 160,
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
    _prepare_folder(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, realisations)
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
def bounds(
    out: Annotated[Path, typer.Option(help="Folder for results.json, results.csv, manifest.json and bounds.md.")],
    quick: Annotated[bool, typer.Option("--quick", help="A few draws only, for a first look.")] = False,
    draws: Annotated[int, typer.Option(min=1, help="Draws of the codes per data set.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of data and codes.")] = 20270,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")] = os.cpu_count() or 1,
) -> None:
    """Hold every bound of the theory against independent draws: violations, and how loose it is."""
    from hammemo.experiments import bounds as experiment
    from hammemo.experiments.records import write_records

    _prepare_folder(out)
    settings = experiment.Settings(seed, experiment.QUICK_DRAWS if quick else draws)
    started = time.perf_counter()
    with progress_bar("Drawing codes") as on_progress:
        rows = experiment.run(settings, jobs, on_progress)
    results = experiment.summary(settings, rows)
    write_records(out, results, {"bounds": rows}, seconds=time.perf_counter() - started)
    (out / "bounds.md").write_text(experiment.markdown(rows), encoding="utf-8")
    Console(stderr=True).print(f"Written to {out}: results.json, results.csv, manifest.json, bounds.md")
    typer.echo("Bound divided by the realised error, median over draws (violations in brackets):\n")
    typer.echo(experiment.markdown(rows))


@reproduce.command()
def wikitext(
    out: Annotated[Path, typer.Option(help="Folder for reproduction.md, results.json, results.csv and the figure.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with wiki.train.tokens, .valid and .test.", show_default="the Hugging Face hub"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller sample, two draws, h = 8: two minutes.")] = False,
    draws: Annotated[int, typer.Option(min=2, help="Draws of positions.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of draws and codes.")] = 20270,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")] = os.cpu_count() or 1,
) -> None:
    """Evaluate MeMo and its baselines on WikiText-2: table, three panels, inference, whole vocabulary."""
    from hammemo.experiments import throughput, vocabulary
    from hammemo.experiments import wikitext as experiment
    from hammemo.experiments.figures import require_matplotlib, wikitext_figure
    from hammemo.experiments.records import write_records
    from hammemo.experiments.report import reproduction

    require_matplotlib()
    _prepare_folder(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, draws)
    started = time.perf_counter()
    task = _wikitext_task(data)
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
    typer.echo(page)


@reproduce.command()
def hashed(
    out: Annotated[Path, typer.Option(help="Folder for hashed.md, results.json, results.csv and the figures.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with wiki.train.tokens, .valid and .test.", show_default="the Hugging Face hub"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes, examples and repetitions: seconds.")] = False,
    repetitions: Annotated[int, typer.Option(min=2, help="Draws of positions, each with its own seed.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 20270,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")] = os.cpu_count() or 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Weigh the hashed memory on WikiText-2: fidelity and proofs against size, and as the examples grow."""
    from hammemo.experiments import fidelity as experiment
    from hammemo.experiments.figures import fidelity_figures, require_matplotlib
    from hammemo.experiments.records import write_records

    require_matplotlib()
    _prepare_folder(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, repetitions)
    started = time.perf_counter()
    task = _wikitext_task(data)
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
def votes(
    out: Annotated[Path, typer.Option(help="Folder for votes.md, results.json, results.csv and manifest.json.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with wiki.train.tokens, .valid and .test.", show_default="the Hugging Face hub"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer examples, two draws: a minute, a first look.")] = False,
    draws: Annotated[int, typer.Option(min=2, help="Draws of positions.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 20270,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Weigh kernels of sites and log-linear votes on WikiText-2: accuracy, calibration, size, forgetting."""
    from hammemo.experiments import votes as experiment
    from hammemo.experiments.records import write_records

    _prepare_folder(out)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, draws)
    started = time.perf_counter()
    task = _wikitext_task(data)
    with progress_bar("Fitting") as on_progress:
        results = experiment.run(task, settings, on_progress)
    tables = {name: results[name] for name in ("table", "forgetting", "draws")}
    write_records(out, results, tables, seconds=time.perf_counter() - started)
    page = experiment.markdown(results)
    (out / "votes.md").write_text(page, encoding="utf-8")
    Console(stderr=True).print(f"Written to {out}: votes.md, results.json, results.csv, manifest.json")
    typer.echo(json.dumps(results, indent=2) if as_json else page)


@reproduce.command()
def events(
    data: Annotated[Path, typer.Option(help="Folder with helpdesk.csv and bpi_12_w.csv.")],
    out: Annotated[Path | None, typer.Option(help="Folder for events.md, results.json and the like.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Predict the next activity of two event logs under the published protocol, beside the LSTM's figures."""
    from hammemo.experiments import events as experiment
    from hammemo.experiments.records import write_records

    if out is not None:
        _prepare_folder(out)
    started = time.perf_counter()
    try:
        results = experiment.run(data)
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error), param_hint="--data") from error
    page = experiment.markdown(results)
    if out is not None:
        write_records(out, results, {"table": results["table"]}, seconds=time.perf_counter() - started)
        (out / "events.md").write_text(page, encoding="utf-8")
        Console(stderr=True).print(f"Written to {out}: events.md, results.json, results.csv, manifest.json")
    typer.echo(json.dumps(results, indent=2) if as_json else page)


@bench.command()
def inference(
    device: Annotated[str, typer.Option(help="cpu (NumPy), torch-cpu or cuda.")] = "cpu",
    data: Annotated[
        Path | None, typer.Option(help="Folder with WikiText-2.", show_default="tokens drawn from a Zipf law")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads on the processor.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Time the paper's methods at h = 8: state, one query, batches of 256 and 1024 (median of three repeats)."""
    from hammemo.experiments import throughput

    if device not in throughput.DEVICES:
        raise typer.BadParameter(f"{device!r} is not known: use {', '.join(throughput.DEVICES)}", param_hint="--device")
    X, y, queries, n_tokens = _paper_shape(data)
    methods = throughput.paper_methods(X, y, n_tokens, {"alpha": 1e-5, "average": True})
    rows = throughput.inference_table(methods, queries, device, throughput.Protocol(threads=threads))
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table("method", "state (MiB)", "B = 1 (µs)", "B = 256 (Mq/s)", "B = 1024 (Mq/s)")
    for row in rows:
        name, *figures = row.values()
        table.add_row(name, *(f"{figure:.2f}" for figure in figures))
    _console().print(table)


@bench.command()
def predict(
    data: Annotated[
        Path | None, typer.Option(help="Folder with WikiText-2.", show_default="tokens drawn from a Zipf law")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; each runs every contender once.")] = 15,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Race the hashed predictor against the paper's product, torch's embedding_bag and a bare loop (one thread)."""
    from hammemo.experiments import speed

    X, y, queries, n_tokens = _paper_shape(data, all_queries=True)
    with progress_bar("Racing") as on_progress:
        results = speed.predict(X, y, queries, n_tokens, rounds, on_progress)
    if as_json:
        typer.echo(json.dumps(results, indent=2))
        return
    _print_rates(results["rates"], "million queries a second")
    if not any("torch" in row["name"] for row in results["rates"]):
        typer.echo("torch is not installed, so its row is left out: pip install 'hammemo[torch]'.")
    one = results["one_query"]
    typer.echo(
        f"One query from Python: predictor(tokens) {one['call']:.2f} µs, predictor.predict([tokens]) "
        f"{one['predict']:.1f} µs.\n"
        f"State {results['state_mebibytes']:.2f} MiB, compiled {results['compiled_mebibytes']:.2f} MiB; loops: "
        f"{results['loops']}, {results['sum_bits']}-bit sums, one thread.\n"
        f"The paper's headline, for what it is: {results['paper']}."
    )


@bench.command()
def fit(
    tokens: Annotated[int, typer.Option(min=10_000, help="Length of the long stream.")] = 20_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; each runs every contender once.")] = 15,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Race learning against a bare scatter loop, then learn a long stream of Zipf tokens (one thread)."""
    from hammemo.experiments import speed

    with progress_bar("Racing") as on_progress:
        results = speed.fit(33_278, rounds, tokens, on_progress)
    if as_json:
        typer.echo(json.dumps(results, indent=2))
        return
    _print_rates(results["rates"], "million examples a second")
    stream = results["stream"]
    typer.echo(
        f"A stream of {stream['tokens']:,} tokens ({stream['examples']:,} examples): "
        f"{stream['tokens_per_second'] / 1e6:.1f} million tokens a second; at most "
        f"{stream['peak_mebibytes_beyond_the_tokens']:.1f} MiB beyond the tokens themselves, however long it is."
    )


def _print_rates(rows: list[dict[str, Any]], unit: str) -> None:
    table = Table("", f"best, {unit}", "median", "first row / this one, median")
    for row in rows:
        best, median = (f"{row[name] / 1e6:.2f}" for name in ("best_per_second", "median_per_second"))
        table.add_row(row["name"], best, median, "" if row["ratio"] is None else f"{row['ratio']:.2f}")
    _console().print(table)


def _paper_shape(data: Path | None, *, all_queries: bool = False) -> tuple[Any, Any, Any, int]:
    """Return contexts, labels, queries and the number of tokens of the paper's task at h = 8, or of Zipf tokens."""
    from hammemo.experiments import throughput
    from hammemo.experiments import wikitext as experiment

    if data is None:
        X, y = throughput.zipf_sample(m=100_000 if all_queries else 20_000)
        return X, y, X if all_queries else X[:5000], 33_278
    task = _wikitext_task(data)
    sample = experiment.draw_sample(task, experiment.Settings(), 0)
    queries = task.contexts["test"][task.chosen("test"), -8:] if all_queries else sample.split("test", 8)[0]
    return *sample.split("train", 8), queries, len(task.vocabulary)


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="A file that hammemo.save wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Tell what a model file holds, without loading it; exit with 1 if its checksum is wrong."""
    from hammemo import files

    try:
        facts = files.inspect(file)
    except (files.FileError, OSError) as error:
        reason = f"{file}: {error.strerror}." if isinstance(error, OSError) else error
        typer.echo(f"{reason} Name a file that hammemo.save wrote.", err=True)
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        _console().print(_facts_table(facts))
    if not facts["checksum_ok"]:
        typer.echo(f"{file} is damaged: its checksum is not that of its contents. Use another copy of it.", err=True)
        raise typer.Exit(1)


def _facts_table(facts: dict[str, Any]) -> Table:
    table = Table("what", "value")
    rows = {name: value for name, value in facts.items() if name not in ("bytes", "checksum_ok") and value is not None}
    rows["checksum"] = f"{facts['checksum']} ({'ok' if facts['checksum_ok'] else 'WRONG'})"
    rows["needs_key"] = "yes: load(path, key=...)" if facts["needs_key"] else "no"
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), Text(str(value)))  # as it is: no markup from a file
    for group, size in facts["bytes"].items():
        table.add_row(Text(f"bytes of {group}"), f"{size:,}")
    return table


def _prepare_folder(out: Path) -> None:
    """Make the folder and try to write there, before any work is done."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "results.json").touch()
    except OSError as error:
        raise typer.BadParameter(f"{out} is no folder to write to ({error.strerror}).", param_hint="--out") from error


def _wikitext_task(data: Path | None) -> Task:
    from hammemo.experiments import wikitext as experiment

    try:
        return experiment.build_task(experiment.read_hub() if data is None else experiment.read_folder(data))
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error), param_hint="--data") from error


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160)


def _report_claims(claims: list[Claim], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([vars(claim) for claim in claims], indent=2))
        return
    table = Table("claim", "figures", "holds")
    for claim in claims:
        answer = {True: "yes", False: "[bold red]no[/]", None: "too few draws to say"}[claim.holds]
        table.add_row(claim.text, claim.figures, answer)
    _console().print(table)
