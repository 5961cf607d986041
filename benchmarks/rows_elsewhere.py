"""Random histories (``rows.py``) through engines, the command line and a server.

The values are such that files, JSON and data frames hold the same ones. Whole numbers from 2^53 on
and missing dates are among them.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hammemo import MemoryClassifier, engines, load, save
from rows import CaseHistory, DocumentHistory, History, LabelledRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo_server.models.served import ServedModel

_VALUES: Final[dict[str, list[Any]]] = {
    "names": ["a", "b", "ü", "x y", "Z"],
    "integers": [-2, -1, 0, 1, 2, 2**53 + 1, 2**62],
    "measures": [k + 0.5 for k in range(-20, 20)],
    "lacking": [np.nan, *(k + 0.25 for k in range(8))],
    "dates": [
        *(pd.Timestamp(2026, 1, day, day) for day in range(1, 9)),
        *[pd.NaT] * 3,
    ],
    "aware": [*(pd.Timestamp(2026, 1, day, day, tz="UTC") for day in range(1, 9)), *[pd.NaT] * 3],
    "coded": ["a", "b", None],
}
ONE_THREAD: Final = engines.Machines("threads", workers=1, shard_bytes=512)
SEEDS: Final[dict[str, dict[str, Any]]] = {"default": {}, "seed 7": {"random_state": 7}}
_DTYPES: Final[dict[str, Any]] = {
    "names": object,
    "integers": np.int64,
    "measures": float,
    "lacking": float,
    "dates": "datetime64[us]",
    "aware": "datetime64[us, UTC]",  # offsets in CSV are read in UTC
    "coded": object,
}


class TableHistory(History):
    """A history of a table that files and a server can hold: each column has one type."""

    configurations = SEEDS
    values = _VALUES
    dtypes = _DTYPES
    label_dtype: Any = object
    fewest_rows = 1  # a file of no rows is refused
    possible_kinds: tuple[str, ...] = tuple(_VALUES)
    steps: tuple[str, ...] = (
        "partial_fit",
        "partial_fit",
        "learn_one",
        "forget",
        "forget_one",
        "merge",
        "refit",
        "save_and_load",
    )

    def draw_kinds(self) -> None:
        """Draw the kinds of the columns."""
        self.as_frame = True
        n_columns = self.rng.integers(2, 5)
        ranks = self.rng.integers(0, len(self.possible_kinds), n_columns)
        self.kinds = [self.possible_kinds[rank] for rank in ranks]
        self.labels = (["no", "yes", "perhaps"], ["no", "yes"])[int(self.rng.integers(2))]
        self.size = int(self.rng.choice([5, 30, 80]))

    def draw_rows(self) -> LabelledRows:
        """Return random rows; the label depends on the first and the last value."""
        rows = []
        for _ in range(int(self.rng.integers(2, self.size + 1))):
            picks = [int(self.rng.integers(len(self.values[kind]))) for kind in self.kinds]
            number = picks[0] + 3 * picks[-1]
            if self.rng.random() >= 0.8:
                number = int(self.rng.integers(99))
            row = [self.values[kind][pick] for kind, pick in zip(self.kinds, picks, strict=True)]
            rows.append((row, self.labels[number % len(self.labels)]))
        return rows

    def frame(self, rows: LabelledRows) -> pd.DataFrame:
        """Return rows as a table with their labels."""
        columns = {}
        for j, kind in enumerate(self.kinds):
            columns[f"c{j}"] = pd.Series([row[j] for row, _ in rows], dtype=self.dtypes[kind])
        columns["label"] = pd.Series([label for _, label in rows], dtype=self.label_dtype)
        return pd.DataFrame(columns)

    def as_user_gives(self, rows: LabelledRows) -> tuple[Any, Any]:
        """Return rows and labels as a user gives them."""
        frame = self.frame(rows)
        return frame.drop(columns="label"), frame["label"].to_numpy()

    def forget_one(self) -> None:
        """Forget one row, by a table."""
        if len(self.held) > self.fewest_rows:
            self._forget({int(self.rng.integers(len(self.held)))})

    def write(self, rows: LabelledRows, folder: str | Path, name: str = "rows") -> str:
        """Write rows as CSV or Parquet, and return the path."""
        ending = ("csv", "parquet")[int(self.rng.integers(2))]
        if ending == "parquet":
            return self.write_parquet(rows, folder, name)
        path = Path(folder) / f"{name}.csv"
        self.frame(rows).to_csv(path, index=False)
        return str(path)

    def write_parquet(self, rows: LabelledRows, folder: str | Path, name: str = "rows") -> str:
        """Write rows as Parquet, and return the path."""
        path = Path(folder) / f"{name}.parquet"
        pq.write_table(self.encode_dictionaries(self.frame(rows)), path)
        return str(path)

    def encode_dictionaries(self, frame: pd.DataFrame) -> pa.Table:
        """Return a table as one of Arrow, some of whose columns are dictionaries with nulls."""
        table = pa.Table.from_pandas(frame, preserve_index=False)
        for j, kind in enumerate(self.kinds):
            if kind == "coded":
                strings = table.column(j).cast(pa.string())  # one without values is of no type
                table = table.set_column(j, f"c{j}", strings.dictionary_encode())
        return table


class FirstRowsOnEngine(History):
    """What the histories of tables and of documents on engines have in common."""

    way = "engines"

    def learn(self, how: str) -> None:
        """Let an engine learn the first rows, and the model the others."""
        if self.held and how != "fit":
            super().learn(how)
        else:
            self.drop_rows()
            self.held = self.draw_rows()
            self.model = self.fit_on_engine(self.held)

    def fit_on_engine(self, rows: LabelledRows) -> MemoryClassifier:
        """Return what an engine makes of rows in a file."""
        raise NotImplementedError


class EngineHistory(FirstRowsOnEngine, TableHistory):
    """A history that begins with `engines.fit_table` of files, and half of which end with it."""

    def fit_on_engine(self, rows: LabelledRows) -> MemoryClassifier:
        """Return what an engine makes of rows in a file."""
        with tempfile.TemporaryDirectory() as folder:
            path = self.write(rows, folder)
            model = MemoryClassifier(**self.params)
            return engines.fit_table(model, path, "label", machines=ONE_THREAD)

    def fit_new(self, rows: LabelledRows) -> MemoryClassifier:
        """Return a new model of these rows."""
        if self.rng.random() < 0.5:
            return self.fit_on_engine(rows)
        model: MemoryClassifier = super().fit_new(rows)
        return model


class EngineDocumentHistory(FirstRowsOnEngine, DocumentHistory):
    """The same for documents in lines of JSON."""

    configurations = SEEDS

    def fit_on_engine(self, rows: LabelledRows) -> MemoryClassifier:
        """Return what an engine makes of documents in a file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "documents.jsonl"
            lines = [json.dumps(document) + "\n" for document, _ in rows]
            path.write_text("".join(lines), encoding="utf-8")
            estimator = MemoryClassifier(**self.params)
            return engines.fit_documents(
                estimator, str(path), self.h, **self.how, machines=ONE_THREAD
            )

    def fit_new(self, rows: LabelledRows) -> MemoryClassifier:
        """Return a new model of these documents.

        An engine chooses by a sample of them, and refit by all.
        """
        if self.rng.random() < 0.5:
            return self.fit_on_engine(rows).refit()
        return super().fit_new(rows)


