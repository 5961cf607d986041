"""The twins of the compiled choice of sites (``src/native/selection``): log-ratios as arrays of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

    Without `complete` the second logarithm is left out: it is one number a row, which no softmax sees as long as
    all labels have the same weights.

    Shapes
    ------
    rows : (m,); returned : (J, m, L)
    """
    keys, counts = _counts(ratios, site)
    keys, labels, every = keys[rows], ratios.labels(rows), np.arange(len(rows))
    own = counts[keys, labels] - int(leave_one_out)
    out = np.empty((len(SMOOTHING), len(rows), ratios.n_labels), np.float32)
    small = len(counts) < len(rows)  # fewer logarithms are taken of the table than of what the rows read
    table = (counts if small else counts.take(keys, axis=0)).astype(np.float32)
    for j, amount in enumerate(SMOOTHING):
        scale = (1 / (amount * ratios.prior)).astype(np.float32)
        if small:
            np.log1p(table * scale).take(keys, axis=0, out=out[j], mode="clip")  # "raise" would copy
        else:
            np.log1p(table * scale, out=out[j])
        out[j, every, labels] = np.log1p(own * scale[labels])
        if complete:
            totals = counts.sum(axis=1)[keys] - int(leave_one_out)
            out[j] -= np.log1p(totals / amount).astype(np.float32)[:, None]
    empty = (ratios.copies.codes[rows][:, list(site)] < 0).any(axis=1)
    out[:, empty] = 0  # a site with an empty position says nothing
    return out


def matrix(ratios: SiteRatios, sites: list[Site], rows: Ints, *, leave_one_out: bool) -> NDArray[np.float32]:
    """Return the complete log-ratios of several sites as :mod:`hammemo.votes.fitting` takes them: (L, m, S * J)."""
    n_amounts = len(SMOOTHING)
    out = np.empty((ratios.n_labels, len(rows), len(sites) * n_amounts), np.float32)
    for i, site in enumerate(sites):
        part = log_ratios(ratios, site, rows, leave_one_out=leave_one_out, complete=True)
        out[:, :, i * n_amounts : (i + 1) * n_amounts] = part.transpose(2, 1, 0)
    return out


def _counts(ratios: SiteRatios, site: Site) -> tuple[Ints, Ints]:
    """Return the row of each copy in a table of what the site holds, and the table, counted over training copies.

    Shapes
    ------
    returned : (all copies,), (rows of the table, L)
    """
    keys, size = np.zeros(len(ratios.copies), np.int64), 1
    for j in site:
        if size > ratios.n:
            keys, size = _numbered(keys, size)
        gap = int((ratios.copies.codes[:, j] < 0).any())  # an empty position has code -1
        width = int(ratios.copies.sizes[j]) + gap
        keys, size = keys * width + (ratios.copies.codes[:, j] + gap), size * width
    if size > ratios.n:
        keys, size = _numbered(keys, size)
    cells = keys[: ratios.n] * ratios.n_labels + ratios.copies.labels[: ratios.n]
    return keys, np.bincount(cells, minlength=size * ratios.n_labels).reshape(size, ratios.n_labels)


def _numbered(keys: Ints, size: int) -> tuple[Ints, int]:
    distinct, ranks = unique_ranks(keys, size)
    return ranks, len(distinct)


def make_features(ratios: SiteRatios, rows: Ints, sites: Sequence[Site] = (), *, leave_one_out: bool) -> PlainFeatures:
    """Return the features of some copies."""
    made = PlainFeatures(ratios, rows, leave_one_out=leave_one_out)
    for site in sites:
        made.add(site)
    return made


class PlainFeatures(Features):
    """Arrays of features in place of tables by cell."""

    least = LEAST_LIKELY
    """Labels that are less likely are left out of curvatures."""

    def __init__(self, ratios: SiteRatios, rows: Ints, *, leave_one_out: bool) -> None:
        super().__init__(ratios, rows, leave_one_out=leave_one_out)
        self.leave_one_out = leave_one_out
        self.sites: list[Site] = []
        self.parts: list[NDArray[np.float32]] = []

    def add(self, site: Site) -> None:
        """Add the features of a site."""
        part = log_ratios(self.ratios, site, self.rows, leave_one_out=self.leave_one_out)
        self.sites.append(site)
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

    def sum_rows(self, probabilities: Floats, n_features: int, *, first: int, last: int) -> tuple[Floats, Floats]:
        """Return the gradient and the curvature of the rows from `first` to `last`."""
        gradient, curvature = np.zeros(n_features), np.zeros((n_features, n_features))
        block = max(1, _BLOCK // max(1, n_features * self.n_columns))
        for start in range(first, last, block):
            rows = slice(start, min(start + block, last))
            x = np.concatenate([part[:, rows] for part in self.parts[: n_features // len(SMOOTHING)]])
            found = centred_sums(x, probabilities[rows].astype(np.float32), self.labels[rows], self.least)
            gradient += found[0]
            curvature += found[1]
        return gradient, curvature

    def predict_own_labels(self, weights: Floats, offsets: Floats) -> tuple[Floats, Bools]:
        """Return the probability of each row's own label by weights of each label, and whether none is more likely."""
        x = matrix(self.ratios, self.sites, self.rows, leave_one_out=self.leave_one_out)
        scores = np.matmul(x, weights.T[:, :, None].astype(np.float32))[:, :, 0].T + self.base + offsets
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        observed = odds[np.arange(len(odds)), self.labels]
        return observed / odds.sum(axis=1), observed >= odds.max(axis=1)


def centred_sums(
    features: NDArray[np.float32], probabilities: NDArray[np.float32], labels: Ints, least: float = 0.0
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the gradient and the curvature of some rows.

    Shapes
    ------
    features : (F, m, columns); probabilities : (m, columns); returned : (F,), (F, F)
    """
    flat, n_columns = features.reshape(len(features), -1), probabilities.shape[1]
    if n_columns == 1:
        p = probabilities[:, 0]
        sure = np.where(labels == 1, 1 - p, p) < least
        weighted = flat * np.sqrt(np.where(sure, 0, p * (1 - p)))
        return flat @ ((labels == 1) - p), weighted @ weighted.T
    residuals = -probabilities
    residuals[np.arange(len(labels)), labels] += 1
    means = np.einsum("fmc,mc->fm", features, probabilities)
    centred = (features - means[..., None]).reshape(len(features), -1)
    gradient = centred @ residuals.ravel()
    sure = probabilities[np.arange(len(labels)), labels] > 1 - least
    centred *= np.sqrt(np.where((probabilities < least) | sure[:, None], 0, probabilities)).ravel()
    return gradient, centred @ centred.T


def site_sums(tests: ScoreTests, sites: Sequence[Site], probabilities: Floats) -> tuple[Floats, Floats]:
    """Do what `ScoreTests.sum_rows` does, from arrays of features."""
    ratios, rows = tests._ratios, tests._rows
    parts = []
    for site in sites:
        features = PlainFeatures(ratios, rows, leave_one_out=True)
        features.least = 0  # the scan leaves out no label
        features.add(site)
        parts.append(features.sum_rows(probabilities, len(SMOOTHING), first=0, last=len(rows)))
    n_amounts = len(SMOOTHING)
    gradients = np.array([gradient for gradient, _ in parts], np.float64).reshape(-1, n_amounts)
    curvatures = np.array([curvature for _, curvature in parts], np.float64)
    return gradients, curvatures.reshape(-1, n_amounts, n_amounts)
