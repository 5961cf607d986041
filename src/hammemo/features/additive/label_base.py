r"""What an additive function says of labels: how much more likely than their share each one is, as sums over columns.

With :math:`s_c(x)` the score of label c and :math:`p_c` its share of the rows, the ratio of a label is

.. math:: r_c(x) = s_c(x) - \log p_c - \frac1L \sum_{c'} \bigl( s_{c'}(x) - \log p_{c'} \bigr).

It is the log-ratio of the function's probability to the share, up to a number that all labels of a row have in common.
So it is a sum over columns, as the scores are, and a softmax does not see the difference. A label that came after the
fit has the ratio zero: the function says nothing about it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import _native
from hammemo._arrays.logarithms import log
from hammemo._versions import cached_property
from hammemo.features.additive.additive import FOLDS, NAT, AdditiveBase, with_all_labels
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints, Words
    from hammemo.features.additive.step_tables import StepTables

    Coded = tuple[NDArray[np.uint8], Sequence[Floats]]
    """Bytes of rows, and the values that stand for the steps of ordered columns."""


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
        return self.ratios_of(self.function.scores(values, name_codes), labels)

    def ratios_of(self, scores: Ints, labels: Vocabulary) -> Floats:
        """Return the ratios of labels that belong to scores of the function: (m, labels)."""
        return self._placed(self._centred(with_all_labels(scores, len(self.labels)) - self.prior), labels)

    def crossed_ratios(self, values: Floats, name_codes: NDArray[np.uint8], words: Words, labels: Vocabulary) -> Floats:
        """Return the ratios for rows with these hashes, by the functions that were fitted without their folds."""
        folds = (words % np.uint64(FOLDS)).astype(np.int64)
        scores = self.function.crossed_scores(values, name_codes, folds)
        return self.ratios_of(scores, labels)

    def contributions(self, coded: Coded, labels: Vocabulary) -> Floats:
        """Return what each column of the table adds to the ratios of rows; a number for each label is left.

        Shapes
        ------
        returned : (columns, m, labels)
        """
        found = with_all_labels(self.function.contributions(*coded), len(self.labels))
        return self._placed(self._centred(found), labels)

    def crossed_contributions(self, coded: Coded, words: Words, labels: Vocabulary) -> Floats:
        """Return the same for rows with these hashes, by the functions that were fitted without their folds."""
        folds, (rows, middles) = words % np.uint64(FOLDS), coded
        of_folds = [np.flatnonzero(folds == fold) for fold in range(FOLDS)]
        found = [
            replace(self, function=replace(self.function, coefficients=own)).contributions(
                (rows[held], middles), labels
            )
            for own, held in zip(self.function.crossed, of_folds, strict=True)
        ]
        return np.concatenate(found, axis=1)[:, np.argsort(np.concatenate(of_folds), kind="stable")]

    @cached_property
    def prior(self) -> Ints:
        """The logarithm of each label's share, in 1/65536 nats."""
        shares = (self.counts + 0.5) / float((self.counts + 0.5).sum())
        return np.rint(log(shares) * NAT).astype(np.int64)

    def _centred(self, scores: Array) -> Floats:
        n = len(self.labels)
        return np.asarray((scores * n - scores.sum(axis=-1, keepdims=True)) / float(n * NAT))

    def _placed(self, ratios: Floats, labels: Vocabulary) -> Floats:
        """Return columns for other labels; zeros for those that are unknown here."""
        places = self.labels.find(labels)
        return np.where(places >= 0, ratios[..., places], 0.0)

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # caches are made again

    def described(self) -> dict[str, Any]:
        """Return what is no array, ready for JSON."""
        return self.function.described()

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        found = {f"function.{name}": array for name, array in self.function.arrays().items()}
        found |= {f"labels.{name}": array for name, array in self.labels.arrays().items()}
        return {**found, "counts": self.counts}

    @classmethod
    def restored(cls, described: Any, stored: StoredArrays) -> LabelBase:
        """Return the base of a file, checked: undo `described` and `arrays`."""
        if not isinstance(described, dict) or set(described) != {"n_labels", "owners", "n_ordered"}:
            raise ValueError("what it says of its additive base is not known")
        function = AdditiveBase.restored(described, stored.part("function"))
        labels = Vocabulary.from_arrays(stored.part("labels"))
        counts = stored.take("counts", "int64", (len(labels),))
        if function.n_labels != len(labels) or not len(labels) or (counts < 0).any() or (counts > 2**53).any():
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
        return self.base.function.design.step_tables(self.base.function.coefficients, self.middles)

    @cached_property
    def _ratios(self) -> _native.StepRatios:
        of = self.tables
        columns = of.columns.reshape(len(of.columns), 256 * len(of.constant))
        return _native.StepRatios.of(
            columns=columns,
            levels=of.levels,
            rights=of.rights,
            pairs=of.pairs,
            widths=of.widths,
            starts=of.starts,
            blocks=of.blocks,
            constant=of.constant,
            prior=self.base.prior,
            places=self.base.labels.find(self.labels),
            weights=np.ascontiguousarray(self.weights, np.float64),
        )

    def add(self, rows: NDArray[np.uint8], totals: Floats) -> None:
        """Add the weighted ratios of rows to their scores: (m, labels)."""
        self._ratios.add(rows, totals)

    def contributions(self, rows: NDArray[np.uint8], columns: Ints) -> tuple[Floats, Floats]:
        """Return what each column of the table adds to the scores of the labels in these columns, and what is left.

        Shapes
        ------
        rows : (m, columns of bytes); returned : (m, columns of the table, len(columns)), (m, len(columns))
        """
        whole = np.zeros((len(rows), len(self.labels)))
        self.add(rows, whole)
        added = (self.weights * self.base.contributions((rows, self.middles), self.labels))[:, :, columns]
        return added.transpose(1, 0, 2), whole[:, columns] - added.sum(axis=0)
