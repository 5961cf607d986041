r"""What a sample says of more data: how many new things there will be, and what the counts may look like.

**New things.** A species seen c times in a sample has a rate :math:`\lambda`, its expected number of sightings, and c
is Poisson. The distribution of rates over species is fitted to the counts of counts by maximum likelihood without any
form being assumed (a mixture over a grid of rates, fitted by EM, zeros left out because they cannot be seen). In t
times as much data a species of rate :math:`\lambda` is seen with probability :math:`1 - e^{-\lambda t}`:
`expected_distinct`.

**Counts.** At one site of a kernel a cell is a pair (feature, label), and a sample of m cells is grown to n as urns
grow. A cell copies the feature of an earlier cell, chosen uniformly, or brings a new one: the Pitman-Yor urn, in which
a feature of count c among i cells and K features is next with probability :math:`(c - d)/(\theta + i)` and a new one
with probability :math:`(\theta + dK)/(\theta + i)`. Given a feature with N earlier cells and a concentration a, the
label is drawn from the labels' shares with probability :math:`a/(N + a)` and else copied from the same earlier cell.
So a grown table is a draw from the posterior of a Bayesian model given the sample, and where the model holds the real
table of n examples is exchangeable with the draws. :math:`(d, \theta)` maximise the likelihood of the sample's counts,
and d is then moved so that the expected number of features at n is the one above. Concentrations differ from feature
to feature: most follow the labels' shares, some belong to one label. Their distribution, on a grid, is fitted by EM
for rare, middle and frequent features, and each feature draws its own from its posterior. All sites share their label
totals.

**Leaving one out.** A sample's example is used as a query of data that does not hold it: the descendants of its own
cells, the ones that copied it, are taken out of what it reads. In an urn, what is left is what would have grown
without it. A feature that only the query holds has no count in the rest of the sample; in the grown data it reads what
a random feature new to the sample has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, gammaln

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Bools, Floats, Ints, Words

_RATES = np.geomspace(0.01, 90.0, 60)
_CERTAIN = 60  # what was seen more often is seen again
_CONCENTRATIONS = np.array([0.3, 1, 3, 10, 30, 100, 300, 1000, 1e4, 1e6])
_FREQUENCIES = np.array([2, 8, 64])  # from which counts on features are rare, middle and frequent
_EM_STEPS = 100
_NEW_KEPT = 0.85


def expected_distinct(counts: Ints, times: float) -> float:
    """Return how many distinct things data `times` as large as a sample is expected to hold.

    Parameters
    ----------
    counts : ndarray
        How often each thing was seen in the sample; all positive.
    times : float
        Below one, the expected number in a part of the sample.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.planning.growth import expected_distinct
    >>> seen_often = np.full(100, 50)
    >>> round(expected_distinct(seen_often, 10.0))
    100
    >>> expected_distinct(np.ones(100, np.int64), 2.0) > 150
    True
    """
    if not len(counts):
        return 0.0
    values, repeats = np.unique(counts, return_counts=True)
    if times <= 1:
        return float((repeats * -np.expm1(values * np.log1p(-min(times, 1 - 1e-12)))).sum())
    few = values <= _CERTAIN
    certain = int(repeats[~few].sum())
    values, repeats = values[few], repeats[few]
    if not len(values):
        return float(certain)
    seen = -np.expm1(-_RATES)
    likelihood = (
        np.exp(np.outer(values, np.log(_RATES)) - _RATES - gammaln(values + 1.0)[:, None]) / seen
    )
    shares = mixture_shares(likelihood, repeats, steps=4 * _EM_STEPS)
    species = repeats.sum() * shares / seen
    return float(certain + (species * -np.expm1(-_RATES * times)).sum())


def expected_features(counts: Ints, times: float) -> float:
    """Return `expected_distinct` for tokens or tuples of them, whose rarest ones are fewer than the mixture says.

    A vocabulary ends somewhere, which a sample does not show: of the new ones that the mixture expects, a share is kept
    that was set on other data than the plans in docs/planning.md.
    """
    found = expected_distinct(counts, times)
    return found if times <= 1 else len(counts) + _NEW_KEPT * (found - len(counts))


def mixture_shares(
    likelihood: Floats, repeats: Array, steps: int = _EM_STEPS, prior: float = 0.0
) -> Floats:
    """Return the shares of a mixture's parts that make observations most likely, by EM.

    Shapes
    ------
    likelihood : (observations, parts); repeats : (observations,); returned : (parts,)
    """
    n_parts = likelihood.shape[1]
    shares = np.full(n_parts, 1 / n_parts)
    for _ in range(steps):
        weighted = likelihood * shares
        shares = (repeats / weighted.sum(axis=1)) @ weighted + prior
        shares /= shares.sum()
    return shares


@dataclass(frozen=True)
class Urn:
    """A Pitman-Yor urn: `discount` d in [0, 1) and `strength` θ > 0.

    Examples
    --------
    >>> from hammemo.planning.growth import Urn
    >>> round(Urn(0.5, 10.0).expected_features(known=100, m=1000, n=4000))
    219
    """

    discount: float
    strength: float

    @classmethod
    def of(cls, counts: Ints) -> Urn:
        """Return the urn under which a sample with these counts of its features is most likely."""
        values, repeats = np.unique(counts, return_counts=True)
        known, m = len(counts), int(counts.sum())

        def parameters(at: Floats) -> tuple[float, float]:
            return 1e-6 + (1 - 2e-6) * float(expit(at[0])), float(np.exp(np.clip(at[1], -20, 20)))

        def surprise(at: Floats) -> float:
            d, strength = parameters(at)
            new = (
                (known - 1) * np.log(d) + gammaln(strength / d + known) - gammaln(strength / d + 1)
            )
            old = (repeats * (gammaln(values - d) - gammaln(1 - d))).sum()
            return float(gammaln(strength + m) - gammaln(strength + 1) - new - old)

        start = [0.0, np.log(1 + known / 4)]
        best = minimize(
            surprise, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-2}
        )
        return cls(*parameters(best.x))

    def expected_features(self, known: int, m: int, n: int) -> float:
        """Return how many features n cells are expected to hold, m of which hold `known`."""
        d, strength = max(self.discount, 1e-9), self.strength
        growth = (
            gammaln(strength + d + n)
            - gammaln(strength + d + m)
            - gammaln(strength + n)
            + gammaln(strength + m)
        )
        return float(known + (known + strength / d) * np.expm1(growth))

    def expecting(self, features: float, known: int, m: int, n: int) -> Urn:
        """Return an urn of this strength, or of a smaller one where that is too much, that expects these features."""
        if n <= m:
            return self
        features = max(features, known + 0.5)

        def excess(discount: float) -> float:
            return Urn(discount, self.strength).expected_features(known, m, n) - features

        if excess(1e-6) >= 0:
            strength = (features - known) / np.log((self.strength + n) / (self.strength + m))
            return Urn(1e-6, max(float(strength), 1e-6))
        return (
            Urn(float(brentq(excess, 1e-6, 1 - 1e-6)), self.strength)
            if excess(1 - 1e-6) > 0
            else self
        )


@dataclass(frozen=True, eq=False)
class SiteSample:
    """The cells of one site in a sample.

    Parameters
    ----------
    examples : ndarray of shape (m,)
        The example that each cell is of; examples with nothing at the site have none.
    features : ndarray of shape (m,)
        Ranks in `words`.
    labels : ndarray of shape (m,)
    words : ndarray of uint64, ascending
        The hashes of the features.
    """

    examples: Ints
    features: Ints
    labels: Ints
    words: Words

    @property
    def counts(self) -> Ints:
        """How many cells each feature has."""
        return np.asarray(np.bincount(self.features, minlength=len(self.words)))

    def entry_counts(self, n_labels: int) -> Ints:
        """Return how often each (feature, label) that occurs does."""
        return np.asarray(np.unique(self.features * n_labels + self.labels, return_counts=True)[1])


@dataclass(frozen=True, eq=False)
class GrownSite:
    """The cells of one site grown from a sample, the sample's own first.

    Parameters
    ----------
    features, labels : ndarray of shape (n,)
        Features beyond those of the sample are new ones.
    roots : ndarray of int32, shape (n,)
        The cell that each cell's feature was first copied from, or itself where it brought a new one.
    n_features : int
    """

    features: Ints
    labels: Ints
    roots: NDArray[np.int32]
    n_features: int


class SiteModel:
    """What a site's sample says of more cells.

    Parameters
    ----------
    sample : SiteSample
    shares : ndarray of shape (L,)
        The labels' shares.
    n, features : int, float
        How many cells there will be, and how many features they are expected to hold.
    """

    def __init__(self, sample: SiteSample, shares: Floats, n: int, features: float) -> None:
        self.sample = sample
        self.shares = shares
        counts = sample.counts
        m = len(sample.features)
        self.urn = Urn.of(counts).expecting(features, len(counts), m, max(n, m))
        self._counts = counts
        self._posteriors, self._new = self._concentrations()

    def _concentrations(self) -> tuple[Floats, Floats]:
        """Return the cumulated posterior of each feature's concentration, and the distribution of new features'."""
        n_labels, counts = len(self.shares), self._counts
        keys, entries = np.unique(
            self.sample.features * n_labels + self.sample.labels, return_counts=True
        )
        pseudo = np.maximum(self.shares[keys % n_labels], 1e-12)[:, None] * _CONCENTRATIONS
        terms = gammaln(entries[:, None] + pseudo) - gammaln(pseudo)
        firsts = np.searchsorted(keys // n_labels, np.arange(len(counts)))
        logs = np.add.reduceat(terms, firsts, axis=0)
        logs += gammaln(_CONCENTRATIONS) - gammaln(_CONCENTRATIONS + counts[:, None])
        likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
        posterior, kinds = np.empty_like(likelihood), np.searchsorted(_FREQUENCIES, counts, "right")
        rare = None
        for kind in (
            1,
            2,
            3,
            0,
        ):  # single cells say nothing of concentrations: they are taken for rare ones
            here = kinds == kind
            fitted = (
                mixture_shares(likelihood[here], np.ones(here.sum()), prior=0.1) if kind else rare
            )
            rare = fitted if rare is None else rare
            posterior[here] = likelihood[here] * fitted
        assert rare is not None
        cumulated = np.cumsum(posterior, axis=1)
        return cumulated / cumulated[:, -1:], np.cumsum(rare)

    def grow(self, n: int, label_totals: Ints | None, rng: Generator) -> GrownSite:
        """Return n cells; with `label_totals`, this many of each label."""
        m = len(self.sample.features)
        if n <= m:
            cells = np.arange(m, dtype=np.int32)
            return GrownSite(self.sample.features, self.sample.labels, cells, len(self._counts))
        copied, brings_new = self._pointers(n, rng)
        roots = _followed(copied)
        n_known = len(self._counts)
        number = np.zeros(n, np.int64)
        number[brings_new] = n_known + np.arange(brings_new.sum())
        number[:m] = self.sample.features
        features = number[roots]
        n_features = n_known + int(brings_new.sum())
        labels = self._labels(features, copied, n_features, rng)
        if label_totals is not None:
            labels = _with_totals(labels, m, label_totals, rng)
        return GrownSite(features, labels, roots, n_features)

    def _pointers(self, n: int, rng: Generator) -> tuple[NDArray[np.int32], Bools]:
        """Return the cell that each cell copies (itself: none), and which grown cells bring a new feature."""
        m, cells = len(self.sample.features), np.arange(n, dtype=np.int32)
        pointer, strength = cells.copy(), self.urn.strength
        pointer[m:] = rng.random(n - m) * cells[m:]
        first = np.zeros(n, bool)  # the first cells of their features
        first[np.unique(self.sample.features, return_index=True)[1]] = True
        first[m:] = rng.random(n - m) * (strength + cells[m:]) < strength
        discounted = (
            rng.random(n - m) < self.urn.discount
        )  # copies of a first cell that bring a new feature instead
        waiting = m + np.flatnonzero(discounted & ~first[m:])
        while len(waiting):
            refused = first[pointer[waiting]]
            if not refused.any():
                break
            first[waiting[refused]] = True
            waiting = waiting[~refused]
        brings_new = first.copy()
        brings_new[:m] = False
        return np.where(brings_new, cells, pointer), brings_new

    def _labels(
        self, features: Ints, copied: NDArray[np.int32], n_features: int, rng: Generator
    ) -> Ints:
        m, n = len(self.sample.features), len(features)
        known = (rng.random(len(self._counts))[:, None] > self._posteriors).sum(axis=1)
        new = (rng.random(n_features - len(known))[:, None] > self._new).sum(axis=1)
        concentration = _CONCENTRATIONS[
            np.minimum(np.concatenate([known, new]), len(_CONCENTRATIONS) - 1)
        ]
        before = np.concatenate([self._counts, np.zeros(len(new))])
        added = np.bincount(features, minlength=n_features) - before
        done = np.arange(n - m) / (
            n - m
        )  # the cells of a feature come in any order, so this share of them is there
        grown = features[m:]
        fresh = np.ones(n, bool)
        fresh[m:] = (
            rng.random(n - m) * ((concentration + before)[grown] + added[grown] * done)
            < concentration[grown]
        )
        drawn = self.sample.labels[rng.integers(0, m, n)]
        drawn[:m] = self.sample.labels
        return drawn[_followed(np.where(fresh, np.arange(n, dtype=np.int32), copied))]


def _followed(pointer: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return where each chain of pointers ends; ends point to themselves."""
    while True:
        further = pointer[pointer]
        if np.array_equal(further, pointer):
            return pointer
        pointer = further


def _with_totals(labels: Ints, m: int, totals: Ints, rng: Generator) -> Ints:
    """Return labels with some beyond the first m exchanged, so that each is expected to occur as often as it should."""
    grown = labels[m:]
    surplus = np.bincount(labels, minlength=len(totals)) - totals
    numbers = np.maximum(np.bincount(grown, minlength=len(totals)), 1)
    missing = np.maximum(-surplus, 0)
    if not missing.any():
        return labels
    given_up = np.flatnonzero(rng.random(len(grown)) < (np.maximum(surplus, 0) / numbers)[grown])
    changed = labels.copy()
    changed[m + given_up] = rng.choice(len(totals), len(given_up), p=missing / missing.sum())
    return changed
