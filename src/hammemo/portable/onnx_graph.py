"""A predictor as an ONNX graph of standard operators, for ONNX Runtime and others.

Unsigned shifts are made on unsigned words, all other arithmetic on signed ones, which have the same
bits; a search in a sorted list is unrolled: ONNX has no operator for it. A list of tokens is looked
up by ``LabelEncoder``, so that the graph of strings takes strings. The outputs are ``label`` and
``scores`` or, of a model of numbers, ``prediction`` and ``quantiles``. The names of the columns are
in the metadata of the file, under `COLUMNS_ENTRY`.
"""

# ruff: noqa: D102  (`Operations` says what the operations are)

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from hammemo.portable.graph import Graph
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.types import Array
    from hammemo.portable.tree_graph import NumberGraph, TreeGraph
    from hammemo.tokens.questions import QuestionForm
    from hammemo.tokens.vocabulary import Vocabulary

_OPSET = 18
"""The first with operators on bits."""

_ML_OPSET = 4
"""The first with look-ups by tensors."""

_MAX_FILE_BYTES = 2**31 - 1
"""What one file of protocol buffers can hold."""

MISSING_TEXTS: Final = ("None", "nan", "<NA>")
"""What ONNX Runtime makes of None, NaN and pandas' NA in an array of strings, without a word.

A graph reads these texts as missing values, unless the model knows names that are spelled so.
"""

COLUMNS_ENTRY: Final = "hammemo.columns"
"""The entry of the metadata that says which columns each input has, in order.

It is a JSON mapping from inputs to lists of names, and left out without names.
"""


class _Output(NamedTuple):
    """An output of a graph."""

    name: str
    value: OnnxValue
    kind: int
    """Its type, as ``TensorProto`` numbers them."""
    shape: list[Any]


def onnx_model(graph: Graph | TreeGraph | NumberGraph, form: QuestionForm) -> onnx.ModelProto:
    """Return the model, checked."""
    ops = OnnxOperations(graph.constants)
    if isinstance(graph, Graph):
        inputs, scores = _add_token_scores(graph, ops)
    else:
        inputs, scores = _add_row_scores(graph, ops)
    if graph.classes is None:
        new_outputs = _add_number_outputs(graph.n_levels, ops, scores)
    else:
        new_outputs = _add_label_outputs(graph.classes, ops, scores)
    outputs = []
    for output in new_outputs:
        ops.nodes.append(helper.make_node("Identity", [output.value.name], [output.name]))
        outputs.append(helper.make_tensor_value_info(output.name, output.kind, output.shape))
    onnx_graph = helper.make_graph(ops.nodes, "hammemo", inputs, outputs, ops.initializers)
    model = helper.make_model(
        onnx_graph,
        opset_imports=[
            helper.make_opsetid("", _OPSET),
            helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ],
        producer_name="hammemo",
        ir_version=9,
    )
    names = form.columns.list_names()
    if names is not None:
        columns = json.dumps(_list_input_columns(graph, names))
        helper.set_model_props(model, {COLUMNS_ENTRY: columns})
    if model.ByteSize() > _MAX_FILE_BYTES:
        raise ValueError(
            f"The graph has {model.ByteSize():,} bytes, more than an ONNX file can hold (2 GiB): "
            "use fewer buckets."
        )
    onnx.checker.check_model(model)
    return model


def _list_input_columns(
    graph: Graph | TreeGraph | NumberGraph, names: list[str]
) -> dict[str, list[str]]:
    """Return the names of the columns of each input, in order."""
    if isinstance(graph, Graph):
        return {"tokens": names}
    columns: dict[str, list[str]] = {}
    for name, kind in zip(names, graph.rows.kinds, strict=True):
        input_name = "numbers" if kind.is_ordered else "names"
        columns.setdefault(input_name, []).append(name)
    return columns


def _add_token_scores(
    graph: Graph, ops: OnnxOperations
) -> tuple[list[onnx.ValueInfoProto], OnnxValue]:
    """Return the input ``tokens``, and the scores."""
    tokens = graph.tokens
    numbers = ops.read_input("tokens")
    reads_strings = False
    if tokens is not None:
        reads_strings = _reads_strings(graph, tokens)
        if len(tokens.floats) or (reads_strings and len(tokens.ints)):
            raise ValueError(
                "An ONNX graph takes tokens of one kind, strings or integers: "
                "convert the others before fit."
            )
        numbers = ops.look_up(numbers, tokens, strings=reads_strings)
    scores = graph.scores(ops, numbers)
    kind = TensorProto.STRING if reads_strings else TensorProto.INT64
    return [helper.make_tensor_value_info("tokens", kind, ["n", graph.h])], scores


