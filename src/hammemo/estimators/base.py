"""What `MemoryClassifier` and `MemoryRegressor` have in common: every edit, digests and copies.

A model is a thin front: parameters, documentation, and one state (:mod:`hammemo.edits.state`) that
each edit replaces by the next one. The edits are functions of :mod:`hammemo.edits`.
"""

from __future__ import annotations

from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    overload,
)

from sklearn.utils.validation import check_is_fitted

from hammemo._versions import Versioned
from hammemo.edits import learn_one as singles
from hammemo.edits.apply import apply, check_position
from hammemo.edits.column_changes import check_names
from hammemo.edits.digests import compute_digest, compute_part_digests
from hammemo.edits.editing import (
    copy_model,
    edit,
    edit_with_result,
    get_state,
    read_rows,
    take_state,
)
from hammemo.edits.fit import fit
from hammemo.edits.forget import forget
from hammemo.edits.merge import empty_copy, merge, unmerge
from hammemo.edits.refit import refit, refit_to
from hammemo.edits.sync import sync
from hammemo.edits.task import L, M, V
from hammemo.tokens.token_types import warn_once
from hammemo.tokens.user_input import read_question

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from hammemo._arrays.types import Array
    from hammemo.edits.settings import EditSettings
    from hammemo.edits.state import AnyState, ModelState
    from hammemo.edits.sync import Synced
    from hammemo.edits.task import AnswerFacts
    from hammemo.tokens.contexts import Contexts

Self = TypeVar("Self", bound="MemoryModel[Any, Any, Any]")


class QuickAnswers(NamedTuple):
    """What answers single rows in microseconds."""

    classes: list[Any]
    """The labels in sorted order."""
    find_place: Callable[[Sequence[Any]], int] | None
    """Returns the place of the best label of a row, or -1.

    None where rows have to go through a table.
    """
    reads_rows: bool
    """Whether the leading labels come from the rows of counts that a context reads.

    Then the time of an answer does not depend on the number of labels.
    """


_WARNED: Final = frozenset({"_warned", "_warned_of_ends", "_warned_of_narrow"})
"""The attributes that say what a model has warned of, so that it does so once."""


