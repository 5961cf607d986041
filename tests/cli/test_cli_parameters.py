"""Messages of the library on the command line: parameters become options, and nothing else changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hammemo
from hammemo.cli.app import app
from hammemo.cli.console import OPTIONS, as_options

pytestmark = pytest.mark.quick

PACKAGE = Path(hammemo.__file__).parent


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("use missing='empty' for a position", "use --missing 'empty' for a position"),
        ("name it with label=.", "name it with --label."),
        ("give case= and event=, both", "give --case and --event, both"),
        ("rename one, or use header=False if", "rename one, or use --no-header if"),
        ("n_labels= says what is known.", "--n-labels says what is known."),
        ("n_labels=3, but the sample alone has 4", "--n-labels 3, but the sample alone has 4"),
        ("buckets=99: at most 2^31", "--buckets 99: at most 2^31"),
        ("agreement=1.5 is no share.", "--agreement 1.5 is no share."),
        ("name one with column=…", "name one with --column"),
        ("leave out key=.", "leave out --key-file."),
        ("pass it as load(path, key=...).", "pass it as --key-file."),
        ("use h= where it is a list", "use --h where it is a list"),
        (r"delimiter='\t' is", r"--delimiter '\t' is"),
    ],
)
def test_parameters_become_options(said: str, shown: str) -> None:
    assert as_options(said) == shown


@pytest.mark.parametrize(
    "said",
    [
        "no document has more than h=9 tokens",
        "d=1024 and k=9 are numbers",
        "data/label=3/part.csv does not exist",
        "label=3/part.csv does not exist",
        "label=3.csv does not exist",
        "memory is Hashed(buckets=8, key=None, reserved=2) there",
        "memory is Tiered(sketch=Hashed(buckets=8, key=None, reserved=2)) there",
        "https://host/path?key=3 is no address",
        "'key=value' is no token id",
        "the line a=b, unknown=3 has two of them",
    ],
)
def test_everything_else_stays(said: str) -> None:
    assert as_options(said) == said


def test_each_option_is_one_of_a_command() -> None:
    import typer

    root = typer.main.get_command(app)
    known: set[str] = set()
    for command in getattr(root, "commands", {}).values():
        for inner in getattr(command, "commands", {"": command}).values():
            known |= {option for param in inner.params for option in param.opts}
    assert set(OPTIONS.values()) <= known


def test_the_library_knows_no_options() -> None:
    """Only the command line has flags: the rest of the package says parameters, which `as_options` translates."""
    flag = re.compile(r"(?<![-\w])--[a-z][a-z-]+")
    elsewhere = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "cli"]
    found = [
        f"{path.name}: {line.strip()}"
        for path in elsewhere
        for line in path.read_text().splitlines()
        if flag.search(line)
    ]
    assert found == []


def test_notes_of_a_plan_name_options(tmp_path: Path) -> None:
    rows = "".join(f"{i % 7},{i % 5},{i}\n" for i in range(60))
    (tmp_path / "a.csv").write_text("a,b,y\n" + rows)
    line = ["plan", str(tmp_path / "a.csv"), "--label", "y", "--budget", "1 MiB", "--n-examples", "5000"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    assert "--n-labels says what is known" in " ".join(result.stdout.split())
    assert "n_labels=" not in result.stdout
