"""The key file: a signing key, a key for keyed hashes, and any number of named keys.

The file belongs outside the database and its backups: anyone with both can read what was
erased. It is readable by its owner alone and is replaced in one step, under its lock. `hammemo
keys new` writes one, and `hammemo keys public` prints the public key, which anyone may have.

Named keys are what a server encrypts with; one may have an expiry date. Backups have keys of
their own (:mod:`hammemo.receipts.backup_keys`). Records of erasures lie in files beside the key
file (:mod:`hammemo.receipts.erasure_records`): copy these with it. A key that is dropped is in
no later version of the file, but may still be in old blocks of the disk and in copies of the
file.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hammemo._lazy import explain_missing
from hammemo.files.atomic import write_private
from hammemo.files.locks import locked
from hammemo.receipts import strict_json as strict
from hammemo.receipts.backup_keys import BackupKey
from hammemo.receipts.erasure_records import (
    MODEL_BYTES,
    keep_records,
    read_records,
    records_size,
    select_needed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FORMAT: Final = "hammemo-keys"
VERSION: Final = 1
_MAX_FILE_BYTES: Final = 2**26
_KEY_BYTES: Final = 32


@dataclass(frozen=True)
class NamedKey:
    """32 secret bytes, and when they expire."""

    secret: bytes = field(repr=False)
    expires: str | None = None
    """A time in UTC such as ``2026-11-17T08:00:00Z``; None for never."""

    @classmethod
    def new(cls, expires: str | None = None) -> NamedKey:
        """Return a random key."""
        return cls(secrets.token_bytes(_KEY_BYTES), expires)


@dataclass(frozen=True)
class Keys:
    """The keys of a key file: a value that never changes, and whose repr shows no secret.

    Examples
    --------
    >>> from hammemo.receipts.keys import Keys, NamedKey
    >>> keys = Keys.new().with_key("backup 1", NamedKey.new("2027-01-01T00:00:00Z"))
    >>> keys.named["backup 1"], list(keys.without("backup 1").named)
    (NamedKey(expires='2027-01-01T00:00:00Z'), [])
    >>> len(keys.public_key), keys.hash_with_key(b"a guess") == Keys.new().hash_with_key(b"a guess")
    (64, False)
    """

    signing: bytes = field(repr=False)
    hashing: bytes = field(repr=False)
    named: Mapping[str, NamedKey] = field(default_factory=dict, repr=False)
    backups: Mapping[str, BackupKey] = field(default_factory=dict, repr=False)
    erased: Mapping[str, int] = field(default_factory=dict, repr=False)
    """How many bytes the records of erasures of each model have; they lie in files of their own."""

    @classmethod
    def new(cls) -> Keys:
        """Return random keys."""
        return cls(secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(_KEY_BYTES))

    @property
    def public_key(self) -> str:
        """The public key that signatures are checked with, in hexadecimal digits."""
        return str(self._private_key().public_key().public_bytes_raw().hex())

    def hash_with_key(self, data: bytes, purpose: bytes = b"") -> str:
        """Return a keyed hash in hexadecimal digits.

        Each `purpose` (16 bytes at most) has hashes of its own.
        """
        return hashlib.blake2b(data, digest_size=32, key=self.hashing, person=purpose).hexdigest()

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature of a message: 64 bytes."""
        return bytes(self._private_key().sign(message))

    def _private_key(self) -> Any:
        return require_ed25519().Ed25519PrivateKey.from_private_bytes(self.signing)

    def with_key(self, name: str, key: NamedKey) -> Keys:
        """Return the keys with a named one added or replaced."""
        return replace(self, named={**self.named, name: key})

    def without(self, *names: str) -> Keys:
        """Return the keys without some named ones."""
        return replace(
            self, named={name: key for name, key in self.named.items() if name not in names}
        )

    def with_backup(self, name: str, key: BackupKey) -> Keys:
        """Return the keys with that of a backup added or replaced."""
        return replace(self, backups={**self.backups, name: key})

    def with_erased(self, model: str, size: int) -> Keys:
        """Return the keys with another size of a model's records of erasures; 0 for none."""
        sizes = {**self.erased, model: size}
        return replace(self, erased={name: n for name, n in sizes.items() if n})

    def without_backups(self, names: Iterable[str]) -> Keys:
        """Return the keys without those of some backups."""
        gone = set(names)
        return replace(
            self, backups={name: key for name, key in self.backups.items() if name not in gone}
        )

    def backups_of(self, model: str) -> list[BackupKey]:
        """Return the keys of a model's backups."""
        return [key for key in self.backups.values() if key.model == model]

    def list_expired(self) -> list[str]:
        """Return the names of backups that have expired."""
        return [name for name, key in self.backups.items() if key.expires <= strict.now()]

    def encode(self) -> bytes:
        """Return the text of a key file: it holds the secrets."""
        facts: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "named": {
                name: {"key": key.secret.hex(), "expires": key.expires}
                for name, key in self.named.items()
            },
            "signing": self.signing.hex(),
            "hashing": self.hashing.hex(),
        }
        if self.backups:
            facts["backups"] = {name: key.to_json() for name, key in self.backups.items()}
        if self.erased:
            facts["erased"] = dict(self.erased)
        text = strict.canonical(facts) + b"\n"
        if len(text) > _MAX_FILE_BYTES:  # refused here, because it could not be read again
            raise ValueError(
                f"The key file would have {len(text):,} bytes, and at most {_MAX_FILE_BYTES:,} "
                "can be read: let old backups expire, or serve some models with another key file."
            )
        return text

    @classmethod
    def decode(cls, text: bytes) -> Keys:
        """Return the keys in the text of a key file.

        ValueError, which shows no secret, if it is none.
        """
        facts = strict.read_object(text.removesuffix(b"\n"), _MAX_FILE_BYTES)
        backups = facts.pop("backups", {})
        erased = facts.pop("erased", {})
        strict.check_names(facts, ("format", "version", "named", "signing", "hashing"), "it")
        if facts["format"] != FORMAT or facts["version"] != VERSION:
            raise ValueError(f"its format is not {FORMAT}, version {VERSION}")
        if not all(isinstance(entry, dict) for entry in (facts["named"], backups, erased)):
            raise ValueError(
                "its named keys, those of backups or its sizes of records are not a JSON object"
            )
        for name in facts["named"]:
            strict.check_line(name, "the name of a key")
        for name in backups:
            strict.check_line(name, "the name of a backup")
        sizes = {}
        for model, size in erased.items():
            strict.check_hex(model, "the id of a model", MODEL_BYTES)
            sizes[model] = strict.check_number(size, "the size of records of erasures")
        return cls(
            signing=strict.check_secret(facts["signing"], "its signing key"),
            hashing=strict.check_secret(facts["hashing"], "its hashing key"),
            named={name: _read_named_key(key, name) for name, key in facts["named"].items()},
            backups={name: BackupKey.from_json(key) for name, key in backups.items()},
            erased=sizes,
        )


