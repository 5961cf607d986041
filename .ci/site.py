"""Build the site by the words of CONTRIBUTING.md, in a fresh environment with Python's own pip.

    python .ci/site.py dist/hammemo-….whl

The commands are those of the first code block under "Documentation" in CONTRIBUTING.md. The
clone (``-e .``) is replaced by the wheel that was built from it, so that nothing is compiled
again; all else is run as written there.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def commands(page: str) -> list[list[str]]:
    """Return the commands that build the site, each as a list of words."""
    block = re.search(r"^## Documentation$.*?^```shell$(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    if block is None:
        raise SystemExit("CONTRIBUTING.md has no block of commands under Documentation")
    return [shlex.split(line, comments=True) for line in block[1].strip().splitlines()]


def with_wheel(words: list[str], wheel: Path) -> list[str]:
    """Return a command that installs the wheel where it would install the clone."""
    return [re.sub(r"^\.(?=\[|$)", str(wheel), word) for word in words if word != "-e"]


def main() -> None:
    """Make an environment, and run the commands there."""
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        environment = {
            **os.environ,
            "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}",
            "VIRTUAL_ENV": folder,
        }
        environment |= {
            "PIP_QUIET": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }
        for words in commands((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
            subprocess.run(with_wheel(words, wheel), cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    main()
