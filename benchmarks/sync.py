"""What it costs to make a model equal to a table with few changed rows, beside a new fit.

    python benchmarks/sync.py [--rows 1000000] [--changed 5000] [--keep rows|digests|auto+digests]
                              [--refit] [--json]

The table has three columns of names and two of numbers. Of its rows, `changed` are gone and as many
are new. Printed are the seconds on the clock and the most memory that each step takes beyond what
was used before it (Linux): the fit of the new table, the comparison alone (`dry_run=True`), `sync`,
and with --refit also `sync(refit=True)`, whose digest must be that of the new fit. With --keep rows
the model keeps all rows in plain text, whatever their number.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hammemo import MemoryClassifier
from measures import options, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def customers(n: int, seed: int) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return a table of n rows, nearly all of them distinct, and labels that depend on it."""
    rng = np.random.default_rng(seed)
    plan, region, device = (rng.integers(0, size, n) for size in (5, 40, 12))
    calls = rng.gamma(2.0, 3.0, n).round(3)
    age = rng.normal(size=n).round(4)
    odds = 0.8 * (plan == 1) - 0.1 * calls + 0.5 * age + 0.3 * (region % 3) - 0.4
    columns = {"plan": plan.astype(str), "region": region.astype(str), "device": device.astype(str)}
    table = pd.DataFrame({**columns, "calls": calls, "age": age})
    return table, np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "yes", "no")


def measure_call(call: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Return the seconds and the additional peak memory of a call, and its result."""
    Path("/proc/self/clear_refs").write_text("5")  # the kernel forgets the peak
    before = _status("VmRSS")
    started = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - started
    return {
        "seconds": round(seconds, 2),
        "mebibytes": round((_status("VmHWM") - before) / 2**20),
    }, result


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    """Print the figures."""
    parser = options(__doc__, as_json="print JSON")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changed", type=int, default=5_000)
    parser.add_argument("--keep", choices=("rows", "digests", "auto+digests"), default="rows")
    parser.add_argument("--refit", action="store_true")
    args = parser.parse_args()
    n = args.rows
    keep = 2 * args.rows if args.keep == "rows" else args.keep
    X, y = customers(n + args.changed, 0)
    model = MemoryClassifier(keep=keep).fit(X[:n], y[:n])
    X_after = X[args.changed :]
    y_after = y[args.changed :]
    steps: list[dict[str, Any]] = []

    def step(name: str, call: Callable[[], Any]) -> Any:
        figures, result = measure_call(call)
        steps.append({"step": name, **figures})
        return result

    step("compare", lambda: model.sync(X_after, y_after, dry_run=True))
    synced = step("sync", lambda: model.sync(X_after, y_after))
    fresh = step("fit", lambda: MemoryClassifier(keep=keep).fit(X_after, y_after).digest())
    facts: dict[str, Any] = {"rows": n, "keep": args.keep, "said": str(synced)}
    if args.refit:
        step("sync(refit=True)", lambda: model.sync(X_after, y_after, refit=True))
        facts["digest is that of the fit"] = model.digest() == fresh
    show({"facts": facts, "steps": steps}, as_json=args.json)


if __name__ == "__main__":
    main()
