"""Rows that are in no file: those of a SQL query, and of a Delta table at one version.

They come in batches of bounded size. Values are as the database has them, with three exceptions:

- a decimal is a number, a whole one where it has no fraction;
- a UUID is a string;
- lists, objects and other values that no column of a model can hold become their text.
"""

from __future__ import annotations

import json
import re
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from hammemo._lazy import explain_missing
from hammemo.sources.formats import require_arrow
from hammemo.sources.read_tables import (
    BATCH_ROWS,
    Batch,
    arrow_batches,
    check_columns,
    check_names,
    column_array,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hammemo._arrays.types import Array

_EXTRAS: Final = {"psycopg": "follow", "duckdb": "lakes", "deltalake": "lakes"}
_PLAIN: Final = (str, bool, int, float, date, timedelta, type(None))


@dataclass(frozen=True)
class SqlQuery:
    """The rows that a query returns.

    Parameters
    ----------
    address : str
        ``postgresql://user@host/database``, ``sqlite:///path`` or ``duckdb:///path``. Files are
        opened for reading only. PostgreSQL sends the rows of a server-side cursor in a read-only
        transaction.
    query : str
        One SELECT statement.

    Examples
    --------
    >>> import sqlite3, tempfile
    >>> from hammemo.sources.databases import SqlQuery
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database = sqlite3.connect(f"{folder}/shop.db")
    ...     with database:
    ...         _ = database.execute("create table fruit as select 'red' as colour, 7 as size")
    ...     database.close()
    ...     [batch] = SqlQuery(f"sqlite:///{folder}/shop.db", "select * from fruit").batches()
    >>> batch.names, [values.tolist() for values in batch.columns]
    (('colour', 'size'), [['red'], [7]])
    """

    address: str = field(repr=False)  # it may hold a password
    query: str

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:  # noqa: ARG002
        """Yield the rows of the query, all columns of them."""
        scheme, _, path = self.address.partition("://")
        if scheme in ("postgresql", "postgres"):
            yield from self._read_cursor("psycopg", lambda module: _postgres(module, self.address))
        elif scheme == "sqlite":
            path = _file(path)
            yield from self._read_cursor(
                "sqlite3", lambda module: module.connect(f"file:{path}?mode=ro", uri=True)
            )
        elif scheme == "duckdb":
            yield from self._read_duckdb(_file(path))
        else:
            raise ValueError(
                f"The address of the database begins with {scheme[:20]!r}: "
                "use postgresql://user@host/database, sqlite:///path or duckdb:///path."
            )

    def _read_cursor(self, name: str, connect: Any) -> Iterator[Batch]:
        module = _import_driver(name)
        # PostgreSQL keeps a named cursor on the server, so the rows need not fit in memory at once.
        of_cursor = {"name": "hammemo"} if name == "psycopg" else {}
        first_row = 1
        with (
            _refuse_in_one_line(module),
            closing(connect(module)) as connection,
            closing(connection.cursor(**of_cursor)) as cursor,
        ):
            cursor.execute(self.query)
            if cursor.description is None:
                raise ValueError("The query returns no rows: give a SELECT statement.")
            while rows := cursor.fetchmany(BATCH_ROWS):
                names = tuple(column[0] for column in cursor.description)
                check_names(names, "The query")
                columns = tuple(_plain_column(values) for values in zip(*rows, strict=True))
                numbers = np.arange(first_row, first_row + len(rows))
                yield Batch(names, columns, numbers, where="The query", unit="row")
                first_row += len(rows)

    def _read_duckdb(self, path: str) -> Iterator[Batch]:
        module = _import_driver("duckdb")
        require_arrow("DuckDB")
        with (
            _refuse_in_one_line(module),
            closing(module.connect(path, read_only=True)) as connection,
        ):
            relation = connection.sql(self.query)
            if relation is None:
                raise ValueError("The query returns no rows: give a SELECT statement.")
            reader = relation.to_arrow_reader(BATCH_ROWS)
            check_names(reader.schema.names, "The query")
            yield from map(_with_plain_values, arrow_batches(reader, "The query"))


@dataclass(frozen=True)
class DeltaVersion:
    """A Delta table as one version has it.

    Parameters
    ----------
    where : str
        A folder, or an address such as ``s3://bucket/table``.
    version : int
    """

    where: str
    version: int

    @classmethod
    def at(cls, where: str, version: int | None = None) -> DeltaVersion:
        """Return it at a version, by default the newest."""
        module = _import_driver("deltalake")
        with _refuse_in_one_line(module.exceptions, "DeltaError"):
            return cls(where, int(module.DeltaTable(where, version=version).version()))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows of this version; with `columns`, these columns of them."""
        module = _import_driver("deltalake")
        require_arrow("Delta")
        with _refuse_in_one_line(module.exceptions, "DeltaError"):
            dataset = module.DeltaTable(self.where, version=self.version).to_pyarrow_dataset()
        check_columns(columns, dataset.schema.names, self.where)
        record_batches = dataset.to_batches(
            columns=columns if columns is None else list(columns), batch_size=BATCH_ROWS
        )
        yield from map(_with_plain_values, arrow_batches(record_batches, self.where))


RowSource: TypeAlias = SqlQuery | DeltaVersion
"""A table that does not lie in files that are named."""


def _import_driver(name: str) -> Any:
    """Return a module, or say how it is installed."""
    with explain_missing(
        f"This needs {name}, which is not installed: pip install 'hammemo[{_EXTRAS.get(name)}]'"
    ):
        return import_module(name)


@contextmanager
def _refuse_in_one_line(module: Any, name: str = "Error") -> Iterator[None]:
    """Say what a database refused in one line; its own errors hold no password."""
    try:
        yield
    except getattr(module, name) as error:
        raise ValueError(f"The database refused: {' '.join(str(error).split())}") from error


def _file(path: str) -> str:
    """Return the file of sqlite:///path or duckdb:///path.

    As in SQLAlchemy, an absolute path has four slashes.
    """
    if not re.match(r"/.", path):
        raise ValueError(
            "Name the file of the database after three slashes, as in sqlite:///shop.db."
        )
    return path[1:]


def _postgres(module: Any, address: str) -> Any:
    connection = module.connect(address)
    connection.read_only = True
    return connection


def _with_plain_values(batch: Batch) -> Batch:
    columns = list(batch.columns)
    for place, values in enumerate(columns):
        if values.dtype.kind == "O":
            columns[place] = _plain_column(values.tolist())
    return replace(batch, columns=tuple(columns))


def _plain_column(values: Iterable[Any]) -> Array:
    return column_array([_plain_value(value) for value in values])


def _plain_value(value: Any) -> Any:
    """Return a value as the column of a model takes it.

    Examples
    --------
    >>> from decimal import Decimal
    >>> from hammemo.sources.databases import _plain_value
    >>> _plain_value(Decimal("12.00")), _plain_value(Decimal("0.5")), _plain_value([1, None])
    (12, 0.5, '[1, null]')
    >>> _plain_value(b"ab")
    '6162'
    """
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Decimal):
        if not value.is_finite():
            return None
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
