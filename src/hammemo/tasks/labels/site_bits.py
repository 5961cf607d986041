r"""Which sites matter, over all examples: the share of each in what the model gains, in bits.

The score of a log-linear vote is a sum over sites, :math:`S_c(q) = b_c + \sum_k s_{k,c}(q)`, and
its softmax are the probabilities. Let :math:`p_t` be the softmax of :math:`b + t \sum_k s_k`, t
from 0 to 1. The logarithm of the probability of label y rises by

.. math:: \log p_1(y) - \log p_0(y) = \sum_k \Bigl[ s_{k,y} - \sum_c \bar p(c) \, s_{k,c} \Bigr],
    \qquad \bar p = \int_0^1 p_t \, dt,

and the bracket is the share of site k (integrated gradients; Aumann and Shapley's shares). So the
shares of all sites add up to what the model gains over the labels alone, and sites that say the
same share what they say. They are means over the examples that the model keeps, each left out of
its own counts (:mod:`hammemo.votes.fitting`). A site below zero lowers the mean log-probability of
the right label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo.explain.bar_plot import draw_bars
from hammemo.features.additive.label_base import RowBytes
from hammemo.features.cells import TreeCells
from hammemo.memories.exact import with_free_rows
from hammemo.tokens.distinct import distinct_examples
from hammemo.votes import LogLinear
from hammemo.votes.base import softmax
from hammemo.votes.fitting import LabelledContexts, compute_features
from hammemo.votes.log_linear import label_shares
from hammemo.votes.tree_label_features import iterate_site_counts, log_ratios
from hammemo.votes.tree_label_rows import read_tree_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats, Ints
    from hammemo.kernels.sites import Site
    from hammemo.tasks.labels.layout import LabelState

_MAX_EXAMPLES: Final = 4000
"""Examples by which sites are measured, at most."""

_MAX_TREE_EXAMPLES: Final = 200
"""The same where trees are walked row by row."""

_MAX_NUMBERS: Final = 2**24
"""Numbers of all log-ratios, at most: with many sites or labels fewer examples are measured."""

_NODES: Final = 64
"""Points of the quadrature over t."""


@dataclass(frozen=True, eq=False)
class SiteBits:
    """What every site of a model is worth, the most valuable first.

    All add up to the gain over the labels alone.
    """

    names: tuple[str, ...]
    bits: Floats
    prior_bits: float
    """The log-loss where no site says anything: that of the labels' shares, with fitted offsets."""
    model_bits: float
    """The log-loss of the model, each example left out of its own counts."""
    n_examples: int
    """How many distinct examples were looked at."""
    sites: tuple[Site, ...]
    """The columns of each site; none for a site without a position."""

    def of_columns(self, h: int) -> Floats:
        """Return what each of h columns is worth.

        The worth of a tuple of columns is divided evenly among them.
        """
        column_bits = np.zeros(h)
        for site, bits in zip(self.sites, self.bits.tolist(), strict=True):
            column_bits[list(site)] += bits / max(len(site), 1)
        return column_bits

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = [
            f"{name:<{width}}  {value:+.4f}"
            for name, value in zip(self.names, self.bits.tolist(), strict=True)
        ]
        return "\n".join([self._title(), *lines])

    def plot(self, ax: Axes | None = None, most: int = 20) -> Axes:
        """Draw the most valuable sites as bars; return the axes.

        They are drawn on the axes given, or on those of a new figure.
        """
        what = "bits an example that the column or tuple adds"
        return draw_bars(ax, self.names[:most], self.bits[:most], what=what, title=self._title())

    def _title(self) -> str:
        return (
            f"log-loss: {self.prior_bits:.3f} bits by the labels alone, "
            f"{self.model_bits:.3f} by the model"
        )


