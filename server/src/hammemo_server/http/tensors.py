"""Tensors of the Open Inference Protocol: rows come as tensors, and labels are sent as one.

A request has one tensor of shape (n, h) or (h,), n rows of h values; or several of shape (n,)
or (n, 1), one for each column, so that names and numbers may stand in one row. Columns that the
model has names for are found by these, in whichever order they come. NaN, and null in JSON, is
a missing value.

Triton's client sends a binary form by default, which is translated to the JSON form and back.
There the header ``Inference-Header-Content-Length`` says how many bytes of JSON there are; the
data of the tensors with a ``binary_data_size`` follow, one after another. Numbers are
little-endian, truth values are a byte, a string is its length in four bytes and its UTF-8. NaN
becomes null.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct, structs

from hammemo_server.edits.operations import Malformed, Token
from hammemo_server.http.bodies import Question, decode, encoded
from hammemo_server.http.messages import BYTES, JSON, Answer, Refused, header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo_server.edits.limits import Limits
    from hammemo_server.http.answering import ReadyVersion, Stop
    from hammemo_server.http.messages import Scope

Length = Annotated[int, Meta(ge=0, le=2**31)]
_MAX_INPUTS: Final = 2**16
Datatype = Literal[
    "BYTES",
    "BOOL",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "FP32",
    "FP64",
]


class TensorParameters(Struct, frozen=True):
    """How a tensor is sent, if not in JSON."""

    binary_data_size: Annotated[int, Meta(ge=0, le=2**40)] | None = None


class InputTensor(Struct, frozen=True, forbid_unknown_fields=True):
    """Rows, or a column; nested lists will do, too."""

    name: Annotated[str, Meta(max_length=256)]
    shape: Annotated[list[Length], Meta(min_length=1, max_length=2)]
    datatype: Datatype
    data: list[Token | list[Token]] | None = None
    parameters: TensorParameters | None = None


class OutputParameters(Struct, frozen=True):
    """How an output is wanted."""

    binary_data: bool = False


class RequestedOutput(Struct, frozen=True):
    """Which output is wanted; there is one, ``label``."""

    name: str
    parameters: OutputParameters | None = None


class Parameters(Struct, frozen=True, omit_defaults=True):
    """What else a request says."""

    min_version: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    binary_data_output: bool = False


class InferenceRequest(Struct, frozen=True, omit_defaults=True):
    """One request for labels."""

    inputs: Annotated[list[InputTensor], Meta(min_length=1, max_length=_MAX_INPUTS)]
    id: Annotated[str, Meta(max_length=256)] | None = None
    parameters: Parameters | None = None
    outputs: Annotated[list[RequestedOutput], Meta(max_length=1)] | None = None


class OutputTensor(Struct, frozen=True, omit_defaults=True):
    """The labels."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: TensorParameters | None = None


class InferenceAnswer(Struct, frozen=True, omit_defaults=True):
    """One answer."""

    model_name: str
    model_version: str
    outputs: list[OutputTensor]
    id: str | None = None


