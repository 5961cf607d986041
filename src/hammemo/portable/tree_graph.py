"""Models of tables with numbers as graphs: steps, trees and sums.

A number becomes its step, a name its byte, and a pair of numbers the step of their difference, as
in :mod:`hammemo.features.cells.column_codes`. All rows walk all trees at once: as many times as
the deepest
tree has levels, each node is replaced by the child that the row's byte chooses, and a leaf by
itself. Everything is added in the order of the library, so the answers are its own to the bit.

What is added:

- for labels (`TreeGraph`), the rows of names and of leaves and, where the model has one, the
  additive base: entries of tables by bytes, which are whole numbers
  (:class:`~hammemo.features.additive.step_tables.StepTables`), and the ratios of labels from these;
- for numbers (`NumberGraph`), two tables of whole numbers, trees, and their blend. Quantiles need
  the trees of the sizes of errors, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from hammemo.features.additive.additive_base import NAT
from hammemo.features.additive.levels import HAT
from hammemo.features.cells.column_codes import DIFFERENCE_CUTS, LOWEST, ColumnCodes, values_of
from hammemo.features.cells.error_sizes import LEAST_SIZE
from hammemo.features.cells.forest import LEAF, Forest
from hammemo.portable.graph import Constants, Operations, Search
from hammemo.tokens.column_kinds import ColumnKind, find_ordered
from hammemo.votes.bounds import UNBOUNDED, Bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.features.additive.label_base import BaseAnswers
    from hammemo.features.additive.step_tables import StepTables
    from hammemo.features.cells import TreeCells
    from hammemo.memories.exact import TreeRanker, WholeTable
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Vocabulary
    from hammemo.votes.number_answers import NumberAnswers

_SHIFT = 10
"""The bits of a share: two shares multiplied are shifted back by these."""

_ABOVE = 2**60
"""Added before a shift, so that what is shifted is not negative."""

_NOWHERE = 2**62
"""The low end of a leaf: no byte is there."""

_HIGHEST_BYTE = 255


# The additive base


def compute_ratios(base: BaseAnswers, ops: Operations, codes: list[Any]) -> Any:
    """Return the weighted ratio of each label, by the bytes of rows in each column: (m, L)."""
    labels = base.base.labels
    n_labels = len(labels)
    n_outputs = base.tables.columns.shape[2]
    scores = [compute_table_score(base.tables, ops, output, codes) for output in range(n_outputs)]
    # of two labels, the first has no output of its own: its score is zero
    scores = [scores[0] * 0] * (n_labels - n_outputs) + scores
    priors = base.base.prior.tolist()
    above_prior = [score + -int(prior) for score, prior in zip(scores, priors, strict=True)]
    total = reduce(add, above_prior)
    zeros = (total * 0).double()
    columns = []
    for place in labels.find(base.labels).tolist():
        if place < 0:
            columns.append(zeros)
            continue
        # n times the distance from the mean, which is whole
        distance = above_prior[place] * n_labels - total
        columns.append(distance.double() / ops.constant("base.unit"))
    return ops.stack(columns) * ops.constant("base.weights")


def compute_table_score(tables: StepTables, ops: Operations, output: int, codes: list[Any]) -> Any:
    """Return the score of one output, a whole number, by the bytes of rows in each column."""
    first, *others = (
        ops.constant(f"base.{output}.column.{j}")[codes[j]] for j in range(len(tables.columns))
    )
    # half of a unit, so that the last shift rounds
    start = int(tables.constant[output]) + HAT // 2 + _ABOVE
    total = reduce(add, others, first + start)
    pairs = zip(tables.pairs.tolist(), tables.widths.tolist(), strict=True)
    for k, ((a, b), width) in enumerate(pairs):
        # a pair is interpolated between the four corners of its cell, weighed by their shares
        level_a = ops.constant(f"base.level.{a}")[codes[a]]
        right_a = ops.constant(f"base.right.{a}")[codes[a]]
        level_b = ops.constant(f"base.level.{b}")[codes[b]]
        right_b = ops.constant(f"base.right.{b}")[codes[b]]
        place = level_a * width + level_b
        product = ops.shift(right_a * right_b, _SHIFT)
        corners = [
            (0, product - right_a - right_b + HAT),
            (1, right_b - product),
            (width, right_a - product),
            (width + 1, product),
        ]
        values = ops.constant(f"base.{output}.pair.{k}")
        for step, share in corners:
            total = total + share * values[place + step]
    return ops.shift(total, _SHIFT) + -(_ABOVE >> _SHIFT)


def base_constants(base: BaseAnswers) -> Constants:
    """Return the constants of `compute_ratios`."""
    unit = np.array(float(len(base.base.labels) * NAT))
    return {
        "base.unit": unit,
        "base.weights": base.weights[None, :],
        **table_constants(base.tables),
    }


def table_constants(tables: StepTables) -> Constants:
    """Return the constants of `compute_table_score`.

    A byte that lies in no level reads zeros behind its block.
    """
    constants: Constants = {}
    nowhere = int(np.diff(tables.starts).max(initial=0))  # as large as the largest block
    for j in set(tables.pairs.ravel().tolist()):
        levels = np.where(tables.levels[j] < 0, nowhere, tables.levels[j])
        constants[f"base.level.{j}"] = levels.astype(np.int64)
        constants[f"base.right.{j}"] = tables.rights[j].astype(np.int64)
    for output in range(tables.columns.shape[2]):
        for j, column in enumerate(tables.columns):
            constants[f"base.{output}.column.{j}"] = np.ascontiguousarray(column[:, output])
        for k, width in enumerate(tables.widths.tolist()):
            block = tables.blocks[tables.starts[k] : tables.starts[k + 1], output]
            zeros = np.zeros((nowhere + 2) * (width + 1) + 1, np.int64)
            constants[f"base.{output}.pair.{k}"] = np.append(block, zeros)
    return constants


# Rows as bytes


@dataclass(frozen=True, eq=False)
class CodedRows:
    """How a graph makes bytes of rows.

    Parameters
    ----------
    kinds : tuple of ColumnKind
        Whether each column holds names or numbers.
    tokens : Vocabulary
        The names that it knows, all strings.
    n_cuts : tuple of int
        How many cuts each column of numbers has.
    pairs : tuple of pairs of int
        The columns of numbers whose differences are columns too.
    """

    kinds: ColumnKinds
    tokens: Vocabulary
    n_cuts: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]

    def codes(self, ops: Operations, values: list[Any], places: list[Any]) -> list[Any]:
        """Return the bytes of all rows, for each column."""
        steps = [self._steps(ops, j, value) for j, value in enumerate(values)]
        name_bytes = [ops.constant(f"bytes.{j}")[place] for j, place in enumerate(places)]
        differences = []
        for j, (first, second) in enumerate(self.pairs):
            distance = steps[first] - steps[second] + _HIGHEST_BYTE
            difference = ops.constant(f"differences.{j}")[distance]
            has_both = (steps[first] > 0) & (steps[second] > 0)
            differences.append(ops.where(has_both, difference, 0))
        return [*steps, *name_bytes, *differences]

    def _steps(self, ops: Operations, j: int, value: Any) -> Any:
        """Return 1 plus the number of cuts that are not above a value; 0 for NaN.

        The cuts are stored with their signs changed: those above a value are then less than minus
        the value, and a search counts these.
        """
        n = self.n_cuts[j]
        n_above = ops.search(ops.constant(f"cuts.{j}"), n + 1, value * ops.constant("minus"))
        is_number = ops.equal(value, value)
        return ops.where(is_number, n_above * -1 + (n + 1), 0)

    def numbers(self, contexts: Contexts) -> Floats:
        """Return rows as the numbers that a torch module takes: (m, h).

        A name is its place.
        """
        places = np.append(self.tokens.find(contexts.vocabulary), -1)
        is_name = ~find_ordered(self.kinds)
        return np.where(is_name, places[contexts.ranks], values_of(contexts))


@dataclass(frozen=True, eq=False)
class RowGraph:
    """What is computed of rows of numbers and names.

    Parameters
    ----------
    rows : CodedRows
    constants : dict of arrays
    """

    rows: CodedRows
    constants: Constants

    def numbers(self, contexts: Contexts) -> Floats:
        """Return rows as the numbers that a torch module takes: (m, h)."""
        return self.rows.numbers(contexts)


class NameTuple(NamedTuple):
    """A tuple of names, whose values depend on all of them together."""

    columns: tuple[int, ...]
    """Its columns among those of names."""
    searches: tuple[Search, ...]
    """What finds its row, one column after the other.

    The key is the row so far times the number of names, plus the next name.
    """


@dataclass(frozen=True, eq=False)
class TreeGraph(RowGraph):
    """The scores of a predictor as a function of numbers and of the places of names in a list.

    Parameters
    ----------
    rows : CodedRows
    constants : dict of arrays
    forest : Forest
    classes : ndarray
    tuples : tuple of NameTuple
    base : BaseAnswers, optional
        The weighted additive base.
    """

    forest: Forest
    classes: Array
    tuples: tuple[NameTuple, ...] = ()
    base: BaseAnswers | None = None
    n_levels: ClassVar = 0

    def scores(self, ops: Operations, values: list[Any], places: list[Any]) -> Any:
        """Return one score per label: (m, L).

        A column of numbers is a vector of floats, a column of names a vector of places.
        """
        codes = self.rows.codes(ops, values, places)
        leaves = walk_trees(ops, self.forest, "trees", ops.stack(codes))
        totals = ops.constant("base")
        for j, place in enumerate(places):
            totals = totals + ops.constant(f"names.{j}")[place]
        for k in range(len(self.tuples)):
            totals = totals + ops.constant(f"tuples.{k}")[self._tuple_row(ops, k, places)]
        for tree in range(self.forest.n_trees):
            row = ops.constant("leaf_rows")[leaves[:, tree]]
            totals = totals + ops.constant("leaves")[row]
        if self.base is None:
            return totals
        return totals + compute_ratios(self.base, ops, codes)

    def _tuple_row(self, ops: Operations, k: int, places: list[Any]) -> Any:
        """Return the row of a tuple of names for each row of the table; the last one for none."""
        columns, searches = self.tuples[k]
        row = places[columns[0]]
        for column, search in zip(columns[1:], searches, strict=True):
            longer = search.find(ops, row * len(self.rows.tokens) + places[column])
            row = ops.where((row > -1) & (places[column] > -1), longer, -1)
        return ops.where(row > -1, row, len(self.constants[f"tuples.{k}"]) - 1)


def walk_trees(ops: Operations, forest: Forest, name: str, codes: Any) -> Any:
    """Return the leaf of each row in each tree: (m, trees).

    The graph has the constants of `walk_constants`.
    """
    node = ops.constant(f"{name}.roots") + ops.stack([codes[:, 0] * 0])
    for _ in range(forest.depth):
        code = ops.pick(codes, ops.constant(f"{name}.column")[node])
        is_low = code < ops.constant(f"{name}.low")[node]
        goes_left = code < ops.constant(f"{name}.high")[node]
        left = node + 1  # the left child comes after its parent
        right = ops.constant(f"{name}.right")[node]
        node = ops.where(is_low, right, ops.where(goes_left, left, right))
    return node


def walk_constants(forest: Forest, name: str) -> Constants:
    """Return the arrays of `walk_trees`.

    Nodes are counted from the first of all trees, and a leaf leads to itself.
    """
    nodes = np.arange(len(forest.column))
    is_leaf = forest.column == LEAF
    roots = np.repeat(forest.starts[:-1], np.diff(forest.starts))
    column = np.where(is_leaf, 0, forest.column)
    is_name = forest.is_name[column].astype(bool)
    step = forest.step.astype(np.int64)
    return {
        f"{name}.roots": forest.starts[None, :-1].astype(np.int64),
        f"{name}.column": column.astype(np.int64),
        # rows go left between low and high: a number up to its step, a name at its step only
        f"{name}.low": np.where(is_leaf, _NOWHERE, np.where(is_name, step, 0)),
        f"{name}.high": step + 1,
        f"{name}.right": np.where(is_leaf, nodes, roots + forest.right).astype(np.int64),
    }


def code_rows(codes: ColumnCodes, names: Vocabulary, constants: Constants) -> CodedRows:
    """Return how a graph that knows these names makes bytes, its constants added to the others."""
    name_codes = codes.name_codes(names).astype(np.int64)
    _check_columns(codes, names, name_codes)
    constants["minus"] = np.array(-1.0)
    for j, column_bytes in enumerate(name_codes.T):
        constants[f"bytes.{j}"] = np.append(column_bytes, 0)  # place -1 reads the last one
    for j, cuts in enumerate(codes.cuts):
        # minus infinity is not below the lowest cut
        open_cuts = np.where(cuts == LOWEST, -np.inf, cuts)
        constants[f"cuts.{j}"] = np.append(-open_cuts[::-1], np.inf)
    steps = np.arange(-_HIGHEST_BYTE, _HIGHEST_BYTE + 1)
    for j in range(len(codes.pairs)):
        constants[f"differences.{j}"] = 1 + np.searchsorted(DIFFERENCE_CUTS, steps, side="right")
    pairs = tuple((first, second) for first, second in codes.pairs.tolist())
    return CodedRows(codes.kinds, names, tuple(map(len, codes.cuts)), pairs)


def _check_columns(codes: ColumnCodes, names: Vocabulary, name_codes: Ints) -> None:
    """Refuse columns that a graph cannot read."""
    for column_bytes, column_names in zip(name_codes.T, codes.names, strict=True):
        if len(np.unique(column_bytes[column_bytes > 0])) < len(column_names):
            raise ValueError(
                "The trees of this model split by names that no kept row holds. "
                "Only hashes of them are stored, so a graph cannot know them: "
                "call refit() first, or refit(rows=…) if not all rows are kept. "
                "The graph of a model of numbers can be told its names: tokens=…."
            )
    if len(names.strings) != len(names):
        raise ValueError(
            "A graph takes names that are strings: convert the columns of other names before fit."
        )
    if ColumnKind.DATES in codes.kinds:
        raise ValueError(
            "A graph takes no dates: make numbers of them before fit, "
            "such as the month and the hour."
        )


# Graphs of models


def tree_graph(ranker: TreeRanker, cells: TreeCells, classes: Array) -> TreeGraph:
    """Return the graph of a model of names and trees, or refuse one that has none."""
    rows_table, leaf_rows, values = ranker.tables()
    names = _collect_names(cells, rows_table)
    constants: Constants = {
        "base": rows_table.base[None, :],
        "leaf_rows": leaf_rows.astype(np.int64),
        "leaves": values,
        **walk_constants(cells.forest, "trees"),
    }
    rows = code_rows(cells.codes, names, constants)
    for j in range(len(cells.names)):
        ranks = rows_table.table.tuples[j].rows()[:, 0]
        places = names.find(rows_table.table.vocabulary)[ranks]
        table = np.zeros((len(names) + 1, values.shape[1]))  # the last row is for unknown names
        table[places] = rows_table.values[rows_table.starts[j] : rows_table.starts[j + 1]]
        constants[f"names.{j}"] = table
    tuples = tuple(
        _add_tuple(cells, k, rows_table, names, constants=constants)
        for k in range(len(cells.tuples))
    )
    if ranker.base is not None:
        constants |= base_constants(ranker.base)
    return TreeGraph(
        rows=rows,
        constants=constants,
        forest=cells.forest,
        classes=classes,
        tuples=tuples,
        base=ranker.base,
    )


def _add_tuple(
    cells: TreeCells, k: int, rows_table: WholeTable, names: Vocabulary, *, constants: Constants
) -> NameTuple:
    """Return what finds the rows of a tuple of names, their values added to the constants."""
    site = len(cells.names) + k
    places = names.find(rows_table.table.vocabulary)[rows_table.table.tuples[site].rows()]
    row = places[:, 0]
    searches = []
    for level, next_places in enumerate(places.T[1:]):
        keys, row = np.unique(row * len(names) + next_places, return_inverse=True)
        searches.append(Search.of(f"tuple.{k}.{level}", keys, np.arange(len(keys)), constants))
    table = np.zeros((len(places) + 1, rows_table.values.shape[1]))
    table[row] = rows_table.values[rows_table.starts[site] : rows_table.starts[site + 1]]
    constants[f"tuples.{k}"] = table
    columns = tuple(cells.names.index(j) for j in cells.tuples[k])
    return NameTuple(columns, tuple(searches))


def _collect_names(cells: TreeCells, rows_table: WholeTable) -> Vocabulary:
    """Return all names that the columns of names hold."""
    is_name = np.zeros(len(rows_table.table.vocabulary), bool)
    for j in range(len(cells.names)):
        is_name[rows_table.table.tuples[j].rows()[:, 0]] = True  # a tuple holds no others
    return rows_table.table.vocabulary.keep(is_name)


@dataclass(frozen=True, eq=False)
class NumberGraph(RowGraph):
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
    bounds : Bounds
        What no answer leaves.
    """

    forests: tuple[Forest, ...]
    tables: StepTables
    n_levels: int
    bounds: Bounds = UNBOUNDED
    classes: None = None

    def scores(self, ops: Operations, values: list[Any], places: list[Any]) -> Any:
        """Return the prediction and the quantiles of rows: (m, 1 + levels).

        Columns come as in a `TreeGraph`.
        """
        codes = self.rows.codes(ops, values, places)
        code_matrix = ops.stack(codes)
        zeros = codes[0] * 0

        def repeat(name: str, place: int = 0) -> Any:
            """Return an entry of a constant for each row.

            ONNX Runtime drops factors and terms of one number that are 1 and 0 in float32.
            """
            return ops.constant(name)[zeros + place]

        total = self._blend_parts(ops, codes, code_matrix, repeat)
        units = [total]
        if self.n_levels:
            larger = self._sum_leaves(ops, 2, code_matrix)[:, 0]
            size = _max(ops, ops.constant("size") + larger, ops.constant("least_size"))
            units += [total + size * repeat("ratios", k) for k in range(self.n_levels)]
        for step in range(2):  # a power of two may be too large for one factor
            units = [number * ops.constant(f"unit.{step}") for number in units]
        answers = [repeat("center") + number for number in units]
        if not math.isinf(self.bounds.low):
            answers = [_max(ops, answer, repeat("low")) for answer in answers]
        if not math.isinf(self.bounds.high):
            answers = [_min(ops, answer, repeat("high")) for answer in answers]
        return ops.stack(answers)

    def _blend_parts(
        self, ops: Operations, codes: list[Any], code_matrix: Any, repeat: Callable[..., Any]
    ) -> Any:
        """Return the prediction in units: the blend of a part with the base and one without."""
        live_base, frozen_base = [
            compute_table_score(self.tables, ops, output, codes).double() for output in range(2)
        ]
        mean = ops.constant("mean")
        parts = [(live_base, frozen_base), (ops.constant("live_mean"), mean)]
        total = mean
        for part, (live, frozen) in enumerate(parts):
            sums = self._sum_leaves(ops, part, code_matrix)
            trust = _min(ops, _max(ops, sums[:, 1], ops.constant("zero")), ops.constant("one"))
            answer = live + trust * (frozen - live) + sums[:, 0] - mean
            total = total + repeat("blend", part) * answer
        return total

    def _sum_leaves(self, ops: Operations, forest_number: int, codes: Any) -> Any:
        """Return the sum of the values of each row's leaves in a forest."""
        forest = self.forests[forest_number]
        values = ops.constant(f"leaves.{forest_number}")
        leaves = walk_trees(ops, forest, f"trees.{forest_number}", codes)
        return reduce(add, (values[leaves[:, tree]] for tree in range(forest.n_trees)))


