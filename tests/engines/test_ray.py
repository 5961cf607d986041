"""The Ray engine: the same bytes as on this machine alone, whatever dies on the way.

Three nodes on this machine, one core each. Marks that tasks leave prove that a kill landed in the middle of one: then
there are more begun shards than shards.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install --group ray-tests")
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import marked_source  # noqa: E402
import object_store  # noqa: E402
from hammemo.experiments.speed import zipf_stream  # noqa: E402
from hammemo.sources.documents import open_source  # noqa: E402
from marked_source import Marked, learn, marked  # noqa: E402
from pace import patience, wait_until  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


def health() -> dict[str, int]:
    """Return how soon a node that does not answer is taken for dead: later where nothing answers soon."""
    return {
        "health_check_initial_delay_ms": 1000,
        "health_check_period_ms": 500,
        "health_check_timeout_ms": int(patience(2000)),
        "health_check_failure_threshold": 3,
    }


def processes_of(home: Path) -> list[str]:
    """Return the processes, other than this one, that live in a home of ours."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            if f"HOME={home}\0".encode() in environment and int(entry.name) != os.getpid():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Give Ray a home of its own, because it writes there, and see that no process stays behind."""
    folder = Path(tempfile.mkdtemp(prefix="hm"))  # a short path: sockets have names in it
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("RAY_TMPDIR", str(folder))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.setenv("PYTHONWARNINGS", "ignore")
        for name, value in object_store.ENVIRONMENT.items():
            patch.setenv(name, value)
        yield folder
        ended = wait_until(lambda: not processes_of(folder), 20, every=0.2)
        left = processes_of(folder)
    shutil.rmtree(folder, ignore_errors=True)
    assert ended, left


