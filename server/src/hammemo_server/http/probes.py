"""``/readyz`` and ``/readyz/edits``: whether this process can answer, and whether edits can be made durable.

Both need no token and name no model; what is wrong with which model is in the metrics. They have threads of their own,
so that no question makes a probe wait.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from hammemo_server.edits.operations import Unavailable
from hammemo_server.http.bodies import encoded
from hammemo_server.http.endpoints import Operation
from hammemo_server.http.messages import Answer

if TYPE_CHECKING:
    from hammemo_server.http.messages import Call
    from hammemo_server.http.service import Service


async def ready(service: Service, call: Call) -> Answer:  # noqa: ARG001
    """Say whether questions can be answered."""
    if service.draining:
        raise Unavailable("The server is about to end.")
    if not await asyncio.to_thread(service.host.health.can_answer):
        raise Unavailable("No question can be answered: the folder is gone, or no model opens.")
    return Answer(encoded({"ready": True}))


async def _ready_for_edits(service: Service, call: Call) -> Answer:  # noqa: ARG001
    if service.draining:
        raise Unavailable("The server is about to end.")
    if not await asyncio.to_thread(service.host.health.can_edit):
        raise Unavailable("No edit can be made durable: the disk is full or gone, or the log cannot be reached.")
    return Answer(encoded({"ready": True}))


PROBES: Final = (
    Operation(
        "readyz", "GET", "/readyz", None, ready, "Say whether questions are answered.", gives=dict, refuses=(503,),
        probes=True,
    ),
    Operation(
        "readyz-edits", "GET", "/readyz/edits", None, _ready_for_edits, "Say whether edits can be made durable.",
        gives=dict, of_writer=True, refuses=(503,), probes=True,
    ),
)  # fmt: skip
