"""The compiled loops against NumPy: every path of this processor gives the same rows, counts, scores and labels."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crafted_tokens import integers_hashed_to
from hammemo import MemoryClassifier
from hammemo._arrays.integers import find_sorted
from hammemo.kernels import PositionalHamming, SiteKernel
from hammemo.memories import Hashed
from hammemo.memories.hashed.layout import RowLayout
from hammemo.memories.hashed.raw_rows import FRACTION_BITS
from hammemo.memories.hashed.readers import HashedTables
from hammemo.memories.hashed.reserved import reserve_nothing, site_groups
from hammemo.memories.hashed.site_counts import Tables
from hammemo.memories.label_counts import Frame
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.hashing import hash_numbers, number_key
from hammemo.tokens.labels import top_columns
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary
from native_cases import (
    KEY,
    LABELS,
    PATHS,
    Case,
    _native,
    cases,
    choose_reserved,
    kernels,
    map_strings,
    random_tokens,
    seeds,
    thorough,
    token_pool,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

INTEGERS = ["small", "small32", "edge", "wide", "int32"]


@given(case=cases(most_buckets=2**24))
@thorough
def test_rows(case: Case) -> None:
    for path in PATHS:
        out = np.full((len(case.contexts), len(case.layout.groups)), 7, np.uint32)
        case.layout.compiled.rows(*case.layout.source(case.contexts), out, path)
        np.testing.assert_array_equal(out, case.rows(), path)
    np.testing.assert_array_equal(case.layout.find_rows(case.contexts), case.layout.rows(case.contexts))


@given(case=cases(), n_labels=st.sampled_from(LABELS), weighted=st.booleans())
@thorough
def test_counts(case: Case, n_labels: int, weighted: bool) -> None:
    m, rng = len(case.contexts), case.rng
    columns = rng.integers(0, n_labels, m).astype(np.int32)
    multiplicity = rng.integers(0, 2**20, m).astype(np.uint32) if weighted else None
    before = rng.integers(0, 9, (case.n_rows + 1, n_labels)).astype(np.uint32)
    expected = before.copy()
    counts = np.ones(m, np.uint32) if multiplicity is None else multiplicity
    np.add.at(expected, (case.rows(), columns[:, None]), counts[:, None])
    for path in PATHS:
        cells = before.copy()
        case.layout.compiled.count(*case.layout.source(case.contexts), columns, multiplicity, cells, path)
        np.testing.assert_array_equal(cells, expected, path)


@given(
    sites=kernels(),
    kind=st.sampled_from(["small", "small32", "edge", "wide", "strings", "mixed"]),
    seed=seeds,
    length=st.sampled_from([0, 1, 2, 40, 200]),
    key=st.sampled_from([None, KEY]),
    n_reserved=st.sampled_from([0, 9]),
)
@thorough
def test_a_stream_counts_as_its_windows(
    sites: Any, kind: str, seed: int, length: int, key: bytes | None, n_reserved: int
) -> None:
    rng = np.random.default_rng(seed)
    check_stream(random_tokens(kind, (length + sites.h * (length > 1),), rng), sites, key, n_reserved, rng)


@pytest.mark.parametrize("more", [-1, 0, 1, 4097])
@pytest.mark.parametrize("sites", [PositionalHamming().resolve(3), SiteKernel([(0, 2), 1]).resolve(3)])
def test_a_stream_is_cut_into_chunks_without_a_seam(sites: Any, more: int) -> None:
    rng = np.random.default_rng(more + 1)
    check_stream(random_tokens("edge", (4096 + 3 + more,), rng), sites, None, 5, rng)


def check_stream(
    stream: NDArray[Any], sites: Any, key: bytes | None, n_reserved: int, rng: np.random.Generator
) -> None:
    n, n_labels = len(stream), int(rng.integers(1, 20))
    ends = np.arange(sites.h, max(n, sites.h))
    numbers = [n_reserved] * (max(site_groups(sites)) + 1)
    reserved = choose_reserved(stream[ends[:, None] + np.arange(-sites.h, 0)], sites, 1, key, numbers)
    layout = RowLayout(sites, 1, key, 5, reserved)
    tokens, *known = layout.source(Contexts(stream[:, None]))
    columns = rng.integers(-1, n_labels, n).astype(np.int32)
    targets = np.flatnonzero(columns >= 0)
    targets = targets[targets >= sites.h]
    windows = Contexts(stream[targets[:, None] + np.arange(-sites.h, 0)])
    rows = layout.rows(windows)
    expected = np.zeros((layout.first_rows[-1] + 1, n_labels), np.uint32)
    np.add.at(expected, (np.where(rows < 0, -1, rows + layout.first_rows[:-1]), columns[targets][:, None]), 1)
    for path in PATHS:
        streamed, counted = np.zeros_like(expected), np.zeros_like(expected)
        layout.compiled.count_stream(tokens.ravel(), *known, columns, streamed, path)
        layout.compiled.count(*layout.source(windows), columns[targets], None, counted, path)
        np.testing.assert_array_equal(streamed, expected, path)
        np.testing.assert_array_equal(counted, expected, path)


@given(
    kind=st.sampled_from(INTEGERS),
    n=st.sampled_from([0, 1, 7, 8, 9, 100, 5000]),
    key=st.sampled_from([None, KEY]),
    seed=seeds,
    number=st.sampled_from([0, 1, 2, 30, 1000]),
)
@thorough
def test_find(kind: str, n: int, key: bytes | None, seed: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    tokens = random_tokens(kind, (n,), rng)
    known = rng.choice(token_pool(kind, rng), number)
    words = np.unique(hash_numbers(known[known != NO_TOKEN].astype(np.int64).view(np.uint64), 3, key))
    check_find(words, tokens, 3, key)


def check_find(words: NDArray[np.uint64], tokens: NDArray[Any], seed: int, key: bytes | None) -> None:
    wide = tokens.astype(np.int64)
    expected = np.where(wide == NO_TOKEN, -1, find_sorted(words, hash_numbers(wide.view(np.uint64), seed, key)))
    finder = _native.Finder(words, number_key(seed, key), key is not None)
    for path in PATHS:
        found = np.full(len(tokens), 7, np.int32)
        finder.find(tokens, found, path)
        np.testing.assert_array_equal(found, expected, path)


@st.composite
def adversarial_words(draw: st.DrawFn) -> NDArray[np.uint64]:
    """Return words that a perfect hash table dislikes, some of which it cannot hold."""
    n = draw(st.sampled_from([1, 2, 3, 63, 64, 65, 66, 130, 300]))
    start = draw(st.sampled_from([0, 1, 2**32, 2**64 - 1, 0x9E3779B97F4A7C15]))
    step = draw(
        st.sampled_from([1, 2, 2**20, 2**32, 2**40, 2**50, pow(0xD6E8FEB86659FD93, -1, 2**64), 0x9E3779B97F4A7C15])
    )
    words = [(start + i * step) % 2**64 for i in range(n)]
    if draw(st.booleans()):
        words += [0, 2**64 - 1, 2**64 - 2]
    return np.unique(np.array(words, np.uint64))


@given(words=adversarial_words())
@thorough
def test_adversarial_words_are_found_and_nothing_else_is(words: NDArray[np.uint64]) -> None:
    one = np.uint64(1)
    asked = np.unique(np.concatenate([words, words + one, words - one, words ^ np.uint64(2**63), words << one]))
    tokens = integers_hashed_to(asked, seed=3)
    np.testing.assert_array_equal(hash_numbers(tokens.view(np.uint64), 3), asked)
    check_find(words, tokens, 3, None)
    for sites in (PositionalHamming().resolve(1), SiteKernel([1]).resolve(2)):  # with the memo and without
        learnt = np.repeat(integers_hashed_to(words, seed=3)[:, None], sites.h, axis=1)
        layout = RowLayout(sites, 3, None, 4, choose_reserved(learnt, sites, 3, None, [len(words)]))
        contexts = Contexts(np.repeat(tokens[:, None], sites.h, axis=1))
        for path in PATHS:
            out = np.empty((len(tokens), 1), np.uint32)
            layout.compiled.rows(*layout.source(contexts), out, path)
            np.testing.assert_array_equal(out, layout.rows(contexts), path)


def random_tables(case: Case, n_labels: int, size: str) -> HashedTables:
    """Return tables of random rows, whose sums need 16 bits, or 32, or tie often, or are all negative."""
    most = (2**31 - 1) // len(case.layout.groups)
    low, high = {"16": (-99, 99), "16+": (-(2**15) + 1, 2**15 - 1), "32": (-most, most), "ties": (0, 1), "-": (-9, -1)}[
        size
    ]
    frame = Frame(case.layout.sites, Vocabulary(np.arange(n_labels)), np.ones(n_labels, np.int64))
    every = np.arange(n_labels)
    tables = HashedTables(case.layout, Tables((), every), every, frame)
    sizes = np.diff(case.layout.first_rows)
    tables._centred = [case.rng.integers(low, high, (rows, n_labels), np.int64, endpoint=True) for rows in sizes]
    return tables


def compiled(tables: HashedTables, weights: NDArray[np.float64], divisor: NDArray[np.float64] | None, path: str) -> Any:
    dtype = np.int64 if (weights == np.floor(weights)).all() else np.float64
    rows = [weight.astype(dtype) * table for weight, table in zip(weights, tables._centred, strict=True)]
    return _native.Table(tables.layout.compiled, np.concatenate(rows), divisor, 2.0**-FRACTION_BITS, path)


@given(
    case=cases(),
    n_labels=st.sampled_from(LABELS),
    size=st.sampled_from(["16", "16+", "32", "ties", "-"]),
    other=st.sampled_from(["16", "16+", "32", "ties", "-"]),
    whole=st.booleans(),
    divided=st.booleans(),
    share=st.sampled_from([0.0, 0.1, 1.0]),
)
@thorough
def test_a_table_with_other_rows_is_that_of_all_rows(
    case: Case, n_labels: int, size: str, other: str, whole: bool, divided: bool, share: float
) -> None:
    """Where the types of a new table would be others, it is refused: then all rows are needed."""
    kind = np.int64 if whole else np.float64
    before, after = (
        np.concatenate(random_tables(case, n_labels, name)._centred).astype(kind) for name in (size, other)
    )
    rows = np.flatnonzero(case.rng.random(len(before)) < share)
    kept = before.copy()
    kept[rows] = after[rows]
    divisors = [case.rng.integers(1, 9, n_labels).astype(float) if divided else None for _ in range(2)]
    source, m = case.layout.source(case.contexts), len(case.contexts)
    for path in PATHS:
        try:
            table = _native.Table(case.layout.compiled, before, divisors[0], 0.5, path)
            fresh = _native.Table(case.layout.compiled, kept, divisors[1], 0.5, path)
        except OverflowError:
            continue
        try:
            changed = table.replaced(rows, kept[rows], divisors[1])
        except OverflowError:
            assert whole
            assert (table.sum_bits, table.nbytes) != (fresh.sum_bits, fresh.nbytes) or size != other
            continue
        assert (changed.sum_bits, changed.nbytes, changed.path) == (fresh.sum_bits, fresh.nbytes, path)
        answers = []
        for made in (changed, fresh):
            scores, winners = np.empty((m, n_labels)), np.empty(m, np.int32)
            made.scores(*source, scores)
            made.winners(*source, winners)
            answers.append((scores.tobytes(), winners.tobytes()))
        assert answers[0] == answers[1]


def needed_bits(tables: HashedTables, *, divided: bool) -> int:
    """Return the width of sums: of the largest that a label can reach, each row's numbers counted from their middle."""
    totals = np.zeros(len(tables.labels), np.int64)
    for rows in tables._centred:
        middle = np.trunc((rows.min(axis=1) + rows.max(axis=1)) / 2).astype(np.int64)[:, None]
        totals += np.abs(rows - (0 if divided else middle)).max(axis=0)
    return 16 if totals.max() < 2**15 else 32


