"""Columns of types that are seldom met, and of other types than those that were learnt."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from hammemo import MemoryClassifier, Rolling, load, save
from hammemo.features.cells import TreeCells
from hammemo.memories import Exact
from hammemo.memories.errors import LayoutError
from hammemo.tokens.column_evidence import column_kinds
from hammemo.tokens.column_kinds import NUMBERS, ColumnKind
from hammemo.tokens.column_letters import encode_letters
from hammemo.tokens.column_values import read_ordered, tokens_of
from hammemo.tokens.table_columns import table_columns

if TYPE_CHECKING:
    from pathlib import Path

N = 60


def table(**columns: Any) -> pd.DataFrame:
    """Return a table of a number and a name, and other columns."""
    return pd.DataFrame({"x": np.arange(N) * 0.5, "name": ["u", "v", "w"] * (N // 3), **columns})


LABELS = ["a", "b"] * (N // 2)


def kinds(X: pd.DataFrame, numeric: Any = "auto") -> str:
    """Return the kinds of the columns of a model that has learnt a table."""
    return encode_letters(MemoryClassifier(numeric=numeric).fit(X, LABELS).state.columns.kinds)


def test_categories_of_numbers_are_names_unless_asked() -> None:
    codes = pd.Categorical(np.arange(N) % 7)
    assert kinds(table(code=codes)) == "nss"
    assert kinds(table(code=codes), ["x", "code"]) == "nsn"
    assert kinds(table(day=pd.Categorical([date(2026, 1, 1 + i % 7) for i in range(N)]))) == "nsd"


@pytest.mark.parametrize(
    "values",
    [
        np.full(N, 1j),
        np.array([b"1"] * N),
        np.array(["1"] * N),
        np.array(["1"] * N, np.dtypes.StringDType()),
        np.array(["2026-01-01"] * N, "datetime64[ns]"),
    ],
)
def test_arrays_of_other_types_are_refused_where_numbers_were_learnt(values: Any) -> None:
    clf = MemoryClassifier().fit(np.arange(N)[:, None] * 0.5, LABELS)
    before = clf.digest()
    with pytest.raises(ValueError, match="Column 0 holds numbers, and"):
        clf.partial_fit(values[:, None], LABELS)
    assert clf.digest() == before


def test_numbers_are_refused_where_dates_were_learnt() -> None:
    X = table(day=pd.Timestamp("2026-01-01"))
    with pytest.raises(ValueError, match=r"Column 'day' holds dates, and (np.float64\()?1.5\)? is not one"):
        MemoryClassifier().fit(X, LABELS).partial_fit(X.assign(day=1.5), LABELS)


def test_a_name_that_is_no_token_is_refused_with_its_column() -> None:
    with pytest.raises(TypeError, match=r"Column 'tags': \[1, 2\] is of type list, .* or leave it out"):
        MemoryClassifier().fit(table(tags=[[1, 2]] * N), LABELS)
    with pytest.raises(ValueError, match="Column 'name': None is not a token"):
        MemoryClassifier(missing="refuse").fit(table(name=None), LABELS)


def test_not_a_number_of_any_type_is_missing() -> None:
    values = [Decimal("NaN"), Decimal("sNaN"), np.datetime64("NaT"), np.timedelta64("NaT"), None, pd.NA, Decimal("1.5")]
    column = np.array([*values, 10**400], object)
    assert tokens_of([column], (NUMBERS,), "token", None, learning=True)[:, 0].tolist()[6:] == [
        1.5,
        np.finfo(float).max,
    ]
    assert np.isnan(read_ordered(column, ColumnKind.NUMBERS, "Column 0"))[:6].all()
    assert kinds(table(price=[Decimal("NaN"), *map(Decimal, range(N - 1))])) == "nsn"
    columns = table_columns([[10**400], [0.5]])
    assert columns is not None
    assert column_kinds(columns, "auto", None, has_types=False) == (NUMBERS,)


def test_one_row_of_durations_and_dates_in_nanoseconds_is_that_of_the_batch() -> None:
    rng = np.random.default_rng(0)
    X = table(
        took=pd.to_timedelta(rng.integers(-(10**15), 10**15, N), unit="ns"),
        seen=pd.to_datetime(rng.integers(-(10**18), 10**18, N), unit="ns"),
        far=np.array([f"{year}-01-01" for year in rng.integers(-9999, 20000, N)], "datetime64[s]"),
    )
    clf = MemoryClassifier(random_state=0).fit(X, LABELS)
    before = clf.digest()
    for i in range(6):
        clf.forget_one(X.iloc[i], LABELS[i])
        clf.learn_one(X.iloc[i].tolist(), LABELS[i])
    assert clf.digest() == before
    assert clf.compile()(X.iloc[0]) == clf.predict(X[:1])[0]


def test_rows_that_are_arrays_of_dates() -> None:
    X = np.arange(2 * N).reshape(N, 2).astype("datetime64[D]").astype("datetime64[ns]")
    clf = MemoryClassifier(random_state=0).fit(X, LABELS)
    assert encode_letters(clf.state.columns.kinds) == "dd"
    assert clf.digest() == MemoryClassifier(random_state=0).fit(list(X), LABELS).digest()
    assert str(clf.explain(X[0])) == str(clf.explain(X[0].astype("datetime64[us]").tolist()))


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]"])
def test_large_ids_that_are_names_stay_apart(dtype: str) -> None:
    ids = pd.Series([2**60 + i % 2 for i in range(N)], dtype=dtype)
    ids[5] = None
    clf = MemoryClassifier(numeric=["x"], kernel="positional", vote="sum").fit(table(id=ids), LABELS)
    assert isinstance(clf.memory_, Exact)
    assert {2**60, 2**60 + 1} <= set(clf.memory_.table().vocabulary)


def test_the_smallest_integer_is_a_number_and_not_missing() -> None:
    column = np.array([-(2.0**63), np.nan, 0.5])
    found = tokens_of([column], (NUMBERS,), "token", None, learning=True)[:, 0]
    assert found[0] == np.nextafter(-(2.0**63), 0)
    assert found[1] == -(2.0**63)
    with pytest.raises(ValueError, match="missing"):
        tokens_of([column], (NUMBERS,), "refuse", None, learning=True)


def test_columns_whose_names_are_numbers_are_asked_for_by_name() -> None:
    X = table(other=LABELS)
    X.columns = [2, 0, 1]
    assert kinds(X, [2]) == "nss"


def test_numeric_as_an_array_can_be_saved(tmp_path: Path) -> None:
    numeric: Any = np.array(["x"])
    clf = MemoryClassifier(numeric=numeric).fit(table(), LABELS)
    save(clf, tmp_path / "model")
    assert load(tmp_path / "model").digest() == clf.digest()


def test_a_layout_of_other_kinds_of_columns_is_refused() -> None:
    X = table()
    clf = MemoryClassifier(memory=Exact()).fit(X, LABELS)
    others = {
        "'x' holds names here and numbers there": X.assign(x="x" + X["x"].astype(str)),
        "'name' holds numbers here and names there": X.assign(name=0.5),
        "1 columns here and 2 there": X[["x"]],
    }
    for message, other in others.items():
        with pytest.raises(LayoutError, match=message):
            MemoryClassifier(memory=Exact()).partial_fit(other, LABELS, layout=clf)
    names = MemoryClassifier(numeric="none").fit(X.astype(str), LABELS)
    with pytest.raises(LayoutError, match="'x' holds numbers here and names there"):
        MemoryClassifier().partial_fit(X, LABELS, layout=names)


@pytest.mark.parametrize("labels", [LABELS, [str(i % 40) for i in range(N)]])
def test_a_predictor_takes_one_row_of_any_form(labels: list[str]) -> None:
    X = table(took=pd.to_timedelta(np.arange(N), unit="s"))
    clf = MemoryClassifier().fit(X, labels)
    predictor, row = clf.compile(), X.iloc[7]
    answer, chances = clf.predict(X[7:8])[0], clf.predict_proba(X[7:8])[0]
    rows: list[Any] = [row, row.tolist(), tuple(row), row.to_numpy(), [3.5, "v", timedelta(seconds=7)]]
    for asked in rows:
        assert predictor(asked) == answer
        assert np.array_equal(predictor.probabilities_of(asked), chances)
    for wrong in ({"x": 1.0, "name": "u", "took": 1.0}, "abc", {1.5, 2.5, 3.5}, None):
        with pytest.raises(TypeError, match="one row"):
            predictor(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="one row"):
            predictor.probabilities_of(wrong)  # type: ignore[arg-type]
    X.columns = [2, 1, 0]
    other = MemoryClassifier().fit(X, labels)
    assert other.compile()(X.iloc[7]) == other.predict(X[7:8])[0]


def test_a_window_explains_rows_with_numbers() -> None:
    X = table(day=pd.Timestamp("2026-01-01"))
    window = Rolling(MemoryClassifier(), last=40).fit(X, LABELS)
    assert str(window.explain(X.iloc[7])) == str(window.estimator_.explain(X.iloc[7]))


def test_models_of_tables_with_numbers_take_no_streams() -> None:
    X = table(day=pd.Timestamp("2026-01-01"))
    clf = MemoryClassifier(random_state=0).fit(X, LABELS)
    before, documents = clf.digest(), [["a", "b", "c"] * 200]
    for call in (clf.partial_fit_stream, clf.forget_stream, clf.log_loss_stream):
        with pytest.raises(ValueError, match="table with numbers"):
            call(documents)
    for h in (2, clf.sites_.h):
        with pytest.raises(ValueError, match="table with numbers"):
            clf.partial_fit_stream(documents, h=h)
        with pytest.raises(ValueError, match="table with numbers"):
            MemoryClassifier().fit_stream(documents, h=h, layout=clf)
    assert clf.digest() == before
    fresh = MemoryClassifier(random_state=0).fit_stream(documents, h=2)
    assert clf.fit_stream(documents, h=2).digest() == fresh.digest()
    assert clf.predict([["a", "b"]]).tolist() == ["c"]


@pytest.mark.parametrize("values", [2, 4, 12, 120, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 6, 50))])
def test_few_numbers_that_repeat_are_learnt_as_well_as_names(values: int) -> None:
    places = np.arange(600) % values
    X, y = pd.DataFrame({"x": places * 1.5}), places % 2
    assert MemoryClassifier(random_state=0).fit(X, y).score(X, y) == 1.0
    X.loc[places == 0, "x"] = np.nan
    assert MemoryClassifier(random_state=0).fit(X, y).score(X, y) == 1.0


def test_weights_of_any_size_are_multiplicities(monkeypatch: pytest.MonkeyPatch) -> None:
    X = table(took=pd.to_timedelta(np.arange(N) % 17, unit="s"))
    many = np.full(N, 2**40)
    plain = MemoryClassifier(random_state=0).fit(X, LABELS)
    clf = MemoryClassifier(random_state=0).fit(X, LABELS, sample_weight=many)
    assert isinstance(clf.state.layout.cells, TreeCells)
    assert clf.forget(X, LABELS, sample_weight=many - 1).refit().digest() == plain.digest()
    monkeypatch.setattr("hammemo.votes.tree_label_features._MAX_TABLE_COUNT", 0)
    assert MemoryClassifier(random_state=0).fit(X, LABELS).digest() == plain.digest()


@pytest.mark.filterwarnings("ignore:.*is a category with an order")  # what pd.cut makes
def test_intervals_and_periods_are_names() -> None:
    values = np.arange(N) % 7 / 2
    X = table(range=pd.cut(values, 3).as_unordered(), month=pd.period_range("2020-01", periods=N, freq="M"))
    X.loc[3, "month"] = pd.NaT
    clf = MemoryClassifier().fit(X, LABELS)
    assert encode_letters(clf.state.columns.kinds) == "nsss"
    texts = X.assign(range=X["range"].astype(str), month=[None if pd.isna(m) else str(m) for m in X["month"]])
    assert clf.digest(parts=True)["kept rows"] == MemoryClassifier().fit(texts, LABELS).digest(parts=True)["kept rows"]
    names = MemoryClassifier().fit(X[["range", "month"]], LABELS)
    before = names.digest()
    names.learn_one(X[["range", "month"]].iloc[0].tolist(), "a").forget(X[["range", "month"]][:1], ["a"])
    assert names.refit().digest() == before
    assert names.predict(X[["range", "month"]]).tolist() == names.predict(texts[["range", "month"]]).tolist()


@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[ns]"])
@pytest.mark.parametrize("others", [["x"], ["name"], []])
def test_columns_of_missing_times_are_learnt_forgotten_and_asked(kind: str, others: list[str]) -> None:
    X = table(when=pd.Series([None] * N, dtype=kind))[[*others, "when"]]
    clf = MemoryClassifier().fit(X, LABELS)
    assert len(clf.predict(X)) == N
    clf.partial_fit(X[:5], LABELS[:5]).forget(X[:5], LABELS[:5])
    clf.forget(X[:2], LABELS[:2])
    assert clf.refit().digest() == MemoryClassifier().fit(X[2:], LABELS[2:]).digest()


@pytest.mark.parametrize("start", ["fit", "open"])
@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("times", [pd.date_range("2026-01-01", periods=N), pd.to_timedelta(np.arange(N), unit="h")])
def test_a_column_without_values_gets_times_without_a_choice(start: str, one_by_one: bool, times: Any) -> None:
    missing, later = table(when=None).to_numpy(), table(when=times).to_numpy()
    clf = MemoryClassifier().fit(missing, LABELS) if start == "fit" else MemoryClassifier().open(3)
    if one_by_one:
        for row, label in zip(later.tolist(), LABELS, strict=True):
            clf.learn_one(row, label)
    else:
        clf.partial_fit(later, LABELS, choose=False)
    assert clf.state.columns.kinds[-1].is_ordered
    whole, labels = (np.concatenate([missing, later]), LABELS * 2) if start == "fit" else (later, LABELS)
    assert clf.refit().digest() == MemoryClassifier().fit(whole, labels).digest()


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, b"a"])
def test_values_that_are_none_of_a_table_are_refused_with_their_column(value: Any) -> None:
    with pytest.raises(TypeError, match=r"Column 'tags'.* is of type .*: convert it, .* or leave it out\.$"):
        MemoryClassifier().fit(table(tags=[value] * N), LABELS)
    with pytest.raises(TypeError, match=r"Column 1, row 0: .* is of type"):
        MemoryClassifier().fit([["a", value], ["b", value]], ["x", "y"])


def test_columns_of_one_name_are_refused() -> None:
    clf = MemoryClassifier().fit(table(), LABELS)
    for act in (lambda X: MemoryClassifier().fit(X, LABELS), clf.predict):
        with pytest.raises(ValueError, match="X has two columns named 'x': rename one, or leave one out"):
            act(table().set_axis(["x", "x"], axis=1))


def test_infinite_and_huge_decimals_are_the_largest_number() -> None:
    values = [Decimal("Infinity"), Decimal("1E+999999"), Decimal("-Infinity"), *map(Decimal, range(N - 3))]
    X = table(price=values)
    finite = table(price=[np.inf, np.inf, -np.inf, *map(float, range(N - 3))])
    model = MemoryClassifier().fit(X, LABELS)
    assert np.array_equal(model.predict(X), MemoryClassifier().fit(finite, LABELS).predict(finite))
