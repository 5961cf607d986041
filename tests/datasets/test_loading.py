"""The shipped tables and visits: whole, as their sources have them, small, and with a licence for each."""

from __future__ import annotations

import sys
from importlib.resources import files

import numpy as np
import pytest

import shipped_data
from hammemo import datasets
from hammemo.datasets.loading import SESSIONS, TABLES, _read_text
from places import SHARED

SHAPES = {"car": (1728, 6, 4), "flights": (10_000, 8, 2), "splice": (3190, 60, 3), "tic-tac-toe": (958, 9, 2)}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_its_rows_columns_and_labels(name: str) -> None:
    X, y = datasets.load_table(name)
    assert (*X.shape, len(np.unique(y))) == SHAPES[name]
    assert X.dtype.kind == y.dtype.kind == "U"
    assert (np.char.str_len(X) > 0).all()
    assert (np.char.str_len(y) > 0).all()


@pytest.mark.parametrize("name", TABLES)
def test_a_frame_holds_the_same(name: str) -> None:
    X, y = datasets.load_table(name)
    frame, labels = datasets.load_table(name, as_frame=True)
    assert frame.to_numpy().tolist() == X.tolist()
    assert labels.tolist() == y.tolist()
    assert frame.columns.is_unique
    assert labels.name not in frame.columns


def test_an_unknown_name_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(ValueError, match="name='iris' is not one of the tables: use 'car', 'flights'"):
        datasets.load_table("iris")


def test_a_frame_without_pandas_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert len(datasets.load_table("car")[1]) == 1728
    with pytest.raises(ImportError, match="pip install pandas, or leave as_frame out"):
        datasets.load_table("car", as_frame=True)


def test_every_call_returns_arrays_and_lists_of_its_own() -> None:
    datasets.load_table("car")[0][:] = ""
    datasets.load_sessions()[0].clear()
    assert datasets.load_table("car")[0][0, 0] == "vhigh"
    assert len(datasets.load_sessions()[0]) == 23_753


def test_visits_are_numbered_in_the_order_of_first_clicks() -> None:
    learnt, asked = datasets.load_sessions()
    items = np.concatenate([np.array(visit) for visit in learnt])
    _, first = np.unique(items, return_index=True)
    assert (np.diff(first) > 0).all()
    assert sorted(set(items.tolist())) == list(range(18_009))
    assert {item for visit in asked for item in visit} <= set(items.tolist())
    assert min(map(len, asked)) == 2


def test_every_file_has_a_source_and_a_licence_and_all_are_small() -> None:
    folder = files(datasets)
    notes = (folder / "README.md").read_text(encoding="utf-8")
    shipped = {file.name: len(file.read_bytes()) for file in folder.iterdir() if file.name.endswith(".gz")}
    assert set(shipped) == {f"{name}.csv.gz" for name in TABLES} | {f"sessions-{part}.txt.gz" for part in SESSIONS}
    for name in shipped:
        (line,) = [line for line in notes.splitlines() if f"`{name}`" in line]
        assert any(licence in line for licence in ("CC BY 4.0", "CC0 1.0", "Apache-2.0")), name
    assert sum(size for name, size in shipped.items() if name.endswith(".csv.gz")) < 300 * 1024
    assert sum(size for name, size in shipped.items() if name.endswith(".txt.gz")) < 300 * 1024
    assert "Apache License" in (folder / "LICENSE-Apache-2.0.txt").read_text(encoding="utf-8")


@pytest.mark.skipif(not SHARED.exists(), reason="needs the sources of the data")
def test_the_files_are_what_the_script_makes() -> None:
    for name, text in shipped_data.contents(SHARED / "tables", SHARED / "sessions").items():
        assert _read_text(f"{name}.gz") == text, name
