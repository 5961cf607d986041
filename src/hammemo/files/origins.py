"""Which file a model came from, so that saving it does not undo what another program has written there since.

Of each model that was loaded or saved, the file and its checksum are remembered: beside the model, not in it, so that
copies, pickles and versions of a model do not carry it. Such a copy is a fresh model, which overwrites any file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from hammemo.files.archive import FileError, stated_checksum

if TYPE_CHECKING:
    from hammemo._versions import Versioned
    from hammemo.models.predictor import Predictor

_origins: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()


def remember(model: Versioned | Predictor, path: str | os.PathLike[str], checksum: str) -> None:
    """Take note that a model is what a file with this checksum holds."""
    _origins[model] = (os.path.realpath(path), checksum)


def refuse_to_undo(model: Versioned | Predictor, path: str | os.PathLike[str]) -> None:
    """Refuse to save a model to the file it came from, if that file has been written since; its lock must be held."""
    file, checksum = _origins.get(model, (None, None))
    if file != os.path.realpath(path) or not os.path.exists(path) or stated_checksum(path) == checksum:
        return
    raise FileError(
        f"{os.fspath(path)} was written by another program since this model was loaded from it or saved to it; saving "
        "would undo that. Load it again and repeat the change, inside hammemo.editing(path) so that no edit comes "
        "between; or overwrite it with save(model, path, force=True)."
    )
