"""What is one token, what is none, and vocabularies and ranks against plain Python."""

from __future__ import annotations

import enum
from decimal import Decimal
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hammemo.tokens.vocabulary as vocabulary_module
from hammemo._arrays.integers import object_array
from hammemo.tokens.vocabulary import NO_TOKEN, Token, Vocabulary, as_token, factorize, factorize_integers

pytestmark = pytest.mark.quick

randomly = settings(max_examples=150, deadline=None)

few = st.sampled_from([0, -0.0, 1, True, 1.0, 3, 0.5, -2, -2.5, "", "1", "a", "\ud800", "é", "\U0001f600"])
ints = st.integers(-(2**63) + 1, 2**63 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
values = few | ints | finite | st.text(max_size=3)
value_lists = st.lists(values, max_size=20)
exact_ints = st.lists(st.integers(-4, 4) | st.integers(-(2**53), 2**53) | st.just(NO_TOKEN), max_size=20)

REFUSED: list[tuple[Any, type[Exception], str]] = [
    (None, ValueError, "None is not a token.*'missing'.*NO_TOKEN"),
    (float("nan"), ValueError, "NaN is not a token.*'missing'.*NO_TOKEN"),
    (np.float32("nan"), ValueError, "NaN is not a token.*'missing'.*NO_TOKEN"),
    (pd.NA, ValueError, "<NA> is not a token.*'missing'.*NO_TOKEN"),
    (pd.NaT, ValueError, "NaT is not a token.*'missing'.*NO_TOKEN"),
    (float("inf"), ValueError, "finite.*string token such as 'inf'"),
    (float("-inf"), ValueError, "finite.*string token such as 'inf'"),
    (2**63, ValueError, r"9223372036854775808 does not fit in 64 bits.*str\(\)"),
    (-(2**63) - 1, ValueError, r"does not fit in 64 bits.*str\(\)"),
    (np.uint64(2**63), ValueError, r"does not fit in 64 bits.*str\(\)"),
    (b"a", TypeError, r"b'a' is of type bytes.*str\(\)"),
    ({"a": 1}, TypeError, r"of type dict.*str\(\)"),
    ([1, 2], TypeError, r"\[1, 2\] is of type list.*str\(\)"),
    ((1, 2), TypeError, r"\(1, 2\) is of type tuple.*str\(\)"),
    (1j, TypeError, r"of type complex.*str\(\)"),
    (np.datetime64("2020-01-01"), TypeError, r"of type datetime64.*str\(\)"),
]
refused = pytest.mark.parametrize(("value", "error", "way_out"), REFUSED, ids=[repr(value) for value, _, _ in REFUSED])


class Colour(str, enum.Enum):  # noqa: UP042  (str() of a StrEnum member is its value; of this it is not)
    RED = "red"


def typed(tokens: Any) -> list[tuple[type, Token]]:
    return [(type(token), token) for token in tokens]


def canonical(values: Any) -> list[Token]:
    """The distinct tokens of plain Python values: integers, other floats, strings, each ascending."""
    numbers = {value for value in values if not isinstance(value, str)} - {NO_TOKEN}
    whole = {value for value in numbers if value % 1 == 0 and -(2**63) <= value < 2**63}
    strings = {value for value in values if isinstance(value, str)}
    return [*sorted(map(int, whole)), *sorted(map(float, numbers - whole)), *sorted(strings)]


def assert_factorized(array: np.ndarray[Any, Any], values: list[Any]) -> None:
    vocabulary, ranks = factorize(array)
    expected = canonical(values)
    assert typed(vocabulary) == typed(expected)
    assert ranks.tolist() == [-1 if value == NO_TOKEN else expected.index(value) for value in values]
    assert ranks.dtype == np.int64


@pytest.mark.parametrize(
    "three", [3, 3.0, np.int32(3), np.uint8(3), np.int64(3), np.float16(3), np.float32(3), np.float64(3)], ids=repr
)
def test_every_number_equal_to_three_is_the_token_three(three: Any) -> None:
    assert typed([as_token(three)]) == [(int, 3)]
    assert list(Vocabulary.of([3, three])) == [3]


@pytest.mark.parametrize("one", [True, np.True_, 1.0], ids=repr)
def test_true_is_the_token_one(one: Any) -> None:
    assert typed([as_token(one)]) == [(int, 1)]
    assert list(Vocabulary.of([1, one])) == [1]


def test_a_string_is_another_token_than_the_number_it_spells() -> None:
    assert typed([as_token("3")]) == [(str, "3")]
    assert list(Vocabulary.of(["3", 3])) == [3, "3"]


def test_a_fraction_is_its_own_token() -> None:
    assert typed([as_token(0.5), as_token(np.float32(0.5))]) == [(float, 0.5), (float, 0.5)]
    assert list(Vocabulary.of([0.5, 0, 1])) == [0, 1, 0.5]


def test_minus_zero_is_the_token_zero() -> None:
    assert typed([as_token(-0.0)]) == [(int, 0)]
    assert typed(factorize(np.array([-0.0, 0.0]))[0]) == [(int, 0)]
    assert typed(Vocabulary.of([-0.0])) == [(int, 0)]


def test_strings_of_numpy_become_plain_strings() -> None:
    assert typed([as_token(np.str_("a"))]) == [(str, "a")]


def test_whole_floats_beyond_64_bits_stay_floats() -> None:
    assert typed([as_token(2.0**63), as_token(-(2.0**64))]) == [(float, 2.0**63), (float, -(2.0**64))]
    assert typed([as_token(-(2.0**63))]) == [(int, NO_TOKEN)]
    assert_factorized(np.array([2.0**63, -(2.0**64), 1e300, 1.0]), [2.0**63, -(2.0**64), 1e300, 1.0])


def test_a_string_enum_member_is_the_token_it_equals() -> None:
    assert as_token(Colour.RED) == "red"


def test_a_string_enum_member_factorizes_as_the_token_it_equals() -> None:
    vocabulary, ranks = factorize(object_array([Colour.RED, "red"]))
    assert list(vocabulary) == ["red"]
    assert ranks.tolist() == [0, 0]


@refused
def test_what_is_no_token_is_refused_with_the_way_out(value: Any, error: type[Exception], way_out: str) -> None:
    with pytest.raises(error, match=way_out):
        as_token(value)


@refused
def test_what_is_no_token_is_refused_inside_an_object_array(value: Any, error: type[Exception], way_out: str) -> None:
    with pytest.raises(error, match=way_out):
        factorize(object_array(["a", value, 2]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("value", "way_out"), [("nan", "NO_TOKEN"), ("inf", "finite"), ("-inf", "finite")])
def test_float_arrays_refuse_what_is_not_finite(value: str, way_out: str, dtype: type[np.floating[Any]]) -> None:
    with pytest.raises(ValueError, match=way_out):
        factorize(np.array([1.0, float(value)], dtype))


def test_unsigned_arrays_are_refused_from_two_to_the_63_on() -> None:
    assert list(factorize(np.array([2**63 - 1, 0], np.uint64))[0]) == [0, 2**63 - 1]
    with pytest.raises(ValueError, match=r"9223372036854775808 does not fit in 64 bits.*str\(\)"):
        factorize(np.array([0, 2**63], np.uint64))


@pytest.mark.parametrize("dtype", ["M8[D]", "M8[ns]", "m8[s]", "c16", "S3"])
@pytest.mark.parametrize("size", [0, 2])
def test_arrays_of_other_types_are_refused(dtype: str, size: int) -> None:
    with pytest.raises(TypeError, match=r"The array is of type .* must be a string or a number: .*astype\(str\)"):
        factorize(np.zeros(size, dtype))


@pytest.mark.parametrize("values", [[2.0**63, 2**63], [2**63, 2.0**63]], ids=["float first", "int first"])
def test_an_integer_beyond_64_bits_is_refused_beside_the_equal_float(values: list[Any]) -> None:
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        factorize(object_array(values))


@pytest.mark.parametrize("values", [[3, Decimal(3)], [Decimal(3), 3]], ids=["int first", "decimal first"])
def test_a_decimal_is_refused_beside_the_equal_integer(values: list[Any]) -> None:
    with pytest.raises(TypeError, match="of type Decimal"):
        factorize(object_array(values))


@given(values=value_lists)
@randomly
def test_objects_factorize_in_canonical_order(values: list[Any]) -> None:
    assert_factorized(object_array(values), values)


@given(values=st.lists(ints | st.integers(-3, 3), max_size=20))
@randomly
def test_integers_of_any_range_factorize(values: list[int]) -> None:
    assert_factorized(np.array(values, np.int64), values)


@given(st.lists(st.integers(-3, 3) | st.just(NO_TOKEN) | st.integers(-(2**63) + 1, 2**63 - 1), max_size=70))
def test_few_integers_factorize_as_many_do(values: list[int]) -> None:
    array = np.array(values, np.int64)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hammemo.tokens.vocabulary._MAX_LISTED", 0)
        many, ranks_of_many = factorize_integers(array)
    few, ranks = factorize_integers(array)
    assert few.tolist() == many.tolist()
    np.testing.assert_array_equal(ranks, ranks_of_many)


def test_integers_from_one_end_of_64_bits_to_the_other_factorize() -> None:
    values = [2**63 - 1, -(2**63) + 1, 0, 2**63 - 1, NO_TOKEN, -1]
    assert_factorized(np.array(values, np.int64), values)


@given(values=st.lists(finite | st.floats(-3, 3, width=16), max_size=20))
@randomly
def test_floats_factorize(values: list[float]) -> None:
    assert_factorized(np.array(values, np.float64), values)


@given(values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20))
@randomly
def test_single_precision_floats_factorize_as_the_doubles_they_equal(values: list[float]) -> None:
    assert_factorized(np.array(values, np.float32), values)
    assert_factorized(object_array(np.array(values, np.float32)), values)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="no extended precision here")