def _max(ops: Operations, a: Any, b: Any) -> Any:
    return ops.where(a < b, b, a)


def _min(ops: Operations, a: Any, b: Any) -> Any:
    return ops.where(b < a, b, a)


def number_graph(
    answers: NumberAnswers, names: Vocabulary, levels: Floats, bounds: Bounds = UNBOUNDED
) -> NumberGraph:
    """Return the graph of a model, or refuse one that has none.

    Parameters
    ----------
    answers : NumberAnswers
    names : Vocabulary
        The names that the graph shall know.
    levels : ndarray of float64
        Of the quantiles that it also gives.
    bounds : Bounds
        What no answer leaves.
    """
    errors = answers.errors
    assert errors is not None
    live_mean, mean = answers.means
    half_exponent = answers.exponent // 2
    numbers: dict[str, Any] = {
        "zero": 0.0,
        "one": 1.0,
        "center": [answers.center],
        "blend": answers.blend,
        "size": errors.mean,
        "least_size": LEAST_SIZE * errors.mean,
        "ratios": errors.quantiles(levels),
        "live_mean": live_mean,
        "mean": mean,
        "unit.0": np.ldexp(1.0, -half_exponent),
        "unit.1": np.ldexp(1.0, half_exponent - answers.exponent),
    }
    for name, end in bounds._asdict().items():
        if not math.isinf(end):
            numbers[name] = [end]
    constants: Constants = {name: np.array(number) for name, number in numbers.items()}
    forests = list(answers.forests)
    leaves = list(answers.leaves)
    if len(levels):
        forests.append(errors.forest)
        leaves.append(errors.leaves[:, None])
    for part, (forest, values) in enumerate(zip(forests, leaves, strict=True)):
        constants[f"leaves.{part}"] = values
        constants |= walk_constants(forest, f"trees.{part}")
    tables = answers.design.tabulate(answers.coefficients, answers.codes.step_middles)
    constants |= table_constants(tables)
    return NumberGraph(
        rows=code_rows(answers.codes, names, constants),
        constants=constants,
        forests=tuple(forests),
        tables=tables,
        n_levels=len(levels),
        bounds=bounds,
    )