def command(*arguments: Any) -> None:
    """Run a command of hammemo in this process."""
    from typer.testing import CliRunner

    from hammemo.cli.app import app

    result = CliRunner().invoke(app, [*map(str, arguments)])
    if result.exit_code:
        raise RuntimeError(f"hammemo {' '.join(map(str, arguments))}: {result.output}")


class CommandHistory(TableHistory):
    """A history of a model file that commands change."""

    way = "command line"
    steps: tuple[str, ...] = (
        "partial_fit",
        "partial_fit",
        "forget",
        "forget_one",
        "merge",
        "refit",
    )

    def run(self) -> list[str]:
        """Live through it in a folder of its own."""
        with tempfile.TemporaryDirectory() as folder:
            self.folder = Path(folder)
            self.file = Path(folder) / "model"
            return super().run()

    def options(self) -> list[Any]:
        """Return the options of ``hammemo fit``."""
        return ["--label", "label", "--seed", self.params.get("random_state", 0)]

    def learn(self, how: str) -> None:
        """Fit a file, or add one."""
        rows = self.draw_rows()
        if how == "fit" or not self.held:
            self.drop_rows()
            command("fit", self.write(rows, self.folder), *self.options(), "--out", self.file)
        else:
            command("add", self.file, self.write(rows, self.folder))
        self.held += rows

    def take_back(self, rows: LabelledRows) -> None:
        """Forget the rows of a file."""
        arguments = ["forget", self.file, self.write(rows, self.folder)]
        if self.rng.random() < 0.3:
            arguments.append("--refit")
        command(*arguments)

    def merge(self) -> None:
        """Merge with the file of another model."""
        rows = self.draw_rows()
        other = self.folder / "other"
        command("fit", self.write(rows, self.folder), *self.options(), "--out", other)
        command("merge", self.file, other, "--out", self.file)
        self.held += rows

    def refit(self) -> None:
        """Choose again."""
        command("refit", self.file)

    def fit_new(self, rows: LabelledRows) -> MemoryClassifier:
        """Return what ``hammemo fit`` makes of a file of these rows."""
        path = self.write(rows, self.folder)
        command("fit", path, *self.options(), "--out", self.folder / "fresh")
        fresh: MemoryClassifier = load(self.folder / "fresh")
        return fresh

    def differences(self) -> list[str]:
        """Compare the file with that of the rows that are left."""
        command("refit", self.file)
        self.model = load(self.file)
        return super().differences()