def test_extended_precision_floats_are_refused_in_float_and_object_arrays() -> None:
    tenth = np.longdouble(1) / np.longdouble(10)
    for array in (np.array([tenth]), object_array([0.1, tenth]), object_array([1, np.longdouble(1)])):
        with pytest.raises(TypeError, match="must be a string or a number"):
            factorize(array)


@given(values=exact_ints)
@randomly
def test_the_same_tokens_factorize_alike_in_int_float_and_object_arrays(values: list[int]) -> None:
    for array in (np.array(values, np.int64), np.array(values, np.float64), object_array(values)):
        assert_factorized(array, values)
    assert_factorized(object_array(map(float, values)), values)


@given(values=st.lists(st.integers(0, 255), max_size=20))
@randomly
def test_the_same_tokens_factorize_alike_in_every_integer_width(values: list[int]) -> None:
    for dtype in (np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.uint64):
        assert_factorized(np.array(values, dtype), values)


def test_bool_arrays_hold_zero_and_one() -> None:
    assert_factorized(np.array([True, False, True]), [1, 0, 1])


@given(values=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3)))
@randomly
def test_the_same_strings_factorize_alike_in_every_array_type(values: list[str]) -> None:
    for array in (object_array(values), np.array(values, np.str_), np.array(values, np.dtypes.StringDType())):
        assert_factorized(array, values)


