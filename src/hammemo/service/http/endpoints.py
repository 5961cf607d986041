"""One way for every request: who asks, may they, how much, what do they say, what is the answer.

An `Endpoint` is the ASGI application of one `Operation`. The order matters: nothing of a body is read before the
caller, the role, the rate and the declared size are known to be right.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from hammemo.service.http.bodies import ErrorAnswer, ErrorFacts, encoded
from hammemo.service.http.logs import LOGGER, places
from hammemo.service.operations import NAME, NoSuchModel, ServiceError, TooLarge, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from hammemo.service.http.service import Service
    from hammemo.service.http.tokens import Caller

    Scope = Mapping[str, Any]
    Receive = Callable[[], Awaitable[Any]]
    Send = Callable[[Any], Awaitable[None]]

JSON: Final = b"application/json"
_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
PAGE_HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""What a page may do: load files of this server, ask it, and nothing else."""
_DROPPED: Final = 2**23
"""So many bytes of a refused body are read and dropped, within `_DROPPED_SECONDS`."""
_DROPPED_SECONDS: Final = 2.0

log = logging.getLogger(LOGGER)


class Refused(ServiceError):  # noqa: N818  (an answer, named after what it says)
    """A request that is refused before the core sees it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass
class Call:
    """One request, with what is known of it."""

    caller: Caller
    scope: Scope
    receive: Receive
    send: Send
    model: str = ""
    body: bytes = b""
    has_more: bool = True
    """Whether some of the body was not received yet."""
    has_begun: bool = False
    """Whether the handler itself has begun to send an answer."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the log tells of it."""


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


BodyKind = Literal["none", "json", "file"]


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked of the server.

    Parameters
    ----------
    ask : str
        Its name in metrics, logs and the document of the interface.
    method, path : str
    role : str or None
        What the caller must be allowed; None for what anybody may ask who reaches the server.
    handle : function of a service and a call, which returns an answer
    says : str
        One sentence.
    body : {"none", "json", "file"}
    takes, gives : type or None
        The types of the bodies.
    edits : bool
        Whether it changes something, so that only the writer can do it and nobody can while the server ends.
    of_writer : bool
        Whether workers pass it on to the writer, too, although it changes nothing.
    seconds : float
        How long a worker waits for the writer's answer.
    refuses : tuple of int
        The statuses of refusals that are its own.
    """

    ask: str
    method: str
    path: str
    role: str | None
    handle: Callable[[Service, Call], Awaitable[Answer | None]]
    says: str
    body: BodyKind = "none"
    takes: Any = None
    gives: Any = None
    edits: bool = False
    of_writer: bool = False
    seconds: float = 60.0
    refuses: tuple[int, ...] = ()


class Endpoint:
    """Answers the requests of one operation."""

    def __init__(self, service: Service, operation: Operation) -> None:
        self._service = service
        self._operation = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        began = time.perf_counter()
        operation, service = self._operation, self._service
        call = Call(service.nobody, scope, receive, send)
        entered = ""
        try:
            if operation.role is not None:
                call.caller = service.caller(scope)
                if operation.role not in call.caller.roles:
                    raise Refused(403, "forbidden", f"This token has not the role {operation.role}.")
                service.admission.enter(call.caller.tenant)
                entered = call.caller.tenant
            call.model = _model_name(scope)
            answer = await self._answer(call)
        except ServiceError as error:
            answer = refusal(error)
            await _drop_body(call)
        except Exception as error:
            facts = {"ask": operation.ask, "error": type(error).__name__, "places": places(error)}
            log.error("failed", extra={"facts": facts})
            answer = refusal(Refused(500, "failed", "The server failed; its log says where."))
        finally:
            if entered:
                service.admission.leave(entered)
        if answer is not None and not call.has_begun:  # else uvicorn closes the connection: half an answer is none
            await send_answer(send, answer)
        self._note(call, 200 if answer is None else answer.status, time.perf_counter() - began)

    def _note(self, call: Call, status: int, seconds: float) -> None:
        """Count and log an answer."""
        tenant, ask = call.caller.tenant, self._operation.ask
        if tenant:
            self._service.metrics.count(tenant, ask, status, seconds)
        level = logging.ERROR if status >= 500 else logging.INFO
        if log.isEnabledFor(level):
            facts = {"ask": ask, "tenant": tenant, "model": call.model, "status": status, **call.facts}
            log.log(level, "answered", extra={"facts": facts | {"ms": round(seconds * 1e3, 3)}})

    async def _answer(self, call: Call) -> Answer | None:
        operation, service = self._operation, self._service
        if operation.edits and service.draining:
            raise Unavailable("The server is about to end: send this to the next one.")
        if operation.body == "json":
            _check_content_type(call.scope, JSON)
            call.body = await read_body(call, service.limits.body, service.limits.body_seconds)
        elif operation.body == "file":
            _check_content_type(call.scope, b"application/octet-stream")
            _declared(call.scope, service.limits.file)
        if (operation.edits or operation.of_writer) and service.forward is not None:
            return await service.forward(call, operation.seconds)
        return await operation.handle(service, call)


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the value of a header; one that is there twice is refused."""
    found = [value for key, value in scope["headers"] if key == name]
    if len(found) > 1:
        raise Refused(400, "bad_request", f"The header {name.decode()} is there more than once.")
    return found[0] if found else None


