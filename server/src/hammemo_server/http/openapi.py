"""The document of the interface (OpenAPI 3.1), from the operations and their types of bodies."""

from __future__ import annotations

import html
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hammemo import __version__
from hammemo_server.edits.operations import NAME
from hammemo_server.http.bodies import ErrorAnswer, TensorErrorAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hammemo_server.edits.limits import Limits
    from hammemo_server.http.endpoints import Operation

_SAYS: Final = {
    400: "What was sent is no request that can be read",
    401: "No token, or one that is not known",
    403: "The token does not have the role, or the request comes from a page of another site",
    404: "There is no such model for this tenant, no such subject in it, or no such list",
    405: "This path does not take this method",
    408: "The body came too slowly",
    409: "Not stored, nothing learnt yet, no examples kept to fit to, "
    "or a model of that name is there",
    410: "The keys of a model with subjects were dropped: a backup was restored in its place",
    413: "More than a limit allows",
    415: "The content type is not the one wanted",
    421: "The server is not known under this host name",
    422: "Malformed, or an op that was used for another edit",
    425: "The version asked for was not reached in time",
    429: "Too many requests of this tenant",
    504: "No answer within the time for it; an edit goes on",
    507: "The tenant stores as much as it may",
    503: "The disk is full, the server is stopping or too busy",
}
_NUMBER: Final = {"type": "integer", "minimum": 0}
_NAME: Final = {"type": "string", "pattern": f"^{NAME.pattern}$", "maxLength": 64}
_IN_PATH: Final = {"model": _NAME, "alias": _NAME, "list": _NAME, "version": {"type": "string"}}
_ABOUT: Final = "Models that keep every acknowledged edit."
_EVERYWHERE: Final = (400, 421)
_OF_CALLERS: Final = (401, 403, 410, 429, 503, 504)
_OF_BODIES: Final = (408, 413, 415, 422)


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the whole document."""
    operations = tuple(operations)
    kinds = {kind for operation in operations for kind in (operation.takes, operation.gives)} - {
        dict,
        None,
    }
    ordered = [*sorted(kinds, key=lambda kind: kind.__name__), ErrorAnswer, TensorErrorAnswer]
    schemas, components = msgspec.json.schema_components(
        ordered, ref_template="#/components/schemas/{name}"
    )
    of_kind = defaultdict(lambda: {"type": "object"}, zip(ordered, schemas, strict=True))
    paths: dict[str, Any] = {}
    for operation in operations:
        if operation.ask not in ("page", "script", "style", "icon"):
            paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(
                operation, of_kind
            )
    return {
        "openapi": "3.1.0",
        "info": {"title": "hammemo", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(operation: Operation, of_kind: dict[Any, Any]) -> dict[str, Any]:
    statuses = {*operation.refuses, *_EVERYWHERE}
    if operation.role:
        statuses.update(_OF_CALLERS)
    if operation.body != "none":
        statuses.update(_OF_BODIES)
    if "{model}" in operation.path:
        statuses.add(404)
    error = TensorErrorAnswer if operation.path.startswith("/v2/") else ErrorAnswer
    refused = {"application/json": {"schema": of_kind[error]}}
    done = "201" if operation.ask in ("create", "upload") else "200"
    described: dict[str, Any] = {
        "operationId": operation.ask,
        "summary": operation.says,
        "responses": {
            done: {"description": "Done", **_content(operation, of_kind)},
            **{
                str(status): {"description": _SAYS[status], "content": refused}
                for status in sorted(statuses)
            },
        },
        "security": [{"token": []}] if operation.role else [],
    }
    if operation.role:
        described["description"] = f"Needs the role {operation.role}."
    in_path = {name: schema for name, schema in _IN_PATH.items() if f"{{{name}}}" in operation.path}
    parameters = [
        *(
            {"name": name, "in": "query", "description": says, "schema": _NUMBER}
            for name, says in operation.query.items()
        ),
        *(
            {"name": name, "in": "path", "required": True, "schema": schema}
            for name, schema in in_path.items()
        ),
    ]
    if parameters:
        described["parameters"] = parameters
    content: dict[str, Any] = {}
    if operation.body in ("json", "list", "tensors"):
        content["application/json"] = {"schema": of_kind[operation.takes]}
    if operation.body in ("file", "tensors"):
        content["application/octet-stream"] = {"schema": {}}
    if content:
        described["requestBody"] = {"required": True, "content": content}
    return described


def _content(operation: Operation, of_kind: dict[Any, Any]) -> dict[str, Any]:
    if operation.gives is not None:
        return {"content": {"application/json": {"schema": of_kind[operation.gives]}}}
    others = {"metrics": "text/plain", "docs": "text/html", "download": "application/octet-stream"}
    return {"content": {others[operation.ask]: {}}} if operation.ask in others else {}


def page_of(document: dict[str, Any], limits: Limits) -> bytes:
    """Return the document as a plain page, without any script."""
    lines = [
        (
            f"{method.upper()} {path}",
            described["summary"],
            described.get("description", ""),
            _body_name(described),
        )
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    ]
    rows = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>" for line in lines
    )
    head = "".join(f"<th>{name}</th>" for name in ("request", "what it does", "role", "body"))
    listed = "".join(f"<li>{name}: {value:,}</li>" for name, value in vars(limits).items())
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>hammemo: the interface</title>"
        "<link rel=stylesheet href=/page.css><main><h1>The interface</h1>"
        "<p>The same for programs, with the form of every body: <code>/openapi.json</code>.</p>"
        f"<table><tr>{head}</tr>{rows}</table><h2>Limits</h2>"
        f"<ul>{listed}</ul></main></html>"
    ).encode()


def _body_name(described: dict[str, Any]) -> str:
    """Return the name of the type of a body, or the content type of another one."""
    for content_type, content in described.get("requestBody", {}).get("content", {}).items():
        return str(content["schema"].get("$ref", content_type)).rsplit("/", 1)[-1]
    return ""
