"""The journal of a model with subjects: whose each row is, encrypted with a key per subject.

**Where a row goes.** A row that is learnt for a subject is in three places: in the model, in
the subject's journal, and in the log until the next snapshot. Journal and log share one
ciphertext (AES-GCM, rows as typed values): the body of the edit in the log only says under
which keys and in which order. A forgotten row makes a ciphertext of its own, and the next
snapshot rewrites the journal of its subject without both.

**What names a subject** in the database is a keyed hash, and so is an operation id. The digest
by which a repeated edit is known is keyed with the keys of its subjects: without them no guess
about its rows can be confirmed, and a repeated edit is answered without comparison.

**Forgetting a subject** is an edit that names the key. What is removed is read from the
journal: rows that were learnt, less rows that were forgotten. From this edit on the subject is
unknown; if it learns again, it gets a new key:

1. The writer appends and applies the edit while the key of the subject still exists, and refits
   the model (:mod:`hammemo_server.models.writer`). From now on the state of the erasure is
   ``applied``.
2. A snapshot that holds the edit takes the place of the log before it.
3. The key is destroyed: the other keys of its bucket are wrapped under a new wrapping key, in
   one transaction that also deletes the key and the journal of the subject; then the old
   wrapping key and the old contents keys are dropped from the key file.
4. The receipt is signed and kept, with a line of the audit record. It names the backups that
   may still hold the subject. The state is ``erased``.

All erasures that wait share each step. Every step can be done again: after a crash the process
that writes next begins with 2. What 3 dropped is found by comparing the key file with the
database, so it is dropped even if the crash came between the two.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from contextlib import suppress
from hashlib import blake2b
from secrets import token_bytes
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from hammemo_server.edits.operations import (
    DIGEST_BYTES,
    Content,
    KeysDropped,
    LoggedChange,
    LoggedDocuments,
    LoggedRefit,
    LoggedRows,
    Malformed,
    NotStored,
    Unavailable,
    decode_body,
    join_parts,
)
from hammemo_server.store.log import Erasure, LogDamaged, Overtaken, StoredKey
from hammemo_server.store.vault import DATABASE, HASH_BYTES, Cipher, KeyGone, Vault

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from hammemo_server.store.base_log import Log


BUCKET: Final = 1_024
"""Keys of subjects that one wrapping key wraps."""

_KEYS_A_POSITION: Final = 2**20
"""Keys are numbered by the position of the edit that made them, so that no number comes twice."""

_CACHED: Final = 50_000
"""Keys of subjects that stay open."""

_FINGERPRINT: Final = "key file"


class LoggedParts(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="parts"
):
    """The log body of rows of subjects."""

    keys: list[int]
    """The keys of the parts."""
    owners: list[int]
    """For each row the place of its key in `keys`; empty for one key."""


class LoggedErasure(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="erasure"
):
    """The log body of a subject that was forgotten."""

    key: int


class LoggedSealed(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="sealed"
):
    """The log body of a refit or a choice, which has values of many subjects, encrypted."""

    number: int
    """That of the contents key."""
    body: bytes


class ErasureFacts(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the receipt will say, as far as it is known when the edit is applied."""

    request: str
    version_before: int
    digest_before: str
    """Keyed."""
    rows: int
    labels: int
    layout_refitted: bool
    weights_refitted: bool
    rows_hash: str
    """Keyed: that of the subject."""
    contents: int
    """The contents key from which on nothing holds the subject."""


_encode = msgspec.msgpack.Encoder().encode
_Logged = LoggedParts | LoggedErasure | LoggedSealed
_decoder: msgspec.msgpack.Decoder[_Logged] = msgspec.msgpack.Decoder(_Logged)


class OpenKey(NamedTuple):
    """The key of a subject, unwrapped."""

    key: int
    cipher: Cipher
    secret: bytes
    """What digests are keyed with."""

    @classmethod
    def from_secret(cls, key: int, secret: bytes) -> OpenKey:
        """Return the key whose secret this is; ciphertexts and digests have keys of their own."""
        sealing_key = blake2b(b"seal", key=secret, digest_size=32).digest()
        digest_key = blake2b(b"digest", key=secret, digest_size=32).digest()
        return cls(key, Cipher(sealing_key), digest_key)


