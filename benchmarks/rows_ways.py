"""Which kind of history (``rows.py``) each number is."""

from __future__ import annotations

from typing import Final

from rows import CaseHistory, DocumentHistory, History, TargetHistory
from rows_elsewhere import (
    CommandCaseHistory,
    CommandHistory,
    EngineDocumentHistory,
    EngineHistory,
    ServerDocumentHistory,
    ServerHistory,
)
from rows_ordered import (
    OrderedCommandHistory,
    OrderedEngineHistory,
    OrderedFitHistory,
    OrderedHistory,
    OrderedServerHistory,
    OrderedTargetCommandHistory,
    OrderedTargetHistory,
)

WAYS: Final[tuple[type[History], ...]] = (
    History,
    EngineHistory,
    DocumentHistory,
    CommandHistory,
    CaseHistory,
    TargetHistory,
    CommandCaseHistory,
    CaseHistory,
    ServerHistory,
    History,
    History,
    EngineDocumentHistory,
    DocumentHistory,
    CommandHistory,
    CaseHistory,
    History,
    CommandCaseHistory,
    CaseHistory,
    ServerDocumentHistory,
    TargetHistory,
    OrderedHistory,
    OrderedCommandHistory,
    OrderedTargetHistory,
    OrderedServerHistory,
    OrderedTargetCommandHistory,
    OrderedFitHistory,
    OrderedEngineHistory,
)
"""Which history a number is, modulo their number: thirteen of 27 go elsewhere."""
