"""Evaluation: splits that keep units whole, and measures that are their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score, top_k_accuracy_score

from hammemo import MemoryClassifier
from hammemo.evaluation import measures as evaluation
from hammemo.evaluation.measures import BAYES, MAJORITY, MODEL, answer_all, evaluate, naive_bayes
from hammemo.evaluation.splits import DocumentMaterial, Split, TableMaterial, folds, holdout, last_in_time
from hammemo.votes import Mixture


def rows_of(y: Any, moments: Any = None) -> TableMaterial:
    return TableMaterial(np.zeros((len(y), 1), int), np.array(y), moments)


def test_every_fold_has_its_share_of_every_label() -> None:
    y = ["a"] * 103 + ["b"] * 51 + ["c"] * 2
    split = folds(rows_of(y), 5, seed=3)
    for label, most in (("a", 21), ("b", 11), ("c", 1)):
        counts = [sum(y[row] == label for row in asked) for _, asked in split.parts]
        assert sum(counts) == y.count(label)
        assert max(counts) <= most
        assert max(counts) - min(counts) <= 1
    for learnt, asked in split.parts:
        assert sorted([*learnt, *asked]) == list(range(len(y)))


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=40), st.integers(2, 6), st.floats(0.05, 0.95), st.integers(0, 9)
)
def test_documents_stay_whole(lengths: list[int], number: int, share: float, seed: int) -> None:
    documents = DocumentMaterial([np.arange(length) for length in lengths], 3)
    if number <= len(lengths):
        asked = np.concatenate([asked for _, asked in folds(documents, number, seed).parts])
        assert sorted(asked.tolist()) == list(range(len(lengths)))
        held = [documents.sizes()[asked].sum() for _, asked in folds(documents, number, seed).parts]
        assert max(held) - min(held) <= max(documents.sizes())
    if int(len(lengths) * share) >= 1:
        [(learnt, asked)] = holdout(documents, share, seed).parts
        assert not {*learnt.tolist()} & {*asked.tolist()}
        assert len(asked) == int(len(lengths) * share)


def test_the_last_in_time_are_asked() -> None:
    moments = [5, 1, 4, 2, 3, 0, 9, 8, 7, 6]
    [(learnt, asked)] = last_in_time(rows_of(list("ab" * 5), moments), 0.3).parts
    assert max(moments[row] for row in learnt) < min(moments[row] for row in asked)
    assert len(asked) == 3


def test_what_cannot_be_split_is_refused_with_a_way_out() -> None:
    with pytest.raises(ValueError, match="folds=3 of 2 rows"):
        folds(rows_of(["a", "b"]), 3)
    with pytest.raises(ValueError, match=r"holdout=1\.5 is a share"):
        holdout(rows_of(["a", "b"]), 1.5)
    with pytest.raises(ValueError, match="0 to ask"):
        holdout(rows_of(["a", "b"]), 0.1)
    with pytest.raises(ValueError, match="name the column that has it with time="):
        last_in_time(rows_of(["a", "b"]), 0.5)


def test_measures_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (600, 3))
    y = np.where(rng.random(600) < 0.3, rng.integers(0, 7, 600), X.sum(axis=1) % 7)
    split = Split("halves", [(np.arange(300), np.arange(300, 600))])
    found = evaluate(MemoryClassifier("positional"), TableMaterial(X, y), split)
    model = MemoryClassifier("positional").fit(X[:300], y[:300])
    probabilities = model.predict_proba(X[300:])
    of_model = found.measures[MODEL]
    assert of_model.accuracy == accuracy_score(y[300:], model.predict(X[300:]))
    assert of_model.top_5 == top_k_accuracy_score(y[300:], probabilities, k=5)
    assert of_model.log_loss == pytest.approx(log_loss(y[300:], probabilities), rel=1e-9)
    labels, counts = np.unique(y[:300], return_counts=True)
    assert found.measures[MAJORITY].accuracy == np.mean(y[300:] == labels[counts.argmax()])
    bayes = naive_bayes(3).fit(X[:300], y[:300])
    assert found.measures[BAYES].accuracy == accuracy_score(y[300:], bayes.predict(X[300:]))
    assert found.confusion.sum() == 300
    assert np.trace(found.confusion) == of_model.accuracy * 300
    assert sum(one["asked"] for one in found.calibration) == 300


def test_the_area_under_the_curve_is_that_of_scikit_learn_and_for_two_labels_only() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (400, 3))
    y = np.where(rng.random(400) < 0.3, rng.integers(0, 2, 400), X.sum(axis=1) % 2)
    halves = [(np.arange(200), np.arange(200, 400)), (np.arange(200, 400), np.arange(200))]
    found = evaluate(MemoryClassifier("positional"), TableMaterial(X, y), Split("halves", halves))
    areas = [
        roc_auc_score(y[asked], MemoryClassifier("positional").fit(X[learnt], y[learnt]).predict_proba(X[asked])[:, 1])
        for learnt, asked in halves
    ]
    assert found.measures[MODEL].roc_auc == pytest.approx(np.mean(areas))
    assert found.measures[MAJORITY].roc_auc == 0.5
    assert found.measures[MODEL].top_5 is None
    y[0] = 2
    assert evaluate(MemoryClassifier(), TableMaterial(X, y), Split("", halves[:1])).measures[MODEL].roc_auc is None
    no_chances = evaluate(MemoryClassifier(vote="sum"), rows_of(["x", "y"] * 10), folds(rows_of(["x", "y"] * 10), 2))
    assert no_chances.measures[MODEL].roc_auc is None
    one = rows_of(["x"] * 6)
    assert evaluate(MemoryClassifier(), one, folds(one, 3)).measures[MODEL].roc_auc is None


def brute_force(rankings: list[list[Any]], y: list[Any]) -> tuple[float, float, float]:
    """Return top-5, top-20 and the mean reciprocal rank at 20 of full rankings, by counting."""
    hits_5 = hits_20 = 0
    reciprocal = 0.0
    for ranking, label in zip(rankings, y, strict=True):
        for rank, candidate in enumerate(ranking[:20], 1):
            if candidate == label:
                hits_5 += rank <= 5
                hits_20 += 1
                reciprocal += 1 / rank
    return hits_5 / len(y), hits_20 / len(y), reciprocal / len(y)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["log-linear", "sum"]))
def test_the_first_twenty_of_many_labels_are_counted(seed: int, vote: str) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 30, (900, 2))
    y = (X[:, 0] * 5 + rng.integers(0, 8, 900)) % 130
    model = MemoryClassifier("positional", vote=vote)
    found = evaluate(model, TableMaterial(X, y), Split("", [(np.arange(500), np.arange(500, 900))]))
    assert found.n_labels > 100
    fitted = model.fit(X[:500], y[:500])
    counts = {label: int((y[:500] == label).sum()) for label in np.unique(y[:500]).tolist()}
    by_count = sorted(counts, key=lambda label: (-counts[label], str(label)))
    rankings = {
        MODEL: fitted.top_k(X[500:], len(fitted.classes_)).tolist(),
        BAYES: naive_bayes(2).fit(X[:500], y[:500]).top_k(X[500:], len(fitted.classes_)).tolist(),
        MAJORITY: [by_count] * 400,
    }
    for name, ranking in rankings.items():
        measures = found.measures[name]
        assert measures.top_20 is not None
        counted = brute_force(ranking, y[500:].tolist())
        assert (measures.top_5, measures.top_20, measures.reciprocal_rank_20) == pytest.approx(counted, rel=1e-12)
        assert measures.top_5 is not None
        assert measures.accuracy <= measures.top_5 <= measures.top_20


@pytest.mark.parametrize(("n_labels", "counted"), [(100, False), (101, True)])
def test_the_first_twenty_are_counted_above_a_hundred_labels(n_labels: int, counted: bool) -> None:
    rows = rows_of([*range(n_labels)] * 2)
    for measures in evaluate(MemoryClassifier(vote="sum"), rows, folds(rows, 2)).measures.values():
        assert (measures.top_20 is not None) == (measures.reciprocal_rank_20 is not None) == counted


def test_naive_bayes_is_the_product_of_shares() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 3, (4000, 2)), rng.integers(0, 2, 4000)
    scores = []
    for label in (0, 1):  # with many examples a row smoothing hardly matters
        mine = X[y == label]
        scores.append(np.log(len(mine)) + sum(np.log((mine[:, j] == X[:, [j]]).mean(axis=1)) for j in range(2)))
    odds = np.exp(scores[1] - scores[0])
    assert naive_bayes(2).fit(X, y).predict_proba(X)[:, 1] == pytest.approx(odds / (1 + odds), abs=1e-3)


def test_labels_that_were_not_learnt_are_wrong_and_without_loss() -> None:
    rows = TableMaterial(np.array([["a"], ["a"], ["b"], ["a"]], object), np.array(["x", "x", "y", "z"]))
    found = evaluate(MemoryClassifier(), rows, Split("", [(np.arange(3), np.array([0, 3]))]))
    assert found.n_not_learnt == 1
    assert found.measures[MODEL].accuracy == 0.5
    assert found.measures[MODEL].log_loss is not None
    assert found.measures[MODEL].log_loss < 1


def test_a_vote_without_probabilities_has_neither_loss_nor_calibration() -> None:
    rows = rows_of(["x", "y"] * 10)
    found = evaluate(MemoryClassifier(vote="sum"), rows, folds(rows, 2))
    assert found.measures[MODEL].log_loss is None
    assert found.measures[MODEL].calibration_error is None
    assert found.calibration == []
    assert found.measures[BAYES].log_loss is not None


def test_documents_are_learnt_as_a_stream_and_asked_as_windows() -> None:
    documents = [np.array(list("abcabcabc")) for _ in range(10)]
    material = DocumentMaterial(documents, 2, "pad", classes=["b", "c"])
    found = evaluate(MemoryClassifier(), material, folds(material, 5))
    assert found.n_asked == 60
    assert found.measures[MODEL].accuracy == 1
    assert found.confusion_labels == ("b", "c")


def test_many_labels_are_judged_without_the_probabilities_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    documents = [np.minimum(rng.geometric(0.1, 8), 30) for _ in range(60)]
    material, model = DocumentMaterial(documents, 3, "pad"), MemoryClassifier(vote=Mixture(discount=0.5))
    split = holdout(material, 0.3)
    expected = evaluate(model, material, split).measures
    monkeypatch.setattr(evaluation, "ALL_LABELS", 5)
    found = evaluate(model, material, split).measures
    for name in ("accuracy", "top_5", "log_loss", "calibration_error"):
        assert getattr(found[MODEL], name) == pytest.approx(getattr(expected[MODEL], name))
    assert found[BAYES].log_loss is None
    assert found[BAYES].top_5 == expected[BAYES].top_5


def test_one_label_and_no_rows_to_ask() -> None:
    rows = rows_of(["x"] * 6)
    found = evaluate(MemoryClassifier(), rows, folds(rows, 3))
    assert found.measures[MODEL].accuracy == 1
    documents = DocumentMaterial([np.arange(9), np.arange(2)], 3)
    with pytest.raises(ValueError, match="nothing to ask"):
        evaluate(MemoryClassifier(), documents, Split("", [(np.array([0]), np.array([1]))]))
    assert len(answer_all(MemoryClassifier().fit([["a"]], ["x"]), np.empty((0, 1), object), np.empty(0)).right) == 0


def test_the_figure_has_confusion_and_calibration() -> None:
    pytest.importorskip("matplotlib")
    rows = rows_of(list("abcd") * 10)
    confusion, calibration = evaluate(MemoryClassifier(), rows, folds(rows, 2)).plot().axes
    assert confusion.get_title(loc="left") == "share of each label's rows by answer; 40 rows in all"
    assert [tick.get_text() for tick in confusion.get_yticklabels()] == ["a (10)", "b (10)", "c (10)", "d (10)"]
    assert sum(int(text.get_text()) for text in calibration.texts) == 40
    assert len(evaluate(MemoryClassifier(vote="sum"), rows, folds(rows, 2)).plot().axes) == 1
