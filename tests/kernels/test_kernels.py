"""Kernels and their feature map against the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import hamming
from sklearn.exceptions import NotFittedError

from contract_checks.kernels import the_kernel_is_a_similarity, values_are_those_of_the_definition
from hammemo import NO_TOKEN
from hammemo._arrays.integers import object_array
from hammemo.kernels import Decaying, Joined, PositionalHamming, SiteKernel, SiteOneHot, SkipPairs, Suffixes
from hammemo.kernels.sites import collect_sites, find_sites, make_sparse_rows
from hammemo.tokens.contexts import Contexts

pytestmark = pytest.mark.quick

randomly = settings(max_examples=80, deadline=None)

Context = list[Any]
Site = tuple[int, ...]
tokens = st.sampled_from([0, 1, 1.0, 0.5, "a", "1", NO_TOKEN])
full_tokens = st.sampled_from([0, 1, 1.0, 0.5, "a", "1"])


@st.composite
def site_lists(draw: st.DrawFn, h: int) -> list[Site]:
    """Distinct sites of contexts of h tokens, with positions in any order and counted from either end."""
    sets = draw(st.lists(st.frozensets(st.integers(0, h - 1), min_size=1), min_size=1, max_size=5, unique=True))
    ordered = [draw(st.permutations(sorted(site))) for site in sets]
    return [tuple(r - h if draw(st.booleans()) else r for r in site) for site in ordered]


@st.composite
def kernels(draw: st.DrawFn, h: int, weights: st.SearchStrategy[Any]) -> SiteKernel:
    sites = draw(site_lists(h))
    chosen = draw(st.none() | st.lists(weights, min_size=len(sites), max_size=len(sites)).filter(any))
    return SiteKernel([site[0] if len(site) == 1 and draw(st.booleans()) else site for site in sites], chosen)


def batches(h: int, tokens: st.SearchStrategy[Any] = tokens) -> st.SearchStrategy[list[Context]]:
    return st.lists(st.lists(tokens, min_size=h, max_size=h), min_size=1, max_size=8)


lengths = st.integers(1, 4)
whole = st.integers(0, 5)
real = st.floats(0.01, 10) | st.just(0.0)


def objects(rows: list[Context]) -> np.ndarray[Any, Any]:
    return np.stack([object_array(row) for row in rows])


def naive(kernel: SiteKernel, s: Context, q: Context) -> float:
    matched = 0.0
    weights = [1.0] * len(kernel.sites) if kernel.weights is None else kernel.weights
    for site, weight in zip(kernel.sites, weights, strict=True):
        positions: Any = [site] if isinstance(site, int) else site
        if all(s[r] == q[r] != NO_TOKEN for r in positions):
            matched += weight
    return matched / sum(weights)


@given(data=st.data(), h=lengths)
@randomly
def test_a_pair_is_compared_by_definition(data: st.DataObject, h: int) -> None:
    kernel = data.draw(kernels(h, whole))
    s, q = data.draw(st.lists(tokens, min_size=h, max_size=h)), data.draw(st.lists(tokens, min_size=h, max_size=h))
    assert kernel(s, q) == naive(kernel, s, q)


@given(data=st.data(), h=lengths)
@randomly
def test_pairwise_equals_every_single_pair_exactly_with_whole_weights(data: st.DataObject, h: int) -> None:
    kernel, X, Y = data.draw(kernels(h, whole)), data.draw(batches(h)), data.draw(batches(h))
    assert kernel.pairwise(objects(X), objects(Y)).tolist() == [[kernel(s, q) for q in Y] for s in X]


@given(data=st.data(), h=lengths)
@randomly
def test_real_weights_keep_the_promises_of_a_kernel(data: st.DataObject, h: int) -> None:
    kernel, drawn = data.draw(kernels(h, real)), [data.draw(batches(h)), data.draw(batches(h, full_tokens))]
    X, full = ([(context, "", 1) for context in rows] for rows in drawn)
    values_are_those_of_the_definition(kernel, X, full)
    the_kernel_is_a_similarity(kernel, full)


@given(data=st.data(), h=st.integers(1, 9))
@randomly
def test_positional_hamming_is_one_minus_the_hamming_distance(data: st.DataObject, h: int) -> None:
    X = data.draw(st.lists(st.lists(st.integers(0, 2), min_size=h, max_size=h), min_size=2, max_size=8))
    matches = [[h - round(float(hamming(s, q)) * h) for q in X] for s in X]
    expected = [[count / h for count in row] for row in matches]
    assert PositionalHamming().pairwise(X).tolist() == expected
    assert [[PositionalHamming()(s, q) for q in X] for s in X] == expected


def test_no_token_matches_nothing_not_even_itself() -> None:
    kernel = SiteKernel([0, 1, (0, 1)])
    assert kernel([NO_TOKEN, "a"], [NO_TOKEN, "a"]) == 1 / 3
    assert kernel([float(NO_TOKEN), 1], [NO_TOKEN, 1]) == 1 / 3
    assert kernel.pairwise(np.array([[NO_TOKEN, 1], [NO_TOKEN, NO_TOKEN]])).tolist() == [[1 / 3, 0], [0, 0]]
    assert kernel.pairwise(np.full((2, 2), NO_TOKEN)).tolist() == [[0, 0], [0, 0]]


def test_negative_positions_count_from_the_end() -> None:
    sites = SiteKernel([-1, (-3, 1)]).resolve(3)
    assert sites.positions == ((2,), (0, 1))
    assert SiteKernel([-1])(["a", "b"], ["c", "b"]) == 1
    assert SiteKernel([-1])(["a", "b"], ["a", "c"]) == 0


def test_weights_stay_whole_until_the_end() -> None:
    sites = SiteKernel([0, 1], weights=[1, 2]).resolve(2)
    assert sites.weights.tolist() == [1, 2]
    assert sites.total_weight == 3
    assert sites.h == 2


def test_weights_are_equal_by_default() -> None:
    assert SiteKernel([0, 1, (0, 1)]).resolve(2).weights.tolist() == [1, 1, 1]
    assert PositionalHamming().resolve(3).positions == ((0,), (1,), (2,))
    assert PositionalHamming().resolve(3).weights.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("sites", "complaint"),
    [
        ([], "at least one site"),
        ([2], r"names position 2; contexts of 2 have positions -2 to 1"),
        ([-3], r"names position -3"),
        ([(0, 2)], r"\(0, 2\) names position 2"),
        ([0.0], r"names position 0\.0"),
        (["0"], r"'0' names columns, and X has no names of columns"),
        ([None], r"names position None"),
        ([()], r"\(\) is empty"),
        ([(0, 0)], "names a position twice"),
        ([(1, -1)], "names a position twice"),
        ([0, 0], "names a site twice"),
        ([0, -2], "names a site twice"),
        ([0, (0,)], "names a site twice"),
        ([(0, 1), (1, 0)], "names a site twice"),
    ],
)
def test_bad_sites_are_refused(sites: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        SiteKernel(sites).resolve(2)


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        ([1], "needs 2 weights"),
        ([1, 2, 3], "needs 2 weights"),
        ([[1, 2]], "needs 2 weights"),
        (3.0, "needs 2 weights"),
        ([1, -1], "none negative"),
        ([0, 0], "not all zero"),
        ([1, float("nan")], "finite"),
        ([1, float("inf")], "finite"),
    ],
)
def test_bad_weights_are_refused(weights: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        SiteKernel([0, 1], weights).resolve(2)


def test_weights_whose_sum_is_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        SiteKernel([0, 1], [1e308, 1e308]).resolve(2)


def test_contexts_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 and 3 tokens"):
        PositionalHamming()([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="3 features, but SiteOneHot is expecting 2"):
        PositionalHamming().pairwise([[1, 2, 3]], [[1, 2]])


def test_empty_contexts_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one site"):
        PositionalHamming()([], [])


@pytest.mark.parametrize("missing", [None, float("nan")], ids=repr)
def test_missing_values_are_refused(missing: Any) -> None:
    with pytest.raises(ValueError, match="NO_TOKEN"):
        PositionalHamming()(["a", missing], ["a", missing])
    with pytest.raises(ValueError, match="NO_TOKEN"):
        PositionalHamming().pairwise([["a", missing]])


def test_the_default_kernel_is_positional_hamming() -> None:
    features = SiteOneHot().fit_transform([["a", "b"], ["a", "c"]])
    np.testing.assert_allclose((features @ features.T).toarray(), [[1, 0.5], [0.5, 1]], rtol=0, atol=1e-12)


def test_features_have_a_one_in_each_block_when_not_normalized() -> None:
    encoder = SiteOneHot(SiteKernel([0, (0, 1)], weights=[1, 5]), normalize=False)
    assert encoder.fit_transform([["a", "x"], ["b", "x"], ["a", "y"]]).toarray().tolist() == [
        [1, 0, 1, 0, 0],
        [0, 1, 0, 0, 1],
        [1, 0, 0, 1, 0],
    ]


def test_unseen_tokens_and_unseen_tuples_give_empty_blocks() -> None:
    encoder = SiteOneHot(SiteKernel([0, 1, (0, 1)]), normalize=False).fit([["a", "x"], ["b", "y"]])
    assert encoder.transform([["z", "x"], ["a", "y"], ["x", "a"], ["z", "z"]]).toarray().tolist() == [
        [0, 0, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]


def test_feature_names_tell_positions_and_tokens() -> None:
    encoder = SiteOneHot(SiteKernel([-1, (0, 1)])).fit([["b", 3], ["a", 0.5]])
    assert encoder.get_feature_names_out().tolist() == ["1=3", "1=0.5", "0='a',1=0.5", "0='b',1=3"]
    assert encoder.get_feature_names_out().dtype == object


def test_an_encoder_that_was_not_fitted_says_so() -> None:
    with pytest.raises(NotFittedError):
        SiteOneHot().transform([["a"]])
    with pytest.raises(NotFittedError):
        SiteOneHot().get_feature_names_out()


def test_contexts_of_another_length_than_fitted_are_refused() -> None:
    with pytest.raises(ValueError, match="1 features, but SiteOneHot is expecting 2"):
        SiteOneHot().fit([["a", "b"]]).transform([["a"]])


@given(data=st.data(), h=lengths)
@randomly
def test_sites_are_found_where_they_were_collected(data: st.DataObject, h: int) -> None:
    sites = SiteKernel(data.draw(site_lists(h))).resolve(h)
    contexts = Contexts.of(objects(data.draw(batches(h))))
    tuples, ranks = collect_sites(contexts, sites)
    firsts = np.cumsum([0, *map(len, tuples)])[:-1]
    expected = np.where(ranks >= 0, ranks + firsts, -1)
    np.testing.assert_array_equal(find_sites(contexts.ranks, sites, tuples), expected)


@given(data=st.data(), m=st.integers(0, 5), n_sites=st.integers(1, 4))
@randomly
def test_sparse_rows_hold_each_value_in_its_column(data: st.DataObject, m: int, n_sites: int) -> None:
    rows = [[data.draw(st.integers(5 * k, 5 * k + 4) | st.just(-1)) for k in range(n_sites)] for _ in range(m)]
    values = data.draw(st.lists(st.integers(1, 9), min_size=n_sites, max_size=n_sites))
    expected = [[0] * 5 * n_sites for _ in range(m)]
    for i, row in enumerate(rows):
        for value, column in zip(values, row, strict=True):
            if column >= 0:
                expected[i][column] = value
    matrix = make_sparse_rows(np.array(rows, np.int64).reshape(m, n_sites), np.array(values, float), 5 * n_sites)
    assert matrix.toarray().tolist() == expected


# ---------------------------------------------------------------- suffixes, skip pairs, decaying positions, sums

H = 5


@given(s=st.lists(full_tokens, min_size=H, max_size=H), q=st.lists(full_tokens, min_size=H, max_size=H))
@randomly
def test_suffixes_compare_the_longest_common_one(s: Context, q: Context) -> None:
    common = next((i for i in range(H) if s[H - 1 - i] != q[H - 1 - i]), H)
    expected = sum(3**j for j in range(min(common, 4))) / sum(3**j for j in range(4))
    assert Suffixes(4, base=3)(s, q) == pytest.approx(expected, rel=1e-12)


def test_the_sites_of_each_kernel() -> None:
    assert Suffixes(3, 2).resolve(4).positions == ((3,), (2, 3), (1, 2, 3))
    assert Suffixes(3, 2).resolve(4).weights.tolist() == [1, 2, 4]
    assert set(SkipPairs(4).resolve(4).positions) == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)}
    assert Decaying(0.5).resolve(3).weights.tolist() == [0.25, 0.5, 1]
    joined = (Suffixes(2) + SkipPairs(3) + Suffixes(3)).resolve(3)
    assert joined.positions == ((2,), (1, 2), (0, 2), (0, 1), (0, 1, 2))
    assert joined.weights.tolist() == [2, 2, 1, 1, 1]


@given(data=st.data(), h=lengths)
@randomly
def test_a_sum_of_kernels_is_their_weighted_mean(data: st.DataObject, h: int) -> None:
    left, right, X = data.draw(kernels(h, whole)), data.draw(kernels(h, whole)), data.draw(batches(h))
    w, v = left.resolve(h).total_weight, right.resolve(h).total_weight
    expected = (w * left.pairwise(objects(X)) + v * right.pairwise(objects(X))) / (w + v)
    np.testing.assert_allclose((left + right).pairwise(objects(X)), expected, rtol=0, atol=1e-12)


def test_sums_of_kernels_are_flat() -> None:
    parts = [Suffixes(2), SkipPairs(3), Decaying()]
    joined = parts[0] + parts[1] + parts[2]
    assert isinstance(joined, Joined)
    assert joined.kernels == parts
    with pytest.raises(TypeError):
        parts[0] + 3


@pytest.mark.parametrize(
    ("kernel", "complaint"),
    [
        (Suffixes(0), "k=0: give a whole number from 1 to the 4"),
        (Suffixes(5), "k=5"),
        (Suffixes(True), "k=True"),
        (Suffixes(2, base=0), "base=0"),
        (Suffixes(2, base="x"), "base='x'"),  # type: ignore[arg-type]
        (SkipPairs(2), "reach=2: give a whole number from 3"),
        (SkipPairs(5), "reach=5"),
        (Decaying(0), "rate=0"),
        (Decaying(1.5), "rate=1.5"),
        (Decaying(None), "rate=None"),  # type: ignore[arg-type]
        (Joined([]), "list of kernels"),
        (Joined(["a"]), "list of kernels"),  # type: ignore[list-item]
    ],
    ids=repr,
)
def test_shapes_that_do_not_fit_are_refused(kernel: SiteKernel, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        kernel.resolve(4)


FORGED: list[tuple[Any, Any]] = [
    (SiteKernel, 3),
    (Suffixes, [2]),
    (Suffixes, None),
    (SkipPairs, None),
    (SkipPairs, "4"),
    (Joined, True),
    (Joined, []),
    (Joined, [1]),
]


@pytest.mark.parametrize(("kind", "value"), FORGED)
def test_parameters_from_a_forged_file_are_refused_before_sites_are_made(kind: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a list|give a whole number"):
        kind(value).least_sites(3)
