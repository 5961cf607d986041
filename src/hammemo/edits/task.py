"""What an edit asks of the task of a model: all that differs between labels and numbers.

`LABELS` (:mod:`hammemo.tasks.labels.task`) and `NUMBERS` (:mod:`hammemo.tasks.numbers.task`) are
the two values of this protocol. An edit is written once, in terms of it, and never asks which of
the two it has.

A task is made of functions of values: none of them changes a state, a memory or a store that it is
given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from hammemo._arrays.integers import object_array
from hammemo.tokens.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    from matplotlib.axes import Axes

    from hammemo._arrays.types import Array, Ints
    from hammemo.stores.kept import Kept, ModelStore
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tokens.column_kinds import ColumnKinds, ColumnTypes
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.scales import Scales
    from hammemo.tokens.token_types import TokenTypes
    from hammemo.tokens.user_input import CheckedRows
    from hammemo.tokens.vocabulary import Vocabulary


S = TypeVar("S")
"""A state."""
S_contra = TypeVar("S_contra", contravariant=True)
"""A state that functions only take."""
L = TypeVar("L")
"""A layout."""
M = TypeVar("M")
"""A memory."""
V = TypeVar("V")
"""A vote."""


class DoesNotFitError(ValueError):
    """Rows have no place in a layout: a model that keeps all its rows chooses another one."""


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Rows that an edit learns together.

    Parameters
    ----------
    examples : Examples
        The rows, with their labels or targets.
    columns : Columns
    target_dtype : dtype
        The type of all labels or targets: those of the model, of the rows and the declared ones.
    declared : Vocabulary
        Labels that stay while they have no example.
    """

    examples: Examples
    columns: Columns
    target_dtype: np.dtype[Any]
    declared: Vocabulary


@dataclass(frozen=True, eq=False)
class TableFacts:
    """What is known of a table that others have read.

    Parameters
    ----------
    names : tuple of str
        The columns.
    kinds : tuple of ColumnKind
    types : tuple of ColumnType
        How their values came.
    token_types : TokenTypes
    labels : Vocabulary
        All labels; none where the model predicts numbers.
    target_dtype : dtype
        The type of the labels or targets.
    store : ModelStore or None
        What is stored of the rows; None where nothing is.
    seed : int
    scales : mapping of int to str or tuple
        The scales of the columns.
    """

    names: tuple[str, ...]
    kinds: ColumnKinds
    types: ColumnTypes
    token_types: TokenTypes
    labels: Vocabulary
    target_dtype: np.dtype[Any]
    store: ModelStore | None
    seed: int
    scales: Scales

    def columns(self) -> Columns:
        """Return the columns of the table."""
        names = object_array(self.names)
        return Columns(self.kinds, names, self.types, self.token_types, scales=self.scales)


@dataclass(frozen=True, eq=False)
class LayoutPlan(Generic[L, M, V]):
    """What was chosen.

    Parameters
    ----------
    layout : L
    memory : M
        An empty memory of this layout.
    vote : V
        Without weights, where they are to be fitted.
    seed : int
    precomputed : Any
        What choosing has computed of the rows: counting and weighing the same rows need not compute
        it again.
    """

    layout: L
    memory: M
    vote: V
    seed: int
    precomputed: Any = None


class Described(NamedTuple):
    """What the states of labels and of numbers do not have in common, ready for JSON."""

    layout: list[Any]
    declared: list[Any]
    """What was declared, names of columns included."""
    vote: Any
    counts: str
    """The digest of the memory."""
    weights: Mapping[str, Array]


class AnswerFacts(NamedTuple):
    """What the answers of a model are, in plain values."""

    examples: list[Any]
    """Answers whose types are those of all answers."""
    classes: list[Any]
    """The labels in sorted order; none where the model predicts numbers."""
    bounds: Any
    """The parameter that says what answers never leave; None where there are no bounds."""
    parts: dict[str, str]
    """The kernel, the memory and the vote as a user writes them; empty where there is no choice."""


NO_ANSWERS: Final = AnswerFacts(examples=[], classes=[], bounds=None, parts={})
"""Of what answers nothing yet."""


class ReadRows(Protocol):
    """Checks rows that a user hands over."""

    def __call__(self, X: Any, y: Any, state: Any, sample_weight: Any = None, /) -> CheckedRows:
        """Return the rows, with columns as those of a state or, without one, as first rows."""


class TargetReading(Protocol[S_contra]):
    """Reads labels or targets."""

    def read_targets(self, y: Any, /) -> Array:
        """Return what a user gives as y as an array of labels or targets, or refuse it."""

    def read_target(
        self, settings: Any, state: S_contra, target: Any, sign: int, /
    ) -> tuple[Any, np.dtype[Any]]:
        """Return one label or target, and the type of all targets once it is learned."""

    def read_batch(
        self, settings: Any, rows: CheckedRows, declared: Any, before: S_contra | None, /
    ) -> RowBatch:
        """Return rows that are to be learned; ValueError where there is nothing to learn."""

    def common_dtype(self, state: S_contra, other: S_contra, /) -> np.dtype[Any]:
        """Return the type of the targets of both models, or refuse to put them together."""

    def list_declared_targets(self, state: S_contra, /) -> Array | None:
        """Return the declared labels as a user declares them; None where there are none."""

    def warn_of_targets(self, targets: Array, /) -> None:
        """Warn of targets by which a model that is fitted to them learns little."""

    def reads_numbers(self) -> bool:
        """Return whether the column to predict is read as numbers, whatever its values are."""

    def check_targets(self, settings: Any, targets: Array, /) -> None:
        """Refuse targets that a model with these parameters never learns."""

    def collect_labels(self, examples: Examples, /) -> Vocabulary:
        """Return the labels of some rows; none for numbers, of which there are as many as rows."""


