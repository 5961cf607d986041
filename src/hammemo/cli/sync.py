"""``hammemo sync``: make a model file hold just the rows of a table."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from hammemo.cli.console import UsageError, describe_examples, print_result, say_where_from
from hammemo.cli.input_options import InputOptions, KnownLabel  # noqa: TC001  (read at run time)
from hammemo.cli.options import ModelChange, argument, setting, switch
from hammemo.cli.receipts import ReceiptFiles, ReceiptOptions  # noqa: TC001  (read at run time)
from hammemo.sources.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from hammemo._arrays.types import Array
    from hammemo.edits.sync import Synced
    from hammemo.estimators.learners import Learner
    from hammemo.sources.databases import RowSource
    from hammemo.sources.schemas import TableSchema


@dataclass(frozen=True)
class DatabaseOptions:
    """Where the rows are in a database or a lake."""

    panel: ClassVar = "A database or a lake"

    query: str | None = setting("SQL", "The rows are those of this query.")
    database: str | None = setting(
        "ADDRESS",
        "postgresql://user@host/name, sqlite:///path or duckdb:///path. Keep passwords out of it: "
        "use the environment "
        "variable, or PostgreSQL's .pgpass.",
        envvar="HAMMEMO_DATABASE",
    )
    at: int | None = setting("VERSION", "The version of the Delta table.", "the newest", min=0)


@dataclass(frozen=True)
class TableOptions(DatabaseOptions):
    """Where the rows of the table are."""

    files: Annotated[
        list[str] | None,
        argument("TABLE", "All rows: files, or the folder of a Delta table.", "standard input"),
    ] = None
    position: str | None = setting(
        "TEXT",
        "Store with the model which version of the table this is.",
        "none; with a Delta table, its version",
    )

    def sources(self, file_format: str | None) -> tuple[list[str | RowSource], str | None]:
        """Return what the rows are read from, and the position to store."""
        from hammemo.sources.databases import DeltaVersion, SqlQuery

        if self.query is not None:
            if self.files or self.at is not None:
                raise UsageError("--query takes the place of TABLE: leave TABLE and --at out.")
            if self.database is None:
                raise UsageError(
                    "--query needs --database ADDRESS, such as postgresql://user@host/name."
                )
            return [SqlQuery(self.database, self.query)], self.position
        files = self.files or [STANDARD_INPUT]
        if file_format == "delta" or (
            len(files) == 1 and os.path.isdir(os.path.join(files[0], "_delta_log"))
        ):
            if len(files) > 1:
                raise UsageError("Name one Delta table.")
            table = DeltaVersion.at(files[0], self.at)
            return [table], str(table.version) if self.position is None else self.position
        if self.at is not None:
            raise UsageError(
                "--at is for a Delta table: name its folder, or its address with --format delta."
            )
        say_where_from(files)
        return list(files), self.position


@dataclass(frozen=True)
class FileSync(ModelChange):
    """Which model file is compared, and what is done with it."""

    label: KnownLabel = None
    dry_run: bool = switch("--dry-run", "Only say what would change.")
    refit: bool = switch("--refit", "Then fit the model to the table, as hammemo fit does.")


def sync_table(
    sync: FileSync, table: TableOptions, reading: InputOptions, recording: ReceiptOptions
) -> None:
    """Make MODEL hold just the rows of a table: forget the rows that are gone, learn the new ones.

    Rows are compared by their values and their labels or targets; copies count. Columns are found
    by name and read as MODEL knows them; other columns are ignored. MODEL is replaced in one step,
    or it does not change.

    A model that does not keep all rows needs digests of them (hammemo fit --keep auto+digests), or
    --refit.

    The table is read into memory. --receipt adds a signed receipt to a file; it counts the rows
    that were forgotten.
    """
    from hammemo.cli.model_columns import with_open_columns
    from hammemo.sources.schemas import TableSchema

    model = sync.model
    with recording.evidence(sync) as evidence:
        if sync.dry_run and evidence.is_signed:
            raise UsageError(
                "--dry-run changes nothing, so there is no receipt: leave out one of the two."
            )
        with sync.open() as opened:
            learner = opened.learner(model)
            schema = reading.apply_to(opened.rows_schema, sync.label)
            if not isinstance(schema, TableSchema):
                raise ValueError(
                    f"{model} learnt sequences, and sync compares the rows of a table: use hammemo "
                    "forget."
                )
            sources, position = table.sources(reading.file_format)
            schema = with_open_columns(learner, schema)
            rows = _read_rows(schema, sources, reading.file_format, opened.h)

            def is_synced() -> bool:
                return _sync_rows(learner, rows, dry_run=True).is_equal

            if evidence.is_done(opened, repeats=is_synced):
                return
            synced = _sync_rows(
                learner, rows, dry_run=sync.dry_run, position=position, refit=sync.refit
            )
            opened.take_columns_of(rows.schema)
            is_same = synced.is_equal and not sync.refit and position is None and sync.out is None
            writes = evidence.is_signed or not (sync.dry_run or is_same)
            if writes:
                _note(synced, evidence)
                evidence.write(opened, synced.learnt or 0)
        digest = opened.as_written(model).digest()
    facts: dict[str, Any] = {
        "forgotten": synced.forgotten,
        "learnt": synced.learnt,
        "unchanged": synced.unchanged,
        "how": synced.how,
        "dry_run": sync.dry_run,
        **opened.held_facts,
        "stale": learner.state.stale,
        "position": learner.position_,
        "digest": digest,
        "out": str(sync.target),
        **evidence.facts,
    }
    result = f"{model} is as it was."
    pending = ""
    if writes:
        result = f"The model holds {describe_examples(facts)}. Written to {sync.target}"
        pending = opened.describe_pending_refit(sync.target)
    print_result(facts, str(synced), result, pending, evidence.sentence, as_json=sync.as_json)


class _RowsToSync(NamedTuple):
    """All rows of a table, their labels or targets, and how they were read."""

    schema: TableSchema
    X: Array
    y: Array


def _read_rows(
    schema: TableSchema, sources: list[Any], file_format: str | None, h: int
) -> _RowsToSync:
    """Read all rows of a table; they decide the kinds of open columns."""
    import numpy as np

    from hammemo.sources.kinds import merge_kinds
    from hammemo.tokens.contexts import join_tokens

    batches = list(schema.examples(sources, file_format))
    if not batches:
        return _RowsToSync(schema, np.empty((0, h), object), np.empty(0, object))
    schema = replace(schema, orders=batches[0].orders)
    kinds = batches[0].kinds
    for batch in batches[1:]:
        kinds = merge_kinds(kinds, batch.kinds)
    schema = schema.with_decided_columns(kinds, batches[0].formats)
    X = join_tokens([batch.X for batch in batches])
    y = join_tokens([batch.y for batch in batches])
    return _RowsToSync(schema, X, y)


def _sync_rows(model: Learner, rows: _RowsToSync, **options: Any) -> Synced:
    """Sync a model, whose columns are those of the schema and not those that an array shows."""
    from hammemo.cli.model_columns import InputColumns, keep_types

    types_before = model.state.columns.types
    with InputColumns.of_schema(rows.schema).declare_to(model):
        synced = model.sync(rows.X, rows.y, **options)
    keep_types(model, types_before)
    return synced


def _note(synced: Synced, evidence: ReceiptFiles) -> None:
    """Hand the forgotten rows to a receipt, if there is one, where their content is known."""
    if not evidence.is_signed:
        return
    if synced.forgotten is None:
        raise ValueError(
            "A receipt counts the rows that are forgotten, and this model does not know which "
            "rows it held: leave out "
            "--receipt once, or fit it with hammemo fit --keep auto+digests."
        )
    if synced.gone is not None:
        X, y = synced.forgotten_rows()
        evidence.note([*row, label] for row, label in zip(X.tolist(), y.tolist(), strict=True))
