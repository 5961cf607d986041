"""A query with another kind than the column was learnt with is warned of, once."""

from __future__ import annotations

import pickle
import threading
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hammemo import NO_TOKEN, MemoryClassifier, Rolling
from hammemo.files.contents import file_bytes, from_bytes

FRAME = pd.DataFrame({"age": [39.0, 40.5, None], "job": ["cook", "clerk", None]})
Y = ["x", "y", "y"]


def warned(clf: Any, X: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        clf.predict(X)
    assert all(warning.filename == __file__ for warning in found)
    return [str(warning.message).split(" when")[0] for warning in found]


def test_each_column_is_named_once() -> None:
    clf = MemoryClassifier(vote="sum").fit(FRAME, Y)
    assert warned(clf, FRAME) == []
    other = pd.DataFrame({"age": ["39", "40.5"], "job": ["cook", "clerk"]})
    assert warned(clf, other) == ["Column 'age' held numbers"]
    assert warned(clf, other) == []
    assert warned(clf, pd.DataFrame({"age": ["39"], "job": [1]})) == ["Column 'job' held strings"]
    assert warned(MemoryClassifier(vote="sum").fit(FRAME, Y), other) == ["Column 'age' held numbers"]


def test_a_loaded_model_warns_of_numbers_and_dates() -> None:
    days = pd.to_datetime(["2024-01-01", "2024-05-01", None])
    frame = FRAME.assign(day=days)
    loaded = from_bytes(file_bytes(MemoryClassifier().fit(frame, Y)))
    assert warned(loaded, frame) == []
    assert warned(loaded, frame.assign(age="old")) == ["Column 'age' held numbers"]
    assert warned(loaded, frame.assign(age="old")) == []
    assert warned(loaded, frame.assign(job=[1, 2, 3])) == []  # a file does not say what names are


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, NO_TOKEN])
@pytest.mark.parametrize("way", ["token", "empty"])
def test_missing_values_are_of_no_kind(missing: Any, way: str) -> None:
    clf = MemoryClassifier(vote="sum", missing=way).fit([["a", 1, missing], ["b", 2, missing]], ["x", "y"])
    assert warned(clf, np.array([[missing, missing, 3], [missing, missing, "c"]], object)) == []
    assert warned(clf, np.array([[missing, 1, 3], [1, missing, "c"]], object)) == ["Column 0 held strings"]


def test_whole_numbers_and_strings_as_arrays() -> None:
    numbers = np.array([[1, 2], [3, 4]])
    clf = MemoryClassifier(vote="sum").fit(numbers, [0, 1])
    assert warned(clf, numbers.astype(float)) == warned(clf, numbers > 2) == warned(clf, numbers.tolist()) == []
    assert warned(clf, numbers.astype(str)) == ["Column 0 held numbers", "Column 1 held numbers"]
    clf = MemoryClassifier(vote="sum").fit(numbers.astype(str), [0, 1])
    assert warned(clf, numbers) == ["Column 0 held strings", "Column 1 held strings"]


def test_a_column_that_learns_both_is_of_no_kind() -> None:
    clf = MemoryClassifier(vote="sum", numeric="none").fit([["a", 1]], ["x"]).partial_fit([[1, 1]], ["y"])
    assert warned(clf, [["a", "1"]]) == ["Column 1 held numbers"]
    assert warned(clf, [[2, 1]]) == []
    empty = clf.empty_like().partial_fit([["a", "b"]], ["x"])
    assert warned(empty, [["a", 1]]) == ["Column 1 held strings"]


def test_a_merged_model_knows_the_kinds_of_both() -> None:
    tables: list[Any] = [[["a", 1]], [["a", "1"]]]
    one, other = (MemoryClassifier(vote="sum", numeric="none").fit(X, ["x"]) for X in tables)
    assert warned(one + other, [[1, 1]]) == ["Column 0 held strings"]


def test_a_stream_is_one_column() -> None:
    clf = MemoryClassifier(vote="sum").fit_stream([[1, 2, 3], [4, 5]], h=2, short="pad")
    assert warned(clf, [[1], [1, 2]]) == []
    assert warned(clf, [["1"], ["1", "2"]]) == ["The stream held numbers"]


def test_pickles_edits_and_windows_keep_what_was_said() -> None:
    clf = MemoryClassifier(vote="sum").fit([["a", 1]], ["x"])
    assert warned(clf, [["a", "1"]]) == ["Column 1 held numbers"]
    again = pickle.loads(pickle.dumps(clf))  # noqa: S301
    assert warned(again, [[1, "1"]]) == ["Column 0 held strings"]
    assert warned(clf.learn_one(["a", 2], "x"), [["a", "1"]]) == []
    window = Rolling(MemoryClassifier(vote="sum"), last=2).partial_fit([["a", 1]], ["x"])
    assert warned(window, [["a", "1"]]) == ["Column 1 held numbers"]
    assert warned(window.partial_fit([["a", 1]], ["x"]), [["a", "1"]]) == []


def test_one_of_many_threads_warns() -> None:
    clf = MemoryClassifier(vote="sum").fit([["a", 1]], ["x"])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=clf.predict, args=([["a", "1"]],)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 1
