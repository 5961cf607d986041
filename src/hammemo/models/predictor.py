"""A read-only model for serving: a compiled form of a memory, the sites and the vote."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from hammemo.models.explanations import one_context
from hammemo.models.scorer import Scorer
from hammemo.tokens.labels import classes_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.memories.reader import Compiled
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

    def __init__(self, compiled: Compiled, label_dtype: np.dtype[Any], sites: Sites, vote: Vote) -> None:
        self.label_dtype_ = label_dtype
        self.compiled = compiled
        self._scorer = Scorer(compiled, sites, vote)

    def __repr__(self) -> str:
        labels, h = len(self._scorer.labels), self._scorer.sites.h
        return f"<Predictor of {labels} labels from {h} tokens, {self.nbytes / 2**20:.2f} MiB>"

    @property
    def sites(self) -> Sites:
        """What is compared, with its weights."""
        return self._scorer.sites

    @property
    def vote(self) -> Vote:
        """The vote, with what was fitted."""
        return self._scorer.vote

    def __call__(self, tokens: Sequence[Any]) -> Any:
        """Return the label of one context, a sequence of h tokens."""
        column = self._single(tokens)
        return self._class_list[column] if column >= 0 else self.predict([tokens]).tolist()[0]

    @cached_property
    def classes_(self) -> NDArray[Any]:
        """Labels in sorted order."""
        return classes_array(self._scorer.labels, self.label_dtype_)

    @cached_property
    def _class_list(self) -> list[Any]:
        return list(self.classes_.tolist())

    @cached_property
    def _single(self) -> Callable[[Sequence[Any]], int]:
        """The ranker's own way to answer one context, if it has one; -1 where it has not."""
        found = self._scorer.ranker.single() if len(self._scorer.labels) else None
        return found or (lambda tokens: -1)  # noqa: ARG005

    def prepare(self) -> Predictor:
        """Do now what the first answer would have to wait for, and return this predictor."""
        _ = self._single
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_single"}  # made again when needed

    def class_scores(self, X: Any) -> NDArray[Any]:
        """Return one score for each context and label."""
        return self._scorer.scores(self._scorer.contexts(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each label; for a log-linear vote only."""
        return self._scorer.probabilities(self._scorer.contexts(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the highest score; the first one in `classes_` among equals."""
        return self.classes_[self._scorer.winners(self._scorer.contexts(X))]

    def top_k(self, X: Any, k: int = 5) -> NDArray[Any]:
        """Return the k labels with the highest scores, best first; equals in the order of `classes_`."""
        return self.classes_[self._scorer.leaders(self._scorer.contexts(X), k)]

    def explain(self, x: Any, k: int = 5) -> Explanation:
        """Return which sites and tokens of one context voted for the k leading labels; see `MemoryClassifier.explain`.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> predictor = MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"]).compile()
        >>> predictor.explain(["c", "b"]).contributions.tolist()
        [[0.0, 0.5], [0.5, 0.0]]
        """
        return self._scorer.explanation(self._scorer.contexts(one_context(x)), self.classes_, k)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs, by name."""
        return self.compiled.tensors()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that prediction needs. As in the paper, the numbering of the tokens is not counted."""
        return sum(array.nbytes for array in self.tensors().values())
