"""Commands and groups of commands: how their help looks, and options that commands share."""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from hammemo.cli.console import one_line_errors, print_error
from hammemo.cli.usage import describe_usage_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Function = TypeVar("Function", bound="Callable[..., Any]")

_UsageError: Any = typer.BadParameter.__base__
"""The exception of click, or of the copy of click that newer versions of typer bring."""

_ClickException: Any = _UsageError.__base__
"""The base of all errors with a message for users."""


class _PlainHelp:
    """A command or a group whose help shows no Python types.

    Newer versions of typer show ``<list[str]>``.
    """

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
        is_standalone = settings.get("standalone_mode", True)
        settings["standalone_mode"] = False
        try:
            result = super().main(*args, **settings)
        except _ClickException as error:
            if not is_standalone:
                raise
            message = describe_usage_error(error)
            if message:
                print_error(message)
            sys.exit(error.exit_code)
        if not is_standalone:
            return result
        if isinstance(result, int):
            sys.exit(result)
        sys.exit(0)


class Commands(typer.Typer):
    """A group of commands; without one of them it shows its help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            cls=_Group, no_args_is_help=True, pretty_exceptions_enable=False, **settings
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Return the decorator of a function that becomes a command."""
        declare = super().command(name, **{"cls": _Command, **settings})

        def command(function: Function) -> Function:
            declare(with_options(function))
            return function

        return command


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with an option for each field of its dataclasses, and errors in one line.

    So several commands share options that are declared once: a parameter ``reading: InputOptions``
    stands for all fields of `InputOptions`, and the function gets them as one object.
    """
    hints = get_type_hints(function, include_extras=True)
    bundles: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for parameter in signature(function).parameters.values():
        if parameter.name in bundles:
            parameters += _list_options(bundles[parameter.name])
        else:
            parameters.append(
                parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY)
            )

    @wraps(function)
    def call(**values: Any) -> Any:
        for name, bundle in bundles.items():
            bundled = {field.name: values.pop(field.name) for field in fields(bundle)}
            values[name] = bundle(**bundled)
        with one_line_errors():
            return function(**values)

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _list_options(bundle: Any) -> Iterator[Parameter]:
    """Yield the fields of a dataclass as parameters, those of a class with a `panel` in it."""
    hints = get_type_hints(bundle, include_extras=True)
    for field in fields(bundle):
        if "shown" in field.metadata:
            hints[field.name] = Annotated[hints[field.name], field.metadata["shown"]]
    for kind in bundle.__mro__:
        if "panel" in vars(kind):
            for name in get_annotations(kind).keys() - {"panel"}:
                hints[name].__metadata__[0].rich_help_panel = kind.panel
    for field in fields(bundle):
        default = field.default
        if default is MISSING:
            default = Parameter.empty
        yield Parameter(
            field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
        )
