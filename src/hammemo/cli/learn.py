"""``hammemo fit``: learn rows of a table, or sequences."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hammemo.cli import options as opt
from hammemo.cli.console import UsageError, check_writable, counted, one_line_errors, progress_bar, say_where_from
from hammemo.sources.formats import format_of

if TYPE_CHECKING:
    from hammemo.engines import GroupReport
    from hammemo.models.classifiers import MemoryClassifier
    from hammemo.sources.schemas import SequenceSchema

_SEQUENCES, _MODEL, _ENGINE = "Sequences", "The model", "Large files of sequences"

TableLabel = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Learn a table: the column to predict (its number with --no-header)."),
]
SequenceLength = Annotated[int | None, typer.Option("--h", min=1, help="Learn sequences: tokens per context.")]
Kernel = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What is compared: positions, decaying:RATE, suffixes:K, suffixes:K:BASE, skip-pairs:K; join with +.",
        rich_help_panel=_MODEL,
    ),
]


def fit_files(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Tables or sequences: files, - for standard input; for sequences also folders, globs, or addresses "
            "such as s3://bucket/folder.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The model file to write.")],
    label: TableLabel = None,
    h: SequenceLength = None,
    as_json: opt.AsJson = False,
    columns: opt.Columns = None,
    no_header: opt.NoHeader = False,
    delimiter: opt.Delimiter = None,
    missing: opt.Missing = None,
    file_format: opt.Format = None,
    tokens: opt.Tokens = None,
    column: opt.Column = None,
    case: opt.Case = None,
    event: opt.Event = None,
    end: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="Put this at the end of each document.", rich_help_panel=_SEQUENCES),
    ] = None,
    short: Annotated[
        str,
        typer.Option(
            metavar="WHAT", help="Tokens with fewer than h before them: drop, or pad.", rich_help_panel=_SEQUENCES
        ),
    ] = "drop",
    classes_top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Predict only so many tokens, the most frequent ones of a sample.",
            rich_help_panel=_SEQUENCES,
        ),
    ] = None,
    classes_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Predict only the tokens in this file, one a line.", rich_help_panel=_SEQUENCES
        ),
    ] = None,
    kernel: Kernel = "positions",
    vote: Annotated[
        str, typer.Option(metavar="NAME", help="sum, mean or log-linear (gives --proba).", rich_help_panel=_MODEL)
    ] = "sum",
    memory: Annotated[
        str, typer.Option(metavar="NAME", help="hashed, exact or gaussian (the paper's).", rich_help_panel=_MODEL)
    ] = "hashed",
    buckets: Annotated[
        int,
        typer.Option(min=1, help="Shared rows of a hashed memory, for each position.", rich_help_panel=_MODEL),
    ] = 2048,
    reserved: Annotated[
        int,
        typer.Option(min=0, help="Tokens with rows of their own in a hashed memory.", rich_help_panel=_MODEL),
    ] = 1024,
    d: Annotated[
        int, typer.Option("--d", min=1, help="Dimension of a gaussian memory.", rich_help_panel=_MODEL)
    ] = 1024,
    ledger: Annotated[
        bool,
        typer.Option("--ledger", help="Keep digests: forget refuses what was never learnt.", rich_help_panel=_MODEL),
    ] = False,
    key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Make a keyed model: a secret key of 16 to 64 bytes.", rich_help_panel=_MODEL
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Models with the same seed and layout can be merged.", rich_help_panel=_MODEL)
    ] = 0,
    layout: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Use its layout: the two can be merged.", rich_help_panel=_MODEL),
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="NAME", help="local, threads, processes or ray.", rich_help_panel=_ENGINE)
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many workers.", show_default="all cores", rich_help_panel=_ENGINE)
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="With Ray: the cluster.", show_default="this machine", rich_help_panel=_ENGINE
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Remembers what is done; the same command repeats none of it.",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
) -> None:
    """Learn rows of a table (--label), or every token of sequences from the h tokens before it (--h).

    The model file remembers how its input was read, so predict, add and forget need no options.
    """
    from hammemo.cli.batches import learn_batches
    from hammemo.cli.models import OpenModel, open_model
    from hammemo.models.classifiers import MemoryClassifier
    from hammemo.sources.schemas import SequenceSchema

    started = time.perf_counter()
    with one_line_errors():
        if classes_top is not None and classes_file is not None:
            raise UsageError("--classes-file and --classes-top both say what is predicted: give one of them.")
        check_writable(out)
        if resume is not None and os.path.isfile(resume):
            raise UsageError(f"--resume {resume} is a file: name a folder, which need not exist.")
        key = opt.read_key(key_file)
        parts = opt.kernel_of(kernel), opt.memory_of(memory, buckets, reserved, d, key, ledger=ledger)
        model = MemoryClassifier(*parts, vote=opt.vote_of(vote), random_state=seed)
        like = None if layout is None else open_model(layout, key).learner(layout)
        for_sequences = {"tokens": tokens, "column": column, "case": case, "event": event, "end": end}
        schema = opt.new_schema(
            h, label, {"columns": columns, "missing": missing}, for_sequences, header=not no_header, delimiter=delimiter
        )
        classes: Any = None
        if isinstance(schema, SequenceSchema):
            chosen = classes_top is not None or classes_file is not None
            schema = replace(schema, short=short, chosen=chosen)
            classes = classes_top if classes_file is None else _labels_in(classes_file, schema)
        else:
            wrong = {"classes-top": classes_top, "classes-file": classes_file, "address": address, "workers": workers}
            opt.refuse({**wrong, "resume": resume}, opt.NOT_FOR_TABLES)
        if isinstance(schema, SequenceSchema) and not schema.is_log and end is None and "-" not in source:
            if any(format_of(name, "text") in ("csv", "tsv") for name in source) and file_format is None:
                raise UsageError("A CSV file of sequences is an event log: name its columns with --case and --event.")
            machines = {"engine": engine, "workers": workers, "address": address, "resume": resume}
            model, facts = _learn_with_engine(model, schema, source, file_format, classes, like, machines)
        else:
            opt.refuse(
                {"resume": resume, "address": address}, "needs plain files of sequences, without -, --case and --end"
            )
            say_where_from(source)
            schema, facts = learn_batches(model, schema, source, file_format, layout=like, classes=classes)
        OpenModel(model, schema, {}).write(out)
    facts |= {"labels": len(model.classes_), "seconds": time.perf_counter() - started}
    _report_learnt({**facts, "fingerprint": model.memory_.fingerprint(), "out": str(out)}, as_json=as_json)


def _learn_with_engine(
    model: MemoryClassifier,
    schema: SequenceSchema,
    files: list[str],
    file_format: Any,
    classes: Any,
    layout: MemoryClassifier | None,
    machines: dict[str, Any],
) -> tuple[MemoryClassifier, dict[str, Any]]:
    """Learn files that can be cut, on many cores or machines."""
    from hammemo.engines import fit
    from hammemo.sources.documents import open_source

    reports: list[GroupReport] = []
    source = open_source(files, tokens=schema.tokens, column=schema.column, format=file_format)
    short: Any = schema.short
    told: dict[str, Any] = {"on_report": reports.append}
    with progress_bar("Learning") as tell:
        model = fit(
            model, source, schema.h, classes=classes, short=short, layout=layout, on_progress=tell, **told, **machines
        )
    facts = {
        "tokens": sum(report.tokens for report in reports),
        "examples": int(model.memory_.label_counts.sum()),
        "groups": len(reports),
        "groups_resumed": sum(report.resumed for report in reports),
        "peak_bytes": max(report.peak_bytes for report in reports),
    }
    return model, facts


def _report_learnt(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    what = f"{counted(facts['examples'], 'example')} of {counted(facts['labels'], 'label')}"
    if "groups" in facts:
        what += (
            f" from {facts['tokens']:,} tokens in {facts['seconds']:.1f} s; at most "
            f"{facts['peak_bytes'] / 2**20:.0f} MiB a worker; {facts['groups_resumed']} of {facts['groups']} groups "
            "were done already"
        )
    typer.echo(f"{what}. Written to {facts['out']}")


def _labels_in(path: Path, schema: SequenceSchema) -> list[Any]:
    """Return the labels in a file, one a line: whole numbers, unless the source's tokens are strings."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    if schema.is_log or schema.tokens in ("words", "characters"):
        return lines
    try:
        return [int(line) for line in lines]
    except ValueError as error:
        raise ValueError(
            f"{path} holds {str(error).split(': ')[-1]}, which is no token id: use --tokens words."
        ) from error
