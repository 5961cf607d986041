"""Tables of events, learnt and forgotten by their columns, are the documents that they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hammemo import MemoryClassifier

RNG = np.random.default_rng(5)
VISITS = RNG.integers(0, 40, 300)
CLICKS = pd.DataFrame({"visit": VISITS, "item": RNG.integers(0, 30, 300), "at": RNG.permutation(300)})
COLUMNS: dict[str, Any] = {"case": "visit", "item": "item", "time": "at"}


def documents(clicks: pd.DataFrame) -> list[list[Any]]:
    """Return the visits of clicks, one by one."""
    return [clicks[clicks.visit == visit].sort_values("at").item.tolist() for visit in sorted(set(clicks.visit))]


def learnt(tokens: Any, **more: Any) -> MemoryClassifier:
    return MemoryClassifier(random_state=0).fit_stream(tokens, **more)


IDS = sorted(set(CLICKS.visit))
PLAIN = learnt(documents(CLICKS), h=30, short="pad", cases=IDS)


@pytest.mark.parametrize(
    "clicks",
    [
        CLICKS,
        pl.from_pandas(CLICKS),
        pa.Table.from_pandas(CLICKS),
        CLICKS.assign(at=pd.to_datetime(CLICKS["at"], unit="h")),
        CLICKS.astype({"visit": "Int64", "item": "Int64"}),
        CLICKS.assign(visit=CLICKS.visit.astype(float)),
        CLICKS.assign(visit=CLICKS.visit.astype(str)),
    ],
    ids=["pandas", "polars", "arrow", "dates", "nullable", "floats", "strings"],
)
def test_events_are_documents(clicks: Any) -> None:
    assert learnt(clicks, **COLUMNS).digest() == PLAIN.digest()


def test_cases_change_nothing_but_what_is_kept() -> None:
    named = learnt(CLICKS.assign(visit=CLICKS.visit.map("v{:03d}".format)), **COLUMNS).digest(parts=True)
    for other in (PLAIN, learnt(documents(CLICKS), h=30, short="pad")):
        parts = other.digest(parts=True)
        assert [part for part in parts if parts[part] != named[part]] == ["kept rows"]


def test_a_person_is_forgotten_and_events_come_later() -> None:
    some, others = CLICKS[CLICKS.visit < 5], CLICKS[CLICKS.visit >= 5]
    clf = MemoryClassifier(random_state=0).partial_fit_stream(others, **COLUMNS).partial_fit_stream(some, **COLUMNS)
    assert clf.refit().digest() == PLAIN.digest()
    assert clf.forget_stream(some, **COLUMNS).refit().digest() == learnt(others, **COLUMNS).digest()


def test_rows_in_order_need_no_time() -> None:
    in_order = CLICKS.sort_values("at")
    assert learnt(in_order, case="visit", item="item").digest() == PLAIN.digest()


@pytest.mark.parametrize(
    ("clicks", "columns", "message"),
    [
        (CLICKS, {}, "say case="),
        (CLICKS, {**COLUMNS, "item": "article"}, "no column 'article'"),
        (CLICKS.assign(item=CLICKS["item"].where(CLICKS.index != 7)), COLUMNS, "'item' has no value in row 7"),
        (CLICKS.astype({"item": "Int64"}).replace({"item": {3: pd.NA}}), COLUMNS, "'item' has no value in row"),
        (CLICKS.assign(at=CLICKS["at"].astype(str)), COLUMNS, "'at' holds no times"),
        (CLICKS.assign(visit=["a", 1] * 150), COLUMNS, "'visit' has values of several types"),
        (CLICKS[:0], COLUMNS, "nothing to learn"),
    ],
)
def test_what_cannot_be_learnt_is_said(clicks: Any, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learnt(clicks, **columns)


def test_columns_are_those_of_a_frame() -> None:
    with pytest.raises(TypeError, match="data frame; this is a list"):
        learnt([["a", "b"]], **COLUMNS)
    with pytest.raises(ValueError, match="h="):
        learnt([["a", "b"]])
