"""``hammemo fit``: learn files."""

from __future__ import annotations

import json
import time
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hammemo.cli.console import check_writable, one_line_errors, progress_bar

if TYPE_CHECKING:
    from hammemo.classifiers import MemoryClassifier
    from hammemo.engines import GroupReport


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
    with one_line_errors(), progress_bar("Learning") as on_progress:
        check_writable(out)
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


def _labels_in(path: Path, tokens: str) -> list[Any]:
    """Return the labels in a file, one a line: whole numbers, unless the source's tokens are strings."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    return lines if tokens in ("words", "characters") else [int(line) for line in lines]