def site_bits(state: LabelState) -> SiteBits:
    """Return what every site of a fitted model is worth, by a sample of its kept examples.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.tasks.labels.site_bits import site_bits
    >>> X = np.random.default_rng(0).integers(0, 2, (400, 4))
    >>> model = MemoryClassifier(numeric="none").fit(X, X[:, 0] ^ X[:, 2])
    >>> worth = site_bits(model.state)
    >>> worth.names[0], round(worth.prior_bits, 1), round(worth.model_bits, 1)
    ('(0, 2)', 1.0, 0.0)
    """
    if isinstance(state.layout.cells, TreeCells):
        terms = _compute_column_terms(state)
    else:
        terms = _compute_site_terms(state)
    multiplicities = terms.multiplicities
    weights = multiplicities / multiplicities.sum()
    sum_of_sites = terms.contributions.sum(axis=0)
    mean_probabilities = _average_probabilities(terms.base, sum_of_sites)
    shares_of_sites = _share_gain(terms.contributions, mean_probabilities, terms.labels)
    bits = shares_of_sites @ weights
    order = np.argsort(-bits, kind="stable")
    names = _name_columns(state)
    shown = [kind or show_site(site, names) for kind, site in terms.sites]
    base = np.broadcast_to(terms.base, sum_of_sites.shape)
    return SiteBits(
        names=tuple(shown[place] for place in order.tolist()),
        bits=bits[order],
        prior_bits=float(weights @ _compute_log_loss(base, terms.labels)),
        model_bits=float(weights @ _compute_log_loss(terms.base + sum_of_sites, terms.labels)),
        n_examples=len(terms.labels),
        sites=tuple(_list_columns(terms.sites[place]) for place in order.tolist()),
    )


class _SiteTerms(NamedTuple):
    """What the scores of examples are sums of."""

    contributions: Floats
    """What each site adds to each score, shape (S, m, L)."""
    base: Floats
    """What no site adds: shape (L,) or (m, L)."""
    labels: Ints
    """The right label of each example, as a column of scores."""
    multiplicities: Ints
    """How often each example occurs."""
    sites: Sequence[tuple[str, Site]]
    """For each site its kind, empty for columns, and its columns."""


def _name_columns(state: LabelState) -> Sequence[str] | None:
    """Return the names of the columns that sites compare; None where they have none."""
    cells = state.layout.cells
    names = state.columns.list_names()
    if cells is None or cells.narrowing is None:
        return names
    return cells.narrowing.narrow_names(names)


def _list_columns(site: tuple[str, Site]) -> Site:
    """Return the columns of a site; none for a site without a position."""
    kind, columns = site
    if kind:
        return ()
    return tuple(columns)


def bits_of_columns(state: LabelState, bits: SiteBits) -> Floats:
    """Return what each column of the table is worth."""
    cells = state.layout.cells
    if cells is None or cells.narrowing is None:
        return bits.of_columns(state.columns.n)
    return cells.narrowing.spread_total(bits.of_columns(len(cells.kinds)))


def show_site(site: Site, names: Sequence[str] | None) -> str:
    """Return a site as it is shown: the name of its column or its position, several in brackets."""
    if names is None:
        shown = [str(column) for column in site]
    else:
        shown = [str(names[column]) for column in site]
    if len(shown) == 1:
        return shown[0]
    return f"({', '.join(shown)})"


