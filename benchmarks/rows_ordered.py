"""Random histories (``rows.py``) of tables with a column of ordered categories.

Every form that can hold such a column is among them: categories of pandas, an Enum of polars, an
ordered dictionary of Arrow, Parquet, and strings without an order: in CSV, in JSON, in single rows
and in tables. A model looks strings up in the order that it has read. It has none of a column in
which all values are missing: the next rows then come in a form that has the order, as the first
rows do, and those of a new model. `sync` with a random table is one of the steps.

Some models are fitted by Python, and go on in files and on servers; others by engines and
``hammemo fit``, from Parquet.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import polars as pl

from hammemo import MemoryClassifier, engines, load, save
from rows import TargetHistory
from rows_elsewhere import (
    ONE_THREAD,
    SEEDS,
    CommandHistory,
    FirstRowsOnEngine,
    ServerHistory,
    TableHistory,
    command,
)

if TYPE_CHECKING:
    from pathlib import Path

    from rows import LabelledRows

_ORDERS: Final[dict[str, list[Any]]] = {
    "sizes": ["S", "M", "L", "XL"],
    "grades": [3, 1, 2],
    "shares": [0.5, 2.25, 1.0],
    "months": [f"month {place}" for place in range(24)],
    "many": [f"level {place:03}" for place in range(300)],
    "single": ["only"],
}
"""The categories of each kind of ordered column, from low to high."""

_MISSING: Final[dict[str, int]] = {
    "sizes": 1,
    "grades": 1,
    "shares": 2,
    "months": 3,
    "many": 9,
    "single": 3,
}
"""How many of the values that are drawn from are missing ones."""

_PLAIN_KINDS: Final = ("names", "integers", "measures", "lacking", "dates", "coded")

_ORDERS_IN_PARQUET: Final = ("sizes", "months", "many", "single")
"""The kinds whose order Parquet gives back: Arrow reads dictionaries of numbers as numbers."""

_CONFIGURATIONS: Final[dict[str, dict[str, Any]]] = {
    "default": {},
    "seed 7": {"random_state": 7},
    "digests": {"keep": "auto+digests"},
    "sum": {"vote": "sum", "keep": True},
}


class OrderedHistory(TableHistory):
    """A history in Python of a table whose columns come in another form in each batch."""

    kind = "ordered categories"
    configurations = _CONFIGURATIONS
    values: dict[str, list[Any]] = {  # noqa: RUF012  (never changed)
        **{kind: TableHistory.values[kind] for kind in _PLAIN_KINDS},
        **{kind: [*order, *[None] * _MISSING[kind]] for kind, order in _ORDERS.items()},
    }
    dtypes: dict[str, Any] = {  # noqa: RUF012  (never changed)
        **{kind: TableHistory.dtypes[kind] for kind in _PLAIN_KINDS},
        **{
            kind: pd.CategoricalDtype(np.array(order), ordered=True)
            for kind, order in _ORDERS.items()
        },
    }
    possible_kinds: tuple[str, ...] = (*_PLAIN_KINDS, *_ORDERS)
    steps: tuple[str, ...] = (
        "partial_fit",
        "partial_fit",
        "learn_strings",
        "learn_one",
        "forget",
        "forget_strings",
        "forget_one",
        "merge",
        "unmerge",
        "sync",
        "refit",
        "copy_by_pickle",
        "save_and_load",
    )

    def draw_kinds(self) -> None:
        """Draw the kinds of the columns; at least one is ordered."""
        super().draw_kinds()
        if not _ORDERS.keys() & set(self.kinds):
            place = int(self.rng.integers(len(self.kinds)))
            ordered_kinds = [kind for kind in self.possible_kinds if kind in _ORDERS]
            self.kinds = [*self.kinds]
            self.kinds[place] = ordered_kinds[int(self.rng.integers(len(ordered_kinds)))]

    def as_user_gives(self, rows: LabelledRows) -> tuple[Any, Any]:
        """Return rows and labels as a user gives them, in any form that has an order."""
        frame = self.frame(rows)
        labels = frame.pop("label").to_numpy()
        form = ("pandas", "polars", "Arrow")[int(self.rng.integers(3))]
        if form == "pandas":
            return frame, labels
        if form == "polars" and self._has_only({"many", "months"}):
            return self._as_polars(frame), labels
        return self.encode_dictionaries(frame), labels

    def _has_only(self, possible_kinds: set[str]) -> bool:
        """Say whether all ordered columns are of these kinds."""
        return _ORDERS.keys() & set(self.kinds) <= possible_kinds

    def _as_polars(self, frame: pd.DataFrame) -> pl.DataFrame:
        """Return a table with an Enum for each ordered column, which has strings."""
        columns: dict[str, Any] = {}
        for kind, (name, values) in zip(self.kinds, frame.items(), strict=True):
            if kind in _ORDERS:
                categories = values.astype(object).where(values.notna(), None).tolist()
                columns[str(name)] = pl.Series(categories, dtype=pl.Enum(_ORDERS[kind]))
            else:
                columns[str(name)] = pl.from_pandas(values)
        return pl.DataFrame(columns)

    def without_orders(self, rows: LabelledRows) -> tuple[Any, Any]:
        """Return rows and labels in a table whose ordered columns are plain values.

        An Enum of few strings counts as them, because it is often made for names.
        """
        frame = self.frame(rows)
        labels = frame.pop("label").to_numpy()
        if self._has_only({"sizes", "single"}) and self.rng.random() < 0.3:
            return self._as_polars(frame), labels
        for j, kind in enumerate(self.kinds):
            if kind in _ORDERS:
                frame[f"c{j}"] = frame[f"c{j}"].astype(object)
        return frame, labels

    def has_all_orders(self) -> bool:
        """Say whether the model has surely read the order of each ordered column."""
        return all(
            any(row[j] is not None for row, _ in self.held)
            for j, kind in enumerate(self.kinds)
            if kind in _ORDERS
        )

    def learn_strings(self) -> None:
        """Learn more rows, whose categories are looked up."""
        if self.has_all_orders():
            rows = self.draw_rows()
            self.model.partial_fit(*self.without_orders(rows))
            self.held += rows

    def forget_strings(self) -> None:
        """Forget one row by plain values."""
        if len(self.held) > self.fewest_rows:
            row = self.held.pop(int(self.rng.integers(len(self.held))))
            self.model.forget(*self.without_orders([row]))
            self.merged = []

    def learn_one(self) -> None:
        """Learn one row as a list."""
        if self.has_all_orders():
            row, label = self.draw_rows()[0]
            self.model.learn_one(row, label)
            self.held.append((row, label))

    def forget_one(self) -> None:
        """Forget one row as a list."""
        if len(self.held) > self.fewest_rows:
            row, label = self.held.pop(int(self.rng.integers(len(self.held))))
            self.model.forget_one(row, label)
            self.merged = []

    def sync(self) -> None:
        """Make the model hold another table, which has some of the rows."""
        table = self.draw_next_table()
        if self.has_all_orders() and self.rng.random() < 0.5:
            self.model.sync(*self.without_orders(table))
        else:
            self.model.sync(*self.as_user_gives(table), refit=bool(self.rng.random() < 0.3))
        self.held = table
        self.merged = []

    def draw_next_table(self) -> LabelledRows:
        """Return some of the rows, more rows, and all of them in another order."""
        n_kept = int(self.rng.integers(0, len(self.held) + 1))
        places = self.rng.choice(len(self.held), n_kept, replace=False).tolist()
        rows = [*(self.held[place] for place in places), *self.draw_rows()]
        return [rows[place] for place in self.rng.permutation(len(rows))]


class OrderedTargetHistory(TargetHistory, OrderedHistory):
    """The same for a model of numbers."""

    kind = OrderedHistory.kind
    label_dtype = float


class OrderedCommandHistory(CommandHistory, OrderedHistory):
    """A history of a model file of Python, which commands change by CSV and Parquet."""

    label_option: tuple[str, ...] = ("--label", "label")
    """What names the label to a command: a model of Python does not know it."""
    steps: tuple[str, ...] = (
        "partial_fit",
        "partial_fit",
        "forget",
        "forget_one",
        "merge",
        "sync",
        "refit",
    )

    def learn(self, how: str) -> None:
        """Save a model of the first rows, or add a file."""
        rows = self.draw_rows()
        if how == "fit" or not self.held:
            self.drop_rows()
            save(self.fit_new(rows), self.file)
        elif not self.has_all_orders():
            save(load(self.file).partial_fit(*self.as_user_gives(rows)), self.file)
        else:
            command("add", self.file, self.write(rows, self.folder), *self.label_option)
        self.held += rows

    def take_back(self, rows: LabelledRows) -> None:
        """Forget the rows of a file."""
        arguments = ["forget", self.file, self.write(rows, self.folder), *self.label_option]
        if self.rng.random() < 0.3:
            arguments.append("--refit")
        command(*arguments)

    forget_one = TableHistory.forget_one

    def merge(self) -> None:
        """Merge with the file of another model."""
        rows = self.draw_rows()
        other = self.folder / "other"
        save(self.fit_new(rows), other)
        command("merge", self.file, other, "--out", self.file)
        self.held += rows

    def sync(self) -> None:
        """Make the file hold another table."""
        if not self.has_all_orders():
            return
        table = self.draw_next_table()
        arguments = ["sync", self.file, self.write(table, self.folder), *self.label_option]
        if self.rng.random() < 0.3:
            arguments.append("--refit")
        command(*arguments)
        self.held = table

    def fit_new(self, rows: LabelledRows) -> Any:
        """Return a model of these rows that Python makes."""
        return OrderedHistory.fit_new(self, rows)


class OrderedTargetCommandHistory(TargetHistory, OrderedCommandHistory):
    """The same for a model of numbers."""

    kind = OrderedHistory.kind
    label_option = ("--target", "label")
    label_dtype = float


class OrderedFitHistory(OrderedCommandHistory):
    """A history of a model file that ``hammemo fit`` makes of Parquet."""

    possible_kinds = (*_PLAIN_KINDS, *_ORDERS_IN_PARQUET)
    configurations = SEEDS
    label_option = ()  # the file has it

    def learn(self, how: str) -> None:
        """Fit a file, or add one."""
        rows = self.draw_rows()
        if how == "fit" or not self.held:
            self.drop_rows()
            self.fit_file(rows, self.file)
        elif self.has_all_orders():
            command("add", self.file, self.write(rows, self.folder))
        else:
            command("add", self.file, self.write_parquet(rows, self.folder))
        self.held += rows

    def fit_file(self, rows: LabelledRows, out: Path) -> Any:
        """Return what ``hammemo fit`` makes of these rows."""
        command("fit", self.write_parquet(rows, self.folder), *self.options(), "--out", out)
        return load(out)

    def fit_new(self, rows: LabelledRows) -> Any:
        """Return a new model of these rows."""
        return self.fit_file(rows, self.folder / "fresh")


class OrderedEngineHistory(FirstRowsOnEngine, OrderedHistory):
    """A history that begins with `engines.fit_table` of Parquet, and half of which end with it."""

    kind = OrderedHistory.kind
    possible_kinds = (*_PLAIN_KINDS, *_ORDERS_IN_PARQUET)

    def fit_on_engine(self, rows: LabelledRows) -> MemoryClassifier:
        """Return what an engine makes of rows in a file."""
        with tempfile.TemporaryDirectory() as folder:
            path = self.write_parquet(rows, folder)
            model = MemoryClassifier(**self.params)
            return engines.fit_table(model, path, "label", machines=ONE_THREAD)

    def fit_new(self, rows: LabelledRows) -> Any:
        """Return a new model of these rows."""
        if self.rng.random() < 0.5:
            return self.fit_on_engine(rows)
        return super().fit_new(rows)


class OrderedServerHistory(ServerHistory, OrderedHistory):
    """A history of a model on a server, whose edits hold categories as JSON does."""

    possible_kinds = ("names", "integers", "measures", *_ORDERS)
    forget_one = TableHistory.forget_one

    def learn(self, how: str) -> None:
        """Upload a model of the first rows, or learn more."""
        if not self.held or self.has_all_orders():
            super().learn(how)

    def learn_one(self) -> None:
        """Learn one row."""
        if self.has_all_orders():
            ServerHistory.learn_one(self)
