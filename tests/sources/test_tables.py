"""Tables and schemas below the commands: compression, pipes, places, kinds."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo.sources.documents import open_source, stream_source
from hammemo.sources.formats import format_of
from hammemo.sources.kinds import InputKind, as_kind, decode_kinds, encode_kinds
from hammemo.sources.read_tables import open_table, read_table
from hammemo.sources.schemas import SequenceSchema, TableSchema, schema_from_notes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick

CSV = 'a,b\nx,1\n\n"y\n",2\n'


def values(path: Any, **options: Any) -> list[Any]:
    [batch] = read_table(str(path), **options)
    return [[column.tolist() for column in batch.columns], batch.numbers.tolist()]


def test_compressed_files_are_what_they_hold(tmp_path: Path) -> None:
    expected = [[["x", "y\n"], ["1", "2"]], [2, 5]]
    for name, data in (("a.csv", CSV.encode()), ("a.csv.gz", gzip.compress(CSV.encode()))):
        (tmp_path / name).write_bytes(data)
        assert values(tmp_path / name) == expected
    (tmp_path / "a.tsv.bz2").write_bytes(bz2.compress(CSV.replace(",", "\t").encode()))
    assert values(tmp_path / "a.tsv.bz2") == expected
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + CSV.encode())
    assert values(tmp_path / "bom.csv") == expected


def test_parquet_from_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "words": arrow.array(["x", None]).dictionary_encode(),
        "numbers": arrow.array([1, None], arrow.int8()),
        "whole": arrow.array([3, 4], arrow.uint16()),
        "large": arrow.array([2**64 - 1, 0], arrow.uint64()),
    }
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    pipe = Pipe((tmp_path / "a.parquet").read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(pipe))
    found, numbers = values("-", format="parquet")
    assert found == [["x", None], [1, None], [3, 4], [2**64 - 1, 0]]
    assert numbers == [1, 2]
    assert not pipe.closed


def test_only_the_columns_that_are_asked_for_must_be_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1, "b": [2], "y": "u"}\n{"b": [3], "a": 4, "y": "v", "c": 5}\n')
    [batch] = TableSchema("y", ("a",)).examples([str(path)])
    assert (batch.X.tolist(), batch.y.tolist(), batch.place(1)) == ([[1], [4]], ["u", "v"], f"{path}, line 2")
    with pytest.raises(ValueError, match="'b' holds a list"):
        list(TableSchema("y", ("a", "b")).examples([str(path)]))


def test_a_label_is_needed_and_a_token_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text, wanted in (("a,y\n,u\n", True), ("a,y\nx,\n", False)):
        path.write_text(text)
        with pytest.raises(ValueError, match="has no value") as caught:
            list(TableSchema("y", missing="refuse").examples([str(path)]))
        assert ("missing='token'" in str(caught.value)) == wanted


def test_the_ending_names_the_format() -> None:
    assert [format_of(name, "?") for name in ("A.CSV", "a.tab", "a.json", "a.pq", "a.tokens", "a")] == [
        "csv", "tsv", "jsonl", "parquet", "text", "?",
    ]  # fmt: skip


NOTED = [kind for kind in InputKind if kind != InputKind.UNKNOWN]


@given(st.lists(st.sampled_from(NOTED), max_size=30))
def test_kinds_are_written_into_a_note_and_read_again(kinds: list[InputKind]) -> None:
    assert decode_kinds(encode_kinds(kinds)) == tuple(kinds)


def test_notes_of_kinds_are_those_of_earlier_versions() -> None:
    assert [kind.value for kind in InputKind] == ["n", "d", "o", "s", "i", "m", "?"]
    assert [kind.value for kind in decode_kinds("s3nd2im")] == ["s", "s", "s", "n", "d", "d", "i", "m"]
    assert encode_kinds(decode_kinds("sssndd")) == "s3nd2"


def test_forged_kinds_are_not_believed() -> None:
    assert decode_kinds("x9") == ()
    assert decode_kinds("s?") == ()
    assert decode_kinds("s" + "9" * 50) == ()
    assert decode_kinds("s999999n999999" * 100) == ()
    schema = schema_from_notes({"reads": "table", "label": "y", "kinds": "s999999"}, ["a", "b"], 2)
    assert schema == TableSchema("y", ("a", "b"))


@pytest.mark.long
@given(st.lists(st.one_of(st.integers(-(2**53), 2**53), st.text(max_size=3)), min_size=1))
def test_values_are_read_as_they_were_learnt(mixed: list[Any]) -> None:
    numbers = [value for value in mixed if isinstance(value, int)]
    if numbers:
        written = np.array([str(number) for number in numbers], object)
        assert as_kind(written, InputKind.WHOLE_NUMBERS).tolist() == numbers
        assert as_kind(np.array(numbers), InputKind.STRINGS).tolist() == written.tolist()
    assert as_kind(np.array(mixed, object), InputKind.MIXED).tolist() == mixed


SCHEMAS = [
    SequenceSchema(3, "words", short="pad"),
    SequenceSchema(
        2, case="c", event="e", end="END", chosen=True, delimiter=";", header=False, kind=InputKind.WHOLE_NUMBERS
    ),
    SequenceSchema(2, "characters", column="text"),
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_sequence_schemas_come_back_from_their_notes(schema: SequenceSchema) -> None:
    assert schema_from_notes(schema.notes(), None, schema.h) == schema


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=8), st.integers(1, 40))
@settings(deadline=None)  # it writes files
def test_json_lines_are_cut_anywhere(tmp_path_factory: Any, documents: list[list[int]], shard_bytes: int) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_text("".join(json.dumps({"ids": tokens}) + "\n" for tokens in documents))
    source = open_source(path)
    found = [
        tokens.tolist()
        for shard in source.shards(shard_bytes)
        for piece in source.pieces(shard)
        for tokens in piece.documents()
    ]
    assert found == documents


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"a": [1], "b": "x"}', "2 fields that could hold documents"),
        (b'{"a": 1}', "0 fields that could"),
        (b"3", "neither a list of tokens nor a text"),
        (b"{", "is not JSON"),
        (b"[" * 100_000, "cannot be read"),
        (b'["\xff"]', "UTF-8"),
    ],
)
def test_wrong_json_lines_are_named(line: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(stream_source("jsonl", "words").stream_pieces(io.BytesIO(line), "a pipe"))
    with pytest.raises(ValueError, match="no field 'z'"):
        list(stream_source("jsonl", "words", "z").stream_pieces(io.BytesIO(b'{"a": "x"}'), "a pipe"))


def test_a_table_without_columns_lacks_the_one_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}\n{}\n")
    with pytest.raises(ValueError, match="label"):
        list(TableSchema("label").examples([str(tmp_path / "rows.jsonl")]))


def test_a_key_may_be_missing_in_a_whole_batch_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"a": 1, "b": 2}, {"a": 2, "b": 3}, {"a": 3}, {"a": 4}, {"a": 5}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    batches = list(read_table(str(path), columns=["a", "b"], batch_rows=2))
    assert [batch.columns[1].tolist() for batch in batches] == [[2, 3], [None, None], [None]]
    path.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
    batches = list(read_table(str(path), columns=["b"], batch_rows=2))
    assert [batch.columns[0].tolist() for batch in batches] == [[None, None], [None, 3], [2]]
    with pytest.raises(ValueError, match=r"rows.jsonl has no column 'c'; its columns are a\."):
        list(read_table(str(path), columns=["a", "c"], batch_rows=2))


def test_files_that_are_open_are_read_as_later_parameters_say(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a;b\n1;x\n")
    files = open_table(tmp_path / "rows.csv", delimiter=";", na=["none"])
    assert open_table(files) == files
    again = open_table(files, na=["-"], date_format={"a": "%d.%m.%Y"})
    assert (again.na, again.date_format) == (("-",), (("a", "%d.%m.%Y"),))
    assert (again.delimiter, again.files) == (";", files.files)
    assert not open_table(files, header=False).header
    with pytest.raises(ValueError, match="these files were opened as csv"):
        open_table(files, format="tsv")
