"""Rows like those of clicks on advertisements, drawn block by block from a seed.

They are in memory, or a source for engines.

The table has twenty columns of whole numbers that are names, with 2 to 1,000,000 values each, drawn
by Zipf's law. The log-odds of a click are the sum of a constant, of an effect of the value of each
column and of an effect of the two values of each of six pairs of columns; the constant is such that
about 2 % of the rows are clicks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from hammemo.sources.listing import File
from hammemo.sources.read_tables import BATCH_ROWS, Batch, TableFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hammemo.sources.listing import Shard

COLUMNS = 20
PAIRS = 6
BASE = -5.15
"""The constant of the log-odds: about 2 % of the rows become clicks."""
COLUMN_EFFECT = 0.25
PAIR_EFFECT = 0.7
"""Standard deviations of the effects of single values and of pairs of values."""
ZIPF = 1.05
BLOCK = 250_000
"""Rows that are drawn from one random generator: a larger table begins with the rows of a smaller
one.
"""


class ClickTable(NamedTuple):
    """Rows, and how they were clicked on."""

    columns: NDArray[np.int64]
    """(n, 20)"""
    labels: NDArray[np.int8]
    probabilities: NDArray[np.float64]
    """The probability of a click of each row."""


@dataclass(frozen=True, eq=False)
class Clicks:
    """A table that is drawn block by block.

    Parameters
    ----------
    seed : int
    """

    seed: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many values each column has: 2 to 1,000,000."""
        return np.geomspace(2, 10**6, COLUMNS).round().astype(np.int64)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of columns that matter.

        They are drawn from those of 3 to 1,000 values, which small tables can learn.
        """
        middle = [j for j, size in enumerate(self.sizes) if 3 <= size <= 1000]
        every = list(combinations(middle, 2))
        drawn = np.random.default_rng([self.seed, 1]).choice(len(every), PAIRS, replace=False)
        return sorted(every[i] for i in drawn)

    def rows(self, n: int, *, test: bool = False) -> ClickTable:
        """Return n rows."""
        blocks = [self.block(number, test=test) for number in range(-(-n // BLOCK))]
        table, labels, probabilities = (
            np.concatenate(parts)[:n] for parts in zip(*blocks, strict=True)
        )
        return ClickTable(table, labels, probabilities)

    def block(self, number: int, *, test: bool = False) -> ClickTable:
        """Return one block of rows."""
        rng = np.random.default_rng([self.seed, 2, int(test), number])
        table = np.empty((BLOCK, COLUMNS), np.int64)
        for j, size in enumerate(self.sizes):
            shares = np.arange(1, size + 1) ** -ZIPF
            table[:, j] = np.searchsorted(shares.cumsum() / shares.sum(), rng.random(BLOCK))
        odds = np.full(BLOCK, BASE)
        for j in range(COLUMNS):
            odds += COLUMN_EFFECT * self._effect(table[:, j], j)
        for i, j in self.pairs:
            odds += PAIR_EFFECT * self._effect(
                table[:, i] * 2**20 + table[:, j], 100 + i * COLUMNS + j
            )
        probabilities = expit(odds)
        labels = (rng.random(BLOCK) < probabilities).astype(np.int8)
        return ClickTable(table, labels, probabilities)

    def _effect(self, values: NDArray[np.int64], of: int) -> NDArray[np.float64]:
        """Return a normal number for each value, the same wherever the value is met.

        It is a hash, turned into a number.
        """
        word = (values.astype(np.uint64) + np.uint64((self.seed * 1000 + of) << 44)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            word = (word ^ (word >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray(ndtri(((word >> np.uint64(12)) + 0.5) / 2.0**52))


LABEL = "click"


@dataclass(frozen=True)
class ClickFiles(TableFiles):
    """The same rows as a source that engines read.

    Each block is a file that is made whenever it is read.

    Parameters
    ----------
    seed, rows : int
    """

    seed: int = 0
    rows: int = 0

    def batches(
        self,
        shard: Shard,
        columns: Sequence[str] | None = None,  # noqa: ARG002  all are made
    ) -> Iterator[Batch]:
        """Yield the rows of a block, some at a time."""
        number = int(shard.file.path)
        table, labels, _ = Clicks(self.seed).block(number)
        stop = min(BLOCK, self.rows - number * BLOCK)
        names = (*(f"c{j}" for j in range(COLUMNS)), LABEL)
        for first in range(0, stop, BATCH_ROWS):
            part = slice(first, min(first + BATCH_ROWS, stop))
            values = (*table[part].T, labels[part].astype(np.int64))
            yield Batch(
                names,
                values,
                np.arange(part.start, part.stop),
                where=f"block {number}",
                unit="row",
            )


def click_files(seed: int, rows: int) -> ClickFiles:
    """Return a source of so many rows."""
    size = BLOCK * (COLUMNS + 1) * 8
    files = tuple(File("", f"{number:06d}", size) for number in range(-(-rows // BLOCK)))
    return ClickFiles(files, "clicks", seed=seed, rows=rows)
