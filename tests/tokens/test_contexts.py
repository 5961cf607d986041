"""Windows, contexts and examples against nested loops; what frames and lists keep; what is refused."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import NO_TOKEN, windows
from hammemo.tokens.contexts import MAX_EXAMPLES, Contexts, Examples, token_array, whole_multiplicity
from hammemo.tokens.missing import fill_missing
from hammemo.tokens.vocabulary import Vocabulary

pytestmark = pytest.mark.quick

randomly = settings(max_examples=100, deadline=None)

Doc = list[Any]
BIG = 2**53 + 1  # an integer that no float equals
MISSING = r"'missing'.*NO_TOKEN"
ints, strings = st.integers(-(2**63) + 1, 2**63 - 1), st.text(max_size=2)
floats = st.integers(-9, 9).map(lambda i: i / 2) | st.sampled_from([2.0**53, -1e300, 2.0**63])
small_ints = st.integers(-5, 5)
doc_kinds: dict[str, st.SearchStrategy[Doc]] = {
    "ints": st.lists(ints, max_size=7),
    "strings": st.lists(strings, max_size=7),
    "floats": st.lists(floats, max_size=7),
    "mixed": st.lists(small_ints | ints | floats | strings, max_size=7),
    "a kind per document": st.one_of([st.lists(kind, max_size=7) for kind in (ints, floats, strings)]),
    "integers and strings": st.lists(ints, max_size=7) | st.lists(strings, max_size=7),
    "bools and ints": st.lists(st.booleans(), max_size=7) | st.lists(ints, max_size=7),
}
every_kind = pytest.mark.parametrize("kind", doc_kinds)


def naive_windows(docs: list[Doc], h: int, pad: Any = None, *, drop: bool) -> tuple[list[Doc], Doc]:
    contexts, targets = [], []
    for doc in docs:
        for i, target in enumerate(doc):
            before = doc[max(i - h, 0) : i]
            missing = h - len(before)
            if not (drop and missing):
                contexts.append([NO_TOKEN if pad is None else pad] * missing + before)
                targets.append(target)
    return contexts, targets


def assert_same_windows(result: tuple[Any, Any], expected: tuple[list[Doc], Doc], h: int) -> None:
    X, y = result
    assert X.shape == (len(expected[1]), h)
    assert (X.tolist(), y.tolist()) == expected


def tokens_of(X: Any) -> list[list[Any]]:
    """The tokens of contexts, by way of vocabulary and ranks; None where there is no token."""
    contexts = Contexts.of(X)
    tokens = [*contexts.vocabulary, None]
    return [[tokens[rank] for rank in row] for row in contexts.ranks.tolist()]


@every_kind
@given(data=st.data(), h=st.integers(1, 4))
@randomly
def test_windows_drop_targets_with_too_few_tokens_before_them(kind: str, data: st.DataObject, h: int) -> None:
    docs = data.draw(st.lists(doc_kinds[kind], max_size=5))
    assert_same_windows(windows(docs, h), naive_windows(docs, h, drop=True), h)


@every_kind
@given(data=st.data(), h=st.integers(1, 4), pad=st.sampled_from([None, 0, 0.5, "<s>"]))
@randomly
def test_windows_pad_targets_with_too_few_tokens_before_them(kind: str, data: st.DataObject, h: int, pad: Any) -> None:
    docs = data.draw(st.lists(doc_kinds[kind], max_size=5))
    assert_same_windows(windows(docs, h, short="pad", pad=pad), naive_windows(docs, h, pad, drop=False), h)


@pytest.mark.parametrize("short", ["drop", "pad"])
def test_windows_never_cross_documents(short: Any) -> None:
    docs = [[f"{d}:{i}" for i in range(length)] for d, length in enumerate([3, 0, 1, 5, 2])]
    X, y = windows(docs, 2, short=short)
    assert len(y) == (1 + 3 if short == "drop" else 11)
    for row, target in zip(X, y, strict=True):
        assert {token.split(":")[0] for token in [*row, target] if token != NO_TOKEN} == {target.split(":")[0]}


@pytest.mark.parametrize("short", ["drop", "pad"])
@pytest.mark.parametrize("docs", [[], [[]], [[], np.empty(0), ()]], ids=["none", "one empty", "several empty"])
def test_no_tokens_give_no_windows(docs: list[Any], short: Any) -> None:
    X, y = windows(docs, 3, short=short)
    assert X.shape == (0, 3)
    assert y.shape == (0,)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int32, np.int64, bool])
@pytest.mark.parametrize("short", ["drop", "pad"])
def test_documents_of_every_integer_type_keep_their_tokens(dtype: Any, short: Any) -> None:
    plain = [[1, 0, 1, 1], [BIG, -1, 2]]
    docs: list[Any] = [np.array(plain[0], dtype), plain[1]]
    assert_same_windows(windows(docs, 2, short=short), naive_windows(plain, 2, drop=short == "drop"), 2)


def test_integer_documents_give_integer_contexts() -> None:
    docs: list[Any] = [np.array([1, 2], np.uint8), [3, 4]]
    X, y = windows(docs, 1, short="pad")
    assert X.dtype == y.dtype == np.int64


def test_unsigned_documents_keep_integers_beyond_two_to_the_53() -> None:
    docs: list[Any] = [np.array([BIG, 2**63 - 1], np.uint64), [-1, -2]]
    X, y = windows(docs, 1)
    assert (X.tolist(), y.tolist()) == ([[BIG], [-1]], [2**63 - 1, -2])


@pytest.mark.parametrize(
    "doc",
    [
        ("a", "b", "c"),
        np.array(["a", "b", "c"]),
        np.array(["a", "b", "c"], np.dtypes.StringDType()),
        np.array(["a", "b", "c"], object),
        pd.Series(["a", "b", "c"]),
        pl.Series(["a", "b", "c"]),
    ],
    ids=lambda doc: f"{type(doc).__module__}.{type(doc).__name__} {getattr(doc, 'dtype', '')}",
)
def test_documents_are_any_sequences_of_tokens(doc: Any) -> None:
    X, y = windows((d for d in [doc]), 2, short="pad")
    assert (X.tolist(), y.tolist()) == ([[NO_TOKEN, NO_TOKEN], [NO_TOKEN, "a"], ["a", "b"]], ["a", "b", "c"])


def test_windows_accept_a_numpy_integer_as_length() -> None:
    X, _ = windows([[1, 2, 3]], np.int32(2), short="pad")  # type: ignore[arg-type]
    assert X.shape == (3, 2)


def test_a_document_of_integers_and_floats_keeps_large_integers() -> None:
    X, y = windows([[BIG, 0.5]], 1)
    assert (X.tolist(), y.tolist()) == ([[BIG]], [0.5])


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_documents_of_dates_are_refused_at_the_latest_as_contexts(kind: str, unit: str) -> None:
    docs: list[Any] = [np.array([1, 2, 3], f"{kind}[{unit}]")]
    with pytest.raises(TypeError, match="must be a string or a number"):
        Contexts.of(windows(docs, 1)[0])


@pytest.mark.parametrize("doc", ["to be", b"to be"])
def test_a_string_as_document_is_refused_with_the_way_out(doc: Any) -> None:
    with pytest.raises(TypeError, match=r"'to be' is one string.*text\.split\(\).*windows\(\[tokens\], h\)"):
        windows([["a"], doc], 1)


@pytest.mark.parametrize("docs", ["to be or not", pd.DataFrame({"a": [1]})], ids=["string", "frame"])
def test_what_is_no_list_of_documents_is_refused(docs: Any) -> None:
    with pytest.raises(TypeError, match="not a list of documents"):
        windows(docs, 2)


def test_a_document_that_is_no_sequence_is_refused() -> None:
    with pytest.raises(TypeError, match=r"The document 1 is not a sequence.*in a list: \[tokens\]"):
        windows([1, 2, 3], 2)


@pytest.mark.parametrize("h", [0, -1, 2.0, "2", None], ids=repr)
def test_bad_context_lengths_are_refused(h: Any) -> None:
    with pytest.raises(ValueError, match="positive whole number"):
        windows([[1, 2]], h)


def test_an_unknown_rule_for_short_contexts_is_refused() -> None:
    with pytest.raises(ValueError, match="'skip' is not known: use 'drop' or 'pad'"):
        windows([[1, 2]], 1, short="skip")  # type: ignore[arg-type]


def test_a_pad_token_without_padding_is_refused() -> None:
    with pytest.raises(ValueError, match="needs short='pad'"):
        windows([[1, 2]], 1, pad=0)


def test_a_pad_token_must_be_a_token() -> None:
    with pytest.raises(ValueError, match="NO_TOKEN"):
        windows([[1, 2]], 1, short="pad", pad=float("nan"))
    with pytest.raises(TypeError, match="must be a string or a number"):
        windows([[1, 2]], 1, short="pad", pad=[0])


@pytest.mark.parametrize("doc", [[[1, 2], [3, 4]], np.zeros((2, 2))], ids=["list", "array"])
def test_a_document_of_two_dimensions_is_refused(doc: Any) -> None:
    with pytest.raises(ValueError, match="flat sequence of tokens; this one has 2 dimensions"):
        windows([doc], 1)


@given(data=st.data(), h=st.integers(1, 4))
@randomly
def test_contexts_hold_the_tokens_they_were_made_of(data: st.DataObject, h: int) -> None:
    rows = data.draw(
        st.lists(st.lists(small_ints | ints | floats | strings, min_size=h, max_size=h), min_size=1, max_size=6)
    )
    contexts = Contexts.of(rows)
    assert tokens_of(rows) == rows
    assert (len(contexts), contexts.h) == (len(rows), h)
    assert contexts.vocabulary == Vocabulary.of(token for row in rows for token in row)
    assert contexts[1:].ranks.tolist() == contexts.ranks[1:].tolist()
    assert contexts[1:].vocabulary == contexts.vocabulary


def test_a_list_of_integers_and_strings_keeps_both() -> None:
    assert token_array([[3, "a"], ["3", 4]]).tolist() == [[3, "a"], ["3", 4]]
    assert token_array((("a", 1), ("b", 0.5))).tolist() == [["a", 1], ["b", 0.5]]


def test_a_list_keeps_strings_that_end_in_a_null_character() -> None:
    assert token_array([["a", "a\0"]]).tolist() == [["a", "a\0"]]


def test_a_list_of_integers_and_floats_keeps_large_integers() -> None:
    assert tokens_of([[BIG, 0.5]]) == [[BIG, 0.5]]


@pytest.mark.parametrize("other", [1, -1, 0.5, "a"], ids=repr)
def test_a_list_with_an_integer_beyond_64_bits_is_refused(other: Any) -> None:
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        Contexts.of([[2**63, other]])


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT], ids=repr)
@pytest.mark.parametrize("other", [1, 0.5, "a"], ids=repr)
def test_a_list_with_a_missing_value_is_refused(missing: Any, other: Any) -> None:
    with pytest.raises(ValueError, match=MISSING):
        Contexts.of([[other, missing]])


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float32, object])
def test_arrays_are_taken_as_they_are(dtype: Any) -> None:
    array = np.array([[1, 2], [3, 1]], dtype)
    assert token_array(array) is array
    assert tokens_of(array) == [[1, 2], [3, 1]]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
class TestFrames:
    """What holds for every kind of data frame."""

    def test_columns_of_several_types_keep_their_values(self, frame: Any) -> None:
        X = frame({"a": [BIG, -1], "b": [0.5, 2.0], "c": ["x", "3"], "d": [True, False]})
        assert tokens_of(X) == [[BIG, 0.5, "x", 1], [-1, 2, "3", 0]]

    def test_integers_beside_floats_stay_exact(self, frame: Any) -> None:
        assert tokens_of(frame({"a": [BIG, 2**63 - 1], "b": [0.5, 1.0]})) == [[BIG, 0.5], [2**63 - 1, 1]]

    def test_columns_of_one_type_stay_that_type(self, frame: Any) -> None:
        assert token_array(frame({"a": [1, 2], "b": [3, 4]})).dtype == np.int64
        assert token_array(frame({"a": [0.5, 2], "b": [3.0, 4]})).dtype == np.float64

    def test_string_columns_become_string_tokens(self, frame: Any) -> None:
        assert tokens_of(frame({"a": ["u", "v"], "b": ["v", "w"]})) == [["u", "v"], ["v", "w"]]

    def test_a_frame_without_rows_keeps_its_width(self, frame: Any) -> None:
        assert Contexts.of(frame({"a": [], "b": []})).ranks.shape == (0, 2)

    @pytest.mark.parametrize("column", [[1, None], [0.5, None], ["a", None], [True, None]], ids=repr)
    @pytest.mark.parametrize("beside", [{}, {"b": [1, 2]}, {"b": ["x", "y"]}], ids=repr)
    def test_missing_values_are_refused(self, frame: Any, column: list[Any], beside: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=MISSING):
            Contexts.of(frame({"a": column, **beside}))

    @pytest.mark.parametrize("beside", [{}, {"b": [1]}], ids=repr)
    def test_dates_are_refused(self, frame: Any, beside: dict[str, Any]) -> None:
        with pytest.raises(TypeError, match="must be a string or a number"):
            Contexts.of(frame({"a": [datetime.datetime(2020, 1, 1)], **beside}))

    @pytest.mark.parametrize("beside", [{}, {"b": [1]}], ids=repr)
    def test_dates_in_nanoseconds_are_refused(self, frame: Any, beside: dict[str, Any]) -> None:
        with pytest.raises(TypeError, match="must be a string or a number"):
            Contexts.of(frame({"a": np.array(["2020-01-01"], "M8[ns]"), **beside}))


@pytest.mark.parametrize("dtype", ["category", "string", "object", "str"])
def test_every_pandas_type_for_strings_holds_string_tokens(dtype: str) -> None:
    frame = pd.DataFrame({"a": pd.Series(["u", "v", "u"], dtype=dtype), "b": [1, 2, 3]})
    assert tokens_of(frame) == [["u", 1], ["v", 2], ["u", 3]]
    frame.loc[1, "a"] = None
    with pytest.raises(ValueError, match=MISSING):
        Contexts.of(frame)


def test_pandas_categories_are_tokens_by_value_not_by_code() -> None:
    numbers = pd.Categorical([30, 10, 30], categories=[30, 20, 10])
    assert tokens_of(pd.DataFrame({"a": numbers, "b": [10, 20, 30]})) == [[30, 10], [10, 20], [30, 30]]


def test_nullable_pandas_integers_stay_exact_and_their_gaps_are_refused() -> None:
    assert tokens_of(pd.DataFrame({"a": pd.array([BIG, 1], "Int64"), "b": [0.5, 1]})) == [[BIG, 0.5], [1, 1]]
    with pytest.raises(ValueError, match=MISSING):
        Contexts.of(pd.DataFrame({"a": pd.array([BIG, None], "Int64"), "b": [0.5, 1]}))


FRAMES_WITH_A_GAP: dict[str, Any] = {
    "pandas Int64": lambda ids: pd.DataFrame({"id": pd.Series(ids, dtype="Int64")}),
    "pandas category": lambda ids: pd.DataFrame({"id": pd.Series(pd.Categorical(ids))}),
    "pandas with Arrow": lambda ids: pd.DataFrame({"id": pd.Series(ids, dtype="int64[pyarrow]")}),
    "polars": lambda ids: pl.DataFrame({"id": ids}),
    "Arrow": lambda ids: pa.table({"id": ids}),
}


@pytest.mark.parametrize("frame", FRAMES_WITH_A_GAP.values(), ids=FRAMES_WITH_A_GAP)
@given(numbers=st.lists(ints | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1]), min_size=1, max_size=4))
@randomly
def test_whole_numbers_stay_exact_beside_a_missing_value(frame: Any, numbers: list[int]) -> None:
    values = fill_missing(token_array(frame([*numbers, None])), "token")
    assert [int(value) for value in values[:-1, 0]] == numbers
    assert values[-1, 0] == "<missing>"


def test_a_table_of_arrow_is_a_frame() -> None:
    table = pa.table({"a": [BIG, 2], "b": ["x", "y"], "c": [True, False]})
    assert tokens_of(table) == [[BIG, "x", 1], [2, "y", 0]]
    assert tokens_of(table.to_batches()[0]) == tokens_of(table)


def test_columns_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="X has two columns named 'a': rename one"):
        tokens_of(pd.DataFrame([[1, "x"], [2, "y"]], columns=["a", "a"]))


def test_polars_categories_are_string_tokens() -> None:
    frame = pl.DataFrame({"a": ["v", "u"], "b": [1, 2]}).with_columns(pl.col("a").cast(pl.Categorical))
    assert tokens_of(frame) == [["v", 1], ["u", 2]]


@pytest.mark.parametrize("X", [[1, 2], np.array(["a"]), pd.Series([1, 2]), pl.Series([1, 2]), []], ids=type)
def test_one_dimension_is_refused_with_the_way_out(X: Any) -> None:
    with pytest.raises(ValueError, match=r"this one has 1\. Wrap a single row in a list.*windows\(docs, h\)"):
        Contexts.of(X)


def test_three_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="this one has 3"):
        Contexts.of(np.zeros((2, 2, 2)))


@given(
    rows=st.lists(st.tuples(*[small_ints | strings | st.just(NO_TOKEN)] * 2), min_size=1, max_size=6),
    held=st.lists(small_ints | ints | floats | strings),
)
@randomly
def test_ranks_in_another_vocabulary_are_its_ranks(rows: list[tuple[Any, Any]], held: list[Any]) -> None:
    vocabulary = Vocabulary.of(held)
    tokens = list(vocabulary)
    expected = [[tokens.index(token) if token in tokens else -1 for token in row] for row in rows]
    assert Contexts.of(rows).ranks_in(vocabulary).tolist() == expected


@given(rows=st.lists(st.tuples(small_ints, strings, st.integers(0, 3)), min_size=1, max_size=8))
@randomly
def test_examples_keep_those_that_count_and_no_others(rows: list[tuple[int, str, int]]) -> None:
    batch = Examples.of([[x] for x, _, _ in rows], [y for _, y, _ in rows], [count for _, _, count in rows])
    kept = [row for row in rows if row[2]]
    labels = sorted({y for _, y, _ in kept})
    assert len(batch) == len(kept)
    assert batch.multiplicity.tolist() == [count for _, _, count in kept]
    assert list(batch.labels) == labels
    assert [labels[rank] for rank in batch.label_ranks] == [y for _, y, _ in kept]
    assert list(batch.contexts.vocabulary) == sorted({x for x, _, _ in kept})
    assert batch.label_counts().tolist() == [sum(count for _, y, count in kept if y == label) for label in labels]


@pytest.mark.parametrize(
    ("multiplicity", "counts"),
    [
        (None, [1, 1, 1]),
        (2, [2, 2, 2]),
        (np.float64(2), [2, 2, 2]),
        ([1.0, 2.0, 3.0], [1, 2, 3]),
        (np.array([1, 0, 3], np.uint8), [1, 0, 3]),
        ([True, False, True], [1, 0, 1]),
        ([MAX_EXAMPLES - 3, 1, 1], [MAX_EXAMPLES - 3, 1, 1]),
    ],
    ids=repr,
)
def test_whole_multiplicities_become_integers(multiplicity: Any, counts: list[int]) -> None:
    result = whole_multiplicity(multiplicity, 3)
    assert result.tolist() == counts
    assert result.dtype == np.int64


@pytest.mark.parametrize(
    ("multiplicity", "complaint"),
    [
        ([1, -1, 1], "non-negative"),
        ([1.0, -1.0, 1.0], "non-negative"),
        (-1, "non-negative"),
        ([1, 0.5, 1], r"whole number, not 0\.5.*Multiply all weights"),
        (0.5, r"whole number, not 0\.5"),
        ([1, float("nan"), 1], "whole number, not nan"),
        ([1, float("inf"), 1], "whole number, not inf"),
        ([1, 2], r"needs 3 entries; it has shape \(2,\)"),
        ([[1, 2, 3]], r"needs 3 entries; it has shape \(1, 3\)"),
        (["1", "2", "3"], "whole numbers, not <U1"),
        ([1, 2, None], "whole numbers, not object"),
        ([MAX_EXAMPLES - 2, 1, 1], r"less than 2\^53"),
        ([2**63 - 1, 2**63 - 1, 2], r"less than 2\^53"),
    ],
    ids=repr,
)
def test_other_multiplicities_are_refused(multiplicity: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Examples.of([["a"], ["b"], ["c"]], [1, 2, 3], multiplicity)


def test_label_counts_are_exact_up_to_the_limit() -> None:
    batch = Examples.of([["a"], ["a"], ["b"]], ["x", "x", "y"], [MAX_EXAMPLES - 3, 1, 1])
    assert batch.label_counts().tolist() == [MAX_EXAMPLES - 2, 1]


def test_examples_that_count_zero_times_are_not_even_checked_for_missing_values() -> None:
    labels: list[Any] = ["x", None]
    assert len(Examples.of([["a"], [None]], labels, [1, 0])) == 1


@pytest.mark.parametrize("y", [["x"], ["x", "y", "z"], [["x"], ["y"]]], ids=repr)
def test_labels_that_do_not_fit_the_contexts_are_refused(y: Any) -> None:
    with pytest.raises(ValueError, match="y has one label for each"):
        Examples.of([["a"], ["b"]], y)


@pytest.mark.parametrize("y", [[1, NO_TOKEN], [0.5, float(NO_TOKEN)], np.array(["x", NO_TOKEN], object)], ids=repr)
def test_no_token_is_refused_as_a_label(y: Any) -> None:
    with pytest.raises(ValueError, match="cannot be a label"):
        Examples.of([["a"], ["b"]], y)


def test_no_token_as_a_label_is_refused_in_a_list_beside_strings() -> None:
    labels: list[Any] = ["x", NO_TOKEN]
    with pytest.raises(ValueError, match="cannot be a label"):
        Examples.of([["a"], ["b"]], labels)


def test_missing_labels_are_refused() -> None:
    labels: list[Any] = ["x", None]
    with pytest.raises(ValueError, match=MISSING):
        Examples.of([["a"], ["b"]], labels)


def test_no_examples_have_no_labels() -> None:
    batch = Examples.of(np.empty((0, 2), np.int64), [])
    assert len(batch) == 0
    assert batch.label_counts().tolist() == []


def test_rows_of_different_lengths_are_named() -> None:
    with pytest.raises(ValueError, match=r"row 0 has 1 tokens and row 1 has 2.*windows\(docs, h\)"):
        Contexts.of([["a"], ["b", "c"]])
