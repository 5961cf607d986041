r"""Tables in many files, cut into shards that can be read anywhere, and more than once.

A source of rows is a sorted list of CSV, TSV, JSON-lines or Parquet files, on this machine or on object storage, or the
files of an Arrow dataset. A Parquet file is cut at its row groups: a shard holds those that begin in its bytes. Other
files are shards as a whole, because a line break in quotes looks like the end of a row to a reader that begins in the
middle. No file is opened to cut a source, but those of an Arrow dataset that are larger than a shard.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hammemo.sources.formats import STANDARD_INPUT, format_of, opened_file, require_arrow, require_reader
from hammemo.sources.listing import File, Shard, ShardedFiles, files_of_one_format, listed_files
from hammemo.sources.tables import BATCH_ROWS, Batch, arrow_batches, check_names, check_table_format, stream_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True)
class TableFiles(ShardedFiles):
    """Rows in files; made by `open_table`. What has these methods can be learnt by engines.

    Parameters
    ----------
    files : tuple of File
        In canonical order: sorted by path.
    format : {"csv", "tsv", "jsonl", "parquet"}
    header, delimiter
        As in :func:`hammemo.sources.tables.read_table`.
    """

    reading = ("header", "delimiter")

    header: bool = True
    delimiter: str | None = None

    def without_files(self) -> TableFiles:
        """Return how shards are read, without the list of all files."""
        return replace(self, files=())

    def _can_be_cut(self, file: File) -> bool:  # noqa: ARG002
        return self.format == "parquet"

    def batches(self, shard: Shard, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows of a shard, some at a time; with `columns`, at least these columns of them."""
        file = shard.file
        with opened_file(file.base, file.path, file.path) as stream:
            between = (shard.start, shard.stop) if self.format == "parquet" else None
            yield from stream_batches(
                stream, file.path, self.format, self.header, self.delimiter, columns, between=between
            )


@dataclass(frozen=True)
class Fragment(Shard):
    """A file of an Arrow dataset, or some row groups of it.

    Parameters
    ----------
    rows : pyarrow.dataset.Fragment
    first : int
        The number of its first row.
    """

    rows: Any = None
    first: int = 1


@dataclass(frozen=True)
class DatasetFiles(TableFiles):
    """The files of an Arrow dataset; values that names of folders say are columns, too.

    Parameters
    ----------
    dataset : pyarrow.dataset.FileSystemDataset or None
        None where only shards are read.
    schema : pyarrow.Schema
    """

    dataset: Any = None
    schema: Any = None

    def shards(self, shard_bytes: int | None = None) -> list[Shard]:
        """Cut the source: files of Parquet that are larger than a shard at their row groups."""
        size, shards = self.shard_size(shard_bytes), list[Shard]()
        fragments = {fragment.path: fragment for fragment in self.dataset.get_fragments()}
        for file in self.files:
            fragment = fragments[file.path]
            parts, first, start = [fragment], 1, 0
            if file.size > size and hasattr(fragment, "split_by_row_group"):
                parts = fragment.split_by_row_group() or parts
            for number, part in enumerate(parts, 1):
                stop = -(-file.size * number // len(parts))
                shards.append(Fragment(file, start, stop, part, first))
                first += part.count_rows() if len(parts) > 1 else 0
                start = stop
        return shards

    def without_files(self) -> DatasetFiles:
        """Return how shards are read, without the list of all files."""
        return replace(self, files=(), dataset=None)

    def batches(self, shard: Shard, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows of a shard, some at a time; with `columns`, these columns of them."""
        assert isinstance(shard, Fragment)
        check_names(self.schema.names, shard.file.path)
        wanted = None if columns is None else list(columns)
        parts = shard.rows.to_batches(self.schema, columns=wanted, batch_size=BATCH_ROWS, use_threads=False)
        yield from arrow_batches(parts, shard.file.path, shard.first)


def open_table(
    where: Any,
    *,
    format: str | None = None,  # noqa: A002
    header: bool = True,
    delimiter: str | None = None,
) -> TableFiles:
    r"""Return the source of the rows in files, folders, globs, addresses on object storage, or an Arrow dataset.

    Parameters
    ----------
    where : str, path, several of them, or pyarrow.dataset.Dataset
        As in :func:`hammemo.sources.documents.open_source`. It is read more than once, so standard input, pipes and
        datasets without files are refused.
    format : {"csv", "tsv", "jsonl", "parquet"}, optional
        By default what the names end in.
    header, delimiter
        As in :func:`hammemo.sources.tables.read_table`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo.sources.table_files import open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("colour,size\nred,7\n")
    ...     _ = Path(folder, "b.csv").write_text("colour,size\nblue,8\n")
    ...     source = open_table(folder)
    ...     [batch.columns[0].tolist() for shard in source.shards() for batch in source.batches(shard)]
    [['red'], ['blue']]
    """
    if isinstance(where, TableFiles):
        return where
    if hasattr(where, "get_fragments"):
        return _dataset_files(where)
    if not isinstance(where, (str, os.PathLike, list, tuple)):
        raise TypeError(
            f"A table for engines is read more than once: name files, folders, globs or an Arrow dataset of files, not "
            f"a {type(where).__name__}. Write other rows to Parquet files first."
        )
    files, kind = files_of_one_format(where, _listed, lambda path: format or format_of(path))
    for file in files:
        check_table_format(kind, file.path)
        require_reader(file.path, kind)
    return TableFiles(files, kind, header, delimiter)


def _listed(place: str) -> list[File]:
    """Return the files at a place, or refuse what cannot be read twice."""
    if place == STANDARD_INPUT or (os.path.exists(place) and not os.path.isfile(place) and not os.path.isdir(place)):
        shown = "Standard input" if place == STANDARD_INPUT else place
        raise ValueError(f"{shown} can be read once, and engines read a table twice: write the rows to a file first.")
    return listed_files(place)


def _dataset_files(dataset: Any) -> DatasetFiles:
    if not getattr(dataset, "files", None):
        raise ValueError(
            "The Arrow dataset has no files, and engines read a table twice, in other processes, too: write it to "
            "Parquet files first (pyarrow.dataset.write_dataset)."
        )
    require_arrow("An Arrow dataset", "dataset")
    found = dataset.filesystem.get_file_info(dataset.files)
    lost = next((entry.path for entry in found if not entry.is_file), None)
    if lost is not None:
        raise FileNotFoundError(f"{lost} does not exist, and the Arrow dataset lists it.")
    files = sorted((File("", entry.path, entry.size, entry.mtime_ns or 0) for entry in found), key=lambda f: f.path)
    return DatasetFiles(tuple(files), dataset.format.default_extname, dataset=dataset, schema=dataset.schema)
