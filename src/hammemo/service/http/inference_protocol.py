"""The Open Inference Protocol, version 2, in its JSON form: so that clients of KServe, Triton and others can ask.

A request has one input tensor of shape (n, h) or (h,), of datatype BYTES (strings) or INT64: n contexts of h tokens, as
many as the model has columns; any number for a model that was fitted to documents. The answer has
one output tensor ``label`` of shape (n,): BYTES where the labels are strings, INT64, FP64 or BOOL where they are
numbers or truth values. The version of the model is in ``model_version``. ``parameters`` of the request may hold
``min_version``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hammemo import __version__
from hammemo.service.http.bodies import encoded
from hammemo.service.http.endpoints import Operation
from hammemo.service.http.messages import Answer
from hammemo.service.http.probes import ready

if TYPE_CHECKING:
    from hammemo.service.http.messages import Call
    from hammemo.service.http.service import Service


async def _server(service: Service, call: Call) -> Answer:  # noqa: ARG001
    return Answer(encoded({"name": "hammemo", "version": __version__, "extensions": []}))


async def _live(service: Service, call: Call) -> Answer:  # noqa: ARG001
    return Answer(encoded({"live": True}))


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
    Operation("v2-live", "GET", "/v2/health/live", None, _live, "Say that the server runs.", gives=dict, probes=True),
    Operation(
        "v2-ready", "GET", "/v2/health/ready", None, ready, "Say whether the server takes requests.", gives=dict,
        refuses=(503,), probes=True,
    ),
    Operation("v2-model", "GET", _MODEL, "read", _metadata, "Describe a model.", gives=dict, refuses=(404, 409)),
    Operation(
        "v2-model-ready", "GET", f"{_MODEL}/ready", "read", _model_ready, "Say whether a model is there.", gives=dict,
        refuses=(404,),
    ),
)  # fmt: skip
