r"""The classifier: one estimator with three axes, kernel, memory and vote.

Here is what its user calls to learn, forget, compile and report. Methods for streams are in `streaming`, the steps of
an edit in `learning`; queries are in `answering`, the addition of two models in `additive`.

A query's label is :math:`\arg\max_c S_c(q)`. Ties go to the label that comes first in `classes_`; a query that shares
nothing with what is stored ties all labels at zero, so it too gets the first one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hammemo.models import settling
from hammemo.models.axes import part_for, resolved_vote
from hammemo.models.column_values import column_values
from hammemo.models.digests import part_digests, whole_digest
from hammemo.models.kept_documents import KeptDocuments
from hammemo.models.names import is_auto
from hammemo.models.predictor import Predictor
from hammemo.models.report import Report, site_names
from hammemo.models.scorer import Scorer
from hammemo.models.streaming import Streaming
from hammemo.tokens.contexts import Examples
from hammemo.tokens.labels import classes_array
from hammemo.tokens.missing import check_missing_rule
from hammemo.tokens.user_input import CheckedRows, asked_contexts
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from hammemo.kernels import SiteKernel
    from hammemo.memories import Memory
    from hammemo.tokens.contexts import Contexts
    from hammemo.votes import Vote

Self = TypeVar("Self", bound="MemoryClassifier")


class MemoryClassifier(Streaming, ClassifierMixin, BaseEstimator):
    """One-pass classifier of tables and sequences that can exactly forget training rows.

    Parameters
    ----------
    kernel : {"auto", "positional", "pairs", "decaying", "suffixes", "skip-pairs"} or SiteKernel
        Which sites are compared, and their weights. "auto" compares positions and, for a table that `fit` learns whole,
        the tuples of columns that are informative together (`AutoSites`); for a stream, suffixes and skip pairs. Tuples
        need an exact memory and a vote with fitted weights; with others "auto" compares positions.
    memory : {"auto", "exact", "hashed", "gaussian", "tiered", "ledgered"} or Memory
        Where the counts are stored. "auto" is `Exact`; `Hashed` has a fixed number of rows.
    vote : {"auto", "sum", "mean", "log-linear", "mixture"} or Vote
        How counts become one score per label. "auto" is log-linear if the memory stores rows of counts, with
        weights for each label if there are few; for a stream with more than 256 labels it is a mixture. "sum" is the
        paper's rule.
    random_state : int, RandomState or None
        The seed. Models with the same seed can be merged; None draws a new seed at each fit.
    missing : {"token", "empty", "refuse"}
        How to treat a missing value of X (None, NaN, pandas' NA): as a token of its own, so missing values match each
        other; as an empty position, which matches nothing; or as an error. A missing label is always refused.
    keep : {"auto", True, False} or int
        Whether the model keeps its rows, in plain text, so that `refit` needs no data. "auto" keeps them if sites
        are chosen or weights are fitted: up to 200,000 distinct rows and 2^26 tokens, beyond that those with the lowest
        hashes. A number limits the distinct rows, or the tokens of documents, to keep; False keeps none.
    numeric : "auto", "none" or list of columns
        Which columns are numbers, by name or by place. "auto" takes floats, dates, durations and whole numbers for
        numbers, but with a given kernel, whole numbers of lists and arrays for names; "none" makes every column names.
    class_weight : "balanced", dict from labels to weights, or None
        How much labels matter: the odds of a label are multiplied by its weight where counts are read. Let p be the
        softmax of the `class_scores` of the model without weights. With weights w, the softmax becomes
        p'(c) = w(c) p(c) / Σ w(k) p(k), which is a shift of the prior. As without weights, `predict_proba` returns
        (1 - u) p' + u / L for L labels, with the small share u (`uniform`) of the vote, so the order of labels is that
        of p'. Counts stay whole numbers, and weights of sites are fitted as without it. Labels that are not named have
        weight 1; `fit` refuses a weight for a label that is not in y. "balanced" takes one over the share of each label
        that is held now, so that all labels are equally likely before anything is known. It is for a log-linear vote.
    verbose : int or bool
        Whether long edits say on standard error what they do, every few seconds, where that is no terminal; on a
        terminal there are progress bars. It changes nothing in the model, and is not in its files.
    n_jobs : int or None
        How many threads long edits use: to grow trees, to test candidates for sites, and for folds. None is 1, -1 uses
        all cores. The model is the same to the byte for any number, which is not in its files. Answers use one thread;
        `compile` has a parameter of its own.

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
        How `fit_stream` cut the beginnings of documents (short, pad); None if no streams were learnt, or not all
        alike. If it is known, contexts may have any length.
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

    def __init__(
        self,
        kernel: str | SiteKernel | None = "auto",
        memory: str | Memory | None = "auto",
        vote: str | Vote = "auto",
        random_state: Any = 0,
        missing: str = "token",
        keep: str | bool | int = "auto",
        numeric: str | Sequence[Any] = "auto",
        class_weight: str | Mapping[Any, float] | Sequence[tuple[Any, float]] | None = None,
        verbose: Any = 0,
        n_jobs: Any = None,
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

    def fit(
        self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, classes: ArrayLike | None = None
    ) -> Self:
        """Forget everything and learn the examples (X, y); then fit the vote's weights to them, if it has any.

        Automatic parts are chosen first, by these examples: what, and what it gained, is in `report`. An automatic vote
        is fitted to 50 examples or more; with fewer, every site has weight 1, as in naive Bayes.

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
        self._edited(lambda model: model._learn(model._rows(X, y, sample_weight, reset=True), classes, whole=True))
        return self

    def fit_vote(
        self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, leave_one_out: bool = True
    ) -> Self:
        """Fit the weights of a log-linear vote again; what the memory holds is not changed. Other votes are refused.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; a sample of the stored examples is enough.
        leave_one_out : bool
            Whether these examples are stored, so each must be left out of the counts that predict it. Pass False
            for examples that the memory has not learnt.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.memories import Exact
        >>> from hammemo.votes import LogLinear
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 50, ["no", "no", "yes", "yes"] * 50
        >>> clf = MemoryClassifier(memory=Exact(), vote=LogLinear())
        >>> clf = clf.partial_fit(X, y, choose=False)  # weights are equal still
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
            model._note_fitted_weights()

        self._edited(fit)
        return self

    def refit(self: Self, what: Literal["all", "weights"] = "all", rows: Any = None) -> Self:
        """Choose sites and vote again and fit the weights from the rows that the model keeps; no data is needed.

        While all rows are kept, the result is the model that `fit` makes of the rows that are left, to the byte of its
        file, after any history of learning, forgetting and merging. A layout that was given (``layout=``,
        `empty_like`, a kernel by name) stays; so do the seed, declared classes and the type of the labels. Models of
        documents become those that `fit_stream` makes. Where only some documents are kept, sites stay and weights are
        fitted; for rows, `docs/forgetting.md` says when.

        Parameters
        ----------
        what : {"all", "weights"}
            With "weights", sites and the settings of the vote stay as they are.
        rows : (X, y) or iterable of such pairs, optional
            The rows that the model holds, for one that does not keep all of them: everything is chosen and counted
            again by these.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 50, ["no", "no", "yes", "yes"] * 50
        >>> clf = MemoryClassifier().fit(X, y)
        >>> rest = MemoryClassifier().fit(X[20:], y[20:])
        >>> clf.forget(X[:20], y[:20]).refit().predict_proba(X).tobytes() == rest.predict_proba(X).tobytes()
        True
        """
        check_is_fitted(self)
        if what not in ("all", "weights"):
            raise ValueError(f"what={what!r} is not known: use 'all' or 'weights'.")
        if rows is not None and what == "weights":
            raise ValueError("refit(rows=…) chooses and counts again: leave out what='weights', or use fit_vote(X, y).")
        if rows is None:
            self._edited(lambda model: model._refit(what))
        else:
            self._edited(lambda model: model._refit_to(rows))
        return self

    def open(self: Self, h: int) -> Self:
        """Forget everything and fix the layout, as the first `partial_fit` would, without learning anything.

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
        check_missing_rule(self._missing())

        def start(model: MemoryClassifier) -> None:
            model.__dict__.pop("feature_names_in_", None)
            model._declare_nothing(int(h))
            model._start(int(h), settling.for_pieces(model._axes(), 0, _no_rows(int(h))))
            model.label_dtype_ = np.dtype(object)

        self._edited(start)
        return self

    def partial_fit(
        self: Self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        layout: MemoryClassifier | None = None,
        choose: bool = True,
    ) -> Self:
        """Learn more examples; new tokens and new labels may come at any time.

        From 200 examples on, and again whenever their number has doubled, what is automatic is chosen by all rows, with
        one fold held out; `refit` at the end makes the model that `fit` makes of them. This is while all rows are kept.
        `layout=` takes over what another model's `fit` has chosen, and nothing is chosen then.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like, optional
            Labels to keep as candidates even while they have no example. Never required.
        layout : MemoryClassifier, optional
            At the first call: a fitted model whose layout, and fitted vote, to use, so that the two can be merged.
            Without it a hashed memory gives rows of their own to the most frequent tokens of the first batch.
        choose : bool
            Whether this call may choose again; pass False if no call may take longer than its batch.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> here = MemoryClassifier().fit([["a", "b"]], ["no"])
        >>> there = MemoryClassifier().partial_fit([["d", "c"]], ["yes"], layout=here)
        >>> here.merge(there).predict([["d", "c"]]).tolist()
        ['yes']
        """

        def learn(model: MemoryClassifier) -> None:
            is_first = not hasattr(model, "memory_")
            if not is_first:
                model._admit(X, choose=choose)
            rows = model._rows(X, y, sample_weight, reset=is_first)
            model._learn_batch(rows, classes, layout, choose=choose)

        self._edited(learn)
        return self

    def _learn_batch(
        self, rows: CheckedRows, classes: Any, layout: MemoryClassifier | None = None, *, choose: bool = True
    ) -> None:
        is_first = not hasattr(self, "memory_")
        examples = self._learn(rows, classes, layout=layout, choose=choose)
        if choose and self._choose_if_doubled():
            return
        is_fitted = is_first and layout is None and is_auto(self.vote)
        if is_fitted and examples.multiplicity.sum() >= settling.FIRST_BATCH:
            self._fit_vote_to_kept(examples)

    def forget(self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Remove examples: the exact inverse of `partial_fit`. A label without examples is no longer a class.

        All of them are removed, or `NotStoredError` is raised and nothing is changed: where the memory can tell that
        one of them was never stored. What `classes` declared, and the layout of the memory, stay. So do chosen sites
        and fitted weights, until `refit`: a model that is queried before warns once.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
        >>> clf = MemoryClassifier().fit(X, y).forget([["d", "c"]], ["yes"])
        >>> fresh = MemoryClassifier().partial_fit(X[:2], y[:2], layout=clf)
        >>> clf.memory_.state_bytes() == fresh.memory_.state_bytes()
        True
        """
        self._check_is_fitted()
        self._edited(lambda model: model._forget(X, y, sample_weight))
        return self

    def learn_one(self: Self, tokens: Sequence[Any], label: Any) -> Self:
        """Learn one example, quickly: no table of contexts is checked, and an exact memory takes microseconds.

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
        if not hasattr(self, "memory_"):
            return self.partial_fit([tokens], [label])
        self._edited(lambda model: model._change_one(tokens, label, 1))
        return self

    def forget_one(self: Self, tokens: Sequence[Any], label: Any) -> Self:
        """Remove one example, quickly: the inverse of `learn_one`; refuses what `forget` refuses."""
        self._check_is_fitted()
        self._edited(lambda model: model._change_one(tokens, label, -1))
        return self

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
        """Compile the state into a read-only `Predictor` for fast answers.

        Parameters
        ----------
        form : str, optional
            A compiled form of the memory: "sparse" or "dense" counts, "fused" or "two-stage" codes.
        vocabulary : iterable of tokens, optional
            The tokens that the predictor knows; by default those the memory has met.
        n_jobs : int, optional
            Threads for large batches, if the compiled form supports them (a hashed memory's does): one by default,
            -1 for all processors.
        """
        check_is_fitted(self)
        model = self._now()
        tokens = None if vocabulary is None else Vocabulary.of(vocabulary)
        memory = model.memory_._now()
        compiled = memory.compile(form, tokens, effective_n_jobs(n_jobs))
        compiled.forgot_unchecked = memory.forgot_unchecked
        return Predictor(
            compiled, model.label_dtype_, model.sites_, model.vote_, model._missing(), model.cutting_, model._cells
        ).prepare()

    @overload
    def digest(self, parts: Literal[False] = False) -> str: ...

    @overload
    def digest(self, parts: Literal[True]) -> dict[str, str]: ...

    def digest(self, parts: bool = False) -> str | dict[str, str]:
        """Return the BLAKE2b-256 hash of the whole model in hexadecimal digits: equal digests mean equal models.

        It covers the parameters and the seed, the layout, the counts, what was declared (classes, the type of labels,
        names of columns), the settings of the vote, its weights, and the kept rows with their threshold.

        Parameters
        ----------
        parts : bool
            Whether to return the digest of each of these parts, by name.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 50, ["no", "no", "yes", "yes"] * 50
        >>> clf = MemoryClassifier().fit(X, y).forget(X[:40], y[:40])
        >>> rest = MemoryClassifier().fit(X[40:], y[40:])
        >>> clf.digest() == rest.digest(), clf.refit().digest() == rest.digest()
        (False, True)
        """
        check_is_fitted(self)
        found = part_digests(self._now())
        return found if parts else whole_digest(found)

    def changed_labels(self, other: Any, X: Any) -> float:
        """Return the share of rows to which another model, such as this one before a refit, gives another label.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 50, ["no", "no", "yes", "yes"] * 50
        >>> clf = MemoryClassifier().fit(X, y)
        >>> clf.changed_labels(clf.snapshot().forget(X[:20], y[:20]).refit(), X)
        0.0
        """
        mine, others = np.asarray(self.predict(X), object), np.asarray(other.predict(X), object)
        return float(np.mean(mine != others)) if len(mine) else 0.0

    def report(self) -> Report:
        """Return a report of what was chosen, why, and what it gained; ``print`` shows it."""
        check_is_fitted(self)
        model = self._now()
        names = getattr(model, "feature_names_in_", None)
        positions, kept, cells = model.sites_.positions, model._kept, model._cells
        counts = model.memory_.label_counts
        return Report(
            n_examples=int(counts.sum()),
            n_labels=len(model.memory_.labels),
            n_positions=model.n_features_in_,
            tuples=site_names(positions, None if names is None else names.tolist()),
            n_single=sum(len(site) == 1 for site in positions),
            n_trees=0 if cells is None or cells.forest is None else cells.forest.n_trees,
            memory=repr(model.memory_),
            nbytes=model.memory_.nbytes,
            vote=repr(model.vote_),
            n_kept=None if kept is None else len(kept),
            keeps_all=kept is not None and kept.holds_all,
            chosen_at=model._chosen_at,
            is_pinned=model._pinned,
            choices=replace(model.choices_, held_out=model._held_out),
            free=tuple(site.name for site in model.sites_.free),
            keeps_documents=isinstance(kept, KeptDocuments),
            is_stream=isinstance(kept, KeptDocuments) or model.cutting_ is not None,
            unread=model.vote_.unread(model.sites_),
            is_stale=model._stale,
            is_weighed=getattr(model.vote_, "class_weight", None) is not None,
            most_frequent=float(counts.max() / counts.sum()) if counts.any() else None,
            model=model,
        )

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The share of each column of X in the model's gain over the label frequencies, in bits per example.

        They are those of ``report().bits()``, with a tuple of columns divided evenly among its columns. They are
        computed from a sample of the rows that the model keeps: at most 4,000, or 200 with trees. A column below zero
        lowers the mean log-probability of the right label. The first access after an edit computes them; ``dir`` and
        the view in a notebook do not, and show them only once they are computed.

        Examples
        --------
        >>> import numpy as np
        >>> from hammemo import MemoryClassifier
        >>> X = np.random.default_rng(0).integers(0, 2, (400, 3)).astype(str)
        >>> found = MemoryClassifier().fit(X, X[:, 1]).feature_importances_
        >>> int(found.argmax()), bool(found[1] > 0.9)
        (1, True)
        """
        if not hasattr(self, "memory_"):
            raise AttributeError("feature_importances_ is known after fit.")
        try:
            return self.report().bits().of_columns(self.n_features_in_)
        except ValueError as error:  # scikit-learn asks with hasattr
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        """Return the names of attributes, as scikit-learn does, without computing `feature_importances_`."""
        unknown = set() if "_bits" in vars(self) else {"feature_importances_"}
        return [name for name in object.__dir__(self) if name not in unknown and hasattr(self, name)]

    def plot_column(self, column: Any, other: Any = None, *, label: Any = None, ax: Axes | None = None) -> Axes:
        """Draw the label shares by the values of one or two columns, with the number of rows of each; return the axes.

        The plot shows the share of labels among the rows with each value. Numbers and dates are in ranges. The rows are
        those that the model holds now, or the kept ones among them; forgotten rows are not included. The plot shows the
        data, one column or pair alone; `explain` shows what the model makes of a row. It needs the ``plot`` extra.

        Parameters
        ----------
        column, other : str or int
            Columns by name or by place; with two, a field of the figure is a pair of values.
        label : optional
            Draw this label only. By default it is the second of two labels, or the most frequent ones.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        check_is_fitted(self)
        columns = [column] if other is None else [column, other]
        return column_values(self._now(), columns).plot(label, ax)

    def __str__(self) -> str:
        """Return two lines once fitted: what was chosen, and how good it is on held-out folds."""
        return f"{type(self).__name__}: {self.report().summary()}" if hasattr(self, "memory_") else repr(self)

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's picture and, once fitted, what was chosen."""
        return str(super()._repr_html_inner()) + self._report_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return the same for notebooks that ask for all forms at once."""
        forms: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return {**forms, "text/html": forms["text/html"] + self._report_html()} if "text/html" in forms else forms

    def _report_html(self) -> str:
        return self.report()._repr_html_() if hasattr(self, "memory_") else ""

    def _check_is_fitted(self) -> None:
        if "memory_" not in vars(self):  # scikit-learn's check takes as long as a short answer
            check_is_fitted(self)

    def _scorer(self) -> Scorer:
        self._check_is_fitted()
        memory = self.memory_._now()
        return Scorer(memory.reader(), self.sites_, self.vote_, memory, self._cells)

    def _contexts(self, X: Any) -> Contexts:
        self._check_is_fitted()
        contexts = asked_contexts(self, self._cut(X, self.n_features_in_))
        if self._kinds is not None:
            self._kinds.warn_of_others(contexts, vars(self).get("feature_names_in_"), self._columns)
        return contexts

    def _vote(self) -> str | Vote:
        if hasattr(self, "vote_"):
            return self.vote_
        return resolved_vote(self.vote, self._make_memory()) if is_auto(self.vote) else self.vote

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.input_tags.allow_nan = self._missing() != "refuse"
        return tags


def _no_rows(h: int) -> Examples:
    return Examples.of(np.empty((0, h), object), np.empty(0, object))
