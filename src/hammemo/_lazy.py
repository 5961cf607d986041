"""Imports at the last moment: names that a package offers, and modules that may be missing.

scikit-learn takes more than a second to load. A command's help or the Tab key of a shell need not
wait for it.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence


@contextmanager
def explain_missing(message: str) -> Iterator[None]:
    """Say in a block of imports what to install where a module is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(message, name=error.name) from error


class LazyNames(NamedTuple):
    """What a package must define so that its names are imported when they are first used."""

    offered: list[str]
    """Its ``__all__``."""
    get: Callable[[str], Any]
    """Its ``__getattr__``."""
    list_names: Callable[[], list[str]]
    """Its ``__dir__``."""


def lazy_names(
    package: str,
    homes: Mapping[str, Sequence[str]],
    modules: Collection[str] = (),
) -> LazyNames:
    """Return a package's ``__all__``, ``__getattr__`` and ``__dir__``.

    Parameters
    ----------
    package : str
        Its name.
    homes : mapping from modules to names
        Which module of the package defines which of the offered names.
    modules : collection of str
        Modules of the package that are attributes of it without an import of their own.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in home_of:
            value = getattr(import_module(f"{package}.{home_of[name]}"), name)
            # Python looks here first, so `get` is called once per name.
            setattr(sys.modules[package], name, value)
            return value
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of, *modules})

    return LazyNames(sorted(home_of), get, list_names)
