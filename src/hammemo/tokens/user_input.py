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
from hammemo.tokens.column_values import (
    category_places,
    dense,
    is_own_token,
    table_columns,
    tokens_of,
    warn_of_ids,
    warn_of_offsets,
)
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
        """Return rows after scikit-learn's checks.

        Without columns, the rows say what their columns are.

        In the second case the estimator takes the number and the names of columns. `read_targets`
        checks y.

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
        columns, table = _table(estimator, rules, columns, X, y=y, learning=True)
        tokens, labels = np.array(table), np.array(read_targets(y))
        check_shapes(tokens, labels)
        return cls(tokens, labels, whole_multiplicity(sample_weight, len(tokens)), columns)

    def examples(self) -> Examples:
        """Return the examples; this is where a value that is no token is refused."""
        with _located(self.tokens, self.columns.names):
            return Examples.of_arrays(self.tokens, self.labels, self.counts)

    def __getitem__(self, chosen: Array) -> CheckedRows:
        return CheckedRows(
            self.tokens[chosen], self.labels[chosen], self.counts[chosen], self.columns
        )


def join_rows(batches: list[CheckedRows]) -> CheckedRows:
    """Return the rows of several batches, at least one, that were read for the same columns."""
    if len(batches) == 1:
        return batches[0]
    tokens, labels = ([getattr(batch, name) for batch in batches] for name in ("tokens", "labels"))
    if len({part.dtype.kind for part in tokens}) > 1:
        # NumPy would make floats of whole numbers
        tokens = [part.astype(object) for part in tokens]
    counts = np.concatenate([batch.counts for batch in batches])
    common = common_label_dtype(*labels)
    return CheckedRows(
        np.concatenate(tokens),
        np.concatenate([part.astype(common) for part in labels]),
        counts,
        batches[0].columns,
    )


@contextmanager
def _located(table: Array, names: Array | None) -> Iterator[None]:
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

    They are of shape, names and columns.

    Without columns, the estimator takes those of X.
    """
    if columns is None:
        columns, table = _table(estimator, rules, None, X)
        with _located(table, columns.names):
            return Contexts(table)
    if columns.packed:
        return Contexts(_table(estimator, rules, columns, X)[1])
    has_ordered = columns.has_ordered
    plain = _plain_rows(X, columns.kinds) if has_ordered else _plain_tokens(X)
    if _is_plain(columns, plain) and (
        plain is not X or (not has_ordered and plain.dtype.kind in "iu")
    ):
        with _located(plain, None):
            return Contexts(plain)
    _, table = _table(estimator, rules, columns, X)
    with _located(table, columns.names):
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
        n = X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else len(X[0]) if len(X) else 0
        if n != len(kinds):
            raise ValueError(
                f"The model was fitted on tables of {len(kinds):,} columns; X has {n:,}."
            )
        return Contexts(pack_table(X, missing, None))
    columns = table_columns(X)
    if columns is None or len(columns) != len(kinds):
        n = 0 if columns is None else len(columns)
        raise ValueError(f"The model was fitted on tables of {len(kinds)} columns; X has {n}.")
    return Contexts(tokens_of(columns, kinds, missing, None, learning=False, scales=scales))


def _table(
    estimator: Any,
    rules: ReadingRules,
    known: Columns | None,
    X: Any,
    *,
    y: Any = "no_validation",
    learning: bool = False,
) -> tuple[Columns, Array]:
    """Return the columns, and X as an array of tokens, after scikit-learn's checks.

    They are of shape, feature names and count.
    """
    refuse_other_tables(X)
    packs = _packs(rules, X) if known is None else known.packed
    if packs:
        return _packed_table(estimator, rules, known, X, y=y)
    X = X if rules.numeric is None else dense(X)
    is_frame, reset = hasattr(X, "columns"), known is None
    if is_frame and hasattr(X, "shape"):
        column_names(X)  # refuses names that occur twice
    listed = None
    if rules.numeric is not None and (known is None or known.has_ordered):
        refuse_masked(X, "X")
        listed = table_columns(X)
    found = _shown_columns(rules, X, listed) if known is None else known
    if not found.has_ordered or listed is None:
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
        validate_data(estimator, X if is_frame else array, y, reset=reset, skip_check_array=True)
        return _as_taken(estimator, found, reset=reset), fill_missing(array, rules.missing)
    shape = np.empty((len(listed[0]) if listed else 0, len(listed)))
    check_array(shape, ensure_all_finite=False, estimator=estimator, input_name="X")
    validate_data(estimator, X if is_frame else shape, y, reset=reset, skip_check_array=True)
    found = _as_taken(estimator, found, reset=reset)
    if known is None and rules.kernel_is_automatic and _all_are_numbers(found):
        return found.as_packed(), pack_table(X, rules.missing, found.list_names())
    tokens = tokens_of(
        listed,
        found.kinds,
        rules.missing,
        found.list_names(),
        learning=learning,
        scales=found.scales,
    )
    return found, tokens


