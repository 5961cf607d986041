"""Models in segments, of one tier and of two: whatever is done to a folder, it answers as the model in memory does."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forked
import hammemo
from folder_cases import KERNELS, assert_same, rows
from hammemo import NO_TOKEN, FileError, LayoutError, MemoryClassifier, NotStoredError, compact, editing, load, save
from hammemo.files import inspect, read_notes
from hammemo.files.archive import Archive
from hammemo.files.folders import HEAD
from hammemo.files.locks import locked
from hammemo.kernels import Bag, Suffixes
from hammemo.memories import Exact, Hashed, Tiered
from hammemo.memories.exact.segments import segment
from hammemo.votes import LogLinear, Mixture
from mutated_files import seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VOTES: dict[str, Any] = {
    "sum": "sum",
    "mean": "mean",
    "log-linear": LogLinear(sample=60),
    "mixture": Mixture(sample=60, steps=3),
}
STEPS = ["learn", "forget", "one", "wrong", "save", "compact", "recut", "merge", "unmerge"]
MEMORIES = [Exact(), Tiered(Hashed(4, 3))]
CASES = [(memory, vote) for memory in MEMORIES for vote in VOTES if vote != "mixture" or memory is MEMORIES[0]]


@pytest.fixture(autouse=True, scope="module", params=[None, True], ids=["the smaller form", "packed"])
def form(request: pytest.FixtureRequest) -> Iterator[bool | None]:
    """Let segments be written as they are by default, which is side by side for rows as short as here, or packed."""
    right = segment.segment_arrays
    with pytest.MonkeyPatch.context() as patch:
        if request.param:
            patch.setattr(segment, "segment_arrays", lambda *given, **_: right(*given, packed=True))
        yield request.param


def fitted(kernel: str, vote: str, n: int = 60, seed: int = 0, memory: Any = None) -> MemoryClassifier:
    return MemoryClassifier(KERNELS[kernel], memory or Exact(), VOTES[vote]).fit(*rows(n, seed))


def outcome(change: Callable[[], Any]) -> str:
    """Return whether an edit was made."""
    try:
        change()
    except NotStoredError:
        return "refused"
    return "made"


@pytest.mark.filterwarnings("ignore:The two models have different fitted weights")
@pytest.mark.parametrize(("memory", "vote"), CASES, ids=str)
@pytest.mark.examples(4)
@settings(max_examples=20, deadline=None)
@given(kernel=st.sampled_from(list(KERNELS)), steps=st.lists(st.sampled_from(STEPS), max_size=7), n=st.integers(1, 5))
def test_any_sequence_of_edits_gives_the_plain_model(
    memory: Any, vote: str, kernel: str, steps: list[str], n: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("model")
    plain = fitted(kernel, vote, memory=memory)
    save(plain, folder, segments=n)
    segmented = load(folder)
    held, others = [rows(60, 0)], list[int]()
    for number, step in enumerate(steps):
        X, y = rows(12, 100 + number)
        if step == "learn":
            held.append((X, y))
            for model in (plain, segmented):
                model.partial_fit(X, y)
        elif step == "one":
            for model in (plain, segmented):
                model.learn_one(X[0].tolist(), y[0]).learn_one(X[0].tolist(), y[0]).forget_one(X[0].tolist(), y[0])
            held.append((X[:1], y[:1]))
        elif step == "wrong":  # never learnt; the counts of a single row are often there, those of three are not
            X, y = X[: 1 + number % 3], y[: 1 + number % 3]
            found = {outcome(lambda: model.forget(X, y)) for model in (plain, segmented)}  # noqa: B023
            assert len(found) == 1
            if found == {"made"}:
                for model in (plain, segmented):
                    model.partial_fit(X, y)
        elif step == "forget" and held:
            X, y = held.pop()
            cut = len(X) // 2
            for model in (plain, segmented):
                model.forget(X[cut:], y[cut:])
            if cut:
                held.insert(0, (X[:cut], y[:cut]))
        elif step == "merge":
            others.append(number)
            other, second = plain.empty_like().partial_fit(X, y), tmp_path_factory.mktemp("other")
            save(other, second, segments=2)
            plain.merge(other)
            segmented.merge(load(second))
        elif step == "unmerge" and others:
            other = plain.empty_like().partial_fit(*rows(12, 100 + others.pop()))
            plain.unmerge(other)
            segmented.unmerge(other)
        elif step == "save":
            save(segmented, folder)
            segmented = load(folder)
        elif step in ("compact", "recut"):
            save(segmented, folder)
            compact(folder, segments=3 if step == "recut" else None)
            segmented = load(folder)
            assert not list(folder.glob("edits-*"))
        assert segmented.memory_.state_digest() == plain.memory_.state_digest()
    assert_same(segmented, plain)


@pytest.mark.examples(8)
@settings(max_examples=20, deadline=None)
@given(
    kernel=st.sampled_from(list(KERNELS)),
    edits=st.lists(
        st.tuples(st.sampled_from(["learn", "forget", "batch"]), st.integers(0, 70), st.sampled_from("xyzwqa")),
        min_size=1,
        max_size=10,
    ),
    saved=st.integers(0, 9),
)
def test_single_edits_are_those_of_the_plain_model(
    kernel: str, edits: list[tuple[str, int, str]], saved: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """New labels, labels that go, rows that were never stored, positions without a token; asked after each edit."""
    folder = tmp_path_factory.mktemp("edits")
    plain = fitted(kernel, "sum")
    save(plain, folder, segments=3)
    model = load(folder)
    X, y = rows(60, 0)
    more = rows(20, 4)[0]
    for step, (kind, number, label) in enumerate(edits):
        row = list(X[number]) if number < 60 else list(more[number - 60])
        own = y[number] if number < 60 and label in "xyz" else label
        outcomes = []
        for one in (plain, model):
            try:
                if kind == "learn":
                    one.learn_one(row, own)
                elif kind == "forget":
                    one.forget_one(row, own)
                else:
                    one.forget(X[: number + 1 : 9], y[: number + 1 : 9]).partial_fit(more[:3], [own] * 3)
                outcomes.append("done")
            except NotStoredError:
                outcomes.append("refused")
        assert outcomes[0] == outcomes[1]
        asked = np.concatenate([X[:4], more[:4]])
        np.testing.assert_array_equal(model.class_scores(asked), plain.class_scores(asked))
        assert model.predict(asked[:1]).tolist() == plain.predict(asked[:1]).tolist()
        assert model.classes_.tolist() == plain.classes_.tolist()
        if step == saved:
            save(model, folder)
            model = load(folder)
    assert_same(model, plain)
    save(model, folder)
    compact(folder)
    assert_same(load(folder), plain)


def test_compaction_keeps_notes_that_come_while_it_waits(tmp_path: Path) -> None:
    X, y = rows(50, 1)
    save(MemoryClassifier("positional", vote="sum").fit(X, y), tmp_path / "a", segments=2, notes={"by": "me"})
    is_waiting = threading.Event()
    with locked(tmp_path / "a" / HEAD):
        waiting = threading.Thread(target=lambda: compact(tmp_path / "a", tell=lambda _: is_waiting.set()))
        waiting.start()
        is_waiting.wait()
        save(load(tmp_path / "a"), tmp_path / "a", notes={"by": "you"})
    waiting.join()
    assert read_notes(tmp_path / "a") == {"by": "you"}


@pytest.mark.parametrize("memory", MEMORIES, ids=str)
def test_edits_and_compaction_equal_a_fresh_fit_to_the_byte(memory: Any, tmp_path: Path) -> None:
    X, y = rows(300, 1)
    start = MemoryClassifier("positional", memory=memory, vote="sum").fit(X[:200], y[:200])
    save(start, tmp_path / "a", segments=3)
    with editing(tmp_path / "a") as model:
        model.partial_fit(X[200:], y[200:]).forget(X[:50], y[:50])
    assert inspect(tmp_path / "a")["edits"] == 2
    compact(tmp_path / "a")
    fresh = start.empty_like().partial_fit(X[50:], y[50:])
    assert_same(load(tmp_path / "a"), fresh)
    compact(tmp_path / "a", segments=2)
    save(fresh, tmp_path / "b", segments=2)
    one, two = (sorted(p.read_bytes() for p in (tmp_path / name).glob("segment-*")) for name in "ab")
    assert one == two
    heads = [Archive(tmp_path / name / HEAD, verify=True).arrays for name in "ab"]
    assert {name: array.tobytes() for name, array in heads[0].items()} == {
        name: array.tobytes() for name, array in heads[1].items()
    }


@pytest.mark.parametrize("memory", MEMORIES, ids=str)
def test_after_compaction_no_file_holds_what_was_forgotten(memory: Any, tmp_path: Path) -> None:
    X, y = rows(80, 1)
    secret = [["Mallory", "Mallory", "Mallory"]]
    save(
        MemoryClassifier("positional", memory=memory, vote="sum").fit([*X.tolist(), *secret], [*y.tolist(), "guilty"]),
        tmp_path,
        segments=3,
    )
    save(load(tmp_path).forget(secret, ["guilty"]), tmp_path)
    assert any(b"Mallory" in path.read_bytes() for path in tmp_path.iterdir())
    compact(tmp_path)
    assert not any(word in path.read_bytes() for path in tmp_path.iterdir() for word in (b"Mallory", b"guilty"))


def test_a_segment_in_which_nothing_changed_keeps_its_file(tmp_path: Path) -> None:
    X = np.arange(300).reshape(100, 3)
    save(MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, np.arange(100) % 3), tmp_path, segments=4)
    before = {path.name for path in tmp_path.glob("segment-*")}
    with editing(tmp_path) as model:
        model.learn_one([0, 1, 2], 1)
    compact(tmp_path)
    assert len(before & {path.name for path in tmp_path.glob("segment-*")}) == 3


@pytest.mark.parametrize("memory", MEMORIES, ids=str)
def test_what_was_not_stored_is_refused_and_nothing_changes(memory: Any, tmp_path: Path) -> None:
    plain = fitted("positions", "sum", memory=memory)
    save(plain, tmp_path, segments=3)
    segmented = load(tmp_path)
    X, y = rows(60, 0)
    for wrong in (([[1, "absent", 2]], ["x"]), (X[:1], ["unknown"]), (np.repeat(X, 9, 0), np.repeat(y, 9))):
        with pytest.raises(NotStoredError):
            segmented.forget(*wrong)
        with pytest.raises(NotStoredError):
            segmented.forget(np.concatenate([X[:5], wrong[0]]), np.concatenate([y[:5], wrong[1]]))
    for row, label in (([1, "absent", 2], "x"), (list(X[0]), "unknown")):
        with pytest.raises(NotStoredError):
            segmented.forget_one(row, label)
    with pytest.raises(NotStoredError):
        segmented.forget([[NO_TOKEN] * 3] * 30, ["x"] * 30)
    with pytest.raises(NotStoredError):
        segmented.unmerge(plain.empty_like().partial_fit(*rows(200, 5)))
    with pytest.raises(LayoutError):
        segmented.merge(MemoryClassifier("positional", memory=Tiered(Hashed(5, 3)), vote="sum").fit(X, y))
    assert_same(segmented, plain)


@pytest.mark.parametrize("memory", MEMORIES, ids=str)
def test_one_label_no_rows_and_one_segment(memory: Any, tmp_path: Path) -> None:
    model = MemoryClassifier("positional", memory=memory, vote="sum").fit([[NO_TOKEN, NO_TOKEN]], ["only"])
    save(model, tmp_path, segments=7)
    again = load(tmp_path)
    assert again.predict([[1, 2]]).tolist() == ["only"]
    assert again.compile().predict(np.empty((0, 2), int)).tolist() == []
    assert again.memory_.state_digest() == model.memory_.state_digest()
    again.forget([[NO_TOKEN, NO_TOKEN]], ["only"])
    save(again, tmp_path)
    assert load(tmp_path).classes_.tolist() == []
    again.learn_one([1, 2], "other")
    save(again, tmp_path)
    compact(tmp_path)
    assert load(tmp_path).predict([[1, 2]]).tolist() == ["other"]


def test_declared_labels_notes_and_free_sites_are_kept(tmp_path: Path) -> None:
    X, y = rows(50, 3)
    plain = MemoryClassifier(Suffixes(2) + Bag(2), Exact(), Mixture(sample=30, steps=3))
    plain.partial_fit(X, y, classes=["x", "y", "z", "w", "never"])
    save(plain, tmp_path, segments=2, notes={"source": "here"})
    with editing(tmp_path) as model:
        model.partial_fit(*rows(9, 4))
    plain.partial_fit(*rows(9, 4))
    compact(tmp_path)
    assert read_notes(tmp_path) == {"source": "here"}
    assert_same(load(tmp_path), plain)


@pytest.mark.parametrize("memory", MEMORIES, ids=str)
def test_declared_labels_copies_pickles_predictors_and_plain_files(memory: Any, tmp_path: Path) -> None:
    plain = MemoryClassifier(Suffixes(3), memory, "sum").partial_fit(
        *rows(50, 3), classes=["x", "y", "z", "w", "never"]
    )
    save(plain, tmp_path / "segments", segments=3)
    segmented = load(tmp_path / "segments").learn_one([1, 2, 5], "x")
    plain.learn_one([1, 2, 5], "x")
    for twin in (segmented, pickle.loads(pickle.dumps(segmented)), copy.deepcopy(segmented)):  # noqa: S301
        assert_same(twin, plain)
    asked = rows(20, 9)[0]
    save(segmented.compile(), tmp_path / "predictor.safetensors")
    assert load(tmp_path / "predictor.safetensors").predict(asked).tolist() == plain.predict(asked).tolist()
    save(segmented, tmp_path / "one.safetensors", segments=0)
    assert load(tmp_path / "one.safetensors").memory_.state_bytes() == plain.memory_.state_bytes()
    save(segmented, tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "segments")
    assert_same(load(tmp_path / "elsewhere"), plain)


def test_answers_go_on_while_the_folder_is_compacted(tmp_path: Path) -> None:
    plain = fitted("positions", "sum")
    save(plain, tmp_path, segments=4)
    save(load(tmp_path).partial_fit(*rows(20, 8)), tmp_path)
    plain.partial_fit(*rows(20, 8))
    reader, asked = load(tmp_path), rows(20, 9)[0]
    right: list[bool] = []
    begun, stop = threading.Event(), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            right.append(np.array_equal(reader.class_scores(asked), plain.class_scores(asked)))
            begun.set()

    thread = threading.Thread(target=ask)
    thread.start()
    begun.wait()
    compact(tmp_path, segments=2)
    stop.set()
    thread.join()
    assert right
    assert all(right)


@pytest.mark.parametrize("kind", ["flipped", "shorter", "missing", "swapped", "empty"])
def test_a_damaged_segment_is_named_and_never_answered_from(kind: str, tmp_path: Path) -> None:
    plain = fitted("positions", "sum", 400)
    save(plain, tmp_path, segments=3)
    segments = sorted(tmp_path.glob("segment-*"))
    victim, size = segments[1], segments[1].stat().st_size
    asked = rows(60, 5)[0]
    data = bytearray(victim.read_bytes())
    places = range(0, size, 37) if kind == "flipped" else [0]
    for place in places:
        if kind == "flipped":
            damaged = bytearray(data)
            damaged[place] ^= 1
            victim.write_bytes(damaged)
        elif kind == "shorter":
            victim.write_bytes(data[:-1])
        elif kind == "missing":
            victim.unlink()
        elif kind == "swapped":
            shutil.copy(segments[2], victim)
        else:
            victim.write_bytes(b"")
        with pytest.raises(FileError, match=victim.name):
            load(tmp_path).class_scores(asked)
        facts = inspect(tmp_path)
        assert facts["wrong_segments"] == [victim.name]


def test_a_head_cannot_reach_out_of_its_folder(tmp_path: Path) -> None:
    save(fitted("positions", "sum"), tmp_path / "a", segments=2)
    head = tmp_path / "a" / HEAD
    archive = hammemo.files.archive.Archive(head, verify=True)
    arrays = {name: np.array(array) for name, array in archive.arrays.items()}
    for field, value in (("name", "../b"), ("name", "/etc/passwd"), ("sign", 2), ("bytes", -1), ("edits", 1)):
        about = json.loads(json.dumps(archive.about))
        about["segments"][0][field] = value
        text = json.dumps({**about, "checksum": "0" * 64}, separators=(",", ":"))
        head.write_bytes(b"".join(hammemo.files.archive.seal(arrays, text)))
        with pytest.raises(FileError, match="segment"):
            load(tmp_path / "a")


@pytest.mark.parametrize("name", [HEAD, "segment-*"])
def test_a_head_or_a_segment_of_another_format_is_refused(name: str, tmp_path: Path) -> None:
    save(fitted("positions", "sum"), tmp_path, segments=2)
    file = next(tmp_path.glob(name))
    data = file.read_bytes()
    assert data.count(rb"\"format\":1,") == 1
    file.write_bytes(seal(data.replace(rb"\"format\":1,", rb"\"format\":4,")))
    with pytest.raises(FileError, match=f"{file.name} has format 4, and this version of hammemo reads format 1:"):
        load(tmp_path)


def test_only_an_exact_memory_is_written_in_segments(tmp_path: Path) -> None:
    hashed = MemoryClassifier("positional", memory=Hashed(8), vote="sum").fit(*rows(20, 0))
    with pytest.raises(FileError, match="only memory=Exact"):
        save(hashed, tmp_path, segments=2)
    with pytest.raises(ValueError, match="segments=-1"):
        save(fitted("positions", "sum"), tmp_path / "a", segments=-1)
    save(hashed, tmp_path / "file")
    with pytest.raises(FileError, match="is a file"):
        save(fitted("positions", "sum"), tmp_path / "file", segments=2)
    with pytest.raises(FileError, match="not a folder"):
        compact(tmp_path / "file")


def test_a_model_that_somebody_else_saved_meanwhile_is_not_undone(tmp_path: Path) -> None:
    save(fitted("positions", "sum"), tmp_path, segments=2)
    mine = load(tmp_path)
    with editing(tmp_path) as theirs:
        theirs.learn_one([1, 2, 5], "x")
    with pytest.raises(FileError, match="another program"):
        save(mine, tmp_path)


KILLED = """
import os, sys
import hammemo.files.segment_files as files
from hammemo import compact, load
left = int(sys.argv[2])
write = files.write_segment
def counted(*given, **options):
    global left
    if left == 0:
        os._exit(9)
    left -= 1
    return write(*given, **options)
