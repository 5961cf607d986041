"""The writer of a model with subjects: it keeps whose each row is, and erases a person.

Beside what :mod:`hammemo_server.models.writer` does, the writer asks the journal whether each
row that is to be forgotten is its subject's, and encrypts the rows that it writes
(:mod:`hammemo_server.erasure.journal`). Erasures make groups of their own, with one refit at
the end. The thread that makes snapshots then finishes them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hammemo.receipts.receipt import hash_digest
from hammemo.receipts.row_hash import RowHash
from hammemo_server.edits import operations as edits
from hammemo_server.erasure.journal import (
    ErasureFacts,
    destroy_keys,
    seal_body,
    seal_facts,
    unseal_facts,
)
from hammemo_server.erasure.receipts import Signing, issue_receipts
from hammemo_server.models.applying import Applier, State
from hammemo_server.models.waiting import Upkeep, Waiting
from hammemo_server.models.writer import WrittenModel, entry_of, refuse_reused
from hammemo_server.store.log import Entry, Erasure, Seen
from hammemo_server.store.vault import KeyGone, Vault

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hammemo.estimators.learners import Learner
    from hammemo.receipts.erasure_records import ErasedSubject
    from hammemo_server.edits.limits import Limits
    from hammemo_server.erasure.journal import Journal
    from hammemo_server.store.base_log import Log


class Removed(NamedTuple):
    """A subject whose rows were removed."""

    waiting: Waiting
    key: int
    rows: int
    labels: int
    """How many labels lost their last row."""


class ErasableModel(WrittenModel):
    """A model with subjects that is edited in this process.

    The parameters are those of `WrittenModel`.
    """

    _journal: Journal
    _signing: Signing

    def __init__(
        self,
        tenant: str,
        name: str,
        log: Log,
        *,
        limits: Limits | None,
        upkeep: Upkeep | None,
        journal: Journal,
    ) -> None:
        self._erased: State | None = None
        """The newest version that an erasure made."""
        self._has_erasures = True
        """Whether an erasure may wait to be finished."""
        self._touched: set[bytes] = set()
        """The subjects of the group that gathers."""
        signing = Signing(log, journal.vault.keys, journal.vault.notes)
        super().__init__(
            tenant,
            name,
            log,
            limits=limits,
            upkeep=upkeep,
            journal=journal,
            signing=signing,
        )

    # Edits

    def _commit(self, group: list[Waiting]) -> None:
        # a key file that is away does not stop subjects with open keys
        with suppress(KeyGone, OSError, ValueError):
            # there are no subjects yet, or another process has dropped all keys
            if self._journal.vault.is_empty:
                self._journal.check_keys(self.name)
        super()._commit(group)

    def _waiting(self, edit: edits.Edit, token: str) -> Waiting:
        content, body = edits.check_edit(edit, self._limits)
        vault = self._journal.vault
        key = self._log.key
        op = vault.hash_op(edit.op)
        named, owners = edits.split_by_subject(edit, content, body)
        parts = {vault.hash_subject(subject): part for subject, part in named.items()}
        waiting = Waiting(
            op, body, content, b"", token=token, request=edit.op, parts=parts, owners=owners
        )
        if edit.kind == "forget_subject":
            self._make_erasure(waiting, refit=edit.refit)
        elif not parts:
            waiting.digest = edits.digest_body(body, key)
        return waiting

    def _make_erasure(self, waiting: Waiting, *, refit: bool) -> None:
        waiting.refit = refit
        waiting.digest = edits.digest_body(
            b"forget_subject %d " % refit + next(iter(waiting.parts)), self._log.key
        )

    def erase_again(self, erased: Sequence[ErasedSubject]) -> int:
        """Erase subjects that were erased after the restored backup was made; return how many."""
        content = edits.LoggedRefit()
        body = content.body()
        futures = []
        for record in erased:
            parts = {bytes.fromhex(record.subject): body}
            request = self._journal.vault.request_of(record)
            waiting = Waiting(record.op, body, content, b"", request=request, parts=parts)
            self._make_erasure(waiting, refit=record.refit)
            futures.append(self._enqueue(waiting))
        refused = [future.exception() for future in futures]
        for error in refused:
            # the backup need not hold all of them
            if error is not None and not isinstance(error, edits.NoSuchSubject):
                raise error
        self.finish_erasures()
        return refused.count(None)

    def _may_join(self, waiting: Waiting, group: list[Waiting]) -> bool:
        """Return whether an edit can be in a group, before which its subjects did nothing in it."""
        if not group:
            self._touched.clear()
        elif waiting.erases != group[0].erases or waiting.empties or group[-1].empties:
            return False
        if not super()._may_join(waiting, group):
            return False
        if waiting.forgets and not self._touched.isdisjoint(waiting.parts):
            return False
        self._touched.update(waiting.parts)
        return True

    def _apply(self, fresh: list[Waiting]) -> None:
        erasures = [waiting for waiting in fresh if waiting.erases]
        if erasures:
            self._erase(erasures)
        else:
            for waiting in fresh:
                if waiting.empties:
                    self._name_everything(waiting)
            super()._apply(self._without_strangers(fresh))

    def _name_everything(self, waiting: Waiting) -> None:
        """Let an edit that forgets everything name all rows of all subjects.

        Their journals need it: each says which rows of its subject are forgotten.
        """
        content = waiting.content
        sent = waiting.parts
        assert isinstance(content, edits.LoggedChange)
        with self._lease_kept():
            stored = self._journal.rows_of_all(self._state.version + 1)
        gone: list[list[edits.Token]] = []
        gone_labels: list[edits.Label] = []
        owners: list[bytes] = []
        for subject, rows in stored.items():
            gone += rows.rows
            gone_labels += rows.labels
            owners += [subject] * len(rows.rows)
        # then the rows to learn, whose owners are not listed where all have one
        senders = list(sent)
        owners += [senders[owner] for owner in waiting.owners] or senders * len(content.rows)
        waiting.content = edits.LoggedChange(
            "apply",
            gone=gone,
            gone_labels=gone_labels,
            rows=content.rows,
            labels=content.labels,
            position=content.position,
        )
        waiting.body = waiting.content.body()
        waiting.sent = sent
        waiting.parts, waiting.owners = edits.split_by_owner(owners, waiting.content, waiting.body)

    def _without_strangers(self, fresh: list[Waiting]) -> list[Waiting]:
        """Refuse edits that forget rows which are not their subject's; return the others."""
        self._journal.load(subject for waiting in fresh for subject in waiting.parts)
        allowed = []
        for waiting in fresh:
            refusal = None
            # what forgets everything names only rows that are stored
            if waiting.forgets and waiting.sent is None:
                refusal = self._journal.refusal(waiting.parts, self._state.version + 1)
            if refusal is None:
                allowed.append(waiting)
            else:
                waiting.refuse(refusal)
        return allowed

    def _append(self, accepted: list[Waiting], bodies: list[bytes]) -> list[Entry]:
        with self._journal.lock:
            self._journal.begin_group()
            positions = range(self._state.version + 1, self._state.version + 1 + len(accepted))
            entries = [
                self._seal(waiting, body, position)
                for waiting, body, position in zip(accepted, bodies, positions, strict=True)
            ]
            self._log.append(self._state.version, entries)
            self._journal.end_group()
        return entries

    def _seal(self, waiting: Waiting, body: bytes, position: int) -> Entry:
        """Return an edit as the log takes it, with a ciphertext for each subject."""
        receipt = self._receipt_for_log(waiting)
        if not waiting.parts:
            return entry_of(waiting, seal_body(self._journal.vault, body, position), receipt)
        sealed = self._journal.seal_edit(waiting.parts, waiting.owners, position, waiting.sent)
        entry = entry_of(waiting, sealed.body, receipt)
        return entry._replace(
            digest=waiting.digest or sealed.digest,
            journal=sealed.journal,
            new_keys=sealed.new_keys,
        )

    def _backups_of(self, waiting: Waiting) -> Iterable[tuple[str, str]]:
        if not waiting.parts:  # a refit removes nothing
            return ()
        return self._journal.vault.backups_with(self._journal.first_position(waiting.parts))

    def _is_same(self, waiting: Waiting, entry: Seen) -> bool:
        if waiting.parts and not waiting.erases:
            return self._journal.is_same(waiting.parts, entry.digest)
        return super()._is_same(waiting, entry)

    def _recover(self) -> None:
        self._journal.forget_keys()  # another process may have destroyed some
        self._erased = None
        super()._recover()
        self._has_erasures = True

    # Erasures

    def _erase(self, fresh: list[Waiting]) -> None:
        """Remove the rows of subjects, refit once if a request says so, write and answer all."""
        before = self._state
        applier = Applier(self._state.model, self.settings, self._limits)
        with self._lease_kept():
            removed = []
            for waiting in fresh:
                subject = self._remove_subject(applier, waiting)
                if subject is not None:
                    removed.append(subject)
            if not removed:
                return
            refit = None
            if any(subject.waiting.refit for subject in removed):
                refit = _refit(applier)
            entries = self._erasure_entries(removed, refit)
        # keys that are being wrapped again would be written as those of known subjects
        with self._journal.lock:
            self._log.append(before.version, entries)
            self._journal.forget_keys(part for subject in removed for part in subject.waiting.parts)
        self._refits += 1  # what is being chosen may depend on rows that are gone
        self._erased = State(applier.model, before.version + len(entries))
        self._publish(self._erased)
        self._count(entries)
        self._has_erasures = True
        with self._due:
            self._due.notify()
        for version, subject in enumerate(removed, before.version + 1):
            subject.waiting.future.set_result(edits.Acknowledgement(version, "applied"))

    def _remove_subject(self, applier: Applier, waiting: Waiting) -> Removed | None:
        """Remove the rows of a subject.

        None where there is nothing to be done, which is answered.
        """
        erasure = self._log.erasure(waiting.op)
        if erasure is not None:  # receipts are kept for longer than ids
            if unseal_facts(self._journal, erasure).rows_hash == self._hash_of(waiting):
                waiting.future.set_result(edits.Acknowledgement(erasure.position, "repeated"))
            else:
                waiting.refuse(refuse_reused(waiting.request))
            return None
        stored = self._journal.rows_of(next(iter(waiting.parts)), self._state.version + 1)
        if stored is None:
            self._log.renew_lease()  # only the writer may refuse, too
            waiting.refuse(edits.NoSuchSubject("There is no such subject in this model."))
            return None
        key, content = stored
        rows_before, labels_before = _count_rows_and_labels(applier.model)
        applier.apply([content])
        refusal = applier.refused.pop(0, None)
        if refusal is not None:
            waiting.refuse(refusal)
            return None
        rows_after, labels_after = _count_rows_and_labels(applier.model)
        return Removed(waiting, key, rows_before - rows_after, labels_before - labels_after)

    def _erasure_entries(self, removed: list[Removed], refit: bytes | None) -> list[Entry]:
        """Return erasures, and the refit after them, as the log takes them.

        What is written from now on is under a new contents key: that of the snapshot which
        holds the erasures. Before it, records of them are added beside the key file, for
        backups that are restored later.
        """
        journal = self._journal
        vault = journal.vault
        state = self._state
        model = self.with_names(state)
        assert model is not None  # a subject has learned
        first = state.version + 1
        records = [
            _record(vault, subject.waiting, position)
            for position, subject in enumerate(removed, first)
        ]
        contents = vault.new_contents(records)
        digest_before = hash_digest(vault.keys(), model.digest())
        is_choice = refit is not None and isinstance(edits.decode_body(refit), edits.LoggedChoice)
        entries = []
        for position, subject in enumerate(removed, first):
            waiting = subject.waiting
            facts = ErasureFacts(
                request=waiting.request,
                version_before=state.version,
                digest_before=digest_before,
                rows=subject.rows,
                labels=subject.labels,
                layout_refitted=is_choice,
                weights_refitted=refit is not None,
                rows_hash=self._hash_of(waiting),
                contents=contents,
            )
            sealed_facts = seal_facts(journal, waiting.op, facts)
            entries.append(
                Entry(
                    waiting.op,
                    waiting.digest,
                    body=journal.erasure_body(subject.key),
                    kind="forget_subject",
                    rows=subject.rows,
                    token=waiting.token,
                    erasure=Erasure(waiting.op, subject.key, position, sealed_facts),
                )
            )
        if refit is not None:
            position = first + len(entries)
            entries.append(
                Entry(
                    op=f"refit {position}",  # no id of a client has a space
                    digest=edits.digest_body(refit, self._log.key),
                    body=seal_body(vault, refit, position),
                    kind="refit",
                )
            )
        return entries

    def _hash_of(self, waiting: Waiting) -> str:
        """Return the keyed hash of the subject that a request erases."""
        rows_hash = RowHash(self._journal.vault.keys()).plus(waiting.list_hashed_rows())
        return rows_hash.of_request(waiting.request)

    def finish_erasures(self) -> None:
        """Write a snapshot with the erasures, destroy the subjects' keys, and issue receipts."""
        with self._snapshots:
            self._has_erasures = False
            state = self._erased or self._state
            waiting = self._log.erasures()
            erasures = [erasure for erasure in waiting if erasure.position <= state.version]
            model = self.with_names(state)
            try:
                if erasures and model is not None:
                    if state.version > self._snapshot_version:
                        self._keep(state)
                    destroy_keys(self._log, self._journal, erasures)
                    with self._signing.lock:
                        issue_receipts(
                            self._log,
                            self._journal,
                            erasures,
                            model=model,
                            version=state.version,
                        )
                    if self._erased is state:
                        # a version that is kept may hold what is forgotten later
                        self._erased = None
            except BaseException:
                self._has_erasures = True
                raise
            self._has_erasures |= len(erasures) < len(waiting)

    def _keep(self, state: State) -> None:
        super()._keep(state)
        self._journal.compact()
        self._journal.vault.drop_expired()

    def _is_due(self) -> bool:
        return self._has_erasures or super()._is_due()

    def _do_due(self) -> None:
        if self._has_erasures:
            self.finish_erasures()
        else:
            super()._do_due()

    def _do_last(self) -> None:
        if self._has_erasures:
            self.finish_erasures()
        super()._do_last()


def _record(vault: Vault, waiting: Waiting, position: int) -> ErasedSubject:
    """Return the record of an erasure, which outlives the database."""
    (subject,) = waiting.parts
    return vault.record(
        waiting.op, subject, waiting.request, refit=bool(waiting.refit), position=position
    )


def _refit(applier: Applier) -> bytes | None:
    """Refit the model; return the body for the log, None where there is nothing to be fitted to."""
    applier.logged.clear()
    applier.apply([edits.LoggedRefit()])
    return None if applier.refused.pop(0, None) is not None else applier.logged[0]


def _count_rows_and_labels(model: Learner | None) -> tuple[int, int]:
    """Return how many rows a model has, windows of documents among them, and labels with rows."""
    if model is None:
        return 0, 0
    return model.state.n_examples, int(np.count_nonzero(model.state.label_counts))
