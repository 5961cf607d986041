"""Crafted collisions among many queries, against brute force: prints how many certificates are wrong.

``python tests/stress/collisions.py`` asks 10^7 queries, one in ten of which is made to have the 64-bit hash of a
feature that was learnt. ``--queries 60000`` is the short form that the tests run. Three families: integers against
strings, tuples of integers against tuples of integers, and both in one model. Brute force is the exact memory, whose
tables compare tokens themselves.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from crafted_tokens import integers_hashed_to, tuples_like
from hammemo import MemoryClassifier
from hammemo.kernels import PositionalHamming, SiteKernel
from hammemo.memories import Exact, Hashed, Tiered
from hammemo.tokens.hashing import token_hashes

SEED, H, N_LABELS, N_STORED, BATCH, CRAFTED = 0, 4, 6, 20_000, 50_000, 10
KERNELS = {
    "strings and integers": PositionalHamming(),
    "tuples": SiteKernel([(0, 1), (2, 3), (0, 2, 3)]),
    "both": SiteKernel([0, 3, (0, 1), (2, 3)]),
}


def learnt(strings: bool, rng: np.random.Generator) -> Any:
    """Return contexts of few frequent tokens and many rare ones."""
    ids = np.minimum(rng.geometric(0.1, (N_STORED, H)), 3000)
    return np.array([f"w{i}" for i in range(3001)], object)[ids] if strings else ids


def crafted(X: Any, kernel: Any, n: int, rng: np.random.Generator) -> Any:
    """Return n rows of X, each with one feature replaced by another one that has its hash."""
    rows = X[rng.integers(0, len(X), n)].copy()
    sites = kernel.resolve(H).positions
    for k, part in enumerate(np.array_split(np.arange(n), len(sites))):
        site = list(sites[k])
        if rows.dtype == object:
            column = rows[part, site[0]]
            rows[part, site[0]] = integers_hashed_to(token_hashes(column.tolist(), SEED), SEED).tolist()
        elif len(site) > 1:
            beginnings = rng.integers(0, 3000, (len(part), len(site) - 1))
            rows[np.ix_(part, site)] = tuples_like(rows[np.ix_(part, site)], beginnings, sites[k], SEED)
    return rows


def wrong_certificates(name: str, n_queries: int, seed: int = 0) -> dict[str, int]:
    """Return how many queries were asked, crafted, proven, and proven although the exact answer is another one."""
    rng, kernel = np.random.default_rng(seed), KERNELS[name]
    X = learnt(name == "strings and integers", rng)
    poison = crafted(X, kernel, N_STORED // 2, rng)  # the attacker's rows are learnt too
    X = np.concatenate([X, poison])
    y = np.concatenate([rng.integers(0, 3, N_STORED), np.full(len(poison), 4)])
    models = [
        MemoryClassifier(kernel, m, random_state=SEED, vote="sum").fit(X, y) for m in (Exact(), Hashed(4096, 256))
    ]
    tiered = MemoryClassifier(kernel, Tiered(Hashed(4096, 256)), random_state=SEED, vote="sum").fit(X, y)
    exact, hashed = models
    found = {"queries": 0, "crafted": 0, "proven": 0, "wrong certificates": 0, "wrong answers of Tiered": 0}
    while found["queries"] < n_queries:
        n = min(BATCH, n_queries - found["queries"])
        made = crafted(X[:N_STORED], kernel, -(-n // CRAFTED), rng)
        asked = np.concatenate([made, X[rng.integers(0, len(X), n - len(made))]])
        truth, answers, proven = exact.predict(asked), hashed.predict(asked), hashed.certify(asked)
        found["queries"] += n
        found["crafted"] += len(made)
        found["proven"] += int(proven.sum())
        found["wrong certificates"] += int((proven & (answers != truth)).sum())
        found["wrong answers of Tiered"] += int((tiered.predict(asked) != truth).sum())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--queries", type=int, default=10**7)
    n, wrong = parser.parse_args().queries, 0
    for name in KERNELS:
        start = time.perf_counter()
        found = wrong_certificates(name, -(-n // len(KERNELS)))
        wrong += found["wrong certificates"] + found["wrong answers of Tiered"]
        print(f"{name}: {found}, {time.perf_counter() - start:.0f} s")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
