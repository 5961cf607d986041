r"""Learn on a cluster with Ray.

Each group of shards is one task, and a task is a pure function: it may run twice, anywhere, and
returns the same. So a worker or a node that dies costs what it was doing and nothing else; Ray
runs the lost tasks again. Input and output errors are tried again as well.

States are added in a tree, four at a time, each addition a task: with G groups of s bytes a
node sends s and receives 4 s, and :math:`\log_4 G` additions follow one another. An exact table
that outgrows the memory of a node belongs into segments.

A table in segments (:mod:`hammemo.engines.segments`) is not moved by Ray at all: tasks write
files and return their names.

Ray does not cover the death of the driver: that is what ``resume=`` is for.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from hammemo._lazy import explain_missing
from hammemo.engines.jobs import (
    Arrays,
    GroupJob,
    GroupReport,
    Groups,
    OnReport,
    Shards,
    pack,
    unpack,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hammemo.memories import Memory

FAN_IN = 4
RETRIES = 8


def run(
    job: GroupJob,
    groups: Groups,
    on_report: OnReport,
    *,
    workers: int | None,
    address: str | None,
) -> Memory:
    """Return the sum of what all groups teach, added as soon as four neighbours are there."""
    with _connect(address, workers) as ray:
        template = ray.put(job.template)
        add = _task(ray, _add)
        levels: list[dict[int, Any]] = [{}]
        widths = [len(groups)]
        while widths[-1] > 1:
            widths.append(-(-widths[-1] // FAN_IN))
            levels.append({})
        for group, report, state in _learn_all(ray, job, groups, workers):
            on_report(report)
            place = group
            levels[0][group] = state
            for level, (states, width) in enumerate(zip(levels[:-1], widths[:-1], strict=True)):
                place //= FAN_IN
                # always the same four
                four = range(FAN_IN * place, min(FAN_IN * (place + 1), width))
                if not all(child in states for child in four):
                    break
                levels[level + 1][place] = add.remote(
                    template, *[states.pop(child) for child in four]
                )
        memory: Memory = unpack(job.template, ray.get(levels[-1][0]))
        return memory


def _learn_all(
    ray: Any, job: GroupJob, groups: Groups, workers: int | None
) -> Iterator[tuple[int, GroupReport, Any]]:
    """Yield each group, its report and a reference to its state, the first that is learned first.

    Few at a time.
    """
    task = _task(ray, _learn, returns=2)
    shared = ray.put(job)
    todo = iter(enumerate(groups))
    under_way: dict[Any, tuple[int, Any]] = {}
    while True:
        for group, shards in islice(todo, max(0, _most_at_once(ray, workers) - len(under_way))):
            report, state = task.remote(shared, group, shards)
            under_way[report] = (group, state)
        if not under_way:
            return
        # not for ever: new nodes take more groups
        ready, _ = ray.wait(list(under_way), timeout=1.0)
        for report in ready:
            group, state = under_way.pop(report)
            yield group, ray.get(report), state


@contextmanager
def spreading(address: str | None, workers: int | None) -> Iterator[Any]:
    """Yield a function that calls another one with each of some arguments, as tasks."""
    with _connect(address, workers) as ray:

        def spread(
            function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
        ) -> Iterator[Any]:
            task = _task(ray, _call)
            shared = ray.put(function)
            waiting: deque[Any] = deque()
            for values in arguments:
                while len(waiting) >= _most_at_once(ray, workers):
                    yield ray.get(waiting.popleft())
                waiting.append(task.remote(shared, *values))
            while waiting:
                yield ray.get(waiting.popleft())

        yield spread


def _call(function: Callable[..., Any], *values: Any) -> Any:
    return function(*values)


@contextmanager
def _connect(address: str | None, workers: int | None) -> Iterator[Any]:
    """Yield Ray, connected to where the caller is already, to an address, or started here.

    What a task raises comes as it is, and where Ray gives up, the error says what to do.
    """
    with explain_missing(
        "engine='ray' needs Ray, which is not installed: pip install 'hammemo[ray]'"
    ):
        import ray
    is_own = not ray.is_initialized()
    if is_own:
        where = address or os.environ.get("RAY_ADDRESS") or "local"
        if where == "local":
            size = {"num_cpus": workers, "include_dashboard": False}
        else:
            size = {}
        ray.init(where, log_to_driver=False, logging_level="warning", **size)
    try:
        yield ray
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from error
    except ray.exceptions.RayError as error:
        raise RuntimeError(
            f"Ray gave up after {RETRIES} attempts ({type(error).__name__}): {error} Take more "
            "memory per worker, smaller groups, and resume= so that nothing done is repeated."
        ) from error
    finally:
        if is_own:
            ray.shutdown()


def _task(ray: Any, function: Callable[..., Any], returns: int = 1) -> Any:
    """Return a function as a task, tried again where a worker dies or a file cannot be read."""
    passing = [OSError, ray.exceptions.ObjectLostError]  # another attempt may not meet them
    return ray.remote(
        num_cpus=1, num_returns=returns, max_retries=RETRIES, retry_exceptions=passing
    )(function)


def _most_at_once(ray: Any, workers: int | None) -> int:
    """Return how many tasks may be under way or waiting.

    Asked again and again, because nodes come and go.
    """
    cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
    if workers is None or cores <= workers:
        return 2 * cores
    return workers


def _learn(job: GroupJob, group: int, shards: Shards) -> list[Any]:
    memory, report = job.learn(group, shards)
    return [report, pack(memory)]


def _add(template: Memory, first: Arrays, *others: Arrays) -> Arrays:
    total = unpack(template, first)  # a copy: arrays from Ray's store are read-only
    for state in others:
        total.merge(unpack(template, state))
    return pack(total)
