"""Commands and groups of commands: how their help looks, and options that commands share."""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from hammemo.cli.console import one_line_errors, print_error
from hammemo.cli.options import OPTION
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

    Newer versions of typer would show ``<list[str]>``.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters, with what the help shows for their values.

        Of an argument it shows the name alone, of a flag nothing, and of any other option the name
        of its value. Options that name none take a number, which is N.
        """
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.param_type_name == "argument":
                # The help takes a type from this method and from nowhere else.
                param.display_type_rich = lambda **_: None
            elif param.metavar is None:
                is_flag = getattr(param, "is_flag", False)
                param.metavar = "" if is_flag else "N"
        return params


class _Command(_PlainHelp, TyperCommand):
    pass


class _Group(_PlainHelp, TyperGroup):
    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command; wrong usage is one line on standard error, not a box of five.

        On its own, click prints the box and ends the process. So it always runs as if it were
        called from Python, where it raises; and what it would do on its own is done here.
        """
        ends_process = settings.get("standalone_mode", True)
        settings["standalone_mode"] = False
        try:
            result = super().main(*args, **settings)
        except _ClickException as error:
            if not ends_process:
                raise
            message = describe_usage_error(error)
            if message:
                print_error(message)
            sys.exit(error.exit_code)
        if not ends_process:
            return result
        # click returns the code of `typer.Exit`; the other results are those of commands
        exit_code = result if isinstance(result, int) else 0
        sys.exit(exit_code)


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

    @wraps(function)
    def call(**values: Any) -> Any:
        for name, bundle in bundles.items():
            fields_of_bundle = {field.name: values.pop(field.name) for field in fields(bundle)}
            values[name] = bundle(**fields_of_bundle)
        with one_line_errors():
            return function(**values)

    # typer reads the parameters of `call` from these two attributes.
    parameters: list[Parameter] = []
    for parameter in signature(function).parameters.values():
        hint = hints[parameter.name]
        if parameter.name in bundles:
            parameters += _list_options(hint)
        else:
            parameters.append(parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY))
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _list_options(bundle: Any) -> Iterator[Parameter]:
    """Yield a parameter for each field of a dataclass, annotated with its option."""
    hints = get_type_hints(bundle, include_extras=True)
    panels = _find_panels(bundle)
    for field in fields(bundle):
        annotation = hints[field.name]
        if OPTION in field.metadata:
            annotation = Annotated[annotation, field.metadata[OPTION]]
        if field.name in panels:
            annotation = _with_panel(annotation, panels[field.name])
        default = Parameter.empty if field.default is MISSING else field.default
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _find_panels(bundle: type) -> dict[str, str]:
    """Return the panel of the help in which the option of each field is shown.

    The `panel` of a class is that of the fields that this class itself declares: neither of those
    of its bases nor of its subclasses.
    """
    panels: dict[str, str] = {}
    for declaring_class in bundle.__mro__:
        panel = vars(declaring_class).get("panel")
        if panel is not None:
            panels.update(dict.fromkeys(get_annotations(declaring_class), panel))
    return panels


def _with_panel(annotation: Any, panel: str) -> Any:
    """Return the annotation of an option with the panel in which the help shows it.

    The option is copied: other commands may use the same annotation in other panels.
    """
    option = copy(annotation.__metadata__[0])
    option.rich_help_panel = panel
    return Annotated[annotation.__origin__, option]
