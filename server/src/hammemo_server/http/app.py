"""The application: everything that can be asked, as one table of operations.

Routes, roles, the document of the interface and the tests of who may call what all come from
the table. Edits wait for the core's writer, which makes groups of them; questions get a version
from `Service`.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from starlette.routing import Route, Router

from hammemo_server.edits.operations import (
    Acknowledgement,
    Edit,
    ExampleRows,
    QuotaReached,
    TooLarge,
    check_name,
)
from hammemo_server.http import bodies, messages, metrics, tensors
from hammemo_server.http.addresses import Addresses
from hammemo_server.http.answering import go_on
from hammemo_server.http.bodies import decode, decode_settings, encoded
from hammemo_server.http.cross_site import CrossSiteGuard
from hammemo_server.http.endpoints import Endpoint, Operation, PathOperations, no_such_path
from hammemo_server.http.inference_protocol import PROTOCOL, VERSION, make_tensor_handler
from hammemo_server.http.messages import Answer, Call, pieces, read_body
from hammemo_server.http.openapi import document, page_of
from hammemo_server.http.pages import PAGES
from hammemo_server.http.probes import PROBES
from hammemo_server.http.questions import KINDS, LONG_BODY, QuestionKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future
    from pathlib import Path

    from starlette.types import ASGIApp

    from hammemo_server.http.endpoints import Handler
    from hammemo_server.http.service import Lane, Service
    from hammemo_server.models.served import ServedModel
    from hammemo_server.store.log import ListFacts

EditKind = Literal["learn", "forget", "apply", "refit"]
_MODEL: Final = "/v1/models/{model}"
_QUESTION_REFUSALS: Final = (404, 409, 422, 425)
_erasure_decoder: Final = msgspec.json.Decoder(bodies.ErasureBody)
_alias_decoder: Final = msgspec.json.Decoder(bodies.AliasBody)
_list_decoder: Final = msgspec.json.Decoder(bodies.ListBody)
_SETTINGS_BYTES: Final = 2**16
_PIECE: Final = 2**18
_REFIT_SECONDS: Final = 600.0
"""As long as the client waits for a refit."""
_FILE_SECONDS: Final = 3600.0
"""As long as a file may be on its way and be read or written; `Limits.file_seconds` is for the
way alone."""
_ERASED_SECONDS: Final = 10.0
"""How long an answer waits for the end of an erasure."""
_FEW: Final = 16
"""Up to so many requests at once, quick questions are not handed to a thread; of more, tenants
take turns there."""
_LOOK_AGAIN: Final = 0.05
_MAX_LISTED_CLASSES: Final = 1_000
"""The most labels that a description names; it also says how many there are."""


# Edits


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
    seconds = _REFIT_SECONDS if kind == "refit" else None
    return Operation(
        ask,
        "POST",
        f"{_MODEL}/{ask}",
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


# Questions


def _make_question_handler(kind: QuestionKind) -> Callable[[Service, Call], Awaitable[Answer]]:
    """Return what answers questions of a kind: at once, in a thread, or as long ones."""

    async def ask(service: Service, call: Call) -> Answer:
        if len(call.body) > LONG_BODY:
            return await service.long_answer(call, kind.ask)
        question = kind.read(call.body, call.model, service.limits)
        ready = await service.ready_version(call, question.min_version)
        if kind.ask == "predict" and len(question.rows) == 1 and question.interval is None:
            label = ready.predict_one(*ready.cut(question.rows))
            if label is not None:
                return Answer(encoded(bodies.Labels([label], ready.version)))
        if kind.is_long(ready, question, lambda: service.may_take_time(call)):
            return await service.long_answer(call, kind.ask)
        question = await service.with_lists(call, question, ready)
        answer = partial(kind.answer, ready, question, service.limits, go_on)
        if service.admission.inside <= _FEW and kind.is_quick(ready, question):
            return Answer(encoded(answer()))
        return Answer(await service.in_thread(call, lambda: encoded(answer()), "short"))

    return ask


def _ask(ask: str, says: str, gives: type) -> Operation:
    """Return the operation of a kind of question."""
    kind = KINDS[ask]
    path = f"{_MODEL}/{ask}"
    return Operation(
        ask,
        "POST",
        path,
        "read",
        handle=_make_question_handler(kind),
        says=says,
        body="json",
        takes=kind.decoder.type,
        gives=gives,
        refuses=_QUESTION_REFUSALS,
    )


def _infer(ask: str, path: str) -> Operation:
    """Return the operation of a question that is a tensor."""
    kind = KINDS["v2-infer"]
    says = "Answer each row of a tensor with its most likely label."
    return Operation(
        ask,
        "POST",
        f"{path}/infer",
        "read",
        handle=make_tensor_handler(_make_question_handler(kind)),
        says=says,
        body="tensors",
        takes=kind.decoder.type,
        gives=tensors.InferenceAnswer,
        refuses=_QUESTION_REFUSALS,
    )


# Models


def _make_handler(
    work: Callable[[Service, Call], Any], lane: Lane = "files", status: int = 200
) -> Handler:
    """Return a handler that does all its work in a thread, and answers with what it returns."""

    async def handle(service: Service, call: Call) -> Answer:
        return Answer(
            await service.in_thread(call, lambda: encoded(work(service, call)), lane), status
        )

    return handle


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
    quota = {
        what: {"used": stored, "most": allowed or None}
        for what, (stored, allowed) in quotas.items()
    }
    return facts | {
        "n_classes": len(classes),
        "classes": classes[:_MAX_LISTED_CLASSES],
        "quota": quota,
    }


async def _delete(service: Service, call: Call) -> Answer:
    await service.in_thread(call, lambda: service.host.delete(call.caller.tenant, call.model))
    service.metrics.forget_model(call.caller.tenant, call.model)
    return Answer(b"{}")


def _aliases(service: Service, call: Call) -> bodies.Aliases:
    return bodies.Aliases(service.host.aliases(call.caller.tenant))


def _in_path(call: Call, what: str) -> str:
    """Return the name of an alias or a list, which stands in the path."""
    name: str = call.scope["path_params"][what]
    check_name(what, name)
    return name


def _set_alias(service: Service, call: Call) -> bodies.Aliases:
    alias = _in_path(call, "alias")
    model = decode(_alias_decoder, call.body).model
    check_name("model", model)
    service.host.set_alias(call.caller.tenant, alias, model)
    service.forget_aliases(call.caller.tenant)
    return _aliases(service, call)


def _delete_alias(service: Service, call: Call) -> bodies.Aliases:
    service.host.delete_alias(call.caller.tenant, _in_path(call, "alias"))
    service.forget_aliases(call.caller.tenant)
    return _aliases(service, call)


def _lists(service: Service, call: Call) -> bodies.NamedLists:
    lists = service.host.lists(call.caller.tenant)
    return bodies.NamedLists(
        {name: bodies.ListDescribed(*facts) for name, facts in sorted(lists.items())}
    )


def _read_list(service: Service, call: Call) -> dict[str, Any]:
    facts, items = service.host.read_list(call.caller.tenant, _in_path(call, "list"))
    return {"version": facts.version, "items": msgspec.Raw(items)}


async def _set_list(service: Service, call: Call) -> Answer:
    """Replace a list; few of a tenant at a time, because its body may be long."""
    tenant = call.caller.tenant
    name = _in_path(call, "list")
    limits = service.limits
    size = messages.check_declared_length(call.scope, limits.list_body)
    await service.in_thread(call, lambda: service.host.check_room(tenant, size, name), "lists")
    async with service.sending_list(tenant):
        call.body = await read_body(call, limits.list_body, limits.list_seconds)

        def keep() -> ListFacts:
            items = decode(_list_decoder, call.body).items
            call.body = b""
            return service.host.set_list(tenant, name, items)

        facts = await service.in_thread(call, keep)
    call.facts |= {"list": name, "list_version": facts.version, "items": facts.items}
    return Answer(encoded(bodies.ListDescribed(*facts)))


def _delete_list(service: Service, call: Call) -> bodies.NamedLists:
    service.host.delete_list(call.caller.tenant, _in_path(call, "list"))
    return _lists(service, call)


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
                has_more = start + _PIECE < size
                if not has_more:  # once the caller has the whole file, no copy is left here
                    await service.in_thread(call, partial(shutil.rmtree, path.parent))
                await call.send(
                    {"type": "http.response.body", "body": piece, "more_body": has_more}
                )
    return None


async def _audit(service: Service, call: Call) -> Answer:
    after = messages.number_in_query(call.scope, "after")
    hosted = await service.model(call)
    start, lines = await service.in_thread(call, lambda: hosted.audit(after), "lists")
    return Answer(encoded({"start": start.facts(), "lines": [line.facts() for line in lines]}))


# About the server


async def _metrics(service: Service, call: Call) -> Answer:
    text = await service.in_thread(call, lambda: service.metrics.text(call.caller.tenant), "lists")
    return Answer(text, content_type=metrics.CONTENT_TYPE.encode())


async def _openapi(service: Service, call: Call) -> Answer:  # noqa: ARG001
    return Answer(encoded(document(OPERATIONS)))


async def _docs(service: Service, call: Call) -> Answer:  # noqa: ARG001
    page = page_of(document(OPERATIONS), service.limits)
    return Answer(page, content_type=b"text/html; charset=utf-8", headers=messages.PAGE_HEADERS)


_ALIAS: Final = "/v1/aliases/{alias}"
_LIST: Final = "/v1/lists/{list}"

OPERATIONS: Final = (
    Operation(
        "list",
        "GET",
        "/v1/models",
        "read",
        handle=_make_handler(_models, "lists"),
        says="Name the models.",
        gives=bodies.ModelNames,
    ),
    Operation(
        "create",
        "PUT",
        _MODEL,
        "admin",
        handle=_make_handler(_create, status=201),
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
        _MODEL,
        "read",
        handle=_make_handler(_describe),
        says="Describe a model.",
        gives=dict,
        refuses=(404,),
    ),
    Operation(
        "delete",
        "DELETE",
        _MODEL,
        "admin",
        handle=_delete,
        says="Remove a model.",
        gives=dict,
        edits=True,
        refuses=(404,),
    ),
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
        "Learn whole documents, in a model that was fitted to documents: every token from "
        "the tokens before it.",
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
        f"{_MODEL}/forget-subject",
        "forget",
        handle=_forget_subject,
        says="Forget all rows of a subject, refit, and destroy the key of its journal.",
        body="json",
        takes=bodies.ErasureBody,
        gives=bodies.ErasureAnswer,
        edits=True,
        seconds=_REFIT_SECONDS,
        refuses=(404, 422),
    ),
    _ask(
        "predict",
        "Answer each row with its most likely label, or with the expected number.",
        bodies.Labels,
    ),
    _ask("top-k", "Answer each row with its k most likely labels.", bodies.RankedLabels),
    _ask(
        "probabilities", "Answer each row with the probability of each label.", bodies.Probabilities
    ),
    _ask("explain", "Say which tokens voted for which labels.", bodies.Explanations),
    _ask(
        "certify",
        "Answer each row, and say whether the answer is proven to be the exact classifier's.",
        bodies.Certificates,
    ),
    _infer("v2-infer", "/v2/models/{model}"),
    _infer("v2-version-infer", VERSION),
    Operation(
        "aliases",
        "GET",
        "/v1/aliases",
        "read",
        handle=_make_handler(_aliases, "lists"),
        says="Name the aliases.",
        gives=bodies.Aliases,
    ),
    Operation(
        "set-alias",
        "PUT",
        _ALIAS,
        "admin",
        handle=_make_handler(_set_alias),
        says="Let a name stand for a model in questions.",
        body="json",
        takes=bodies.AliasBody,
        gives=bodies.Aliases,
        edits=True,
        refuses=(404, 409, 507),
    ),
    Operation(
        "delete-alias",
        "DELETE",
        _ALIAS,
        "admin",
        handle=_make_handler(_delete_alias),
        says="Let a name stand for no model any more.",
        gives=bodies.Aliases,
        edits=True,
        refuses=(404, 422),
    ),
    Operation(
        "lists",
        "GET",
        "/v1/lists",
        "read",
        handle=_make_handler(_lists, "lists"),
        says="Name the lists of labels.",
        gives=bodies.NamedLists,
    ),
    Operation(
        "read-list",
        "GET",
        _LIST,
        "read",
        handle=_make_handler(_read_list),
        says="Fetch a list of labels.",
        gives=bodies.ListContent,
        refuses=(404, 422),
    ),
    Operation(
        "set-list",
        "PUT",
        _LIST,
        "admin",
        handle=_set_list,
        says="Replace a list of labels, such as the items in stock, which questions name.",
        body="list",
        takes=bodies.ListBody,
        gives=bodies.ListDescribed,
        edits=True,
        seconds=_FILE_SECONDS,
        refuses=(507,),
    ),
    Operation(
        "delete-list",
        "DELETE",
        _LIST,
        "admin",
        handle=_make_handler(_delete_list),
        says="Remove a list of labels.",
        gives=bodies.NamedLists,
        edits=True,
        refuses=(404, 422),
    ),
    Operation(
        "snapshot",
        "POST",
        f"{_MODEL}/snapshot",
        "admin",
        handle=_make_handler(_snapshot),
        says="Write a snapshot now.",
        gives=bodies.SnapshotAnswer,
        edits=True,
        seconds=_REFIT_SECONDS,
        refuses=(404,),
    ),
    Operation(
        "upload",
        "PUT",
        f"{_MODEL}/file",
        "admin",
        handle=_upload,
        says="Make a model from a model file.",
        body="file",
        takes=None,
        gives=dict,
        edits=True,
        seconds=_FILE_SECONDS,
        refuses=(409, 422, 507),
    ),
    Operation(
        "audit",
        "GET",
        f"{_MODEL}/audit",
        "audit",
        handle=_audit,
        says="List edits without their content.",
        gives=bodies.AuditAnswer,
        query={"after": "The number of the last line that is known; 0 for all."},
    ),
    Operation(
        "download",
        "GET",
        f"{_MODEL}/file",
        "admin",
        handle=_download,
        says="Fetch a model file.",
        seconds=_FILE_SECONDS,
        refuses=(404,),
    ),
    *PROTOCOL,
    *PROBES,
    Operation(
        "metrics",
        "GET",
        "/metrics",
        "metrics",
        handle=_metrics,
        says="Figures for Prometheus.",
        of_writer=True,
        probes=True,
    ),
    Operation(
        "openapi",
        "GET",
        "/openapi.json",
        "read",
        handle=_openapi,
        says="This document.",
        gives=dict,
    ),
    Operation("docs", "GET", "/docs", "read", handle=_docs, says="This document, to be read."),
    *PAGES,
)


def make_app(
    service: Service,
    hosts: frozenset[str],
    *,
    loopback: bool,
    addresses: Addresses | None = None,
    probes: bool = False,
) -> ASGIApp:
    """Return the application as uvicorn runs it.

    Parameters
    ----------
    service : Service
    hosts : frozenset of str
        The names under which the server may be called.
    loopback : bool
        Whether it listens on a loopback address only.
    addresses : Addresses, optional
        Counts requests through trusted proxies; there are none by default.
    probes : bool
        Whether to answer only health and metrics.
    """
    paths: dict[str, dict[str, Endpoint]] = {}
    is_private = probes or service.tokens is None
    for operation in OPERATIONS:
        if operation.probes or not probes:
            endpoint = Endpoint(service, operation, is_private=is_private)
            paths.setdefault(operation.path, {})[operation.method] = endpoint
    # routes are tried in turn
    most_asked_first = sorted(paths, key=lambda path: path != f"{_MODEL}/predict")
    routes = [Route(path, PathOperations(paths[path])) for path in most_asked_first]
    router = Router(routes, redirect_slashes=False, default=no_such_path)
    counted = addresses or Addresses(service.limits.address_connections)
    return CrossSiteGuard(router, hosts, loopback=loopback, addresses=counted)
