"""Read the tables and visits that are part of the package.

Each is one compressed text file in this folder: a table is CSV with a header, the label in the last
column; visits are one line each, the numbers of the items in the order of the clicks. All values of
tables are strings. Files are read again with each call, so a change of what is returned changes no
other copy.
"""

from __future__ import annotations

import csv
import gzip
import io
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TABLES: Final = ("car", "flights", "splice", "tic-tac-toe")
"""The names that `load_table` takes."""

SESSIONS: Final = ("learnt", "asked")
"""The two parts of the visits."""


@overload
def load_table(
    name: str, *, as_frame: Literal[False] = ...
) -> tuple[NDArray[np.str_], NDArray[np.str_]]: ...
@overload
def load_table(name: str, *, as_frame: bool) -> tuple[Any, Any]: ...
def load_table(name: str, *, as_frame: bool = False) -> tuple[Any, Any]:
    """Return the rows of a real table, and their labels.

    Parameters
    ----------
    name : {"car", "flights", "splice", "tic-tac-toe"}
        - "car": 1,728 cars by price, upkeep, doors, persons, luggage and safety: how acceptable
          each is (UCI).
        - "flights": 10,000 flights from New York's airports in 2013: late at their destination or
          not.
        - "splice": 3,190 pieces of DNA of 60 letters: a splice site in the middle, of which kind,
          or none (UCI).
        - "tic-tac-toe": 958 boards at the end of a game: has the first player won? (UCI)
    as_frame : bool
        Return pandas' DataFrame and Series, with the names of the columns.

    Returns
    -------
    X : ndarray of strings, shape (m, h), or DataFrame
    y : ndarray of strings, shape (m,), or Series

    Notes
    -----
    Sources and licences are in ``README.md`` in the folder of this package; a publication that uses
    a table names its source.

    Examples
    --------
    >>> from hammemo.datasets import load_table
    >>> X, y = load_table("car")
    >>> X.shape, X[0].tolist(), y[0].item()
    ((1728, 6), ['vhigh', 'vhigh', '2', '2', 'small', 'low'], 'unacc')
    >>> load_table("car", as_frame=True)[0].columns.tolist()
    ['buying', 'maint', 'doors', 'persons', 'lug_boot', 'safety']
    """
    if name not in TABLES:
        raise ValueError(
            f"name={name!r} is not one of the tables: use {', '.join(map(repr, TABLES))}."
        )
    header, *rows = csv.reader(io.StringIO(_read_text(f"{name}.csv.gz")))
    table = np.array(rows)
    if not as_frame:
        return table[:, :-1], table[:, -1]
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "as_frame=True needs pandas: pip install pandas, or leave as_frame out."
        ) from error
    frame = pd.DataFrame(table.astype(object), columns=header)
    return frame[header[:-1]], frame[header[-1]]


def load_sessions() -> tuple[list[list[int]], list[list[int]]]:
    """Return real visits of a web shop: the items that were clicked, in their order.

    They are the example data of bol.com's recommender Serenade: 23,753 visits to learn, 18,009
    items, and 302 later visits to ask about, without items that were not clicked before. Items are
    numbered in the order of their first click.

    Returns
    -------
    learnt, asked : list of lists of int
        One list a visit; visits in the order of their last clicks.

    Examples
    --------
    >>> from hammemo.datasets import load_sessions
    >>> learnt, asked = load_sessions()
    >>> len(learnt), len(asked), learnt[3]
    (23753, 302, [9, 10, 11, 10, 12, 10, 13])
    """
    past, later = map(_read_visits, SESSIONS)
    return past, later


def _read_visits(period: str) -> list[list[int]]:
    """Return the visits of a part, the items of each as numbers."""
    lines = _read_text(f"sessions-{period}.txt.gz").splitlines()
    return [[int(item) for item in line.split()] for line in lines]


def _read_text(name: str) -> str:
    """Return the text of a compressed file in this folder."""
    return gzip.decompress((files(__package__) / name).read_bytes()).decode("ascii")
