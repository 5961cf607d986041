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
)
"""Which history a number is, modulo their number: eleven of 25 go elsewhere."""
