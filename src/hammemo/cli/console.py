"""What all commands share: progress bars, tables, errors in one line, checks of where results go.

From parameters to options: the one place where what the library says becomes what the command line says.

The library names its parameters as Python does: ``use missing='empty'``, ``n_labels= says what is known``. Here
``missing='empty'`` becomes ``--missing 'empty'``, and ``n_labels=`` becomes ``--n-labels``. A parameter stands between
blanks and has no value or a literal one, so that paths of partitioned data (``label=3/part.csv``) and parameters in a
call (``Hashed(buckets=8)``) stay as they are.
"""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.console import Console

from hammemo._progress import progress_bar as progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

NAME_A_MODEL: Final = "Name a file that hammemo fit or hammemo.save wrote."

_ALIKE: Final = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        *("columns", "date_format", "delimiter", "format", "label", "missing", "na", "numeric", "target"),
        *("case", "column", "end", "event", "h", "short", "time", "tokens"),
        *("buckets", "d", "d_h", "exact", "kernel", "layout", "memory", "reserved", "tied", "vote"),
        *("address", "engine", "resume", "workers"),
        *("agreement", "budget", "n_examples", "n_labels"),
        *("data", "device", "folds", "holdout", "wait"),
        *("again", "behind_proxy", "host", "keys", "port", "tls_cert", "tls_key", "token_file"),
    )
}
OPTIONS: Final = {"key": "--key-file", "random_state": "--seed", "classes": "--classes-top", **_ALIKE}
"""From a parameter of the library to the option that sets it."""

_FLAGS: Final = {("header", "False"): "--no-header", ("refit", "True"): "--refit"}

_SYMBOLS: Final = ("h", "d")
"""Symbols of the paper: with a number they are read as mathematics (``more than h=9 tokens``) and stay."""

_LITERAL = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|True|False|…|\.\.\."""
_CALL = r"\w+\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_MENTION = re.compile(
    rf"(?P<hint>\b\w+\((?:\w+, )*(?P<hinted>\w+)=\.\.\.\))|{_CALL}"
    rf"|(?<![^\s(])(?P<name>[a-z_]+)=(?P<value>{_LITERAL})?(?![^\s,;:.)])(?!\.\S)"
)


def as_options(message: str) -> str:
    """Return a message of the library with its parameters as the options of a command.

    Examples
    --------
    >>> from hammemo.cli.console import as_options
    >>> as_options("Drop the row, or use missing='empty'. n_labels= says what is known.")
    "Drop the row, or use --missing 'empty'. --n-labels says what is known."
    >>> as_options("label=3/a.csv is of Hashed(buckets=8), with more than h=9 tokens: use delimiter=';'.")
    "label=3/a.csv is of Hashed(buckets=8), with more than h=9 tokens: use --delimiter ';'."
    >>> as_options("It is not in the file: pass it as load(path, key=...).")
    'It is not in the file: pass it as --key-file.'
    """
    return _MENTION.sub(_as_option, message)


def _as_option(mention: re.Match[str]) -> str:
    name, value = mention["name"] or mention["hinted"], mention["value"]
    if (name, value) in _FLAGS:
        return _FLAGS[name, value]
    if name not in OPTIONS or (name in _SYMBOLS and value is not None):
        return mention[0]
    if value in (None, "…", "..."):
        return OPTIONS[name]
    return f"{OPTIONS[name]} {value}"


def print_error(message: str) -> None:
    """Print what is wrong to standard error: one line, which a terminal breaks between words."""
    console = Console(stderr=True)
    console.print(f"Error: {message}", markup=False, highlight=False, soft_wrap=not console.is_terminal)


def say_once() -> Callable[[str], None]:
    """Return a function that prints a sentence of the library to standard error, unless it has done so before.

    Files may be read more than once, and say the same each time.
    """
    sentences: set[str] = set()

    def say(sentence: str) -> None:
        if sentence not in sentences:
            sentences.add(sentence)
            typer.echo(as_options(sentence), err=True)

    return say


class UsageError(ValueError):
    """Raised for options that do not go together or have no meaning: exit code 2."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Say what is wrong with files, parameters or extras in one line."""
    try:
        yield
    except (BrokenPipeError, typer.Exit):
        raise  # the reader has closed the pipe, or all is said: the command ends in silence
    except (ValueError, TypeError, OSError, RuntimeError, ModuleNotFoundError, OverflowError, MemoryError) as error:
        print_error(_one_line(error))
        raise typer.Exit(2 if isinstance(error, UsageError) else 1) from error


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, MemoryError):
        return f"There is not enough memory ({str(error).rstrip('.') or 'no more was given'}): make the model smaller."
    return as_options(" ".join(str(error).split()))


def counted(number: int, what: str) -> str:
    """Return a number of things, in the singular where there is one.

    Examples
    --------
    >>> from hammemo.cli.console import counted
    >>> counted(1, "example"), counted(2000, "example")
    ('1 example', '2,000 examples')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def shown_facts(facts: Mapping[str, Any]) -> str:
    """Return in words how many examples a model holds and, where it predicts labels, of how many labels."""
    of_labels = f" of {counted(facts['labels'], 'label')}" if "labels" in facts else ""
    return f"{counted(facts['examples'], 'example')}{of_labels}"


def check_writable(out: Path, option: str = "--out") -> None:
    """Refuse a file that cannot be written before any work is done; one that is there is not touched."""
    if out.is_dir() or not os.access(out if out.exists() else out.parent, os.W_OK):
        raise ValueError(f"{option} {out} cannot be written: name a file in a folder that exists.")


def _refuse_served(path: Path) -> None:
    """Refuse to change what a server keeps: the snapshot without its log is another model."""
    place = os.path.realpath(path)
    for folder in (place, os.path.dirname(place)):
        if os.path.exists(os.path.join(folder, "log.sqlite")):
            raise ValueError(
                f"{path} belongs to a model that hammemo serve keeps, with a log of its edits: send edits to the "
                f"server, `hammemo send URL {os.path.basename(folder)} FILE`."
            )


def check_model_writable(out: Path, *, segments: bool = False) -> None:
    """Refuse a model that cannot be written, on object storage too, before any work is done.

    With `segments` it is a folder, which need not exist; a folder that holds a model is one to be written, too.
    """
    from hammemo.files.folders import HEAD
    from hammemo.files.locks import refuse_object_storage

    refuse_object_storage(out)
    _refuse_served(out)
    if segments and out.is_file():
        raise ValueError(f"--out {out} is a file: with --segments, name a folder, which need not exist.")
    is_folder = out.is_dir() and (segments or (out / HEAD).exists())
    check_writable(out / HEAD if is_folder else out)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2))


def print_result(value: Any, *shown: Any, as_json: bool) -> None:
    """Print a value as JSON, or what shows it: sentences, each on a line, and tables; nothing for None and ""."""
    if as_json:
        print_json(value)
        return
    for one in shown:
        if isinstance(one, str):
            typer.echo(one, nl=bool(one))
        elif one is not None:
            console().print(one)


def console() -> Console:
    """Return a console for results: as wide as the terminal, or wide enough for a file."""
    return Console(width=None if sys.stdout.isatty() else 160)


def say_where_from(files: list[str]) -> None:
    """Tell someone at a terminal that the command waits for what is typed."""
    if "-" in files and sys.stdin.isatty():
        typer.echo("Reading from the terminal; end with Ctrl-D.", err=True)
