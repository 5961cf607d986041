"""Edits and queries together for a long time: ``service_soak.py SECONDS [WORKERS]``.

Each of four editors has a token of its own and goes through labels: it learns (token, label i), then forgets (token,
label i - 1). So at any time its token has one label, or two of equal count. Four askers ask for the label of such a
token, some of them for a version that an editor has been told, and write down the version of the answer. An answer is
right if, after the edits up to its version, the token had that label: what that is follows from the acknowledgements
alone. Every tenth of the time the memory of the server and the median and 99 % of the latencies are noted; both
must stay level.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from hammemo.client import Client
from running_servers import Process
from service_malformed import memory_of

EDITORS = 4
LABELS = 50


class Editor:
    """Goes through labels with one token."""

    def __init__(self, url: str, number: int) -> None:
        self.token = f"token {number}"
        self.versions: list[int] = []
        self.states: list[tuple[str, ...]] = []
        self._client = Client(url)

    def begin(self) -> None:
        """Learn the first label."""
        self._note("learn", 0, (self._label(0),))

    def run(self, until: float) -> None:
        """Edit until the time is over; two labels at a time, then one."""
        i = 0
        while time.monotonic() < until:
            i += 1
            self._note("learn", i, (self._label(i - 1), self._label(i)))
            self._note("forget", i - 1, (self._label(i),))
        self._client.close()

    def _label(self, i: int) -> str:
        return f"label {i % LABELS:03}"

    def _note(self, kind: str, i: int, after: tuple[str, ...]) -> None:
        acknowledgement = getattr(self._client, kind)("m", [[self.token]], [self._label(i)])
        self.states.append(after)
        self.versions.append(acknowledgement.version)  # last: who sees the version sees the state

    def at(self, version: int) -> tuple[str, ...]:
        """Return the labels that the token had at a version."""
        return self.states[bisect_right(self.versions, version) - 1]


class Asker:
    """Asks and writes down what it is told, with how long that took."""

    def __init__(self, url: str, editors: list[Editor]) -> None:
        self._client = Client(url)
        self._editors = editors
        self.told: list[tuple[Editor, int, str]] = []
        self.taken: list[tuple[float, float]] = []

    def run(self, until: float) -> None:
        """Ask until the time is over."""
        turn = 0
        while time.monotonic() < until:
            editor = self._editors[turn % EDITORS]
            turn += 1
            least = editor.versions[-1] if turn % 3 == 0 else editor.versions[0]
            began = time.monotonic()
            answer = self._client.ask("m", "predict", [[editor.token]], min_version=least)
            self.taken.append((began, time.monotonic() - began))
            if answer["version"] < least:
                raise AssertionError(f"version {answer['version']} was given for {least}")
            self.told.append((editor, answer["version"], answer["labels"][0]))
        self._client.close()


def run(seconds: float, workers: int, folder: Path) -> dict[str, Any]:
    """Let editors and askers work together, then check every answer."""
    with Process(folder, "--log-level", "error", "--workers", str(workers), "--snapshot-seconds", "10") as server:
        with Client(server.url) as client:
            client.create("m", columns=1, vote="sum")
        editors = [Editor(server.url, number) for number in range(EDITORS)]
        for editor in editors:
            editor.begin()
        askers = [Asker(server.url, editors) for _ in range(EDITORS)]
        begin = time.monotonic()
        failed: list[BaseException] = []
        threads = [_watched(worker, begin + seconds, failed) for worker in (*editors, *askers)]
        sizes = []
        for part in range(10):
            time.sleep(max(0.0, begin + seconds * (part + 1) / 10 - time.monotonic()))
            sizes.append(round(memory_of(server.pid) / 2**20))
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
    told = [entry for asker in askers for entry in asker.told]
    wrong = sum(label != min(editor.at(version)) for editor, version, label in told)
    parts: list[list[float]] = [[] for _ in range(10)]
    for asker in askers:
        for at, taken in asker.taken:
            parts[min(int(10 * (at - begin) / seconds), 9)].append(taken)
    return {
        "seconds": seconds,
        "edits": sum(len(editor.versions) for editor in editors),
        "answers": len(told),
        "wrong": wrong,
        "MiB": sizes,
        "p50 ms": [round(1e3 * statistics.median(part), 2) if part else None for part in parts],
        "p99 ms": [round(1e3 * statistics.quantiles(part, n=100)[98], 2) if len(part) > 1 else None for part in parts],
    }


def _watched(worker: Any, until: float, failed: list[BaseException]) -> threading.Thread:
    def work() -> None:
        try:
            worker.run(until)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def main() -> None:
    """Run and print."""
    given = [int(text) for text in sys.argv[1:]]
    seconds, workers = given + [10, 0][len(given) :]
    with tempfile.TemporaryDirectory() as folder:
        found = run(seconds, workers, Path(folder))
    print(found)
    if found["wrong"] or (seconds >= 60 and found["MiB"][-1] > 1.1 * found["MiB"][2] + 5):
        sys.exit("an answer was not that of its version, or the memory has grown")


if __name__ == "__main__":
    main()
