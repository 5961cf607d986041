r"""Schemas: how files become examples and queries, settled once and stored with the model.

Examples come in two shapes:

- **rows of a table** (`TableSchema`): one column is the label, the others, or those that are
  named, are the context;
- **sequences** (`SequenceSchema`): every token of a document is the label of the h tokens before
  it. A document is a line of text, a list or a text in a line of JSON or in a Parquet column, or
  all events of one case of an event log: the rows of a table that share a case, in the order of the
  file or of their times.

A schema is written with the model file as notes (:func:`hammemo.files.models.save`) and read from
there (`schema_from_notes`), so that the user says only once how the input of the model is read.

A schema knows for each column what the model learned there: numbers, dates, or names that are
strings or whole numbers (:mod:`hammemo.sources.kinds`). All rows that a new model learns decide
which columns are numbers or dates, so files are read once for that and once to be learned; a table
that fits into one batch is held in between. The format of dates is decided with the kind, and
stored with it: a later file, or one row alone, is read as the first files were.
"""

from __future__ import annotations

import io
import json
import warnings
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo.sources import read_tables
from hammemo.sources.documents import open_source, stream_source
from hammemo.sources.formats import STANDARD_INPUT, copy_streams, format_of, open_stream
from hammemo.sources.kinds import (
    InputKind,
    InputKinds,
    Truths,
    Typing,
    as_kind,
    choose_kinds,
    decode_kinds,
    encode_kinds,
    kind_of_names,
    kinds_of_model,
    settle_kinds,
)
from hammemo.sources.read_tables import (
    Batch,
    CategoryReading,
    OrderedReading,
    list_names,
    moments_of,
    read_table,
)
from hammemo.sources.reading_notes import (
    MissingTexts,
    check_formatted_columns,
    describe_doubts,
    describe_missing_texts,
    formats_of_note,
    join_note,
    na_of_note,
    places_by_format,
    split_note,
)
from hammemo.tokens.column_evidence import Evidence, declare_orders
from hammemo.tokens.column_kinds import ColumnContent, ColumnType
from hammemo.tokens.column_times import clock_of_column
from hammemo.tokens.contexts import document
from hammemo.tokens.date_formats import ISO, check_format
from hammemo.tokens.missing import check_missing_rule
from hammemo.tokens.stream_blocks import stream_blocks
from hammemo.tokens.text_evidence import (
    NA_TEXTS,
    NAMES_ONLY,
    NO_EVIDENCE,
    TextEvidence,
    number_in,
)
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.tokens.zones import join_zones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

    from hammemo._arrays.types import Array
    from hammemo.sources.databases import RowSource
    from hammemo.sources.formats import Copies
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.columns import Columns
    from hammemo.tokens.orders import Order
    from hammemo.tokens.scales import Scale


@dataclass(frozen=True, eq=False)
class Labelled:
    """Some examples.

    Parameters
    ----------
    X : ndarray of shape (m, h)
    y : ndarray of shape (m,)
    columns : tuple of str
        The names of the positions; empty for sequences.
    kinds : tuple of InputKind
        What each column holds, the label last; one kind for all where they are the tokens of
        sequences.
    batch : Batch or None
        The rows of the table that they are; None for sequences.
    first : int
        The number of the first example of a sequence among all that were read.
    formats : tuple of (int, str)
        The formats of columns of dates, as `TableSchema.learned_formats`.
    orders : tuple of (int, tuple)
        The orders of columns, as `TableSchema.orders`.
    """

    X: Array
    y: Array
    columns: tuple[str, ...]
    kinds: InputKinds
    batch: Batch | None = None
    first: int = 1
    formats: tuple[tuple[int, str], ...] = ()
    orders: tuple[tuple[int, Order], ...] = ()

    def place(self, row: int) -> str:
        """Return where an example is found, for an error message."""
        if self.batch is None:
            return f"example {self.first + row}"
        return self.batch.place(row)


@dataclass(frozen=True, eq=False)
class Queries:
    """Some contexts to be answered, and what is known of each.

    That is the columns of its row, or the name of its document.

    Parameters
    ----------
    X : ndarray of shape (m, h)
    names, columns
        The columns of the table, or one column: the case or the number of each document.
    identity : str or None
        The column that tells which answer is which; None for rows of a table, which are known by
        their order.
    documents : list of ndarray or None
        All tokens of each document, also those before its context; None for rows of a table.
    """

    X: Array
    names: tuple[str, ...]
    columns: tuple[Array, ...]
    identity: str | None = None
    documents: list[Array] | None = None


QUERY_DOCUMENTS: Final = 2**14


