r"""Tables: rows of CSV, TSV, JSON lines, Parquet or Arrow, in batches of bounded size.

**Values.** A value of a table is as the file has it: in CSV a string as it is written (``007``
stays ``"007"``), in JSON lines and Parquet a string, a number, a truth value or a date. A column is
read as names (`Batch.tokens`), or as numbers or dates (`Batch.read_ordered`), where a text is the
number or the date that it says (`OrderedReading`). An empty cell, a null and a JSON object without
the key are *missing*: they are read as None; so are texts such as ``NA`` in a column of numbers or
dates. In a context they have a token of their own, leave the position empty, or are refused
(:mod:`hammemo.tokens.missing`). Each row knows its place (the line of a CSV or JSON file, the row
of a Parquet file), so that whatever is wrong with it can be named.

**Times.** A time is a number, or a date with or without a time of day as ISO 8601 writes it
(``2024-01-31``, ``2024-01-31 12:00:05.25``, ``2024-01-31T12:00Z``), or a value that Parquet keeps
as one. Moments of one column can be compared: numbers become numbers, all others microseconds since
1970 (times without a zone are taken as UTC). Texts that can be read both ways, such as
``20240131``, are numbers, which are in the same order.

**Many files.** `TableFiles` are cut into shards that can be read anywhere, and more than once. They
are a sorted list of CSV, TSV, JSON-lines or Parquet files, on this machine or on object storage, or
the files of an Arrow dataset. A Parquet file is cut at its row groups: a shard holds those that
begin in its bytes. Other files are shards as a whole, because a line break in quotes looks like the
end of a row to a reader that begins in the middle. No file is opened to cut a source, but those of
an Arrow dataset that are larger than a shard.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo.sources import formats
from hammemo.sources.formats import (
    STANDARD_INPUT,
    format_of,
    open_file,
    require_arrow,
    require_reader,
)
from hammemo.sources.kinds import Typing, evidence_of_values
from hammemo.sources.listing import File, Shard, ShardedFiles, files_of_one_format, list_files
from hammemo.sources.reading_notes import read_date_formats, read_na
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.column_values import read_ordered, with_large_numbers
from hammemo.tokens.date_formats import ISO, choose_format, formats_of, read_date
from hammemo.tokens.missing import fill_column, is_missing
from hammemo.tokens.orders import (
    check_order,
    check_same_direction,
    describe_order,
    find_places,
    values_at,
)
from hammemo.tokens.text_evidence import NA_TEXTS, is_blank_or_na, number_in
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set

    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.tokens.orders import Order
    from hammemo.tokens.text_evidence import TextEvidence

BATCH_ROWS: Final = 2**16
"""Rows that are read at a time."""

_DELIMITERS: Final = {"csv": ",", "tsv": "\t"}
_SHOWN_COLUMNS: Final = 20
_TOKEN_TYPES: Final = {str, int, float, bool, type(None)}


@dataclass(frozen=True)
class OrderedReading:
    """How the texts of a column of numbers or of dates are read.

    Parameters
    ----------
    kind : str
        `ColumnKind.NUMBERS` or `ColumnKind.DATES`.
    missing : {"token", "empty", "refuse"}
        Whether missing values are refused.
    na : collection of str
        The texts that are missing values.
    date_format : str
        How dates are written (:mod:`hammemo.tokens.date_formats`).
    """

    kind: ColumnKind
    missing: str = "token"
    na: Collection[str] = NA_TEXTS
    date_format: str = ISO

    def read(self, text: str) -> Any:
        """Return the value of a text: None if missing, the text itself if it says none."""
        if is_blank_or_na(text, self.na):
            return None
        if self.kind == ColumnKind.NUMBERS:
            value: Any = number_in(text)
        else:
            value = read_date(text, self.date_format)
        return text if value is None else value


@dataclass(frozen=True)
class CategoryReading:
    """How the values of a column of ordered categories are read.

    Parameters
    ----------
    order : tuple
        The categories, from low to high.
    missing : {"token", "empty", "refuse"}
        What takes the place of missing values.
    na : collection of str
        The texts that are missing values, unless they are categories.
    """

    order: Order
    missing: str = "token"
    na: Collection[str] = NA_TEXTS

    def read(self, value: Any) -> Any:
        """Return a value; None for a text that stands for a missing one."""
        if isinstance(value, str) and value not in self.order and is_blank_or_na(value, self.na):
            return None
        return value


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a table.

    Parameters
    ----------
    names : tuple of str
        The columns; "1", "2" and so on where the file does not name them.
    columns : tuple of ndarray
        The values of each column: integers where all of them are, otherwise objects, None where one
        is missing.
    numbers : ndarray of int64
        The line or the row of the file that each one is.
    where : str
        The file.
    unit : {"line", "row"}
    typing : Typing
        What the format says about the types of values.
    categories : mapping of str to sequence
        The columns that the file says are ordered, with their categories from low to high.
    without_order : set of str
        The columns that the file says are ordered without saying how.
    """

    names: tuple[str, ...]
    columns: tuple[Array, ...]
    numbers: Ints
    where: str
    unit: str
    typing: Typing = Typing.ALL
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    without_order: Set[str] = frozenset()

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, name: str) -> Array:
        """Return the values of a column; refuse a name that is none, and say which there are."""
        if name not in self.names:
            self._refuse_other_delimiter()
            check_columns([name], self.names, self.where)
        return self.columns[self.names.index(name)]

    def _refuse_other_delimiter(self) -> None:
        """Refuse a table whose only column looks like several, separated otherwise."""
        if len(self.names) != 1:
            return
        mark = re.search(r"[;|\t]", self.names[0])
        if mark is not None:
            raise ValueError(
                f"{self.where} has one column only, {self.names[0]!r}: "
                f"if {mark[0]!r} separates values, use delimiter={mark[0]!r}."
            )

    def place(self, row: int) -> str:
        """Return where a row is found, for an error message."""
        return f"{self.where}, {self.unit} {self.numbers[row]}"

    def tokens(self, name: str, missing: str | None = None) -> Array:
        """Return the tokens of a column; what takes the place of missing ones, `missing` says.

        None is for a column that every row needs, as it needs a label: a missing one is then
        refused.
        """
        values = self.column(name)
        if values.dtype.kind != "O":
            return values
        self._check_types(name, values)
        lacking = np.fromiter(map(is_missing, values.tolist()), bool, len(values))
        if not lacking.any():
            return values
        if missing is None or missing == "refuse":
            self._refuse_missing(name, int(np.flatnonzero(lacking)[0]), missing)
        return fill_column(values, lacking, missing)

    def read_ordered(self, name: str, reading: OrderedReading) -> Array:
        """Return a column of numbers as floats, or one of dates as they are.

        A missing number is NaN, a missing date None.
        Whole numbers that a float does not hold are as they are. A value of another kind is
        refused; so are missing ones if the reading refuses them.
        """
        values = self._read_texts(name, reading)
        is_text = np.fromiter((isinstance(value, str) for value in values), bool, len(values))
        plain = values
        if (
            is_text.any()
        ):  # a text of another format is no date here, though it may be one elsewhere
            plain = values.copy()
            plain[is_text] = None
        numbers = read_ordered(plain, reading.kind, f"Column {name!r}")
        lacking = np.isnan(numbers)
        for row in np.flatnonzero(lacking).tolist():
            if not is_missing(values[row]):
                self._refuse_other(name, row, values[row], reading)
            if reading.missing == "refuse":
                self._refuse_missing(name, row, reading.missing)
        if reading.kind != ColumnKind.NUMBERS:
            return values
        return with_large_numbers(numbers, values, lacking, f"Column {name!r}")

    def find_order(self, name: str) -> Order | None:
        """Return the order of a column, if the file says one; categories that are dates have none.

        So it is with columns of frames.
        """
        categories = self.categories.get(name, ())
        if not categories or not all(isinstance(value, (str, int, float)) for value in categories):
            return None
        return check_order(categories, f"{self.where}: column {name!r}")

    def read_categories(self, name: str, reading: CategoryReading, *, learning: bool) -> Array:
        """Return a column of ordered categories, each as its order has it.

        Missing ones are read as those of names are. A value that is no category is refused in what
        is learned. In a question it is returned as it is; the model warns of it, and takes it as
        missing.
        """
        values = self.column(name)
        where = f"{self.where}: column {name!r}"
        order = self.find_order(name)
        if order is not None:
            check_same_direction(order, reading.order, where)
        tokens = [reading.read(value) for value in values.tolist()]
        places = find_places(object_array(tokens), reading.order, where, learning=False)
        categories = values_at(places, reading.order)
        lacking = np.isnan(places)
        for row in np.flatnonzero(lacking).tolist():
            if is_missing(tokens[row]):
                if reading.missing == "refuse":
                    self._refuse_missing(name, row, reading.missing)
            elif not learning:
                categories[row] = tokens[row]
                lacking[row] = False
            else:
                self._refuse_category(name, row, reading.order)
        return fill_column(categories, lacking, reading.missing)

    def _refuse_category(self, name: str, row: int, order: Order) -> NoReturn:
        """Refuse a value that is none of the categories of its column."""
        value = self.column(name)[row]
        raise ValueError(
            f"{self.place(row)}: column {name!r} holds ordered categories, and {value!r} is none "
            f"of {describe_order(order)}. Correct the value, leave it empty if it is missing, or "
            "fit a new model with an order that has it."
        )

    def _refuse_other(self, name: str, row: int, value: Any, reading: OrderedReading) -> NoReturn:
        """Refuse a value that a column of numbers or of dates cannot hold."""
        learned = reading.kind.word
        ways = "Leave the value empty if it is missing"
        if reading.kind == ColumnKind.DATES and isinstance(value, str):
            if reading.date_format != ISO:
                learned += f" written as {reading.date_format}"
            other = f"{name}={choose_format(formats_of(value)) or 'FORMAT'}"
            ways += f", or say how this file writes its dates: date_format={other!r}"
            raise ValueError(
                f"{self.place(row)}: column {name!r} holds {learned}, "
                f"and {value!r} is not one. {ways}."
            )
        if isinstance(value, str):
            ways += f", or name the text with na={value!r}"
        raise ValueError(
            f"{self.place(row)}: column {name!r} holds {learned}, and {value!r} is not one. "
            f"{ways}, or fit again with numeric= and a list without this column."
        )

    def targets(self, name: str, na: Collection[str]) -> Floats:
        """Return a column of numbers that are to be predicted: every row needs one."""
        values = self._read_texts(name, OrderedReading(ColumnKind.NUMBERS, na=na))
        numbers = read_ordered(values, ColumnKind.NUMBERS, f"Column {name!r}")
        for row in np.flatnonzero(~np.isfinite(numbers)).tolist():
            if is_missing(values[row]):
                self._refuse_missing(name, row, None)
            raise ValueError(
                f"{self.place(row)}: the target {name!r} is {values[row]!r}, which "
                "is not a finite number. Correct it, drop the row, or predict names with label=."
            )
        return numbers

    def _read_texts(self, name: str, reading: OrderedReading) -> Array:
        """Return the values of a column, its texts as the numbers or dates that they say."""
        values = self.column(name)
        if values.dtype.kind != "O":
            return values
        converted = values.copy()
        for row, value in enumerate(values):
            if isinstance(value, str):
                converted[row] = reading.read(value)
        return converted

    def evidence(self, name: str, na: Collection[str]) -> TextEvidence:
        """Return what the values of a column say about its kind.

        Texts of `na` may stand for missing values.
        """
        return evidence_of_values(self.column(name), self.typing, na)

    def count_missing_texts(self, name: str, na: Collection[str]) -> Counter[str]:
        """Return how often a column holds which of some texts."""
        values = self.column(name)
        if values.dtype.kind != "O":
            return Counter()
        texts = (value.strip() for value in values if isinstance(value, str))
        return Counter(text for text in texts if text in na)

    def _refuse_missing(self, name: str, row: int, missing: str | None) -> NoReturn:
        ways = "Give it one, or drop the row."
        if missing == "refuse":
            ways = "Give it one, drop the row, or use missing='token' for a token of its own."
        raise ValueError(f"{self.place(row)}: column {name!r} has no value. {ways}")

    def _check_types(self, name: str, values: Array) -> None:
        if set(map(type, values.tolist())) <= _TOKEN_TYPES:
            return
        row = next(
            row for row, value in enumerate(values.tolist()) if type(value) not in _TOKEN_TYPES
        )
        raise ValueError(
            f"{self.place(row)}: column {name!r} holds a {type(values[row]).__name__}, "
            "which is not a token: make it a string or a whole number, "
            "leave the column out with columns=, or use h= where it is a list of tokens."
        )


