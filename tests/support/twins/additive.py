"""Sums and fits of additive functions: the twins of ``src/native/parts``, under the same names.

Arrays named `out`, `gram`, `products` and `phi` are written to. Results are those of the compiled
code up to rounding; whole numbers are equal. A fit goes to the same minimum by SciPy's L-BFGS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import minimize

from hammemo.features.additive.levels import HAT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo.features.additive.label_base import BaseAnswers
    from hammemo.features.additive.levels import Levels
    from hammemo.features.additive.step_tables import StepTables


@dataclass(frozen=True, eq=False)
class AdditiveModes:
    """A change of coordinates."""

    matrix: Floats
    """Shape (p, q)."""

    @classmethod
    def of(cls, rows: Ints, columns: Ints, flat: Floats) -> AdditiveModes:
        """Return the change of coordinates with these blocks."""
        blocks = []
        start = 0
        for n_rows, n_columns in zip(
            np.diff(rows).tolist(), np.diff(columns).tolist(), strict=True
        ):
            stop = start + n_rows * n_columns
            blocks.append(flat[start:stop].reshape(n_rows, n_columns))
            start = stop
        return cls(block_diag(*blocks))

    def apply(self, phi: Floats, out: Floats) -> None:
        """Write the coordinates of rows, (p, outputs), for those of the fit, (outputs, q)."""
        out[:] = (self.matrix @ phi.T).ravel()

    def apply_turned(self, sums: Floats, out: Floats) -> None:
        """Write sums over the coordinates of rows, (p,), as sums over those of the fit, (q,)."""
        out[:] = self.matrix.T @ sums

    def turn(self, upper: Floats, out: Floats) -> None:
        """Write the matrix with this upper half, (p, p), in the coordinates of the fit: (q, q)."""
        out[:] = (self.matrix.T @ _mirror(upper) @ self.matrix).ravel()


@dataclass(frozen=True, eq=False)
class AdditiveRows:
    """Rows in the coordinates of an additive function."""

    matrix: Ints
    """In 1/1024: shape (n, p)."""

    @classmethod
    def of(
        cls,
        values: Floats,
        names: NDArray[np.uint8],
        fine: Levels,
        coarse: Levels,
        pairs: Ints,
    ) -> AdditiveRows:
        """Return rows with these values and bytes of names.

        The coordinates are a constant, those of each column, and those of each pair. A column has
        hats at its levels: a value between two levels is `right` / 1024 of the right hat and the
        rest of the left one. A pair has products of the hats of both columns.
        """
        n = len(values)
        blocks = [np.full((n, 1), HAT)]
        column_places = fine.locate(values, names)
        for size, (level, right) in zip(fine.sizes.tolist(), column_places, strict=True):
            hats = [(level, HAT - right), (level + 1, right)]
            blocks.append(_scatter(n, size, level >= 0, hats))
        places = coarse.locate(values, names)
        for first, second in pairs.tolist():
            first_level, first_right = places[first]
            second_level, second_right = places[second]
            first_size = int(coarse.sizes[first])
            second_size = int(coarse.sizes[second])
            # The product of both right hats is rounded down; the other three products are what is
            # missing to the hats of each column, so that all four add up to 1024.
            both_right = first_right * second_right // HAT
            corner = first_level * second_size + second_level
            products = [
                (corner, HAT - first_right - second_right + both_right),
                (corner + 1, second_right - both_right),
                (corner + second_size, first_right - both_right),
                (corner + second_size + 1, both_right),
            ]
            is_present = (first_level >= 0) & (second_level >= 0)
            blocks.append(_scatter(n, first_size * second_size, is_present, products))
        return cls(np.concatenate(blocks, axis=1))

    @property
    def n(self) -> int:
        """How many rows there are."""
        return len(self.matrix)

    @property
    def n_entries(self) -> int:
        """How many coordinates of rows are not zero."""
        return int(np.count_nonzero(self.matrix))

    def scores(self, coefficients: Ints, out: Ints) -> None:
        """Write the sums over coordinates, rounded."""
        out[:] = (self.matrix @ coefficients + HAT // 2 >> 10).ravel()

    def add_gram(self, counts: Any, targets: Any, gram: Ints, products: Ints) -> None:
        """Add products of coordinates, the upper half, and of coordinates and targets."""
        weighted = self.matrix * counts[:, None]
        gram += np.triu(weighted.T @ self.matrix).ravel()
        products += weighted.T @ targets

    def curvature(
        self,
        labels: Any,
        weights: Any,
        modes: AdditiveModes,
        phi: Any,
        most: int,
        out: Floats,
    ) -> None:
        """Write the mean curvature of outputs, by the first `most` rows with a weight: (q, q)."""
        rows = np.flatnonzero(weights)[:most]
        coordinates = self.matrix[rows] / HAT @ modes.matrix
        shares = _shares(coordinates @ phi.T)
        # certain rows have no curvature, which would leave coordinates without any
        variances = np.maximum(shares * (1 - shares), 1e-6)
        scale = 0.0
        if len(rows):
            scale = weights.sum() / weights[rows].sum()
        row_curvatures = weights[rows] * variances.mean(axis=1) * scale
        out[:] = (coordinates.T @ (coordinates * row_curvatures[:, None])).ravel()

    def fold_slopes(
        self, labels: Any, fold_weights: Floats, modes: AdditiveModes, phi: Floats, out: Floats
    ) -> None:
        """Write the slopes of the loss without penalties, fold by fold: (folds, outputs, q)."""
        coordinates = self.matrix / HAT @ modes.matrix
        observed = labels[:, None] == (np.ones(1) if len(phi) == 1 else np.arange(len(phi)))
        excess = _shares(coordinates @ phi.T) - observed
        slopes = [(excess * weights[:, None]).T @ coordinates for weights in fold_weights]
        out[:] = np.array(slopes).ravel()

    def fit(
        self,
        labels: Any,
        weights: Any,
        modes: AdditiveModes,
        inverse: Floats,
        penalties: Any,
        center: Floats,
        steps: int,
        tolerance: float,
        phi: Floats,
    ) -> None:
        """Move phi, (outputs, q), to where the penalised loss is lowest.

        With shares s of rows by phi, the loss is
        ``-sum weight log s_observed + sum penalty (phi - center)^2 / 2``. The search runs over u
        with phi = start + inverse u, in which the curvature is about the same in all directions.
        """
        outputs, q = phi.shape
        coordinates = self.matrix / HAT @ modes.matrix
        start = phi.copy()
        if outputs == 1:
            is_observed = labels[:, None] == 1  # the output is the score of the second label
        else:
            is_observed = labels[:, None] == np.arange(outputs)

        def compute_loss(u: Floats) -> tuple[float, Floats]:
            """Return the loss and its gradient."""
            moved = start + u.reshape(outputs, q) @ inverse.T
            shares = _shares(coordinates @ moved.T)
            if outputs == 1:
                observed = np.where(is_observed, shares, 1 - shares)[:, 0]
            else:
                observed = shares[is_observed]
            distances = moved - center
            loss = -(weights * np.log(np.maximum(observed, 1e-300))).sum()
            loss += 0.5 * (penalties * distances**2).sum()
            residuals = (shares - is_observed) * weights[:, None]
            gradient = residuals.T @ coordinates + penalties * distances
            return float(loss), (gradient @ inverse).ravel()

        minimum = minimize(
            compute_loss,
            np.zeros(outputs * q),
            jac=True,
            options={"maxiter": steps, "ftol": tolerance, "gtol": 0},
            method="L-BFGS-B",
        )
        phi[:] = start + minimum.x.reshape(outputs, q) @ inverse.T


def inverse_root(a: Floats, out: Floats) -> bool:
    """Write the inverse of R, for a = R^T R with R an upper triangle; return whether one exists."""
    try:
        root = np.linalg.cholesky(_mirror(a)).T
    except np.linalg.LinAlgError:
        return False
    out[:] = np.triu(np.linalg.inv(root)).ravel()
    return True


def label_shares(scores: Any, labels: Any, weights: Any, most: float, out: Floats) -> float:
    """Write the shares of labels by scores in 1/65536 nats, and return the sum of losses.

    No row loses more than `most`.
    """
    shares = _shares(scores / 65536)
    out[:] = shares.ravel()
    if shares.shape[1] == 1:
        shares = np.hstack([1 - shares, shares])
    observed = shares[np.arange(len(labels)), labels]
    losses = np.minimum(-np.log(np.maximum(observed, 1e-300)), most)
    return float((weights * losses).sum())


def pair_scores(
    cells: Any, sizes: Any, left: Any, spread: Any, shrinkage: float, out: Floats
) -> None:
    """Write, for each pair of columns, how much more than noise its cells explain of residuals.

    With the sums s of residuals and v of their variances in a cell, and the share
    ``v / (v + shrinkage)`` that a cell is trusted, this is
    ``sum(s^2 / (v + shrinkage) - share) / sqrt(2 sum(share^2))``: noise alone would give a mean of
    0 and a standard deviation of 1.
    """
    firsts, seconds = np.triu_indices(len(sizes), 1)
    for pair, (a, b) in enumerate(zip(firsts.tolist(), seconds.tolist(), strict=True)):
        row_cells = cells[a] * int(sizes[b]) + cells[b].astype(np.int64)
        shape = (int(sizes[a] * sizes[b]), left.shape[1])
        residual_sums = np.zeros(shape, np.int64)
        np.add.at(residual_sums, row_cells, left)
        variance_sums = np.zeros(shape, np.int64)
        np.add.at(variance_sums, row_cells, spread)
        s = residual_sums / 65536
        v = variance_sums / 65536
        share = v / (v + shrinkage)
        explained = s**2 / (v + shrinkage)
        out[pair] = (explained - share).sum() / np.sqrt(2 * (share**2).sum() + 1e-9)


def table_scores(tables: StepTables, rows: NDArray[np.uint8]) -> Ints:
    """Return the scores of rows by the tables of a function, rounded: (m, outputs)."""
    total = np.tile(tables.constant, (len(rows), 1))
    for _, added in tables.iterate_terms(rows):
        total += added
    return (total + HAT // 2) >> 10


def add_ratios(answers: BaseAnswers, rows: NDArray[np.uint8], totals: Floats) -> None:
    """Do what `BaseAnswers.add` does."""
    totals += answers.weights * answers.base.ratios_from_scores(
        table_scores(answers.tables, rows), answers.labels
    )


def _scatter(n: int, size: int, is_in: Bools, entries: list[tuple[Any, Any]]) -> Ints:
    """Return a matrix (n, size) with these entries, (column, number) of each row that is in."""
    matrix = np.zeros((n, size), np.int64)
    for column, number in entries:
        # the column of an entry of zero may lie outside
        rows = np.flatnonzero(is_in & (number != 0))
        matrix[rows, column[rows]] = number[rows]
    return matrix


def _mirror(upper: Floats) -> Floats:
    """Return the symmetric matrix with this upper half."""
    return np.asarray(np.triu(upper) + np.triu(upper, 1).T)


def _shares(scores: Any) -> Any:
    """Return the softmax of scores or, of one column, the logistic function."""
    if scores.shape[1] == 1:
        less = np.exp(-np.abs(scores))  # the smaller odds: no power overflows
        return np.where(scores < 0, less, 1.0) / (1.0 + less)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
