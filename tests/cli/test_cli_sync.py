"""``hammemo sync``: a model file holds just the rows of a table, whatever the table is in."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, load, save
from hammemo.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()
N, GONE, NEW = 300, 20, 5
ALL = "select plan, calls, since, codes, churned from customers"


def run(*args: Any, code: int = 0, **given: Any) -> Any:
    result = runner.invoke(app, list(map(str, args)), **given)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def customers() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = N + NEW
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "plan": rng.choice(np.array(["a", "b", None], object), n),
            "calls": rng.normal(size=n).round(3),
            "since": (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")).strftime("%Y-%m-%d"),
            "codes": rng.choice(["01", "1", "x"], n),
            "churned": rng.choice(["yes", "no"], n),
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, table = tmp_path_factory.mktemp("made"), customers()
    columns = ("--columns", "plan,calls,since,codes", "--label", "churned")
    for name, some in (("all", table[:N]), ("table", table[GONE:]), ("header", table[:0])):
        some.to_csv(folder / f"{name}.csv", index=False)
    run("fit", folder / "all.csv", *columns, "--out", folder / "churn.model")
    run("fit", folder / "table.csv", *columns, "--out", folder / "fresh.model")
    run("fit", folder / "all.csv", *columns, "--keep", "digests", "--out", folder / "digests.model")
    run("fit", folder / "all.csv", *columns, "--keep", 50, "--out", folder / "some.model")
    return folder


@pytest.fixture
def shop(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def synced(*args: Any) -> dict[str, Any]:
    return dict(json.loads(run("sync", *args, "--json").stdout))


def test_it_forgets_and_learns_and_a_refit_makes_the_file_of_a_new_fit(shop: Path) -> None:
    before = (shop / "churn.model").read_bytes()
    dry = run("sync", "churn.model", "table.csv", "--dry-run")
    assert dry.stdout == "20 rows forgotten, 5 learnt, 280 unchanged.\nchurn.model is as it was.\n"
    assert (shop / "churn.model").read_bytes() == before
    verified = run("verify", "churn.model", "--rows", "table.csv", code=1)
    assert "holds 20 other rows, and 5 of these are missing" in " ".join(verified.output.split())
    told = run("sync", "churn.model", "table.csv").stdout
    assert "20 rows forgotten, 5 learnt, 280 unchanged." in told
    assert "run hammemo refit churn.model" in told
    assert "churn.model is as it was" in run("sync", "churn.model", "table.csv").stdout
    run("refit", "churn.model")
    assert (shop / "churn.model").read_bytes() == (shop / "fresh.model").read_bytes()


@pytest.mark.parametrize("name", ["churn", "digests", "some"])
def test_with_refit_every_model_becomes_that_of_a_new_fit(name: str, shop: Path) -> None:
    keep = {"digests": ("--keep", "digests"), "some": ("--keep", 50)}.get(name, ())
    run("fit", "table.csv", "--columns", "plan,calls,since,codes", "--label", "churned", *keep, "--out", "new.model")
    facts = synced(f"{name}.model", "table.csv", "--refit", "--position", "night 7")
    assert (facts["forgotten"], facts["learnt"]) == ((None, None) if name == "some" else (GONE, NEW))
    assert facts["digest"] == load("new.model").digest()
    assert (facts["position"], load(f"{name}.model").position_) == ("night 7", "night 7")


def test_digests_alone_and_models_that_do_not_know_their_rows(shop: Path) -> None:
    assert "only digests of the rows that are gone" in run("sync", "digests.model", "table.csv").stdout
    assert synced("digests.model", "table.csv")["forgotten"] == 0
    refused = run("sync", "some.model", "table.csv", code=1).stderr
    assert "does not know all of its rows" in refused
    assert "--refit" in refused


def test_a_table_without_rows_and_one_without_a_column(shop: Path) -> None:
    pd.read_csv("table.csv").drop(columns="calls").to_csv("less.csv", index=False)
    before = (shop / "churn.model").read_bytes()
    assert "no column 'calls'" in run("sync", "churn.model", "less.csv", code=1).stderr
    pd.read_csv("table.csv").assign(calls="many").to_csv("text.csv", index=False)
    assert "'calls' holds numbers, and 'many' is not one" in run("sync", "churn.model", "text.csv", code=1).stderr
    assert (shop / "churn.model").read_bytes() == before
    assert synced("churn.model", "header.csv")["examples"] == 0
    columns = ["churned", "codes", "id", "since", "calls", "plan"]
    pd.read_csv("all.csv", dtype=str)[columns].to_csv("order.csv", index=False)
    assert synced("churn.model", "order.csv")["learnt"] == N


def test_parquet_arrow_and_queries_are_the_same_table(shop: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pd.read_csv("table.csv", dtype={"codes": str})
    with sqlite3.connect("shop.db") as database:
        table.to_sql("customers", database, index=False)
    database.close()
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    with pa.OSFile("t.arrow", "wb") as file, pa.ipc.new_file(file, arrow.schema) as writer:
        writer.write_table(arrow)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=100)
    table.to_parquet("t.parquet")
    stream = {"input": sink.getvalue().to_pybytes()}
    query = ("--query", ALL, "--database", f"sqlite:///{shop}/shop.db")
    for args, given in (
        (("t.parquet",), {}),
        (("t.arrow",), {}),
        (("--format", "arrow"), stream),
        (query, {}),
    ):
        shutil.copy("churn.model", "copy.model")
        facts = json.loads(run("sync", "copy.model", *args, "--refit", "--json", **given).stdout)
        assert (facts["forgotten"], facts["learnt"]) == (GONE, NEW), args
        assert facts["digest"] == load("fresh.model").digest()


def test_duckdb(shop: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    types = {"codes": "varchar", "churned": "varchar"}  # DuckDB takes yes and no for truth values
    with duckdb.connect("shop.duckdb") as database:
        database.execute(f"create table customers as from read_csv('table.csv', types={types})")
    address = ("--database", f"duckdb:///{shop}/shop.duckdb")
    facts = synced("churn.model", "--query", ALL, *address, "--refit")
    assert (facts["forgotten"], facts["learnt"], facts["digest"]) == (GONE, NEW, load("fresh.model").digest())
    assert "The database refused" in run("sync", "churn.model", "--query", "select from from", *address, code=1).stderr


def test_a_delta_table_at_a_version(shop: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    pa = pytest.importorskip("pyarrow")
    read = {"dtype": {"codes": str}}
    for name in ("all.csv", "table.csv"):
        rows = pa.Table.from_pandas(pd.read_csv(name, **read), preserve_index=False)
        deltalake.write_deltalake("lake", rows, mode="overwrite")
    assert synced("churn.model", "lake", "--at", 0, "--dry-run")["forgotten"] == 0
    facts = synced("churn.model", "lake", "--refit")
    assert (facts["forgotten"], facts["learnt"], facts["position"]) == (GONE, NEW, "1")
    assert facts["digest"] == load("fresh.model").digest()
    assert "The database refused" in run("sync", "churn.model", "lake", "--at", 9, code=1).stderr


def test_what_a_query_needs(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for args, code, told in (
        (("--query", ALL), 2, "--database ADDRESS"),
        (("--query", ALL, "--database", "mysql://secret@x"), 1, "postgresql://user@host/database"),
        (("--query", ALL, "--database", "sqlite:///absent.db"), 1, "The database refused"),
        (("--query", "select 1 as a, 2 as a", "--database", "sqlite:///shop.db"), 1, "two columns named 'a'"),
        (("--query", "create table b (x)", "--database", "sqlite:///shop.db"), 1, "readonly"),
        (("--query", ALL, "table.csv"), 2, "takes the place of TABLE"),
        (("table.csv", "--at", 1), 2, "--at is for a Delta table"),
    ):
        sqlite3.connect("shop.db").close()
        refused = run("sync", "churn.model", *args, code=code).stderr
        assert told in refused
        assert "secret" not in refused
    for name, args in (
        ("psycopg", ("--query", ALL, "--database", "postgresql://x@127.0.0.1:1/y")),
        ("duckdb", ("--query", ALL, "--database", "duckdb:///shop.db")),
        ("deltalake", ("table.csv", "--format", "delta")),
    ):
        monkeypatch.setitem(sys.modules, name, None)
        assert "pip install 'hammemo[" in run("sync", "churn.model", *args, code=1).stderr


def test_a_receipt_counts_the_rows_that_were_forgotten(shop: Path) -> None:
    pytest.importorskip("cryptography")
    run("keys", "new", "keys")
    receipt = ("--receipt", "receipts", "--keys", "keys", "--request", "night-1")
    facts = synced("churn.model", "table.csv", "--refit", *receipt)
    assert facts["receipt"]["removed"]["rows"] == GONE
    run("verify", "churn.model", "--receipt", "receipts", "--rows", "table.csv")
    assert "carried out before" in run("sync", "churn.model", "table.csv", *receipt).stdout
    assert "for other rows" in run("sync", "churn.model", "all.csv", *receipt, code=1).stderr
    more = ("--receipt", "receipts", "--keys", "keys", "--request", "night-2")
    assert synced("churn.model", "all.csv", *more)["receipt"]["removed"]["rows"] == NEW
    assert "no receipt" in run("sync", "churn.model", "all.csv", *more, "--dry-run", code=2).stderr
    unknown = ("--receipt", "others", "--keys", "keys", "--refit")
    assert "does not know which rows it held" in run("sync", "some.model", "table.csv", *unknown, code=1).stderr


def test_models_of_python_and_of_documents(shop: Path) -> None:
    X = [["a", 1.5], ["b", 2.5]] * 10
    save(MemoryClassifier().fit(pd.DataFrame(X, columns=["plan", "calls"]), ["x", "y"] * 10), "python.model")
    pd.DataFrame([*X[2:], ["c", 3.5]], columns=["plan", "calls"]).assign(out=["x", "y"] * 9 + ["y"]).to_csv("p.csv")
    facts = synced("python.model", "p.csv", "--label", "out")
    assert (facts["forgotten"], facts["learnt"], facts["unchanged"]) == (2, 1, 18)
    save(MemoryClassifier().fit_stream([["a", "b", "c"]], h=2), "documents.model")
    assert "learnt sequences" in run("sync", "documents.model", "p.csv", code=1).stderr
