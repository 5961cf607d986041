"""Tables on engines: what `fit` makes of the whole frame, to the byte, on each engine, also after a worker dies."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
import pyarrow.dataset as ds  # noqa: E402

from engine_fits import fit_rows_of  # noqa: E402
from hammemo import MemoryClassifier, load, save  # noqa: E402
from hammemo.memories import Exact, Hashed, Tiered  # noqa: E402
from hammemo.sources.read_tables import TableFiles, open_table  # noqa: E402
from hammemo.stores import Digests  # noqa: E402
from hammemo.tokens.column_letters import encode_letters  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo.engines import GroupReport
    from hammemo.sources.listing import Shard
    from hammemo.sources.read_tables import Batch

N = 800
ALL_KEPT: dict[str, Any] = {}
SOME_KEPT: dict[str, Any] = {"keep": 250}
KINDS = {
    "all rows kept": ALL_KEPT,
    "some rows kept": SOME_KEPT,
    "names only": {"keep": 250, "numeric": "none", "missing": "empty"},
    "hashed": {"keep": 250, "memory": Hashed(64, 16)},
    "digests beside rows": {"memory": Hashed(64, 16), "keep": Digests(250, key=bytes(range(32)))},
    "digests": {"memory": Exact(), "vote": "sum", "kernel": "positional", "numeric": "none", "keep": "digests"},
    "no row needed": {"memory": Exact(), "vote": "sum", "kernel": "positional", "numeric": "none"},
}


def rows(numbers: bool = True) -> Any:
    """Return names, numbers, dates and missing values, and labels that depend on them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "job": rng.choice(np.array(["clerk", "nurse", "pilot", None], object), N),
            "age": rng.normal(40, 12, N).round(1),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, N), "D"),
            "size": rng.integers(0, 9, N),
            "known": rng.random(N) < 0.5,
        }
    )
    frame.loc[rng.random(N) < 0.1, "age"] = np.nan
    frame.loc[rng.random(N) < 0.1, "when"] = pd.NaT
    noise = rng.random(N) < 0.1
    frame["answer"] = np.where(((frame.age.fillna(0) > 40) & (frame["size"] > 3)) ^ noise, "yes", "no")
    return frame if numbers else frame.drop(columns=["when", "age"])


def parquet(folder: Path, frame: Any, files: int = 3) -> str:
    folder.mkdir(exist_ok=True)
    edges = np.linspace(0, len(frame), files + 1).astype(int)
    for number in range(files):
        frame[edges[number] : edges[number + 1]].to_parquet(folder / f"{number}.parquet", row_group_size=90)
    return str(folder / "*.parquet")


def file_bytes(model: MemoryClassifier, path: Path) -> bytes:
    save(model, path)
    return path.read_bytes()


def learnt(where: Any, parameters: Any = SOME_KEPT, **options: Any) -> MemoryClassifier:
    options = {"engine": "threads", "workers": 1, **options}
    return fit_rows_of(MemoryClassifier(**parameters), where, "answer", **options)


def twin(frame: Any, parameters: Any = SOME_KEPT) -> MemoryClassifier:
    """Return what one machine makes of the whole frame."""
    return MemoryClassifier(**parameters).fit(frame.drop(columns="answer"), frame["answer"])


def check_equal(model: MemoryClassifier, expected: MemoryClassifier, tmp_path: Path) -> None:
    assert model.memory_.state_bytes() == expected.memory_.state_bytes()
    assert model.digest() == expected.digest()
    assert file_bytes(model, tmp_path / "one") == file_bytes(expected, tmp_path / "two")
    assert model.version_ == expected.version_


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_file_is_that_of_fit_however_rows_are_grouped(kind: str, tmp_path: Path) -> None:
    frame = rows(numbers=KINDS[kind].get("numeric") != "none")
    where, expected = parquet(tmp_path / "t", frame), twin(frame, KINDS[kind])
    assert (expected.state.kept is None) == (kind in ("no row needed", "digests"))
    cuts: list[Any] = [{}, {"shard_bytes": 4000, "group_size": 1}, {"shard_bytes": 6000, "group_size": 5, "workers": 2}]
    for options in cuts:
        check_equal(learnt(where, KINDS[kind], **options), expected, tmp_path)


