"""Tuples of names are found and compared in tables that also have numbers."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from hammemo import FileError, MemoryClassifier, load, save
from hammemo.edits.editing import read_rows, take_state
from hammemo.features.cells import TreeCells
from hammemo.memories.exact import CountTable
from hammemo.memories.exact.table import holds_trees, table_of_trees

if TYPE_CHECKING:
    from pathlib import Path


def parity(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Return a table whose label is the parity of three of six columns of names, and one column of noise numbers."""
    rng = np.random.default_rng(seed)
    Z = rng.integers(0, 4, (n, 6))
    y = (Z[:, 0] + Z[:, 1] + Z[:, 2]) % 2
    X = pd.DataFrame({f"n{i}": [f"v{k}" for k in Z[:, i]] for i in range(6)})
    return X.assign(amount=rng.normal(size=n)), np.where(rng.random(n) < 0.02, 1 - y, y)


X, Y = parity(1300, 3)
MODEL: Any = MemoryClassifier(random_state=0).fit(X[:1000], Y[:1000])


def test_a_column_of_noise_numbers_hides_no_tuple() -> None:
    names = MemoryClassifier(random_state=0).fit(X[:1000].drop(columns="amount"), Y[:1000])
    apart, beside = (names.score(X[1000:].drop(columns="amount"), Y[1000:]), MODEL.score(X[1000:], Y[1000:]))
    assert MODEL.state.layout.cells.tuples
    assert beside > apart - 0.02
    assert "tuples of them" in MODEL.state.layout.choices.kernel


def test_refit_gives_the_model_of_the_rows_that_are_left(tmp_path: Path) -> None:
    edited = copy.deepcopy(MODEL).forget(X[:80], Y[:80]).partial_fit(X[1000:1100], Y[1000:1100]).refit()
    rows = np.r_[80:1100]
    again = MemoryClassifier(random_state=0).fit(X.iloc[rows[::-1]], Y[rows[::-1]])
    for name, model in (("edited", edited), ("again", again)):
        save(model, tmp_path / name)
    assert (tmp_path / "edited").read_bytes() == (tmp_path / "again").read_bytes()
    np.testing.assert_array_equal(load(tmp_path / "edited").predict_proba(X[1100:]), again.predict_proba(X[1100:]))


def test_rows_counted_at_leaves_give_the_table_of_their_cells() -> None:
    examples = read_rows(MODEL, X[:300], Y[:300], MODEL.state, np.arange(300) % 3).examples()
    assert holds_trees(MODEL.state.layout.cells, MODEL.sites_)
    by_leaf = table_of_trees(MODEL.state.layout.cells, examples, MODEL.sites_)
    of_cells = CountTable.from_examples(
        MODEL.state.layout.cells.replace_rows(examples).with_used_labels(), MODEL.sites_
    )
    labels = of_cells.label_counts.labels
    found, expected = by_leaf.arrays_for(labels), of_cells.arrays_for(labels)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_single_rows_and_contributions_agree_with_batches() -> None:
    model, asked = copy.deepcopy(MODEL), X[1000:1040]
    scores = model.class_scores(asked)
    for row, of_row in zip(asked.itertuples(index=False), scores, strict=True):
        explanation = model.explain(list(row), k=2)
        order = [model.classes_.tolist().index(label) for label in explanation.labels]
        assert len(explanation.sites) == X.shape[1]
        np.testing.assert_allclose(explanation.contributions.sum(axis=0) + explanation.base, of_row[order], atol=1e-9)
    predictor = model.compile()
    assert [predictor(list(row)) for row in asked.itertuples(index=False)] == model.predict(asked).tolist()


@pytest.mark.parametrize("tuples", [((0,),), ((0, 6),), ((1, 0),), ((0, 1), (0, 1)), ((0, 9),), ((-1, 0),)])
def test_a_file_with_other_tuples_is_refused(tmp_path: Path, tuples: tuple[tuple[int, ...], ...]) -> None:
    broken = copy.deepcopy(MODEL)
    state = broken.state
    assert isinstance(state.layout.cells, TreeCells)
    take_state(
        broken, state.with_changes(layout=state.layout._replace(cells=replace(state.layout.cells, tuples=tuples)))
    )
    save(broken, tmp_path / "model")
    with pytest.raises(FileError, match="tuple"):
        load(tmp_path / "model")
