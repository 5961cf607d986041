"""``hammemo audit``: the edits of served models, without their content."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from hammemo.cli import options as opt  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.console import print_error, print_result
from hammemo.cli.options import option
from hammemo_server.commands.backup import Url, models_of

if TYPE_CHECKING:
    from hammemo_server.store.audit import Linked, Start
    from hammemo_server.store.base_log import Store

_PAGE = 10_000


def audit_folder(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder that hammemo serve uses.")
    ],
    model: Annotated[str | None, option("NAME", "Only this model.", "all")] = None,
    tenant: Annotated[str | None, option("NAME", "Only this tenant.", "all")] = None,
    log: Url = None,
    as_json: opt.AsJson = False,
) -> None:
    """List every edit without its content, and check the chain of digests and its end.

    Exit with 1 if it is broken.

    A server may run at the same time. Only the logs are read.
    """
    store, places = models_of(folder, log, tenant, model)
    records = [_AuditRecord.read(store, tenant, model) for tenant, model in places]
    print_result([record.facts() for record in records], _table(records), as_json=as_json)
    for record in records:
        if record.problem:
            print_error(f"The audit record of {record.name} is broken: {record.problem}.")
    if any(record.problem for record in records):
        raise typer.Exit(1)


class _AuditRecord(NamedTuple):
    """The whole audit record of a model."""

    tenant: str
    model: str
    start: Start
    lines: list[Linked]
    broken: int | None
    """The first line that does not follow from the one before."""
    cut: bool
    """Whether lines are missing at the end."""

    @classmethod
    def read(cls, store: Store, tenant: str, model: str) -> _AuditRecord:
        """Return the record and what is wrong with it, as of one moment."""
        from hammemo_server.store.audit import find_first_broken, is_cut
        from hammemo_server.store.log import NEWEST_RECEIPT

        with closing(store.open(tenant, model, replica=True)) as log, log.reading():
            start, lines = log.audit(0, _PAGE)
            page = lines
            while page:
                _, page = log.audit(page[-1].number, _PAGE)
                lines = lines + page
            cut = is_cut(start, lines, log.head(), log.mark(NEWEST_RECEIPT) or b"")
        broken = find_first_broken(start, lines)
        return cls(tenant, model, start, lines, broken=broken, cut=cut)

    @property
    def name(self) -> str:
        """The model and its tenant."""
        return f"{self.tenant}/{self.model}"

    @property
    def problem(self) -> str:
        """What is wrong; nothing if it is whole."""
        if self.broken is not None:
            return f"line {self.broken} does not follow from the line before"
        if self.cut:
            return "lines are missing at its end, up to the newest version or receipt of the model"
        return ""

    def facts(self) -> dict[str, Any]:
        """Return it as JSON says it."""
        return {
            "tenant": self.tenant,
            "model": self.model,
            "start": self.start.facts(),
            "lines": [line.facts() for line in self.lines],
            "broken": self.broken,
            "cut": self.cut,
        }


def _table(records: list[_AuditRecord]) -> Table:
    table = Table(
        "model", "line", "time (UTC)", "token", "kind", "rows", "version", "receipt", "link"
    )
    for record in records:
        for linked in record.lines:
            line = linked.line
            at = datetime.fromtimestamp(line.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
            cells = [
                record.name,
                linked.number,
                at,
                line.token,
                line.kind,
                line.rows,
                line.after,
                line.receipt.hex()[:16],
                linked.link.hex()[:16],
            ]
            # as it is: no markup from a token's name
            table.add_row(*[Text(str(cell)) for cell in cells])
    return table
