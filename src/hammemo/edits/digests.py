"""One digest of all that a model is, over named parts, each of which can be printed.

Two models with equal digests have the same parameters, layout, counts, weights and kept rows; where digests differ, the
parts say in what. The versions of the library and of what it chooses with are not part of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sklearn.base import BaseEstimator

from hammemo._arrays.array_digest import array_digest
from hammemo.memories.gaussian import GivenRows
from hammemo.memories.secret_keys import secret_digest
from hammemo.tokens.column_letters import encode_letters
from hammemo.votes.bounds import Bounds

if TYPE_CHECKING:
    from hammemo.edits.state import AnyState
    from hammemo.tokens.columns import Columns

PARTS: Final = ("parameters", "layout", "counts", "declared", "vote settings", "weights", "kept rows", "threshold")
"""The parts of a digest, in order."""


UNSTORED: Final = frozenset({"device", "n_jobs", "verbose"})
"""Parameters that change nothing in a model: they are neither in digests nor in files."""


def part_digests(parameters_of: BaseEstimator, state: AnyState) -> dict[str, str]:
    """Return the digest of each part of a state and of the parameters of its model, in hexadecimal digits."""
    columns, kept, parameters = state.columns, state.kept, describe_parameter(parameters_of)
    parts = state.task.describing.describe(state)
    if not isinstance(parameters_of.random_state, (int, np.integer, type(None))):
        parameters["params"]["random_state"] = state.seed  # as in files: a generator is described by its address
    if "bounds" in parameters["params"]:
        bounds = canonical_bounds(parameters["params"].pop("bounds"))
        if bounds is not None:  # without bounds, digests are what they were before there were any
            parameters["params"]["bounds"] = bounds
    if parameters["params"].get("ordered", ()) is None:
        del parameters["params"]["ordered"]  # as before there was this parameter
    # letters, and None where all columns are names, so that digests stay what they were
    kinds = encode_letters(columns.kinds) if columns.has_ordered else None
    types = None if columns.types is None else encode_letters(columns.types)
    described = {
        "parameters": [parameters, state.seed],
        "layout": parts.layout,
        "declared": [*parts.declared, kinds, types, *_describe_scales(columns)],
        "vote settings": parts.vote,
        "threshold": None if kept is None else [type(kept).__name__, kept.seed, kept.most, kept.lowest_threshold],
    }
    found = {name: _digest(json.dumps(value, sort_keys=True).encode()) for name, value in described.items()}
    found |= {"counts": parts.counts, "weights": array_digest(parts.weights)}
    found["kept rows"] = array_digest({} if state.store is None else state.store.state())
    return {name: found[name] for name in PARTS}


def canonical_bounds(bounds: Any) -> list[float | None] | None:
    """Return the parameter `bounds` in the one form that digests and files have: floats in a list, or None."""
    canonical = Bounds.from_parameter(bounds).parameter
    return None if canonical is None else list(canonical)


def _describe_scales(columns: Columns) -> list[Any]:
    """Return the scales of columns; nothing where there are none, as in digests before there were scales."""
    return [sorted(columns.scales.items())] if columns.scales else []


def names_of(state: AnyState) -> list[str] | None:
    """Return the names of columns as a digest has them."""
    names = state.columns.names
    return None if names is None else [str(name) for name in names]


def whole_digest(parts: Mapping[str, str]) -> str:
    """Return the digest of all parts."""
    return _digest("\n".join(f"{name}: {digest}" for name, digest in parts.items()).encode())


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def sorted_pairs(weights: Mapping[Any, Any]) -> list[list[Any]]:
    """Return a mapping, such as class weights, as files have it: pairs in the order of the names of their keys."""
    return [[key, weights[key]] for key in sorted(weights, key=lambda key: (str(type(key)), str(key)))]


def describe_parameter(value: Any) -> Any:
    """Return a parameter as JSON: an estimator by its class and parameters, a secret by its digest."""
    if isinstance(value, BaseEstimator):
        secret, codes = getattr(value, "secret", None), getattr(value, "given_codes", {})
        params = {
            name: secret_digest(given) if name == secret else describe_parameter(given)
            for name, given in value.get_params(deep=False).items()
            if name not in codes and name not in UNSTORED
        }
        for name, kind in codes.items():
            if getattr(value, name) is not None:
                params[name] = GivenRows.of(getattr(value, name), kind).digest
        return {"class": type(value).__name__, "params": params}
    if isinstance(value, Mapping):
        value = sorted_pairs(value)
    if isinstance(value, (list, tuple, range, np.ndarray)):
        return [describe_parameter(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
