r"""What each site contributes to the score of each label, and how far that may be from the exact contribution.

The score of label c is a sum :math:`S_c = \beta_c + \sum_k s_{k,c}` over the sites k of a query. A memory that keeps
exact counts knows every :math:`s_{k,c}`. One that keeps bounds on the counts knows an interval that holds the exact
contribution for certain; intervals add up over sites. One with random codes knows a standard error, over the draw of
the codes; errors of different sites are not independent, so that of the sum is given besides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats


@dataclass(frozen=True, eq=False)
class SiteScores:
    """Contributions of S sites to K labels for m queries, and what is known of their error.

    Parameters
    ----------
    values : ndarray of shape (m, S, K)
        What each site adds to the score of each label.
    low, high : ndarray of shape (m, S, K), optional
        What the exact contribution is at least, and at most, for certain: equal where it is known.
    errors : ndarray of shape (m, S, K), optional
        Standard errors over the draw of random codes.
    total_errors : ndarray of shape (m, K), optional
        Standard errors of the sums over the sites.
    base : ndarray of shape (K,) or (m, K), optional
        The score where no site says anything; zero by default.
    parts : tuple of pairs (kind, positions), optional
        What each of the S rows stands for, where that is not the kernel's sites: the kind of a site without a position,
        empty for one with positions.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.memories.contributions import SiteScores
    >>> votes = SiteScores.exact(np.array([[[2.0, 0.0], [1.0, 3.0]]]))
    >>> votes.divided(np.array([1.0, 2.0])).totals()
    array([[3. , 1.5]])
    """

    values: Floats
    low: Floats | None = None
    high: Floats | None = None
    errors: Floats | None = None
    total_errors: Floats | None = None
    base: Floats | None = None
    parts: tuple[tuple[str, tuple[int, ...]], ...] | None = None

    def extended(self, added: Floats, base: Floats, parts: tuple[tuple[str, tuple[int, ...]], ...]) -> SiteScores:
        """Return these contributions, of known parts, and further exact ones behind them: (m, more, K), (m, K)."""
        assert self.parts is not None
        return replace(
            self,
            values=np.concatenate([self.values, added], axis=1),
            low=None if self.low is None else np.concatenate([self.low, added], axis=1),
            high=None if self.high is None else np.concatenate([self.high, added], axis=1),
            base=base + (0 if self.base is None else self.base),
            parts=(*self.parts, *parts),
        )

    @classmethod
    def exact(cls, values: Floats, base: Floats | None = None) -> SiteScores:
        """Return contributions that are known: the bounds are the values themselves."""
        return cls(values, values, values, base=base)

    def totals(self) -> Floats:
        """Return the scores: the base and the sum over sites, shape (m, K)."""
        sums = self.values.sum(axis=1)
        return np.asarray(sums if self.base is None else sums + self.base)

    def divided(self, divisor: float | Floats) -> SiteScores:
        """Return the same for scores that are divided by a positive number, or by one a label."""
        parts = ("values", "low", "high", "errors", "total_errors", "base")
        held = {name: getattr(self, name) for name in parts}
        return replace(self, **{name: part / divisor for name, part in held.items() if part is not None})
