"""Write a file completely or not at all.

A file is written under a temporary name beside its destination, flushed to the disk and renamed
over it: at every moment, also after a crash, the destination is the old file or the new one.
Models, checkpoints, the records of experiments and tables of answers are written this way.

A process that is killed leaves its temporary file behind. The temporary file of a model may hold
examples that are forgotten later. So the next successful change of the model deletes it. This
happens under the lock of the model, which every writer holds: the process that wrote a temporary
file which lies there is dead.
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
    """Yield the name of an empty file, which replaces `path` if the block ends without an error.

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
    target = resolve_target(path)
    temporary = f"{target}.{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb"), suppress(FileNotFoundError):
            permissions = stat.S_IMODE(os.stat(target).st_mode)
            os.chmod(temporary, permissions)  # before there is anything in it
        yield temporary
        flush(temporary, os.O_RDWR)
        os.replace(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    if os.name == "posix":  # elsewhere a folder cannot be flushed
        flush(os.path.dirname(target), os.O_RDONLY)


def resolve_target(path: str | os.PathLike[str]) -> str:
    """Follow symbolic links to where a file is written; refuse a place where no file can be."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise IsADirectoryError(f"{target} is a folder: name a file in it.")
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"The folder {folder} does not exist: make it before a file is written into it."
        )
    return target


def write_file(path: str | os.PathLike[str], pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file that consists of these pieces, completely or not at all."""
    with replacement(path) as temporary, open(temporary, "wb") as file:
        file.writelines(pieces)


def write_private(path: str | os.PathLike[str], pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file that only its owner may read, completely or not at all."""
    with replacement(path) as temporary, open(temporary, "wb") as file:
        os.chmod(temporary, 0o600)  # before there is anything in it
        file.writelines(pieces)


def delete_leftovers(path: str | os.PathLike[str]) -> None:
    """Delete the temporary files that killed processes left beside a file, whose lock is held."""
    folder, file_name = os.path.split(resolve_target(path))
    temporary_name = re.compile(re.escape(file_name) + r"\.[0-9a-f]{16}\.tmp")  # see `replacement`
    with os.scandir(folder) as entries:
        leftovers = [
            entry.path
            for entry in entries
            if temporary_name.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False)
        ]
    for temporary in leftovers:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def flush(path: str, flags: int) -> None:
    """Wait until a file or a folder is on the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
