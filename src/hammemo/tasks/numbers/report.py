"""What a model of numbers is made of, how good it is on rows without them, and what its columns are worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.explain.bar_plot import draw_bars
from hammemo.explain.number_text import show_number
from hammemo.explain.report_text import STALE, ReportText, count_things, describe_kept
from hammemo.tasks.numbers.answer import answering, contributions, remember
from hammemo.tasks.numbers.errors import predict_held_out
from hammemo.tasks.numbers.sums import NumberRows, NumberState, targets_of
from hammemo.tokens.columns import ColumnKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats
    from hammemo.votes.bounds import Bounds


_MOST_ROWS: Final = 4000


@dataclass(frozen=True)
class NumberHeldOut:
    """How good a model of numbers is on kept rows, each predicted without itself.

    Trees that a row did not grow judge it, its own share is taken out of their cells, and the base is solved without
    its fold. Cuts and weights were chosen with all rows, so figures on new rows are a little worse.
    """

    rmse: float
    r2: float | None
    """None where all targets are equal."""
    rows: int
    """How many rows were predicted, copies counted."""
    below_zero: float | None
    """The share of predictions below zero, where no kept target is; None where some target is below zero."""


def measure_held_out(state: NumberState, bounds: Bounds) -> NumberHeldOut | None:
    """Return how good a model is on kept rows without them, within bounds; None where too few rows are kept."""
    held_out = predict_held_out(state)
    if held_out is None or state.rows is None:
        return None
    answers = answering(state)
    counts = held_out.counts
    targets = answers.numbers(held_out.targets.astype(np.float64))
    plain = answers.numbers(held_out.predicted)
    scale = float(np.abs(targets).max()) or 1.0  # squares of large targets would be infinite
    errors = (targets - bounds.clip(plain)) / scale
    mean_square = float(np.average(errors**2, weights=counts))
    centred = targets / scale - np.average(targets / scale, weights=counts)
    variance = float(np.average(centred**2, weights=counts))
    is_positive = bool((targets_of(state.rows.examples()) >= 0).all())
    return NumberHeldOut(
        rmse=scale * mean_square**0.5,
        r2=1 - mean_square / variance if variance else None,
        rows=int(counts.sum()),
        below_zero=float(np.average(plain < 0, weights=counts)) if is_positive else None,
    )


@dataclass(frozen=True)
class NumberReport(ReportText):
    """What was chosen, and how good it is; ``print`` shows it.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import MemoryRegressor
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> print(MemoryRegressor().fit(X, X[:, 0] * X[:, 1]).report())  # doctest: +ELLIPSIS
    400 rows, 2 columns: 2 of numbers
    base: an additive function of the columns with ... coefficients, 1 pair of columns: 0 x 1; weight ...
    trees: 48 of what the base leaves; 48 of what the mean leaves, weight ...
    held out: R² 0.9..., RMSE 0... on ... rows, each predicted without itself
    rows: all are kept in plain text (400 distinct ones), for refit(); keep=False keeps none
    """

    n_rows: int
    kinds: str
    n_coefficients: int
    pairs: tuple[tuple[str, str], ...]
    """The pairs of columns of the base, by name."""
    n_trees: tuple[int, ...]
    """Of what the base leaves, and of what the mean leaves."""
    blend: tuple[float, ...]
    """The weights of these two parts."""
    n_kept: int | None
    """Distinct rows that are kept; None where none is."""
    keeps_all: bool
    is_stale: bool
    """Whether rows were forgotten since everything was chosen."""
    held_out: NumberHeldOut | None = None
    bounds: tuple[float | None, float | None] | None = None
    state: Any = field(default=None, repr=False, compare=False)
    """The version of the model that this is about; `plot` asks it."""

    @classmethod
    def of(cls, state: NumberState, bounds: Bounds) -> NumberReport:
        """Return the report of one version of a fitted model."""
        layout, kept = state.layout, state.kept
        names = _name_columns(state)
        if layout.narrowing is not None:
            names = layout.narrowing.narrow_names(state.columns.listed())
        owners = [str(names[owner]) for owner in layout.base.design.owners]
        return cls(
            n_rows=state.n_examples,
            kinds=layout.table_kinds,
            n_coefficients=layout.base.design.p,
            pairs=tuple((owners[a], owners[b]) for a, b in layout.base.design.pairs.tolist()),
            n_trees=tuple(forest.n_trees for forest in layout.forests),
            blend=tuple(state.vote.blend.tolist()),
            n_kept=None if kept is None else len(kept),
            keeps_all=kept is not None and kept.holds_all,
            is_stale=state.stale,
            held_out=None if state.holds_nothing else measure_held_out(state, bounds),
            bounds=bounds.parameter,
            state=state,
        )

    def __str__(self) -> str:
        kinds = [
            f"{self.kinds.count(kind)} of {kind.word}" for kind in ColumnKind if kind in self.kinds
        ]
        pairs = f"{count_things(len(self.pairs), 'pair')} of columns"
        pairs += f": {', '.join(' x '.join(pair) for pair in self.pairs)}" if self.pairs else ""
        of_base, of_mean = self.blend
        lines = [
            f"{count_things(self.n_rows, 'row')}, {count_things(len(self.kinds), 'column')}: {', '.join(kinds)}",
            f"base: an additive function of the columns with {self.n_coefficients:,} coefficients, {pairs}; weight "
            f"{of_base:.2f}",
            f"trees: {self.n_trees[0]} of what the base leaves; {self.n_trees[1]} of what the mean leaves, weight "
            f"{of_mean:.2f}",
            *self._describe_held_out(),
            describe_kept(self.n_kept, keeps_all=self.keeps_all),
        ]
        if self.is_stale:
            lines.append(STALE)
        return "\n".join(lines)

    def _describe_held_out(self) -> list[str]:
        """Return how good the model is on rows without them, and what bounds would mend."""
        found = self.held_out
        if found is None:
            return [
                "held out: not measured, because too few rows are kept; hammemo evaluate does it"
            ]
        figures = f"RMSE {show_number(found.rmse)} on {count_things(found.rows, 'row')}, each predicted without itself"
        figures = figures if found.r2 is None else f"R² {found.r2:.3f}, {figures}"
        lines = [f"held out: {figures}"]
        if self.bounds is not None:
            low, high = self.bounds
            lines.append(f"bounds: answers lie within ({low}, {high})")
        elif found.below_zero:
            lines.append(
                f"bounds: none; all targets are >= 0, and {found.below_zero:.0%} of held-out predictions are below: "
                "bounds=(0, None)"
            )
        return lines

    def plot(self, ax: Axes | None = None, most: int = 20) -> Axes:
        """Draw the shares of the most important columns in R², on the axes or on those of a new figure; return them."""
        worths = importances(self.state)
        names = _name_columns(self.state)
        order = np.argsort(-worths, kind="stable")[:most]
        title = f"R² of kept rows by column; they add up to {worths.sum():.3f}"
        shown = [names[j] for j in order.tolist()]
        return draw_bars(ax, shown, worths[order], what="share of the column in R²", title=title)


def _name_columns(state: NumberState) -> list[str]:
    """Return the names of columns, or their places."""
    return [str(name) for name in state.columns.listed() or range(state.columns.n)]


def importances(state: NumberState) -> Floats:
    r"""Return the share of each column in R² on kept rows, at most 4,000; a state computes it once.

    Let :math:`c_j` be what column j adds to the predictions f of rows with targets y, all of them less their means.
    The squared error of the mean less that of :math:`\sum_j c_j` is the sum over columns of
    :math:`\sum c_j (2 y - f)`, the shares of Aumann and Shapley; divided by :math:`\sum y^2` they add up to about R².
    """
    return remember(state, "_importances", _share_r2).copy()


def _share_r2(state: NumberState) -> Floats:
    if state.rows is None or not len(state.rows):
        raise ValueError(
            "feature_importances_ needs kept rows, and the model keeps none: fit with keep=True."
        )
    kept = state.rows.examples()
    rows = NumberRows.of(state.layout, kept.rows(np.arange(min(len(kept), _MOST_ROWS))), state.seed)
    weights = rows.counts / rows.counts.sum()

    def centred(numbers: Floats) -> Floats:
        return np.asarray(numbers - weights @ numbers)

    added, targets = (
        centred(contributions(state, rows.rows)),
        centred(rows.whole.astype(np.float64)),
    )
    spread = float(weights @ targets**2)
    if spread == 0:
        return np.zeros(state.columns.n)
    shares = np.asarray(
        (weights * (2 * targets - centred(answering(state).units(rows.rows)))) @ added / spread
    )
    narrowing = state.layout.narrowing
    return shares if narrowing is None else narrowing.spread_total(shares)
