"""Streams of documents: a regressor learns none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.state import NumberState


def fit_documents(settings: NumberSettings, state: NumberState) -> NumberState:
    """Refuse documents: a document has no target."""
    raise NotImplementedError("a regressor keeps rows, not documents")
