"""Files that are there whole or not at all.

A file is written under a temporary name beside its destination, flushed to the disk and renamed over it: at every
moment, also after a crash, the destination is the old file or the new one. Models, checkpoints, the records of
experiments and tables of answers are written this way.

A process that is killed leaves its temporary file behind. In that of a model may be what is forgotten later, so the
next successful change of the model deletes it: under the lock of the model, which all who write it hold, so that the
writer of a temporary file found there is dead.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@contextmanager
def replacement(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the name of an empty file beside `path`, which takes its place when the block has ended without an error.

    The permissions of a file that is replaced are kept, and a symbolic link stays one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo.files.atomic import replacement
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacement(Path(folder, "a.txt")) as temporary:
    ...         _ = Path(temporary).write_text("all of it")
    ...     [(file.name, file.read_text()) for file in Path(folder).iterdir()]
    [('a.txt', 'all of it')]
    """
    target = checked_target(path)
    temporary = f"{target}.{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb"), suppress(FileNotFoundError):
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))  # before there is anything in it
        yield temporary
        flush(temporary, os.O_RDWR)
        os.replace(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    if os.name == "posix":  # elsewhere a folder cannot be flushed
        flush(os.path.dirname(target), os.O_RDONLY)


def checked_target(path: str | os.PathLike[str]) -> str:
    """Return where a file is written, symbolic links followed, or refuse a place where no file can be."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise IsADirectoryError(f"{target} is a folder: name a file in it.")
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"The folder {folder} does not exist: make it before a file is written into it.")
    return target


def write_file(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview]) -> None:
    """Write a file that consists of these parts, whole or not at all."""
    with replacement(path) as temporary, open(temporary, "wb") as file:
        file.writelines(parts)


def write_private(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview]) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    with replacement(path) as temporary, open(temporary, "wb") as file:
        os.chmod(temporary, 0o600)  # before there is anything in it
        file.writelines(parts)


def delete_leftovers(path: str | os.PathLike[str]) -> None:
    """Delete the temporary files of a file that killed processes left beside it; the lock of the file must be held."""
    folder, file = os.path.split(checked_target(path))
    name = re.compile(re.escape(file) + r"\.[0-9a-f]{16}\.tmp")  # what `replacement` calls it
    with os.scandir(folder) as entries:
        left = [one.path for one in entries if name.fullmatch(one.name) and not one.is_dir(follow_symlinks=False)]
    for temporary in left:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def flush(path: str, flags: int) -> None:
    """Wait until a file or a folder is on the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
