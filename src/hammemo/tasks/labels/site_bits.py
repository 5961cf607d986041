r"""Which sites matter, over all examples: the share of each in what the model gains, in bits an example.

The score of a log-linear vote is a sum over sites, :math:`S_c(q) = b_c + \sum_k s_{k,c}(q)`, and its softmax are the
probabilities. Let :math:`p_t` be the softmax of :math:`b + t \sum_k s_k`, t from 0 to 1. The logarithm of the
probability of label y rises by

.. math:: \log p_1(y) - \log p_0(y) = \sum_k \Bigl[ s_{k,y} - \sum_c \bar p(c) \, s_{k,c} \Bigr],
    \qquad \bar p = \int_0^1 p_t \, dt,

and the bracket is the share of site k (integrated gradients; Aumann and Shapley's shares). So the shares of all sites
add up to what the model gains over the labels alone, and sites that say the same share what they say. They are means
over the examples that the model keeps, each left out of its own counts (:mod:`hammemo.votes.fitting`). A site
below zero lowers the mean log-probability of the right label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

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
_MAX_TREE_EXAMPLES: Final = 200
"""The same where trees are walked row by row."""
_MAX_NUMBERS: Final = 2**24
_NODES: Final = 64


@dataclass(frozen=True, eq=False)
class SiteBits:
    """What every site of a model is worth, the most valuable first; all add up to the gain over the labels alone."""

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
        """Return what each of h columns is worth: a tuple of columns is divided evenly among them."""
        found = np.zeros(h)
        for site, bits in zip(self.sites, self.bits.tolist(), strict=True):
            found[list(site)] += bits / max(len(site), 1)
        return found

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = [
            f"{name:<{width}}  {value:+.4f}"
            for name, value in zip(self.names, self.bits.tolist(), strict=True)
        ]
        return "\n".join([self._title(), *lines])

    def plot(self, ax: Axes | None = None, most: int = 20) -> Axes:
        """Draw the most valuable sites as bars, on the axes or on those of a new figure; return them."""
        what = "bits an example that the column or tuple adds"
        return draw_bars(ax, self.names[:most], self.bits[:most], what=what, title=self._title())

    def _title(self) -> str:
        return f"log-loss: {self.prior_bits:.3f} bits by the labels alone, {self.model_bits:.3f} by the model"


def site_bits(state: LabelState) -> SiteBits:
    """Return what every site of a fitted model is worth, by the sample of its examples that it keeps.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.tasks.labels.site_bits import site_bits
    >>> X = np.random.default_rng(0).integers(0, 2, (400, 4))
    >>> found = site_bits(MemoryClassifier(numeric="none").fit(X, X[:, 0] ^ X[:, 2]).state)
    >>> found.names[0], round(found.prior_bits, 1), round(found.model_bits, 1)
    ('(0, 2)', 1.0, 0.0)
    """
    has_trees = isinstance(state.layout.cells, TreeCells)
    contributions, base, truths, multiplicity = (_of_columns if has_trees else _contributions)(
        state
    )
    together, weights = contributions.sum(axis=0), multiplicity / multiplicity.sum()
    gained = _shares(contributions, _mean_probabilities(base, together), truths) @ weights
    order = np.argsort(-gained, kind="stable")
    cells = state.layout.cells
    narrowing = None if cells is None else cells.narrowing
    n_columns = state.columns.n if cells is None else len(cells.kinds)
    sites = [("", (j,)) for j in range(n_columns)] if has_trees else state.layout.sites.described()
    listed = (
        state.columns.list_names()
        if narrowing is None
        else narrowing.narrow_names(state.columns.list_names())
    )
    shown = [kind or shown_site(site, listed) for kind, site in sites]
    return SiteBits(
        names=tuple(shown[k] for k in order.tolist()),
        bits=gained[order],
        prior_bits=float(weights @ _bits(np.broadcast_to(base, together.shape), truths)),
        model_bits=float(weights @ _bits(base + together, truths)),
        n_examples=len(truths),
        sites=tuple(() if sites[k][0] else tuple(sites[k][1]) for k in order.tolist()),
    )


def bits_of_columns(state: LabelState, bits: SiteBits) -> Floats:
    """Return what each column of the table is worth."""
    cells = state.layout.cells
    if cells is None or cells.narrowing is None:
        return bits.of_columns(state.columns.n)
    return cells.narrowing.spread_total(bits.of_columns(len(cells.kinds)))


def shown_site(site: Site, names: Sequence[str] | None) -> str:
    """Return a site as it is shown: the name of its column or its position, several in brackets."""
    shown = [str(j) if names is None else str(names[j]) for j in site]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def _mean_probabilities(base: Floats, together: Floats) -> Floats:
    """Return the mean over t from 0 to 1 of the softmax of ``base + t * together``, by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    mean = np.zeros_like(together)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        mean += weight * softmax(base + node * together)
    return mean


