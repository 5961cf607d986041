"""How many examples each label has, and what every reader knows: sites, labels, their counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.integers import narrow
from hammemo._versions import Cached, cached_property
from hammemo.memories.errors import fewer_stored
from hammemo.tokens.contexts import MAX_EXAMPLES
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints
    from hammemo.kernels.sites import Sites


def check_total(n_stored: int, n_added: int) -> None:
    """Refuse `MAX_EXAMPLES` and more, as `Frame.from_arrays` does when a model is loaded."""
    if n_stored + n_added >= MAX_EXAMPLES:
        raise ValueError(
            f"The model holds {n_stored:,} examples and {n_added:,} are to be added, "
            "multiplicities counted: counts are exact below 2^53 only, so nothing was changed. "
            "Divide all sample_weight by a common factor."
        )


@dataclass(frozen=True, eq=False)
class LabelCounts(Cached):
    """How many examples each label has; labels with none are not held."""

    labels: Vocabulary = field(default_factory=Vocabulary)
    counts: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    @cached_property
    def total(self) -> int:
        """How many examples there are.

        They are fewer than 2^53, which `check_total` and `Frame.from_arrays` see to.
        """
        return int(self.counts.sum())

    def plus(self, other: LabelCounts, sign: int = 1) -> LabelCounts:
        """Return the sum or, with sign -1, the difference.

        It refuses to go below zero or to `MAX_EXAMPLES`.
        """
        if sign > 0:
            check_total(self.total, other.total)
        labels = self.labels.union(other.labels)
        totals = np.zeros(len(labels), np.int64)
        totals[labels.find(self.labels)] += self.counts
        totals[labels.find(other.labels)] += sign * other.counts
        if (totals < 0).any():
            label = list(labels)[int(np.flatnonzero(totals < 0)[0])]
            raise fewer_stored(label)
        return LabelCounts(labels, totals).positive()

    def plus_at(self, rank: int, count: int) -> LabelCounts | None:
        """Return the counts with a number, which may be negative, added to one label's.

        None where that label, or the sum of all, is left with no proper number: `plus` says what to
        do then.
        """
        total = self.total + count
        label_count = int(self.counts[rank]) + count
        if label_count <= 0 or total >= MAX_EXAMPLES:
            return None
        counts = self.counts.copy()
        counts[rank] = label_count
        version = LabelCounts(self.labels, counts)
        vars(version)["total"] = total  # the cached property: no need to add up again
        return version

    def counts_for(self, labels: Vocabulary) -> Ints:
        """Return how many examples each of these labels has, zero for those without.

        All labels that have examples must be among them.

        Shapes
        ------
        returned : (len(labels),)
        """
        if labels is self.labels:
            return self.counts
        counts = np.zeros(len(labels), np.int64)
        counts[labels.find(self.labels)] = self.counts
        return counts

    def positive(self) -> LabelCounts:
        """Return the labels that have examples."""
        return LabelCounts(self.labels.keep(self.counts > 0), self.counts[self.counts > 0])


@dataclass(frozen=True, eq=False)
class Frame:
    """What every reader has: sites, labels, and how many examples each label has."""

    sites: Sites
    labels: Vocabulary
    label_counts: Ints

    def arrays(self) -> dict[str, Array]:
        """Return the labels and their counts as canonical arrays."""
        labels = {f"labels.{name}": array for name, array in self.labels.arrays().items()}
        return {**labels, "label_counts": narrow(self.label_counts)}

    @classmethod
    def from_arrays(cls, sites: Sites, stored: StoredArrays) -> Frame:
        """Return the frame with these arrays, checked: undo `arrays`."""
        labels = Vocabulary.from_arrays(stored.part("labels"))
        counts = stored.whole_numbers("label_counts", (len(labels),), below=MAX_EXAMPLES)
        if counts.sum(dtype=np.float64) >= MAX_EXAMPLES:
            raise ValueError("the labels have 2^53 examples or more together")
        return cls(sites, labels, counts.astype(np.int64))


def empty_arrays(empties: Sequence[LabelCounts], labels: Vocabulary) -> dict[str, Array]:
    """Return for each site the examples without a token there, as arrays for a file."""
    sites = [(k, counts) for k, counts in enumerate(empties) if counts.total]
    none = np.empty(0, np.int64)
    arrays = {
        "sites": np.repeat([k for k, _ in sites], [len(empty.counts) for _, empty in sites]),
        "labels": np.concatenate([none, *(labels.find(empty.labels) for _, empty in sites)]),
        "counts": np.concatenate([none, *(empty.counts for _, empty in sites)]),
    }
    return {f"empty.{name}": narrow(array.astype(np.int64)) for name, array in arrays.items()}


def read_empties(stored: StoredArrays, all_labels: LabelCounts, n_sites: int) -> list[LabelCounts]:
    """Return what `empty_arrays` gave, checked."""
    arrays = stored.part("empty")
    sites = arrays.whole_numbers("sites", (None,), below=n_sites)
    labels = arrays.whole_numbers("labels", (len(sites),), below=len(all_labels.labels))
    counts = arrays.whole_numbers("counts", (len(sites),), least=1, below=MAX_EXAMPLES)
    empties = []
    for k in range(n_sites):
        totals = np.zeros(len(all_labels.labels), np.int64)
        totals[labels[sites == k]] = counts[sites == k]
        if (totals > all_labels.counts).any():
            raise ValueError("a site has more empty examples of a label than the label has")
        empties.append(LabelCounts(all_labels.labels, totals).positive())
    return empties
