"""The journal of a model with subjects.

Whose rows it holds, encrypted under a key for each subject.

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
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

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
    """The log body of rows of subjects: the keys of the parts, and for each row whose it is.

    No list for one key.
    """

    keys: list[int]
    owners: list[int]


class LoggedErasure(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="erasure"
):
    """The log body of a subject that was forgotten."""

    key: int


class LoggedSealed(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="sealed"
):
    """The log body of a refit or a choice, which hold values of many subjects, under a contents key."""

    number: int
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
    def of(cls, key: int, secret: bytes) -> OpenKey:
        """Return the key whose secret this is; ciphertexts and digests have keys of their own."""
        sealing, digesting = (
            blake2b(what, key=secret, digest_size=32).digest() for what in (b"seal", b"digest")
        )
        return cls(key, Cipher(sealing), digesting)


Sealed: TypeAlias = tuple[bytes, bytes, tuple[tuple[int, bytes], ...], tuple[StoredKey, ...]]
"""What the log keeps of an edit of subjects: its body, digest, journal and new keys."""


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
        found = log.mark(_FINGERPRINT)
        if found is None and writer:
            log.keep_mark(_FINGERPRINT, vault.fingerprint)
        elif found not in (None, vault.fingerprint):
            raise Unavailable(
                "The key file is not the one that this model was made with: name that one with "
                "keys=."
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
        """Return the contents of bodies that the log has kept after a position.

        `Overtaken` if a key is gone.
        """
        logged = [_logged(body) for body in bodies]
        sealed = self._log.journal_parts(after, after + len(bodies))
        numbers = {key for one in logged if isinstance(one, LoggedParts) for key in one.keys}
        numbers |= {one.key for one in logged if isinstance(one, LoggedErasure)}
        try:
            keys = self._keys(numbers)
            return [
                self._content(one, at, keys, sealed) for at, one in enumerate(logged, after + 1)
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
                decode_body(self._opened(keys[key], at, sealed[key, at])) for key in logged.keys
            ]
            return join_parts(parts, logged.owners)
        if isinstance(logged, LoggedErasure):
            return self._rows(keys[logged.key], at)
        return decode_body(
            self.vault.contents(logged.number).opened(logged.body, self.vault.place(0, at))
        )

    def held_by_all(self, before: int) -> dict[bytes, LoggedRows]:
        """Return the rows of each subject, to be forgotten.

        Those that an erasure removes are not among them.
        """
        found: dict[bytes, LoggedRows] = {}
        with self._log.reading():
            listed = [StoredKey(*row) for row in self._log.dumped("hammemo_subjects")]
        for stored in listed:
            if not is_doomed(stored):
                content = self._rows(OpenKey.of(stored.key, unwrapped(self.vault, stored)), before)
                if isinstance(content, LoggedDocuments):
                    raise Malformed(
                        "Documents are forgotten by forget-stream, or with their subject."
                    )
                if isinstance(content, LoggedRows):
                    found[stored.subject] = content
        return found

    def rows_of(self, subject: bytes, before: int) -> tuple[int, Content] | None:
        """Return the key of a subject, and its rows to be forgotten.

        None for a subject that is not known.
        """
        key = self._known([subject]).get(subject)
        return None if key is None else (key.key, self._rows(key, before))

    def _rows(self, key: OpenKey, before: int) -> Content:
        """Return the rows of a subject, to be forgotten.

        Nothing to be done where there are none.
        """
        return _listed(_counted(self._entries(key, before)), learns=False) or LoggedRefit(
            fitted=b""
        )

    def _entries(self, key: OpenKey, before: int) -> list[Content]:
        return [
            decode_body(self._opened(key, at, body))
            for at, body in self._log.journal(key.key, before)
        ]

    def refusal(self, parts: dict[bytes, bytes], before: int) -> NotStored | None:
        """Return why rows cannot be forgotten.

        Each must be in the journal of its subject, with the same types.
        """
        keys = self._known(list(parts))
        for subject, body in parts.items():
            key = keys.get(subject)
            held = Counter[bytes]() if key is None else _counted(self._entries(key, before))
            content = decode_body(body)
            # below zero
            asked = _counted([content.forgotten if isinstance(content, LoggedChange) else content])
            missing = sum(-n - held[row] for row, n in asked.items() if held[row] + n < 0)
            if missing:
                return NotStored(
                    f"{missing} of {-sum(asked.values())} rows are not stored for the subject "
                    "that is named with them. Nothing was changed. Name the subject, the values "
                    "and their types as they were learnt."
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
        """Close the keys of some subjects, or all of them.

        Another process may have destroyed them.
        """
        for subject in list(self._open) if subjects is None else subjects:
            self._open.pop(subject, None)
        self._bucket = None

    def load(self, subjects: Iterable[bytes]) -> None:
        """Open the keys of subjects that are known, all at once."""
        closed = [subject for subject in dict.fromkeys(subjects) if subject not in self._open]
        self._absent = set(closed) - self._known(closed).keys()

    def sealed(
        self,
        parts: dict[bytes, bytes],
        owners: list[int],
        position: int,
        asked: dict[bytes, bytes] | None = None,
    ) -> Sealed:
        """Return what the log keeps of an edit: one ciphertext for each subject.

        Unknown subjects get a key.

        `asked` are the parts as they were sent, where that is less than what is written.
        """
        new: list[StoredKey] = []
        keys = {
            subject: self._open.get(subject) or self._key(subject, position, new)
            for subject in parts
        }
        journal = tuple(
            [
                (key.key, self._sealed(key, position, parts[subject]))
                for subject, key in keys.items()
            ]
        )
        sent = parts if asked is None else asked
        stored = _encode(
            (
                _digest([keys[subject] for subject in sent], sent.values()),
                [keys[s].key for s in sent],
            )
        )
        return (
            _encode(LoggedParts([key.key for key in keys.values()], owners)),
            stored,
            journal,
            tuple(new),
        )

    def first_position(self, subjects: Iterable[bytes]) -> int:
        """Return the position of the first edit of some subjects, which are known."""
        return min(first_position(key.key) for key in self._known(list(subjects)).values())

    def erasure_body(self, key: int) -> bytes:
        """Return the body of an erasure as the log keeps it."""
        return _encode(LoggedErasure(key))

    def is_same(self, parts: dict[bytes, bytes], stored: bytes) -> bool:
        """Return whether an edit with a known id is the same as then.

        True where a key is gone, without comparison.
        """
        try:
            digest, numbers = msgspec.msgpack.decode(stored, type=tuple[bytes, list[int]])
        except msgspec.MsgspecError:  # of an edit without rows
            return False
        held = self._log.stored_keys(numbers)
        if any(number not in held or is_doomed(held[number]) for number in numbers):
            return True
        known = self._known(list(parts))
        keys = [known[subject] for subject in parts if subject in known]
        is_known = len(keys) == len(parts) and [key.key for key in keys] == numbers
        return is_known and digest == _digest(keys, parts.values())

    def compact(self) -> int:
        """Rewrite journals without rows that were forgotten; return how many were rewritten."""
        base = self._log.base()
        keys = self._log.journals_to_compact()
        for number, key in self._keys(set(keys)).items():
            entries = self._log.journal(number, base + 1)
            counted = _counted(decode_body(self._opened(key, at, body)) for at, body in entries)
            learnt = _listed(counted, learns=True)
            at = entries[-1][0]
            body = None if learnt is None else self._sealed(key, at, learnt.body())
            self._log.compact_journal(number, at, body)
        return len(keys)

    # Keys

    def _key(self, subject: bytes, position: int, new: list[StoredKey]) -> OpenKey:
        """Return the key of a subject, made if there is none."""
        key = self._fresh.get(subject)
        if key is None and subject not in self._absent:
            key = self._known([subject]).get(subject)
        if key is None:
            number = position * _KEYS_A_POSITION + len(new)
            secret = token_bytes(32)
            wrapping = self._next_wrapping()
            new.append(
                StoredKey(number, subject, wrapping, wrapped(self.vault, number, secret, wrapping))
            )
            key = self._fresh[subject] = OpenKey.of(number, secret)
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

    def _known(self, subjects: Sequence[bytes]) -> dict[bytes, OpenKey]:
        """Return the keys of subjects that are known."""
        found = {
            subject: key for subject in subjects if (key := self._open.get(subject)) is not None
        }
        missing = [subject for subject in subjects if subject not in found]
        for subject, stored in (self._log.subjects(missing) if missing else {}).items():
            found[subject] = OpenKey.of(stored.key, unwrapped(self.vault, stored))
            self._remember(subject, found[subject])
        return found

    def _remember(self, subject: bytes, key: OpenKey) -> None:
        self._open[subject] = key
        if len(self._open) > _CACHED:
            self._open.popitem(last=False)

    def _keys(self, numbers: Iterable[int]) -> dict[int, OpenKey]:
        """Return keys by their numbers, as far as they are not destroyed."""
        found: dict[int, OpenKey] = {}
        for number, stored in self._log.stored_keys(list(numbers)).items():
            with suppress(KeyGone):
                found[number] = OpenKey.of(number, unwrapped(self.vault, stored))
        return found

    def _sealed(self, key: OpenKey, at: int, body: bytes) -> bytes:
        return key.cipher.sealed(body, self.vault.place(key.key, at))

    def _opened(self, key: OpenKey, at: int, body: bytes) -> bytes:
        return key.cipher.opened(body, self.vault.place(key.key, at))


def sealed_facts(journal: Journal, op: str, facts: ErasureFacts) -> bytes:
    """Return the facts as the database keeps them.

    The request id is for the owner of the key file.
    """
    return journal.vault.notes.sealed(msgspec.msgpack.encode(facts), op.encode())


def opened_facts(journal: Journal, erasure: Erasure) -> ErasureFacts:
    """Return the facts of an erasure that the database keeps."""
    return msgspec.msgpack.decode(
        journal.vault.notes.opened(erasure.facts, erasure.op.encode()), type=ErasureFacts
    )


def destroy(log: Log, journal: Journal, erasures: Sequence[Erasure]) -> None:
    """Destroy the keys of subjects whose rows a snapshot no longer holds (step 3)."""
    vault = journal.vault
    doomed = log.stored_keys([erasure.key for erasure in erasures])
    facts = [opened_facts(journal, erasure) for erasure in erasures]
    with journal.lock:  # no key is made meanwhile
        rewrapped = []
        numbers = sorted({stored.wrapping for stored in doomed.values()})
        newest = max([0, *log.wrapping_keys()])
        for number in numbers:
            newest = vault.new_wrapping(newest)
            for stored in log.wrapped_by(number):
                if stored.key not in doomed:
                    again = wrapped(vault, stored.key, unwrapped(vault, stored), newest)
                    rewrapped.append(stored._replace(wrapping=newest, wrapped=again))
        if doomed:
            log.destroy_keys(list(doomed), numbers, rewrapped)
        journal.forget_keys()
        # a process that lost the lease must not drop what its successor has just made
        with log.fenced():
            vault.drop(log.wrapping_keys(), max((fact.contents for fact in facts), default=0))


def vault_of(log: Log, keys: str | os.PathLike[str]) -> Vault:
    """Return the secrets of the model whose log this is, which lie in a key file."""
    return Vault(keys, log.key, log.mark(DATABASE) or b"")


def wrapped(vault: Vault, key: int, secret: bytes, wrapping: int) -> bytes:
    """Return the secret of a subject's key under a wrapping key."""
    return vault.wrapping(wrapping).sealed(secret, vault.place(key, 0))


