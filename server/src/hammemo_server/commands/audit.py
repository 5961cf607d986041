"""``hammemo audit``: the edits of served models, without their content."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from hammemo.cli import options as opt  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.console import UsageError, console, one_line_errors, print_error, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo_server.store.audit import Linked, Start
    from hammemo_server.store.log import Log, Store

_PAGE = 10_000


def audit_folder(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder that hammemo serve uses.")],
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Only this model.", show_default="all")] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Only this tenant.", show_default="all")] = None,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Address of a log in PostgreSQL: postgresql://…",
            envvar="HAMMEMO_LOG",
            show_envvar=False,
        ),
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """List every edit without its content, and check the chain of digests; exit with 1 if it is broken.

    A server may run at the same time. Only the logs are read.
    """
    with one_line_errors():
        if log is None and not folder.is_dir():
            raise UsageError(f"{folder} is no folder: name the one that hammemo serve is given.")
        from hammemo_server.models.host import store_of
        from hammemo_server.store.audit import first_broken

        store = store_of(folder, log, replica=True)
        found = [(*place, *_record(store, *place)) for place in _places(store, tenant, model)]
        if not found:
            raise UsageError(f"{folder} has no such model.")
        broken = {(t, m): first_broken(start, lines) for t, m, start, lines in found}
    if as_json:
        print_json([_facts(t, m, start, lines, broken[t, m]) for t, m, start, lines in found])
    else:
        console().print(_table(found))
    for (t, m), number in broken.items():
        if number is not None:
            print_error(f"The audit record of {t}/{m} is broken: line {number} does not follow from the line before.")
    if any(number is not None for number in broken.values()):
        raise typer.Exit(1)


def _places(store: Store, tenant: str | None, model: str | None) -> Iterator[tuple[str, str]]:
    for t in store.tenants():
        for m in store.names(t):
            if tenant in (None, t) and model in (None, m):
                yield t, m


def _record(store: Store, tenant: str, name: str) -> tuple[Start, list[Linked]]:
    """Return the whole record; lines may leave and come meanwhile, so it is read again if its start moved."""
    log: Log = store.open(tenant, name, replica=True)
    try:
        while True:
            start, lines = log.audit(0, _PAGE)
            while len(lines) % _PAGE == 0 and lines:
                _, more = log.audit(lines[-1].number, _PAGE)
                if not more:
                    break
                lines += more
            if log.audit(0, 1)[0] == start:
                return start, lines
    finally:
        log.close()


def _facts(tenant: str, model: str, start: Start, lines: list[Linked], broken: int | None) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "model": model,
        "start": start.facts(),
        "lines": [line.facts() for line in lines],
        "broken": broken,
    }


def _table(found: list[tuple[str, str, Start, list[Linked]]]) -> Table:
    table = Table("model", "line", "time (UTC)", "token", "kind", "rows", "version", "receipt", "link")
    for tenant, model, _, lines in found:
        for linked in lines:
            line = linked.line
            at = datetime.fromtimestamp(line.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
            receipt, link = line.receipt.hex()[:16], linked.link.hex()[:16]
            cells = (
                f"{tenant}/{model}",
                linked.number,
                at,
                line.token,
                line.kind,
                line.rows,
                line.after,
                receipt,
                link,
            )
            table.add_row(*(Text(str(cell)) for cell in cells))  # as it is: no markup from a token's name
    return table
