"""The file of a backup: one line of JSON that says what it is, then frames of rows.

A frame is its length in four bytes and MessagePack of a kind and its rows, about a mebibyte.
Those of a model with subjects are encrypted with the key of the backup (AES-256-GCM), those of
other models have a digest. Both are bound to the first line, to the number of the frame and to
whether it is the last one, so a file that was cut, changed or put together from two is refused.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from hammemo.files.archive import FileError
from hammemo.receipts.strict_json import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hammemo_server.store.vault import Cipher

FORMAT: Final = "hammemo-backup"
VERSION: Final = 2

_FRAME: Final = 2**20
"""Bytes of rows after which a frame ends."""

_MAX_FRAME: Final = 2**31
_MAX_HEADER: Final = 2**16
_LENGTH: Final = 4
_DIGEST: Final = 32
_DAMAGED: Final = "The backup is damaged: it was cut or changed."

_frame_decoder = msgspec.msgpack.Decoder(tuple[str, list[tuple[Any, ...]]])


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the first line of a backup says."""

    format: str = FORMAT
    version: int = VERSION
    id: str
    """How receipts name it; the file has this name, too."""
    tenant: str
    model: str
    made: str
    expires: str | None
    """When the key of the backup is dropped; None for a model without subjects, whose backup is
    not encrypted."""

    def line(self) -> bytes:
        """Return the first line, to which all frames are bound."""
        return canonical(msgspec.to_builtins(self)) + b"\n"


class FrameDigests:
    """Frames with digests: damage shows, and everyone can read them."""

    def seal(self, plain: bytes, place: bytes) -> bytes:
        """Return the bytes with their digest in front."""
        return blake2b(place + plain, digest_size=_DIGEST).digest() + plain

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """Return the bytes; ValueError if they are others."""
        plain = sealed[_DIGEST:]
        if self.seal(plain, place) != sealed:
            raise ValueError("a frame was changed")
        return plain


def write_backup(
    file: BinaryIO,
    header: Header,
    sealing: Cipher | FrameDigests,
    records: Iterable[tuple[str, tuple[Any, ...]]],
) -> None:
    """Write rows, each with its kind; rows of one kind follow each other."""
    line = header.line()
    file.write(line)
    for number, (frame, following) in enumerate(pairwise(chain(_frames(records), [b""]))):
        sealed = sealing.seal(frame, _place(line, number, last=not following))
        file.write(len(sealed).to_bytes(_LENGTH, "big") + sealed)


def read_header(file: BinaryIO) -> Header:
    """Return what the first line of a file says, or refuse a file that is no backup."""
    line = file.readline(_MAX_HEADER)
    try:
        about = msgspec.json.decode(line, type=dict[str, Any])
        if about.get("format") != FORMAT:
            raise FileError("The file is not a backup of hammemo.")
        if about.get("version") != VERSION:
            raise FileError(
                f"The backup has the format {about.get('version')}, "
                f"and this hammemo reads {VERSION}."
            )
        header = msgspec.convert(about, Header)
    except msgspec.MsgspecError:
        raise FileError("The file is not a backup of hammemo.") from None
    if header.line() != line:
        raise FileError(_DAMAGED)
    return header


def read_backup(
    file: BinaryIO, sealing: Cipher | FrameDigests
) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Yield kinds and rows of a file from its beginning; `FileError` where it was changed."""
    file.seek(0)
    line = read_header(file).line()
    number = -1
    for number, (sealed, following) in enumerate(pairwise(chain(_read_sealed_frames(file), [b""]))):
        try:
            yield _frame_decoder.decode(
                sealing.unseal(sealed, _place(line, number, last=not following))
            )
        except (ValueError, msgspec.MsgspecError):
            raise FileError(_DAMAGED) from None
    if number < 0:
        raise FileError(_DAMAGED)


def _read_sealed_frames(file: BinaryIO) -> Iterator[bytes]:
    while length := file.read(_LENGTH):
        yield file.read(min(int.from_bytes(length, "big"), _MAX_FRAME))


def _frames(records: Iterable[tuple[str, tuple[Any, ...]]]) -> Iterator[bytes]:
    """Yield frames: rows of one kind, as many as have about a mebibyte."""
    kind = ""
    rows = list[tuple[Any, ...]]()
    size = 0
    for kind_of_row, row in records:
        if rows and (kind_of_row != kind or size >= _FRAME):
            yield msgspec.msgpack.encode((kind, rows))
            rows = []
            size = 0
        kind = kind_of_row
        rows.append(row)
        size += sum(len(value) if isinstance(value, (bytes, str)) else 9 for value in row)
    if rows:
        yield msgspec.msgpack.encode((kind, rows))


def _place(line: bytes, number: int, *, last: bool) -> bytes:
    return blake2b(line, digest_size=_DIGEST).digest() + number.to_bytes(8, "big") + bytes([last])
