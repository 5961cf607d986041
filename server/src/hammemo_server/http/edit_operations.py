"""What changes a model: rows and documents learned and forgotten, refits, and subjects erased.

Edits wait for the writer of the model, which makes groups of them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from hammemo_server.edits.operations import Acknowledgement, Edit, ExampleRows
from hammemo_server.http import bodies, messages
from hammemo_server.http.bodies import decode, encoded
from hammemo_server.http.endpoints import MODEL_PATH, REFIT_SECONDS, Operation
from hammemo_server.http.messages import Answer, Call
from hammemo_server.http.questions import LONG_BODY

if TYPE_CHECKING:
    from concurrent.futures import Future

    from hammemo_server.http.endpoints import Handler
    from hammemo_server.http.service import Service

EditKind = Literal["learn", "forget", "apply", "refit"]
_erasure_decoder: Final = msgspec.json.Decoder(bodies.ErasureBody)
_ERASED_SECONDS: Final = 10.0
"""How long an answer waits for the end of an erasure."""
_LOOK_AGAIN: Final = 0.05
"""Seconds between two looks at an erasure."""


def _edit_of(kind: EditKind, body: Any) -> Edit:
    """Return the edit that a body asks for; its fields are mostly those of an edit."""
    if not isinstance(body, bodies.ApplyBody):
        return Edit(kind=kind, **msgspec.structs.asdict(body))
    learn = body.learn or ExampleRows([], [])
    return Edit(
        body.op,
        kind,
        learn.rows,
        learn.labels,
        subjects=learn.subjects,
        gone=body.forget,
        position=body.position,
    )


def _make_edit_handler(kind: EditKind, takes: type[msgspec.Struct]) -> Handler:
    decoder = msgspec.json.Decoder(takes)

    async def handle(service: Service, call: Call) -> Answer:
        hosted = await service.model(call)

        def hand_over() -> tuple[Edit, Future[Acknowledgement]]:
            edit = _edit_of(kind, decode(decoder, call.body))
            if edit.gone is not None and "forget" not in call.caller.roles:
                raise messages.Refused(
                    403, "forbidden", "This token does not have the role forget."
                )
            call.body = b""
            return edit, hosted.edit(edit, call.caller.name)

        if len(call.body) <= LONG_BODY:
            edit, future = hand_over()
        else:
            edit, future = await service.in_thread(call, hand_over)
        sizes = {"documents": len(edit.documents)} if edit.documents else {"rows": len(edit.rows)}
        del edit  # its rows are not needed while it waits
        acknowledgement = await service.result_of(future)
        service.count_edit(call, kind, acknowledgement.status, **sizes)
        call.facts |= {"version": acknowledgement.version, **sizes, "edit": acknowledgement.status}
        return Answer(encoded(acknowledgement))

    return handle


def _edit(ask: str, kind: EditKind, takes: type[msgspec.Struct], says: str) -> Operation:
    """Return the operation of a kind of edit.

    Learning needs room, and what is forgotten must be stored.
    """
    role = "learn" if kind in ("learn", "apply") else "forget"
    refuses: tuple[int, ...] = (404, 409, 422)
    if kind == "learn":
        refuses = (404, 422, 507)
    elif kind == "apply":
        refuses = (404, 409, 422, 507)
    seconds = REFIT_SECONDS if kind == "refit" else None
    return Operation(
        ask,
        "POST",
        f"{MODEL_PATH}/{ask}",
        role,
        handle=_make_edit_handler(kind, takes),
        says=says,
        body="json",
        takes=takes,
        gives=Acknowledgement,
        edits=True,
        seconds=seconds,
        refuses=refuses,
    )


async def _forget_subject(service: Service, call: Call) -> Answer:
    """Forget a subject, and wait a while for the end, so that most callers get the receipt."""
    hosted = await service.model(call)
    body = decode(_erasure_decoder, call.body)
    edit = Edit(body.op, "forget_subject", subjects=[body.subject], refit=body.refit)
    done = await service.result_of(hosted.edit(edit, call.caller.name))
    service.count_edit(call, edit.kind, done.status)
    call.facts |= {"version": done.version, "edit": done.status}
    until = time.monotonic() + _ERASED_SECONDS
    while True:
        erasure = await service.in_thread(call, lambda: hosted.erasure(body.op), "lists")
        assert erasure is not None  # it is durable
        if erasure.state == "erased" or service.draining or time.monotonic() > until:
            answer = bodies.ErasureAnswer(
                erasure.version, done.status, erasure.state, erasure.receipt.decode()
            )
            return Answer(encoded(answer))
        await asyncio.sleep(_LOOK_AGAIN)


EDITS: Final = (
    _edit("learn", "learn", bodies.EditBody, "Learn examples."),
    _edit("forget", "forget", bodies.ForgetBody, "Forget examples."),
    _edit(
        "apply",
        "apply",
        bodies.ApplyBody,
        "Forget examples and learn examples in one step; to forget needs the role forget, too.",
    ),
    # routes of their own: a body with rows or documents would say in no document which belong
    # together
    _edit(
        "learn-stream",
        "learn",
        bodies.StreamBody,
        "Learn whole documents, in a model that was fitted to documents: "
        "every token from the tokens before it.",
    ),
    _edit(
        "forget-stream",
        "forget",
        bodies.ForgetStreamBody,
        "Forget whole documents, as they were learnt.",
    ),
    _edit(
        "refit",
        "refit",
        bodies.RefitBody,
        "Choose sites and vote again and fit the weights, by the rows that the model keeps.",
    ),
    Operation(
        "forget-subject",
        "POST",
        f"{MODEL_PATH}/forget-subject",
        "forget",
        handle=_forget_subject,
        says="Forget all rows of a subject, refit, and destroy the key of its journal.",
        body="json",
        takes=bodies.ErasureBody,
        gives=bodies.ErasureAnswer,
        edits=True,
        seconds=REFIT_SECONDS,
        refuses=(404, 422),
    ),
)
"""Operations that change what a model has learned."""
