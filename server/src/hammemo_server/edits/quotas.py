"""How much a tenant may store: labels, examples and bytes, over all its models.

The writer of a model asks before it applies what is learnt, so an edit that was applied before is acknowledged again
also where the quota is reached. What is forgotten is never refused.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from hammemo.tokens.vocabulary import Vocabulary
from hammemo_server.edits.operations import LoggedChange, LoggedDocuments, LoggedRows, QuotaReached

if TYPE_CHECKING:
    from hammemo.models.classifiers import MemoryClassifier
    from hammemo_server.edits.limits import Limits
    from hammemo_server.edits.operations import Content


class Usage(NamedTuple):
    """What a model, or all models of a tenant, store; of a quota, 0 is any number."""

    labels: int = 0
    examples: int = 0
    bytes: int = 0
    """Of the newest snapshot and of the log."""

    def with_more(self, other: Usage) -> Usage:
        """Return both together."""
        return Usage(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def most_of(limits: Limits) -> Usage:
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
    >>> quota.take("trees", Usage(examples=1))
    Traceback (most recent call last):
    ...
    hammemo_server.edits.operations.QuotaReached: This tenant stores 10 examples and may store 10; this adds 1. Forget some.
    """  # noqa: E501

    def __init__(self, most: Usage) -> None:
        self.most = most
        self._used: dict[str, Usage] = {}
        self._lock = threading.Lock()

    def note(self, model: str, usage: Usage) -> None:
        """Take note of what a model stores now."""
        with self._lock:
            self._used[model] = usage

    def drop(self, model: str) -> None:
        """Take note that a model was deleted."""
        with self._lock:
            self._used.pop(model, None)

    def take(self, model: str, more: Usage) -> None:
        """Count more for a model until it is noted again, or refuse."""
        with self._lock:
            self._check(more)
            self._used[model] = self._used.get(model, Usage()).with_more(more)

    def check(self, more: Usage) -> None:
        """Refuse what is too much."""
        with self._lock:
            self._check(more)

    def _check(self, more: Usage) -> None:
        used = Usage()
        for usage in self._used.values():
            used = used.with_more(usage)
        for what, now, added, most in zip(Usage._fields, used, more, self.most, strict=True):
            if most and added and now + added > most:
                raise QuotaReached(
                    f"This tenant stores {now:,} {what} and may store {most:,}; this adds {added:,}. Forget some."
                )


def needed_by(content: Content, size: int, model: MemoryClassifier | None) -> Usage:
    """Return what an edit adds at most: labels that the model has not, examples, and bytes of the log."""
    if isinstance(content, LoggedChange):
        content = content.learnt
    if isinstance(content, LoggedRows) and content.kind == "learn":
        labels: list[Any] = content.labels
    elif isinstance(content, LoggedDocuments) and content.learns:
        labels = [token for document in content.documents for token in document]
    else:
        return Usage()
    return Usage(_new_labels(labels, model), content.n_rows, size)


def _new_labels(labels: list[Any], model: MemoryClassifier | None) -> int:
    try:
        named = Vocabulary.of(labels)
    except (TypeError, ValueError, OverflowError):  # the model will refuse them, and say why
        return 0
    return len(named) if model is None else int((model.memory_.labels.find(named) < 0).sum())
