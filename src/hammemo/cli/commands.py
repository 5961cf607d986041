"""Commands and groups of commands: how their help looks, and wrong usage said in one line."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")

# click's own, or those of the copy of click that newer versions of typer bring
_Usage: Any = typer.BadParameter.__base__
_Shown: Any = _Usage.__base__


def _no_type(**_: Any) -> None:
    """Return what is shown as the type of an argument."""


class _PlainHelp:
    """A command or a group whose help shows no Python types, as newer versions of typer do (``<list[str]>``)."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters: flags and arguments as they are written, numbers as N."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.param_type_name == "argument":
                param.display_type_rich = _no_type
            elif param.metavar is None:
                param.metavar = "" if getattr(param, "is_flag", False) else "N"
        return params


class _Command(_PlainHelp, TyperCommand):
    pass


class _Group(_PlainHelp, TyperGroup):
    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command; wrong usage is one line on standard error, not a box of five."""
        alone = settings.get("standalone_mode", True)
        try:
            result = super().main(*args, **{**settings, "standalone_mode": False})
        except _Shown as error:
            if not alone:
                raise
            if message := usage_message(error):
                typer.echo(message, err=True)
            sys.exit(error.exit_code)
        if alone:
            sys.exit(result if isinstance(result, int) else 0)
        return result


class Commands(typer.Typer):
    """A group of commands; without one of them it shows its help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, no_args_is_help=True, pretty_exceptions_enable=False, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Return the decorator of a function that becomes a command."""
        return super().command(name, **{"cls": _Command, **settings})


def usage_message(error: Any) -> str:
    """Return what is wrong with a command line and where to read on; nothing if its help was shown already."""
    kind = type(error).__name__
    if kind == "NoArgsIsHelpError":
        return str(error.format_message())  # empty if typer has printed it
    if kind == "MissingParameter" and error.param is not None:
        message = f"{_shown_name(error.param)} is missing{_purpose(error.param)}."
    elif kind == "NoSuchOption":
        message = _unknown_option(error)
    elif kind == "BadParameter":
        message = _bad_value(error)
    else:
        message = _plainer(error.format_message())
    ctx = getattr(error, "ctx", None)
    more = f" Try '{ctx.command_path} --help'." if ctx is not None else ""
    return " ".join(f"Error: {message}{more}".split())


def _shown_name(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar)
    return f"{param.opts[0]} {param.metavar}"


def _purpose(param: Any) -> str:
    """Return the first words of a parameter's help in brackets."""
    words = re.split(r"[:;(]|\.(?: |$)", param.help or "")[0].strip()
    return f" ({words[0].lower()}{words[1:]})" if words else ""


def _unknown_option(error: Any) -> str:
    """Name an option that is not there and those that may have been meant, by their spelling or first letter."""
    name = error.option_name
    near = sorted(error.possibilities or ())
    if not near and error.ctx is not None:
        known = [option for param in error.ctx.command.get_params(error.ctx) for option in param.opts]
        near = sorted(option for option in known if option.startswith(f"-{name}"))
    return f"There is no option {name}." + (f" Did you mean {' or '.join(near)}?" if near else "")


def _bad_value(error: Any) -> str:
    message = error.message.rstrip(".")
    if error.param is None:
        return f"{error.param_hint}: {message}." if error.param_hint else f"{message}."
    name = _shown_name(error.param).split()[0]
    if match := re.fullmatch(r"(\S+) is not in the range x>=(\S+)", message):
        return f"{name} {match[1]} is too small: use {match[2]} or more."
    if match := re.fullmatch(r"('.*') is not a valid (int\w*)( range)?", message):
        return f"{name} {match[1]} is no whole number."
    if match := re.fullmatch(r"('.*') is not a valid (float\w*)( range)?", message):
        return f"{name} {match[1]} is no number."
    return f"{name}: {message}."


def _plainer(message: str) -> str:
    """Return a message of click with the way out, where there is one."""
    if match := re.fullmatch(r"Got unexpected extra arguments? \((.*)\)\.?", message):
        return f"{match[1]!r} is too much: put quotes around a value that has blanks, or leave it out."
    if match := re.fullmatch(r"Option '?(--?[\w-]+)'? requires an argument\.?", message):
        return f"{match[1]} needs a value after it."
    if match := re.fullmatch(r"Option '?(--?[\w-]+)'? does not take a value\.?", message):
        return f"{match[1]} takes no value: leave it out."
    return message if message.endswith((".", "?")) else f"{message}."
