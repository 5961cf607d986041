"""The paper's baselines against their definitions in plain Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import NO_TOKEN
from hammemo.paper.baselines import HammingNeighbors, SuffixBackoff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BASELINES = [SuffixBackoff(), HammingNeighbors()]
every_baseline = pytest.mark.parametrize("baseline", BASELINES, ids=repr)
X = np.array([["a", "b"], ["a", "c"], ["d", "c"], ["d", "e"]])
y = np.array(["no", "no", "yes", "maybe"])


# Few tokens and labels, so that contexts repeat and ties are frequent; "?" is a token no training context holds.
TOKENS = [0, 1, "a", NO_TOKEN]
LABELS = ["no", "yes", "b", "ß"]


@dataclass(frozen=True)
class Task:
    """Training examples, one tuple a context, and queries."""

    contexts: list[tuple[Any, ...]]
    labels: list[str]
    copies: list[int]
    queries: list[tuple[Any, ...]]

    @property
    def classes(self) -> list[str]:
        return sorted({label for label, count in zip(self.labels, self.copies, strict=True) if count})

    def stored(self) -> list[tuple[tuple[Any, ...], str]]:
        """Return every example as often as it occurred, in sequence."""
        rows = zip(self.contexts, self.labels, self.copies, strict=True)
        return [(context, label) for context, label, count in rows for _ in range(count)]


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    h = draw(st.integers(1, 4))
    contexts = st.tuples(*[st.sampled_from(TOKENS)] * h)
    rows = draw(
        st.lists(st.tuples(contexts, st.sampled_from(LABELS), st.integers(0, 3)), min_size=1, max_size=20).filter(
            lambda rows: any(count for _, _, count in rows)
        )
    )
    queries = draw(st.lists(st.tuples(*[st.sampled_from([*TOKENS, "?"])] * h), min_size=1, max_size=5))
    stored, labels, copies = (list(column) for column in zip(*rows, strict=True))
    return Task(stored, labels, copies, queries)


def table(rows: Sequence[tuple[Any, ...]]) -> NDArray[Any]:
    """Return tuples as an array that keeps each token's type."""
    return np.array(rows, dtype=object)


def counts_after_suffix(task: Task, query: tuple[Any, ...], length: int) -> Counter[str]:
    """Return how often each label followed the last `length` tokens of the query, straight from the definition."""
    suffix = query[len(query) - length :]
    if NO_TOKEN in suffix:
        return Counter()
    return Counter(label for context, label in task.stored() if context[len(context) - length :] == suffix)


def backed_off_winner(task: Task, query: tuple[Any, ...], max_length: int) -> str:
    """Return the most frequent label after the longest suffix seen; shorter ones, then the order, settle ties."""
    lengths = range(min(max_length, len(query)), -1, -1)
    length = next(length for length in lengths if counts_after_suffix(task, query, length))
    winners = task.classes
    while length >= 0 and len(winners) > 1:
        counts = counts_after_suffix(task, query, length)
        most = max(counts[label] for label in winners)
        winners = [label for label in winners if counts[label] == most]
        length -= 1
    return winners[0]


def neighbour_votes(task: Task, query: tuple[Any, ...], k: int) -> dict[str, tuple[int, int]]:
    """Return each label's votes and matches among the k nearest, straight from the definition."""
    matches = [sum(s == q != NO_TOKEN for s, q in zip(row, query, strict=True)) for row, _ in task.stored()]
    nearest = sorted(range(len(matches)), key=lambda i: (-matches[i], i))[:k]
    labels = [label for _, label in task.stored()]
    return {
        c: (sum(labels[i] == c for i in nearest), sum(matches[i] for i in nearest if labels[i] == c))
        for c in task.classes
    }


def assert_ranked(scores: NDArray[Any], keys: list[Any]) -> None:
    """Assert that scores compare as their keys do: same order, same ties."""
    for score, key in zip(scores, keys, strict=True):
        for other_score, other_key in zip(scores, keys, strict=True):
            assert (score < other_score) == (key < other_key)


