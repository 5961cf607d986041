"""From a row to its cells: one token for each column, and one for each tree and level.

A row is a context of h tokens; numbers are tokens, too, and a date is the number of its microseconds. What a kernel
compares are *cells*: a name is its own cell, a number lies in a range, and a tree puts the whole row into one cell on
each level (:mod:`hammemo.features.cells.forest`). So a table with numbers becomes a table of names, and everything that
works for names works for it: counts, sketches, forgetting, merging. Cells are part of the layout. They are chosen from
rows (:mod:`hammemo.features.cells.choose_cells`) and never change while counts are added.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.array_digest import array_digest
from hammemo._arrays.integers import object_array
from hammemo._versions import cached_property
from hammemo.features.additive.label_base import BaseAnswers, LabelBase
from hammemo.features.cells.column_codes import ColumnCodes, code_arrays, part_names, split_cuts, split_names, values_of
from hammemo.features.cells.forest import Forest
from hammemo.features.wide.narrowing import Narrowing
from hammemo.kernels.sites import MAX_POSITIONS, Site
from hammemo.tokens.column_kinds import ColumnKind, find_names, find_ordered
from hammemo.tokens.column_letters import decode_letters, encode_letters
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.hashing import NAME_BYTES
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

_MOST_TUPLES = 2**12
"""Tuples that a file may hold: far more than are ever chosen."""

MISSING_RANGE = -1
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
        How the rows of a wide table become those that cells are made of; all else is of narrow rows then.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.cells import Cells
    >>> from hammemo.tokens.column_kinds import ColumnKind
    >>> from hammemo.tokens.contexts import Contexts
    >>> cells = Cells((ColumnKind.NAMES, ColumnKind.NUMBERS), True, (np.empty(0), np.array([30.0, 50.0])))
    >>> rows = Contexts.of([["a", 12.5], ["b", 50]])
    >>> asked = cells.of(rows)
    >>> asked.vocabulary.tolist(), asked.ranks.tolist()
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
        """The column of the table that each column of `kinds` is; None for a linear score of a wide table."""
        return list(range(len(self.kinds))) if self.narrowing is None else self.narrowing.places

    def read(self, X: Any, missing: str, scales: Scales | None = None) -> Contexts:
        """Return the contexts of a question to a model of which only the cells and the scales are known."""
        packed = self.narrowing is not None and self.narrowing.packed
        return contexts_with_numbers(X, self.table_kinds, missing, packed=packed, scales=scales)

    def ask(self, contexts: Contexts) -> Contexts:
        """Return the rows of a question as cells are made of them: narrow rows of a wide table."""
        return contexts if self.narrowing is None else self.narrowing.ask(contexts)

    def learn(self, examples: Examples) -> Examples:
        """Return the same for examples that are counted, or forgotten, or that weights are fitted to."""
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

    def of(self, contexts: Contexts) -> Contexts:
        """Return the contexts of cells of rows."""
        contexts = self.ask(contexts)
        h = len(self.kinds)
        names = self._is_name
        used = np.zeros(len(contexts.vocabulary) + 1, bool)  # rank -1 marks the last entry
        used[contexts.ranks[:, names]] = True
        kept = contexts.vocabulary.keep(used[:-1])
        cells = np.full((len(contexts), self.h), NO_TOKEN, np.int64)
        values = values_of(contexts)
        for j in np.flatnonzero(~names).tolist():
            column = values[:, j]
            places = np.searchsorted(self.ranges[j], column, side="right")
            nothing = MISSING_RANGE if self.missing_is_cell else NO_TOKEN
            cells[:, j] = np.where(np.isnan(column), nothing, places)
        cells[:, h:] = self.tree_tokens(contexts)
        made = Contexts(cells)
        if not names.any():
            return made
        vocabulary = kept.union(made.vocabulary)
        ranks = made.ranks_in(vocabulary)
        found = np.append(vocabulary.find(contexts.vocabulary), -1)
        ranks[:, :h][:, names] = found[contexts.ranks[:, names]]
        return Contexts.with_ranks(vocabulary, ranks)

    def counted(self, examples: Examples) -> Examples:
        """Return examples with cells in place of their rows."""
        examples = self.learn(examples)
        return replace(examples, contexts=self.of(examples.contexts))

    def of_one(self, row: Sequence[Any]) -> list[Any]:
        """Return the tokens of the cells of one row that is counted."""
        row_alone = Examples.of_arrays(object_array(row).reshape(1, -1), np.zeros(1, np.int64))
        asked = self.counted(row_alone).contexts
        tokens = asked.vocabulary.tolist()
        return [NO_TOKEN if rank < 0 else tokens[rank] for rank in asked.ranks[0].tolist()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cells) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __deepcopy__(self, memo: object) -> Cells:
        return self  # it never changes

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # caches are made again

    def tree_tokens(self, contexts: Contexts) -> NDArray[np.int32]:
        """Return the tokens of the cells of trees, of which there are none: (m, 0)."""
        return np.empty((len(contexts), 0), np.int32)

    def base_answers(self, labels: Vocabulary, weights: Floats | None) -> BaseAnswers | None:  # noqa: ARG002
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

    def shown(self, j: int, token: Any, order: Order = ()) -> Any:
        """Return what a column holds: a name, a category, a moment as text, or the range of a number."""
        if isinstance(token, str):
            return token
        if order:
            return order[int(token)]
        if self.kinds[j] is ColumnKind.DATES:
            return str(np.datetime64(int(token), "us").astype("datetime64[s]"))
        return token if self.kinds[j] is ColumnKind.NAMES else self.range_of(j, token)

    def range_of(self, j: int, token: Any, order: Order = ()) -> str | None:
        """Return the range that a number, a moment or a category of a column lies in; None for a name."""
        if self.kinds[j] is ColumnKind.NAMES or isinstance(token, str):
            return None
        cuts = self.ranges[j]
        return range_text(self.kinds[j], cuts, int(np.searchsorted(cuts, float(token), "right")), order)

    def column_shares(self, contexts: Contexts) -> Floats:
        """Return the share of each column of the table in what each position of the cells of rows says.

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
        return array_digest(self.arrays(), json.dumps(self.described(), sort_keys=True))

    def described(self) -> dict[str, Any]:
        """Return what is no array, ready for JSON."""
        described = {} if self.narrowing is None else {"narrowing": self.narrowing.described()}
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
        found = {} if self.narrowing is None else self.narrowing.arrays()
        return {
            **{f"narrowing.{name}": array for name, array in found.items()},
            "ranges": np.concatenate([np.empty(0), *self.ranges]),
            "range_lengths": np.array([len(cuts) for cuts in self.ranges], np.uint8),
        }

    @staticmethod
    def restored(described: dict[str, Any], stored: StoredArrays) -> Cells:
        """Return the cells of a file, checked: undo `described` and `arrays`."""
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
            narrowing = Narrowing.restored(described["narrowing"], stored.part("narrowing"))
            if narrowing.narrow_kinds != kinds:
                raise ValueError("its cells are of other columns than those chosen of its wide table")
        if not described["trees"]:
            return Cells(kinds, described["missing_is_cell"], ranges, narrowing=narrowing)
        codes = restored_codes(kinds, stored.part("codes"))
        forest = Forest.from_stored(codes.is_name, stored.part("trees"))
        tuples = _checked_tuples(described["tuples"], kinds)
        base = LabelBase.from_stored(described["base"], stored.part("base"))
        if base.function.design.owners != codes.plain_owners() or len(base.function.design.knots) != codes.n_ordered:
            raise ValueError("its additive base was made for other columns")
        return TreeCells(
            kinds, described["missing_is_cell"], ranges, codes, forest, last, base, tuples, narrowing=narrowing
        )


