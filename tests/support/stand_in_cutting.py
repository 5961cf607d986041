"""Stands in for `cutting_`, which models do not have yet: h=3 pads, h=2 drops, no other model is of documents."""

from __future__ import annotations

from typing import Any, NamedTuple

from hammemo import MemoryClassifier


class Cutting(NamedTuple):
    short: str
    pad: Any = None


def install() -> None:
    """Give models `cutting_`, and let streams be cut by it."""
    models: Any = MemoryClassifier
    if hasattr(models, "cutting_"):
        return
    learn, forget = models.partial_fit_stream, models.forget_stream
    models.cutting_ = property(lambda self: {2: Cutting("drop"), 3: Cutting("pad")}.get(self.n_features_in_))
    models.partial_fit_stream = lambda self, tokens, h=None, **more: learn(
        self, tokens, h or self.n_features_in_, **(more or {"short": self.cutting_.short})
    )
    models.forget_stream = lambda self, tokens, **more: forget(self, tokens, **(more or {"short": self.cutting_.short}))
