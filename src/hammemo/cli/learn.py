"""``hammemo fit``: learn rows of a table, or sequences."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from hammemo.cli.console import (
    UsageError,
    check_model_writable,
    describe_examples,
    format_count,
    print_result,
    progress_bar,
    say_where_from,
)
from hammemo.cli.input_options import NewInputOptions, SequenceOptions, refuse
from hammemo.cli.model_options import ModelOptions  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.options import AsJson, Wait, argument, option, setting
from hammemo.sources.formats import STANDARD_INPUT, format_of

if TYPE_CHECKING:
    from hammemo.cli.batches import Reading
    from hammemo.engines import GroupReport
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.estimators.learners import Learner
    from hammemo.sources.schemas import Schema, TableSchema


_SOURCE = (
    "Tables or sequences: files, addresses such as s3://bucket/a.csv, - for standard input; for sequences, and with "
    "--engine, also folders and globs."
)


@dataclass(frozen=True)
class EngineOptions:
    """How large files are learnt."""

    panel: ClassVar = "Large files"

    engine: str = setting("NAME", "local, threads, processes or ray.", default="local")
    workers: int | None = setting("N", "Number of workers.", "all cores", min=1)
    address: str | None = setting("ADDRESS", "Ray: address of the cluster.", "this machine")
    resume: str | None = setting("FOLDER", "Store finished work here; the same command continues from it.")
    segments: int | None = setting(
        "N",
        "Write an exact table that may be larger than memory: --out is a folder of about this many segments. "
        "It also stores finished work.",
        min=1,
    )

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given."""
        return {name: value for name, value in asdict(self).items() if value != getattr(EngineOptions, name)}


def fit_files(
    source: Annotated[list[str], argument("FILE", _SOURCE)],
    out: Annotated[Path, option("MODEL", "The model file to write; a folder with --segments.")],
    *,
    given: NewInputOptions,
    sequences: SequenceOptions,
    parameters: ModelOptions,
    machines: EngineOptions,
    wait: Wait = None,
    as_json: AsJson = False,
) -> None:
    """Learn rows of a table (--label), or every token of sequences from the h tokens before it (--h).

    With --target, the model predicts numbers and intervals.

    The model file remembers how its input was read, so predict, add and forget need no options.
    """
    from hammemo.cli.batches import Reading, learn_batches
    from hammemo.cli.models import OpenModel
    from hammemo.sources.schemas import TableSchema

    started = time.perf_counter()
    _check_before_work(out, sequences, machines)
    schema, classes = sequences.refine(given.schema())
    model, layout = parameters.build_learners(schema)
    if isinstance(schema, TableSchema):
        if layout is not None:  # its numbers are part of it
            refuse({"numeric": given.numeric}, "is fixed by --layout: leave it out")
            schema = _read_as_layout(schema, layout, parameters.layout, given)
        set_table_parameters(model, schema)
    reading = Reading(schema, source, given.file_format)
    is_table = isinstance(schema, TableSchema)
    if machines.given if is_table else _can_be_cut(schema, source, given.file_format):
        model, schema, facts = _learn_with_engine(model, reading, classes, layout, machines, out)
    else:
        refuse(machines.given, "needs plain files of sequences, without -, --case and --end")
        say_where_from(source)
        schema, facts = learn_batches(model, reading, layout=layout, classes=classes)
    opened = OpenModel(model, schema, {})
    opened.write(out, wait)
    facts |= {**opened.held_facts, "seconds": time.perf_counter() - started}
    facts |= {"fingerprint": model.state.fingerprint, "out": str(out)}
    print_result(facts, f"{_learnt(facts)}. Written to {out}", as_json=as_json)


