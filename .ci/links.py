"""Say which links of a built site lead nowhere: to no page, or to an anchor that a page lacks.

    python .ci/links.py build/docs

Sphinx warns of such links where it makes them itself; those of source pages, of raw HTML and of
themes it does not see. Links to other sites are not followed. Build into an empty folder: pages
of an earlier build stay where they are.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors and the links of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names and where it leads."""
        attributes = dict(attrs)
        anchors = [attributes.get("id")]
        if tag == "a":
            anchors.append(attributes.get("name"))
        self.anchors.update(anchor for anchor in anchors if anchor)
        if tag == "a" and attributes.get("href"):
            self.links.append(str(attributes["href"]))


def find_broken_links(folder: Path) -> list[str]:
    """Return each link that leads nowhere, with the page that has it."""
    folder = folder.resolve()
    pages = {
        path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))
    }
    if not pages:
        raise ValueError(f"{folder} holds no page: build the site first, as .ci/run does.")
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists() or (
                anchor and target in pages and anchor not in pages[target].anchors
            ):
                broken.append(f"{path.relative_to(folder)}: {link}")
    return broken


def main(folder: str) -> None:
    """Print what is broken; exit with 1 if something is."""
    broken = find_broken_links(Path(folder))
    if broken:
        sys.exit("\n".join(["These links lead nowhere:", *broken]))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (TypeError, ValueError) as error:
        sys.exit(f"{error}\n\n{__doc__}")
