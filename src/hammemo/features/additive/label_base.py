r"""What an additive function says of labels: how much more likely each one is than its share.

With :math:`s_c(x)` the score of label c and :math:`p_c` its share of the rows, the ratio of a label
is

.. math:: r_c(x) = s_c(x) - \log p_c - \frac1L \sum_{c'} \bigl( s_{c'}(x) - \log p_{c'} \bigr).

It is the log-ratio of the function's probability to the share, up to a number that all labels of a
row have in common. So it is a sum over columns, as the scores are, and a softmax does not see the
difference. A label that came after the fit has the ratio zero: the function says nothing about it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._arrays.logarithms import log
from hammemo._versions import cached_property
from hammemo.features.additive.additive_base import NAT, AdditiveBase, with_all_labels
from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.additive.step_tables import BYTES
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints, Words
    from hammemo.features.additive.step_tables import StepTables


class RowBytes(NamedTuple):
    """Rows as bytes.

    Parameters
    ----------
    rows : ndarray of uint8, shape (m, columns of bytes)
    middles : sequence of ndarray of float64
        The values that stand for the steps of ordered columns.
    """

    rows: NDArray[np.uint8]
    middles: Sequence[Floats]


class ColumnShares(NamedTuple):
    """What columns add to the scores of rows.

    Parameters
    ----------
    by_column : ndarray of float64, shape (m, columns of the table, labels)
    constant : ndarray of float64, shape (m, labels)
        What no column adds.
    """

    by_column: Floats
    constant: Floats


@dataclass(frozen=True, eq=False)
class LabelBase:
    """An additive function that scores labels.

    Parameters
    ----------
    function : AdditiveBase
    labels : Vocabulary
    counts : ndarray of int64, shape (labels,)
        How many examples each label had when the function was fitted.
    """

    function: AdditiveBase
    labels: Vocabulary
    counts: Ints

    def ratios(self, values: Floats, name_codes: NDArray[np.uint8], labels: Vocabulary) -> Floats:
        """Return the ratios of these labels, by the function that was fitted to all rows.

        Shapes
        ------
        values : (m, ordered columns); name_codes : (m, columns of names); returned : (m, labels)
        """
        return self.ratios_from_scores(self.function.scores(values, name_codes), labels)

    def ratios_from_scores(self, scores: Ints, labels: Vocabulary) -> Floats:
        """Return the ratios of labels that belong to scores of the function: (m, labels)."""
        excess = with_all_labels(scores, len(self.labels)) - self.prior
        return self._select_labels(self._center(excess), labels)

    def ratios_without_folds(
        self, values: Floats, name_codes: NDArray[np.uint8], words: Words, labels: Vocabulary
    ) -> Floats:
        """Return the ratios for rows with these hashes, by the functions without their folds."""
        folds = (words % np.uint64(FOLDS)).astype(np.int64)
        scores = self.function.scores_without_folds(values, name_codes, folds)
        return self.ratios_from_scores(scores, labels)

    def contributions(self, coded: RowBytes, labels: Vocabulary) -> Floats:
        """Return what each column of the table adds to the ratios of rows.

        What is left of a ratio is one number for each label.

        Shapes
        ------
        returned : (columns, m, labels)
        """
        contributions = self.function.contributions(coded.rows, coded.middles)
        all_labels = with_all_labels(contributions, len(self.labels))
        return self._select_labels(self._center(all_labels), labels)

    def contributions_without_folds(
        self, coded: RowBytes, words: Words, labels: Vocabulary
    ) -> Floats:
        """Return the same for rows with these hashes, by the functions without their folds."""
        folds = words % np.uint64(FOLDS)
        rows_of_folds = [np.flatnonzero(folds == fold) for fold in range(FOLDS)]
        contributions = []
        for coefficients, in_fold in zip(self.function.crossed, rows_of_folds, strict=True):
            function = replace(self.function, coefficients=coefficients)
            rows = RowBytes(coded.rows[in_fold], coded.middles)
            contributions.append(replace(self, function=function).contributions(rows, labels))
        back = np.argsort(np.concatenate(rows_of_folds), kind="stable")
        return np.concatenate(contributions, axis=1)[:, back]

    @cached_property
    def prior(self) -> Ints:
        """The logarithm of each label's share, in 1/65536 nats."""
        shares = (self.counts + 0.5) / float((self.counts + 0.5).sum())
        return np.rint(log(shares) * NAT).astype(np.int64)

    def _center(self, scores: Array) -> Floats:
        """Return scores less the mean of all labels, in nats."""
        n = len(self.labels)
        return np.asarray((scores * n - scores.sum(axis=-1, keepdims=True)) / float(n * NAT))

    def _select_labels(self, ratios: Floats, labels: Vocabulary) -> Floats:
        """Return the columns of these labels; zeros for those that the function does not know."""
        places = self.labels.find(labels)
        return np.where(places >= 0, ratios[..., places], 0.0)

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # without caches

    def describe(self) -> dict[str, Any]:
        """Return what is no array, ready for JSON."""
        return self.function.describe()

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        return {
            **{f"function.{name}": array for name, array in self.function.arrays().items()},
            **{f"labels.{name}": array for name, array in self.labels.arrays().items()},
            "counts": self.counts,
        }

    @classmethod
    def from_stored(cls, described: Any, stored: StoredArrays) -> LabelBase:
        """Return the base of a file, checked: undo `describe` and `arrays`."""
        names = {"n_labels", "owners", "n_ordered"}
        if not isinstance(described, dict) or set(described) != names:
            raise ValueError("what it says of its additive base is not known")
        function = AdditiveBase.from_stored(described, stored.part("function"))
        labels = Vocabulary.from_arrays(stored.part("labels"))
        counts = stored.take("counts", "int64", (len(labels),))
        has_labels = len(labels) > 0 and function.n_labels == len(labels)
        if not has_labels or (counts < 0).any() or (counts > 2**53).any():
            raise ValueError("the labels of its additive base are not those that it scores")
        return cls(function, labels, counts)


