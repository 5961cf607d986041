"""Tables with numbers, dates and missing values: learnt as they come, forgotten to the byte."""

from __future__ import annotations

import copy
import pickle
import time
import warnings
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from hammemo import MemoryClassifier, _native, load, save
from hammemo.edits.editing import read_rows
from hammemo.features.cells import TreeCells, column_codes
from hammemo.features.cells.column_codes import quantile_cuts
from hammemo.features.cells.grow_forest import count_copies_in_bag, mark_out_of_bag
from hammemo.features.cells.tree_inputs import TreeInputs
from hammemo.memories import Exact, Hashed
from hammemo.memories.errors import LayoutError, NotStoredError
from hammemo.memories.exact import CountTable
from hammemo.memories.exact.table import holds_trees, table_of_trees
from hammemo.stores.kept_rows import KeptRows
from hammemo.tokens.column_evidence import column_kinds
from hammemo.tokens.column_kinds import NUMBERS
from hammemo.tokens.column_letters import encode_letters
from hammemo.tokens.column_values import tokens_of
from hammemo.tokens.table_columns import table_columns
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.votes import tree_label_features
from hammemo.votes.tree_label_rows import count_tree_rows, read_tree_rows
from twins import codes as plain_codes
from twins import tree_features as twin
from twins import trees as plain_trees

if TYPE_CHECKING:
    from pathlib import Path


def frame(n: int = 240, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return a table of two numbers, whole numbers, names and dates, some missing, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "length": rng.normal(size=n),
            "width": np.where(rng.random(n) < 0.1, np.nan, rng.exponential(size=n)),
            "rooms": rng.integers(1, 9, n),
            "town": rng.choice(["Ulm", "Bonn", "Trier"], n),
            "seen": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), unit="h"),
        }
    )
    y = (X["length"] + (X["town"] == "Bonn") - 0.1 * X["rooms"] + rng.normal(scale=0.3, size=n) > 0).to_numpy()
    return X, np.where(y, "yes", "no")


def same(one: MemoryClassifier, other: MemoryClassifier, folder: Path) -> bool:
    """Return whether the files of two models are equal."""
    save(one, folder / "one")
    save(other, folder / "other")
    return (folder / "one").read_bytes() == (folder / "other").read_bytes()


def test_forget_and_refit_is_fit_of_the_rest_to_the_byte(tmp_path: Path) -> None:
    X, y = frame()
    clf = MemoryClassifier().fit(X, y)
    assert isinstance(clf.state.layout.cells, TreeCells)
    clf.forget(X.iloc[:40], y[:40]).refit()
    rest = MemoryClassifier().fit(X.iloc[40:], y[40:])
    assert clf.digest(parts=True) == rest.digest(parts=True)
    assert same(clf, rest, tmp_path)


@pytest.mark.parametrize("batches", [2, 7])
def test_batches_and_refit_are_fit_to_the_byte(batches: int, tmp_path: Path) -> None:
    X, y = frame(260)
    clf = MemoryClassifier()
    for rows in np.array_split(np.arange(len(y)), batches):
        clf.partial_fit(X.iloc[rows], y[rows])
    order = np.random.default_rng(1).permutation(len(y))
    assert same(clf.refit(), MemoryClassifier().fit(X.iloc[order], y[order]), tmp_path)


def test_models_of_different_cells_are_merged_by_their_rows(tmp_path: Path) -> None:
    X, y = frame()
    one, other = MemoryClassifier().fit(X[:150], y[:150]), MemoryClassifier().fit(X[150:], y[150:])
    assert one.state.layout.cells != other.state.layout.cells
    with pytest.warns(UserWarning, match="different fitted weights"):
        together = one + other
    assert same(together.refit(), MemoryClassifier().fit(X, y), tmp_path)
    both = MemoryClassifier().fit(X, y)
    assert same(both.unmerge(other).refit(), one, tmp_path)


