"""Times with a zone are read by the clock on the wall there, and never mixed with times without one."""

from __future__ import annotations

import pickle
import warnings
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, MemoryRegressor, load, save
from hammemo.files.descriptions import parse_zones
from hammemo.memories.errors import LayoutError
from hammemo.tokens.column_letters import encode_letters
from hammemo.tokens.column_times import read_times
from hammemo.tokens.zones import AwareTimes, aware_time, is_offset, join_zones, local_times, name_zone

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BERLIN: Final = "Europe/Berlin"
N: Final = 240
TIMES: Final = pd.Series(pd.date_range("2026-01-01", periods=N, freq="37h25min", tz="UTC"))
LABELS: Final = (TIMES.dt.tz_convert(BERLIN).dt.hour > 12).astype(int).to_numpy()
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

ZONES: Final = [
    BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca", "Pacific/Apia",
]  # fmt: skip
"""With changes of half an hour, offsets of a quarter, clocks turned back for a month, and a day that was left out."""


def zoned(zone: str | None) -> pd.DataFrame:
    """Return the table by the clock of a zone; None for the clock of Berlin without a zone."""
    times = TIMES.dt.tz_convert(BERLIN).dt.tz_localize(None) if zone is None else TIMES.dt.tz_convert(zone)
    return pd.DataFrame({"when": times})


FORMS: Final[dict[str, Callable[[pd.DataFrame], Any]]] = {
    "pandas": lambda frame: frame,
    "pandas objects": lambda frame: frame.astype(object),
    "polars": pl.from_pandas,
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "lists": lambda frame: [[value.to_pydatetime()] for value in frame["when"]],
}
MODELS: Final = {"classifier": MemoryClassifier, "regressor": MemoryRegressor}


def fit(model: str, X: Any) -> Any:
    """Return a fitted model."""
    return MODELS[model](keep=True).fit(X, LABELS)


def tokens_of(model: Any) -> list[Any]:
    """Return the tokens of the rows that a model keeps."""
    return list(model.state.rows.examples().contexts.vocabulary)


@given(
    zone=st.sampled_from(ZONES),
    seconds=st.lists(st.integers(-5 * 10**9, 10**10) | st.integers(1774710000, 1774760000), max_size=20),
)
@settings(deadline=None, max_examples=60)
def test_local_times_are_those_of_the_plain_way(zone: str, seconds: list[int]) -> None:
    moments = np.array([*(1e6 * second for second in seconds), np.nan])
    plain = [
        (EPOCH + timedelta(seconds=second)).astimezone(ZoneInfo(zone)).replace(tzinfo=UTC) - EPOCH for second in seconds
    ]
    expected = [local / timedelta(microseconds=1) for local in plain]
    assert local_times(moments, zone)[:-1].tolist() == expected
    assert np.isnan(local_times(moments, zone)[-1])


def test_moments_beyond_the_years_of_python_have_the_offset_of_the_last_one() -> None:
    far = np.array([-1e18, 1e18])
    assert (np.abs(local_times(far, BERLIN) - far) <= 7.3e9).all()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", FORMS)
def test_a_model_reads_the_clock_of_the_column_s_zone(form: str, model: str) -> None:
    fitted = fit(model, FORMS[form](zoned(BERLIN)))
    by_hand = fit(model, FORMS[form](zoned(None)))
    assert fitted.state.columns.scales == {0: BERLIN}
    assert tokens_of(fitted) == tokens_of(by_hand)
    mine, other = fitted.digest(parts=True), by_hand.digest(parts=True)
    assert {part for part in mine if mine[part] != other[part]} == {"declared"}
    answers = by_hand.predict(FORMS[form](zoned(None)))
    for zone in (BERLIN, "UTC", "America/New_York"):
        assert (fitted.predict(FORMS[form](zoned(zone))) == answers).all()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("learned", "other"), [(BERLIN, None), (None, BERLIN), ("UTC", None)])
def test_times_with_and_without_a_zone_are_never_mixed(
    learned: str | None, other: str | None, form: str, model: str
) -> None:
    fitted = fit(model, FORMS[form](zoned(learned)))
    X = FORMS[form](zoned(other)[:5])
    before = fitted.digest()
    where = "Column 0" if form == "lists" else "Column 'when'"
    advice = "tz_localize" if other is None else "tz_convert"
    for act in (fitted.partial_fit, fitted.forget, fitted.sync):
        with pytest.raises(ValueError, match=rf"{where} holds times .*{advice}"):
            act(X, LABELS[:5])
    with pytest.raises(ValueError, match=rf"{where} holds times .*{advice}"):
        fitted.predict(X)
    with pytest.raises(ValueError, match=rf"{where} holds times .*{advice}"):
        fitted.learn_one(FORMS["lists"](zoned(other))[0], 1)
    assert fitted.digest() == before


