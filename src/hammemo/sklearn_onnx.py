"""Pipelines as ONNX graphs: a converter for `skl2onnx`, so that a pipeline that ends in a model exports whole.

After `register`, ``skl2onnx.to_onnx`` and ``convert_sklearn`` know `MemoryClassifier`, `MeMoClassifier` and
`MemoryRegressor`: alone, in a `Pipeline`, after a `ColumnTransformer` or an `OrdinalEncoder`, in a `GridSearchCV`. The
graph gives the labels that `predict` gives, ties included, and probabilities where the vote has them, else scores; of a
regressor, ``variable``, as skl2onnx calls it. What can be exported is in `docs/runtimes.md`.

How tokens come into the graph: strings and integers are looked up in the list of tokens that the model carries
(``LabelEncoder``), floats by a search in it, since 3.0 and 3 are one token. NaN becomes what `missing` makes of it.
ONNX has no missing string: give the token ``"<missing>"`` itself. A hashed memory keeps no list: its graph hashes
integers, any of them, and the option `tokens` lists what else it shall know. A model with numbers takes them
as floats, NaN for missing ones; one with dates has no graph.

>>> import numpy as np
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import OrdinalEncoder
>>> from skl2onnx import to_onnx
>>> from hammemo import MemoryClassifier
>>> from hammemo.sklearn_onnx import register
>>> X = np.array([["red", "hot"], ["blue", "cold"], ["red", "warm"]], object)
>>> codes, model = OrdinalEncoder(dtype=np.int64), MemoryClassifier(numeric="none")  # codes are names
>>> pipeline = make_pipeline(codes, model).fit(X, ["fire", "ice", "fire"])
>>> register()
>>> graph = to_onnx(pipeline, X[:1])
>>> [output.name for output in graph.graph.output]
['label', 'probabilities']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hammemo._lazy import explain_missing
from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.estimators.regressor import MemoryRegressor
from hammemo.paper.memo import MeMoClassifier
from hammemo.portable.building import carried_tokens
from hammemo.portable.graph import Graph, Search
from hammemo.portable.tree_graph import NumberGraph, TreeGraph
from hammemo.tokens.columns import ColumnKind
from hammemo.tokens.missing import MISSING
from hammemo.tokens.vocabulary import Vocabulary

with explain_missing("Pipelines as ONNX graphs need skl2onnx: pip install 'hammemo[onnx]'"):
    from onnx import TensorProto
    from skl2onnx import update_registered_converter
    from skl2onnx.common import data_types as kinds

    from hammemo.portable.onnx_graph import OnnxOperations, OnnxValue, label_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx

    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.estimators.learners import Learner
    from hammemo.votes import Vote

_INTEGERS = (
    kinds.BooleanTensorType,
    *(getattr(kinds, f"{sign}Int{bits}TensorType") for sign in ("", "U") for bits in (8, 16, 32, 64)),
)
_FLOATS = (kinds.FloatTensorType, kinds.DoubleTensorType)
_OPSET = 18  # the first with operators on bits
_LOOK_UP_VERSION = 2  # of ``LabelEncoder``: the latest that skl2onnx writes


def register() -> None:
    """Tell `skl2onnx` how the models of this library are converted; a second call changes nothing.

    The option ``tokens``, a list, says which tokens the graph of a hashed memory shall know:
    ``to_onnx(pipeline, X, options={id(pipeline[-1]): {"tokens": [...]}})``. The option ``zipmap`` is taken and has no
    effect: probabilities are one matrix, labels in the order of `classes_`.
    """
    options = {"tokens": None, "zipmap": [True, False]}
    for model in (MemoryClassifier, MeMoClassifier, MemoryRegressor):
        name = f"Hammemo{model.__name__}"
        update_registered_converter(model, name, _set_types, _convert, parser=_declare, options=options)


def _declare(scope: Any, model: Learner, inputs: list[Any], custom_parsers: Any = None) -> list[Any]:  # noqa: ARG001
    """Declare the two outputs of a classifier, or that of numbers: what `skl2onnx` calls a parser."""
    check_is_fitted(model)
    operator = scope.declare_local_operator(f"Hammemo{type(model).__name__}", model)
    operator.inputs = inputs
    outputs = {"variable": kinds.DoubleTensorType()}
    if not isinstance(model, MemoryRegressor):
        second = "probabilities" if model.vote_.has_probabilities else "scores"
        outputs = {"label": kinds.StringTensorType(), second: kinds.DoubleTensorType()}
    for name, kind in outputs.items():
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return list(operator.outputs)


def _set_types(operator: Any) -> None:
    """Set the types of the outputs: what `skl2onnx` calls a shape calculator."""
    n, model = operator.inputs[0].get_first_dimension(), operator.raw_operator
    if isinstance(model, MemoryRegressor):
        operator.outputs[0].type = kinds.DoubleTensorType([n, 1])
        return
    classes = model.classes_
    strings = label_values(classes).dtype == object
    operator.outputs[0].type = (kinds.StringTensorType if strings else kinds.Int64TensorType)([n])
    operator.outputs[1].type = kinds.DoubleTensorType([n, len(classes)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a model."""
    model: Learner = operator.raw_operator
    if container.target_opset_any_domain("") < _OPSET:
        raise ValueError(f"target_opset={container.target_opset}: a graph of hammemo needs {_OPSET} or more.")
    asked = container.get_options(model).get("tokens")
    if isinstance(model, MemoryRegressor):
        numbers = model.compile().graph(tokens=asked)
        _check_columns(model, operator.inputs)
        ops = _Added(scope, container, numbers.constants)
        ops.rename(_of_numbers(ops, numbers, operator.inputs), operator.outputs[0].full_name)
        return
    predictor, tokens = model.compile(), None if asked is None else Vocabulary.of(asked)
    if asked is None and predictor.cells is None:
        tokens = carried_tokens(predictor.compiled)
    graph = predictor.graph(tokens)
    _check_columns(model, operator.inputs)
    ops = _Added(scope, container, graph.constants)
    if isinstance(graph, TreeGraph):
        scores = _of_numbers(ops, graph, operator.inputs)
    else:
        assert isinstance(graph, Graph)
        parts = [_numbers(ops, given, graph.tokens, predictor.missing, j) for j, given in enumerate(operator.inputs)]
        scores = graph.scores(ops, parts[0] if len(parts) == 1 else ops.joined(parts))
    answers = [ops.winner(scores, graph.classes), _second(ops, scores, predictor.vote, len(graph.classes))]
    for answer, output in zip(answers, operator.outputs, strict=True):
        ops.rename(answer, output.full_name)


