"""The hashed memory: its tables against a plain dictionary, its mean over hashes, its width, and its certificates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import LayoutError, MemoryClassifier, NotStoredError
from hammemo.kernels import PositionalHamming, SiteKernel
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.memories.hashed.memory import DENSE_ROW_LABELS
from hammemo.memories.hashed.raw_rows import FRACTION_BITS, centre_counts
from hammemo.memories.hashed.readers import _narrow_signed
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.hashing import mix, siphash, token_hashes
from memory_catalogue import KERNELS, LABELS, POSITIONS, TOKENS, batches, examples

Batch = list[tuple[list[Any], str, int]]
DRAWS = 2000
LARGEST_Z = 5.0  # 5.7e-7 for each of the at most 20 means compared: a false-alarm rate of about 1e-5


@pytest.mark.parametrize("sites", KERNELS, ids=["positions", "tuples"])
@given(stored=batches, asked=batches, buckets=st.integers(1, 6), reserved=st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_scores_are_those_of_rows_in_a_dictionary(
    sites: Any, stored: Batch, asked: Batch, buckets: int, reserved: int
) -> None:
    memory = Hashed(buckets, reserved).open(sites, seed=3)
    memory.add(examples(stored))
    labels = sorted({label for _, label, _ in stored})
    counts: dict[tuple[int, int], dict[str, int]] = {}
    for (_, label, count), rows in zip(stored, memory.rows(examples(stored).contexts).tolist(), strict=True):
        for k, row in enumerate(rows):
            if row >= 0:
                cell = counts.setdefault((k, row), {})
                cell[label] = cell.get(label, 0) + count
    queries = examples(asked).contexts
    scores = memory.reader().scores(queries, sites.weights)
    low, high = memory.reader().bounds(queries, sites.weights)
    for i, rows in enumerate(memory.rows(queries).tolist()):
        for c, label in enumerate(labels):
            expected = least = most = 0.0
            for k, row in enumerate(rows):
                n_own, weight = len(memory._rows.own(k)), sites.weights[k]  # type: ignore[union-attr]
                here = counts.get((k, row), {}).get(label, 0) if row >= 0 else 0
                most += weight * here
                if 0 <= row < n_own:
                    expected += weight * here
                    least += weight * here
                elif row >= n_own and buckets > 1:
                    total = sum(cell.get(label, 0) for (site, r), cell in counts.items() if site == k and r >= n_own)
                    centred = (buckets * here - total) / (buckets - 1)
                    expected += weight * np.floor(centred * 2**FRACTION_BITS + 0.5) / 2**FRACTION_BITS
            assert scores[i, c] == expected
            assert (low[i, c], high[i, c]) == (least, most)


def test_scores_are_unbiased_over_the_hash() -> None:
    rng = np.random.default_rng(0)
    X, y, Q = rng.integers(0, 12, (60, 2)), rng.integers(0, 3, 60), rng.integers(0, 15, (3, 2))
    sites, stored = PositionalHamming().resolve(2), Examples.of(X, y)
    exact = Exact().open(sites)
    exact.add(stored)
    draws = []
    for seed in range(DRAWS):
        memory = Hashed(buckets=5, reserved=0).open(sites, seed)
        memory.add(stored)
        draws.append(memory.reader().scores(Contexts.of(Q), sites.weights))
    errors = np.stack(draws) - exact.reader().scores(Contexts.of(Q), sites.weights)
    z = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(DRAWS))
    assert np.abs(z).max() < LARGEST_Z
    uncentred = np.abs(errors).mean()
    assert uncentred > 0.1  # there is something to centre


@pytest.mark.parametrize("vote", ["sum", "mean"])
@pytest.mark.parametrize(
    "kernel", [None, SiteKernel([0, 2, (0, 2)], weights=[1, 2, 3]), SiteKernel([0, 1], [0.1, 0.7])]
)
@given(stored=batches, asked=batches, buckets=st.integers(1, 8), reserved=st.integers(0, 6), seed=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_a_certified_answer_is_the_exact_classifier_s(
    vote: str, kernel: SiteKernel | None, stored: Batch, asked: Batch, buckets: int, reserved: int, seed: int
) -> None:
    X, Q = (np.array([context for context, _, _ in batch], object) for batch in (stored, asked))
    y, counts = [label for _, label, _ in stored], [count for _, _, count in stored]
    sketch = MemoryClassifier(kernel, Hashed(buckets, reserved), vote, random_state=seed).fit(X, y, counts)
    exact = MemoryClassifier(kernel, Exact(), vote).fit(X, y, counts)
    certified = sketch.certify(Q)
    assert (sketch.predict(Q)[certified] == exact.predict(Q)[certified]).all()
    assert exact.certify(Q).all()


def test_enough_reserved_rows_certify_everything() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.integers(0, 20, (300, 3)), rng.integers(0, 4, 300)
    sketch = MemoryClassifier("positional", memory=Hashed(buckets=2, reserved=20), vote="sum").fit(X, y)
    assert sketch.certify(X).all()
    np.testing.assert_array_equal(
        sketch.class_scores(X), MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y).class_scores(X)
    )
    assert (
        not MemoryClassifier("positional", memory=Hashed(buckets=1, reserved=0), vote="sum").fit(X, y).certify(X).any()
    )
    assert sketch.certify(X[:1]).shape == (1,)


def test_a_sketch_without_bounds_gives_no_certificate() -> None:
    with pytest.raises(TypeError, match="gives no certificate"):
        MemoryClassifier("positional", memory=Gaussian(8), vote="sum").fit([[1]], [1]).certify([[1]])


def test_parts_widen_before_they_overflow_and_narrow_again() -> None:
    memory = Hashed(buckets=2, reserved=1).open(POSITIONS)
    memory.reserve(examples([([0, 0, 0], "yes", 1)]))
    for total, width in ((255, np.uint8), (256, np.uint16), (2**16, np.uint32), (2**32, np.uint64)):
        memory.add(examples([([0, 1, 1], "yes", total - int(memory.label_counts.sum()))]))
        state = memory.state()
        assert state["own.0"].dtype == state["shared.1"].dtype == width
        assert state["shared.0"].dtype == np.uint8
        assert state["own.0"].max() == state["shared.1"].max() == total
    memory.remove(examples([([0, 1, 1], "yes", 2**32 - 7)]))
    assert memory.state()["own.0"].dtype == np.uint8


def test_the_most_frequent_tokens_are_reserved_and_ties_go_by_hash() -> None:
    memory = Hashed(buckets=2, reserved=2).open(POSITIONS, seed=4)
    memory.reserve(examples([(["a", "b", "b"], "yes", 5), (["c", 1, 2], "no", 1), (["a", 7, 0], "no", 1)]))
    hashed = token_hashes(["a", "b"], seed=4)
    assert memory._rows is not None
    np.testing.assert_array_equal(memory._rows.own(0), np.sort(hashed))
    tied = Hashed(buckets=2, reserved=1).open(POSITIONS, seed=4)
    tied.reserve(examples([(["a", "b", "c"], "yes", 1)]))
    assert tied._rows is not None
    assert tied._rows.own(0)[0] == token_hashes(["a", "b", "c"], seed=4).min()


def test_the_layout_is_settled_once_and_shards_share_it() -> None:
    first, second = [([0, 0, 0], "yes", 1)], [([7, 7, 7], "no", 1)]
    memory = Hashed(buckets=3, reserved=1).open(POSITIONS)
    memory.add(examples(first))
    with pytest.raises(ValueError, match="already fixed"):
        memory.reserve(examples(second))
    stranger = Hashed(buckets=3, reserved=1).open(POSITIONS)
    stranger.add(examples(second))
    with pytest.raises(LayoutError, match="reserved is"):
        memory.merge(stranger)
    opened = Hashed(buckets=3, reserved=1).open(POSITIONS)
    opened.merge(memory)  # a layout that is still open takes the other's
    assert opened.state_bytes() == memory.state_bytes()
    memory.remove(examples(first))
    assert memory.layout() == opened.layout()  # forgetting leaves the layout as it is


def test_an_example_that_was_never_stored_is_refused_where_a_count_tells() -> None:
    memory = Hashed(buckets=2, reserved=3).open(POSITIONS)
    memory.add(examples([([0, 1, 2], "yes", 3), ([0, 1, 2], "no", 1)]))
    before = memory.state_bytes()
    with pytest.raises(NotStoredError, match="never stored"):
        memory.remove(examples([([1, 0, 2], "yes", 1)]))
    assert memory.state_bytes() == before


def test_an_empty_batch_leaves_the_layout_open() -> None:
    clf = MemoryClassifier("positional", memory=Hashed(buckets=4, reserved=2), vote="sum").partial_fit(
        [[1]], ["a"], ["a"], sample_weight=[0]
    )
    assert clf.memory_.layout()["reserved"] is None
    assert clf.partial_fit([[1]], ["a"]).memory_.layout()["reserved"] is not None


@pytest.mark.parametrize(
    ("other", "field"),
    [(Hashed(4, 0), "buckets"), (Hashed(3, 0, key=b"0123456789abcdef"), "key"), (Hashed(3, 0), "seed")],
)
def test_other_codes_are_refused_by_name(other: Hashed, field: str) -> None:
    memory = Hashed(3, 0).open(POSITIONS, seed=1)
    with pytest.raises(LayoutError, match=f"{field} is"):
        memory.merge(other.open(POSITIONS, seed=2 if field == "seed" else 1))


def test_a_secret_key_changes_every_bucket_and_stays_out_of_the_state() -> None:
    secret = b"a secret of some length"
    words: list[Any] = ["a", "b", ("a", "b"), 1, 2, 0.5]
    plain, keyed = token_hashes(words, 0), token_hashes(words, 0, secret)
    assert not np.isin(plain, keyed).any()
    assert len(set(keyed.tolist())) == len(words)
    assert "secret of" not in repr(MemoryClassifier("positional", memory=Hashed(8, 0, key=secret), vote="sum"))
    memory = Hashed(8, 0, key=secret).open(POSITIONS)
    memory.add(examples([([0, 1, 2], "yes", 1)]))
    assert secret not in memory.state_bytes()


def test_siphash_gives_the_authors_vector() -> None:
    message = np.array([int.from_bytes(bytes(range(8)), "little")], np.uint64)
    k0, k1 = (int.from_bytes(bytes(range(start, start + 8)), "little") for start in (0, 8))
    assert siphash(message, k0, k1)[0] == 0x93F5F5799A932462


@given(st.lists(st.integers(-(2**62), 2**62), unique=True, min_size=2, max_size=200))
@settings(deadline=None)
def test_integers_never_collide_without_a_key(values: list[int]) -> None:
    assert len(set(token_hashes(values, seed=5).tolist())) == len(values)
    assert len(set(mix(np.array(values, np.int64).astype(np.uint64)).tolist())) == len(values)


def test_buckets_are_used_evenly_and_sites_disagree() -> None:
    memory = Hashed(buckets=50, reserved=0).open(PositionalHamming().resolve(2))
    X = np.repeat(np.arange(20_000)[:, None], 2, axis=1)
    rows = memory.rows(Contexts.of(X))
    for column in rows.T:
        chi_square = ((np.bincount(column, minlength=50) - 400) ** 2 / 400).sum()
        assert chi_square < 120  # 49 degrees of freedom: exceeded with probability below 1e-7
    assert (rows[:, 0] == rows[:, 1]).mean() < 0.05


def test_many_labels_are_warned_about_with_the_way_out() -> None:
    X = np.zeros((DENSE_ROW_LABELS + 1, 1), int)
    with pytest.warns(UserWarning, match=r"memory=Exact\(\)"):
        MemoryClassifier("positional", memory=Hashed(2, 0), vote="sum").fit(X, np.arange(DENSE_ROW_LABELS + 1))


@pytest.mark.parametrize(
    "parameters", [{"buckets": 0}, {"buckets": 1.5}, {"reserved": -1}, {"key": b"short"}, {"key": "text" * 8}]
)
def test_impossible_parameters_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"whole number|16 to 64 bytes"):
        Hashed(**parameters).open(POSITIONS)


def test_an_empty_memory_answers_nothing() -> None:
    memory = Hashed().open(POSITIONS)
    assert memory.reader().scores(examples([(TOKENS[:3], LABELS[0], 1)]).contexts, POSITIONS.weights).shape == (1, 0)


def test_more_threads_give_the_same_answers() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 50, (20_000, 3)), rng.integers(0, 9, 20_000)
    clf = MemoryClassifier("positional", memory=Hashed(16, 8), vote="sum").fit(X, y)
    one, several = clf.compile(), clf.compile(n_jobs=3)
    np.testing.assert_array_equal(one.predict(X), several.predict(X))
    np.testing.assert_array_equal(one.top_k(X, 3), several.top_k(X, 3))
    assert MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y).compile(n_jobs=2).predict(
        X[:9]
    ).shape == (9,)


def test_a_few_queries_need_no_compiled_tables_and_get_the_same_answers() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 50, (2_000, 3)), rng.integers(0, 9, 2_000)
    tables: Any = MemoryClassifier("positional", memory=Hashed(16, 8), vote="sum").fit(X, y).memory_.compile()
    contexts, weights, divisor = Contexts.of(X[:40]), np.ones(3), np.full(9, 3.0)
    few = tables.winners(contexts, weights, divisor), tables.leaders(contexts[:9], weights, divisor, 3)
    assert not tables._score_table
    scores = tables.scores(Contexts.of(X), weights)
    assert vars(tables)["_score_table"]
    np.testing.assert_array_equal(few[0], tables.winners(contexts, weights, divisor))
    np.testing.assert_array_equal(few[1], tables.leaders(contexts[:9], weights, divisor, 3))
    np.testing.assert_array_equal(scores, tables._sum_rows_in_numpy(tables.layout.rows(Contexts.of(X)), weights))


# ---------------------------------------------------------------- buckets and reserved rows per site


def test_equal_numbers_for_all_sites_are_one_number() -> None:
    X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
    one = MemoryClassifier("positional", memory=Hashed(8, 2), vote="sum").fit(X, y)
    each = MemoryClassifier("positional", memory=Hashed([8, 8], (2, 2)), vote="sum").fit(X, y)
    assert one.memory_.state_bytes() == each.memory_.state_bytes()
    assert one.merge(each).memory_.label_counts.tolist() == [4, 2]


def test_each_site_has_its_own_numbers() -> None:
    kernel = SiteKernel([0, 1, (0, 1)])
    X, y = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "c"]], ["no", "no", "yes", "yes"]
    memory = MemoryClassifier(kernel, Hashed([3, 4, 5], [1, 2, 3]), vote="sum").fit(X, y).memory_
    shapes = {name: array.shape for name, array in memory.state().items() if name[:3] in ("own", "sha")}
    assert shapes == {  # positions share a list, as long as the largest of theirs
        "own.0": (2, 2), "own.1": (2, 2), "own.2": (3, 2), "shared.0": (3, 2), "shared.1": (4, 2), "shared.2": (5, 2)
    }  # fmt: skip
    other = MemoryClassifier(kernel, Hashed([3, 4, 6], [1, 2, 3]), vote="sum").fit(X, y)
    with pytest.raises(LayoutError, match="buckets"):
        other.memory_.merge(memory)


@pytest.mark.parametrize(
    ("buckets", "reserved", "complaint"),
    [
        ([3], 0, "buckets=.*1 entries, but the kernel has 2 sites"),
        ([3, 0], 0, "buckets=.*at least 1"),
        ("ab", 0, "buckets='ab'"),
        (3, [1, 2, 3], "reserved=.*3 entries"),
        (3, [1, -1], "reserved=.*at least 0"),
        (3, None, "reserved=None"),
    ],
)
def test_numbers_that_fit_no_site_are_refused(buckets: Any, reserved: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        MemoryClassifier("positional", memory=Hashed(buckets, reserved), vote="sum").fit([["a", "b"]], ["x"])


wide_counts = st.one_of(st.integers(0, 9), st.integers(2**45, 2**53 - 1))


@given(count=wide_counts, others=wide_counts, buckets=st.one_of(st.integers(1, 9), st.integers(2**20, 2**31 - 1)))
@settings(deadline=None)
def test_centred_counts_are_those_of_unbounded_integers(count: int, others: int, buckets: int) -> None:
    total = min(count + others, 2**53 - 1)
    found = centre_counts(np.array([[count]]), np.array([total]), buckets)
    doubled = (buckets * count - total) << (FRACTION_BITS + 1)
    expected = (doubled + buckets - 1) // (2 * (buckets - 1)) if buckets > 1 else 0
    assert found.tolist() == [[expected]]


@pytest.mark.parametrize("exponent", [40, 47, 48, 49, 50, 51, 52])
@pytest.mark.parametrize("buckets", [2048, 2**16])
def test_large_counts_win(exponent: int, buckets: int) -> None:
    clf = MemoryClassifier("positional", memory=Hashed(buckets, reserved=0), random_state=0, vote="sum")
    clf.fit([[1], [2], [2]], ["a", "b", "c"], sample_weight=[2**exponent, 2 ** (exponent - 2), 1])
    scores = clf.class_scores([[1]])[0]
    assert clf.predict([[1]]).tolist() == ["a"]
    assert clf.predict([[1]] * 100).tolist() == ["a"] * 100
    assert scores[0] > 2**exponent / 2
    assert abs(scores[1:]).max() < scores[0]


def test_where_whole_sums_are_rounded_the_bounds_keep_a_margin() -> None:
    """Above 2^53 a float64 is no exact sum, so 2^53 + 1 against 2^53 is not proven."""
    kernel = SiteKernel([0, 1, (0, 1)])
    clf = MemoryClassifier(kernel, Hashed(64, 8), random_state=0, vote="sum")
    clf.fit([[1, 1], [1, 2]], ["b", "a"], sample_weight=[2**52, 2**52 - 2**20])
    low, high = clf.memory_.reader().bounds(Contexts.of([[1, 1]]), clf.sites_.weights)
    assert (low < high).all()


@given(st.lists(st.integers(-(2**40), 2**40), max_size=5), st.sampled_from([127, 128, -128, -129, 2**15, -(2**15), 0]))
def test_narrow_rows_keep_their_values(values: list[int], edge: int) -> None:
    array = np.array([*values, edge])
    assert _narrow_signed(array).tolist() == array.tolist()


def test_more_examples_than_scores_have_room_for_are_refused() -> None:
    memory = Hashed(4, 0).open(PositionalHamming().resolve(1), seed=0)
    memory.add(Examples.of([[1]], ["a"], [2**52]))
    tables: Any = memory.reader()
    tables.frame.label_counts[0] = 2**53
    with pytest.raises(ValueError, match=r"2\^53 examples"):
        type(tables)(tables.layout, tables._raw.tables, tables._raw.source, tables.frame)
