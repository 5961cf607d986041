"""What more threads of BLAS are worth while sites are chosen and weights are fitted.

    python -m benchmarks.blas_threads [--sets car splice flights sessions] [--data FOLDER] [--threads 1 2] [--repeats 3]

A set is one of `hammemo.datasets`, or with ``--data`` a file ``SET.csv`` of that folder, the label in its last column.
Measured are `fit` and `refit` of `MemoryClassifier()`, which fits the weights alone; of visits `fit_stream`, a mixture.
Numbers of threads take turns; of all repeats the best time is printed, in wall seconds and processor seconds, beside
that of the first number of threads, and whether the weights are equal to the bit. `hammemo` itself always uses one
thread there: this command takes that limit away. Where other programs run, more threads cost most: see the load.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from hammemo import MemoryClassifier, datasets
from hammemo._arrays import blas

if TYPE_CHECKING:
    from collections.abc import Callable

VISITS = "sessions"


@dataclass(frozen=True)
class Measured:
    """Seconds of one call."""

    wall: float
    processor: float


def measured(call: Callable[[], Any]) -> Measured:
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return Measured(time.perf_counter() - wall, time.process_time() - processor)


def best(runs: list[Measured]) -> Measured:
    """Return the best wall time and the best processor time."""
    return Measured(min(run.wall for run in runs), min(run.processor for run in runs))


def learner(name: str, folder: Path | None) -> Callable[[MemoryClassifier], Any]:
    """Return what lets a model learn a set."""
    if name == VISITS:
        visits, _ = datasets.load_sessions()
        return lambda model: model.fit_stream(visits, h=8, short="pad")
    if folder is None:
        X, y = datasets.load_table(name)
    else:
        table = np.loadtxt(folder / f"{name}.csv", dtype=str, delimiter=",", skiprows=1)
        X, y = table[:, :-1], table[:, -1]
    return lambda model: model.fit(X, y)


def compare(name: str, folder: Path | None, numbers: list[int], repeats: int) -> None:
    """Print the rows of one set."""
    learn = learner(name, folder)
    runs: dict[tuple[str, int], list[Measured]] = {}
    weights: dict[int, bytes] = {}
    for _ in range(repeats):
        for threads in numbers:
            model = MemoryClassifier(random_state=0)
            with patch.object(blas, "_libraries", list), threadpool_limits(threads, "blas"):
                runs.setdefault(("fit", threads), []).append(measured(lambda model=model: learn(model)))  # type: ignore[misc]
                runs.setdefault(("refit", threads), []).append(measured(model.refit))
            weights[threads] = b"".join(array.tobytes() for _, array in sorted(model.vote_.state().items()))
    for (call, threads), found in sorted(runs.items()):
        now, first = best(found), best(runs[call, numbers[0]])
        wall, processor = now.wall / first.wall, now.processor / first.processor
        same = "yes" if weights[threads] == weights[numbers[0]] else "no"
        print(
            f"| {name} | {call} | {threads} | {now.wall:.2f} | {wall:.2f} | {now.processor:.2f} | {processor:.2f} "
            f"| {same} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["car", "splice", "flights", VISITS])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores; load before the first fit: {os.getloadavg()[0]:.1f}\n")
    print("| set | call | threads | wall, s | times | processor, s | times | same weights |")
    print("|---|---|---|---|---|---|---|---|")
    for name in arguments.sets:
        compare(name, arguments.data, arguments.threads, arguments.repeats)
    print(f"\nload after the last fit: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
