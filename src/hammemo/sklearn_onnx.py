"""Pipelines as ONNX graphs: a converter for `skl2onnx`.

After `register`, ``skl2onnx.to_onnx`` and ``convert_sklearn`` know `MemoryClassifier`,
`MeMoClassifier` and `MemoryRegressor`: alone, in a `Pipeline`, after a `ColumnTransformer` or an
`OrdinalEncoder`, in a `GridSearchCV`. The graph gives the labels that `predict` gives, ties
included, and probabilities where the vote has them, else scores; of a regressor, ``variable``, as
skl2onnx calls it. What can be exported is in `docs/runtimes.md`.

How tokens come into the graph: strings and integers are looked up in the list of tokens that the
model carries (``LabelEncoder``), floats by a search in it, since 3.0 and 3 are one token. NaN
becomes what `missing` makes of it. ONNX has no missing string: give the token ``"<missing>"``
itself. A hashed memory keeps no list: its graph hashes integers, any of them, and the option
`tokens` lists what else it shall know. A model with numbers takes them as floats, NaN for missing
ones; one with dates has no graph.

>>> import numpy as np
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import OrdinalEncoder
>>> from skl2onnx import to_onnx
>>> from hammemo import MemoryClassifier
>>> from hammemo.sklearn_onnx import register
>>> X = np.array([["red", "hot"], ["blue", "cold"], ["red", "warm"]], object)
>>> codes = OrdinalEncoder(dtype=np.int64)
>>> model = MemoryClassifier(numeric="none")  # codes are names
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
from hammemo.portable.building import list_tokens
from hammemo.portable.graph import Graph, Search
from hammemo.portable.tree_graph import NumberGraph, TreeGraph
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
    kinds.Int8TensorType,
    kinds.Int16TensorType,
    kinds.Int32TensorType,
    kinds.Int64TensorType,
    kinds.UInt8TensorType,
    kinds.UInt16TensorType,
    kinds.UInt32TensorType,
    kinds.UInt64TensorType,
)
_FLOATS = (kinds.FloatTensorType, kinds.DoubleTensorType)

_OPSET = 18
"""The first with operators on bits."""

_LOOK_UP_VERSION = 2
"""Of ``LabelEncoder``: the latest that skl2onnx writes."""


def register() -> None:
    """Tell `skl2onnx` how the models of this library are converted; a second call changes nothing.

    The option ``tokens``, a list, says which tokens the graph of a hashed memory shall know:
    ``to_onnx(pipeline, X, options={id(pipeline[-1]): {"tokens": [...]}})``. The option ``zipmap``
    is taken and has no effect: probabilities are one matrix, labels in the order of `classes_`.
    """
    options = {"tokens": None, "zipmap": [True, False]}
    for classifier in (MemoryClassifier, MeMoClassifier):
        update_registered_converter(
            classifier,
            f"Hammemo{classifier.__name__}",
            _set_label_types,
            _convert_classifier,
            parser=_declare_label_outputs,
            options=options,
        )
    update_registered_converter(
        MemoryRegressor,
        f"Hammemo{MemoryRegressor.__name__}",
        _set_number_type,
        _convert_regressor,
        parser=_declare_number_output,
        options=options,
    )


def _declare_label_outputs(
    scope: Any,
    model: MemoryClassifier,
    inputs: list[Any],
    custom_parsers: Any = None,  # noqa: ARG001
) -> list[Any]:
    """Declare the two outputs of a classifier. This is what `skl2onnx` calls a parser."""
    check_is_fitted(model)
    second = "probabilities" if model.vote_.has_probabilities else "scores"
    outputs = {"label": kinds.StringTensorType(), second: kinds.DoubleTensorType()}
    return _declare_operator(scope, model, inputs, outputs)


def _declare_number_output(
    scope: Any,
    model: MemoryRegressor,
    inputs: list[Any],
    custom_parsers: Any = None,  # noqa: ARG001
) -> list[Any]:
    """Declare the output of a regressor. This is what `skl2onnx` calls a parser."""
    check_is_fitted(model)
    return _declare_operator(scope, model, inputs, {"variable": kinds.DoubleTensorType()})


def _declare_operator(
    scope: Any,
    model: Learner,
    inputs: list[Any],
    outputs: dict[str, Any],
) -> list[Any]:
    """Declare a model with the outputs of these names and types; return the outputs."""
    operator = scope.declare_local_operator(f"Hammemo{type(model).__name__}", model)
    operator.inputs = inputs
    for name, kind in outputs.items():
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return list(operator.outputs)


def _set_number_type(operator: Any) -> None:
    """Set the type of the output of a regressor.

    This is what `skl2onnx` calls a shape calculator.
    """
    n = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = kinds.DoubleTensorType([n, 1])


def _set_label_types(operator: Any) -> None:
    """Set the types of the outputs of a classifier; a shape calculator, too."""
    n = operator.inputs[0].get_first_dimension()
    classes = operator.raw_operator.classes_
    has_strings = label_values(classes).dtype == object
    if has_strings:
        label_type = kinds.StringTensorType
    else:
        label_type = kinds.Int64TensorType
    operator.outputs[0].type = label_type([n])
    operator.outputs[1].type = kinds.DoubleTensorType([n, len(classes)])


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a classifier."""
    model: MemoryClassifier = operator.raw_operator
    tokens = _read_tokens(container, model)
    predictor = model.compile()
    if tokens is not None:
        tokens = Vocabulary.of(tokens)
    elif predictor.cells is None:
        tokens = list_tokens(predictor.compiled)
    graph = predictor.graph(tokens)
    _check_columns(model, operator.inputs)
    ops = _ContainerOperations(scope, container, graph.constants)
    if isinstance(graph, TreeGraph):
        scores = _add_row_scores(ops, graph, operator.inputs)
    else:
        assert isinstance(graph, Graph)
        scores = _add_token_scores(ops, graph, operator.inputs, predictor.missing)
    second = _add_probabilities(ops, scores, predictor.vote, len(graph.classes))
    label, score = operator.outputs
    ops.rename(ops.winner(scores, graph.classes), label.full_name)
    ops.rename(second, score.full_name)


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a regressor."""
    model: MemoryRegressor = operator.raw_operator
    graph = model.compile().graph(tokens=_read_tokens(container, model))
    _check_columns(model, operator.inputs)
    ops = _ContainerOperations(scope, container, graph.constants)
    (number,) = operator.outputs
    ops.rename(_add_row_scores(ops, graph, operator.inputs), number.full_name)


def _read_tokens(container: Any, model: Learner) -> Any:
    """Return the option `tokens`, or refuse a graph of too old operators."""
    if container.target_opset_any_domain("") < _OPSET:
        problem = f"target_opset={container.target_opset}"
        raise ValueError(f"{problem}: a graph of hammemo needs {_OPSET} or more.")
    return container.get_options(model).get("tokens")


def _check_columns(model: Learner, inputs: Sequence[Any]) -> None:
    """Refuse inputs of another number of columns, or with the model's columns in another order.

    Only a graph with one input per column has names to compare: a matrix, or what an earlier step
    makes, comes in order.
    """
    columns = model.state.columns
    widths = [graph_input.type.shape[1] for graph_input in inputs]
    if sum(widths) != columns.n:
        fitted = f"The model was fitted on {columns.n} columns"
        raise ValueError(f"{fitted}; the graph is given {sum(widths)}.")
    learned_names = columns.list_names()
    names = [graph_input.raw_name for graph_input in inputs]
    if learned_names is None or set(widths) != {1} or not set(names) & set(learned_names):
        return
    if names != learned_names:
        raise ValueError(
            f"The inputs of the graph are {names}, and the model was fitted to the columns "
            f"{learned_names}: name these, in this order, in initial_types."
        )


def _add_row_scores(
    ops: _ContainerOperations,
    graph: TreeGraph | NumberGraph,
    inputs: Sequence[Any],
) -> OnnxValue:
    """Return the scores of a table with numbers.

    Its columns come one by one or, if all are numbers, side by side.
    """
    columns = []
    for graph_input in inputs:
        matrix = ops.read_input(graph_input.full_name)
        columns += [(graph_input, matrix[:, j]) for j in range(graph_input.type.shape[1])]
    values = []
    places = []
    for (graph_input, column), kind in zip(columns, graph.rows.kinds, strict=True):
        is_name = not kind.is_ordered
        if isinstance(graph_input.type, kinds.StringTensorType) != is_name:
            type_name = type(graph_input.type).__name__
            learned_kind = "names, strings" if is_name else "numbers"
            problem = f"{graph_input.raw_name!r} is a {type_name}"
            raise TypeError(f"{problem}: this column was learnt as {learned_kind}.")
        if is_name:
            places.append(ops.look_up(column, graph.rows.tokens, strings=True))
        else:
            values.append(column.double())
    scores: OnnxValue = graph.scores(ops, values, places)
    return scores


def _add_token_scores(
    ops: _ContainerOperations,
    graph: Graph,
    inputs: Sequence[Any],
    missing: str,
) -> OnnxValue:
    """Return the scores of rows of tokens."""
    columns = []
    for j, graph_input in enumerate(inputs):
        if graph.tokens is None:
            columns.append(_read_integers(ops, graph_input))
        else:
            columns.append(_look_up_tokens(ops, graph_input, graph.tokens, missing, place=j))
    if len(columns) == 1:
        numbers = columns[0]
    else:
        numbers = ops.join(columns)
    scores: OnnxValue = graph.scores(ops, numbers)
    return scores


def _read_integers(ops: _ContainerOperations, graph_input: Any) -> OnnxValue:
    """Return the columns of one input for a graph that hashes integers."""
    kind = graph_input.type
    if not isinstance(kind, _INTEGERS):
        type_name = type(kind).__name__
        raise ValueError(
            "The graph of a hashed memory takes integers, "
            f"and {graph_input.raw_name!r} is a {type_name}: use OrdinalEncoder(dtype=np.int64), "
            "or list the tokens, options={id(model): {'tokens': [...]}}."
        )
    return ops.node("Cast", [ops.read_input(graph_input.full_name)], to=TensorProto.INT64)


def _look_up_tokens(
    ops: _ContainerOperations,
    graph_input: Any,
    tokens: Vocabulary,
    missing: str,
    *,
    place: int,
) -> OnnxValue:
    """Return the columns of one input as places in a list of tokens."""
    kind = graph_input.type
    values = ops.read_input(graph_input.full_name)
    if isinstance(kind, kinds.StringTensorType):
        return ops.look_up(values, tokens, strings=True)
    if isinstance(kind, _INTEGERS):
        words = ops.node("Cast", [values], to=TensorProto.INT64)
        return ops.look_up(words, tokens, strings=False)
    if isinstance(kind, _FLOATS):
        if isinstance(kind, kinds.FloatTensorType):
            _check_single_precision(tokens, graph_input.raw_name)
        return _look_up_floats(ops, values.double(), tokens, missing, place=place)
    type_name = type(kind).__name__
    problem = f"{graph_input.raw_name!r} is a {type_name}"
    raise TypeError(f"{problem}: tokens are strings, integers or floats.")


def _check_single_precision(tokens: Vocabulary, name: str) -> None:
    """Refuse an input of float32 where tokens are numbers that it does not hold."""
    if (tokens.floats != tokens.floats.astype(np.float32)).any():
        raise ValueError(
            f"The model has tokens such as {tokens.floats[0]!r} that float32 does not hold: "
            f"use DoubleTensorType for {name!r}."
        )


def _look_up_floats(
    ops: _ContainerOperations,
    values: OnnxValue,
    tokens: Vocabulary,
    missing: str,
    *,
    place: int,
) -> OnnxValue:
    """Return the places of floats in a list of tokens, whose whole numbers are integers."""
    whole_numbers = tokens.ints.astype(np.float64)
    is_exact = _as_integers(whole_numbers) == tokens.ints  # no float equals the others
    keys = np.concatenate([whole_numbers[is_exact], tokens.floats])
    float_places = len(whole_numbers) + np.arange(len(tokens.floats))
    places = np.concatenate([np.flatnonzero(is_exact), float_places])
    search = Search.of(f"floats.{place}", keys, places, ops.constants)
    token_places: OnnxValue = search.find(ops, values)
    if missing != "token":
        return token_places  # NaN equals no token
    missing_place = int(tokens.find(Vocabulary.of([MISSING]))[0])
    return ops.where(ops.node("IsNaN", [values]), ops.word(missing_place), token_places)


def _as_integers(whole_numbers: Floats) -> Ints:
    """Return whole floats as integers.

    The largest integers are rounded to 2^63, which becomes an integer that is no token.
    """
    return np.where(whole_numbers < 2.0**63, whole_numbers, -(2.0**63)).astype(np.int64)


def _add_probabilities(
    ops: _ContainerOperations,
    scores: OnnxValue,
    vote: Vote,
    n_labels: int,
) -> OnnxValue:
    """Return probabilities, where the vote gives them, else scores."""
    if not vote.has_probabilities:
        return ops.node("Identity", [scores])
    probabilities = ops.node("Softmax", [scores], axis=1)
    share = vote.uniform_share
    if not share:
        return probabilities
    uniform = ops.initializer(np.array(share / n_labels))
    return probabilities * ops.initializer(np.array(1 - share)) + uniform


class _ContainerOperations(OnnxOperations):
    """Operations whose nodes and tensors go into a container of `skl2onnx`."""

    def __init__(self, scope: Any, container: Any, constants: dict[str, Array]) -> None:
        super().__init__(constants)
        self._scope = scope
        self._container = container

    def add_node(self, operator: str, inputs: list[str], domain: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        output = str(self._scope.get_unique_variable_name("hammemo"))
        self._container.add_node(
            operator,
            inputs,
            [output],
            name=self._scope.get_unique_operator_name(operator),
            op_domain=domain,
            op_version=_LOOK_UP_VERSION if domain else None,
            **attributes,
        )
        return output

    def add_tensor(self, tensor: onnx.TensorProto) -> str:
        """Add a tensor, and return its name."""
        tensor.name = self._scope.get_unique_variable_name("hammemo")
        self._container.initializers.append(tensor)
        return str(tensor.name)

    def rename(self, value: OnnxValue, name: str) -> None:
        """Give the output of a node another name."""
        node_name = self._scope.get_unique_operator_name("Identity")
        self._container.add_node("Identity", [value.name], [name], name=node_name)
