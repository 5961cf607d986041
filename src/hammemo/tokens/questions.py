"""How compiled models read questions: as the models that they were compiled from.

A predictor, and a torch module made of one, has no parameters and no training rows, but it knows
the columns of its model: how many there are, their names, and which of them are numbers. With
these, `ReadsQuestions` accepts and refuses the same questions as the model, by the same functions.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import Tags, TargetTags
from sklearn.utils.validation import validate_data

from hammemo.tokens.contexts import Contexts, column_names
from hammemo.tokens.token_types import warn_once
from hammemo.tokens.user_input import contexts_of_length, contexts_with_numbers, read_question

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hammemo._arrays.types import Array
    from hammemo.tokens.columns import Columns


@dataclass(frozen=True, eq=False)
class QuestionForm:
    """What questions to a compiled model look like, and how they are read: its `ReadingRules`.

    Parameters
    ----------
    columns : Columns
        The columns of the model.
    missing : str
        What takes the place of missing values.
    reads_tables : bool
        Whether the model has the parameter `numeric`; without it, all columns are names, and sparse
        rows are refused.
    """

    columns: Columns
    missing: str = "token"
    reads_tables: bool = True

    @property
    def numeric(self) -> str | None:
        """None where all columns are names; else the kinds of the columns say which are numbers."""
        return "auto" if self.reads_tables else None

    @property
    def ordered(self) -> None:
        """None: the columns say which categories have an order."""
        return None

    @property
    def kernel_is_automatic(self) -> bool:
        """Whether whole numbers of lists and arrays are numbers; the columns say which are."""
        return True

    def with_names(self, names: Iterable[str] | None) -> QuestionForm:
        """Return the form of the same columns under other names, or under none."""
        named = None if names is None else np.array(list(names), dtype=object)
        return replace(self, columns=replace(self.columns, names=named))

    def read_rows_in_order(self, rows: Sequence[Sequence[Any]]) -> Contexts:
        """Return the contexts of rows without names: lists of values in order of the columns."""
        kinds = self.columns.kinds
        if not self.columns.has_ordered:
            return contexts_of_length(rows, self.columns.n, self.missing)
        return contexts_with_numbers(
            rows, kinds, self.missing, packed=self.columns.packed, scales=self.columns.scales
        )


class ReadsQuestions:
    """A base for compiled models: it reads questions as a model does. A subclass sets `form`.

    Messages of scikit-learn's checks name the class that they check, such as Predictor.
    """

    form: QuestionForm

    @property
    def n_features_in_(self) -> int:
        """How many columns a question has."""
        return self.form.columns.n

    @property
    def feature_names_in_(self) -> Array:
        """The names of the columns, where the model was fitted to any."""
        names = self.form.columns.names
        if names is None:
            raise AttributeError(
                "The model was fitted to columns without names, so there is no feature_names_in_."
            )
        return names

    def __sklearn_tags__(self) -> Tags:
        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def read(self, X: Any) -> Contexts:
        """Return the checked contexts of a question, or refuse it with the error of the model.

        A table of the right columns without rows has no answers; a model refuses it, as
        scikit-learn wants it of estimators, but to a service it is an ordinary batch.
        """
        columns = self.form.columns
        if _has_no_rows(X):
            if hasattr(X, "columns"):
                column_names(X)  # refuses names that occur twice
            validate_data(self, X, reset=False, skip_check_array=True)
            return Contexts(np.empty((0, columns.width), np.int64))
        contexts = read_question(self, self.form, columns, X)
        if columns.token_types is not None:
            differences = columns.token_types.differences(contexts, columns.names, columns.kinds)
            warn_once(differences, vars(self).setdefault("_columns_warned_of", {}))
        return contexts

    def read_row(self, row: Sequence[Any]) -> Contexts:
        """Return the context of one row, a list of its values in the order of the columns."""
        try:
            return self.form.read_rows_in_order([row])
        except (TypeError, ValueError):
            # Read it as a table: that takes longer, and gives the errors of the model.
            unnamed = copy.copy(self)
            unnamed.form = self.form.with_names(None)
            return unnamed.read([row])


def _has_no_rows(X: Any) -> bool:
    """Return whether this is a table with columns and without rows."""
    shape: tuple[Any, ...] = getattr(X, "shape", ())
    return len(shape) == 2 and shape[0] == 0 and shape[1] > 0
