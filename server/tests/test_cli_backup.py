"""``hammemo backup``, ``hammemo restore`` and ``hammemo keys expire``."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

pytest.importorskip("msgspec")
pytest.importorskip("cryptography")

from hammemo.cli.app import app
from hammemo_server.edits.operations import Edit
from hammemo_server.models.host import Host

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()


def run(*words: object, code: int = 0) -> str:
    result = runner.invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


def test_models_are_backed_up_and_restored(tmp_path: Path) -> None:
    folder, backups, keys = tmp_path / "models", tmp_path / "backups", tmp_path / "keys"
    run("keys", "new", keys)
    with Host(folder, keys=keys) as host:
        host.create("shop", "plain", {"columns": 1}).edit(Edit("1", "learn", [["a"]], ["x"])).result()
        orders = host.create("shop", "orders", {"columns": 1, "subjects": "required"})
        orders.edit(Edit("1", "learn", [["a"], ["b"]], ["x", "y"], subjects=["ann", "bob"])).result()
        assert "keys" in run("backup", folder, backups, code=1)
        assert "shop/plain, version 1" in run("backup", folder, backups, "--model", "plain")
        assert len(json.loads(run("backup", folder, backups, "--keys", keys, "--json"))) == 2
        copy = shutil.copy(keys, tmp_path / "old-keys")
        orders.edit(Edit("2", "forget_subject", subjects=["ann"])).result()
        host.delete("shop", "plain")
    with Host(folder, keys=keys) as host:  # the end of the first one has issued the receipt
        found = host.get("shop", "orders").erasure("2")
        assert found is not None
        receipts = tmp_path / "receipts"
        receipts.write_bytes(found.receipt + b"\n")
    back = ("restore", sorted(backups.rglob("orders*"))[0], tmp_path / "third", "--receipts", receipts)
    told = run(*back, "--keys", copy, code=1).replace("\n", " ")
    assert "no record of them beside the key file: 2." in told
    assert "--again" in told
    assert "shop/orders is restored, version 1." in run(*back, "--keys", copy, "--again", "2")
    assert "shop/copy is restored, version 3. 1 subject erased since the backup." in run(
        "restore", sorted(backups.rglob("orders*"))[0], folder, "--keys", keys, "--to", "shop/copy"
    )
    assert "'orders'" in run("restore", backups, folder, "--keys", keys, code=1)  # it is there
    (first, second) = json.loads(
        run("restore", backups, tmp_path / "elsewhere", "--keys", keys, "--original-lost", "--json")
    )
    assert sorted([(first["model"], first["version"]), (second["model"], second["version"])]) == [
        ("orders", 3),
        ("plain", 1),
    ]
    assert "0 backups were dropped; 1 are left" in run("keys", "expire", keys)
    for wrong in (
        ("backup", tmp_path / "none", backups),
        ("backup", folder, folder / "backups"),
        ("backup", folder, backups, "--model", "none"),
        ("restore", backups, folder, "--to", "a/b/c"),
        ("restore", backups, folder, "--receipts", receipts),
        ("restore", backups, folder, "--again", "2"),
    ):
        run(*wrong, code=2)
    run("restore", tmp_path / "keys", folder, code=1)
    run("restore", folder, folder, code=1)
