"""The three axes of a model, and what "auto" becomes; other names are in :mod:`hammemo.tasks.labels.names`.

- memory: `Exact`.
- vote: log-linear where the memory keeps rows of counts, else the sum of the paper.
- kernel: positions and the tuples of columns that a table asks for (`AutoSites`), for a stream positions, suffixes and
  skip pairs. This is for an exact memory with a vote whose weights are fitted; with others, positions.
- a stream with more than 256 labels: the mixture. Where its documents are short, as sessions are, or hardly repeat a
  token, as lists of films do, it reads suffixes, a bag, what occurs together, and copies; else, as in text, positions,
  suffixes, skip pairs, and how often a token was recent.

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


def resolved_memory(memory: Any) -> Memory:
    """Return a new memory: of a name, or a clone of the one given."""
    if memory is None:
        return Hashed()
    return Exact() if is_auto(memory) else clone(MEMORIES.resolved(memory))


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


def resolved_vote(vote: Any, memory: Memory, n_labels: int = 2) -> Vote:
    """Return a new vote: of a name, or a clone of the one given; "auto" depends on what the memory keeps."""
    if is_auto(vote):
        return make_untried_vote(n_labels) if memory.keeps_rows() else Sum()
    return clone(VOTES.resolved(vote))  # type: ignore[no-any-return]


def resolved_kernel(kernel: Any, memory: Memory, vote: Vote) -> SiteKernel:
    """Return a new kernel: of a name, or a clone of the one given; "auto" is `AutoSites` where these sites pay."""
    if kernel is None:
        return PositionalHamming()
    if is_auto(kernel):
        return AutoSites() if chooses_sites(memory, vote) else PositionalHamming()
    return clone(KERNELS.resolved(kernel))  # type: ignore[no-any-return]


def stream_kernel(h: int) -> SiteKernel:
    """Return what "auto" compares in the windows of a stream: positions, suffixes and skip pairs of the last four.

    Examples
    --------
    >>> from hammemo.tasks.labels.automatic import stream_kernel
    >>> stream_kernel(1), stream_kernel(2)
    (PositionalHamming(), Joined(kernels=[PositionalHamming(), Suffixes(k=2)]))
    """
    kernel: SiteKernel = PositionalHamming()
    if h > 1:
        kernel = kernel + Suffixes(min(4, h))
    return kernel + SkipPairs(min(4, h)) if h > 2 else kernel


def chooses_sites(memory: Memory, vote: Vote) -> bool:
    """Return whether an auto kernel chooses sites: what they need are exact counts, and weights that are fitted."""
    fitted = vote.weights is None if isinstance(vote, LogLinear) else vote.has_weights
    return fitted and isinstance(memory, Exact)


def counts_in_any_order(memory: Memory) -> bool:
    """Return whether a memory that learns from nothing holds the same in whichever order examples come.

    Where the first ones settle a layout, and where floats are added, it may not.
    """
    return isinstance(memory, Exact)


def part_for(name: str, parameter: str) -> Any:
    """Return the object that takes the place of an "auto" or None part, so that one of its parameters can be set."""
    if name == "memory":
        return Hashed()  # an exact memory has no parameters
    if name == "vote":
        return make_untried_vote(0)
    return AutoSites() if parameter in AutoSites().get_params() else PositionalHamming()


def parts_for(estimator: object, params: Iterable[str]) -> dict[str, Any]:
    """Return objects for the "auto" or None parts of which parameters are to be set, such as ``memory__buckets``."""
    nested = [name.partition("__") for name in params if "__" in name]
    known = {part: getattr(estimator, part, 0) for part, _, _ in nested}
    return {
        part: part_for(part, name)
        for part, _, name in nested
        if known[part] is None or is_auto(known[part])
    }
