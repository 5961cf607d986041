r"""A model of the recent past: what falls out of the window is forgotten.

The state of a memory is a sum over its examples, so the sum over a moving window is kept by adding
what comes in and subtracting what falls out, at a cost that does not depend on the length of the
window. With a memory of integers the state is, to the byte, that of a fresh fit on the examples of
the window in the same layout.

To subtract an example one must still have it: a rolling model **stores the examples of its window
themselves**, tokens and labels, beside the memory, and drops them as they fall out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from hammemo._versions import Versioned
from hammemo.edits.column_changes import convert_examples
from hammemo.edits.editing import edit, mute_forgetting_warning, read_rows, take_state
from hammemo.edits.forget import forget
from hammemo.edits.learn import admit, learn
from hammemo.estimators.learners import Learner
from hammemo.tasks.labels.answer import Answering, ModelView
from hammemo.tokens.contexts import join_examples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.estimators.number_predictor import NumberPredictor
    from hammemo.estimators.predictor import Predictor
    from hammemo.estimators.regressor import MemoryRegressor
    from hammemo.tokens.user_input import CheckedRows
    from hammemo.votes import Vote

Self = TypeVar("Self", bound="Rolling")

_CHUNK_ROWS = 1024  # the oldest chunk is copied when it loses examples, so chunks are short


def _has_intervals(window: Rolling) -> bool:
    """Return whether the answers of the window's model have intervals."""
    return window.estimator.has_intervals


