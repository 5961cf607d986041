"""What threads are worth while a table is fitted: `MemoryClassifier(n_jobs=…)`.

    python benchmarks/fit_threads.py TABLE.csv [TABLE.csv …] [--jobs 1 2] [--repeats 5]

The last column of a table is the label. Numbers of threads take turns; of all repeats the best wall
time and its processor seconds are printed, and how many of these the thread that called `fit` used
itself: that part no further thread shortens. Files must be equal to the byte for all numbers. Where
other programs run, wall times say little: see the load.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hammemo import MemoryClassifier
from hammemo.files.contents import file_bytes
from hammemo.paper.experiments.measuring import Row, table
from measures import options

if TYPE_CHECKING:
    from collections.abc import Iterator


def compare(path: Path, numbers: list[int], repeats: int) -> Iterator[Row]:
    """Yield the rows of one table."""
    frame = pd.read_csv(path)
    X = frame.iloc[:, :-1]
    y = frame.iloc[:, -1]
    clocks = (time.perf_counter, time.process_time, time.thread_time)
    best: dict[int, list[float]] = {}
    files: dict[int, bytes] = {}
    for _ in range(repeats):
        for n_jobs in numbers:
            model = MemoryClassifier(n_jobs=n_jobs)
            before = [clock() for clock in clocks]
            model.fit(X, y)
            elapsed = [clock() - then for clock, then in zip(clocks, before, strict=True)]
            best[n_jobs] = min(best.get(n_jobs, elapsed), elapsed)
            files[n_jobs] = file_bytes(model)
    for n_jobs, (wall, processor, in_thread) in best.items():
        yield {
            "table": path.stem,
            "n_jobs": n_jobs,
            "wall, s": wall,
            "times": wall / best[numbers[0]][0],
            "processor, s": processor,
            "in the calling thread, s": in_thread,
            "same bytes": files[n_jobs] == files[numbers[0]],
        }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores; load before the first fit: {os.getloadavg()[0]:.1f}\n")
    rows = [
        row for path in arguments.tables for row in compare(path, arguments.jobs, arguments.repeats)
    ]
    print("\n".join([*table(rows), "", f"load after the last fit: {os.getloadavg()[0]:.1f}"]))


if __name__ == "__main__":
    main()