@pytest.fixture(scope="module")
def cluster(home: Path) -> Iterator[Any]:
    head = {**NODE, "include_dashboard": False, "_system_config": health()}
    three = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        three.add_node(**NODE)
    three.wait_for_nodes()
    ray.cloudpickle.register_pickle_by_value(marked_source)
    ray.init(three.address, log_to_driver=False, logging_level="error")
    yield three
    ray.shutdown()
    three.shutdown()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 60,000 Zipf tokens in documents of 20, in four files of a few row groups each."""
    folder = tmp_path_factory.mktemp("zipf")
    tokens = zipf_stream(60_000, 500).astype(np.int32)
    for part, piece in enumerate(np.split(tokens, 4)):
        documents = pa.ListArray.from_arrays(pa.array(np.arange(0, len(piece) + 1, 20), pa.int32()), pa.array(piece))
        pq.write_table(pa.table({"tokens": documents}), folder / f"{part}.parquet", row_group_size=150)
    return folder


@pytest.fixture(scope="module")
def expected(files: Path) -> dict[str, str]:
    source = open_source(files)
    return {name: learn(source, name, engine="threads", workers=1) for name in marked_source.MEMORIES}


@pytest.fixture
def source(files: Path, tmp_path: Path) -> Callable[..., Marked]:
    return lambda **options: marked(files, tmp_path, **options)


def shards_of(source: Marked) -> int:
    return len(source.shards(marked_source.SHARD_BYTES))


def disturbed(source: Marked, memory: str, ready: Callable[[], bool], action: Callable[[], None]) -> str:
    """Return what a job gives that is disturbed as soon as the marks say so; Ray adds nodes in the main thread only."""
    with ThreadPoolExecutor(1) as side:
        job = side.submit(learn, source, memory, engine="ray")
        assert wait_until(lambda: ready() or job.done(), 300)
        assert not job.done(), job.result()
        action()
        return job.result(timeout=patience(300))


@pytest.mark.parametrize("memory", list(marked_source.MEMORIES))
@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 2}, {"group_size": 3}], ids=str)
def test_any_number_of_workers_gives_the_same_bytes(
    memory: str, options: Any, cluster: Any, source: Any, expected: Any
) -> None:
    where = source()
    assert learn(where, memory, engine="ray", **options) == expected[memory]
    assert where.count("begun") == where.count("read") == shards_of(where)


@pytest.mark.parametrize("memory", list(marked_source.MEMORIES))
def test_input_errors_are_tried_again(memory: str, cluster: Any, source: Any, expected: Any) -> None:
    where = source(failures=1)
    assert learn(where, memory, engine="ray") == expected[memory]
    assert where.count("begun") == 2 * shards_of(where)


def test_other_errors_are_not_and_come_as_they_are(cluster: Any, source: Any, tmp_path: Path) -> None:
    where = source()
    (tmp_path / "a.txt").write_text("1 2 3 4 5\n" * 30_000 + "1 x\n")
    with pytest.raises(ValueError, match="'x' is not a token id"):
        learn(open_source(tmp_path / "a.txt"), "Hashed", engine="ray")
    where = source(failures=99)
    with pytest.raises(OSError, match="injected"):
        learn(where, "Hashed", engine="ray")


@pytest.mark.parametrize("memory", list(marked_source.MEMORIES))
def test_a_worker_killed_in_mid_task_costs_its_shard(memory: str, cluster: Any, source: Any, expected: Any) -> None:
    where = source(seconds=0.8)
    killed: list[str] = []

    def kill() -> None:
        pid, name = next(iter(where.under_way().items()))
        os.kill(pid, signal.SIGKILL)
        killed.append(name)

    result = disturbed(where, memory, lambda: where.count("read") >= 3 and bool(where.under_way()), kill)
    assert result == expected[memory]
    assert not (Path(where.marks) / f"read-{killed[0]}").exists()  # it was in the middle of it
    assert where.count("begun") > shards_of(where) == where.count("read")


@pytest.mark.parametrize("memory", list(marked_source.MEMORIES))
def test_a_node_killed_in_mid_job_is_survived(memory: str, cluster: Any, source: Any, expected: Any) -> None:
    where = source(seconds=0.8)
    victim = list(cluster.worker_nodes)[-1]
    result = disturbed(
        where,
        memory,
        lambda: where.count("read") >= 3 and any(victim.node_id in name for name in where.under_way().values()),
        lambda: cluster.remove_node(victim, allow_graceful=False),
    )
    assert result == expected[memory]
    assert where.count("begun") > shards_of(where)  # what the node was doing, and what only it held, was done again
    cluster.add_node(**NODE)
    cluster.wait_for_nodes()


def test_a_node_added_late_takes_groups(cluster: Any, source: Any, expected: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"  # the other nodes wait until the new one has begun, however long its start takes
    where = source(gate=str(gate))

    def add() -> None:
        new = cluster.add_node(**NODE).node_id
        try:
            assert wait_until(lambda: any(new in name for name in where.under_way().values()), 300)
        finally:
            gate.touch()  # or the job would not end

    result = disturbed(where, "Hashed", lambda: where.count("read") >= 2, add)
    assert result == expected["Hashed"]
    new = list(cluster.worker_nodes)[-1].node_id
    assert new in {name.split("-")[3] for name in os.listdir(where.marks) if name.startswith("read-")}
    cluster.remove_node(list(cluster.worker_nodes)[-1])


def settled(states: Path, where: Marked) -> tuple[int, int]:
    """Return how many groups are done and begun, once Ray has ended all tasks of a driver that is gone."""
    before = (-1, -1)
    while True:
        done = len([path for path in states.glob("group-*") if not path.name.endswith(".part")])
        now = done, where.count("begun")
        if now == before:
            return now
        before = now
        time.sleep(patience(4))  # tasks that were about to begin may begin still


@pytest.mark.slow  # on two busy cores Ray may need minutes to end a driver's tasks
@pytest.mark.parametrize("memory", list(marked_source.MEMORIES))
def test_a_killed_driver_is_resumed_and_repeats_nothing(
    memory: str, cluster: Any, source: Any, expected: Any, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    where = source()
    states = tmp_path_factory.mktemp("states")
    command = [sys.executable, marked_source.__file__, cluster.address, str(files), where.marks, str(states), memory]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE)

    def in_the_middle() -> bool:
        assert driver.poll() is None
        return len(list(states.glob("group-*"))) >= 3 and bool(where.under_way())

    assert wait_until(in_the_middle, 300)
    driver.kill()
    driver.communicate()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in where.under_way()), 120)
    done, begun = settled(states, where)
    assert 3 <= done < begun
    assert learn(where, memory, engine="ray", resume=str(states)) == expected[memory]  # another driver, the same call
    assert where.count("begun") - begun == shards_of(where) - done


def test_files_and_states_in_a_bucket(cluster: Any, files: Path, expected: Any) -> None:
    pytest.importorskip("moto", reason="moto is not installed: pip install --group ray-tests")
    with object_store.bucket(files) as address:
        there = open_source(address("data"))
        for _ in range(2):
            assert learn(there, "Exact", engine="ray", resume=address("states")) == expected["Exact"]
