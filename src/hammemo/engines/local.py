"""Learn on this machine: threads where the compiled loops do the work, processes where Python does."""

from __future__ import annotations

import os
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from joblib import Parallel, delayed

from hammemo.engines.states import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hammemo.engines.jobs import GroupJob, GroupReport
    from hammemo.memories import Memory
    from hammemo.sources.shards import Shard


def run(
    job: GroupJob,
    groups: Sequence[tuple[Shard, ...]],
    kind: str,
    workers: int | None,
    on_report: Callable[[GroupReport], None],
) -> Memory:
    """Return the sum of what all groups teach; they are added in order, whichever is learnt first."""
    workers = min(workers or os.cpu_count() or 1, len(groups))
    total = job.template.empty_like()
    in_processes = kind == "processes" and workers > 1
    learn: Any = job.learn_packed if in_processes else job.learn
    for state, report in spread(learn, enumerate(groups), kind, workers):
        total.merge(unpack(job.template, state) if in_processes else state)
        on_report(report)
    return total


def spread(
    function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], kind: str, workers: int | None
) -> Iterator[Any]:
    """Yield what a function returns for each of some arguments, in their order, on threads or processes."""
    workers = workers or os.cpu_count() or 1
    backend = "loky" if kind == "processes" and workers > 1 else "threading"
    pool = Parallel(workers, backend=backend, return_as="generator", max_nbytes=None)
    try:
        yield from pool(delayed(function)(*given) for given in arguments)
    except BrokenProcessPool as error:
        raise RuntimeError(
            "A worker process died, perhaps for want of memory. Take fewer workers, and resume= so that nothing done "
            "is repeated; engine='ray' starts tasks again by itself."
        ) from error
