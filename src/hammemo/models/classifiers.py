r"""The classifier: one estimator with three axes, kernel, memory and vote.

Here is how it learns and forgets; what can be asked of it is in `answering`, how two of them are added in `additive`.

A query's label is :math:`\arg\max_c S_c(q)`. Ties go to the label that comes first in `classes_`; a query that shares
nothing with what is stored ties all labels at zero, so it too gets the first one.
"""

from __future__ import annotations

import copy
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from hammemo.memories.errors import LayoutError
from hammemo.models import settling
from hammemo.models.additive import Additive
from hammemo.models.answering import Answering
from hammemo.models.axes import StreamFacts, is_auto, part_for, resolved_memory, resolved_vote
from hammemo.models.explanations import one_context
from hammemo.models.growing import watched
from hammemo.models.kept_cases import CaseCutter, Keeper, KeptCases
from hammemo.models.kept_sample import KEPT, KeptSample
from hammemo.models.predictor import Predictor
from hammemo.models.report import Report, site_names
from hammemo.models.scorer import Scorer, check_probabilities
from hammemo.models.settling import Axes, Choices
from hammemo.tokens.contexts import Contexts, Examples, check_column_names, validated_array, validated_contexts
from hammemo.tokens.labels import classes_array, common_label_dtype, holds_label, label_array, widened_label_dtype
from hammemo.tokens.missing import check_way, filled_tokens
from hammemo.tokens.streams import WindowSample, stream_blocks
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary, factorize
from hammemo.votes import LogLinear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hammemo.kernels import SiteKernel
    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory
    from hammemo.models.settling import Settled
    from hammemo.tokens.streams import Block
    from hammemo.votes import Vote

_ASKED_AT_ONCE: Final = 2**22
"""`log_loss_stream` asks for contexts of about so many tokens at a time."""

Self = TypeVar("Self", bound="MemoryClassifier")
Result = TypeVar("Result")


