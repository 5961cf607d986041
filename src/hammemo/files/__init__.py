"""Files: models on disk, written completely or not at all, and loaded without running anything.

`models` saves and loads a model and edits its file, `contents` is what a file holds of a model,
`inspecting` looks at it without loading. `folders` are models in segments, `segment_files` are the
segments, `pages` checks them page by page, and `remote` is such a folder on object storage.
`locks` lets one process at a time change a file. `descriptions` writes and checks the JSON in a
file, `parameters` checks the parameters in it, and `registry` lists the classes that a file may
name. `archive` is one safetensors file with its checksum; `atomic` replaces any file atomically.

Imports `hammemo.estimators` and all below; theory, engines, experiments and the command line may
import it.
"""

from hammemo.files.archive import FileError
from hammemo.files.inspecting import inspect
from hammemo.files.locks import LockedError
from hammemo.files.models import compact, editing, load, read_notes, save

__all__ = [
    "FileError",
    "LockedError",
    "compact",
    "editing",
    "inspect",
    "load",
    "read_notes",
    "save",
]
