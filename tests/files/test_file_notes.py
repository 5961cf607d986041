"""Notes in model files: kept, limited, checked, and nothing to the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hammemo import FileError, MemoryClassifier, load, save
from hammemo.files import inspect, read_notes
from hammemo.files.descriptions import MAX_NOTE_LENGTH, MAX_NOTES
from mutated_files import join_file, seal, split_file

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick


@pytest.fixture
def model() -> MemoryClassifier:
    return MemoryClassifier(memory="hashed", vote="sum").fit([["a"], ["b"]], ["x", "y"])


def test_notes_come_back_and_change_nothing_else(model: MemoryClassifier, tmp_path: Path) -> None:
    notes = {"source": "a.csv", "who": "Zoë\n\U0001f642"}
    save(model, tmp_path / "plain")
    save(model, tmp_path / "noted", notes=notes)
    save(model, tmp_path / "none", notes={})
    assert read_notes(tmp_path / "noted") == notes
    assert inspect(tmp_path / "noted")["notes"] == notes
    assert (read_notes(tmp_path / "plain"), inspect(tmp_path / "plain")["notes"]) == ({}, {})
    assert (tmp_path / "none").read_bytes() == (tmp_path / "plain").read_bytes()
    assert load(tmp_path / "noted").memory_.state_bytes() == model.memory_.state_bytes()
    save(model.compile(), tmp_path / "compiled", notes=notes)
    assert read_notes(tmp_path / "compiled") == notes
    assert load(tmp_path / "compiled")(["b"]) == "y"


WRONG: list[Any] = [
    {str(number): "" for number in range(MAX_NOTES + 1)},
    {"a": "x" * (MAX_NOTE_LENGTH + 1)},
    {"": "x"},
    {"a b": "x"},
    {"a" * 65: "x"},
    {"a": 1},
    {"a": None},
    {"a": ["x"]},
]


@pytest.mark.parametrize("notes", WRONG)
def test_wrong_notes_are_refused(notes: Any, model: MemoryClassifier, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="note"):
        save(model, tmp_path / "wrong", notes=notes)
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize("notes", [*WRONG, [], None, "x", 3])
def test_forged_notes_are_refused(notes: Any, model: MemoryClassifier, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(model, path, notes={"a": "x"})
    header, about, body = split_file(path.read_bytes())
    about["notes"] = notes
    path.write_bytes(seal(join_file(header, about, body)))
    for read in (load, read_notes, inspect):
        with pytest.raises(FileError, match="note"):
            read(path)