def test_models_without_rows_and_other_cells_are_not_merged() -> None:
    X, y = frame()
    one, other = (MemoryClassifier(keep=False).fit(X[rows], y[rows]) for rows in (slice(150), slice(150, None)))
    with pytest.raises(LayoutError):
        one.merge(other)
    with pytest.raises(LayoutError, match="kinds"):
        one.merge(MemoryClassifier(numeric="none").fit(X.astype(str), y))


def test_shards_of_one_layout_add_up(tmp_path: Path) -> None:
    X, y = frame()
    whole = MemoryClassifier().fit(X, y)
    shards = [whole.empty_like().partial_fit(X[k::3], y[k::3]) for k in range(3)]
    assert (shards[0] + shards[1] + shards[2]).memory_.state_bytes() == whole.memory_.state_bytes()
    other = MemoryClassifier().partial_fit(X[:10], y[:10], layout=whole)
    assert other.state.layout.cells is whole.state.layout.cells


def test_single_edits_are_those_of_batches() -> None:
    X, y = frame()
    clf = MemoryClassifier().fit(X, y)
    row = X.iloc[0].tolist()
    before = clf.digest()
    clf.learn_one(row, "no")
    assert clf.memory_.state_bytes() == MemoryClassifier().fit(X, y).partial_fit(X[:1], ["no"]).memory_.state_bytes()
    assert clf.forget_one(row, "no").digest() == before
    with pytest.raises(NotStoredError):
        clf.forget_one([99.0, 1.0, 3, "Ulm", datetime(2026, 1, 1)], "no")
    assert clf.digest() == before


def test_files_pickles_and_copies_answer_alike(tmp_path: Path) -> None:
    X, y = frame()
    clf = MemoryClassifier().fit(X, y)
    expected = clf.predict_proba(X).tobytes()
    save(clf, tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf)):  # noqa: S301
        assert again.predict_proba(X).tobytes() == expected
        assert again.digest() == clf.digest()
    compiled = clf.compile()
    assert np.array_equal(compiled.predict(X), clf.predict(X))
    assert compiled(X.iloc[3].tolist()) == clf.predict(X.iloc[3:4])[0]
    save(compiled, tmp_path / "compiled")
    assert np.array_equal(load(tmp_path / "compiled").predict(X), clf.predict(X))
    with pytest.raises(ValueError, match="no dates"):
        compiled.to_onnx(tmp_path / "graph")


def test_explanations_are_by_column_and_sum_to_the_score() -> None:
    X, y = frame()
    clf = MemoryClassifier().fit(X, y)
    told = clf.explain(X.iloc[5].tolist())
    assert told.names == tuple(X.columns)
    assert len(told.contributions) == X.shape[1]
    assert np.allclose(told.base + told.contributions.sum(axis=0), told.scores)
    assert "length" in str(told)
    ranges = MemoryClassifier(memory=Hashed(64)).fit(X, y).explain(X.iloc[5].tolist())
    assert " to " in str(ranges) or "below" in str(ranges)


@pytest.mark.parametrize("keep", ["auto", "digests"])
@pytest.mark.parametrize("memory", [Hashed(256), Exact()])
@pytest.mark.parametrize("vote", ["sum", "mean", "auto"])
def test_every_memory_learns_numbers_and_takes_them_back(memory: Any, vote: str, keep: str) -> None:
    X, y = frame(120)
    clf = MemoryClassifier(memory=memory, vote=vote, keep=keep).fit(X, y)
    before = clf.memory_.state_bytes()
    clf.partial_fit(X[:20], y[:20]).forget(X[:20], y[:20])
    assert clf.memory_.state_bytes() == before
    assert (clf.predict(X) == y).mean() > 0.6


def test_numbers_beat_names_where_they_are_numbers() -> None:
    X, y = frame(900)
    numbers = X[["length", "width", "rooms"]]
    as_numbers = MemoryClassifier().fit(numbers[:600], y[:600]).score(numbers[600:], y[600:])
    as_names = MemoryClassifier(numeric="none").fit(numbers[:600].astype(str), y[:600])
    assert as_numbers > as_names.score(numbers[600:].astype(str), y[600:]) + 0.1