def _model_name(scope: Scope) -> str:
    """Return the name of the model in the path; one that no model can have is that of no model."""
    name = scope.get("path_params", {}).get("model")
    if name is None:
        return ""
    if not NAME.fullmatch(name):
        raise NoSuchModel("There is no model of that name: names are 1 to 64 of a-z, 0-9, _ and -.")
    return str(name)


def _check_content_type(scope: Scope, wanted: bytes) -> None:
    given = (header(scope, b"content-type") or b"").split(b";")[0].strip().lower()
    if given != wanted:
        raise Refused(415, "unsupported_media_type", f"The content type must be {wanted.decode()}.")
    if header(scope, b"content-encoding") not in (None, b"identity"):
        raise Refused(415, "unsupported_media_type", "Bodies must not be compressed.")


def _declared(scope: Scope, most: int) -> int | None:
    """Return the declared length of the body, or refuse it before anything is read."""
    given = header(scope, b"content-length")
    if given is None:
        return None
    if not re.fullmatch(rb"[0-9]{1,18}", given):
        raise Refused(400, "bad_request", "The content length is not a number.")
    if int(given) > most:
        raise TooLarge(f"The body has {int(given)} bytes, more than {most}: send parts.")
    return int(given)


async def pieces(call: Call, most: int, seconds: float) -> AsyncIterator[bytes]:
    """Yield the body piece by piece, within its size and its time."""
    _declared(call.scope, most)
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await call.receive()
                call.has_more = message["type"] == "http.request" and message["more_body"]
                if message["type"] != "http.request":
                    raise Refused(400, "disconnected", "The caller has gone.")
                size += len(message["body"])
                if size > most:
                    raise TooLarge(f"The body has more than {most} bytes: send parts.")
                yield message["body"]
                if not call.has_more:
                    return
    except TimeoutError:
        raise Refused(408, "too_slow", f"The body did not come within {seconds:g} seconds.") from None


async def read_body(call: Call, most: int, seconds: float) -> bytes:
    """Return the whole body."""
    return b"".join([piece async for piece in pieces(call, most, seconds)])


async def _drop_body(call: Call) -> None:
    """Read what is left of a refused request, within bounds: who is still sending could not read the answer."""
    left = _DROPPED
    try:
        async with asyncio.timeout(_DROPPED_SECONDS):
            while call.has_more and left > 0:
                message = await call.receive()
                call.has_more = message["type"] == "http.request" and message["more_body"]
                left -= len(message.get("body", b""))
    except TimeoutError:
        return


def code_of(error: ServiceError) -> str:
    """Return the short name of a refusal: NotStored is "not_stored"."""
    return getattr(error, "code", None) or re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()


def refusal(error: ServiceError) -> Answer:
    """Return a refusal in the one form that all of them have."""
    headers: list[tuple[bytes, bytes]] = []
    if error.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="hammemo"'))
    if error.status in (429, 503):
        headers.append((b"retry-after", b"1"))
    if error.status in (400, 408, 413):
        headers.append((b"connection", b"close"))
    body = encoded(ErrorAnswer(ErrorFacts(error.status, code_of(error), str(error))))
    return Answer(body, error.status, JSON, tuple(headers))


async def send_answer(send: Send, answer: Answer) -> None:
    """Send an answer with the headers that all answers have."""
    headers = [
        (b"content-type", answer.content_type),
        (b"content-length", str(len(answer.body)).encode()),
        *_HEADERS,
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
