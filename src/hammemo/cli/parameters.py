"""From parameters to options: the one place where what the library says becomes what the command line says.

The library names its parameters as Python does: ``use missing='empty'``, ``n_labels= says what is known``. Here
``missing='empty'`` becomes ``--missing 'empty'``, and ``n_labels=`` becomes ``--n-labels``. A parameter stands between
blanks and has no value or a literal one, so that paths of partitioned data (``label=3/part.csv``) and parameters in a
call (``Hashed(buckets=8)``) stay as they are.
"""

from __future__ import annotations

import re
from typing import Final

OPTIONS: Final = {
    "key": "--key-file",
    "random_state": "--seed",
    "classes": "--classes-top",
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            *("columns", "delimiter", "format", "label", "missing", "numeric", "target"),
            *("case", "column", "end", "event", "h", "short", "time", "tokens"),
            *("buckets", "d", "d_h", "exact", "kernel", "layout", "memory", "reserved", "tied", "vote"),
            *("address", "engine", "resume", "workers"),
            *("agreement", "budget", "n_examples", "n_labels"),
            *("data", "device", "folds", "holdout", "wait"),
            *("again", "behind_proxy", "host", "keys", "port", "tls_cert", "tls_key", "token_file"),
        )
    },
}
"""From a parameter of the library to the option that sets it."""

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
    >>> from hammemo.cli.parameters import as_options
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
    if name == "header" and value == "False":
        return "--no-header"
    if name == "refit" and value == "True":
        return "--refit"
    if name not in OPTIONS or (name in _SYMBOLS and value is not None):
        return mention[0]
    if value in (None, "…", "..."):
        return OPTIONS[name]
    return f"{OPTIONS[name]} {value}"
