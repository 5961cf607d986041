"""``hammemo bench``: speed, side by side in one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from hammemo.cli import experiment_options as opt
from hammemo.cli.commands import Commands
from hammemo.cli.console import UsageError, console, one_line_errors, print_json, progress_bar

if TYPE_CHECKING:
    from pathlib import Path

bench = Commands(help="Measure speed, side by side in one run.")


@bench.command()
@one_line_errors()
def inference(
    device: Annotated[str, typer.Option(metavar="NAME", help="cpu (NumPy), torch-cpu or cuda.")] = "cpu",
    data: opt.BenchData = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads on the processor.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Time the paper's methods at h = 8: state, one query, batches of 256 and 1024 (median of three repeats)."""
    from hammemo.experiments import throughput

    if device not in throughput.DEVICES:
        raise UsageError(f"--device {device!r} is not known: use {', '.join(throughput.DEVICES)}.")
    X, y, queries, n_tokens = _paper_shape(data)
    methods = throughput.paper_methods(X, y, n_tokens, {"alpha": 1e-5, "average": True})
    rows = throughput.inference_table(methods, queries, device, throughput.Protocol(threads=threads))
    if as_json:
        print_json(rows)
        return
    table = Table("method", "state (MiB)", "B = 1 (µs)", "B = 256 (Mq/s)", "B = 1024 (Mq/s)")
    papers = throughput.PAPER if device == "cuda" else {}
    for row in rows:
        name, *figures = row.values()
        beside = [f" ({figure:.2f})" for figure in papers.get(name, ())] or [""] * len(figures)
        table.add_row(name, *(f"{figure:.2f}{theirs}" for figure, theirs in zip(figures, beside, strict=True)))
    console().print(table)
    if papers:
        typer.echo("In brackets the paper's figures, on an RTX 4060 Laptop GPU.")


@bench.command()
@one_line_errors()
def predict(
    data: opt.BenchData = None,
    rounds: opt.Rounds = 15,
    as_json: opt.AllAsJson = False,
) -> None:
    """Race the hashed predictor against the paper's product, torch's embedding_bag and a bare loop (one thread)."""
    from hammemo.experiments import speed

    X, y, queries, n_tokens = _paper_shape(data, all_queries=True)
    with progress_bar("Racing") as on_progress:
        results = speed.predict(X, y, queries, n_tokens, rounds, on_progress)
    if as_json:
        print_json(results)
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
@one_line_errors()
def fit(
    tokens: Annotated[int, typer.Option(min=10_000, help="Length of the long stream.")] = 20_000_000,
    rounds: opt.Rounds = 15,
    as_json: opt.AllAsJson = False,
) -> None:
    """Race learning against a bare scatter loop, then learn a long stream of Zipf tokens (one thread)."""
    from hammemo.experiments import speed

    with progress_bar("Racing") as on_progress:
        results = speed.fit(33_278, rounds, tokens, on_progress)
    if as_json:
        print_json(results)
        return
    _print_rates(results["rates"], "million examples a second")
    stream = results["stream"]
    typer.echo(
        f"A stream of {stream['tokens']:,} tokens ({stream['examples']:,} examples): "
        f"{stream['tokens_per_second'] / 1e6:.1f} million tokens a second; at most "
        f"{stream['peak_mebibytes_beyond_the_tokens']:.1f} MiB beyond the tokens themselves, however long it is."
    )


@bench.command()
@one_line_errors()
def edits(
    labels: Annotated[int, typer.Option(min=2, help="Labels.")] = 64,
    examples: Annotated[int, typer.Option(min=100, help="Examples that are learnt before.")] = 100_000,
    times: Annotated[int, typer.Option("--edits", min=2, help="Edits of one example, a query after each.")] = 2000,
    as_json: opt.AllAsJson = False,
) -> None:
    """Time one query, one edit, and an edit and the query after it: median and 99th percentile (one thread)."""
    from hammemo.experiments import edits as experiment

    with progress_bar("Editing") as on_progress:
        results = experiment.hashed(labels, times, examples, on_progress)
    if as_json:
        print_json(results)
        return
    _print_edits(results)