def _check_columns(model: Learner, inputs: Sequence[Any]) -> None:
    """Refuse inputs of another number of columns, or with the names of the model's columns in another order.

    Only a graph with one input per column has names to compare: a matrix, or what a step before makes, comes in order.
    """
    columns = model.state.columns
    widths = [one.type.shape[1] for one in inputs]
    if sum(widths) != columns.n:
        raise ValueError(f"The model was fitted on {columns.n} columns; the graph is given {sum(widths)}.")
    learned = columns.listed()
    given = [one.raw_name for one in inputs]
    if learned is None or set(widths) != {1} or not set(given) & set(learned):
        return
    if given != learned:
        raise ValueError(
            f"The inputs of the graph are {given}, and the model was fitted to the columns {learned}: name these, in "
            "this order, in initial_types."
        )


def _of_numbers(ops: _Added, graph: TreeGraph | NumberGraph, inputs: Sequence[Any]) -> OnnxValue:
    """Return the scores of a table with numbers, whose columns come one by one or, all numbers, side by side."""
    parts = [(given, j) for given in inputs for j in range(given.type.shape[1])]
    columns = [(given, ops.given(given.full_name)[:, j]) for given, j in parts]
    values, places = [], []
    for (given, column), kind in zip(columns, graph.rows.kinds, strict=True):
        if isinstance(given.type, kinds.StringTensorType) != (kind == ColumnKind.NAMES):
            wanted = "names, strings" if kind == ColumnKind.NAMES else "numbers"
            raise TypeError(f"{given.raw_name!r} is a {type(given.type).__name__}: this column was learnt as {wanted}.")
        if kind == ColumnKind.NAMES:
            places.append(ops.listed(column, graph.rows.tokens, strings=True))
        else:
            values.append(column.double())
    found: OnnxValue = graph.scores(ops, values, places)
    return found