def list_names(names: Sequence[str]) -> str:
    """Return the names of columns for an error message, not too many of them."""
    listed = ", ".join(names[:_SHOWN_COLUMNS])
    if len(names) <= _SHOWN_COLUMNS:
        return listed
    return f"{listed} and {len(names) - _SHOWN_COLUMNS} more"


def read_table(
    where: str,
    *,
    format: str | None = None,  # noqa: A002
    header: bool = True,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = BATCH_ROWS,
    copy: IO[bytes] | None = None,
) -> Iterator[Batch]:
    r"""Yield the rows of a table, some at a time.

    Parameters
    ----------
    where : str
        A file, an address such as ``s3://bucket/a.csv``, or ``-`` for standard input. Files may be
        compressed (.gz, .bz2, .zst, .lz4).
    format : {"csv", "tsv", "jsonl", "parquet", "arrow"}, optional
        By default what the name ends in; CSV for standard input.
    header : bool
        Whether the first row of a CSV or TSV file names the columns; otherwise they are called 1, 2
        and so on.
    delimiter : str, optional
        One character, where it is not a comma (CSV) or a tab (TSV).
    columns : sequence of str, optional
        With JSON lines and Parquet: the columns to read; by default those of the first object, or
        all.
    batch_rows : int
        Rows a batch.
    copy : file object, optional
        What the file holds, decompressed, to be read from its start instead.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo.sources.read_tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("colour,size\nred,007\n")
    ...     [batch] = read_table(str(Path(folder, "a.csv")))
    >>> batch.names, [values.tolist() for values in batch.columns], batch.numbers.tolist()
    (('colour', 'size'), [['red'], ['007']], [2])
    """
    shown = where
    default_format = None
    if where == STANDARD_INPUT:
        shown = "standard input"
        default_format = "csv"
    if copy is None:
        source: AbstractContextManager[IO[bytes]] = formats.open_stream(where)
    else:
        source = nullcontext(copy)
        copy.seek(0)
    with source as stream:
        kind = format or format_of(where, default_format)
        check_table_format(kind, shown)
        layout = TextLayout(header, delimiter)
        yield from stream_batches(
            stream, shown, kind, layout, columns=columns, batch_rows=batch_rows
        )