class SealedEdit(NamedTuple):
    """What the log keeps of an edit of subjects."""

    body: bytes
    """Under which keys the rows are, and in which order."""
    digest: bytes
    """With the keys of the parts that were sent, by which a repeated edit is known."""
    journal: tuple[tuple[int, bytes], ...]
    """The ciphertext of each subject's rows, by the subject's key."""
    new_keys: tuple[StoredKey, ...]
    """Keys of subjects that this edit is the first to name."""


class Journal:
    """The journal of one model. One thread writes; any may read.

    Parameters
    ----------
    log : Log
    vault : Vault
    writer : bool
        Whether this process writes the model.
    """

    def __init__(self, log: Log, vault: Vault, *, writer: bool) -> None:
        self._log = log
        self.vault = vault
        self.lock = threading.Lock()
        """Held from the moment a key is made until it is written, while a subject becomes
        unknown, and while keys are destroyed, which rewrites all other keys of their
        buckets."""
        self._open: OrderedDict[bytes, OpenKey] = OrderedDict()
        self._fresh: dict[bytes, OpenKey] = {}
        """Keys that were made for the group that is being written."""
        self._absent: set[bytes] = set()
        """Subjects of the group that have no key yet."""
        self._bucket: tuple[int, int] | None = None
        """The wrapping key in use, and how many keys it wraps."""
        fingerprint = log.mark(_FINGERPRINT)
        if fingerprint is None and writer:
            log.keep_mark(_FINGERPRINT, vault.fingerprint)
        elif fingerprint not in (None, vault.fingerprint):
            raise Unavailable(
                "The key file is not the one that this model was made with: "
                "name that one with keys=."
            )

    def check_keys(self, model: str) -> None:
        """Refuse a database that has keys of subjects which no key of the key file opens.

        An erasure in another process drops a wrapping key after it has left the database, so a
        key that is still in the database after it was not found in the file is lost.
        """
        missing = set(self._log.wrapping_keys()).difference(self.vault.wrapping_numbers())
        if missing and not missing.isdisjoint(self._log.wrapping_keys()):
            raise KeysDropped(model)

    # Reading

    def contents(self, after: int, bodies: Sequence[bytes]) -> list[Content]:
        """Return the contents of bodies after a position; `Overtaken` if a key is gone."""
        logged = [_decode_logged(body) for body in bodies]
        sealed = self._log.journal_parts(after, after + len(bodies))
        numbers: set[int] = set()
        for entry in logged:
            if isinstance(entry, LoggedParts):
                numbers.update(entry.keys)
            elif isinstance(entry, LoggedErasure):
                numbers.add(entry.key)
        try:
            keys = self._keys(numbers)
            return [
                self._content(entry, at, keys, sealed) for at, entry in enumerate(logged, after + 1)
            ]
        except (KeyGone, KeyError):
            if self._log.base() > after:
                raise Overtaken from None
            raise LogDamaged(f"A key of an edit after position {after} is not there.") from None
        except ValueError as error:
            raise LogDamaged(f"An edit after position {after} cannot be read: {error}.") from None

    def _content(
        self,
        logged: _Logged,
        at: int,
        keys: dict[int, OpenKey],
        sealed: dict[tuple[int, int], bytes],
    ) -> Content:
        if isinstance(logged, LoggedParts):
            parts = [
                decode_body(self._unseal(keys[key], at, sealed[key, at])) for key in logged.keys
            ]
            return join_parts(parts, logged.owners)
        if isinstance(logged, LoggedErasure):
            return self._rows(keys[logged.key], at)
        return decode_body(
            self.vault.contents(logged.number).unseal(logged.body, self.vault.place(0, at))
        )

    def rows_of_all(self, before: int) -> dict[bytes, LoggedRows]:
        """Return the rows of each subject, to be forgotten.

        Those that an erasure removes are not among them.
        """
        rows: dict[bytes, LoggedRows] = {}
        with self._log.reading():
            listed = [StoredKey(*row) for row in self._log.dump("hammemo_subjects")]
        for stored in listed:
            if not is_doomed(stored):
                key = OpenKey.from_secret(stored.key, unwrap(self.vault, stored))
                content = self._rows(key, before)
                if isinstance(content, LoggedDocuments):
                    raise Malformed(
                        "Documents are forgotten by forget-stream, or with their subject."
                    )
                if isinstance(content, LoggedRows):
                    rows[stored.subject] = content
        return rows

    def rows_of(self, subject: bytes, before: int) -> tuple[int, Content] | None:
        """Return the key of a subject, and an edit that forgets its rows; None if not known."""
        key = self._open_keys([subject]).get(subject)
        return None if key is None else (key.key, self._rows(key, before))

    def _rows(self, key: OpenKey, before: int) -> Content:
        """Return an edit that forgets the rows of a subject, or one that does nothing."""
        counts = _count_pieces(self._entries(key, before))
        return _as_edit(counts, learns=False) or LoggedRefit(fitted=b"")

    def _entries(self, key: OpenKey, before: int) -> list[Content]:
        return [
            decode_body(self._unseal(key, at, body))
            for at, body in self._log.journal(key.key, before)
        ]

    def refusal(self, parts: dict[bytes, bytes], before: int) -> NotStored | None:
        """Return why rows cannot be forgotten, or None.

        Each must be in the journal of its subject, with the same types.
        """
        keys = self._open_keys(list(parts))
        for subject, body in parts.items():
            stored = Counter[bytes]()
            if subject in keys:
                stored = _count_pieces(self._entries(keys[subject], before))
            content = decode_body(body)
            if isinstance(content, LoggedChange):
                content = content.forgotten
            changes = _count_pieces([content])  # below zero: these rows are to be forgotten
            missing = sum(
                -change - stored[row] for row, change in changes.items() if stored[row] + change < 0
            )
            if missing:
                return NotStored(
                    f"{missing} of {-sum(changes.values())} rows are not stored "
                    "for the subject that is named with them. Nothing was changed. "
                    "Name the subject, the values and their types as they were learnt."
                )
        return None

    # Writing

    def begin_group(self) -> None:
        """Forget the new keys of a group that was not written."""
        self._fresh.clear()

    def end_group(self) -> None:
        """Take note that the group was written."""
        for subject, key in self._fresh.items():
            self._remember(subject, key)
        self._fresh.clear()

    def forget_keys(self, subjects: Iterable[bytes] | None = None) -> None:
        """Close the keys of some or all subjects: another process may have destroyed them."""
        for subject in list(self._open) if subjects is None else subjects:
            self._open.pop(subject, None)
        self._bucket = None

    def load(self, subjects: Iterable[bytes]) -> None:
        """Open the keys of subjects that are known, all at once."""
        closed = [subject for subject in dict.fromkeys(subjects) if subject not in self._open]
        self._absent = set(closed) - self._open_keys(closed).keys()

    def seal_edit(
        self,
        parts: dict[bytes, bytes],
        owners: list[int],
        position: int,
        sent: dict[bytes, bytes] | None = None,
    ) -> SealedEdit:
        """Return what the log keeps of an edit: a ciphertext for each subject; new ones get a key.

        Parameters
        ----------
        parts : dict
            The rows of each subject, by the hash of the subject.
        owners : list of int
            For each row the place of its subject in `parts`.
        position : int
            That of the edit in the log.
        sent : dict, optional
            The parts as they were sent, where that is less than what is written.
        """
        new_keys: list[StoredKey] = []
        keys = {
            subject: self._open.get(subject) or self._key(subject, position, new_keys)
            for subject in parts
        }
        if sent is None:
            sent = parts
        # keyed with the subjects' keys: without them, no guess about rows can be confirmed
        digest = _digest([keys[subject] for subject in sent], sent.values())
        return SealedEdit(
            body=_encode(LoggedParts([key.key for key in keys.values()], owners)),
            digest=_encode((digest, [keys[subject].key for subject in sent])),
            journal=tuple(
                (key.key, self._seal(key, position, parts[subject]))
                for subject, key in keys.items()
            ),
            new_keys=tuple(new_keys),
        )

    def first_position(self, subjects: Iterable[bytes]) -> int:
        """Return the position of the first edit of some subjects, which are known."""
        return min(first_position(key.key) for key in self._open_keys(list(subjects)).values())

    def erasure_body(self, key: int) -> bytes:
        """Return the body of an erasure as the log keeps it."""
        return _encode(LoggedErasure(key))

    def is_same(self, parts: dict[bytes, bytes], digest: bytes) -> bool:
        """Return whether an edit with a known id is the same as then, by the digest of then.

        Where a key is gone, the rows cannot be compared, and it counts as the same.
        """
        try:
            digest_of_rows, numbers = msgspec.msgpack.decode(digest, type=tuple[bytes, list[int]])
        except msgspec.MsgspecError:  # of an edit without rows
            return False
        stored_keys = self._log.find_keys(numbers)
        if any(number not in stored_keys or is_doomed(stored_keys[number]) for number in numbers):
            return True
        open_keys = self._open_keys(list(parts))
        if open_keys.keys() != parts.keys():
            return False
        keys = [open_keys[subject] for subject in parts]
        if [key.key for key in keys] != numbers:
            return False
        return digest_of_rows == _digest(keys, parts.values())

    def compact(self) -> int:
        """Rewrite journals without rows that were forgotten; return how many were rewritten."""
        base = self._log.base()
        keys = self._log.journals_to_compact()
        for number, key in self._keys(set(keys)).items():
            entries = self._log.journal(number, base + 1)
            counts = _count_pieces(decode_body(self._unseal(key, at, body)) for at, body in entries)
            remaining = _as_edit(counts, learns=True)
            at = entries[-1][0]
            body = None if remaining is None else self._seal(key, at, remaining.body())
            self._log.compact_journal(number, at, body)
        return len(keys)

    # Keys

    def _key(self, subject: bytes, position: int, new: list[StoredKey]) -> OpenKey:
        """Return the key of a subject, made if there is none."""
        key = self._fresh.get(subject)
        if key is None and subject not in self._absent:
            key = self._open_keys([subject]).get(subject)
        if key is None:
            number = position * _KEYS_A_POSITION + len(new)
            secret = token_bytes(32)
            wrapping = self._next_wrapping()
            new.append(
                StoredKey(number, subject, wrapping, wrap(self.vault, number, secret, wrapping))
            )
            key = self._fresh[subject] = OpenKey.from_secret(number, secret)
        return key

    def _next_wrapping(self) -> int:
        """Return the wrapping key of one more key; a bucket that is full gets a successor."""
        if self._bucket is None:
            self._bucket = max(self._log.wrapping_keys().items(), default=(0, BUCKET))
        wrapping, n = self._bucket
        if n >= BUCKET:
            wrapping = self.vault.new_wrapping(wrapping)
            n = 0
        self._bucket = wrapping, n + 1
        return wrapping

    def _open_keys(self, subjects: Sequence[bytes]) -> dict[bytes, OpenKey]:
        """Return the keys of subjects that are known."""
        keys = {
            subject: key for subject in subjects if (key := self._open.get(subject)) is not None
        }
        missing = [subject for subject in subjects if subject not in keys]
        for subject, stored in (self._log.subjects(missing) if missing else {}).items():
            keys[subject] = OpenKey.from_secret(stored.key, unwrap(self.vault, stored))
            self._remember(subject, keys[subject])
        return keys

    def _remember(self, subject: bytes, key: OpenKey) -> None:
        self._open[subject] = key
        if len(self._open) > _CACHED:
            self._open.popitem(last=False)

    def _keys(self, numbers: Iterable[int]) -> dict[int, OpenKey]:
        """Return keys by their numbers, as far as they are not destroyed."""
        keys: dict[int, OpenKey] = {}
        for number, stored in self._log.find_keys(list(numbers)).items():
            with suppress(KeyGone):
                keys[number] = OpenKey.from_secret(number, unwrap(self.vault, stored))
        return keys

    def _seal(self, key: OpenKey, at: int, body: bytes) -> bytes:
        return key.cipher.seal(body, self.vault.place(key.key, at))

    def _unseal(self, key: OpenKey, at: int, body: bytes) -> bytes:
        return key.cipher.unseal(body, self.vault.place(key.key, at))


