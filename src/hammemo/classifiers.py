r"""The estimators: one classifier with three axes (kernel, memory, vote), and the paper's model by name.

A query's label is :math:`\arg\max_c S_c(q)`. Ties go to the label that comes first in `classes_`; a query that shares
nothing with what is stored ties all labels at zero, so it too gets the first one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from hammemo.contexts import Contexts, Examples, validated_array, validated_contexts
from hammemo.kernels import PositionalHamming, SiteKernel
from hammemo.labels import classes_array, common_label_dtype, label_array, top_columns
from hammemo.memories import Exact, Gaussian, Memory
from hammemo.memories.certificates import Bounded, proven
from hammemo.tokens import Vocabulary
from hammemo.votes import resolve_vote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hammemo.kernels import Sites
    from hammemo.memories.base import CompiledMemory, Reader
    from hammemo.votes import Vote

Self = TypeVar("Self", bound="MemoryClassifier")

_CHUNK_NUMBERS = 2**23


class MemoryClassifier(ClassifierMixin, BaseEstimator):
    """One-pass classifier of categorical sequences.

    Parameters
    ----------
    kernel : SiteKernel, optional
        Which sites are compared and their weights; the positional Hamming kernel by default.
    memory : Memory, optional
        Where the counts are kept; `Exact()` by default.
    vote : {"sum", "mean"} or Vote
        How the sites' counts become one score a label.
    random_state : int, RandomState or None
        Seeds all that is random. Models with the same seed can be merged; None draws a new one at each fit.

    Attributes
    ----------
    classes_ : ndarray
        Labels in sorted order: those with stored examples, and those declared through ``classes``.
    memory_ : Memory
        The additive state.
    label_dtype_ : dtype
        The type that `classes_` and predictions have.
    kernel_ : SiteKernel
    vote_ : Vote
    sites_ : Sites
        The kernel's sites for this context length.
    n_features_in_ : int
        Tokens per context, the paper's h.

    Examples
    --------
    >>> from hammemo import MemoryClassifier, windows
    >>> text = "the cat sat on the mat and the cat ate the rat".split()
    >>> X, y = windows([text], h=2)
    >>> clf = MemoryClassifier().fit(X, y)
    >>> clf.predict([["and", "the"]]).tolist()
    ['cat']
    >>> clf.partial_fit([["and", "the"]], ["dog"], sample_weight=[5]).predict([["and", "the"]]).tolist()
    ['dog']
    """

    def __init__(
        self,
        kernel: SiteKernel | None = None,
        memory: Memory | None = None,
        vote: str | Vote = "sum",
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.memory = memory
        self.vote = vote
        self.random_state = random_state

    def fit(self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and learn the examples (X, y).

        Parameters
        ----------
        X : array-like or data frame of shape (m, h)
            Contexts: integers, strings or anything else that :mod:`hammemo.tokens` takes as a token.
        y : array-like of shape (m,)
            Labels.
        sample_weight : array-like of shape (m,), optional
            How often each example occurred: non-negative whole numbers.
        """
        return self._learn(X, y, sample_weight, classes=None, reset=True)

    def partial_fit(
        self: Self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn more examples; new tokens and new labels may come at any time.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like, optional
            Labels to keep as candidates even while they have no example. Never required.
        """
        return self._learn(X, y, sample_weight, classes, reset=not hasattr(self, "memory_"))

    def forget(self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take examples back: the exact inverse of `partial_fit`. A label whose last example goes is no longer a class.

        All of them are taken back, or `NotStoredError` is raised and nothing is changed: where the memory can tell that
        one of them was never stored. What `classes` declared, and the layout of the memory, stay.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
        >>> clf = MemoryClassifier().fit(X, y).forget([["d", "c"]], ["yes"])
        >>> clf.memory_.state_bytes() == MemoryClassifier().fit(X[:2], y[:2]).memory_.state_bytes()
        True
        """
        check_is_fitted(self)
        array = validated_array(self, X, reset=False, y=y)
        self.memory_.remove(Examples.of(array, label_array(y), sample_weight))
        return self

    def merge(self: Self, other: MemoryClassifier) -> Self:
        """Add all that another classifier has learnt; its memory must have the same layout, seed included.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> monday = MemoryClassifier().fit([["a", "b"]], ["no"])
        >>> tuesday = MemoryClassifier().fit([["d", "c"]], ["yes"])
        >>> monday.merge(tuesday).predict([["d", "b"], ["d", "c"]]).tolist()
        ['no', 'yes']
        """
        check_is_fitted(self)
        if not isinstance(other, MemoryClassifier):
            raise TypeError(f"merge takes another MemoryClassifier, not {other!r}.")
        check_is_fitted(other)
        dtype = common_label_dtype(self.classes_, other.classes_)
        self.memory_.merge(other.memory_)
        self.label_dtype_ = dtype
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels in sorted order, always those of the memory."""
        if not hasattr(self, "memory_"):
            raise AttributeError("classes_ is known after fit or partial_fit.")
        return classes_array(self.memory_.labels, self.label_dtype_)

    def class_scores(self, X: Any) -> NDArray[np.float64]:
        """Return one score for each context and label, for any number of labels.

        Shapes
        ------
        X : (m, h); returned : (m, len(classes_))
        """
        contexts = self._queries(X)
        return class_scores(self.memory_, contexts, self.sites_, self.vote_)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return `class_scores` or, for two labels, how far the second leads, as scikit-learn expects."""
        scores = self.class_scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the highest score; the first one in `classes_` among equals."""
        contexts = self._queries(X)
        return self.classes_[winners(self.memory_, contexts, self.sites_, self.vote_)]

    def top_k(self, X: Any, k: int = 5) -> NDArray[Any]:
        """Return the k labels with the highest scores, best first; equals in the order of `classes_`.

        Shapes
        ------
        X : (m, h); returned : (m, min(k, len(classes_)))

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> clf = MemoryClassifier().fit([["a", "b"], ["a", "c"], ["b", "c"]], ["x", "y", "y"])
        >>> clf.top_k([["a", "c"]], k=2).tolist()
        [['y', 'x']]
        """
        contexts = self._queries(X)
        return self.classes_[leaders(self.memory_, contexts, self.sites_, self.vote_, k)]

    def certify(self, X: Any) -> NDArray[np.bool_]:
        """Return for each context whether the prediction is proven to be that of the exact classifier.

        True means proven; False means not known. Exact and hashed memories can prove answers; the Gaussian memory
        bounds its error only in probability (:mod:`hammemo.theory`).

        Shapes
        ------
        X : (m, h); returned : (m,)

        Examples
        --------
        >>> from hammemo import Hashed, MemoryClassifier
        >>> X, y = [["a", "b"]] * 5 + [["c", "d"]], ["x"] * 5 + ["y"]
        >>> clf = MemoryClassifier(memory=Hashed(buckets=1, reserved=2)).fit(X, y)
        >>> clf.certify([["a", "b"], ["c", "d"]])
        array([ True, False])
        """
        contexts = self._queries(X)
        memory, sites = self.memory_, self.sites_
        if not isinstance(memory, Bounded):
            raise TypeError(f"{memory!r} gives no certificate; Exact() and Hashed() do.")
        divisor = self.vote_.divisor(self.memory_, sites)
        parts = []
        for batch in _batches(self.memory_, contexts):
            low, high = memory.bounds(batch, sites.weights)
            parts.append(proven(low / divisor, high / divisor, winners(self.memory_, batch, sites, self.vote_)))
        return np.concatenate(parts) if parts else np.empty(0, bool)

    def compile(self, form: str | None = None, vocabulary: Iterable[Any] | None = None) -> Predictor:
        """Fold the state into what serving needs: a read-only `Predictor` that learns nothing more.

        Parameters
        ----------
        form : str, optional
            Which form, of those the memory knows: "sparse" or "dense" counts, "fused" or "two-stage" codes.
        vocabulary : iterable of tokens, optional
            The tokens that the predictor carries data for; by default those the memory has met.
        """
        check_is_fitted(self)
        tokens = None if vocabulary is None else Vocabulary.of(vocabulary)
        return Predictor(self.memory_.compile(form, tokens), self.label_dtype_, self.sites_, self.vote_)

    def _make_memory(self) -> Memory:
        memory = Exact() if self.memory is None else self.memory
        if not isinstance(memory, Memory):
            raise TypeError(f"memory={memory!r} is not a memory: pass an instance such as Exact() or Gaussian(d=1024).")
        return clone(memory)  # type: ignore[no-any-return]

    def _start(self, h: int) -> None:
        if self.kernel is not None and not isinstance(self.kernel, SiteKernel):
            raise TypeError(
                f"kernel={self.kernel!r} is not a kernel: pass an instance such as PositionalHamming(). "
                "A memory is passed as memory=…."
            )
        self.kernel_ = PositionalHamming() if self.kernel is None else clone(self.kernel)
        self.vote_ = clone(resolve_vote(self.vote))
        self.sites_ = self.kernel_.resolve(h)
        self.memory_ = self._make_memory().open(self.sites_, _seed(self.random_state))

    def _learn(self: Self, X: Any, y: Any, sample_weight: Any, classes: Any, *, reset: bool) -> Self:
        """Check everything first, so that what is refused changes nothing, then learn."""
        array = validated_array(self, X, reset=reset, y=y)
        targets = label_array(y)
        declared = targets[:0] if classes is None else label_array(classes)
        dtype = common_label_dtype(targets, declared, *([] if reset else [self.classes_]))
        examples = Examples.of(array, targets, sample_weight)
        if reset and not len(examples) and not len(declared):
            raise ValueError("There is nothing to learn: every sample_weight is zero and no class was declared.")
        if reset:
            self._start(array.shape[1])
        self.memory_.declare(Vocabulary.of(declared))
        self.memory_.add(examples)
        self.label_dtype_ = dtype
        return self

    def _queries(self, X: Any) -> Contexts:
        check_is_fitted(self)
        return validated_contexts(self, X, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


class MeMoClassifier(MemoryClassifier):
    """The paper's single-layer MeMo: `MemoryClassifier` with a Gaussian memory.

    Parameters
    ----------
    d : int
        Dimension of token and label codes.
    d_h : int, optional
        Dimension of a projected token code; d / h by default, which makes the memory square.
    tied : bool
        Whether labels use their input codes as output codes.
    kernel, vote, random_state
        As in `MemoryClassifier`.

    Examples
    --------
    >>> from hammemo import MeMoClassifier
    >>> X, y = [["a", "b"], ["a", "c"], ["d", "e"]], ["x", "x", "y"]
    >>> MeMoClassifier(d=512).fit(X, y).predict([["a", "e"], ["d", "e"]]).tolist()
    ['x', 'y']
    """

    def __init__(
        self,
        d: int = 1024,
        d_h: int | None = None,
        tied: bool = False,
        kernel: SiteKernel | None = None,
        vote: str | Vote = "sum",
        random_state: Any = 0,
    ) -> None:
        self.d = d
        self.d_h = d_h
        self.tied = tied
        self.kernel = kernel
        self.vote = vote
        self.random_state = random_state

    def _make_memory(self) -> Memory:
        return Gaussian(self.d, self.d_h, self.tied)


class Predictor:
    """A read-only model that `MemoryClassifier.compile` returns.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> predictor = MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"]).compile()
    >>> predictor(["c", "b"]), predictor.predict([["c", "d"]]).tolist()
    ('x', ['y'])
    """

    def __init__(self, compiled: CompiledMemory, label_dtype: np.dtype[Any], sites: Sites, vote: Vote) -> None:
        self.label_dtype_ = label_dtype
        self._compiled = compiled
        self._sites = sites
        self._vote = vote

    @cached_property
    def classes_(self) -> NDArray[Any]:
        """Labels in sorted order."""
        return classes_array(self._compiled.labels, self.label_dtype_)

    def __call__(self, tokens: Sequence[Any]) -> Any:
        """Return the label of one context."""
        return self.predict([tokens]).tolist()[0]

    def class_scores(self, X: Any) -> NDArray[Any]:
        """Return one score for each context and label."""
        return class_scores(self._compiled, self._queries(X), self._sites, self._vote)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the highest score; the first one in `classes_` among equals."""
        return self.classes_[winners(self._compiled, self._queries(X), self._sites, self._vote)]

    def top_k(self, X: Any, k: int = 5) -> NDArray[Any]:
        """Return the k labels with the highest scores, best first; equals in the order of `classes_`."""
        return self.classes_[leaders(self._compiled, self._queries(X), self._sites, self._vote, k)]

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs, by name."""
        return self._compiled.tensors()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that prediction needs. As in the paper, the numbering of the tokens is not counted."""
        return sum(array.nbytes for array in self.tensors().values())

    def _queries(self, X: Any) -> Contexts:
        contexts = Contexts.of(X)
        if contexts.h != self._sites.h:
            raise ValueError(f"The model was fitted on contexts of {self._sites.h} tokens; X has {contexts.h}.")
        return contexts


def class_scores(reader: Reader, contexts: Contexts, sites: Sites, vote: Vote) -> NDArray[Any]:
    """Return the vote's scores, computed in batches that bound the memory needed."""
    parts = [vote.scores(reader, batch, sites) for batch in _batches(reader, contexts)]
    return np.concatenate(parts) if parts else np.empty((0, len(reader.labels)))


def leaders(reader: Reader, contexts: Contexts, sites: Sites, vote: Vote, k: int) -> NDArray[np.int64]:
    """Return the columns of the k highest scores of each context, best first, equals in column order."""
    parts = [top_columns(vote.scores(reader, batch, sites), k) for batch in _batches(reader, contexts)]
    return np.concatenate(parts) if parts else np.empty((0, min(k, len(reader.labels))), np.int64)


def winners(reader: Reader, contexts: Contexts, sites: Sites, vote: Vote) -> NDArray[np.int64]:
    """Return the column of the highest score of each context, the first one among equals."""
    if not len(reader.labels):
        raise ValueError("The memory is empty, so there is no label to predict: learn at least one example first.")
    parts = [vote.scores(reader, batch, sites).argmax(axis=1) for batch in _batches(reader, contexts)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _batches(reader: Reader, contexts: Contexts) -> Iterable[Contexts]:
    step = max(1, _CHUNK_NUMBERS // max(reader.row_width, 1))
    return (contexts[start : start + step] for start in range(0, len(contexts), step))


def _seed(random_state: Any) -> int:
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    return int(check_random_state(random_state).randint(2**31))
