"""The paper's memory: its lemmas over independent draws, its algebra, and its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hammemo import MeMoClassifier
from hammemo.kernels import PositionalHamming, SiteKernel
from hammemo.memories import Exact, Gaussian
from hammemo.memories.gaussian.codes import GaussianCodes, encode
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

DRAWS = 1500
# |z| > 5 has probability 5.7e-7 for a normal mean: below 1e-4 for the at most 100 means compared in this file together.
LARGEST_Z = 5.0


def z_scores(draws: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many standard errors the mean over draws (first axis) is from what is expected."""
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    return np.asarray((draws.mean(axis=0) - expected) / error)


def kernel_draws(contexts: Contexts, d: int, d_h: int | None) -> NDArray[np.float64]:
    """Return the inner products of all pairs of contexts under independent codes."""
    sites = PositionalHamming().resolve(contexts.h)
    draws = []
    for seed in range(DRAWS):
        memory = Gaussian(d, d_h).open(sites, seed)
        keys = encode(contexts, sites, memory.input_codes, np.full(contexts.h, 1 / contexts.h), dtype=np.float64)
        draws.append(keys @ keys.T)
    return np.stack(draws)


@pytest.mark.parametrize(("d", "d_h"), [(12, None), (8, 3), (4, 10)])
def test_lemma_1_the_context_sketch_is_unbiased(d: int, d_h: int | None) -> None:
    X = [["a", "b", "c", "a"], ["a", "b", "d", "d"], ["c", "a", "b", "a"]]
    draws = kernel_draws(Contexts.of(X), d, d_h)
    upper = np.triu_indices(len(X))
    z = z_scores(draws[:, *upper], PositionalHamming().pairwise(X)[upper])
    assert np.abs(z).max() < LARGEST_Z
    # The test has teeth: a bias of a tenth would be seen.
    assert draws[:, *upper].std(axis=0).max() / np.sqrt(DRAWS) * LARGEST_Z < 0.1


def score_draws(X: Any, y: Any, queries: Any, memory: Gaussian, declared: Any = ()) -> NDArray[np.float64]:
    """Return the decoded scores of the queries under independent codes."""
    contexts, stored = Contexts.of(queries), Examples.of(X, y)
    sites = PositionalHamming().resolve(contexts.h)
    draws = []
    for seed in range(DRAWS):
        memory.open(sites, seed, Vocabulary.of(declared))
        memory.add(stored)
        draws.append(memory.reader().scores(contexts, sites.weights) / sites.total_weight)
    return np.stack(draws)


STORED = [["a", "b"], ["a", "b"], ["a", "c"], ["c", "b"], ["d", "d"]]
LABELS = ["a", "a", "b", "c", "c"]
QUERIES = [["a", "b"], ["c", "c"], ["d", "e"]]


@pytest.mark.parametrize("d_h", [None, 3, 20])
def test_lemma_2_the_untied_score_is_unbiased(d_h: int | None) -> None:
    ideal = Exact().open(PositionalHamming().resolve(2))
    ideal.add(Examples.of(STORED, LABELS))
    expected = ideal.reader().scores(Contexts.of(QUERIES), np.ones(2)) / 2
    z = z_scores(score_draws(STORED, LABELS, QUERIES, Gaussian(d=16, d_h=d_h)), expected)
    assert z.shape == (3, 3)
    assert np.abs(z).max() < LARGEST_Z


def test_remark_2_the_tied_score_is_biased_where_output_tokens_stand_in_contexts() -> None:
    # Stored: context "b" with label "b". Asked: context "a", candidate "a", whose ideal score is 0. Tied, the score is
    # <Wa, Wb><a, b>, whose mean over W is <a, b>^2 and over the codes 1/d; untied, it is 0.
    d = 8
    tied = score_draws([["b"]], ["b"], [["a"]], Gaussian(d, tied=True), declared=["a"])[:, 0, 0]
    untied = score_draws([["b"]], ["b"], [["a"]], Gaussian(d), declared=["a"])[:, 0, 0]
    zero, bias = np.array(0.0), np.array(1 / d)
    assert z_scores(tied, zero) > 2 * LARGEST_Z
    assert abs(z_scores(tied, bias)) < LARGEST_Z
    assert abs(z_scores(untied, zero)) < LARGEST_Z


def random_examples(m: int, h: int, n_tokens: int, n_labels: int) -> Examples:
    rng = np.random.default_rng(5)
    return Examples.of(rng.zipf(1.5, (m, h)) % n_tokens, rng.integers(0, n_labels, m), rng.integers(1, 4, m))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kernel", [PositionalHamming(), SiteKernel([0, 3, (1, 2), (0, 1, 3)])])