class Rolling(Versioned, Answering, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A model of a rolling window: the last examples, or those of the last seconds.

    With both limits, an example stays while it is within both.

    Parameters
    ----------
    estimator : MemoryClassifier or MemoryRegressor
        The model to fit; it is cloned. With a regressor, `predict` returns numbers.
    last : int, optional
        How many examples to keep. An example with sample_weight 3 is three examples.
    seconds : float, optional
        How long to keep an example: at this age, it is forgotten.

    Attributes
    ----------
    estimator_ : MemoryClassifier or MemoryRegressor
        The model of the window.
    n_examples_ : int
        Examples in the window, multiplicities counted.
    classes_ : ndarray
        The labels of the window, and the declared ones.

    Examples
    --------
    >>> from hammemo import MemoryClassifier, MemoryRegressor, Rolling
    >>> clf = Rolling(MemoryClassifier(), last=2)
    >>> clf.partial_fit([["a", "b"], ["a", "c"]], ["old", "new"]).predict([["a", "b"]]).tolist()
    ['old']
    >>> clf.partial_fit([["a", "b"]], ["new"]).predict([["a", "b"]]).tolist()
    ['new']
    >>> minute = Rolling(MemoryClassifier(), seconds=60)
    >>> minute = minute.partial_fit([["a"], ["b"]], ["x", "y"], times=[0, 45])
    >>> minute.expire(now=60).classes_.tolist()
    ['y']
    >>> window = Rolling(MemoryRegressor(), last=2).fit([[1.0], [2.0], [3.0]], [10, 20, 30])
    >>> window.n_examples_, window.predict([[2.0]]).shape
    (2, (1,))
    """

    estimator_: Learner
    _chunks: _Queue
    _n_examples: int
    _newest: float
    _clock: float
    _by_the_clock: bool

    def __init__(
        self, estimator: Learner, last: int | None = None, seconds: float | None = None
    ) -> None:
        self.estimator = estimator
        self.last = last
        self.seconds = seconds

    def fit(
        self: Self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        times: ArrayLike | None = None,
    ) -> Self:
        """Forget everything, learn (X, y) and keep what is in the window."""

        def start_over(window: Self) -> None:
            window.take_in(X, y, sample_weight=sample_weight, times=times, reset=True)

        self.apply_edit(start_over)
        return self

    def partial_fit(
        self: Self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        times: ArrayLike | None = None,
    ) -> Self:
        """Learn more examples and forget, in one batch, all that falls out of the window.

        Parameters
        ----------
        X, y, classes, sample_weight
            As for `MemoryClassifier.partial_fit`.
        times : array-like of shape (m,), or one for all, optional
            When each example occurred, from the oldest to the newest: seconds as numbers, or
            datetime64. By default now, ``time.time()``.
        """

        def take_in(window: Self) -> None:
            window.take_in(X, y, classes=classes, sample_weight=sample_weight, times=times)

        self.apply_edit(take_in)
        return self

    def expire(self: Self, now: Any = None) -> Self:
        """Forget what is too old now: ``time.time()`` by default, else seconds or a datetime64.

        The clock of the window never goes back: a time before the newest known one changes nothing.
        """
        check_is_fitted(self)
        if now is None:
            now = time.time()
        moment = float(_seconds(now, 1)[0])
        self.apply_edit(lambda window: window.drop_old(moment))
        return self

    def drop_old(self, moment: float) -> None:
        """Forget what is too old at this time."""
        self._clock = max(self._clock, moment)
        self.estimator_ = self.estimator_.snapshot()
        self._forget_what_fell_out()

    @property
    def n_examples_(self) -> int:
        """Examples in the window, multiplicities counted."""
        check_is_fitted(self)
        return self._n_examples

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels of the window, and the declared ones."""
        return self._classifier().classes_

    @property
    def n_features_in_(self) -> int:
        """Tokens per context."""
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns of X, where it had any."""
        return np.asarray(self.estimator_.feature_names_in_)

    @property
    def label_dtype_(self) -> np.dtype[Any]:
        """The type that `classes_` and predictions have."""
        return self._classifier().label_dtype_

    def compile(
        self,
        form: str | None = None,
        vocabulary: Iterable[Any] | None = None,
        n_jobs: int | None = None,
    ) -> Predictor | NumberPredictor:
        """Return a read-only model of the window as it is now; one of numbers takes no settings."""
        options = {"form": form, "vocabulary": vocabulary, "n_jobs": n_jobs}
        chosen = {name: value for name, value in options.items() if value is not None}
        model: Any = self._answering_model()
        predictor: Predictor | NumberPredictor = model.compile(**chosen)
        return predictor

    def view(self) -> ModelView:
        """Return what answers for the window as it is now."""
        return self._classifier().view()

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the highest score, or the expected number, of each row."""
        return self._answering_model().predict(X)

    @available_if(_has_intervals)  # type: ignore[untyped-decorator]
    def predict_interval(self, X: Any, coverage: float = 0.8) -> NDArray[np.float64]:
        """Return intervals of numbers: as `MemoryRegressor.predict_interval`."""
        regressor = cast("MemoryRegressor", self._answering_model())
        return regressor.predict_interval(X, coverage)

    @available_if(_has_intervals)  # type: ignore[untyped-decorator]
    def predict_quantiles(self, X: Any, levels: ArrayLike) -> NDArray[np.float64]:
        """Return quantiles of numbers: as `MemoryRegressor.predict_quantiles`."""
        regressor = cast("MemoryRegressor", self._answering_model())
        return regressor.predict_quantiles(X, levels)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, or R² of numbers."""
        return float(self._answering_model().score(X, y, sample_weight))

    def vote_in_use(self) -> str | Vote:
        """Return the vote, also before anything is learnt."""
        model = self.estimator_ if hasattr(self, "estimator_") else self.estimator
        return model.as_classifier().vote_in_use()

    def _answering_model(self) -> Learner:
        """Return the model of the window, which does not warn of forgotten rows."""
        check_is_fitted(self)
        mute_forgetting_warning(self.estimator_)  # a window forgets all the time; a copy would warn
        return self.estimator_

    def _classifier(self) -> MemoryClassifier:
        return self._answering_model().as_classifier()

    def take_in(
        self,
        X: Any,
        y: Any,
        *,
        classes: Any = None,
        sample_weight: Any = None,
        times: Any = None,
        reset: bool | None = None,
    ) -> None:
        """Learn examples, then forget what fell out of the window.

        With `reset`, or where nothing was learned before, this begins with an empty window.
        """
        self._check_parameters()
        if reset is None:
            reset = not hasattr(self, "estimator_")
        model: Learner = clone(self.estimator) if reset else self.estimator_.snapshot()
        mute_forgetting_warning(model)  # a window forgets all the time
        settings: Any = model.settings()
        state = None
        if not reset:
            state = admit(settings, model.state, X)
            take_state(model, state)
        rows = read_rows(model, X, y, state, sample_weight=sample_weight)
        moments = self._read_times(times, len(rows.labels), reset=reset)
        if classes is not None:
            model.as_classifier()  # only labels can be declared
        edit(model, lambda _: learn(settings, state, rows, classes))
        self.estimator_ = model
        self._remember(rows, moments, reset=reset)
        self._forget_what_fell_out()

    def _read_times(self, times: Any, m: int, *, reset: bool) -> NDArray[np.float64]:
        """Return when each of m new examples occurred, or refuse it."""
        clock = -np.inf if reset else self._clock
        newest = -np.inf if reset else self._newest
        if not reset and self.seconds is not None and times is None and not self._by_the_clock:
            raise ValueError(
                "Earlier calls gave times=, and this one does not: give times= in every call, "
                "because the system's clock may differ from theirs."
            )
        self._by_the_clock = times is None and (reset or self._by_the_clock)
        if times is None:  # the clock of the system may go back, that of the window does not
            moments = np.full(m, max(time.time(), clock))
        else:
            moments = _seconds(times, m)
        if np.any(np.diff(moments, prepend=newest) < 0):
            raise ValueError(
                "times must not decrease, in one call or from one call to the next: sort the "
                "examples by time."
            )
        return moments

    def _remember(self, rows: CheckedRows, moments: NDArray[np.float64], *, reset: bool) -> None:
        """Store examples that were learned, and when they occurred."""
        if reset:
            self._chunks = _Queue()
            self._n_examples = 0
            self._clock = self._newest = -np.inf
        weighted = np.flatnonzero(rows.counts)
        for places in np.split(weighted, range(_CHUNK_ROWS, len(weighted), _CHUNK_ROWS)):
            self._chunks = self._chunks.push(_Chunk(rows[places], moments[places]))
        self._n_examples += int(rows.counts.sum())
        self._newest = max(self._newest, float(moments[-1]))
        self._clock = max(self._clock, self._newest)

    def _check_parameters(self) -> None:
        if not isinstance(self.estimator, Learner):
            raise TypeError(
                f"estimator={self.estimator!r} is not a MemoryClassifier or a MemoryRegressor, "
                "which Rolling needs."
            )
        if self.last is None and self.seconds is None:
            raise ValueError("Give the window a limit: last=…, a number of examples, or seconds=….")
        is_number = isinstance(self.last, (int, np.integer)) and self.last >= 1
        if self.last is not None and not is_number:
            raise ValueError(f"last={self.last!r} is a whole number of at least 1.")
        if self.seconds is not None and not 0 < self.seconds < np.inf:
            raise ValueError(f"seconds={self.seconds!r} is a positive number.")

    def _forget_what_fell_out(self) -> None:
        surplus = 0
        if self.last is not None:
            surplus = max(0, self._n_examples - self.last)
        horizon = -np.inf
        if self.seconds is not None:
            horizon = self._clock - self.seconds
        fallen: list[_Chunk] = []
        chunks = self._chunks
        while chunks:
            oldest, chunks = chunks.pop()
            gone, remaining = oldest.split(surplus, horizon)
            n_gone = int(gone.rows.counts.sum())
            if n_gone:
                fallen.append(gone)
                surplus = max(0, surplus - n_gone)
                self._n_examples -= n_gone
            if len(remaining.times):
                chunks = chunks.with_first(remaining)
                break
        self._chunks = chunks
        if not fallen:
            return
        model: Any = self.estimator_
        settings = model.settings()
        columns = model.state.columns
        # Kinds of columns may have been decided again since the rows came.
        examples = [
            convert_examples(
                settings,
                columns,
                chunk.rows.examples(),
                before=chunk.rows.columns.kinds,
                after=columns.kinds,
            )
            for chunk in fallen
        ]
        # The window itself knows that the model has learned them.
        after = forget(settings, model.state, join_examples(examples), is_known=True)
        take_state(model, after)

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Examples that came together, oldest first."""

    rows: CheckedRows
    """With the columns as they were when these came: kinds may have been decided again since."""
    times: NDArray[np.float64]

    def split(self, surplus: int, horizon: float) -> tuple[_Chunk, _Chunk]:
        """Return what falls out and what stays.

        The first `surplus` examples fall out, and all that are as old as `horizon`.
        """
        counts = self.rows.counts
        n_before = np.cumsum(counts) - counts
        gone = np.where(self.times <= horizon, counts, np.clip(surplus - n_before, 0, counts))
        return self._with_counts(gone), self._with_counts(counts - gone)

    def _with_counts(self, counts: NDArray[np.int64]) -> _Chunk:
        is_left = counts > 0  # a copy, so that what has fallen out is not kept alive by a view
        return _Chunk(replace(self.rows, counts=counts)[is_left], self.times[is_left])


@dataclass(frozen=True, eq=False)
class _Queue:
    """Chunks from the oldest to the newest.

    A queue never changes, and pushing or popping makes another one.

    First comes `oldest`, then `front` from its place `first` on, then `newer`: tuples of falling
    length, of which neighbours of similar length become one. So n chunks are moved O(n log n)
    times, however long the window is.
    """

    oldest: _Chunk | None = None
    front: tuple[_Chunk, ...] = ()
    first: int = 0
    newer: tuple[tuple[_Chunk, ...], ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        # what has fallen out stays in `front` until all of it has: copies do not have it
        return {**vars(self), "front": self.front[self.first :], "first": 0}

    def __bool__(self) -> bool:
        return self.oldest is not None or self.first < len(self.front) or bool(self.newer)

    def push(self, chunk: _Chunk) -> _Queue:
        """Return the queue with one more chunk, the newest."""
        newer = [*self.newer, (chunk,)]
        while len(newer) > 1 and len(newer[-2]) <= len(newer[-1]):
            newer[-2:] = [newer[-2] + newer[-1]]
        return replace(self, newer=tuple(newer))

    def pop(self) -> tuple[_Chunk, _Queue]:
        """Return the oldest chunk, and the queue without it."""
        if self.oldest is not None:
            return self.oldest, replace(self, oldest=None)
        if self.first == len(self.front):
            return _Queue(front=tuple(chain.from_iterable(self.newer))).pop()
        return self.front[self.first], replace(self, first=self.first + 1)

    def with_first(self, chunk: _Chunk) -> _Queue:
        """Return the queue with a chunk before its oldest, which was popped from it."""
        return replace(self, oldest=chunk)


def _seconds(times: Any, m: int) -> NDArray[np.float64]:
    """Return the moments of m examples as seconds since 1970, or refuse them."""
    values = np.asarray(times)
    if values.dtype.kind == "M":
        microseconds = values.astype("datetime64[us]").astype(np.int64)
        values = np.where(np.isnat(values), np.nan, microseconds / 1e6)
    is_number = values.dtype.kind in "iuf"
    has_shape = values.shape in ((), (m,))
    if not is_number or not has_shape or not np.isfinite(values).all():
        raise ValueError(
            f"times holds one finite number of seconds or datetime64 for each of the {m} examples, "
            f"or one for all; it is {values.dtype} of shape {values.shape}."
        )
    return np.broadcast_to(values.astype(np.float64), (m,))
