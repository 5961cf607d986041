"""The Open Inference Protocol, version 2, in its JSON form: so that clients of KServe, Triton and others can ask.

A request has one input tensor of shape (n, h) or (h,), of datatype BYTES (strings) or INT64: n contexts of h tokens, as
many as the model has columns; any number for a model that was fitted to documents. The answer has
one output tensor ``label`` of shape (n,): BYTES where the labels are strings, INT64, FP64 or BOOL where they are
numbers or truth values. The version of the model is in ``model_version``. ``parameters`` of the request may hold
``min_version``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from hammemo import __version__
from hammemo.service.http.bodies import Question, decoded, encoded
from hammemo.service.http.endpoints import Operation
from hammemo.service.http.messages import Answer
from hammemo.service.operations import Malformed, Unavailable, checked_rows

if TYPE_CHECKING:
    from hammemo.service.http.messages import Call
    from hammemo.service.http.service import Service

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


_decoder: Final = msgspec.json.Decoder(InferenceRequest)
_DATATYPES: Final[dict[type, str]] = {str: "BYTES", bool: "BOOL", int: "INT64", float: "FP64"}


def rows_of(tensor: InputTensor) -> list[list[Any]]:
    """Return the rows of a tensor, or refuse one whose data are not as its shape and datatype say.

    Examples
    --------
    >>> from hammemo.service.http.inference_protocol import InputTensor, rows_of
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


async def _infer(service: Service, call: Call) -> Answer:
    request = decoded(_decoder, call.body)
    if request.outputs and request.outputs[0].name != "label":
        raise Malformed("There is one output, label.")
    rows = checked_rows(rows_of(request.inputs[0]), service.limits)
    ready = await service.ready_version(call, request.parameters.min_version if request.parameters else None)
    found = await service.in_thread(lambda: ready.predict(Question(rows)))
    answer = InferenceAnswer(call.model, str(ready.version), [tensor_of(found.labels)], request.id)
    return Answer(encoded(answer))


async def _server(service: Service, call: Call) -> Answer:  # noqa: ARG001
    return Answer(encoded({"name": "hammemo", "version": __version__, "extensions": []}))


async def _live(service: Service, call: Call) -> Answer:  # noqa: ARG001
    return Answer(encoded({"live": True}))


async def _ready(service: Service, call: Call) -> Answer:  # noqa: ARG001
    if service.draining:
        raise Unavailable("The server is about to end.")
    return Answer(encoded({"ready": True}))


async def _metadata(service: Service, call: Call) -> Answer:
    hosted = await service.model(call)
    model, version = hosted.answering()
    width = int(model.n_features_in_) if model.cutting_ is None else -1
    return Answer(
        encoded(
            {
                "name": call.model,
                "versions": [str(version)],
                "platform": "hammemo",
                "inputs": [{"name": "rows", "datatype": "BYTES", "shape": [-1, width]}],
                "outputs": [{"name": "label", "datatype": "BYTES", "shape": [-1]}],
            }
        )
    )


async def _model_ready(service: Service, call: Call) -> Answer:
    await service.model(call)
    return Answer(encoded({"name": call.model, "ready": True}))


_MODEL: Final = "/v2/models/{model}"
PROTOCOL: Final = (
    Operation("v2-server", "GET", "/v2", None, _server, "Say what this server is.", gives=dict),
    Operation("v2-live", "GET", "/v2/health/live", None, _live, "Say that the server runs.", gives=dict),
    Operation(
        "v2-ready", "GET", "/v2/health/ready", None, _ready, "Say whether the server takes requests.", gives=dict,
        refuses=(503,),
    ),
    Operation("v2-model", "GET", _MODEL, "read", _metadata, "Describe a model.", gives=dict, refuses=(404, 409)),
    Operation(
        "v2-model-ready", "GET", f"{_MODEL}/ready", "read", _model_ready, "Say whether a model is there.", gives=dict,
        refuses=(404,),
    ),
    Operation(
        "v2-infer", "POST", f"{_MODEL}/infer", "read", _infer, "Answer each row with its most likely label.",
        "json", InferenceRequest, InferenceAnswer, refuses=(404, 409, 422, 425),
    ),
)  # fmt: skip