@given(
    case=cases(),
    n_labels=st.sampled_from(LABELS),
    size=st.sampled_from(["16", "16+", "32", "ties", "-"]),
    whole=st.booleans(),
    divided=st.booleans(),
    k=st.sampled_from([1, 2, 5, 300]),
)
@thorough
def test_tables(case: Case, n_labels: int, size: str, whole: bool, divided: bool, k: int) -> None:
    m, n_sites = len(case.contexts), len(case.layout.groups)
    tables = random_tables(case, n_labels, size)
    weights = np.ones(n_sites) if whole else case.rng.choice([0.1, 0.3, 0.7, 1 / 3], n_sites)
    divisor = case.rng.integers(1, 50, n_labels).astype(float) if divided else None
    plain = tables._sum_rows_in_numpy(tables.layout.rows(case.contexts), weights)
    plain = plain if divisor is None else plain / divisor
    source = case.layout.source(case.contexts)
    for path in PATHS:
        table = compiled(tables, weights, divisor, path)
        assert (table.path, table.sum_bits) == (path, needed_bits(tables, divided=divided) if whole else 64)
        scores, winners = np.full((m, n_labels), np.nan), np.full(m, -7, np.int32)
        leaders = np.full((m, min(k, n_labels)), -7, np.int32)
        table.scores(*source, scores)
        table.winners(*source, winners)
        table.leaders(*source, leaders)
        np.testing.assert_array_equal(scores, plain, path)
        np.testing.assert_array_equal(winners, plain.argmax(axis=1), path)
        np.testing.assert_array_equal(leaders, top_columns(plain, k), path)