def _read_as_layout(
    schema: TableSchema, layout: MemoryClassifier, path: Path | None, given: NewInputOptions
) -> TableSchema:
    """Return a schema that reads columns as the model did whose layout is used."""
    from hammemo.files.models import read_notes
    from hammemo.sources.kinds import kinds_of_model
    from hammemo.sources.schemas import schema_from_notes

    assert path is not None
    kinds = kinds_of_model(layout.state.columns.kinds)
    learned: Any = schema_from_notes(read_notes(path), None, layout.n_features_in_, lambda: kinds)
    na = schema.na if given.na is not None else getattr(learned, "na", schema.na)
    formats = getattr(learned, "learned_formats", ())
    return replace(schema, kinds=kinds, na=na, learned_formats=formats)


def set_table_parameters(model: Learner, schema: TableSchema) -> None:
    """Give a model the parameters that say how a table is read."""
    numeric = schema.numeric if isinstance(schema.numeric, str) else list(schema.numeric)
    model.set_params(missing=schema.missing, numeric=numeric)


def _check_before_work(out: Path, sequences: SequenceOptions, machines: EngineOptions) -> None:
    if sequences.classes_top is not None and sequences.classes_file is not None:
        raise UsageError("--classes-file and --classes-top both say what is predicted: give one of them.")
    check_model_writable(out, segments=machines.segments is not None)
    if machines.resume is not None and os.path.isfile(machines.resume):
        raise UsageError(f"--resume {machines.resume} is a file: name a folder, which need not exist.")


def _can_be_cut(schema: Any, files: list[str], file_format: str | None) -> bool:
    """Return whether engines can cut the input into shards: plain files, each document as it is there."""
    if schema.is_log or schema.end is not None or STANDARD_INPUT in files:
        return False
    if file_format is None and any(format_of(name, "text") in ("csv", "tsv") for name in files):
        raise UsageError("A CSV file of sequences is an event log: name its columns with --case and --event.")
    return True


def _learn_with_engine(
    model: Any, reading: Reading, classes: Any, layout: MemoryClassifier | None, machines: EngineOptions, out: Path
) -> tuple[Learner, Schema, dict[str, Any]]:
    """Learn files that can be cut, on many cores or machines."""
    from hammemo.engines import Machines, fit_documents
    from hammemo.engines.table_fits import fit_rows
    from hammemo.sources.documents import open_source
    from hammemo.sources.read_tables import open_table
    from hammemo.sources.schemas import TableSchema

    reports: list[GroupReport] = []
    schema, files, form = reading.schema, reading.files, cast("Any", reading.file_format)
    folder, tokens = None if machines.segments is None else out, {}
    with progress_bar("Learning") as tell:
        how = Machines(**asdict(machines), out=folder, on_progress=tell, on_report=reports.append)
        if isinstance(schema, TableSchema):
            table = open_table(list(files), format=form, header=schema.header, delimiter=schema.delimiter)
            model, schema = fit_rows(model, table, schema, how, layout=layout)
        else:
            source, short = open_source(files, tokens=schema.tokens, column=schema.column, format=form), schema.short
            cut: dict[str, Any] = {"classes": classes, "short": short, "layout": layout}
            model = fit_documents(model, source, schema.h, **cut, machines=how)
            tokens = {"tokens": sum(report.tokens for report in reports)}
    groups = {"groups": len(reports), "groups_resumed": sum(report.resumed for report in reports)}
    peak = max(report.peak_bytes for report in reports)
    return model, schema, {**tokens, "examples": model.state.n_examples, **groups, "peak_bytes": peak}


def _learnt(facts: dict[str, Any]) -> str:
    """Return what was learnt; how, where the files were so large that they were cut into groups."""
    learnt = describe_examples(facts)
    groups, resumed = facts.get("groups", 1), facts.get("groups_resumed", 0)
    if facts.get("tokens"):
        learnt += f" from {format_count(facts['tokens'], 'token')}"
    if groups > 1:
        learnt += f" in {facts['seconds']:.1f} s; at most {facts['peak_bytes'] / 2**20:.0f} MiB per worker"
    return f"{learnt}; {resumed:,} of {format_count(groups, 'group')} done before" if resumed else learnt
