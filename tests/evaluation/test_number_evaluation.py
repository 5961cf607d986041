"""Evaluation of models of numbers: measures that are their definitions, and splits by tenths of the targets."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, mean_pinball_loss, mean_squared_error, r2_score

from hammemo import MemoryRegressor
from hammemo.evaluation.measures import LEVELS, MEAN, MODEL, NumberMeasures, evaluate_numbers
from hammemo.evaluation.splits import TableMaterial, folds, holdout, last_in_time


def rows(n: int = 300) -> TableMaterial:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return TableMaterial(X, X[:, 0] + rng.normal(size=n), is_target=True)


def test_measures_are_their_definitions() -> None:
    rng = np.random.default_rng(1)
    y, predicted = rng.normal(size=200), rng.normal(size=200)
    quantiles = np.sort(rng.normal(size=(200, len(LEVELS))), axis=1)
    found = NumberMeasures.of(y, predicted, quantiles)
    assert found.rmse == pytest.approx(mean_squared_error(y, predicted) ** 0.5)
    assert found.mae == pytest.approx(mean_absolute_error(y, predicted))
    assert found.r2 == pytest.approx(r2_score(y, predicted))
    pinball = [mean_pinball_loss(y, own, alpha=level) for own, level in zip(quantiles.T, LEVELS, strict=True)]
    assert found.pinball == pytest.approx(np.mean(pinball))
    low, high = quantiles[:, list(LEVELS).index(0.1)], quantiles[:, list(LEVELS).index(0.9)]
    assert found.coverage == np.mean((low <= y) & (y <= high))
    assert NumberMeasures.of(np.ones(3), np.ones(3), np.ones((3, len(LEVELS)))).r2 is None


def test_the_model_is_better_than_the_mean_and_covers() -> None:
    material = rows()
    found = evaluate_numbers(MemoryRegressor(), material, folds(material, 3))
    assert found.n_asked == len(material)
    assert sorted(found.targets) == sorted(material.y)
    ours, mean = found.measures[MODEL], found.measures[MEAN]
    assert ours.rmse < 0.9 * mean.rmse
    assert ours.pinball is not None
    assert mean.pinball is not None
    assert ours.coverage is not None
    assert ours.pinball < 0.9 * mean.pinball
    levels, shares = zip(*found.coverage, strict=True)
    assert levels == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    assert list(shares) == sorted(shares)
    assert abs(ours.coverage - 0.8) < 0.1
    assert set(found.to_dict()) == {"split", "learnt", "asked", "fit_seconds", "learners", "coverage"}


def test_every_fold_has_its_share_of_every_tenth_and_is_mixed() -> None:
    y = np.arange(200.0)
    material = TableMaterial(np.zeros((200, 1)), y, is_target=True)
    for _, asked in folds(material, 5).parts:
        assert np.bincount((y[asked] // 20).astype(int)).tolist() == [4] * 10
        assert len(set(np.diff(np.sort(asked)).tolist())) > 1  # not every fifth row
    [(_, asked)] = holdout(material, 0.2).parts
    assert np.bincount((y[asked] // 20).astype(int)).tolist() == [4] * 10
    timed = TableMaterial(material.X, y, list(range(200)), is_target=True)
    assert last_in_time(timed, 0.2).parts[0][1].tolist() == list(range(160, 200))


def test_the_figure_shows_predictions_and_coverage() -> None:
    pytest.importorskip("matplotlib")
    material = rows(80)
    left, right = evaluate_numbers(MemoryRegressor(), material, holdout(material, 0.5)).plot().axes
    assert (left.get_xlabel(), left.get_ylabel()) == ("prediction", "target")
    assert "coverage" in right.get_title(loc="left")
