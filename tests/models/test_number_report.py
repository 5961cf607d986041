"""The report of a model of numbers: held-out scores, what bounds would mend, and what a notebook shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hammemo import MemoryRegressor
from hammemo.tasks.numbers import report as number_report
from hammemo.tasks.numbers.answer import get_answers
from hammemo.tasks.numbers.errors import predict_held_out

pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:Rows were forgotten")]


def test_held_out_scores_are_their_definitions_and_near_those_of_new_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=900)
    model = MemoryRegressor().fit(X[:450], y[:450])
    found = model.report().held_out
    assert found is not None
    held_out = predict_held_out(model.state)
    assert held_out is not None
    numbers = get_answers(model.state).convert_units
    targets = numbers(held_out.targets.astype(np.float64))
    errors = targets - numbers(held_out.predicted)
    assert found.rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert found.r2 == pytest.approx(1 - np.mean(errors**2) / targets.var())
    assert found.below_zero is None
    new = np.sqrt(np.mean((y[450:] - model.predict(X[450:])) ** 2))
    seen = np.sqrt(np.mean((y[:450] - model.predict(X[:450])) ** 2))
    assert seen < found.rmse
    # each has a standard error of about 1 / sqrt(900): beyond 4.5 of their difference with a probability below 1e-5
    assert abs(found.rmse - new) < 4.5 * np.sqrt(2 / 900)
    assert f"R² {found.r2:.3f}, RMSE" in str(model.report())


def test_the_report_says_what_bounds_would_mend() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = rng.poisson(np.exp(0.5 + X[:, 0])).astype(float)
    model = MemoryRegressor().fit(X, y)
    found = model.report().held_out
    assert found is not None
    assert found.below_zero is not None
    assert found.below_zero > 0.02
    hint = f"all targets are >= 0, and {found.below_zero:.0%} of held-out predictions are below: bounds=(0, None)"
    assert hint in str(model.report())
    bounded = model.set_params(bounds=(0, None)).report()
    assert "held-out predictions are below" not in str(bounded)
    assert "answers lie within (0.0, None)" in str(bounded)
    assert bounded.held_out is not None
    assert bounded.held_out.rmse < found.rmse
    assert "below: bounds" not in str(MemoryRegressor().fit(X, y - 1).report())


def test_a_report_where_nothing_can_be_held_out() -> None:
    for model in (
        MemoryRegressor(keep=False).fit([[1.0], [2.0]], [1, 2]),
        MemoryRegressor().fit([[1.0]], [2.0]).forget([[1.0]], [2.0]),
    ):
        assert "held out: not measured" in str(model.report())
    constant = MemoryRegressor().fit(np.arange(50.0)[:, None], np.full(50, 1e300)).report().held_out
    assert constant is not None
    assert constant.r2 is None
    assert constant.rmse == 0


def test_a_notebook_shows_the_report_and_dir_computes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = MemoryRegressor()
    assert "held out" not in model._repr_html_()
    model.fit(X, X[:, 0])
    asked = []
    share = number_report._share_r2

    def noted(state: Any) -> Any:
        asked.append(state)
        return share(state)

    monkeypatch.setattr(number_report, "_share_r2", noted)
    assert {"feature_importances_", "n_features_in_", "predict_interval"} <= set(dir(model))
    assert not asked
    assert "held out: R²" in model._repr_html_()
    assert "held out: R²" in model._repr_mimebundle_()["text/html"]
    assert model.feature_importances_.tolist() == model.feature_importances_.tolist()
    assert len(asked) == 1  # once a version
    model.forget(X[:9], X[:9, 0])
    assert model.feature_importances_.argmax() == 0
    assert len(asked) == 2
    assert "feature_importances_" not in dir(MemoryRegressor())
    assert "feature_importances_" not in dir(MemoryRegressor(keep=False).fit(X, X[:, 0]))
