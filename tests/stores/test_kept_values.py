"""Packed rows of wide tables are limited by the size of their numbers, however edits are grouped."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, MemoryRegressor, load, save
from hammemo._arrays.checked import StoredArrays
from hammemo.stores import kept_rows
from hammemo.stores.kept import THRESHOLDS
from hammemo.stores.kept_rows import KeptRows
from hammemo.tokens.contexts import Examples
from hammemo.tokens.distinct import example_words

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick

N_ROWS = 60
MODELS = [MemoryClassifier, MemoryRegressor]


def make_rows(seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 200, N_ROWS)
    return [f"{place:03}" + "x" * length for place, length in enumerate(lengths.tolist())]


def as_examples(tokens: list[str]) -> Examples:
    X = np.array(tokens, object)[:, None]
    return Examples.of(X, np.array(["label"] * len(tokens), object))


def size_of(token: str) -> int:
    return 1 + -(-len(token) // 8)


def contents(kept: KeptRows) -> list[Any]:
    return sorted(kept.examples().contexts.vocabulary.tolist())


@given(
    seed=st.integers(0, 5),
    most_values=st.integers(5, 1200),
    most=st.sampled_from([7, 1000]),
    cuts=st.lists(st.integers(0, N_ROWS), max_size=8),
    ways=st.lists(st.sampled_from(["batch", "single", "merge"]), min_size=9, max_size=9),
)
@settings(max_examples=80)
def test_the_threshold_is_the_highest_with_room_however_rows_came(
    seed: int, most_values: int, most: int, cuts: list[int], ways: list[str]
) -> None:
    tokens = make_rows(seed)
    empty = replace(KeptRows.empty(h=1, seed=seed, most=most), most_values=most_values)
    words = example_words(as_examples(tokens), seed).tolist()
    sizes = dict(zip(words, map(size_of, tokens), strict=True))

    def has_room(threshold: int) -> bool:
        low = [word for word in words if word < threshold]
        return len(low) <= most and sum(sizes[word] for word in low) <= most_values

    fitting = max(threshold for threshold in THRESHOLDS if has_room(threshold))
    expected = max(fitting, min(threshold for threshold in THRESHOLDS if threshold > min(words)))
    grouped: KeptRows | None = empty
    ends = sorted({0, *cuts, N_ROWS})
    for way, (first, last) in zip(ways, itertools.pairwise(ends), strict=False):
        assert grouped is not None
        part = tokens[first:last]
        if way == "batch":
            grouped = grouped.edit(as_examples(part), 1)
        elif way == "merge":
            grouped = grouped.plus(empty.edit(as_examples(part), 1), 1)
        else:
            for token in part:
                grouped = grouped.edit_one((token,), "label", 1)
    assert grouped is not None
    low = sorted(token for token, word in zip(tokens, words, strict=True) if word < expected)
    assert (grouped.lowest_threshold, contents(grouped)) == (expected, low)
    again = grouped.empty_copy().restore(StoredArrays(dict(grouped.state())))
    assert (again.most_values, contents(again)) == (most_values, low)
    assert copy.deepcopy(grouped).n_values == sum(map(size_of, low))


def make_wide(n_rows: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n_rows, 600))


@pytest.mark.parametrize("model", MODELS)
def test_models_of_wide_tables_keep_at_most_the_budget(
    model: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    most_values = 40 * 602  # of 600 numbers, a letter that says dense, and a label
    monkeypatch.setattr(kept_rows, "MOST_TOKENS", most_values)
    X = make_wide(80)
    y = (X[:, 0] > 0).astype(int)
    at_once = model(random_state=0).fit(X, y)
    kept = at_once.state.store
    assert 20 < len(kept) <= 40
    assert kept.n_values <= most_values
    in_pieces = model(random_state=0).fit(X[:50], y[:50])
    for row, label in zip(X[50:], y[50:].tolist(), strict=True):
        in_pieces.learn_one(row.tolist(), label)
    assert in_pieces.state.store.lowest_threshold == kept.lowest_threshold
    assert contents(in_pieces.state.store) == contents(kept)
    save(at_once, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.digest() == at_once.digest()
    assert loaded.state.store.most_values == most_values
    more = make_wide(200)[80:]
    loaded.partial_fit(more, np.arange(120) % 2)
    assert loaded.state.store.n_values <= most_values


@pytest.mark.parametrize("model", MODELS)
def test_a_number_of_rows_lifts_the_budget(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "MOST_TOKENS", 40 * 602)
    X = make_wide(80)
    learner = model(random_state=0, keep=1000).fit(X, np.arange(80) % 2)
    assert learner.state.store.holds_all
    assert len(learner.state.store) == 80


def test_narrow_rows_have_no_budget_of_values() -> None:
    assert KeptRows.empty(h=2, seed=0).most_values is None
    assert "most_values" not in KeptRows.empty(h=2, seed=0).describe()
