"""An explanation as a table of HTML, for notebooks.

Names of columns and values are text: all of them are escaped.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NUMBER: Final = "text-align: right"
_TOTAL: Final = "border-top: 1px solid; font-weight: bold"


def write_table(header: Sequence[str], rows: Sequence[Sequence[str]], notes: Iterable[str]) -> str:
    """Return a table whose last row is a total, and sentences below it.

    Examples
    --------
    >>> from hammemo.explain.explanation_html import write_table
    >>> table = write_table(["", "x"], [["a", "<b>"], ["sum", "1"]], [])
    >>> "<td style='text-align: right'>&lt;b&gt;</td>" in table
    True
    """
    lines = ["<table>", "<thead>", _write_row(header, "th", ""), "</thead>", "<tbody>"]
    lines += [_write_row(row, "td", "") for row in rows[:-1]]
    lines += [_write_row(row, "td", _TOTAL) for row in rows[-1:]]
    lines += ["</tbody>", "</table>"]
    lines += [f"<p>{escape(note)}</p>" for note in notes]
    return "\n".join(lines)


def _write_row(cells: Sequence[str], tag: str, style: str) -> str:
    """Return one row: a name on the left, numbers on the right."""
    alignments = ["text-align: left"] + [_NUMBER] * (len(cells) - 1)
    texts = []
    for alignment, cell in zip(alignments, cells, strict=True):
        cell_style = alignment
        if style:
            cell_style += f"; {style}"
        texts.append(f"<{tag} style='{cell_style}'>{escape(cell)}</{tag}>")
    return f"<tr>{''.join(texts)}</tr>"