def test_processes_give_the_same_file(tmp_path: Path) -> None:
    frame = rows()
    where = parquet(tmp_path / "t", frame)
    for parameters in (ALL_KEPT, SOME_KEPT):
        model = learnt(where, parameters, engine="processes", workers=2, group_size=1)
        check_equal(model, twin(frame, parameters), tmp_path)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(owner=st.lists(st.integers(0, 4), min_size=40, max_size=60), keep=st.integers(3, 50))
def test_any_split_of_rows_into_files_keeps_the_same_rows(owner: list[int], keep: int, tmp_path: Path) -> None:
    frame = rows(numbers=False)[: len(owner)]
    frame = pd.concat([frame, frame[::3]], ignore_index=True)
    owners = np.array([*owner, *owner[::3]])
    for path in tmp_path.glob("*.parquet"):
        path.unlink()
    for number in set(owner):
        frame[owners == number].to_parquet(tmp_path / f"{number}.parquet", index=False)
    parameters = {"memory": Exact(), "vote": "log-linear", "kernel": "positional", "keep": keep}
    model = learnt(str(tmp_path), parameters, group_size=1)
    assert model.digest() == twin(frame, parameters).digest()


# ---------------------------------------------------------------- formats


def csv(folder: Path, *texts: str) -> str:
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(texts):
        (folder / f"{number}.csv").write_text("a,b,answer\n" + text)
    return str(folder)


@pytest.mark.parametrize("group_size", [1, 9])
def test_what_a_column_of_text_holds_is_decided_by_all_files(group_size: int, tmp_path: Path) -> None:
    """In the first rows, a looks like numbers and b like nothing: in the last ones a is a name, and b a number."""
    many = 60
    first = "".join(f"{i % 7},,{'no' if i % 2 else 'yes'}\n" for i in range(many))
    last = "".join(f"x,{i}.5,{'no' if i % 2 else 'yes'}\n" for i in range(many))
    where = csv(tmp_path / "t", first, last)
    frame = pd.concat([pd.read_csv(path, dtype={"a": str}) for path in sorted(Path(where).iterdir())])
    reports: list[GroupReport] = []
    model = learnt(where, group_size=group_size, on_report=reports.append)
    assert encode_letters(model.state.columns.kinds) == "sn"
    check_equal(model, twin(frame), tmp_path)
    assert len(reports) == 2 * (2 if group_size == 1 else 1)  # the first pass is made twice, the second not at all


@pytest.mark.filterwarnings("ignore:Column 'a' holds dates")
@pytest.mark.parametrize("group_size", [1, 9])
@pytest.mark.parametrize(("first", "more"), [("", "x"), ("01.02.2012", "02/13/2012")])
def test_rows_that_contradict_each_other_but_not_the_first_look_are_learnt(
    first: str, more: str, group_size: int, tmp_path: Path
) -> None:
    """The first rows say names, the second ones something else, and all together say names again."""

    def part(values: list[str]) -> str:
        return "".join(f"{value},{i}.5,{'no' if i % 2 else 'yes'}\n" for i, value in enumerate(values))

    second = [f"{i % 7}.5" for i in range(40)] if not first else [f"{i % 9 + 13}.02.2012" for i in range(40)]
    where = csv(tmp_path / "t", part([first] * 40), part(second), part([more] * 40))
    frame = pd.concat([pd.read_csv(path, dtype={"a": str}) for path in sorted(Path(where).iterdir())])
    model = learnt(where, group_size=group_size, shard_bytes=1)
    assert encode_letters(model.state.columns.kinds) == "sn"
    check_equal(model, twin(frame), tmp_path)


