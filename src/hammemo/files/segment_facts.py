"""What the head of a folder says of its segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SegmentFacts:
    """What the head of a folder says of a segment.

    Parameters
    ----------
    name : str
        Of the file in the folder.
    sign : int
        Whether it is added, 1, or subtracted, -1.
    edits : bool
        Whether it holds what was learned or removed on top of the others.
    bytes, rows, entries : int
    checksum : str
        Of the complete file.
    blocks : str
        Hash of the file's header and of the hashes of its pages.
    """

    name: str
    sign: int
    edits: bool
    bytes: int
    rows: int
    entries: int
    checksum: str
    blocks: str

    @classmethod
    def from_json(cls, described: Any) -> SegmentFacts:
        """Return the facts whose `vars` were written to JSON, checked."""
        types = {
            "name": str,
            "sign": int,
            "edits": bool,
            "bytes": int,
            "rows": int,
            "entries": int,
            "checksum": str,
            "blocks": str,
        }
        if (
            not isinstance(described, dict)
            or {name: type(value) for name, value in described.items()} != types
        ):
            raise ValueError(
                "the description of a segment lacks a value, or has one of a wrong type"
            )
        facts = cls(**described)
        # The name is joined to the path of the folder: it must not lead out of it.
        is_plain_name = (
            facts.name.isascii()
            and facts.name.replace("-", "").replace(".", "").isalnum()
            and not facts.name.startswith(".")
            and len(facts.name) <= 100
        )
        if not is_plain_name or facts.sign not in (1, -1):
            raise ValueError(
                f"a segment has the name {facts.name[:80]!r} or the sign {facts.sign}: "
                "one is impossible"
            )
        sizes = (facts.bytes, facts.rows, facts.entries)
        if min(sizes) < 0 or max(sizes) >= 2**60:
            raise ValueError("a segment has an impossible size")
        return facts
