"""Tensors of the Open Inference Protocol: rows that come as one, and labels that are sent as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from hammemo.service.http.bodies import Question
from hammemo.service.operations import Malformed

if TYPE_CHECKING:
    from hammemo.service.http.answering import ReadyVersion, Stop
    from hammemo.service.limits import Limits

Length = Annotated[int, Meta(ge=0, le=2**31)]


class InputTensor(Struct, frozen=True, forbid_unknown_fields=True):
    """The contexts, row after row; nested lists will do, too."""

    name: Annotated[str, Meta(max_length=256)]
    shape: Annotated[list[Length], Meta(min_length=1, max_length=2)]
    datatype: Literal["BYTES", "INT64"]
    data: list[str | int | list[str | int]]
    parameters: dict[str, Any] | None = None


class RequestedOutput(Struct, frozen=True):
    """Which output is wanted; there is one, ``label``."""

    name: str
    parameters: dict[str, Any] | None = None


class Parameters(Struct, frozen=True):
    """What else a request says."""

    min_version: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None


class InferenceRequest(Struct, frozen=True):
    """One request for labels."""

    inputs: Annotated[list[InputTensor], Meta(min_length=1, max_length=1)]
    id: Annotated[str, Meta(max_length=256)] | None = None
    parameters: Parameters | None = None
    outputs: Annotated[list[RequestedOutput], Meta(max_length=1)] | None = None


class OutputTensor(Struct, frozen=True):
    """The labels."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any]


class InferenceAnswer(Struct, frozen=True, omit_defaults=True):
    """One answer."""

    model_name: str
    model_version: str
    outputs: list[OutputTensor]
    id: str | None = None


_DATATYPES: Final[dict[type, str]] = {str: "BYTES", bool: "BOOL", int: "INT64", float: "FP64"}


def rows_of(tensor: InputTensor) -> list[list[Any]]:
    """Return the rows of a tensor, or refuse one whose data are not as its shape and datatype say.

    Examples
    --------
    >>> from hammemo.service.http.tensors import InputTensor, rows_of
    >>> rows_of(InputTensor("rows", [2, 2], "BYTES", ["a", "b", "c", "d"]))
    [['a', 'b'], ['c', 'd']]
    """
    data: list[Any] = []
    for entry in tensor.data:
        data.extend(entry) if isinstance(entry, list) else data.append(entry)
    n, h = tensor.shape if len(tensor.shape) == 2 else (1, tensor.shape[0])
    if n and not h:
        raise Malformed("The shape has contexts of 0 tokens: a context in a tensor has at least one.")
    if n * h != len(data):
        raise Malformed(f"The tensor has {len(data)} entries, not the {n * h} of its shape.")
    wanted = str if tensor.datatype == "BYTES" else int
    if any(type(entry) is not wanted for entry in data):
        raise Malformed(f"The tensor has entries that are not of datatype {tensor.datatype}.")
    return [data[start : start + h] for start in range(0, n * h, h)] if h else []


def tensor_of(labels: list[Any]) -> OutputTensor:
    """Return labels as a tensor; where they are of several kinds, as strings."""
    kinds = {type(label) for label in labels}
    datatype = _DATATYPES.get(next(iter(kinds)), "BYTES") if len(kinds) == 1 else "BYTES"
    data = labels if len(kinds) == 1 else [str(label) for label in labels]
    return OutputTensor("label", [len(labels)], datatype, data)


class TensorQuestion(Question, frozen=True):
    """A request as a question, with what its answer repeats."""

    model: str = ""
    id: str | None = None


def question_of(request: InferenceRequest, model: str) -> TensorQuestion:
    """Return a request as a question, or refuse it."""
    if request.outputs and request.outputs[0].name != "label":
        raise Malformed("There is one output, label.")
    min_version = request.parameters.min_version if request.parameters else None
    return TensorQuestion(rows_of(request.inputs[0]), min_version, model, request.id)


def answered(ready: ReadyVersion, question: TensorQuestion, limits: Limits, stop: Stop) -> InferenceAnswer:  # noqa: ARG001
    """Return the labels as a tensor."""
    labels = ready.predict(question, stop).labels
    return InferenceAnswer(question.model, str(ready.version), [tensor_of(labels)], question.id)