def _print_edits(results: list[dict[str, Any]]) -> None:
    columns = ["query", "edit", "query after it", "edit and query", "checks of an edit", "of a query"]
    table = Table("median / p99, µs", *columns, "edit and query / query")
    for row in results:
        names = ("query", "edit", "query_after", "edit_and_query", "checks", "query_checks")
        figures = (f"{row[name]['median']:.0f} / {row[name]['p99']:.0f}" for name in names)
        ratio = f"{row['ratio']['median']:.2f} / {row['ratio']['p99']:.2f}"
        table.add_row(f"{row['memory']}, {row['vote']}, {row['labels']} labels", *figures, ratio)
    console().print(table)
    typer.echo(
        "Checks are scikit-learn's, of the arguments, and part of the figures before them. Time of the one thread that "
        "works: what other programs take is left out."
    )


@bench.command()
@one_line_errors()
def labels(
    data: opt.BenchData = None,
    train: Annotated[
        int | None, typer.Option(min=100, help="Examples that are learnt.", show_default="all; drawn: 1,000,000")
    ] = None,
    queries: Annotated[
        int | None, typer.Option(min=10, help="Questions.", show_default="20,000; with --agreement and --data: all")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats; the best counts.")] = 3,
    edits: Annotated[
        int, typer.Option(min=0, help="Edit so many times instead, a question after each, and compare.")
    ] = 0,
    agreement: Annotated[
        bool, typer.Option("--agreement", help="Compare all answers instead, with every vote.")
    ] = False,
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", help="positions or Suffixes(5).", show_default="both")
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(metavar="PYTHON", help="An interpreter with another version, for fit and memory."),
    ] = None,
    as_json: opt.AllAsJson = False,
) -> None:
    """Race exact answers with a whole vocabulary as labels: live table, all scores, a bare loop, a dict of Counters."""
    from hammemo.experiments import label_edits
    from hammemo.experiments import labels as experiment

    if edits and agreement:
        raise UsageError("--edits and --agreement are two runs: leave out one.")
    if kernel not in (None, *experiment.KERNELS):
        raise UsageError(f"--kernel {kernel!r} is not known: use {' or '.join(experiment.KERNELS)}.")
    kernels = [*experiment.KERNELS] if kernel is None else [kernel]
    if data is None:
        examples = experiment.Data.drawn(train or 1_000_000, queries or 20_000)
    else:
        asked = queries if agreement else queries or 20_000
        examples = experiment.Data.of(opt.wikitext_task(data), train, asked, targets=agreement)
    results: dict[str, Any]
    with progress_bar("Racing") as on_progress:
        if edits:
            results = label_edits.run(examples, edits, on_progress, kernels)
        elif agreement:
            results = {"agreement": experiment.agreements(examples, on_progress, kernels)}
        else:
            results = experiment.race(examples, repeats, on_progress, kernels)
            results["fresh"] = experiment.fresh(examples, repeats, beside or (), kernels)
    if as_json:
        print_json(results)
        return
    for name, rows in results.items():
        if isinstance(rows, list) and rows:
            _print_table(name, rows)
    typer.echo("Processor time of one thread, in one run: compare within a table, not with another machine.")


def _print_table(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows with equal keys; a median and a 99th percentile are one cell."""
    table = Table(*(name.replace("_", " ") for name in rows[0]), title=title)
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    console().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return " / ".join(f"{part:.0f}" for part in value.values())
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print_rates(rows: list[dict[str, Any]], unit: str) -> None:
    table = Table("", f"best, {unit}", "median", "first row / this one, median")
    for row in rows:
        best, median = (f"{row[name] / 1e6:.2f}" for name in ("best_per_second", "median_per_second"))
        table.add_row(row["name"], best, median, "" if row["ratio"] is None else f"{row['ratio']:.2f}")
    console().print(table)


def _paper_shape(data: Path | None, *, all_queries: bool = False) -> tuple[Any, Any, Any, int]:
    """Return contexts, labels, queries and the number of tokens of the paper's task at h = 8, or of Zipf tokens."""
    from hammemo.experiments import throughput
    from hammemo.experiments import wikitext as experiment

    if data is None:
        X, y = throughput.zipf_sample(m=100_000 if all_queries else 20_000)
        return X, y, X if all_queries else X[:5000], 33_278
    task = opt.wikitext_task(data)
    sample = experiment.draw_sample(task, experiment.Settings(), 0)
    queries = task.contexts["test"][task.chosen("test"), -8:] if all_queries else sample.split("test", 8)[0]
    return *sample.split("train", 8), queries, len(task.vocabulary)
