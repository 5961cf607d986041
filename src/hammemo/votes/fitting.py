r"""The weights of a log-linear vote, by convex optimisation on what a memory holds.

For example i with label :math:`y_i` let :math:`x_{i,f,c}` be the smoothed log-ratio of label c at feature f, one
for each site and amount of smoothing (:mod:`hammemo.memories.row_rules`). The weights minimise the log-loss

.. math:: \frac1M \sum_i m_i \Bigl[ \log \sum_c e^{s_{i,c}} - s_{i,y_i} \Bigr]
    + \frac{\lambda}{M} \Bigl[ \sum_f (w_f - w^0_f)^2 + \sum_{f,c} v_{f,c}^2 + \sum_c b_c^2 \Bigr],
    \qquad s_{i,c} = \log p_c + b_c + \sum_f (w_f + v_{f,c}) \, x_{i,f,c},

with multiplicities :math:`m_i` and :math:`M = \sum_i m_i`. The scores are linear in the weights, so this is convex; the
ridge makes the minimum unique and, as M grows, counts for less. Starting weights :math:`w^0` are those of an average of
the sites. L-BFGS stops after a fixed number of steps: what is left of the loss by then is far below its sampling error.

**Leave one out.** A stored example's own count is in every row it reads: where the row is its own alone, that row would
seem to know the label. So one count of the example is subtracted from its label in each of its rows before the ratio is
taken. The result is what the memory would have said had it never seen that example, so no held-out split is needed.

Log-ratios depend on the cells that an example lies in. So the compiled form (``src/native/selection``) reads tables by
cell where there are three amounts of smoothing and the rows of an exact memory; otherwise there are arrays of features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.optimize import minimize

from hammemo import _native
from hammemo._arrays.integers import row_pieces
from hammemo._arrays.logarithms import log
from hammemo._arrays.threads import in_threads, thread_pieces
from hammemo.memories.exact import SparseCounts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Contexts

_TOLERANCE = 1e-6
"""A step that takes less off the loss is the last one; of the loss itself where that is above 1."""
_MAX_TABLE_EXAMPLES = 2**24
"""Examples of a memory up to which there are tables: they have logarithms by count."""
_COMPILED_AMOUNTS = 3

SHARED_STEPS = 60
"""Steps of a first stage, for weights that all labels share."""

MAX_FEATURES = 2**27
"""Features held at a time, four bytes each: with many labels or sites, fewer examples are used."""


@dataclass(frozen=True, eq=False)
class FittedWeights:
    """Weights of every feature, for all labels and how those of each label differ, and one number a label."""

    shared: Floats
    """Shape (F,)."""
    differences: Floats
    """Shape (F, L); zero where weights were not fitted label by label."""
    offsets: Floats
    """Shape (L,)."""


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

    def __getitem__(self, part: slice) -> LabelledContexts:
        return replace(self, contexts=self.contexts[part], labels=self.labels[part])


def features(reader: Reader, rows: LabelledContexts) -> NDArray[np.float32]:
    """Return the log-ratios of examples; site by site, then by smoothing.

    Shapes
    ------
    returned : (L, m, S * J)
    """
    labels, prior, smoothing, n_sites = rows.labels, rows.prior, rows.smoothing, reader.sites.n
    out = np.empty((len(prior), len(labels), n_sites * len(smoothing)), np.float32)
    for part in row_pieces(len(labels), n_sites * len(prior)):
        counts = reader.site_counts(rows.contexts[part])
        if rows.leave_one_out:
            held = counts[np.arange(len(counts)), :, labels[part]]
            own = reader.own_counts(rows.contexts[part], labels[part])
            counts[np.arange(len(counts)), :, labels[part]] = np.maximum(
                held - own, 0
            )  # an empty site counts nothing
        totals = counts.sum(axis=2)
        ratios = (counts / prior).transpose(2, 0, 1)
        for j, amount in enumerate(smoothing):
            out[:, part, j :: len(smoothing)] = np.log1p(ratios / amount) - np.log1p(
                totals / amount
            )
    return out


@dataclass(frozen=True, eq=False)
class DenseFits:
    """Arrays of features.

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
        """Return the weights that minimise the log-loss, as the module's text defines it; steps begin at `warm`.

        Shapes
        ------
        start : (F,)
        """
        problem = _Problem(
            self.ratios, self.labels, self.multiplicity, self.prior, start, ridge, per_label
        )
        first = _vector(start, len(self.prior), warm, per_label=per_label)
        found = minimize(problem, first, jac=True, method="L-BFGS-B", options={"maxiter": steps})
        return _weights(found.x, len(start), len(self.prior), per_label=per_label)


