"""From a row to its cells: one token for each column, and one for each tree and level.

A row is a context of h tokens; numbers are tokens, too, and a date is the number of its
microseconds. What a kernel compares are *cells*: a name is its own cell, a number lies in a range,
and a tree puts the row into one cell on each level (:mod:`hammemo.features.cells.forest`). So a
table with numbers becomes a table of names, and everything that works for names works for it:
counts, sketches, forgetting, merging. Cells are part of the layout. They are chosen from rows
(:mod:`hammemo.features.cells.choose_cells`) and never change while counts are added.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.array_digest import array_digest
from hammemo._arrays.integers import object_array
from hammemo._versions import cached_property
from hammemo.features.additive.label_base import BaseAnswers, LabelBase
from hammemo.features.cells.column_codes import (
    ColumnCodes,
    code_arrays,
    restore_codes,
    split_cuts,
    values_of,
)
from hammemo.features.cells.forest import Forest
from hammemo.features.wide.narrowing import Narrowing
from hammemo.kernels.sites import MAX_POSITIONS, Site
from hammemo.tokens.column_kinds import ColumnKind, find_names, find_ordered
from hammemo.tokens.column_letters import decode_letters, encode_letters
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.user_input import contexts_with_numbers
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Bools, Floats
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.orders import Order
    from hammemo.tokens.scales import Scales

_MOST_TUPLES: Final = 2**12
"""Tuples that a file may hold: far more than are ever chosen."""

MISSING_RANGE: Final = -1
"""The range of a missing number, where missing values match each other."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a table without trees: a name is its own cell, a number lies in a range.

    Parameters
    ----------
    kinds : tuple of ColumnKind
        What each column holds.
    missing_is_cell : bool
        Whether missing numbers match each other; else they match nothing.
    ranges : tuple of ndarray of float64
        The cuts between the ranges of each column; none for names.
    narrowing : Narrowing, optional
        How the rows of a wide table become narrow; then all else is about the narrow rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.cells import Cells
    >>> from hammemo.tokens.column_kinds import ColumnKind
    >>> from hammemo.tokens.contexts import Contexts
    >>> kinds = (ColumnKind.NAMES, ColumnKind.NUMBERS)
    >>> cells = Cells(kinds, missing_is_cell=True, ranges=(np.empty(0), np.array([30.0, 50.0])))
    >>> contexts = cells.find_cells(Contexts.of([["a", 12.5], ["b", 50]]))
    >>> contexts.vocabulary.tolist(), contexts.ranks.tolist()
    ([0, 2, 'a', 'b'], [[2, 0], [3, 1]])
    """

    kinds: ColumnKinds
    missing_is_cell: bool
    ranges: tuple[Floats, ...]
    narrowing: Narrowing | None = field(default=None, kw_only=True)

    @property
    def table_kinds(self) -> ColumnKinds:
        """The kinds of the columns of the table."""
        return self.kinds if self.narrowing is None else self.narrowing.kinds

    @property
    def places(self) -> list[int | None]:
        """Which column of the table each column of `kinds` is; None for a linear score."""
        return list(range(len(self.kinds))) if self.narrowing is None else self.narrowing.places

    def read(self, X: Any, missing: str, scales: Scales | None = None) -> Contexts:
        """Return the contexts of a question, given the cells and the scales of a model alone."""
        packed = self.narrowing is not None and self.narrowing.packed
        return contexts_with_numbers(X, self.table_kinds, missing, packed=packed, scales=scales)

    def ask(self, contexts: Contexts) -> Contexts:
        """Return the rows of a question, those of a wide table as narrow rows."""
        return contexts if self.narrowing is None else self.narrowing.ask(contexts)

    def learn(self, examples: Examples) -> Examples:
        """Return examples that are counted, forgotten or fitted to, with narrow rows likewise."""
        return examples if self.narrowing is None else self.narrowing.learn(examples)

    @cached_property
    def _is_name(self) -> Bools:
        """Whether each column holds names."""
        return ~find_ordered(self.kinds)

    @property
    def h(self) -> int:
        """How many positions a context of cells has."""
        return len(self.kinds)

    @property
    def names(self) -> list[int]:
        """Which columns hold names."""
        return find_names(self.kinds)

    def find_cells(self, contexts: Contexts) -> Contexts:
        """Return the contexts of cells of the rows of a question."""
        contexts = self.ask(contexts)
        n_columns = len(self.kinds)
        is_name = self._is_name

        # The cells of numbers and of trees are whole numbers; names get theirs below.
        numbers = np.full((len(contexts), self.h), NO_TOKEN, np.int64)
        missing_cell = MISSING_RANGE if self.missing_is_cell else NO_TOKEN
        values = values_of(contexts)
        for j in np.flatnonzero(~is_name).tolist():
            column = values[:, j]
            ranges = np.searchsorted(self.ranges[j], column, side="right")
            numbers[:, j] = np.where(np.isnan(column), missing_cell, ranges)
        numbers[:, n_columns:] = self.tree_tokens(contexts)
        cells = Contexts(numbers)
        if not is_name.any():
            return cells

        # A vocabulary for both, with no token that only columns of numbers hold.
        name_ranks = contexts.ranks[:, is_name]
        marks = np.zeros(len(contexts.vocabulary) + 1, bool)
        marks[name_ranks] = True  # rank -1, no token, marks the last entry
        names = contexts.vocabulary.keep(marks[:-1])
        vocabulary = names.union(cells.vocabulary)
        ranks = cells.ranks_in(vocabulary)
        new_ranks = np.append(vocabulary.find(contexts.vocabulary), -1)
        ranks[:, :n_columns][:, is_name] = new_ranks[name_ranks]
        return Contexts.with_ranks(vocabulary, ranks)

    def replace_rows(self, examples: Examples) -> Examples:
        """Return examples that are counted or forgotten with cells in place of their rows."""
        examples = self.learn(examples)
        return replace(examples, contexts=self.find_cells(examples.contexts))

    def find_row_cells(self, row: Sequence[Any]) -> list[Any]:
        """Return the tokens of the cells of one row that is counted or forgotten."""
        row_alone = Examples.of_arrays(object_array(row).reshape(1, -1), np.zeros(1, np.int64))
        contexts = self.replace_rows(row_alone).contexts
        tokens = contexts.vocabulary.tolist()
        return [NO_TOKEN if rank < 0 else tokens[rank] for rank in contexts.ranks[0].tolist()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cells) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __deepcopy__(self, memo: object) -> Cells:
        return self  # it never changes

    def __getstate__(self) -> dict[str, Any]:
        # without the caches, which are computed again
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def tree_tokens(self, contexts: Contexts) -> NDArray[np.int32]:
        """Return the tokens of the cells of trees, of which there are none: (m, 0)."""
        return np.empty((len(contexts), 0), np.int32)

    def base_answers(
        self,
        labels: Vocabulary,  # noqa: ARG002  TreeCells have a base
        weights: Floats | None,  # noqa: ARG002
    ) -> BaseAnswers | None:
        """Return what an additive base adds to the scores of labels: there is none."""
        return None

    def sites(self) -> list[Site]:
        """Return the sites that an automatic kernel compares."""
        return [(j,) for j in range(len(self.kinds))]

    def order_of(self, j: int, scales: Scales) -> Order:
        """Return the categories of a column, from low to high; none where it has no order."""
        place = self.places[j]
        order = None if place is None else scales.get(place)
        return order if isinstance(order, tuple) else ()

    def show_value(self, j: int, token: Any, order: Order = ()) -> Any:
        """Return a value of a column for users: a name, a category, a moment, or a range."""
        if isinstance(token, str):
            return token
        if order:
            return order[int(token)]
        if self.kinds[j] is ColumnKind.DATES:
            return str(np.datetime64(int(token), "us").astype("datetime64[s]"))
        return token if self.kinds[j] is ColumnKind.NAMES else self.range_of(j, token)

    def range_of(self, j: int, token: Any, order: Order = ()) -> str | None:
        """Return the range in which a value of a column lies; None for a name."""
        if self.kinds[j] is ColumnKind.NAMES or isinstance(token, str):
            return None
        cuts = self.ranges[j]
        place = int(np.searchsorted(cuts, float(token), "right"))
        return range_text(self.kinds[j], cuts, place, order)

    def column_shares(self, contexts: Contexts) -> Floats:
        """Return the share of each column of the table in each position of the cells of rows.

        Shapes
        ------
        contexts : (m, h); returned : (m, positions, h)
        """
        return np.tile(np.eye(len(self.kinds)), (len(contexts), 1, 1))

    def digest(self) -> str:
        """Return BLAKE2b-256 of all that the cells are."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return array_digest(self.arrays(), json.dumps(self.describe(), sort_keys=True))

    def describe(self) -> dict[str, Any]:
        """Return all that is no array, ready for JSON."""
        described: dict[str, Any] = {}
        if self.narrowing is not None:
            described["narrowing"] = self.narrowing.describe()
        return {
            **described,
            "kinds": encode_letters(self.kinds),
            "missing_is_cell": self.missing_is_cell,
            "last_word": 0,
            "trees": False,
            "tuples": [],
            "base": None,
        }

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        narrowing = {} if self.narrowing is None else self.narrowing.arrays()
        return {
            **{f"narrowing.{name}": array for name, array in narrowing.items()},
            "ranges": np.concatenate([np.empty(0), *self.ranges]),
            "range_lengths": np.array([len(cuts) for cuts in self.ranges], np.uint8),
        }

    @staticmethod
    def from_stored(described: dict[str, Any], stored: StoredArrays) -> Cells:
        """Return the cells of a file, checked: undo `describe` and `arrays`."""
        last = described["last_word"]
        kinds = decode_letters(described["kinds"], ColumnKind)
        if not 0 < len(kinds) <= MAX_POSITIONS:
            raise ValueError("the kinds of its columns are not valid")
        if not all(isinstance(described[name], bool) for name in ("missing_is_cell", "trees")):
            raise ValueError("what it says of its cells is neither true nor false")
        if not isinstance(last, int) or isinstance(last, bool) or not 0 <= last < 2**64:
            raise ValueError("the hash of its last growing row is not valid")
        lengths = stored.take("range_lengths", "uint8", (len(kinds),)).tolist()
        ranges = split_cuts(stored.take("ranges", "float64", (None,)), lengths)
        narrowing = None
        if "narrowing" in described:
            narrowing = Narrowing.from_stored(described["narrowing"], stored.part("narrowing"))
            if narrowing.narrow_kinds != kinds:
                raise ValueError(
                    "its cells are of other columns than those chosen of its wide table"
                )
        if not described["trees"]:
            return Cells(kinds, described["missing_is_cell"], ranges, narrowing=narrowing)
        codes = restore_codes(kinds, stored.part("codes"))
        forest = Forest.from_stored(codes.is_name, stored.part("trees"))
        tuples = _check_tuples(described["tuples"], kinds)
        base = LabelBase.from_stored(described["base"], stored.part("base"))
        design = base.function.design
        if design.owners != codes.plain_owners() or len(design.knots) != codes.n_ordered:
            raise ValueError("its additive base was made for other columns")
        return TreeCells(
            kinds,
            missing_is_cell=described["missing_is_cell"],
            ranges=ranges,
            codes=codes,
            forest=forest,
            last_word=last,
            base=base,
            tuples=tuples,
            narrowing=narrowing,
        )


