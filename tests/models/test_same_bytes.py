"""A model of a table has the same bytes whatever kernels OpenBLAS and NumPy take for the processor (x86-64)."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="OpenBLAS's kernels are chosen by name on x86-64"
)

DIGESTS = """
import numpy as np
from sklearn.datasets import load_diabetes, load_wine
from hammemo import MemoryClassifier, MemoryRegressor
from hammemo.datasets import load_table
X, y = load_table("car")
print(MemoryClassifier().fit(X[:500], y[:500]).digest(), MemoryClassifier().fit(X[:500, :4], X[:500, 5]).digest())
X, y = load_wine(return_X_y=True)  # three labels; then two labels, with names beside the numbers
mixed = np.column_stack([X[:, :6].astype(object), np.where(X[:, 6] > 2, "high", "low"), np.array(["a", "b", "c"])[y]])
for table, labels in ((X, y), (mixed[:, :7], mixed[:, 7] == "a")):
    clf = MemoryClassifier().fit(table, labels)
    assert clf.report().n_trees
    print(clf.digest())
from hammemo.features.cells.column_codes import ColumnCodes, choose_codes
from hammemo.features.additive import fit_class_base, fit_number_base
from hammemo.tokens.column_kinds import NAMES, NUMBERS
from hammemo.tokens.contexts import Examples
examples = Examples.of(mixed[:, :7], y)
kinds = (NUMBERS,) * 6 + (NAMES,)
codes = choose_codes(kinds, examples.contexts, examples.multiplicity, pairs=np.empty((0, 2), int), seed=0)
rows, words, counts = codes.distinct(examples, 0)
values, names = codes.values(examples.contexts[rows]), codes.rows(examples.contexts[rows])[:, 6:7]
labels, targets = examples.label_ranks[rows], np.rint(X[rows, 12] * 2.0**10).astype(int)
rows = {"values": values, "name_codes": names, "counts": counts, "words": words}
print(fit_class_base(codes, labels=labels, n_labels=3, **rows).digest())
print(fit_class_base(codes, labels=labels // 2, n_labels=2, **rows).digest())
print(fit_number_base(codes, targets=targets, **rows)[0].digest())
mixed[:, 7] = np.where(np.arange(len(X)) % 3, mixed[:, 7], "d")
for table, targets in ((mixed, X[:, 9]), load_diabetes(return_X_y=True)):
    reg = MemoryRegressor().fit(table, targets)
    print(reg.digest(), reg.predict_interval(table).tobytes().hex()[:4000])
"""
OTHERS = [
    {"OPENBLAS_CORETYPE": "Haswell"},
    {"OPENBLAS_CORETYPE": "Sandybridge"},
    {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4"},
]


def digests(**environment: str) -> str:
    whole = {**os.environ, "PYTHONWARNINGS": "ignore", **environment}
    done = subprocess.run([sys.executable, "-c", DIGESTS], env=whole, capture_output=True, text=True, check=True)
    return done.stdout


def test_another_processor_makes_the_same_models_of_names_and_of_numbers() -> None:
    here = digests()
    assert here.count("\n") == 8
    assert [digests(**other) for other in OTHERS] == [here] * len(OTHERS)
