"""Ordered categories: read by their places, shown by their names, and equal to the places as numbers."""

from __future__ import annotations

import threading
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, MemoryRegressor, load, save
from hammemo.files.archive import FileError
from hammemo.memories.errors import LayoutError
from hammemo.tokens.orders import MOST_CATEGORIES
from mutated_files import join_file, seal, split_file

if TYPE_CHECKING:
    from pathlib import Path

SIZES = ["tiny", "small", "medium", "large", "huge"]
MANY = [f"level {k:03}" for k in range(200)]


def as_frame(codes: Any, categories: list[Any]) -> pd.DataFrame:
    """Return a table of an ordered category, -1 for a missing value, and a number."""
    size = pd.Categorical.from_codes(np.asarray(codes), categories, ordered=True)
    return pd.DataFrame({"size": size, "x": np.arange(len(codes)) % 7 / 2})


def as_numbers(codes: Any) -> pd.DataFrame:
    """Return the same table with places in place of categories."""
    places = np.asarray(codes, float)
    return pd.DataFrame({"size": np.where(places < 0, np.nan, places), "x": np.arange(len(codes)) % 7 / 2})


@settings(max_examples=25, deadline=None)
@pytest.mark.examples(8)
@given(
    codes=st.lists(st.integers(-1, 4), min_size=12, max_size=60),
    seed=st.integers(0, 99),
    estimator=st.sampled_from([MemoryClassifier, MemoryRegressor]),
)
def test_an_order_is_what_places_are_as_numbers(codes: list[int], seed: int, estimator: Any) -> None:
    codes[0] = 0  # some value is there
    rng = np.random.default_rng(seed)
    y: Any = rng.normal(size=len(codes)).round(1)
    if estimator is MemoryClassifier:
        y = np.where(y > 0, "high", "low")
    frame, numbers = as_frame(codes, SIZES), as_numbers(codes)
    model, twin = estimator().fit(frame, y), estimator().fit(numbers, y)
    assert np.array_equal(model.predict(frame), twin.predict(numbers))
    assert model.digest(parts=True)["counts"] == twin.digest(parts=True)["counts"]
    model.forget(frame[1:4], y[1:4]).refit()
    twin.forget(numbers[1:4], y[1:4]).refit()
    assert np.array_equal(model.predict(frame), twin.predict(numbers))
    rest = [0, *range(4, len(codes))]
    assert model.digest() == estimator().fit(frame.iloc[rest], y[rest]).digest()


def test_the_intervals_of_a_cut_have_an_order() -> None:
    values = np.arange(40) % 9 / 2
    X = pd.DataFrame({"range": pd.cut(values, 3), "x": np.arange(40) / 4})
    y = np.where(values > 2, "high", "low")
    model = MemoryClassifier().fit(X, y)
    assert model.state.columns.order_of(0) == tuple(map(str, X["range"].cat.categories))
    before = model.digest()
    row = X.iloc[3].tolist()  # holds an interval
    assert model.learn_one(row, y[3]).forget_one(row, y[3]).digest() == before
    assert model.compile()(row) == model.predict(X[3:4])[0]


def test_many_levels_are_told_apart_by_their_order() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, len(MANY), 600)
    y = np.where(codes >= 100, "late", "early")
    frame = as_frame(codes, MANY)
    assert MemoryClassifier().fit(frame[:300], y[:300]).score(frame[300:], y[300:]) >= 0.99


def test_every_form_of_an_order_gives_one_model() -> None:
    codes = np.arange(90) * 7 % 30
    levels = MANY[:30]
    y = np.where(codes > 14, "late", "early")
    size = [levels[k] for k in codes]
    x = codes / 4
    forms: list[Any] = [
        pd.DataFrame({"size": pd.Categorical(size, levels, ordered=True), "x": x}),
        pl.DataFrame({"size": pl.Series(size, dtype=pl.Enum(levels)), "x": x}),
        pa.table({"size": pa.DictionaryArray.from_arrays(codes, levels, ordered=True), "x": x}),
    ]
    digests = {MemoryClassifier().fit(form, y).digest() for form in forms}
    assert len(digests) == 1
    rows = [list(row) for row in zip(size, x.tolist(), strict=True)]
    declared = MemoryClassifier(ordered={0: levels}).fit(rows, y)
    parts = declared.digest(parts=True)
    expected = MemoryClassifier().fit(forms[0], y).digest(parts=True)
    assert [name for name in parts if parts[name] != expected[name]] == ["parameters", "declared"]


@pytest.mark.parametrize("categories", [[3, 1, 2], [0.5, 0.25], ["b", "a"], ["a"]])
def test_categories_of_any_type_come_back_as_they_were(categories: list[Any]) -> None:
    frame = as_frame(np.arange(40) % len(categories), categories)
    y = ["odd" if i % 2 else "even" for i in range(40)]
    model = MemoryClassifier().fit(frame, y)
    rows, _ = model.sync(frame[:30], y[:30]).forgotten_rows()
    assert sorted(rows[:, 0].tolist()) == sorted(frame["size"][30:].tolist())


