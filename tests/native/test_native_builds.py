"""Other builds of the compiled loops: with sanitizers, and from the source distribution, with a compiler or without."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from places import ROOT

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # also without an activated environment
RACES = "tests/native/test_native_races.py"
LIVE = ["tests/memories/exact/test_live.py", "tests/memories/exact/test_ratio_leaders.py"]
MIXTURE = "tests/votes/test_mixture_threshold.py"
SEGMENTS = "tests/memories/exact/test_segment_set.py"
PACKED = "tests/memories/exact/test_packed.py"
SCAN = "tests/kernels/test_auto_sites.py::test_the_compiled_scan_gives_the_sums_of_the_definition"
SCORES = "tests/memories/exact/test_score_table.py"
TREES = [
    *(
        f"tests/models/test_numbers.py::test_compiled_{name}_are_those_of_the_plain_twin"
        for name in ("trees", "features")
    ),
    "tests/models/test_regressor.py::test_compiled_features_of_numbers_are_those_of_the_plain_twin",
]
DENSE = "tests/votes/test_dense_fitting.py"
LOOPS = ["tests/native/test_native.py", "tests/native/test_native_bindings.py"]
TESTS = [*LOOPS, RACES, *LIVE, MIXTURE, SEGMENTS, PACKED, SCAN, SCORES, DENSE, *TREES]
OPTIONS = ["-q", "-p", "no:cacheprovider", "-s"]  # -s: or a report dies with the process
RACE = """
import conftest, threading
import numpy as np
from hammemo import _native
none, few = np.empty(0, np.uint64), np.empty(0, np.uint32)
pairs = none.reshape(0, 2)
layout = _native.Layout(1, [[0]], [3], [5], [0], [none], [pairs], none, few, pairs, few, [64], (1, 2), False)
tokens, columns = np.zeros((20000, 1), np.int64), np.zeros(20000, np.int32)
cells = np.zeros((layout.n_rows + 1, 1), np.uint32)
def count():
    for _ in range(20):
        layout.count(tokens, None, None, columns, None, cells)
