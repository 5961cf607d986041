"""What a model knows of the columns of X: a value that reading returns and that every edit hands on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hammemo.tokens.columns import ColumnKind

if TYPE_CHECKING:
    from hammemo._arrays.types import Array
    from hammemo.tokens.column_evidence import Evidence
    from hammemo.tokens.token_types import TokenTypes
    from hammemo.tokens.zones import Zones


@dataclass(frozen=True, eq=False)
class ColumnSchema:
    """The columns of X, or the positions of a context.

    Parameters
    ----------
    n : int
        How many there are, the paper's h.
    names : ndarray, optional
        Their names, where X had any.
    kinds : str, optional
        A letter for each (:mod:`hammemo.tokens.columns`); None where all are names.
    types : str, optional
        How values came (:mod:`hammemo.tokens.column_evidence`); None where kinds are not decided by rows.
    learnt : TokenTypes, optional
        Whether columns of names held numbers or strings; None where that is not known, as after `load`.
    zones : mapping of int to str
        The zones of the columns of dates that have one (:mod:`hammemo.tokens.zones`), by their places.
    packed : bool
        Whether rows are one token each (:mod:`hammemo.tokens.packed_rows`); then all columns are numbers.
    """

    n: int
    names: Array | None = None
    kinds: str | None = None
    types: str | None = None
    learnt: TokenTypes | None = None
    zones: Zones = field(default_factory=dict)
    packed: bool = False

    @property
    def width(self) -> int:
        """How many tokens a row has."""
        return 1 if self.packed else self.n

    @property
    def letters(self) -> str:
        """The kind of each column."""
        return self.kinds or ColumnKind.NAMES * self.n

    def listed(self) -> list[Any] | None:
        """Return the names as a list."""
        return None if self.names is None else list(self.names.tolist())

    def shown(self, place: int) -> str:
        """Return a column as errors name it."""
        return repr(place if self.names is None else self.names[place])

    def of_kinds(self, kinds: str) -> ColumnSchema:
        """Return columns of these kinds."""
        return replace(self, kinds=None if set(kinds) <= {ColumnKind.NAMES} else kinds)

    def with_types_of(self, other: ColumnSchema | Evidence) -> ColumnSchema:
        """Return columns whose values came as those of others did: in the same types and zones."""
        return replace(self, types=other.types, zones=other.zones)

    def as_packed(self) -> ColumnSchema:
        """Return columns of numbers whose rows are one token each; their kinds are not decided again."""
        return replace(self, types=None, packed=True)

    def also_learnt(self, kinds: TokenTypes, *, first: bool) -> ColumnSchema:
        """Return them with what more rows hold; it is all that is known if they are the first ones."""
        if first:
            return replace(self, learnt=kinds)
        return self if self.learnt is None else replace(self, learnt=self.learnt.plus(kinds))
