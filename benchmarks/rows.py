"""Is a model a function of the rows it holds? Random histories, each against a new fit.

    python benchmarks/rows.py [--histories 1000] [--first 0] [--kind KIND] [--json]

A history is a random sequence of `fit`, `partial_fit`, `learn_one`, `forget`, `forget_one`, `merge`
of models that chose for themselves, `unmerge`, `refit`, pickles and files, over random kinds of
columns, labels, weights, missing values, memories, votes, kernels and seeds; some tables hold rows
that were made to have equal hashes. A third of the tables leave it to the rows which columns are
numbers, in arrays, in data frames or in tables of Arrow: batches may hold missing values or whole
numbers only where others hold fractions or dates. Some dates have a zone, some categories an order
(of a frame, or declared by ``ordered=``), and some columns of Arrow are dictionaries with nulls. At
the end `refit()` is called, and the file of the model is compared with that of a model that `fit`
makes of the rows that are left, in another order. What is declared (the type of the labels) is the
same for both.

Some histories are of models of numbers, in every form of table that those of labels have.

Some histories are of documents: `fit_stream`, `partial_fit_stream`, `forget_stream`, and
`fit_stream` of the documents that are left. Some are of documents in cases, which come in several
batches and are forgotten by their events or ids. Some go through engines, the command line or a
server (``rows_elsewhere.py``), and some are of tables that have a column of ordered categories, in
every form that can hold one (``rows_ordered.py``).

Printed are how many histories there were of each kind and way, how many files differ and in which
parts of the digest, and exceptions. A history is decided by its number: ``--histories 1 --first
NUMBER`` runs it again. ``--kind "ordered categories"`` leaves out the numbers of histories of other
kinds. The exit code is 1 if one of them fails.
"""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections import Counter
from datetime import datetime
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from hammemo import MemoryClassifier, MemoryRegressor, load, save
from hammemo._progress import progress_bar
from hammemo.edits.editing import take_state
from hammemo.files.contents import file_pieces
from hammemo.kernels import AutoSites, Suffixes
from hammemo.memories import Gaussian, Hashed, Tiered
from hammemo.tokens.hashing import hash_numbers, key_words, mix_one, unhash_numbers
from hammemo.votes import LogLinear, Mixture
from measures import options, show

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo.paper.experiments.measuring import Row

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "seed 7": {"random_state": 7},
    "empty positions": {"missing": "empty"},
    "hashed": {"memory": Hashed(64, 8)},
    "hashed, nothing reserved": {"memory": Hashed(64, 0)},
    "digests": {"keep": "auto+digests"},
    "tiered": {"memory": Tiered(Hashed(64, 8))},
    "gaussian": {"memory": Gaussian(64), "vote": "sum", "keep": True},
    "sum": {"vote": "sum", "keep": True},
    "mean": {"vote": "mean", "keep": True},
    "log-linear": {"vote": LogLinear()},
    "small sample": {"vote": LogLinear(sample=40)},
    "positional": {"kernel": "positional"},
    "pairs": {"kernel": "pairs"},
    "few tuples": {"kernel": AutoSites(budget=4)},
}

DOCUMENTS: dict[str, dict[str, Any]] = {
    "documents": {},
    "documents, seed 7": {"random_state": 7},
    "documents, hashed": {"memory": Hashed(64, 8)},
    "documents, digests": {"keep": "auto+digests"},
    "documents, tiered": {"memory": Tiered(Hashed(64, 8))},
    "documents, gaussian": {"memory": Gaussian(64), "vote": "sum", "keep": True},
    "documents, sum": {"vote": "sum", "keep": True},
    "documents, mixture": {"vote": Mixture(sample=200)},
    "documents, suffixes": {"kernel": Suffixes(1), "vote": Mixture()},
    "documents, small sample": {"vote": LogLinear(sample=40)},
}

_BERLIN = ZoneInfo("Europe/Berlin")

SIZES = ["S", "M", "L"]
"""Ordered categories, from low to high."""

