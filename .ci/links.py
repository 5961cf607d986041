"""Say which links of a built site lead nowhere: to a page that is not there, or to an anchor that it does not have.

    python .ci/links.py build/docs

Sphinx warns of such links where it makes them itself; those of source pages, of raw HTML and of themes it does not see.
Links to other sites are not followed. Build into an empty folder: pages of an earlier build stay where they are.
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
        given = dict(attrs)
        self.anchors |= {name for name in (given.get("id"), given.get("name") if tag == "a" else None) if name}
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))


def broken(folder: Path) -> list[str]:
    """Return each link that leads nowhere, with the page that has it."""
    folder = folder.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    if not pages:
        raise ValueError(f"{folder} holds no page: build the site first, as .ci/run does.")
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                found.append(f"{path.relative_to(folder)}: {link}")
    return found


def main(folder: str) -> None:
    """Print what is broken; exit with 1 if something is."""
    found = broken(Path(folder))
    if found:
        sys.exit("\n".join(["These links lead nowhere:", *found]))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (TypeError, ValueError) as error:
        sys.exit(f"{error}\n\n{__doc__}")
