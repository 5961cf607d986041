"""A model of names has the same bytes whatever kernels OpenBLAS and NumPy take for the processor (x86-64)."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytest.importorskip("hammemo._native")
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="OpenBLAS's kernels are chosen by name on x86-64"
)

DIGESTS = """
from hammemo import MemoryClassifier
from hammemo.datasets import load_table
X, y = load_table("car")
print(MemoryClassifier().fit(X[:500], y[:500]).digest(), MemoryClassifier().fit(X[:500, :4], X[:500, 5]).digest())
"""
OTHERS = [
    {"OPENBLAS_CORETYPE": "Haswell"},
    {"OPENBLAS_CORETYPE": "Sandybridge"},
    {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4"},
]


def digests(**environment: str) -> str:
    whole = {**os.environ, "PYTHONWARNINGS": "ignore", **environment}
    done = subprocess.run([sys.executable, "-c", DIGESTS], env=whole, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[0]


def test_another_processor_makes_the_same_model_of_names() -> None:
    here = digests()
    assert [digests(**other) for other in OTHERS] == [here] * len(OTHERS)