def test_columns_that_the_first_rows_tell_are_read_once(tmp_path: Path) -> None:
    text = "".join(f"{i % 7},x{i % 3},{'no' if i % 2 else 'yes'}\n" for i in range(60))
    reports: list[GroupReport] = []
    learnt(csv(tmp_path / "t", text, text), group_size=1, on_report=reports.append)
    assert len(reports) == 2


def test_text_with_quotes_and_line_breaks_is_never_cut(tmp_path: Path) -> None:
    lines = "".join(f'"a\n{i % 4}","{i % 3}, x",{"no" if i % 2 else "yes"}\n' for i in range(200))
    where = csv(tmp_path / "t", lines)
    model = learnt(where, shard_bytes=100)
    check_equal(model, twin(pd.read_csv(Path(where, "0.csv"))), tmp_path)


def test_json_lines_and_compressed_files(tmp_path: Path) -> None:
    frame = rows().drop(columns="when")
    frame[:400].to_json(tmp_path / "a.jsonl.gz", orient="records", lines=True)
    frame[400:].to_json(tmp_path / "b.jsonl", orient="records", lines=True)
    check_equal(learnt([tmp_path / "b.jsonl", tmp_path / "a.jsonl.gz"]), twin(frame), tmp_path)


def test_an_arrow_dataset_with_folders_that_are_values(tmp_path: Path) -> None:
    frame = rows()
    frame["land"] = np.where(frame.index % 3 == 0, "it", "de")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    ds.write_dataset(
        table,
        tmp_path / "t",
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("land", pa.string())]), flavor="hive"),
        max_rows_per_group=100,
        min_rows_per_group=10,
        max_rows_per_file=300,
    )
    dataset = ds.dataset(tmp_path / "t", partitioning="hive")
    expected = twin(dataset.to_table().to_pandas())
    check_equal(learnt(dataset, shard_bytes=2000, group_size=1), expected, tmp_path)
    check_equal(learnt(dataset, workers=2), expected, tmp_path)


# ---------------------------------------------------------------- segments


@pytest.mark.parametrize(
    ("numbers", "memory", "keep"),
    [(True, Exact(), 250), (False, Tiered(Hashed(16, 8)), 100), (False, Tiered(Hashed(16, 8)), 5000)],
    ids=["numbers", "tiers", "all rows kept"],
)
def test_segments_hold_the_state_of_fit(numbers: bool, memory: Any, keep: int, tmp_path: Path) -> None:
    frame = rows(numbers=numbers)
    parameters = {"memory": memory, "keep": keep, "numeric": "auto" if numbers else "none"}
    expected = twin(frame, parameters)
    where = parquet(tmp_path / "t", frame)
    every: list[Any] = [{"group_size": 3}, {"engine": "processes" if numbers else "threads", "workers": 2}]
    for number, options in enumerate(every):
        out = tmp_path / f"m{number}"
        model = learnt(where, parameters, segments=2, out=out, **options)
        asked = frame.drop(columns="answer")[:40]
        for one in (model, load(out)):
            assert one.memory_.segmented is not None
            assert one.memory_.state_digest() == expected.memory_.state_digest()
            np.testing.assert_array_equal(one.predict_proba(asked), expected.predict_proba(asked))
        assert model.digest() == expected.digest()
        assert not (out / "runs").exists()
    assert {p.name: p.read_bytes() for p in (tmp_path / "m0").glob("*.safetensors")} == {
        p.name: p.read_bytes() for p in (tmp_path / "m1").glob("*.safetensors")
    }


# ---------------------------------------------------------------- what dies