def _read_named_key(value: Any, name: str) -> NamedKey:
    facts = strict.check_names(value, ("key", "expires"), f"the key {name!r}")
    if facts["expires"] is not None:
        strict.check_time(facts["expires"], f"the expiry of the key {name!r}")
    return NamedKey(strict.check_secret(facts["key"], f"the key {name!r}"), facts["expires"])


def read_keys(path: str | os.PathLike[str]) -> Keys:
    """Return the keys of a file, or refuse it.

    It must be whole, and readable by its owner alone.
    """
    with Path(path).open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        text = file.read(_MAX_FILE_BYTES + 1)
    try:
        keys = Keys.decode(text)
    except ValueError as error:
        raise ValueError(
            f"{path} is not a key file: {error}. `hammemo keys new` writes one."
        ) from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ValueError(f"{path} may be read by others, and holds secret keys: chmod 600 it.")
    return keys


def new_key_file(path: str | os.PathLike[str]) -> Keys:
    """Write a file with new keys, and return them; a file that is there is never replaced."""
    require_ed25519()
    with locked(path):
        if os.path.lexists(path):
            raise FileExistsError(
                f"{os.fspath(path)} exists already, and replaced keys are lost: name another file."
            )
        keys = Keys.new()
        write_private(path, [keys.encode()])
    return keys


def change_keys(path: str | os.PathLike[str], change: Callable[[Keys], Keys]) -> Keys:
    """Replace the keys of a file, under its lock, by what `change` makes of them; return these."""
    with locked(path):
        keys = change(read_keys(path))
        write_private(path, [keys.encode()])
    return keys


def drop_expired(path: str | os.PathLike[str]) -> list[str]:
    """Drop the keys of backups that have expired, and return the names of these backups.

    Records of erasures that no other backup needs go with them.
    """
    gone = read_keys(path).list_expired()
    if gone:
        drop_unneeded_records(path, change_keys(path, lambda keys: keys.without_backups(gone)))
    return gone


def drop_unneeded_records(path: str | os.PathLike[str], keys: Keys) -> None:
    """Drop the records of erasures that all backups of their models hold.

    Those of a damaged file stay.
    """
    for model in keys.erased:
        with suppress(ValueError), locked(path):
            _drop_unneeded_records(path, model)


def _drop_unneeded_records(path: str | os.PathLike[str], model: str) -> None:
    keys = read_keys(path)
    records = list(read_records(path, model))
    needed_records = select_needed(records, keys.backups_of(model))
    is_whole = records_size(path, model) >= keys.erased.get(model, 0)
    if len(needed_records) < len(records) and is_whole:
        # the key file comes first: records that are longer than it says lack nothing
        change_keys(path, lambda keys: keys.with_erased(model, 0))
        keep_records(path, model, needed_records)
        change_keys(path, lambda keys: keys.with_erased(model, records_size(path, model)))


def public_key_of(text: bytes) -> str:
    """Return the public key in a text, as ``hammemo keys public`` prints it."""
    return strict.check_hex(text.decode("latin-1").strip(), "the public key")


def is_signed(public_key: str, message: bytes, signature: bytes) -> bool:
    """Return whether the holder of the private key has signed a message."""
    ed25519 = require_ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def require_ed25519() -> Any:
    """Return the module that signs and verifies, or say how to install it."""
    with explain_missing(
        "Receipts and keys need the package cryptography: pip install 'hammemo[erase]'"
    ):
        from cryptography.hazmat.primitives.asymmetric import ed25519
    return ed25519
