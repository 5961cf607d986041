"""How a model learns and forgets: the parts that are settled first, then examples, their sample and the vote.

Every method here is a step of an edit and works on a private version of the model (:mod:`hammemo._versions`); who asks
for the edit publishes it. The public methods are in `classifiers`, those for streams in `streaming`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.utils import check_random_state

from hammemo._arrays.integers import object_array
from hammemo._arrays.threads import threads_used
from hammemo._progress import progress_bar, progress_lines
from hammemo.kernels import AutoSites
from hammemo.memories.errors import LayoutError, NotStoredError
from hammemo.memories.exact import InSegments
from hammemo.memories.ledgered import Ledgered, not_held
from hammemo.models import settling
from hammemo.models.automatic import counts_in_any_order, resolved_kernel, resolved_memory
from hammemo.models.column_changes import Deciding
from hammemo.models.explanations import one_context
from hammemo.models.kept import EVERYTHING
from hammemo.models.kept_documents import KeptDocuments
from hammemo.models.kept_rows import KeptRows, row_of
from hammemo.models.names import is_auto
from hammemo.models.settling import Axes, Choices
from hammemo.models.size_warning import warn_if_large
from hammemo.tokens.column_kinds import ColumnKinds
from hammemo.tokens.columns import is_own_token, tokens_of
from hammemo.tokens.contexts import Contexts, Examples, check_column_names, joined_examples
from hammemo.tokens.labels import classes_array, common_label_dtype, holds_label, label_array
from hammemo.tokens.missing import check_missing_rule, filled_tokens
from hammemo.tokens.user_input import CheckedRows
from hammemo.tokens.vocabulary import Vocabulary, as_token
from hammemo.votes import LogLinear, Mixture
from hammemo.votes.tree_weights import fit_tree_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels import SiteKernel
    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory
    from hammemo.memories.reader import Reader
    from hammemo.models.kept import Kept
    from hammemo.models.scorer import Scorer
    from hammemo.models.settling import Settled
    from hammemo.votes import Vote
    from hammemo.votes.choosing import HeldOut

CHOICE_ROWS: Final = 2**17
"""Sites are chosen by the kept rows with the lowest hashes, at most this number of rows."""

_WEIGHTS_FITTED: Final = frozenset({"weights"})
_EVERYTHING_FITTED: Final = frozenset({"layout", "weights"})

Self = TypeVar("Self", bound="Learning")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class TableFacts:
    """What is known of a table that others have read.

    Parameters
    ----------
    names : tuple of str
        The columns.
    columns : str or None
        Their kinds; None where all are names.
    types : str
        How their values came (:mod:`hammemo.tokens.column_evidence`).
    kinds : ColumnKinds
    labels : Vocabulary
        All labels.
    label_dtype : dtype
    kept : KeptRows or None
        The rows that are kept; None where none are.
    seed : int
    """

    names: tuple[str, ...]
    columns: str | None
    types: str
    kinds: ColumnKinds
    labels: Vocabulary
    label_dtype: np.dtype[Any]
    kept: KeptRows | None
    seed: int

    def no_rows(self) -> Examples:
        """Return the labels of the table without its rows, where nothing depends on these."""
        none = np.empty(0, np.int64)
        return Examples(Contexts.with_ranks(Vocabulary(), none.reshape(0, len(self.names))), none, self.labels, none)


class Witness(Protocol):
    """Counts and hashes the rows that a model forgets; it is a value."""

    @property
    def rows(self) -> int:
        """How many rows were forgotten."""

    def plus_examples(self, examples: Examples) -> Witness:
        """Return it with more forgotten rows."""


class Learning(Deciding):
    """A model of three settled parts, and the steps of its edits."""

    kernel: Any
    memory: Any
    vote: Any
    random_state: Any

    kernel_: SiteKernel
    vote_: Vote
    sites_: Sites
    choices_: Choices
    version_: int
    n_features_in_: int

    _refitted: frozenset[str] = frozenset()
    """Which of "layout" and "weights" the last edit chose and fitted by all rows that the model holds since."""
    _warned: bool = False
    """Whether a query has warned of forgotten rows, or must not warn. Pickles and deep copies start with False."""
    _witness: Witness | None = None
    """What counts the forgotten rows while a receipt is made; copies of the model do not have it."""

    @property
    def _held_out(self) -> HeldOut | None:
        """How good the model was on the folds by which its layout was chosen.

        None where no folds were, and where `refit` could not measure it again because too few rows are kept.
        """
        kept = self._kept
        is_lost = kept is not None and not kept.holds_all and len(kept) < CHOICE_ROWS
        return None if self._pinned or not self._chosen_at or is_lost else self.choices_.held_out

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {name: value for name, value in state.items() if name not in ("_warned", "_witness")}

    def snapshot(self: Self) -> Self:
        """Return an object of its own that holds this version: what either learns later, the other does not see."""
        copied = super().snapshot()
        copied.__dict__.pop("_witness", None)
        return copied

    def _question(self: Self, X: Any) -> tuple[Self, Contexts, Scorer]:
        if self._stale and not self._warned:
            warn_of_forgotten_rows(self)
        return super()._question(X)

    def _edited(self: Self, change: Callable[[Self], Result]) -> Result:
        def counted(model: Self) -> Result:
            before = model._kept
            if self._witness is not None:
                model._witness = self._witness
            model._refitted = frozenset()
            vars(model).pop("_bits", None)  # `Report.bits` of the version before
            n_jobs, verbose = getattr(model, "n_jobs", None), getattr(model, "verbose", 0)
            if verbose or n_jobs is not None:
                with progress_lines(verbose), threads_used(_n_threads(n_jobs)):
                    result = change(model)
            else:  # single edits take microseconds
                result = change(model)
            if self._witness is not None and _n_rows(self) != _n_rows(model):
                model._refuse_to_record()
            model._settle_ledger(before)
            model.version_ = getattr(model, "version_", 0) + 1
            return result

        return super()._edited(counted)

    def _refuse_to_record(self) -> None:
        """Refuse an edit that learns or merges while a receipt is made of what is forgotten."""
        if self._witness is not None:
            raise ValueError(
                "A receipt is being made, and it counts the rows that forget and forget_stream remove: learn and merge "
                "before or after the block. Nothing was changed."
            )

    def _make_memory(self) -> Memory:
        return resolved_memory(self.memory)

    def _axes(self) -> Axes:
        is_automatic = is_auto(getattr(self, "memory", None))
        return Axes(
            self.kernel, self._make_memory(), self.vote, is_automatic, self._columns, self._missing() != "empty"
        )

    def _settled_like(self, layout: Learning, n_labels: int) -> Settled:
        check_is_model(layout)
        settled = settling.like(self._axes(), layout, n_labels)
        self._check_names(layout)
        self._check_kinds(layout)
        return settled

    def _start(
        self,
        h: int,
        settled: Settled,
        layout: Learning | None = None,
        seed: int | None = None,
        *,
        documents: bool = False,
    ) -> None:
        """Take the parts that were settled, with nothing stored."""
        self.kernel_ = settled.kernel.named(getattr(self, "feature_names_in_", None))
        self.vote_, self.choices_ = self._weighed(settled.vote), settled.choices
        self._cells = settled.cells
        self.sites_ = self.kernel_.resolve(h if settled.cells is None else settled.cells.h)
        self.sites_.check_size()
        if self.sites_.free and not self.vote_.reads_free_sites:
            raise ValueError(
                f"vote={self.vote_!r} reads positions only, and the kernel has a {self.sites_.free[0].kind!r}: "
                "use vote='mixture', or 'log-linear'."
            )
        memory = settled.memory.open(self.sites_, seed_of(self.random_state) if seed is None else seed)
        self.memory_ = memory if layout is None else _shard_of(layout, memory)
        self.cutting_ = None if layout is None else layout.cutting_
        self._pinned, self._chosen_at = layout is not None, 0
        self._stale = layout is not None and layout._stale
        fresh = self._nothing_kept(h, self.memory_.seed, self.vote_, documents=documents)
        theirs = getattr(layout, "_kept", None)
        self._kept = theirs.emptied() if fresh is not None and type(theirs) is type(fresh) else fresh

    def _weighed(self, vote: Vote) -> Vote:
        """Return a vote with the class weights of the model, if it has any."""
        weights = getattr(self, "class_weight", None)
        if weights is None:
            return vote
        if not isinstance(vote, LogLinear):
            raise ValueError(
                f"class_weight= multiplies the odds of labels, and the scores of vote={vote!r} are none that it can "
                "multiply: use vote='log-linear', or leave out class_weight."
            )
        if isinstance(self.vote, LogLinear) and self.vote.class_weight is not None:
            raise ValueError("class_weight= is given twice, to the model and to its vote: leave out one of them.")
        return vote.with_class_weight(weights)

    def _has_cells(self) -> bool:
        """Return whether the layout cuts the columns that are numbers."""
        return self._columns == (None if self._cells is None else self._cells.kinds)

    def _check_class_weight(self) -> None:
        """Refuse a weight of an unknown label in what `fit` learns; after a deletion, a label may have no rows."""
        if isinstance(self.vote_, LogLinear):
            self.vote_.check_class_weight(self.memory_.labels)

    def _nothing_kept(self, h: int, seed: int, vote: Vote, *, documents: bool = False) -> Kept | None:
        """Return what rows or documents are kept in; None where none are: `keep` says so, or nothing needs them."""
        keep = getattr(self, "keep", "auto")
        if not isinstance(keep, (str, bool, int, np.integer)) or (isinstance(keep, str) and keep != "auto"):
            raise ValueError(f"keep={keep!r} is not known: use 'auto', True, False or a number of rows.")
        if not isinstance(keep, (str, bool)) and keep < 1:
            raise ValueError(f"keep={keep!r} is a number of rows, at least 1; keep=False keeps none.")
        is_needed = vote.fits_weights or isinstance(self.kernel, AutoSites)
        if keep is False or (keep == "auto" and not is_needed):
            return None
        most = None if isinstance(keep, (str, bool)) else int(keep)
        return (KeptDocuments if documents else KeptRows).empty(h, seed, most)

    def _learn(
        self,
        rows: CheckedRows,
        classes: Any,
        *,
        whole: bool = False,
        layout: Learning | None = None,
        choose: bool = False,
    ) -> Examples:
        """Learn rows, and return them as examples; from nothing with `whole`, or where nothing was learnt before.

        With `whole` they are all that there is, so that everything is chosen by them. With `choose` they cut numbers
        into ranges where no rows did.
        """
        self._refuse_to_record()
        reset = whole or not hasattr(self, "memory_")
        declared = rows.labels[:0] if classes is None else label_array(classes)
        dtype = common_label_dtype(rows.labels, declared, *([] if reset else [self._label_ends()]))
        examples = rows.examples()
        if reset and not len(examples) and not len(declared):
            raise ValueError("There is nothing to learn: every sample_weight is zero and no class was declared.")
        if layout is not None and not reset:
            raise ValueError("layout= is settled at the first call; this model has learnt already.")
        if reset:
            check_column_names(getattr(self, "feature_names_in_", ()))
        if whole:
            self._choose(examples, seed_of(self.random_state), Vocabulary.of(declared))
            self._check_class_weight()
            self._kinds, self.label_dtype_ = ColumnKinds.of(examples.contexts), dtype
            return examples
        if reset:
            h, n_labels = examples.contexts.h, len(examples.labels.union(Vocabulary.of(declared)))
            if layout is not None:
                examples = self._as_layout(examples, layout)
            like = None if layout is None else self._settled_like(layout, n_labels)
            self._start(h, like or settling.for_pieces(self._axes(), n_labels, examples), layout)
        elif (
            self._columns is not None
            and (choose or not self._has_cells())
            and not self._pinned
            and self._holds_nothing()
        ):
            self._start_again(examples)
        self._note_kinds(ColumnKinds.of(examples.contexts))
        memory = self.memory_.snapshot()
        if len(declared):
            memory.declare_labels(Vocabulary.of(declared))
        self._count(memory, examples, 1)
        self.memory_, self.label_dtype_ = memory, dtype
        self._change_kept(examples, 1)
        return examples

    def _choose(
        self, examples: Examples, seed: int, declared: Vocabulary, kept: Kept | None = None, *, quickly: bool = False
    ) -> None:
        """Choose all that is automatic by examples, learn them and fit the vote: what both `fit` and `refit` do.

        Everything is a function of the multiset of examples. `kept` are these rows, where they are kept already; with
        `quickly`, one fold is held out, however few there are.
        """
        h, axes = examples.contexts.h, self._axes()
        room = self._nothing_kept(h, seed, axes.vote_for(len(examples.labels)))
        if room is None or type(room) is not type(kept) or room.most != kept.most:  # or `keep` was set since
            kept = None if room is None else room.changed(examples, 1)
        rows = kept.lowest(CHOICE_ROWS) if isinstance(kept, KeptRows) else examples

        def count(memory: Memory) -> Memory:
            self._count(memory, kept.examples() if isinstance(kept, KeptRows) and kept.holds_all else examples, 1)
            return memory

        self._choose_by(rows, kept, seed, declared, count, quickly=quickly)
        self._fit_vote_to_kept(examples)
        self._refitted = _EVERYTHING_FITTED

    def _choose_by(
        self,
        rows: Examples,
        kept: Kept | None,
        seed: int,
        declared: Vocabulary,
        count: Callable[[Memory], Memory],
        *,
        quickly: bool = False,
    ) -> None:
        """Choose all that is automatic by some rows; `count` returns the memory, which is given empty, with all rows.

        The layout of the memory is a function of the kept rows too: they settle what is open in it.
        """
        h = rows.contexts.h
        self._start(h, settling.for_table(self._axes(), rows, seed, quickly=quickly), seed=seed)
        memory = self._empty_memory(kept)
        if len(declared):
            memory.declare_labels(declared)
        self.memory_, self._kept = count(memory), kept
        self._chosen_at = int(self.memory_.label_counts.sum())

    def _empty_memory(self, kept: Kept | None) -> Memory:
        """Return an empty memory; where only some rows are kept, these settle what is open in its layout.

        Where all are kept, they are counted first and settle it then.
        """
        memory = self.memory_.snapshot()
        return memory if kept is None or kept.holds_all else self._settled_memory(memory, kept)

    def _settled_memory(self, memory: Memory, kept: Kept) -> Memory:
        """Return an empty memory, given one; where its layout is open, the kept rows settle it."""
        if memory.undecided():
            self._count_kept(memory, kept, 1)
            memory = memory.empty_like()
        return memory

    def _room_for_rows(self, h: int, columns: str | None, seed: int, layout: Learning | None) -> KeptRows | None:
        """Return what the rows of a table of these columns are kept in, while others read it; nothing is learnt yet.

        Where no rows are kept, nothing may depend on them.
        """
        check_missing_rule(self._missing())
        self._columns = columns
        if layout is not None:
            fresh = self._nothing_kept(h, layout.memory_.seed, self._settled_like(layout, 2).vote)
            theirs = layout._kept
            return theirs.emptied() if isinstance(theirs, KeptRows) and fresh is not None else fresh  # type: ignore[return-value]
        axes = self._axes()
        vote = axes.vote_for(2)
        kernel, room = resolved_kernel(axes.kernel, axes.memory, vote), self._nothing_kept(h, seed, vote)
        if room is None and (
            columns is not None
            or vote.fits_weights
            or isinstance(kernel, AutoSites)
            or clone(axes.memory).open(kernel.resolve(h), seed).undecided()
        ):
            raise ValueError(
                "Engines choose from the rows that a model keeps, and this one keeps none: use keep=True, and "
                "set_params(keep=False).refit() afterwards, or what depends on no rows (names only, memory='exact' and "
                "vote='sum')."
            )
        return room  # type: ignore[return-value]

    def _learn_table(
        self,
        facts: TableFacts,
        classes: Any,
        layout: Learning | None,
        count: Callable[[Memory], Memory],
        *,
        kept_are_counted: bool,
    ) -> None:
        """Learn a table that others have read, as `fit` does; `count` returns the memory with all its rows.

        With `kept_are_counted`, it is not asked where all rows are kept.
        """
        h, kept = len(facts.names), facts.kept
        listed = np.empty(0, facts.label_dtype) if classes is None else label_array(classes)
        declared = Vocabulary.of(listed)
        self.label_dtype_ = common_label_dtype(classes_array(facts.labels, facts.label_dtype), listed)
        self._columns, self._types, self.n_features_in_ = facts.columns, facts.types, h
        self.feature_names_in_ = object_array(facts.names)

        def counted(memory: Memory) -> Memory:
            if kept is not None and kept.holds_all and kept_are_counted:
                self._count_kept(memory, kept, 1)
                return memory
            memory = count(memory if kept is None else self._settled_memory(memory, kept))
            memory.declare_labels(declared)
            return memory

        if layout is not None:
            n_labels = len(facts.labels.union(declared))
            self._start(h, self._settled_like(layout, n_labels), layout)
            self.memory_.declare(declared)
            self.memory_, self._kept = counted(self.memory_), kept
        else:
            rows = facts.no_rows() if kept is None else kept.lowest(CHOICE_ROWS)
            self._choose_by(rows, kept, facts.seed, declared, counted)
            self._fit_vote_to_kept()
        self._check_class_weight()
        self._kinds = facts.kinds
        if is_auto(getattr(self, "memory", None)) and not _is_in_segments(self.memory_):
            warn_if_large(self.memory_)

    def _choose_documents(self, kept: KeptDocuments, *, is_counted: bool = False) -> None:
        """Choose all that is automatic by documents, all of which are kept, count them and fit the vote.

        It is what both `fit_stream` and `refit` do. With `is_counted` the memory has learnt them in the order in which
        they came: it is taken as it is where neither its layout nor the order would change it.
        """
        self._types = None  # the tokens of documents are names
        counted, weights, axes = self.memory_, self.sites_.weights, self._axes()
        settled = settling.for_stream(axes, kept.h, kept.facts(len(counted.labels)))
        self._start(kept.h, settled, seed=kept.seed, documents=True)
        is_alike = self.memory_.layout() == counted.layout() and np.array_equal(self.sites_.weights, weights)
        if is_counted and is_alike and counts_in_any_order(axes.memory):
            self.memory_ = counted
        else:
            memory = self.memory_.snapshot()
            memory.declare_labels(counted.declared)
            self._count_kept(memory, kept, 1)
            self.memory_ = memory
        if self._kept is not None and self._kept.most != kept.most:  # `keep` was set since
            self._kept = self._kept.plus(kept, 1)
        elif self._kept is not None:
            self._kept = kept
        self.cutting_ = kept.cutting
        self._chosen_at = int(self.memory_.label_counts.sum())
        self._fit_vote_to_kept()
        self._refitted = _EVERYTHING_FITTED

    def _choose_if_doubled(self) -> bool:
        """Choose again where twice as many examples are held as at the last choice; return whether it was done."""
        kept = self._kept
        if not (is_auto(self.vote) or self._kernel_is_automatic()):
            return False
        if not isinstance(kept, KeptRows) or not self._can_choose() or not self._has_doubled():
            return False
        kept = self._decided_again(kept)
        self._choose(kept.examples(), kept.seed, self.memory_.declared, kept, quickly=True)
        return True

    def _has_doubled(self, since: int = 0) -> bool:
        """Return whether enough examples are held to choose, and twice as many as at the last choice, or `since`."""
        n = int(self.memory_.label_counts.sum())
        return n >= max(settling.FIRST_BATCH, 2 * self._chosen_at, 2 * since)

    def _kernel_is_automatic(self) -> bool:
        return is_auto(self.kernel) or isinstance(self.kernel, AutoSites)

    def _can_choose(self) -> bool:
        """Return whether another layout may be chosen by the kept rows: all are kept, and no layout was given."""
        kept = self._kept
        is_whole = isinstance(kept, KeptRows) and kept.holds_all
        return is_whole and not self._pinned and not _is_in_segments(self.memory_)

    def _can_choose_by_documents(self) -> bool:
        """Return the same for documents: `refit` chooses by them, and nothing else does."""
        kept = self._kept
        is_whole = isinstance(kept, KeptDocuments) and kept.holds_all
        return is_whole and not self._pinned and not _is_in_segments(self.memory_)

    def _take_choice(self, chosen: Learning) -> None:
        """Take layout, vote and weights that another version of this model has chosen; count the kept rows again."""

        def take(model: Learning) -> None:
            kept = model._kept
            if kept is None or not (model._can_choose() or model._can_choose_by_documents()):
                raise ValueError("only a model that keeps all its rows can take another layout")
            if chosen.n_features_in_ != model.n_features_in_:
                raise ValueError("the layout is of a model with other columns")
            if isinstance(kept, KeptRows) and chosen._columns != model._columns:
                kept = model._kept = model._with_kinds(kept, chosen._kinds_of_columns())
            model.cutting_, model._types = chosen.cutting_, chosen._types  # as `refit` does
            declared = model.memory_.declared
            model._take_layout(chosen)
            model._stale = False
            memory = chosen.memory_.empty_like()
            memory.declare_labels(declared)
            model._count_kept(memory, kept, 1)
            model.memory_ = memory
            if isinstance(kept, KeptDocuments) and not len(kept):  # as after `open`
                model._kept = model._nothing_kept(kept.h, kept.seed, model.vote_)

        self._edited(take)

    def _note_kinds(self, kinds: ColumnKinds) -> None:
        """Note the kinds of the columns before they are learnt."""
        if not self.memory_.label_counts.any():
            self._kinds = kinds
        elif self._kinds is not None:
            self._kinds = self._kinds.plus(kinds)

    def _forget(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._take_back(self._examples(X, y, sample_weight))

    def _take_back(self, examples: Examples) -> None:
        self._check_stored(examples)
        memory = self.memory_.snapshot()
        try:
            self._count(memory, examples, -1)
            self._take_checked(memory)
            self._change_kept(examples, -1)
            if len(examples):
                self._note_forgetting(examples)
        except NotStoredError:
            kept = self._kept
            lacking = kept.lacking(examples) if isinstance(kept, KeptRows) and kept.holds_all else []
            if lacking:
                raise not_held(lacking, len(examples)) from None
            raise

    def _check_stored(self, examples: Examples) -> None:
        """Refuse rows that are not stored, and say which, where the kept rows are the ledger of the memory."""
        rows = self._ledger_rows()
        lacking = [] if rows is None else rows.lacking(examples)
        if lacking:
            raise not_held(lacking, len(examples))

    def _ledger_rows(self) -> KeptRows | None:
        """Return the kept rows where they are the ledger of the memory."""
        memory, kept = self.memory_, self._kept
        is_ledger = isinstance(memory, Ledgered) and not memory.has_ledger
        return kept if is_ledger and isinstance(kept, KeptRows) else None

    def _take_back_kept(self, rows: Kept) -> None:
        memory = self.memory_.snapshot()
        self._count_kept(memory, rows, -1)
        self._take_checked(memory)
        self._kept = None if self._kept is None else self._kept.plus(rows, -1)

    def _take_layout(self, other: Any) -> None:
        self.kernel_, self.sites_, self.vote_ = other.kernel_, other.sites_, copy.deepcopy(other.vote_)
        self.choices_, self._chosen_at, self._cells = other.choices_, other._chosen_at, other._cells

    def _take_checked(self, memory: Memory) -> None:
        """Take a memory that has forgotten rows; where all rows are kept, each is looked up there."""
        if self._kept is not None and self._kept.threshold == EVERYTHING:
            memory.forgot_unchecked = self.memory_.forgot_unchecked
        self.memory_ = memory

    def _change_kept(self, examples: Examples, sign: int) -> None:
        if self._kept is not None:
            self._kept = self._kept.changed(examples, sign)

    def _change_one(self, tokens: Sequence[Any], label: Any, by: int) -> None:
        context = one_context(tokens, getattr(self, "feature_names_in_", None), "learn_one" if by > 0 else "forget_one")
        (context,) = self._cut([context], self.n_features_in_)
        if by > 0:
            self._admit_one(context)
        if self._columns is None:
            context = filled_tokens(context, self._missing())
        if len(context) != self.n_features_in_:
            raise ValueError(f"The model was fitted on rows of {self.n_features_in_} values; this has {len(context)}.")
        dtype = self.label_dtype_
        if by > 0 and not holds_label(dtype, label):
            dtype = common_label_dtype(label_array([label]), self._label_ends())
        if self._columns is not None:
            context = self._one_row(context)
        memory = self.memory_.snapshot()
        row = row_of(context, label) if isinstance(self._kept, KeptRows) else ()
        rows = self._ledger_rows() if by < 0 else None
        if rows is not None and rows.times(row) + by < 0:
            raise not_held([0], 1)
        if self._cells is None:
            memory.update_one(context, label, by)
        else:
            memory.update_one_row(self._cells, context, label, by)
        self._take_checked(memory)
        self.label_dtype_ = dtype
        if isinstance(self._kept, KeptRows):
            self._kept = self._kept.changed_one(row, by)
        elif self._kept is not None:
            self._change_kept(Examples.of([context], [label]), by)
        if by < 0:
            self._note_forgetting(None if self._witness is None else Examples.of([context], [label]))

    def _one_row(self, context: Sequence[Any]) -> list[Any]:
        """Return the tokens of one row with numbers."""
        assert self._columns is not None
        if all(map(is_own_token, context, self._columns)):
            return [as_token(value) for value in context]
        names = getattr(self, "feature_names_in_", None)
        columns = [object_array([value]) for value in context]
        listed = None if names is None else names.tolist()
        row: list[Any] = tokens_of(columns, self._columns, self._missing(), listed, learning=True)[0].tolist()
        return [as_token(token) for token in row]

    def _label_ends(self) -> NDArray[Any]:
        """Return a few labels that have the type of all, and their largest and smallest number."""
        return classes_array(self.memory_.labels.ends(), self.label_dtype_)

    def _refit(self, what: str) -> None:
        """Choose all that is automatic by the kept rows and fit the vote to them; with "weights", fit it only."""
        kept = self._kept
        if kept is None:
            raise ValueError(
                "refit() needs the rows that a model keeps, and this one keeps none: its vote has nothing to fit, "
                "keep=False was given, or a model without rows was merged. refit(rows=(X, y)) takes the rows; "
                "fit_vote(X, y) fits weights to examples of your choice."
            )
        if what == "weights":
            self._fit_vote_anew()
        elif not kept.holds_all:
            self._check_numeric()
            self._settle_again(kept)
        elif self._pinned or not len(kept):
            self._check_numeric()
            self._count_again(kept)
            self._fit_vote_anew()
            self._refitted = _WEIGHTS_FITTED if self._pinned else _EVERYTHING_FITTED
        elif isinstance(kept, KeptDocuments):
            self._choose_documents(kept)
        elif isinstance(kept, KeptRows):
            kept = self._decided_again(kept)
            self._choose(kept.examples(), kept.seed, self.memory_.declared, kept)
        if getattr(self, "keep", "auto") is False:  # set after they were learnt
            self._kept = None

    def _refit_to(self, rows: Any) -> None:
        """Choose again, and count rows that are given: (X, y), or an iterable of such pairs."""
        kept, seed, declared = self._kept, self.memory_.seed, self.memory_.declared
        if not isinstance(kept, KeptRows) or len(kept) < CHOICE_ROWS:
            pairs = list(_pairs(rows))  # they are needed for the choice, too
            self._decide_by([X for X, _ in pairs])
            self._choose(joined_examples(list(self._batches(pairs))), seed, declared)
            return
        self._check_numeric()
        batches = self._batches(_pairs(rows))
        chosen = settling.for_table(self._axes(), kept.lowest(CHOICE_ROWS), seed)
        self._start(kept.h, chosen, seed=seed)
        memory = self._empty_memory(kept)
        memory.declare_labels(declared)
        for examples in batches:
            self._count(memory, examples, 1)
            self._change_kept(examples, 1)
        if not memory.label_counts.any():
            raise ValueError("There is nothing to learn: no rows were given.")
        self.memory_, self._chosen_at = memory, int(memory.label_counts.sum())
        self._fit_vote_to_kept()
        self._refitted = _EVERYTHING_FITTED

    def _batches(self, pairs: Iterable[tuple[Any, Any]]) -> Iterator[Examples]:
        """Yield pairs (X, y) as examples; the type of the labels becomes one for them too."""
        for X, y in pairs:
            checked = self._rows(X, y, None)
            self.label_dtype_ = common_label_dtype(checked.labels, np.empty(0, self.label_dtype_), self._label_ends())
            yield checked.examples()

    def _count_again(self, kept: Kept) -> None:
        """Make the counts again from all rows, under the same layout; with no rows, as `open` does."""
        declared = self.memory_.declared
        if not len(kept) and not self._pinned:
            self._declare_nothing(kept.h)
            nothing = kept.examples() if isinstance(kept, KeptRows) else None
            self._start(kept.h, settling.for_pieces(self._axes(), len(declared), nothing), seed=kept.seed)
            self._kept = kept if isinstance(kept, KeptRows) else self._kept
        elif isinstance(kept, KeptDocuments) and len(kept):
            self.cutting_ = kept.cutting
        memory = self.memory_.empty_like()
        memory.declare_labels(declared)
        self._count_kept(memory, kept, 1)
        self.memory_ = memory

    def _settle_again(self, kept: Kept) -> None:
        """Choose by some of the rows, as `fit` of all of them did, and take the vote if the sites are the same."""
        if isinstance(kept, KeptRows) and len(kept) >= CHOICE_ROWS and not self._pinned:
            settled = settling.for_table(self._axes(), kept.lowest(CHOICE_ROWS), kept.seed)
            if _is_same_layout(settled, self):
                self.vote_, self.choices_ = self._weighed(settled.vote), settled.choices
                self._chosen_at = int(self.memory_.label_counts.sum())
                self._fit_vote_to_kept()
                self._refitted, self._stale = _EVERYTHING_FITTED, False
                return
        if not self._pinned:
            how = "refit(rows=…)" if isinstance(kept, KeptRows) else "fit_stream(…)"
            why = f"{self.choices_.kernel}; choose again: {how}"
            self.choices_ = replace(self.choices_, kernel=why, held_out=None)
        self._fit_vote_anew()

    def _fit_vote_anew(self) -> None:
        self.vote_ = self._weighed(clone(self.vote_))  # without what was fitted
        self._fit_vote_to_kept()
        self._refitted = _WEIGHTS_FITTED
        self._note_fitted_weights()

    def _note_forgetting(self, examples: Examples | None) -> None:
        if self._witness is not None and examples is not None:
            self._witness = self._witness.plus_examples(examples)
        self._stale = self._stale or bool(
            self._cells is not None or isinstance(self.kernel, AutoSites) or self.vote_.state()
        )

    def _note_fitted_weights(self) -> None:
        """Note that the weights depend on no forgotten row any more; a layout that was chosen by rows still may."""
        by_rows = self._cells is not None or self._kernel_is_automatic()
        self._stale = self._stale and by_rows and not self._pinned

    def _fit_vote_to_kept(self, learnt: Examples | None = None) -> None:
        """Fit the vote to what is kept, or to what was learnt where nothing is kept; to nothing if that is too few."""
        kept = self._kept
        examples = learnt if kept is None else kept.fitting_sample(self.vote_) if len(kept) else None
        if examples is not None and self._is_enough(examples):
            self._fit_vote_to(examples)

    def _take_weights(self, stored: StoredArrays) -> None:
        """Take weights that were fitted to another version of this model; ValueError if they are of another model."""
        vote = clone(self.vote_)
        vote.restore(stored, self.sites_)
        stored.finish()

        def take(model: Learning) -> None:
            model.vote_ = vote
            model._note_fitted_weights()

        self._edited(take)

    def _is_enough(self, examples: Examples) -> bool:
        """Return whether there are enough examples to fit an automatic vote to; any other is fitted to any number."""
        return not is_auto(self.vote) or int(examples.multiplicity.sum()) >= settling.MIN_FITTED_EXAMPLES

    def _examples(self, X: Any, y: Any, sample_weight: Any) -> Examples:
        return self._rows(X, y, sample_weight).examples()

    def _rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool = False) -> CheckedRows:
        """Return what a user hands over to be learnt or forgotten, checked."""
        check_missing_rule(self._missing())
        return CheckedRows.from_user(
            self, X if reset else self._cut(X, self.n_features_in_), y, sample_weight, reset=reset
        )

    def _fit_trees_to(self, examples: Examples, *, leave_one_out: bool) -> None:
        """Fit the weights of trees: to rows that did not grow them."""
        if not leave_one_out:
            raise ValueError("With trees, weights are fitted to stored rows: leave out leave_one_out=False.")
        assert self._cells is not None
        assert isinstance(self.vote_, LogLinear)
        kept, memory = self._kept, self.memory_
        is_all = isinstance(kept, KeptRows) and kept.holds_all and len(examples) == len(kept)
        if not self.vote_.fits_weights:
            return
        parts, reader = (self.vote_, self._cells, self.sites_), memory.static_reader()
        with progress_bar("Fitting weights, stages"):
            fit_tree_weights(*parts, examples, memory.seed, reader, rows_are_all=is_all)

    def _fit_vote_to(self, examples: Examples, *, leave_one_out: bool = True) -> None:
        if self.vote_.has_weights:  # else no reader is made
            memory, self.vote_ = self.memory_, copy.copy(self.vote_)
            if self._cells is not None and self._cells.forest is not None and isinstance(self.vote_, LogLinear):
                self._fit_trees_to(examples, leave_one_out=leave_one_out)
                return
            examples = examples if self._cells is None else self._cells.counted(examples)
            reader = memory.static_reader() if self.vote_.keeps_cases else memory.reader()
            if _is_in_segments(memory):
                reader = rows_to_fit(reader, self.vote_, self.sites_, examples)
            with progress_bar("Fitting weights, stages"):
                self.vote_.fit_to(reader, examples, self.sites_, seed=memory.seed, leave_one_out=leave_one_out)


def _n_rows(model: Learning) -> int:
    """Return how many rows a model holds and its witness has seen go: to forget does not change it."""
    return int(model.memory_.label_counts.sum()) + (0 if model._witness is None else model._witness.rows)


def _n_threads(n_jobs: Any) -> int:
    """Return how many threads `n_jobs` means, as in scikit-learn: -1 for all cores, -2 for all but one."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, (int, np.integer)) or isinstance(n_jobs, bool) or not n_jobs:
        raise ValueError(f"n_jobs={n_jobs!r} is a number of threads, -1 for all cores, or None for one.")
    return int(effective_n_jobs(int(n_jobs)))


