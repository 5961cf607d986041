"""Uniform samples of rows, and of windows, that pass by; their space is bounded.

Every row draws a random number, and the rows with the smallest numbers are kept, in the order in
which they came. So every set of that many rows is equally likely, a sample that is not full yet
holds all rows, and how rows are cut into batches changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo.tokens.contexts import Examples, join_tokens
from hammemo.tokens.vocabulary import Vocabulary, factorize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hammemo._arrays.types import Array, Bools, Floats
    from hammemo.tokens.stream_blocks import Block


class UniformSample:
    """A uniform sample of rows: `columns` are arrays of one length, such as contexts and labels.

    Parameters
    ----------
    capacity : int
        How many rows are kept.
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.window_samples import UniformSample
    >>> sample = UniformSample(3, seed=0)
    >>> for batch in (np.arange(5), np.arange(5, 9)):
    ...     sample.add(sample.draw(len(batch)), batch)
    >>> len(sample), len(sample.columns[0])
    (3, 3)
    """

    def __init__(self, capacity: int, seed: int) -> None:
        self._capacity = capacity
        self._rng = np.random.Generator(np.random.Philox(seed % 2**64))
        self._numbers = np.empty(0)
        self.columns: tuple[Array, ...] = ()

    def __len__(self) -> int:
        return len(self._numbers)

    def draw(self, n: int) -> Floats:
        """Return the random numbers of the next n rows, to be passed to `add` with the rows."""
        return self._rng.random(n)

    def may_stay(self, numbers: Floats) -> Bools:
        """Return for which numbers a row could be kept; rows of other numbers need not be made."""
        if len(self) < self._capacity:
            return np.ones(len(numbers), bool)
        return np.asarray(numbers < self._numbers.max(initial=-np.inf))

    def add(self, numbers: Floats, *columns: Array) -> None:
        """Add rows with their numbers, then drop the rows with the largest numbers."""
        numbers = np.append(self._numbers, numbers)
        if self.columns:
            pairs = zip(self.columns, columns, strict=True)
            columns = tuple(join_tokens([before, new]) for before, new in pairs)
        if len(numbers) > self._capacity:
            smallest = np.argpartition(numbers, self._capacity)[: self._capacity]
            rows = np.sort(smallest)  # in the order in which they came
            numbers = numbers[rows]
            columns = tuple(column[rows] for column in columns)
        self._numbers = numbers
        self.columns = columns


class WindowSample:
    """A uniform sample of the windows of the blocks that pass through it.

    Parameters
    ----------
    capacity : int
        How many windows are kept.
    seed : int
    labels : Vocabulary, optional
        Only windows whose target is one of these count.

    Examples
    --------
    >>> from hammemo.tokens.stream_blocks import stream_blocks
    >>> from hammemo.tokens.window_samples import WindowSample
    >>> sample = WindowSample(3, seed=0)
    >>> blocks = stream_blocks([list("abcdefgh")], h=2)
    >>> sum(len(block.targets()) for block in sample.through(blocks))
    6
    >>> len(sample.examples())
    3
    """

    def __init__(self, capacity: int, seed: int, labels: Vocabulary | None = None) -> None:
        self._labels = labels
        self._sample = UniformSample(capacity, seed)

    def __len__(self) -> int:
        return len(self._sample)

    def through(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks unchanged, and sample the windows of each."""
        for block in blocks:
            self._add_windows(block)
            yield block

    def examples(self) -> Examples:
        """Return the windows that were kept and their targets; there must have been one."""
        (windows,) = self._sample.columns  # contexts with their targets
        return Examples.of_arrays(windows[:, :-1], windows[:, -1])

    def _add_windows(self, block: Block) -> None:
        places = block.targets()
        numbers = self._sample.draw(len(places))
        may_stay = self._sample.may_stay(numbers)
        places = places[may_stay]
        numbers = numbers[may_stay]
        if self._labels is not None and len(places):
            tokens, ranks = factorize(block.tokens[places])
            is_counted = (self._labels.find(tokens) >= 0)[ranks]
            places = places[is_counted]
            numbers = numbers[is_counted]
        if len(places):
            windows = np.concatenate([block.contexts(places), block.tokens[places, None]], axis=1)
            self._sample.add(numbers, windows)