_VALUES: dict[str, list[Any]] = {
    "integers": [-2, -1, 0, 1, 2],
    "strings": ["a", "b", "ü", "", "1"],
    "floats": [0.5, -0.0, 1.0, 2.25, 1e300],
    "missing": [None, "x", 3, float("nan")],
    "truth": [False, True],
    "measures": [None, *(k / 7 for k in range(-30, 31))],
    "large": [2**62, 2**53 + 1, 2**53, -(2**63) + 1],
    "late": [*[None] * 6, 1, 2, 3, 0.5],
    "dates": [*[None] * 3, *(datetime(2026, 1, day, day) for day in range(1, 9))],
    "aware": [
        *[None] * 3,
        *(datetime(2026, 3, 26 + day, 3 * day, tzinfo=_BERLIN) for day in range(6)),
    ],
    "coded": [None, "a", "b", "ü"],
    "ordered": [None, *SIZES],
}
"""Values of each kind of column.

The clock changes between some of the aware dates. Coded columns are dictionaries of Arrow. Ordered
ones are categories of pandas or Arrow, or strings whose order is declared by ``ordered=``.
"""

_NUMBERS = ("integers", "floats", "measures", "large")
"""The kinds that may be columns of numbers."""

_TIMES = ("dates", "aware")

_IN_FRAMES: dict[str, tuple[str, ...]] = {
    "pandas": ("integers", "strings", "floats", "truth", "measures", "dates", "aware", "ordered"),
    "Arrow": (
        "integers",
        "strings",
        "floats",
        "truth",
        "measures",
        "dates",
        "aware",
        "coded",
        "ordered",
    ),
}
"""The kinds that have one type in a data frame, or in a table of Arrow."""

_LABELS: dict[str, list[Any]] = {
    "integers": [0, 1, 2, -5],
    "strings": ["no", "yes", "perhaps", "z"],
    "truth": [False, True],
    "large": [2**62, 1, 2, 3],
    "one": ["only"],
}

TARGETS: dict[str, dict[str, Any]] = {
    "numbers": {},
    "numbers, seed 7": {"random_state": 7},
    "numbers, empty positions": {"missing": "empty"},
    "numbers, all rows kept": {"keep": True},
    "numbers in bounds": {"bounds": (-1e12, 1e13)},
}

_TARGETS: dict[str, list[Any]] = {
    "whole": [0, 1, 2, 40],
    "fractions": [-0.5, 0.125, 1 / 3, 17.25],
    "small": [1e-9, 2.5e-7, 1e-8],
    "large": [1e12, -3.5e11, 7.0],
    "one": [2.5],
}
"""Targets of unlike sizes, and one without spread: the unit is chosen by them."""

COLUMNS: dict[str, Any] = {"case": "user", "item": "item", "time": "time"}
"""The columns of a table of events."""

LabelledRows = list[tuple[list[Any], Any]]
"""Rows, each with its label."""


def rows_of_equal_hash(seed: int) -> list[list[int]]:
    """Return two rows of two integers whose hashes are equal under a seed.

    The second token of one is computed from the hash that it must have.
    """

    def hash_integer(value: int) -> int:
        return int(hash_numbers(np.array([value], np.int64).view(np.uint64), seed)[0])

    start = key_words(seed, "example")[0]
    second_hash = (
        mix_one(start ^ hash_integer(1)) ^ mix_one(start ^ hash_integer(7)) ^ hash_integer(2)
    )
    second_token = unhash_numbers(np.array([second_hash], np.uint64), seed).view(np.int64)
    return [[1, 2], [7, int(second_token[0])]]


