"""Examples to try a part on: small, with repetitions, empty positions and tokens of every type.

A batch is a list of rows (context, label, multiplicity), so that a message can show it. Few
distinct tokens and labels make collisions, ties and examples that are stored twice frequent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Row: TypeAlias = tuple[list[Any], str, int]
Batch: TypeAlias = list[Row]

TOKENS: list[Any] = [0, 1, 2, 7, 0.5, "a", "b", "ß", NO_TOKEN]
LABELS = ["no", "yes", "b", "ß"]


def random_batch(rng: np.random.Generator, h: int, least: int = 1, most: int = 12) -> Batch:
    """Return `least` to `most` rows of h tokens each."""
    return [
        (
            [TOKENS[i] for i in rng.integers(len(TOKENS), size=h)],
            LABELS[int(rng.integers(len(LABELS)))],
            int(rng.integers(1, 4)),
        )
        for _ in range(int(rng.integers(least, most + 1)))
    ]


def table(rows: Sequence[Sequence[Any]]) -> NDArray[np.object_]:
    """Return contexts as an array of objects, each token as it is."""
    X = np.empty((len(rows), len(rows[0])), object)
    for i, context in enumerate(rows):
        X[i] = context
    return X


def examples(batch: Batch) -> Examples:
    """Return the rows of a batch as examples."""
    return Examples.of(
        table([row[0] for row in batch]), [row[1] for row in batch], [row[2] for row in batch]
    )


def queries(batch: Batch) -> Contexts:
    """Return the contexts of a batch, to be asked for."""
    return Contexts.of(table([row[0] for row in batch]))


def reorder(batch: Batch, seed: int) -> list[Batch]:
    """Return the same rows in another order, cut into one or two batches that are not empty."""
    rng = np.random.default_rng(seed)
    shuffled = [batch[i] for i in rng.permutation(len(batch))]
    cut = int(rng.integers(len(batch) + 1))
    return [rows for rows in (shuffled[:cut], shuffled[cut:]) if rows]
