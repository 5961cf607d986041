"""The hashed memory's two figures: measures against their definitions, where sizes cross, and the whole command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fidelity
from experiments import app
from hammemo import MemoryClassifier
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.paper.experiments import wikitext

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.paper.experiments.measuring import Row

TINY = fidelity.FidelitySettings(
    seed=3,
    repetitions=2,
    stored=200,
    tables=((4, 8), (16, 32)),
    dimensions=(16, 32),
    growing=(40, 100_000),
    fixed_table=(4, 8),
    fixed_dimension=16,
    queries=50,
)


def text() -> wikitext.Lines:
    """Return 30 lines of about 70 word types for each split."""
    rng = np.random.default_rng(0)
    return {
        split: [[*(f"w{t}" for t in rng.zipf(1.2, 25) % 70), "<eos>"] for _ in range(30)] for split in wikitext.SPLITS
    }


@pytest.fixture(scope="module")
def task() -> wikitext.Task:
    return wikitext.build_task(text())


@pytest.fixture(scope="module")
def outcomes(task: wikitext.Task) -> list[dict[str, list[Row]]]:
    return fidelity.run(task, TINY)


def test_a_draw_holds_every_example_once_and_depends_on_the_seed_alone(task: wikitext.Task) -> None:
    first, again, other = (fidelity.draw(task, TINY, i) for i in (0, 0, 1))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.queries, again.queries)
    assert not np.array_equal(first.X, other.X)
    chosen = task.candidate_positions("train")
    expected = np.column_stack([task.contexts["train"][chosen, -fidelity.H :], task.tokens["train"][chosen]])
    drawn = np.column_stack([first.X, first.y])
    np.testing.assert_array_equal(np.unique(drawn, axis=0), np.unique(expected, axis=0))
    assert len(drawn) == len(expected)
    assert first.queries.shape == (TINY.queries, fidelity.H)


def test_the_measures_against_their_definitions(task: wikitext.Task, outcomes: list[dict[str, list[Row]]]) -> None:
    for repetition, outcome in enumerate(outcomes):
        data = fidelity.draw(task, TINY, repetition)
        X, y = data.X[: TINY.stored], data.y[: TINY.stored]
        exact = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
        ranked = np.sort(exact.class_scores(data.queries), axis=1)
        unique = ranked[:, -1] > ranked[:, -2]
        rows = {row["memory"]: row for row in outcome["size"]}
        model = MemoryClassifier("positional", memory=Hashed(8, 4), random_state=repetition, vote="sum").fit(X, y)
        same = model.predict(data.queries) == exact.predict(data.queries)
        certified = model.certify(data.queries)
        row = rows["hashed, 4 + 8"]
        assert row["agreement"] == pytest.approx(100 * same[unique].mean())
        assert row["certified"] == pytest.approx(100 * certified.mean())
        assert (row["proofs"], row["wrong"]) == (certified.sum(), 0)
        assert row["state_mebibytes"] == model.memory_.nbytes / 2**20
        assert (rows["exact, sparse"]["agreement"], rows["exact, sparse"]["certified"]) == (100, 100)
        memo = MemoryClassifier("positional", memory=Gaussian(32), random_state=repetition, vote="sum").fit(X, y)
        fused = memo.compile("fused", vocabulary=range(len(task.vocabulary)))
        row = rows["Gaussian, d = 32"]
        assert row["agreement"] == pytest.approx(
            100 * (fused.predict(data.queries) == exact.predict(data.queries))[unique].mean()
        )
        assert (row["certified"], row["state_mebibytes"]) == (None, fused.nbytes / 2**20)


def test_growing_sets_end_with_all_examples(task: wikitext.Task, outcomes: list[dict[str, list[Row]]]) -> None:
    total = len(task.candidate_positions("train"))
    numbers = [row["examples"] for row in outcomes[0]["growth"]]
    assert numbers == [40] * 3 + [total] * 3


def test_the_summary_is_mean_and_deviation_over_repetitions(outcomes: list[dict[str, list[Row]]]) -> None:
    results = fidelity.summary(TINY, outcomes)
    assert [row["memory"] for row in results["size"]] == [
        "exact, sparse",
        "hashed, 4 + 8",
        "hashed, 16 + 32",
        "Gaussian, d = 16",
        "Gaussian, d = 32",
    ]
    values = [outcome["size"][1]["agreement"] for outcome in outcomes]
    assert results["size"][1]["agreement"] == pytest.approx(np.mean(values))
    assert results["size"][1]["agreement_sd"] == pytest.approx(np.std(values, ddof=1))
    assert results["size"][3]["certified"] is None
    hashed = [row for outcome in outcomes for row in (*outcome["size"], *outcome["growth"]) if row["kind"] == "hashed"]
    assert results["proofs"] == sum(row["proofs"] for row in hashed) > 0
    doubled = [{**outcome, "growth": outcome["growth"] + outcome["growth"][-3:]} for outcome in outcomes]
    assert fidelity.summary(TINY, doubled)["proofs"] == results["proofs"]
    assert results["wrong"] == 0
    page = fidelity.markdown(results)
    assert f"| hashed, 4 + 8 | {results['size'][1]['state_mebibytes']:.2f} |" in page
    assert "| none |" in page
    assert "Wrong ones among them: 0." in page
    assert "does not pass it." in fidelity.markdown({**results, "crossing": None})
    assert "passes it at about 1,230 examples." in fidelity.markdown({**results, "crossing": 1230})


def test_a_certified_answer_that_differs_would_be_counted(task: wikitext.Task, monkeypatch: pytest.MonkeyPatch) -> None:
    data = fidelity.draw(task, TINY, 0)

    def claims_all(self: MemoryClassifier, X: np.ndarray) -> np.ndarray:
        return np.ones(len(X), bool)

    monkeypatch.setattr(MemoryClassifier, "certify", claims_all)
    row = fidelity.evaluate(data, TINY, len(task.vocabulary), 0)["size"][1]
    assert (row["proofs"], row["certified"]) == (TINY.queries, 100)
    assert 0 < row["wrong"] < TINY.queries


@given(
    at=st.floats(101, 9_999),
    slope=st.floats(0.1, 2),
    numbers=st.sets(st.integers(101, 9_999), max_size=5),
    steady_slope=st.floats(-0.05, 0.05),
)
def test_powers_cross_where_they_are_equal(at: float, slope: float, numbers: set[int], steady_slope: float) -> None:
    examples = {100, 10_000} | numbers
    growing = {n: 2.0 * (n / at) ** slope for n in examples}
    steady = {n: 2.0 * (n / at) ** steady_slope for n in examples}
    crossed = fidelity.crossing(growing, steady)
    assert crossed is not None
    assert abs(crossed - at) <= 0.006 * at + 1  # three digits, and whole examples
    below = {n: size / 200**slope for n, size in growing.items()}
    assert fidelity.crossing(below, dict.fromkeys(examples, 2.0)) is None


def test_the_command_writes_the_same_results_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fidelity.FidelitySettings, "quick", classmethod(lambda cls, seed: TINY))
    data = tmp_path / "text"
    data.mkdir()
    for split, lines in text().items():
        (data / f"wiki.{split}.tokens").write_text("".join(" ".join(line[:-1]) + "\n" for line in lines))
    outputs = []
    for name, options in (("first", []), ("second", ["--json"])):
        out = tmp_path / name
        arguments = ["hashed", "--quick", "--jobs", "1", "--data", str(data), "--out", str(out), *options]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        outputs.append((out, result.stdout))
    (first, page), (second, printed) = outputs
    for file in ("results.json", "results.csv", "hashed.md", "hashed-size.svg", "hashed-growth.svg"):
        assert (first / file).read_bytes() == (second / file).read_bytes()
    assert page.startswith((first / "hashed.md").read_text())
    assert json.loads(printed) == json.loads((first / "results.json").read_text())
    assert json.loads((first / "manifest.json").read_text())["settings"]["seed"] == 3
    header, *rows = (first / "results.csv").read_text().splitlines()
    assert header.startswith("table,examples,kind,memory,state_mebibytes,state_mebibytes_sd")
    assert len(rows) == 5 + 6
    for figure in ("hashed-size.png", "hashed-growth.png"):
        assert (first / figure).read_bytes().startswith(b"\x89PNG")


def test_a_folder_without_the_text_is_refused(tmp_path: Path) -> None:
    arguments = ["hashed", "--data", str(tmp_path), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "wiki.train.tokens" in result.output
