"""The planted data, the fast path against the complete model, and the command that regenerates the figure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hammemo import MeMoClassifier, MemoryClassifier
from hammemo.memories import Exact
from hammemo.paper.experiments import synthetic
from hammemo.paper.experiments.figures import synthetic_figure
from hammemo.paper.theory import decompose

if TYPE_CHECKING:
    from pathlib import Path

TINY = synthetic.SyntheticSettings(seed=1, realisations=4, dimensions=(128, 512, 1024), context_lengths=(8, 16))


@pytest.mark.parametrize("h", synthetic.CONTEXT_LENGTHS)
@pytest.mark.parametrize("seed", [0, 20270])
def test_planted_quantities_are_exact(h: int, seed: int) -> None:
    data = synthetic.plant_instance(h, seed)
    assert data.contexts.shape == (4096, h)
    assert (np.bincount(data.labels)[1:] == 64).all()
    assert (data.contexts.min(), data.contexts.max()) == (1, 1024)
    matches = (data.contexts == data.query).reshape(64, -1).sum(axis=1)
    assert matches.tolist() == [40 * h] + [24 * h] * 63
    scores = (
        MemoryClassifier("positional", memory=Exact(), vote="sum")
        .fit(data.contexts, data.labels)
        .class_scores([data.query])[0]
    )
    assert scores.tolist() == synthetic.ideal_scores().tolist() == [40.0] + [24.0] * 63
    merged = data.merge_labels()
    scores = (
        MemoryClassifier("positional", memory=Exact(), vote="sum")
        .fit(merged.contexts, merged.labels)
        .class_scores([data.query])[0]
    )
    assert scores.tolist() == synthetic.merge_scores(synthetic.ideal_scores()).tolist() == [112.0] + [96.0] * 15
    assert (np.bincount(merged.labels)[1:] == 256).all()


def test_margins_and_collision_energies() -> None:
    quantities = synthetic.describe_instances()
    assert quantities["original"] == {"winner": 40, "others": 24, "margin": 16, "collision_energy": 37_888}
    assert quantities["merged"] == {"winner": 112, "others": 96, "margin": 16, "collision_energy": 150_784}


@pytest.mark.parametrize("h", [4, 8])
def test_a_realisation_is_what_the_complete_model_does(h: int) -> None:
    data, d, seed = synthetic.plant_instance(h, 5), 256, 77
    fast = synthetic.realise(synthetic.label_counts_by_position(data), d, seed)
    classes = np.arange(1, synthetic.N_TOKENS + 1)
    for instance, output_error, agrees in (
        (data, fast.output_error, fast.agrees),
        (data.merge_labels(), fast.merged_output_error, fast.merged_agrees),
    ):
        sketch = MeMoClassifier(d, random_state=seed).partial_fit(instance.contexts, instance.labels, classes=classes)
        twin = MemoryClassifier("positional", memory=Exact(), vote="sum").partial_fit(
            instance.contexts, instance.labels, classes=classes
        )
        parts = decompose(sketch, twin, [data.query])
        assert agrees == bool(parts.agrees[0])
        codes = sketch.memory_.codes.outputs(classes.tolist()).astype(float)
        given = np.abs(codes @ (codes.T @ parts.ideal[0]) - parts.ideal[0]).max()
        assert output_error == pytest.approx(given, rel=1e-4)
        if instance is data:
            assert fast.context_error == pytest.approx(np.abs(parts.context_error).max() / 64, rel=1e-3)


def test_results_depend_on_the_settings_only() -> None:
    once = synthetic.summary(TINY, synthetic.run(TINY, jobs=1))
    again = synthetic.summary(TINY, synthetic.run(TINY, jobs=2))
    assert json.dumps(once) == json.dumps(again)
    other = replace(TINY, seed=2, dimensions=(128,), context_lengths=(8,))
    assert synthetic.summary(other, synthetic.run(other, jobs=1))["context_error"][0] != once["context_error"][0]


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    settings = replace(TINY, dimensions=(128,))
    points = synthetic.run(settings, jobs=1, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(i, 8) for i in range(1, 9)]
    results = synthetic.summary(settings, points)
    assert results["context_error_slopes"] == []
    synthetic_figure(results, tmp_path)
    assert (tmp_path / "synthetic.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "synthetic.svg").read_text()


def test_claims_that_do_not_hold_are_told() -> None:
    results = synthetic.summary(TINY, synthetic.run(TINY, jobs=1))
    results["context_error_slopes"][0]["interval_99%"] = [-0.4, -0.3]
    text = "context error falls as 1/sqrt(d_h) from d = 512 on, h = 8: slope's 99 % interval meets [-0.53, -0.47]"
    assert {claim.text: claim.holds for claim in synthetic.claims(results)}[text] is None
    results["settings"]["realisations"] = synthetic.ENOUGH_REALISATIONS
    assert {claim.text: claim.holds for claim in synthetic.claims(results)}[text] is False


def test_claims_on_slopes_and_agreement_say_that_they_start_at_512() -> None:
    claims = [claim.text for claim in synthetic.claims(synthetic.summary(TINY, synthetic.run(TINY, jobs=1)))]
    started = [text for text in claims if text.startswith(("context error", "the merged"))]
    assert len(started) == 2 + 2  # a slope for each h; agreement at 512 and 1024, not at 128
    assert all(f"from d = {synthetic.FIRST_CLAIMED} on" in text for text in started)


@pytest.mark.parametrize(
    ("merged", "original", "draws", "holds"),
    [(44, 60, 160, None), (42, 94, 160, True), (94, 42, 160, False), (0, 2, 2, None)],
)
def test_a_merged_instance_recovers_less_often_by_three_errors(
    merged: int, original: int, draws: int, holds: bool | None
) -> None:
    results = synthetic.summary(TINY, [])
    results["agreement"] = [
        {"labels": name, "h": 8, "d": 512, "hits": hits, "realisations": draws, "agreement": hits / draws}
        for name, hits in (("merged", merged), ("original", original))
    ]
    (claim,) = synthetic.claims(results)
    assert claim.text.startswith("the merged instance is recovered less often")
    assert claim.holds is holds


def test_errors_of_slopes_and_ratios_are_those_of_new_draws() -> None:
    rng = np.random.default_rng(0)

    def drawn() -> dict[str, list[dict[str, float]]]:
        points = []
        for d in (512, 1024):
            context, output = rng.lognormal(0, 0.3, 200) / np.sqrt(d), rng.lognormal(0, 0.3, 200)
            merged = 2 * output * rng.lognormal(0, 0.1, 200)
            each = zip(context, output, merged, strict=True)
            points.append(synthetic.Point(8, d, [synthetic.Realisation(*row, True, True) for row in each]))
        return synthetic.summary(TINY, points)

    many = [drawn() for _ in range(60)]
    for name, value in (("context_error_slopes", "slope"), ("output_error_ratios", "ratio")):
        found = np.array([[row[value] for row in results[name]] for results in many])
        errors = np.array([[row["error"] for row in results[name]] for results in many])
        assert 0.6 < np.std(found[:, 0]) / np.mean(errors[:, 0]) < 1.6


@pytest.mark.slow
def test_the_paper_s_claims_on_two_thousand_realisations() -> None:
    settings = synthetic.SyntheticSettings(realisations=2000, dimensions=(512, 1024, 2048, 4096))
    claims = synthetic.claims(synthetic.summary(settings, synthetic.run(settings)))
    assert len(claims) == 3 + 4 + 4 + 3
    assert all(claim.holds for claim in claims), [claim for claim in claims if not claim.holds]
