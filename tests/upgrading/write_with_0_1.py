"""Model files of version 0.1, and what that version answered from them.

    python tests/upgrading/write_with_0_1.py FOLDER       with an interpreter that has hammemo 0.1 installed

The files in ``tests/upgrading/written_with_0_1`` were made by this program with commit 724dfc9, the last one of 0.1;
``tests/test_upgrading.py`` reads them. It uses names of 0.1 only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

X = [["red", "small", "new"], ["red", "large", "new"], ["blue", "small", "old"], ["blue", "large", "old"]] * 6
X += [["red", "small", "old"], ["green", "large", "new"], ["blue", "small", "new"]]
Y = ["keep", "keep", "sell", "sell"] * 6 + ["sell", "keep", "lend"]
QUERIES = [["red", "small", "new"], ["blue", "large", "new"], ["green", "small", "old"], ["never", "seen", "words"]]
TEXT = "the cat sat on the mat and the dog sat on the cat"
COLUMNS = ["colour", "size", "age"]


def models() -> dict[str, Any]:
    """Return the models whose files are kept."""
    from hammemo import Exact, Gaussian, Hashed, LogLinear, MeMoClassifier, MemoryClassifier, Suffixes, Tiered

    exact = MemoryClassifier(memory=Exact()).fit(X, Y)
    return {
        "default": MemoryClassifier().fit(X, Y),
        "exact": exact,
        "exact-predictor": exact.compile(),
        "exact-mean": MemoryClassifier(Suffixes(2), Exact(), "mean").fit(X, Y),
        "log-linear": MemoryClassifier(None, Hashed(8, 4), LogLinear()).fit(X, Y),
        "paper": MeMoClassifier(d=16, random_state=3).fit(X, Y),
        "gaussian-exact": MemoryClassifier(memory=Gaussian(d=16, exact=True), random_state=3).fit(X, Y),
        "tiered": MemoryClassifier(memory=Tiered(Hashed(4, 2))).fit(X, Y),
        "stream": MemoryClassifier(memory=Hashed(8, 4)).fit_stream([TEXT.split()], 2),
    }


def facts(name: str, model: Any) -> dict[str, Any]:
    """Return what a model answers, and the state of a classifier."""
    import hashlib

    queries = QUERIES if name != "stream" else [["the", "cat"], ["sat", "on"], ["a", "bird"]]
    told = {"labels": model.predict(queries).tolist(), "top": model.top_k(queries, 2).tolist()}
    told["scores"] = model.class_scores(queries).tolist()
    if name == "log-linear":
        told["probabilities"] = model.predict_proba(queries).tolist()
    if hasattr(model, "memory_"):
        told["state"] = hashlib.sha256(model.memory_.state_bytes()).hexdigest()
    if name in ("default", "exact", "tiered"):
        told["proven"] = model.certify(queries).tolist()
    return told


def commands(folder: Path) -> dict[str, str]:
    """Learn a table and a text with the command line, and return what it predicts."""
    rows = [",".join([*row, label]) for row, label in zip(X, Y, strict=True)]
    (folder / "table.csv").write_text("\n".join([",".join([*COLUMNS, "fate"]), *rows]) + "\n")
    (folder / "queries.csv").write_text("\n".join([",".join(COLUMNS), *(",".join(row) for row in QUERIES)]) + "\n")
    (folder / "text.txt").write_text(TEXT + "\n")

    def hammemo(*words: str) -> str:
        command = [sys.executable, "-m", "hammemo", *words]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout

    small = ("--buckets", "8", "--reserved", "4")
    hammemo("fit", "table.csv", "--label", "fate", *small, "--out", "table.model")
    hammemo("fit", "text.txt", "--h", "2", "--tokens", "words", *small, "--out", "text.model")
    return {
        "predict": hammemo("predict", "table.model", "queries.csv"),
        "complete": hammemo("complete", "text.model", "the cat"),
    }


def main(folder: Path) -> None:
    """Write everything."""
    import hammemo

    if not hammemo.__version__.startswith("0.1."):
        raise SystemExit(f"This is hammemo {hammemo.__version__}: give an interpreter that has 0.1.")
    folder.mkdir(parents=True, exist_ok=True)
    expected: dict[str, Any] = {}
    for name, model in models().items():
        hammemo.save(model, folder / f"{name}.model")
        expected[name] = facts(name, model)
    expected["commands"] = commands(folder)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
