"""Tests many sites against the same scores: what each promises to take off the loss.

:mod:`hammemo.kernels.selection.shared_weights` has the mathematics; compiled code
(``src/native/selection``) sums over rows.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Final

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
    rows : ndarray of int64
        The training copies that are tested; all of them are counted.
    """

    def __init__(self, ratios: SiteRatios, rows: Ints) -> None:
        self._ratios = ratios
        self._rows = rows

    def test(self, sites: Sequence[Site], probabilities: Floats) -> tuple[Floats, Floats]:
        """Return what each site promises to take off the loss, in nats, and the step that does so.

        Shapes
        ------
        probabilities : (rows, columns), as of `Features`; returned : (sites,), (sites, J)
        """
        gradients, curvatures = self.sum_rows(sites, probabilities)
        return compute_promises(gradients, curvatures)

    def sum_rows(self, sites: Sequence[Site], probabilities: Floats) -> tuple[Floats, Floats]:
        """Return gradients and curvatures.

        Shapes
        ------
        probabilities : (rows, columns); returned : (sites, J), (sites, J, J)
        """
        order, arranged = _arrange_by_shared_columns(sites)
        columns = np.full((len(sites), max(map(len, sites), default=1)), -1, np.int32)
        for row, site in zip(columns, arranged, strict=True):
            row[: len(site)] = site
        n_amounts = len(SMOOTHING)
        gradients = np.empty((len(sites), n_amounts))
        curvatures = np.empty((len(sites), n_amounts, n_amounts))
        rows = self._rows.astype(np.int32)
        contiguous = np.ascontiguousarray(probabilities)
        scan = self._ratios.scan

        def sum_piece(piece: slice) -> None:
            scan.sums(
                sites=columns[piece],
                rows=rows,
                probabilities=contiguous,
                gradients=gradients[piece],
                curvatures=curvatures[piece],
            )

        in_threads(sum_piece, thread_pieces(len(sites), _PIECE_SITES))
        places = np.argsort(order)
        return gradients[places], curvatures[places]


def _arrange_by_shared_columns(sites: Sequence[Site]) -> tuple[Ints, list[Site]]:
    """Return sites in another order, and where each was.

    Those that share all columns but the last follow one another, because the examples are sorted
    once for these. Which column comes last depends on all sites, so sums do not depend on how the
    sites are divided among threads.
    """
    if all(len(site) <= 2 for site in sites):
        order = sorted(range(len(sites)), key=sites.__getitem__)
        return np.array(order, np.int64), [sites[k] for k in order]

    # How many sites share each tuple of all columns but one.
    shared: Counter[Site] = Counter()
    for site in sites:
        if len(site) > 2:
            shared.update(combinations(site, len(site) - 1))

    def put_last(site: Site) -> Site:
        """Return a site with the column last that the most others differ in."""
        if len(site) <= 2:
            return site
        k = max(range(len(site)), key=lambda k: (shared[site[:k] + site[k + 1 :]], k))
        others = site[:k] + site[k + 1 :]
        return (*others, site[k])

    arranged = [put_last(site) for site in sites]
    order = sorted(range(len(sites)), key=arranged.__getitem__)
    return np.array(order, np.int64), [arranged[k] for k in order]
