"""The audit record: every edit without its content, one line each, chained by digests.

A line is written in the transaction of its edit, so there is no edit without a line. It says
when, with which token, of what kind, how many rows, the version before and after, and a keyed
hash of the operation id. Its link is the BLAKE2b of the line and of the link before: a line
that was changed, removed or added in the middle breaks the chain. A chain that was cut at its
end does not reach the head of the log, or the newest receipt. Anyone who writes the database
can write a new chain, so keep the newest link elsewhere, as receipts do.

Old lines are removed from the front. What is needed of them stays, and the chain goes on from
there.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LINK_BYTES: Final = 32

_encode = msgspec.msgpack.Encoder().encode


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One edit, without its content."""

    at: float
    token: str
    """The name of the token with which it was sent; nothing for what a program or the service
    itself did."""
    kind: str
    op: bytes
    """A keyed hash of the operation id."""
    rows: int
    before: int
    after: int
    receipt: bytes = b""
    """The hash of the receipt that was issued, where one was."""

    def link(self, before: bytes) -> bytes:
        """Return the link of this line after that of the line before."""
        return blake2b(
            before + _encode(self), digest_size=LINK_BYTES, person=b"hammemo audit"
        ).digest()


class Linked(msgspec.Struct, frozen=True):
    """A line as the log keeps it: its number, from 1, and its link."""

    number: int
    line: Line
    link: bytes

    def facts(self) -> dict[str, str | int | float]:
        """Return it as JSON says it, bytes in hexadecimal digits."""
        line = msgspec.structs.asdict(self.line)
        shown = {
            name: value.hex() if isinstance(value, bytes) else value for name, value in line.items()
        }
        return {"number": self.number, **shown, "link": self.link.hex()}


class Start(msgspec.Struct, frozen=True):
    """What the first remaining line is chained to: the last line that was removed."""

    number: int = 0
    link: bytes = bytes(LINK_BYTES)
    version: int = 0
    """The newest version that a line which left was about."""
    receipt: bytes = b""
    """The newest receipt that such a line names."""

    def facts(self) -> dict[str, str | int]:
        """Return as JSON what a reader needs to check the chain of the lines that follow.

        `version` and `receipt` are left out. Only `is_cut` needs them, which also needs the head of
        the log, so the server calls it where the database is. No reader could check them, because
        the lines that they are about have left.
        """
        return {"number": self.number, "link": self.link.hex()}


def find_first_broken(start: Start, lines: Sequence[Linked]) -> int | None:
    """Return the number of the first line that does not fit the one before it.

    It is None for a whole chain.

    Examples
    --------
    >>> from hammemo_server.store.audit import Line, Linked, Start, find_first_broken
    >>> a, b = Line(1.0, "shop", "learn", b"x", 2, 0, 1), Line(2.0, "shop", "forget", b"y", 1, 1, 2)
    >>> links = [a.link(Start().link)]
    >>> links += [b.link(links[0])]
    >>> find_first_broken(Start(), [Linked(1, a, links[0]), Linked(2, b, links[1])])
    >>> find_first_broken(Start(), [Linked(2, b, links[1])])
    2
    """
    # The same lines with the numbers and links that they should have.
    expected = chain_lines(start, (linked.line for linked in lines))
    for linked, expected_line in zip(lines, expected, strict=True):
        if linked != expected_line:
            return linked.number
    return None


def is_cut(start: Start, lines: Iterable[Linked], head: int, receipt: bytes) -> bool:
    """Return whether lines are missing at the end.

    Parameters
    ----------
    start : Start
    lines : iterable of Linked
        All lines that are left.
    head : int
        The newest version in the log of edits.
    receipt : bytes
        The hash of the newest receipt; empty where none was issued.

    Examples
    --------
    >>> from hammemo_server.store.audit import Line, Start, chain_lines, is_cut
    >>> first = Line(1.0, "shop", "learn", b"x", 2, 0, 1)
    >>> second = Line(2.0, "shop", "learn", b"y", 1, 1, 2)
    >>> lines = chain_lines(Start(), [first, second])
    >>> [is_cut(Start(), some, 2, b"") for some in (lines, lines[:1], [])]
    [False, True, True]
    """
    end = advance_start(start, lines)
    return end.version != head or end.receipt != receipt


def advance_start(start: Start, lines: Iterable[Linked]) -> Start:
    """Return what the lines after these are chained to, once these have left."""
    for linked in lines:
        start = Start(
            linked.number,
            linked.link,
            version=max(start.version, linked.line.after),
            receipt=linked.line.receipt or start.receipt,
        )
    return start


def chain_lines(start: Start, lines: Iterable[Line]) -> list[Linked]:
    """Return lines with their numbers and links, after what is there."""
    number = start.number
    link = start.link
    linked = []
    for line in lines:
        number += 1
        link = line.link(link)
        linked.append(Linked(number, line, link))
    return linked
