"""Changing a model file that other processes change as well.

An edit of a file is three steps: read it, change the model, replace the file. If two processes did them at the same
time, the second to write would undo what the first has done. `editing` holds the lock of the file
(:mod:`hammemo.files.locks`) during all three, so edits queue and none is lost.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hammemo.files.archive import FileError
from hammemo.files.folders import head_of
from hammemo.files.locks import locked
from hammemo.files.models import load, read_notes, save
from hammemo.models.classifiers import MemoryClassifier

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator


@contextmanager
def editing(
    path: str | os.PathLike[str],
    *,
    key: bytes | None = None,
    trust: Iterable[type] = (),
    wait: float | None = None,
    tell: Callable[[str], None] | None = None,
) -> Iterator[MemoryClassifier]:
    """Yield the model in a file; if the block ends without an error, the changed model replaces the file.

    No other process can edit the file during the block; reading it is always possible. The notes in the file stay. An
    error leaves the file unchanged. The lock is the file ``path + ".lock"``, in a folder next to its head; it stays
    and records its last holder.

    Parameters
    ----------
    path : str or path
        A model file that `save` wrote, or a folder, on this machine.
    key, trust
        As in `load`.
    wait : float, optional
        The maximal number of seconds to wait while another process edits the file; no limit by default. Then
        `FileError` names the holder.
    tell : callable, optional
        Called with one sentence that names the holder of the lock, if waiting takes more than a second; for example
        ``print``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier, editing, load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.safetensors"
    ...     save(MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"]), path)
    ...     with editing(path) as clf:
    ...         _ = clf.partial_fit([["e", "f"]], ["z"]).forget([["a", "b"]], ["x"])
    ...     load(path).classes_.tolist()
    ['y', 'z']
    """
    read_notes(path)  # refuses what is not a model, before a lock file is made beside it
    with locked(head_of(path), wait, tell):
        model, notes = load(path, key=key, trust=trust), read_notes(path)
        if not isinstance(model, MemoryClassifier):
            raise FileError(f"{path} is compiled for serving and cannot change: edit the file it was compiled from.")
        yield model
        save(model, path, notes=notes)
