"""A read-only model of numbers for serving: what answers, without rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.estimators.predictor import torch_module, write_onnx
from hammemo.explain.explanations import one_context
from hammemo.features.cells.column_codes import code_arrays
from hammemo.features.wide.narrowing import refuse_wide
from hammemo.portable.tree_graph import NumberGraph, number_graph
from hammemo.tasks.numbers.errors import get_interval_answers
from hammemo.tasks.numbers.intervals import warn_of_infinite_ends
from hammemo.tokens.questions import QuestionForm, ReadsQuestions
from hammemo.tokens.row_slices import row_slices
from hammemo.tokens.vocabulary import Vocabulary
from hammemo.votes.bounds import UNBOUNDED, Bounds

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hammemo.portable.torch_module import TorchPredictor
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.votes.number_answers import NumberAnswers, SeenRows


class NumberPredictor(ReadsQuestions):
    """A read-only model that `MemoryRegressor.compile` returns.

    Its answers are those of the model, to the bit.

    It reads questions as its model does: where the model knows the names of columns, tables with
    other columns, or with the same in another order, are refused.

    Examples
    --------
    >>> from hammemo import MemoryRegressor
    >>> predictor = MemoryRegressor().fit([["a", 1.5], ["b", 2.5]] * 30, [1, 2] * 30).compile()
    >>> round(predictor(["b", 2.5]), 1), predictor.predict([["a", 1.5]]).round(1).tolist()
    (2.0, [1.0])
    """

    def __init__(
        self,
        answers: NumberAnswers,
        form: QuestionForm,
        names: Vocabulary,
        bounds: Bounds = UNBOUNDED,
    ) -> None:
        self.answers = answers
        self.form = form
        self.names = names
        self.bounds = bounds

    def __repr__(self) -> str:
        mebibytes = self.nbytes / 2**20
        return f"<NumberPredictor of numbers from {self.n_columns} columns, {mebibytes:.2f} MiB>"

    def __call__(self, row: Sequence[Any]) -> float:
        """Return the expected target of one row.

        The row is a list of values in order, or a row of a table with the columns of the model.
        """
        values = one_context(row, self.form.columns.names, call="a predictor")
        contexts = self.read_row(values)
        [expected] = self._expect(self.answers.see_rows(contexts)).tolist()
        return float(expected)

    @property
    def missing(self) -> str:
        """What takes the place of missing values."""
        return self.form.missing

    @property
    def n_columns(self) -> int:
        """How many columns a row has."""
        return self.form.columns.n

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the expected target of each row."""
        return self._answer(X, self._expect)

    def _expect(self, rows: SeenRows) -> NDArray[np.float64]:
        """Return the expected target of each row, within the bounds."""
        return self.bounds.clip(self.answers.predict(rows))

    def predict_quantiles(self, X: Any, levels: ArrayLike) -> NDArray[np.float64]:
        """Return quantiles of the target of each row: (m, levels)."""
        checked_levels = check_levels(levels)

        def find_quantiles(rows: SeenRows) -> NDArray[np.float64]:
            return self.bounds.clip(self.answers.predict_quantiles(checked_levels, rows))

        quantiles = self._answer(X, find_quantiles)
        warn_of_infinite_ends(self, self.answers, quantiles)
        return quantiles

    def predict_interval(self, X: Any, coverage: float = 0.8) -> NDArray[np.float64]:
        """Return intervals, each of which holds the target of its row with this probability.

        Shapes
        ------
        returned : (m, 2), the lower and the upper ends
        """
        return self.predict_quantiles(X, interval_levels(coverage))

    def _answer(
        self, X: Any, answer_rows: Callable[[SeenRows], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return what `answer_rows` returns for all rows; it gets some rows at a time."""
        answers: list[NDArray[np.float64]] = []
        for some_rows in row_slices(X):
            contexts = self.read(some_rows)
            answers.append(answer_rows(self.answers.see_rows(contexts)))
        if len(answers) == 1:
            return answers[0]  # without a copy
        return np.concatenate(answers)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        state.pop("_columns_warned_of", None)  # copies warn again
        return state

    def to_torch(
        self, levels: ArrayLike = (), tokens: Iterable[str] | None = None
    ) -> TorchPredictor:
        """Return the predictor as a torch module.

        Its output has one column for the prediction, and then one for the quantile of each level.

        Parameters
        ----------
        levels : list of float, optional
            From 0 to 1; by default there are no quantiles.
        tokens : iterable of str, optional
            The names in columns that the module tells apart: it reads every other name as one that
            was never learned. By default, those on which the model depends, as far as it has kept
            their rows; a model without rows needs this list.
        """
        return torch_module(self.graph(levels, tokens), self.form)

    def to_onnx(
        self,
        path: str | os.PathLike[str],
        levels: ArrayLike = (),
        tokens: Iterable[str] | None = None,
    ) -> None:
        """Write the predictor as an ONNX graph.

        Its outputs are ``prediction`` and, for levels, ``quantiles``. Its inputs are ``numbers``,
        of float64 with NaN for missing ones, and ``names``, of strings with ``"<missing>"``: each
        in the order of the columns.

        Parameters
        ----------
        path : str or path
        levels, tokens
            As in `to_torch`.
        """
        write_onnx(self.graph(levels, tokens), self.form, path)

    def graph(self, levels: ArrayLike = (), tokens: Iterable[str] | None = None) -> NumberGraph:
        """Return what torch and ONNX compute."""
        refuse_wide(self.answers.narrowing)
        names = self.names if tokens is None else Vocabulary.of(tokens)
        return number_graph(self.answers, names, check_levels(levels), self.bounds)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs, by name."""
        answers = self.answers
        tensors = _prefix("codes", code_arrays(answers.codes))
        if answers.narrowing is not None:
            tensors.update(_prefix("narrowing", answers.narrowing.arrays()))
        tensors.update(_prefix("design", answers.design.arrays()))
        for place, (forest, leaves) in enumerate(zip(answers.forests, answers.leaves, strict=True)):
            tensors.update(_prefix(f"trees.{place}", forest.arrays()))
            tensors[f"leaves.{place}"] = leaves
        if answers.errors is not None:
            tensors.update(_prefix("errors", answers.errors.arrays()))
        tensors["coefficients"] = answers.coefficients
        tensors["blend"] = answers.blend
        return tensors

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that prediction needs."""
        return sum(array.nbytes for array in self.tensors().values())


def compile_numbers(state: NumberState, settings: NumberSettings) -> NumberPredictor:
    """Return a predictor of a state that holds rows.

    It knows the names of kept rows on which the model depends.
    """
    return NumberPredictor(
        get_interval_answers(state),
        QuestionForm(state.columns, settings.missing),
        _list_names(state),
        bounds=settings.bounds,
    )


def _list_names(state: NumberState) -> Vocabulary:
    """Return the names in kept rows that trees or the base tell apart from unknown names.

    The layout knows only the hashes of names. So the names are those of the kept rows, of which
    each that has a code in some column is listed; the code 0 is that of unknown names.
    """
    codes = state.layout.codes
    places = codes.name_places
    if state.rows is None or not places:
        return Vocabulary()
    contexts = state.rows.examples().contexts
    # One entry for each token that stands in a column of names, and the last for an empty place,
    # whose rank is -1.
    is_name = np.zeros(len(contexts.vocabulary) + 1, bool)
    is_name[contexts.ranks[:, places]] = True
    names = contexts.vocabulary.keep(is_name[:-1])
    has_code = np.any(codes.name_codes(names) > 0, axis=1)
    return names.keep(has_code)


def _prefix(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def check_levels(levels: ArrayLike) -> NDArray[np.float64]:
    """Return the levels of quantiles, or refuse them."""
    array = np.asarray(levels, np.float64)
    if array.ndim != 1 or not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"levels={levels!r}: pass a list of numbers from 0 to 1.")
    return array


def interval_levels(coverage: float) -> list[float]:
    """Return the levels of the ends of an interval, or refuse a coverage that is none."""
    if not 0 < coverage < 1:
        raise ValueError(
            f"coverage={coverage!r}: the share of targets inside is a number between 0 and 1."
        )
    return [0.5 - coverage / 2, 0.5 + coverage / 2]
