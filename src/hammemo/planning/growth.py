r"""What a sample says of more data: how many new things there will be, and how counts may look.

**New things.** A species seen c times in a sample has a rate :math:`\lambda`, its expected number
of sightings, and c is Poisson. The distribution of rates over species is fitted to the counts of
counts by maximum likelihood, without assuming a form (a mixture over a grid of rates, fitted by EM,
zeros left out because they cannot be seen). In t times as much data a species of rate
:math:`\lambda` is seen with probability :math:`1 - e^{-\lambda t}`: `estimate_distinct`.

**Counts.** At one site of a kernel a cell is a pair (feature, label), and a sample of m cells is
grown to n as urns grow. A cell copies the feature of an earlier cell, chosen uniformly, or brings a
new one: the Pitman-Yor urn, in which a feature of count c among i cells and K features is next with
probability :math:`(c - d)/(\theta + i)` and a new one with probability
:math:`(\theta + dK)/(\theta + i)`. Given a feature with N earlier cells and a concentration a, the
label is drawn from the labels' shares with probability :math:`a/(N + a)` and otherwise copied from
the same earlier cell. So a grown table is a draw from the posterior of a Bayesian model given the
sample, and where the model holds the real table of n examples is exchangeable with the draws.
:math:`(d, \theta)` maximise the likelihood of the sample's counts, and d is then moved so that the
expected number of features at n is the one above. Concentrations differ from feature to feature:
most follow the labels' shares, some belong to one label. Their distribution, on a grid, is fitted
by EM for rare, middle and frequent features, and each feature draws its own from its posterior. All
sites share their label totals.

**Leaving one out.** A sample's example is used as a query of data that does not hold it: the
descendants of its own cells, the ones that copied it, are taken out of what it reads. The rest of
an urn is what would have grown without it. A feature that only the query holds has no count in the
rest of the sample; in the grown data it reads what a random feature new to the sample has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, gammaln

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Bools, Floats, Ints, Words

_RATES: Final = np.geomspace(0.01, 90.0, 60)
"""The grid of rates of species."""

_CERTAIN: Final = 60
"""A species that was seen more often than this is seen again."""

_CONCENTRATIONS: Final = np.array([0.3, 1, 3, 10, 30, 100, 300, 1000, 1e4, 1e6])
"""The grid of concentrations: from features of one label to those that follow the shares."""

_FREQUENCIES: Final = np.array([2, 8, 64])
"""The counts from which on features are rare, middle and frequent."""

_EM_STEPS: Final = 100
"""Steps of a fit of a mixture."""

_REALISTIC_SHARE: Final = 0.85
"""The share of the new tokens that the mixture expects which a vocabulary really has. By a trial on
other data than the plans in docs/planning.md."""


def estimate_distinct(counts: Ints, times: float) -> float:
    """Return how many distinct things data `times` as large as a sample is expected to hold.

    Parameters
    ----------
    counts : ndarray
        How often each thing was seen in the sample; all positive.
    times : float
        Below one, the expected number in some of the sample.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.planning.growth import estimate_distinct
    >>> seen_often = np.full(100, 50)
    >>> round(estimate_distinct(seen_often, 10.0))
    100
    >>> estimate_distinct(np.ones(100, np.int64), 2.0) > 150
    True
    """
    if not len(counts):
        return 0.0
    values, repeats = np.unique(counts, return_counts=True)
    if times <= 1:
        share = min(times, 1 - 1e-12)
        return float((repeats * -np.expm1(values * np.log1p(-share))).sum())

    # Only species that were seen rarely tell how many there are besides.
    is_rare = values <= _CERTAIN
    n_certain = int(repeats[~is_rare].sum())
    values = values[is_rare]
    repeats = repeats[is_rare]
    if not len(values):
        return float(n_certain)

    # The distribution of rates of the species that were seen, then that of all species.
    is_seen = -np.expm1(-_RATES)
    logs = np.outer(values, np.log(_RATES)) - _RATES - gammaln(values + 1.0)[:, None]
    likelihood = np.exp(logs) / is_seen
    shares = fit_mixture(likelihood, repeats, steps=4 * _EM_STEPS)
    species = repeats.sum() * shares / is_seen
    return float(n_certain + (species * -np.expm1(-_RATES * times)).sum())


def estimate_features(counts: Ints, times: float) -> float:
    """Return `estimate_distinct` for tokens or tuples of them, of which fewer are very rare.

    A vocabulary ends somewhere, which a sample does not show. So only a share of the new ones that
    the mixture expects is counted.
    """
    n_distinct = estimate_distinct(counts, times)
    if times <= 1:
        return n_distinct
    return len(counts) + _REALISTIC_SHARE * (n_distinct - len(counts))


def fit_mixture(
    likelihood: Floats, repeats: Array, steps: int = _EM_STEPS, prior: float = 0.0
) -> Floats:
    """Return the shares of a mixture's components that make observations most likely, by EM.

    Shapes
    ------
    likelihood : (observations, components); repeats : (observations,); returned : (components,)
    """
    n_components = likelihood.shape[1]
    shares = np.full(n_components, 1 / n_components)
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
    >>> round(Urn(0.5, 10.0).estimate_features(n_features=100, m=1000, n=4000))
    219
    """

    discount: float
    strength: float

    @classmethod
    def from_counts(cls, counts: Ints) -> Urn:
        """Return the urn under which a sample with these counts of its features is most likely."""
        values, repeats = np.unique(counts, return_counts=True)
        n_features = len(counts)
        m = int(counts.sum())

        def read_parameters(at: Floats) -> Urn:
            discount = 1e-6 + (1 - 2e-6) * float(expit(at[0]))
            return cls(discount, float(np.exp(np.clip(at[1], -20, 20))))

        def compute_surprise(at: Floats) -> float:
            urn = read_parameters(at)
            d = urn.discount
            ratio = urn.strength / d
            new = (n_features - 1) * np.log(d) + gammaln(ratio + n_features) - gammaln(ratio + 1)
            old = (repeats * (gammaln(values - d) - gammaln(1 - d))).sum()
            return float(gammaln(urn.strength + m) - gammaln(urn.strength + 1) - new - old)

        start = [0.0, np.log(1 + n_features / 4)]
        best = minimize(
            compute_surprise, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-2}
        )
        return read_parameters(best.x)

    def estimate_features(self, n_features: int, m: int, n: int) -> float:
        """Return how many features n cells are expected to hold, m of which hold `n_features`."""
        d = max(self.discount, 1e-9)
        strength = self.strength
        growth = (
            gammaln(strength + d + n)
            - gammaln(strength + d + m)
            - gammaln(strength + n)
            + gammaln(strength + m)
        )
        return float(n_features + (n_features + strength / d) * np.expm1(growth))

    def with_expectation(self, expected: float, n_features: int, m: int, n: int) -> Urn:
        """Return an urn that expects so many features in n cells, m of which hold `n_features`.

        It has this strength, or a smaller one where that is too much for any discount.
        """
        if n <= m:
            return self
        expected = max(expected, n_features + 0.5)

        def compute_excess(discount: float) -> float:
            urn = Urn(discount, self.strength)
            return urn.estimate_features(n_features, m, n) - expected

        lowest = 1e-6
        highest = 1 - 1e-6
        if compute_excess(lowest) >= 0:
            # With a discount of almost zero, new features come at the rate θ / (θ + i).
            strength = (expected - n_features) / np.log((self.strength + n) / (self.strength + m))
            return Urn(lowest, max(float(strength), 1e-6))
        if compute_excess(highest) <= 0:
            return self
        return Urn(float(brentq(compute_excess, lowest, highest)), self.strength)


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
        entries = self.features * n_labels + self.labels
        return np.asarray(np.unique(entries, return_counts=True)[1])