class History:
    """One random history of a model, and the rows that it should hold.

    Parameters
    ----------
    number : int
        Decides everything.
    """

    way = "Python"
    kind = "rows"
    estimator: Any = MemoryClassifier
    kinds: Sequence[str] = ()
    configurations = CONFIGURATIONS
    fewest_rows = 0
    """How many rows `forget` and `forget_one` leave at least."""
    steps: tuple[str, ...] = (
        "fit",
        "partial_fit",
        "partial_fit",
        "learn_one",
        "forget",
        "forget_one",
        "forget_label",
        "merge",
        "unmerge",
        "refit",
        "copy_by_pickle",
        "save_and_load",
    )

    def __init__(self, number: int) -> None:
        self.rng = np.random.default_rng(number)
        names = list(self.configurations)
        self.name = names[int(self.rng.integers(len(names)))]
        self.params = self.configurations[self.name]
        self.draw_kinds()
        self.held: LabelledRows = []
        self.steps_done: list[str] = []
        self.merged: list[tuple[Any, LabelledRows]] = []
        self.model: Any = self.estimator(**self.params)

    def draw_kinds(self) -> None:
        """Draw of what kinds the columns are, and how many rows there are."""
        self.numeric = ("none", "asked", "auto")[int(self.rng.integers(3))]
        self.as_frame = self.numeric == "auto" and self.rng.random() < 0.5
        self.frames = ("pandas", "Arrow")[int(self.rng.integers(2))]
        possible_kinds = list(_IN_FRAMES[self.frames])
        if not self.as_frame:
            possible_kinds = [
                kind for kind in _VALUES if kind not in _TIMES or self.numeric == "auto"
            ]
        if self.numeric == "auto" and not isinstance(self.params.get("kernel"), str):
            # a string after whole numbers would be refused
            possible_kinds = [k for k in possible_kinds if k != "missing"]
        self.kinds = [
            possible_kinds[k]
            for k in self.rng.integers(0, len(possible_kinds), self.rng.integers(2, 6))
        ]
        self.labels = _LABELS[list(_LABELS)[int(self.rng.integers(len(_LABELS)))]]
        self.size = int(self.rng.choice([3, 20, 60, 150, 300]))
        self.equal_hashes = self.rng.random() < 0.1
        if self.equal_hashes:
            self.kinds = ["integers", "integers"]
            self.as_frame = False
        numbers = [j for j, kind in enumerate(self.kinds) if kind in _NUMBERS]
        numeric = numbers if self.numeric == "asked" else self.numeric
        self.params = {**self.params, "numeric": numeric}
        if not self.as_frame and self.rng.random() < 0.5:
            # arrays have no order: without this, these columns are names
            orders = {j: SIZES for j, kind in enumerate(self.kinds) if kind == "ordered"}
            self.params["ordered"] = orders or None

    def run(self) -> list[str]:
        """Take all steps; return in what the model differs from a new one, as `compare` does."""
        self.steps_done.append("partial_fit" if self.rng.random() < 0.5 else "fit")
        self.learn(self.steps_done[0])
        for step in self.rng.choice(self.steps, int(self.rng.integers(1, 8))).tolist():
            self.steps_done.append(step)
            if step in ("fit", "partial_fit"):
                self.learn(step)
            else:
                getattr(self, step)()
        return self.differences()

    def draw_rows(self) -> LabelledRows:
        """Draw rows; most labels depend on the first and the last value."""
        n = int(self.rng.integers(1, self.size + 1))
        rows = [[self._draw_value(kind) for kind in self.kinds] for _ in range(n)]
        if self.equal_hashes:
            rows += rows_of_equal_hash(int(self.params.get("random_state", 0)))
        labelled_rows: LabelledRows = []
        for row in rows:
            if self.rng.random() < 0.8:
                number = len(repr(row[0])) + 3 * len(repr(row[-1]))
            else:
                number = int(self.rng.integers(99))
            labelled_rows.append((row, self.labels[number % len(self.labels)]))
        return labelled_rows

    def _draw_value(self, kind: str) -> Any:
        values = _VALUES[kind]
        return values[int(self.rng.integers(len(values)))]

    def learn(self, how: str) -> None:
        """Fit or learn more rows, some with weights."""
        rows = self.draw_rows()
        weights = np.ones(len(rows), np.int64)
        if self.rng.random() < 0.3:
            weights = self.rng.integers(0, 3, len(rows))
        weights[0] = max(weights[0], 1)  # at least one row is learned
        if how == "fit":
            self.drop_rows()
        getattr(self.model, how)(*self.as_user_gives(rows), sample_weight=weights)
        for row, weight in zip(rows, weights.tolist(), strict=True):
            self.held += [row] * weight

    def drop_rows(self) -> None:
        """Hold no rows: what is learned next is a fit."""
        self.held = []
        self.merged = []

    def learn_one(self) -> None:
        """Learn one row."""
        row = self.draw_rows()[0]
        if not self.as_frame and not set(_TIMES).intersection(self.kinds):
            self.model.learn_one(*row)
        else:  # `learn_one` decides no kinds, and takes a row for a list
            self.model.partial_fit(*self.as_user_gives([row]))
        self.held.append(row)

    def forget(self) -> None:
        """Forget some of the rows."""
        n_removable = len(self.held) - self.fewest_rows
        if n_removable > 0:
            n = int(self.rng.integers(1, n_removable + 1))
            self._forget(set(self.rng.choice(len(self.held), n, replace=False).tolist()))

    def forget_label(self) -> None:
        """Forget all rows of one label."""
        if self.held:
            label = self.held[int(self.rng.integers(len(self.held)))][1]
            self._forget({i for i, row in enumerate(self.held) if row[1] == label})

    def _forget(self, places: set[int]) -> None:
        self.take_back([self.held[i] for i in sorted(places)])
        self.held = [row for i, row in enumerate(self.held) if i not in places]
        self.merged = []

    def take_back(self, rows: LabelledRows) -> None:
        """Let the model forget rows."""
        self.model.forget(*self.as_user_gives(rows))

    def as_user_gives(self, rows: LabelledRows) -> tuple[Any, Any]:
        """Return rows and labels as a user gives them."""
        X, y = _to_arrays(rows)
        if not self.as_frame:
            return X, y
        if self.frames == "Arrow":
            columns = {f"c{j}": pa.array(column.tolist()) for j, column in enumerate(X.T)}
            for j, kind in enumerate(self.kinds):
                if kind == "coded":
                    columns[f"c{j}"] = columns[f"c{j}"].dictionary_encode()
                elif kind == "ordered":
                    places = pc.index_in(columns[f"c{j}"].cast(pa.string()), pa.array(SIZES))
                    columns[f"c{j}"] = pa.DictionaryArray.from_arrays(places, SIZES, ordered=True)
            return pa.table(columns), y
        frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]).infer_objects()
        for j, kind in enumerate(self.kinds):
            if kind == "ordered":
                frame[f"c{j}"] = pd.Categorical(X[:, j], categories=SIZES, ordered=True)
        return frame, y

    def forget_one(self) -> None:
        """Forget one row."""
        if self.held:
            row, label = self.held.pop(int(self.rng.integers(len(self.held))))
            self.model.forget_one(row, label)
            self.merged = []

    def merge(self) -> None:
        """Add a model that has chosen by rows of its own."""
        rows = self.draw_rows()
        other = self.fit_new(rows)
        if self.rng.random() < 0.5:
            self.model = self.model + other
        else:
            self.model.merge(other)
        self.held += rows
        self.merged.append((other, rows))

    def fit_new(self, rows: LabelledRows) -> Any:
        """Return a new model of these rows."""
        return self.estimator(**self.params).fit(*self.as_user_gives(rows))

    def unmerge(self) -> None:
        """Subtract the model that was added last, unless rows were forgotten since."""
        if self.merged:
            other, rows = self.merged.pop()
            self.model.unmerge(other)
            n_removed = Counter(repr(row) for row in rows)
            remaining = []
            for row in self.held:
                if n_removed[repr(row)]:
                    n_removed[repr(row)] -= 1
                else:
                    remaining.append(row)
            self.held = remaining

    def refit(self) -> None:
        """Choose again, or fit the weights only."""
        self.model.refit("weights" if self.rng.random() < 0.3 else "all")

    def copy_by_pickle(self) -> None:
        """Go on with a copy."""
        self.model = pickle.loads(pickle.dumps(self.model))  # noqa: S301  (its own)

    def save_and_load(self) -> None:
        """Go on with what a file holds."""
        with tempfile.TemporaryDirectory() as folder:
            save(self.model, Path(folder) / "model")
            self.model = load(Path(folder) / "model")

    def differences(self) -> list[str]:
        """Compare with a fresh model of the rows that are held, in another order."""
        self.model.refit()
        reordered_rows = [self.held[i] for i in self.rng.permutation(len(self.held))]
        if not reordered_rows and self.as_frame:
            return []  # names of columns stay declared, and `open` declares none
        if reordered_rows:
            fresh = self.fit_new(reordered_rows)
        else:
            fresh = MemoryClassifier(**self.params).open(self.model.n_features_in_)
        self.declare_labels(fresh)
        return self.compare(fresh)

    def declare_labels(self, fresh: Any) -> None:
        """Give a fresh model the type of the labels that this one has declared."""
        take_state(fresh, fresh.state.with_changes(target_dtype=self.model.label_dtype_))

    def compare(self, fresh: Any) -> list[str]:
        """Return "file" and the parts of the digest in which the model differs from a fresh one."""
        if _read_file_bytes(self.model) == _read_file_bytes(fresh):
            return []
        digests = self.model.digest(parts=True)
        fresh_digests = fresh.digest(parts=True)
        return ["file", *(name for name in digests if digests[name] != fresh_digests[name])]