def _reads_strings(graph: Graph, tokens: Vocabulary) -> bool:
    """Return whether the graph's input are strings."""
    is_list_of_integers = len(tokens.ints) and tokens.strings.tolist() == [MISSING]
    if is_list_of_integers and not graph.knows_all:
        return False  # an input of integers has no way to say that one is missing
    return len(tokens.strings) > 0


def _add_row_scores(
    graph: TreeGraph | NumberGraph, ops: OnnxOperations
) -> tuple[list[onnx.ValueInfoProto], OnnxValue]:
    """Return the inputs ``numbers`` and ``names``, whichever there are, and the scores."""
    n_names = graph.rows.kinds.count(ColumnKind.NAMES)
    n_numbers = len(graph.rows.kinds) - n_names
    values = [ops.read_input("numbers")[:, j] for j in range(n_numbers)]
    names = [ops.read_input("names")[:, j] for j in range(n_names)]
    places = [ops.look_up(name, graph.rows.tokens, strings=True) for name in names]
    scores = graph.scores(ops, values, places)
    inputs = []
    for name, kind, n in (
        ("numbers", TensorProto.DOUBLE, n_numbers),
        ("names", TensorProto.STRING, n_names),
    ):
        if n:
            inputs.append(helper.make_tensor_value_info(name, kind, ["n", n]))
    return inputs, scores


def _add_label_outputs(classes: Array, ops: OnnxOperations, scores: OnnxValue) -> list[_Output]:
    """Return the outputs ``label`` and ``scores``, their nodes added to the graph."""
    has_strings = label_values(classes).dtype == object
    label_kind = TensorProto.STRING if has_strings else TensorProto.INT64
    return [
        _Output("label", ops.winner(scores, classes), label_kind, ["n"]),
        _Output("scores", scores, TensorProto.DOUBLE, ["n", len(classes)]),
    ]


def _add_number_outputs(n_levels: int, ops: OnnxOperations, scores: OnnxValue) -> list[_Output]:
    """Return the outputs ``prediction`` and, where levels were asked for, ``quantiles``."""
    outputs = [_Output("prediction", scores[:, 0], TensorProto.DOUBLE, ["n"])]
    if n_levels:
        columns = ops.initializer(np.arange(1, n_levels + 1))
        quantiles = ops.node("Gather", [scores, columns], axis=1)
        outputs.append(_Output("quantiles", quantiles, TensorProto.DOUBLE, ["n", n_levels]))
    return outputs


def label_values(classes: Array) -> Array:
    """Return labels as ONNX has them: 64-bit integers, or strings."""
    if classes.dtype.kind in "iub":
        return classes.astype(np.int64)
    return np.array([str(label) for label in classes.tolist()], object)


def _check_text(tokens: list[str]) -> None:
    """Refuse strings that are no Unicode text, such as half of a pair of surrogates."""
    for token in tokens:
        try:
            token.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"The token {token!r} is no Unicode text, and an ONNX graph holds no other: "
                "replace it before fit, or list the tokens without it."
            ) from None


def _make_operator(name: str) -> Callable[[OnnxValue, OnnxValue | int], OnnxValue]:
    return lambda value, other: value.ops.node(name, [value, other])


class OnnxValue:
    """The output of a node; Python's operators add the nodes that compute theirs."""

    def __init__(self, ops: OnnxOperations, name: str) -> None:
        self.ops = ops
        self.name = name

    __add__, __sub__, __mul__, __truediv__ = map(_make_operator, ("Add", "Sub", "Mul", "Div"))
    __xor__, __or__, __and__ = map(_make_operator, ("BitwiseXor", "BitwiseOr", "And"))
    __lt__, __gt__, __matmul__ = map(_make_operator, ("Less", "Greater", "MatMul"))

    def __getitem__(self, index: OnnxValue | tuple[slice, int]) -> OnnxValue:
        """Return the rows with these numbers, or one column."""
        if isinstance(index, tuple):
            return self.ops.node("Gather", [self, index[1]], axis=1)
        return self.ops.node("Gather", [self, index], axis=0)

    def double(self) -> OnnxValue:
        return self.ops.node("Cast", [self], to=TensorProto.DOUBLE)


