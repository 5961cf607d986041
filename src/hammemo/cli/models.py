"""Model files as commands use them: the model, how its input is read, and where it is written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.cli.options import NAME_A_MODEL
from hammemo.files.archive import FileError
from hammemo.files.models import load, read_notes, save
from hammemo.models.classifiers import MemoryClassifier
from hammemo.models.predictor import Predictor
from hammemo.sources.schemas import TableSchema, schema_from_notes

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.sources.schemas import Schema


@dataclass
class OpenModel:
    """A model and how its input is read.

    The names of a table's columns are the model's `feature_names_in_` in the file, and the schema's here: rows are
    found by name before the model sees them.
    """

    model: Any
    schema: Schema
    notes: dict[str, str]

    @property
    def h(self) -> int:
        """Tokens per context."""
        return int(self.model.sites.h if isinstance(self.model, Predictor) else self.model.n_features_in_)

    def learner(self, path: Path) -> MemoryClassifier:
        """Return the classifier, or refuse a compiled predictor, which learns and forgets nothing."""
        if not isinstance(self.model, MemoryClassifier):
            raise ValueError(f"{path} is compiled for serving and cannot change: use the file it was compiled from.")
        return self.model

    def write(self, path: Path) -> None:
        """Write the model with its notes; at every moment the path holds the old file or the new one."""
        columns = self.schema.columns if isinstance(self.schema, TableSchema) else None
        if columns is not None and isinstance(self.model, MemoryClassifier):
            self.model.feature_names_in_ = np.array(columns, dtype=object)
        save(self.model, path, notes={**self.notes, **self.schema.notes()})


def open_model(path: Path, key: bytes | None = None) -> OpenModel:
    """Load a model file and how its input is read."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist: name a model file, as hammemo fit writes it.")
    try:
        notes = read_notes(path)
    except IsADirectoryError:
        raise IsADirectoryError(f"{path} is a folder: name a model file in it.") from None
    except FileError as error:
        raise FileError(f"{error} {NAME_A_MODEL}") from error
    model = load(path, key=key)
    columns = model.__dict__.pop("feature_names_in_", None)
    opened = OpenModel(model, TableSchema(), notes)
    opened.schema = schema_from_notes(notes, columns, opened.h)
    return opened
