"""README and two of the guides, followed to the letter in a fresh environment.

The wheel is the one that ``HAMMEMO_WHEEL`` names (``.ci/run`` builds one), or is built here. ``.ci/nightly`` installs
what the pages say from the package registry; in ``.ci/run`` the environment of the README gets links to the packages
that the wheel asks for, and to no others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import hammemo
import walkthrough
from hammemo import planning
from hammemo.paper import theory
from places import ROOT

GUIDES = ["docs/howto/delete-a-customer.md", "docs/howto/audit-a-deletion.md"]
ALL_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "howto").glob("*.md"))]


_OURS = re.compile(r"^(\.|hammemo)(?=\[|$)")


def _is_ours(requirement: str) -> bool:
    """Tell whether this is the package itself, from a registry or from a clone."""
    return _OURS.match(requirement) is not None


def _pip(*arguments: str | Path) -> None:
    """Run this interpreter's pip and show what it said if it fails."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


def _built(variable: str, source: Path, folder: Path) -> Path:
    """Return the wheel that a variable of the environment names, or build it."""
    if variable in os.environ:
        return Path(os.environ[variable]).resolve(strict=True)
    _pip("wheel", "--no-deps", "--wheel-dir", folder, source)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of the library."""
    return _built("HAMMEMO_WHEEL", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def server_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of the server."""
    return _built("HAMMEMO_SERVER_WHEEL", ROOT / "server", tmp_path_factory.mktemp("server-wheel"))


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of commands of a fresh environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    return folder / "bin"


posix = pytest.mark.skipif(sys.platform == "win32", reason="the console blocks are for a POSIX shell")


@posix
@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", *GUIDES])
def test_a_reader_gets_what_the_page_shows(name: str, wheel: Path, binaries: Path, tmp_path: Path) -> None:
    page = ROOT / name
    wanted = walkthrough.installations(page.read_text(encoding="utf-8"))
    assert any(_is_ours(requirement) for requirement in wanted), f"{name} does not say how to install the package."
    built = [f"{wheel}{_OURS.sub('', requirement)}" if _is_ours(requirement) else requirement for requirement in wanted]
    _pip("--python", binaries / "python", "install", "--no-compile", *built)
    _walk(page, binaries, tmp_path)


@posix
@pytest.mark.long
def test_the_readme_is_true_of_the_wheel(wheel: Path, binaries: Path, tmp_path: Path) -> None:
    page = ROOT / "README.md"
    _pip("--python", binaries / "python", "install", "--no-compile", "--no-deps", wheel)
    (site,) = binaries.parent.glob("lib/python*/site-packages")
    (ours,) = metadata.distributions(name="hammemo", path=[str(site)])
    wanted = [Requirement(text) for text in walkthrough.installations(page.read_text(encoding="utf-8"))]
    _link_needed(ours, {extra for requirement in wanted for extra in requirement.extras}, site)
    _walk(page, binaries, tmp_path)


MODEL = (
    "from hammemo import MemoryClassifier; model = MemoryClassifier().fit([['a', 'b'], ['c', 'd']] * 9, [0, 1] * 9); "
)
"""A model to try an extra on."""
EXTRAS = {
    "": MODEL + "assert model.predict([['a', 'b']]) == [0]",
    "cli": "from hammemo.cli.app import app; app(['fit', '--help'])",
    "plot": MODEL + "model.explain(['a', 'b']).plot()",
    "text": "from hammemo.sources import open_source; import pyarrow, tokenizers",
    "onnx": MODEL + "model.compile().to_onnx('model.onnx')",
    "hub": "import hammemo.hub",
    "serve": "from hammemo.client import Client; from hammemo.cli.app import app; app(['serve', '--help'])",
    "serve,postgres": "import hammemo_server.store.postgres_log",
    "erase": "from hammemo.receipts import new_key_file; new_key_file('keys')",
}
"""For each extra, what must work with it and what it brings alone."""


