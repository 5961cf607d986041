"""User input is converted and checked here, once; everything behind trusts the result.

A question becomes :class:`~hammemo.tokens.contexts.Contexts`. Rows to learn or to forget become
:class:`CheckedRows`: copies, so nothing that is learnt changes when the caller writes into the
arrays later, or at the same time. A question stores nothing, so its integers are not copied;
compiled loops check every number that they use as an index.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from hammemo.tokens.column_evidence import Evidence, declare_orders, find_number_columns
from hammemo.tokens.column_hints import warn_of_strings
from hammemo.tokens.column_kinds import NUMBERS
from hammemo.tokens.column_times import warn_of_offsets
from hammemo.tokens.column_values import is_own_token, tokens_of, warn_of_ids
from hammemo.tokens.columns import Columns
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
from hammemo.tokens.frame_columns import refuse_other_tables
from hammemo.tokens.labels import common_label_dtype, label_array
from hammemo.tokens.missing import fill_missing
from hammemo.tokens.packed_rows import MOST_PLAIN_COLUMNS
from hammemo.tokens.table_columns import category_places, dense, quote_column, table_columns
from hammemo.tokens.text_warnings import warn_of_texts
from hammemo.tokens.vocabulary import as_token
from hammemo.tokens.wide_tables import as_numbers_by_type, is_wide_table, pack_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set

    from numpy.typing import ArrayLike

    from hammemo._arrays.types import Array, Ints
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.orders import Order
    from hammemo.tokens.scales import Scales


class ReadingRules(Protocol):
    """The parameters of a model that say how its input is read."""

    @property
    def missing(self) -> str:
        """What takes the place of missing values."""

    @property
    def numeric(self) -> Any:
        """Which columns are numbers; None for a model whose columns are names."""

    @property
    def ordered(self) -> Any:
        """The categories of columns that have an order; None where only the values say it."""

    @property
    def kernel_is_automatic(self) -> bool:
        """Whether whole numbers of lists and arrays are numbers, as those of data frames are."""


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """Checked rows of tokens, their labels and how often each occurred.

    Shapes
    ------
    tokens : (m, h); labels : (m,); counts : (m,)
    """

    tokens: Array
    labels: Array
    counts: Ints
    columns: Columns

    @classmethod
    def from_user(
        cls,
        estimator: Any,
        rules: ReadingRules,
        columns: Columns | None,
        X: Any,
        y: Any,
        *,
        sample_weight: ArrayLike | None = None,
        read_targets: Callable[[Any], Array] = label_array,
    ) -> CheckedRows:
        """Return the rows of a user after scikit-learn's checks.

        Parameters
        ----------
        estimator : object
            Scikit-learn's checks name it, and compare X with the columns that it was fitted on.
        rules : ReadingRules
        columns : Columns, optional
            Those of the model. Without them, these are its first rows: they decide what their
            columns are, and the estimator takes the number and the names of the columns.
        X, y
            As the user has them.
        sample_weight : array-like of int, optional
            How often each row occurred; once by default.
        read_targets : callable
            Checks y, and returns it as an array.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.tokens.user_input import CheckedRows
        >>> clf = MemoryClassifier()
        >>> X = [["a", "1"], ["b", None]]
        >>> rows = CheckedRows.from_user(
        ...     clf, clf.settings(), None, X, ["x", "y"], sample_weight=[1, 0]
        ... )
        >>> rows.tokens.tolist(), len(rows.examples())
        ([['a', '1'], ['b', '<missing>']], 1)
        """
        columns, table = _read_table(estimator, rules, columns, X, y=y, learning=True)
        tokens = np.array(table)
        labels = np.array(read_targets(y))
        check_shapes(tokens, labels)
        return cls(tokens, labels, whole_multiplicity(sample_weight, len(tokens)), columns)

    def examples(self) -> Examples:
        """Return the examples; this is where a value that is no token is refused."""
        with _locate_errors(self.tokens, self.columns.names):
            return Examples.of_arrays(self.tokens, self.labels, self.counts)

    def __getitem__(self, rows: Array) -> CheckedRows:
        return CheckedRows(self.tokens[rows], self.labels[rows], self.counts[rows], self.columns)


def join_rows(batches: list[CheckedRows]) -> CheckedRows:
    """Return the rows of several batches, at least one, that were read for the same columns."""
    if len(batches) == 1:
        return batches[0]
    tables = [batch.tokens for batch in batches]
    if len({table.dtype.kind for table in tables}) > 1:
        # NumPy would make floats of whole numbers
        tables = [table.astype(object) for table in tables]
    label_dtype = common_label_dtype(*(batch.labels for batch in batches))
    return CheckedRows(
        np.concatenate(tables),
        labels=np.concatenate([batch.labels.astype(label_dtype) for batch in batches]),
        counts=np.concatenate([batch.counts for batch in batches]),
        columns=batches[0].columns,
    )


@contextmanager
def _locate_errors(table: Array, names: Array | None) -> Iterator[None]:
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


class _TokenRules(NamedTuple):
    missing: str = "refuse"
    numeric: Any = None
    ordered: Any = None
    kernel_is_automatic: bool = False


TOKEN_RULES: Final[ReadingRules] = _TokenRules()
"""How kernels and baselines read: every value is a token, and none may be missing."""


def get_fitted_columns(estimator: Any) -> Columns:
    """Return the columns that scikit-learn's checks gave to an estimator: number and names."""
    return Columns.from_count(
        int(estimator.n_features_in_), getattr(estimator, "feature_names_in_", None)
    )


