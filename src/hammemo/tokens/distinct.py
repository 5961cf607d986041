"""Distinct examples in the order of their hashes: a function of the multiset of examples, not of how it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo.tokens.hashing import fold, key_words, mix, vocabulary_hashes
from hammemo.tokens.vocabulary import factorize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.streams import Block
    from hammemo.tokens.vocabulary import Vocabulary


def example_words(examples: Examples, seed: int) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each example: of its tokens, position by position, and its label."""
    tokens = _token_words(examples.contexts.vocabulary, seed)
    labels = vocabulary_hashes(examples.labels, seed)[examples.label_ranks]
    words = np.full(len(examples), np.uint64(key_words(seed, "example")[0]))
    for column in examples.contexts.ranks.T:  # one after the other: a table may be wide
        words = mix(words ^ tokens[column])
    return mix(words ^ labels)


def window_words(block: Block, labels: Vocabulary | None, seed: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the targets of a block, those with one of these labels, and `example_words` of their windows.

    No window is made for it: each token is hashed once.
    """
    vocabulary, ranks = factorize(block.tokens)
    words, places = _token_words(vocabulary, seed)[ranks], block.targets()
    if labels is not None:
        places = places[(labels.find(vocabulary) >= 0)[ranks[places]]]
    columns = [words[places + r] for r in range(-block.h, 1)]
    return places, fold(columns, key_words(seed, "example")[0])


def _token_words(vocabulary: Vocabulary, seed: int) -> NDArray[np.uint64]:
    """Return the hashes of tokens and, at the end, where rank -1 reads it, that of an empty position."""
    return np.append(vocabulary_hashes(vocabulary, seed), np.uint64(key_words(seed, "empty position")[0]))


def distinct_examples(examples: Examples, seed: int) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
    """Return a row of each distinct example (context and label), its hash, and how often it occurs; lowest hash first.

    Shapes
    ------
    returned : (d,), (d,), (d,)

    Examples
    --------
    >>> from hammemo.tokens.contexts import Examples
    >>> from hammemo.tokens.distinct import distinct_examples
    >>> rows, _, counts = distinct_examples(Examples.of([["a"], ["b"], ["a"]], ["x", "y", "x"]), seed=0)
    >>> dict(sorted(zip(rows.tolist(), counts.tolist(), strict=True)))
    {0: 2, 1: 1}
    """
    if not len(examples):
        return np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.int64)
    words = example_words(examples, seed)
    order = np.argsort(words, kind="stable")
    firsts = np.flatnonzero(np.append(True, words[order][1:] != words[order][:-1]))
    counts = np.add.reduceat(examples.multiplicity[order], firsts)
    return order[firsts], words[order][firsts], counts
