"""What all tests share: pages run in an empty folder, and another build of the compiled loops can be put in place."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

collect_ignore = ["docs/conf.py", "docs/gallery", "docs/generated"]  # the build of the site runs them

BUILD = os.environ.get("HAMMEMO_TEST_BUILD")
"""A file to be tested in place of the installed ``hammemo._native``, for example one with sanitizers."""

if BUILD:
    spec = importlib.util.spec_from_file_location("hammemo._native", BUILD)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["hammemo._native"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["hammemo._native"])


@pytest.fixture(autouse=True)
def _empty_folder(request: pytest.FixtureRequest) -> None:
    if request.node.path.suffix == ".md":
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
