r"""How far each component of a mixture is trusted: weights by component, and by what its row is like.

The weight of a row is :math:`\exp(\theta_{g,b}) \, (1 - s) / s`: g is the component (a site; for a site without a
position also the distance, from 1 to 6 and above), b the logarithm to base 2 of the row's total, and s the share of its
counts that is discounted: a row of many labels that occurred once says less than one of few labels. For a copy, b is
the number of tokens in the context, and there is no share.

*Modified discounts* are those of Chen and Goodman: with :math:`t_j` the entries of a table whose count is j, and
:math:`Y = t_1 / (t_1 + 2 t_2)`, an entry of count j loses :math:`D_j = j - (j + 1) Y t_{j+1} / t_j`, the last one for
all counts of 3 and more.

*Pruning*: what a site says may be said by others already. Sites are left out one by one, always the one whose absence
costs least likelihood, as long as all of it costs no more than is allowed. The weight of what is left out is
:math:`-\\infty`, and its rows are not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import minimize

from hammemo._versions import Cached, cached_property

if TYPE_CHECKING:
    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo.kernels.sites import Site, Sites

BUCKETS: Final = 16
MIN_SHARE: Final = 1e-3
"""What is discounted of a row counts as at least this share of it, and as at most all but this share."""

NEAREST: Final = 6
"""Tokens at this distance and further away share weights."""

PRIOR: Final = 0
"""The component of the labels' own shares."""


@dataclass(frozen=True)
class Components(Cached):
    """The numbers of the components: the prior, the sites, their continuations, the sites without a position."""

    sites: Sites
    continuation: bool

    def site(self, k: int) -> int:
        """Return the component of a site."""
        return 1 + k

    @cached_property
    def continued(self) -> tuple[tuple[int, int], ...]:
        """The suffixes that have one token more than another, and that other: -1 for no token at all.

        How many tokens came before the shorter suffix and a label is read from the rows of the longer one.
        """
        if not self.continuation:
            return ()
        places = {site: k for k, site in enumerate(self.sites.positions)}
        pairs: list[tuple[int, int]] = []
        shorter: Site = ()
        for length in range(1, self.sites.h + 1):  # one by one: a file may declare any h
            suffix = tuple(range(self.sites.h - length, self.sites.h))
            if suffix not in places:
                break
            pairs.append((places[suffix], places[shorter] if shorter else -1))
            shorter = suffix
        return tuple(pairs)

    def continuation_of(self, number: int) -> int:
        """Return the component of one of `continued`."""
        return 1 + len(self.sites.positions) + number

    @cached_property
    def _firsts(self) -> list[int]:
        first = self.continuation_of(len(self.continued))
        steps = [1 if site.kind == "recent" else NEAREST for site in self.sites.free]
        return [first + sum(steps[:k]) for k in range(len(steps) + 1)]

    def free(self, k: int, distances: Ints | int = 1) -> Ints:
        """Return the component of a site without a position, for tokens at these distances."""
        return np.asarray(self._firsts[k] + np.minimum(distances, NEAREST) - 1)

    @property
    def n(self) -> int:
        """How many there are."""
        return self._firsts[-1]

    @cached_property
    def groups(self) -> Ints:
        """What is kept or left out together, by component: a site at all of its distances; -1 for the prior."""
        first = self._firsts[0]
        free = np.repeat(np.arange(len(self.sites.free)), np.diff(self._firsts))
        return np.concatenate([np.arange(-1, first - 1), first - 1 + free])

    @property
    def group_names(self) -> list[str]:
        """What these groups are called: sites by their distances from the end, free ones by kind and reach."""
        h = self.sites.h

        def placed(site: Site) -> str:
            return "(" + ", ".join(str(position - h) for position in site) + ")"

        longer = [f"continuations of {placed(self.sites.positions[k])}" for k, _ in self.continued]
        return [
            *map(placed, self.sites.positions),
            *longer,
            *(site.name for site in self.sites.free),
        ]

    def continuation_table(self, number: int) -> int:
        """Return the number of the table of one of `continued`; those of the sites come before."""
        return len(self.sites.positions) + number

    def free_table(self, number: int) -> int:
        """Return the number of the table of one of the free sites that have one."""
        return self.continuation_table(len(self.continued)) + number

    @property
    def n_tables(self) -> int:
        """How many tables have discounts of their own: sites, continuations, free sites with a table."""
        return self.free_table(len(self.sites.free_with_table))


def row_buckets(totals: Ints) -> Ints:
    """Return the bucket of rows with these totals."""
    sizes = (
        np.frexp(np.maximum(totals, 1).astype(np.float64))[1] - 1
    )  # the exact logarithm, rounded down
    return np.asarray(np.minimum(sizes, BUCKETS - 1), np.int64)


def row_odds(totals: Ints, discounted: Floats) -> Floats:
    """Return what is kept over what is discounted of rows with these totals."""
    share = np.clip(discounted / np.maximum(totals, 1), MIN_SHARE, 1 - MIN_SHARE)
    return np.asarray((1 - share) / share)