def test_what_a_column_is() -> None:
    X = pd.DataFrame(
        {
            "f": [0.5, None],
            "i": [1, 2],
            "n": pd.array([1, None], "Int64"),
            "b": [True, False],
            "s": ["a", None],
            "c": pd.Categorical(["x", "y"]),
            "d": pd.to_datetime(["2026-01-01", None]),
            "t": pd.to_timedelta([1, 2], unit="s"),
            "z": pd.to_datetime(["2026-01-01", "2026-01-02"]).tz_localize("Europe/Berlin"),
            "o": [Decimal("1.5"), Decimal(2)],
        }
    )
    columns = table_columns(X)
    assert columns is not None
    assert encode_letters(column_kinds(columns, "auto", list(X.columns), has_types=True)) == "nnnsssdndn"
    assert encode_letters(column_kinds(columns, "none", list(X.columns), has_types=True)) == "s" * 10
    assert (
        encode_letters(column_kinds(columns, ["f", 1], list(X.columns), has_types=True)) == "nnssssdsds"
    )  # dates stay dates
    with pytest.raises(ValueError, match="'q'"):
        column_kinds(columns, ["q"], list(X.columns), has_types=True)
    whole = table_columns([[1, "a", 0.5, 2.0], [2, "b", 3, 3.0]])
    assert whole is not None
    assert encode_letters(column_kinds(whole, "auto", None, has_types=False)) == "ssns"


def test_special_numbers_are_tokens() -> None:
    column = np.array([np.inf, -np.inf, -0.0, 5e-324, 2.0**63, np.nan])
    found = tokens_of([column], (NUMBERS,), "token", None, learning=True)[:, 0]
    largest = np.finfo(float).max
    assert found.tolist() == [largest, -largest, 0.0, 5e-324, 2.0**63, float(NO_TOKEN)]
    assert not np.signbit(found[2])
    clf = MemoryClassifier().fit(np.tile(column, 20)[:, None], ["a", "b", "a", "a", "a", "b"] * 20)
    assert clf.predict(column[:, None]).tolist() == ["a", "b", "a", "a", "a", "b"]


def test_another_kind_is_refused_where_it_is_learnt_and_warned_of_where_it_is_asked() -> None:
    X, y = frame(60)
    clf = MemoryClassifier().fit(X, y)
    wrong = X.astype({"length": object})
    wrong.loc[0, "length"] = "long"
    with pytest.raises(ValueError, match="'length' holds numbers, and 'long' is not one"):
        clf.partial_fit(wrong, y)
    with pytest.raises(ValueError, match="'length'"):
        MemoryClassifier(missing="refuse").fit(X.assign(length=np.nan), y)
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(X[["length"]])
    with pytest.raises(ValueError, match="expecting 2 features"):
        MemoryClassifier().fit(X[["length", "width"]].to_numpy(), y).predict(np.zeros((3, 5)))


def test_ids_are_warned_of() -> None:
    X = pd.DataFrame({"id": np.arange(80), "a": np.arange(80) % 7})
    with pytest.warns(UserWarning, match="'id' holds whole numbers that nearly all differ"):
        MemoryClassifier().fit(X, np.arange(80) % 2)
    with pytest.warns(UserWarning, match="numeric="):
        MemoryClassifier("positional").fit(X.to_numpy(), np.arange(80) % 2)


@pytest.mark.parametrize("n", [1, 2, 30])
def test_few_rows(n: int) -> None:
    X, y = frame(n)
    clf = MemoryClassifier().fit(X, y)
    assert clf.predict(X).shape == (n,)
    clf.forget(X, y)
    assert clf.classes_.tolist() == []
    clf.partial_fit(X, y).refit()
    assert clf.digest() == MemoryClassifier().fit(X, y).digest()


@given(st.lists(st.floats(allow_nan=True, allow_infinity=False), min_size=1, max_size=60), st.integers(1, 20))
def test_cuts_lie_between_values(values: list[float], most: int) -> None:
    array = np.array(values)
    cuts = quantile_cuts(array, np.ones(len(array), np.int64), most)
    present = np.unique(array[~np.isnan(array)])
    assert len(cuts) <= most
    assert (np.diff(cuts) > 0).all()
    steps = np.searchsorted(cuts, present, side="right")
    assert len(np.unique(steps)) == len(cuts) + (len(present) > 0)
    if len(present) <= most + 1:
        assert len(np.unique(steps)) == len(present)