class MemoryClassifier(Additive, Answering, ClassifierMixin, BaseEstimator):
    """One-pass classifier of categorical sequences.

    Parameters
    ----------
    kernel : {"auto", "positional", "pairs", "decaying", "suffixes", "skip-pairs"} or SiteKernel
        Which sites are compared, and their weights. "auto" compares positions and, for a table that `fit` learns whole,
        the tuples of columns that say more together (`AutoSites`); for a stream, suffixes and skip pairs. Tuples are
        for an exact memory and a vote with fitted weights: with others "auto" compares positions.
    memory : {"auto", "exact", "hashed", "gaussian", "tiered", "ledgered"} or Memory
        Where the counts are kept. "auto" is `Exact`; `Hashed` has a size that does not grow.
    vote : {"auto", "sum", "mean", "log-linear", "mixture"} or Vote
        How the sites' counts become one score a label. "auto" is log-linear where the memory keeps rows of counts, with
        weights for each label while there are few; for a stream with more than 256 labels it is a mixture. "sum" is the
        paper's rule.
    random_state : int, RandomState or None
        Seeds all that is random. Models with the same seed can be merged; None draws a new one at each fit.
    missing : {"token", "empty", "refuse"}
        What a missing value of X (None, NaN, pandas' NA) becomes: a token of its own, so that missing values match each
        other; an empty position, which matches nothing; or an error. A missing label is always refused.

    Attributes
    ----------
    classes_ : ndarray
        Labels in sorted order: those with stored examples, and those declared through ``classes``.
    memory_ : Memory
        The additive state.
    label_dtype_ : dtype
        The type that `classes_` and predictions have.
    kernel_ : SiteKernel
        What "auto" became, or the kernel given.
    vote_ : Vote
    sites_ : Sites
        The kernel's sites for this context length.
    choices_ : Choices
        Why the parts are what they are; `report` shows it.
    n_features_in_ : int
        Tokens per context, the paper's h.
    version_ : int
        How many edits there were.

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

    kernel_: SiteKernel
    vote_: Vote
    sites_: Sites
    choices_: Choices
    version_: int

    def __init__(
        self,
        kernel: str | SiteKernel | None = "auto",
        memory: str | Memory | None = "auto",
        vote: str | Vote = "auto",
        random_state: Any = 0,
        missing: str = "token",
    ) -> None:
        self.kernel = kernel
        self.memory = memory
        self.vote = vote
        self.random_state = random_state
        self.missing = missing

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters, those of parts too, also where these are "auto": ``memory__buckets=512`` makes it hashed.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> MemoryClassifier().set_params(memory__buckets=512)
        MemoryClassifier(memory=Hashed(buckets=512))
        >>> MemoryClassifier().set_params(vote__ridge=2.0, kernel__budget=8)
        MemoryClassifier(kernel=AutoSites(budget=8),
                         vote=LogLinear(ridge=2.0, uniform=0.002))
        """
        parts: dict[str, Any] = {}
        for name in params:
            part, nested, parameter = name.partition("__")
            if nested and part not in params and hasattr(self, part):
                value = getattr(self, part)
                if value is None or is_auto(value):
                    parts[part] = part_for(part, parameter)
        super().set_params(**parts, **params)
        return self

    def fit(self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and learn the examples (X, y); then fit the vote's weights to them, if it has any.

        Automatic parts are chosen first, by these examples: what, and what it gained, is in `report`. An automatic vote
        is fitted to 50 examples or more; with fewer, every site has weight 1, as in naive Bayes.

        Parameters
        ----------
        X : array-like or data frame of shape (m, h)
            Contexts: integers, strings or anything else that :mod:`hammemo.tokens.vocabulary` takes as a token.
        y : array-like of shape (m,)
            Labels.
        sample_weight : array-like of shape (m,), optional
            How often each example occurred: non-negative whole numbers.
        """

        def learn(model: MemoryClassifier) -> None:
            examples = model._learn(X, y, sample_weight, classes=None, reset=True, whole=True)
            if isinstance(model.sample_, KeptCases):
                examples = model.sample_.examples()
            if model._is_enough(examples):
                model._fit_vote_to(examples)

        self._edited(learn)
        return self

    def fit_vote(
        self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, leave_one_out: bool = True
    ) -> Self:
        """Fit the weights of a log-linear vote again; what the memory holds is not changed. Other votes are refused.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; a sample of what the memory holds will do.
        leave_one_out : bool
            Whether these examples are stored, so that each must be left out of the counts it is judged by. Say False
            for examples that the memory has not learnt.

        Examples
        --------
        >>> from hammemo import Exact, LogLinear, MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 50, ["no", "no", "yes", "yes"] * 50
        >>> clf = MemoryClassifier(memory=Exact(), vote=LogLinear()).partial_fit(X, y)  # weights are equal still
        >>> even = clf.predict_proba([["a", "b"]])
        >>> bool((clf.fit_vote(X, y).predict_proba([["a", "b"]]).max() > even.max()))
        True
        """
        check_is_fitted(self)
        if not self.vote_.has_weights:
            raise ValueError(
                f"vote={self.vote_!r} has no weights to fit: leave out fit_vote, or fit a model with vote='log-linear'."
            )

        def fit(model: MemoryClassifier) -> None:
            model._fit_vote_to(model._examples(X, y, sample_weight), leave_one_out=leave_one_out)

        self._edited(fit)
        return self

    def refit(self: Self) -> Self:
        """Fit the vote again, to the sample that the model keeps of its examples: without data.

        After `forget` and `refit`, weights and answers are those of a model that learnt the rest only, with the same
        sites and settings of the vote, to the byte. Which sites were chosen still depends on what was forgotten.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 50, ["no", "no", "yes", "yes"] * 50
        >>> clf = MemoryClassifier().fit(X, y)
        >>> rest = clf.empty_like().partial_fit(X[20:], y[20:]).refit()
        >>> clf.forget(X[:20], y[:20]).refit().predict_proba(X).tobytes() == rest.predict_proba(X).tobytes()
        True
        """
        check_is_fitted(self)
        self._edited(lambda model: model._refit())
        return self

    def _refit(self) -> None:
        sample = self.sample_
        if sample is None:
            why = "its vote has nothing to fit" if not self.vote_.has_weights else "none was kept"
            raise ValueError(
                f"There is no sample of the examples to fit the vote to: {why}. A log-linear vote keeps one unless "
                "keep=False, or a model without one was merged. fit_vote(X, y) fits it to examples of your choice."
            )
        self.vote_, examples = clone(self.vote_), sample.examples()  # without what was fitted
        if self._is_enough(examples):
            self._fit_vote_to(examples)

    def _is_enough(self, examples: Examples) -> bool:
        """Return whether there are enough examples to fit an automatic vote to; any other is fitted to any number."""
        return not is_auto(self.vote) or int(examples.multiplicity.sum()) >= settling.FEWEST

    def _examples(self, X: Any, y: Any, sample_weight: Any) -> Examples:
        return Examples.of(validated_array(self, X, reset=False, y=y), label_array(y), sample_weight)

    def _fit_vote_to(self, examples: Examples, *, leave_one_out: bool = True) -> None:
        if self.vote_.has_weights:  # else no reader is made
            memory, self.vote_ = self.memory_, copy.copy(self.vote_)
            reader = memory.static_reader() if self.vote_.keeps_cases else memory.reader()
            self.vote_.fit_to(reader, examples, self.sites_, seed=memory.seed, leave_one_out=leave_one_out)

    def open(self: Self, h: int) -> Self:
        """Forget everything and settle the layout, as the first `partial_fit` would, with nothing learnt.

        Then the model can be saved, copied and merged before its first example. An automatic vote has equal weights.

        Parameters
        ----------
        h : int
            Tokens per context.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> clf = MemoryClassifier().open(h=2)
        >>> clf.classes_.tolist(), clf.partial_fit([["a", "b"]], ["x"]).forget([["a", "b"]], ["x"]).classes_.tolist()
        ([], [])
        """
        if not isinstance(h, (int, np.integer)) or h < 1:
            raise ValueError(f"h={h!r}: a context has at least one token.")
        check_way(self._missing())

        def start(model: MemoryClassifier) -> None:
            model.__dict__.pop("feature_names_in_", None)
            model._start(int(h), settling.for_pieces(model._axes(), 0))
            model.n_features_in_, model.label_dtype_ = int(h), np.dtype(object)

        self._edited(start)
        return self

    def partial_fit(
        self: Self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        layout: MemoryClassifier | None = None,
    ) -> Self:
        """Learn more examples; new tokens and new labels may come at any time.

        The first call settles the layout: an automatic kernel compares positions, whatever the size of the batch, and
        an automatic vote is fitted to the batch if that has 200 examples or more. `refit` fits it again, to all that
        was learnt; `layout=` takes over the tuples of columns that another model's `fit` has found.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like, optional
            Labels to keep as candidates even while they have no example. Never required.
        layout : MemoryClassifier, optional
            At the first call: a fitted model whose layout, and fitted vote, to use, so that the two can be merged.
            Without it a hashed memory gives rows of their own to the most frequent tokens of the first batch.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> here = MemoryClassifier().fit([["a", "b"]], ["no"])
        >>> there = MemoryClassifier().partial_fit([["d", "c"]], ["yes"], layout=here)
        >>> here.merge(there).predict([["d", "c"]]).tolist()
        ['yes']
        """

        def learn(model: MemoryClassifier) -> None:
            is_first = layout is None and not hasattr(model, "memory_")
            examples = model._learn(X, y, sample_weight, classes, layout=layout)
            if is_first and is_auto(model.vote) and examples.multiplicity.sum() >= settling.FIRST_BATCH:
                model._fit_vote_to(examples)

        self._edited(learn)
        return self

    def fit_stream(
        self: Self,
        tokens: Any,
        h: int,
        *,
        starts: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        short: Literal["drop", "pad"] = "drop",
        pad: Any = None,
        layout: MemoryClassifier | None = None,
    ) -> Self:
        """Forget everything and learn to predict every token of a stream from the h tokens before it.

        The same examples as ``fit(*windows(docs, h))``, but the windows are never held all at once: the extra memory
        does not depend on the length of the stream. A hashed memory takes its layout from the first block of tokens. A
        log-linear vote fits its weights to a uniform sample of the windows (``LogLinear(sample=…)`` many).

        Parameters
        ----------
        tokens : ndarray of shape (n,), or iterable of documents
            A flat array of tokens, which may be memory-mapped, or documents as `windows` takes them, which may come
            from a generator.
        h : int
            Tokens per context.
        starts : array-like of int, optional
            With a flat array: where documents start. No window crosses from one to the next.
        classes : array-like, optional
            Learn only the windows whose next token is one of these, and keep them all as candidates.
        short, pad
            As in `windows`.
        layout : MemoryClassifier, optional
            As in `partial_fit`; its fitted vote, if it has one, is not fitted again.

        Examples
        --------
        >>> import numpy as np
        >>> from hammemo import MemoryClassifier
        >>> stream = np.array([1, 2, 3, 1, 2, 3, 1, 2, 4])
        >>> clf = MemoryClassifier().fit_stream(stream, h=2, starts=[0, 6])
        >>> clf.predict([[1, 2]]).tolist(), clf.memory_.label_counts.tolist()
        ([3], [1, 1, 2, 1])
        """
        blocks = stream_blocks(tokens, h, starts, short, pad)

        def learn(model: MemoryClassifier) -> None:
            model.__dict__.pop("memory_", None)
            sample = model._learn_blocks(blocks, h, classes, layout, sampled=True)
            if sample is not None and model._is_enough(sample):
                model._fit_vote_to(sample)

        self._edited(learn)
        return self

    def partial_fit_stream(
        self: Self,
        tokens: Any,
        h: int,
        *,
        starts: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        short: Literal["drop", "pad"] = "drop",
        pad: Any = None,
        layout: MemoryClassifier | None = None,
    ) -> Self:
        """Learn the windows of one more stream; the parameters are those of `fit_stream`. No vote is fitted."""
        blocks = stream_blocks(tokens, h, starts, short, pad)
        self._edited(lambda model: model._learn_blocks(blocks, h, classes, layout))
        return self

    def _learn_blocks(
        self, blocks: Iterator[Block], h: int, classes: Any, layout: MemoryClassifier | None, *, sampled: bool = False
    ) -> Examples | None:
        """Learn the windows of blocks; return a sample of them if one is wanted and the vote has weights to fit."""
        first = next(blocks, None)
        if first is None or not len(first.targets()):
            raise ValueError(f"There is nothing to learn: no document at the start has more than h={h} tokens.")
        chosen = None if classes is None else label_array(classes)
        kinds = [first.tokens[first.targets()[:1]] if chosen is None else chosen]
        if hasattr(self, "memory_"):
            if h != self.sites_.h:
                raise ValueError(f"The model was fitted on contexts of {self.sites_.h} tokens; h={h}.")
            kinds.append(self._label_ends())
        else:
            facts = _stream_facts(first, chosen)
            settled = (
                self._settled_like(layout, facts.n_labels) if layout else settling.for_stream(self._axes(), h, facts)
            )
            self._start(h, settled, layout)
            self.n_features_in_ = h
        self.label_dtype_ = common_label_dtype(*kinds)
        labels = None if chosen is None else Vocabulary.of(chosen)
        memory = self.memory_.snapshot()
        if labels is not None:
            memory.declare_labels(labels)
        keeper = Keeper(self.sample_, h, labels)
        stream: Iterable[Block] = keeper.through(chain([first], blocks))
        if is_auto(getattr(self, "memory", None)):
            stream = watched(stream, memory)
        wanted, sample = self.vote_.wanted() if sampled else 0, None  # a layout may bring fitted weights
        if wanted and self.sample_ is None:
            sample = WindowSample(wanted, memory.seed, labels)
            stream = sample.through(stream)
        memory.update_from_blocks(_labelled(stream) if labels is None else stream, labels)
        self.memory_, self.sample_ = memory, keeper.sample
        self.label_dtype_ = widened_label_dtype(self.label_dtype_, memory.labels)
        if wanted and isinstance(self.vote_, LogLinear) and is_auto(self.vote):  # now it is known how many labels
            self.vote_ = resolved_vote(self.vote, memory, len(memory.labels))
        if self.sample_ is not None and wanted:
            return self.sample_.examples()
        return sample.examples() if sample else None

    def forget(self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take examples back: the exact inverse of `partial_fit`. A label whose last example goes is no longer a class.

        All of them are taken back, or `NotStoredError` is raised and nothing is changed: where the memory can tell that
        one of them was never stored. What `classes` declared, and the layout of the memory, stay.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
        >>> clf = MemoryClassifier().fit(X, y).forget([["d", "c"]], ["yes"])
        >>> fresh = MemoryClassifier().partial_fit(X[:2], y[:2], layout=clf)
        >>> clf.memory_.state_bytes() == fresh.memory_.state_bytes()
        True
        """
        check_is_fitted(self)
        self._edited(lambda model: model._forget(X, y, sample_weight))
        return self

    def forget_stream(
        self: Self,
        tokens: Any,
        *,
        starts: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        short: Literal["drop", "pad"] = "drop",
        pad: Any = None,
    ) -> Self:
        """Take the windows of whole documents back: the exact inverse of `partial_fit_stream`.

        All of them are taken back, or `NotStoredError` is raised and nothing is changed.

        Parameters
        ----------
        tokens, starts, classes, short, pad
            As in `fit_stream`, and as the documents were learnt.

        Examples
        --------
        >>> from hammemo import Bag, MemoryClassifier, Mixture, Suffixes
        >>> sessions = [["tea", "cup", "pot"], ["pen", "ink"], ["tea", "pot"]] * 9
        >>> clf = MemoryClassifier(Suffixes(1) + Bag(3), vote=Mixture()).fit_stream(sessions, h=3, short="pad")
        >>> rest = clf.empty_like().partial_fit_stream(sessions[1:], h=3, short="pad").refit()
        >>> clf.forget_stream(sessions[:1], short="pad").refit().memory_.state_bytes() == rest.memory_.state_bytes()
        True
        """
        check_is_fitted(self)
        blocks = stream_blocks(tokens, self.sites_.h, starts, short, pad)
        labels = None if classes is None else Vocabulary.of(label_array(classes))
        self._edited(lambda model: model._forget_blocks(blocks, labels))
        return self

    def log_loss_stream(
        self,
        tokens: Any,
        *,
        starts: ArrayLike | None = None,
        short: Literal["drop", "pad"] = "drop",
        pad: Any = None,
    ) -> NDArray[np.float64]:
        """Return minus the natural logarithm of the probability of every token of a stream that has a context.

        Its mean is the log-loss, the exponential of that the perplexity. A token that is no label costs infinity:
        declare all that may come as ``classes``. With a mixture only the probability of the token that came is made.

        Parameters
        ----------
        tokens, starts, short, pad
            As in `fit_stream`; nothing is learnt.

        Shapes
        ------
        returned : one number for each token with a context, in the order of the stream

        Examples
        --------
        >>> import numpy as np
        >>> from hammemo import MemoryClassifier, Mixture, Suffixes
        >>> stream = np.array([1, 2, 3, 1, 2, 3, 1, 2, 4] * 30)
        >>> clf = MemoryClassifier(Suffixes(2), vote=Mixture()).fit_stream(stream, h=2)
        >>> bool(np.exp(clf.log_loss_stream(stream).mean()) < 2)
        True
        """
        model = self._now()
        scorer = model._scorer()
        check_probabilities(scorer.vote)
        losses = [np.empty(0)]
        for block in stream_blocks(tokens, scorer.sites.h, starts, short, pad):
            losses += [scorer.losses(examples) for examples in block.parts(_ASKED_AT_ONCE)]
        return np.concatenate(losses)

    def _forget_blocks(self, blocks: Iterator[Block], labels: Vocabulary | None) -> None:
        memory, cutter = self.memory_.snapshot(), CaseCutter(self.sites_.h)
        sample = self.sample_
        for block in blocks:
            examples = block.examples() if labels is None else block.examples().only(labels)
            memory.update(examples, -1)
            if isinstance(sample, KeptCases):
                sample = sample.with_some(cutter.cut(block), -1)
            elif sample is not None:
                sample = sample.changed(examples, -1)
        if isinstance(sample, KeptCases):
            sample = sample.with_some(cutter.finish(), -1)
        self.memory_, self.sample_ = memory, sample

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

    def learn_one(self: Self, tokens: Sequence[Any], label: Any) -> Self:
        """Learn one example, the short way: no table of contexts is checked, and an exact memory takes microseconds.

        Examples
        --------
        >>> from hammemo import Exact, MemoryClassifier
        >>> clf = MemoryClassifier(memory=Exact()).fit([["a", "b"], ["c", "d"]], ["x", "y"])
        >>> clf.learn_one(["c", "e"], "z").learn_one(["c", "e"], "z").predict([["c", "e"]]).tolist()
        ['z']
        >>> clf.forget_one(["c", "e"], "z").forget_one(["c", "e"], "z").classes_.tolist()
        ['x', 'y']
        """
        if not hasattr(self, "memory_"):
            return self.partial_fit([tokens], [label])
        self._edited(lambda model: model._change_one(tokens, label, 1))
        return self

    def forget_one(self: Self, tokens: Sequence[Any], label: Any) -> Self:
        """Take one example back, the short way: the inverse of `learn_one`, with the refusals of `forget`."""
        check_is_fitted(self, "memory_")
        self._edited(lambda model: model._change_one(tokens, label, -1))
        return self

    def _change_one(self, tokens: Sequence[Any], label: Any, by: int) -> None:
        context = one_context(tokens, getattr(self, "feature_names_in_", None), "learn_one" if by > 0 else "forget_one")
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

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels in sorted order, always those of the memory."""
        if not hasattr(self, "memory_"):
            raise AttributeError("classes_ is known after fit or partial_fit.")
        model = self._now()
        return classes_array(model.memory_.labels, model.label_dtype_)

    def compile(
        self, form: str | None = None, vocabulary: Iterable[Any] | None = None, n_jobs: int | None = None
    ) -> Predictor:
        """Fold the state into what serving needs: a read-only `Predictor` that learns nothing more.

        Parameters
        ----------
        form : str, optional
            Which form, of those the memory knows: "sparse" or "dense" counts, "fused" or "two-stage" codes.
        vocabulary : iterable of tokens, optional
            The tokens that the predictor carries data for; by default those the memory has met.
        n_jobs : int, optional
            Threads for large batches, where the compiled form can use them (a hashed memory's can): one by default,
            -1 for all processors.
        """
        check_is_fitted(self)
        model = self._now()
        tokens = None if vocabulary is None else Vocabulary.of(vocabulary)
        compiled = model.memory_._now().compile(form, tokens, effective_n_jobs(n_jobs))
        return Predictor(compiled, model.label_dtype_, model.sites_, model.vote_, model._missing()).prepare()

    def report(self) -> Report:
        """Return what the model is made of: what was chosen, why, and what it gained; ``print`` shows it."""
        check_is_fitted(self)
        model = self._now()
        names = getattr(model, "feature_names_in_", None)
        positions, sample = model.sites_.positions, model.sample_
        return Report(
            n_examples=int(model.memory_.label_counts.sum()),
            n_labels=len(model.memory_.labels),
            n_positions=model.sites_.h,
            tuples=site_names(positions, None if names is None else names.tolist()),
            n_single=sum(len(site) == 1 for site in positions),
            memory=repr(model.memory_),
            nbytes=model.memory_.nbytes,
            vote=repr(model.vote_),
            n_kept=None if sample is None else len(sample),
            choices=getattr(model, "choices_", Choices()),
            free=tuple(f"{site.kind} of {site.reach}" for site in model.sites_.free),
            keeps_cases=isinstance(sample, KeptCases),
            unread=model.vote_.unread(model.sites_),
            model=model,
        )

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's picture and, once fitted, what was chosen."""
        return str(super()._repr_html_inner()) + self._report_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return the same for notebooks that ask for all forms at once."""
        forms: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return {**forms, "text/html": forms["text/html"] + self._report_html()} if "text/html" in forms else forms

    def _report_html(self) -> str:
        return self.report()._repr_html_() if hasattr(self, "memory_") else ""

    def _make_memory(self) -> Memory:
        return resolved_memory(self.memory)

    def _axes(self) -> Axes:
        return Axes(self.kernel, self._make_memory(), self.vote, is_auto(getattr(self, "memory", None)))

    def _settled_like(self, layout: MemoryClassifier, n_labels: int) -> Settled:
        _check_is_model(layout)
        return settling.like(self._axes(), layout, n_labels)

    def _start(self, h: int, settled: Settled, layout: MemoryClassifier | None = None) -> None:
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
        self.sample_ = None
        if self.vote_.keeps_sample:
            theirs = getattr(layout, "sample_", None)
            most = int(getattr(self.vote_, "sample", KEPT))
            kind = KeptCases if self.vote_.keeps_cases else KeptSample
            fresh = kind(h, self.memory_.seed, most)
            self.sample_ = theirs.emptied() if isinstance(theirs, kind) else fresh

    def _learn(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        classes: Any,
        *,
        reset: bool | None = None,
        whole: bool = False,
        layout: MemoryClassifier | None = None,
    ) -> Examples:
        """Learn examples, and return them; from nothing with `reset`, or where nothing was learnt before.

        With `whole` they are all that there is, so sites and vote may be chosen by them.
        """
        reset = not hasattr(self, "memory_") if reset is None else reset
        check_way(self._missing())
        array = validated_array(self, X, reset=reset, y=y)
        targets = label_array(y)
        declared = targets[:0] if classes is None else label_array(classes)
        dtype = common_label_dtype(targets, declared, *([] if reset else [self._label_ends()]))
        examples = Examples.of(array, targets, sample_weight)
        if reset and not len(examples) and not len(declared):
            raise ValueError("There is nothing to learn: every sample_weight is zero and no class was declared.")
        if layout is not None and not reset:
            raise ValueError("layout= is settled at the first call; this model has learnt already.")
        if reset:
            check_column_names(getattr(self, "feature_names_in_", ()))
            h, n_labels = array.shape[1], len(examples.labels.union(Vocabulary.of(declared)))
            if whole:
                settled = settling.for_table(self._axes(), examples, _seed(self.random_state))
            elif layout is None:
                settled = settling.for_pieces(self._axes(), n_labels)
            else:
                settled = self._settled_like(layout, n_labels)
            self._start(h, settled, layout)
        memory = self.memory_.snapshot()
        if len(declared):
            memory.declare_labels(Vocabulary.of(declared))
        memory.update(examples, 1)
        self.memory_, self.label_dtype_ = memory, dtype
        self._change_sample(examples, 1)
        return examples

    def _edited(self: Self, change: Callable[[Self], Result]) -> Result:
        def counted(model: Self) -> Result:
            result = change(model)
            model.version_ = getattr(model, "version_", 0) + 1
            return result

        return super()._edited(counted)

    def _scorer(self) -> Scorer:
        check_is_fitted(self)
        return Scorer(self.memory_.reader(), self.sites_, self.vote_)

    def _contexts(self, X: Any) -> Contexts:
        check_is_fitted(self)
        return validated_contexts(self, X, reset=False)

    def _vote(self) -> str | Vote:
        if hasattr(self, "vote_"):
            return self.vote_
        return resolved_vote(self.vote, self._make_memory()) if is_auto(self.vote) else self.vote

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self._missing() != "refuse"
        return tags


def _stream_facts(first: Block, chosen: NDArray[Any] | None) -> StreamFacts:
    """Return what the first block of a stream, and the labels chosen, tell of it."""
    lengths = np.diff(np.append(first.starts, len(first.tokens)))
    padding = int((first.tokens == NO_TOKEN).sum())
    n_labels = len(factorize(first.tokens[first.targets()])[0]) if chosen is None else len(chosen)
    return StreamFacts(n_labels, (int(lengths.sum()) - padding) / max(len(lengths), 1))


def _labelled(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks after the checks that `fit` makes of labels: no measurements, no mixture of numbers and strings."""
    for block in blocks:
        if block.tokens.dtype.kind not in "iub":
            label_array(block.tokens[block.targets()])
        yield block


def _check_is_model(layout: Any) -> None:
    if not isinstance(layout, MemoryClassifier):
        raise TypeError(
            f"layout={layout!r} is not a fitted model: pass the MemoryClassifier whose layout is to be used."
        )


def _shard_of(model: MemoryClassifier, memory: Memory) -> Memory:
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
