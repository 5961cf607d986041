"""Bearer tokens: who is asking, for which tenant, and what they may do.

A token is ``hm_<id>_<secret>``. The secret has 256 random bits, so one fast hash protects it:
it cannot be guessed. A slow hash such as scrypt is made for passwords that people choose, and
would only let callers keep the server busy. The file holds the id and the BLAKE2b-256 of the
secret, never the secret itself. The id finds the entry; the hashes are compared in constant
time, also where there is no such id.

A thread reads the file every second, so that tokens are added and revoked without a restart,
and no request waits for the disk. It compares contents, not times or sizes. A file that cannot
be read or is not right leaves the tokens as they were, and the log says so: revoke a token by
writing a right file.

A file that exists is overwritten in place. It keeps its owner, so that the user of a container
can still read it, and a container that has the file itself mounted sees the change. A copy
beside it, ``NAME.new``, is there until the file is whole on the disk.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import stat
import threading
import time
import weakref
from dataclasses import dataclass
from hmac import compare_digest
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

from hammemo.files.atomic import write_private
from hammemo.files.locks import locked
from hammemo_server.edits.operations import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Role = Literal["read", "learn", "forget", "admin", "audit", "metrics"]
ROLES: Final = get_args(Role)
"""read asks and describes; learn and forget edit, and forget refits; admin makes, removes,
uploads and downloads models, reads metrics; audit reads the audit record; metrics reads
metrics, and nothing else."""


_TOKEN: Final = re.compile(r"hm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_NO_HASH: Final = "0" * 64
_LOOK_AGAIN: Final = 1.0
"""Seconds between two looks at the file."""
_MAX_FILE_BYTES: Final = 2**22
_LAST_EXPIRY: Final = 253_402_300_800
"""The year 10000, which no date can name."""

log = logging.getLogger("hammemo.serve")


@dataclass(frozen=True)
class Caller:
    """Who is asking: a tenant and what this token may do."""

    tenant: str
    roles: frozenset[str]
    name: str = ""


NO_CALLER: Final = Caller("", frozenset())
"""The caller before a token was read."""
LOCAL_CALLER: Final = Caller("default", frozenset(ROLES), "local")
"""The one caller of a server without tokens: everything is theirs."""


class StoredToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One token as the file holds it."""

    id: Annotated[str, Meta(pattern=r"\A[0-9a-f]{12}\Z")]
    name: Annotated[str, Meta(max_length=100)]
    tenant: Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]
    roles: Annotated[tuple[Role, ...], Meta(min_length=1)]
    hash: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    expires: Annotated[int, Meta(gt=0, lt=_LAST_EXPIRY)] | None
    """When it expires, in seconds since 1970; None for never."""

    def __post_init__(self) -> None:
        if not self.name.isprintable():
            raise ValueError("the name of a token is a short line of text")


class _TokenFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: list[StoredToken]


_decoder: Final = msgspec.json.Decoder(_TokenFile)


def new_token(
    tenant: str, roles: Iterable[str], name: str = "", days: float | None = None
) -> tuple[str, StoredToken]:
    """Return a new token, to be shown once, and what the file keeps of it.

    It expires after so many days, or never.

    Examples
    --------
    >>> from hammemo_server.http.tokens import new_token
    >>> token, entry = new_token("acme", ["read"])
    >>> token.startswith(f"hm_{entry.id}_"), entry.roles, token[-43:] in str(entry)
    (True, ('read',), False)
    """
    key = secrets.token_hex(6)
    secret = secrets.token_urlsafe(32)
    expires = None if days is None else int(time.time() + days * 86_400)
    entry = {
        "id": key,
        "name": name,
        "tenant": tenant,
        "roles": list(roles),
        "hash": _hash(secret),
        "expires": expires,
    }
    try:
        return f"hm_{key}_{secret}", msgspec.convert(entry, StoredToken)
    except msgspec.ValidationError as error:
        raise ValueError(f"There can be no such token: {error}.") from None


def _hash(secret: str) -> str:
    return hashlib.blake2b(secret.encode(), digest_size=32, person=b"hammemo-token").hexdigest()


def read_entries(path: Path) -> list[StoredToken]:
    """Return the tokens of a file, or refuse it as a whole."""
    return _entries_of(path, _content_of(path))