@pytest.mark.parametrize("are_labels", [True, False])
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_compiled_trees_are_those_of_the_plain_twin(are_labels: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_columns, n, n_labels = rng.integers(1, 7), rng.integers(1, 60), int(rng.integers(1, 5))
    codes = rng.integers(0, rng.integers(1, 256), (n_columns, n)).astype(np.uint8)
    names = rng.integers(0, 2, n_columns).astype(np.uint8)
    labels = rng.integers(0, n_labels, n).astype(np.int32)
    most_copies = [3, (2**31 - 1) // int(n)][rng.integers(2)]  # all weights together are below 2^31: their bound
    weights = rng.integers(most_copies // 2 + 1, most_copies, n, endpoint=True).astype(np.int32)
    if not are_labels:
        most = int(rng.choice([1, 100, 2**31 - 1]))
        labels, n_labels = rng.integers(-most, most, n, endpoint=True).astype(np.int32), 0
    bag = np.flatnonzero(np.append(True, rng.random(n - 1) < 0.7)).astype(np.int32)
    least, most = int(rng.integers(1, 4)), int(rng.integers(1, n_columns + 1))
    words = np.sort(rng.integers(0, 2**64, n, np.uint64))
    arguments = (codes, names, labels, weights, bag, n_labels, least, most, bool(rng.integers(2)), seed, words)
    found = _native.grow_tree(*arguments)
    for mine, plain in zip(found, plain_trees.grow_tree(*arguments), strict=True):
        assert np.array_equal(np.asarray(mine), np.asarray(plain))
    column, step, right, _ = found
    starts = np.array([0, len(column)])
    rows = rng.integers(0, 256, (20, n_columns)).astype(np.uint8)
    leaves = np.empty((20, 1), np.int32)
    _native.Forest(column, step, right, starts, names).leaves(rows, leaves)
    assert np.array_equal(leaves, plain_trees.leaves(column, step, right, starts, names, rows))


@given(st.integers(0, 2**32 - 1), st.integers(0, 200))
def test_compiled_bags_are_those_of_the_plain_twin(seed: int, tree: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 50))
    words, counts = rng.integers(0, 2**64, n, np.uint64), rng.integers(0, rng.choice([2, 40, 2**40]), n)
    np.testing.assert_array_equal(
        count_copies_in_bag(words, counts, tree), plain_trees.copies_in_bag(words, counts, tree)
    )


@given(st.integers(0, 2**32 - 1), st.sampled_from([(253, 6, 0.05), (15, 6, 0.05), (3, 2, 0.2), (0, 1, 0.0)]))
def test_compiled_cuts_are_those_of_the_plain_twin(seed: int, rules: tuple[int, int, float]) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 300))
    drawn = [rng.normal(size=n), rng.integers(-20, 20, n), rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n)]
    column = column_codes.CountedValues.from_rows(drawn[int(rng.integers(3))].astype(np.float64), rng.integers(1, 9, n))
    cuts, places = column_codes.halve(column, *rules)
    plain = plain_codes.halve_ranges(column, *rules)
    np.testing.assert_array_equal(places, np.flatnonzero(~np.isnan(plain)))
    np.testing.assert_array_equal(cuts, plain[places])


def test_compiled_cuts_refuse_what_is_no_column() -> None:
    values, upto, found = np.array([1.0, 2.0]), np.array([3, 5]), np.empty(4)
    for wrong in (values[::-1].copy(), np.array([1.0, np.nan]), np.array([1.0, np.inf]), values[:1]):
        with pytest.raises(ValueError, match=r"ascend|one sum"):
            _native.halved_cuts(wrong, upto, 2, 0.05, 2, found)
    for sums in (np.array([3, 3]), np.array([0, 1]), np.array([3, 2**60])):
        with pytest.raises(ValueError, match="ascend"):
            _native.halved_cuts(values, sums, 2, 0.05, 2, found)
    for least, band, rows in ((0, 0.05, 2), (2, 0.5, 2), (2, -0.1, 2), (2, np.nan, 2), (2, 0.05, -1)):
        with pytest.raises(ValueError, match="a range needs"):
            _native.halved_cuts(values, upto, least, band, rows, found)


