"""What a user gives as targets, one or many, as the edits take it.

`read_target`, `read_batch`, `common_dtype`, `list_declared_targets`, `warn_of_targets`,
`reads_numbers`, `check_targets` and `collect_labels` are a part of the task of numbers: what they
have to do, and their parameters, are those of the protocol in :mod:`hammemo.edits.task`. Several of
them have nothing to do for numbers, which have no classes.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sklearn.utils.validation import column_or_1d

from hammemo.edits.task import RowBatch
from hammemo.tasks.numbers.layout import BITS
from hammemo.tokens.contexts import check_column_names, refuse_masked
from hammemo.tokens.frame_columns import is_arrow, read_arrow
from hammemo.tokens.token_types import find_user_level
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.user_input import CheckedRows

TARGET_DTYPE: Final = np.dtype(np.float64)

_MAGNITUDES: Final = 1e6
"""How many times the sizes of targets may differ before `fit` warns: of the middle eight in ten."""

_FAR: Final = 2.0**16
"""How many times as far from the median as nine of ten targets one may be before `fit` warns.

The sums have 26 bits for the largest distance, so fewer than 1,024 units are left to the others.
"""


def read_targets(y: Any) -> NDArray[np.float64]:
    """Return targets as a new array of finite numbers, or refuse them.

    Two numbers are replaced: a negative zero by zero, and -2^63, which marks a place without a
    token, by the next number.
    """
    refuse_masked(y, "y")
    if y is None:
        raise ValueError("y is None: a regressor requires y to be passed, one number for each row.")
    if is_arrow(y):
        array = read_arrow(y)
    else:
        array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] > 1:
        raise ValueError(
            f"y has {array.shape[1]} columns; a model predicts one number: "
            "fit one model for each column."
        )
    array = column_or_1d(array, warn=True)
    if array.dtype.kind not in "iufbO":
        raise ValueError(
            f"y holds values of type {array.dtype}; a target is a number. "
            "For names, use MemoryClassifier."
        )
    try:
        targets = array.astype(np.float64)
    except (TypeError, ValueError):
        targets = _convert_objects(array)
    _check_finite(targets)
    # Targets are kept as tokens, as labels are. `NO_TOKEN` would be no target at all, so the float
    # next to it takes its place: a difference of 1,024 in 9e18, the size of a rounding error.
    targets = np.where(targets == NO_TOKEN, np.nextafter(NO_TOKEN, 0.0), targets)
    return np.asarray(targets + 0.0)  # -0.0 + 0.0 is 0.0


def _convert_objects(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return objects as numbers, or name the first that is none; None is a missing value."""
    targets = np.full(len(array), np.nan)
    for place, value in enumerate(array.tolist()):
        if value is None:
            continue
        try:
            targets[place] = float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"y holds {value!r} in row {place}; a target is a number. "
                "For names, use MemoryClassifier."
            ) from None
    return targets


def _check_finite(targets: NDArray[np.float64]) -> None:
    """Refuse missing and infinite targets, and those whose differences may be infinite."""
    is_finite = np.isfinite(targets)
    if not is_finite.all():
        place = int(np.argmin(is_finite))
        what = "NaN, a missing value" if np.isnan(targets[place]) else "infinity"
        raise ValueError(
            f"Input y contains {what}, in row {place}: a target is a finite number. "
            "Leave out this row."
        )
    if len(targets) and np.abs(targets).max() > np.finfo(np.float64).max / 4:
        raise ValueError("Targets are numbers up to 4e307: divide them by a common factor.")


def read_target(
    settings: NumberSettings, state: NumberState, target: Any, sign: int
) -> tuple[float, np.dtype[Any]]:
    """Return one target as a number; one that is to be learned must be within the bounds."""
    del state
    targets = read_targets([target])
    if sign > 0:
        settings.bounds.refuse_outside(targets)
    return float(targets[0]), TARGET_DTYPE


def read_batch(
    settings: NumberSettings, rows: CheckedRows, declared: Any, before: NumberState | None
) -> RowBatch:
    """Return rows that are to be learned, with targets within the bounds.

    `before` is the state that learns them, None where they are the first rows of a model.
    """
    del declared  # there are no classes
    check_targets(settings, rows.labels)
    examples = rows.examples()
    is_first = before is None
    if is_first and not len(examples):
        raise ValueError("There is nothing to learn: every sample_weight is zero.")
    if is_first and rows.columns.names is not None:
        check_column_names(rows.columns.names)
    no_classes = Vocabulary()
    return RowBatch(examples, rows.columns, TARGET_DTYPE, no_classes)


def common_dtype(state: NumberState, other: NumberState) -> np.dtype[Any]:
    """Return float64, which is the type of all targets: any two models of numbers have it."""
    del state, other
    return TARGET_DTYPE


def reads_numbers() -> bool:
    """Return True: a column of targets is read as numbers, even if all of it looks like names."""
    return True


def check_targets(settings: NumberSettings, targets: NDArray[np.float64]) -> None:
    """Refuse targets outside the bounds."""
    settings.bounds.refuse_outside(targets)


def collect_labels(examples: Examples) -> Vocabulary:
    """Return no labels: numbers are not collected, there are nearly as many of them as rows."""
    del examples
    return Vocabulary()


def list_declared_targets(state: NumberState) -> None:
    """Return None: only classes are declared."""
    del state


def warn_of_targets(targets: NDArray[np.float64]) -> None:
    """Warn of targets that differ too much in size, or of one that is far from all others."""
    _warn_of_magnitudes(targets)
    _warn_of_a_far_target(targets)


def _warn_of_magnitudes(targets: NDArray[np.float64]) -> None:
    """Warn of targets of which a few are so large that the others do not count."""
    sizes = np.abs(targets[targets != 0])
    if not len(sizes):
        return
    small, large = np.quantile(sizes, (0.1, 0.9))
    if large / small > _MAGNITUDES:
        warnings.warn(
            "The targets have very different sizes: eight of ten lie between "
            f"{small:.1g} and {large:.1g}. The largest ones decide what is learnt. "
            "Fit their logarithms, for example with TransformedTargetRegressor.",
            UserWarning,
            stacklevel=find_user_level(),
        )


def _warn_of_a_far_target(targets: NDArray[np.float64]) -> None:
    """Warn of a target so far from the others that their differences are lost in its unit."""
    if not len(targets):
        return
    distances = np.abs(targets - np.median(targets))
    usual_distance = float(np.quantile(distances, 0.9))  # of nine of ten targets
    row = int(np.argmax(distances))
    distance = distances[row]
    # Where nine of ten targets are equal, there are no differences to be lost.
    if not usual_distance or distance <= _FAR * usual_distance:
        return
    unit = float(distance) / 2**BITS
    warnings.warn(
        f"The target {targets[row]:.6g} is {distance / usual_distance:.2g} "
        "times as far from the median as nine of ten others. "
        f"Targets become whole numbers of {unit:.2g}, "
        "so that smaller differences between the others are lost. If it is a mistake, "
        "leave out this row; else fit logarithms, for example with TransformedTargetRegressor.",
        UserWarning,
        stacklevel=find_user_level(),
    )
