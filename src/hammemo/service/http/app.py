"""The application: everything that can be asked, as one table of operations.

Routes, roles, the document of the interface and the tests of who may ask what all come from the table. Edits wait for
the core's writer, which makes groups of them; questions get a version from `Service`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.routing import Route, Router

from hammemo.service.http import bodies, metrics
from hammemo.service.http.bodies import decoded, decoded_settings, encoded
from hammemo.service.http.endpoints import Endpoint, Operation, PathOperations, no_such_path
from hammemo.service.http.gate import Gate
from hammemo.service.http.inference_protocol import PROTOCOL
from hammemo.service.http.messages import PAGE_HEADERS, Answer, Call, pieces
from hammemo.service.http.openapi import document, page_of
from hammemo.service.http.pages import PAGES
from hammemo.service.operations import Edit, Kind, Receipt, TooLarge, checked_rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future

    from starlette.types import ASGIApp

    from hammemo.service.hosted import HostedModel
    from hammemo.service.http.answering import ReadyVersion
    from hammemo.service.http.service import Service
    from hammemo.service.limits import Limits

_SETTINGS_BYTES: Final = 2**16
_PIECE: Final = 2**18
_SHORT_BODY: Final = 2**15
"""Longer bodies are decoded in a thread."""
_REFIT_SECONDS: Final = 600.0
"""As long as the client waits for a refit."""
_MAX_LISTED_CLASSES: Final = 1_000
"""The most labels that a description names; it also says how many there are."""


# Edits

_edit_decoder: Final = msgspec.json.Decoder(bodies.EditBody)
_stream_decoder: Final = msgspec.json.Decoder(bodies.StreamBody)
_refit_decoder: Final = msgspec.json.Decoder(bodies.RefitBody)


def _editing(read: Callable[[bytes], Edit]) -> Callable[[Service, Call], Awaitable[Answer]]:
    async def handle(service: Service, call: Call) -> Answer:
        hosted = await service.model(call)

        def hand_over() -> tuple[Edit, Future[Receipt]]:
            edit = read(call.body)
            call.body = b""
            return edit, hosted.edit(edit)

        is_short = len(call.body) <= _SHORT_BODY
        edit, future = hand_over() if is_short else await service.in_thread(hand_over)
        kind = edit.kind
        sizes = {"documents": len(edit.documents)} if edit.documents else {"rows": len(edit.rows)}
        del edit  # its rows are not needed while it waits
        receipt = await service.result_of(future)
        service.metrics.count_edit(call.caller.tenant, call.model, kind, receipt.status, **sizes)
        call.facts |= {"version": receipt.version, **sizes, "edit": receipt.status}
        return Answer(encoded(receipt))

    return handle


def _examples(kind: Kind) -> Callable[[bytes], Edit]:
    def read(sent: bytes) -> Edit:
        body = decoded(_edit_decoder, sent)
        return Edit(body.op, kind, body.rows, body.labels)

    return read


def _documents(kind: Kind) -> Callable[[bytes], Edit]:
    def read(sent: bytes) -> Edit:
        body = decoded(_stream_decoder, sent)
        return Edit(body.op, kind, documents=body.documents)

    return read


def _refit(sent: bytes) -> Edit:
    return Edit(decoded(_refit_decoder, sent).op, "refit")


# Questions

_question_decoder: Final = msgspec.json.Decoder(bodies.Question)
_ranked_decoder: Final = msgspec.json.Decoder(bodies.RankedQuestion)
_top_k_decoder: Final = msgspec.json.Decoder(bodies.TopKQuestion)


async def _read(service: Service, call: Call, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Return a question, checked."""

    def read() -> Any:
        question = decoded(decoder, call.body)
        checked_rows(question.rows, service.limits)
        return question

    return read() if len(call.body) <= _SHORT_BODY else await service.in_thread(read)


async def _predict(service: Service, call: Call) -> Answer:
    question: bodies.Question = await _read(service, call, _question_decoder)
    ready = await service.ready_version(call, question.min_version)
    if len(question.rows) == 1:
        label = ready.predict_one(*ready.cut(question.rows))
        if label is not None:
            return Answer(encoded(bodies.Labels([label], ready.version)))
    return Answer(encoded(await service.in_thread(lambda: ready.predict(question))))


def _question(
    decoder: msgspec.json.Decoder[Any], answer: Callable[[ReadyVersion, Any, Limits], Any]
) -> Callable[[Service, Call], Awaitable[Answer]]:
    async def ask(service: Service, call: Call) -> Answer:
        question = await _read(service, call, decoder)
        ready = await service.ready_version(call, question.min_version)
        return Answer(await service.in_thread(lambda: encoded(answer(ready, question, service.limits))))

    return ask


# Models


