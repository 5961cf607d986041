"""What the logs of all engines share; an engine adds how it stores them.

:mod:`hammemo_server.store.log` says what a log promises, and
:mod:`hammemo_server.store.shared_tables` what its tables hold. Statements are written as psycopg
takes them, with ``%s``; the number of the model always comes first.
"""

from __future__ import annotations

import secrets
import time
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from itertools import takewhile
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from hammemo import __version__
from hammemo.estimators.learners import Learner
from hammemo.files.archive import Archive, refusing
from hammemo.files.contents import restore_model
from hammemo.files.descriptions import Restorer
from hammemo.files.registry import Registry
from hammemo_server.edits.operations import KEY_BYTES
from hammemo_server.store.audit import Line, Linked, Start, advance_start, chain_lines
from hammemo_server.store.log import (
    NEWEST_RECEIPT,
    Copied,
    Erasure,
    ListFacts,
    LogDamaged,
    Overtaken,
    Seen,
    StoredKey,
)
from hammemo_server.store.shared_tables import EDITS, IDS, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hammemo_server.store.log import Entry
    from hammemo_server.store.vault import Vault

FORMAT: Final = "4"
"""The form of a log; one of another form is refused."""
HIDDEN: Final = ".restoring-"
"""What the tenant of a model is called that is being restored: no client can name it."""

_AUDIT_START: Final = "audit start"
_MOST_AUDITED: Final = 10_000
"""Lines that are removed from the front at a time."""


class Ends(NamedTuple):
    """Where a log ends, and for how long its model was written."""

    head: int
    """The position of the last edit, 0 if there was none."""
    base: int
    """The position of the newest snapshot: bodies up to it are deleted."""
    ran: float
    """Seconds for which the model was open for writing, as of the last commit."""