def _shares(contributions: Floats, mean: Floats, truths: Ints) -> Floats:
    """Return the share of each site in the gain of each example, in bits.

    Shapes
    ------
    contributions : (S, m, L); mean : (m, L); truths : (m,); returned : (S, m)
    """
    of_truth = contributions[:, np.arange(len(truths)), truths]
    return np.asarray((of_truth - np.einsum("kmc,mc->km", contributions, mean)) / np.log(2))


def _bits(scores: Floats, truths: Ints) -> Floats:
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(
        (np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(truths)), truths]) / np.log(2)
    )


def _contributions(state: LabelState) -> tuple[Floats, Floats, Ints, Ints]:
    """Return what each site adds to each score, shape (S, m, L), the base, labels and multiplicities."""
    vote, sample, memory = state.vote, state.kept, state.memory
    if not isinstance(vote, LogLinear):
        raise ValueError(
            f"vote={vote!r} has no probabilities: what a site is worth in bits is for vote='log-linear'."
        )
    if sample is None or not len(sample):
        raise ValueError("No sample of the examples is kept: fit with keep=True.")
    reader, smoothing = with_free_rows(memory.reader(), state.layout.sites), vote.amounts()
    examples = sample.fitting_sample(vote)
    examples = examples if state.layout.cells is None else state.layout.cells.counted(examples)
    columns = reader.labels.find(examples.labels)[examples.label_ranks]
    rows, _, counts = distinct_examples(examples, memory.seed)
    width = len(reader.labels) * state.layout.sites.n * len(smoothing)
    most = max(1, min(_MAX_EXAMPLES, _MAX_NUMBERS // width))
    rows, counts = rows[:most], counts[:most]
    rule = vote.rule(reader, state.layout.sites)
    weights = np.broadcast_to(rule.weights, (*rule.weights.shape[:2], len(reader.labels)))
    prior = label_shares(reader.label_counts)
    ratios = compute_features(
        reader, LabelledContexts(examples.contexts[rows], columns[rows], prior, smoothing, True)
    )
    by_site = ratios.reshape(*ratios.shape[:2], -1, len(smoothing))
    contributions = np.einsum("cmkj,kjc->kmc", by_site, weights, optimize=True)
    return contributions.astype(np.float64), rule.base, columns[rows], counts


def _of_columns(state: LabelState) -> tuple[Floats, Floats, Ints, Ints]:
    """Return what each column of a table with numbers adds to each score: names, and its share in what trees say.

    A row is judged by trees that it did not grow, which stand for all trees of their kind.
    """
    vote, cells, kept, memory = state.vote, state.layout.cells, state.rows, state.memory
    if not isinstance(vote, LogLinear) or kept is None or not len(kept):
        raise ValueError(
            "What a column is worth in bits needs a log-linear vote and kept rows: the default has both."
        )
    assert isinstance(cells, TreeCells)
    reader, examples = memory.static_reader(), cells.learn(kept.examples())
    chosen, words, counts = cells.codes.distinct(examples, memory.seed)
    examples = replace(
        examples.rows(chosen[:_MAX_TREE_EXAMPLES]), multiplicity=counts[:_MAX_TREE_EXAMPLES]
    )
    rows = read_tree_rows(cells, examples, memory.seed, reader)
    rule = vote.rule(reader, state.layout.sites)
    weights = np.broadcast_to(rule.weights, (*rule.weights.shape[:2], len(reader.labels)))
    found = np.zeros((len(cells.kinds), len(rows.labels), len(reader.labels)))
    of_rows = cells.column_shares(examples.contexts)
    for k, (site, counts, scale) in enumerate(iterate_site_counts(cells, rows, state.layout.sites)):
        ratios = log_ratios(counts, rows.labels, reader.label_counts, vote.amounts())
        added = np.einsum("mcj,jc->mc", ratios, weights[k]) * scale[:, None]
        found += of_rows[:, list(site)].mean(axis=1).T[:, :, None] * added
    of_base = vote.base_weights(reader.labels)
    if of_base is None:
        return found, rule.base, rows.labels, rows.multiplicity
    coded = RowBytes(cells.codes.rows(examples.contexts), cells.codes.step_middles)
    added = of_base * cells.base.contributions_without_folds(
        coded, words[:_MAX_TREE_EXAMPLES], reader.labels
    )
    found += added
    found += (of_base * rows.base_ratios - added.sum(axis=0)) / len(
        found
    )  # what belongs to no column belongs to all
    return found, rule.base, rows.labels, rows.multiplicity
