"""``hammemo keys``, ``forget --receipt`` and ``verify --receipt --rows``: evidence that another person can check."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

pytest.importorskip("cryptography")

from hammemo import MemoryClassifier, load, save
from hammemo.cli.app import app
from hammemo.receipts import ReceiptFile, read_keys

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()
N, GONE = 300, 30


def run(*args: Any, code: int = 0) -> Any:
    result = runner.invoke(app, list(map(str, args)))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def purchases() -> Any:
    """Return a table with a column of names, one of numbers, one of whole numbers, and labels that are numbers."""
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {
            "shop": rng.choice(["secret-a", "b", "c"], N),
            "price": rng.normal(size=N).round(3),
            "items": rng.integers(1, 5, N),
        }
    )
    return table.assign(returned=((table["price"] > 0) == (table["shop"] == "b")).astype(int))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, keys, and the rows that go and that remain."""
    folder, table = tmp_path_factory.mktemp("made"), purchases()
    table.to_csv(folder / "all.csv", index=False)
    table[:GONE].to_csv(folder / "gone.csv", index=False)
    table[GONE:].to_csv(folder / "rest.csv", index=False)
    table[GONE:].to_json(folder / "rest.jsonl", orient="records", lines=True)
    run("fit", folder / "all.csv", "--label", "returned", "--out", folder / "shop.model")
    (folder / "public").write_text(run("keys", "new", folder / "keys").stdout, encoding="utf-8")
    return folder


