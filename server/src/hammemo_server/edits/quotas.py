"""How much a tenant may hold: labels, examples and bytes, over all its models and named lists.

The writer of a model asks before it applies what is learnt, so an edit that was applied before
is acknowledged again also where the quota is reached. What is forgotten is never refused.

Bytes are those on the disk and about those in memory. A sketch takes rows × labels × the width
of a count, known before it is made. All else is as large as what was learnt: in memory 2 to 20
times as large as in the log or in a snapshot, as measured with rows of one to twelve columns.
So `_IN_MEMORY` bytes are counted for each byte on the disk.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo.tokens.vocabulary import Vocabulary
from hammemo_server.edits.operations import (
    Content,
    LoggedChange,
    LoggedDocuments,
    LoggedRows,
    QuotaReached,
)
from hammemo_server.edits.settings import sketch_of, sketch_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hammemo.edits.state import AnyState
    from hammemo.estimators.learners import Learner
    from hammemo_server.edits.limits import Limits


MODEL_BYTES: Final = 2**20
"""What a model takes that holds nothing: two threads, an open database and its file."""
_LONG_EDITS: Final = 2
"""Refits and edits of many rows of one tenant that are computed at the same time."""
_IN_MEMORY: Final = 8
_COARSE: Final = 4_096
"""A model is measured again when this part of a quota was learnt: 256 models are wrong by a
sixteenth together."""
_LIST_ITEM_BYTES: Final = 100
"""What an item of a list takes in memory beside its characters."""


class Usage(NamedTuple):
    """What a model, or all that a tenant has, holds; of a quota, 0 is any number."""

    labels: int = 0
    examples: int = 0
    bytes: int = 0
    """On the disk and in memory, about."""


def add_usages(usages: Iterable[Usage]) -> Usage:
    """Return the sum of some usages."""
    labels = examples = size = 0
    for usage in usages:
        labels += usage.labels
        examples += usage.examples
        size += usage.bytes
    return Usage(labels, examples, size)


def most_allowed(limits: Limits) -> Usage:
    """Return the most that a tenant may store."""
    return Usage(limits.stored_labels, limits.stored_examples, limits.stored_bytes)


class Quota:
    """What the models of one tenant store, and whether there may be more; for any thread.

    Examples
    --------
    >>> from hammemo_server.edits.quotas import Quota, Usage
    >>> quota = Quota(Usage(examples=10))
    >>> quota.note("fruit", Usage(labels=2, examples=7))
    >>> quota.take("fruit", Usage(labels=1, examples=3))
    >>> quota.take("trees", Usage(examples=1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    hammemo_server.edits.operations.QuotaReached: This tenant stores 10 examples and may ...
    """

    def __init__(self, limit: Usage) -> None:
        self.limit = limit
        """The most that they may store; a zero is no limit."""
        self.long_edits = threading.Semaphore(_LONG_EDITS)
        """Held while a refit, or an edit of many rows, is computed."""
        self._usages: dict[str, Usage] = {}
        """What each model stores."""
        self._total = Usage()
        """Of all models, kept with each change: every edit asks for it, and a tenant may have
        many models."""
        self._lock = threading.RLock()

    def note(self, model: str, usage: Usage) -> None:
        """Take note of what a model stores now."""
        with self._lock:
            before = self._usages.get(model, Usage())
            self._usages[model] = usage
            self._total = Usage(
                labels=self._total.labels - before.labels + usage.labels,
                examples=self._total.examples - before.examples + usage.examples,
                bytes=self._total.bytes - before.bytes + usage.bytes,
            )

    def drop(self, model: str) -> None:
        """Take note that a model was deleted."""
        with self._lock:
            self.note(model, Usage())
            del self._usages[model]

    def take(self, model: str, added: Usage) -> None:
        """Count more for a model until it is noted again, or refuse."""
        with self._lock:
            self.check(added)
            self.note(model, add_usages((self._usages.get(model, Usage()), added)))

    def check(self, added_usage: Usage) -> None:
        """Refuse to store so much more."""
        with self._lock:
            total = self._total
        for what, stored, added, allowed in zip(
            Usage._fields, total, added_usage, self.limit, strict=True
        ):
            if allowed and added and stored + added > allowed:
                raise QuotaReached(
                    f"This tenant stores {stored:,} {what} and may store {allowed:,}; "
                    f"this adds {added:,}. Forget some, or delete models or lists."
                )

    def is_much(self, added_usage: Usage) -> bool:
        """Return whether this is too much to stay an estimate until a model is next measured."""
        return any(
            allowed and _COARSE * added > allowed
            for added, allowed in zip(added_usage, self.limit, strict=True)
        )


def measure_usage(model: Learner | None, snapshot: int, log: int) -> tuple[Usage, int]:
    """Return what a model holds, and how many bytes a label takes in its sketch.

    `snapshot` and `log` are the bytes of the model's snapshot and of its log.
    """
    labels = 0
    examples = 0
    label_bytes = 0
    if model is not None:
        state: AnyState = model.state
        counts = state.label_counts  # made on first use
        labels = len(counts)
        examples = state.n_examples
        sketch = sketch_of(state.memory)
        if sketch is not None:
            rows = sketch_rows(sketch, len(state.memory.sites.positions))
            label_bytes = column_bytes(rows, int(counts.max(initial=1)))
    table = labels * label_bytes
    size = MODEL_BYTES + table + snapshot + log + _IN_MEMORY * (max(0, snapshot - table) + log)
    return Usage(labels, examples, size), label_bytes


def column_bytes(rows: int, largest: int = 1) -> int:
    """Return the bytes of a column of counts as narrow as the largest allows, a quarter spare."""
    return rows * int(np.min_scalar_type(largest).itemsize) * 5 // 4


def list_bytes(size: int, items: int) -> int:
    """Return what a named list holds: its file, and its items in memory."""
    return 2 * size + _LIST_ITEM_BYTES * items


def count_needed(content: Content, size: int, model: Learner | None, label_bytes: int) -> Usage:
    """Return what an edit adds: labels that are new to the model, examples, and bytes.

    `size` are the bytes of the edit, and a new label takes `label_bytes`.
    """
    content = _take_learned(content)
    if not content.kind.startswith("learn"):
        return Usage()
    labels: list[Any] = content.labels if isinstance(content, LoggedRows) else []
    if isinstance(content, LoggedDocuments):
        labels = [token for document in content.documents for token in document]
    new = _new_labels(labels, model)
    return Usage(new, content.n_rows, new * label_bytes + (1 + _IN_MEMORY) * size)


def bound_needed(edits: Iterable[tuple[Content, int]], label_bytes: int) -> Usage:
    """Return what edits add at most, if every example has a new label: this takes no time."""
    n_rows = 0
    size_of_all = 0
    for content, size in edits:
        learned = _take_learned(content)
        if learned.kind.startswith("learn"):
            n_rows += learned.n_rows
            size_of_all += size
    return Usage(n_rows, n_rows, n_rows * label_bytes + (1 + _IN_MEMORY) * size_of_all)


def _take_learned(content: Content) -> Content:
    """Return what an edit learns, of one that forgets and learns; any other edit as it is."""
    return content.learnt if isinstance(content, LoggedChange) else content


def _new_labels(labels: list[Any], model: Learner | None) -> int:
    try:
        named = Vocabulary.of(labels)
    except (TypeError, ValueError, OverflowError):  # the model will refuse them, and say why
        return 0
    if model is None:
        return len(named)
    state: AnyState = model.state
    return state.task.counting.count_new_labels(state.memory, named)
