"""Progress of long work: a bar on standard error, or lines where it is no terminal.

A bar appears on a terminal only, and not before the work has taken two seconds. Rich draws it
(extra ``cli``); without Rich there is none. There is one bar at a time: while one is shown, the
work inside it shows no other. Lines are written inside `progress_lines` only, every few seconds and
after each phase.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 2.0
"""Seconds of work before a bar appears."""

LINE_SECONDS = 5.0
"""Seconds between two lines where there is no terminal."""

_terminal = threading.Lock()
"""Held while a bar is shown."""

_writes_lines: ContextVar[bool] = ContextVar("writes_lines", default=False)
"""Whether lines are written where there is no terminal."""

_tell: ContextVar[Callable[[int, int | None], None] | None] = ContextVar("tell", default=None)
"""The function that `progress_bar` yielded last; None in threads that a phase starts."""


@contextmanager
def progress_lines(are_told: Any = True) -> Iterator[None]:
    """Let progress be written in lines where there is no terminal, or not."""
    before = _writes_lines.set(bool(are_told))
    try:
        yield
    finally:
        _writes_lines.reset(before)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function of (done, total or None) that shows how much of a phase is done."""
    bar: Any = None
    started = time.monotonic()
    last = started
    writes_lines = _writes_lines.get() and not _is_terminal(sys.stderr)

    def tell(done: int, total: int | None) -> None:
        nonlocal bar, last
        if writes_lines and time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            share = f"{done:,}"
            if total is not None:
                share += f" of {total:,}"
            _write_line(f"{title}: {share}, {last - started:.0f} s")
        if bar is None and time.monotonic() - started >= PATIENCE and _is_terminal(sys.stderr):
            bar = _new_bar(title)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done, total=total)

    before = _tell.set(tell)
    try:
        yield tell
        if writes_lines:
            _write_line(f"{title}: done in {time.monotonic() - started:.1f} s")
    finally:
        _tell.reset(before)
        if bar is not None:
            bar.stop()
            _terminal.release()


def advance(done: int, total: int | None) -> None:
    """Show how much of the innermost phase is done, for code that knows nothing of phases."""
    tell = _tell.get()
    if tell is not None:
        tell(done, total)


def _write_line(text: str) -> None:
    if sys.stderr is not None and not sys.stderr.closed:
        print(text, file=sys.stderr, flush=True)


def _is_terminal(stream: Any) -> bool:
    """Return whether the stream is a terminal."""
    # a program without a console has no standard error at all
    return stream is not None and not stream.closed and bool(stream.isatty())


def _new_bar(title: str) -> Any:
    """Return a bar that is on the terminal now; None without Rich, or beside another."""
    try:
        from rich import progress
        from rich.console import Console
    except ModuleNotFoundError:
        return None
    if not _terminal.acquire(blocking=False):
        return None
    bar = progress.Progress(
        progress.TextColumn(title),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    bar.add_task(title, total=None)
    bar.start()
    return bar