def _numbers(ops: _Added, given: Any, tokens: Vocabulary | None, missing: str, j: int) -> OnnxValue:
    """Return the columns of one input as the numbers that a graph takes."""
    kind, name = given.type, ops.given(given.full_name)
    if tokens is None:
        if not isinstance(kind, _INTEGERS):
            raise ValueError(
                f"The graph of a hashed memory takes integers, and {given.raw_name!r} is a {type(kind).__name__}: use "
                "OrdinalEncoder(dtype=np.int64), or list the tokens, options={id(model): {'tokens': [...]}}."
            )
        return ops.node("Cast", [name], to=TensorProto.INT64)
    if isinstance(kind, kinds.StringTensorType):
        return ops.listed(name, tokens, strings=True)
    if isinstance(kind, _INTEGERS):
        return ops.listed(ops.node("Cast", [name], to=TensorProto.INT64), tokens, strings=False)
    if isinstance(kind, _FLOATS):
        single = isinstance(kind, kinds.FloatTensorType)
        return _places_of_floats(ops, name.double(), tokens, missing, given.raw_name if single else None, j)
    raise TypeError(f"{given.raw_name!r} is a {type(kind).__name__}: tokens are strings, integers or floats.")


def _places_of_floats(
    ops: _Added, given: OnnxValue, tokens: Vocabulary, missing: str, single: str | None, j: int
) -> OnnxValue:
    """Return the places of floats in a list; `single` names an input of float32, which holds fewer numbers."""
    if single is not None and (tokens.floats != tokens.floats.astype(np.float32)).any():
        raise ValueError(
            f"The model has tokens such as {tokens.floats[0]!r} that float32 does not hold: use DoubleTensorType for "
            f"{single!r}."
        )
    whole = tokens.ints.astype(np.float64)
    exact = _as_integers(whole) == tokens.ints  # others are no float
    keys = np.concatenate([whole[exact], tokens.floats])
    places = np.concatenate([np.flatnonzero(exact), len(whole) + np.arange(len(tokens.floats))])
    found: OnnxValue = Search.of(f"floats.{j}", keys, places, ops.constants).find(ops, given)
    if missing != "token":
        return found  # NaN equals no token
    place = int(tokens.find(Vocabulary.of([MISSING]))[0])
    return ops.where(ops.node("IsNaN", [given]), ops.word(place), found)


def _as_integers(whole: Floats) -> Ints:
    """Return whole floats as integers; 2^63, where the largest integers are rounded to, as one that is no token."""
    return np.where(whole < 2.0**63, whole, -(2.0**63)).astype(np.int64)


def _second(ops: _Added, scores: OnnxValue, vote: Vote, n_labels: int) -> OnnxValue:
    """Return probabilities, where the vote gives them, else scores."""
    if not vote.has_probabilities:
        return ops.node("Identity", [scores])
    found, share = ops.node("Softmax", [scores], axis=1), vote.uniform_share
    if not share:
        return found
    return found * ops.initializer(np.array(1 - share)) + ops.initializer(np.array(share / n_labels))


class _Added(OnnxOperations):
    """Operations whose nodes and tensors go into a container of `skl2onnx`."""

    def __init__(self, scope: Any, container: Any, constants: dict[str, Array]) -> None:
        super().__init__(constants)
        self._scope = scope
        self._container = container

    def add_node(self, operator: str, inputs: list[str], domain: str, **attributes: Any) -> str:
        """Add a node, and return the name of what it makes."""
        made = str(self._scope.get_unique_variable_name("hammemo"))
        kind = {"op_domain": domain, "op_version": _LOOK_UP_VERSION if domain else None, **attributes}
        self._container.add_node(operator, inputs, [made], name=self._scope.get_unique_operator_name(operator), **kind)
        return made

    def add_tensor(self, tensor: onnx.TensorProto) -> str:
        """Add a tensor, and return its name."""
        tensor.name = self._scope.get_unique_variable_name("hammemo")
        self._container.initializers.append(tensor)
        return str(tensor.name)

    def rename(self, made: OnnxValue, name: str) -> None:
        """Give what a node makes another name."""
        self._container.add_node("Identity", [made.name], [name], name=self._scope.get_unique_operator_name("Identity"))
