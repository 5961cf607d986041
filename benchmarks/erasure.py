"""Erase people from a served model, between kills at every step, and look for what is left of them.

    python benchmarks/erasure.py [--edits 2000] [--subjects 100] [--erase 20]
                                 [--log sqlite|postgres] [--rounds 5]

The full run: ``--edits 1000000 --subjects 10000 --erase 1000``, and ``--log postgres --edits
100000``.

Edits of one row go through the host, a thousand in flight. Every row has a marker of its subject.
Then subjects are erased in random order by processes that kill themselves at a step of the erasure,
each of `STEPS` in turn, several times (``--kills``); the last process finishes, and refits the
model once. Checked are:

- the file of the model equals, to the byte, that of a model that never saw the erased subjects;
- no file of the service, and of PostgreSQL its dump, heap and write-ahead log, has a marker of an
  erased subject, as text or in hexadecimal digits. A model without subjects holds a marker that
  must be found, or nothing was looked at;
- every receipt verifies, and none with one changed byte; the model file with one changed byte is
refused.

Printed are processor time of an edit with and without subjects (median of alternating runs), the
time of an erasure of 100 rows, bytes of journal a row, and the time in which LightGBM is fitted
again without the same rows. The exit code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from hammemo import load
from hammemo.files.archive import FileError
from hammemo.receipts.keys import new_key_file, read_keys
from hammemo.receipts.receipt import SignedReceipt
from hammemo_server.edits.operations import Edit
from hammemo_server.models import erasable
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep
from hammemo_server.store import sqlite_log
from hammemo_server.store.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hammemo_server.models.served import ServedModel

SETTINGS: dict[str, Any] = {"columns": 3, "kernel": "positional", "vote": "log-linear", "seed": 1}

STEPS = (
    "vault.new_contents before",
    "vault.new_contents after",
    "log.append before",
    "log.append after",
    "log.keep_snapshot before",
    "snapshot file after",
    "log.keep_snapshot after",
    "destroy before",
    "vault.new_wrapping after",
    "log.destroy_keys before",
    "log.destroy_keys after",
    "vault.drop before",
    "vault.drop after",
    "issue before",
    "log.finish_erasures before",
    "log.finish_erasures after",
)
"""Where a process kills itself; "snapshot file" is for logs in SQLite only."""


def kill_at(step: str, log: type) -> None:
    """Let this process kill itself when it comes to a step."""
    what, when = step.rsplit(" ", 1)
    owner, _, name = what.partition(".")
    places: dict[str, tuple[Any, str]] = {
        "vault": (Vault, name),
        "log": (log, name),
        "snapshot file": (sqlite_log, "save"),
        "destroy": (erasable, "destroy_keys"),
        "issue": (erasable, "issue_receipts"),
    }
    place, name = places[owner]
    original = getattr(place, name)

    def call_and_die(*arguments: Any, **options: Any) -> None:
        if when == "after":
            original(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(place, name, call_and_die)


# What is learnt


def marker(subject: int) -> str:
    return f"Zmk{(subject * 2654435761) % 2**32:08x}"


def edit_of(number: int, n_subjects: int, *, subjects: bool = True) -> Edit:
    """Return an edit: one row, which says whose it is; each subject has six rows that differ."""
    subject = number * 7919 % n_subjects
    a = number // n_subjects % 2
    b = number // n_subjects % 3
    row: list[Any] = [marker(subject), f"a{a}", f"b{b}"]
    return Edit(
        f"op-{number}",
        "learn",
        [row],
        [f"l{(subject + a) % 3}"],
        subjects=[marker(subject)] if subjects else [],
    )


def send(model: ServedModel, edits: Iterable[Edit], in_flight: int = 1_000) -> None:
    """Send edits, so many at the same time."""
    waiting: deque[Any] = deque()
    for edit in edits:
        waiting.append(model.edit(edit))
        if len(waiting) >= in_flight:
            for _ in range(in_flight // 2):
                waiting.popleft().result()
    while waiting:
        waiting.popleft().result()


def wait_erased(model: ServedModel, op: str) -> None:
    while (erasure := model.erasure(op)) is None or erasure.state != "erased":
        time.sleep(0.002)


# The process that erases, and is killed


def child(folder: Path, log: str | None, step: str, upto: int) -> None:
    """Erase the first subjects of the list; those that are erased answer again."""
    from hammemo_server.store.postgres_log import PostgresLog

    subjects = json.loads((folder / "erase.json").read_text())[:upto]
    host = Host(
        folder / "models", log, keys=folder / "keys" / "keys.json", upkeep=Upkeep(choose=False)
    )
    model = host.get("t", "m")
    if step:
        kill_at(step, sqlite_log.SqliteLog if log is None else PostgresLog)
    edits = (
        Edit(f"erase-{s}", "forget_subject", subjects=[marker(s)], refit=False) for s in subjects
    )
    send(model, edits, 100)
    for s in subjects:
        wait_erased(model, f"erase-{s}")
    if not step:
        model.edit(Edit("the-refit", "refit")).result()
        host.close()


def erase(folder: Path, log: str | None, kills: int, n: int) -> dict[str, int]:
    """Let processes erase and be killed, each with some more of the subjects.

    Return how often they were killed at each step.
    """
    steps = [step for step in STEPS if log is None or step != "snapshot file after"]
    kills_by_step = dict.fromkeys(steps, 0)
    for number in range(kills * len(steps)):
        step = steps[number % len(steps)]
        code = _run_child(folder, log, step, max(n * (number + 1) // (kills * len(steps) + 1), 1))
        if code == -signal.SIGKILL:
            kills_by_step[step] += 1
        elif code != 0:
            raise SystemExit(f"the process that erases failed at {step!r}")
    if _run_child(folder, log, "", n) != 0:
        raise SystemExit("the last process that erases failed")
    return kills_by_step


def _run_child(folder: Path, log: str | None, step: str, upto: int) -> int:
    command = [sys.executable, __file__, "--child", str(folder), log or "", step, str(upto)]
    return subprocess.run(command, check=False).returncode


# Looking for markers

_TEXT = re.compile(rb"Zmk[0-9a-f]{8}")
_HEX = re.compile(rb"(?i)5a6d6b(?:3[0-9]|6[1-6]){8}")
_CHUNK = 2**26


def count_markers(folders: Iterable[Path], markers: set[bytes]) -> dict[str, int]:
    """Return how many markers each file has, as text or in hexadecimal digits."""
    counts: dict[str, int] = {}
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                n = sum(one in markers for one in _markers(path))
                if n:
                    counts[str(path)] = n
    return counts


def _markers(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        rest = b""
        while data := file.read(_CHUNK):
            data = rest + data
            yield from _TEXT.findall(data)
            yield from (bytes.fromhex(one.decode()) for one in _HEX.findall(data))
            rest = data[-21:]  # a marker that is cut is met whole next time


# The checks


def equals_fresh_model(folder: Path, host: Host, args: argparse.Namespace, gone: set[int]) -> bool:
    """Return whether the model's file is that of a model which never saw the erased subjects."""
    with Host(folder / "twin", upkeep=Upkeep(choose=False, at_close=False)) as twins:
        twin = twins.create("t", "m", SETTINGS)
        numbers = (n for n in range(args.edits) if n * 7919 % args.subjects not in gone)
        send(twin, (edit_of(n, args.subjects, subjects=False) for n in numbers))
        twin.edit(Edit("the-refit", "refit")).result()
        twins.write_file("t", "m", folder / "twin.model")
    host.write_file("t", "m", folder / "erased.model")
    same = (folder / "twin.model").read_bytes() == (folder / "erased.model").read_bytes()
    shutil.rmtree(folder / "twin")
    return same


