"""Model files as commands use them: the model, how its input is read, and where it is written."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import typer

from hammemo.cli.console import NAME_A_MODEL
from hammemo.edits.editing import mute_forgetting_warning, name_columns
from hammemo.estimators.learners import Learner
from hammemo.estimators.predictor import Predictor
from hammemo.files.archive import FileError
from hammemo.files.folders import find_head
from hammemo.files.locks import locked, refuse_object_storage
from hammemo.files.models import load, read_notes, save
from hammemo.sources.kinds import InputKind, InputKinds
from hammemo.sources.schemas import Schema, SequenceSchema, TableSchema, schema_from_notes
from hammemo.tokens.column_kinds import TokenType
from hammemo.tokens.token_types import TokenTypes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.columns import Columns


@dataclass
class OpenModel:
    """A model and how its input is read.

    The names of a table's columns are the model's `feature_names_in_` in the file, and the schema's
    here: rows are found by name before the model sees them.
    """

    model: Any
    schema: Schema
    notes: dict[str, str]

    @property
    def h(self) -> int:
        """Tokens per context."""
        if isinstance(self.model, Predictor):
            return self.model.n_columns
        return int(self.model.n_features_in_)

    def learner(self, path: Path) -> Learner:
        """Return the model, or refuse a compiled predictor, which learns and forgets nothing."""
        if not isinstance(self.model, Learner):
            raise ValueError(
                f"{path} is compiled for serving and cannot change: use the file it was compiled "
                "from."
            )
        mute_forgetting_warning(self.model)  # the commands say themselves what was refitted
        return self.model

    @property
    def rows_schema(self) -> Schema:
        """How rows to be forgotten are read.

        Those of a model of documents that was saved in Python are read as documents.
        """
        if not isinstance(self.schema, TableSchema) or self.model.state.documents is None:
            return self.schema
        cutting = getattr(self.model, "cutting_", None)
        if cutting is None:
            return SequenceSchema(self.h, short="drop")
        return SequenceSchema(self.h, short=cutting.short)

    @property
    def held_facts(self) -> dict[str, int]:
        """How many examples the model holds and, where it predicts labels, of how many labels."""
        state = self.model.state
        facts = {"examples": state.n_examples}
        if self.model.has_scores:
            facts["labels"] = len(state.labels)
        return facts

    def take_columns_of(self, schema: Schema) -> None:
        """Let later rows be read as rows were that decided columns without values.

        Other options of the schema stay what they are.
        """
        if isinstance(self.schema, TableSchema) and isinstance(schema, TableSchema):
            self.schema = replace(
                self.schema, kinds=schema.kinds, learned_formats=schema.learned_formats
            )

    def take_kinds_of(self, other: OpenModel) -> None:
        """Let rows be read by the kinds that the model has after a merge with another one."""
        if isinstance(self.schema, TableSchema) and isinstance(other.schema, TableSchema):
            columns = self.model.state.columns
            schema = self.schema.with_kinds_of_model(columns.kinds, other.schema)
            self.schema = schema.with_orders_of(columns)

    def describe_pending_refit(self, path: Path) -> str:
        """Return what is left to do after examples were forgotten; "" if no choice needs it."""
        if not isinstance(self.model, Learner) or not self.model.state.stale:
            return ""
        way_out = f"run hammemo refit {path}"
        if not self.model.state.refits_whole:
            way_out = (
                "fit the examples that are left with hammemo fit, because the model does not keep "
                "all of them"
            )
        return f"What was chosen and fitted still depends on forgotten examples: {way_out}."

    def as_written(self, path: Path) -> Learner:
        """Return a version of the model as `write` writes it, for its digest."""
        model = self.learner(path).snapshot()
        self._name_columns(model)
        return model

    def _name_columns(self, model: Any) -> None:
        if not isinstance(self.schema, TableSchema) or not isinstance(model, Learner):
            return
        if self.schema.columns is not None:
            name_columns(model, np.array(self.schema.columns, dtype=object))

    def write(self, path: Path, wait: float | None) -> None:
        """Write the model with its notes; at every moment the path holds the old or the new file.

        While another process has the file locked, wait, at most this many seconds.
        """
        self._name_columns(self.model)
        with locked(find_head(path), wait, _say):
            save(self.model, path, notes={**self.notes, **self.schema.notes()})


@contextmanager
def changing(target: Path, reads: Sequence[Path], wait: float | None) -> Iterator[None]:
    """Hold the lock of the file that is to be written, from before it is read.

    A file that is not read is locked when it is written: a mistake before that leaves no lock file
    behind.
    """
    read_and_written = [
        path for path in reads if os.path.realpath(path) == os.path.realpath(target)
    ]
    for path in read_and_written:
        _read_notes(path)  # refuses what is not a model
    lock: AbstractContextManager[None] = nullcontext()
    if read_and_written:
        lock = locked(find_head(target), wait, _say)
    with lock:
        yield


def _say(sentence: str) -> None:
    typer.echo(sentence, err=True)


def open_model(path: Path, key: bytes | None = None) -> OpenModel:
    """Load a model file and how its input is read."""
    notes = _read_notes(path)
    model = load(path, key=key)
    if isinstance(model, Predictor):
        columns = model.form.columns.names
        model = model.with_column_names(None)
    else:
        columns = name_columns(model, None)
    opened = OpenModel(model, TableSchema(), notes)
    opened.schema = schema_from_notes(notes, columns, opened.h, lambda: _kinds_of(model, opened.h))
    if isinstance(model, Learner) and isinstance(opened.schema, TableSchema):
        # Python may have taught the model kinds that its notes do not have
        opened.schema = opened.schema.with_kinds_of_model(model.state.columns.kinds)
        if "missing" not in notes:  # a model of Python has it as a parameter
            opened.schema = replace(opened.schema, missing=model.missing)
    if isinstance(opened.schema, TableSchema):
        opened.schema = opened.schema.with_orders_of(_columns_of(model))
    return opened


def _columns_of(model: Learner | Predictor) -> Columns:
    """Return what a model or a compiled predictor knows of its columns."""
    if isinstance(model, Predictor):
        return model.form.columns
    columns: Columns = model.state.columns
    return columns


def say_what_is_left(opened: OpenModel, path: Path) -> None:
    """Say on standard error what is left to do, instead of the warning that Python would print."""
    sentence = opened.describe_pending_refit(path)
    if sentence:
        mute_forgetting_warning(opened.model)
        _say(f"Warning: {sentence}")


_NAMES_OF: Final = {
    TokenType.NUMBERS: InputKind.WHOLE_NUMBERS,
    TokenType.STRINGS: InputKind.STRINGS,
    TokenType.UNKNOWN: InputKind.MIXED,
}

_ANSWER_KINDS: Final[dict[str, dict[str, InputKind]]] = {
    "labels": {
        "i": InputKind.WHOLE_NUMBERS,
        "u": InputKind.WHOLE_NUMBERS,
        "U": InputKind.STRINGS,
    },
    "numbers": {"f": InputKind.NUMBERS},
}
"""The kind of a column of labels or of targets, by the kind of their type in NumPy.

