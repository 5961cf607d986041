"""A read-only model for serving: a compiled form of a memory, the sites and the vote."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hammemo._lazy import explain_missing
from hammemo._versions import cached_property
from hammemo.explain.explanations import one_context
from hammemo.features.cells import Cells, TreeCells
from hammemo.features.wide.narrowing import refuse_wide
from hammemo.memories.exact import MAX_DENSE_LABELS, TreeRanker
from hammemo.portable.building import build_graph
from hammemo.portable.tree_graph import TreeGraph, tree_graph
from hammemo.tasks.labels.answer import Answering, ModelView
from hammemo.tasks.labels.scorer import Scorer, check_probabilities
from hammemo.tokens.labels import classes_array
from hammemo.tokens.questions import QuestionForm, ReadsQuestions

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from hammemo._arrays.types import Array, Floats
    from hammemo.kernels.sites import Sites
    from hammemo.memories.ranker import SingleScores
    from hammemo.memories.reader import Compiled
    from hammemo.portable.graph import Graph
    from hammemo.portable.torch_module import TorchPredictor
    from hammemo.portable.tree_graph import NumberGraph
    from hammemo.tasks.labels.layout import LabelState
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.cutting import Cutting
    from hammemo.tokens.vocabulary import Vocabulary
    from hammemo.votes import Vote


class Predictor(ReadsQuestions, Answering):
    """A read-only model that `MemoryClassifier.compile` returns.

    It reads questions as its model does: where the model knows the names of columns, tables with
    other columns, or with the same in another order, are refused.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> predictor = MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"]).compile()
    >>> predictor(["c", "b"]), predictor.predict([["c", "d"]]).tolist()
    ('x', ['y'])
    >>> predictor
    <Predictor of 2 labels from 2 tokens, 0.00 MiB>
    """

    predicts: ClassVar = "labels"
    kind_in_files: ClassVar = "predictor"

    def __init__(
        self,
        compiled: Compiled,
        label_dtype: np.dtype[Any],
        sites: Sites,
        vote: Vote,
        *,
        form: QuestionForm,
        cutting: Cutting | None = None,
        cells: Cells | None = None,
    ) -> None:
        self.label_dtype_ = label_dtype
        self.cutting_ = cutting
        self.cells = cells
        self.compiled = compiled
        self.form = form
        self._scorer = Scorer(compiled, sites, vote, cells=cells)

    def __repr__(self) -> str:
        n_labels = len(self._scorer.labels)
        mebibytes = self.nbytes / 2**20
        return f"<Predictor of {n_labels} labels from {self.n_columns} tokens, {mebibytes:.2f} MiB>"

    @property
    def sites(self) -> Sites:
        """What is compared, with its weights."""
        return self._scorer.sites

    @property
    def vote(self) -> Vote:
        """The vote, with what was fitted."""
        return self._scorer.vote

    @property
    def missing(self) -> str:
        """What takes the place of missing values."""
        return self.form.missing

    def __call__(self, tokens: Sequence[Any]) -> Any:
        """Return the label of one context.

        It is h tokens in order, or a row of a frame with the columns of the model.
        """
        row = self._read_one(tokens)
        try:
            column = self._single(row)
        except (TypeError, ValueError):
            # Perhaps a missing value: the long way knows what takes its place.
            column = -1
        if column < 0:
            column = int(self._scorer.winners(self._read_in_order(row))[0])
        return self._class_list[column]

    def probabilities_of(self, tokens: Sequence[Any]) -> Floats:
        """Return the probability of each label for one context, in microseconds.

        It is a row of `predict_proba`, to the bit.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> clf = MemoryClassifier().fit([["a", 1.5], ["b", 2.5]] * 30, ["x", "y"] * 30)
        >>> predictor = clf.compile()
        >>> predictor.probabilities_of(["b", 2.25]).round(1)
        array([0., 1.])
        """
        check_probabilities(self.vote)
        row = self._read_one(tokens)
        try:
            scores = self._single_scores(row)
        except (TypeError, ValueError):
            # Perhaps a missing value: the long way knows what takes its place.
            scores = None
        if scores is None:
            self._scorer.check_not_empty()
            scores = self._scorer.scores(self._read_in_order(row))
        return np.asarray(self.vote.probabilities(scores)[0])

    def now(self) -> Predictor:
        """Return this version for reading; a predictor has one only."""
        return self

    def view(self) -> ModelView:
        """Return what answers."""
        return self._view

    @cached_property
    def _view(self) -> ModelView:
        return ModelView(
            self._scorer,
            self._contexts,
            self.label_dtype_,
            self.missing,
            cutting=self.cutting_,
            cells=self.cells,
            names=self.form.columns.names,
            known_classes=self.classes_,
            scales=self.form.columns.scales,
        )

    def _contexts(self, X: Any) -> Contexts:
        """Return the contexts of a question, whose columns are compared with those of the model."""
        return self.read(self._view.cut(X, self.sites.h))

    def _read_one(self, row: Any) -> Sequence[Any]:
        """Return the values of one row in order.

        The names that a row of a frame has are compared with the model's.
        """
        if type(row) is list or type(row) is tuple:
            return row  # as most are, in microseconds
        return one_context(row, self.form.columns.names, call="a predictor")

    def _read_in_order(self, row: Sequence[Any]) -> Contexts:
        """Return the context of one row, whose columns come in order."""
        checked = one_context(row, call="a predictor")
        (context,) = self._view.cut([checked], self.sites.h)
        return self.read_row(context)

    def with_column_names(self, names: Iterable[str] | None) -> Predictor:
        """Return this predictor with other names of its columns.

        With None, questions are taken by position.
        """
        renamed = copy.copy(self)
        renamed.form = self.form.with_names(names)
        return renamed

    @property
    def n_columns(self) -> int:
        """How many tokens, or columns, a query has."""
        return self.form.columns.n

    def vote_in_use(self) -> Vote:
        """Return the vote."""
        return self.vote

    @cached_property
    def classes_(self) -> Array:
        """Labels in sorted order."""
        return classes_array(self._scorer.labels, self.label_dtype_)

    @cached_property
    def _class_list(self) -> list[Any]:
        return list(self.classes_.tolist())

    @cached_property
    def _single(self) -> Callable[[Sequence[Any]], int]:
        """The ranker's own way to answer one context, if it has one; -1 where it has not."""
        if not len(self._scorer.labels):
            return _answer_nothing
        return self._scorer.ranker.single() or _answer_nothing

    @cached_property
    def _single_scores(self) -> SingleScores:
        """The same for the scores of one context; None where it has no such way."""
        if not len(self._scorer.labels):
            return _score_nothing
        return self._scorer.ranker.single_scores() or _score_nothing

    def prepare(self) -> Predictor:
        """Do now what the first answer would have to wait for, and return this predictor."""
        _ = self._single
        return self

    def __getstate__(self) -> dict[str, Any]:
        # Copies make their own when needed, and warn again.
        left_out = ("_single", "_single_scores", "_view", "_columns_warned_of")
        attributes = dict(vars(self))  # a copy, made at once: another thread may add to it
        return {name: value for name, value in attributes.items() if name not in left_out}

    def to_torch(self, tokens: Iterable[Any] | None = None) -> TorchPredictor:
        """Return the predictor as a torch module that gives the same labels.

        Parameters
        ----------
        tokens : iterable of tokens, optional
            Those that the module shall know; it then takes their places in the sorted list, which
            its method `numbers` looks up. By default a hashed memory's module takes any integer,
            and others the tokens that they carry.
        """
        return torch_module(self.graph(tokens), self.form)

    def to_onnx(self, path: str | os.PathLike[str], tokens: Iterable[Any] | None = None) -> None:
        """Write the predictor as an ONNX graph.

        It has the input ``tokens`` and the outputs ``label`` and ``scores``. A table with numbers
        has the input ``numbers``, of float64 with NaN for missing ones, and ``names``, of strings
        with ``"<missing>"``: each in the order of the columns.

        The extra ``onnx`` brings what writes the graph, and ONNX Runtime, which runs it. A pipeline
        of scikit-learn is exported whole after ``hammemo.sklearn_onnx.register()``.

        Parameters
        ----------
        path : str or path
        tokens : iterable of tokens, optional
            Those that the graph shall know, all strings or all integers; others count as no token.
            By default a hashed memory's graph takes any integer, and others the tokens that they
            carry.
        """
        write_onnx(self.graph(tokens), self.form, path)

    def graph(self, tokens: Iterable[Any] | None) -> Graph | TreeGraph:
        """Return what torch and ONNX compute, for these tokens, or for those that it carries."""
        if self.cells is None:
            return build_graph(
                self.compiled,
                self.sites,
                self.vote,
                self.classes_,
                tokens=tokens,
                missing=self.missing,
            )
        refuse_wide(self.cells.narrowing)
        ranker = self._scorer.ranker
        if (
            not isinstance(self.cells, TreeCells)
            or not isinstance(ranker, TreeRanker)
            or not ranker.has_tables
        ):
            raise NotImplementedError(
                "Of the models of tables with numbers, only those with trees, exact counts in "
                f"memory and at most {MAX_DENSE_LABELS} labels can be exported. Serve this one "
                "with hammemo, or fit with numeric='none' on columns that you have cut yourself."
            )
        if tokens is not None:
            raise ValueError("A model of a table with numbers stores its names: leave out tokens=.")
        return tree_graph(ranker, self.cells, self.classes_)

    def tensors(self) -> dict[str, Array]:
        """Return the arrays that prediction needs, by name."""
        return self.compiled.tensors()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that prediction needs.

        As in the paper, the numbering of the tokens is not counted.
        """
        return sum(array.nbytes for array in self.tensors().values())


def _answer_nothing(tokens: Sequence[Any]) -> int:  # noqa: ARG001
    return -1


def _score_nothing(tokens: Sequence[Any]) -> None:  # noqa: ARG001
    return None


def torch_module(graph: Graph | TreeGraph | NumberGraph, form: QuestionForm) -> TorchPredictor:
    """Return a graph as a torch module."""
    with explain_missing("to_torch needs torch: pip install 'hammemo[torch]'"):
        from hammemo.portable.torch_module import TorchPredictor
    return TorchPredictor(graph, form)


def write_onnx(
    graph: Graph | TreeGraph | NumberGraph, form: QuestionForm, path: str | os.PathLike[str]
) -> None:
    """Write a graph as an ONNX file."""
    with explain_missing("to_onnx needs onnx: pip install 'hammemo[onnx]'"):
        from hammemo.portable.onnx_graph import onnx_model
    Path(path).write_bytes(onnx_model(graph, form).SerializeToString())


def compile_state(
    state: LabelState,
    settings: ModelSettings,
    form: str | None,
    *,
    vocabulary: Vocabulary | None,
    threads: int,
) -> Predictor:
    """Return a predictor of a state, in a compiled form of its memory."""
    memory = state.memory.now()
    compiled = memory.compile(form, vocabulary, threads)
    compiled.forgot_unchecked = memory.forgot_unchecked
    layout = state.layout
    predictor = Predictor(
        compiled,
        state.target_dtype,
        layout.sites,
        state.vote,
        form=QuestionForm(
            state.columns, settings.missing, reads_tables=settings.numeric is not None
        ),
        cutting=state.cutting,
        cells=layout.cells,
    )
    return predictor.prepare()
