"""Experiments on real data that are not the paper's.

``python -m benchmarks.experiments COMMAND --help`` says how to run one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hammemo.cli import experiment_options as opt
from hammemo.cli.commands import Commands
from hammemo.cli.console import UsageError, one_line_errors, print_result, progress_bar

sys.path.insert(0, str(Path(__file__).parent))  # for python -m

app = Commands(help="Experiments on real data that are not the paper's.")


@app.command("hashed")
@one_line_errors()
def measure_hashed(
    out: Annotated[
        Path, opt.results_folder("hashed.md, results.json, results.csv and the figures")
    ],
    *,
    data: opt.WikiText = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer sizes, examples and repetitions: seconds.")
    ] = False,
    repetitions: Annotated[
        int | None,
        typer.Option(min=2, help="Draws of positions, each with its own seed.", show_default="5"),
    ] = None,
    seed: opt.DataSeed = opt.SEED,
    jobs: opt.Jobs = opt.ALL_CORES,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Measure the hashed memory on WikiText-2.

    Print fidelity and proofs by size and by number of examples.
    """
    import fidelity as experiment
    from fidelity_figures import fidelity_figures
    from hammemo.paper.experiments.figures import require_matplotlib

    require_matplotlib()
    settings = opt.choose_settings(
        experiment.FidelitySettings, seed, "--repetitions", repetitions, quick=quick
    )
    folder = opt.ResultsFolder(out)
    task = opt.build_wikitext_task(data)
    with progress_bar("Comparing memories") as on_progress:
        results = experiment.summary(settings, experiment.run(task, settings, jobs, on_progress))
    page = experiment.markdown(results)
    fidelity_figures(results, out)
    folder.write(
        results, ["size", "growth"], "hashed-size.*", "hashed-growth.*", pages={"hashed.md": page}
    )
    print_result(results, page, as_json=as_json)


@app.command()
@one_line_errors()
def votes(
    out: Annotated[
        Path, opt.results_folder("votes.md, results.json, results.csv and manifest.json")
    ],
    *,
    data: opt.WikiText = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer examples, two draws: a minute, a first look.")
    ] = False,
    draws: opt.Draws = None,
    seed: opt.DataSeed = opt.SEED,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Measure kernels of sites and log-linear votes on WikiText-2.

    Print accuracy, calibration, sizes and what forgetting takes.
    """
    import votes as experiment

    settings = opt.choose_settings(experiment.VoteSettings, seed, "--draws", draws, quick=quick)
    folder = opt.ResultsFolder(out)
    task = opt.build_wikitext_task(data)
    with progress_bar("Fitting") as on_progress:
        results = experiment.run(task, settings, on_progress)
    page = experiment.markdown(results)
    folder.write(results, ["table", "forgetting", "draws"], pages={"votes.md": page})
    print_result(results, page, as_json=as_json)


@app.command()
@one_line_errors()
def events(
    data: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder with helpdesk.csv and bpi_12_w.csv.")
    ],
    out: Annotated[Path | None, opt.results_folder("events.md, results.json and the like")] = None,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Predict the next activity of two event logs, next to the published figures of an LSTM."""
    import events as experiment

    folder = opt.ResultsFolder(out)
    with opt.data_option():
        results = experiment.run(data)
    page = experiment.markdown(results)
    folder.write(results, ["table"], pages={"events.md": page})
    print_result(results, page, as_json=as_json)


@app.command()
@one_line_errors()
def deletion(
    table: Annotated[
        str, typer.Option(metavar="NAME", help="One of the tables of hammemo.datasets.")
    ] = "car",
    out: Annotated[
        Path | None, opt.results_folder("deletion.md, results.json and the like")
    ] = None,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Delete 100 rows of a real table: quality and cost, compared with LightGBM if it is installed.

    Needs no data.
    """
    import deletion as experiment
    from hammemo.datasets.loading import TABLES

    if table not in TABLES:
        raise UsageError(f"--table {table!r} is not one of the tables: use {', '.join(TABLES)}.")
    folder = opt.ResultsFolder(out)
    with progress_bar("Measuring") as on_progress:
        results = experiment.run(table, on_progress)
    page = experiment.markdown(results)
    folder.write(results, ["table"], pages={"deletion.md": page})
    print_result(results, page, as_json=as_json)


@app.command()
@one_line_errors()
def sessions(
    data: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder with bol-train.tsv and similar files.")
    ],
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME", help="One of the sets; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, opt.results_folder("sessions.md, results.json and the like")
    ] = None,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Predict the next click or purchase.

    Data are two web shops and two sets of purchases; settings are chosen on validation.
    """
    from sessions.data import SETS
    from sessions.ours import Ours
    from sessions.running import run

    unknown = [name for name in sets or () if name not in SETS]
    if unknown:
        raise UsageError(f"--set {unknown[0]!r} is not one of the sets: use {', '.join(SETS)}.")
    folder = opt.ResultsFolder(out)
    with opt.data_option(), progress_bar("Measuring") as on_progress:
        results, page = run(data, sets or SETS, [Ours], on_progress)
    folder.write(results, ["table"], pages={"sessions.md": page})
    print_result(results, page, as_json=as_json)


@app.command()
@one_line_errors()
def language(
    data: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder with wiki.train.tokens and .test.")
    ],
    most: Annotated[
        int | None,
        typer.Option(min=1, help="Test only the first targets, this many.", show_default="all"),
    ] = None,
    out: Annotated[
        Path | None, opt.results_folder("language.md, results.json and the like")
    ] = None,
    as_json: opt.ResultsAsJson = False,
) -> None:
    """Predict every token of WikiText-2's test text from the whole vocabulary.

    Print perplexity, with and without caches.
    """
    from language import ours as experiment

    folder = opt.ResultsFolder(out)
    with opt.data_option(), progress_bar("Measuring") as on_progress:
        results = experiment.run(data, most=most, on_progress=on_progress)
    page = experiment.markdown(results)
    folder.write(results, ["table"], pages={"language.md": page})
    print_result(results, page, as_json=as_json)


if __name__ == "__main__":
    app()
