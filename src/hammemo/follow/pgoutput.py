"""Decode pgoutput, PostgreSQL's own output of logical decoding: protocol version 1, values as text.

PostgreSQL sends whole transactions in the order of their commits: Begin, then for each table
that is new to the session a Relation, the changes, and Commit. A transaction that was rolled
back is not sent. Lengths are checked before they are used: a message that is cut or has an
unknown form raises `ProtocolError`.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from hammemo.follow.position import ProtocolError

_EPOCH: Final = 946_684_800
"""Seconds from 1970 to 2000, where PostgreSQL's clock starts."""

_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_WORD = struct.Struct(">I")
_SHORT = struct.Struct(">H")
_TEXT, _NULL, _UNCHANGED = b"tnu"
_IGNORED: Final = b"OYM"
"""Origin, type and message say nothing about rows."""


class Begin(NamedTuple):
    """The start of a transaction: where its commit begins in the log, and its number."""

    commit: int
    xid: int


class Commit(NamedTuple):
    """The end of a transaction: where it ends in the log, and when, in seconds since 1970."""

    end: int
    time: float


class Relation(NamedTuple):
    """A table, as the log describes it: columns are pairs of a name and the oid of a type."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[tuple[str, int], ...]


class Unchanged:
    """The value of a long column that an UPDATE did not change, and so did not send."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()
Values = list["bytes | Unchanged | None"]


class Change(NamedTuple):
    """A row that came, went or changed."""

    relation: int
    old: Values | None
    new: Values | None
    only_key: bool = False
    """Whether the old row holds the columns of the primary key alone."""
    is_update: bool = False


class Truncate(NamedTuple):
    """Tables that were emptied."""

    relations: tuple[int, ...]


Message = Begin | Commit | Relation | Change | Truncate | None


def decode(data: bytes) -> Message:
    """Return what a message says; None for one that says nothing about rows.

    Examples
    --------
    >>> from hammemo.follow.pgoutput import decode
    >>> values = bytes([0, 2]) + b"n" + b"t" + bytes([0, 0, 0, 2]) + b"42"
    >>> decode(b"I" + bytes([0, 0, 0, 9]) + b"N" + values)
    Change(relation=9, old=None, new=[None, b'42'], only_key=False, is_update=False)
    """
    try:
        return _decode(data)
    except (struct.error, IndexError, ValueError) as error:
        kind = ascii(data[:1].decode("latin-1"))
        raise ProtocolError(
            f"A message of kind {kind} in PostgreSQL's log cannot be read ({error}): "
            "is this a slot of pgoutput, protocol version 1?"
        ) from None


def _decode(data: bytes) -> Message:
    kind = data[:1]
    if kind in (b"I", b"U", b"D"):
        return _change(data)
    if kind == b"B":
        commit, _, xid = _BEGIN.unpack(data[1:])
        return Begin(commit, xid)
    if kind == b"C":
        _, _, end, time = _COMMIT.unpack(data[1:])
        return Commit(end, time / 1e6 + _EPOCH)
    if kind == b"R":
        return _relation(data)
    if kind == b"T":
        number = _WORD.unpack_from(data, 1)[0]
        if len(data) != 6 + 4 * number:
            raise ValueError(f"{len(data)} bytes for {number} tables")
        return Truncate(struct.unpack_from(f">{number}I", data, 6))
    if kind and kind in _IGNORED:
        return None
    raise ValueError("an unknown kind")


def _change(data: bytes) -> Change:
    relation = _WORD.unpack_from(data, 1)[0]
    at = 5
    old: Values | None = None
    new: Values | None = None
    row_kind = data[at]
    only_key = row_kind == 0x4B  # K
    if row_kind in b"KO" and data[:1] != b"I":
        old, at = _values(data, at + 1)
        row_kind = 0x4E if data[:1] == b"D" else data[at]
    if data[:1] != b"D":
        if row_kind != 0x4E:  # N
            raise ValueError("no new row")
        new, at = _values(data, at + 1)
    elif old is None:
        raise ValueError("no old row")
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes too many")
    return Change(relation, old, new, only_key=only_key, is_update=data[:1] == b"U")


def _values(data: bytes, at: int) -> tuple[Values, int]:
    number = _SHORT.unpack_from(data, at)[0]
    size = len(data)
    at += 2
    values: Values = []
    for _ in range(number):
        kind = data[at]
        at += 1
        if kind == _TEXT:
            start = at + 4
            at = start + _WORD.unpack_from(data, at)[0]
            if at > size:
                raise ValueError("a value is cut")
            values.append(data[start:at])
        elif kind == _NULL:
            values.append(None)
        elif kind == _UNCHANGED:
            values.append(UNCHANGED)
        else:
            raise ValueError(f"a value of the unknown kind {kind}")
    return values, at


def _relation(data: bytes) -> Relation:
    schema, at = _name(data, 5)
    name, at = _name(data, at)
    identity = chr(data[at])
    number = _SHORT.unpack_from(data, at + 1)[0]
    at += 3
    columns = []
    for _ in range(number):
        column, at = _name(data, at + 1)
        columns.append((column, _WORD.unpack_from(data, at)[0]))
        at += 8
    if at != len(data):
        raise ValueError("the list of columns is cut")
    return Relation(
        _WORD.unpack_from(data, 1)[0],
        schema or "pg_catalog",
        name,
        identity=identity,
        columns=tuple(columns),
    )


def _name(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1