@dataclass(frozen=True)
class Broken(TableFiles):
    """Files of which some cannot be read, from the so-manyth time on: the driver's first look is not counted."""

    marks: str = ""
    broken: str = ""
    at: int = 1
    kills: bool = False

    def batches(self, shard: Shard, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        if not self.files:
            name = Path(shard.file.path).name
            times = len(list(Path(self.marks).glob(f"{name}-*"))) + 1
            Path(self.marks, f"{name}-{times}").touch()
            if name == self.broken and times >= self.at:
                if self.kills:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError("the disk is gone")
        return super().batches(shard, columns)


def broken(where: str, marks: Path, **options: Any) -> Broken:
    marks.mkdir()
    return Broken(**vars(open_table(where)), marks=str(marks), **options)


@pytest.mark.parametrize("at", [1, 2], ids=["first pass", "second pass"])
@pytest.mark.parametrize("segments", [None, 3])
def test_a_job_that_failed_is_resumed_and_repeats_nothing(at: int, segments: int | None, tmp_path: Path) -> None:
    frame = rows(numbers=False)
    where, parameters = parquet(tmp_path / "t", frame, files=4), {"memory": Exact(), "keep": 100, "numeric": "none"}
    options: dict[str, Any] = {"group_size": 1, "resume": str(tmp_path / "states")}
    if segments is not None:
        options = {"group_size": 1, "segments": segments, "out": tmp_path / "m"}
    with pytest.raises(OSError, match="disk is gone"):
        learnt(broken(where, tmp_path / "marks", broken="2.parquet", at=at), parameters, **options)
    reports: list[GroupReport] = []
    model = learnt(open_table(where), parameters, **options, on_report=reports.append)
    assert model.digest() == twin(frame, parameters).digest()
    done = [report.resumed for report in reports]
    assert done == ([True, True, *[False] * 6] if at == 1 else [*[True] * 6, False, False])
    assert all((report.tokens == 0) == report.resumed for report in reports)


@pytest.mark.parametrize("at", [1, 2], ids=["first pass", "second pass"])
def test_a_worker_that_dies_is_named_and_the_job_resumed(at: int, tmp_path: Path) -> None:
    frame = rows()
    where = parquet(tmp_path / "t", frame, files=4)
    options: Any = {"engine": "processes", "workers": 2, "group_size": 1, "resume": str(tmp_path / "states")}
    with pytest.raises(RuntimeError, match="A worker process died"):
        learnt(broken(where, tmp_path / "marks", broken="3.parquet", at=at, kills=True), **options)
    assert any((tmp_path / "states").rglob("group-*"))
    check_equal(learnt(where, **options), twin(frame), tmp_path)


def test_states_that_are_lost_or_damaged_are_made_again(tmp_path: Path) -> None:
    frame = rows()
    where, options = parquet(tmp_path / "t", frame), {"group_size": 1, "resume": str(tmp_path / "states")}
    learnt(where, **options)
    for name in ("rows", "counts"):
        (tmp_path / "states" / name / "group-000000").unlink()
        damaged = tmp_path / "states" / name / "group-000001"
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"\0")
    reports: list[GroupReport] = []
    check_equal(learnt(where, **options, on_report=reports.append), twin(frame), tmp_path)
    assert [report.resumed for report in reports] == 2 * [False, False, True]


def test_a_folder_of_another_job_is_refused(tmp_path: Path) -> None:
    frame = rows()
    where = parquet(tmp_path / "t", frame)
    learnt(where, resume=str(tmp_path / "states"))
    with pytest.raises(ValueError, match=r"belongs to another job: kept is {'of': 'rows', 'seed': 0, 'most': 250"):
        learnt(where, {"keep": 100}, resume=str(tmp_path / "states"))
    parquet(tmp_path / "t", frame[::-1])
    with pytest.raises(ValueError, match="belongs to another job: "):
        learnt(where, resume=str(tmp_path / "states"))


