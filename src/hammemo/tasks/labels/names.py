"""The names of kernels, memories and votes, for Python, the command line, the server and plans.

A name may be followed by numbers, ``"suffixes:4"`` for ``Suffixes(4)``, and kernels may be joined:
``"positional+skip-pairs:3"``. "auto" is a name of every kind; `automatic` says what it becomes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from hammemo.kernels import Decaying, Pairs, PositionalHamming, SiteKernel, SkipPairs, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed, Memory, Tiered
from hammemo.votes import LogLinear, Mean, Mixture, Sum, Vote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

AUTO: Final = "auto"

_MOST_SHOWN: Final = 80
"""The most characters of an unknown name that an error repeats."""

Part = TypeVar("Part")


@dataclass(frozen=True)
class Names(Generic[Part]):
    """The names of one kind of part.

    Parameters
    ----------
    kind : str
        What the parameter is called.
    base : type
        What an instance is of.
    classes : mapping from names to classes
    numbers : mapping from names to what follows them
        For each number its name and its type, in order; all of them may be left out.
    joined : bool
        Whether several, with ``+`` between, make one.

    Examples
    --------
    >>> from hammemo.tasks.labels.names import KERNELS, VOTES
    >>> KERNELS.make("suffixes:4"), KERNELS.make("positional+skip-pairs:3")
    (Suffixes(), Joined(kernels=[PositionalHamming(), SkipPairs(reach=3)]))
    >>> VOTES.make("median")
    Traceback (most recent call last):
        ...
    ValueError: vote='median' is not known: use 'auto', 'sum', 'mean', 'log-linear', 'mixture'.
    """

    kind: str
    base: type
    classes: Mapping[str, Callable[..., Part]]
    numbers: Mapping[str, Mapping[str, Callable[[str], float]]] = field(default_factory=dict)
    joined: bool = False

    def __iter__(self) -> Iterator[str]:
        """Go through all names, "auto" first."""
        return iter((AUTO, *self.classes))

    def make(self, text: str) -> Part:
        """Return a new part of this name, or raise ValueError.

        "auto" is refused: what it becomes depends on the data, and callers decide it
        (:mod:`hammemo.tasks.labels.automatic`).
        """
        if text == AUTO:
            raise ValueError(
                f"{self.kind}='auto' is no single {self.kind}: decide first what it is."
            )
        texts = text.split("+") if self.joined else [text]
        terms = [self._make_term(term) for term in texts]
        if None in terms:
            raise ValueError(
                f"{self.kind}={text[:_MOST_SHOWN]!r} is not known: use {self.list_names()}."
            )
        sum_of_terms: Part = reduce(add, terms)
        return sum_of_terms

    def _make_term(self, text: str) -> Any:
        """Return the part of one name with its numbers, or None where these are not valid."""
        name, *numbers = text.strip().split(":")
        types = [*self.numbers.get(name, {}).values()]
        if name not in self.classes or len(numbers) > len(types):
            return None
        try:
            values = [read(number) for read, number in zip(types, numbers, strict=False)]
            return self.classes[name](*values)
        except ValueError:
            return None

    def check(self, text: str) -> None:
        """Refuse a name that is not known."""
        if text != AUTO:
            self.make(text)

    def resolve(self, value: Any) -> Part:
        """Return the part of a name (see `make`), or the part itself.

        TypeError for what is neither.
        """
        if isinstance(value, str):
            return self.make(value)
        if not isinstance(value, self.base):
            example = next(iter(self.classes.values()))()
            raise TypeError(
                f"{self.kind}={value!r} is not a {self.kind}: "
                f"pass an instance such as {example!r}, or a name: {self.list_names()}."
            )
        instance: Any = value
        return instance  # type: ignore[no-any-return]

    def name_of(self, instance: Part) -> str:
        """Return the name of a part's class."""
        return next(name for name, cls in self.classes.items() if cls is type(instance))

    def list_names(self) -> str:
        """Return all names as an error lists them, with the numbers that may follow."""
        forms = [":".join([name, *self.numbers.get(name, {})]) for name in self]
        names = ", ".join(map(repr, forms))
        if self.joined:
            names += ", or several joined by '+'"
        return names


KERNELS: Final[Names[SiteKernel]] = Names(
    "kernel",
    SiteKernel,
    {
        "positional": PositionalHamming,
        "pairs": Pairs,
        "decaying": Decaying,
        "suffixes": Suffixes,
        "skip-pairs": SkipPairs,
    },
    {
        "decaying": {"RATE": float},
        "suffixes": {"K": int, "BASE": float},
        "skip-pairs": {"REACH": int},
    },
    joined=True,
)

MEMORIES: Final[Names[Memory]] = Names(
    "memory", Memory, {"exact": Exact, "hashed": Hashed, "gaussian": Gaussian, "tiered": Tiered}
)

VOTES: Final[Names[Vote]] = Names(
    "vote", Vote, {"sum": Sum, "mean": Mean, "log-linear": LogLinear, "mixture": Mixture}
)

NAMES: Final[dict[str, Names[Any]]] = {names.kind: names for names in (KERNELS, MEMORIES, VOTES)}
"""The names of each kind."""


def is_auto(value: Any) -> bool:
    """Return whether a parameter says "auto"; an array or a kernel is not compared."""
    return isinstance(value, str) and value == AUTO
