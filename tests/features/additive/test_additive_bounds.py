"""Sums of an additive function at their bounds: no score leaves 64 bits, and pairs are tested by any number of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hammemo.features.additive import fit_class_base, fit_classes
from hammemo.features.additive.additive_base import round_coefficients, score_rows
from hammemo.features.additive.design import MAX_COEFFICIENT, AdditiveDesign
from hammemo.features.additive.label_base import LabelBase
from hammemo.features.additive.levels import HAT
from hammemo.features.additive.penalties import choose_pairs
from hammemo.features.cells.column_codes import choose_codes
from hammemo.tokens.column_kinds import NUMBERS
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.vocabulary import Vocabulary


def design_of(n_columns: int) -> AdditiveDesign:
    """Return a design of so many columns with two knots each."""
    knots = (np.array([0.0, 1.0]),) * n_columns
    no_pairs = np.empty((0, 2), np.int64)
    return AdditiveDesign(knots, (False,) * n_columns, (), tuple(range(n_columns)), no_pairs)


@pytest.mark.parametrize("n_columns", [1, 1300, 5000])
def test_no_score_leaves_64_bits(n_columns: int) -> None:
    design = design_of(n_columns)
    most = design.largest_coefficient(2)
    assert most == MAX_COEFFICIENT or n_columns > 1300
    values = np.array([[1e9], [-1e9]]).repeat(n_columns, axis=1)  # behind the outer knots: -1024 and 2048
    rows = design.encode_rows(values, np.empty((2, 0), np.uint8))
    coefficients = np.full((design.p, 1), most)
    coefficients[1::2] *= -1  # of the first knots
    found = score_rows(rows, coefficients)[:, 0].tolist()
    high = HAT * most + 3 * HAT * most * n_columns
    low = HAT * most - 3 * HAT * most * n_columns
    assert high < 2**62
    assert found == [(high + HAT // 2) // HAT, (low + HAT // 2) // HAT]
    assert round_coefficients(np.array([1e30, -1e30]), 1.0, most).tolist() == [most, -most]


@pytest.mark.parametrize("n_labels", [3, 2**12, 2**20])
def test_no_centred_score_leaves_64_bits(n_labels: int) -> None:
    design = design_of(400)
    most = design.largest_coefficient(n_labels)
    score = design.reach * most // HAT
    assert n_labels * 2 * (score + 2**22) < 2**63  # of a label against all the others, with their priors
    scores = np.full((1, 3), -score)
    scores[0, 0] = score
    base = LabelBase(None, Vocabulary(np.arange(3)), np.ones(3, np.int64))  # type: ignore[arg-type]
    expected = [(s * 3 - sum(scores[0].tolist())) / (3 * 65536) for s in scores[0].tolist()]
    assert base._center(scores)[0].tolist() == expected


def test_a_pair_is_found_among_any_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    n = 600
    values = rng.normal(size=(n, 4)).round(2)
    labels = (values[:, 1] * values[:, 2] > 0).astype(int)
    contexts = Contexts.of(values)
    codes = choose_codes((NUMBERS,) * 4, contexts, np.ones(n, np.int64), pairs=np.empty((0, 2), np.int64), seed=0)
    rows: dict[str, Any] = {
        "codes": codes,
        "values": values,
        "name_codes": np.empty((n, 0), np.uint8),
        "labels": labels,
        "n_labels": 2,
        "words": np.sort(rng.integers(0, 2**63, n).astype(np.uint64)),
    }
    first_choices = []

    def choose(*arguments: Any, residuals: Any, variances: Any, **named: Any) -> Any:
        assert max(sum(map(abs, residuals[:, 0].tolist())), sum(variances[:, 0].tolist())) < 2**62
        pairs = choose_pairs(*arguments, residuals=residuals, variances=variances, **named)
        first_choices.append(pairs[0].tolist())
        return np.empty((0, 2), np.int64)

    monkeypatch.setattr(fit_classes, "choose_pairs", choose)
    for copies in (2**10, 2**35, 2**43):
        fit_class_base(**rows, counts=np.full(n, copies))
    assert first_choices == [[1, 2]] * 3


def test_coefficients_of_a_file_are_bounded_by_its_columns() -> None:
    narrow, wide = design_of(5), design_of(5000)
    assert narrow.largest_coefficient(2) == MAX_COEFFICIENT
    assert wide.largest_coefficient(2) < MAX_COEFFICIENT
    assert replace(wide, pairs=np.array([[0, 1]])).reach == wide.reach + HAT
