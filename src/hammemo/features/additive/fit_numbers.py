"""The additive base for numbers: ridge regression from one matrix of whole numbers.

Targets are whole numbers of a unit, and so are coordinates of rows. So the memory of a fit, its `Gram` value, is exact:
rows that are added and subtracted again leave no trace. Coefficients are a function of it and of frozen penalties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.threads import in_threads
from hammemo._arrays.wide_sums import (
    add_sums,
    as_floats,
    as_wide,
    exact_square_sum,
    exact_sum,
    first_value,
    in_form,
    largest_size,
    needs_words,
    no_sums,
    number_of,
    take_sums,
    words_of,
)
from hammemo.features.additive.additive import (
    MAX_PAIRS,
    NAT,
    AdditiveBase,
    AdditiveDesign,
    fold_counts,
    row_order,
    row_scores,
    whole_coefficients,
)
from hammemo.features.additive.levels import HAT
from hammemo.features.additive.penalties import group_sums, inverse_of, next_pairs, ridge, worth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints, Words
    from hammemo._native import AdditiveRows
    from hammemo.features.cells.column_codes import ColumnCodes

MAX_TARGET: Final = 2**40
MAX_ROWS: Final = 2**40
"""Rows of a model of numbers stay below this, multiplicities counted: a product of two coordinates has 22 bits, so that
the sums of the matrix stay below 2^62."""
_MOST_COORDINATE: Final = 2 * HAT
"""No coordinate of a row is larger: lines go on behind the outer knots for one more range."""
_SQUARE_BYTES: Final = 16
_OF_CONSTANT: Final = 1e-8
_FIRST_PENALTY, _PAIR_PENALTY = 1.0, 10.0
_FIRST_ROUNDS, _NEXT_ROUNDS, _FOLD_ROUNDS = 12, 6, 3
_LEAST_GAIN: Final = 0.005
_ROWS_OF_A_PAIR: Final = 100
_OWN_PENALTY_ROWS: Final = 1000
_PAIR_SHRINKAGE: Final = 5.0


def check_row_total(held: int, added: int) -> None:
    """Refuse to hold `MAX_ROWS` rows and more."""
    if held + added >= MAX_ROWS:
        raise ValueError(
            f"The model holds {held:,} rows and {added:,} are to be added, sample_weight counted: its sums are exact "
            f"below 2^40 = {MAX_ROWS:,} rows, so nothing was changed. Divide all sample_weight by a common factor."
        )


@dataclass(frozen=True, eq=False)
class Gram:
    """What the base for numbers remembers of rows: sums of whole numbers.

    Parameters
    ----------
    products : ndarray of int64, shape (p, p)
        Products of coordinates, in 1/1024 each: the upper half.
    targets : ndarray, shape (p,) or (2, p)
        Products of coordinates and targets: the form of `hammemo._arrays.wide_sums` that belongs to `targets_bound`.
    squares : int
        The sum of the squares of targets.
    size : int
        The sum of the absolute targets.
    n : int
        How many rows there are.
    """

    products: Ints
    targets: Array
    squares: int
    size: int
    n: int

    @classmethod
    def empty(cls, p: int) -> Gram:
        """Return the memory of no rows."""
        return cls(np.zeros((p, p), np.int64), no_sums(p), squares=0, size=0, n=0)

    @classmethod
    def of_rows(cls, rows: AdditiveRows, p: int, targets: Ints, counts: Ints) -> Gram:
        """Return the memory of rows with these targets, each so often."""
        n = int(counts.sum())
        if n >= MAX_ROWS or largest_size(targets) > MAX_TARGET:  # callers have refused them with a better message
            raise OverflowError(f"{n} rows are too many for exact sums, or a target is above 2^40 units")
        size = exact_sum(np.abs(targets), counts)
        products = np.zeros((p, p), np.int64)
        if needs_words(_MOST_COORDINATE * size):
            sums = as_wide(no_sums(p))
            rows.add_wide_gram(counts, targets, products.reshape(-1), sums)
        else:
            sums = no_sums(p)
            rows.add_gram(counts, targets, products.reshape(-1), sums)
        return cls(products, sums, squares=exact_square_sum(targets, counts), size=size, n=n)

    @property
    def targets_bound(self) -> int:
        """What no absolute value in `targets` exceeds."""
        return _MOST_COORDINATE * self.size

    def __add__(self, other: Gram) -> Gram:
        return self._combined(other, 1)

    def __sub__(self, other: Gram) -> Gram:
        return self._combined(other, -1)

    def _combined(self, other: Gram, sign: int) -> Gram:
        size = self.size + sign * other.size
        products = self.products + other.products if sign > 0 else self.products - other.products
        # A difference may be one of rows that were never there: until `is_possible` has looked, both bounds count.
        is_wide = needs_words(self.targets_bound + other.targets_bound)
        targets = add_sums(self.targets, other.targets, sign=sign, is_wide=is_wide)
        if is_wide:
            targets = in_form(targets, max(_MOST_COORDINATE * size, largest_size(targets)))
        return Gram(
            products,
            targets,
            squares=self.squares + sign * other.squares,
            size=size,
            n=self.n + sign * other.n,
        )

    @property
    def is_possible(self) -> bool:
        """Whether there may be rows with these sums: a difference of rows that are not in it goes beyond a bound."""
        most = self.n * _MOST_COORDINATE**2
        return (
            0 <= self.n < MAX_ROWS
            and 0 <= self.size <= self.n * MAX_TARGET
            and 0 <= self.squares <= self.size * MAX_TARGET
            and largest_size(self.products.reshape(-1)) <= most
            and int(self.products.diagonal().min()) >= 0
            and int(self.products[0, 0]) == self.n * HAT**2
            and largest_size(self.targets) <= self.targets_bound
        )

    @property
    def scale(self) -> float:
        """The standard deviation of targets, or 1."""
        mean_square = self.squares * self.n * HAT**2 - self.target_sum**2
        return math.sqrt(mean_square) / (self.n * HAT) if mean_square > 0 else 1.0

    @property
    def target_sum(self) -> int:
        """The sum of the targets, in 1/1024: coordinate 0 is constant."""
        return first_value(self.targets)

    @property
    def deviations(self) -> int:
        """The sum of the squared distances of targets from their mean, times the number of rows."""
        return self.squares * self.n - (self.target_sum // HAT) ** 2

    def arrays(self) -> dict[str, Array]:
        """Return the memory as arrays, with sums in their narrowest form."""
        squares = self.squares.to_bytes(_SQUARE_BYTES, "little")
        return {
            "products": self.products[np.triu_indices(len(self.products))],
            "targets": self.targets,
            "squares": np.frombuffer(squares, np.uint8),
            "sizes": np.array([self.n, *words_of(self.size)], np.uint64),
        }

    @classmethod
    def restored(cls, p: int, stored: StoredArrays) -> Gram:
        """Return the memory of a file, checked: undo `arrays`."""
        products = np.zeros((p, p), np.int64)
        upper = np.triu_indices(p)
        products[upper] = stored.take("products", "int64", (len(upper[0]),))
        squares = int.from_bytes(stored.take("squares", "uint8", (_SQUARE_BYTES,)).tobytes(), "little")
        sizes = stored.take("sizes", "uint64", (None,)).tolist()
        if len(sizes) not in (2, 3):
            raise ValueError("its matrix is not that of any rows")
        n = sizes[0]
        size = number_of(sizes[1:])
        if n >= MAX_ROWS or size > n * MAX_TARGET:
            raise ValueError("its matrix is not that of any rows")
        targets = take_sums(stored, "targets", p, _MOST_COORDINATE * size)
        gram = cls(products, targets, squares=squares, size=size, n=n)
        if not gram.is_possible:
            raise ValueError("its matrix is not that of any rows")
        return gram


def gram_of(design: AdditiveDesign, values: Floats, name_codes: NDArray[np.uint8], targets: Ints, counts: Ints) -> Gram:
    """Return the memory of rows with these targets, each so often."""
    return Gram.of_rows(design.rows(values, name_codes), design.p, targets, counts)


def solved(design: AdditiveDesign, penalties: Floats, gram: Gram) -> Ints:
    """Return the coefficients, shape (p, 1), that a memory and frozen penalties give."""
    if not gram.n:
        return np.zeros((design.p, 1), np.int64)
    return _Equations.of(design, gram).whole(penalties)


def number_base(
    codes: ColumnCodes, values: Floats, name_codes: NDArray[np.uint8], targets: Ints, counts: Ints, words: Words
) -> tuple[AdditiveBase, Gram]:
    """Return the base for rows with these targets, a function of the multiset of rows, and its memory.

    Shapes
    ------
    values : (m, ordered columns); name_codes : (m, columns of names); targets, counts, words : (m,)
    """
    order = row_order(words, values, name_codes, targets)
    values, name_codes, targets = values[order], name_codes[order], targets[order]
    counts, words = counts[order], words[order]
    design = AdditiveDesign.chosen(codes, values, name_codes, counts)
    cells, folded = design.cells(values, name_codes), fold_counts(words, counts)
    penalties = np.full(int(design.groups.max()) + 1, _FIRST_PENALTY)
    most_pairs = min(MAX_PAIRS, int(counts.sum()) // _ROWS_OF_A_PAIR)
    best, rounds = None, _FIRST_ROUNDS
    while True:
        rows = design.rows(values, name_codes)
        grams = in_threads(partial(Gram.of_rows, rows, design.p, targets), list(folded))
        gram = sum(grams[1:], grams[0])
        penalties = _evidence(design, gram, penalties, rounds)
        crossed = _crossed(design, gram, grams, penalties)
        left = np.stack([targets - row_scores(rows, coefficients)[:, 0] for coefficients in crossed])
        loss = _squares(left, folded)
        if best is not None and loss >= best[0] * (1 - _LEAST_GAIN):
            break
        best = loss, AdditiveBase(design, 0, solved(design, penalties, gram), crossed, penalties), gram
        unit = NAT / math.sqrt(max(loss, 1) / max(gram.n, 1))
        # At most NAT times the rows: the squares of left * unit / NAT add up to the rows, so do their sizes at most.
        kept = (np.rint(left * unit).astype(np.int64) * folded).sum(axis=0)
        more = next_pairs(
            design, cells, kept[:, None], (counts * NAT)[:, None], _PAIR_SHRINKAGE, most_pairs - len(design.pairs)
        )
        if not len(more):
            break
        design, rounds = replace(design, pairs=np.concatenate([design.pairs, more])), _NEXT_ROUNDS
        penalties = np.append(penalties, np.full(len(more), _PAIR_PENALTY))
    return best[1], best[2]


@dataclass(frozen=True, eq=False)
class _Equations:
    """A memory in the coordinates of the fit, and in units of the standard deviation of targets."""

    design: AdditiveDesign
    products: Floats
    targets: Floats
    squares: float
    n: int
    scale: float

    @classmethod
    def of(cls, design: AdditiveDesign, gram: Gram) -> _Equations:
        q, scale = len(design.groups), gram.scale
        products, targets = np.empty((q, q)), np.empty(q)
        design.modes.turn(gram.products / HAT**2, products.reshape(-1))
        design.modes.apply_turned(as_floats(gram.targets) / (HAT * scale), targets)
        return cls(design, products, targets, gram.squares / scale**2, gram.n, scale)

    def solved(self, penalties: Floats) -> tuple[Floats, Floats]:
        """Return coefficients, and the inverse that gives them."""
        inverse = inverse_of(self.products, ridge(self.design.groups, penalties, _OF_CONSTANT))
        return _times(inverse, _times(inverse.T, self.targets)), inverse

    def whole(self, penalties: Floats) -> Ints:
        """Return coefficients of the coordinates of rows, in whole numbers: shape (p, 1)."""
        found = np.empty((self.design.p, 1))
        self.design.modes.apply(self.solved(penalties)[0][None], found.reshape(-1))
        return whole_coefficients(found, self.scale, self.design.largest_coefficient(0))


def _evidence(design: AdditiveDesign, gram: Gram, penalties: Floats, rounds: int) -> Floats:
    """Return penalties after so many steps of the evidence."""
    if gram.n < 2:
        return penalties
    equations, groups = _Equations.of(design, gram), design.groups
    for _ in range(rounds):
        phi, inverse = equations.solved(penalties)
        worths = worth(groups, penalties, inverse, 1)
        explained = _summed(phi * equations.targets) + _summed(ridge(groups, penalties, _OF_CONSTANT) * phi**2)
        noise = max(equations.squares - explained, 1e-12 * equations.squares) / max(gram.n - 1 - _summed(worths), 1.0)
        penalties = np.clip(worths * noise / np.maximum(group_sums(groups, phi**2), 1e-30), 1e-6, 1e9)
    return penalties


def _crossed(design: AdditiveDesign, gram: Gram, grams: list[Gram], penalties: Floats) -> Ints:
    """Return coefficients without each fold: shape (folds, p, 1)."""
    rounds = _FOLD_ROUNDS if gram.n <= _OWN_PENALTY_ROWS else 0

    def without(own: Gram) -> Ints:
        rest = gram - own
        return solved(design, _evidence(design, rest, penalties, rounds), rest)

    return np.stack(in_threads(without, grams))


def _squares(left: Ints, folded: Ints) -> float:
    """Return the sum of squares, each so often, row by row."""
    return _summed((left.astype(np.float64) ** 2 * folded).ravel())


def _summed(numbers: Floats) -> float:
    """Return the sum, in the order given."""
    return float(np.cumsum(np.append(0.0, numbers))[-1])


def _times(matrix: Floats, vector: Floats) -> Floats:
    """Return the product of a matrix and a vector, column by column: BLAS has another order on each processor."""
    found = np.zeros(len(matrix))
    for column, number in zip(matrix.T, vector.tolist(), strict=True):
        found += column * number
    return found
