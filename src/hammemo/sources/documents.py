r"""Sources: collections of documents in files, cut into shards that can be learnt anywhere and added up.

A source is a sorted list of Parquet, JSON-lines or text files, on this machine or on object storage. A *document* is a
row of a Parquet column (a list of tokens, or a text for a tokenizer), the same in a line of JSON, or a line of text. A
*shard* is a range of bytes of one file, and it holds the documents that *begin* in that range:

- in a file of text or JSON lines, the lines whose first byte lies in it, read to their end even where that is in the
  next shard's range;
- in a Parquet file, the row groups whose first page lies in it.

So each document is in exactly one shard, and whole, however the files are cut; windows never cross documents
(:mod:`hammemo.tokens.streams`); and the model is a sum over the documents. Hence no cutting changes the result. No file
has to be opened to cut a source, only listed.

Files are read piece by piece: memory is bounded by the pieces, the size of a Parquet page and the longest document.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hammemo.tokens.contexts import document as token_document
from hammemo.tokens.streams import BLOCK_TOKENS, Block, stream_blocks

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

SHARD_BYTES: Final = 2**24, 2**28
"""The smallest and the largest size of a shard that is chosen when none is asked for."""

TOKENIZERS: Final = ("ids", "words", "characters", "bytes")
"""The tokenizers that have a name; any other name is the path of a file of the ``tokenizers`` package."""

_FEW_SHARDS: Final = 64
_SAMPLE_FILES: Final = 16
_PIECE_BYTES: Final = 2**20
_JSON_LINES: Final = (".jsonl", ".ndjson", ".json")
_PARQUET: Final = (".parquet", ".pq", ".parq")
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".lz4")
_INTEGER_LIMIT: Final = 2**63 - 1


@dataclass(frozen=True)
class File:
    """One file of a source.

    Parameters
    ----------
    base : str
        The address that the file system is found by; empty for this machine's.
    path : str
        The path in that file system.
    size : int
        Bytes.
    modified : int
        When it was last written, in nanoseconds since 1970; 0 where that is not known.
    """

    base: str
    path: str
    size: int
    modified: int = 0


@dataclass(frozen=True)
class Shard:
    """The documents that begin in the bytes ``start`` to ``stop`` of a file."""

    file: File
    start: int
    stop: int


@dataclass(frozen=True)
class Pieces:
    """Some whole documents: as a flat array and where each starts, or one by one."""

    tokens: NDArray[Any] | list[NDArray[Any]]
    starts: NDArray[np.int64] | None

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""
        return len(self.tokens) if self.starts is not None else sum(map(len, self.tokens))

    def documents(self) -> Iterator[NDArray[Any]]:
        """Yield the documents one by one."""
        if self.starts is None:
            yield from self.tokens
        else:
            yield from np.split(np.asarray(self.tokens), self.starts[1:])


@dataclass(frozen=True)
class Source:
    """Documents in files; made by `open_source`.

    Parameters
    ----------
    files : tuple of File
        In canonical order: sorted by path.
    format : {"parquet", "jsonl", "text"}
    tokens : str
        The tokenizer's name.
    column : str, optional
        The Parquet column, or the field of JSON objects, that holds the documents.
    vocabulary : str
        With a tokenizer from a file: its text, so that workers need not find the file.
    """

    files: tuple[File, ...]
    format: str
    tokens: str = "ids"
    column: str | None = None
    vocabulary: str = ""

    @property
    def nbytes(self) -> int:
        """Size of all files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def fair_bytes(self) -> int:
        """A size for shards: some dozens of them, but none too small or too large."""
        return min(max(self.nbytes // _FEW_SHARDS, SHARD_BYTES[0]), SHARD_BYTES[1])

    def shards(self, shard_bytes: int | None = None) -> list[Shard]:
        """Cut the source; by default into some dozens of shards or, if these would be too large, into more.

        Examples
        --------
        >>> from hammemo.sources.documents import File, Source
        >>> source = Source((File("", "/data/a.txt", 25), File("", "/data/b.txt", 8)), "text")
        >>> [(shard.file.path, shard.start, shard.stop) for shard in source.shards(10)]
        [('/data/a.txt', 0, 9), ('/data/a.txt', 9, 17), ('/data/a.txt', 17, 25), ('/data/b.txt', 0, 8)]
        """
        shard_bytes = self.fair_bytes if shard_bytes is None else shard_bytes
        if shard_bytes < 1:
            raise ValueError(f"shard_bytes={shard_bytes!r}: a shard has at least one byte.")
        shards = []
        for file in self.files:
            parts = 1 if file.path.endswith(_COMPRESSED) else max(1, -(-file.size // shard_bytes))
            edges = [-(-file.size * part // parts) for part in range(parts + 1)]
            shards += [Shard(file, start, stop) for start, stop in pairwise(edges)]
        return shards

    def fingerprint(self) -> str:
        """Return a short name of the files (paths, sizes, times of change) and of how they are read."""
        words = [self.format, self.tokens, str(self.column), self.vocabulary]
        words += [f"{file.base}\n{file.path}\n{file.size}\n{file.modified}" for file in self.files]
        return hashlib.blake2b("\0".join(words).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def pieces(self, shard: Shard) -> Iterator[Pieces]:
        """Yield the documents of a shard, some at a time."""
        return self._parquet_pieces(shard) if self.format == "parquet" else self._text_pieces(shard)

    def documents(self) -> Iterator[NDArray[Any]]:
        """Yield all documents, in canonical order, each as an array of tokens."""
        return chain.from_iterable(map(self._file_documents, self.files))

    def sample(self, h: int, short: str = "drop", pad: Any = None, tokens: int = BLOCK_TOKENS) -> Block | None:
        """Return the first documents of some files, evenly spaced through the source, as one block.

        Which ones depends on the files alone and not on any cutting. None if no document has a window.
        """
        step = -(-len(self.files) // _SAMPLE_FILES)
        chosen = self.files[::step]
        share = -(-tokens // len(chosen)) if len(chosen) > 1 else None
        first = chain.from_iterable(_first_tokens(self._file_documents(file), share, h) for file in chosen)
        block = next(stream_blocks(first, h, None, short, pad, tokens), None)
        return block or next(stream_blocks(self.documents(), h, None, short, pad, tokens), None)

    def _file_documents(self, file: File) -> Iterator[NDArray[Any]]:
        for piece in self.pieces(Shard(file, 0, file.size)):
            yield from piece.documents()

    def _text_pieces(self, shard: Shard) -> Iterator[Pieces]:
        system, path = _file_system(shard.file.base), shard.file.path
        opened = system.open_input_stream(path) if path.endswith(_COMPRESSED) else system.open_input_file(path)
        stop = None if path.endswith(_COMPRESSED) else shard.stop
        with opened as stream:
            yield from self.stream_pieces(stream, path, shard.start, stop)

    def stream_pieces(self, stream: Any, name: str, start: int = 0, stop: int | None = None) -> Iterator[Pieces]:
        """Yield the documents of lines that begin in a range of bytes of an open file, some at a time."""
        encode = _encoder(self.tokens, self.vocabulary)
        decode = _json_decoder(encode, self.column) if self.format == "jsonl" else lambda line: encode(line.decode())
        for lines in _line_batches(stream, start, stop):
            try:
                documents = [decode(line) for line in lines if line.strip()]
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{name} is no text in UTF-8 ({error.reason}): convert it, or name its format."
                ) from error
            except (ValueError, RecursionError) as error:  # words that are no numbers, lines that are no JSON
                raise ValueError(f"{name} cannot be read: {error}") from error
            if documents:
                yield _joined(documents)

    def _parquet_pieces(self, shard: Shard) -> Iterator[Pieces]:
        from pyarrow import parquet

        with _file_system(shard.file.base).open_input_file(shard.file.path) as stream:
            try:
                file = parquet.ParquetFile(stream)
            except _arrow().ArrowInvalid as error:
                raise ValueError(f"{shard.file.path} is no Parquet file: {error}") from error
            column = _column(file.schema_arrow, self.column, shard.file.path)
            index = _leaf(file, column)
            groups = [g for g in range(file.num_row_groups) if shard.start <= _first_page(file, g) < shard.stop]
            if not groups:
                return
            values = sum(file.metadata.row_group(g).column(index).num_values for g in groups)
            rows = sum(file.metadata.row_group(g).num_rows for g in groups)
            batch = max(1, min(2**16, BLOCK_TOKENS * rows // max(values, 1)))
            for rows_read in file.iter_batches(batch, row_groups=groups, columns=[column], use_threads=False):
                yield self._decoded(rows_read.column(0), shard.file.path)

    def _decoded(self, rows: Any, path: str) -> Pieces:
        kinds = _arrow().types
        if not (kinds.is_list(rows.type) or kinds.is_large_list(rows.type)):
            encode = _encoder(self.tokens, self.vocabulary)
            return _joined([encode(text) for text in rows.to_pylist() if text and text.strip()])
        from pyarrow import compute

        lengths = compute.fill_null(compute.list_value_length(rows), 0).to_numpy(zero_copy_only=False)
        values = rows.flatten()
        if values.null_count:
            raise ValueError(f"{path} has a document with a missing token: drop it, or write a token of its own there.")
        if kinds.is_string(values.type) or kinds.is_large_string(values.type):
            strings = np.array(values.to_pylist(), dtype=object)
            return Pieces(np.split(strings, np.cumsum(lengths)[:-1]), None)
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        return Pieces(values.to_numpy(zero_copy_only=False), starts)


def open_source(
    where: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    tokens: str = "ids",
    column: str | None = None,
    format: Literal["parquet", "jsonl", "text"] | None = None,  # noqa: A002
) -> Source:
    r"""Return the source of files, folders, globs or addresses on object storage.

    Parameters
    ----------
    where : str, path, or several of them
        A file; a folder, with all that is in it; a glob such as ``data/*/part-*.parquet`` (``**`` crosses folders); or
        the same behind an address that pyarrow's file systems know, such as ``s3://bucket/folder``. Files whose names
        begin with a dot or an underscore are left out of folders.
    tokens : str
        How a text becomes tokens: "ids" (whole numbers with blanks between), "words" (split at blanks), "characters",
        "bytes", or the path of a ``tokenizer.json`` of the ``tokenizers`` package. Lists of a Parquet column or of JSON
        lines are taken as they are.
    column : str, optional
        The Parquet column, or the field of JSON objects, with the documents; needed where there are several.
    format : {"parquet", "jsonl", "text"}, optional
        By default "parquet" for names that end in .parquet, .pq or .parq, "jsonl" for .jsonl, .ndjson and .json,
        otherwise "text". Text and JSON files may be compressed (.gz, .bz2, .zst, .lz4); then each is one shard.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo.sources.documents import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "b.txt").write_text("to be or not\n\nto be\n")
    ...     _ = Path(folder, "a.txt").write_text("the rest\n")
    ...     source = open_source(folder, tokens="words")
    ...     documents = [document.tolist() for document in source.documents()]
    >>> documents
    [['the', 'rest'], ['to', 'be', 'or', 'not'], ['to', 'be']]
    """
    _arrow()
    places = [where] if isinstance(where, str) or hasattr(where, "__fspath__") else list(where)
    found = {file for place in places for file in _listed(str(place))}
    files = tuple(sorted(found, key=lambda file: (file.base, file.path)))
    if not files:
        raise FileNotFoundError(f"{where} holds no file. Name a file, a folder with files in it, or a glob in quotes.")
    formats = {_format(file.path) for file in files}
    if format is None and len(formats) > 1:
        kinds = " and ".join(sorted(formats))
        raise ValueError(f"{where} holds {kinds} files: name only the ones that are meant, with a glob.")
    if format not in (None, "parquet", "jsonl", "text"):
        raise ValueError(f"format={format!r} is not known: use 'parquet', 'jsonl' or 'text'.")
    return replace(stream_source(format or formats.pop(), tokens, column), files=files)


def stream_source(format: str, tokens: str = "ids", column: str | None = None) -> Source:  # noqa: A002
    r"""Return a source without files, whose `stream_pieces` reads lines that come from elsewhere, as from a pipe.

    Examples
    --------
    >>> import io
    >>> from hammemo.sources.documents import stream_source
    >>> pieces = stream_source("jsonl", "words").stream_pieces(io.BytesIO(b'{"text": "to be"}\n["a", "b"]\n'), "a pipe")
    >>> [document.tolist() for piece in pieces for document in piece.documents()]
    [['to', 'be'], ['a', 'b']]
    """
    source = Source((), format, tokens, column)
    return source if tokens in TOKENIZERS else replace(source, vocabulary=_tokenizer_file(tokens))


def _format(path: str) -> str:
    for ending in _COMPRESSED:
        path = path.removesuffix(ending)
    return "parquet" if path.endswith(_PARQUET) else "jsonl" if path.endswith(_JSON_LINES) else "text"


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.fs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Sources are read with pyarrow, which is not installed: pip install 'hammemo[text]'", name=error.name
        ) from error
    return pyarrow


# ---------------------------------------------------------------- files


def _file_system(base: str) -> Any:
    """Return the file system of an address; one without an address is this machine's."""
    systems = _arrow().fs
    return systems.LocalFileSystem() if not base else _remote_system(base)


@cache
def _remote_system(base: str) -> Any:
    return _arrow().fs.FileSystem.from_uri(base)[0]


def _listed(place: str) -> list[File]:
    """Return the files at a path, an address or a glob."""
    systems = _arrow().fs
    address, _, query = place.partition("?") if "://" in place else (place, "", "")
    fixed, pattern = _split_glob(address, wild="*[" if "://" in place else "*?[")
    if "://" in place:
        base = fixed + (f"?{query}" if query else "")
        system, root = systems.FileSystem.from_uri(base)
    else:
        import os

        base, system, root = "", systems.LocalFileSystem(), os.path.abspath(fixed).replace(os.sep, "/")
    info = system.get_file_info(root)
    if info.type == systems.FileType.File:
        return [] if pattern else [_file(base, info)]
    if info.type == systems.FileType.NotFound and not pattern:
        raise FileNotFoundError(f"{place} does not exist.")
    inside = system.get_file_info(systems.FileSelector(root, recursive=True, allow_not_found=True))
    files = [entry for entry in inside if entry.type == systems.FileType.File]
    names = [entry.path[len(root) :].strip("/") for entry in files]
    if pattern:
        wanted = [bool(pattern.fullmatch(name)) for name in names]
    else:
        wanted = [not any(part[:1] in "._" for part in name.split("/")) for name in names]
    return [_file(base, entry) for entry, kept in zip(files, wanted, strict=True) if kept]


def _file(base: str, info: Any) -> File:
    return File(base, info.path, info.size, info.mtime_ns or 0)


def _split_glob(address: str, wild: str) -> tuple[str, re.Pattern[str] | None]:
    """Return the folder before the first wildcard, and the rest as a pattern."""
    first = min((place for place in map(address.find, wild) if place >= 0), default=-1)
    if first < 0:
        return address, None
    cut = address.rfind("/", 0, first)
    fixed, rest = (address[:cut] or "/", address[cut + 1 :]) if cut >= 0 else (".", address)
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]*\])" if "?" in wild else r"(\*\*/|\*\*|\*|\[[^\]]*\])", rest)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    text = "".join(
        meaning.get(piece, "[" + piece[1:-1].replace("!", "^", 1) + "]" if piece[:1] == "[" else re.escape(piece))
        for piece in pieces
    )
    return fixed, re.compile(text)


# ---------------------------------------------------------------- text


def _line_batches(stream: Any, start: int, stop: int | None) -> Iterator[list[bytes]]:
    """Yield the lines that begin in a range of bytes, about a mebibyte at a time, the last one whole."""
    begin = start
    if start:  # the line that holds the byte before belongs to an earlier shard, unless that byte ends it
        stream.seek(start - 1)
        begin -= 1
    held, skipping = b"", start > 0
    while stop is None or begin < stop:
        read = stream.read(_PIECE_BYTES)
        held += read
        if skipping:
            cut = held.find(b"\n") + 1
            if not cut:
                begin, held = begin + len(held), b""
                if not read:
                    return
                continue
            begin, held, skipping = begin + cut, held[cut:], False
        end = held.rfind(b"\n") + 1 if read else len(held)
        lines, held = held[:end].split(b"\n"), held[end:]
        if read:
            lines.pop()  # what follows the last line's end
        if stop is not None and begin + end > stop:
            yield _beginning_before(lines, stop - begin)
            return
        if lines:
            yield lines
        begin += end
        if not read:
            return


def _beginning_before(lines: list[bytes], room: int) -> list[bytes]:
    """Return the lines of a piece that begin within its first `room` bytes."""
    first = np.cumsum([0, *(len(line) + 1 for line in lines)])[:-1]
    return lines[: int(np.searchsorted(first, room))]


def _joined(documents: list[NDArray[Any]]) -> Pieces:
    """Return documents as one flat array where they are numbers: a stream of many short ones is read faster so."""
    if len({document.dtype.kind for document in documents} - {"i"}):  # objects, floats: each as it is
        return Pieces(documents, None)
    lengths = np.array([len(document) for document in documents], np.int64)
    return Pieces(np.concatenate(documents), np.cumsum(lengths) - lengths)


def _first_tokens(documents: Iterator[NDArray[Any]], tokens: int | None, h: int) -> Iterator[NDArray[Any]]:
    """Yield the first documents, those without a window not counted, until there are so many tokens."""
    seen = 0
    for document in documents:
        yield document
        seen += len(document) if len(document) > h else 0
        if tokens is not None and seen >= tokens:
            return


@cache
def _encoder(name: str, vocabulary: str) -> Callable[[str], NDArray[Any]]:
    """Return the function from a text to its tokens."""
    if name == "ids":
        return _ids
    if name == "words":
        return lambda text: np.array(text.split(), dtype=object)
    if name == "characters":
        return lambda text: np.array(list(text.rstrip("\r\n")), dtype=object)
    if name == "bytes":
        return lambda text: np.frombuffer(text.rstrip("\r\n").encode(), np.uint8).astype(np.int64)
    tokenizer = _tokenizers().Tokenizer.from_str(vocabulary)
    return lambda text: np.array(tokenizer.encode(text, add_special_tokens=False).ids, np.int64)


def _json_decoder(encode: Callable[[str], NDArray[Any]], column: str | None) -> Callable[[bytes], NDArray[Any]]:
    """Return the function from a line of JSON to the tokens of the list or the text in it."""

    def decode(line: bytes) -> NDArray[Any]:
        try:
            value = json.loads(line)
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            shown = line[:40].decode("utf-8", "replace").strip()
            raise ValueError(f"{shown!r} is no JSON; write one JSON value a line.") from error
        if isinstance(value, dict):
            value = _json_field(value, column)
        if isinstance(value, str):
            return encode(value)
        if not isinstance(value, list):
            raise ValueError(f"{str(value)[:40]!r} is no list of tokens and no text.")
        return token_document(value) if value else np.empty(0, np.int64)

    return decode


def _json_field(row: dict[str, Any], column: str | None) -> Any:
    if column is None:
        held = [name for name, value in row.items() if isinstance(value, (list, str))]
        if len(held) != 1:
            raise ValueError(
                f"an object has {len(held)} fields that could hold documents ({', '.join(row)}): name one with column=…"
            )
        return row[held[0]]
    if column not in row:
        raise ValueError(f"an object has no field {column!r}; it has {', '.join(row)}.")
    return row[column]


def _ids(text: str) -> NDArray[np.int64]:
    words = text.split()
    try:
        return np.array(words, dtype=np.int64) if words else np.empty(0, np.int64)
    except (ValueError, OverflowError) as error:
        shown = next(word for word in words if not _is_id(word))
        raise ValueError(
            f"{shown[:40]!r} is no token id (a whole number of 64 bits). Read text with tokens='words', 'characters', "
            "'bytes' or a tokenizer.json."
        ) from error


def _is_id(word: str) -> bool:
    try:
        return abs(int(word)) <= _INTEGER_LIMIT
    except ValueError:
        return False


def _tokenizer_file(path: str) -> str:
    try:
        with _file_system("").open_input_stream(path) as stream:
            text: str = stream.read().decode("utf-8")
    except OSError as error:
        known = ", ".join(TOKENIZERS)
        raise ValueError(
            f"tokens={path!r} is no tokenizer: use {known}, or the path of a tokenizer.json file."
        ) from error
    _tokenizers()
    return text


@cache
def tokenizer_decoder(path: str) -> Callable[[list[int]], str]:
    """Return the function from token ids to their text, of a tokenizer.json file."""
    tokenizer = _tokenizers().Tokenizer.from_str(_tokenizer_file(path))
    return lambda ids: str(tokenizer.decode(ids))


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "A tokenizer.json file needs the package tokenizers: pip install 'hammemo[text]'", name=error.name
        ) from error
    return tokenizers


# ---------------------------------------------------------------- Parquet


def _column(schema: Any, name: str | None, path: str) -> str:
    """Return the column that holds the documents."""
    kinds = _arrow().types
    if name is None:
        tests = (kinds.is_list, kinds.is_large_list, kinds.is_string, kinds.is_large_string)
        held = [field.name for field in schema if any(test(field.type) for test in tests)]
        if len(held) != 1:
            raise ValueError(
                f"{path} has {len(held)} columns that could hold documents ({', '.join(schema.names)}): "
                "name one with column=…"
            )
        return str(held[0])
    if name not in schema.names:
        raise ValueError(f"{path} has no column {name!r}; its columns are {', '.join(schema.names)}.")
    return name


def _leaf(file: Any, column: str) -> int:
    """Return the place, among the stored columns, of the one that holds a column's values."""
    paths = [file.schema.column(i).path.split(".")[0] for i in range(len(file.schema))]
    return paths.index(column)


def _first_page(file: Any, group: int) -> int:
    chunk = file.metadata.row_group(group).column(0)
    return int(chunk.dictionary_page_offset or chunk.data_page_offset)
