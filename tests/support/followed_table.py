"""A table of a real PostgreSQL for tests of followers, and the fit that theirs must equal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from hammemo import load
from hammemo.follow.follower import Follower, FollowOptions
from hammemo.follow.targets import FileTarget, first_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hammemo.follow.served import Target

CREATE = "create table {} (id int primary key, plan text, calls int, spend float8, churned text)"
FILL = (
    "insert into {} select g, (array['a','b','c'])[1 + g %% 3], g %% 17, g %% 5, "
    "case when g %% 5 < 2 then 'yes' else 'no' end from generate_series(%s::int, %s::int) g"
)
COLUMNS = ("plan", "calls", "spend")


class FollowedTable:
    """A table and a model file that follows it; `told` is what the follower said."""

    def __init__(self, address: str, folder: Path, name: str, **options: Any) -> None:
        self.address = address
        self.folder = folder
        self.name = name
        self.options = FollowOptions(**{"label": "churned", "columns": COLUMNS, **options})
        self.path = folder / f"{name}.model"
        self.told: list[dict[str, Any]] = []
        self.db = psycopg.connect(address, autocommit=True)

    def sql(self, *statements: str) -> None:
        """Run statements; {} stands for the table."""
        for statement in statements:
            self.db.execute(statement.replace("{}", self.name))

    def create(self, rows: int = 100) -> None:
        """Make the table, with REPLICA IDENTITY FULL."""
        self.sql(CREATE, "alter table {} replica identity full")
        self.fill(1, rows)

    def fill(self, first: int, last: int) -> None:
        """Insert rows with these numbers."""
        self.db.execute(FILL.replace("{}", self.name), (first, last))

    def target(self) -> Target:
        """Return the model."""
        return FileTarget(self.path)

    def follower(self, **more: Any) -> Follower:
        """Return a follower."""
        return Follower(
            self.address,
            self.name,
            self.target(),
            self.options,
            tell=lambda _, facts: self.told.append(facts),
            **more,
        )

    def once(self, **more: Any) -> list[dict[str, Any]]:
        """Follow to the end of the log; return what was told, without warnings."""
        self.told.clear()
        with following(self.follower(**more)) as follower:
            follower.run(once=True)
        return [facts for facts in self.told if facts["event"] != "warning"]

    def events(self) -> list[str]:
        """Follow to the end of the log; return what happened, in order."""
        return [facts["event"] for facts in self.once()]

    def fit(self) -> Any:
        """Return a new fit of the table's rows, or None if it has none."""
        with following(self.follower()) as follower:
            follower._open()
            table = follower._columns.join(follower.source.rows(follower._columns))
        if len(table.labels) == 0:
            return None
        return first_model(follower._columns, table)

    def is_equal(self) -> bool:
        """Return whether the model, refitted, is a new fit of the table, to the byte."""
        model = load(self.path)
        new_fit = self.fit()
        if new_fit is None:
            return int(model.state.n_examples) == 0
        return bool(model.refit().digest() == new_fit.digest())

    def close(self) -> None:
        """Drop the slot and the table."""
        with following(self.follower()) as follower:
            follower.drop()
        self.sql("drop table if exists {} cascade")
        self.db.close()


@contextmanager
def following(follower: Follower) -> Iterator[Follower]:
    """Close a follower's connection at the end of a block."""
    try:
        yield follower
    finally:
        follower.source.close()
