"""The golden files: small models of every format so far, which must stay loadable and answer as they did.

``python tests/support/golden_files.py`` adds those of the current format; it never touches what is there already.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from file_catalogue import KERNELS, QUERIES, X, Y
from hammemo import (
    Exact,
    Gaussian,
    Hashed,
    Ledgered,
    LogLinear,
    MemoryClassifier,
    Predictor,
    Suffixes,
    Tiered,
    editing,
    load,
    save,
)
from hammemo.files.contents import format_of
from places import TESTS

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.memories import Memory

FOLDER = TESTS / "files" / "golden"
EXPECTED = FOLDER / "expected.json"


VISITS = [["a", "b"], ["a", "b", "ß", "b"], ["", "a"]]


def models() -> dict[str, MemoryClassifier | Predictor]:
    """Return the models whose files are kept."""
    auto = MemoryClassifier().fit([*X] * 10, [*Y] * 10)
    stream = MemoryClassifier(None, Exact(), "sum").fit_stream(VISITS, X.shape[1], short="pad", pad="x")
    hashed = MemoryClassifier(None, memory=Hashed(4, 2), vote="mean").fit(X, Y)
    return {
        "exact": MemoryClassifier(KERNELS["tuples"], Exact(), vote="sum")
        .fit(X, Y)
        .partial_fit(X[:1], ["no"], classes=["maybe"]),
        "hashed": hashed,
        "gaussian": MemoryClassifier(None, memory=Gaussian(d=6), random_state=5, vote="sum").fit(X, Y),
        "exact-gaussian": MemoryClassifier(None, memory=Gaussian(d=6, exact=True), random_state=5, vote="sum").fit(
            X, Y
        ),
        "tiered": MemoryClassifier(None, memory=Tiered(Hashed(3, 1)), vote="sum").fit(X, Y),
        "ledgered": MemoryClassifier(None, memory=Ledgered(Hashed(3, 1)), vote="sum").fit(X, Y),
        "log-linear": MemoryClassifier(Suffixes(3), Hashed([3, 4, 5], 1), LogLinear()).fit(X, Y),
        "auto": auto,
        "stream": stream,
        "stream-predictor": stream.compile(),
        "auto-predictor": auto.compile(),
        "hashed-predictor": hashed.compile(),
        "log-linear-predictor": MemoryClassifier(None, memory=Exact(), vote=LogLinear()).fit(X, Y).compile(),
        "tiered-predictor": MemoryClassifier(None, memory=Tiered(Hashed(3, 1)), vote="sum").fit(X, Y).compile(),
        "sparse-predictor": MemoryClassifier(None, memory=Exact(), vote="sum").fit(X, Y).compile(),
        "fused-predictor": MemoryClassifier(None, memory=Gaussian(d=6), random_state=5, vote="sum").fit(X, Y).compile(),
    }


def facts(model: Any) -> dict[str, Any]:
    """Return what must stay: the answers and, of a classifier, the state."""
    answers = {"predictions": model.predict(QUERIES).tolist(), "top": model.top_k(QUERIES, 2).tolist()}
    if isinstance(model, Predictor):
        return answers
    return {**answers, "state": hashlib.sha256(model.memory_.state_bytes()).hexdigest()}


FOLDERS = {
    "format-4-parts": (Exact(), 0),
    "format-4-packed-parts": (Exact(), 300),
    "format-4-tiered-parts": (Tiered(Hashed(3, 1)), 0),
}
"""The memories of models in parts that are kept, and how many labels more one context has: long rows are packed."""


def write_folder(path: Path, memory: Memory, n_more: int) -> dict[str, Any]:
    """Write a model in parts, with edits of both signs on top, and return its facts."""
    model = MemoryClassifier(KERNELS["tuples"], memory, vote="sum").fit(X, Y)
    if n_more:
        model.partial_fit([X[0]] * n_more, [f"more {i}" for i in range(n_more)])
    save(model, path, parts=2)
    with editing(path) as model:
        model.partial_fit(X[:1], ["no"], classes=["maybe"]).forget(X[1:2], Y[1:2])
    (path / "head.safetensors.lock").unlink()
    return facts(load(path))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    expected = json.loads(EXPECTED.read_text("utf-8")) if EXPECTED.exists() else {}
    for kind, model in models().items():
        name = f"format-{format_of(model)}-{kind}.safetensors"
        if name not in expected:
            save(model, FOLDER / name)
            expected[name] = facts(model)
    for name, about in FOLDERS.items():
        if name not in expected:
            expected[name] = write_folder(FOLDER / name, *about)
    EXPECTED.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", "utf-8")
