r"""How far each component of a mixture is trusted: weights by component and by row.

A component is a site; for a site without a position, it is the site at one distance, from 1 to 6
and above. The weight of a row is :math:`\exp(\theta_{g,b}) \, (1 - s) / s`: g is the component, b
the logarithm to base 2 of the row's total, and s the share of its counts that is discounted: a row
of many labels that occurred once says less than one of few labels. For a copy, b is the number of
tokens in the context, and there is no share.

*Modified discounts* are those of Chen and Goodman: with :math:`t_j` the entries of a table whose
count is j, and :math:`Y = t_1 / (t_1 + 2 t_2)`, an entry of count j loses
:math:`D_j = j - (j + 1) Y t_{j+1} / t_j`, the last one for all counts of 3 and more.

*Pruning*: other sites may already say what a site says. Sites are left out one by one, always the
one whose absence costs least likelihood, as long as all of them together cost no more than is
allowed. The weight of a site that is left out is :math:`-\infty`, and its rows are not read.
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
"""Buckets of rows by the logarithm of their totals; the last one has all totals from 2^15 on."""

MIN_SHARE: Final = 1e-3
"""What is discounted of a row counts as at least this share of it, and at most all but this."""

NEAREST: Final = 6
"""Tokens at this distance and further away share weights."""

PRIOR: Final = 0
"""The component of the labels' own shares."""

_NO_DISCOUNTS: Final = np.zeros(4)
_MOST_DISCOUNTS: Final = np.array([0.0, 0.99, 1.99, 2.99])
"""An entry loses less than its count."""


@dataclass(frozen=True)
class Components(Cached):
    """The numbers of the components.

    In order: the prior, the sites, their continuations, the sites without a position.
    """

    sites: Sites
    continuation: bool

    def site(self, k: int) -> int:
        """Return the component of a site."""
        return 1 + k

    @cached_property
    def continued(self) -> tuple[tuple[int, int], ...]:
        """The suffixes that have one token more than another, and that other: -1 for no token.

        How many tokens came before the shorter suffix and a label is read from the rows of the
        longer one.
        """
        if not self.continuation:
            return ()
        places = {site: k for k, site in enumerate(self.sites.positions)}
        pairs: list[tuple[int, int]] = []
        shorter = -1
        for length in range(1, self.sites.h + 1):  # one by one: a file may declare any h
            suffix = tuple(range(self.sites.h - length, self.sites.h))
            if suffix not in places:
                break
            longer = places[suffix]
            pairs.append((longer, shorter))
            shorter = longer
        return tuple(pairs)

    def continuation_of(self, number: int) -> int:
        """Return the component of one of `continued`."""
        return 1 + len(self.sites.positions) + number

    @cached_property
    def _first_free(self) -> list[int]:
        """The first component of each site without a position, and the number of all components."""
        firsts = [self.continuation_of(len(self.continued))]
        for site in self.sites.free:
            n_distances = 1 if site.kind == "recent" else NEAREST
            firsts.append(firsts[-1] + n_distances)
        return firsts

    def free(self, k: int, distances: Ints | int = 1) -> Ints:
        """Return the component of a site without a position, for tokens at these distances."""
        return np.asarray(self._first_free[k] + np.minimum(distances, NEAREST) - 1)

    @property
    def n(self) -> int:
        """How many there are."""
        return self._first_free[-1]

    @cached_property
    def groups(self) -> Ints:
        """What is left out together, by component: a site at all distances; -1 for the prior."""
        first = self._first_free[0]
        free = np.repeat(np.arange(len(self.sites.free)), np.diff(self._first_free))
        return np.concatenate([np.arange(-1, first - 1), first - 1 + free])

    @property
    def group_names(self) -> list[str]:
        """What these groups are called: positions by their distances from the end."""
        h = self.sites.h

        def name_site(site: Site) -> str:
            return "(" + ", ".join(str(position - h) for position in site) + ")"

        positions = self.sites.positions
        names = [name_site(site) for site in positions]
        names += [f"continuations of {name_site(positions[k])}" for k, _ in self.continued]
        names += [site.name for site in self.sites.free]
        return names

    def continuation_table(self, number: int) -> int:
        """Return the number of the table of one of `continued`; those of the sites come before."""
        return len(self.sites.positions) + number

    def free_table(self, number: int) -> int:
        """Return the number of the table of one of the free sites that have one."""
        return self.continuation_table(len(self.continued)) + number

    @property
    def n_tables(self) -> int:
        """How many tables have discounts of their own: sites, continuations, free sites."""
        return self.free_table(len(self.sites.free_with_table))


def row_buckets(totals: Ints) -> Ints:
    """Return the bucket of rows with these totals."""
    sizes = (
        np.frexp(np.maximum(totals, 1).astype(np.float64))[1] - 1
    )  # the exact logarithm, rounded down
    return np.asarray(np.minimum(sizes, BUCKETS - 1), np.int64)


def row_odds(totals: Ints, discounted: Floats) -> Floats:
    """Return the odds (1 - s) / s of rows, with the share s of their totals that is discounted."""
    share = np.clip(discounted / np.maximum(totals, 1), MIN_SHARE, 1 - MIN_SHARE)
    return np.asarray((1 - share) / share)


def compute_discounts(entry_counts: Ints) -> Floats:
    """Return what entries of counts 0, 1, 2 and 3 or more lose; nothing where that cannot be told.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.votes.mixture.gates import compute_discounts
    >>> compute_discounts(np.repeat([1, 2, 3, 4, 9], [50, 20, 10, 5, 3])).round(2)
    array([0.  , 0.56, 1.17, 1.89])
    """
    return discounts_from_histogram(np.bincount(np.minimum(entry_counts, 5), minlength=6))


