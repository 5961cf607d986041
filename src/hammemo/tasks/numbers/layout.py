"""The layout of a regressor: the unit of its targets, how columns are read, its base and trees.

A target y becomes the whole number of units :math:`Y = (y - c) 2^e`; the layout has c and e. A
*base* predicts Y by an additive function, and trees predict the residuals of the base. Beside
these, other trees predict the residuals of the mean alone. So there are two *parts*, which the vote
blends: a sum of many effects needs the first, a table of few combinations the second.

The frozen base was fitted without the row's fold. So what a row adds to the memory is a function of
the row and the layout, and can be subtracted.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.array_digest import array_digest
from hammemo._versions import Cached, cached_property
from hammemo.edits.task import DoesNotFitError
from hammemo.features.additive.additive_base import AdditiveBase
from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.cells.column_codes import (
    ColumnCodes,
    code_arrays,
    restore_codes,
    token_values,
)
from hammemo.features.cells.forest import Forest
from hammemo.features.cells.grow_forest import ForestRules
from hammemo.features.wide.narrowing import Narrowing
from hammemo.kernels.sites import MAX_POSITIONS
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.column_letters import decode_letters, encode_letters
from hammemo.votes.number_answers import SeenRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints, Words
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.contexts import Contexts, Examples

NUMBER_TREES: Final = (
    ForestRules(16, are_numbers=True),
    ForestRules(16, are_numbers=True, first=100),
)
"""The rules of the trees of the base's residuals, and of those of the mean's residuals."""

BITS: Final = 26
"""Targets of the rows that choose the unit have this many bits."""

_MORE_BITS: Final = 10
"""How many more bits a later target may have."""

_LARGEST_EXPONENT: Final = 2000

NO_UNIT: Final = _LARGEST_EXPONENT
"""The exponent where all targets are equal.