@dataclass(frozen=True)
class TableSchema:
    r"""Rows of a table: one column is the label, others are the context.

    Parameters
    ----------
    label : str, optional
        The column with the labels, or the targets; needed to learn and to forget, not to ask.
    columns : tuple of str, optional
        The columns of the context, in this order; by default all but the label.
    header : bool
        Whether the first row of CSV and TSV files names the columns; otherwise their names are 1, 2
        and so on.
    delimiter : str, optional
        What stands between values of CSV files, if no comma.
    missing : {"token", "empty", "refuse"}
        What a missing value of the context becomes: a token of its own, a position without a token,
        or an error.
    kinds : tuple of InputKind
        What each column of the context holds, the label last; targets are numbers. Empty before
        anything was learned; UNKNOWN for a column of which the rows to come decide.
    time : str, optional
        The column with the time of each row: no part of the context, unless `columns` names it.
    numeric : "auto", "none" or tuple of str
        Which columns are numbers, while `kinds` is empty: those that hold nothing else in the first
        rows, none, or the ones named. With "auto", dates of Parquet files are dates; a text is a
        number in CSV and TSV files only.
    is_target : bool
        Whether the label is a number that is to be predicted. The user says it of the table, for
        a column of numbers may hold labels; a model file says it by the kind of its last column.
    na : tuple of str
        The texts that are missing values in columns of numbers and of dates.
    date_format : tuple of (str, str)
        Columns of dates and their formats, as the user says them.
    learned_formats : tuple of (int, str)
        The places of columns of dates with formats other than ISO 8601, as the rows showed them.
    tell : callable, optional
        Called with sentences about how columns are read; without it, those about columns that are
        probably misread are warnings.
    clocks : tuple of str or None
        The zones of the columns of dates: "" for times without a zone, None for other columns and
        where no value says it. Empty while nothing is known.
    ordered : tuple of (str or int, tuple)
        Columns, by name or place, that the user says hold ordered categories, with these from low
        to high. They go before what files say.
    orders : tuple of (int, tuple)
        The orders of columns by their places, as the first rows and the user settled them. A
        column without any value keeps its order for values to come.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo.sources.schemas import TableSchema
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "fruit.csv")
    ...     _ = path.write_text("colour,size,fruit\nred,small,cherry\ngreen,large,melon\n")
    ...     [batch] = TableSchema(label="fruit").examples([str(path)])
    >>> batch.X.tolist(), batch.y.tolist(), batch.columns
    ([['red', 'small'], ['green', 'large']], ['cherry', 'melon'], ('colour', 'size'))
    """

    label: str | None = None
    columns: tuple[str, ...] | None = None
    header: bool = True
    delimiter: str | None = None
    missing: str = "token"
    kinds: InputKinds = ()
    time: str | None = None
    numeric: str | tuple[str, ...] = "none"
    is_target: bool = False
    na: tuple[str, ...] = NA_TEXTS
    date_format: tuple[tuple[str, str], ...] = ()
    learned_formats: tuple[tuple[int, str], ...] = ()
    tell: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    clocks: tuple[str | None, ...] = ()
    ordered: tuple[tuple[str | int, Order], ...] = ()
    orders: tuple[tuple[int, Order], ...] = ()

    def __post_init__(self) -> None:
        check_missing_rule(self.missing)
        self._check_date_format()
        self._check_ordered()
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise ValueError(
                f"columns= names a column twice ({','.join(self.columns)}): name each once."
            )
        if self.columns is not None and self.label in self.columns:
            raise ValueError(
                f"columns= holds the label {self.label!r}: "
                "a label cannot be part of its own context."
            )
        if not isinstance(self.numeric, str) and self.label in self.numeric:
            raise ValueError(
                f"numeric= holds the label {self.label!r}, not a column of the context: "
                "leave it out."
            )

    def _check_date_format(self) -> None:
        """Refuse formats that are not known, or that another parameter contradicts."""
        for name, written in self.date_format:
            check_format(written)
            if name == self.label:
                raise ValueError(
                    f"date_format= names the label {name!r}, not a column of the context: "
                    "leave it out."
                )
            if self.numeric == "none" and not self.kinds:
                raise ValueError(
                    "numeric='none' reads every column as names, "
                    f"and date_format= says that {name!r} holds dates: leave one of them out."
                )
            if not isinstance(self.numeric, str) and name not in self.numeric and name != self.time:
                raise ValueError(
                    f"numeric= lacks {name!r}, which has a date_format=: add it to the list."
                )

    def _check_ordered(self) -> None:
        """Refuse an order that another parameter contradicts."""
        dated = dict(self.date_format)
        for name, _ in self.ordered:
            if name == self.label:
                raise ValueError(
                    f"ordered= names the label {name!r}, not a column of the context: leave it out."
                )
            if not isinstance(self.numeric, str) and name in self.numeric:
                raise ValueError(
                    f"Column {name!r} is in numeric=, and ordered= names it, too: leave it out of "
                    "one of them."
                )
            if name in dated:
                raise ValueError(
                    f"Column {name!r} has a date_format=, and ordered= names it, too: leave it out "
                    "of one of them."
                )

    def examples(
        self, files: Sequence[str | RowSource], file_format: str | None = None
    ) -> Iterator[Labelled]:
        """Yield the examples in files, or of what a database returns, some at a time."""
        if self.label is None:
            raise ValueError("The column with the labels is not known: name it with label=.")
        missing = MissingTexts()
        is_read_twice = self.has_open_columns and self.numeric != "none"
        with copy_streams(files if is_read_twice else ()) as copies:
            settled = self._settle(files, file_format, copies)
            schema = settled.schema
            for batch in settled.batches:
                schema = schema.with_names(batch)
                examples = schema.read_examples(batch)
                schema.count_missing(missing, batch, schema.known_columns)
                yield examples
        schema.say_all(missing.sentences())

    @property
    def has_open_columns(self) -> bool:
        """Whether rows decide the kind of some column."""
        return not self.kinds or InputKind.UNKNOWN in self.kinds

    def _settle(
        self, files: Sequence[str | RowSource], file_format: str | None, copies: Copies
    ) -> _Settled:
        """Return the schema with the kinds that all rows decide, and the rows to be learned."""

        def read(schema: TableSchema) -> Iterator[Batch]:
            for where in files:
                yield from schema._batches(where, file_format, is_labelled=True, copies=copies)

        batches = read(self)
        first = next(batches, None)
        if first is None:
            return _Settled(self, batches)
        batches = chain([first], batches)
        schema = self.with_names(first)
        is_new = len(schema.kinds) != len(schema.known_columns) + 1  # the label has a kind, too
        if not is_new and not schema.has_open_columns:
            return _Settled(schema, batches)
        if is_new and first.typing == Typing.TEXTS and not self.is_target:
            _warn_of_number_labels(first, schema.label)
        schema = schema.with_orders(first)
        if schema.numeric == "none" and not schema.ordered:
            all_names = [NAMES_ONLY] * len(schema.known_columns)
            return _Settled(schema.with_evidence(all_names), batches)
        evidence = schema.first_evidence(is_new=is_new)
        first_batches: list[Batch] = []
        n_rows = 0
        for batch in batches:
            schema = schema.with_names(batch)
            evidence = schema.add_evidence(batch, evidence)
            n_rows += len(batch)
            # One batch is held, so that small tables are read once; more would be held as texts,
            # which are large.
            first_batches.append(batch)
            if n_rows > read_tables.BATCH_ROWS:
                first_batches = []
        if is_new:
            schema = schema.with_evidence(evidence)
        else:
            schema = schema.with_evidence_of_open_columns(evidence)
        schema.say_doubts(evidence)
        if first_batches:
            return _Settled(schema, iter(first_batches))
        return _Settled(schema, read(schema))

    def first_evidence(self, *, is_new: bool) -> list[TextEvidence]:
        """Return the evidence before the first row; NAMES_ONLY asks for no values of a column."""
        if is_new:
            return []
        evidence = [NAMES_ONLY] * len(self.known_columns)
        for place, kind in enumerate(self.kinds[:-1]):
            if kind == InputKind.UNKNOWN:
                evidence[place] = NO_EVIDENCE
        return evidence

    def read_examples(self, batch: Batch) -> Labelled:
        """Return the examples of some rows; the columns and their kinds are known."""
        rows = self.read_columns(batch)
        return Labelled(
            side_by_side(rows.columns),
            rows.labels,
            self.known_columns,
            rows.kinds,
            batch=batch,
            formats=self.learned_formats,
            orders=self.orders,
        )

    def read_columns(self, batch: Batch) -> TypedColumns:
        """Return the columns of some rows as the model learns them."""
        columns = self._contexts(batch, self.known_columns, self.kinds[:-1], learning=True)
        labels = self._read_labels(batch)
        kinds = tuple(
            kind if kind.is_ordered else kind_of_names(values)
            for kind, values in zip(self.kinds, [*columns, labels], strict=True)
        )
        return TypedColumns(columns, labels, kinds)

    def _read_labels(self, batch: Batch) -> Array:
        assert self.label is not None
        if self.is_target:
            return batch.targets(self.label, self.na)
        labels = as_kind(batch.tokens(self.label), self.kinds[-1])
        _refuse_fractions(labels, self.label)
        return labels

    @property
    def known_columns(self) -> tuple[str, ...]:
        """The columns of the context, which are settled."""
        assert self.columns is not None
        return self.columns

    @property
    def labelled_columns(self) -> list[str]:
        """The columns of the context and the label, which are settled."""
        assert self.label is not None
        return [*self.known_columns, self.label]

    @property
    def column_kinds(self) -> ColumnKinds:
        """The kinds of the columns as a model has them."""
        return tuple(kind.column_kind for kind in self.kinds[:-1])

    def moments(self, batch: Batch) -> list[Any]:
        """Return the time of each row of a batch."""
        assert self.time is not None
        return moments_of(batch, self.time, dict(self.date_format).get(self.time))

    def queries(
        self, files: Sequence[str], h: int, file_format: str | None = None, *, whole: bool = False
    ) -> Iterator[Queries]:
        """Yield the contexts in files.

        `whole` keeps every column of each row, for a table with answers beside it.
        """
        missing = MissingTexts()
        kinds = self.kinds[:h] or (InputKind.MIXED,) * h
        for where in files:
            for batch in self._batches(where, file_format, is_labelled=False, whole=whole):
                columns = self._query_columns(batch, h)
                X = self._contexts(batch, columns, kinds)
                self.count_missing(missing, batch, columns)
                yield Queries(side_by_side(X), batch.names, batch.columns)
        self.say_all(missing.sentences())

    def context(self, texts: Sequence[str], h: int) -> Array:
        """Return the context whose values these texts are, as a table of one row."""
        if len(texts) != h:
            names = ""
            if self.columns:
                names = f", one for each of {list_names(self.columns)}"
            raise ValueError(
                f"There are {len(texts)} values, and the model was fitted on {h}: give {h}{names}."
            )
        columns = self.columns or tuple(str(number) for number in range(1, h + 1))
        self._check_count(columns, h)
        values = tuple(object_array([text]) for text in texts)
        row = Batch(columns, values, np.ones(1, np.int64), where="The values given", unit="row")
        kinds = self.kinds[:h] or (InputKind.MIXED,) * h
        return side_by_side(self._contexts(row, columns, kinds))

    def notes(self) -> dict[str, str]:
        """Return the schema as notes of a model file; the model itself has the names of columns."""
        notes = {
            "reads": "table",
            "header": "yes" if self.header else "no",
            "missing": self.missing,
        }
        optional = {
            "label": self.label,
            "delimiter": self.delimiter,
            "kinds": encode_kinds(self.kinds),
        }
        notes.update((name, value) for name, value in optional.items() if value)
        if self.na != NA_TEXTS:
            notes.update(split_note("na", json.dumps(self.na)))
        if self.learned_formats:
            ranges = places_by_format(self.learned_formats)
            notes.update(split_note("dates", json.dumps(ranges)))
        return notes

    def _batches(
        self,
        where: str | RowSource,
        file_format: str | None,
        *,
        is_labelled: bool,
        whole: bool = False,
        copies: Copies | None = None,
    ) -> Iterator[Batch]:
        columns: list[str] | None = None
        if self.columns is not None and not whole:
            columns = [*self.columns]
            for name in (self.label, self.time):
                if is_labelled and name is not None and name not in columns:
                    columns.append(name)
        if not isinstance(where, str):
            return where.batches(columns)
        copy = None
        if copies is not None:
            copy = copies.get(where)
        return read_table(
            where,
            format=file_format,
            header=self.header,
            delimiter=self.delimiter,
            columns=columns,
            copy=copy,
        )

    def with_names(self, batch: Batch) -> TableSchema:
        """Return the schema with its columns named, given some rows."""
        if self.columns is not None and self.label in batch.names:
            return self
        schema = replace(self, columns=self.name_columns(batch))
        schema.check_dated(schema.known_columns)
        return schema

    def with_orders(self, batch: Batch) -> TableSchema:
        """Return the schema with the orders of its open columns, given the first rows.

        The user's word goes before that of the file; a column that the user says is numeric has no
        order.
        """
        columns = self.known_columns
        for name, _ in self.ordered:
            if isinstance(name, str) and name not in columns:
                raise ValueError(
                    f"ordered= names the column {name!r}, which is none of the context: "
                    f"{list_names(columns)}."
                )
        declared = declare_orders(dict(self.ordered), columns, len(columns))
        orders = dict(self.orders)
        for place, name in enumerate(columns):
            is_open = not self.kinds or self.kinds[place] == InputKind.UNKNOWN
            is_numeric = not isinstance(self.numeric, str) and name in self.numeric
            if place in orders or not is_open or is_numeric:
                continue
            order = declared.get(place)
            if order is None:
                order = batch.find_order(name)
            if order is not None:
                orders[place] = order
            elif name in batch.without_order:
                self._warn_of_lost_order(name, batch.where)
        return replace(self, orders=tuple(sorted(orders.items())))

    def _warn_of_lost_order(self, name: str, where: str) -> None:
        """Say that a column has lost its order."""
        sentence = (
            f"Column {name!r} of {where} is said to hold ordered categories, but the file does not "
            "have their order, for it was written without a dictionary. They are read as names; "
            "name the order with ordered=."
        )
        if self.tell is None:
            warnings.warn(sentence, UserWarning, stacklevel=2)
        self.say_all([sentence])

    def with_orders_of(self, columns: Columns) -> TableSchema:
        """Return the schema with the orders that a model has learned."""
        orders = ((place, columns.order_of(place)) for place in range(columns.n))
        return replace(self, orders=tuple((place, order) for place, order in orders if order))

    def name_columns(self, batch: Batch) -> tuple[str, ...]:
        """Return the columns of the context, given some rows."""
        if self.label is not None:
            batch.column(self.label)
        columns = self.columns
        if columns is None:
            columns = tuple(name for name in batch.names if name not in (self.label, self.time))
        if not columns:
            raise ValueError(
                f"{batch.where} has the column {self.label!r} only: "
                "a context needs at least one more."
            )
        return columns

    def add_evidence(self, batch: Batch, before: Sequence[TextEvidence] = ()) -> list[TextEvidence]:
        """Return what rows say about each column, added to what rows before them have said."""
        evidence = []
        dated = dict(self.date_format)
        orders = dict(self.orders)
        for place, name in enumerate(self.known_columns):
            of_column = before[place] if before else NO_EVIDENCE
            if not of_column.is_closed:  # else no further value changes it
                of_batch = batch.evidence(name, self._find_na(place))
                if name in dated:
                    of_batch = of_batch.as_dates()
                if place in orders:
                    of_batch = of_batch.as_categories()
                of_column = of_column.plus(of_batch)
            evidence.append(of_column)
        return evidence

    def _find_na(self, place: int) -> tuple[str, ...]:
        """Return the texts that are missing values in a column: no category is."""
        order = dict(self.orders).get(place)
        if order is None:
            return self.na
        return tuple(text for text in self.na if text not in order)

    @property
    def scales(self) -> dict[int, Scale]:
        """The scales of columns as a model has them: zones of dates, orders of categories."""
        zones = ((place, zone) for place, zone in enumerate(self.clocks) if zone)
        orders = (
            (place, order)
            for place, order in self.orders
            if self.kinds[place] == InputKind.ORDERED_CATEGORIES
        )
        return dict([*zones, *orders])

    def join_clocks(
        self, clocks: Sequence[str | None], others: Sequence[str | None]
    ) -> tuple[str | None, ...]:
        """Return `clocks` of two parts of a table; ValueError where a column has times of two."""
        nothing = [None] * len(self.known_columns)
        columns = zip(self.known_columns, clocks or nothing, others or nothing, strict=True)
        return tuple(join_zones(clock, other, f"Column {name!r}") for name, clock, other in columns)

    def read_clocks(self, batch: Batch) -> tuple[str | None, ...]:
        """Return what some rows say of `clocks`; the columns and their kinds are known."""
        readings = self._order_readings(self.known_columns, self.kinds[:-1])
        clocks: list[str | None] = []
        for name, kind in zip(self.known_columns, self.kinds[:-1], strict=True):
            clock = None
            if kind == InputKind.DATES:
                clock = clock_of_column(
                    batch.read_ordered(name, readings[name]), f"Column {name!r}"
                )
            clocks.append(clock)
        return tuple(clocks)

    def truths(self, batch: Batch) -> Truths:
        """Return for each column of the context whether it holds truth values only."""
        columns = [batch.column(name) for name in self.known_columns]
        if batch.typing == Typing.TEXTS:
            has_values = [any(text is not None for text in column) for column in columns]
            return tuple(False if has_value else None for has_value in has_values)
        shown = Evidence.of_columns(columns, has_types=True)
        truths: list[bool | None] = []
        for column_type, content in zip(shown.types, shown.contents, strict=True):
            if content == ColumnContent.NOTHING:
                truths.append(None)
            else:
                truths.append(column_type == ColumnType.CATEGORIES)
        return tuple(truths)

    def with_evidence(self, evidence: Sequence[TextEvidence]) -> TableSchema:
        """Return the schema with the kinds of its columns and the formats of dates.

        Evidence is what all values of each column say.
        """
        columns = self.known_columns
        kinds = [*kinds_of_model(choose_kinds(evidence, self.numeric, columns))]
        for place, _ in self.orders:
            if evidence[place].n_values:
                kinds[place] = InputKind.ORDERED_CATEGORIES
        if self.is_target:
            kinds[-1] = InputKind.NUMBERS
        formats: dict[int, str] = {}
        named_formats = dict(self.date_format)
        for place, (name, of_column) in enumerate(zip(columns, evidence, strict=True)):
            written = of_column.date_format
            if kinds[place] != InputKind.DATES:
                written = None
            written = named_formats.get(name, written)
            if written not in (None, ISO):
                formats[place] = written
        return replace(self, kinds=tuple(kinds), learned_formats=tuple(formats.items()))

    def with_evidence_of_open_columns(self, evidence: Sequence[TextEvidence]) -> TableSchema:
        """Return the schema with open columns as evidence decides them, and others as before."""
        decided = self.with_evidence(evidence)
        open_places = {place for place, kind in enumerate(self.kinds) if kind == InputKind.UNKNOWN}
        return self._with_places_of(decided, open_places)

    def _with_places_of(self, other: TableSchema, places: Set[int]) -> TableSchema:
        """Return the schema with some columns read as another schema reads them."""
        kinds = list(self.kinds)
        formats = dict(self.learned_formats)
        other_formats = dict(other.learned_formats)
        for place in places:
            kinds[place] = other.kinds[place]
            formats.pop(place, None)
            if place in other_formats:
                formats[place] = other_formats[place]
        return replace(self, kinds=tuple(kinds), learned_formats=tuple(sorted(formats.items())))

    def with_decided_columns(
        self, kinds: InputKinds, formats: tuple[tuple[int, str], ...]
    ) -> TableSchema:
        """Return the schema after rows have decided open columns.

        `kinds` are those of all these rows, and `formats` those of their columns of dates.
        """
        decided = []
        for before, kind in zip(self.kinds, kinds, strict=True):
            decided.append(kind if before == InputKind.UNKNOWN else before)
        return replace(self, kinds=settle_kinds(decided), learned_formats=formats)

    def with_open_columns(
        self, places: Set[int], numeric: Any, orders: Mapping[int, Order]
    ) -> TableSchema:
        """Return the schema where the rows to come decide the kinds of some columns.

        `numeric` is the parameter of the model, and `orders` are those that its user declared.
        """
        if isinstance(numeric, str) and numeric == "none":
            places = places & orders.keys()
        if not places:
            return self
        open_orders = {place: order for place, order in orders.items() if place in places}
        kinds = list(self.kinds)
        formats = dict(self.learned_formats)
        for place in places:
            kinds[place] = InputKind.UNKNOWN
            formats.pop(place, None)
        if not isinstance(numeric, str):
            numeric = tuple(numeric)
        return replace(
            self,
            kinds=tuple(kinds),
            learned_formats=tuple(sorted(formats.items())),
            numeric=numeric,
            orders=tuple(sorted({**dict(self.orders), **open_orders}.items())),
        )

    def with_kinds_of_model(
        self, columns: ColumnKinds, other: TableSchema | None = None
    ) -> TableSchema:
        """Return the schema where columns that were names have become numbers or dates of a model.

        That happens in Python, and in a merge. `other` is the schema of the other model, whose
        formats of dates are taken.
        """
        if len(self.kinds) != len(columns) + 1:
            return self
        pairs = enumerate(zip(self.kinds, columns, strict=False))  # the label has a kind, too
        places = {place for place, (old, new) in pairs if new.is_ordered and not old.is_ordered}
        if not places:
            return self
        of_model = replace(self, kinds=kinds_of_model(columns), learned_formats=())
        if other is not None:
            of_model = replace(of_model, learned_formats=other.learned_formats)
        return self._with_places_of(of_model, places)

    def say_doubts(self, evidence: Sequence[TextEvidence]) -> None:
        """Say which columns are probably misread; without `tell`, in one warning."""
        may_be_numbers = self.known_columns
        if not isinstance(self.numeric, str):
            may_be_numbers = self.numeric
        # There is no evidence where kinds are given.
        columns = zip(self.known_columns, evidence, strict=False)
        doubts = describe_doubts(
            (name, of_column) for name, of_column in columns if name in may_be_numbers
        )
        if self.tell is None and doubts:
            warnings.warn(" ".join(doubts), UserWarning, stacklevel=2)
        self.say_all(doubts)

    def count_missing(self, missing: MissingTexts, batch: Batch, columns: Sequence[str]) -> None:
        """Count the texts of some rows that are missing values, if `tell` is set."""
        if self.tell is None:
            return
        pairs = zip(columns, self.kinds, strict=False)  # the label has a kind, too
        for place, (name, kind) in enumerate(pairs):
            if kind.is_ordered:
                na = frozenset(self._find_na(place))
                missing.add(name, batch.count_missing_texts(name, na))

    def say_missing(self, evidence: Sequence[TextEvidence]) -> None:
        """Say which texts are missing values, given what all rows say.

        There is no evidence, and nothing to say, where the kinds were given.
        """
        counts = {}
        # The label has a kind, too.
        columns = zip(self.known_columns, evidence, self.kinds, strict=False)
        for name, of_column, kind in columns:
            if kind.is_ordered and of_column.missing:
                counts[name] = dict(of_column.missing)
        self.say_all(describe_missing_texts(counts))

    def say_all(self, sentences: Iterable[str]) -> None:
        """Say how columns are read, to what the caller has given for it."""
        if self.tell is not None:
            for sentence in sentences:
                self.tell(sentence)

    def check_dated(self, columns: Sequence[str]) -> None:
        """Refuse a format for a column that is not there, or that holds no dates."""
        check_formatted_columns(self.date_format, columns, self.kinds, self.time)

    def _order_readings(self, names: Sequence[str], kinds: InputKinds) -> dict[str, OrderedReading]:
        """Return how the texts of each column of numbers or of dates are read, by its name."""
        formats = {}
        for place, written in self.learned_formats:
            if place < len(names):
                formats[names[place]] = written
        formats.update(self.date_format)
        na = frozenset(self.na)
        readings = {}
        for name, kind in zip(names, kinds, strict=True):
            if kind in (InputKind.NUMBERS, InputKind.DATES):
                written = formats.get(name, ISO)
                readings[name] = OrderedReading(kind.column_kind, self.missing, na, written)
        return readings

    def _contexts(
        self,
        batch: Batch,
        names: Sequence[str],
        kinds: InputKinds,
        *,
        learning: bool = False,
    ) -> list[Array]:
        """Return columns of a batch as the model learned them, or is learning them."""
        self.check_dated(names)
        readings = self._order_readings(names, kinds)
        orders = dict(self.orders)
        columns = []
        for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
            if kind == InputKind.ORDERED_CATEGORIES and place in orders:
                reading = CategoryReading(orders[place], self.missing, self.na)
                columns.append(batch.read_categories(name, reading, learning=learning))
            elif name in readings:
                columns.append(batch.read_ordered(name, readings[name]))
            else:
                columns.append(as_kind(batch.tokens(name, self.missing), kind))
        return columns

    @staticmethod
    def _check_count(columns: Sequence[str], h: int) -> None:
        if len(columns) != h:
            raise ValueError(
                f"columns= names {len(columns)} columns, and the model was fitted on {h}: name {h}."
            )

    def _query_columns(self, batch: Batch, h: int) -> tuple[str, ...]:
        """Return the columns of a context: those that were learned.

        Of a file without names that has just h columns, they are all.
        """
        n = len(batch.names)
        if self.columns is None or (not self.header and n == h):
            names = tuple(name for name in batch.names if name != self.label or n == h)
            if len(names) != h:
                raise ValueError(
                    f"{batch.where} has {len(names)} columns ({list_names(names)}), "
                    f"and the model was fitted on {h}: name the {h} with columns=."
                )
            return names
        self._check_count(self.columns, h)
        if not self.header and not all(name in batch.names for name in self.columns):
            raise ValueError(
                f"{batch.where} has {n} columns, and the model was fitted on {h} (columns "
                f"{list_names(self.columns)}): give it a table of these {h}."
            )
        return self.columns


