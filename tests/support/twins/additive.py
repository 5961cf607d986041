"""Sums and fits of additive functions: the twins of ``src/native/parts``, under the same names.

Arrays named `out`, `gram`, `products` and `phi` are written to. Results are those of the compiled code up to rounding;
whole numbers are equal. A fit goes to the same minimum by SciPy's L-BFGS.
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
    """A change of coordinates: shape (p, q)."""

    matrix: Floats

    @classmethod
    def of(cls, rows: Ints, columns: Ints, flat: Floats) -> AdditiveModes:
        """Return the change of coordinates with these blocks."""
        shapes = list(zip(np.diff(rows).tolist(), np.diff(columns).tolist(), strict=True))
        blocks = np.split(flat, np.cumsum([a * b for a, b in shapes])[:-1])
        return cls(block_diag(*(block.reshape(shape) for block, shape in zip(blocks, shapes, strict=True))))

    def apply(self, phi: Floats, out: Floats) -> None:
        """Write the coordinates of rows, (p, outputs), for those of the fit, (outputs, q)."""
        out[:] = (self.matrix @ phi.T).ravel()

    def apply_turned(self, given: Floats, out: Floats) -> None:
        """Write sums over the coordinates of rows, (p,), as sums over those of the fit, (q,)."""
        out[:] = self.matrix.T @ given

    def turn(self, upper: Floats, out: Floats) -> None:
        """Write the matrix with this upper half, (p, p), in the coordinates of the fit: (q, q)."""
        whole = np.triu(upper) + np.triu(upper, 1).T
        out[:] = (self.matrix.T @ whole @ self.matrix).ravel()


@dataclass(frozen=True, eq=False)
class AdditiveRows:
    """Rows in the coordinates of an additive function, in 1/1024: shape (n, p)."""

    matrix: Ints

    @classmethod
    def of(
        cls,
        values: Floats,
        names: NDArray[np.uint8],
        fine: Levels,
        coarse: Levels,
        pairs: Ints,
    ) -> AdditiveRows:
        """Return rows with these values and bytes of names."""
        blocks = [np.full((len(values), 1), HAT)]
        for size, (level, right) in zip(fine.sizes.tolist(), fine.locate(values, names), strict=True):
            blocks.append(_scattered(len(values), size, level >= 0, [(level, HAT - right), (level + 1, right)]))
        places = coarse.locate(values, names)
        for first, second in pairs.tolist():
            (a, right_a), (b, right_b) = places[first], places[second]
            width, both = int(coarse.sizes[second]), right_a * right_b // HAT
            at, whole = a * width + b, HAT - right_a - right_b + both
            entries = [(at, whole), (at + 1, right_b - both), (at + width, right_a - both), (at + width + 1, both)]
            blocks.append(_scattered(len(values), int(coarse.sizes[first]) * width, (a >= 0) & (b >= 0), entries))
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
        """Write the mean curvature of the outputs, by the first `most` rows with a weight: (q, q)."""
        own = np.flatnonzero(weights)[:most]
        B = self.matrix[own] / HAT @ modes.matrix
        shares = np.maximum(_shares(B @ phi.T) * (1 - _shares(B @ phi.T)), 1e-6)
        scale = weights.sum() / weights[own].sum() if len(own) else 0.0
        out[:] = (B.T @ (B * (weights[own] * shares.mean(axis=1) * scale)[:, None])).ravel()

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
        """Move phi, (outputs, q), to where the penalised loss is lowest."""
        outputs, q = phi.shape
        B, start = self.matrix / HAT @ modes.matrix, phi.copy()
        observed = labels[:, None] == (np.ones(1) if outputs == 1 else np.arange(outputs))

        def loss(u: Floats) -> tuple[float, Floats]:
            at = start + u.reshape(outputs, q) @ inverse.T
            shares = _shares(B @ at.T)
            own = np.where(observed, shares, 1 - shares)[:, 0] if outputs == 1 else shares[observed]
            slopes = ((shares - observed) * weights[:, None]).T @ B + penalties * (at - center)
            value = -(weights * np.log(np.maximum(own, 1e-300))).sum() + 0.5 * (penalties * (at - center) ** 2).sum()
            return float(value), (slopes @ inverse).ravel()

        found = minimize(
            loss,
            np.zeros(outputs * q),
            jac=True,
            options={"maxiter": steps, "ftol": tolerance, "gtol": 0},
            method="L-BFGS-B",
        )
        phi[:] = start + found.x.reshape(outputs, q) @ inverse.T


def inverse_root(a: Floats, out: Floats) -> bool:
    """Write the inverse of R, for a = R^T R with R an upper triangle; return whether there is one."""
    try:
        root = np.linalg.cholesky(np.triu(a) + np.triu(a, 1).T).T
    except np.linalg.LinAlgError:
        return False
    out[:] = np.triu(np.linalg.inv(root)).ravel()
    return True


def label_shares(scores: Any, labels: Any, weights: Any, most: float, out: Floats) -> float:
    """Write the shares of labels by scores in 1/65536 nats; return the sum of losses, none above `most`."""
    shares = _shares(scores / 65536)
    out[:] = shares.ravel()
    if shares.shape[1] == 1:
        shares = np.hstack([1 - shares, shares])
    return float(
        (weights * np.minimum(-np.log(np.maximum(shares[np.arange(len(labels)), labels], 1e-300)), most)).sum()
    )


def pair_scores(cells: Any, sizes: Any, left: Any, spread: Any, shrinkage: float, out: Floats) -> None:
    """Write, for each pair of columns, by how much its cells explain what is left, less what noise explains."""
    firsts, seconds = np.triu_indices(len(sizes), 1)
    for place, (a, b) in enumerate(zip(firsts.tolist(), seconds.tolist(), strict=True)):
        cell = cells[a] * int(sizes[b]) + cells[b].astype(np.int64)
        s, v = np.zeros((2, int(sizes[a] * sizes[b]), left.shape[1]), np.int64)
        np.add.at(s, cell, left)
        np.add.at(v, cell, spread)
        s, v = s / 65536, v / 65536
        share = v / (v + shrinkage)
        out[place] = (s**2 / (v + shrinkage) - share).sum() / np.sqrt(2 * (share**2).sum() + 1e-9)


def table_scores(tables: StepTables, rows: NDArray[np.uint8]) -> Ints:
    """Return the scores of rows by the tables of a function, rounded: (m, outputs)."""
    total = np.tile(tables.constant, (len(rows), 1))
    for _, added in tables.iterate_terms(rows):
        total += added
    return (total + HAT // 2) >> 10


def add_ratios(answers: BaseAnswers, rows: NDArray[np.uint8], totals: Floats) -> None:
    """Do what `BaseAnswers.add` does."""
    totals += answers.weights * answers.base.ratios_from_scores(table_scores(answers.tables, rows), answers.labels)


def _scattered(n: int, size: int, held: Bools, entries: list[tuple[Any, Any]]) -> Ints:
    """Return a matrix (n, size) with these entries, (column, number) of each row, in the rows that are held."""
    found = np.zeros((n, size), np.int64)
    for column, number in entries:
        rows = np.flatnonzero(held & (number != 0))
        found[rows, column[rows]] = number[rows]
    return found


def _shares(scores: Any) -> Any:
    if scores.shape[1] == 1:
        less = np.exp(-np.abs(scores))
        return np.where(scores < 0, less, 1.0) / (1.0 + less)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