import hammemo.files.folders as folders
folders.write_segment = counted
compact(sys.argv[1])
"""


def test_a_killed_compaction_leaves_the_model_and_is_gone_on_with(form: bool | None, tmp_path: Path) -> None:
    if form:
        pytest.skip("the process that is killed writes what it always does")
    plain = fitted("positions", "sum", 200)
    save(plain, tmp_path / "a", segments=4)
    save(load(tmp_path / "a").partial_fit(*rows(200, 8)), tmp_path / "a")
    plain.partial_fit(*rows(200, 8))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    compact(tmp_path / "b")
    before = (tmp_path / "a" / HEAD).read_bytes()
    for made in range(3):
        ended = forked.run(KILLED, tmp_path / "a", 1)
        assert ended.returncode == 9
        assert (tmp_path / "a" / HEAD).read_bytes() == before
        assert (
            len(list((tmp_path / "a").glob("segment-*"))) == 5 + made
        )  # each call adds one to those of the calls before
        assert_same(load(tmp_path / "a"), plain)
    compact(tmp_path / "a")
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).glob("*.safetensors")} for name in "ab"]
    assert files[0] == files[1]


def test_a_query_touches_two_pages_of_records_and_one_range_a_site(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3000, (60_000, 2)), rng.integers(0, 50, 60_000)
    save(MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y), tmp_path, segments=3)
    for query in X[:20]:
        model = load(tmp_path)
        segments = model.memory_.segmented.files.segments
        model.predict(query[None])  # prepares the segments, with their indexes
        sizes = []
        for view in segments._views:
            touch = view.segment._touch
            ranks = view.own_ranks[segments.vocabulary.ints.searchsorted(query)]
            for k, rank in enumerate(ranks.tolist()):
                touch.touched = set()
                start, stop = (int(edge[0]) for edge in view.segment.spans(k, view.segment.find(k, np.array([[rank]]))))
                assert len(touch.touched) <= 2
                sizes.append((stop - start) * view.segment.entry_bytes.itemsize)
            touch.checked[:] = False
            touch.touched = set()
        model.predict(query[None])
        pages = [page for view in segments._views for page in view.segment._touch.touched]
        assert len(pages) <= sum(-(-size // 4096) + 3 for size in sizes if size)


SMAPS = Path("/proc/self/smaps")
"""What Linux tells of the mapped files of a process."""


@pytest.mark.skipif(not SMAPS.exists(), reason="the operating system does not tell")
def test_rows_of_segments_are_read_without_what_lies_around_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    save(
        MemoryClassifier("positional", memory=Exact(), vote="sum").fit(
            rng.integers(0, 99, (999, 2)), rng.integers(0, 9, 999)
        ),
        tmp_path,
        segments=3,
    )
    model = load(tmp_path)
    about = SMAPS.read_text().split(str(tmp_path))[1:]
    flags = [one.split("VmFlags:")[1].splitlines()[0].split() for one in about]
    assert len(flags) == len(model.memory_.segmented.files.segments.segments)
    assert all("rr" in one for one in flags)  # random reads


LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
from hammemo import load
load(sys.argv[3]).predict(np.array([[1, 2]]))
now = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (now + int(sys.argv[2]),) * 2)
model = load(sys.argv[1])
assert str(model.predict(np.array([[1, 2], [3, 4]])).tolist()) == sys.argv[4]
try:
    np.ones(int(sys.argv[2]) // 4)  # as many bytes as the whole folder has
except MemoryError:
    print("bites")
"""


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="RLIMIT_DATA counts mapped memory on Linux only")
@pytest.mark.parametrize("form", [None], indirect=True)
def test_a_folder_larger_than_the_limit_is_answered_from(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, n in (("few", 10), ("many", 1_000_000)):
        model = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(
            rng.integers(0, 2000, (n, 2)), rng.integers(0, 2000, n)
        )
        save(model, tmp_path / name, segments=6)
    expected = model.predict([[1, 2], [3, 4]]).tolist()
    size = sum(path.stat().st_size for path in (tmp_path / "many").glob("segment-*"))
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "many"), str(size // 2), str(tmp_path / "few"), str(expected)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ended.stdout.split() == ["bites"], (ended.returncode, ended.stderr)