@dataclass(frozen=True, eq=False)
class TreeCells(Cells):
    """The cells of a table with trees: a row also lies in one cell of each tree and level.

    Parameters
    ----------
    kinds, missing_is_cell, ranges, narrowing
        As in `Cells`.
    codes : ColumnCodes
        How trees see rows.
    forest : Forest
    last_word : int
        The hash of the last row of the growing sample: rows with higher hashes grew no tree.
    base : LabelBase
        An additive function of the columns.
    tuples : tuple of tuples of int
        Columns of names that are compared together, beside each alone.
    """

    codes: ColumnCodes
    forest: Forest
    last_word: int
    base: LabelBase
    tuples: tuple[Site, ...] = ()

    @property
    def h(self) -> int:
        """How many positions a context of cells has."""
        return len(self.kinds) + self.forest.n_sites

    def tree_tokens(self, contexts: Contexts) -> NDArray[np.int32]:
        """Return the tokens of the cells of trees: (m, trees * levels)."""
        return self.forest.tokens(self.leaves(contexts))

    def leaves(self, contexts: Contexts) -> NDArray[np.int32]:
        """Return the leaf of each row in each tree."""
        return self.forest.leaves(self.code_rows(contexts))

    def code_rows(self, contexts: Contexts) -> NDArray[np.uint8]:
        """Return the bytes of rows of a question."""
        return self.codes.rows(self.ask(contexts))

    def base_answers(self, labels: Vocabulary, weights: Floats | None) -> BaseAnswers | None:
        """Return what the additive base adds to the scores of labels, if it has weights."""
        if weights is None:
            return None
        return BaseAnswers(self.base, self.codes.step_middles, labels, weights)

    @property
    def name_sites(self) -> list[Site]:
        """The sites of names: each column, then the tuples."""
        return [*((j,) for j in self.names), *self.tuples]

    def sites(self) -> list[Site]:
        """Return the sites that an automatic kernel compares: names, tuples of names and trees."""
        return [*self.name_sites, *((j,) for j in range(len(self.kinds), self.h))]

    def show_value(self, j: int, token: Any, order: Order = ()) -> Any:
        """Return a value of a column for users: a name, a category, a moment, or a number."""
        return super().show_value(j, token, order) if self.kinds[j].has_scale else token

    def column_shares(self, contexts: Contexts) -> Floats:
        """Return the share of each column of the table in each position of the cells of rows.

        A cell of a tree belongs to the columns of the cuts on the way to it, each cut alike. A root
        has no cuts: it belongs to all columns.
        """
        m = len(contexts)
        n_columns = len(self.kinds)
        shares = np.zeros((m, self.h, n_columns))
        shares[:, :n_columns] = np.eye(n_columns)
        # positions go tree by tree, then level by level
        nodes = self.forest.cell_nodes[:, self.leaves(contexts)].transpose(1, 2, 0)
        distinct, ranks = np.unique(nodes, return_inverse=True)
        shares[:, n_columns:] = self.node_shares(distinct)[ranks.reshape(m, -1)]
        return shares

    def node_shares(self, nodes: Array) -> Floats:
        """Return the share of each column of the table in nodes of trees: (nodes, h)."""
        shares = self.forest.share_nodes(self.codes.column_shares(), nodes)
        shares[~shares.any(axis=1)] = 1.0 / len(self.kinds)  # a root belongs to all columns
        return shares

    def describe(self) -> dict[str, Any]:
        """Return all that is no array, ready for JSON."""
        return {
            **super().describe(),
            "last_word": self.last_word,
            "trees": True,
            "tuples": [list(site) for site in self.tuples],
            "base": self.base.describe(),
        }

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        arrays = super().arrays()
        arrays.update({f"codes.{name}": array for name, array in code_arrays(self.codes).items()})
        arrays.update({f"trees.{name}": array for name, array in self.forest.arrays().items()})
        arrays.update({f"base.{name}": array for name, array in self.base.arrays().items()})
        return arrays


