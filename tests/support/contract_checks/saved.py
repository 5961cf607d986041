"""What every part promises for files: models with it are saved, and come back the same."""

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


def fit_classifier(
    kernel: SiteKernel, memory: Memory, vote: str | Vote, batch: Batch
) -> MemoryClassifier:
    """Return a classifier that learned a batch."""
    X = table([row[0] for row in batch])
    y = [row[1] for row in batch]
    numbers = [row[2] for row in batch]
    return MemoryClassifier(kernel, memory, vote, random_state=3).fit(X, y, numbers)


def require_saved(model: MemoryClassifier, query_batch: Batch) -> None:
    """Raise AssertionError unless files give a classifier and its predictor back, to the bit."""
    X = table([row[0] for row in query_batch])
    predictor = model.compile()
    key = find_secret_key(model.memory_)
    trust = {type(predictor.compiled)}
    for component in (model.kernel_, model.memory_, model.vote_):
        trust.update(type(part) for part in iterate_parts(component))
    with tempfile.TemporaryDirectory() as folder:
        for verify in (True, False):
            path = Path(folder) / f"model-{verify}.safetensors"
            save(model, path)
            loaded_model = load(path, key=_select_key(key, path), verify=verify, trust=list(trust))
            require_same_bytes(loaded_model.memory_, model.memory_)
            for name in ("kernel_", "memory_", "vote_"):
                loaded_part = getattr(loaded_model, name)
                model_part = getattr(model, name)
                require(
                    type(loaded_part) is type(model_part),
                    f"{model_part!r} comes back as a {type(loaded_part).__name__}",
                )
                require(
                    _describe(loaded_part) == _describe(model_part),
                    f"{model_part!r} comes back as {loaded_part!r}",
                )
            require_equal(
                loaded_model.class_scores(X),
                model.class_scores(X),
                "scores of the loaded classifier",
            )
            require_equal(
                loaded_model.predict(X),
                model.predict(X),
                "labels that the loaded classifier predicts",
            )
            path = Path(folder) / f"predictor-{verify}.safetensors"
            save(predictor, path)
            loaded_predictor = load(
                path, key=_select_key(key, path), verify=verify, trust=list(trust)
            )
            require_equal(
                loaded_predictor.class_scores(X),
                predictor.class_scores(X),
                "scores of the loaded predictor",
            )
            require_equal(
                loaded_predictor.predict(X),
                predictor.predict(X),
                "labels that the loaded predictor predicts",
            )
            require_equal(
                [loaded_predictor(list(x)) for x in X],
                predictor.predict(X),
                "labels of single contexts",
            )
            del (
                loaded_model,
                loaded_predictor,
            )  # a file that is mapped cannot be removed on every system


def iterate_parts(part: Any) -> Iterator[Any]:
    """Return a kernel, a memory or a vote, and the parts that its parameters hold."""
    yield part
    for value in part.get_params(deep=False).values():
        for inner in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(inner, (SiteKernel, Memory)):
                yield from iterate_parts(inner)


def _describe(value: Any) -> Any:
    """Return a part as its class and parameters.

    Files make lists of tuples, so that both are lists here.
    """
    if isinstance(value, BaseEstimator):
        parameters = value.get_params(deep=False)
        return type(value), {name: _describe(inner) for name, inner in parameters.items()}
    if isinstance(value, (list, tuple, range)):
        return [_describe(inner) for inner in value]
    return value


def find_secret_key(memory: Memory) -> bytes | None:
    """Return the secret key of a memory or of one inside it; None if there is none."""
    keys = (getattr(part, part.secret) for part in iterate_parts(memory) if part.secret is not None)
    return next((key for key in keys if key is not None), None)


def _select_key(key: bytes | None, path: Path) -> bytes | None:
    """Return the key if the file asks for one: a compiled form may do without."""
    return key if inspect(path)["needs_key"] else None
