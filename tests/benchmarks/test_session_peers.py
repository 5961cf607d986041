"""The peers of sessions against their definitions, spelt out in loops; and what they forget."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions.copying import copying
from sessions.counts import ItemNeighbours, Markov, Popularity
from sessions.linear import Ease
from sessions.neighbours import VSKNN, SessionNeighbours, VMISkNN

if TYPE_CHECKING:
    from sessions.data import Session
    from sessions.learner import Learner

N = 7
SESSION = st.lists(st.integers(0, N - 1), min_size=1, max_size=8)
SESSIONS = st.lists(SESSION, min_size=1, max_size=12)
NEIGHBOURS: list[tuple[type[SessionNeighbours], dict[str, int]]] = [
    (VSKNN, {"m": 4, "k": 2, "again": True}),
    (VSKNN, {"m": 100, "k": 100, "again": False}),
    (VMISkNN, {"m": 4, "k": 2, "last": 2, "again": False}),
    (VMISkNN, {"m": 3, "k": 100, "last": 5, "again": True}),
]


def by_loops(
    kind: type[SessionNeighbours], choice: dict[str, int], sessions: list[Session], prefix: Session
) -> list[float]:
    """Score all items as the papers describe it, looking at every session."""
    is_vmis = kind is VMISkNN
    seen = prefix[-choice["last"] :] if is_vmis else prefix
    distance = {item: seen[::-1].index(item) + 1 for item in seen}
    related = [number for number, session in enumerate(sessions) if set(session) & set(seen)]
    similar = []
    for number in sorted(related)[-choice["m"] :]:
        shared = sorted(distance[item] for item in set(sessions[number]) & set(seen))
        weight = sum((len(seen) - d + 1) / len(set(seen)) for d in shared)
        similar.append((weight, number, shared[0]))
    similar.sort(key=lambda one: (round(one[0], 9), one[1]), reverse=True)
    occurrences = [sum(item in session for session in sessions) for item in range(N)]
    scores = [0.0] * N
    for weight, number, d in similar[: choice["k"]]:
        for item in set(sessions[number]):
            idf = math.log(sum(occurrences) / occurrences[item]) if is_vmis else 1
            scores[item] += weight * (1 - d / 10 if is_vmis else 1 / d) * idf
    if not choice["again"]:
        scores[prefix[-1]] = 0
    return scores


@pytest.mark.parametrize(("kind", "choice"), NEIGHBOURS)
@settings(max_examples=60)
@given(sessions=SESSIONS, prefix=SESSION)
def test_neighbours_are_those_of_a_loop_over_all_sessions(
    kind: type[SessionNeighbours], choice: dict[str, int], sessions: list[Session], prefix: Session
) -> None:
    model = kind("clicks", **choice)
    model.fit(sessions, N)
    np.testing.assert_allclose(model.scores([prefix])[0], by_loops(kind, choice, sessions, prefix), atol=1e-12)


@settings(max_examples=60)
@given(sessions=SESSIONS, prefix=SESSION, shrink=st.sampled_from([0, 3]), last=st.integers(1, 3))
def test_item_neighbours_are_counted_pairs(sessions: list[Session], prefix: Session, shrink: int, last: int) -> None:
    model = ItemNeighbours("clicks", shrink=shrink, last=last)
    model.fit(sessions, N)
    sets = [set(session) for session in sessions]
    size = [max(sum(item in session for session in sets) + shrink, 1) for item in range(N)]
    expected = np.zeros(N)
    seen = prefix[-last:]
    for item in set(seen):
        for other in range(N):
            together = sum(item in session and other in session for session in sets) if other != item else 0
            expected[other] += together / math.sqrt(size[item] * size[other]) / (seen[::-1].index(item) + 1)
    np.testing.assert_allclose(model.scores([prefix])[0], expected, atol=1e-12)


@settings(max_examples=60)
@given(sessions=SESSIONS, prefix=SESSION)
def test_a_chain_counts_what_follows_and_popularity_breaks_ties(sessions: list[Session], prefix: Session) -> None:
    model = Markov("clicks")
    model.fit(sessions, N)
    scores = model.scores([prefix])[0]
    following = [
        sum(pair == (prefix[-1], item) for session in sessions for pair in pairwise(session)) for item in range(N)
    ]
    popular = [sum(session.count(item) for session in sessions) for item in range(N)]
    keys = list(zip(following, popular, strict=True))
    for a in range(N):
        for b in range(N):
            assert (scores[a] > scores[b]) == (keys[a] > keys[b])


FORGETTING: list[tuple[type[Learner], dict[str, int]]] = [
    (Popularity, {}),
    (Markov, {}),
    (ItemNeighbours, {"shrink": 2, "last": 2}),
    *NEIGHBOURS,
]


@pytest.mark.parametrize(("kind", "choice"), FORGETTING)
@settings(max_examples=40)
@given(sessions=st.lists(SESSION, min_size=2, max_size=12), prefix=SESSION, data=st.data())
def test_what_is_forgotten_was_never_learnt(
    kind: type[Learner], choice: dict[str, int], sessions: list[Session], prefix: Session, data: st.DataObject
) -> None:
    gone = data.draw(st.sets(st.integers(0, len(sessions) - 1), max_size=len(sessions) - 1))
    model, rest = kind("clicks", **choice), kind("clicks", **choice)
    model.fit(sessions, N)
    model.scores([prefix])
    for number in gone:
        model.forget(number, sessions[number])
    rest.fit([session for number, session in enumerate(sessions) if number not in gone], N)
    np.testing.assert_array_equal(model.scores([prefix]), rest.scores([prefix]))


@settings(max_examples=40)
@given(sessions=SESSIONS, prefix=SESSION)
def test_a_copy_term_is_mixed_in(sessions: list[Session], prefix: Session) -> None:
    kind = copying(Popularity, {})
    assert kind.name == "popularity + copy"
    model, plain = kind("clicks", copy=0.2), Popularity("clicks")
    for learner in (model, plain):
        learner.fit(sessions, N)
    weights = {item: 1 / (prefix[::-1].index(item) + 1) for item in prefix}
    copy = np.array([weights.get(item, 0) for item in range(N)]) / sum(weights.values())
    shares = plain.scores([prefix])[0] / plain.scores([prefix])[0].sum()
    found = model.scores([prefix])[0]
    np.testing.assert_allclose(found, 0.8 * shares + 0.2 * copy)
    assert found.sum() == pytest.approx(1)


@pytest.mark.slow  # half a minute of torch
def test_a_recurrent_network_learns_a_cycle() -> None:
    pytest.importorskip("torch")
    from sessions.networks import GRU4Rec

    model = GRU4Rec("clicks", width=16, dropout=0.0)
    model.fit([[(start + step) % N for step in range(5)] for start in range(N)] * 150, N)
    assert model.scores([[0, 1], [4]]).argmax(axis=1).tolist() == [2, 5]


@settings(max_examples=30)
@given(sessions=SESSIONS, prefix=SESSION)
def test_ease_is_a_ridge_regression_of_each_item_on_the_others(sessions: list[Session], prefix: Session) -> None:
    held = np.array([[item in session for item in range(N)] for session in sessions], float)
    expected = np.zeros(N)
    nearest = list(dict.fromkeys(prefix[::-1]))
    for item in range(N):
        others = [other for other in range(N) if other != item]
        gram = held[:, others].T @ held[:, others] + 2 * np.eye(N - 1)
        weights = dict(zip(others, np.linalg.solve(gram, held[:, others].T @ held[:, item]), strict=True))
        expected[item] = sum(weights.get(other, 0.0) / math.sqrt(d) for d, other in enumerate(nearest, 1))
    model = Ease("purchases", ridge=2)
    model.fit(sessions, N)
    np.testing.assert_allclose(model.scores([prefix])[0], expected, atol=1e-9)
