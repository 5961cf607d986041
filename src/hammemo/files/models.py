r"""Save, load, edit and compact models: one safetensors file holds a complete model.

**What is in a file** (:mod:`hammemo.files.contents`). The arrays of the model's canonical state are
the tensors. All else (parameters, sites, seed, layout) is one JSON text in the header's metadata,
the description (:mod:`hammemo.files.descriptions`). Classes are named, and a name stands for one of
a few classes listed in :mod:`hammemo.files.registry` or passed by the caller: loading imports,
evaluates and unpickles nothing. The file itself and its checksum are in
:mod:`hammemo.files.archive`, how it is written in :mod:`hammemo.files.atomic`.

**Forgery.** Nothing that a file declares is trusted: `contents` checks all of it. Arrays are views
of the file's bytes and are widened only when used. Anything wrong raises `FileError`.

**Several programs.** An edit of a file has three steps: read it, change the model, replace the
file. If two processes did them at the same time, the second to write would undo what the first has
done. `editing` holds the lock of the file (:mod:`hammemo.files.locks`) during all three, so edits
queue and none is lost. For programs that `load` and `save` without it, `save` refuses to replace a
file that another program has written since the model was loaded. Which file a model came from is
recorded beside the model, not in it, so that copies, pickles and versions of a model do not carry
it: such a copy is a fresh model, which overwrites any file.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakKeyDictionary

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from hammemo.estimators.learners import Learner
from hammemo.files import descriptions, folders
from hammemo.files.archive import (
    Archive,
    FileError,
    MissingFileError,
    read_stated_checksum,
    refusing,
)
from hammemo.files.atomic import delete_leftovers, write_file
from hammemo.files.contents import Notes, Savable, file_pieces, head_pieces, restore_model
from hammemo.files.descriptions import Restorer
from hammemo.files.folders import find_head
from hammemo.files.locks import locked, refuse_object_storage
from hammemo.files.registry import Registry
from hammemo.files.remote import prepare_cache
from hammemo.memories.exact import InSegments, SignedSum
from hammemo.sources.formats import is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hammemo._versions import Versioned
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.estimators.predictor import Predictor

_origins: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()
"""The file that a model came from, and its checksum."""


def remember(model: Versioned | Predictor, path: str | os.PathLike[str], checksum: str) -> None:
    """Record that a model is what a file with this checksum holds."""
    _origins[model] = (os.path.realpath(path), checksum)


def refuse_to_undo(model: Versioned | Predictor, path: str | os.PathLike[str]) -> None:
    """Refuse to save a model to the file it came from, if that file was written since.

    The lock of the file must be held.
    """
    file, checksum = _origins.get(model, (None, None))
    if file != os.path.realpath(path) or not os.path.exists(path):
        return
    if read_stated_checksum(path) == checksum:
        return
    raise FileError(
        f"{os.fspath(path)} was written by another program since this model was loaded from "
        "it or saved to it; saving would undo that. Load it again and repeat the change, "
        "inside hammemo.editing(path) so that no edit comes between; "
        "or overwrite it with save(model, path, force=True)."
    )


def save(
    model: Savable,
    path: str | os.PathLike[str],
    *,
    notes: Notes = None,
    force: bool = False,
    segments: int | None = None,
) -> None:
    """Write a model to a file atomically.

    At every moment, the path holds the complete old or new file.

    A model that is larger than memory is written to a folder, in segments (see Files in the guide):
    with `segments`, if the path is such a folder, or if the model was loaded from one. A folder is
    also replaced atomically.

    A model that was loaded from this file or saved to it is refused if another program has written
    it since: saving would undo that. Between processes use `editing`. While another process edits
    the file, `save` waits for it.

    A secret key is not written; pass it to `load`. A `random_state` that is a generator is written
    as the seed that `fit` drew from it.

    Parameters
    ----------
    model : MemoryClassifier, MemoryRegressor, MeMoClassifier or Predictor
        A fitted model, which can continue learning after `load`; or a compiled predictor, for
        serving only.
    path : str or path
        The destination; an existing file is replaced and its permissions are kept.
    notes : mapping of str to str, optional
        Short texts that are stored with the model and do not change it, such as the source of its
        examples; at most 64, each with a name of letters, digits, ``-`` and ``_``. `read_notes`
        returns them.
    force : bool
        Whether to overwrite a file that another program has written since.
    segments : int, optional
        Write a folder, and split the exact table into about this many segments. 0 writes one file.
        By default, the changes of a model loaded from a folder are written next to its existing
        segments; see `compact`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier, load, save
    >>> clf = MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(clf, Path(folder) / "model.safetensors")
    ...     again = load(Path(folder) / "model.safetensors")
    >>> again.partial_fit([["c", "e"]], ["z"]).predict([["c", "d"], ["a", "b"]]).tolist()
    ['y', 'x']
    """
    if not isinstance(model, Savable):
        raise TypeError(_explain_what_can_be_saved(model))
    if _is_for_folder(model, path, segments):
        _save_folder(cast("MemoryClassifier", model), os.fspath(path), notes, segments, force=force)
        return
    version = model.now()  # an edit of the model meanwhile does not change this version
    # Made before the lock is taken: a model that cannot be saved leaves no lock file.
    file = file_pieces(version, notes)
    with locked(path):
        if not force:
            refuse_to_undo(model, path)
        if not _is_latest(version, model):
            # Another thread has edited the model while this one waited for the lock, and may have
            # saved it: an older version must not replace a newer one.
            file = file_pieces(model.now(), notes)
        write_file(path, file)
        delete_leftovers(path)
        remember(model, path, file.checksum)


def _is_latest(version: Savable, model: Savable) -> bool:
    """Return whether a model was not edited since its `now` has returned this version.

    Each edit gives the model another dictionary of attributes (:mod:`hammemo._versions`).
    """
    return vars(version) is vars(model)


def _explain_what_can_be_saved(model: Any) -> str:
    """Return why an object cannot be saved, and what can be."""
    kinds = "a fitted MemoryClassifier or MemoryRegressor, or a compiled Predictor"
    reason = f"save takes {kinds}, not a {type(model).__name__}."
    if isinstance(model, Pipeline):
        for name, step in model.steps:
            if isinstance(step, Learner):
                return (
                    f"{reason} Save its step with save(pipeline[{name!r}], path), "
                    "and make the steps before it again from code. Or leave them out: "
                    "a MemoryClassifier takes names, numbers, dates and missing values as they "
                    "come. hammemo.sklearn_onnx exports a whole pipeline."
                )
    if isinstance(getattr(model, "best_estimator_", None), Learner):
        return f"{reason} Save its best_estimator_."
    return f"{reason} Of a Rolling model, save its estimator_."


def _is_for_folder(model: Any, path: str | os.PathLike[str], segments: int | None) -> bool:
    """Return whether `save` writes a model to a folder; refuse one that cannot be cut."""
    if segments is not None and segments < 0:
        raise ValueError(
            f"segments={segments!r}: a model is cut into one segment or more; 0 writes one file."
        )
    memory = getattr(model, "memory_", None)
    if segments is not None:
        is_for_folder = segments > 0
    else:
        is_in_segments = isinstance(memory, InSegments) and memory.segmented is not None
        is_for_folder = is_in_segments or os.path.exists(os.path.join(path, folders.HEAD))
    if not is_for_folder:
        return False
    check_is_fitted(model)
    if not isinstance(memory, InSegments):
        name = type(model).__name__
        if memory is not None:
            name = type(memory).__name__
        raise FileError(
            f"A {name} cannot be written in segments to a folder, only memory=Exact() "
            "and memory=Tiered() can: name a file."
        )
    if os.path.isfile(path):
        raise FileError(
            f"{os.fspath(path)} is a file, and a model in segments is a folder: "
            "name a folder, or segments=0."
        )
    return True


def _save_folder(
    model: MemoryClassifier, folder: str, notes: Notes, segments: int | None, *, force: bool
) -> None:
    """Write the segments of a model that its folder does not have yet, then its head."""
    refuse_object_storage(folder)
    os.makedirs(folder, exist_ok=True)
    head = os.path.join(folder, folders.HEAD)
    with locked(head):
        if not force:
            refuse_to_undo(model, head)
        version = model.now()
        memory: InSegments = version.memory_
        table = folders.write_segments(memory.terms.add_up(), folder, segments)
        remember(model, head, _write_head(version, table, folder, notes))
        _delete_old_files(folder, table)


def _write_head(version: MemoryClassifier, segmented: SignedSum, folder: str, notes: Notes) -> str:
    """Replace the head of a folder, whose lock is held, and return its checksum."""
    head = os.path.join(folder, folders.HEAD)
    file = head_pieces(version, notes, segmented)
    write_file(head, file)
    return file.checksum


def _delete_old_files(folder: str, segmented: SignedSum) -> None:
    """Delete the files of a folder, whose lock is held, that its new head does not name."""
    folders.delete_others(folder, segmented)
    delete_leftovers(os.path.join(folder, folders.HEAD))


def load(
    path: str | os.PathLike[str],
    *,
    key: bytes | None = None,
    verify: bool = True,
    trust: Iterable[type] = (),
    cache: str | os.PathLike[str] | None = None,
) -> Any:
    """Return the model in a file that `save` wrote.

    A classifier or a regressor can continue learning; this does not change the file.

    For a folder, the rows of counts stay in its segments, which are memory-mapped: a query reads
    only the rows it needs.

    Parameters
    ----------
    path : str or path
        A file, or a folder; or the address of a folder on object storage, such as
        ``s3://bucket/model``: then a query fetches the pages that it needs (requires pyarrow).
    key : bytes, optional
        The secret key of a `Hashed` memory that has one.
    verify : bool
        Whether to read the whole file, compare its checksum and check its content. Otherwise the
        arrays stay on disk and are memory-mapped, and only shapes are checked: use this for large
        files that you wrote and that are undamaged. An exact memory then answers from disk, reading
        only the rows that a query needs. For a folder, the head is always read; the pages of its
        segments are checked when they are first read, or not at all.
    trust : iterable of classes
        Kernels, memories, votes and compiled forms that are not part of hammemo and that the file
        may hold. Their constructors and `restore` methods get their arguments from the file;
        nothing else is called.
    cache : str or path, optional
        Where to keep pages of a model on object storage: an empty folder, or one that an earlier
        call has used. By default they are deleted when the process ends. It takes no more space
        than the model.

    Raises
    ------
    FileError
        If the file is damaged, is not a hammemo model, has a format that this version does not
        know, needs a key, or holds a class that is neither part of hammemo nor trusted.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier, load, save
    >>> from hammemo.memories import Hashed
    >>> secret = bytes(range(32))
    >>> clf = MemoryClassifier(memory=Hashed(64, key=secret))
    >>> clf = clf.fit([["a", "b"], ["c", "d"]], ["x", "y"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(clf.compile(), Path(folder) / "model.safetensors")
    ...     predictor = load(Path(folder) / "model.safetensors", key=secret)
    >>> predictor(["c", "d"])
    'y'
    """
    is_remote = isinstance(path, str) and is_address(path)
    if cache is not None and not is_remote:
        raise FileError(
            f"cache={os.fspath(cache)!r} is for a model on object storage, "
            f"and {path} is not on one."
        )
    registry = Registry(trust)

    def find_place() -> str:
        if is_remote:
            return prepare_cache(str(path), folders.HEAD, cache)
        return os.fspath(path)

    with refusing(path):
        restored = _restore(find_place, lambda: Restorer(registry, key), verify=verify)
    remember(restored.model, restored.head, restored.checksum)
    return restored.model


class _LoadedModel(NamedTuple):
    """A model, the file or the head that it came from, and the checksum of that."""

    model: Any
    head: str
    checksum: str


def _restore(
    find_place: Callable[[], str], make_restorer: Callable[[], Restorer], *, verify: bool
) -> _LoadedModel:
    """Return the model in a file or a folder, whose head is read again where it was replaced.

    A folder is read without its lock, first the head and then the segments that it names. Between
    the two, another process may replace the head and delete the segments that only the old one
    names. Then a segment is missing, and the new head names others.

    Parameters
    ----------
    find_place : callable
        Returns the path of the file or the folder. It is called before each reading, for the head
        of a model on object storage is copied then.
    make_restorer : callable
    verify : bool
    """
    previous_checksum = None
    n_reads = 0
    while True:
        place = find_place()
        head = folders.find_head(place)
        is_folder = head != place
        archive = Archive(head, verify=verify or is_folder)
        n_reads += 1
        try:
            model = restore_model(
                archive, make_restorer(), verify=verify, folder=os.path.dirname(head)
            )
        except MissingFileError:
            # The head that names the missing segment was not replaced: the segment is lost.
            is_lost = archive.checksum == previous_checksum
            if is_lost or n_reads == folders.MAX_HEAD_READS:
                raise
            previous_checksum = archive.checksum
        else:
            return _LoadedModel(model, head, archive.checksum)


def read_notes(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the notes that were saved with a model, without loading it; empty if it has none.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier, save
    >>> from hammemo.files.models import read_notes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf = MemoryClassifier().fit([["a"], ["b"]], ["x", "y"])
    ...     save(clf, Path(folder) / "model.safetensors", notes={"source": "letters.csv"})
    ...     read_notes(Path(folder) / "model.safetensors")
    {'source': 'letters.csv'}
    """
    with refusing(path):
        return descriptions.parse_notes(Archive(folders.find_head(path), verify=False).about)


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

    Afterwards no file of the folder holds forgotten data. The folder is locked during the call; a
    reader sees the model before or after, which give the same answers. A range in which nothing
    changed keeps its file. If the process dies, the next call continues with the segments already
    written.

    Parameters
    ----------
    folder : str or path
    segments : int, optional
        Split the table again into about this many segments of about the same size; by default, the
        cuts do not change.
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
    head = folders.find_head(folder)
    if segments is not None and segments < 1:
        raise ValueError(f"segments={segments!r}: a model is cut into one segment or more.")
    if not os.path.isdir(folder):
        raise FileError(
            f"{os.fspath(folder)} is not a folder: only a model in segments is compacted."
        )
    read_notes(folder)  # refuses what is not a model, before a lock file is made beside it
    with locked(head, wait, tell):
        model = load(folder, key=key, trust=trust)
        notes = read_notes(folder)  # again: they may have changed before the lock was free
        table = folders.cut(model.memory_.segmented, os.fspath(folder), segments, on_progress)
        _write_head(model, table, os.fspath(folder), notes)
        _delete_old_files(os.fspath(folder), table)


@contextmanager
def editing(
    path: str | os.PathLike[str],
    *,
    key: bytes | None = None,
    trust: Iterable[type] = (),
    wait: float | None = None,
    tell: Callable[[str], None] | None = None,
) -> Iterator[Any]:
    """Yield the model in a file; the changed model replaces the file when the block has ended.

    No other process can edit the file during the block; reading it is always possible. The notes in
    the file stay. An error leaves the file unchanged. The lock is the file ``path + ".lock"``, in a
    folder next to its head; it stays and records its last holder. The thread that runs the block
    may take the lock again, as `save` at its end does.

    Parameters
    ----------
    path : str or path
        A model file that `save` wrote, or a folder, on this machine.
    key, trust
        As in `load`.
    wait : float, optional
        The maximal number of seconds to wait while another process edits the file; no limit by
        default. Then `FileError` names the holder.
    tell : callable, optional
        Called with one sentence that names the holder of the lock, if waiting takes more than a
        second; for example ``print``.

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
    with locked(find_head(path), wait, tell):
        model = load(path, key=key, trust=trust)
        notes = read_notes(path)
        if not isinstance(model, Learner):
            raise FileError(
                f"{path} is compiled for serving and cannot change: "
                "edit the file it was compiled from."
            )
        yield model
        save(model, path, notes=notes)  # takes the lock once more, which this thread may
