"""Documents of a table of events: one row an event, such as a click; one document a case, such as a visit.

The events of a case are put in the order of their times; those of one moment keep the order of the table. Tables are
data frames of pandas or polars, or tables of Arrow.
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
"""Tokens per context that a table of events is learnt with, where nothing is said."""


def event_documents(frame: Any, case: str | None, item: str | None, time: str | None) -> tuple[list[Array], list[Any]]:
    """Return the items of each case, in the order of time, and the ids of the cases.

    Examples
    --------
    >>> import pandas as pd
    >>> from hammemo.tokens.event_frames import event_documents
    >>> clicks = pd.DataFrame({"visit": [7, 3, 7, 7], "item": ["cup", "pen", "tea", "pot"], "at": [2, 1, 1, 3]})
    >>> documents, visits = event_documents(clicks, "visit", "item", "at")
    >>> [document.tolist() for document in documents], visits
    ([['pen'], ['tea', 'cup', 'pot']], [3, 7])
    """
    if case is None or item is None:
        raise ValueError(
            "A table of events is learnt by its columns: say case=… (a visit), item=… (what is predicted) and, "
            "where rows are not in order, time=…"
        )
    if not hasattr(frame, "columns"):
        raise TypeError(f"case=, item= and time= name columns of a data frame; this is a {type(frame).__name__}.")
    ids, cases = np.unique(_column(frame, case), return_inverse=True)
    items = _column(frame, item)
    order = np.argsort(cases, kind="stable") if time is None else np.lexsort((_moments(frame, time), cases))
    if not len(cases):
        return [], []
    if ids.dtype.kind in "mM":
        ids = ids.astype(f"{ids.dtype.kind}8[us]")  # the unit that has objects of Python
    return np.split(items[order], np.cumsum(np.bincount(cases))[:-1]), ids.tolist()


def case_words(ids: Sequence[Any]) -> Words:
    """Return a hash of 128 bits of the id of each case.

    An id is a number, a string or anything that has a text; 5, 5.0 and "5" are the same. The hash depends on nothing
    else, so that models with different seeds can be merged. It hides ids from a reader, not from a person who can guess
    them.

    Shapes
    ------
    returned : (number of ids, 2)

    Examples
    --------
    >>> from hammemo.tokens.event_frames import case_words
    >>> five, same, other = case_words([5, "5", "u5"]).tolist()
    >>> five == same, five == other
    (True, False)
    """
    digests = b"".join(
        blake2b(_id_text(case).encode(), digest_size=16, person=b"hammemo case").digest() for case in ids
    )
    return np.frombuffer(digests, "<u8").astype(np.uint64).reshape(-1, 2)


def _id_text(case: Any) -> str:
    if is_missing(case):
        raise ValueError(f"A case has no id: {case!r}. Give each document the id of its case.")
    if isinstance(case, (bool, np.bool_, int, np.integer)) or (
        isinstance(case, (float, np.floating)) and case % 1 == 0
    ):
        return str(int(case))
    return str(case)


def _column(frame: Any, name: str) -> Array:
    """Return a column, or refuse one that is not there or has missing values."""
    names = getattr(frame, "column_names", None) or list(frame.columns)
    if name not in names:
        raise ValueError(f"The table has no column {name!r}: it has {', '.join(map(repr, names))}.")
    column = frame[name]
    found = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if found.dtype.kind in "OfmM":
        lacking = np.fromiter(map(is_missing, found), bool) if found.dtype.kind == "O" else found != found
        if lacking.any():
            raise ValueError(f"Column {name!r} has no value in row {int(lacking.argmax())}: leave such rows out.")
    if found.dtype.kind == "O" and len({type(value) for value in found.tolist()}) > 1:
        raise ValueError(f"Column {name!r} has values of several types: convert it to one.")
    return found


def _moments(frame: Any, name: str) -> Array:
    found = _column(frame, name)
    if found.dtype.kind not in "iufmM":
        raise ValueError(
            f"Column {name!r} holds no times: convert it to numbers or dates, for example by pd.to_datetime."
        )
    return found
