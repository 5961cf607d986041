"""The page at ``/``: three files of this package, sent as they are, without a token.

They hold nothing of any model. The browser may load nothing from elsewhere and run no script
but this one.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

from hammemo_server.http.endpoints import Operation
from hammemo_server.http.messages import PAGE_HEADERS, Answer, Call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hammemo_server.http.service import Service


def _file(name: str, content_type: bytes) -> Callable[[Service, Call], Awaitable[Answer]]:
    body = (files("hammemo_server.http") / "page" / name).read_bytes()

    async def send(service: Service, call: Call) -> Answer:  # noqa: ARG001
        return Answer(body, content_type=content_type, headers=PAGE_HEADERS)

    return send


PAGES: Final = (
    Operation(
        "page",
        "GET",
        "/",
        None,
        handle=_file("index.html", b"text/html; charset=utf-8"),
        says="A page to try models on.",
    ),
    Operation(
        "script",
        "GET",
        "/page.js",
        None,
        handle=_file("page.js", b"text/javascript; charset=utf-8"),
        says="Its script.",
    ),
    Operation(
        "style",
        "GET",
        "/page.css",
        None,
        handle=_file("page.css", b"text/css; charset=utf-8"),
        says="Its style.",
    ),
    Operation(
        "icon",
        "GET",
        "/icon.svg",
        None,
        handle=_file("icon.svg", b"image/svg+xml"),
        says="Its icon.",
    ),
)
