"""The additive base: exact rows, fits that do not depend on order, threads or the processor, files, edge cases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import _native
from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.threads import threads_used
from hammemo.features.additive import (
    AdditiveBase,
    AdditiveDesign,
    choose_design,
    fit_class_base,
    fit_number_base,
)
from hammemo.features.additive.additive_base import NAT, with_all_labels
from hammemo.features.additive.base_folds import FOLDS, count_in_folds
from hammemo.features.additive.fit_numbers import compute_gram, solve_coefficients
from hammemo.features.additive.label_base import BaseAnswers, LabelBase
from hammemo.features.cells.column_codes import ColumnCodes, choose_codes
from hammemo.tokens.column_kinds import NAMES, NUMBERS
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.hashing import mix
from hammemo.tokens.vocabulary import Vocabulary
from twins import additive as plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

HUGE = 1.7e308


def codes_of(n_ordered: int, n_names: int) -> ColumnCodes:
    """Return codes whose columns are numbers, then names: the base asks them for the owners of columns only."""
    kinds = (NUMBERS,) * n_ordered + (NAMES,) * n_names
    nothing = Contexts(np.empty((0, len(kinds)), object))
    return choose_codes(kinds, nothing, np.empty(0, np.int64), pairs=np.empty((0, 2), np.int64), seed=0)


def table(seed: int, n: int, n_ordered: int, n_names: int) -> dict[str, Any]:
    """Return rows with missing values, frequent values and names, in the order of their hashes."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, n_ordered)) * 10.0 ** rng.integers(-3, 4, n_ordered)
    values[rng.random(values.shape) < 0.1] = np.nan
    values[rng.random(values.shape) < 0.2] = 0.0
    values[:, rng.random(n_ordered) < 0.3] = rng.integers(0, 4)
    names = rng.integers(0, 60, (n, n_names)).astype(np.uint8) ** 2 % 60
    return {
        "codes": codes_of(n_ordered, n_names),
        "values": values,
        "name_codes": names.astype(np.uint8),
        "counts": rng.integers(1, 4, n),
        "words": np.sort(mix(np.arange(n, dtype=np.uint64) + np.uint64(seed * 1000))),
    }