class ChoiceSchedule(Protocol[S_contra, L]):
    """Says when everything is chosen again, and whether a choice depends on rows."""

    def chooses_by_first_rows(self) -> bool:
        """Return whether the first rows, however few, are enough to choose everything by."""

    def begins_again(self, state: S_contra, /, *, choose_again: bool) -> bool:
        """Return whether the layout of a state without rows is to be that of the next rows."""

    def is_choice_due(self, settings: Any, state: S_contra, since: int = 0, /) -> bool:
        """Return whether everything is to be chosen again.

        It is when the rows have doubled since the last choice, or since there were `since`.
        """

    def is_choice_due_at_once(self, state: S_contra, /) -> bool:
        """Return whether everything is to be chosen again even after a single row."""

    def chooses_at_refit(self, settings: Any, state: S_contra, /) -> bool:
        """Return whether a refit chooses a layout, or fits what only a whole choice holds."""

    def is_layout_open(self, state: S_contra, /) -> bool:
        """Return whether too few rows chose the layout, so that the choice of others is better."""

    def make_room(self, layout: L, examples: Examples, /) -> L:
        """Return a layout in which more rows fit, where that is open.

        Memories of the layout before are memories of this one, too.
        """

    def warn_of_choice(self, before: S_contra, after: S_contra, examples: Examples, /) -> None:
        """Warn of what was lost when rows did not fit and everything was chosen again."""

    def layout_is_by_rows(self, settings: Any, state: S_contra, /) -> bool:
        """Return whether the layout was chosen by rows."""


class LayoutChoice(Protocol[S_contra, L, M, V]):
    """Chooses: layout = choose(rows)."""

    def choose(
        self, settings: Any, columns: Columns, examples: Examples, seed: int, /, *, quickly: bool
    ) -> LayoutPlan[L, M, V]:
        """Choose everything by the rows of a table.

        With `quickly`, hold out one fold, however few rows there are.
        """

    def choose_by_first_rows(
        self,
        settings: Any,
        columns: Columns,
        batch: RowBatch | None,
        /,
        *,
        n_labels: int,
        seed: int,
    ) -> LayoutPlan[L, M, V]:
        """Choose what can be chosen by the first of the rows that are to come.

        A model that is opened has no batch: for it, nothing is chosen by rows.
        """

    def choose_like(
        self, settings: Any, columns: Columns, layout: S_contra, n_labels: int, /
    ) -> LayoutPlan[L, M, V]:
        """Choose what another model has chosen, so that the two can be merged."""

    def choose_by_sample(self, settings: Any, state: S_contra, /) -> LayoutPlan[L, M, V] | None:
        """Choose by a sample of the rows.

        Return None if it is too small, or chooses another layout than the memory has.
        """

    def keep_layout(self, state: S_contra, /) -> L:
        """Return the layout, with a note that too few rows were kept to choose it again."""

    def choice_rows(self, kept: KeptRows, /) -> Examples:
        """Return the kept rows that everything is chosen by."""

    def is_sample_enough(self, kept: Kept, /) -> bool:
        """Return whether a sample chooses for all rows, while these are counted from elsewhere."""


class DocumentFit(Protocol[S]):
    """Fits models of documents."""

    def fit_documents(self, settings: Any, state: S, /) -> S:
        """Choose by documents, all of which are kept, count them and fit the vote."""


class TableLearning(Protocol[S]):
    """Learns tables that others read and count, as engines do."""

    def check_request(self, *, classes: Any, layout: Any) -> None:
        """Refuse declared labels and a layout where there are none; None where a user gave none."""

    def empty_store(
        self, settings: Any, columns: Columns, seed: int, layout: S | None, /
    ) -> ModelStore | None:
        """Return what the rows of a table are stored in while others read them."""

    def learn_table(
        self,
        settings: Any,
        facts: TableFacts,
        classes: Any,
        layout: S | None,
        /,
        *,
        count_all: Callable[[S], Any],
        kept_are_counted: bool,
    ) -> S:
        """Choose everything by the kept rows, let `count_all` count all, and fit the weights.

        With `kept_are_counted`, kept rows are counted here where they are all.
        """


