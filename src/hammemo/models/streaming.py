"""Streams: learning, forgetting and judging every token by the h tokens before it, without holding the windows.

A stream is cut into blocks (:mod:`hammemo.tokens.streams`); the extra memory depends on the block, not on the length.
"""

from __future__ import annotations

import warnings
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hammemo._progress import advance, progress_bar
from hammemo.models import settling
from hammemo.models.automatic import StreamFacts, repeated_share, resolved_vote
from hammemo.models.documents import Way
from hammemo.models.kept_documents import Keeper, KeptDocuments
from hammemo.models.kept_rows import KeptRows
from hammemo.models.learning import Learning, check_is_model
from hammemo.models.names import is_auto
from hammemo.models.scorer import check_probabilities
from hammemo.models.size_warning import watched
from hammemo.tokens.column_kinds import ColumnKinds
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.event_frames import FRAME_CONTEXT, event_documents
from hammemo.tokens.labels import common_label_dtype, label_array, widened_label_dtype
from hammemo.tokens.streams import WindowSample, long_enough, stream_blocks
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary, factorize
from hammemo.votes import LogLinear

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.streams import Block

_ASKED_AT_ONCE: Final = 2**22
"""Tokens of all contexts that `log_loss_stream` asks for at a time, about."""

Self = TypeVar("Self", bound="Streaming")


