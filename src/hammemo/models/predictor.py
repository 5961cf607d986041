"""Reading: from a memory, or what it compiled to, and a vote to scores and labels.

Work is done in batches that bound the memory it takes, unless the reader finds the best labels by itself.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.integers import row_pieces
from hammemo.memories.bounds import Bounded, certified
from hammemo.models.explanations import explained, one_context
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.labels import checked_k, classes_array, top_columns
from hammemo.votes import LogLinear, softmax

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.memories.base import CompiledMemory, Reader
    from hammemo.models.explanations import Explanation
    from hammemo.votes import Vote


class Predictor:
    """A read-only model that `MemoryClassifier.compile` returns.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> predictor = MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"]).compile()
    >>> predictor(["c", "b"]), predictor.predict([["c", "d"]]).tolist()
    ('x', ['y'])
    >>> predictor
    <Predictor of 2 labels from 2 tokens, 0.01 MiB>
    """

    def __init__(self, compiled: CompiledMemory, label_dtype: np.dtype[Any], sites: Sites, vote: Vote) -> None:
        self.label_dtype_ = label_dtype
        self._compiled = compiled
        self._sites = sites
        self._vote = vote

    def __repr__(self) -> str:
        labels, h = len(self._compiled.labels), self._sites.h
        return f"<Predictor of {labels} labels from {h} tokens, {self.nbytes / 2**20:.2f} MiB>"

    def __call__(self, tokens: Sequence[Any]) -> Any:
        """Return the label of one context, a sequence of h tokens."""
        column = self._single(tokens)
        return self._class_list[column] if column >= 0 else self.predict([tokens]).tolist()[0]

    @cached_property
    def classes_(self) -> NDArray[Any]:
        """Labels in sorted order."""
        return classes_array(self._compiled.labels, self.label_dtype_)

    @cached_property
    def _class_list(self) -> list[Any]:
        return list(self.classes_.tolist())

    @cached_property
    def _single(self) -> Callable[[Sequence[Any]], int]:
        """The reader's own way to answer one context, if it has one; -1 where it has not."""
        ranker = self._vote.ranker(self._compiled, self._sites) if len(self._compiled.labels) else None
        found = None if ranker is None else ranker.single()
        return found or (lambda tokens: -1)  # noqa: ARG005

    def prepare(self) -> Predictor:
        """Do now what the first answer would have to wait for, and return this predictor."""
        _ = self._single
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_single"}  # made again when needed

    def class_scores(self, X: Any) -> NDArray[Any]:
        """Return one score for each context and label."""
        return class_scores(self._compiled, self._queries(X), self._sites, self._vote)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each label; for a log-linear vote only."""
        check_probabilities(self._vote)
        return softmax(self.class_scores(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the highest score; the first one in `classes_` among equals."""
        return self.classes_[winners(self._compiled, self._queries(X), self._sites, self._vote)]

    def top_k(self, X: Any, k: int = 5) -> NDArray[Any]:
        """Return the k labels with the highest scores, best first; equals in the order of `classes_`."""
        return self.classes_[leaders(self._compiled, self._queries(X), self._sites, self._vote, k)]

    def explain(self, x: Any, k: int = 5) -> Explanation:
        """Return which sites and tokens of one context voted for the k leading labels; see `MemoryClassifier.explain`.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> predictor = MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"]).compile()
        >>> predictor.explain(["c", "b"]).contributions.tolist()
        [[0.0, 0.5], [0.5, 0.0]]
        """
        prover = self._compiled if isinstance(self._compiled, Bounded) else None
        return explain(self._compiled, prover, self._queries(one_context(x)), self._sites, self._vote, self.classes_, k)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs, by name."""
        return self._compiled.tensors()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that prediction needs. As in the paper, the numbering of the tokens is not counted."""
        return sum(array.nbytes for array in self.tensors().values())

    def _queries(self, X: Any) -> Contexts:
        return contexts_for(self._sites, X)


def contexts_for(sites: Sites, X: Any) -> Contexts:
    """Return contexts of as many tokens as the sites compare, or refuse others."""
    contexts = Contexts.of(X)
    if contexts.h != sites.h:
        raise ValueError(f"The model was fitted on contexts of {sites.h} tokens; X has {contexts.h}.")
    return contexts


def class_scores(reader: Reader, contexts: Contexts, sites: Sites, vote: Vote) -> NDArray[Any]:
    """Return the vote's scores, computed in batches that bound the memory needed."""
    parts = [vote.scores(reader, batch, sites) for batch in _batches(reader, contexts)]
    return np.concatenate(parts) if parts else np.empty((0, len(reader.labels)))


def leaders(reader: Reader, contexts: Contexts, sites: Sites, vote: Vote, k: int) -> NDArray[np.int64]:
    """Return the columns of the k highest scores of each context, best first, equals in column order."""
    ranker = vote.ranker(reader, sites) if len(reader.labels) else None
    if ranker is not None:
        return ranker.leaders(contexts, checked_k(k))
    parts = [top_columns(vote.scores(reader, batch, sites), k) for batch in _batches(reader, contexts)]
    return np.concatenate(parts) if parts else np.empty((0, min(k, len(reader.labels))), np.int64)


def winners(reader: Reader, contexts: Contexts, sites: Sites, vote: Vote) -> NDArray[np.int64]:
    """Return the column of the highest score of each context, the first one among equals."""
    if not len(reader.labels):
        raise ValueError("The memory is empty, so there is no label to predict: learn at least one example first.")
    ranker = vote.ranker(reader, sites)
    if ranker is not None:
        return ranker.winners(contexts)
    parts = [vote.scores(reader, batch, sites).argmax(axis=1) for batch in _batches(reader, contexts)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def explain(
    reader: Reader,
    prover: Bounded | None,
    context: Contexts,
    sites: Sites,
    vote: Vote,
    classes: NDArray[Any],
    k: int,
) -> Explanation:
    """Return the explanation of one context; `prover` is what gives certificates, if anything does."""
    answers = winners(reader, context, sites, vote)
    columns = leaders(reader, context, sites, vote, max(checked_k(k), 2))[0]
    scores = class_scores(reader, context, sites, vote)[0]
    proven = None
    if prover is not None and vote.certifiable:
        proven = bool(certified(prover, context, sites.weights, vote.divisor(reader, sites), answers)[0])
    return explained(reader, context, sites, vote, classes, columns, scores, proven, k)


def check_probabilities(vote: Vote) -> None:
    """Refuse a vote whose scores are no log-probabilities."""
    if not isinstance(vote, LogLinear):
        raise AttributeError(
            f"The scores of vote={vote!r} are no probabilities: use vote=LogLinear(), or top_k for a ranking."
        )


def _batches(reader: Reader, contexts: Contexts) -> Iterable[Contexts]:
    """Yield parts of the contexts that take a bounded amount of memory to answer."""
    return (contexts[part] for part in row_pieces(len(contexts), reader.row_width))