def _content_of(path: Path) -> bytes:
    with path.open("rb") as file:
        facts = os.fstat(file.fileno())
        if os.name == "posix" and facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ValueError(
                f"{path} may be written by others, who could give themselves tokens: chmod go-w it."
            )
        if facts.st_nlink == 0:  # only a mount of the file itself still shows it
            raise ValueError(
                f"{path} was replaced or deleted behind its mount: "
                "mount its folder, and start again."
            )
        text = file.read(_MAX_FILE_BYTES + 1)
    if len(text) > _MAX_FILE_BYTES:
        raise ValueError(f"{path} has more than {_MAX_FILE_BYTES} bytes: it is not a token file.")
    return text


def _entries_of(path: Path, text: bytes) -> list[StoredToken]:
    try:
        entries = _decoder.decode(text).tokens
        if len({entry.id for entry in entries}) != len(entries):
            raise ValueError("two tokens have the same id")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        spare = _spare(path)
        way_out = (
            f"{spare} has all of it: move it here"
            if spare.exists()
            else "`hammemo tokens add` writes one"
        )
        raise ValueError(f"{path} is not a token file: {error}. {way_out}.") from None
    return entries


def _spare(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def write_entries(path: Path, entries: Iterable[StoredToken]) -> None:
    """Write a token file that only its owner may read.

    One that is there keeps its owner, its mode and its mounts.
    """
    text = msgspec.json.format(msgspec.json.encode(_TokenFile(list(entries))), indent=2) + b"\n"
    if not path.exists():
        write_private(path, [text])
        return
    write_private(_spare(path), [text])
    with path.open("r+b") as file:
        file.write(text)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    _spare(path).unlink()


def change_entries(
    path: Path, change: Callable[[list[StoredToken]], list[StoredToken]], *, make: bool = False
) -> None:
    """Change the tokens of a file, under its lock; `make` writes a file where there is none."""
    with locked(path):
        entries = [] if make and not path.exists() else read_entries(path)
        write_entries(path, change(entries))


class Tokens:
    """The tokens of a file, as the file is now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content = _content_of(path)
        self._failure = ""
        self._entries = _by_id(_entries_of(path, self._content))
        if not self._entries:
            raise ValueError(
                f"{path} holds no token, so every request is refused: "
                f"run `hammemo tokens add {path}`."
            )
        threading.Thread(
            target=_keep_looking, args=(weakref.ref(self),), name="tokens", daemon=True
        ).start()

    def look(self) -> None:
        """Read the file again, and take its tokens if it holds others than before."""
        try:
            content = _content_of(self.path)
            if content != self._content:
                self._entries = _by_id(_entries_of(self.path, content))
                self._content = content
                log.info("tokens_read", extra={"facts": {"tokens": len(self._entries)}})
            self._failure = ""
        except (OSError, ValueError) as error:
            if self._failure != str(error):  # said once
                self._failure = str(error)
                log.error(
                    "tokens_not_read",
                    extra={"facts": {"error": type(error).__name__, "reason": str(error)}},
                )

    def caller(self, token: str) -> Caller | None:
        """Return who has this token, or None; one that has expired is no token."""
        match = _TOKEN.fullmatch(token)
        key = match[1] if match else ""
        secret = match[2] if match else ""
        entry, caller = self._entries.get(key, (None, None))
        right = compare_digest(_hash(secret), _NO_HASH if entry is None else entry.hash)
        if (
            entry is None
            or not right
            or (entry.expires is not None and time.time() >= entry.expires)
        ):
            return None
        return caller


def _keep_looking(reference: weakref.ref[Tokens]) -> None:
    """Read a file again every second, as long as its tokens are used."""
    while (tokens := reference()) is not None:
        tokens.look()
        del tokens
        time.sleep(_LOOK_AGAIN)


def _by_id(entries: list[StoredToken]) -> dict[str, tuple[StoredToken, Caller]]:
    """Return tokens, and who has them, by their ids."""
    return {
        entry.id: (entry, Caller(entry.tenant, _roles_of(entry), entry.name)) for entry in entries
    }


def _roles_of(entry: StoredToken) -> frozenset[str]:
    return frozenset((*entry.roles, "metrics") if "admin" in entry.roles else entry.roles)