class Streaming(Learning):
    """A model that learns streams, and forgets them."""

    def fit_stream(
        self: Self,
        tokens: Any,
        h: int | None = None,
        *,
        starts: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        short: Literal["drop", "pad"] | None = None,
        pad: Any = None,
        layout: Learning | None = None,
        case: str | None = None,
        item: str | None = None,
        time: str | None = None,
        cases: Iterable[Any] | None = None,
    ) -> Self:
        """Forget everything and learn to predict every token of a stream from the h tokens before it.

        Learns the same examples as ``fit(*windows(docs, h))``, but never holds all windows at once: the extra memory
        does not depend on the length of the stream. The documents are kept as ``keep`` says, up to 2^26 tokens; while
        all are kept, the order in which they come does not matter. A vote fits its weights to a sample of the windows
        of kept documents (``LogLinear(sample=…)`` many).

        Parameters
        ----------
        tokens : ndarray of shape (n,), or iterable of documents
            A flat array of tokens, which may be memory-mapped, or documents as `windows` takes them, which may come
            from a generator. Or a data frame (pandas, polars, Arrow) with one row per event.
        h : int
            Tokens per context; for a data frame, 30 by default.
        starts : array-like of int, optional
            With a flat array: where documents start. No window crosses from one to the next.
        classes : array-like, optional
            Learn only the windows whose next token is one of these, and keep them all as candidates.
        short, pad
            As in `windows`; ``short="pad"`` for a data frame, else ``short="drop"``, by default. The model
            stores them (``cutting_``): later queries may be shorter or longer than h, and are filled up or cut alike.
        layout : MemoryClassifier, optional
            As in `partial_fit`; its fitted vote, if it has one, is not fitted again.
        case, item, time : str, optional
            Columns of a data frame: which events belong together, such as those of a visit, what is predicted, and when
            it was. Without a time the rows are in order.
        cases : iterable, optional
            For documents in an iterable, the id of the case of each one, in the same order, as ``case`` gives for a
            data frame. The model keeps a hash of it with each kept document: `forget_stream` and `forget_cases` find
            all documents of a case again. 5, 5.0 and "5" are the same id.

        Examples
        --------
        >>> import numpy as np
        >>> from hammemo import MemoryClassifier
        >>> stream = np.array([1, 2, 3, 1, 2, 3, 1, 2, 4])
        >>> clf = MemoryClassifier().fit_stream(stream, h=2, starts=[0, 6])
        >>> clf.predict([[1, 2]]).tolist(), clf.memory_.label_counts.tolist()
        ([3], [1, 1, 2, 1])
        >>> visits = [["tea", "cup", "pot"], ["pen", "ink"], ["tea", "pot"]]
        >>> shop = MemoryClassifier(vote="sum").fit_stream(visits, h=3, short="pad")
        >>> shop.predict([["pen"], ["tea", "cup"]]).tolist()
        ['ink', 'pot']
        >>> import pandas as pd
        >>> clicks = pd.DataFrame({"visit": [1, 1, 2, 2, 2], "item": ["pen", "ink", "tea", "cup", "pot"]})
        >>> shop = MemoryClassifier(vote="sum").fit_stream(clicks, case="visit", item="item")
        >>> shop.predict([["pen"]]).tolist()
        ['ink']
        """
        is_frame, documents, cases = _read(tokens, case, item, time, cases)
        n_context = FRAME_CONTEXT if h is None and is_frame else h
        if n_context is None:
            raise ValueError("Say how many tokens a context has: h=…")
        cutting = _given_cutting(short, pad) or Cutting("pad" if is_frame else "drop")
        blocks = stream_blocks(documents, n_context, starts, cutting.short, cutting.pad, cases=cases)

        def learn(model: Streaming) -> None:
            model.__dict__.pop("memory_", None)
            total = _number_of(documents)
            sample = model._learn_blocks(blocks, n_context, cutting, classes, layout, sampled=True, total=total)
            kept = model._kept
            if layout is None and isinstance(kept, KeptDocuments) and kept.holds_all:
                model._choose_documents(kept, is_counted=True)
            elif model.vote_.sample_size():  # a layout may bring fitted weights
                if isinstance(model.vote_, LogLinear) and is_auto(model.vote):  # now it is known how many labels
                    model.vote_ = model._weighed(resolved_vote(model.vote, model.memory_, len(model.memory_.labels)))
                model._fit_vote_to_kept(sample)
            model._check_class_weight()

        self._edited(learn)
        return self

    def partial_fit_stream(
        self: Self,
        tokens: Any,
        h: int | None = None,
        *,
        starts: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        short: Literal["drop", "pad"] | None = None,
        pad: Any = None,
        layout: Learning | None = None,
        case: str | None = None,
        item: str | None = None,
        time: str | None = None,
        cases: Iterable[Any] | None = None,
    ) -> Self:
        """Learn the windows of one more stream; the parameters are those of `fit_stream`. No vote is fitted.

        By default, h, short and pad are those of the streams learnt before, or of the layout. New events of a case that
        was learnt before are a document of their own: no window reaches back to the earlier ones.
        """
        if layout is not None:
            check_is_model(layout)
        is_frame, documents, cases = _read(tokens, case, item, time, cases)

        def learn(model: Streaming) -> None:
            known = model if hasattr(model, "memory_") else layout
            of_first = FRAME_CONTEXT if is_frame and known is None else None
            n_context = h or of_first or _context_length(known)
            default = Cutting("pad" if is_frame else "drop")
            cutting = _given_cutting(short, pad) or (known.cutting_ if known else None) or default
            blocks = stream_blocks(documents, n_context, starts, cutting.short, cutting.pad, cases=cases)
            model._learn_blocks(blocks, n_context, cutting, classes, layout, total=_number_of(documents))

        self._edited(learn)
        return self

    def _learn_blocks(
        self,
        blocks: Iterator[Block],
        h: int,
        cutting: Cutting,
        classes: Any,
        layout: Learning | None,
        *,
        sampled: bool = False,
        total: int | None = None,
    ) -> Examples | None:
        """Learn the windows of blocks; return a sample of them if requested and none is kept.

        `total` is how many documents there are, where that is known.
        """
        self._refuse_to_record()
        first = next(blocks, None)
        if first is None or not len(first.targets()):
            raise ValueError(f"There is nothing to learn: no document at the start has more than h={h} tokens.")
        chosen = None if classes is None else label_array(classes)
        kinds = [label_array(first.tokens[first.targets()[:1]]) if chosen is None else chosen]
        _refuse_numbers(self if hasattr(self, "memory_") else layout)
        if hasattr(self, "memory_"):
            if h != self.sites_.h:
                raise ValueError(f"The model was fitted on contexts of {self.sites_.h} tokens; h={h}.")
            kinds.append(self._label_ends())
        else:
            self._columns = None
            self.__dict__.pop("feature_names_in_", None)  # of a table that was learnt before
            facts = _stream_facts(first, chosen)
            settled = (
                self._settled_like(layout, facts.n_labels) if layout else settling.for_stream(self._axes(), h, facts)
            )
            self._start(h, settled, layout, documents=True)
            self.n_features_in_ = h
        self._types = None  # the tokens of documents are names
        self._note_kinds(ColumnKinds.of(Contexts(first.tokens[:, None]), 1))
        self.cutting_ = self._cutting_with(cutting)
        self.label_dtype_ = common_label_dtype(*kinds)
        labels = None if chosen is None else Vocabulary.of(chosen)
        memory = self.memory_.snapshot()
        if labels is not None:
            memory.declare_labels(labels)
        if isinstance(self._kept, KeptRows) and not len(self._kept) and self._kept.holds_all:
            self._kept = self._nothing_kept(h, memory.seed, self.vote_, documents=True)
        keeper = Keeper(self._kept, Way.of(cutting, labels))
        stream: Iterable[Block] = keeper.through(chain([first], blocks))
        if is_auto(getattr(self, "memory", None)):
            stream = watched(stream, memory)
        size, sample = self.vote_.sample_size() if sampled and self._kept is None else 0, None
        if size:
            sample = WindowSample(size, memory.seed, labels)
            stream = sample.through(stream)
        with progress_bar("Learning documents" if total else "Learning tokens"):
            stream = _told(stream, total)
            memory.update_from_blocks(_labelled(stream) if labels is None else stream, labels)
        self.memory_, self._kept = memory, keeper.kept
        self.label_dtype_ = widened_label_dtype(self.label_dtype_, memory.labels)
        return sample.examples() if sample else None

    def forget_stream(
        self: Self,
        tokens: Any,
        *,
        starts: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        short: Literal["drop", "pad"] | None = None,
        pad: Any = None,
        case: str | None = None,
        item: str | None = None,
        time: str | None = None,
        cases: Iterable[Any] | None = None,
    ) -> Self:
        """Remove the windows of whole documents: the exact inverse of `partial_fit_stream`.

        All of them are removed, or `NotStoredError` is raised and nothing is changed: where the memory can tell that
        an example was never stored, or the kept documents that one was not learnt as a whole.

        **Events with cases** (``case`` or ``cases``) are looked for in all kept documents of their case, whatever
        batches these came in. The events of a case may be all of them, in any order, or those of some of its documents,
        one document after the other. Exactly these documents are removed. Any other events are refused with the id of
        the case. After `refit` the model is, to the byte, that which learns the documents that are left as they came: a
        case with clicks in two batches is two documents, and if one of them is removed, the other one is left. Of a
        case that the model does not know, documents that were learnt without a case are removed. Where the model keeps
        only a sample of documents, a document beyond the sample is removed as if it had no case.

        **Documents without cases** are removed from those that were learnt without cases first, then from those with
        cases; they are refused if several cases hold a copy and it is not clear whose is meant.

        Parameters
        ----------
        tokens, starts, classes, case, item, time, cases
            As in `fit_stream`, and as the documents were learnt.
        short, pad
            The same. Where they are not said, the model knows how they were learnt; one that does not know, because
            streams were cut in two ways or its file is an old one, asks for them. Where beginnings were dropped and
            short is not said, a document that is too short for one window is refused: who asks for a deletion must know
            that nothing would be deleted. Kept documents of a case are found without short, pad and classes.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.kernels import Bag, Suffixes
        >>> from hammemo.votes import Mixture
        >>> sessions = [["tea", "cup", "pot"], ["pen", "ink"], ["tea", "pot"]] * 9
        >>> clf = MemoryClassifier(Suffixes(1) + Bag(3), vote=Mixture()).fit_stream(sessions, h=3, short="pad")
        >>> rest = clf.empty_like().partial_fit_stream(sessions[1:]).refit()
        >>> clf.forget_stream(sessions[:1]).refit().memory_.state_bytes() == rest.memory_.state_bytes()
        True
        """
        check_is_fitted(self)
        labels = None if classes is None else Vocabulary.of(label_array(classes))
        _, documents, cases = _read(tokens, case, item, time, cases)

        def forget(model: Streaming) -> bool:
            _refuse_numbers(model)
            h, whole, kept = model.sites_.h, documents, model._kept
            if cases is not None and isinstance(kept, KeptDocuments):
                way = Way.of(_given_cutting(short, pad) or model.cutting_ or Cutting(), labels)
                found, whole = kept.of_events(documents, cases, way)
                model._forget_kept(found)
                if not whole:
                    return True
            cutting = _given_cutting(short, pad) or model._known_cutting()
            whole = long_enough(whole, h, starts) if short is None and cutting.short == "drop" else whole
            blocks = stream_blocks(whole, h, starts, cutting.short, cutting.pad)
            return model._forget_blocks(blocks, cutting, labels)

        if not self._edited(forget):
            warnings.warn(
                "Documents were forgotten that the kept sample does not hold, so the model cannot tell whether each "
                "was learnt as a whole: only its windows were looked for. Give each document whole, as it was learnt.",
                UserWarning,
                stacklevel=2,
            )
        return self

    def forget_cases(self: Self, ids: Iterable[Any]) -> Self:
        """Remove all documents of some cases, such as users, by the ids of these alone.

        After `refit` the model is, to the byte, that which learns the documents of the other cases, as they came. The
        model must keep all its documents, with their cases (``case`` or ``cases`` of `fit_stream`): where it keeps a
        sample or none, the others of a case cannot be found, and nothing is removed. An id that was never learnt is
        refused, and nothing is removed.

        Parameters
        ----------
        ids : iterable
            As they were learnt; 5, 5.0 and "5" are the same.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> visits = [["tea", "cup", "pot"], ["pen", "ink"], ["tea", "pot"]]
        >>> shop = MemoryClassifier(vote="sum", keep=True)
        >>> shop = shop.fit_stream(visits, h=3, short="pad", cases=["ann", "bob", "ann"])
        >>> shop.forget_cases(["ann"]).classes_.tolist()
        ['ink', 'pen']
        """
        check_is_fitted(self)
        if isinstance(ids, (str, bytes)):
            raise TypeError(f"forget_cases takes a list of ids: forget_cases([{ids!r}]).")
        listed = list(ids)

        def forget(model: Streaming) -> None:
            kept = model._kept
            if not isinstance(kept, KeptDocuments) or not kept.holds_all:
                raise ValueError(
                    "The model does not keep all its documents, so it cannot find all those of a case by its id. "
                    "Nothing was changed. Give the events of the case: forget_stream(frame, case=…, item=…)."
                )
            model._forget_kept(kept.of_ids(listed))

        self._edited(forget)
        return self

    def log_loss_stream(
        self,
        tokens: Any,
        *,
        starts: ArrayLike | None = None,
        short: Literal["drop", "pad"] | None = None,
        pad: Any = None,
    ) -> NDArray[np.float64]:
        """Return minus the natural logarithm of the probability of every token of a stream that has a context.

        Its mean is the log-loss, and the exponential of that the perplexity. A token that is no label costs infinity:
        declare all possible tokens as ``classes``. A mixture computes only the probability of the true token.

        Parameters
        ----------
        tokens, starts
            As in `fit_stream`; nothing is learnt.
        short, pad
            The same; by default, as in the learnt streams.

        Shapes
        ------
        returned : one number for each token with a context, in the order of the stream

        Examples
        --------
        >>> import numpy as np
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.kernels import Suffixes
        >>> from hammemo.votes import Mixture
        >>> stream = np.array([1, 2, 3, 1, 2, 3, 1, 2, 4] * 30)
        >>> clf = MemoryClassifier(Suffixes(2), vote=Mixture()).fit_stream(stream, h=2)
        >>> bool(np.exp(clf.log_loss_stream(stream).mean()) < 2)
        True
        """
        model = self._now()
        scorer = model._scorer()
        check_probabilities(scorer.vote)
        _refuse_numbers(model)
        losses = [np.empty(0)]
        cutting = _given_cutting(short, pad) or model.cutting_ or Cutting()
        for block in stream_blocks(tokens, scorer.sites.h, starts, cutting.short, cutting.pad):
            losses += [scorer.losses(examples) for examples in block.batches(_ASKED_AT_ONCE)]
        return np.concatenate(losses)

    def _known_cutting(self) -> Cutting:
        if self.cutting_ is None:
            raise ValueError(
                "The model does not know how these documents were cut into windows: streams were cut in two ways, none "
                "was learnt, or the model is from an old file. Say short='drop' or short='pad', as they were learnt."
            )
        return self.cutting_

    def _forget_kept(self, documents: KeptDocuments) -> None:
        """Remove documents that are kept."""
        self._take_back_kept(documents)
        for examples in documents.batches():
            self._note_forgetting(examples)

    def _forget_blocks(self, blocks: Iterator[Block], cutting: Cutting, labels: Vocabulary | None) -> bool:
        """Take documents back; return whether the kept documents, if there are any, knew that each was learnt whole."""
        memory, keeper = self.memory_.snapshot(), Keeper(self._kept, Way.of(cutting, labels), -1)
        for block in keeper.through(blocks):
            examples = block.examples() if labels is None else block.examples().only(labels)
            memory.update(examples, -1)
            self._note_forgetting(examples)
        self._take_checked(memory)
        self._kept = keeper.kept
        return keeper.could_tell


