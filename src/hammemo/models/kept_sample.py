"""A sample of the examples that the state keeps, so that a vote can be fitted again without data.

Kept is every distinct example (context and label) whose hash lies below a threshold, with how often it is stored
(:mod:`hammemo.models.kept`).

**It holds the examples themselves**, tokens and labels: whoever has the model can read them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import narrow, object_array
from hammemo.memories.errors import never_stored
from hammemo.memories.ledgered import Ledger
from hammemo.models.kept import EVERYTHING, Kept, highest_threshold
from hammemo.tokens.contexts import MAX_EXAMPLES, Examples
from hammemo.tokens.distinct import example_words, window_words
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.tokens.streams import Block

KEPT: Final = 50_000
"""How many distinct examples are kept at most where the vote does not say."""

Example = tuple[Any, ...]
"""The tokens of a context, `NO_TOKEN` where there is none, and then the label."""


@dataclass(frozen=True, eq=False)
class KeptSample(Kept):
    """Examples with hashes below a threshold, and how often each is stored: a value that never changes.

    Parameters
    ----------
    h : int
        Tokens of a context.
    seed : int
        What the hash depends on.
    most : int
        How many distinct examples are kept at most.
    threshold : int
    ledger : Ledger
        How often each example is stored.

    Examples
    --------
    >>> from hammemo.models.kept_sample import KeptSample
    >>> from hammemo.tokens.contexts import Examples
    >>> two = Examples.of([["a", "b"], ["c", "b"]], ["x", "y"])
    >>> sample = KeptSample(h=2, seed=0, most=100).changed(two, 1).changed(two, 1)
    >>> len(sample), sample.examples().multiplicity.tolist(), len(sample.changed(two, -1).changed(two, -1))
    (2, [2, 2], 0)
    """

    ledger: Ledger[Example] = field(default_factory=Ledger)

    def changed(self, examples: Examples, sign: int) -> KeptSample:
        """Return the sample with these examples learnt or, with sign -1, forgotten."""
        if self.threshold == EVERYTHING and len(examples) <= self.most:
            return self._with_examples(_keys(examples, np.arange(len(examples))), sign)
        words = example_words(examples, self.seed)
        sample = self._with_room_for(words) if sign > 0 else self
        return sample._with_examples(_keys(examples, np.flatnonzero(sample._are_low(words))), sign)

    def plus(self, other: KeptSample, sign: int) -> KeptSample | None:
        """Return the sample of both or, with sign -1, without the other's; None where the other tells too little."""
        if other.h != self.h or (other.seed != self.seed and other.threshold < EVERYTHING):
            return None
        mine = self._below(min(self.threshold, other.threshold) if other.seed == self.seed else self.threshold)
        theirs = replace(other, seed=self.seed, most=self.most)._below(mine.threshold)
        return mine._with_examples(theirs.ledger.counts(), sign)

    def with_windows(self, block: Block, labels: Vocabulary | None) -> KeptSample:
        """Return the sample with the windows of a block learnt; with `labels`, those that have one of them."""
        places, words = window_words(block, labels, self.seed)
        sample = self._with_room_for(words)
        places = places[sample._are_low(words)]
        examples = Examples.of(block.contexts(places), block.tokens[places])
        return sample._with_examples(_keys(examples, np.arange(len(examples))), 1)

    def examples(self) -> Examples:
        """Return what is kept, in an order that depends on nothing but what it is."""
        counts = self.ledger.counts()
        return _examples(_sorted(counts), counts, self.h)

    def _with_examples(self, entries: Mapping[Example, int], sign: int) -> KeptSample:
        sample = self._with(entries, sign)
        if sample is None:
            raise never_stored()
        return sample

    def _with_room_for(self, words: NDArray[np.uint64]) -> KeptSample:
        """Return the sample with its threshold low enough for many examples that come at once, before any is taken."""
        if len(words) <= self.most:
            return self
        distinct = np.unique(words[self._are_low(words)])
        return self._below(highest_threshold(distinct, np.ones(len(distinct), np.int64), self.most))

    def _words(self, keys: Sequence[Example]) -> NDArray[np.uint64]:
        if not keys:
            return np.empty(0, np.uint64)
        return example_words(_examples(list(keys), dict.fromkeys(keys, 1), self.h), self.seed)

    @staticmethod
    def _size(key: Example) -> int:  # noqa: ARG004
        return 1

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what is kept as canonical arrays."""
        examples = self.examples()
        return {
            **{f"tokens.{name}": array for name, array in examples.contexts.vocabulary.arrays().items()},
            **{f"labels.{name}": array for name, array in examples.labels.arrays().items()},
            "ranks": narrow(examples.contexts.ranks + 1),  # 0 stands for no token
            "label_ranks": narrow(examples.label_ranks),
            "counts": narrow(examples.multiplicity),
        }

    def restored(self, stored: StoredArrays) -> KeptSample:
        """Return the sample of this layout with these arrays, checked: undo `state`."""
        tokens, labels = Vocabulary.from_arrays(stored.part("tokens")), Vocabulary.from_arrays(stored.part("labels"))
        counts = stored.whole_numbers("counts", (None,), least=1, below=MAX_EXAMPLES)
        ranks = stored.whole_numbers("ranks", (len(counts), self.h), below=len(tokens) + 1)
        label_ranks = stored.whole_numbers("label_ranks", (len(counts),), below=len(labels))
        named = [*tokens.tolist(), NO_TOKEN]  # 0 - 1 reads the last entry
        names = labels.tolist()
        rows, columns = (ranks.astype(np.int64) - 1).tolist(), label_ranks.tolist()
        keys = [(*(named[r] for r in row), names[c]) for row, c in zip(rows, columns, strict=True)]
        sample = self._holding(dict(zip(keys, counts.tolist(), strict=True)))
        again = sample.state()
        given = {"ranks": ranks, "label_ranks": label_ranks, "counts": counts}
        canonical = len(sample) == len(keys) and all(np.array_equal(again[name], given[name]) for name in given)
        if not canonical or not sample._are_low(sample._words(keys)).all():
            raise ValueError("the kept examples are not in canonical order, or their hashes are above the threshold")
        return sample


def _keys(examples: Examples, rows: NDArray[np.int64]) -> Counter[Example]:
    """Return how often each of some examples occurs."""
    tokens = [*examples.contexts.vocabulary.tolist(), NO_TOKEN]  # rank -1 reads the last entry
    labels = examples.labels.tolist()
    contexts = examples.contexts.ranks[rows].tolist()
    found: Counter[Example] = Counter()
    for context, label, count in zip(
        contexts, examples.label_ranks[rows].tolist(), examples.multiplicity[rows].tolist(), strict=True
    ):
        found[(*(tokens[rank] for rank in context), labels[label])] += count
    return found


def _sorted(keys: Iterable[Example]) -> list[Example]:
    """Return examples in canonical order: numbers before strings, position by position."""
    return sorted(keys, key=lambda key: tuple((isinstance(token, str), token) for token in key))


def _examples(keys: list[Example], counts: Mapping[Example, int], h: int) -> Examples:
    X = object_array(token for key in keys for token in key[:-1]).reshape(len(keys), h)
    y = object_array(key[-1] for key in keys)
    multiplicity = np.fromiter((counts[key] for key in keys), np.int64, len(keys))
    return Examples.of(X, y, multiplicity)