def labelled(rows: dict[str, Any], n_labels: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    n = len(rows["words"])
    signal = np.nan_to_num(rows["values"] / 10.0).sum(axis=1) + (rows["name_codes"] % 3).sum(axis=1)
    labels = (np.digitize(signal + 0.3 * rng.normal(size=n), np.arange(1, n_labels)) if n else np.empty(0)).astype(int)
    return {**rows, "labels": labels, "n_labels": n_labels}


def targeted(rows: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    signal = np.nan_to_num(rows["values"]).clip(-5, 5).sum(axis=1) + (rows["name_codes"] % 3).sum(axis=1)
    return {**rows, "targets": np.rint((signal + rng.normal(size=len(signal))) * 2.0**20).astype(np.int64)}


def shuffled(rows: dict[str, Any], seed: int) -> dict[str, Any]:
    order = np.random.default_rng(seed).permutation(len(rows["words"]))
    return {name: part[order] if isinstance(part, np.ndarray) else part for name, part in rows.items()}


def design_of(rows: dict[str, Any], pairs: list[tuple[int, int]]) -> AdditiveDesign:
    made = choose_design(rows["codes"], rows["values"], rows["name_codes"], rows["counts"])
    return replace(made, pairs=np.array(pairs, np.int64).reshape(-1, 2))


def plain_rows(design: AdditiveDesign, rows: dict[str, Any]) -> plain.AdditiveRows:
    fine, coarse = design.fine_levels, design.coarse_levels
    return plain.AdditiveRows.of(rows["values"], rows["name_codes"], fine, coarse, design.pairs)


def plain_modes(design: AdditiveDesign) -> plain.AdditiveModes:
    blocks = design.fit_coordinates.blocks
    rows, columns = (np.cumsum([0, *(block.shape[axis] for block in blocks)]) for axis in (0, 1))
    return plain.AdditiveModes.of(rows, columns, np.concatenate([block.ravel() for block in blocks]))


cases = st.tuples(st.integers(0, 10_000), st.integers(1, 60), st.integers(0, 4), st.integers(0, 3)).filter(
    lambda case: case[2] + case[3] > 0
)


@settings(max_examples=60, deadline=None)
@given(cases, st.integers(1, 4))
def test_compiled_loops_and_plain_twins_are_equal(case: tuple[int, ...], outputs: int) -> None:
    rows, rng = table(*case), np.random.default_rng(case[0])
    n_columns = case[2] + case[3]
    design = design_of(rows, [(a, b) for a in range(n_columns) for b in range(a + 1, n_columns)][:3])
    asked = {**rows, "values": rows["values"] * rng.choice([1.0, 1e300, -3.0], rows["values"].shape)}
    asked["name_codes"] = rng.integers(0, 256, rows["name_codes"].shape).astype(np.uint8)
    for some in (rows, asked):
        made, twin = design.encode_rows(some["values"], some["name_codes"]), plain_rows(design, some)
        starts, index, value = (
            np.empty(made.n + 1, np.int64),
            np.empty(made.n_entries, np.uint16),
            np.empty(made.n_entries, np.int16),
        )
        made.entries(starts, index, value)
        dense = np.zeros((made.n, design.p), np.int64)
        dense[np.repeat(np.arange(made.n), np.diff(starts)), index] = value
        assert (dense == twin.matrix).all()
        assert made.n_entries == twin.n_entries
    made, twin = design.encode_rows(rows["values"], rows["name_codes"]), plain_rows(design, rows)
    # whole numbers: equal
    coefficients = rng.integers(-(2**30), 2**30, (design.p, outputs))
    for one, other in (np.empty((2, made.n * outputs), np.int64),):
        made.scores(coefficients, one)
        twin.scores(coefficients, other)
        assert (one == other).all()
    targets, sums = rng.integers(-(2**30), 2**30, made.n), np.zeros((2, design.p * (design.p + 1)), np.int64)
    both: list[Any] = [made, twin]
    for rows_of, out in zip(both, sums, strict=True):
        rows_of.add_gram(rows["counts"], targets, out[: design.p**2], out[design.p**2 :])
    assert (sums[0] == sums[1]).all()
    # numbers: equal up to rounding
    modes, twin_modes, q = design.modes, plain_modes(design), len(design.groups)
    labels = rng.integers(0, 2 if outputs == 1 else outputs, made.n).astype(np.int32)
    weights = rows["counts"] * (rng.random(made.n) < 0.8)
    weights, phi = weights.astype(float), rng.normal(size=(outputs, q)) * 0.1
    found, inverses = np.empty((2, q * q)), np.empty((2, q, q))
    made.curvature(labels, weights, modes, phi, 20, found[0])
    twin.curvature(labels, weights, twin_modes, phi, 20, found[1])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-9)
    fold_weights = rng.integers(0, 3, (5, made.n)).astype(float)
    slopes = np.empty((2, 5 * outputs * q))
    made.fold_slopes(labels, fold_weights, modes, phi, slopes[0])
    twin.fold_slopes(labels, fold_weights, twin_modes, phi, slopes[1])
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-9, atol=1e-9)
    penalties = rng.uniform(0.5, 2.0, q)
    whole = found[0].reshape(q, q) + np.diag(penalties)
    assert _native.inverse_root(whole, inverses[0].reshape(-1))
    assert plain.inverse_root(whole, inverses[1].reshape(-1))
    np.testing.assert_allclose(inverses[0], inverses[1], rtol=1e-8, atol=1e-10)
    ends = np.stack([phi, phi])
    center = rng.normal(size=phi.shape) * 0.5
    both_modes: list[Any] = [modes, twin_modes]
    for rows_of, own, end in zip(both, both_modes, ends, strict=True):
        rows_of.fit(labels, weights, own, inverses[0], penalties, center, 500, 1e-13, end)
    np.testing.assert_allclose(ends[0], ends[1], atol=2e-3)
    turned = np.empty((2, q * q))
    upper = rng.normal(size=(design.p, design.p))
    modes.turn(upper, turned[0])
    twin_modes.turn(upper, turned[1])
    np.testing.assert_allclose(turned[0], turned[1], rtol=1e-9, atol=1e-7)
    applied, back = np.empty((2, design.p * outputs)), np.empty((2, q))
    for own, to_rows, to_modes in zip(both_modes, applied, back, strict=True):
        own.apply(phi, to_rows)
        own.apply_turned(upper[0], to_modes)
    np.testing.assert_allclose(applied[0], applied[1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(back[0], back[1], rtol=1e-9, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(cases, st.integers(1, 3))
def test_shares_and_scores_of_pairs_are_those_of_the_plain_twins(case: tuple[int, ...], outputs: int) -> None:
    rng = np.random.default_rng(case[0])
    n, columns = case[1], case[2] + case[3]
    scores, weights = rng.integers(-(2**21), 2**21, (n, outputs)), rng.random(n)
    both: list[Any] = [_native, plain]
    labels, shares = rng.integers(0, max(outputs, 2), n).astype(np.int32), np.empty((2, n * outputs))
    losses = [of.label_shares(scores, labels, weights, 13.0, out) for of, out in zip(both, shares, strict=True)]
    np.testing.assert_allclose(shares[0], shares[1], rtol=1e-12)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-10, atol=1e-12)
    sizes = rng.integers(1, 6, columns)
    cells = (rng.integers(0, 2**20, (columns, n)) % sizes[:, None]).astype(np.uint8)
    left, spread = rng.integers(-NAT, NAT, (n, outputs)), rng.integers(0, NAT, (n, outputs))
    found = np.empty((2, columns * (columns - 1) // 2))
    _native.pair_scores(cells, sizes, left, spread, 1.0, found[0])
    plain.pair_scores(cells, sizes, left, spread, 1.0, found[1])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_order_of_rows_and_threads_change_no_byte(n_labels: int) -> None:
    rows = labelled(table(1, 700, 4, 2), n_labels)
    rows["words"][100:110] = rows["words"][100]  # different rows may share a hash
    base = fit_class_base(**rows)
    assert fit_class_base(**shuffled(rows, 1)).digest() == base.digest()
    with threads_used(3):
        assert fit_class_base(**shuffled(rows, 2)).digest() == base.digest()


def test_order_of_rows_and_threads_change_no_byte_of_a_base_for_numbers() -> None:
    rows = targeted(table(2, 700, 4, 2))
    base, gram = fit_number_base(**rows)
    with threads_used(3):
        again, other = fit_number_base(**shuffled(rows, 1))
    assert again.digest() == base.digest()
    assert (gram.products == other.products).all()
    assert (
        gram.squares
        == other.squares
        == sum(int(t) ** 2 * int(c) for t, c in zip(rows["targets"], rows["counts"], strict=True))
    )


def test_a_sum_of_effects_and_a_product_are_found() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    values, names = rng.normal(size=(n, 4)), rng.integers(1, 5, (n, 1)).astype(np.uint8)
    f = np.abs(values[:, 0]) + np.array([0, -1, 0.5, 0, 1])[names[:, 0]] + 1.5 * np.sign(values[:, 1] * values[:, 2])
    rows: dict[str, Any] = {
        "codes": codes_of(4, 1),
        "values": values,
        "name_codes": names,
        "counts": np.ones(n, np.int64),
        "words": np.sort(rng.integers(0, 2**63, n).astype(np.uint64)),
    }
    base, _ = fit_number_base(**rows, targets=np.rint(f * 2.0**20).astype(np.int64))
    assert [1, 2] in base.design.pairs.tolist()
    left = base.scores(values, names)[:, 0] / 2**20 - f
    assert left.std() < 0.5 * f.std()
    labels = (f + rng.logistic(size=n) * 0.3 > 0.5).astype(int)
    classes = fit_class_base(**rows, labels=labels, n_labels=2)
    assert [1, 2] in classes.design.pairs.tolist()
    assert (classes.scores(values, names).argmax(axis=1) == labels).mean() > 0.85
    # rows left out are answered by coefficients that have not seen them: worse than by those that have
    folds = (rows["words"] % np.uint64(FOLDS)).astype(np.int64)
    crossed = base.scores_without_folds(values, names, folds)[:, 0] / 2**20 - f
    assert left.std() < crossed.std() < 0.6 * f.std()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 3), st.integers(0, 2), st.integers(2, 4))
def test_tables_by_byte_are_the_function_of_values(seed: int, n_ordered: int, n_names: int, n_labels: int) -> None:
    rows = labelled(table(seed, 250, n_ordered, n_names), n_labels)
    values, names = rows["values"], rows["name_codes"]
    base = fit_class_base(**rows)
    known = [np.unique(column[~np.isnan(column)]) for column in values.T]
    middles = [np.append(np.nan, own) for own in known]
    steps = [np.where(np.isnan(x), 0, 1 + np.searchsorted(own, x)) for own, x in zip(known, values.T, strict=True)]
    coded = np.ascontiguousarray(np.column_stack([*steps, names, np.zeros(250)]).astype(np.uint8))
    tables = base.design.tabulate(base.coefficients, middles)
    np.testing.assert_array_equal(
        with_all_labels(plain.table_scores(tables, coded), n_labels), base.scores(values, names)
    )
    whole = base.contributions(coded, middles).sum(axis=0) + base.coefficients[0]
    assert np.abs(with_all_labels(whole, n_labels) - base.scores(values, names)).max() <= 1
    labels = Vocabulary(np.arange(n_labels))
    of_labels = LabelBase(base, labels, np.arange(1, n_labels + 1))
    answered = Vocabulary(np.array([0, 1, n_labels + 5]))  # the last one is unknown
    weights = np.random.default_rng(seed).random(3)
    (found, twin, expected), answers = np.ones((3, 250, 3)), BaseAnswers(of_labels, middles, answered, weights)
    answers.add(coded, found)
    plain.add_ratios(answers, coded, twin)
    expected += weights * of_labels.ratios(values, names, answered)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, twin)


def test_a_memory_of_sums_forgets_exactly() -> None:
    rows = targeted(table(4, 800, 3, 1))
    base, gram = fit_number_base(**rows)
    own = rows["values"][:300], rows["name_codes"][:300], rows["targets"][:300]
    less = gram - compute_gram(base.design, *own, rows["counts"][:300])
    rest = compute_gram(base.design, *(rows[name][300:] for name in ("values", "name_codes", "targets", "counts")))
    assert (less.products == rest.products).all()
    assert (less.targets == rest.targets).all()
    assert (less.squares, less.n) == (rest.squares, rest.n)
    assert (solve_coefficients(base.design, base.penalties, gram) == base.coefficients).all()
    assert (solve_coefficients(base.design, base.penalties, less - rest) == 0).all()
    with pytest.raises(OverflowError, match="above 2"):
        compute_gram(base.design, *own[:2], np.full(300, 2**50), rows["counts"][:300])


def test_copies_of_a_row_lie_in_all_folds() -> None:
    words, counts = np.array([7, 2**64 - 1, 10], np.uint64), np.array([1, 12, 10**12])
    found = count_in_folds(words, counts)
    assert (found.sum(axis=0) == counts).all()
    assert (np.ptp(found, axis=0) <= 1).all()
    fewer = count_in_folds(words, counts - 1)
    assert ((found - fewer).sum(axis=0) == 1).all()  # the copy with the highest number goes


@pytest.mark.parametrize("make", ["classes", "numbers"])
def test_a_base_comes_back_from_its_arrays_and_damage_is_refused(make: str) -> None:
    rows = table(5, 300, 3, 2)
    base = fit_class_base(**labelled(rows, 2)) if make == "classes" else fit_number_base(**targeted(rows))[0]
    described, arrays = base.describe(), base.arrays()
    again = AdditiveBase.from_stored(described, StoredArrays(arrays))
    assert again.digest() == base.digest()
    assert (again.scores(rows["values"], rows["name_codes"]) == base.scores(rows["values"], rows["name_codes"])).all()
    wrong: list[tuple[dict[str, Any], dict[str, NDArray[Any]]]] = [
        ({**described, "n_labels": 5}, arrays),
        ({**described, "owners": described["owners"][1:]}, arrays),
        ({**described, "n_ordered": 99}, arrays),
        (described, {**arrays, "design.knots": arrays["design.knots"][::-1]}),
        (described, {**arrays, "design.knots": arrays["design.knots"] * np.nan}),
        (described, {**arrays, "design.names": arrays["design.names"] * 0}),
        (described, {**arrays, "design.pairs": np.array([[0, 9]], np.uint16)}),
        (described, {**arrays, "coefficients": arrays["coefficients"] + 2**50}),
        (described, {**arrays, "crossed": arrays["crossed"][1:]}),
        (described, {**arrays, "penalties": -arrays["penalties"]}),
    ]
    for description, stored in wrong:
        with pytest.raises(ValueError, match=r"."):
            AdditiveBase.from_stored(description, StoredArrays(stored))


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (np.full((40, 2), 3.0), np.zeros((40, 0))),
        (np.full((40, 2), np.nan), np.zeros((40, 1))),
        (np.empty((40, 0)), np.arange(80).reshape(40, 2) % 7),
        (HUGE * np.linspace(-1, 1, 80).reshape(40, 2), np.zeros((40, 0))),
        (np.array([5e-324, 1e300, -1e300, np.nan, 0, 1, 2, 3] * 10).reshape(40, 2), np.zeros((40, 0))),
        (np.array([0.0, 5e-324] * 40).reshape(40, 2)[:, ::-1].copy(), np.zeros((40, 0))),
        (np.array([0.0, 1.0, 5e-324, 5e-324] * 20).reshape(40, 2), np.zeros((40, 0))),
        (np.array([np.inf, -np.inf, 0.0, 1.0] * 20).reshape(40, 2), np.zeros((40, 0))),
        (np.empty((0, 3)), np.zeros((0, 1))),
        (np.ones((1, 1)), np.ones((1, 1))),
    ],
)
def test_odd_tables_have_a_base(values: NDArray[Any], names: NDArray[Any]) -> None:
    n = len(values)
    rows: dict[str, Any] = {
        "codes": codes_of(values.shape[1], names.shape[1]),
        "values": values,
        "name_codes": names.astype(np.uint8),
        "counts": np.ones(n, np.int64),
        "words": np.arange(n, dtype=np.uint64),
    }
    for n_labels in (1, 2, 256):
        base = fit_class_base(**rows, labels=np.arange(n) % n_labels, n_labels=n_labels)
        assert base.scores(values, rows["name_codes"]).shape == (n, n_labels)
        assert AdditiveBase.from_stored(base.describe(), StoredArrays(base.arrays())).digest() == base.digest()
    base, gram = fit_number_base(**rows, targets=np.arange(n) * 1000)
    assert gram.n == n
    assert np.abs(base.scores(values, rows["name_codes"])).max(initial=0) < 2**20


