"""Keep a model equal to a table: apply its whole transactions, and store them with the position.

1. Peek at the log. Transactions that the model holds already are skipped: by their place in the
   log, or because the snapshot in which the whole table was read shows them.
2. Add up the rest. The model forgets and learns it in one step, together with the position.
3. Only then let PostgreSQL delete that part of its log. After a crash at any moment, the same
   transactions come again, and those that are stored are skipped.

Some changes send no message, such as a dropped partition or ``ALTER … USING``. Whenever the
table's files or columns change, when the slot was lost, and every day, the whole table is
compared with the model in one snapshot (`check`).
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hammemo._lazy import explain_missing
from hammemo.follow.changes import LogPart, add_up
from hammemo.follow.position import FollowError, NeedsCheck, Position, lsn_text
from hammemo.follow.source import FollowedSource, Messages, plain_error, plain_errors, slot_name
from hammemo.follow.values import Followed, FollowedTable, Row, column_error

with explain_missing("To follow a table: pip install 'hammemo[follow]'"):
    import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo.edits.sync import Synced
    from hammemo.follow.served import Target

    Tell = Callable[[str, dict[str, Any]], None]

_MESSAGES: Final = 50_000
"""About how many messages are read at once; transactions are whole, so there may be more."""
_IDLE_BYTES: Final = 2**24
"""Bytes of other tables' log after which the position is stored although no row changed."""
_LAST_ROWS: Final = 1_000
"""New rows on which a refit is compared with the model before it."""
_LONGEST_WAIT: Final = 60.0
"""Seconds until the next try to connect."""


@dataclass(frozen=True)
class FollowOptions:
    """What is followed, and how.

    Parameters
    ----------
    label : str
        The column with the labels or targets. A row without one is learnt when it arrives.
    columns : sequence of str, optional
        The columns that become values; by default all others.
    where : str, optional
        Which rows, as a condition in SQL that a publication accepts.
    subject : str, optional
        The column that names a person, for a model with subjects on a server.
    refit_after : float
        Seconds after a deletion until the model is refitted.
    check_every : float
        Seconds between two comparisons with the whole table; with 0, only a change of the
        schema makes one.
    check_timeout : float
        Seconds after which PostgreSQL ends a comparison.
    pause : float
        Seconds between two looks at the log.
    is_target : bool
        Whether `label` is a column of numbers to predict. The user says it of the table.
    bounds : (low, high), optional
        What a new model of numbers answers at least and at most, as its parameter of this name.
        Without it, a model that exists keeps its own.
    """

    label: str
    columns: Sequence[str] | None = None
    where: str | None = None
    subject: str | None = None
    refit_after: float = 3_600.0
    check_every: float = 86_400.0
    check_timeout: float = 3_600.0
    pause: float = 0.2
    is_target: bool = False
    bounds: tuple[float | None, float | None] | None = None


