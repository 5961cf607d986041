r"""What the additive base for numbers remembers of rows: sums of whole numbers.

Targets :math:`y_i` are whole numbers of a unit, and so are coordinates :math:`z_i` of rows. With
the counts :math:`n_i`, the memory of a fit is

.. math:: \sum_i n_i z_i z_i^\top, \qquad \sum_i n_i y_i z_i, \qquad \sum_i n_i y_i^2.

It is exact: rows that are added and subtracted again leave no trace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.wide_sums import (
    add_sums,
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
from hammemo.features.additive.levels import HAT

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints
    from hammemo._native import AdditiveRows

MAX_TARGET: Final = 2**40
"""The largest absolute target, in units."""

MAX_ROWS: Final = 2**40
"""Rows of a model of numbers stay below this, multiplicities counted: a product of two coordinates
has 22 bits, so that the sums of the matrix stay below 2^62."""

_MOST_COORDINATE: Final = 2 * HAT
"""No coordinate of a row is larger: lines go on behind the outer knots for one more range."""

_SQUARE_BYTES: Final = 16
"""Bytes of the sum of squares in a file: it is below 2^120."""


def check_row_total(n_rows: int, n_added: int) -> None:
    """Refuse to hold `MAX_ROWS` rows and more."""
    if n_rows + n_added >= MAX_ROWS:
        raise ValueError(
            f"The model holds {n_rows:,} rows and {n_added:,} are to be added, sample_weight "
            f"counted: its sums are exact below 2^40 = {MAX_ROWS:,} rows, so nothing was changed. "
            "Divide all sample_weight by a common factor."
        )


@dataclass(frozen=True, eq=False)
class Gram:
    """What the base for numbers remembers of rows: sums of whole numbers.

    Parameters
    ----------
    products : ndarray of int64, shape (p, p)
        Products of coordinates, in 1/1024 each: the upper half.
    targets : ndarray, shape (p,) or (2, p)
        Products of coordinates and targets: the form of `hammemo._arrays.wide_sums` that belongs to
        `targets_bound`.
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
    def from_rows(cls, rows: AdditiveRows, p: int, targets: Ints, counts: Ints) -> Gram:
        """Return the memory of rows with these targets, each as often as its count."""
        n = int(counts.sum())
        if n >= MAX_ROWS or largest_size(targets) > MAX_TARGET:
            # callers have refused them with a better message
            raise OverflowError(
                f"{n} rows are too many for exact sums, or a target is above 2^40 units"
            )
        size = exact_sum(np.abs(targets), counts)
        products = np.zeros((p, p), np.int64)
        if needs_words(_MOST_COORDINATE * size):
            sums = as_wide(no_sums(p))
            rows.add_wide_gram(
                counts=counts, targets=targets, gram=products.reshape(-1), products=sums
            )
        else:
            sums = no_sums(p)
            rows.add_gram(counts=counts, targets=targets, gram=products.reshape(-1), products=sums)
        squares = exact_square_sum(targets, counts)
        return cls(products, sums, squares=squares, size=size, n=n)

    @property
    def targets_bound(self) -> int:
        """What no absolute value in `targets` exceeds."""
        return _MOST_COORDINATE * self.size

    def __add__(self, other: Gram) -> Gram:
        return self._combine(other, 1)

    def __sub__(self, other: Gram) -> Gram:
        return self._combine(other, -1)

    def _combine(self, other: Gram, sign: int) -> Gram:
        size = self.size + sign * other.size
        if sign > 0:
            products = self.products + other.products
        else:
            products = self.products - other.products
        # A difference may be one of rows that were never there: until `is_possible` has looked,
        # both bounds count.
        is_wide = needs_words(self.targets_bound + other.targets_bound)
        targets = add_sums(self.targets, other.targets, sign=sign, is_wide=is_wide)
        if is_wide:
            bound = max(_MOST_COORDINATE * size, largest_size(targets))
            targets = in_form(targets, bound)
        return Gram(
            products,
            targets,
            squares=self.squares + sign * other.squares,
            size=size,
            n=self.n + sign * other.n,
        )

    @property
    def is_possible(self) -> bool:
        """Whether there may be rows with these sums.

        A difference with rows that were not in the memory goes beyond a bound.
        """
        largest_product = self.n * _MOST_COORDINATE**2
        return (
            0 <= self.n < MAX_ROWS
            and 0 <= self.size <= self.n * MAX_TARGET
            and 0 <= self.squares <= self.size * MAX_TARGET
            and largest_size(self.products.reshape(-1)) <= largest_product
            and int(self.products.diagonal().min()) >= 0
            and int(self.products[0, 0]) == self.n * HAT**2
            and largest_size(self.targets) <= self.targets_bound
        )

    @property
    def scale(self) -> float:
        """The standard deviation of targets, or 1."""
        # the variance of targets, times (n HAT)^2
        mean_square = self.squares * self.n * HAT**2 - self.target_sum**2
        if mean_square <= 0:
            return 1.0
        return math.sqrt(mean_square) / (self.n * HAT)

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
    def from_stored(cls, p: int, stored: StoredArrays) -> Gram:
        """Return the memory of a file, checked: undo `arrays`."""
        products = np.zeros((p, p), np.int64)
        upper = np.triu_indices(p)
        products[upper] = stored.take("products", "int64", (len(upper[0]),))
        square_bytes = stored.take("squares", "uint8", (_SQUARE_BYTES,)).tobytes()
        squares = int.from_bytes(square_bytes, "little")
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
