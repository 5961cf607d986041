"""Ordered categories: a column whose values are one of a list of categories, from low to high.

A category is the token of its place in the order, 0 for the lowest. So cuts, trees and the additive
base see a number, and everything that a user reads or writes sees the category.

What is learned first declares the order of a column: a category with an order of pandas or Arrow,
an Enum of polars, or the parameter `ordered`. The order stays when rows are forgotten. Other values
of the column, such as strings of a list or of a CSV file, are then looked up in it.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo.tokens.missing import MISSING, fill_tokens, is_missing
from hammemo.tokens.vocabulary import NO_TOKEN, as_token

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hammemo._arrays.types import Array, Floats
    from hammemo.tokens.vocabulary import Token

Order: TypeAlias = tuple["Token", ...]
"""The categories of a column, from low to high."""

NO_ORDERS: Final[Mapping[int, Order]] = MappingProxyType({})

MOST_CATEGORIES: Final = 2**16
"""Categories of a column. Model files hold all of them in their header, which is read as a whole,
and every frame of pandas brings all of them: more belong in a column of numbers.
"""


class PlacedCategories(np.ndarray):
    """A column of places in an order, floats, NaN where a value is missing.

    Parameters
    ----------
    order : tuple
        The categories that the places stand for.
    """

    order: Order

    @classmethod
    def from_codes(cls, codes: Array, categories: Iterable[Any], where: str) -> PlacedCategories:
        """Return a column of codes as frames have them, -1 or NaN where a value is missing."""
        places = np.asarray(codes, np.float64)
        column = np.where(places < 0, np.nan, places).view(cls)
        column.order = check_order(categories, where)
        return column

    def __array_finalize__(self, other: Any) -> None:
        self.order = getattr(other, "order", ())

    def as_values(self) -> Array:
        """Return the categories themselves, None where a value is missing."""
        return values_at(np.asarray(self), self.order)


def check_order(categories: Iterable[Any], where: str) -> Order:
    """Return the categories of a column as an order, or refuse them.

    Examples
    --------
    >>> from hammemo.tokens.orders import check_order
    >>> check_order(["S", "M", "L"], "Column 'size'")
    ('S', 'M', 'L')
    """
    if isinstance(categories, (str, bytes, Mapping)):
        raise TypeError(
            f"{where}: its order is a list of categories from low to high, not {categories!r}."
        )
    listed = list(categories)
    for category in listed:
        if is_missing(category):
            raise ValueError(
                f"{where}: {category} cannot be a category, it stands for a missing value."
            )
    order = tuple(as_token(category) for category in fill_tokens(listed, "refuse"))
    if not order:
        raise ValueError(f"{where}: its order has no category.")
    if len(order) > MOST_CATEGORIES:
        raise ValueError(
            f"{where} has {len(order):,} ordered categories, "
            f"and {MOST_CATEGORIES:,} are the most: pass their codes, as numbers."
        )
    if len(set(order)) < len(order):
        raise ValueError(f"{where}: its order has a category twice: {describe_order(order)}.")
    return order


def find_places(column: Array, order: Order, where: str, *, learning: bool) -> Floats:
    """Return the place of each value in the order of its column, NaN for what is missing.

    A value that is no category is refused in what is learned, and missing in a question. A column
    of a frame whose order has two of the categories the other way round is always refused.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.orders import find_places
    >>> find_places(np.array(["L", None, "S"], object), ("S", "M", "L"), "Column 0", learning=True)
    array([ 2., nan,  0.])
    """
    if isinstance(column, PlacedCategories):
        if column.order == order:
            return np.asarray(column)
        check_same_direction(column.order, order, where)
        column = column.as_values()
    place_of = _map_to_places(order)
    values = column.tolist()
    tokens = fill_tokens(values, "token")
    places = np.array([place_of.get(_as_key(token), np.nan) for token in tokens], np.float64)
    if learning:
        for i in np.flatnonzero(np.isnan(places)).tolist():
            value = values[i]
            if not _stands_for_none(value):
                raise ValueError(
                    f"{where} holds ordered categories, "
                    f"and {reprlib.repr(value)} is none of {describe_order(order)}. "
                    "Correct the value, or fit a new model with an order that has it."
                )
    return places


def values_at(places: Iterable[Any], order: Order) -> Array:
    """Return the categories at some places of an order, None for NaN.

    Examples
    --------
    >>> from hammemo.tokens.orders import values_at
    >>> values_at([2, float("nan")], ("S", "M", "L")).tolist()
    ['L', None]
    """
    return object_array(None if place != place else order[int(place)] for place in places)


def describe_order(order: Order) -> str:
    """Return an order as messages show it: a long one by its ends.

    Examples
    --------
    >>> from hammemo.tokens.orders import describe_order
    >>> describe_order(("S", "M", "L")), describe_order(tuple(range(9)))
    ("'S' < 'M' < 'L'", '0 < 1 < 2 < … < 8')
    """
    if len(order) <= 6:
        return " < ".join(map(repr, order))
    return " < ".join([*map(repr, order[:3]), "…", repr(order[-1])])


@lru_cache(maxsize=32)  # single rows are looked up one by one, and making it is slow
def _map_to_places(order: Order) -> Mapping[Any, float]:
    """Return the place of each category, and of each text that stands for one in a file."""
    place_of: dict[Any, float] = {}
    for place, category in enumerate(order):
        place_of.update(dict.fromkeys(_texts_of(category), float(place)))
    # the string "1", where it is a category, wins over the text of the category 1
    place_of.update({category: float(place) for place, category in enumerate(order)})
    return place_of


def _texts_of(category: Token) -> list[str]:
    """Return how text files write a category, which have no other way to write numbers.

    A whole number among fractions, whose token is an integer, has a point there: "1.0".
    """
    if isinstance(category, int) and float(category) == category:
        return [str(category), str(float(category))]
    return [str(category)]


def check_same_direction(frame_order: Order, order: Order, where: str) -> None:
    """Refuse an order of a frame that has two categories the other way round than the model."""
    place_of = {category: place for place, category in enumerate(order)}
    shared = [category for category in frame_order if category in place_of]
    for low, high in pairwise(shared):
        if place_of[low] > place_of[high]:
            raise ValueError(
                f"{where} was learned in the order {describe_order(order)}, and here {low!r} "
                f"comes before {high!r}: give the column the order that was learned."
            )


def _as_key(token: Any) -> Any:
    """Return a value as orders have it; what cannot be a token equals no category."""
    try:
        return as_token(token)
    except (TypeError, ValueError):
        return None


def _stands_for_none(value: Any) -> bool:
    return is_missing(value) or (type(value) in (int, str) and value in (NO_TOKEN, MISSING))
