"""An exception at any point of an edit leaves the state before the call, or after it.

    python tests/stress/injection.py all                  every line of every call and memory, every opcode of two calls
    python tests/stress/injection.py 60 [SEED]            a sample that takes about as many seconds
    python tests/stress/injection.py all 0 "^Hashed"      those memories and calls whose name has the pattern

A trace function counts the lines (or opcodes) that a call runs in hammemo's own files; then the call is repeated, once
for each place, with an exception raised there. State means bytes, answers and every fitted attribute. The lock of the
model must be free afterwards, and a following edit must work.
"""

from __future__ import annotations

import copy
import inspect
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

import hammemo
from hammemo import MemoryClassifier, Rolling, _versions
from hammemo._arrays.blas import OneBlasThread
from hammemo.kernels import Bag, Copy, Suffixes, Together
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.tokens.contexts import Examples
from hammemo.tokens.vocabulary import Vocabulary
from hammemo.votes import LogLinear, Mixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCE = str(Path(hammemo.__file__).parent)
MEMORIES = [
    Exact(),
    Hashed(16, 4),
    Gaussian(d=16, exact=True),
    Tiered(Hashed(16, 4)),
]
X = np.array([[1, 2, 3], [1, 5, 3], [4, 2, 6], [4, 5, 6], [1, 2, 6]] * 2)
Y = np.array([0, 0, 1, 1, 0] * 2)
MORE_X, MORE_Y = np.array([[1, 2, 3], [9, 9, 9]]), np.array([0, 7])
STREAM = np.array([1, 2, 3, 1, 2, 4, 1, 2, 3, 5, 1, 2])


def _with_line(code: Any) -> tuple[int, int]:
    """Return the line of a function that takes a lock, and the offset at which its body begins."""
    source, first = inspect.getsourcelines(code)
    line = first + next(i for i, text in enumerate(source) if text.strip().startswith("with "))
    return line, next(start for start, _, number in code.co_lines() if number is not None and number > line)


LOCKED = {
    function.__code__: _with_line(function.__code__)
    for function in (_versions.Versioned.apply_edit, OneBlasThread.__enter__, OneBlasThread.__exit__)
}


def leaves_the_lock(frame: Any) -> bool:
    """Return whether a frame is about to release its lock: between body and release Python delivers no signal."""
    line, body = LOCKED.get(frame.f_code, (-1, 0))
    return bool(frame.f_lineno == line and frame.f_lasti > body)


class Injected(BaseException):
    """What is raised; like KeyboardInterrupt it is no Exception."""