@given(
    case=cases(sizes=[1, 2]),
    n_labels=st.sampled_from([1, 17, 64]),
    size=st.sampled_from(["16", "32", "ties"]),
    whole=st.booleans(),
    divided=st.booleans(),
)
@thorough
def test_one_context(case: Case, n_labels: int, size: str, whole: bool, divided: bool) -> None:
    tables, known = random_tables(case, n_labels, size), map_strings(case)
    weights = np.full(len(case.layout.groups), 1.0 if whole else 0.7)
    divisor = case.rng.integers(1, 50, n_labels).astype(float) if divided else None
    plain = tables._sum_rows_in_numpy(tables.layout.rows(case.contexts), weights) / (1 if divisor is None else divisor)
    tokens = np.append(np.array(case.contexts.vocabulary.tolist(), object), NO_TOKEN)
    for path in PATHS:
        table = compiled(tables, weights, divisor, path)
        for ranks, winner in zip(case.contexts.ranks, plain.argmax(axis=1).tolist(), strict=True):
            context = tokens[ranks].tolist()
            simple = all(type(token) in (int, str) for token in context)
            assert table.one(context, known) == (winner if simple else -1)
            assert table.one(tuple(context), known) == (winner if simple else -1)
            assert table.one([*context, 0], known) == -1
            assert table.one([*context[1:], 2**63], known) == -1
            assert table.one([*context[1:], "a stranger"], known) == -1
            assert table.one([*context[1:], True], known) == -1


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["small", "wide", "strings"])
def test_threads_divide_the_work_without_a_seam(path: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    contexts = Contexts(random_tokens(kind, (3 * 4096 + 37, 3), rng))
    layout = RowLayout(sites := PositionalHamming().resolve(3), 0, None, 20, reserve_nothing(sites))
    tables = random_tables(Case(layout, contexts, rng), 17, "16")
    table = compiled(tables, np.ones(3), None, path)
    plain = tables._sum_rows_in_numpy(tables.layout.rows(contexts), np.ones(3))
    for threads in (0, 1, 3, 1000):
        scores, winners = np.full(plain.shape, np.nan), np.full(len(contexts), -7, np.int32)
        leaders = np.full((len(contexts), 3), -7, np.int32)
        table.scores(*layout.source(contexts), scores, threads)
        table.winners(*layout.source(contexts), winners, threads)
        table.leaders(*layout.source(contexts), leaders, threads)
        np.testing.assert_array_equal(scores, plain)
        np.testing.assert_array_equal(winners, plain.argmax(axis=1))
        np.testing.assert_array_equal(leaders, top_columns(plain, 3))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("first", "second", "bits"),
    [
        (2**15 - 1, 0, 16),
        (2**15 - 6, 5, 16),
        (-(2**15) + 1, 0, 16),
        (2**15 - 6, -5, 16),
        (-(2**15), 0, 32),  # fits in 16 bits, but so low only padding may be
        (2**15 - 6, 6, 32),
        (2**15 - 1, 2**15 - 1, 32),
        (2**15, 0, 32),
        (2**31 - 1, 0, 32),
        (-(2**31) + 6, -5, 32),
        (2**31 - 6, 6, None),
        (2**31, 0, None),
        (-(2**31), 0, None),
        (-(2**63), -(2**63), None),
        (2**63 - 1, 2**63 - 1, None),
    ],
)
def test_sums_are_as_wide_as_they_may_have_to_be(path: str, first: int, second: int, bits: int | None) -> None:
    layout = RowLayout(sites := PositionalHamming().resolve(2), 0, None, 1, reserve_nothing(sites))
    values = np.array([[first] * 3, [second] * 3])
    values[1, 2] = 0
    if bits is None:
        with pytest.raises(OverflowError, match="32 bits"):
            _native.Table(layout.compiled, values, np.ones(3), 1.0, path)
        return
    table = _native.Table(layout.compiled, values, np.ones(3), 1.0, path)  # with a divisor rows stay as they are
    tokens = np.array([[1, 2], [1, NO_TOKEN]])
    scores, winners = np.empty((2, 3)), np.empty(2, np.int32)
    table.scores(tokens, None, None, scores)
    table.winners(tokens, None, None, winners)
    expected = np.array([values.sum(axis=0), values[0]])
    assert table.sum_bits == bits
    np.testing.assert_array_equal(scores, expected)
    np.testing.assert_array_equal(winners, expected.argmax(axis=1))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("high", "bits"), [(2**16 - 2, 16), (2**16, 32), (2**31 - 1, 32), (2**31, None)])
