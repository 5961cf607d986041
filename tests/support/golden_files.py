"""The golden files: small models that must stay loadable and answer as they did.

``python tests/support/golden_files.py`` writes all of them again. That is right where the format is
meant to change; the states in ``expected.json`` stay the same.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

from file_catalogue import KERNELS, NUMBER_LABELS, NUMBER_QUERIES, NUMBERS, X, Y, queries_for
from hammemo import MemoryClassifier, MemoryRegressor, Predictor, editing, load, save
from hammemo.files.archive import FORMAT
from hammemo.kernels import Suffixes
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.votes import LogLinear
from places import TESTS

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.memories import Memory

FOLDER = TESTS / "files" / "golden"
EXPECTED = FOLDER / "expected.json"


NUMBER_TARGETS = [
    size * 1.5 + (other - 3) ** 2 - 4 * (name == "a") for name, size, other in NUMBERS
]
VISITS = [["a", "b"], ["a", "b", "ß", "b"], ["", "a"]]


def regressors() -> dict[str, MemoryRegressor]:
    """Return the models of numbers whose files are kept."""
    regressor = MemoryRegressor().fit(NUMBERS, NUMBER_TARGETS)
    edited = regressor.snapshot().apply(
        learn=(NUMBERS[:3], [1.0, 2.0, 3.5]),
        forget=(NUMBERS[10:20], NUMBER_TARGETS[10:20]),
        position="0/16B",
    )
    return {
        "numbers": regressor,
        "numbers-edited": edited,
        "numbers-sampled": MemoryRegressor(keep=30, random_state=7).fit(NUMBERS, NUMBER_TARGETS),
        "numbers-without-rows": MemoryRegressor(keep=False, missing="empty").fit(
            NUMBERS, NUMBER_TARGETS
        ),
        "numbers-layout": regressor.empty_like().partial_fit(NUMBERS[:40], NUMBER_TARGETS[:40]),
    }


def models() -> dict[str, Any]:
    """Return the models whose files are kept."""
    auto = MemoryClassifier(numeric="none").fit([*X] * 10, [*Y] * 10)
    stream = MemoryClassifier(None, Exact(), "sum").fit_stream(
        VISITS, X.shape[1], short="pad", pad="x"
    )
    hashed = MemoryClassifier(None, memory=Hashed(4, 2), vote="mean").fit(X, Y)
    return {
        "exact": MemoryClassifier(KERNELS["tuples"], Exact(), vote="sum")
        .fit(X, Y)
        .partial_fit(X[:1], ["no"], classes=["maybe"]),
        "hashed": hashed,
        "gaussian": MemoryClassifier(None, memory=Gaussian(d=6), random_state=5, vote="sum").fit(
            X, Y
        ),
        "exact-gaussian": MemoryClassifier(
            None, memory=Gaussian(d=6, exact=True), random_state=5, vote="sum"
        ).fit(X, Y),
        "tiered": MemoryClassifier(None, memory=Tiered(Hashed(3, 1)), vote="sum").fit(X, Y),
        "digests": MemoryClassifier(None, memory=Hashed(3, 1), keep="rows+digests", vote="sum").fit(
            X, Y
        ),
        "log-linear": MemoryClassifier(Suffixes(3), Hashed([3, 4, 5], 1), LogLinear()).fit(X, Y),
        "auto": auto,
        "trees": MemoryClassifier().fit(NUMBERS, NUMBER_LABELS),
        "stream": stream,
        "stream-predictor": stream.compile(),
        "auto-predictor": auto.compile(),
        "hashed-predictor": hashed.compile(),
        "log-linear-predictor": MemoryClassifier(None, memory=Exact(), vote=LogLinear())
        .fit(X, Y)
        .compile(),
        "tiered-predictor": MemoryClassifier(None, memory=Tiered(Hashed(3, 1)), vote="sum")
        .fit(X, Y)
        .compile(),
        "sparse-predictor": MemoryClassifier(None, memory=Exact(), vote="sum").fit(X, Y).compile(),
        "fused-predictor": MemoryClassifier(None, memory=Gaussian(d=6), random_state=5, vote="sum")
        .fit(X, Y)
        .compile(),
        **regressors(),
    }


def facts(model: Any) -> dict[str, Any]:
    """Return what must stay: the answers and, of a model that can be edited, the state."""
    if isinstance(model, MemoryRegressor):
        predictions = model.predict(NUMBER_QUERIES)
        bounds = model.predict_interval(NUMBER_QUERIES).ravel()
        return {
            "predictions": [_bits(predictions), _bits(bounds)],
            "state": model.digest(),
        }
    queries = queries_for(model)
    answers = {
        "predictions": model.predict(queries).tolist(),
        "top": model.top_k(queries, 2).tolist(),
    }
    if isinstance(model, Predictor):
        return answers
    return {**answers, "state": hashlib.sha256(model.memory_.state_bytes()).hexdigest()}


def _bits(values: Any) -> list[str]:
    return [float(value).hex() for value in values]


FOLDERS = {
    f"format-{FORMAT}-segments": (Exact(), 0),
    f"format-{FORMAT}-packed-segments": (Exact(), 300),
    f"format-{FORMAT}-tiered-segments": (Tiered(Hashed(3, 1)), 0),
}
"""The memories of kept models in segments, and how many more labels one context has.

Long rows are packed.
"""


def write_folder(path: Path, memory: Memory, n_more: int) -> dict[str, Any]:
    """Write a model in segments, with edits of both signs on top, and return its facts."""
    model = MemoryClassifier(KERNELS["tuples"], memory, vote="sum").fit(X, Y)
    if n_more:
        model.partial_fit([X[0]] * n_more, [f"more {i}" for i in range(n_more)])
    save(model, path, segments=2)
    with editing(path) as model:
        model.partial_fit(X[:1], ["no"], classes=["maybe"]).forget(X[1:2], Y[1:2])
    (path / "head.safetensors.lock").unlink()
    return facts(load(path))


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    expected = {}
    for kind, model in models().items():
        name = f"format-{FORMAT}-{kind}.safetensors"
        save(model, FOLDER / name)
        (FOLDER / f"{name}.lock").unlink()
        expected[name] = facts(model)
    for name, about in FOLDERS.items():
        expected[name] = write_folder(FOLDER / name, *about)
    EXPECTED.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", "utf-8")
