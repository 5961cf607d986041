r"""A variant of any learner: people click again what they clicked before.

The scores are divided by their sum and mixed with a copy term: :math:`(1 - w) S_c / \sum S + w /
d_c`, the second part divided by its own sum, where :math:`d_c` is the distance of item c from the
end of the prefix. w is chosen on validation, the other settings stay those that were chosen without
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from .data import Session
    from .learner import Learner

WEIGHTS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)


def copying(base: type[Learner], settings: Mapping[str, Any]) -> type[Learner]:
    """Return a learner like `base`, with these settings and a copy term."""

    class Copying(base):  # type: ignore[valid-type, misc]
        name = f"{base.name} + copy"
        kinds = ("clicks",)  # who has bought an item is not asked about it again
        choices = tuple({**settings, "copy": weight} for weight in WEIGHTS)

        def scores(self, prefixes: Sequence[Session]) -> NDArray[np.float64]:
            """Return a mixture of two shares."""
            weight: float = self.settings["copy"]
            mixed: NDArray[np.float64] = super().scores(prefixes)
            sums = mixed.sum(axis=1, keepdims=True)
            mixed *= (1 - weight) / np.where(sums > 0, sums, 1)
            for row, prefix in zip(mixed, prefixes, strict=True):
                distances = {item: len(prefix) - place for place, item in enumerate(prefix)}
                shares = 1 / np.array(list(distances.values()))
                row[list(distances)] += weight * shares / shares.sum()
            return mixed

    return Copying
