"""Locks of model files: one process at a time changes a file, from reading it to replacing it.

The lock of a file is another file beside it, the name of which has ``.lock`` at the end. The
operating system holds the lock for a process and frees it when that process ends, however it ends.
The lock file itself stays for ever: if it were deleted, one process could hold the lock of the
deleted file and another the lock of a new one. It says who had the lock last: process, host and
time. A thread that has a lock may take it again. Reading needs no lock, because files are replaced
whole (:mod:`hammemo.files.atomic`).
"""

from __future__ import annotations

import json
import os
import re
import socket
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from filelock import FileLock, Timeout

from hammemo.files.archive import FileError
from hammemo.files.atomic import resolve_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE: Final = 1.0
"""Seconds of waiting before the holder of a lock is named."""


class LockedError(FileError):
    """Raised when another process kept the lock of a file for longer than the caller would wait."""


@contextmanager
def locked(
    path: str | os.PathLike[str],
    wait: float | None = None,
    tell: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Hold the lock of a file for the time of the block.

    Parameters
    ----------
    path : str or path
        The file, which need not exist; a symbolic link is followed.
    wait : float, optional
        The most seconds to wait for another holder, without end by default.
    tell : callable, optional
        Called with one sentence that names the holder, once, if that takes longer than a second.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo.files.locks import locked
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder, "a.model")):
    ...     [file.name for file in Path(folder).iterdir()]
    ['a.model.lock']
    """
    refuse_object_storage(path)
    if wait is not None and not wait >= 0:
        raise ValueError(
            f"wait={wait!r}: the time to wait for another process is zero seconds or more."
        )
    name = f"{resolve_target(path)}.lock"
    # One object for all who lock this file, so that a thread that has the lock may take it again.
    lock = FileLock(name, is_singleton=True, preserve_lock_file=True, on_acquired=_write_holder)
    first_wait = PATIENCE
    second_wait = -1.0  # without end
    if wait is not None:
        first_wait = min(wait, PATIENCE)
        second_wait = max(wait - PATIENCE, 0)
    try:
        lock.acquire(timeout=first_wait)
    except Timeout:
        if tell is not None and second_wait != 0:
            tell(f"Waiting for {_describe_holder(name)}, which has {os.fspath(path)} locked.")
        try:
            lock.acquire(timeout=second_wait)
        except Timeout:
            raise LockedError(
                f"{os.fspath(path)} is locked by {_describe_holder(name)}, "
                f"and was not free after {wait:g} seconds: nothing was changed. "
                "Try again when that process has ended, or set wait= to more seconds."
            ) from None
    try:
        yield
    finally:
        lock.release()


Held: TypeAlias = FileLock
"""A lock that is held until `release`, which any thread may call, also twice."""


def take(path: str | os.PathLike[str]) -> Held:
    """Take the lock of a file for longer than a block, without waiting.

    `LockedError` names the process that has it. Unlike `locked`, this refuses a lock to a thread of
    this process that has it already.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo.files.locks import LockedError, take
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     held = take(Path(folder, "a.model"))
    ...     try:
    ...         take(Path(folder, "a.model"))
    ...     except LockedError as error:
    ...         print("is locked by process" in str(error))
    ...     held.release()
    True
    """
    name = f"{resolve_target(path)}.lock"
    lock = FileLock(name, thread_local=False, preserve_lock_file=True, on_acquired=_write_holder)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise LockedError(
            f"{os.fspath(path)} is locked by {_describe_holder(name)}: nothing was changed."
        ) from None
    return lock


def refuse_object_storage(path: str | os.PathLike[str]) -> None:
    """Refuse an address such as ``s3://bucket/a.model``: no lock can be held there."""
    text = os.fspath(path)
    # pathlib leaves one slash; the name of a drive has one letter.
    address = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text)
    if address is not None and not os.path.isdir(address[0]):
        raise FileError(
            f"{text} is on object storage, where a file cannot be locked or replaced whole: "
            "copy it to this machine, change it there and copy it back."
        )


def _write_holder(descriptor: int) -> None:
    """Write into the lock file who has the lock."""
    holder = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    text = json.dumps(holder)
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, text.encode())


def _describe_holder(name: str) -> str:
    """Describe who has a lock, in words."""
    try:
        with open(name, encoding="utf-8") as file:
            about = json.load(file)
        return f"process {about['pid']} on {about['host']} (since {about['time']})"
    except (OSError, ValueError, LookupError, TypeError):  # being written, or not readable here
        return "another process"