LENGTH: Final = b"inference-header-content-length"
_request_decoder: Final = msgspec.json.Decoder(InferenceRequest)
_answer_decoder: Final = msgspec.json.Decoder(InferenceAnswer)
_NUMBERS: Final = {
    **{f"INT{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"<f{bits // 8}") for bits in (32, 64)},
}
_ALLOWED: Final[dict[str, tuple[type, ...]]] = {
    "BYTES": (str, type(None)),
    "BOOL": (bool,),
    **dict.fromkeys(("FP32", "FP64"), (float, int, type(None))),
}
"""The types of entries in JSON; whole numbers have one."""
_OF_LABELS: Final[dict[type, str]] = {str: "BYTES", bool: "BOOL", int: "INT64", float: "FP64"}


def _values(tensor: InputTensor) -> list[Token]:
    """Return the values of a tensor; refuse data that are not as its shape and datatype say."""
    if tensor.data is None:
        raise Malformed(f"The tensor {tensor.name!r} has no data.")
    data: list[Token] = []
    for entry in tensor.data:
        if isinstance(entry, list):
            data.extend(entry)
        else:
            data.append(entry)
    size = tensor.shape[0] * (tensor.shape[1] if len(tensor.shape) == 2 else 1)
    if size != len(data):
        raise Malformed(f"The tensor has {len(data)} entries, not the {size} of its shape.")
    allowed = _ALLOWED.get(tensor.datatype, (int,))
    if any(type(entry) not in allowed for entry in data):
        raise Malformed(f"The tensor has entries that are not of datatype {tensor.datatype}.")
    if float not in allowed:
        return data
    return [float(entry) if type(entry) is int else entry for entry in data]


def rows_of(tensors: Sequence[InputTensor]) -> list[list[Token]]:
    """Return the rows of a tensor, or of one tensor for each column.

    Examples
    --------
    >>> from hammemo_server.http.tensors import InputTensor, rows_of
    >>> rows_of([InputTensor("rows", [2, 2], "BYTES", ["a", "b", "c", "d"])])
    [['a', 'b'], ['c', 'd']]
    >>> colors = InputTensor("color", [2], "BYTES", ["red", "blue"])
    >>> ages = InputTensor("age", [2, 1], "FP64", [3.5, None])
    >>> rows_of([colors, ages])
    [['red', 3.5], ['blue', None]]
    """
    if len(tensors) == 1:
        data = _values(tensors[0])
        shape = tensors[0].shape
        n = shape[0] if len(shape) == 2 else 1
        h = shape[-1]
        if n and not h:
            raise Malformed(
                "The shape has contexts of 0 tokens: a context in a tensor has at least one."
            )
        return [data[start : start + h] for start in range(0, n * h, h)] if h else []
    for tensor in tensors:
        if tensor.shape[0] != tensors[0].shape[0] or tensor.shape[1:] not in ([], [1]):
            raise Malformed(
                f"The tensor {tensor.name!r} has the shape {tensor.shape}: "
                "where there are several, each is a column, "
                f"of shape [{tensors[0].shape[0]}] or [{tensors[0].shape[0]}, 1]."
            )
    return [list(row) for row in zip(*map(_values, tensors), strict=True)]


def tensor_of(labels: list[Any]) -> OutputTensor:
    """Return labels as a tensor; where they are of several kinds, as strings."""
    datatype = datatype_of(labels)
    data = [str(label) for label in labels] if datatype == "BYTES" else labels
    return OutputTensor("label", [len(labels)], datatype, data)


def datatype_of(labels: Sequence[Any]) -> str:
    """Return the datatype of labels; that of strings where they are of several kinds."""
    kinds = {type(label) for label in labels}
    return _OF_LABELS.get(kinds.pop(), "BYTES") if len(kinds) == 1 else "BYTES"


class TensorQuestion(Question, frozen=True):
    """A request as a question, with what its answer repeats."""

    model: str = ""
    id: str | None = None
    columns: tuple[str, ...] = ()
    """The names of the tensors, where each is a column."""


def question_of(request: InferenceRequest, model: str) -> TensorQuestion:
    """Return a request as a question, or refuse it."""
    if request.outputs and request.outputs[0].name != "label":
        raise Malformed("There is one output, label.")
    min_version = request.parameters.min_version if request.parameters else None
    columns = tuple(tensor.name for tensor in request.inputs) if len(request.inputs) > 1 else ()
    return TensorQuestion(
        rows_of(request.inputs), min_version, model=model, id=request.id, columns=columns
    )


def _in_order(question: TensorQuestion, names: tuple[str, ...] | None) -> TensorQuestion:
    """Return a question whose columns stand where the model has them."""
    if names is None or not question.columns or question.columns == names:
        return question
    places = {name: place for place, name in enumerate(question.columns)}
    other = next((name for name in question.columns if name not in names), None)
    if other is not None:
        raise Malformed(f"The tensor {other!r} is not a column of the model.")
    absent = next((name for name in names if name not in places), None)
    if absent is not None or len(places) < len(question.columns):
        if absent is None:
            raise Malformed("A column is there twice.")
        raise Malformed(f"The column {absent!r} has no tensor.")
    order = [places[name] for name in names]
    return structs.replace(
        question, rows=[[row[place] for place in order] for row in question.rows]
    )


def answer_tensors(
    ready: ReadyVersion,
    question: TensorQuestion,
    limits: Limits,  # noqa: ARG001  all kinds of questions are answered by such a function
    stop: Stop,
) -> InferenceAnswer:
    """Return the labels as a tensor."""
    labels = ready.predict(_in_order(question, ready.column_names), stop).labels
    return InferenceAnswer(question.model, str(ready.version), [tensor_of(labels)], question.id)


# The binary form


def json_length(scope: Scope) -> int | None:
    """Return how many bytes of a body are JSON; None where all are."""
    length = header(scope, LENGTH)
    if length is None:
        return None
    if not re.fullmatch(rb"[0-9]{1,18}", length):
        raise Refused(
            400, "bad_request", "The header Inference-Header-Content-Length is not a number."
        )
    return int(length)


def as_json(body: bytes, length: int) -> tuple[bytes, bool]:
    """Return a request in its JSON form, and whether the answer is wanted in the binary form.

    Examples
    --------
    >>> from hammemo_server.http.tensors import as_json
    >>> tensor = b'{"name":"x","shape":[1,1],"datatype":"INT8","parameters":{"binary_data_size":1}}'
    >>> body = b'{"inputs":[' + tensor + b']}'
    >>> as_json(body + bytes([7]), len(body))[0]
    b'{"inputs":[{"name":"x","shape":[1,1],"datatype":"INT8","data":[7],"parameters":null}]}'
    """
    if length > len(body):
        raise Malformed(
            f"The body has {len(body)} bytes, fewer than Inference-Header-Content-Length says."
        )
    request = decode(_request_decoder, body[:length])
    inputs = []
    for tensor in request.inputs:
        size = tensor.parameters.binary_data_size if tensor.parameters else None
        if size is not None:
            data = body[length : length + size]
            length += size
            tensor = structs.replace(tensor, data=_read(tensor, data, size), parameters=None)
        inputs.append(tensor)
    if length != len(body):
        raise Malformed(f"The body has {len(body)} bytes, not the {length} that its tensors say.")
    wants_binary = bool(request.parameters and request.parameters.binary_data_output)
    for output in request.outputs or ():
        wants_binary = bool(output.parameters and output.parameters.binary_data)
    parameters = None
    if request.parameters:
        parameters = structs.replace(request.parameters, binary_data_output=False)
    outputs = None
    if request.outputs:
        outputs = [structs.replace(output, parameters=None) for output in request.outputs]
    plain = structs.replace(request, inputs=inputs, parameters=parameters, outputs=outputs)
    return encoded(plain), wants_binary


def _read(tensor: InputTensor, data: bytes, size: int) -> list[Any]:
    """Return the values of a tensor."""
    if tensor.data is not None or len(data) != size:
        raise Malformed(f"The tensor {tensor.name!r} has data twice, or fewer bytes than it says.")
    if tensor.datatype == "BYTES":
        return _strings(tensor.name, data)
    dtype = _NUMBERS.get(tensor.datatype, np.dtype(np.uint8))  # else BOOL
    if size % dtype.itemsize:
        raise Malformed(
            f"The tensor {tensor.name!r} has {size} bytes, "
            "which is not a whole number of its values."
        )
    values = np.frombuffer(data, dtype)
    if tensor.datatype == "BOOL":
        if (values > 1).any():
            raise Malformed(f"The tensor {tensor.name!r} has a byte that is neither 0 nor 1.")
        values = values.astype(bool)
    elif np.isinf(values).any():  # JSON has no word for it
        raise Malformed(f"The tensor {tensor.name!r} has an infinite number.")
    data_list: list[Any] = values.tolist()
    return data_list


def _strings(name: str, data: bytes) -> list[Any]:
    strings = []
    at = 0
    try:
        while at < len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4], "little")
            if end > len(data) or at + 4 > len(data):
                raise Malformed(f"The tensor {name!r} ends within a string.")
            strings.append(data[at + 4 : end].decode())
            at = end
    except UnicodeDecodeError:
        raise Malformed(f"The tensor {name!r} has a string that is not UTF-8.") from None
    return strings


