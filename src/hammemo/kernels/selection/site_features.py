r"""Log-ratios of chosen sites as features of rows, as tables by cell.

Log-ratios come from counts of copies: they are what a log-linear vote would read, before
anything is stored. With :math:`n_c` of the n training copies that hold the same at the site as
the row having label c, the prior :math:`p_c = (N_c + \frac12) / \sum_b (N_b + \frac12)` and an
amount of smoothing a,

.. math:: x_c = \log\Bigl(1 + \frac{n_c}{a \, p_c}\Bigr) - \log\Bigl(1 + \frac{n}{a}\Bigr),

as in :mod:`hammemo.memories.row_rules`. A training copy is left out of its own counts. No array
of features is made: a log-ratio depends only on the cell that a row lies in and on the row's own
label, so compiled code (``src/native/selection/log_ratios.hpp``) holds tables by cell.

Scores have one column a label. With two labels they have one in all, label 1 less label 0, and
probabilities are those of label 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo import _native
from hammemo._arrays.logarithms import log
from hammemo._versions import cached_property

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo.kernels.selection.copies import Copies
    from hammemo.kernels.sites import Site

SMOOTHING: Final = (0.3, 3.0, 30.0)
"""Amounts of smoothing, in pseudo-examples: each site has one log-ratio for each of them."""

LEAST_LIKELY: Final = 1e-3
"""Labels of a row that are less likely are left out of curvatures, and so is a row whose other
labels are together less likely: they hardly change the step, and cost most."""


class SiteRatios:
    """Copies of examples: the first n are counted, the others are for testing.

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

    @property
    def n_labels(self) -> int:
        """How many labels there are."""
        return self.copies.n_labels

    @cached_property
    def scan(self) -> _native.SiteScan:
        """The compiled tables of the copies."""
        return _native.SiteScan(
            codes=np.ascontiguousarray(self.copies.codes.T, np.int32),
            sizes=self.copies.sizes.astype(np.int32),
            labels=self.copies.labels.astype(np.int32),
            prior=self.prior,
            amounts=np.array(SMOOTHING),
            n=self.n,
        )

    @property
    def test_rows(self) -> Ints:
        """The copies that are not counted."""
        return np.arange(self.n, len(self.copies))

    def labels(self, rows: Ints) -> Ints:
        """Return the label ranks of some copies."""
        return self.copies.labels[rows]


def make_features(
    ratios: SiteRatios, rows: Ints, sites: Sequence[Site] = (), *, leave_one_out: bool
) -> Features:
    """Return the features of some copies, at some sites."""
    features = Features(ratios, rows, leave_one_out=leave_one_out)
    for site in sites:
        features.add(site)
    return features


class Features:
    """Features of two labels or more.

    Parameters
    ----------
    ratios : SiteRatios
    rows : ndarray of int64
        The copies.
    leave_one_out : bool
        Whether each is left out of its own counts.
    """

    def __init__(self, ratios: SiteRatios, rows: Ints, *, leave_one_out: bool) -> None:
        self.ratios = ratios
        self.rows = rows
        self.labels = ratios.labels(rows)
        self.base = log(ratios.prior)
        self.n_columns = 1 if ratios.n_labels == 2 else ratios.n_labels
        self._rows = rows.astype(np.int32)
        self.tables = _native.LogRatios.of_scan(ratios.scan, self._rows, leave_one_out)

    def add(self, site: Site) -> None:
        """Add the features of a site."""
        self.tables.add(self.ratios.scan, np.array(site, np.int32), self._rows)

    def scores(self, weights: Floats) -> Floats:
        """Return the sum of the first features with these weights, without the prior.

        Shapes
        ------
        weights : (F,); returned : (m, columns)
        """
        scores = np.empty((len(self.rows), self.n_columns))
        self.tables.scores(np.ascontiguousarray(weights[:, None]), scores)
        return scores

    def softmax(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities with the prior, and the loss of each row.

        Shapes
        ------
        scores : (m, columns); returned : (m, columns), (m,)
        """
        return self._softmax(np.ascontiguousarray(scores), self.base)

    def sum_rows(
        self, probabilities: Floats, n_features: int, *, first: int, last: int
    ) -> tuple[Floats, Floats]:
        """Return the gradient and the curvature of the rows from `first` to `last`.

        Shapes
        ------
        probabilities : (m, columns); returned : (F,), (F, F)
        """
        gradient = np.empty(n_features)
        curvature = np.empty((n_features, n_features))
        self.tables.sums(
            probabilities=np.ascontiguousarray(probabilities),
            n_sites=n_features // len(SMOOTHING),
            first=first,
            last=last,
            least=LEAST_LIKELY,
            gradient=gradient,
            curvature=curvature,
        )
        return gradient, curvature

    def predict_own_labels(self, weights: Floats, offsets: Floats) -> tuple[Floats, Bools]:
        """Return the probability of each row's own label, and whether none is more likely.

        Each label has weights of its own, for the first sites.

        Shapes
        ------
        weights : (F, L); offsets : (L,); returned : (m,), (m,)
        """
        scores = np.empty((len(self.rows), self.n_columns))
        self.tables.scores(np.ascontiguousarray(weights), scores)
        probabilities, _ = self._softmax(scores, self.base + offsets)
        own_probabilities = self.select_own(probabilities)
        if self.n_columns == 1:
            return own_probabilities, own_probabilities >= 0.5
        return own_probabilities, own_probabilities >= probabilities.max(axis=1)

    def select_own(self, probabilities: Floats) -> Floats:
        """Return the probability of each row's own label."""
        if self.n_columns == 1:
            of_second = probabilities[:, 0]
            return np.asarray(np.where(self.labels == 1, of_second, 1 - of_second))
        return np.asarray(probabilities[np.arange(len(self.labels)), self.labels])

    def _softmax(self, scores: Floats, base: Floats) -> tuple[Floats, Floats]:
        probabilities = np.empty(scores.shape)
        losses = np.empty(len(scores))
        self.tables.softmax(scores, base, probabilities, losses)
        return probabilities, losses