Other labels are mixed.
"""


def _kinds_of(model: Any, h: int) -> InputKinds:
    """Return the kinds of the columns of a model that was saved in Python, the label last.

    The kept rows tell of which sort names are.
    """
    names = (InputKind.MIXED,) * h
    columns: ColumnKinds = ()
    if isinstance(model, Learner):
        columns = model.state.columns.kinds
        kept = model.state.rows
        if kept is not None and len(kept):
            types = TokenTypes.from_contexts(kept.examples().contexts).types
            names = tuple(_NAMES_OF[token_type] for token_type in types)
    elif model.cells is not None:
        columns = model.cells.kinds
    kinds = list(names)
    for place, kind in enumerate(columns):
        if kind.is_ordered:
            kinds[place] = InputKind.from_column_kind(kind)
    dtype = model.state.target_dtype if isinstance(model, Learner) else model.label_dtype_
    return (*kinds, _ANSWER_KINDS[model.predicts].get(dtype.kind, InputKind.MIXED))


def _read_notes(path: Path) -> dict[str, str]:
    """Return the notes in a model file; refuse anything else."""
    if not os.path.exists(path):
        refuse_object_storage(path)
        raise FileNotFoundError(
            f"{path} does not exist: name a model file, as hammemo fit writes it."
        )
    try:
        return read_notes(path)
    except (IsADirectoryError, FileNotFoundError):
        raise IsADirectoryError(f"{path} is a folder: name a model file in it.") from None
    except FileError as error:
        raise FileError(f"{error} {NAME_A_MODEL}") from error
