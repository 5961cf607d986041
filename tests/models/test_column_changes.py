"""Which kinds columns are is decided by the rows, in whichever batches they come, and again by `refit`."""

from __future__ import annotations

import pickle
import warnings
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from hammemo import MemoryClassifier, Rolling, load, save
from hammemo.edits.editing import edit, take_state
from hammemo.edits.take_choice import take_choice
from hammemo.kernels import AutoSites
from hammemo.memories import Exact
from hammemo.memories.errors import LayoutError, NotStoredError
from hammemo.tokens.column_evidence import Evidence, convert_kinds
from hammemo.tokens.column_kinds import ColumnKind, ColumnType
from hammemo.tokens.column_letters import decode_runs, encode_letters
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.cutting import Cutting

if TYPE_CHECKING:
    from pathlib import Path

N = 60
NAMES = [["u", "v", "w"][i % 3] for i in range(N)]
LABELS = [["a", "b"][(i // 2) % 2] for i in range(N)]
MISSING: list[Any] = [None] * N
WHOLE: list[Any] = [i % 7 for i in range(N)]
FRACTIONS: list[Any] = [i / 7 for i in range(N)]
DATES: list[Any] = [datetime(2026, 1, 1 + i % 28) for i in range(N)]


def listed(values: list[Any]) -> Any:
    """Return a table of a name and a value as lists."""
    return [[name, value] for name, value in zip(NAMES, values, strict=True)]


def framed(values: list[Any]) -> Any:
    """Return the same as a data frame with types."""
    return pd.DataFrame({"name": NAMES, "value": values})


def both(form: Any, first: list[Any], second: list[Any]) -> Any:
    """Return all rows of two tables."""
    a, b = form(first), form(second)
    return pd.concat([a, b], ignore_index=True) if form is framed else [*a, *b]


@pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation")
@pytest.mark.parametrize("form", [listed, framed])
@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        (MISSING, FRACTIONS, "sn"),
        (WHOLE, FRACTIONS, "sn"),
        (MISSING, DATES, "sd"),
        ([float("nan")] * N, NAMES, "ss"),
        ([float("nan")] * N, DATES, "sd"),
        (WHOLE, [float("inf"), *WHOLE[1:]], "sn"),
        (WHOLE, [None, *FRACTIONS[1:]], "sn"),
        (MISSING, NAMES, "ss"),
        (FRACTIONS, WHOLE, "sn"),
        ([2**60 + i % 2 for i in range(N)], FRACTIONS, "sn"),
    ],
)
def test_batches_decide_as_all_rows_do(form: Any, first: Any, second: Any, kinds: str, tmp_path: Path) -> None:
    clf = MemoryClassifier().partial_fit(form(first), LABELS)
    save(pickle.loads(pickle.dumps(clf)), tmp_path / "model")  # noqa: S301
    models = [clf, load(tmp_path / "model")]
    for model in models:
        model.partial_fit(form(second), LABELS)
        assert encode_letters(model.state.columns.kinds) == kinds
    if form is framed and first[0] == 2**60:
        return  # pandas rounds them where it joins the two
    whole = MemoryClassifier().fit(both(form, first, second), LABELS * 2).digest(parts=True)
    rest = MemoryClassifier().fit(form(first), LABELS).digest(parts=True)
    for model in models:
        assert model.refit().digest(parts=True) == whole
        assert model.forget(form(second), LABELS).refit().digest(parts=True)["counts"] == rest["counts"]


def test_numbers_become_names_where_no_fraction_is_left() -> None:
    X = listed([2**53 + 1, *WHOLE[1:]])
    clf = MemoryClassifier("positional").fit([*X, ["u", 0.5]], [*LABELS, "a"])
    assert encode_letters(clf.state.columns.kinds) == "sn"
    clf.forget([["u", 0.5]], ["a"])
    assert encode_letters(clf.state.columns.kinds) == "sn"
    assert not clf.refit().state.columns.has_ordered
    assert clf.digest() == MemoryClassifier("positional").fit(X, LABELS).digest()


def test_what_is_decided_is_refused_as_before() -> None:
    clf = MemoryClassifier().fit(listed(FRACTIONS), LABELS)
    before = clf.digest()
    for other in (NAMES, DATES):
        with pytest.raises(ValueError, match="Column 1 holds numbers"):
            clf.partial_fit(listed(other), LABELS)
    assert clf.digest() == before
    names = MemoryClassifier().fit(listed(NAMES), LABELS).partial_fit(listed(FRACTIONS), LABELS)
    assert not names.state.columns.has_ordered


def test_nothing_is_decided_without_choosing_or_without_rows() -> None:
    clf = MemoryClassifier("positional").fit(listed(WHOLE), LABELS).partial_fit(listed(FRACTIONS), LABELS, choose=False)
    assert not clf.state.columns.has_ordered
    assert encode_letters(clf.refit().state.columns.kinds) == "sn"
    clf = MemoryClassifier("positional", vote="sum").fit(listed(WHOLE), LABELS).partial_fit(listed(FRACTIONS), LABELS)
    assert not clf.state.columns.has_ordered
    clf.refit(rows=(both(listed, WHOLE, FRACTIONS), LABELS * 2))
    assert (
        clf.digest()
        == MemoryClassifier("positional", vote="sum").fit(both(listed, WHOLE, FRACTIONS), LABELS * 2).digest()
    )
    pinned = (
        MemoryClassifier("positional").fit(listed(WHOLE), LABELS).empty_like().partial_fit(listed(FRACTIONS), LABELS)
    )
    assert not pinned.refit().state.columns.has_ordered


@pytest.mark.parametrize("values", [WHOLE, FRACTIONS, [None, *FRACTIONS[1:]]])
@pytest.mark.parametrize("form", [listed, framed])
def test_another_parameter_decides_again(values: Any, form: Any) -> None:
    asked: list[Any] = ["auto", "none", [1]] + [["value"]] * (form is framed)
    models = [MemoryClassifier(numeric=numeric).fit(form(values), LABELS) for numeric in asked]
    for first in models[:3]:
        for then, fresh in zip(asked, models, strict=True):
            clf = first.snapshot().set_params(numeric=then).refit()
            assert clf.state.columns.kinds == fresh.state.columns.kinds, (first.numeric, then)
            assert clf.digest(parts=True) == fresh.digest(parts=True), (first.numeric, then)


def test_a_parameter_that_cannot_be_is_refused_and_changes_nothing() -> None:
    def refused(clf: MemoryClassifier, numeric: Any, message: str) -> None:
        clf.set_params(numeric=numeric)
        before = clf.digest()
        with pytest.raises(ValueError, match=message):
            clf.refit()
        assert clf.digest() == before

    refused(MemoryClassifier().fit(framed(DATES), LABELS), "none", "'value' holds dates, which cannot become names")
    refused(MemoryClassifier().fit(framed(WHOLE), LABELS), [0], "'name' holds names, which cannot become numbers")
    refused(MemoryClassifier().fit(framed(WHOLE), LABELS), ["other"], "'other', which the table does not have")
    few = MemoryClassifier(keep=9).fit(framed(FRACTIONS), LABELS)
    refused(few, "none", "'value' was learnt as another kind.*Fit a new model")
    shard = MemoryClassifier().fit(framed(FRACTIONS), LABELS).empty_like().partial_fit(framed(FRACTIONS), LABELS)
    refused(shard, "none", "'value' was learnt as another kind.*Fit a new model")


def test_windows_forget_rows_of_columns_that_were_decided_since() -> None:
    window = Rolling(MemoryClassifier(), last=N + 10)
    for values in (MISSING, WHOLE, FRACTIONS, MISSING):
        window.partial_fit(listed(values), LABELS)
    X = [*listed(FRACTIONS)[-10:], *listed(MISSING)]
    fresh = MemoryClassifier().fit(X, [*LABELS[-10:], *LABELS])
    assert window.estimator_.refit().digest() == fresh.digest()


@pytest.mark.filterwarnings("ignore:The two models have different fitted weights")
def test_models_are_merged_whose_rows_decide_together() -> None:
    whole, fractions, nothing = (
        MemoryClassifier("positional").fit(listed(v), LABELS) for v in (WHOLE, FRACTIONS, MISSING)
    )
    both_ways = MemoryClassifier("positional").fit(both(listed, WHOLE, FRACTIONS), LABELS * 2)
    for merged in (whole + fractions, fractions + whole):
        assert encode_letters(merged.state.columns.kinds) == "sn"
        assert (merged + nothing - nothing).refit().digest() == both_ways.digest()
    assert (whole + fractions - fractions).refit().digest() == whole.digest()
    assert not whole.state.columns.has_ordered
    names = MemoryClassifier("positional").fit(listed(NAMES), LABELS)
    for one, other in ((names, fractions), (fractions, names)):
        before = one.digest()
        with pytest.raises(LayoutError, match="Column 1 holds"):
            one.merge(other)
        with pytest.raises(ValueError, match=r"Column 1 holds|never stored"):
            one.unmerge(other)
        assert one.digest() == before


@pytest.mark.filterwarnings("ignore:The two models have different fitted weights")
def test_numbers_whose_fractions_were_forgotten_are_merged_with_whole_numbers() -> None:
    fresh = MemoryClassifier("positional").fit(both(listed, WHOLE, WHOLE), LABELS * 2)
    for swapped in (False, True):
        clf = (
            MemoryClassifier("positional").fit([*listed(WHOLE), ["u", 0.5]], [*LABELS, "a"]).forget([["u", 0.5]], ["a"])
        )
        other = MemoryClassifier("positional").fit(listed(WHOLE), LABELS)
        assert encode_letters(clf.state.columns.kinds) == "sn"
        assert not other.state.columns.has_ordered
        assert (other + clf if swapped else clf + other).refit().digest() == fresh.digest()


def test_a_layout_gives_its_kinds_to_columns_without_values() -> None:
    clf = MemoryClassifier(memory=Exact()).fit(framed(FRACTIONS), LABELS)
    for values in (MISSING, [float("nan")] * N, WHOLE):
        shard = MemoryClassifier(memory=Exact()).partial_fit(framed(values), LABELS, layout=clf)
        assert encode_letters(shard.state.columns.kinds) == "sn"
        whole = MemoryClassifier(memory=Exact()).fit(both(framed, FRACTIONS, values), LABELS * 2)
        assert (clf + shard).refit().digest() == whole.digest()


def test_columns_with_other_names_are_not_merged() -> None:
    clf, X = MemoryClassifier().fit(framed(FRACTIONS), LABELS), framed(FRACTIONS)
    swapped = MemoryClassifier(numeric="none").fit(X.astype(str)[["value", "name"]], LABELS)
    same = MemoryClassifier(numeric="none").fit(X.astype(str), LABELS)
    message = "Column 0 is 'name' here and 'value' there. The columns are the same in another order. Give both tables"
    for call in (same.merge, same.unmerge, lambda other: same + other):
        with pytest.raises(LayoutError, match=message):
            call(swapped)
    other = X.rename(columns={"value": "price"})
    with pytest.raises(LayoutError, match=r"Column 1 is .value. here and .price. there\. Give both tables"):
        clf.merge(MemoryClassifier().fit(other, LABELS))
    with pytest.raises(LayoutError, match="Column 1 is 'price' here and 'value' there"):
        MemoryClassifier().partial_fit(other, LABELS, layout=clf)
    unnamed = MemoryClassifier().fit(listed(FRACTIONS), LABELS)
    assert (clf + unnamed).refit().memory_.label_counts.sum() == 2 * N


def test_an_opened_model_takes_the_kinds_of_its_first_rows() -> None:
    clf = MemoryClassifier().open(2).partial_fit(listed(FRACTIONS), LABELS)
    assert encode_letters(clf.state.columns.kinds) == "sn"
    assert clf.refit().digest() == MemoryClassifier().fit(listed(FRACTIONS), LABELS).digest()
    asked = MemoryClassifier(numeric=[1], vote="sum").open(2)
    assert encode_letters(asked.state.columns.kinds) == "sn"
    assert asked.state.layout.cells is not None
    asked.learn_one(["u", 3], "a").partial_fit(listed(WHOLE), LABELS)
    assert asked.forget(listed(WHOLE), LABELS).forget_one(["u", 3], "a").classes_.tolist() == []


def test_a_served_choice_takes_kinds_and_cutting_as_refit_does() -> None:
    clf = MemoryClassifier(kernel=AutoSites()).fit(listed(WHOLE), LABELS)
    clf.partial_fit(listed(FRACTIONS), LABELS, choose=False)
    take_state(clf, clf.state.with_changes(cutting=Cutting("pad", None)))  # of documents that were learnt once
    chosen = clf.snapshot().refit()
    edit(clf, lambda model: take_choice(model.settings(), model.state, chosen.state))
    assert [model.cutting_ for model in (chosen, clf)] == [None, None]  # these are the rows of a table
    assert (encode_letters(clf.state.columns.kinds), clf.digest()) == ("sn", chosen.digest())


@pytest.mark.parametrize(
    "asked",
    [DATES, [b"1"] * N, pd.to_datetime(["2026-01-01"] * N), [["list"]] * N, np.array(["2026-01-01"] * N, "M8[s]")],
)
def test_what_is_no_number_is_warned_of_once_where_numbers_were_learnt(asked: Any) -> None:
    clf = MemoryClassifier().fit(framed(FRACTIONS), LABELS)
    lacking = clf.predict_proba(framed(MISSING))
    with pytest.warns(UserWarning, match="'value' held numbers when it was learned, and is queried with strings"):
        assert np.array_equal(clf.predict_proba(framed(asked)), lacking)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict(framed(asked))


def test_numbers_asked_where_dates_were_learnt_are_warned_of_and_dates_where_names_were() -> None:
    clf = MemoryClassifier().fit(framed(DATES), LABELS)
    with pytest.warns(UserWarning, match="'value' held dates when it was learned, and is queried with strings such as"):
        clf.predict(framed(FRACTIONS))
    clf = MemoryClassifier().fit(pd.DataFrame({"x": FRACTIONS, "name": NAMES}), LABELS)
    with pytest.warns(UserWarning, match="'name' was learnt as names and is queried with dates"):
        clf.predict(pd.DataFrame({"x": FRACTIONS, "name": DATES}))


@pytest.mark.parametrize("unit", ["s", "ms", "D", "Y"])
def test_dates_that_microseconds_do_not_hold_are_refused(unit: str) -> None:
    far = np.array([300_000 + i for i in range(N)], "M8[Y]").astype(f"M8[{unit}]")
    near = np.array([200_000 + i for i in range(N)], "M8[Y]").astype(f"M8[{unit}]")
    X, y = near[:, None], LABELS
    clf = MemoryClassifier().fit(X, y)
    before = clf.digest()
    for rows in (far[:, None], [[value] for value in far]):
        with pytest.raises(
            ValueError, match=r"Column 0 holds 30\d\d\d\d.*: dates and durations are at most 290,000 years"
        ):
            MemoryClassifier().fit(rows, y)
        with pytest.raises(ValueError, match="290,000 years"):
            clf.partial_fit(rows, y)
        with pytest.raises(ValueError, match="290,000 years"):
            clf.predict(rows)
    with pytest.raises(ValueError, match="290,000 years"):
        MemoryClassifier().fit(far.astype("M8[s]").view("m8[s]")[:, None], y)
    assert clf.digest() == before


@pytest.mark.parametrize("seed", range(30))
def test_what_rows_show_is_what_their_values_show(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pool = [None, float("nan"), 0, 1, 2**60 + 1, -3, 0.5, -0.0, 1e300, float("inf"), "a", "<missing>"]
    column = np.empty(8, object)
    column[:] = [pool[i] for i in rng.integers(0, int(rng.integers(1, len(pool) + 1)), 8)]
    if "a" in column:
        column[column == float("inf")] = 0.5  # no name is infinite
    for kernel in ("auto", "positional"):  # a given kernel reads whole numbers as names
        shown = Evidence.of_columns([column], has_types=kernel == "auto")
        kinds = shown.decide_kinds(None)
        clf = MemoryClassifier(kernel, keep=True).fit(column[:, None], list("abababab"))
        assert clf.state.columns.kinds == kinds
        assert clf.state.kept is not None
        rows = next(clf.state.kept.batches()).contexts
        assert Evidence.of_rows(shown.types, rows) == shown
        assert len(shown.contents) == 1


def test_one_row_has_the_tokens_of_a_table() -> None:
    values = [0.5, -0.0, 3, 3.0, 2**53 - 1, 2**53, -(2**60) - 1, 1e300, float("inf"), float("nan"), None, True, "7.5"]
    clf = MemoryClassifier(memory=Exact(), keep="auto+digests", numeric=[1]).fit(listed(FRACTIONS), LABELS)
    before = clf.digest()
    for value in values[:-1]:
        row = ["u", value]
        clf.learn_one(row, "a").forget([row], ["a"]).partial_fit([row], ["a"], choose=False).forget_one(row, "a")
        assert clf.digest() == before
    with pytest.raises(ValueError, match=r"Column 1 holds numbers, and '7\.5' is not one"):
        clf.learn_one(["u", "7.5"], "a")


def test_files_with_types_that_cannot_be_are_refused() -> None:
    for packed in ("", "o1", "o3", "o1o1", "q2", "o02", "o2x", "o-1", "o9999999999"):
        with pytest.raises(ValueError, match="types of its columns"):
            decode_runs(packed, 2, ColumnType)
    with pytest.raises(ValueError, match="Column 'x' holds names, which cannot become numbers"):
        convert_kinds(Contexts.of([["a"]]), (ColumnKind.NAMES,), (ColumnKind.NUMBERS,), "token", ["x"])


@pytest.mark.parametrize("params", [{}, {"memory": Exact(), "keep": "digests", "vote": "sum"}])
def test_a_row_that_was_never_learnt_is_refused_by_rows_and_by_digests(params: Any) -> None:
    clf = MemoryClassifier(**params).fit(listed(FRACTIONS), LABELS)
    before = clf.digest()
    between = 3.0001 / 7  # in the range of 3 / 7
    with pytest.raises(NotStoredError):
        clf.forget_one(["u", between], LABELS[3])
    with pytest.raises(NotStoredError):
        clf.forget([["u", between]], [LABELS[3]])
    assert clf.digest() == before
    clf.learn_one(["u", between], "a").forget([["u", between]], ["a"])
    clf.partial_fit([["u", between]], ["a"]).forget_one(["u", between], "a")
    assert clf.forget(listed(FRACTIONS), LABELS).classes_.tolist() == []


@pytest.mark.parametrize("values", [FRACTIONS, NAMES])
@pytest.mark.parametrize("params", [{"vote": "sum"}, {"vote": "mean"}, {"keep": 5}])
def test_without_rows_numbers_are_forgotten_as_names_are(values: Any, params: Any) -> None:
    """A value that a label never had is refused; one that it had in another row is not."""
    clf = MemoryClassifier(memory=Exact(), kernel="positional", **params)
    clf.fit([["u", values[0]], ["v", values[1]]], ["a", "a"]).partial_fit([["u", values[2]]], ["b"])
    with pytest.raises(NotStoredError):
        clf.forget([["u", values[1]], ["u", values[1]], ["u", values[1]]], ["a"] * 3)
    assert clf.memory_.label_counts.sum() == 3


def test_first_values_of_a_column_get_the_warnings_of_a_first_table() -> None:
    days = [f"2024-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(N)]
    clf = MemoryClassifier().fit(framed([None] * N), LABELS)
    with pytest.warns(UserWarning, match="Column 'value' holds dates as strings.*pd.to_datetime"):
        clf.partial_fit(framed(days), LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.partial_fit(framed(days), LABELS)
    clf = MemoryClassifier().fit(listed([None] * N), LABELS)
    with pytest.warns(UserWarning, match="Column 1 holds numbers.* and 'NA'.*pd.to_numeric"):
        clf.partial_fit(listed([*(str(k / 7) for k in range(N - 1)), "NA"]), LABELS)