@pytest.fixture
def shop(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of it, which is the working folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


EVIDENCE = ("--receipt", "receipts", "--keys", "keys")
CHECKED = ("--receipt", "receipts", "--public-key", "public")


def forget(*more: str, code: int = 0) -> Any:
    return run("forget", "shop.model", "gone.csv", *EVIDENCE, *more, code=code)


# ---------------------------------------------------------------- the three results


def test_proven(shop: Path) -> None:
    told = forget("--refit", "--request", "2026-17").stdout
    assert "Receipt of request 2026-17 (30 rows and 0 labels removed): receipts" in told
    found = run("verify", "shop.model", *CHECKED, "--rows", "rest.csv").stdout
    assert "Proven: a model that learns only these 270 rows is the same to the byte." in found
    assert "The receipt of request 2026-17 is signed, and is about this model." in found
    assert found.count("Only stated by the operator") == 1
    assert "that request 2026-17 removed 30 rows and 0 labels" in found
    facts = json.loads(run("verify", "shop.model", *CHECKED, "--rows", "rest.jsonl", "--json").stdout)
    assert facts["result"] == "proven"
    assert facts["digest"] == facts["receipt"]["after"]["digest"] == load("shop.model").digest()
    assert facts["receipt"]["refitted"] == {"layout": True, "weights": True}
    assert (facts["rows"], all(facts["same"].values())) == (270, True)
    assert b"secret" not in (shop / "receipts").read_bytes()


def test_parquet_keeps_types(shop: Path) -> None:
    pytest.importorskip("pyarrow")
    purchases()[GONE:].to_parquet("rest.parquet", index=False)
    forget("--refit")
    assert "Proven" in run("verify", "shop.model", "--rows", "rest.parquet").stdout


def test_counts_proven_but_not_refitted(shop: Path) -> None:
    forget()
    found = run("verify", "shop.model", *CHECKED, "--rows", "rest.csv", "--json", code=1)
    facts = json.loads(found.stdout)
    assert facts["result"] == "counts proven, layout or weights not refitted"
    assert facts["receipt"]["refitted"] == {"layout": False, "weights": False}
    assert "hammemo refit" in found.stderr
    run("refit", "shop.model", *EVIDENCE, "--request", "refit-1")
    assert "Proven" in run("verify", "shop.model", *CHECKED, "--rows", "rest.csv").stdout
    first, second = ReceiptFile("receipts").read()
    assert (second.receipt.rows, second.receipt.previous) == (0, first.hash)
    (shop / "receipts").write_bytes(second.encode() + b"\n")
    assert "the receipts before line 1 of receipts" in run("verify", "shop.model", *CHECKED).stdout


def test_beyond_the_budget(shop: Path) -> None:
    table = purchases()
    X, y = table.drop(columns="returned"), table["returned"]
    save(MemoryClassifier(keep=20).fit(X, y), "few.model")
    table[:200].to_csv("many.csv", index=False)
    table[200:].to_csv("left.csv", index=False)
    run("forget", "few.model", "many.csv", "--label", "returned", "--refit", "--receipt", "few", "--keys", "keys")
    found = run("verify", "few.model", "--receipt", "few", "--rows", "left.csv", "--label", "returned").stdout
    assert "Beyond the budget of kept rows, counts proven under the given layout" in found
    told = run("verify", "few.model", "--receipt", "few").stdout
    assert "does not keep all rows" in told
    assert "Only stated by the operator: that the rows it keeps are those that should remain" in told
    run("verify", "few.model", code=1)


def test_other_rows_are_found_out(shop: Path) -> None:
    forget("--refit")
    purchases()[GONE - 1 :].to_csv("more.csv", index=False)
    found = run("verify", "shop.model", "--rows", "more.csv", code=1)
    assert "Not proven" in found.stdout
    assert "does not hold just the rows that should remain" in found.stderr
    run("verify", "shop.model", "--rows", "rest.csv", "--rows", "gone.csv", code=1)


def test_without_rows_it_is_said_what_is_only_stated(shop: Path) -> None:
    forget("--refit", "--request", "r")
    told = run("verify", "shop.model", "--receipt", "receipts").stdout
    assert "The model is what fit makes of the 270 distinct rows that it keeps." in told
    assert told.count("Only stated by the operator") == 3
    assert f"that the public key {read_keys('keys').public_key} is theirs" in told


# ---------------------------------------------------------------- a changed byte


def test_a_receipt_with_a_changed_byte_does_not_verify(shop: Path) -> None:
    forget("--refit")
    forget("--request", "again", code=1)  # the rows are gone
    run("refit", "shop.model", *EVIDENCE)
    text, rng = (shop / "receipts").read_bytes(), random.Random(0)
    for place in rng.sample(range(len(text)), 12):
        changed = bytearray(text)
        changed[place] ^= 1 << rng.randrange(8)
        (shop / "receipts").write_bytes(changed)
        assert run("verify", "shop.model", *CHECKED, code=1).stderr.startswith("Error: ")
    (shop / "receipts").write_bytes(text)
    run("verify", "shop.model", *CHECKED)


def test_a_model_with_a_changed_byte_does_not_verify(shop: Path) -> None:
    forget("--refit")
    text, rng = (shop / "shop.model").read_bytes(), random.Random(0)
    for place in rng.sample(range(len(text)), 25):
        changed = bytearray(text)
        changed[place] ^= 1 << rng.randrange(8)
        (shop / "shop.model").write_bytes(changed)
        assert run("verify", "shop.model", *CHECKED, "--rows", "rest.csv", code=1).stderr.startswith("Error: ")


def test_another_model_an_old_copy_and_another_key_are_told(shop: Path) -> None:
    shutil.copy("shop.model", "before.model")
    forget("--refit", "--request", "r")
    assert "not the one of the last receipt" in run("verify", "before.model", *CHECKED, code=1).stderr
    shutil.copy("shop.model", "old.model")
    purchases()[GONE : GONE + 5].to_csv("gone.csv", index=False)
    forget("--refit")
    assert "it is an old copy" in run("verify", "old.model", *CHECKED, code=1).stderr
    (shop / "public").write_text(run("keys", "new", "others").stdout, encoding="utf-8")
    assert "signed with another key" in run("verify", "shop.model", *CHECKED, code=1).stderr
    (shop / "public").write_text("no key", encoding="utf-8")
    assert "not 64 hexadecimal digits" in run("verify", "shop.model", *CHECKED, code=1).stderr


# ---------------------------------------------------------------- requests


def test_a_request_is_carried_out_once(shop: Path) -> None:
    forget("--refit", "--request", "r")
    before = ((shop / "shop.model").read_bytes(), (shop / "receipts").read_bytes())
    assert "carried out before; nothing has changed" in forget("--refit", "--request", "r").stdout
    assert json.loads(forget("--refit", "--request", "r", "--json").stdout)["repeated"]
    assert "for other rows" in run("refit", "shop.model", *EVIDENCE, "--request", "r", code=1).stderr
    assert ((shop / "shop.model").read_bytes(), (shop / "receipts").read_bytes()) == before
    run("add", "shop.model", "gone.csv")
    assert "use another id" in forget("--request", "r", code=1).stderr


def test_a_used_id_with_other_rows_is_refused(shop: Path) -> None:
    forget("--refit", "--request", "r")
    before = ((shop / "shop.model").read_bytes(), (shop / "receipts").read_bytes())
    table = purchases()
    for other in (table[GONE : GONE + 30], table[: GONE - 1], table[: GONE + 1]):
        other.to_csv("gone.csv", index=False)
        told = forget("--refit", "--request", "r", code=1).stderr
        assert "receipts has a receipt of request r for other rows, so nothing was done: use another id" in told
    table[:GONE][::-1].to_json("gone.jsonl", orient="records", lines=True)  # the same rows
    repeated = run("forget", "shop.model", "gone.jsonl", *EVIDENCE, "--refit", "--request", "r").stdout
    assert "carried out before" in repeated
    assert ((shop / "shop.model").read_bytes(), (shop / "receipts").read_bytes()) == before


def test_a_used_id_with_other_documents_or_cases_is_refused(shop: Path) -> None:
    log = pandas.DataFrame({"case": [n // 4 for n in range(160)], "event": [f"e{n * n % 7}{n}" for n in range(160)]})
    log.to_csv("log.csv", index=False)
    run("fit", "log.csv", "--h", 2, "--case", "case", "--event", "event", "--out", "log.model")
    asked = ("forget", "log.model", "log.csv", "--refit", "--receipt", "log", "--keys", "keys", "--request", "r")
    run(*asked, "--only", 0)
    assert "carried out before" in run(*asked, "--only", 0).stdout
    assert "for other rows" in run(*asked, "--only", 1, code=1).stderr


def test_a_used_id_is_known_after_the_kinds_of_columns_have_changed(shop: Path) -> None:
    X = pandas.DataFrame({"a": [1.5, 2.0, 3.0] + [1.0, 2.0] * 40, "b": ["x", "y", "z"] + ["x", "y"] * 40})
    y = ["no", "yes", "no"] + ["no", "yes"] * 40
    save(MemoryClassifier().fit(X, y), "few.model")
    X.assign(y=y)[:3].to_csv("few.csv", index=False)
    asked = ("forget", "few.model", "few.csv", "--label", "y", "--receipt", "few", "--keys", "keys", "--request", "r")
    run(*asked, "--refit")
    assert "carried out before" in run(*asked, "--refit").stdout


def test_what_is_left_to_do_is_said(shop: Path) -> None:
    left = "What was chosen and fitted still depends on forgotten examples: run hammemo refit shop.model."
    assert left in run("forget", "shop.model", "gone.csv").stdout
    assert "stale" in run("inspect", "shop.model").stdout
    assert json.loads(run("inspect", "shop.model", "--json").stdout)["stale"]
    told = run("predict", "shop.model", "rest.csv")
    assert told.stderr.count(left) == 1
    assert left not in told.stdout
    assert left not in run("refit", "shop.model").stdout
    assert not json.loads(run("inspect", "shop.model", "--json").stdout)["stale"]
    assert run("predict", "shop.model", "rest.csv").stderr.count("refit") == 0
    purchases()[GONE : GONE + 3].to_csv("more.csv", index=False)
    facts = json.loads(run("forget", "shop.model", "more.csv", "--refit", "--json").stdout)
    assert not facts["stale"]


def test_a_request_that_fails_leaves_no_receipt(shop: Path) -> None:
    forget("--refit")
    before = ((shop / "shop.model").read_bytes(), (shop / "receipts").read_bytes())
    assert "never learnt" in forget("--refit", code=1).stderr
    assert ((shop / "shop.model").read_bytes(), (shop / "receipts").read_bytes()) == before
    assert not (shop / "receipts.pending").exists()


def test_a_process_killed_before_the_receipt_is_there_has_it_at_the_next_call(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(ReceiptFile, "_append", kill)
        with pytest.raises(Killed):
            runner.invoke(app, ["forget", "shop.model", "gone.csv", "--refit", *EVIDENCE, "--request", "r"])
    assert not (shop / "receipts").exists()
    assert "was killed. Run it again" in run("verify", "shop.model", *CHECKED, code=1).stderr
    assert "carried out before" in forget("--refit", "--request", "r").stdout
    assert "Proven" in run("verify", "shop.model", *CHECKED, "--rows", "rest.csv").stdout


def test_a_model_that_is_written_elsewhere(shop: Path) -> None:
    before = (shop / "shop.model").read_bytes()
    forget("--refit", "--out", "new.model")
    assert (shop / "shop.model").read_bytes() == before
    run("verify", "shop.model", *CHECKED, code=1)
    assert "Proven" in run("verify", "new.model", *CHECKED, "--rows", "rest.csv").stdout


def test_options_that_do_not_go_together(shop: Path) -> None:
    assert "--receipt needs --keys" in run("forget", "shop.model", "gone.csv", "--receipt", "r", code=2).stderr
    assert "name its file with --receipt" in run("forget", "shop.model", "gone.csv", "--keys", "keys", code=2).stderr
    assert "name its file with --receipt" in run("verify", "shop.model", "--public-key", "public", code=2).stderr
    assert "line of 1 to 200" in forget("--request", "", code=1).stderr
    assert (
        "is not a key file"
        in run("forget", "shop.model", "gone.csv", "--receipt", "r", "--keys", "rest.csv", code=1).stderr
    )


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_key_file_is_private_and_never_replaced(shop: Path) -> None:
    assert stat.S_IMODE((shop / "keys").stat().st_mode) == 0o600
    assert run("keys", "public", "keys").stdout == (shop / "public").read_text(encoding="utf-8")
    assert "exists already" in run("keys", "new", "keys", code=1).stderr
    (shop / "keys").chmod(0o644)
    assert "chmod 600" in forget(code=1).stderr
    assert "cannot be written" in run("keys", "new", "no/such/folder", code=1).stderr


# ---------------------------------------------------------------- what is learnt


def test_types_of_csv_files_come_from_a_model_that_python_saved(shop: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (N, 3))
    y = (X[:, 0] + X[:, 1]) % 3
    save(MemoryClassifier().fit(X, y), "ids.model")
    for name, rows in {"gone.csv": slice(GONE), "rest.csv": slice(GONE, None)}.items():
        pandas.DataFrame(np.column_stack([X, y])[rows], columns=[*"abc", "y"]).to_csv(name, index=False)
    run("forget", "ids.model", "gone.csv", "--label", "y", "--refit")
    assert "Proven" in run("verify", "ids.model", "--rows", "rest.csv", "--label", "y").stdout


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_dates_truth_values_missing_values_and_all_digits(ending: str, shop: Path) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {
            "amount": rng.normal(size=N),
            "colour": rng.choice(np.array(["red", "green", None], object), N),
            "day": pandas.date_range("2026-01-01", periods=N),
            "member": rng.integers(0, 2, N).astype(bool),
        }
    )
    labels = ((table["amount"] > 0) == (table["colour"] == "red")).to_numpy()
    save(MemoryClassifier().fit(table, labels.astype(int)), "a.model")
    for name, rows in {"gone": slice(GONE), "rest": slice(GONE, None)}.items():
        getattr(table.assign(label=labels.astype(int))[rows], f"to_{ending}")(f"{name}.{ending}", index=False)
    run("forget", "a.model", f"gone.{ending}", "--label", "label", "--refit")
    assert "Proven" in run("verify", "a.model", "--rows", f"rest.{ending}", "--label", "label").stdout


def test_documents(shop: Path) -> None:
    visits = [["secret-tea", "cup", "pot"], ["pen", "ink"], ["secret-tea", "pot"]] * 9
    for name, held in {"visits.jsonl": visits, "gone.jsonl": visits[:1], "rest.jsonl": visits[1:]}.items():
        (shop / name).write_text("".join(json.dumps(visit) + "\n" for visit in held), encoding="utf-8")
    run("fit", "visits.jsonl", "--h", 3, "--short", "pad", "--out", "cli.model")
    save(MemoryClassifier().fit_stream(visits, h=3, short="pad"), "python.model")
    for model in ("cli.model", "python.model"):
        receipt = f"{model}.receipts"
        run("forget", model, "gone.jsonl", "--refit", "--receipt", receipt, "--keys", "keys")
        assert "Proven" in run("verify", model, "--receipt", receipt, "--rows", "rest.jsonl").stdout
        assert b"secret" not in (shop / receipt).read_bytes()


def test_event_logs(shop: Path) -> None:
    log = pandas.DataFrame({"case": [n // 4 for n in range(160)], "event": [f"e{n * n % 7}" for n in range(160)]})
    log.to_csv("log.csv", index=False)
    log[4:].to_csv("rest.csv", index=False)
    run("fit", "log.csv", "--h", 2, "--case", "case", "--event", "event", "--out", "log.model")
    run("forget", "log.model", "log.csv", "--only", 0, "--refit", "--receipt", "log", "--keys", "keys")
    assert "Proven" in run("verify", "log.model", "--receipt", "log", "--rows", "rest.csv").stdout


def test_a_model_in_segments(shop: Path) -> None:
    visits = [["secret-tea", "cup", "pot"], ["pen", "ink"], ["secret-tea", "pot"]] * 9
    for name, held in {"gone.jsonl": visits[:1], "rest.jsonl": visits[1:]}.items():
        (shop / name).write_text("".join(json.dumps(visit) + "\n" for visit in held), encoding="utf-8")
    save(MemoryClassifier().fit_stream(visits, h=3, short="pad"), "folder", segments=2)
    run("forget", "folder", "gone.jsonl", "--refit", "--receipt", "segments", "--keys", "keys")
    assert "Proven" in run("verify", "folder", "--receipt", "segments", "--rows", "rest.jsonl").stdout


def test_without_cryptography_it_is_said_what_to_install(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    before = (shop / "shop.model").read_bytes()
    for command in (["keys", "new", "more"], ["forget", "shop.model", "gone.csv", *EVIDENCE]):
        assert "pip install 'hammemo[erase]'" in run(*command, code=1).stderr
    assert "pip install 'hammemo[erase]'" in run("verify", "shop.model", *CHECKED, code=1).stderr
    assert (shop / "shop.model").read_bytes() == before
    assert not (shop / "more").exists()
    run("verify", "shop.model", "--rows", "all.csv")  # needs none of it without a receipt
