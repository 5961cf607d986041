"""`class_weight=`: the odds of labels are multiplied where counts are read; counts and fitted weights stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hammemo import MemoryClassifier, load, save
from hammemo.files.contents import file_bytes
from hammemo.memories import Exact, Hashed
from hammemo.votes import LogLinear

if TYPE_CHECKING:
    from pathlib import Path

rng = np.random.default_rng(5)
NAMES = rng.integers(0, 3, (300, 3)).astype(str)
NUMBERS = rng.normal(size=(300, 2)).round(2)
LABELS = np.where(rng.random(300) < 0.2, "rare", np.where(NUMBERS[:, 0] > 0, "high", "low"))
TABLES = {"names": NAMES, "numbers": NUMBERS}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("weights", ["balanced", {"rare": 4.0}, [("rare", 4.0), ("low", 0.5)]])
def test_odds_are_multiplied_and_all_else_stays(table: str, weights: Any, tmp_path: Path) -> None:
    X = TABLES[table]
    plain = MemoryClassifier().fit(X, LABELS)
    clf = MemoryClassifier(class_weight=weights).fit(X, LABELS)
    assert clf.memory_.state_bytes() == plain.memory_.state_bytes()
    for part in ("counts", "layout", "weights", "kept rows"):
        assert clf.digest(parts=True)[part] == plain.digest(parts=True)[part]
    named: Any = dict(weights) if not isinstance(weights, str) else {}
    shares = (plain.memory_.label_counts + 0.5) / (300 + 1.5)
    factors = [1 / share for share in shares] if weights == "balanced" else [named.get(c, 1.0) for c in clf.classes_]
    shift = clf.class_scores(X) - plain.class_scores(X)
    shift -= shift[:, :1]
    np.testing.assert_allclose(shift, np.tile(np.log(factors) - np.log(factors[0]), (300, 1)), atol=1e-9)
    predictor = clf.compile()
    assert predictor.predict_proba(X).tobytes() == clf.predict_proba(X).tobytes()
    assert predictor(X[0].tolist()) == clf.predict(X[:1])[0]
    save(clf, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.digest() == clf.digest()
    assert again.predict_proba(X).tobytes() == clf.predict_proba(X).tobytes()
    assert "without class weights" in again.report().summary()


@pytest.mark.parametrize("table", TABLES)
def test_a_model_stays_a_function_of_its_rows_and_parameters(table: str) -> None:
    X = TABLES[table]
    clf = MemoryClassifier(class_weight="balanced").fit(X, LABELS).forget(X[:40], LABELS[:40])
    rest = MemoryClassifier(class_weight="balanced").fit(X[40:], LABELS[40:])
    assert file_bytes(clf.refit()) == file_bytes(rest)
    changed = clf.set_params(class_weight={"rare": 9.0}).refit()
    assert file_bytes(changed) == file_bytes(MemoryClassifier(class_weight={"rare": 9.0}).fit(X[40:], LABELS[40:]))
    plain = MemoryClassifier().fit(X[40:], LABELS[40:])
    assert file_bytes(clf.set_params(class_weight=None).refit()) == file_bytes(plain)


@pytest.mark.parametrize("table", TABLES)
def test_exports_have_the_weights(table: str) -> None:
    pytest.importorskip("torch")
    X = TABLES[table]
    clf = MemoryClassifier(class_weight="balanced").fit(X, LABELS)
    assert clf.compile().to_torch().predict(X).tolist() == clf.predict(X).tolist()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"vote": "sum"}, "use vote='log-linear'"),
        ({"vote": LogLinear(class_weight="balanced")}, "given twice"),
        ({"class_weight": "even"}, "use 'balanced' or a weight for each label"),
        ({"class_weight": {"rare": 0}}, "above zero"),
        ({"class_weight": 3}, "use 'balanced'"),
    ],
)
def test_what_cannot_be_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryClassifier(**{"class_weight": "balanced", **params}).fit(NAMES[:20], LABELS[:20])


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("weight", [0.1, 50.0, 1e300])
def test_probabilities_are_those_of_the_formula(table: str, weight: float) -> None:
    X = TABLES[table]
    plain = MemoryClassifier().fit(X, LABELS)
    clf = MemoryClassifier(class_weight={"rare": weight}).fit(X, LABELS)
    scores = plain.class_scores(X)
    odds = np.exp(scores - scores.max(axis=1, keepdims=True)) * np.where(plain.classes_ == "rare", weight, 1.0)
    even = clf.vote_.uniform
    expected = (1 - even) * odds / odds.sum(axis=1, keepdims=True) + even / 3
    np.testing.assert_allclose(clf.predict_proba(X), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("given", ["model", "vote"])
def test_a_weight_of_an_unknown_label_is_refused(given: str) -> None:
    weights = {"rare": 4.0, "rara": 2.0}
    clf = MemoryClassifier(
        **({"class_weight": weights} if given == "model" else {"vote": LogLinear(class_weight=weights)})
    )
    with pytest.raises(ValueError, match="'rara', which is not in y: its labels are 'high', 'low', 'rare'"):
        clf.fit(NAMES, LABELS)
    assert clf.fit(NAMES, LABELS, classes=["rara"]).predict(NAMES[:1]).shape == (1,)
    with pytest.raises(ValueError, match="the label '1', which is not in y"):
        MemoryClassifier(class_weight={"1": 50.0}).fit(NUMBERS, (LABELS == "rare").astype(int))
    with pytest.raises(ValueError, match="names the label 'c'"):
        MemoryClassifier(class_weight={"c": 2.0}, vote="log-linear").fit_stream([["a", "b"] * 20], h=1)


def test_a_label_with_a_weight_can_be_forgotten() -> None:
    is_rare = LABELS == "rare"
    clf = MemoryClassifier(class_weight={"rare": 9.0}).fit(NAMES, LABELS)
    assert "rare" not in clf.forget(NAMES[is_rare], LABELS[is_rare]).refit().classes_


def test_one_label_sketches_and_shards() -> None:
    one = MemoryClassifier(class_weight="balanced").fit([["a"]] * 3, ["x"] * 3)
    assert one.predict_proba([["a"]]).tolist() == [[1.0]]
    sketch = MemoryClassifier(memory=Hashed(16), vote="log-linear", class_weight={"rare": 1e6}).fit(NAMES, LABELS)
    assert set(sketch.predict(NAMES)) == {"rare"}
    whole = MemoryClassifier(memory=Exact(), class_weight={"rare": 1e6}).fit(NAMES, LABELS)
    shard = MemoryClassifier().partial_fit(NAMES, LABELS, layout=whole)
    assert set(shard.predict(NAMES)) == {"rare"}
