"""What a model of numbers is made of, and what its columns are worth."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo.tasks.numbers.answer import answering, contributions
from hammemo.tasks.numbers.sums import NumberRows, NumberState
from hammemo.tokens.columns import ColumnKind

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats


_MOST_ROWS: Final = 4000


@dataclass(frozen=True)
class NumberReport:
    """What was chosen; ``print`` shows it.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import MemoryRegressor
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> print(MemoryRegressor().fit(X, X[:, 0] * X[:, 1]).report())  # doctest: +ELLIPSIS
    400 rows, 2 columns: 2 of numbers
    base: an additive function of the columns with ... coefficients, 1 pair of columns: 0 x 1; weight ...
    trees: 48 of what the base leaves; 48 of what the mean leaves, weight ...
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

    @classmethod
    def of(cls, state: NumberState) -> NumberReport:
        """Return the report of one version of a fitted model."""
        layout, kept = state.layout, state.kept
        names = state.columns.listed() or [str(j) for j in range(state.columns.n)]
        owners = [str(names[owner]) for owner in layout.base.design.owners]
        return cls(
            n_rows=state.n_examples,
            kinds=layout.codes.kinds,
            n_coefficients=layout.base.design.p,
            pairs=tuple((owners[a], owners[b]) for a, b in layout.base.design.pairs.tolist()),
            n_trees=tuple(forest.n_trees for forest in layout.forests),
            blend=tuple(state.vote.blend.tolist()),
            n_kept=None if kept is None else len(kept),
            keeps_all=kept is not None and kept.holds_all,
            is_stale=state.stale,
        )

    def __str__(self) -> str:
        kinds = [f"{self.kinds.count(kind)} of {kind.word}" for kind in ColumnKind if kind in self.kinds]
        pairs = f"{_counted(len(self.pairs), 'pair')} of columns"
        pairs += f": {', '.join(' x '.join(pair) for pair in self.pairs)}" if self.pairs else ""
        of_base, of_mean = self.blend
        lines = [
            f"{_counted(self.n_rows, 'row')}, {_counted(len(self.kinds), 'column')}: {', '.join(kinds)}",
            f"base: an additive function of the columns with {self.n_coefficients:,} coefficients, {pairs}; weight "
            f"{of_base:.2f}",
            f"trees: {self.n_trees[0]} of what the base leaves; {self.n_trees[1]} of what the mean leaves, weight "
            f"{of_mean:.2f}",
        ]
        if self.n_kept is None:
            lines.append("rows: none are kept, so refit() needs them: refit(rows=…)")
        else:
            what = f"{'all' if self.keeps_all else 'some'} are kept in plain text ({self.n_kept:,} distinct ones)"
            lines.append(f"rows: {what}, for refit(); keep=False keeps none")
        if self.is_stale:
            lines.append("stale: rows were forgotten, and what was chosen and fitted may depend on them until refit")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        return f"<pre style='white-space: pre-wrap; max-width: 900px'>{escape(str(self))}</pre>"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def importances(state: NumberState) -> Floats:
    r"""Return the share of each column in R² on kept rows, at most 4,000.

    Let :math:`c_j` be what column j adds to the predictions f of rows with targets y, all of them less their means.
    The squared error of the mean less that of :math:`\sum_j c_j` is the sum over columns of
    :math:`\sum c_j (2 y - f)`, the shares of Aumann and Shapley; divided by :math:`\sum y^2` they add up to about R².
    """
    if state.rows is None or not len(state.rows):
        raise ValueError("feature_importances_ needs kept rows, and the model keeps none: fit with keep=True.")
    kept = state.rows.examples()
    rows = NumberRows.of(state.layout, kept.rows(np.arange(min(len(kept), _MOST_ROWS))), state.seed)
    weights = rows.counts / rows.counts.sum()

    def centred(numbers: Floats) -> Floats:
        return np.asarray(numbers - weights @ numbers)

    added, targets = centred(contributions(state, rows.rows)), centred(rows.whole.astype(np.float64))
    spread = float(weights @ targets**2)
    if spread == 0:
        return np.zeros(added.shape[1])
    return np.asarray((weights * (2 * targets - centred(answering(state).units(rows.rows)))) @ added / spread)
