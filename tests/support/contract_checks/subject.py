"""A memory on trial: how one is made for some sites, and what "the same" means for it.

A state of integers is compared to the byte. A state that holds floats is compared to rounding: that is seen from the
types of its arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from contract_checks.batches import Batch, examples
from contract_checks.promises import require, require_close, require_equal
from hammemo.memories import Exact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory
    from hammemo.memories.reader import Compiled, Reader

STATE_ROUNDING = 1e-11
"""How far float64 numbers of two states may be apart: counts are small here."""

SINGLE_ROUNDING = 2e-4
"""How far float32 answers may be from float64 ones."""

ANSWER_ROUNDING = 1e-10
"""How far two sums of float64 numbers may be apart."""


@dataclass(frozen=True)
class Subject:
    """A memory on trial, for some sites.

    Parameters
    ----------
    make : callable
        From sites to a memory that was not opened, each time a new one.
    sites : Sites
    forms : tuple of str
        The compiled forms that it knows for these sites.
    seed : int
        What memories are opened with.
    exact_answers : bool
        Whether answers must agree to the bit even where they are not whole numbers; whole numbers always must, where
        the state is made of integers.
    """

    make: Callable[[Sites], Memory]
    sites: Sites
    forms: tuple[str, ...] = ()
    seed: int = 1
    exact_answers: bool = False

    def __str__(self) -> str:
        return f"{self.make(self.sites)!r} on the sites {list(self.sites.positions)}"

    def at(self, sites: Sites) -> Subject:
        """Return the same memory for other sites."""
        return replace(self, sites=sites)

    def opened(self) -> Memory:
        """Return a memory with nothing stored and a settled layout, so that any two of them can be compared."""
        memory = self.make(self.sites).open(self.sites, self.seed)
        if not memory.list_undecided():
            return memory
        h = self.sites.h
        rows: Batch = [(([0, "a", "ß"] * h)[:h], "yes", 2), (([0, 1, 2] * h)[:h], "no", 1)]
        memory.add(examples(rows))
        return memory.empty_like()

    def learnt(self, *batches: Batch) -> Memory:
        """Return a memory that has stored these batches, one after the other."""
        memory = self.opened()
        for batch in batches:
            memory.add(examples(batch))
        return memory

    def exact(self, *batches: Batch) -> Exact:
        """Return the exact counts of the same batches: the truth."""
        exact = Exact().open(self.sites)
        for batch in batches:
            exact.add(examples(batch))
        return exact

    def compiled(self, memory: Memory) -> Iterator[Compiled]:
        """Return the memory in the default compiled form and in all others that are known."""
        yield memory.compile()
        for form in self.forms:
            yield memory.compile(form)

    def readers(self, memory: Memory) -> Iterator[Reader]:
        """Return the memory's reader and its compiled forms."""
        yield memory.reader()
        yield from self.compiled(memory)


def answers_exactly(subject: Subject, memory: Memory, scores: NDArray[Any]) -> bool:
    """Return whether these scores must come out the same, to the bit, in every way to compute them."""
    return subject.exact_answers or (not holds_floats(memory) and np.array_equal(scores, np.round(scores)))


def holds_floats(memory: Memory) -> bool:
    """Return whether a part of the state is made of floats."""
    return any(array.dtype.kind == "f" for array in memory.state().values())


def require_same_state(memory: Memory, expected: Memory) -> None:
    """Raise AssertionError unless two states agree: integers to the byte, floats to rounding."""
    if not holds_floats(memory) and not holds_floats(expected):
        require_same_bytes(memory, expected)
        return
    state, expected_state = memory.state(), expected.state()
    require(state.keys() == expected_state.keys(), f"the states hold {sorted(state)} and {sorted(expected_state)}")
    for name, array in state.items():
        if array.dtype.kind == "f":
            atol = STATE_ROUNDING if array.dtype.itemsize >= 8 else SINGLE_ROUNDING
            require_close(array, expected_state[name], f"the array {name} of the state", atol=atol)
        else:
            require_equal(array, expected_state[name], f"the array {name} of the state")


def require_same_bytes(memory: Memory, expected: Memory | bytes) -> None:
    """Raise AssertionError unless the canonical bytes are the same; the message names the array that differs."""
    wanted = expected if isinstance(expected, bytes) else expected.state_bytes()
    if memory.state_bytes() == wanted:
        return
    if not isinstance(expected, bytes):
        state, expected_state = memory.state(), expected.state()
        require(state.keys() == expected_state.keys(), f"the states hold {sorted(state)} and {sorted(expected_state)}")
        for name, array in state.items():
            require_equal(array, expected_state[name], f"the array {name} of the state")
            require(array.dtype == expected_state[name].dtype, f"the array {name} of the state has two types")
        require(memory.layout() == expected.layout(), f"the layouts are {memory.layout()} and {expected.layout()}")
    raise AssertionError("the bytes of the state differ")


def require_same_answers(found: NDArray[Any], expected: NDArray[Any], what: str, *, exactly: bool) -> None:
    """Raise AssertionError unless answers agree, exactly or to rounding."""
    if exactly:
        require_equal(found, expected, what)
    else:
        single = "float32" in (found.dtype.name, expected.dtype.name)
        require_close(found, expected, what, atol=SINGLE_ROUNDING if single else ANSWER_ROUNDING)