def _given_cutting(short: Literal["drop", "pad"] | None, pad: Any) -> Cutting | None:
    """Return how the caller wants documents to be cut; None where nothing is said of it."""
    return None if short is None and pad is None else Cutting(short or "drop", pad)


def _read(
    tokens: Any, case: str | None, item: str | None, time: str | None, cases: Iterable[Any] | None
) -> tuple[bool, Any, Iterable[Any] | None]:
    """Return whether events are rows of a data frame, their documents, and the ids of the cases of these."""
    if not hasattr(tokens, "columns") and case is item is time is None:
        return False, tokens, cases
    if cases is not None:
        raise ValueError("cases= is for documents in an iterable; in a data frame, case= names the column of the ids.")
    return True, *event_documents(tokens, case, item, time)


def _context_length(known: Learning | None) -> int:
    if known is None:
        raise ValueError("Nothing was learnt yet: say how many tokens a context has, h=…")
    check_is_fitted(known)
    _refuse_numbers(known)
    return known.sites_.h


def _refuse_numbers(model: Learning | None) -> None:
    """Refuse a model of a table with numbers: its contexts are cells, not tokens of a stream."""
    if model is not None and model._cells is not None:
        raise ValueError(
            "The model was fitted on a table with numbers, so it takes rows and no streams: partial_fit(X, y), "
            "forget(X, y). Streams need a model of their own: fit_stream(…)."
        )


