"""An edit inside an edit of the same object is refused, because the outer one would overwrite it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hammemo import MemoryClassifier, Rolling
from hammemo.kernels import Suffixes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STREAM = [["a", "b"], ["b", "c"]]


def learnt() -> MemoryClassifier:
    return MemoryClassifier(Suffixes(1), vote="sum").fit_stream(STREAM, h=1)


def documents(edit: Callable[[], Any]) -> Iterator[list[str]]:
    edit()
    yield from STREAM


INNER: dict[str, Callable[[MemoryClassifier], Any]] = {
    "partial_fit_stream": lambda clf: clf.partial_fit_stream([["q", "r"]]),
    "fit_stream": lambda clf: clf.fit_stream([["q", "r"]], h=1),
    "merge": lambda clf: clf.merge(learnt()),
    "learn_one": lambda clf: clf.learn_one(["q"], "r"),
    "refit": lambda clf: clf.apply_edit(lambda model: None),
}
OUTER: dict[str, Callable[[MemoryClassifier, Any], Any]] = {
    "partial_fit_stream": lambda clf, tokens: clf.partial_fit_stream(tokens),
    "fit_stream": lambda clf, tokens: clf.fit_stream(tokens, h=1),
    "forget_stream": lambda clf, tokens: clf.forget_stream(tokens),
}


@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
@pytest.mark.parametrize("outer", OUTER.values(), ids=OUTER)
def test_it_is_refused_and_nothing_is_changed(outer: Any, inner: Any) -> None:
    clf = learnt()
    before, version = clf.memory_.state_bytes(), clf.version_
    with pytest.raises(RuntimeError, match="MemoryClassifier is being edited already"):
        outer(clf, documents(lambda: inner(clf)))
    assert (clf.memory_.state_bytes(), clf.version_) == (before, version)
    assert clf.learn_one(["a"], "b").version_ == version + 1


def test_an_iterator_that_goes_on_after_the_refusal_loses_nothing_that_was_confirmed() -> None:
    clf = learnt()

    def edit() -> None:
        with pytest.raises(RuntimeError):
            clf.learn_one(["q"], "r")

    clf.partial_fit_stream(documents(edit))
    assert clf.memory_.state_bytes() == learnt().partial_fit_stream(STREAM).memory_.state_bytes()


def test_other_objects_may_be_edited_and_this_one_asked() -> None:
    clf, other = learnt(), learnt()
    answers: list[str] = []

    def edit() -> None:
        other.learn_one(["q"], "r")
        answers.extend(clf.predict([["a"]]).tolist())

    clf.partial_fit_stream(documents(edit))
    assert "r" in other.classes_
    assert answers == ["b"]


def test_a_window_refuses_it_too() -> None:
    class Rows:
        """Rows that edit the window when they are read."""

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            window.expire(now=5)
            return np.array([["a", "b"]], object)

    window = Rolling(MemoryClassifier(), last=9).partial_fit([["a", "b"]], ["x"], times=[0])
    with pytest.raises(RuntimeError, match="Rolling is being edited already"):
        window.partial_fit(Rows(), ["x"], times=[1])
    assert window.partial_fit([["a", "b"]], ["x"], times=[1]).n_examples_ == 2


def test_another_thread_waits() -> None:
    clf = learnt()
    thread = threading.Thread(target=lambda: clf.learn_one(["q"], "r"))
    clf.partial_fit_stream(documents(thread.start))
    thread.join()
    assert "r" in clf.classes_
    assert clf.memory_.label_counts.sum() == 5
