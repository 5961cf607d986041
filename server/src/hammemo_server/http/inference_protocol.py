"""The Open Inference Protocol, version 2: so that clients of KServe, Triton and others can ask.

Rows come as tensors (:mod:`hammemo_server.http.tensors`), in JSON or in the binary form. The
answer has one output tensor ``label`` of shape (n,): BYTES where the labels are strings, INT64,
FP64 or BOOL where they are numbers or truth values. The version of the model is in
``model_version``; paths with a version are answered by that version or not at all.
``parameters`` of a request may hold ``min_version``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hammemo import __version__
from hammemo_server.http.bodies import encoded
from hammemo_server.http.endpoints import Operation
from hammemo_server.http.messages import Answer, Call, Refused
from hammemo_server.http.probes import ready
from hammemo_server.http.questions import LONG_BODY
from hammemo_server.http.tensors import (
    as_binary,
    as_json,
    datatype_of,
    json_length,
    json_scope,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hammemo_server.http.service import Service


async def _server(service: Service, call: Call) -> Answer:  # noqa: ARG001
    return Answer(
        encoded({"name": "hammemo", "version": __version__, "extensions": ["binary_tensor_data"]})
    )


async def _live(service: Service, call: Call) -> Answer:  # noqa: ARG001
    return Answer(encoded({"live": True}))


async def _metadata(service: Service, call: Call) -> Answer:
    hosted = await service.model(call)
    model, version = hosted.answering()
    _check_version(call, str(version))
    width = int(model.n_features_in_) if model.state.cutting is None else -1
    names = hosted.settings.column_names
    inputs: list[dict[str, object]] = [{"name": "rows", "datatype": "BYTES", "shape": [-1, width]}]
    if names is not None and len(names) > 1:
        inputs = [
            {
                "name": name,
                "datatype": "FP64" if kind.is_ordered else "BYTES",
                "shape": [-1],
            }
            for name, kind in zip(names, model.state.columns.kinds, strict=True)
        ]
    labels = await service.in_thread(
        call, lambda: datatype_of(model.describe_answers().examples), "lists"
    )
    about = {"name": call.model, "versions": [str(version)], "platform": "hammemo"}
    outputs = [{"name": "label", "datatype": labels, "shape": [-1]}]
    return Answer(encoded({**about, "inputs": inputs, "outputs": outputs}))


async def _model_ready(service: Service, call: Call) -> Answer:
    hosted = await service.model(call)
    _check_version(call, str(hosted.version))
    return Answer(encoded({"name": call.model, "ready": True}))


def _check_version(call: Call, version: str) -> None:
    """Refuse a path with another version than the one that answers."""
    asked_version = call.scope.get("path_params", {}).get("version", version)
    if asked_version != version:
        raise Refused(
            404,
            "no_such_version",
            f"The model answers at version {version}; older ones are not kept.",
        )


def make_tensor_handler(
    ask: Callable[[Service, Call], Awaitable[Answer]],
) -> Callable[[Service, Call], Awaitable[Answer]]:
    """Return what answers tensors, around what answers them in their JSON form."""

    async def handle(service: Service, call: Call) -> Answer:
        length = json_length(call.scope)
        is_binary = False
        if length is not None:
            translate = partial(as_json, call.body, length)
            is_short = len(call.body) <= LONG_BODY
            call.body, is_binary = (
                translate() if is_short else await service.in_thread(call, translate, "short")
            )
            call.scope = json_scope(call.scope, call.body)
        answer = await ask(service, call)
        if answer.status != 200:  # the writer's refusal
            return answer
        if "version" in call.scope.get("path_params", {}):
            _check_version(call, version_of(answer))
        return as_binary(answer) if is_binary else answer

    return handle


_MODEL: Final = "/v2/models/{model}"
VERSION: Final = "/v2/models/{model}/versions/{version}"
PROTOCOL: Final = (
    Operation(
        "v2-server", "GET", "/v2", None, handle=_server, says="Say what this server is.", gives=dict
    ),
    Operation(
        "v2-live",
        "GET",
        "/v2/health/live",
        None,
        handle=_live,
        says="Say that the server runs.",
        gives=dict,
        probes=True,
    ),
    Operation(
        "v2-ready",
        "GET",
        "/v2/health/ready",
        None,
        handle=ready,
        says="Say whether the server takes requests.",
        gives=dict,
        refuses=(503,),
        probes=True,
    ),
    Operation(
        "v2-model",
        "GET",
        _MODEL,
        "read",
        handle=_metadata,
        says="Describe a model.",
        gives=dict,
        refuses=(404, 409),
    ),
    Operation(
        "v2-model-ready",
        "GET",
        f"{_MODEL}/ready",
        "read",
        handle=_model_ready,
        says="Say whether a model is there.",
        gives=dict,
        refuses=(404,),
    ),
    Operation(
        "v2-version",
        "GET",
        VERSION,
        "read",
        handle=_metadata,
        says="Describe a version of a model.",
        gives=dict,
        refuses=(404, 409),
    ),
    Operation(
        "v2-version-ready",
        "GET",
        f"{VERSION}/ready",
        "read",
        handle=_model_ready,
        says="Say whether a version answers.",
        gives=dict,
        refuses=(404,),
    ),
)
