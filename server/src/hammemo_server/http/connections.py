"""Connections that cannot be held open by saying nothing.

uvicorn waits without end for the head of a request. Here a connection is closed when no head is
complete within `head_seconds`: after it was opened, and after each answer once the next request
has begun. A connection more than `connections` is closed at once, and so is one of an address
that has `address_connections` already. What is no HTTP gets the same form of error as
everything else.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from hammemo_server.http.bodies import ErrorAnswer, ErrorFacts, encoded

if TYPE_CHECKING:
    from hammemo_server.edits.limits import Limits
    from hammemo_server.http.addresses import Addresses


class JoinedHead:
    """A transport that sends the head of an answer with the first part of its body.

    One call of the system, not two.
    """

    def __init__(self, transport: asyncio.Transport, closing_seconds: float | None = None) -> None:
        self._transport = transport
        self._closing_seconds = closing_seconds
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write; a head waits for the next call, but for "100 Continue", which has no body."""
        if not self._head and data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 1"):
            self._head = data
        elif data or self._head:  # the end of a message has no bytes
            self._transport.write(self._head + data)
            self._head = b""

    def close(self) -> None:
        """Write what waits, and close.

        A peer that never reads it is not waited for longer than `closing_seconds`.
        """
        if self._head:
            self.write(b"")
        self._transport.close()
        if self._closing_seconds is not None:
            asyncio.get_running_loop().call_later(self._closing_seconds, self._transport.abort)


def protocol(limits: Limits, addresses: Addresses) -> type[asyncio.Protocol]:  # noqa: C901  a class
    """Return the class of connections with these limits, as uvicorn wants it."""

    class Connection(H11Protocol):
        _late: asyncio.TimerHandle | None = None
        _address: str | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(
                cast("asyncio.Transport", JoinedHead(transport, limits.head_seconds))
            )
            address = addresses.peer(self.client[0] if self.client else None)
            if len(self.connections) > limits.connections or not (
                address is None or addresses.enter(address)
            ):
                transport.abort()
            else:
                self._address = address
                self._wait_for_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            if self._address is not None:
                addresses.leave(self._address)
                self._address = None
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_waiting()  # a head has come; for the body there is another limit
            elif self._late is None and not self.transport.is_closing():
                self._wait_for_head()

        def _wait_for_head(self) -> None:
            self._late = asyncio.get_running_loop().call_later(limits.head_seconds, self._too_late)

        def _stop_waiting(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def _too_late(self) -> None:
            self._late = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()

        def timeout_keep_alive_handler(self) -> None:
            super().timeout_keep_alive_handler()
            # Closing waits until the peer has read everything; one that never reads is not
            # waited for.
            asyncio.get_running_loop().call_later(limits.head_seconds, self.transport.abort)

        def send_400_response(self, msg: str) -> None:
            body = encoded(ErrorAnswer(ErrorFacts(400, "bad_request", msg)))
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                    self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

    return Connection
