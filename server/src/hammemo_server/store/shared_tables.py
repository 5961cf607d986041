"""Tables that both engines have, with the same statements: edits, the audit record, and what belongs to subjects.

- ``hammemo_subjects``: the wrapped key of each subject, found by a keyed hash of the subject;
- ``hammemo_journal``: the rows of each subject, one ciphertext for each edit that names it. This is the log body of the
  edit, written once. The log has a reference to it, which goes when the log is trimmed; the ciphertext stays;
- ``hammemo_receipts``: receipts of edits that were sent with the request for one;
- ``hammemo_erasures``: subjects that were forgotten, and the receipts.

Statements are written as psycopg takes them, with ``%s``. Every table has a column `model`; in a log in SQLite, which
has one model, it is 1. An engine says how a statement is run, how many rows are inserted at once, and what a
transaction of the writer is.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hammemo_server.store.audit import Line, Linked, Start, after_lines, chained
from hammemo_server.store.log import NEWEST_RECEIPT, Entry, Erasure, LogEngine, StoredKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hammemo_server.store.vault import Vault

EDITS, IDS = "hammemo_edits", "hammemo_ids"

TABLES: Final[dict[str, dict[str, str]]] = {
    EDITS: {"position": "bigint", "body": "bytea"},
    IDS: {"op": "text", "position": "bigint", "digest": "bytea", "ran": "double precision"},
    "hammemo_audit": {
        "number": "bigint",
        "at": "double precision",
        "token": "text",
        "kind": "text",
        "op": "bytea",
        "n_rows": "bigint",
        "before": "bigint",
        "after": "bigint",
        "receipt": "bytea",
        "link": "bytea",
    },
    "hammemo_marks": {"name": "text", "value": "bytea"},
    "hammemo_receipts": {"op": "text", "position": "bigint", "body": "bytea"},
    "hammemo_subjects": {"key": "bigint", "subject": "bytea", "wrapping": "bigint", "wrapped": "bytea"},
    "hammemo_journal": {"position": "bigint", "key": "bigint", "forgets": "bigint", "body": "bytea"},
    "hammemo_erasures": {"op": "text", "key": "bigint", "position": "bigint", "facts": "bytea", "receipt": "bytea"},
}
"""The columns of each table and their types; the first one, or as many as `_LONG_KEYS` says, are its key."""

_LONG_KEYS: Final = {"hammemo_journal": 2}

_INDEXES: Final = """
create unique index if not exists hammemo_subjects_by_hash on hammemo_subjects(model, subject);
create index if not exists hammemo_subjects_by_wrapping on hammemo_subjects(model, wrapping);
create index if not exists hammemo_journal_by_key on hammemo_journal(model, key, position);
create index if not exists hammemo_journal_forgotten on hammemo_journal(model, key) where forgets = 1;
create index if not exists hammemo_erasures_open on hammemo_erasures(model, position) where length(receipt) = 0;
"""

_AUDIT_START: Final = "audit start"
_MOST_AUDITED: Final = 10_000
"""Lines that are removed from the front at a time."""

_KEY_COLUMNS: Final = "select key, subject, wrapping, wrapped from hammemo_subjects where model = %s"
_ERASURE_COLUMNS: Final = "select op, key, position, facts, receipt from hammemo_erasures where model = %s"

_start_decoder = msgspec.msgpack.Decoder(Start)


def table_statements(model: str, ending: str = "") -> str:
    """Return the statements that make the tables; `model` is the type of their first column."""
    made = []
    for name, columns in TABLES.items():
        listed = ", ".join(f"{column} {kind} not null" for column, kind in columns.items())
        key = ", ".join(["model", *list(columns)[: _LONG_KEYS.get(name, 1)]])
        made.append(f"create table if not exists {name}(model {model}, {listed}, primary key ({key})){ending};")
    return "\n".join(made) + _INDEXES


class SharedTables(LogEngine):
    """What a log keeps in these tables."""

    vault: Vault | None = None
    """The secrets of a model with subjects: it encrypts snapshots, where they are kept in a database."""

    def dumped(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one of these tables for a backup: edits after the base, ids with their age below zero."""
        columns, where = ", ".join(TABLES[table]), ""
        if table == IDS:
            columns = columns.replace("ran", f"ran - {self._ran()!r}")
        if table == EDITS:
            where = f" and position > {self.base()} order by position"
        with self._failing():
            yield from self._each(f"select {columns} from {table} where model = %s{where}")

    # The audit record

    def audit(self, after: int, most: int) -> tuple[Start, list[Linked]]:
        """Return at most `most` lines after a number, and what the first of all lines is chained to."""
        with self._failing():
            return self._audit_start(), self._audit_lines(after, most)

    def _audit_lines(self, after: int, most: int) -> list[Linked]:
        rows = self._rows(
            "select number, at, token, kind, op, n_rows, before, after, receipt, link from hammemo_audit "
            "where model = %s and number > %s order by number limit %s",
            after,
            most,
        )
        return [
            Linked(number, Line(at, token, kind, bytes(op), n_rows, before, version, bytes(receipt)), bytes(link))
            for number, at, token, kind, op, n_rows, before, version, receipt, link in rows
        ]

    def forget_audit(self, older_than: float) -> None:
        """Let lines that are older than `older_than` seconds leave from the front."""
        oldest = time.time() - older_than
        while True:
            with self._writing():
                lines = self._audit_lines(0, _MOST_AUDITED)
                young = next((i for i, one in enumerate(lines) if one.line.at >= oldest), len(lines))
                if young == 0:
                    return
                number = lines[young - 1].number
                self._run("delete from hammemo_audit where model = %s and number <= %s", number)
                start = after_lines(self._audit_start(), lines[:young])
                self._keep_mark(_AUDIT_START, msgspec.msgpack.encode(start))
                if young < len(lines):
                    return

    def add_audit(self, line: Line) -> None:
        """Add a line that is not one of an edit."""
        with self._writing():
            self._write_audit([line])

    def _append_audit(self, after: int, entries: Sequence[Entry]) -> None:
        """Write one line for each entry, in the transaction that appends them."""
        now = time.time()
        self._write_audit(
            Line(
                now,
                entry.token,
                entry.kind,
                self.hashed_op(entry.op),
                entry.rows,
                version,
                version + 1,
                b"" if entry.receipt is None else entry.receipt.hash,
            )
            for version, entry in enumerate(entries, after)
        )

    def _write_audit(self, lines: Iterable[Line]) -> None:
        newest = self._rows("select number, link from hammemo_audit where model = %s order by number desc limit 1")
        start = Start(newest[0][0], bytes(newest[0][1])) if newest else self._audit_start()
        made = chained(start, lines)
        self._insert("hammemo_audit", ((one.number, *msgspec.structs.astuple(one.line), one.link) for one in made))

    def _audit_start(self) -> Start:
        found = self._mark(_AUDIT_START)
        return Start() if found is None else _start_decoder.decode(found)

    def hashed_op(self, op: str) -> bytes:
        """Return the keyed hash by which the audit record names an operation."""
        return blake2b(op.encode(), digest_size=16, key=self.key, person=b"hammemo audit op").digest()

    # Receipts of edits

    def receipt(self, op: str) -> tuple[int, bytes] | None:
        """Return the position of an edit and its receipt, by the id of the edit; None if it has no receipt."""
        with self._failing():
            found = self._rows("select position, body from hammemo_receipts where model = %s and op = %s", op)
        return (found[0][0], bytes(found[0][1])) if found else None

    def _append_receipts(self, after: int, entries: Sequence[Entry]) -> None:
        """Write the receipts of entries, in the transaction that appends them."""
        issued = [
            (entry.op, position, entry.receipt)
            for position, entry in enumerate(entries, after + 1)
            if entry.receipt is not None
        ]
        if issued:
            self._insert("hammemo_receipts", [(op, position, receipt.body) for op, position, receipt in issued])
            self._keep_mark(NEWEST_RECEIPT, issued[-1][2].hash)

    # Marks

    def mark(self, name: str) -> bytes | None:
        """Return a short note that was kept."""
        with self._failing():
            return self._mark(name)

    def keep_mark(self, name: str, value: bytes) -> None:
        """Keep a short note."""
        with self._writing():
            self._keep_mark(name, value)

    def _mark(self, name: str) -> bytes | None:
        found = self._rows("select value from hammemo_marks where model = %s and name = %s", name)
        return bytes(found[0][0]) if found else None

    def _keep_mark(self, name: str, value: bytes) -> None:
        self._run("delete from hammemo_marks where model = %s and name = %s", name)
        self._insert("hammemo_marks", [(name, value)])

    # Subjects

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Hold off other writers for the time of a block, or refuse where one has taken over."""
        with self._writing():
            yield

    def subjects(self, subjects: Sequence[bytes]) -> dict[bytes, StoredKey]:
        """Return the keys of subjects that are known, by their hashes."""
        with self._failing():
            found = [self._rows(f"{_KEY_COLUMNS} and subject = %s", subject) for subject in subjects]
        return {stored.subject: stored for rows in found for stored in _stored(rows)}

    def stored_keys(self, keys: Sequence[int]) -> dict[int, StoredKey]:
        """Return keys by their numbers, those that are not destroyed."""
        with self._failing():
            found = [self._rows(f"{_KEY_COLUMNS} and key = %s", key) for key in keys]
        return {stored.key: stored for rows in found for stored in _stored(rows)}

    def wrapped_by(self, wrapping: int) -> list[StoredKey]:
        """Return all keys that a wrapping key wraps."""
        with self._failing():
            return _stored(self._rows(f"{_KEY_COLUMNS} and wrapping = %s order by key", wrapping))

    def wrapping_keys(self) -> dict[int, int]:
        """Return how many keys each wrapping key wraps."""
        with self._failing():
            return dict(
                self._rows("select wrapping, count(*) from hammemo_subjects where model = %s group by wrapping")
            )

    def journal(self, key: int, before: int) -> list[tuple[int, bytes]]:
        """Return the journal of a subject: positions below `before`, in order, and ciphertexts."""
        with self._failing():
            rows = self._rows(
                "select position, body from hammemo_journal where model = %s and key = %s and position < %s "
                "order by position",
                key,
                before,
            )
        return [(position, bytes(body)) for position, body in rows]

    def journal_parts(self, after: int, upto: int) -> dict[tuple[int, int], bytes]:
        """Return the ciphertexts of some positions, by key and position."""
        with self._failing():
            rows = self._rows(
                "select key, position, body from hammemo_journal where model = %s and position > %s and position <= %s",
                after,
                upto,
            )
        return {(key, position): bytes(body) for key, position, body in rows}

    def journals_to_compact(self) -> list[int]:
        """Return the keys of subjects whose journals hold, up to the base, rows that were forgotten."""
        statement = "select distinct key from hammemo_journal where model = %s and forgets = 1 and position <= %s"
        with self._failing():
            return [key for (key,) in self._rows(statement, self.base())]

    def compact_journal(self, key: int, upto: int, position: int, body: bytes | None) -> None:
        """Put one ciphertext, or nothing, in the place of all entries of a subject up to a position."""
        with self._writing():
            self._run("delete from hammemo_journal where model = %s and key = %s and position <= %s", key, upto)
            if body is not None:
                self._insert("hammemo_journal", [(position, key, 0, body)])

    def destroy_keys(self, keys: Sequence[int], wrapping: Sequence[int], rewrapped: Sequence[StoredKey]) -> None:
        """Delete journals, and put `rewrapped` in the place of all keys under some wrapping keys, all or nothing."""
        with self._writing():
            for key in keys:
                self._run("delete from hammemo_journal where model = %s and key = %s", key)
            for number in wrapping:
                self._run("delete from hammemo_subjects where model = %s and wrapping = %s", number)
            self._insert("hammemo_subjects", rewrapped)

    def erasure(self, op: str) -> Erasure | None:
        """Return an erasure by its id."""
        with self._failing():
            found = _erasures(self._rows(f"{_ERASURE_COLUMNS} and op = %s", op))
        return found[0] if found else None

    def erasures(self) -> list[Erasure]:
        """Return the erasures that are applied and not finished."""
        with self._failing():
            return _erasures(self._rows(f"{_ERASURE_COLUMNS} and length(receipt) = 0 order by position"))

    def finish_erasures(self, finished: Sequence[tuple[Erasure, Line]], newest: str) -> None:
        """Keep receipts with their lines of the audit record, and the last one's hash as a mark, in one transaction."""
        with self._writing():
            for erasure, _ in finished:
                self._run("delete from hammemo_erasures where model = %s and op = %s", erasure.op)
            self._insert("hammemo_erasures", (erasure for erasure, _ in finished))
            self._write_audit(line for _, line in finished)
            self._keep_mark(newest, finished[-1][1].receipt)

    def _append_journal(self, after: int, entries: Sequence[Entry]) -> None:
        """Write what entries have of subjects, in the transaction that appends them."""
        erased = [entry.erasure for entry in entries if entry.erasure is not None]
        for erasure in erased:  # from now on the subject is unknown: what it learns later has another key
            (stored,) = _stored(self._rows(f"{_KEY_COLUMNS} and key = %s", erasure.key))
            self._run("delete from hammemo_subjects where model = %s and key = %s", erasure.key)
            self._insert("hammemo_subjects", [stored._replace(subject=erasure.key.to_bytes(8, "big"))])
        if erased:
            self._insert("hammemo_erasures", erased)
        if new_keys := [key for entry in entries for key in entry.new_keys]:
            self._insert("hammemo_subjects", new_keys)
        journal = [
            (position, key, int(entry.kind.startswith(("forget", "apply"))), body)
            for position, entry in enumerate(entries, after + 1)
            for key, body in entry.journal
        ]
        if journal:
            self._insert("hammemo_journal", journal)


def _stored(rows: Iterable[Any]) -> list[StoredKey]:
    return [StoredKey(key, bytes(subject), wrapping, bytes(wrapped)) for key, subject, wrapping, wrapped in rows]


def _erasures(rows: Iterable[Any]) -> list[Erasure]:
    return [Erasure(op, key, at, bytes(facts), bytes(receipt)) for op, key, at, facts, receipt in rows]
