"""One edit that forgets and learns, against its plain twin: `forget`, then `partial_fit`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from hammemo import MemoryClassifier
from hammemo.files.contents import file_bytes, from_bytes
from hammemo.files.models import load, save
from hammemo.memories import Exact, Hashed
from hammemo.memories.errors import NotStoredError
from hammemo.stores import Digests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODELS: dict[str, Callable[[], MemoryClassifier]] = {
    "auto": lambda: MemoryClassifier(random_state=1),
    "digests": lambda: MemoryClassifier("positional", Hashed(64), "sum", random_state=1, keep=Digests(3)),
    "no rows": lambda: MemoryClassifier("positional", Exact(), "sum", random_state=1, keep=False),
}
rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([1.5, 2.0, None]), st.sampled_from("xy")), min_size=1, max_size=9
)


def counts(model: MemoryClassifier) -> bytes:
    return bytes(model.memory_.state_bytes())


def pair(listed: list[tuple[Any, ...]]) -> tuple[list[list[Any]], list[Any]]:
    return [list(row[:-1]) for row in listed], [row[-1] for row in listed]


@pytest.mark.parametrize("made", MODELS)
@settings(max_examples=15)
@given(held=rows, more=rows, n=st.integers(0, 9))
def test_it_is_forget_and_then_learn(
    made: str, held: list[tuple[Any, ...]], more: list[tuple[Any, ...]], n: int
) -> None:
    gone = held[:n]
    one, two = (MODELS[made]().fit(*pair(held)) for _ in range(2))
    two.partial_fit(*pair(more)) if not gone else two.forget(*pair(gone)).partial_fit(*pair(more))
    one.apply(pair(more), pair(gone) if gone else None, position="p")
    assert one.digest(parts=True) == two.digest(parts=True)
    assert (one.position_, two.position_, one.version_) == ("p", None, 2)
    with pytest.raises(NotStoredError):
        one.apply(pair(more), pair([("none", 9.5, "x")]), position="q")
    assert one.digest(parts=True) == two.digest(parts=True)
    assert one.position_ == "p"


@pytest.mark.parametrize("made", MODELS)
@settings(max_examples=15)
@given(held=rows, more=rows)
def test_everything_is_all_rows(made: str, held: list[tuple[Any, ...]], more: list[tuple[Any, ...]]) -> None:
    one, two = (MODELS[made]().fit(*pair(held)) for _ in range(2))
    one.apply(forget="everything")
    two.forget(*pair(held))
    assert one.state.stale == two.state.stale
    assert counts(one) == counts(two)
    one.apply(pair(more))
    two.partial_fit(*pair(more))
    assert counts(one) == counts(two)
    again = MODELS[made]().fit(*pair(held)).apply(pair(more), "everything")
    assert again.digest(parts=True) == one.digest(parts=True)
    again.forget(*pair(more))  # the ledger has the new rows, and none of the old ones
    with pytest.raises((NotStoredError, ValueError)):
        again.forget(*pair(held))


@settings(max_examples=10)
@given(held=rows, more=rows)
def test_after_a_refit_it_is_a_fit_of_what_is_left(held: list[tuple[Any, ...]], more: list[tuple[Any, ...]]) -> None:
    model = MODELS["auto"]().fit(*pair(held)).apply(pair(more), "everything", position="7").refit()
    assert model.digest() == MODELS["auto"]().fit(*pair(more)).digest()
    assert model.position_ == "7"


def test_the_position_is_kept_in_files_and_by_other_edits(tmp_path: Path) -> None:
    X, y = [["a", "b"], ["c", "d"]] * 150, ["x", "y"] * 150
    model = MemoryClassifier().apply(learn=(X[:2], y[:2]), position="0/16B3748")
    model.partial_fit(X, y)  # chooses again
    model.learn_one(["a", "d"], "y").forget_one(["a", "d"], "y").refit()
    assert model.position_ == "0/16B3748"
    save(model, tmp_path / "a.model")
    again: Any = load(tmp_path / "a.model")
    assert (again.position_, again.digest()) == (model.position_, model.digest())
    assert model.empty_like().position_ is None
    assert model.fit(X, y).position_ is None
    stored = file_bytes(model.apply(position="p" * 9))
    copy: Any = from_bytes(stored)
    assert copy.position_ == "p" * 9


@pytest.mark.parametrize("wrong", ["", "p" * 1_025, 7, "\ud800"])
def test_a_position_that_is_none_is_refused(wrong: Any) -> None:
    model = MemoryClassifier().fit([["a"], ["b"]], ["x", "y"])
    with pytest.raises(ValueError, match="position"):
        model.apply(([["a"]], ["x"]), position=wrong)
    assert int(model.memory_.label_counts.sum()) == 2


def test_what_is_no_rows_is_refused() -> None:
    with pytest.raises(NotFittedError):
        MemoryClassifier().apply(forget="everything")
    with pytest.raises(ValueError, match="nothing to learn"):
        MemoryClassifier().apply(position="p")
    model = MemoryClassifier().fit([["a"], ["b"]], ["x", "y"])
    with pytest.raises(TypeError, match="forget= takes"):
        model.apply(forget="all")
    with pytest.raises(TypeError, match="learn= takes"):
        model.apply(learn=np.zeros((3, 2)))


def test_no_reader_sees_the_moment_between() -> None:
    """Each edit moves all rows from one label to the other: a reader always sees as many rows of one label."""
    X = [["a", "b"], ["c", "d"]]
    model = MemoryClassifier("positional", vote="sum").fit(X, ["x", "x"])
    stop, seen = threading.Event(), set()

    def read() -> None:
        while not stop.is_set():
            seen.add((tuple(model.classes_.tolist()), tuple(model.memory_.label_counts.tolist())))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for i in range(200):
            before, after = ("x", "y") if i % 2 == 0 else ("y", "x")
            model.apply((X, [after] * 2), (X, [before] * 2))
    finally:
        stop.set()
        reader.join()
    assert {counts for _, counts in seen} <= {(2,)}
