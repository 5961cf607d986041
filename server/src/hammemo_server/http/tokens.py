"""Bearer tokens: who is asking, for which tenant, and what they may do.

A token is ``hm_<id>_<secret>``. The secret has 256 random bits, so one fast hash protects it: it cannot be guessed.
A slow hash such as scrypt is made for passwords that people choose, and would only let callers keep the server busy.
The file holds the id and the BLAKE2b-256 of the secret, never the secret itself. The id finds the entry; the hashes are
compared in constant time, also where there is no such id.

The file is read again when it changes, so that tokens are added and removed without a restart. A file that cannot be
read or is not right leaves the tokens as they were, and the log says so: take a token back by writing a right file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import secrets
import stat
import time
from dataclasses import asdict, dataclass
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final

from hammemo.files.atomic import write_private
from hammemo.files.locks import locked
from hammemo_server.edits.operations import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

ROLES: Final = ("read", "learn", "forget", "admin", "audit", "metrics")
"""read asks and describes; learn and forget edit, and forget refits; admin makes, removes, uploads and downloads
models, reads metrics; audit reads the audit record; metrics reads metrics, and nothing else."""

LOCAL_TENANT: Final = "default"
"""The tenant of a server without a token file."""

_TOKEN: Final = re.compile(r"hm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_HASH: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NO_HASH: Final = "0" * 64
_LOOK_AGAIN: Final = 1.0
"""Seconds between two looks at the file."""
_MAX_FILE_BYTES: Final = 2**22

log = logging.getLogger("hammemo.serve")


@dataclass(frozen=True)
class Caller:
    """Who is asking: a tenant and what this token may do."""

    tenant: str
    roles: frozenset[str]
    name: str = ""


NO_CALLER: Final = Caller("", frozenset())
"""The caller before a token was read."""


@dataclass(frozen=True)
class StoredToken:
    """One token as the file holds it."""

    id: str
    name: str
    tenant: str
    roles: tuple[str, ...]
    hash: str


def local_caller() -> Caller:
    """Return the one caller of a server without tokens: everything is theirs."""
    return Caller(LOCAL_TENANT, frozenset(ROLES), "local")


def new_token(tenant: str, roles: Iterable[str], name: str = "") -> tuple[str, StoredToken]:
    """Return a new token, to be shown once, and what the file keeps of it.

    Examples
    --------
    >>> from hammemo_server.http.tokens import new_token
    >>> token, entry = new_token("acme", ["read"])
    >>> token.startswith(f"hm_{entry.id}_"), entry.roles, token[-43:] in str(entry)
    (True, ('read',), False)
    """
    key, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    entry = _checked({"id": key, "name": name, "tenant": tenant, "roles": list(roles), "hash": _hash(secret)})
    return f"hm_{key}_{secret}", entry


def _hash(secret: str) -> str:
    return hashlib.blake2b(secret.encode(), digest_size=32, person=b"hammemo-token").hexdigest()


def _checked(given: Any) -> StoredToken:
    """Return an entry of the file, or refuse it; a wrong value is named, but never a hash."""
    if not isinstance(given, dict) or set(given) != {"id", "name", "tenant", "roles", "hash"}:
        raise ValueError("a token has the entries id, name, tenant, roles and hash, no other ones")
    key, name, tenant, roles, digest = (given[entry] for entry in ("id", "name", "tenant", "roles", "hash"))
    if not isinstance(key, str) or not re.fullmatch(r"[0-9a-f]{12}", key, re.ASCII):
        raise ValueError("the id of a token is not 12 hexadecimal digits")
    if not isinstance(name, str) or len(name) > 100 or not name.isprintable():
        raise ValueError(f"the name of token {key} is not a short line of text")
    if not isinstance(tenant, str) or not NAME.fullmatch(tenant):
        raise ValueError(f"the tenant of token {key} is not 1 to 64 of a-z, 0-9, _ and -, beginning with a-z or 0-9")
    if not isinstance(roles, list) or not roles or any(role not in ROLES for role in roles):
        raise ValueError(f"the roles of token {key} are not some of {', '.join(ROLES)}")
    if not isinstance(digest, str) or not _HASH.fullmatch(digest):
        raise ValueError(f"the hash of token {key} is not 64 hexadecimal digits")
    return StoredToken(key, name, tenant, tuple(role for role in ROLES if role in roles), digest)


def read_entries(path: Path) -> list[StoredToken]:
    """Return the tokens of a file, or refuse it as a whole."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if os.name == "posix" and mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ValueError(f"{path} may be written by others, who could give themselves tokens: chmod go-w it.")
        text = file.read(_MAX_FILE_BYTES + 1)
    if len(text) > _MAX_FILE_BYTES:
        raise ValueError(f"{path} has more than {_MAX_FILE_BYTES} bytes: it is no token file.")
    try:
        held = json.loads(text)
        if not isinstance(held, dict) or set(held) != {"tokens"} or not isinstance(held["tokens"], list):
            raise ValueError('it is not {"tokens": [...]}')
        entries = [_checked(given) for given in held["tokens"]]
        if len({entry.id for entry in entries}) != len(entries):
            raise ValueError("two tokens have the same id")
    except (ValueError, RecursionError) as error:
        reason = "it is not JSON" if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)) else error
        raise ValueError(f"{path} is no token file: {reason}. `hammemo tokens add` writes one.") from None
    return entries


