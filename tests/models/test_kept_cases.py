"""Kept cases: the same whatever the blocks, additive, bounded; what a stream settles by itself; labels left out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import (
    Bag,
    Exact,
    Hashed,
    Ledgered,
    LogLinear,
    MemoryClassifier,
    Mixture,
    NotStoredError,
    Suffixes,
    load,
    save,
    windows,
)
from hammemo.models.kept import THRESHOLDS
from hammemo.models.kept_cases import PIECE, CaseCutter, KeptCases
from hammemo.tokens.streams import stream_blocks

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = st.lists(st.lists(st.integers(0, 4), max_size=30), max_size=8)


def cases_of(tokens: Any, h: int, **options: Any) -> list[tuple[int, tuple[Any, ...]]]:
    cutter, found = CaseCutter(h), []
    for block in stream_blocks(tokens, h, **options):
        found += list(cutter.cut(block))
    return [(n, tuple(case)) for n, case in [*found, *cutter.finish()]]


@given(documents=DOCUMENTS, h=st.integers(1, 4), size=st.integers(1, 40), short=st.sampled_from(["drop", "pad"]))
@settings(max_examples=150)
def test_cases_do_not_depend_on_blocks(documents: list[list[int]], h: int, size: int, short: Any) -> None:
    before = 0 if short == "pad" else h
    expected = [(before, tuple(document)) for document in documents if len(document) > before]
    assert cases_of(documents, h, short=short, block_tokens=size) == expected
    flat = np.array([token for document in documents for token in document], np.int64)
    starts = np.cumsum([0, *map(len, documents)])[:-1]
    assert cases_of(flat, h, starts=starts, short=short, block_tokens=size) == expected


@pytest.mark.parametrize("length", [PIECE + 2, PIECE + 3, 3 * PIECE + 7])
@pytest.mark.parametrize("block", [100, 5000, 2**18])
def test_long_documents_are_cut_into_pieces(length: int, block: int) -> None:
    tokens = np.arange(length)
    cases = cases_of(tokens, 2, block_tokens=block)
    assert [case[0] for case in cases] == [2] * len(cases)
    assert [token for _, case in cases for token in case[2:]] == list(range(2, length))
    assert all(len(case) <= PIECE + 2 for _, case in cases)
    assert len(cases) == -(-(length - 2) // PIECE)


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=60), st.integers(1, 40))
@settings(max_examples=60)
def test_what_is_kept_depends_on_what_is_stored_only(edits: list[tuple[int, bool]], most: int) -> None:
    documents = [(0, [k, k + 1, *range(k % 5)]) for k in range(31)]
    kept: KeptCases | None = KeptCases(h=2, seed=3, most=10**6)
    stored: Counter[int] = Counter()
    for k, forget in edits:
        assert kept is not None
        if forget and stored[k]:
            stored[k] -= 1
            kept = kept.with_some([documents[k]], -1)
        elif not forget:
            stored[k] += 1
            kept = kept.with_some([documents[k]])
    fresh = KeptCases(h=2, seed=3, most=10**6).with_some([documents[k] for k in stored.elements()])
    assert kept is not None
    assert fresh is not None
    assert kept.ledger.counts() == fresh.ledger.counts()
    assert kept.n_examples == fresh.n_examples == sum(len(documents[k][1]) for k in stored if stored[k])
    cut = KeptCases(h=2, seed=3, most=most).with_some([documents[k] for k in stored.elements()])
    assert cut is not None
    assert cut.n_examples <= most or cut.threshold == min(t for t in THRESHOLDS if t > min(cut.ledger.counts())[0])
    assert set(cut.ledger.counts()) == {case for case in fresh.ledger.counts() if case[0] < cut.threshold}


def test_a_document_of_one_token_is_forgotten_and_the_sample_stays() -> None:
    documents: list[tuple[int, list[Any]]] = [(0, [k, k + 1, k + 2]) for k in range(50)] + [(0, [k]) for k in range(50)]
    kept = KeptCases(h=2, seed=0, most=60).with_some(documents)
    assert kept is not None
    above = [case for case in documents[50:] if kept._case(*case)[0] >= kept.threshold]
    assert above
    again = kept.with_some(above[:1], -1)
    assert again is not None
    assert again.ledger.counts() == kept.ledger.counts()


def test_never_kept_is_refused_by_none() -> None:
    kept = KeptCases(h=2, seed=0, most=10).with_some([(0, ["a", "b"])])
    assert kept is not None
    assert kept.with_some([(0, ["a", "c"])], -1) is None


def test_streams_settle_by_their_labels_and_the_length_of_documents() -> None:
    rng = np.random.default_rng(0)
    few = MemoryClassifier().fit_stream(rng.integers(0, 20, (200, 8)).tolist(), h=4)
    assert isinstance(few.vote_, LogLinear)
    sessions = rng.integers(0, 400, (400, 8)).tolist()
    many = MemoryClassifier().fit_stream(sessions, h=4, short="pad")
    assert isinstance(many.vote_, Mixture)
    assert [site.kind for site in many.sites_.free] == ["bag", "together", "copy"]
    shown = str(many.report())
    assert "short documents" in shown
    assert "bag of 4, together of 4, copy of 4" in shown
    assert "examples of whole cases)" in shown
    text = MemoryClassifier().fit_stream(rng.integers(0, 400, 4000), h=4)
    assert [site.kind for site in text.sites_.free] == ["recent"]
    assert isinstance(MemoryClassifier(memory=Hashed()).fit_stream(sessions, h=4).vote_, LogLinear)
    given_vote = MemoryClassifier(vote="sum").fit_stream(sessions, h=4)
    assert not given_vote.sites_.free
    shard = MemoryClassifier().partial_fit_stream(sessions[:9], h=4, short="pad", layout=many)
    assert (many + shard).memory_.label_counts.sum() == 409 * 8


def test_labels_that_are_left_out() -> None:
    sessions = np.random.default_rng(1).integers(0, 30, (100, 6)).tolist()
    clf = MemoryClassifier(Suffixes(2), Exact(), Mixture()).fit_stream(sessions, h=3, short="pad")
    X = np.array([session[:3] for session in sessions[:20]])
    best = clf.top_k(X, k=30)
    unseen = clf.top_k(X, k=5, exclude="seen")
    banned = clf.top_k(X, k=5, exclude=[3, 7, 99])
    for row, order, first, second in zip(X.tolist(), best.tolist(), unseen.tolist(), banned.tolist(), strict=True):
        assert first == [label for label in order if label not in row][:5]
        assert second == [label for label in order if label not in (3, 7)][:5]
    with pytest.raises(ValueError, match="exclude='bought'"):
        clf.top_k(X, exclude="bought")
    assert clf.top_k(X, k=50, exclude=list(range(29))).shape == (20, 1)


VISITS = [["tea", "cup", "pot"], ["pen", "ink"], ["tea", "pot"]]


@pytest.mark.parametrize(
    "never",
    [
        [["tea", "cup"]],
        [["tea"]],
        [["cup", "pot"]],
        [["tea", "pot"]] * 4,
        [["pen", "ink"], ["tea"]],
        [VISITS[1] + VISITS[2]],
    ],
    ids=str,
)
def test_a_document_that_was_not_learnt_whole_is_refused(never: list[list[str]]) -> None:
    shop = MemoryClassifier(Suffixes(1) + Bag(3), vote=Mixture()).fit_stream(VISITS * 3, h=3, short="pad")
    before, kept = shop.memory_.state_bytes(), shop._kept
    with pytest.raises(NotStoredError):
        shop.forget_stream(never)
    assert shop.memory_.state_bytes() == before
    assert shop._kept is kept
    assert shop.forget_stream(VISITS * 3).refit().memory_.label_counts.sum() == 0


def test_after_single_examples_were_forgotten_refit_says_why() -> None:
    shop = MemoryClassifier(Suffixes(1), vote=Mixture(sample=3)).fit_stream(VISITS * 3, h=3, short="pad")
    shop.forget(*windows(VISITS[:2], 3, short="pad"))
    with pytest.raises(ValueError, match="single examples were forgotten"):
        shop.refit()


BITS = [[True, False, True, True], [False, True, False]] * 30


@pytest.mark.parametrize("kind", [np.array, list, lambda bits: np.array(bits, object)], ids=["NumPy", "list", "object"])
def test_truth_values_in_streams_are_the_whole_numbers_that_they_are_in_tables(kind: Any, tmp_path: Path) -> None:
    clf = MemoryClassifier(Suffixes(1), vote=Mixture()).fit_stream([kind(bits) for bits in BITS], h=1)
    numbers = MemoryClassifier(Suffixes(1), vote=Mixture()).fit_stream([list(map(int, bits)) for bits in BITS], h=1)
    assert isinstance(clf._kept, KeptCases)
    assert isinstance(numbers._kept, KeptCases)
    assert clf._kept.ledger.counts() == numbers._kept.ledger.counts()
    assert clf.memory_.state_bytes() == numbers.memory_.state_bytes()
    save(clf, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.predict([[True], [False]]).tolist() == clf.predict([[1], [0]]).tolist() == [False, True]
    assert loaded.forget_stream([[1, 0, 1, 1]]).memory_.label_counts.sum() == clf.memory_.label_counts.sum() - 3
    clf.learn_one([True], False).forget_one([1], 0)
    assert clf.memory_.state_bytes() == numbers.memory_.state_bytes()


@pytest.mark.parametrize("memory", [Exact(), Ledgered(Exact())], ids=repr)
def test_part_of_a_document_beyond_the_sample_is_forgotten_with_a_warning(memory: Any) -> None:
    documents = [[f"{k}-{place}" for place in range(4)] for k in range(60)]  # no token twice
    clf = MemoryClassifier(Suffixes(1), memory, Mixture(sample=40)).fit_stream(documents, h=2, short="pad")
    assert isinstance(clf._kept, KeptCases)
    words = [clf._kept._case(0, document)[0] for document in documents]
    kept, beyond = (
        [d for d, word in zip(documents, words, strict=True) if (word < clf._kept.threshold) == low]
        for low in (True, False)
    )
    assert kept
    clf.forget_stream(kept[:1])  # whole, and kept: no warning
    before = clf.memory_.label_counts.sum()
    with pytest.warns(UserWarning, match="cannot tell whether each was learnt as a whole"):
        clf.forget_stream([beyond[0][:2]])  # its two windows were learnt
    assert clf.memory_.label_counts.sum() == before - 2
    for never in ([beyond[0]], [beyond[1][1:]], [["new"]]):  # windows that are not stored
        with pytest.raises(NotStoredError):
            clf.forget_stream(never)
    assert clf.memory_.label_counts.sum() == before - 2
