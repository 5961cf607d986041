"""Deadlines: never shorter than on a quiet machine, longer on a slow one, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pace

if TYPE_CHECKING:
    import pytest


def test_a_deadline_grows_with_the_machine_and_never_shrinks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(pace, "QUIET_SECONDS", 1e9)
    assert pace.patience(3.0) == 3.0
    monkeypatch.setattr("os.getloadavg", lambda: (12.0, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert pace.patience(3.0) == 18.0
    monkeypatch.setattr(pace, "QUIET_SECONDS", 1e-9)
    assert pace.patience(3.0) > 18.0


def test_waiting_ends_with_the_condition_or_with_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([False, False, True])
    assert pace.wait_until(lambda: next(answers), 60, every=0)
    factors = iter([2.0, 1.0])
    monkeypatch.setattr(pace, "slowness", lambda: next(factors))
    assert not pace.wait_until(lambda: False, 0.01, every=0.005)
