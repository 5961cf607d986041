"""Give README.md and pyproject.toml the address of the repository, before packages are built.

    python .ci/addresses.py https://github.com/OWNER/REPOSITORY v1.2.3 [FOLDER]

A package index shows the README by itself, so its relative links and figures lead nowhere
there. No file of the project knows in which repository it lies; the workflow of a release does,
and calls this on the copy that packages are built from. The links lead to the files of the tag,
so that the page of an old version goes on showing what it meant.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?://|#|mailto:)(?P<path>[^)\s]+)\)")


def with_absolute_links(page: str, address: str, tag: str) -> str:
    """Return the page with relative links and images as addresses of the repository at this tag."""

    def absolute(link: re.Match[str]) -> str:
        path = link["path"]
        if link["image"]:
            kind = "raw"
        elif path.endswith("/"):
            kind = "tree"
        else:
            kind = "blob"
        return f"{link['image']}[{link['text']}]({address}/{kind}/{tag}/{path})"

    return _LINK.sub(absolute, page)


def with_urls(project: str, address: str, tag: str) -> str:
    """Return pyproject.toml with the addresses that a package index shows beside the page."""
    if "[project.urls]" in project:
        raise ValueError(
            "pyproject.toml has [project.urls] already: restore it, then call this once."
        )
    urls = {
        "Homepage": address,
        "Documentation": f"{address}/blob/{tag}/docs/howto/index.md",
        "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    return (
        project
        + "\n[project.urls]\n"
        + "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    )


def main(address: str, tag: str, folder: str = ".") -> None:
    """Change both files of a folder."""
    if not re.fullmatch(r"https://[\w.-]+/[\w.-]+/[\w.-]+", address):
        raise ValueError(
            f"{address!r} is no repository: say https://HOST/OWNER/REPOSITORY, no slash at the end."
        )
    if not re.fullmatch(r"[\w.-]+", tag):
        raise ValueError(f"{tag!r} is no tag of a version: say v1.2.3, for example.")
    readme = Path(folder, "README.md")
    project = Path(folder, "pyproject.toml")
    changed = {
        readme: with_absolute_links(readme.read_bytes().decode(), address, tag),
        project: with_urls(project.read_bytes().decode(), address, tag),
    }
    for path, text in changed.items():
        path.write_bytes(text.encode())  # bytes: line ends stay as they are


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (TypeError, ValueError) as error:
        sys.exit(f"{error}\n\n{__doc__}")
