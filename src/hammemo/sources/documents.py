r"""Documents: sequences of tokens in files, cut into shards that are learned anywhere and added up.

A source is a sorted list of Parquet, JSON-lines or text files, on this machine or on object
storage. A *document* is a row of a Parquet column (a list of tokens, or a text for a tokenizer),
the same in a line of JSON, or a line of text. A *shard* is a range of bytes of one file, and it
holds the documents that *begin* in that range:

- in a file of text or JSON lines, the lines whose first byte lies in it, read to their end even
  where that is in the next shard's range;
- in a Parquet file, the row groups whose first page lies in it.

So each document is in exactly one shard, and whole, however the files are cut; windows never cross
documents (:mod:`hammemo.tokens.stream_blocks`); and the model is a sum over the documents. Hence no
cutting changes the result. No file has to be opened to cut a source, only listed.

Files are read piece by piece: memory is bounded by the pieces, the size of a Parquet page and the
longest document.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hammemo._lazy import explain_missing
from hammemo.sources import formats
from hammemo.sources.listing import File, Shard, ShardedFiles, files_of_one_format, list_files
from hammemo.tokens.contexts import document as token_document
from hammemo.tokens.stream_blocks import BLOCK_TOKENS, Block, stream_blocks

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from hammemo._arrays.types import Array, Ints

    Encoder = Callable[[Any], Array]

_SAMPLE_FILES: Final = 16


@dataclass(frozen=True)
class Pieces:
    """Some whole documents: as a flat array and where each starts, or one by one."""

    tokens: Array | list[Array]
    starts: Ints | None

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""
        if self.starts is None:
            return sum(map(len, self.tokens))
        return len(self.tokens)

    def documents(self) -> Iterator[Array]:
        """Yield the documents one by one."""
        if self.starts is None:
            yield from self.tokens
        else:
            yield from np.split(np.asarray(self.tokens), self.starts[1:])


@dataclass(frozen=True)
class Source(ShardedFiles):
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

    reading = ("tokens", "column", "vocabulary")

    tokens: str = "ids"
    column: str | None = None
    vocabulary: str = ""

    def _can_be_cut(self, file: File) -> bool:
        return not formats.compression_of(file.path)

    def pieces(self, shard: Shard) -> Iterator[Pieces]:
        """Yield the documents of a shard, some at a time."""
        base = shard.file.base
        path = shard.file.path
        start = shard.start
        stop: int | None = shard.stop
        is_compressed = formats.compression_of(path) is not None
        if is_compressed:  # it is one shard, read as a whole
            start = 0
            stop = None
        if self.format == "parquet" and not is_compressed:
            # pyarrow reads its own files without Python's lock
            file = formats.file_system(base).open_input_file(path)
        else:
            file = formats.open_file(base, path, path)
        with file as stream:
            yield from self.stream_pieces(stream, path, start, stop)

    def stream_pieces(
        self, stream: Any, name: str, start: int = 0, stop: int | None = None
    ) -> Iterator[Pieces]:
        """Yield the documents that begin in a range of bytes of an open file, some at a time."""
        if self.format == "parquet":
            return self._parquet_pieces(stream, name, start, stop)
        return self._line_pieces(stream, name, start, stop)

    def documents(self) -> Iterator[Array]:
        """Yield all documents, in canonical order, each as an array of tokens."""
        return chain.from_iterable(map(self._file_documents, self.files))

    def sample(
        self, h: int, short: str = "drop", pad: Any = None, tokens: int = BLOCK_TOKENS
    ) -> Block | None:
        """Return the first documents of some files, evenly spaced through the source, as one block.

        Which ones depends on the files alone and not on any cutting. None if no document has a
        window.
        """
        step = -(-len(self.files) // _SAMPLE_FILES)
        chosen = self.files[::step]
        share = None
        if len(chosen) > 1:
            share = -(-tokens // len(chosen))
        first_documents = chain.from_iterable(
            _first_tokens(self._file_documents(file), share, h) for file in chosen
        )

        def first_block(documents: Iterator[Array]) -> Block | None:
            blocks = stream_blocks(documents, h, None, short=short, pad=pad, block_tokens=tokens)
            return next(blocks, None)

        return first_block(first_documents) or first_block(self.documents())

    def _file_documents(self, file: File) -> Iterator[Array]:
        for piece in self.pieces(Shard(file, 0, file.size)):
            yield from piece.documents()

    def _line_pieces(
        self, stream: Any, name: str, start: int, stop: int | None
    ) -> Iterator[Pieces]:
        encode = text_encoder(self.tokens, self.vocabulary)
        for lines in line_batches(stream, start, stop):
            try:
                documents = [
                    self._line_document(line, encode, name) for line in lines if line.strip()
                ]
            except UnicodeDecodeError as error:
                raise formats.not_utf8(name, error) from error
            if documents:
                yield _one_piece(documents)

    def _line_document(self, line: bytes, encode: Encoder, name: str) -> Array:
        """Return the tokens of a line of text, or of the list or the text in a line of JSON."""
        if self.format != "jsonl":
            return _encode(line.removesuffix(b"\n").decode(), encode, name)
        value = formats.json_value(line, name)
        if isinstance(value, dict):
            value = _json_field(value, self.column, name)
        if isinstance(value, str):
            return _encode(value, encode, name)
        if not isinstance(value, list):
            raise ValueError(
                f"{name} cannot be read: "
                f"{str(value)[:40]!r} is neither a list of tokens nor a text."
            )
        if not value:
            return np.empty(0, np.int64)
        return _encode(value, token_document, name)

    def _parquet_pieces(
        self, stream: Any, name: str, start: int, stop: int | None
    ) -> Iterator[Pieces]:
        with formats.parquet_file(stream, name) as file:
            column = _document_column(file.schema_arrow, self.column, name)
            groups = formats.row_groups(file, start, stop)
            if not groups:
                return
            stored_columns = [file.schema.column(i) for i in range(len(file.schema))]
            place = [stored.path.split(".")[0] for stored in stored_columns].index(column)
            described = [file.metadata.row_group(group) for group in groups]
            n_values = sum(group.column(place).num_values for group in described)
            n_rows = sum(group.num_rows for group in described)
            # about a block of tokens at a time
            batch_rows = max(1, min(2**16, BLOCK_TOKENS * n_rows // max(n_values, 1)))
            for batch in file.iter_batches(
                batch_rows, row_groups=groups, columns=[column], use_threads=False
            ):
                yield self._arrow_documents(batch.column(0), name)

    def _arrow_documents(self, rows: Any, name: str) -> Pieces:
        arrow = formats.require_arrow("Parquet", "compute")
        kinds = arrow.types
        if not (kinds.is_list(rows.type) or kinds.is_large_list(rows.type)):
            encode = text_encoder(self.tokens, self.vocabulary)
            return _one_piece(
                [_encode(text, encode, name) for text in rows.to_pylist() if text and text.strip()]
            )
        lengths = arrow.compute.fill_null(arrow.compute.list_value_length(rows), 0).to_numpy(
            zero_copy_only=False
        )
        values = rows.flatten()
        if values.null_count:
            raise ValueError(
                f"{name} has a document with a missing token: "
                "drop it, or write a token of its own there."
            )
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
        A file; a folder, with all that is in it; a glob such as ``data/*/part-*.parquet`` (``**``
        crosses folders); or the same behind an address that pyarrow's file systems know, such as
        ``s3://bucket/folder``. Files whose names begin with a dot or an underscore are left out of
        folders.
    tokens : str
        How a text becomes tokens: "ids" (whole numbers with blanks between), "words" (split at
        blanks), "characters", "bytes", or the path of a ``tokenizer.json`` of the ``tokenizers``
        package. Lists of a Parquet column or of JSON lines are taken as they are.
    column : str, optional
        The Parquet column, or the field of JSON objects, with the documents; needed where there are
        several.
    format : {"parquet", "jsonl", "text"}, optional
        By default "parquet" for names that end in .parquet, .pq or .parq, "jsonl" for .jsonl,
        .ndjson and .json, otherwise "text". Text and JSON files may be compressed (.gz, .bz2, .zst,
        .lz4); then each is one shard.

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
    if format not in (None, *formats.DOCUMENT_FORMATS):
        raise ValueError(f"format={format!r} is not known: use 'parquet', 'jsonl' or 'text'.")
    files, kind = files_of_one_format(
        where, list_files, lambda path: format or _document_format(path)
    )
    for file in files:
        formats.require_reader(file.path, kind)
    return replace(stream_source(kind, tokens, column), files=files)


def stream_source(
    format: str,  # noqa: A002
    tokens: str = "ids",
    column: str | None = None,
) -> Source:
    r"""Return a source without files; its `stream_pieces` reads lines from elsewhere.

    Examples
    --------
    >>> import io
    >>> from hammemo.sources.documents import stream_source
    >>> lines = io.BytesIO(b'{"text": "to be"}\n["a", "b"]\n')
    >>> pieces = stream_source("jsonl", "words").stream_pieces(lines, "a pipe")
    >>> [document.tolist() for piece in pieces for document in piece.documents()]
    [['to', 'be'], ['a', 'b']]
    """
    return Source(
        files=(), format=format, tokens=tokens, column=column, vocabulary=tokenizer_text(tokens)
    )


def _document_format(path: str) -> str:
    """Return the format of a file of documents.

    What is neither Parquet nor JSON is lines of text.
    """
    kind = formats.format_of(path, "text")
    return kind if kind in formats.DOCUMENT_FORMATS else "text"


# ---------------------------------------------------------------- text and JSON


def _one_piece(documents: list[Array]) -> Pieces:
    """Return documents as one flat array where they are numbers.

    A stream of many short ones is read faster so.
    """
    if len(
        {document.dtype.kind for document in documents} - {"i"}
    ):  # objects, floats: each as it is
        return Pieces(documents, None)
    lengths = np.array([len(document) for document in documents], np.int64)
    return Pieces(np.concatenate(documents), np.cumsum(lengths) - lengths)


def _first_tokens(documents: Iterator[Array], tokens: int | None, h: int) -> Iterator[Array]:
    """Yield the first documents, until those with a window have this many tokens."""
    n_tokens = 0
    for document in documents:
        yield document
        if len(document) > h:
            n_tokens += len(document)
        if tokens is not None and n_tokens >= tokens:
            return


def _encode(value: Any, encode: Encoder, name: str) -> Array:
    """Return the tokens of a text or a list, or say in which file what is wrong with it."""
    try:
        return encode(value)
    except ValueError as error:
        raise ValueError(f"{name} cannot be read: {error}") from error


def _json_field(row: dict[str, Any], column: str | None, name: str) -> Any:
    candidates = [field for field, value in row.items() if isinstance(value, (list, str))]
    place = f"{name} cannot be read: an object"
    return row[_choose_name(column, list(row), candidates, place=place, what="field")]


def _choose_name(
    column: str | None, names: list[str], candidates: list[str], *, place: str, what: str
) -> str:
    """Return the column or the field that the user names, or the only one of the candidates.

    Candidates are those that could hold documents.
    """
    if column is None:
        if len(candidates) != 1:
            raise ValueError(
                f"{place} has {len(candidates)} {what}s that could hold documents "
                f"({', '.join(names)}): name one with column=…"
            )
        return candidates[0]
    if column not in names:
        raise ValueError(f"{place} has no {what} {column!r}; its {what}s are {', '.join(names)}.")
    return column


# ---------------------------------------------------------------- Parquet


def _document_column(schema: Any, name: str | None, path: str) -> str:
    """Return the column that holds the documents."""
    kinds = formats.require_arrow("Parquet").types
    tests = (kinds.is_list, kinds.is_large_list, kinds.is_string, kinds.is_large_string)
    candidates = [field.name for field in schema if any(test(field.type) for test in tests)]
    return _choose_name(name, schema.names, candidates, place=path, what="column")


def line_batches(stream: Any, start: int, stop: int | None) -> Iterator[list[bytes]]:
    """Yield the lines that begin in a range of bytes, each whole, about a mebibyte at a time.

    Wherever a file is cut, each line is in one range: that of its first byte.
    """
    place = start
    if start:
        # The line that holds the byte before belongs to an earlier shard, unless that byte ends it.
        stream.seek(start - 1)
        place += len(stream.readline()) - 1
    lines: list[bytes] = []
    n_bytes = 0
    for line in stream:
        if stop is not None and place >= stop:
            break
        lines.append(line)
        place += len(line)
        n_bytes += len(line)
        if n_bytes >= formats.PIECE_BYTES:
            yield lines
            lines = []
            n_bytes = 0
    if lines:
        yield lines


# ---------------------------------------------------------------- tokenizers


TOKENIZERS: Final = ("ids", "words", "characters", "bytes")
"""The tokenizers that have a name; another name is the path of a tokenizer.json file."""

_INTEGER_LIMIT: Final = 2**63 - 1


@cache
def text_encoder(name: str, vocabulary: str) -> Callable[[str], Array]:
    """Return the function from a text to its tokens.

    `vocabulary` is the text of a tokenizer.json, if the name is that of one.
    """
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


def tokenizer_text(name: str) -> str:
    """Return the text of a tokenizer.json file; empty for one of `TOKENIZERS`."""
    if name in TOKENIZERS:
        return ""
    try:
        text = Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"tokens={name!r} is not a tokenizer: use {', '.join(TOKENIZERS)}, "
            "or the path of a tokenizer.json file."
        ) from error
    _tokenizers()
    return text


def _tokenizers() -> Any:
    with explain_missing(
        "A tokenizer.json file needs the package tokenizers: pip install 'hammemo[text]'"
    ):
        import tokenizers
    return tokenizers


def _ids(text: str) -> Ints:
    words = text.split()
    if not words:
        return np.empty(0, np.int64)
    try:
        return np.array(words, dtype=np.int64)
    except (ValueError, OverflowError) as error:
        shown = next(word for word in words if not _is_id(word))
        raise ValueError(
            f"{shown[:40]!r} is not a token id (a whole number of 64 bits). "
            "Read text with tokens='words', 'characters', 'bytes' or a tokenizer.json."
        ) from error


def _is_id(word: str) -> bool:
    try:
        return abs(int(word)) <= _INTEGER_LIMIT
    except ValueError:
        return False