@pytest.mark.examples(6)
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_compiled_features_are_those_of_the_plain_twin(seed: int) -> None:
    X, y = frame(80, seed)
    clf = MemoryClassifier().fit(X, y)
    assert isinstance(clf.state.layout.cells, TreeCells)
    assert isinstance(clf.state.store, KeptRows)
    cells = clf.state.layout.cells
    examples = clf.state.store.examples()
    rows = count_tree_rows(cells, examples, TreeInputs.from_examples(cells.codes, examples, 0))
    read = read_tree_rows(clf.state.layout.cells, clf.state.store.examples(), 0, clf.memory_.reader())
    assert np.array_equal(rows.tree_counts, read.tree_counts)
    assert all(np.array_equal(one, other) for one, other in zip(rows.name_counts, read.name_counts, strict=True))
    compiled = tree_label_features.compute_tree_features(clf.state.layout.cells, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_label_features, "_native", twin)
        assert np.array_equal(tree_label_features.compute_tree_features(clf.state.layout.cells, rows), compiled)


def test_what_columns_are_worth_adds_up() -> None:
    X, y = frame(150)
    found = MemoryClassifier().fit(X, y).report().bits()
    assert set(found.names) == set(X.columns)
    assert np.isclose(found.bits.sum(), found.prior_bits - found.model_bits)
    assert found.names[0] == "length"


@pytest.mark.examples(5)
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000))
def test_rows_counted_at_leaves_give_the_table_of_their_cells(seed: int) -> None:
    X, y = frame(90, seed)
    X["town"] = X["town"].where(np.random.default_rng(seed).random(90) < 0.9)
    clf: Any = MemoryClassifier(missing="empty" if seed % 2 else "token").fit(X, y)
    examples = read_rows(clf, X[:60], y[:60], clf.state, np.arange(60) % 3).examples()
    assert holds_trees(clf.state.layout.cells, clf.sites_)
    by_leaf = table_of_trees(clf.state.layout.cells, examples, clf.sites_)
    of_cells = CountTable.from_examples(clf.state.layout.cells.replace_rows(examples).with_used_labels(), clf.sites_)
    labels = of_cells.label_counts.labels
    assert by_leaf.label_counts.labels == labels
    found, expected = by_leaf.arrays_for(labels), of_cells.arrays_for(labels)
    for (name, mine), theirs in zip(found.items(), expected.values(), strict=True):
        assert mine.dtype == theirs.dtype, name
        assert np.array_equal(mine, theirs), name
    none = table_of_trees(clf.state.layout.cells, read_rows(clf, X[:1], y[:1], clf.state, [0]).examples(), clf.sites_)
    assert not none.n_examples


def test_one_edit_costs_no_more_than_the_same_rows_in_smaller_edits() -> None:
    X, y = frame(4000)
    more, labels = frame(100, seed=1)
    model = MemoryClassifier().fit(X, y)

    def seconds(size: int) -> tuple[float, bytes]:
        times = []
        for _ in range(4):
            copied = model.snapshot()
            start = time.process_time()
            for first in range(0, 100, size):
                copied.partial_fit(more[first : first + size], labels[first : first + size], choose=False)
            times.append(time.process_time() - start)
        return min(times), copied.memory_.state_bytes()

    (at_once, state), (in_parts, same_state) = seconds(100), seconds(50)
    assert state == same_state
    assert at_once < 1.5 * in_parts  # 4 times as much where a table of all leaves was made


