"""Sources and resumed jobs on object storage: moto's S3 server on loopback, reached as any other S3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import object_store

pytest.importorskip("moto", reason="moto is not installed: pip install --group ray-tests")
pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from engine_fits import fit_docs  # noqa: E402
from hammemo import MemoryClassifier  # noqa: E402
from hammemo.memories import Exact, Hashed  # noqa: E402
from hammemo.sources.documents import open_source  # noqa: E402
from hammemo.sources.read_tables import read_table  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hammemo.engines import GroupReport

pytestmark = [
    pytest.mark.xdist_group("cluster"),  # with the tests of Ray: both start servers
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for part in range(3):
        rows = [rng.integers(0, 30, 40).astype(np.int32) for _ in range(100)]
        pq.write_table(pa.table({"tokens": rows}), folder / f"{part}.parquet", row_group_size=25)
    (folder / "notes.txt").write_text("".join(f"{i} {i + 1} {i + 2}\n" for i in range(200)))
    for ending in ("", ".gz", ".zst"):
        with pa.output_stream(folder / f"rows.jsonl{ending}") as stream:  # compressed as the name says
            stream.write("".join(f'{{"a": {i}, "b": "x"}}\n' for i in range(1000)).encode())
    return folder


@pytest.fixture(scope="module")
def address(files: Path) -> Iterator[Callable[[str], str]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in object_store.ENVIRONMENT.items():
            patch.setenv(name, value)
        with object_store.bucket(files) as there:
            yield there


@pytest.mark.parametrize("memory", [Hashed(16, 4), Exact()])
def test_files_in_a_bucket_are_learnt_as_files_on_a_disk(memory: Any, files: Path, address: Any) -> None:
    clf = MemoryClassifier(memory=memory, vote="sum")
    here = fit_docs(clf, f"{files}/*.parquet", 3, shard_bytes=2000)
    there = fit_docs(clf, address("data/*.parquet"), 3, shard_bytes=2000, engine="threads", workers=2)
    assert there.memory_.state_bytes() == here.memory_.state_bytes()


@pytest.mark.parametrize("cut", [100, None])
def test_text_in_a_bucket_is_cut_between_lines(cut: int | None, files: Path, address: Any) -> None:
    def documents(where: Any) -> list[list[int]]:
        source = open_source(where)
        pieces = [piece for shard in source.shards(cut) for piece in source.pieces(shard)]
        return [document.tolist() for piece in pieces for document in piece.documents()]

    assert documents(address("data/notes.txt")) == documents(files / "notes.txt")


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst", "0.parquet"])
def test_a_table_in_a_bucket_is_read_as_one_on_a_disk(name: str, files: Path, address: Any) -> None:
    def values(where: str) -> list[list[Any]]:
        return [column.tolist() for batch in read_table(where) for column in batch.columns]

    def documents(where: str) -> list[list[Any]]:
        return [tokens.tolist() for tokens in open_source(where, tokens="words").documents()]

    assert values(address(f"data/{name}")) == values(str(files / name))
    assert values(address(f"data/{name}"))
    if name != "0.parquet":
        assert documents(address(f"data/{name}")) == documents(str(files / name))
    with pytest.raises(FileNotFoundError, match="does not exist"):
        values(address(f"data/no-{name}"))


def test_a_job_is_resumed_from_a_bucket(files: Path, address: Any) -> None:
    options: Any = {"shard_bytes": 2000, "engine": "threads", "resume": address("states")}
    reports: list[GroupReport] = []
    first = fit_docs(
        MemoryClassifier(memory="hashed", vote="sum"), f"{files}/*.parquet", 3, on_report=reports.append, **options
    )
    assert not any(report.resumed for report in reports)
    reports.clear()
    again = fit_docs(
        MemoryClassifier(memory="hashed", vote="sum"), f"{files}/*.parquet", 3, on_report=reports.append, **options
    )
    assert all(report.resumed for report in reports)
    assert again.memory_.state_bytes() == first.memory_.state_bytes()
    with pytest.raises(ValueError, match="h is 3 there and 4 here"):
        fit_docs(MemoryClassifier(memory="hashed", vote="sum"), f"{files}/*.parquet", 4, **options)


def test_what_is_not_there_is_named(address: Any) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_source(address("nothing"))
    with pytest.raises(FileNotFoundError, match="holds no file"):
        open_source(address("data/*.csv"))
