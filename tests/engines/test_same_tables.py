"""One table gives one model: `fit` on a frame, an array or lists, engines, the command line and a server agree."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
from typer.testing import CliRunner  # noqa: E402

import running_servers as serving  # noqa: E402
from engine_fits import fit_rows_of  # noqa: E402
from hammemo import MemoryClassifier, load  # noqa: E402
from hammemo.cli.app import app  # noqa: E402
from hammemo.client import Client  # noqa: E402
from hammemo.memories import Exact  # noqa: E402
from hammemo.tokens.column_letters import encode_letters  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.filterwarnings("ignore:Column .* holds whole numbers that nearly all differ")

N = 24
LABELS = np.array(["no", "yes"] * (N // 2), object)
LARGE = st.one_of(st.integers(2**53 - 4, 2**53 + 4), st.integers(-(2**63) + 1, 2**63 - 1))
VALUES: dict[str, Any] = {
    "names": st.sampled_from(["ann", "bob", "c d", "é", "True", "x1"]),
    "codes": st.sampled_from(["007", "012", "0199"]),
    "small": st.integers(-5, 9),
    "large": LARGE,
    "floats": st.floats(allow_nan=False, allow_infinity=False),
    "dates": st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
    "durations": st.integers(0, 10**12).map(lambda n: timedelta(microseconds=n)),
    "truths": st.booleans(),
}
TYPES = {
    "small": "int64",
    "large": "int64",
    "truths": "bool",
    "dates": "datetime64[us]",
    "durations": "timedelta64[us]",
}
CAN_LACK = ("names", "codes", "floats", "dates", "durations")
"""The kinds whose columns hold missing values in a frame without becoming of another type."""


def _column(kind: str, values: Sequence[Any]) -> Any:
    return pd.Series(list(values), dtype=TYPES.get(kind, "float64" if kind == "floats" else object))


@st.composite
def tables(draw: st.DrawFn, kinds: Sequence[str] = tuple(VALUES)) -> Any:
    """Return a table of some kinds of columns."""
    columns: dict[str, Any] = {}
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4)):
        value = st.one_of(st.none(), VALUES[kind]) if kind in CAN_LACK else VALUES[kind]
        columns[f"{kind}{len(columns)}"] = _column(kind, draw(st.lists(value, min_size=N, max_size=N)))
    return pd.DataFrame(columns)


def as_text(table: Any) -> Any:
    """Return a table as a CSV file tells it: truth values and durations are names there."""
    told = {
        name: _column("names", [None if pd.isna(v) else str(v) for v in table[name]]) for name in told_as_text(table)
    }
    return table.assign(**told)


def told_as_text(table: Any) -> list[str]:
    return [name for name in table if name.startswith(("truths", "durations"))]


def run(*arguments: object) -> None:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, result.output


def learnt_by_commands(folder: Path, table: Any, form: str) -> MemoryClassifier:
    """Return the model of the rows of a table without the first four, which were learnt and forgotten."""
    for name, rows in (("all", slice(None)), ("gone", slice(4))):
        labelled = table.assign(label=LABELS)[rows]
        if form == "csv":
            labelled.to_csv(folder / f"{name}.csv", index=False)
        else:
            labelled.to_parquet(folder / f"{name}.parquet", index=False)
    run("fit", folder / f"all.{form}", "--label", "label", "--out", folder / "m")
    run("forget", folder / "m", folder / f"gone.{form}", "--refit")
    model: MemoryClassifier = load(folder / "m")
    return model


@settings(max_examples=60, deadline=None)
@given(table=tables())
def test_engines_learn_the_model_of_the_frame(table: Any) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        for form, expected in (("parquet", table), ("csv", as_text(table))):
            whole = MemoryClassifier().fit(expected, LABELS)
            write = expected.assign(label=LABELS)
            getattr(write, f"to_{form}")(folder / f"a.{form}", index=False)
            found = fit_rows_of(MemoryClassifier(), folder / f"a.{form}", "label", engine="threads", workers=1)
            assert found.digest(parts=True) == whole.digest(parts=True)
            found.forget(expected[:4], LABELS[:4]).refit()
            assert found.digest() == MemoryClassifier().fit(expected[4:], LABELS[4:]).digest()


@pytest.mark.examples(6)
@settings(max_examples=30, deadline=None)
@given(table=tables())
def test_commands_learn_and_forget_the_rows_of_the_frame(table: Any) -> None:
    for form, told in (("parquet", table), ("csv", as_text(table))):
        with TemporaryDirectory() as folder:
            found = learnt_by_commands(Path(folder), told, form)
        assert found.digest(parts=True) == MemoryClassifier().fit(told[4:], LABELS[4:]).digest(parts=True)


@settings(max_examples=60, deadline=None)
@given(table=tables())
def test_arrays_and_lists_are_read_as_frames_are(table: Any) -> None:
    nameless = table.set_axis(range(table.shape[1]), axis=1)
    whole = MemoryClassifier().fit(nameless, LABELS)
    array = np.empty(table.shape, object)
    for j, name in enumerate(table):
        array[:, j] = table[name].tolist()
    for X in (array, array.tolist()):
        assert MemoryClassifier().fit(X, LABELS).digest(parts=True) == whole.digest(parts=True)
    opened = MemoryClassifier().open(table.shape[1])
    batches = MemoryClassifier().open(table.shape[1])
    for row, label in zip(array.tolist(), LABELS, strict=True):
        opened.learn_one(row, label)
    for start in range(0, N, 8):
        batches.partial_fit(array[start : start + 8], LABELS[start : start + 8], choose=False)
    assert opened.refit().digest(parts=True) == batches.refit().digest(parts=True) == whole.digest(parts=True)
    opened.forget_one(array[0].tolist(), LABELS[0])
    assert opened.refit().digest() == MemoryClassifier().fit(nameless[1:], LABELS[1:]).digest()


def test_a_server_learns_forgets_and_is_asked_by_exact_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids, ages = (2**53 + rng.integers(0, 9, 120)).tolist(), rng.integers(0, 60, 120).tolist()
    names = rng.choice(["u", "v"], 120).tolist()
    rows = [[i, age, name] for i, age, name in zip(ids, ages, names, strict=True)]
    labels = ["odd" if i % 2 else "even" for i in ids]
    with serving.in_thread(tmp_path / "models") as server, Client(server.url) as client:
        client.create("m", columns=["id", "age", "name"], seed=0)
        client.learn("m", rows[:1], labels[:1])
        client.learn("m", rows[1:], labels[1:])
        client.forget("m", rows[:1], labels[:1])
        client.forget("m", rows[1:20], labels[1:20])
        client.refit("m")
        client.download("m", tmp_path / "m")
        expected = MemoryClassifier(memory=Exact(), keep="auto+digests", random_state=0).fit(rows[20:], labels[20:])
        found = load(tmp_path / "m")
        assert encode_letters(found.state.columns.kinds) == encode_letters(expected.state.columns.kinds) == "nns"
        parts = ("layout", "counts", "weights", "kept rows")
        assert [found.digest(parts=True)[p] for p in parts] == [expected.digest(parts=True)[p] for p in parts]
        assert client.predict("m", rows) == expected.predict(rows).tolist()
