r"""Log-ratios of chosen sites as features of rows: weighted sums of them, and what a fit of weights sums over rows.

Scores have one column a label. With two labels they have one in all, label 1 less label 0, and probabilities are those
of label 1. The compiled form (``src/native/selection/log_ratios.hpp``) holds tables by cell in place of features;
`PlainFeatures`, by NumPy, is its twin.

Log-ratios of any site, from counts of copies: what a log-linear vote would read, before anything is stored.

With :math:`n_c` of the n training copies that hold what the site holds here having label c, the prior
:math:`p_c = (N_c + \frac12) / \sum_b (N_b + \frac12)` and an amount of smoothing a,

.. math:: x_c = \log\Bigl(1 + \frac{n_c}{a \, p_c}\Bigr) - \log\Bigl(1 + \frac{n}{a}\Bigr),

as in :mod:`hammemo.memories.row_rules`. A training copy is left out of its own counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.integers import unique_ranks
from hammemo._arrays.logarithms import log
from hammemo._arrays.native import native
from hammemo._versions import cached_property

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Bools, Floats, Ints
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
        self._gaps: Bools = np.asarray((copies.codes < 0).any(axis=0))

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
    def test_rows(self) -> Ints:
        """The copies that are not counted."""
        return np.arange(self.n, len(self.copies))

    def labels(self, rows: Ints) -> Ints:
        """Return the label ranks of some copies."""
        return self.copies.labels[rows]

    def of(self, site: Site, rows: Ints, *, leave_one_out: bool, complete: bool = False) -> NDArray[np.float32]:
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

    def matrix(self, sites: list[Site], rows: Ints, *, leave_one_out: bool) -> NDArray[np.float32]:
        """Return the complete log-ratios of several sites as :mod:`hammemo.votes.fitting` takes them: (L, m, S * J)."""
        n_amounts = len(SMOOTHING)
        out = np.empty((self.n_labels, len(rows), len(sites) * n_amounts), np.float32)
        for i, site in enumerate(sites):
            part = self.of(site, rows, leave_one_out=leave_one_out, complete=True)
            out[:, :, i * n_amounts : (i + 1) * n_amounts] = part.transpose(2, 1, 0)
        return out

    def _counts(self, site: Site) -> tuple[Ints, Ints]:
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


def _numbered(keys: Ints, size: int) -> tuple[Ints, int]:
    distinct, ranks = unique_ranks(keys, size)
    return ranks, len(distinct)


LEAST_LIKELY = 1e-3
"""Labels of a row that are less likely are left out of curvatures, and so is a row whose other labels are together less
likely than this: they hardly change the step, and cost most."""
_BLOCK = 2**20
"""Features times rows times labels that are centred at a time."""


def features_of(ratios: SiteRatios, rows: Ints, sites: Sequence[Site] = (), *, leave_one_out: bool) -> Features:
    """Return the features of some copies: compiled, or by NumPy."""
    compiled = native() is not None and ratios.n_labels > 1
    made: Features = (CompiledFeatures if compiled else PlainFeatures)(ratios, rows, leave_one_out=leave_one_out)
    for site in sites:
        made.add(site)
    return made


class Features:
    """What both forms are.

    Parameters
    ----------
    ratios : SiteRatios
    rows : ndarray of int64
        The copies.
    leave_one_out : bool
        Whether each is left out of its own counts.
    """

    def __init__(self, ratios: SiteRatios, rows: Ints, *, leave_one_out: bool) -> None:
        self.ratios, self.rows, self.leave_one_out = ratios, rows, leave_one_out
        self.labels, self.base = ratios.labels(rows), log(ratios.prior)
        self.n_columns = 1 if ratios.n_labels == 2 else ratios.n_labels

    def add(self, site: Site) -> None:
        """Add the features of a site."""
        raise NotImplementedError

    def scores(self, weights: Floats) -> Floats:
        """Return the sum of the first features with these weights, without the prior.

        Shapes
        ------
        weights : (F,); returned : (m, columns)
        """
        raise NotImplementedError

    def softmax(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities with the prior, and the loss of each row.

        Shapes
        ------
        scores : (m, columns); returned : (m, columns), (m,)
        """
        raise NotImplementedError

    def sums(self, probabilities: Floats, n_features: int, first: int, last: int) -> tuple[Floats, Floats]:
        """Return the gradient and the curvature of the rows from `first` to `last`.

        Shapes
        ------
        probabilities : (m, columns); returned : (F,), (F, F)
        """
        raise NotImplementedError

    def observed_by_label(self, sites: list[Site], weights: Floats, offsets: Floats) -> tuple[Floats, Bools]:
        """Return the probability of each row's own label by weights of each label, and whether none is more likely.

        The weights are of the first sites.

        Shapes
        ------
        weights : (F, L); offsets : (L,); returned : (m,), (m,)
        """
        raise NotImplementedError

    def observed(self, probabilities: Floats) -> Floats:
        """Return the probability of each row's own label."""
        if self.n_columns == 1:
            return np.asarray(np.where(self.labels == 1, probabilities[:, 0], 1 - probabilities[:, 0]))
        return np.asarray(probabilities[np.arange(len(self.labels)), self.labels])


