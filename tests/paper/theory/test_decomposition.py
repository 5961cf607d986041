"""The decomposition against the paper's formulas, written out example by example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import NO_TOKEN, MeMoClassifier, MemoryClassifier
from hammemo.kernels import SiteKernel
from hammemo.memories import Exact, Gaussian
from hammemo.memories.gaussian.codes import GaussianCodes
from hammemo.paper.theory import Decomposition, count_norms, decompose, margin_preserved

pytestmark = pytest.mark.quick

KERNELS: list[SiteKernel | None] = [None, SiteKernel([0, 2, (0, 1), (1, 2)], weights=[1, 2, 3, 1])]
TOKENS = ["a", "b", "c", 1, 2, NO_TOKEN]
rows = st.lists(st.lists(st.sampled_from(TOKENS), min_size=3, max_size=3), min_size=1, max_size=8)


def object_rows(contexts: list[list[Any]]) -> np.ndarray[Any, Any]:
    X = np.empty((len(contexts), 3), object)
    for i, context in enumerate(contexts):
        X[i] = context
    return X


def site_features(kernel: SiteKernel | None, context: list[Any]) -> list[Any]:
    sites = [(0,), (1,), (2,)] if kernel is None else kernel.resolve(3).positions
    held = [tuple(context[r] for r in site) for site in sites]
    return [None if NO_TOKEN in f else f[0] if len(f) == 1 else f for f in held]


def literal(kernel: SiteKernel | None, X: Any, y: list[str], queries: Any, d: int) -> tuple[Any, Any]:
    """Return G and the decoded scores from one inner product per pair of contexts."""
    weights = np.ones(3) if kernel is None else kernel.resolve(3).weights
    codes = GaussianCodes(0, d, max(1, round(d / len(weights))), len(weights))
    labels = sorted(set(y))

    def blocks(context: list[Any]) -> list[Any]:
        return [
            np.zeros(codes.d_h) if f is None else codes.project([f])[0].astype(float)
            for f in site_features(kernel, context)
        ]

    G = np.zeros((len(queries), len(labels)))
    for i, q in enumerate(queries):
        for s, label in zip(X, y, strict=True):
            shares = [len(weights) * w * (a @ b) for w, a, b in zip(weights, blocks(q), blocks(s), strict=True)]
            G[i, labels.index(label)] += sum(shares) / weights.sum()
    Z = codes.outputs(labels).astype(float)
    return G, G @ (Z @ Z.T)


@pytest.mark.parametrize("kernel", KERNELS, ids=["positions", "tuples"])
@given(stored=rows, asked=rows, data=st.data())
@settings(max_examples=25, deadline=None)
def test_stages_equal_the_paper_s_sums(kernel: SiteKernel | None, stored: Any, asked: Any, data: Any) -> None:
    y = data.draw(st.lists(st.sampled_from(["x", "y", "z"]), min_size=len(stored), max_size=len(stored)))
    X, Q = object_rows(stored), object_rows(asked)
    parts = decompose(
        MeMoClassifier(32, kernel=kernel).fit(X, y), MemoryClassifier(kernel, Exact(), vote="sum").fit(X, y), Q
    )
    G, decoded = literal(kernel, stored, y, asked, 32)
    np.testing.assert_allclose(parts.before_decoding, G, atol=1e-5)
    np.testing.assert_allclose(parts.decoded, decoded, atol=1e-5)
    np.testing.assert_array_equal(parts.ideal, MemoryClassifier(kernel, Exact(), vote="sum").fit(X, y).class_scores(Q))


def test_a_twin_that_reads_numbers_is_refused() -> None:
    X, y = np.random.default_rng(5).integers(0, 9, (200, 4)), ["a", "b"] * 100
    twin = MemoryClassifier(memory=Exact(), vote="sum").fit(X, y)
    why = "The twin reads numbers, and the paper's model tokens: fit it with kernel='positional'"
    with pytest.raises(ValueError, match=why):
        decompose(MeMoClassifier(8).fit(X, y), twin, X)
    with pytest.raises(ValueError, match=why):
        count_norms(twin, X)


def test_a_memory_with_exact_codes_decomposes_too() -> None:
    rng = np.random.default_rng(5)
    X, y = rng.integers(0, 9, (200, 4)), rng.integers(0, 5, 200)
    twin = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
    parts = decompose(MeMoClassifier(64, exact=True).fit(X, y), twin, X[:20])
    error = parts.context_error + parts.norm_error + parts.cross_talk
    np.testing.assert_allclose(parts.decoded, parts.ideal + error, rtol=0, atol=1e-9)
    plain = decompose(MeMoClassifier(64).fit(X, y), twin, X[:20])  # the same codes, up to the rounding of each
    np.testing.assert_allclose(parts.decoded, plain.decoded, rtol=0, atol=0.02 * np.abs(plain.decoded).max())


@pytest.fixture(scope="module")
def parts() -> Decomposition:
    rng = np.random.default_rng(3)
    X, y, Q = rng.integers(0, 9, (200, 4)), rng.integers(0, 5, 200), rng.integers(0, 9, (20, 4))
    classes = range(8)  # three candidates without examples
    sketch = MeMoClassifier(64).partial_fit(X, y, classes=classes)
    return decompose(
        sketch, MemoryClassifier("positional", memory=Exact(), vote="sum").partial_fit(X, y, classes=classes), Q
    )


def test_the_parts_add_up(parts: Decomposition) -> None:
    np.testing.assert_allclose(parts.norm_error + parts.cross_talk, parts.output_interference, atol=1e-9)
    np.testing.assert_allclose(parts.context_error + parts.output_interference, parts.decoded - parts.ideal, atol=1e-12)
    assert (np.abs(parts.decoded - parts.ideal).max(axis=1) == parts.score_error).all()


def test_the_quantities_of_the_bounds(parts: Decomposition) -> None:
    assert parts.largest_class == parts.label_counts.max()
    assert parts.n_observed_labels == 5
    ordered = np.sort(parts.ideal, axis=1)
    np.testing.assert_array_equal(parts.margin, ordered[:, -1] - ordered[:, -2])
    np.testing.assert_array_equal(parts.ideal[np.arange(20), parts.winner], ordered[:, -1])
    np.testing.assert_allclose(parts.ideal_energy, (parts.ideal**2).sum(axis=1))
    np.testing.assert_allclose(parts.realised_energy, (parts.before_decoding**2).sum(axis=1))
    np.testing.assert_array_equal(parts.agrees, parts.decoded.argmax(axis=1) == parts.winner)
    assert (parts.before_decoding[:, 5:] == 0).all()


def test_norm_error_and_cross_talk_by_their_definitions(parts: Decomposition) -> None:
    G, Z = parts.before_decoding, GaussianCodes(0, 64, 16, 4).outputs(range(8)).astype(float)
    np.testing.assert_allclose(parts.norm_error, G * ((Z**2).sum(axis=1) - 1), atol=1e-9)
    for c in range(8):
        others = [y for y in range(8) if y != c]
        np.testing.assert_allclose(parts.cross_talk[:, c], G[:, others] @ (Z[others] @ Z[c]), atol=1e-9)


@pytest.mark.long
def test_cross_talk_has_the_variance_of_the_paper() -> None:
    """Divided by L_c |z_c| / sqrt(d), the cross-talk of a label is a standard normal number."""
    X, y, d = [["a", "b"], ["a", "c"], ["b", "c"]], ["x", "y", "y"], 16
    twin = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
    drawn = []
    for seed in range(400):
        sketch = MeMoClassifier(d, random_state=seed).fit(X, y)
        parts = decompose(sketch, twin, [["a", "b"]])
        norm = np.linalg.norm(sketch.memory_.codes.outputs(["x"])[0])
        drawn.append(parts.cross_talk[0, 0] / (abs(parts.before_decoding[0, 1]) * norm / np.sqrt(d)))
    assert abs(np.mean(drawn)) < 5 / np.sqrt(400)
    assert abs(np.square(drawn).mean() - 1) < 5 * np.sqrt(2 / 400)


def test_the_energy_of_distinct_and_of_repeated_labels() -> None:
    """M contexts of similarity rho: M rho^2 under distinct labels, M^2 rho^2 under one."""
    X, q = [["a", str(i)] for i in range(6)], [["a", "?"]]
    for labels, energy in (("uvwxyz", 6 / 4), ("u" * 6, 36 / 4)):
        twin = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, list(labels))
        assert decompose(MeMoClassifier(8).fit(X, list(labels)), twin, q).ideal_energy.tolist() == [energy]


def test_the_realised_energy_is_within_its_envelope(parts: Decomposition) -> None:
    context = np.abs(parts.context_error).max(axis=1)
    envelope = np.sqrt(parts.ideal_energy) + np.sqrt(parts.n_observed_labels) * context
    assert (np.sqrt(parts.realised_energy) <= envelope).all()
    assert (parts.ideal_energy <= parts.label_counts.sum() * parts.largest_class).all()  # C_H <= M M_max


def test_theorem_3_margin_a_small_error_keeps_the_winner() -> None:
    rng = np.random.default_rng(3)
    X = rng.integers(0, 4, (200, 4))
    y = X[:, 0]  # the first token is the label: margins are wide
    Q = rng.integers(0, 6, (100, 4))
    sketch, twin = MeMoClassifier(128).fit(X, y), MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
    parts = decompose(sketch, twin, Q)
    kept = np.array([margin_preserved(*pair) for pair in zip(parts.score_error, parts.margin, strict=True)])
    assert kept.sum() >= 10, "the theorem speaks of some queries"
    assert parts.agrees[kept].all()
    assert not parts.agrees.all(), "queries beyond its condition may lose the winner"


def test_a_single_label_has_no_competitor() -> None:
    X, y = [["a"], ["b"]], ["x", "x"]
    assert (
        decompose(
            MeMoClassifier(8).fit(X, y), MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y), X
        ).margin.tolist()
        == [np.inf] * 2
    )


def test_a_wrong_twin_is_refused() -> None:
    X, y = [["a"], ["b"]], ["x", "y"]
    sketch, twin = MeMoClassifier(8).fit(X, y), MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
    with pytest.raises(TypeError, match="memory=Gaussian"):
        decompose(twin, twin, X)
    with pytest.raises(TypeError, match="memory=Exact"):
        decompose(sketch, sketch, X)
    with pytest.raises(TypeError, match="vote='sum'"):
        decompose(MemoryClassifier("positional", memory=Gaussian(8), vote="mean").fit(X, y), twin, X)
    with pytest.raises(ValueError, match="not the sketch's"):
        decompose(sketch, MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, ["x", "x"]), X)


@pytest.mark.parametrize("kernel", KERNELS, ids=["positions", "tuples"])
@given(stored=rows, asked=rows, data=st.data())
@settings(max_examples=25, deadline=None)
def test_count_norms_equal_those_of_the_full_matrix(
    kernel: SiteKernel | None, stored: Any, asked: Any, data: Any
) -> None:
    y = data.draw(st.lists(st.sampled_from(["x", "y", "z"]), min_size=len(stored), max_size=len(stored)))
    twin = MemoryClassifier(kernel, Exact(), vote="sum").fit(object_rows(stored), y)
    frobenius, operator = count_norms(twin, object_rows(asked))
    weights = twin.sites_.weights / twin.sites_.total_weight
    held = [site_features(kernel, context) for context in [*stored, *asked]]
    number = {f: i for i, f in enumerate({f for row in held for f in row if f is not None})}
    for i, q in enumerate(asked):
        for c, label in enumerate(twin.classes_):
            B = np.zeros((len(number) + 1, len(number) + 1))
            for s, other in zip(stored, y, strict=True):
                for w, a, b in zip(weights, site_features(kernel, q), site_features(kernel, s), strict=True):
                    if other == label and a is not None and b is not None:
                        B[number[a], number[b]] += w
            eigenvalues = np.linalg.eigvalsh((B + B.T) / 2)
            assert frobenius[i, c] == pytest.approx(np.sqrt((eigenvalues**2).sum()), abs=1e-9)
            assert operator[i, c] == pytest.approx(np.abs(eigenvalues).max(), rel=1e-5, abs=1e-6)
