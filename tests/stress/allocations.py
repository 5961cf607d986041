"""Each allocation of the compiled loops made to fail once: the state is that before the call, or after it.

    python tests/stress/allocations.py              all of them, some minutes
    python tests/stress/allocations.py "^Hashed"    those calls whose name has the pattern

A library that is preloaded (`tests/support/failing_new.cpp`, built here with g++) counts what C++ code allocates during
a call; then the call is repeated, once for each allocation, which fails. The call must raise MemoryError, or get along
without; the state must be that before it or after it, and the same call must work afterwards. The calls are those of
`injection.py`, and questions; each is made on a copy whose compiled forms are still to be made. (Memory that Python and
nanobind allocate by other means is not made to fail.)
"""

from __future__ import annotations

import copy
import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import MemoryClassifier
from hammemo.kernels import Bag, Copy, SiteKernel, Suffixes, Together
from hammemo.memories import Exact, Hashed, Tiered
from hammemo.votes import LogLinear, Mixture
from injection import STREAM, X, Y, calls, state, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEMORIES = [
    Hashed(16, 4),
    Hashed(16, 4, key=b"a secret of 16 bytes"),
    Tiered(Hashed(16, 4)),
    Exact(),
]
MOST_FAILED = 200  # of the allocations of one call, evenly spread: a batch of questions makes some for each row
MANY = np.random.default_rng(0).integers(0, 50, (5000, 3))


def questions() -> Iterator[tuple[str, Callable[[], Any], Callable[[Any], Any]]]:
    """Yield questions as `calls` yields edits."""
    kernels = (None, Suffixes(2), SiteKernel([0, (0, 1), (0, 1, 2)]))
    votes: tuple[str | LogLinear, ...] = ("sum", "mean", LogLinear(steps=2))
    for memory, kernel, vote in product((Hashed(16, 4), Exact()), kernels, votes):
        model = MemoryClassifier(kernel, memory, vote).fit(X, Y)
        name = f"{kernel} {vote}" if isinstance(memory, Hashed) else f"Exact {kernel} {vote}"
        yield f"{name} predict", model.snapshot, lambda model: model.predict(MANY)
        yield f"{name} top_k", model.snapshot, lambda model: model.top_k(MANY, 2)
        yield f"{name} class_scores", model.snapshot, lambda model: model.class_scores(MANY)
        if isinstance(vote, str):
            yield f"{name} certify", model.snapshot, lambda model: model.certify(MANY)
        yield f"{name} predict strings", model.snapshot, lambda model: model.predict(MANY.astype(str))
        yield f"{name} one", model.snapshot, lambda model: model.compile()(["a", 1, 2])
        yield f"{name} threads", model.snapshot, lambda model: model.compile(n_jobs=2).predict(MANY)

    kernel = Suffixes(2) + Bag(3) + Together(3) + Copy(3)
    mixture = MemoryClassifier(kernel, Exact(), Mixture(steps=2)).fit_stream(STREAM, h=3, short="pad")
    yield "Exact mixture predict", mixture.snapshot, lambda model: model.predict(X)
    yield "Exact mixture top_k", mixture.snapshot, lambda model: model.top_k(X, 2)


def plans() -> Iterator[tuple[str, Callable[[], Any], Callable[[Any], Any]]]:
    """Yield the name of each call, how to make what it is called on, and the call."""
    for memory in MEMORIES:
        for name, make, call in calls(memory):
            yield f"{memory!r} {name}", make, call
        base = MemoryClassifier("positional", memory=memory).fit(X, Y)
        yield f"{memory!r} bulk", base.snapshot, lambda model: model.partial_fit(MANY, np.arange(len(MANY)) % 3)
    yield from questions()


def counted(call: Callable[[Any], Any], model: Any, fail_at: int = -1) -> tuple[int, BaseException | None]:
    """Make a call; return how many allocations were asked for, and what was raised."""
    library, error = ctypes.CDLL(None), None
    library.count_allocations(ctypes.c_long(fail_at))
    try:
        call(model)
    except BaseException as raised:
        error = raised
    return int(library.stop_counting()), error


def shown(answer: Any) -> Any:
    """Return what a question answers, as something that can be compared; edits return models, which are not."""
    return answer.tolist() if isinstance(answer, np.ndarray) else answer if isinstance(answer, (int, str)) else None


def verdict(make: Callable[[], Any], call: Callable[[Any], Any], at: int, known: tuple[Any, Any], answer: Any) -> str:
    """Return whether the state is that "before" the call or "after" it, or what else was found."""
    model = make()
    _, error = counted(call, model, at)
    if error is not None and not isinstance(error, MemoryError):
        return f"{type(error).__name__}: {error}"
    found = state(model)
    if found not in known:
        return "HALF"
    if found != known[0]:
        return "after"
    again = shown(call(model))
    return "before" if state(model) == known[1] and again == answer else "BROKEN FOR THE NEXT CALL"


def _fresh(shared: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: copy.deepcopy(shared())


def main(pattern: str) -> int:
    total: Counter[str] = Counter()
    for name, shared, call in plans():
        if not re.search(pattern, name):
            continue
        make = _fresh(shared)
        known, answer = states(make, call), shown(call(make()))
        number, error = counted(call, make())
        assert error is None, error
        step = 1 + number // MOST_FAILED
        found = Counter(verdict(make, call, at, known, answer) for at in range(0, number, step))
        print(f"{name}, {number} allocations:", dict(found), flush=True)
        total += found
    bad = {name: count for name, count in total.items() if name not in ("before", "after")}
    print("allocations failed:", sum(total.values()), "half states:", sum(bad.values()), bad, dict(total))
    return int(bool(bad) or not total)


def preloaded() -> int:
    """Build the library and run this script again with it."""
    source = Path(__file__).parents[1] / "support" / "failing_new.cpp"
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "failing_new.so")
        subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-std=c++17", source, "-o", library], check=True)
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        return subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main("".join(sys.argv[1:])) if hasattr(ctypes.CDLL(None), "count_allocations") else preloaded())
