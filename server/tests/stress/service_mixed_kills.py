"""Everything at once over HTTP while processes are killed: ``service_mixed_kills.py KILLS [sqlite|postgres] [SEED]``.

Each of four clients has a model with subjects. It learns, forgets, does both in one step, forgets everything, refits,
and erases subjects; it also makes and deletes models, aliases and lists. Beside them `hammemo backup` and `hammemo
restore` run. At moments of chance the server is killed (kill -9) and started again; two of three of these kills wait
until a subject is being erased. Every second backup and restore is killed inside the function that does it. At the end
every edit was acknowledged once with one version, each model equals, to the byte, a fresh one that has its rows, lists
and aliases are as they were last set, and no file holds the marker of an erased subject. Half of 40 kills or more must
be inside an erasure, a backup or a restore, and at least one of each kind.

The time between two kills grows on a busy machine: else no erasure would end between them.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import forked
import pace
from hammemo import load
from hammemo.client import Client, ServerError
from hammemo.receipts.keys import new_key_file
from postgres_server import Server
from running_servers import Process, free_port

CLIENTS = 4
KINDS = ("learn", "forget", "apply", "everything", "erase", "refit", "again", "others")
WEIGHTS = (30, 12, 20, 1, 16, 1, 10, 4)
COMMAND_KILLS = 1 / 2
PATIENCE = 3600
"""Seconds for which a client sends an edit again: as long as a run takes, for kills follow each other."""
INSIDE = ("killed server in an erasure", "killed backup", "killed restore")
Row = tuple[str, str, str, str]
"""Subject, two tokens and a label."""

_TELLING = """
from hammemo.cli import main
from hammemo_server.models import backups


def telling(function):
    def told(*given, **options):
        print("begins", flush=True)
        done = function(*given, **options)
        print("ends", flush=True)
        return done

    return told


