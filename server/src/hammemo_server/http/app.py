"""The application: everything that can be asked, as one table of operations.

Routes, roles, the document of the interface and the tests of who may call what all come from
the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.routing import Route, Router

from hammemo_server.http import messages, metrics
from hammemo_server.http.addresses import Addresses
from hammemo_server.http.bodies import encoded
from hammemo_server.http.cross_site import CrossSiteGuard
from hammemo_server.http.edit_operations import EDITS
from hammemo_server.http.endpoints import (
    MODEL_PATH,
    Endpoint,
    Operation,
    PathOperations,
    no_such_path,
)
from hammemo_server.http.inference_protocol import PROTOCOL
from hammemo_server.http.messages import Answer, Call
from hammemo_server.http.model_operations import FILES, MODELS
from hammemo_server.http.name_operations import NAMES
from hammemo_server.http.openapi import document, page_of
from hammemo_server.http.pages import PAGES
from hammemo_server.http.probes import PROBES
from hammemo_server.http.question_operations import QUESTIONS

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hammemo_server.http.service import Service


async def _metrics(service: Service, call: Call) -> Answer:
    text = await service.in_thread(call, lambda: service.metrics.text(call.caller.tenant), "lists")
    return Answer(text, content_type=metrics.CONTENT_TYPE.encode())


async def _openapi(service: Service, call: Call) -> Answer:  # noqa: ARG001
    return Answer(encoded(document(OPERATIONS)))


async def _docs(service: Service, call: Call) -> Answer:  # noqa: ARG001
    page = page_of(document(OPERATIONS), service.limits)
    return Answer(page, content_type=b"text/html; charset=utf-8", headers=messages.PAGE_HEADERS)


OPERATIONS: Final = (
    *MODELS,
    *EDITS,
    *QUESTIONS,
    *NAMES,
    *FILES,
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
    most_asked_first = sorted(paths, key=lambda path: path != f"{MODEL_PATH}/predict")
    routes = [Route(path, PathOperations(paths[path])) for path in most_asked_first]
    router = Router(routes, redirect_slashes=False, default=no_such_path)
    counted = addresses or Addresses(service.limits.address_connections)
    return CrossSiteGuard(router, hosts, loopback=loopback, addresses=counted)
