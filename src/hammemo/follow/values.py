"""The followed columns of a table: where they are in a message, and texts as typed values.

A value is always read from PostgreSQL's text, in the log and in the table, so that both give
the same value. What a value becomes depends on its column's type alone, never on other rows.

| PostgreSQL | becomes |
|---|---|
| smallint, integer, bigint, oid, numeric(p, 0) up to 18 digits | whole number |
| real, double precision, other numeric | 64-bit float; NaN is missing, infinity the largest float |
| date, timestamp | date; infinite ones and those outside the years 1 to 9999 are missing |
| timestamptz | the same, with the zone UTC |
| boolean | true or false |
| all others: text, enum, uuid, arrays, JSON, time, … | name, by its text |
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo._lazy import explain_missing
from hammemo.follow.pgoutput import UNCHANGED, Change, Relation, Unchanged, Values
from hammemo.follow.position import FollowError, NeedsCheck

with explain_missing("To follow a table: pip install 'hammemo[follow]'"):
    import pyarrow as pa
    import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hammemo._arrays.types import Array, Floats

Row = tuple["str | None", ...]
"""The texts of the followed columns, with the label last (then the subject, if there is one)."""
Rows: TypeAlias = "Sequence[Row]"


class FollowedTable(NamedTuple):
    """Rows of a table."""

    values: Any
    """An Arrow table."""
    labels: Array
    subjects: list[Any] | None

    @property
    def pair(self) -> tuple[Any, Array]:
        """Values and labels, as models take them."""
        return self.values, self.labels


_NUMERIC: Final = 1700
_KINDS: Final = {
    16: "bool",
    **dict.fromkeys((20, 21, 23, 26), "whole"),  # int8, int2, int4, oid
    **dict.fromkeys((700, 701), "float"),
    **dict.fromkeys((1082, 1114), "date"),  # date, timestamp
    1184: "moment",  # timestamptz
}
_FOUR_DIGIT_YEAR: Final = r"^\d{4}-.*[^C]$"
"""Not infinity, not BC, and a year that a date of Python has."""


@dataclass(frozen=True)
class Column:
    """A column: its name, and the oid and modifier of its type."""

    name: str
    type: int
    modifier: int = -1

    @property
    def kind(self) -> str:
        """What its values are: "whole", "float", "date", "moment", "bool" or "name".

        A moment is a time with a zone.
        """
        if self.type == _NUMERIC:
            digits = (self.modifier - 4) >> 16
            scale = (self.modifier - 4) & 0x7FF
            if self.modifier >= 4 and digits <= 18 and scale == 0:
                return "whole"
            return "float"
        return _KINDS.get(self.type, "name")


@dataclass(frozen=True)
class Followed:
    """Which columns of a table are followed: values, label, and on a server perhaps the subject."""

    table: str
    columns: tuple[Column, ...]
    label: Column
    subject: Column | None = None
    is_target: bool = False
    """Whether the label is a number to predict.

    That is what the user says of the table, before there is a model: a column of numbers may hold
    labels.
    """
    bounds: tuple[float | None, float | None] | None = field(
        default=None, repr=False, compare=False
    )
    """What a new model of numbers answers at least and at most.

    They change nothing in what is followed, so `hash` leaves them out.
    """

    @property
    def predicts(self) -> str:
        """What a model of it predicts, as its `predicts` says it."""
        return "numbers" if self.is_target else "labels"

    @property
    def all(self) -> tuple[Column, ...]:
        """All of them, in the order of a row."""
        if self.subject is None:
            return (*self.columns, self.label)
        return (*self.columns, self.label, self.subject)

    @property
    def names(self) -> list[str]:
        """The names of the columns that become values."""
        return [column.name for column in self.columns]

    @property
    def hash(self) -> str:
        """A short hash of all of it."""
        return hashlib.blake2b(repr(self).encode(), digest_size=8).hexdigest()

    def places(self, relation: Relation) -> list[int]:
        """Return where the columns are in a row of the log.

        A column that is gone or has another type is refused.
        """
        columns_of_log = {
            name: (place, kind) for place, (name, kind) in enumerate(relation.columns)
        }
        for column in self.all:
            if column.name not in columns_of_log:
                raise column_error(self.table, column.name, "was dropped or renamed")
            if columns_of_log[column.name][1] != column.type:
                raise column_error(self.table, column.name, "has another type now")
        return [columns_of_log[column.name][0] for column in self.all]

    def frame(self, rows: Sequence[Row]) -> FollowedTable:
        """Return rows as a frame; subjects only if these are followed."""
        columns = list(zip(*rows, strict=True)) or [()] * len(self.all)
        arrays = {
            column.name: _make_column(columns[i], column.kind)
            for i, column in enumerate(self.columns)
        }
        labels = self.labels(columns[len(self.columns)])
        return FollowedTable(pa.table(arrays), labels, list(columns[-1]) if self.subject else None)

    def join(self, row_lists: Iterable[Sequence[Row]]) -> FollowedTable:
        """Return lists of rows as one frame."""
        frames = [self.frame(rows) for rows in row_lists]
        subjects = None
        if self.subject is not None:
            subjects = [subject for frame in frames for subject in frame.subjects or ()]
        return FollowedTable(
            pa.concat_tables([frame.values for frame in frames]),
            np.concatenate([frame.labels for frame in frames]),
            subjects,
        )

    def labels(self, texts: Sequence[str | None]) -> Array:
        """Return labels: whole numbers and truth values by their type, others by their text.

        Targets are floats.
        """
        if self.is_target:
            return self._targets(texts)
        read: dict[str, Callable[[Any], Any]] = {"whole": int, "bool": lambda text: text == "t"}
        return object_array(map(read.get(self.label.kind, lambda text: text), texts))

    def _targets(self, texts: Sequence[str | None]) -> Floats:
        targets = np.array(texts, np.float64)
        if not np.isfinite(targets).all():
            name = self.label.name
            raise FollowError(
                f"Column {name!r} of {self.table} holds NaN or infinity, "
                "and a target is a finite number. Change that row, or leave such rows out "
                f"with the condition {name} > '-Infinity' and {name} < 'Infinity'."
            )
        return targets


EXAMPLES: Final = {
    "whole": "0",
    "float": "0",
    "bool": "t",
    "date": "2000-01-01",
    "moment": "2000-01-01",
    "name": "",
}
"""A text of each kind of column."""


def column_error(table: str, name: str, what: str) -> FollowError:
    """Return the error for a followed column that is not what it was."""
    return FollowError(
        f"Column {name!r} of {table} {what}, so the model can no longer follow it; "
        "the model is as it was. Change the column back, "
        "or follow the table with a new model and drop this one's slot."
    )


def old_row(change: Change, places: Sequence[int]) -> Row:
    """Return the row before a change."""
    if change.old is None or change.only_key:
        raise NeedsCheck(
            "the log has a change without the whole old row (REPLICA IDENTITY is not FULL)"
        )
    return _row(change.old, places)


def new_row(change: Change, places: Sequence[int]) -> Row:
    """Return the row after a change; long values that were not sent are those of the old row."""
    values = change.new or []
    if UNCHANGED in values:
        if change.old is None or change.only_key:
            raise NeedsCheck(
                "the log leaves out a long value that did not change (REPLICA IDENTITY is not FULL)"
            )
        values = [a if b is UNCHANGED else b for a, b in zip(change.old, values, strict=True)]
    return _row(values, places)


def _row(values: Values, places: Sequence[int]) -> Row:
    try:
        return tuple([_text(values[place]) for place in places])
    except (IndexError, UnicodeDecodeError) as error:
        raise NeedsCheck(f"a row of the log cannot be read ({error})") from None


def _text(value: bytes | Unchanged | None) -> str | None:
    if isinstance(value, Unchanged):
        raise NeedsCheck("the log leaves out a value")
    if value is None:
        return None
    return value.decode()


def _make_column(texts: Sequence[str | None], kind: str) -> Any:
    """Return texts of one column as an Arrow array."""
    array = pa.array(texts, pa.string())
    if kind == "whole":
        return array.cast(pa.int64())
    if kind == "float":
        return _finite(array.cast(pa.float64()))
    if kind == "bool":
        return pc.equal(array, "t")
    if kind == "date":
        return _dates(array)
    if kind == "moment":
        in_utc = pc.replace_substring_regex(array, r"\+00$", "")  # the session's time zone is UTC
        return _dates(in_utc).cast(pa.timestamp("us", "UTC"))
    return array


def _dates(texts: Any) -> Any:
    """Return texts as dates, null where Python has no such date."""
    usual = pc.match_substring_regex(texts, _FOUR_DIGIT_YEAR)
    return pc.if_else(usual, texts, pa.scalar(None, pa.string())).cast(pa.timestamp("us"))


def _finite(numbers: Any) -> Any:
    """Return floats that JSON can say, too."""
    largest = float(np.finfo(np.float64).max)
    finite = pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
    return pc.max_element_wise(
        pc.min_element_wise(finite, largest, skip_nulls=False), -largest, skip_nulls=False
    )
