"""Limits said when something is learnt: what a model has learnt can be saved and loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, load, save, windows
from hammemo.kernels import PositionalHamming, SiteKernel, Suffixes
from hammemo.kernels.sites import MAX_POSITIONS, MAX_SITES
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.tokens.contexts import MAX_EXAMPLES, MAX_NAME_BYTES

if TYPE_CHECKING:
    from pathlib import Path

MEMORIES = [Exact(), Hashed(8, 4), Gaussian(8), Tiered(Hashed(8, 4))]
X = [[1], [2]]
LARGE = 2**53 + 1  # no float holds it


def by_name(memory: Any) -> str:
    return type(memory).__name__


def loaded(model: MemoryClassifier, folder: Path) -> Any:
    save(model, folder / "m", force=True)
    return load(folder / "m")


# ---------------------------------------------------------------- 2^53 examples


@pytest.mark.parametrize("memory", MEMORIES, ids=by_name)
def test_totals_stay_below_two_to_the_53(memory: Any, tmp_path: Path) -> None:
    clf = MemoryClassifier(memory=memory, vote="sum").fit(X, ["a", "b"], sample_weight=[2**52, 2**52 - 2])
    before = clf.memory_.state_bytes()
    for weight in (2, 2**40, 2**53 - 1):
        with pytest.raises(ValueError, match=r"below 2\^53 only, so nothing was changed\. Divide all sample_weight"):
            clf.partial_fit([[1]], ["c"], sample_weight=[weight])
    with pytest.raises(ValueError, match=r"below 2\^53"):
        clf + clf
    with pytest.raises(ValueError, match=r"below 2\^53"):
        clf.merge(clf.snapshot())
    assert clf.memory_.state_bytes() == before
    clf.partial_fit([[1]], ["c"])
    assert int(clf.memory_.label_counts.sum()) == MAX_EXAMPLES - 1
    assert loaded(clf, tmp_path).memory_.state_bytes() == clf.memory_.state_bytes()


@pytest.mark.parametrize("memory", [Exact(), Hashed(8, 4)], ids=by_name)
def test_only_what_is_held_counts(memory: Any, tmp_path: Path) -> None:
    """A large example comes and goes often, beside others that keep the table from being folded."""
    rows = np.arange(300)[:, None]
    clf = MemoryClassifier(memory=memory, vote="sum").fit(rows, rows[:, 0] % 3)
    before = clf.memory_.state_bytes()
    for _ in range(5):
        clf.partial_fit([[7]], [1], sample_weight=[2**52]).forget([[7]], [1], sample_weight=[2**52])
    assert clf.memory_.state_bytes() == before
    assert loaded(clf, tmp_path).memory_.state_bytes() == before


# ---------------------------------------------------------------- columns


@pytest.mark.parametrize("memory", [Exact(), Hashed(8, 4)], ids=by_name)
def test_four_thousand_columns_can_be_saved(memory: Any, tmp_path: Path) -> None:
    wide = np.arange(8000).reshape(2, 4000).astype(str)
    frame = pd.DataFrame(wide, columns=[f"column {number} of a wide table" for number in range(4000)])
    clf = MemoryClassifier(memory=memory, vote="sum").fit(frame, ["a", "b"])
    again = loaded(clf, tmp_path)
    assert again.predict(frame).tolist() == ["a", "b"]
    assert again.memory_.state_bytes() == clf.memory_.state_bytes()


def test_more_sites_than_a_file_describes_are_refused_when_they_are_learnt() -> None:
    for kernel, h in ((PositionalHamming(), MAX_SITES + 1), (Suffixes(400), 400)):
        clf = MemoryClassifier(kernel, Exact(), vote="sum")
        with pytest.raises(ValueError, match=r"at most 4,096, which list at most 32,768.*SiteKernel"):
            clf.fit(np.zeros((1, h), int), ["a"])
        with pytest.raises(ValueError, match=r"at most 4,096, "):
            clf.fit_stream(np.zeros(h + 5, int), h)
        assert not hasattr(clf, "memory_")


def test_names_of_columns_that_no_header_holds_are_refused() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["x" * MAX_NAME_BYTES, "y"])
    with pytest.raises(ValueError, match="names of the columns need 524,"):
        MemoryClassifier(memory=Exact(), vote="sum").fit(frame, ["a"])


@pytest.mark.slow
def test_the_longest_description_of_all_can_be_saved(tmp_path: Path) -> None:
    """As many sites, positions, parameters of sites and letters of names as there may be, in all memories at once."""
    rng = np.random.default_rng(0)
    each = MAX_POSITIONS // MAX_SITES
    sites = {tuple(sorted((rng.choice(10_000, each, replace=False) + 10_000).tolist())) for _ in range(MAX_SITES)}
    weights = rng.random(MAX_SITES).tolist()
    lists = [rng.integers(1, 4, MAX_SITES).tolist() for _ in range(2)]
    names = [f"é{number}" for number in range(20_000)]
    clf = MemoryClassifier(SiteKernel(sorted(sites), weights), Tiered(Hashed(*lists)), vote="sum", keep="digests")
    clf.fit(pd.DataFrame(rng.integers(0, 2, (2, 20_000)), columns=names), ["a", "b"])
    assert loaded(clf, tmp_path).memory_.state_bytes() == clf.memory_.state_bytes()


def test_a_seed_that_no_file_holds_is_refused(tmp_path: Path) -> None:
    for seed in (2**64 - 1, -(2**64) + 1):
        assert (
            loaded(
                MemoryClassifier(random_state=seed, memory="hashed", vote="sum").fit(X, ["a", "b"]), tmp_path
            ).random_state
            == seed
        )
    for seed in (2**64, -(2**64)):
        with pytest.raises(ValueError, match="does not fit in 64 bits: use a smaller seed"):
            MemoryClassifier(random_state=seed, memory="hashed", vote="sum").fit(X, ["a", "b"])


# ---------------------------------------------------------------- labels keep their values

KEPT: dict[str, tuple[Any, list[Any]]] = {
    "Int64": (pd.Series([2**53, LARGE], dtype="Int64"), [2**53, LARGE]),
    "Int64 array": (pd.array([-5, LARGE], dtype="Int64"), [-5, LARGE]),
    "Int64 frame": (pd.DataFrame({"y": pd.array([2**53, LARGE], dtype="Int64")}).iloc[:, 0], [2**53, LARGE]),
    "UInt64": (pd.Series([1, LARGE], dtype="UInt64"), [1, LARGE]),
    "boolean": (pd.Series([True, False], dtype="boolean"), [False, True]),
    "string": (pd.Series(["a", "b"], dtype="string"), ["a", "b"]),
    "category": (pd.Series([2**53, LARGE], dtype="category"), [2**53, LARGE]),
    "polars": (pl.Series([1, LARGE], dtype=pl.UInt64), [1, LARGE]),
    "StringDType": (np.array(["a", "b"], np.dtypes.StringDType()), ["a", "b"]),
    "surrogates": (["\ud800", "b"], ["b", "\ud800"]),
    "surrogates in an array": (np.array(["\ud800", "b"]), ["b", "\ud800"]),
    "a list": ([LARGE, 2.0], [2, LARGE]),
    "nothing masked": (np.ma.array([1, 2]), [1, 2]),
}


@pytest.mark.parametrize("name", KEPT)
def test_labels_keep_their_values(name: str, tmp_path: Path) -> None:
    given_labels, classes = KEPT[name]
    clf = MemoryClassifier("positional", Exact(), "sum").fit(X, given_labels)
    for model in (clf, loaded(clf, tmp_path)):
        assert model.classes_.tolist() == classes
        assert [type(label) for label in model.classes_.tolist()] == [type(label) for label in classes]
        assert sorted(model.predict(X).tolist()) == classes


MISSING: dict[str, Any] = {
    "Int64": pd.Series([LARGE, pd.NA], dtype="Int64"),
    "boolean": pd.Series([True, None], dtype="boolean"),
    "string": pd.Series(["a", None], dtype="string"),
    "category": pd.Series(pd.Categorical([LARGE, None])),
    "a list": ["a", pd.NA],
    "numbers": [1, pd.NA],
    "objects": np.array(["a", pd.NA], object),
    "polars": pl.Series([LARGE, None]),
    "StringDType": np.array(["a", None], np.dtypes.StringDType(na_object=None)),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_label_is_refused_with_its_row(name: str) -> None:
    with pytest.raises(ValueError, match=r"y holds .* at row 1: drop that row"):
        MemoryClassifier(memory=Exact(), vote="sum").fit(X, MISSING[name])


def test_integers_of_several_types_keep_their_values() -> None:
    unsigned, signed = np.array([LARGE, 1], np.uint64), np.array([-5, 2])
    classes = [-5, 1, 2, LARGE]
    clf = MemoryClassifier(memory=Exact(), vote="sum").fit(X, unsigned)
    other = MemoryClassifier(memory=Exact(), vote="sum").fit(X, signed)
    assert (clf + other).classes_.tolist() == classes
    assert clf.partial_fit(X, signed).classes_.tolist() == classes
    with pytest.raises(ValueError, match=f"as large as {LARGE}, which no float holds exactly.*astype"):
        clf.partial_fit(X, np.array([2.0, 3.0]))
    assert clf.classes_.tolist() == classes
    with pytest.raises(ValueError, match=r"y holds 0.5 among whole numbers"):
        MemoryClassifier(memory=Exact(), vote="sum").fit(X, [LARGE, 0.5])


def test_a_stream_whose_labels_grow_keeps_their_values(tmp_path: Path) -> None:
    small, large = np.ones(2**20, np.int8), np.array([1, 300, LARGE])
    clf = MemoryClassifier(memory=Exact(), vote="sum").fit_stream(iter([small, large]), h=1)
    assert clf.classes_.tolist() == [1, 300, LARGE]
    assert loaded(clf, tmp_path).classes_.tolist() == [1, 300, LARGE]


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=2, max_size=2), min_size=1, max_size=4), st.data()
)
def test_integer_labels_of_any_type_are_those_of_a_set(batches: list[list[int]], data: st.DataObject) -> None:
    clf, seen = MemoryClassifier(memory=Exact(), vote="sum"), set()
    for batch in batches:
        fitting = [
            kind
            for kind in (np.int8, np.uint8, np.int32, np.int64, np.uint64)
            if np.iinfo(kind).min <= min(batch) and max(batch) <= np.iinfo(kind).max
        ]
        clf.partial_fit(X, np.array(batch, data.draw(st.sampled_from(fitting))))
        seen |= set(batch)
    assert clf.classes_.tolist() == sorted(seen)


# ---------------------------------------------------------------- masks


def test_masked_entries_are_refused() -> None:
    table, flat = np.ma.array([[1], [2]], mask=[[False], [True]]), np.ma.array([1, 2, 3], mask=[False, True, False])
    clf = MemoryClassifier("positional", Exact(), "sum").fit(X, ["a", "b"])
    calls: dict[str, Any] = {
        "X has": lambda: clf.partial_fit(table, ["a", "b"]),
        "X has masked": lambda: clf.predict(table),
        "X has masked entries": lambda: clf.predict([table[0], table[1]]),
        "y has": lambda: clf.partial_fit(X, table[:, 0]),
        "sample_weight has": lambda: clf.partial_fit(X, ["a", "b"], sample_weight=table[:, 0]),
        "The stream has": lambda: MemoryClassifier(memory=Exact(), vote="sum").fit_stream(flat, h=1),
        "A document has": lambda: windows([flat], h=1),
    }
    for message, call in calls.items():
        with pytest.raises(ValueError, match=rf"{message}.*filled"):
            call()
    assert clf.predict(np.ma.array(X)).tolist() == ["a", "b"]
