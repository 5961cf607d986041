"""Fits in segments: the same bytes by every engine and whatever dies, and the state of a fit in memory."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forked
from engine_fits import fit_docs
from hammemo import MemoryClassifier, load
from hammemo.engines import adding, segments
from hammemo.files import segment_files
from hammemo.kernels import Bag, PositionalHamming, Suffixes
from hammemo.memories import Exact, Hashed, Tiered
from hammemo.paper.experiments.measuring import zipf_stream
from hammemo.sources.documents import open_source
from hammemo.votes import LogLinear, Mixture

H = 3
MEMORIES: dict[str, Any] = {"exact": Exact(), "tiered": Tiered(Hashed(16, 8, key=bytes(32)))}
either = pytest.mark.parametrize("memory", list(MEMORIES))


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 24,000 Zipf tokens as words in documents of 20, in three files; some documents are too short."""
    folder = tmp_path_factory.mktemp("words")
    for number in range(3):
        tokens = zipf_stream(8000, 300, seed=number).reshape(-1, 20)
        lines = [" ".join(f"t{token}" for token in row) for row in tokens]
        (folder / f"{number}.txt").write_text("\n".join([*lines, "t1", "t2 t3"]) + "\n")
    return folder


@pytest.fixture(scope="module")
def usual(words: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """Return the files that one thread writes, four segments, for each memory."""
    folder = tmp_path_factory.mktemp("usual")
    for memory in MEMORIES:
        learnt(words, memory=memory, segments=4, out=folder / memory)
    return {memory: files_of(folder / memory) for memory in MEMORIES}


def learnt(
    words: Path, kernel: Any = None, vote: Any = "sum", memory: str = "exact", **options: Any
) -> MemoryClassifier:
    estimator = MemoryClassifier(kernel or PositionalHamming(), MEMORIES[memory], vote)
    options = {"engine": "threads", "workers": 1, "short": "pad", "shard_bytes": 9000, **options}
    return fit_docs(estimator, open_source(words, tokens="words"), H, **options)


def recorded_writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the names of runs and segments are added as they are written."""
    names: list[str] = []

    def write(path: str, arrays: Any) -> Any:
        names.append(Path(path).name)
        return segment_files.write_segment(path, arrays)

    monkeypatch.setattr(segments, "write_segment", write)
    return names


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


@pytest.mark.parametrize("kernel", [PositionalHamming(), Suffixes(3)], ids=str)
@pytest.mark.parametrize("vote", ["sum", LogLinear(sample=200), Mixture(sample=200, steps=3)], ids=str)
def test_the_state_and_the_weights_are_those_of_a_fit_in_memory(
    kernel: Any, vote: Any, words: Path, tmp_path: Path
) -> None:
    plain = learnt(words, kernel, vote, classes=8)
    segmented = learnt(words, kernel, vote, classes=8, segments=5, out=tmp_path)
    assert segmented.memory_.segmented is not None
    asked = [["t1", "t2", "t3"], ["t7", "t1", "t1"]]
    for model in (segmented, load(tmp_path)):
        assert model.memory_.state_digest() == plain.memory_.state_digest()
        np.testing.assert_array_equal(model.class_scores(asked), plain.class_scores(asked))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("kernel", [PositionalHamming(), Suffixes(3)], ids=str)
@pytest.mark.parametrize("vote", ["sum", LogLinear(sample=200)], ids=str)
def test_two_tiers_and_their_weights_are_those_of_a_fit_in_memory(
    kernel: Any, vote: Any, words: Path, tmp_path: Path
) -> None:
    plain = learnt(words, kernel, vote, "tiered", classes=8)
    segmented = learnt(words, kernel, vote, "tiered", classes=8, segments=5, out=tmp_path, group_size=2)
    assert segmented.memory_.segmented is not None
    asked = [["t1", "t2", "t3"], ["t7", "t1", "t1"], ["t299", "t298", "t297"]]
    for model in (segmented, load(tmp_path, key=bytes(32))):
        assert model.memory_.state_digest() == plain.memory_.state_digest()
        assert model.memory_.sketch_.state_bytes() == plain.memory_.sketch_.state_bytes()
        np.testing.assert_array_equal(model.class_scores(asked), plain.class_scores(asked))
        assert model.predict(asked).tolist() == plain.predict(asked).tolist()
    assert not (tmp_path / "runs").exists()


def test_groups_with_nothing_to_learn_have_a_sketch_too(tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for number, line in enumerate(["t1 t2 t3 t4 t1 t2 t3 t5", "t1 t2", "t6 t7 t8 t9"]):
        (few / f"{number}.txt").write_text(f"{line}\n" * 3)
    options: dict[str, Any] = {"memory": "tiered", "classes": ["t4", "t5"], "short": "drop", "group_size": 1}
    segmented = learnt(few, segments=2, out=tmp_path / "model", **options)
    assert segmented.memory_.state_digest() == learnt(few, **options).memory_.state_digest()


@either
@pytest.mark.parametrize(
    "options",
    [{"group_size": 1}, {"shard_bytes": 4000, "group_size": 7}, {"workers": 2}, {"engine": "processes", "workers": 2}],
    ids=str,
)
def test_the_files_do_not_depend_on_who_learns(
    options: Any, memory: str, words: Path, usual: Any, tmp_path: Path
) -> None:
    learnt(words, memory=memory, segments=4, out=tmp_path, **options)
    assert files_of(tmp_path) == usual[memory]


@either
def test_the_limit_decides_how_large_a_run_is_and_changes_no_byte(
    memory: str, words: Path, usual: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = recorded_writes(monkeypatch)
    monkeypatch.setattr(adding.Adder, "most_entries", lambda self: 2000)
    learnt(words, memory=memory, segments=4, out=tmp_path / "b", group_size=100)
    assert sum("run-" in path for path in written) > 3
    assert files_of(tmp_path / "b") == usual[memory]


@pytest.mark.parametrize(("fan_in", "most_runs", "n_segments"), [(2, 1, 4), (3, 2, 1), (16, 3, 9)])
def test_many_runs_are_brought_together_first_and_that_changes_no_byte(
    fan_in: int, most_runs: int, n_segments: int, words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt(words, segments=n_segments, out=tmp_path / "a", group_size=1)
    monkeypatch.setattr(adding, "FAN_IN", fan_in)
    monkeypatch.setattr(adding, "MAX_RUNS", most_runs)
    taken: list[int] = []
    arrays = adding.Adder.arrays

    def noted(adder: adding.Adder, runs: Any, *ends: Any, **options: Any) -> Any:
        taken.append(len(runs))
        return arrays(adder, runs, *ends, **options)

    monkeypatch.setattr(adding.Adder, "arrays", noted)
    told: list[tuple[int, int]] = []
    learnt(words, segments=n_segments, out=tmp_path / "b", group_size=1, on_progress=lambda *at: told.append(at))
    assert [done for done, _ in told] == list(range(told[-1][1] + 1))  # one task after the other, up to all
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    n_segments = len(list((tmp_path / "b").glob("segment-*")))
    assert len(taken) > n_segments
    assert max(taken[-n_segments:]) <= most_runs
    assert max(taken) <= max(fan_in, most_runs)
    assert not (tmp_path / "b" / "runs").exists()


@either
def test_what_is_there_is_not_made_again_and_what_is_damaged_is(
    memory: str, words: Path, usual: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments.SegmentsJob, "delete_runs", lambda self: None)
    learnt(words, memory=memory, segments=4, out=tmp_path / "b", group_size=1)
    damaged = sorted((tmp_path / "b" / "runs").glob("*.safetensors"))[1]
    data = bytearray(damaged.read_bytes())
    data[-9] ^= 4
    damaged.write_bytes(data)
    sorted((tmp_path / "b").glob("segment-*"))[2].unlink()
    made = recorded_writes(monkeypatch)
    reports: list[Any] = []
    learnt(words, memory=memory, segments=4, out=tmp_path / "b", group_size=1, on_report=reports.append)
    assert [report.resumed for report in reports].count(False) == 1
    assert sorted(name.split("-")[0] for name in made) == ["run", "segment"]
    assert files_of(tmp_path / "b") == usual[memory]


DRIVER = """
import os, sys
from hammemo.engines import adding, segments
adding.FAN_IN = adding.MAX_RUNS = int(sys.argv[5])
left, write = int(sys.argv[3]), segments.write_segment
def counted(*given):
    global left
    if left == 0:
        os.kill(os.getpid(), 9)
    left -= 1
    return write(*given)
segments.write_segment = counted
sys.path.insert(0, sys.argv[4])
from pathlib import Path
from test_segments import learnt
learnt(Path(sys.argv[1]), memory=sys.argv[6], segments=4, out=Path(sys.argv[2]), group_size=1)
"""


@pytest.mark.parametrize(
    ("memory", "made", "fan_in"),
    [*(("exact", *numbers) for numbers in [(0, 64), (2, 64), (5, 64), (17, 2), (25, 2)]), ("tiered", 5, 64)],
)
def test_a_driver_that_was_killed_is_gone_on_with(
    memory: str, made: int, fan_in: int, words: Path, usual: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [words, tmp_path / "b", made, Path(__file__).parent, fan_in, memory]
    monkeypatch.setattr(adding, "FAN_IN", fan_in)
    monkeypatch.setattr(adding, "MAX_RUNS", fan_in)
    ended = forked.run(DRIVER, *told)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not (tmp_path / "b" / "head.safetensors").exists()
    reports: list[Any] = []
    learnt(words, memory=memory, segments=4, out=tmp_path / "b", group_size=1, on_report=reports.append)
    assert sum(report.resumed for report in reports) == min(made, len(reports))
    assert files_of(tmp_path / "b") == usual[memory]


def test_what_cannot_be_learnt_in_segments_is_refused(words: Path, tmp_path: Path) -> None:
    source = open_source(words, tokens="words")
    with pytest.raises(ValueError, match="segments= cuts an exact table"):
        fit_docs(MemoryClassifier(memory=Hashed(8), vote="sum"), source, H, segments=2, out=tmp_path)
    with pytest.raises(ValueError, match="without Bag"):
        fit_docs(MemoryClassifier(Suffixes(2) + Bag(2), Exact()), source, H, segments=2, out=tmp_path)
    with pytest.raises(ValueError, match="out= names the folder"):
        learnt(words, segments=2)
    with pytest.raises(ValueError, match="resume= is not used"):
        learnt(words, segments=2, out=tmp_path / "x", resume=str(tmp_path / "y"))
