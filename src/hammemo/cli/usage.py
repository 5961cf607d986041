"""Wrong usage in one line: what is wrong with a command line, and where to read on.

The exceptions of click carry the parameter, and `NoSuchOption` carries what may have been meant, so
these say everything in their attributes. A `BadParameter` carries its reason only as text, and two
kinds of typer word it differently: those that bring a copy of click, and those that use click
itself. So the value and the rule are taken from that text, and exceptions are told apart by the
names of their classes, which are the same in click and in the copy.
"""

from __future__ import annotations

import re
from typing import Any


def describe_usage_error(error: Any) -> str:
    """Return what is wrong with a command line, nothing if its help was shown already."""
    kind = type(error).__name__
    if kind == "NoArgsIsHelpError":
        return ""
    if kind == "MissingParameter" and error.param is not None:
        message = f"{_name_with_value(error.param)} is missing{_describe_purpose(error.param)}."
    elif kind == "NoSuchOption":
        message = _describe_unknown_option(error)
    elif kind == "BadParameter":
        message = _describe_bad_value(error)
    else:
        message = _reword(error.format_message())
    context = getattr(error, "ctx", None)
    if context is not None:
        message = f"{message} Try '{context.command_path} --help'."
    return " ".join(message.split())


def _name_with_value(param: Any) -> str:
    """Return a parameter as the help shows it, such as ``--out FILE`` or ``MODEL``."""
    if param.param_type_name == "argument":
        return str(param.metavar)
    return f"{param.opts[0]} {param.metavar}"


def _describe_purpose(param: Any) -> str:
    """Return the first words of a parameter's help in brackets."""
    words = re.split(r"[:;(]|\.(?: |$)", param.help or "")[0].strip()
    if not words:
        return ""
    return f" ({words[0].lower()}{words[1:]})"


def _describe_unknown_option(error: Any) -> str:
    """Name an option that does not exist, and one that is spelled alike or begins like it."""
    name = error.option_name
    similar = list(error.possibilities or ())[:1]  # the most similar comes first
    if not similar and error.ctx is not None:
        params = error.ctx.command.get_params(error.ctx)
        options = [option for param in params for option in param.opts]
        similar = sorted(option for option in options if option.startswith(f"-{name}"))
    if not similar:
        return f"There is no option {name}."
    return f"There is no option {name}. Did you mean {' or '.join(similar)}?"


def _describe_bad_value(error: Any) -> str:
    """Name the option, its value and the rule."""
    message = error.message.rstrip(".")
    if error.param is None:
        if error.param_hint:
            return f"{error.param_hint}: {message}."
        return f"{message}."
    name = _name_with_value(error.param).split()[0]
    name_and_value = f"{name} {_find_value(error)}".strip()
    if "greater than" in message or "not in the range" in message:
        bounded = error.param  # click itself has the bound in the type of the parameter
        if getattr(bounded, "min", None) is None:
            bounded = error.param.type
        return f"{name_and_value} is too small: use {bounded.min} or more."
    if "valid int" in message:
        return f"{name_and_value} is not a whole number."
    if "valid number" in message or "valid float" in message:
        return f"{name_and_value} is not a number."
    return f"{name_and_value}: {message}."


def _find_value(error: Any) -> str:
    """Return the value that was refused; nothing if the error does not have it."""
    if hasattr(error.__cause__, "errors"):
        return str(error.__cause__.errors()[0]["input"])
    match = re.match(r"'?(.*?)'? is not ", error.message)
    if match is None:
        return ""
    return match[1]


def _reword(message: str) -> str:
    """Return a message of click with the way out, where there is one."""
    extra = re.fullmatch(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)\.?", message)
    if extra is not None:
        return (
            f"{extra[1]!r} is one argument too many: put quotes around a value with spaces, or "
            "leave it out."
        )
    without_value = re.fullmatch(r"Option '?(--?[\w-]+)'? requires an argument\.?", message)
    if without_value is not None:
        return f"{without_value[1]} needs a value after it."
    with_value = re.fullmatch(r"Option '?(--?[\w-]+)'? does not take a value\.?", message)
    if with_value is not None:
        return f"{with_value[1]} takes no value: leave it out."
    if message.endswith((".", "?")):
        return message
    return f"{message}."