@dataclass(frozen=True, eq=False)
class TableFits:
    """Tables by cell, of which the first features are taken, or features in blocks of rows; compiled.

    Sums are in an order that depends on the rows alone, so the weights are the same bytes on any x86-64 processor.
    """

    tables: _native.LogRatios | _native.DenseRatios
    multiplicity: Ints
    prior: Floats
    n_features: int
    is_bounded: bool = False
    """Whether no label may have a negative weight; for features in blocks."""
    tolerance: float = _TOLERANCE

    def fit(
        self,
        *,
        start: Floats,
        ridge: float,
        per_label: bool,
        steps: int,
        warm: FittedWeights | None = None,
    ) -> FittedWeights:
        """Return the weights that minimise the log-loss."""
        total = float(self.multiplicity.sum())
        vector = _vector(start, len(self.prior), warm, per_label=per_label)
        shares, strength = self.multiplicity / total, ridge / total
        fit: Callable[..., None] = self.tables.fit
        if self.is_bounded:  # only features in blocks
            fit = partial(fit, is_bounded=True)
        fit(
            base=log(self.prior),
            shares=shares,
            start=start,
            strength=strength,
            by_label=per_label,
            steps=steps,
            tolerance=self.tolerance,
            at=vector,
        )
        return _weights(vector, len(start), len(self.prior), per_label=per_label)


Fits: TypeAlias = DenseFits | TableFits
"""Log-ratios of examples that weights can be fitted to."""


def fits_to(
    ratios: NDArray[np.float32],
    labels: Ints,
    multiplicity: Ints,
    prior: Floats,
    rows: Ints | None = None,
    *,
    is_bounded: bool = False,
    tolerance: float = _TOLERANCE,
) -> TableFits:
    """Return features to be fitted to, those of some rows or of all.

    With `is_bounded` no label gets a negative weight: what a cell says for a label never counts against it.

    Shapes
    ------
    ratios : (L, m, F); labels, multiplicity : (m,); prior : (L,)
    """
    if rows is None:
        rows = np.arange(len(labels))
    blocks = _native.DenseRatios.of_rows(
        ratios, rows.astype(np.int64), labels[rows].astype(np.int32)
    )
    return TableFits(blocks, multiplicity[rows], prior, int(ratios.shape[2]), is_bounded, tolerance)


def _vector(start: Floats, n_labels: int, warm: FittedWeights | None, *, per_label: bool) -> Floats:
    """Return weights as one vector: shared ones, then with `per_label` differences label by label, then offsets."""
    if warm is not None:
        parts = (
            [warm.shared, warm.differences.T.ravel(), warm.offsets] if per_label else [warm.shared]
        )
        return np.concatenate(parts)
    return np.concatenate([start, np.zeros(n_labels * (len(start) + 1) if per_label else 0)])


def _weights(vector: Floats, n_features: int, n_labels: int, *, per_label: bool) -> FittedWeights:
    if not per_label:
        return FittedWeights(vector.copy(), np.zeros((n_features, n_labels)), np.zeros(n_labels))
    shared, differences, offsets = np.split(vector, [n_features, n_features * (n_labels + 1)])
    by_label = np.ascontiguousarray(differences.reshape(n_labels, n_features).T)
    return FittedWeights(shared.copy(), by_label, offsets.copy())


def can_be_tables(reader: Reader, sites: Sites, smoothing: tuple[float, ...]) -> bool:
    """Return whether there are compiled tables for what this reader holds."""
    is_read = isinstance(reader, SparseCounts) and not sites.free and len(reader.labels) > 1
    few = int(reader.label_counts.sum()) <= _MAX_TABLE_EXAMPLES
    return is_read and few and len(smoothing) == _COMPILED_AMOUNTS


