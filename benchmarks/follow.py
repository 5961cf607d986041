"""What it costs to follow a table.

A change stands beside PostgreSQL's own apply worker; measured is also the lag at 100 changes a
second.

    python benchmarks/follow.py [CHANGES] [SECONDS]

The same changes (half inserts, a third updates, the rest deletes, in transactions of 10) are
applied by a subscription to a second table of another database of the same server, and by `hammemo
follow --once`. Both start with the changes in the log.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "server/tests/support")]

import psycopg  # noqa: E402

from followed_table import FollowedTable, following  # noqa: E402
from postgres_server import server  # noqa: E402


def write(db: psycopg.Connection[Any], changes: int, first: int) -> None:
    """Change rows: half inserts, a third updates, the rest deletes; one row a statement."""
    rng = random.Random(0)
    new_id = first
    live = [number for (number,) in db.execute("select id from costs")]
    for _ in range(changes // 10):
        with db.transaction():
            for _ in range(10):
                what = rng.random()
                at = rng.randrange(len(live))
                if what < 0.5:
                    new_id += 1
                    live.append(new_id)
                    row = (new_id, rng.choice("abc"), rng.randint(0, 30), rng.random())
                    db.execute("insert into costs values (%s, %s, %s, %s, 'yes')", row)
                elif what < 0.83:
                    db.execute(
                        "update costs set spend = %s where id = %s", (rng.random(), live[at])
                    )
                else:
                    live[at], live[-1] = live[-1], live[at]
                    db.execute("delete from costs where id = %s", (live.pop(),))


def apply_worker(address: str, table: FollowedTable, changes: int) -> float:
    """Return seconds in which a subscription applied changes that were in the log."""
    table.db.execute("create database copied")
    copy_address = address.replace("/postgres?", "/copied?")
    with psycopg.connect(copy_address, autocommit=True) as copied:
        copied.execute(
            "create table costs (id int primary key, plan text, calls int, spend float8, "
            "churned text)"
        )
        table.sql(
            "create publication copied for table costs",
            "select pg_create_logical_replication_slot('copied', 'pgoutput')",
        )
        host = address.partition("host=")[2]
        copied.execute(
            f"create subscription copied connection 'host={host} dbname=postgres user=postgres' "
            "publication copied with (create_slot = false, enabled = false, copy_data = false, "
            "slot_name = 'copied')"
        )
        rows = table.db.execute("select * from costs").fetchall()
        with copied.cursor() as cursor:
            cursor.executemany("insert into costs values (%s, %s, %s, %s, %s)", rows)
        write(table.db, changes, 10**6)
        end = table.db.execute("select pg_current_wal_lsn()").fetchone()
        began = time.perf_counter()
        copied.execute("alter subscription copied enable")
        while not table.db.execute(
            "select 1 from pg_replication_slots where slot_name = 'copied' and "
            "confirmed_flush_lsn >= %s",
            end,
        ).fetchone():
            time.sleep(0.01)
        took = time.perf_counter() - began
        copied.execute("drop subscription copied")
    table.sql("drop publication copied")
    return took


def main(changes: int = 20_000, seconds: float = 20.0) -> None:
    with (
        server("wal_level=logical", "fsync=off", "max_slot_wal_keep_size=4GB") as database,
        tempfile.TemporaryDirectory() as folder,
    ):
        table = FollowedTable(database.address, Path(folder), "costs", check_every=0.0, pause=0.05)
        table.create(rows=20_000)
        table.sql("update {} set spend = random()")  # rows differ, so that few changes cancel out
        table.once()
        worker_seconds = apply_worker(database.address, table, changes)
        began = time.perf_counter()
        cpu = time.process_time()
        with following(table.follower()) as follower:
            follower.start()
            end = follower.source.flush()
            while follower._seen < end:
                follower._read(end)
        took = time.perf_counter() - began
        cpu = time.process_time() - cpu
        worker_us, our_us, cpu_us = (1e6 * spent / changes for spent in (worker_seconds, took, cpu))
        print(
            f"{changes:,} changes: PostgreSQL's apply worker {worker_us:.0f} µs a change, "
            f"hammemo follow {our_us:.0f} µs ({cpu_us:.0f} µs of this process)"
        )
        lags = []
        stop = threading.Event()

        def writing() -> None:
            with psycopg.connect(database.address, autocommit=True) as db:
                number = 5 * 10**6
                due = time.perf_counter()
                while not stop.is_set():
                    db.execute("insert into costs values (%s, 'a', 1, 1, 'no')", (number,))
                    number = number + 1
                    due = due + 0.01
                    time.sleep(max(0.0, due - time.perf_counter()))

        writer = threading.Thread(target=writing)
        table.told.clear()
        with following(table.follower()) as follower:
            follower.start()
            follower.step()
            writer.start()
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                follower.step()
                time.sleep(0.05)
            stop.set()
            writer.join()
        lags = [facts["lag_seconds"] for facts in table.told if facts["event"] == "changed"]
        print(
            f"100 changes a second for {seconds:g} s: lag of the file, "
            f"median {statistics.median(lags):.2f} s, worst {max(lags):.2f} s, "
            f"{len(lags)} batches"
        )
        table.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