@given(tasks(), st.integers(0, 5))
@settings(deadline=None, max_examples=300)
def test_suffix_backoff_is_its_definition(task: Task, max_length: int) -> None:
    clf = SuffixBackoff(max_length).fit(table(task.contexts), np.array(task.labels), task.copies)
    assert clf.classes_.tolist() == task.classes
    queries = table(task.queries)
    assert clf.predict(queries).tolist() == [backed_off_winner(task, query, max_length) for query in task.queries]
    ranked = clf.top_k(queries, k=9).tolist()
    for query, scores, order in zip(task.queries, clf.class_scores(queries), ranked, strict=True):
        lengths = range(min(max_length, len(query)), -1, -1)
        counts = [counts_after_suffix(task, query, length) for length in lengths]
        keys = [tuple(level[label] for level in counts) for label in task.classes]
        assert_ranked(scores, keys)
        by_key = dict(zip(task.classes, keys, strict=True))
        assert order == sorted(task.classes, key=lambda c: tuple(-count for count in by_key[c]))


@given(tasks(), st.integers(0, 5))
@settings(deadline=None, max_examples=200)
def test_suffix_backoff_with_ties_by_frequency_is_its_definition(task: Task, max_length: int) -> None:
    clf = SuffixBackoff(max_length, ties="frequency").fit(table(task.contexts), np.array(task.labels), task.copies)
    overall = counts_after_suffix(task, (), 0)
    for query, scores in zip(task.queries, clf.class_scores(table(task.queries)), strict=True):
        lengths = range(min(max_length, len(query)), -1, -1)
        counts = next(found for length in lengths if (found := counts_after_suffix(task, query, length)))
        assert_ranked(scores, [(counts[label], overall[label]) for label in task.classes])


@given(tasks(), st.integers(1, 12))
@settings(deadline=None, max_examples=200)
def test_hamming_neighbors_with_ties_by_frequency_are_their_definition(task: Task, k: int) -> None:
    clf = HammingNeighbors(k, ties="frequency").fit(table(task.contexts), np.array(task.labels), task.copies)
    overall = counts_after_suffix(task, (), 0)
    for query, scores in zip(task.queries, clf.class_scores(table(task.queries)), strict=True):
        votes = neighbour_votes(task, query, k)
        assert np.floor(scores).tolist() == [votes[label][0] for label in task.classes]
        assert_ranked(scores, [(votes[label][0], overall[label]) for label in task.classes])


@given(tasks(), st.integers(1, 12))
@settings(deadline=None, max_examples=300)
def test_hamming_neighbors_are_their_definition(task: Task, k: int) -> None:
    clf = HammingNeighbors(k).fit(table(task.contexts), np.array(task.labels), task.copies)
    assert clf.classes_.tolist() == task.classes
    ranked = clf.top_k(table(task.queries), k=9).tolist()
    winners = clf.predict(table(task.queries)).tolist()
    for i, (query, scores) in enumerate(zip(task.queries, clf.class_scores(table(task.queries)), strict=True)):
        votes = neighbour_votes(task, query, k)
        assert np.floor(scores).tolist() == [votes[label][0] for label in task.classes]
        assert_ranked(scores, [votes[label] for label in task.classes])
        assert ranked[i] == sorted(task.classes, key=lambda c: (-votes[c][0], -votes[c][1]))
        assert winners[i] == ranked[i][0]


@given(tasks())
@settings(deadline=None, max_examples=50)
def test_multiplicity_is_repetition_in_sequence(task: Task) -> None:
    contexts, labels = (list(column) for column in zip(*task.stored(), strict=True))
    for clf in (SuffixBackoff(), HammingNeighbors(3)):
        counted = clf.fit(table(task.contexts), np.array(task.labels), task.copies).class_scores(table(task.queries))
        repeated = clf.fit(table(contexts), np.array(labels)).class_scores(table(task.queries))
        np.testing.assert_array_equal(counted, repeated)


