r"""Schemas: how files become examples and queries, settled once and kept with the model.

Examples come in two shapes:

- **rows of a table** (`TableSchema`): one column is the label, the others, or those that are named, are the context;
- **sequences** (`SequenceSchema`): every token of a document is the label of the h tokens before it. A document is a
  line of text, a list or a text in a line of JSON or in a Parquet column, or all events of one case of an event log:
  the rows of a table that share a case, in the order of the file or of their times.

A schema is written with the model file as notes (:func:`hammemo.files.models.save`) and found again there
(`schema_from_notes`), so it need not be said again how the input of the model is read.

A schema knows for each column what the model learned there: numbers, dates, or names that are strings or whole numbers
(:mod:`hammemo.sources.kinds`). All rows that a new model learns decide which columns are numbers or dates, so files are
read once for that and once to be learned; a table that fits into one batch is kept meanwhile. The format of dates is
decided with the kind, and kept with it: a later file, or one row alone, is read as the first files were.

Examples and queries: what a schema makes of the rows and documents of files, some at a time.
"""

from __future__ import annotations

import io
import json
import warnings
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo.sources import kinds as column_kinds
from hammemo.sources import read_tables
from hammemo.sources.documents import open_source, stream_source
from hammemo.sources.formats import STANDARD_INPUT, copied_streams, format_of, opened
from hammemo.sources.kinds import MIXED, ORDERED, OTHERS, as_kind, kind_of, kinds_of_model
from hammemo.sources.read_tables import Batch, OrderedReading, moments_of, read_table, shown_names
from hammemo.sources.reading_notes import (
    MissingTexts,
    check_formatted_columns,
    describe_doubts,
    describe_missing_texts,
    formats_of_note,
    joined_note,
    na_of_note,
    places_by_format,
    split_note,
)
from hammemo.tokens.column_evidence import Evidence
from hammemo.tokens.column_kinds import ColumnContent, ColumnKind, ColumnType
from hammemo.tokens.column_letters import decode_letters
from hammemo.tokens.column_values import clock_of_column
from hammemo.tokens.contexts import document
from hammemo.tokens.date_formats import ISO, check_format
from hammemo.tokens.missing import check_missing_rule
from hammemo.tokens.stream_blocks import stream_blocks
from hammemo.tokens.text_evidence import NA_TEXTS, NAMES_ONLY, NO_EVIDENCE, UNKNOWN, TextEvidence, number_in
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.tokens.zones import join_zones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence, Set

    from hammemo._arrays.types import Array
    from hammemo.sources.databases import RowSource
    from hammemo.sources.formats import Copies


@dataclass(frozen=True, eq=False)
class Labelled:
    """Some examples.

    Parameters
    ----------
    X : ndarray of shape (m, h)
    y : ndarray of shape (m,)
    columns : tuple of str
        The names of the positions; empty for sequences.
    kinds : str
        What each column holds, the label last; one letter for all where they are the tokens of sequences.
    batch : Batch or None
        The rows of the table that they are; None for sequences.
    first : int
        The number of the first example of a sequence among all that were read.
    formats : tuple of (int, str)
        The formats of columns of dates, as `TableSchema.learned_formats`.
    """

    X: Array
    y: Array
    columns: tuple[str, ...]
    kinds: str
    batch: Batch | None = None
    first: int = 1
    formats: tuple[tuple[int, str], ...] = ()

    def place(self, row: int) -> str:
        """Return where an example is found, for an error message."""
        return f"example {self.first + row}" if self.batch is None else self.batch.place(row)


