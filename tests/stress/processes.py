"""Many processes that edit one file: ``python tests/stress/processes.py [PROCESSES [EDITS]]`` prints what arrived.

Every process learns examples of its own through `hammemo.editing` and forgets every fifth one again, each in an edit by
itself. At the end each example must be there as often as it was learnt and not forgotten, and the file must equal, to
the byte, that of one process which did all edits in turn. (What was forgotten is learnt first, by the same process.)
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from hammemo import MemoryClassifier, NotStoredError, editing, load, save
from hammemo.memories import Hashed


def changes(process: int, edits: int) -> list[tuple[int, list[int]]]:
    """Return the edits of a process: +1 or -1, and the context, whose last token is the label too."""
    result: list[tuple[int, list[int]]] = []
    for number in range(edits):
        forgets = number % 5 == 4
        result.append((-1, result[-1][1]) if forgets else (1, [process, number, process % 7]))
    return result


def work(path: Path, process: int, edits: int) -> None:
    """Do the edits of a process."""
    for sign, context in changes(process, edits):
        with editing(path) as model:
            edit: Any = model.partial_fit if sign > 0 else model.forget
            edit([context], [context[-1]])


def start(path: Path) -> None:
    """Write the model that all begin with."""
    rng = np.random.default_rng(0)
    X = rng.integers(1000, 1050, (200, 3))  # none of these is a context of an edit
    save(
        MemoryClassifier("positional", memory=Hashed(64, 16), keep="auto+digests", vote="sum").fit(X, X[:, 2] % 7), path
    )


def examples(path: Path) -> int:
    """Return how many examples a file holds."""
    return int(load(path).memory_.label_counts.sum())


def run(processes: int, edits: int, folder: Path) -> dict[str, Any]:
    """Let many processes edit one file at the same time, and one process another file, and compare."""
    together, alone = folder / "together.model", folder / "alone.model"
    start(together)
    alone.write_bytes(together.read_bytes())
    before, began = examples(together), time.perf_counter()
    spawn = multiprocessing.get_context("fork")
    children = [spawn.Process(target=work, args=(together, process, edits)) for process in range(processes)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    seconds = time.perf_counter() - began
    expected: Counter[tuple[int, ...]] = Counter()
    for process in range(processes):
        work(alone, process, edits)
        for sign, context in changes(process, edits):
            expected[tuple(context)] += sign
    lost, twice = _lost_and_twice(together, expected)
    return {
        "processes": processes,
        "edits": processes * edits,
        "failed": sum(child.exitcode != 0 for child in children),
        "lost": lost,
        "twice": twice,
        "examples": examples(together) - before,
        "expected": expected.total(),
        "equal_to_one_process": together.read_bytes() == alone.read_bytes(),
        "seconds": round(seconds, 1),
    }


def _lost_and_twice(path: Path, expected: Counter[tuple[int, ...]]) -> tuple[int, int]:
    """Return how many learnt examples the digests do not hold, and how many they hold more often than learnt."""
    lost = twice = 0
    model = load(path)
    for context, count in expected.items():
        held = 0
        while _forgets(model, context):
            held += 1
        lost, twice = lost + max(count - held, 0), twice + max(held - count, 0)
    return lost, twice


def _forgets(model: MemoryClassifier, context: tuple[int, ...]) -> bool:
    try:
        model.forget([context], [context[-1]])
    except NotStoredError:
        return False
    return True


if __name__ == "__main__":
    sizes = [int(argument) for argument in sys.argv[1:]] + [32, 50][len(sys.argv) - 1 :]
    with tempfile.TemporaryDirectory() as scratch:
        found = run(sizes[0], sizes[1], Path(scratch))
    print(json.dumps(found))
    sys.exit(bool(found["failed"] or found["lost"] or found["twice"] or not found["equal_to_one_process"]))
