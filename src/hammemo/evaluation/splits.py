"""What an evaluation learns and what it asks: examples in units that are not cut, and ways to split them.

Rows of a table are split one by one, each fold with about the same share of every label, or of every tenth of the
targets. Documents (texts, sessions,
the cases of an event log) are never cut: all examples of one are learnt, or all are held out. A split by
time holds out the latest ones and learns all before them; a document's time is that of its first event.
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
    """Whether y holds numbers that are to be predicted."""

    def __len__(self) -> int:
        return len(self.y)

    def sizes(self) -> Ints:
        """Return ones."""
        return np.ones(len(self), np.int64)

    def strata(self) -> Ints:
        """Return the number of each row's label; for targets, which tenth of them each row belongs to."""
        if self.is_target:
            return np.argsort(np.argsort(self.y, kind="stable"), kind="stable") * 10 // max(len(self), 1)
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(label, len(numbers)) for label in self.y.tolist()], np.int64)

    def learnt_by(self, model: Any, units: Ints) -> Any:
        """Return a copy of the model that has learnt these rows."""
        return clone(model).fit(self.X[units], self.y[units])

    def examples(self, units: Ints) -> tuple[Array, Array]:
        """Return the contexts and labels of these rows."""
        return self.X[units], self.y[units]


@dataclass(frozen=True, eq=False)
class DocumentMaterial:
    """Documents, each a unit: every token is to be told from the h before it, or those that are `classes`."""

    documents: Sequence[Array]
    length: int
    short: Any = "drop"
    classes: Sequence[Any] | None = None
    moments: Sequence[Any] | None = None
    unit: str = "documents"

    def __len__(self) -> int:
        return len(self.documents)

    def sizes(self) -> Ints:
        """Return the number of windows of each document."""
        before = 0 if self.short == "pad" else self.length
        return np.array([max(len(tokens) - before, 0) for tokens in self.documents], np.int64)

    def strata(self) -> Ints:
        """Return zeros: whole documents are not of one label."""
        return np.zeros(len(self), np.int64)

    def learnt_by(self, model: MemoryClassifier, units: Ints) -> MemoryClassifier:
        """Return a copy of the model that has learnt these documents."""
        learner: MemoryClassifier = clone(model)
        documents = [self.documents[unit] for unit in units.tolist()]
        return learner.fit_stream(documents, self.length, classes=self.classes, short=self.short)

    def examples(self, units: Ints) -> tuple[Array, Array]:
        """Return the windows of these documents and what follows each."""
        X, y = windows([self.documents[unit] for unit in units.tolist()], self.length, short=self.short)
        if self.classes is None:
            return X, y
        wanted = set(self.classes)
        kept = np.array([label in wanted for label in y.tolist()], bool)
        return X[kept], y[kept]


# ---------------------------------------------------------------- splits


Material: TypeAlias = TableMaterial | DocumentMaterial
"""What is measured on: units, each of them learnt or asked as a whole."""


@dataclass(frozen=True, eq=False)
class Split:
    """Which units are learnt and which are held out, once or several times."""

    title: str
    parts: list[tuple[Ints, Ints]]


def folds(material: Material, number: int, seed: int = 0) -> Split:
    """Return as many folds, each asked once: of about the same size, with about the same share of every stratum.

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
            f"folds={number} of {len(material):,} {material.unit}: there are at least 2 folds and at most as many as "
            f"there are {material.unit}."
        )
    place = np.empty(len(material), np.int64)
    order, sizes = _mixed(material, seed), material.sizes()
    if (sizes == 1).all():
        place[order] = np.arange(len(order)) % number
    else:
        held = np.zeros(number, np.int64)
        for unit in order[np.argsort(-sizes[order], kind="stable")].tolist():  # the largest first, to the emptiest fold
            place[unit] = held.argmin()
            held[place[unit]] += sizes[unit]
    units = np.arange(len(material))
    return Split(f"{number} folds of {material.unit}", [(units[place != k], units[place == k]) for k in range(number)])


def holdout(material: Material, share: float, seed: int = 0) -> Split:
    """Return one split: the same random share of every stratum is held out."""
    _check_share(share)
    order = _mixed(material, seed)
    goals = np.floor((np.arange(len(order)) + 1) * share) > np.floor(np.arange(len(order)) * share)
    return _one_split(f"a random {share:.0%} of {material.unit}", np.sort(order[~goals]), np.sort(order[goals]))


def last_in_time(material: Material, share: float) -> Split:
    """Return one split: the latest share is held out; units with equal times stay in the order given."""
    _check_share(share)
    if material.moments is None:
        raise ValueError(f"The {material.unit} have no time: name the column that has it with time=.")
    moments = material.moments
    order = np.array(sorted(range(len(material)), key=lambda unit: moments[unit]), np.int64)
    asked = max(round(len(order) * share), 1)
    return _one_split(f"the last {share:.0%} of {material.unit} in time", order[:-asked], order[-asked:])


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"holdout={share!r} is a share above 0 and below 1, for example 0.2.")


def _one_split(title: str, learnt: Ints, asked: Ints) -> Split:
    if not len(learnt) or not len(asked):
        raise ValueError(
            f"There are {len(learnt)} to learn and {len(asked)} to ask ({title}): give more input, or another holdout=."
        )
    return Split(title, [(learnt, asked)])


def _mixed(material: Material, seed: int) -> Ints:
    """Return all units, stratum by stratum, in random order within each."""
    order = np.random.Generator(np.random.Philox(seed % 2**64)).permutation(len(material))
    return np.asarray(order[np.argsort(material.strata()[order], kind="stable")])