async def _list(service: Service, call: Call) -> Answer:
    names = await service.in_thread(lambda: service.host.names(call.caller.tenant))
    return Answer(encoded(bodies.ModelNames(names)))


async def _create(service: Service, call: Call) -> Answer:
    if len(call.body) > _SETTINGS_BYTES:
        raise TooLarge(f"Settings have at most {_SETTINGS_BYTES} bytes.")
    settings = decoded_settings(call.body)
    await _check_number(service, call)
    hosted = await service.in_thread(lambda: service.host.create(call.caller.tenant, call.model, settings))
    return await _described(service, hosted, 201)


async def _check_number(service: Service, call: Call) -> None:
    """Refuse one model more than a tenant may have: each of them has threads and open files."""
    names = await service.in_thread(lambda: service.host.names(call.caller.tenant))
    if call.model not in names and len(names) >= service.limits.models:
        raise TooLarge(f"A tenant may have {service.limits.models} models: delete one first.")


async def _describe(service: Service, call: Call) -> Answer:
    return await _described(service, await service.model(call), 200)


async def _described(service: Service, hosted: HostedModel, status: int) -> Answer:
    def describe() -> bytes:
        facts = hosted.describe(digest=True)
        classes = facts["classes"]
        return encoded({**facts, "n_classes": len(classes), "classes": classes[:_MAX_LISTED_CLASSES]})

    return Answer(await service.in_thread(describe), status)


async def _delete(service: Service, call: Call) -> Answer:
    await service.in_thread(lambda: service.host.delete(call.caller.tenant, call.model))
    service.closed(call)
    return Answer(b"{}")


async def _snapshot(service: Service, call: Call) -> Answer:
    hosted = await service.model(call)
    return Answer(encoded(bodies.SnapshotAnswer(await service.in_thread(hosted.snapshot))))


async def _upload(service: Service, call: Call) -> Answer:
    limits = service.limits
    await _check_number(service, call)
    with service.transfer() as folder:
        path = Path(folder, "model")
        with path.open("wb") as file:
            async for piece in pieces(call, limits.file, limits.file_seconds):
                await service.in_thread(partial(file.write, piece))
        hosted = await service.in_thread(lambda: service.host.upload(call.caller.tenant, call.model, path))
    return await _described(service, hosted, 201)


async def _download(service: Service, call: Call) -> Answer | None:
    """Send a model file piece by piece; a caller who does not read loses the connection."""
    transfer = service.transfer()
    with transfer as folder:
        path = Path(folder, "model")
        await service.in_thread(lambda: service.host.write_file(call.caller.tenant, call.model, path))
        await _begin_file(call, path)
        async with asyncio.timeout(service.limits.file_seconds):
            with path.open("rb") as file:
                piece = await service.in_thread(lambda: file.read(_PIECE))
                while following := await service.in_thread(lambda: file.read(_PIECE)):
                    await call.send({"type": "http.response.body", "body": piece, "more_body": True})
                    piece = following
            transfer.cleanup()  # before the last piece: once the caller has the whole file, no copy is left here
            await call.send({"type": "http.response.body", "body": piece})
    return None


