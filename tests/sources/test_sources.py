"""Sources: every document once and whole, however files are cut and wherever they lie."""

from __future__ import annotations

import bz2
import gzip
import io
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from hammemo.sources.documents import Source, open_source, stream_source  # noqa: E402
from hammemo.sources.formats import open_stream  # noqa: E402
from hammemo.sources.listing import SHARD_BYTES, list_files  # noqa: E402
from hammemo.sources.read_tables import read_table  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

randomly = settings(max_examples=50, deadline=None)
words = st.lists(st.sampled_from(["a", "b", "ß", "word"]), max_size=6).map(" ".join)


def documents_of(source: Source, shard_bytes: int | None = None) -> list[list[Any]]:
    return [
        document.tolist()
        for shard in source.shards(shard_bytes)
        for piece in source.pieces(shard)
        for document in piece.documents()
    ]


def write_parquet(path: Path, documents: list[Any], row_group: int = 2, kind: Any = None, **columns: Any) -> None:
    kind = pa.list_(pa.int32()) if kind is None else kind
    pq.write_table(pa.table({"tokens": pa.array(documents, kind), **columns}), path, row_group_size=row_group)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_parquet(tmp_path / "b.parquet", [[1, 2, 3], [], [4], None, [5, 6]])
    write_parquet(tmp_path / "a.parquet", [[7, 8]])
    return tmp_path


@given(lines=st.lists(words | st.just("   "), max_size=12), ending=st.booleans(), cut=st.integers(1, 40))
@randomly
def test_a_text_file_is_cut_between_lines_wherever_the_bytes_are_cut(
    lines: list[str], ending: bool, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes(("\n".join(lines) + "\n" * ending).encode())
    expected = [line.split() for line in lines if line.strip()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hammemo.sources.formats.PIECE_BYTES", 7)
        assert documents_of(open_source(path, tokens="words"), cut) == expected


@given(
    documents=st.lists(st.none() | st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=12),
    row_group=st.integers(1, 5),
    cut=st.integers(1, 400),
)
@randomly
def test_a_parquet_file_is_cut_between_row_groups(
    documents: list[Any], row_group: int, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    write_parquet(path, documents, row_group)
    found = [document for document in documents_of(open_source(path), cut) if document]
    assert found == [document for document in documents if document]


def test_lines_longer_than_a_piece_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hammemo.sources.formats.PIECE_BYTES", 3)
    (tmp_path / "a.txt").write_text("1 2 3 4 5 6 7 8\n9")
    source = open_source(tmp_path / "a.txt")
    for cut in range(1, 20):
        assert documents_of(source, cut) == [[1, 2, 3, 4, 5, 6, 7, 8], [9]]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("ids", [[1, 22], [3]]),
        ("words", [["1", "22"], ["3"]]),
        ("characters", [["1", " ", "2", "2"], ["3"]]),
        ("bytes", [[49, 32, 50, 50], [51]]),
    ],
)
@pytest.mark.parametrize("kind", ["text", "windows", "gzip", "parquet"])
def test_tokenizers_have_names(tokens: str, expected: list[Any], kind: str, tmp_path: Path) -> None:
    if kind == "parquet":
        write_parquet(tmp_path / "a.parquet", ["1 22", " ", None, "3"], kind=pa.string())
    elif kind == "gzip":
        (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"1 22\n\n3\n"))
    else:
        (tmp_path / "a.txt").write_bytes(b"1 22\n\n3\n" if kind == "text" else b"1 22\r\n\r\n3\r\n")
    assert documents_of(open_source(tmp_path, tokens=tokens), 1 if kind != "parquet" else None) == expected


