"""Notes about how columns are read: they come back from a model file as they were, and crafted ones are refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo.sources.kinds import decode_kinds
from hammemo.sources.reading_notes import formats_of_note, join_note, na_of_note, places_by_format, split_note
from hammemo.sources.schemas import TableSchema, schema_from_notes
from hammemo.tokens.text_evidence import NA_TEXTS

pytestmark = pytest.mark.quick

FORMATS = st.sampled_from([None, "%d.%m.%Y", "%Y/%m/%d %H:%M"])


@given(formats=st.lists(FORMATS, min_size=1, max_size=30), na=st.lists(st.text(min_size=1, max_size=5), max_size=4))
def test_notes_give_the_schema_back(formats: list[str | None], na: list[str]) -> None:
    names = tuple(f"c{place}" for place in range(len(formats)))
    schema = TableSchema(
        label="y",
        columns=names,
        kinds=decode_kinds("".join("s" if written is None else "d" for written in formats) + "m"),
        na=tuple(na),
        learned_formats=tuple((place, written) for place, written in enumerate(formats) if written is not None),
    )
    assert schema_from_notes(schema.notes(), names, len(names)) == schema


def test_formats_of_many_columns_need_more_than_one_note() -> None:
    formats = [(place, "%d.%m.%Y") for place in range(0, 4000, 2)]
    notes = split_note("dates", json.dumps(places_by_format(formats)))
    assert len(notes) > 2
    assert all(len(text) <= 4096 for text in notes.values())
    assert list(formats_of_note(join_note("dates", notes), decode_kinds("ds" * 2000 + "s"))) == formats
    with pytest.raises(ValueError, match="Name fewer"):
        split_note("na", "x" * 100_000)


def test_a_file_without_notes_means_the_list_of_pandas() -> None:
    assert na_of_note("") == NA_TEXTS
    assert formats_of_note("", decode_kinds("ds")) == ()


@pytest.mark.parametrize(
    "note",
    [
        '["%d.%m.%Y"]',
        '{"%d.%m": [[0, 0]]}',
        '{"%d.%m.%Y": [[1, 1]]}',
        '{"%d.%m.%Y": [[0, 1000000000000]]}',
        '{"%d.%m.%Y": [[-1, 0]]}',
        '{"%d.%m.%Y": [[-3, -3]]}',
        '{"%d.%m.%Y": [[Infinity, 1]]}',
        '{"%d.%m.%Y": [[0, 0], [0, 0], [0, 0], [0, 0]]}',
        '{"%d.%m.%Y": 3}',
        '{"%d.%m.%Y": [["0", "0"]]}',
        '{"' + "%d" * 200 + '": [[0, 0]]}',
    ],
)
def test_damaged_notes_are_refused(note: str) -> None:
    with pytest.raises(ValueError, match="'dates' of the model file is damaged"):
        formats_of_note(note, decode_kinds("dss"))
