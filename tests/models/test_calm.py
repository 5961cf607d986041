"""A refit changes little where few rows came or went."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calm
import forked
from hammemo import MemoryClassifier
from hammemo.features.cells.column_codes import LEAST_ROWS, MAX_CUTS, place_cuts, quantile_cuts
from hammemo.votes import tree_label_weights
from places import ROOT

if TYPE_CHECKING:
    from numpy.typing import NDArray


@pytest.fixture(scope="module")
def refits() -> list[dict[str, float]]:
    X, y = calm.make_table(1500)
    return [row for row in calm.measure_edits("made up", "ours", X, y, edits=[1], choices=4) if row["edit"] in (-1, 1)]


def test_one_row_changes_few_nodes_and_labels(refits: list[dict[str, float]]) -> None:
    labels, kept = (np.mean([row[name] for row in refits]) for name in ("labels", "kept"))
    assert labels < 3.5  # 7 to 9 % where draws depend on the number of a node
    assert kept > 65


def test_weights_do_not_depend_on_where_the_fit_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = calm.make_table(450)

    def asked() -> NDArray[np.float64]:
        return np.asarray(MemoryClassifier().fit(X[:450], y[:450]).predict_proba(X[450:]))

    stopped = asked()
    monkeypatch.setattr(tree_label_weights, "_STEPS", 5000)
    monkeypatch.setattr(tree_label_weights, "_TOLERANCE", 1e-12)
    assert np.abs(asked() - stopped).max() < 2e-4  # 4e-4 after 25 steps to 1e-6


def test_nodes_are_compared_by_what_they_ask() -> None:
    X, y = calm.make_table(300)
    model = MemoryClassifier().fit(X, y)
    assert calm.measure_kept_share(model, model.snapshot().refit()) == 1.0
    assert (calm.measure_kept_share(model, MemoryClassifier(random_state=1).fit(X, y)) or 0) < 0.2


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80))
def test_placed_cuts_are_those_at_quantiles_with_repetitions(values: list[float]) -> None:
    array, once = np.array(values), np.ones(len(values), np.int64)
    cuts = place_cuts(array, once)
    assert len(cuts) == MAX_CUTS
    assert (np.diff(cuts) >= 0).all()
    distinct = np.unique(cuts)
    assert np.array_equal(distinct[distinct > -1e300], quantile_cuts(array, once, MAX_CUTS, LEAST_ROWS))


def test_the_command() -> None:
    given = ("--rows", "300", "--tables", "made up, 2,000", "--edits", "1", "--choices", "1", "--learners", "ours")
    command = forked.Command("benchmarks/calm.py", *given, "--json", cwd=ROOT)
    printed, said = command.communicate()
    assert command.poll() == 0, said
    rows = json.loads(printed)["calm"]
    assert [row["edit"] for row in rows] == [-1, 1]
    assert all(0 < row["kept"] <= 100 and row["refit"] > 0 for row in rows)
