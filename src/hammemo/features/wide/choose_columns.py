r"""Which columns of a wide table are looked at one by one.

The choice is a function of the multiset of the rows and of the seed. A column is chosen by how far
the means of its scaled numbers differ between labels, or follow the target:

.. math:: F_j = \frac{\sum_c n_c \bar z_{jc}^2 - n \bar z_j^2}{L - 1} \Big/
          \frac{\sum_i z_{ij}^2 - \sum_c n_c \bar z_{jc}^2}{n - L}

The sums are exact. Where a column says nothing, F is near one; of P such columns the highest is
below

.. math:: 1 + 2 \sqrt{x / (L - 1)} + 2 x / (L - 1), \qquad x = \log P,

by the bound of Laurent and Massart [1]_, and only columns above that are chosen. Without it, the
best of 20,000 columns of noise would look as if they told labels, also on folds left out, because
all rows chose them. Columns are compared by quarters of doublings of F, ties by their order, and
bounds depend on the bits of numbers, so a single row changes few of them. All other columns still
count in the linear scores (:mod:`hammemo.features.wide.fit_scores`).

A column is also chosen by its square, and in tables of up to about two thousand columns by its
products with others (:mod:`hammemo.features.wide.products`). Chosen by held-out rows of normal
numbers, 300 rows x 600 columns: labels that follow squares have log-loss .69 without products and
.12 with them; the sign of a product .69 and .06; six columns on a line .21 and .21.

.. [1] Laurent and Massart (2000), Adaptive estimation of a quadratic functional by model selection,
   lemma 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.features.wide.fit_scores import fit_scores
from hammemo.features.wide.narrowing import Narrowing
from hammemo.features.wide.products import (
    can_measure_pairs,
    measure_by_labels,
    measure_by_numbers,
    measure_pairs,
    measure_squares,
)
from hammemo.features.wide.scaling import Scaling
from hammemo.features.wide.score_targets import LabelTargets, NumberTargets, Targets
from hammemo.kernels.sites import MAX_SITES
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.distinct import distinct_examples
from hammemo.tokens.hashing import key_words
from hammemo.tokens.packed_rows import MOST_PLAIN_COLUMNS

if TYPE_CHECKING:
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.features.wide.products import Measure, SumProducts
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.columns import Columns
    from hammemo.tokens.contexts import Examples

MOST_CHOSEN: Final = 48
"""Columns that are looked at one by one, at most: held-out rows of digits with 5,000 columns of
noise chose the number."""
LEAST_CHOSEN: Final = 2
"""A narrow row has two columns or more, so that it is not taken for a packed one."""
_FIRST_COLUMNS: Final = 8
"""Columns of a model that has not seen labels."""
_MOST_OF_FEW_ROWS: Final = 8
_ROWS_OF_A_COLUMN: Final = 8
"""Rows for each chosen column, about."""
_STEPS_OF_A_DOUBLING: Final = 4
_MOST_SCORES: Final = 64
"""Labels up to which each has a linear score: every one costs a column."""
_LOG_2: Final = 0.6931471805599453
MIN_ROWS: Final = 20
"""Rows from which on there are linear scores."""
_MOST_PRODUCTS: Final = 2**28
"""Nonzero entries times scores of the rows that scores are fitted to, at most."""


def choose_narrowing(
    columns: Columns,
    examples: Examples,
    seed: int,
    *,
    targets: Floats | None = None,
    with_scores: bool = True,
) -> Narrowing:
    """Return how a wide table becomes a narrow one, by its rows.

    Parameters
    ----------
    columns : Columns
        Those of the table.
    examples : Examples
        Its rows and their labels.
    seed : int
    targets : ndarray of shape (m,), optional
        The targets of a regression, for each example.
    with_scores : bool
        Whether linear scores of all columns are fitted.
    """
    fold_key, _ = key_words(seed, "folds of wide rows")
    first = Narrowing(
        columns.kinds, packed=columns.packed, chosen=np.arange(0), scores=None, fold_key=fold_key
    )
    first = first.with_chosen(first.numbers[:_FIRST_COLUMNS])
    distinct = distinct_examples(examples, seed)
    if not len(distinct.rows):
        return first

    # The rows with the lowest hashes, as many as there is time for.
    n_labels = len(examples.labels)
    n_outputs = 1 if targets is not None or n_labels == 2 else n_labels
    entries = first.entries(examples.contexts[distinct.rows])
    n_entries = np.cumsum(np.diff(entries.starts))
    most_entries = _MOST_PRODUCTS // max(n_outputs, 1)
    m = max(1, int(np.searchsorted(n_entries, most_entries, side="right")))
    rows = distinct.rows[:m]
    counts = distinct.counts[:m]
    entries = entries.take_rows(np.arange(len(rows)))
    scaling = Scaling.from_rows(entries, counts)
    if not len(scaling.columns):
        return first

    # How strongly each column tells labels, or follows the target.
    matrix = scaling.matrix(entries)
    score_targets: Targets
    if targets is None:
        labels = examples.label_ranks[rows]
        strengths = _label_strengths(matrix, labels, counts, n_labels)
        score_targets = LabelTargets(labels.astype(np.int32), n_outputs)
        can_have_scores = 2 <= n_labels <= _MOST_SCORES
    else:
        numbers = _standardize(targets[rows], counts)
        strengths = _target_strengths(matrix, numbers, counts)
        score_targets = NumberTargets(numbers)
        can_have_scores = True

    # The strongest columns, and others where there are too few.
    is_strong = strengths > 0
    strongest = _take_strongest(scaling.columns[is_strong], strengths[is_strong], int(counts.sum()))
    n_lacking = max(LEAST_CHOSEN - len(strongest), 0)
    fillers = np.setdiff1d(first.numbers, strongest)[:n_lacking]
    chosen = first.with_chosen(np.sort(np.concatenate([strongest, fillers])))
    if not with_scores or not can_have_scores or counts.sum() < MIN_ROWS:
        return chosen
    folds = chosen.folds(examples.contexts[rows])
    return chosen.with_scores(
        fit_scores(scaling, matrix, score_targets, counts=counts, folds=folds)
    )


def _label_strengths(matrix: Any, labels: Ints, counts: Ints, n_labels: int) -> Floats:
    """Return how strongly each column tells labels, by itself or in products; 0 if like noise."""
    degrees = max(n_labels - 1, 1)
    groups = (labels[:, None] == np.arange(n_labels)) * counts[:, None].astype(np.float64)

    def measure(coarse: Any, sum_products: SumProducts) -> Floats:
        strengths = measure_by_labels(coarse, sum_products, labels, counts)
        return strengths / degrees

    linear = _class_strengths(matrix, groups, counts)
    return _add_products(matrix, linear, measure, n_labels=n_labels)


def _target_strengths(matrix: Any, numbers: Floats, counts: Ints) -> Floats:
    """Return how strongly the target follows each column or its products; 0 if like noise."""

    def measure(coarse: Any, sum_products: SumProducts) -> Floats:
        return measure_by_numbers(coarse, sum_products, numbers, counts)

    linear = _number_strengths(matrix, numbers, counts)
    return _add_products(matrix, linear, measure, n_labels=2)


def _add_products(matrix: Any, linear: Floats, measure: Measure, *, n_labels: int) -> Floats:
    """Return the largest strength of each column by itself, squared, and in products with others.

    Strengths that columns, or products, of noise could have are 0.
    """
    degrees = max(n_labels - 1, 1)
    q = len(linear)
    strengths = _without_noise(linear, q, degrees)
    squares = _without_noise(measure_squares(matrix, measure), q, degrees)
    strengths = np.maximum(strengths, squares)
    if can_measure_pairs(matrix, n_labels):
        pairs = _without_noise(measure_pairs(matrix, measure), q * (q - 1) // 2, degrees)
        strengths = np.maximum(strengths, pairs)
    return strengths


def _without_noise(strengths: Floats, n_compared: int, degrees: int) -> Floats:
    """Return strengths with 0 for those that noise has, where so many are compared."""
    return np.where(strengths > _most_of_noise(n_compared, degrees), strengths, 0.0)


def _class_strengths(matrix: Any, groups: Floats, counts: Ints) -> Floats:
    """Return F of each column between labels; rows count as often as they occur. Sums are exact."""
    sizes = groups.sum(axis=0)
    labels = np.flatnonzero(sizes)
    label_sums = matrix.T @ groups[:, labels]
    n = float(counts.sum())
    squared_means = np.add.reduce((label_sums**2 / sizes[labels]).T, axis=0)
    between = squared_means - label_sums.sum(axis=1) ** 2 / n
    within = _square_sums(matrix, counts) - squared_means
    degrees = max(len(labels) - 1, 1)
    return _ratios(between / degrees, within / max(n - len(labels), 1.0))


def _number_strengths(matrix: Any, numbers: Floats, counts: Ints) -> Floats:
    """Return F of each column for a line through targets, rounded so that sums are exact."""
    scale = 2.0**16
    target_units = np.rint(numbers * scale) * counts
    n = float(counts.sum())
    sums = matrix.T @ counts.astype(np.float64)
    target_mean = target_units.sum() / scale / n
    products = matrix.T @ target_units / scale - sums * target_mean
    spread = np.maximum(_square_sums(matrix, counts) - sums**2 / n, 1.0)
    explained = products**2 / spread
    total = float(np.add.reduce(numbers**2 * counts))
    return _ratios(explained, np.maximum(total - explained, 0.0) / max(n - 2, 1.0))


def _square_sums(matrix: Any, counts: Ints) -> Floats:
    """Return the sum of the squares of each column of a dense or sparse matrix."""
    squares = matrix**2 if isinstance(matrix, np.ndarray) else matrix.power(2)
    return np.asarray(squares.T @ counts.astype(np.float64))


def _ratios(between: Floats, within: Floats) -> Floats:
    """Return F; a column that tells labels perfectly has nothing within, but a finite F."""
    least_within = 1e-9 * np.maximum(between, 1.0)
    return np.asarray(np.maximum(between, 0.0) / np.maximum(within, least_within))


def _most_of_noise(n_columns: int, degrees: int) -> float:
    """Return what F of none of so many columns of noise exceeds, about."""
    x = n_columns.bit_length() * _LOG_2 / degrees
    return 1 + 2 * math.sqrt(x) + 2 * x


def _take_strongest(columns: Ints, strengths: Floats, n_rows: int) -> Ints:
    """Return the strongest columns, more of them where there are more rows."""
    affordable = 2 ** n_rows.bit_length() // _ROWS_OF_A_COLUMN
    n_chosen = min(MOST_CHOSEN, max(_MOST_OF_FEW_ROWS, affordable))
    # Compare by quarters of doublings. A logarithm would depend on the processor.
    mantissas, exponents = np.frexp(strengths)
    quarters = np.searchsorted(_QUARTERS, mantissas, side="right")
    order = np.lexsort((columns, -(exponents * _STEPS_OF_A_DOUBLING + quarters)))
    return columns[order[:n_chosen]].astype(np.int64)


_QUARTERS: Final = np.array(
    [0.5 * 2 ** (k / _STEPS_OF_A_DOUBLING) for k in range(1, _STEPS_OF_A_DOUBLING)]
)


def _standardize(targets: Array, counts: Ints) -> Floats:
    """Return targets with mean zero and spread one; sums are in the order of the rows."""
    # Divide by a power of two first: squares of large targets would be infinite.
    _, exponent = np.frexp(np.abs(targets).max(initial=0.0))
    reduced = np.ldexp(targets, -int(exponent))
    n = float(counts.sum())
    centered = reduced - float(np.add.reduce(reduced * counts)) / n
    spread = float(np.sqrt(np.add.reduce(centered**2 * counts) / n))
    return np.asarray(centered / spread if spread > 0 else 0.0 * centered)


def refuse_many_names(kinds: ColumnKinds) -> None:
    """Refuse more columns of names than a kernel has sites: there is no choice among names."""
    n_names = kinds.count(ColumnKind.NAMES)
    if n_names > MAX_SITES:
        raise ValueError(
            f"X has {n_names:,} columns of names, and a model takes at most {MAX_SITES:,}. "
            "Leave out columns, or make numbers of the names: OneHotEncoder().fit_transform(X) "
            "of scikit-learn is a sparse table of numbers, which may have many more columns."
        )


def is_wide(kinds: ColumnKinds) -> bool:
    """Return whether so many columns are numbers that they are not all looked at one by one."""
    return kinds.count(ColumnKind.NUMBERS) > MOST_PLAIN_COLUMNS