def as_binary(answer: Answer) -> Answer:
    """Return an answer in the binary form."""
    inference = _answer_decoder.decode(answer.body)
    outputs = []
    data = b""
    for output in inference.outputs:
        written = _encode_values(output)
        data += written
        outputs.append(
            structs.replace(output, data=None, parameters=TensorParameters(len(written)))
        )
    body = encoded(structs.replace(inference, outputs=outputs))
    return Answer(
        body + data, answer.status, BYTES, (*answer.headers, (LENGTH, str(len(body)).encode()))
    )


def _encode_values(output: OutputTensor) -> bytes:
    values = output.data or []
    if output.datatype == "BYTES":
        strings = [value.encode() for value in values]
        return b"".join(len(string).to_bytes(4, "little") + string for string in strings)
    return np.array(values, _NUMBERS.get(output.datatype, np.dtype(np.uint8))).tobytes()


def json_scope(scope: Scope, body: bytes) -> Scope:
    """Return the scope of a request whose body was translated."""
    others = [
        (name, value)
        for name, value in scope["headers"]
        if name not in (LENGTH, b"content-type", b"content-length")
    ]
    return {
        **scope,
        "headers": [*others, (b"content-type", JSON), (b"content-length", str(len(body)).encode())],
    }


def version_of(answer: Answer) -> str:
    """Return the version of the model that gave an answer in the JSON form."""
    return _answer_decoder.decode(answer.body).model_version
