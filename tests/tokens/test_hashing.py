"""Words of features: no two features share them, and they never change."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo.tokens.hashing import feature_words, features_of, key_words, token_hashes, vocabulary_hashes
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from hammemo.tokens.hashing import Feature
    from hammemo.tokens.vocabulary import Token

pytestmark = pytest.mark.quick

randomly = settings(max_examples=150, deadline=None)

tokens: st.SearchStrategy[Token] = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer()),
    st.sampled_from(["", "0", "1", "a", "ab", "b", "bc", "c", "\0", "\ud800", "0.5"]),
    st.text(max_size=4),
)
features: st.SearchStrategy[Feature] = tokens | st.lists(tokens, max_size=3).map(tuple)


def name(feature: Feature) -> Any:
    """Something equal for two features only if they are the same: types are told apart at every depth."""
    if isinstance(feature, tuple):
        return tuple, tuple(name(token) for token in feature)
    return type(feature), feature


def random_token(rng: random.Random) -> Token:
    kind = rng.randrange(3)
    if kind == 0:
        return rng.randrange(-(2**63), 2**63)
    if kind == 1:
        return rng.random()
    return "".join(rng.choices("abc1\0", k=rng.randrange(12)))


def test_the_words_of_a_string_are_fixed() -> None:
    assert feature_words("cat") == (6963959824515774552, 7062416507824601984, 2)


def test_the_words_of_a_tuple_are_fixed() -> None:
    assert feature_words(("cat", 7, 0.5)) == (4330987720156852436, 1624832603161941817, 3)


def test_the_words_of_a_float_are_its_bits() -> None:
    assert feature_words(0.5) == (0x3FE0000000000000, 0, 1)


def test_the_words_of_an_integer_are_its_value() -> None:
    assert [feature_words(i) for i in (0, -1, -(2**63))] == [(0, 0, 0), (2**64 - 1, 0, 0), (2**63, 0, 0)]


def test_key_words_are_fixed() -> None:
    assert key_words(0, "input") == (8301549956515952414, 13560658845384078808)


@given(batch=st.lists(features, unique_by=name))
@randomly
def test_different_features_have_different_words(batch: list[Feature]) -> None:
    words = [feature_words(feature) for feature in batch]
    assert len(set(words)) == len(batch)
    assert all(0 <= word < 2**64 for triple in words for word in triple)


def test_many_random_features_have_different_words() -> None:
    rng = random.Random(0)
    batch: list[Feature] = [random_token(rng) for _ in range(20_000)]
    batch += [tuple(random_token(rng) for _ in range(rng.randrange(4))) for _ in range(20_000)]
    assert len({feature_words(feature) for feature in batch}) == len({name(feature) for feature in batch}) > 30_000


def test_look_alike_features_have_different_words() -> None:
    alike: list[Feature] = [
        ("a", "bc"), ("ab", "c"), ("abc",), "abc", ("a", "b", "c"), ("a", "b"), ("a\x02b",),
        1, (1,), "1", ("1",), (1, 1), ("1", 1), (1, "1"), "(1,)", "\x01",
        "", (), ("",), ("", ""), 0, (0,), 0.5, (0.5,), "0.5", ("0.5",), 0x3FE0000000000000, (0x3FE0000000000000,),
    ]  # fmt: skip
    assert len({feature_words(feature) for feature in alike}) == len(alike)


def test_rows_of_ranks_name_tokens_or_tuples_of_them() -> None:
    held: list[Token] = [3, 0.5, "a"]
    assert features_of(held, np.array([[2], [0]])) == ["a", 3]
    assert features_of(held, np.array([[2, 0], [1, 1]])) == [("a", 3), (0.5, 0.5)]
    assert features_of(held, np.empty((0, 2), np.int64)) == []


def test_keys_depend_on_every_part_and_on_where_parts_end() -> None:
    keys = [key_words(12, "3"), key_words(1, "23"), key_words("123"), key_words(123, ""), key_words(1, "2", "3")]
    assert len(set(keys)) == len(keys)


def test_a_key_and_a_feature_of_the_same_text_differ() -> None:
    assert key_words("cat") != feature_words(("cat",))[:2] != feature_words("cat")[:2]


@pytest.mark.parametrize("key", [None, b"a secret of some length"])
def test_the_hashes_of_a_vocabulary_are_those_of_its_tokens(key: bytes | None) -> None:
    vocabulary = Vocabulary.of([-(2**62), -1, 0, 7, 0.5, -1e300, "", "a", "ß"])
    np.testing.assert_array_equal(vocabulary_hashes(vocabulary, 3, key), token_hashes(vocabulary.tolist(), 3, key))