class LogEngine(Protocol):
    """What an engine does for the log of one model; :class:`Log` is the whole log."""

    settings: str
    """The settings that the model was made with, as `Settings.text` writes them."""
    key: bytes
    """The secret of the digests of ids."""

    def body_bytes(self) -> int:
        """Return about how many bytes of bodies there are."""

    def snapshot_bytes(self) -> int:
        """Return how many bytes the newest snapshot has."""

    def keep_snapshot(self, model: Learner, position: int) -> None:
        """Make this the newest snapshot, then delete all bodies up to it."""

    def snapshot_parts(self) -> tuple[int, Iterator[bytes]] | None:
        """Return the position of the newest snapshot and its file, in parts, opened.

        None if there is none.
        """

    def reading(self) -> AbstractContextManager[None]:
        """Read one state of the log for the time of a block, whatever is written meanwhile."""

    def is_current(self) -> bool:
        """Return whether this is still the log of that name: the model was not deleted."""

    def renew_lease(self) -> None:
        """Renew the lease of the writer, where the engine has one.

        Called now and then while nothing is written.
        """

    def reopen(self) -> None:
        """Open the log again after `LogError`, as a writer if it was one."""

    def close(self) -> None:
        """Let the log go."""

    def _newest(self) -> tuple[bytes | Archive, int] | None:
        """Return the newest snapshot, decrypted, and its position."""

    def _ends(self) -> Ends:
        """Return where the log ends now."""

    # Statements, as psycopg takes them; `%s` for `model` comes first

    def _execute(self, statement: str, *values: Any) -> Any:
        """Run a statement, and return a cursor of its rows."""

    def _insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows into a table, within a transaction."""

    def _writing(self, after: int | None = None, by: int = 0) -> AbstractContextManager[None]:
        """Run a block as one durable transaction; refuse if another process has become the writer.

        It takes `by` positions after the one given, which must be the head, and stores how long
        the model was written.
        """


class Log(LogEngine):
    """The log of one model.

    Parameters
    ----------
    called : str
        How messages call it.
    failures : function that returns a context
        In which what the engine raises becomes a `LogError`.
    replica : bool
        Whether only to read, beside another process that writes.
    """

    vault: Vault | None = None
    """The secrets of a model with subjects: it encrypts snapshots, where they are kept in a
    database."""
    received: tuple[bytes, int] | None = None
    """Of a model that is being restored: the snapshot of the backup and its position, until
    there is a newer one."""
    _began: float
    """When the model would have been opened for writing, had it been written without a pause,
    by a monotonic clock."""

    def __init__(
        self, called: str, failures: Callable[[], AbstractContextManager[None]], *, replica: bool
    ) -> None:
        self._called = called
        self._failures = failures
        self._replica = replica
        self._lock = RLock()
        self._met: tuple[int, int] | None = None

    def head(self) -> int:
        """Return the position of the last edit, 0 if there was none."""
        return self._ends().head

    def base(self) -> int:
        """Return the position up to which bodies are deleted: that of the newest snapshot."""
        return self._ends().base

    def has_changed(self) -> bool:
        """Return whether there are new edits or a new snapshot since the last call; it is cheap."""
        ends = self._ends()
        positions = (ends.head, ends.base)
        has_changed = positions != self._met
        self._met = positions
        return has_changed

    def snapshot(self) -> tuple[Learner, int] | None:
        """Return the newest snapshot and its position, or None if there is none yet."""
        newest = self._newest() or self.received
        if newest is None:
            return None
        snapshot, position = newest
        return learner_of(snapshot), position

    def find_ids(self, ops: Sequence[str]) -> dict[str, Seen]:
        """Return those of these ids that are known."""
        places = ", ".join(["%s"] * len(ops))
        rows = self._rows(
            f"select op, position, digest from {IDS} where model = %s and op in ({places})", *ops
        )
        return {op: Seen(position, digest) for op, position, digest in rows}

    def append(self, after: int, entries: Sequence[Entry]) -> None:
        """Append entries durably, all or none, after the position `after`: it must be the head."""
        with self._writing(after, len(entries)):
            ran = self._running()
            numbered = list(enumerate(entries, after + 1))
            self._insert(EDITS, [(position, entry.body) for position, entry in numbered])
            self._insert(
                IDS, [(entry.op, position, entry.digest, ran) for position, entry in numbered]
            )
            self._append_audit(after, entries)
            self._append_receipts(after, entries)
            self._append_journal(after, entries)

    def read(self, after: int, limit: int) -> list[bytes]:
        """Return at most `limit` bodies after a position; raise `Overtaken` if they are deleted."""
        statement = (
            f"select position, body from {EDITS} where model = %s and position > %s "
            "order by position limit %s"
        )
        with self.reading():
            base = self.base()
            rows = self._rows(statement, after, limit)
        if after < base:
            raise Overtaken
        if [position for position, _ in rows] != list(range(after + 1, after + 1 + len(rows))):
            raise LogDamaged(f"{self._called} has a gap after position {after}.")
        return [body for _, body in rows]

    def forget_ids(self, older_than: float) -> None:
        """Forget ids that are older than `older_than` seconds of running, with deleted bodies."""
        statement = f"delete from {IDS} where model = %s and position <= %s and ran < %s"
        with self._writing():
            self._execute(statement, self.base(), self._running() - older_than)

    def keep_received(self) -> None:
        """Write the snapshot of a backup to a file of the closed log, if there is no newer one.

        Here nothing is to be done: it is in the database.
        """

    def dump(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one of the `TABLES` for a backup.

        Of edits, those after the base; of ids, minus their age in place of when they came.
        """
        columns = ", ".join(TABLES[table])
        where = ""
        if table == IDS:
            columns = columns.replace("ran", f"ran - {self._ends().ran!r}")
        if table == EDITS:
            where = f" and position > {self.base()} order by position"
        with self._failing():
            yield from self._each(f"select {columns} from {table} where model = %s{where}")

    # Statements

    def _running(self) -> float:
        """Return for how many seconds the model was open for writing, in all processes.

        It is by a monotonic clock, so setting the clock of the machine changes nothing.
        """
        return time.monotonic() - self._began

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn what the engine raises into `LogError`; one thread at a time."""
        with self._lock, self._failures():
            yield

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows that a statement gives."""
        with self._failing():
            rows: list[Any] = self._execute(statement, *values).fetchall()
            return rows

    def _each(self, statement: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that a statement gives, not all at once."""
        yield from self._execute(statement, *values)

    def _select(self, table: str, where: str, *values: Any) -> list[Any]:
        """Return rows of a table, with all its columns."""
        return self._rows(
            f"select {', '.join(TABLES[table])} from {table} where model = %s and {where}", *values
        )

    # The audit record

    def audit(self, after: int, limit: int) -> tuple[Start, list[Linked]]:
        """Return what the first line is chained to, and at most `limit` lines after a number."""
        with self._failing():
            return self._audit_start(), self._audit_lines(after, limit)

    def _audit_lines(self, after: int, limit: int) -> list[Linked]:
        rows = self._select("hammemo_audit", "number > %s order by number limit %s", after, limit)
        return [Linked(number, Line(*line), link) for number, *line, link in rows]

    def forget_audit(self, older_than: float) -> None:
        """Let lines that are older than `older_than` seconds leave from the front."""
        oldest = time.time() - older_than
        is_more = True
        while is_more:
            with self._writing():
                first_lines = self._audit_lines(0, _MOST_AUDITED)
                lines = list(takewhile(lambda linked: linked.line.at < oldest, first_lines))
                is_more = len(lines) == _MOST_AUDITED
                if lines:
                    start = advance_start(self._audit_start(), lines)
                    self._execute(
                        "delete from hammemo_audit where model = %s and number <= %s", start.number
                    )
                    self._keep_mark(_AUDIT_START, msgspec.msgpack.encode(start))

    def add_audit(self, line: Line) -> None:
        """Add a line that is not one of an edit."""
        with self._writing():
            self._write_audit([line])

    def _append_audit(self, after: int, entries: Sequence[Entry]) -> None:
        """Write one line for each entry, in the transaction that appends them."""
        at = time.time()
        lines = []
        for version, entry in enumerate(entries, after):
            op = self.hash_op(entry.op)
            receipt = b"" if entry.receipt is None else entry.receipt.hash
            lines.append(
                Line(
                    at=at,
                    token=entry.token,
                    kind=entry.kind,
                    op=op,
                    rows=entry.rows,
                    before=version,
                    after=version + 1,
                    receipt=receipt,
                )
            )
        self._write_audit(lines)

    def _write_audit(self, lines: Iterable[Line]) -> None:
        statement = (
            "select number, link from hammemo_audit where model = %s order by number desc limit 1"
        )
        newest = self._execute(statement).fetchall()
        linked = chain_lines(Start(*newest[0]) if newest else self._audit_start(), lines)
        self._insert(
            "hammemo_audit",
            [(entry.number, *msgspec.structs.astuple(entry.line), entry.link) for entry in linked],
        )

    def _audit_start(self) -> Start:
        start = self.mark(_AUDIT_START)
        return Start() if start is None else msgspec.msgpack.decode(start, type=Start)

    def hash_op(self, op: str) -> bytes:
        """Return the keyed hash by which the audit record names an operation."""
        return blake2b(
            op.encode(), digest_size=16, key=self.key, person=b"hammemo audit op"
        ).digest()

    # Receipts of edits

    def receipt(self, op: str) -> tuple[int, bytes] | None:
        """Return the position of an edit and its receipt; None for an id without a receipt."""
        rows = self._rows(
            "select position, body from hammemo_receipts where model = %s and op = %s", op
        )
        return rows[0] if rows else None

    def _append_receipts(self, after: int, entries: Sequence[Entry]) -> None:
        """Write the receipts of entries, in the transaction that appends them."""
        for position, entry in enumerate(entries, after + 1):
            if entry.receipt is not None:
                self._insert("hammemo_receipts", [(entry.op, position, entry.receipt.body)])
                self._keep_mark(NEWEST_RECEIPT, entry.receipt.hash)

    # Marks

    def mark(self, name: str) -> bytes | None:
        """Return a short note that was kept."""
        rows = self._rows("select value from hammemo_marks where model = %s and name = %s", name)
        return rows[0][0] if rows else None

    def keep_mark(self, name: str, value: bytes) -> None:
        """Keep a short note."""
        with self._writing():
            self._keep_mark(name, value)

    def _keep_mark(self, name: str, value: bytes) -> None:
        self._execute("delete from hammemo_marks where model = %s and name = %s", name)
        self._insert("hammemo_marks", [(name, value)])

    # Subjects

    def fence(self) -> AbstractContextManager[None]:
        """Hold off other writers for the time of a block, or refuse where one has taken over."""
        return self._writing()

    def subjects(self, subjects: Sequence[bytes]) -> dict[bytes, StoredKey]:
        """Return the keys of subjects that are known, by their hashes."""
        with self._failing():
            return {
                subject: stored
                for subject in subjects
                for stored in self._select_keys("subject = %s", subject)
            }

    def find_keys(self, keys: Sequence[int]) -> dict[int, StoredKey]:
        """Return keys by their numbers, those that are not destroyed."""
        with self._failing():
            return {key: stored for key in keys for stored in self._select_keys("key = %s", key)}

    def keys_under(self, wrapping: int) -> list[StoredKey]:
        """Return all keys that a wrapping key wraps."""
        return self._select_keys("wrapping = %s order by key", wrapping)

    def _select_keys(self, where: str, value: object) -> list[StoredKey]:
        return [StoredKey(*row) for row in self._select("hammemo_subjects", where, value)]

    def wrapping_keys(self) -> dict[int, int]:
        """Return how many keys each wrapping key wraps."""
        return dict(
            self._rows(
                "select wrapping, count(*) from hammemo_subjects where model = %s group by wrapping"
            )
        )

    def journal(self, key: int, before: int) -> list[tuple[int, bytes]]:
        """Return the journal of a subject: positions below `before`, in order, and ciphertexts."""
        return self._rows(
            "select position, body from hammemo_journal where model = %s and key = %s "
            "and position < %s order by position",
            key,
            before,
        )

    def journal_parts(self, after: int, upto: int) -> dict[tuple[int, int], bytes]:
        """Return the ciphertexts of some positions, by key and position."""
        rows = self._select("hammemo_journal", "position > %s and position <= %s", after, upto)
        return {(key, position): body for position, key, _, body in rows}

    def journals_to_compact(self) -> list[int]:
        """Return the keys of subjects with rows in the journal that were forgotten by the base."""
        statement = (
            "select distinct key from hammemo_journal where model = %s and forgets = 1 "
            "and position <= %s"
        )
        return [key for (key,) in self._rows(statement, self.base())]

    def compact_journal(self, key: int, upto: int, body: bytes | None) -> None:
        """Replace all entries of a subject up to a position by one ciphertext, or by nothing."""
        with self._writing():
            self._execute(
                "delete from hammemo_journal where model = %s and key = %s and position <= %s",
                key,
                upto,
            )
            if body is not None:
                self._insert("hammemo_journal", [(upto, key, 0, body)])

    def destroy_keys(
        self, keys: Sequence[int], wrapping: Sequence[int], rewrapped: Sequence[StoredKey]
    ) -> None:
        """Delete journals, and replace all keys under some wrapping keys, all or nothing."""
        with self._writing():
            for key in keys:
                self._execute("delete from hammemo_journal where model = %s and key = %s", key)
            for number in wrapping:
                self._execute(
                    "delete from hammemo_subjects where model = %s and wrapping = %s", number
                )
            self._insert("hammemo_subjects", rewrapped)

    def erasure(self, op: str) -> Erasure | None:
        """Return an erasure by its id."""
        return next(
            (Erasure(*row) for row in self._select("hammemo_erasures", "op = %s", op)), None
        )

    def erasures(self) -> list[Erasure]:
        """Return the erasures that are applied and not finished."""
        return [
            Erasure(*row)
            for row in self._select("hammemo_erasures", "length(receipt) = 0 order by position")
        ]

    def finish_erasures(self, finished: Sequence[tuple[Erasure, Line]]) -> None:
        """Keep receipts with their lines of the audit record, in one transaction, oldest first."""
        with self._writing():
            for erasure, _ in finished:
                self._execute(
                    "delete from hammemo_erasures where model = %s and op = %s", erasure.op
                )
            self._insert("hammemo_erasures", [erasure for erasure, _ in finished])
            self._write_audit(line for _, line in finished)
            self._keep_mark(NEWEST_RECEIPT, finished[-1][1].receipt)

    def _append_journal(self, after: int, entries: Sequence[Entry]) -> None:
        """Write what entries change of subjects, in the transaction that appends them.

        That is: their erasures, the keys of new subjects, and the encrypted rows of each subject.
        Most models have no subjects, so there is nothing to write.
        """
        erasures = [entry.erasure for entry in entries if entry.erasure is not None]
        for erasure in erasures:
            self._detach_key(erasure.key)
        new_keys = [key for entry in entries for key in entry.new_keys]
        rows = []
        for position, entry in enumerate(entries, after + 1):
            may_forget = int(entry.kind.startswith(("forget", "apply")))
            rows += [(position, key, may_forget, body) for key, body in entry.journal]
        if erasures:
            self._insert("hammemo_erasures", erasures)
        if new_keys:
            self._insert("hammemo_subjects", new_keys)
        if rows:
            self._insert("hammemo_journal", rows)

    def _detach_key(self, key: int) -> None:
        """Make a subject unknown, so that what is learned of it later gets another key.

        The old key stays until it is destroyed, with its number in place of the subject's hash.
        """
        (stored,) = self._select_keys("key = %s", key)
        self._execute("delete from hammemo_subjects where model = %s and key = %s", key)
        self._insert("hammemo_subjects", [stored._replace(subject=key.to_bytes(8, "big"))])


class Store(Protocol):
    """Where the logs of all models are, and what tenants name: aliases, and lists of labels.

    Both engines have the same tables for names, so this class has the statements.
    """

    def tenants(self) -> list[str]:
        """Return the tenants that have a model, sorted."""

    def names(self, tenant: str) -> list[str]:
        """Return the names of a tenant's models, sorted."""

    def create(self, tenant: str, name: str, settings: str, model: Learner | None) -> bool:
        """Make an empty log, with `model` as the snapshot of position 0.

        Return False if there is one of that name.
        """
        empty = Copied(
            settings,
            secrets.token_bytes(KEY_BYTES),
            head=0,
            base=0,
            snapshot=model,
            rows=(),
            vault=None,
        )
        return self.receive(tenant, name, empty)

    def open(self, tenant: str, name: str, *, replica: bool) -> Log:
        """Open a log; raise `NoSuchModel`, or `InUse` where another process writes it."""

    def delete(self, tenant: str, name: str) -> bool:
        """Delete a log that is not open here; return False if there is none."""

    def receive(self, tenant: str, name: str, copied: Copied) -> bool:
        """Make a log of what a backup holds, whole or not at all.

        Return False if there is one of that name. Nothing of a model with subjects is in plain
        text.
        """

    def restoring(self, wait: float) -> AbstractContextManager[None]:
        """Be the only process that restores models.

        `InUse` if another one does for so many seconds.
        """

    def drafts(self) -> list[tuple[str, str]]:
        """Return tenants and names of models that are being restored, or were at a crash."""

    def rename(self, tenant: str, name: str, to: tuple[str, str]) -> bool:
        """Give a log that is not open another tenant and name.

        Return False if there is one of that name.
        """

    def is_there(self) -> bool:
        """Return whether what was opened is still there: a folder was not deleted or replaced."""
        return True  # models that are open answer without a database

    def check_writable(self) -> None:
        """Write something and make it durable; `LogError` where that fails."""

    def _naming(
        self, tenant: str, *, writes: bool = False
    ) -> AbstractContextManager[Callable[..., list[Any]]]:
        """Yield what runs a statement on the names of a tenant, in one durable transaction."""

    def aliases(self, tenant: str) -> dict[str, str]:
        """Return the models behind other names, by these names."""
        with self._naming(tenant) as run:
            return dict(run("select alias, model from hammemo_aliases where tenant = %s", tenant))

    def set_alias(self, tenant: str, alias: str, model: str | None) -> None:
        """Let a name stand for a model, or for none any more, durably and in one step."""
        with self._naming(tenant, writes=True) as run:
            if model is None:
                run("delete from hammemo_aliases where tenant = %s and alias = %s", tenant, alias)
            else:
                run(
                    "insert into hammemo_aliases values(%s, %s, %s) on conflict (tenant, alias) "
                    "do update set model = excluded.model",
                    tenant, alias, model,
                )  # fmt: skip

    def lists(self, tenant: str) -> dict[str, ListFacts]:
        """Return the lists of labels that a tenant has, by their names."""
        with self._naming(tenant) as run:
            rows = run("select name, version, items from hammemo_lists where tenant = %s", tenant)
        return {name: ListFacts(*facts) for name, *facts in rows}

    def list_sizes(self, tenant: str) -> dict[str, int]:
        """Return how many bytes each list of labels has, by their names."""
        with self._naming(tenant) as run:
            return dict(
                run("select name, length(data) from hammemo_lists where tenant = %s", tenant)
            )

    def read_list(self, tenant: str, name: str) -> tuple[ListFacts, bytes] | None:
        """Return a list of labels as it was kept, or None if there is none of that name."""
        with self._naming(tenant) as run:
            rows = run(
                "select version, items, data from hammemo_lists where tenant = %s and name = %s",
                tenant,
                name,
            )
        return (ListFacts(*rows[0][:2]), bytes(rows[0][2])) if rows else None

    def keep_list(self, tenant: str, name: str, items: int, data: bytes) -> ListFacts:
        """Keep a list of labels in the place of the one of that name, durably and in one step.

        The number that versions are taken from stays when a list is deleted.
        """
        with self._naming(tenant, writes=True) as run:
            ((version,),) = run(
                "insert into hammemo_list_versions values(%s, 1) on conflict (tenant) do update "
                "set newest = hammemo_list_versions.newest + 1 returning newest",
                tenant,
            )
            run(
                "insert into hammemo_lists values(%s, %s, %s, %s, %s) "
                "on conflict (tenant, name) do update "
                "set version = excluded.version, items = excluded.items, data = excluded.data",
                tenant, name, version, items, data,
            )  # fmt: skip
        return ListFacts(version, items)

    def drop_list(self, tenant: str, name: str) -> bool:
        """Delete a list of labels, durably; return False if there is none."""
        with self._naming(tenant, writes=True) as run:
            return bool(
                run(
                    "delete from hammemo_lists where tenant = %s and name = %s returning name",
                    tenant,
                    name,
                )
            )


def check_format(where: object, form: object, written_by: object) -> None:
    """Refuse a log of another form than this version reads, and name both."""
    if form != FORMAT:
        by = f", written by hammemo {written_by}," if isinstance(written_by, str) else ""
        raise LogDamaged(
            f"{where} has format {str(form)[:20]}{by} and hammemo {__version__} "
            f"reads format {FORMAT}: serve it with the version that wrote it, "
            "or download its models there and upload them here."
        )


def learner_of(snapshot: bytes | Archive) -> Learner:
    """Return the model in the file of a snapshot, or say that it is damaged."""
    try:
        archive = Archive.from_bytes(snapshot) if isinstance(snapshot, bytes) else snapshot
        with refusing("the snapshot"):
            model = restore_model(archive, Restorer(Registry(), None), verify=True, folder="")
    except ValueError as error:
        raise LogDamaged(f"The snapshot cannot be read: {error}") from error
    if not isinstance(model, Learner):
        raise LogDamaged("The snapshot is compiled for answering and cannot learn.")
    return model