def test_a_fold_without_rows_and_a_constant_target() -> None:
    rows = table(6, 50, 2, 1)
    rows["words"], rows["counts"] = np.arange(50, dtype=np.uint64) * FOLDS, np.ones(50, np.int64)  # all in fold 0
    base = fit_class_base(**labelled(rows, 2))
    assert np.abs(base.crossed[0][1:]).max(initial=0) <= NAT
    constant, _ = fit_number_base(**rows, targets=np.full(50, 12345))
    assert np.abs(constant.scores(rows["values"], rows["name_codes"]) - 12345).max() <= 1


def test_wide_tables_have_few_coordinates_in_each_column() -> None:
    rows = table(7, 120, 300, 0)
    base, _ = fit_number_base(**targeted(rows))
    assert base.design.p <= 1000
    assert max(map(len, base.design.knots)) == 2


def test_a_row_that_goes_rarely_moves_a_knot() -> None:
    rng = np.random.default_rng(0)
    values, counts = rng.normal(size=(500, 1)), np.ones(500, np.int64)
    codes, nothing = codes_of(1, 0), np.empty((500, 0), np.uint8)
    knots = choose_design(codes, values, nothing, counts).knots[0]
    moved = 0
    for row in range(0, 500, 10):
        rest = np.delete(values, row, axis=0)
        found = choose_design(codes, rest, nothing[1:], counts[1:]).knots[0]
        moved += len(set(knots.tolist()) ^ set(found.tolist()))
    assert 12 <= len(knots) <= 15
    assert moved < 50 * 2 * len(knots) / 20
