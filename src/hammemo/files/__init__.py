"""Files: models on disk, written whole and loaded without running anything.

`models` saves and loads, `contents` is what a file holds of a model, `inspecting` looks; `folders` are models in
segments, `segment_files` the segments, `remote` such a folder on object storage, and `compacting` folds edits into
segments; `editing` changes a file that others change as well, with its `locks`; `origins` remembers which file a model
came from; `descriptions` writes and checks the JSON in a file; `registry` lists the classes that a file may name;
`archive` is one safetensors file with its checksum; `atomic` writes any file whole or not at all. Imports
`hammemo.estimators` and all below; theory, engines, experiments and the command line may import it.
"""

from hammemo.files.archive import FileError
from hammemo.files.inspecting import inspect
from hammemo.files.locks import LockedError
from hammemo.files.models import compact, editing, load, read_notes, save

__all__ = ["FileError", "LockedError", "compact", "editing", "inspect", "load", "read_notes", "save"]
