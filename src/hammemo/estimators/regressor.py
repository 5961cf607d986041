"""The regressor: a thin front with one state, which every edit replaces by the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from hammemo.edits.editing import edit, get_state, read_rows, warn_of_forgotten_rows
from hammemo.edits.learn import admit, learn
from hammemo.edits.learn_one import read_row
from hammemo.estimators.base import MemoryModel
from hammemo.estimators.number_predictor import (
    NumberPredictor,
    check_levels,
    compile_numbers,
    interval_levels,
)
from hammemo.explain.explanations import NumberExplanation, one_context
from hammemo.explain.report_text import ShowsReport
from hammemo.tasks.numbers.answer import compute_contributions, get_answers
from hammemo.tasks.numbers.errors import get_interval_answers
from hammemo.tasks.numbers.intervals import (
    refuse_other_bounds,
    warn_of_infinite_ends,
    warn_of_narrow_intervals,
)
from hammemo.tasks.numbers.layout import NumberLayout
from hammemo.tasks.numbers.memory import NumberMemory
from hammemo.tasks.numbers.report import NumberReport, compute_importances
from hammemo.tasks.numbers.settings import NumberSettings
from hammemo.tasks.numbers.task import NUMBERS
from hammemo.tasks.numbers.vote import NumberVote
from hammemo.tokens.contexts import Examples
from hammemo.tokens.row_slices import row_slices
from hammemo.votes.bounds import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hammemo.tasks.numbers.state import NumberState
    from hammemo.votes.number_answers import SeenRows

Self = TypeVar("Self", bound="MemoryRegressor")

_NO_ROWS: Final = "The model holds no rows: learn some with fit or partial_fit first."


class MemoryRegressor(
    MemoryModel[NumberLayout, NumberMemory, NumberVote], ShowsReport, RegressorMixin, BaseEstimator
):
    """Predicts numbers from tables, with intervals, and can exactly forget training rows.

    The answer is a sum: an additive function of the columns, and trees of what it leaves. Both are
    sums over the training rows in whole numbers, so learning adds to them and forgetting subtracts.
    While all rows are kept, `refit` makes the model that `fit` makes of the rows that are left, to
    the byte of its file.

    Targets over many orders of magnitude, such as prices, are better predicted as logarithms.

    Parameters
    ----------
    random_state : int, RandomState or None
        The seed. Models with the same seed can be merged; None draws a new seed at each fit.
    missing : {"token", "empty", "refuse"}
        How to treat a missing value of X in a column of names: as a name of its own, or as no name.
        "refuse" raises an error for any missing value. A missing target is always refused.
    keep : {"auto", True, False} or int
        Whether the model keeps its rows, in plain text, so that `refit` needs no data: up to
        200,000 distinct rows and 2^26 values, beyond that those with the lowest hashes. A number
        limits the distinct rows; False keeps none.
    numeric : "auto", "none" or list of columns
        Which columns are numbers, by name or by place. "auto" takes floats, dates, durations and
        whole numbers for numbers; "none" makes every column names.
    ordered : dict from columns to lists, optional
        The categories of columns whose values have an order, from low to high, as in ``{"size":
        ["S", "M", "L"]}``, by name or by place. Categories with an order of pandas, polars (Enum)
        and Arrow need no such entry. A value that is no category is refused when it is learned, and
        counts as missing in a question.
    verbose : int or bool
        Whether long edits say on standard error what they do. It changes nothing in the model.
    n_jobs : int or None
        How many threads long edits use. None is 1, -1 uses all cores. The model is the same for any
        number.
    bounds : (low, high) or None
        What answers never leave, such as ``(0, None)`` for counts: predictions, quantiles and
        intervals outside are replaced by the bound. It is an option of answers: it can be changed
        at any time without a refit. Targets outside are refused.

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
    >>> rest = MemoryRegressor().fit(X[50:], y[50:])
    >>> reg.forget(X[:50], y[:50]).refit().digest() == rest.digest()
    True
    """

    family = "MemoryRegressor"
    predicts = "numbers"
    kind_in_files = "regressor"
    has_intervals = True

    def __init__(  # noqa: PLR0917  scikit-learn's form of parameters
        self,
        random_state: Any = 0,
        missing: str = "token",
        keep: str | bool | int = "auto",
        numeric: str | Sequence[Any] = "auto",
        verbose: Any = 0,
        n_jobs: Any = None,
        bounds: Any = None,
        ordered: Mapping[Any, Sequence[Any]] | None = None,
    ) -> None:
        self.random_state = random_state
        self.missing = missing
        self.keep = keep
        self.numeric = numeric
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.bounds = bounds
        self.ordered = ordered

    def settings(self) -> NumberSettings:
        """Return the parameters as one value: what the steps of an edit take."""
        return NumberSettings(
            task=NUMBERS,
            random_state=self.random_state,
            missing=self.missing,
            keep=self.keep,
            numeric=self.numeric,
            bounds=Bounds.from_parameter(self.bounds),
            ordered=self.ordered,
        )

    def partial_fit(
        self: Self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        choose: bool = True,
    ) -> Self:
        """Learn more rows.

        Whenever their number has doubled, everything is chosen again; `refit` at the end does it.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        choose : bool
            Whether this call may choose and fit again; pass False if no call may take longer than
            its batch.
        """

        def change(model: MemoryRegressor) -> NumberState:
            settings = model.settings()
            state = get_state(model)
            if state is not None:
                state = admit(settings, state, X, choose_again=choose)
            rows = read_rows(model, X, y, state, sample_weight=sample_weight)
            return learn(settings, state, rows, choose_again=choose)

        edit(self, change)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the expected target of each row, within `bounds`."""
        bounds = Bounds.from_parameter(self.bounds)
        return self._answer(X, lambda state, rows: bounds.clip(get_answers(state).predict(rows)))

    def predict_quantiles(self, X: Any, levels: ArrayLike) -> NDArray[np.float64]:
        """Return quantiles of the target of each row.

        Shapes
        ------
        X : (m, columns); levels : (k,), from 0 to 1; returned : (m, k)
        """
        checked_levels = check_levels(levels)
        bounds = Bounds.from_parameter(self.bounds)

        def ask(state: NumberState, rows: SeenRows) -> NDArray[np.float64]:
            return bounds.clip(get_interval_answers(state).predict_quantiles(checked_levels, rows))

        quantiles = self._answer(X, ask)
        warn_of_narrow_intervals(self, self.state)
        warn_of_infinite_ends(self, get_interval_answers(self.state), quantiles)
        return quantiles

    def predict_interval(self, X: Any, coverage: float = 0.8) -> NDArray[np.float64]:
        """Return intervals, each of which holds the target of its row with this probability.

        The columns are the lower and the upper ends.

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
        """Compile the state into a read-only `NumberPredictor` without rows: it answers alike."""
        check_is_fitted(self)
        state = self.state
        if state.holds_nothing:
            raise ValueError(_NO_ROWS)
        return compile_numbers(state, self.settings())

    def contributions(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what each column of each row adds to the prediction, and what it is without them.

        The contributions of a row and its base add up to `predict`, before `bounds` are applied.
        The arrays have the shapes of SHAP's ``Explanation(values, base_values)``, so its plots take
        them.

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
        >>> bool(values[0, 0] > 2.5), bool(abs(values[0, 1]) < 0.2)
        (True, True)
        >>> bool(abs(values.sum() + base[0] - 3) < 0.1)
        True
        """
        values_and_base = self._answer(X, _compute_contributions)
        return values_and_base[:, :-1], values_and_base[:, -1]

    def explain(self, x: Any) -> NumberExplanation:
        """Return what each column of one row adds to its prediction.

        It prints as a table and has `plot`.

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
        row = one_context(x, state.columns.names, "explain")
        tokens = read_row(self.settings(), state, row, learning=False)
        rows = state.layout.see_rows(Examples.of([tokens], [0.0]).contexts)
        *values, base = _compute_contributions(state, rows)[0].tolist()
        bounds = Bounds.from_parameter(self.bounds)
        expected = get_answers(state).predict(rows)
        quantiles = get_interval_answers(state).predict_quantiles(np.array([0.1, 0.9]), rows)
        low, high = bounds.clip(quantiles)[0].tolist()
        return NumberExplanation.from_contributions(
            row,
            state.columns.list_names(),
            np.array(values),
            base=base,
            by_bounds=float((bounds.clip(expected) - expected)[0]),
            interval=(low, high),
        )

    def report(self) -> NumberReport:
        """Return a report of what was chosen, and how good it is on rows without them.

        ``print`` shows it.
        """
        check_is_fitted(self)
        return NumberReport.from_state(self.state, Bounds.from_parameter(self.bounds))

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The share of each column of X in R² on kept rows, at most 4,000 of them.

        These rows were learnt, so the sum is higher than R² on new rows (`hammemo evaluate`). A
        column below zero makes predictions worse. The first access after an edit computes them;
        ``dir`` lists the name and does not.

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
            return compute_importances(self.state)
        except ValueError as error:  # scikit-learn asks with hasattr
            raise AttributeError(str(error)) from None

    def _check_mergeable(self, other: Any) -> None:
        refuse_other_bounds(self.bounds, other.bounds)

    def _lists_importances(self) -> bool:
        """Return whether there are rows to compute them by, which is quick."""
        state = vars(self).get("_state")
        return state is not None and state.rows is not None and len(state.rows) > 0

    def _answer(
        self, X: Any, ask: Callable[[NumberState, SeenRows], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return the answers to all rows, some rows at a time."""
        check_is_fitted(self)
        warn_of_forgotten_rows(self)
        version = self.now()
        state = version.state
        answers = []
        for some_rows in row_slices(X):
            contexts = version.contexts(some_rows)
            if state.holds_nothing:
                raise ValueError(_NO_ROWS)
            answers.append(ask(state, state.layout.see_rows(contexts)))
        return answers[0] if len(answers) == 1 else np.concatenate(answers)


def _compute_contributions(state: NumberState, rows: SeenRows) -> NDArray[np.float64]:
    """Return what each column adds to predictions and, last, what they are without these.

    Shapes
    ------
    returned : (m, columns + 1)
    """
    values = np.ldexp(compute_contributions(state, rows), -state.layout.exponent)
    if rows.wide is not None and state.layout.narrowing is not None:
        values = state.layout.narrowing.spread(values, rows.wide)
    bases = get_answers(state).predict(rows) - values.sum(axis=1)
    return np.column_stack([values, bases])