class CommandCaseHistory(CommandHistory, CaseHistory):
    """The same for an event log, whose cases come in several files."""

    kind = CaseHistory.kind
    steps: tuple[str, ...] = (
        "partial_fit",
        "partial_fit",
        "partial_fit",
        "forget_events",
        "forget_ids",
        "forget_ids",
        "merge",
        "refit",
    )
    draw_rows = CaseHistory.draw_rows

    def draw_kinds(self) -> None:
        """Draw the ids; items are strings, as everything is in CSV."""
        CaseHistory.draw_kinds(self)
        self.as_token = "i{}".format
        self.how = {"short": self.how["short"]}

    def options(self) -> list[Any]:
        """Return the options of ``hammemo fit``."""
        columns = ["--case", "user", "--event", "item", "--time", "time"]
        windows = ["--h", self.h, "--short", self.how["short"]]
        return [*columns, *windows, "--seed", self.params.get("random_state", 0)]

    def frame(self, rows: LabelledRows) -> pd.DataFrame:
        """Return the events of documents as a table."""
        return self.events(rows)

    def forget_events(self) -> None:
        """Forget all events of some cases, given as one file."""

        def forget(rows: LabelledRows, _: list[Any]) -> None:
            command("forget", self.file, self.write(rows, self.folder))

        self._forget_cases(forget)

    def forget_ids(self) -> None:
        """Forget some cases by their ids alone."""

        def forget(_: LabelledRows, ids: list[Any]) -> None:
            command("forget", self.file, *[f"--only={case}" for case in ids])

        self._forget_cases(forget)

    def fit_new(self, rows: LabelledRows) -> MemoryClassifier:
        """Return what ``hammemo fit`` makes of files with one document of each case at most.

        The n-th document of a case is in the n-th file.
        """
        n_documents = Counter[Any]()
        files = list[LabelledRows]()
        for document, case in rows:
            if n_documents[case] == len(files):
                files.append([])
            files[n_documents[case]].append((document, case))
            n_documents[case] += 1
        paths = []
        for number, file_rows in enumerate(files):
            paths.append(self.write(file_rows, self.folder, f"rows-{number}"))
        command("fit", *paths, *self.options(), "--out", self.folder / "fresh")
        fresh: MemoryClassifier = load(self.folder / "fresh")
        return fresh

    def _forget_cases(self, forget: Any) -> None:
        if len({case for _, case in self.held}) > 1:
            super()._forget_cases(forget)