@dataclass(frozen=True, eq=False)
class Queries:
    """Some contexts to be answered, and what is known of each: the columns of its row, or the name of its document.

    Parameters
    ----------
    X : ndarray of shape (m, h)
    names, columns
        The columns of the table, or one column: the case or the number of each document.
    identity : str or None
        The column that tells which answer is which; None for rows of a table, which are known by their order.
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
        Whether the first row of CSV and TSV files names the columns; otherwise their names are 1, 2 and so on.
    delimiter : str, optional
        What stands between values of CSV files, if no comma.
    missing : {"token", "empty", "refuse"}
        What a missing value of the context becomes: a token of its own, a position without a token, or an error.
    kinds : str
        What each column of the context holds, the label last: n, d, s, i or m; n for targets. Empty before anything was
        learnt.
    time : str, optional
        The column with the time of each row: no part of the context, unless `columns` names it.
    numeric : "auto", "none" or tuple of str
        Which columns are numbers, while `kinds` is empty: those that hold nothing else in the first rows, none, or the
        ones named. With "auto", dates of Parquet files are dates; a text is a number in CSV and TSV files only.
    is_target : bool
        Whether the label is a number that is to be predicted.
    na : tuple of str
        The texts that are missing values in columns of numbers and of dates.
    date_format : tuple of (str, str)
        Columns of dates and their formats, as the user says them.
    learned_formats : tuple of (int, str)
        The places of columns of dates with formats other than ISO 8601, as the rows showed them.
    tell : callable, optional
        Called with sentences about how columns are read; without it, those about columns that are probably misread
        are warnings.
    clocks : tuple of str or None
        The zones of the columns of dates: "" for times without a zone, None for other columns and where no value says
        it. Empty while nothing is known.

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
    kinds: str = ""
    time: str | None = None
    numeric: str | tuple[str, ...] = "none"
    is_target: bool = False
    na: tuple[str, ...] = NA_TEXTS
    date_format: tuple[tuple[str, str], ...] = ()
    learned_formats: tuple[tuple[int, str], ...] = ()
    tell: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    clocks: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        check_missing_rule(self.missing)
        self._check_date_format()
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise ValueError(f"columns= names a column twice ({','.join(self.columns)}): name each once.")
        if self.columns is not None and self.label in self.columns:
            raise ValueError(f"columns= holds the label {self.label!r}: a label cannot be part of its own context.")
        if not isinstance(self.numeric, str) and self.label in self.numeric:
            raise ValueError(f"numeric= holds the label {self.label!r}, not a column of the context: leave it out.")

    def _check_date_format(self) -> None:
        """Refuse formats that are not known, or that go with another parameter that says the opposite."""
        for name, written in self.date_format:
            check_format(written)
            if name == self.label:
                raise ValueError(f"date_format= names the label {name!r}, not a column of the context: leave it out.")
            if self.numeric == "none" and not self.kinds:
                raise ValueError(
                    f"numeric='none' reads every column as names, and date_format= says that {name!r} holds dates: "
                    "leave one of them out."
                )
            if not isinstance(self.numeric, str) and name not in self.numeric and name != self.time:
                raise ValueError(f"numeric= lacks {name!r}, which has a date_format=: add it to the list.")

    def examples(self, files: Sequence[str | RowSource], file_format: str | None = None) -> Iterator[Labelled]:
        """Yield the examples in files, or of what a database returns, some at a time."""
        if self.label is None:
            raise ValueError("The column with the labels is not known: name it with label=.")
        missing = MissingTexts()
        is_open = (not self.kinds or UNKNOWN in self.kinds) and self.numeric != "none"
        with copied_streams(files if is_open else ()) as copies:
            settled = self._settle(files, file_format, copies)
            schema = settled.schema
            for batch in settled.batches:
                schema = schema.with_names(batch)
                labelled = schema.labelled(batch)
                schema.count_missing(missing, batch, schema.known_columns)
                yield labelled
        schema.say_all(missing.sentences())

    def _settle(self, files: Sequence[str | RowSource], file_format: str | None, copies: Copies) -> _Settled:
        """Return the schema with the kinds that all rows decide, and the rows to be learned."""

        def read(schema: TableSchema) -> Iterator[Batch]:
            for where in files:
                yield from schema._batches(where, file_format, labelled=True, copies=copies)

        batches = read(self)
        first = next(batches, None)
        if first is None:
            return _Settled(self, batches)
        schema = self.with_names(first)
        is_known = len(schema.kinds) == len(schema.known_columns) + 1
        if is_known and UNKNOWN not in schema.kinds:
            return _Settled(schema, chain([first], batches))
        if not is_known and first.typing == column_kinds.Typing.TEXTS and not self.is_target:
            _warn_of_number_labels(first, schema.label)
        if schema.numeric == "none":
            all_names = [NAMES_ONLY] * len(schema.known_columns)
            return _Settled(schema.with_evidence(all_names), chain([first], batches))
        evidence: list[TextEvidence] = []
        if is_known:  # NAMES_ONLY lets columns of known kinds not be looked at
            evidence = [NO_EVIDENCE if kind == UNKNOWN else NAMES_ONLY for kind in schema.kinds[:-1]]
        kept: list[Batch] = []
        n_rows = 0
        for batch in chain([first], batches):
            schema = schema.with_names(batch)
            evidence = schema.found_evidence(batch, evidence)
            n_rows += len(batch)
            # One batch is kept, so that small tables are read once; more would be held as texts, which are large.
            kept = [*kept, batch] if n_rows <= read_tables.BATCH_ROWS else []
        schema = schema.with_evidence_of_open_columns(evidence) if is_known else schema.with_evidence(evidence)
        schema.say_doubts(evidence)
        return _Settled(schema, iter(kept) if kept else read(schema))

    def labelled(self, batch: Batch) -> Labelled:
        """Return the examples of some rows; the columns and their kinds are known."""
        X, y, kinds = self.read(batch)
        return Labelled(side_by_side(X), y, self.known_columns, kinds, batch, formats=self.learned_formats)

    def read(self, batch: Batch) -> tuple[list[Array], Array, str]:
        """Return the columns of the context and the labels of some rows as the model learns them, and their kinds."""
        assert self.label is not None
        X = self._contexts(batch, self.known_columns, self.kinds[:-1])
        y = self._read_labels(batch)
        kinds = [k if k in ORDERED else kind_of(part) for k, part in zip(self.kinds, [*X, y], strict=True)]
        return X, y, "".join(kinds)

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
    def wanted(self) -> list[str]:
        """The columns of the context and the label, which are settled."""
        assert self.label is not None
        return [*self.known_columns, self.label]

    @property
    def cell_kinds(self) -> str | None:
        """The kinds of the columns as a model has them; None where all are names."""
        kinds = "".join(kind if kind in ORDERED else ColumnKind.NAMES for kind in self.kinds[:-1])
        return None if set(kinds) <= {ColumnKind.NAMES} else kinds

    def moments(self, batch: Batch) -> list[Any]:
        """Return the time of each row of a batch."""
        assert self.time is not None
        return moments_of(batch, self.time, dict(self.date_format).get(self.time))

    def queries(
        self, files: Sequence[str], h: int, file_format: str | None = None, *, whole: bool = False
    ) -> Iterator[Queries]:
        """Yield the contexts in files; `whole` keeps every column of each row, for a table with answers beside it."""
        missing = MissingTexts()
        kinds = self.kinds[:h] or MIXED * h
        for where in files:
            for batch in self._batches(where, file_format, labelled=False, whole=whole):
                columns = self._query_columns(batch, h)
                X = self._contexts(batch, columns, kinds)
                self.count_missing(missing, batch, columns)
                yield Queries(side_by_side(X), batch.names, batch.columns)
        self.say_all(missing.sentences())

    def context(self, texts: Sequence[str], h: int) -> Array:
        """Return the context whose values these texts are, as a table of one row."""
        if len(texts) != h:
            names = f", one for each of {shown_names(self.columns)}" if self.columns else ""
            raise ValueError(f"There are {len(texts)} values, and the model was fitted on {h}: give {h}{names}.")
        columns = self.columns or tuple(str(number) for number in range(1, h + 1))
        self._check_count(columns, h)
        values = tuple(object_array([text]) for text in texts)
        row = Batch(columns, values, np.ones(1, np.int64), "The values given", "row")
        return side_by_side(self._contexts(row, columns, self.kinds[:h] or MIXED * h))

    def notes(self) -> dict[str, str]:
        """Return the schema as notes of a model file; the names of the columns are kept by the model itself."""
        notes = {"reads": "table", "header": "yes" if self.header else "no", "missing": self.missing}
        optional = {"label": self.label, "delimiter": self.delimiter, "kinds": column_kinds.packed_kinds(self.kinds)}
        notes.update((name, value) for name, value in optional.items() if value)
        if self.na != NA_TEXTS:
            notes.update(split_note("na", json.dumps(self.na)))
        if self.learned_formats:
            notes.update(split_note("dates", json.dumps(places_by_format(self.learned_formats))))
        return notes

    def _batches(
        self,
        where: str | RowSource,
        file_format: str | None,
        *,
        labelled: bool,
        whole: bool = False,
        copies: Copies | None = None,
    ) -> Iterator[Batch]:
        wanted = None
        if self.columns is not None and not whole:
            named = [self.label, self.time] if labelled else []
            wanted = [*self.columns, *(name for name in named if name is not None and name not in self.columns)]
        if not isinstance(where, str):
            return where.batches(wanted)
        copy = None if copies is None else copies.get(where)
        reading: dict[str, Any] = {"format": file_format, "header": self.header, "delimiter": self.delimiter}
        return read_table(where, **reading, columns=wanted, copy=copy)

    def with_names(self, batch: Batch) -> TableSchema:
        """Return the schema with its columns named, given some rows."""
        if self.columns is not None and self.label in batch.names:
            return self
        schema = replace(self, columns=self.named(batch))
        schema.check_dated(schema.known_columns)
        return schema

    def named(self, batch: Batch) -> tuple[str, ...]:
        """Return the columns of the context, given some rows."""
        if self.label is not None:
            batch.column(self.label)
        columns = self.columns
        if columns is None:
            columns = tuple(name for name in batch.names if name not in (self.label, self.time))
        if not columns:
            raise ValueError(f"{batch.where} has the column {self.label!r} only: a context needs at least one more.")
        return columns

    def found_evidence(self, batch: Batch, known: Sequence[TextEvidence] = ()) -> list[TextEvidence]:
        """Return what rows say about each column of the context, added to what rows before them have said."""
        found = []
        dated = dict(self.date_format)
        for place, name in enumerate(self.known_columns):
            before = known[place] if known else NO_EVIDENCE
            if not before.is_closed:  # else no further value changes it
                evidence = batch.evidence(name, self.na)
                before = before.plus(evidence.as_dates() if name in dated else evidence)
            found.append(before)
        return found

    @property
    def zones(self) -> dict[int, str]:
        """The zones of the columns whose times have one, by their places."""
        return {place: zone for place, zone in enumerate(self.clocks) if zone}

    def join_clocks(self, clocks: Sequence[str | None], others: Sequence[str | None]) -> tuple[str | None, ...]:
        """Return `clocks` of two parts of a table; ValueError where a column has times of two."""
        names, none = self.known_columns, [None] * len(self.known_columns)
        columns = zip(names, clocks or none, others or none, strict=True)
        return tuple(join_zones(mine, theirs, f"Column {name!r}") for name, mine, theirs in columns)

    def read_clocks(self, batch: Batch) -> tuple[str | None, ...]:
        """Return what some rows say of `clocks`; the columns and their kinds are known."""
        readings = self._order_readings(self.known_columns, self.kinds[:-1])
        clocks: list[str | None] = []
        for name, kind in zip(self.known_columns, self.kinds[:-1], strict=True):
            clock = None
            if kind == ColumnKind.DATES:
                clock = clock_of_column(batch.ordered(name, readings[name]), f"Column {name!r}")
            clocks.append(clock)
        return tuple(clocks)

    def truths(self, batch: Batch) -> str:
        """Return for each column of the context whether it holds `ONLY_TRUTHS`, `OTHERS`, or no value (`UNKNOWN`)."""
        columns = [batch.column(name) for name in self.known_columns]
        if batch.typing == column_kinds.Typing.TEXTS:
            return "".join(OTHERS if any(text is not None for text in column) else UNKNOWN for column in columns)
        shown = Evidence.of_columns(columns, has_types=True)
        truths = [column_kinds.ONLY_TRUTHS if how == ColumnType.CATEGORIES else OTHERS for how in shown.types]
        pairs = zip(truths, shown.contents, strict=True)
        return "".join(UNKNOWN if content == ColumnContent.NOTHING else truth for truth, content in pairs)

    def with_evidence(self, evidence: Sequence[TextEvidence]) -> TableSchema:
        """Return the schema with the kinds of its columns and the formats of dates, given what all values say."""
        columns = self.known_columns
        found = "".join(one.kind for one in evidence)
        kinds = kinds_of_model(decode_letters(column_kinds.ordered_kinds(found, self.numeric, columns), ColumnKind))
        formats = tuple(
            (place, one.date_format)
            for place, one in enumerate(evidence)
            if kinds[place] == ColumnKind.DATES and one.date_format not in (None, ISO)
        )
        said = {name: written for name, written in self.date_format if written != ISO}
        formats += tuple((place, said[name]) for place, name in enumerate(columns) if name in said)
        if self.is_target:
            kinds = kinds[:-1] + ColumnKind.NUMBERS
        return replace(self, kinds=kinds, learned_formats=tuple(sorted(formats)))

    def with_evidence_of_open_columns(self, evidence: Sequence[TextEvidence]) -> TableSchema:
        """Return the schema with open columns as the evidence decides them, and the others as they are."""
        decided = self.with_evidence(evidence)
        pairs = zip(self.kinds, decided.kinds, strict=True)
        kinds = "".join(new if old == UNKNOWN else old for old, new in pairs)
        formats = dict(self.learned_formats)
        formats.update((place, written) for place, written in decided.learned_formats if self.kinds[place] == UNKNOWN)
        return replace(self, kinds=kinds, learned_formats=tuple(sorted(formats.items())))

    def with_open_columns(self, places: Set[int], numeric: Any) -> TableSchema:
        """Return the schema of a model of whose columns some have no value yet: the rows to come decide their kinds.

        `numeric` is the parameter of the model.
        """
        if not places or (isinstance(numeric, str) and numeric == "none"):
            return self
        kinds = "".join(UNKNOWN if place in places else kind for place, kind in enumerate(self.kinds))
        formats = tuple((place, written) for place, written in self.learned_formats if place not in places)
        numeric = numeric if isinstance(numeric, str) else tuple(numeric)
        return replace(self, kinds=kinds, learned_formats=formats, numeric=numeric)

    def with_kinds_of_model(self, kinds: str, formats: Sequence[tuple[int, str]] = ()) -> TableSchema:
        """Return the schema where columns that were names are numbers or dates of a model now, as after a merge.

        `formats` are those of its dates.
        """
        if len(self.kinds) != len(kinds) + 1:
            return self
        pairs = zip(kinds, self.kinds, strict=False)  # the label has a kind, too
        places = {place for place, (now, then) in enumerate(pairs) if now in ORDERED and then not in ORDERED}
        if not places:
            return self
        settled = "".join(kinds[place] if place in places else then for place, then in enumerate(self.kinds))
        added = (pair for pair in formats if pair[0] in places)
        return replace(self, kinds=settled, learned_formats=tuple(sorted((*self.learned_formats, *added))))

    def say_doubts(self, evidence: Sequence[TextEvidence]) -> None:
        """Say which columns are probably misread; without `tell`, in one warning."""
        wanted = self.known_columns if isinstance(self.numeric, str) else self.numeric
        named = zip(self.known_columns, evidence, strict=False)  # there is none where kinds are given
        sentences = describe_doubts((name, one) for name, one in named if name in wanted)
        if self.tell is None and sentences:
            warnings.warn(" ".join(sentences), UserWarning, stacklevel=2)
        self.say_all(sentences)

    def count_missing(self, missing: MissingTexts, batch: Batch, columns: Sequence[str]) -> None:
        """Count the texts of some rows that are missing values, if someone is to be told of them."""
        if self.tell is not None:
            na = frozenset(self.na)
            for name, kind in zip(columns, self.kinds, strict=False):  # the label has a kind, too
                if kind in ORDERED:
                    missing.add(name, batch.count_missing_texts(name, na))

    def say_missing(self, evidence: Sequence[TextEvidence]) -> None:
        """Say which texts are missing values, given what all rows say; nothing where the kinds were given."""
        pairs = zip(self.known_columns, evidence, self.kinds, strict=False)  # the label has a kind, too
        counts = {name: dict(one.missing) for name, one, kind in pairs if kind in ORDERED and one.missing}
        self.say_all(describe_missing_texts(counts))

    def say_all(self, sentences: Iterable[str]) -> None:
        """Say how columns are read, to what the caller has given for it."""
        if self.tell is not None:
            for sentence in sentences:
                self.tell(sentence)

    def check_dated(self, columns: Sequence[str]) -> None:
        """Refuse a format for a column that is not there, or that the model has not learned as dates."""
        check_formatted_columns(self.date_format, columns, self.kinds, self.time)

    def _order_readings(self, names: Sequence[str], kinds: str) -> dict[str, OrderedReading]:
        """Return how the texts of each column of numbers or of dates are read, by its name."""
        formats = {names[place]: written for place, written in self.learned_formats if place < len(names)}
        formats.update(self.date_format)
        na = frozenset(self.na)
        return {
            name: OrderedReading(decode_letters(kind, ColumnKind)[0], self.missing, na, formats.get(name, ISO))
            for name, kind in zip(names, kinds, strict=True)
            if kind in ORDERED
        }

    def _contexts(self, batch: Batch, names: Sequence[str], kinds: str) -> list[Array]:
        """Return columns of a batch as the model learned them."""
        self.check_dated(names)
        readings = self._order_readings(names, kinds)
        columns = []
        for name, kind in zip(names, kinds, strict=True):
            if name in readings:
                columns.append(batch.ordered(name, readings[name]))
            else:
                columns.append(as_kind(batch.tokens(name, self.missing), kind))
        return columns

    @staticmethod
    def _check_count(columns: Sequence[str], h: int) -> None:
        if len(columns) != h:
            raise ValueError(f"columns= names {len(columns)} columns, and the model was fitted on {h}: name {h}.")

    def _query_columns(self, batch: Batch, h: int) -> tuple[str, ...]:
        """Return the columns of a context: those that were learnt, or all of a file without names that has just h."""
        n = len(batch.names)
        if self.columns is None or (not self.header and n == h):
            names = tuple(name for name in batch.names if name != self.label or n == h)
            if len(names) != h:
                raise ValueError(
                    f"{batch.where} has {len(names)} columns ({shown_names(names)}), and the model was "
                    f"fitted on {h}: name the {h} with columns=."
                )
            return names
        self._check_count(self.columns, h)
        if not self.header and not all(name in batch.names for name in self.columns):
            raise ValueError(
                f"{batch.where} has {n} columns, and the model was fitted on {h} (columns "
                f"{shown_names(self.columns)}): give it a table of these {h}."
            )
        return self.columns


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
        How texts become tokens: "ids", "words", "characters", "bytes" or the path of a tokenizer.json.
    column : str, optional
        The Parquet column or the JSON field with the documents.
    case, event : str, optional
        For event logs, which are tables: the columns with the case and with the event.
    end : str, optional
        A token that is put at the end of each document, so that the end can be predicted.
    short : {"drop", "pad"}
        Whether tokens with fewer than h before them are left out, or learnt with the missing positions empty.
    chosen : bool
        Whether only the labels that the model declared are learnt.
    header, delimiter
        As in `TableSchema`, for event logs.
    kinds : str
        What the events are: s, i or m.
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
    kinds: str = ""
    time: str | None = None

    def __post_init__(self) -> None:
        if (self.case is None) != (self.event is None):
            raise ValueError("An event log has two columns to name: give case= and event=, both.")
        if self.short not in ("drop", "pad"):
            raise ValueError(f"short={self.short!r} is not known: use drop or pad.")
        if self.time is not None and not self.is_log:
            raise ValueError("time= sorts the events of a log or the rows of a table: give case= and event= too.")

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
                X, y = block.tokens[places[:, None] + np.arange(-self.h, 0)], block.tokens[places]
                yield Labelled(X, y, (), kind_of(y), None, first)
                first += len(places)

    def queries(
        self, files: Sequence[str], h: int, file_format: str | None = None, *, whole: bool = False
    ) -> Iterator[Queries]:
        """Yield the last h tokens of each document, empty positions before them where it has fewer."""
        del whole  # for tables
        documents = replace(self, end=None).documents(files, file_format)
        while held := list(islice(documents, QUERY_DOCUMENTS)):
            tokens = [own for _, own in held]
            X = _last_tokens(tokens, h)
            which = self.case or "document"
            yield Queries(X, (which,), (object_array([name for name, _ in held]),), which, tokens)

    def context(self, texts: Sequence[str], h: int) -> Array:
        """Return the last h tokens of a document that is typed: events of a log, or a text in any number of parts."""
        if self.is_log:
            return _last_tokens([as_kind(object_array(texts), self.kinds or MIXED)], h)
        lines = io.BytesIO(" ".join(texts).replace("\n", " ").encode())
        pieces = stream_source("text", self.tokens).stream_pieces(lines, "The text")
        return _last_tokens([*chain.from_iterable(piece.documents() for piece in pieces)], h)

    def documents(self, files: Sequence[str], file_format: str | None = None) -> Iterator[tuple[Any, Array]]:
        """Yield the documents of files, each with its case or its number."""
        return ((name, tokens) for name, tokens, _ in self.timed_documents(files, file_format))

    def timed_documents(self, files: Sequence[str], file_format: str | None = None) -> Iterator[tuple[Any, Array, Any]]:
        """Yield the documents of files, each with its case or its number and, with `time`, that of its first event."""
        end = [] if self.end is None else [self.end]
        if self.is_log:
            for where in files:
                for case, events in self._cases(where, file_format).items():
                    yield case, document([*(event for _, event in events), *end]), events[0][0]
            return
        for number, tokens in enumerate(chain.from_iterable(self._plain(where, file_format) for where in files), 1):
            yield number, document([*tokens.tolist(), *end]) if end else tokens, None

    def notes(self) -> dict[str, str]:
        """Return the schema as notes of a model file."""
        notes = {"reads": "sequences", "tokens": self.tokens, "short": self.short}
        notes |= {"header": "yes" if self.header else "no", "labels": "chosen" if self.chosen else "all"}
        names = ("column", "case", "event", "time", "end", "delimiter", "kinds")
        optional = {name: getattr(self, name) for name in names}
        return {**notes, **{name: value for name, value in optional.items() if value}}

    def _cases(self, where: str, file_format: str | None) -> dict[Any, list[tuple[Any, Any]]]:
        """Return the events of each case with their times: in the order of these, or of the file without them."""
        assert self.case is not None
        assert self.event is not None
        cases: dict[Any, list[tuple[Any, Any]]] = {}
        names = [self.case, self.event, *([] if self.time is None else [self.time])]
        for batch in read_table(where, format=file_format, header=self.header, delimiter=self.delimiter, columns=names):
            events = as_kind(batch.tokens(self.event), self.kinds or MIXED).tolist()
            moments = [None] * len(events) if self.time is None else moments_of(batch, self.time)
            for case, moment, event in zip(batch.tokens(self.case).tolist(), moments, events, strict=True):
                cases.setdefault(case, []).append((moment, event))
        if self.time is not None:
            for held in cases.values():
                held.sort(key=lambda timed: timed[0])
        return cases

    def _plain(self, where: str, file_format: str | None) -> Iterator[Array]:
        kind = file_format or format_of(where, "text")
        if kind in ("csv", "tsv"):
            shown = "Standard input" if where == STANDARD_INPUT else where
            raise ValueError(
                f"{shown} is a table: give case= and event= for an event log, or label= instead of h= for its rows."
            )
        if where == STANDARD_INPUT:
            with opened(where) as stream:
                for piece in stream_source(kind, self.tokens, self.column).stream_pieces(stream, "standard input"):
                    yield from piece.documents()
        else:
            known: Any = file_format
            yield from open_source(where, tokens=self.tokens, column=self.column, format=known).documents()


Schema = TableSchema | SequenceSchema


def schema_from_notes(
    notes: dict[str, str], columns: Iterable[str] | None, h: int, known_kinds: Callable[[], str] = str
) -> Schema:
    """Return the schema that notes describe; for a model without notes, a table of its columns.

    `known_kinds` gives the kinds of the columns, the label last, where the notes do not have them.

    Examples
    --------
    >>> from hammemo.sources.schemas import SequenceSchema, schema_from_notes
    >>> schema = SequenceSchema(h=3, tokens="words")
    >>> schema_from_notes(schema.notes(), None, 3) == schema
    True
    """
    header = notes.get("header", "yes") == "yes"
    delimiter, kinds = notes.get("delimiter"), column_kinds.unpacked_kinds(notes.get("kinds", ""))
    if notes.get("reads") == "sequences":
        optional: dict[str, Any] = {name: notes.get(name) for name in ("column", "case", "event", "time", "end")}
        optional |= {"header": header, "delimiter": delimiter, "kinds": kinds[:1]}
        tokens, short, chosen = notes.get("tokens", "ids"), notes.get("short", "drop"), notes.get("labels") == "chosen"
        return SequenceSchema(h, tokens, short=short, chosen=chosen, **optional)
    if len(kinds) != h + 1:
        kinds = known_kinds()
    return TableSchema(
        label=notes.get("label"),
        columns=None if columns is None else tuple(map(str, columns)),
        header=header,
        delimiter=delimiter,
        missing=notes.get("missing", "token"),
        kinds=kinds,
        is_target=kinds[-1:] == ColumnKind.NUMBERS,
        na=na_of_note(joined_note("na", notes)),
        learned_formats=formats_of_note(joined_note("dates", notes), kinds),
    )


_MANY_FRACTIONS: Final = 20
"""Different fractions from which on labels are probably targets: fewer may be grades or versions."""


def _refuse_fractions(labels: Array, name: str) -> None:
    """Refuse labels that are fractions: they are measurements, to be predicted as numbers."""
    if labels.dtype.kind not in "fO":
        return
    for value in labels.tolist():
        if isinstance(value, float) and not value.is_integer():
            raise ValueError(
                f"The label {name!r} holds {value!r}, and labels are names or whole numbers: to predict a number, use "
                f"target={name!r} and no label= (in Python, MemoryRegressor)."
            )


def _warn_of_number_labels(batch: Batch, name: str | None) -> None:
    """Warn of labels of a text file that all are numbers, many of them different fractions."""
    if name is None:
        return
    texts = {text for text in batch.column(name).tolist() if text is not None}
    numbers = {number_in(text) for text in texts}
    fractions = [number for number in numbers if number is not None and not float(number).is_integer()]
    if None not in numbers and len(fractions) >= _MANY_FRACTIONS:
        warnings.warn(
            f"The label {name!r} holds {len(texts)} different numbers such as {min(fractions)!r}, each of which is "
            f"learned as a name: to predict a number, use target={name!r} and no label=.",
            UserWarning,
            stacklevel=2,
        )


def _last_tokens(documents: list[Array], h: int) -> Array:
    """Return the last h tokens of each document, empty positions before them where it has fewer."""
    X = np.full((len(documents), h), NO_TOKEN, object)
    for row, tokens in enumerate(documents):
        last = tokens[-h:].tolist()
        X[row, h - len(last) :] = last
    return X.astype(np.int64) if all(tokens.dtype.kind == "i" for tokens in documents) else X


def side_by_side(parts: list[Array]) -> Array:
    """Return columns side by side: integers where all are, otherwise objects."""
    if all(part.dtype.kind == "i" for part in parts):
        return np.column_stack(parts)
    table = np.empty((len(parts[0]), len(parts)), object)
    for column, part in enumerate(parts):
        table[:, column] = part
    return table
