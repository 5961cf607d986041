"""Line ranges: the lines of a file that begin in a range of its bytes, each of them whole.

Cut the bytes of a file anywhere: each line is in exactly one range, the one that its first byte lies in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.sources.formats import PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator


def line_batches(stream: Any, start: int, stop: int | None) -> Iterator[list[bytes]]:
    """Yield the lines that begin in a range of bytes, about a mebibyte at a time, the last one whole."""
    begin = start
    if start:  # the line that holds the byte before belongs to an earlier shard, unless that byte ends it
        stream.seek(start - 1)
        begin -= 1
    held, skipping = b"", start > 0
    while stop is None or begin < stop:
        read = stream.read(PIECE_BYTES)
        held += read
        if skipping:
            cut = held.find(b"\n") + 1
            if not cut:
                begin, held = begin + len(held), b""
                if not read:
                    return
                continue
            begin, held, skipping = begin + cut, held[cut:], False
        end = held.rfind(b"\n") + 1 if read else len(held)
        lines, held = held[:end].split(b"\n"), held[end:]
        if read:
            lines.pop()  # what follows the last line's end
        if stop is not None and begin + end > stop:
            yield _beginning_before(lines, stop - begin)
            return
        if lines:
            yield lines
        begin += end
        if not read:
            return


def _beginning_before(lines: list[bytes], reach: int) -> list[bytes]:
    """Return the lines of a piece that begin within its first `reach` bytes."""
    first = np.cumsum([0, *(len(line) + 1 for line in lines)])[:-1]
    return lines[: int(np.searchsorted(first, reach))]
