"""Formats: what the name of a file says about it, and how its bytes are reached.

All that is read comes through this module, so that tables (:mod:`hammemo.sources.read_tables`) and
documents (:mod:`hammemo.sources.documents`) read the same files:

- the **format** is the ending of the name: CSV, TSV, JSON lines, Parquet or text;
- the **compression** is an ending after it: gzip, bzip2, Zstandard or LZ4;
- the **place** is this machine, standard input, or an address such as
  ``s3://bucket/folder/a.csv.gz``.

Text, CSV and JSON lines on this machine need no extra package, plain or with gzip or bzip2.
Parquet, Zstandard, LZ4 and addresses need pyarrow, and `require_arrow` is the only place that
imports it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import sys
import tempfile
import zlib
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

from hammemo._lazy import explain_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STANDARD_INPUT: Final = "-"
TABLE_FORMATS: Final = ("csv", "tsv", "jsonl", "parquet", "arrow")
DOCUMENT_FORMATS: Final = ("parquet", "jsonl", "text")
FORMATS: Final = (*TABLE_FORMATS, "text")

ENDINGS: Final = {
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq", ".parq"),
    "arrow": (".arrow", ".arrows"),
    "text": (".txt", ".text", ".tokens"),
}
"""What names end in, by format."""

COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""What compressed a file, by the last ending of its name."""

PIECE_BYTES: Final = 2**20
"""Bytes that are read at a time."""

# ---------------------------------------------------------------- names


def compression_of(where: str) -> str | None:
    """Return what compressed a file, by the ending of its name; None for a plain one.

    Examples
    --------
    >>> from hammemo.sources.formats import compression_of
    >>> compression_of("a.csv.zst"), compression_of("s3://bucket/a.txt.gz?region=eu-west-1")
    ('zstd', 'gzip')
    >>> compression_of("a.csv") is None
    True
    """
    return COMPRESSIONS.get(_ending(_name(where)))


def format_of(where: str, default: str | None = None) -> str:
    """Return the format of a file by the ending of its name, one for compression left aside.

    Examples
    --------
    >>> from hammemo.sources.formats import format_of
    >>> format_of("events.csv.zst"), format_of("-", "jsonl")
    ('csv', 'jsonl')
    """
    name = _name(where)
    if compression_of(where) is not None:
        name = name.removesuffix(_ending(name))
    matches = (kind for kind, endings in ENDINGS.items() if name.endswith(endings))
    kind = next(matches, default)
    if kind is None:
        shown = "Standard input" if where == STANDARD_INPUT else where
        raise ValueError(
            f"{shown} has no ending that tells its format: "
            f"name it with format=, one of {', '.join(FORMATS)}."
        )
    return kind


def is_address(where: str) -> bool:
    """Return whether a place is an address on object storage, not a path on this machine."""
    return "://" in where


def _name(where: str) -> str:
    """Return a place in lower case, without what follows the path of an address."""
    if is_address(where):
        where = where.partition("?")[0]
    return where.lower()


def _ending(name: str) -> str:
    start = name.rfind(".")
    return name[start:] if start >= 0 else ""


# ---------------------------------------------------------------- pyarrow


def require_arrow(what: str, *modules: str) -> Any:
    """Return pyarrow with these modules of it, or say what needs it and how to install it."""
    with explain_missing(
        f"{what} needs pyarrow, which is not installed: pip install 'hammemo[text]'"
    ):
        for name in ("pyarrow", *(f"pyarrow.{module}" for module in modules)):
            import_module(name)
    return sys.modules["pyarrow"]


def require_reader(where: str, kind: str) -> None:
    """Refuse a file that only pyarrow reads where it is not installed, before any work is done."""
    if kind in ("parquet", "arrow"):
        require_arrow(kind.title())
    if compression_of(where) not in (None, "gzip", "bz2"):
        require_arrow(f"A file that ends in {_ending(_name(where))}")


@cache
def file_system(base: str) -> Any:
    """Return pyarrow's file system of an address; of this machine for an empty one."""
    if not base:
        return require_arrow("Native file access", "fs").fs.LocalFileSystem()
    return require_arrow("Object storage", "fs").fs.FileSystem.from_uri(base)[0]


def split_place(where: str) -> tuple[str, str]:
    """Return the address by which a place's file system is found, and the path there.

    The address is empty for this machine's file system.
    """
    if not is_address(where):
        return "", where
    return where, str(require_arrow("Object storage", "fs").fs.FileSystem.from_uri(where)[1])


@contextmanager
def parquet_file(stream: Any, where: str) -> Iterator[Any]:
    """Yield an open stream as pyarrow's ``ParquetFile``."""
    arrow = require_arrow("Parquet", "parquet")
    with seekable(stream) as file:
        try:
            parquet = arrow.parquet.ParquetFile(file)
        except arrow.ArrowInvalid as error:
            raise ValueError(
                f"{where} is not a Parquet file: use another copy of it, "
                "or name its format with format=."
            ) from error
        yield parquet


def row_groups(file: Any, start: int, stop: int | None) -> list[int]:
    """Return the row groups of a Parquet file that begin in a range of its bytes."""
    chunks = [file.metadata.row_group(group).column(0) for group in range(file.num_row_groups)]
    begins = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
    return [
        group
        for group, place in enumerate(begins)
        if start <= place and (stop is None or place < stop)
    ]


# ---------------------------------------------------------------- streams


