"""Fits on engines for tests: the settings of `Machines` are keyword arguments beside those of the fit."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from hammemo.engines import Machines, fit_documents, fit_table

if TYPE_CHECKING:
    from hammemo import MemoryClassifier

_SETTINGS = {field.name for field in fields(Machines)}


def fit_docs(estimator: MemoryClassifier, source: Any, h: int, **options: Any) -> MemoryClassifier:
    """Call `fit_documents` with options of it and of `Machines`."""
    return fit_documents(estimator, source, h, **_gathered(options))


def fit_rows_of(estimator: MemoryClassifier, table: Any, label: str, **options: Any) -> MemoryClassifier:
    """Call `fit_table` with options of it and of `Machines`."""
    return fit_table(estimator, table, label, **_gathered(options))


def _gathered(options: dict[str, Any]) -> dict[str, Any]:
    machines = Machines(**{name: value for name, value in options.items() if name in _SETTINGS})
    others = {name: value for name, value in options.items() if name not in _SETTINGS}
    return {**others, "machines": machines}
