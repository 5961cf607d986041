"""Folding what was changed into the segments of a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hammemo.files import folders
from hammemo.files.archive import FileError
from hammemo.files.locks import locked
from hammemo.files.models import load, read_notes, write_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def compact(
    folder: str | os.PathLike[str],
    *,
    segments: int | None = None,
    key: bytes | None = None,
    trust: Iterable[type] = (),
    wait: float | None = None,
    tell: Callable[[str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write additions and removals into the segments of a folder, one segment at a time.

    Afterwards no file of the folder holds forgotten data. The folder is locked during the call; a reader sees
    the model before or after, which give the same answers. A range in which nothing changed keeps its file. If the
    process dies, the next call continues with the segments already written.

    Parameters
    ----------
    folder : str or path
    segments : int, optional
        Split the table again into about this many segments of about the same size; by default, the cuts do not change.
    key, trust, wait, tell
        As in `editing`.
    on_progress : callable, optional
        Called with (ranges done, ranges).

    Examples
    --------
    >>> import tempfile
    >>> from hammemo import MemoryClassifier, compact, load, save
    >>> clf = MemoryClassifier(vote="sum").fit([["a", "b"], ["c", "d"]], ["x", "y"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(clf, folder, segments=2)
    ...     save(load(folder).forget([["a", "b"]], ["x"]), folder)
    ...     compact(folder)
    ...     load(folder).classes_.tolist()
    ['y']
    """
    head = folders.head_of(folder)
    if segments is not None and segments < 1:
        raise ValueError(f"segments={segments!r}: a model is cut into one segment or more.")
    if not os.path.isdir(folder):
        raise FileError(f"{os.fspath(folder)} is not a folder: only a model in segments is compacted.")
    notes = read_notes(folder)  # refuses what is not a model, before a lock file is made beside it
    with locked(head, wait, tell):
        model, where = load(folder, key=key, trust=trust), os.fspath(folder)
        write_head(model, folders.cut(model.memory_.segmented, where, segments, on_progress), where, notes, model)
