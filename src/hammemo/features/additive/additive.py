r"""An additive function of the columns of a table: the first thing that is said about a row.

.. math:: f(x) = c + \sum_j f_j(x_j) + \sum_{(j, k)} f_{jk}(x_j, x_k)

An ordered column (a number, or one of the six parts of a date) has a piecewise linear function: a value becomes two
*hats*, shares of the two knots around it, in whole numbers of 1/1024. A missing value has a coordinate of its own where
missing values occur. Each frequent name has one, too, and all other names of the column share one. A few chosen pairs
of columns have products of hats on a coarse grid. So a row is a sparse vector of whole numbers, and with coefficients
that are whole numbers its score is one, exactly.

Knots lie at round numbers near quantiles, so a row that comes or goes rarely moves one. Names are known by the bytes
that :class:`~hammemo.features.cells.column_codes.ColumnCodes` gives them; no name is stored.

Every copy of a row lies in one of `FOLDS` folds. There are coefficients fitted to all rows, and *crossed* ones for each
fold, fitted to the rows of the other folds: these say what the function expects of rows that it has not seen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo import _native
from hammemo._arrays.array_digest import array_digest
from hammemo._arrays.round_numbers import round_numbers
from hammemo._versions import cached_property
from hammemo.features.additive.levels import HAT, Levels
from hammemo.features.additive.step_tables import BYTES, StepTables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints, Words
    from hammemo.features.cells.column_codes import ColumnCodes

FOLDS: Final = 5
NAT: Final = 65536
"""Scores of labels are whole numbers of 1/65536 nats."""
MAX_PAIRS: Final = 8
_MAX_KNOTS: Final = 15
_MAX_NAMES: Final = 40
_MAX_COORDINATES: Final = 600
"""Of all columns together; wide tables have fewer knots and names in each column."""
_COARSE_KNOTS: Final = 5
_COARSE_NAMES: Final = 7
_CELL_KNOTS: Final = 7
_REACH: Final = 1024
"""How far lines go on behind the outer knots, in 1/1024 of the last range."""
_BAND_ROWS: Final = 2
_KNOT_ROWS: Final = 20_000


def fold_counts(words: Words, counts: Ints) -> Ints:
    """Return how many copies of rows lie in each fold: copy c of a row with hash w lies in fold (w + c) mod `FOLDS`.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.additive.additive import fold_counts
    >>> fold_counts(np.array([3], np.uint64), np.array([7]))
    array([[1],
           [1],
           [1],
           [2],
           [2]])
    """
    folds = np.arange(FOLDS)[:, None]
    behind = (folds - (words % np.uint64(FOLDS)).astype(np.int64)) % FOLDS
    return counts // FOLDS + (behind < counts % FOLDS)


def row_order(words: Words, *columns: Array) -> Ints:
    """Return the order of rows by their hashes, and among equal hashes by what the rows hold."""
    if (words[1:] > words[:-1]).all():
        return np.arange(len(words))
    keys = [key for column in columns for key in column.reshape(len(words), -1).T]
    return np.lexsort((*keys[::-1], words))


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
        Columns whose products are coordinates; ordered columns are counted first, then columns of names.
    """

    knots: tuple[Floats, ...]
    has_missing: tuple[bool, ...]
    names: tuple[NDArray[np.uint8], ...]
    owners: tuple[int, ...]
    pairs: Ints

    @classmethod
    def chosen(cls, codes: ColumnCodes, values: Floats, name_codes: NDArray[np.uint8], counts: Ints) -> AdditiveDesign:
        """Return the design for rows that occur so often, without pairs."""
        n_columns = values.shape[1] + name_codes.shape[1]
        room = _MAX_COORDINATES // max(n_columns, 1)
        most_knots, most_names = min(_MAX_KNOTS, max(2, room)), min(_MAX_NAMES, max(2, room))
        knots = tuple(_knots(column[:_KNOT_ROWS], counts[:_KNOT_ROWS], most_knots) for column in values.T)
        names = tuple(_frequent(column, counts, most_names) for column in name_codes.T)
        owners = codes.plain_owners()
        return cls(
            knots, tuple(np.isnan(column).any() for column in values.T), names, owners, np.empty((0, 2), np.int64)
        )

    @property
    def n_columns(self) -> int:
        """How many ordered columns and columns of names there are."""
        return len(self.knots) + len(self.names)

    @cached_property
    def starts(self) -> Ints:
        """Where the coordinates of each column, then of each pair, start, and the end; coordinate 0 is constant."""
        coarse = self._sizes(_COARSE_KNOTS, _COARSE_NAMES)
        pairs = [int(coarse[a] * coarse[b]) for a, b in self.pairs.tolist()]
        return np.cumsum([1, *self._sizes(_MAX_KNOTS, _MAX_NAMES).tolist(), *pairs])

    @property
    def reach(self) -> int:
        """The largest sum of absolute coordinates that a row may have, in 1/1024.

        The two hats of a number have at most 1 + 2 = 3 together, behind the outer knots; a name and a pair have 1.
        """
        return HAT * (1 + 3 * len(self.knots) + len(self.names) + len(self.pairs))

    def largest_coefficient(self, n_labels: int) -> int:
        """Return the largest coefficient with which no score leaves 64 bits.

        A score before it is rounded is at most reach times coefficient, here below 2^62. `LabelBase` and `StepRatios`
        centre rounded scores, n_labels s - sum(s): at most 2 n_labels reach coefficient / 1024, here below 2^61.
        """
        of_scores = 2**62 // self.reach
        of_centred = 2**70 // (self.reach * max(n_labels, 1))
        return min(MAX_COEFFICIENT, of_scores, of_centred)

    @property
    def p(self) -> int:
        """How many coordinates there are."""
        return int(self.starts[-1])

    def rows(self, values: Floats, name_codes: NDArray[np.uint8]) -> _native.AdditiveRows:
        """Return rows in the coordinates of this design."""
        values, name_codes = np.ascontiguousarray(values, np.float64), np.ascontiguousarray(name_codes, np.uint8)
        fine, coarse = self._levels
        return _native.AdditiveRows.of(values=values, names=name_codes, fine=fine, coarse=coarse, pairs=self.pairs)

    def levels(self, most_knots: int, most_names: int, reach: int) -> Levels:
        """Return the levels of columns: at most so many knots and names of each."""
        knots = [_some(known, most_knots) for known in self.knots]
        of_names = np.zeros((len(self.names), BYTES), np.uint8)
        for levels, known in zip(of_names, self.names, strict=True):
            own = known[:most_names]
            levels[:] = len(own)
            levels[own] = np.arange(len(own))
        starts = np.cumsum([0, *map(len, knots)])
        flat = np.concatenate([np.empty(0), *knots])
        sizes = self._sizes(most_knots, most_names)
        return Levels(flat, starts, np.array(self.has_missing, np.uint8), of_names, sizes, reach)

    def grids(self) -> list[Levels]:
        """Return the levels of columns, which are fine, and of pairs, which are coarse."""
        return [self.levels(*most) for most in _LEVELS]

    def step_tables(self, coefficients: Ints, middles: Sequence[Floats]) -> StepTables:
        """Return the tables of a function; `middles` are the values that stand for the steps of ordered columns."""
        values = np.full((BYTES, len(middles)), np.nan)
        for column, known in zip(values.T, middles, strict=True):
            column[: len(known)] = known
        names = np.tile(np.arange(BYTES, dtype=np.uint8)[:, None], len(self.names))
        fine, coarse = (levels.places(values, names) for levels in self.grids())
        outputs, spans = coefficients.shape[1], list(pairwise(self.starts.tolist()))
        columns = np.zeros((self.n_columns, BYTES, outputs), np.int64)
        for table, (first, last), (level, right) in zip(columns, spans, fine, strict=False):
            own = np.pad(coefficients[first:last], ((0, 2), (0, 0)))
            held = np.where(level >= 0, level, last - first)
            table += (HAT - right)[:, None] * own[held] + right[:, None] * own[held + 1]
        widths = self.coarse_sizes[self.pairs[:, 1]]
        blocks = [
            np.pad(coefficients[first:last], ((0, width + 1), (0, 0)))
            for (first, last), width in zip(spans[self.n_columns :], widths.tolist(), strict=True)
        ]
        levels, rights = (np.array([place[k] for place in coarse], np.int32).reshape(-1, BYTES) for k in (0, 1))
        ends = np.cumsum([0, *map(len, blocks)])
        flat = np.concatenate([np.empty((0, outputs), np.int64), *blocks])
        return StepTables(columns, levels, rights, self.pairs, widths, ends, flat, coefficients[0] * HAT)

    @property
    def coarse_sizes(self) -> Ints:
        """How many levels each column has in pairs."""
        return self._sizes(_COARSE_KNOTS, _COARSE_NAMES)

    def cells(self, values: Floats, name_codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a few ranges or names of each column, for tests of pairs: shape (columns, m)."""
        found = []
        for column, known in zip(values.T, self.knots, strict=True):
            cuts = _some(known, _CELL_KNOTS)
            found.append(np.where(np.isnan(column), len(cuts) + 1, np.searchsorted(cuts, column, side="right")))
        of_names = self.levels(2, _COARSE_NAMES, 0).of_names
        found += [levels[column] for levels, column in zip(of_names, name_codes.T, strict=True)]
        return np.array(found, np.uint8).reshape(self.n_columns, len(values))

    @cached_property
    def _blocks(self) -> tuple[list[Floats], Ints]:
        """The blocks of the change of coordinates, and the group of penalties of each new coordinate.

        A piecewise linear function becomes a line and bends, whose penalty is the sum of their squares. Group -1 is the
        constant, 0 all lines and missing values; the bends of a column, its names, and a pair have groups of their own.
        """
        one = np.ones((1, 1))
        blocks, groups, last = [one], [-1], 0
        for known, has_missing in zip(self.knots, self.has_missing, strict=True):
            if len(known):
                blocks.append(_line_and_bends(known))
                last += len(known) > 2
                groups += [0, *([last] * (len(known) - 2))]
            if has_missing:
                blocks.append(one)
                groups.append(0)
        for size in np.diff(self.starts)[len(self.knots) :].tolist():
            last += 1
            blocks += [one] * size
            groups += [last] * size
        return blocks, np.array(groups)

    @property
    def groups(self) -> Ints:
        """The group of penalties of each new coordinate."""
        return self._blocks[1]

    @cached_property
    def modes(self) -> _native.AdditiveModes:
        """The change from coordinates of a fit to those of rows."""
        blocks = self._blocks[0]
        rows, columns = (np.cumsum([0, *(block.shape[axis] for block in blocks)]) for axis in (0, 1))
        return _native.AdditiveModes.of(rows, columns, np.concatenate([block.ravel() for block in blocks]))

    @cached_property
    def _levels(self) -> tuple[_native.AdditiveLevels, _native.AdditiveLevels]:
        fine, coarse = (_native.AdditiveLevels.of(*levels) for levels in self.grids())
        return fine, coarse

    def _sizes(self, most_knots: int, most_names: int) -> Ints:
        ordered = [min(len(known), most_knots) + has for known, has in zip(self.knots, self.has_missing, strict=True)]
        return np.array([*ordered, *(min(len(known), most_names) + 1 for known in self.names)], np.int64)

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # caches are made again

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, for files."""
        return {
            "knots": np.concatenate([np.empty(0), *self.knots]),
            "knot_lengths": np.array([len(known) for known in self.knots], np.uint8),
            "has_missing": np.array(self.has_missing, np.uint8),
            "names": np.concatenate([np.empty(0, np.uint8), *self.names]),
            "name_lengths": np.array([len(known) for known in self.names], np.uint8),
            "pairs": self.pairs.astype(np.uint16),
        }

    @classmethod
    def restored(cls, owners: Sequence[int], n_ordered: int, stored: StoredArrays) -> AdditiveDesign:
        """Return the design of a file for columns of a table with these owners, checked: undo `arrays`."""
        n_names = len(owners) - n_ordered
        lengths = stored.take("knot_lengths", "uint8", (n_ordered,)).tolist()
        knots = _split(stored.finite("knots", "float64", (None,)), lengths)
        for known in knots:
            if len(known) > _MAX_KNOTS or (known[1:] <= known[:-1]).any() or (len(known) and not _has_range(known)):
                raise ValueError("the knots of a column are not ascending, or too few or too many")
        has_missing = stored.take("has_missing", "uint8", (n_ordered,))
        name_lengths = stored.take("name_lengths", "uint8", (n_names,)).tolist()
        names = _split(stored.take("names", "uint8", (None,)), name_lengths)
        if any(len(known) > _MAX_NAMES or len(np.unique(known)) < len(known) for known in names):
            raise ValueError("the names of a column are too many, or one is there twice")
        pairs = stored.take("pairs", "uint16", (None, 2)).astype(np.int64)
        if len(pairs) > MAX_PAIRS or (has_missing > 1).any() or (pairs[:, 0] >= pairs[:, 1]).any():
            raise ValueError("its pairs of columns, or its missing values, are impossible")
        if pairs.size and pairs.max() >= len(owners):
            raise ValueError("a pair is of a column that the table does not have")
        return cls(knots, tuple(has_missing.astype(bool).tolist()), names, tuple(owners), pairs)


_LEVELS: Final = ((_MAX_KNOTS, _MAX_NAMES, _REACH), (_COARSE_KNOTS, _COARSE_NAMES, 0))


@dataclass(frozen=True, eq=False)
class AdditiveBase:
    """An additive function with its coefficients.

    Parameters
    ----------
    design : AdditiveDesign
    n_labels : int
        How many labels it gives scores to; 0 for a function that predicts numbers.
    coefficients : ndarray of int64, shape (p, outputs)
        Fitted to all rows. Two labels have one output, the score of the second one. Units: 1/65536 nats for labels,
        the unit of the targets for numbers.
    crossed : ndarray of int64, shape (FOLDS, p, outputs)
        Fitted to the rows outside of each fold.
    penalties : ndarray of float64
        Of each group of coordinates.
    """

    design: AdditiveDesign
    n_labels: int
    coefficients: Ints
    crossed: Ints
    penalties: Floats

    def scores(self, values: Floats, name_codes: NDArray[np.uint8]) -> Ints:
        """Return whole-number scores of rows: shape (m, labels), or (m, 1) for numbers."""
        return self._labelled(row_scores(self.design.rows(values, name_codes), self.coefficients))

    def crossed_scores(self, values: Floats, name_codes: NDArray[np.uint8], folds: Ints) -> Ints:
        """Return the scores of rows that lie in these folds, by the coefficients without their folds."""
        found = np.zeros((len(values), self.coefficients.shape[1]), np.int64)
        for fold, coefficients in enumerate(self.crossed):
            own = np.flatnonzero(folds == fold)
            found[own] = row_scores(self.design.rows(values[own], name_codes[own]), coefficients)
        return self._labelled(found)

    def contributions(self, rows: NDArray[np.uint8], middles: Sequence[Floats]) -> Floats:
        """Return what each column of the table adds to the scores of rows, given their bytes; pairs are halved.

        With the constant, ``coefficients[0]``, contributions add up to the scores before these are rounded.

        Shapes
        ------
        returned : (columns, m, outputs)
        """
        owners = self.design.owners
        found = np.zeros((max(owners, default=-1) + 1, len(rows), self.coefficients.shape[1]))
        for columns, added in self.design.step_tables(self.coefficients, middles).terms(rows):
            for column in columns:
                found[owners[column]] += added / (HAT * len(columns))
        return found

    def _labelled(self, scores: Ints) -> Ints:
        return with_all_labels(scores, self.n_labels)

    def described(self) -> dict[str, Any]:
        """Return what is no array, ready for JSON."""
        return {"n_labels": self.n_labels, "owners": list(self.design.owners), "n_ordered": len(self.design.knots)}

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        found = {f"design.{name}": array for name, array in self.design.arrays().items()}
        return found | {"coefficients": self.coefficients, "crossed": self.crossed, "penalties": self.penalties}

    @classmethod
    def restored(cls, described: dict[str, Any], stored: StoredArrays) -> AdditiveBase:
        """Return the base of a file, checked: undo `described` and `arrays`."""
        n_labels, owners, n_ordered = (described[name] for name in ("n_labels", "owners", "n_ordered"))
        if not isinstance(owners, list) or len(owners) > 2**13:
            raise ValueError("the columns of its additive base are not a list, or are too many")
        if any(type(whole) is not int or not 0 <= whole < 2**31 for whole in (n_labels, n_ordered, *owners)):
            raise ValueError("the sizes of its additive base are not whole numbers")
        if n_ordered > len(owners):
            raise ValueError("its additive base has more ordered columns than columns")
        design = AdditiveDesign.restored(owners, n_ordered, stored.part("design"))
        shape = (design.p, n_outputs(n_labels))
        coefficients = stored.take("coefficients", "int64", shape)
        crossed = stored.take("crossed", "int64", (FOLDS, *shape))
        for array in (coefficients, crossed):
            if array.size and max(-int(array.min()), int(array.max())) > design.largest_coefficient(n_labels):
                raise ValueError("a coefficient of its additive base is too large")
        n_groups = int(design.groups.max()) + 1
        penalties = stored.finite("penalties", "float64", (n_groups,))
        if (penalties <= 0).any():
            raise ValueError("a penalty of its additive base is not above zero")
        return cls(design, n_labels, coefficients, crossed, penalties)

    def digest(self) -> str:
        """Return BLAKE2b-256 of all that the base is."""
        return array_digest(self.arrays(), json.dumps(self.described(), sort_keys=True))


MAX_COEFFICIENT: Final = 2**40
"""With it no score of a table of up to 1,300 columns and 2^10 labels leaves 64 bits; wider ones have a lower limit."""


def n_outputs(n_labels: int) -> int:
    """Return how many scores are fitted: one for numbers, for one label and for two."""
    return n_labels if n_labels > 2 else 1


def with_all_labels(scores: Array, n_labels: int) -> Array:
    """Return scores with a column of zeros for the first of two labels."""
    missing = max(n_labels - scores.shape[-1], 0)
    return np.concatenate([np.zeros((*scores.shape[:-1], missing), scores.dtype), scores], axis=-1)


def row_scores(rows: _native.AdditiveRows, coefficients: Ints) -> Ints:
    """Return the sums over coordinates, rounded to whole numbers: shape (m, outputs)."""
    coefficients = np.ascontiguousarray(coefficients)
    out = np.empty((rows.n, coefficients.shape[1]), np.int64)
    rows.scores(coefficients, out.reshape(-1))
    return out


def whole_coefficients(theta: Floats, unit: float, most: int) -> Ints:
    """Return coefficients as whole numbers of this unit, with at most this absolute value."""
    return np.rint(np.clip(theta * unit, -most, most)).astype(np.int64)


_KNOT_SHARES: Final = (
    (15, (1 / 128, 1 / 24, 1 / 12, 1 / 6, 1 / 4, 1 / 3, 5 / 12)),
    (11, (1 / 128, 1 / 24, 1 / 8, 1 / 4, 3 / 8)),
    (7, (1 / 128, 1 / 24, 1 / 4)),
    (2, (1 / 64,)),
)
"""By the most knots of a column, the shares of rows below its knots in the lower half; the upper half is alike."""


def _knots(values: Floats, counts: Ints, most: int) -> Floats:
    """Return the values that occur where they are few, else round numbers near quantiles, more of them at the ends.

    A knot is the roundest binary number near its quantile. A value that fills this neighbourhood is a knot itself.
    A single value counts as an eighth of the rows at most, so that it leaves knots to the others.
    """
    present = np.isfinite(values)
    distinct, ranks = np.unique(values[present], return_inverse=True)
    if len(distinct) <= most:
        return distinct if _has_range(distinct) else distinct[:0]
    weights = np.bincount(ranks, weights=counts[present]).astype(np.int64)  # floats are exact: below 2^53
    upto = np.cumsum(np.minimum(weights, max(1, int(weights.sum()) // 8)))
    total = int(upto[-1])
    below = np.array(next(shares for least, shares in _KNOT_SHARES if most >= least))
    wanted = np.maximum(total * np.concatenate([below, [0.5] * (most > 2), 1 - below[::-1]]), 1 + _BAND_ROWS)
    wanted = np.minimum(wanted, total - _BAND_ROWS)
    band = 0.1 * np.minimum(wanted, total - wanted) + _BAND_ROWS
    first = np.searchsorted(upto, np.maximum(wanted - band, 1).astype(np.int64))
    last = np.searchsorted(upto, np.minimum(wanted + band, total).astype(np.int64))
    found = np.where(
        first == last,
        distinct[first],
        round_numbers(distinct[first], distinct[np.maximum(last, first + 1) % len(distinct)]),
    )
    found = np.unique(found)
    return found if _has_range(found) else distinct[[0, -1]]


def _has_range(knots: Floats) -> bool:
    """Return whether the range of knots can be divided; halves, because it may be too large for a number."""
    return len(knots) > 1 and bool(0.5 * knots[-1] > 0.5 * knots[0])


def _frequent(codes: NDArray[np.uint8], counts: Ints, most: int) -> NDArray[np.uint8]:
    """Return the most frequent bytes of names, 0 for the other names left out; ties by the byte, which is a hash."""
    totals = np.bincount(codes, weights=counts, minlength=BYTES).astype(np.int64)
    totals[0] = 0
    order = np.lexsort((np.arange(BYTES), -totals))[:most]
    return order[totals[order] > 0].astype(np.uint8)


def _some(knots: Floats, most: int) -> Floats:
    """Return at most so many knots, evenly chosen, the outer ones among them."""
    if len(knots) <= most:
        return knots
    return knots[(np.arange(most) * (len(knots) - 1) * 2 + most - 1) // (2 * (most - 1))]


def _line_and_bends(knots: Floats) -> Floats:
    """Return, as columns, a line of the spread 1 and the bend at each inner knot that holds no line.

    The bend of a function is the change of its slope, divided by the root of the mean range around it.
    """
    k = len(knots)
    halves = 0.5 * knots
    place = (halves - halves[0]) / (halves[-1] - halves[0])
    line = place - sum(place.tolist()) / k
    line /= np.sqrt(sum((line**2).tolist()) / k)
    found = [line]
    for j in range(1, k - 1):
        bend = np.maximum(line - line[j], 0.0) * np.sqrt((line[j + 1] - line[j - 1]) / 2)
        bend -= sum(bend.tolist()) / k
        found.append(bend - line * (sum((bend * line).tolist()) / k))
    return np.ascontiguousarray(np.array(found).T)


def _split(flat: Array, lengths: list[int]) -> tuple[Array, ...]:
    if sum(lengths) != len(flat):
        raise ValueError("the knots or names of its columns are not as many as declared")
    return tuple(np.split(flat, np.cumsum(lengths)[:-1])) if lengths else ()
