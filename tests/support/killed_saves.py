"""Processes that are killed while they save: ``python tests/support/killed_saves.py KILLS SEED``
prints what was left.

A child saves two models in turn over one file and is killed at a random moment; then the file must
hold one of the two. The child is a fork, so that a kill costs milliseconds and not the time to
import everything.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path

import numpy as np

from hammemo import MemoryClassifier, load, save
from hammemo.memories import Exact


def models() -> list[MemoryClassifier]:
    """Return two models of some hundred kilobytes."""
    rng = np.random.default_rng(0)
    return [
        MemoryClassifier(memory=Exact(), vote="sum").fit(
            rng.integers(0, 500, (n, 8)), rng.integers(0, 40, n)
        )
        for n in (20_000, 25_000)
    ]


def run(kills: int, seed: int, folder: Path) -> dict[str, int]:
    """Kill that many saving processes and count what the file held each time, and the temporary
    files left behind.
    """
    rng = random.Random(seed)
    path = folder / "model.safetensors"
    both = models()
    states = [model.memory_.state_bytes() for model in both]
    save(both[0], path)
    result = {"kills": 0, "first": 0, "second": 0, "damaged": 0, "killed_while_writing": 0}
    for _ in range(kills):
        child = os.fork()
        if not child:
            for model in cycle(both[::-1]):
                save(model, path, force=True)  # each undoes the other
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        state = load(path).memory_.state_bytes()
        result["kills"] += 1
        result["damaged" if state not in states else ("first", "second")[states.index(state)]] += 1
        for left in folder.glob("*.tmp"):
            result["killed_while_writing"] += 1
            left.unlink()
    return result


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]), Path(scratch))))