@pytest.mark.parametrize("dtype", [np.int64, np.float64, object])
def test_no_token_has_rank_minus_one_and_is_in_no_vocabulary(dtype: Any) -> None:
    vocabulary, ranks = factorize(np.array([[5, NO_TOKEN], [NO_TOKEN, 4]], dtype))
    assert list(vocabulary) == [4, 5]
    assert ranks.tolist() == [[1, -1], [-1, 0]]


@pytest.mark.parametrize("dtype", [np.int64, np.float64, object])
def test_an_array_of_no_tokens_has_an_empty_vocabulary(dtype: Any) -> None:
    vocabulary, ranks = factorize(np.full(3, NO_TOKEN, dtype))
    assert list(vocabulary) == []
    assert ranks.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("dtype", [np.int64, np.float64, object])
def test_empty_arrays_keep_their_shape(dtype: Any) -> None:
    vocabulary, ranks = factorize(np.empty((0, 3), dtype))
    assert len(vocabulary) == 0
    assert ranks.shape == (0, 3)


@given(held=value_lists, asked=value_lists)
@randomly
def test_find_gives_the_rank_or_minus_one(held: list[Any], asked: list[Any]) -> None:
    tokens = canonical(held)
    expected = [tokens.index(token) if token in tokens else -1 for token in canonical(asked)]
    assert Vocabulary.of(held).find(Vocabulary.of(asked)).tolist() == expected


@given(first=value_lists, second=value_lists)
@randomly
def test_union_holds_the_tokens_of_both(first: list[Any], second: list[Any]) -> None:
    union = Vocabulary.of(first).union(Vocabulary.of(second))
    assert typed(union) == typed(canonical([*first, *second]))


