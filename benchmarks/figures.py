"""The measured figures of README and docs: one file holds them, and pages show what it holds.

    python -m benchmarks.figures --check
        say which figures are older than the code that they measure
    python -m benchmarks.figures --take RUN FILE [...]
        read the figures of a run from what its command wrote
    python -m benchmarks.figures --take RUN
        take the values of a run as they were edited by hand
    python -m benchmarks.figures --write
        write all figures into the pages and draw the first picture

``docs/figures/measured.json`` holds runs. A run has a command, the paths of the code that it
measures, the commit, the date and the machine of its measurement, and figures: a value (a number,
numbers, or the lines of a table) and its unit. ``tree`` is a hash of the code at that commit, so
that a clone without history, or with another one, can be checked.

A page shows a figure between two comments, which readers do not see. What follows the second colon
says how numbers are written, as in `format`:

    <!--figure:names.ours:.3f-->0.878 / 0.312<!--/figure-->

``--take`` reads files of JSON lines, of which the last row of a learner counts, or one JSON
document. Rows say on what commit they were measured; ``--commit`` says it for rows that do not. All
rows of ours must be of one commit, without changes that are not committed. The rules that make
figures of rows are in ``figure_rules.py``.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))  # for python -m
if TYPE_CHECKING:
    from collections.abc import Sequence

    Run = dict[str, Any]

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "docs" / "figures" / "measured.json"
SHOWN = re.compile(r"<!--figure:([^:>]+?)(?::([^>]+))?-->(.*?)<!--/figure-->", re.DOTALL)


def read_runs(path: Path = MEASURED) -> dict[str, Run]:
    """Return the runs of the file."""
    runs: dict[str, Run] = json.loads(path.read_text(encoding="utf-8"))
    return runs


def pages(root: Path = ROOT) -> list[Path]:
    """Return the pages that may show figures."""
    docs = root / "docs"
    return [
        root / "README.md",
        root / "CHANGELOG.md",
        *sorted(docs.glob("*.md")),
        *sorted(docs.glob("howto/*.md")),
    ]


def as_text(value: Any, how: str) -> str:
    """Return a value as a page shows it.

    Numbers follow their format; a table has blank lines around it.
    """
    if isinstance(value, list) and isinstance(value[0], str):
        return "\n\n" + "\n".join(value) + "\n\n"
    return " / ".join(format(one, how) for one in (value if isinstance(value, list) else [value]))


def fill_page(text: str, runs: dict[str, Run], *, comments: bool = True) -> str:
    """Return a page with every figure as it was measured, with its comments or without."""

    def fill_figure(match: re.Match[str]) -> str:
        run, _, name = match[1].partition(".")
        value = as_text(runs[run]["figures"][name]["value"], match[2] or "")
        before, after = match.span(3)
        start = match.start()
        return match[0][: before - start] + value + match[0][after - start :] if comments else value

    return SHOWN.sub(fill_figure, text)


# How old a figure is


def git(*arguments: str, root: Path = ROOT) -> str:
    """Return what a command of git prints."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def tree(paths: Sequence[str], commit: str = "HEAD", root: Path = ROOT) -> str:
    """Return a hash of the files under some paths at a commit."""
    return hashlib.sha256(
        git("ls-tree", "-r", commit, "--", *paths, root=root).encode()
    ).hexdigest()[:16]


def find_outdated(runs: dict[str, Run], root: Path = ROOT) -> list[str]:
    """Return a sentence for each run that is older than the code that it measures."""
    sentences = []
    for name, run in runs.items():
        if tree(run["code"], root=root) == run["tree"]:
            continue
        try:
            since = f"{run['commit']}..HEAD"
            commits = git(
                "log", "--abbrev=8", "--format=%h", since, "--", *run["code"], root=root
            ).split()
        except subprocess.CalledProcessError:  # a clone without this commit
            commits = []
        several = "s" if len(commits) > 1 else ""
        changes = f" in {len(commits)} commit{several}, the last is {commits[0]}" if commits else ""
        sentences.append(
            f"{name}: measured at {run['commit']} on {run['date']}; its code has changed{changes}. "
            f"Measure again: {run['command']}"
        )
    return sentences


# New values


def read_rows(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the rows of files of JSON lines; or the parts of one JSON document."""
    rows: list[dict[str, Any]] = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        try:
            whole = json.loads(text)
        except json.JSONDecodeError:  # more than one line
            whole = [json.loads(line) for line in text.splitlines()]
        rows += whole if isinstance(whole, list) else [whole]
    return rows


def provenance(rows: list[dict[str, Any]], commit: str | None) -> dict[str, str]:
    """Return commit, date and machine of a measurement.

    They are what its rows say, or this machine and a given commit.
    """
    from measures import describe_run

    if commit is not None:
        return {**describe_run(), "commit": git("rev-parse", "--short=8", commit)}
    ours = [row.get("measured") for row in rows if row.get("learner", "ours").startswith("ours")]
    by_commit = {str(one and one["commit"]): one for one in ours}
    if len(by_commit) != 1 or None in by_commit.values() or "-dirty" in next(iter(by_commit)):
        raise SystemExit(
            f"Rows of ours must be of one commit, not of {sorted(by_commit)}: measure again, "
            "or say --commit"
        )
    return max((one for one in ours if one), key=lambda one: str(one["date"]))


def take_figures(name: str, run: Run, paths: Sequence[Path], commit: str | None) -> Run:
    """Return a run with the figures that its rule reads from files, or with those that it has."""
    rows = read_rows(paths)
    stamp = provenance(rows, commit if rows else commit or "HEAD")
    figures = run["figures"]
    if rows:
        from figure_rules import RULES

        try:
            values = RULES[name](rows)
            missing = sorted(set(figures) - set(values))
        except KeyError as error:
            values = {}
            missing = list(error.args)
        if missing:
            raise SystemExit(
                f"{name}: the files have no rows for {missing}; measure them, "
                "or give an older file first"
            )
        figures = {title: {**figure, "value": values[title]} for title, figure in figures.items()}
    return {**run, **stamp, "tree": tree(run["code"], stamp["commit"]), "figures": figures}


def main() -> None:
    from measures import options

    parser = options(__doc__)
    parser.add_argument(
        "--check", action="store_true", help="say which figures are old, and which pages differ"
    )
    parser.add_argument(
        "--take", nargs="+", metavar=("RUN", "FILE"), help="a run, and files that its command wrote"
    )
    parser.add_argument("--commit", help="the commit that rows without one were measured at")
    parser.add_argument(
        "--write", action="store_true", help="write the figures into the pages and the picture"
    )
    arguments = parser.parse_args()
    runs = read_runs()
    if arguments.take:
        name, *paths = arguments.take
        runs[name] = take_figures(
            name, runs[name], [Path(path) for path in paths], arguments.commit
        )
        MEASURED.write_text(json.dumps(runs, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if arguments.take or arguments.write:
        for page in pages():
            page.write_text(fill_page(page.read_text(encoding="utf-8"), runs), encoding="utf-8")
    if arguments.write:
        import first_picture

        first_picture.draw(runs, first_picture.PICTURE)
    if arguments.check:
        differ = [
            page.name
            for page in pages()
            if (text := page.read_text(encoding="utf-8")) != fill_page(text, runs)
        ]
        sentences = [
            *find_outdated(runs),
            *(f"{name} differs from docs/figures/measured.json: --write" for name in differ),
        ]
        print("\n".join(sentences or ["Every figure is of the code as it is."]))
        raise SystemExit(bool(sentences))


if __name__ == "__main__":
    main()