def read_question(estimator: Any, rules: ReadingRules, columns: Columns | None, X: Any) -> Contexts:
    """Return the contexts of a question to an estimator, after scikit-learn's checks.

    Scikit-learn checks the shape of X and the names of its columns. Without `columns`, the
    estimator takes those of X.
    """
    if columns is None:
        columns, table = _read_table(estimator, rules, None, X)
        with _locate_errors(table, columns.names):
            return Contexts(table)
    if columns.packed:
        _, table = _read_table(estimator, rules, columns, X)
        return Contexts(table)
    # Single rows take this way: the checks would take longer than the answer.
    has_ordered = columns.has_ordered
    plain = _plain_rows(X, columns.kinds) if has_ordered else _plain_tokens(X)
    if _needs_no_checks(columns, plain):
        is_converted = plain is not X  # a list, whose values were looked at
        if is_converted or (not has_ordered and plain.dtype.kind in "iu"):
            with _locate_errors(plain, None):
                return Contexts(plain)
    _, table = _read_table(estimator, rules, columns, X)
    with _locate_errors(table, columns.names):
        return Contexts(table)


def contexts_of_length(X: Any, h: int, missing: str) -> Contexts:
    """Return the contexts of a question to what knows only how many tokens a context has."""
    contexts = Contexts.of(X, missing)
    if contexts.h != h:
        raise ValueError(
            f"The model was fitted on rows of {h} values; those of X have {contexts.h}."
        )
    return contexts


def contexts_with_numbers(
    X: Any, kinds: ColumnKinds, missing: str, *, packed: bool = False, scales: Scales | None = None
) -> Contexts:
    """Return the contexts of a question, given only the kinds and scales of the columns."""
    if packed:
        n = _count_columns(X)
        if n != len(kinds):
            raise ValueError(
                f"The model was fitted on tables of {len(kinds):,} columns; X has {n:,}."
            )
        return Contexts(pack_table(X, missing, None))
    arrays = table_columns(X)
    if arrays is None or len(arrays) != len(kinds):
        n = 0 if arrays is None else len(arrays)
        raise ValueError(f"The model was fitted on tables of {len(kinds)} columns; X has {n}.")
    return Contexts(tokens_of(arrays, kinds, missing, None, learning=False, scales=scales))


def _count_columns(X: Any) -> int:
    if hasattr(X, "shape") and len(X.shape) == 2:
        return int(X.shape[1])
    return len(X[0]) if len(X) else 0


# From a table to its columns and its tokens


