"""The Ray engine: the same bytes as on this machine alone, whatever dies on the way.

Three nodes on this machine, one core each. Marks that tasks leave prove that a kill landed in the middle of one: then
there are more begun shards than shards.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install --group ray-tests")
import pandas as pd  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from sklearn.base import clone  # noqa: E402

import marked_source  # noqa: E402
import object_store  # noqa: E402
from engine_fits import fit_docs, fit_rows_of  # noqa: E402
from hammemo import MemoryClassifier, MemoryRegressor  # noqa: E402
from hammemo.engines import Machines, fit_table  # noqa: E402
from hammemo.kernels import Bag, Suffixes, Together  # noqa: E402
from hammemo.memories import Exact, Hashed, Tiered  # noqa: E402
from hammemo.paper.experiments.measuring import zipf_stream  # noqa: E402
from hammemo.sources.documents import open_source  # noqa: E402
from hammemo.sources.read_tables import open_table  # noqa: E402
from hammemo.votes import Mixture  # noqa: E402
from marked_source import Marked, learn, mark_source, shard_name  # noqa: E402
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


SYSTEM = {
    # A node that is killed refuses connections, which is seen at once; one that only answers late is not dead.
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 60_000,
    "health_check_failure_threshold": 3,
    "worker_niceness": 0,  # Ray's own is 15: beside other tests its workers would hardly run
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
    head = {**NODE, "include_dashboard": False, "_system_config": SYSTEM}
    three = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        three.add_node(wait=False, **NODE)
    three.wait_for_nodes(timeout=patience(60))
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
    return lambda marks=tmp_path, **options: mark_source(files, marks, **options)


def shards_of(source: Marked) -> int:
    return len(source.shards(marked_source.SHARD_BYTES))


def disturbed(source: Marked, memory: str, ready: Callable[[], bool], action: Callable[[Future[str]], None]) -> str:
    """Return what a job gives that is disturbed as soon as the marks say so; Ray adds nodes in the main thread only."""
    with ThreadPoolExecutor(1) as side:
        job = side.submit(learn, source, memory, engine="ray")
        assert wait_until(lambda: ready() or job.done(), 300)
        assert not job.done(), job.result()
        action(job)
        return job.result(timeout=patience(300))


either = pytest.mark.parametrize("memory", ["Hashed", pytest.param("Exact", marks=pytest.mark.slow)])


@pytest.mark.parametrize(
    ("memory", "options"), [("Hashed", {"workers": 1}), ("Exact", {"workers": 2}), ("Exact", {"group_size": 3})]
)
def test_any_number_of_workers_gives_the_same_bytes(
    memory: str, options: Any, cluster: Any, source: Any, expected: Any
) -> None:
    where = source()
    assert learn(where, memory, engine="ray", **options) == expected[memory]
    assert where.count("begun") == where.count("read") == shards_of(where)


def test_sites_without_a_position_are_learnt_too(cluster: Any, tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    words = np.random.default_rng(0).integers(0, 40, (400, 9)).tolist()
    path.write_text("\n".join(" ".join(map(str, line)) for line in words))
    estimator = MemoryClassifier(Suffixes(2) + Bag(2) + Together(3), vote=Mixture(sample=300, steps=5))
    here, there = (
        fit_docs(estimator, open_source(path), 3, short="pad", engine=engine, shard_bytes=2000)
        for engine in ("threads", "ray")
    )
    assert here.memory_.state_bytes() == there.memory_.state_bytes()
    assert here.vote_.weights_.tobytes() == there.vote_.weights_.tobytes()


@either
def test_input_errors_are_tried_again(memory: str, cluster: Any, source: Any, expected: Any) -> None:
    where = source(failures=1)
    assert learn(where, memory, engine="ray") == expected[memory]
    assert where.count("begun") == 2 * shards_of(where)


def test_other_errors_are_not_and_come_as_they_are(cluster: Any, source: Any, tmp_path: Path) -> None:
    where = source()
    (tmp_path / "a.txt").write_text("1 2 3 4 5\n" * 3_000 + "1 x\n")
    with pytest.raises(ValueError, match="'x' is not a token id"):
        learn(open_source(tmp_path / "a.txt"), "Hashed", engine="ray")
    where = source(failures=99)
    with pytest.raises(OSError, match="injected"):
        learn(where, "Hashed", engine="ray")


def stopped_in_mid_task(job: Future[str], where: Marked, node: str = "") -> tuple[int, str]:
    """Return a process, stopped, and the shard that it has begun and not read; on one node only if that is named."""
    while not job.done():
        for pid, name in where.under_way().items():
            with suppress(ProcessLookupError):  # it has ended in the meantime
                if node in name:
                    os.kill(pid, signal.SIGSTOP)  # now it can get no further
                    if name in where.under_way().values():
                        return pid, name
                    os.kill(pid, signal.SIGCONT)
    raise AssertionError(f"The job was done before it could be disturbed: {job.result()}")


@either
def test_a_worker_killed_in_mid_task_costs_its_shard(memory: str, cluster: Any, source: Any, expected: Any) -> None:
    where = source(seconds=0.8)
    killed = []

    def kill(job: Future[str]) -> None:
        pid, name = stopped_in_mid_task(job, where)
        os.kill(pid, signal.SIGKILL)
        killed.append(name)

    result = disturbed(where, memory, lambda: where.count("read") >= 3 and bool(where.under_way()), kill)
    assert result == expected[memory]
    assert not (Path(where.marks) / f"read-{killed[0]}").exists()  # it was in the middle of it
    assert where.count("begun") > shards_of(where) == where.count("read")


@pytest.mark.slow
@pytest.mark.parametrize("memory", list(marked_source.MEMORIES))
def test_a_node_killed_in_mid_job_is_survived(memory: str, cluster: Any, source: Any, expected: Any) -> None:
    where = source(seconds=0.8)
    victim = list(cluster.worker_nodes)[-1]

    def kill(job: Future[str]) -> None:
        pid, _ = stopped_in_mid_task(job, where, victim.node_id)
        cluster.remove_node(victim, allow_graceful=False)
        os.kill(pid, signal.SIGKILL)

    def ready() -> bool:
        return where.count("read") >= 3 and any(victim.node_id in name for name in where.under_way().values())

    assert disturbed(where, memory, ready, kill) == expected[memory]
    assert where.count("begun") > shards_of(where)  # what the node was doing, and what only it held, was done again
    cluster.add_node(**NODE)
    cluster.wait_for_nodes(timeout=patience(60))


@pytest.mark.slow
def test_a_node_added_late_takes_groups(cluster: Any, source: Any, expected: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"  # the other nodes wait until the new one has begun, however long its start takes
    where = source(gate=str(gate), test=os.getpid())
    added: list[Any] = []

    def begun_there() -> bool:
        return any(added[0].node_id in name for name in where.under_way().values())

    def add(job: Future[str]) -> None:
        added.append(cluster.add_node(**NODE))
        try:
            assert wait_until(lambda: begun_there() or job.done(), 300)
        finally:
            gate.touch()  # or the job would not end

    result = disturbed(where, "Hashed", lambda: where.count("read") >= 2, add)
    assert result == expected["Hashed"]
    assert added[0].node_id in {name.split("-")[3] for name in os.listdir(where.marks) if name.startswith("read-")}
    cluster.remove_node(added[0])


def done_in(states: Path) -> set[int]:
    """Return the groups whose state is there; what was killed while it was written has another name."""
    return {int(path.name[6:]) for path in states.iterdir() if re.fullmatch(r"group-\d{6}", path.name)}


@pytest.mark.slow
@pytest.mark.parametrize("memory", list(marked_source.MEMORIES))
def test_a_killed_driver_is_resumed_and_repeats_nothing(
    memory: str, cluster: Any, source: Any, expected: Any, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first, second = source(), source(marks=str(tmp_path_factory.mktemp("marks")))
    states = tmp_path_factory.mktemp("states")
    command = [sys.executable, marked_source.__file__, cluster.address, str(files), first.marks, str(states), memory]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as driver:
        in_the_middle = wait_until(lambda: _is_half_done(states, first) or driver.poll() is not None, 300)
        ended = driver.poll()
        driver.kill()
    assert in_the_middle
    assert ended is None  # it was killed before it was done
    shards = second.shards(marked_source.SHARD_BYTES)  # one a group
    # Tasks of the first driver may run on for a while, which does no harm: a state is whole, and the same by whomever.
    done = done_in(states)
    assert len(done) >= 3
    assert learn(second, memory, engine="ray", resume=str(states)) == expected[memory]  # another driver, the same call
    assert not second.list_begun() & {shard_name(shards[group]) for group in done}
    assert done_in(states) == set(range(len(shards)))


def _is_half_done(states: Path, where: Marked) -> bool:
    return 3 <= len(done_in(states)) < shards_of(where) - 6 and bool(where.under_way())


def test_files_and_states_in_a_bucket(cluster: Any, files: Path, expected: Any) -> None:
    pytest.importorskip("moto", reason="moto is not installed: pip install --group ray-tests")
    with object_store.bucket(files) as address:
        there = open_source(address("data"))
        for _ in range(2):
            assert learn(there, "Exact", engine="ray", resume=address("states")) == expected["Exact"]


def learn_in_segments(source: Any, folder: Path, memory: Any = None, **options: Any) -> dict[str, bytes]:
    """Return the files of a model that a source teaches, in segments."""
    told = {"classes": 20, "shard_bytes": marked_source.SHARD_BYTES, "group_size": 1, "segments": 3, "out": folder}
    fit_docs(MemoryClassifier(memory=memory or Exact(), vote="sum"), source, marked_source.H, **{**told, **options})
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


@pytest.mark.parametrize("memory", [Exact(), Tiered(Hashed(16, 8))], ids=lambda one: type(one).__name__)
def test_a_fit_in_segments_gives_the_same_files(
    memory: Any, cluster: Any, source: Any, files: Path, tmp_path: Path
) -> None:
    here = learn_in_segments(open_source(files), tmp_path / "here", memory, engine="threads", workers=1)
    (tmp_path / "marks").mkdir()
    there = learn_in_segments(source(tmp_path / "marks"), tmp_path / "there", memory, engine="ray")
    assert here == there


def test_a_worker_killed_in_a_fit_in_segments_changes_no_byte(
    cluster: Any, source: Any, files: Path, tmp_path: Path
) -> None:
    here = learn_in_segments(open_source(files), tmp_path / "here", engine="threads", workers=1)
    (tmp_path / "marks").mkdir()
    where = source(tmp_path / "marks", seconds=0.8)
    with ThreadPoolExecutor(1) as side:
        job: Future[Any] = side.submit(learn_in_segments, where, tmp_path / "there", engine="ray")
        assert wait_until(lambda: (where.count("read") >= 3 and bool(where.under_way())) or job.done(), 300)
        pid, name = stopped_in_mid_task(job, where)
        os.kill(pid, signal.SIGKILL)
        there = job.result(timeout=patience(300))
    assert not (Path(where.marks) / f"read-{name}").exists()  # it was in the middle of it
    assert where.count("begun") > shards_of(where)
    assert here == there


def test_numbers_of_a_table_are_counted_on_ray(cluster: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300).round(2), "b": rng.choice(["x", "y"], 300)})
    y = X["a"] + (X["b"] == "x")
    for part in range(3):
        X.assign(y=y)[100 * part : 100 * (part + 1)].to_parquet(tmp_path / f"{part}.parquet")
    model = fit_table(MemoryRegressor(keep=90), tmp_path, "y", machines=Machines("ray", group_size=1))
    assert model.digest() == MemoryRegressor(keep=90).fit(X, y).digest()


@pytest.mark.parametrize("segments", [pytest.param(None, marks=pytest.mark.slow), 2])
def test_a_table_gives_the_file_of_fit_when_workers_die_in_both_passes(
    segments: int | None, cluster: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 30, (900, 3)).astype(str), rng.integers(0, 3, 900).astype(str)
    rows, marks = tmp_path / "rows", tmp_path / "marks"
    rows.mkdir()
    marks.mkdir()
    for part in range(3):
        own = slice(300 * part, 300 * (part + 1))
        columns = {f"c{j}": pa.array(X[own, j].tolist()) for j in range(3)} | {"y": pa.array(y[own].tolist())}
        pq.write_table(pa.table(columns), rows / f"{part}.parquet", row_group_size=70)
    source = marked_source.Dying(**vars(open_table(rows)), marks=str(marks), fatal="1.parquet", deaths=(1, 3))
    clf = MemoryClassifier(memory="exact", keep=150)
    options: Any = {} if segments is None else {"segments": segments, "out": tmp_path / "model"}
    model = fit_rows_of(clone(clf), source, "y", engine="ray", group_size=1, **options)
    expected = clf.fit(pd.DataFrame(X, columns=["c0", "c1", "c2"], dtype=object), y.astype(object))
    assert model.digest() == expected.digest()
    assert len(list(marks.glob("1.parquet-*"))) == 4  # each pass has read it twice
    assert len(list(marks.iterdir())) == 8
