"""``hammemo complete``: memorised sentences go on word for word; what is new goes on too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyarrow")

from hammemo.cli.app import app
from places import SHARED

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()
WIKITEXT = SHARED / "wikitext-2"

RHYME = """Twinkle, twinkle, little star,
How I wonder what you are!
Up above the world so high,
Like a diamond in the sky.

When the blazing sun is gone,
When he nothing shines upon,
Then you show your little light,
Twinkle, twinkle, all the night.
"""


def run(*arguments: Any, **options: Any) -> str:
    result = runner.invoke(app, ["complete", *map(str, arguments)], **options)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


@pytest.fixture
def rhyme(tmp_path: Path) -> Path:
    path = tmp_path / "rhyme.txt"
    path.write_text(RHYME)
    return path


def test_a_memorised_text_goes_on_word_for_word(rhyme: Path) -> None:
    assert run(rhyme, "How I", "--n", 6) == "How I wonder what you are!\nUp\n"
    assert run(rhyme, "Up above ", "--n", 4) == "Up above the world so high,\n"
    text = run(rhyme, RHYME[:20], "--tokens", "characters", "--n", len(RHYME) - 20)
    assert text == RHYME + "\n"
    assert run("-", "How I", "--n", 3, input=RHYME) == "How I wonder what you\n"


def test_a_new_prompt_goes_on_with_what_followed_its_longest_known_end(rhyme: Path) -> None:
    assert run(rhyme, "I see a diamond in", "--n", 2) == "I see a diamond in the sky.\n"
    assert run(rhyme, "my zebra little", "--n", 1) == "my zebra little star,\n"
    assert run(rhyme, "zebra", "--n", 1) == "zebra\n\n"  # nothing is known: the most frequent token, a line end


def test_draws_depend_on_the_seed_alone(rhyme: Path) -> None:
    draws = {run(rhyme, "the", "--n", 8, "--temperature", 2, "--seed", seed) for seed in (1, 1, 2, 3)}
    assert 1 < len(draws) <= 3
    said = json.loads(run(rhyme, "How I", "--n", 3, "--json"))
    assert said == {"prompt": "How I", "completion": " wonder what you"}


@pytest.mark.parametrize(
    ("tokens", "prompt", "n", "expected"),
    [
        ("words", "How I", 4, "How I wonder what you are!\n"),
        ("characters", "How I", 7, "How I wonder\n"),
        ("bytes", "Grüß", 4, "Grüße an\n"),
    ],
)
def test_a_model_of_sequences_goes_on(tokens: str, prompt: str, n: int, expected: str, tmp_path: Path) -> None:
    text, model = tmp_path / "text.txt", tmp_path / "model"
    text.write_text(RHYME + "Grüße an alle\n")
    fit = ["--h", 6, "--tokens", tokens, "--kernel", "suffixes:6:1000", "--memory", "exact", "--engine", "threads"]
    fit += ["--short", "pad", "--vote", "sum"]
    result = runner.invoke(app, ["fit", str(text), *map(str, fit), "--out", str(model)])
    assert result.exit_code == 0, result.output
    assert run(model, prompt, "--n", n) == expected


def test_a_case_ends_where_the_model_says_so(tmp_path: Path) -> None:
    log, model = tmp_path / "log.csv", tmp_path / "model"
    log.write_text("case,event\n1,open\n1,work\n1,close\n")
    how = ["--h", "2", "--case", "case", "--event", "event", "--end", "END", "--short", "pad"]
    assert runner.invoke(app, ["fit", str(log), *how, "--out", str(model)]).exit_code == 0
    assert run(model, "open", "--n", 9) == "open work close\n"


@pytest.mark.skipif(not WIKITEXT.is_dir(), reason="WikiText-2 is not part of the project")
def test_real_text_goes_on_verbatim(tmp_path: Path) -> None:
    text = (WIKITEXT / "wiki.valid.tokens").read_text(encoding="utf-8")[:200_000]
    (tmp_path / "text.txt").write_text(text)
    words = next(line.split() for line in text.splitlines() if len(line.split()) > 60)
    said = run(tmp_path / "text.txt", " ".join(words[:9]), "--n", 40)
    assert said.split() == words[:49]
