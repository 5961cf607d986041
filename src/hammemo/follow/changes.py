"""Add up messages of the log: a row that came and went is neither learned nor forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hammemo.follow.pgoutput import Begin, Change, Commit, Message, Relation, Truncate
from hammemo.follow.position import Position, ProtocolError
from hammemo.follow.values import Followed, Row, new_row, old_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass
class LogPart:
    """The sum of some changes, and where it ends.

    A part that follows another can always be applied: the rows that it forgets are in the model.

    Examples
    --------
    >>> from hammemo.follow.changes import LogPart
    >>> part = LogPart()
    >>> part.add(("a", "yes"), 1)
    >>> part.add(("b", "no"), -1)
    >>> part.add(("a", "yes"), -1)
    >>> part.net()
    ([], [('b', 'no')])
    """

    is_emptied: bool = False
    """Whether all rows before it are void (TRUNCATE)."""
    end: int = 0
    """The place of the log after its last transaction."""
    is_whole: bool = True
    """Whether it ends with a transaction; otherwise more of the same transaction follows."""
    changes: int = 0
    transactions: int = 0
    skipped: int = 0
    """Transactions that the model held already."""
    time: float = 0.0
    """When its last transaction was committed: seconds since 1970."""
    counts: dict[Row, int] = field(default_factory=dict)

    def add(self, row: Row, times: int) -> None:
        """Add a row that came (1) or went (-1)."""
        self.counts[row] = self.counts.get(row, 0) + times

    def truncate(self) -> None:
        """Drop all that came before."""
        self.counts.clear()
        self.is_emptied = True

    def net(self) -> tuple[list[Row], list[Row]]:
        """Return the rows to learn and the rows to forget."""
        learn = [row for row, times in self.counts.items() for _ in range(times)]
        forget = [row for row, times in self.counts.items() for _ in range(-times)]
        return learn, forget


def add_up(
    messages: Iterable[Message], position: Position, followed: Followed, rows: int
) -> Iterator[LogPart]:
    """Yield what messages say of a table, without transactions that are applied already.

    A log_part ends with a transaction once it has `rows` distinct rows. A transaction of more than
    twice as many is cut. The last log_part may be empty.
    """
    log_part = LogPart(end=position.lsn)
    places = dict[int, list[int]]()
    """Where the followed columns are in the rows of each table that was described."""
    is_skipped = True
    is_open = False
    label = len(followed.columns)
    for message in messages:
        if isinstance(message, Begin):
            is_skipped = position.is_applied(message.xid, message.commit)
            is_open = True
        elif isinstance(message, Relation):
            places[message.oid] = followed.places(message)
        elif isinstance(message, Change) and not is_skipped:
            if message.relation not in places:
                raise ProtocolError(
                    "A change in PostgreSQL's log names a table that was not described before."
                )
            _add(log_part, message, places[message.relation], label)
            if len(log_part.counts) >= 2 * rows:
                log_part.is_whole = False
                yield log_part
                log_part = LogPart(end=log_part.end)
        elif isinstance(message, Truncate) and not is_skipped:
            log_part.truncate()
            log_part.changes += 1
        elif isinstance(message, Commit):
            if not is_open:
                raise ProtocolError("A transaction in PostgreSQL's log ends that did not begin.")
            is_open = False
            log_part.end = message.end
            if is_skipped:
                log_part.skipped += 1
            else:
                log_part.transactions += 1
                log_part.time = message.time
            if len(log_part.counts) >= rows:
                yield log_part
                log_part = LogPart(end=log_part.end)
    yield log_part


def _add(log_part: LogPart, change: Change, places: list[int], label: int) -> None:
    """Add a change; a row without a label is not learned."""
    log_part.changes += 1
    rows = []
    # `old_row` refuses a deletion or an update whose old row is not in the log
    if change.old is not None or change.new is None or change.is_update:
        rows.append((old_row(change, places), -1))
    if change.new is not None:
        rows.append((new_row(change, places), 1))
    for row, times in rows:
        if row[label] is not None:
            log_part.add(row, times)