def discounts_from_histogram(times: Ints) -> Floats:
    """Return the discounts of a table with this many entries of each count from 0 to 4."""
    times = times[1:5].astype(np.float64)
    if not times.all():
        return _NO_DISCOUNTS.copy()
    share = times[0] / (times[0] + 2 * times[1])
    discounts = [j - (j + 1) * share * times[j] / times[j - 1] for j in (1, 2, 3)]
    return np.asarray(np.clip([0.0, *discounts], 0.0, _MOST_DISCOUNTS))


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
    def concatenate(cls, pieces: list[Terms]) -> Terms:
        """Return the terms of all pieces."""
        return cls(
            examples=np.concatenate([piece.examples for piece in pieces]),
            components=np.concatenate([piece.components for piece in pieces]),
            buckets=np.concatenate([piece.buckets for piece in pieces]),
            shares=np.concatenate([piece.shares for piece in pieces]),
            odds=np.concatenate([piece.odds for piece in pieces]),
        )

    def select(self, is_selected: Bools) -> Terms:
        """Return some of the terms."""
        return Terms(
            examples=self.examples[is_selected],
            components=self.components[is_selected],
            buckets=self.buckets[is_selected],
            shares=self.shares[is_selected],
            odds=self.odds[is_selected],
        )

    @property
    def gates(self) -> Ints:
        """The place of each term's weight."""
        return self.components * BUCKETS + self.buckets

    def compute_trust(self, weights: Floats) -> Floats:
        """Return the trust in each term; `weights` are logarithms, by component and bucket."""
        return np.asarray(np.exp(weights.ravel()[self.gates]) * self.odds)


def compute_probabilities(terms: Terms, weights: Floats, m: int) -> Floats:
    """Return the probability of the label of each of m examples; `weights` are the logarithms."""
    trust = terms.compute_trust(weights)
    totals = np.bincount(terms.examples, trust, minlength=m)
    return np.asarray(np.bincount(terms.examples, trust * terms.shares, minlength=m) / totals)


def fit_gates(
    terms: Terms,
    multiplicity: Ints,
    *,
    n_components: int,
    ridge: float,
    steps: int,
    start: Floats | None = None,
) -> Floats:
    r"""Return the weights with the highest likelihood, less `ridge` times the sum of their squares.

    With the trust :math:`\tau_t = \exp(\theta_{g_t}) \, o_t` in a term t of example i, its total
    :math:`T_i = \sum_t \tau_t` and :math:`P_i = \sum_t \tau_t p_t`, the loss is
    :math:`\sum_i m_i (\log T_i - \log P_i) + \lambda |\theta|^2`, over :math:`\sum_i m_i`.

    Shapes
    ------
    start, returned : (n_components, BUCKETS)
    """
    m = len(multiplicity)
    gates, places = np.unique(terms.gates, return_inverse=True)  # others keep the weight 0
    times = multiplicity.astype(np.float64)
    total_times = times.sum()

    def compute_loss(values: Floats) -> tuple[float, Floats]:
        trust = np.exp(values)[places] * terms.odds
        totals = np.bincount(terms.examples, trust, minlength=m)
        products = np.bincount(terms.examples, trust * terms.shares, minlength=m)
        log_loss = float(times @ (np.log(totals) - np.log(products)))
        loss = log_loss + ridge * float(values @ values)
        by_total = (times / totals)[terms.examples]
        by_product = (times / products)[terms.examples]
        slopes = trust * (by_total - terms.shares * by_product)
        gradient = np.bincount(places, slopes, minlength=len(gates)) + 2 * ridge * values
        return loss / total_times, gradient / total_times

    first = np.zeros(len(gates))
    if start is not None:
        first = start.ravel()[gates]
    result = minimize(compute_loss, first, jac=True, method="L-BFGS-B", options={"maxiter": steps})
    weights = np.zeros(n_components * BUCKETS)
    weights[gates] = result.x
    return weights.reshape(n_components, BUCKETS)


def find_prunable(
    terms: Terms, multiplicity: Ints, weights: Floats, *, groups: Ints, max_loss: float
) -> Bools:
    """Return which components can be left out for `max_loss` nats an example or less, by component.

    The weights of the others are not fitted again in between, so what it costs afterwards is less.
    """
    m = len(multiplicity)
    n_groups = int(groups.max(initial=-1)) + 1
    times = multiplicity / multiplicity.sum()

    # All trust in each group, and what it gives to the label, by example; the prior comes first.
    trust = terms.compute_trust(weights)
    cells = (groups[terms.components] + 1) * m + terms.examples
    n_cells = (n_groups + 1) * m
    group_totals = np.bincount(cells, trust, n_cells).reshape(n_groups + 1, m)
    group_products = np.bincount(cells, trust * terms.shares, n_cells).reshape(n_groups + 1, m)

    def compute_loss(totals: Floats, products: Floats) -> float:
        # No less than the prior: subtraction rounds.
        totals = np.maximum(totals, group_totals[0])
        products = np.maximum(products, group_products[0])
        return float(times @ (np.log(totals) - np.log(products)))

    # Leave out the group that costs least, until it costs too much.
    totals = group_totals.sum(axis=0)
    products = group_products.sum(axis=0)
    highest_loss = compute_loss(totals, products) + max_loss
    remaining = set(range(n_groups))
    while remaining:
        losses = {
            group: compute_loss(
                totals - group_totals[group + 1], products - group_products[group + 1]
            )
            for group in remaining
        }
        cheapest = min(remaining, key=losses.__getitem__)
        if losses[cheapest] > highest_loss:
            break
        remaining.remove(cheapest)
        totals = totals - group_totals[cheapest + 1]
        products = products - group_products[cheapest + 1]
    return ~np.isin(groups, [-1, *remaining])