class OnnxOperations:
    """The `Operations` of :mod:`hammemo.portable.graph`: each adds nodes and returns a value."""

    def __init__(self, constants: dict[str, Array]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.constants = constants
        self._named: dict[Any, str] = {}

    def read_input(self, name: str) -> OnnxValue:
        """Return an input of the graph."""
        return OnnxValue(self, name)

    def node(
        self,
        operator: str,
        inputs: Sequence[OnnxValue | int],
        domain: str = "",
        **attributes: Any,
    ) -> OnnxValue:
        """Add a node, and return its output; a whole number among its inputs is a word."""
        names = [(self.word(value) if isinstance(value, int) else value).name for value in inputs]
        return OnnxValue(self, self.add_node(operator, names, domain, **attributes))

    def add_node(self, operator: str, inputs: list[str], domain: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(operator, inputs, [name], domain=domain or None, **attributes)
        )
        return name

    def initializer(self, array: Array, key: Any = None) -> OnnxValue:
        """Return an array; one with a key is added once."""
        name = self._named.get(key)
        if name is None:
            if array.ndim:  # `ascontiguousarray` would give a number a dimension
                array = np.ascontiguousarray(array)
            name = self.add_tensor(numpy_helper.from_array(array))
        if key is not None:
            self._named[key] = name
        return OnnxValue(self, name)

    def add_tensor(self, tensor: onnx.TensorProto) -> str:
        """Add a tensor, and return its name."""
        tensor.name = f"c{len(self.initializers)}"
        self.initializers.append(tensor)
        return str(tensor.name)

    def look_up(self, values: OnnxValue, tokens: Vocabulary, *, strings: bool) -> OnnxValue:
        """Return the places of values in a list of tokens, -1 where it has none.

        The values are all strings, or all integers.
        """
        keys: list[Any]
        if strings:
            attribute = "keys_strings"
            keys = tokens.strings.tolist()
            first = len(tokens) - len(keys)  # strings are the last tokens of a vocabulary
            _check_text(keys)
        else:
            attribute = "keys_int64s"
            keys = tokens.ints.tolist()
            first = 0
        if not keys:  # the operator needs one
            keys = [""] if strings else [0]
            first = -1
        places = list(range(first, first + len(keys)))
        if strings and MISSING in keys:
            place = places[keys.index(MISSING)]
            texts = [text for text in MISSING_TEXTS if text not in keys]
            keys += texts
            places += [place] * len(texts)
        return self.node(
            "LabelEncoder",
            [values],
            "ai.onnx.ml",
            **{attribute: keys},
            values_int64s=places,
            default_int64=-1,
        )

    def winner(self, scores: OnnxValue, classes: Array) -> OnnxValue:
        """Return the label with the highest score, the first one among equals."""
        column = self.node("ArgMax", [scores], axis=1, keepdims=0, select_last_index=0)
        return self.node("Gather", [self.initializer(label_values(classes)), column], axis=0)

    def constant(self, name: str) -> OnnxValue:
        return self.initializer(self.constants[name], name)

    def word(self, value: int) -> OnnxValue:
        return self.initializer(np.array(value, np.int64), ("word", value))

    def shift(self, a: OnnxValue, bits: int) -> OnnxValue:
        unsigned = self.node("Cast", [a], to=TensorProto.UINT64)
        amount = self.initializer(np.array(bits, np.uint64), ("bits", bits))
        shifted = self.node("BitShift", [unsigned, amount], direction="RIGHT")
        return self.node("Cast", [shifted], to=TensorProto.INT64)

    def equal(self, a: OnnxValue, b: OnnxValue) -> OnnxValue:
        return self.node("Equal", [a, b])

    def where(self, condition: OnnxValue, a: OnnxValue, b: OnnxValue | int) -> OnnxValue:
        return self.node("Where", [condition, a, b])

    def search(self, ascending: OnnxValue, n: int, words: OnnxValue) -> OnnxValue:
        """Return the places by halving steps.

        The answer is at least `place`, and less than `place` plus the step.
        """
        place = self.node("Cast", [words < words], to=TensorProto.INT64)  # zeros, one for each
        step = 1 << max(n - 1, 0).bit_length()
        while step > 1:
            step //= 2
            ahead = self.node("Min", [place + step, n])
            place = self.where(ascending[ahead + -1] < words, ahead, place)
        return self.node("Min", [place, n - 1])

    def join(self, matrices: Sequence[OnnxValue]) -> OnnxValue:
        return self.node("Concat", list(matrices), axis=1)

    def stack(self, columns: Sequence[OnnxValue]) -> OnnxValue:
        axis = self.initializer(np.array([1]), "second axis")
        return self.join([self.node("Unsqueeze", [column, axis]) for column in columns])

    def pick(self, matrix: OnnxValue, columns: OnnxValue) -> OnnxValue:
        return self.node("GatherElements", [matrix, columns], axis=1)
