"""A server's folder as it was written once, which later versions must open.

It holds a log, snapshots, an audit, aliases and keys. To write it again, run
``python server/tests/support/kept_folder.py``. That is right where the form of a log is meant to
change before the first release; afterwards a new file is added beside this one.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hammemo.receipts.keys import new_key_file
from hammemo_server.edits.operations import Edit
from hammemo_server.models.host import Host
from hammemo_server.store.base_log import FORMAT
from places import ROOT

FOLDER = ROOT / "server" / "tests" / "kept"
TENANT = "shop"
ROWS: list[list[Any]] = [
    ["red", 1.5, "a"],
    ["green", 9.25, "b"],
    ["red", 7.0, None],
    ["green", 2.0, "a"],
] * 15
LABELS = [row[1] > 5 for row in ROWS]
VISITS: list[list[Any]] = [["a", "b", "c"], ["b", "c", "d", "a"], ["d", "a", "b"]]


def fill(host: Host) -> None:
    """Make a model of a table, one with subjects, and one of documents.

    Tables have a snapshot and edits after it.
    """
    table = host.create(TENANT, "table", {"columns": ["colour", "size", "kind"], "seed": 0})
    table.edit(Edit("1", "learn", ROWS, LABELS), "token").result()
    table.edit(Edit("2", "refit")).result()
    table.snapshot()
    table.edit(Edit("3", "forget", ROWS[:1], LABELS[:1])).result()
    people = host.create(TENANT, "people", {"columns": 2, "subjects": "required", "seed": 0})
    for number, who in enumerate(["ann", "bob", "ann"]):
        people.edit(Edit(str(number), "learn", [[who, number]], ["x"], subjects=[who])).result()
    people.snapshot()
    people.edit(Edit("3", "learn", [["cyd", 3]], ["y"], subjects=["cyd"])).result()
    visits = host.create(TENANT, "visits", {"documents": {"h": 3, "short": "pad"}, "seed": 0})
    visits.edit(Edit("1", "learn", documents=VISITS)).result()
    host.set_alias(TENANT, "live", "table")


def write(path: Path) -> None:
    """Write the folder and its key file into a ZIP file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "models")
        keys = Path(name, "keys.json")
        new_key_file(keys)
        with Host(folder, keys=keys) as host:
            fill(host)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as kept:
            for file in sorted(Path(name).rglob("*")):
                if file.is_file() and not file.name.endswith(".lock"):
                    kept.write(file, file.relative_to(name))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    write(FOLDER / f"format-{FORMAT}.zip")