@dataclass(frozen=True, eq=False)
class TreeCells(Cells):
    """The cells of a table with trees: a row also lies in one cell of each tree and level.

    Parameters
    ----------
    kinds, missing_is_cell, ranges
        As in `Cells`.
    codes, forest
        How trees see rows, and the trees.
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
        return self.forest.leaves(self.coded(contexts))

    def coded(self, contexts: Contexts) -> NDArray[np.uint8]:
        """Return the bytes of rows of a question."""
        return self.codes.rows(self.ask(contexts))

    def base_answers(self, labels: Vocabulary, weights: Floats | None) -> BaseAnswers | None:
        """Return what the additive base adds to the scores of labels, if it has weights."""
        return None if weights is None else BaseAnswers(self.base, self.codes.step_middles, labels, weights)

    @property
    def name_sites(self) -> list[Site]:
        """The sites of names: each column, then the tuples."""
        return [*((j,) for j in self.names), *self.tuples]

    def sites(self) -> list[Site]:
        """Return the sites that an automatic kernel compares: names, tuples of names and trees."""
        return [*self.name_sites, *((j,) for j in range(len(self.kinds), self.h))]

    def shown(self, j: int, token: Any, order: Order = ()) -> Any:
        """Return what a column holds: a name, a category, a number, or a moment as text."""
        return super().shown(j, token, order) if self.kinds[j].has_scale else token

    def column_shares(self, contexts: Contexts) -> Floats:
        """Return the share of each column of the table in what each position of the cells of rows says.

        A cell of a tree belongs to the columns of the cuts on the way to it, each cut alike. A root has no cuts: what
        it says belongs to all columns.
        """
        m, h = len(contexts), len(self.kinds)
        found = np.zeros((m, self.h, h))
        found[:, :h] = np.eye(h)
        nodes = self.forest.cell_nodes[:, self.leaves(contexts)].transpose(1, 2, 0)  # tree by tree, then level by level
        distinct, ranks = np.unique(nodes, return_inverse=True)
        found[:, h:] = self.node_shares(distinct)[ranks.reshape(m, -1)]
        return found

    def node_shares(self, nodes: Array) -> Floats:
        """Return the share of each column of the table in what nodes of trees say: (nodes, h)."""
        shares = self.forest.share_nodes(self.codes.column_shares(), nodes)
        shares[~shares.any(axis=1)] = 1.0 / len(self.kinds)  # a root belongs to all columns
        return shares

    def described(self) -> dict[str, Any]:
        """Return what is no array, ready for JSON."""
        tuples = [list(site) for site in self.tuples]
        more = {"last_word": self.last_word, "trees": True, "tuples": tuples, "base": self.base.describe()}
        return {**super().described(), **more}

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        found = super().arrays()
        found.update({f"codes.{name}": array for name, array in code_arrays(self.codes).items()})
        found.update({f"trees.{name}": array for name, array in self.forest.arrays().items()})
        found.update({f"base.{name}": array for name, array in self.base.arrays().items()})
        return found


def range_text(kind: ColumnKind, cuts: Floats, place: int, order: Order = ()) -> str:
    """Return a range of a column of numbers, moments or categories as it is shown; `place` is its number, from 0.

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
    low, high = (texts[k] if 0 <= k < len(texts) else None for k in (place - 1, place))
    if low is None or high is None:
        return f"below {high}" if high is not None else f"from {low}" if low is not None else "any"
    return f"{low} to {high}"


