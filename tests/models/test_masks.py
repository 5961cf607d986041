"""Answers among some labels only: `exclude` and `allow` of `top_k` against all scores, one label at a time."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier
from hammemo.memories import Exact, Hashed
from hammemo.memories.ranker import LabelMask
from hammemo.tasks.labels.masking import ListedLabels, columns_of
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary
from hammemo.votes import Mixture
from mixture_kernels import KERNELS, H

LABELS = st.integers(0, 14)
LIST = st.lists(LABELS, max_size=12)
DOCUMENTS = st.lists(st.lists(st.integers(0, 12), min_size=2, max_size=9), min_size=2, max_size=12)
QUERIES = st.lists(st.lists(LABELS, min_size=1, max_size=9), min_size=1, max_size=5)


def expected(clf: Any, X: Any, k: int, exclude: Any, allow: Any) -> list[list[tuple[Any, float]]]:
    """Return the best k pairs of label and score of each query, by looking at every label."""
    found = []
    for i, scores in enumerate(clf.class_scores(X)):
        out, only = (lists[i] if lists and isinstance(lists[0], list) else lists for lists in (exclude, allow))
        pairs = [
            (label, score)
            for label, score in zip(clf.classes_.tolist(), scores.tolist(), strict=True)
            if label not in (out or []) and (only is None or label in only)
        ]
        found.append(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:k])
    return found


def check(clf: Any, X: Any, k: int, exclude: Any, allow: Any, asked: Any = None) -> None:
    labels, scores = clf.top_k(X, k, exclude=exclude if asked is None else asked, allow=allow, return_scores=True)
    plain = clf.top_k(X, k, exclude=exclude if asked is None else asked, allow=allow)
    assert plain.tolist() == labels.tolist()
    wanted = expected(clf, X, k, exclude, allow)
    assert labels.shape == scores.shape == (len(X), max(map(len, wanted), default=0))
    for row, own, pairs in zip(labels.tolist(), scores.tolist(), wanted, strict=True):
        n = len(pairs)
        assert list(zip(row[:n], own[:n], strict=True)) == pairs
        assert row[n:] == [None] * (len(row) - n)
        assert np.isnan(own[n:]).all()


@pytest.mark.parametrize("kernel", ["all", "suffixes"])
@given(documents=DOCUMENTS, queries=QUERIES, data=st.data(), k=st.integers(1, 20))
@settings(max_examples=40)
def test_masks_of_a_mixture_are_those_of_all_scores(
    kernel: str, documents: Any, queries: Any, data: Any, k: int
) -> None:
    used = KERNELS.get(kernel, next(iter(KERNELS.values())))
    clf = MemoryClassifier(used, Exact(), Mixture(), random_state=0).fit_stream(documents, h=H, short="pad")
    one_each = st.lists(LIST.filter(bool), min_size=len(queries), max_size=len(queries))
    exclude = data.draw(st.none() | LIST | one_each)
    allow = data.draw(st.none() | LIST | one_each)
    check(clf, queries, k, exclude, allow)
    check(clf, queries, k, queries, allow, asked="seen")  # all of a query, not only the last h


@pytest.mark.parametrize("memory", [Exact(), Hashed(64)], ids=["exact", "hashed"])
@pytest.mark.parametrize("vote", ["sum", "mean"])
def test_masks_of_other_votes(memory: Any, vote: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 9, (200, 3)), rng.integers(0, 12, 200)
    clf = MemoryClassifier(memory=memory, vote=vote, random_state=0).fit(X, y)
    rows = rng.integers(0, 9, (7, 3)).tolist()
    for exclude in (None, [], [3], list(range(12)), [[i] for i in range(7)], rows):
        for allow in (None, [], [1, 5, 99], [[i, i + 1] for i in range(7)]):
            check(clf, rows, 4, exclude, allow)
    assert clf.top_k(rows, 3, exclude="seen").tolist() == clf.top_k(rows, 3, exclude=rows).tolist()
    assert clf.top_k(rows, 3, exclude={1, 2}).tolist() == clf.top_k(rows, 3, exclude=np.array([2, 1])).tolist()


def test_strings_and_labels_that_nobody_learnt() -> None:
    clf = MemoryClassifier().fit([["a", "b"], ["a", "c"], ["b", "c"]], ["x", "y", "y"])
    assert clf.top_k([["a", "c"]], 2, allow=["x", "new"]).tolist() == [["x"]]
    assert clf.top_k([["a", "c"]], 2, allow=["new"]).shape == (1, 0)
    assert clf.top_k([["a", "c"]], 2, exclude=("y",)).tolist() == [["x"]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"exclude": "bought"}, "exclude='bought'"),
        ({"exclude": 7}, "exclude=7"),
        ({"allow": "seen"}, "allow='seen'"),
        ({"allow": [["x"]]}, "1 lists or labels for 2 queries"),
        ({"exclude": [["x"], "y"]}, "2 lists or labels for 2 queries"),
    ],
)
def test_what_is_no_list_is_refused(wrong: Any, message: str) -> None:
    clf = MemoryClassifier().fit([["a", "b"], ["a", "c"], ["b", "c"]], ["x", "y", "y"])
    with pytest.raises(ValueError, match=message):
        clf.top_k([["a", "c"], ["a", "b"]], 2, **wrong)


@given(st.integers(1, 6), st.integers(0, 5), st.booleans(), st.data())
def test_a_mask_of_some_contexts_is_a_part_of_the_mask(n_labels: int, m: int, allows: bool, data: Any) -> None:
    lists = data.draw(st.lists(st.lists(st.integers(-1, n_labels - 1), max_size=4), min_size=m, max_size=m))
    is_open = np.array(data.draw(st.lists(st.booleans(), min_size=n_labels, max_size=n_labels)))
    starts = np.cumsum([0, *map(len, lists)])
    mask = LabelMask(is_open, starts, np.array([*chain.from_iterable(lists)], np.int64), allows)
    plain = [[is_open[j] and ((j in own) == allows) for j in range(n_labels)] for own in lists]
    assert mask.find_allowed(slice(0, m)).tolist() == plain
    for first in range(m):
        part = slice(first, m)
        assert mask[part].find_allowed(slice(0, m - first)).tolist() == plain[first:]


@given(documents=DOCUMENTS, queries=QUERIES, allow=st.none() | LIST, exclude=st.none() | LIST, k=st.integers(1, 20))
def test_listed_labels_are_their_items(documents: Any, queries: Any, allow: Any, exclude: Any, k: int) -> None:
    clf = MemoryClassifier(random_state=0).fit_stream(documents, h=H, short="pad")
    listed: dict[str, Any] = {
        name: None if items is None else ListedLabels([*items, "no label", 0.5, 2.0**70])
        for name, items in (("allow", allow), ("exclude", exclude))
    }
    wanted = clf.top_k(queries, k, allow=allow, exclude=exclude, return_scores=True)
    for _ in range(2):  # looked up, then known
        found = clf.top_k(queries, k, **listed, return_scores=True)
        for ours, theirs in zip(found, wanted, strict=True):
            assert np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f")
    clf.partial_fit_stream([[13, 14, 13]])  # labels come
    wanted = clf.top_k(queries, k, allow=allow, exclude=exclude)
    assert clf.top_k(queries, k, **listed).tolist() == wanted.tolist()


def test_listed_labels_keep_the_columns_of_few_versions() -> None:
    listed = ListedLabels(["b", 1])
    vocabularies = [Vocabulary.of([1, "a", "b", f"c{number}"]) for number in range(9)]
    for labels in vocabularies:
        assert listed.among(labels).tolist() == [True, False, True, False]
        assert listed.among(labels) is listed.get_cached(labels)
    assert sum(listed.get_cached(labels) is not None for labels in vocabularies) == 4
    with pytest.raises(ValueError, match="not a token"):
        ListedLabels([None])


@given(lists=st.lists(st.lists(st.sampled_from(["a", "b", "z", 1, 2, 9, 2.5, True, np.int8(1), NO_TOKEN]), max_size=6)))
def test_columns_are_found_one_by_one(lists: list[list[Any]]) -> None:
    labels = Vocabulary.of([1, 2, 2.5, "a", "b"])
    place = {token: column for column, token in enumerate(labels)}
    found = [own.tolist() for own in columns_of(labels, lists)] if lists else []
    assert found == [[place.get(token, -1) for token in own] for own in lists]


def test_integers_that_are_too_large_are_refused_in_lists() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        columns_of(Vocabulary.of([1]), [[1, 2**70]])
