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
"""Tokens after which the size is measured, and again whenever they have doubled.

To measure it is a pass over the state.
"""


def warn_if_large(memory: Memory) -> bool:
    """Warn of a memory of 1 GiB or more, and return whether it is."""
    nbytes = memory.nbytes
    if nbytes >= WARNING_BYTES:
        warnings.warn(
            f"The exact counts of memory='auto' take {nbytes / WARNING_BYTES:.1f} GiB and grow "
            "with what is learnt. memory=Hashed(buckets, reserved) has a size that does not grow; "
            "memory='exact' turns this warning off.",
            UserWarning,
            stacklevel=3,
        )
    return nbytes >= WARNING_BYTES


def watch_size(blocks: Iterable[Block], memory: Memory) -> Iterator[Block]:
    """Yield blocks as they are, and warn once where the memory that learns them grows large."""
    n_tokens = 0
    next_look = _FIRST_LOOK
    is_warned = False
    for block in blocks:
        if not is_warned and n_tokens >= next_look:
            is_warned = warn_if_large(memory)
            next_look = 2 * n_tokens
        n_tokens += len(block.tokens)
        yield block
    if not is_warned and n_tokens >= _FIRST_LOOK:
        warn_if_large(memory)