def test_counts_beyond_what_a_weighted_sum_of_floats_could_order() -> None:
    contexts = [["a", "b"], ["a", "b"], ["c", "b"], ["c", "b"], ["d", "d"]]
    huge = 2**50
    clf = SuffixBackoff().fit(contexts, ["x", "y", "x", "y", "z"], [huge, huge + 1, 1, 1, 2**51])
    assert clf.top_k([["a", "b"], ["c", "b"], ["?", "?"]], k=3).tolist() == [
        ["y", "x", "z"],  # one count in 2^50 more
        ["y", "x", "z"],  # a tie, settled by the shorter suffix
        ["z", "y", "x"],  # no token known: the labels' own counts
    ]
    many = HammingNeighbors(2**20).fit([["a"], ["a"], ["b"]], ["x", "y", "x"], [2**19 - 1, 2**19, 2**40])
    assert np.floor(many.class_scores([["a"]])).tolist() == [[2**19, 2**19]]  # a copy of the last example has room
    assert many.predict([["a"]]).tolist() == ["y"]


def test_the_scores_of_neighbours_close_to_the_limit_still_differ() -> None:
    k = 2**25 - 1  # (k + 1) (k + 1) = 2^50: the next power of two is refused
    clf = HammingNeighbors(k).fit([["a"], ["a"], ["b"]], ["x", "y", "y"], [2**24, 2**24 - 2, 2**24])
    scores = clf.class_scores([["a"]])[0]
    assert np.floor(scores).tolist() == [2**24, 2**24 - 1]
    lead = HammingNeighbors(k).fit([["a"], ["a"], ["b"]], ["x", "y", "x"], [2**24 - 1, 2**24 - 1, 1])
    assert lead.class_scores([["a"]])[0, 0] > lead.class_scores([["a"]])[0, 1]


