"""What texts say about a column is a sum over its rows: parts, in any order, say what the whole says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo.tokens.text_evidence import NA_TEXTS, Doubt, TextEvidence

pytestmark = pytest.mark.quick

TEXTS = st.one_of(
    st.none(),
    st.sampled_from(["", " ", "NA", " NA ", "?", "null", "cook", "007", "1", "2.5", "-1e3", "12", "5"]),
    st.sampled_from(["2012/01/01", "2012/13/01", "01.02.2012", "13.02.2012", "20120101", "20121301", "1/2/12"]),
    st.sampled_from([f"name {i}" for i in range(9)]),
    st.dates().map(str),
)


def of(texts: list[str | None]) -> TextEvidence:
    return TextEvidence.of_texts(texts, frozenset(NA_TEXTS))


@given(first=st.lists(TEXTS, max_size=12), more=st.lists(TEXTS, max_size=12))
def test_evidence_is_a_sum_over_rows(first: list[str | None], more: list[str | None]) -> None:
    whole = of([*first, *more])
    assert of(first).plus(of(more)) == of(more).plus(of(first)) == whole == of([*more, *first][::-1])
    assert TextEvidence.from_packed(json.loads(json.dumps(whole.pack()))) == whole


@pytest.mark.parametrize(
    ("texts", "kind", "doubt"),
    [
        (["1", "NA", "2.5", "?", ""], "n", None),
        (["NA", "null", ""], "?", None),
        (["NA", "cook"], "s", None),
        (["2012/01/31", "NA"], "d", None),
        (["01/02/2012", "03/04/2012"], "s", Doubt.ORDER),
        (["1/31/99"], "s", Doubt.CENTURY),
        (["2012/01/31", "2012-01-31"], "s", Doubt.FORMATS),
        (["20120101", "20120102", "20120103", "20120104", "20120105"], "n", Doubt.COMPACT),
        (["20120101", "20120102"], "n", None),
        (["20120101", "20120102", "20120103", "20120104", "5"], "n", None),
        ([*(f"{i}.5" for i in range(40)), "unknown"], "s", Doubt.STRAYS),
        ([*(f"{i}.5" for i in range(40)), *"abcd"], "s", None),
        ([f"{i:03}" for i in range(40)], "s", None),
        (["cook", "clerk"], "s", None),
    ],
)
def test_what_a_column_holds_and_what_is_doubtful(texts: list[str], kind: str, doubt: Doubt | None) -> None:
    evidence = of(list(texts))
    assert evidence.kind == kind
    assert evidence.doubt == doubt


def test_texts_that_users_name_are_missing_and_others_are_not() -> None:
    texts = ["1", "-9999", "unknown", "NA"]
    assert TextEvidence.of_texts(texts, ["-9999", "unknown"]).kind == "s"
    assert TextEvidence.of_texts(texts, ["-9999", "unknown", "NA"]).missing == (("-9999", 1), ("NA", 1), ("unknown", 1))
    assert TextEvidence.of_texts(["1", "NA"], ()).kind == "s"