@pytest.mark.parametrize("model", MODELS)
def test_one_table_with_both_is_refused(model: str) -> None:
    both = pd.concat([zoned(BERLIN)[:100].astype(object), zoned(None)[100:].astype(object)])
    with pytest.raises(ValueError, match=r"Column 'when' holds times in the zone Europe/Berlin.*tz_localize"):
        fit(model, both)


@pytest.mark.parametrize("model", MODELS)
def test_another_zone_is_refused_where_rows_are_learned_and_utc_is_converted(model: str) -> None:
    fitted = fit(model, zoned(BERLIN))
    whole = fitted.digest()
    fitted.forget(zoned("UTC")[:40], LABELS[:40])
    for act in (fitted.partial_fit, fitted.forget, fitted.sync):
        with pytest.raises(ValueError, match=r"Europe/Berlin, and some are in America/New_York.*tz_convert"):
            act(zoned("America/New_York")[:40], LABELS[:40])
    fitted.partial_fit(zoned("UTC")[:40], LABELS[:40])
    assert fitted.sync(zoned("UTC"), LABELS).is_equal
    assert fitted.refit().digest() == whole
    mixed = pd.concat([zoned("UTC")[:100].astype(object), zoned(BERLIN)[100:].astype(object)])
    assert fit(model, mixed).digest() == whole
    first_utc = fit(model, zoned("UTC"))
    with pytest.raises(ValueError, match=r"the zone UTC, and some are in Europe/Berlin.*tz_convert\('UTC'\)"):
        first_utc.partial_fit(zoned(BERLIN), LABELS)


@pytest.mark.parametrize("model", MODELS)
def test_single_rows_are_read_as_batches_are(model: str) -> None:
    fitted = fit(model, zoned(BERLIN))
    before = fitted.digest()
    for zone in (BERLIN, "UTC"):
        row = [zoned(zone)["when"][7].to_pydatetime()]
        fitted.forget_one(row, LABELS[7])
        fitted.learn_one(row, LABELS[7])
    assert fitted.refit().digest() == before


@pytest.mark.parametrize("model", MODELS)
def test_explanations_read_the_clock_of_the_column(model: str) -> None:
    fitted = fit(model, zoned(BERLIN))
    rows = [zoned(zone)["when"][7].to_pydatetime() for zone in (BERLIN, "America/New_York")]
    here, there = (fitted.explain([time]) for time in rows)
    assert np.array_equal(here.scores, there.scores)
    if model == "classifier":  # a regressor's shows the value as it was asked
        assert str(here) == str(there)
    else:
        assert here.scores[0] == fitted.predict(zoned(BERLIN)[7:8])[0]
    with pytest.raises(ValueError, match="has no zone"):
        fitted.explain([zoned(None)["when"][7].to_pydatetime()])


@pytest.mark.parametrize("model", MODELS)
def test_a_column_without_values_takes_the_zone_that_comes(model: str) -> None:
    X = zoned(BERLIN).assign(x=np.arange(N) / 7)
    fitted = MODELS[model](keep=True).fit(X.assign(when=pd.NaT), LABELS)
    assert fitted.state.columns.scales == {}
    fitted.partial_fit(X, LABELS)
    fitted.forget(X.assign(when=pd.NaT), LABELS)
    assert fitted.refit().digest() == MODELS[model](keep=True).fit(X, LABELS).digest()
    fitted.partial_fit(X.assign(when=pd.NaT), LABELS)
    fitted.forget(X, LABELS)
    assert fitted.refit().state.columns.scales == {}
    naive = X.assign(when=zoned(None)["when"])
    fitted.partial_fit(naive, LABELS)
    assert fitted.state.columns.scales == {}
    assert encode_letters(fitted.state.columns.kinds) == "dn"