class ServerHistory(TableHistory):
    """A history of a model that a server holds: uploaded, edited and written, without HTTP."""

    way = "server"
    possible_kinds: tuple[str, ...] = ("names", "integers", "measures")
    steps: tuple[str, ...] = (
        "partial_fit",
        "partial_fit",
        "learn_one",
        "forget",
        "forget_one",
        "refit",
    )

    def run(self) -> list[str]:
        """Live through it on the server of this process."""
        self.number = 0
        try:
            return super().run()
        finally:
            _host().delete("t", "model")

    @property
    def hosted(self) -> ServedModel:
        """The model on the server."""
        model: ServedModel = _host().get("t", "model")
        return model

    def edit(self, kind: Any, rows: Sequence[tuple[list[Any], Any]] = ()) -> None:
        """Send an edit and wait until it is applied."""
        from hammemo_server.edits.operations import Edit

        self.number += 1
        self.hosted.edit(Edit(str(self.number), kind, **self.content(rows))).result(600)

    def content(self, rows: Sequence[tuple[list[Any], Any]]) -> dict[str, Any]:
        """Return rows as an edit has them."""
        return {"rows": [row for row, _ in rows], "labels": [label for _, label in rows]}

    def learn(self, how: str) -> None:  # noqa: ARG002  (a server learns in one way)
        """Upload a model of the first rows, or learn more."""
        rows = self.draw_rows()
        if self.held:
            self.edit("learn", rows)
        else:
            with tempfile.TemporaryDirectory() as folder:
                save(self.fit_new(rows), Path(folder) / "model")
                _host().upload("t", "model", Path(folder) / "model")
        self.held += rows

    def learn_one(self) -> None:
        """Learn one row."""
        rows = self.draw_rows()[:1]
        self.edit("learn", rows)
        self.held += rows

    def take_back(self, rows: LabelledRows) -> None:
        """Forget rows."""
        self.edit("forget", rows)

    def refit(self) -> None:
        """Choose again."""
        self.edit("refit")

    def differences(self) -> list[str]:
        """Compare what the server writes."""
        self.edit("refit")
        with tempfile.TemporaryDirectory() as folder:
            _host().write_file("t", "model", Path(folder) / "model")
            self.model = load(Path(folder) / "model")
        return super().differences()


class ServerDocumentHistory(ServerHistory, DocumentHistory):
    """The same for documents."""

    kind = DocumentHistory.kind
    draw_rows = DocumentHistory.draw_rows
    fit_new = DocumentHistory.fit_new
    steps: tuple[str, ...] = ("partial_fit", "partial_fit", "forget", "forget_one", "refit")

    def draw_kinds(self) -> None:
        """Draw what the tokens are, and how documents are cut: an edit does not choose labels."""
        DocumentHistory.draw_kinds(self)
        self.how.pop("classes", None)

    def content(self, rows: Sequence[tuple[list[Any], Any]]) -> dict[str, Any]:
        """Return documents as an edit has them."""
        return {"documents": [document for document, _ in rows]}


@cache
def _host() -> Any:
    """Return the host of this process; its folder goes when the process ends."""
    from hammemo_server.models.host import Host

    return Host(Path(tempfile.mkdtemp(prefix="hammemo-histories-")))
