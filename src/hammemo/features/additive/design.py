r"""How the columns of a table become coordinates of an additive function.

.. math:: f(x) = c + \sum_j f_j(x_j) + \sum_{(j, k)} f_{jk}(x_j, x_k)

An ordered column (a number, or one of the six parts of a date) has a piecewise linear function: a
value becomes two *hats*, shares of the two knots around it, in whole numbers of 1/1024. A missing
value has a coordinate of its own where missing values occur. Each frequent name has one, too, and
all other names of the column share one. A few chosen pairs of columns have products of hats on a
coarse grid. So a row is a sparse vector of whole numbers, and with coefficients that are whole
numbers its score is one, exactly.

Names are known by the bytes that :class:`~hammemo.features.cells.column_codes.ColumnCodes` gives
them; no name is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._versions import cached_property
from hammemo.features.additive.levels import HAT, Levels
from hammemo.features.additive.step_tables import BYTES, StepTables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.features.additive.levels import LevelPlaces

MAX_KNOTS: Final = 15
"""Knots of a column, at most. A trial on rows left out chose this number."""

MAX_NAMES: Final = 40
"""Names of a column that have a coordinate, at most."""

MAX_PAIRS: Final = 8
"""Pairs of columns of a function, at most."""

_COARSE_KNOTS: Final = 5
"""Knots of a column in pairs, at most: a pair has a coordinate for each two of them."""

_COARSE_NAMES: Final = 7
"""Names of a column in pairs, at most."""

_BIN_KNOTS: Final = 7
"""Cuts of a column where pairs are tested, at most."""

_REACH: Final = 1024
"""How far lines go on behind the outer knots, in 1/1024 of the last range."""

MAX_COEFFICIENT: Final = 2**40
"""With it no score of a table of up to 1,300 columns and 2^10 labels leaves 64 bits; wider tables
have a lower limit (`AdditiveDesign.largest_coefficient`)."""

CONSTANT_GROUP: Final = -1
"""The group of the constant, which has no penalty of its own."""

_LINE_GROUP: Final = 0
"""The group of the lines of all columns and of their missing values."""


class FitCoordinates(NamedTuple):
    """The coordinates in which coefficients are fitted and penalised.

    Parameters
    ----------
    blocks : list of ndarray of float64
        The change from these coordinates to those of rows: the blocks of a block-diagonal matrix.
    groups : ndarray of int64, shape (q,)
        The group of penalties of each coordinate: `CONSTANT_GROUP`, then 0 for all lines and
        missing values; the bends of a column, its names, and a pair have groups of their own.
    """

    blocks: list[Floats]
    groups: Ints


@dataclass(frozen=True, eq=False)
class AdditiveDesign:
    """How the columns of a table become coordinates.

    Parameters
    ----------
    knots : tuple of ndarray of float64
        For each ordered column, ascending: none for a constant column, else two or more.
    has_missing : tuple of bool
        For each ordered column, whether missing values have a coordinate.
    names : tuple of ndarray of uint8
        For each column of names, the bytes of its frequent names, the most frequent one first.
    owners : tuple of int
        The column of the table that each ordered column and each column of names belongs to.
    pairs : ndarray of int64, shape (P, 2)
        Columns whose products are coordinates; ordered columns are counted first, then columns of
        names.
    """

    knots: tuple[Floats, ...]
    has_missing: tuple[bool, ...]
    names: tuple[NDArray[np.uint8], ...]
    owners: tuple[int, ...]
    pairs: Ints

    def with_more_pairs(self, pairs: Ints) -> AdditiveDesign:
        """Return the design with these pairs behind its own."""
        return replace(self, pairs=np.concatenate([self.pairs, pairs]))

    @property
    def n_columns(self) -> int:
        """How many ordered columns and columns of names there are."""
        return len(self.knots) + len(self.names)

    @cached_property
    def starts(self) -> Ints:
        """Where the coordinates of each column, then of each pair, start, and the end.

        Coordinate 0 is the constant.
        """
        sizes = self._count_levels(MAX_KNOTS, MAX_NAMES).tolist()
        coarse = self.coarse_sizes
        pair_sizes = [int(coarse[a] * coarse[b]) for a, b in self.pairs.tolist()]
        return np.cumsum([1, *sizes, *pair_sizes])

    @property
    def p(self) -> int:
        """How many coordinates there are."""
        return int(self.starts[-1])

    @property
    def n_groups(self) -> int:
        """How many groups of penalties there are, that of the constant not counted."""
        return int(self.groups.max()) + 1

    @property
    def reach(self) -> int:
        """The largest sum of absolute coordinates that a row may have, in 1/1024.

        The two hats of a number have at most 1 + 2 = 3 together, behind the outer knots; a name and
        a pair have 1.
        """
        return HAT * (1 + 3 * len(self.knots) + len(self.names) + len(self.pairs))

    def largest_coefficient(self, n_labels: int) -> int:
        """Return the largest coefficient with which no score leaves 64 bits.

        A score before it is rounded is at most reach times coefficient, here below 2^62.
        `LabelBase` and `StepRatios` centre rounded scores, n_labels s - sum(s): at most 2
        n_labels reach coefficient / 1024, here below 2^61.
        """
        most_of_scores = 2**62 // self.reach
        most_of_centred_scores = 2**70 // (self.reach * max(n_labels, 1))
        return min(MAX_COEFFICIENT, most_of_scores, most_of_centred_scores)

    def encode_rows(self, values: Floats, name_codes: NDArray[np.uint8]) -> _native.AdditiveRows:
        """Return rows in the coordinates of this design."""
        fine, coarse = self._native_levels
        return _native.AdditiveRows.of(
            values=np.ascontiguousarray(values, np.float64),
            names=np.ascontiguousarray(name_codes, np.uint8),
            fine=fine,
            coarse=coarse,
            pairs=self.pairs,
        )

    @property
    def fine_levels(self) -> Levels:
        """The levels of columns alone."""
        return self._build_levels(MAX_KNOTS, MAX_NAMES, _REACH)

    @property
    def coarse_levels(self) -> Levels:
        """The levels of columns in pairs, which do not go on behind the outer knots."""
        return self._build_levels(_COARSE_KNOTS, _COARSE_NAMES, 0)

    @property
    def coarse_sizes(self) -> Ints:
        """How many levels each column has in pairs."""
        return self._count_levels(_COARSE_KNOTS, _COARSE_NAMES)

    def tabulate(self, coefficients: Ints, middles: Sequence[Floats]) -> StepTables:
        """Return the tables of a function of the bytes of rows.

        Parameters
        ----------
        coefficients : ndarray of int64, shape (p, outputs)
        middles : sequence of ndarray of float64
            The values that stand for the steps of ordered columns.
        """
        # One row for each byte: in ordered columns the middle of its step, in others the byte.
        values = np.full((BYTES, len(middles)), np.nan)
        for column, column_middles in zip(values.T, middles, strict=True):
            column[: len(column_middles)] = column_middles
        names = np.tile(np.arange(BYTES, dtype=np.uint8)[:, None], len(self.names))
        coarse = self.coarse_levels.locate(values, names)
        blocks = self._pair_blocks(coefficients)
        n_outputs = coefficients.shape[1]
        return StepTables(
            columns=self._tabulate_columns(coefficients, self.fine_levels.locate(values, names)),
            levels=np.array([place.levels for place in coarse], np.int32).reshape(-1, BYTES),
            rights=np.array([place.rights for place in coarse], np.int32).reshape(-1, BYTES),
            pairs=self.pairs,
            widths=self.coarse_sizes[self.pairs[:, 1]],
            starts=np.cumsum([0, *map(len, blocks)]),
            blocks=np.concatenate([np.empty((0, n_outputs), np.int64), *blocks]),
            constant=coefficients[0] * HAT,
        )

    def _tabulate_columns(self, coefficients: Ints, places: list[LevelPlaces]) -> Ints:
        """Return what each byte of each column adds: (columns, 256, outputs)."""
        tables = np.zeros((self.n_columns, BYTES, coefficients.shape[1]), np.int64)
        for j, (levels, rights) in enumerate(places):
            first, last = self.starts[j : j + 2].tolist()
            # zeros behind the coefficients: for values at no level, and for a level behind the last
            padded = np.pad(coefficients[first:last], ((0, 2), (0, 0)))
            entries = np.where(levels >= 0, levels, last - first)
            tables[j] = (HAT - rights)[:, None] * padded[entries]
            tables[j] += rights[:, None] * padded[entries + 1]
        return tables

    def _pair_blocks(self, coefficients: Ints) -> list[Ints]:
        """Return the coefficients of each pair, with zeros for the levels behind the last ones."""
        widths = self.coarse_sizes[self.pairs[:, 1]].tolist()
        blocks = []
        for place, width in enumerate(widths, self.n_columns):
            first, last = self.starts[place : place + 2].tolist()
            blocks.append(np.pad(coefficients[first:last], ((0, width + 1), (0, 0))))
        return blocks

    def bin_columns(self, values: Floats, name_codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a few ranges or names of each column, by which pairs are tested: (columns, m)."""
        bins: list[Array] = []
        for column, knots in zip(values.T, self.knots, strict=True):
            cuts = thin_knots(knots, _BIN_KNOTS)
            ranges = np.searchsorted(cuts, column, side="right")
            bins.append(np.where(np.isnan(column), len(cuts) + 1, ranges))
        name_levels = self._build_levels(2, _COARSE_NAMES, 0).name_levels
        for levels, column in zip(name_levels, name_codes.T, strict=True):
            bins.append(levels[column])
        return np.array(bins, np.uint8).reshape(self.n_columns, len(values))

    @cached_property
    def fit_coordinates(self) -> FitCoordinates:
        """The coordinates of a fit.

        A piecewise linear function becomes a line and bends, whose penalty is the sum of their
        squares. All other coordinates of rows stay as they are.
        """
        unchanged = np.ones((1, 1))
        blocks = [unchanged]
        groups = [CONSTANT_GROUP]
        group = _LINE_GROUP
        for knots, has_missing in zip(self.knots, self.has_missing, strict=True):
            if len(knots):
                blocks.append(_line_and_bends(knots))
                n_bends = len(knots) - 2
                group += n_bends > 0
                groups += [_LINE_GROUP, *([group] * n_bends)]
            if has_missing:
                blocks.append(unchanged)
                groups.append(_LINE_GROUP)
        for size in np.diff(self.starts)[len(self.knots) :].tolist():
            group += 1
            blocks += [unchanged] * size
            groups += [group] * size
        return FitCoordinates(blocks, np.array(groups))

    @property
    def groups(self) -> Ints:
        """The group of penalties of each coordinate of a fit."""
        return self.fit_coordinates.groups

    @cached_property
    def modes(self) -> _native.AdditiveModes:
        """The change from coordinates of a fit to those of rows, in compiled code."""
        blocks = self.fit_coordinates.blocks
        return _native.AdditiveModes.of(
            rows=np.cumsum([0, *(block.shape[0] for block in blocks)]),
            columns=np.cumsum([0, *(block.shape[1] for block in blocks)]),
            flat=np.concatenate([block.ravel() for block in blocks]),
        )

    @cached_property
    def _native_levels(self) -> tuple[_native.AdditiveLevels, _native.AdditiveLevels]:
        """The levels of columns and of pairs, in compiled code."""
        fine = _compile_levels(self.fine_levels)
        coarse = _compile_levels(self.coarse_levels)
        return fine, coarse

    def _build_levels(self, most_knots: int, most_names: int, reach: int) -> Levels:
        """Return the levels of columns, with at most so many knots and names of each."""
        knots = [thin_knots(column_knots, most_knots) for column_knots in self.knots]
        name_levels = np.zeros((len(self.names), BYTES), np.uint8)
        for levels, names in zip(name_levels, self.names, strict=True):
            frequent = names[:most_names]
            levels[:] = len(frequent)  # all other names share the last level
            levels[frequent] = np.arange(len(frequent))
        return Levels(
            knots=np.concatenate([np.empty(0), *knots]),
            starts=np.cumsum([0, *map(len, knots)]),
            has_missing=np.array(self.has_missing, np.uint8),
            name_levels=name_levels,
            sizes=self._count_levels(most_knots, most_names),
            reach=reach,
        )

    def _count_levels(self, most_knots: int, most_names: int) -> Ints:
        """Return how many levels each column has, with at most so many knots and names."""
        sizes = []
        for knots, has_missing in zip(self.knots, self.has_missing, strict=True):
            sizes.append(min(len(knots), most_knots) + has_missing)
        sizes += [min(len(names), most_names) + 1 for names in self.names]
        return np.array(sizes, np.int64)

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # without caches

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, for files."""
        return {
            "knots": np.concatenate([np.empty(0), *self.knots]),
            "knot_lengths": np.array([len(knots) for knots in self.knots], np.uint8),
            "has_missing": np.array(self.has_missing, np.uint8),
            "names": np.concatenate([np.empty(0, np.uint8), *self.names]),
            "name_lengths": np.array([len(names) for names in self.names], np.uint8),
            "pairs": self.pairs.astype(np.uint16),
        }

    @classmethod
    def from_stored(
        cls, owners: Sequence[int], n_ordered: int, stored: StoredArrays
    ) -> AdditiveDesign:
        """Return the design of a file, checked: undo `arrays`.

        The columns of the function belong to the columns `owners` of the table.
        """
        n_names = len(owners) - n_ordered
        knot_lengths = stored.take("knot_lengths", "uint8", (n_ordered,)).tolist()
        knots = _split(stored.finite("knots", "float64", (None,)), knot_lengths)
        if any(not _can_be_knots(column_knots) for column_knots in knots):
            raise ValueError("the knots of a column are not ascending, or too few or too many")
        has_missing = stored.take("has_missing", "uint8", (n_ordered,))
        name_lengths = stored.take("name_lengths", "uint8", (n_names,)).tolist()
        names = _split(stored.take("names", "uint8", (None,)), name_lengths)
        if any(len(ranks) > MAX_NAMES or len(np.unique(ranks)) < len(ranks) for ranks in names):
            raise ValueError("the names of a column are too many, or one is there twice")
        pairs = stored.take("pairs", "uint16", (None, 2)).astype(np.int64)
        is_ascending = bool((pairs[:, 0] < pairs[:, 1]).all())
        if len(pairs) > MAX_PAIRS or (has_missing > 1).any() or not is_ascending:
            raise ValueError("its pairs of columns, or its missing values, are impossible")
        if pairs.size and pairs.max() >= len(owners):
            raise ValueError("a pair is of a column that the table does not have")
        return cls(
            knots=knots,
            has_missing=tuple(has_missing.astype(bool).tolist()),
            names=names,
            owners=tuple(owners),
            pairs=pairs,
        )


def _can_be_knots(knots: Floats) -> bool:
    """Return whether a column may have these knots: none, or some that a range lies between."""
    if not len(knots):
        return True
    is_ascending = bool((knots[1:] > knots[:-1]).all())
    return len(knots) <= MAX_KNOTS and is_ascending and has_range(knots)


def has_range(knots: Floats) -> bool:
    """Return whether the range of knots can be divided; halves, as it may be too large a number."""
    return len(knots) > 1 and bool(0.5 * knots[-1] > 0.5 * knots[0])


def thin_knots(knots: Floats, max_knots: int) -> Floats:
    """Return at most so many of the knots, evenly chosen, the outer ones among them."""
    if len(knots) <= max_knots:
        return knots
    # place k of `max_knots` is the whole number nearest to k (len(knots) - 1) / (max_knots - 1)
    return knots[
        (np.arange(max_knots) * (len(knots) - 1) * 2 + max_knots - 1) // (2 * (max_knots - 1))
    ]


def _compile_levels(levels: Levels) -> _native.AdditiveLevels:
    return _native.AdditiveLevels.of(
        knots=levels.knots,
        starts=levels.starts,
        has_missing=levels.has_missing,
        of_names=levels.name_levels,
        sizes=levels.sizes,
        reach=levels.reach,
    )


def _line_and_bends(knots: Floats) -> Floats:
    r"""Return, as columns, a line of spread 1 and the bend at each inner knot, without its line.

    With the places :math:`t_j` of the knots on the line, the bend at the knot j is

    .. math:: b_j(t) = \max(t - t_j, 0) \sqrt{(t_{j+1} - t_{j-1}) / 2},

    less its mean and less its share of the line. So a coefficient is the change of the slope at the
    knot, divided by the root of the mean range around it: the penalty of a function hardly depends
    on how densely its knots lie. Sums of lists have one order on every processor.
    """
    k = len(knots)
    halves = 0.5 * knots  # the range of all knots may be too large for a number
    positions = (halves - halves[0]) / (halves[-1] - halves[0])
    line = positions - sum(positions.tolist()) / k
    line /= np.sqrt(sum((line**2).tolist()) / k)
    columns = [line]
    for j in range(1, k - 1):
        bend = np.maximum(line - line[j], 0.0) * np.sqrt((line[j + 1] - line[j - 1]) / 2)
        bend -= sum(bend.tolist()) / k
        columns.append(bend - line * (sum((bend * line).tolist()) / k))
    return np.ascontiguousarray(np.array(columns).T)


def _split(flat: Array, lengths: list[int]) -> tuple[Array, ...]:
    if sum(lengths) != len(flat):
        raise ValueError("the knots or names of its columns are not as many as declared")
    return tuple(np.split(flat, np.cumsum(lengths)[:-1])) if lengths else ()