def check_table_format(kind: str, shown: str) -> None:
    """Refuse a format that is not known, or that has no columns."""
    if kind not in formats.FORMATS:
        raise ValueError(f"format={kind!r} is not known: use one of {', '.join(formats.FORMATS)}.")
    if kind not in formats.TABLE_FORMATS:
        raise ValueError(
            f"{shown} has no columns, because it is read as text: "
            "learn sequences of it with h=, or name the format of a table with format=, "
            f"one of {', '.join(formats.TABLE_FORMATS)}."
        )


class TextLayout(NamedTuple):
    """How the rows of a CSV or TSV file are written."""

    header: bool = True
    """Whether the first row names the columns."""
    delimiter: str | None = None
    """What stands between values, if neither a comma (CSV) nor a tab (TSV)."""


def stream_batches(
    stream: IO[bytes],
    shown: str,
    kind: str,
    layout: TextLayout,
    *,
    columns: Sequence[str] | None = None,
    batch_rows: int = BATCH_ROWS,
    between: tuple[int, int] | None = None,
) -> Iterator[Batch]:
    """Yield the rows of an open file as `read_table` does.

    With `between`, those of Parquet's row groups that begin in this range of bytes.
    """
    if kind == "jsonl":
        yield from _json_batches(stream, shown, columns, batch_rows)
    elif kind == "parquet":
        yield from _parquet_batches(stream, shown, columns, batch_rows=batch_rows, between=between)
    elif kind == "arrow":
        yield from _arrow_batches(stream, shown)
    else:
        delimiter = layout.delimiter or _DELIMITERS[kind]
        layout = TextLayout(layout.header, delimiter)
        yield from _csv_batches(stream, shown, layout, batch_rows)


