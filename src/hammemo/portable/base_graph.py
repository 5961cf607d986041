"""The additive base of a table as a graph: hats of values, sums of whole numbers, ratios of labels.

All numbers up to the ratios are whole, as in :mod:`hammemo.kernels.additive`, so the ratios are those of the library to
the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hammemo.kernels.additive.additive import NAT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.kernels.additive.label_base import LabelBase
    from hammemo.portable.graph import Operations
    from hammemo.tokens.vocabulary import Vocabulary

_HAT = 1024
_SHIFT = 10
_ABOVE = 2**60
"""Added before a shift, so that what is shifted is not negative."""


class _Place(NamedTuple):
    """A value lies between a level and the next one, by `right` of 1,024; `held` is 0 where it lies in none."""

    level: Any
    right: Any
    held: Any


@dataclass(frozen=True, eq=False)
class BaseGraph:
    """The weighted ratios of the labels as a function of values and bytes of names.

    Parameters
    ----------
    base : LabelBase
    labels : Vocabulary
        Those of the answers, in the order of their columns.
    constants : dict of arrays
    """

    base: LabelBase
    labels: Vocabulary
    constants: dict[str, NDArray[Any]]

    def ratios(self, ops: Operations, values: list[Any], names: list[Any]) -> Any:
        """Return the weighted ratio of each label: (m, L)."""
        scores = [self._score(ops, output, values, names) for output in range(self._outputs)]
        n = len(self.base.labels)
        if len(scores) < n:
            scores = [*[ops.multiply(scores[0], ops.word(0))] * (n - len(scores)), *scores]
        above = [
            ops.add(score, ops.word(-int(prior))) for score, prior in zip(scores, self.base.prior.tolist(), strict=True)
        ]
        total = above[0]
        for one in above[1:]:
            total = ops.add(total, one)
        nothing, columns = ops.floats(ops.multiply(total, ops.word(0))), []
        for place in self.base.labels.find(self.labels).tolist():
            if place < 0:
                columns.append(nothing)
                continue
            centred = ops.add(ops.multiply(above[place], ops.word(n)), ops.multiply(total, ops.word(-1)))
            columns.append(ops.divide(ops.floats(centred), ops.constant("base.unit")))
        return ops.multiply(ops.stacked(columns), ops.constant("base.weights"))

    @property
    def _outputs(self) -> int:
        return int(self.base.function.coefficients.shape[1])

    def _score(self, ops: Operations, output: int, values: list[Any], names: list[Any]) -> Any:
        """Return the score of one output, a whole number of 1/65536 nats."""
        design = self.base.function.design
        total = ops.word(int(self.base.function.coefficients[0, output]) * _HAT + _HAT // 2 + _ABOVE)
        for j, value in enumerate(values):
            place, table = self._place(ops, "fine", j, value), ops.constant(f"base.{output}.column.{j}")
            left = ops.add(ops.word(_HAT), ops.multiply(place.right, ops.word(-1)))
            total = ops.add(total, ops.multiply(left, ops.take(table, place.level)))
            after = ops.take(table, ops.add(place.level, ops.word(1)))
            total = ops.add(total, ops.multiply(place.right, after))
        for j, code in enumerate(names, len(values)):
            of_name = ops.take(ops.constant(f"base.{output}.column.{j}"), code)
            total = ops.add(total, ops.multiply(of_name, ops.word(_HAT)))
        columns = [*values, *names]
        for k, (first, second) in enumerate(design.pairs.tolist()):
            a, b = (self._place(ops, "coarse", j, columns[j]) for j in (first, second))
            total = ops.add(total, self._of_pair(ops, f"base.{output}.pair.{k}", self._width(second), a, b))
        return ops.add(ops.shifted(total, _SHIFT), ops.word(-(_ABOVE >> _SHIFT)))

    def _of_pair(self, ops: Operations, name: str, width: int, a: _Place, b: _Place) -> Any:
        both = ops.shifted(ops.multiply(a.right, b.right), _SHIFT)
        minus = ops.multiply(both, ops.word(-1))
        rest = ops.add(ops.multiply(ops.add(a.right, b.right), ops.word(-1)), both)
        at, total = ops.add(ops.multiply(a.level, ops.word(width)), b.level), None
        shares = (ops.add(ops.word(_HAT), rest), ops.add(b.right, minus), ops.add(a.right, minus), both)
        for step, share in zip((0, 1, width, width + 1), shares, strict=True):
            term = ops.multiply(share, ops.take(ops.constant(name), ops.add(at, ops.word(step))))
            total = term if total is None else ops.add(total, term)
        return ops.multiply(total, ops.multiply(a.held, b.held))

    def _width(self, column: int) -> int:
        """Return how many coarse levels a column has."""
        return int(self.base.function.design.coarse_sizes[column])

    def _place(self, ops: Operations, grid: str, j: int, value: Any) -> _Place:
        """Return where a value lies on the fine or on the coarse knots of its column, as ``place_of`` does."""
        design = self.base.function.design
        name = f"base.{grid}.{j}"
        if j >= len(design.knots):
            level = ops.take(ops.constant(name), value)
            return _Place(level, ops.multiply(level, ops.word(0)), ops.word(1))
        known, missing = ops.equal(value, value), ops.word(int(design.has_missing[j]))
        k = len(self.constants[f"{name}.knots"]) - 1
        if k < 2:
            level = ops.where(known, ops.word(1), ops.word(0))
            return _Place(level, ops.multiply(level, ops.word(0)), ops.where(known, ops.word(0), missing))
        above = ops.search(ops.constant(f"{name}.knots"), k + 1, ops.multiply(value, ops.constant("minus")))
        at = ops.add(ops.multiply(above, ops.word(-1)), ops.word(k - 1))
        at = ops.where(ops.less(at, ops.word(0)), ops.word(0), at)
        at = ops.where(ops.less(at, ops.word(k - 2)), at, ops.word(k - 2))
        gap = ops.subtract(ops.multiply(value, ops.constant("base.half")), ops.take(ops.constant(f"{name}.low"), at))
        right = ops.divide(gap, ops.take(ops.constant(f"{name}.range"), at))
        right = ops.multiply(right, ops.constant("base.hat"))
        low, high = (ops.constant(f"base.{grid}.{end}") for end in ("least", "most"))
        right = ops.where(known, right, low)
        right = ops.where(ops.less(right, low), low, ops.where(ops.less(high, right), high, right))
        right = ops.multiply(ops.rounded(right), ops.where(known, ops.word(1), ops.word(0)))
        return _Place(ops.where(known, at, ops.word(k)), right, ops.where(known, ops.word(1), missing))


def base_graph(base: LabelBase, labels: Vocabulary, weights: NDArray[np.float64]) -> BaseGraph:
    """Return the graph of an additive base with these weights of the labels."""
    design, n = base.function.design, len(base.labels)
    constants: dict[str, NDArray[Any]] = {
        "base.half": np.array(0.5),
        "base.hat": np.array(float(_HAT)),
        "base.unit": np.array(float(n * NAT)),
        "base.weights": weights[None, :],
    }
    for grid, (knots, of_names, reach) in design.grids().items():
        constants[f"base.{grid}.least"] = np.array(float(-reach))
        constants[f"base.{grid}.most"] = np.array(float(_HAT + reach))
        for j, known in enumerate(knots):
            constants[f"base.{grid}.{j}.knots"] = np.append(-known[::-1], np.inf)
            halves = 0.5 * known
            constants[f"base.{grid}.{j}.low"] = halves[:-1]
            constants[f"base.{grid}.{j}.range"] = np.diff(halves)
        for j, levels in enumerate(of_names, len(knots)):
            constants[f"base.{grid}.{j}"] = levels.astype(np.int64)
    for output, coefficients in enumerate(base.function.coefficients.T):
        for j in range(design.n_columns):
            own = coefficients[design.starts[j] : design.starts[j + 1]]
            if j < len(design.knots):
                rest = 2 - int(design.has_missing[j])  # a missing value without a coordinate, and what lies behind
                own = np.append(own, np.zeros(rest + (len(design.knots[j]) == 0), np.int64))
            else:
                own = own[constants[f"base.fine.{j}"]]
            constants[f"base.{output}.column.{j}"] = own
        for k, (_, second) in enumerate(design.pairs.tolist()):
            at = design.n_columns + k
            own = coefficients[design.starts[at] : design.starts[at + 1]]
            constants[f"base.{output}.pair.{k}"] = np.append(
                own, np.zeros(2 * int(design.coarse_sizes[second]) + 2, np.int64)
            )
    return BaseGraph(base, labels, constants)
