"""Settings come from strangers: known names only, and nothing large is made of them."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import ServiceError
from hammemo_server.edits.settings import Settings


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"columns": 3},
        {"columns": ["a", "b"], "memory": "exact"},
        {"columns": 4, "kernel": "suffixes", "vote": "log-linear"},
        {"columns": 4, "kernel": {"class": "Suffixes", "params": {"k": 2}}},
        {
            "columns": 4,
            "kernel": {"class": "Joined", "params": {"kernels": [{"class": "Pairs"}, {"class": "Suffixes"}]}},
        },
        {"memory": {"class": "Hashed", "params": {"buckets": 8}}, "keep": {"class": "Digests", "params": {"rows": 9}}},
        {"memory": "tiered"},
        {"memory": "hashed", "keep": "auto", "missing": "refuse", "seed": 7},
        {"vote": {"class": "LogLinear", "params": {"ridge": 2.0}}},
    ],
    ids=str,
)
def test_settings_make_a_model_that_learns_and_forgets(given: dict[str, Any]) -> None:
    settings = Settings.from_text(Settings.from_client(given, Limits()).text())
    model = settings.model().open(settings.columns or 2)
    row = ["a"] * model.n_features_in_
    model.partial_fit([row], ["x"])
    assert model.predict([row]).tolist() == ["x"]
    assert model.forget([row], ["x"]).classes_.tolist() == []


def test_a_model_has_digests_unless_told_otherwise() -> None:
    assert Settings.from_client({}, Limits()).model().keep == "auto+digests"
    for keep in ("auto", "digests", True, False, 50):
        assert Settings.from_client({"keep": keep}, Limits()).model().keep == keep
    limited = {"class": "Digests", "params": {"rows": 50}}
    assert repr(Settings.from_client({"keep": limited}, Limits()).model().keep) == "Digests(rows=50)"


def test_seeds_are_drawn_and_kept() -> None:
    one, other = (Settings.from_client({}, Limits()) for _ in range(2))
    assert one.model().random_state != other.model().random_state
    assert Settings.from_text(one.text()).model().random_state == one.model().random_state
    assert "seed" not in one.given


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        {"colums": 3},
        {"columns": 0},
        {"columns": True},
        {"columns": 2**40},
        {"columns": ["a", "a"]},
        {"columns": ["a", 1]},
        {"columns": []},
        {"kernel": "nonsense"},
        {"kernel": 3},
        {"kernel": {"class": "os.system"}},
        {"kernel": {"class": "Exact"}},
        {"kernel": {"class": "Suffixes", "params": {"k": -1}}, "columns": 3},
        {"kernel": {"class": "Suffixes", "params": {"unknown": 1}}},
        {"kernel": {"class": "Suffixes", "params": [1]}},
        {"kernel": "pairs", "columns": 4096},
        {"memory": {"class": "Hashed", "params": {"buckets": 10**12}}, "columns": 3},
        {"memory": {"class": "Hashed", "params": {"buckets": [10**12]}}, "columns": 1},
        {"memory": {"class": "Hashed", "params": {"reserved": 10**12}}, "columns": 3},
        {"memory": {"class": "Hashed", "params": {"buckets": "many"}}, "columns": 3},
        {"memory": {"class": "Hashed", "params": {"key": "0123456789abcdef"}}},
        {"memory": {"class": "Hashed", "params": {"key": {"secret": True}}}},
        {"memory": {"class": "Hashed", "params": {"buckets": 10**9}}},
        {"memory": {"class": "Tiered", "params": {"buckets": 10**12}}, "columns": 3},
        {"memory": {"class": "Gaussian", "params": {"d": 10**9}}, "columns": 3},
        {"memory": "gaussian", "vote": "sum"},
        {"keep": {"class": "Digests", "params": {"key": "0123456789abcdef"}}},
        {"keep": {"class": "Digests", "params": {"rows": "most"}}},
        {"vote": "most"},
        {"vote": {"class": "LogLinear", "params": {"ridge": 1e300, "weights": [1] * 5000}}, "columns": 2},
        {"keep": "everything"},
        {"keep": 0},
        {"keep": None},
        {"missing": "perhaps"},
        {"seed": -1},
        {"seed": "a"},
        {"seed": 2**64},
        {"columns": ["x" * 70_000]},
    ],
    ids=lambda value: str(value)[:60],
)
def test_settings_that_make_no_model_are_refused_and_cost_nothing(given: Any) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ServiceError):
            Settings.from_client(given, Limits())
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
