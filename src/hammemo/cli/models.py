"""Model files as commands use them: the model, how its input is read, and where it is written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.files.archive import FileError
from hammemo.files.models import load, read_notes, save
from hammemo.models.classifiers import MemoryClassifier
from hammemo.models.predictor import Predictor
from hammemo.sources.schemas import TableReading, reading_from_notes

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.sources.schemas import Reading


@dataclass
class OpenModel:
    """A model and how its input is read.

    The names of a table's columns are the model's `feature_names_in_` in the file, and the reading's here: rows are
    found by name before the model sees them.
    """

    model: Any
    reading: Reading
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
        columns = self.reading.columns if isinstance(self.reading, TableReading) else None
        if columns is not None and isinstance(self.model, MemoryClassifier):
            self.model.feature_names_in_ = np.array(columns, dtype=object)
        save(self.model, path, notes={**self.notes, **self.reading.notes()})


def open_model(path: Path, key: bytes | None = None) -> OpenModel:
    """Load a model file and how its input is read."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist: name a model file, as hammemo fit writes it.")
    try:
        model = load(path, key=key)
    except IsADirectoryError:
        raise IsADirectoryError(f"{path} is a folder: name a model file in it.") from None
    except FileError as error:
        raise FileError(_for_the_command_line(str(error))) from error
    notes = read_notes(path)
    columns = model.__dict__.pop("feature_names_in_", None)
    opened = OpenModel(model, TableReading(), notes)
    opened.reading = reading_from_notes(notes, columns, opened.h)
    return opened


_AS_A_COMMAND = {
    "pass it as load(path, key=...)": "use --key-file",
    "leave out key=": "leave out --key-file",
    "key= is not the secret key": "The key file does not hold the key",
    "made with: pass the same bytes": "made with: use the same bytes",
    "it does not begin as save() begins a file": "name a file that hammemo fit or hammemo.save wrote",
}


def _for_the_command_line(message: str) -> str:
    """Return an error of `load` with the way out as a command has it."""
    for words, others in _AS_A_COMMAND.items():
        message = message.replace(words, others)
    return message
