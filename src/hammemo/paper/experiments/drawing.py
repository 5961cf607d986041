"""What experiments draw with: generators named by seed and purpose, Zipf tokens, and tasks on several cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from hammemo.paper.experiments.measuring import unseen
from hammemo.tokens.hashing import key_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

Result = TypeVar("Result")


def generator(seed: int, *purpose: int | str) -> np.random.Generator:
    """Return a generator that depends on the seed and the purpose only, so that no draw depends on another."""
    return np.random.Generator(np.random.Philox(key=np.array(key_words(seed, *purpose), np.uint64)))


def zipf_stream(length: int, n_tokens: int, seed: int = 0) -> NDArray[np.int64]:
    """Return tokens with the frequencies of text: token i occurs about 1 / (i + 1) as often as token 0."""
    shares = np.cumsum(1.0 / np.arange(1, n_tokens + 1))
    rng = np.random.default_rng(seed)
    pieces = [
        np.searchsorted(shares, rng.random(min(2**20, length - first)) * shares[-1])
        for first in range(0, length, 2**20)
    ]
    return np.concatenate(pieces)


def zipf_examples(
    n: int, n_labels: int = 64, *, n_tokens: int = 33_278, h: int = 8, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return contexts and labels whose frequencies fall as one over their rank, where no text is at hand.

    Shapes
    ------
    returned : (n, h), (n,)
    """
    return zipf_stream(n * h, n_tokens, seed).reshape(n, h), zipf_stream(n, n_labels, seed + 1)


def in_parallel(
    function: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int,
    on_progress: Callable[[int, int], None] = unseen,
) -> Iterator[Result]:
    """Yield ``function(*task)`` for each task, in order, computed in `jobs` processes.

    `on_progress` is told how many tasks are done, and of how many. The results do not depend on `jobs`.
    """
    outcomes = Parallel(n_jobs=jobs, return_as="generator")(delayed(_alone)(function, task) for task in tasks)
    for done, outcome in enumerate(outcomes, 1):
        on_progress(done, len(tasks))
        yield outcome


def _alone(function: Callable[..., Result], task: tuple[Any, ...]) -> Result:
    with threadpool_limits(1):  # one thread a process: the cores are shared out already, and sums keep their order
        return function(*task)
