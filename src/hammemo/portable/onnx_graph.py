"""A predictor as an ONNX graph of standard operators, for ONNX Runtime and others.

Unsigned shifts are made on unsigned words, all other arithmetic on signed ones, which have the same bits; a search in a
sorted list is unrolled: ONNX has no operator for it. A list of tokens is looked up by ``LabelEncoder``, so that
the graph of strings takes strings. The outputs are ``label`` and ``scores`` or, of a model of numbers, ``prediction``
and ``quantiles``. The names of the columns are in the metadata of the file, under `COLUMNS_ENTRY`.
"""

# ruff: noqa: D102  (`Operations` says what the operations are)

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from hammemo.portable.graph import Graph
from hammemo.portable.tree_graph import NumberGraph, TreeGraph
from hammemo.tokens.columns import ColumnKind
from hammemo.tokens.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.types import Array
    from hammemo.tokens.questions import QuestionForm
    from hammemo.tokens.vocabulary import Vocabulary

_OPSET, _ML_OPSET = 18, 4  # the first with operators on bits, and with look-ups by tensors
_MAX_FILE_BYTES = 2**31 - 1  # what one file of protocol buffers can hold


_Output: TypeAlias = "tuple[str, OnnxValue, int, list[Any]]"
"""The name, the value, the type and the shape of an output."""


MISSING_TEXTS: Final = ("None", "nan", "<NA>")
"""What ONNX Runtime makes of None, NaN and pandas' NA in an array of strings, without a word. A graph reads these texts
as missing values, unless the model knows names that are spelled so."""

COLUMNS_ENTRY: Final = "hammemo.columns"
"""Which columns each input has, in order: a JSON mapping from inputs to lists of names. Left out without names."""


def onnx_model(graph: Graph | TreeGraph | NumberGraph, form: QuestionForm) -> onnx.ModelProto:
    """Return the model, checked."""
    ops = OnnxOperations(graph.constants)
    inputs, scores = _token_scores(graph, ops) if isinstance(graph, Graph) else _row_scores(graph, ops)
    outputs = []
    for name, made, kind, shape in _outputs(graph, ops, scores):
        ops.nodes.append(helper.make_node("Identity", [made.name], [name]))
        outputs.append(helper.make_tensor_value_info(name, kind, shape))
    made = helper.make_graph(ops.nodes, "hammemo", inputs, outputs, ops.initializers)
    imports = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
    model = helper.make_model(made, opset_imports=imports, producer_name="hammemo", ir_version=9)
    names = form.columns.listed()
    if names is not None:
        helper.set_model_props(model, {COLUMNS_ENTRY: json.dumps(_list_input_columns(graph, names))})
    if model.ByteSize() > _MAX_FILE_BYTES:
        raise ValueError(
            f"The graph has {model.ByteSize():,} bytes, more than an ONNX file can hold (2 GiB): use fewer buckets."
        )
    onnx.checker.check_model(model)
    return model


def _list_input_columns(graph: Graph | TreeGraph | NumberGraph, names: list[str]) -> dict[str, list[str]]:
    """Return the names of the columns of each input, in order."""
    if isinstance(graph, Graph):
        return {"tokens": names}
    columns: dict[str, list[str]] = {}
    for name, kind in zip(names, graph.rows.kinds, strict=True):
        columns.setdefault("names" if kind == ColumnKind.NAMES else "numbers", []).append(name)
    return columns


def _token_scores(graph: Graph, ops: OnnxOperations) -> tuple[list[onnx.ValueInfoProto], OnnxValue]:
    """Return the input ``tokens``, and the scores."""
    tokens = graph.tokens
    strings = tokens is not None and len(tokens.strings) > 0
    if tokens is not None and len(tokens.ints) and not graph.knows_all and tokens.strings.tolist() == [MISSING]:
        strings = False  # a list of integers was given: an input of integers has no way to say that one is missing
    if tokens is not None and (len(tokens.floats) or (strings and len(tokens.ints))):
        raise ValueError("An ONNX graph takes tokens of one kind, strings or integers: convert the others before fit.")
    given = ops.given("tokens")
    scores = graph.scores(ops, given if tokens is None else ops.listed(given, tokens, strings=strings))
    kind = TensorProto.STRING if strings else TensorProto.INT64
    return [helper.make_tensor_value_info("tokens", kind, ["n", graph.h])], scores


