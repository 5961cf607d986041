"""``/readyz`` and ``/readyz/edits``: whether this process answers, and edits can be durable.

Both need no token. ``/readyz/edits`` names the models that cannot be written where only the
operator asks: on the health port, and on a server without tokens. Probes have threads of their
own, so that no question makes a probe wait, and they do not wait for a disk that hangs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from hammemo_server.edits.operations import Unavailable
from hammemo_server.http.bodies import encoded
from hammemo_server.http.endpoints import Operation
from hammemo_server.http.messages import Answer, Call

if TYPE_CHECKING:
    from concurrent.futures import Future

    from hammemo_server.http.service import Service


_MOST_NAMED: Final = 20
_LATE_SECONDS: Final = 5.0
"""How long a probe waits for the store."""

Result = TypeVar("Result")


async def _within(future: Future[Result], late: Result) -> Result:
    """Return a result; `late` where the store does not answer in time."""
    try:
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), _LATE_SECONDS)
    except TimeoutError:
        return late


async def ready(service: Service, call: Call) -> Answer:  # noqa: ARG001
    """Say whether questions can be answered; models that are open answer without the disk."""
    host = service.host
    if service.draining:
        raise Unavailable("The server is stopping.")
    if not await _within(host.health.answers.value(), late=bool(host.open_models())):
        raise Unavailable("No question can be answered: the folder is gone, or no model opens.")
    return Answer(encoded({"ready": True}))


async def _ready_for_edits(service: Service, call: Call) -> Answer:
    if service.draining:
        raise Unavailable("The server is stopping.")
    unwritable = await _within(service.host.health.unwritable.value(), late=None)
    if unwritable is None:
        raise Unavailable(
            "No edit can be made durable: the disk is full or gone, or the log cannot be reached."
        )
    if unwritable:
        named = "ask on the health port which"
        if call.is_private:
            named = ", ".join(unwritable[:_MOST_NAMED])
        raise Unavailable(
            f"Edits of {len(unwritable)} open models cannot be made durable: {named}."
        )
    return Answer(encoded({"ready": True}))


PROBES: Final = (
    Operation(
        "readyz",
        "GET",
        "/readyz",
        None,
        handle=ready,
        says="Say whether questions are answered.",
        gives=dict,
        refuses=(503,),
        probes=True,
    ),
    Operation(
        "readyz-edits",
        "GET",
        "/readyz/edits",
        None,
        handle=_ready_for_edits,
        says="Say whether edits can be made durable.",
        gives=dict,
        of_writer=True,
        refuses=(503,),
        probes=True,
    ),
)