def seal_facts(journal: Journal, op: str, facts: ErasureFacts) -> bytes:
    """Return the facts as the database keeps them: they name the request of a client."""
    return journal.vault.notes.seal(msgspec.msgpack.encode(facts), op.encode())


def unseal_facts(journal: Journal, erasure: Erasure) -> ErasureFacts:
    """Return the facts of an erasure that the database keeps."""
    return msgspec.msgpack.decode(
        journal.vault.notes.unseal(erasure.facts, erasure.op.encode()), type=ErasureFacts
    )


def destroy_keys(log: Log, journal: Journal, erasures: Sequence[Erasure]) -> None:
    """Destroy the keys of subjects whose rows a snapshot no longer holds (step 3)."""
    vault = journal.vault
    doomed = log.find_keys([erasure.key for erasure in erasures])
    facts = [unseal_facts(journal, erasure) for erasure in erasures]
    with journal.lock:  # no key is made meanwhile
        rewrapped = []
        numbers = sorted({stored.wrapping for stored in doomed.values()})
        newest = max([0, *log.wrapping_keys()])
        for number in numbers:
            newest = vault.new_wrapping(newest)
            for stored in log.keys_under(number):
                if stored.key not in doomed:
                    new_wrapped = wrap(vault, stored.key, unwrap(vault, stored), newest)
                    rewrapped.append(stored._replace(wrapping=newest, wrapped=new_wrapped))
        if doomed:
            log.destroy_keys(list(doomed), numbers, rewrapped)
        journal.forget_keys()
        # a process that lost the lease must not drop what its successor has just made
        with log.fence():
            vault.drop(log.wrapping_keys(), max((fact.contents for fact in facts), default=0))


