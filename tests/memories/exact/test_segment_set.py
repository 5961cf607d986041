"""Rows read from segments by compiled code: those that NumPy reads, and of crafted segments nothing out of bounds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from contract_checks.batches import examples
from hammemo import NO_TOKEN, _native
from hammemo.files.segment_files import open_segment, write_segment
from hammemo.kernels import SiteKernel
from hammemo.memories.exact.segments.segment import Segment, table_arrays
from hammemo.memories.exact.segments.set import SegmentColumns, SegmentSet, SignedSegment
from hammemo.memories.exact.table import CountTable
from hammemo.tokens.contexts import Examples
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hammemo.kernels.sites import Sites


H = 3
KERNELS = [SiteKernel([0, 1, 2]), SiteKernel([(0, 1, 2), 1, (0, 2)], weights=[0.1, 0.7, 1.3])]
TOKENS = [1, 2, 5, 2.5, "a", "é", NO_TOKEN]
LABELS = ["k", "b", "q", "a", "z", "m", 3]


def table_of(rows: list[tuple[list[Any], Any, int]], sites: Sites) -> CountTable:
    return CountTable.from_examples(examples(rows), sites)


ROW = st.tuples(st.tuples(*[st.sampled_from(TOKENS)] * H).map(list), st.sampled_from(LABELS), st.integers(1, 300))


@settings(max_examples=80, deadline=None)
@given(
    tables=st.lists(st.lists(ROW, min_size=1, max_size=25), min_size=1, max_size=4),
    kernel=st.sampled_from(KERNELS),
    signs=st.lists(st.sampled_from([1, 1, -1]), min_size=4, max_size=4),
    asked=st.lists(st.tuples(*[st.sampled_from([*TOKENS, "new"])] * H), min_size=1, max_size=6),
    kept=st.sets(st.sampled_from(LABELS)),
    extra=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(-3, 300)), max_size=4),
    packed=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_compiled_code_reads_what_numpy_reads(
    tables: list[list[Any]],
    kernel: SiteKernel,
    signs: list[int],
    asked: list[tuple[Any, ...]],
    kept: set[Any],
    extra: list[tuple[int, int, int]],
    packed: list[bool],
) -> None:
    sites = kernel.resolve(H)
    segments = SegmentSet(
        sites,
        [
            SignedSegment(Segment(sites, table_arrays(table_of(rows, sites), packed=small)), sign)
            for rows, sign, small in zip(tables, signs, packed, strict=False)
        ],
    )
    assert segments.is_compiled
    labels = segments.labels if not kept else Vocabulary.of([*kept, "other"])
    columns = segments.columns_in(labels)
    contexts = Examples.of(as_array(asked), ["b"] * len(asked)).contexts
    ranks = contexts.ranks_in(segments.vocabulary)
    expected = np.zeros((len(asked), len(labels)))
    per_site = np.zeros((len(asked), len(sites.positions), len(labels)))
    for k, site in enumerate(sites.positions):
        tuples = ranks[:, list(site)]
        plain, read = segments._add_in_numpy(k, tuples, columns), segments.site_rows(k, tuples, columns)
        assert plain.lengths.tolist() == read.lengths.tolist()
        assert plain.labels.tolist() == read.labels.tolist()
        assert plain.counts.tolist() == read.counts.tolist()
        unsigned = np.zeros((len(asked), len(labels)), np.int64)
        for segment, sign, _ in segments.segments:
            alone = SegmentSet(sites, [SignedSegment(segment, 1)])
            own = alone._add_in_numpy(k, contexts.ranks_in(alone.vocabulary)[:, list(site)], alone.columns_in(labels))
            np.add.at(unsigned, (np.repeat(np.arange(len(asked)), own.lengths), own.labels), sign * own.counts)
        per_site[:, k] = unsigned
    starts = np.zeros(len(asked) * len(sites.positions) + 1, np.int64)
    on_top = sorted((k, c % len(labels), n) for k, c, n in extra)  # for the first context
    for k, column, count in on_top:
        starts[k + 1 :] += 1
        per_site[0, k, column] += count
    given_extra = (starts, np.array([c for _, c, _ in on_top], np.int64), np.array([n for *_, n in on_top], np.int64))
    for k, weight in enumerate(sites.weights):
        expected += weight * np.maximum(per_site[:, k], 0)
    weights = np.ascontiguousarray(sites.weights, np.float64)
    np.testing.assert_array_equal(segments.sums(ranks, weights, [given_extra], columns), expected)
    for divisor in (np.array([7.0]), np.arange(1.0, len(labels) + 1)):
        found = segments.winners(ranks, weights, extras=[given_extra], columns=columns, divisor=divisor)
        assert found.tolist() == (expected / divisor).argmax(axis=1).tolist()


def as_array(rows: list[tuple[Any, ...]]) -> np.ndarray[Any, Any]:
    array = np.empty((len(rows), H), object)
    array[:] = rows
    return array


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=25),
    kernel=st.sampled_from(KERNELS),
    asked=st.lists(ROW, min_size=1, max_size=6),
    packed=st.booleans(),
)
def test_counts_of_single_labels(rows: list[Any], kernel: SiteKernel, asked: list[Any], packed: bool) -> None:
    sites = kernel.resolve(H)
    table = table_of(rows, sites)
    segment = SignedSegment(Segment(sites, table_arrays(table, packed=packed)), 1)
    segments = SegmentSet(sites, [segment, segment])
    for tokens, label, _ in asked:
        wanted = table_of([(tokens, label, 1)], sites)
        held = table.counts_at(wanted)
        ranks = Examples.of(as_array([tokens]), [label]).contexts.ranks_in(segments.vocabulary)
        found = segments.counts(ranks, segments.labels.find(Vocabulary.of([label])))
        compared = [k for k, site in enumerate(sites.positions) if all(tokens[p] != NO_TOKEN for p in site)]
        assert found[0, compared].tolist() == (2 * held).tolist()
        assert not np.delete(found[0], compared).any()


@pytest.mark.parametrize("packed", [False, True])
def test_long_rows_are_read_like_short_ones(packed: bool) -> None:
    """Rows of several blocks, some of them full, against the counts themselves."""
    rng = np.random.default_rng(3)
    sites = KERNELS[0].resolve(H)
    X, y = rng.integers(0, 3, (3000, H)), rng.choice([*range(256), *range(1000, 200_000, 1777)], 3000)
    truth: dict[tuple[int, int, int], int] = {}
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        for k, token in enumerate(row):
            truth[k, token, label] = truth.get((k, token, label), 0) + 1
    segment = Segment(sites, table_arrays(CountTable.from_examples(Examples.of(X, y), sites), packed=packed))
    segments = SegmentSet(sites, [SignedSegment(segment, 1)])
    labels = segments.labels.ints.tolist()
    ranks = np.array([[token] * H for token in range(3) for _ in labels])
    wanted = np.tile(np.arange(len(labels)), 3)
    expected = [
        [truth.get((k, rank[0], labels[label]), 0) for k in range(H)] for rank, label in zip(ranks, wanted, strict=True)
    ]
    assert segments.counts(ranks, wanted).tolist() == expected
    for k in range(H):
        starts, stops = segment.spans(k, segment.find(k, ranks[:, [k]]))
        assert segment.counts_of(starts, stops, wanted).tolist() == [row[k] for row in expected]
        assert not segment.counts_of(starts, stops, np.full(len(starts), -1)).any()
    sums = segments.sums(np.array([[0, 1, 2]]), np.ones(H), [], SegmentColumns(None, len(labels)))
    assert sums[0].tolist() == [sum(truth.get((k, k, label), 0) for k in range(H)) for label in labels]


@contextmanager
def suppress_damage() -> Iterator[None]:
    """Let pass an error that names the segment; no other."""
    try:
        yield
    except ValueError as error:
        if "the crafted one is damaged" not in str(error):
            raise


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(["rows.0", "rows.1", "rows.2", "index.0", "index.1", "entries"]),
    kernel=st.sampled_from(KERNELS),
    packed=st.booleans(),
    few=st.booleans(),
)
def test_crafted_segments_are_refused_or_read_within_their_bounds(
    seed: int, name: str, kernel: SiteKernel, packed: bool, few: bool
) -> None:
    """What cannot be is a ValueError; all else stays in the columns. (The sanitizers watch this test too.)"""
    rng = np.random.default_rng(seed)
    sites = kernel.resolve(H)
    X = rng.integers(0, 9, (300, H))
    table = CountTable.from_examples(Examples.of(X, X[:, 0] * 7 % 23), sites)
    arrays = {k: np.array(v) for k, v in table_arrays(table, packed=packed).items()}
    victim = arrays[name].reshape(-1)
    places = rng.integers(0, len(victim), 1 if few else rng.integers(1, 1 + len(victim)))
    victim[places] = rng.integers(0, np.iinfo(victim.dtype).max, len(places), victim.dtype, endpoint=True)
    segments = SegmentSet(sites, [SignedSegment(Segment(sites, arrays, name="the crafted one"), 1)])
    ranks = rng.integers(-1, 9, (40, H))
    weights = np.ones(len(sites.positions))
    columns = SegmentColumns(None, len(segments.labels))
    questions: list[Any] = [
        lambda: segments.winners(ranks, weights, extras=[], columns=columns, divisor=np.ones(1)),
        lambda: segments.sums(ranks, weights, [], columns),
        lambda: segments.counts(ranks, rng.integers(-1, 30, 40)),
        *(
            lambda k=k, site=site: segments.site_rows(k, ranks[:, list(site)], columns)
            for k, site in enumerate(sites.positions)
        ),
    ]
    for ask in questions:
        with suppress_damage():
            found = ask()
            assert not hasattr(found, "labels") or found.labels.max(initial=0) < columns.n
    sound = SegmentSet(
        sites,
        [SignedSegment(Segment(sites, table_arrays(CountTable.from_examples(Examples.of(X, X[:, 0]), sites))), 1)],
    )
    columns = sound.columns_in(sound.labels)
    again = sound.sums(ranks, weights, [], columns)
    plain = np.zeros_like(again)
    for k, site in enumerate(sites.positions):
        own = sound._add_in_numpy(k, ranks[:, list(site)], columns)
        np.add.at(plain, (np.repeat(np.arange(40), own.lengths), own.labels), own.counts)
    np.testing.assert_array_equal(again, plain)  # a question that failed leaves nothing behind


def test_many_threads_open_and_read_one_set(tmp_path: Path) -> None:
    """Segments are prepared, and pages checked, by the thread that needs them first."""
    rng = np.random.default_rng(0)
    sites = KERNELS[0].resolve(H)
    X = rng.integers(0, 60, (4000, H))
    facts = [
        write_segment(
            str(tmp_path / f"segment-{n}.safetensors"),
            table_arrays(CountTable.from_examples(Examples.of(own, own[:, 0]), sites)),
        )
        for n, own in enumerate(np.array_split(X[X[:, 0].argsort()], 4))
    ]
    asked, weights = np.ascontiguousarray(X[:50]), np.ones(H)
    for _ in range(3):
        segments = SegmentSet(sites, [SignedSegment(open_segment(str(tmp_path), one, sites), 1) for one in facts])
        columns = segments.columns_in(segments.labels)
        with ThreadPoolExecutor(4) as threads:
            jobs = [threads.submit(segments.sums, asked, weights, [], columns) for _ in range(4)]
            found = [one.result() for one in jobs]
        plain = np.zeros((50, columns.n))
        for k, site in enumerate(sites.positions):
            own = segments._add_in_numpy(k, asked[:, list(site)], columns)
            np.add.at(plain, (np.repeat(np.arange(50), own.lengths), own.labels), own.counts)
        assert plain.any()
        for one in found:
            np.testing.assert_array_equal(one, plain)


def test_wrong_arguments_are_refused() -> None:
    ends = (np.zeros(1, np.int64), np.full(1, 9), np.ones(1, np.int64))
    make: Any = _native.SegmentTable
    for wrong in ([(3,)], [()], [(0, 1, 2, 0)]):
        with pytest.raises(ValueError, match="a site compares"):
            make(3, wrong, 5, 5, *ends)
    with pytest.raises(ValueError, match="added or subtracted"):
        make(3, [(0,)], 5, 5, *ends[:2], np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="two ends"):
        make(3, [(0,)], 5, 5, ends[0], np.zeros(2, np.int64), ends[2])
    with pytest.raises(ValueError, match="too many"):
        make(3, [(0,)], 2**31, 5, *ends)
    table = make(3, [(0,)], 5, 5, *ends)
    tokens, weights, out = np.zeros((2, 3), np.int64), np.ones(1), np.empty(2, np.int64)
    assert table.winners(tokens, weights, [], None, 5, np.ones(1), out).tolist() == [[0, -1, -1]] * 2
    cases: list[Any] = [
        (tokens[:, :2].copy(), weights, [], None, 5, np.ones(1), out),
        (tokens, np.ones(2), [], None, 5, np.ones(1), out),
        (tokens, weights, [], np.zeros(4, np.int32), 5, np.ones(1), out),
        (tokens, weights, [], None, 0, np.ones(1), out),
        (tokens, weights, [], None, 5, np.ones(2), out),
        (tokens, weights, [], None, 5, np.ones(1), out[:1]),
        (
            tokens,
            weights,
            [(np.array([0, 1, 0]), np.zeros(1, np.int64), np.ones(1, np.int64))],
            None,
            5,
            np.ones(1),
            out,
        ),
        (
            tokens,
            weights,
            [(np.array([0, 1, 2]), np.zeros(1, np.int64), np.ones(1, np.int64))],
            None,
            5,
            np.ones(1),
            out,
        ),
        (tokens, weights, [(np.zeros(2, np.int64),) * 3], None, 5, np.ones(1), out),
    ]
    for case in cases:
        with pytest.raises((ValueError, TypeError)):
            table.winners(*case)
    records, index = np.array([[0, 0], [2**32 - 1, 1]], np.uint32), np.zeros((1, 1), np.uint32)
    right: dict[str, Any] = {
        "number": 0,
        "name": "it",
        "n_own": 5,
        "records": [records],
        "index": [index],
        "blocks": np.array([9], np.uint64),
        "entries": np.array([[0, 1]], np.uint8),
        "widths": np.array([1, 1], np.uint8),
        "ranks": np.arange(5, dtype=np.int32),
        "labels": np.arange(5, dtype=np.int32),
        "file": None,
        "checked": None,
    }
    for name, value in {
        "number": 1,
        "records": [records[:0]],
        "index": [np.zeros((2, 1), np.uint32)],
        "blocks": np.array([0], np.uint64),
        "entries": np.array([[0, 1, 2]], np.uint8),
        "widths": np.array([1, 3], np.uint8),
        "ranks": np.arange(4, dtype=np.int32),
        "file": np.zeros(4096, np.uint8),
    }.items():
        with pytest.raises(ValueError):
            table.prepare(**{**right, name: value})
    with pytest.raises(ValueError, match="outside its file"):
        table.prepare(**{**right, "file": np.zeros(4096, np.uint8), "checked": np.ones(1, np.uint8)})
    table.prepare(**right)
    table.prepare(**right)  # the first one stays
    assert not len(table.winners(tokens, weights, [], None, 5, np.ones(1), out))
    assert out.tolist() == [0, 0]
