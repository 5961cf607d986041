"""Edits over HTTP, sent again and again, while the server is killed: ``service_http_edits.py N [KILLS [CLIENTS]]``.

Clients send N edits in all, of one to three examples; some forget what the same client learnt before. Of all edits 30 %
are delivered twice or more, some of them much later. With KILLS the server is ended by kill -9 that many times,
at moments of chance, and started again on the same port and folder. At the end every edit was acknowledged, with one
version however often it was sent, and the model equals, to the byte, a fresh one that did every edit once.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from hammemo import MemoryClassifier, load
from hammemo.client import Client
from running_servers import Process, free_port

Edit = tuple[str, str, list[list[str]], list[str]]


def edits_of(client: int, n: int) -> list[Edit]:
    """Return the edits of a client: op, kind, rows, labels. What it forgets it has learnt before."""
    draw = random.Random(client)
    made: list[Edit] = []
    held: list[tuple[list[list[str]], list[str]]] = []
    for number in range(n):
        op = f"{client}-{number}"
        if held and draw.random() < 0.3:
            rows, labels = held.pop(draw.randrange(len(held)))
            made.append((op, "forget", rows, labels))
        else:
            size = draw.randint(1, 3)
            rows = [[f"a{draw.randrange(50)}", f"b{draw.randrange(50)}", f"c{client}"] for _ in range(size)]
            labels = [f"label {draw.randrange(8)}" for _ in range(size)]
            held.append((rows, labels))
            made.append((op, "learn", rows, labels))
    return made


class Sender:
    """One client: sends its edits in order, and some of them again."""

    def __init__(self, url: str, number: int, n: int) -> None:
        self.edits = edits_of(number, n)
        self.versions: dict[str, int] = {}
        self.sent = self.repeated = 0
        self._draw = random.Random(-1 - number)
        self._client = Client(url, patience=300, timeout=60)

    def run(self) -> None:
        """Send everything."""
        for number, edit in enumerate(self.edits):
            self._deliver(edit)
            while self._draw.random() < 0.3:  # again, at once or much later
                self._deliver(self.edits[number if self._draw.random() < 0.5 else self._draw.randint(0, number)])
        self._client.close()

    def _deliver(self, edit: Edit) -> None:
        op, kind, rows, labels = edit
        acknowledgement = getattr(self._client, kind)("m", rows, labels, op=op)
        self.sent += 1
        self.repeated += acknowledgement.status == "repeated"
        known = self.versions.setdefault(op, acknowledgement.version)
        if known != acknowledgement.version:
            raise AssertionError(f"edit {op} has the versions {known} and {acknowledgement.version}")


def run(n: int, kills: int, clients: int, folder: Path) -> dict[str, Any]:
    """Send edits, kill the server meanwhile, compare."""
    port = free_port()
    options = ("--port", str(port), "--log-level", "warning", "--snapshot-seconds", "5")
    server = Process(folder, *options)
    with Client(server.url) as client:
        client.create("m", columns=3, seed=0)
        senders = [Sender(server.url, number, n // clients) for number in range(clients)]
        failed: list[BaseException] = []

        def watched(sender: Sender) -> None:
            try:
                sender.run()
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=watched, args=(sender,)) for sender in senders]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        draw = random.Random(0)
        killed = 0
        while killed < kills and any(thread.is_alive() for thread in threads):
            until, share = time.monotonic() + draw.uniform(0.2, 2.0), n * (killed + 1) // (kills + 1)
            while time.monotonic() < until and sum(sender.sent for sender in senders) < share:
                time.sleep(0.005)  # a fast server is killed earlier, so that edits are left for every kill
            server.kill()
            killed += 1
            server = Process(folder, *options)
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
        if failed:
            raise failed[0]
        client.download("m", folder / "downloaded.model")
        told = client.describe("m")
    code = server.end()
    everything = [edit for sender in senders for edit in sender.edits]
    fresh = load(folder / "downloaded.model").empty_like()
    apply_all(fresh, everything)
    versions = sorted(version for sender in senders for version in sender.versions.values())
    return {
        "edits": len(everything),
        "sent": sum(sender.sent for sender in senders),
        "repeated": sum(sender.repeated for sender in senders),
        "kills": killed,
        "seconds": round(seconds, 1),
        "lost": len(everything) - len(versions),
        "choices": told["version"] - len(everything),  # each is a version of its own
        "versions once": len(set(versions)) == len(versions) and 0 <= told["version"] - len(everything) < 12,
        "bytes equal": fresh.memory_.state_bytes() == load(folder / "downloaded.model").memory_.state_bytes(),
        "exit code": code,
    }


def apply_all(model: MemoryClassifier, edits: list[Edit]) -> None:
    """Learn all, then forget all: the order does not matter for what is stored."""
    for kind, work in (("learn", model.partial_fit), ("forget", model.forget)):
        rows = [row for _, what, some, _ in edits if what == kind for row in some]
        labels = [label for _, what, _, some in edits if what == kind for label in some]
        if rows:
            work(rows, labels)


def main() -> None:
    """Run and print."""
    given = [int(text) for text in sys.argv[1:]]
    n, kills, clients = given + [1_000, 0, 16][len(given) :]
    with tempfile.TemporaryDirectory() as folder:
        found = run(n, kills, clients, Path(folder))
    print(found)
    if found["lost"] or not found["versions once"] or not found["bytes equal"] or found["exit code"]:
        sys.exit("an edit was lost, or applied twice")


if __name__ == "__main__":
    main()
