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

from hammemo._arrays.logarithms import log
from hammemo._versions import cached_property
from hammemo.kernels.additive.additive import FOLDS, NAT, AdditiveBase
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays


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
    counts: NDArray[np.int64]

    def ratios(
        self, values: NDArray[np.float64], name_codes: NDArray[np.uint8], labels: Vocabulary
    ) -> NDArray[np.float64]:
        """Return the ratios of these labels, by the function that was fitted to all rows.

        Shapes
        ------
        values : (m, ordered columns); name_codes : (m, columns of names); returned : (m, labels)
        """
        return self._placed(self._centred(self.function.scores(values, name_codes) - self.prior), labels)

    def crossed_ratios(
        self,
        values: NDArray[np.float64],
        name_codes: NDArray[np.uint8],
        words: NDArray[np.uint64],
        labels: Vocabulary,
    ) -> NDArray[np.float64]:
        """Return the ratios for rows with these hashes, by the functions that were fitted without their folds."""
        folds = (words % np.uint64(FOLDS)).astype(np.int64)
        scores = self.function.crossed_scores(values, name_codes, folds)
        return self._placed(self._centred(scores - self.prior), labels)

    def contributions(
        self, values: NDArray[np.float64], name_codes: NDArray[np.uint8], labels: Vocabulary
    ) -> NDArray[np.float64]:
        """Return what each column of the table adds to the ratios; a number for each label is left.

        Shapes
        ------
        returned : (columns, m, labels)
        """
        found = self.function.contributions(values, name_codes)
        if found.shape[2] < len(self.labels):
            found = np.concatenate([np.zeros((*found.shape[:2], len(self.labels) - found.shape[2])), found], axis=2)
        return np.stack([self._placed(self._centred(of_column), labels) for of_column in found.transpose(1, 0, 2)])

    def crossed_contributions(
        self,
        values: NDArray[np.float64],
        name_codes: NDArray[np.uint8],
        words: NDArray[np.uint64],
        labels: Vocabulary,
    ) -> NDArray[np.float64]:
        """Return the same for rows with these hashes, by the functions that were fitted without their folds."""
        folds = (words % np.uint64(FOLDS)).astype(np.int64)
        found = self.contributions(values[:0], name_codes[:0], labels)
        found = np.zeros((len(found), len(values), len(labels)))
        for fold, coefficients in enumerate(self.function.crossed):
            without, own = replace(self, function=replace(self.function, coefficients=coefficients)), folds == fold
            found[:, own] = without.contributions(values[own], name_codes[own], labels)
        return found

    @cached_property
    def prior(self) -> NDArray[np.int64]:
        """The logarithm of each label's share, in 1/65536 nats."""
        shares = (self.counts + 0.5) / float((self.counts + 0.5).sum())
        return np.rint(log(shares) * NAT).astype(np.int64)

    def _centred(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        n = len(self.labels)
        return np.asarray((scores * n - scores.sum(axis=1, keepdims=True)) / float(n * NAT))

    def _placed(self, ratios: NDArray[np.float64], labels: Vocabulary) -> NDArray[np.float64]:
        """Return columns for other labels; zeros for those that are unknown here."""
        places = self.labels.find(labels)
        return np.where(places >= 0, ratios[:, places], 0.0)

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # caches are made again

    def described(self) -> dict[str, Any]:
        """Return what is no array, ready for JSON."""
        return self.function.described()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, by name."""
        found = {f"function.{name}": array for name, array in self.function.arrays().items()}
        return (
            found | {f"labels.{name}": array for name, array in self.labels.arrays().items()} | {"counts": self.counts}
        )

    @classmethod
    def restored(cls, described: Any, stored: StoredArrays) -> LabelBase:
        """Return the base of a file, checked: undo `described` and `arrays`."""
        if not isinstance(described, dict) or set(described) != {"n_labels", "owners", "n_ordered"}:
            raise ValueError("what it says of its additive base is not known")
        function, labels = (
            AdditiveBase.restored(described, stored.part("function")),
            Vocabulary.from_arrays(stored.part("labels")),
        )
        counts = stored.take("counts", "int64", (len(labels),))
        if function.n_labels != len(labels) or not len(labels) or (counts < 0).any() or (counts > 2**53).any():
            raise ValueError("the labels of its additive base are not those that it scores")
        return cls(function, labels, counts)
