"""How often each key is held, as a sum of layers that versions share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class LayeredCounts(Generic[Key]):
    """How often each key, such as a row, is held: a sum of layers that never change, so that versions share them.

    An edit appends a layer with what it changes. Neighbours of similar size become one, so there are few layers, and n
    edits cost O(n log n).
    """

    def __init__(self, layers: tuple[Mapping[Key, int], ...] = ()) -> None:
        self._layers = layers

    def __getstate__(self) -> dict[str, Any]:
        return {"_layers": (self.counts(),)}  # a key that was removed is still in two layers: copies do not have it

    def count(self, key: Key) -> int:
        """Return how often a key is held."""
        return sum(layer.get(key, 0) for layer in self._layers)

    def counts(self) -> dict[Key, int]:
        """Return all keys that are held, and how often."""
        return dict(_without_zeros(_sum_of(self._layers)))

    @property
    def n_entries(self) -> int:
        """At least the number of keys that are held."""
        return sum(map(len, self._layers))

    def plus(self, entries: Mapping[Key, int], sign: int = 1) -> LayeredCounts[Key]:
        """Return the counts with these entries added or, with sign -1, removed."""
        layers: list[Mapping[Key, int]] = [*self._layers, {key: sign * n for key, n in entries.items()}]
        while len(layers) > 1 and len(layers[-2]) <= 2 * len(layers[-1]):
            layers[-2:] = [_sum_of(layers[-2:])]
        if len(layers) == 1:
            layers = [_without_zeros(layers[0])]
        return LayeredCounts(tuple(layers))


def _sum_of(layers: Sequence[Mapping[Key, int]]) -> dict[Key, int]:
    total: dict[Key, int] = dict(layers[0]) if layers else {}
    for layer in layers[1:]:
        for key, count in layer.items():
            total[key] = total.get(key, 0) + count
    return total


def _without_zeros(layer: Mapping[Key, int]) -> dict[Key, int]:
    return {key: count for key, count in layer.items() if count}
