"""The two models that learn and forget rows, for all that takes either."""

from __future__ import annotations

from typing import TypeAlias

from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.estimators.regressor import MemoryRegressor

Learner: TypeAlias = MemoryClassifier | MemoryRegressor
