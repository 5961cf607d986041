"""What more threads of BLAS are worth while sites are chosen and weights are fitted.

    python -m benchmarks.blas_threads [--sets car splice flights sessions] [--data FOLDER]
                                      [--threads 1 2] [--repeats 3]

A set is one of `hammemo.datasets`, or with ``--data`` a file ``SET.csv`` of that folder, the label
in its last column. Measured are `fit` and `refit` of `MemoryClassifier()`, which fits the weights
alone; of visits `fit_stream`, a mixture. Numbers of threads take turns; of all repeats the best
time is printed, in wall seconds and processor seconds, beside that of the first number of threads,
and whether the weights are equal to the bit. `hammemo` itself always uses one thread there: this
command takes that limit away. Where other programs run, more threads cost most: see the load.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from hammemo import MemoryClassifier, datasets
from hammemo._arrays import blas
from hammemo.paper.experiments.measuring import Row, table

sys.path.insert(0, str(Path(__file__).parent))  # for python -m
from measures import options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

VISITS = "sessions"


def clocks() -> NDArray[np.float64]:
    """Return the clock on the wall and that of the processor."""
    return np.array([time.perf_counter(), time.process_time()])


def learner(name: str, folder: Path | None) -> Callable[[MemoryClassifier], Any]:
    """Return what lets a model learn a set."""
    if name == VISITS:
        visits, _ = datasets.load_sessions()
        return lambda model: model.fit_stream(visits, h=8, short="pad")
    if folder is None:
        X, y = datasets.load_table(name)
    else:
        table = np.loadtxt(folder / f"{name}.csv", dtype=str, delimiter=",", skiprows=1)
        X = table[:, :-1]
        y = table[:, -1]
    return lambda model: model.fit(X, y)


def compare(name: str, folder: Path | None, numbers: list[int], repeats: int) -> Iterator[Row]:
    """Yield the rows of one set."""
    learn = learner(name, folder)
    runs: dict[tuple[str, int], list[NDArray[np.float64]]] = {}
    weights: dict[int, bytes] = {}
    for _ in range(repeats):
        for threads in numbers:
            model = MemoryClassifier(random_state=0)
            with patch.object(blas, "_libraries", list), threadpool_limits(threads, "blas"):
                began = clocks()
                learn(model)
                fitted = clocks()
                model.refit()
                runs.setdefault(("fit", threads), []).append(fitted - began)
                runs.setdefault(("refit", threads), []).append(clocks() - fitted)
            weights[threads] = b"".join(
                array.tobytes() for _, array in sorted(model.vote_.state().items())
            )
    for (call, threads), clock_readings in sorted(runs.items()):
        best = np.min(clock_readings, axis=0)
        first = np.min(runs[call, numbers[0]], axis=0)
        (wall, processor) = best.tolist()
        (wall_times, processor_times) = (best / first).tolist()
        yield {
            "set": name,
            "call": call,
            "threads": threads,
            "wall, s": wall,
            "times": wall_times,
            "processor, s": processor,
            "times ": processor_times,
            "same weights": weights[threads] == weights[numbers[0]],
        }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sets", nargs="+", default=["car", "splice", "flights", VISITS])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores; load before the first fit: {os.getloadavg()[0]:.1f}\n")
    rows = [
        row
        for name in arguments.sets
        for row in compare(name, arguments.data, arguments.threads, arguments.repeats)
    ]
    print("\n".join([*table(rows), "", f"load after the last fit: {os.getloadavg()[0]:.1f}"]))


if __name__ == "__main__":
    main()
