"""Certificates for every input: tokens and tuples that an attacker made to collide, against brute force.

A proof that rests on a 64-bit hash would be wrong here; each test fails where reserved features are known by it alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crafted_tokens import float_like, integer_like, tuples_like
from hammemo import MemoryClassifier
from hammemo.kernels import PositionalHamming, SiteKernel, Suffixes
from hammemo.memories import Hashed, Tiered
from hammemo.memories.hashed.reserved import site_hashes
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.hashing import siphash128, token_hashes
from places import TESTS

SEED = 0
KEY = b"a secret of 16 bytes or more"
MEMORIES: dict[str, Any] = {
    "hashed": Hashed(8, 6),
    "hashed, few": Hashed(2, 1),
    "tiered": Tiered(Hashed(8, 6)),
    "keyed": Hashed(8, 6, key=KEY),
}
VICTIMS: list[Any] = ["admin", "", "ß", 5, -7, 2**40, 0.5, 1e300]
KERNELS = {"positions": PositionalHamming(), "pair": SiteKernel([(0, 1)]), "both": SiteKernel([0, 1, (0, 1)])}


def like(token: Any) -> list[Any]:
    """Return the tokens of another kind that have the hash of this one."""
    twins: list[Any] = [] if isinstance(token, int) else [integer_like(token, SEED)]
    twin = float_like(token, SEED)
    return twins if isinstance(token, float) or twin is None else [*twins, twin]


POOL = [*VICTIMS, *(twin for token in VICTIMS for twin in like(token)), "plain", 3]
rows = st.lists(
    st.tuples(st.sampled_from(POOL), st.sampled_from(POOL), st.sampled_from("abc")), min_size=1, max_size=30
)


def fitted(memory: Any, kernel: Any, X: Any, y: Any) -> MemoryClassifier:
    return MemoryClassifier(kernel, memory, random_state=SEED, vote="sum", numeric="none").fit(X, y)


def object_rows(tuples: Any) -> Any:
    array = np.empty((len(tuples), len(tuples[0])), object)
    for i, row in enumerate(tuples):
        array[i] = row
    return array


def brute_scores(kernel: Any, stored: Any, y: Any, asked: Any, labels: list[str]) -> Any:
    """Return the exact weighted counts by Python's own equality."""
    sites = kernel.resolve(len(stored[0]))
    counts = Counter((k, tuple(row[r] for r in site), label) for row, label in zip(stored, y, strict=True)
                     for k, site in enumerate(sites.positions))  # fmt: skip
    return np.array(
        [
            [sum(counts[k, tuple(row[r] for r in site), c] for k, site in enumerate(sites.positions)) for c in labels]
            for row in asked
        ]
    )


def test_the_pool_holds_collisions_of_every_kind() -> None:
    hashes = Counter(token_hashes(POOL, SEED).tolist())
    assert len([word for word, n in hashes.items() if n > 1]) >= 7
    kinds = {tuple(sorted({type(t).__name__ for t in (token, *like(token))})) for token in VICTIMS if like(token)}
    assert {("float", "int"), ("int", "str")} <= kinds or ("float", "int", "str") in kinds


@pytest.mark.examples(8)
@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("kernel", KERNELS)
@given(stored=rows, asked=rows)
@settings(max_examples=25, deadline=None)
def test_certificates_scores_and_explanations_against_brute_force(
    name: str, kernel: str, stored: Any, asked: Any
) -> None:
    X, y = [row[:2] for row in stored], [row[2] for row in stored]
    queries = X + [row[:2] for row in asked]
    check(fitted(MEMORIES[name], KERNELS[kernel], object_rows(X), y), KERNELS[kernel], X, y, queries)


