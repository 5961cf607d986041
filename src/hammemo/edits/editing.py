"""How a model takes its next state: one edit at a time, on a private version that is published as a whole.

A model is an object with parameters (`settings()`) and one state in its dictionary of attributes. These functions are
all that writes the state of a model; files, engines and servers use them, too.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils.validation import check_is_fitted

from hammemo._arrays.threads import threads_used
from hammemo._progress import progress_lines
from hammemo.edits.state import NOTHING_FITTED, AnyState, refuse_to_record, way_to_refit
from hammemo.tokens.missing import check_missing_rule
from hammemo.tokens.user_input import CheckedRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo._arrays.types import Array
    from hammemo._versions import Versioned

Front = TypeVar("Front", bound="Versioned")


def edit(model: Versioned, change: Callable[[Any], AnyState]) -> None:
    """Let a model take the state that `change` makes of a private version of it, as the next version."""

    def changed(private: Any) -> None:
        known = private.__dict__
        before: AnyState | None = model.__dict__.get("_state")
        if before is not None:
            known["_state"] = before.with_changes(refitted=NOTHING_FITTED) if before.refitted else before
        known.pop("_bits", None)  # `Report.bits` of the version before
        n_jobs, verbose = known.get("n_jobs"), known.get("verbose", 0)
        if verbose or n_jobs is not None:
            with progress_lines(verbose), threads_used(_n_threads(n_jobs)):
                after = change(private)
        else:  # single edits take microseconds
            after = change(private)
        if before is not None and before.witness is not None and _n_rows(before) != _n_rows(after):
            refuse_to_record(before)
        take_state(private, after)
        known["version_"] = known.get("version_", 0) + 1

    model.apply_edit(changed)


def known_state(model: object) -> Any:
    """Return the state of a model; None before it has learnt anything."""
    return vars(model).get("_state")


def take_state(model: object, state: AnyState) -> None:
    """Give a private version of a model a state, and what scikit-learn keeps of its columns."""
    known = model.__dict__
    before = known.get("_state")
    known["_state"] = state
    if before is not None and before.columns is state.columns:
        return
    if "_columns_warned_of" not in known or (
        before is not None and before.columns.token_types is not state.columns.token_types
    ):
        known["_columns_warned_of"] = {}  # which versions share
    known["n_features_in_"] = state.columns.n
    if state.columns.names is None:
        known.pop("feature_names_in_", None)
    else:
        known["feature_names_in_"] = state.columns.names


def name_columns(model: object, names: Array | None) -> Array | None:
    """Give the columns of a fitted model other names, or none; return those that they had."""
    state: AnyState = model.__dict__["_state"]
    take_state(model, state.with_changes(columns=replace(state.columns, names=names)))
    return state.columns.names


def copy_model(model: Front) -> Front:
    """Return a model of this version with parameters and a vote of its own; what is stored is not copied."""
    check_is_fitted(model)
    version = model.snapshot()
    state: AnyState = version.__dict__.pop("_state")
    copied = copy.deepcopy(version)
    take_state(copied, state.with_changes(vote=copy.deepcopy(state.vote)))
    return copied


def warn_of_forgotten_rows(model: object) -> None:
    """Warn once, before an answer, that choices and weights depend on rows that the model has forgotten."""
    state = known_state(model)
    if state is None or not state.stale or "_warned" in vars(model):
        return
    model.__dict__["_warned"] = True
    warnings.warn(
        "Rows were forgotten, but what was chosen and fitted still depends on them until "
        f"{way_to_refit(state)}. Each model warns once.",
        UserWarning,
        stacklevel=5,
    )


def read_rows(model: Any, X: Any, y: Any, state: AnyState | None, sample_weight: Any = None) -> CheckedRows:
    """Return what a user hands over to be learned or forgotten, checked; without a state, as the first rows."""
    settings = model.settings()
    check_missing_rule(settings.missing)
    columns = None
    if state is not None:
        columns, X = state.columns, state.cut(X)
    return CheckedRows.from_user(
        model,
        settings,
        columns,
        X,
        y=y,
        sample_weight=sample_weight,
        read_targets=settings.task.reading.read_targets,
    )


def mute_forgetting_warning(model: Versioned) -> None:
    """Switch the warning about forgotten rows off, for callers that tell their users when to refit."""
    model.__dict__["_warned"] = True


def _n_rows(state: AnyState) -> int:
    """Return how many rows a model holds and its witness has seen go: to forget does not change it."""
    return state.n_examples + (0 if state.witness is None else state.witness.rows)


def _n_threads(n_jobs: Any) -> int:
    """Return how many threads `n_jobs` means, as in scikit-learn: -1 for all cores, -2 for all but one."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, (int, np.integer)) or isinstance(n_jobs, bool) or not n_jobs:
        raise ValueError(f"n_jobs={n_jobs!r} is a number of threads, -1 for all cores, or None for one.")
    return int(effective_n_jobs(int(n_jobs)))
