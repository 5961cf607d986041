"""Every form in which a column can come gives the model that the same values give as a plain list of rows.

The plain twin is a list of lists (where the kernel is given, which reads whole numbers of lists as names: a frame of
objects). Each type of pandas, polars, Arrow and NumPy is compared with it, with nulls at several places: the model has
the same digest, answers the same, and a row with the missing value can be forgotten.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, MemoryRegressor
from hammemo.tokens.column_letters import encode_letters
from hammemo.tokens.user_input import CheckedRows, read_question

if TYPE_CHECKING:
    from hammemo.tokens.contexts import Contexts

N: Final = 18
BERLIN: Final = ZoneInfo("Europe/Berlin")

Values = Sequence[Any]
Form = Callable[[Values], Any]
"""What makes a table of two columns of the values of one; the other column holds names."""

VALUES: Final[dict[str, list[Any]]] = {
    "strings": ["a", "b", "ü"],
    "whole": [1, 2, 7],
    "large": [2**53 + 1, 2**53 + 2, 2**53 + 3],
    "truth": [True, False, True],
    "floats": [0.5, 2.25, -1.0],
    "dates": [date(2026, 1, 1), date(2026, 1, 5), date(2026, 7, 9)],
    "times": [datetime(2026, 1, 1, 1, 30), datetime(2026, 1, 5, 17, 0, 0, 250), datetime(2026, 7, 9)],
    "aware": [datetime(2026, 1, 1, 0, 30, tzinfo=BERLIN), datetime(2026, 1, 5, 17, tzinfo=BERLIN),
              datetime(2026, 7, 9, 1, tzinfo=BERLIN)],
    "durations": [timedelta(hours=1, seconds=0.5), timedelta(days=2), timedelta(seconds=-3)],
    "decimals": [Decimal("1.50"), Decimal("2.25"), Decimal("3.00")],
}  # fmt: skip

ARROW_TYPES: Final[dict[str, list[Any]]] = {
    "strings": [pa.string(), pa.large_string(), pa.string_view()],
    "whole": [pa.int64(), pa.int8(), pa.uint16(), pa.uint64(), pa.float32(), pa.decimal128(5, 0)],
    "large": [pa.int64(), pa.uint64(), pa.decimal128(20, 0)],
    "truth": [pa.bool_()],
    "floats": [pa.float64(), pa.float32(), pa.float16()],
    "dates": [pa.date32(), pa.date64()],
    "times": [pa.timestamp("us"), pa.timestamp("ns")],
    "aware": [pa.timestamp(unit, "Europe/Berlin") for unit in ("s", "ms", "us", "ns")],
    "durations": [pa.duration("ms"), pa.duration("us"), pa.duration("ns")],
    "decimals": [pa.decimal128(5, 2), pa.decimal256(5, 2)],
}

PANDAS_TYPES: Final[dict[str, list[str]]] = {
    "strings": ["object", "str", "string[python]", "string[pyarrow]"],
    "whole": ["object", "Int64", "Int8", "UInt16", "Float64"],
    "large": ["object", "Int64", "UInt64"],
    "truth": ["object", "boolean"],
    "floats": ["object", "float64", "float32", "Float64"],
    "dates": ["object", "datetime64[s]", "datetime64[ns]"],
    "times": ["object", "datetime64[us]", "datetime64[ns]"],
    "aware": ["object", *(f"datetime64[{unit}, Europe/Berlin]" for unit in ("s", "us", "ns"))],
    "durations": ["object", "timedelta64[ms]", "timedelta64[us]", "timedelta64[ns]"],
    "decimals": ["object"],
}

POLARS_TYPES: Final[dict[str, list[Any]]] = {
    "strings": [pl.Utf8, pl.Categorical, pl.Enum(["ü", "b", "a"])],
    "whole": [pl.Int64, pl.Int8, pl.UInt16, pl.UInt64, pl.Float32],
    "large": [pl.Int64, pl.UInt64],
    "truth": [pl.Boolean],
    "floats": [pl.Float64, pl.Float32],
    "dates": [pl.Date],
    "times": [pl.Datetime("us"), pl.Datetime("ns")],
    "aware": [pl.Datetime("ms", "Europe/Berlin"), pl.Datetime("ns", "Europe/Berlin")],
    "durations": [pl.Duration("ms"), pl.Duration("us"), pl.Duration("ns")],
    "decimals": [pl.Decimal(5, 2)],
}

NULLS: Final[dict[str, Callable[[int], bool]]] = {
    "no null": lambda _: False,
    "first": lambda i: i == 0,
    "last": lambda i: i == N - 1,
    "a third": lambda i: i % 3 == 1,
    "every": lambda _: True,
}


class Labelled(pa.ExtensionType):
    """An extension type over another type."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage, "hammemo.tests.labelled")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, _: bytes) -> Labelled:
        return cls(storage)


def others(values: Values) -> list[str]:
    """Return the names of the other column."""
    return ["x" if i % 2 else "y" for i in range(len(values))]


