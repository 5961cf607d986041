"""A memory on trial: how one is made for some sites, and what "the same" means for it.

A state of integers is compared to the byte. A state that holds floats is compared to rounding: that
is seen from the types of its arrays.
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
        Whether answers must agree to the bit even where they are not whole numbers; whole numbers
        always must, where the state is made of integers.
    """

    make: Callable[[Sites], Memory]
    sites: Sites
    forms: tuple[str, ...] = ()
    seed: int = 1
    exact_answers: bool = False

    def __str__(self) -> str:
        return f"{self.make(self.sites)!r} on the sites {list(self.sites.positions)}"

    def with_sites(self, sites: Sites) -> Subject:
        """Return the same memory for other sites."""
        return replace(self, sites=sites)

    def open_memory(self) -> Memory:
        """Return a memory with nothing stored and a settled layout.

        Any two of them can be compared. A layout that waits for the first examples is settled by
        two fixed ones.
        """
        memory = self.make(self.sites).open(self.sites, self.seed)
        if not memory.list_undecided():
            return memory
        h = self.sites.h
        rows: Batch = [(([0, "a", "ß"] * h)[:h], "yes", 2), (([0, 1, 2] * h)[:h], "no", 1)]
        memory.add(examples(rows))
        return memory.empty_like()

    def learn(self, *batches: Batch) -> Memory:
        """Return a memory that has stored these batches, one after the other."""
        memory = self.open_memory()
        for batch in batches:
            memory.add(examples(batch))
        return memory

    def learn_exactly(self, *batches: Batch) -> Exact:
        """Return the exact counts of these batches: the truth."""
        exact = Exact().open(self.sites)
        for batch in batches:
            exact.add(examples(batch))
        return exact

    def compile_all(self, memory: Memory) -> Iterator[Compiled]:
        """Return the memory in the default compiled form and in all others that are known."""
        yield memory.compile()
        for form in self.forms:
            yield memory.compile(form)

    def readers(self, memory: Memory) -> Iterator[Reader]:
        """Return the memory's reader and its compiled forms."""
        yield memory.reader()
        yield from self.compile_all(memory)


def must_answer_exactly(subject: Subject, memory: Memory, scores: NDArray[Any]) -> bool:
    """Return whether these scores must be the same, to the bit, in every way to compute them."""
    if subject.exact_answers:
        return True
    return not holds_floats(memory) and np.array_equal(scores, np.round(scores))


def holds_floats(memory: Memory) -> bool:
    """Return whether a part of the state is made of floats."""
    return any(array.dtype.kind == "f" for array in memory.state().values())


def require_same_state(memory: Memory, expected: Memory) -> None:
    """Raise AssertionError unless two states agree: integers to the byte, floats to rounding."""
    if not holds_floats(memory) and not holds_floats(expected):
        require_same_bytes(memory, expected)
        return
    state = memory.state()
    expected_state = expected.state()
    require(
        state.keys() == expected_state.keys(),
        f"the states hold {sorted(state)} and {sorted(expected_state)}",
    )
    for name, array in state.items():
        if array.dtype.kind == "f":
            atol = STATE_ROUNDING if array.dtype.itemsize >= 8 else SINGLE_ROUNDING
            require_close(array, expected_state[name], f"the array {name} of the state", atol=atol)
        else:
            require_equal(array, expected_state[name], f"the array {name} of the state")


def require_same_bytes(memory: Memory, expected: Memory | bytes) -> None:
    """Raise AssertionError unless the canonical bytes are the same.

    Of two memories, the message names the array that differs.
    """
    if isinstance(expected, bytes):
        require(memory.state_bytes() == expected, "the bytes of the state differ")
    elif memory.state_bytes() != expected.state_bytes():
        state = memory.state()
        expected_state = expected.state()
        require(
            state.keys() == expected_state.keys(),
            f"the states hold {sorted(state)} and {sorted(expected_state)}",
        )
        for name, array in state.items():
            require_equal(array, expected_state[name], f"the array {name} of the state")
            require(
                array.dtype == expected_state[name].dtype,
                f"the array {name} of the state has two types",
            )
        require(
            memory.layout() == expected.layout(),
            f"the layouts are {memory.layout()} and {expected.layout()}",
        )
        raise AssertionError("the bytes of the state differ")


def require_same_answers(
    answers: NDArray[Any], expected: NDArray[Any], what: str, *, exactly: bool
) -> None:
    """Raise AssertionError unless answers agree, exactly or to rounding."""
    if exactly:
        require_equal(answers, expected, what)
    else:
        is_single = np.float32 in (answers.dtype, expected.dtype)
        atol = SINGLE_ROUNDING if is_single else ANSWER_ROUNDING
        require_close(answers, expected, what, atol=atol)
