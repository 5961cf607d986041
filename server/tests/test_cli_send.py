"""``hammemo send`` and ``hammemo erase``, against a server."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from typer.testing import CliRunner

pytest.importorskip("msgspec")

from hammemo import load
from hammemo.cli.app import app
from hammemo.client import Client
from hammemo.receipts.keys import new_key_file
from hammemo.receipts.receipt import SignedReceipt
from hammemo.receipts.verifying import Result, check_documents
from hammemo_server.edits.operations import Edit
from hammemo_server.models.host import Host
from running_servers import Process, in_thread

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()


def test_tables_are_sent_and_a_customer_is_erased(tmp_path: Path) -> None:
    keys, table, receipt = tmp_path / "keys.json", tmp_path / "orders.csv", tmp_path / "receipt.json"
    public = new_key_file(keys).public_key
    lines = [f"c{i % 3},red{i % 4},{i % 2},l{i % 2}" for i in range(2500)]
    table.write_text("\n".join(["customer,colour,size,outcome", *lines]) + "\n")
    typed = tmp_path / "typed.jsonl"
    typed.write_text(json.dumps({"customer": 7, "colour": "blue", "size": 1, "outcome": "l1"}) + "\n")
    with Process(tmp_path / "models", "--keys", str(keys)) as server, Client(server.url) as client:
        client.create("orders", columns=["colour", "size"], subjects="required", kernel="positional", vote="sum")
        send = ["send", server.url, "orders", "--label", "outcome"]
        done = runner.invoke(app, [*send, str(table), "--subject", "customer", "--id", "a"])
        assert done.exit_code == 0, done.output
        assert "2,500 rows learnt; the model has version 3." in done.stdout
        again = runner.invoke(app, [*send, str(table), "--subject", "customer", "--id", "a", "--json"])
        assert json.loads(again.stdout) == {"rows": 2500, "version": 3, "id": "a"}
        assert client.describe("orders")["examples"] == 2500
        done = runner.invoke(app, [*send, str(typed), "--subject", "customer"])
        assert done.exit_code == 0, done.output
        for wrong, told in (
            ([str(table)], "subjects"),
            ([str(table), "--subject", "absent"], "no column"),
            ([str(table), "--subject", "customer", "--columns", "customer,size"], "--columns"),
            ([str(table), "--subject", "customer", "--forget", "--columns", "size,colour"], "not stored"),
        ):
            refused = runner.invoke(app, [*send, *wrong])
            assert refused.exit_code != 0
            assert told in refused.stderr.replace("\n", " ")
        done = runner.invoke(app, [*send, str(typed), "--subject", "customer", "--forget"])
        assert done.exit_code == 0, done.output
        erase = ["erase", server.url, "orders", "c1", "--id", "request-17", "--receipt", str(receipt)]
        for _ in range(2):
            done = runner.invoke(app, erase)
            assert done.exit_code == 0, done.output
            assert "The subject is erased, request request-17, version 7." in done.stdout  # that of the refit
        signed = SignedReceipt.decode(receipt.read_bytes().removesuffix(b"\n"))
        assert signed.verify(public)
        assert (signed.receipt.request, signed.receipt.rows) == ("request-17", 833)
        assert client.describe("orders")["examples"] == 2500 - 833
        refused = runner.invoke(app, ["erase", server.url, "orders", "c1", "--no-refit", "--json"])
        assert refused.exit_code == 1
        assert "no such subject" in refused.stderr


def test_rows_are_forgotten_with_receipts_that_verify(tmp_path: Path) -> None:
    keys, receipts, public = tmp_path / "keys.json", tmp_path / "orders.receipts", tmp_path / "operator.pub"
    public.write_text(new_key_file(keys).public_key)
    rows = [{"colour": f"red{i % 4}", "size": i % 3, "outcome": f"l{i % 2}"} for i in range(1200)]
    for name, some in (("all", rows), ("theirs", rows[:1100]), ("remaining", rows[1100:])):
        tmp_path.joinpath(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    theirs, remaining = str(tmp_path / "theirs.jsonl"), str(tmp_path / "remaining.jsonl")
    with in_thread(tmp_path / "models", keys=keys) as server, Client(server.url) as client:
        client.create("orders", columns=["colour", "size"], kernel="positional")
        send = ["send", server.url, "orders", "--label", "outcome"]
        assert runner.invoke(app, [*send, str(tmp_path / "all.jsonl")]).exit_code == 0
        forget = [*send, theirs, "--forget", "--refit", "--receipt", str(receipts), "--id", "2026-21"]
        for _ in range(2):
            done = runner.invoke(app, forget)
            assert done.exit_code == 0, done.output
            assert f"1,100 rows forgotten; the model has version 5. 3 receipts in {receipts}." in done.stdout
        refused = runner.invoke(app, [*send, theirs, "--receipt", str(receipts)])
        assert (refused.exit_code, "--forget" in refused.stderr) == (2, True)
        client.download("orders", tmp_path / "orders.model")
    verify = ["verify", str(tmp_path / "orders.model"), "--receipt", str(receipts), "--public-key", str(public)]
    done = runner.invoke(app, [*verify, "--rows", remaining, "--label", "outcome"])
    assert done.exit_code == 0, done.output
    assert "Proven" in done.stdout
    assert "request 2026-21-refit is signed" in done.stdout


def test_cases_of_a_log_are_sent_as_documents(tmp_path: Path) -> None:
    keys, clicks = tmp_path / "keys.json", tmp_path / "clicks.csv"
    new_key_file(keys)
    lines = [f"v{i % 30},c{i % 3},{100 - i},item{i % 7}" for i in range(90)]
    clicks.write_text("\n".join(["visit,customer,at,item", *lines]) + "\n")
    log = ["--case", "visit", "--event", "item", "--time", "at"]
    with in_thread(tmp_path / "models", keys=keys) as server, Client(server.url) as client:
        client.create("shop", documents={"h": 2, "short": "pad"}, subjects="required")
        send = ["send", server.url, "shop", str(clicks)]
        done = runner.invoke(app, [*send, *log, "--subject", "customer", "--refit"])
        assert done.exit_code == 0, done.output
        assert "30 documents learnt; the model has version 2." in done.stdout
        model = server.service.host.get(server.service._local.tenant, "shop").state().model
        visits = [[f"item{i % 7}" for i in (visit + 60, visit + 30, visit)] for visit in range(30)]
        assert model is not None
        assert check_documents(model, visits).result is Result.PROVEN
        clicks.write_text("visit,customer,at,item\nv1,c1,3,item5\nv1,c1,9,item5\nv1,c1,1,item5\n")
        assert "not stored" in runner.invoke(app, [*send, *log, "--subject", "customer", "--forget"]).stderr
        clicks.write_text("visit,customer,at,item\nv1,c1,3,item1\nv1,c2,9,item3\n")
        for wrong, code, told in (
            ([*log, "--subject", "customer"], 1, "two subjects"),
            ([*log, "--columns", "at"], 2, "--columns"),
            ([*log, "--label", "item"], 2, "--label"),
            (log[:2], 2, "--event"),
            ([], 2, "--label"),
            (["--label", "item", "--time", "at"], 2, "--time"),
        ):
            refused = runner.invoke(app, [*send, *wrong])
            assert (refused.exit_code, told in refused.stderr.replace("\n", " ")) == (code, True), refused.output
        found = client.forget_subject("shop", "c1")
        assert SignedReceipt.decode(found.receipt.encode()).receipt.rows == 30


def test_a_served_model_is_not_changed_behind_the_back_of_its_log(tmp_path: Path) -> None:
    with Host(tmp_path / "models") as host:
        host.create("t", "m", {"columns": 1}).edit(Edit("1", "learn", [["a"]], ["x"])).result()
    table, snapshot = tmp_path / "table.csv", tmp_path / "models" / "t" / "m" / "model.safetensors"
    table.write_text("c,y\nb,x\n")
    before = snapshot.read_bytes()
    for command in ("add", "forget"):
        for place in (snapshot, snapshot.parent):
            refused = runner.invoke(app, [command, str(place), str(table), "--label", "y"])
            assert refused.exit_code == 1
            assert "hammemo send URL m FILE" in refused.output
    assert snapshot.read_bytes() == before


@pytest.mark.parametrize("keep", [True, "digests"])
def test_a_table_is_synced_in_one_edit(tmp_path: Path, keep: bool | str) -> None:
    columns, label = ["plan", "calls", "since"], "churned"
    table = [[f"p{i % 3}", i % 7 + 0.5 if i % 5 else None, f"2026-01-{i % 28 + 1:02}", f"l{i % 2}"] for i in range(60)]

    def written(name: str, rows: list[list[Any]]) -> str:
        lines = [json.dumps(dict(zip([*columns, label], row, strict=True))) for row in rows]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return str(tmp_path / name)

    with in_thread(tmp_path / "models") as server, Client(server.url) as client:
        dates = ["since"] if keep is True else []  # a model without rows cannot turn an open column into dates
        client.create("churn", columns=columns, dates=dates, seed=0, keep=keep)
        send = ["send", server.url, "churn", "--label", label]
        for name, rows, told, version in (
            ("a", table[:50], "0 rows forgotten, 50 learnt", 1),
            ("b", [*table[8:], table[20], table[20]], "8 rows forgotten, 12 learnt, 42 unchanged", 2),
            ("b", [*table[8:], table[20], table[20]], "0 rows forgotten, 0 learnt, 54 unchanged", 2),
        ):
            result = runner.invoke(app, [*send, "--sync", written(f"{name}.jsonl", rows), "--json"])
            assert result.exit_code == 0, result.output
            assert told in result.stderr
            assert json.loads(result.stdout)["version"] == version
            assert client.describe("churn")["examples"] == len(rows)
        refit = ["--refit"] if keep is True else []  # a server has no table to fit a model without rows to
        again = runner.invoke(app, [*send, "--sync", str(tmp_path / "b.jsonl"), "--position", "v7", *refit])
        assert again.exit_code == 0, again.output
        assert client.describe("churn")["position"] == "v7"
        client.download("churn", tmp_path / "churn.model")
        held = load(tmp_path / "churn.model")
        rows = [*table[8:], table[20], table[20]]
        X = [[plan, calls, datetime.fromisoformat(str(day)) if dates else day] for plan, calls, day, _ in rows]
        found = held.sync(pd.DataFrame(X, columns=columns), [row[-1] for row in rows], dry_run=True)
        assert (found.is_equal, found.unchanged) == (True, 54)
        for wrong, said in (
            (["--sync", "--everything"], "--sync finds the rows"),
            (["--sync", "--forget"], "--forget is for"),
            (["--sync", "--subject", "plan"], "leave --subject out"),
        ):
            refused = runner.invoke(app, [*send, *wrong, str(tmp_path / "b.jsonl")])
            assert refused.exit_code == 2
            assert said in refused.stderr
