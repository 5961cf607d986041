"""``hammemo demo``: in one minute, delete a person from a table and its model, and prove it."""

from __future__ import annotations

import csv
import random
import shlex
import sqlite3
import tempfile
from contextlib import ExitStack, chdir, closing, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from hammemo.cli.options import argument

_QUERY: Final = "select plan, calls, months, stays from customers"
_SYNC: Final = f'hammemo sync stays.model --database sqlite:///shop.db --query "{_QUERY}" --refit'
_CUSTOMERS: Final = 500


def run_demo(
    context: typer.Context,
    folder: Annotated[
        Path | None, argument("FOLDER", "Write the files here.", "a new temporary folder")
    ] = None,
) -> None:
    """Follow a table in SQLite, delete a person there, and prove that the model never saw them.

    It prints each command that it runs and what comes out. It needs the extra erase, and no
    database server. With the extra plot it draws a picture, too. The files stay, so that you can
    work on with them.
    """
    from hammemo.receipts.keys import require_ed25519

    require_ed25519()
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="hammemo-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: name a new folder.")
    with chdir(folder), closing(sqlite3.connect("shop.db")) as database:
        _follow_and_delete(context.find_root().command, database)
        _draw()
    typer.echo(f"\nThe table, the model and the receipt are in {folder}")


def _follow_and_delete(hammemo: Any, database: sqlite3.Connection) -> None:
    """Run all commands, in the current folder."""
    _say(
        f"A shop has a table of {_CUSTOMERS} customers. Export it once, and fit a model: who stays?"
    )
    _sql(database, "create table customers (id integer primary key, plan, calls, months, stays)")
    _sql(database, "insert into customers values (?, ?, ?, ?, ?)", _draw_customers(_CUSTOMERS))
    _export(database, "customers.csv")
    _run(hammemo, "hammemo fit customers.csv --label stays --out stays.model")
    _say("The table changes. sync forgets the rows that are gone and learns the new ones.")
    _sql(database, "update customers set months = months + 1 where id <= 20")
    _run(hammemo, _SYNC)
    _say(
        "Customer 17 asks to be deleted. Delete the row in the table, and sync with a signed "
        "receipt."
    )
    _sql(database, "delete from customers where id = 17")
    _run(hammemo, "hammemo keys new keys > operator.pub")
    _run(hammemo, f"{_SYNC} --receipt receipts --keys keys --request customer-17")
    _say("An auditor fits a new model to the table as it is now, and compares the two.")
    _export(database, "remaining.csv")
    _run(
        hammemo,
        "hammemo verify stays.model --rows remaining.csv --receipt receipts --public-key "
        "operator.pub",
    )


def _draw_customers(number: int) -> list[tuple[Any, ...]]:
    """Draw customers: those with few calls and long contracts stay, others less often."""
    generator = random.Random(7)
    rows: list[tuple[Any, ...]] = []
    for customer in range(1, number + 1):
        plan = generator.choice(("basic", "plus", "family"))
        calls = generator.randrange(30)
        months = generator.randrange(1, 60)
        score = months / 20 - calls / 8 + (plan == "family") + generator.gauss(0, 0.7)
        stays = "yes" if score > 0 else "no"
        rows.append((customer, plan, calls, months, stays))
    return rows


def _say(text: str) -> None:
    typer.echo(f"\n{text}")


def _sql(
    database: sqlite3.Connection, statement: str, rows: list[tuple[Any, ...]] | None = None
) -> None:
    """Print a statement and run it, for each row if there are some."""
    comment = ""
    if rows is not None:
        comment = f"  -- {len(rows)} made-up rows"
    typer.echo(f"sqlite> {statement}{comment}")
    with database:
        if rows is None:
            database.execute(statement)
        else:
            database.executemany(statement, rows)


def _export(database: sqlite3.Connection, name: str) -> None:
    """Write what the query returns as CSV."""
    typer.echo(f'$ sqlite3 -csv -header shop.db "{_QUERY}" > {name}')
    with open(name, "w", newline="", encoding="utf-8") as file:
        cursor = database.execute(_QUERY)
        header = [column[0] for column in cursor.description]
        csv.writer(file).writerows([header, *cursor])


def _run(hammemo: Any, line: str) -> None:
    """Print a command and run it in this process; stop if it fails."""
    typer.echo(f"$ {line}")
    command, _, out = line.partition(" > ")
    with ExitStack() as stack:
        if out:
            file = stack.enter_context(open(out, "w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(file))
        arguments = shlex.split(command)[1:]
        exit_code = hammemo.main(arguments, prog_name="hammemo", standalone_mode=False)
    if exit_code:
        raise typer.Exit(exit_code)


def _draw() -> None:
    """Draw which columns the model uses, where matplotlib is installed."""
    from hammemo import load

    _say("One picture: what each column tells about the label.")
    model: Any = load("stays.model")
    try:
        axes = model.report().plot()
    except ModuleNotFoundError:
        typer.echo("It needs matplotlib: pip install 'hammemo[plot]'")
        return
    typer.echo('>>> load("stays.model").report().plot().figure.savefig("stays.png")')
    axes.figure.savefig("stays.png", dpi=150, bbox_inches="tight")
