"""Files: models on disk, written whole and loaded without running anything.

`models` saves, loads and inspects; `descriptions` writes and checks the JSON in a file; `registry` lists the classes
that a file may name; `archive` is one safetensors file with its checksum; `atomic` writes any file whole or not at all.
Imports `models` (the classifiers) and all below; theory, engines, experiments and the command line may import it.
"""

from hammemo.files.archive import FileError
from hammemo.files.models import inspect, load, read_notes, save

__all__ = ["FileError", "inspect", "load", "read_notes", "save"]
