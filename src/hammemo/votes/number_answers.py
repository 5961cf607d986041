"""What a model of numbers answers, from two parts, each with trees.

The first part is an additive base with trees of what it leaves; the second is a mean with trees of
what that leaves.

Cells of trees hold what the frozen base, or the frozen mean, left of targets. The live base and the
live mean are those of all rows that the memory holds now. Where trees are trusted, the frozen one
takes the place of the live one: otherwise a shift of all targets would count twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._versions import Cached, cached_property
from hammemo.features.additive.additive_base import score_rows
from hammemo.features.cells.number_trees import make_leaf_sums

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints
    from hammemo.features.additive.design import AdditiveDesign
    from hammemo.features.cells.column_codes import ColumnCodes
    from hammemo.features.cells.error_sizes import ErrorSizes
    from hammemo.features.cells.forest import Forest
    from hammemo.features.wide.narrowing import Narrowing
    from hammemo.tokens.contexts import Contexts


class SeenRows:
    """Rows as base and trees see them.

    Shapes
    ------
    values : (m, ordered columns); codes : (m, columns)
    """

    def __init__(
        self, codes: ColumnCodes, contexts: Contexts, wide: Contexts | None = None
    ) -> None:
        self.wide = wide
        """The rows of a wide table that these were made of; None for others, and for what needs no
        columns."""
        self.codes = codes.rows(contexts)
        self.values, self.names = codes.plain(self.codes)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class NumberAnswers(Cached):
    """All that an answer depends on; nothing in it can be edited.

    Parameters
    ----------
    codes : ColumnCodes
        How rows become bytes.
    center, exponent : float, int
        A target y is (y - center) 2^exponent units.
    design : AdditiveDesign
    coefficients : ndarray of int64, shape (p, 2)
        Of the live and of the frozen base.
    means : tuple of float
        The live and the frozen mean of the targets, in units.
    forests : tuple of Forest
        Trees of what the base leaves, and of what the mean leaves.
    leaves : tuple of ndarray of float64, shape (nodes, 2)
        What each node says, and how far it is trusted.
    blend : ndarray of float64, shape (2,)
        The weights of the base and of the mean, with their trees.
    errors : ErrorSizes, optional
        None for a model without rows.
    narrowing : Narrowing, optional
        How the rows of a wide table become those that all else is of.
    """

    codes: ColumnCodes
    center: float
    exponent: int
    design: AdditiveDesign
    coefficients: Ints
    means: tuple[float, float]
    forests: tuple[Forest, ...]
    leaves: tuple[Floats, ...]
    blend: Floats
    errors: ErrorSizes | None
    narrowing: Narrowing | None = None

    def see_rows(self, contexts: Contexts) -> SeenRows:
        """Return the rows of a question as base and trees see them."""
        if self.narrowing is not None:
            contexts = self.narrowing.ask(contexts)
        return SeenRows(self.codes, contexts)

    @cached_property
    def leaf_sums(self) -> list[Callable[[NDArray[np.uint8]], Floats]]:
        """For each forest, what gives the sum and the trust of rows."""
        return list(map(make_leaf_sums, self.forests, self.leaves))

    def sum_trees(self, part: int, codes: NDArray[np.uint8]) -> tuple[Floats, Floats]:
        """Return what the trees of a part add to rows, and the trust in them: from 0 to 1."""
        sums, trust = self.leaf_sums[part](codes).T
        return sums, np.clip(trust, 0.0, 1.0)

    def predict_units(self, rows: SeenRows) -> Floats:
        r"""Return what is expected of rows, in units.

        With the live base :math:`b`, the frozen base :math:`f`, the trust :math:`t` in trees and
        their sum :math:`s`, a part says :math:`b + t (f - b) + s`; likewise with means. Parts are
        added as deviations from the frozen mean, by the weights of the blend.
        """
        base_scores = score_rows(
            self.design.encode_rows(rows.values, rows.names), self.coefficients
        )
        frozen_mean = self.means[1]
        expected = np.full(len(rows), frozen_mean)
        live_and_frozen: tuple[Any, Any] = base_scores.T, self.means
        for part, weight in enumerate(self.blend.tolist()):
            live, frozen = live_and_frozen[part]
            sums, trust = self.sum_trees(part, rows.codes)
            expected += weight * (live + trust * (frozen - live) + sums - frozen_mean)
        return expected

    def convert_units(self, units: Floats) -> Floats:
        """Return what so many units are, as a target."""
        return np.asarray(self.center + np.ldexp(units, -self.exponent))

    def predict(self, rows: SeenRows) -> Floats:
        """Return the expected target of each row."""
        return self.convert_units(self.predict_units(rows))

    def predict_quantiles(self, levels: Floats, rows: SeenRows) -> Floats:
        """Return quantiles of the target of each row: (m, levels)."""
        assert self.errors is not None
        deviations = self.errors.sizes(rows.codes)[:, None] * self.errors.quantiles(levels)
        return self.convert_units(self.predict_units(rows)[:, None] + deviations)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "leaf_sums"}
