"""The live table against the plain one: the same bytes, the same answers, the same refusals, whatever the history."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import threading
from functools import partial
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from contract_checks.batches import examples
from hammemo import NO_TOKEN, NotStoredError, _native, memories
from hammemo.kernels import Bag, PositionalHamming, SiteKernel, Suffixes
from hammemo.memories.exact.live.live_rows import LiveRows
from hammemo.memories.exact.live.numbers import LabelNumbers, Numbers
from hammemo.memories.exact.live.steps import Steps
from hammemo.memories.exact.reader import SparseCounts
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.stream_blocks import stream_blocks
from hammemo.tokens.vocabulary import Vocabulary

H = 4
KERNELS = [
    PositionalHamming(),
    Suffixes(3),
    SiteKernel([(0, 2), (1, 3), (0, 1, 3), 3], weights=[2, 1, 5, 1]),  # steps without counts
    SiteKernel([0, (0, 1), (0, 1, 2, 3)], weights=[0.1, 0.7, 0.0]),  # sums that round, and a site that does not count
]
TOKENS = [0, 1, 2, "a", 0.5, NO_TOKEN]
LABELS = ["k", "b", "q", "a", "z", "m"]


class Exact(memories.Exact):
    """The plain exact memory: tables in stacks, read as a sparse matrix. (Its name is part of the layout.)"""

    def _takes_rows(self, n_examples: int) -> bool:
        return False

    def make_reader(self) -> SparseCounts:
        return SparseCounts(self.signed_sum, self.declared, static=True)


def assert_same(live: memories.Exact, plain: Exact, queries: list[list[Any]]) -> None:
    """Compare bytes, scores and leading labels, for every k."""
    assert live.state_bytes() == plain.state_bytes()
    ours, theirs = live.reader(), plain.reader()
    assert isinstance(ours, SparseCounts)
    assert isinstance(ours.rows, LiveRows)
    assert list(ours.labels) == list(theirs.labels)
    contexts, weights = Contexts.of(as_array(queries)), live.sites.weights
    np.testing.assert_array_equal(ours.scores(contexts, weights), theirs.scores(contexts, weights))
    np.testing.assert_array_equal(ours.site_counts(contexts), theirs.site_counts(contexts))
    np.testing.assert_array_equal(ours.has_seen(contexts.vocabulary), theirs.has_seen(contexts.vocabulary))
    n_labels = len(ours.labels)
    if not n_labels:
        return
    whole = float(live.sites.total_weight)
    np.testing.assert_array_equal(ours.winners(contexts, weights, whole), theirs.winners(contexts, weights, whole))
    for k in {*range(1, min(n_labels, 12) + 1), n_labels}:
        expected = theirs.leaders(contexts, weights, whole, k)
        for options in ({}, {"most_listed": 0}):  # few labels are added up in a list, unless told otherwise
            found = ours.rows._sum_columns(contexts, weights, live.sites.total_weight, k, **options)
            np.testing.assert_array_equal(found, expected)
    single = ours.single(weights, whole)
    assert single is not None
    assert [single(query) for query in queries] == theirs.winners(contexts, weights, whole).tolist()


def make_live(memory: memories.Exact) -> None:
    """Make the live table, as enough questions do."""
    reader = memory.reader()
    assert isinstance(reader, SparseCounts)
    assert isinstance(reader.rows, LiveRows)
    assert reader.rows.live is memory.reader().rows.live  # type: ignore[attr-defined]


def change(memory: memories.Exact, tokens: list[Any], label: Any, by: int) -> None:
    """Add one example this many times or, below zero, take it back."""
    memory.apply_edit(lambda private: private.update_one(tokens, label, by))


def as_array(rows: list[list[Any]]) -> np.ndarray[Any, Any]:
    array = np.empty((len(rows), H), object)
    for i, row in enumerate(rows):
        array[i] = row
    return array


rows = st.tuples(st.lists(st.sampled_from(TOKENS), min_size=H, max_size=H), st.sampled_from(LABELS), st.integers(1, 3))
batches = st.lists(rows, min_size=1, max_size=6)
kinds = st.sampled_from(["add", "remove", "one", "back", "fork", "again", "declare"])
edits = st.lists(st.tuples(kinds, batches), max_size=8)


@pytest.mark.examples(10)
@pytest.mark.parametrize("kernel", KERNELS, ids=["positions", "suffixes", "tuples", "rounding"])
@given(start=batches, history=edits)
@settings(max_examples=40)
def test_every_history_ends_as_in_the_plain_table(kernel: SiteKernel, start: Any, history: Any) -> None:
    live, plain = memories.Exact().open(kernel.resolve(H)), Exact().open(kernel.resolve(H))
    queries = [context for context, _, _ in start]
    for memory in (live, plain):
        memory.add(examples(start))
    kept = []
    for kind, batch in history:
        refused = [outcome(memory, kind, batch) for memory in (live, plain)]
        assert refused[0] == refused[1]
        if kind == "fork":  # two histories from one version: neither sees the other
            kept.append((live.snapshot(), plain.snapshot()))
        if kind == "again":
            live = pickle.loads(pickle.dumps(live))  # noqa: S301  (just written)
        queries += [context for context, _, _ in batch]
        assert live.signed_sum.is_live
        assert_same(live, plain, queries)
    for ours, theirs in kept:
        assert_same(ours, theirs, queries)
        for memory in (ours, theirs):
            memory.add(examples(start))
        assert_same(ours, theirs, queries)


def outcome(memory: memories.Exact, kind: str, batch: Any) -> str:
    """Edit; return the refusal, if there is one."""
    try:
        if kind == "add":
            memory.add(examples(batch))
        elif kind == "remove":
            memory.remove(examples(batch))
        elif kind == "declare":
            memory.declare(Vocabulary.of([label for _, label, _ in batch]))
        else:
            context, label, count = batch[0]
            change(memory, context, label, count if kind != "back" else -count)
    except NotStoredError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kernel", KERNELS, ids=["positions", "suffixes", "tuples", "rounding"])
def test_long_rows_are_edited_and_read_like_the_plain_table(kernel: SiteKernel) -> None:
    """Rows of hundreds of labels have trees; they grow, shrink below the size of a run, and grow again."""
    rng = np.random.default_rng(5)
    X = rng.choice(4, (3000, H), p=[0.7, 0.1, 0.1, 0.1])
    y = rng.zipf(1.3, 3000) % 700
    live, plain = memories.Exact().open(kernel.resolve(H)), Exact().open(kernel.resolve(H))
    for memory in (live, plain):
        memory.add(Examples.of(X[:500], y[:500]))
    stored = list(range(500))
    for step in range(60):
        growing = step % 20 < 12
        chosen = list(range(500 + 40 * step, 540 + 40 * step)) if growing else rng.permutation(stored)[:90].tolist()
        stored = [*stored, *chosen] if growing else [i for i in stored if i not in set(chosen)]
        part = Examples.of(X[chosen], y[chosen])
        for memory in (live, plain):
            (memory.add if growing else memory.remove)(part)
        if step % 6 == 0:
            assert_same(live, plain, X[rng.integers(0, 3000, 5)].tolist())
    assert live.signed_sum.is_live
    assert live.state_bytes() == plain.state_bytes()


def test_counts_beyond_32_bits_and_back() -> None:
    live, plain = memories.Exact().open(KERNELS[1].resolve(H)), Exact().open(KERNELS[1].resolve(H))
    large = 2**32 - 2
    for batch, sign in [
        ([([0, 1, 2, 0], "a", large), ([1, 1, 2, 0], "b", 1)], 1),
        ([([0, 1, 2, 0], "a", 1)], 1),
        ([([0, 1, 2, 0], "a", 5)], 1),  # past the width of a narrow table
        ([([0, 1, 2, 0], "a", 2**50)], 1),
        ([([0, 1, 2, 0], "a", 2**50 + 6)], -1),
    ]:
        for memory in (live, plain):
            (memory.add if sign > 0 else memory.remove)(examples(batch))
            memory.reader()
        assert_same(live, plain, [[0, 1, 2, 0], [1, 1, 2, 0]])
    with pytest.raises(ValueError, match="below 2\\^53"):
        change(live, [0, 1, 2, 0], "a", 2**53 - 1)


late = st.one_of(st.integers(-5, 5), st.sampled_from(["a", "ab", "b", "\ud800", ""]), st.sampled_from([0.5, -1.5]))


@given(labels=st.lists(late, unique=True, max_size=14), n_first=st.integers(0, 6))
@settings(deadline=None)
def test_labels_that_come_late_take_their_place(labels: list[Any], n_first: int) -> None:
    first = Vocabulary.of(labels[:n_first])
    numbers = LabelNumbers(first)
    for label in labels[n_first:]:
        before, after = numbers.neighbours(label)
        known = list(Vocabulary.of([numbers.token(number) for number in range(len(numbers))] + [label]))
        place = known.index(label)
        assert before == (numbers.get(known[place - 1]) if place else -1)
        assert after == (numbers.get(known[place + 1]) if place + 1 < len(known) else -1)
        numbers.insert(label)
    used = np.ones(len(numbers), bool)
    used[1::3] = False
    vocabulary, named = numbers.select(used)
    assert list(vocabulary) == list(Vocabulary.of([numbers.token(int(n)) for n in np.flatnonzero(used)]))
    assert [numbers.token(int(n)) for n in named] == list(vocabulary)


def test_ten_thousand_labels_in_one_place_are_spread_anew() -> None:
    """Each new label comes between the same two: the room between two 64-bit places is used up again and again."""
    live = memories.Exact().open(PositionalHamming().resolve(1))
    live.add(examples([(["t"], "a", 1), (["t"], "z", 1)]))
    names = [f"m{i:05}" for i in range(2000)]
    for name in names:
        change(live, ["t"], name, 1)
    reader = live.reader()
    columns = reader.leaders(Contexts.of([["t"]]), np.ones(1), np.broadcast_to(1.0, (2002,)), 100)[0]
    assert columns.tolist() == list(range(100))  # all counts are equal, so the order is that of the labels
    assert [list(reader.labels)[c] for c in columns[:3]] == ["a", "m00000", "m00001"]


def test_steps_share_what_sites_have_in_common() -> None:
    steps = Steps(KERNELS[2].resolve(H))
    assert [step.positions for step in steps.all] == [(3,), (2,), (0, 2), (1, 3), (0, 1, 3)]
    assert [step.parent for step in steps.all] == [-1, -1, 1, 0, 3]
    assert steps.all[steps.of_sites[2]].positions == (0, 1, 3)


def test_an_edit_that_is_given_up_leaves_no_page_behind() -> None:
    live = memories.Exact().open(Suffixes(3).resolve(H))
    rng = np.random.default_rng(1)
    live.add(Examples.of(rng.integers(0, 9, (500, H)), rng.integers(0, 200, 500)))
    make_live(live)
    version = live.signed_sum.live.version
    pages, before = version.n_pages, live.state_bytes()

    def fails(memory: memories.Exact) -> None:
        memory.update_one([1, 2, 3, 4], 7, 1)
        raise KeyboardInterrupt

    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            live.apply_edit(fails)
        gc.collect()
        assert (version.n_versions, version.n_pages) == (1, pages)
    change(live, [1, 2, 3, 4], 7, 1)
    assert live.signed_sum.live.store is not None
    assert version.n_versions == 2  # `version` holds the one before
    change(live, [1, 2, 3, 4], 7, -1)
    assert live.state_bytes() == before


def test_labels_of_an_edit_that_is_given_up_are_not_those_of_the_next() -> None:
    live = memories.Exact().open(PositionalHamming().resolve(1))
    live.add(examples([(["t"], "a", 1)]))
    make_live(live)

    def fails(memory: memories.Exact) -> None:
        memory.update_one(["t"], "b", 1)
        assert list(memory.labels) == ["a", "b"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        live.apply_edit(fails)
    change(live, ["t"], "c", 1)
    assert list(live.labels) == ["a", "c"]


def test_old_versions_stay_as_they_are_and_are_freed() -> None:
    live = memories.Exact().open(PositionalHamming().resolve(H))
    rng = np.random.default_rng(2)
    X, y = rng.integers(0, 9, (400, H)), rng.integers(0, 150, 400)
    live.add(Examples.of(X, y))
    readers, expected = [], []
    contexts = Contexts.of(X[:50])
    for i in range(200):
        change(live, X[i].tolist(), int(y[i]), 1 if i % 3 else -1)
        if i % 10 == 0:
            readers.append(live.reader())
            expected.append(readers[-1].scores(contexts, live.sites.weights))
    assert live.signed_sum.live.version.n_versions == 21
    for reader, scores in zip(readers, expected, strict=True):
        np.testing.assert_array_equal(reader.scores(contexts, live.sites.weights), scores)
    order = np.random.default_rng(3).permutation(len(readers))
    del reader
    for place in order:
        readers[place] = None  # type: ignore[call-overload]
        gc.collect()
    version = live.signed_sum.live.version
    assert version.n_versions == 1


def test_an_allocation_that_fails_anywhere_changes_nothing() -> None:
    """Every allocation of an edit is made to fail once."""
    rng = np.random.default_rng(4)
    live = memories.Exact().open(Suffixes(2).resolve(H))
    live.add(Examples.of(rng.integers(0, 3, (900, H)), rng.integers(0, 150, 900)))
    make_live(live)
    version = live.signed_sum.live.version
    tried = 0
    for by, label in ((1, 3), (-1, 3), (1, 1000)):
        before = live.state_bytes()
        while True:
            pages = version.n_pages
            _native.fail_allocation(tried % 10_000)
            try:
                change(live, [0, 1, 2, 1], label, by)
            except MemoryError:
                assert (version.n_pages, live.state_bytes()) == (pages, before)
                tried += 1
                continue
            finally:
                _native.fail_allocation(-1)
            break
        version = live.signed_sum.live.version
        assert tried > 5
        tried = 0


def test_many_threads_read_while_one_edits() -> None:
    """Scores add up what one version holds: their sum is the number of its examples times the sites."""
    live = memories.Exact().open(PositionalHamming().resolve(2))
    live.add(Examples.of(np.zeros((100, 2), int), np.arange(100)))
    contexts, stop, wrong = Contexts.of([[0, 0]]), threading.Event(), []

    def ask() -> None:
        while not stop.is_set():
            reader = live.reader()
            total = int(reader.label_counts.sum())
            if int(reader.scores(contexts, np.ones(2)).sum()) != 2 * total:
                wrong.append(total)
            reader.winners(contexts, np.ones(2), np.broadcast_to(1.0, (len(reader.labels),)))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(400):
        change(live, [0, 0], i % 130, 1)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_can_go_on() -> None:
    live = memories.Exact().open(PositionalHamming().resolve(2))
    live.add(Examples.of(np.zeros((100, 2), int), np.arange(100)))
    make_live(live)
    child = os.fork()
    if not child:
        change(live, [0, 0], 5, 1)
        os._exit(0 if live.reader().label_counts[5] == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_copies_share_a_version_and_part_at_the_next_edit() -> None:
    live = memories.Exact().open(PositionalHamming().resolve(2))
    live.add(Examples.of([[0, 1], [1, 1]], ["a", "b"]))
    make_live(live)
    other = copy.deepcopy(live)
    assert other.signed_sum.live is live.signed_sum.live
    change(other, [0, 1], "c", 1)
    change(live, [0, 1], "d", 1)
    assert (list(live.labels), list(other.labels)) == (["a", "b", "d"], ["a", "b", "c"])


def test_numbers_refuse_what_is_not_a_token() -> None:
    numbers = Numbers(Vocabulary.of([1]))
    for value in (None, float("nan"), 2**70, b"x"):
        with pytest.raises((ValueError, TypeError)):
            numbers.give(value)
    assert numbers.give(1.0) == 0
    assert numbers.get(NO_TOKEN) == -1
    assert numbers.give(NO_TOKEN) == -1
    assert len(numbers) == 1


def test_tokens_that_come_and_go_do_not_pile_up() -> None:
    """A stream of ever new tokens, each forgotten soon: what is numbered stays within twice what is used."""
    live = memories.Exact().open(Suffixes(2).resolve(2))
    live.add(Examples.of([[-1, -1]], [0]))
    for i in range(6000):
        change(live, [i, i + 1], i, 1)
        if i >= 20:
            change(live, [i - 20, i - 19], i - 20, -1)
    assert live.signed_sum.is_live
    stored = live.signed_sum.live
    assert len(stored.store.tokens) + len(stored.store.labels) < 5000
    assert stored.version.n_rows < 2500
    fresh = memories.Exact().open(Suffixes(2).resolve(2))
    fresh.add(Examples.of([[-1, -1]] + [[i, i + 1] for i in range(5980, 6000)], [0, *range(5980, 6000)]))
    assert live.state_bytes() == fresh.state_bytes()


def learn_stream(tokens: list[int], chosen: Vocabulary | None, memory: memories.Exact) -> None:
    memory.update_from_blocks(stream_blocks([tokens], 2, short="pad"), chosen)


@pytest.mark.parametrize("kernel", [Suffixes(2), Suffixes(1) + Bag(2)], ids=repr)
@given(
    documents=st.lists(st.lists(st.sampled_from([1, 2, 3, NO_TOKEN]), min_size=1, max_size=6), max_size=24),
    chosen=st.sampled_from([None, Vocabulary.of([1, 3])]),
    large=st.sampled_from([None, 3, 20]),
)
@settings(max_examples=30)
def test_many_small_streams_make_the_table_live(
    kernel: Any, documents: list[list[int]], chosen: Vocabulary | None, large: int | None
) -> None:
    sites = kernel.resolve(2)
    live, plain = memories.Exact().open(sites), Exact().open(sites)
    small = 0
    for number, document in enumerate(documents):
        tokens, small = ([1, 2, 3] * 50, 0) if number == large else (document, small + 1)
        was_live = live.signed_sum.is_live
        for memory in (live, plain):
            memory.apply_edit(partial(learn_stream, tokens, chosen))
        assert live.state_bytes() == plain.state_bytes()
        if number != large and set(tokens) != {NO_TOKEN}:
            assert live.signed_sum.is_live == (was_live or small > 16)
