"""What a user of the estimators relies on, beside scikit-learn's own checks in test_sklearn.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from hammemo import MeMoClassifier, MemoryClassifier, NotStoredError, windows
from hammemo.kernels import SiteKernel
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.tokens.labels import top_columns
from hammemo.votes import Mean, Sum

pytestmark = pytest.mark.quick

X = np.array([["a", "b"], ["a", "c"], ["d", "c"], ["d", "e"]])
y = np.array(["no", "no", "yes", "maybe"])
MEMORIES = [Exact(), Hashed(buckets=64, reserved=0), Gaussian(d=512)]
every_memory = pytest.mark.parametrize("memory", MEMORIES, ids=repr)


@every_memory
def test_every_container_of_the_same_tokens_gives_the_same_model(memory: Any) -> None:
    expected = MemoryClassifier(memory=memory, vote="sum").fit(X, y).memory_.state_bytes()
    containers = [
        X.astype(object),
        X.tolist(),
        pd.DataFrame(X, columns=["first", "second"]),
        pd.DataFrame(X).astype("category"),
        pl.DataFrame(X.tolist(), schema=["first", "second"], orient="row"),
    ]
    for container in containers:
        clf = MemoryClassifier(memory=memory, vote="sum").fit(container, y)
        assert clf.memory_.state_bytes() == expected
        assert clf.predict(container).tolist() == ["no", "no", "yes", "maybe"]


def test_integers_of_every_width_and_whole_floats_are_the_same_tokens() -> None:
    numbers = np.array([[1, 2], [1, 3], [4, 3]])
    given = MemoryClassifier("positional", memory="hashed", vote="sum")  # a given kernel reads integers as tokens
    expected = given.fit(numbers, [0, 0, 1]).memory_.state_bytes()
    for dtype in (np.int8, np.uint16, np.int32, np.float32, np.float64, object):
        assert (
            MemoryClassifier(memory="hashed", vote="sum", numeric="none")
            .fit(numbers.astype(dtype), [0, 0, 1])
            .memory_.state_bytes()
            == expected
        )
    assert (
        MemoryClassifier(memory="hashed", vote="sum").fit(numbers.astype(str), [0, 0, 1]).memory_.state_bytes()
        != expected
    )


def test_frames_keep_their_column_names_and_mixed_types() -> None:
    frame = pd.DataFrame({"colour": ["red", "blue"], "size": [2**60 + 1, 3], "weight": [0.5, 2.0]})
    clf = MemoryClassifier(memory=Exact(), vote="sum", numeric="none").fit(frame, ["x", "y"])
    assert clf.feature_names_in_.tolist() == ["colour", "size", "weight"]
    assert list(clf.memory_.table().vocabulary) == [2, 3, 2**60 + 1, 0.5, "blue", "red"]


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 1, 1, 2]),
        np.array(["c", "a", "a", "b"]),
        np.array(["c", "a", "a", "b"], dtype=object),
        np.array([True, False, False, True]),
        np.array([2.0, 1.0, 1.0, 3.0]),
        [7, 7, 7, 7],
        pd.Series(["c", "a", "a", "b"], dtype="category"),
    ],
    ids=lambda labels: f"{type(labels).__name__}-{getattr(labels, 'dtype', 'list')}",
)
def test_labels_come_back_as_they_went_in(labels: Any) -> None:
    distinct = np.array([["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]])
    clf = MemoryClassifier(memory="hashed", vote="sum").fit(distinct, labels)
    expected = np.unique(np.asarray(labels))
    np.testing.assert_array_equal(clf.classes_, expected)
    assert clf.classes_.dtype == expected.dtype
    np.testing.assert_array_equal(clf.predict(distinct), np.asarray(labels))


@every_memory
def test_partial_fit_takes_new_tokens_and_labels_at_any_time(memory: Any) -> None:
    grown = MemoryClassifier(memory=memory, vote="sum")
    for context, label in zip(X, y, strict=True):
        grown.partial_fit([context], [label])
    whole = MemoryClassifier(memory=memory, vote="sum").fit(X, y)
    assert list(grown.classes_) == list(whole.classes_) == ["maybe", "no", "yes"]
    np.testing.assert_allclose(grown.class_scores(X), whole.class_scores(X), atol=1e-12)


def test_declared_classes_are_candidates_before_they_have_examples() -> None:
    clf = MemoryClassifier(memory="hashed", vote="sum").partial_fit([[1, 2]], [3], classes=[1, 2, 3])
    assert clf.classes_.tolist() == [1, 2, 3]
    assert clf.class_scores([[1, 2]]).tolist() == [[0.0, 0.0, 1.0]]
    clf.partial_fit([[1, 2]], [9])
    assert clf.classes_.tolist() == [1, 2, 3, 9]
    assert MemoryClassifier(vote="mean").partial_fit([[1]], [3], classes=[1, 3]).class_scores([[1]]).tolist() == [
        [0, 1]
    ]


@every_memory
def test_forget_is_the_inverse_of_partial_fit_labels_included(memory: Any) -> None:
    clf = MemoryClassifier(memory=memory, vote="sum").fit(X, y)
    clf.forget(X[2:], y[2:])
    rest = MemoryClassifier(memory=memory, vote="sum").fit(X[:2], y[:2])
    assert clf.classes_.tolist() == rest.classes_.tolist() == ["no"]
    np.testing.assert_allclose(clf.class_scores(X), rest.class_scores(X), atol=1e-12)
    assert clf.predict(X).tolist() == clf.compile().predict(X).tolist() == ["no"] * 4
    with pytest.raises(NotStoredError):
        clf.forget(X[2:], y[2:])
    clf.partial_fit(X[2:], y[2:]).forget(X, y)
    with pytest.raises(ValueError, match="memory is empty"):
        clf.predict(X)


@every_memory
def test_merged_classifiers_answer_as_one_that_saw_everything(memory: Any) -> None:
    first, second = (
        MemoryClassifier(memory=memory, vote="sum").fit(X[rows], y[rows]) for rows in (slice(0, 2), slice(2, 4))
    )
    whole = MemoryClassifier(memory=memory, vote="sum").fit(X, y)
    assert first.merge(second).classes_.tolist() == whole.classes_.tolist()
    np.testing.assert_allclose(first.class_scores(X), whole.class_scores(X), atol=1e-12)
    assert second.classes_.tolist() == ["maybe", "yes"]
    with pytest.raises(TypeError, match="another MemoryClassifier"):
        first.merge(second.memory_)
    with pytest.raises(ValueError, match="Convert all labels"):
        first.merge(MemoryClassifier(memory=memory, vote="sum").fit(X, [1, 2, 3, 4]))


def test_asking_before_learning_says_so() -> None:
    for ask in ("predict", "top_k", "class_scores", "certify"):
        with pytest.raises(NotFittedError):
            getattr(MemoryClassifier(memory="hashed", vote="sum"), ask)(X)
    assert not hasattr(MemoryClassifier(memory="hashed", vote="sum"), "classes_")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", None, "b", "c"], "y holds None at row 1"),
        (np.array(["a", float("nan"), "b", "c"], object), "y holds nan at row 1"),
        (["a", 1, "b", 2], "numbers like 2, others strings like 'b'"),
        (np.array(["a", 1, "b", 2], object), "numbers like 2, others strings like 'b'"),
    ],
)
def test_labels_that_scikit_learn_would_trip_over_are_refused_with_the_way_out(labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryClassifier(memory="hashed", vote="sum").fit(X, labels)


def test_what_is_refused_changes_nothing() -> None:
    clf = MemoryClassifier("positional", memory="hashed", vote="sum", missing="refuse", numeric="none")
    with pytest.raises(ValueError, match="NaN"):
        clf.partial_fit([[1.0, float("nan")]], ["a"], classes=["a", "b"])
    assert not hasattr(clf, "memory_")
    clf.fit([[1, 2]], ["a"])
    before = clf.memory_.state_bytes()
    for refused in (clf.partial_fit, clf.fit):
        with pytest.raises(ValueError, match="NaN"):
            refused([[1.0, float("nan")]], ["b"])
    assert clf.memory_.state_bytes() == before
    assert clf.classes_.tolist() == ["a"]


def test_partial_fit_with_nothing_to_add_keeps_the_model() -> None:
    clf = MemoryClassifier(memory="hashed", vote="sum").fit(X, y)
    before = clf.memory_.state_bytes()
    assert clf.partial_fit(X, y, sample_weight=np.zeros(4)).memory_.state_bytes() == before


def test_labels_of_another_kind_are_refused_with_the_way_out() -> None:
    clf = MemoryClassifier(memory="hashed", vote="sum").partial_fit([[1, 2]], ["a"])
    before = clf.memory_.state_bytes()
    with pytest.raises(ValueError, match=r"Convert all labels with str\(\)"):
        clf.partial_fit([[1, 2]], [3])
    with pytest.raises(ValueError, match="numbers like 3, others strings like 'a'"):
        clf.partial_fit([[1, 2]], ["b"], classes=[3])
    assert clf.memory_.state_bytes() == before


@every_memory
def test_sample_weight_is_multiplicity(memory: Any) -> None:
    weighted = MemoryClassifier(memory=memory, vote="sum").fit(X, y, sample_weight=[2, 0, 3, 1])
    repeated = MemoryClassifier(memory=memory, vote="sum").fit(
        np.repeat(X, [2, 0, 3, 1], axis=0), np.repeat(y, [2, 0, 3, 1])
    )
    np.testing.assert_allclose(weighted.class_scores(X), repeated.class_scores(X), atol=1e-12)
    with pytest.raises(ValueError, match=r"whole number, not 0\.5"):
        weighted.partial_fit(X, y, sample_weight=[0.5, 1, 1, 1])
    with pytest.raises(ValueError, match="nothing to learn"):
        MemoryClassifier(memory="hashed", vote="sum").fit(X, y, sample_weight=np.zeros(4))


def test_ties_go_to_the_first_label_and_an_unseen_context_ties_all() -> None:
    clf = MemoryClassifier(memory="hashed", vote="sum").fit([["a", "b"], ["a", "b"]], ["z", "m"])
    assert clf.predict([["a", "b"], ["?", "?"]]).tolist() == ["m", "m"]
    assert clf.top_k([["?", "?"]], k=5).tolist() == [["m", "z"]]
    assert clf.decision_function([["a", "b"]]).tolist() == [0.0]


@given(st.lists(st.lists(st.integers(-2, 2), min_size=6, max_size=6), min_size=1, max_size=5), st.integers(1, 8))
@settings(deadline=None)
def test_top_columns_equal_a_stable_sort(scores: list[list[int]], k: int) -> None:
    expected = [sorted(range(6), key=lambda c: (-row[c], c))[:k] for row in scores]
    assert top_columns(np.array(scores, float), k).tolist() == expected


def test_top_k_needs_a_positive_k() -> None:
    with pytest.raises(ValueError, match="at least one"):
        MemoryClassifier(memory="hashed", vote="sum").fit(X, y).top_k(X, k=0)


def test_the_mean_vote_divides_by_class_size() -> None:
    total, mean = (MemoryClassifier(vote=vote).fit(X, y) for vote in (Sum(), Mean()))
    np.testing.assert_array_equal(mean.class_scores(X), total.class_scores(X) / [1, 2, 1])
    np.testing.assert_array_equal(mean.compile().class_scores(X), mean.class_scores(X))
    assert MemoryClassifier(vote="mean").fit(X, y).predict(X).tolist() == mean.predict(X).tolist()


def test_large_batches_are_answered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    clf = MemoryClassifier(memory="hashed", vote="sum").fit(X, y)
    whole_scores, whole_labels = clf.class_scores(X), clf.predict(X)
    monkeypatch.setattr("hammemo._arrays.integers._PIECE_NUMBERS", 4)
    np.testing.assert_array_equal(clf.class_scores(X), whole_scores)
    np.testing.assert_array_equal(clf.predict(X), whole_labels)


@every_memory
def test_a_predictor_answers_as_the_classifier_does(memory: Any) -> None:
    clf = MemoryClassifier(memory=memory, vote="sum").fit(X, y)
    predictor = clf.compile()
    assert predictor.predict(X).tolist() == clf.predict(X).tolist()
    assert predictor.top_k(X, 2).tolist() == clf.top_k(X, 2).tolist()
    assert [predictor(context) for context in X] == clf.predict(X).tolist()
    assert predictor.predict(np.empty((0, 2), object)).tolist() == []
    assert predictor.class_scores(np.empty((0, 2), object)).shape == (0, 3)
    with pytest.raises(ValueError, match="X has 3 features, but Predictor is expecting 2"):
        predictor(["a", "b", "c"])
    before = predictor.class_scores(X).copy()
    clf.partial_fit(X, ["new"] * 4)
    np.testing.assert_array_equal(predictor.class_scores(X), before)


def test_a_compiled_vocabulary_limits_what_a_dense_table_answers() -> None:
    predictor = MemoryClassifier(memory=Exact(), vote="sum").fit(X, y).compile("dense", vocabulary=["a"])
    assert predictor.tensors()["counts"].shape == (2, 1, 3)
    assert predictor.class_scores([["a", "c"]]).tolist() == [[0.0, 1.0, 0.0]]


def test_memo_is_the_memory_classifier_with_a_gaussian_memory() -> None:
    named = MeMoClassifier(d=64, d_h=8, tied=True, exact=True, random_state=4).fit(X, y)
    spelled = MemoryClassifier(memory=Gaussian(64, 8, tied=True, exact=True), random_state=4, vote="sum").fit(X, y)
    assert named.memory_.state_bytes() == spelled.memory_.state_bytes()


def test_random_state_seeds_the_codes() -> None:
    fits = [MeMoClassifier(d=16, random_state=seed).fit(X, y).memory_.seed for seed in (5, np.int64(5))]
    assert fits == [5, 5]
    drawn = [MeMoClassifier(d=16, random_state=np.random.RandomState(1)).fit(X, y).memory_.seed for _ in range(2)]
    assert drawn[0] == drawn[1]
    fresh = [MeMoClassifier(d=16, random_state=None).fit(X, y).memory_.seed for _ in range(2)]
    assert fresh[0] != fresh[1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"memory": Exact}, "pass an instance"),
        ({"kernel": 7}, "pass an instance"),
        ({"kernel": "hamming"}, "use 'auto', 'positional'"),
        ({"vote": "median"}, "use 'auto', 'sum', 'mean'"),
        ({"vote": 3}, "'auto', 'sum', 'mean'"),
        ({"kernel": SiteKernel([5])}, "positions -2 to 1"),
    ],
)
def test_wrong_parameters_are_refused_with_the_way_out(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        MemoryClassifier(**parameters).fit(X, y)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_missing_tokens_are_refused_with_the_way_out(missing: Any) -> None:
    frame = pd.DataFrame({"a": ["x", missing], "b": ["u", "v"]}, dtype=object)
    with pytest.raises(ValueError, match=r"hammemo\.NO_TOKEN"):
        MemoryClassifier(memory="hashed", vote="sum", missing="refuse").fit(frame, [0, 1])


def test_padded_beginnings_cast_no_vote_without_a_pad_token() -> None:
    contexts, targets = windows([["x", "y"], ["x", "z"]], h=2, short="pad")
    clf = MemoryClassifier(memory="hashed", vote="sum").fit(contexts, targets)
    assert clf.class_scores(contexts[:1]).tolist() == [[0.0, 0.0, 0.0]]
    padded, targets = windows([["x", "y"], ["x", "z"]], h=2, short="pad", pad="<s>")
    assert MemoryClassifier(memory="hashed", vote="sum").fit(padded, targets).predict(padded[:1]).tolist() == ["x"]
