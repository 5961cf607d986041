"""Learn on this machine: threads where the compiled loops do the work, processes where Python does."""

from __future__ import annotations

import os
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from joblib import Parallel, delayed

from hammemo.engines.states import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo.engines.jobs import GroupReport, Job
    from hammemo.memories import Memory
    from hammemo.sources.documents import Shard


def run(
    job: Job,
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
    pool = Parallel(workers, backend="loky" if in_processes else "threading", return_as="generator", max_nbytes=None)
    try:
        for state, report in pool(delayed(learn)(group, shards) for group, shards in enumerate(groups)):
            total.merge(unpack(job.template, state) if in_processes else state)
            on_report(report)
    except BrokenProcessPool as error:
        raise RuntimeError(
            "A worker process died, perhaps for want of memory. Take fewer workers, and resume= so that nothing done "
            "is repeated; engine='ray' starts tasks again by itself."
        ) from error
    return total
