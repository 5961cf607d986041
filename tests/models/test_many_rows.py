"""A regressor with very many rows: sums that pass 2^63 are exact, in files too, and limits are numbers of rows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryRegressor, NotStoredError, save
from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.wide_sums import exact_values
from hammemo.features.additive.fit_numbers import compute_gram
from hammemo.features.additive.gram import MAX_ROWS, MAX_TARGET, Gram
from hammemo.features.additive.levels import HAT
from hammemo.features.cells import number_trees
from hammemo.features.cells.number_cells import NumberCells
from hammemo.features.cells.number_trees import compute_number_features
from hammemo.files import inspect
from hammemo.files.contents import file_bytes, from_bytes
from hammemo.tasks.numbers.memory import NumberMemory, NumberRows

if TYPE_CHECKING:
    from pathlib import Path


def table(n: int = 400, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).round(3)
    return X, X[:, 0] + rng.normal(size=n) / 9


def restored(data: bytes) -> Any:
    return from_bytes(data)


def expected_targets(state: Any, rows: NumberRows) -> list[int]:
    """Return the products of coordinates and targets in whole numbers of Python."""
    base = state.layout.base.design.encode_rows(rows.inputs.values, rows.inputs.names)
    starts = np.empty(base.n + 1, np.int64)
    index, value = np.empty(base.n_entries, np.uint16), np.empty(base.n_entries, np.int16)
    base.entries(starts, index, value)
    sums = [0] * state.layout.base.design.p
    for row, (first, last) in enumerate(itertools.pairwise(starts.tolist())):
        for at, share in zip(index[first:last].tolist(), value[first:last].tolist(), strict=True):
            sums[at] += share * int(rows.targets[row]) * int(rows.counts[row])
    return sums


def expected_cells(state: Any, rows: NumberRows, part: int) -> list[int]:
    """Return the sums of the cells of a part in whole numbers of Python."""
    forest = state.layout.forests[part]
    sums = [0] * int(forest.cell_sizes.sum())
    for row, leaves in enumerate(rows.leaves[part].tolist()):
        number = int(rows.residuals[part][row]) * int(rows.counts[row])
        for leaf, level in itertools.product(leaves, forest.cell_rows):
            sums[level[leaf]] += number
    return sums


def rows_of(model: Any) -> NumberRows:
    state = model.state
    return NumberRows.from_examples(state.layout, state.rows.examples(), state.seed)


def check_sums(model: Any) -> None:
    state, rows = model.state, rows_of(model)
    gram = state.memory.gram
    pairs = list(zip(rows.targets.tolist(), rows.counts.tolist(), strict=True))
    assert gram.n == sum(often for _, often in pairs)
    assert gram.size == sum(abs(target) * often for target, often in pairs)
    assert gram.squares == sum(target**2 * often for target, often in pairs)
    assert exact_values(gram.targets) == expected_targets(state, rows)
    for part, cells in enumerate(state.memory.cells):
        left = rows.residuals[part].tolist()
        assert cells.size == sum(abs(number) * often for number, often in zip(left, rows.counts.tolist(), strict=True))
        assert exact_values(cells.sums) == expected_cells(state, rows, part)


@pytest.mark.parametrize("weight", [1, 150_000, 25_000_000, 2**30])  # 2^30 of 400 rows: 4 * 10^11 rows
def test_sums_of_any_number_of_rows_are_exact(weight: int, tmp_path: Path) -> None:
    X, y = table()
    model: Any = MemoryRegressor().fit(X, y, sample_weight=np.full(len(X), weight))
    assert model.state.memory.gram.targets.ndim == (1 if weight < 2**20 else 2)
    check_sums(model)
    save(model, tmp_path / "model")
    assert inspect(tmp_path / "model")["examples"] == 400 * weight
    again = restored(file_bytes(model))
    assert again.digest() == model.digest()
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.abs(model.predict(X) - X[:, 0]).mean() < 0.15
    assert np.isfinite(model.predict_interval(X)).all()


def test_weights_and_batches_that_were_refused_are_learned() -> None:
    X, y = table()
    weights = np.full(400, 25_000)
    whole = MemoryRegressor().fit(X, y)
    at_once = whole.snapshot().partial_fit(X, y, sample_weight=weights, choose=False)
    in_two = whole.snapshot()
    for _ in range(2):
        in_two.partial_fit(X, y, sample_weight=weights // 2, choose=False)
    assert at_once.digest() == in_two.digest()
    for _ in range(7):
        in_two.partial_fit(X, y, sample_weight=weights - 5_000, choose=False)
    held = 1 + 25_000 + 7 * 20_000
    fresh = MemoryRegressor().fit(X, y, sample_weight=np.full(400, held))
    assert file_bytes(in_two.refit()) == file_bytes(fresh)


def test_more_rows_than_are_kept_each_many_times() -> None:
    X, y = table(1200)
    model = MemoryRegressor(keep=500).fit(X, y, sample_weight=np.full(1200, 2**20))
    assert model.state.n_examples == 1200 * 2**20
    assert np.abs(model.predict(X) - X[:, 0]).mean() < 0.15


def test_held_out_rows_are_judged_where_sums_have_two_words() -> None:
    X, y = table()
    held_out: Any = MemoryRegressor(random_state=0).fit(X, y).report().held_out
    model: Any = MemoryRegressor(random_state=0).fit(X, y, sample_weight=np.full(400, 2**30))
    assert model.state.memory.gram.targets.ndim == 2
    many: Any = model.report().held_out
    assert many.rows == 400 * 2**30
    assert many.r2 > held_out.r2 - 0.1


def test_sums_that_become_small_again_have_one_word_again() -> None:
    X, y = table(90)
    model: Any = MemoryRegressor().fit(X, y)
    before = file_bytes(model)
    many = np.full(90, 2**33)
    model.partial_fit(X, y, sample_weight=many, choose=False)
    assert model.state.memory.cells[1].sums.ndim == 2
    check_sums(model)
    for _ in range(2):
        model.forget(X, y, sample_weight=many // 2)
    assert model.state.memory.cells[1].sums.ndim == model.state.memory.gram.targets.ndim == 1
    assert model.digest(parts=True)["counts"] == restored(before).digest(parts=True)["counts"]
    assert file_bytes(model.refit()) == before


def test_merged_and_unmerged_sums_change_their_form() -> None:
    X, y = table(90)
    many = np.full(90, 2**32)
    whole: Any = MemoryRegressor().fit(X, y)
    shard: Any = whole.empty_like().partial_fit(X, y, sample_weight=many)
    both: Any = whole + shard
    check_sums(both)
    assert (both - shard).digest(parts=True)["counts"] == whole.digest(parts=True)["counts"]
    assert (both - whole).digest(parts=True)["counts"] == shard.digest(parts=True)["counts"]


def test_the_square_of_a_target_with_many_copies_does_not_wrap() -> None:
    a = (2**20 - 1) / 2**25
    X = np.arange(6.0)[:, None]
    y = np.array([1.0, a, 0.0, 0.0, 0.0, -1.0])
    weights = [1, 60_000_000, 10, 1, 1, 1]
    model = MemoryRegressor().fit(X, y, sample_weight=weights)
    whole = model.state.layout.round_targets(y).tolist()
    exactly = sum(often * int(target) ** 2 for often, target in zip(weights, whole, strict=True))
    assert model.state.memory.gram.squares == exactly
    assert restored(file_bytes(model)).digest() == model.digest()
    one = MemoryRegressor().fit(X, y)
    squares = one.state.memory.gram.squares
    one.partial_fit(X[1:2], y[1:2], sample_weight=[12_000_000], choose=False)
    for _ in range(2):
        one.forget(X[1:2], y[1:2], sample_weight=[6_000_000])
    assert one.state.memory.gram.squares == squares
    assert restored(file_bytes(one)).digest() == one.digest()


def test_limits_are_numbers_of_rows() -> None:
    X, y = table(60)
    most = np.ones(60, np.int64)
    most[0] = MAX_ROWS - 59
    with pytest.raises(ValueError, match=r"holds 0 rows and 1,099,511,627,776 are .* below 2\^40"):
        MemoryRegressor().fit(X, y, sample_weight=most)
    model: Any = MemoryRegressor().fit(X, y)
    before = model.digest()
    with pytest.raises(ValueError, match=r"holds 60 rows and 1,099,511,627,716 are .* Divide all sample_weight"):
        model.partial_fit(X[:1], y[:1], sample_weight=[MAX_ROWS - 60], choose=False)
    assert model.digest() == before
    model.partial_fit(X[:1], y[:1], sample_weight=[MAX_ROWS - 61], choose=False)  # the last one that fits
    check_sums(model)
    with pytest.raises(ValueError, match="below 2"):
        model.learn_one(X[0].tolist(), y[0])
    with pytest.raises(ValueError, match="below 2"):
        model.merge(MemoryRegressor().fit(X, y))
    assert restored(file_bytes(model)).state.n_examples == MAX_ROWS - 1
    model.forget(X[:1], y[:1], sample_weight=[MAX_ROWS - 61])
    assert model.refit().digest() == before


def test_a_matrix_is_exact_at_its_bounds() -> None:
    X, y = table(60)
    design = MemoryRegressor().fit(X, y).state.layout.base.design
    values, names = (
        np.full((2, 2), 1e9),
        np.empty((2, 0), np.uint8),
    )  # far behind the outer knots: the largest coordinates
    counts = np.array([MAX_ROWS - 2, 1])
    for target in (MAX_TARGET, -MAX_TARGET):
        targets = np.array([target, target])
        gram = compute_gram(design, values, names, targets, counts)
        assert gram.products.max() == (MAX_ROWS - 1) * (2 * HAT) ** 2
        assert max(map(abs, exact_values(gram.targets))) == (MAX_ROWS - 1) * 2 * HAT * MAX_TARGET
        assert gram.squares == (MAX_ROWS - 1) * MAX_TARGET**2
        assert gram.is_possible
        assert Gram.from_stored(design.p, StoredArrays(gram.arrays())).targets.tolist() == gram.targets.tolist()
        assert not (gram - gram - gram).is_possible
    with pytest.raises(OverflowError, match="too many"):
        compute_gram(design, values, names, targets, counts + 1)
    with pytest.raises(OverflowError, match="2\\^40 units"):
        compute_gram(design, values, names, targets + np.sign(target), counts)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_features_of_wide_sums_are_those_of_whole_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = table(40, seed)
    state: Any = MemoryRegressor().fit(X, y).state
    rows, forest = rows_of(MemoryRegressor().fit(X, y)), state.layout.forests[0]
    times = rng.integers(1, 2**34, 40)
    numbers = rng.integers(-(2**53), 2**53, 40)
    cells = NumberCells.empty(forest).with_rows(forest, rows.leaves[0], numbers, times)
    assert cells.sums.ndim == 2
    is_out = rng.random(rows.leaves[0].shape) < 0.5
    found = compute_number_features(forest, rows.leaves[0], is_out, cells=cells, numbers=numbers)
    sums, counts = exact_values(cells.sums), cells.counts.tolist()
    expected = np.zeros((40, number_trees.N_FEATURES)).reshape(40, 3, 3, 2)
    for i in range(40):
        for kind in range(3):
            trees = [tree for tree in range(kind, forest.n_trees, 3) if is_out[i, tree]]
            for tree, level in itertools.product(trees, range(3)):
                cell = forest.cell_rows[level, rows.leaves[0][i, tree]]
                without = float(sums[cell] - int(numbers[i]))
                expected[i, kind, level] += [without / (max(counts[cell] - 1, 0) + amount) for amount in (1.0, 10.0)]
            expected[i, kind] /= max(len(trees), 1)
    assert np.array_equal(found, expected.reshape(40, -1))


@pytest.mark.parametrize("weight", [1, 2**32])
def test_files_with_sums_that_no_rows_have_are_refused(weight: int) -> None:
    X, y = table(60)
    model: Any = MemoryRegressor().fit(X, y, sample_weight=np.full(60, weight))
    layout, sound = model.state.layout, model.state.memory.arrays()
    assert NumberMemory.from_stored(layout, StoredArrays(sound)).gram.n == 60 * weight

    def refuse(match: str, **changes: Any) -> None:
        crafted = {**sound, **{name.replace("__", "."): array for name, array in changes.items()}}
        with pytest.raises(ValueError, match=match):
            NumberMemory.from_stored(layout, StoredArrays(crafted))

    n, *size = sound["sizes"].tolist()
    refuse("not that of any rows", sizes=np.array([MAX_ROWS, *size], np.uint64))
    refuse("not that of any rows", sizes=np.array([n, 2**63, 2**63], np.uint64))
    refuse("narrowest", sizes=np.array([n, 5, 0], np.uint64))
    refuse("not that of any rows", sizes=np.array([n], np.uint64))
    refuse("that no rows have|instead of", sizes=np.array([n, 1], np.uint64))
    refuse("not that of any rows", squares=np.full(16, 255, np.uint8))
    refuse("not that of any rows", products=np.where(sound["products"] > 0, 2**62, sound["products"]))
    cells = sound["cells.0.sums"]
    refuse("that no rows have", cells__0__sums=np.full_like(cells, np.iinfo(cells.dtype).max // 2))
    refuse("instead of", cells__0__sums=cells.astype(np.int64) if cells.ndim == 2 else np.stack([cells] * 2).view("u8"))
    refuse("that no rows have", cells__1__size=np.array([0, 2**62], np.uint64))
    counts = sound["cells.0.counts"].copy()
    counts[:2] = 2**62  # with two more like these they would wrap to the right number
    refuse("that no rows have", cells__0__counts=counts)


def test_rows_that_were_never_learned_cannot_make_sums_grow() -> None:
    X, y = table(80)
    model = MemoryRegressor(keep=False).fit(X, y)
    many = [2**30]
    model.partial_fit(X[:1], [y.max()], sample_weight=many)
    with pytest.raises(NotStoredError):  # the same row with minus its target: what is left would be beyond its bound
        model.forget(X[:1], [2 * np.median(y) - y.max()], sample_weight=many)
    with pytest.raises(NotStoredError):
        model.forget(X[:1], y[:1], sample_weight=[2**45])
    model.forget(X[:1], [y.max()], sample_weight=many)
    assert model.digest(parts=True)["counts"] == MemoryRegressor(keep=False).fit(X, y).digest(parts=True)["counts"]
