r"""The classifier: one estimator with three axes, kernel, memory and vote.

It is a thin front: parameters, documentation, and one state (:mod:`hammemo.edits.state`) that every
edit replaces by the next one. The edits are functions of :mod:`hammemo.edits`, queries are in
:mod:`hammemo.tasks.labels.answer`.

A query's label is :math:`\arg\max_c S_c(q)`. Ties go to the label that comes first in `classes_`; a
query that shares nothing with what is stored ties all labels at zero, so it too gets the first one.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hammemo.edits.editing import edit, get_state, read_rows, warn_of_forgotten_rows
from hammemo.edits.fit import fit
from hammemo.edits.learn import admit, learn
from hammemo.edits.refit import note_fitted_weights
from hammemo.estimators.base import MemoryModel, QuickAnswers
from hammemo.estimators.predictor import Predictor, compile_state
from hammemo.explain.report_text import ShowsReport
from hammemo.memories import Memory
from hammemo.tasks.labels import streams, weigh
from hammemo.tasks.labels.answer import Answering, ModelView
from hammemo.tasks.labels.automatic import make_parts, make_vote
from hammemo.tasks.labels.layout import Choices, LabelState, Layout
from hammemo.tasks.labels.names import is_auto
from hammemo.tasks.labels.open import open_state
from hammemo.tasks.labels.read import classes_of
from hammemo.tasks.labels.report import Report, make_report
from hammemo.tasks.labels.scorer import Scorer
from hammemo.tasks.labels.settings import ModelSettings
from hammemo.tasks.labels.site_bits import bits_of_columns
from hammemo.tasks.labels.streams import Stream
from hammemo.tasks.labels.task import LABELS
from hammemo.tokens.missing import check_missing_rule
from hammemo.tokens.vocabulary import Vocabulary
from hammemo.votes import Vote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hammemo._arrays.types import Array
    from hammemo.kernels import SiteKernel
    from hammemo.kernels.sites import Sites
    from hammemo.stores import Digests
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.cutting import Cutting

Self = TypeVar("Self", bound="MemoryClassifier")


class MemoryClassifier(
    Answering, MemoryModel[Layout, Memory, Vote], ShowsReport, ClassifierMixin, BaseEstimator
):
    """One-pass classifier of tables and sequences that can exactly forget training rows.

    Parameters
    ----------
    kernel : {"auto", "positional", "pairs", "decaying", "suffixes", "skip-pairs"} or SiteKernel
        Which sites are compared, and their weights. "auto" compares positions and, for a table that
        `fit` learns whole, the tuples of columns that are informative together (`AutoSites`); for a
        stream, suffixes and skip pairs. Tuples need an exact memory and a vote with fitted weights;
        with others "auto" compares positions.
    memory : {"auto", "exact", "hashed", "gaussian", "tiered"} or Memory
        Where the counts are stored. "auto" is `Exact`; `Hashed` has a fixed number of rows.
    vote : {"auto", "sum", "mean", "log-linear", "mixture"} or Vote
        How counts become one score per label. "auto" is log-linear if the memory stores rows of
        counts, with weights for each label if there are few; for a stream with more than 256 labels
        it is a mixture. "sum" is the paper's rule.
    random_state : int, RandomState or None
        The seed. Models with the same seed can be merged; None draws a new seed at each fit.
    missing : {"token", "empty", "refuse"}
        How to treat a missing value of X (None, NaN, pandas' NA): as a token of its own, so missing
        values match each other; as an empty position, which matches nothing; or as an error. A
        missing label is always refused.
    keep : {"auto", True, False, "digests", "auto+digests", "rows+digests"}, int or Digests
        Whether the model keeps its rows, in plain text, so that `refit` needs no data. "auto" keeps
        them if sites are chosen or weights are fitted: up to 200,000 distinct rows and 2^26 tokens,
        beyond that those with the lowest hashes. A number limits the distinct rows, or the tokens
        of documents, to keep; False keeps none. "digests" keeps no row, but keyed digests of all,
        so that `forget` refuses every row that was never learnt; "rows+digests" and "auto+digests"
        keep both. `Digests` takes a secret key.
    numeric : "auto", "none" or list of columns
        Which columns are numbers, by name or by place. "auto" takes floats, dates, durations and
        whole numbers for numbers, but with a given kernel, whole numbers of lists and arrays for
        names; "none" makes every column names.
    ordered : dict from columns to lists, optional
        The categories of columns whose values have an order, from low to high, as in ``{"size":
        ["S", "M", "L"]}``, by name or by place. Categories with an order of pandas, polars (Enum)
        and Arrow need no such entry. A value that is no category is refused when it is learned, and
        counts as missing in a question.
    class_weight : "balanced", dict from labels to weights, or None
        How much labels matter: the odds of a label are multiplied by its weight where counts are
        read. Let p be the softmax of the `class_scores` of the model without weights. With weights
        w, the softmax becomes p'(c) = w(c) p(c) / Σ w(k) p(k), which is a shift of the prior. As
        without weights, `predict_proba` returns (1 - u) p' + u / L for L labels, with the small
        share u (`uniform`) of the vote, so the order of labels is that of p'. Counts stay whole
        numbers, and weights of sites are fitted as without it. Labels that are not named have
        weight 1; `fit` refuses a weight for a label that is not in y. "balanced" takes one over the
        share of each label that is held now, so that all labels are equally likely before anything
        is known. It is for a log-linear vote.
    verbose : int or bool
        Whether long edits say on standard error what they do, every few seconds, where that is no
        terminal; on a terminal there are progress bars. It changes nothing in the model, and is not
        in its files.
    n_jobs : int or None
        How many threads long edits use: to grow trees, to test candidates for sites, and for folds.
        None is 1, -1 uses all cores. The model is the same to the byte for any number, which is not
        in its files. Answers use one thread; `compile` has a parameter of its own.

    Attributes
    ----------
    classes_ : ndarray
        Labels in sorted order: those with stored examples, and those declared through ``classes``.
    memory_ : Memory
        The additive state.
    label_dtype_ : dtype
        The type that `classes_` and predictions have.
    kernel_ : SiteKernel
        The kernel that "auto" chose, or the kernel given.
    vote_ : Vote
    sites_ : Sites
        The kernel's sites for this context length.
    choices_ : Choices
        What was chosen, and why; `report` shows it.
    n_features_in_ : int
        Tokens per context, the paper's h.
    cutting_ : Cutting or None
        How `fit_stream` cut the beginnings of documents (short, pad); None if no streams were
        learnt, or not all alike. If it is known, contexts may have any length.
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
    >>> clf = clf.partial_fit([["and", "the"]], ["dog"], sample_weight=[5])
    >>> clf.predict([["and", "the"]]).tolist()
    ['dog']
    """

    family = "MemoryClassifier"
    predicts = "labels"
    kind_in_files = "classifier"
    has_scores = True
    way_to_fit_weights = "fit the weights to examples of your choice in Python: fit_vote(X, y)"
    learns_documents = True
    takes_digests = True

    def __init__(  # noqa: PLR0913, PLR0917  scikit-learn's form of parameters
        self,
        kernel: str | SiteKernel | None = "auto",
        memory: str | Memory | None = "auto",
        vote: str | Vote = "auto",
        random_state: Any = 0,
        missing: str = "token",
        keep: str | bool | int | Digests = "auto",
        numeric: str | Sequence[Any] = "auto",
        class_weight: str | Mapping[Any, float] | Sequence[tuple[Any, float]] | None = None,
        verbose: Any = 0,
        n_jobs: Any = None,
        ordered: Mapping[Any, Sequence[Any]] | None = None,
    ) -> None:
        self.kernel = kernel
        self.memory = memory
        self.vote = vote
        self.random_state = random_state
        self.missing = missing
        self.keep = keep
        self.numeric = numeric
        self.class_weight = class_weight
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.ordered = ordered

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters, and those of parts, even where these are "auto".

        ``memory__buckets=512`` makes the memory a hashed one.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> MemoryClassifier().set_params(memory__buckets=512)
        MemoryClassifier(memory=Hashed(buckets=512))
        >>> MemoryClassifier().set_params(vote__ridge=2.0, kernel__budget=8)
        MemoryClassifier(kernel=AutoSites(budget=8),
                         vote=LogLinear(ridge=2.0, uniform=0.002))
        """
        parts = {
            name: value for name, value in make_parts(self, params).items() if name not in params
        }
        super().set_params(**parts, **params)
        return self

    def settings(self) -> ModelSettings:
        """Return the parameters as one value: what the steps of an edit take."""
        return ModelSettings(
            task=LABELS,
            kernel=self.kernel,
            vote=self.vote,
            random_state=self.random_state,
            missing=self.missing,
            keep=self.keep,
            numeric=self.numeric,
            class_weight=self.class_weight,
            memory=self.memory,
            ordered=self.ordered,
        )

    @property
    def memory_(self) -> Memory:
        """The additive state."""
        return self.state.memory

    @property
    def kernel_(self) -> SiteKernel:
        """The kernel that "auto" chose, or the kernel given."""
        return self.state.layout.kernel

    @property
    def sites_(self) -> Sites:
        """The kernel's sites for this context length."""
        return self.state.layout.sites

    @property
    def vote_(self) -> Vote:
        """The vote, with its fitted weights."""
        return self.state.vote

    @property
    def choices_(self) -> Choices:
        """What was chosen, and why."""
        return self.state.layout.choices

    @property
    def label_dtype_(self) -> np.dtype[Any]:
        """The type that `classes_` and predictions have."""
        return self.state.target_dtype

    @property
    def cutting_(self) -> Cutting | None:
        """How `fit_stream` cut the beginnings of documents.

        None if no streams were learnt, or not all alike.
        """
        return self.state.cutting

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels in sorted order, always those of the memory."""
        return classes_of(self.state)

    def fit(
        self: Self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Forget everything and learn the examples (X, y); fit the vote's weights to them.

        Automatic parts are chosen first, by these examples: what, and what it gained, is in
        `report`. An automatic vote is fitted to 50 examples or more; with fewer, every site has
        weight 1, as in naive Bayes.

        Parameters
        ----------
        X : array-like or data frame of shape (m, h)
            Rows of names, numbers and dates. Missing values are values of their own.
        y : array-like of shape (m,)
            Labels.
        sample_weight : array-like of shape (m,), optional
            How often each example occurred: non-negative whole numbers.
        classes : array-like, optional
            Labels to keep as candidates even while they have no example.
        """

        def change(model: MemoryClassifier) -> LabelState:
            rows = read_rows(model, X, y, None, sample_weight=sample_weight)
            return fit(model.settings(), get_state(model), rows, classes)

        edit(self, change)
        return self

    def fit_vote(
        self: Self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        leave_one_out: bool = True,
    ) -> Self:
        """Fit the weights of a log-linear vote again; what the memory holds is not changed.

        Other votes are refused.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; a sample of the stored examples is enough.
        leave_one_out : bool
            Whether these examples are stored, so each must be left out of the counts that predict
            it. Pass False for examples that the memory has not learnt.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.memories import Exact
        >>> from hammemo.votes import LogLinear
        >>> X = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 50
        >>> y = ["no", "no", "yes", "yes"] * 50
        >>> clf = MemoryClassifier(memory=Exact(), vote=LogLinear())
        >>> clf = clf.partial_fit(X, y, choose=False)  # weights are equal still
        >>> even = clf.predict_proba([["a", "b"]])
        >>> bool((clf.fit_vote(X, y).predict_proba([["a", "b"]]).max() > even.max()))
        True
        """
        check_is_fitted(self)
        if not self.vote_.has_weights:
            raise ValueError(
                f"vote={self.vote_!r} has no weights to fit: leave out fit_vote, or fit a model "
                "with vote='log-linear'."
            )

        def change(model: MemoryClassifier) -> LabelState:
            state = model.state
            rows = read_rows(model, X, y, state, sample_weight=sample_weight)
            vote = weigh.fit_vote(state, rows.examples(), leave_one_out=leave_one_out)
            return note_fitted_weights(model.settings(), state.with_changes(vote=vote))

        edit(self, change)
        return self

    def open(self: Self, h: int) -> Self:
        """Forget everything and fix the layout, as the first `partial_fit` would.

        Nothing is learned. Then the model can be saved, copied and merged before its first example.
        An automatic vote has equal weights.

        Parameters
        ----------
        h : int
            Tokens per context.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> clf = MemoryClassifier().open(h=2)
        >>> clf.classes_.tolist()
        []
        >>> clf.partial_fit([["a", "b"]], ["x"]).predict([["a", "c"]]).tolist()
        ['x']
        """
        if not isinstance(h, (int, np.integer)) or h < 1:
            raise ValueError(f"h={h!r}: a context has at least one token.")
        check_missing_rule(self.settings().missing)
        edit(self, lambda model: open_state(model.settings(), int(h)))
        return self

    def partial_fit(  # noqa: PLR0917  users may pass these by position
        self: Self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        layout: MemoryClassifier | None = None,
        choose: bool = True,
    ) -> Self:
        """Learn more examples; new tokens and new labels may come at any time.

        From 200 examples on, and again whenever their number has doubled, what is automatic is
        chosen by all rows, with one fold held out; `refit` at the end makes the model that `fit`
        makes of them. This is while all rows are kept. `layout=` takes over what another model's
        `fit` has chosen, and nothing is chosen then.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like, optional
            Labels to keep as candidates even while they have no example. Never required.
        layout : MemoryClassifier, optional
            At the first call: a fitted model whose layout, and fitted vote, to use, so that the two
            can be merged. Without it a hashed memory gives rows of their own to the most frequent
            tokens of the first batch.
        choose : bool
            Whether this call may choose again; pass False if no call may take longer than its
            batch.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> here = MemoryClassifier().fit([["a", "b"]], ["no"])
        >>> there = MemoryClassifier().partial_fit([["d", "c"]], ["yes"], layout=here)
        >>> here.merge(there).predict([["d", "c"]]).tolist()
        ['yes']
        """
        layout_state = self.read_layout(layout)

        def change(model: MemoryClassifier) -> LabelState:
            settings = model.settings()
            state = get_state(model)
            if state is not None:
                state = admit(settings, state, X, choose_again=choose)
            rows = read_rows(model, X, y, state, sample_weight=sample_weight)
            return learn(settings, state, rows, classes, layout_state, choose_again=choose)

        edit(self, change)
        return self

    def learn_one(self: Self, tokens: Sequence[Any], label: Any) -> Self:
        """Learn one example, quickly: no table of contexts is checked.

        With an exact memory it takes microseconds.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.memories import Exact
        >>> clf = MemoryClassifier(memory=Exact()).fit([["a", "b"], ["c", "d"]], ["x", "y"])
        >>> clf.learn_one(["c", "e"], "z").learn_one(["c", "e"], "z").predict([["c", "e"]]).tolist()
        ['z']
        >>> clf.forget_one(["c", "e"], "z").forget_one(["c", "e"], "z").classes_.tolist()
        ['x', 'y']
        """
        return super().learn_one(tokens, label)

    def forget_one(self: Self, tokens: Sequence[Any], label: Any) -> Self:
        """Remove one example, quickly: the inverse of `learn_one`.

        It refuses what `forget` refuses.
        """
        return super().forget_one(tokens, label)

    def fit_stream(  # noqa: PLR0913  each describes the stream in one of three forms
        self: Self,
        tokens: Any,
        h: int | None = None,
        *,
        starts: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        short: Literal["drop", "pad"] | None = None,
        pad: Any = None,
        layout: MemoryClassifier | None = None,
        case: str | None = None,
        item: str | None = None,
        time: str | None = None,
        cases: Iterable[Any] | None = None,
    ) -> Self:
        """Forget everything and learn to predict each token of a stream from the h tokens before.

        Learns the same examples as ``fit(*windows(docs, h))``, but never holds all windows at once:
        the extra memory does not depend on the length of the stream. The documents are kept as
        ``keep`` says, up to 2^26 tokens; while all are kept, the order in which they come does not
        matter. A vote fits its weights to a sample of the windows of kept documents
        (``LogLinear(sample=…)`` many).

        Parameters
        ----------
        tokens : ndarray of shape (n,), or iterable of documents
            A flat array of tokens, which may be memory-mapped, or documents as `windows` takes
            them, which may come from a generator. Or a data frame (pandas, polars, Arrow) with one
            row per event.
        h : int
            Tokens per context; for a data frame, 30 by default.
        starts : array-like of int, optional
            With a flat array: where documents start. No window crosses from one to the next.
        classes : array-like, optional
            Learn only the windows whose next token is one of these, and keep them all as
            candidates.
        short, pad
            As in `windows`; ``short="pad"`` for a data frame, else ``short="drop"``, by default.
            The model stores them (``cutting_``): later queries may be shorter or longer than h, and
            are filled up or cut alike.
        layout : MemoryClassifier, optional
            As in `partial_fit`; its fitted vote, if it has one, is not fitted again.
        case, item, time : str, optional
            Columns of a data frame: which events belong together, such as those of a visit, what is
            predicted, and when it was. Without a time the rows are in order.
        cases : iterable, optional
            For documents in an iterable, the id of the case of each one, in the same order, as
            ``case`` gives for a data frame. The model keeps a hash of it with each kept document:
            `forget_stream` and `forget_cases` find all documents of a case again. 5, 5.0 and "5"
            are the same id.

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
        >>> items = ["pen", "ink", "tea", "cup", "pot"]
        >>> clicks = pd.DataFrame({"visit": [1, 1, 2, 2, 2], "item": items})
        >>> shop = MemoryClassifier(vote="sum").fit_stream(clicks, case="visit", item="item")
        >>> shop.predict([["pen"]]).tolist()
        ['ink']
        """
        layout_state = self.read_layout(layout)
        stream = Stream.read(
            tokens,
            starts,
            classes,
            short=short,
            pad=pad,
            case=case,
            item=item,
            time=time,
            cases=cases,
        )

        def change(model: MemoryClassifier) -> LabelState:
            before = get_state(model)
            return streams.fit_stream(model.settings(), before, stream, h=h, layout=layout_state)

        edit(self, change)
        return self

    def partial_fit_stream(  # noqa: PLR0913  each describes the stream in one of three forms
        self: Self,
        tokens: Any,
        h: int | None = None,
        *,
        starts: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        short: Literal["drop", "pad"] | None = None,
        pad: Any = None,
        layout: MemoryClassifier | None = None,
        case: str | None = None,
        item: str | None = None,
        time: str | None = None,
        cases: Iterable[Any] | None = None,
    ) -> Self:
        """Learn the windows of one more stream; the parameters are those of `fit_stream`.

        No vote is fitted.

        By default, h, short and pad are those of the streams learnt before, or of the layout. New
        events of a case that was learnt before are a document of their own: no window reaches back
        to the earlier ones.
        """
        layout_state = self.read_layout(layout)
        stream = Stream.read(
            tokens,
            starts,
            classes,
            short=short,
            pad=pad,
            case=case,
            item=item,
            time=time,
            cases=cases,
        )

        def change(model: MemoryClassifier) -> LabelState:
            before = get_state(model)
            return streams.learn_stream(model.settings(), before, stream, h=h, layout=layout_state)

        edit(self, change)
        return self

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

        All of them are removed, or `NotStoredError` is raised and nothing is changed: where the
        memory can tell that an example was never stored, or the kept documents that one was not
        learnt as a whole.

        **Events with cases** (``case`` or ``cases``) are looked for in all kept documents of their
        case, whatever batches these came in. The events of a case may be all of them, in any order,
        or those of some of its documents, one document after the other. Exactly these documents are
        removed. Any other events are refused with the id of the case. After `refit` the model is,
        to the byte, that which learns the documents that are left as they came: a case with clicks
        in two batches is two documents, and if one of them is removed, the other one is left. Of a
        case that the model does not know, documents that were learnt without a case are removed.
        Where the model keeps only a sample of documents, a document beyond the sample is removed as
        if it had no case.

        **Documents without cases** are removed from those that were learnt without cases first,
        then from those with cases; they are refused if several cases hold a copy and it is not
        clear whose is meant.

        Parameters
        ----------
        tokens, starts, classes, case, item, time, cases
            As in `fit_stream`, and as the documents were learnt.
        short, pad
            The same. Where they are not said, the model knows how they were learnt; one that does
            not know, because streams were cut in two ways or its file is an old one, asks for them.
            Where beginnings were dropped and short is not said, a document that is too short for
            one window is refused: who asks for a deletion must know that nothing would be deleted.
            Kept documents of a case are found without short, pad and classes.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.kernels import Bag, Suffixes
        >>> from hammemo.votes import Mixture
        >>> sessions = [["tea", "cup", "pot"], ["pen", "ink"], ["tea", "pot"]] * 9
        >>> clf = MemoryClassifier(Suffixes(1) + Bag(3), vote=Mixture())
        >>> clf = clf.fit_stream(sessions, h=3, short="pad")
        >>> rest = clf.empty_like().partial_fit_stream(sessions[1:]).refit()
        >>> clf = clf.forget_stream(sessions[:1]).refit()
        >>> clf.memory_.state_bytes() == rest.memory_.state_bytes()
        True
        """
        check_is_fitted(self)
        stream = Stream.read(
            tokens,
            starts,
            classes,
            short=short,
            pad=pad,
            case=case,
            item=item,
            time=time,
            cases=cases,
        )
        are_whole = True

        def change(model: MemoryClassifier) -> LabelState:
            nonlocal are_whole
            state, are_whole = streams.forget_stream(model.settings(), model.state, stream)
            return state

        edit(self, change)
        if not are_whole:
            warnings.warn(
                "Documents were forgotten that the kept sample does not hold, so the model cannot "
                "tell whether each was learnt as a whole: only its windows were looked for. Give "
                "each document whole, as it was learnt.",
                UserWarning,
                stacklevel=2,
            )
        return self

    def forget_cases(self: Self, ids: Iterable[Any]) -> Self:
        """Remove all documents of some cases, such as users, by the ids of these alone.

        After `refit` the model is, to the byte, that which learns the documents of the other cases,
        as they came. The model must keep all its documents, with their cases (``case`` or ``cases``
        of `fit_stream`): where it keeps a sample or none, the others of a case cannot be found, and
        nothing is removed. An id that was never learnt is refused, and nothing is removed.

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
        edit(self, lambda model: streams.forget_cases(model.settings(), model.state, listed))
        return self

    def log_loss_stream(
        self,
        tokens: Any,
        *,
        starts: ArrayLike | None = None,
        short: Literal["drop", "pad"] | None = None,
        pad: Any = None,
    ) -> NDArray[np.float64]:
        """Return minus the natural logarithm of the probability of each token of a stream.

        Only tokens that have a context count. The mean is the log-loss, and the exponential of
        that the perplexity. A token that is no label costs infinity: declare all possible tokens as
        ``classes``. A mixture computes only the probability of the true token.

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
        self._check_is_fitted()
        streams.refuse_numbers(self.state)
        return streams.stream_losses(
            self.view(), Stream.read(tokens, starts, None, short=short, pad=pad)
        )

    def compile(
        self,
        form: str | None = None,
        vocabulary: Iterable[Any] | None = None,
        n_jobs: int | None = None,
    ) -> Predictor:
        """Compile the state into a read-only `Predictor` for fast answers.

        Parameters
        ----------
        form : str, optional
            A compiled form of the memory: "sparse" or "dense" counts, "fused" or "two-stage" codes.
        vocabulary : iterable of tokens, optional
            The tokens that the predictor knows; by default those the memory has met.
        n_jobs : int, optional
            Threads for large batches, if the compiled form supports them (a hashed memory's does):
            one by default, -1 for all processors.
        """
        check_is_fitted(self)
        tokens = None if vocabulary is None else Vocabulary.of(vocabulary)
        threads = effective_n_jobs(n_jobs)
        return compile_state(self.state, self.settings(), form, vocabulary=tokens, threads=threads)

    def changed_labels(self, other: Any, X: Any) -> float:
        """Return the share of rows to which another model gives another label.

        The other one may be this model before a refit.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 50
        >>> y = ["no", "no", "yes", "yes"] * 50
        >>> clf = MemoryClassifier().fit(X, y)
        >>> clf.changed_labels(clf.snapshot().forget(X[:20], y[:20]).refit(), X)
        0.0
        """
        labels = np.asarray(self.predict(X), object)
        other_labels = np.asarray(other.predict(X), object)
        if not len(labels):
            return 0.0
        return float(np.mean(labels != other_labels))

    def share_of_changed_labels(self, other: Any, X: Any) -> float | None:
        """Return `changed_labels`; None for a model that had no labels."""
        if not len(self.classes_):
            return None
        return self.changed_labels(other, X)

    def predict_kept_rows(self, most: int) -> Array | None:
        """Return the labels that the model predicts for the last kept rows, at most so many.

        None where no rows are kept.
        """
        rows = self.state.rows
        if rows is None or not len(rows):
            return None
        contexts = rows.examples().contexts[-most:]
        labels: Array = self.classes_[self.view().scorer.winners(contexts)]
        return labels

    def quick_answers(self) -> QuickAnswers | None:
        """Return what answers single rows in microseconds; None before there are labels."""
        view = self.view()
        if not len(view.scorer.labels):
            return None
        ranker = view.scorer.ranker
        return QuickAnswers(view.classes().tolist(), ranker.single(), ranker.reads_rows)

    def as_classifier(self) -> MemoryClassifier:
        """Return this model."""
        return self

    def report(self) -> Report:
        """Return a report of what was chosen, why, and what it gained; ``print`` shows it."""
        check_is_fitted(self)
        return make_report(self.now())

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The share of each column of X in the model's gain over the label frequencies.

        The gain is in bits per example. They are those of ``report().bits()``, with a tuple of
        columns divided evenly among its columns. They are computed from a sample of the rows that
        the model keeps: at most 4,000, or 200 with trees. A column below zero lowers the mean
        log-probability of the right label. The first access after an edit computes them; ``dir``
        and the view in a notebook do not, and show them only once they are computed.

        Examples
        --------
        >>> import numpy as np
        >>> from hammemo import MemoryClassifier
        >>> X = np.random.default_rng(0).integers(0, 2, (400, 3)).astype(str)
        >>> found = MemoryClassifier().fit(X, X[:, 1]).feature_importances_
        >>> int(found.argmax()), bool(found[1] > 0.9)
        (1, True)
        """
        if "_state" not in vars(self):
            raise AttributeError("feature_importances_ is known after fit.")
        try:
            return bits_of_columns(self.state, self.report().bits())
        except ValueError as error:  # scikit-learn asks with hasattr
            raise AttributeError(str(error)) from None

    def view(self) -> ModelView:
        """Return what answers for all that is stored now."""
        self._check_is_fitted()
        version = self.now()
        state = version.state
        layout = state.layout
        memory = state.memory.now()
        scorer = Scorer(
            memory.reader(), layout.sites, state.vote, memory=memory, cells=layout.cells
        )
        return ModelView(
            scorer,
            version.contexts,
            state.target_dtype,
            self.settings().missing,
            cutting=state.cutting,
            cells=layout.cells,
            names=state.columns.names,
            scales=state.columns.scales,
        )

    def _warn_of_other_weights(self, other: LabelState) -> None:
        weigh.warn_of_other_weights(self.vote_, other.vote)

    def _question(self, X: Any) -> tuple[ModelView, Contexts]:
        warn_of_forgotten_rows(self)
        return super()._question(X)

    def vote_in_use(self) -> str | Vote:
        """Return the vote, also before anything is learnt."""
        if "_state" in vars(self):
            return self.vote_
        if is_auto(self.vote):
            return make_vote(self.vote, self.settings().new_memory())
        return self.vote