def range_text(kind: ColumnKind, cuts: Floats, place: int, order: Order = ()) -> str:
    """Return a range of a column of numbers, moments or categories for users.

    Parameters
    ----------
    kind : ColumnKind
    cuts : ndarray
        The cuts between the ranges of the column.
    place : int
        The number of the range, from 0.
    order : tuple
        The categories of the column, if it has an order.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.cells import range_text
    >>> from hammemo.tokens.column_kinds import ColumnKind
    >>> [range_text(ColumnKind.NUMBERS, np.array([30.0, 49.5]), place) for place in range(3)]
    ['below 30', '30 to 49.5', 'from 49.5']
    """
    if order:
        return _category_range(cuts, place, order)
    texts = _cut_texts(kind, cuts)
    has_low = place > 0
    has_high = place < len(texts)
    if has_low and has_high:
        return f"{texts[place - 1]} to {texts[place]}"
    if has_high:
        return f"below {texts[place]}"
    return f"from {texts[place - 1]}" if has_low else "any"


def _category_range(cuts: Floats, place: int, order: Order) -> str:
    """Return a range of places in an order by its lowest and its highest category."""
    first = math.ceil(cuts[place - 1]) if place > 0 else 0
    behind = math.ceil(cuts[place]) if place < len(cuts) else len(order)
    low = str(order[min(max(first, 0), len(order) - 1)])
    high = str(order[min(max(behind - 1, 0), len(order) - 1)])
    return low if low == high else f"{low} to {high}"


