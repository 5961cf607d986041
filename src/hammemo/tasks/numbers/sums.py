"""What the state of a regressor is made of: layout, memory and vote, values that never change.

A target y becomes the whole number of units :math:`Y = (y - c) 2^e`; the layout has c and e. A *base* predicts Y by an
additive function, trees predict what it leaves; beside these, other trees predict what the mean leaves. So there are
two *parts*, which the vote blends: a sum of many effects needs the first, a table of few combinations the second. The
memory is a sum over rows: the Gram matrix of the base, and how many rows each cell of the trees holds, with the sum of
what the frozen base, or the frozen mean, leaves of each. The frozen base was fitted without the row's fold, so a row's
share is a function of the row and the layout, and can be subtracted.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from hammemo._arrays.array_digest import array_digest
from hammemo._versions import Cached, cached_property
from hammemo.edits.task import DoesNotFitError
from hammemo.features.additive.additive_base import AdditiveBase
from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.additive.fit_numbers import compute_gram
from hammemo.features.additive.gram import Gram, check_row_total
from hammemo.features.cells.cells import restored_codes
from hammemo.features.cells.column_codes import ColumnCodes, code_arrays, token_values
from hammemo.features.cells.error_sizes import ErrorSizes
from hammemo.features.cells.forest import Forest, ForestRules, forest_arrays, restored_forest
from hammemo.features.cells.number_trees import (
    N_FEATURES,
    NumberCells,
)
from hammemo.features.wide.narrowing import Narrowing
from hammemo.kernels.sites import MAX_POSITIONS
from hammemo.memories.errors import never_stored
from hammemo.tokens.columns import ColumnKind
from hammemo.votes.number_answers import SeenRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints, Words
    from hammemo.edits.state import ModelState
    from hammemo.edits.task import ModelTask
    from hammemo.tokens.contexts import Contexts, Examples

NUMBER_TREES: Final = (
    ForestRules(16, are_numbers=True),
    ForestRules(16, are_numbers=True, first=100),
)
"""Of what the base leaves, and of what the mean leaves."""

BITS: Final = 26
"""Targets of the rows that choose the unit have this many bits."""
_MORE_BITS: Final = 10
"""How many more a later one may have."""
_MOST_EXPONENT: Final = 2000
NO_UNIT: Final = _MOST_EXPONENT
"""The exponent where all targets are equal. Its unit is smaller than the difference of any two numbers, so no other
target fits in it: none is rounded to the others before a unit was chosen."""


class TargetTooFarError(DoesNotFitError):
    """A target does not fit in the unit of a layout."""


def choose_exponent(furthest: float) -> int:
    """Return the exponent of the unit for targets of which the furthest has this distance from the center."""
    if not furthest:
        return NO_UNIT
    return BITS - int(np.frexp(furthest)[1])


def whole_targets(targets: Floats, center: float, exponent: int) -> Ints:
    """Return targets as whole numbers of a unit, 36 bits at most; TargetTooFarError where one has more."""
    with np.errstate(over="ignore"):  # infinity is too far, too
        units = np.ldexp(targets - center, exponent)
    is_far = np.abs(units) > 2.0 ** (BITS + _MORE_BITS)
    if is_far.any():
        worst = float(targets[np.argmax(is_far)])
        raise TargetTooFarError(
            f"The target {worst:.6g} is more than {2**_MORE_BITS} times as far from the other targets as any target "
            "that the model was chosen by, so it does not fit in the unit of its sums. A model that keeps all its rows "
            "chooses again: call partial_fit without choose=False. Otherwise leave out this row, or fit a model that "
            "keeps all rows: keep=NUMBER."
        )
    return np.rint(units).astype(np.int64)


def what_is_left(
    base: AdditiveBase, mean: int, rows: SeenRows, whole: Ints, words: Words
) -> tuple[Ints, ...]:
    """Return what the frozen base, without the fold of each row, and the frozen mean leave of targets."""
    folds = (words % np.uint64(FOLDS)).astype(np.int64)
    return whole - base.scores_without_folds(rows.values, rows.names, folds)[:, 0], whole - mean


@dataclass(frozen=True, eq=False)
class NumberLayout(Cached):
    """What is fixed while rows are added.

    Parameters
    ----------
    codes : ColumnCodes
        How trees see rows.
    center, exponent : float, int
        A target y is the whole number nearest to (y - center) 2^exponent.
    base : AdditiveBase
    mean : int
        The mean of the targets, in units.
    forests : tuple of Forest
        Trees of what the base leaves, and of what the mean leaves.
    last_word : int
        The hash of the last row of the growing sample.
    narrowing : Narrowing, optional
        How the rows of a wide table become those that all else is of.
    """

    codes: ColumnCodes
    center: float
    exponent: int
    base: AdditiveBase
    mean: int
    forests: tuple[Forest, ...]
    last_word: int
    narrowing: Narrowing | None = None

    @property
    def table_kinds(self) -> str:
        """The kinds of the columns of the table."""
        return self.codes.kinds if self.narrowing is None else self.narrowing.kinds

    def ask(self, contexts: Contexts) -> SeenRows:
        """Return the rows of a question as base and trees see them."""
        if self.narrowing is None:
            return SeenRows(self.codes, contexts)
        return SeenRows(self.codes, self.narrowing.ask(contexts), wide=contexts)

    def whole(self, targets: Floats) -> Ints:
        """Return targets as whole numbers of the unit; TargetTooFarError where one is too large for it."""
        return whole_targets(targets, self.center, self.exponent)

    @property
    def unit(self) -> float:
        """What a target is a whole number of."""
        return math.ldexp(1.0, -self.exponent)

    @property
    def has_unit(self) -> bool:
        """Whether the targets that chose the layout had a spread, and with it a unit."""
        return self.exponent != NO_UNIT

    def with_unit_for(self, targets: Floats) -> NumberLayout:
        """Return a layout without a unit with the one that these targets choose.

        A memory under it stays the same: without a unit all targets in it are equal, so that all its sums of targets
        are zero, in any unit.
        """
        assert not self.has_unit
        furthest = float(np.abs(targets - self.center).max(initial=0.0))
        return replace(self, exponent=choose_exponent(furthest))

    def described(self) -> dict[str, Any]:
        """Return what is no array, ready for JSON."""
        described = {} if self.narrowing is None else {"narrowing": self.narrowing.described()}
        return {
            **described,
            "kinds": self.codes.kinds,
            "center": self.center,
            "exponent": self.exponent,
            "last_word": self.last_word,
            "mean": self.mean,
            "base": self.base.describe(),
        }

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        found = {} if self.narrowing is None else self.narrowing.arrays()
        return {
            **{f"narrowing.{name}": array for name, array in found.items()},
            **{f"codes.{name}": array for name, array in code_arrays(self.codes).items()},
            **{f"base.{name}": array for name, array in self.base.arrays().items()},
            **numbered("trees", [forest_arrays(forest) for forest in self.forests]),
        }

    @classmethod
    def restored(cls, described: dict[str, Any], stored: StoredArrays) -> NumberLayout:
        """Return the layout of a file, checked: undo `described` and `arrays`."""
        kinds, center, exponent, mean, last = (
            described[name] for name in ("kinds", "center", "exponent", "mean", "last_word")
        )
        if (
            not isinstance(kinds, str)
            or not 0 < len(kinds) <= MAX_POSITIONS
            or not set(kinds) <= set(ColumnKind)
        ):
            raise ValueError("the kinds of its columns are not valid")
        if type(center) is not float or not math.isfinite(center):
            raise ValueError("the center of its targets is not a number")
        if (
            type(exponent) is not int
            or abs(exponent) > _MOST_EXPONENT
            or type(mean) is not int
            or abs(mean) >= 2**BITS
            or type(last) is not int
            or not 0 <= last < 2**64
        ):
            raise ValueError(
                "the unit of its targets, or the hash of its last growing row, is not valid"
            )
        codes = restored_codes(kinds, stored.part("codes"))
        base = AdditiveBase.from_stored(described["base"], stored.part("base"))
        if len(codes.pairs) or base.n_labels or len(base.design.knots) != codes.n_ordered:
            raise ValueError("its base is not one of these columns")
        if tuple(base.design.owners) != codes.plain_owners():
            raise ValueError("its base is not one of these columns")
        forests = tuple(
            restored_forest(codes.is_name, stored.part(f"trees.{part}"), rules)
            for part, rules in enumerate(NUMBER_TREES)
        )
        narrowing = None
        if "narrowing" in described:
            narrowing = Narrowing.restored(described["narrowing"], stored.part("narrowing"))
            if narrowing.narrow_kinds != kinds:
                raise ValueError(
                    "its cells are of other columns than those chosen of its wide table"
                )
        return cls(codes, center, exponent, base, mean, forests, last, narrowing)

    @cached_property
    def digest(self) -> str:
        """BLAKE2b-256 of all that the layout is."""
        return array_digest(self.arrays(), json.dumps(self.described(), sort_keys=True))


def numbered(name: str, parts: Sequence[dict[str, Array]]) -> dict[str, Array]:
    """Return the arrays of several parts under names with the numbers of the parts."""
    return {
        f"{name}.{part}.{own}": array
        for part, arrays in enumerate(parts)
        for own, array in arrays.items()
    }


@dataclass(frozen=True, eq=False)
class NumberRows:
    """Rows that are counted: how base and trees see them, their targets, and how often each occurs."""

    rows: SeenRows
    whole: Ints
    left: tuple[Ints, ...]
    leaves: tuple[NDArray[np.int32], ...]
    words: Words
    counts: Ints

    @classmethod
    def of(cls, layout: NumberLayout, examples: Examples, seed: int) -> NumberRows:
        """Return examples, whose labels are their targets, as the distinct rows that a layout sees."""
        examples = examples if layout.narrowing is None else layout.narrowing.learn(examples)
        places, words, counts = layout.codes.distinct(examples, seed)
        rows, whole = (
            SeenRows(layout.codes, examples.contexts[places]),
            layout.whole(targets_of(examples)[places]),
        )
        left = what_is_left(layout.base, layout.mean, rows, whole, words)
        leaves = tuple(forest.leaves(rows.codes) for forest in layout.forests)
        return cls(rows, whole, left, leaves, words, counts)


def targets_of(examples: Examples) -> Floats:
    """Return the targets of examples."""
    return np.asarray(token_values(examples.labels)[examples.label_ranks])


@dataclass(frozen=True, eq=False)
class NumberMemory:
    """The sum over rows.

    Parameters
    ----------
    gram : Gram
        The matrix that the live base is solved from; it knows how many rows there are.
    cells : tuple of NumberCells
        What the cells of the trees of each part hold.
    """

    gram: Gram
    cells: tuple[NumberCells, ...]

    def __getstate__(self) -> dict[str, Any]:
        return {"gram": self.gram, "cells": self.cells}  # without what answers

    @classmethod
    def empty(cls, layout: NumberLayout) -> NumberMemory:
        """Return a memory without rows."""
        return cls(Gram.empty(layout.base.design.p), tuple(map(NumberCells.empty, layout.forests)))

    def changed(
        self, layout: NumberLayout, rows: NumberRows, sign: int, known: Gram | None = None
    ) -> NumberMemory:
        """Return the memory with rows added or, with sign -1, subtracted; NotStoredError where they cannot be in it.

        `known` is the matrix of these rows, if it was made before.
        """
        more = int(rows.counts.sum())
        if sign > 0:
            check_row_total(self.gram.n, more)
        elif more > self.gram.n:
            raise never_stored()
        times = sign * rows.counts
        parts = zip(self.cells, layout.forests, rows.leaves, rows.left, strict=True)
        cells = tuple(
            held.changed(forest, leaves, left, times) for held, forest, leaves, left in parts
        )
        if known is None:
            known = compute_gram(
                layout.base.design, rows.rows.values, rows.rows.names, rows.whole, rows.counts
            )
        gram = self.gram + known if sign > 0 else self.gram - known
        return _checked(NumberMemory(gram, cells), sign)

    def plus(self, other: NumberMemory, sign: int) -> NumberMemory:
        """Return the memory with all rows of another one of the same layout added or, with sign -1, subtracted."""
        if sign > 0:
            check_row_total(self.gram.n, other.gram.n)
        gram = self.gram + other.gram if sign > 0 else self.gram - other.gram
        cells = (
            mine.plus(theirs, sign) for mine, theirs in zip(self.cells, other.cells, strict=True)
        )
        return _checked(NumberMemory(gram, tuple(cells)), sign)

    def arrays(self) -> dict[str, Array]:
        """Return the memory as arrays."""
        return {**self.gram.arrays(), **numbered("cells", [cells.arrays() for cells in self.cells])}

    @classmethod
    def restored(cls, layout: NumberLayout, stored: StoredArrays) -> NumberMemory:
        """Return the memory of a file, checked: undo `arrays`."""
        gram = Gram.from_stored(layout.base.design.p, stored)
        cells = (
            NumberCells.restored(forest, stored.part(f"cells.{part}"), gram.n)
            for part, forest in enumerate(layout.forests)
        )
        return cls(gram, tuple(cells))


def _checked(memory: NumberMemory, sign: int) -> NumberMemory:
    """Return a memory after an edit, or refuse to have removed rows that cannot have been in it.

    Sums that rows are added to keep their bounds: the bounds grow with them.
    """
    if sign < 0 and not (
        memory.gram.is_possible and all(cells.is_possible for cells in memory.cells)
    ):
        raise never_stored()
    return memory


@dataclass(frozen=True, eq=False)
class NumberVote:
    """How much each kind of tree, level and amount says, and how large errors are: fitted to unseen rows.

    Parameters
    ----------
    weights : ndarray of float64, shape (2, `N_FEATURES`)
        Of the trees of each part.
    blend : ndarray of float64, shape (2,)
        Of the parts.
    errors : ErrorSizes, optional
        None for a model without rows.
    rows : int
        How many rows there were when it was fitted.
    """

    weights: Floats
    blend: Floats
    errors: ErrorSizes | None = None
    rows: int = 0

    def arrays(self) -> dict[str, Array]:
        """Return the vote as arrays."""
        errors = {} if self.errors is None else self.errors.arrays()
        own = {"weights": self.weights, "blend": self.blend}
        return {**own, **{f"errors.{name}": array for name, array in errors.items()}}

    @classmethod
    def restored(cls, layout: NumberLayout, rows: int, stored: StoredArrays) -> NumberVote:
        """Return the vote of a file, checked: undo `arrays`."""
        n_parts = len(NUMBER_TREES)
        weights, blend = (
            stored.finite(name, "float64", shape)
            for name, shape in (("weights", (n_parts, N_FEATURES)), ("blend", (n_parts,)))
        )
        if (weights < 0).any() or (blend < 0).any():
            raise ValueError("a weight of its vote is negative")
        errors = ErrorSizes.restored(layout.codes.is_name, stored.part("errors")) if rows else None
        return cls(weights, blend, errors, rows)


NO_VOTE: Final = NumberVote(np.zeros((len(NUMBER_TREES), N_FEATURES)), np.array([1.0, 0.0]))
"""A vote that was fitted to no row: it trusts the base alone."""

NumberState: TypeAlias = "ModelState[NumberLayout, NumberMemory, NumberVote]"
"""All that a regressor has learned."""

NumberSteps: TypeAlias = "ModelTask[NumberState, NumberLayout, NumberMemory, NumberVote]"
"""The task of a regressor."""
