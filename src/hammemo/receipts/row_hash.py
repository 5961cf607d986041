"""A keyed hash of the rows that a request asks to forget.

With it a request id that is used again is compared with what it stood for before: the same rows
are a repeat, other rows are another request. The hash is a sum of keyed hashes, one for each
row, modulo 2^256, hashed once more with the key, the request id and the number of rows. So it
does not depend on the order of the rows or on how they are batched, and equal rows in two
requests have unequal hashes. Without the key a guess cannot be tested; the holder of the key
can.

Rows are hashed as they are given. Numbers that are equal are the same value, whatever their
type; missing values are all the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.receipts.strict_json import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hammemo.receipts.keys import Keys
    from hammemo.tokens.contexts import Examples

_MODULUS: Final = 2**256


@dataclass(frozen=True)
class RowHash:
    """The keyed hash of a multiset of rows: a value that never changes.

    Parameters
    ----------
    keys : Keys
    rows : int
        How many rows there are.
    total : int
        The sum of their hashes.

    Examples
    --------
    >>> from hammemo.receipts import Keys
    >>> from hammemo.receipts.row_hash import RowHash
    >>> empty = RowHash(Keys.new())
    >>> found = empty.plus([["a", 1, "yes"], ["b", 2, "no"]]).of_request("2026-17")
    >>> found == empty.plus([["b", 2.0, "no"]]).plus([["a", 1, "yes"]]).of_request("2026-17")
    True
    >>> found == empty.plus([["a", 1, "yes"], ["b", 2, "no"]]).of_request("2026-18")
    False
    """

    keys: Keys = field(repr=False)
    rows: int = 0
    total: int = field(default=0, repr=False)

    def plus(self, rows: Iterable[Iterable[Any]], times: Iterable[int] | None = None) -> RowHash:
        """Return it with more rows, each a list of values with the label last, or a document."""
        n = self.rows
        total = self.total
        counts = None if times is None else iter(times)
        for row in rows:
            count = 1 if counts is None else next(counts)
            n += count
            total += count * int(
                self.keys.hash_with_key(
                    canonical([_plain(value) for value in row]), b"forgotten row"
                ),
                16,
            )
        return replace(self, rows=n, total=total % _MODULUS)

    def plus_examples(self, examples: Examples) -> RowHash:
        """Return it with the rows of examples."""
        tokens = [*examples.contexts.vocabulary.tolist(), None]
        labels = examples.labels.tolist()
        pairs = zip(examples.contexts.ranks.tolist(), examples.label_ranks.tolist(), strict=True)
        # -1 is the last one
        rows = ([*(tokens[rank] for rank in ranks), labels[label]] for ranks, label in pairs)
        return self.plus(rows, examples.multiplicity.tolist())

    def of_request(self, request: str) -> str:
        """Return the hash for a request, in hexadecimal digits."""
        return self.keys.hash_with_key(
            canonical([request, self.rows, f"{self.total:064x}"]), b"forgotten rows"
        )


def _plain(value: Any) -> Any:
    """Return a value as JSON; equal numbers are equal, and a missing value is null."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return None if math.isnan(value) else repr(value)
    return int(value) if value.is_integer() else value