def test_a_row_s_numbers_are_counted_from_their_middle(path: str, high: int, bits: int | None) -> None:
    layout = RowLayout(sites := PositionalHamming().resolve(1), 0, None, 1, reserve_nothing(sites))
    values = np.array([[0, high, high // 2]])
    if bits is None:
        with pytest.raises(OverflowError, match="32 bits"):
            _native.Table(layout.compiled, values, None, 1.0, path)
        return
    table, scores, winners = (
        _native.Table(layout.compiled, values, None, 1.0, path),
        np.empty((1, 3)),
        np.empty(1, "i4"),
    )
    table.scores(np.array([[5]]), None, None, scores)
    table.winners(np.array([[5]]), None, None, winners)
    assert (table.sum_bits, scores.tolist(), winners.tolist()) == (bits, values.tolist(), [1])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.7e308])
def test_float_sums_are_finite(path: str, value: float) -> None:
    layout = RowLayout(sites := PositionalHamming().resolve(2), 0, None, 1, reserve_nothing(sites))
    with pytest.raises(OverflowError, match="infinite"):
        _native.Table(layout.compiled, np.array([[1.0, value], [1.0, 1.7e308]]), None, 1.0, path)


@pytest.mark.parametrize(
    ("weights", "count"), [([1, 1], 2**31), ([2**19, 1], 2**20), ([2**19, 2**19], 2**43), ([0.5, 0.5], 2**40)]
)
def test_where_sums_are_too_wide_numpy_answers(weights: list[float], count: int) -> None:
    """With 2^19 and 2^43 the products wrap around to zero in 64 bits."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 9, (60, 2)), rng.integers(0, 5, 60)
    clf = MemoryClassifier(SiteKernel([0, 1], weights), Hashed(buckets=3, reserved=2), random_state=1, vote="sum")
    clf.fit(X, y, np.where(np.arange(60) < 20, count, 1))
    tables: Any = clf.memory_.reader()
    plain = tables._sum_rows_in_numpy(tables.layout.rows(Contexts.of(X)), clf.sites_.weights) / sum(weights)
    assert (not tables._table(clf.sites_.weights, None).is_compiled) == (weights[0] != 0.5)
    np.testing.assert_array_equal(clf.predict(X), plain.argmax(axis=1))
    np.testing.assert_array_equal(clf.top_k(X, 3), top_columns(plain, 3))
    np.testing.assert_array_equal(clf.class_scores(X), plain)
    assert [clf.compile()(row) for row in X.tolist()] == plain.argmax(axis=1).tolist()


def test_equal_quotients_of_unequal_sums_are_ties_everywhere() -> None:
    """0.1 + 0.2 > 0.3, but divided by the sum of the weights they may be equal."""
    choices = [[0.1, 0.2, 0.3, last] for last in np.linspace(0.1, 4, 400).tolist()]
    weights = next(weights for weights in choices if 0.3 / np.sum(weights) == (0.1 + 0.2) / np.sum(weights))
    clf = MemoryClassifier(SiteKernel(range(4), weights), Hashed(2, 9), vote="sum")
    clf.fit([[1, 1, 0, 1], [0, 0, 1, 1]], ["first", "second"])
    assert clf.predict([[0, 0, 0, 0]]).tolist() == ["first"]
    assert clf.compile()([0, 0, 0, 0]) == "first"


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_contexts_may_lie_in_memory_as_they_like(dtype: Any) -> None:
    X, y = np.random.default_rng(0).integers(0, 9, (200, 3)).astype(dtype), np.arange(200) % 7
    expected = MemoryClassifier(memory=Hashed(4, 3), random_state=0, vote="sum").fit(X, y).predict(X).tolist()
    records = np.zeros(200, [("mark", np.int8), ("context", dtype, 3)])
    records["context"] = X
    unaligned = np.ndarray(X.shape, dtype, bytearray(b"." + X.tobytes()), offset=1)
    for other in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], records["context"], unaligned):
        clf = MemoryClassifier(memory=Hashed(4, 3), random_state=0, vote="sum").fit(other, y)
        assert clf.predict(other).tolist() == expected
        assert clf.compile().predict(other).tolist() == expected


def states_and_answers() -> str:
    """Return a digest of what models learn and answer."""
    rng, digest = np.random.default_rng(0), hashlib.sha256()
    for kernel in (None, SiteKernel([0, 2, (0, 1)], [1, 2, 3]), SiteKernel([0, (1, 2)], [0.1, 0.7])):
        for vote in ("sum", "mean"):
            for X in (rng.integers(0, 50, (3000, 3)), rng.integers(0, 50, (3000, 3)).astype(str).astype(object)):
                y, Q = rng.integers(0, 20, 3000), X[rng.integers(0, 3000, (500, 3)), np.arange(3)]
                clf = MemoryClassifier(kernel, Hashed(40, 20), vote, random_state=0).fit(X, y).forget(X[:99], y[:99])
                clf.partial_fit(X[:2], y[:2])
                digest.update(clf.memory_.state_bytes() + clf.class_scores(Q).tobytes())
                digest.update(clf.predict(Q).tobytes() + clf.top_k(Q, 3).tobytes() + clf.certify(Q).tobytes())
                digest.update(bytes(map(clf.compile(), Q[:50].tolist())))
    return digest.hexdigest()


@pytest.mark.filterwarnings("ignore:This model has forgotten examples without digests")
def test_with_more_sites_than_the_loops_take_numpy_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = states_and_answers()
    monkeypatch.setattr("hammemo.memories.hashed.layout._MAX_SITES", 0)
    assert states_and_answers() == expected


def test_without_the_compiled_module_the_import_says_what_to_do() -> None:
    program = "import sys; sys.modules['hammemo._native'] = None; import hammemo"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "ImportError: hammemo's compiled module is missing" in ran.stderr
    assert "a C++17 compiler" in ran.stderr


def test_exceptions_stay_ours_beside_other_packages_made_with_nanobind() -> None:
    """DuckDB translates every std::bad_alloc of the modules in its nanobind domain into an exception of its own."""
    pytest.importorskip("duckdb")
    program = (
        "import duckdb, numpy as np\n"
        "from hammemo import memories, _native\n"
        "from hammemo.kernels import PositionalHamming\n"
        "from hammemo.memories.exact.live.live import Live\n"
        "from hammemo.tokens.contexts import Examples\n"
        "memory = memories.Exact().open(PositionalHamming().resolve(2))\n"
        "memory.add(Examples.of(np.zeros((9, 2), int), np.arange(9)))\n"
        "_native.fail_allocation(0)\n"
        "try:\n"
        "    Live.from_table(memory.signed_sum.total)\n"
        "except MemoryError:\n"
        "    print('MemoryError')\n"
        "_native.fail_allocation(-1)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.strip() == "MemoryError", ran.stderr