@dataclass(frozen=True)
class Growing(TableFiles):
    """Files that have one row more each time they are read."""

    marks: str = ""

    def batches(self, shard: Shard, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        times = len(list(Path(self.marks).iterdir()))
        Path(self.marks, str(times)).touch()
        for batch in super().batches(shard, columns):
            few = slice(0, 100 + times)
            parts = tuple(column[few] for column in batch.columns)
            yield type(batch)(batch.names, parts, batch.numbers[few], batch.where, batch.unit, batch.typing)


def test_a_table_that_changes_between_the_passes_is_refused(tmp_path: Path) -> None:
    where = parquet(tmp_path / "t", rows(), files=1)
    (tmp_path / "marks").mkdir()
    source = Growing(**vars(open_table(where)), marks=str(tmp_path / "marks"))
    with pytest.raises(ValueError, match="changed while it was read"):
        learnt(source, {"keep": 20}, shard_bytes=2**30)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    where = parquet(tmp_path / "t", rows())
    source = open_table(where)
    (tmp_path / "t" / "1.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"1\.parquet does not exist"):
        learnt(source)


# ---------------------------------------------------------------- what is refused, and small tables


def test_what_can_be_read_once_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="read more than once"):
        learnt(iter([rows()]))
    with pytest.raises(ValueError, match="Standard input can be read once"):
        learnt("-")
    with pytest.raises(ValueError, match="dataset has no files"):
        learnt(ds.dataset(pa.table({"a": [1], "answer": [2]})))
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ValueError, match="can be read once"):
        learnt(tmp_path / "pipe.csv")


def test_models_that_keep_no_rows_are_refused_where_something_depends_on_rows(tmp_path: Path) -> None:
    where = parquet(tmp_path / "t", rows())
    for parameters in ({"keep": False}, {"memory": Hashed(8, 4), "vote": "sum", "numeric": "none"}):
        with pytest.raises(ValueError, match="use keep=True"):
            learnt(where, parameters)


def test_wrong_labels_are_refused(tmp_path: Path) -> None:
    where = parquet(tmp_path / "t", rows())
    with pytest.raises(ValueError, match=r"has no column 'fruit'"):
        fit_rows_of(MemoryClassifier(), where, "fruit", engine="threads")
    with pytest.raises(ValueError, match="list the labels to declare"):
        learnt(where, classes=3)


def test_one_label_no_rows_and_files_without_rows(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to learn"):
        learnt(csv(tmp_path / "none", "", ""))
    where = csv(tmp_path / "few", "", "x,1,yes\ny,2,yes\n", "")
    model = learnt(where, group_size=1)
    check_equal(model, twin(pd.read_csv(Path(where, "1.csv"))), tmp_path)
    assert model.classes_.tolist() == ["yes"]


def test_declared_classes_and_chosen_columns(tmp_path: Path) -> None:
    frame = rows()
    where, classes = parquet(tmp_path / "t", frame), ["maybe", "no", "yes"]
    model = learnt(where, classes=classes, columns=["size", "job"])
    expected = MemoryClassifier(**SOME_KEPT).fit(frame[["size", "job"]], frame["answer"], classes=classes)
    check_equal(model, expected, tmp_path)


def test_a_given_layout_is_used(tmp_path: Path) -> None:
    frame = rows()
    first, later = frame[:400], frame[400:]
    for parameters in (ALL_KEPT, SOME_KEPT):
        layout = twin(first, parameters)
        model = learnt(parquet(tmp_path / "t", later), parameters, layout=layout, group_size=1)
        expected = MemoryClassifier(**parameters).partial_fit(
            later.drop(columns="answer"), later["answer"], layout=layout, choose=False
        )
        check_equal(model, expected, tmp_path)
        assert (layout + model).memory_.label_counts.sum() == N


def test_a_missing_label_or_a_wrong_number_is_named_with_its_file(tmp_path: Path) -> None:
    where = csv(tmp_path / "t", "1,2,yes\n", "1,2,\n")
    with pytest.raises(ValueError, match=r"1\.csv, line 2: column 'answer' has no value"):
        learnt(where)
    where = csv(tmp_path / "u", "1,2,yes\n", "x,2,no\n")
    with pytest.raises(ValueError, match=r"1\.csv, line 2: column 'a' holds numbers, and 'x' is not one"):
        learnt(where, {"numeric": ["a"]})
