"""Crashes of a served model: ``python server/tests/stress/service_crashes.py WHAT COUNT FOLDER [sqlite|postgres]
[SEED]``.

WHAT is

- ``kill``: kill -9 of the process while clients write; with PostgreSQL, of the server in every second round;
- ``snapshot``: kill -9 while a snapshot is made. Only those count where the mark of its begin was met and that of its
  end was not;
- ``power``: a power cut. Processes are stopped in the middle of their work, the blocks of the disk, a loop image, are
  copied as they are, and everything goes on from the copy: what was not flushed is lost. Needs root. In place of
  sqlite, ``unflushed`` takes SQLite without flushes: such a run must fail, or the script finds nothing.

After COUNT crashes the model must hold what was acknowledged: nothing lost, nothing twice, the bytes of a fresh model.
A run stops after about nine minutes and says how far it is; the same command with the same FOLDER goes on.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hammemo_server.models.host import Host
from hammemo_server.store import sqlite_log

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import service_child
import service_history
from postgres_server import Server

CLIENTS = 8
PART_SECONDS = 540
MEGABYTES = {"sqlite": 64, "unflushed": 64, "postgres": 300}


class Child:
    """A process that serves; a fork, so that it begins at once. It writes to a pipe, which outlives it."""

    def __init__(self, *arguments: str) -> None:
        self.output, output = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.dup2(output, 1)
                service_child.main(*arguments)
            finally:
                os._exit(1)
        os.close(output)

    def kill(self) -> None:
        """End it as a crash would."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Run:
    """The state of a run, which a file in the folder keeps between its parts."""

    def __init__(self, what: str, folder: Path, log: str, seed: int) -> None:
        self.what, self.folder, self.log = what, folder, log
        self.random = random.Random(f"{seed} {time.time_ns()}" if seed < 0 else seed)
        self.file = folder / "progress.json"
        folder.mkdir(parents=True, exist_ok=True)
        os.chmod(folder, 0o755)
        self.next, self.crashes, self.counts = [0] * CLIENTS, 0, Counter[str]()
        self.image, self.disk = folder / "disk.img", folder / "disk"
        if self.file.exists():
            stored = json.loads(self.file.read_text())
            self.next, self.crashes, self.counts = stored["next"], stored["crashes"], Counter(stored["counts"])
        else:
            self._make_disk()
        self._mount()
        if log == "unflushed":
            _leave_out_flushes()
        self.server = None if log != "postgres" else Server(self.disk / "pg", "full_page_writes=on")
        if self.server is not None:
            if not self.server.data.exists():
                self.server.make()
                os.sync()
            self.server.start()
        self.child: Child | None = None
        self.rest = b""

    @property
    def address(self) -> str:
        return "sqlite" if self.server is None else self.server.address

    def start(self) -> None:
        """Start the process, wait until it is ready."""
        edits = 150 if self.what == "snapshot" else 2000
        self.child = Child(str(self.disk / "models"), self.address, str(edits), *map(str, self.next))
        self.rest = b""
        while not self.counts.pop("ready", 0):
            assert os.waitpid(self.child.pid, os.WNOHANG) == (0, 0), "the process ended"
            self.take_in(0.5, until="ready")

    def take_in(self, wait: float, until: str | None = None) -> bool:
        """Read what the process says, for this many seconds or until a line; return whether the line came."""
        assert self.child is not None
        end = time.monotonic() + wait
        while select.select([self.child.output], [], [], max(end - time.monotonic(), 0))[0]:
            data = os.read(self.child.output, 65536)
            lines = (self.rest + data).split(b"\n")
            self.rest = lines.pop()
            found = [self._note(line.decode()) for line in lines]
            if not data or (until is not None and any(line.startswith(until) for line in found)):
                return bool(data)
        return False

    def _note(self, line: str) -> str:
        kind, *rest = line.split()
        if kind == "ack":
            client, number = int(rest[0]), int(rest[1])
            assert number == self.next[client], line
            self.next[client] += 1
        elif kind == "snapshot":
            self.counts["last mark is " + rest[0]] = 1
            for other in {"begin", "saved", "end"} - {rest[0]}:
                self.counts.pop("last mark is " + other, None)
        else:
            self.counts[kind] += 1
            if kind == "wrong":
                print(line, flush=True)
        return line

    def crash(self) -> bool:
        """Let clients write, then crash; return whether it was the crash that was wanted."""
        return {"kill": self._kill, "snapshot": self._kill_in_snapshot, "power": self._cut}[self.what]()

    def _kill(self) -> bool:
        self.take_in(self.random.uniform(0.2, 1.0))
        if self.server is not None and self.crashes % 2:
            self.server.kill()
            self.take_in(0.05)
            self.server.start()
            if self.crashes % 4 == 1:  # the same process goes on with the new server
                before = sum(self.next)
                while sum(self.next) < before + 20:
                    self.take_in(0.2)
                return True
        self.end_child()
        return True

    def _kill_in_snapshot(self) -> bool:
        if not self.take_in(60, until="snapshot begin"):
            raise AssertionError("no snapshot was made")
        time.sleep(self.random.uniform(0, self.random.choice([0.004, 0.03, 0.2])))
        self.end_child()
        phase = next(name for name in ("begin", "saved", "end") if self.counts.pop(f"last mark is {name}", 0))
        self.counts[f"killed after snapshot {phase}"] += 1
        return phase != "end"

    def _cut(self) -> bool:
        self.take_in(self.random.uniform(0.2, 1.0))
        assert self.child is not None
        os.kill(self.child.pid, signal.SIGSTOP)
        if self.server is not None:
            self.server.signal(signal.SIGSTOP)
        self.take_in(0.02)
        copy = self.folder / "copy.img"
        _run("cp", "--sparse=always", str(self.image), str(copy))
        self.end_child()
        if self.server is not None:
            self.server.kill()
        self._unmount()
        os.replace(copy, self.image)
        self._mount()
        if self.server is not None:
            self.server.start()
        return True

    def end_child(self) -> None:
        """Kill the process, and read what it said before."""
        assert self.child is not None
        self.child.kill()
        self.take_in(1.0)  # to the end of what it wrote
        os.close(self.child.output)
        self.child = None

    def compared(self) -> dict[str, Any]:
        """Open the model once more, and compare it with what was acknowledged."""
        with Host(self.disk / "models", None if self.server is None else self.address) as host:
            model = host.get("t", "m")
            # An edit that was written when its client was killed has no acknowledgement: it is sent again.
            for client, number in enumerate(self.next):
                if not service_history.is_refused(number):
                    error = model.edit(service_history.edit_of(client, number)).exception()
                    self.counts["wrong"] += error is not None  # what it forgets was lost
                self.next[client] += 1
            state = model.state()
            assert state.model is not None
            result = service_history.compare_with_history(state.model, self.next)
            result["edits"] = service_history.count_acknowledged(self.next)
            result["version_is_number_of_edits"] = state.version == result["edits"]
        return result

    def save(self) -> None:
        """Keep how far the run is."""
        self.file.write_text(json.dumps({"next": self.next, "crashes": self.crashes, "counts": self.counts}))

    def finish(self) -> None:
        """Stop what runs."""
        if self.child is not None:
            self.end_child()
        if self.server is not None:
            self.server.stop()
            shutil.rmtree(self.server.sockets, ignore_errors=True)
        self._unmount()

    def _make_disk(self) -> None:
        self.disk.mkdir()
        if self.what == "power":
            _run("truncate", "-s", f"{MEGABYTES[self.log]}M", str(self.image))
            _run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-F", str(self.image))

    def _mount(self) -> None:
        if self.what == "power":
            _run("mount", "-o", "loop,commit=300", str(self.image), str(self.disk))
            os.chmod(self.disk, 0o755)

    def _unmount(self) -> None:
        for _ in range(100):
            if self.what != "power" or subprocess.run(["umount", str(self.disk)], check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError("the disk is still in use")


def _leave_out_flushes() -> None:
    log: Any = sqlite_log
    connected = log.connect

    def unflushed(path: Path, **how: Any) -> Any:
        is_made = path.stat().st_size > 0  # a log is made with flushes: else there is none after the cut
        db = connected(path, **how)
        if is_made:
            db.pragma("synchronous", "off")
        return db

    log.connect = unflushed


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main(what: str, count: str, folder: str, log: str = "sqlite", seed: str = "-1") -> None:
    """Crash until there were this many crashes, or the part is over."""
    began = time.monotonic()
    run = Run(what, Path(folder), log, int(seed))
    try:
        while run.crashes < int(count) and time.monotonic() - began < PART_SECONDS:
            if run.child is None:
                run.start()
            run.crashes += run.crash()
            run.save()
        if run.child is not None:
            run.end_child()
        result = run.compared()
        run.save()
    finally:
        run.finish()
    wrong = run.counts["wrong"] or result["lost"] or result["twice_or_back"]
    wrong = wrong or not (result["same_bytes"] and result["version_is_number_of_edits"])
    print(json.dumps({"what": what, "log": log, "crashes": run.crashes, **result, "counts": dict(run.counts)}))
    if wrong:
        sys.exit("acknowledged edits were lost, applied twice or changed")
    if run.crashes < int(count):
        sys.exit(f"{run.crashes} of {count} crashes are done: give the same command again")


if __name__ == "__main__":
    main(*sys.argv[1:])
