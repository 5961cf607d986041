"""The writer of a model: edits from any number of threads become durable in groups.

One thread does, in this order:

1. take what waits, at most 500 edits: while one group is written the next one gathers, so that a hundred clients cost
   little more flushes of the disk than one;
2. look up their ids: an edit that was applied before gets the receipt it had, an id with another body is refused;
3. apply the others to a private version of the model, which refuses what cannot be forgotten; a refused edit is not
   remembered, and the others go on;
4. append them to the log, in one transaction that is flushed to the disk;
5. publish the private version, and hand out the receipts.

If 4 fails, the private version is dropped, and the whole group is told that the service is unavailable. Whether
the group was written is then read from the log: a client that sends its edit again learns it.

A second thread makes snapshots, of a published version and so beside edits.

A refit takes seconds, and so may many examples. The edits after it wait for it; questions are answered from the version
before.

A model with an automatic kernel that keeps all its rows chooses sites and vote again whenever it holds twice as many
examples as at the last choice. A thread of its own does that, beside edits, and hands over what was chosen as one more
edit. If the model was refitted meanwhile, the choice is dropped: it may depend on rows that were forgotten. A model
that closes does not wait for it: the first edit after a restart begins it again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hammemo.service.applying import Applier, State, caught_up
from hammemo.service.choices import chooses, chosen_quickly
from hammemo.service.hosted import HostedModel
from hammemo.service.limits import Limits
from hammemo.service.log import Entry, LogError
from hammemo.service.operations import (
    InUse,
    LoggedChoice,
    LoggedRefit,
    OpReused,
    Receipt,
    ServiceError,
    TooMany,
    Unavailable,
    checked,
    digest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo.models.classifiers import MemoryClassifier
    from hammemo.service.log import Log, Seen
    from hammemo.service.operations import Content, Edit

_logger = logging.getLogger("hammemo.service")

_IDLE_SECONDS: Final = 1.0
"""Seconds after which a writer without work renews the lease of its log."""

_LONG_EDIT_ROWS: Final = 1_000
"""Examples from which on an edit may take longer than a lease lasts."""

_RETRY_SECONDS: Final = 30.0
"""Seconds before a snapshot that failed is tried again."""


@dataclass(frozen=True)
class Upkeep:
    """When things are done that no request asks for."""

    group: int = 500
    """The most edits of one transaction."""
    group_bytes: int = 16 * 2**20
    """The bytes of bodies after which no more are taken into it."""
    snapshot_edits: int = 20_000
    """Edits without a snapshot after which one is made."""
    snapshot_bytes: int = 64 * 2**20
    """Bytes of their bodies after which one is made."""
    snapshot_seconds: float = 300.0
    """Age of the oldest of them at which one is made: about how long a forgotten example stays in the log."""
    retention: float = 7 * 86_400.0
    """Seconds for which ids are kept: how long a client may send an edit again."""
    at_close: bool = True
    """Whether to make a last snapshot."""
    choose: bool = True
    """Whether models choose again when their examples have doubled."""


@dataclass(eq=False)
class _Waiting:
    """An edit on its way."""

    op: str
    body: bytes
    content: Content
    digest: bytes
    refits: int | None = None
    """Of a choice: how many refits had been made when it began."""
    future: Future[Receipt] = field(default_factory=Future)

    def refuse(self, error: BaseException) -> None:
        self.future.set_exception(error)


class _Stale(Exception):  # noqa: N818
    """Sites were chosen by a version of the model that was refitted since."""


class WrittenModel(HostedModel):
    """A model that is edited in this process.

    Parameters
    ----------
    tenant, name, log
        As in `HostedModel`; the log is open for writing.
    limits : Limits
    upkeep : Upkeep
    """

    def __init__(
        self, tenant: str, name: str, log: Log, limits: Limits | None = None, upkeep: Upkeep | None = None
    ) -> None:
        super().__init__(tenant, name, log)
        self._limits, self._upkeep = limits or Limits(), upkeep or Upkeep()
        self._queue: deque[_Waiting] = deque()
        self._queued_bytes = 0
        self._arrived = threading.Condition()
        self._closing = False
        self._must_recover = False
        self._refits = 0
        self._chooser: threading.Thread | None = None
        self._tried_at = 0
        """At how many examples the last choice was begun that came to nothing."""
        self._snapshots = threading.Lock()
        self._due = threading.Condition()
        self._unsaved_bytes, self._unsaved_since = 0, time.monotonic()
        self._threads = [
            threading.Thread(target=target, name=f"hammemo {what} {tenant}/{name}", daemon=True)
            for what, target in (("writer", self._write), ("snapshots", self._make_snapshots))
        ]
        for thread in self._threads:
            thread.start()

    # Edits, handed over by any thread

    def edit(self, edit: Edit) -> Future[Receipt]:
        """Hand over an edit; the future has its receipt when it is durable and applied, or a `ServiceError`."""
        content, body = checked(edit, self._limits)
        waiting = _Waiting(edit.op, body, content, digest(body, self._log.key))
        with self._arrived:
            if self._closing:
                raise Unavailable("The service stops: send the edit again later.")
            if len(self._queue) >= self._limits.queued or self._queued_bytes >= self._limits.queued_bytes:
                raise TooMany(f"{len(self._queue):,} edits of this model wait already: send this one again later.")
            self._queue.append(waiting)
            self._queued_bytes += len(body)
            self._arrived.notify()
        return waiting.future

    @property
    def waiting(self) -> int:
        """How many edits wait."""
        return len(self._queue)

    def close(self, *, last_snapshot: bool = True) -> None:
        """Finish the edits that wait, refuse later ones, make a last snapshot, and let the log go."""
        with self._arrived:
            if self._closing:
                return
            self._closing = True
            self._arrived.notify_all()
        with self._due:
            self._due.notify_all()
        for thread in self._threads:
            thread.join()
        try:
            if last_snapshot and self._upkeep.at_close and not self._must_recover:
                self.snapshot()
        except (Unavailable, LogError) as error:
            self._report("no last snapshot", error)
        finally:
            self._log.close()

    # The writer

    def _write(self) -> None:
        while True:
            group = self._next_group()
            if group is None:
                return
            try:
                self._commit(group) if group else self._keep_log()
            except BaseException as error:  # no caller may wait for ever, and the next group may succeed
                if not self._must_recover:  # else it was reported already
                    self._report("a group failed", error)
                self._must_recover = True
                unavailable = Unavailable("The edit could not be written now: send it again later, with the same id.")
                for waiting in group:
                    if not waiting.future.done():
                        waiting.refuse(error if isinstance(error, ServiceError) else unavailable)

    def _next_group(self) -> list[_Waiting] | None:
        """Return what waits; nothing after a second without work; None when all is done and the model closes.

        Two edits with one id are never in one group: the second one is to find the first in the log.
        """
        group: list[_Waiting] = []
        ops: set[str] = set()
        size = 0
        with self._arrived:
            if not self._queue and not self._closing:
                self._arrived.wait(_IDLE_SECONDS)
            while self._queue and len(group) < self._upkeep.group and size < self._upkeep.group_bytes:
                if self._queue[0].op in ops:
                    break
                waiting = self._queue.popleft()
                self._queued_bytes -= len(waiting.body)
                if waiting.future.set_running_or_notify_cancel():
                    group.append(waiting)
                    ops.add(waiting.op)
                    size += len(waiting.body)
            return None if self._closing and not group and not self._queue else group

    def _commit(self, group: list[_Waiting]) -> None:
        """Write one group; a `LogError` leaves all of it in doubt."""
        if self._must_recover:
            self._recover()
        seen = self._log.seen([waiting.op for waiting in group])
        fresh = self._without_stale([waiting for waiting in group if waiting.op not in seen])
        applier = Applier(self._state.model, self._settings, self._limits)
        contents = [waiting.content for waiting in fresh]
        with self._lease_kept() if _may_take_long(contents) else nullcontext():
            applier.apply(contents)
        accepted = [waiting for i, waiting in enumerate(fresh) if i not in applier.refused]
        entries = [
            Entry(waiting.op, waiting.digest, applier.logged.get(i, waiting.body))
            for i, waiting in enumerate(fresh)
            if i not in applier.refused
        ]
        before = self._state.version
        if accepted:
            self._log.append(before, entries)
            self._publish(State(applier.model, before + len(accepted)))
            self._refits += sum(isinstance(waiting.content, LoggedRefit) for waiting in accepted)
            self._count(entries)
            self._choose_if_due()
        else:
            self._log.renew_lease()  # only the writer may refuse, too
        for version, waiting in enumerate(accepted, before + 1):
            waiting.future.set_result(Receipt(version, "applied"))
        for i, error in applier.refused.items():
            fresh[i].refuse(error)
        for waiting in group:
            if waiting.op in seen:
                _answer_again(waiting, seen[waiting.op])

    # Choices

    def _choose_if_due(self) -> None:
        """Begin to choose sites and vote, beside edits, where the model holds twice as many examples as last time."""
        model, chooser = self._state.model, self._chooser
        if model is None or not self._upkeep.choose or self._closing or (chooser is not None and chooser.is_alive()):
            return
        if chooses(model) and model._has_doubled(self._tried_at):
            self._tried_at = int(model.memory_.label_counts.sum())
            name = f"hammemo choice {self.tenant}/{self.name}"
            self._chooser = threading.Thread(
                target=self._choose, args=(model, self._state.version, self._refits), name=name, daemon=True
            )
            self._chooser.start()

    def _choose(self, model: MemoryClassifier, version: int, refits: int) -> None:
        """Choose by one version, and hand the choice over as an edit; what fails is tried at twice the examples."""
        try:
            content = LoggedChoice("choice", chosen_quickly(model))
            body = content.body()
            op = f"choice {version}"  # no id of a client has a space
            waiting = _Waiting(op, body, content, digest(body, self._log.key), refits)
            with self._arrived:
                if self._closing:
                    return
                self._queue.append(waiting)
                self._queued_bytes += len(body)
                self._arrived.notify()
            receipt = waiting.future.result()
            self._tried_at = 0
            _logger.info(
                "sites and vote were chosen by version %d", version, extra=self._facts() | {"version": receipt.version}
            )
        except (_Stale, Unavailable):  # the next edit begins another
            self._tried_at = 0
        except Exception as error:
            self._report("no sites were chosen", error)

    def _without_stale(self, group: list[_Waiting]) -> list[_Waiting]:
        """Return the group without choices that a refit has overtaken, which are refused."""
        refits, current = self._refits, []
        for waiting in group:
            if waiting.refits is not None and waiting.refits != refits:
                waiting.refuse(_Stale())
                continue
            refits += isinstance(waiting.content, LoggedRefit)
            current.append(waiting)
        return current

    @contextmanager
    def _lease_kept(self) -> Iterator[None]:
        """Renew the lease during a block that may take long: else it would run out, and another node would write."""
        done = threading.Event()

        def renew() -> None:
            with suppress(LogError):  # to append will tell
                while not done.wait(_IDLE_SECONDS):
                    self._log.renew_lease()

        thread = threading.Thread(target=renew, name=f"hammemo lease {self.tenant}/{self.name}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _recover(self) -> None:
        """Open the log again after a failure, and read from it what was written."""
        try:
            self._log.reopen()
        except InUse:  # another process writes now: this one follows, and tries again
            self._publish(caught_up(self._log, self._state, self._settings))
            raise
        self._publish(caught_up(self._log, self._state, self._settings))
        self._snapshot_version = self._log.base()
        self._refits += 1  # there may have been one
        self._must_recover = False
        _logger.info("the log is open again", extra=self._facts())

    def _keep_log(self) -> None:
        if self._must_recover:
            self._recover()
        self._log.renew_lease()

    # Snapshots

    def snapshot(self) -> int:
        """Write a snapshot of what is published, unless there is one, and return its version."""
        with self._snapshots:
            state = self._state
            if state.model is None or state.version == self._snapshot_version:
                return self._snapshot_version
            self._unsaved_bytes, self._unsaved_since = 0, time.monotonic()
            try:
                self._log.keep_snapshot(state.model, state.version)
                self._log.forget_ids(self._upkeep.retention)
            except LogError as error:
                self._report("a snapshot failed", error)
                raise Unavailable("The snapshot could not be written: try again later.") from error
            self._snapshot_version, self._snapshot_time = state.version, time.time()
            return state.version

    def _make_snapshots(self) -> None:
        while not self._closing:
            with self._due:
                self._due.wait(_IDLE_SECONDS)
            if self._closing or not self._is_due():
                continue
            try:
                self.snapshot()
            except Exception as error:
                self._report("no snapshot", error)
                with self._due:
                    self._due.wait_for(lambda: self._closing, _RETRY_SECONDS)

    def _is_due(self) -> bool:
        pending, upkeep = self._state.version - self._snapshot_version, self._upkeep
        return pending > 0 and (
            pending >= upkeep.snapshot_edits
            or self._unsaved_bytes >= upkeep.snapshot_bytes
            or time.monotonic() - self._unsaved_since >= upkeep.snapshot_seconds
        )

    def _count(self, entries: list[Entry]) -> None:
        """Take note of what is in no snapshot."""
        if self._state.version - len(entries) == self._snapshot_version:
            self._unsaved_since = time.monotonic()
        self._unsaved_bytes += sum(len(entry.body) for entry in entries)
        if self._is_due():
            with self._due:
                self._due.notify()

    def _report(self, what: str, error: BaseException) -> None:
        """Log a failure. Messages of other errors than `LogError` might hold an example: only their type is logged."""
        text: Any = error if isinstance(error, LogError) else ""
        _logger.error(
            "%s: %s %s",
            what,
            type(error).__name__,
            text,
            extra=self._facts(),
        )

    def _facts(self) -> dict[str, object]:
        return {"tenant": self.tenant, "model": self.name, "version": self._state.version}


def _may_take_long(contents: list[Content]) -> bool:
    is_refitted = any(isinstance(content, (LoggedRefit, LoggedChoice)) for content in contents)
    return is_refitted or sum(content.n_rows for content in contents) >= _LONG_EDIT_ROWS


def _answer_again(waiting: _Waiting, seen: Seen) -> None:
    """Answer an edit that is known: with the receipt it had, if it is the same."""
    if seen.digest == waiting.digest:
        waiting.future.set_result(Receipt(seen.position, "repeated"))
    else:
        waiting.refuse(OpReused(f"The id {waiting.op!r} was used for another edit: each edit has an id of its own."))
