"""Options that several commands share."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from hammemo.cli.console import check_model_writable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo.cli.models import OpenModel


OPTION: Final = "option"
"""Under this key, the metadata of a dataclass field has the option that typer shows for it."""


def option(metavar: str, text: str, default: str | bool = True, *names: str, **more: Any) -> Any:
    """Return an option: the name of its value in the help, what it does, and its default there."""
    return typer.Option(*names, metavar=metavar, help=text, show_default=default, **more)


def argument(metavar: str, text: str, default: str | bool = True) -> Any:
    """Return an argument, as `option` returns an option."""
    return typer.Argument(metavar=metavar, help=text, show_default=default)


def flag(name: str, text: str) -> Any:
    """Return an option without a value: its name, and what it does."""
    return typer.Option(name, help=text)


def setting(
    metavar: str, text: str, shown: str | bool = True, *names: str, default: Any = None, **more: Any
) -> Any:
    """Return an `option` as a field of a dataclass; `shown` is how the help shows its default."""
    return field(default=default, metadata={OPTION: option(metavar, text, shown, *names, **more)})


def switch(name: str, text: str) -> Any:
    """Return a `flag` as a field of a dataclass."""
    return field(default=False, metadata={OPTION: flag(name, text)})


Model: TypeAlias = Annotated[Path, argument("MODEL", "A model file.")]
KeyFile: TypeAlias = Annotated[
    Path | None, option("FILE", "File with the secret key of a keyed model: 16 to 64 raw bytes.")
]
Wait: TypeAlias = Annotated[
    float | None,
    option(
        "SECONDS",
        "How long to wait while another process changes the model file.",
        "until it has ended",
        min=0,
    ),
]
Refit: TypeAlias = Annotated[
    bool, flag("--refit", "Then choose sites and fit weights again from the kept rows.")
]
AsJson: TypeAlias = Annotated[bool, flag("--json", "Print the result as JSON.")]


@dataclass(frozen=True)
class ModelChange:
    """The model file that a command changes."""

    model: Model
    out: Annotated[Path | None, option("FILE", "Write the changed model here.", "MODEL itself")] = (
        None
    )
    wait: Wait = None
    key_file: KeyFile = None
    as_json: AsJson = False

    @property
    def target(self) -> Path:
        """The file that is written."""
        if self.out is None:
            return self.model
        return self.out

    @contextmanager
    def open(self) -> Iterator[OpenModel]:
        """Open the model; no other process changes it during this block."""
        from hammemo.cli.models import changing, open_model

        check_model_writable(self.target)
        with changing(self.target, [self.model], self.wait):
            yield open_model(self.model, read_key(self.key_file))


def read_key(file: Path | None) -> bytes | None:
    """Return the bytes of a key file, without a line end that an editor has put there."""
    if file is None:
        return None
    return file.read_bytes().rstrip(b"\r\n")
