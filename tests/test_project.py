"""What strangers see of the project: workflows, forms, version, security policy, the recipe for conda."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from places import ROOT

GITHUB = ROOT / ".github"
yaml = pytest.importorskip("yaml")
if not GITHUB.is_dir():
    pytest.skip("the source distribution has no workflows", allow_module_level=True)

WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PINNED = re.compile(r"^[\w.-]+/[\w./-]+@[0-9a-f]{40}$")


def read(path: Path) -> Any:
    """Return what a YAML file holds; its key ``on`` stays a word."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


def steps(workflow: Any) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


@pytest.mark.parametrize(
    "path", sorted([*GITHUB.rglob("*.yml"), *ROOT.glob("deploy/**/*.yaml")]), ids=lambda path: path.name
)
def test_every_yaml_file_can_be_read(path: Path) -> None:
    documents = list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader))
    assert all(isinstance(document, dict) for document in documents)


def test_there_is_a_workflow_for_each_purpose() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "nightly", "release"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_and_its_version_is_said(path: Path) -> None:
    used = [step["uses"] for step in steps(read(path)) if "uses" in step]
    assert used
    lines = path.read_text(encoding="utf-8").splitlines()
    for action in used:
        assert PINNED.match(action), f"{action} is not pinned by a commit"
        told = [line for line in lines if action in line]
        assert all(re.search(r"# v\d+\.\d+\.\d+$", line) for line in told), f"no version beside {action}"