def write_entries(path: Path, entries: Iterable[StoredToken]) -> None:
    """Write a token file that only its owner may read, in one step."""
    text = json.dumps({"tokens": [asdict(entry) for entry in entries]}, indent=2) + "\n"
    write_private(path, [text.encode()])


def change_entries(path: Path, change: Callable[[list[StoredToken]], list[StoredToken]], *, make: bool = False) -> None:
    """Change the tokens of a file, under its lock; `make` writes a file where there is none."""
    with locked(path):
        entries = [] if make and not path.exists() else read_entries(path)
        write_entries(path, change(entries))


class Tokens:
    """The tokens of a file, as the file is now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: dict[str, StoredToken] = {}
        self._callers: dict[str, Caller] = {}
        self._seen: tuple[int, ...] | None = None
        self._next = 0.0
        self._read()
        self._seen = self._mark()
        if not self._entries:
            raise ValueError(f"{path} holds no token, so every request is refused: run `hammemo tokens add {path}`.")

    def _read(self) -> None:
        self._entries = {entry.id: entry for entry in read_entries(self.path)}
        self._callers = {entry.id: _caller_of(entry) for entry in self._entries.values()}

    def _mark(self) -> tuple[int, ...]:
        found = self.path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _look(self) -> None:
        """Read the file again if it is another one than before."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _LOOK_AGAIN
        try:
            mark = self._mark()
            if mark == self._seen:
                return
            self._read()
            self._seen = mark
            log.info("tokens_read", extra={"facts": {"tokens": len(self._entries)}})
        except (OSError, ValueError) as error:
            log.error("tokens_not_read", extra={"facts": {"error": type(error).__name__}})

    @property
    def tenants(self) -> frozenset[str]:
        """All tenants that have a token."""
        return frozenset(entry.tenant for entry in self._entries.values())

    def caller(self, token: str) -> Caller | None:
        """Return who has this token, or None."""
        self._look()
        parts = _TOKEN.fullmatch(token)
        key, secret = parts.groups() if parts else ("", "")
        entry = self._entries.get(key)
        right = compare_digest(_hash(secret), _NO_HASH if entry is None else entry.hash)
        if entry is None or not right:
            return None
        return self._callers[key]


def _caller_of(entry: StoredToken) -> Caller:
    implied = {"metrics"} if "admin" in entry.roles else set()
    return Caller(entry.tenant, frozenset(entry.roles) | implied, entry.name)
