"""Scales: what reading a column takes beside its kind.

Times that have a zone are read by the clock there (:mod:`hammemo.tokens.zones`), and ordered
categories by their places in the order (:mod:`hammemo.tokens.orders`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from hammemo.tokens.orders import Order

Scale: TypeAlias = "str | Order"
"""The name of the zone of times, or the order of categories."""

Scales: TypeAlias = Mapping[int, Scale]
"""The scales of the columns that have one, by their places."""

NO_SCALES: Final[Scales] = MappingProxyType({})
