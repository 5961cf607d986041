"""Tables of events as documents.

A row is an event, such as a click, and a document is a case, such as a visit. The events of a case
are put in the order of their times; events of the same moment keep the order of the table. Tables
are data frames of pandas or polars, or tables of Arrow.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.tokens.missing import is_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array, Words

FRAME_CONTEXT: Final = 30
"""Tokens per context for a table of events, where the user does not say how many."""


def event_documents(
    frame: Any, case: str | None, item: str | None, time: str | None
) -> tuple[list[Array], list[Any]]:
    """Return the items of each case, in the order of time, and the ids of the cases.

    Parameters
    ----------
    frame : data frame
    case, item, time : str
        The columns of the ids of cases, of the items, and of the times. Without `time`, the events
        of a case are in the order of the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from hammemo.tokens.event_tables import event_documents
    >>> items = ["cup", "pen", "tea", "pot"]
    >>> clicks = pd.DataFrame({"visit": [7, 3, 7, 7], "item": items, "at": [2, 1, 1, 3]})
    >>> documents, visits = event_documents(clicks, "visit", "item", "at")
    >>> [document.tolist() for document in documents], visits
    ([['pen'], ['tea', 'cup', 'pot']], [3, 7])
    """
    if case is None or item is None:
        raise ValueError(
            "A table of events is learnt by its columns: say case=… (a visit), "
            "item=… (what is predicted) and, where rows are not in order, time=…"
        )
    if not hasattr(frame, "columns"):
        raise TypeError(
            "case=, item= and time= name columns of a data frame; "
            f"this is a {type(frame).__name__}."
        )
    ids, case_numbers = np.unique(_read_column(frame, case), return_inverse=True)
    items = _read_column(frame, item)
    if time is None:
        order = np.argsort(case_numbers, kind="stable")
    else:
        order = np.lexsort((_read_times(frame, time), case_numbers))
    if not len(items):
        return [], []
    if ids.dtype.kind in "mM":
        # Microseconds are the finest unit for which `tolist` gives dates of Python, not integers.
        ids = ids.astype(f"{ids.dtype.kind}8[us]")
    ends = np.cumsum(np.bincount(case_numbers))
    return np.split(items[order], ends[:-1]), ids.tolist()


def _read_column(frame: Any, name: str) -> Array:
    """Return a column; refuse one that does not exist, lacks values or mixes types."""
    names = getattr(frame, "column_names", None) or list(frame.columns)
    if name not in names:
        raise ValueError(f"The table has no column {name!r}: it has {', '.join(map(repr, names))}.")
    column = frame[name]
    values = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if values.dtype.kind in "OfmM":
        if values.dtype.kind == "O":
            lacking = np.fromiter(map(is_missing, values), bool)
        else:
            lacking = values != values  # true of NaN and of NaT only
        if lacking.any():
            raise ValueError(
                f"Column {name!r} has no value in row {int(lacking.argmax())}: leave such rows out."
            )
    if values.dtype.kind == "O" and len({type(value) for value in values.tolist()}) > 1:
        raise ValueError(f"Column {name!r} has values of several types: convert it to one.")
    return values


def _read_times(frame: Any, name: str) -> Array:
    times = _read_column(frame, name)
    if times.dtype.kind not in "iufmM":
        raise ValueError(
            f"Column {name!r} holds no times: convert it to numbers or dates, "
            "for example by pd.to_datetime."
        )
    return times


def case_words(ids: Sequence[Any]) -> Words:
    """Return a hash of 128 bits of the id of each case.

    An id is a number, a string or anything that has a text; 5, 5.0 and "5" are the same. The hash
    depends on nothing else, so that models with different seeds can be merged. It hides ids from a
    reader, not from a person who can guess them.

    Shapes
    ------
    returned : (number of ids, 2)

    Examples
    --------
    >>> from hammemo.tokens.event_tables import case_words
    >>> five, same, other = case_words([5, "5", "u5"]).tolist()
    >>> five == same, five == other
    (True, False)
    """
    digests = b"".join(
        blake2b(_write_id(case).encode(), digest_size=16, person=b"hammemo case").digest()
        for case in ids
    )
    return np.frombuffer(digests, "<u8").astype(np.uint64).reshape(-1, 2)


def _write_id(case: Any) -> str:
    """Return the text of an id, the same for a whole number of any type."""
    if is_missing(case):
        raise ValueError(f"A case has no id: {case!r}. Give each document the id of its case.")
    if isinstance(case, (bool, np.bool_, int, np.integer)):
        return str(int(case))
    if isinstance(case, (float, np.floating)) and case % 1 == 0:
        return str(int(case))
    return str(case)
