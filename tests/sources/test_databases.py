"""Rows of queries: values as columns of models take them, and PostgreSQL through a cursor on the server."""

from __future__ import annotations

import sqlite3
import uuid
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from hammemo.sources import databases
from hammemo.sources.databases import SqlQuery
from postgres_server import Server, needs_postgres, one_server, postgres

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["postgres"]


def values(address: str, query: str) -> dict[str, list[Any]]:
    [batch] = SqlQuery(address, query).batches()
    return dict(zip(batch.names, (column.tolist() for column in batch.columns), strict=True))


def test_many_rows_come_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "BATCH_ROWS", 3)
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("create table t (x)")
        database.executemany("insert into t values (?)", [(i,) for i in range(8)])
    database.close()
    batches = list(SqlQuery(f"sqlite:///{tmp_path}/a.db", "select x from t order by x").batches())
    assert [batch.columns[0].tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert batches[-1].place(1) == "The query, row 8"


@pytest.mark.parametrize("address", ["sqlite://a.db", "sqlite:///", "duckdb://", "a.db"])
def test_an_address_without_a_file_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"three slashes|begins with"):
        next(SqlQuery(address, "select 1").batches())


@needs_postgres
@one_server
def test_values_of_postgresql(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    psycopg = pytest.importorskip("psycopg")
    one = uuid.uuid4()
    with psycopg.connect(postgres.address, autocommit=True) as database:
        database.execute("drop table if exists kinds")
        database.execute(
            "create table kinds (i bigint, n numeric, f float8, b boolean, d date, t text, u uuid, a int[], j jsonb, "
            "x bytea)"
        )
        row = (2**62, Decimal("12.50"), 0.1, True, date(2026, 11, 18), "é", one, [1, 2], '{"k": 1}', b"ab")
        insert = "insert into kinds values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
        for given in (row, (1, Decimal("NaN"), *[None] * 8), (2, Decimal(7), *[None] * 8)):
            database.execute(insert, given)
    found = values(postgres.address, "select * from kinds order by i desc")
    first = {name: column[0] for name, column in found.items()}
    expected = [2**62, 12.5, 0.1, True, date(2026, 11, 18), "é", str(one), "[1, 2]", '{"k": 1}', "6162"]
    assert list(first.values()) == expected
    assert found["n"][1:] == [7, None]
    assert found["t"][1:] == [None, None]
    monkeypatch.setattr(databases, "BATCH_ROWS", 2)
    assert [len(batch) for batch in SqlQuery(postgres.address, "select i from kinds").batches()] == [2, 1]
    for wrong in ("select nothing from kinds", "delete from kinds", "select 1; drop table kinds"):
        with pytest.raises(ValueError, match="The database refused"):
            list(SqlQuery(postgres.address, wrong).batches())
    assert len(values(postgres.address.replace("postgresql:", "postgres:"), "select i from kinds limit 2")["i"]) == 2
    with pytest.raises(ValueError, match="The database refused") as refused:
        list(SqlQuery("postgresql://me:geheim@127.0.0.1:1/x", "select 1").batches())
    assert "geheim" not in str(refused.value)
    assert "geheim" not in repr(SqlQuery("postgresql://me:geheim@127.0.0.1:1/x", "select 1"))