def _read_table(
    estimator: Any,
    rules: ReadingRules,
    columns: Columns | None,
    X: Any,
    *,
    y: Any = "no_validation",
    learning: bool = False,
) -> tuple[Columns, Array]:
    """Return the columns, and X as an array of tokens, after scikit-learn's checks.

    Without `columns`, this is the first table: its values decide what its columns are.
    """
    refuse_other_tables(X)
    is_packed = _can_be_packed(rules, X) if columns is None else columns.packed
    if is_packed:
        return _read_packed_table(estimator, rules, columns, X, y=y)
    if rules.numeric is not None:
        X = dense(X)
    if hasattr(X, "columns") and hasattr(X, "shape"):
        column_names(X)  # refuses names that occur twice
    arrays = None
    if rules.numeric is not None and (columns is None or columns.has_ordered):
        refuse_masked(X, "X")
        arrays = table_columns(X)
    is_first = columns is None
    if columns is None:
        columns = _decide_columns(rules, X, arrays)
    if arrays is None or not columns.has_ordered:
        array = _check_names_only(estimator, X, y=y, is_first=is_first)
        columns = _with_checked_names(estimator, columns, is_first=is_first)
        return columns, fill_missing(array, rules.missing)
    stand_in = np.empty((len(arrays[0]) if arrays else 0, len(arrays)))
    check_array(stand_in, ensure_all_finite=False, estimator=estimator, input_name="X")
    _check_columns(estimator, X, stand_in, y=y, is_first=is_first)
    columns = _with_checked_names(estimator, columns, is_first=is_first)
    names = columns.list_names()
    if is_first and rules.kernel_is_automatic and _all_are_numbers(columns):
        return columns.as_packed(), pack_table(X, rules.missing, names)
    tokens = tokens_of(
        arrays,
        columns.kinds,
        rules.missing,
        names,
        learning=learning,
        scales=columns.scales,
    )
    return columns, tokens


def _check_names_only(estimator: Any, X: Any, *, y: Any, is_first: bool) -> Array:
    """Return a table all of whose columns are names as an array, after scikit-learn's checks."""
    values = X
    if not sparse.issparse(X):
        values = token_array(X)
        check_table(values)
    array: Array = check_array(
        values,
        dtype=None,
        # tokens are checked, with better advice, when they are factorized
        ensure_all_finite=False,
        estimator=estimator,
        input_name="X",
    )
    _check_columns(estimator, X, array, y=y, is_first=is_first)
    return array


def _check_columns(estimator: Any, X: Any, stand_in: Any, *, y: Any, is_first: bool) -> None:
    """Let scikit-learn check the number and the names of columns, and y.

    The estimator takes them of a first table. `stand_in` has the shape of X, for tables without
    names.
    """
    table = X if hasattr(X, "columns") else stand_in
    validate_data(estimator, table, y, reset=is_first, skip_check_array=True)


def _with_checked_names(estimator: Any, columns: Columns, *, is_first: bool) -> Columns:
    """Return columns with the names that scikit-learn's check of a first table has found."""
    if not is_first:
        return columns
    checked_columns = get_fitted_columns(estimator)
    if not columns.kinds:
        return checked_columns
    assert columns.n == checked_columns.n
    return replace(columns, names=checked_columns.names)


def _can_be_packed(rules: ReadingRules, X: Any) -> bool:
    """Return whether a first table is wide, and has only numbers by the types of its columns."""
    return (
        rules.kernel_is_automatic
        and _has_automatic_numbers(rules)
        and not rules.ordered
        and is_wide_table(X)
        and as_numbers_by_type(X) is not None
    )


def _has_automatic_numbers(rules: ReadingRules) -> bool:
    """Return whether values decide which columns are numbers."""
    return isinstance(rules.numeric, str) and rules.numeric == "auto"


def _all_are_numbers(columns: Columns) -> bool:
    """Return whether columns are so many, and all of them numbers, that rows are packed."""
    return columns.n > MOST_PLAIN_COLUMNS and all(kind is NUMBERS for kind in columns.kinds)


def _read_packed_table(
    estimator: Any, rules: ReadingRules, columns: Columns | None, X: Any, *, y: Any
) -> tuple[Columns, Array]:
    """Return the columns, and the packed rows of X, after scikit-learn's checks."""
    names = column_names(X) if hasattr(X, "columns") else None
    refuse_masked(X, "X")
    shape = X.shape if hasattr(X, "shape") else (len(X), _count_columns(X))
    if len(shape) == 2:
        stand_in = np.broadcast_to(np.float64(0), shape)  # of its shape, but without its memory
        check_array(stand_in, ensure_all_finite=False, estimator=estimator, input_name="X")
    else:
        check_table(np.empty(shape))
        stand_in = X
    is_first = columns is None
    _check_columns(estimator, X, stand_in, y=y, is_first=is_first)
    if columns is None:
        columns = Columns((NUMBERS,) * shape[1]).as_packed()
    columns = _with_checked_names(estimator, columns, is_first=is_first)
    return columns, pack_table(X, rules.missing, names)


