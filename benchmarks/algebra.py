"""What merging, forgetting, digests and exact Gaussian codes cost.

    python benchmarks/algebra.py times
    python benchmarks/algebra.py fidelity --data ../shared/wikitext-2

`times`, on one thread: contexts of 8 integer tokens with Zipf frequencies among 33,278, and 64
labels. Hashed memories have 2048 buckets and 1024 reserved tokens, about 2 MiB. Seconds include all
that a user waits for: checking and numbering the tokens too.

`fidelity`: the paper's WikiText-2 task (h = 8, 100,000 examples, 64 labels). Agreement of a
Gaussian memory with the exact classifier on the test queries with a unique winner, with exact codes
and without, on the same seeds.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from hammemo import MeMoClassifier, MemoryClassifier, Rolling
from hammemo.memories import Exact, Hashed
from hammemo.paper.experiments import wikitext
from hammemo.paper.experiments.measuring import seconds, zipf_examples
from measures import options, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.memories import Memory

H = 8
HASHED = Hashed(buckets=2048, reserved=1024)
waited = partial(seconds, clock=time.perf_counter)


def merging(n: int, shards: int) -> dict[str, float]:
    """Return the seconds of adding up equal shards of a hashed memory, and of taking one back."""
    X, y = zipf_examples(n)
    whole = MemoryClassifier("positional", memory=HASHED, vote="sum").fit(X, y)
    parts = [
        whole.empty_like().partial_fit(X[i::shards], y[i::shards]).memory_ for i in range(shards)
    ]
    total = whole.memory_.empty_like()

    def merge() -> None:
        for part in parts:
            total.merge(part)

    row = {
        "state, MiB": whole.memory_.nbytes / 2**20,
        f"merge {shards} shards, s": waited(merge),
        "unmerge one, s": waited(lambda: total.unmerge(parts[0])),
    }
    total.merge(parts[0])
    assert total.state_bytes() == whole.memory_.state_bytes()
    return row


def forgetting(memory: Memory, n: int, batch: int) -> dict[str, float]:
    """Return what forgetting half of 2n examples takes: all at once, and in small batches."""
    X, y = zipf_examples(2 * n)
    rest = MemoryClassifier("positional", memory=memory, vote="sum").fit(X, y)
    row = {f"learn {2 * n:,}, s": waited(lambda: rest.fit(X, y))}
    in_parts = rest.empty_like().partial_fit(X, y)
    row[f"forget {n:,} at once, s"] = waited(lambda: rest.forget(X[:n], y[:n]))
    few = range(0, min(n, 100 * batch), batch)
    batch_seconds = waited(
        lambda: [in_parts.forget(X[i : i + batch], y[i : i + batch]) for i in few]
    )
    row[f"forget {batch:,}, in a row of batches, s"] = batch_seconds / len(few)
    assert (
        rest.memory_.state_bytes()
        == rest.empty_like().partial_fit(X[n:], y[n:]).memory_.state_bytes()
    )
    return row


def digest_costs(n: int) -> dict[str, float]:
    """Return what digests add to each example, in time and in bytes."""
    X, y = zipf_examples(n)
    plain, checked = (
        MemoryClassifier("positional", memory=HASHED, vote="sum", keep=keep)
        for keep in ("auto", "digests")
    )
    learn = waited(lambda: plain.fit(X, y)), waited(lambda: checked.fit(X, y))
    assert checked.state.store is not None
    state = checked.state.store.state()
    forget = waited(lambda: plain.forget(X, y)), waited(lambda: checked.forget(X, y))
    return {
        "learn an example, µs": 1e6 * learn[0] / n,
        "learn it with digests, µs": 1e6 * learn[1] / n,
        "forget an example, µs": 1e6 * forget[0] / n,
        "forget it with digests, µs": 1e6 * forget[1] / n,
        "digests, bytes a distinct example": 16 + state["digest_counts"].itemsize,
    }


def rolling_costs(memory: Memory, window: int, batch: int, steps: int = 50) -> dict[str, float]:
    """Return what a step of a full window takes: a batch comes in, a batch falls out."""
    X, y = zipf_examples(window + steps * batch)
    model = Rolling(MemoryClassifier("positional", memory=memory, vote="sum"), last=window).fit(
        X[:window], y[:window]
    )
    starts = range(window, len(X), batch)
    step_seconds = waited(
        lambda: [model.partial_fit(X[i : i + batch], y[i : i + batch]) for i in starts]
    )
    return {f"a step of {batch:,} in a window of {window:,}, s": step_seconds / steps}


def measure_times(n: int) -> dict[str, dict[str, float]]:
    return {
        "Hashed, merging": merging(n, 100),
        "Hashed, forgetting": forgetting(HASHED, n, 1000),
        "Exact, forgetting": forgetting(Exact(), n, 1000),
        "Hashed, digests": digest_costs(n),
        "Hashed, rolling": rolling_costs(HASHED, n // 10, 1000),
        "Exact, rolling": rolling_costs(Exact(), n // 10, 1000),
    }


def measure_fidelity(
    folder: Path, dimensions: tuple[int, ...], seeds: int
) -> dict[str, dict[str, float]]:
    """Return mean agreement with the exact classifier, and between the two kinds of codes."""
    sample = wikitext.draw_sample(
        wikitext.build_task(wikitext.read_folder(folder)), wikitext.TaskSettings(), 0
    )
    X, y = sample.split("train", H)
    queries, observed = sample.split("test", H)
    judge = wikitext.Judge.from_exact(
        MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y), queries, observed
    )
    results = {}
    for d in dimensions:
        labels = {
            exact: _predictions(d, exact, seeds, X, y=y, queries=queries) for exact in (False, True)
        }
        agree = {
            exact: 100 * (predictions == judge.winners)[:, judge.unambiguous].mean(axis=1)
            for exact, predictions in labels.items()
        }
        results[f"d = {d}, {seeds} seeds"] = {
            "agreement with float codes, %": float(agree[False].mean()),
            "agreement with exact codes, %": float(agree[True].mean()),
            "difference, mean, points": float((agree[True] - agree[False]).mean()),
            "difference, largest of a seed, points": float(
                np.abs(agree[True] - agree[False]).max()
            ),
            "same label with both, %": 100 * float((labels[True] == labels[False]).mean()),
        }
    return results


def _predictions(d: int, exact: bool, seeds: int, X: Any, *, y: Any, queries: Any) -> NDArray[Any]:
    models = (MeMoClassifier(d, exact=exact, random_state=seed) for seed in range(seeds))
    return np.stack([model.fit(X, y).predict(queries) for model in models])


def main() -> None:
    parser = options(__doc__, as_json="one object")
    parser.add_argument("what", choices=["times", "fidelity"], help="of edits, or of exact codes")
    parser.add_argument("--examples", type=int, default=1_000_000, help="of times")
    parser.add_argument(
        "--data", type=Path, help="of fidelity: folder with wiki.{train,valid,test}.tokens"
    )
    parser.add_argument("--seeds", type=int, default=3, help="of fidelity")
    arguments = parser.parse_args()
    if arguments.what == "fidelity" and arguments.data is None:
        parser.error("fidelity needs --data")
    with threadpool_limits(1):
        if arguments.what == "times":
            results = measure_times(arguments.examples)
        else:
            results = measure_fidelity(arguments.data, (256, 1024), arguments.seeds)
    show(results, as_json=arguments.json)


if __name__ == "__main__":
    main()
