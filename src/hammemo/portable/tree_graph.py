"""A model of a table with numbers as a graph: steps, trees and sums with the operations that every runtime has.

A number becomes its step, a name its byte, and a pair of numbers the step of their difference, as in
:mod:`hammemo.kernels.cells.codes`. All rows walk all trees at once: as many times as the deepest tree has levels, each
node is replaced by the child that the row's byte chooses, and a leaf by itself. Then the rows of names and leaves are
added in the order of the library, so the scores are its own to the bit.

The additive base of a table as a graph: entries of tables by bytes, sums of whole numbers, ratios of labels.

The tables are those of :class:`~hammemo.kernels.additive.step_tables.StepTables`. All numbers up to the ratios are
whole, so the ratios are those of the library to the bit.

A model of numbers as a graph: two tables of whole numbers, trees, and their blend.

They are added in the order of the library, so a prediction is that of the library to the bit. Quantiles need the trees
of the sizes of errors, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.kernels.additive.additive import NAT
from hammemo.kernels.additive.levels import HAT
from hammemo.kernels.cells.codes import DIFFERENCE_CUTS, LOWEST, ColumnCodes, values_of
from hammemo.kernels.cells.error_sizes import LEAST_SIZE
from hammemo.kernels.cells.forest import LEAF, Forest
from hammemo.portable.graph import Constants, Operations, Search
from hammemo.tokens.columns import ColumnKind
from hammemo.votes.bounds import UNBOUNDED, Bounds

if TYPE_CHECKING:
    from hammemo._arrays.types import Array, Floats
    from hammemo.kernels.additive.label_base import BaseAnswers
    from hammemo.kernels.additive.step_tables import StepTables
    from hammemo.kernels.cells import TreeCells
    from hammemo.memories.exact import TreeRanker, WholeTable
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Vocabulary
    from hammemo.votes.number_answers import NumberAnswers

_SHIFT = 10
_ABOVE = 2**60
"""Added before a shift, so that what is shifted is not negative."""


def weighted_ratios(base: BaseAnswers, ops: Operations, codes: list[Any]) -> Any:
    """Return the weighted ratio of each label, by the bytes of rows in each column: (m, L)."""
    known = base.base.labels
    scores = [table_score(base.tables, ops, output, codes) for output in range(base.tables.columns.shape[2])]
    scores = [*[scores[0] * 0] * (len(known) - len(scores)), *scores]
    above = [score + -int(prior) for score, prior in zip(scores, base.base.prior.tolist(), strict=True)]
    total = reduce(add, above)
    nothing, columns = (total * 0).double(), []
    for place in known.find(base.labels).tolist():
        if place < 0:
            columns.append(nothing)
            continue
        columns.append((above[place] * len(known) - total).double() / ops.constant("base.unit"))
    return ops.stacked(columns) * ops.constant("base.weights")


def table_score(tables: StepTables, ops: Operations, output: int, codes: list[Any]) -> Any:
    """Return the score of one output, a whole number, by the bytes of rows in each column."""
    first, *others = (ops.constant(f"base.{output}.column.{j}")[codes[j]] for j in range(len(tables.columns)))
    total = reduce(add, others, first + (int(tables.constant[output]) + HAT // 2 + _ABOVE))
    for k, (pair, width) in enumerate(zip(tables.pairs.tolist(), tables.widths.tolist(), strict=True)):
        (a, right_a), (b, right_b) = (
            [ops.constant(f"base.{name}.{j}")[codes[j]] for name in ("level", "right")] for j in pair
        )
        both, at = ops.shifted(right_a * right_b, _SHIFT), a * width + b
        shares = (both - right_a - right_b + HAT, right_b - both, right_a - both, both)
        for step, share in zip((0, 1, width, width + 1), shares, strict=True):
            total = total + share * ops.constant(f"base.{output}.pair.{k}")[at + step]
    return ops.shifted(total, _SHIFT) + -(_ABOVE >> _SHIFT)


def base_constants(base: BaseAnswers) -> Constants:
    """Return the constants of `weighted_ratios`."""
    unit = np.array(float(len(base.base.labels) * NAT))
    return {"base.unit": unit, "base.weights": base.weights[None, :], **table_constants(base.tables)}


def table_constants(tables: StepTables) -> Constants:
    """Return the constants of `table_score`: a byte that lies in no level reads zeros behind its block."""
    found: Constants = {}
    nowhere = int(np.diff(tables.starts).max(initial=0))
    for j in set(tables.pairs.ravel().tolist()):
        found[f"base.level.{j}"] = np.where(tables.levels[j] < 0, nowhere, tables.levels[j]).astype(np.int64)
        found[f"base.right.{j}"] = tables.rights[j].astype(np.int64)
    for output in range(tables.columns.shape[2]):
        for j, column in enumerate(tables.columns):
            found[f"base.{output}.column.{j}"] = np.ascontiguousarray(column[:, output])
        for k, width in enumerate(tables.widths.tolist()):
            own = tables.blocks[tables.starts[k] : tables.starts[k + 1], output]
            found[f"base.{output}.pair.{k}"] = np.append(own, np.zeros((nowhere + 2) * (width + 1) + 1, np.int64))
    return found


_NOWHERE = 2**62
"""The low end of a leaf: no byte is there."""
_MOST = 255
"""The highest byte."""


@dataclass(frozen=True, eq=False)
class CodedRows:
    """How a graph makes bytes of rows.

    Parameters
    ----------
    kinds : str
        One letter for each column: names (s) or numbers (n).
    tokens : Vocabulary
        The names that it knows, all strings.
    n_cuts : tuple of int
        How many cuts each column of numbers has.
    pairs : tuple of pairs of int
        The columns of numbers whose differences are columns too.
    """

    kinds: str
    tokens: Vocabulary
    n_cuts: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]

    def codes(self, ops: Operations, values: list[Any], places: list[Any]) -> list[Any]:
        """Return the bytes of all rows, for each column."""
        steps = [self._steps(ops, j, value) for j, value in enumerate(values)]
        named = [ops.constant(f"bytes.{j}")[place] for j, place in enumerate(places)]
        differences = []
        for j, (first, second) in enumerate(self.pairs):
            found = ops.constant(f"differences.{j}")[steps[first] - steps[second] + _MOST]
            differences.append(ops.where((steps[first] > 0) & (steps[second] > 0), found, 0))
        return [*steps, *named, *differences]

    def _steps(self, ops: Operations, j: int, value: Any) -> Any:
        """Return 1 plus the number of cuts that are not above a value; 0 for NaN, which equals nothing.

        The cuts are stored with their signs changed: those above a value are then less than minus the value.
        """
        n = self.n_cuts[j]
        above = ops.search(ops.constant(f"cuts.{j}"), n + 1, value * ops.constant("minus"))
        return ops.where(ops.equal(value, value), above * -1 + (n + 1), 0)

    def numbers(self, contexts: Contexts) -> Floats:
        """Return rows as the numbers that a torch module takes, the places of names among them: (m, h)."""
        places = np.append(self.tokens.find(contexts.vocabulary), -1)
        is_name = np.array([kind == ColumnKind.NAMES for kind in self.kinds])
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


@dataclass(frozen=True, eq=False)
class TreeGraph(RowGraph):
    """The scores of a predictor as a function of numbers and of the places of names in a list.

    Parameters
    ----------
    rows : CodedRows
    constants : dict of arrays
    forest : Forest
    classes : ndarray
    tuples : tuple of pairs
        For each tuple of names its columns among those of names, and the searches that find its row, one column after
        the other: the key is the row so far times the number of names, plus the next name.
    base : BaseAnswers, optional
        The weighted additive base.
    """

    forest: Forest
    classes: Array
    tuples: tuple[tuple[tuple[int, ...], tuple[Search, ...]], ...] = ()
    base: BaseAnswers | None = None

    def scores(self, ops: Operations, values: list[Any], places: list[Any]) -> Any:
        """Return one score a label; columns of numbers are vectors of floats, columns of names vectors of places."""
        codes = self.rows.codes(ops, values, places)
        leaves = walked(ops, self.forest, "trees", ops.stacked(codes))
        totals = ops.constant("base")
        for j, place in enumerate(places):
            totals = totals + ops.constant(f"names.{j}")[place]
        for k in range(len(self.tuples)):
            totals = totals + ops.constant(f"tuples.{k}")[self._tuple_row(ops, k, places)]
        for tree in range(self.forest.n_trees):
            row = ops.constant("leaf_rows")[leaves[:, tree]]
            totals = totals + ops.constant("leaves")[row]
        return totals if self.base is None else totals + weighted_ratios(self.base, ops, codes)

    def _tuple_row(self, ops: Operations, k: int, places: list[Any]) -> Any:
        """Return the row of the tuple of names that each row of the table holds; the last one where there is none."""
        (first, *others), searches = self.tuples[k]
        row = places[first]
        for column, search in zip(others, searches, strict=True):
            found = search.find(ops, row * len(self.rows.tokens) + places[column])
            row = ops.where((row > -1) & (places[column] > -1), found, -1)
        return ops.where(row > -1, row, len(self.constants[f"tuples.{k}"]) - 1)


def walked(ops: Operations, forest: Forest, name: str, codes: Any) -> Any:
    """Return the leaf of each row in each tree, given the constants of `walk_constants`: (m, trees)."""
    at = ops.constant(f"{name}.roots") + ops.stacked([codes[:, 0] * 0])
    for _ in range(forest.depth):
        code = ops.picked(codes, ops.constant(f"{name}.column")[at])
        is_low = code < ops.constant(f"{name}.low")[at]
        goes_left = code < ops.constant(f"{name}.high")[at]
        right = ops.constant(f"{name}.right")[at]
        at = ops.where(is_low, right, ops.where(goes_left, at + 1, right))
    return at


def walk_constants(forest: Forest, name: str) -> Constants:
    """Return the arrays that trees are walked by: nodes are counted from the first of all, a leaf leads to itself."""
    nodes, is_leaf = np.arange(len(forest.column)), forest.column == LEAF
    firsts = np.repeat(forest.starts[:-1], np.diff(forest.starts))
    named = forest.is_name[np.where(is_leaf, 0, forest.column)].astype(bool)
    step = forest.step.astype(np.int64)
    return {
        f"{name}.roots": forest.starts[None, :-1].astype(np.int64),
        f"{name}.column": np.where(is_leaf, 0, forest.column).astype(np.int64),
        f"{name}.low": np.where(is_leaf, _NOWHERE, np.where(named, step, 0)),
        f"{name}.high": step + 1,
        f"{name}.right": np.where(is_leaf, nodes, firsts + forest.right).astype(np.int64),
    }


def coded_rows(codes: ColumnCodes, names: Vocabulary, constants: Constants) -> CodedRows:
    """Return how a graph that knows these names makes bytes, its constants added to the others; or refuse it."""
    name_codes = codes.name_codes(names).astype(np.int64)
    if any(len(np.unique(own[own > 0])) < len(known) for own, known in zip(name_codes.T, codes.names, strict=True)):
        raise ValueError(
            "The trees of this model split by names that no kept row holds. Only hashes of them are stored, so a graph "
            "cannot know them: call refit() first, or refit(rows=…) if not all rows are kept. The graph of a model of "
            "numbers can be told its names: tokens=…."
        )
    if len(names.strings) != len(names):
        raise ValueError("A graph takes names that are strings: convert the columns of other names before fit.")
    if ColumnKind.DATES in codes.kinds:
        raise ValueError("A graph takes no dates: make numbers of them before fit, such as the month and the hour.")
    constants["minus"] = np.array(-1.0)
    for j, own in enumerate(name_codes.T):
        constants[f"bytes.{j}"] = np.append(own, 0)  # place -1 reads the last one
    for j, cuts in enumerate(codes.cuts):
        lowest = np.where(cuts == LOWEST, -np.inf, cuts)  # which minus infinity is not below
        constants[f"cuts.{j}"] = np.append(-lowest[::-1], np.inf)
    steps = np.arange(-_MOST, _MOST + 1)
    for j in range(len(codes.pairs)):
        constants[f"differences.{j}"] = 1 + np.searchsorted(DIFFERENCE_CUTS, steps, side="right")
    pairs = tuple((first, second) for first, second in codes.pairs.tolist())
    return CodedRows(codes.kinds, names, tuple(map(len, codes.cuts)), pairs)


def tree_graph(ranker: TreeRanker, cells: TreeCells, classes: Array) -> TreeGraph:
    """Return the graph of a model of names and trees, or refuse one that has none."""
    whole, leaf_rows, values = ranker.tables()
    names, forest = _names(cells, whole), cells.forest
    constants: Constants = {"base": whole.base[None, :], "leaf_rows": leaf_rows.astype(np.int64), "leaves": values}
    constants |= walk_constants(forest, "trees")
    rows = coded_rows(cells.codes, names, constants)
    for j in range(len(cells.names)):
        table = np.zeros((len(names) + 1, values.shape[1]))
        own = whole.table.tuples[j].rows()[:, 0]
        places = names.find(whole.table.vocabulary)[own]
        table[places] = whole.values[whole.starts[j] : whole.starts[j + 1]]
        constants[f"names.{j}"] = table
    tuples = tuple(_with_tuple(cells, k, whole, names, constants) for k in range(len(cells.tuples)))
    constants |= {} if ranker.base is None else base_constants(ranker.base)
    return TreeGraph(rows, constants, forest, classes, tuples, ranker.base)


def _with_tuple(
    cells: TreeCells, k: int, whole: WholeTable, names: Vocabulary, constants: Constants
) -> tuple[tuple[int, ...], tuple[Search, ...]]:
    """Return the columns of a tuple of names and what finds its rows, whose values become constants."""
    site = len(cells.names) + k
    places = names.find(whole.table.vocabulary)[whole.table.tuples[site].rows()]
    row, searches = places[:, 0], []
    for level, own in enumerate(places.T[1:]):
        keys, row = np.unique(row * len(names) + own, return_inverse=True)
        searches.append(Search.of(f"tuple.{k}.{level}", keys, np.arange(len(keys)), constants))
    table = np.zeros((len(places) + 1, whole.values.shape[1]))
    table[row] = whole.values[whole.starts[site] : whole.starts[site + 1]]
    constants[f"tuples.{k}"] = table
    return tuple(cells.names.index(j) for j in cells.tuples[k]), tuple(searches)


def _names(cells: TreeCells, whole: WholeTable) -> Vocabulary:
    """Return all names that the columns of names hold."""
    used = np.zeros(len(whole.table.vocabulary), bool)
    for j in range(len(cells.names)):
        used[whole.table.tuples[j].rows()[:, 0]] = True  # a tuple holds no others
    return whole.table.vocabulary.keep(used)


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
        """Return the prediction and the quantiles of rows, (m, 1 + levels); columns are those of a `TreeGraph`."""
        codes = self.rows.codes(ops, values, places)
        stacked, nowhere = ops.stacked(codes), codes[0] * 0

        def each(name: str, place: int = 0) -> Any:
            """Return an entry for each row: ONNX Runtime drops factors and terms that are 1 and 0 in float32."""
            return ops.constant(name)[nowhere + place]

        bases = [table_score(self.tables, ops, output, codes).double() for output in range(2)]
        total = mean = ops.constant("mean")
        for part, (live, frozen) in enumerate((bases, [ops.constant("live_mean"), mean])):
            told = self._told(ops, part, stacked)
            trust = _least(ops, _most(ops, told[:, 1], ops.constant("zero")), ops.constant("one"))
            said = live + trust * (frozen - live) + told[:, 0] - mean
            total = total + each("blend", part) * said
        found = [total]
        if self.n_levels:
            more = self._told(ops, 2, stacked)[:, 0]
            size = _most(ops, ops.constant("size") + more, ops.constant("least_size"))
            found += [total + size * each("ratios", k) for k in range(self.n_levels)]
        for step in range(2):  # a power of two may be too large for one factor
            found = [units * ops.constant(f"unit.{step}") for units in found]
        answers = [each("center") + number for number in found]
        if not math.isinf(self.bounds.low):
            answers = [_most(ops, answer, each("low")) for answer in answers]
        if not math.isinf(self.bounds.high):
            answers = [_least(ops, answer, each("high")) for answer in answers]
        return ops.stacked(answers)

    def _told(self, ops: Operations, part: int, codes: Any) -> Any:
        """Return the sum of what the leaves of a forest say."""
        forest, values = self.forests[part], ops.constant(f"leaves.{part}")
        leaves = walked(ops, forest, f"trees.{part}", codes)
        return reduce(add, (values[leaves[:, tree]] for tree in range(forest.n_trees)))


def _most(ops: Operations, a: Any, b: Any) -> Any:
    return ops.where(a < b, b, a)


def _least(ops: Operations, a: Any, b: Any) -> Any:
    return ops.where(b < a, b, a)


def number_graph(answers: NumberAnswers, names: Vocabulary, levels: Floats, bounds: Bounds = UNBOUNDED) -> NumberGraph:
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
    errors, half = answers.errors, answers.exponent // 2
    assert errors is not None
    tables = answers.design.step_tables(answers.coefficients, answers.codes.step_middles)
    numbers: dict[str, Any] = {"zero": 0.0, "one": 1.0, "center": [answers.center], "blend": answers.blend}
    numbers |= {"size": errors.mean, "least_size": LEAST_SIZE * errors.mean, "ratios": errors.at(levels)}
    numbers |= dict(zip(("live_mean", "mean"), answers.means, strict=True))
    numbers |= {f"unit.{step}": np.ldexp(1.0, -own) for step, own in enumerate((half, answers.exponent - half))}
    numbers |= {name: [end] for name, end in bounds._asdict().items() if not math.isinf(end)}
    constants: Constants = {name: np.array(number) for name, number in numbers.items()}
    forests, leaves = answers.forests, answers.leaves
    if len(levels):
        forests, leaves = (*forests, errors.forest), (*leaves, errors.leaves[:, None])
    for part, (forest, own) in enumerate(zip(forests, leaves, strict=True)):
        constants |= {f"leaves.{part}": own, **walk_constants(forest, f"trees.{part}")}
    constants |= table_constants(tables)
    rows = coded_rows(answers.codes, names, constants)
    return NumberGraph(rows, constants, forests, tables, len(levels), bounds)
