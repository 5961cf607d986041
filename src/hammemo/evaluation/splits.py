"""What an evaluation learns and what it holds out: units that are not cut, and ways to split them.

Rows of a table are split one by one, each fold with about the same share of every label, or of
every tenth of the targets. Documents (texts, sessions, the cases of an event log) are never cut:
all examples of one are learned, or all are held out. A split by time holds out the latest units and
learns all before them; a document's time is that of its first event.

By hand, because scikit-learn's splitters refuse labels with fewer rows than folds, and do not make
folds of documents even by their lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import clone

from hammemo.tokens.contexts import windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array, Ints
    from hammemo.estimators.classifiers import MemoryClassifier


@dataclass(frozen=True, eq=False)
class TableMaterial:
    """Rows of a table, each a unit."""

    X: Array
    y: Array
    moments: Sequence[Any] | None = None
    unit: str = "rows"
    is_target: bool = False
    """Whether y holds numbers that are to be predicted.

    That is a fact about the rows: whole numbers may be labels, and are then split as labels are.
    """

    def __len__(self) -> int:
        return len(self.y)

    def sizes(self) -> Ints:
        """Return ones."""
        return np.ones(len(self), np.int64)

    def strata(self) -> Ints:
        """Return the number of each row's label; of targets, the tenth that each belongs to."""
        if self.is_target:
            order = np.argsort(self.y, kind="stable")
            ranks = np.argsort(order, kind="stable")
            return ranks * 10 // max(len(self), 1)
        labels = self.y.tolist()
        number_of = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        return np.array([number_of[label] for label in labels], np.int64)

    def fit(self, model: Any, units: Ints) -> Any:
        """Return a copy of the model that is fitted to these rows."""
        return clone(model).fit(self.X[units], self.y[units])

    def examples(self, units: Ints) -> tuple[Array, Array]:
        """Return the contexts and labels of these rows."""
        return self.X[units], self.y[units]


@dataclass(frozen=True, eq=False)
class DocumentMaterial:
    """Documents, each a unit: tokens are predicted from the `length` tokens before them."""

    documents: Sequence[Array]
    length: int
    short: Any = "drop"
    classes: Sequence[Any] | None = None
    """The only tokens that are predicted; None for all."""
    moments: Sequence[Any] | None = None
    unit: str = "documents"

    def __len__(self) -> int:
        return len(self.documents)

    def sizes(self) -> Ints:
        """Return the number of windows of each document."""
        n_without_window = 0 if self.short == "pad" else self.length
        sizes = [max(len(tokens) - n_without_window, 0) for tokens in self.documents]
        return np.array(sizes, np.int64)

    def strata(self) -> Ints:
        """Return zeros: whole documents are not of one label."""
        return np.zeros(len(self), np.int64)

    def fit(self, model: MemoryClassifier, units: Ints) -> MemoryClassifier:
        """Return a copy of the model that is fitted to these documents."""
        learner: MemoryClassifier = clone(model)
        documents = [self.documents[unit] for unit in units.tolist()]
        return learner.fit_stream(documents, self.length, classes=self.classes, short=self.short)

    def examples(self, units: Ints) -> tuple[Array, Array]:
        """Return the windows of these documents and what follows each."""
        documents = [self.documents[unit] for unit in units.tolist()]
        X, y = windows(documents, self.length, short=self.short)
        if self.classes is None:
            return X, y
        classes = set(self.classes)
        is_predicted = np.array([label in classes for label in y.tolist()], bool)
        return X[is_predicted], y[is_predicted]


Material: TypeAlias = TableMaterial | DocumentMaterial
"""Units, each of them learned or held out as a whole."""


@dataclass(frozen=True, eq=False)
class Split:
    """Which units are learned and which are held out, once or several times."""

    title: str
    parts: list[tuple[Ints, Ints]]
    """The units to learn and those to ask about, for each fit."""


def folds(material: Material, number: int, seed: int = 0) -> Split:
    """Return folds that are held out in turn.

    They have about the same size, and about the same share of every stratum.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.evaluation.splits import TableMaterial, folds
    >>> rows = TableMaterial(np.zeros((10, 1), int), np.array(list("aaaaabbbbb")))
    >>> [sorted(rows.y[asked].tolist()) for _, asked in folds(rows, 5).parts][:2]
    [['a', 'b'], ['a', 'b']]
    """
    if not 2 <= number <= len(material):
        raise ValueError(
            f"folds={number} of {len(material):,} {material.unit}: "
            f"there are at least 2 folds and at most as many as there are {material.unit}."
        )
    fold_of = np.empty(len(material), np.int64)
    order = _shuffle(material, seed)
    sizes = material.sizes()
    if (sizes == 1).all():
        fold_of[order] = np.arange(len(order)) % number
    else:
        # the largest unit first, always to the emptiest fold
        fold_sizes = np.zeros(number, np.int64)
        for unit in order[np.argsort(-sizes[order], kind="stable")].tolist():
            fold = fold_sizes.argmin()
            fold_of[unit] = fold
            fold_sizes[fold] += sizes[unit]
    units = np.arange(len(material))
    parts = [(units[fold_of != fold], units[fold_of == fold]) for fold in range(number)]
    return Split(f"{number} folds of {material.unit}", parts)


def holdout(material: Material, share: float, seed: int = 0) -> Split:
    """Return one split: the same random share of every stratum is held out."""
    _check_share(share)
    order = _shuffle(material, seed)
    # a unit is held out where the share of all units so far reaches the next whole number
    places = np.arange(len(order))
    is_held_out = np.floor((places + 1) * share) > np.floor(places * share)
    title = f"a random {share:.0%} of {material.unit}"
    return _one_split(title, np.sort(order[~is_held_out]), np.sort(order[is_held_out]))


def last_in_time(material: Material, share: float) -> Split:
    """Return one split: the latest share is held out.

    Units with equal times stay in their order.
    """
    _check_share(share)
    if material.moments is None:
        raise ValueError(
            f"The {material.unit} have no time: name the column that has it with time=."
        )
    moments = material.moments
    order = np.array(sorted(range(len(material)), key=lambda unit: moments[unit]), np.int64)
    n_held_out = max(round(len(order) * share), 1)
    title = f"the last {share:.0%} of {material.unit} in time"
    return _one_split(title, order[:-n_held_out], order[-n_held_out:])


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"holdout={share!r} is a share above 0 and below 1, for example 0.2.")


def _one_split(title: str, learned: Ints, held_out: Ints) -> Split:
    if not len(learned) or not len(held_out):
        raise ValueError(
            f"There are {len(learned)} to learn and {len(held_out)} to ask ({title}): "
            "give more input, or another holdout=."
        )
    return Split(title, [(learned, held_out)])


def _shuffle(material: Material, seed: int) -> Ints:
    """Return all units, stratum by stratum, in random order within each."""
    order = np.random.Generator(np.random.Philox(seed % 2**64)).permutation(len(material))
    return np.asarray(order[np.argsort(material.strata()[order], kind="stable")])
