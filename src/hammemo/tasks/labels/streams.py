"""Edits of streams, from one state to the next: every token is learnt by the h tokens before it.

A stream is cut into blocks (:mod:`hammemo.tokens.stream_blocks`), and the windows are never held at once; the extra
memory depends on the block, not on the length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hammemo._progress import advance, progress_bar
from hammemo.edits.fit import choose_like_given, start
from hammemo.edits.forget import forget_kept, note_forgotten, trust_if_known
from hammemo.edits.merge import join_cuttings
from hammemo.edits.state import EVERYTHING_FITTED, refuse_to_record
from hammemo.stores.documents import Way
from hammemo.stores.kept_documents import Keeper, KeptDocuments, StreamFacts, share_repeats
from hammemo.tasks.labels.automatic import counts_in_any_order
from hammemo.tasks.labels.choose import choose_by_stream
from hammemo.tasks.labels.count import add_batches, declare
from hammemo.tasks.labels.names import is_auto
from hammemo.tasks.labels.read import label_ends
from hammemo.tasks.labels.scorer import check_probabilities
from hammemo.tasks.labels.size_warning import watched
from hammemo.tasks.labels.weigh import check_class_weight, fitted_vote, weigh
from hammemo.tokens.columns import Columns
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.labels import common_label_dtype, label_array, widened_label_dtype
from hammemo.tokens.stream_blocks import (
    FRAME_CONTEXT,
    Block,
    WindowSample,
    event_documents,
    long_enough,
    stream_blocks,
)
from hammemo.tokens.token_types import TokenTypes
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary, factorize
from hammemo.votes import LogLinear

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hammemo.memories import Memory
    from hammemo.stores.kept import ModelStore
    from hammemo.tasks.labels.answer import ModelView
    from hammemo.tasks.labels.layout import LabelState
    from hammemo.tasks.labels.settings import ModelSettings


_ASKED_AT_ONCE: Final = 2**22
"""Tokens of all contexts that `stream_losses` asks for at a time, about."""


@dataclass(frozen=True, eq=False)
class Stream:
    """Documents as a user hands them over, and what was said of them.

    Parameters
    ----------
    documents : Any
        A flat array of tokens, or documents.
    starts : array-like of int, optional
        Where documents start in an array.
    classes : array-like, optional
        The labels that are learnt; None for all.
    cutting : Cutting, optional
        How documents are cut into windows; None where nothing was said of it.
    cases : iterable, optional
        The id of the case of each document.
    is_frame : bool
        Whether they were events in a data frame.
    is_short_said : bool
        Whether it was said what is done with beginnings.
    """

    documents: Any
    starts: ArrayLike | None = None
    classes: Any = None
    cutting: Cutting | None = None
    cases: Iterable[Any] | None = None
    is_frame: bool = False
    is_short_said: bool = False

    @classmethod
    def read(
        cls,
        tokens: Any,
        starts: ArrayLike | None,
        classes: Any,
        cut: tuple[Literal["drop", "pad"] | None, Any],
        columns: tuple[str | None, str | None, str | None] = (None, None, None),
        cases: Iterable[Any] | None = None,
    ) -> Stream:
        """Return a stream of what a user gives: `cut` is (short, pad), `columns` those of a frame of events."""
        short, pad = cut
        cutting = None if short is None and pad is None else Cutting(short or "drop", pad)
        case, item, time = columns
        if not hasattr(tokens, "columns") and case is item is time is None:
            return cls(tokens, starts, classes, cutting, cases, is_short_said=short is not None)
        if cases is not None:
            raise ValueError(
                "cases= is for documents in an iterable; in a data frame, case= names the column of the ids."
            )
        documents, cases = event_documents(tokens, case, item, time)
        return cls(
            documents,
            starts,
            classes,
            cutting,
            cases,
            is_frame=True,
            is_short_said=short is not None,
        )

    @property
    def default_cutting(self) -> Cutting:
        """How a first stream is cut where nothing was said."""
        return Cutting("pad" if self.is_frame else "drop")

    @property
    def total(self) -> int | None:
        """How many documents there are, where that is known at once."""
        return len(self.documents) if isinstance(self.documents, (list, tuple)) else None

    def blocks(self, h: int, cutting: Cutting) -> Iterator[Block]:
        """Yield the stream in blocks."""
        return stream_blocks(
            self.documents, h, self.starts, cutting.short, cutting.pad, cases=self.cases
        )

    def labels(self) -> Vocabulary | None:
        """Return the labels that are learnt; None for all."""
        return None if self.classes is None else Vocabulary.of(label_array(self.classes))


def fit_stream(
    settings: ModelSettings,
    before: LabelState | None,
    stream: Stream,
    h: int | None,
    layout: LabelState | None,
) -> LabelState:
    """Learn a stream that is all that there is; choose by it, where all its documents are kept."""
    refuse_to_record(before)
    n_context = FRAME_CONTEXT if h is None and stream.is_frame else h
    if n_context is None:
        raise ValueError("Say how many tokens a context has: h=…")
    cutting = stream.cutting or stream.default_cutting
    state, sample = _learn_blocks(settings, None, stream, n_context, cutting, layout, sampled=True)
    if layout is None and state.documents is not None and state.documents.holds_all:
        state = fit_documents(settings, state, is_counted=True)
    elif state.vote.sample_size():  # a layout may bring fitted weights
        state = _with_vote_for_all_labels(settings, state)
        state = state.with_changes(vote=weigh(settings, state, sample))
    check_class_weight(state)
    return state


def fit_documents(
    settings: ModelSettings, state: LabelState, *, is_counted: bool = False
) -> LabelState:
    """Choose all that is automatic by documents, all of which are kept, count them and fit the vote.

    It is what both `fit_stream` and `refit` do. With `is_counted` the memory has learned them in the order in which
    they came: it is taken as it is where neither its layout nor the order would change it.
    """
    before, store, kept = state.memory, state.store, state.documents
    assert store is not None
    assert kept is not None
    columns = replace(state.columns, types=None)  # the tokens of documents are names
    plan = choose_by_stream(settings, columns, kept.facts(len(before.labels)), kept.seed)
    again = start(settings, plan, columns, state.target_dtype, documents=True)
    has_same_weights = np.array_equal(again.layout.sites.weights, state.layout.sites.weights)
    is_alike = again.memory.layout() == before.layout() and has_same_weights
    if is_counted and is_alike and counts_in_any_order(settings.new_memory()):
        memory = before
    else:
        memory = declare(again.memory, before.declared)
        memory = add_batches(memory, again.layout, kept.batches())
    room = again.store
    if room is None or not room.stores_like(store):  # `keep` was set since
        store = None if room is None else room.plus(store, 1)
    again = again.with_changes(memory=memory, store=store, cutting=kept.cutting)
    again = again.with_changes(chosen_at=again.n_examples)
    return again.with_changes(
        vote=weigh(settings, again), refitted=EVERYTHING_FITTED, **state.carried
    )


def _with_vote_for_all_labels(settings: ModelSettings, state: LabelState) -> LabelState:
    """Return a state whose automatic vote is made for the labels that were learnt: a plan knows the first ones only."""
    if not (isinstance(state.vote, LogLinear) and is_auto(settings.vote)):
        return state
    vote = settings.vote_for(len(state.memory.labels), state.memory)
    return state.with_changes(vote=settings.with_class_weight(vote))


def learn_stream(
    settings: ModelSettings,
    before: LabelState | None,
    stream: Stream,
    h: int | None,
    layout: LabelState | None,
) -> LabelState:
    """Learn one more stream; by default, h and how it is cut are those of before, or of the layout."""
    known = layout if before is None else before
    of_first = FRAME_CONTEXT if stream.is_frame and known is None else None
    n_context = h or of_first or _context_length(known)
    cutting = stream.cutting or (known.cutting if known else None) or stream.default_cutting
    return _learn_blocks(settings, before, stream, n_context, cutting, layout)[0]


def _learn_blocks(
    settings: ModelSettings,
    before: LabelState | None,
    stream: Stream,
    h: int,
    cutting: Cutting,
    layout: LabelState | None,
    *,
    sampled: bool = False,
) -> tuple[LabelState, Examples | None]:
    """Learn the windows of a stream; return a sample of them, too, if requested and none is kept."""
    refuse_to_record(before)
    blocks = stream.blocks(h, cutting)
    first = next(blocks, None)
    if first is None or not len(first.targets()):
        raise ValueError(
            f"There is nothing to learn: no document at the start has more than h={h} tokens."
        )
    state, target_dtype = _begun(settings, before, stream, first, h, layout)
    state = state.with_changes(cutting=join_cuttings(state, cutting), target_dtype=target_dtype)
    labels, memory = stream.labels(), state.memory.snapshot()
    if labels is not None:
        memory.declare_labels(labels)
    store = state.store
    if state.rows is not None and not len(state.rows) and state.rows.holds_all:
        store = settings.empty_store(h, memory.seed, state.vote, documents=True)
    keeper = Keeper(store, Way.of(cutting, labels))
    passed: Iterable[Block] = keeper.through(chain([first], blocks))
    if settings.memory_is_auto:
        passed = watched(passed, memory)
    keeps_none = store is None or store.kept is None
    size, sample = state.vote.sample_size() if sampled and keeps_none else 0, None
    if size:
        sample = WindowSample(size, memory.seed, labels)
        passed = sample.through(passed)
    with progress_bar("Learning documents" if stream.total else "Learning tokens"):
        passed = _told(passed, stream.total)
        memory.update_from_blocks(_labelled(passed) if labels is None else passed, labels)
    target_dtype = widened_label_dtype(target_dtype, memory.labels)
    state = state.with_changes(memory=memory, store=keeper.store, target_dtype=target_dtype)
    return state, sample.examples() if sample else None


def _begun(
    settings: ModelSettings,
    before: LabelState | None,
    stream: Stream,
    first: Block,
    h: int,
    layout: LabelState | None,
) -> tuple[LabelState, np.dtype[Any]]:
    """Return the state before the first block is learnt, and the type of all labels so far."""
    chosen = None if stream.classes is None else label_array(stream.classes)
    kinds = [label_array(first.tokens[first.targets()[:1]]) if chosen is None else chosen]
    refuse_numbers(layout if before is None else before)
    if before is not None:
        if h != before.layout.sites.h:
            raise ValueError(
                f"The model was fitted on contexts of {before.layout.sites.h} tokens; h={h}."
            )
        kinds.append(label_ends(before))
    target_dtype = common_label_dtype(*kinds)
    state = before
    if state is None:
        columns, facts = Columns.from_count(h), _stream_facts(first, chosen)
        if layout is None:
            plan = choose_by_stream(settings, columns, facts, settings.seed())
        else:
            plan = choose_like_given(settings, columns, layout, facts.n_labels)
        state = start(settings, plan, columns, target_dtype, layout, documents=True)
    learnt = TokenTypes.from_contexts(Contexts(first.tokens[:, None]), 1)
    columns = replace(state.columns, types=None)  # the tokens of documents are names
    return state.with_changes(
        columns=columns.with_tokens(learnt, first=state.holds_nothing)
    ), target_dtype


def forget_stream(
    settings: ModelSettings, state: LabelState, stream: Stream
) -> tuple[LabelState, bool]:
    """Remove whole documents; return whether the kept documents, if there are any, knew that each was learnt whole."""
    refuse_numbers(state)
    labels, kept = stream.labels(), state.documents
    if stream.cases is not None and kept is not None:
        way = Way.of(stream.cutting or state.cutting or Cutting(), labels)
        found, beyond = kept.of_events(stream.documents, stream.cases, way)
        state = _forget_found(settings, state, found)
        if not beyond:
            return state, True
        stream = replace(stream, documents=beyond)
    h, cutting = state.layout.sites.h, stream.cutting or known_cutting(state)
    documents = stream.documents
    if not stream.is_short_said and cutting.short == "drop":
        documents = long_enough(documents, h, stream.starts)
    blocks = replace(stream, documents=documents, cases=None).blocks(h, cutting)
    return _forget_blocks(settings, state, blocks, cutting, labels)


def forget_cases(settings: ModelSettings, state: LabelState, ids: Sequence[Any]) -> LabelState:
    """Remove all documents of some cases."""
    kept = state.documents
    if kept is None or not kept.holds_all:
        raise ValueError(
            "The model does not keep all its documents, so it cannot find all those of a case by its id. "
            "Nothing was changed. Give the events of the case: forget_stream(frame, case=…, item=…)."
        )
    return _forget_found(settings, state, kept.of_ids(ids))


def _forget_found(
    settings: ModelSettings, state: LabelState, documents: KeptDocuments
) -> LabelState:
    """Remove documents that are kept."""
    state = forget_kept(state, documents)
    for examples in documents.batches():
        state = note_forgotten(settings, state, examples)
    return state


def _forget_blocks(
    settings: ModelSettings,
    state: LabelState,
    blocks: Iterator[Block],
    cutting: Cutting,
    labels: Vocabulary | None,
) -> tuple[LabelState, bool]:
    memory, keeper = state.memory.snapshot(), Keeper(state.store, Way.of(cutting, labels), -1)
    for block in keeper.through(blocks):
        examples = block.examples() if labels is None else block.examples().only(labels)
        memory.update(examples, -1)
        state = note_forgotten(settings, state, examples)
    return state.with_changes(
        memory=trust_if_known(state, memory), store=keeper.store
    ), keeper.could_tell


def known_cutting(state: LabelState) -> Cutting:
    """Return how all documents of a model were cut; ValueError where it does not know."""
    if state.cutting is None:
        raise ValueError(
            "The model does not know how these documents were cut into windows: streams were cut in two ways, none "
            "was learnt, or the model is from an old file. Say short='drop' or short='pad', as they were learnt."
        )
    return state.cutting


def refuse_numbers(state: LabelState | None) -> None:
    """Refuse a model of a table with numbers: its contexts are cells, not tokens of a stream."""
    if state is not None and state.layout.cells is not None:
        raise ValueError(
            "The model was fitted on a table with numbers, so it takes rows and no streams: partial_fit(X, y), "
            "forget(X, y). Streams need a model of their own: fit_stream(…)."
        )


def _context_length(known: LabelState | None) -> int:
    if known is None:
        raise ValueError("Nothing was learnt yet: say how many tokens a context has, h=…")
    refuse_numbers(known)
    return known.layout.sites.h


def _stream_facts(first: Block, chosen: NDArray[Any] | None) -> StreamFacts:
    """Return what the first block of a stream, and the labels chosen, tell of it."""
    lengths = np.diff(np.append(first.starts, len(first.tokens)))
    padding = int((first.tokens == NO_TOKEN).sum())
    _, codes = factorize(first.tokens)
    n_labels = len(np.unique(codes[first.targets()])) if chosen is None else len(chosen)
    held = codes >= 0  # beginnings are filled up
    owners = np.repeat(np.arange(len(lengths)), lengths)[held]
    mean_length = (int(lengths.sum()) - padding) / max(len(lengths), 1)
    return StreamFacts(
        n_labels,
        mean_length,
        share_repeats(codes[held], np.bincount(owners, minlength=len(lengths))),
    )


def _told(blocks: Iterable[Block], total: int | None) -> Iterator[Block]:
    """Yield blocks as they are, and tell how many documents were learnt before each, or how many tokens."""
    done = 0
    for block in blocks:
        advance(done, total)
        yield block
        done += len(block.tokens) if total is None else len(block.starts) - block.continues


def _labelled(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks after the checks that `fit` makes of labels: no measurements, no mixture of numbers and strings."""
    for block in blocks:
        if block.tokens.dtype.kind not in "iub":
            label_array(block.tokens[block.targets()])
        yield block


def with_counted_stream(
    settings: ModelSettings,
    state: LabelState,
    memory: Memory,
    store: ModelStore | None,
    cutting: Cutting,
    sample: Examples,
) -> LabelState:
    """Take the counts of a stream that others have read; the state has learnt a sample of it, and nothing else."""
    state = state.with_changes(memory=memory, store=store, cutting=cutting)
    if not state.vote.sample_size():
        return state
    state = _with_vote_for_all_labels(settings, state)
    return state.with_changes(
        vote=fitted_vote(
            state, sample if state.kept is None else state.kept.fitting_sample(state.vote)
        )
    )


def stream_losses(view: ModelView, stream: Stream) -> NDArray[np.float64]:
    """Return minus the logarithm of the probability of every token of a stream that has a context."""
    check_probabilities(view.scorer.vote)
    losses = [np.empty(0)]
    for block in stream.blocks(view.scorer.sites.h, stream.cutting or view.cutting or Cutting()):
        losses += [view.scorer.losses(examples) for examples in block.batches(_ASKED_AT_ONCE)]
    return np.concatenate(losses)