@dataclass(frozen=True, eq=False)
class GrownSite:
    """The cells of one site grown from a sample, the sample's own first.

    Parameters
    ----------
    features, labels : ndarray of shape (n,)
        Features beyond those of the sample are new ones.
    roots : ndarray of int32, shape (n,)
        The cell that each cell's feature was first copied from, or itself where it brought a new
        one.
    n_features : int
    """

    features: Ints
    labels: Ints
    roots: NDArray[np.int32]
    n_features: int


class _GrowthCopies(NamedTuple):
    """Where the cells of a growth come from."""

    sources: NDArray[np.int32]
    """The cell that each cell copies; itself if it copies none."""
    brings_new: Bools
    """Which grown cells bring a new feature."""


class _Concentrations(NamedTuple):
    """Distributions over the grid of concentrations, cumulated."""

    of_features: Floats
    """The posterior of each feature of the sample: (features, grid)."""
    of_new: Floats
    """The distribution of new features: (grid,)."""


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
        urn = Urn.from_counts(counts)
        self.urn = urn.with_expectation(features, len(counts), m, max(n, m))
        self._counts = counts
        self._concentrations = self._fit_concentrations()

    def _fit_concentrations(self) -> _Concentrations:
        """Fit the distributions of concentrations of rare, middle and frequent features.

        With concentration a and shares p, the labels of a feature with counts n have the likelihood
        of a Dirichlet-multinomial: Γ(a) / Γ(a + N) times the product of Γ(n + a p) / Γ(a p).
        """
        n_labels = len(self.shares)
        counts = self._counts
        cells = self.sample.features * n_labels + self.sample.labels
        keys, entry_counts = np.unique(cells, return_counts=True)
        pseudo_counts = np.maximum(self.shares[keys % n_labels], 1e-12)[:, None] * _CONCENTRATIONS
        terms = gammaln(entry_counts[:, None] + pseudo_counts) - gammaln(pseudo_counts)
        firsts = np.searchsorted(keys // n_labels, np.arange(len(counts)))
        logs = np.add.reduceat(terms, firsts, axis=0)
        logs += gammaln(_CONCENTRATIONS) - gammaln(_CONCENTRATIONS + counts[:, None])
        likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))

        posterior = np.empty_like(likelihood)
        kinds = np.searchsorted(_FREQUENCIES, counts, "right")
        is_rare = kinds == 1
        rare = fit_mixture(likelihood[is_rare], np.ones(is_rare.sum()), prior=0.1)
        posterior[is_rare] = likelihood[is_rare] * rare
        for kind in (2, 3):
            is_kind = kinds == kind
            shares = fit_mixture(likelihood[is_kind], np.ones(is_kind.sum()), prior=0.1)
            posterior[is_kind] = likelihood[is_kind] * shares
        is_single = kinds == 0  # single cells say nothing of concentrations: they count as rare
        posterior[is_single] = likelihood[is_single] * rare
        cumulated = np.cumsum(posterior, axis=1)
        return _Concentrations(cumulated / cumulated[:, -1:], np.cumsum(rare))

    def grow(self, n: int, label_totals: Ints | None, rng: Generator) -> GrownSite:
        """Return n cells; with `label_totals`, this many of each label."""
        m = len(self.sample.features)
        if n <= m:
            cells = np.arange(m, dtype=np.int32)
            return GrownSite(self.sample.features, self.sample.labels, cells, len(self._counts))
        copies = self._draw_copies(n, rng)
        roots = _follow(copies.sources)
        n_sample_features = len(self._counts)
        n_features = n_sample_features + int(copies.brings_new.sum())
        feature_of_root = np.zeros(n, np.int64)
        feature_of_root[copies.brings_new] = np.arange(n_sample_features, n_features)
        feature_of_root[:m] = self.sample.features
        features = feature_of_root[roots]
        labels = self._draw_labels(features, copies.sources, n_features, rng)
        if label_totals is not None:
            labels = _exchange_labels(labels, m, label_totals, rng)
        return GrownSite(features, labels, roots, n_features)

    def _draw_copies(self, n: int, rng: Generator) -> _GrowthCopies:
        """Draw which cell each cell copies, by the Pitman-Yor urn.

        Cell i copies an earlier cell, each with the weight 1, or brings a new feature with the
        weight θ. To take the discount d off each feature, a copy of a feature's *first* cell brings
        a new feature with probability d.
        """
        m = len(self.sample.features)
        cells = np.arange(n, dtype=np.int32)
        sources = cells.copy()
        strength = self.urn.strength
        sources[m:] = rng.random(n - m) * cells[m:]
        is_first = np.zeros(n, bool)  # the first cells of their features
        is_first[np.unique(self.sample.features, return_index=True)[1]] = True
        is_first[m:] = rng.random(n - m) * (strength + cells[m:]) < strength
        is_discounted = rng.random(n - m) < self.urn.discount
        # Whether a cell copies a first cell may change as other cells become first ones.
        undecided = m + np.flatnonzero(is_discounted & ~is_first[m:])
        while len(undecided):
            copies_first = is_first[sources[undecided]]
            if not copies_first.any():
                break
            is_first[undecided[copies_first]] = True
            undecided = undecided[~copies_first]
        brings_new = is_first.copy()
        brings_new[:m] = False
        return _GrowthCopies(np.where(brings_new, cells, sources), brings_new)

    def _draw_labels(
        self, features: Ints, sources: NDArray[np.int32], n_features: int, rng: Generator
    ) -> Ints:
        """Draw the label of each cell: by the labels' shares, or that of the cell it copies."""
        m = len(self.sample.features)
        n = len(features)

        # The concentration of each feature: a draw from its cumulated distribution.
        n_sample_features = len(self._counts)
        draws = rng.random(n_sample_features)[:, None]
        places = (draws > self._concentrations.of_features).sum(axis=1)
        new_draws = rng.random(n_features - n_sample_features)[:, None]
        new_places = (new_draws > self._concentrations.of_new).sum(axis=1)
        all_places = np.concatenate([places, new_places])
        concentrations = _CONCENTRATIONS[np.minimum(all_places, len(_CONCENTRATIONS) - 1)]

        # How many cells a feature has when a cell comes. They come in any order, so at cell i of
        # the growth a feature has this share of the cells that are added to it.
        before = np.concatenate([self._counts, np.zeros(len(new_places))])
        added = np.bincount(features, minlength=n_features) - before
        progress = np.arange(n - m) / (n - m)
        grown = features[m:]
        totals = (concentrations + before)[grown] + added[grown] * progress
        is_drawn = np.ones(n, bool)
        is_drawn[m:] = rng.random(n - m) * totals < concentrations[grown]
        labels = self.sample.labels[rng.integers(0, m, n)]
        labels[:m] = self.sample.labels
        cells = np.arange(n, dtype=np.int32)
        return labels[_follow(np.where(is_drawn, cells, sources))]


def _follow(pointers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return where each chain of pointers ends; ends point to themselves."""
    while True:
        further = pointers[pointers]
        if np.array_equal(further, pointers):
            return pointers
        pointers = further


def _exchange_labels(labels: Ints, m: int, totals: Ints, rng: Generator) -> Ints:
    """Return labels with some beyond the first m exchanged, so that totals are as expected."""
    grown = labels[m:]
    surplus = np.bincount(labels, minlength=len(totals)) - totals
    missing = np.maximum(-surplus, 0)
    if not missing.any():
        return labels
    grown_counts = np.maximum(np.bincount(grown, minlength=len(totals)), 1)
    surplus_shares = np.maximum(surplus, 0) / grown_counts
    replaced = np.flatnonzero(rng.random(len(grown)) < surplus_shares[grown])
    exchanged = labels.copy()
    exchanged[m + replaced] = rng.choice(len(totals), len(replaced), p=missing / missing.sum())
    return exchanged