def _decide_columns(rules: ReadingRules, X: Any, arrays: list[Array] | None) -> Columns:
    """Return the columns of a first table, of the kinds that its values show; names come later."""
    if not arrays:
        return Columns(())
    evidence = evidence_of(rules, X, arrays)
    names = column_names(X) if hasattr(X, "columns") else None
    kinds = evidence.decide_kinds(find_number_columns(rules.numeric, names, len(arrays)))
    if _has_automatic_numbers(rules):
        has_warned = warn_of_ids(arrays, kinds, names, has_types=_has_types(rules, X))
        if rules.kernel_is_automatic and not warn_of_texts(arrays, kinds, names) and not has_warned:
            warn_of_strings(arrays, kinds, names)
    warn_of_offsets(arrays, evidence.scales, names)
    return Columns(kinds).with_types_of(evidence)


def warn_of_names(
    rules: ReadingRules, X: Any, columns: list[Array], kinds: ColumnKinds, places: Set[int]
) -> None:
    """Warn of first strings in some columns of names that are probably not meant as names."""
    if not (rules.kernel_is_automatic and _has_automatic_numbers(rules)):
        return
    # a column of another kind gets no warning
    kinds = tuple(kind if j in places else NUMBERS for j, kind in enumerate(kinds))
    names = column_names(X) if hasattr(X, "columns") else None
    if not warn_of_texts(columns, kinds, names):
        warn_of_strings(columns, kinds, names)


def evidence_of(rules: ReadingRules, X: Any, columns: list[Array]) -> Evidence:
    """Return what the columns of a table show of their kinds."""
    declared: dict[int, Order] = {}
    if rules.ordered is not None:
        names = column_names(X) if hasattr(X, "columns") else None
        declared = declare_orders(rules.ordered, names, len(columns))
        numbers = find_number_columns(rules.numeric, names, len(columns)) or set()
        for j in sorted(numbers & declared.keys()):
            raise ValueError(
                f"{quote_column(j, names)} holds numbers, or is in numeric=, "
                "and ordered= names it, too: leave it out of one of them."
            )
    return Evidence.of_columns(
        columns,
        has_types=_has_types(rules, X),
        categories=category_places(X),
        declared=declared,
    )


def _has_types(rules: ReadingRules, X: Any) -> bool:
    """Return whether whole numbers in X are numbers: in data frames, or with automatic kernels."""
    return hasattr(X, "columns") or rules.kernel_is_automatic


def _plain_tokens(X: Any) -> Any:
    """Return lists of integers and strings, all of one length, as an array; else X itself."""
    if type(X) is not list or not X:
        return X
    if any(type(row) is not list or len(row) != len(X[0]) for row in X):
        return X
    value_types = set().union(*(map(type, row) for row in X))
    if value_types == {int}:
        try:
            return np.array(X, np.int64)
        except OverflowError:
            return X
    if not value_types or not value_types <= {int, str}:
        return X
    array = np.empty((len(X), len(X[0])), object)
    array[:] = X
    return array


def _plain_rows(X: Any, kinds: ColumnKinds) -> Any:
    """Return lists of finite numbers and strings that fit the kinds as an array; else X itself."""
    if type(X) is not list or not X:
        return X
    if any(type(row) is not list or len(row) != len(kinds) for row in X):
        return X
    if not all(all(map(is_own_token, row, kinds)) for row in X):
        return X
    dtype = np.float64 if all(kind is NUMBERS for kind in kinds) else object
    array = np.empty((len(X), len(kinds)), dtype)
    array[:] = X
    return array


def _needs_no_checks(columns: Columns, X: Any) -> bool:
    """Return whether X is an array of the shape that a fitted model without column names takes.

    Scikit-learn's checks refuse nothing of integers and strings in it.
    """
    return (
        type(X) is np.ndarray
        and X.dtype.kind in "iufO"
        and X.ndim == 2
        and len(X) > 0
        and X.shape[1] == columns.n
        and columns.names is None
    )
