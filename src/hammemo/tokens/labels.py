"""Labels in and labels out: what every classifier here does the same way."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from hammemo.tokens.contexts import refuse_masked, token_array
from hammemo.tokens.frame_columns import is_arrow, read_arrow
from hammemo.tokens.vocabulary import Vocabulary, as_token, factorize

if TYPE_CHECKING:
    from hammemo._arrays.types import Array, Ints


MAX_EXACT: Final = 2**53
"""A float holds every whole number up to this one exactly."""


def label_array(y: Any) -> Array:
    """Return y as an array of labels after scikit-learn's checks."""
    array = _read_plain_labels(y)
    if array is not None:
        return array
    labels: Array = column_or_1d(_as_known_type(y), warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    if labels.dtype.kind == "O":
        labels = _check_objects(labels)
    with warnings.catch_warnings():
        # Nearly as many labels as examples is usual here: a small batch of next tokens.
        warnings.filterwarnings(
            "ignore", "The number of unique classes is greater than 50%", UserWarning
        )
        check_classification_targets(labels)
    return labels


def _read_plain_labels(y: Any) -> Array | None:
    """Return integers, or strings, as an array; None for all else.

    Scikit-learn's checks refuse none of these, and take longer than learning a single example.
    """
    if type(y) is np.ndarray and y.ndim == 1 and len(y):
        if y.dtype.kind in "iubU" or (y.dtype.kind == "O" and set(map(type, y.tolist())) == {str}):
            return y
    elif type(y) in (list, tuple) and set(map(type, y)) == {str}:
        return np.array(y, object)
    return None


def _as_known_type(y: Any) -> Any:
    """Return labels in a type that scikit-learn keeps: it makes floats of some others."""
    refuse_masked(y, "y")
    if isinstance(y, (list, tuple)) or (hasattr(y, "columns") and hasattr(y, "shape")):
        return token_array(y)
    if isinstance(y, np.ndarray):
        return np.asarray(y, object) if y.dtype.kind == "T" else np.asarray(y)
    if is_arrow(y):
        return read_arrow(y)
    has_numpy_type = isinstance(getattr(y, "dtype", np.dtype(int)), np.dtype)
    is_full_polars = hasattr(y, "null_count") and not y.null_count()
    if has_numpy_type or is_full_polars:
        return y
    # pandas' own types, or missing values
    return token_array(y.to_list() if hasattr(y, "to_list") else y.tolist())


def _check_objects(labels: Array) -> Array:
    """Return labels that are objects; refuse missing ones, and numbers beside strings.

    Scikit-learn would fail on these with a message about something else. Numbers that NumPy has no
    common type for are returned as integers, if they are whole.
    """
    values = labels.tolist()
    for row, label in enumerate(values):
        is_none = label is None or label is np.ma.masked or type(label).__name__ == "NAType"
        if is_none or label != label:
            raise ValueError(
                f"y holds {label} at row {row}: "
                "drop that row, or give it a label such as 'missing'."
            )
    _refuse_mixture({isinstance(label, str): label for label in values})
    if not values or not all(isinstance(label, (int, float, np.number)) for label in values):
        return labels
    numbers = [as_token(label) for label in values]
    fraction = next((number for number in numbers if isinstance(number, float)), None)
    if fraction is not None:
        raise ValueError(
            f"y holds {fraction} among whole numbers: labels are classes, not measurements. "
            "Convert all of them with str() if they are meant as classes."
        )
    return np.array(numbers, np.int64)


def common_label_dtype(*arrays: Array) -> np.dtype[Any]:
    """Return the type that holds the labels of all arrays as they are; refuse if none does.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.labels import common_label_dtype
    >>> # NumPy would say float64
    >>> common_label_dtype(np.array([2**53 + 1], np.uint64), np.array([-1]))
    dtype('int64')
    """
    filled = [labels for labels in arrays if len(labels)]
    _refuse_mixture({labels.dtype.kind in "OU": labels[:1].tolist()[0] for labels in filled})
    dtype: np.dtype[Any] = np.result_type(*(labels.dtype for labels in filled or arrays))
    integers = [labels for labels in filled if labels.dtype.kind in "iub"]
    if dtype.kind != "f" or not integers:
        return dtype
    if len(integers) == len(filled):
        return np.dtype(np.int64)  # a label is a token, and integer tokens fit in it
    largest = max(abs(int(end)) for labels in integers for end in (labels.min(), labels.max()))
    if largest > MAX_EXACT:
        raise ValueError(
            f"Some labels are floats, others whole numbers as large as {largest}, which no float "
            "holds exactly: make all of them integers with astype(int), or strings with str()."
        )
    return dtype


def holds_label(dtype: np.dtype[Any], label: Any) -> bool:
    """Return whether a type certainly holds a label as it is."""
    if isinstance(label, str):
        return dtype.kind in "UO"
    if dtype == np.int64:
        return type(label) is int and -(2**63) <= label < 2**63
    return False


def widen_label_dtype(dtype: np.dtype[Any], labels: Vocabulary) -> np.dtype[Any]:
    """Return the type of a stream's first labels, or a wider one that holds later ones, too.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.labels import widen_label_dtype
    >>> from hammemo.tokens.vocabulary import Vocabulary
    >>> widen_label_dtype(np.dtype(np.int8), Vocabulary.of([1, 300]))
    dtype('int64')
    """
    if dtype.kind in "iub" and len(labels.floats):
        return np.dtype(np.float64)
    if dtype.kind not in "iubf" or not len(labels.ints) or len(labels.floats):
        return dtype
    if dtype.kind == "f":
        low = -MAX_EXACT
        high = MAX_EXACT
    elif dtype.kind == "b":
        low = 0
        high = 1
    else:
        low = int(np.iinfo(dtype).min)
        high = int(np.iinfo(dtype).max)
    fit = low <= int(labels.ints[0]) and int(labels.ints[-1]) <= high
    return dtype if fit else np.dtype(np.int64)


def _refuse_mixture(example_by_kind: dict[bool, Any]) -> None:
    """Refuse numbers beside strings; given is one label of each kind, strings under True."""
    if len(example_by_kind) > 1:
        raise ValueError(
            f"Some labels are numbers like {example_by_kind[False]!r}, "
            f"others strings like {example_by_kind[True]!r}: scikit-learn cannot mix them. "
            "Convert all labels with str()."
        )


def classes_array(labels: Vocabulary, dtype: np.dtype[Any]) -> Array:
    """Return labels in sorted order, in the type that they came in.

    All callers share one array, which is read-only.
    """
    type_name = "U" if dtype.kind == "U" else dtype.str  # "U" is as wide as the longest string
    classes: Array | None = labels.as_arrays.get(type_name)
    if classes is None:
        are_integers = len(labels) == len(labels.ints)
        classes = np.array(labels.ints if are_integers else labels.tolist(), type_name)
        classes.setflags(write=False)
        labels.as_arrays[type_name] = classes
    return classes


def most_frequent_labels(y: Array, number: int) -> list[Any]:
    """Return this many of the most frequent labels, sorted.

    Among equally frequent ones, those that come first are taken.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.labels import most_frequent_labels
    >>> most_frequent_labels(np.array(["b", "c", "a", "c", "d"]), 2)
    ['a', 'c']
    """
    if number < 1:
        raise ValueError(f"classes={number!r}: ask for at least one label.")
    vocabulary, ranks = factorize(y)
    best = np.argsort(-np.bincount(ranks, minlength=len(vocabulary)), kind="stable")[:number]
    labels = vocabulary.tolist()
    return [labels[rank] for rank in np.sort(best).tolist()]


def check_k(k: Any) -> int:
    """Return k, the number of labels asked for, or refuse it."""
    if not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f"k={k!r}: ask for at least one label.")
    return int(k)


def top_columns(scores: Array, k: int) -> Ints:
    """Return the columns of the k highest scores of each row, best first, equals in column order.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.labels import top_columns
    >>> top_columns(np.array([[1, 3, 2, 3, 2]]), 3)
    array([[1, 3, 2]])
    """
    m, n_labels = scores.shape
    if check_k(k) >= n_labels:
        return np.argsort(-scores, axis=1, kind="stable")
    # Take the columns above the k-th highest score, then the first of those that equal it.
    threshold = np.partition(scores, n_labels - k, axis=1)[:, n_labels - k, None]
    is_above = scores > threshold
    is_equal = scores == threshold
    n_equal = k - is_above.sum(axis=1, keepdims=True)
    is_chosen = is_above | (is_equal & (np.cumsum(is_equal, axis=1) <= n_equal))
    columns = np.nonzero(is_chosen)[1].reshape(m, k)
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)
