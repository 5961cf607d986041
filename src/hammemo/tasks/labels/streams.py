"""Edits of streams, from one state to the next: every token is learned by the h tokens before it.

A stream is cut into blocks (:mod:`hammemo.tokens.stream_blocks`), and the windows are never held at
once; the extra memory depends on the block, not on the length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

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
from hammemo.tasks.labels.size_warning import watch_size
from hammemo.tasks.labels.weigh import check_fit, fit_vote, weigh
from hammemo.tokens.columns import Columns
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.event_tables import FRAME_CONTEXT, event_documents
from hammemo.tokens.labels import common_label_dtype, label_array, widen_label_dtype
from hammemo.tokens.stream_blocks import Block, refuse_short, stream_blocks
from hammemo.tokens.token_types import TokenTypes
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary, factorize
from hammemo.tokens.window_samples import WindowSample
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
        *,
        short: Literal["drop", "pad"] | None,
        pad: Any,
        case: str | None = None,
        item: str | None = None,
        time: str | None = None,
        cases: Iterable[Any] | None = None,
    ) -> Stream:
        """Return a stream of what a user gives.

        `case`, `item` and `time` name columns of a frame of events.
        """
        cutting = None
        if short is not None or pad is not None:
            cutting = Cutting(short or "drop", pad)
        is_frame = hasattr(tokens, "columns") or not (
            case is None and item is None and time is None
        )
        if is_frame:
            if cases is not None:
                raise ValueError(
                    "cases= is for documents in an iterable; "
                    "in a data frame, case= names the column of the ids."
                )
            tokens, cases = event_documents(tokens, case, item, time)
        return cls(
            documents=tokens,
            starts=starts,
            classes=classes,
            cutting=cutting,
            cases=cases,
            is_frame=is_frame,
            is_short_said=short is not None,
        )

    @property
    def default_cutting(self) -> Cutting:
        """How a first stream is cut where nothing was said."""
        return Cutting("pad" if self.is_frame else "drop")

    @property
    def total(self) -> int | None:
        """How many documents there are, where that is known at once."""
        if not isinstance(self.documents, (list, tuple)):
            return None
        return len(self.documents)

    def blocks(self, h: int, cutting: Cutting) -> Iterator[Block]:
        """Yield the stream in blocks."""
        return stream_blocks(
            self.documents,
            h,
            self.starts,
            short=cutting.short,
            pad=cutting.pad,
            cases=self.cases,
        )

    def labels(self) -> Vocabulary | None:
        """Return the labels that are learned; None for all."""
        if self.classes is None:
            return None
        return Vocabulary.of(label_array(self.classes))


def fit_stream(
    settings: ModelSettings,
    before: LabelState | None,
    stream: Stream,
    h: int | None,
    layout: LabelState | None,
) -> LabelState:
    """Learn a stream that is all that there is; choose by it, where all its documents are kept."""
    refuse_to_record(before)
    if h is None and stream.is_frame:
        h = FRAME_CONTEXT
    if h is None:
        raise ValueError("Say how many tokens a context has: h=…")
    cutting = stream.cutting or stream.default_cutting
    state, sample = _learn_blocks(
        settings, None, stream, h=h, cutting=cutting, layout=layout, with_sample=True
    )
    if layout is None and state.documents is not None and state.documents.holds_all:
        state = fit_documents(settings, state, is_counted=True)
    elif state.vote.sample_size():  # a layout may bring fitted weights
        state = _with_vote_for_all_labels(settings, state)
        state = state.with_changes(vote=weigh(settings, state, sample))
    check_fit(state)
    return state


def fit_documents(
    settings: ModelSettings, state: LabelState, *, is_counted: bool = False
) -> LabelState:
    """Choose all that is automatic by documents, which are all kept, count them and fit the vote.

    It is what both `fit_stream` and `refit` do. With `is_counted` the memory has learned them in
    the order in which they came: it is taken as it is where neither its layout nor the order would
    change it.
    """
    before = state.memory
    store = state.store
    kept_documents = state.documents
    assert store is not None
    assert kept_documents is not None
    columns = replace(state.columns, types=None)  # the tokens of documents are names
    plan = choose_by_stream(
        settings, columns, kept_documents.facts(len(before.labels)), kept_documents.seed
    )
    fitted = start(settings, plan, columns, state.target_dtype, documents=True)
    has_same_weights = np.array_equal(fitted.layout.sites.weights, state.layout.sites.weights)
    is_alike = fitted.memory.layout() == before.layout() and has_same_weights
    if is_counted and is_alike and counts_in_any_order(settings.new_memory()):
        memory = before
    else:
        memory = declare(fitted.memory, before.declared)
        memory = add_batches(memory, fitted.layout, kept_documents.batches())
    new_store: ModelStore | None = store
    if fitted.store is None:  # `keep` was set since
        new_store = None
    elif not fitted.store.stores_like(store):
        new_store = fitted.store.plus(store, 1)
    fitted = fitted.with_changes(memory=memory, store=new_store, cutting=kept_documents.cutting)
    fitted = fitted.with_changes(chosen_at=fitted.n_examples)
    return fitted.with_changes(
        vote=weigh(settings, fitted), refitted=EVERYTHING_FITTED, **state.carried
    )


def _with_vote_for_all_labels(settings: ModelSettings, state: LabelState) -> LabelState:
    """Return a state whose automatic vote is made for all labels that were learned.

    A plan knows the labels of the first block only.
    """
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
    """Learn one more stream.

    By default, h and how it is cut are those of before, or of the layout.
    """
    model = layout if before is None else before
    if not h and model is None and stream.is_frame:
        h = FRAME_CONTEXT
    n_context = h or _get_context_length(model)
    cutting = stream.cutting
    if cutting is None and model is not None:
        cutting = model.cutting
    if cutting is None:
        cutting = stream.default_cutting
    return _learn_blocks(
        settings, before, stream, h=n_context, cutting=cutting, layout=layout
    ).state


class _Learned(NamedTuple):
    """A state after a stream."""

    state: LabelState
    sample: Examples | None
    """A sample of the windows of the stream; None where none was requested or needed."""


def _learn_blocks(
    settings: ModelSettings,
    before: LabelState | None,
    stream: Stream,
    *,
    h: int,
    cutting: Cutting,
    layout: LabelState | None,
    with_sample: bool = False,
) -> _Learned:
    """Learn the windows of a stream; take a sample of them, too, if requested and none is kept."""
    refuse_to_record(before)
    blocks = stream.blocks(h, cutting)
    first = next(blocks, None)
    if first is None or not len(first.targets()):
        raise ValueError(
            f"There is nothing to learn: no document at the start has more than h={h} tokens."
        )
    state = _start_stream(settings, before, stream, first, h=h, layout=layout)
    state = state.with_changes(cutting=join_cuttings(state, cutting))
    labels = stream.labels()
    memory = state.memory.snapshot()
    if labels is not None:
        memory.declare_labels(labels)
    store = state.store
    if state.rows is not None and not len(state.rows) and state.rows.holds_all:
        store = settings.empty_store(h, memory.seed, state.vote, documents=True)

    # Blocks pass through all that looks at them, one after the other, and end in the memory.
    keeper = Keeper(store, Way.of(cutting, labels))
    passing: Iterable[Block] = keeper.through(chain([first], blocks))
    if settings.memory_is_auto:
        passing = watch_size(passing, memory)
    sample = None
    if with_sample and (store is None or store.kept is None):
        n_sampled = state.vote.sample_size()
        if n_sampled:
            sample = WindowSample(n_sampled, memory.seed, labels)
            passing = sample.through(passing)
    with progress_bar("Learning documents" if stream.total else "Learning tokens"):
        passing = _report_progress(passing, stream.total)
        if labels is None:
            passing = _check_labels(passing)
        memory.update_from_blocks(passing, labels)
    state = state.with_changes(
        memory=memory,
        store=keeper.store,
        target_dtype=widen_label_dtype(state.target_dtype, memory.labels),
    )
    return _Learned(state, None if sample is None else sample.examples())


def _start_stream(
    settings: ModelSettings,
    before: LabelState | None,
    stream: Stream,
    first: Block,
    *,
    h: int,
    layout: LabelState | None,
) -> LabelState:
    """Return the state before the first block is learned, with the type of all labels so far."""
    if stream.classes is None:
        classes = None
        labels = label_array(first.tokens[first.targets()[:1]])
    else:
        classes = label_array(stream.classes)
        labels = classes
    refuse_numbers(layout if before is None else before)
    if before is not None:
        if h != before.layout.sites.h:
            raise ValueError(
                f"The model was fitted on contexts of {before.layout.sites.h} tokens; h={h}."
            )
        target_dtype = common_label_dtype(labels, label_ends(before))
        state = before.with_changes(target_dtype=target_dtype)
    else:
        target_dtype = common_label_dtype(labels)
        columns = Columns.from_count(h)
        facts = _describe_stream(first, classes)
        if layout is None:
            plan = choose_by_stream(settings, columns, facts, settings.seed())
        else:
            plan = choose_like_given(settings, columns, layout, facts.n_labels)
        state = start(settings, plan, columns, target_dtype, layout=layout, documents=True)
    token_types = TokenTypes.from_contexts(Contexts(first.tokens[:, None]), 1)
    columns = replace(state.columns, types=None)  # the tokens of documents are names
    columns = columns.with_tokens(token_types, first=state.holds_nothing)
    return state.with_changes(columns=columns)


def forget_stream(
    settings: ModelSettings, state: LabelState, stream: Stream
) -> tuple[LabelState, bool]:
    """Remove whole documents.

    Returns also whether the kept documents, if there are any, knew that each was learned whole.
    """
    refuse_numbers(state)
    labels = stream.labels()
    kept_documents = state.documents
    if stream.cases is not None and kept_documents is not None:
        # The events of a case that is kept are found by its id; the others are cut as learned.
        way = Way.of(stream.cutting or state.cutting or Cutting(), labels)
        matching_documents, other_documents = kept_documents.of_events(
            stream.documents, stream.cases, way
        )
        state = _forget_kept_documents(settings, state, matching_documents)
        if not other_documents:
            return state, True
        stream = replace(stream, documents=other_documents)
    h = state.layout.sites.h
    cutting = stream.cutting or get_cutting(state)
    documents = stream.documents
    if not stream.is_short_said and cutting.short == "drop":
        documents = refuse_short(documents, h, stream.starts)
    blocks = replace(stream, documents=documents, cases=None).blocks(h, cutting)
    return _forget_blocks(settings, state, blocks, cutting=cutting, labels=labels)


def forget_cases(settings: ModelSettings, state: LabelState, ids: Sequence[Any]) -> LabelState:
    """Remove all documents of some cases."""
    kept_documents = state.documents
    if kept_documents is None or not kept_documents.holds_all:
        raise ValueError(
            "The model does not keep all its documents, "
            "so it cannot find all those of a case by its id. Nothing was changed. "
            "Give the events of the case: forget_stream(frame, case=…, item=…)."
        )
    return _forget_kept_documents(settings, state, kept_documents.of_ids(ids))


def _forget_kept_documents(
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
    *,
    cutting: Cutting,
    labels: Vocabulary | None,
) -> tuple[LabelState, bool]:
    """Remove the windows of blocks; return also whether each document was known to be learned."""
    memory = state.memory.snapshot()
    keeper = Keeper(state.store, Way.of(cutting, labels), -1)
    for block in keeper.through(blocks):
        examples = block.examples()
        if labels is not None:
            examples = examples.only(labels)
        memory.update(examples, -1)
        state = note_forgotten(settings, state, examples)
    state = state.with_changes(memory=trust_if_known(state, memory), store=keeper.store)
    return state, keeper.could_tell


def get_cutting(state: LabelState) -> Cutting:
    """Return how all documents of a model were cut; ValueError where it does not know."""
    if state.cutting is None:
        raise ValueError(
            "The model does not know how these documents were cut into windows: "
            "streams were cut in two ways, none was learnt, or the model is from an old file. "
            "Say short='drop' or short='pad', as they were learnt."
        )
    return state.cutting


def refuse_numbers(state: LabelState | None) -> None:
    """Refuse a model of a table with numbers: its contexts are cells, not tokens of a stream."""
    if state is not None and state.layout.cells is not None:
        raise ValueError(
            "The model was fitted on a table with numbers, so it takes rows and no streams: "
            "partial_fit(X, y), forget(X, y). Streams need a model of their own: fit_stream(…)."
        )


def _get_context_length(state: LabelState | None) -> int:
    if state is None:
        raise ValueError("Nothing was learnt yet: say how many tokens a context has, h=…")
    refuse_numbers(state)
    return state.layout.sites.h


def _describe_stream(first: Block, classes: NDArray[Any] | None) -> StreamFacts:
    """Return what the first block of a stream, and the labels to learn, tell of it."""
    lengths = np.diff(np.append(first.starts, len(first.tokens)))
    n_documents = len(lengths)
    _, codes = factorize(first.tokens)
    if classes is None:
        n_labels = len(np.unique(codes[first.targets()]))
    else:
        n_labels = len(classes)
    # Beginnings are filled up with tokens that are none.
    is_token = codes >= 0
    n_padding = int((first.tokens == NO_TOKEN).sum())
    documents = np.repeat(np.arange(n_documents), lengths)[is_token]
    return StreamFacts(
        n_labels=n_labels,
        mean_length=(int(lengths.sum()) - n_padding) / max(n_documents, 1),
        repeats=share_repeats(codes[is_token], np.bincount(documents, minlength=n_documents)),
    )


def _report_progress(blocks: Iterable[Block], total: int | None) -> Iterator[Block]:
    """Yield blocks as they are, and advance the bar by their documents, or by their tokens."""
    done = 0
    for block in blocks:
        advance(done, total)
        yield block
        if total is None:
            done += len(block.tokens)
        else:
            done += len(block.starts) - block.continues


def _check_labels(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks as they are, and check their labels as `fit` does.

    It refuses measurements, and numbers mixed with strings.
    """
    for block in blocks:
        if block.tokens.dtype.kind not in "iub":
            label_array(block.tokens[block.targets()])
        yield block


def with_counted_stream(
    settings: ModelSettings,
    state: LabelState,
    memory: Memory,
    *,
    store: ModelStore | None,
    cutting: Cutting,
    sample: Examples,
) -> LabelState:
    """Take the counts of a stream that others have read.

    The state has learned a sample of it, and nothing else.
    """
    state = state.with_changes(memory=memory, store=store, cutting=cutting)
    if not state.vote.sample_size():
        return state
    state = _with_vote_for_all_labels(settings, state)
    if state.kept is not None:
        sample = state.kept.fitting_sample(state.vote)
    return state.with_changes(vote=fit_vote(state, sample))


def stream_losses(view: ModelView, stream: Stream) -> NDArray[np.float64]:
    """Return minus the logarithm of the probability of every token of a stream with a context."""
    check_probabilities(view.scorer.vote)
    cutting = stream.cutting or view.cutting or Cutting()
    losses = [np.empty(0)]
    for block in stream.blocks(view.scorer.sites.h, cutting):
        losses += [view.scorer.losses(examples) for examples in block.batches(_ASKED_AT_ONCE)]
    return np.concatenate(losses)