def unwrapped(vault: Vault, stored: StoredKey) -> bytes:
    """Return the secret of a subject's key; `KeyGone` if it was destroyed."""
    return vault.wrapping(stored.wrapping).opened(stored.wrapped, vault.place(stored.key, 0))


def sealed_body(vault: Vault, body: bytes, position: int) -> bytes:
    """Return the body of a refit or a choice as the log keeps it, under the newest contents key."""
    number = vault.newest_contents()
    return _encode(
        LoggedSealed(number, vault.contents(number).sealed(body, vault.place(0, position)))
    )


def opened_body(vault: Vault, body: bytes, position: int) -> bytes | None:
    """Return what `sealed_body` sealed.

    None for the body of another edit, which lies in the journal.
    """
    logged = _logged(body)
    if not isinstance(logged, LoggedSealed):
        return None
    return vault.contents(logged.number).opened(logged.body, vault.place(0, position))


def first_position(key: int) -> int:
    """Return the position of the edit that made a subject's key."""
    return key // _KEYS_A_POSITION


def is_doomed(stored: StoredKey) -> bool:
    """Return whether the erasure of a subject is applied, so that its key is about to be destroyed."""
    return len(stored.subject) != HASH_BYTES


def _logged(body: bytes) -> _Logged:
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError:
        raise LogDamaged("A body is not one of a model with subjects.") from None


