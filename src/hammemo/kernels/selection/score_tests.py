"""Tests many sites against the same scores: what each promises to take off the loss.

:mod:`hammemo.kernels.selection.shared_weights` has the mathematics; compiled code
(``src/native/selection``) sums over rows.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo._arrays.threads import in_threads, thread_pieces
from hammemo.kernels.selection.shared_weights import compute_promises
from hammemo.kernels.selection.site_features import SMOOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Floats, Ints
    from hammemo.kernels.selection.site_features import SiteRatios
    from hammemo.kernels.sites import Site

_PIECE_SITES: Final = 4
"""Sites that a thread tests at a time, at least."""


class ScoreTests:
    """Tests sites on some of the training copies.

    Parameters
    ----------
    ratios : SiteRatios
        The log-ratios of sites, from the counts of all training copies.
    rows : ndarray of int64
        The training copies on which sites are tested, by their places.
    """

    def __init__(self, ratios: SiteRatios, rows: Ints) -> None:
        self._ratios = ratios
        self._rows = rows

    def test(self, sites: Sequence[Site], probabilities: Floats) -> tuple[Floats, Floats]:
        """Return what each site promises to take off the loss, in nats, and the step that does so.

        Shapes
        ------
        probabilities : (rows, columns), as of `Features`; returned : (sites,), (sites, J) with one
        of J steps for each amount of smoothing
        """
        gradients, curvatures = self.sum_rows(sites, probabilities)
        return compute_promises(gradients, curvatures)

    def sum_rows(self, sites: Sequence[Site], probabilities: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the curvature of the loss for each site, summed over the rows.

        A site has J features: one log-ratio for each amount of smoothing.

        Shapes
        ------
        probabilities : (rows, columns); returned : (sites, J), (sites, J, J)
        """
        arranged = _arrange_by_shared_columns(sites)
        # One row for each site, filled up with -1.
        site_columns = np.full((len(sites), max(map(len, sites), default=1)), -1, np.int32)
        for row, site in zip(site_columns, arranged.sites, strict=True):
            row[: len(site)] = site
        n_features = len(SMOOTHING)
        gradients = np.empty((len(sites), n_features))
        curvatures = np.empty((len(sites), n_features, n_features))
        rows = self._rows.astype(np.int32)
        contiguous = np.ascontiguousarray(probabilities)
        scan = self._ratios.scan

        def sum_piece(piece: slice) -> None:
            scan.sums(
                sites=site_columns[piece],
                rows=rows,
                probabilities=contiguous,
                gradients=gradients[piece],
                curvatures=curvatures[piece],
            )

        in_threads(sum_piece, thread_pieces(len(sites), _PIECE_SITES))
        # The argsort of a permutation is its inverse: it leads back to the order of `sites`.
        arranged_places = np.argsort(arranged.original_places)
        return gradients[arranged_places], curvatures[arranged_places]


class ArrangedSites(NamedTuple):
    """Sites in an order, and with columns in an order, that is fast to test."""

    original_places: Ints
    """Where each site was before."""

    sites: list[Site]


def _arrange_by_shared_columns(sites: Sequence[Site]) -> ArrangedSites:
    """Return sites in an order in which many follow one with the same columns but the last.

    The examples are sorted by the other columns once for all of these. Which column of a site comes
    last depends on all sites, and not on how they are divided among threads: sums of floats depend
    on it, and must be the same for any number of threads.
    """
    arranged = list(sites)
    # Sites of one or two columns stay as they are.
    if any(len(site) > 2 for site in sites):
        # How many sites have each tuple of all columns but one.
        shared: Counter[Site] = Counter()
        for site in sites:
            if len(site) > 2:
                shared.update(combinations(site, len(site) - 1))
        arranged = [_put_most_varied_last(site, shared) for site in sites]
    order = sorted(range(len(sites)), key=arranged.__getitem__)
    return ArrangedSites(np.array(order, np.int64), [arranged[k] for k in order])


def _put_most_varied_last(site: Site, shared: Counter[Site]) -> Site:
    """Return a site with that column last without which the most sites have all its others.

    Among equals it is the last one.
    """
    if len(site) <= 2:
        return site

    def without(k: int) -> Site:
        return site[:k] + site[k + 1 :]

    last = max(range(len(site)), key=lambda k: (shared[without(k)], k))
    return (*without(last), site[last])