def test_a_tokenizer_file_works_where_it_is_not(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"to": 5, "be": 6, "?": 0}, unk_token="?")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "a.txt").write_text("to be or\n")
    source = open_source(tmp_path / "a.txt", tokens=str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer.json").unlink()
    assert documents_of(source) == [[5, 6, 0]]


def test_lists_of_strings_and_of_any_integers_are_documents(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [["to", "be"], [], ["ß"]], kind=pa.list_(pa.string()))
    assert documents_of(open_source(tmp_path)) == [["to", "be"], [], ["ß"]]
    for kind in (pa.uint16(), pa.int64(), pa.uint64()):
        write_parquet(tmp_path / "a.parquet", [[1, 2], [3]], kind=pa.large_list(kind))
        assert documents_of(open_source(tmp_path)) == [[1, 2], [3]]


def test_files_come_in_one_order_from_folders_globs_and_lists(folder: Path) -> None:
    (folder / "_done").touch()
    (folder / "more").mkdir()
    write_parquet(folder / "more" / "c.pq", [[9]])
    everything = [[7, 8], [1, 2, 3], [], [4], [], [5, 6], [9]]
    assert documents_of(open_source(folder)) == everything
    assert documents_of(open_source(f"{folder}/**/*.p*q*")) == everything
    assert documents_of(open_source([folder / "b.parquet", folder / "a.parquet", folder])) == everything
    assert documents_of(open_source(f"{folder}/?.parquet")) == everything[:-1]
    assert documents_of(open_source(f"{folder}/[!a]*.parquet")) == everything[1:-1]
    assert documents_of(open_source(f"file://{folder}/*.parquet")) == everything[:-1]
    assert documents_of(open_source(f"{folder}/more")) == [[9]]


def test_a_fingerprint_knows_the_files_and_how_they_are_read(folder: Path) -> None:
    source = open_source(folder)
    assert source.fingerprint() == open_source(f"{folder}/*.parquet").fingerprint()
    assert source.fingerprint() != open_source(folder, column="tokens").fingerprint()
    write_parquet(folder / "a.parquet", [[7, 8, 9, 10]])
    assert source.fingerprint() != open_source(folder).fingerprint()


def test_shards_are_few_but_not_large() -> None:
    from hammemo.sources.listing import File

    def sizes(size: int) -> list[int]:
        return [shard.stop - shard.start for shard in Source((File("", "a", size),), "text").shards()]

    assert sizes(0) == [0]
    assert sizes(SHARD_BYTES[0]) == [SHARD_BYTES[0]]
    assert len(sizes(64 * 10**8)) == 64
    assert max(sizes(10**12)) <= SHARD_BYTES[1]


def test_a_sample_is_spread_over_the_files_and_does_not_depend_on_shards(tmp_path: Path) -> None:
    for name in range(40):
        write_parquet(tmp_path / f"{name:02d}.parquet", [[name] * 50, [name]] * 4)
    block = open_source(tmp_path).sample(h=2, tokens=14 * 50)
    assert block is not None
    assert sorted(set(block.tokens.tolist())) == list(range(0, 40, 3))
    short = open_source(tmp_path / "00.parquet").sample(h=50)
    assert short is None


def test_documents_beyond_the_sampled_files_are_found(tmp_path: Path) -> None:
    for name in range(20):
        write_parquet(tmp_path / f"{name:02d}.parquet", [[1, 2, 3] if name == 19 else [1]])
    block = open_source(tmp_path).sample(h=2)
    assert block is not None
    assert block.tokens.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (lambda p: None, {}, "does not exist"),
        (lambda p: p.mkdir(), {}, "holds no file"),
        (lambda p: p.write_text("1 x\n"), {}, "'x' is not a token id"),
        (lambda p: p.write_text("1 99999999999999999999\n"), {}, "'99999999999999999999' is not a token id"),
        (lambda p: p.write_bytes(b"\xff\n"), {}, "is not text in UTF-8"),
        (lambda p: p.write_text("x"), {"format": "parquet"}, "is not a Parquet file"),
        (lambda p: p.write_text("x"), {"format": "csv"}, "format='csv'"),
        (lambda p: p.write_text("x"), {"tokens": "wurds"}, "use ids, words"),
        (lambda p: write_parquet(p, [[1, None]]), {"format": "parquet"}, "missing token"),
        (lambda p: write_parquet(p, [[1]], more=["x"]), {"format": "parquet"}, "2 columns that could"),
        (lambda p: write_parquet(p, [[1]]), {"format": "parquet", "column": "x"}, "no column 'x'"),
    ],
)
def test_mistakes_are_named(make: Any, arguments: Any, message: str, tmp_path: Path) -> None:
    make(tmp_path / "a")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        documents_of(open_source(tmp_path / "a", **arguments))


def test_parquet_and_text_are_not_mixed(folder: Path) -> None:
    (folder / "notes.txt").write_text("read me")
    with pytest.raises(ValueError, match="with a glob"):
        open_source(folder)
    with pytest.raises(ValueError, match="at least one byte"):
        open_source(f"{folder}/*.parquet").shards(0)


def test_pieces_are_bounded(tmp_path: Path) -> None:
    rows = [np.arange(1000, dtype=np.int32)] * 2000
    write_parquet(tmp_path / "a.parquet", rows, row_group=2000)
    sizes = [
        piece.n_tokens for shard in open_source(tmp_path).shards() for piece in open_source(tmp_path).pieces(shard)
    ]
    assert sum(sizes) == 2_000_000
    assert max(sizes) <= 2**18


WITHOUT_ARROW = """
import sys
sys.modules["pyarrow"] = None
from hammemo.sources import open_source
from hammemo.sources.read_tables import read_table
"""


def without_arrow(code: str) -> subprocess.CompletedProcess[str]:
    """Run some Python where pyarrow cannot be imported."""
    return subprocess.run([sys.executable, "-c", WITHOUT_ARROW + code], capture_output=True, text=True, check=False)