def _packs(rules: ReadingRules, X: Any) -> bool:
    """Return whether a first table is wide, and has only numbers by the types of its columns."""
    is_automatic = (
        rules.kernel_is_automatic and isinstance(rules.numeric, str) and rules.numeric == "auto"
    )
    return (
        is_automatic
        and not rules.ordered
        and is_wide_table(X)
        and as_numbers_by_type(X) is not None
    )


def _all_are_numbers(columns: Columns) -> bool:
    """Return whether columns are so many, and all of them numbers, that rows are packed."""
    return columns.n > MOST_PLAIN_COLUMNS and all(kind is NUMBERS for kind in columns.kinds)


def _packed_table(
    estimator: Any, rules: ReadingRules, known: Columns | None, X: Any, *, y: Any
) -> tuple[Columns, Array]:
    """Return the columns, and the packed rows of X, after scikit-learn's checks."""
    is_frame, reset = hasattr(X, "columns"), known is None
    names = column_names(X) if is_frame else None
    refuse_masked(X, "X")
    shape = X.shape if hasattr(X, "shape") else (len(X), len(X[0]) if len(X) else 0)
    if len(shape) == 2:
        stub = np.broadcast_to(np.float64(0), shape)  # of its shape, but without its memory
        check_array(stub, ensure_all_finite=False, estimator=estimator, input_name="X")
    else:
        check_table(np.empty(shape))
        stub = X
    validate_data(estimator, X if is_frame else stub, y, reset=reset, skip_check_array=True)
    if known is None:
        known = Columns((NUMBERS,) * shape[1]).as_packed()
    return _as_taken(estimator, known, reset=reset), pack_table(X, rules.missing, names)


def _as_taken(estimator: Any, columns: Columns, *, reset: bool) -> Columns:
    """Return columns with the names that scikit-learn's check gave to the estimator."""
    if not reset:
        return columns
    taken = get_fitted_columns(estimator)
    if not columns.kinds:
        return taken
    assert columns.n == taken.n
    return replace(columns, names=taken.names)


def _shown_columns(rules: ReadingRules, X: Any, listed: list[Array] | None) -> Columns:
    """Return the columns of a first table, of kinds that its values show; names come later."""
    if not listed:
        return Columns(())
    evidence = evidence_of(rules, X, listed)
    names = column_names(X) if hasattr(X, "columns") else None
    kinds = evidence.decide_kinds(find_number_columns(rules.numeric, names, len(listed)))
    if isinstance(rules.numeric, str) and rules.numeric == "auto":
        has_warned = warn_of_ids(listed, kinds, names, has_types=_has_types(rules, X))
        if rules.kernel_is_automatic and not warn_of_texts(listed, kinds, names) and not has_warned:
            warn_of_strings(listed, kinds, names)
    warn_of_offsets(listed, evidence.scales, names)
    return Columns(kinds).with_types_of(evidence)


def warn_of_names(
    rules: ReadingRules, X: Any, columns: list[Array], kinds: ColumnKinds, places: Set[int]
) -> None:
    """Warn of first strings in some columns of names that are probably not meant as names."""
    if not (
        isinstance(rules.numeric, str) and rules.numeric == "auto" and rules.kernel_is_automatic
    ):
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
            shown = j if names is None else repr(names[j])
            raise ValueError(
                f"Column {shown} holds numbers, or is in numeric=, and ordered= names it, too: "
                "leave it out of one of them."
            )
    return Evidence.of_columns(
        columns,
        has_types=_has_types(rules, X),
        categories=category_places(X),
        declared=declared,
    )


def _has_types(rules: ReadingRules, X: Any) -> bool:
    """Return whether whole numbers in X are numbers.

    They are in data frames, and wherever the kernel is automatic.
    """
    return hasattr(X, "columns") or rules.kernel_is_automatic


def _plain_tokens(X: Any) -> Any:
    """Return lists of integers and strings, all of one length, as an array.

    Everything else is returned as it is.
    """
    if (
        type(X) is not list
        or not X
        or any(type(row) is not list or len(row) != len(X[0]) for row in X)
    ):
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


def _plain_rows(X: Any, kinds: ColumnKinds) -> Any:
    """Return lists of finite numbers and strings that fit the kinds as an array.

    Everything else is returned as it is.
    """
    if (
        type(X) is not list
        or not X
        or any(type(row) is not list or len(row) != len(kinds) for row in X)
    ):
        return X
    if not all(all(map(is_own_token, row, kinds)) for row in X):
        return X
    array = np.empty(
        (len(X), len(kinds)), np.float64 if all(kind is NUMBERS for kind in kinds) else object
    )
    array[:] = X
    return array


def _is_plain(columns: Columns, X: Any) -> bool:
    """Return whether X is an array of the shape that a fitted model without column names takes.

    Scikit-learn's checks refuse nothing of integers and strings in it, and take longer than an
    answer.
    """
    return (
        type(X) is np.ndarray
        and X.dtype.kind in "iufO"
        and X.ndim == 2
        and len(X) > 0
        and X.shape[1] == columns.n
        and columns.names is None
    )