def _row_scores(graph: TreeGraph | NumberGraph, ops: OnnxOperations) -> tuple[list[onnx.ValueInfoProto], OnnxValue]:
    """Return the inputs ``numbers`` and ``names``, whichever there are, and the scores."""
    n_names = graph.rows.kinds.count(ColumnKind.NAMES)
    n_numbers = len(graph.rows.kinds) - n_names
    values = [ops.given("numbers")[:, j] for j in range(n_numbers)]
    names = [ops.given("names")[:, j] for j in range(n_names)]
    scores = graph.scores(ops, values, [ops.listed(name, graph.rows.tokens, strings=True) for name in names])
    every = (("numbers", TensorProto.DOUBLE, n_numbers), ("names", TensorProto.STRING, n_names))
    return [helper.make_tensor_value_info(name, kind, ["n", n]) for name, kind, n in every if n], scores


def _outputs(graph: Graph | TreeGraph | NumberGraph, ops: OnnxOperations, scores: OnnxValue) -> list[_Output]:
    """Return the name, the node, the type and the shape of each output."""
    if graph.classes is not None:
        kind = TensorProto.STRING if label_values(graph.classes).dtype == object else TensorProto.INT64
        label = ("label", ops.winner(scores, graph.classes), kind, ["n"])
        return [label, ("scores", scores, TensorProto.DOUBLE, ["n", len(graph.classes)])]
    assert isinstance(graph, NumberGraph)
    found: list[_Output] = [("prediction", scores[:, 0], TensorProto.DOUBLE, ["n"])]
    if graph.n_levels:
        quantiles = ops.node("Gather", [scores, ops.initializer(np.arange(1, graph.n_levels + 1))], axis=1)
        found.append(("quantiles", quantiles, TensorProto.DOUBLE, ["n", graph.n_levels]))
    return found


def label_values(classes: Array) -> Array:
    """Return labels as ONNX has them: 64-bit integers, or strings."""
    if classes.dtype.kind in "iub":
        return classes.astype(np.int64)
    return np.array([str(label) for label in classes.tolist()], object)


def _check_text(tokens: list[str]) -> None:
    """Refuse strings that are no Unicode text, such as half of a pair of surrogates: ONNX has no place for them."""
    for token in tokens:
        try:
            token.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"The token {token!r} is no Unicode text, and an ONNX graph holds no other: replace it before fit, or "
                "list the tokens without it."
            ) from None


def _operator(name: str) -> Callable[[OnnxValue, OnnxValue | int], OnnxValue]:
    return lambda value, other: value.ops.node(name, [value, other])


class OnnxValue:
    """What a node makes; an operator of Python adds the node that computes it."""

    def __init__(self, ops: OnnxOperations, name: str) -> None:
        self.ops, self.name = ops, name

    __add__, __sub__, __mul__, __truediv__ = map(_operator, ("Add", "Sub", "Mul", "Div"))
    __xor__, __or__, __and__ = map(_operator, ("BitwiseXor", "BitwiseOr", "And"))
    __lt__, __gt__, __matmul__ = map(_operator, ("Less", "Greater", "MatMul"))

    def __getitem__(self, index: OnnxValue | tuple[slice, int]) -> OnnxValue:
        """Return the rows with these numbers, or one column."""
        if isinstance(index, tuple):
            return self.ops.node("Gather", [self, index[1]], axis=1)
        return self.ops.node("Gather", [self, index], axis=0)

    def double(self) -> OnnxValue:
        return self.ops.node("Cast", [self], to=TensorProto.DOUBLE)


