"""Sessions read from files, cut into what is learnt and what is asked."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

Session = list[int]
"""Numbers of items, in the order in which they were clicked or bought."""

Kind = Literal["clicks", "purchases"]

CLICKS: Final = {
    "bol": ("bol-train", "bol-valid", "bol-train", "bol-test"),
    "yoochoose-100k": tuple(f"yoochoose-100k-{part}" for part in ("fit", "valid", "train", "test")),
}
"""Files of clicks: learnt and asked for validation, learnt and asked for the test."""

PURCHASES: Final = {"beauty": "amazon-beauty", "toys": "amazon-toys"}
SETS: Final = (*CLICKS, *PURCHASES)
RATINGS: Final = {"movielens-100k": "ml-100k"}
"""Files of ratings, as RecBole's wheel has them; asked as purchases are."""


@dataclass(frozen=True, eq=False)
class SessionQueries:
    """Prefixes, the item that follows each, and the number of the session that each comes from."""

    prefixes: list[Session]
    targets: NDArray[np.int64]
    sessions: NDArray[np.int64]

    @classmethod
    def of(cls, sessions: Sequence[Session]) -> SessionQueries:
        """Return every prefix of every session.

        Examples
        --------
        >>> from .data import SessionQueries
        >>> queries = SessionQueries.of([[5, 6, 7], [8]])
        >>> queries.prefixes, queries.targets.tolist()
        ([[5], [5, 6]], [6, 7])
        """
        cut = [
            (number, i) for number, session in enumerate(sessions) for i in range(1, len(session))
        ]
        return cls(
            [sessions[number][:i] for number, i in cut],
            np.array([sessions[number][i] for number, i in cut], np.int64),
            np.array([number for number, _ in cut], np.int64),
        )

    def __len__(self) -> int:
        return len(self.targets)

    def spread(self, most: int) -> SessionQueries:
        """Return at most this many queries, evenly spread."""
        places = np.unique(np.linspace(0, len(self) - 1, min(most, len(self)), dtype=np.int64))
        return SessionQueries(
            [self.prefixes[place] for place in places], self.targets[places], self.sessions[places]
        )


@dataclass(frozen=True, eq=False)
class SessionSplit:
    """Sessions to learn, oldest first where times are known.

    The queries come with them. Items are numbered below `n_items`.
    """

    sessions: list[Session]
    queries: SessionQueries
    n_items: int


@dataclass(frozen=True, eq=False)
class SessionTask:
    """One data set: a split to choose settings with, and the one that is looked at once."""

    name: str
    kind: Kind
    valid: SessionSplit
    test: SessionSplit


def read_task(folder: Path, name: str) -> SessionTask:
    """Return one of `SETS` or `RATINGS`.

    Parameters
    ----------
    folder : Path With ``bol-train.tsv`` and the like; the columns of clicks are SessionId, ItemId
        and Time, and a line of purchases is a user and the items in the order bought.
    name : str
    """
    if name in CLICKS:
        learnt, test, all_learnt, tested = (_file(folder, f"{part}.tsv") for part in CLICKS[name])
        return SessionTask(
            name, "clicks", click_split(learnt, test), click_split(all_learnt, tested)
        )
    if name in RATINGS:
        users, n_items = read_ratings(_file(folder, f"{RATINGS[name]}.inter"))
        return SessionTask(
            name, "purchases", purchase_split(users, 2, n_items), purchase_split(users, 1, n_items)
        )
    if name not in PURCHASES:
        raise ValueError(f"{name!r} is not one of the sets: use {', '.join(SETS)}.")
    users, n_items = read_purchases(_file(folder, f"{PURCHASES[name]}.txt"))
    return SessionTask(
        name, "purchases", purchase_split(users, 2, n_items), purchase_split(users, 1, n_items)
    )


def _file(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: data= takes a folder with the files of {', '.join(SETS)}."
        )
    return path


def read_clicks(path: Path) -> list[list[str]]:
    """Return the sessions of a file in the order of their last clicks.

    Clicks of a session are in order, too.

    Clicks of one moment keep the order of the file, and so do sessions that end at one moment.
    """
    clicks: dict[str, list[tuple[float, str]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        missing = {"SessionId", "ItemId", "Time"} - set(rows.fieldnames or ())
        if missing:
            raise ValueError(
                f"{path} has no column {', '.join(sorted(missing))}: it needs SessionId, "
                "ItemId and Time."
            )
        for row in rows:
            clicks.setdefault(row["SessionId"], []).append((float(row["Time"]), row["ItemId"]))
    in_order = [sorted(session, key=lambda click: click[0]) for session in clicks.values()]
    in_order.sort(key=lambda session: session[-1][0])
    return [[item for _, item in session] for session in in_order]


def click_split(learnt: Path, test: Path) -> SessionSplit:
    """Return the clicks of two files.

    Items that the first does not hold are dropped from the second.
    """
    numbers: dict[str, int] = {}
    sessions = [
        [numbers.setdefault(item, len(numbers)) for item in session]
        for session in read_clicks(learnt)
    ]
    documents = [
        [numbers[item] for item in session if item in numbers] for session in read_clicks(test)
    ]
    queries = SessionQueries.of(documents)
    if not len(queries):
        raise ValueError(
            f"{test} has no session with two items that {learnt} holds: there is nothing to ask."
        )
    return SessionSplit(sessions, queries, len(numbers))


def read_purchases(path: Path) -> tuple[list[Session], int]:
    """Return the items of every user, numbered, and how many items there are."""
    numbers: dict[str, int] = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    users = [
        [numbers.setdefault(item, len(numbers)) for item in line.split()[1:]] for line in lines
    ]
    short = next((line for line, items in enumerate(users, 1) if len(items) < 3), None)
    if short is not None:
        raise ValueError(
            f"{path}, line {short}: a user needs three items: to learn, to validate, to test."
        )
    return users, len(numbers)


def read_ratings(path: Path) -> tuple[list[Session], int]:
    """Return the items that every user rated, in the order of time, and how many items there are.

    The columns are those of RecBole: user_id, item_id and timestamp, each with its type after a
    colon. Ratings of one moment keep the order of the file; users with fewer than three are left
    out.
    """
    numbers: dict[str, int] = {}
    rated: dict[str, list[tuple[float, int]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            item = numbers.setdefault(row["item_id:token"], len(numbers))
            rated.setdefault(row["user_id:token"], []).append((float(row["timestamp:float"]), item))
    in_order = (sorted(ratings, key=lambda rating: rating[0]) for ratings in rated.values())
    return [[item for _, item in ratings] for ratings in in_order if len(ratings) >= 3], len(
        numbers
    )


def purchase_split(users: list[Session], last: int, n_items: int) -> SessionSplit:
    """Return what every user bought before the last two items, and a query of each user.

    Also for the test, whose prefixes hold the item of validation, that item is not learnt: so it is
    in S3-Rec's protocol, whose published figures stand beside ours.
    """
    targets = np.array([items[-last] for items in users], np.int64)
    queries = SessionQueries([items[:-last] for items in users], targets, np.arange(len(users)))
    return SessionSplit([items[:-2] for items in users], queries, n_items)


def facts(task: SessionTask) -> dict[str, Any]:
    """Return the sizes of a task."""
    split = task.test
    return {
        "set": task.name,
        "sessions": len(split.sessions),
        "events": sum(map(len, split.sessions)),
        "items": split.n_items,
        "valid_queries": len(task.valid.queries),
        "test_queries": len(split.queries),
    }
