"""The additive base in the vote of tables with numbers: what it adds, and that the rule holds with it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from hammemo import FileError, MemoryClassifier, load, save
from hammemo.features.cells import TreeCells
from hammemo.memories.exact import TreeRanker

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def sums(n: int, seed: int, labels: int = 2) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return a table whose label depends on a sum over all columns, with missing values, a name and a date."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 8)), columns=list("abcdefgh"))
    score = X.sum(axis=1) + rng.normal(scale=0.8, size=n)
    X["town"] = rng.choice(["Ulm", "Bonn", "Trier"], n)
    score = score + X["town"].map({"Ulm": 1.0, "Bonn": 0.0, "Trier": -1.0})
    X["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    X.loc[rng.random(n) < 0.05, "c"] = np.nan
    return X, np.digitize(score, np.linspace(-2, 2, labels + 1)[1:-1])


X, Y = sums(900, 0)
MODEL: Any = MemoryClassifier(random_state=0).fit(X[:600], Y[:600])


def test_a_sum_of_columns_is_answered_nearly_as_well_as_by_a_line() -> None:
    plain = X.drop(columns="day").assign(town=X["town"].map({"Ulm": 1.0, "Bonn": 0.0, "Trier": -1.0})).fillna(0)
    line = LogisticRegression().fit(plain[:600], Y[:600]).predict_proba(plain[600:])
    assert log_loss(Y[600:], MODEL.predict_proba(X[600:])) < 1.15 * log_loss(Y[600:], line)
    assert MODEL.vote_.base_weights_[0] > 0.3


@pytest.mark.parametrize("labels", [2, 4])
def test_refit_gives_the_model_of_the_rows_that_are_left(tmp_path: Path, labels: int) -> None:
    X, y = sums(320, 5, labels)
    X, y = pd.concat([X, X[:7]]), np.append(y, y[:7])  # copies of rows
    edited = MemoryClassifier(random_state=0).fit(X[:250], y[:250])
    edited.partial_fit(X[250:], y[250:]).forget(X[:60], y[:60]).refit()
    rows = np.r_[60 : len(X)][::-1]
    again = MemoryClassifier(random_state=0, n_jobs=2).fit(X.iloc[rows], y[rows])
    for name, model in (("edited", edited), ("again", again.set_params(n_jobs=None))):
        save(model, tmp_path / name)
    assert (tmp_path / "edited").read_bytes() == (tmp_path / "again").read_bytes()
    np.testing.assert_array_equal(load(tmp_path / "edited").predict_proba(X), again.predict_proba(X))


def test_rows_that_are_not_kept_give_the_same_base_in_any_order() -> None:
    X = pd.DataFrame(np.round(np.random.default_rng(1).normal(size=(400, 2)), 4), columns=["a", "b"])
    X["b"] = 1e9 + X["b"] * 1e-3  # many rows lie between the same two cuts
    y = (X["a"] + np.random.default_rng(2).normal(size=400) > 0).astype(int).to_numpy()
    one, other = (MemoryClassifier(random_state=0, keep=False).fit(X[::step], y[::step]) for step in (1, -1))
    assert one.digest() == other.digest()


def test_a_label_that_comes_later_has_no_base() -> None:
    model = copy.deepcopy(MODEL).partial_fit(X[600:610], np.full(10, 7))
    cells = model.state.layout.cells
    assert isinstance(cells, TreeCells)
    ratios = cells.base.ratios(
        *cells.codes.plain(cells.codes.rows(model.view().read(X[:5]))), model.state.memory.labels
    )
    assert model.classes_.tolist() == [0, 1, 7]
    assert (ratios[:, 2] == 0).all()
    assert (ratios[:, :2] != 0).any()
    assert np.isfinite(model.predict_proba(X)).all()


def test_contributions_add_up_to_scores() -> None:
    asked = X[600:640]
    values, base = MODEL.contributions(asked)
    assert values.shape == (40, X.shape[1], 2)
    np.testing.assert_allclose(values.sum(axis=1) + base, MODEL.class_scores(asked), atol=1e-9)
    explained = MODEL.explain(asked.iloc[0], k=2)
    order = [MODEL.classes_.tolist().index(label) for label in explained.labels]
    np.testing.assert_allclose(explained.contributions, values[0][:, order], atol=1e-9)
    importances = MODEL.feature_importances_
    assert importances[:8].min() > importances[-1]  # each number matters, the day does not


@pytest.mark.parametrize("seed", range(3))
def test_contributions_by_leaf_are_those_of_every_site(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    names = {name: rng.choice(list("abcde"), 500) for name in ("p", "q")}
    table = pd.DataFrame({"x": rng.normal(size=500), **names, "day": pd.Timestamp("2026-01-01")})
    table["day"] += pd.to_timedelta(rng.integers(0, 400, 500), unit="D")
    table.loc[::9, ["x", "day"]] = None
    y = (table["p"] == table["q"]).to_numpy().astype(int) + (table["x"].fillna(0) > 1)
    model = MemoryClassifier(random_state=0).fit(table, y)
    model.forget(table[:9], y[:9])
    found = model.contributions(table)
    monkeypatch.setattr(TreeRanker, "has_tables", False)
    for one, other in zip(found, model.contributions(table), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_a_base_of_other_columns_or_labels_is_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    from hammemo.edits.editing import take_state

    state = MODEL.state
    other: Any = MemoryClassifier(random_state=0).fit(X[["a", "b"]], Y).state.layout.cells
    assert isinstance(state.layout.cells, TreeCells)
    base = state.layout.cells.base
    wrong = [
        other.base,
        replace(base, counts=-base.counts),
        replace(base, function=replace(base.function, coefficients=base.function.coefficients[:-1])),
    ]
    for one in wrong:
        broken = copy.deepcopy(MODEL)
        take_state(
            broken, state.with_changes(layout=state.layout._replace(cells=replace(state.layout.cells, base=one)))
        )
        save(broken, tmp_path / "model")
        with pytest.raises(FileError, match=r"additive base|coefficients|counts"):
            load(tmp_path / "model")


def test_forgetting_wrong_labels_makes_answers_better() -> None:
    losses = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = sums(600, seed)
        wrong = rng.choice(400, 40, replace=False)
        labels = y[:400].copy()
        labels[wrong] = 1 - labels[wrong]
        model = MemoryClassifier(random_state=0).fit(X[:400], labels)
        before = log_loss(y[400:], model.predict_proba(X[400:]))
        model.forget(X.iloc[wrong], labels[wrong])
        losses.append((before, log_loss(y[400:], model.predict_proba(X[400:]))))
    assert np.mean(losses, axis=0)[1] < np.mean(losses, axis=0)[0]
