"""A model of streams remembers how documents were cut: contexts of any length are queried, learnt and forgotten alike.

The plain twin is `hammemo.windows`: row i of a document is what its first i tokens must become.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from hammemo import NO_TOKEN, MemoryClassifier, NotStoredError, load, save, windows
from hammemo.engines import fit_documents
from hammemo.kernels import Suffixes
from hammemo.memories import Hashed
from hammemo.sources.documents import open_source
from hammemo.tokens.cutting import Cutting
from hammemo.votes import Mixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VISITS = [["a", "b"], ["a", "b", "c", "d"], ["b", "c", "a"], ["d"]]


def model_of(documents: Any, h: int = 3, memory: str = "exact", **how: Any) -> MemoryClassifier:
    return MemoryClassifier(memory=memory, vote="sum").fit_stream(documents, h, **how)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[list[Any]], int, Any]:
    """Documents, h and a pad token."""
    token = draw(st.sampled_from([st.integers(0, 4), st.sampled_from("abc"), st.booleans()]))
    documents = draw(st.lists(st.lists(token, max_size=7), min_size=1, max_size=5).filter(any))
    return documents, draw(st.integers(1, 4)), draw(st.sampled_from([None, 0, "a", "(start)", 1.5, np.int8(3)]))


@given(streams())
def test_contexts_of_any_length_are_answered_like_windows(stream: tuple[list[list[Any]], int, Any]) -> None:
    documents, h, pad = stream
    X, _ = windows(documents, h, short="pad", pad=pad)
    begun = [document[:i] for document in documents for i in range(len(document))]
    clf = model_of(documents, h, short="pad", pad=pad)
    wanted = clf.class_scores(X)
    assert (clf.class_scores(begun) == wanted).all()
    predictor = clf.compile()
    assert (predictor.class_scores(tuple(begun)) == wanted).all()
    assert [predictor(context) for context in begun] == clf.predict(begun).tolist() == clf.predict(X).tolist()
    assert [clf.explain(context).to_dict() for context in begun] == [clf.explain(x.tolist()).to_dict() for x in X]


@given(streams(), st.sampled_from([(), ("a",), ("a", "b", "a", "b", "c")]))
def test_rows_of_any_length_are_learnt_and_forgotten_like_windows(
    stream: tuple[list[list[Any]], int, Any], more: tuple[str, ...]
) -> None:
    _, h, pad = stream
    clf = model_of([["b", "c"]], h, short="pad", pad=pad)
    row = windows([[*more, "x"]], h, short="pad", pad=pad)[0][-1].tolist()
    whole, before = clf.snapshot().partial_fit([row], ["x"]).memory_.state_bytes(), clf.memory_.state_bytes()
    assert clf.partial_fit([more], ["x"]).memory_.state_bytes() == whole
    assert clf.forget([more], ["x"]).memory_.state_bytes() == before
    assert clf.learn_one(more, "x").memory_.state_bytes() == whole
    assert clf.forget_one(more, "x").memory_.state_bytes() == before


def test_arrays_and_series_of_any_width() -> None:
    pd = pytest.importorskip("pandas")
    clf = model_of([[1, 2, 3, 4, 5]], h=3, short="pad")
    wanted = clf.class_scores([[NO_TOKEN, 1, 2]])
    for asked in (np.array([[1, 2]]), [[1, 2]], ((1, 2),), pd.Series([[1, 2]]), [np.array([1, 2])]):
        assert (clf.class_scores(asked) == wanted).all()
    assert (clf.class_scores(np.array([[9, 2, 3, 4]])) == clf.class_scores([[2, 3, 4]])).all()
    assert clf.predict(pd.Series([[2, 3, 4], [9, 2, 3, 4]])).tolist() == [5, 5]
    assert (clf.class_scores([[]]) == clf.class_scores([[NO_TOKEN] * 3])).all()
    assert clf.predict(np.array([["1", "2"]])).shape == (1,)


@pytest.mark.parametrize("kind", [deque, lambda rows: np.array(rows).data, pytest.param("torch")])
def test_other_arrays_of_h_tokens_are_taken_as_by_a_model_of_rows(kind: Any) -> None:
    if kind == "torch":
        kind = pytest.importorskip("torch").tensor
    clf = model_of([[1, 2, 3, 4, 5]], h=3, short="pad")
    asked = kind([[1, 2, 3], [2, 3, 4]])
    assert clf.predict(asked).tolist() == clf.compile().predict(asked).tolist() == [4, 5]
    assert clf.partial_fit(asked, [7, 7]).memory_.label_counts.sum() == 7


@pytest.mark.parametrize(
    "asked",
    ["ab", ["ab"], [1, 2], [["a"], "b"], [["a", ["b"]]], [], [{"a": 1}], None, np.array(5), np.zeros((2, 2, 2), int)],
)
def test_what_is_no_context_is_refused_as_before(asked: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        model_of(VISITS, short="pad").predict(asked)


def test_where_beginnings_were_dropped_shorter_contexts_are_refused_and_longer_ones_cut() -> None:
    clf = model_of(VISITS, h=2)
    assert clf.predict([["x", "y", "a", "b"]]).tolist() == clf.predict([["a", "b"]]).tolist() == ["c"]
    for ask in (clf.predict, clf.compile().predict, clf.top_k):
        with pytest.raises(ValueError, match="A context has 1 tokens, and the model reads 2"):
            ask([["a", "b"], ["b"]])
    with pytest.raises(ValueError, match="it learnt no beginnings"):
        clf.compile()(["b"])


def test_a_model_of_rows_takes_no_other_length() -> None:
    clf = MemoryClassifier().fit(*windows(VISITS, 2, short="pad"))
    assert clf.cutting_ is None
    with pytest.raises(ValueError, match="2 features"):
        clf.predict([["a"]])


@given(streams(), st.sampled_from(["exact", "hashed", "tiered"]), st.booleans())
def test_what_the_model_knows_need_not_be_said_again(
    stream: tuple[list[list[Any]], int, Any], memory: str, padded: bool
) -> None:
    documents, h, pad = stream
    how: Any = {"short": "pad", "pad": pad} if padded else {"short": "drop"}
    documents = [document for document in documents if padded or len(document) > h]
    if not any(documents):
        return
    clf = model_of(documents, h, memory, **how)
    before = clf.memory_.state_bytes()
    said = clf.snapshot().partial_fit_stream(documents, h, **how)
    assert clf.partial_fit_stream(documents).memory_.state_bytes() == said.memory_.state_bytes()
    assert clf.forget_stream(documents).memory_.state_bytes() == before
    empty = MemoryClassifier(memory=memory, vote="sum").partial_fit_stream(documents, layout=clf)
    assert empty.cutting_ == clf.cutting_
    assert empty.memory_.state_bytes() == before


def test_losses_count_beginnings_where_they_were_learnt() -> None:
    clf = MemoryClassifier(Suffixes(2), vote=Mixture()).fit_stream(VISITS * 5, h=2, short="pad")
    assert len(clf.log_loss_stream(VISITS)) == sum(map(len, VISITS))
    assert len(clf.log_loss_stream(VISITS, short="drop")) == 3


def test_two_ways_of_cutting_must_be_told_apart() -> None:
    clf = model_of(VISITS, short="pad")
    clf.partial_fit_stream(VISITS, short="drop")
    assert clf.cutting_ is None
    before = clf.memory_.state_bytes()
    with pytest.raises(ValueError, match="does not know how these documents were cut"):
        clf.forget_stream(VISITS[1:2])
    assert clf.memory_.state_bytes() == before
    clf.forget_stream(VISITS, short="drop")
    assert clf.memory_.state_bytes() == model_of(VISITS, short="pad").memory_.state_bytes()


def test_merging_keeps_what_both_know() -> None:
    padded, dropped = model_of(VISITS, short="pad"), model_of(VISITS)
    assert (padded + padded).cutting_ == Cutting("pad")
    assert (padded + padded.empty_like()).cutting_ == (dropped.empty_like() + padded).cutting_ == Cutting("pad")
    assert (padded + dropped).cutting_ is None
    assert (padded + padded - padded).cutting_ == Cutting("pad")
    assert padded.fit(*windows(VISITS, 3)).cutting_ is None  # from nothing
    opened = MemoryClassifier(memory="exact", vote="sum").open(h=3)
    assert opened.partial_fit_stream(VISITS, short="pad").cutting_ == Cutting("pad")


def test_nothing_changes_where_a_stream_is_refused() -> None:
    clf = model_of(VISITS, short="pad")
    with pytest.raises(ValueError, match="others strings"):
        clf.partial_fit_stream([[1, 2, 3, 4, 5, 6]], short="drop")
    with pytest.raises(NotStoredError):
        clf.forget_stream([["never"]])
    assert clf.cutting_ == Cutting("pad")


def test_a_first_stream_must_say_h() -> None:
    with pytest.raises(ValueError, match="say how many tokens"):
        MemoryClassifier().partial_fit_stream(VISITS)


@pytest.mark.parametrize("pad", [None, "(start)", 7, 0.5, -(2**63) + 1, "\N{SNOWMAN}" * 50])
@pytest.mark.parametrize("segments", [0, 2])
def test_files_keep_it(pad: Any, segments: int, tmp_path: Path) -> None:
    clf = model_of([["a", "b"], ["c", "d"]] if isinstance(pad, str) else [[1, 2], [3, 4]], short="pad", pad=pad)
    save(clf, tmp_path / "model", segments=segments)
    again = load(tmp_path / "model")
    assert repr(again.cutting_) == repr(clf.cutting_)
    assert again.predict([clf.classes_[:1].tolist()]).tolist() == clf.predict([clf.classes_[:1].tolist()]).tolist()
    if not segments:
        save(clf.compile(), tmp_path / "predictor")
        assert load(tmp_path / "predictor").cutting_ == clf.cutting_


def test_engines_keep_it(tmp_path: Path) -> None:
    text = tmp_path / "visits.txt"
    text.write_text("\n".join(" ".join(visit) for visit in VISITS))
    for short in ("drop", "pad"):
        here = fit_documents(
            MemoryClassifier(memory=Hashed(), vote="sum"), open_source(text, tokens="words"), 2, short=short
        )
        twin = MemoryClassifier(memory=Hashed(), vote="sum").fit_stream(VISITS, 2, short=short)
        assert here.cutting_ == twin.cutting_ == Cutting(short)
        assert here.memory_.label_counts.tolist() == twin.memory_.label_counts.tolist()


@pytest.mark.parametrize("h", [2, None])
@pytest.mark.parametrize("layout", ["a file", 0, model_of(VISITS).compile()])
def test_a_layout_that_is_no_model_is_named(layout: Any, h: int | None) -> None:
    with pytest.raises(TypeError, match="is not a fitted model"):
        MemoryClassifier().partial_fit_stream(VISITS, h, layout=layout)


@pytest.mark.parametrize("h", [2, None])
def test_a_layout_must_be_fitted(h: int | None) -> None:
    with pytest.raises(NotFittedError):
        MemoryClassifier().partial_fit_stream(VISITS, h, layout=MemoryClassifier())


@pytest.mark.parametrize("row", [[1, 2], [1, 1, 2, 3]])
def test_masked_rows_of_any_length_are_refused(row: list[int]) -> None:
    clf = model_of([[1, 2, 3, 4, 5]], short="pad")
    masked = np.ma.masked_array(row, mask=[False] * (len(row) - 1) + [True])
    for ask in (clf.predict, clf.compile().predict, lambda X: clf.partial_fit(X, [1])):
        with pytest.raises(ValueError, match="masked entries"):
            ask([masked])


def test_empty_positions_have_one_form() -> None:
    said, unsaid = model_of(VISITS, short="pad", pad=NO_TOKEN), model_of(VISITS, short="pad")
    assert said.memory_.state_bytes() == unsaid.memory_.state_bytes()
    assert (said + unsaid).cutting_ == unsaid.cutting_ == said.cutting_ == Cutting("pad")


@pytest.mark.parametrize("edit", ["partial_fit_stream", "forget_stream"])
def test_an_edit_that_queues_is_cut_as_the_model_that_it_finds(edit: str) -> None:
    clf, begun, go_on = model_of(VISITS, short="pad"), threading.Event(), threading.Event()

    def documents() -> Iterator[list[str]]:
        begun.set()
        go_on.wait()
        yield from VISITS * 2

    first = threading.Thread(target=lambda: clf.fit_stream(documents(), 2))
    second = threading.Thread(target=lambda: getattr(clf, edit)(VISITS[1:2]))
    first.start()
    begun.wait()
    second.start()
    second.join(0.2)  # it waits for the first; how long it had, the result must not tell
    go_on.set()
    first.join()
    second.join()
    assert clf.cutting_ == Cutting("drop")
    assert clf.memory_.label_counts.sum() == (8 if edit == "partial_fit_stream" else 4)
