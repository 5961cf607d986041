"""Short forms of the scripts about crashes: kill -9, power cuts, full disks, repeated deliveries, a standby."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import forked
import service_history
from hammemo_server.edits.operations import Acknowledgement, Edit, NotStored, Unavailable
from hammemo_server.models.host import Host
from pace import patience
from places import ROOT
from postgres_server import Server, needs_postgres, server, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

LOGS = ["sqlite", pytest.param("postgres", marks=needs_postgres)]
MOSTLY_SQLITE = ["sqlite", pytest.param("postgres", marks=[needs_postgres, pytest.mark.slow])]
"""What all logs share is tested with one; `.ci/nightly` runs the others, and the scripts in full."""


@functools.cache
def may_mount() -> bool:
    """Return whether this process may mount a disk image."""
    if sys.platform != "linux" or os.getuid() != 0 or shutil.which("mkfs.ext4") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False)
        return done.returncode == 0 and subprocess.run(["umount", folder], check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not may_mount(), reason="needs root and leave to mount")
needs_loops = pytest.mark.skipif(
    not may_mount() or not list(Path("/dev").glob("loop*")), reason="needs root and leave to mount a disk image"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the user of a PostgreSQL server can reach."""
    made = Path(tempfile.mkdtemp(prefix="hammemo-", dir="/tmp"))
    os.chmod(made, 0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def run(script: str, *arguments: object) -> str:
    """Run a script of the folder stress to its end, and return the last line it printed."""
    command = forked.Command(str(ROOT / "server" / "tests" / "stress" / script), *map(str, arguments))
    printed, said = command.communicate()
    assert command.poll() == 0, printed[-2000:] + said[-2000:]
    return printed.splitlines()[-1]


@needs_fork
@pytest.mark.long
@pytest.mark.parametrize("log", LOGS)
def test_a_killed_process_loses_nothing(log: str, folder: Path) -> None:
    assert '"lost": 0, "twice_or_back": 0' in run("service_crashes.py", "kill", 2, folder / "run", log)


@needs_fork
@pytest.mark.long
@pytest.mark.parametrize("log", MOSTLY_SQLITE)
def test_a_process_killed_in_a_snapshot_loses_nothing(log: str, folder: Path) -> None:
    assert '"lost": 0, "twice_or_back": 0' in run("service_crashes.py", "snapshot", 1, folder / "run", log)


@needs_loops
@pytest.mark.long
@pytest.mark.parametrize("log", MOSTLY_SQLITE)
def test_a_power_cut_loses_nothing(log: str, folder: Path) -> None:
    assert '"lost": 0, "twice_or_back": 0' in run("service_crashes.py", "power", 2, folder / "run", log)


@needs_loops
@pytest.mark.long
def test_a_power_cut_is_one(folder: Path) -> None:
    """Without flushes the same script finds losses."""
    with pytest.raises(AssertionError, match="acknowledged edits were lost"):
        run("service_crashes.py", "power", 2, folder / "run", "unflushed")


@pytest.mark.long
@pytest.mark.parametrize("log", MOSTLY_SQLITE)
def test_repeated_deliveries_are_applied_once(log: str, folder: Path) -> None:
    assert '"wrong": 0' in run("service_once.py", 600, folder / "run", log)


@needs_fork
@pytest.mark.long
@pytest.mark.parametrize("log", MOSTLY_SQLITE)
def test_kills_beside_erasures_and_backups_lose_nothing(log: str) -> None:
    printed = run("service_mixed_kills.py", 2, log)
    assert "'same bytes': True, 'files with an erased marker': 0" in printed


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 KiB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(tmp_path)], check=True)
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@needs_mounts
def test_a_full_disk_is_told_and_loses_nothing(small_disk: Path) -> None:
    """Edits are refused with 503 while the disk is full, and taken again when there is room."""
    with Host(small_disk) as host:
        model = host.create("t", "m", service_history.SETTINGS)
        number, refused, grown = 0, 0, False
        while refused < 20 or number < 2000:
            try:
                model.edit(service_history.edit_of(0, number)).result()
            except NotStored:
                assert service_history.is_refused(number)
            except Unavailable:
                refused += 1
                if refused == 20:
                    assert model.answering()[1] == service_history.count_acknowledged([number])
                    with pytest.raises(Unavailable):
                        _fill(small_disk, model)
                    subprocess.run(["mount", "-o", "remount,size=40m", str(small_disk)], check=True)
                    grown = True
                continue
            number += 1
        assert grown
        model.snapshot()
        state = model.state()
        assert state.model is not None
        assert state.version == service_history.count_acknowledged([number])
        result = service_history.compare_with_history(state.model, [number])
    assert (result["lost"], result["twice_or_back"], result["same_bytes"]) == (0, 0, True)
    with Host(small_disk) as host:
        again = host.get("t", "m").state()
        assert again.version == state.version
        assert again.model is not None
        assert again.model.memory_.state_bytes() == state.model.memory_.state_bytes()


def _fill(disk: Path, model: Any) -> None:
    """Take the last free byte, and try to make a snapshot."""
    with open(disk / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            pass
    try:
        model.snapshot()
    finally:
        (disk / "filler").unlink()


@needs_postgres
@pytest.mark.slow
def test_with_a_synchronous_standby_an_edit_is_acknowledged_when_both_servers_have_it(folder: Path) -> None:
    """The primary is lost for good; the standby, promoted, has every acknowledged edit."""
    assert why_not() is None
    with server("synchronous_standby_names=*", "wal_level=replica") as primary:
        standby = Server(folder / "standby")
        connection = f"host={primary.sockets} user=postgres application_name=standby"
        primary.run("pg_basebackup", "-D", str(standby.data), "-d", connection, "-R", "-X", "stream")
        standby.start()
        try:
            with Host(folder / "one", primary.address) as host:
                model = host.create("t", "m", service_history.SETTINGS)
                futures = []
                for number in range(400):
                    futures.append(model.edit(service_history.edit_of(0, number)))
                    if number % 20 == 0:
                        futures[-1].exception()
                done = [future.exception() is None for future in futures]
                assert done == [not service_history.is_refused(number) for number in range(400)]
                standby.kill()  # without it nothing is acknowledged
                waits = model.edit(service_history.edit_of(0, 400))
                assert not _is_done(waits, 1.0)
                standby.start()
                assert waits.result(patience(60)) == Acknowledgement(
                    service_history.count_acknowledged([401]), "applied"
                )
                primary.kill()
            standby.run("pg_ctl", "promote", "-D", str(standby.data), "-w")
            with Host(folder / "two", standby.address) as host:
                state = host.get("t", "m").state()
            assert state.model is not None
            result = service_history.compare_with_history(state.model, [401])
            assert (result["lost"], result["twice_or_back"], result["same_bytes"]) == (0, 0, True)
        finally:
            standby.remove()


def _is_done(future: Any, seconds: float) -> bool:
    ended = threading.Event()
    future.add_done_callback(lambda _: ended.set())
    return ended.wait(seconds)


def test_ids_of_other_tenants_and_models_are_others(tmp_path: Path) -> None:
    op = uuid.uuid4().hex
    edit = Edit(op, "learn", [["a"]], ["x"])
    with Host(tmp_path) as host:
        for tenant, name in (("t", "m"), ("t", "n"), ("u", "m")):
            assert host.create(tenant, name, {}).edit(edit).result() == Acknowledgement(1, "applied")