def _digest(keys: Sequence[OpenKey], bodies: Iterable[bytes]) -> bytes:
    """Return the digest of an edit; every one of its keys is needed for it."""
    pairs = zip(keys, bodies, strict=True)
    made = [blake2b(body, key=key.secret, digest_size=DIGEST_BYTES).digest() for key, body in pairs]
    return made[0] if len(made) == 1 else blake2b(b"".join(made), digest_size=DIGEST_BYTES).digest()


def _counted(entries: Iterable[Content]) -> Counter[bytes]:
    """Return how often each row or document is held: learnt, less forgotten.

    A row is known by its encoded form.
    """
    held: Counter[bytes] = Counter()
    for content in entries:
        for piece in content.pieces:
            is_learnt = (
                piece[2] if isinstance(content, LoggedChange) else content.kind.startswith("learn")
            )
            held[_encode(piece[:2])] += 1 if is_learnt else -1
    return held


def _listed(held: Counter[bytes], *, learns: bool) -> Content | None:
    """Return an edit of rows or documents, each as often as it is held.

    None where there are none.
    """
    pieces = [tuple(msgspec.msgpack.decode(piece)) for piece, n in held.items() for _ in range(n)]
    if not pieces:
        return None
    if len(pieces[0]) == 1:
        return LoggedDocuments(
            "learnstream" if learns else "erasestream", [document for (document,) in pieces]
        )
    return LoggedRows.from_pieces("learn" if learns else "forget", pieces)