def as_rows(values: Values) -> list[list[Any]]:
    """Return the plain twin."""
    return [list(row) for row in zip(values, others(values), strict=True)]


def as_objects(values: Values) -> Any:
    """Return an array of objects."""
    table = np.empty((len(values), 2), object)
    table[:, 0] = values
    table[:, 1] = others(values)
    return table


def in_pandas(dtype: Any) -> Form:
    """Return a form of pandas."""
    return lambda values: pd.DataFrame({"c": pd.Series(list(values), dtype=dtype), "o": others(values)})


def in_categories(values: Values) -> Any:
    """Return a category of pandas."""
    return pd.DataFrame({"c": pd.Categorical(list(values)), "o": others(values)})


def in_polars(dtype: Any) -> Form:
    """Return a form of polars, in two chunks."""

    def make(values: Values) -> Any:
        names = others(values)
        parts = [slice(0, 5), slice(5, None)]
        frames = [pl.DataFrame({"c": pl.Series(values[part], dtype=dtype), "o": names[part]}) for part in parts]
        return pl.concat(frames, rechunk=False)

    return make


def in_arrow(make: Callable[[Values], Any]) -> Form:
    """Return a table of Arrow."""
    return lambda values: pa.table({"c": make(values), "o": others(values)})


def arrow_array(values: Values, dtype: Any) -> Any:
    """Return an array of Arrow; 16-bit floats are not made of Python's."""
    if dtype == pa.float16():
        return pa.array([None if value is None else np.float16(value) for value in values], dtype)
    return pa.array(values, dtype)


def coded_by_chunk(values: Values, dtype: Any) -> Any:
    """Return chunks whose dictionaries differ."""
    parts = [values[:5], values[5:7], values[7:]]
    return pa.chunked_array([arrow_array(part, dtype).dictionary_encode() for part in parts])


def coded_with_two_nulls(values: Values, dtype: Any) -> Any:
    """Return a dictionary whose missing values are null indices and indices of a null, in turn."""
    words = [*dict.fromkeys(value for value in values if value is not None), None]
    codes = [len(words) - 1 if i % 2 else None for i in range(len(values))]
    for i, value in enumerate(values):
        if value is not None:
            codes[i] = words.index(value)
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), arrow_array(words, dtype))


def arrow_forms(name: str, dtype: Any) -> dict[str, Form]:
    """Return the forms of one type of Arrow."""
    forms: dict[str, Form] = {
        f"Arrow {dtype}": in_arrow(lambda values: arrow_array(values, dtype)),
        f"Arrow {dtype}, sliced": in_arrow(lambda values: arrow_array([*values, *values], dtype)[len(values) :]),
        f"Arrow {dtype}, a batch": lambda values: pa.record_batch(
            {"c": arrow_array(values, dtype), "o": pa.array(others(values))}
        ),
    }
    if dtype == ARROW_TYPES[name][0]:
        forms |= {
            "Arrow, dictionary": in_arrow(lambda values: arrow_array(values, dtype).dictionary_encode()),
            "Arrow, null in dictionary": in_arrow(
                lambda values: arrow_array(values, dtype).dictionary_encode("encode")
            ),
            "Arrow, nulls of two kinds": in_arrow(lambda values: coded_with_two_nulls(values, dtype)),
            "Arrow, dictionary by chunk": in_arrow(lambda values: coded_by_chunk(values, dtype)),
            "Arrow, sliced dictionary": in_arrow(
                lambda values: arrow_array([*values, *values], dtype).dictionary_encode()[len(values) :]
            ),
            "Arrow, runs": in_arrow(lambda values: pc.run_end_encode(arrow_array(values, dtype))),
            "Arrow, an extension": in_arrow(
                lambda values: pa.ExtensionArray.from_storage(Labelled(dtype), arrow_array(values, dtype))
            ),
            "pandas with Arrow": in_pandas(pd.ArrowDtype(dtype)),
        }
    return forms


def forms_of(name: str) -> dict[str, Form]:
    """Return every form in which such values can come."""
    forms: dict[str, Form] = {"array of objects": as_objects}
    for dtype in PANDAS_TYPES[name]:
        forms[f"pandas {dtype}"] = in_pandas(dtype)
    for dtype in POLARS_TYPES[name]:
        forms[f"polars {dtype}"] = in_polars(dtype)
    for dtype in ARROW_TYPES[name]:
        forms |= arrow_forms(name, dtype)
    if name in ("times", "aware"):
        forms["pandas, a category"] = in_categories
    if name == "strings":
        strings = np.dtypes.StringDType(na_object=None)
        forms["array of StringDType"] = lambda values: np.array(as_rows(values), strings)
        forms["pandas, a category"] = in_categories
    return forms


CASES: Final = [(name, form) for name in VALUES for form in forms_of(name)]
MODELS: Final[dict[str, Callable[[], Any]]] = {
    "classifier": lambda: MemoryClassifier(keep=True),
    "given kernel": lambda: MemoryClassifier(keep=True, kernel="pairs"),
    "regressor": lambda: MemoryRegressor(keep=True),
}
TARGETS: Final = [(7 * i) % 3 for i in range(N)]


