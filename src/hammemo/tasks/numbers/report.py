"""What a model of numbers is made of, how good it is, and what its columns are worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.explain.bar_plot import draw_bars
from hammemo.explain.number_text import show_number
from hammemo.explain.report_text import STALE, ReportText, count_things, describe_kept
from hammemo.tasks.numbers.answer import compute_contributions, get_answers, remember
from hammemo.tasks.numbers.errors import predict_held_out
from hammemo.tasks.numbers.layout import extract_targets
from hammemo.tasks.numbers.memory import NumberRows
from hammemo.tokens.column_kinds import ColumnKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.votes.bounds import Bounds

_MOST_ROWS: Final = 4000
"""Kept rows by which importances are computed, at most: those with the lowest hashes."""


@dataclass(frozen=True)
class NumberHeldOut:
    """How good a model of numbers is on kept rows, each predicted without itself.

    Trees that a row did not grow judge it, its own share is taken out of their cells, and the base
    is solved without its fold. Cuts and weights were chosen with all rows, so figures on new rows
    are a little worse.
    """

    rmse: float
    r2: float | None
    """None where all targets are equal."""
    rows: int
    """How many rows were predicted, copies counted."""
    below_zero: float | None
    """The share of predictions below zero.

    It is known where no kept target is below zero, and None elsewhere.
    """


def measure_held_out(state: NumberState, bounds: Bounds) -> NumberHeldOut | None:
    """Return how good a model is on kept rows without them; None where too few are kept.

    Predictions are clipped to the bounds, as answers are.
    """
    held_out = predict_held_out(state)
    if held_out is None or state.rows is None:
        return None
    answers = get_answers(state)
    counts = held_out.counts
    targets = answers.convert_units(held_out.targets.astype(np.float64))
    predicted = answers.convert_units(held_out.predicted)
    scale = float(np.abs(targets).max()) or 1.0  # squares of large targets would be infinite
    errors = (targets - bounds.clip(predicted)) / scale
    mean_square = float(np.average(errors**2, weights=counts))
    centred = targets / scale - np.average(targets / scale, weights=counts)
    variance = float(np.average(centred**2, weights=counts))
    r2 = None
    if variance:
        r2 = 1 - mean_square / variance
    below_zero = None
    if (extract_targets(state.rows.examples()) >= 0).all():
        below_zero = float(np.average(predicted < 0, weights=counts))
    return NumberHeldOut(
        rmse=scale * mean_square**0.5, r2=r2, rows=int(counts.sum()), below_zero=below_zero
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
    base: an additive function of the columns with ... coefficients, 1 pair of columns: 0 x 1; ...
    trees: 48 of what the base leaves; 48 of what the mean leaves, weight ...
    held out: R² 0.9..., RMSE 0... on ... rows, each predicted without itself
    rows: all are kept in plain text (400 distinct ones), for refit(); keep=False keeps none
    """

    n_rows: int
    kinds: ColumnKinds
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
    def from_state(cls, state: NumberState, bounds: Bounds) -> NumberReport:
        """Return the report of one version of a fitted model."""
        layout = state.layout
        kept_rows = state.kept
        names = _name_columns(state)
        if layout.narrowing is not None:
            names = layout.narrowing.narrow_names(state.columns.list_names())
        design = layout.base.design
        owners = [str(names[owner]) for owner in design.owners]
        held_out = None
        if not state.holds_nothing:
            held_out = measure_held_out(state, bounds)
        return cls(
            n_rows=state.n_examples,
            kinds=layout.table_kinds,
            n_coefficients=design.p,
            pairs=tuple((owners[left], owners[right]) for left, right in design.pairs.tolist()),
            n_trees=tuple(forest.n_trees for forest in layout.forests),
            blend=tuple(state.vote.blend.tolist()),
            n_kept=None if kept_rows is None else len(kept_rows),
            keeps_all=kept_rows is not None and kept_rows.holds_all,
            is_stale=state.stale,
            held_out=held_out,
            bounds=bounds.parameter,
            state=state,
        )

    def __str__(self) -> str:
        kind_counts = [
            f"{self.kinds.count(kind)} of {kind.word}" for kind in ColumnKind if kind in self.kinds
        ]
        pairs = f"{count_things(len(self.pairs), 'pair')} of columns"
        if self.pairs:
            pairs += f": {', '.join(' x '.join(pair) for pair in self.pairs)}"
        base_weight, mean_weight = self.blend
        base_trees, mean_trees = self.n_trees
        lines = [
            f"{count_things(self.n_rows, 'row')}, {count_things(len(self.kinds), 'column')}: "
            f"{', '.join(kind_counts)}",
            f"base: an additive function of the columns with {self.n_coefficients:,} "
            f"coefficients, {pairs}; weight {base_weight:.2f}",
            f"trees: {base_trees} of what the base leaves; "
            f"{mean_trees} of what the mean leaves, weight {mean_weight:.2f}",
            *self._describe_held_out(),
            describe_kept(self.n_kept, keeps_all=self.keeps_all),
        ]
        if self.is_stale:
            lines.append(STALE)
        return "\n".join(lines)

    def _describe_held_out(self) -> list[str]:
        """Return how good the model is on rows without them, and what bounds would mend."""
        held_out = self.held_out
        if held_out is None:
            return [
                "held out: not measured, because too few rows are kept; hammemo evaluate does it"
            ]
        rows = count_things(held_out.rows, "row")
        figures = f"RMSE {show_number(held_out.rmse)} on {rows}, each predicted without itself"
        if held_out.r2 is not None:
            figures = f"R² {held_out.r2:.3f}, {figures}"
        lines = [f"held out: {figures}"]
        if self.bounds is not None:
            low, high = self.bounds
            lines.append(f"bounds: answers lie within ({low}, {high})")
        elif held_out.below_zero:
            lines.append(
                f"bounds: none; all targets are >= 0, and {held_out.below_zero:.0%} of held-out "
                "predictions are below: bounds=(0, None)"
            )
        return lines

    def plot(self, ax: Axes | None = None, most: int = 20) -> Axes:
        """Draw the shares of the most important columns in R²; return the axes.

        They are drawn on the axes given, or on those of a new figure.
        """
        importances = compute_importances(self.state)
        names = _name_columns(self.state)
        order = np.argsort(-importances, kind="stable")[:most]
        return draw_bars(
            ax,
            [names[column] for column in order.tolist()],
            importances[order],
            what="share of the column in R²",
            title=f"R² of kept rows by column; they add up to {importances.sum():.3f}",
        )


