r"""Learn on a cluster with Ray.

Each group of shards is one task, and a task is a pure function: it may run twice, anywhere, and returns the same. So a
worker or a node that dies costs what it was doing and nothing else; Ray runs the lost tasks again. Input and output
errors are tried again as well.

States are added in a tree, four at a time, each addition a task: with G groups of s bytes a node sends s and receives
4 s, and :math:`\log_4 G` additions follow one another. An exact table that outgrows the memory of a node belongs into
segments.

A table in segments (:mod:`hammemo.engines.segments`) is not moved by Ray at all: tasks write files and return their
names.

Ray does not cover the death of the driver: that is what ``resume=`` is for.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hammemo._lazy import needed
from hammemo.engines.jobs import Arrays, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hammemo.engines.jobs import GroupJob, GroupReport
    from hammemo.memories import Memory
    from hammemo.sources.listing import Shard

FAN_IN = 4
RETRIES = 8


def run(
    job: GroupJob,
    groups: Sequence[tuple[Shard, ...]],
    workers: int | None,
    address: str | None,
    on_report: Callable[[GroupReport], None],
) -> Memory:
    """Return the sum of what all groups teach. `sample` is a memory that has learnt a sample of the source."""
    with _connected(address, workers) as ray:
        return _Cluster(ray, job, workers, on_report).by_tree(groups)


@contextmanager
def spreading(address: str | None, workers: int | None) -> Iterator[Any]:
    """Yield a function that calls another one with each of some arguments, as tasks, and yields what they return."""
    with _connected(address, workers) as ray:

        def spread(function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
            task, shared = _task(ray, _call), ray.put(function)
            waiting: deque[Any] = deque()
            for given in arguments:
                while len(waiting) >= _most_at_once(ray, workers):
                    yield ray.get(waiting.popleft())
                waiting.append(task.remote(shared, *given))
            while waiting:
                yield ray.get(waiting.popleft())

        yield spread


def _call(function: Callable[..., Any], *given: Any) -> Any:
    return function(*given)


@contextmanager
def _connected(address: str | None, workers: int | None) -> Iterator[Any]:
    """Yield Ray, connected; what a task raises comes as it is, and where Ray gives up, the error says what to do."""
    with _session(address, workers) as ray:
        try:
            yield ray
        except ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from error
        except ray.exceptions.RayError as error:
            raise RuntimeError(
                f"Ray gave up after {RETRIES} attempts ({type(error).__name__}): {error} Take more memory per worker, "
                "smaller groups, and resume= so that nothing done is repeated."
            ) from error


@contextmanager
def _session(address: str | None, workers: int | None) -> Iterator[Any]:
    """Yield Ray, connected: to where the caller is connected already, to an address, or started here and stopped."""
    with needed("engine='ray' needs Ray, which is not installed: pip install 'hammemo[ray]'"):
        import ray
    if ray.is_initialized():
        yield ray
        return
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    size = {"num_cpus": workers, "include_dashboard": False} if where == "local" else {}
    ray.init(where, log_to_driver=False, logging_level="warning", **size)
    try:
        yield ray
    finally:
        ray.shutdown()


class _Cluster:
    """One job on a cluster: hands out tasks, few at a time, and collects what they return."""

    def __init__(self, ray: Any, job: GroupJob, workers: int | None, on_report: Callable[[GroupReport], None]) -> None:
        self.ray = ray
        self.job = job
        self.workers = workers
        self.on_report = on_report
        self.shared_job = ray.put(job)
        self.template = ray.put(job.template)

    def learn(self, groups: Sequence[tuple[Shard, ...]]) -> Iterator[tuple[int, Any]]:
        """Yield (group, references to its parts), the first that is learnt first; bounded in number."""
        task = _task(self.ray, _learn, returns=2)
        todo = iter(enumerate(groups))
        under_way: dict[Any, tuple[int, Any]] = {}
        while True:
            while len(under_way) < _most_at_once(self.ray, self.workers):
                group, shards = next(todo, (-1, ()))
                if group < 0:
                    break
                report, held = task.remote(self.shared_job, group, shards)
                under_way[report] = (group, held)
            if not under_way:
                return
            ready, _ = self.ray.wait(list(under_way), timeout=1.0)  # not for ever: new nodes take more groups
            for report in ready:
                self.on_report(self.ray.get(report))
                yield under_way.pop(report)

    def by_tree(self, groups: Sequence[tuple[Shard, ...]]) -> Memory:
        """Add the states four at a time, each as soon as its four are there, always the same four."""
        add = _task(self.ray, _add)
        levels: list[dict[int, Any]] = [{}]
        widths = [len(groups)]
        while widths[-1] > 1:
            widths.append(-(-widths[-1] // FAN_IN))
            levels.append({})
        for group, state in self.learn(groups):
            place, levels[0][group] = group, state
            for level, (held, width) in enumerate(zip(levels[:-1], widths[:-1], strict=True)):
                place //= FAN_IN
                four = range(FAN_IN * place, min(FAN_IN * (place + 1), width))
                if not all(child in held for child in four):
                    break
                levels[level + 1][place] = add.remote(self.template, *(held.pop(child) for child in four))
        memory: Memory = unpack(self.job.template, self.ray.get(levels[-1][0]))
        return memory


def _task(ray: Any, function: Callable[..., Any], returns: int = 1) -> Any:
    """Return a function as a task that is tried again where a worker dies or a file cannot be read."""
    passing = [OSError, ray.exceptions.ObjectLostError]  # another attempt may not meet them
    return ray.remote(num_cpus=1, num_returns=returns, max_retries=RETRIES, retry_exceptions=passing)(function)


def _most_at_once(ray: Any, workers: int | None) -> int:
    """Return how many tasks may be under way or waiting: asked again and again, because nodes come and go."""
    cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
    return 2 * cores if workers is None or cores <= workers else workers


def _learn(job: GroupJob, group: int, shards: tuple[Shard, ...]) -> list[Any]:
    memory, report = job.learn(group, shards)
    return [report, pack(memory)]


def _add(template: Memory, first: Arrays, *others: Arrays) -> Arrays:
    total = unpack(template, first)  # a copy: arrays from Ray's store are read-only
    for state in others:
        total.merge(unpack(template, state))
    return pack(total)
