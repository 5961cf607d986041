"""Sites: what a kernel compares in contexts of one length, and how tables of them are looked up.

A *site* is a position or a tuple of positions. In a batch each site holds a set of tuples of
tokens (:class:`hammemo._arrays.tuple_sets.TupleSet`); stacked one below the other, these sets
number the rows of a count table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from scipy import sparse

from hammemo._arrays.tuple_sets import TupleSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Floats, Ints
    from hammemo.tokens.contexts import Contexts

Site: TypeAlias = tuple[int, ...]

FREE_KINDS: Final = {"bag": True, "together": True, "copy": False, "recent": False}
"""The kinds of sites without a position, and whether they have a table
(:mod:`hammemo.kernels.free_sites`)."""


@dataclass(frozen=True)
class FreeSite:
    """A part of a context that is compared wherever it stands among the last `reach` tokens."""

    kind: str
    reach: int

    @property
    def has_table(self) -> bool:
        """Whether rows of counts belong to it."""
        return FREE_KINDS[self.kind]

    @property
    def name(self) -> str:
        """What it is called, such as ``"bag of 10"``."""
        return f"{self.kind} of {self.reach}"


MAX_SITES = 2**12
"""The most sites of a model. Each has arrays of its own, which the header of a model file
describes."""

MAX_POSITIONS = 2**15
"""The most positions that the sites of a model list together: an exact table has an array for
each of them."""


@dataclass(frozen=True, eq=False)
class Sites:
    """The sites of a kernel for contexts of one length, with their weights.

    Parameters
    ----------
    h : int
        Tokens per context.
    positions : tuple of tuples of int
        Positions 0 to h - 1 that each site compares, ascending.
    weights : ndarray of float64, shape (S,)
        Not divided by their sum, so that whole numbers stay whole.
    free : tuple of FreeSite
        Parts without a position, each once.
    """

    h: int
    positions: tuple[Site, ...]
    weights: Floats
    free: tuple[FreeSite, ...] = ()

    @property
    def total_weight(self) -> float:
        """What scores are divided by."""
        return float(self.all_weights.sum())

    @property
    def n(self) -> int:
        """How many sites there are, those without a position too."""
        return len(self.positions) + len(self.free)

    @property
    def all_weights(self) -> Floats:
        """The weights of all sites: those without a position come last, and have the weight 1."""
        if not self.free:
            return self.weights
        return np.append(self.weights, np.ones(len(self.free)))

    @property
    def free_with_table(self) -> tuple[FreeSite, ...]:
        """The sites without a position that have a table."""
        return tuple(site for site in self.free if site.has_table)

    def describe(self) -> tuple[tuple[str, Site], ...]:
        """Return the name and the positions of every site.

        Only sites without a position have a name.
        """
        positions = [("", site) for site in self.positions]
        return (*positions, *((site.name, ()) for site in self.free))

    def without_head(self) -> Sites:
        """Return the sites for contexts cut to the last tokens that any table looks at."""
        first = min((r for site in self.positions for r in site), default=self.h - 1)
        skipped = min([first, *(self.h - site.reach for site in self.free_with_table)])
        if not skipped:
            return self
        positions = tuple(tuple(r - skipped for r in site) for site in self.positions)
        return Sites(self.h - skipped, positions, self.weights, self.free)

    def check_size(self) -> None:
        """Refuse more sites than a model file can describe, before they are learned or loaded."""
        if not self.positions:
            raise ValueError(
                "The kernel compares no position: add one that does, for example Suffixes(1) "
                "+ Bag(10)."
            )
        listed = sum(map(len, self.positions))
        if len(self.positions) + len(self.free) > MAX_SITES or listed > MAX_POSITIONS:
            raise ValueError(
                f"Of {self.h:,} columns (or tokens before each position of a document), "
                f"the kernel compares {len(self.positions):,} columns or tuples of them, "
                f"which list {listed:,} columns in all; a model compares at most {MAX_SITES:,}, "
                f"which list at most {MAX_POSITIONS:,}. With kernel='auto', "
                "a table of numbers may be much wider; otherwise choose columns, or a smaller h, "
                "or compare some of them only with SiteKernel([...])."
            )


def collect_sites(contexts: Contexts, sites: Sites) -> tuple[list[TupleSet], Ints]:
    """Return what each site holds in a batch and, for each context and site, its rank in that.

    The rank is -1 where a position of the site is empty.

    Shapes
    ------
    returned ranks : (m, S)
    """
    n = max(len(contexts.vocabulary), 1)
    collected = [TupleSet.collect(contexts.ranks[:, list(site)], n) for site in sites.positions]
    return [tuples for tuples, _ in collected], np.stack([index for _, index in collected], axis=1)


def find_sites(ranks: Ints, sites: Sites, tuples: Sequence[TupleSet]) -> Ints:
    """Return, for each context and site, the row in the stacked tuple sets; -1 where it has none.

    Shapes
    ------
    ranks : (m, h) in the tuple sets' vocabulary; returned : (m, S)
    """
    rows = np.empty((len(ranks), len(tuples)), np.int64)
    first_row = 0
    for k, (site, site_tuples) in enumerate(zip(sites.positions, tuples, strict=True)):
        places = site_tuples.find(ranks[:, list(site)])
        rows[:, k] = np.where(places >= 0, places + first_row, -1)
        first_row += len(site_tuples)
    return rows


def make_sparse_rows(columns: Ints, values: Floats, width: int) -> sparse.csr_array:
    """Return the sparse matrix whose row i holds `values[k]` in column `columns[i, k]`.

    Column -1 leaves it out.

    Shapes
    ------
    columns : (m, S); values : (S,); returned : (m, width)
    """
    is_present = columns >= 0
    # scikit-learn's linear models take 32-bit indices only; SciPy keeps the width of indices.
    index_type: type[np.signedinteger[Any]] = np.int64
    if max(width, columns.size) < 2**31:
        index_type = np.int32
    starts = np.concatenate([[0], np.cumsum(is_present.sum(axis=1))]).astype(index_type)
    data = np.broadcast_to(values, columns.shape)[is_present]
    places = columns[is_present].astype(index_type)
    return sparse.csr_array((data, places, starts), shape=(len(columns), width))
