"""A failover of the database while a server is queried and edited: ``service_failover.py [TIMES]``.

A primary with a synchronous standby, and ``hammemo serve`` with the addresses of both
(``postgresql://…?host=A,B&target_session_attrs=read-write``). Four clients learn, one asks. The primary is killed for
good, and the standby is promoted after two seconds, as an operator or a cluster manager would. The server goes on by
itself. Printed: how long after the promotion the next edit was acknowledged, the longest time between two answers to
questions, and how many acknowledged edits are missing or there twice, which must be none.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from hammemo import MemoryClassifier, load
from hammemo.client import Client
from postgres_server import USER, Server, server
from running_servers import Process

CLIENTS = 4
_BEFORE, _LOST, _AFTER = 3.0, 2.0, 3.0
"""Seconds of work before the primary is killed, until the standby is promoted, and after that."""


class Work:
    """Clients that learn one row after another, and one that asks."""

    def __init__(self, url: str) -> None:
        self.acknowledged: list[tuple[float, str]] = []
        self.answered: list[float] = []
        self._url, self._end = url, threading.Event()
        self._threads = [threading.Thread(target=self._learn, args=(number,)) for number in range(CLIENTS)]
        self._threads.append(threading.Thread(target=self._ask))

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Finish what was begun."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _learn(self, client: int) -> None:
        with Client(self._url, patience=300, timeout=60) as sender:
            number = 0
            while not self._end.is_set():
                row = f"{client}-{number}"
                sender.learn("m", [[row]], ["x"], op=row)
                self.acknowledged.append((time.monotonic(), row))
                number += 1

    def _ask(self) -> None:
        with Client(self._url, patience=300, timeout=60) as asker:
            while not self._end.is_set():
                asker.predict("m", [["0-0"]])
                self.answered.append(time.monotonic())


def failover(folder: Path) -> dict[str, float]:
    """Return what one failover cost."""
    with server("synchronous_standby_names=*", "wal_level=replica") as primary:
        standby = Server(folder / "standby")
        connection = f"host={primary.sockets} user={USER} application_name=standby"
        primary.run("pg_basebackup", "-D", str(standby.data), "-d", connection, "-R", "-X", "stream")
        standby.start()
        try:
            return _measured(folder, primary, standby)
        finally:
            standby.remove()


def _measured(folder: Path, primary: Server, standby: Server) -> dict[str, float]:
    both = f"postgresql://{USER}@/postgres?host={primary.sockets},{standby.sockets}&target_session_attrs=read-write"
    with Process(folder / "models", "--log", both) as served, Client(served.url) as client:
        client.create("m", columns=1, kernel="positional", vote="sum")
        client.learn("m", [["0-0"]], ["x"], op="first")
        work = Work(served.url)
        work.start()
        time.sleep(_BEFORE)
        primary.kill()
        time.sleep(_LOST)
        standby.run("pg_ctl", "promote", "-D", str(standby.data), "-w")
        promoted = time.monotonic()
        while not any(at > promoted for at, _ in work.acknowledged):
            time.sleep(0.01)
        time.sleep(_AFTER)
        work.end()
        client.download("m", folder / "m.model")
    model, rows = load(folder / "m.model"), ["0-0", *(row for _, row in work.acknowledged)]
    assert isinstance(model, MemoryClassifier)
    again = model.empty_like().partial_fit([[row] for row in rows], ["x"] * len(rows))
    next_one = min(at for at, _ in work.acknowledged if at > promoted)
    return {
        "acknowledged": len(rows),
        "seconds_from_promotion_to_the_next_edit": next_one - promoted,
        "longest_wait_of_a_question": max(after - before for before, after in pairwise(work.answered)),
        "rows_too_many": int(model.memory_.label_counts.sum()) - len(rows),
        "same_bytes": float(model.memory_.state_bytes() == again.memory_.state_bytes()),
    }


def main() -> int:
    """Print what failovers cost."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    ended = 0
    for _ in range(times):
        folder = Path(tempfile.mkdtemp(prefix="hammemo-failover-", dir="/tmp"))
        folder.chmod(0o755)  # the user postgres must reach it
        try:
            found = failover(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(json.dumps(found), flush=True)
        ended |= not found["same_bytes"]
    return int(ended)


if __name__ == "__main__":
    sys.exit(main())
