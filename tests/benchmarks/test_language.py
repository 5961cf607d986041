"""The protocol of language: reading, caches, weights of a mixture, one small run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from experiments import app
from language import ours as language
from language.ours import (
    LanguageModel,
    OurMixture,
    mixture_weights,
    number_lines,
    perplexity,
    read_text,
    recent_shares,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def write(folder: Path, part: str, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = [" ".join(f"w{(i + start) % 6}" for i in range(5)) for start in rng.integers(0, 6, n)]
    (folder / f"wiki.{part}.tokens").write_text(" \n".join(lines) + " \n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, (part, n) in enumerate((("train", 60), ("valid", 8), ("test", 9))):
        write(tmp_path, part, n, seed)
    return tmp_path


def test_every_token_and_every_end_of_a_line_is_a_target(folder: Path) -> None:
    text = read_text(folder)
    assert len(text.test) == 9 * 6
    assert len(text.types) == 7
    assert not text.is_cut
    stream, start = text.stream_of("test")
    assert stream[start:].tolist() == text.test.tolist()
    assert stream[start - len(text.valid) : start].tolist() == text.valid.tolist()
    stream, start = text.stream_of("valid")
    assert stream[:start].tolist() == text.train.tolist()


def test_validation_is_cut_from_training_where_there_is_none(folder: Path) -> None:
    (folder / "wiki.valid.tokens").unlink()
    text = read_text(folder)
    assert text.is_cut
    assert (len(text.train), len(text.valid)) == (54 * 6, 6 * 6)
    page = language.markdown(language.run(folder, [Even()]))
    assert "the last tenth of the training lines is validation" in page


def test_what_is_missing_is_named(folder: Path) -> None:
    (folder / "wiki.test.tokens").unlink()
    with pytest.raises(FileNotFoundError, match=r"wiki\.test\.tokens is missing"):
        read_text(folder)


def test_a_type_that_training_does_not_hold() -> None:
    text = number_lines([["a", "<unk>"]], [["a"]], [["b", "a"]])
    assert text.test.tolist() == [1, 0]
    with pytest.raises(ValueError, match="no <unk>"):
        number_lines([["a"]], [["a"]], [["b"]])


@settings(max_examples=60)
@given(stream=st.lists(st.integers(0, 3), min_size=1, max_size=30), data=st.data())
def test_shares_among_recent_tokens_are_counts(stream: list[int], data: st.DataObject) -> None:
    start, window = data.draw(st.integers(0, len(stream) - 1)), data.draw(st.integers(1, 12))
    expected = []
    for place in range(start, len(stream)):
        recent = stream[max(place - window, 0) : place]
        expected.append(recent.count(stream[place]) / len(recent) if recent else 0.0)
    assert recent_shares(np.array(stream), start, window).tolist() == expected


def test_weights_of_a_mixture_have_the_highest_likelihood() -> None:
    rng = np.random.default_rng(0)
    parts = rng.random((2, 400)) ** [[1.0], [3.0]]
    weights = mixture_weights(parts, steps=2000)
    assert weights.sum() == pytest.approx(1)
    tried = np.linspace(0.001, 0.999, 999)
    losses = [perplexity(np.array([share, 1 - share]) @ parts) for share in tried]
    assert weights[0] == pytest.approx(tried[int(np.argmin(losses))], abs=2e-3)


class Even(LanguageModel):
    """Every type is equally likely."""

    name = "even"

    def fit(self, text: language.Text) -> None:
        self.n_types = len(text.types)

    def probabilities(self, stream: NDArray[np.int64], start: int) -> NDArray[np.float64]:
        return np.full(len(stream) - start, 1 / self.n_types)


class EvenAlone(Even):
    """The same, never mixed."""

    is_mixed = False


def test_an_even_model_has_the_perplexity_of_its_types(folder: Path) -> None:
    plain, with_caches = language.run(folder, [Even()])["table"]
    assert plain["perplexity"] == pytest.approx(7)
    assert sum(with_caches["weights"]) == pytest.approx(1)
    (alone,) = language.run(folder, [EvenAlone()], most=10)["table"]
    assert alone["targets"] == 10


def test_caches_know_what_the_text_is_about() -> None:
    lines = [[["a", "b", "c", "d"]] * 50, [["a", "b"]] * 200, [["a", "b"]] * 200]
    plain, with_caches = language.evaluate(number_lines(*lines), Even())
    assert plain["perplexity"] == pytest.approx(4)
    assert with_caches["perplexity"] == pytest.approx(2)  # the 100 tokens before every target are half a, half b


@pytest.mark.parametrize("options", [{}, {"continuation": True}, {"continuation": True, "caches": (5, 9)}])
def test_probabilities_of_ours_sum_to_one(folder: Path, options: Any) -> None:
    text, model = read_text(folder), OurMixture(**options)
    model.fit(text)
    context = text.test[:4]
    streams = [np.append(context, token) for token in range(len(text.types))]
    assert sum(model.probabilities(stream, 4)[0] for stream in streams) == pytest.approx(1)
    beginnings = [np.array([1, token]) for token in range(len(text.types))]  # shorter than a context
    assert sum(model.probabilities(stream, 1)[0] for stream in beginnings) == pytest.approx(1)


def test_the_command(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    arguments = ["language", "--data", str(folder)]
    result = CliRunner().invoke(app, [*arguments, "--out", str(out)])
    assert result.exit_code == 0
    assert "| ours, continuation | none | 54 |" in (out / "language.md").read_text(encoding="utf-8")
    rows = json.loads(CliRunner().invoke(app, [*arguments, "--most", "20", "--json"]).stdout)["table"]
    assert [row["targets"] for row in rows] == [20, 20, 20]
    assert rows[0]["perplexity"] < 4