class TypedColumns(NamedTuple):
    """Some rows as the model learns them."""

    columns: list[Array]
    labels: Array
    kinds: InputKinds
    """What the columns hold, the label last."""


class _Settled(NamedTuple):
    """A schema whose kinds are known, and the rows that are read with it."""

    schema: TableSchema
    batches: Iterator[Batch]


@dataclass(frozen=True)
class SequenceSchema:
    r"""Documents: every token is the label of the h tokens before it.

    Parameters
    ----------
    h : int
        Tokens per context.
    tokens : str
        How texts become tokens: "ids", "words", "characters", "bytes" or the path of a
        tokenizer.json.
    column : str, optional
        The Parquet column or the JSON field with the documents.
    case, event : str, optional
        For event logs, which are tables: the columns with the case and with the event.
    end : str, optional
        A token that is put at the end of each document, so that the end can be predicted.
    short : {"drop", "pad"}
        Whether tokens with fewer than h before them are left out, or learnt with the missing
        positions empty.
    chosen : bool
        Whether only the labels that the model declared are learnt.
    header, delimiter
        As in `TableSchema`, for event logs.
    kind : InputKind, optional
        What the events are: names of one kind.
    time : str, optional
        For event logs: the column with the time of each event, by which those of a case are sorted.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo.sources.schemas import SequenceSchema
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "log.csv")
    ...     _ = path.write_text("case,event\n1,open\n2,open\n1,work\n1,close\n2,close\n")
    ...     schema = SequenceSchema(h=1, case="case", event="event")
    ...     [batch] = schema.examples([str(path)])
    ...     [queries] = schema.queries([str(path)], 1)
    >>> batch.X.tolist(), batch.y.tolist()
    ([['open'], ['work'], ['open']], ['work', 'close', 'close'])
    >>> queries.columns[0].tolist(), queries.X.tolist()
    (['1', '2'], [['close'], ['close']])
    """

    h: int
    tokens: str = "ids"
    column: str | None = None
    case: str | None = None
    event: str | None = None
    end: str | None = None
    short: str = "drop"
    chosen: bool = False
    header: bool = True
    delimiter: str | None = None
    kind: InputKind | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        if (self.case is None) != (self.event is None):
            raise ValueError("An event log has two columns to name: give case= and event=, both.")
        if self.short not in ("drop", "pad"):
            raise ValueError(f"short={self.short!r} is not known: use drop or pad.")
        if self.time is not None and not self.is_log:
            raise ValueError(
                "time= sorts the events of a log or the rows of a table: give case= and event= too."
            )

    @property
    def is_log(self) -> bool:
        """Whether the documents are the cases of an event log."""
        return self.case is not None

    def examples(self, files: Sequence[str], file_format: str | None = None) -> Iterator[Labelled]:
        """Yield the examples in files, some at a time."""
        first = 1
        documents = (tokens for _, tokens in self.documents(files, file_format))
        for block in stream_blocks(documents, self.h, None, self.short):
            places = block.targets()
            if len(places):
                contexts = block.tokens[places[:, None] + np.arange(-self.h, 0)]
                labels = block.tokens[places]
                kinds = (kind_of_names(labels),)
                yield Labelled(contexts, labels, columns=(), kinds=kinds, first=first)
                first += len(places)

    def queries(
        self, files: Sequence[str], h: int, file_format: str | None = None, *, whole: bool = False
    ) -> Iterator[Queries]:
        """Yield the last h tokens of each document; positions are empty where it has fewer."""
        del whole  # for tables
        documents = replace(self, end=None).documents(files, file_format)
        while some := list(islice(documents, QUERY_DOCUMENTS)):
            names = object_array([name for name, _ in some])
            tokens = [of_document for _, of_document in some]
            identity = self.case or "document"
            yield Queries(
                _last_tokens(tokens, h),
                (identity,),
                (names,),
                identity=identity,
                documents=tokens,
            )

    def context(self, texts: Sequence[str], h: int) -> Array:
        """Return the last h tokens of a document that is typed.

        That is the events of a log, or a text in any number of parts.
        """
        if self.is_log:
            return _last_tokens([self._as_events(object_array(texts))], h)
        lines = io.BytesIO(" ".join(texts).replace("\n", " ").encode())
        pieces = stream_source("text", self.tokens).stream_pieces(lines, "The text")
        return _last_tokens([*chain.from_iterable(piece.documents() for piece in pieces)], h)

    def _as_events(self, values: Array) -> Array:
        """Return events as the model learned them."""
        if self.kind is None:
            return values
        return as_kind(values, self.kind)

    def documents(
        self, files: Sequence[str], file_format: str | None = None
    ) -> Iterator[tuple[Any, Array]]:
        """Yield the documents of files, each with its case or its number."""
        for of_document in self.documents_with_times(files, file_format):
            yield of_document.name, of_document.tokens

    def documents_with_times(
        self, files: Sequence[str], file_format: str | None = None
    ) -> Iterator[TimedDocument]:
        """Yield the documents of files, each with its case or its number and its first time."""
        end: list[Any] = []
        if self.end is not None:
            end = [self.end]
        if self.is_log:
            for where in files:
                for case, events in self._cases(where, file_format).items():
                    tokens = document([*(event for _, event in events), *end])
                    first_time, _ = events[0]
                    yield TimedDocument(case, tokens, first_time)
            return
        documents = chain.from_iterable(self._plain(where, file_format) for where in files)
        for number, tokens in enumerate(documents, 1):
            if end:
                tokens = document([*tokens.tolist(), *end])
            yield TimedDocument(number, tokens, None)

    def notes(self) -> dict[str, str]:
        """Return the schema as notes of a model file."""
        notes = {
            "reads": "sequences",
            "tokens": self.tokens,
            "short": self.short,
            "header": "yes" if self.header else "no",
            "labels": "chosen" if self.chosen else "all",
        }
        for name in ("column", "case", "event", "time", "end", "delimiter"):
            value = getattr(self, name)
            if value:
                notes[name] = value
        if self.kind is not None:
            notes["kinds"] = encode_kinds([self.kind])
        return notes

    def _cases(self, where: str, file_format: str | None) -> dict[Any, list[tuple[Any, Any]]]:
        """Return the events of each case, each after its time.

        They are in the order of times, or of the file without them.
        """
        assert self.case is not None
        assert self.event is not None
        cases: dict[Any, list[tuple[Any, Any]]] = {}
        names = [self.case, self.event]
        if self.time is not None:
            names.append(self.time)
        batches = read_table(
            where, format=file_format, header=self.header, delimiter=self.delimiter, columns=names
        )
        for batch in batches:
            events = self._as_events(batch.tokens(self.event)).tolist()
            moments = [None] * len(events)
            if self.time is not None:
                moments = moments_of(batch, self.time)
            names_of_cases = batch.tokens(self.case).tolist()
            for case, moment, event in zip(names_of_cases, moments, events, strict=True):
                cases.setdefault(case, []).append((moment, event))
        if self.time is not None:
            for timed_events in cases.values():
                timed_events.sort(key=itemgetter(0))
        return cases

    def _plain(self, where: str, file_format: str | None) -> Iterator[Array]:
        kind = file_format or format_of(where, "text")
        if kind in ("csv", "tsv"):
            shown = "Standard input" if where == STANDARD_INPUT else where
            raise ValueError(
                f"{shown} is a table: give case= and event= for an event log, "
                "or label= instead of h= for its rows."
            )
        if where == STANDARD_INPUT:
            source = stream_source(kind, self.tokens, self.column)
            with open_stream(where) as stream:
                for piece in source.stream_pieces(stream, "standard input"):
                    yield from piece.documents()
        else:
            checked: Any = file_format  # `open_source` refuses a format that is not known
            source = open_source(where, tokens=self.tokens, column=self.column, format=checked)
            yield from source.documents()