def check(clf: MemoryClassifier, kernel: Any, X: Any, y: Any, queries: Any) -> None:
    labels = [str(label) for label in clf.classes_]
    exact = brute_scores(kernel, X, y, queries, labels)
    contexts = Contexts(object_rows(queries))
    low, high = clf.memory_.reader().bounds(contexts, clf.sites_.weights)
    assert (low <= exact).all()
    assert (exact <= high).all()
    answers, proven = clf.predict(object_rows(queries)), clf.certify(object_rows(queries))
    winners = np.array(labels)[exact.argmax(axis=1)]
    wrong = proven & (answers != winners)
    assert not wrong.any(), [queries[i] for i in np.flatnonzero(wrong)]
    if isinstance(clf.memory_, Tiered):
        assert (answers == winners).all()
    one = clf.explain(object_rows(queries)[0])
    assert not one.certified or one.labels[0] == winners[0]
    assert one.low is not None
    assert one.high is not None
    told = exact[0][[labels.index(str(label)) for label in one.labels]] / clf.sites_.weights.sum()
    assert (one.low.sum(axis=0) <= told + 1e-9).all()
    assert (told <= one.high.sum(axis=0) + 1e-9).all()


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("kernel", [SiteKernel([(0, 1)]), Suffixes(3), SiteKernel([(0, 2), (1, 2), 2])], ids=repr)
def test_tuples_of_integers_with_one_hash(name: str, kernel: Any) -> None:
    h = 2 if kernel.resolve(3).positions == ((0, 1),) else 3
    rng = np.random.default_rng(0)
    victims = rng.integers(0, 3, (20, h))
    stored, y = [victims], ["a"] * 20
    for site in kernel.resolve(h).positions:
        if len(site) == 1:
            continue
        made = victims.copy()
        beginnings = rng.integers(10, 13, (20, len(site) - 1))
        made[:, list(site)] = tuples_like(victims[:, list(site)], beginnings, site, SEED)
        stored += [made] * 3
        y += ["b"] * 60
    X = np.concatenate(stored)
    clf = fitted(MEMORIES[name], kernel, X, y)
    check(clf, kernel, X.tolist(), y, np.unique(X, axis=0).tolist())
    np.testing.assert_array_equal(clf.predict(X), clf.predict(X.astype(object)))  # integers and ranks, one answer


def test_of_two_tokens_with_one_hash_the_more_frequent_is_reserved() -> None:
    twin = integer_like("admin", SEED)
    X, y = object_rows([("admin",)] * 3 + [(twin,)] * 10), ["good"] * 3 + ["evil"] * 10
    clf = fitted(Hashed(64, 8), None, X, y)
    assert clf.certify(object_rows([(twin,)])).tolist() == [True]
    assert clf.predict(object_rows([("admin",)])).tolist() == ["good"]
    assert clf.certify(object_rows([("admin",)])).tolist() == [False]
    assert fitted(Tiered(Hashed(64, 8)), None, X, y).predict(object_rows([("admin",)])).tolist() == ["good"]


@given(
    ranks=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=40),
    number=st.integers(0, 6),
)
@settings(max_examples=100)
def test_reserved_pairs_are_those_that_counting_gives(ranks: Any, number: int) -> None:
    """Half of the pairs may be crafted twins of the others; of twins the more frequent one is chosen."""
    pairs = np.array([row[:2] for row in ranks])
    twins = tuples_like(pairs, pairs[:, :1] + 100, (0, 1), SEED)
    stored = np.where(np.array([[row[2]] for row in ranks]), twins, pairs)
    counts = Counter(map(tuple, stored.tolist()))
    hashes = dict(zip(map(tuple, stored.tolist()), pair_hashes(stored).tolist(), strict=True))
    expected: dict[int, int] = {}
    for pair, count in sorted(counts.items(), key=lambda item: (-item[1], hashes[item[0]])):
        expected.setdefault(hashes[pair], count)
    memory = Hashed(4, number).open(SiteKernel([(0, 1)]).resolve(2), seed=SEED)
    memory.add(Examples.of(stored, np.zeros(len(stored), int)))
    assert memory._rows is not None
    assert memory._rows.own(0).tolist() == sorted(list(expected)[:number])
    own = memory.rows(Contexts(stored))[:, 0] < len(memory._rows.own(0))
    for pair in {tuple(row) for row in stored[own].tolist()}:
        assert counts[pair] == expected[hashes[pair]]  # not its less frequent twin


def pair_hashes(pairs: Any) -> Any:
    [(hashes, _)] = site_hashes(Contexts(pairs), SiteKernel([(0, 1)]).resolve(2), SEED, None)
    return hashes


def test_no_string_can_be_read_from_a_state() -> None:
    for key in (None, KEY):
        clf = fitted(Hashed(4, 9, key=key), SiteKernel([0, (0, 1)]), [["a readable word", 777777777]] * 3, [1, 2, 3])
        state = clf.memory_.state_bytes()
        assert b"a readable word" not in state
        assert (777777777).to_bytes(8, "little") not in state


def test_siphash128_gives_the_authors_vector() -> None:
    k0, k1 = (int.from_bytes(bytes(range(i, i + 8)), "little") for i in (0, 8))
    message = np.frombuffer(bytes(range(8)), "<u8").astype(np.uint64)
    halves = siphash128(message, k0, k1)
    assert b"".join(half.tobytes() for half in halves).hex() == "3b62a9ba6258f5610f83e264f31497b4"


def test_the_short_form_of_the_stress_test() -> None:
    done = subprocess.run(
        [sys.executable, TESTS / "stress" / "collisions.py", "--queries", "60000"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("'wrong certificates': 0") == 3
