"""User input is converted and checked here, once; everything behind trusts the result.

A question becomes :class:`~hammemo.tokens.contexts.Contexts`. Rows to learn or to forget become :class:`CheckedRows`:
copies, so nothing that is learnt changes when the caller writes into the arrays later, or at the same time. A question
stores nothing, so its integers are not copied; compiled loops check every number that they use as an index.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from hammemo.tokens.column_evidence import Evidence, asked_columns
from hammemo.tokens.columns import (
    NAMES,
    NUMBERS,
    category_places,
    is_own_token,
    table_columns,
    tokens_of,
    warn_of_ids,
)
from hammemo.tokens.contexts import (
    Contexts,
    Examples,
    check_shapes,
    check_table,
    column_names,
    refuse_masked,
    token_array,
    whole_multiplicity,
)
from hammemo.tokens.labels import label_array
from hammemo.tokens.missing import filled
from hammemo.tokens.vocabulary import as_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """Checked rows of tokens, their labels and how often each occurred.

    Shapes
    ------
    tokens : (m, h); labels : (m,); counts : (m,)
    """

    tokens: NDArray[Any]
    labels: NDArray[Any]
    counts: NDArray[np.int64]
    names: tuple[Any, ...] | None = None
    """The names of the columns, for errors."""

    @classmethod
    def from_user(
        cls, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, reset: bool = False
    ) -> CheckedRows:
        """Return rows after scikit-learn's checks; with `reset` the estimator takes their number and names of columns.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.tokens.user_input import CheckedRows
        >>> rows = CheckedRows.from_user(MemoryClassifier(), [["a", "1"], ["b", None]], ["x", "y"], [1, 0], reset=True)
        >>> rows.tokens.tolist(), len(rows.examples())
        ([['a', '1'], ['b', '<missing>']], 1)
        """
        table = _table(estimator, X, reset=reset, y=y, learning=True)
        tokens, labels = np.array(table), np.array(label_array(y))
        check_shapes(tokens, labels)
        return cls(tokens, labels, whole_multiplicity(sample_weight, len(tokens)), _names(estimator))

    def examples(self) -> Examples:
        """Return the examples; this is where a value that is no token is refused."""
        with _located(self.tokens, self.names):
            return Examples.of_arrays(self.tokens, self.labels, self.counts)

    def __getitem__(self, chosen: NDArray[Any]) -> CheckedRows:
        return CheckedRows(self.tokens[chosen], self.labels[chosen], self.counts[chosen], self.names)


def _names(estimator: Any) -> tuple[Any, ...] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(names.tolist())


@contextmanager
def _located(table: NDArray[Any], names: tuple[Any, ...] | None) -> Iterator[None]:
    """Let the error of a value that is no token name its column and its row."""
    try:
        yield
    except (TypeError, ValueError):
        for j, row in np.ndindex(table.shape[1], len(table)):
            try:
                as_token(table[row, j])
            except (TypeError, ValueError) as error:
                column = j if names is None else repr(names[j])
                raise type(error)(f"Column {column}, row {row}: {error}") from None
        raise


def asked_contexts(estimator: Any, X: Any, *, reset: bool = False) -> Contexts:
    """Return the contexts of a question to an estimator, after scikit-learn's checks of shape, names and columns."""
    if not reset:
        kinds = vars(estimator).get("_columns")
        plain = _plain_tokens(X) if kinds is None else _plain_rows(X, kinds)
        if _is_plain(estimator, plain) and (plain is not X or (kinds is None and plain.dtype.kind in "iu")):
            with _located(plain, None):
                return Contexts(plain)
    table = _table(estimator, X, reset=reset)
    with _located(table, _names(estimator)):
        return Contexts(table)


def contexts_of_length(X: Any, h: int, missing: str) -> Contexts:
    """Return the contexts of a question to what knows only how many tokens a context has."""
    contexts = Contexts.of(X, missing)
    if contexts.h != h:
        raise ValueError(f"The model was fitted on rows of {h} values; those of X have {contexts.h}.")
    return contexts


def contexts_with_numbers(X: Any, kinds: str, missing: str) -> Contexts:
    """Return the contexts of a question, where only the kinds of the columns are known."""
    columns = table_columns(X)
    if columns is None or len(columns) != len(kinds):
        n = 0 if columns is None else len(columns)
        raise ValueError(f"The model was fitted on tables of {len(kinds)} columns; X has {n}.")
    return Contexts(tokens_of(columns, kinds, missing, None, learning=False))


