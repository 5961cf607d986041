"""Codes of a researcher's own: checked, used as drawn ones would be, and part of layouts, digests and files."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.base import clone

from hammemo import Gaussian, LayoutError, Ledgered, MeMoClassifier, MemoryClassifier, load, save
from hammemo.files.contents import file_bytes, from_bytes
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
        memory = Ledgered(memory=Gaussian(D, token_codes=codes))
        clf = MemoryClassifier(memory=memory, vote="sum", kernel="positional", numeric="none").fit(X, Y)
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
        assert loaded.get_params()["codes"].digest == loaded.memory_.codes.given.digest


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
        "zero": ({**drawn([1]), "x": np.zeros(D)}, "the code of token 'x' has norm 0"),
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
