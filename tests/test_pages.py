"""What a reader of the pages relies on: words are explained, links say where they lead, the first page is true."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "howto").glob("*.md"))]
GLOSSARY = DOCS / "glossary.md"
CODE = sorted(path for name in ("src", "server", "tests") for path in (ROOT / name).rglob("*.py"))

WORDS = {  # the library's own words, which a reader cannot know
    *("agreement", "bucket", "case", "certificate", "context", "count", "document", "edit", "example"),
    *("exact classifier", "free site", "kernel", "label", "layout", "memory", "position"),
    *(
        "predictor",
        "query",
        "refit",
        "reserved row",
        "run",
        "score",
        "segment",
        "shard",
        "site",
        "sketch",
        "snapshot",
        "state",
        "token",
    ),
    *("tuple", "version", "vote", "weight", "window"),
}
SAYS_NOTHING = {"all of it", "all of them", "an example", "another page", "here", "how", "it", "link", "more", "page"}
OLD_STYLE = (  # words of a style that readers found quaint; plain ones say the same
    *("taken back", "takes back", "take back", "anew", "whoever", "nobody", "somebody", "an enemy", "the enemy"),
    *("nothing to choose", "with nothing chosen", "the wish that", "which we had none of", "words of these pages"),
    *("in sight", "good to a factor", "as anywhere", "as it stands", "foretell", "reckon with", "shown to bite"),
    *("held against", "holds them against", "gone is gone", "no way back", "speaks against", "words that are new"),
    *("nothing has to be chosen", "the ways of the data", "are taken as they come", "believed", "so long"),
    *("are asked", "is asked", "asked as well", "may ask", "those who ask", "than yourself"),
    *("another matter", "going on where", "counting more", "what becomes of", "told it to", "no one else"),
)
SAYS_NOTHING |= {"one command", "the table", "this", "times", "what is needed", "written down"}


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def entries() -> list[tuple[str, str]]:
    """Return the words of the glossary, each with the last cell of its line: where it is explained."""
    lines = re.findall(r"^\| (\*\*.*?) \| .* \| (.*?) \|$", read(GLOSSARY), re.MULTILINE)
    return [(word, where) for words, where in lines for word in re.findall(r"\*\*(.+?)\*\*", words)]


def test_the_glossary_has_every_word_once() -> None:
    words = [word for word, _ in entries()]
    assert len(words) == len(set(words))
    assert not WORDS - set(words)


@pytest.mark.parametrize(("word", "where"), entries())
def test_the_page_that_explains_a_word_uses_it(word: str, where: str) -> None:
    pages = re.findall(r"\]\(([\w/.-]+\.md)", where)
    assert pages
    for page in pages:
        assert re.search(rf"\b{re.escape(word)}s?\b", read(DOCS / page), re.IGNORECASE), page


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/tour.md"])
def test_the_glossary_is_found_from_where_a_reader_begins(page: str) -> None:
    text = read(ROOT / page)
    assert "glossary.md" in text or ":link: glossary" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_text_of_a_link_says_where_it_leads(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
    texts = [" ".join(text.split()) for text in re.findall(r"\[([^\]]+)\]\([^)\s]+\)", prose)]
    assert not {text for text in texts if text.lower() in SAYS_NOTHING or text.endswith(".md")}


def test_the_first_page_names_licence_versions_and_platforms_as_they_are() -> None:
    (line,) = re.findall(r"^BSD-3-Clause \(.*$", read(ROOT / "README.md"), re.MULTILINE)
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    assert project["license"].split()[0] == "BSD-3-Clause"
    versions = [int(minor) for text in project["classifiers"] for minor in re.findall(r"Python :: 3\.(\d+)$", text)]
    assert f"Python 3.{min(versions)} to 3.{max(versions)};" in line
    release = ROOT / ".github" / "workflows" / "release.yml"
    if release.exists():  # a source distribution has no workflows
        (systems,) = re.findall(r"os: \[(.*)\]", read(release))
        assert {system.strip().split("-")[0] for system in systems.split(",")} == {"ubuntu", "macos", "windows"}
    assert re.search(r"Linux .*macOS .*Windows", line)


def test_the_first_screen_is_short() -> None:
    readme = read(ROOT / "README.md")
    assert len(readme.splitlines()) <= 130
    assert len(readme.split()) <= 1200
    first = readme.partition("page of the site: start -->")[2].partition("<!-- first page")[0]
    index = re.sub(r"^```\{toctree\}.*?^```$", "", read(DOCS / "index.md"), flags=re.MULTILINE | re.DOTALL)
    assert len(f"{first} {index}".split()) <= 300
    (block,) = re.findall(r"^```python$(.*?)^```$", first, re.MULTILINE | re.DOTALL)
    assert len(block.strip().splitlines()) <= 8
    assert max(map(len, block.splitlines())) <= 90


def test_pages_and_code_are_in_plain_english() -> None:
    """Code means names, docstrings, comments and strings; this file lists the words."""
    style = re.compile(rf"\b(?:{'|'.join(OLD_STYLE)})\b")
    found = {
        (page.relative_to(ROOT).as_posix(), word)
        for page in [*PAGES, *CODE]
        if page.name != "test_pages.py"
        for word in style.findall(" ".join(re.sub(r"\n *# ", " ", read(page)).lower().split()))
    }
    assert not found
