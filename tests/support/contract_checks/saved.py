"""What every part promises for files: a classifier and a predictor with it are saved, and come back the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator

from contract_checks.batches import Batch, table
from contract_checks.promises import require, require_equal
from contract_checks.subject import require_same_bytes
from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.files import inspect, load, save
from hammemo.kernels import SiteKernel
from hammemo.memories import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo.votes import Vote


def fitted(kernel: SiteKernel, memory: Memory, vote: str | Vote, batch: Batch) -> MemoryClassifier:
    """Return a classifier that learnt a batch."""
    X, y, numbers = table([row[0] for row in batch]), [row[1] for row in batch], [row[2] for row in batch]
    return MemoryClassifier(kernel, memory, vote, random_state=3).fit(X, y, numbers)


def require_saved(model: MemoryClassifier, asked: Batch) -> None:
    """Raise AssertionError unless a fitted classifier and its predictor come back from files, to the bit."""
    X, predictor, key = table([row[0] for row in asked]), model.compile(), secret_key(model.memory_)
    trust = [type(part) for part in (*parts(model.kernel_), *parts(model.memory_), *parts(model.vote_))]
    trust = [*dict.fromkeys((*trust, type(predictor.compiled)))]
    with tempfile.TemporaryDirectory() as folder:
        for verify in (True, False):
            path = Path(folder) / f"model-{verify}.safetensors"
            save(model, path)
            again = load(path, key=_needed(key, path), verify=verify, trust=trust)
            require_same_bytes(again.memory_, model.memory_)
            for name in ("kernel_", "memory_", "vote_"):
                found, part = getattr(again, name), getattr(model, name)
                require(type(found) is type(part), f"{part!r} comes back as a {type(found).__name__}")
                require(_described(found) == _described(part), f"{part!r} comes back as {found!r}")
            require_equal(again.class_scores(X), model.class_scores(X), "scores of the loaded classifier")
            require_equal(again.predict(X), model.predict(X), "labels that the loaded classifier predicts")
            path = Path(folder) / f"predictor-{verify}.safetensors"
            save(predictor, path)
            loaded = load(path, key=_needed(key, path), verify=verify, trust=trust)
            require_equal(loaded.class_scores(X), predictor.class_scores(X), "scores of the loaded predictor")
            require_equal(loaded.predict(X), predictor.predict(X), "labels that the loaded predictor predicts")
            require_equal([loaded(list(x)) for x in X], predictor.predict(X), "labels of single contexts")
            del again, loaded  # a file that is mapped cannot be removed on every system


def parts(part: Any) -> Iterator[Any]:
    """Return a kernel, a memory or a vote, and the parts that its parameters hold."""
    yield part
    for value in part.get_params(deep=False).values():
        for inner in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(inner, (SiteKernel, Memory)):
                yield from parts(inner)


def _described(value: Any) -> Any:
    """Return a part as its class and parameters; files make lists of tuples, so these are the same here."""
    if isinstance(value, BaseEstimator):
        return type(value), {name: _described(inner) for name, inner in value.get_params(deep=False).items()}
    return [_described(inner) for inner in value] if isinstance(value, (list, tuple, range)) else value


def secret_key(memory: Memory) -> bytes | None:
    """Return the secret key of a memory or of one inside it; None if there is none."""
    keys = (getattr(part, part.secret) for part in parts(memory) if part.secret is not None)
    return next((key for key in keys if key is not None), None)


def _needed(key: bytes | None, path: Path) -> bytes | None:
    """Return the key if the file asks for one: a compiled form may do without."""
    return key if inspect(path)["needs_key"] else None
