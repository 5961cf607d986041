"""Distinct examples in the order of their hashes: the same for one multiset in every order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hammemo._arrays.integers import pieces
from hammemo.tokens.hashing import fold, key_words, mix, vocabulary_hashes
from hammemo.tokens.vocabulary import Vocabulary, factorize

if TYPE_CHECKING:
    from hammemo._arrays.types import Bools, Ints, Words
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.stream_blocks import Block


def example_words(examples: Examples, seed: int) -> Words:
    """Return a 64-bit hash of each example: of its tokens, position by position, and its label."""
    tokens = token_words(examples.contexts.vocabulary, seed)
    labels = vocabulary_hashes(examples.labels, seed)
    words = np.full(len(examples), np.uint64(key_words(seed, "example")[0]))
    for piece in pieces(len(examples), 2**13):  # few rows at a time: they stay in the cache
        piece_words = words[piece]
        for column in examples.contexts.ranks[piece].T:
            piece_words = mix(piece_words ^ tokens[column])
        words[piece] = mix(piece_words ^ labels[examples.label_ranks[piece]])
    return words


def window_words(block: Block, labels: Vocabulary | None, seed: int) -> tuple[Ints, Words]:
    """Return the targets of a block with one of these labels, and `example_words` of their windows.

    No windows are made for it, and each token is hashed once.
    """
    vocabulary, ranks = factorize(block.tokens)
    words = token_words(vocabulary, seed)[ranks]
    places = block.targets()
    if labels is not None:
        places = places[(labels.find(vocabulary) >= 0)[ranks[places]]]
    columns = [words[places + r] for r in range(-block.h, 1)]
    return places, fold(columns, key_words(seed, "example")[0])


def token_words(vocabulary: Vocabulary, seed: int) -> Words:
    """Return the hashes of tokens and that of an empty position at the end, where rank -1 reads."""
    empty_word = np.uint64(key_words(seed, "empty position")[0])
    return np.append(vocabulary_hashes(vocabulary, seed), empty_word)


class ExampleCounts(NamedTuple):
    """Distinct examples, contexts with their labels, by ascending hashes.

    Shapes
    ------
    rows, words, counts : (d,)
    """

    rows: Ints
    """The place of one example of each."""
    words: Words
    """Their hashes."""
    counts: Ints
    """How often each occurs."""


def distinct_examples(examples: Examples, seed: int) -> ExampleCounts:
    """Return the distinct examples of a batch, and how often each occurs.

    Examples
    --------
    >>> from hammemo.tokens.contexts import Examples
    >>> from hammemo.tokens.distinct import distinct_examples
    >>> examples = Examples.of([["a"], ["b"], ["a"]], ["x", "y", "x"])
    >>> rows, _, counts = distinct_examples(examples, seed=0)
    >>> dict(sorted(zip(rows.tolist(), counts.tolist(), strict=True)))
    {0: 2, 1: 1}
    """
    words = example_words(examples, seed)
    order, firsts = distinct_order(examples.contexts.ranks, examples.label_ranks, words)
    counts = np.empty(0, np.int64)
    if len(firsts):
        counts = np.add.reduceat(examples.multiplicity[order], firsts)
    return ExampleCounts(order[firsts], words[order][firsts], counts)


def distinct_order(ranks: Ints, label_ranks: Ints, words: Words) -> tuple[Ints, Ints]:
    """Return the order of examples by hash, and where in it each distinct one stands first.

    Different examples with equal hashes stay apart, in the order of their tokens and labels: tokens
    can be made that have the hash of others.

    Shapes
    ------
    ranks : (n, h); label_ranks, words : (n,); returned : (n,), (d,)
    """
    order = np.argsort(words, kind="stable")
    places, differ = _find_equal_hashes(ranks, label_ranks, words, order)
    if differ.any():
        order = np.lexsort((label_ranks, *ranks.T[::-1], words))
        places, differ = _find_equal_hashes(ranks, label_ranks, words, order)
    is_first = np.ones(len(words), bool)
    is_first[places + 1] = differ
    return order, np.flatnonzero(is_first)


def _find_equal_hashes(
    ranks: Ints, label_ranks: Ints, words: Words, order: Ints
) -> tuple[Ints, Bools]:
    """Return the places whose next example has the same hash, and at which of these it differs."""
    places = np.flatnonzero(words[order][1:] == words[order][:-1])
    first = order[places]
    second = order[places + 1]
    differ = (ranks[first] != ranks[second]).any(axis=1)
    return places, differ | (label_ranks[first] != label_ranks[second])
