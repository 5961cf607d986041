"""Modified Kneser-Ney: probabilities sum to one, and are those of plain dictionaries."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from language.kenlm import KenLM
from language.kneser_ney import KneserNey, discounts

if TYPE_CHECKING:
    from collections.abc import Sequence

N_TYPES = 5
STREAM = st.lists(st.integers(0, N_TYPES - 2), min_size=1, max_size=60)  # one type is never seen
CONTEXT = st.lists(st.integers(0, N_TYPES - 1), max_size=6)


class Dictionaries:
    """The same by dictionaries of tuples."""

    def __init__(self, stream: Sequence[int], order: int) -> None:
        self.counts: list[Counter[tuple[int, ...]]] = []
        grams = [[tuple(stream[i : i + n]) for i in range(len(stream) - n + 1)] for n in range(order + 2)]
        longest = max(n for n in range(1, order + 1) if grams[n])
        for n in range(1, longest + 1):
            counted = grams[n] if n == longest else [gram[1:] for gram in set(grams[n + 1])]
            self.counts.append(Counter(counted))
        self.discounts = [discounts(np.array(list(counter.values()), np.int64)) for counter in self.counts]

    def probability(self, context: Sequence[int], token: int) -> float:
        found = 1 / N_TYPES
        for n, (counter, discount) in enumerate(zip(self.counts, self.discounts, strict=True)):
            if n > len(context):
                break
            u = tuple(context[len(context) - n :])
            following: dict[int, int] = defaultdict(int)
            for gram, count in counter.items():
                if gram[:-1] == u:
                    following[gram[-1]] = count
            if following:
                taken = sum(discount[min(count, 3)] for count in following.values())
                own = following[token] - discount[min(following[token], 3)]
                found = (own + taken * found) / sum(following.values())
        return found


def all_types(model: KneserNey, context: list[int]) -> np.ndarray:
    streams = [np.array([*context, token]) for token in range(N_TYPES)]
    return np.array([model.probabilities(stream, len(context))[0] for stream in streams])


@settings(max_examples=100)
@given(stream=STREAM, context=CONTEXT, order=st.integers(1, 5))
def test_probabilities_sum_to_one(stream: list[int], context: list[int], order: int) -> None:
    model = KneserNey(order)
    model.count(np.array(stream), N_TYPES)
    found = all_types(model, context)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()


@settings(max_examples=100)
@given(stream=STREAM, context=CONTEXT, order=st.integers(1, 4))
def test_probabilities_are_those_of_dictionaries(stream: list[int], context: list[int], order: int) -> None:
    model, plain = KneserNey(order), Dictionaries(stream, order)
    model.count(np.array(stream), N_TYPES)
    expected = [plain.probability(context, token) for token in range(N_TYPES)]
    np.testing.assert_allclose(all_types(model, context), expected)


def test_a_long_stream_is_asked_at_once() -> None:
    rng = np.random.default_rng(0)
    learnt, asked = rng.integers(0, N_TYPES, 400), rng.integers(0, N_TYPES, 50)
    model, plain = KneserNey(3), Dictionaries(learnt.tolist(), 3)
    model.count(learnt, N_TYPES)
    expected = [plain.probability(asked[:place].tolist(), int(asked[place])) for place in range(10, 50)]
    np.testing.assert_allclose(model.probabilities(asked, 10), expected)


def test_kenlm_gives_the_same(tmp_path: Path) -> None:
    program = shutil.which("lmplz")
    if program is None:
        pytest.skip("lmplz and query of KenLM are not on the path")
    rng = np.random.default_rng(0)
    types, learnt = np.unique(np.minimum(rng.zipf(1.3, 30_000), 500), return_inverse=True)
    asked = rng.choice(learnt, 300)
    ours, theirs = KneserNey(3), KenLM(Path(program).parent, tmp_path, 3)
    start, end = len(types), len(types) + 1  # KenLM puts these around a text
    ours.count(np.array([start, *learnt, end]), len(types) + 2)
    theirs.count(learnt)
    np.testing.assert_allclose(theirs.probabilities(asked, 5), ours.probabilities(asked, 5), rtol=0.001)


def test_discounts_of_counts_of_counts() -> None:
    # four counted once, two twice, one three times, one four times: Y = 4 / (4 + 4)
    assert discounts(np.array([1, 1, 1, 1, 2, 2, 3, 4])).tolist() == [0.0, 0.5, 1.25, 1.0]
    assert discounts(np.array([5, 7])).tolist() == [0.0, 0.0, 0.0, 0.0]


def test_an_empty_stream_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to count"):
        KneserNey().count(np.array([], np.int64), 3)