def test_one_action_has_one_commit() -> None:
    used = {step["uses"] for path in WORKFLOWS for step in steps(read(path)) if "uses" in step}
    assert len(used) == len({action.partition("@")[0] for action in used})


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_read_and_jobs_say_what_else_they_need(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    allowed = {
        "papers": {"attestations": "write", "contents": "read", "id-token": "write"},
        "publish": {"id-token": "write"},
        "announce": {"contents": "write"},
    }
    for name, job in workflow["jobs"].items():
        assert job.get("permissions") == (allowed.get(name) if path.stem == "release" else None), name
        assert "uses" in job or "timeout-minutes" in job, f"{name} may run for ever"
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false"
        assert "${{" not in step.get("run", ""), "what an event says becomes a variable, never a part of a script"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_scripts_that_workflows_run_exist(path: Path) -> None:
    scripts = [script for step in steps(read(path)) for script in re.findall(r"\.ci/\w+", step.get("run", ""))]
    assert scripts
    for script in scripts:
        assert (ROOT / script).is_file(), script


def test_every_stage_of_the_night_is_a_job() -> None:
    script = (ROOT / ".ci" / "nightly").read_text(encoding="utf-8")
    default = re.search(r"stages=\((\w[\w ]+)\)", script)
    assert default is not None
    stages = default[1].split()
    assert set(stages) <= set(re.findall(r"^(\w+)\(\) \{", script, re.MULTILINE))
    assert read(GITHUB / "workflows" / "nightly.yml")["jobs"]["stage"]["strategy"]["matrix"]["stage"] == stages


def test_nothing_is_published_that_was_not_tested() -> None:
    jobs = read(GITHUB / "workflows" / "release.yml")["jobs"]
    assert jobs["test"]["uses"] == "./.github/workflows/ci.yml"
    assert set(jobs["papers"]["needs"]) == {"test", "sdist", "wheels"}
    assert jobs["publish"]["needs"] == "papers"
    assert jobs["announce"]["needs"] == "publish"


def test_updates_of_actions_and_packages_are_proposed() -> None:
    updates = read(GITHUB / "dependabot.yml")["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"github-actions", "pip"}


@pytest.mark.parametrize("name", ["bug", "idea"])
def test_forms_have_names_and_fields_of_their_own(name: str) -> None:
    form = read(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert {"name", "description", "body"} <= set(form)
    fields = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(fields) == len(set(fields)) > 0


def test_one_version_everywhere() -> None:
    assert read(ROOT / "CITATION.cff")["version"] == version()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d{2}-\d{2}))?$", changelog, re.MULTILINE)
    assert sections[0] == ("Unreleased", "")
    assert all(date for _, date in sections[1:])
    released = sections[1] if len(sections) > 1 else (version(), None)
    assert (version(), read(ROOT / "CITATION.cff").get("date-released")) == released
    for page in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        assert ("No version is released yet" in (ROOT / page).read_text(encoding="utf-8")) == (len(sections) == 1), page


def test_the_steps_of_a_release_know_the_version(tmp_path: Path) -> None:
    for name in (
        ".ci/release",
        "pyproject.toml",
        "CITATION.cff",
        "deploy/conda/recipe.yaml",
        "CHANGELOG.md",
        "server/pyproject.toml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changelog = tmp_path / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    if f"## [{version()}]" not in text:  # it is not released yet: cut the section as a release does
        dated = f"## [Unreleased]\n\n## [{version()}] - 2026-01-01\n"
        changelog.write_text(text.replace("## [Unreleased]\n", dated), encoding="utf-8")
    script = tmp_path / ".ci" / "release"
    right, wrong = (
        subprocess.run(["bash", script, step, tag], capture_output=True, text=True, check=False)
        for step, tag in (("notes", f"v{version()}"), ("version", "v0.0.1"))
    )
    assert right.returncode == 0, right.stderr
    assert "### " in right.stdout
    assert "## [" not in right.stdout
    assert wrong.returncode == 1
    assert "v0.0.1" in wrong.stderr


def test_links_of_the_readme_lead_somewhere_on_a_package_index(tmp_path: Path) -> None:
    names = ("README.md", "pyproject.toml")
    before = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    for name in names:
        (tmp_path / name).write_text(before[name], encoding="utf-8")
    address = "https://code.example.org/someone/hammemo"
    command = [sys.executable, str(ROOT / ".ci" / "addresses.py"), address, "v1.2.3", str(tmp_path)]
    subprocess.run(command, check=True)
    readme, project = ((tmp_path / name).read_text(encoding="utf-8") for name in names)
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", readme)
    assert sum(bool(image) for image, _ in links) == 1
    for image, link in links:
        kind, _, path = link.removeprefix(f"{address}/").partition("/v1.2.3/")
        target = ROOT / path.partition("#")[0]
        assert kind == ("raw" if image else "tree" if target.is_dir() else "blob"), link
        assert target.exists(), link
    assert readme.split("```")[1::2] == before["README.md"].split("```")[1::2]  # code stays as it is
    urls = tomllib.loads(project)["project"]["urls"]
    assert urls["Homepage"] == address
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "already" in again.stderr
    wrong = subprocess.run([*command[:2], f"{address}/", *command[3:]], capture_output=True, text=True, check=False)
    assert f"{address}/" in wrong.stderr


def test_links_of_the_site_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / ".ci" / "links.py"), str(tmp_path)]
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.html").write_text('<h1 id="here">A</h1><a href="inner/b%20c.html#there">b</a><a href="#here">a</a>')
    (tmp_path / "inner" / "b c.html").write_text(
        '<a name="there"></a><a href="../a.html">a</a><a href="https://x/#y">x</a>'
    )
    subprocess.run(command, check=True)
    (tmp_path / "c.html").write_text('<a href="a.html#nothing">a</a> <a href="gone.html">b</a> <a href="#top">c</a>')
    wrong = subprocess.run(command, capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert wrong.stderr.splitlines()[1:] == ["c.html: a.html#nothing", "c.html: gone.html", "c.html: #top"]
    empty = subprocess.run([*command[:2], str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert "build the site first" in empty.stderr


def test_packages_are_built_after_the_readme_got_its_addresses() -> None:
    jobs = read(GITHUB / "workflows" / "release.yml")["jobs"]
    for name, built in (("sdist", "bash .ci/release sdist dist"), ("wheels", "pypa/cibuildwheel")):
        done = [step.get("run", step.get("uses", "")) for step in jobs[name]["steps"]]
        addressed = [place for place, what in enumerate(done) if what.startswith("bash .ci/release addresses ")]
        assert len(addressed) == 1
        assert addressed[0] < min(place for place, what in enumerate(done) if what.startswith(built))


def test_the_security_policy_keeps_this_minor_version() -> None:
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    minor = ".".join(version().split(".")[:2])
    assert re.search(rf"^\| {re.escape(minor)} \| yes \|$", policy, re.MULTILINE)
    for link in re.findall(r"\]\((docs/[\w.-]+)", policy):
        assert (ROOT / link).is_file(), link


def test_wheels_are_built_for_every_python_that_is_promised() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    promised = {
        found[1].replace(".", "")
        for line in settings["project"]["classifiers"]
        if (found := re.search(r"Python :: (3\.\d+)$", line))
    }
    built = {re.sub(r"cp(\d+)-\*", r"\1", one) for one in settings["tool"]["cibuildwheel"]["build"]}
    assert built == promised
    tested = read(GITHUB / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert {one.replace(".", "") for one in tested} == promised


RECIPE = ROOT / "deploy" / "conda"


def test_the_recipe_for_conda_has_the_version_and_the_packages_of_the_project() -> None:
    recipe = read(RECIPE / "recipe.yaml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert recipe["context"]["version"] == version()
    wanted = {*project["dependencies"], *project["optional-dependencies"]["cli"]}
    listed = {line.replace(" ", "") for line in recipe["requirements"]["run"]}
    assert listed == {"python", *wanted}
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert set(build) <= {line.replace(" ", "") for line in recipe["requirements"]["host"]}


@pytest.mark.parametrize("platform", ["linux-64", "linux-aarch64", "osx-64", "osx-arm64", "win-64"])
def test_rattler_build_accepts_the_recipe(platform: str) -> None:
    """It is read and rendered; a build needs a channel of conda packages."""
    rattler = pytest.importorskip("rattler_build", reason="pip install py-rattler-build; .ci/nightly has it")
    place = rattler.PlatformConfig(target_platform=platform)
    variants = rattler.VariantConfig.from_file_with_context(
        RECIPE / "variants.yaml", rattler.JinjaConfig(platform=place)
    )
    rendered = rattler.Stage0Recipe.from_file(RECIPE / "recipe.yaml").render(
        variants, rattler.RenderConfig(platform=place)
    )
    assert len(rendered) == len(variants.get_values("python")) > 0
    assert {(one.recipe.package.name, one.recipe.package.version) for one in rendered} == {("hammemo", version())}


def test_the_site_is_built_with_an_old_pip() -> None:
    """The commands that .ci/run takes from CONTRIBUTING.md name what exists, and upgrade pip before they need it."""
    spec = importlib.util.spec_from_file_location("site_build", ROOT / ".ci/site.py")
    assert spec is not None
    assert spec.loader is not None
    site: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    upgrade, install, build = site.commands((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert upgrade == ["pip", "install", "--upgrade", "pip"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert install[-1] in project["dependency-groups"]
    assert {"plot", "onnx"} <= set(project["project"]["optional-dependencies"])
    assert build[:4] == ["python", "-m", "sphinx", "-W"]
    wheel = Path("hammemo.whl")
    assert site.with_wheel(install, wheel) == [
        "pip",
        "install",
        "hammemo.whl[plot,onnx,hub,serve]",
        "./server",
        "--group",
        "docs",
    ]


def test_strangers_find_what_it_is_and_how_mature() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    start = project["description"].partition(":")[2].partition(", and")[0]
    assert start.strip() in readme.partition("```")[0]  # both begin with the same sentence
    wanted = {"tabular", "scikit-learn", "gradient boosting", "GDPR", "unlearning", "incremental"}
    assert wanted <= set(project["keywords"])
    (maturity,) = [line for line in project["classifiers"] if line.startswith("Development Status")]
    is_released = "No version is released yet" not in readme
    assert is_released or int(maturity.split(" :: ")[1][0]) <= 3, "what is not released is no beta"
    for link in ("CODE_OF_CONDUCT.md", "CONTRIBUTING.md#deprecations", "docs/roadmap.md"):
        assert f"]({link})" in readme
    assert "`pytest -m quick`" in readme
