"""What all commands share: results, errors in one line, checks of where results go.

The library names its parameters as Python does: ``use missing='empty'``, ``n_labels= says what is
known``. `as_options` turns such messages into those of the command line: ``missing='empty'``
becomes ``--missing 'empty'``, and ``n_labels=`` becomes ``--n-labels``. A parameter stands between
blanks and has no value or a literal one, so that paths of partitioned data (``label=3/part.csv``)
and parameters in a call (``Hashed(buckets=8)``) stay as they are.
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
        *(
            "columns",
            "date_format",
            "delimiter",
            "format",
            "label",
            "missing",
            "na",
            "numeric",
            "ordered",
            "target",
        ),
        *("case", "column", "end", "event", "h", "short", "time", "tokens"),
        *("buckets", "d", "d_h", "exact", "kernel", "layout", "memory", "reserved", "tied", "vote"),
        *("address", "engine", "resume", "workers"),
        *("agreement", "budget", "n_examples", "n_labels"),
        *("data", "device", "folds", "holdout", "wait"),
        *("again", "behind_proxy", "host", "keys", "port", "tls_cert", "tls_key", "token_file"),
    )
}
OPTIONS: Final = {
    "key": "--key-file",
    "random_state": "--seed",
    "classes": "--classes-top",
    **_ALIKE,
}
"""From a parameter of the library to the option that sets it."""

_FLAGS: Final = {("header", "False"): "--no-header", ("refit", "True"): "--refit"}
"""From a parameter and its value to the flag that sets it."""

_SYMBOLS: Final = ("h", "d")
"""Symbols of the paper: with a number they are read as mathematics (``more than h=9 tokens``) and
stay."""

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
    >>> as_options("label=3/a.csv of Hashed(buckets=8) has more than h=9 rows: use delimiter=';'.")
    "label=3/a.csv of Hashed(buckets=8) has more than h=9 rows: use --delimiter ';'."
    >>> as_options("It is not in the file: pass it as load(path, key=...).")
    'It is not in the file: pass it as --key-file.'
    """
    return _MENTION.sub(_replace_mention, message)


def _replace_mention(mention: re.Match[str]) -> str:
    name = mention["name"] or mention["hinted"]
    value = mention["value"]
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
    console.print(
        f"Error: {message}", markup=False, highlight=False, soft_wrap=not console.is_terminal
    )


def say_once() -> Callable[[str], None]:
    """Return a function that prints a sentence of the library to standard error, once.

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
        raise  # the reader has closed the pipe, or everything is said: the command ends silently
    except (
        ValueError,
        TypeError,
        OSError,
        RuntimeError,
        ModuleNotFoundError,
        OverflowError,
        MemoryError,
    ) as error:
        print_error(_format_error(error))
        exit_code = 1
        if isinstance(error, UsageError):
            exit_code = 2
        raise typer.Exit(exit_code) from error


def _format_error(error: Exception) -> str:
    """Return the message of an error in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, MemoryError):
        reason = str(error).rstrip(".") or "no more was given"
        return f"There is not enough memory ({reason}): make the model smaller."
    return as_options(" ".join(str(error).split()))


def format_count(number: int, what: str) -> str:
    """Return a number of things, in the singular where there is one.

    Examples
    --------
    >>> from hammemo.cli.console import format_count
    >>> format_count(1, "example"), format_count(2000, "example")
    ('1 example', '2,000 examples')
    """
    if number != 1:
        what = f"{what}s"
    return f"{number:,} {what}"


def describe_examples(facts: Mapping[str, Any]) -> str:
    """Return in words how many examples a model holds and, if it predicts labels, how many."""
    examples = format_count(facts["examples"], "example")
    if "labels" not in facts:
        return examples
    return f"{examples} of {format_count(facts['labels'], 'label')}"


def check_writable(out: Path, option: str = "--out") -> None:
    """Refuse a file that cannot be written, before any work is done; an existing file is kept."""
    written = out.parent
    if out.exists():
        written = out
    if out.is_dir() or not os.access(written, os.W_OK):
        raise ValueError(f"{option} {out} cannot be written: name a file in a folder that exists.")


def _refuse_served(path: Path) -> None:
    """Refuse to change the model of a server: its snapshot without its log is another model."""
    place = os.path.realpath(path)
    for folder in (place, os.path.dirname(place)):
        if os.path.exists(os.path.join(folder, "log.sqlite")):
            raise ValueError(
                f"{path} belongs to a model that hammemo serve keeps, with a log of its edits: "
                f"send edits to the server, `hammemo send URL {os.path.basename(folder)} FILE`."
            )


def check_model_writable(out: Path, *, segments: bool = False) -> None:
    """Refuse a model that cannot be written, on object storage too, before any work is done.

    With `segments` it is a folder, which need not exist; a folder that holds a model is one to be
    written, too.
    """
    from hammemo.files.folders import HEAD
    from hammemo.files.locks import refuse_object_storage

    refuse_object_storage(out)
    _refuse_served(out)
    if segments and out.is_file():
        raise ValueError(
            f"--out {out} is a file: with --segments, name a folder, which need not exist."
        )
    if out.is_dir() and (segments or (out / HEAD).exists()):
        check_writable(out / HEAD)
    else:
        check_writable(out)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2))


def print_result(value: Any, *shown: Any, as_json: bool) -> None:
    """Print a value as JSON, or the sentences and tables that show it.

    Each sentence is on a line; nothing is printed for None and "".
    """
    if as_json:
        print_json(value)
        return
    for output in shown:
        if isinstance(output, str):
            typer.echo(output, nl=bool(output))
        elif output is not None:
            console().print(output)


def console() -> Console:
    """Return a console for results: as wide as the terminal, or wide enough for a file."""
    if sys.stdout.isatty():
        return Console()
    return Console(width=160)


def say_where_from(files: list[str]) -> None:
    """Say to a user at a terminal that the command waits for input."""
    if "-" in files and sys.stdin.isatty():
        typer.echo("Reading from the terminal; end with Ctrl-D.", err=True)
