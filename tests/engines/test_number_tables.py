"""Models of numbers on engines: the file that `fit` makes of the whole table, however rows are read and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from hammemo import MemoryRegressor  # noqa: E402
from hammemo.engines import Machines, fit_table  # noqa: E402
from hammemo.files.contents import file_bytes  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.engines import GroupReport


def rows(n: int, seed: int = 0) -> Any:
    """Return names, numbers, dates, truths and missing values, and targets; some rows occur twice."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "job": rng.choice(np.array(["clerk", "nurse", "pilot", None], object), n),
            "age": rng.normal(40, 12, n).round(1),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, n), "D"),
            "known": rng.random(n) < 0.5,
        }
    )
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame["pay"] = (frame.age.fillna(0) * 3 + 20 * (frame.job == "pilot") + rng.normal(size=n)).round(2)
    return frame.iloc[np.append(np.arange(n), np.arange(0, n, 9))].reset_index(drop=True)


def twin(frame: Any, **parameters: Any) -> bytes:
    return file_bytes(MemoryRegressor(**parameters).fit(frame.drop(columns="pay"), frame["pay"]))


def parquet(folder: Path, frame: Any) -> Path:
    folder.mkdir()
    for number, first in enumerate(range(0, len(frame), 150)):
        frame[first : first + 150].to_parquet(folder / f"{number}.parquet", row_group_size=60)
    return folder


@pytest.mark.parametrize("keep", ["auto", 200, False])
def test_the_file_is_that_of_fit(keep: Any, tmp_path: Path) -> None:
    frame = rows(400)
    where, expected = parquet(tmp_path / "t", frame), twin(frame, keep=keep)
    for machines in (Machines("threads", 2, group_size=1), Machines("threads", 1, shard_bytes=4000, group_size=3)):
        model = fit_table(MemoryRegressor(keep=keep), where, "pay", machines=machines)
        assert file_bytes(model) == expected
        assert model.version_ == 1


def test_processes_give_the_same_file(tmp_path: Path) -> None:
    frame = rows(400)
    machines = Machines("processes", workers=2, group_size=1)
    model = fit_table(MemoryRegressor(keep=200), parquet(tmp_path / "t", frame), "pay", machines=machines)
    assert file_bytes(model) == twin(frame, keep=200)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.examples(4)
@given(seed=st.integers(0, 999), keep=st.integers(20, 90), parts=st.integers(1, 5))
def test_any_split_into_text_files_gives_the_same_file(seed: int, keep: int, parts: int, tmp_path: Path) -> None:
    frame = rows(60, seed).drop(columns=["when", "known"])
    owner = np.random.default_rng(seed).integers(0, parts, len(frame))
    for path in tmp_path.glob("*.csv"):
        path.unlink()
    for number in set(owner.tolist()):
        frame[owner == number].to_csv(tmp_path / f"{number}.csv", index=False)
    model = fit_table(MemoryRegressor(keep=keep), tmp_path, "pay", machines=Machines("threads", 1, group_size=1))
    assert file_bytes(model) == twin(frame, keep=keep)


def test_a_fit_is_resumed(tmp_path: Path) -> None:
    frame = rows(400)
    where = parquet(tmp_path / "t", frame)
    reports: list[GroupReport] = []
    machines = Machines("threads", 1, group_size=1, resume=str(tmp_path / "states"), on_report=reports.append)
    first = fit_table(MemoryRegressor(keep=200), where, "pay", machines=machines)
    done = len(reports)
    (tmp_path / "states" / "counts" / "group-000001").unlink()
    again = fit_table(MemoryRegressor(keep=200), where, "pay", machines=machines)
    assert file_bytes(again) == file_bytes(first) == twin(frame, keep=200)
    assert [report.resumed for report in reports[done:]].count(False) == 1


def test_what_numbers_do_not_have_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("size,price\n1,2\n2,3\n")
    with pytest.raises(ValueError, match="are for a MemoryClassifier"):
        fit_table(MemoryRegressor(), tmp_path, "price", classes=["a"])
    with pytest.raises(ValueError, match="segments= cuts a table of counts"):
        fit_table(MemoryRegressor(), tmp_path, "price", machines=Machines(segments=2, out=tmp_path / "m"))
    for value in ("", "inf", "cheap"):
        (tmp_path / "b.csv").write_text(f"size,price\n3,{value}\n")
        with pytest.raises(ValueError, match="'price'"):
            fit_table(MemoryRegressor(), tmp_path, "price", machines=Machines("threads", 1))
