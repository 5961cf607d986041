"""How a model learns and takes back: the parts that are settled first, then examples, their sample and the vote.

Every method here is a step of an edit and works on a private version of the model (:mod:`hammemo._versions`); who asks
for the edit publishes it. The public methods are in `classifiers`, those for streams in `streaming`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from hammemo._arrays.integers import object_array
from hammemo.kernels import AutoSites
from hammemo.memories.errors import LayoutError
from hammemo.memories.exact import InParts
from hammemo.models import settling
from hammemo.models.additive import Additive
from hammemo.models.answering import Answering
from hammemo.models.axes import StreamFacts, counts_in_any_order, resolved_memory
from hammemo.models.explanations import one_context
from hammemo.models.kept import EVERYTHING
from hammemo.models.kept_documents import KeptDocuments
from hammemo.models.kept_rows import KeptRows, row_of
from hammemo.models.names import is_auto
from hammemo.models.settling import Axes, Choices
from hammemo.tokens.column_kinds import ColumnKinds
from hammemo.tokens.columns import tokens_of
from hammemo.tokens.contexts import Examples, check_column_names, joined_examples
from hammemo.tokens.labels import classes_array, common_label_dtype, holds_label, label_array
from hammemo.tokens.missing import check_missing_rule, filled_tokens
from hammemo.tokens.user_input import CheckedRows
from hammemo.tokens.vocabulary import Vocabulary, as_token
from hammemo.votes import LogLinear
from hammemo.votes.tree_weights import fit_tree_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels import SiteKernel
    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory
    from hammemo.models.kept import Kept
    from hammemo.models.scorer import Scorer
    from hammemo.models.settling import Settled
    from hammemo.tokens.contexts import Contexts
    from hammemo.votes import Vote

CHOICE_ROWS: Final = 2**17
"""Sites are chosen by the kept rows with the lowest hashes, at most this number of rows."""

Self = TypeVar("Self", bound="Learning")
Result = TypeVar("Result")


class Learning(Additive, Answering):
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

    def _question(self: Self, X: Any) -> tuple[Self, Contexts, Scorer]:
        warn_of_forgotten_rows(self)
        return super()._question(X)

    def _edited(self: Self, change: Callable[[Self], Result]) -> Result:
        def counted(model: Self) -> Result:
            result = change(model)
            model.version_ = getattr(model, "version_", 0) + 1
            return result

        return super()._edited(counted)

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
        self.vote_, self.choices_ = settled.vote, settled.choices
        self._cells = settled.cells
        self.sites_ = self.kernel_.resolve(h if settled.cells is None else settled.cells.h)
        self.sites_.check_size()
        if self.sites_.free and not self.vote_.reads_free_sites:
            raise ValueError(
                f"vote={self.vote_!r} reads positions only, and the kernel has a {self.sites_.free[0].kind!r}: "
                "use vote='mixture', or 'log-linear'."
            )
        memory = settled.memory.open(self.sites_, _seed(self.random_state) if seed is None else seed)
        self.memory_ = memory if layout is None else _shard_of(layout, memory)
        self.cutting_ = None if layout is None else layout.cutting_
        self._pinned, self._chosen_at = layout is not None, 0
        fresh = self._nothing_kept(h, self.memory_.seed, self.vote_, documents=documents)
        theirs = getattr(layout, "_kept", None)
        self._kept = theirs.emptied() if fresh is not None and type(theirs) is type(fresh) else fresh

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
    ) -> Examples:
        """Learn rows, and return them as examples; from nothing with `whole`, or where nothing was learnt before.

        With `whole` they are all that there is, so that everything is chosen by them.
        """
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
            self._choose(examples, _seed(self.random_state), Vocabulary.of(declared))
            self._kinds, self.label_dtype_ = ColumnKinds.of(examples.contexts), dtype
            return examples
        if reset:
            h, n_labels = examples.contexts.h, len(examples.labels.union(Vocabulary.of(declared)))
            like = None if layout is None else self._settled_like(layout, n_labels)
            self._start(h, like or settling.for_pieces(self._axes(), n_labels, examples), layout)
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
        self._start(h, settling.for_table(axes, rows, seed, quickly=quickly), seed=seed)
        memory = self.memory_.snapshot()
        if len(declared):
            memory.declare_labels(declared)
        self._count(memory, kept.examples() if isinstance(kept, KeptRows) and kept.holds_all else examples, 1)
        self.memory_, self._kept = memory, kept
        self._chosen_at = int(memory.label_counts.sum())
        self._fit_vote_to_kept(examples)

    def _choose_documents(self, kept: KeptDocuments, *, is_counted: bool = False) -> None:
        """Choose all that is automatic by documents, all of which are kept, count them and fit the vote.

        It is what both `fit_stream` and `refit` do. With `is_counted` the memory has learnt them in the order in which
        they came: it is taken as it is where neither its layout nor the order would change it.
        """
        counted, weights, axes = self.memory_, self.sites_.weights, self._axes()
        settled = settling.for_stream(axes, kept.h, StreamFacts(len(counted.labels), kept.mean_length))
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

    def _choose_if_doubled(self) -> bool:
        """Choose anew where twice as many examples are held as at the last choice; return whether it was done."""
        kept = self._kept
        if not self._has_doubled() or not (is_auto(self.vote) or self._kernel_is_automatic()):
            return False
        if not isinstance(kept, KeptRows) or not self._can_choose():
            return False
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
        return is_whole and not self._pinned and not _is_in_parts(self.memory_)

    def _take_choice(self, chosen: Learning) -> None:
        """Take layout, vote and weights that another version of this model has chosen; count the kept rows anew."""

        def take(model: Learning) -> None:
            kept = model._kept
            if kept is None or not model._can_choose():
                raise ValueError("only a model that keeps all its rows can take another layout")
            if (chosen.n_features_in_, chosen._columns) != (model.n_features_in_, model._columns):
                raise ValueError("the layout is of a model with other columns")
            declared = model.memory_.declared
            model._take_layout(chosen)
            memory = chosen.memory_.empty_like()
            memory.declare_labels(declared)
            model._count_kept(memory, kept, 1)
            model.memory_ = memory

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
        memory = self.memory_.snapshot()
        self._count(memory, examples, -1)
        self._take_checked(memory)
        self._change_kept(examples, -1)

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
        if self._columns is None:
            context = filled_tokens(context, self._missing())
        if len(context) != self.n_features_in_:
            raise ValueError(
                f"The model was fitted on contexts of {self.n_features_in_} tokens; this has {len(context)}."
            )
        dtype = self.label_dtype_
        if by > 0 and not holds_label(dtype, label):
            dtype = common_label_dtype(label_array([label]), self._label_ends())
        asked = context
        if self._columns is not None:
            context = self._one_row(context)
            asked = context if self._cells is None else self._cells.of_one(context)
        memory = self.memory_.snapshot()
        memory.update_one(asked, label, by)
        self._take_checked(memory)
        self.label_dtype_ = dtype
        if isinstance(self._kept, KeptRows):
            self._kept = self._kept.changed_one(row_of(context, label), by)
        else:
            self._change_kept(Examples.of([context], [label]), by)

    def _one_row(self, context: Sequence[Any]) -> list[Any]:
        """Return the tokens of one row with numbers."""
        assert self._columns is not None
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
            self._settle_again(kept)
        elif self._pinned or not len(kept):
            self._count_again(kept)
            self._fit_vote_anew()
        elif isinstance(kept, KeptDocuments):
            self._choose_documents(kept)
        elif isinstance(kept, KeptRows):
            self._choose(kept.examples(), kept.seed, self.memory_.declared, kept)
        if getattr(self, "keep", "auto") is False:  # set after they were learnt
            self._kept = None

    def _refit_to(self, rows: Any) -> None:
        """Choose anew, and count rows that are given: (X, y), or an iterable of such pairs."""
        kept, seed, declared = self._kept, self.memory_.seed, self.memory_.declared
        batches = self._batches(rows)
        if not isinstance(kept, KeptRows) or len(kept) < CHOICE_ROWS:
            self._choose(joined_examples(list(batches)), seed, declared)  # they are needed for the choice, too
            return
        chosen = settling.for_table(self._axes(), kept.lowest(CHOICE_ROWS), seed)
        self._start(kept.h, chosen, seed=seed)
        memory = self.memory_.snapshot()
        memory.declare_labels(declared)
        for examples in batches:
            self._count(memory, examples, 1)
            self._change_kept(examples, 1)
        if not memory.label_counts.any():
            raise ValueError("There is nothing to learn: no rows were given.")
        self.memory_, self._chosen_at = memory, int(memory.label_counts.sum())
        self._fit_vote_to_kept()

    def _batches(self, rows: Any) -> Iterator[Examples]:
        """Yield (X, y), or each pair of an iterable, as examples; the type of the labels becomes one for them too."""
        wanted = "rows= takes (X, y), or an iterable of such pairs"
        if not isinstance(rows, Iterable):
            raise TypeError(f"{wanted}, not {rows!r}.")
        for pair in [rows] if isinstance(rows, tuple) and len(rows) == 2 else rows:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(f"{wanted}; one of these is a {type(pair).__name__}, not a pair.")
            X, y = pair
            checked = self._rows(X, y, None)
            self.label_dtype_ = common_label_dtype(checked.labels, np.empty(0, self.label_dtype_), self._label_ends())
            yield checked.examples()

    def _count_again(self, kept: Kept) -> None:
        """Make the counts anew from all rows, under the same layout; with no rows, as `open` does."""
        declared = self.memory_.declared
        if not len(kept) and not self._pinned:
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
                self.vote_, self.choices_ = settled.vote, settled.choices
                self._chosen_at = int(self.memory_.label_counts.sum())
                self._fit_vote_to_kept()
                return
        if not self._pinned:
            how = "refit(rows=…)" if isinstance(kept, KeptRows) else "fit_stream(…)"
            self.choices_ = replace(self.choices_, kernel=f"{self.choices_.kernel}; choose again: {how}")
        self._fit_vote_anew()

    def _fit_vote_anew(self) -> None:
        self.vote_ = clone(self.vote_)  # without what was fitted
        self._fit_vote_to_kept()

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
        self._edited(lambda model: setattr(model, "vote_", vote))

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
        if self.vote_.fits_weights:
            fit_tree_weights(
                self.vote_, self._cells, self.sites_, examples, memory.seed, memory.static_reader(), rows_are_all=is_all
            )

    def _fit_vote_to(self, examples: Examples, *, leave_one_out: bool = True) -> None:
        if self.vote_.has_weights:  # else no reader is made
            memory, self.vote_ = self.memory_, copy.copy(self.vote_)
            if self._cells is not None and self._cells.forest is not None and isinstance(self.vote_, LogLinear):
                self._fit_trees_to(examples, leave_one_out=leave_one_out)
                return
            examples = examples if self._cells is None else self._cells.counted(examples)
            reader = memory.static_reader() if self.vote_.keeps_cases else memory.reader()
            self.vote_.fit_to(reader, examples, self.sites_, seed=memory.seed, leave_one_out=leave_one_out)


def _is_same_layout(settled: Settled, model: Learning) -> bool:
    mine, theirs = model._cells, settled.cells
    if (mine is None) != (theirs is None) or (mine is not None and theirs is not None and mine != theirs):
        return False
    h = model.n_features_in_ if theirs is None else theirs.h
    return settled.kernel.resolve(h).positions == model.sites_.positions


_stale: WeakSet[Learning] = WeakSet()
"""The models that have forgotten rows on which what was chosen or fitted still depends, until the next refit."""

_told: WeakSet[Learning] = WeakSet()
"""The models of which that was said, or is not to be said."""


def silence_forgetting(model: Learning) -> None:
    """Let nothing be said of forgotten rows: who calls this tells its users when to refit."""
    _told.add(model)


def note_forgetting(model: Learning) -> None:
    """Note that a model has forgotten rows; its first question before a refit then warns."""
    now = model._now()
    if now.vote_.state() or now._cells is not None or isinstance(now.kernel, AutoSites):
        _stale.add(model)


def note_refit(model: Learning) -> None:
    """Note that everything was chosen and fitted anew."""
    _stale.discard(model)


def warn_of_forgotten_rows(model: Learning) -> None:
    """Warn once a model, where it is asked, that what was chosen and fitted depends on rows that it has forgotten."""
    if model not in _stale or model in _told:
        return
    _told.add(model)
    how = "refit()" if model._kept is not None else "refit(rows=(X, y)), with the rows that are left"
    warnings.warn(
        f"Rows were forgotten, but what was chosen and fitted still depends on them until {how}. "
        "This is said once a model.",
        UserWarning,
        stacklevel=5,
    )


def check_is_model(layout: Any) -> None:
    """Refuse what has no layout."""
    if not isinstance(layout, Learning):
        raise TypeError(
            f"layout={layout!r} is not a fitted model: pass the MemoryClassifier whose layout is to be used."
        )


def _is_in_parts(memory: Memory) -> bool:
    return isinstance(memory, InParts) and memory.parted is not None


def _shard_of(model: Learning, memory: Memory) -> Memory:
    """Return an empty memory of the fitted model's layout, if it is of the same kind as `memory`."""
    shard = model.memory_.empty_like()
    mine, theirs = memory.layout(), shard.layout()
    for name in ("memory", "h", "sites"):
        if mine[name] != theirs[name]:
            raise LayoutError(f"layout= is of another kind: {name} is {mine[name]!r} here and {theirs[name]!r} there.")
    return shard


def _seed(random_state: Any) -> int:
    if isinstance(random_state, (int, np.integer)):
        if abs(int(random_state)) >= 2**64:  # the limit of parameters in files
            raise ValueError(f"random_state={random_state} does not fit in 64 bits: use a smaller seed.")
        return int(random_state)
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    return int(check_random_state(random_state).randint(2**31))