def test_labels_after_the_longest_suffix_come_first_and_the_rest_by_the_next_shorter() -> None:
    contexts = [["a", "b"], ["c", "b"], ["c", "b"], ["d", "e"], ["d", "e"], ["d", "e"]]
    clf = SuffixBackoff().fit(contexts, ["w", "x", "x", "y", "y", "z"])
    assert clf.top_k([["a", "b"]], k=4).tolist() == [["w", "x", "y", "z"]]
    assert (clf.class_scores([["a", "b"]]) // 4).tolist() == [[2, 1, 0, 0]]


def test_an_empty_position_ends_the_suffix() -> None:
    contexts = np.array([[1, NO_TOKEN, 3], [1, NO_TOKEN, 3], [1, 2, 3], [9, 9, 9], [9, 9, 9]])
    clf = SuffixBackoff().fit(contexts, ["x", "x", "y", "z", "z"])
    assert (clf.class_scores([[1, NO_TOKEN, 3], [1, 2, 3], [1, 2, NO_TOKEN]]) // 3).tolist() == [
        [1, 1, 0],
        [1, 3, 0],
        [0, 0, 0],
    ]
    empty = np.full((2, 3), NO_TOKEN)
    for baseline in BASELINES:
        assert baseline.fit(empty, ["x", "y"]).predict(empty).tolist() == ["x", "x"]


def test_a_query_that_shares_nothing_has_the_first_stored_as_neighbours() -> None:
    clf = HammingNeighbors(2).fit([["a"], ["b"], ["c"], ["d"]], ["z", "z", "m", "m"])
    assert clf.predict([["?"]]).tolist() == ["z"]


@every_baseline
@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 1, 1, 2]),
        np.array(["c", "a", "a", "b"]),
        np.array(["c", "a", "a", "b"], dtype=object),
        np.array([True, False, False, True]),
        [7, 7, 7, 7],
        pd.Series(["c", "a", "a", "b"], dtype="category"),
    ],
    ids=lambda labels: f"{type(labels).__name__}-{getattr(labels, 'dtype', 'list')}",
)
def test_labels_come_back_as_they_went_in(baseline: Any, labels: Any) -> None:
    distinct = np.array([["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]])
    baseline = SuffixBackoff() if isinstance(baseline, SuffixBackoff) else HammingNeighbors(1)
    clf = baseline.fit(distinct, labels)
    expected = np.unique(np.asarray(labels))
    np.testing.assert_array_equal(clf.classes_, expected)
    assert clf.classes_.dtype == expected.dtype
    np.testing.assert_array_equal(clf.predict(distinct), np.asarray(labels))


@every_baseline
def test_frames_lists_and_arrays_are_the_same_contexts(baseline: Any) -> None:
    expected = baseline.fit(X, y).class_scores(X)
    for container in (X.tolist(), X.astype(object), pd.DataFrame(X, columns=["first", "second"])):
        np.testing.assert_array_equal(baseline.fit(container, y).class_scores(container), expected)


@every_baseline
def test_two_labels_have_one_column_of_decisions(baseline: Any) -> None:
    clf = baseline.fit(X, ["no", "no", "yes", "yes"])
    scores = clf.class_scores(X)
    np.testing.assert_array_equal(clf.decision_function(X), scores[:, 1] - scores[:, 0])
    np.testing.assert_array_equal(clf.predict(X) == "yes", clf.decision_function(X) > 0)
    assert baseline.fit(X, y).decision_function(X).shape == (4, 3)


@every_baseline
def test_large_batches_are_answered_in_parts(baseline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clf = baseline.fit(X, y)
    scores, labels, best = clf.class_scores(X), clf.predict(X), clf.top_k(X, 2)
    monkeypatch.setattr("hammemo.paper.baselines._CHUNK_NUMBERS", 4)
    np.testing.assert_array_equal(clf.class_scores(X), scores)
    np.testing.assert_array_equal(clf.predict(X), labels)
    np.testing.assert_array_equal(clf.top_k(X, 2), best)


def test_contexts_of_more_positions_than_a_byte_counts() -> None:
    same, other = np.arange(256), np.r_[0, np.arange(1001, 1256)]  # 256 matches and one
    clf = HammingNeighbors(1).fit([other, same], ["one", "all"])
    assert clf.predict([same]).tolist() == ["all"]


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        (SuffixBackoff(-1), r"max_length=-1: .* whole number from 0"),
        (SuffixBackoff(2.5), r"max_length=2\.5: .* whole number from 0"),  # type: ignore[arg-type]
        (HammingNeighbors(0), r"n_neighbors=0: .* whole number from 1"),
        (HammingNeighbors(True), r"n_neighbors=True: .* whole number from 1"),
        (HammingNeighbors(ties="suffix"), r"ties='suffix' is not known: use 'matches' or 'frequency'"),
        (SuffixBackoff(ties="matches"), r"ties='matches' is not known: use 'suffix' or 'frequency'"),
    ],
    ids=repr,
)
def test_wrong_parameters_are_refused_with_the_way_out(baseline: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        baseline.fit(X, y)


def test_more_neighbours_than_scores_can_tell_apart_are_refused() -> None:
    with pytest.raises(ValueError, match=r"n_neighbors=33554432: with contexts of 2 tokens .* Use fewer neighbours"):
        HammingNeighbors(2**25).fit(X, y, multiplicity=[2**30] * 4)
    assert HammingNeighbors(2**25).fit(X, y).predict(X[:1]).tolist() == ["no"]  # only four are stored


@every_baseline
def test_wrong_examples_are_refused_with_the_way_out(baseline: Any) -> None:
    with pytest.raises(ValueError, match="nothing to learn"):
        baseline.fit(X, y, [0, 0, 0, 0])
    with pytest.raises(ValueError, match=r"whole number, not 0\.5"):
        baseline.fit(X, y, [0.5, 1, 1, 1])
    with pytest.raises(ValueError, match=r"hammemo\.NO_TOKEN"):
        baseline.fit([["a", None]], ["x"])
    with pytest.raises(ValueError, match="at least one"):
        baseline.fit(X, y).top_k(X, k=0)
