"""Kill a follower, its server and PostgreSQL while four connections write; the model must be a new fit of the table.

    python tests/stress/follow_kills.py FOLLOWER_KILLS SERVER_KILLS DATABASE_STOPS ROWS

Each kill comes after the follower has stored a new position. Writers insert, update and delete in transactions of 1 to
8 statements, of which one in ten is rolled back; one of them empties the table now and then. With SERVER_KILLS the
model is on a server, otherwise it is a file. ROWS are left at least at the end.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), *(str(HERE.parents[1] / "server/tests" / name) for name in ("support",))]

import psycopg  # noqa: E402

import forked  # noqa: E402
from followed_table import COLUMNS, FollowedTable  # noqa: E402
from hammemo import MemoryClassifier, load  # noqa: E402
from hammemo.client import Client  # noqa: E402
from hammemo.follow.targets import KEEP  # noqa: E402
from postgres_server import Server  # noqa: E402
from running_servers import Process, free_port  # noqa: E402

_CHANGES = (
    "insert into kills (plan, calls, spend, churned) values (%s, %s, %s, %s)",
    "update kills set plan = %s, calls = %s, spend = %s, churned = %s where id = %s",
    "delete from kills where id = %s",
)


class Writers:
    """Four connections that change the table until `stop`, through crashes of the database."""

    def __init__(self, address: str) -> None:
        self.address, self.done, self._stop = address, 0, threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(seed,), daemon=True) for seed in range(4)]
        for thread in self._threads:
            thread.start()

    def _write(self, seed: int) -> None:
        rng = random.Random(seed)
        while not self._stop.is_set():
            with suppress(psycopg.Error), psycopg.connect(self.address, autocommit=True) as db:
                while not self._stop.is_set():
                    with suppress(psycopg.errors.DeadlockDetected), db.transaction():
                        for _ in range(rng.randint(1, 8)):
                            self._change(db, rng, empties=seed == 0)
                        if rng.random() < 0.1:
                            raise psycopg.Rollback
                    time.sleep(rng.random() * 0.02)
            time.sleep(0.2)

    def _change(self, db: psycopg.Connection[Any], rng: random.Random, *, empties: bool) -> None:
        row = (rng.choice("abc"), rng.randint(0, 30), round(rng.random() * 9, 1), rng.choice(("yes", "no", None)))
        what, key = rng.random(), rng.randint(1, 20_000)
        if what < 0.5:
            db.execute(_CHANGES[0], row)
        elif what < 0.8:
            db.execute(_CHANGES[1], (*row, key))
        elif what < 0.9995 or not empties:
            db.execute(_CHANGES[2], (key,))
        else:
            db.execute("truncate kills")
        self.done += 1

    def end(self) -> None:
        """Stop writing."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


class Follower:
    """``hammemo follow`` in a process; counts what it has stored."""

    def __init__(self, arguments: list[str]) -> None:
        self.stored, self.said = 0, ""
        self._process = forked.Command("hammemo", "follow", *arguments, "--json", "--refit-after", "20")
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self.stored += json.loads(line)["event"] in ("changed", "checked")

    def _read_errors(self) -> None:
        self.said = self._process.stderr.read()

    def await_progress(self, seconds: float = 120.0) -> None:
        """Wait until something more is stored."""
        before, until = self.stored, time.monotonic() + seconds
        while self.stored == before:
            assert self._process.poll() is None, f"the follower ended by itself: {self.said}"
            assert time.monotonic() < until, "no progress"
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        for reader in self._readers:
            reader.join()
        self._process.wait()


def main(follower_kills: int, server_kills: int, stops: int, rows: int) -> int:
    """Run it all; return 0 if the model is a new fit of the table."""
    forked.preload("hammemo.follow.follower", "hammemo.follow.served", "hammemo.cli.follow")
    rng = random.Random(7)
    kills = ["follower"] * follower_kills + ["server"] * server_kills + ["database"] * stops
    rng.shuffle(kills)
    folder = Path(tempfile.mkdtemp(prefix="hammemo-follow-", dir="/tmp"))
    folder.chmod(0o755)
    database = Server(folder / "pg", "wal_level=logical", "max_wal_size=4GB")
    database.make()
    database.start()
    with ExitStack() as stack:
        stack.callback(database.remove)
        table = FollowedTable(database.address, folder, "kills")
        table.sql("create table {} (id serial primary key, plan text, calls int, spend float8, churned text)")
        table.sql("alter table {} replica identity full")
        common = [database.address, "--table", "kills", "--label", "churned", "--columns", ",".join(COLUMNS)]
        server = None
        if server_kills:
            where = ("--port", str(free_port()))
            server = Process(folder / "models", *where)
            target = ["--server", server.url, "--name", "kills"]
        else:
            target = ["--model", str(table.path)]
        writers = Writers(database.address)
        follower = Follower([*common, *target])
        for number, what in enumerate(kills, 1):
            follower.await_progress()
            time.sleep(rng.random() * 0.5)
            if what == "server" and server is not None:
                server.kill()
                server = Process(folder / "models", *where)
            elif what == "database":
                table.db.close()
                database.run("pg_ctl", "stop", "-m", "immediate", "-D", str(database.data))
                database.start()
                table.db = psycopg.connect(database.address, autocommit=True)
            else:
                follower.kill()
                follower = Follower([*common, *target])
            print(f"{number}/{len(kills)} {what}; {writers.done:,} changes", flush=True)
        follower.await_progress()
        writers.end()
        follower.kill()
        table.sql(
            "insert into {} (plan, calls, spend, churned) select 'abc'::char(1), g % 31, g % 90 / 10.0, "
            f"(array['yes', 'no'])[1 + g % 2] from generate_series(1, {rows}) g"
        )
        if server is not None:
            table.sql("delete from {} where id not in (select id from {} limit 5000)")
        printed, said = (last := forked.Command("hammemo", "follow", *common, *target, "--once")).communicate()
        assert last.poll() == 0, said
        print(printed, end="")
        if server is not None:
            with Client(server.url) as client:
                client.download("kills", table.path)
            server.kill()
        fitted = table.fit()
        assert fitted is not None
        same = load(table.path).refit().digest() == fitted.digest()
        n = fitted.state.n_examples
        print(
            f"{len(kills)} kills after progress, {writers.done:,} changes, {n:,} rows left:", "ok" if same else "BROKEN"
        )
        assert isinstance(fitted, MemoryClassifier)
        assert fitted.keep == KEEP
        return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:5])))
