"""Why a row got its number: what each column of the table added to the prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.explain.explanation_plot import draw
from hammemo.explain.explanations import Explanation
from hammemo.tokens.missing import is_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats

PREDICTION = "prediction"


@dataclass(frozen=True, eq=False)
class NumberExplanation(Explanation):
    """What each column added to a predicted number; what `MemoryRegressor.explain` returns.

    An `Explanation` with one label, "prediction". `scores[0]` is the prediction.

    Parameters
    ----------
    interval : tuple of two floats
        Between these, 80 % of such targets lie.
    """

    interval: tuple[float, float] = (-np.inf, np.inf)

    @classmethod
    def of(
        cls,
        values: Sequence[Any],
        names: Sequence[str] | None,
        contributions: Floats,
        base: float,
        interval: tuple[float, float],
    ) -> NumberExplanation:
        """Return the explanation of one row by what each column adds, in the unit of the target."""
        added = contributions[:, None]
        return cls(
            tokens=tuple(map(_plain, values)),
            seen=(None,) * len(values),
            sites=tuple((j,) for j in range(len(values))),
            labels=(PREDICTION,),
            scores=np.array([base + added.sum()]),
            base=np.array([base]),
            contributions=added,
            low=added,
            high=added,
            errors=None,
            score_errors=None,
            margin=None,
            certified=None,
            names=tuple(names) if names is not None else tuple(f"column {j}" for j in range(len(values))),
            interval=interval,
        )

    def verdict(self) -> str:
        """Return one sentence: the prediction and the interval."""
        low, high = self.interval
        return f"The prediction is {self.scores[0]:,.4g}; 80 % of such targets lie between {low:,.4g} and {high:,.4g}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings, ready for JSON."""
        return {
            PREDICTION: float(self.scores[0]),
            "interval": list(self.interval),
            "base": float(self.base[0]),
            "columns": [
                {"name": name, "value": value, "contribution": float(added)}
                for name, value, added in zip(self.names or (), self.tokens, self.contributions[:, 0], strict=True)
            ],
        }

    def plot(self, ax: Axes | None = None, label: Any = None) -> Axes:  # noqa: ARG002
        """Draw a waterfall from the base to the prediction; return the axes. It needs the ``plot`` extra."""
        names = [self.site_name(k) for k in range(len(self.sites))]
        bars = float(self.base[0]), names, self.contributions[:, 0], (PREDICTION, float(self.scores[0]))
        axes = draw(ax, self.verdict(), *bars, ("80 % interval", *self.interval))
        axes.set_xlabel(PREDICTION)
        return axes

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        rows = super()._cells()[1]
        first = [["base", *rows[0][1:]]] if rows[0][0] == "prior" else []
        return ["", "adds"], [*first, *rows[len(first) : -1], [PREDICTION, *rows[-1][1:]]]


def _plain(value: Any) -> Any:
    """Return a value of a row as JSON has it: a missing one is None, a date is a text."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        return None
    return value if isinstance(value, (bool, int, float, str)) else str(value)
