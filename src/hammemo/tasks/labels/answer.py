"""The queries of a model, the same for a classifier, a window and a compiled predictor.

A call takes one view of the model, with one scorer (:mod:`hammemo.tasks.labels.scorer`), and all of
its answer from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.metaestimators import available_if

from hammemo.explain.explanations import (
    Explanation,
    divide_by_columns,
    one_context,
    with_truth_values,
)
from hammemo.tasks.labels.masking import columns_of, label_mask
from hammemo.tasks.labels.names import VOTES
from hammemo.tasks.labels.scorer import Scorer, check_probabilities
from hammemo.tokens.labels import classes_array
from hammemo.tokens.row_slices import row_slices
from hammemo.tokens.scales import NO_SCALES
from hammemo.tokens.user_input import contexts_of_length

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo._arrays.types import Array, Bools, Floats, Ints
    from hammemo.features.cells import Cells
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.cutting import Cutting
    from hammemo.tokens.scales import Scales
    from hammemo.votes import Vote


def _has_probabilities(self: Answering) -> bool:
    check_probabilities(VOTES.resolve(self.vote_in_use()))
    return True


class ModelView(NamedTuple):
    """One version of a model as queries see it.

    Parameters
    ----------
    scorer : Scorer
    read : callable
        Returns the checked contexts of X.
    label_dtype : dtype
        The type that labels have in answers.
    missing : str
        What takes the place of missing values.
    cutting : Cutting, optional
        How shorter and longer contexts become contexts of h tokens.
    cells : Cells, optional
        How rows with numbers become contexts; None for names.
    names : ndarray, optional
        The names of the columns.
    scales : mapping of int to str or tuple, optional
        The scales of columns, as in :class:`~hammemo.tokens.columns.Columns`; by default times are
        read by the clock of the question.
    known_classes : ndarray, optional
        The labels in sorted order, where they were made before.
    """

    scorer: Scorer
    read: Callable[[Any], Contexts]
    label_dtype: np.dtype[Any]
    missing: str = "refuse"
    cutting: Cutting | None = None
    cells: Cells | None = None
    names: Array | None = None
    scales: Scales | None = None
    known_classes: Array | None = None

    def classes(self) -> Array:
        """Return the labels in sorted order."""
        if self.known_classes is not None:
            return self.known_classes
        return classes_array(self.scorer.labels, self.label_dtype)

    def cut(self, X: Any, h: int) -> Any:
        """Return contexts of h tokens, where the model knows how to cut shorter and longer ones."""
        if self.cutting is None:
            return X
        return self.cutting.contexts(X, h)

    def read_unnamed(self, X: Any) -> Contexts:
        """Return the contexts of rows that have no names of columns."""
        if self.cells is None:
            return contexts_of_length(X, self.scorer.sites.h, self.missing)
        return self.cells.read(X, self.missing, self.scales)

    def list_seen(self, X: Any, contexts: Contexts) -> list[Ints]:
        """Return the labels that each query holds as tokens, as columns of scores.

        Tokens before the context count, too.
        """
        is_longer = (
            self.cutting is not None and not hasattr(X, "columns") and len(X) == len(contexts)
        )
        labels = self.scorer.labels
        if is_longer:
            return columns_of(labels, list(X))
        return list(contexts.ranks_in(labels))


class Answering(ABC):
    """What answers queries: contexts X, one row a context, or one context x.

    A classifier, a window, a compiled predictor: each says with `view` what answers now.
    """

    @abstractmethod
    def view(self) -> ModelView:
        """Return what answers for all that is stored now."""

    @abstractmethod
    def vote_in_use(self) -> str | Vote:
        """Return the vote, also before anything is learnt."""

    def _question(self, X: Any) -> tuple[ModelView, Contexts]:
        """Return the version that answers, and the checked contexts."""
        view = self.view()
        contexts = view.read(X)
        view.scorer.check_not_empty()
        return view, contexts

    def _answers(self, X: Any, ask: Callable[[Scorer, Contexts], Array]) -> tuple[ModelView, Array]:
        """Return the version that answers, and the answers to all rows, some rows at a time."""
        first, *others = row_slices(X)
        view, contexts = self._question(first)
        answers = ask(view.scorer, contexts)
        if others:
            more_answers = [ask(view.scorer, view.read(rows)) for rows in others]
            answers = np.concatenate([answers, *more_answers])
        return view, answers

    def class_scores(self, X: Any) -> Floats:
        """Return one score for each context and label, for any number of labels.

        Shapes
        ------
        X : (m, h); returned : (m, len(classes_))
        """
        return self._answers(X, Scorer.scores)[1]

    def decision_function(self, X: Any) -> Floats:
        """Return `class_scores` or, for two labels, how far the second leads, for scikit-learn.

        For two labels this is not the logit of `predict_proba`, unless ``vote_.uniform_share`` is
        zero. `predict_proba` mixes a small share u of even probabilities into the softmax of
        `class_scores`, p = (1 - u) softmax + u / L for L labels, so that no wrong answer is sure.
        Its logit therefore stays between -log(2 / u) and log(2 / u), while the lead returned here
        has no bound. Both order the rows alike. With a vote without probabilities, such as "sum",
        the lead is a difference of counts.

        Examples
        --------
        >>> import numpy as np
        >>> from hammemo import MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]] * 30, ["no", "no", "yes"] * 30
        >>> clf = MemoryClassifier().fit(X, y)
        >>> lead, share = clf.decision_function([["d", "c"]]), clf.vote_.uniform_share
        >>> p = (1 - share) / (1 + np.exp(-lead)) + share / 2
        >>> bool(np.allclose(p, clf.predict_proba([["d", "c"]])[:, 1]))
        True
        """
        scores = self.class_scores(X)
        if scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each label, in the order of `classes_`.

        For a log-linear vote or a mixture.

        Shapes
        ------
        X : (m, h); returned : (m, len(classes_))

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.memories import Exact
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]] * 9, ["no", "no", "yes"] * 9
        >>> clf = MemoryClassifier(memory=Exact(), vote="log-linear").fit(X, y)
        >>> clf.predict_proba([["d", "b"]]).round(1)
        array([[0.2, 0.8]])
        """
        return self._answers(X, Scorer.probabilities)[1]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the natural logarithms of `predict_proba`, without underflow.

        For a log-linear vote or a mixture.

        Shapes
        ------
        X : (m, h); returned : (m, len(classes_))
        """
        return self._answers(X, Scorer.log_probabilities)[1]

    def predict(self, X: Any) -> Array:
        """Return the label with the highest score; ties go to the first one in `classes_`."""
        view, winners = self._answers(X, Scorer.winners)
        labels: Array = view.classes()[winners]
        return labels

    def top_k(
        self,
        X: Any,
        k: int = 5,
        *,
        exclude: Any = None,
        allow: Any = None,
        return_scores: bool = False,
    ) -> Any:
        """Return the k labels with the highest scores, best first; ties are in order of `classes_`.

        Parameters
        ----------
        X : array-like of shape (m, h)
        k : int
            How many.
        exclude : "seen" or array-like, optional
            Labels that are never among them: one list for all queries, or one list per query.
            "seen" leaves out all tokens of the query itself, such as items that were bought
            already, also those that a model of streams does not read because they are too long ago.
        allow : array-like, optional
            Only these labels are among them, such as items in stock: one list for all queries, or
            one list per query.
        return_scores : bool
            Whether to return the scores, too. A vote that discounts popular labels (`Mixture`)
            returns discounted ones; its first label may be another one than that of `predict`.

        Shapes
        ------
        X : (m, h); returned : (m, min(k, len(classes_))), or fewer columns where no query has this
        many labels left. A query that has fewer than others ends with None, and its scores with
        NaN.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> clf = MemoryClassifier().fit([["a", "b"], ["a", "c"], ["b", "c"]], ["x", "y", "y"])
        >>> clf.top_k([["a", "c"]], k=2).tolist()
        [['y', 'x']]
        >>> clf.top_k([["a", "c"]], k=2, exclude=["y"]).tolist()
        [['x']]
        >>> clf.top_k([["a", "c"], ["b", "c"]], k=2, allow=[["y"], ["x", "y"]]).tolist()
        [['y', None], ['y', 'x']]
        """
        view, contexts = self._question(X)
        scorer = view.scorer
        if exclude is None and allow is None and not return_scores:
            return view.classes()[scorer.rank(contexts, k)]
        mask = label_mask(
            scorer.labels,
            len(contexts),
            exclude=exclude,
            allow=allow,
            list_seen=lambda: view.list_seen(X, contexts),
        )
        columns, scores = scorer.leaders_by_mask(contexts, k, mask, with_scores=return_scores)

        # Most masks leave k labels to every query. Where one leaves fewer, its row ends with -1.
        width = columns.shape[1]
        if not len(columns) or (columns[:, -1:] < 0).any():
            width = int((columns >= 0).sum(axis=1).max(initial=0))
            columns = columns[:, :width]
        labels = view.classes()[columns]
        if (columns[:, -1:] < 0).any():
            labels = labels.astype(object)
            labels[columns < 0] = None
        if return_scores and scores is not None:
            return labels, scores[:, :width]
        return labels

    def explain(self, x: Any, k: int = 5) -> Explanation:
        """Return what each site and token of one context adds to the scores of the k best labels.

        The contributions and the base add up to the scores of `class_scores`. Where the memory is a
        sketch, each comes with hard bounds or with a standard error. ``print`` shows a table,
        ``.plot()`` draws it, ``.to_dict()`` is ready for JSON; see `docs/explaining.md`.

        Parameters
        ----------
        x : sequence of h tokens
            One context.
        k : int
            How many labels.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["b", "c"]], ["x", "y", "y"]
        >>> clf = MemoryClassifier(vote="sum").fit(X, y)
        >>> print(clf.explain(["a", "c"], k=2))
                          'y'  'x'
        position -2: 'a'  0.5  0.5
        position -1: 'c'  1.0  0.0
        score             1.5  0.5
        'y' leads 'x' by 1; exact counts.
        """
        view = self.view()
        view.scorer.check_not_empty()
        tokens = view.cut([one_context(x, view.names)], view.scorer.sites.h)
        context = view.read_unnamed(tokens)
        explanation = view.scorer.explanation(context, view.classes(), k)
        if view.cells is not None:
            explanation = divide_by_columns(
                explanation, view.cells, context, scales=view.scales or NO_SCALES
            )
        names = None if view.names is None else view.names.tolist()
        if view.cells is not None and view.cells.narrowing is not None:
            return replace(explanation, names=tuple(view.cells.narrowing.narrow_names(names)))
        explanation = with_truth_values(explanation, tokens[0])
        if names is None:
            return explanation
        return replace(explanation, names=tuple(names))

    def contributions(self, X: Any) -> tuple[Floats, Floats]:
        """Return what each column of each row adds to each score, and the scores without columns.

        The contributions of a row and its base add up to `class_scores`. The arrays have the shapes
        of SHAP's ``Explanation(values, base_values)``, so its plots take them. `explain` tells more
        about one row.

        Shapes
        ------
        X : (m, h); returned : (m, h, len(classes_)), (m, len(classes_))

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]] * 9, ["no", "no", "yes"] * 9
        >>> clf = MemoryClassifier().fit(X, y)
        >>> values, base = clf.contributions([["d", "b"], ["a", "b"]])
        >>> scores = clf.class_scores([["d", "b"], ["a", "b"]])
        >>> values.shape, bool(abs(values.sum(axis=1) + base - scores).max() < 1e-9)
        ((2, 2, 2), True)
        """
        view, contexts = self._question(X)
        return view.scorer.column_contributions(contexts)

    def certify(self, X: Any) -> Bools:
        """Return for each context whether its prediction is proven to be the exact classifier's.

        True means proven; False means not known. With exact counts every answer is proven, whatever
        the vote; a hashed memory can prove those of weighted sums; the Gaussian memory bounds its
        error only in probability (:mod:`hammemo.paper.theory`).

        A hashed memory alone cannot refuse to forget what it never learnt. Its proofs hold if it
        had learnt everything that it has forgotten, and there is a warning once it has forgotten
        anything; ``keep="digests"`` makes sure.

        Shapes
        ------
        X : (m, h); returned : (m,)

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.memories import Hashed
        >>> X, y = [["a", "b"]] * 5 + [["c", "d"]], ["x"] * 5 + ["y"]
        >>> clf = MemoryClassifier(memory=Hashed(buckets=1, reserved=2), vote="sum").fit(X, y)
        >>> clf.certify([["a", "b"], ["c", "d"]])
        array([ True, False])
        """
        view, contexts = self._question(X)
        if not view.scorer.reader.has_bounds:
            raise TypeError(
                "The memory of this model gives no certificate; Exact() and Hashed() do."
            )
        return view.scorer.certify(contexts)
