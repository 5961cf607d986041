"""The command ``hammemo``. It needs the ``cli`` extra; without it, one sentence says so."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command-line tool."""
    try:
        from hammemo.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich"):
            raise
        sys.exit("The hammemo command needs its extra packages: pip install 'hammemo[cli]'")
    app()
