"""Fits on engines for tests: settings of `Machines` are keywords beside those of the fit."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from hammemo.engines import Machines, fit_documents, fit_table

if TYPE_CHECKING:
    from hammemo import MemoryClassifier

_SETTINGS = {field.name for field in fields(Machines)}


def fit_docs(estimator: MemoryClassifier, source: Any, h: int, **options: Any) -> MemoryClassifier:
    """Call `fit_documents` with options of it and of `Machines`."""
    return fit_documents(estimator, source, h, **_gather_machines(options))


def fit_rows_of(
    estimator: MemoryClassifier, table: Any, label: str, **options: Any
) -> MemoryClassifier:
    """Call `fit_table` with options of it and of `Machines`."""
    return fit_table(estimator, table, label, **_gather_machines(options))


def _gather_machines(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with those of `Machines` as one."""
    settings = {name: value for name, value in options.items() if name in _SETTINGS}
    other_options = {name: value for name, value in options.items() if name not in _SETTINGS}
    return {**other_options, "machines": Machines(**settings)}
