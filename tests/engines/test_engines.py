"""Engines: one state, to the byte, whatever the engine, the workers, the shards, the groups and their order."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from engine_fits import fit_docs  # noqa: E402
from hammemo import MemoryClassifier  # noqa: E402
from hammemo.engines import GroupReport  # noqa: E402
from hammemo.engines import ray as ray_engine  # noqa: E402
from hammemo.engines.jobs import pack, unpack  # noqa: E402
from hammemo.kernels import SiteKernel  # noqa: E402
from hammemo.memories import Exact, Gaussian, Hashed, Tiered  # noqa: E402
from hammemo.paper.experiments.measuring import zipf_stream  # noqa: E402
from hammemo.sources.documents import Source, open_source  # noqa: E402
from hammemo.tokens.contexts import Examples  # noqa: E402
from hammemo.votes import LogLinear  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hammemo.sources.documents import Pieces
    from hammemo.sources.listing import Shard

KERNEL = SiteKernel([-1, (-2, -1), 0])
MEMORIES = [Hashed(buckets=64, reserved=16), Exact()]


@pytest.fixture(scope="module")
def zipf(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """Return 60,000 Zipf tokens in three Parquet files, in documents of 1 to 40."""
    folder = tmp_path_factory.mktemp("zipf")
    tokens = zipf_stream(60_000, 500).astype(np.int32)
    edges = np.append(0, np.cumsum(np.random.default_rng(0).integers(1, 40, 5000)))
    edges = np.append(edges[edges < len(tokens)], len(tokens))
    documents = pa.ListArray.from_arrays(pa.array(edges, pa.int32()), pa.array(tokens))
    third = len(documents) // 3
    for part in range(3):
        table = pa.table({"tokens": documents[part * third : (part + 1) * third if part < 2 else len(documents)]})
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=100)
    return open_source(folder)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("words") / "a.txt"
    text = [f"w{token}" for token in zipf_stream(6_000, 50).tolist()]
    path.write_text("\n".join(" ".join(text[first : first + 17]) for first in range(0, len(text), 17)))
    return open_source(path, tokens="words")


def state(model: MemoryClassifier) -> bytes:
    return model.memory_.state_bytes()


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("classes", [None, 20, [0, 1, 499, 777]])
def test_every_engine_gives_the_bytes_of_one_stream(memory: Any, classes: Any, zipf: Source) -> None:
    clf = MemoryClassifier(KERNEL, memory, vote="sum")
    one = fit_docs(clf, zipf, 3, classes=classes, workers=1)
    stream = MemoryClassifier(KERNEL, memory, vote="sum").fit_stream(
        zipf.documents(), 3, classes=None if classes is None else one.classes_, layout=one
    )
    assert state(one) == state(stream)
    assert one.classes_.tolist() == stream.classes_.tolist()
    if classes is not None:
        assert len(one.classes_) == (classes if isinstance(classes, int) else len(classes))
    every: list[Any] = [
        {"engine": "threads", "workers": 2},
        {"engine": "threads", "workers": 3, "shard_bytes": 3000, "group_size": 5},
        {"engine": "processes", "workers": 2, "shard_bytes": 9000},
        {"engine": "local", "workers": 2, "shard_bytes": 20_000},
    ]
    for options in every:
        if options["engine"] != "processes" or classes == 20:  # they take long to start
            assert state(fit_docs(clf, zipf, 3, classes=classes, **options)) == state(one), options


@pytest.mark.quick
def test_one_file_is_learnt_as_fit_stream_learns_its_documents(words: Source) -> None:
    shorts: list[Any] = ["drop", "pad"]
    for short in shorts:
        learnt = fit_docs(
            MemoryClassifier(memory="hashed", vote="sum"), words, 3, short=short, engine="threads", shard_bytes=500
        )
        assert state(learnt) == state(
            MemoryClassifier(memory="hashed", vote="sum").fit_stream(words.documents(), 3, short=short)
        )
        assert learnt.classes_.dtype == object


@pytest.mark.parametrize("memory", MEMORIES)
@given(order=st.permutations(range(9)), size=st.integers(1, 9))
@settings(max_examples=10, deadline=None)
def test_the_order_and_the_grouping_of_shards_change_nothing(memory: Any, order: Any, size: int, zipf: Source) -> None:
    """By hand, as an engine would: learn any groups of shards in any order, add in any order."""
    from hammemo.engines.jobs import Job

    shards = zipf.shards(zipf.nbytes // 8)
    assert len(shards) == 9
    model = fit_docs(MemoryClassifier(memory=memory, vote="sum"), zipf, 2, classes=10, engine="threads", workers=1)
    job = Job(model.memory_.empty_like(), zipf, 2, "drop", None, model.memory_.labels)
    total = model.memory_.empty_like()
    for first in range(0, 9, size):
        arrays, _ = job.learn_packed(first, tuple(shards[i] for i in order[first : first + size]))
        total.merge(unpack(job.template, arrays))
    total.declare(model.memory_.labels)
    assert total.state_bytes() == state(model)


def test_files_given_in_any_order_are_one_source(zipf: Source) -> None:
    paths = [file.path for file in zipf.files]
    turned = fit_docs(MemoryClassifier(memory="hashed", vote="sum"), paths[::-1], 3, classes=10)
    assert state(turned) == state(fit_docs(MemoryClassifier(memory="hashed", vote="sum"), zipf, 3, classes=10))


@pytest.mark.quick
def test_small_files_are_taken_together_and_large_ones_cut() -> None:
    from hammemo.engines.running import group_shards
    from hammemo.sources.listing import File

    def sizes(files: list[int], shard_bytes: int, task_bytes: int) -> list[int]:
        shards = Source(tuple(File("", str(i), size) for i, size in enumerate(files)), "text").shards(shard_bytes)
        groups = group_shards(shards, None, task_bytes)
        assert [shard for group in groups for shard in group] == shards
        return [sum(shard.stop - shard.start for shard in group) for group in groups]

    assert sizes([10] * 7, 100, 40) == [30, 30, 10]
    assert sizes([100], 40, 40) == [34, 33, 33]
    assert sizes([100], 40, 60) == [67, 33]
    assert sizes([0], 40, 40) == [0]


@pytest.mark.parametrize(
    ("memory", "keep"), [(Gaussian(16, exact=True), "auto"), (Tiered(Hashed(16, 4)), "auto"), (Exact(), "digests")]
)
def test_every_memory_with_an_exact_state_travels(memory: Any, keep: str, words: Source, tmp_path: Path) -> None:
    clf = MemoryClassifier(memory=memory, vote="sum", keep=keep)
    one = fit_docs(clf, words, 2, workers=1, shard_bytes=8000)
    options: list[Any] = [{"engine": "threads"}, {"engine": "processes"}, {"resume": tmp_path / "states"}]
    for option in options:
        assert state(one) == state(fit_docs(clf, words, 2, workers=2, shard_bytes=8000, **option))


@pytest.mark.quick
def test_a_layout_can_be_given_so_that_models_add_up(zipf: Source, words: Source) -> None:
    files = [replace(zipf, files=zipf.files[part : part + 1]) for part in range(3)]
    whole = fit_docs(MemoryClassifier(memory=Hashed(16, 8), vote="sum"), zipf, 3)
    parts = [fit_docs(MemoryClassifier(memory=Hashed(16, 8), vote="sum"), file, 3, layout=whole) for file in files]
    assert state(sum(parts)) == state(whole)  # type: ignore[arg-type]


def test_progress_and_reports_are_told(zipf: Source) -> None:
    told: list[tuple[int, int]] = []
    reports: list[GroupReport] = []
    fit_docs(
        MemoryClassifier(memory="hashed", vote="sum"), zipf, 3, classes=5, group_size=1,
        on_progress=lambda *numbers: told.append(numbers), on_report=reports.append,
    )  # fmt: skip
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert sum(report.tokens for report in reports) == 60_000
    assert sum(report.source_bytes for report in reports) == zipf.nbytes
    assert all(report.peak_bytes > 10**7 and report.seconds > report.reading_seconds for report in reports)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": "spark"}, "engine='spark' is not known: use local, threads"),
        ({"workers": 0}, "workers=0 is a whole number"),
        ({"h": 50}, "no document of the source has more than h=50"),
        ({"classes": 0}, "at least one label"),
    ],
)
def test_mistakes_are_named(arguments: Any, message: str, zipf: Source) -> None:
    with pytest.raises(ValueError, match=message):
        fit_docs(MemoryClassifier(memory="hashed", vote="sum"), zipf, **{"h": 3, **arguments})


# ---------------------------------------------------------------- states and parts

tokens = st.sampled_from([0, 3, 7, 0.5, "a", "b", "ß"])
rows = st.lists(st.tuples(st.lists(tokens, min_size=3, max_size=3), st.sampled_from(["x", "y", "ß"])), max_size=12)


def learnt(memory: Any, batch: Any) -> Any:
    opened = memory.open(KERNEL.resolve(3))
    X = np.empty((len(batch), 3), object)
    for i, (context, _) in enumerate(batch):
        X[i] = context
    if batch:
        opened.add(Examples.of(X, [label for _, label in batch]))
    return opened


@given(batch=rows, hashed=st.booleans())
@settings(max_examples=50, deadline=None)
def test_a_packed_state_is_unpacked_from_read_only_arrays(batch: Any, hashed: bool) -> None:
    memory = learnt(Hashed(4, 2) if hashed else Exact(), batch)
    arrays = pack(memory)
    for array in arrays.values():
        array.flags.writeable = False
    again = unpack(memory.empty_like(), arrays)
    assert again.state_bytes() == memory.state_bytes()
    again.merge(unpack(memory.empty_like(), arrays))
    memory.merge(unpack(memory.empty_like(), arrays))
    assert again.state_bytes() == memory.state_bytes()


def test_what_ray_runs_is_the_same_without_ray(zipf: Source) -> None:
    """The functions of the tasks, called here: what they do must not depend on where they run."""
    from hammemo.engines.jobs import Job

    model = fit_docs(MemoryClassifier(memory=Exact(), vote="sum"), zipf, 2, classes=10, engine="threads", workers=1)
    job = Job(model.memory_.empty_like(), zipf, 2, "drop", None, model.memory_.labels)
    shards = zipf.shards(zipf.nbytes)
    states = [ray_engine._learn(job, group, (shard,))[1] for group, shard in enumerate(shards)]
    assert unpack(job.template, ray_engine._add(job.template, *states)).state_bytes() == state(model)
    report, whole = ray_engine._learn(job, 0, tuple(shards))
    assert unpack(job.template, whole).state_bytes() == state(model)
    assert report.tokens == 60_000


# ---------------------------------------------------------------- resuming


@dataclass(frozen=True)
class Failing(Source):
    """A source whose reading fails at the shards of one file; the sample reads the file as a whole, and can."""

    broken: str = ""

    def pieces(self, shard: Shard) -> Iterator[Pieces]:
        whole = shard.stop - shard.start == shard.file.size
        if self.broken and shard.file.path.endswith(self.broken) and not whole:
            if self.broken == "1.parquet":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("the disk is gone")
        return super().pieces(shard)


def failing(source: Source, broken: str) -> Failing:
    return Failing(**{**vars(source), "broken": broken})


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_job_that_failed_is_resumed_and_repeats_nothing(memory: Any, zipf: Source, tmp_path: Path) -> None:
    folder, clf = str(tmp_path / "states"), MemoryClassifier(memory=memory, vote="sum")
    options: Any = {"classes": 10, "shard_bytes": 10_000, "group_size": 1, "engine": "threads", "workers": 1}
    expected = fit_docs(clf, zipf, 3, **options)
    with pytest.raises(OSError, match="disk is gone"):
        fit_docs(clf, failing(zipf, "2.parquet"), 3, resume=folder, **options)
    done = sorted(path.name for path in (tmp_path / "states").glob("group-*"))
    reports: list[GroupReport] = []
    assert state(fit_docs(clf, zipf, 3, resume=folder, on_report=reports.append, **options)) == state(expected)
    assert [f"group-{report.group:06d}" for report in reports if report.resumed] == done
    assert 0 < len(done) < len(reports)
    reports.clear()
    assert state(fit_docs(clf, zipf, 3, resume=folder, on_report=reports.append, **options)) == state(expected)
    assert all(report.resumed and report.tokens == 0 for report in reports)
    assert not list((tmp_path / "states").glob("*.part"))


def test_a_worker_that_dies_is_named_and_the_job_resumed(zipf: Source, tmp_path: Path) -> None:
    options: Any = {"classes": 10, "engine": "processes", "workers": 2, "shard_bytes": 20_000, "resume": str(tmp_path)}
    with pytest.raises(RuntimeError, match="A worker process died"):
        fit_docs(MemoryClassifier(memory="hashed", vote="sum"), failing(zipf, "1.parquet"), 3, **options)
    expected = fit_docs(MemoryClassifier(memory="hashed", vote="sum"), zipf, 3, classes=10)
    assert state(fit_docs(MemoryClassifier(memory="hashed", vote="sum"), zipf, 3, **options)) == state(expected)


def test_a_damaged_state_counts_as_not_there(zipf: Source, tmp_path: Path) -> None:
    options: Any = {"classes": 10, "group_size": 1, "resume": str(tmp_path)}
    expected = fit_docs(MemoryClassifier(memory="hashed", vote="sum"), zipf, 3, **options)
    damaged = tmp_path / "group-000001"
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    (tmp_path / "group-000002").write_bytes(b"")
    reports: list[GroupReport] = []
    assert state(
        fit_docs(MemoryClassifier(memory="hashed", vote="sum"), zipf, 3, on_report=reports.append, **options)
    ) == state(expected)
    assert [report.resumed for report in reports] == [True, False, False]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"h": 2}, "h is 3 there and 2 here"),
        ({"classes": 9}, "classes is"),
        ({"short": "pad"}, "short is 'drop' there and 'pad' here"),
        ({"memory": Exact()}, "memory is 'Hashed' there and 'Exact' here"),
        ({"memory": Hashed(9)}, "layout is"),
        ({"shard_bytes": 9000}, "groups is 3 there"),
    ],
)
def test_the_folder_of_another_job_is_refused_by_name(changed: Any, field: str, zipf: Source, tmp_path: Path) -> None:
    def run(memory: Any = None, h: int = 3, **options: Any) -> None:
        fit_docs(
            MemoryClassifier(memory=memory, vote="sum"),
            zipf,
            h,
            resume=str(tmp_path),
            **{"classes": 10, "group_size": 1, **options},
        )

    run()
    assert json.loads((tmp_path / "manifest.json").read_text())["files"] == 3
    with pytest.raises(ValueError, match=field):
        run(**changed)


def test_a_source_that_changed_is_another_job(words: Source, tmp_path: Path) -> None:
    fit_docs(MemoryClassifier(memory="hashed", vote="sum"), words, 2, engine="threads", resume=str(tmp_path))
    file = replace(words.files[0], modified=words.files[0].modified + 1)
    with pytest.raises(ValueError, match="source is"):
        fit_docs(
            MemoryClassifier(memory="hashed", vote="sum"),
            replace(words, files=(file,)),
            2,
            engine="threads",
            resume=str(tmp_path),
        )


def test_a_log_linear_vote_is_fitted_to_the_sample_with_the_counts_of_everything(words: Source) -> None:
    estimator = MemoryClassifier(KERNEL, Exact(), LogLinear(sample=20_000))
    model = fit_docs(estimator, words, 3, classes=10, engine="threads", workers=2, shard_bytes=4_000)
    block = words.sample(3)
    assert block is not None
    examples = block.examples().only(model.memory_.labels)
    again = LogLinear(sample=20_000)
    again.fit_to(model.memory_.reader(), examples, model.sites_, seed=model.memory_.seed)
    assert model.vote_.site_weights_.tolist() == again.site_weights_.tolist()
    other = fit_docs(estimator, words, 3, classes=10, engine="threads", workers=1)
    assert other.vote_.site_weights_.tolist() == again.site_weights_.tolist()
    shard = fit_docs(estimator, words, 3, classes=10, engine="threads", workers=1, layout=model)
    assert shard.vote_.site_weights_.tolist() == again.site_weights_.tolist()