def test_c_from_counts_is_the_literal_sum_of_outer_products(kernel: SiteKernel, tied: bool) -> None:
    sites, examples = kernel.resolve(4), random_examples(300, 4, 50, 7)
    memory = Gaussian(d=64, d_h=10, tied=tied).open(sites, seed=3)
    memory.add(examples)
    codes = GaussianCodes(3, 64, 10, 4, tied)
    tokens, labels = examples.contexts.vocabulary.tolist(), examples.labels.tolist()
    literal = np.zeros((40, 64))
    for ranks, label, count in zip(examples.contexts.ranks, examples.label_ranks, examples.multiplicity, strict=True):
        held = [tuple(tokens[ranks[r]] for r in site) for site in sites.positions]
        features = [tuple_[0] if len(tuple_) == 1 else tuple_ for tuple_ in held]
        key = (codes.inputs(features).astype(float) @ codes.projection.T.astype(float)).ravel()
        literal += count * np.outer(key, codes.outputs([labels[label]])[0].astype(float))
    np.testing.assert_allclose(memory.C, literal, rtol=0, atol=1e-6 * np.abs(literal).max())


def test_fused_and_two_stage_scores_are_equal_up_to_rounding() -> None:
    examples = random_examples(500, 4, 60, 9)
    sites = PositionalHamming().resolve(4)
    memory = Gaussian(d=256).open(sites)
    memory.add(examples)
    queries = Contexts.of(np.random.default_rng(0).integers(0, 80, (200, 4)))
    reference = memory.reader().scores(queries, sites.weights)
    for form in ("fused", "two-stage"):
        scores = memory.compile(form).scores(queries, sites.weights)
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, reference, rtol=0, atol=2e-6 * np.abs(reference).max())


def test_a_predictor_that_carries_no_codes_computes_them() -> None:
    examples = random_examples(200, 4, 30, 5)
    sites = PositionalHamming().resolve(4)
    memory = Gaussian(d=64).open(sites)
    memory.add(examples)
    bare = memory.compile("fused", Vocabulary())
    assert bare.tensors()["projected_codes"].size == 0
    np.testing.assert_allclose(
        bare.scores(examples.contexts, sites.weights),
        memory.compile("fused").scores(examples.contexts, sites.weights),
    )


@pytest.mark.parametrize(
    ("d", "form", "mebibytes"),
    [
        (128, "fused", "2.06"),
        pytest.param(256, "fused", "4.12", marks=pytest.mark.slow),
        pytest.param(512, "fused", "8.25", marks=pytest.mark.slow),
        (1024, "fused", "16.50"),
        pytest.param(512, "two-stage", "9.25", marks=pytest.mark.slow),
        (1024, "two-stage", "20.50"),
    ],
)
def test_state_column_of_the_paper_s_inference_table(d: int, form: str, mebibytes: str) -> None:
    clf = MeMoClassifier(d).fit(np.arange(64 * 8).reshape(64, 8), np.arange(64))
    predictor = clf.compile(form, vocabulary=range(33_278))
    assert f"{predictor.nbytes / 2**20:.2f}" == mebibytes


def test_dense_counts_of_the_paper_s_inference_table() -> None:
    memory = Exact().open(PositionalHamming().resolve(8))
    memory.add(Examples.of(np.arange(64 * 8).reshape(64, 8), np.arange(64)))
    dense = memory.compile("dense", Vocabulary.of(range(33_278)))
    assert f"{sum(array.nbytes for array in dense.tensors().values()) / 2**20:.2f}" == "65.00"


@pytest.mark.parametrize(("d", "h", "d_h"), [(1024, 8, 128), (100, 3, 33), (2, 8, 1)])
def test_the_memory_is_square_by_default_where_h_divides_d(d: int, h: int, d_h: int) -> None:
    memory = Gaussian(d).open(PositionalHamming().resolve(h))
    assert memory.C.shape == (h * d_h, d)


@pytest.mark.parametrize("parameters", [{"d": 0}, {"d": 2.5}, {"d": 8, "d_h": 0}, {"d": None}])
def test_impossible_dimensions_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="positive whole number"):
        Gaussian(**parameters).open(PositionalHamming().resolve(2))


def test_merging_other_codes_is_refused_with_the_field_s_name() -> None:
    sites = PositionalHamming().resolve(2)
    for name, other in {
        "seed": Gaussian(16).open(sites, seed=2),
        "d_h": Gaussian(16, d_h=4).open(sites, seed=1),
        "tied": Gaussian(16, tied=True).open(sites, seed=1),
    }.items():
        with pytest.raises(ValueError, match=f"{name} is"):
            Gaussian(16).open(sites, seed=1).merge(other)