class OnnxOperations:
    """What :class:`hammemo.portable.graph.Operations` asks for: each operation adds nodes and returns a value."""

    def __init__(self, constants: dict[str, Array]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.constants = constants
        self._named: dict[Any, str] = {}

    def given(self, name: str) -> OnnxValue:
        """Return an input of the graph."""
        return OnnxValue(self, name)

    def node(self, operator: str, inputs: Sequence[OnnxValue | int], domain: str = "", **attributes: Any) -> OnnxValue:
        """Add a node, and return what it makes; a whole number among its inputs is a word."""
        names = [(self.word(one) if isinstance(one, int) else one).name for one in inputs]
        return OnnxValue(self, self.add_node(operator, names, domain, **attributes))

    def add_node(self, operator: str, inputs: list[str], domain: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], domain=domain or None, **attributes))
        return name

    def initializer(self, array: Array, key: Any = None) -> OnnxValue:
        """Return an array; one with a key is added once."""
        name = self._named.get(key)
        if name is None:
            name = self.add_tensor(numpy_helper.from_array(np.ascontiguousarray(array) if array.ndim else array))
        if key is not None:
            self._named[key] = name
        return OnnxValue(self, name)

    def add_tensor(self, tensor: onnx.TensorProto) -> str:
        """Add a tensor, and return its name."""
        tensor.name = f"c{len(self.initializers)}"
        self.initializers.append(tensor)
        return str(tensor.name)

    def listed(self, given: OnnxValue, tokens: Vocabulary, *, strings: bool) -> OnnxValue:
        """Return the places in a list of given tokens, all of them strings or all integers; -1 where it has none."""
        first = len(tokens) - len(tokens.strings) if strings else 0
        keys = tokens.strings.tolist() if strings else tokens.ints.tolist()
        if not keys:  # the operator needs one
            keys, first = ([""] if strings else [0]), -1
        if strings:
            _check_text(keys)
        places = list(range(first, first + len(keys)))
        if strings and MISSING in keys:
            place = places[keys.index(MISSING)]
            texts = [text for text in MISSING_TEXTS if text not in keys]
            keys += texts
            places += [place] * len(texts)
        named = {"keys_strings" if strings else "keys_int64s": keys}
        return self.node("LabelEncoder", [given], "ai.onnx.ml", **named, values_int64s=places, default_int64=-1)

    def winner(self, scores: OnnxValue, classes: Array) -> OnnxValue:
        """Return the label with the highest score, the first one among equals."""
        column = self.node("ArgMax", [scores], axis=1, keepdims=0, select_last_index=0)
        return self.node("Gather", [self.initializer(label_values(classes)), column], axis=0)

    def constant(self, name: str) -> OnnxValue:
        return self.initializer(self.constants[name], name)

    def word(self, value: int) -> OnnxValue:
        return self.initializer(np.array(value, np.int64), ("word", value))

    def shifted(self, a: OnnxValue, bits: int) -> OnnxValue:
        unsigned = self.node("Cast", [a], to=TensorProto.UINT64)
        amount = self.initializer(np.array(bits, np.uint64), ("bits", bits))
        return self.node("Cast", [self.node("BitShift", [unsigned, amount], direction="RIGHT")], to=TensorProto.INT64)

    def equal(self, a: OnnxValue, b: OnnxValue) -> OnnxValue:
        return self.node("Equal", [a, b])

    def where(self, condition: OnnxValue, a: OnnxValue, b: OnnxValue | int) -> OnnxValue:
        return self.node("Where", [condition, a, b])

    def search(self, ascending: OnnxValue, n: int, words: OnnxValue) -> OnnxValue:
        """Return the places by halving steps: the answer is at least `place`, and less than it plus the step."""
        place = self.node("Cast", [words < words], to=TensorProto.INT64)  # zeros, one for each
        step = 1 << max(n - 1, 0).bit_length()
        while step > 1:
            step //= 2
            ahead = self.node("Min", [place + step, n])
            place = self.where(ascending[ahead + -1] < words, ahead, place)
        return self.node("Min", [place, n - 1])

    def joined(self, parts: Sequence[OnnxValue]) -> OnnxValue:
        return self.node("Concat", list(parts), axis=1)

    def stacked(self, columns: Sequence[OnnxValue]) -> OnnxValue:
        axis = self.initializer(np.array([1]), "second axis")
        return self.joined([self.node("Unsqueeze", [column, axis]) for column in columns])

    def picked(self, matrix: OnnxValue, columns: OnnxValue) -> OnnxValue:
        return self.node("GatherElements", [matrix, columns], axis=1)