@dataclass(frozen=True, eq=False)
class BaseAnswers:
    """What a base with weights adds to the scores of labels, given the bytes of rows.

    Parameters
    ----------
    base : LabelBase
    middles : sequence of ndarray of float64
        The values that stand for the steps of ordered columns.
    labels : Vocabulary
        The labels of the scores.
    weights : ndarray of shape (labels,)
    """

    base: LabelBase
    middles: Sequence[Floats]
    labels: Vocabulary
    weights: Floats

    @cached_property
    def tables(self) -> StepTables:
        """The function of the base, as tables."""
        function = self.base.function
        return function.design.tabulate(function.coefficients, self.middles)

    @cached_property
    def _ratios(self) -> _native.StepRatios:
        tables = self.tables
        n_outputs = len(tables.constant)
        return _native.StepRatios.of(
            columns=tables.columns.reshape(len(tables.columns), BYTES * n_outputs),
            levels=tables.levels,
            rights=tables.rights,
            pairs=tables.pairs,
            widths=tables.widths,
            starts=tables.starts,
            blocks=tables.blocks,
            constant=tables.constant,
            prior=self.base.prior,
            places=self.base.labels.find(self.labels),
            weights=np.ascontiguousarray(self.weights, np.float64),
        )

    def add(self, rows: NDArray[np.uint8], totals: Floats) -> None:
        """Add the weighted ratios of rows to their scores: (m, labels)."""
        self._ratios.add(rows, totals)

    def contributions(self, rows: NDArray[np.uint8], columns: Ints) -> ColumnShares:
        """Return what each column of the table adds to the scores of the labels in these columns.

        Shapes
        ------
        rows : (m, columns of bytes); columns : (labels,)
        """
        ratios = np.zeros((len(rows), len(self.labels)))
        self.add(rows, ratios)
        contributions = self.base.contributions(RowBytes(rows, self.middles), self.labels)
        by_column = (self.weights * contributions)[:, :, columns]
        constant = ratios[:, columns] - by_column.sum(axis=0)
        return ColumnShares(by_column.transpose(1, 0, 2), constant)