def _table(estimator: Any, X: Any, *, reset: bool, y: Any = "no_validation", learning: bool = False) -> NDArray[Any]:
    """Return X as an array of tokens after scikit-learn's checks of shape, feature names and feature count."""
    if hasattr(X, "columns") and hasattr(X, "shape"):
        column_names(X)  # refuses names that occur twice
    columns = _columns_with_numbers(estimator, X, reset=reset)
    if columns is not None:
        return _mixed_table(estimator, X, columns, reset=reset, y=y, learning=learning)
    values = X
    if not sparse.issparse(X):
        values = token_array(X)
        check_table(values)
    array: NDArray[Any] = check_array(
        values,
        dtype=None,
        ensure_all_finite=False,  # tokens are checked, with better advice, when they are factorized
        estimator=estimator,
        input_name="X",
    )
    validate_data(estimator, X if hasattr(X, "columns") else array, y, reset=reset, skip_check_array=True)
    return filled(array, getattr(estimator, "missing", "refuse"))


def _columns_with_numbers(estimator: Any, X: Any, *, reset: bool) -> list[NDArray[Any]] | None:
    """Return the columns of a table some of which are numbers or dates; None where all are names.

    With `reset` the kinds of the columns are declared here, as the estimator's parameter `numeric` says.
    """
    if not hasattr(estimator, "numeric") or (not reset and estimator._columns is None):
        return None
    refuse_masked(X, "X")
    columns = table_columns(X)
    if reset:
        estimator._columns = estimator._types = None
        if columns:
            evidence = evidence_of(estimator, X, columns)
            listed = column_names(X) if hasattr(X, "columns") else None
            kinds = evidence.kinds(asked_columns(estimator.numeric, listed, len(columns)))
            if isinstance(estimator.numeric, str) and estimator.numeric == "auto":
                warn_of_ids(columns, kinds, listed, has_types=has_types(estimator, X))
            estimator._columns = None if set(kinds) <= {NAMES} else kinds
            estimator._types = evidence.types
    return columns if estimator._columns is not None else None


def evidence_of(estimator: Any, X: Any, columns: list[NDArray[Any]]) -> Evidence:
    """Return what the columns of a table show of their kinds."""
    return Evidence.of_columns(columns, has_types=has_types(estimator, X), categories=category_places(X))


def has_types(estimator: Any, X: Any) -> bool:
    """Return whether whole numbers in X are numbers: in data frames, and wherever the kernel is automatic."""
    return hasattr(X, "columns") or estimator._kernel_is_automatic()


def _mixed_table(
    estimator: Any, X: Any, columns: list[NDArray[Any]], *, reset: bool, y: Any, learning: bool
) -> NDArray[Any]:
    """Return the tokens of a table with numbers, after the same checks."""
    shape = np.empty((len(columns[0]) if columns else 0, len(columns)))
    check_array(shape, ensure_all_finite=False, estimator=estimator, input_name="X")
    validate_data(estimator, X if hasattr(X, "columns") else shape, y, reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)
    listed = None if names is None else names.tolist()
    return tokens_of(columns, estimator._columns, getattr(estimator, "missing", "refuse"), listed, learning=learning)


def _plain_tokens(X: Any) -> Any:
    """Return lists of integers and strings, all of one length, as an array; everything else as it is."""
    if type(X) is not list or not X or any(type(row) is not list or len(row) != len(X[0]) for row in X):
        return X
    kinds = set().union(*(map(type, row) for row in X))
    if kinds == {int}:
        try:
            return np.array(X, np.int64)
        except OverflowError:
            return X
    if not kinds or not kinds <= {int, str}:
        return X
    array = np.empty((len(X), len(X[0])), object)
    array[:] = X
    return array


def _plain_rows(X: Any, kinds: str) -> Any:
    """Return lists of finite numbers and strings, of the kinds of the columns, as an array; all else as it is."""
    if type(X) is not list or not X or any(type(row) is not list or len(row) != len(kinds) for row in X):
        return X
    if not all(all(map(is_own_token, row, kinds)) for row in X):
        return X
    array = np.empty((len(X), len(kinds)), np.float64 if set(kinds) == {NUMBERS} else object)
    array[:] = X
    return array


def _is_plain(estimator: Any, X: Any) -> bool:
    """Return whether X is an array of the shape that a fitted estimator without column names takes.

    Scikit-learn's checks refuse nothing of integers and strings in it, and take longer than an answer.
    """
    return (
        type(X) is np.ndarray
        and X.dtype.kind in "iufO"
        and X.ndim == 2
        and len(X) > 0
        and X.shape[1] == vars(estimator).get("n_features_in_")
        and "feature_names_in_" not in vars(estimator)
    )
