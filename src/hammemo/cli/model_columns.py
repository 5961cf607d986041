"""The columns of a model that learns rows of files.

A model gets rows of files as arrays without names, in which every category and every name is a
text. What a data frame would say of its columns is known from the schema alone: which of them are
numbers, and which have an order. `InputColumns` hands that on to a model. All commands go through
it, so a model of a command is, to the byte, the one that Python fits to the same table.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hammemo.edits.column_changes import find_columns_without_values
from hammemo.edits.editing import take_state
from hammemo.sources.kinds import InputKind, InputKinds, find_numeric_columns, settle_kinds
from hammemo.tokens.column_evidence import Evidence, declare_orders
from hammemo.tokens.column_kinds import ColumnType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hammemo._arrays.types import Array
    from hammemo.estimators.learners import Learner
    from hammemo.sources.schemas import Labelled, TableSchema
    from hammemo.tokens.column_kinds import ColumnTypes
    from hammemo.tokens.orders import Order


@dataclass(frozen=True)
class InputColumns:
    """What rows of files say about the columns of a model.

    Parameters
    ----------
    kinds : tuple of InputKind
        What each column holds, the label last.
    orders : mapping of int to tuple
        The categories of columns that have an order, from low to high, by their places.
    """

    kinds: InputKinds
    orders: Mapping[int, Order] = field(default_factory=dict)

    @classmethod
    def of_batch(cls, batch: Labelled) -> InputColumns:
        """Return the columns of some rows."""
        return cls(batch.kinds, dict(batch.orders))

    @classmethod
    def of_schema(cls, schema: TableSchema) -> InputColumns:
        """Return the columns of rows that a schema has read, whose kinds are settled."""
        return cls(schema.kinds, dict(schema.orders))

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of an estimator that reads arrays of such rows."""
        return {
            "numeric": find_numeric_columns(self.kinds),
            "ordered": dict(self.orders) or None,
        }

    @contextmanager
    def declare_to(self, model: Learner) -> Iterator[None]:
        """Set the parameters of a model; after this block they are those of the user again."""
        with _parameters(model, self.parameters):
            yield

    @contextmanager
    def declare_orders_to(self, model: Learner) -> Iterator[None]:
        """Set the orders by places, for the parameter of a user names columns, and arrays do not.

        The kinds of columns stay to be decided as the user has said.
        """
        with _parameters(model, {"ordered": self.parameters["ordered"]}):
            yield

    def find_types(self, X: Array) -> ColumnTypes | None:
        """Return how the values of rows came, as if they were rows of a frame.

        Tokens of sequences have no types.
        """
        if len(self.kinds) == 1:
            return None
        return Evidence.of_columns(list(X.T), has_types=True, declared=self.orders).types

    def declare_types(self, model: Learner, X: Array) -> None:
        """Set how the values of columns came that a new model has learned."""
        _set_types(model, self.find_types(X))

    def describe_learned(
        self, schema: TableSchema, model: Learner, names: tuple[str, ...] | None
    ) -> TableSchema:
        """Return the schema with the columns of a table as a new model has learned them."""
        kinds = list(self.kinds)
        for place, kind in enumerate(model.state.columns.kinds):
            if kind.is_ordered:
                kinds[place] = InputKind.from_column_kind(kind)
            elif self.kinds[place].is_ordered:
                kinds[place] = InputKind.MIXED
        return replace(schema, columns=names, kinds=settle_kinds(kinds))


def keep_types(model: Learner, before: ColumnTypes | None) -> None:
    """Let columns keep the types that they had; those without a type keep the new one.

    A sync gets rows as an array, which has fewer types than the frame that a model may have
    learned.
    """
    after = model.state.columns.types
    if before is None or after is None:
        return
    kept = []
    for old, new in zip(before, after, strict=True):
        kept.append(new if old is ColumnType.UNTYPED else old)
    _set_types(model, tuple(kept))


@contextmanager
def _parameters(model: Learner, values: dict[str, Any]) -> Iterator[None]:
    """Set some parameters of a model for a block."""
    before = {name: getattr(model, name) for name in values}
    model.set_params(**values)
    try:
        yield
    finally:
        model.set_params(**before)


def _set_types(model: Learner, types: ColumnTypes | None) -> None:
    """Set the types of columns; packed rows are numbers, whose kinds are not decided again."""
    state = model.state
    if not state.columns.packed:
        take_state(model, state.with_changes(columns=replace(state.columns, types=types)))


def with_open_columns(model: Learner, schema: TableSchema) -> TableSchema:
    """Return the schema of a model where rows to come decide columns that have no value yet."""
    columns = model.state.columns
    orders = declare_orders(model.ordered, schema.columns or columns.list_names(), columns.n)
    places = find_columns_without_values(model.state)
    return schema.with_open_columns(places, model.numeric, orders)
