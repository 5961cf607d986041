"""The application: everything that can be asked, as one table of operations.

Routes, roles, the document of the interface and the tests of who may call what all come from the table. Edits wait for
the core's writer, which makes groups of them; questions get a version from `Service`.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from starlette.routing import Route, Router

from hammemo_server.edits.operations import Acknowledgement, Edit, ExampleRows, Kind, QuotaReached, TooLarge, check_name
from hammemo_server.http import bodies, metrics, tensors
from hammemo_server.http.addresses import Addresses
from hammemo_server.http.answering import go_on
from hammemo_server.http.bodies import decoded, decoded_settings, encoded
from hammemo_server.http.cross_site import CrossSiteGuard
from hammemo_server.http.endpoints import Endpoint, Operation, PathOperations, no_such_path
from hammemo_server.http.inference_protocol import PROTOCOL, VERSION, inferring
from hammemo_server.http.messages import (
    PAGE_HEADERS,
    Answer,
    Call,
    Refused,
    check_declared_length,
    number_in_query,
    pieces,
    read_body,
)
from hammemo_server.http.openapi import document, page_of
from hammemo_server.http.pages import PAGES
from hammemo_server.http.probes import PROBES
from hammemo_server.http.questions import KINDS, LONG_BODY, QuestionKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from starlette.types import ASGIApp

    from hammemo_server.http.service import Service
    from hammemo_server.models.served import ServedModel
    from hammemo_server.store.log import ListFacts

_SETTINGS_BYTES: Final = 2**16
_PIECE: Final = 2**18
_REFIT_SECONDS: Final = 600.0
"""As long as the client waits for a refit."""
_FILE_SECONDS: Final = 3600.0
"""As long as a file may be on its way and be read or written; `Limits.file_seconds` is for the way alone."""
_ERASED_SECONDS: Final = 10.0
"""How long an answer waits for the end of an erasure."""
_FEW: Final = 16
"""Up to so many requests at once, quick questions are not handed to a thread; of more, tenants take turns there."""
_LOOK_AGAIN: Final = 0.05
_MAX_LISTED_CLASSES: Final = 1_000
"""The most labels that a description names; it also says how many there are."""


# Edits

_apply_decoder: Final = msgspec.json.Decoder(bodies.ApplyBody)
_alias_decoder: Final = msgspec.json.Decoder(bodies.AliasBody)
_list_decoder: Final = msgspec.json.Decoder(bodies.ListBody)
_erasure_decoder: Final = msgspec.json.Decoder(bodies.ErasureBody)


def _editing(read: Callable[[bytes], Edit]) -> Callable[[Service, Call], Awaitable[Answer]]:
    async def handle(service: Service, call: Call) -> Answer:
        hosted = await service.model(call)

        def hand_over() -> tuple[Edit, Future[Acknowledgement]]:
            edit = read(call.body)
            if edit.gone is not None and "forget" not in call.caller.roles:
                raise Refused(403, "forbidden", "This token does not have the role forget.")
            call.body = b""
            return edit, hosted.edit(edit, call.caller.name)

        is_short = len(call.body) <= LONG_BODY
        edit, future = hand_over() if is_short else await service.in_thread(call, hand_over)
        kind = edit.kind
        sizes = {"documents": len(edit.documents)} if edit.documents else {"rows": len(edit.rows)}
        del edit  # its rows are not needed while it waits
        acknowledgement = await service.result_of(future)
        service.count_edit(call, kind, acknowledgement.status, **sizes)
        call.facts |= {"version": acknowledgement.version, **sizes, "edit": acknowledgement.status}
        return Answer(encoded(acknowledgement))

    return handle


def _read_as(kind: Kind | Literal["refit"], body: type[msgspec.Struct]) -> Callable[[bytes], Edit]:
    """Return what makes an edit of a body whose fields are those of an edit."""
    decoder = msgspec.json.Decoder(body)
    return lambda sent: Edit(kind=kind, **msgspec.structs.asdict(decoded(decoder, sent)))


def _apply(sent: bytes) -> Edit:
    body = decoded(_apply_decoder, sent)
    learn = body.learn or ExampleRows([], [])
    return Edit(
        body.op, "apply", learn.rows, learn.labels, subjects=learn.subjects, gone=body.forget, position=body.position
    )


async def _forget_subject(service: Service, call: Call) -> Answer:
    """Forget a subject; wait a while for the end of it, so that most callers get the receipt at once."""
    hosted = await service.model(call)
    body = decoded(_erasure_decoder, call.body)
    edit = Edit(body.op, "forget_subject", subjects=[body.subject], refit=body.refit)
    done = await service.result_of(hosted.edit(edit, call.caller.name))
    service.count_edit(call, edit.kind, done.status)
    call.facts |= {"version": done.version, "edit": done.status}
    until = time.monotonic() + _ERASED_SECONDS
    while True:
        found = await service.in_thread(call, lambda: hosted.erasure(body.op), "lists")
        assert found is not None  # it is durable
        if found.state == "erased" or service.draining or time.monotonic() > until:
            answer = bodies.ErasureAnswer(found.version, done.status, found.state, found.receipt.decode())
            return Answer(encoded(answer))
        await asyncio.sleep(_LOOK_AGAIN)


# Questions


def _question(kind: QuestionKind) -> Callable[[Service, Call], Awaitable[Answer]]:
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


def _questions() -> Iterator[Operation]:
    """Yield an operation for each kind of question."""
    ranked = bodies.RankedQuestion
    for ask, path, says, takes, gives in (
        ("predict", _PREDICT, "Answer each row with its most likely label, or with the expected number.",
         bodies.PredictQuestion, bodies.Labels),
        (
            "top-k", f"{_MODEL}/top-k", "Answer each row with its k most likely labels.",
            bodies.TopKQuestion, bodies.RankedLabels,
        ),
        (
            "probabilities", f"{_MODEL}/probabilities", "Answer each row with the probability of each label.",
            bodies.Question, bodies.Probabilities,
        ),
        ("explain", f"{_MODEL}/explain", "Say which tokens voted for which labels.", ranked, bodies.Explanations),
        (
            "certify", f"{_MODEL}/certify",
            "Answer each row, and say whether the answer is proven to be the exact classifier's.",
            bodies.Question, bodies.Certificates,
        ),
    ):  # fmt: skip
        handle = _question(KINDS[ask])
        yield Operation(ask, "POST", path, "read", handle, says, "json", takes, gives, refuses=_QUESTION_REFUSALS)
    for ask, path in (("v2-infer", "/v2/models/{model}"), ("v2-version-infer", VERSION)):
        yield Operation(
            ask, "POST", f"{path}/infer", "read", inferring(_question(KINDS["v2-infer"])),
            "Answer each row of a tensor with its most likely label.",
            "tensors", tensors.InferenceRequest, tensors.InferenceAnswer, refuses=_QUESTION_REFUSALS,
        )  # fmt: skip


# Models


async def _list(service: Service, call: Call) -> Answer:
    names = await service.in_thread(call, lambda: service.host.names(call.caller.tenant), "lists")
    return Answer(encoded(bodies.ModelNames(names)))


async def _create(service: Service, call: Call) -> Answer:
    if len(call.body) > _SETTINGS_BYTES:
        raise TooLarge(f"Settings have at most {_SETTINGS_BYTES} bytes.")
    settings = decoded_settings(call.body)
    await _check_number(service, call)
    hosted = await service.in_thread(call, lambda: service.host.create(call.caller.tenant, call.model, settings))
    return await _described(service, call, hosted, 201)


async def _check_number(service: Service, call: Call) -> None:
    """Refuse one model more than a tenant may have: each of them has threads and open files."""
    names = await service.in_thread(call, lambda: service.host.names(call.caller.tenant), "lists")
    if call.model not in names and len(names) >= service.limits.models:
        raise QuotaReached(f"A tenant may have {service.limits.models} models: delete one first.")


async def _describe(service: Service, call: Call) -> Answer:
    return await _described(service, call, await service.model(call), 200)


async def _described(service: Service, call: Call, hosted: ServedModel, status: int) -> Answer:
    def describe() -> bytes:
        facts = hosted.describe(digest=True)
        classes = facts["classes"]
        facts |= {"n_classes": len(classes), "classes": classes[:_MAX_LISTED_CLASSES]}
        quota = {
            what: {"used": used, "most": most or None} for what, (used, most) in service.quotas(hosted.tenant).items()
        }
        return encoded(facts | {"quota": quota})

    return Answer(await service.in_thread(call, describe), status)


async def _delete(service: Service, call: Call) -> Answer:
    await service.in_thread(call, lambda: service.host.delete(call.caller.tenant, call.model))
    service.metrics.forget_model(call.caller.tenant, call.model)
    return Answer(b"{}")


async def _aliases(service: Service, call: Call) -> Answer:
    found = await service.in_thread(call, lambda: service.host.aliases(call.caller.tenant), "lists")
    return Answer(encoded(bodies.Aliases(found)))


def _in_path(call: Call, what: str) -> str:
    """Return the name of an alias or a list, which stands in the path."""
    name: str = call.scope["path_params"][what]
    check_name(what, name)
    return name


async def _set_alias(service: Service, call: Call) -> Answer:
    tenant, alias, model = call.caller.tenant, _in_path(call, "alias"), decoded(_alias_decoder, call.body).model
    check_name("model", model)
    await service.in_thread(call, lambda: service.host.set_alias(tenant, alias, model))
    service.alias_changed(tenant)
    return await _aliases(service, call)


async def _delete_alias(service: Service, call: Call) -> Answer:
    tenant, alias = call.caller.tenant, _in_path(call, "alias")
    await service.in_thread(call, lambda: service.host.delete_alias(tenant, alias))
    service.alias_changed(tenant)
    return await _aliases(service, call)


async def _lists(service: Service, call: Call) -> Answer:
    found = await service.in_thread(call, lambda: service.host.lists(call.caller.tenant), "lists")
    described = {name: bodies.ListDescribed(*facts) for name, facts in sorted(found.items())}
    return Answer(encoded(bodies.NamedLists(described)))


async def _read_list(service: Service, call: Call) -> Answer:
    tenant, name = call.caller.tenant, _in_path(call, "list")
    facts, items = await service.in_thread(call, lambda: service.host.read_list(tenant, name))
    return Answer(encoded({"version": facts.version, "items": msgspec.Raw(items)}))


async def _set_list(service: Service, call: Call) -> Answer:
    """Replace a list; few of a tenant at a time, because its body may be long."""
    tenant, name, limits = call.caller.tenant, _in_path(call, "list"), service.limits
    size = check_declared_length(call.scope, limits.list_body)
    await service.in_thread(call, lambda: service.host.check_room(tenant, size, name), "lists")
    with service.sending_list(tenant):
        call.body = await read_body(call, limits.list_body, limits.list_seconds)

        def keep() -> ListFacts:
            items = decoded(_list_decoder, call.body).items
            call.body = b""
            return service.host.set_list(tenant, name, items)

        facts = await service.in_thread(call, keep)
    call.facts |= {"list": name, "list_version": facts.version, "items": facts.items}
    return Answer(encoded(bodies.ListDescribed(*facts)))


async def _delete_list(service: Service, call: Call) -> Answer:
    tenant, name = call.caller.tenant, _in_path(call, "list")
    await service.in_thread(call, lambda: service.host.delete_list(tenant, name))
    return await _lists(service, call)


async def _snapshot(service: Service, call: Call) -> Answer:
    hosted = await service.model(call)
    return Answer(encoded(bodies.SnapshotAnswer(await service.in_thread(call, hosted.snapshot))))


async def _upload(service: Service, call: Call) -> Answer:
    limits = service.limits
    await _check_number(service, call)
    size = check_declared_length(call.scope, limits.file)
    await service.in_thread(call, lambda: service.host.check_room(call.caller.tenant, size), "lists")
    async with service.transfer(call) as path:
        async for piece in pieces(call, limits.file, limits.file_seconds):
            await service.in_thread(call, partial(_append, path, piece))
        hosted = await service.in_thread(call, lambda: service.host.upload(call.caller.tenant, call.model, path))
    return await _described(service, call, hosted, 201)


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
        await _begin_file(call, size)
        async with asyncio.timeout(service.limits.file_seconds):
            for start in range(0, size, _PIECE):
                piece, more = await service.in_thread(call, partial(_read_piece, path, start)), start + _PIECE < size
                if not more:  # once the caller has the whole file, no copy is left here
                    await service.in_thread(call, partial(shutil.rmtree, path.parent))
                await call.send({"type": "http.response.body", "body": piece, "more_body": more})
    return None


async def _begin_file(call: Call, size: int) -> None:
    headers = [
        (b"content-type", b"application/octet-stream"),
        (b"content-length", str(size).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        (b"content-disposition", f'attachment; filename="{call.model}.model"'.encode()),
    ]
    call.has_begun = True
    await call.send({"type": "http.response.start", "status": 200, "headers": headers})


async def _audit(service: Service, call: Call) -> Answer:
    after = number_in_query(call.scope, "after")
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
    return Answer(page, content_type=b"text/html; charset=utf-8", headers=PAGE_HEADERS)


_MODEL: Final = "/v1/models/{model}"
_PREDICT: Final = f"{_MODEL}/predict"
_ALIAS: Final = "/v1/aliases/{alias}"
_LIST: Final = "/v1/lists/{list}"
_QUESTION_REFUSALS: Final = (404, 409, 422, 425)

OPERATIONS: Final = (
    Operation("list", "GET", "/v1/models", "read", _list, "Name the models.", gives=bodies.ModelNames),
    Operation(
        "create", "PUT", _MODEL, "admin", _create, "Make an empty model.",
        "json", dict, dict, edits=True, refuses=(409, 422, 507),
    ),
    Operation("describe", "GET", _MODEL, "read", _describe, "Describe a model.", gives=dict, refuses=(404,)),
    Operation("delete", "DELETE", _MODEL, "admin", _delete, "Remove a model.", gives=dict, edits=True, refuses=(404,)),
    Operation(
        "learn", "POST", f"{_MODEL}/learn", "learn", _editing(_read_as("learn", bodies.EditBody)), "Learn examples.",
        "json", bodies.EditBody, Acknowledgement, edits=True, refuses=(404, 422, 507),
    ),
    Operation(
        "forget", "POST", f"{_MODEL}/forget", "forget", _editing(_read_as("forget", bodies.ForgetBody)),
        "Forget examples.", "json", bodies.ForgetBody, Acknowledgement, edits=True, refuses=(404, 409, 422),
    ),
    Operation(
        "apply", "POST", f"{_MODEL}/apply", "learn", _editing(_apply),
        "Forget examples and learn examples in one step; to forget needs the role forget, too.",
        "json", bodies.ApplyBody, Acknowledgement, edits=True, refuses=(404, 409, 422, 507),
    ),
    Operation(  # routes of their own: a body with rows or documents would say in no document which belong together
        "learn-stream", "POST", f"{_MODEL}/learn-stream", "learn", _editing(_read_as("learn", bodies.StreamBody)),
        "Learn whole documents, in a model that was fitted to documents: every token from the tokens before it.",
        "json", bodies.StreamBody, Acknowledgement, edits=True, refuses=(404, 422, 507),
    ),
    Operation(
        "forget-stream", "POST", f"{_MODEL}/forget-stream", "forget",
        _editing(_read_as("forget", bodies.ForgetStreamBody)), "Forget whole documents, as they were learnt.",
        "json", bodies.ForgetStreamBody, Acknowledgement, edits=True, refuses=(404, 409, 422),
    ),
    Operation(
        "refit", "POST", f"{_MODEL}/refit", "forget", _editing(_read_as("refit", bodies.RefitBody)),
        "Choose sites and vote again and fit the weights, by the rows that the model keeps.",
        "json", bodies.RefitBody, Acknowledgement, edits=True, seconds=_REFIT_SECONDS, refuses=(404, 409, 422),
    ),
    Operation(
        "forget-subject", "POST", f"{_MODEL}/forget-subject", "forget", _forget_subject,
        "Forget all rows of a subject, refit, and destroy the key of its journal.",
        "json", bodies.ErasureBody, bodies.ErasureAnswer, edits=True, seconds=_REFIT_SECONDS, refuses=(404, 422),
    ),
    *_questions(),
    Operation("aliases", "GET", "/v1/aliases", "read", _aliases, "Name the aliases.", gives=bodies.Aliases),
    Operation(
        "set-alias", "PUT", _ALIAS, "admin", _set_alias, "Let a name stand for a model in questions.",
        "json", bodies.AliasBody, bodies.Aliases, edits=True, refuses=(404, 409, 507),
    ),
    Operation(
        "delete-alias", "DELETE", _ALIAS, "admin", _delete_alias, "Let a name stand for no model any more.",
        gives=bodies.Aliases, edits=True, refuses=(404, 422),
    ),
    Operation(
        "lists", "GET", "/v1/lists", "read", _lists, "Name the lists of labels.", gives=bodies.NamedLists,
    ),
    Operation(
        "read-list", "GET", _LIST, "read", _read_list, "Fetch a list of labels.",
        gives=bodies.ListContent, refuses=(404, 422),
    ),
    Operation(
        "set-list", "PUT", _LIST, "admin", _set_list,
        "Replace a list of labels, such as the items in stock, which questions name.",
        "list", bodies.ListBody, bodies.ListDescribed, edits=True, seconds=_FILE_SECONDS, refuses=(507,),
    ),
    Operation(
        "delete-list", "DELETE", _LIST, "admin", _delete_list, "Remove a list of labels.",
        gives=bodies.NamedLists, edits=True, refuses=(404, 422),
    ),
    Operation(
        "snapshot", "POST", f"{_MODEL}/snapshot", "admin", _snapshot, "Write a snapshot now.",
        gives=bodies.SnapshotAnswer, edits=True, seconds=_REFIT_SECONDS, refuses=(404,),
    ),
    Operation(
        "upload", "PUT", f"{_MODEL}/file", "admin", _upload, "Make a model from a model file.",
        "file", None, dict, edits=True, seconds=_FILE_SECONDS, refuses=(409, 422, 507),
    ),
    Operation(
        "audit", "GET", f"{_MODEL}/audit", "audit", _audit, "List edits without their content.",
        gives=bodies.AuditAnswer, query={"after": "The number of the last line that is known; 0 for all."},
    ),
    Operation(
        "download", "GET", f"{_MODEL}/file", "admin", _download, "Fetch a model file.",
        seconds=_FILE_SECONDS, refuses=(404,),
    ),
    *PROTOCOL,
    *PROBES,
    Operation(
        "metrics", "GET", "/metrics", "metrics", _metrics, "Figures for Prometheus.", of_writer=True, probes=True,
    ),
    Operation("openapi", "GET", "/openapi.json", "read", _openapi, "This document.", gives=dict),
    Operation("docs", "GET", "/docs", "read", _docs, "This document, to be read."),
    *PAGES,
)  # fmt: skip


def make_app(
    service: Service, hosts: frozenset[str], *, loopback: bool, addresses: Addresses | None = None, probes: bool = False
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
        if probes and not operation.probes:
            continue
        paths.setdefault(operation.path, {})[operation.method] = Endpoint(service, operation, is_private=is_private)
    most_asked_first = sorted(paths, key=lambda path: path != _PREDICT)  # routes are tried in turn
    routes = [Route(path, PathOperations(paths[path])) for path in most_asked_first]
    router = Router(routes, redirect_slashes=False, default=no_such_path)
    counted = addresses or Addresses(service.limits.address_connections)
    return CrossSiteGuard(router, hosts, loopback=loopback, addresses=counted)
