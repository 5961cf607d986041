"""What a model knows of the columns of X: a value that every edit hands on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hammemo._versions import Cached, cached_property
from hammemo.tokens import column_kinds
from hammemo.tokens.column_kinds import NAMES, ColumnType

if TYPE_CHECKING:
    from hammemo._arrays.types import Array
    from hammemo.tokens.column_evidence import Evidence
    from hammemo.tokens.column_kinds import ColumnKinds, ColumnTypes
    from hammemo.tokens.orders import Order
    from hammemo.tokens.scales import Scales
    from hammemo.tokens.token_types import TokenTypes


@dataclass(frozen=True, eq=False)
class Columns(Cached):
    """The columns of X, or the positions of a context.

    Parameters
    ----------
    kinds : tuple of ColumnKind
        What each of them holds.
    names : ndarray, optional
        Their names, where X had any.
    types : tuple of ColumnType, optional
        How their values came; None where kinds are not decided by rows.
    token_types : TokenTypes, optional
        Whether columns of names held numbers or strings; None where that is not known, as after
        `load`.
    scales : mapping of int to str or tuple
        The orders of columns of ordered categories (:mod:`hammemo.tokens.orders`), and the
        zones of the columns of dates that have one (:mod:`hammemo.tokens.zones`), by their
        places.
    packed : bool
        Whether rows are one token each (:mod:`hammemo.tokens.packed_rows`); then all columns are
        numbers.
    """

    kinds: ColumnKinds
    names: Array | None = None
    types: ColumnTypes | None = None
    token_types: TokenTypes | None = None
    scales: Scales = field(default_factory=dict)
    packed: bool = False

    @classmethod
    def from_count(cls, n: int, names: Array | None = None) -> Columns:
        """Return n columns of names: what is known before values have shown more."""
        return cls((NAMES,) * n, names)

    # Every single row needs these, and a table may have thousands of columns.

    @cached_property
    def n(self) -> int:
        """How many there are, the paper's h."""
        return len(self.kinds)

    @cached_property
    def has_ordered(self) -> bool:
        """Whether some of them are cut into cells; if not, tokens are counted as they are."""
        return column_kinds.has_ordered(self.kinds)

    @cached_property
    def has_untyped(self) -> bool:
        """Whether some of them have no type of their own yet."""
        return self.types is not None and ColumnType.UNTYPED in self.types

    @property
    def width(self) -> int:
        """How many tokens a row has."""
        return 1 if self.packed else self.n

    def zone_of(self, place: int) -> str | None:
        """Return the zone of a column of dates; None where its times have none."""
        zone = self.scales.get(place)
        return zone if isinstance(zone, str) else None

    def order_of(self, place: int) -> Order:
        """Return the categories of a column from low to high; none where it has no order."""
        order = self.scales.get(place)
        return order if isinstance(order, tuple) else ()

    def list_names(self) -> list[Any] | None:
        """Return the names as a list."""
        return None if self.names is None else list(self.names.tolist())

    def quote_name(self, place: int) -> str:
        """Return a column as errors name it."""
        return repr(place if self.names is None else self.names[place])

    def with_kinds(self, kinds: ColumnKinds) -> Columns:
        """Return columns of these kinds."""
        return replace(self, kinds=kinds)

    def with_types_of(self, other: Columns | Evidence) -> Columns:
        """Return columns whose values came as those of others did: in the same types and scales."""
        return replace(self, types=other.types, scales=other.scales)

    def as_packed(self) -> Columns:
        """Return columns of numbers whose rows are one token each, and whose kinds stay."""
        return replace(self, types=None, packed=True)

    def with_tokens(self, token_types: TokenTypes, *, first: bool) -> Columns:
        """Return columns with the types of the tokens of rows that are learned.

        If these are not the first rows, the types of all rows must be known to say anything.
        """
        if first:
            return replace(self, token_types=token_types)
        if self.token_types is None:
            return self
        types_of_all = self.token_types.plus(token_types)
        if types_of_all is self.token_types:
            return self  # as after most edits: what is cached stays, too
        return replace(self, token_types=types_of_all)