def _average_probabilities(base: Floats, sum_of_sites: Floats) -> Floats:
    """Return the mean over t from 0 to 1 of the softmax of ``base + t * sum_of_sites``.

    The integral is by Gauss and Legendre.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    mean = np.zeros_like(sum_of_sites)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        mean += weight * softmax(base + node * sum_of_sites)
    return mean


def _share_gain(contributions: Floats, mean_probabilities: Floats, labels: Ints) -> Floats:
    """Return the share of each site in the gain of each example, in bits.

    Shapes
    ------
    contributions : (S, m, L); mean_probabilities : (m, L); labels : (m,); returned : (S, m)
    """
    to_right_label = contributions[:, np.arange(len(labels)), labels]
    to_mean_label = np.einsum("kmc,mc->km", contributions, mean_probabilities)
    return np.asarray((to_right_label - to_mean_label) / np.log(2))


def _compute_log_loss(scores: Floats, labels: Ints) -> Floats:
    """Return the log-loss of each example, in bits."""
    shifted = scores - scores.max(axis=1, keepdims=True)  # exponentials stay finite
    log_totals = np.log(np.exp(shifted).sum(axis=1))
    return np.asarray((log_totals - shifted[np.arange(len(labels)), labels]) / np.log(2))


def _compute_site_terms(state: LabelState) -> _SiteTerms:
    """Return what each site adds to the scores of a sample of the kept examples."""
    vote = state.vote
    kept_examples = state.kept
    sites = state.layout.sites
    if not isinstance(vote, LogLinear):
        raise ValueError(
            f"vote={vote!r} has no probabilities: "
            "what a site is worth in bits is for vote='log-linear'."
        )
    if kept_examples is None or not len(kept_examples):
        raise ValueError("No sample of the examples is kept: fit with keep=True.")
    reader = with_free_rows(state.memory.reader(), sites)
    amounts = vote.amounts()
    examples = kept_examples.fitting_sample(vote)
    if state.layout.cells is not None:
        examples = state.layout.cells.replace_rows(examples)
    labels = reader.labels.find(examples.labels)[examples.label_ranks]

    # The distinct examples with the lowest hashes, as many as fit in the memory meant for them.
    rows, _, counts = distinct_examples(examples, state.memory.seed)
    numbers_per_example = len(reader.labels) * sites.n * len(amounts)
    limit = max(1, min(_MAX_EXAMPLES, _MAX_NUMBERS // numbers_per_example))
    rows = rows[:limit]
    counts = counts[:limit]

    rule = vote.rule(reader, sites)
    weights = np.broadcast_to(rule.weights, (*rule.weights.shape[:2], len(reader.labels)))
    prior = label_shares(reader.label_counts)
    labelled = LabelledContexts(
        examples.contexts[rows], labels[rows], prior, amounts, leave_one_out=True
    )
    ratios = compute_features(reader, labelled)
    by_site = ratios.reshape(*ratios.shape[:2], -1, len(amounts))
    contributions = np.einsum("cmkj,kjc->kmc", by_site, weights, optimize=True)
    return _SiteTerms(
        contributions=contributions.astype(np.float64),
        base=rule.base,
        labels=labels[rows],
        multiplicities=counts,
        sites=sites.describe(),
    )


def _compute_column_terms(state: LabelState) -> _SiteTerms:
    """Return what each column of a table with numbers adds to the scores of kept rows.

    A column of names is a site; any column has its share in what trees say. A row is judged by
    trees that it did not grow, which stand for all trees of their kind.
    """
    vote = state.vote
    cells = state.layout.cells
    kept_examples = state.rows
    if not isinstance(vote, LogLinear) or kept_examples is None or not len(kept_examples):
        raise ValueError(
            "What a column is worth in bits needs a log-linear vote and kept rows: "
            "the default has both."
        )
    assert isinstance(cells, TreeCells)
    reader = state.memory.static_reader()

    # The distinct rows with the lowest hashes.
    examples = cells.learn(kept_examples.examples())
    places, words, counts = cells.codes.distinct(examples, state.memory.seed)
    places = places[:_MAX_TREE_EXAMPLES]
    words = words[:_MAX_TREE_EXAMPLES]
    examples = replace(examples.rows(places), multiplicity=counts[:_MAX_TREE_EXAMPLES])
    rows = read_tree_rows(cells, examples, state.memory.seed, reader)

    # What sites say, divided among the columns that they compare or cut.
    rule = vote.rule(reader, state.layout.sites)
    weights = np.broadcast_to(rule.weights, (*rule.weights.shape[:2], len(reader.labels)))
    contributions = np.zeros((len(cells.kinds), len(rows.labels), len(reader.labels)))
    column_shares = cells.column_shares(examples.contexts)
    site_counts = iterate_site_counts(cells, rows, state.layout.sites)
    for site_weights, (site, label_counts, scale) in zip(weights, site_counts, strict=True):
        ratios = log_ratios(label_counts, rows.labels, reader.label_counts, vote.amounts())
        added = np.einsum("mcj,jc->mc", ratios, site_weights) * scale[:, None]
        contributions += column_shares[:, list(site)].mean(axis=1).T[:, :, None] * added

    # What the additive base says.
    base_weights = vote.base_weights(reader.labels)
    if base_weights is not None:
        coded = RowBytes(cells.codes.rows(examples.contexts), cells.codes.step_middles)
        of_base = cells.base.contributions_without_folds(coded, words, reader.labels)
        added = base_weights * of_base
        contributions += added
        of_no_column = base_weights * rows.base_ratios - added.sum(axis=0)
        contributions += of_no_column / len(contributions)  # it belongs to all columns
    return _SiteTerms(
        contributions=contributions,
        base=rule.base,
        labels=rows.labels,
        multiplicities=rows.multiplicity,
        sites=[("", (column,)) for column in range(len(cells.kinds))],
    )