class CompiledFeatures(Features):
    """Tables by cell."""

    def __init__(self, ratios: SiteRatios, rows: Ints, *, leave_one_out: bool) -> None:
        super().__init__(ratios, rows, leave_one_out=leave_one_out)
        loops = native()
        assert loops is not None
        self._rows = rows.astype(np.int32)
        self.tables: Any = loops.LogRatios.of_scan(ratios.scan, self._rows, leave_one_out)

    def add(self, site: Site) -> None:
        """Add the features of a site."""
        self.tables.add(self.ratios.scan, np.array(site, np.int32), self._rows)

    def scores(self, weights: Floats) -> Floats:
        """Return the sum of the first features with these weights."""
        out = np.empty((len(self.rows), self.n_columns))
        self.tables.scores(np.ascontiguousarray(weights[:, None]), out)
        return out

    def softmax(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities with the prior, and the loss of each row."""
        probabilities, losses = np.empty(scores.shape), np.empty(len(scores))
        self.tables.softmax(np.ascontiguousarray(scores), self.base, probabilities, losses)
        return probabilities, losses

    def sums(self, probabilities: Floats, n_features: int, first: int, last: int) -> tuple[Floats, Floats]:
        """Return the gradient and the curvature of the rows from `first` to `last`."""
        gradient, curvature = np.empty(n_features), np.empty((n_features, n_features))
        n_sites = n_features // len(SMOOTHING)
        self.tables.sums(np.ascontiguousarray(probabilities), n_sites, first, last, LEAST_LIKELY, gradient, curvature)
        return gradient, curvature

    def observed_by_label(
        self,
        sites: list[Site],  # noqa: ARG002
        weights: Floats,
        offsets: Floats,
    ) -> tuple[Floats, Bools]:
        """Return the probability of each row's own label by weights of each label, and whether none is more likely."""
        scores, losses = np.empty((len(self.rows), self.n_columns)), np.empty(len(self.rows))
        self.tables.scores(np.ascontiguousarray(weights), scores)
        probabilities = np.empty(scores.shape)
        self.tables.softmax(scores, self.base + offsets, probabilities, losses)
        observed = self.observed(probabilities)
        return observed, observed >= (0.5 if self.n_columns == 1 else probabilities.max(axis=1))


class PlainFeatures(Features):
    """Arrays of features."""

    def __init__(self, ratios: SiteRatios, rows: Ints, *, leave_one_out: bool) -> None:
        super().__init__(ratios, rows, leave_one_out=leave_one_out)
        self.parts: list[NDArray[np.float32]] = []

    def add(self, site: Site) -> None:
        """Add the features of a site."""
        part = self.ratios.of(site, self.rows, leave_one_out=self.leave_one_out)
        self.parts.append(part[:, :, 1:] - part[:, :, :1] if self.n_columns == 1 else part)

    def scores(self, weights: Floats) -> Floats:
        """Return the sum of the first features with these weights."""
        out = np.zeros((len(self.rows), self.n_columns))
        for of_site, part in zip(weights.reshape(-1, len(SMOOTHING)), self.parts, strict=False):
            out += np.tensordot(of_site, part, 1)
        return out

    def softmax(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities with the prior, and the loss of each row."""
        columns = np.hstack([np.zeros_like(scores), scores]) if self.n_columns == 1 else scores
        odds = np.exp(columns + self.base - (columns + self.base).max(axis=1, keepdims=True))
        probabilities = odds / odds.sum(axis=1, keepdims=True)
        losses = -np.log(probabilities[np.arange(len(scores)), self.labels] + 1e-300)
        return probabilities[:, 1:] if self.n_columns == 1 else probabilities, losses

    def sums(self, probabilities: Floats, n_features: int, first: int, last: int) -> tuple[Floats, Floats]:
        """Return the gradient and the curvature of the rows from `first` to `last`."""
        gradient, curvature = np.zeros(n_features), np.zeros((n_features, n_features))
        block = max(1, _BLOCK // max(1, n_features * self.n_columns))
        for start in range(first, last, block):
            rows = slice(start, min(start + block, last))
            x = np.concatenate([part[:, rows] for part in self.parts[: n_features // len(SMOOTHING)]])
            found = centred_sums(x, probabilities[rows].astype(np.float32), self.labels[rows])
            gradient += found[0]
            curvature += found[1]
        return gradient, curvature

    def observed_by_label(self, sites: list[Site], weights: Floats, offsets: Floats) -> tuple[Floats, Bools]:
        """Return the probability of each row's own label by weights of each label, and whether none is more likely."""
        x = self.ratios.matrix(sites, self.rows, leave_one_out=self.leave_one_out)
        scores = np.matmul(x, weights.T[:, :, None].astype(np.float32))[:, :, 0].T + self.base + offsets
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        observed = odds[np.arange(len(odds)), self.labels]
        return observed / odds.sum(axis=1), observed >= odds.max(axis=1)


def centred_sums(
    features: NDArray[np.float32], probabilities: NDArray[np.float32], labels: Ints
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the gradient and the curvature of some rows.

    Shapes
    ------
    features : (F, m, columns); probabilities : (m, columns); returned : (F,), (F, F)
    """
    flat, n_columns = features.reshape(len(features), -1), probabilities.shape[1]
    if n_columns == 1:
        p = probabilities[:, 0]
        sure = np.where(labels == 1, 1 - p, p) < LEAST_LIKELY
        weighted = flat * np.sqrt(np.where(sure, 0, p * (1 - p)))
        return flat @ ((labels == 1) - p), weighted @ weighted.T
    residuals = -probabilities
    residuals[np.arange(len(labels)), labels] += 1
    means = np.einsum("fmc,mc->fm", features, probabilities)
    centred = (features - means[..., None]).reshape(len(features), -1)
    gradient = centred @ residuals.ravel()
    sure = probabilities[np.arange(len(labels)), labels] > 1 - LEAST_LIKELY
    centred *= np.sqrt(np.where((probabilities < LEAST_LIKELY) | sure[:, None], 0, probabilities)).ravel()
    return gradient, centred @ centred.T
