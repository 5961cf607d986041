"""Commands and groups of commands: how their help looks, and wrong usage said in one line."""

from __future__ import annotations

import re
import sys
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from hammemo.cli.console import one_line_errors, print_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Function = TypeVar("Function", bound="Callable[..., Any]")

# click's own, or those of the copy of click that newer versions of typer bring
_Usage: Any = typer.BadParameter.__base__
_Shown: Any = _Usage.__base__


class _PlainHelp:
    """A command or a group whose help shows no Python types, as newer versions of typer do (``<list[str]>``)."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters: flags and arguments as they are written, numbers as N."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.param_type_name == "argument":
                param.display_type_rich = lambda **_: None
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
                print_error(message)
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
        declare = super().command(name, **{"cls": _Command, **settings})

        def command(function: Function) -> Function:
            declare(with_options(function))
            return function

        return command


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the options of a dataclass in place of a parameter that is one, and errors in one line.

    So several commands share options that are declared once: a parameter ``given: InputOptions`` stands for all fields
    of `InputOptions`, and the function gets them as one object.
    """
    hints = get_type_hints(function, include_extras=True)
    bundles: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for parameter in signature(function).parameters.values():
        if parameter.name in bundles:
            parameters += _options(bundles[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY))

    @wraps(function)
    def call(**given: Any) -> Any:
        for name, bundle in bundles.items():
            given[name] = bundle(**{field.name: given.pop(field.name) for field in fields(bundle)})
        with one_line_errors():
            return function(**given)

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _options(bundle: Any) -> Iterator[Parameter]:
    """Yield the fields of a dataclass as parameters; what declares a `panel` has its options in it."""
    hints = get_type_hints(bundle, include_extras=True)
    for field in fields(bundle):
        if "shown" in field.metadata:
            hints[field.name] = Annotated[hints[field.name], field.metadata["shown"]]
    for kind in bundle.__mro__:
        for name in get_annotations(kind).keys() - {"panel"} if "panel" in vars(kind) else ():
            hints[name].__metadata__[0].rich_help_panel = kind.panel
    for field in fields(bundle):
        default = Parameter.empty if field.default is MISSING else field.default
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name])


def usage_message(error: Any) -> str:
    """Return what is wrong with a command line and where to read on; nothing if its help was shown already."""
    kind = type(error).__name__
    if kind == "NoArgsIsHelpError":
        return ""
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
    return " ".join(f"{message}{more}".split())


def _shown_name(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar)
    return f"{param.opts[0]} {param.metavar}"


def _purpose(param: Any) -> str:
    """Return the first words of a parameter's help in brackets."""
    words = re.split(r"[:;(]|\.(?: |$)", param.help or "")[0].strip()
    return f" ({words[0].lower()}{words[1:]})" if words else ""


def _unknown_option(error: Any) -> str:
    """Name an option that is not there and what may have been meant, by its spelling or its first letter."""
    name = error.option_name
    near = list(error.possibilities or ())[:1]  # the nearest comes first
    if not near and error.ctx is not None:
        known = [option for param in error.ctx.command.get_params(error.ctx) for option in param.opts]
        near = sorted(option for option in known if option.startswith(f"-{name}"))
    return f"There is no option {name}." + (f" Did you mean {' or '.join(near)}?" if near else "")


def _bad_value(error: Any) -> str:
    """Name the option, its value and the rule; versions of typer word it in ways of their own."""
    message = error.message.rstrip(".")
    if error.param is None:
        return f"{error.param_hint}: {message}." if error.param_hint else f"{message}."
    name = f"{_shown_name(error.param).split()[0]} {_given(error)}".strip()
    if "greater than" in message or "not in the range" in message:
        bounded = error.param if getattr(error.param, "min", None) is not None else error.param.type
        return f"{name} is too small: use {bounded.min} or more."
    if "valid int" in message:
        return f"{name} is not a whole number."
    if "valid number" in message or "valid float" in message:
        return f"{name} is not a number."
    return f"{name}: {message}."


def _given(error: Any) -> str:
    """Return the value that was refused, if it can be told."""
    if hasattr(error.__cause__, "errors"):
        return str(error.__cause__.errors()[0]["input"])
    match = re.match(r"'?(.*?)'? is not ", error.message)
    return match[1] if match else ""


def _plainer(message: str) -> str:
    """Return a message of click with the way out, where there is one."""
    if match := re.fullmatch(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)\.?", message):
        return f"{match[1]!r} is one argument too many: put quotes around a value with spaces, or leave it out."
    if match := re.fullmatch(r"Option '?(--?[\w-]+)'? (requires an argument|does not take a value)\.?", message):
        return f"{match[1]} {'needs a value after it' if 'requires' in match[2] else 'takes no value: leave it out'}."
    return message if message.endswith((".", "?")) else f"{message}."
