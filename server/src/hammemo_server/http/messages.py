"""Requests and answers: what is known of one, how a body is read, how an answer is sent."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from hammemo_server.edits.operations import NAME, NoSuchModel, ServiceError, TooLarge
from hammemo_server.http.bodies import ErrorAnswer, ErrorFacts, TensorErrorAnswer, encoded
from hammemo_server.http.deadlines import Late, within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping

    from hammemo_server.edits.limits import Limits
    from hammemo_server.http.tokens import Caller

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Any]]
    Send = Callable[[Any], Awaitable[None]]

Result = TypeVar("Result")
BodyKind = Literal["json", "tensors", "list", "file"]
JSON: Final = b"application/json"
BYTES: Final = b"application/octet-stream"
_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
PAGE_HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        b"img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""What a page may do: load files of this server, ask it, and nothing else."""
_MAX_DROPPED_BYTES: Final = 2**23
"""The most bytes of a refused body that are read and dropped, within `_DROPPED_SECONDS`."""
_DROPPED_SECONDS: Final = 2.0
_PIECE: Final = 2**18
"""Bytes of an answer that are sent at a time, each within `_PIECE_SECONDS`."""
_PIECE_SECONDS: Final = 20.0
_BY_NAME: Final = "hammemo.headers"
"""Where the scope of a request keeps its headers by name; None for a name that is there twice."""
_OF_REFUSALS: Final = {
    401: (b"www-authenticate", b'Bearer realm="hammemo"'),
    **dict.fromkeys((429, 503), (b"retry-after", b"1")),
    **dict.fromkeys((400, 408, 413), (b"connection", b"close")),
}
"""The header that a refusal of some statuses has."""


class Refused(ServiceError):  # noqa: N818  (an answer, named after what it says)
    """A request that is refused before the core sees it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Failed(Exception):  # noqa: N818
    """A process failed at a question; it says where in the code."""

    def __init__(self, error: str, places: list[str]) -> None:
        super().__init__(error)
        self.error = error
        self.places = places


@dataclass(slots=True)
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
    is_private: bool = False
    """Whether only the operator can ask here: on the health port, or where there are no tokens."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the log tells of it."""


class Answer(msgspec.Struct, frozen=True):
    """What is sent back."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the value of a header; one that is there twice is refused."""
    by_name = scope.get(_BY_NAME)
    if by_name is None:  # several are read of each request
        by_name = scope[_BY_NAME] = {}
        for key, content in scope["headers"]:
            by_name[key] = None if key in by_name else content
    value: bytes | None = by_name.get(name)
    if value is None and name in by_name:
        raise Refused(400, "bad_request", f"The header {name.decode()} is there more than once.")
    return value


def model_name(scope: Scope) -> str:
    """Return the name of the model in the path; one that no model can have is that of no model."""
    name = scope.get("path_params", {}).get("model")
    if name is None:
        return ""
    if not NAME.fullmatch(name):
        raise NoSuchModel("There is no model of that name: names are 1 to 64 of a-z, 0-9, _ and -.")
    return str(name)


def number_in_query(scope: Scope, name: str) -> int:
    """Return the one number that may follow the path, 0 where there is none.

    Anything else is refused.
    """
    query = scope.get("query_string", b"")
    if not query:
        return 0
    match = re.fullmatch(rb"([a-z]+)=([0-9]{1,18})", query)
    if match is None or match[1] != name.encode():
        raise Refused(
            400, "bad_request", f"After the path only ?{name}=N may stand, a whole number."
        )
    return int(match[2])


def check_content_type(scope: Scope, *allowed: bytes) -> None:
    """Refuse a compressed body, and one of another type; a refusal names the first of them."""
    content_type = (header(scope, b"content-type") or b"").split(b";")[0].strip().lower()
    if content_type not in allowed:
        raise Refused(
            415, "unsupported_media_type", f"The content type must be {allowed[0].decode()}."
        )
    if header(scope, b"content-encoding") not in (None, b"identity"):
        raise Refused(415, "unsupported_media_type", "Bodies must not be compressed.")


def check_declared_length(scope: Scope, max_bytes: int) -> int:
    """Refuse a body that is declared too long, before anything is read.

    Return its length, 0 if none is declared.
    """
    length = header(scope, b"content-length")
    if length is None:
        return 0
    if not length.isdigit() or len(length) > 18:
        raise Refused(400, "bad_request", "The content length is not a number.")
    if int(length) > max_bytes:
        raise TooLarge(f"The body has {int(length)} bytes, more than {max_bytes}: send parts.")
    return int(length)


