"""Every item of the paper is in the table of docs/howto/read-the-paper.md: its code, its test and its command exist."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pkgutil import resolve_name

import pytest
from typer.main import get_command

from hammemo.cli.app import app
from hammemo.paper.experiments import throughput, wikitext
from places import ROOT, SHARED

PAPER = SHARED / "paper" / "single-layer-memo.tex"
with_paper = pytest.mark.skipif(not PAPER.is_file(), reason="the paper is not beside the project (../shared/paper)")
PAGE = ROOT / "docs" / "howto" / "read-the-paper.md"
KINDS = ("problem", "lemma", "theorem", "corollary", "remark", "figure", "table")


def table() -> list[list[str]]:
    """Return the rows of the page's table: item, code, tests, command."""
    lines = PAGE.read_text(encoding="utf-8").split("| in the paper |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def items() -> list[list[str]]:
    """Return the rows that are no headings."""
    return [row for row in table() if not row[0].startswith("**")]


@cache
def source() -> str:
    """Return the paper's text without comments."""
    return re.sub(r"(?<!\\)%.*", "", PAPER.read_text(encoding="utf-8"))


def numbered() -> list[tuple[str, int, str, str]]:
    r"""Return kind, number, title and label of each environment; ``\newtheorem{a}[b]`` shares the counter of b."""
    text = source()
    shared: dict[str, str] = dict(re.findall(r"\\newtheorem\{(\w+)\}\[(\w+)\]", text))
    counters: Counter[str] = Counter()
    found = []
    for match in re.finditer(rf"\\begin\{{({'|'.join(KINDS)})\}}(?:\[([^]]*)\])?(.*?)\\end\{{\1\}}", text, re.DOTALL):
        kind, title, body = (group or "" for group in match.groups())
        counter = shared.get(kind, kind)
        counters[counter] += 1
        # The label of the environment itself, not that of an equation inside it.
        label = re.search(r"\\label\{((?:thm|prop|cor|rem|fig|tab):[^}]*)\}", body)
        is_title = kind not in ("figure", "table")  # theirs is a placement
        found.append((kind, counters[counter], title if is_title else "", label[1] if label else ""))
    return found


@with_paper
def test_the_numbers_of_the_paper() -> None:
    numbers = [(kind, number) for kind, number, _, _ in numbered() if kind not in ("figure", "table")]
    assert numbers == [
        ("problem", 1),
        ("lemma", 1),
        ("lemma", 2),
        ("remark", 2),
        *(("theorem", number) for number in (3, 4, 5, 6)),
        ("corollary", 7),
        ("remark", 8),
    ]


@with_paper
def test_every_environment_is_in_the_table_under_its_number() -> None:
    rows = [row[0] for row in items()]
    for kind, number, title, label in numbered():
        (row,) = (row for row in rows if row.startswith(f"{kind.capitalize()} {number}"))
        assert f"`{label}`" in row if label else title in row


@with_paper
def test_every_label_is_in_the_table_once() -> None:
    labels = Counter(re.findall(r"\\label\{([^}]*)\}", source()))
    shown = Counter(label for row in table() for label in re.findall(r"`(\w+:[^`]*)`", row[0]))
    assert shown == labels
    assert len(labels) > 30


@with_paper
def test_theorems_are_cited_by_numbers_that_they_have() -> None:
    there = {f"{kind} {number}" for kind, number, _, _ in numbered()}
    for folder, pattern in (("src/hammemo", "*.py"), ("docs", "*.md"), ("tests", "*.py")):
        for path in (ROOT / folder).rglob(pattern):
            if "_build" not in path.parts:
                text = re.sub(r"\s+", " ", path.read_text(encoding="utf-8"))
                cited = re.findall(r"\b(Theorem|Corollary|Problem|Remark)s?[ _](\d+)\b", text)
                assert {f"{kind.lower()} {number}" for kind, number in cited} <= there, path


@with_paper
def test_the_paper_s_tables_are_copied_right() -> None:
    names = {"Sum prototype": "sum prototype, dense", "Mean prototype": "mean prototype", "Linear SVM": "linear SVM"}
    copies = {
        "tab:real-data-results": {name.lower(): figures for name, figures in wikitext.PAPER.items()},
        "tab:gpu-inference": throughput.PAPER,
    }
    for label, copy in copies.items():
        body = source().split(f"\\label{{{label}}}")[1].split("\\end{tabular}")[0]
        rows = {}
        for line in body.split("\\\\")[1:]:
            name, *cells = re.sub(r"\\midrule|\$|\\MeMo", lambda m: "MeMo" if "MeMo" in m[0] else "", line).split("&")
            if cells:
                rows[name.strip().replace("=", " = ")] = tuple(float(cell.split("\\pm")[0]) for cell in cells)
        if label == "tab:gpu-inference":
            rows = {names.get(name, name): figures for name, figures in rows.items()}
        else:
            rows = {name.lower().replace("hamming 25-nn", "hamming k-nn"): figures for name, figures in rows.items()}
        assert rows == copy


def test_code_tests_and_commands_of_the_table_exist() -> None:
    commands = get_command(app).commands["reproduce"].commands  # type: ignore[attr-defined]
    for item, code, tests, command in items():
        names, where = re.findall(r"`([^`]*)`", code), re.findall(r"`([^`]*)`", tests)
        assert names, item
        assert where, item
        for name in names:
            resolve_name(name)
        for test in where:
            path, _, function = test.partition("::")
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test
        if command:
            assert command.strip("`").removeprefix("hammemo reproduce ") in commands, command