Its unit is smaller than the difference of any two numbers, so no other target fits in it: none is
rounded to the others before a unit was chosen.
"""


class TargetTooFarError(DoesNotFitError):
    """A target does not fit in the unit of a layout."""


def choose_exponent(furthest: float) -> int:
    """Return the exponent of the unit for targets at most this far from the center."""
    if not furthest:
        return NO_UNIT
    return BITS - int(np.frexp(furthest)[1])


def round_targets(targets: Floats, center: float, exponent: int) -> Ints:
    """Return targets in units, as whole numbers of 36 bits at most.

    Raises
    ------
    TargetTooFarError
        Where a target has more bits.
    """
    with np.errstate(over="ignore"):  # infinity is too far, too
        units = np.ldexp(targets - center, exponent)
    is_far = np.abs(units) > 2.0 ** (BITS + _MORE_BITS)
    if is_far.any():
        worst = float(targets[np.argmax(is_far)])
        raise TargetTooFarError(
            f"The target {worst:.6g} is more than {2**_MORE_BITS} times as far from "
            "the other targets as any target that the model was chosen by, so it does "
            "not fit in the unit of its sums. A model that keeps all its rows chooses again: "
            "call partial_fit without choose=False. Otherwise leave out this row, "
            "or fit a model that keeps all rows: keep=NUMBER."
        )
    return np.rint(units).astype(np.int64)


def extract_targets(examples: Examples) -> Floats:
    """Return the targets of examples, whose labels are their targets."""
    return np.asarray(token_values(examples.labels)[examples.label_ranks])


def subtract_frozen(
    base: AdditiveBase, mean: int, inputs: SeenRows, targets: Ints, words: Words
) -> tuple[Ints, Ints]:
    """Return the residuals of the frozen base, without the fold of each row, and of the mean."""
    folds = (words % np.uint64(FOLDS)).astype(np.int64)
    base_scores = base.scores_without_folds(inputs.values, inputs.names, folds)[:, 0]
    return targets - base_scores, targets - mean


def number_prefixes(name: str, array_sets: Sequence[dict[str, Array]]) -> dict[str, Array]:
    """Return several sets of arrays as one: `values` of the first is `NAME.0.values`."""
    return {
        f"{name}.{number}.{array_name}": array
        for number, arrays in enumerate(array_sets)
        for array_name, array in arrays.items()
    }


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
        Trees of the residuals of the base, and of those of the mean.
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
    def table_kinds(self) -> ColumnKinds:
        """The kinds of the columns of the table."""
        return self.codes.kinds if self.narrowing is None else self.narrowing.kinds

    def see_rows(self, contexts: Contexts) -> SeenRows:
        """Return the rows of a question as base and trees see them."""
        if self.narrowing is None:
            return SeenRows(self.codes, contexts)
        return SeenRows(self.codes, self.narrowing.ask(contexts), wide=contexts)

    def round_targets(self, targets: Floats) -> Ints:
        """Return targets in units; TargetTooFarError where one is too large for them."""
        return round_targets(targets, self.center, self.exponent)

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

        A memory under it stays the same: without a unit all targets in it are equal, so that all
        its sums of targets are zero, in any unit.
        """
        assert not self.has_unit
        furthest = float(np.abs(targets - self.center).max(initial=0.0))
        return replace(self, exponent=choose_exponent(furthest))

    def describe(self) -> dict[str, Any]:
        """Return all that is no array, ready for JSON."""
        described: dict[str, Any] = {}
        if self.narrowing is not None:
            described["narrowing"] = self.narrowing.describe()
        return {
            **described,
            "kinds": encode_letters(self.codes.kinds),
            "center": self.center,
            "exponent": self.exponent,
            "last_word": self.last_word,
            "mean": self.mean,
            "base": self.base.describe(),
        }

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        arrays: dict[str, Array] = {}
        if self.narrowing is not None:
            for name, array in self.narrowing.arrays().items():
                arrays[f"narrowing.{name}"] = array
        for name, array in code_arrays(self.codes).items():
            arrays[f"codes.{name}"] = array
        for name, array in self.base.arrays().items():
            arrays[f"base.{name}"] = array
        arrays.update(number_prefixes("trees", [forest.arrays() for forest in self.forests]))
        return arrays

    @classmethod
    def from_stored(cls, described: dict[str, Any], stored: StoredArrays) -> NumberLayout:
        """Return the layout of a file, checked: undo `describe` and `arrays`."""
        kinds = decode_letters(described["kinds"], ColumnKind)
        center = described["center"]
        exponent = described["exponent"]
        mean = described["mean"]
        last_word = described["last_word"]
        if not 0 < len(kinds) <= MAX_POSITIONS:
            raise ValueError("the kinds of its columns are not valid")
        if type(center) is not float or not math.isfinite(center):
            raise ValueError("the center of its targets is not a number")
        is_unit = type(exponent) is int and abs(exponent) <= _LARGEST_EXPONENT
        is_mean = type(mean) is int and abs(mean) < 2**BITS
        is_word = type(last_word) is int and 0 <= last_word < 2**64
        if not (is_unit and is_mean and is_word):
            raise ValueError(
                "the unit of its targets, or the hash of its last growing row, is not valid"
            )
        codes = restore_codes(kinds, stored.part("codes"))
        base = AdditiveBase.from_stored(described["base"], stored.part("base"))
        _check_base(base, codes)
        forests = tuple(
            Forest.from_stored(codes.is_name, stored.part(f"trees.{part_number}"), rules.of_a_kind)
            for part_number, rules in enumerate(NUMBER_TREES)
        )
        narrowing = None
        if "narrowing" in described:
            narrowing = Narrowing.from_stored(described["narrowing"], stored.part("narrowing"))
            if narrowing.narrow_kinds != kinds:
                raise ValueError(
                    "its cells are of other columns than those chosen of its wide table"
                )
        return cls(
            codes=codes,
            center=center,
            exponent=exponent,
            base=base,
            mean=mean,
            forests=forests,
            last_word=last_word,
            narrowing=narrowing,
        )

    @cached_property
    def digest(self) -> str:
        """BLAKE2b-256 of all that the layout is."""
        return array_digest(self.arrays(), json.dumps(self.describe(), sort_keys=True))


def _check_base(base: AdditiveBase, codes: ColumnCodes) -> None:
    """Refuse a base that is not one of these columns."""
    is_of_numbers = not base.n_labels and not len(codes.pairs)
    has_columns = len(base.design.knots) == codes.n_ordered
    if not is_of_numbers or not has_columns or tuple(base.design.owners) != codes.plain_owners():
        raise ValueError("its base is not one of these columns")
