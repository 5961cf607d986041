"""What counting costs.

The count table of a batch stands beside DuckDB's group-by of the same columns, one thread each.

    python benchmarks/counting.py [--rows 1000000] [--runs 5] [--names] [--json FILE]

The rows are those of ``click_rows.py``: twenty columns with 2 to 1,000,000 values each, and a
label. Ours is what a fit does to count them: every value becomes a rank, and each column is counted
by label, into a table in canonical order. DuckDB has the same columns in a table of its own and
makes a table of (value, label, count) of each. Printed is the processor time of both in seconds,
the median of some runs in turn, and their ratio; the tables are compared first. With ``--names``,
values are strings.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is loaded

import numpy as np

from click_rows import COLUMNS, Clicks
from hammemo.kernels import PositionalHamming
from hammemo.memories.exact.table import CountTable
from hammemo.tokens.contexts import Examples
from measures import JsonLines, options

if TYPE_CHECKING:
    from numpy.typing import NDArray


def count_columns(X: NDArray[Any], y: NDArray[Any]) -> CountTable:
    """Return the counts of each column, by label."""
    examples = Examples.of_arrays(X, y, np.ones(len(y), np.int64))
    return CountTable.from_examples(examples, PositionalHamming().resolve(X.shape[1]))


def group_in_duckdb(database: Any) -> None:
    """Let DuckDB count each column, by label."""
    for j in range(COLUMNS):
        database.execute(
            f"create or replace table g{j} as select c{j}, y, count(*) n from t group by c{j}, y"
        )


def check(table: CountTable, database: Any) -> None:
    """Compare the counts of both."""
    for j, rows in enumerate(table.site_rows()):
        group_counts = database.execute(f"select n from g{j} order by c{j}, y").fetchnumpy()["n"]
        if not np.array_equal(rows.counts, group_counts):
            raise AssertionError(f"column {j} is counted differently")


def main() -> None:
    import duckdb
    import pyarrow as pa

    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--json", type=Path, help="append the measurement to this file")
    arguments = parser.parse_args()
    X, y, _ = Clicks(0).rows(arguments.rows)
    columns = {
        f"c{j}": pa.array(X[:, j].astype(str) if arguments.names else X[:, j])
        for j in range(COLUMNS)
    }
    if arguments.names:
        X = X.astype(str).astype(object)
    database = duckdb.connect()
    database.execute("set threads = 1")
    database.register("given", pa.table({**columns, "y": y}))
    database.execute("create table t as select * from given")
    group_in_duckdb(database)
    check(count_columns(X, y), database)
    ours = list[float]()
    duckdb_seconds = list[float]()
    for _ in range(arguments.runs):
        for spent, work in (
            (ours, lambda: count_columns(X, y)),
            (duckdb_seconds, lambda: group_in_duckdb(database)),
        ):
            started = time.process_time()
            work()
            spent.append(time.process_time() - started)
    row = {
        "rows": arguments.rows,
        "names": arguments.names,
        "ours": median(ours),
        "duckdb": median(duckdb_seconds),
    }
    JsonLines(arguments.json).add(row)
    print(f"ours {row['ours']:.2f} s, DuckDB {duckdb.__version__} {row['duckdb']:.2f} s", end="")
    print(f": {row['ours'] / row['duckdb']:.2f} times")


if __name__ == "__main__":
    main()
