r"""The weights of a log-linear vote, by convex optimisation on what a memory holds.

For example i with label :math:`y_i` let :math:`x_{i,f,c}` be the smoothed log-ratio of label c at
feature f, one for each site and amount of smoothing (:mod:`hammemo.memories.row_rules`). The
weights minimise the log-loss

.. math:: \frac1M \sum_i m_i \Bigl[ \log \sum_c e^{s_{i,c}} - s_{i,y_i} \Bigr]
    + \frac{\lambda}{M} \Bigl[ \sum_f (w_f - w^0_f)^2 + \sum_{f,c} v_{f,c}^2 + \sum_c b_c^2 \Bigr],
    \qquad s_{i,c} = \log p_c + b_c + \sum_f (w_f + v_{f,c}) \, x_{i,f,c},

with multiplicities :math:`m_i` and :math:`M = \sum_i m_i`. The scores are linear in the weights, so
this is convex; the ridge makes the minimum unique and, as M grows, counts for less. Starting
weights :math:`w^0` are those of an average of the sites. L-BFGS stops after a fixed number of
steps: the loss is then above its minimum by far less than its sampling error.

**Leave one out.** A stored example's own count is in every row it reads: a row that holds nothing
else would seem to know the label. So one count of the example is subtracted from its label in each
of its rows before the ratio is taken. The result is what the memory would have said had it never
seen that example, so no held-out split is needed.

Log-ratios depend on the cells that an example lies in. So the compiled form
(``src/native/selection``) reads tables by cell where there are three amounts of smoothing and the
rows of an exact memory; otherwise there are arrays of features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize

from hammemo import _native
from hammemo._arrays.integers import row_pieces
from hammemo._arrays.logarithms import log
from hammemo._arrays.threads import in_threads, thread_pieces
from hammemo._versions import Cached, cached_property
from hammemo.memories.exact import SparseCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Contexts

SHARED_STEPS: Final = 60
"""Steps of a first stage, for weights that all labels share."""

MAX_FEATURES: Final = 2**27
"""Features in memory at a time, four bytes each: with many labels or sites, fewer examples are
used."""

_TOLERANCE: Final = 1e-6
"""A step that takes less off the loss is the last one; relative to the loss where it is above 1."""

_MAX_TABLE_EXAMPLES: Final = 2**24
"""Examples of a memory up to which there are tables: they have logarithms by count."""

_COMPILED_AMOUNTS: Final = 3
"""How many amounts of smoothing the tables of compiled code have."""


@dataclass(frozen=True, eq=False)
class FittedWeights:
    """The weights of every feature, and one number for each label."""

    shared: Floats
    """What all labels have in common: (F,)."""
    differences: Floats
    """What is added for each label: (F, L); zero where weights were not fitted label by label."""
    offsets: Floats
    """What is added to the score of each label: (L,)."""

    @classmethod
    def from_shared(cls, shared: Floats, n_labels: int) -> FittedWeights:
        """Return weights that all labels share."""
        return cls(shared, np.zeros((len(shared), n_labels)), np.zeros(n_labels))


# What weights are fitted to


@dataclass(frozen=True, eq=False)
class LabelledContexts:
    """Examples whose labels have the columns `labels`, and how their log-ratios are made.

    Shapes
    ------
    labels : (m,); prior : (L,)
    """

    contexts: Contexts
    labels: Ints
    prior: Floats
    smoothing: tuple[float, ...]
    leave_one_out: bool

    def __getitem__(self, rows: slice) -> LabelledContexts:
        return replace(self, contexts=self.contexts[rows], labels=self.labels[rows])


def compute_features(reader: Reader, examples: LabelledContexts) -> NDArray[np.float32]:
    """Return the log-ratios of examples; site by site, then by smoothing.

    Shapes
    ------
    returned : (L, m, S * J)
    """
    labels = examples.labels
    prior = examples.prior
    n_sites = reader.sites.n
    n_amounts = len(examples.smoothing)
    features = np.empty((len(prior), len(labels), n_sites * n_amounts), np.float32)
    for piece in row_pieces(len(labels), n_sites * len(prior)):
        counts = reader.site_counts(examples.contexts[piece])
        if examples.leave_one_out:
            rows = np.arange(len(counts))
            label_counts = counts[rows, :, labels[piece]]
            example_counts = reader.compute_example_counts(examples.contexts[piece], labels[piece])
            # an empty site counts nothing, so there is nothing to subtract from
            counts[rows, :, labels[piece]] = np.maximum(label_counts - example_counts, 0)
        totals = counts.sum(axis=2)
        ratios = (counts / prior).transpose(2, 0, 1)
        for j, amount in enumerate(examples.smoothing):
            total_logs = np.log1p(totals / amount)
            features[:, piece, j::n_amounts] = np.log1p(ratios / amount) - total_logs
    return features


def can_build_tables(reader: Reader, sites: Sites, smoothing: tuple[float, ...]) -> bool:
    """Return whether there are compiled tables for what this reader holds."""
    if not isinstance(reader, SparseCounts) or sites.free or len(reader.labels) < 2:
        return False
    n_examples = int(reader.label_counts.sum())
    return n_examples <= _MAX_TABLE_EXAMPLES and len(smoothing) == _COMPILED_AMOUNTS


def build_tables(reader: SparseCounts, examples: LabelledContexts) -> _native.LogRatios:
    """Return the log-ratios of examples, as tables by cell.

    Cells are numbered by what the examples hold, so the order of sums does not depend on how the
    memory stores rows.
    """
    contexts = examples.contexts
    labels = examples.labels.astype(np.int32)
    amounts = np.array(examples.smoothing)
    scan = _native.SiteScan(
        codes=np.ascontiguousarray(contexts.ranks.T, np.int32),
        sizes=np.full(contexts.h, max(1, len(contexts.vocabulary)), np.int32),
        labels=labels,
        prior=examples.prior,
        amounts=amounts,
        n=0,
    )
    rows, matrix, _ = reader.rows.read(contexts)

    # The cells of each example, numbered over all sites, and which row of the matrix each cell is.
    cells = np.empty((reader.sites.n, len(contexts)), np.int32)
    cell_rows = []
    n_cells = 0
    for site, site_cells, site_rows in zip(reader.sites.positions, cells, rows.T, strict=True):
        n_site_cells = scan.cells(np.array(site, np.int32), site_cells)
        inside = np.flatnonzero(site_cells >= 0)
        firsts = np.empty(n_site_cells, np.int64)
        # the first example of each cell is written last
        firsts[site_cells[inside[::-1]]] = site_rows[inside[::-1]]
        cell_rows.append(firsts)
        site_cells[inside] += n_cells
        n_cells += n_site_cells

    # The entries of these rows; the memory may have no row for a cell.
    matrix_rows = np.concatenate(cell_rows)
    is_stored = matrix_rows >= 0
    entries = matrix[matrix_rows[is_stored]]
    lengths = np.zeros(n_cells, np.int64)
    lengths[is_stored] = np.diff(entries.indptr)
    return _native.LogRatios.of_counts(
        cells=cells,
        starts=np.concatenate([[0], np.cumsum(lengths)]),
        labels=entries.indices.astype(np.int32),
        counts=entries.data.astype(np.int64),
        own_labels=labels,
        prior=examples.prior,
        amounts=amounts,
        most=reader.label_counts.astype(np.int64),
        leave_one_out=examples.leave_one_out,
    )


# The fit


class _SplitVector(NamedTuple):
    """The pieces of a vector of weights, as views of it."""

    shared: Floats
    """Shape (F,)."""
    differences: Floats
    """Label by label: (L, F)."""
    offsets: Floats
    """Shape (L,)."""


@dataclass(frozen=True)
class VectorLayout:
    """Weights as one vector: shared, and with `per_label` differences by label and offsets."""

    n_features: int
    n_labels: int
    per_label: bool

    @property
    def size(self) -> int:
        """The length of the vector."""
        if not self.per_label:
            return self.n_features
        return self.n_features + self.n_labels * (self.n_features + 1)

    def pack(self, start: Floats, warm: FittedWeights | None) -> Floats:
        """Return the vector of the weights `warm`; without them, of `start` for all labels."""
        if warm is None:
            return np.concatenate([start, np.zeros(self.size - self.n_features)])
        if not self.per_label:
            return warm.shared.copy()
        return np.concatenate([warm.shared, warm.differences.T.ravel(), warm.offsets])

    def split(self, vector: Floats) -> _SplitVector:
        """Return the pieces of a vector."""
        if not self.per_label:
            no_differences = np.zeros((self.n_labels, self.n_features))
            return _SplitVector(vector, no_differences, np.zeros(self.n_labels))
        ends = [self.n_features, self.n_features * (self.n_labels + 1)]
        shared, differences, offsets = np.split(vector, ends)
        return _SplitVector(shared, differences.reshape(self.n_labels, self.n_features), offsets)

    def unpack(self, vector: Floats) -> FittedWeights:
        """Return the weights of a vector."""
        shared, differences, offsets = self.split(vector)
        return FittedWeights(shared.copy(), np.ascontiguousarray(differences.T), offsets.copy())


class Fits(Protocol):
    """Log-ratios of examples that weights can be fitted to."""

    @property
    def n_features(self) -> int:
        """How many log-ratios a label has."""

    def fit(
        self,
        *,
        start: Floats,
        ridge: float,
        per_label: bool,
        steps: int,
        warm: FittedWeights | None = None,
    ) -> FittedWeights:
        """Return the weights that minimise the log-loss, as the module's text defines it.

        Parameters
        ----------
        start : ndarray of shape (F,)
            The weights that the ridge pulls to.
        warm : FittedWeights, optional
            Where steps begin; by default at `start`.
        """


@dataclass(frozen=True, eq=False)
class DenseFits:
    """Arrays of features that weights can be fitted to.

    Shapes
    ------
    ratios : (L, m, F); labels, multiplicity : (m,); prior : (L,)
    """

    ratios: NDArray[np.float32]
    labels: Ints
    multiplicity: Ints
    prior: Floats

    @property
    def n_features(self) -> int:
        """How many log-ratios a label has."""
        return int(self.ratios.shape[2])

    def fit(
        self,
        *,
        start: Floats,
        ridge: float,
        per_label: bool,
        steps: int,
        warm: FittedWeights | None = None,
    ) -> FittedWeights:
        """Return the weights that minimise the log-loss; see :meth:`Fits.fit`."""
        layout = VectorLayout(len(start), len(self.prior), per_label)
        loss = DenseLoss(
            ratios=self.ratios,
            labels=self.labels,
            multiplicity=self.multiplicity,
            prior=self.prior,
            start=start,
            ridge=ridge,
            per_label=per_label,
        )
        result = minimize(
            loss,
            layout.pack(start, warm),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps},
        )
        return layout.unpack(result.x)


@dataclass(frozen=True, eq=False)
class CompiledFits:
    """Tables by cell, of which the first features are taken, or features in blocks of rows.

    Sums are in an order that depends on the rows alone, so the weights are the same bytes on any
    x86-64 processor.
    """

    tables: _native.LogRatios | _native.DenseRatios
    multiplicity: Ints
    prior: Floats
    n_features: int
    is_bounded: bool = False
    """Whether no label may have a negative weight: what a cell says for a label never counts
    against it. For features in blocks."""
    tolerance: float = _TOLERANCE

    @classmethod
    def from_features(
        cls,
        ratios: NDArray[np.float32],
        *,
        labels: Ints,
        multiplicity: Ints,
        prior: Floats,
        is_bounded: bool = False,
        tolerance: float = _TOLERANCE,
        rows: Ints | None = None,
    ) -> CompiledFits:
        """Return features in blocks, those of some rows or of all.

        Shapes
        ------
        ratios : (L, m, F); labels, multiplicity : (m,); prior : (L,)
        """
        if rows is None:
            rows = np.arange(len(labels))
        blocks = _native.DenseRatios.of_rows(
            ratios=ratios, rows=rows.astype(np.int64), labels=labels[rows].astype(np.int32)
        )
        return cls(
            tables=blocks,
            multiplicity=multiplicity[rows],
            prior=prior,
            n_features=int(ratios.shape[2]),
            is_bounded=is_bounded,
            tolerance=tolerance,
        )

    def fit(
        self,
        *,
        start: Floats,
        ridge: float,
        per_label: bool,
        steps: int,
        warm: FittedWeights | None = None,
    ) -> FittedWeights:
        """Return the weights that minimise the log-loss; see :meth:`Fits.fit`."""
        layout = VectorLayout(len(start), len(self.prior), per_label)
        vector = layout.pack(start, warm)
        total = float(self.multiplicity.sum())
        base = log(self.prior)
        shares = self.multiplicity / total
        strength = ridge / total
        if isinstance(self.tables, _native.DenseRatios):
            self.tables.fit(
                base=base,
                shares=shares,
                start=start,
                strength=strength,
                by_label=per_label,
                steps=steps,
                tolerance=self.tolerance,
                is_bounded=self.is_bounded,
                at=vector,
            )
        else:
            self.tables.fit(
                base=base,
                shares=shares,
                start=start,
                strength=strength,
                by_label=per_label,
                steps=steps,
                tolerance=self.tolerance,
                at=vector,
            )
        return layout.unpack(vector)


@dataclass(frozen=True, eq=False)
class DenseLoss(Cached):
    """The loss and its gradient, as a function of one vector (:class:`VectorLayout`)."""

    ratios: NDArray[np.float32]
    labels: Ints
    multiplicity: Ints
    prior: Floats
    start: Floats
    ridge: float
    per_label: bool

    @cached_property
    def layout(self) -> VectorLayout:
        """How the vector is divided."""
        return VectorLayout(len(self.start), len(self.prior), self.per_label)

    @cached_property
    def shares(self) -> Floats:
        """The share of each example: (m,)."""
        return np.asarray(self.multiplicity / self.multiplicity.sum())

    @cached_property
    def strength(self) -> float:
        """The ridge of one example."""
        return self.ridge / float(self.multiplicity.sum())

    def __call__(self, vector: Floats) -> tuple[float, Floats]:
        """Return the loss at a vector, and its gradient."""
        shared, differences, offsets = self.layout.split(vector)
        rows = np.arange(len(self.labels))

        # The scores, and the log-loss: log of the sum of exponentials, less the observed score.
        weights = (shared + differences).astype(np.float32)
        scores = _multiply(self.ratios, weights[:, :, None])[:, :, 0].T.astype(np.float64)
        scores += np.log(self.prior) + offsets
        scores -= scores.max(axis=1, keepdims=True)
        odds = np.exp(scores)
        sums = odds.sum(axis=1)
        losses = np.log(sums) - scores[rows, self.labels]

        # The gradient: the features times what probabilities exceed the observed label by.
        excess = odds  # in place: there may be half a GiB of it
        excess /= sums[:, None]
        excess[rows, self.labels] -= 1
        excess *= self.shares[:, None]
        by_label = _multiply(excess.T.astype(np.float32)[:, None, :], self.ratios)[:, 0]
        by_label = by_label.astype(np.float64)
        gradient = [by_label.sum(axis=0)]
        if self.per_label:
            gradient += [by_label.ravel(), excess.sum(axis=0)]

        # The ridge, towards `start`, and towards zero for differences and offsets.
        deviation = vector - self.layout.pack(self.start, None)
        penalty = self.strength * float(deviation @ deviation)
        loss = float(self.shares @ losses) + penalty
        return loss, np.concatenate(gradient) + 2 * self.strength * deviation


def _multiply(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the product of two matrices for each label; each thread has some of the labels."""
    pieces = thread_pieces(len(left), each=1)
    products = in_threads(lambda labels: np.matmul(left[labels], right[labels]), pieces)
    return products[0] if len(products) == 1 else np.concatenate(products)
