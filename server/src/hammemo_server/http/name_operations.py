"""Names of a tenant beside its models: aliases, which stand for models, and lists of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from hammemo_server.edits.operations import check_name
from hammemo_server.http import bodies, messages
from hammemo_server.http.bodies import decode, encoded
from hammemo_server.http.endpoints import FILE_SECONDS, Operation, make_threaded_handler
from hammemo_server.http.messages import Answer, Call, read_body

if TYPE_CHECKING:
    from hammemo_server.http.service import Service
    from hammemo_server.store.log import ListFacts

_alias_decoder: Final = msgspec.json.Decoder(bodies.AliasBody)
_list_decoder: Final = msgspec.json.Decoder(bodies.ListBody)
_ALIAS: Final = "/v1/aliases/{alias}"
_LIST: Final = "/v1/lists/{list}"


def _aliases(service: Service, call: Call) -> bodies.Aliases:
    return bodies.Aliases(service.host.aliases(call.caller.tenant))


def _in_path(call: Call, what: str) -> str:
    """Return the name of an alias or a list, which stands in the path."""
    name: str = call.scope["path_params"][what]
    check_name(what, name)
    return name


def _set_alias(service: Service, call: Call) -> bodies.Aliases:
    alias = _in_path(call, "alias")
    model = decode(_alias_decoder, call.body).model
    check_name("model", model)
    service.host.set_alias(call.caller.tenant, alias, model)
    service.forget_aliases(call.caller.tenant)
    return _aliases(service, call)


def _delete_alias(service: Service, call: Call) -> bodies.Aliases:
    service.host.delete_alias(call.caller.tenant, _in_path(call, "alias"))
    service.forget_aliases(call.caller.tenant)
    return _aliases(service, call)


def _lists(service: Service, call: Call) -> bodies.NamedLists:
    lists = service.host.lists(call.caller.tenant)
    return bodies.NamedLists(
        {name: bodies.ListDescribed(*facts) for name, facts in sorted(lists.items())}
    )


def _read_list(service: Service, call: Call) -> dict[str, Any]:
    facts, items = service.host.read_list(call.caller.tenant, _in_path(call, "list"))
    return {"version": facts.version, "items": msgspec.Raw(items)}


async def _set_list(service: Service, call: Call) -> Answer:
    """Replace a list.

    Its body may be long. So it is read here, and not before the call: only after the tenant is
    known to have room for it, and for few lists of a tenant at a time.
    """
    tenant = call.caller.tenant
    name = _in_path(call, "list")
    limits = service.limits
    size = messages.check_declared_length(call.scope, limits.list_body)
    await service.in_thread(call, lambda: service.host.check_room(tenant, size, name), "lists")
    async with service.sending_list(tenant):
        call.body = await read_body(call, limits.list_body, limits.list_seconds)

        def replace_list() -> ListFacts:
            items = decode(_list_decoder, call.body).items
            call.body = b""  # frees it before the list is stored: the items are as large again
            return service.host.set_list(tenant, name, items)

        facts = await service.in_thread(call, replace_list)
    call.facts.update({"list": name, "list_version": facts.version, "items": facts.items})
    return Answer(encoded(bodies.ListDescribed(*facts)))


def _delete_list(service: Service, call: Call) -> bodies.NamedLists:
    service.host.delete_list(call.caller.tenant, _in_path(call, "list"))
    return _lists(service, call)


NAMES: Final = (
    Operation(
        "aliases",
        "GET",
        "/v1/aliases",
        "read",
        handle=make_threaded_handler(_aliases, "lists"),
        says="Name the aliases.",
        gives=bodies.Aliases,
    ),
    Operation(
        "set-alias",
        "PUT",
        _ALIAS,
        "admin",
        handle=make_threaded_handler(_set_alias),
        says="Let a name stand for a model in questions.",
        body="json",
        takes=bodies.AliasBody,
        gives=bodies.Aliases,
        edits=True,
        refuses=(404, 409, 507),
    ),
    Operation(
        "delete-alias",
        "DELETE",
        _ALIAS,
        "admin",
        handle=make_threaded_handler(_delete_alias),
        says="Let a name stand for no model any more.",
        gives=bodies.Aliases,
        edits=True,
        refuses=(404, 422),
    ),
    Operation(
        "lists",
        "GET",
        "/v1/lists",
        "read",
        handle=make_threaded_handler(_lists, "lists"),
        says="Name the lists of labels.",
        gives=bodies.NamedLists,
    ),
    Operation(
        "read-list",
        "GET",
        _LIST,
        "read",
        handle=make_threaded_handler(_read_list),
        says="Fetch a list of labels.",
        gives=bodies.ListContent,
        refuses=(404, 422),
    ),
    Operation(
        "set-list",
        "PUT",
        _LIST,
        "admin",
        handle=_set_list,
        says="Replace a list of labels, such as the items in stock, which questions name.",
        body="list",
        takes=bodies.ListBody,
        gives=bodies.ListDescribed,
        edits=True,
        seconds=FILE_SECONDS,
        refuses=(507,),
    ),
    Operation(
        "delete-list",
        "DELETE",
        _LIST,
        "admin",
        handle=make_threaded_handler(_delete_list),
        says="Remove a list of labels.",
        gives=bodies.NamedLists,
        edits=True,
        refuses=(404, 422),
    ),
)
"""Operations on aliases and lists."""