@given(values=value_lists, data=st.data())
@randomly
def test_keep_holds_the_tokens_under_the_mask(values: list[Any], data: st.DataObject) -> None:
    tokens = canonical(values)
    mask = data.draw(st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens)))
    kept = Vocabulary.of(values).keep(np.array(mask, bool))
    assert typed(kept) == typed(compress(tokens, mask))


@given(values=value_lists, data=st.data())
@randomly
def test_a_vocabulary_does_not_depend_on_the_order_of_its_tokens(values: list[Any], data: st.DataObject) -> None:
    assert Vocabulary.of(values) == Vocabulary.of(data.draw(st.permutations([*values, *values])))


@given(first=st.lists(few), second=st.lists(few))
@randomly
def test_vocabularies_are_equal_exactly_when_their_tokens_are(first: list[Any], second: list[Any]) -> None:
    assert (Vocabulary.of(first) == Vocabulary.of(second)) == (set(first) == set(second))


def test_a_vocabulary_equals_no_list_and_has_no_hash() -> None:
    assert Vocabulary.of([1, 2]) != [1, 2]
    with pytest.raises(TypeError, match="unhashable"):
        hash(Vocabulary())


def test_repr_shows_the_size_and_the_first_five_tokens() -> None:
    assert repr(Vocabulary()) == "Vocabulary(0: )"
    assert repr(Vocabulary.of(["b", 2, 0.5])) == "Vocabulary(3: 2, 0.5, 'b')"
    assert repr(Vocabulary.of(range(5))) == "Vocabulary(5: 0, 1, 2, 3, 4)"
    assert repr(Vocabulary.of(range(9))) == "Vocabulary(9: 0, 1, 2, 3, 4, …)"


@given(values=value_lists)
@randomly
def test_arrays_hold_every_token_and_lone_surrogates_too(values: list[Any]) -> None:
    arrays = Vocabulary.of([*values, "\ud800"]).arrays()
    ends = np.cumsum(arrays["string_lengths"], dtype=np.int64).tolist()
    text = arrays["string_bytes"].tobytes()
    strings = [text[a:b].decode("utf-8", "surrogatepass") for a, b in zip([0, *ends], ends, strict=False)]
    assert typed([*arrays["ints"].tolist(), *arrays["floats"].tolist(), *strings]) == typed(
        canonical([*values, "\ud800"])
    )
    assert {name: array.dtype.name for name, array in arrays.items()} == {
        "ints": "int64",
        "floats": "float64",
        "string_bytes": "uint8",
        "string_lengths": "uint8",
    }


def test_an_array_that_is_written_to_meanwhile_gives_the_ranks_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([3, 5, 3])

    class Limit(int):
        """The limit of integers, which writes into the array when it is compared: after the range was found."""

        def __le__(self, other: int) -> bool:
            values[:] = 10**6
            return int(self) <= other

    monkeypatch.setattr(vocabulary_module, "_MAX_LISTED", 0)
    monkeypatch.setattr(vocabulary_module, "_INT_LIMIT", Limit(2**63))
    found, ranks = factorize(values)
    assert (found.tolist(), ranks.tolist(), values.tolist()) == ([3, 5], [0, 1, 0], [10**6] * 3)


@given(st.integers(0, 2**32), st.lists(st.sampled_from(["floats", "names", "both", "whole"]), min_size=1, max_size=4))
def test_columns_of_floats_beside_others_have_the_ranks_of_single_values(seed: int, kinds: list[str]) -> None:
    rng = np.random.default_rng(seed)
    floats = [*rng.normal(size=4).tolist(), 3.0, -0.0, 1e300, float(NO_TOKEN)]
    held: dict[str, list[Any]] = {"floats": floats, "names": ["a", "b"], "both": [0.5, 3, "a"], "whole": [3, 7, 2**60]}
    table = np.empty((70, len(kinds)), object)
    for j, kind in enumerate(kinds):
        table[:, j] = [held[kind][k] for k in rng.integers(0, len(held[kind]), 70)]
    (vocabulary, ranks), (expected, places) = factorize(table), vocabulary_module._factorize_objects(table.ravel())
    assert typed(vocabulary) == typed(expected)
    assert ranks.ravel().tolist() == places.tolist()
