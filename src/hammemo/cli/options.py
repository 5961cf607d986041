"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer


def option(metavar: str, text: str, default: str | bool = True, **more: Any) -> Any:
    """Return an option: what stands for its value in the help, what it does, and how the help shows its default."""
    return typer.Option(metavar=metavar, help=text, show_default=default, **more)


NAME_A_MODEL: Final = "Name a file that hammemo fit or hammemo.save wrote."

Model: TypeAlias = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
KeyFile: TypeAlias = Annotated[
    Path | None, option("FILE", "File with the secret key of a keyed model: 16 to 64 raw bytes.")
]
Wait: TypeAlias = Annotated[
    float | None,
    option("SECONDS", "How long to wait while another process changes the model file.", "until it has ended", min=0),
]
Refit: TypeAlias = Annotated[
    bool, typer.Option("--refit", help="Then choose sites and fit weights again from the kept rows.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def read_key(file: Path | None) -> bytes | None:
    """Return the bytes of a key file; a line end that an editor put there is not part of the key."""
    return None if file is None else file.read_bytes().rstrip(b"\r\n")
