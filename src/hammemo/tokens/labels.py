"""Labels in and labels out: what every classifier here does the same way."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from hammemo.tokens.contexts import token_array
from hammemo.tokens.vocabulary import factorize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.tokens.vocabulary import Vocabulary


def label_array(y: Any) -> NDArray[Any]:
    """Return y as an array of labels after scikit-learn's checks."""
    labels: NDArray[Any] = column_or_1d(token_array(y) if isinstance(y, (list, tuple)) else y, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    if labels.dtype.kind == "O":
        _check_objects(labels)
    with warnings.catch_warnings():
        # Nearly as many labels as examples is usual here: a small batch of next tokens.
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%", UserWarning)
        check_classification_targets(labels)
    return labels


def _check_objects(labels: NDArray[Any]) -> None:
    """Refuse missing labels and mixtures, on which scikit-learn would fail with a message about something else."""
    values = labels.tolist()
    for row, label in enumerate(values):
        if label is None or label != label:
            raise ValueError(f"y holds {label} at row {row}: drop that row, or give it a label such as 'missing'.")
    _refuse_mixture({isinstance(label, str): label for label in values})


def common_label_dtype(*parts: NDArray[Any]) -> np.dtype[Any]:
    """Return the type that holds the labels of all parts, or refuse to mix numbers and strings."""
    filled = [part for part in parts if len(part)]
    _refuse_mixture({part.dtype.kind in "OUT": part[:1].tolist()[0] for part in filled})
    return np.result_type(*(part.dtype for part in filled or parts))


def _refuse_mixture(example_by_kind: dict[bool, Any]) -> None:
    if len(example_by_kind) > 1:
        raise ValueError(
            f"Some labels are numbers like {example_by_kind[False]!r}, others strings like {example_by_kind[True]!r}: "
            "scikit-learn cannot mix them. Convert all labels with str()."
        )


def classes_array(labels: Vocabulary, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return labels in sorted order, in the type that they came in."""
    return np.array(labels.tolist(), dtype=str if dtype.kind == "U" else dtype)  # str: as wide as the longest


def most_frequent_labels(y: NDArray[Any], number: int) -> list[Any]:
    """Return so many of the most frequent labels, sorted; among equally frequent ones those that come first.

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


def checked_k(k: Any) -> int:
    """Return k, the number of labels asked for, or refuse it."""
    if not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f"k={k!r}: ask for at least one label.")
    return int(k)


def top_columns(scores: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Return the columns of the k highest scores of each row, best first, equals in column order.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.labels import top_columns
    >>> top_columns(np.array([[1, 3, 2, 3, 2]]), 3)
    array([[1, 3, 2]])
    """
    m, n_labels = scores.shape
    if checked_k(k) >= n_labels:
        return np.argsort(-scores, axis=1, kind="stable")
    threshold = np.partition(scores, n_labels - k, axis=1)[:, n_labels - k, None]
    above, equal = scores > threshold, scores == threshold
    room = k - above.sum(axis=1, keepdims=True)
    columns = np.nonzero(above | (equal & (np.cumsum(equal, axis=1) <= room)))[1].reshape(m, k)
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)