def _category_range(cuts: Floats, place: int, order: Order) -> str:
    """Return a range of places in an order by its lowest and its highest category."""
    first = math.ceil(cuts[place - 1]) if place > 0 else 0
    behind = math.ceil(cuts[place]) if place < len(cuts) else len(order)
    low = str(order[min(max(first, 0), len(order) - 1)])
    high = str(order[min(max(behind - 1, 0), len(order) - 1)])
    return low if low == high else f"{low} to {high}"


def _cut_texts(kind: ColumnKind, cuts: Floats) -> list[str]:
    """Return cuts as they are shown: moments by their day where that tells them apart."""
    if kind is not ColumnKind.DATES:
        return [f"{cut:.4g}" for cut in cuts.tolist()]
    moments = cuts.astype(np.int64).astype("datetime64[us]")
    days = moments.astype("datetime64[D]")
    return [str(moment) for moment in (days if len(np.unique(days)) == len(days) else moments.astype("datetime64[s]"))]


def _checked_tuples(told: Any, kinds: ColumnKinds) -> tuple[Site, ...]:
    """Return tuples of columns of names from a file, or refuse what is none."""
    names = set(find_names(kinds))
    if not isinstance(told, list) or len(told) > _MOST_TUPLES or not all(isinstance(site, list) for site in told):
        raise ValueError("its tuples of columns are not valid")
    for site in told:
        is_rising = all(type(j) is int for j in site) and site == sorted(set(site))
        if len(site) < 2 or not is_rising or not names.issuperset(site):
            raise ValueError("a tuple of its columns is not made of columns of names")
    if len(set(map(tuple, told))) != len(told):
        raise ValueError("a tuple of its columns is there twice")
    return tuple(map(tuple, told))


def restored_codes(kinds: ColumnKinds, stored: StoredArrays) -> ColumnCodes:
    """Return the codes of a file, checked: undo `code_arrays`."""
    n_ordered = sum(len(part_names(kind)) for kind in kinds if kind.is_ordered)
    cut_lengths = stored.take("cut_lengths", "uint8", (n_ordered,)).tolist()
    cuts = split_cuts(stored.take("cuts", "float64", (None,)), cut_lengths)
    hash_lengths = stored.take("hash_cut_lengths", "uint8", (n_ordered,)).tolist()
    hash_cuts = split_cuts(stored.take("hash_cuts", "float64", (None,)), hash_lengths)
    pairs = stored.whole_numbers("pairs", (None, 2), below=max(n_ordered, 1)).astype(np.int64)
    name_lengths = stored.take("name_lengths", "uint8", (kinds.count(ColumnKind.NAMES),)).tolist()
    names = split_names(stored.take("names", "uint8", (None, NAME_BYTES)), name_lengths)
    key = stored.take("name_key", "uint8", (NAME_BYTES,)).tobytes()
    return ColumnCodes(kinds, cuts, names, key, pairs, hash_cuts)
