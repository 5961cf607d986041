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
    """Return the categories of a column as an order, which has tokens, or refuse them.

    `where` names the column in messages. Booleans become 0 and 1, and intervals of pandas their
    names.

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
    values = list(categories)
    for value in values:
        if is_missing(value):
            raise ValueError(
                f"{where}: {value} cannot be a category, it stands for a missing value."
            )
    named_values = fill_tokens(values, "refuse")
    order = tuple(as_token(value) for value in named_values)
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

    A value that is no category is refused where it is learned, and is missing in a question. A
    column of a frame may have an order of its own: it is refused if two of the categories are the
    other way round there.

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
        values_without_place = [values[row] for row in np.flatnonzero(np.isnan(places)).tolist()]
        _refuse_other_values(values_without_place, order, where)
    return places


def _refuse_other_values(values: list[Any], order: Order, where: str) -> None:
    """Refuse the first value that is not missing: it is none of the categories."""
    for value in values:
        if not _is_empty(value):
            raise ValueError(
                f"{where} holds ordered categories, "
                f"and {reprlib.repr(value)} is none of {describe_order(order)}. "
                "Correct the value, or fit a new model with an order that has it."
            )


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
    may_be_booleans = set(order) <= {0, 1}
    place_of: dict[Any, float] = {}
    for place, category in enumerate(order):
        texts = _list_texts(category)
        if may_be_booleans:
            texts += _BOOLEAN_TEXTS[int(category)]
        for text in texts:
            place_of[text] = float(place)
    # The string "1", where it is a category, wins over the text of the category 1. So these come
    # last.
    for place, category in enumerate(order):
        place_of[category] = float(place)
    return place_of


_BOOLEAN_TEXTS: Final = (["False", "false"], ["True", "true"])
"""How text files write booleans, whose tokens are 0 and 1: pandas the first way, Arrow the second.

An order does not say whether its categories were booleans. With any other category they were not.
"""


def _list_texts(category: Token) -> list[str]:
    """Return how text files, which hold nothing but texts, write a category.

    A whole number in a column of fractions is an integer here, and is written with a point there:
    "1.0". (Integers that no float equals come from no such column.)
    """
    texts = [str(category)]
    if isinstance(category, int) and float(category) == category:
        texts.append(str(float(category)))
    return texts


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


def _is_empty(value: Any) -> bool:
    """Return whether a value is missing, or is what takes the place of missing values.

    Rows that were read before have `MISSING` there, or `NO_TOKEN`.
    """
    if is_missing(value):
        return True
    # The types are compared first: arrays and other objects may not compare with a text.
    return type(value) in (int, str) and value in (NO_TOKEN, MISSING)
