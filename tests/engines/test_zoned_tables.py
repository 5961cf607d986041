"""Files of times with a zone: engines and commands read them as `fit` reads the whole frame."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, MemoryRegressor, load, save
from hammemo.cli.app import app
from hammemo.engines import Machines, fit_table

if TYPE_CHECKING:
    from pathlib import Path

N = 240
BERLIN = "Europe/Berlin"
ONE = Machines("threads", workers=1, shard_bytes=512)
MODELS = {"classifier": MemoryClassifier, "regressor": MemoryRegressor}


def parts() -> list[pd.DataFrame]:
    """Return a table of times in Berlin in three parts, with labels by the clock there."""
    times = pd.Series(pd.date_range("2026-01-01", periods=N, freq="37h25min", tz="UTC")).dt.tz_convert(BERLIN)
    frame = pd.DataFrame({"when": times, "z": np.arange(N) % 7 / 3, "y": (times.dt.hour > 12).astype(int)})
    return [frame[i : i + 80].copy() for i in (0, 80, 160)]


def written(frames: list[pd.DataFrame], folder: Path) -> str:
    """Write each part to a file, and return their folder."""
    for i, frame in enumerate(frames):
        frame.to_parquet(folder / f"{i}.parquet")
    return str(folder)


def without_first(how: str) -> list[pd.DataFrame]:
    """Return the parts, the times of the first of which are missing, or of another clock."""
    frames = parts()
    first = frames[0]["when"]
    if how == "missing":
        frames[0]["when"] = pd.Series(pd.NaT, index=first.index).dt.tz_localize(BERLIN)
    elif how == "naive":
        frames[0]["when"] = first.dt.tz_localize(None)
    elif how != "same":
        frames[0]["when"] = first.dt.tz_convert(how)
    return frames


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("first", ["same", "missing", "UTC"])
def test_an_engine_reads_the_clock_that_all_files_have(first: str, model: str, tmp_path: Path) -> None:
    frames = without_first(first)
    fitted: Any = fit_table(MODELS[model](), written(frames, tmp_path), label="y", machines=ONE)
    whole = pd.concat([frame.assign(when=frame["when"].dt.tz_convert(BERLIN)) for frame in frames])
    assert fitted.state.columns.scales == {0: BERLIN}
    assert fitted.digest() == MODELS[model]().fit(whole[["when", "z"]], whole["y"]).digest()


@pytest.mark.parametrize(
    ("first", "message"),
    [("naive", "'when' holds times without a zone and others in the zone"), ("Asia/Tokyo", "and some are in Europe")],
)
def test_an_engine_refuses_files_of_two_clocks(first: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        fit_table(MemoryClassifier(), written(without_first(first), tmp_path), label="y", machines=ONE)


def test_commands_read_offsets_as_moments(tmp_path: Path) -> None:
    frame = pd.concat(parts())
    save(MemoryClassifier(keep=True).fit(frame[["when", "z"]], frame["y"].astype(str)), tmp_path / "model")
    model = load(tmp_path / "model")
    answers = model.predict(frame[["when", "z"]]).tolist()
    for name, zone in (("berlin.csv", BERLIN), ("utc.csv", "UTC")):
        frame.assign(when=frame["when"].dt.tz_convert(zone)).to_csv(tmp_path / name, index=False)
        asked = CliRunner().invoke(app, ["predict", str(tmp_path / "model"), str(tmp_path / name)])
        assert asked.exit_code == 0, asked.output
        assert asked.stdout.split() == answers
        synced = CliRunner().invoke(app, ["sync", str(tmp_path / "model"), str(tmp_path / name), "--label", "y"])
        assert "0 rows forgotten, 0 learnt" in synced.output
    frame.assign(when=frame["when"].dt.tz_localize(None)).to_csv(tmp_path / "naive.csv", index=False)
    for command, *options in (["predict"], ["forget", "--label", "y"], ["add", "--label", "y"]):
        path = tmp_path / "naive.csv"
        refused = CliRunner().invoke(app, [command, str(tmp_path / "model"), str(path), *options])
        assert refused.exit_code == 1
        assert "has no zone" in refused.output.replace("\n", " ")
    assert load(tmp_path / "model").digest() == model.digest()


def test_a_file_of_offsets_is_learned_in_utc_with_a_warning(tmp_path: Path) -> None:
    frame = pd.concat(parts())
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ["--label", "y", "--out", str(tmp_path / "model")]
    with pytest.warns(UserWarning, match="holds times with an offset from UTC"):
        CliRunner().invoke(app, ["fit", str(tmp_path / "t.csv"), *options])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(tmp_path / "model").state.columns.scales == {0: "UTC"}
