"""How a model takes its next state: one edit at a time, published as a whole.

A model is an object with parameters (`settings()`) and one state in its dictionary of attributes.
These functions are all that writes the state of a model; files, engines and servers use them, too.
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
Result = TypeVar("Result")


def edit(model: Versioned, change: Callable[[Any], AnyState]) -> None:
    """Apply an edit to a private version of a model, and publish the result as its next version.

    `change` gets the private version, and returns the state that follows its state.
    """
    edit_with_result(model, lambda private: (change(private), None))


def edit_with_result(model: Versioned, change: Callable[[Any], tuple[AnyState, Result]]) -> Result:
    """Apply an edit as `edit` does; return what `change` returns beside the next state."""

    def take_next_state(private: Any) -> Result:
        attributes = private.__dict__
        before: AnyState | None = model.__dict__.get("_state")
        if before is not None:  # with its witness, which other snapshots do not have
            if before.refitted:
                before = before.with_changes(refitted=NOTHING_FITTED)
            attributes["_state"] = before
        attributes.pop("_bits", None)  # `Report.bits` of the version before
        n_jobs = attributes.get("n_jobs")
        verbose = attributes.get("verbose", 0)
        if verbose or n_jobs is not None:
            with progress_lines(verbose), threads_used(_count_threads(n_jobs)):
                after, result = change(private)
        else:  # single edits take microseconds
            after, result = change(private)
        if before is not None and before.witness is not None:
            _refuse_unwitnessed(before, after)
        take_state(private, after)
        attributes["version_"] = attributes.get("version_", 0) + 1
        return result

    return model.apply_edit(take_next_state)


def get_state(model: object) -> Any:
    """Return the state of a model; None before it has learnt anything."""
    return vars(model).get("_state")


def take_state(model: object, state: AnyState) -> None:
    """Give a private version of a model a state, and what scikit-learn keeps of its columns."""
    attributes = model.__dict__
    before = attributes.get("_state")
    attributes["_state"] = state
    columns = state.columns
    if before is not None and before.columns is columns:
        return
    has_new_types = before is not None and before.columns.token_types is not columns.token_types
    if has_new_types or "_columns_warned_of" not in attributes:
        attributes["_columns_warned_of"] = {}  # which versions share
    attributes["n_features_in_"] = columns.n
    if columns.names is None:
        attributes.pop("feature_names_in_", None)
    else:
        attributes["feature_names_in_"] = columns.names


def name_columns(model: object, names: Array | None) -> Array | None:
    """Give the columns of a fitted model other names, or none; return those that they had."""
    state: AnyState = model.__dict__["_state"]
    take_state(model, state.with_changes(columns=replace(state.columns, names=names)))
    return state.columns.names


def copy_model(model: Front) -> Front:
    """Return a model of this version with parameters and a vote of its own.

    Both models share what is stored.
    """
    check_is_fitted(model)
    version = model.snapshot()
    state: AnyState = version.__dict__.pop("_state")
    copied = copy.deepcopy(version)
    take_state(copied, state.with_changes(vote=copy.deepcopy(state.vote)))
    return copied


def warn_of_forgotten_rows(model: object) -> None:
    """Warn once, before an answer, that choices and weights depend on forgotten rows."""
    state = get_state(model)
    if state is None or not state.stale or "_warned" in vars(model):
        return
    model.__dict__["_warned"] = True
    warnings.warn(
        "Rows were forgotten, but what was chosen and fitted still depends on them until "
        f"{way_to_refit(state)}. Each model warns once.",
        UserWarning,
        stacklevel=5,
    )


def read_rows(
    model: Any, X: Any, y: Any, state: AnyState | None, sample_weight: Any = None
) -> CheckedRows:
    """Return rows that a user hands over to be learned or forgotten, or refuse them.

    Without a state, they are the first rows of a model.
    """
    settings = model.settings()
    check_missing_rule(settings.missing)
    columns = None
    if state is not None:
        columns = state.columns
        X = state.cut(X)
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
    """Switch off the warning about forgotten rows, for callers that say when to refit."""
    model.__dict__["_warned"] = True


def _refuse_unwitnessed(before: AnyState, after: AnyState) -> None:
    """Refuse an edit that did more than forget rows, while a receipt is made of these."""
    if _count_witnessed(before) != _count_witnessed(after):
        refuse_to_record(before)


def _count_witnessed(state: AnyState) -> int:
    """Return how many rows a model holds and its witness has counted: forgetting changes no sum."""
    if state.witness is None:
        return state.n_examples
    return state.n_examples + state.witness.rows


def _count_threads(n_jobs: Any) -> int:
    """Return how many threads `n_jobs` means: -1 is all cores, -2 all but one, and so on."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, (int, np.integer)) or isinstance(n_jobs, bool) or not n_jobs:
        raise ValueError(
            f"n_jobs={n_jobs!r} is a number of threads, -1 for all cores, or None for one."
        )
    return int(effective_n_jobs(int(n_jobs)))