class TimedDocument(NamedTuple):
    """A document of a file."""

    name: Any
    """Its case, or its number."""
    tokens: Array
    time: Any
    """The time of its first event; None without `SequenceSchema.time`."""


Schema = TableSchema | SequenceSchema


def schema_from_notes(
    notes: dict[str, str],
    columns: Iterable[str] | None,
    h: int,
    find_kinds: Callable[[], InputKinds] = tuple,
) -> Schema:
    """Return the schema that notes describe; for a model without notes, a table of its columns.

    `find_kinds` gives the kinds of the columns, the label last, where the notes do not have them.

    Examples
    --------
    >>> from hammemo.sources.schemas import SequenceSchema, schema_from_notes
    >>> schema = SequenceSchema(h=3, tokens="words")
    >>> schema_from_notes(schema.notes(), None, 3) == schema
    True
    """
    header = notes.get("header", "yes") == "yes"
    kinds = decode_kinds(notes.get("kinds", ""))
    if notes.get("reads") == "sequences":
        return SequenceSchema(
            h,
            tokens=notes.get("tokens", "ids"),
            column=notes.get("column"),
            case=notes.get("case"),
            event=notes.get("event"),
            end=notes.get("end"),
            short=notes.get("short", "drop"),
            chosen=notes.get("labels") == "chosen",
            header=header,
            delimiter=notes.get("delimiter"),
            kind=kinds[0] if kinds else None,
            time=notes.get("time"),
        )
    if len(kinds) != h + 1:
        kinds = find_kinds()
    if columns is not None:
        columns = tuple(map(str, columns))
    return TableSchema(
        label=notes.get("label"),
        columns=columns,
        header=header,
        delimiter=notes.get("delimiter"),
        missing=notes.get("missing", "token"),
        kinds=kinds,
        is_target=kinds[-1:] == (InputKind.NUMBERS,),
        na=na_of_note(join_note("na", notes)),
        learned_formats=formats_of_note(join_note("dates", notes), kinds),
    )


