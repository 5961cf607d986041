"""The leading labels of a mixture, found by compiled code, are those of all scores: to the bit, ties included."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import NO_TOKEN, MemoryClassifier, _native
from hammemo.kernels import Bag, Copy, Suffixes, Together
from hammemo.memories import Exact
from hammemo.memories.ranker import Ranker
from hammemo.tokens.labels import top_columns
from hammemo.votes import Mixture
from hammemo.votes.mixture.gates import BUCKETS
from hammemo.votes.mixture.ranker import MixtureRanker
from mixture_kernels import KERNELS, H, with_weights

DOCUMENTS = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=9), min_size=2, max_size=12)
QUERIES = st.lists(st.lists(st.integers(-1, 14), min_size=H, max_size=H), min_size=1, max_size=6)
SEEDS = st.integers(0, 2**32 - 1)


def model_of(kernel: Any, documents: Any, seed: int, memory: Any = None) -> Any:
    clf = MemoryClassifier(kernel, memory or Exact(), Mixture()).fit_stream(documents, h=H, short="pad")
    return with_weights(clf, seed)


def ranker_of(clf: Any) -> MixtureRanker:
    ranker = clf.view().scorer.ranker
    assert isinstance(ranker, MixtureRanker)
    return ranker


def check(clf: Any, queries: Any) -> None:
    """Compare with all scores, for every k."""
    X = np.array([[NO_TOKEN if token == -1 else token for token in query] for query in queries])
    assert ranker_of(clf)._leading is not None
    scores = clf.class_scores(X)
    for k in range(1, len(clf.classes_) + 2):
        found = clf.top_k(X, k)
        assert found.tolist() == clf.classes_[top_columns(scores, min(k, scores.shape[1]))].tolist()
    assert clf.predict(X).tolist() == clf.classes_[scores.argmax(axis=1)].tolist()


@pytest.mark.parametrize("kernel", KERNELS)
@given(documents=DOCUMENTS, queries=QUERIES, seed=SEEDS)
@settings(max_examples=10)
def test_leaders_are_those_of_all_scores(kernel: str, documents: Any, queries: Any, seed: int) -> None:
    check(model_of(KERNELS[kernel], documents, seed, Exact()), queries)


@given(documents=DOCUMENTS, later=DOCUMENTS, queries=QUERIES, seed=SEEDS)
@settings(max_examples=10)
def test_labels_come_and_go(documents: Any, later: Any, queries: Any, seed: int) -> None:
    clf = model_of(KERNELS["all"], documents, seed)
    check(clf, queries)
    for new in later:
        shifted = [token + 7 for token in new]  # some are new, some are not
        clf.partial_fit_stream([shifted], h=H, short="pad")
        check(clf, queries)
    old = clf.snapshot()
    before = old.top_k(np.array([[1, 2, 3, 4, 5]]), 3).tolist()
    for gone in documents:
        clf.forget_stream([gone], short="pad")
        check(clf, queries)
    assert old.top_k(np.array([[1, 2, 3, 4, 5]]), 3).tolist() == before


@given(documents=DOCUMENTS, queries=QUERIES, seed=SEEDS)
@settings(max_examples=10)
def test_declared_labels_without_examples_are_answered_too(documents: Any, queries: Any, seed: int) -> None:
    clf = MemoryClassifier(KERNELS["all"], Exact(), Mixture())
    clf.fit_stream(documents, h=H, short="pad", classes=list(range(20)))
    with_weights(clf, seed)
    X = np.array([[NO_TOKEN if token == -1 else token for token in query] for query in queries])
    assert clf.top_k(X, 20).tolist() == clf.classes_[top_columns(clf.class_scores(X), 20)].tolist()


def test_more_labels_than_have_a_place_of_their_own() -> None:
    rng = np.random.default_rng(0)
    documents = [*np.arange(70_000).reshape(-1, 10), *rng.integers(0, 300, (500, 10))]
    clf = model_of(Suffixes(2) + Bag(3) + Together(3) + Copy(3), documents, 1)
    X = rng.integers(0, 300, (40, H))
    X[:5] = rng.integers(0, 70_000, (5, H))
    assert ranker_of(clf)._leading is not None
    scores = clf.class_scores(X)
    assert clf.top_k(X, 50).tolist() == clf.classes_[top_columns(scores, 50)].tolist()
    small = model_of(Suffixes(2), documents[-500:], 1)  # the same thread: sums by place again
    assert small.top_k(X[5:], 50).tolist() == small.classes_[top_columns(small.class_scores(X[5:]), 50)].tolist()


def test_all_scores_are_made_where_compiled_code_cannot() -> None:
    documents = np.random.default_rng(0).integers(0, 9, (40, 12)).tolist()
    clf: Any = MemoryClassifier(Suffixes(3), vote=Mixture(continuation=True)).fit_stream(documents, h=H, short="pad")
    X = np.random.default_rng(1).integers(0, 9, (20, H))
    assert ranker_of(clf)._leading is None
    assert clf.top_k(X, 3).tolist() == clf.classes_[top_columns(clf.class_scores(X), 3)].tolist()


def test_one_label_no_token_and_strings() -> None:
    one: Any = MemoryClassifier(Suffixes(1) + Together(2) + Copy(2), vote=Mixture()).fit_stream([[1, 1, 1]] * 5, h=2)
    assert one.top_k([[7, 8], [NO_TOKEN, NO_TOKEN]], 5).tolist() == [[1], [1]]
    words = [["tea", "cup", "pot"], ["cup", "tea", "pot", "tea"], ["pen", "ink", "paper"]] * 5
    clf: Any = MemoryClassifier(Suffixes(2) + Bag(2) + Copy(2), vote=Mixture()).fit_stream(words, h=2, short="pad")
    X = [["tea", "cup"], ["lamp", "ink"], ["cup", "cup"]]
    assert clf.top_k(X, 4).tolist() == clf.classes_[top_columns(clf.class_scores(X), 4)].tolist()


def test_the_plain_way_is_still_there() -> None:
    assert MixtureRanker.scores is not Ranker.scores
    clf = model_of(KERNELS["all"], [[1, 2, 3, 4, 5, 6]] * 3, 0)
    ranker = ranker_of(clf)
    contexts = clf.contexts(np.array([[1, 2, 3, 4, 5]]))
    assert Ranker.leaders(ranker, contexts, 4).tolist() == ranker.leaders(contexts, 4).tolist()


@pytest.mark.slow
def test_a_million_labels_are_learnt_asked_and_forgotten() -> None:
    """What a question makes is of the size of its rows: one score a label for 2,000 questions would be 16 GB."""
    n = 1_000_000
    rng = np.random.default_rng(0)
    documents = rng.permutation(n).reshape(-1, 10)
    clf: Any = MemoryClassifier(Suffixes(2) + Bag(5) + Together(5) + Copy(5), vote=Mixture(sample=2000))
    clf.fit_stream(documents, h=H, short="pad")
    assert len(clf.classes_) == n
    asked = np.ascontiguousarray(documents[:2000, 3 : 3 + H])
    assert ranker_of(clf)._leading is not None
    answers = clf.top_k(asked, 5)
    likely = [set(document) for document in documents[:2000].tolist()]
    assert all(answer[0] in known for answer, known in zip(answers.tolist(), likely, strict=True))
    tracemalloc.start()
    clf.top_k(asked, 5)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 64 * 2**20
    few = asked[:3]
    assert clf.top_k(few, 5).tolist() == clf.classes_[top_columns(clf.class_scores(few), 5)].tolist()
    gone = documents[0].tolist()
    clf.forget_stream([gone], short="pad")
    assert len(clf.classes_) == n - 10
    assert not set(clf.top_k(asked[:1], 50)[0].tolist()) & set(gone)
    clf.partial_fit_stream([gone], h=H, short="pad")
    assert clf.top_k(asked, 5).tolist() == answers.tolist()


def test_crafted_arrays_are_refused_or_read_within_their_bounds() -> None:
    clf = model_of(Suffixes(1) + Bag(2) + Copy(2), [[1, 2, 3, 4, 5, 6]] * 3, 0)
    reader = clf.memory_.reader()
    version, inner, n = reader.rows.live.version, reader.free[0].rows.live, len(reader.labels)
    components = clf.vote_.components(clf.sites_)
    good: dict[str, Any] = {
        "sites": version,
        "columns": np.arange(n),
        "n_labels": n,
        "trust": np.ones((components.n, BUCKETS)),
        "discounts": np.zeros((components.n_tables, 4)),
        "tables": [(inner.version, np.arange(n), np.arange(n))],
        "parts": np.array([[0, 2, int(components.free(0))], [1, 2, int(components.free(1))]]),
    }
    bad: dict[str, Any] = {
        "trust": [np.full_like(good["trust"], np.nan), np.ones((1, BUCKETS)), np.ones((components.n, 3))],
        "discounts": [np.full((components.n_tables, 4), -1.0), np.zeros((1, 4))],
        "tables": [[], [(inner.version, np.arange(n))], [(version, np.arange(n), np.arange(n))]],
        "parts": [
            good["parts"] + [9, 0, 0],
            good["parts"][::-1].copy(),
            good["parts"] + [0, H, 0],
            good["parts"] + [0, 0, 99],
        ],
    }
    for name, values in bad.items():
        for value in values:
            with pytest.raises((ValueError, TypeError)):
                _native.LiveMixture(**{**good, name: value})
    for columns in (np.full(n, 10**15), np.full(n, -7), np.empty(0, np.int64)):
        for labels in (np.full(n, 10**15), np.full(3, -9), np.empty(0, np.int64)):
            crafted = {"columns": columns, "tables": [(inner.version, labels, labels)]}
            ranks = np.array([[0, 1, 10**12, -5, 2]])
            numbers = np.array([[0, 1, 2], [10**13, -(10**13), 2], [2**40, 1, -3]])
            for most_whole in (512, 0):  # by whole rows, and by the threshold algorithm
                out = np.empty((1, n), np.int64)
                mixture = _native.LiveMixture(**{**good, **crafted}, most_whole=most_whole, patience=10**6)
                mixture.leaders(ranks, numbers, out)
                assert ((out >= -1) & (out < n)).all()
    mixture = _native.LiveMixture(**good)
    for ranks, numbers, out in (
        (np.zeros((1, H + 1), np.int64), np.zeros((3, 1), np.int64), np.empty((1, 1), np.int64)),
        (np.zeros((1, H), np.int64), np.zeros((2, 1), np.int64), np.empty((1, 1), np.int64)),
        (np.zeros((1, H), np.int64), np.zeros((3, 1), np.int64), np.empty((2, 1), np.int64)),
        (np.zeros((1, H), np.int64), np.zeros((3, 1), np.int64), np.empty((1, n + 1), np.int64)),
    ):
        with pytest.raises(ValueError, match=r".+"):
            mixture.leaders(ranks, numbers, out)
    ranks, numbers = np.zeros((1, H), np.int64), np.zeros((3, 1), np.int64)
    for mask in (
        {"is_open": np.ones(n + 1, np.uint8)},
        {"starts": np.array([0, 1])},
        {"starts": np.array([0, 5]), "listed": np.zeros(3, np.int64)},
        {"starts": np.array([2, 1]), "listed": np.zeros(3, np.int64)},
        {"starts": np.array([-1, 1]), "listed": np.zeros(3, np.int64)},
        {"starts": np.array([0, 1, 2]), "listed": np.zeros(3, np.int64)},
        {"scores": np.empty((1, 2))},
    ):
        with pytest.raises(ValueError, match=r".+"):
            mixture.leaders(ranks, numbers, np.empty((1, 1), np.int64), **mask)
    out, listed = np.empty((1, n), np.int64), np.array([10**15, -(10**15), -1, 0, 0])
    mixture.leaders(ranks, numbers, out, None, None, np.array([0, 5]), listed, True)
    assert out.tolist() == [[0, *[-1] * (n - 1)]]
