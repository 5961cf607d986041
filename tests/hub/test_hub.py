"""Models on the Hugging Face hub, or on what stands in for it here."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hammemo import MemoryClassifier
from hammemo.memories import Exact
from local_hub import local_hub

if TYPE_CHECKING:
    from pathlib import Path

hub = pytest.importorskip("hammemo.hub", reason="needs huggingface_hub")

X, Y = [["a", "b"], ["c", "d"], ["a", "d"]], ["x", "y", "x"]
PUSH_AND_PULL = """
from hammemo import MemoryClassifier
from hammemo.memories import Exact
from hammemo.hub import OnHub
model = MemoryClassifier(memory=Exact(), vote="sum").fit([["a", "b"], ["c", "d"], ["a", "d"]], ["x", "y", "x"])
OnHub(model).push_to_hub("me/model", token="hf_nobody")
again = OnHub.from_pretrained("me/model", token="hf_nobody").model
assert again.memory_.state_bytes() == model.memory_.state_bytes()
print(again.forget([["c", "d"]], ["y"]).predict([["c", "d"]]).tolist())
"""


def test_a_folder_holds_the_model_and_a_card_with_its_report(tmp_path: Path) -> None:
    clf = MemoryClassifier(memory=Exact(), vote="sum").fit(X, Y)
    hub.OnHub(clf).save_pretrained(tmp_path)
    assert "3 rows, 2 columns, 2 labels" in (tmp_path / "README.md").read_text(encoding="utf-8")
    again = hub.OnHub.from_pretrained(tmp_path).model
    assert again.memory_.state_bytes() == clf.memory_.state_bytes()
    hub.OnHub(clf.compile()).save_pretrained(tmp_path / "compiled")
    assert hub.OnHub.from_pretrained(tmp_path / "compiled").model.predict(X).tolist() == Y


def test_a_model_is_pushed_and_pulled(tmp_path: Path) -> None:
    with local_hub() as (address, files):
        environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1"}
        done = subprocess.run(
            [sys.executable, "-c", PUSH_AND_PULL], env=environment, capture_output=True, text=True, timeout=300
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("['x']")
    assert {"model.safetensors", "README.md"} <= set(files)
