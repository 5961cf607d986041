"""Where things are: the folders of the project, and the data beside it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SUPPORT = TESTS / "support"
SHARED = ROOT.parent / "shared"
"""Data that is not part of the project; tests that need it are skipped where it is missing."""
