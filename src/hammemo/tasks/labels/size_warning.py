"""A warning where an exact memory that was chosen automatically grows large."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hammemo.memories import Memory
    from hammemo.tokens.stream_blocks import Block

WARNING_BYTES: Final = 2**30
"""Bytes of an automatically chosen memory above which there is a warning."""

_FIRST_LOOK: Final = 2**23
"""Tokens after which the size is looked at, and again whenever they have doubled: a look is a pass over the state."""


def warn_if_large(memory: Memory) -> bool:
    """Warn of a memory of 1 GiB or more, and return whether it is."""
    nbytes = memory.nbytes
    if nbytes >= WARNING_BYTES:
        warnings.warn(
            f"The exact counts of memory='auto' take {nbytes / WARNING_BYTES:.1f} GiB and grow with what is learnt. "
            "memory=Hashed(buckets, reserved) has a size that does not grow; memory='exact' turns this warning off.",
            UserWarning,
            stacklevel=3,
        )
    return nbytes >= WARNING_BYTES


def watched(blocks: Iterable[Block], memory: Memory) -> Iterator[Block]:
    """Yield blocks as they are, and warn once where the memory that learns them grows large."""
    seen, look = 0, _FIRST_LOOK
    for block in blocks:
        if seen >= look:
            look = 2**62 if warn_if_large(memory) else 2 * seen
        seen += len(block.tokens)
        yield block
    if seen >= _FIRST_LOOK and look < 2**62:
        warn_if_large(memory)
