"""What a receipt says, how it is signed, and how it is read from outside.

A receipt holds numbers, digests and versions, never a row or a label. It states that a request
was carried out: what the model was before and which rows were removed, as keyed hashes, and
what the model is after, as the digest of each of its parts. The digest before is keyed because
a plain one would let anyone who has the other rows confirm guesses about the removed ones: add
the guess, fit, compare. The digest after is plain, so that an auditor can make it from the
remaining rows.

A signed receipt is one line of JSON in canonical form (:mod:`hammemo.receipts.strict_json`).
Its hash covers the signature, and is what the next receipt names as the one before it.
"""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from threadpoolctl import threadpool_info

from hammemo.edits.digests import PARTS, compute_digest
from hammemo.receipts import strict_json as strict
from hammemo.receipts.keys import Keys, is_signed

if TYPE_CHECKING:
    from collections.abc import Mapping


FORMAT: Final = "hammemo-receipt"
VERSION: Final = 1

_LIBRARIES: Final = ("hammemo", "numpy", "scipy", "scikit-learn")
_MAX_BACKUPS: Final = 10_000
_NAMES: Final = (
    "format",
    "version",
    "request",
    "before",
    "after",
    "removed",
    "refitted",
    "backups",
    "libraries",
)
_ALL_NAMES: Final = (*_NAMES, "processor", "previous", "time")


