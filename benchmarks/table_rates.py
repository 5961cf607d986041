"""Predictions a second of ours and LightGBM on tables of categories, asked in turns.

    python benchmarks/table_rates.py --data FOLDER [--sets car adult] [--rounds 9] [--json FILE]

Both are fitted to the first training part of ``benchmarks/tables.py``, with their defaults and one thread, and asked
about its test part by `predict_proba`, strings in, encoding counted. The first call of each is not counted: ours then
makes what it answers from. After it they take turns, so that other work on the machine slows both, and the median of
the rounds is shown, in processor seconds. Sets below 1,000 rows are left out: there the overhead of a call decides.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from tables import LEARNERS, read_table, splits  # sets one thread before NumPy is loaded

import numpy as np  # isort: skip

FEWEST = 1000
PAIR = ("ours", "LightGBM")


def raced(path: Path, rounds: int) -> dict[str, Any] | None:
    """Return the seconds of a fit and the median rate of both; None for a small set."""
    X, y = read_table(path)
    if len(y) < FEWEST:
        return None
    train, test = next(splits(X, y, 0))
    found: dict[str, Any] = {"set": path.stem, "rows": len(y), "labels": len(set(y)), "asked": len(test)}
    models = {}
    for name in PAIR:
        started = time.process_time()
        models[name] = LEARNERS[name]().fit(X[train], y[train])
        found[f"{name}: fit seconds"] = time.process_time() - started
        models[name].predict_proba(X[test])
    times: dict[str, list[float]] = {name: [] for name in PAIR}
    for _ in range(rounds):
        for name, model in models.items():
            times[name].append(_seconds(model, X[test]))
    for name in PAIR:
        found[f"{name}: predictions/s"] = len(test) / float(np.median(times[name]))
    found["ratio"] = found["ours: predictions/s"] / found["LightGBM: predictions/s"]
    return found


def _seconds(model: Any, X: Any) -> float:
    """Return the processor seconds of one call, from as many as take a fiftieth of a second."""
    started, calls, spent = time.process_time(), 0, 0.0
    while spent < 0.02:
        model.predict_proba(X)
        calls += 1
        spent = time.process_time() - started
    return spent / calls


def line(found: dict[str, Any]) -> str:
    """Return one set as a row of a table."""
    fits = " | ".join(f"{found[f'{name}: fit seconds']:.1f}" for name in PAIR)
    rates = " | ".join(f"{found[f'{name}: predictions/s']:,.0f}" for name in PAIR)
    return f"| {found['set']} | {found['rows']:,} | {found['labels']} | {fits} | {rates} | {found['ratio']:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="append each set to this file, one a line")
    options = parser.parse_args()
    print("| set | rows | labels | fit (s) | LightGBM's | predictions/s | LightGBM's | ratio |\n" + "|---" * 8 + "|")
    all_found = []
    for path in sorted(options.data.glob("*.csv"), key=lambda path: path.stat().st_size):
        found = raced(path, options.rounds) if not options.sets or path.stem in options.sets else None
        if found is None:
            continue
        all_found.append(found)
        print(line(found), flush=True)
        if options.json:
            with options.json.open("a") as file:
                print(json.dumps(found), file=file)
    for title, fewest, most in (("two labels", 2, 2), ("ten labels and more", 10, 10**9)):
        chosen = [found for found in all_found if fewest <= found["labels"] <= most]
        if chosen:
            least = min(chosen, key=lambda found: float(found["ratio"]))
            print(f"\n{title}: at least {least['ratio']:.2f} of LightGBM's rate ({least['set']})")


if __name__ == "__main__":
    main()
