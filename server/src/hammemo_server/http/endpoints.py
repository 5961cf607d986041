"""One way for every request: who asks, may they, how much, what do they say, what is the answer.

An `Endpoint` is the ASGI application of one `Operation`. The order matters: nothing of a body
is read before the caller, the role, the rate and the declared size are known to be right.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec.structs import replace

from hammemo_server.edits.operations import ServiceError, Unavailable
from hammemo_server.http.bodies import encoded
from hammemo_server.http.deadlines import Late, within
from hammemo_server.http.logs import LOGGER, places
from hammemo_server.http.messages import (
    Answer,
    Call,
    Failed,
    Refused,
    drop_body,
    model_name,
    refusal,
    send_answer,
    take_body,
)
from hammemo_server.http.tokens import NO_CALLER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hammemo_server.http.messages import BodyKind, Receive, Scope, Send
    from hammemo_server.http.service import Lane, Service

log = logging.getLogger(LOGGER)


_EDIT_SECONDS: Final = 60.0
"""How long an edit may take: it is finished also where nothing waits for it."""

_NO_FAULTS: Final = (504, 507)
"""Refusals that are no fault of the server."""

MODEL_PATH: Final = "/v1/models/{model}"

REFIT_SECONDS: Final = 600.0
"""As long as the client waits for a refit."""

FILE_SECONDS: Final = 3600.0
"""As long as a file may be on its way and be read or written; `Limits.file_seconds` is for the
way alone."""

Handler: TypeAlias = "Callable[[Service, Call], Awaitable[Answer | None]]"


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked of the server.

    Parameters
    ----------
    ask : str
        Its name in metrics, logs and the document of the interface.
    method, path : str
    role : str or None
        What the caller must be allowed; None for what needs no token.
    handle : function of a service and a call, which returns an answer
    says : str
        One sentence.
    body : {"none", "json", "tensors", "list", "file"}
        Tensors are JSON, or JSON with bytes behind it. A list is long JSON, which the handler
        reads, as a file.
    takes, gives : type or None
        The types of the bodies.
    edits : bool
        Whether it changes something, so that only the writer does it, and not while the server
        ends.
    of_writer : bool
        Whether workers pass it on to the writer, too, although it changes nothing.
    seconds : float, optional
        How long it may take; by default the service's deadline, or a minute where it edits.
    refuses : tuple of int
        The statuses of refusals that are its own.
    probes : bool
        Whether it is one of those that a health port has, too.
    query : dict of str to str
        Numbers that may follow the path, and what they mean.
    """

    ask: str
    method: str
    path: str
    role: str | None
    handle: Handler
    says: str
    body: BodyKind | Literal["none"] = "none"
    takes: Any = None
    gives: Any = None
    edits: bool = False
    of_writer: bool = False
    seconds: float | None = None
    refuses: tuple[int, ...] = ()
    probes: bool = False
    query: dict[str, str] = field(default_factory=dict)


def make_threaded_handler(
    work: Callable[[Service, Call], Any], lane: Lane = "files", status: int = 200
) -> Handler:
    """Return a handler that does all its work in a thread, and answers with what it returns."""

    async def handle(service: Service, call: Call) -> Answer:
        return Answer(
            await service.in_thread(call, lambda: encoded(work(service, call)), lane), status
        )

    return handle


def _too_long(operation: Operation, seconds: float) -> Refused:
    """Return the refusal of a request that had no answer in time."""
    code = "too_long"
    then = "Send fewer rows, or ask for less."
    if operation.edits:
        code = "unfinished"
        then = "It continues: send it again, with the same op, to see how it ended."
    return Refused(504, code, f"There was no answer within {seconds:g} seconds. {then}")


class Endpoint:
    """Answers the requests of one operation."""

    def __init__(self, service: Service, operation: Operation, *, is_private: bool = False) -> None:
        self._service = service
        self._operation = operation
        self._is_private = is_private
        self._seconds = operation.seconds or max(
            _EDIT_SECONDS if operation.edits else 0.0, service.limits.deadline
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        began = time.perf_counter()
        operation = self._operation
        service = self._service
        call = Call(NO_CALLER, scope, receive, send, is_private=self._is_private)
        entered = ""
        try:
            if operation.role is not None:
                call.caller = service.caller(scope)
                if operation.role not in call.caller.roles:
                    raise Refused(
                        403, "forbidden", f"This token does not have the role {operation.role}."
                    )
                service.admission.enter(call.caller.tenant)
                entered = call.caller.tenant
            call.model = model_name(scope)
            if call.model and operation.role == "read":
                await self._follow_alias(call)
            answer = await self._answer(call)
        except ServiceError as error:
            answer = refusal(error, operation.path)
            await drop_body(call)
        except Exception as error:
            name = type(error).__name__
            where = places(error)
            if isinstance(error, Failed):  # in another process
                name = error.error
                where = error.places
            facts = {"ask": operation.ask, "error": name, "places": where}
            log.error("failed", extra={"facts": facts})
            answer = refusal(
                Refused(500, "failed", "The server failed; its log says where."), operation.path
            )
        finally:
            if entered:
                service.admission.leave(entered)
        if answer is not None and "alias" in call.facts:
            answer = replace(
                answer, headers=(*answer.headers, (b"x-hammemo-model", call.model.encode()))
            )
        # else uvicorn closes the connection: half an answer is none
        if answer is not None and not call.has_begun:
            await send_answer(send, answer)
        self._note(call, 200 if answer is None else answer.status, time.perf_counter() - began)

    async def _follow_alias(self, call: Call) -> None:
        """Ask the model that an alias stands for.

        Edits name a model, because their ids belong to one.
        """
        model = await self._service.model_behind(call, call.model)
        if model != call.model:
            call.facts["alias"] = call.model
            call.model = model

    def _note(self, call: Call, status: int, seconds: float) -> None:
        """Count and log an answer."""
        tenant = call.caller.tenant
        ask = self._operation.ask
        if tenant:
            self._service.metrics.count(tenant, ask, status, seconds)
        level = logging.ERROR if status >= 500 and status not in _NO_FAULTS else logging.INFO
        if log.isEnabledFor(level):
            facts = {
                "ask": ask,
                "tenant": tenant,
                "model": call.model,
                "status": status,
                **call.facts,
            }
            log.log(level, "answered", extra={"facts": facts | {"ms": round(seconds * 1e3, 3)}})

    async def _answer(self, call: Call) -> Answer | None:
        operation = self._operation
        service = self._service
        if operation.edits and service.draining:
            raise Unavailable("The server is stopping: send this again later.")
        if operation.body != "none":
            await take_body(call, operation.body, service.limits)
        handling: Awaitable[Answer | None]
        if (operation.edits or operation.of_writer) and service.forward is not None:
            handling = service.forward(call, self._seconds)
        else:
            handling = operation.handle(service, call)
        try:
            return await within(self._seconds, handling)
        except Late:
            raise _too_long(operation, self._seconds) from None


class PathOperations:
    """The operations of one path, by method."""

    def __init__(self, endpoints: dict[str, Endpoint]) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; HEAD is answered as GET, and the server leaves out the body."""
        method = scope["method"]
        endpoint = self._endpoints.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            refused = Refused(405, "method_not_allowed", "This path does not take this method.")
            await send_answer(send, refusal(refused, scope["path"]))
        else:
            await endpoint(scope, receive, send)


async def no_such_path(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
    """Refuse a request for a path that is none."""
    await send_answer(
        send, refusal(Refused(404, "not_found", "There is nothing at this path."), scope["path"])
    )
