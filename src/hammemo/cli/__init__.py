"""The command ``hammemo``: one module for each command. Without the ``cli`` extra, one sentence says how to get it.

May import all of hammemo; nothing imports it but ``python -m hammemo``.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

_INTERRUPTED = 130
"""The exit code of a command that was ended with Ctrl-C."""


def main() -> None:
    """Run the command-line tool; Ctrl-C ends it in silence."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # a shell that runs it in the background has it ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, usual)


def _interrupt(_: int, frame: Any) -> None:
    """End at once while packages are loaded, which is before any work: compiled ones turn the interrupt into errors."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def _run() -> None:
    try:
        from hammemo.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich"):
            raise
        sys.exit("The hammemo command needs its extra packages: pip install 'hammemo[cli]'")
    app()
