"""The command ``hammemo``: one module for each command.

Without the ``cli`` extra, it says how to get it. May import all of hammemo; only
``python -m hammemo`` and the commands of the server import it.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

_INTERRUPTED = 130
"""The exit code of a command that was ended with Ctrl-C."""


def main() -> None:
    """Run the command-line tool; Ctrl-C ends it without a message."""
    handler = signal.getsignal(signal.SIGINT)
    # A shell that runs a command in the background lets it ignore Ctrl-C: that stays.
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, handler)


def _interrupt(_: int, frame: Any) -> None:
    """End the process at once while packages are loaded, which is before any work.

    Compiled packages would turn a KeyboardInterrupt into other errors.
    """
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
