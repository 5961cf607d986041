"""The score test of many candidate sites against the same scores: compiled, or by NumPy, its twin.

:mod:`hammemo.kernels.selection.shared_weights` has the mathematics. The compiled scan (``src/native/selection``) needs
no array of features: a log-ratio depends only on the cell that a row lies in and on the row's own label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.native import native
from hammemo.kernels.selection.shared_weights import centred_sums, promises, softmax
from hammemo.kernels.selection.site_ratios import SMOOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo.kernels.selection.site_ratios import SiteRatios
    from hammemo.kernels.sites import Site

Sums = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


class ScoreTests:
    """Tests sites on some of the training copies.

    Parameters
    ----------
    ratios : SiteRatios
    rows : ndarray of int64
        The training copies that are tested; all of them are counted.
    """

    def __init__(self, ratios: SiteRatios, rows: NDArray[np.int64]) -> None:
        self._ratios, self._rows = ratios, rows
        loops = native()
        self._scan = None
        if loops is not None and ratios.n_labels > 1:
            copies, n = ratios.copies, ratios.n
            codes = np.ascontiguousarray(copies.codes[:n].T, np.int32)
            labels = np.ascontiguousarray(copies.labels[:n], np.int32)
            self._scan = loops.SiteScan(codes, copies.sizes.astype(np.int32), labels, ratios.prior, np.array(SMOOTHING))

    def promises(self, sites: Sequence[Site], scores: NDArray[np.float64]) -> Sums:
        """Return what each site promises to take off the loss, in nats, and the step that does so.

        Shapes
        ------
        scores : (rows, L); returned : (sites,), (sites, J)
        """
        probabilities = softmax(scores)
        return promises(*(self.sums if self._scan is None else self.compiled_sums)(sites, probabilities))

    def compiled_sums(self, sites: Sequence[Site], probabilities: NDArray[np.float64]) -> Sums:
        """Return gradients and curvatures by the compiled scan.

        Shapes
        ------
        probabilities : (rows, L); returned : (sites, J), (sites, J, J)
        """
        assert self._scan is not None
        columns = np.full((len(sites), max(map(len, sites), default=1)), -1, np.int32)
        for row, site in zip(columns, sites, strict=True):
            row[: len(site)] = site
        n_amounts = len(SMOOTHING)
        gradients, curvatures = np.empty((len(sites), n_amounts)), np.empty((len(sites), n_amounts, n_amounts))
        self._scan.sums(
            columns, self._rows.astype(np.int32), np.ascontiguousarray(probabilities), gradients, curvatures
        )
        return gradients, curvatures

    def sums(self, sites: Sequence[Site], probabilities: NDArray[np.float64]) -> Sums:
        """Return the same by NumPy, from arrays of features."""
        single = probabilities.astype(np.float32)
        observed = np.zeros(single.shape, np.float32)
        observed[np.arange(len(single)), self._ratios.labels(self._rows)] = 1
        parts = [
            centred_sums(self._ratios.of(site, self._rows, leave_one_out=True), single, observed) for site in sites
        ]
        n_amounts = len(SMOOTHING)
        gradients = np.array([gradient for gradient, _ in parts], np.float64).reshape(-1, n_amounts)
        curvatures = np.array([curvature for _, curvature in parts], np.float64)
        return gradients, curvatures.reshape(-1, n_amounts, n_amounts)