def with_nulls(name: str, nulls: str) -> list[Any]:
    """Return a column of values, some of which are missing."""
    values = VALUES[name]
    return [None if NULLS[nulls](i) else values[i % 3] for i in range(N)]


def read(model: str, X: Any) -> dict[str, Any]:
    """Return what a model learns, forgets and answers: all that depends on the form in which a table came."""
    estimator = MODELS[model]()
    rules = estimator.settings()
    targets = [0] * len(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # hints are tested elsewhere
        learned = CheckedRows.from_user(estimator, rules, None, X, targets)
        forgotten = CheckedRows.from_user(estimator, rules, learned.columns, X, targets)
        asked = read_question(estimator, rules, learned.columns, X)
    return {
        "kinds": encode_letters(learned.columns.kinds),
        "types": learned.columns.types,
        "learned": listed_tokens(learned.examples().contexts),
        "forgotten": listed_tokens(forgotten.examples().contexts),
        "asked": listed_tokens(asked),
    }


def listed_tokens(contexts: Contexts) -> list[list[Any]]:
    """Return the tokens of contexts, None for no token."""
    tokens = [*contexts.vocabulary.tolist(), None]
    return [[tokens[rank] for rank in row] for row in contexts.ranks.tolist()]


def plain_twin(model: str, X: Any, values: Values) -> Any:
    """Return the plain table of the same values: where the kernel is given, lists hold names and frames numbers."""
    is_frame = model == "given kernel" and hasattr(X, "columns")
    return in_pandas(object)(values) if is_frame else as_rows(values)


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_column_is_read_as_its_plain_twin(name: str, form: str, nulls: str) -> None:
    values = with_nulls(name, nulls)
    X = forms_of(name)[form](values)
    for model in MODELS:
        mine, plain = read(model, X), read(model, plain_twin(model, X, values))
        if (name, form) == ("strings", "pandas, a category"):
            del mine["types"], plain["types"]  # that it is a category is declared
        assert mine == plain


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_random_columns_are_read_as_their_plain_twins(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(VALUES)))
    values = data.draw(st.lists(st.sampled_from([None, *VALUES[name]]), min_size=1, max_size=30))
    form = data.draw(st.sampled_from([form for form in forms_of(name) if form != "pandas, a category"]))
    model = data.draw(st.sampled_from(list(MODELS)))
    X = forms_of(name)[form](values)
    assert read(model, X) == read(model, plain_twin(model, X, values))


@pytest.mark.parametrize("form", ["NumPy", "pandas", "polars", "Arrow", "objects"])
def test_whole_numbers_from_2_63_on_never_merge(form: str) -> None:
    ids = [2**63 + 1 + i for i in range(N)]
    makers: dict[str, Callable[[], Any]] = {
        "NumPy": lambda: np.array(ids, np.uint64)[:, None],
        "pandas": lambda: pd.DataFrame({"id": np.array(ids, np.uint64)}),
        "polars": lambda: pl.DataFrame({"id": pl.Series(ids, dtype=pl.UInt64)}),
        "Arrow": lambda: pa.table({"id": pa.array(ids, pa.uint64())}),
        "objects": lambda: [[value] for value in ids],
    }
    X = makers[form]()
    with pytest.raises(
        ValueError, match=r"Column ('id'|0) holds 9223372036854775809: .* astype\(str\) if they are ids"
    ):
        fit_quietly(X)
    exact = np.array([2**63, 2**63 + 2**12] * (N // 2), np.uint64)[:, None]  # floats hold these
    assert fit_quietly(exact).state.rows.examples().contexts.vocabulary.tolist() == [2.0**63, 2.0**63 + 2**12]


def fit_quietly(X: Any) -> Any:
    """Return a fitted classifier; hints are tested elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return MemoryClassifier().fit(X, TARGETS)


def facts_of(model: Any, X: Any) -> dict[str, Any]:
    """Return what two models of the same rows have in common: all but the names of the columns, and the answers."""
    parts = model.digest(parts=True)
    del parts["declared"]
    return {**parts, "answers": model.predict(X).tolist()}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", ["Arrow, dictionary", "Arrow, dictionary by chunk", "Arrow, nulls of two kinds"])
def test_models_of_dictionaries_are_those_of_their_values(form: str, model: str) -> None:
    values = with_nulls("strings", "a third")
    make = forms_of("strings")[form]
    X = make(values)
    plain = plain_twin(model, X, values)
    fitted = MODELS[model]().fit(X, TARGETS)
    assert facts_of(fitted, X) == facts_of(MODELS[model]().fit(plain, TARGETS), plain)
    assert fitted.sync(in_pandas(object)(values), TARGETS).is_equal
    assert values[1] is None
    fitted.forget(in_pandas(object)(values)[1:2], TARGETS[1:2])
    fitted.forget(X.slice(4, 1), TARGETS[4:5])