def _pairs(rows: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (X, y), or each pair of an iterable."""
    wanted = "rows= takes (X, y), or an iterable of such pairs"
    if not isinstance(rows, Iterable):
        raise TypeError(f"{wanted}, not {rows!r}.")
    for pair in [rows] if isinstance(rows, tuple) and len(rows) == 2 else rows:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{wanted}; one of these is a {type(pair).__name__}, not a pair.")
        yield pair[0], pair[1]


def _is_same_layout(settled: Settled, model: Learning) -> bool:
    mine, theirs = model._cells, settled.cells
    if (mine is None) != (theirs is None) or (mine is not None and theirs is not None and mine != theirs):
        return False
    h = model.n_features_in_ if theirs is None else theirs.h
    return settled.kernel.resolve(h).positions == model.sites_.positions


def mute_forgetting_warning(model: Learning) -> None:
    """Switch the warning about forgotten rows off, for callers that tell their users when to refit."""
    model._warned = True


def warn_of_forgotten_rows(model: Learning) -> None:
    """Warn that choices and weights depend on rows that the model has forgotten; the model warns once."""
    model._warned = True
    warnings.warn(
        f"Rows were forgotten, but what was chosen and fitted still depends on them until {way_to_refit(model)}. "
        "Each model warns once.",
        UserWarning,
        stacklevel=5,
    )


def refits_whole(model: Learning) -> bool:
    """Return whether `refit` needs no data to make a model that depends on no forgotten row."""
    return model._kept is not None and (model._kept.holds_all or model._pinned)


def way_to_refit(model: Learning) -> str:
    """Return the call after which nothing depends on forgotten rows."""
    if refits_whole(model):
        return "refit()"
    if model.cutting_ is not None:
        return "fit_stream(…), with the documents that are left"
    return "refit(rows=(X, y)), with the rows that are left"


def check_is_model(layout: Any) -> None:
    """Refuse what has no layout."""
    if not isinstance(layout, Learning):
        raise TypeError(
            f"layout={layout!r} is not a fitted model: pass the MemoryClassifier whose layout is to be used."
        )


def rows_to_fit(reader: Reader, vote: Vote, sites: Sites, examples: Examples) -> Reader:
    """Return what weights are fitted with where a table lies in segments: the rows that these examples read.

    Continuation counts need the whole table.
    """
    if not isinstance(vote, Mixture):
        return reader.restricted(examples.contexts)
    return reader if vote.components(sites).continued else reader.restricted(examples.contexts, times=True)


def _is_in_segments(memory: Memory) -> bool:
    return isinstance(memory, InSegments) and memory.segmented is not None


def _shard_of(model: Learning, memory: Memory) -> Memory:
    """Return an empty memory of the fitted model's layout, if it is of the same kind as `memory`."""
    shard = model.memory_.empty_like()
    mine, theirs = memory.layout(), shard.layout()
    for name in ("memory", "h", "sites"):
        if mine[name] != theirs[name]:
            raise LayoutError(f"layout= is of another kind: {name} is {mine[name]!r} here and {theirs[name]!r} there.")
    return shard


def seed_of(random_state: Any) -> int:
    """Return the seed of a model; of None, a new one."""
    if isinstance(random_state, (int, np.integer)):
        if abs(int(random_state)) >= 2**64:  # the limit of parameters in files
            raise ValueError(f"random_state={random_state} does not fit in 64 bits: use a smaller seed.")
        return int(random_state)
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    return int(check_random_state(random_state).randint(2**31))
