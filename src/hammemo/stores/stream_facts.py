"""What a stream is: the facts by which a model of documents is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo.votes.choosing import MAX_OWN_WEIGHT_LABELS

if TYPE_CHECKING:
    from hammemo._arrays.types import Ints

SHORT_DOCUMENT: Final = 64
"""Documents of fewer tokens on average are sessions, cases or purchases: their order says less than what is in them."""

FEW_REPEATS: Final = 0.05
"""Documents are item histories, too, where a smaller share of tokens has occurred before in its document."""

_JUDGED_TOKENS: Final = 2**20


@dataclass(frozen=True)
class StreamFacts:
    """What the first block of a stream, or the labels given, tell of it."""

    n_labels: int
    mean_length: float
    repeats: float
    """The share of tokens that have occurred before in their document."""

    @property
    def are_items(self) -> bool:
        """Whether documents are clicks or purchases, not text."""
        return self.mean_length < SHORT_DOCUMENT or self.repeats < FEW_REPEATS

    @property
    def has_many_labels(self) -> bool:
        """Whether there are too many labels for weights of their own."""
        return self.n_labels > MAX_OWN_WEIGHT_LABELS


def repeated_share(codes: Ints, lengths: Ints) -> float:
    """Return the share of tokens that occur before in their document, among the first million tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.stores.stream_facts import repeated_share
    >>> repeated_share(np.array([4, 7, 4, 4]), np.array([3, 1]))
    0.25
    """
    owners = np.repeat(np.arange(len(lengths)), lengths)[:_JUDGED_TOKENS]
    keys = owners * (int(codes.max(initial=0)) + 2) + codes[: len(owners)]
    return 1 - len(np.unique(keys)) / max(len(keys), 1)
