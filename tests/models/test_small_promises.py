"""Small things that a model says and does, each of which was once missing or silent."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hammemo import MemoryClassifier
from hammemo.memories import Exact, Hashed, Tiered
from hammemo.tasks.labels.scorer import Scorer
from hammemo.tokens import row_slices
from hammemo.votes import LogLinear

X, Y = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 5, ["no", "no", "yes", "yes"] * 5


def test_log_probabilities_are_those_of_predict_proba() -> None:
    clf = MemoryClassifier(memory=Exact(), vote="log-linear").fit(X, Y)
    queries = [["a", "b"], ["d", "x"], ["x", "y"]]
    for model in (clf, clf.compile()):
        np.testing.assert_allclose(np.exp(model.predict_log_proba(queries)), model.predict_proba(queries), rtol=1e-12)
    sums = MemoryClassifier(memory=Exact(), vote="sum").fit(X, Y)
    assert not hasattr(sums, "predict_log_proba")


def test_log_probabilities_do_not_underflow(monkeypatch: pytest.MonkeyPatch) -> None:
    clf = MemoryClassifier(memory=Exact(), vote=LogLinear()).fit(X, Y)
    monkeypatch.setattr(Scorer, "scores", lambda self, contexts: np.array([[3.0, -1997.0]]))
    assert clf.predict_proba([["a", "b"]]).tolist() == [[1, 0]]
    assert clf.predict_log_proba([["a", "b"]]).tolist() == [[0, -2000]]


@pytest.mark.parametrize("vote", ["sum", "mean"])
def test_a_vote_without_weights_cannot_be_fitted(vote: str) -> None:
    clf = MemoryClassifier(memory=Exact(), vote=vote).fit(X, Y)
    with pytest.raises(ValueError, match=r"has no weights to fit: leave out fit_vote, or .*vote='log-linear'"):
        clf.fit_vote(X, Y)


@pytest.mark.parametrize("memory", [Exact(), Hashed(64, 8)])
def test_an_answer_without_evidence_is_not_called_proven(memory: Any) -> None:
    clf = MemoryClassifier(memory=memory, vote="sum").fit(X, Y)
    nothing = clf.explain(["never", "seen"])
    if memory.__class__ is Exact:
        assert not nothing.has_evidence
        assert nothing.verdict().startswith("no token of this context has a vote: 'no' ties with 'yes', so the first")
    assert nothing.has_evidence or "proven" not in nothing.verdict()
    known = clf.explain(["a", "never"])
    assert known.has_evidence
    is_exact = known.precision == "exact"  # then there is nothing to prove
    assert ("proven to be the exact classifier's answer" in known.verdict()) is not is_exact


def test_a_prior_without_evidence_is_shown_as_one() -> None:
    clf = MemoryClassifier(memory=Exact(), vote="log-linear").fit([*X, ["a", "b"]], [*Y, "no"])
    verdict = clf.explain(["never", "seen"]).verdict()
    assert verdict.startswith("no token of this context has a vote: 'no' leads 'yes' by ")


def test_both_tiers_of_a_compiled_model_use_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    compile_sketch: Any = Hashed.compile

    def note(self: Hashed, *arguments: Any, threads: int = 1, **named: Any) -> Any:
        asked.append(threads)
        return compile_sketch(self, *arguments, threads=threads, **named)

    monkeypatch.setattr(Hashed, "compile", note)
    clf = MemoryClassifier(memory=Tiered(Hashed(8, 4)), vote="sum").fit(X, Y)
    assert clf.compile(n_jobs=2).predict(X).tolist() == clf.predict(X).tolist()
    assert asked == [2]


def test_a_question_after_forgetting_warns_once_where_parts_were_fitted() -> None:
    X = np.random.default_rng(0).integers(0, 3, (300, 3)).astype(str).tolist()
    y = [str(row[0]) for row in X]
    said = r"still depends on them until refit\(\)"
    clf = MemoryClassifier().fit(X, y).forget(X[:5], y[:5])
    with pytest.warns(UserWarning, match=said) as told:
        clf.predict(X[:1])
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match=said):
        MemoryClassifier().fit(X, y).forget_one(X[0], y[0]).predict_proba(X[:1])
    with pytest.warns(UserWarning, match=said):
        MemoryClassifier(vote="log-linear").fit_stream(X, h=2).forget_stream(X[:1]).predict([X[0][:2]])
    with pytest.warns(UserWarning, match=r"until refit\(rows="):
        MemoryClassifier(keep=False).fit(X, y).forget(X[:1], y[:1]).predict(X[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.forget(X[5:9], y[5:9]).predict(X[:1])  # it was said
        MemoryClassifier().fit(X, y).forget(X[:1], y[:1]).refit().predict(X[:1])
        MemoryClassifier().fit(X, y).forget(X[:1], y[:1]).fit(X, y).predict(X[:1])
        for unfitted in (MemoryClassifier(vote="sum"), MemoryClassifier("positional", vote="mean")):
            unfitted.fit(X, y).forget(X[:1], y[:1]).forget_one(X[1], y[1]).predict(X[:1])


@pytest.mark.parametrize("as_given", [np.array, list, pd.DataFrame], ids=["array", "list", "frame"])
@pytest.mark.parametrize("numbers", [False, True], ids=["names", "numbers"])
def test_many_rows_are_answered_some_at_a_time(as_given: Any, numbers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(90, 3)).round(1) if numbers else rng.integers(0, 4, (90, 3)).astype(str)).tolist()
    X: Any = as_given(rows)
    clf = MemoryClassifier().fit(X, [str(float(row[0]) > 1) for row in rows])
    for model in (clf, clf.compile()):
        ways = (model.predict, model.predict_proba, model.predict_log_proba, model.class_scores)
        whole = [way(X) for way in ways]
        monkeypatch.setattr(row_slices, "ROWS_AT_ONCE", 7)
        for way, expected in zip(ways, whole, strict=True):
            np.testing.assert_array_equal(way(X), expected)
        monkeypatch.undo()
    monkeypatch.setattr(row_slices, "ROWS_AT_ONCE", 7)
    with pytest.raises(ValueError, match="features"):
        clf.predict(as_given([row[:2] for row in rows]))


@pytest.mark.parametrize(
    "ask",
    [
        "predict",
        "predict_proba",
        "predict_log_proba",
        "class_scores",
        "decision_function",
        "top_k",
        "certify",
        "explain",
    ],
)
@pytest.mark.parametrize("numbers", [False, True])
def test_an_emptied_model_says_so(ask: str, numbers: bool) -> None:
    rng = np.random.default_rng(0)
    given: Any = rng.normal(size=(60, 2)) if numbers else rng.integers(0, 3, (60, 2)).astype(str)
    labels = rng.integers(0, 2, 60)
    clf = MemoryClassifier().fit(given, labels).forget(given, labels)
    with pytest.raises(ValueError, match=r"^The memory is empty, so there is no label to predict: "):
        getattr(clf, ask)(given[0] if ask == "explain" else given[:1])


def test_a_report_speaks_of_rows_and_columns_by_name() -> None:
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (300, 3)), columns=["price", "doors", "age"]).astype(
        str
    )
    first, second, *others = str(MemoryClassifier().fit(table, table["price"] + table["doors"]).report()).splitlines()
    assert first == "300 rows, 3 columns, 4 labels"
    assert "(price, doors)" in second
    assert not any(word in "".join([first, second, *others]) for word in ("position", "token", "context", "text of"))
    windows = str(MemoryClassifier(keep=False).fit_stream([["a", "b", "c"] * 9], h=2).report())
    assert windows.startswith("25 windows, 2 positions, 3 labels")