backups.back_up, backups.restore = telling(backups.back_up), telling(backups.restore)
main()
"""
"""The command `hammemo`, which prints when the work of a backup or a restore begins and ends."""


class Worker:
    """One client: what it has sent that was acknowledged is what its model must hold."""

    def __init__(self, url: str, number: int, seed: int) -> None:
        self.number, self.model = number, f"m{number}"
        self.held: Counter[Row] = Counter()
        self.erased: set[str] = set()
        self.acknowledged: list[str] = []
        self.counts: Counter[str] = Counter()
        self.erasing = threading.Event()
        self._draw = random.Random(f"{seed} {number}")
        self._client = Client(url, patience=PATIENCE, timeout=60)
        self._sent: list[tuple[str, Any, int]] = []
        self._serial, self._subject = 0, 1

    def run(self, stop: threading.Event) -> None:
        """Send edits until there were enough kills."""
        self._client.create(self.model, columns=2, seed=1, kernel="positional", vote="sum", subjects="required")
        while not stop.is_set():
            kind = self._draw.choices(KINDS, WEIGHTS)[0]
            if kind in ("forget", "erase") and not self.held:
                continue
            getattr(self, f"_{kind}")()
            self.counts[kind] += 1

    def _new_rows(self) -> list[Row]:
        rows: list[Row] = []
        for _ in range(self._draw.randint(1, 4)):
            if self._draw.random() < 0.4 or self._marker(self._subject) in self.erased:
                self._subject += 1  # the next one was never named before
            subject = self._marker(max(1, self._subject - self._draw.randrange(3)))
            subject = self._marker(self._subject) if subject in self.erased else subject
            rows.append(
                (
                    subject,
                    f"{subject}-{self._draw.randrange(3)}",
                    f"b{self._draw.randrange(9)}",
                    f"l{self._draw.randrange(3)}",
                )
            )
        return rows

    def _marker(self, subject: int) -> str:
        return f"Zq{self.number}x{subject}y"

    def _some_held(self) -> list[Row]:
        held = sorted(self.held.elements())
        return self._draw.sample(held, min(len(held), self._draw.randint(1, 3)))

    def _send(self, kind: str, **given: Any) -> None:
        self._serial += 1
        op = f"{self.number}-{self._serial}"
        done = getattr(self._client, kind)(self.model, op=op, **given)
        self._sent.append((kind, {"op": op, **given}, done.version))

    def _again(self) -> None:
        """Send an old edit once more; what a subject that was erased had learnt is not looked at."""
        if self._sent:
            kind, given, version = self._sent[self._draw.randrange(len(self._sent))]
            done = getattr(self._client, kind)(self.model, **given)
            if (done.version, done.status) != (version, "repeated"):
                raise AssertionError(f"{self.model} {given['op']}: {version}, then {done}")

    def _learn(self) -> None:
        rows = self._new_rows()
        self._send("learn", **_listed(rows))
        self.held.update(rows)

    def _forget(self) -> None:
        rows = self._some_held()
        self._send("forget", **_listed(rows))
        self.held -= Counter(rows)

    def _apply(self) -> None:
        gone, new = self._some_held() if self.held else [], self._new_rows()
        position = f"at {self._serial}"
        parts = {"learn": tuple(_listed(new).values()), "forget": tuple(_listed(gone).values()) if gone else None}
        self._send("apply", **parts, position=position)
        self.held = self.held - Counter(gone) + Counter(new)
        if self._client.describe(self.model)["position"] != position:
            raise AssertionError(f"{self.model} has lost its position")

    def _everything(self) -> None:
        new = self._new_rows()
        self._send("apply", learn=tuple(_listed(new).values()), forget="everything")
        self.held = Counter(new)

    def _erase(self) -> None:
        subject = self._draw.choice(sorted({row[0] for row in self.held}))
        self._serial += 1
        self.erased.add(subject)
        self.erasing.set()
        done = self._client.forget_subject(self.model, subject, op=f"{self.number}-{self._serial}", refit=False)
        self.erasing.clear()
        if done.state != "erased":
            raise AssertionError(f"{subject} is not erased")
        self.acknowledged.append(subject)
        self.held = Counter({row: n for row, n in self.held.items() if row[0] != subject})

    def _refit(self) -> None:
        self._send("refit")

    def _others(self) -> None:
        """Make and delete a model; set an alias and a list, and read them."""
        name, items = f"made{self.number}", [f"l{self._draw.randrange(9)}"]
        self._client.create(name, columns=1)
        self._client.learn(name, [["a"]], ["x"])
        self._client.set_alias(f"alias{self.number}", self.model)
        self._client.set_list(f"list{self.number}", items)
        try:
            self._client.delete(name)
        except ServerError as error:
            if error.status != 404:  # sent again after it was done
                raise
        if self._client.read_list(f"list{self.number}") != items or name in self._client.models():
            raise AssertionError("a list or a deletion was lost")
        if self._client.aliases().get(f"alias{self.number}") != self.model:
            raise AssertionError("an alias was lost")

    def compared(self, folder: Path) -> dict[str, bool]:
        """Return whether the model holds what was acknowledged, to the byte."""
        path = folder / f"{self.model}.model"
        self._client.download(self.model, path)
        found: Any = load(path)
        rows = list(self.held.elements())
        fresh = found.empty_like()
        if rows:
            fresh.partial_fit([list(row[1:3]) for row in rows], [row[3] for row in rows])
        path.unlink()
        return {"same bytes": fresh.memory_.state_bytes() == found.memory_.state_bytes()}


def _listed(rows: list[Row]) -> dict[str, Any]:
    return {
        "rows": [list(row[1:3]) for row in rows],
        "labels": [row[3] for row in rows],
        "subjects": [row[0] for row in rows],
    }


class Backups:
    """Backs models up and restores them under another name; one of three commands is killed at its work."""

    def __init__(self, folder: Path, options: list[str], workers: list[Worker], url: str, seed: int) -> None:
        self.folder, self.options, self.workers = folder, options, workers
        self.counts = Counter[str]()
        self._draw, self._took = random.Random(seed), {"backup": 0.2, "restore": 0.2}
        self._client = Client(url, patience=PATIENCE, timeout=60)
        self._command = folder / "telling.py"
        self._command.write_text(_TELLING)

    def run(self, stop: threading.Event) -> None:
        """Back up and restore again and again."""
        while not stop.is_set():
            worker = self._draw.choice(self.workers)
            if worker.model not in self._client.models():
                time.sleep(0.2)
                continue
            if not self._run("backup", "models", "backups", "--model", worker.model):
                continue
            erased = worker.acknowledged[-20:]
            newest = max(self.folder.glob(f"backups/*/{worker.model}-*.backup"), key=os.path.getmtime)
            restored = self._run("restore", str(newest.relative_to(self.folder)), "models", "--to", "default/copy")
            if restored or "copy" in self._client.models():  # it may be killed after its last step
                self._check(erased)
            for path in self.folder.glob("backups/*/*.backup"):
                if path != newest:
                    path.unlink()

    @property
    def killed(self) -> int:
        """How many backups and restores were killed."""
        return self.counts["killed backup"] + self.counts["killed restore"]

    def _run(self, kind: str, *given: str) -> bool:
        """Run a command; return whether it did its work and ended by itself."""
        command = forked.Command(str(self._command), kind, *given, *self.options, cwd=self.folder)
        is_killed = command.stdout.readline() == "begins\n" and self._draw.random() < COMMAND_KILLS
        began = time.monotonic()
        if is_killed:
            time.sleep(self._draw.uniform(0, self._took[kind]))
            command.kill()
        printed, said = command.communicate()
        if command.wait() == -signal.SIGKILL:
            self.counts[f"killed {kind}"] += "ends" not in printed
            return False
        if command.wait() == 0:
            self._took[kind] = time.monotonic() - began
            self.counts[f"finished {kind}"] += 1
        elif "database is locked" not in said:
            raise AssertionError(f"{kind}: {said[-500:]}")
        return command.wait() == 0

    def _check(self, erased: list[str]) -> None:
        """Refuse a restored model that holds a subject which was erased before; then delete it."""
        for subject in erased:
            try:
                self._client.forget_subject("copy", subject, refit=False)
            except ServerError as error:
                if error.status == 404:
                    continue
                raise
            raise AssertionError(f"{subject} is back after a restore")
        try:
            self._client.delete("copy")
        except ServerError as error:
            if error.status != 404:
                raise


def _holds_any(path: Path, markers: set[bytes]) -> bool:
    data = path.read_bytes()
    return any(marker in data for marker in markers)


def run(kills: int, log: str, folder: Path, seed: int) -> dict[str, Any]:
    """Send edits, kill meanwhile, compare."""
    new_key_file(folder / "keys.json")
    database = None if log == "sqlite" else Server(folder / "pg")
    if database is not None:
        database.make()
        database.start()
    where = [] if database is None else ["--log", database.address]
    options = [
        "--port",
        str(free_port()),
        "--log-level",
        "error",
        "--snapshot-seconds",
        "2",
        "--keys",
        str(folder / "keys.json"),
    ]
    server = Process(folder / "models", *options, *where)
    workers = [Worker(server.url, number, seed) for number in range(CLIENTS)]
    backups = Backups(folder, ["--keys", "keys.json", *where], workers, server.url, seed)
    stop, failed, draw = threading.Event(), list[BaseException](), random.Random(seed)

    def watched(one: Worker | Backups) -> None:
        try:
            one.run(stop)
        except BaseException as error:
            failed.append(error)
            stop.set()

    threads = [threading.Thread(target=watched, args=(one,), daemon=True) for one in (*workers, backups)]
    for thread in threads:
        thread.start()
    counts: Counter[str] = Counter()
    began = time.monotonic()
    while sum(counts.values()) + backups.killed < kills and not failed:
        time.sleep(pace.patience(draw.uniform(0.3, 2.0)))
        inside = False
        if sum(counts.values()) % 3:
            until = time.monotonic() + pace.patience(20)
            while not (inside := any(worker.erasing.is_set() for worker in workers)) and time.monotonic() < until:
                time.sleep(0.002)
            time.sleep(draw.uniform(0, 0.05))
            inside = any(worker.erasing.is_set() for worker in workers)
        server.kill()
        counts["killed server in an erasure" if inside else "killed server"] += 1
        server = Process(folder / "models", *options, *where)
    stop.set()
    for thread in threads:
        thread.join()
    try:
        if failed:
            raise failed[0]
        server.kill()
        server = Process(folder / "models", *options, *where)  # it removes what the last killed restore has left
        same = all(worker.compared(folder)["same bytes"] for worker in workers)
    except BaseException:
        server.kill()
        if database is not None:
            database.stop()
        raise
    code = server.end()
    erased = {subject.encode() for worker in workers for subject in worker.erased}
    if database is not None:
        database.stop()
    files = [path for path in folder.rglob("*") if path.is_file()]
    marked = [str(path) for path in files if _holds_any(path, erased)]
    for worker in workers:
        counts.update(worker.counts)
    counts.update(backups.counts)
    return {
        "log": log, "seconds": round(time.monotonic() - began), **counts, "erased subjects": len(erased),
        "kills inside": {kind: counts[kind] for kind in INSIDE},
        "kills inside in all": sum(counts[kind] for kind in INSIDE),
        "same bytes": same, "files with an erased marker": len(marked), "marked": marked, "exit code": code,
    }  # fmt: skip


def main() -> None:
    """Run and print."""
    kills, log, seed = [*sys.argv[1:], *["20", "sqlite", "1"][len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory(prefix="hammemo-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        found = run(int(kills), log, Path(folder), int(seed))
    print(found)
    if not found["same bytes"] or found["files with an erased marker"] or found["exit code"]:
        sys.exit("an edit was lost or applied twice, or an erased subject was found")
    if int(kills) >= 40 and (found["kills inside in all"] < int(kills) // 2 or 0 in found["kills inside"].values()):
        sys.exit("too few kills were inside an erasure, a backup or a restore")


if __name__ == "__main__":
    main()
