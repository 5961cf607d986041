"""``hammemo fit``: learn rows of a table, or sequences."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

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
from hammemo.cli.model_options import ModelOptions  # noqa: TC001  (read at run time)
from hammemo.cli.options import AsJson, Wait, argument, option, setting
from hammemo.sources.formats import STANDARD_INPUT, format_of

if TYPE_CHECKING:
    from hammemo.cli.batches import Reading
    from hammemo.engines import GroupReport
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.estimators.learners import Learner
    from hammemo.sources.schemas import Schema, SequenceSchema, TableSchema

_SOURCE = (
    "Tables or sequences: files, addresses such as s3://bucket/a.csv, - for standard input; for "
    "sequences, and with "
    "--engine, also folders and globs."
)


@dataclass(frozen=True)
class EngineOptions:
    """How large files are learnt."""

    panel: ClassVar = "Large files"

    engine: str = setting("NAME", "local, threads, processes or ray.", default="local")
    workers: int | None = setting("N", "Number of workers.", "all cores", min=1)
    address: str | None = setting("ADDRESS", "Ray: address of the cluster.", "this machine")
    resume: str | None = setting(
        "FOLDER", "Store finished work here; the same command continues from it."
    )
    segments: int | None = setting(
        "N",
        "Write an exact table that may be larger than memory: --out is a folder of about this "
        "many segments. "
        "It also stores finished work.",
        min=1,
    )

    @property
    def changes(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        values = asdict(self)
        return {
            name: value for name, value in values.items() if value != getattr(EngineOptions, name)
        }


def fit_files(
    source: Annotated[list[str], argument("FILE", _SOURCE)],
    out: Annotated[Path, option("MODEL", "The model file to write; a folder with --segments.")],
    *,
    options: NewInputOptions,
    sequences: SequenceOptions,
    parameters: ModelOptions,
    machines: EngineOptions,
    wait: Wait = None,
    as_json: AsJson = False,
) -> None:
    """Learn rows of a table (--label), or every token of sequences from the h before it (--h).

    With --target, the model predicts numbers and intervals.

    The model file remembers how its input was read, so predict, add and forget need no options.
    """
    from hammemo.cli.batches import Reading, learn_batches
    from hammemo.cli.models import OpenModel
    from hammemo.sources.schemas import TableSchema

    started = time.perf_counter()
    _check_before_work(out, sequences, machines)
    schema, classes = sequences.refine(options.schema())
    model, layout = parameters.build_learners(schema)
    if isinstance(schema, TableSchema):
        if layout is not None:
            schema = _read_as_layout(schema, layout, parameters.layout, options)
        set_table_parameters(model, schema)
        uses_engine = bool(machines.changes)
    else:
        uses_engine = _can_be_cut(schema, source, options.file_format)
    reading = Reading(schema, source, options.file_format)
    facts: dict[str, Any]
    if uses_engine:
        engine_fit = _learn_with_engine(
            model, reading, classes=classes, layout=layout, machines=machines, out=out
        )
        model, schema, facts = engine_fit
    else:
        refuse(machines.changes, "needs plain files of sequences, without -, --case and --end")
        say_where_from(source)
        schema, n_examples = learn_batches(model, reading, layout=layout, classes=classes)
        facts = {"examples": n_examples}
    opened = OpenModel(model, schema, {})
    opened.write(out, wait)
    facts.update(opened.held_facts)
    facts["seconds"] = time.perf_counter() - started
    facts["fingerprint"] = model.state.fingerprint
    facts["out"] = str(out)
    print_result(facts, f"{_describe_work(facts)}. Written to {out}", as_json=as_json)


def _read_as_layout(
    schema: TableSchema, layout: MemoryClassifier, path: Path | None, options: NewInputOptions
) -> TableSchema:
    """Return a schema that reads columns as the model did whose layout is used."""
    from hammemo.files.models import read_notes
    from hammemo.sources.kinds import kinds_of_model
    from hammemo.sources.schemas import schema_from_notes

    assert path is not None
    refuse(
        {"numeric": options.numeric, "ordered": options.ordered},
        "is fixed by --layout: leave it out",
    )
    kinds = kinds_of_model(layout.state.columns.kinds)
    learned: Any = schema_from_notes(read_notes(path), None, layout.n_features_in_, lambda: kinds)
    na = schema.na
    if options.na is None:
        na = getattr(learned, "na", schema.na)
    formats = getattr(learned, "learned_formats", ())
    schema = replace(schema, kinds=kinds, na=na, learned_formats=formats)
    return schema.with_orders_of(layout.state.columns)


def set_table_parameters(model: Learner, schema: TableSchema) -> None:
    """Give a model the parameters that say how a table is read."""
    numeric: Any = schema.numeric
    if not isinstance(numeric, str):
        numeric = list(numeric)
    ordered = {column: list(order) for column, order in schema.ordered}
    model.set_params(missing=schema.missing, numeric=numeric, ordered=ordered or None)


def _check_before_work(out: Path, sequences: SequenceOptions, machines: EngineOptions) -> None:
    """Refuse what would fail only after files were read."""
    if sequences.classes_top is not None and sequences.classes_file is not None:
        raise UsageError(
            "--classes-file and --classes-top both say what is predicted: give one of them."
        )
    check_model_writable(out, segments=machines.segments is not None)
    if machines.resume is not None and os.path.isfile(machines.resume):
        raise UsageError(
            f"--resume {machines.resume} is a file: name a folder, which need not exist."
        )


def _can_be_cut(schema: SequenceSchema, files: list[str], file_format: str | None) -> bool:
    """Return whether engines can cut the input into shards.

    They cut plain files, and learn each document as it is there.
    """
    if schema.is_log or schema.end is not None or STANDARD_INPUT in files:
        return False
    if file_format is None and any(format_of(name, "text") in ("csv", "tsv") for name in files):
        raise UsageError(
            "A CSV file of sequences is an event log: name its columns with --case and --event."
        )
    return True


class _EngineFit(NamedTuple):
    """What an engine has learned."""

    model: Learner
    schema: Schema
    """How the files were read."""
    facts: dict[str, Any]
    """What was learned, and how."""


def _learn_with_engine(
    model: Any,
    reading: Reading,
    *,
    classes: Any,
    layout: MemoryClassifier | None,
    machines: EngineOptions,
    out: Path,
) -> _EngineFit:
    """Learn files that can be cut, on many cores or machines."""
    from hammemo.engines import Machines, fit_documents
    from hammemo.engines.table_fits import fit_rows
    from hammemo.sources.documents import open_source
    from hammemo.sources.read_tables import open_table
    from hammemo.sources.schemas import TableSchema

    schema: Any = reading.schema
    files = list(reading.files)
    file_format: Any = reading.file_format
    folder = out if machines.segments is not None else None
    reports: list[GroupReport] = []
    facts: dict[str, Any] = {}
    with progress_bar("Learning") as on_progress:
        cluster = Machines(
            **asdict(machines), out=folder, on_progress=on_progress, on_report=reports.append
        )
        if isinstance(schema, TableSchema):
            table = open_table(
                files, format=file_format, header=schema.header, delimiter=schema.delimiter
            )
            model, schema = fit_rows(model, table, schema, cluster, layout=layout)
        else:
            source = open_source(
                files, tokens=schema.tokens, column=schema.column, format=file_format
            )
            model = fit_documents(
                model,
                source,
                schema.h,
                classes=classes,
                short=schema.short,
                layout=layout,
                machines=cluster,
            )
            facts["tokens"] = sum(report.tokens for report in reports)
    facts["examples"] = model.state.n_examples
    facts["groups"] = len(reports)
    facts["groups_resumed"] = sum(report.resumed for report in reports)
    facts["peak_bytes"] = max(report.peak_bytes for report in reports)
    return _EngineFit(model, schema, facts)


def _describe_work(facts: dict[str, Any]) -> str:
    """Return what was learned and, where files were cut into several groups, how."""
    text = describe_examples(facts)
    if facts.get("tokens"):
        text += f" from {format_count(facts['tokens'], 'token')}"
    n_groups = facts.get("groups", 1)
    if n_groups > 1:
        mebibytes = facts["peak_bytes"] / 2**20
        text += f" in {facts['seconds']:.1f} s; at most {mebibytes:.0f} MiB per worker"
    n_resumed = facts.get("groups_resumed", 0)
    if n_resumed:
        text += f"; {n_resumed:,} of {format_count(n_groups, 'group')} done before"
    return text
