"""Models by name: made, described, removed, and sent as files; and the audit of their edits."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hammemo_server.edits.operations import QuotaReached, TooLarge
from hammemo_server.http import bodies, messages
from hammemo_server.http.bodies import decode_settings, encoded
from hammemo_server.http.endpoints import (
    FILE_SECONDS,
    MODEL_PATH,
    REFIT_SECONDS,
    Operation,
    make_threaded_handler,
)
from hammemo_server.http.messages import Answer, Call, pieces

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo_server.http.service import Service
    from hammemo_server.models.served import ServedModel

_SETTINGS_BYTES: Final = 2**16
_PIECE: Final = 2**18
"""Bytes of a file that are sent at once."""
_MAX_LISTED_CLASSES: Final = 1_000
"""The most labels that a description names; it also says how many there are."""


def _models(service: Service, call: Call) -> bodies.ModelNames:
    return bodies.ModelNames(service.host.names(call.caller.tenant))


def _create(service: Service, call: Call) -> dict[str, Any]:
    if len(call.body) > _SETTINGS_BYTES:
        raise TooLarge(f"Settings have at most {_SETTINGS_BYTES} bytes.")
    settings = decode_settings(call.body)
    _check_number(service, call)
    return _describe_model(service, service.host.create(call.caller.tenant, call.model, settings))


def _check_number(service: Service, call: Call) -> None:
    """Refuse one model more than a tenant may have: each of them has threads and open files."""
    names = service.host.names(call.caller.tenant)
    if call.model not in names and len(names) >= service.limits.models:
        raise QuotaReached(f"A tenant may have {service.limits.models} models: delete one first.")


def _describe(service: Service, call: Call) -> dict[str, Any]:
    return _describe_model(service, service.host.get(call.caller.tenant, call.model))


def _describe_model(service: Service, hosted: ServedModel) -> dict[str, Any]:
    facts = hosted.describe(digest=True)
    classes = facts["classes"]
    quotas = service.quotas(hosted.tenant)
    quota = {what: {"used": used, "most": most or None} for what, (used, most) in quotas.items()}
    return facts | {
        "n_classes": len(classes),
        "classes": classes[:_MAX_LISTED_CLASSES],
        "quota": quota,
    }


async def _delete(service: Service, call: Call) -> Answer:
    await service.in_thread(call, lambda: service.host.delete(call.caller.tenant, call.model))
    service.metrics.forget_model(call.caller.tenant, call.model)
    return Answer(b"{}")


def _snapshot(service: Service, call: Call) -> bodies.SnapshotAnswer:
    return bodies.SnapshotAnswer(service.host.get(call.caller.tenant, call.model).snapshot())


async def _upload(service: Service, call: Call) -> Answer:
    limits = service.limits
    size = messages.check_declared_length(call.scope, limits.file)

    def check() -> None:
        _check_number(service, call)
        service.host.check_room(call.caller.tenant, size)

    await service.in_thread(call, check, "lists")
    async with service.transfer(call) as path:
        async for piece in pieces(call, limits.file, limits.file_seconds):
            await service.in_thread(call, partial(_append, path, piece))
        hosted = await service.in_thread(
            call, lambda: service.host.upload(call.caller.tenant, call.model, path)
        )
    return Answer(
        await service.in_thread(call, lambda: encoded(_describe_model(service, hosted))), 201
    )


def _append(path: Path, piece: bytes) -> None:
    with path.open("ab") as file:
        file.write(piece)


def _read_piece(path: Path, start: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(_PIECE)


async def _download(service: Service, call: Call) -> Answer | None:
    """Send a model file piece by piece; a caller who does not read loses the connection."""
    async with service.transfer(call) as path:

        def write() -> int:
            service.host.write_file(call.caller.tenant, call.model, path)
            return path.stat().st_size

        size = await service.in_thread(call, write)
        call.has_begun = True
        named = (b"content-disposition", f'attachment; filename="{call.model}.model"'.encode())
        await messages.begin_answer(
            call.send, Answer(b"", content_type=messages.BYTES, headers=(named,)), size
        )
        async with asyncio.timeout(service.limits.file_seconds):
            for start in range(0, size, _PIECE):
                piece = await service.in_thread(call, partial(_read_piece, path, start))
                more = start + _PIECE < size
                if not more:  # once the caller has the whole file, no copy is left here
                    await service.in_thread(call, partial(shutil.rmtree, path.parent))
                await call.send({"type": "http.response.body", "body": piece, "more_body": more})
    return None


async def _audit(service: Service, call: Call) -> Answer:
    after = messages.number_in_query(call.scope, "after")
    hosted = await service.model(call)
    start, lines = await service.in_thread(call, lambda: hosted.audit(after), "lists")
    return Answer(encoded({"start": start.facts(), "lines": [line.facts() for line in lines]}))


MODELS: Final = (
    Operation(
        "list",
        "GET",
        "/v1/models",
        "read",
        handle=make_threaded_handler(_models, "lists"),
        says="Name the models.",
        gives=bodies.ModelNames,
    ),
    Operation(
        "create",
        "PUT",
        MODEL_PATH,
        "admin",
        handle=make_threaded_handler(_create, status=201),
        says="Make an empty model.",
        body="json",
        takes=dict,
        gives=dict,
        edits=True,
        refuses=(409, 422, 507),
    ),
    Operation(
        "describe",
        "GET",
        MODEL_PATH,
        "read",
        handle=make_threaded_handler(_describe),
        says="Describe a model.",
        gives=dict,
        refuses=(404,),
    ),
    Operation(
        "delete",
        "DELETE",
        MODEL_PATH,
        "admin",
        handle=_delete,
        says="Remove a model.",
        gives=dict,
        edits=True,
        refuses=(404,),
    ),
)
"""Operations on whole models."""

FILES: Final = (
    Operation(
        "snapshot",
        "POST",
        f"{MODEL_PATH}/snapshot",
        "admin",
        handle=make_threaded_handler(_snapshot),
        says="Write a snapshot now.",
        gives=bodies.SnapshotAnswer,
        edits=True,
        seconds=REFIT_SECONDS,
        refuses=(404,),
    ),
    Operation(
        "upload",
        "PUT",
        f"{MODEL_PATH}/file",
        "admin",
        handle=_upload,
        says="Make a model from a model file.",
        body="file",
        takes=None,
        gives=dict,
        edits=True,
        seconds=FILE_SECONDS,
        refuses=(409, 422, 507),
    ),
    Operation(
        "audit",
        "GET",
        f"{MODEL_PATH}/audit",
        "audit",
        handle=_audit,
        says="List edits without their content.",
        gives=bodies.AuditAnswer,
        query={"after": "The number of the last line that is known; 0 for all."},
    ),
    Operation(
        "download",
        "GET",
        f"{MODEL_PATH}/file",
        "admin",
        handle=_download,
        says="Fetch a model file.",
        seconds=FILE_SECONDS,
        refuses=(404,),
    ),
)
"""Operations on the files of a model, and on the record of its edits."""
