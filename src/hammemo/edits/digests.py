"""One digest of all that a model is, over named parts, each of which can be printed.

Two models with equal digests have the same parameters, layout, counts, weights and kept rows; where
digests differ, the parts say in what. The versions of the library and of what it chooses with are
not part of it.
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
    from hammemo.stores.kept import Kept
    from hammemo.tokens.columns import Columns

PARTS: Final = (
    "parameters",
    "layout",
    "counts",
    "declared",
    "vote settings",
    "weights",
    "kept rows",
    "threshold",
)
"""The parts of a digest, in order."""


UNSTORED: Final = frozenset({"device", "n_jobs", "verbose"})
"""Parameters that change nothing in a model: they are neither in digests nor in files."""


def compute_part_digests(parameters_of: BaseEstimator, state: AnyState) -> dict[str, str]:
    """Return the digests of the parameters of a model and of each part of its state.

    They are hexadecimal digits. What a model did not have when digests were introduced, such as
    bounds, orders and scales, is left out where it is not there, so that digests stay what they
    were.
    """
    description = state.task.describing.describe(state)
    digests = {
        "parameters": _digest_json([_describe_parameters(parameters_of, state), state.seed]),
        "layout": _digest_json(description.layout),
        "counts": description.counts,
        "declared": _digest_json([*description.declared, *_describe_columns(state.columns)]),
        "vote settings": _digest_json(description.vote),
        "weights": array_digest(description.weights),
        "kept rows": array_digest({} if state.store is None else state.store.state()),
        "threshold": _digest_json(_describe_threshold(state.kept)),
    }
    return {name: digests[name] for name in PARTS}


def _describe_parameters(parameters_of: BaseEstimator, state: AnyState) -> dict[str, Any]:
    described: dict[str, Any] = describe_parameter(parameters_of)
    params = described["params"]
    if not isinstance(parameters_of.random_state, (int, np.integer, type(None))):
        # as in files: a generator would be described by its address
        params["random_state"] = state.seed
    if "bounds" in params:
        bounds = canonical_bounds(params.pop("bounds"))
        if bounds is not None:
            params["bounds"] = bounds
    if params.get("ordered", ()) is None:
        del params["ordered"]
    return described


def _describe_columns(columns: Columns) -> list[Any]:
    kinds = encode_letters(columns.kinds) if columns.has_ordered else None
    types = None if columns.types is None else encode_letters(columns.types)
    described: list[Any] = [kinds, types]
    if columns.scales:
        described.append(sorted(columns.scales.items()))
    return described


def _describe_threshold(kept_examples: Kept | None) -> list[Any] | None:
    if kept_examples is None:
        return None
    return [
        type(kept_examples).__name__,
        kept_examples.seed,
        kept_examples.most,
        kept_examples.lowest_threshold,
    ]


def canonical_bounds(bounds: Any) -> list[float | None] | None:
    """Return the parameter `bounds` as digests and files have it: floats in a list, or None."""
    canonical = Bounds.from_parameter(bounds).parameter
    return None if canonical is None else list(canonical)


def list_column_names(state: AnyState) -> list[str] | None:
    """Return the names of columns as a digest has them."""
    names = state.columns.names
    return None if names is None else [str(name) for name in names]


def compute_digest(parts: Mapping[str, str]) -> str:
    """Return the digest of all parts."""
    return _digest("\n".join(f"{name}: {digest}" for name, digest in parts.items()).encode())


def _digest_json(value: Any) -> str:
    return _digest(json.dumps(value, sort_keys=True).encode())


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def sort_pairs(weights: Mapping[Any, Any]) -> list[list[Any]]:
    """Return a mapping, such as class weights, as pairs in the order of the names of their keys."""
    return [
        [key, weights[key]] for key in sorted(weights, key=lambda key: (str(type(key)), str(key)))
    ]


def describe_parameter(value: Any) -> Any:
    """Return a parameter for JSON: of estimators class and parameters, of a secret its digest."""
    if isinstance(value, BaseEstimator):
        return {"class": type(value).__name__, "params": _describe_estimator(value)}
    if isinstance(value, Mapping):
        value = sort_pairs(value)
    if isinstance(value, (list, tuple, range, np.ndarray)):
        return [describe_parameter(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)


def _describe_estimator(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters that change what an estimator is; rows that are given by digests."""
    secret = getattr(estimator, "secret", None)
    kinds_of_rows = getattr(estimator, "given_codes", {})
    params: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in kinds_of_rows:
            if value is not None:
                params[name] = GivenRows.of(value, kinds_of_rows[name]).digest
        elif name == secret:
            params[name] = secret_digest(value)
        elif name not in UNSTORED:
            params[name] = describe_parameter(value)
    return params