# ---------------------------------------------------------------- CSV


def _csv_batches(
    stream: IO[bytes], where: str, layout: TextLayout, batch_rows: int
) -> Iterator[Batch]:
    delimiter = layout.delimiter or ""
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(f"delimiter={delimiter!r} is not one character that can separate values.")
    text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
    rows = _csv_rows(csv.reader(text, delimiter=delimiter, strict=True), where)
    try:
        _, first = next(rows, (0, None))
        if first is None:
            raise ValueError(f"{where} is empty: a table has at least one row.")
        if layout.header:
            names = tuple(first)
        else:
            names = tuple(str(number) for number in range(1, len(first) + 1))
            rows = chain([(1, first)], rows)
        check_names(names, where)
        while batch := list(islice(rows, batch_rows)):
            yield _csv_batch(batch, names, where)
    except UnicodeDecodeError as error:
        raise formats.not_utf8(where, error) from error
    finally:
        text.detach()


def _csv_rows(reader: Any, where: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not blank with the number of the line it ends in."""
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(
            f"{where}, line {reader.line_num}: {error}. Put quotes around the whole value."
        ) from error


def _csv_batch(rows: list[tuple[int, list[str]]], names: tuple[str, ...], where: str) -> Batch:
    for number, row in rows:
        if len(row) != len(names):
            raise ValueError(
                f"{where}, line {number}: {len(row)} values where there are {len(names)} columns. "
                "Correct the line; put quotes around a value that contains the delimiter."
            )
    numbers, texts = zip(*rows, strict=True)
    columns = tuple(
        object_array([value or None for value in column]) for column in zip(*texts, strict=True)
    )
    return Batch(
        names,
        columns,
        np.array(numbers, np.int64),
        where=where,
        unit="line",
        typing=Typing.TEXTS,
    )


def check_names(names: Sequence[str], where: str) -> None:
    """Refuse a table two of whose columns have one name."""
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise ValueError(
            f"{where} has two columns named {twice!r}: "
            "rename one, or use header=False if the first row is not a header."
        )


# ---------------------------------------------------------------- JSON lines


def check_columns(columns: Sequence[str] | None, names: Sequence[str], where: str) -> None:
    """Refuse columns that are not there."""
    for name in columns or ():
        if name not in names:
            raise ValueError(
                f"{where} has no column {name!r}; its columns are {list_names(names)}."
            )


def _json_batches(
    stream: IO[bytes], where: str, columns: Sequence[str] | None, batch_rows: int
) -> Iterator[Batch]:
    numbered_rows = formats.json_lines(stream, where)
    names: tuple[str, ...] | None = None
    if columns is not None:
        names = tuple(columns)
    unseen = set(columns or ())
    keys_of_first_row: list[str] = []
    row_ahead = list(islice(numbered_rows, 1))
    while row_ahead:
        batch = [*row_ahead, *islice(numbered_rows, batch_rows - 1)]
        row_ahead = list(islice(numbered_rows, 1))
        for number, row in batch:
            if not isinstance(row, dict):
                raise ValueError(
                    f'{where}, line {number} is not a JSON object: a row is a line {{"column": '
                    "value, …} (jq -c '.[]' makes lines of an array)."
                )
        keys_of_first_row = keys_of_first_row or [*batch[0][1]]
        if names is None:
            names = tuple(keys_of_first_row)
        if columns is None:
            _refuse_new_keys(batch, names, where)
        unseen.difference_update(*(row for _, row in batch))
        if not row_ahead:  # missing values may have no key, so only all rows tell what is absent
            check_columns([name for name in names if name in unseen], keys_of_first_row, where)
        yield Batch(
            names,
            tuple(column_array([row.get(name) for _, row in batch]) for name in names),
            np.array([number for number, _ in batch], np.int64),
            where=where,
            unit="line",
            typing=Typing.NO_DATES,
        )


def _refuse_new_keys(
    rows: list[tuple[int, dict[str, Any]]], names: tuple[str, ...], where: str
) -> None:
    first_keys = set(names)
    for number, row in rows:
        new = next((key for key in row if key not in first_keys), None)
        if new is not None:
            raise ValueError(
                f"{where}, line {number} has {new!r}, which the first line does not have: "
                "name the columns to read with columns=."
            )


def column_array(values: list[Any]) -> Array:
    """Return the values of a column: an array of integers if all are whole numbers of 64 bits."""
    if all(type(value) is int and -NO_TOKEN > value > NO_TOKEN for value in values):
        return np.array(values, np.int64)
    return object_array(values)


# ---------------------------------------------------------------- Parquet


def _parquet_batches(
    stream: IO[bytes],
    where: str,
    columns: Sequence[str] | None,
    *,
    batch_rows: int,
    between: tuple[int, int] | None,
) -> Iterator[Batch]:
    with formats.parquet_file(stream, where) as parquet:
        names = tuple(parquet.schema_arrow.names)
        check_names(names, where)
        check_columns(columns, names, where)
        if between is None:
            groups = list(range(parquet.num_row_groups))
        else:
            groups = formats.row_groups(parquet, *between)
        if not groups:
            return
        without_order = _find_lost_orders(parquet.schema_arrow, parquet.metadata, groups)
        earlier = range(groups[0])
        first_row = 1 + sum(parquet.metadata.row_group(group).num_rows for group in earlier)
        record_batches = parquet.iter_batches(
            batch_rows,
            row_groups=groups,
            columns=columns if columns is None else list(columns),
            use_threads=False,
        )
        yield from arrow_batches(record_batches, where, first_row, without_order=without_order)


def _find_lost_orders(schema: Any, metadata: Any, groups: Iterable[int]) -> set[str]:
    """Return the columns of a Parquet file that are said to be ordered, but have lost their order.

    Arrow writes beside the Parquet schema that a column is ordered. The order itself is that of the
    dictionary page. Of a column without such a page, Arrow makes a dictionary in the order of the
    rows, which means nothing.
    """
    types = formats.require_arrow("Parquet").types
    ordered = {
        column.name for column in schema if types.is_dictionary(column.type) and column.type.ordered
    }
    if not ordered:
        return ordered
    lost = set()
    for group in groups:
        chunks = metadata.row_group(group)
        for place in range(chunks.num_columns):
            chunk = chunks.column(place)
            if chunk.path_in_schema in ordered and not chunk.has_dictionary_page:
                lost.add(chunk.path_in_schema)
    return lost


def _arrow_batches(stream: Any, where: str) -> Iterator[Batch]:
    """Yield the rows of a stream or a file of Arrow, with all columns, in the writer's batches."""
    arrow = formats.require_arrow("Arrow", "ipc")
    try:
        if not hasattr(stream, "peek"):
            stream = io.BufferedReader(stream)
        if stream.peek(6)[:6] == b"ARROW1":
            with formats.seekable(stream) as file:
                reader = arrow.ipc.open_file(file)
                record_batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        else:
            reader = arrow.ipc.open_stream(stream)
            record_batches = reader
        check_names(reader.schema.names, where)
        yield from arrow_batches(record_batches, where)
    except arrow.ArrowInvalid as error:
        raise ValueError(
            f"{where} is not an Arrow stream: use another copy of it, "
            "or name its format with format=."
        ) from error


def arrow_batches(
    record_batches: Iterable[Any],
    where: str,
    first: int = 1,
    *,
    without_order: Set[str] = frozenset(),
) -> Iterator[Batch]:
    """Yield the record batches of Arrow that hold a row; `first` is the number of the first row.

    `without_order` are columns whose dictionaries are in no order, whatever their types say.
    """
    for rows in record_batches:
        if not len(rows):
            continue
        names = tuple(rows.schema.names)
        yield Batch(
            names,
            tuple(_arrow_column(rows.column(name)) for name in names),
            np.arange(first, first + len(rows)),
            where=where,
            unit="row",
            categories=_find_categories(rows, without_order),
            without_order=without_order,
        )
        first += len(rows)


def _find_categories(rows: Any, without_order: Set[str]) -> dict[str, list[Any]]:
    """Return the categories of the columns that Arrow says are ordered."""
    types = formats.require_arrow("Parquet").types
    categories = {}
    for column in rows.schema:
        if not types.is_dictionary(column.type) or column.name in without_order:
            continue
        if column.type.ordered:
            categories[column.name] = rows.column(column.name).dictionary.to_pylist()
    return categories


def _arrow_column(values: Any) -> Array:
    kinds = formats.require_arrow("Parquet").types
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kinds.is_integer(values.type) and not values.null_count and not kinds.is_uint64(values.type):
        return np.asarray(values.to_numpy(zero_copy_only=False)).astype(np.int64)
    return object_array(values.to_pylist())


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def moment_of(value: Any) -> float | int | None:
    """Return a time as a number; None for what is none.

    Examples
    --------
    >>> from hammemo.sources.read_tables import moment_of
    >>> moment_of("2.5"), moment_of(7), moment_of("1970-01-01 00:00:01"), moment_of("soon")
    (2.5, 7, 1000000, None)
    """
    if isinstance(value, str):
        value = _time_in(value.strip())
    if isinstance(value, date):
        if not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        microseconds: int = (value - _EPOCH) // _MICROSECOND
        return microseconds
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    if isinstance(value, float) and math.isnan(value):  # a whole number may be too large for isnan
        return None
    return value


def moments_of(batch: Batch, name: str, date_format: str | None = None) -> list[Any]:
    """Return the times of a column, or refuse a value that is none and name its place.

    With `date_format`, texts are dates in this format only.
    """
    moments = []
    for row, value in enumerate(batch.column(name).tolist()):
        if date_format is not None and isinstance(value, str):
            moment = moment_of(read_date(value, date_format))
        else:
            moment = moment_of(value)
        if moment is None:
            what = f"holds {value!r}, which is not a time"
            if value is None:
                what = "has no value"
            ways = "Write times as 2024-01-31 12:00:00 or as numbers."
            if date_format is not None:
                ways = f"Write times as {date_format}."
            raise ValueError(f"{batch.place(row)}: column {name!r} {what}. {ways}")
        moments.append(moment)
    return moments


def _time_in(text: str) -> Any:
    for read in (int, float, datetime.fromisoformat):
        try:
            return read(text)
        except ValueError:
            continue
    return None


@dataclass(frozen=True)
class TableFiles(ShardedFiles):
    """Rows in files; made by `open_table`. What has these methods can be learnt by engines.

    Parameters
    ----------
    files : tuple of File
        In canonical order: sorted by path.
    format : {"csv", "tsv", "jsonl", "parquet"}
    header, delimiter
        As in :func:`hammemo.sources.read_tables.read_table`.
    na, date_format
        As in `open_table`, checked.
    """

    reading = ("header", "delimiter")

    header: bool = True
    delimiter: str | None = None
    na: tuple[str, ...] = NA_TEXTS
    date_format: tuple[tuple[str, str], ...] = ()

    def without_files(self) -> TableFiles:
        """Return how shards are read, without the list of all files."""
        return replace(self, files=())

    def batches(self, shard: Shard, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows of a shard, some at a time; with `columns`, at least these of them."""
        file = shard.file
        between = None
        if self.format == "parquet":
            between = (shard.start, shard.stop)
        with open_file(file.base, file.path, file.path) as stream:
            layout = TextLayout(self.header, self.delimiter)
            yield from stream_batches(
                stream, file.path, self.format, layout, columns=columns, between=between
            )


@dataclass(frozen=True)
class Fragment(Shard):
    """A file of an Arrow dataset, or some row groups of it.

    Parameters
    ----------
    rows : pyarrow.dataset.Fragment
    first : int
        The number of its first row.
    """

    rows: Any = None
    first: int = 1


@dataclass(frozen=True)
class DatasetFiles(TableFiles):
    """The files of an Arrow dataset; values that names of folders say are columns, too.

    Parameters
    ----------
    dataset : pyarrow.dataset.FileSystemDataset or None
        None where only shards are read.
    schema : pyarrow.Schema
    """

    dataset: Any = None
    schema: Any = None

    def shards(self, shard_bytes: int | None = None) -> list[Shard]:
        """Cut the source: files of Parquet that are larger than a shard at their row groups."""
        size = self.shard_size(shard_bytes)
        shards: list[Shard] = []
        fragments = {fragment.path: fragment for fragment in self.dataset.get_fragments()}
        for file in self.files:
            fragment = fragments[file.path]
            pieces = [fragment]
            if file.size > size and hasattr(fragment, "split_by_row_group"):
                pieces = fragment.split_by_row_group() or pieces
            first = 1
            start = 0
            for number, piece in enumerate(pieces, 1):
                stop = -(-file.size * number // len(pieces))
                shards.append(Fragment(file, start, stop, rows=piece, first=first))
                if len(pieces) > 1:
                    first += piece.count_rows()
                start = stop
        return shards

    def without_files(self) -> DatasetFiles:
        """Return how shards are read, without the list of all files."""
        return replace(self, files=(), dataset=None)

    def batches(self, shard: Shard, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows of a shard, some at a time; with `columns`, these columns of them."""
        assert isinstance(shard, Fragment)
        check_names(self.schema.names, shard.file.path)
        record_batches = shard.rows.to_batches(
            self.schema,
            columns=columns if columns is None else list(columns),
            batch_size=BATCH_ROWS,
            use_threads=False,
        )
        without_order: set[str] = set()
        if hasattr(shard.rows, "row_groups"):  # of Parquet
            groups = [group.id for group in shard.rows.row_groups]
            without_order = _find_lost_orders(self.schema, shard.rows.metadata, groups)
        yield from arrow_batches(
            record_batches, shard.file.path, shard.first, without_order=without_order
        )


def open_table(
    where: Any,
    *,
    format: str | None = None,  # noqa: A002
    header: bool = True,
    delimiter: str | None = None,
    na: Sequence[str] | None = None,
    date_format: Mapping[str, str] | Sequence[str] | None = None,
) -> TableFiles:
    r"""Return the source of the rows in files, folders, globs, addresses, or an Arrow dataset.

    Parameters
    ----------
    where : str, path, several of them, pyarrow.dataset.Dataset or TableFiles
        As in :func:`hammemo.sources.documents.open_source`; `TableFiles` keep what no parameter
        says otherwise. It is read more than once, so standard
        input, pipes and datasets without files are refused.
    format : {"csv", "tsv", "jsonl", "parquet"}, optional
        By default what the names end in.
    header, delimiter
        As in :func:`hammemo.sources.read_tables.read_table`.
    na : sequence of str, optional
        The texts that are missing values in columns of numbers and of dates; by default those that
        pandas knows, and ``?``. With ``[]`` only empty cells are.
    date_format : mapping or sequence of str, optional
        Columns of dates with their formats, as in ``{"when": "%d.%m.%Y"}`` or
        ``["when=%d.%m.%Y"]``; by default the values of a column decide.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo.sources.read_tables import open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("colour,size\nred,7\n")
    ...     _ = Path(folder, "b.csv").write_text("colour,size\nblue,8\n")
    ...     table = open_table(folder)
    ...     batches = [batch for shard in table.shards() for batch in table.batches(shard)]
    >>> [batch.columns[0].tolist() for batch in batches]
    [['red'], ['blue']]
    """
    if isinstance(where, TableFiles):
        return _read_otherwise(
            where, format=format, header=header, delimiter=delimiter, na=na, date_format=date_format
        )
    if hasattr(where, "get_fragments"):
        dataset = _dataset_files(where)
        return replace(dataset, na=read_na(na), date_format=read_date_formats(date_format))
    if not isinstance(where, (str, os.PathLike, list, tuple)):
        raise TypeError(
            "A table for engines is read more than once: name files, folders, "
            f"globs or an Arrow dataset of files, not a {type(where).__name__}. "
            "Write other rows to Parquet files first."
        )
    files, kind = files_of_one_format(
        where, _list_rereadable, lambda path: format or format_of(path)
    )
    for file in files:
        check_table_format(kind, file.path)
        require_reader(file.path, kind)
    return TableFiles(
        files=files,
        format=kind,
        header=header,
        delimiter=delimiter,
        na=read_na(na),
        date_format=read_date_formats(date_format),
    )


def _read_otherwise(
    files: TableFiles,
    *,
    format: str | None,  # noqa: A002
    header: bool,
    delimiter: str | None,
    na: Sequence[str] | None,
    date_format: Mapping[str, str] | Sequence[str] | None,
) -> TableFiles:
    """Return files that are read as these parameters of `open_table` say, where they say it."""
    changes: dict[str, Any] = {}
    if format is not None and format != files.format:
        raise ValueError(
            f"format={format!r}: these files were opened as {files.format}. Open them again by "
            "their names."
        )
    if not header:
        changes["header"] = False
    if delimiter is not None:
        changes["delimiter"] = delimiter
    if na is not None:
        changes["na"] = read_na(na)
    if date_format is not None:
        changes["date_format"] = read_date_formats(date_format)
    return replace(files, **changes)


def _list_rereadable(place: str) -> list[File]:
    """Return the files at a place, or refuse what cannot be read twice."""
    shown = place
    is_stream = os.path.exists(place) and not os.path.isfile(place) and not os.path.isdir(place)
    if place == STANDARD_INPUT:
        shown = "Standard input"
        is_stream = True
    if is_stream:
        raise ValueError(
            f"{shown} can be read once, and engines read a table twice: "
            "write the rows to a file first."
        )
    return list_files(place)


def _dataset_files(dataset: Any) -> DatasetFiles:
    if not getattr(dataset, "files", None):
        raise ValueError(
            "The Arrow dataset has no files, and engines read a table twice, in other processes, "
            "too: write it to Parquet files first (pyarrow.dataset.write_dataset)."
        )
    require_arrow("An Arrow dataset", "dataset")
    entries = dataset.filesystem.get_file_info(dataset.files)
    lost = next((entry.path for entry in entries if not entry.is_file), None)
    if lost is not None:
        raise FileNotFoundError(f"{lost} does not exist, and the Arrow dataset lists it.")
    files = [File("", entry.path, entry.size, entry.mtime_ns or 0) for entry in entries]
    files.sort(key=lambda file: file.path)
    return DatasetFiles(
        tuple(files), dataset.format.default_extname, dataset=dataset, schema=dataset.schema
    )
