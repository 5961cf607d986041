"""A folder that an earlier version wrote opens, answers and is edited; upgrading is this, and nothing else."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from hammemo.receipts.receipt import SignedReceipt
from hammemo_server.edits.operations import Edit
from hammemo_server.models.host import Host
from hammemo_server.store.audit import find_first_broken
from hammemo_server.store.base_log import FORMAT
from kept_folder import FOLDER, LABELS, ROWS, TENANT, VISITS
from service_hosts import await_erasure, done

if TYPE_CHECKING:
    from pathlib import Path

FILES = sorted(FOLDER.glob("*.zip"))


def test_there_is_one_of_this_format() -> None:
    assert f"format-{FORMAT}" in [path.stem for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_opens_answers_and_is_edited(path: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(path) as kept:
        kept.extractall(tmp_path)
    (tmp_path / "keys.json").chmod(0o600)
    with Host(tmp_path / "models", keys=tmp_path / "keys.json") as host:
        assert host.names(TENANT) == ["people", "table", "visits"]
        assert host.aliases(TENANT) == {"live": "table"}
        table, people, visits = (host.get(TENANT, name) for name in ("table", "people", "visits"))
        model, version = table.answering()
        assert version == 3
        assert model.predict(ROWS).tolist() == LABELS
        assert done(table, Edit("3", "forget", ROWS[:1], LABELS[:1])).status == "repeated"
        for hosted in (table, people, visits):
            start, lines = hosted.audit(0, 1000)
            assert find_first_broken(start, lines) is None
            assert [one.line.after for one in lines] == list(range(1, hosted.version + 1))
        done(people, Edit("e", "forget_subject", subjects=["ann"]))
        receipt = await_erasure(people, "e")
        assert isinstance(receipt, SignedReceipt)
        assert receipt.receipt.rows == 2
        assert receipt.verify()
        assert visits.answering()[0].top_k([["a", "b"]], 1).tolist() == [["c"]]
        done(visits, Edit("2", "forget", documents=VISITS[:1]))