threads = [threading.Thread(target=count) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
SMOKE = """
import warnings
from hammemo import MemoryClassifier, _native
from hammemo.memories import Hashed
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for seed in range(3):
        clf = MemoryClassifier("positional", Hashed(), random_state=seed).fit([[1, 2], [3, 4]], ["a", "b"])
        assert clf.predict([[3, 4]]).tolist() == ["b"]
print(_native.paths(), [str(warning.message) for warning in caught])
"""

pytestmark = pytest.mark.skipif("HAMMEMO_TEST_BUILD" in os.environ, reason="a build is being tested already")


def run(*command: str | Path, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """Return what a command prints; where it fails, fail with it."""
    whole = {**os.environ, "PATH": PATH, **(environment or {})}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=whole, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} gave {done.returncode}:\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def runtime_libraries(*sanitizers: str) -> str:
    """Return the libraries that a sanitized module needs to be loaded before everything else."""
    if sys.platform != "linux" or not all(shutil.which(tool, path=PATH) for tool in ("cmake", "ninja", "g++")):
        pytest.skip("needs Linux, cmake, ninja and g++")
    if importlib.util.find_spec("nanobind") is None:
        pytest.skip("needs nanobind: pip install nanobind")
    names = [*sanitizers, "libstdc++.so"]  # the last one, or exceptions are not understood
    found = [run("g++", f"-print-file-name={name}").strip() for name in names]
    for name, file in zip(names, found, strict=True):
        if file == name:  # as the compiler says that it has none
            pytest.skip(f"the compiler has no {name}")
    return " ".join(found)


def build(folder: Path, *options: str) -> Path:
    """Return a build of the compiled loops."""
    nanobind = run(sys.executable, "-m", "nanobind", "--cmake_dir").strip()
    configuration = [f"-Dnanobind_DIR={nanobind}", f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_CXX_COMPILER=g++"]
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Debug", *configuration, *options)
    output = run("ninja", "-C", folder)
    ours = [line for line in output.splitlines() if "warning:" in line]
    assert not ours, "\n".join(ours)
    return next(folder.glob("_native*.so"))


def test_sanitizers_find_nothing_in_the_scan_of_sites(tmp_path: Path) -> None:
    """A smoke test of the sanitizers: one file of the loops, without Python. The others are built by .ci/nightly."""
    runtime_libraries("libasan.so", "libubsan.so")
    native = ROOT / "src" / "native"
    checks = [
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-g1",
        "-O1",
        "-std=c++17",
        "-Wall",
        "-Wextra",
    ]
    names = ("site_scan", "site_sums", "log_ratios", "label_weights", "symmetric")
    files = [*(native / "selection" / f"{name}.cpp" for name in names), ROOT / "tests/support/site_scan_driver.cpp"]
    run("g++", *checks, "-I", native, *files, "-o", tmp_path / "driver")
    assert int(run(tmp_path / "driver", "2000")) > 2000


@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler")
def test_portable_sums_of_two_words_are_those_of_the_compiler(tmp_path: Path) -> None:
    checks = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    native = ROOT / "src/native"
    driver = ROOT / "tests/support/wide_sums_driver.cpp"
    run("g++", *checks, "-I", native, driver, "-o", tmp_path / "driver")
    assert int(run(tmp_path / "driver", "200000")) == 200_000


@pytest.mark.slow
def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    libraries = runtime_libraries("libasan.so", "libubsan.so")
    module = build(tmp_path, "-DHAMMEMO_SANITIZE=address,undefined")
    for name in ("loops_avx2", "loops_avx512"):
        for compiled in tmp_path.rglob(f"{name}.cpp.o"):
            shared = [line for line in run("nm", "-C", compiled).splitlines() if " W " in line and "hammemo::" in line]
            assert not shared, f"other files may end up with a function for {name}: {shared}"
    environment = {
        "HAMMEMO_TEST_BUILD": str(module),
        "LD_PRELOAD": libraries,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself never frees everything
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    where = "import conftest, hammemo._native as loops; print(loops.__file__)"
    assert run(sys.executable, "-c", where, environment=environment).strip() == str(module)
    one_kernel = ["-k", "not (every_history or long_rows) or tuples"]  # of the longest tests
    run(sys.executable, "-m", "pytest", *OPTIONS, *TESTS, *one_kernel, environment=environment)


@pytest.mark.slow
def test_threads_that_read_do_not_race(tmp_path: Path) -> None:
    """Readers of one table under ThreadSanitizer, which first has to see a race that is there."""
    libraries = runtime_libraries("libtsan.so")
    module = build(tmp_path, "-DHAMMEMO_SANITIZE=thread")
    environment = {
        "HAMMEMO_TEST_BUILD": str(module),
        "LD_PRELOAD": libraries,
        "TSAN_OPTIONS": "halt_on_error=1 exitcode=66",
    }
    whole = {**os.environ, "PATH": PATH, **environment}
    raced = subprocess.run([sys.executable, "-c", RACE], cwd=ROOT, env=whole, capture_output=True, text=True)
    if "unexpected memory mapping" in raced.stderr:  # a kernel that randomises addresses more than it can follow
        pytest.skip("ThreadSanitizer does not run on this system")
    assert raced.returncode == 66, raced.stderr[-2000:]
    assert "data race" in raced.stderr
    run(sys.executable, "-m", "pytest", *OPTIONS, RACES, *LIVE, SEGMENTS, "-k", "many_threads", environment=environment)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution: the one that ``HAMMEMO_SDIST`` names (``.ci/run`` builds one), or one built here."""
    if "HAMMEMO_SDIST" in os.environ:
        return Path(os.environ["HAMMEMO_SDIST"]).resolve(strict=True)
    pytest.importorskip("build", reason="needs build: pip install build")
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT)
    return next(folder.glob("*.tar.gz"))


def fresh_python(folder: Path) -> Path:
    """Return the interpreter of a new environment."""
    run(sys.executable, "-m", "venv", folder / "venv")
    return folder / "venv" / "bin" / "python"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only git knows which files belong to the project")
def test_the_source_distribution_holds_every_file(source: Path) -> None:
    """What is built from it is then what is built from the clone, as the wheel of ``.ci/run`` is."""
    left_out = (".ci/", ".github/", ".pre-commit-config.yaml", ".gitignore", ".clang-format", ".clang-tidy")
    tracked = [name for name in run("git", "ls-files", "-z").split("\0") if name and not name.startswith(left_out)]
    with tarfile.open(source) as archive:
        held = {member.name.split("/", 1)[-1]: archive.extractfile(member) for member in archive if member.isfile()}
        contents = {name: file.read() for name, file in held.items() if file is not None}
    different = [name for name in tracked if contents.get(name) != (ROOT / name).read_bytes()]
    assert not different
    assert "src/native/module.cpp" in tracked


@pytest.mark.slow
def test_the_source_distribution_builds_the_loops(source: Path, tmp_path: Path) -> None:
    python = fresh_python(tmp_path)
    run(python, "-m", "pip", "install", "-q", "--no-cache-dir", source)
    paths, caught = run(python, "-W", "error", "-c", SMOKE, cwd=tmp_path).strip().split("] ")
    assert "portable" in paths
    assert caught == "[]"


@pytest.mark.slow
def test_without_a_compiler_nothing_is_installed(source: Path, tmp_path: Path) -> None:
    command = [fresh_python(tmp_path), "-m", "pip", "install", "-q", "--no-cache-dir", "--no-deps", source]
    environment = {**os.environ, "PATH": PATH, "CXX": "/bin/false"}
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "CXX" in done.stdout + done.stderr
