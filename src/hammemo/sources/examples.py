"""Examples and queries: what a schema makes of the rows and documents of files, some at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.sources.tables import Batch


@dataclass(frozen=True, eq=False)
class Labelled:
    """Some examples.

    Parameters
    ----------
    X : ndarray of shape (m, h)
    y : ndarray of shape (m,)
    columns : tuple of str
        The names of the positions; empty for sequences.
    kinds : str
        What each column holds, the label last; one letter for all where they are the tokens of sequences.
    batch : Batch or None
        The rows of the table that they are; None for sequences.
    first : int
        The number of the first example of a sequence among all that were read.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    columns: tuple[str, ...]
    kinds: str
    batch: Batch | None = None
    first: int = 1

    def place(self, row: int) -> str:
        """Return where an example is found, for an error message."""
        return f"example {self.first + row}" if self.batch is None else self.batch.place(row)


@dataclass(frozen=True, eq=False)
class Queries:
    """Some contexts to be answered, and what is known of each: the columns of its row, or the name of its document.

    Parameters
    ----------
    X : ndarray of shape (m, h)
    names, columns
        The columns of the table, or one column: the case or the number of each document.
    identity : str or None
        The column that tells which answer is which; None for rows of a table, which are known by their order.
    documents : list of ndarray or None
        All tokens of each document, also those before its context; None for rows of a table.
    """

    X: NDArray[Any]
    names: tuple[str, ...]
    columns: tuple[NDArray[Any], ...]
    identity: str | None = None
    documents: list[NDArray[Any]] | None = None