class TargetHistory(History):
    """One random history of a model of numbers."""

    kind = "numbers"
    estimator = MemoryRegressor
    configurations = TARGETS

    def draw_kinds(self) -> None:
        """Draw of what kinds the columns are, and of what size the targets are."""
        super().draw_kinds()
        self.labels = _TARGETS[list(_TARGETS)[int(self.rng.integers(len(_TARGETS)))]]

    def differences(self) -> list[str]:
        """Compare with a new model; without rows there is none, because nothing is declared."""
        if not self.held:
            self.model.refit()
            return []
        return super().differences()

    def declare_labels(self, fresh: Any) -> None:
        """Leave the model as it is: numbers have one type."""


class DocumentHistory(History):
    """One random history of a model of documents."""

    kind = "documents"

    as_frame = False
    configurations = DOCUMENTS
    steps: tuple[str, ...] = (
        "fit",
        "partial_fit",
        "partial_fit",
        "learn_one",
        "forget",
        "forget_one",
        "merge",
        "unmerge",
        "refit",
        "copy_by_pickle",
        "save_and_load",
    )

    def draw_kinds(self) -> None:
        """Draw what the tokens are, and how documents are cut into windows."""
        self.h = int(self.rng.integers(1, 4))
        self.size = int(self.rng.choice([3, 20, 80]))
        self.n_tokens = int(self.rng.choice([2, 8, 40, 400]))  # more than 256: a mixture
        self.as_token: Callable[[Any], Any] = (int, str)[int(self.rng.integers(2))]
        pad = None if self.rng.random() < 0.7 else self.as_token(10**6)
        self.how: dict[str, Any] = {"short": "pad", "pad": pad}
        if self.rng.random() < 0.5:
            self.how = {"short": "drop"}
        if self.rng.random() < 0.2:
            self.how["classes"] = [
                self.as_token(token) for token in range(max(2, self.n_tokens // 2))
            ]

    def draw_rows(self) -> LabelledRows:
        """Return random documents, each with at least one window."""
        least = self.h + 1 if self.how["short"] == "drop" else 1
        spread = int(self.rng.choice([4, 12, 150]))
        n_documents = self.rng.integers(1, self.size + 1)
        documents: LabelledRows = []
        for length in self.rng.integers(least, least + spread, n_documents):
            start = self.rng.integers(0, self.n_tokens)
            walk = start + np.cumsum(self.rng.integers(0, 3, length))
            tokens = [self.as_token(token) for token in (walk % self.n_tokens).tolist()]
            documents.append((tokens, None))
        return documents

    def learn(self, how: str) -> None:
        """Fit or learn more documents."""
        documents = self.draw_rows()
        if how == "fit":
            self.drop_rows()
        fit = getattr(self.model, f"{how}_stream")
        fit([document for document, _ in documents], self.h, **self.how)
        self.held += documents

    def learn_one(self) -> None:
        """Learn one row, and forget it."""
        row = [self.as_token(1)] * self.h
        label = self.as_token(0)
        self.model.learn_one(row, label).forget_one(row, label)

    def take_back(self, rows: LabelledRows) -> None:
        """Let the model forget documents."""
        self.model.forget_stream([document for document, _ in rows], **self.how)

    def forget_one(self) -> None:
        """Forget one document."""
        if self.held:
            self._forget({int(self.rng.integers(len(self.held)))})

    def fit_new(self, rows: LabelledRows) -> MemoryClassifier:
        """Return a new model of these documents."""
        documents = [document for document, _ in rows]
        return MemoryClassifier(**self.params).fit_stream(documents, self.h, **self.how)

    def differences(self) -> list[str]:
        """Compare with a new model of the documents that are held.

        Without documents there is none if labels were declared, because these stay.
        """
        if not self.held and "classes" in self.how:
            return []
        return super().differences()


class CaseHistory(DocumentHistory):
    """One random history of a model of documents in cases, most of which come in several batches.

    What is held are documents with the ids of their cases, in the order in which they came.
    """

    kind = "documents in cases"
    steps: tuple[str, ...] = (
        "partial_fit",
        "partial_fit",
        "partial_fit",
        "learn_one",
        "forget",
        "forget_one",
        "forget_events",
        "forget_ids",
        "forget_ids",
        "merge",
        "unmerge",
        "refit",
        "copy_by_pickle",
        "save_and_load",
    )

    def draw_kinds(self) -> None:
        """Draw what the tokens and the ids are."""
        super().draw_kinds()
        self.as_id = (int, "u{}".format)[int(self.rng.integers(2))]

    def draw_rows(self) -> LabelledRows:
        """Return random documents of random cases, at most one of each."""
        documents = super().draw_rows()
        ids = self.rng.choice(2 * self.size, len(documents), replace=False).tolist()
        case_documents: LabelledRows = []
        for (document, _), case in zip(documents, ids, strict=True):
            case_documents.append((document, self.as_id(case)))
        return case_documents

    def events(self, rows: LabelledRows) -> pd.DataFrame:
        """Return the events of documents as a table, in any order; times give their order."""
        events = [(case, token) for document, case in rows for token in document]
        frame = pd.DataFrame(events, columns=["user", "item"])
        frame["time"] = np.arange(len(frame))
        return frame.sample(frac=1, random_state=int(self.rng.integers(2**31)))

    def choose_form(self, rows: LabelledRows) -> tuple[Any, dict[str, Any]]:
        """Return documents, each case at most once, as a table or as lists with ids."""
        if self.rng.random() < 0.5:
            return self.events(rows), COLUMNS
        documents, ids = split_labels(rows)
        return documents, {"cases": ids}

    def learn(self, how: str) -> None:
        """Fit or learn more documents."""
        rows = self.draw_rows()
        if how == "fit":
            self.drop_rows()
        tokens, names = self.choose_form(rows)
        getattr(self.model, f"{how}_stream")(tokens, self.h, **names, **self.how)
        self.held += rows

    def take_back(self, rows: LabelledRows) -> None:
        """Let the model forget documents, each as it came."""
        documents, ids = split_labels(rows)
        self.model.forget_stream(documents, cases=ids, **self.how)

    def forget_events(self) -> None:
        """Forget all events of some cases, given as one table."""

        def forget(rows: LabelledRows, _: list[Any]) -> None:
            self.model.forget_stream(self.events(rows), **COLUMNS, **self.how)

        self._forget_cases(forget)

    def forget_ids(self) -> None:
        """Forget some cases by their ids alone."""
        self._forget_cases(lambda _, ids: self.model.forget_cases(ids))

    def _forget_cases(self, forget: Callable[[LabelledRows, list[Any]], Any]) -> None:
        cases = sorted({case for _, case in self.held})
        if cases:
            n = int(self.rng.integers(1, len(cases) + 1))
            ids = self.rng.choice(np.array(cases, object), n, replace=False)
            forgotten = set(ids.tolist())
            forget([row for row in self.held if row[1] in forgotten], ids.tolist())
            self.held = [row for row in self.held if row[1] not in forgotten]
            self.merged = []

    def fit_new(self, rows: LabelledRows) -> MemoryClassifier:
        """Return a new model of these documents, as they came."""
        documents, ids = split_labels(rows)
        return MemoryClassifier(**self.params).fit_stream(documents, self.h, cases=ids, **self.how)


def split_labels(rows: LabelledRows) -> tuple[list[list[Any]], list[Any]]:
    """Return the rows, and their labels: of documents in cases, the documents and their ids."""
    return [row for row, _ in rows], [label for _, label in rows]


def _to_arrays(rows: LabelledRows) -> tuple[Any, Any]:
    X = np.empty((len(rows), len(rows[0][0])), object)
    for i, (row, _) in enumerate(rows):
        X[i] = row
    labels = [label for _, label in rows]
    if isinstance(labels[0], str):
        return X, np.array(labels, object)
    return X, np.array(labels)


def _read_file_bytes(model: Any) -> bytes:
    return b"".join(bytes(piece) for piece in file_pieces(model.snapshot(), None))


def list_numbers(n_histories: int, first: int, kind: str | None) -> list[int]:
    """Return the numbers of so many histories, of one kind if it is named."""
    from rows_ways import WAYS

    if kind is not None and kind not in {way.kind for way in WAYS}:
        raise SystemExit(f"There are no histories of the kind {kind!r}.")
    numbers = (n for n in count(first) if kind in (None, WAYS[n % len(WAYS)].kind))
    return list(islice(numbers, n_histories))


def run(n_histories: int, first: int = 0, kind: str | None = None) -> list[Row]:
    """Run histories; return one row for each kind, way and configuration.

    What fails is named by its number, which decides everything, and by the steps that it took.
    """
    from rows_ways import WAYS

    rows_by_kind: dict[tuple[str, str, str], dict[str, Any]] = {}
    with progress_bar("Histories") as tell, warnings.catch_warnings():
        # of merged models with other weights, and of mixed kinds of columns
        warnings.simplefilter("ignore")
        for done, number in enumerate(list_numbers(n_histories, first, kind)):
            history: History = WAYS[number % len(WAYS)](number)
            fresh: dict[str, Any] = {"n": 0, "differ": 0, "errors": 0, "what": []}
            row = rows_by_kind.setdefault((history.kind, history.way, history.name), fresh)
            row["n"] += 1
            try:
                failure = ", ".join(history.run())
                row["differ"] += bool(failure)
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"[:300]
                row["errors"] += 1
            if failure:
                row["what"].append(f"history {number} ({', '.join(history.steps_done)}): {failure}")
            tell(done + 1, n_histories)
    return [
        {
            "kind": kind,
            "way": way,
            "configuration": name,
            "histories": row["n"],
            "files that differ": row["differ"],
            "exceptions": row["errors"],
            "what": "; ".join(row["what"]),
        }
        for (kind, way, name), row in sorted(rows_by_kind.items())
    ]


def main() -> None:
    parser = options(__doc__, as_json="the counts")
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first history")
    parser.add_argument("--kind", help="only histories of this kind")
    arguments = parser.parse_args()
    rows = run(arguments.histories, arguments.first, arguments.kind)
    counts = ("histories", "files that differ", "exceptions")
    by_way: dict[tuple[str, str], Row] = {}
    for row in rows:
        total = by_way.setdefault(
            (row["kind"], row["way"]), {"kind": row["kind"], "way": row["way"]}
        )
        total.update({name: total.get(name, 0) + row[name] for name in counts})
    totals = {name: sum(row[name] for row in rows) for name in counts}
    report = {"by configuration": rows, "by way": list(by_way.values()), "all": totals}
    show(report, as_json=arguments.json)
    if totals["files that differ"] or totals["exceptions"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