@pytest.mark.parametrize("n", [60, 100, 101])
def test_rows_of_an_edit_are_counted_one_by_one_or_at_leaves(n: int) -> None:
    X, y = frame(800)
    more, labels = frame(n, seed=1)
    model: Any = MemoryClassifier().fit(X, y)
    by_leaf = model.memory_.snapshot()
    examples = read_rows(model, more, labels, model.state).examples()
    by_leaf.signed_sum = by_leaf.signed_sum.edit_in_bulk(
        table_of_trees(model.state.layout.cells, examples, model.sites_), 1
    )
    edited = model.snapshot().partial_fit(more, labels, choose=False)
    assert edited.memory_.state_bytes() == by_leaf.state_bytes()
    assert edited.forget(more, labels).memory_.state_bytes() == model.memory_.state_bytes()


def test_copies_of_a_row_grow_trees_one_by_one() -> None:
    words = np.random.default_rng(3).integers(0, 2**64, 2_000, np.uint64)
    counts = np.arange(2_000) % 70
    for tree in (0, 5):
        drawn = np.array([count_copies_in_bag(words, np.full(2_000, n), tree) for n in range(70)])  # (n, m)
        assert np.isin(np.diff(drawn, axis=0), [0, 1]).all()  # one copy more adds itself, or nothing
        np.testing.assert_array_equal(count_copies_in_bag(words, counts, tree), drawn[counts, np.arange(2_000)])
        assert abs(drawn[1].mean() - 0.632) < 0.04  # 3.7 standard errors: wrong once in 4,600 draws of the words
        assert abs(drawn[69].mean() / 69 - 0.632) < 0.04


def test_hashes_tell_rows_apart_where_most_columns_have_few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else rows of one hash and label grow no tree together, and what it says of them contradicts their label."""
    rng = np.random.default_rng(5)
    homes, y = np.repeat(rng.normal(size=1_000), 4), np.tile(["f", "m", "f", "m"], 1_000)
    X = np.column_stack([homes, np.tile(rng.integers(0, 2, (4_000, 2)), 4)]).astype(np.float64)
    inside = rng.random(4_000) < 0.75

    def measured() -> tuple[float, float]:
        clf = MemoryClassifier().fit(X[inside], y[inside])
        assert isinstance(clf.state.layout.cells, TreeCells)
        assert isinstance(clf.state.store, KeptRows)
        rows, words, _ = clf.state.layout.cells.codes.distinct(clf.state.store.examples(), 0)
        return len(np.unique(words)) / len(rows), log_loss(y[~inside], clf.predict_proba(X[~inside]))

    apart, loss = measured()
    monkeypatch.setattr(column_codes, "_DISTINCT_SHARE", 0.0)
    fewer, higher = measured()
    assert fewer < 0.5 < 0.7 < apart
    assert loss < higher


def test_rows_that_occur_often_grow_trees_and_judge_them() -> None:
    X = pd.DataFrame({"x": np.repeat(np.arange(60) * 1.5, 40)})
    clf = MemoryClassifier(random_state=0).fit(X, np.arange(2_400) // 40 % 2)
    assert isinstance(clf.state.layout.cells, TreeCells)
    last = clf.state.layout.cells.last_word
    assert mark_out_of_bag(
        clf.state.layout.cells.forest, np.array([0, last], np.uint64), np.array([40, 40]), last
    ).all()
    assert clf.score(X, np.arange(2_400) // 40 % 2) == 1.0


def test_numbers_stored_as_strings_warn_once_and_codes_do_not() -> None:
    prices = [f"{i / 4}" for i in range(60)]
    table = pd.DataFrame({"price": prices, "weight": prices, "stays": ["a", "b"] * 30})
    with pytest.warns(UserWarning, match="'price' holds numbers as strings") as told:
        clf = MemoryClassifier().fit(table[["price", "weight"]], table["stays"])
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict(table[["price", "weight"]])
        MemoryClassifier(numeric="none").fit(table[["price"]], table["stays"])
        warnings.filterwarnings("ignore", ".*holds strings that nearly all differ")
        for other in ([f"{i:03}" for i in range(60)], [str(i) for i in range(60)], [*prices[:59], "none"]):
            MemoryClassifier().fit([[value] for value in other], table["stays"])
    gaps = [None, "", *prices[2:]]
    with pytest.warns(UserWarning, match="Column 0 holds numbers as strings"):
        MemoryClassifier().fit([[value] for value in gaps], table["stays"])