@dataclass(frozen=True)
class Receipt:
    """What was done to a model.

    Parameters
    ----------
    request : str
        The id of the request: a line of 1 to 200 printable characters. Use no name of a person.
    version_before, version_after : int
        How many edits the model had seen: `version_` of a model in this process, the position
        in the log on a server.
    digest_before : str
        A keyed hash of the digest before, from `hash_digest`.
    parts_after : mapping of str to str
        ``digest(parts=True)`` after it.
    rows, labels : int
        How many rows were removed, and how many labels with their last row. For documents, rows
        are their windows.
    rows_hash : str
        A keyed hash of the rows, or of the subject, that the request names (see
        ``hammemo/receipts/row_hash.py``).
    layout_refitted, weights_refitted : bool
        Whether the layout was chosen again and the weights were fitted again after the last
        removal.
    previous : str or None
        The hash of the receipt before it; None for the first.
    libraries : mapping of str to str
        The versions of what the model was made with.
    processor : str
        The kind of the processor, on which the last bits of weights may depend.
    time : str
        When, in UTC, such as ``2026-11-17T08:00:00Z``.
    backups : tuple of (str, str)
        The backups that still hold the rows, by name, and when each expires.
    """

    request: str
    version_before: int
    digest_before: str
    version_after: int
    parts_after: Mapping[str, str]
    rows: int
    labels: int
    rows_hash: str
    layout_refitted: bool
    weights_refitted: bool
    previous: str | None
    libraries: Mapping[str, str]
    processor: str
    time: str
    backups: tuple[tuple[str, str], ...] = ()

    @property
    def digest_after(self) -> str:
        """The digest of the model after it."""
        return compute_digest({part: self.parts_after[part] for part in PARTS})

    def to_json(self) -> dict[str, Any]:
        """Return the receipt as a JSON object."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "request": self.request,
            "before": {"version": self.version_before, "keyed_digest": self.digest_before},
            "after": {
                "version": self.version_after,
                "digest": self.digest_after,
                "parts": dict(self.parts_after),
            },
            "removed": {"rows": self.rows, "labels": self.labels, "keyed_hash": self.rows_hash},
            "refitted": {"layout": self.layout_refitted, "weights": self.weights_refitted},
            "backups": [{"name": name, "expires": expires} for name, expires in self.backups],
            "libraries": dict(self.libraries),
            "processor": self.processor,
            "previous": self.previous,
            "time": self.time,
        }

    @classmethod
    def from_json(cls, value: Any) -> Receipt:
        """Return the receipt that a JSON object describes.

        ValueError, with the reason, if it describes none.
        """
        facts = strict.check_names(value, _ALL_NAMES, "the receipt")
        is_version_of_ours = type(facts["version"]) is int and facts["version"] == VERSION
        if facts["format"] != FORMAT or not is_version_of_ours:
            raise ValueError(f"its format is not {FORMAT}, version {VERSION}")
        before = strict.check_names(facts["before"], ("version", "keyed_digest"), "before")
        after = strict.check_names(facts["after"], ("version", "digest", "parts"), "after")
        parts = strict.check_names(after["parts"], PARTS, "the parts of the digest")
        removed = strict.check_names(facts["removed"], ("rows", "labels", "keyed_hash"), "removed")
        refitted = strict.check_names(facts["refitted"], ("layout", "weights"), "refitted")
        previous = facts["previous"]
        if previous is not None:
            previous = strict.check_hex(previous, "the hash of the receipt before")
        receipt = cls(
            request=strict.check_line(facts["request"], "the id of the request"),
            version_before=strict.check_number(before["version"], "the version before"),
            digest_before=strict.check_hex(before["keyed_digest"], "the keyed digest before"),
            version_after=strict.check_number(after["version"], "the version after"),
            parts_after={
                part: strict.check_hex(parts[part], f"the digest of {part}") for part in PARTS
            },
            rows=strict.check_number(removed["rows"], "the number of rows"),
            labels=strict.check_number(removed["labels"], "the number of labels"),
            rows_hash=strict.check_hex(removed["keyed_hash"], "the keyed hash of the rows"),
            layout_refitted=strict.check_truth(
                refitted["layout"], "whether the layout was refitted"
            ),
            weights_refitted=strict.check_truth(
                refitted["weights"], "whether the weights were refitted"
            ),
            previous=previous,
            libraries=_check_libraries(facts["libraries"]),
            processor=strict.check_line(facts["processor"], "the processor"),
            time=strict.check_time(facts["time"], "the time"),
            backups=_check_backups(facts["backups"]),
        )
        if after["digest"] != receipt.digest_after:
            raise ValueError("the digest after is not that of its parts")
        return receipt

    def sign(self, keys: Keys) -> SignedReceipt:
        """Return the receipt with the signature of these keys.

        One that could not be read again is refused.
        """
        receipt = Receipt.from_json(self.to_json())
        return SignedReceipt(receipt, keys.public_key, keys.sign(_message(receipt)).hex())


@dataclass(frozen=True)
class SignedReceipt:
    """A receipt, the public key of who signed it, and the signature, both in hexadecimal digits.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.receipts import Keys, SignedReceipt, recorded
    >>> clf = MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"])
    >>> with recorded(clf, Keys.new(), request="2026-17") as record:
    ...     _ = clf.forget([["a", "b"]], ["x"]).refit()
    >>> line = record.signed.encode()
    >>> again = SignedReceipt.decode(line)
    >>> again.verify(), again.receipt.rows, again.receipt.labels
    (True, 1, 1)
    >>> again.receipt.digest_after == clf.digest()
    True
    >>> SignedReceipt.decode(line.replace(b'"rows":1', b'"rows":2')).verify()
    False
    """

    receipt: Receipt
    public_key: str
    signature: str

    @property
    def hash(self) -> str:
        """The hash that the next receipt names as the one before it."""
        return hashlib.blake2b(self.encode(), digest_size=32, person=b"hammemo-receipt").hexdigest()

    def verify(self, public_key: str | None = None) -> bool:
        """Return whether the signature is right.

        With a public key that you know, also whether the holder of its private key has signed.
        """
        if public_key not in (None, self.public_key):
            return False
        signature = bytes.fromhex(self.signature)
        return is_signed(self.public_key, _message(self.receipt), signature)

    def encode(self) -> bytes:
        """Return one line of JSON, in canonical form, without the line end."""
        facts = {
            "receipt": self.receipt.to_json(),
            "public_key": self.public_key,
            "signature": self.signature,
        }
        return strict.canonical(facts)

    @classmethod
    def decode(cls, line: bytes) -> SignedReceipt:
        """Return the signed receipt that `encode` made these bytes of; nothing is verified.

        ValueError, with the reason, for any other bytes.
        """
        facts = strict.check_names(
            strict.read_object(line), ("receipt", "public_key", "signature"), "it"
        )
        return cls(
            Receipt.from_json(facts["receipt"]),
            strict.check_hex(facts["public_key"], "the public key"),
            strict.check_hex(facts["signature"], "the signature", 64),
        )


def hash_digest(keys: Keys, digest: str) -> str:
    """Return the keyed hash of a digest.

    Without the keys, no guess about the rows can be confirmed by it.
    """
    return keys.hash_with_key(digest.encode(), b"digest before")


@cache
def library_versions() -> Mapping[str, str]:
    """Return the versions of the libraries that models are made with, here."""
    versions = {name: version(name) for name in _LIBRARIES}
    versions["python"] = platform.python_version()
    return MappingProxyType(versions)


@cache
def processor_kind() -> str:
    """Return the kind of this processor, and what its linear algebra is compiled for.

    Such as ``x86_64 Haswell``: a BLAS library chooses one of its kernels by the processor, and the
    last bits of its results depend on the kernel.
    """
    kernels: set[str] = set()
    for library in threadpool_info():
        kernel = library.get("architecture")  # libraries of threads alone have none
        if kernel:
            kernels.add(str(kernel))
    machine = platform.machine() or "unknown"
    return " ".join([machine, *sorted(kernels)])[:200]


def _message(receipt: Receipt) -> bytes:
    return f"{FORMAT} {VERSION}\n".encode() + strict.canonical(receipt.to_json())


def _check_libraries(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not 1 <= len(value) <= 32:
        raise ValueError("libraries is not a JSON object of 1 to 32 versions")
    for text in (*value, *value.values()):
        strict.check_line(text, "a library or its version", 64)
    return dict(value)


def _check_backups(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list) or len(value) > _MAX_BACKUPS:
        raise ValueError(f"backups is not a list of at most {_MAX_BACKUPS:,}")
    listed = [strict.check_names(backup, ("name", "expires"), "a backup") for backup in value]
    names = [strict.check_line(backup["name"], "the name of a backup") for backup in listed]
    ends = [strict.check_time(backup["expires"], "the expiry of a backup") for backup in listed]
    return tuple(zip(names, ends, strict=True))