def _name_columns(state: NumberState) -> list[str]:
    """Return the names of columns, or their places."""
    return [str(name) for name in state.columns.list_names() or range(state.columns.n)]


def compute_importances(state: NumberState) -> Floats:
    r"""Return the share of each column in R² on kept rows, at most 4,000; a state computes it once.

    Let :math:`c_j` be what column j adds to the predictions f of rows with targets y, all of them
    less their means. The squared error of the mean less that of :math:`\sum_j c_j` is the sum over
    columns of :math:`\sum c_j (2 y - f)`, the shares of Aumann and Shapley; divided by
    :math:`\sum y^2` they add up to about R².
    """
    return remember(state, "_importances", _share_r2).copy()


def _share_r2(state: NumberState) -> Floats:
    if state.rows is None or not len(state.rows):
        raise ValueError(
            "feature_importances_ needs kept rows, and the model keeps none: fit with keep=True."
        )
    kept_rows = state.rows.examples()
    first = np.arange(min(len(kept_rows), _MOST_ROWS))
    rows = NumberRows.from_examples(state.layout, kept_rows.rows(first), state.seed)
    weights = rows.counts / rows.counts.sum()

    def center(numbers: Floats) -> Floats:
        return np.asarray(numbers - weights @ numbers)

    added = center(compute_contributions(state, rows.inputs))
    targets = center(rows.targets.astype(np.float64))
    predicted = center(get_answers(state).predict_units(rows.inputs))
    variance = float(weights @ targets**2)
    if variance == 0:
        return np.zeros(state.columns.n)
    shares = np.asarray((weights * (2 * targets - predicted)) @ added / variance)
    narrowing = state.layout.narrowing
    if narrowing is None:
        return shares
    return narrowing.spread_total(shares)
