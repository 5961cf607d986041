"""A document that has no window is not forgotten without a word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hammemo import MemoryClassifier

VISITS = [["a", "b"], ["a", "b", "c", "d"], ["b", "c", "a"]]


@pytest.fixture
def shop() -> MemoryClassifier:
    return MemoryClassifier(memory="exact", vote="sum").fit_stream(VISITS * 5, h=3, short="pad")


@pytest.mark.parametrize("documents", [VISITS, VISITS[:1], [["never learnt"]], iter(VISITS), [[]]])
def test_it_is_refused_and_nothing_changes(documents: Any) -> None:
    shop = MemoryClassifier(memory="exact", vote="sum").fit_stream(VISITS * 5, h=3)
    before = shop.memory_.state_bytes()
    with pytest.raises(ValueError, match="nothing of it would be removed"):
        shop.forget_stream(documents)
    assert shop.memory_.state_bytes() == before


def test_the_error_names_the_document_of_a_flat_array_too() -> None:
    stream, starts = np.arange(12) % 4, [0, 5, 7]
    model = MemoryClassifier(memory="exact", vote="sum").fit_stream(stream, h=2, starts=starts)
    with pytest.raises(ValueError, match="Document 1 has 2 tokens, and a context of 2 with its label has 3"):
        model.forget_stream(stream, starts=starts)
    assert not model.forget_stream(stream, starts=starts, short="drop").memory_.label_counts.sum()


def test_with_short_it_is_as_it_was_learnt(shop: MemoryClassifier) -> None:
    n = shop.memory_.label_counts.sum()
    assert shop.forget_stream(VISITS[:1], short="drop").memory_.label_counts.sum() == n
    assert shop.forget_stream(VISITS[:1], short="pad").memory_.label_counts.sum() == n - 2
    assert shop.forget_stream([]).memory_.label_counts.sum() == n - 2
    assert shop.forget_stream(np.empty(0, int)).memory_.label_counts.sum() == n - 2
