"""layout = choose(rows): how a regressor sees columns, its additive base, and trees of what the base leaves.

As in the classifier, the layout is a function of the kept rows. A target is kept as the label of its row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from hammemo._arrays.wide_sums import exact_sum
from hammemo._progress import progress_bar
from hammemo.edits.task import LayoutPlan
from hammemo.features.additive import Gram, fit_number_base
from hammemo.features.additive.gram import check_row_total
from hammemo.features.cells.choose_cells import GROWING_ROWS
from hammemo.features.cells.column_codes import ColumnCodes
from hammemo.features.cells.forest import grown_forest
from hammemo.features.wide.choose_columns import choose_narrowing, is_wide, refuse_many_names
from hammemo.tasks.numbers.sums import (
    NO_VOTE,
    NUMBER_TREES,
    NumberLayout,
    NumberMemory,
    NumberRows,
    NumberVote,
    choose_exponent,
    targets_of,
    what_is_left,
    whole_targets,
)
from hammemo.tokens.contexts import Examples
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.votes.number_answers import SeenRows

if TYPE_CHECKING:
    from hammemo.edits.task import RowBatch
    from hammemo.stores.kept import Kept
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.sums import NumberState
    from hammemo.tokens.column_schema import ColumnSchema

_LARGEST: Final = 2**31 - 1
"""What trees grow by has 31 bits."""


class SeenByChoice(NamedTuple):
    """What choosing has computed of rows, which counting and weighing them need."""

    rows: NumberRows
    """The distinct rows, as the layout sees them, in the order of hashes."""
    gram: Gram
    """Their matrix."""


NumberPlan: TypeAlias = "LayoutPlan[NumberLayout, NumberMemory, NumberVote]"
"""`seen` is a :class:`SeenByChoice`; None for a layout that was chosen by no row."""


def choose(
    settings: NumberSettings,
    columns: ColumnSchema,
    examples: Examples,
    seed: int,
    *,
    quickly: bool = False,
) -> NumberPlan:
    """Choose everything by rows; where there are none, by one row without values, so that nothing depends on any."""
    del quickly  # a choice holds out no fold
    if not len(examples):
        nothing = Examples.of(np.full((1, columns.width), NO_TOKEN), [0])
        layout, *_ = _chosen(columns, nothing, seed)
        return LayoutPlan(layout, NumberMemory.empty(layout), NO_VOTE, seed)
    check_row_total(0, int(examples.multiplicity.sum()))
    settings.bounds.refuse_outside(targets_of(examples), are_kept=True)
    layout, rows, gram = _chosen(columns, examples, seed)
    return LayoutPlan(layout, NumberMemory.empty(layout), NO_VOTE, seed, SeenByChoice(rows, gram))


def choose_by_first_rows(
    settings: NumberSettings,
    columns: ColumnSchema,
    batch: RowBatch | None,
    n_labels: int,
    seed: int,
) -> NumberPlan:
    """Choose everything by the first rows."""
    del n_labels
    examples = (
        Examples.of(np.empty((0, columns.width), object), []) if batch is None else batch.examples
    )
    return choose(settings, columns, examples, seed)


def choose_like(
    settings: NumberSettings, columns: ColumnSchema, layout: NumberState, n_labels: int
) -> NumberPlan:
    """Choose what another model has chosen."""
    del settings, columns, n_labels
    return LayoutPlan(layout.layout, NumberMemory.empty(layout.layout), layout.vote, layout.seed)


def choose_by_sample(settings: NumberSettings, state: NumberState) -> None:
    """Return None: where not all rows are kept, the layout of the memory stays."""
    del settings, state


def keep_layout(state: NumberState) -> NumberLayout:
    """Return the layout of a state."""
    return state.layout


def choice_rows(kept: KeptRows) -> Examples:
    """Return all kept rows."""
    return kept.examples()


def is_sample_enough(kept: Kept) -> bool:
    """Return False: rows that are given to a refit are chosen by, too."""
    del kept
    return False


def fit_documents(settings: NumberSettings, state: NumberState) -> NumberState:
    """Refuse documents: a document has no target."""
    raise NotImplementedError("a regressor keeps rows, not documents")


def _chosen(
    columns: ColumnSchema, examples: Examples, seed: int
) -> tuple[NumberLayout, NumberRows, Gram]:
    """Return the layout that examples choose, the distinct rows of it in the order of hashes, and their matrix."""
    kinds = columns.letters
    refuse_many_names(kinds)
    narrowing = None
    n_scores = 0
    if columns.packed or is_wide(kinds):
        narrowing = choose_narrowing(columns, examples, seed, targets=targets_of(examples))
        examples = narrowing.learn(examples)
        kinds = narrowing.narrow_kinds
        n_scores = narrowing.n_scores
    no_pairs, of_examples = np.empty((0, 2), np.int64), (examples.contexts, examples.multiplicity)
    codes = ColumnCodes.chosen(kinds, *of_examples, no_pairs, seed).with_even_cuts(
        n_scores, examples.contexts
    )
    places, words, counts = codes.distinct(examples, seed)
    targets = targets_of(examples)[places]
    center = float(np.sort(targets)[len(targets) // 2])
    exponent = choose_exponent(float(np.abs(targets - center).max()))
    rows, whole = (
        SeenRows(codes, examples.contexts[places]),
        whole_targets(targets, center, exponent),
    )
    with progress_bar("Fitting the additive base"):
        base, gram = fit_number_base(
            codes,
            values=rows.values,
            name_codes=rows.names,
            targets=whole,
            counts=counts,
            words=words,
        )
    mean = exact_sum(whole, counts) // int(counts.sum())
    left, m = what_is_left(base, mean, rows, whole, words), min(len(targets), GROWING_ROWS)
    seen, of_rows = (np.ascontiguousarray(rows.codes[:m].T), codes.is_name), (counts[:m], words[:m])
    forests = []
    for own, rules in zip(left, NUMBER_TREES, strict=True):
        with progress_bar("Growing trees"):
            grown_by = np.clip(own[:m], -_LARGEST, _LARGEST)
            forests.append(grown_forest(*seen, grown_by, *of_rows, len(codes.is_name), seed, rules))
    layout = NumberLayout(
        codes, center, exponent, base, mean, tuple(forests), int(words[m - 1]), narrowing
    )
    leaves = tuple(forest.leaves(rows.codes) for forest in forests)
    return layout, NumberRows(rows, whole, left, leaves, words, counts), gram
