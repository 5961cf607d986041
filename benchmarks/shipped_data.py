"""Make the files of ``src/hammemo/datasets`` from their sources.

    python benchmarks/shipped_data.py --tables FOLDER --sessions FOLDER [--out FOLDER]

The first folder holds ``car.csv``, ``tic-tac-toe.csv``, ``splice.csv`` and ``flights-late.csv``,
the second ``bol-train.tsv`` and ``bol-test.tsv`` (``docs/tables.md`` and ``docs/recommending.md``
say what they are). Columns get the names of their sources; of the flights, which are in random
order, the first 10,000 are taken. Visits keep their items only, numbered in the order of their
first click; items that no visit to be learnt holds are dropped from the others, and so are visits
of which less than two items are left.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from measures import options
from sessions.data import read_clicks

PLACE = Path(__file__).parents[1] / "src" / "hammemo" / "datasets"

SQUARES = [
    f"{row}-{column}"
    for row in ("top", "middle", "bottom")
    for column in ("left", "middle", "right")
]
TABLES = {
    "car": ("car", ["buying", "maint", "doors", "persons", "lug_boot", "safety", "class"]),
    "tic-tac-toe": ("tic-tac-toe", [*SQUARES, "class"]),
    "splice": ("splice", [*(f"{place:+d}" for place in range(-30, 31) if place), "class"]),
    "flights": (
        "flights-late",
        ["month", "day", "carrier", "flight", "tailnum", "origin", "dest", "hour", "arrival"],
    ),
}
"""For each table: its file, and the names of its columns, the label last."""

N_FLIGHTS = 10_000


def table(folder: Path, name: str) -> str:
    """Return the text of a table with the names of its columns."""
    file, columns = TABLES[name]
    _, *rows = (folder / f"{file}.csv").read_text(encoding="ascii").splitlines()
    first_rows = rows[:N_FLIGHTS] if name == "flights" else rows
    return "".join(f"{line}\n" for line in [",".join(columns), *first_rows])


def sessions(folder: Path) -> dict[str, str]:
    """Return the visits to learn and those to ask about, one line each."""
    numbers: dict[str, int] = {}
    learnt = [
        [numbers.setdefault(item, len(numbers)) for item in visit]
        for visit in read_clicks(folder / "bol-train.tsv")
    ]
    visits_of_known = [
        [numbers[item] for item in visit if item in numbers]
        for visit in read_clicks(folder / "bol-test.tsv")
    ]
    parts = {"learnt": learnt, "asked": [visit for visit in visits_of_known if len(visit) > 1]}
    return {
        part: "".join(f"{' '.join(map(str, visit))}\n" for visit in visits)
        for part, visits in parts.items()
    }


def contents(tables: Path, visits: Path) -> dict[str, str]:
    """Return the text of every file, by its name without ``.gz``."""
    return {
        **{f"{name}.csv": table(tables, name) for name in TABLES},
        **{f"sessions-{part}.txt": text for part, text in sessions(visits).items()},
    }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--sessions", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=PLACE)
    arguments = parser.parse_args()
    for name, text in contents(arguments.tables, arguments.sessions).items():
        data = gzip.compress(text.encode("ascii"), 9, mtime=0)
        (arguments.out / f"{name}.gz").write_bytes(data)
        print(f"{name}.gz: {len(data):,} bytes")


if __name__ == "__main__":
    main()
