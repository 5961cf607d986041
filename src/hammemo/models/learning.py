"""How a model learns and takes back: the parts that are settled first, then examples, their sample and the vote.

Every method here is a step of an edit and works on a private version of the model (:mod:`hammemo._versions`); who asks
for the edit publishes it. The public methods are in `classifiers`, those for streams in `streaming`.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from hammemo.memories.errors import LayoutError
from hammemo.models import settling
from hammemo.models.additive import Additive
from hammemo.models.answering import Answering
from hammemo.models.axes import resolved_memory
from hammemo.models.explanations import one_context
from hammemo.models.kept import EVERYTHING
from hammemo.models.kept_cases import KeptCases
from hammemo.models.kept_sample import KEPT, KeptSample
from hammemo.models.names import is_auto
from hammemo.models.settling import Axes, Choices
from hammemo.tokens.column_kinds import ColumnKinds
from hammemo.tokens.contexts import Examples, check_column_names
from hammemo.tokens.labels import classes_array, common_label_dtype, holds_label, label_array
from hammemo.tokens.missing import check_missing_rule, filled_tokens
from hammemo.tokens.user_input import CheckedRows
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels import SiteKernel
    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory
    from hammemo.models.settling import Settled
    from hammemo.votes import Vote

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

    def _edited(self: Self, change: Callable[[Self], Result]) -> Result:
        def counted(model: Self) -> Result:
            result = change(model)
            model.version_ = getattr(model, "version_", 0) + 1
            return result

        return super()._edited(counted)

    def _make_memory(self) -> Memory:
        return resolved_memory(self.memory)

    def _axes(self) -> Axes:
        return Axes(self.kernel, self._make_memory(), self.vote, is_auto(getattr(self, "memory", None)))

    def _settled_like(self, layout: Learning, n_labels: int) -> Settled:
        check_is_model(layout)
        return settling.like(self._axes(), layout, n_labels)

    def _start(self, h: int, settled: Settled, layout: Learning | None = None) -> None:
        """Take the parts that were settled, with nothing stored."""
        self.kernel_ = settled.kernel.named(getattr(self, "feature_names_in_", None))
        self.vote_, self.choices_ = settled.vote, settled.choices
        self.sites_ = self.kernel_.resolve(h)
        self.sites_.check_size()
        if self.sites_.free and not self.vote_.reads_free_sites:
            raise ValueError(
                f"vote={self.vote_!r} reads positions only, and the kernel has a {self.sites_.free[0].kind!r}: "
                "use vote='mixture', or 'log-linear'."
            )
        memory = settled.memory.open(self.sites_, _seed(self.random_state))
        self.memory_ = memory if layout is None else _shard_of(layout, memory)
        self.cutting_ = None if layout is None else layout.cutting_
        self.sample_ = None
        if self.vote_.keeps_sample:
            theirs = getattr(layout, "sample_", None)
            most = int(getattr(self.vote_, "sample", KEPT))
            kind = KeptCases if self.vote_.keeps_cases else KeptSample
            fresh = kind(h, self.memory_.seed, most)
            self.sample_ = theirs.emptied() if isinstance(theirs, kind) else fresh

    def _learn(
        self,
        rows: CheckedRows,
        classes: Any,
        *,
        reset: bool,
        whole: bool = False,
        layout: Learning | None = None,
    ) -> Examples:
        """Learn rows, and return them as examples; from nothing with `reset`.

        With `whole` they are all that there is, so sites and vote may be chosen by them.
        """
        declared = rows.labels[:0] if classes is None else label_array(classes)
        dtype = common_label_dtype(rows.labels, declared, *([] if reset else [self._label_ends()]))
        examples = rows.examples()
        if reset and not len(examples) and not len(declared):
            raise ValueError("There is nothing to learn: every sample_weight is zero and no class was declared.")
        if layout is not None and not reset:
            raise ValueError("layout= is settled at the first call; this model has learnt already.")
        if reset:
            check_column_names(getattr(self, "feature_names_in_", ()))
            h, n_labels = examples.contexts.h, len(examples.labels.union(Vocabulary.of(declared)))
            if whole:
                settled = settling.for_table(self._axes(), examples, _seed(self.random_state))
            elif layout is None:
                settled = settling.for_pieces(self._axes(), n_labels)
            else:
                settled = self._settled_like(layout, n_labels)
            self._start(h, settled, layout)
        self._note_kinds(ColumnKinds.of(examples.contexts))
        memory = self.memory_.snapshot()
        if len(declared):
            memory.declare_labels(Vocabulary.of(declared))
        memory.update(examples, 1)
        self.memory_, self.label_dtype_ = memory, dtype
        self._change_sample(examples, 1)
        return examples

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
        memory.update(examples, -1)
        self.memory_ = memory
        self._change_sample(examples, -1)

    def _change_sample(self, examples: Examples, sign: int) -> None:
        sample = self.sample_
        if sample is not None:
            self.sample_ = sample.changed(examples, sign)

    def _change_one(self, tokens: Sequence[Any], label: Any, by: int) -> None:
        context = one_context(tokens, getattr(self, "feature_names_in_", None), "learn_one" if by > 0 else "forget_one")
        (context,) = self._cut([context], self.n_features_in_)
        context = filled_tokens(context, self._missing())
        if len(context) != self.n_features_in_:
            raise ValueError(
                f"The model was fitted on contexts of {self.n_features_in_} tokens; this has {len(context)}."
            )
        dtype = self.label_dtype_
        if by > 0 and not holds_label(dtype, label):
            dtype = common_label_dtype(label_array([label]), self._label_ends())
        memory = self.memory_.snapshot()
        memory.update_one(context, label, by)
        self.memory_, self.label_dtype_ = memory, dtype
        if getattr(self, "sample_", None) is not None:
            self._change_sample(Examples.of([context], [label]), by)

    def _label_ends(self) -> NDArray[Any]:
        """Return a few labels that have the type of all, and their largest and smallest number."""
        return classes_array(self.memory_.labels.ends(), self.label_dtype_)

    def _refit(self) -> None:
        sample = self.sample_
        if sample is None:
            why = "none was kept" if self.vote_.fits_weights else "its vote has nothing to fit"
            raise ValueError(
                f"There is no sample of the examples to fit the vote to: {why}. A vote that fits weights keeps one "
                "unless keep=False, a model without one was merged, or single examples were forgotten by a model of "
                "documents. fit_vote(X, y) fits it to examples of your choice."
            )
        self.vote_ = clone(self.vote_)  # without what was fitted
        examples = sample.examples() if len(sample) else None
        if examples is not None and self._is_enough(examples):
            self._fit_vote_to(examples)

    def _to_fit(self, learnt: Examples) -> Examples:
        """Return the examples that the vote is fitted to once these were learnt: those that `refit` has."""
        sample = self.sample_
        if sample is None or (isinstance(sample, KeptSample) and sample.threshold == EVERYTHING):
            return learnt
        return sample.examples()

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
        return CheckedRows.from_user(self, X if reset else self._cut(X, self.sites_.h), y, sample_weight, reset=reset)

    def _fit_vote_to(self, examples: Examples, *, leave_one_out: bool = True) -> None:
        if self.vote_.has_weights:  # else no reader is made
            memory, self.vote_ = self.memory_, copy.copy(self.vote_)
            reader = memory.static_reader() if self.vote_.keeps_cases else memory.reader()
            self.vote_.fit_to(reader, examples, self.sites_, seed=memory.seed, leave_one_out=leave_one_out)


def check_is_model(layout: Any) -> None:
    """Refuse what has no layout."""
    if not isinstance(layout, Learning):
        raise TypeError(
            f"layout={layout!r} is not a fitted model: pass the MemoryClassifier whose layout is to be used."
        )


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
