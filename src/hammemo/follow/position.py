"""What a follower stores with the model, in the same step as the rows: `position_` of the model.

The log is applied up to `lsn`. After the whole table was read, the model also holds what the
snapshot of that read shows: transactions up to `until` may be a part of it already, and are
skipped if they are.

The errors here are what stops a follower, and what makes it compare the whole table.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Final


class FollowError(RuntimeError):
    """Raised when a table cannot be followed; the message names the way out."""


class ProtocolError(FollowError):
    """Raised for a message of the log that is cut or has an unknown form."""


# No error: the follower compares the whole table and goes on.
class NeedsCheck(Exception):  # noqa: N818
    """Raised when the log cannot be applied to the model: the whole table must be compared."""


_TURN: Final = 2**32
"""Numbers of transactions in messages of the log start again after this many."""


_NUMBERS: Final = ("lsn", "until", "rows", "learnt", "gone", "since", "checked")


def lsn_number(text: str) -> int:
    """Return a place in the log as a number.

    Examples
    --------
    >>> from hammemo.follow.position import lsn_number, lsn_text
    >>> lsn_number("1/16B3748"), lsn_text(lsn_number("1/16B3748"))
    (4318771016, '1/16B3748')
    """
    if not re.fullmatch(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}", text):
        raise ValueError(f"{text[:40]!r} is not a position in PostgreSQL's log, such as 0/16B3748.")
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(number: int) -> str:
    """Return a place in the log as PostgreSQL writes it."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def is_shown(xid: int, snapshot: str) -> bool:
    """Return whether a snapshot (``xmin:xmax:running,…``) shows a committed transaction.

    PostgreSQL's `pg_visible_in_snapshot` returns the same. `xid` has 32 bits, as in messages of
    the log; those of the snapshot have 64.

    Examples
    --------
    >>> from hammemo.follow.position import is_shown
    >>> [is_shown(xid, "700:705:702,703") for xid in (699, 701, 702, 705)]
    [True, True, False, False]
    """
    first, end, running = snapshot.split(":")
    least = int(first)
    number = least + (xid - least + _TURN // 2) % _TURN - _TURN // 2
    return number < least or (number < int(end) and str(number) not in running.split(","))


@dataclass(frozen=True)
class Position:
    """Up to where a model has followed its table.

    Parameters
    ----------
    slot : str
        The replication slot.
    lsn : int
        Transactions that ended up to here are in the model.
    table : str
        A hash of what is followed: table, columns with their types, label.
    layout : str
        A hash of the table's files and columns: if it changes, rows may have changed without a
        message.
    rows, learnt : int
        Rows at the last refit, and rows learnt since.
    gone, since : int
        Rows forgotten since the last refit, and when the first of them was: seconds since 1970.
    shown : str
        The snapshot in which the whole table was read, as long as the log is not read up to
        `until`.
    until : int
    checked : int
        When the whole table was last compared: seconds since 1970.
    """

    slot: str
    lsn: int
    table: str
    layout: str
    rows: int = 0
    learnt: int = 0
    gone: int = 0
    since: int = 0
    shown: str = ""
    until: int = 0
    checked: int = 0

    def is_applied(self, xid: int, commit: int) -> bool:
        """Return whether a transaction, whose commit begins at a place, is in the model already."""
        return commit < self.lsn or bool(self.shown and is_shown(xid, self.shown))

    def after_changes(self, lsn: int, learnt: int = 0, gone: int = 0, now: float = 0.0) -> Position:
        """Return the position after some rows were learned and forgotten up to a place."""
        lsn = max(lsn, self.lsn)
        if self.gone or not gone:
            since = self.since
        else:
            since = int(now)
        after = replace(
            self, lsn=lsn, learnt=self.learnt + learnt, gone=self.gone + gone, since=since
        )
        if lsn < self.until:
            return after
        return replace(after, shown="", until=0)

    def after_refit(self, rows: int) -> Position:
        """Return the position after a refit to some rows."""
        return replace(self, rows=rows, learnt=0, gone=0, since=0)

    def is_refit_due(self, now: float, after: float) -> bool:
        """Return whether a refit is due.

        Rows doubled, 10 % are new (from 200 rows on), or a deletion is `after` seconds old.
        """
        grown = self.learnt and (
            self.learnt >= self.rows or (self.rows >= 200 and self.learnt * 10 >= self.rows)
        )
        return bool(grown or (self.gone and now - self.since >= after))

    def encode(self) -> str:
        """Return it as the string that the model stores."""
        facts = {name: value for name, value in asdict(self).items() if value}
        for name in ("lsn", "until"):
            if name in facts:
                facts[name] = lsn_text(facts[name])
        return json.dumps(facts, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> Position:
        """Return what `encode` wrote; the position of any other source is refused.

        Examples
        --------
        >>> from hammemo.follow.position import Position
        >>> position = Position("hammemo_shop", 500, "a1", "b2", rows=7)
        >>> position.encode()
        '{"slot":"hammemo_shop","lsn":"0/1F4","table":"a1","layout":"b2","rows":7}'
        >>> Position.decode(position.encode()) == position
        True
        """
        try:
            facts: dict[str, Any] = json.loads(text)
            for name in ("lsn", "until"):
                if name in facts:
                    facts[name] = lsn_number(facts[name])
            position = cls(**facts)
            for name, value in facts.items():
                if type(value) is not (int if name in _NUMBERS else str):
                    raise TypeError
        except (ValueError, TypeError, AttributeError):
            raise FollowError(
                f"The model's position {text[:60]!r} was not written by hammemo follow: "
                "the model follows another source. Name another model, which need not exist."
            ) from None
        return position
