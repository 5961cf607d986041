"""The classes that a model file may name: those of hammemo, and those that `load` gets as trusted.

A class of hammemo is stored by its bare name, such as ``"Exact"``. A kernel, a memory, a vote or a
compiled form of another package is stored by its module and name, such as
``"shop.memories:Windowed"``. Such a name is only compared with the names of the classes that were
passed as ``load(path, trust=[Windowed])``: nothing is imported because a file asks for it, and a
file cannot choose among all that happens to be imported.

A class of another package must keep the contract of its base: parameters that are plain values or
other parts, and `state` and `restore` (of a compiled form, `pack` and `from_packed`) that undo each
other and check what they are given.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.estimators.regressor import MemoryRegressor
from hammemo.files.archive import FileError
from hammemo.kernels import (
    AutoSites,
    Bag,
    Copy,
    Decaying,
    Joined,
    Pairs,
    PositionalHamming,
    Recent,
    SiteKernel,
    SkipPairs,
    Suffixes,
    Together,
)
from hammemo.memories import Exact, Gaussian, Hashed, Memory, Tiered
from hammemo.memories.exact import DenseCounts, SparseCounts
from hammemo.memories.gaussian.readers import CompiledGaussian
from hammemo.memories.hashed.readers import HashedTables
from hammemo.memories.reader import Compiled
from hammemo.memories.tiered import TieredTables
from hammemo.stores.digest_store import Digests
from hammemo.votes import LogLinear, Mean, Mixture, Sum, Vote

if TYPE_CHECKING:
    from collections.abc import Iterable


def _index_by_name(*classes: type) -> dict[str, type]:
    return {cls.__name__: cls for cls in classes}


_KERNELS: Final = _index_by_name(
    PositionalHamming,
    SiteKernel,
    Decaying,
    Suffixes,
    SkipPairs,
    Joined,
    AutoSites,
    Pairs,
    Bag,
    Together,
    Copy,
    Recent,
)

_COMPILED: Final = _index_by_name(
    SparseCounts, DenseCounts, HashedTables, TieredTables
) | dict.fromkeys(("FusedGaussian", "TwoStageGaussian"), CompiledGaussian)

BUILT_IN: Final = {
    "classifier": _index_by_name(MemoryClassifier),
    "regressor": _index_by_name(MemoryRegressor),
    "kernel": _KERNELS,
    "memory": _index_by_name(Exact, Gaussian, Hashed, Tiered),
    "vote": _index_by_name(Sum, Mean, LogLinear, Mixture),
    "keep": _index_by_name(Digests),
    "compiled": _COMPILED,
}
"""What a bare name stands for, by the kind of class. A new class of hammemo that can be saved is
added here."""

ABOVE: Final = {"MeMoClassifier": "hammemo.paper.memo"}
"""Classifiers that build on files: the modules from which they are imported when a file names
one."""

PARTS: Final[dict[str, Any]] = {"kernel": SiteKernel, "memory": Memory, "vote": Vote}
"""The kinds of parts of a classifier, and the base class of each."""

TRUSTABLE: Final[dict[str, Any]] = {**PARTS, "compiled": Compiled}
"""The kinds of classes that `load` takes as trusted, and the base class of each."""

DESCRIBED: Final[dict[str, Any]] = {**PARTS, "keep": Digests}
"""The parameters of a classifier that files describe by a class and its parameters."""


def is_built_in(kind: str, cls: type) -> bool:
    """Return whether a class has a bare name."""
    return BUILT_IN[kind].get(cls.__name__) is cls or (
        kind == "classifier" and ABOVE.get(cls.__name__) == cls.__module__
    )


def name_in_file(kind: str, cls: type) -> str:
    """Return the name that a class has in files; TypeError if it is not of that kind.

    Examples
    --------
    >>> from hammemo.memories import Exact
    >>> from hammemo.files.registry import name_in_file
    >>> class Mine(Exact):
    ...     '''A memory of another package.'''
    >>> Mine.__module__ = "shop.memories"
    >>> name_in_file("memory", Exact), name_in_file("memory", Mine)
    ('Exact', 'shop.memories:Mine')
    """
    if is_built_in(kind, cls):
        return cls.__name__
    if not _can_be_trusted(kind, cls):
        raise TypeError(f"{cls.__name__} is not a {kind} that files can hold")
    return f"{cls.__module__}:{cls.__qualname__}"


def kind_of_part(value: Any) -> str | None:
    """Return whether a value is a "kernel", a "memory" or a "vote"; None if it is none of these."""
    for kind, base in PARTS.items():
        if isinstance(value, base):
            return kind
    return None


def _can_be_trusted(kind: str, cls: type) -> bool:
    """Return whether files may name a class of another package as one of this kind.

    There is no such kind beside those of `TRUSTABLE`: estimators and digests are hammemo's.
    """
    return kind in TRUSTABLE and issubclass(cls, TRUSTABLE[kind])


class Registry:
    """The classes that one call of `load` may make.

    Parameters
    ----------
    trust : iterable of classes
        Kernels, memories, votes and compiled forms that are not part of hammemo.
    """

    def __init__(self, trust: Iterable[type] = ()) -> None:
        self._trusted: dict[str, type] = {}
        for cls in trust:
            is_class = isinstance(cls, type)
            if not is_class or not any(_can_be_trusted(kind, cls) for kind in TRUSTABLE):
                raise TypeError(
                    f"trust= lists {cls!r}, which files cannot hold: "
                    "pass classes, each of them a kernel, a memory, a vote or a compiled form."
                )
            name = f"{cls.__module__}:{cls.__qualname__}"
            if self._trusted.setdefault(name, cls) is not cls:
                raise ValueError(
                    f"trust= lists two classes with the name {name}: a file cannot tell them apart."
                )

    def find(self, kind: str, name: str) -> Any:
        """Return the class of that kind with this name in a file, or refuse the name."""
        if name in BUILT_IN[kind]:
            return BUILT_IN[kind][name]
        if kind == "classifier" and name in ABOVE:
            return getattr(import_module(ABOVE[name]), name)
        cls = self._trusted.get(name)
        if cls is not None and _can_be_trusted(kind, cls):
            return cls
        if cls is None and ":" in name and kind in TRUSTABLE:
            raise FileError(
                f"The file holds a {kind} of the class {name[:200]!r}, "
                "which is not part of hammemo. If you trust that class, "
                "import it and pass it to load: load(path, trust=[the class])."
            )
        # A bare name of no class of hammemo, a class that is trusted as another kind, or a kind of
        # which none can be trusted.
        names = list(BUILT_IN[kind])
        if kind == "classifier":
            names += ABOVE
        raise ValueError(f"it names a {name[:80]!r}, which is not one of {', '.join(names)}")

    def find_part_kind(self, name: str) -> str:
        """Return the kind of the part whose class has this name.

        An unknown name counts as that of a memory: `find` refuses it with the way out.
        """
        cls = self._trusted.get(name)
        for kind in PARTS:
            if name in BUILT_IN[kind] or (cls is not None and _can_be_trusted(kind, cls)):
                return kind
        return "memory"