def _stream_facts(first: Block, chosen: NDArray[Any] | None) -> StreamFacts:
    """Return what the first block of a stream, and the labels chosen, tell of it."""
    lengths = np.diff(np.append(first.starts, len(first.tokens)))
    padding = int((first.tokens == NO_TOKEN).sum())
    _, codes = factorize(first.tokens)
    n_labels = len(np.unique(codes[first.targets()])) if chosen is None else len(chosen)
    held = codes >= 0  # beginnings are filled up
    owners = np.repeat(np.arange(len(lengths)), lengths)[held]
    mean_length = (int(lengths.sum()) - padding) / max(len(lengths), 1)
    return StreamFacts(n_labels, mean_length, repeated_share(codes[held], np.bincount(owners, minlength=len(lengths))))


def _told(blocks: Iterable[Block], total: int | None) -> Iterator[Block]:
    """Yield blocks as they are, and tell how many documents were learnt before each, or how many tokens."""
    done = 0
    for block in blocks:
        advance(done, total)
        yield block
        done += len(block.tokens) if total is None else len(block.starts) - block.continues


def _number_of(documents: Any) -> int | None:
    """Return how many documents there are, where that is known at once."""
    return len(documents) if isinstance(documents, (list, tuple)) else None


def _labelled(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks after the checks that `fit` makes of labels: no measurements, no mixture of numbers and strings."""
    for block in blocks:
        if block.tokens.dtype.kind not in "iub":
            label_array(block.tokens[block.targets()])
        yield block
