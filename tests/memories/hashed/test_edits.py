"""Edits of a hashed memory, row by row: after any history a reader has the arrays and the answers of a fresh one."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, NotStoredError, Rolling
from hammemo.kernels import SiteKernel, Suffixes
from hammemo.memories import Hashed
from hammemo.memories.hashed.raw_rows import centre_rows
from hammemo.memories.hashed.site_counts import PAGE_BYTES, PagedRows
from hammemo.memories.label_counts import LabelCounts
from hammemo.memories.row_rules import RowRule
from hammemo.tokens.contexts import MAX_EXAMPLES, Contexts, Examples
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary
from hammemo.votes import LogLinear

pytestmark = pytest.mark.filterwarnings("ignore:This model has forgotten examples without digests")

KERNELS = [None, Suffixes(3), SiteKernel([0, 2, (0, 2)], weights=[1, 2, 3]), SiteKernel([(1, 2), 1], [0.1, 0.7])]
VOTES = ["sum", "mean", LogLinear((1.0, 10.0)), LogLinear(2.0, per_label=False)]
TOKENS = [0, 1, 2, 3, "a", "b", NO_TOKEN]
LABELS = ["l", "m", "a", "z", "c", "x"]

Example = tuple[tuple[Any, ...], str]
contexts = st.tuples(*[st.sampled_from(TOKENS)] * 3)
example = st.tuples(contexts, st.sampled_from(LABELS))
edits = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(example, min_size=1, max_size=1), st.integers(1, 300)),
        st.tuples(st.just("add"), st.lists(example, min_size=2, max_size=6), st.integers(1, 3)),
        st.tuples(st.just("merge"), st.lists(example, min_size=1, max_size=4), st.integers(1, 3)),
        st.tuples(st.just("forget"), st.lists(st.integers(0, 99), min_size=1, max_size=3), st.integers(1, 2)),
        st.tuples(st.just("unmerge"), st.lists(st.integers(0, 99), min_size=1, max_size=3), st.integers(1, 2)),
        st.tuples(st.just("ask"), st.lists(example, min_size=1, max_size=3), st.just(1)),
        st.tuples(st.just("compile"), st.lists(example, min_size=1, max_size=1), st.just(1)),
    ),
    min_size=1,
    max_size=10,
)
randomly = settings(max_examples=40, deadline=None)


def table_of(rows: list[Example]) -> tuple[np.ndarray[Any, Any], list[str]]:
    X = np.empty((len(rows), 3), object)
    for i, (tokens, _) in enumerate(rows):
        X[i] = tokens
    return X, [label for _, label in rows]


def carried_out(model: MemoryClassifier, history: Any, held: Counter[Example], *, unmerging: bool = True) -> None:
    """Carry edits out, keep what is held beside, and ask in between, so that caches are there to go stale."""
    for kind, given_rows, times in history:
        rows = given_rows
        if kind in ("forget", "unmerge"):
            stored = sorted(held.elements(), key=repr)
            rows = list({i % len(stored): stored[i % len(stored)] for i in given_rows}.values())
            times = 1
            if len(rows) >= len(stored) or (kind == "unmerge" and not unmerging):
                continue
        X, y = table_of(rows)
        weights = [times] * len(rows)
        if kind in ("ask", "compile"):
            model.predict(X)
            if kind == "compile":
                reader = model.memory_.reader()
                model.vote_.ranker(reader, model.sites_).single()
        elif kind in ("merge", "unmerge"):
            other = model.empty_like().partial_fit(X, y, sample_weight=weights)
            model.merge(other) if kind == "merge" else model.unmerge(other)
        elif kind == "add":
            model.partial_fit(X, y, sample_weight=weights)
        else:
            model.forget(X, y, sample_weight=weights)
        if kind in ("add", "merge"):
            held.update(dict.fromkeys(rows, 0))
            for row in rows:
                held[row] += times
        elif kind in ("forget", "unmerge"):
            for row in rows:
                held[row] -= times


def fresh_like(model: MemoryClassifier, held: Counter[Example]) -> MemoryClassifier:
    """Return a model of the same layout and vote that has learnt all that is held at once."""
    rows = [row for row, times in held.items() if times]
    X, y = table_of(rows)
    return model.empty_like().partial_fit(X, y, sample_weight=[held[row] for row in rows])


def same_readers(mine: Any, fresh: Any) -> None:
    """Compare all arrays that answers are made of, to the byte."""
    assert mine.labels == fresh.labels
    assert mine.label_counts.tobytes() == fresh.label_counts.tobytes()
    assert mine._raw.shared_sums.tobytes() == fresh._raw.shared_sums.tobytes()
    for k, (counts, expected) in enumerate(zip(mine._raw.counts, fresh._raw.counts, strict=True)):
        np.testing.assert_array_equal(counts, expected)
        n_own = len(mine.layout.own(k))
        np.testing.assert_array_equal(mine._raw.shared_sums[k], counts[n_own:].sum(axis=0))
        rows = np.full((len(counts), len(mine._raw.counts)), -1)
        rows[:, k] = np.arange(len(counts))
        np.testing.assert_array_equal(mine._read_centred(rows)[:, k], centre_rows(counts, n_own))
    for tensor, expected in zip(mine.tensors().values(), fresh.tensors().values(), strict=True):
        assert (tensor.dtype, tensor.tobytes()) == (expected.dtype, expected.tobytes())


def same_answers(model: MemoryClassifier, fresh: MemoryClassifier, asked: np.ndarray[Any, Any]) -> None:
    assert model.classes_.tolist() == fresh.classes_.tolist()
    assert model.class_scores(asked).tobytes() == fresh.class_scores(asked).tobytes()
    assert model.predict(asked).tolist() == fresh.predict(asked).tolist()
    assert model.top_k(asked, 3).tolist() == fresh.top_k(asked, 3).tolist()
    if not isinstance(model.vote, LogLinear):
        assert model.certify(asked).tolist() == fresh.certify(asked).tolist()
    assert model.explain(asked[0]).to_dict() == fresh.explain(asked[0]).to_dict()


@pytest.mark.parametrize("kernel", KERNELS, ids=["positions", "suffixes", "tuples", "fractions"])
@pytest.mark.parametrize("vote", VOTES, ids=["sum", "mean", "log-linear", "shared weights"])
@pytest.mark.examples(8)
@given(
    first=st.lists(example, min_size=2, max_size=8),
    history=edits,
    asked=st.lists(contexts, min_size=1, max_size=4),
    buckets=st.integers(1, 5),
    reserved=st.integers(0, 4),
)
@randomly
def test_after_any_history_a_reader_is_that_of_a_fresh_model(
    kernel: SiteKernel | None, vote: Any, first: Any, history: Any, asked: Any, buckets: int, reserved: int
) -> None:
    model = MemoryClassifier(kernel, Hashed(buckets, reserved), vote).fit(*table_of(first))
    held = Counter(first)
    carried_out(model, history, held)
    before = model.snapshot()
    fresh = fresh_like(model, held)
    assert model.memory_.state_bytes() == fresh.memory_.state_bytes()
    queries = table_of([(tokens, "") for tokens in asked])[0]
    same_answers(model, fresh, queries)
    row_by_row = model.class_scores(queries), model.predict(queries)
    same_readers(model.memory_.reader(), fresh.memory_.reader())
    predictor = model.compile()  # all rows of all tables
    assert predictor.class_scores(queries).tobytes() == row_by_row[0].tobytes()
    assert predictor.predict(queries).tolist() == row_by_row[1].tolist()
    assert [predictor(list(tokens)) for tokens in asked] == row_by_row[1].tolist()
    model.partial_fit(*table_of(first))  # what later edits do, a version before does not see
    assert before.class_scores(queries).tobytes() == row_by_row[0].tobytes()


@pytest.mark.examples(8)
@pytest.mark.parametrize("kernel", [None, SiteKernel([0, (0, 1)], weights=[1, 2]), SiteKernel([1, (0, 1)], [0.1, 0.7])])
@pytest.mark.parametrize("vote", ["sum", "mean"])
@given(
    seed=st.integers(0, 2**32),
    n_edits=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    most=st.sampled_from([1, 50, 3000]),
)
@randomly
def test_a_table_compiled_from_an_earlier_one_is_that_of_a_fresh_model(
    kernel: SiteKernel | None, vote: str, seed: int, n_edits: list[int], most: int
) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 60, (200, 2)), rng.integers(0, 5, 200)
    model = MemoryClassifier(kernel, Hashed(50, 9), vote).fit(X, y)
    model.vote_.ranker(model.memory_.reader(), model.sites_).single()  # compiles all rows
    held = Counter(zip(map(tuple, X.tolist()), y.tolist(), strict=True))
    for n in n_edits:
        for _ in range(n):
            if rng.random() < 0.5:
                row, label = rng.integers(0, 60, 2).tolist(), int(rng.integers(0, 5))
                times = int(rng.integers(1, most + 1))
            else:
                stored = [example for example, count in held.items() if count > 0]
                (tokens, label) = stored[int(rng.integers(len(stored)))]
                row, times = list(tokens), -1
            edit = model.forget if times < 0 else model.partial_fit
            edit(np.array([row]), np.array([label]), sample_weight=[abs(times)])
            held[tuple(row), label] += times
        reader: Any = model.memory_.reader()
        divisor = model.vote_.divisor(reader, model.sites_)
        table = reader._table(model.sites_.weights, divisor)
        rows = [example for example, count in held.items() if count]
        fresh = model.empty_like().partial_fit(
            np.array([tokens for tokens, _ in rows]),
            np.array([label for _, label in rows]),
            sample_weight=[held[example] for example in rows],
        )
        expected: Any = fresh.memory_.reader()
        made = expected._table(model.sites_.weights, divisor)
        assert expected._previous is None
        assert "_centred" in vars(expected)
        assert (table.loops.sum_bits, table.loops.nbytes) == (made.loops.sum_bits, made.loops.nbytes)
        asked = Contexts.of(rng.integers(0, 60, (40, 2)))
        assert table.scores(asked).tobytes() == made.scores(asked).tobytes()
        assert table.winners(asked).tolist() == made.winners(asked).tolist()


@pytest.mark.examples(8)
@pytest.mark.parametrize("vote", ["sum", "mean", LogLinear((1.0, 10.0))])
@given(first=st.lists(example, min_size=2, max_size=6), history=edits, asked=st.lists(contexts, min_size=1, max_size=3))
@settings(max_examples=20, deadline=None)
def test_digests_beside_it_change_nothing(vote: Any, first: Any, history: Any, asked: Any) -> None:
    model = MemoryClassifier(memory=Hashed(3, 2), keep="digests", vote=vote, numeric="none").fit(*table_of(first))
    held = Counter(first)
    carried_out(model, history, held)
    fresh = fresh_like(model, held)
    assert model.memory_.state_bytes() == fresh.memory_.state_bytes()
    same_answers(model, fresh, table_of([(tokens, "") for tokens in asked])[0])


@pytest.mark.parametrize("vote", ["sum", LogLinear((1.0, 10.0), weights=[0.5, 0.5])])
def test_a_window_that_slides_row_by_row_is_that_of_a_fresh_model(vote: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 9, (60, 2)), rng.integers(0, 6, 60)
    rolling = Rolling(MemoryClassifier(memory=Hashed(4, 3), vote=vote), last=20)
    for i in range(60):
        rolling.partial_fit(X[i : i + 1], y[i : i + 1])
        rolling.predict(X[i : i + 1])
    model = rolling.estimator_
    fresh = model.empty_like().partial_fit(X[40:], y[40:])
    assert model.class_scores(X).tobytes() == fresh.class_scores(X).tobytes()


@pytest.mark.parametrize("vote", ["sum", "mean"])
def test_many_queries_after_an_edit_copy_a_compiled_table_and_compute_few_rows(vote: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3000, (20_000, 2)), rng.integers(0, 8, 20_000)
    model = MemoryClassifier(memory=Hashed(2048, 64), vote=vote).fit(X, y)
    model.predict(X)  # compiles all rows
    assert "_centred" in vars(model.memory_.reader())
    for i in range(5):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        model.predict(X[:1])  # not enough to compile anything: the next version is made from the first one too
        assert model.memory_.reader()._score_table is None  # type: ignore[attr-defined]
    first = model.memory_.reader()._previous  # type: ignore[attr-defined]
    answers = model.predict(X)
    reader: Any = model.memory_.reader()
    assert reader._score_table is not None
    assert reader._previous is None  # what came before can be freed
    assert "_centred" not in vars(reader)
    changed = [first._find_changes(k, reader._raw) for k in range(2)]
    assert 5 <= sum(map(len, changed)) < 500
    fresh = model.empty_like().partial_fit(np.concatenate([X, X[:5]]), np.concatenate([y, y[:5]]))
    assert fresh.predict(X).tolist() == answers.tolist()
    other = model.snapshot()  # the same version again
    assert other.predict(X).tolist() == answers.tolist()


def test_new_labels_take_spare_columns_and_tables_are_copied_rarely() -> None:
    model = MemoryClassifier(memory=Hashed(64, 8)).fit([[0, 0]] * 2, [500, 501])
    widths = []
    for label in range(300):
        model.partial_fit([[label % 7, label % 5]], [1000 - 3 * label])  # labels come before those that are there
        widths.append(model.memory_._tables.width)
    assert len(set(widths)) < 30
    assert widths[-1] <= 302 * 5 // 4 + 2
    fresh = model.empty_like().partial_fit(
        [[0, 0]] * 2 + [[label % 7, label % 5] for label in range(300)],
        [500, 501, *(1000 - 3 * label for label in range(300))],
    )
    assert fresh.memory_._tables.width == 302  # nothing is spare where labels come at once
    assert model.memory_.state_bytes() == fresh.memory_.state_bytes()
    for label in range(300):
        model.forget([[label % 7, label % 5]], [1000 - 3 * label])
    assert model.memory_._tables.width <= 4  # and columns that are no longer needed are freed
    assert model.classes_.tolist() == [500, 501]


def test_an_edit_shares_all_pages_but_those_of_its_rows() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3000, (20_000, 2)), rng.integers(0, 64, 20_000)
    model = MemoryClassifier(memory=Hashed(2048, 1024), numeric="none").fit(X, y)
    before = model.memory_._tables
    model.partial_fit(X[:1], y[:1])
    after = model.memory_._tables
    for old, new in zip(before.sites, after.sites, strict=True):
        pages = [*zip(old.own.pages, new.own.pages, strict=True), *zip(old.shared.pages, new.shared.pages, strict=True)]
        assert len(pages) >= 3072 * 64 // PAGE_BYTES
        assert sum(mine is not theirs for mine, theirs in pages) == 1
        (row,) = new.find_changes(old).tolist()
        assert new.row(row)[y[0]] == old.row(row)[y[0]] + 1


@given(
    table=st.lists(st.lists(st.integers(0, 300), min_size=3, max_size=3), min_size=1, max_size=9),
    cells=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2), st.integers(0, 70_000)), max_size=6),
    asked=st.lists(st.integers(0, 8), max_size=20),
)
@randomly
def test_paged_rows_are_those_of_an_array(table: Any, cells: Any, asked: Any) -> None:
    plain = np.array(table, np.int64)
    first = paged = PagedRows(plain.astype(np.uint16))
    for row, column, count in cells:
        row %= len(plain)
        plain[row, column] += count
        paged = paged.plus_one(row, column, count)
        assert paged.row(row).tolist() == plain[row].tolist()
        with pytest.raises(NotStoredError):
            paged.plus_one(row, column, -int(plain[row, column]) - 1)
    rows = np.array(asked, np.int64) % len(plain)
    np.testing.assert_array_equal(paged.rows(rows), plain[rows])
    np.testing.assert_array_equal(paged.whole(), plain)
    np.testing.assert_array_equal(first.whole(), table)
    changed = paged.find_changes(first)
    if paged.dtype == first.dtype:
        assert changed is not None
        assert changed.tolist() == np.flatnonzero((plain != np.array(table)).any(axis=1)).tolist()
    else:
        assert changed is None


@pytest.mark.parametrize("edit", ["partial_fit", "forget"])
def test_what_a_single_edit_refuses_changes_nothing(edit: str) -> None:
    model = MemoryClassifier(memory=Hashed(4, 1)).fit([[1, 2], [3, NO_TOKEN], [5, 6]], ["x", "x", "y"])
    model.predict([[1, 2]])
    state = model.memory_.state_bytes()
    if edit == "forget":
        refusals = [([[9, 9]], ["y"]), ([[1, NO_TOKEN]], ["y"]), ([[1, 2]], ["z"]), ([[NO_TOKEN, NO_TOKEN]], ["y"])]
        for rows, labels in refusals:
            with pytest.raises(NotStoredError):
                model.forget(rows, labels)
        with pytest.raises(NotStoredError):
            model.forget([[5, 6]], ["y"], sample_weight=[2])
    else:
        with pytest.raises(ValueError, match=r"2\^53"):
            model.partial_fit([[1, 2]], ["x"], sample_weight=[2**53 - 2])
    assert model.memory_.state_bytes() == state


def test_a_label_s_count_is_kept_in_bounds() -> None:
    counts = LabelCounts(Vocabulary.of(["a", "b"]), np.array([3, 1]))
    more = counts.plus_at(0, 4)
    assert more is not None
    assert (more.counts.tolist(), more.total, counts.counts.tolist()) == ([7, 1], 8, [3, 1])
    assert counts.plus_at(1, -1) is None  # no example is left
    assert counts.plus_at(0, -4) is None
    assert counts.plus_at(0, MAX_EXAMPLES - 4) is None


@given(
    counts=st.lists(st.lists(st.integers(0, 2**40), min_size=6, max_size=6), min_size=1, max_size=4),
    weights=st.lists(st.floats(-3, 3), min_size=12, max_size=12),
)
@randomly
def test_a_rule_s_values_of_all_sites_are_those_of_each(counts: Any, weights: Any) -> None:
    prior = np.array([0.5, 0.3, 0.2])
    rule = RowRule((1.0, 10.0), np.array(weights).reshape(2, 2, 3), prior, np.log(prior))
    read = np.array(counts, np.int64).reshape(len(counts), 2, 3)
    values = rule.values(read)
    for site in range(2):
        assert values[:, site].tobytes() == rule.rows(site, read[:, site]).tobytes()
    assert not rule.values(np.zeros_like(read)).any()


def test_edited_memories_are_copied_and_pickled() -> None:
    model = MemoryClassifier(memory=Hashed(8, 4)).fit([[1, 2], [3, 4]], ["x", "y"])
    model.partial_fit([[1, 4]], ["a"]).predict([[1, 2]])
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        other.partial_fit([[1, 2]], ["b"])
        assert other.classes_.tolist() == ["a", "b", "x", "y"]
    assert model.classes_.tolist() == ["a", "x", "y"]


@given(
    stored=st.lists(example, min_size=1, max_size=12),
    asked=st.lists(contexts, min_size=1, max_size=5),
    buckets=st.integers(1, 5),
    reserved=st.integers(0, 3),
    weights=st.lists(st.floats(0.01, 9), min_size=4, max_size=4),
    times=st.sampled_from([1, 2**20, 2**49]),
)
@randomly
def test_rows_centred_by_the_compiled_loop_are_those_of_numpy(
    stored: Any, asked: Any, buckets: int, reserved: int, weights: list[float], times: int
) -> None:
    kernel = SiteKernel([0, 1, 2, (0, 2)])
    memory = Hashed(buckets, reserved).open(kernel.resolve(3))
    X, y = table_of(stored)
    memory.add(Examples.of(X, y, [times] * len(y)))
    reader: Any = memory.reader()
    queries = Contexts.of(table_of([(tokens, "") for tokens in asked])[0])
    scores = reader._row_scores(queries, np.array(weights))
    assert scores.tobytes() == reader._sum_rows_in_numpy(reader.layout.rows(queries), np.array(weights)).tobytes()
    assert reader._score_table is None
