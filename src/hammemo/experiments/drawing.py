"""What every experiment draws with: generators named by seed and purpose, and independent tasks on several cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from hammemo.tokens.hashing import key_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Result = TypeVar("Result")


def generator(seed: int, *purpose: int | str) -> np.random.Generator:
    """Return a generator that depends on the seed and the purpose only, so that no draw depends on another."""
    return np.random.Generator(np.random.Philox(key=np.array(key_words(seed, *purpose), np.uint64)))


def in_parallel(
    function: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int,
    on_progress: Callable[[int, int], None] | None,
) -> Iterator[Result]:
    """Yield ``function(*task)`` for each task, in order, computed in `jobs` processes.

    `on_progress` is told how many tasks are done, and of how many. The results do not depend on `jobs`.
    """
    outcomes = Parallel(n_jobs=jobs, return_as="generator")(delayed(_alone)(function, task) for task in tasks)
    for done, outcome in enumerate(outcomes, 1):
        if on_progress is not None:
            on_progress(done, len(tasks))
        yield outcome


def _alone(function: Callable[..., Result], task: tuple[Any, ...]) -> Result:
    with threadpool_limits(1):  # one thread a process: the cores are shared out already, and sums keep their order
        return function(*task)
