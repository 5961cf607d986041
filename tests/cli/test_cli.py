"""The command-line tool as its users meet it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

import hammemo
from hammemo import cli
from hammemo.cli.app import app
from hammemo.cli.commands import Commands
from hammemo.cli.console import progress_bar
from hammemo.paper.experiments import bounds, figures, synthetic, throughput

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()


@pytest.fixture(autouse=True)
def small_experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = synthetic.SyntheticSettings(seed=3, realisations=3, dimensions=(128, 512), context_lengths=(8,))
    monkeypatch.setattr(synthetic.SyntheticSettings, "quick", classmethod(lambda cls, seed: tiny))
    monkeypatch.setattr(bounds.BoundSettings, "quick", classmethod(lambda cls, seed: cls(seed, draws=3)))


def test_help_and_version() -> None:
    assert "reproduce" in runner.invoke(app, ["--help"]).output
    assert runner.invoke(app, ["--version"]).output.strip() == hammemo.__version__
    completed = subprocess.run(
        [sys.executable, "-m", "hammemo", "--version"], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == hammemo.__version__


@pytest.mark.parametrize("command", ["synthetic", "bounds", "wikitext"])
def test_a_folder_that_cannot_be_written_is_refused_before_any_work(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = runner.invoke(app, ["reproduce", command, "--quick", "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert "not a folder to write to" in " ".join(result.output.replace("│", " ").split())


def test_wrong_usage_exits_with_two() -> None:
    assert runner.invoke(app, ["reproduce", "synthetic"]).exit_code == 2
    assert runner.invoke(app, ["reproduce", "nonsense"]).exit_code == 2


def test_synthetic_writes_the_same_results_twice(tmp_path: Path) -> None:
    outputs = []
    for name in ("first", "second"):
        result = runner.invoke(app, ["reproduce", "synthetic", "--quick", "--jobs", "1", "--out", str(tmp_path / name)])
        assert result.exit_code == 0, result.output
        assert "merging doubles the output error" in result.stdout
        outputs.append(tmp_path / name)
    for file in ("results.json", "results.csv", "synthetic.svg"):
        assert (outputs[0] / file).read_bytes() == (outputs[1] / file).read_bytes()
    manifest = json.loads((outputs[0] / "manifest.json").read_text())
    assert manifest["settings"]["seed"] == 3
    assert manifest["packages"]["hammemo"] == hammemo.__version__
    header, *rows = (outputs[0] / "results.csv").read_text().splitlines()
    assert header.startswith("table,h,d,")
    assert len(rows) == 2 + 4 + 4


def test_claims_as_json_and_as_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["reproduce", "synthetic", "--quick", "--jobs", "1", "--out", str(tmp_path), "--json", "--check"]
    claims = [synthetic.Claim("nothing is wrong", holds=False, paper="1", figures="0", error=0.5)]
    monkeypatch.setattr(synthetic, "claims", lambda results: claims)
    result = runner.invoke(app, arguments)
    assert result.exit_code == 1
    shown = {"text": "nothing is wrong", "holds": False, "paper": "1", "figures": "0", "error": 0.5}
    assert json.loads(result.stdout) == [shown]


def test_too_few_draws_are_no_claim(tmp_path: Path) -> None:
    result = runner.invoke(app, ["reproduce", "synthetic", "--quick", "--jobs", "1", "--out", str(tmp_path)])
    assert "too few draws to say" in result.stdout


def test_bounds_prints_its_table(tmp_path: Path) -> None:
    result = runner.invoke(app, ["reproduce", "bounds", "--quick", "--jobs", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "| output | Theorem 5 |" in result.stdout
    assert (tmp_path / "bounds.md").read_text() in result.stdout
    assert len(json.loads((tmp_path / "results.json").read_text())["bounds"]) == 21


def test_inspect_tells_what_a_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    hammemo.save(
        hammemo.MemoryClassifier(None, hammemo.memories.Hashed(8, 2), "sum").fit([["a", "[b]"]], ["[red]"]), file
    )
    result = runner.invoke(app, ["inspect", str(file)])
    assert result.exit_code == 0, result.output
    for part in ("Hashed(buckets=8, key=None, reserved=2)", "PositionalHamming()", "(ok)", "bytes of shared"):
        assert part in result.stdout
    facts = json.loads(runner.invoke(app, ["inspect", str(file), "--json"]).stdout)
    assert (facts["format"], facts["kind"], facts["labels"], facts["checksum_ok"]) == (1, "classifier", 1, True)
    assert "digest" not in facts
    facts = json.loads(runner.invoke(app, ["inspect", str(file), "--digest", "--json"]).stdout)
    assert facts["digest"] == hammemo.load(file).digest()
    hammemo.save(hammemo.load(file).compile(), file)
    result = runner.invoke(app, ["inspect", str(file), "--digest"])
    assert result.exit_code != 0
    assert "which has no digest" in result.stderr


def test_inspect_refuses_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    hammemo.save(hammemo.MemoryClassifier(memory="hashed", vote="sum").fit([["a"]], ["x"]).compile(), file)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    result = runner.invoke(app, ["inspect", str(file)])
    assert result.exit_code == 1
    assert "(WRONG)" in result.stdout
    assert "Use another copy" in result.stderr
    file.write_text("hello")
    for path in (file, tmp_path, tmp_path / "nowhere"):
        result = runner.invoke(app, ["inspect", str(path)])
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        assert "Name a file" in result.stderr


def test_a_missing_extra_is_one_sentence_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"pip install 'hammemo\[plot\]'"):
        figures.require_matplotlib()
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "hammemo.cli.app")
    with pytest.raises(SystemExit, match=r"pip install 'hammemo\[cli\]'"):
        cli.main()


def test_progress_is_quiet_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("Working") as on_progress:
        on_progress(1, 2)
    assert capsys.readouterr() == ("", "")


def test_on_a_gpu_the_papers_figures_stand_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = {"mebibytes": 2.06, "microseconds_1": 21.5, "mega_queries_256": 13.0, "mega_queries_1024": 50.0}
    rows = [{"method": name, **measured} for name in ("MeMo fused, d = 128", "sparse table")]
    monkeypatch.setattr(throughput, "inference_table", lambda *_: rows)  # there is no GPU here
    shown = runner.invoke(app, ["reproduce", "inference", "--device", "cuda"], env={"COLUMNS": "120"}).output
    assert "21.50 (20.22)" in shown
    assert "50.00 (48.41)" in shown
    assert "RTX 4060" in shown
    assert shown.count("(") == shown.count("(Mq/s)") + 2 + 4  # the sparse table is not in the paper
    assert "RTX" not in runner.invoke(app, ["reproduce", "inference"], env={"COLUMNS": "120"}).output


@dataclass(frozen=True)
class Shared:
    size: Annotated[int, typer.Option(help="How large.")]
    colour: Annotated[str, typer.Option("--color", help="Which colour.")] = "red"


def test_a_dataclass_stands_for_its_options() -> None:
    seen: list[Any] = []
    commands = Commands()

    @commands.command()
    def first(
        name: Annotated[str, typer.Argument()], shared: Shared, last: Annotated[bool, typer.Option()] = False
    ) -> None:
        seen.append((name, shared, last))

    @commands.command()
    def second(shared: Shared) -> None:
        seen.append(shared)

    for line in ("first x --size 3 --last", "second --color blue --size 4"):
        assert runner.invoke(commands, line.split()).exit_code == 0
    assert seen == [("x", Shared(3), True), Shared(4, "blue")]
    refused = runner.invoke(commands, ["second"])
    assert refused.exit_code == 2
    assert "--size" in refused.stderr
    shown = runner.invoke(commands, ["first", "--help"]).stdout
    assert shown.index("--size") < shown.index("--color") < shown.index("--last")


def test_commands_with_input_have_all_options_of_it() -> None:
    root: Any = typer.main.get_command(app)
    declared = [
        "--columns",
        "--no-header",
        "--delimiter",
        "--missing",
        "--na",
        "--date-format",
        "--format",
        "--tokens",
        "--column",
        "--case",
        "--event",
        "--time",
    ]
    for name in ("plan", "fit", "evaluate", "predict", "top-k", "explain", "add", "forget"):
        options = [param.opts[0] for param in root.commands[name].params]
        first = options.index("--columns")
        assert options[first : first + len(declared)] == declared
