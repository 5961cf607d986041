"""The three axes of a model, and what "auto" becomes.

Other names are in :mod:`hammemo.tasks.labels.names`.

- memory: `Exact`.
- vote: log-linear where the memory keeps rows of counts, else the sum of the paper.
- kernel: positions and the tuples of columns that a table asks for (`AutoSites`), for a stream
  positions, suffixes and skip pairs. This is for an exact memory with a vote whose weights are
  fitted; with others, positions.
- a stream with more than 256 labels: the mixture. Where its documents are short, as sessions are,
  or hardly repeat a token, as lists of films do, it reads suffixes, a bag, what occurs together,
  and copies; else, as in text, positions, suffixes, skip pairs, and how often a token was recent.

``None`` means positions, and a hashed memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from hammemo.kernels import (
    AutoSites,
    Bag,
    Copy,
    PositionalHamming,
    Recent,
    SiteKernel,
    SkipPairs,
    Suffixes,
    Together,
)
from hammemo.memories import Exact, Hashed, Memory
from hammemo.tasks.labels.names import KERNELS, MEMORIES, VOTES, is_auto
from hammemo.votes import LogLinear, Sum, Vote
from hammemo.votes.choose_weights import make_untried_vote

if TYPE_CHECKING:
    from collections.abc import Iterable


def make_memory(memory: Any) -> Memory:
    """Return a new memory: of a name, or a clone of the one given."""
    if memory is None:
        return Hashed()
    if is_auto(memory):
        return Exact()
    new_memory: Memory = clone(MEMORIES.resolve(memory))
    return new_memory


def mixture_kernel(h: int, *, items: bool) -> SiteKernel:
    """Return what "auto" compares in a stream with many labels.

    Examples
    --------
    >>> from hammemo.tasks.labels.automatic import mixture_kernel
    >>> mixture_kernel(8, items=True)
    Joined(kernels=[Suffixes(k=3), Bag(reach=8), Together(reach=8), Copy(reach=8)])
    """
    if not items:
        return stream_kernel(h) + Recent(h)
    return Suffixes(min(3, h)) + Bag(min(10, h)) + Together(min(30, h)) + Copy(min(30, h))


def make_vote(vote: Any, memory: Memory, n_labels: int = 2) -> Vote:
    """Return a new vote: of a name, or a clone of the one given.

    What "auto" becomes depends on what the memory keeps.
    """
    if not is_auto(vote):
        return clone(VOTES.resolve(vote))  # type: ignore[no-any-return]
    if memory.keeps_rows():
        return make_untried_vote(n_labels)
    return Sum()


def make_kernel(kernel: Any, memory: Memory, vote: Vote) -> SiteKernel:
    """Return a new kernel: of a name, or a clone of the one given.

    "auto" is `AutoSites` where chosen sites pay, else positions.
    """
    if kernel is None:
        return PositionalHamming()
    if not is_auto(kernel):
        return clone(KERNELS.resolve(kernel))  # type: ignore[no-any-return]
    if chooses_sites(memory, vote):
        return AutoSites()
    return PositionalHamming()


def stream_kernel(h: int) -> SiteKernel:
    """Return what "auto" compares in a stream: positions, suffixes and skip pairs of the last four.

    Examples
    --------
    >>> from hammemo.tasks.labels.automatic import stream_kernel
    >>> stream_kernel(1), stream_kernel(2)
    (PositionalHamming(), Joined(kernels=[PositionalHamming(), Suffixes(k=2)]))
    """
    kernel: SiteKernel = PositionalHamming()
    if h > 1:
        kernel = kernel + Suffixes(min(4, h))
    if h > 2:
        kernel = kernel + SkipPairs(min(4, h))
    return kernel


def chooses_sites(memory: Memory, vote: Vote) -> bool:
    """Return whether an auto kernel chooses sites: they need exact counts and fitted weights."""
    if not isinstance(memory, Exact):
        return False
    if isinstance(vote, LogLinear):
        return vote.weights is None
    return vote.has_weights


def counts_in_any_order(memory: Memory) -> bool:
    """Return whether an empty memory learns the same from examples in any order.

    Where the first ones settle a layout, and where floats are added, it may not.
    """
    return isinstance(memory, Exact)


def _make_part(name: str, parameter: str) -> Any:
    """Return the object that takes the place of an "auto" or None part which has a parameter."""
    if name == "memory":
        return Hashed()  # an exact memory has no parameters
    if name == "vote":
        return make_untried_vote(0)
    if parameter in AutoSites().get_params():
        return AutoSites()
    return PositionalHamming()


def make_parts(estimator: object, params: Iterable[str]) -> dict[str, Any]:
    """Return objects for the "auto" or None parts of an estimator whose parameters are to be set.

    A parameter of a part is ``memory__buckets``, for example.
    """
    new_parts: dict[str, Any] = {}
    for name in params:
        part_name, separator, parameter = name.partition("__")
        if not separator:
            continue
        current = getattr(estimator, part_name, 0)
        if current is None or is_auto(current):
            new_parts[part_name] = _make_part(part_name, parameter)
    return new_parts
