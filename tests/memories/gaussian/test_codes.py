"""Codes are pure functions of seed and feature: fixed values, any process, any order, any batch."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hammemo.memories.gaussian.codes
from hammemo.memories.gaussian.codes import CodeCache, GaussianCodes, standard_normals
from hammemo.tokens.hashing import key_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo.tokens.hashing import Feature

randomly = settings(max_examples=60, deadline=None)

FEATURES: list[Feature] = ["cat", 7, -7, 0.5, "7", ("cat", 7), ("cat",), "\ud800", ""]
feature_lists = st.lists(st.sampled_from(FEATURES), unique=True)
MANY = 200_000


@pytest.fixture
def codes() -> GaussianCodes:
    return GaussianCodes(seed=7, d=64, d_h=8, n_sites=3)


def assert_starts(numbers: NDArray[Any], golden: list[float]) -> None:
    np.testing.assert_allclose(numbers[: len(golden)], golden, rtol=0, atol=6e-7)


def test_standard_normals_are_fixed() -> None:
    assert_starts(standard_normals((1, 2), [(3, 0, 0)], 64)[0], [-1.09243, -0.754657, -0.658135, 0.982036, 0.345765])


def test_an_input_code_is_fixed(codes: GaussianCodes) -> None:
    assert_starts(codes.inputs(["cat"])[0], [0.037223, 0.088299, 0.119972, 0.341381, 0.112609])


def test_an_output_code_is_fixed(codes: GaussianCodes) -> None:
    assert_starts(codes.outputs([7])[0], [-0.130972, 0.112008, 0.0471, 0.07461, -0.07153])


def test_the_projection_is_fixed(codes: GaussianCodes) -> None:
    assert codes.projection.shape == (8, 64)
    assert_starts(codes.projection[2], [0.204829, -0.118678, -0.284732, 0.146087, 0.109972])


def test_another_process_has_the_same_codes(codes: GaussianCodes) -> None:
    program = (
        "from hammemo.memories.gaussian.codes import GaussianCodes\n"
        "codes = GaussianCodes(seed=7, d=64, d_h=8, n_sites=3)\n"
        "features = ['cat', 7, 0.5, ('cat', 7)]\n"
        "for part in (codes.inputs(features), codes.outputs(features), codes.projection):\n"
        "    print(part.tobytes().hex())\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    features: list[Feature] = ["cat", 7, 0.5, ("cat", 7)]
    here = [codes.inputs(features), codes.outputs(features), codes.projection]
    assert run.stdout.split() == [part.tobytes().hex() for part in here]


def test_fewer_numbers_are_the_first_of_more() -> None:
    longest = standard_normals((1, 2), [(3, 4, 5)], 100)[0]
    for size in (0, 1, 2, 3, 4, 5, 63):
        np.testing.assert_array_equal(standard_normals((1, 2), [(3, 4, 5)], size)[0], longest[:size])


@given(features=feature_lists, data=st.data())
@randomly
def test_codes_do_not_depend_on_order_or_batch(features: list[Feature], data: st.DataObject) -> None:
    codes = GaussianCodes(seed=7, d=15, d_h=4, n_sites=2)  # Philox makes four numbers at a time
    order = data.draw(st.permutations(range(len(features))))
    for family in (codes.inputs, codes.outputs):
        alone = np.array([family([feature])[0] for feature in features], np.float32).reshape(-1, 15)
        np.testing.assert_array_equal(family(features), alone)
        np.testing.assert_array_equal(family([features[i] for i in order]), alone[order])


def test_different_features_seeds_and_families_have_different_codes(codes: GaussianCodes) -> None:
    other_seed = GaussianCodes(seed=8, d=64, d_h=8, n_sites=3)
    rows = np.concatenate(
        [part for each in (codes, other_seed) for part in (each.inputs(FEATURES), each.outputs(FEATURES))]
    )
    assert len(np.unique(rows, axis=0)) == 4 * len(FEATURES)
    assert not np.array_equal(codes.projection, other_seed.projection)


def test_tied_output_codes_are_the_input_codes(codes: GaussianCodes) -> None:
    tied = GaussianCodes(seed=7, d=64, d_h=8, n_sites=3, tied=True)
    np.testing.assert_array_equal(tied.inputs(FEATURES), codes.inputs(FEATURES))
    np.testing.assert_array_equal(tied.outputs(FEATURES), codes.inputs(FEATURES))


def test_codes_are_the_normals_of_their_family_scaled_and_rounded(codes: GaussianCodes) -> None:
    raw = standard_normals(key_words(7, "input"), [(7, 0, 0)], 64)[0]
    np.testing.assert_array_equal(codes.inputs([7])[0], (raw / 8).astype(np.float32))


@pytest.mark.parametrize("chunk", [1, 130, 2**22])
def test_projected_codes_are_the_projection_times_the_input_codes(
    codes: GaussianCodes, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hammemo.memories.gaussian.codes, "_CHUNK_NUMBERS", chunk)
    expected = [[sum(map(float, w * u.astype(np.float64))) for w in codes.projection] for u in codes.inputs(FEATURES)]
    projected = codes.project(FEATURES)
    assert projected.dtype == np.float32
    np.testing.assert_allclose(projected, expected, rtol=1e-6, atol=1e-9)


def test_no_features_have_no_codes(codes: GaussianCodes) -> None:
    assert codes.inputs([]).shape == (0, 64)
    assert codes.project([]).shape == (0, 8)


def assert_moments(numbers: NDArray[Any], variance: float) -> None:
    """Five standard errors each: by chance a fresh seed fails once in 900,000 (2 x 5.7e-7); seeds are fixed."""
    standard = numbers.astype(np.float64).ravel() / np.sqrt(variance)
    assert abs(standard.mean()) < 5 / np.sqrt(standard.size)
    assert abs((standard**2).mean() - 1) < 5 * np.sqrt(2 / standard.size)


def test_one_stream_has_the_moments_of_the_normal_distribution() -> None:
    assert_moments(standard_normals((1, 2), [(3, 0, 0)], MANY)[0], variance=1)


def test_codes_of_many_features_have_the_papers_variance() -> None:
    codes = GaussianCodes(seed=0, d=100, d_h=4, n_sites=2)
    assert_moments(codes.inputs(range(MANY // 100)), variance=1 / 100)
    assert_moments(codes.outputs([str(i) for i in range(MANY // 100)]), variance=1 / 100)


def test_the_projection_has_the_papers_variance() -> None:
    assert_moments(GaussianCodes(seed=0, d=MANY // 50, d_h=50, n_sites=6).projection, variance=1 / (6 * 50))


@pytest.mark.parametrize("second", ["another feature", "another family", "another seed", "next number"])
def test_codes_are_uncorrelated(second: str) -> None:
    """Five standard errors: by chance each case fails for one fresh seed in 1,700,000; seeds are fixed."""
    codes = GaussianCodes(seed=0, d=MANY, d_h=1, n_sites=1)
    one = codes.inputs([0])[0].astype(np.float64)
    other = {
        "another feature": lambda: codes.inputs([1])[0],
        "another family": lambda: codes.outputs([0])[0],
        "another seed": lambda: GaussianCodes(seed=1, d=MANY, d_h=1, n_sites=1).inputs([0])[0],
        "next number": lambda: np.roll(codes.inputs([0])[0], 1),
    }[second]()
    assert abs(one @ other) < 5 / np.sqrt(MANY)


class Counted:
    """Codes of three numbers, and what was asked for."""

    def __init__(self) -> None:
        self.codes = GaussianCodes(seed=3, d=3, d_h=1, n_sites=1)
        self.calls: list[list[Feature]] = []

    def __call__(self, features: Sequence[Feature]) -> NDArray[np.float32]:
        self.calls.append(list(features))
        return self.codes.inputs(features)


def test_a_cache_without_keep_computes_each_time() -> None:
    compute = Counted()
    cache = CodeCache(compute, width=3)
    for _ in range(2):
        np.testing.assert_array_equal(cache.get(["cat", 7]), compute.codes.inputs(["cat", 7]))
    assert compute.calls == [["cat", 7], ["cat", 7]]
    assert cache.features() == []


def test_a_cache_computes_what_it_kept_only_once() -> None:
    compute = Counted()
    cache = CodeCache(compute, width=3)
    cache.get(["cat", 7], keep=True)
    np.testing.assert_array_equal(cache.get([7, "cat"]), compute.codes.inputs([7, "cat"]))
    np.testing.assert_array_equal(cache.get([7, "dog", "cat"]), compute.codes.inputs([7, "dog", "cat"]))
    assert compute.calls == [["cat", 7], ["dog"]]


def test_a_cache_that_grows_one_by_one_holds_everything() -> None:
    compute = Counted()
    cache = CodeCache(compute, width=3)
    for feature in FEATURES:
        cache.get([feature], keep=True)
    assert cache.features() == FEATURES
    np.testing.assert_array_equal(cache.rows, compute.codes.inputs(FEATURES))
    np.testing.assert_array_equal(cache.get(FEATURES), cache.rows)
    assert compute.calls == [[feature] for feature in FEATURES]


def test_writing_into_what_a_cache_returned_changes_no_later_result() -> None:
    cache = CodeCache(Counted(), width=3)
    cache.get(["cat"], keep=True)[:] = 0
    cache.get(["cat"])[:] = 0
    np.testing.assert_array_equal(cache.get(["cat"]), Counted()(["cat"]))


@given(requests=st.lists(st.tuples(feature_lists, st.booleans())))
@randomly
def test_any_requests_to_a_cache_get_what_compute_gives(requests: list[tuple[list[Feature], bool]]) -> None:
    compute = Counted()
    cache = CodeCache(compute, width=3)
    kept: list[Feature] = []
    for features, keep in requests:
        compute.calls.clear()
        missing = [feature for feature in features if feature not in kept]
        np.testing.assert_array_equal(cache.get(features, keep=keep), compute.codes.inputs(features))
        assert compute.calls == ([missing] if missing else [])
        kept += missing if keep else []
    assert cache.features() == kept
    np.testing.assert_array_equal(cache.rows, compute.codes.inputs(kept))