class Follower:
    """Keeps a model equal to a table.

    Parameters
    ----------
    address, table, publication
        As in `FollowedSource`.
    target : Target
        The model.
    options : FollowOptions
    tell : callable
        Called with a sentence and with the same facts as a dict, whenever something happened.
    """

    def __init__(
        self,
        address: str,
        table: str,
        target: Target,
        options: FollowOptions,
        tell: Tell,
        *,
        publication: str | None = None,
    ) -> None:
        self._target = target
        self._options = options
        self._tell = tell
        self._position = target.position()
        if self._position:
            slot = self._position.slot
        else:
            slot = slot_name(table, target.name)
        self.source = FollowedSource(address, table, slot, publication)
        self._followed: Followed | None = None
        self._last: deque[Row] = deque(maxlen=_LAST_ROWS)
        self._seen = 0
        self._held_bytes = 0
        self._stopped_check = 0.0

    # Running

    @plain_errors()
    def run(self, *, once: bool = False) -> None:
        """Follow until the process ends; with `once`, up to the end of the log as it is now.

        If the connection is lost, it is opened again, after a pause that grows; with `once`
        that is an error.
        """
        wait = 1.0
        while True:
            try:
                self.start()
                end = self.source.flush()
                while not (once and self._seen >= end):
                    took = self.step()
                    wait = 1.0
                    time.sleep(0 if once else max(self._options.pause, 3 * took))
                return
            except psycopg.OperationalError as error:
                if once:
                    raise
                reason = plain_error(error)
                self._tell(
                    f"{reason} Trying again in {wait:g} s.",
                    {"event": "retry", "reason": str(reason)},
                )
                self.source.close()
                time.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
                self._reload()

    def start(self) -> None:
        """Open the table, its publication and its slot.

        Fit the first model, or repair one whose slot was lost.
        """
        self.source.lock()
        self._open()
        self._find_slot()
        if self.source.keeps_without_limit():
            self._tell(
                "Warning: max_slot_wal_keep_size is not set. While this follower is stopped, "
                "PostgreSQL keeps its log without a limit, which may fill its disk. "
                "Set it, or drop the slot before a long stop.",
                {"event": "warning", "setting": "max_slot_wal_keep_size"},
            )

    def step(self) -> float:
        """Look at the log once, apply what is there, and refit if it is time.

        Return the seconds of an idle look.
        """
        source = self.source
        options = self._options
        slot = self._find_slot()
        if slot > self._at.lsn:
            self.check("the slot is ahead of the model")
        elif source.layout() != self._at.layout:
            self._open()
            self.check("the files, columns or partitions of the table changed")
        elif (
            options.check_every
            and time.time() - max(self._at.checked, self._stopped_check) >= options.check_every
        ):
            self._daily_check()
        end = source.end()
        began = time.perf_counter()
        changed = True
        if end > self._seen:
            try:
                changed = self._read(end)
            except NeedsCheck as reason:
                self._reload()
                self._open()
                self.check(str(reason))
        if self._at.is_refit_due(time.time(), options.refit_after):
            self._refit()
        if changed:
            return 0.0
        return time.perf_counter() - began

    @property
    def _at(self) -> Position:
        assert self._position is not None
        return self._position

    def _reload(self) -> None:
        """Go back to what is stored."""
        self._target.reload()
        self._position = self._target.position()
        self._seen = 0

    def _open(self) -> None:
        """Find the followed columns, and refuse a table that is not what the model follows."""
        options = self._options
        columns = options.columns or self._target.columns()
        followed = self.source.open(
            options.label, columns, options.subject, is_target=options.is_target
        )
        followed = replace(followed, bounds=options.bounds)
        self._target.check_bounds(followed)
        if self._followed is not None:
            for before, after in zip(self._followed.all, followed.all, strict=True):
                if before != after:
                    raise column_error(followed.table, before.name, "has another type now")
        if self._position is not None and self._position.table != followed.hash:
            shown = ", ".join(column.name for column in followed.all)
            raise FollowError(
                f"{followed.table} ({shown}) is not what the model follows: "
                "a column has another type, or the options differ from those of the first start. "
                "Change that back, or follow the table with a new model."
            )
        self._followed = followed
        self.source.publish(options.where)

    @property
    def _columns(self) -> Followed:
        assert self._followed is not None
        return self._followed

    def _find_slot(self) -> int:
        """Return up to where the slot is confirmed.

        Make one and compare the table if it is not there.
        """
        slot = self.source.find_slot()
        if slot is None or slot.wal_status == "lost":
            self.source.drop_slot()
            self.source.create_slot()
            slot = self.source.find_slot()
            if self._position is not None:
                self.check("the slot was lost")
        if self._position is None:
            self.check("")
        assert slot is not None
        self._held_bytes = slot.held_bytes
        return slot.confirmed

    # The log

    def _read(self, until: int) -> bool:
        """Apply what the log says up to a place; return whether a row of the table changed."""
        before = self._at
        log_part = LogPart(end=self._at.lsn)
        learned = 0
        gone = 0
        messages = Messages(self.source, until, _MESSAGES)
        for log_part in add_up(messages, before, self._columns, self._target.batch_rows):
            if not log_part.changes and log_part.is_whole and not (learned or gone):
                continue
            learn, forget = log_part.net()
            learned += len(learn)
            gone += len(forget)
            if log_part.is_emptied:
                gone += self._target.n_rows()
            after = None
            if log_part.is_whole:
                after = self._at.after_changes(log_part.end, learned, gone, now=time.time())
            gone_rows = "everything" if log_part.is_emptied else forget
            self._target.change(self._columns, learn, gone_rows, after)
            self._last.extend(learn)
            if after is not None:
                self._position = after
                self._tell_changes(log_part, learned, gone)
                learned = 0
                gone = 0
        has_changed = self._at != before
        if messages.is_end:
            self._seen = max(log_part.end, until)
        else:
            self._seen = log_part.end
        # other tables were written: store the place now and then, so that their log can go
        is_far = self._at.shown or self._seen - self._at.lsn >= _IDLE_BYTES
        if not has_changed and is_far and self._seen > self._at.lsn:
            self._position = self._at.after_changes(self._seen)
            self._target.change(self._columns, [], [], self._position)
        if self._at.lsn > before.lsn:
            self.source.advance(self._at.lsn)
        return has_changed

    def _tell_changes(self, log_part: LogPart, learned: int, gone: int) -> None:
        lsn = lsn_text(log_part.end)
        lag = round(max(0.0, time.time() - log_part.time), 3)
        facts = {
            "event": "changed",
            "lsn": lsn,
            "learnt": learned,
            "forgotten": gone,
            "transactions": log_part.transactions,
            "skipped": log_part.skipped,
            "lag_seconds": lag,
            "held_bytes": self._held_bytes,
        }
        self._tell(f"{lsn}: {learned:,} rows learnt, {gone:,} forgotten.", facts)

    # The whole table

    def _daily_check(self) -> None:
        """Compare; a comparison that takes too long is told, and nothing changes."""
        try:
            self.check("it was time")
        except psycopg.errors.QueryCanceled:
            self._stopped_check = time.time()
            self._tell(
                f"The comparison took more than {self._options.check_timeout:g} s and was "
                "stopped: give it more time, or turn it off.",
                {"event": "check stopped"},
            )

    def check(self, reason: str) -> FollowedTable:
        """Compare the whole table with the model, make them equal, and return the table."""
        slot = self.source.find_slot()
        assert slot is not None
        with self.source.snapshot(self._options.check_timeout) as moment:
            table = self._columns.join(self.source.rows(self._columns))
        before = self._position or Position(self.source.slot, 0, self._columns.hash, "")
        lsn = max(before.lsn, slot.confirmed)
        n_rows = len(table.labels)
        read = replace(before, lsn=lsn, checked=int(time.time()), **moment._asdict())

        def after(synced: Synced | None) -> Position:
            if synced is None:
                return read.after_refit(n_rows)
            return read.after_changes(
                lsn, synced.learnt or 0, synced.forgotten or 0, now=time.time()
            )

        synced = self._target.sync(self._columns, table, after)
        self._position = after(synced)
        self._seen = 0
        if synced is None:
            self._tell(f"Fitted to {n_rows:,} rows.", {"event": "fitted", "rows": n_rows})
            return table
        self._tell(
            f"Compared with the whole table, because {reason}. {synced}",
            {
                "event": "checked",
                "reason": reason,
                "forgotten": synced.forgotten,
                "learnt": synced.learnt,
            },
        )
        return table

    def _refit(self) -> None:
        """Refit, and say how many labels of new rows changed."""
        table = None if self._target.can_refit() else self.check("a refit needs all rows")
        before = self._at
        n_rows = self._target.n_rows()
        name = self._columns.table
        lsn = lsn_text(before.lsn)
        after = before.after_refit(n_rows)
        request = None
        if before.gone:
            request = f"follow {name} {lsn}: {before.gone} rows"
        last = None
        if self._last:
            last = self._columns.frame(list(self._last)).values
        changed_labels = self._target.refit(after, table, last, request)
        self._position = after
        digest = self._target.digest()
        sentence = (
            f"Refitted at {lsn} to {n_rows:,} rows; "
            f"{before.gone:,} were deleted since the last refit."
        )
        if changed_labels is not None:
            sentence += (
                f" It changed {100 * changed_labels:.1f} % of the labels of the last "
                f"{len(self._last):,} new rows."
            )
        facts = {
            "event": "refitted",
            "lsn": lsn,
            "table": name,
            "rows": n_rows,
            "deleted": before.gone,
            "digest": digest,
            "changed_labels": changed_labels,
        }
        self._tell(f"{sentence} Digest {digest[:16]}…", facts)

    @plain_errors()
    def drop(self) -> bool:
        """Drop the slot and the publication that hammemo made; return whether there was a slot."""
        self.source.lock()
        dropped = self.source.drop_slot()
        self.source.drop_publication()
        return dropped

    @plain_errors()
    def status(self) -> dict[str, Any]:
        """Return how far the model is behind the table, and what PostgreSQL keeps for it."""
        slot = self.source.find_slot()
        position = self._position
        lsn = None
        behind_bytes = None
        deleted_since_refit = None
        if position is not None:
            lsn = lsn_text(position.lsn)
            behind_bytes = max(0, self.source.end() - position.lsn)
            deleted_since_refit = position.gone
        return {
            "slot": self.source.slot,
            "slot_state": "none" if slot is None else slot.wal_status,
            "in_use": slot is not None and self.source.is_locked(),
            "lsn": lsn,
            "behind_bytes": behind_bytes,
            "held_bytes": None if slot is None else slot.held_bytes,
            "rows": self._target.n_rows(),
            "deleted_since_refit": deleted_since_refit,
            "keeps_without_limit": self.source.keeps_without_limit(),
        }
