r"""Log-ratios of any site, from counts of copies: what a log-linear vote would read, before anything is stored.

With :math:`n_c` of the n training copies that hold what the site holds here having label c, the prior
:math:`p_c = (N_c + \frac12) / \sum_b (N_b + \frac12)` and an amount of smoothing a,

.. math:: x_c = \log\Bigl(1 + \frac{n_c}{a \, p_c}\Bigr) - \log\Bigl(1 + \frac{n}{a}\Bigr),

as in :mod:`hammemo.memories.row_rules`. A training copy is left out of its own counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.integers import unique_ranks
from hammemo._arrays.native import native
from hammemo._versions import cached_property

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._native import SiteScan
    from hammemo.kernels.selection.copies import Copies
    from hammemo.kernels.sites import Site

SMOOTHING = (0.3, 3.0, 30.0)
"""Amounts of smoothing, in pseudo-examples: each site has one log-ratio for each of them."""


class SiteRatios:
    """The first n copies are counted; the others are for testing.

    Parameters
    ----------
    copies : Copies
    n : int
        How many of them are for training.
    """

    def __init__(self, copies: Copies, n: int) -> None:
        self.copies = copies
        self.n = n
        counts = np.bincount(copies.labels[:n], minlength=copies.n_labels) + 0.5
        self.prior = counts / counts.sum()
        self._gaps: NDArray[np.bool_] = np.asarray((copies.codes < 0).any(axis=0))

    @property
    def n_labels(self) -> int:
        """How many labels there are."""
        return self.copies.n_labels

    @cached_property
    def scan(self) -> SiteScan:
        """The compiled tables of the copies."""
        loops = native()
        assert loops is not None
        codes = np.ascontiguousarray(self.copies.codes.T, np.int32)
        labels, sizes = self.copies.labels.astype(np.int32), self.copies.sizes.astype(np.int32)
        return loops.SiteScan(codes, sizes, labels, self.prior, np.array(SMOOTHING), self.n)

    @property
    def test_rows(self) -> NDArray[np.int64]:
        """The copies that are not counted."""
        return np.arange(self.n, len(self.copies))

    def labels(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the label ranks of some copies."""
        return self.copies.labels[rows]

    def of(
        self, site: Site, rows: NDArray[np.int64], *, leave_one_out: bool, complete: bool = False
    ) -> NDArray[np.float32]:
        """Return the log-ratios of some copies at a site.

        Without `complete` the second logarithm is left out: it is one number a row, which no softmax sees as long as
        all labels have the same weights.

        Shapes
        ------
        rows : (m,); returned : (J, m, L)
        """
        keys, counts = self._counts(site)
        keys, labels, every = keys[rows], self.labels(rows), np.arange(len(rows))
        own = counts[keys, labels] - int(leave_one_out)
        out = np.empty((len(SMOOTHING), len(rows), self.n_labels), np.float32)
        small = len(counts) < len(rows)  # fewer logarithms are taken of the table than of what the rows read
        table = (counts if small else counts.take(keys, axis=0)).astype(np.float32)
        for j, amount in enumerate(SMOOTHING):
            scale = (1 / (amount * self.prior)).astype(np.float32)
            if small:
                np.log1p(table * scale).take(keys, axis=0, out=out[j], mode="clip")  # "raise" would copy
            else:
                np.log1p(table * scale, out=out[j])
            out[j, every, labels] = np.log1p(own * scale[labels])
            if complete:
                totals = counts.sum(axis=1)[keys] - int(leave_one_out)
                out[j] -= np.log1p(totals / amount).astype(np.float32)[:, None]
        for j in site:
            if self._gaps[j]:  # a site with an empty position says nothing
                out[:, self.copies.codes[rows, j] < 0] = 0
        return out

    def matrix(self, sites: list[Site], rows: NDArray[np.int64], *, leave_one_out: bool) -> NDArray[np.float32]:
        """Return the complete log-ratios of several sites as :mod:`hammemo.votes.fitting` takes them: (L, m, S * J)."""
        n_amounts = len(SMOOTHING)
        out = np.empty((self.n_labels, len(rows), len(sites) * n_amounts), np.float32)
        for i, site in enumerate(sites):
            part = self.of(site, rows, leave_one_out=leave_one_out, complete=True)
            out[:, :, i * n_amounts : (i + 1) * n_amounts] = part.transpose(2, 1, 0)
        return out

    def _counts(self, site: Site) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the row of each copy in a table of what the site holds, and the table, counted over training copies.

        Shapes
        ------
        returned : (all copies,), (rows of the table, L)
        """
        keys, size = np.zeros(len(self.copies), np.int64), 1
        for j in site:
            if size > self.n:
                keys, size = _numbered(keys, size)
            gap = int(self._gaps[j])  # an empty position has code -1
            width = int(self.copies.sizes[j]) + gap
            keys, size = keys * width + (self.copies.codes[:, j] + gap), size * width
        if size > self.n:
            keys, size = _numbered(keys, size)
        cells = keys[: self.n] * self.n_labels + self.copies.labels[: self.n]
        return keys, np.bincount(cells, minlength=size * self.n_labels).reshape(size, self.n_labels)


def _numbered(keys: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], int]:
    distinct, ranks = unique_ranks(keys, size)
    return ranks, len(distinct)