@posix
@pytest.mark.long
@pytest.mark.parametrize("extras", EXTRAS)
def test_an_extra_brings_what_it_needs(extras: str, wheel: Path, server_wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "environment", with_pip=False)
    (site,) = tmp_path.glob("environment/lib/python*/site-packages")
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    if "serve" in extras:
        with ZipFile(server_wheel) as archive:
            archive.extractall(site)
        (server,) = metadata.distributions(name="hammemo-server", path=[str(site)])
        _link_needed(server, set(), site)
    (ours,) = metadata.distributions(name="hammemo", path=[str(site)])
    _link_needed(ours, set(extras.split(",")), site)
    python = [str(tmp_path / "environment" / "bin" / "python"), "-c"]
    tried = subprocess.run([*python, EXTRAS[extras]], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr
    if extras == "cli":
        asked = "from hammemo.cli.app import app; app(['serve', 'models', '--port', '80'])"
        refused = subprocess.run([*python, asked], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert refused.returncode == 1
        assert "pip install 'hammemo[serve]'" in refused.stderr


def test_both_distributions_have_one_version() -> None:
    library, server = (
        tomllib.loads((ROOT / name / "pyproject.toml").read_text("utf-8"))["project"] for name in (".", "server")
    )
    assert server["version"] == library["version"]
    assert f"hammemo[cli]=={library['version']}" in server["dependencies"]
    assert f"hammemo-server=={library['version']}" in library["optional-dependencies"]["serve"]


def _link_needed(package: metadata.Distribution, extras: set[str], site: Path) -> None:
    """Link all that a package needs, and what that needs, from this environment to another one."""
    for requirement in map(Requirement, package.requires or []):
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        if requirement.name.startswith("hammemo"):  # its wheel is there
            (ours,) = metadata.distributions(name=requirement.name, path=[str(site)])
            if requirement.extras:
                _link_needed(ours, requirement.extras, site)
            continue
        needed = metadata.distribution(requirement.name)
        assert requirement.specifier.contains(needed.version, prereleases=True), requirement
        tops = {Path(file).parts[0] for file in needed.files or []} - {"..", "__pycache__"}
        missing = [top for top in tops if not (site / top).exists()]
        for top in missing:
            (site / top).symlink_to(str(needed.locate_file(top)))
        if missing:
            _link_needed(needed, requirement.extras, site)


def _walk(page: Path, binaries: Path, tmp_path: Path) -> None:
    walked = subprocess.run(
        [binaries / "python", "-W", "error", Path(walkthrough.__file__), page],
        cwd=tmp_path,
        env={"PATH": f"{binaries}{os.pathsep}{os.defpath}", "HOME": str(tmp_path), "LANG": "C.UTF-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert walked.returncode == 0, walked.stderr


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("```python\n>>> 1 + 1\n3\n\n```\n", "Expected:\n    3\nGot:\n    2"),
        ("```python\n>>> x = 1\n\n```\ntext\n```python\n>>> x\n2\n\n```\n", "line 7"),
        ("```console\n$ echo one\ntwo\n```\n", "Expected:\ntwo\nGot (exit code 0):\none"),
        ("```console\n$ exit 3\n```\n", "exit code 3"),
        ("```python\n>>> def f():\n...     return 1\n>>> f()\n1\n\n```\n", ""),
        ("```console\n$ echo one; echo two\n...\ntwo\n```\n", ""),
        ("```console\n$ pip install '.[cli]'\n$ echo a \\\n> b\na b\n```\n", ""),
    ],
)
def test_differences_are_found_and_shown(page: str, found: str) -> None:
    told = walkthrough.walk("page.md", page)
    assert found in told
    assert bool(found) == bool(told)


def test_what_a_page_installs() -> None:
    page = '```console\n$ pip install .\n$ pip install "hammemo[cli,plot]" lightgbm\n```\n'
    assert walkthrough.installations(page) == [".", "hammemo[cli,plot]", "lightgbm"]
    assert (
        list(map(_is_ours, (".", ".[cli]", "hammemo", "hammemo[cli]", "hammemo-extras", "lightgbm")))
        == [True] * 4 + [False] * 2
    )


def test_the_reference_lists_every_public_name() -> None:
    words = (ROOT / "docs" / "api.md").read_text(encoding="utf-8").split()
    assert set(hammemo.__all__) | set(theory.__all__) <= set(words)
    assert {f"planning.{one}" for one in planning.__all__} <= set(words)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere_on_github_too(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not link.startswith("https://"):
            place, _, anchor = link.partition("#")
            target = page.parent / place if place else page
            assert target.exists(), link
            assert not anchor or anchor in _anchors(target), link
