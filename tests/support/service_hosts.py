"""Hosts of models, with a log of either kind: a fixture; the test module imports `postgres` beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hammemo.service.host import Host
from postgres_server import Server, needs_postgres, one_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[needs_postgres, one_server])])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Return a function that opens the same models again and again; all are closed in the end."""
    log = None
    if request.param == "postgres":
        server: Server = request.getfixturevalue("postgres")
        log = server.address
    made: list[Host] = []

    def make(**options: Any) -> Host:
        made.append(Host(tmp_path / "models", log, **options))
        return made[-1]

    first = make()
    for tenant in first.tenants():
        for name in first.names(tenant):
            first.delete(tenant, name)
    first.close()
    yield make
    for host in made:
        host.close()