async def take_body(call: Call, kind: BodyKind, limits: Limits) -> None:
    """Refuse a body by what its headers say, or read it.

    The handlers of lists and files read these themselves.
    """
    types = {"file": (BYTES,), "tensors": (JSON, BYTES, b"")}  # Triton's client says no type at all
    check_content_type(call.scope, *types.get(kind, (JSON,)))
    if kind in ("json", "tensors"):
        call.body = await read_body(call, limits.body, limits.body_seconds)
    else:
        check_declared_length(call.scope, limits.file if kind == "file" else limits.list_body)


async def pieces(call: Call, max_bytes: int, seconds: float) -> AsyncIterator[bytes]:
    """Yield the body piece by piece, within its size and its time."""
    check_declared_length(call.scope, max_bytes)
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while call.has_more:
                piece = await _next_piece(call, size, max_bytes)
                size += len(piece)
                yield piece
    except TimeoutError:
        raise _too_slow(seconds) from None


async def read_body(call: Call, max_bytes: int, seconds: float) -> bytes:
    """Return the whole body; it mostly comes in one piece, for which `pieces` would be slow."""
    check_declared_length(call.scope, max_bytes)

    try:
        return await within(seconds, _whole_body(call, max_bytes))
    except Late:
        raise _too_slow(seconds) from None


async def _whole_body(call: Call, max_bytes: int) -> bytes:
    body_pieces = [await _next_piece(call, 0, max_bytes)]
    size = len(body_pieces[0])
    while call.has_more:
        body_pieces.append(await _next_piece(call, size, max_bytes))
        size += len(body_pieces[-1])
    return body_pieces[0] if len(body_pieces) == 1 else b"".join(body_pieces)


async def _next_piece(call: Call, size: int, max_bytes: int) -> bytes:
    """Return the next piece of a body of which `size` bytes have come."""
    message = await call.receive()
    call.has_more = message["type"] == "http.request" and message["more_body"]
    if message["type"] != "http.request":
        raise Refused(400, "disconnected", "The caller has gone.")
    piece: bytes = message["body"]
    if size + len(piece) > max_bytes:
        raise TooLarge(f"The body has more than {max_bytes} bytes: send parts.")
    return piece


def _too_slow(seconds: float) -> Refused:
    return Refused(408, "too_slow", f"The body did not come within {seconds:g} seconds.")


async def unless_gone(call: Call, work: Coroutine[Any, Any, Result]) -> Result:
    """Return what work returns; cancel it when the caller closes the connection."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_until_gone(call))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Refused(499, "disconnected", "The caller has gone.")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _wait_until_gone(call: Call) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass


async def drop_body(call: Call) -> None:
    """Read what is left of a refused request, within bounds.

    A client that still sends could not read the answer.
    """
    left = _MAX_DROPPED_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(_DROPPED_SECONDS):
            while call.has_more and left > 0:
                message = await call.receive()
                call.has_more = message["type"] == "http.request" and message["more_body"]
                left -= len(message.get("body", b""))


def code_of(error: ServiceError) -> str:
    """Return the short name of a refusal: NotStored is "not_stored"."""
    code: str | None = getattr(error, "code", None)
    return code or re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()


def refusal(error: ServiceError, path: str = "") -> Answer:
    """Return a refusal, to clients of the Open Inference Protocol in the protocol's form."""
    facts = ErrorFacts(error.status, code_of(error), error.public)
    if path.startswith("/v2/"):
        body = encoded(TensorErrorAnswer(facts.message, facts.code))
    else:
        body = encoded(ErrorAnswer(facts))
    headers = (_OF_REFUSALS[error.status],) if error.status in _OF_REFUSALS else ()
    return Answer(body, error.status, JSON, headers)


async def begin_answer(send: Send, answer: Answer, size: int) -> None:
    """Send the head of an answer whose body has so many bytes, with the headers of all answers."""
    about = [(b"content-type", answer.content_type), (b"content-length", b"%d" % size)]
    headers = [*about, *_HEADERS, *answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})


async def send_answer(send: Send, answer: Answer) -> None:
    """Send an answer; a caller who does not read it loses the connection."""
    await begin_answer(send, answer, len(answer.body))
    last = max(0, (len(answer.body) - 1) // _PIECE * _PIECE)
    # a long one at once would keep the event loop busy, and others waiting
    for start in range(0, last, _PIECE):
        piece = answer.body[start : start + _PIECE]
        try:
            async with asyncio.timeout(_PIECE_SECONDS):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:  # the caller does not read: half an answer closes the connection
            return
    await send({"type": "http.response.body", "body": answer.body[last:] if last else answer.body})
