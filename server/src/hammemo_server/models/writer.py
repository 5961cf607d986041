"""The writer of a model: edits from any number of threads become durable in groups.

One thread does, in this order:

1. take what waits, at most 500 edits: while one group is written the next one gathers, so that
   a hundred clients cost little more flushes of the disk than one;
2. look up their ids: an edit that was applied before is acknowledged as it was, an id with
   another body is refused;
3. apply the others to a private version of the model, which refuses what cannot be forgotten; a
   refused edit is not remembered, and the others go on;
4. append them to the log, in one transaction that is flushed to the disk;
5. publish the private version, and hand out the acknowledgements.

If 4 fails, the private version is dropped, and the whole group is told that the service is
unavailable. Whether the group was written is then read from the log: a client that sends its
edit again learns it.

A second thread makes snapshots, of a published version and so beside edits.

A refit takes seconds, and so may many examples. The edits after it wait for it; questions are
answered from the version before.

A model with an automatic kernel that keeps all its rows chooses sites and vote again whenever
it holds twice as many examples as at the last choice. A thread of its own does that, beside
edits, and hands over what was chosen as one more edit. If the model was refitted meanwhile, the
choice is dropped: it may depend on rows that were forgotten. A model that closes does not wait
for it: the first edit after a restart begins it again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from hammemo.receipts.receipt import SignedReceipt
from hammemo.receipts.recording import Moment
from hammemo_server.edits import operations as edits
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.quotas import (
    Quota,
    Usage,
    add_usages,
    bound_needed,
    column_bytes,
    count_needed,
    measure_usage,
)
from hammemo_server.edits.refits import choose_beside_edits, is_choice_due
from hammemo_server.edits.settings import Settings, check_parts
from hammemo_server.models.applying import Applier, State
from hammemo_server.models.served import ServedModel, logger
from hammemo_server.models.waiting import Upkeep, Waiting
from hammemo_server.store.log import Entry, IssuedReceipt, LogError, Seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from hammemo.estimators.learners import Learner
    from hammemo_server.erasure.journal import Journal
    from hammemo_server.erasure.receipts import Signing
    from hammemo_server.store.base_log import Log


_IDLE_SECONDS: Final = 1.0
"""Seconds after which a writer without work renews the lease of its log."""

_UPKEEP_SECONDS: Final = 3600.0
"""Seconds after which old ids are removed from a model without edits."""

_LONG_EDIT_ROWS: Final = 1_000
"""Examples from which on an edit may take longer than a lease lasts."""

_RETRY_SECONDS: Final = 30.0
"""Seconds before a snapshot that failed is tried again."""

_NOT_WRITTEN: Final = "The edit could not be written now: send it again later, with the same id."


class _Stale(Exception):  # noqa: N818
    """Sites were chosen by a version of the model that was refitted since."""


class WrittenModel(ServedModel):
    """A model that is edited in this process.

    Parameters
    ----------
    tenant, name, log
        As in `ServedModel`; the log is open for writing.
    limits : Limits
    upkeep : Upkeep
    journal
        As in `ServedModel`; for :class:`hammemo_server.models.erasable.ErasableModel`.
    signing : Signing, optional
        What signs receipts; without it an edit that asks for one is refused.
    """

    def __init__(
        self,
        tenant: str,
        name: str,
        log: Log,
        *,
        limits: Limits | None = None,
        upkeep: Upkeep | None = None,
        journal: Journal | None = None,
        signing: Signing | None = None,
    ) -> None:
        super().__init__(tenant, name, log, journal)
        self._signing = signing
        self._limits = limits or Limits()
        self._upkeep = upkeep or Upkeep()
        self._quota = Quota(Usage())
        """What all models of the tenant may hold together; without bounds until `count_in`
        names it."""
        self._disk = (0, 0)
        """The bytes of the snapshot, and of the log without `_unsaved_bytes`, when they were
        last measured."""
        self._label_bytes: int | None = None
        """The bytes of a label in the sketch of the model; None where there is no model yet."""
        self._taken = Usage()
        """What was learnt at most since the quota was told what the model holds."""
        self._queue: deque[Waiting] = deque()
        self._queued_bytes = 0
        self._arrived = threading.Condition()
        self._closing = False
        self._must_recover = False
        self._looked_after = time.monotonic()
        self._refits = 0
        self._forgets = 0
        """How many accepted edits were refits, and how many forgot something."""
        self._chooser: threading.Thread | None = None
        self._tried_at = 0
        """At how many examples the last choice was begun that came to nothing."""
        self._snapshots = threading.Lock()
        self._due = threading.Condition()
        self._unsaved_bytes = 0
        self._unsaved_since = time.monotonic()
        self._threads = (
            self._thread("writer", self._write),
            self._thread("snapshots", self._make_snapshots),
        )

    # Edits, handed over by any thread

    def edit(self, edit: edits.Edit, token: str = "") -> Future[edits.Acknowledgement]:
        """Hand over an edit.

        The future has its acknowledgement when it is durable and applied, or a `ServiceError`.
        """
        waiting = self._waiting(edit, token)
        if edit.receipt and edit.kind != "forget_subject":
            self._check_signed(edit)
            waiting.receipt = True
        return self._enqueue(waiting, is_bounded=True)

    def _enqueue(
        self, waiting: Waiting, *, is_bounded: bool = False
    ) -> Future[edits.Acknowledgement]:
        """Let an edit wait for the writer; edits of clients are bounded."""
        with self._arrived:
            if self._closing:
                raise edits.Unavailable("The service stops: send the edit again later.")
            n = len(self._queue)
            if is_bounded and (
                n >= self._limits.queued or self._queued_bytes >= self._limits.queued_bytes
            ):
                raise edits.TooMany(
                    f"{n:,} edits of this model wait already: send this one again later."
                )
            self._queue.append(waiting)
            self._queued_bytes += len(waiting.body)
            self._arrived.notify()
        return waiting.future

    def _waiting(self, edit: edits.Edit, token: str) -> Waiting:
        """Return an edit, checked, as the writer takes it."""
        if edit.subjects or edit.kind == "forget_subject" or edit.gone_rows.subjects:
            raise edits.Malformed(
                'This model has no subjects: make one with subjects="required", or leave them out.'
            )
        content, body = edits.check_edit(edit, self._limits)
        return Waiting(
            edit.op,
            body,
            content,
            edits.digest_body(body, self._log.key),
            token=token,
            request=edit.op,
        )

    def _check_signed(self, edit: edits.Edit) -> None:
        """Refuse an edit that asks for a receipt and cannot have one."""
        if edit.kind not in ("forget", "refit"):
            raise edits.Malformed("receipt: only a forget or a refit has a receipt.")
        if self._signing is None:
            raise edits.Malformed(
                "receipt: this service has no key file to sign it with. Start it with one, keys=."
            )

    @property
    def waiting(self) -> int:
        """How many edits wait."""
        return len(self._queue)

    def close(self, *, last_snapshot: bool = True) -> None:
        """Finish the edits that wait, refuse later ones, make a last snapshot, close the log."""
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
            if last_snapshot and not self._must_recover:
                self._do_last()
        except Exception as error:
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
                if group:
                    self._commit(group)
                else:
                    self._keep_log()
            except BaseException as error:
                # no caller may wait forever, and the next group may succeed
                if not self._must_recover:  # else it was reported already
                    self._report("a group failed", error)
                self._must_recover = True
                refusal: edits.ServiceError = edits.Unavailable(_NOT_WRITTEN)
                if isinstance(error, edits.ServiceError):
                    refusal = error
                for waiting in group:
                    if not waiting.future.done():
                        waiting.refuse(refusal)

    def _next_group(self) -> list[Waiting] | None:
        """Return what waits; nothing after a second without work.

        None when all is done and the model closes. Two edits with one id are never in one group:
        the second one is to find the first in the log.
        """
        group: list[Waiting] = []
        ops: set[str] = set()
        size = 0
        with self._arrived:
            if not self._queue and not self._closing:
                self._arrived.wait(_IDLE_SECONDS)
            while (
                self._queue and len(group) < self._upkeep.group and size < self._upkeep.group_bytes
            ):
                waiting = self._queue[0]
                if waiting.op in ops or not self._may_join(waiting, group):
                    break
                self._queue.popleft()
                self._queued_bytes -= len(waiting.body)
                if waiting.future.set_running_or_notify_cancel():
                    group.append(waiting)
                    ops.add(waiting.op)
                    size += len(waiting.body)
            return None if self._closing and not group and not self._queue else group

    def _may_join(self, waiting: Waiting, group: list[Waiting]) -> bool:
        """Return whether an edit can be in one group with others: one with a receipt is alone."""
        return not group or not (waiting.receipt or group[-1].receipt)

    def _commit(self, group: list[Waiting]) -> None:
        """Write one group; a `LogError` leaves all of it in doubt."""
        if self._must_recover:
            self._recover()
        known_ids = self._log.find_ids([waiting.op for waiting in group])
        fresh = self._without_stale([waiting for waiting in group if waiting.op not in known_ids])
        fresh = [waiting for waiting in fresh if not self._has_receipt(waiting)]
        self._apply(self._within_quota(fresh))
        learns_only = all(waiting.content.kind.startswith("learn") for waiting in fresh)
        if self._label_bytes is None or not learns_only or self._quota.is_much(self._taken):
            self._note_usage()
        for waiting in group:
            if waiting.op in known_ids:
                self._answer_again(waiting, known_ids[waiting.op])

    def count_in(self, quota: Quota) -> None:
        """Count what the model holds and will learn in the quota of its tenant."""
        self._quota = quota
        self._measure()

    def _measure(self) -> None:
        """Look how large the snapshot and the log are; between two looks edits are added up."""
        snapshot, log = self._disk_bytes()
        self._disk = (snapshot, max(0, log - self._unsaved_bytes))
        self._note_usage()

    def _note_usage(self) -> None:
        self._taken = Usage()
        snapshot, log = self._disk
        model = self._state.model
        usage, label_bytes = measure_usage(model, snapshot, log + self._unsaved_bytes)
        self._label_bytes = None if model is None else label_bytes
        self._quota.note(self.name, usage)

    def _within_quota(self, fresh: list[Waiting]) -> list[Waiting]:
        """Return the edits that the quota of the tenant allows; the others are refused."""
        if not fresh:
            return fresh
        quota = self._quota
        label_bytes = self._label_bytes
        if label_bytes is None:
            label_bytes = _first_label_bytes(self.settings, self._limits, fresh[0].content)
        bound = bound_needed(
            [(waiting.content, len(waiting.body)) for waiting in fresh], label_bytes
        )
        # mostly there is room for much more, so labels need not be looked up
        with suppress(edits.QuotaReached):
            quota.take(self.name, bound)
            self._taken = add_usages((self._taken, bound))
            return fresh
        self._note_usage()
        allowed = []
        for waiting in fresh:
            try:
                quota.take(
                    self.name,
                    count_needed(
                        waiting.content, len(waiting.body), self._state.model, label_bytes
                    ),
                )
                allowed.append(waiting)
            except edits.QuotaReached as error:
                waiting.refuse(error)
        return allowed

    def _apply(self, fresh: list[Waiting]) -> None:
        """Apply edits, write those that were not refused, and answer all."""
        applier = Applier(self._state.model, self.settings, self._limits)
        contents = [waiting.content for waiting in fresh]
        with self._lease_kept() if _may_take_long(contents) else nullcontext():
            applier.apply(contents)
        accepted = [waiting for i, waiting in enumerate(fresh) if i not in applier.refused]
        bodies = [
            applier.logged.get(i, waiting.body)
            for i, waiting in enumerate(fresh)
            if i not in applier.refused
        ]
        before = self._state.version
        if accepted:
            assert applier.model is not None
            entries = self._append_signed(accepted, bodies, applier.model)
            self._publish(State(applier.model, before + len(entries)))
            self._count(entries)
            self._refits += sum(
                isinstance(waiting.content, edits.LoggedRefit) for waiting in accepted
            )
            self._forgets += sum(waiting.forgets for waiting in accepted)
            self._choose_if_due()
        else:
            self._log.renew_lease()  # only the writer may refuse, too
        for version, waiting in enumerate(accepted, before + 1):
            waiting.acknowledge(version)
        for i, error in applier.refused.items():
            fresh[i].refuse(error)

    def _append_signed(
        self, accepted: list[Waiting], bodies: list[bytes], model: Learner
    ) -> list[Entry]:
        """Write edits that were applied, with a receipt if the only one of them asked for it."""
        if not accepted[0].receipt:
            return self._append(accepted, bodies)
        assert self._signing is not None
        (waiting,) = accepted
        (body,) = bodies
        state = self._state
        with self._lease_kept(), self._signing.lock:
            before = self.with_names(state)
            after = self.with_names(State(model, state.version + 1))
            assert before is not None
            assert after is not None
            waiting.issued = self._signing.sign(
                waiting.request,
                before=Moment.of(before, state.version),
                after=Moment.of(after, state.version + 1),
                body=body,
                forgotten_rows=waiting.list_hashed_rows(),
                backups=self._backups_of(waiting),
            )
            return self._append(accepted, bodies)

    def _backups_of(self, waiting: Waiting) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """Return the known backups that may hold what an edit forgets, and when each expires."""
        return ()

    def _receipt_for_log(self, waiting: Waiting) -> IssuedReceipt | None:
        """Return the receipt of an edit as the log keeps it."""
        if waiting.issued is None or self._signing is None:
            return None
        return self._signing.store_form(waiting.op, waiting.issued)

    def _append(self, accepted: list[Waiting], bodies: list[bytes]) -> list[Entry]:
        """Write edits that were applied, and return what was written."""
        entries = [
            entry_of(waiting, body, self._receipt_for_log(waiting))
            for waiting, body in zip(accepted, bodies, strict=True)
        ]
        self._log.append(self._state.version, entries)
        return entries

    def _answer_again(self, waiting: Waiting, entry: Seen) -> None:
        """Answer an edit that is known: with the acknowledgement it had, if it is the same."""
        op = waiting.request
        if not self._is_same(waiting, entry):
            waiting.refuse(refuse_reused(op))
        elif not waiting.receipt:
            waiting.future.set_result(edits.Acknowledgement(entry.position, "repeated"))
        elif not self._has_receipt(waiting):
            waiting.refuse(
                edits.OpReused(
                    f"The edit {op!r} was applied without a receipt, and none can be issued later."
                )
            )

    def _has_receipt(self, waiting: Waiting) -> bool:
        """Return whether an edit has its receipt already, and answer it.

        Receipts are kept for longer than ids.
        """
        signing = self._signing
        if not waiting.receipt or signing is None:
            return False
        entry = signing.find(waiting.op)
        if entry is None:
            return False
        version, receipt = entry
        if signing.is_of(SignedReceipt.decode(receipt.encode()), waiting.list_hashed_rows()):
            waiting.future.set_result(edits.Acknowledgement(version, "repeated", receipt))
        else:
            waiting.refuse(refuse_reused(waiting.request))
        return True

    def _is_same(self, waiting: Waiting, entry: Seen) -> bool:
        return entry.digest == waiting.digest

    # Choices

    def _choose_if_due(self) -> None:
        """Begin to choose sites and vote beside edits where the examples have doubled."""
        model = self._state.model
        chooser = self._chooser
        if (
            model is None
            or not self._upkeep.choose
            or self._closing
            or (chooser is not None and chooser.is_alive())
        ):
            return
        if is_choice_due(model, self._tried_at):
            self._tried_at = model.state.n_examples
            began = (self._refits, self._forgets)
            self._chooser = self._thread("choice", self._choose, model, self._state.version, began)

    def _choose(self, model: Learner, version: int, began: tuple[int, int]) -> None:
        """Choose by one version, and hand the choice over as an edit.

        What fails is tried at twice the examples.
        """
        try:
            with self._quota.long_edits:
                content = edits.LoggedChoice("choice", choose_beside_edits(model))
            body = content.body()
            op = f"choice {version}"  # no id of a client has a space
            done = self._enqueue(
                Waiting(op, body, content, edits.digest_body(body, self._log.key), began=began)
            ).result()
            self._tried_at = 0
            facts = {**self._facts(), "version": done.version}
            logger.info("sites and vote were chosen by version %d", version, extra=facts)
        except (_Stale, edits.Unavailable):  # the next edit begins another
            self._tried_at = 0
        except Exception as error:
            self._report("no sites were chosen", error)

    def _without_stale(self, group: list[Waiting]) -> list[Waiting]:
        """Return the group without choices that a refit has overtaken, which are refused.

        A choice that is older than an edit which forgets is marked: it may depend on what was
        forgotten.
        """
        refits = self._refits
        n_forgets = self._forgets
        current = []
        for waiting in group:
            if waiting.began is not None and waiting.began[0] != refits:
                waiting.refuse(_Stale())
                continue
            if waiting.began is not None and waiting.began[1] != n_forgets:
                assert isinstance(waiting.content, edits.LoggedChoice)
                waiting.content = msgspec.structs.replace(waiting.content, late=True)
                waiting.body = waiting.content.body()
            refits += isinstance(waiting.content, edits.LoggedRefit)
            n_forgets += waiting.forgets
            current.append(waiting)
        return current

    @contextmanager
    def _lease_kept(self) -> Iterator[None]:
        """Renew the lease during a block that may take long, or another node would write.

        Few such blocks of a tenant run at once: threads take turns at Python code, and the event
        loop, too, would wait for each of them. So blocks are never nested.
        """
        done = threading.Event()

        def renew() -> None:
            with suppress(LogError):  # to append will tell
                while not done.wait(_IDLE_SECONDS):
                    self._log.renew_lease()

        thread = self._thread("lease", renew)
        try:
            with self._quota.long_edits:
                yield
        finally:
            done.set()
            thread.join()

    def _recover(self) -> None:
        """Open the log again after a failure, and read from it what was written."""
        try:
            self._log.reopen()
        except edits.InUse:  # another process writes now: this one follows, and tries again
            self._catch_up()
            raise
        self._catch_up()
        self._refits += 1  # there may have been one
        self._must_recover = False
        logger.info("the log is open again", extra=self._facts())

    def _keep_log(self) -> None:
        if self._must_recover:
            self._recover()
        self._log.renew_lease()
        # ids of a model without edits go, too
        if time.monotonic() - self._looked_after >= _UPKEEP_SECONDS:
            self._looked_after = time.monotonic()
            self._log.forget_ids(self._upkeep.retention)

    @property
    def can_edit(self) -> bool:
        """Whether the last attempt to write did not fail."""
        return not self._must_recover

    # Snapshots

    def snapshot(self) -> int:
        """Write a snapshot of what is published, unless there is one, and return its version."""
        with self._snapshots:
            state = self._state
            if state.model is None or state.version == self._snapshot_version:
                return self._snapshot_version
            try:
                self._keep(state)
            except LogError as error:
                self._report("a snapshot failed", error)
                raise edits.Unavailable(
                    "The snapshot could not be written: try again later."
                ) from error
            return state.version

    def _keep(self, state: State) -> None:
        """Make a version the newest snapshot, and drop what is too old."""
        assert state.model is not None
        self._unsaved_bytes = 0
        self._unsaved_since = time.monotonic()
        self._log.keep_snapshot(state.model, state.version)
        self._snapshot_version = state.version
        self._snapshot_time = time.time()
        self._log.forget_ids(self._upkeep.retention)
        self._log.forget_audit(self._upkeep.audit)
        self._measure()

    def _make_snapshots(self) -> None:
        while not self._closing:
            with self._due:
                self._due.wait(_IDLE_SECONDS)
            if self._closing or not self._is_due():
                continue
            try:
                self._do_due()
            except Exception as error:
                self._report("no snapshot", error)
                with self._due:
                    self._due.wait_for(lambda: self._closing, _RETRY_SECONDS)

    def _do_due(self) -> None:
        """Do what is due."""
        self.snapshot()

    def _do_last(self) -> None:
        """Do what is left to be done when the model closes."""
        if self._upkeep.at_close:
            self.snapshot()

    def _is_due(self) -> bool:
        pending = self._state.version - self._snapshot_version
        upkeep = self._upkeep
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


def entry_of(waiting: Waiting, body: bytes, receipt: IssuedReceipt | None = None) -> Entry:
    """Return an edit as the log takes it."""
    content = waiting.content
    return Entry(
        waiting.op,
        waiting.digest,
        body,
        kind=content.kind,
        rows=content.n_rows,
        token=waiting.token,
        receipt=receipt,
    )


def refuse_reused(op: str) -> edits.OpReused:
    """Return the refusal of an id that was used for another edit."""
    return edits.OpReused(
        f"The id {op!r} was used for another edit: give each edit a new id. Nothing was changed."
    )


def _first_label_bytes(settings: Settings, limits: Limits, first: edits.Content) -> int:
    """Return the bytes of a label in the sketch of a model that is made for its first edit."""
    h = settings.width or 1
    if settings.width is None and isinstance(first, edits.LoggedRows):
        h = len(first.rows[0])
    with suppress(edits.ServiceError):  # then the edit is refused
        return column_bytes(check_parts(settings.model(), h, limits))
    return 0


def _may_take_long(contents: list[edits.Content]) -> bool:
    is_refitted = any(
        isinstance(content, (edits.LoggedRefit, edits.LoggedChoice)) for content in contents
    )
    return is_refitted or sum(content.n_rows for content in contents) >= _LONG_EDIT_ROWS
