"""A model of numbers as a graph: two tables of whole numbers, trees, and their blend.

They are added in the order of the library, so a prediction is that of the library to the bit. Quantiles need the trees
of the sizes of errors, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.kernels.cells.error_sizes import LEAST_SIZE
from hammemo.portable.base_graph import table_constants, table_score
from hammemo.portable.tree_graph import coded_rows, walk_constants, walked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.kernels.additive.step_tables import StepTables
    from hammemo.kernels.cells.forest import Forest
    from hammemo.portable.graph import Operations
    from hammemo.portable.tree_graph import CodedRows
    from hammemo.tokens.vocabulary import Vocabulary
    from hammemo.votes.number_answers import NumberAnswers


@dataclass(frozen=True, eq=False)
class NumberGraph:
    """The predictions of a model as a function of numbers and of the places of names in a list.

    Parameters
    ----------
    rows : CodedRows
    constants : dict of arrays
    forests : tuple of Forest
        Those of the parts and, where there are levels, that of the sizes of errors.
    tables : StepTables
        The live and the frozen base.
    n_levels : int
        How many quantiles come after the prediction.
    """

    rows: CodedRows
    constants: dict[str, NDArray[Any]]
    forests: tuple[Forest, ...]
    tables: StepTables
    n_levels: int
    classes: None = None

    def scores(self, ops: Operations, values: list[Any], places: list[Any]) -> Any:
        """Return the prediction and the quantiles of rows, (m, 1 + levels); columns are those of a `TreeGraph`."""
        codes = self.rows.codes(ops, values, places)
        stacked, nowhere = ops.stacked(codes), ops.multiply(codes[0], ops.word(0))

        def each(name: str, place: int = 0) -> Any:
            """Return an entry for each row: ONNX Runtime drops factors and terms that are 1 and 0 in float32."""
            return ops.take(ops.constant(name), ops.add(nowhere, ops.word(place)))

        bases = [ops.floats(table_score(self.tables, ops, output, codes)) for output in range(2)]
        total = mean = ops.constant("mean")
        for part, (live, frozen) in enumerate((bases, [ops.constant("live_mean"), mean])):
            told = self._told(ops, part, stacked)
            trust = _least(ops, _most(ops, ops.column(told, 1), ops.constant("zero")), ops.constant("one"))
            said = ops.add(live, ops.multiply(trust, ops.subtract(frozen, live)))
            said = ops.subtract(ops.add(said, ops.column(told, 0)), mean)
            total = ops.add(total, ops.multiply(each("blend", part), said))
        found = [total]
        if self.n_levels:
            more = ops.add(ops.constant("size"), ops.column(self._told(ops, 2, stacked), 0))
            size = _most(ops, more, ops.constant("least_size"))
            found += [ops.add(total, ops.multiply(size, each("ratios", k))) for k in range(self.n_levels)]
        for step in range(2):  # a power of two may be too large for one factor
            found = [ops.multiply(units, ops.constant(f"unit.{step}")) for units in found]
        return ops.stacked([ops.add(each("center"), number) for number in found])

    def numbers(self, X: Any) -> NDArray[np.float64]:
        """Return rows as the numbers that a torch module takes: (m, h)."""
        return self.rows.numbers(X)

    def _told(self, ops: Operations, part: int, codes: Any) -> Any:
        """Return the sum of what the leaves of a forest say."""
        leaves, told = walked(ops, self.forests[part], f"trees.{part}", codes), None
        for tree in range(self.forests[part].n_trees):
            own = ops.take(ops.constant(f"leaves.{part}"), ops.column(leaves, tree))
            told = own if told is None else ops.add(told, own)
        return told


def _most(ops: Operations, a: Any, b: Any) -> Any:
    return ops.where(ops.less(a, b), b, a)


def _least(ops: Operations, a: Any, b: Any) -> Any:
    return ops.where(ops.less(b, a), b, a)


def number_graph(answers: NumberAnswers, missing: str, names: Vocabulary, levels: NDArray[np.float64]) -> NumberGraph:
    """Return the graph of a model, or refuse one that has none.

    Parameters
    ----------
    answers : NumberAnswers
    missing : str
        What takes the place of missing names.
    names : Vocabulary
        The names that the graph shall know.
    levels : ndarray of float64
        Of the quantiles that it also gives.
    """
    errors, half = answers.errors, answers.exponent // 2
    assert errors is not None
    tables = answers.design.step_tables(answers.coefficients, answers.codes.step_middles)
    numbers = {
        "zero": 0.0,
        "one": 1.0,
        "center": [answers.center],
        "size": errors.mean,
        "least_size": LEAST_SIZE * errors.mean,
        **dict(zip(("live_mean", "mean"), answers.means, strict=True)),
        "blend": answers.blend,
        "ratios": errors.at(levels),
        **{f"unit.{step}": np.ldexp(1.0, -own) for step, own in enumerate((half, answers.exponent - half))},
    }
    constants: dict[str, NDArray[Any]] = {name: np.array(number) for name, number in numbers.items()}
    forests, leaves = answers.forests, answers.leaves
    if len(levels):
        forests, leaves = (*forests, errors.forest), (*leaves, errors.leaves[:, None])
    for part, (forest, own) in enumerate(zip(forests, leaves, strict=True)):
        constants |= {f"leaves.{part}": own, **walk_constants(forest, f"trees.{part}")}
    constants |= table_constants(tables)
    rows = coded_rows(answers.codes, missing, names, constants)
    return NumberGraph(rows, constants, forests, tables, len(levels))
