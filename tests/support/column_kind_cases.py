"""A table for each kind of column, and models that learn it: what every way in and out must handle.

A new kind of column is one more entry of `KIND_CASES`; `tests/checks/test_every_column_kind.py`
then takes it through files, commands, engines, graphs and a server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hammemo import MemoryClassifier, MemoryRegressor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.random import Generator

N_ROWS = 160
N_REMAINING = 120
"""Rows of the table that are left after an edit."""

Model = MemoryClassifier | MemoryRegressor

NO_PARAMETERS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class KindCase:
    """A kind of column.

    Parameters
    ----------
    make_values : callable
        Makes so many values of the kind, as a pandas column has them.
    is_late : callable
        Says of each value whether it is in the upper half: what labels and targets follow.
    has_graphs : bool
        Whether ONNX and torch have the kind.
    csv_options : tuple of str
        What says the kind of the column ``value`` to commands where a file has only texts.
    csv_parameters : dict
        The parameters of estimators that say the same.
    """

    make_values: Callable[[Generator, int], pd.Series]
    is_late: Callable[[pd.Series], Any]
    has_graphs: bool = True
    csv_options: tuple[str, ...] = ()
    csv_parameters: Mapping[str, Any] = field(default_factory=dict)


def make_names(rng: Generator, n: int) -> pd.Series:
    """Make names, two of which come early."""
    return pd.Series(rng.choice(["Ulm", "Bonn", "Trier", "Celle"], n), dtype=object)


def make_numbers(rng: Generator, n: int) -> pd.Series:
    """Make fractions around 0."""
    return pd.Series(rng.normal(size=n).round(2))


def make_dates(rng: Generator, n: int) -> pd.Series:
    """Make days of two years."""
    return pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 730, n), "D"))


SIZES = ["tiny", "small", "medium", "large", "huge"]


def make_ordered_categories(rng: Generator, n: int) -> pd.Series:
    """Make sizes, whose order is not that of their names."""
    return pd.Series(pd.Categorical(rng.choice(SIZES, n), categories=SIZES, ordered=True))


KIND_CASES: dict[str, KindCase] = {
    "NAMES": KindCase(make_names, lambda values: values.isin(["Trier", "Celle"])),
    "NUMBERS": KindCase(make_numbers, lambda values: values > 0),
    "DATES": KindCase(
        make_dates, lambda values: values >= pd.Timestamp("2025-01-01"), has_graphs=False
    ),
    "ORDERED_CATEGORIES": KindCase(
        make_ordered_categories,
        lambda values: values >= "medium",
        csv_options=("--ordered", f"value={','.join(SIZES)}"),
        csv_parameters={"ordered": {"value": SIZES}},
    ),
}
"""One for each member of `ColumnKind`, by its name."""


@dataclass(frozen=True)
class ModelCase:
    """A model: a task and a vote.

    Parameters
    ----------
    make_model : callable
        Makes one without rows.
    target : str
        The column of the table that it learns.
    option : str
        What names this column on the command line.
    options : tuple of str
        What the command line needs to make the same model.
    """

    make_model: Callable[[], Model]
    target: str
    option: str
    options: tuple[str, ...] = ()


MODEL_CASES: dict[str, ModelCase] = {
    "labels": ModelCase(MemoryClassifier, "label", "--label"),
    "labels, sum vote": ModelCase(
        lambda: MemoryClassifier(vote="sum", keep=True),
        "label",
        "--label",
        ("--vote", "sum", "--keep", "rows"),
    ),
    "numbers": ModelCase(MemoryRegressor, "amount", "--target"),
}


def make_table(kind: str, *, missing: bool = True) -> pd.DataFrame:
    """Return a table: a column of this kind, some values of it missing, a number, a label and a
    target.
    """
    case = KIND_CASES[kind]
    rng = np.random.default_rng(len(kind))
    values = case.make_values(rng, N_ROWS)
    is_late = np.asarray(case.is_late(values))
    if missing:
        values = values.mask(rng.random(N_ROWS) < 0.05)
    size = rng.normal(size=N_ROWS).round(1)
    return pd.DataFrame(
        {
            "value": values,
            "size": size,
            "label": np.where(is_late ^ (rng.random(N_ROWS) < 0.05), "late", "early"),
            "amount": 3.0 * is_late + size,
        }
    )


def split_target(table: pd.DataFrame, case: ModelCase) -> tuple[pd.DataFrame, pd.Series]:
    """Return what a model learns from and what it learns."""
    return table[["value", "size"]], table[case.target]


def fit_table_case(
    table: pd.DataFrame, case: ModelCase, parameters: Mapping[str, Any] = NO_PARAMETERS
) -> Any:
    """Return a model that has learned a table, with further parameters."""
    return case.make_model().set_params(**parameters).fit(*split_target(table, case))