def tables_of(reader: SparseCounts, asked: LabelledContexts) -> _native.LogRatios:
    """Return the log-ratios of examples, as tables.

    Cells are numbered by what the examples hold, so the order of sums does not depend on how the memory stores rows.
    """
    contexts, prior = asked.contexts, asked.prior
    amounts, own = np.array(asked.smoothing), asked.labels.astype(np.int32)
    sizes = np.full(contexts.h, max(1, len(contexts.vocabulary)), np.int32)
    codes = np.ascontiguousarray(contexts.ranks.T, np.int32)
    scan = _native.SiteScan(codes=codes, sizes=sizes, labels=own, prior=prior, amounts=amounts, n=0)
    rows, matrix, _ = reader.rows.read(contexts)
    cells, read, n_cells = np.empty((reader.sites.n, len(contexts)), np.int32), [], 0
    for site, of_site, place in zip(reader.sites.positions, cells, rows.T, strict=True):
        found = scan.cells(np.array(site, np.int32), of_site)
        held = np.flatnonzero(of_site >= 0)
        first = np.empty(found, np.int64)
        first[of_site[held[::-1]]] = place[
            held[::-1]
        ]  # the first example of each cell is written last
        of_site[held] += n_cells
        n_cells += found
        read.append(first)
    chosen = np.concatenate(read)
    is_stored = chosen >= 0
    entries = matrix[chosen[is_stored]]
    lengths = np.zeros(n_cells, np.int64)
    lengths[is_stored] = np.diff(entries.indptr)
    return _native.LogRatios.of_counts(
        cells=cells,
        starts=np.concatenate([[0], np.cumsum(lengths)]),
        labels=entries.indices.astype(np.int32),
        counts=entries.data.astype(np.int64),
        own_labels=own,
        prior=prior,
        amounts=amounts,
        most=reader.label_counts.astype(np.int64),
        leave_one_out=asked.leave_one_out,
    )


@dataclass(eq=False)
class _Problem:
    """The loss and its gradient, as a function of one vector."""

    ratios: NDArray[np.float32]
    labels: Ints
    multiplicity: Ints
    prior: Floats
    start: Floats
    ridge: float
    per_label: bool

    def __post_init__(self) -> None:
        self.shares = self.multiplicity / self.multiplicity.sum()
        self.strength = self.ridge / float(self.multiplicity.sum())
        self.places = np.arange(len(self.labels))

    @property
    def size(self) -> int:
        n_labels, n_features = len(self.prior), len(self.start)
        return n_features + (n_features * n_labels + n_labels if self.per_label else 0)

    def split(self, vector: Floats) -> tuple[Floats, ...]:
        """Return the shared weights (F,), the differences (L, F) and the offsets (L,)."""
        n_labels, n_features = len(self.prior), len(self.start)
        if not self.per_label:
            return vector, np.zeros((n_labels, n_features)), np.zeros(n_labels)
        shared, differences, offsets = np.split(vector, [n_features, n_features * (n_labels + 1)])
        return shared, differences.reshape(n_labels, n_features), offsets

    def __call__(self, vector: Floats) -> tuple[float, Floats]:
        shared, differences, offsets = self.split(vector)
        weights = (shared + differences).astype(np.float32)
        scores = _products(self.ratios, weights[:, :, None])[:, :, 0].T.astype(np.float64)
        scores += np.log(self.prior) + offsets
        scores -= scores.max(axis=1, keepdims=True)
        excess = np.exp(scores)  # probabilities, and then what they exceed the observed label by
        sums = excess.sum(axis=1)
        losses = np.log(sums) - scores[self.places, self.labels]
        excess /= sums[:, None]
        excess[self.places, self.labels] -= 1
        excess *= self.shares[:, None]
        by_label = _products(excess.T.astype(np.float32)[:, None, :], self.ratios)[:, 0].astype(
            np.float64
        )
        return self._with_ridge(vector, float(self.shares @ losses), by_label, excess.sum(axis=0))

    def _with_ridge(
        self, vector: Floats, loss: float, by_label: Floats, by_offset: Floats
    ) -> tuple[float, Floats]:
        parts: list[Any] = [by_label.sum(axis=0)]
        if self.per_label:
            parts += [by_label.ravel(), by_offset]
        away = vector - np.concatenate([self.start, np.zeros(len(vector) - len(self.start))])
        return loss + self.strength * float(away @ away), np.concatenate(
            parts
        ) + 2 * self.strength * away


def _products(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the product of two matrices for each label; with threads, each has some of the labels."""
    pieces = thread_pieces(len(left), each=1)
    found = in_threads(lambda labels: np.matmul(left[labels], right[labels]), pieces)
    return found[0] if len(found) == 1 else np.concatenate(found)
