"""The outermost layer.

Requests that pages of other sites could have made are refused before anything else.

A page of any site may let a browser send requests to an address of this machine or network.
What stops it:

- **Host**: the name that the browser believes to talk to must be one of the server's own. A
  name of an attacker's that was made to point here (DNS rebinding) is none. An address in
  numbers cannot be made to point anywhere else.
- **Origin** and **Sec-Fetch-Site**, which browsers add by themselves, must not name another site.
- A request with both Content-Length and Transfer-Encoding is refused, and its connection is closed.
- Nothing is allowed to other origins (no CORS), no cookie is ever set or read, and bodies must
  be declared as JSON, for which a browser asks first and gets no permission. Tensors of the
  Open Inference Protocol, which change nothing, may come without a type.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from hammemo_server.edits.operations import ServiceError, TooMany
from hammemo_server.http.messages import Refused, header, refusal, send_answer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from hammemo_server.http.addresses import Addresses

_HOST: Final = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::[0-9]{1,5})?", re.ASCII)


class CrossSiteGuard:
    """Refuses requests for other hosts and from pages of other sites.

    Parameters
    ----------
    app : ASGIApp
    hosts : frozenset of str
        Names under which the server may be called, in small letters.
    loopback : bool
        Whether the server listens on a loopback address only: then other addresses in numbers
        are refused, too.
    addresses : Addresses
        Counts requests that come through a trusted proxy.
    """

    def __init__(
        self, app: ASGIApp, hosts: frozenset[str], *, loopback: bool, addresses: Addresses
    ) -> None:
        self._addresses = addresses
        self._app = app
        self._hosts = hosts
        self._loopback = loopback
        self._may_be_called = lru_cache(1_000)(self._is_name_of_server)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check(scope)
            address = self._addresses.client_behind_proxy(scope)
            if address is not None and not self._addresses.enter(address):
                raise TooMany("Too many requests of this address are being answered.")
        except ServiceError as error:
            await send_answer(send, refusal(error, scope.get("path", "")))
            return
        try:
            await self._app(scope, receive, send)
        finally:
            if address is not None:
                self._addresses.leave(address)

    def _check(self, scope: Any) -> None:
        if (
            header(scope, b"transfer-encoding") is not None
            and header(scope, b"content-length") is not None
        ):
            # A proxy may have taken the other one for the end of the body: what follows is of
            # unknown origin.
            raise Refused(
                400, "bad_request", "A request has a length or a transfer encoding, not both."
            )
        host = header(scope, b"host") or b""
        if not self._may_be_called(host):
            raise Refused(421, "unknown_host", "The server is not known under this host name.")
        origin = header(scope, b"origin")
        is_foreign = origin is not None and not self._is_own(origin.lower(), host.lower())
        if header(scope, b"sec-fetch-site") in (b"cross-site", b"same-site"):
            followed = scope["method"] == "GET" and header(scope, b"sec-fetch-mode") == b"navigate"
            is_foreign |= not followed  # following a link is no request of the page that has it
        if is_foreign:
            raise Refused(403, "other_site", "Pages of other sites may not use this server.")

    def _is_own(self, origin: bytes, host: bytes) -> bool:
        """Return whether an origin is this server's page.

        Behind a proxy the page may have another name.
        """
        place = origin.split(b"://")[-1]
        if place == host:
            return True
        return not self._loopback and place.split(b":")[0].decode("latin-1") in self._hosts

    def _is_name_of_server(self, host: bytes) -> bool:
        match = _HOST.fullmatch(host.decode("latin-1").lower())
        if match is None:
            return False
        name = match.group(1)
        try:
            address = ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return name.rstrip(".") in self._hosts
        return address.is_loopback or not self._loopback
