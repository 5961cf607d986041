"""Codes of a researcher's own: checked, used as drawn ones would be, and part of layouts, digests and files."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.base import clone

from hammemo import LayoutError, MeMoClassifier, MemoryClassifier, load, save
from hammemo.files.contents import file_bytes, file_pieces, from_bytes
from hammemo.memories import Gaussian
from hammemo.memories.gaussian.codes import GaussianCodes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick

D, H = 256, 3
rng = np.random.default_rng(2)
X = rng.integers(0, 12, (60, H))
Y = np.array(["no", "yes"])[X[:, 0] % 2]
NAMES = np.char.add("t", X.astype(str))
EYE = np.eye(D)


def drawn(tokens: list[Any], *, seed: int = 0) -> dict[Any, Any]:
    """Return the codes that a model with this seed draws for tokens."""
    codes = GaussianCodes(seed, D, round(D / H), H)
    return dict(zip(tokens, codes.inputs(tokens), strict=True))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("form", ["fused", "two-stage"])
def test_drawn_codes_that_are_given_back_change_nothing(tied: bool, exact: bool, form: str) -> None:
    parameters: Any = {"d": D, "tied": tied, "exact": exact}
    plain = MeMoClassifier(**parameters).fit(NAMES, Y)
    codes = drawn(sorted({*NAMES.ravel().tolist(), *Y.tolist()}))
    own = MeMoClassifier(**parameters, codes=codes).fit(NAMES, Y)
    assert own.memory_.C.tobytes() == plain.memory_.C.tobytes()
    assert own.class_scores(NAMES).tobytes() == plain.class_scores(NAMES).tobytes()
    assert own.compile(form).class_scores(NAMES).tobytes() == plain.compile(form).class_scores(NAMES).tobytes()
    assert own.digest() != plain.digest()


def test_row_i_of_an_array_is_the_code_of_token_i() -> None:
    codes = drawn(list(range(12)))
    by_row = MeMoClassifier(D, codes=np.array(list(codes.values()))).fit(X, Y)
    assert by_row.memory_.C.tobytes() == MeMoClassifier(D).fit(X, Y).memory_.C.tobytes()
    by_token = MeMoClassifier(D, codes=codes).fit(X, Y)
    assert (by_row.memory_.state_bytes(), by_row.digest()) == (by_token.memory_.state_bytes(), by_token.digest())


def test_orthogonal_codes_estimate_counts_without_interference_of_tokens() -> None:
    clf = MeMoClassifier(D, d_h=2000, codes=EYE[:12]).fit(X, Y)
    counts = MemoryClassifier(memory="exact", vote="sum", kernel="positional").fit(X, Y).class_scores(X)
    assert np.corrcoef(clf.class_scores(X).ravel(), counts.ravel())[0, 1] > 0.9


@pytest.mark.parametrize("wrapped", [False, True])
def test_files_hold_the_codes(wrapped: bool, tmp_path: Path) -> None:
    codes = drawn([*range(12), "never learnt"], seed=5)
    if wrapped:
        memory = Gaussian(D, token_codes=codes)
        clf = MemoryClassifier("positional", memory, "sum", keep="digests", numeric="none").fit(X, Y)
    else:
        clf = MeMoClassifier(D, codes=codes).fit(X, Y)
    save(clf, tmp_path / "model")
    loaded: Any = load(tmp_path / "model")
    assert loaded.digest() == clf.digest()
    assert file_bytes(loaded) == file_bytes(clf)
    assert loaded.class_scores(X).tobytes() == clf.class_scores(X).tobytes()
    assert loaded.partial_fit(X[:5], Y[:5]).digest() == clf.partial_fit(X[:5], Y[:5]).digest()
    assert clone(loaded).fit(X, Y).digest() == clone(clf).fit(X, Y).digest()
    if not wrapped:
        assert loaded.get_params()["codes"].digest == loaded.memory_.codes.given["codes"].digest


def test_copies_keep_the_codes() -> None:
    clf = MeMoClassifier(D, codes=drawn([*range(12)], seed=5)).fit(X, Y)
    for copied in (copy.deepcopy(clf), pickle.loads(pickle.dumps(clf))):  # noqa: S301
        assert copied.digest() == clf.digest()
        assert copied.partial_fit(X, Y).memory_.state_bytes() == (clf + clf).memory_.state_bytes()


def test_predictors_answer_as_the_model_also_from_a_file(tmp_path: Path) -> None:
    clf = MeMoClassifier(D, codes=drawn([*range(14)], seed=5)).fit(X, Y)
    asked = np.concatenate([X, [[0, 13, 99]]])  # 13 has a code, 99 has none
    predictor = clf.compile(vocabulary=[0, 1])
    save(predictor, tmp_path / "predictor")
    loaded: Any = load(tmp_path / "predictor")
    assert loaded.class_scores(asked).tobytes() == predictor.class_scores(asked).tobytes()
    np.testing.assert_allclose(predictor.class_scores(asked), clf.class_scores(asked), rtol=1e-4, atol=1e-4)


def test_a_token_without_a_code_matches_nothing_and_cannot_be_learnt() -> None:
    clf = MeMoClassifier(D, codes=drawn(list(range(12)))).fit(X, Y)
    before = clf.digest()
    assert not clf.class_scores([[77, 78, "what"]]).any()
    with pytest.raises(ValueError, match=r"The token 77 has no code.*codes= has codes for 12 tokens"):
        clf.partial_fit([[77, 0, 0]], ["no"])
    assert clf.digest() == before
    with pytest.raises(ValueError, match="The label 'no' has no code"):
        MeMoClassifier(D, tied=True, codes=drawn(list(range(12)))).fit(X, Y)


def bad_rows() -> dict[str, tuple[Any, str]]:
    infinite, long, ragged = EYE[:12].copy(), EYE[:12].copy(), [[1.0, 0.0], [1.0]]
    infinite[3, 7], long[5] = np.inf, 2 * long[5]
    return {
        "infinite": (infinite, "codes= must be finite, and row 3 is not"),
        "long": (long, r"norm 1 up to 0.27 for d=256, and row 5 has norm 2: divide"),
        "zero": ({**drawn([1]), "x": np.zeros(D)}, "the code of 'x' has norm 0"),
        "ragged": (ragged, "all rows have the same length"),
        "flat": (EYE[0], "one row of d numbers for each token"),
        "empty": ({}, "one row of d numbers for each token"),
        "text": ([["a", "b"]], "one row of d numbers for each token"),
        "narrow": (np.eye(64), "codes= has rows of 64 numbers, and d=256: use d=64"),
    }


@pytest.mark.parametrize("case", bad_rows())
def test_what_is_wrong_with_codes_is_said(case: str) -> None:
    codes, message = bad_rows()[case]
    with pytest.raises(ValueError, match=message):
        MeMoClassifier(D, codes=codes).fit(X, Y)


def test_codes_that_do_not_fit_a_kernel_or_exact_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="the kernel compares tuples"):
        MeMoClassifier(D, kernel="pairs", codes=EYE[:12]).fit(X, Y)
    with pytest.raises(ValueError, match=r"With exact=True no number of codes= may be beyond 0.5"):
        MeMoClassifier(D, exact=True, codes=EYE[:12]).fit(X, Y)


def test_models_with_other_codes_are_not_added() -> None:
    one, other = (MeMoClassifier(D, codes=drawn(list(range(12)), seed=s)).fit(X, Y) for s in (1, 2))
    same = MeMoClassifier(D, codes=drawn(list(range(12)), seed=1)).fit(X, Y)
    assert (one + same).memory_.label_counts.sum() == 120
    for refused in (other, MeMoClassifier(D).fit(X, Y)):
        with pytest.raises(LayoutError, match="codes"):
            one + refused


def test_codes_set_after_the_fit_are_not_saved() -> None:
    clf = MeMoClassifier(D, codes=EYE[:12]).fit(X, Y).set_params(codes=EYE[1:13])
    with pytest.raises(ValueError, match=r"codes= has other codes than the fitted memory. Undo set_params"):
        file_bytes(clf)
    assert from_bytes(file_bytes(clf.fit(X, Y))).digest() == clf.digest()  # type: ignore[union-attr]


def own(seed: int = 5) -> dict[str, Any]:
    """Return output codes and a projection like those that a model with this seed draws."""
    codes = GaussianCodes(seed, D, 40, H)
    return {
        "output_codes": dict(zip(["no", "yes"], codes.outputs(["no", "yes"]), strict=True)),
        "projection": codes.projection,
    }


@pytest.mark.parametrize("exact", [False, True])
def test_drawn_output_codes_and_projections_that_are_given_back_change_nothing(exact: bool) -> None:
    plain = MeMoClassifier(D, 40, exact=exact, random_state=5).fit(NAMES, Y)
    given = MeMoClassifier(D, exact=exact, random_state=5, **own()).fit(NAMES, Y)  # d_h is that of the projection
    assert given.memory_.C.tobytes() == plain.memory_.C.tobytes()
    assert given.class_scores(NAMES).tobytes() == plain.class_scores(NAMES).tobytes()
    assert given.digest() != plain.digest()


@pytest.mark.parametrize("names", [["output_codes"], ["projection"], ["output_codes", "projection"]])
@pytest.mark.parametrize("form", ["fused", "two-stage"])
def test_output_codes_and_projections_survive_files_clones_and_copies(names: list[str], form: str) -> None:
    clf = MeMoClassifier(D, 40, **{name: own()[name] for name in names}).fit(X, Y)
    loaded: Any = from_bytes(file_bytes(clf))
    for same in (loaded, clone(clf).fit(X, Y), clone(loaded).fit(X, Y), copy.deepcopy(clf)):
        assert same.digest() == clf.digest()
        assert same.class_scores(X).tobytes() == clf.class_scores(X).tobytes()
    assert loaded.partial_fit(X, Y).memory_.state_bytes() == (clf + clf).memory_.state_bytes()
    assert (loaded - clf).digest() == clf.digest()
    asked = np.concatenate([X, [[0, 13, 99]]])  # tokens whose codes the predictor does not carry
    predictor = clf.compile(form)
    again: Any = from_bytes(b"".join(file_pieces(predictor, None)))
    assert again.class_scores(asked).tobytes() == predictor.class_scores(asked).tobytes()
    np.testing.assert_allclose(again.class_scores(asked), clf.class_scores(asked), rtol=1e-4, atol=1e-4)
    with pytest.raises(LayoutError, match=names[0]):
        clf + MeMoClassifier(D, 40).fit(X, Y)
    with pytest.raises(ValueError, match=f"{names[0]}= has other codes than the fitted memory"):
        file_bytes(clf.set_params(**{names[0]: own(6)[names[0]]}))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"output_codes": {"no": EYE[0]}}, "label 'yes' has no code.*output_codes= has codes for 1 labels"),
    ({"output_codes": np.eye(64)}, "output_codes= has rows of 64 numbers, and d=256: use d=64"),
    ({"output_codes": {"no": 2 * EYE[0]}}, "output_codes= must have norm 1 .*the code of 'no' has norm 2"),
    ({"output_codes": own()["output_codes"], "tied": True}, "tied=True uses the codes of tokens: use one"),
    ({"projection": EYE[:40], "d_h": 30}, "projection= has 40 rows, and d_h=30: use d_h=40"),
    ({"projection": np.ones((40, 64))}, "projection= has rows of 64 numbers, and d=256: use d=64"),
    ({"projection": 10 * EYE[:40]}, r"1/h = 1/3 on average.* 46.9 times that: multiply it by 0.146"),
    ({"projection": np.zeros((40, D))}, "its average is 0 times that: it is zero"),
    ({"projection": np.full((40, D), np.nan)}, "projection= must be finite, and row 0 is not"),
    ({"projection": {"a": EYE[0]}}, "projection= is an array of d_h rows with d numbers each"),
    ({"projection": 1.1 * EYE[:85], "exact": True}, "no number of projection= may be beyond 1 for d=256"),
    ({"distribution": "uniform"}, "'uniform' is not known: use one of gaussian, rademacher, sparse"),
]


@pytest.mark.parametrize(("parameters", "message"), WRONG)
def test_what_is_wrong_with_output_codes_and_projections_is_said(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MeMoClassifier(D, **parameters).fit(X, Y)


@pytest.mark.parametrize(("distribution", "values"), [("rademacher", {-1.0, 1.0}), ("sparse", {-3.0, 0.0, 3.0})])
def test_other_distributions_have_mean_0_and_variance_1(distribution: str, values: set[float]) -> None:
    codes = GaussianCodes(0, 1024, 512, 2, distribution=distribution)
    inputs = codes.inputs(range(400)) * np.sqrt(1024)
    assert set(np.unique(np.round(np.sign(inputs) * inputs**2)).tolist()) == values
    for drawn_numbers in (inputs, codes.projection * np.sqrt(1024), codes.outputs(range(400)) * np.sqrt(1024)):
        n = drawn_numbers.size
        assert abs(drawn_numbers.mean()) < 5 / np.sqrt(n)
        assert abs((drawn_numbers**2).mean() - 1) < 5 * np.sqrt(2 / n)  # the fourth moment is at most 3


@pytest.mark.long
@pytest.mark.parametrize("distribution", ["rademacher", "sparse"])
@pytest.mark.parametrize("exact", [False, True])
def test_scores_of_other_distributions_are_unbiased(distribution: str, exact: bool) -> None:
    """Lemma 2, within five standard errors over 400 draws of the codes."""
    counts = MemoryClassifier(memory="exact", vote="sum", kernel="positional").fit(X, Y).class_scores(X[:3])
    drawn_scores = np.array(
        [
            MeMoClassifier(64, exact=exact, distribution=distribution, random_state=seed).fit(X, Y).class_scores(X[:3])
            for seed in range(400)
        ]
    )
    errors = drawn_scores.std(axis=0, ddof=1) / np.sqrt(len(drawn_scores))
    assert (np.abs(drawn_scores.mean(axis=0) - counts) < 5 * errors).all()


def test_the_distribution_is_part_of_files_and_layouts() -> None:
    clf = MeMoClassifier(D, distribution="sparse").fit(X, Y)
    loaded: Any = from_bytes(file_bytes(clf))
    assert loaded.distribution == "sparse"
    assert loaded.digest() == clf.digest() != MeMoClassifier(D).fit(X, Y).digest()
    predictor = clf.compile()
    again: Any = from_bytes(b"".join(file_pieces(predictor, None)))
    assert again.class_scores([[77, 1, 2]]).tobytes() == predictor.class_scores([[77, 1, 2]]).tobytes()
    with pytest.raises(LayoutError, match="distribution"):
        clf + MeMoClassifier(D).fit(X, Y)


def test_encode_and_retrieve_are_the_steps_of_a_score() -> None:
    clf = MeMoClassifier(D, 40).fit(NAMES, Y)
    codes = clf.memory_.codes
    phi = clf.encode(NAMES)
    by_hand = np.hstack([codes.project(column) for column in NAMES.T.tolist()])
    np.testing.assert_allclose(phi, by_hand)
    np.testing.assert_allclose(clf.memory_.C, phi.T @ codes.outputs(Y.tolist()), atol=1e-12)  # one matrix product
    np.testing.assert_allclose(clf.retrieve(NAMES), phi @ clf.memory_.C)
    decoded = clf.retrieve(NAMES) @ codes.outputs(clf.classes_.tolist()).T
    np.testing.assert_allclose(decoded, clf.class_scores(NAMES), rtol=1e-10, atol=1e-12)
