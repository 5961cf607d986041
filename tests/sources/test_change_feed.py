"""The function of the guide "Sync every night" that reads the change feed of a Delta table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hammemo import MemoryClassifier
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

deltalake = pytest.importorskip("deltalake")
pa = pytest.importorskip("pyarrow")

COLUMNS, LABEL = ["plan", "calls"], "churned"


def rows(first: int, last: int) -> Any:
    rng, n = np.random.default_rng(first), last - first
    plan, calls = rng.choice(["a", "b", "c"], n), rng.integers(0, 30, n) / 2
    return pa.table({"id": np.arange(first, last), "plan": plan, "calls": calls, "churned": rng.choice(["y", "n"], n)})


def fitted(table: Any) -> MemoryClassifier:
    frame = table.to_pyarrow_table().to_pandas()
    return MemoryClassifier().fit(frame[COLUMNS], frame[LABEL].tolist())


def test_the_guide_follows_a_change_feed(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "howto" / "sync-every-night.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(import pyarrow.*?)```", guide, re.DOTALL)
    assert len(code.strip().splitlines()) <= 20
    known: dict[str, Any] = {}
    exec(code, known)
    path = str(tmp_path / "lake")
    deltalake.write_deltalake(path, rows(0, 400), configuration={"delta.enableChangeDataFeed": "true"})
    model = fitted(deltalake.DeltaTable(path)).apply(position="0")
    deltalake.write_deltalake(path, rows(400, 450), mode="append")
    table = deltalake.DeltaTable(path)
    table.delete("id < 40 or id > 440")  # also rows that came in the version before
    table.update(predicate="id between 60 and 90", updates={"calls": "calls + 1"})
    merge = table.merge(rows(430, 470), "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    known["follow_feed"](model, path, COLUMNS, LABEL)
    newest = deltalake.DeltaTable(path)
    assert model.position_ == str(newest.version())
    assert model.refit().digest() == fitted(newest).digest()
    frame = newest.to_pyarrow_table().to_pandas()
    assert model.sync(frame[COLUMNS], frame[LABEL].tolist(), dry_run=True).is_equal
