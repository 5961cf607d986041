"""A uniform sample of rows that come batch by batch, in space that does not grow with their number.

Every row draws a random number, and those with the smallest numbers are kept, in the order in which they came: so every
set of that many rows is equally likely, and fewer rows are kept whole. How the rows are cut into batches changes
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.tokens.contexts import joined

if TYPE_CHECKING:
    from numpy.typing import NDArray


class UniformSample:
    """The rows that are kept, as columns: arrays of the same length, such as contexts and labels.

    Parameters
    ----------
    most : int
        How many rows are kept.
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.sampling import UniformSample
    >>> sample = UniformSample(3, seed=0)
    >>> for batch in (np.arange(5), np.arange(5, 9)):
    ...     sample.add(sample.draw(len(batch)), batch)
    >>> len(sample), len(sample.columns[0])
    (3, 3)
    """

    def __init__(self, most: int, seed: int) -> None:
        self._most = most
        self._rng = np.random.Generator(np.random.Philox(seed % 2**64))
        self._numbers = np.empty(0)
        self.columns: tuple[NDArray[Any], ...] = ()

    def __len__(self) -> int:
        return len(self._numbers)

    def draw(self, n: int) -> NDArray[np.float64]:
        """Return the numbers of n more rows, which `add` takes with them."""
        return self._rng.random(n)

    def may_stay(self, numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return for which of these numbers a row could be kept; the other rows need not be made."""
        full = len(self) == self._most
        return numbers < self._numbers.max() if full and len(self) else np.full(len(numbers), not full)

    def add(self, numbers: NDArray[np.float64], *columns: NDArray[Any]) -> None:
        """Take rows with their numbers, and let go of those that have larger numbers than enough others."""
        numbers = np.append(self._numbers, numbers)
        if self.columns:
            columns = tuple(joined([held, more]) for held, more in zip(self.columns, columns, strict=True))
        if len(numbers) > self._most:
            kept = np.sort(np.argpartition(numbers, self._most)[: self._most])
            numbers, columns = numbers[kept], tuple(column[kept] for column in columns)
        self._numbers, self.columns = numbers, columns
