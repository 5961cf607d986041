"""The additive base of a table as a graph: entries of tables by bytes, sums of whole numbers, ratios of labels.

The tables are those of :class:`~hammemo.kernels.additive.step_tables.StepTables`. All numbers up to the ratios are
whole, so the ratios are those of the library to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.kernels.additive.additive import NAT
from hammemo.kernels.additive.plain import HAT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.kernels.additive.label_base import BaseAnswers
    from hammemo.kernels.additive.step_tables import StepTables
    from hammemo.portable.graph import Operations

_SHIFT = 10
_ABOVE = 2**60
"""Added before a shift, so that what is shifted is not negative."""


def weighted_ratios(base: BaseAnswers, ops: Operations, codes: list[Any]) -> Any:
    """Return the weighted ratio of each label, by the bytes of rows in each column: (m, L)."""
    known = base.base.labels
    scores = [table_score(base.tables, ops, output, codes) for output in range(base.tables.columns.shape[2])]
    scores = [*[ops.multiply(scores[0], ops.word(0))] * (len(known) - len(scores)), *scores]
    priors = base.base.prior.tolist()
    above = [ops.add(score, ops.word(-int(prior))) for score, prior in zip(scores, priors, strict=True)]
    total = above[0]
    for one in above[1:]:
        total = ops.add(total, one)
    nothing, columns = ops.floats(ops.multiply(total, ops.word(0))), []
    for place in known.find(base.labels).tolist():
        if place < 0:
            columns.append(nothing)
            continue
        centred = ops.add(ops.multiply(above[place], ops.word(len(known))), ops.multiply(total, ops.word(-1)))
        columns.append(ops.divide(ops.floats(centred), ops.constant("base.unit")))
    return ops.multiply(ops.stacked(columns), ops.constant("base.weights"))


def table_score(tables: StepTables, ops: Operations, output: int, codes: list[Any]) -> Any:
    """Return the score of one output, a whole number, by the bytes of rows in each column."""
    total = ops.word(int(tables.constant[output]) + HAT // 2 + _ABOVE)
    for j in range(len(tables.columns)):
        total = ops.add(total, ops.take(ops.constant(f"base.{output}.column.{j}"), codes[j]))
    for k, (pair, width) in enumerate(zip(tables.pairs.tolist(), tables.widths.tolist(), strict=True)):
        (a, right_a), (b, right_b) = (
            [ops.take(ops.constant(f"base.{name}.{j}"), codes[j]) for name in ("level", "right")] for j in pair
        )
        both = ops.shifted(ops.multiply(right_a, right_b), _SHIFT)
        minus = ops.multiply(both, ops.word(-1))
        whole = ops.add(ops.multiply(ops.add(right_a, right_b), ops.word(-1)), ops.add(both, ops.word(HAT)))
        at = ops.add(ops.multiply(a, ops.word(width)), b)
        shares = (whole, ops.add(right_b, minus), ops.add(right_a, minus), both)
        for step, share in zip((0, 1, width, width + 1), shares, strict=True):
            entry = ops.take(ops.constant(f"base.{output}.pair.{k}"), ops.add(at, ops.word(step)))
            total = ops.add(total, ops.multiply(share, entry))
    return ops.add(ops.shifted(total, _SHIFT), ops.word(-(_ABOVE >> _SHIFT)))


def base_constants(base: BaseAnswers) -> dict[str, NDArray[Any]]:
    """Return the constants of `weighted_ratios`."""
    unit = np.array(float(len(base.base.labels) * NAT))
    return {"base.unit": unit, "base.weights": base.weights[None, :], **table_constants(base.tables)}


def table_constants(tables: StepTables) -> dict[str, NDArray[Any]]:
    """Return the constants of `table_score`: a byte that lies in no level reads zeros behind its block."""
    found: dict[str, NDArray[Any]] = {}
    nowhere = int(np.diff(tables.starts).max(initial=0))
    for j in set(tables.pairs.ravel().tolist()):
        found[f"base.level.{j}"] = np.where(tables.levels[j] < 0, nowhere, tables.levels[j]).astype(np.int64)
        found[f"base.right.{j}"] = tables.rights[j].astype(np.int64)
    for output in range(tables.columns.shape[2]):
        for j, column in enumerate(tables.columns):
            found[f"base.{output}.column.{j}"] = np.ascontiguousarray(column[:, output])
        for k, width in enumerate(tables.widths.tolist()):
            own = tables.blocks[tables.starts[k] : tables.starts[k + 1], output]
            found[f"base.{output}.pair.{k}"] = np.append(own, np.zeros((nowhere + 2) * (width + 1) + 1, np.int64))
    return found