def modified_discounts(entry_counts: Ints) -> Floats:
    """Return what entries of counts 0, 1, 2 and 3 or more lose; nothing where that cannot be told.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.votes.mixture.gates import modified_discounts
    >>> modified_discounts(np.repeat([1, 2, 3, 4, 9], [50, 20, 10, 5, 3])).round(2)
    array([0.  , 0.56, 1.17, 1.89])
    """
    return discounts_of(np.bincount(np.minimum(entry_counts, 5), minlength=6))


def discounts_of(times: Ints) -> Floats:
    """Return the discounts of a table with this many entries of each count from 0 to 4."""
    times = times[1:5].astype(np.float64)
    if not times.all():
        return np.zeros(4)
    share = times[0] / (times[0] + 2 * times[1])
    lost = [j - (j + 1) * share * times[j] / times[j - 1] for j in (1, 2, 3)]
    return np.asarray(np.clip([0.0, *lost], 0.0, [0.0, 0.99, 1.99, 2.99]))


@dataclass(frozen=True, eq=False)
class Terms:
    """What components say of the label of each example: the terms of its likelihood.

    Parameters
    ----------
    examples, components, buckets : ndarray of int64, shape (t,)
    shares : ndarray of float64, shape (t,)
        The probability that the component gives the example's label.
    odds : ndarray of float64, shape (t,)
        What its weight is multiplied by.
    """

    examples: Ints
    components: Ints
    buckets: Ints
    shares: Floats
    odds: Floats

    @classmethod
    def joined(cls, parts: list[Terms]) -> Terms:
        """Return the terms of several."""
        names = ("examples", "components", "buckets", "shares", "odds")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def only(self, chosen: Bools) -> Terms:
        """Return these terms of all."""
        names = ("examples", "components", "buckets", "shares", "odds")
        return Terms(*(getattr(self, name)[chosen] for name in names))

    @property
    def gates(self) -> Ints:
        """The place of each term's weight."""
        return self.components * BUCKETS + self.buckets


def probabilities(terms: Terms, weights: Floats, m: int) -> Floats:
    """Return the probability of the label of each of m examples; `weights` are the logarithms."""
    trust = np.exp(weights.ravel()[terms.gates]) * terms.odds
    total = np.bincount(terms.examples, trust, minlength=m)
    return np.asarray(np.bincount(terms.examples, trust * terms.shares, minlength=m) / total)


def fit_gates(
    terms: Terms,
    multiplicity: Ints,
    n_components: int,
    ridge: float,
    steps: int,
    start: Floats | None = None,
) -> Floats:
    """Return the weights with the highest likelihood, less `ridge` times the sum of their squares.

    Shapes
    ------
    start, returned : (n_components, BUCKETS)
    """
    m, gates = len(multiplicity), terms.gates
    used, places = np.unique(gates, return_inverse=True)
    times = multiplicity.astype(np.float64)

    def loss(values: Floats) -> tuple[float, Floats]:
        trust = np.exp(values)[places] * terms.odds
        total = np.bincount(terms.examples, trust, minlength=m)
        said = np.bincount(terms.examples, trust * terms.shares, minlength=m)
        missed = float(times @ (np.log(total) - np.log(said))) + ridge * float(values @ values)
        slope = trust * (
            (times / total)[terms.examples] - terms.shares * (times / said)[terms.examples]
        )
        gradient = np.bincount(places, slope, minlength=len(used)) + 2 * ridge * values
        return missed / times.sum(), gradient / times.sum()

    first = np.zeros(len(used)) if start is None else start.ravel()[used]
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": steps})
    weights = np.zeros(n_components * BUCKETS)
    weights[used] = found.x
    return weights.reshape(n_components, BUCKETS)


def left_out(terms: Terms, multiplicity: Ints, weights: Floats, groups: Ints, most: float) -> Bools:
    """Return which components can be left out for `most` nats an example or less, by component.

    The weights of the others are not fitted again in between, so what it costs afterwards is less.
    """
    m, n_groups = len(multiplicity), int(groups.max(initial=-1)) + 1
    times = multiplicity / multiplicity.sum()
    trust = np.exp(weights.ravel()[terms.gates]) * terms.odds
    cells = (groups[terms.components] + 1) * m + terms.examples  # the prior first
    totals, said = (
        np.bincount(cells, values, (n_groups + 1) * m).reshape(n_groups + 1, m)
        for values in (trust, trust * terms.shares)
    )

    def loss(total: Floats, right: Floats) -> float:
        # No less than the prior: subtraction rounds.
        return float(
            times @ (np.log(np.maximum(total, totals[0])) - np.log(np.maximum(right, said[0])))
        )

    total, right = totals.sum(axis=0), said.sum(axis=0)
    allowed, kept = loss(total, right) + most, set(range(n_groups))
    while kept:
        losses = {g: loss(total - totals[g + 1], right - said[g + 1]) for g in kept}
        least = min(kept, key=losses.__getitem__)
        if losses[least] > allowed:
            break
        kept.remove(least)
        total, right = total - totals[least + 1], right - said[least + 1]
    return ~np.isin(groups, [-1, *kept])