async def _begin_file(call: Call, path: Path) -> None:
    headers = [
        (b"content-type", b"application/octet-stream"),
        (b"content-length", str(path.stat().st_size).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        (b"content-disposition", f'attachment; filename="{call.model}.model"'.encode()),
    ]
    call.has_begun = True
    await call.send({"type": "http.response.start", "status": 200, "headers": headers})


# About the server


async def _metrics(service: Service, call: Call) -> Answer:
    text = await service.in_thread(lambda: service.metrics.text(call.caller.tenant))
    return Answer(text, content_type=metrics.CONTENT_TYPE.encode())


async def _openapi(service: Service, call: Call) -> Answer:  # noqa: ARG001
    return Answer(encoded(document(OPERATIONS)))


async def _docs(service: Service, call: Call) -> Answer:  # noqa: ARG001
    page = page_of(document(OPERATIONS), service.limits)
    return Answer(page, content_type=b"text/html; charset=utf-8", headers=PAGE_HEADERS)


_MODEL: Final = "/v1/models/{model}"
_QUESTION_REFUSALS: Final = (404, 409, 422, 425)

OPERATIONS: Final = (
    Operation("list", "GET", "/v1/models", "read", _list, "Name the models.", gives=bodies.ModelNames),
    Operation(
        "create", "PUT", _MODEL, "admin", _create, "Make an empty model.",
        "json", dict, dict, edits=True, refuses=(409, 422),
    ),
    Operation("describe", "GET", _MODEL, "read", _describe, "Describe a model.", gives=dict, refuses=(404,)),
    Operation("delete", "DELETE", _MODEL, "admin", _delete, "Remove a model.", gives=dict, edits=True, refuses=(404,)),
    Operation(
        "learn", "POST", f"{_MODEL}/learn", "learn", _editing(_examples("learn")), "Learn examples.",
        "json", bodies.EditBody, bodies.EditAnswer, edits=True, refuses=(404, 422),
    ),
    Operation(
        "forget", "POST", f"{_MODEL}/forget", "forget", _editing(_examples("forget")), "Take examples back.",
        "json", bodies.EditBody, bodies.EditAnswer, edits=True, refuses=(404, 409, 422),
    ),
    Operation(  # routes of their own: a body with rows or documents would say in no document which belong together
        "learn-stream", "POST", f"{_MODEL}/learn-stream", "learn", _editing(_documents("learn")),
        "Learn whole documents, in a model that was fitted to documents: every token from the tokens before it.",
        "json", bodies.StreamBody, bodies.EditAnswer, edits=True, refuses=(404, 422),
    ),
    Operation(
        "forget-stream", "POST", f"{_MODEL}/forget-stream", "forget", _editing(_documents("forget")),
        "Take whole documents back, as they were learnt.",
        "json", bodies.StreamBody, bodies.EditAnswer, edits=True, refuses=(404, 409, 422),
    ),
    Operation(
        "refit", "POST", f"{_MODEL}/refit", "forget", _editing(_refit),
        "Choose sites and vote again and fit the weights, by the rows that the model keeps.",
        "json", bodies.RefitBody, bodies.EditAnswer, edits=True, seconds=_REFIT_SECONDS, refuses=(404, 409, 422),
    ),
    Operation(
        "predict", "POST", f"{_MODEL}/predict", "read", _predict, "Answer each row with its most likely label.",
        "json", bodies.Question, bodies.Labels, refuses=_QUESTION_REFUSALS,
    ),
    Operation(
        "top-k", "POST", f"{_MODEL}/top-k", "read",
        _question(_top_k_decoder, lambda ready, question, limits: ready.top_k(question, limits)),
        "Answer each row with its k most likely labels.",
        "json", bodies.TopKQuestion, bodies.RankedLabels, refuses=_QUESTION_REFUSALS,
    ),
    Operation(
        "probabilities", "POST", f"{_MODEL}/probabilities", "read",
        _question(_question_decoder, lambda ready, question, limits: ready.probabilities(question, limits)),
        "Answer each row with the probability of each label.",
        "json", bodies.Question, bodies.Probabilities, refuses=_QUESTION_REFUSALS,
    ),
    Operation(
        "explain", "POST", f"{_MODEL}/explain", "read",
        _question(_ranked_decoder, lambda ready, question, limits: ready.explain(question, limits)),
        "Say which tokens voted for which labels.",
        "json", bodies.RankedQuestion, bodies.Explanations, refuses=_QUESTION_REFUSALS,
    ),
    Operation(
        "certify", "POST", f"{_MODEL}/certify", "read",
        _question(_question_decoder, lambda ready, question, _: ready.certify(question)),
        "Answer each row, and say whether the answer is proven to be the exact classifier's.",
        "json", bodies.Question, bodies.Certificates, refuses=_QUESTION_REFUSALS,
    ),
    Operation(
        "snapshot", "POST", f"{_MODEL}/snapshot", "admin", _snapshot, "Write a snapshot now.",
        gives=bodies.SnapshotAnswer, edits=True, refuses=(404,),
    ),
    Operation(
        "upload", "PUT", f"{_MODEL}/file", "admin", _upload, "Make a model from a model file.",
        "file", None, dict, edits=True, refuses=(409, 422),
    ),
    Operation("download", "GET", f"{_MODEL}/file", "admin", _download, "Fetch a model file.", refuses=(404,)),
    *PROTOCOL,
    Operation("metrics", "GET", "/metrics", "admin", _metrics, "Figures for Prometheus.", of_writer=True),
    Operation("openapi", "GET", "/openapi.json", "read", _openapi, "This document.", gives=dict),
    Operation("docs", "GET", "/docs", "read", _docs, "This document, to be read."),
    *PAGES,
)  # fmt: skip


def make_app(service: Service, hosts: frozenset[str], *, loopback: bool) -> ASGIApp:
    """Return the application as uvicorn runs it.

    Parameters
    ----------
    service : Service
    hosts : frozenset of str
        The names under which the server may be called.
    loopback : bool
        Whether it listens on a loopback address only.
    """
    paths: dict[str, dict[str, Endpoint]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = Endpoint(service, operation)
    routes = [Route(path, PathOperations(endpoints)) for path, endpoints in paths.items()]
    return Gate(Router(routes, redirect_slashes=False, default=no_such_path), hosts, loopback=loopback)