_MANY_FRACTIONS: Final = 20
"""So many different fractions are probably targets: fewer may be grades or versions."""


def _refuse_fractions(labels: Array, name: str) -> None:
    """Refuse labels that are fractions: they are measurements, to be predicted as numbers."""
    if labels.dtype.kind not in "fO":
        return
    for value in labels.tolist():
        if isinstance(value, float) and not value.is_integer():
            raise ValueError(
                f"The label {name!r} holds {value!r}, and labels are names or whole numbers: "
                "to predict a number, "
                f"use target={name!r} and no label= (in Python, MemoryRegressor)."
            )


def _warn_of_number_labels(batch: Batch, name: str | None) -> None:
    """Warn of labels of a text file that all are numbers, many of them different fractions."""
    if name is None:
        return
    texts = {text for text in batch.column(name).tolist() if text is not None}
    numbers = {number_in(text) for text in texts}
    fractions = [
        number for number in numbers if number is not None and not float(number).is_integer()
    ]
    if None not in numbers and len(fractions) >= _MANY_FRACTIONS:
        warnings.warn(
            f"The label {name!r} holds {len(texts)} different numbers such as {min(fractions)!r}, "
            "each of which is learned as a name: to predict a number, "
            f"use target={name!r} and no label=.",
            UserWarning,
            stacklevel=2,
        )


def _last_tokens(documents: list[Array], h: int) -> Array:
    """Return the last h tokens of each document; positions before a short one are empty."""
    contexts = np.full((len(documents), h), NO_TOKEN, object)
    for row, tokens in enumerate(documents):
        last = tokens[-h:].tolist()
        contexts[row, h - len(last) :] = last
    if all(tokens.dtype.kind == "i" for tokens in documents):
        return contexts.astype(np.int64)
    return contexts


def side_by_side(columns: list[Array]) -> Array:
    """Return columns side by side: integers where all are, otherwise objects."""
    if all(column.dtype.kind == "i" for column in columns):
        return np.column_stack(columns)
    table = np.empty((len(columns[0]), len(columns)), object)
    for place, column in enumerate(columns):
        table[:, place] = column
    return table
