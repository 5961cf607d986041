"""The score test of many candidate sites against the same scores: compiled, or by NumPy, its twin.

:mod:`hammemo.kernels.selection.shared_weights` has the mathematics. The compiled scan (``src/native/selection``) needs
no array of features: a log-ratio depends only on the cell that a row lies in and on the row's own label.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.native import native
from hammemo._arrays.threads import in_threads, thread_pieces
from hammemo.kernels.selection.features import PlainFeatures
from hammemo.kernels.selection.shared_weights import promises
from hammemo.kernels.selection.site_ratios import SMOOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo.kernels.selection.site_ratios import SiteRatios
    from hammemo.kernels.sites import Site

_PIECE_SITES = 4
"""Sites that a thread tests at a time at least."""

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
        self.is_compiled = native() is not None and ratios.n_labels > 1

    def promises(self, sites: Sequence[Site], probabilities: NDArray[np.float64]) -> Sums:
        """Return what each site promises to take off the loss, in nats, and the step that does so.

        Shapes
        ------
        probabilities : (rows, columns), as of `Features`; returned : (sites,), (sites, J)
        """
        return promises(*(self.compiled_sums if self.is_compiled else self.sums)(sites, probabilities))

    def compiled_sums(self, sites: Sequence[Site], probabilities: NDArray[np.float64]) -> Sums:
        """Return gradients and curvatures by the compiled scan.

        Shapes
        ------
        probabilities : (rows, columns); returned : (sites, J), (sites, J, J)
        """
        order, arranged = _by_shared_columns(sites)
        columns = np.full((len(sites), max(map(len, sites), default=1)), -1, np.int32)
        for row, site in zip(columns, arranged, strict=True):
            row[: len(site)] = site
        n_amounts = len(SMOOTHING)
        gradients, curvatures = np.empty((len(sites), n_amounts)), np.empty((len(sites), n_amounts, n_amounts))
        rows, tested, scan = self._rows.astype(np.int32), np.ascontiguousarray(probabilities), self._ratios.scan
        in_threads(
            lambda part: scan.sums(columns[part], rows, tested, gradients[part], curvatures[part]),
            thread_pieces(len(sites), _PIECE_SITES),
        )
        places = np.argsort(order)
        return gradients[places], curvatures[places]

    def sums(self, sites: Sequence[Site], probabilities: NDArray[np.float64]) -> Sums:
        """Return the same by NumPy, from arrays of features."""
        parts = []
        for site in sites:
            features = PlainFeatures(self._ratios, self._rows, leave_one_out=True)
            features.add(site)
            parts.append(features.sums(probabilities, len(SMOOTHING), 0, len(self._rows)))
        n_amounts = len(SMOOTHING)
        gradients = np.array([gradient for gradient, _ in parts], np.float64).reshape(-1, n_amounts)
        curvatures = np.array([curvature for _, curvature in parts], np.float64)
        return gradients, curvatures.reshape(-1, n_amounts, n_amounts)


def _by_shared_columns(sites: Sequence[Site]) -> tuple[NDArray[np.int64], list[Site]]:
    """Return sites in another order, and where each was: those that share all columns but the last follow one another.

    The examples are sorted once for these. Which column comes last depends on all sites, so sums do not depend on how
    the sites are divided among threads.
    """
    if all(len(site) <= 2 for site in sites):
        order = sorted(range(len(sites)), key=sites.__getitem__)
        return np.array(order, np.int64), [sites[k] for k in order]
    shared = Counter(rest for site in sites if len(site) > 2 for rest in combinations(site, len(site) - 1))

    def with_last(site: Site) -> Site:
        if len(site) <= 2:
            return site
        left = max(range(len(site)), key=lambda k: (shared[site[:k] + site[k + 1 :]], k))
        return (*site[:left], *site[left + 1 :], site[left])

    arranged = [with_last(site) for site in sites]
    order = sorted(range(len(sites)), key=arranged.__getitem__)
    return np.array(order, np.int64), [arranged[k] for k in order]
