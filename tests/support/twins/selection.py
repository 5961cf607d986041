"""The choice of sites with log-ratios as arrays: the twins of ``src/native/selection``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hammemo._arrays.integers import unique_ranks
from hammemo.kernels.selection.site_features import LEAST_LIKELY, SMOOTHING, Features

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo.kernels.selection.score_tests import ScoreTests
    from hammemo.kernels.selection.site_features import SiteRatios
    from hammemo.kernels.sites import Site

_BLOCK = 2**20
"""Features times rows times labels that are centred at a time."""


def log_ratios(
    ratios: SiteRatios, site: Site, rows: Ints, *, leave_one_out: bool, complete: bool = False
) -> NDArray[np.float32]:
    """Return the log-ratios of some copies at a site.

    Without `complete` the second logarithm is left out: it is one number a row, which no softmax
    sees as long as all labels have the same weights.

    Shapes
    ------
    rows : (m,); returned : (J, m, L)
    """
    table = _count_labels(ratios, site)
    keys = table.rows[rows]
    labels = ratios.labels(rows)
    every_row = np.arange(len(rows))
    own_counts = table.counts[keys, labels] - int(leave_one_out)
    out = np.empty((len(SMOOTHING), len(rows), ratios.n_labels), np.float32)
    counts = table.counts[keys].astype(np.float32)
    for j, amount in enumerate(SMOOTHING):
        scale = (1 / (amount * ratios.prior)).astype(np.float32)
        out[j] = np.log1p(counts * scale)
        out[j, every_row, labels] = np.log1p(own_counts * scale[labels])
        if complete:
            totals = table.counts.sum(axis=1)[keys] - int(leave_one_out)
            out[j] -= np.log1p(totals / amount).astype(np.float32)[:, None]
    is_empty = (ratios.copies.codes[rows][:, list(site)] < 0).any(axis=1)
    out[:, is_empty] = 0  # a site with an empty position says nothing
    return out


def matrix(
    ratios: SiteRatios, sites: list[Site], rows: Ints, *, leave_one_out: bool
) -> NDArray[np.float32]:
    """Return the complete log-ratios of several sites, as :mod:`hammemo.votes.fitting` takes them.

    Shapes
    ------
    rows : (m,); returned : (L, m, S * J)
    """
    n_amounts = len(SMOOTHING)
    out = np.empty((ratios.n_labels, len(rows), len(sites) * n_amounts), np.float32)
    for i, site in enumerate(sites):
        site_ratios = log_ratios(ratios, site, rows, leave_one_out=leave_one_out, complete=True)
        out[:, :, i * n_amounts : (i + 1) * n_amounts] = site_ratios.transpose(2, 1, 0)
    return out


class _LabelTable(NamedTuple):
    """What a site holds, counted by label over training copies."""

    rows: Ints
    """The row of the table that each copy reads: shape (all copies,)."""
    counts: Ints
    """Shape (rows of the table, L)."""


def _count_labels(ratios: SiteRatios, site: Site) -> _LabelTable:
    """Count labels by what a site holds.

    The tokens at the site's positions are the digits of a number. It is replaced by its rank where
    it could exceed the number of copies, so that the table stays small.
    """
    rows = np.zeros(len(ratios.copies), np.int64)
    size = 1
    for position in site:
        if size > ratios.n:
            rows, size = _rank(rows, size)
        codes = ratios.copies.codes[:, position]
        gap = int((codes < 0).any())  # an empty position has code -1
        width = int(ratios.copies.sizes[position]) + gap
        rows = rows * width + (codes + gap)
        size = size * width
    if size > ratios.n:
        rows, size = _rank(rows, size)
    cells = rows[: ratios.n] * ratios.n_labels + ratios.copies.labels[: ratios.n]
    counts = np.bincount(cells, minlength=size * ratios.n_labels)
    return _LabelTable(rows, counts.reshape(size, ratios.n_labels))


def _rank(keys: Ints, size: int) -> tuple[Ints, int]:
    """Return the ranks of keys among distinct ones, and how many of these there are."""
    distinct, ranks = unique_ranks(keys, size)
    return ranks, len(distinct)


def make_features(
    ratios: SiteRatios, rows: Ints, sites: Sequence[Site] = (), *, leave_one_out: bool
) -> PlainFeatures:
    """Return the features of some copies."""
    features = PlainFeatures(ratios, rows, leave_one_out=leave_one_out)
    for site in sites:
        features.add(site)
    return features


class PlainFeatures(Features):
    """Arrays of features in place of tables by cell."""

    least = LEAST_LIKELY
    """Labels that are less likely are left out of curvatures."""

    def __init__(self, ratios: SiteRatios, rows: Ints, *, leave_one_out: bool) -> None:
        super().__init__(ratios, rows, leave_one_out=leave_one_out)
        self.leave_one_out = leave_one_out
        self.sites: list[Site] = []
        self.site_ratios: list[NDArray[np.float32]] = []

    def add(self, site: Site) -> None:
        """Add the features of a site."""
        ratios = log_ratios(self.ratios, site, self.rows, leave_one_out=self.leave_one_out)
        if self.n_columns == 1:  # of two labels, one column with the difference is enough
            ratios = ratios[:, :, 1:] - ratios[:, :, :1]
        self.sites.append(site)
        self.site_ratios.append(ratios)

    def scores(self, weights: Floats) -> Floats:
        """Return the sum of the first features with these weights."""
        out = np.zeros((len(self.rows), self.n_columns))
        weights_by_site = weights.reshape(-1, len(SMOOTHING))
        for site_weights, ratios in zip(weights_by_site, self.site_ratios, strict=False):
            out += np.tensordot(site_weights, ratios, 1)
        return out

    def softmax(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities with the prior, and the loss of each row."""
        columns = scores
        if self.n_columns == 1:
            columns = np.hstack([np.zeros_like(scores), scores])
        columns = columns + self.base
        odds = np.exp(columns - columns.max(axis=1, keepdims=True))
        probabilities = odds / odds.sum(axis=1, keepdims=True)
        losses = -np.log(probabilities[np.arange(len(scores)), self.labels] + 1e-300)
        if self.n_columns == 1:
            probabilities = probabilities[:, 1:]
        return probabilities, losses

    def sum_rows(
        self, probabilities: Floats, n_features: int, *, first: int, last: int
    ) -> tuple[Floats, Floats]:
        """Return the gradient and the curvature of the rows from `first` to `last`."""
        site_ratios = self.site_ratios[: n_features // len(SMOOTHING)]
        gradient = np.zeros(n_features)
        curvature = np.zeros((n_features, n_features))
        block = max(1, _BLOCK // max(1, n_features * self.n_columns))
        for start in range(first, last, block):
            rows = slice(start, min(start + block, last))
            block_gradient, block_curvature = sum_centred(
                np.concatenate([ratios[:, rows] for ratios in site_ratios]),
                probabilities[rows].astype(np.float32),
                self.labels[rows],
                self.least,
            )
            gradient += block_gradient
            curvature += block_curvature
        return gradient, curvature

    def predict_own_labels(self, weights: Floats, offsets: Floats) -> tuple[Floats, Bools]:
        """Return the probability of each row's own label, and whether no label is more likely.

        Each label has weights of its own.
        """
        features = matrix(self.ratios, self.sites, self.rows, leave_one_out=self.leave_one_out)
        by_label = np.matmul(features, weights.T[:, :, None].astype(np.float32))[:, :, 0]
        scores = by_label.T + self.base + offsets
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        observed = odds[np.arange(len(odds)), self.labels]
        return observed / odds.sum(axis=1), observed >= odds.max(axis=1)


def sum_centred(
    features: NDArray[np.float32],
    probabilities: NDArray[np.float32],
    labels: Ints,
    least: float = 0.0,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the gradient and the curvature of some rows.

    With features x, one vector for each label l, and probabilities p, a row adds
    ``x_observed - sum_l p_l x_l`` to the gradient, and to the curvature ``sum_l p_l c_l c_l^T``
    with ``c_l = x_l - sum_k p_k x_k``. The curvature leaves out labels less likely than `least`,
    and rows whose own label is all but certain.

    Shapes
    ------
    features : (F, m, columns); probabilities : (m, columns); returned : (F,), (F, F)
    """
    if probabilities.shape[1] == 1:
        return _sum_two_labels(features[:, :, 0], probabilities[:, 0], labels, least)
    every_row = np.arange(len(labels))
    residuals = -probabilities
    residuals[every_row, labels] += 1
    means = np.einsum("fmc,mc->fm", features, probabilities)
    centred = (features - means[..., None]).reshape(len(features), -1)
    gradient = centred @ residuals.ravel()
    is_certain = probabilities[every_row, labels] > 1 - least
    is_left_out = (probabilities < least) | is_certain[:, None]
    centred *= np.sqrt(np.where(is_left_out, 0, probabilities)).ravel()
    return gradient, centred @ centred.T


def _sum_two_labels(
    features: NDArray[np.float32], p: NDArray[np.float32], labels: Ints, least: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Do what `sum_centred` does for two labels, p that of the second, in closed form.

    The curvature is ``sum p (1 - p) x x^T``.

    Shapes
    ------
    features : (F, m), differences of both labels; p : (m,)
    """
    is_second = labels == 1
    is_certain = np.where(is_second, 1 - p, p) < least
    weighted = features * np.sqrt(np.where(is_certain, 0, p * (1 - p)))
    return features @ (is_second - p), weighted @ weighted.T


def site_sums(
    tests: ScoreTests, sites: Sequence[Site], probabilities: Floats
) -> tuple[Floats, Floats]:
    """Do what `ScoreTests.sum_rows` does, from arrays of features."""
    ratios = tests._ratios
    rows = tests._rows
    n_amounts = len(SMOOTHING)
    gradients = np.empty((len(sites), n_amounts))
    curvatures = np.empty((len(sites), n_amounts, n_amounts))
    for i, site in enumerate(sites):
        features = PlainFeatures(ratios, rows, leave_one_out=True)
        features.least = 0  # the scan leaves out no label
        features.add(site)
        gradients[i], curvatures[i] = features.sum_rows(
            probabilities, n_amounts, first=0, last=len(rows)
        )
    return gradients, curvatures