class MemoryModel(Versioned, Generic[L, M, V]):
    """A model that learns, forgets, merges and refits rows, whatever it predicts."""

    family: ClassVar[str]
    """The estimator whose models can be merged with this one."""

    predicts: ClassVar[Literal["labels", "numbers"]]
    """What answers are, in the words of commands and servers."""

    kind_in_files: ClassVar[str]
    """Which of the formats of model files is that of this model."""

    has_intervals: ClassVar[bool] = False
    """Whether answers have intervals: `predict_interval` and `predict_quantiles`."""

    has_scores: ClassVar[bool] = False
    """Whether each possible answer has a score: `top_k`, `certify`, probabilities."""

    way_to_fit_weights: ClassVar[str] = "fit it in Python: refit(rows=(X, y))"
    """How weights are fitted where no rows are kept, as the end of a sentence."""

    learns_documents: ClassVar[bool] = False
    """Whether there are `fit_stream`, `partial_fit_stream` and `forget_stream`."""

    takes_digests: ClassVar[bool] = False
    """Whether `keep` takes digests of rows, by which `sync` compares rows that are not kept."""

    def settings(self) -> EditSettings[L, M, V]:
        """Return the parameters as one value: what an edit takes."""
        raise NotImplementedError

    @property
    def state(self) -> ModelState[L, M, V]:
        """All that the model has learned, as one value that never changes."""
        state = vars(self).get("_state")
        if state is None:
            raise AttributeError(
                f"This {type(self).__name__} has learnt nothing yet: call fit or partial_fit first."
            )
        return state  # type: ignore[no-any-return]

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in vars(self)

    def _check_is_fitted(self) -> None:
        if "_state" not in vars(self):  # scikit-learn's check takes as long as a short answer
            check_is_fitted(self)

    @property
    def position_(self) -> str | None:
        """Up to where the source of the rows was read: `position` of the last `apply` or `sync`.

        None if neither has said one.
        """
        return self.state.position

    def fit(self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and learn the rows X with the targets y.

        Everything is chosen by these rows.

        Parameters
        ----------
        X : array-like or data frame of shape (m, columns)
            Rows of names, numbers and dates. Missing values are values of their own.
        y : array-like of shape (m,)
            What to predict for each row: finite numbers, where the model predicts numbers.
        sample_weight : array-like of shape (m,), optional
            How often each row occurred: non-negative whole numbers.
        """

        def change(model: Self) -> AnyState:
            settings = model.settings()
            rows = read_rows(model, X, y, None, sample_weight=sample_weight)
            settings.task.reading.warn_of_targets(rows.labels)
            return fit(settings, get_state(model), rows)

        edit(self, change)
        return self

    def forget(self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Remove examples: the exact inverse of `partial_fit`.

        All of them are removed, or none: where the memory can tell that one of them was never
        stored, `NotStoredError` is raised. A label without examples is no longer a class, unless
        `classes` declared it. The layout of the memory stays. So do chosen sites and fitted
        weights, until `refit`: a model that is queried before warns once.

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

        def change(model: Self) -> AnyState:
            rows = read_rows(model, X, y, model.state, sample_weight=sample_weight)
            return forget(model.settings(), model.state, rows.examples())

        edit(self, change)
        return self

    def apply(
        self: Self,
        learn: Any = None,
        forget: Any = None,
        *,
        position: str | None = None,
        choose: bool = True,
    ) -> Self:
        """Forget rows and learn rows in one edit: a query sees the model before both or after both.

        Parameters
        ----------
        learn : (X, y), optional
            As in `partial_fit`.
        forget : (X, y) or "everything", optional
            As in `forget`; this comes first. If a row is not stored, `NotStoredError` is raised and
            nothing is changed.
        position : str, optional
            Up to where a source was read, such as a position in the log of a database: any string
            of at most 1,024 characters. It is stored in the same step, as `position_`.
        choose : bool
            As in `partial_fit`.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> clf = MemoryClassifier().fit([["a", "b"], ["d", "c"]], ["no", "yes"])
        >>> old, new = ([["d", "c"]], ["yes"]), ([["d", "e"]], ["yes"])
        >>> clf.apply(learn=new, forget=old, position="17").position_
        '17'
        >>> fresh = MemoryClassifier().fit([["a", "b"], ["d", "e"]], ["no", "yes"])
        >>> clf.refit().digest() == fresh.digest()
        True
        """
        if forget is not None:
            self._check_is_fitted()

        def change(model: Self) -> AnyState:
            after = apply(
                model.settings(),
                get_state(model),
                learned=learn,
                forgotten=forget,
                read=partial(read_rows, model),
                choose=choose,
            )
            if position is None:
                return after
            return after.with_changes(position=check_position(position))

        edit(self, change)
        return self

    def sync(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        dry_run: bool = False,
        position: str | None = None,
        refit: bool = False,
    ) -> Synced:
        """Make the model hold just the rows of a table.

        It forgets the rows that are gone and learns the new ones.

        Rows are compared by their values and labels, and copies count. It is one edit: a query sees
        the model before or after it, and if anything fails, nothing is changed. A model that has
        learnt nothing is fitted.

        The model must know its rows: it keeps all of them, or it has digests of all
        (``keep="auto+digests"``, or ``"digests"`` to store no row in plain text). Of a row that is
        gone, digests do not tell the content. Then all rows of the table are counted again, under
        the same layout. Layout and weights stay until a refit, as after `forget`.

        Parameters
        ----------
        X, y, sample_weight
            All rows of the table, as in `fit`.
        dry_run : bool
            Whether to only return what would be done.
        position : str, optional
            As in `apply`: which version of the table this is, for example.
        refit : bool
            Whether to fit the model to the table. The result is what `fit` makes of it, to the byte
            of its file, for any number of rows and any ``keep``; the seed, declared classes and a
            given layout stay.

        Returns
        -------
        synced : Synced
            How many rows were forgotten and learnt and did not change, and the rows that differ.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> clf = MemoryClassifier().fit([["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"])
        >>> table, labels = [["a", "c"], ["d", "c"], ["d", "e"]], ["no", "yes", "yes"]
        >>> print(clf.sync(table, labels))
        1 row forgotten, 1 learnt, 2 unchanged.
        >>> clf.refit().digest() == MemoryClassifier().fit(table, labels).digest()
        True
        """
        if position is not None:
            check_position(position)

        def sync_with_table(model: Any) -> tuple[AnyState | None, Synced]:
            return sync(
                model.settings(),
                get_state(model),
                (X, y, sample_weight),
                partial(read_rows, model),
                refit=refit,
                dry_run=dry_run,
            )

        if dry_run:
            _, planned = sync_with_table(self.snapshot())
            return planned

        def change(model: Any) -> tuple[AnyState, Synced]:
            after, synced = sync_with_table(model)
            assert after is not None  # only a dry run may return no state
            if position is not None:
                after = after.with_changes(position=position)
            return after, synced

        return edit_with_result(self, change)

    def learn_one(self: Self, row: Sequence[Any], target: Any) -> Self:
        """Learn one row, quickly: no table is checked, and in general nothing is chosen.

        A model of numbers that keeps all its rows chooses everything again where it had too little
        to choose by:

        - the rows have doubled since the last choice, and that was by fewer than 200;
        - the target is the first one that differs from the others;
        - the target is more than 1,024 times as far away as any before.
        """
        if "_state" not in vars(self):
            first: Any = self
            return first.partial_fit([row], [target])  # type: ignore[no-any-return]
        edit(self, lambda model: singles.learn_one(model.settings(), model.state, row, target))
        return self

    def forget_one(self: Self, row: Sequence[Any], target: Any) -> Self:
        """Remove one row, quickly: the inverse of `learn_one`; refuses what `forget` refuses."""
        self._check_is_fitted()
        edit(self, lambda model: singles.forget_one(model.settings(), model.state, row, target))
        return self

    def refit(self: Self, what: Literal["all", "weights"] = "all", rows: Any = None) -> Self:
        """Choose and fit everything again from the rows that the model keeps; no data is needed.

        While all rows are kept, the result is the model that `fit` makes of the rows that are left,
        to the byte of its file, after any history of learning, forgetting and merging. A layout
        that was given (``layout=``, `empty_like`, a kernel by name) stays; so do the seed, declared
        classes and the type of the labels. Models of documents become those that `fit_stream`
        makes. Where only some rows or documents are kept, the layout may stay while weights are
        fitted; `docs/forgetting.md` says when.

        Parameters
        ----------
        what : {"all", "weights"}
            With "weights", the layout and the settings of the vote stay as they are.
        rows : (X, y) or iterable of such pairs, optional
            The rows that the model holds, for one that does not keep all of them: everything is
            chosen and counted again by these.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 50
        >>> y = ["no", "no", "yes", "yes"] * 50
        >>> clf = MemoryClassifier().fit(X, y)
        >>> rest = MemoryClassifier().fit(X[20:], y[20:])
        >>> clf = clf.forget(X[:20], y[:20]).refit()
        >>> clf.predict_proba(X).tobytes() == rest.predict_proba(X).tobytes()
        True
        """
        check_is_fitted(self)
        if what not in ("all", "weights"):
            raise ValueError(f"what={what!r} is not known: use 'all' or 'weights'.")
        if rows is not None and what == "weights":
            raise ValueError("refit(rows=…) chooses and counts again: leave out what='weights'.")

        def change(model: Self) -> AnyState:
            if rows is None:
                return refit(model.settings(), model.state, what)
            return refit_to(model.settings(), model.state, rows, partial(read_rows, model))

        edit(self, change)
        return self

    def merge(self: Self, other: Any) -> Self:
        """Add everything that another model of the same kind has learnt.

        Nothing is chosen or fitted here; `refit` does it. What layout the sum has:

        - where both models have the same layout, seed included, they add their counts and kept
          rows;
        - where the layouts differ, a model that keeps all its rows is counted again, under the
          layout of the one that does not;
        - where both keep all their rows, the other model's are counted under the layout of this
          one;
        - where neither does, or both layouts were given, `LayoutError` is raised.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> monday = MemoryClassifier().fit([["a", "b"]], ["no"])
        >>> tuesday = MemoryClassifier().partial_fit([["d", "c"]], ["yes"], layout=monday)
        >>> monday.merge(tuesday).predict([["d", "b"], ["d", "c"]]).tolist()
        ['no', 'yes']
        """
        other_state = self._read_operand(other, "merge")
        self._check_mergeable(other)
        edit(self, lambda model: merge(model.settings(), model.state, other_state))
        self._warn_of_other_weights(other_state)
        return self

    def unmerge(self: Self, other: Any) -> Self:
        """Remove everything that another model has learnt: the exact inverse of `merge`.

        A model of another layout must keep all its rows. Raises `NotStoredError`, with nothing
        changed, where the memory can tell that the other is not part of this one. A label whose
        last example goes is no longer a class, unless ``classes`` declared it here.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.memories import Exact
        >>> monday = MemoryClassifier(memory=Exact()).fit([["a", "b"]], ["no"])
        >>> tuesday = MemoryClassifier(memory=Exact()).fit([["d", "c"]], ["yes"])
        >>> week = monday + tuesday
        >>> week.unmerge(monday).memory_.state_bytes() == tuesday.memory_.state_bytes()
        True
        """
        other_state = self._read_operand(other, "unmerge")
        edit(self, lambda model: unmerge(model.settings(), model.state, other_state))
        return self

    def __add__(self: Self, other: Any) -> Self:
        """Return a new model that has learnt what both have: ``a + b``, or ``sum([a, b, c])``.

        Kernel weights, vote (fitted weights included) and parameters are those of the left one;
        neither operand is changed. `refit` fits the vote to the sum.
        """
        if not self._is_like(other):
            return NotImplemented
        return copy_model(self).merge(other)

    def __radd__(self: Self, other: Any) -> Self:
        """Return a copy for ``0 + model``, which is how `sum` begins."""
        is_start_of_sum = isinstance(other, int) and other == 0
        return copy_model(self) if is_start_of_sum else NotImplemented

    def __sub__(self: Self, other: Any) -> Self:
        """Return a new model without what the right one has learned; neither operand is changed."""
        if not self._is_like(other):
            return NotImplemented
        return copy_model(self).unmerge(other)

    def _is_like(self, other: Any) -> bool:
        return isinstance(other, MemoryModel) and other.family == self.family

    def read_layout(self, layout: Any) -> ModelState[L, M, V] | None:
        """Return the state of the model that a user gives as ``layout=``, or refuse it.

        Without one, return None.
        """
        if layout is None:
            return None
        if not self._is_like(layout):
            raise TypeError(
                f"layout={layout!r} is not a fitted model: pass the {self.family} whose layout is "
                "to be used."
            )
        check_is_fitted(layout)
        state: ModelState[L, M, V] = layout.state
        return state

    def _read_operand(self, other: Any, call: str) -> AnyState:
        """Return the state of a model that is to be merged with this one, or refuse it."""
        check_is_fitted(self)
        if not self._is_like(other):
            raise TypeError(f"{call} takes another {self.family}, not {other!r}.")
        check_is_fitted(other)
        state: AnyState = other.state
        check_names(self.state.columns, state.columns)
        return state

    def describe_answers(self) -> AnswerFacts:
        """Return the types of answers, the classes or bounds, and the parts that answer.

        Commands and servers show it; the values are plain, without classes of this library.
        """
        return self.state.task.describing.describe_answers(self.settings(), self.state)

    def contexts(self, X: Any) -> Contexts:
        """Return the rows of a question as contexts, or refuse them.

        Warns once of each column whose values are of another type than the learned ones, such as
        strings where there were numbers.
        """
        state = self.state
        columns = state.columns
        contexts = read_question(self, self.settings(), columns, state.cut(X))
        if columns.token_types is not None:
            differences = columns.token_types.differences(contexts, columns.names, columns.kinds)
            warn_once(differences, vars(self)["_columns_warned_of"])
        return contexts

    def quick_answers(self) -> QuickAnswers | None:
        """Return what answers single rows in microseconds.

        None if the model only answers whole tables.
        """
        return None

    def predict_kept_rows(self, most: int) -> Array | None:  # noqa: ARG002
        """Return the labels that the model predicts for the last kept rows, at most so many.

        None where it predicts no labels or keeps no rows.
        """
        return None

    def share_of_changed_labels(self, other: Any, X: Any) -> float | None:  # noqa: ARG002
        """Return the share of rows to which another model gives another label.

        None where there are no labels.
        """
        return None

    def as_classifier(self) -> Any:  # a MemoryClassifier, which is made of this class
        """Return this model; AttributeError where it predicts no labels."""
        raise AttributeError(
            f"This model predicts {self.predicts}, so it has no labels, scores or vote: use "
            "predict."
        )

    def _check_mergeable(self, other: Any) -> None:
        """Refuse to merge a model of the same kind whose parameters do not go with these."""

    def _warn_of_other_weights(self, other: AnyState) -> None:
        """Warn that fitted weights of a merged model were left out, where that may surprise."""

    def empty_like(self: Self) -> Self:
        """Return an empty model of the same layout: a shard for `partial_fit` and then `merge`.

        The layout is all that is settled before the first example, such as the seed and which
        tokens a hashed memory reserves. Declared classes are not carried over. `refit` of the new
        model does not choose another layout.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.memories import Hashed
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
        >>> whole = MemoryClassifier(memory=Hashed(buckets=4, reserved=2)).fit(X, y)
        >>> pairs = zip(X, y, strict=True)
        >>> shards = [whole.empty_like().partial_fit([row], [label]) for row, label in pairs]
        >>> sum(shards).memory_.state_bytes() == whole.memory_.state_bytes()
        True
        """
        fresh = copy_model(self)
        take_state(fresh, empty_copy(fresh.state))
        return fresh

    def snapshot(self: Self) -> Self:
        """Return another model with this version, quickly: both share what is stored.

        What either of the two learns later, the other one does not see.
        """
        copied = super().snapshot()
        state = copied.__dict__.get("_state")
        if state is not None and state.witness is not None:
            # The witness counts for a receipt what is forgotten here, and not in copies.
            copied.__dict__["_state"] = state.with_changes(witness=None)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies and pickles have: all attributes, but what was warned of for good.

        A copy warns again of rows that were forgotten and of intervals, which depend on what it
        learns. Which columns were warned of stays with the columns: `contexts` needs the
        dictionary, and `take_state` makes a new one where columns change.
        """
        state: Any = super().__getstate__()
        attributes = {name: value for name, value in state.items() if name not in _WARNED}
        if "_columns_warned_of" in state:
            # All versions share this dictionary, and a thread that answers may add to it while it
            # is copied. `tuple` copies its keys in one step.
            attributes["_columns_warned_of"] = dict.fromkeys(tuple(state["_columns_warned_of"]))
        return attributes

    @overload
    def digest(self, parts: Literal[False] = False) -> str: ...

    @overload
    def digest(self, parts: Literal[True]) -> dict[str, str]: ...

    def digest(self, parts: bool = False) -> str | dict[str, str]:
        """Return the BLAKE2b-256 hash of the whole model in hexadecimal digits.

        Equal digests mean equal models. It covers the parameters and the seed, the layout, the
        counts, what was declared (classes, the type of labels, names of columns), the settings of
        the vote, its weights, and the kept rows with their threshold.

        Parameters
        ----------
        parts : bool
            Whether to return the digest of each of these parts, by name.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> X = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 50
        >>> y = ["no", "no", "yes", "yes"] * 50
        >>> clf = MemoryClassifier().fit(X, y).forget(X[:40], y[:40])
        >>> rest = MemoryClassifier().fit(X[40:], y[40:])
        >>> clf.digest() == rest.digest(), clf.refit().digest() == rest.digest()
        (False, True)
        """
        check_is_fitted(self)
        digests = compute_part_digests(self, self.state)
        return digests if parts else compute_digest(digests)

    def plot_column(
        self, column: Any, other: Any = None, *, label: Any = None, ax: Axes | None = None
    ) -> Axes:
        """Draw the label shares, or the mean target, by the values of one or two columns.

        Numbers and dates are in ranges. The rows are those that the model holds now, or the kept
        ones among them; forgotten rows are not included. The plot shows the data, one column or
        pair alone; `explain` shows what the model makes of a row. It needs the ``plot`` extra.

        Parameters
        ----------
        column, other : str or int
            Columns by name or by place; with two, a field of the figure is a pair of values.
        label : optional
            Draw this label only, where the model predicts labels. By default it is the second of
            two labels, or the most frequent ones.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ax : matplotlib Axes
        """
        check_is_fitted(self)
        columns = [column] if other is None else [column, other]
        return self.state.task.plotting.plot_columns(self.state, columns, label, ax)

    def __dir__(self) -> list[str]:
        """Return the names of attributes, without computing `feature_importances_`."""
        names = []
        for name in object.__dir__(self):
            if name == "feature_importances_":
                is_listed = self._lists_importances()
            else:
                is_listed = hasattr(self, name)
            if is_listed:
                names.append(name)
        return names

    def _lists_importances(self) -> bool:
        """Return whether `dir` lists `feature_importances_`: once they are computed.

        Notebooks read all that `dir` lists, and these take a while where they need a report's bits.
        """
        return "_bits" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.categorical = tags.input_tags.string = True
        settings = self.settings()
        tags.input_tags.allow_nan = settings.missing != "refuse"
        tags.input_tags.sparse = settings.numeric is not None
        return tags
