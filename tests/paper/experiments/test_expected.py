"""How long an experiment takes is said before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from hammemo.cli.app import app
from hammemo.paper.experiments import bounds, expected, synthetic

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick


def test_draws_of_each_kind_are_timed_once_and_shared_among_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(expected, "seconds", lambda draw: (draw(), float(next(clock) + 1))[1])
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    made: list[str] = []
    kinds = [(lambda: made.append("a"), 10), (lambda: made.append("b"), 100)]
    assert expected.by_draws(kinds, jobs=2) == (10 * 1 + 100 * 2) / 2
    assert made == ["a", "a", "b"]  # the first is a warm-up
    assert expected.by_draws(kinds, jobs=99) == (10 * 3 + 100 * 4) / 4


def test_measured_seconds_are_scaled_by_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "probe", lambda: 2 * expected.PROBE_SECONDS)
    monkeypatch.setattr(expected, "PROCESSOR_SECONDS", {"one": 30.0, "two": 12.0})
    assert expected.by_probe("one") == pytest.approx(60)
    assert expected.by_probe("two", share=0.5) == pytest.approx(12)


def test_the_probe_is_short() -> None:
    assert 0 < expected.probe() < 5


def test_settings_of_a_first_look_have_draws_enough_for_every_claim() -> None:
    settings = synthetic.SyntheticSettings.quick()
    assert settings.realisations >= synthetic.ENOUGH_REALISATIONS
    point = synthetic.Realisation(0.1, 1.0, 2.0, agrees=True, merged_agrees=False)
    few = [
        synthetic.Point(h, d, [point] * settings.realisations)
        for h in settings.context_lengths
        for d in settings.dimensions
    ]
    claims = synthetic.claims(synthetic.summary(settings, few))
    assert len(claims) == 6
    assert all(claim.holds is not None for claim in claims)


@pytest.mark.long
def test_commands_say_it_on_standard_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = synthetic.SyntheticSettings(3, 2, (128,), (8,))
    monkeypatch.setattr(synthetic.SyntheticSettings, "quick", classmethod(lambda cls, seed: tiny))
    monkeypatch.setattr(synthetic, "estimate_seconds", lambda settings, jobs: 100.0 / jobs)
    monkeypatch.setattr(bounds, "estimate_seconds", lambda settings, jobs: 7200.0)
    monkeypatch.setattr(bounds.BoundSettings, "quick", classmethod(lambda cls, seed: cls(seed, draws=1)))
    for command, said in {
        "synthetic": "This takes about 2 minutes here, if no other program needs the cores.",
        "bounds": "This takes about 2.0 hours here, if no other program needs the cores.",
    }.items():
        arguments = ["reproduce", command, "--quick", "--jobs", "1", "--json", "--out", str(tmp_path / command)]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert said in " ".join(result.stderr.split())
        assert said not in result.stdout