@pytest.mark.parametrize("model", MODELS)
def test_files_copies_and_predictors_keep_the_zone(model: str, tmp_path: Path) -> None:
    fitted = fit(model, zoned(BERLIN))
    save(fitted, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.digest() == fitted.digest()
    with pytest.raises(ValueError, match="has no zone"):
        again.predict(zoned(None))


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_predictors_read_the_clock_of_the_column(model: str, is_loaded: bool, tmp_path: Path) -> None:
    fitted = fit(model, zoned(BERLIN))
    if is_loaded:
        save(fitted, tmp_path / "model")
        compiled = load(tmp_path / "model").compile()
    else:
        compiled = fitted.compile()
    predictors = [compiled, pickle.loads(pickle.dumps(compiled))]  # noqa: S301
    if model == "classifier":  # predictors of numbers have no file
        save(compiled, tmp_path / "predictor")
        predictors.append(load(tmp_path / "predictor"))
    for predictor in predictors:
        for zone in (BERLIN, "UTC", "America/New_York"):
            for name in ("pandas", "pandas objects", "polars", "Arrow"):
                X = FORMS[name](zoned(zone))
                assert np.array_equal(predictor.predict(X), fitted.predict(X))
            row = [zoned(zone)["when"][7].to_pydatetime()]
            assert predictor(row) == fitted.predict(zoned(zone)[7:8])[0]
        with pytest.raises(ValueError, match="has no zone"):
            predictor.predict(zoned(None))
        with pytest.raises(ValueError, match="has no zone"):
            predictor([zoned(None)["when"][7].to_pydatetime()])


@pytest.mark.parametrize("model", MODELS)
def test_models_of_two_zones_are_not_added(model: str) -> None:
    mine, other = fit(model, zoned(BERLIN)), fit(model, zoned("UTC"))
    with pytest.raises(LayoutError, match=r"'when' holds times in the zone Europe/Berlin here and in the zone UTC"):
        mine.merge(other)
    with pytest.raises(LayoutError, match=r"'when' holds times .* and without a zone there"):
        mine.merge(fit(model, zoned(None)))
    assert (mine + fit(model, zoned(BERLIN))).state.columns.scales == {0: BERLIN}


def test_a_layout_of_another_zone_is_refused() -> None:
    layout = fit("classifier", zoned(BERLIN))
    with pytest.raises(LayoutError, match="'when' holds times"):
        MemoryClassifier(keep=True).partial_fit(zoned("UTC"), LABELS, layout=layout)


def test_rows_that_sync_names_can_be_forgotten() -> None:
    fitted = fit("classifier", zoned(BERLIN))
    X, y = fitted.sync(zoned(BERLIN)[20:], LABELS[20:], dry_run=True).forgotten_rows()
    assert sorted(value.isoformat() for value in X[:, 0]) == sorted(
        value.isoformat() for value in zoned(BERLIN)["when"][:20]
    )
    fitted.forget(pd.DataFrame({"when": X[:, 0]}), y)
    assert fitted.sync(zoned(BERLIN)[20:], LABELS[20:]).is_equal


def test_offsets_name_no_zone_and_are_read_in_utc_with_a_warning() -> None:
    offset = timezone(timedelta(hours=2))
    X = pd.DataFrame({"when": TIMES.dt.tz_convert(offset)})
    for table in (X, X.astype(object)):
        with pytest.warns(UserWarning, match=r"Column 'when' holds times with an offset .*tz_convert"):
            fitted = fit("classifier", table)
        assert fitted.state.columns.scales == {0: "UTC"}
        assert fitted.digest() == fit("classifier", zoned("UTC")).digest()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fit("classifier", zoned("UTC"))
        fit("classifier", zoned(BERLIN))


def test_a_zone_that_the_machine_does_not_know_is_named() -> None:
    with pytest.raises(ValueError, match=r"Column 'a' holds times in the zone 'Nowhere/Land'.*pip install tzdata"):
        local_times(np.zeros(1), "Nowhere/Land", "Column 'a'")


def test_zones_have_one_name() -> None:
    class Named:
        zone = BERLIN  # as of pytz

    assert name_zone(Named()) == BERLIN  # type: ignore[arg-type]
    assert name_zone(UTC) == name_zone(ZoneInfo("GMT")) == name_zone(timezone(timedelta(hours=1))) == "UTC"
    assert not is_offset(UTC)
    assert is_offset(timezone(timedelta(hours=1)))
    assert aware_time(0, BERLIN) == datetime(1970, 1, 1, tzinfo=ZoneInfo(BERLIN))
    with pytest.raises(ValueError, match="Column 'a' holds times without a zone and others in the zone UTC"):
        join_zones("", "UTC", "Column 'a'")
    with pytest.raises(ValueError, match="one clock"):
        join_zones("Asia/Tokyo", BERLIN, "Column 'a'")


def test_parts_of_a_column_keep_its_zone() -> None:
    times = AwareTimes.from_moments(np.array(["2026-01-01"] * 3, "M8[s]"), ZoneInfo(BERLIN))
    assert read_times(times[1:], "Column 0").zones == {BERLIN}
    assert read_times(np.asarray(times), "Column 0").zones == frozenset()


@pytest.mark.parametrize(
    ("zones", "message"),
    [
        ({"../../etc/passwd": [0]}, "the zones of its columns are not valid"),
        ({BERLIN: []}, "the zones of its columns are not valid"),
        ({BERLIN: [1]}, "the zone of a column that holds no dates"),
        ({BERLIN: [-1]}, "the zone of a column that holds no dates"),
        ({BERLIN: [True]}, "the zone of a column that holds no dates"),
        ({BERLIN: [0], "UTC": [0]}, "two zones for one column"),
    ],
)
def test_zones_of_crafted_files_are_refused(zones: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_zones({"zones": zones}, [True, False])
    assert parse_zones({}, [True, False]) == {}
    assert parse_zones({"zones": {"UTC": [0]}}, [True, False]) == {0: "UTC"}