def test_values_that_are_no_category() -> None:
    frame = as_frame(np.arange(40) % 5, SIZES)
    y = ["odd" if i % 2 else "even" for i in range(40)]
    model = MemoryClassifier().fit(frame, y)
    before = model.digest()
    with pytest.raises(ValueError, match=r"Column 'size' holds ordered categories, and 'gigantic' is none of 'tiny' <"):
        model.partial_fit(pd.DataFrame({"size": ["gigantic"], "x": [1.0]}), ["odd"])
    with pytest.raises(ValueError, match="'gigantic' is none of"):
        model.learn_one(["gigantic", 1.0], "odd")
    assert model.digest() == before
    missing = pd.DataFrame({"size": pd.Series([None], dtype=object), "x": [1.0]})
    with pytest.warns(UserWarning, match="'size' held ordered categories when it was learned, and is queried with"):
        answer = model.predict_proba(pd.DataFrame({"size": ["gigantic"], "x": [1.0]}))
    assert np.array_equal(answer, model.predict_proba(missing))


@pytest.mark.parametrize("categories", [[0.5, 2.25, 1.0], [1e16, 1.0, 0.25], [3, 1, 2], [2**60, 2**53 + 1]])
def test_numbers_are_categories_as_text_files_write_them(categories: list[Any], tmp_path: Path) -> None:
    frame = as_frame(np.arange(42) % len(categories), categories)
    y = np.array(["odd" if i % 2 else "even" for i in range(42)])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    texts = pd.read_csv(tmp_path / "rows.csv", dtype={"size": str})
    model = MemoryClassifier().fit(frame[:20], y[:20])
    assert model.partial_fit(texts[20:], y[20:]).refit().digest() == MemoryClassifier().fit(frame, y).digest()


def test_a_category_of_a_frame_that_was_not_learned_is_named() -> None:
    y = ["odd" if i % 2 else "even" for i in range(40)]
    model = MemoryClassifier().fit(as_frame(np.arange(40) % 5, SIZES), y)
    question = as_frame([1], ["small", "gigantic"])
    with pytest.warns(UserWarning, match="is queried with strings such as 'gigantic': they count as missing"):
        answers = model.predict(question)
    assert answers.tolist() == model.predict(as_frame([-1], SIZES)).tolist()


def test_another_order_is_refused_and_a_part_of_it_is_read() -> None:
    frame = as_frame(np.arange(40) % 5, SIZES)
    y = ["odd" if i % 2 else "even" for i in range(40)]
    model = MemoryClassifier().fit(frame, y)
    backwards = as_frame([0, 1], SIZES[::-1])
    with pytest.raises(ValueError, match=r"was learned in the order 'tiny' < 'small'.*'huge' comes before 'large'"):
        model.predict(backwards)
    with pytest.raises(ValueError, match="give the column the order that was learned"):
        model.partial_fit(backwards, ["odd", "even"])
    part = as_frame([0, 1], ["small", "huge"])
    assert model.predict(part).tolist() == model.predict(part.astype({"size": object})).tolist()
    with pytest.raises(LayoutError, match="has the order"):
        model.merge(MemoryClassifier().fit(as_frame(np.arange(40) % 4, SIZES[1:]), y))


def test_orders_that_are_none() -> None:
    X, y = [["S", 1.5], ["L", 2.5]] * 10, ["a", "b"] * 10
    ordered: Any
    for ordered, error in (
        ({0: ["S", "S", "L"]}, "a category twice"),
        ({0: []}, "has no category"),
        ({0: ["S", None]}, "stands for a missing value"),
        ({2: ["S", "L"]}, "ordered= names the column 2"),
        ({0: ["M"]}, "'S' is none of 'M'"),
        ({1: [1.5, 2.5], 0: ["S"]}, "is none of 'S'"),
    ):
        with pytest.raises(ValueError, match=error):
            MemoryClassifier(ordered=ordered).fit(X, y)
    for ordered in ("S,M", {0: "SML"}, [["S", "L"]]):
        with pytest.raises(TypeError, match=r"ordered=|its order is a list"):
            MemoryClassifier(ordered=ordered).fit(X, y)
    with pytest.raises(ValueError, match="numeric=, and ordered= names it, too"):
        MemoryClassifier(numeric=[0], ordered={0: ["S", "L"]}).fit(X, y)


