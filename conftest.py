"""What all tests share: examples of Hypothesis, groups of tests, and the build that is tested.

``pytest -m quick`` takes the tests with that mark and the examples of the package, with few random
examples each. With pytest-xdist (``-n 2 --dist loadgroup --no-loadscope-reorder``, as in
``.ci/run``) tests that share a fixture of their module stay in one process, so that it is made
once. Those that take longest begin first.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pathlib import Path

# the build of the site runs them
collect_ignore = ["docs/conf.py", "docs/gallery", "docs/generated"]
# tests/test_howto.py follows them
collect_ignore += ["docs/howto/delete-a-customer.md", "docs/howto/recommend.md"]
if importlib.util.find_spec("schemathesis") is None:  # .ci/nightly installs it
    collect_ignore.append("server/tests/stress/service_schema.py")
if importlib.util.find_spec("mlflow") is None:  # .ci/nightly installs it, too
    collect_ignore.append("src/hammemo/mlflow.py")

BUILD = os.environ.get("HAMMEMO_TEST_BUILD")
"""A file to be tested in place of the installed ``hammemo._native``: one with sanitizers, say."""

if BUILD:
    spec = importlib.util.spec_from_file_location("hammemo._native", BUILD)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["hammemo._native"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["hammemo._native"])


# Each test says how many examples it takes at most. A slow machine is no mistake of a test: no
# deadlines, no check of
# the pace.
settings.register_profile(
    "ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "random", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("ci")  # the other one: --hypothesis-profile=random


EXAMPLES = 20
"""The most random examples that a property gets, if its mark ``examples`` does not say fewer; with
``--hypothesis-profile=random`` it gets all that it asks for."""
QUICK_EXAMPLES = 4
"""The same with ``-m quick``."""
NOT_QUICK = ("hammemo_server", "torch_module.py", "client.py")
"""Modules of the package whose examples need a server, or packages that take seconds to import."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without quick tests if only those are asked for: to import all takes as long."""
    if config.getoption("markexpr") != "quick" or collection_path.is_dir():
        return None
    if {config.rootpath / "src", config.rootpath / "server" / "src"} & set(collection_path.parents):
        return any(name in collection_path.parts for name in NOT_QUICK) or None
    return (
        collection_path.suffix != ".py"
        or "mark.quick" not in collection_path.read_text("utf-8")
        or None
    )


def _limit_examples(item: pytest.Item, most: int) -> None:
    test = getattr(item, "obj", None)
    given = getattr(test, "_hypothesis_internal_use_settings", None)
    if given is not None and given.max_examples > most:
        test._hypothesis_internal_use_settings = settings(given, max_examples=most)  # noqa: SLF001


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name the group of tests that share a fixture of their module; begin with the longest."""
    quick = config.getoption("markexpr") == "quick"
    if quick:
        items[:] = [
            item for item in items if not any(map(item.get_closest_marker, ("slow", "long")))
        ]
    for item in items:
        is_example = isinstance(item, pytest.DoctestItem) and item.path.suffix == ".py"
        if quick and is_example and item.path.parent.name != "engines":  # those start processes
            item.add_marker("quick")
        if (
            config.getoption("--hypothesis-profile") != "random"
            and item.get_closest_marker("slow") is None
        ):
            fewer = item.get_closest_marker("examples")
            most = EXAMPLES if fewer is None else fewer.args[0]
            _limit_examples(item, min(most, QUICK_EXAMPLES) if quick else most)
        fixtures = getattr(item, "_fixtureinfo", None)
        shared = fixtures is not None and any(
            definition.scope == "module"
            for definitions in fixtures.name2fixturedefs.values()
            for definition in definitions
        )
        if shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path.name)))
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Set aside what is alive after each module: each garbage collection would look at it all."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stop where pytest-xdist splits groups up: version 3.8 does so with pytest 9.2."""
    grouped = next((item for item in session.items if item.get_closest_marker("xdist_group")), None)
    if (
        grouped is not None
        and session.config.getoption("loadgroup", False)
        and "@" not in grouped.nodeid
    ):
        raise pytest.UsageError(
            f"pytest-xdist ignores groups with pytest {pytest.__version__}: "
            "pip install --group test"
        )


@pytest.fixture(autouse=True)
def _empty_folder(request: pytest.FixtureRequest) -> None:
    if request.node.path.suffix == ".md":
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
