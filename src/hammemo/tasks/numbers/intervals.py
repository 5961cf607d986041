"""Warnings and errors about intervals: ends at infinity, narrow intervals, and other bounds."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.features.cells.finite_sample import largest_coverage
from hammemo.tasks.numbers.errors import has_lost_many_rows
from hammemo.tokens.token_types import find_user_level
from hammemo.votes.bounds import Bounds

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.votes.number_answers import NumberAnswers


def warn_of_infinite_ends(model: object, answers: NumberAnswers, ends: Floats) -> None:
    """Warn once for each model that too few errors are known for the levels of its intervals."""
    if "_warned_of_ends" in vars(model) or answers.errors is None or np.isfinite(ends).all():
        return
    vars(model)["_warned_of_ends"] = True
    n_errors = len(answers.errors.ratios)
    what_is_known = f"The errors of {n_errors:,} rows are known"
    if n_errors == 1:
        what_is_known = "The error of one row is known"
    warnings.warn(
        f"{what_is_known}, and that is too few for these levels: ends of intervals are infinite. "
        f"Ask for a coverage of at most {np.floor(1000 * largest_coverage(n_errors)) / 1000:.3f}, "
        "learn more rows, or set bounds=(low, high). Each model warns once.",
        UserWarning,
        stacklevel=find_user_level(),
    )


def warn_of_narrow_intervals(model: object, state: NumberState) -> None:
    """Warn once for each model that errors cannot be measured again, because it keeps no rows."""
    if state.rows is not None or "_warned_of_narrow" in vars(model):
        return
    if not has_lost_many_rows(state):
        return
    vars(model)["_warned_of_narrow"] = True
    warnings.warn(
        f"{state.n_examples:,} of {state.vote.rows:,} rows remain, "
        "and intervals may be too narrow: the sizes of errors are those of all rows, "
        "because this model keeps none to measure them again. "
        "Call refit(rows=(X, y)), or fit it with keep=True. Each model warns once.",
        UserWarning,
        stacklevel=find_user_level(),
    )


def refuse_other_bounds(bounds: Any, other_bounds: Any) -> None:
    """Refuse to merge models with different bounds: rows may lie outside those of the other."""
    left = Bounds.from_parameter(bounds).parameter
    right = Bounds.from_parameter(other_bounds).parameter
    if left != right:
        raise ValueError(
            f"The two models have different bounds, {left} and {right}, "
            "and the merged model has one: give both the same with set_params(bounds=…)."
        )
