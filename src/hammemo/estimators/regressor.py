"""The regressor: a thin front with one state, which every edit replaces by the next."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from hammemo._versions import Versioned
from hammemo.edits.apply import apply, sync_model
from hammemo.edits.column_changes import check_names
from hammemo.edits.digests import part_digests, whole_digest
from hammemo.edits.editing import apart, edit, known_state, read_rows, take_state, warn_of_forgotten_rows
from hammemo.edits.sync import Synced, TableEdits
from hammemo.estimators.number_predictor import (
    NumberPredictor,
    checked_levels,
    compile_numbers,
    interval_levels,
)
from hammemo.explain.explanations import NumberExplanation
from hammemo.tasks.labels.answer import row_slices
from hammemo.tasks.labels.column_values import plot_means
from hammemo.tasks.labels.report_text import ShowsReport
from hammemo.tasks.labels.settings import NumberSettings
from hammemo.tasks.numbers import choose as numbers
from hammemo.tasks.numbers.errors import interval_answers
from hammemo.tasks.numbers.intervals import refuse_other_bounds, warn_of_infinite_ends, warn_of_narrow_intervals
from hammemo.tasks.numbers.report import NumberReport, importances
from hammemo.tasks.numbers.sums import BITS
from hammemo.tokens.contexts import refuse_masked
from hammemo.tokens.frame_columns import is_arrow, read_arrow
from hammemo.tokens.token_types import warn_once
from hammemo.tokens.user_input import asked_contexts
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.votes.bounds import Bounds
from hammemo.votes.number_answers import SeenRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from hammemo.tasks.numbers.sums import NumberState
    from hammemo.tokens.user_input import CheckedRows
    from hammemo.votes.number_answers import SeenRows

Self = TypeVar("Self", bound="MemoryRegressor")

_MAGNITUDES: Final = 1e6
"""How many times the sizes of targets may differ, of the middle eight in ten, before `fit` warns."""
_WARNED: Final = frozenset({"_warned", "_warned_of_ends", "_warned_of_narrow"})
"""What a model has warned of."""
_FAR: Final = 2.0**16
"""How many times as far from the median as nine of ten targets one may be before `fit` warns: the sums have 26 bits for
the largest distance, so fewer than 1,024 units are left to the others."""
_NO_ROWS: Final = "The model holds no rows: learn some with fit or partial_fit first."


class MemoryRegressor(Versioned, ShowsReport, RegressorMixin, BaseEstimator):
    """Predicts numbers from tables, with intervals, and can exactly forget training rows.

    The answer is a sum: an additive function of the columns, and trees of what it leaves. Both are sums over the
    training rows in whole numbers, so learning adds to them and forgetting subtracts. While all rows are kept, `refit`
    makes the model that `fit` makes of the rows that are left, to the byte of its file.

    Targets over many orders of magnitude, such as prices, are better predicted as logarithms.

    Parameters
    ----------
    random_state : int, RandomState or None
        The seed. Models with the same seed can be merged; None draws a new seed at each fit.
    missing : {"token", "empty", "refuse"}
        How to treat a missing value of X in a column of names: as a name of its own, or as no name. "refuse" raises an
        error for any missing value. A missing target is always refused.
    keep : {"auto", True, False} or int
        Whether the model keeps its rows, in plain text, so that `refit` needs no data: up to 200,000 distinct rows and
        2^26 values, beyond that those with the lowest hashes. A number limits the distinct rows; False keeps none.
    numeric : "auto", "none" or list of columns
        Which columns are numbers, by name or by place. "auto" takes floats, dates, durations and whole numbers for
        numbers; "none" makes every column names.
    verbose : int or bool
        Whether long edits say on standard error what they do. It changes nothing in the model.
    n_jobs : int or None
        How many threads long edits use. None is 1, -1 uses all cores. The model is the same for any number.
    bounds : (low, high) or None
        What answers never leave, such as ``(0, None)`` for counts: predictions, quantiles and intervals outside are
        replaced by the bound. It is an option of answers: it can be changed at any time without a refit. Targets
        outside are refused.

    Attributes
    ----------
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray
        Their names, where X had any.
    version_ : int
        How many edits there were.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import MemoryRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = X[:, 0] + np.abs(X[:, 1])
    >>> reg = MemoryRegressor().fit(X, y)
    >>> bool(abs(reg.predict([[1.0, -1.0]])[0] - 2) < 0.1)
    True
    >>> reg.forget(X[:50], y[:50]).refit().digest() == MemoryRegressor().fit(X[50:], y[50:]).digest()
    True
    """

    def __init__(
        self,
        random_state: Any = 0,
        missing: str = "token",
        keep: str | bool | int = "auto",
        numeric: str | Sequence[Any] = "auto",
        verbose: Any = 0,
        n_jobs: Any = None,
        bounds: Any = None,
    ) -> None:
        self.random_state = random_state
        self.missing = missing
        self.keep = keep
        self.numeric = numeric
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.bounds = bounds

    def settings(self) -> NumberSettings:
        """Return the parameters as one value: what the steps of an edit take."""
        bounds = Bounds.from_parameter(self.bounds)
        return NumberSettings(self.random_state, self.missing, self.keep, self.numeric, bounds)

    @property
    def state(self) -> NumberState:
        """All that the model has learnt, as one value that never changes."""
        known = vars(self).get("_state")
        if known is None:
            raise AttributeError(f"This {type(self).__name__} has learnt nothing yet: call fit or partial_fit first.")
        return known  # type: ignore[no-any-return]

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in vars(self)

    def fit(self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and learn the rows X with the targets y; everything is chosen by these rows.

        Parameters
        ----------
        X : array-like or data frame of shape (m, columns)
            Rows of names, numbers and dates. Missing values are values of their own.
        y : array-like of shape (m,)
            Finite numbers.
        sample_weight : array-like of shape (m,), optional
            How often each row occurred: non-negative whole numbers.
        """

        def fitted(model: Any) -> NumberState:
            rows = _read(model, X, y, None, sample_weight)
            _warn_of_magnitudes(rows.labels)
            _warn_of_a_far_target(rows.labels)
            return numbers.fit(model.settings(), known_state(model), rows)

        edit(self, fitted)
        return self

    def partial_fit(
        self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, choose: bool = True
    ) -> Self:
        """Learn more rows. Whenever their number has doubled, everything is chosen again; `refit` at the end does it.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        choose : bool
            Whether this call may choose and fit again; pass False if no call may take longer than its batch.
        """

        def learnt(model: MemoryRegressor) -> NumberState:
            settings, state = model.settings(), known_state(model)
            if state is not None:
                state = numbers.admit(settings, state, X, choose_again=choose)
            return numbers.learn(settings, state, _read(model, X, y, state, sample_weight), choose_again=choose)

        edit(self, learnt)
        return self

    def forget(self: Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Remove rows: the exact inverse of `partial_fit` without a choice.

        All of them are removed, or `NotStoredError` is raised and nothing is changed. The additive function is solved
        again from the rows that are left. Cuts, trees, weights and sizes of errors stay as they are until `refit`.
        """
        check_is_fitted(self)

        def forgotten(model: MemoryRegressor) -> NumberState:
            return numbers.forget(model.state, _read(model, X, y, model.state, sample_weight).examples())

        edit(self, forgotten)
        return self

    def apply(
        self: Self, learn: Any = None, forget: Any = None, *, position: str | None = None, choose: bool = True
    ) -> Self:
        """Forget rows and learn rows in one edit, with a position: as `MemoryClassifier.apply`."""
        edit(self, lambda model: apply(model, learn, forget, position, choose=choose))
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
        """Make the model hold just the rows of a table: as `MemoryClassifier.sync`.

        Examples
        --------
        >>> from hammemo import MemoryRegressor
        >>> reg = MemoryRegressor().fit([[1.0], [2.0], [3.0]], [10, 20, 30])
        >>> print(reg.sync([[2.0], [3.0], [4.0]], [20, 30, 40]))
        1 row forgotten, 1 learnt, 2 unchanged.
        """
        return sync_model(self, X, y, sample_weight, position, refit=refit, dry_run=dry_run)

    def table_edits(self) -> TableEdits:
        """Return the edits of this model as functions from state to state, for code that follows a table."""
        settings = self.settings()

        def fit(state: NumberState | None, rows: CheckedRows) -> NumberState:
            if state is None:
                return numbers.fit(settings, None, rows)
            return numbers.fit(settings._replace(random_state=state.seed), state, rows).but(**state.carried)

        return TableEdits(
            read=partial(_read, self),
            admit=lambda state, X, choose=True: numbers.admit(settings, state, X, choose_again=choose),
            forget=numbers.forget,
            forget_everything=partial(numbers.forget_everything, settings),
            learn=lambda state, rows, choose=True: numbers.learn(settings, state, rows, choose_again=choose),
            fit=fit,
            refit=lambda state: numbers.refit(settings, state, "all"),
        )

    @property
    def position_(self) -> str | None:
        """Up to where the source of the rows was read, as `apply` was told; None where it was not."""
        return self.state.position

    def learn_one(self: Self, row: Sequence[Any], target: float) -> Self:
        """Learn one row. Nothing is chosen, unless there was too little to choose by before.

        Where fewer than 200 rows were there at the last choice, everything is chosen again once their number has
        doubled. So it is where a target does not fit in the unit of the sums: the first one that differs from the
        others, or one that is more than 1,024 times as far away as any before.
        """
        if "_state" not in vars(self):
            return self.partial_fit([row], [target])
        number = float(read_targets([target])[0])
        edit(self, lambda model: numbers.change_one(model.settings(), model.state, row, number, 1))
        return self

    def forget_one(self: Self, row: Sequence[Any], target: float) -> Self:
        """Remove one row: the inverse of `learn_one`; refuses what `forget` refuses."""
        check_is_fitted(self)
        number = float(read_targets([target])[0])
        edit(self, lambda model: numbers.change_one(model.settings(), model.state, row, number, -1))
        return self

    def refit(self: Self, what: Literal["all", "weights"] = "all", rows: Any = None) -> Self:
        """Choose and fit everything again from the rows that the model keeps; no data is needed.

        While all rows are kept, the result is the model that `fit` makes of the rows that are left, to the byte of its
        file, after any history of learning, forgetting and merging. Where only some are kept, the vote is fitted again,
        and cuts and trees stay.

        Parameters
        ----------
        what : {"all", "weights"}
            With "weights", only the vote and the sizes of errors are fitted again.
        rows : (X, y) or iterable of such pairs, optional
            The rows that the model holds, for one that does not keep all of them.
        """
        check_is_fitted(self)
        if what not in ("all", "weights"):
            raise ValueError(f"what={what!r} is not known: use 'all' or 'weights'.")
        if rows is not None and what == "weights":
            raise ValueError("refit(rows=…) chooses and counts again: leave out what='weights'.")
        if rows is None:
            edit(self, lambda model: numbers.refit(model.settings(), model.state, what))
        else:
            edit(self, lambda model: numbers.refit_to(model.settings(), model.state, rows, partial(_read, model)))
        return self

    def merge(self: Self, other: MemoryRegressor) -> Self:
        """Add everything that another regressor has learnt; nothing is chosen or fitted here, `refit` does it.

        Where the layouts differ, one of the two must keep all its rows.
        """
        given = _operand(self, other, "merge")
        refuse_other_bounds(self.bounds, other.bounds)
        edit(self, lambda model: numbers.merge(model.settings(), model.state, given))
        return self

    def unmerge(self: Self, other: MemoryRegressor) -> Self:
        """Remove everything that another regressor has learnt: the exact inverse of `merge`."""
        given = _operand(self, other, "unmerge")
        edit(self, lambda model: numbers.unmerge(model.settings(), model.state, given))
        return self

    def __add__(self: Self, other: Any) -> Self:
        """Return a new model that has learnt what both have."""
        return apart(self).merge(other) if isinstance(other, MemoryRegressor) else NotImplemented

    def __radd__(self: Self, other: Any) -> Self:
        """Return a copy for ``0 + model``, which is how `sum` begins."""
        return apart(self) if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self: Self, other: Any) -> Self:
        """Return a new model without what the right one has learnt."""
        return apart(self).unmerge(other) if isinstance(other, MemoryRegressor) else NotImplemented

    def empty_like(self: Self) -> Self:
        """Return an empty model of the same layout: a shard for `partial_fit`, then `merge` or ``+``."""
        fresh = apart(self)
        take_state(fresh, numbers.emptied(fresh.state))
        return fresh

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the expected target of each row, within `bounds`."""
        bounds = Bounds.from_parameter(self.bounds)
        return self._answers(X, lambda state, rows: bounds.clip(state.answering.expected(rows)))

    def predict_quantiles(self, X: Any, levels: ArrayLike) -> NDArray[np.float64]:
        """Return quantiles of the target of each row.

        Shapes
        ------
        X : (m, columns); levels : (k,), from 0 to 1; returned : (m, k)
        """
        asked = checked_levels(levels)
        bounds = Bounds.from_parameter(self.bounds)
        found = self._answers(X, lambda state, rows: bounds.clip(interval_answers(state).quantiles(asked, rows)))
        warn_of_narrow_intervals(self, self.state)
        warn_of_infinite_ends(self, interval_answers(self.state), found)
        return found

    def predict_interval(self, X: Any, coverage: float = 0.8) -> NDArray[np.float64]:
        """Return the lower and the upper end of an interval that holds the target of each row with this probability.

        Shapes
        ------
        X : (m, columns); returned : (m, 2)

        Examples
        --------
        >>> import numpy as np
        >>> from hammemo import MemoryRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 1))
        >>> reg = MemoryRegressor().fit(X, X[:, 0] + rng.normal(size=500))
        >>> low, high = reg.predict_interval([[0.0]], coverage=0.8)[0]
        >>> bool(-1.6 < low < -1.0 and 1.0 < high < 1.6)
        True
        """
        return self.predict_quantiles(X, interval_levels(coverage))

    def compile(self) -> NumberPredictor:
        """Compile the state into a read-only `NumberPredictor` without rows: its answers are the same."""
        check_is_fitted(self)
        state = self.state
        if state.holds_nothing:
            raise ValueError(_NO_ROWS)
        return compile_numbers(state, self.settings())

    def contributions(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what each column of each row adds to the prediction, and the prediction without them.

        The contributions of a row and its base add up to `predict`, before `bounds` are applied. The arrays have the
        shapes of SHAP's ``Explanation(values, base_values)``, so its plots take them.

        Shapes
        ------
        X : (m, columns); returned : (m, columns), (m,)

        Examples
        --------
        >>> import numpy as np
        >>> from hammemo import MemoryRegressor
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> reg = MemoryRegressor().fit(X, 3 * X[:, 0])
        >>> values, base = reg.contributions([[1.0, 1.0]])
        >>> bool(values[0, 0] > 2.5), bool(abs(values[0, 1]) < 0.2), bool(abs(values.sum() + base[0] - 3) < 0.1)
        (True, True, True)
        """
        found = self._answers(X, _contributions)
        return found[:, :-1], found[:, -1]

    def explain(self, x: Any) -> NumberExplanation:
        """Return what each column of one row adds to its prediction; it prints as a table and has `plot`.

        Examples
        --------
        >>> import numpy as np
        >>> from hammemo import MemoryRegressor
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> str(MemoryRegressor().fit(X, 3 * X[:, 0]).explain([1.0, 1.0])).splitlines()[2]
        'column 0: 1.0   3.39'
        """
        check_is_fitted(self)
        warn_of_forgotten_rows(self)
        state = self.state
        if state.holds_nothing:
            raise ValueError(_NO_ROWS)
        row, examples = numbers.one_example(self.settings(), state, x, 0.0, "explain", learning=False)
        rows = state.layout.ask(examples.contexts)
        *added, base = _contributions(state, rows)[0].tolist()
        bounds = Bounds.from_parameter(self.bounds)
        expected = state.answering.expected(rows)
        low, high = bounds.clip(interval_answers(state).quantiles(np.array([0.1, 0.9]), rows))[0].tolist()
        return NumberExplanation.of(
            row,
            state.columns.listed(),
            np.array(added),
            base=base,
            by_bounds=float((bounds.clip(expected) - expected)[0]),
            interval=(low, high),
        )

    def report(self) -> NumberReport:
        """Return a report of what was chosen, and how good it is on rows without them; ``print`` shows it."""
        check_is_fitted(self)
        return NumberReport.of(self.state, Bounds.from_parameter(self.bounds))

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The share of each column of X in R² on the rows that the model keeps, at most 4,000 of them.

        These rows were learnt, so the sum is higher than R² on new rows (`hammemo evaluate`). A column below zero makes
        predictions worse. The first access after an edit computes them; ``dir`` lists the name and does not.

        Examples
        --------
        >>> import numpy as np
        >>> from hammemo import MemoryRegressor
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> MemoryRegressor().fit(X, 3 * X[:, 0]).feature_importances_.round(1).tolist()
        [1.0, 0.0]
        """
        if "_state" not in vars(self):
            raise AttributeError("feature_importances_ is known after fit.")
        try:
            return importances(self.state)
        except ValueError as error:  # scikit-learn asks with hasattr
            raise AttributeError(str(error)) from None

    def plot_column(self, column: Any, other: Any = None, *, ax: Axes | None = None) -> Axes:
        """Draw the mean target by the values of one or two columns, in the rows that the model keeps; return the axes.

        Numbers and dates are in ranges. Forgotten rows are not included. The plot shows the data; `explain` shows what
        the model makes of a row. It needs the ``plot`` extra.

        Parameters
        ----------
        column, other : str or int
            Columns by name or by place; with two, a field of the figure is a pair of values.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        check_is_fitted(self)
        return plot_means(self.state, [column] if other is None else [column, other], ax)

    def __dir__(self) -> list[str]:
        """Return the names of attributes that there are, without computing `feature_importances_`."""
        state = vars(self).get("_state")
        has_rows = state is not None and state.rows is not None and len(state.rows) > 0
        late = {"feature_importances_"}
        return [name for name in object.__dir__(self) if (has_rows if name in late else hasattr(self, name))]

    def _answers(self, X: Any, ask: Callable[[NumberState, SeenRows], NDArray[np.float64]]) -> NDArray[np.float64]:
        check_is_fitted(self)
        warn_of_forgotten_rows(self)
        version = self.now()
        state, found = version.state, []
        for some in row_slices(X):
            contexts = asked_contexts(version, version.settings(), state.columns, some)
            learnt = state.columns.learnt
            if learnt is not None:
                differences = learnt.differences(contexts, state.columns.names, state.columns.kinds)
                warn_once(differences, vars(self)["_columns_warned_of"])
            if state.holds_nothing:
                raise ValueError(_NO_ROWS)
            found.append(ask(state, state.layout.ask(contexts)))
        return found[0] if len(found) == 1 else np.concatenate(found)

    @overload
    def digest(self, parts: Literal[False] = False) -> str: ...

    @overload
    def digest(self, parts: Literal[True]) -> dict[str, str]: ...

    def digest(self, parts: bool = False) -> str | dict[str, str]:
        """Return the BLAKE2b-256 hash of the whole model in hexadecimal digits: equal digests mean equal models.

        Parameters
        ----------
        parts : bool
            Whether to return the digests of parameters, layout, memory, vote and kept rows, by name.
        """
        check_is_fitted(self)
        found = part_digests(self, self.state)
        return found if parts else whole_digest(found)

    def snapshot(self: Self) -> Self:
        """Return an object of its own that holds this version: what either learns later, the other does not see."""
        copied = super().snapshot()
        state = copied.__dict__.get("_state")
        if state is not None and state.witness is not None:
            copied.__dict__["_state"] = state.but(witness=None)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        warned = dict.fromkeys(tuple(state.get("_columns_warned_of", ())))  # a copy, made at once: it may grow
        copied = {name: value for name, value in state.items() if name not in _WARNED}  # copies warn again
        return {**copied, "_columns_warned_of": warned} if "_columns_warned_of" in state else copied

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.input_tags.allow_nan = self.missing != "refuse"
        tags.input_tags.sparse = True
        return tags


def read_targets(y: Any) -> NDArray[np.float64]:
    """Return targets as an array of finite numbers, or refuse them."""
    refuse_masked(y, "y")
    if y is None:
        raise ValueError("y is None: a regressor requires y to be passed, one number for each row.")
    array = read_arrow(y) if is_arrow(y) else np.asarray(y)
    if array.ndim == 2 and array.shape[1] > 1:
        raise ValueError(f"y has {array.shape[1]} columns; a model predicts one number: fit one model for each column.")
    array = column_or_1d(array, warn=True)
    if array.dtype.kind not in "iufbO":
        raise ValueError(
            f"y holds values of type {array.dtype}; a target is a number. For names, use MemoryClassifier."
        )
    try:
        targets = array.astype(np.float64)
    except (TypeError, ValueError):
        targets = _listed_targets(array)
    if not np.isfinite(targets).all():
        place = int(np.argmin(np.isfinite(targets)))
        what = "NaN, a missing value" if np.isnan(targets[place]) else "infinity"
        raise ValueError(f"Input y contains {what}, in row {place}: a target is a finite number. Leave out this row.")
    if len(targets) and np.abs(targets).max() > np.finfo(np.float64).max / 4:
        raise ValueError("Targets are numbers up to 4e307: divide them by a common factor.")
    targets = np.where(targets == NO_TOKEN, np.nextafter(NO_TOKEN, 0.0), targets)  # this number stands for none
    return np.asarray(targets + 0.0)  # no negative zero


def _warn_of_magnitudes(targets: NDArray[np.float64]) -> None:
    """Warn of targets of which a few are so large that the others do not count."""
    sizes = np.abs(targets[targets != 0])
    small, large = np.quantile(sizes, (0.1, 0.9)) if len(sizes) else (1.0, 1.0)
    if large / small > _MAGNITUDES:
        warnings.warn(
            f"The targets have very different sizes: eight of ten lie between {small:.1g} and {large:.1g}. The largest "
            "ones decide what is learnt. Fit their logarithms, for example with TransformedTargetRegressor.",
            UserWarning,
            stacklevel=3,
        )


def _warn_of_a_far_target(targets: NDArray[np.float64]) -> None:
    """Warn of a target so far from the others that their differences are lost in its unit."""
    if not len(targets):
        return
    distances = np.abs(targets - np.median(targets))
    usual = float(np.quantile(distances, 0.9))
    furthest = int(np.argmax(distances))
    if usual and distances[furthest] > _FAR * usual:
        unit = float(distances[furthest]) / 2**BITS
        warnings.warn(
            f"The target {targets[furthest]:.6g} is {distances[furthest] / usual:.2g} times as far from the median as "
            f"nine of ten others. Targets become whole numbers of {unit:.2g}, so that smaller differences between the "
            "others are lost. If it is a mistake, leave out this row; else fit logarithms, for example with "
            "TransformedTargetRegressor.",
            UserWarning,
            stacklevel=5,
        )


def _listed_targets(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return objects as numbers, or name the first that is none; None is a missing value."""
    found = np.empty(len(array))
    for place, value in enumerate(array.tolist()):
        try:
            found[place] = np.nan if value is None else float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"y holds {value!r} in row {place}; a target is a number. For names, use MemoryClassifier."
            ) from None
    return found


def _contributions(state: NumberState, rows: SeenRows) -> NDArray[np.float64]:
    """Return what each column adds to predictions and, last, what is left of these: (m, columns + 1)."""
    added = np.ldexp(state.contributions(rows), -state.layout.exponent)
    if rows.wide is not None and state.layout.narrowing is not None:
        added = state.layout.narrowing.spread(added, rows.wide)
    return np.column_stack([added, state.answering.expected(rows) - added.sum(axis=1)])


def _read(model: Any, X: Any, y: Any, state: NumberState | None, sample_weight: Any = None) -> CheckedRows:
    return read_rows(model, X, y, state, sample_weight, read_targets)


def _operand(model: MemoryRegressor, other: Any, name: str) -> NumberState:
    """Return the state of a model that is to be merged with another one, or refuse it."""
    check_is_fitted(model)
    if not isinstance(other, MemoryRegressor):
        raise TypeError(f"{name} takes another MemoryRegressor, not {other!r}.")
    check_is_fitted(other)
    check_names(model.state.columns, other.state.columns)
    return other.state
