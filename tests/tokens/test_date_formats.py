"""Dates as texts: each format reads what strptime reads, and a column has a format only where it is clear."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo.tokens.date_formats import (
    ISO,
    KNOWN_FORMATS,
    choose_format,
    compile_format,
    formats_of,
    read_date,
)

pytestmark = pytest.mark.quick

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31))
WRITTEN = st.sampled_from([written for written in KNOWN_FORMATS if written != ISO])


@given(moment=MOMENTS, written=WRITTEN)
def test_a_format_reads_what_strptime_reads(moment: datetime, written: str) -> None:
    text = moment.strftime(written)
    expected = datetime.strptime(text, written)
    assert read_date(text, written) == expected
    assert written in formats_of(text)


@given(moments=st.lists(MOMENTS, min_size=1, max_size=40), written=WRITTEN)
def test_a_column_is_in_its_format_or_in_none(moments: list[datetime], written: str) -> None:
    texts = [moment.strftime(written) for moment in moments]
    formats = frozenset.intersection(*map(formats_of, texts))
    chosen = choose_format(formats)
    assert written in formats
    if chosen is None:
        return
    expected = [datetime.strptime(text, written) for text in texts]
    assert [read_date(text, chosen) for text in texts] == expected


@given(text=st.text(alphabet="0123456789-/.: JanFebPM", max_size=20))
def test_no_text_is_a_date_by_chance(text: str) -> None:
    for written in formats_of(text):
        assert read_date(text, written) is not None


@pytest.mark.parametrize(
    ("texts", "chosen"),
    [
        (["2012/01/01", "2012/1/2"], "%Y/%m/%d"),
        (["01.02.2012", "13.02.2012"], "%d.%m.%Y"),
        (["01/02/2012", "02/13/2012"], "%m/%d/%Y"),
        (["01/02/2012", "12/12/2012"], None),
        (["13/02/2012", "02/13/2012"], None),
        (["2012-01-01 10:00", "2012-01-02"], ISO),
        (["2012-01-01", "2012-1-2"], "%Y-%m-%d"),
        (["Jan 1 2000", "May 1 2000"], "%b %d %Y"),
        (["12/31/99"], None),
        (["2012-01-01", "2012/01/01"], None),
        (["32.01.2012"], None),
    ],
)
def test_the_format_of_a_column(texts: list[str], chosen: str | None) -> None:
    assert choose_format(frozenset.intersection(*map(formats_of, texts))) == chosen


def test_months_are_english_in_every_locale_and_in_both_lengths() -> None:
    for text in ("5 Mar 2020", "5 march 2020", " 05 MARCH  2020"):
        assert read_date(text, "%d %b %Y") == datetime(2020, 3, 5)
    assert read_date("5 März 2020", "%d %b %Y") is None
    assert read_date("5 foo 2020", "%d %b %Y") is None


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("%Y-%m", "lacks the day"),
        ("%d.%m.%Y %d", "two directives for the day"),
        ("%d.%m.%Q", "'%Q', which is not known"),
        ("%d.%m.%Y %", "'%', which is not known"),
        ("%d.%m.%Y %I", "lacks the half"),
        ("%d.%m.%Y %H %p", "%p without %I"),
        ("", "lacks the year"),
        ("%d.%m.%Y" + " " * 80, "more than 64 characters"),
    ],
)
def test_formats_that_make_no_date_are_refused(written: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compile_format(written)


def test_literal_text_of_a_format_is_no_pattern() -> None:
    assert read_date("(2020+01*02)", "(%Y+%m*%d)") == datetime(2020, 1, 2)
    assert read_date("20200102", "%Y.%m.%d") is None