def _cut_texts(kind: ColumnKind, cuts: Floats) -> list[str]:
    """Return cuts for users: moments by their day where that tells them apart."""
    if kind is not ColumnKind.DATES:
        return [f"{cut:.4g}" for cut in cuts.tolist()]
    moments = cuts.astype(np.int64).astype("datetime64[us]")
    days = moments.astype("datetime64[D]")
    if len(np.unique(days)) == len(days):
        return [str(day) for day in days]
    return [str(second) for second in moments.astype("datetime64[s]")]


def _check_tuples(sites: Any, kinds: ColumnKinds) -> tuple[Site, ...]:
    """Return tuples of columns of names from a file, or refuse others."""
    names = set(find_names(kinds))
    if not isinstance(sites, list) or len(sites) > _MOST_TUPLES:
        raise ValueError("its tuples of columns are not valid")
    if not all(isinstance(site, list) for site in sites):
        raise ValueError("its tuples of columns are not valid")
    for site in sites:
        is_rising = all(type(j) is int for j in site) and site == sorted(set(site))
        if len(site) < 2 or not is_rising or not names.issuperset(site):
            raise ValueError("a tuple of its columns is not made of columns of names")
    if len(set(map(tuple, sites))) != len(sites):
        raise ValueError("a tuple of its columns is there twice")
    return tuple(map(tuple, sites))