def wrong_receipts(
    folder: Path, model: ServedModel, subjects: list[int], rng: random.Random
) -> dict[str, int]:
    """Return how many receipts do not verify, and how many do although a byte was changed."""
    public = read_keys(folder / "keys" / "keys.json").public_key
    wrong = 0
    passed = 0
    previous: dict[str | None, str] = {}
    for subject in subjects:
        erasure = model.erasure(f"erase-{subject}")
        assert erasure is not None
        signed = SignedReceipt.decode(erasure.receipt)
        previous[signed.receipt.previous] = signed.hash
        wrong += not signed.verify(public)
        changed = bytearray(erasure.receipt)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        try:
            passed += SignedReceipt.decode(bytes(changed)).verify(public)
        except ValueError:
            continue
    link = previous.get(None)
    chain = 0
    while link is not None:
        link = previous.get(link)
        chain = chain + 1
    return {
        "receipts": len(subjects),
        "do not verify": wrong,
        "changed, verify": passed,
        "in the chain": chain,
    }


def count_changed_models_that_load(folder: Path, rng: random.Random, times: int = 20) -> int:
    data = (folder / "erased.model").read_bytes()
    n = 0
    digest = load(folder / "erased.model").digest()
    for _ in range(times):
        changed = bytearray(data)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        (folder / "changed.model").write_bytes(changed)
        try:
            n += load(folder / "changed.model").digest() == digest
        except FileError:
            continue
    return n