@pytest.mark.parametrize("estimator", [MemoryClassifier, MemoryRegressor])
@pytest.mark.parametrize(
    "orders",
    [
        None,
        [],
        [[0, SIZES], [0, SIZES]],
        [[1, SIZES]],
        [[5, SIZES]],
        [[0, ["tiny", "tiny"]]],
        [[0, []]],
        [[0, [None]]],
        [[0, [["tiny"]]]],
        [["0", SIZES]],
        "0",
        [[0]],
    ],
)
def test_a_file_with_other_orders_is_refused(estimator: Any, orders: Any, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(estimator(ordered={"size": SIZES}).fit(as_frame(np.arange(40) % 5, SIZES), np.arange(40) % 2), path)
    assert load(path).get_params()["ordered"] == {"size": SIZES}
    parts = split_file(path.read_bytes())
    about = {**parts.description, "orders": orders}
    if orders is None:
        del about["orders"]
    path.write_bytes(seal(join_file(parts.header, about, parts.body)))
    with pytest.raises(FileError):
        load(path)


def test_the_most_categories_work_in_bounded_time_and_memory(tmp_path: Path) -> None:
    categories = [f"level {place:05}" for place in range(MOST_CATEGORIES)]
    codes = np.random.default_rng(0).integers(0, len(categories), 600)
    y = np.where(codes > MOST_CATEGORIES // 2, "late", "early")
    frame = as_frame(codes, categories)
    model = MemoryClassifier().fit(frame[:300], y[:300])
    assert model.score(frame[300:], y[300:]) >= 0.99
    save(model, tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 2**21  # the categories once, and little else
    loaded: Any = load(tmp_path / "model")
    predictor = loaded.compile()
    rows = [[categories[code], 1.0] for code in codes[:100]]
    assert [predictor(row) for row in rows] == model.predict(frame[:100].assign(x=1.0)).tolist()

    tracemalloc.start()
    started = time.process_time()
    for row, label in zip(rows, y.tolist(), strict=False):
        loaded.learn_one(row, label)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # a table of the categories takes some 50 ms and 10 MiB: it is made once, and not for each row
    assert time.process_time() - started < 3
    assert peak < 40 * 2**20


def test_more_categories_are_refused_with_the_way_out() -> None:
    many = 2**20
    codes = np.arange(40) * 1000
    y = np.arange(40) % 2
    started = time.process_time()
    frame = as_frame(codes, [f"level {place:07}" for place in range(many)])
    message = "'size' has 1,048,576 ordered categories, and 65,536 are the most: pass their codes, as numbers"
    with pytest.raises(ValueError, match=message):
        MemoryClassifier().fit(frame, y)
    with pytest.raises(ValueError, match=r"1,048,576 ordered categories, and 65,536 are the most"):
        MemoryClassifier(ordered={0: range(many)}).fit([[1, 2.5], [3, 4.5]], ["a", "b"])
    assert time.process_time() - started < 30
    numbers = frame.assign(size=frame["size"].cat.codes)
    assert MemoryClassifier().fit(numbers, y).predict(numbers[:1]).shape == (1,)


@pytest.mark.parametrize(("estimator", "method"), [(MemoryClassifier, "predict_proba"), (MemoryRegressor, "predict")])
def test_readers_see_the_model_before_or_after_each_edit_of_another_thread(estimator: Any, method: str) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 5, 120)
    y: Any = (codes >= 2) + rng.integers(0, 2, len(codes))
    frame = as_frame(codes, SIZES)
    strings = frame.astype({"size": object})
    # what a reader may see: the answers with all rows and with the first 80
    model = estimator().fit(frame, y)
    smaller = model.snapshot().forget(frame[80:], y[80:])
    queries = [as_frame([0, 1, 2, 3, 4, -1], SIZES), strings[:6].assign(size=[*SIZES, None])]
    possible = [{getattr(other, method)(query).tobytes() for other in (model, smaller)} for query in queries]
    assert all(len(answers) == 2 for answers in possible)  # the edit can be seen
    answers: list[set[bytes]] = [set(), set()]
    errors: list[BaseException] = []
    has_ended = threading.Event()
    is_reading = threading.Barrier(3)

    def read(place: int) -> None:
        try:
            is_reading.wait(60)
            while not has_ended.is_set():
                answers[place].add(getattr(model, method)(queries[place]).tobytes())
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read, args=(place,)) for place in range(2)]
    for reader in readers:
        reader.start()
    is_reading.wait(60)
    try:
        for _ in range(20):
            model.forget(strings[80:], y[80:])
            model.partial_fit(strings[80:], y[80:])
    finally:
        has_ended.set()
        for reader in readers:
            reader.join(60)
    assert errors == []
    assert all(answers[place] and answers[place] <= possible[place] for place in range(2))
    assert model.refit().digest() == estimator().fit(frame, y).digest()


@pytest.mark.parametrize("is_missing_first", [False, True])
def test_models_of_equal_targets_merge_where_one_has_no_category(is_missing_first: bool, tmp_path: Path) -> None:
    """Equal targets give no unit, so a merge may take the layout of the other model."""
    codes = np.array([0, 4, 2, 1, 3, 0, 2, 4])
    frames = [as_frame(codes, SIZES), as_frame(np.full(8, -1), SIZES)]
    targets = [np.full(8, 2.5), np.arange(8) / 4]
    if is_missing_first:
        frames.reverse()
    models = [MemoryRegressor().fit(frame, y) for frame, y in zip(frames, targets, strict=True)]
    save(models[0].merge(models[1]), tmp_path / "model")
    merged: Any = load(tmp_path / "model")
    assert merged.state.columns.order_of(0) == tuple(SIZES)
    both = MemoryRegressor().fit(pd.concat(frames), np.concatenate(targets))
    assert merged.refit().digest() == both.digest()
