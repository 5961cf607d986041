"""Edits delivered more than once: ``python server/tests/stress/service_once.py EDITS FOLDER [sqlite|postgres] [SEED]``.

Sixteen clients send EDITS edits in all. Three in ten are delivered twice to four times: some copies at the same time,
some when it is acknowledged, some much later and by another client, after the example was forgotten or the model was
snapshotted and restarted. Each edit must be applied once, all its acknowledgements must name one version, and the bytes
must be those of a fresh model. A run stops after about nine minutes; the same command goes on.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hammemo_server.edits.operations import NotStored
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import service_history
from postgres_server import Server

if TYPE_CHECKING:
    from hammemo_server.models.served import ServedModel

CLIENTS = 16
BLOCK = 4
PART_SECONDS = 500


class Clients:
    """Sixteen clients of one model."""

    def __init__(self, model: ServedModel, next_edits: list[int], until: list[int], seed: int) -> None:
        self.model, self.next, self.until, self.seed = model, next_edits, until, seed
        self.counts: Counter[str] = Counter()
        self.late: list[tuple[int, int, int]] = []
        self.lock = threading.Lock()
        self.end = time.monotonic() + PART_SECONDS / 4

    def run(self) -> None:
        """Let all clients send what is theirs; copies for later are left over for the next call."""
        threads = [threading.Thread(target=self._send, args=(client,)) for client in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send(self, client: int) -> None:
        rng, counts = random.Random(f"{self.seed} {client} {self.next[client]}"), Counter[str]()
        while self.next[client] < self.until[client] and time.monotonic() < self.end:
            numbers = range(self.next[client], min(self.next[client] + BLOCK, self.until[client]))
            copies = {number: rng.choice((2, 3, 4)) if rng.random() < 0.3 else 1 for number in numbers}
            at_once = {number: rng.randint(1, n) for number, n in copies.items()}
            sent = {n: [self._edit(client, n) for _ in range(at_once[n])] for n in numbers}
            versions = {number: self._versions(futures, number, counts) for number, futures in sent.items()}
            for number in numbers:
                for _ in range(copies[number] - at_once[number]):
                    if rng.random() < 0.5:
                        self._again(client, number, versions[number], counts)
                    else:
                        with self.lock:
                            self.late.append((client, number, versions[number]))
                counts["edits"] += 1
                counts["delivered twice or more"] += copies[number] > 1
                counts["deliveries"] += copies[number]
            if rng.random() < 0.3:
                self._deliver_late(rng, counts)
            self.next[client] = numbers[-1] + 1
        with self.lock:
            self.counts.update(counts)

    def _edit(self, client: int, number: int) -> Any:
        return self.model.edit(service_history.edit_of(client, number))

    def _versions(self, futures: list[Any], number: int, counts: Counter[str]) -> int:
        """Return the version of an edit that was sent once or more at the same time; 0 for a refused one."""
        if service_history.is_refused(number):
            counts["wrong"] += sum(not isinstance(future.exception(), NotStored) for future in futures)
            return 0
        acknowledgements = [future.result() for future in futures]
        applied = sum(acknowledgement.status == "applied" for acknowledgement in acknowledgements)
        counts["wrong"] += applied != 1 or len({acknowledgement.version for acknowledgement in acknowledgements}) != 1
        return int(acknowledgements[0].version)

    def _again(self, client: int, number: int, version: int, counts: Counter[str]) -> None:
        future = self._edit(client, number)
        if service_history.is_refused(number):
            counts["wrong"] += not isinstance(future.exception(), NotStored)
        else:
            acknowledgement = future.result()
            counts["wrong"] += (acknowledgement.version, acknowledgement.status) != (version, "repeated")

    def _deliver_late(self, rng: random.Random, counts: Counter[str]) -> None:
        """Deliver copies of anybody's edits."""
        for _ in range(3):
            with self.lock:
                if not self.late:
                    return
                entry = self.late.pop(rng.randrange(len(self.late)))
            self._again(*entry, counts)


def main(edits: str, folder: str, log: str = "sqlite", seed: str = "1") -> None:
    """Deliver all edits, with three restarts, and compare."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    file = place / "progress.json"
    empty: dict[str, Any] = {"next": [0] * CLIENTS, "late": [], "counts": {}}
    stored = json.loads(file.read_text()) if file.exists() else empty
    counts: Counter[str] = Counter(stored["counts"])
    next_edits: list[int] = stored["next"]
    late: list[Any] = [tuple(entry) for entry in stored["late"]]
    server = None if log == "sqlite" else Server(Path(tempfile.mkdtemp(prefix="hammemo-pg-", dir="/tmp")))
    if server is not None:
        server.make()
        server.start()
    began = time.monotonic()
    share = [-(-int(edits) // (CLIENTS * BLOCK)) * BLOCK] * CLIENTS
    try:
        for quarter in range(1, 5):
            with Host(
                place / "models", None if server is None else server.address, upkeep=Upkeep(snapshot_edits=10_000)
            ) as host:
                model = host.create("t", "m", service_history.SETTINGS)
                clients = Clients(model, next_edits, [n * quarter // 4 // BLOCK * BLOCK for n in share], int(seed))
                clients.late = late
                clients.run()
                if quarter == 4 and next_edits == clients.until:
                    for entry in clients.late:
                        clients._again(*entry, clients.counts)
                    clients.late = []
                late, state = clients.late, model.state()
                counts.update(clients.counts)
            file.write_text(json.dumps({"next": next_edits, "late": late, "counts": counts}))
    finally:
        if server is not None:
            server.remove()
    assert state.model is not None
    result = service_history.compare_with_history(state.model, next_edits)
    result["version_is_number_of_edits"] = state.version == service_history.count_acknowledged(next_edits)
    rate = counts["deliveries"] / (time.monotonic() - began)
    print(json.dumps({"log": log, **counts, **result, "deliveries_per_second": round(rate)}))
    if counts["wrong"] or not (result["same_bytes"] and result["version_is_number_of_edits"]):
        sys.exit("an edit was lost, or applied twice")
    if next_edits != clients.until:
        sys.exit(f"{sum(next_edits)} of {edits} edits are done: give the same command again")


if __name__ == "__main__":
    main(*sys.argv[1:])
