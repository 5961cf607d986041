"""Fixed models whose states must never change.

Digests of their state bytes are in `tests/memories/golden/states.json`. Every memory, kernel, kind
of token and way to come to a state is here. ``python tests/support/fixed_states.py`` adds those of
new models; with ``--all`` it records all of them again, which is right only when the canonical form
is meant to change. Only public names are used, so that any version can run it. States made of
floats depend on the linear algebra library in their last bits: of those a few numbers are kept.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from hammemo import MemoryClassifier
from hammemo.kernels import PositionalHamming, SkipPairs, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed, Tiered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hammemo.kernels import SiteKernel
    from hammemo.memories import Memory

RECORDED = Path(__file__).parents[1] / "memories" / "golden" / "states.json"
H = 4
N_ROWS = 60
SEED = 11
KEY = b"a fixed key of 26 bytes..."

MEMORIES: dict[str, Memory] = {
    "exact": Exact(),
    "hashed": Hashed(buckets=8, reserved=3),
    "hashed, no reserved tokens": Hashed(buckets=8, reserved=0),
    "hashed with a key": Hashed(buckets=8, reserved=3, key=KEY),
    "gaussian, exact": Gaussian(d=24, exact=True),
    "gaussian, exact and tied": Gaussian(d=24, d_h=5, tied=True, exact=True),
    "tiered": Tiered(Hashed(buckets=8, reserved=3)),
    "gaussian": Gaussian(d=24),
    "gaussian, tied": Gaussian(d=24, d_h=5, tied=True),
}
ROUNDED = ("gaussian", "gaussian, tied")
"""The memories whose C is a sum of floats.

That of `exact=True` is a sum of whole steps, equal in every order.
"""
KERNELS: dict[str, SiteKernel] = {
    "positions": PositionalHamming(),
    "suffixes": Suffixes(3),
    "skip pairs": SkipPairs(3),
    "joined": PositionalHamming() + Suffixes(3) + SkipPairs(3),
}
TOKENS: dict[str, list[Any]] = {
    "ints": [3, 0, -7, 12, 2**40, 5, 1, 900, 44],
    "strings": ["a", "ß", "", "the", "\U0001f642", "cat", "1", "Z", "mat"],
    "floats": [0.5, -1.25, 3.0, 1e300, 2.75, -0.0, 7.5, 1e-9, 6.0],
    "mixed": ["a", 1, 0.5, "ß", -7, 3.0, "1", 2**40, "Z"],
}
LABELS = ["no", "yes", "ß", "maybe"]


def rows_of(kind: str) -> tuple[Any, list[str]]:
    """Return contexts and labels that depend on nothing but this arithmetic."""
    tokens = TOKENS[kind]
    X = np.empty((N_ROWS, H), object)
    for i in range(N_ROWS):
        for j in range(H):
            X[i, j] = tokens[(i * i + 3 * i * j + 5 * j) % 17 % len(tokens)]
    return X, [LABELS[(i * i + i // 7) % len(LABELS)] for i in range(N_ROWS)]


def _fit_weighted(model: MemoryClassifier, X: Any, y: list[str]) -> MemoryClassifier:
    return model.fit(X, y, sample_weight=[1 + i % 3 for i in range(len(y))])


def _learn_in_parts(model: MemoryClassifier, X: Any, y: list[str]) -> MemoryClassifier:
    return model.partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])


def _forget(model: MemoryClassifier, X: Any, y: list[str]) -> MemoryClassifier:
    return model.fit(X, y).forget(X[10:25], y[10:25])


def _merge(model: MemoryClassifier, X: Any, y: list[str]) -> MemoryClassifier:
    model.fit(X[:30], y[:30])
    return model.merge(model.empty_like().partial_fit(X[30:], y[30:]))


def _unmerge(model: MemoryClassifier, X: Any, y: list[str]) -> MemoryClassifier:
    model.fit(X, y)
    return model.unmerge(model.empty_like().partial_fit(X[:30], y[:30]))


def _declare_labels(model: MemoryClassifier, X: Any, y: list[str]) -> MemoryClassifier:
    return model.partial_fit(X, y, classes=["never", "yes"])


def _fit_stream(model: MemoryClassifier, X: Any, _: list[str]) -> MemoryClassifier:
    documents = [[str(token) for token in X[i : i + 3].ravel()] for i in range(0, N_ROWS, 3)]
    return model.fit_stream(documents, H, classes=sorted({document[-1] for document in documents}))


HISTORIES: dict[str, Callable[[MemoryClassifier, Any, list[str]], MemoryClassifier]] = {
    "fit": _fit_weighted,
    "partial_fit": _learn_in_parts,
    "forget": _forget,
    "merge": _merge,
    "unmerge": _unmerge,
    "declared": _declare_labels,
    "fit_stream": _fit_stream,
}


def names() -> Iterator[tuple[str, str, str, str]]:
    """Yield (memory, kernel, tokens, history) of each model."""
    for memory in MEMORIES:
        for kernel in KERNELS:
            for history in HISTORIES:
                yield memory, kernel, "mixed", history
        for kind in TOKENS:
            if kind != "mixed":
                yield memory, "positions", kind, "forget"


def facts(memory: str, kernel: str, kind: str, history: str) -> Any:
    """Return a digest of the model's state.

    Of a state with floats, it is one of all but the floats, and some numbers that must agree to
    rounding.
    """
    empty = MemoryClassifier(
        clone(KERNELS[kernel]),
        clone(MEMORIES[memory]),
        random_state=SEED,
        vote="sum",
        numeric="none",
    )
    learned_memory = HISTORIES[history](empty, *rows_of(kind)).memory_
    if memory not in ROUNDED:
        return _digest(learned_memory.state_bytes())
    arrays = learned_memory.state()
    rounded = {name: array for name, array in arrays.items() if name in ("C", "memory.C")}
    exact = b"".join(array.tobytes() for name, array in arrays.items() if name not in rounded)
    layout = json.dumps(learned_memory.layout()).encode()
    numbers = {name: _some_numbers(array) for name, array in rounded.items()}
    return {"whole": _digest(layout + exact), **numbers}


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def _some_numbers(array: Any) -> list[float]:
    """Return the size, the sum of squares and eight entries of an array of floats."""
    flat = np.asarray(array, np.float64).ravel()
    places = np.linspace(0, len(flat) - 1, 8).astype(int)
    return [
        float(len(flat)),
        float(flat @ flat),
        *(round(value, 7) for value in flat[places].tolist()),
    ]


def main() -> None:
    """Record what is not recorded yet or, with --all, everything."""
    recorded_before = {}
    if RECORDED.exists() and "--all" not in sys.argv:
        recorded_before = json.loads(RECORDED.read_text("utf-8"))
    recorded = {}
    for model in names():
        title = "; ".join(model)
        recorded[title] = recorded_before.get(title) or facts(*model)
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in recorded.items())
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