@contextmanager
def open_stream(where: str) -> Iterator[IO[bytes]]:
    """Open a file or an address, decompressed where its name says so.

    ``-`` is standard input, which is left open.
    """
    if where == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with open_file(*split_place(where), where) as stream:
        yield stream


@contextmanager
def open_file(base: str, path: str, shown: str) -> Iterator[IO[bytes]]:
    """Open a file of a file system at its start, decompressed where its name says so.

    Errors call it `shown`.
    """
    try:
        if base:
            file = file_system(base).open_input_file(path)
        else:
            file = open(path, "rb")  # noqa: SIM115  (closed below)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{shown or 'A file without a name'} does not exist: "
            "name a file, or - for standard input."
        ) from None
    except IsADirectoryError:
        raise IsADirectoryError(f"{shown} is a folder: name a file in it.") from None
    if not isinstance(file, io.BufferedReader):
        file = io.BufferedReader(file, PIECE_BYTES)
    with file as stream:
        if compression_of(path) is None:
            yield stream
        else:
            with _decompress(stream, path) as plain:
                yield io.BufferedReader(_Decompressed(plain, shown), PIECE_BYTES)


def _decompress(stream: Any, path: str) -> Any:
    """Return a stream of what was compressed."""
    compression = compression_of(path)
    if compression == "gzip":
        return gzip.GzipFile(fileobj=stream)
    if compression == "bz2":
        return bz2.BZ2File(stream)
    require_reader(path, "text")
    return require_arrow(path).CompressedInputStream(stream, compression)


class _Decompressed(io.RawIOBase):
    """What a decompressor has in `read` as a stream of Python's.

    `name` is that of the file, for errors.
    """

    def __init__(self, stream: Any, name: str) -> None:
        self._stream = stream
        self._name = name

    def readable(self) -> bool:
        """Return True: that is what it is for."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes into a buffer; none at the end."""
        try:
            data = self._stream.read(len(buffer))
        except (EOFError, OSError, zlib.error) as error:
            # An error of the disk or the network has a number; a decompressor's has none.
            if getattr(error, "errno", None) is not None:
                raise
            raise ValueError(
                f"{self._name} is damaged or not compressed as its name says: "
                "use another copy of it."
            ) from error
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def seekable(stream: Any) -> Iterator[Any]:
    """Yield a stream that can be read from its end.

    What cannot, such as a pipe, is copied to a file first.
    """
    if stream.seekable():
        yield stream
        return
    with tempfile.TemporaryFile() as copy:
        while piece := stream.read(PIECE_BYTES):
            copy.write(piece)
        copy.seek(0)
        yield copy


Copies: TypeAlias = "dict[Any, IO[bytes]]"
"""Copies of what can be read only once, by its name."""

_COPY_IN_MEMORY: Final = 2**26
"""Bytes of a copy up to which it stays in memory; a larger one is a temporary file."""


@contextmanager
def copy_streams(places: Iterable[Any]) -> Iterator[Copies]:
    """Copy standard input and pipes among some places, so that they can be read twice.

    Yield the copies.
    """
    copies: Copies = {}
    with ExitStack() as stack:
        for where in places:
            if not isinstance(where, str) or not _is_stream(where):
                continue
            if where in copies:
                shown = "Standard input" if where == STANDARD_INPUT else where
                raise ValueError(
                    f"{shown} can be read only once, and it is named twice: name it once."
                )
            copies[where] = stack.enter_context(tempfile.SpooledTemporaryFile(_COPY_IN_MEMORY))
            with open_stream(where) as stream:
                while piece := stream.read(PIECE_BYTES):
                    copies[where].write(piece)
        yield copies


def _is_stream(where: str) -> bool:
    """Return whether a place can be read only once."""
    if where == STANDARD_INPUT:
        return True
    return (
        not is_address(where)
        and os.path.exists(where)
        and not os.path.isfile(where)
        and not os.path.isdir(where)
    )


# ---------------------------------------------------------------- text and JSON


def not_utf8(where: str, error: UnicodeDecodeError) -> ValueError:
    """Return the error of a file that is not text as it should be."""
    return ValueError(
        f"{where} is not text in UTF-8 ({error.reason}): "
        "convert it (iconv -t UTF-8), or name its format with format=."
    )


def json_value(line: bytes, place: str) -> Any:
    """Return the value of a line of JSON, or say what is wrong at that place."""
    try:
        value = json.loads(line)
    except UnicodeDecodeError as error:
        raise not_utf8(place, error) from error
    except (ValueError, RecursionError) as error:
        shown = line[:40].decode("utf-8", "replace").strip()
        raise ValueError(
            f"{place} cannot be read: {shown!r} is not JSON. "
            "Write one JSON value per line (jq -c '.[]' makes lines of an array)."
        ) from error
    if any(sign in line for sign in _MAYBE_SURROGATES):
        _refuse_surrogates(value, place)
    return value


_MAYBE_SURROGATES: Final = (b"\\ud", b"\\uD", b"\xed")
"""One of these is in every line of JSON that holds half of a surrogate pair."""


def _refuse_surrogates(value: Any, place: str) -> None:
    """Refuse half of a surrogate pair.

    As a token or a label it could be learned, but never be written as an answer.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{place} holds {error.object[error.start]!a}, half of a surrogate pair, which "
            "is not a character and cannot be written as text: replace it, for example by '?'."
        ) from error


def json_lines(lines: Iterable[bytes], where: str) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line of JSON that is not blank."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, json_value(line, f"{where}, line {number}")