def vault_of(log: Log, keys: str | os.PathLike[str]) -> Vault:
    """Return the secrets of the model whose log this is, which lie in a key file."""
    return Vault(keys, log.key, log.mark(DATABASE) or b"")


def wrap(vault: Vault, key: int, secret: bytes, wrapping: int) -> bytes:
    """Return the secret of a subject's key under a wrapping key."""
    return vault.wrapping(wrapping).seal(secret, vault.place(key, 0))


def unwrap(vault: Vault, stored: StoredKey) -> bytes:
    """Return the secret of a subject's key; `KeyGone` if it was destroyed."""
    return vault.wrapping(stored.wrapping).unseal(stored.wrapped, vault.place(stored.key, 0))


def seal_body(vault: Vault, body: bytes, position: int) -> bytes:
    """Return the body of a refit or a choice as the log keeps it, under the newest contents key."""
    number = vault.newest_contents()
    return _encode(
        LoggedSealed(number, vault.contents(number).seal(body, vault.place(0, position)))
    )


def unseal_body(vault: Vault, body: bytes, position: int) -> bytes | None:
    """Return what `seal_body` sealed.

    None for the body of another edit, which lies in the journal.
    """
    logged = _decode_logged(body)
    if not isinstance(logged, LoggedSealed):
        return None
    return vault.contents(logged.number).unseal(logged.body, vault.place(0, position))


