"""layout = choose(rows): how a regressor reads columns, its additive base, and its trees.

As in the classifier, the layout is a function of the kept rows. A target is kept as the label of
its row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from hammemo._arrays.wide_sums import exact_sum
from hammemo._progress import progress_bar
from hammemo.edits.task import LayoutPlan
from hammemo.features.additive import Gram, fit_number_base
from hammemo.features.additive.gram import check_row_total
from hammemo.features.cells.column_codes import ColumnCodes, choose_codes
from hammemo.features.cells.grow_forest import GROWING_ROWS, grow_forest
from hammemo.features.wide.choose_columns import choose_narrowing, is_wide, refuse_many_names
from hammemo.tasks.numbers.layout import (
    NUMBER_TREES,
    NumberLayout,
    choose_exponent,
    extract_targets,
    round_targets,
    subtract_frozen,
)
from hammemo.tasks.numbers.memory import NumberMemory, NumberRows
from hammemo.tasks.numbers.vote import NO_VOTE, NumberVote
from hammemo.tokens.contexts import Examples
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.votes.number_answers import SeenRows

if TYPE_CHECKING:
    from hammemo._arrays.types import Ints, Words
    from hammemo.edits.task import RowBatch
    from hammemo.features.cells.forest import Forest
    from hammemo.features.wide.narrowing import Narrowing
    from hammemo.stores.kept import Kept
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.tokens.columns import Columns

_LARGEST: Final = 2**31 - 1
"""What trees grow by has 31 bits."""


class RowsOfChoice(NamedTuple):
    """What choosing has computed from rows, which counting and weighing them need."""

    rows: NumberRows
    """The distinct rows, as the layout sees them, in the order of hashes."""
    gram: Gram
    """Their matrix."""


NumberPlan: TypeAlias = "LayoutPlan[NumberLayout, NumberMemory, NumberVote]"
"""`precomputed` is a :class:`RowsOfChoice`; None for a layout that was chosen by no row."""


def choose(
    settings: NumberSettings,
    columns: Columns,
    examples: Examples,
    seed: int,
    *,
    quickly: bool = False,
) -> NumberPlan:
    """Choose everything by rows.

    Where there are none, one row without values is chosen by, so that nothing depends on any.
    """
    del quickly  # a choice holds out no fold
    if not len(examples):
        no_values = Examples.of(np.full((1, columns.width), NO_TOKEN), [0])
        layout = _choose_layout(columns, no_values, seed).layout
        return LayoutPlan(layout, NumberMemory.empty(layout), NO_VOTE, seed)
    check_row_total(0, int(examples.multiplicity.sum()))
    settings.bounds.refuse_outside(extract_targets(examples), are_kept=True)
    layout, computed = _choose_layout(columns, examples, seed)
    return LayoutPlan(layout, NumberMemory.empty(layout), NO_VOTE, seed, precomputed=computed)


def choose_by_first_rows(
    settings: NumberSettings,
    columns: Columns,
    batch: RowBatch | None,
    n_labels: int,
    seed: int,
) -> NumberPlan:
    """Choose everything by the first rows."""
    del n_labels
    if batch is None:
        examples = Examples.of(np.empty((0, columns.width), object), [])
    else:
        examples = batch.examples
    return choose(settings, columns, examples, seed)


def choose_like(
    settings: NumberSettings, columns: Columns, layout: NumberState, n_labels: int
) -> NumberPlan:
    """Choose what another model has chosen."""
    del settings, columns, n_labels
    memory = NumberMemory.empty(layout.layout)
    return LayoutPlan(layout.layout, memory, layout.vote, layout.seed)


def choose_by_sample(settings: NumberSettings, state: NumberState) -> None:
    """Return None: where not all rows are kept, the layout of the memory stays."""
    del settings, state


def keep_layout(state: NumberState) -> NumberLayout:
    """Return the layout of a state."""
    return state.layout


def choice_rows(kept_rows: KeptRows) -> Examples:
    """Return all kept rows."""
    return kept_rows.examples()


def is_sample_enough(kept_rows: Kept) -> bool:
    """Return False: rows that are given to a refit are chosen by, too."""
    del kept_rows
    return False


class _LayoutOfRows(NamedTuple):
    """A layout, and what was computed from the rows that chose it."""

    layout: NumberLayout
    computed: RowsOfChoice


def _choose_layout(columns: Columns, examples: Examples, seed: int) -> _LayoutOfRows:
    """Return the layout that examples choose, and the distinct rows of it."""
    kinds = columns.kinds
    refuse_many_names(kinds)

    # Wide tables become narrow: a few columns, and scores that sum up many.
    narrowing: Narrowing | None = None
    n_scores = 0
    if columns.packed or is_wide(kinds):
        targets = extract_targets(examples)
        narrowing = choose_narrowing(columns, examples, seed, targets=targets)
        examples = narrowing.learn(examples)
        kinds = narrowing.narrow_kinds
        n_scores = narrowing.n_scores

    # Where columns are cut.
    no_pairs = np.empty((0, 2), np.int64)
    codes = choose_codes(kinds, examples.contexts, examples.multiplicity, pairs=no_pairs, seed=seed)
    codes = codes.with_even_cuts(n_scores, examples.contexts)
    places, words, counts = codes.distinct(examples, seed)
    inputs = SeenRows(codes, examples.contexts[places])

    # The unit of targets, so that the furthest from their median has `BITS` bits.
    targets = extract_targets(examples)[places]
    center = float(np.sort(targets)[len(targets) // 2])
    exponent = choose_exponent(float(np.abs(targets - center).max()))
    units = round_targets(targets, center, exponent)

    # The base, and the trees of what base and mean leave.
    with progress_bar("Fitting the additive base"):
        base, gram = fit_number_base(
            codes,
            values=inputs.values,
            name_codes=inputs.names,
            targets=units,
            counts=counts,
            words=words,
        )
    mean = exact_sum(units, counts) // int(counts.sum())
    residuals = subtract_frozen(base, mean, inputs, targets=units, words=words)
    forests = _grow_forests(
        codes, inputs, residuals=residuals, counts=counts, words=words, seed=seed
    )
    n_growing = min(len(units), GROWING_ROWS)
    layout = NumberLayout(
        codes=codes,
        center=center,
        exponent=exponent,
        base=base,
        mean=mean,
        forests=forests,
        last_word=int(words[n_growing - 1]),
        narrowing=narrowing,
    )
    rows = NumberRows(
        inputs=inputs,
        targets=units,
        residuals=residuals,
        leaves=tuple(forest.leaves(inputs.codes) for forest in forests),
        words=words,
        counts=counts,
    )
    return _LayoutOfRows(layout, RowsOfChoice(rows, gram))


def _grow_forests(
    codes: ColumnCodes,
    inputs: SeenRows,
    *,
    residuals: tuple[Ints, ...],
    counts: Ints,
    words: Words,
    seed: int,
) -> tuple[Forest, ...]:
    """Return the trees of each part, grown by the rows with the lowest hashes."""
    n_growing = min(len(counts), GROWING_ROWS)
    growing_codes = np.ascontiguousarray(inputs.codes[:n_growing].T)
    forests = []
    for part_residuals, rules in zip(residuals, NUMBER_TREES, strict=True):
        with progress_bar("Growing trees"):
            forest = grow_forest(
                codes=growing_codes,
                is_name=codes.is_name,
                targets=np.clip(part_residuals[:n_growing], -_LARGEST, _LARGEST),
                counts=counts[:n_growing],
                words=words[:n_growing],
                n_plain=len(codes.is_name),
                seed=seed,
                rules=rules,
            )
        forests.append(forest)
    return tuple(forests)