# Times


def edit_seconds(n: int, n_subjects: int, *, subjects: bool) -> float:
    """Return the processor time of an edit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        new_key_file(folder / "keys.json")
        upkeep = Upkeep(at_close=False, choose=False)
        with Host(folder / "models", keys=folder / "keys.json", upkeep=upkeep) as host:
            model = host.create("t", "m", SETTINGS | ({"subjects": "required"} if subjects else {}))
            began = time.process_time()
            send(model, (edit_of(i, n_subjects, subjects=subjects) for i in range(n)))
            return (time.process_time() - began) / n


def erasure_seconds(model: ServedModel, name: str, *, refit: bool) -> tuple[float, float]:
    """Return how long it takes to erase a subject of 100 rows.

    The times are until the edit is applied, and until the subject is erased.
    """
    rows: list[list[Any]] = [[name, f"a{i % 10}", f"b{i // 10}"] for i in range(100)]
    model.edit(Edit(f"learn-{name}", "learn", rows, ["l0"] * 100, subjects=[name] * 100)).result()
    began = time.perf_counter()
    model.edit(Edit(f"erase-{name}", "forget_subject", subjects=[name], refit=refit)).result()
    applied = time.perf_counter() - began
    wait_erased(model, f"erase-{name}")
    return applied, time.perf_counter() - began


def lightgbm_seconds(args: argparse.Namespace, gone: set[int]) -> float | None:
    """Return how long LightGBM takes to be fitted again without the erased subjects."""
    try:
        import lightgbm
    except ModuleNotFoundError:
        return None
    import numpy as np

    numbers = np.arange(args.edits)
    subject = numbers * 7919 % args.subjects
    part = numbers // args.subjects
    X = np.stack([subject, part % 2, part % 3], axis=1)
    y = (subject + part % 2) % 3
    left = ~np.isin(subject, list(gone))
    began = time.perf_counter()
    lightgbm.LGBMClassifier(n_jobs=1, verbose=-1).fit(
        X[left], y[left], categorical_feature=[0, 1, 2]
    )
    return time.perf_counter() - began


def journal_bytes(folder: Path) -> float | None:
    """Return the bytes of journal a row, with its indexes, of a log in SQLite."""
    import apsw

    db = apsw.Connection(
        str(folder / "models" / "t" / "m" / "log.sqlite"), flags=apsw.SQLITE_OPEN_READONLY
    )
    try:
        pages: Any = db.execute(
            "select sum(pgsize) from dbstat where name like 'hammemo_journal%'"
        ).fetchone()
        rows: Any = db.execute("select count(*) from hammemo_journal").fetchone()
        return float(pages[0]) / rows[0] if rows[0] else None
    except apsw.Error:
        return None
    finally:
        db.close()


# The run


def run(
    args: argparse.Namespace, folder: Path, log: str | None, dump: Callable[[], list[Path]]
) -> dict[str, Any]:
    rng = random.Random(args.seed)
    (folder / "keys").mkdir()
    keys = folder / "keys" / "keys.json"
    new_key_file(keys)
    subjects = rng.sample(range(args.subjects), args.erase)
    markers = {marker(subject).encode() for subject in subjects}
    (folder / "erase.json").write_text(json.dumps(subjects))
    result: dict[str, Any] = {"log": "sqlite" if log is None else "postgres", "edits": args.edits}
    with Host(folder / "models", log, keys=keys, upkeep=Upkeep(choose=False)) as host:
        model = host.create("t", "m", SETTINGS | {"subjects": "required"})
        began = time.perf_counter()
        send(model, (edit_of(number, args.subjects) for number in range(args.edits)))
        result["edits a second"] = args.edits / (time.perf_counter() - began)
        control = host.create("t", "control", {"columns": 1, "vote": "sum"})
        control.edit(Edit("1", "learn", [["Zmkc0117801"]], ["x"])).result()
    result["bytes of journal a row"] = journal_bytes(folder) if log is None else None
    began = time.perf_counter()
    result["killed"] = erase(folder, log, args.kills, args.erase)
    result["seconds of erasing"] = time.perf_counter() - began
    with Host(folder / "models", log, keys=keys, upkeep=Upkeep(choose=False)) as host:
        model = host.get("t", "m")
        result["equal to the byte"] = equals_fresh_model(folder, host, args, set(subjects))
        result["receipts"] = wrong_receipts(folder, model, subjects, rng)
        result["changed model files that load"] = count_changed_models_that_load(folder, rng)
    places = [folder / "models", folder / "keys", *dump()]
    result["files with markers"] = count_markers(places, markers)
    result["the control marker is found"] = bool(count_markers(places, {b"Zmkc0117801"}))
    with Host(folder / "models", log, keys=keys, upkeep=Upkeep(choose=False)) as host:
        model = host.get("t", "m")
        for refit in (False, True):
            times = [
                erasure_seconds(model, f"timed{refit}{i}", refit=refit) for i in range(args.rounds)
            ]
            what = "with refit" if refit else "without refit"
            result[f"seconds to applied, {what}"] = median(applied for applied, _ in times)
            result[f"seconds to erased, {what}"] = median(erased for _, erased in times)
    result["seconds of LightGBM fitted again"] = lightgbm_seconds(args, set(subjects))
    return result


def measure_edits(args: argparse.Namespace) -> dict[str, Any]:
    """Return the processor time of an edit with and without subjects: medians of runs in turns."""
    n = min(args.edits, args.timed)
    pairs = [
        (
            edit_seconds(n, max(n // 100, 1), subjects=False),
            edit_seconds(n, max(n // 100, 1), subjects=True),
        )
        for _ in range(args.rounds)
    ]
    return {
        "microseconds of processor time an edit, without subjects": median(a for a, _ in pairs)
        * 1e6,
        "with subjects": median(b for _, b in pairs) * 1e6,
        "ratio": median(b / a for a, b in pairs),
    }


def passes(result: dict[str, Any]) -> bool:
    receipts = result["receipts"]
    return (
        result["equal to the byte"]
        and not result["files with markers"]
        and result["the control marker is found"]
        and receipts["do not verify"]
        == receipts["changed, verify"]
        == result["changed model files that load"]
        == 0
        and receipts["in the chain"] == receipts["receipts"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edits", type=int, default=2_000)
    parser.add_argument("--subjects", type=int, default=100)
    parser.add_argument("--erase", type=int, default=20, help="how many subjects are erased")
    parser.add_argument("--kills", type=int, default=1, help="how many times at each step")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--timed", type=int, default=20_000, help="edits of one run that is timed")
    parser.add_argument("--log", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--folder", help="where to work; by default a temporary folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        folder, log, step, upto = args.child
        child(Path(folder), log or None, step, int(upto))
        return
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="hammemo-", dir=args.folder))
        )
        os.chmod(folder, 0o755)
        address: str | None = None
        dump: Callable[[], list[Path]] = list
        if args.log == "postgres":
            sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
            from postgres_server import server

            started = stack.enter_context(server())
            address = started.address

            def dump_server() -> list[Path]:
                """Return the files of the server after a checkpoint, and a dump.

                The files have dead rows and the write-ahead log.
                """
                started.run(
                    "psql", "-h", str(started.sockets), "-U", "postgres", "-c", "checkpoint"
                )
                started.run(
                    "pg_dump",
                    "-h",
                    str(started.sockets),
                    "-U",
                    "postgres",
                    "-f",
                    f"{started.folder}/dump.sql",
                )
                return [started.folder]

            dump = dump_server

        result = run(args, folder, address, dump)
        result |= measure_edits(args)
    print(json.dumps(result, indent=1))
    if not passes(result):
        sys.exit("A check failed.")


if __name__ == "__main__":
    main()