def first_position(key: int) -> int:
    """Return the position of the edit that made a subject's key."""
    return key // _KEYS_A_POSITION


def is_doomed(stored: StoredKey) -> bool:
    """Return whether the erasure of a subject is applied: its key is about to be destroyed."""
    return len(stored.subject) != HASH_BYTES


def _decode_logged(body: bytes) -> _Logged:
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError:
        raise LogDamaged("A body is not one of a model with subjects.") from None


def _digest(keys: Sequence[OpenKey], bodies: Iterable[bytes]) -> bytes:
    """Return the digest of an edit; every one of its keys is needed for it."""
    pairs = zip(keys, bodies, strict=True)
    digests = [
        blake2b(body, key=key.secret, digest_size=DIGEST_BYTES).digest() for key, body in pairs
    ]
    return (
        digests[0]
        if len(digests) == 1
        else blake2b(b"".join(digests), digest_size=DIGEST_BYTES).digest()
    )


def _count_pieces(entries: Iterable[Content]) -> Counter[bytes]:
    """Return how often each row or document is stored: learned, less forgotten.

    A row is known by its encoded form.
    """
    counts: Counter[bytes] = Counter()
    for content in entries:
        for piece in content.pieces:
            if isinstance(content, LoggedChange):
                is_learned = piece[2]
            else:
                is_learned = content.kind.startswith("learn")
            counts[_encode(piece[:2])] += 1 if is_learned else -1
    return counts


def _as_edit(counts: Counter[bytes], *, learns: bool) -> Content | None:
    """Return an edit of rows or documents, each as often as it is stored; None without any."""
    pieces = [tuple(msgspec.msgpack.decode(piece)) for piece, n in counts.items() for _ in range(n)]
    if not pieces:
        return None
    if len(pieces[0]) == 1:  # documents have no label
        kind: Literal["learnstream", "erasestream"] = "learnstream" if learns else "erasestream"
        return LoggedDocuments(kind, [document for (document,) in pieces])
    return LoggedRows.from_pieces("learn" if learns else "forget", pieces)