def test_local_text_csv_and_json_lines_need_no_extra(tmp_path: Path) -> None:
    packers: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}
    for ending, pack in packers.items():
        (tmp_path / f"a.txt{ending}").write_bytes(pack(b"to be\nor not\n"))
        (tmp_path / f"a.jsonl{ending}").write_bytes(pack(b'{"text": "to be"}\n{"text": "or not"}\n'))
        (tmp_path / f"a.csv{ending}").write_bytes(pack(b"text\nto be\nor not\n"))
    code = f"""
folder = {str(tmp_path)!r}
for ending in {list(packers)!r}:
    for kind in ("txt", "jsonl"):
        for where in (f"{{folder}}/a.{{kind}}{{ending}}", f"{{folder}}/*.{{kind}}{{ending}}"):
            found = [tokens.tolist() for tokens in open_source(where, tokens="words").documents()]
            assert found == [["to", "be"], ["or", "not"]], (where, found)
    for kind in ("csv", "jsonl"):
        [batch] = read_table(f"{{folder}}/a.{{kind}}{{ending}}")
        assert [column.tolist() for column in batch.columns] == [["to be", "or not"]]
"""
    ended = without_arrow(code)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_missing_pyarrow_is_one_sentence(tmp_path: Path) -> None:
    """Every entry and every file that needs it, in one process because each takes seconds to start."""
    names = ["a.parquet", "a.txt.zst", "a.csv.lz4"]
    for name in names:
        (tmp_path / name).touch()
    code = f"""
for where in {[*(str(tmp_path / name) for name in names), "s3://bucket/a.txt"]!r}:
    for read in (
        lambda: open_source(where),
        lambda: next(read_table(where, format=None if "parquet" in where else "csv")),
    ):
        try:
            read()
        except ModuleNotFoundError as error:
            print(error)
"""
    ended = without_arrow(code)
    said = ended.stdout.splitlines()
    assert len(said) == 8, ended.stderr
    assert all(line.endswith(" needs pyarrow, which is not installed: pip install 'hammemo[text]'") for line in said)


def test_files_are_listed_here_as_pyarrow_lists_them(tmp_path: Path) -> None:
    """The listing that needs no extra against pyarrow's of the same folder."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("a.txt", "deep/b.txt", "deep/er/c.txt", "_hidden.txt", "deep/.hidden"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "deep")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    for place in (f"{tmp_path}", f"{tmp_path}/a.txt", f"{tmp_path}/**/*.txt", f"{tmp_path}/*/[!a]*", f"{tmp_path}/z*"):
        here, there = list_files(place), list_files(f"file://{place}")
        facts = [sorted((file.path, file.size, file.modified) for file in files) for files in (here, there)]
        assert facts[0] == facts[1], place


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: arrow_compressed(data, "zstd"),
    ".LZ4": lambda data: arrow_compressed(data, "lz4"),
}


def arrow_compressed(data: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


def parquet_bytes() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": ["to be", "or not"]}), sink)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "txt"])
def test_every_entry_reads_every_compression(kind: str, ending: str, tmp_path: Path) -> None:
    texts: dict[str, bytes] = {
        "csv": b"text\nto be\nor not\n",
        "tsv": b"text\nto be\nor not\n",
        "jsonl": b'{"text": "to be"}\n{"text": "or not"}\n',
        "parquet": parquet_bytes(),
        "txt": b"to be\nor not\n",
    }
    plain, packed = tmp_path / f"a.{kind}", tmp_path / f"b.{kind}{ending}"
    plain.write_bytes(texts[kind])
    packed.write_bytes(PACKERS[ending](texts[kind]))
    places = [str(packed), f"file://{packed}"]
    if kind != "txt":
        for where in places:
            tables = [next(iter(read_table(name))) for name in (str(plain), where)]
            assert tables[0].columns[0].tolist() == tables[1].columns[0].tolist() == ["to be", "or not"]
    if kind in ("jsonl", "parquet", "txt"):
        for where in places:
            assert documents_of(open_source(where, tokens="words"), 1) == [["to", "be"], ["or", "not"]]
        assert documents_of(open_source(plain, tokens="words")) == [["to", "be"], ["or", "not"]]
    with open_stream(str(packed)) as stream:
        assert stream.read() == texts[kind]


@pytest.mark.parametrize("ending", PACKERS)
def test_a_damaged_file_is_named(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl{ending}"
    whole = PACKERS[ending](b'{"text": "to be"}\n' * 1000)
    for data in (whole[: len(whole) // 2], b"not compressed at all"):
        path.write_bytes(data)
        for read in (lambda: list(read_table(str(path))), lambda: documents_of(open_source(path, tokens="words"))):
            with pytest.raises(ValueError, match=r"a\.jsonl.* is damaged or not compressed as its name says"):
                read()


def test_documents_of_parquet_from_a_pipe() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    pieces = stream_source("parquet", "words").stream_pieces(Pipe(parquet_bytes()), "a pipe")
    assert [tokens.tolist() for piece in pieces for tokens in piece.documents()] == [["to", "be"], ["or", "not"]]
