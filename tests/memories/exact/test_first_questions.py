"""The first few questions to counts that were learnt in bulk are answered from the plain table: the same answers."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, load, save
from hammemo.kernels import Bag, PositionalHamming, Suffixes
from hammemo.memories import Exact
from hammemo.memories.exact.live import live_rows
from hammemo.memories.exact.sum import SignedSum
from hammemo.paper.experiments.measuring import zipf_stream
from hammemo.votes import LogLinear, Mixture

if TYPE_CHECKING:
    from pathlib import Path

H = 3
VOTES = ["sum", "mean", LogLinear(sample=100, steps=5), LogLinear(sample=100, steps=5, per_label=False)]
PLAIN, AT_ONCE = 2**40, 0


def learnt(vote: Any, kernel: Any = None, n: int = 400) -> MemoryClassifier:
    stream = [row.tolist() for row in zipf_stream(n * 4, 12, seed=3).reshape(n, 4)]
    return MemoryClassifier(kernel or PositionalHamming(), Exact(), vote).fit_stream(stream, H)


def answers(model: MemoryClassifier, asked: list[list[int]]) -> list[Any]:
    probabilities = [model.predict_proba(asked)] if hasattr(model, "predict_proba") else []
    found = [model.predict(asked), model.top_k(asked, 1), model.top_k(asked, 5), model.class_scores(asked)]
    return [*found, *probabilities, str(model.explain(asked[0]))]


def worth(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    """Let a live table be made after questions that cost so much."""
    monkeypatch.setattr(SignedSum, "n_entries", entries)


@pytest.mark.parametrize("kernel", [PositionalHamming(), Suffixes(3), Suffixes(2) + Bag(2)], ids=str)
@pytest.mark.parametrize("vote", [*VOTES, Mixture(sample=100, steps=3)], ids=str)
def test_the_plain_table_gives_the_same_answers(vote: Any, kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = learnt(vote, kernel)
    asked = np.random.default_rng(5).integers(0, 14, (20, H)).tolist()
    found = []
    for entries in (PLAIN, AT_ONCE):
        worth(monkeypatch, entries)
        copy = pickle.loads(pickle.dumps(model))  # noqa: S301  (just written)
        found.append(answers(copy, asked))
        if vote in ("sum", "mean") or (not entries and not getattr(vote, "per_label", True)):
            assert copy.memory_.signed_sum.is_live == (not entries)  # weights of each label need no live table
    for plain, live in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, live)


@given(
    asked=st.lists(st.lists(st.integers(-1, 13), min_size=H, max_size=H), min_size=1, max_size=8),
    start=st.integers(0, 8),
)
@settings(max_examples=30)
def test_wherever_it_changes_over_no_answer_changes(asked: Any, start: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        worth(patch, AT_ONCE)
        expected = learnt("mean").predict(asked).tolist()
        worth(patch, start * live_rows.ENTRIES_A_CALL)
        model = learnt("mean")
        assert [model.predict([row])[0] for row in asked] == expected


def test_one_question_of_a_file_makes_no_live_table_and_many_do(tmp_path: Path) -> None:
    save(learnt("sum"), tmp_path / "small")
    model = asked_once(load(tmp_path / "small"))
    assert asked_once(model).memory_.signed_sum.is_live  # so small that it costs nothing
    stream = [row.tolist() for row in zipf_stream(40_000, 3000, seed=3).reshape(-1, 4)]
    save(MemoryClassifier("positional", memory=Exact(), vote="sum").fit_stream(stream, H), tmp_path / "large")
    model = load(tmp_path / "large")
    assert not asked_once(model).memory_.signed_sum.is_live
    for _ in range(20):
        asked_once(model)
    assert model.memory_.signed_sum.is_live
    reader = model.memory_.reader()
    assert reader.rows._plain is None
    assert reader.rows.stored.is_live


def asked_once(model: MemoryClassifier) -> MemoryClassifier:
    model.predict([[1, 2, 3]])
    return model


def test_an_edit_after_a_question_goes_on_with_the_live_table_that_was_made() -> None:
    model = learnt("sum")
    model.predict([[1, 2, 3]])
    live = model.memory_.signed_sum.live
    model.learn_one([1, 2, 3], 4)
    assert model.memory_.signed_sum.live.store is live.store