class Injector:
    """Raises at the n-th line or opcode that hammemo's own files run; counts them where n is None."""

    def __init__(self, at: int | None, *, opcodes: bool) -> None:
        self.at = at
        self.opcodes = opcodes
        self.seen = 0

    def __enter__(self) -> Injector:
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def trace(self, frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_opcodes = self.opcodes
        frame.f_trace_lines = not self.opcodes
        if event == ("opcode" if self.opcodes else "line") and not leaves_the_lock(frame):
            if self.seen == self.at:
                sys.settrace(None)
                raise Injected
            self.seen += 1
        return self.trace


def fitted(memory: Any) -> MemoryClassifier:
    model = MemoryClassifier("positional", memory=clone(memory), random_state=0, vote="sum")
    return model.partial_fit(X, Y, classes=[0, 1, 2])


def calls(memory: Any) -> Iterator[tuple[str, Callable[[], Any], Callable[[Any], Any]]]:
    """Yield the name of each call, how to make what it is called on, and the call."""
    base, stream = (
        fitted(memory),
        MemoryClassifier("positional", memory=clone(memory), vote="sum").fit_stream(STREAM, h=3),
    )
    other = base.empty_like().partial_fit(MORE_X, MORE_Y)
    joined = base + other
    yield "partial_fit", base.snapshot, lambda model: model.partial_fit(MORE_X, MORE_Y, classes=[11])
    yield "forget", base.snapshot, lambda model: model.forget(X[1:4], Y[1:4])
    yield "fit", base.snapshot, lambda model: model.fit(MORE_X[:, :2], MORE_Y)
    yield "fit_stream", stream.snapshot, lambda model: model.fit_stream(STREAM[:8], h=2)
    yield "partial_fit_stream", stream.snapshot, lambda model: model.partial_fit_stream(STREAM, h=3)
    twice = stream.snapshot().partial_fit_stream(STREAM, h=3)
    yield "forget_stream", twice.snapshot, lambda model: model.forget_stream(STREAM)
    yield "merge", base.snapshot, lambda model: model.merge(other)
    yield "unmerge", joined.snapshot, lambda model: model.unmerge(other)
    yield "+", base.snapshot, lambda model: model + other
    yield "-", joined.snapshot, lambda model: model - other
    examples, labels = Examples.of(MORE_X, MORE_Y), Vocabulary.of([5])
    yield "memory.add", base.memory_.snapshot, lambda model: model.add(examples)
    yield "memory.declare", base.memory_.snapshot, lambda model: model.declare(labels)
    if hasattr(memory, "reserve"):
        yield "memory.reserve", lambda: clone(memory).open(base.sites_), lambda model: model.reserve(examples)
    window = Rolling(MemoryClassifier("positional", memory=clone(memory), vote="sum"), last=6).fit(
        X, Y, times=np.arange(10)
    )
    yield "Rolling.partial_fit", window.snapshot, lambda model: model.partial_fit(MORE_X, MORE_Y, times=[11, 12])
    timed = Rolling(MemoryClassifier("positional", memory=clone(memory), vote="sum"), seconds=5).fit(
        X, Y, times=np.arange(10)
    )
    yield "Rolling.expire", timed.snapshot, lambda model: model.expire(now=12)
    if not isinstance(memory, Gaussian):
        log_linear = MemoryClassifier("positional", memory=clone(memory), vote=LogLinear(steps=2)).fit(X, Y)
        yield "fit_vote", log_linear.snapshot, lambda model: model.fit_vote(X[:6], Y[:6])
    if isinstance(memory, Exact):
        yield from calls_of_mixtures(memory)


def calls_of_mixtures(memory: Any) -> Iterator[tuple[str, Callable[[], Any], Callable[[Any], Any]]]:
    """Yield the same for a mixture vote, whose model keeps a sample of whole cases, and sites without a position."""
    kernel = Suffixes(2) + Bag(3) + Together(3) + Copy(3)
    documents, last = [STREAM[:5], STREAM[5:9], STREAM[9:]], [STREAM[9:]]
    mixture = MemoryClassifier(kernel, clone(memory), Mixture(steps=2)).fit_stream(documents, h=3, short="pad")
    other = mixture.empty_like().partial_fit_stream([STREAM[3:8]], h=3, short="pad")
    yield "mixture fit_stream", mixture.snapshot, lambda model: model.fit_stream(documents[1:], h=3, short="pad")
    yield "mixture partial_fit_stream", mixture.snapshot, lambda model: model.partial_fit_stream(last, h=3, short="pad")
    yield "mixture forget_stream", mixture.snapshot, lambda model: model.forget_stream(last, short="pad")
    yield "mixture merge", mixture.snapshot, lambda model: model.merge(other)
    yield "mixture refit", mixture.snapshot, lambda model: model.refit()


def state(model: Any) -> Any:
    """Return all that a user can see: bytes, answers and fitted attributes."""
    if isinstance(model, Rolling):
        held = [(rows.tokens.tolist(), rows.labels.tolist(), rows.counts.tolist()) for rows in _held_rows(model)]
        return state(model.estimator_), held, model.n_examples_, model._clock, model._newest
    memory = model.memory_ if isinstance(model, MemoryClassifier) else model
    seen: list[Any] = [memory.state_bytes(), memory.layout(), memory.declared.tolist()]
    if isinstance(model, MemoryClassifier):
        attributes = ("label_dtype_", "n_features_in_", "version_")
        seen += [repr(getattr(model, name)) for name in attributes] + [model.classes_.tolist(), repr(model.sites_)]
        queries = X[:4, : model.n_features_in_]
        seen += [model.class_scores(queries).tolist(), model.predict(queries).tolist()]
        seen += [{name: array.tolist() for name, array in model.vote_.state().items()}]
    return repr(seen)


def _held_rows(window: Any) -> Iterator[Any]:
    chunks = window._chunks
    while chunks:
        chunk, chunks = chunks.pop()
        yield chunk.rows


def places(make: Callable[[], Any], call: Callable[[Any], Any], *, opcodes: bool) -> int:
    """Return how many places a call has; it runs once before, so that caches and imports are not counted."""
    call(make())
    with Injector(None, opcodes=opcodes) as counter:
        call(make())
    return counter.seen


def states(make: Callable[[], Any], call: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return the state before a call and after it."""
    model = make()
    before = state(make())
    call(model)
    return before, state(model)


def inject(make: Callable[[], Any], call: Callable[[Any], Any], at: int, known: tuple[Any, Any], opcodes: bool) -> str:
    """Return whether the state is that "before" the call, or "after" it, or what else was found."""
    model = make()
    with Injector(at, opcodes=opcodes):
        try:
            call(model)
        except Injected:
            pass
        else:
            return "finished"
    if _versions.lock_of(model)._is_owned():
        return "LOCK KEPT"
    found = state(model)
    if found not in known:
        return "HALF"
    if found == known[1]:
        return "after"
    again = copy.copy(model)
    call(again)
    return "before" if state(again) == known[1] else "BROKEN FOR THE NEXT CALL"


def main(seconds: float | None, seed: int, pattern: str) -> int:
    began, total, rng = time.monotonic(), Counter[str](), random.Random(seed)
    plans = []
    for memory in MEMORIES:
        for name, make, call in calls(memory):
            kinds = (False, True) if name in ("partial_fit", "forget") else (False,)
            if re.search(pattern, f"{memory!r} {name}"):
                plans += [(memory, name, make, call, opcodes) for opcodes in kinds]
    if seconds is not None:
        rng.shuffle(plans)
    for n, (memory, name, make, call, opcodes) in enumerate(plans):
        number, known = places(make, call, opcodes=opcodes), states(make, call)
        chosen = list(range(number))
        if seconds is not None:
            rng.shuffle(chosen)
        counted: Counter[str] = Counter()
        share = None if seconds is None else (seconds - (time.monotonic() - began)) / (len(plans) - n)
        until = None if share is None else time.monotonic() + share
        for at in chosen:
            counted[inject(make, call, at, known, opcodes)] += 1
            if until is not None and time.monotonic() > until:
                break
        kind = "opcodes" if opcodes else "lines"
        print(f"{memory!r} {name}, {sum(counted.values())} of {number} {kind}:", dict(counted), flush=True)
        total += counted
    bad = {name: count for name, count in total.items() if name not in ("before", "after", "finished")}
    print("places tried:", sum(total.values()), "half states:", sum(bad.values()), bad, dict(total))
    return int(bool(bad))


if __name__ == "__main__":
    asked, seed, pattern = sys.argv[1:] + ["60", "0", ""][len(sys.argv) - 1 :]
    sys.exit(main(None if asked == "all" else float(asked), int(seed), pattern))