class RowCount(Protocol[S_contra, L, M, V]):
    """Counts: memory = count(layout, rows)."""

    def count_examples(self, memory: M, /) -> int:
        """Return how many examples a memory holds."""

    def list_labels(self, memory: M, /) -> Vocabulary:
        """Return all labels of a memory, in the order of answers; none for numbers."""

    def count_by_label(self, memory: M, /) -> Ints:
        """Return how many examples each of these labels has."""

    def count_new_labels(self, memory: M, labels: Vocabulary, /) -> int:
        """Return how many of some labels a memory would have to add; none for numbers."""

    def can_answer(self, state: S_contra, /) -> bool:
        """Return whether there is anything to answer with."""

    def is_layout_undecided(self, state: S_contra, /) -> bool:
        """Return whether the next rows settle something of the layout for good."""

    def list_declared(self, memory: M, /) -> Vocabulary:
        """Return the labels that a memory keeps while they have no example."""

    def declare(self, memory: M, labels: Vocabulary, /) -> M:
        """Return the memory with more declared labels."""

    def empty_memory(self, state: S_contra, /) -> M:
        """Return a memory of the same layout without rows and without declared labels."""

    def open_memory(self, plan: LayoutPlan[L, M, V], kept: Kept | None, /) -> M:
        """Return an empty memory of a plan.

        Where only some rows are kept, these settle what is open in its layout.
        """

    def count(
        self,
        state: S_contra,
        batches: Iterable[Examples],
        sign: int = 1,
        /,
        *,
        precomputed: Any = None,
    ) -> M:
        """Return the memory of a state with rows added or, with sign -1, subtracted.

        DoesNotFitError is raised where the layout has no place for rows to add, NotStoredError
        where rows to subtract cannot be in the memory. `precomputed` is that of a plan by the same
        rows.
        """

    def count_one(self, state: S_contra, context: list[Any], target: Any, sign: int, /) -> M:
        """Return the memory with one row added or subtracted."""

    def trust(self, memory: M, /, *before: S_contra) -> M:
        """Return a memory that has forgotten rows, each of which was looked up before.

        It was found among all rows of the states before.
        """

    def merge(self, state: S_contra, other: S_contra, sign: int, /) -> M:
        """Return the memory of both states; LayoutError where their layouts differ."""

    def can_count_again(self, memory: M, /) -> bool:
        """Return whether the rows may be counted under another layout."""

    def fingerprint(self, state: S_contra, /) -> str:
        """Return a short name of the layout."""

    def has_layout_of(self, state: S_contra, other: S_contra, /) -> bool:
        """Return whether two states have the same layout, so that each could have both memories."""


class VoteFit(Protocol[S_contra, V]):
    """Weighs: vote = weigh(kept rows, memory)."""

    def weigh(
        self,
        settings: Any,
        state: S_contra,
        learned: Examples | None = None,
        precomputed: Any = None,
        /,
    ) -> V:
        """Return the vote fitted to the kept rows, or to what was learned where nothing is kept."""

    def weigh_learned(
        self,
        settings: Any,
        state: S_contra,
        examples: Examples,
        /,
        *,
        is_first: bool,
        choose_again: bool,
    ) -> V:
        """Return the vote after a batch of rows: it is fitted again only where they are many."""

    def clear_vote(self, settings: Any, vote: V, /) -> V:
        """Return a vote of the same settings without what was fitted."""

    def check_fit(self, state: S_contra, /) -> None:
        """Refuse parameters that do not go with the rows that a model was fitted to."""

    def depends_on_rows(self, settings: Any, state: S_contra, /) -> bool:
        """Return whether a chosen layout, or fitted weights, depend on single rows."""


class ModelDescription(Protocol[S_contra]):
    """Says what a model holds."""

    def describe(self, state: S_contra, /) -> Described:
        """Return what a digest is made of."""

    def describe_answers(self, settings: Any, state: S_contra, /) -> AnswerFacts:
        """Return what answers are and what makes them, in plain values."""


class ColumnPlot(Protocol[S_contra]):
    """Draws what columns say."""

    def plot_columns(
        self, state: S_contra, columns: Sequence[Any], label: Any, ax: Axes | None, /
    ) -> Axes:
        """Draw what one or two columns say of the labels or targets.

        `label` is one label to draw, or None.
        """


class ModelTask(Protocol[S, L, M, V]):
    """Labels or numbers: the modules of the task, each of which has the functions of one protocol.

    The settings that a step takes are those of the estimators of the task.
    """

    @property
    def reading(self) -> TargetReading[S]:
        """Reads labels or targets."""

    @property
    def schedule(self) -> ChoiceSchedule[S, L]:
        """Says when everything is chosen again, and whether a choice depends on rows."""

    @property
    def choosing(self) -> LayoutChoice[S, L, M, V]:
        """Chooses: layout = choose(rows)."""

    @property
    def documents(self) -> DocumentFit[S]:
        """Fits models of documents."""

    @property
    def tables(self) -> TableLearning[S]:
        """Learns tables that others read and count."""

    @property
    def counting(self) -> RowCount[S, L, M, V]:
        """Counts: memory = count(layout, rows)."""

    @property
    def weighing(self) -> VoteFit[S, V]:
        """Weighs: vote = weigh(kept rows, memory)."""

    @property
    def describing(self) -> ModelDescription[S]:
        """Says what a model holds."""

    @property
    def plotting(self) -> ColumnPlot[S]:
        """Draws what columns say."""
